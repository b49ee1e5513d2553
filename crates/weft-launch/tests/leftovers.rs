//! Expect: no process that was started stays, however the job ends.

mod common;

use common::{Run, TWO_HOSTS, await_processes, command, mark, processes, run, signal};
use std::time::Duration;

/// Ranks that start two processes of their own, one of which leaves the rank's process group.
fn with_grandchildren(mark: &str) -> String {
    format!("sh -c sleep|{mark}|&|setsid|sleep|{mark}|&|exec|sleep|{mark}")
}

#[test]
fn killing_mpiexec_leaves_nobody() {
    for (number, hosts) in [(11, ""), (12, TWO_HOSTS)] {
        let mark = mark(number);
        let job = Run::start(command(&format!("{hosts} -n 2 {}", with_grandchildren(&mark))), b"");
        let launchers = if hosts.is_empty() { 2 } else { 1 };
        await_processes(&mark, 2 * 3 + launchers);
        job.signal("KILL");
        assert_eq!(job.wait().status, -9);
        await_processes(&mark, 0);
    }
}

#[test]
fn killing_mpiexec_leaves_no_agent() {
    let mark = mark(13);
    let job = Run::start(command(&format!("--agent env|WEFT_NODE={mark} --hosts h0 -n 1 sleep 600")), b"");
    std::thread::sleep(Duration::from_millis(300));
    job.signal("KILL");
    job.wait();
    await_processes(&mark, 0);
    // A command that has not become an agent yet must not stay either.
    let job = Run::start(command(&format!("--agent sh|-c|'exec|sleep|{mark}' --hosts h0 -n 1 true")), b"");
    await_processes(&mark, 2);
    job.signal("KILL");
    job.wait();
    await_processes(&mark, 0);
}

/// The agent of one of the ranks; the ranks run `sleep` with this mark.
fn an_agent(mark: &str, job: &Run) -> u32 {
    let ranks = processes(&format!("sleep\0{mark}"));
    let rank = *ranks.iter().find(|&&pid| pid != job.child.id()).expect("a rank");
    let stat = std::fs::read_to_string(format!("/proc/{rank}/stat")).expect("it lives");
    stat.rsplit_once(") ").expect("a name").1.split(' ').nth(1).expect("a parent").parse().expect("a pid")
}

#[test]
fn a_lost_agent_ends_the_job() {
    let mark = mark(14);
    let job = Run::start(command(&format!("{TWO_HOSTS} -n 2 sleep {mark}")), b"");
    await_processes(&mark, 3);
    signal(an_agent(&mark, &job), "KILL");
    job.wait().expect(1).says("is lost: its command died by signal 9");
    await_processes(&mark, 0);
}

#[test]
fn what_ranks_leave_behind_is_killed() {
    let mark = mark(15);
    run(&format!("-n 2 sh -c sleep|{mark}|&|setsid|sleep|{mark}|&|exit|0")).expect(0);
    assert_eq!(processes(&mark), []);
    run(&format!("-n 2 sh -c sleep|{mark}|&|setsid|sleep|{mark}|&|exit|1")).expect(1);
    assert_eq!(processes(&mark), []);
}

#[test]
fn a_job_that_fails_takes_everybody_along() {
    let mark = mark(16);
    let script = format!("if|test|$PMI_RANK|=|3;|then|exit|4;|fi;|setsid|sleep|{mark}|&|exec|sleep|{mark}");
    run(&format!("{TWO_HOSTS} -n 4 sh -c {script}")).expect(4).says("rank 3 on h1 exited with status 4");
    assert_eq!(processes(&mark), []);
}

#[test]
fn many_ranks_on_few_processors_work() {
    let outcome = run("-n 32 PEER meet done").expect(0);
    assert_eq!(outcome.out.matches("of 32 met all").count(), 32);
}

#[test]
fn a_host_that_falls_silent_ends_the_job() {
    // A host that loses power: its connection stays open, and nothing comes through it any more.
    let mark = mark(17);
    let job = Run::start(command(&format!("--host-timeout 2 {TWO_HOSTS} -n 2 sleep {mark}")), b"");
    await_processes(&mark, 3);
    let agent = an_agent(&mark, &job);
    signal(agent, "STOP");
    let outcome = job.wait().expect(1);
    outcome
        .says("the host h")
        .says(" has not answered for 2 s: it or the way to it has failed; ending the other rank\n");
    assert_eq!(outcome.err.lines().count(), 1, "one line is enough: {outcome:?}");
    await_processes(&mark, 0);
}

#[test]
fn a_quiet_job_is_not_a_silent_host() {
    run(&format!("--host-timeout 1 {TWO_HOSTS} -n 2 sleep 3")).expect(0);
    run(&format!("--host-timeout 0 {TWO_HOSTS} -n 2 true")).expect(0);
}

#[test]
fn a_host_without_heartbeats_ends_the_job() {
    let mark = mark(20);
    let job = Run::start(command(&format!("--heartbeat 1 {TWO_HOSTS} -n 2 sleep {mark}")), b"");
    await_processes(&mark, 3);
    signal(an_agent(&mark, &job), "STOP");
    let outcome = job.wait().expect(1);
    outcome.says("the host h").says(": it or the way to it has failed; ending the other rank\n");
    assert_eq!(outcome.err.lines().count(), 1, "one line is enough: {outcome:?}");
    await_processes(&mark, 0);
}

#[test]
fn hosts_with_heartbeats_are_missed_by_nobody_when_their_ranks_have_ended() {
    // The first rank ends long before the second, and a job that is stopped is no silent one.
    let mark = mark(21);
    let script = format!("sleep|$((PMI_RANK*8));|:|{mark}");
    let job = Run::start(command(&format!("--heartbeat 0.5 {TWO_HOSTS} -n 2 sh -c {script}")), b"");
    // The first rank has ended.
    await_processes(&mark, 2);
    job.signal("TSTP");
    std::thread::sleep(Duration::from_secs(2));
    job.signal("CONT");
    let outcome = job.wait().expect(0);
    assert_eq!(outcome.err, "", "nobody is accused");
}

#[test]
fn a_limit_of_heartbeats_that_no_agent_can_keep_is_refused() {
    run("--heartbeat 0.1 -n 1 true").expect(2).says("--heartbeat needs at least 0.5 s, not `0.1`");
    run("--heartbeat 0 -n 1 true").expect(0);
    let mut wrong = command("-n 1 true");
    wrong.env("WEFT_HEARTBEAT", "soon");
    Run::start(wrong, b"").wait().expect(2).says("WEFT_HEARTBEAT needs a time in seconds, not `soon`");
}

#[test]
fn an_mpiexec_that_falls_silent_leaves_nobody_on_other_hosts() {
    let mark = mark(18);
    let job = Run::start(command(&format!("--host-timeout 1 {TWO_HOSTS} -n 2 sleep {mark}")), b"");
    await_processes(&mark, 3);
    job.signal("STOP");
    // The stopped mpiexec itself stays.
    await_processes(&mark, 1);
    job.signal("KILL");
    job.wait();
}

#[test]
fn a_stopped_job_is_not_a_silent_one() {
    let mark = mark(19);
    let script = format!("sleep|6;|:|{mark}");
    let job = Run::start(command(&format!("--host-timeout 1 {TWO_HOSTS} -n 2 sh -c {script}")), b"");
    await_processes(&mark, 3);
    job.signal("TSTP");
    // Longer than the agents' patience with an mpiexec that has not said that it stops.
    std::thread::sleep(Duration::from_secs(5));
    job.signal("CONT");
    job.wait().expect(0);
}
