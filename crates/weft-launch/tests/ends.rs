//! Tests of the end of a job: the status, the one line with the reason, and that no rank waits for ever.

mod common;

use common::{Ready, Run, TWO_HOSTS, await_processes, command, mark, processes, run};
use std::time::Duration;

#[test]
fn success_is_silent() {
    let outcome = run("-n 4 true").expect(0);
    assert_eq!((outcome.out.as_str(), outcome.err.as_str()), ("", ""));
}

#[test]
fn a_rank_that_dies_by_signal_is_named_with_its_call() {
    let outcome = run(&format!("{TWO_HOSTS} -n 4 PEER call=1 meet 3@signal=9 barrier done")).expect(128 + 9);
    outcome.says("mpiexec: rank 3 on h1 died by signal 9 (SIGKILL").says("in MPI_Recv; ending the other 3 ranks\n");
    assert_eq!(outcome.err.lines().count(), 1, "one line is enough: {outcome:?}");
}

#[test]
fn a_rank_outside_calls_is_said_to_be_outside() {
    run("-n 2 PEER call=1 call=-1 0@signal=11 sleep=60000")
        .expect(139)
        .says("(SIGSEGV, invalid memory access) outside MPI calls");
}

#[test]
fn the_first_failing_rank_gives_the_status() {
    run("-n 3 PEER 1@exit=7 sleep=60000 done").expect(7).says("rank 1 on").says("exited with status 7");
    // A program without MPI ends the job in the same way.
    run("-n 2 sh -c exit|3").expect(3).says("exited with status 3");
}

#[test]
fn abort_gives_its_code_and_its_words() {
    let outcome = run("-n 3 PEER 1@abort=9 sleep=60000 done").expect(9);
    outcome.says("rank 1 on").says("called MPI_Abort with code 9: the example was told to; ending the other 2 ranks");
    run("-n 1 PEER abort=256").expect(1);
}

#[test]
fn output_before_an_abort_is_not_lost() {
    let outcome = run("-n 2 PEER 1@say=last|words 1@abort=2 sleep=60000").expect(2);
    assert_eq!(outcome.out, "last words\n");
}

#[test]
fn a_rank_that_leaves_without_finalize_ends_those_that_wait() {
    run("-n 2 PEER 1@exit=0 barrier done")
        .expect(1)
        .says("exited with status 0 without MPI_Finalize while rank 0 waits");
    run("-n 2 PEER 1@exit=0 sleep=60000").expect(1).says("without MPI_Finalize");
}

#[test]
fn a_rank_that_never_joins_ends_those_that_wait() {
    let script = "test|$PMI_RANK|=|1|&&|exit|0;|exec|PEER|barrier|done";
    run(&format!("-n 2 sh -c {script}")).expect(1).says("rank 1 on").says("before MPI_Init while rank 0 waits for it");
}

#[test]
fn all_may_leave_without_mpi_but_not_without_finalize() {
    // Expect the same whether or not the ranks leave together.
    run("-n 2 PEER exit=0").expect(1).says("without MPI_Finalize");
    run("-n 2 PEER 1@sleep=1500 exit=0").expect(1).says("without MPI_Finalize");
    run("-n 2 sh -c if|test|$PMI_RANK|=|0;|then|sleep|2;|fi").expect(0);
    run("-n 2 PEER meet done sleep=1500").expect(0);
}

#[test]
fn programs_may_follow_each_other_in_a_rank() {
    let outcome = run("-n 2 sh -c PEER|meet|done&&PEER|meet|done").expect(0);
    assert_eq!(outcome.out.matches("met all").count(), 4);
}

#[test]
fn a_missing_program_is_named_with_its_host() {
    for hosts in ["", "--agent env --hosts h0,h1"] {
        run(&format!("{hosts} -n 2 /no/such/program")).expect(127).says("there is no file /no/such/program");
        run(&format!("{hosts} -n 2 no-such-program")).expect(127).says("there is no program no-such-program in PATH");
        run(&format!("{hosts} -n 2 /etc/passwd")).expect(126).says("/etc/passwd is not executable");
    }
    run("--agent env --hosts h7 -n 2 /no/such").expect(127).says("rank 0 on h7 was not started");
    run("-n 2 true : -n 1 /no/such").expect(127).says("rank 2 on");
    run("-wdir /no/such -n 1 true").expect(127).says("there is no directory /no/such");
}

#[test]
fn the_time_limit_says_where_everybody_is() {
    let outcome = run(&format!("--timeout 1.5 {TWO_HOSTS} -n 4 PEER call=1 3@call=2 sleep=60000")).expect(124);
    outcome.says("the time limit of 1.5 s is over; ending 4 ranks\n").says("  ranks 0-2 on 2 hosts: in MPI_Recv\n");
    outcome.says("  rank 3 on h1: in MPI_Barrier\n");
    assert!(outcome.took >= Duration::from_millis(1500), "{outcome:?}");
    run("--timeout 0.5 -n 1 sleep 60").expect(124).says("not in an MPI program");
    run("--timeout 60 -n 1 true").expect(0);
}

#[test]
fn control_c_ends_everything() {
    let mark = mark(1);
    for (name, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let job = Run::start(command(&format!("{TWO_HOSTS} -n 3 sleep {mark}")), b"");
        // The processes are the three ranks, and mpiexec, whose command line has the mark.
        await_processes(&mark, 4);
        job.signal(name);
        job.wait().expect(status).says(&format!("interrupted by SIG{name}; ending 3 ranks"));
        assert_eq!(processes(&mark), []);
    }
}

#[test]
fn nohup_and_background_jobs_are_respected() {
    let ready = Ready::new(4);
    let wait = |before: &str, rank: &str, signal: &str| {
        let rank = rank.replace("READY", &ready.say().replace('|', " "));
        let there = ready.say().replace('|', " ").replace("echo > ", "").replace("$PMI_RANK", "0");
        let mpiexec = common::MPIEXEC;
        let script = format!(
            "{before} {mpiexec} -n 1 bash -c '{rank}' & while ! test -e {there}; do sleep 0.02; done; \
             kill -{signal} $!; wait $!; echo $?; rm {there}"
        );
        let mut shell = common::with_default_signals("bash");
        shell.args(["-c", &script]);
        Run::start(shell, b"").wait().expect(0).out
    };
    // The loss of the terminal ends a job, but not under nohup, which starts it with SIGHUP ignored.
    assert_eq!(wait("", "READY; sleep 600", "HUP"), "129\n");
    assert_eq!(wait("nohup", "READY; sleep 1; echo stayed", "HUP"), "stayed\n0\n");
    // A shell script starts its background jobs with SIGINT ignored; ranks must get it.
    assert_eq!(
        wait("", r#"trap "echo heard; exit 0" INT; READY; while true; do sleep 0.02; done"#, "INT"),
        "heard\n130\n"
    );
}

#[test]
fn ranks_that_ignore_signals_are_killed() {
    let mark = mark(2);
    let ready = Ready::new(2);
    let script = format!("trap|''|INT|TERM;|{};|while|true;|do|sleep|0.1;|done;|:|{mark}", ready.say());
    let job = Run::start(command(&format!("-n 2 sh -c {script}")), b"");
    ready.wait(2);
    job.signal("INT");
    job.wait().expect(130);
    assert_eq!(processes(&mark), []);
}

#[test]
fn signals_for_programs_reach_all_ranks() {
    let ready = Ready::new(3);
    let script = format!("trap|'echo|got|it;|exit|0'|USR1;|{};|while|true;|do|sleep|0.05;|done", ready.say());
    let job = Run::start(command(&format!("{TWO_HOSTS} -n 2 sh -c {script}")), b"");
    ready.wait(2);
    job.signal("USR1");
    let outcome = job.wait().expect(0);
    assert_eq!(outcome.out.matches("got it\n").count(), 2);
}

#[test]
fn a_closed_output_ends_the_job_as_in_any_pipeline() {
    let script = format!("'{}' -n 2 yes | head -1; echo ${{PIPESTATUS[0]}}", common::MPIEXEC);
    let mut shell = common::with_default_signals("bash");
    shell.args(["-c", &script]);
    assert_eq!(Run::start(shell, b"").wait().expect(0).out, "y\n141\n");
}

#[test]
fn what_is_no_pmi_is_named() {
    run("-n 1 bash -c echo|hello|>&$PMI_FD;|sleep|60")
        .expect(1)
        .says("rank 0 on")
        .says("does not speak PMI-1.1: hello");
}

#[test]
fn names_can_be_published() {
    let script = "echo|cmd=publish_name|service=s|port=p|>&$PMI_FD;|read|-r|line|<&$PMI_FD;|echo|$line;\
                  echo|cmd=lookup_name|service=s|>&$PMI_FD;|read|-r|line|<&$PMI_FD;|echo|$line;\
                  echo|cmd=unpublish_name|service=s|>&$PMI_FD;|read|-r|line|<&$PMI_FD;|echo|$line;\
                  echo|cmd=lookup_name|service=s|>&$PMI_FD;|read|-r|line|<&$PMI_FD;|echo|$line";
    let outcome = run(&format!("-n 1 bash -c {script}")).expect(0);
    let lines: Vec<&str> = outcome.out.lines().collect();
    assert_eq!(lines[0], "cmd=publish_result info=ok rc=0 msg=success");
    assert_eq!(lines[1], "cmd=lookup_result info=ok rc=0 port=p");
    assert_eq!(lines[2], "cmd=unpublish_result info=ok rc=0 msg=success");
    assert!(lines[3].contains("rc=-1"), "{lines:?}");
}
