//! Tests of jobs that ranks spawn: they start or say why not, and a family of jobs ends together.

mod common;

use common::{
    LIMIT, MPIEXEC, Outcome, Ready, Run, TWO_HOSTS, await_processes, command, mark, peer, processes, run, signal,
};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The step by which rank 0 spawns these programs, in which `|` stands for a blank.
fn spawn(programs: &str) -> String {
    format!("0@spawn={}", programs.replace(' ', "|"))
}

/// A process without a launcher that takes these steps, with Weft's `mpiexec` first in `PATH`.
fn singleton(line: &str) -> Command {
    let command = command(line);
    let own = Path::new(MPIEXEC).parent().expect("a directory");
    let path = format!("{}:{}", own.display(), std::env::var("PATH").unwrap_or_default());
    let mut alone = common::with_default_signals(&peer());
    alone.args(command.get_args().skip(2)).env("PATH", path);
    for (name, value) in command.get_envs() {
        if value.is_none() {
            alone.env_remove(name);
        }
    }
    alone
}

fn count(outcome: &Outcome, line: &str) -> usize {
    outcome.out.lines().filter(|other| *other == line).count()
}

#[test]
fn spawned_ranks_are_a_job_of_their_own_and_find_the_port() {
    for hosts in ["", TWO_HOSTS] {
        let steps = spawn("3 PEER parent meet done + 1 PEER parent meet done");
        let outcome = run(&format!("{hosts} -n 2 PEER meet parent {steps} 0@ended=1 done")).expect(0);
        assert_eq!(count(&outcome, "parent None"), 2, "{outcome:?}");
        assert_eq!(count(&outcome, "parent Some(\"the port\")"), 4, "{outcome:?}");
        assert_eq!(outcome.out.matches("of 4 met all").count(), 4, "{outcome:?}");
        assert_eq!(outcome.out.matches("appnum Some(1)").count(), 1, "{outcome:?}");
        assert_eq!(count(&outcome, "spawned 1 of 4"), 1);
        assert_eq!(count(&outcome, "job 1: all its processes have ended"), 1);
        assert_eq!(outcome.err, "");
    }
}

#[test]
fn a_spawned_job_has_the_hosts_of_its_parent_or_those_that_are_named() {
    let on = |info: &str| {
        let steps = spawn(&format!("{info}4 PEER env=WEFT_NODE done"));
        let outcome = run(&format!("{TWO_HOSTS} -n 2 PEER {steps} 0@ended=1 done")).expect(0);
        ["h0", "h1", "h2"].map(|host| count(&outcome, &format!("WEFT_NODE={host}")))
    };
    assert_eq!(on(""), [2, 2, 0]);
    assert_eq!(on("host:=h2,h1 "), [0, 2, 2]);
    assert_eq!(on("add-host:=h2 "), [2, 1, 1]);
}

#[test]
fn info_keys_change_directory_environment_and_number() {
    let directory = std::env::temp_dir().canonicalize().expect("a directory");
    let info = format!("wdir:={} env:=A=1\\nB=2 unknown:=key soft:=2,9", directory.display());
    let steps = spawn(&format!("{info} 4 PEER env=A env=B where done"));
    let outcome = run(&format!("-n 1 PEER {steps} ended=1 done")).expect(0);
    for line in ["A=1", "B=2", &format!("rank 1 of 2 in {}", directory.display())] {
        assert!(count(&outcome, line) > 0, "{line}: {outcome:?}");
    }
    assert_eq!(count(&outcome, "process 1: runs"), 1);
    assert_eq!(count(&outcome, "process 3: the info key soft asks for 2 of 4 processes"), 1);
}

/// Every failure is told to the rank that spawns, the job goes on, and the next spawn works.
#[test]
fn a_spawn_that_fails_says_why_for_each_process_and_leaves_nobody() {
    let mark = mark(31);
    let ran = format!("2 sleep {mark} + ");
    for (programs, process, reason) in [
        ("2 /no/such/program".to_owned(), 1, "there is no file /no/such/program"),
        (format!("{ran}1 no-such-program"), 2, "there is no program no-such-program in PATH"),
        (format!("{ran}1 no-such-program"), 0, "the spawn is given up because rank 2 on h"),
        (format!("{ran}wdir:=/no/such 1 true"), 2, "there is no directory /no/such"),
        (format!("{ran}host:=-x 1 true"), 2, "host: `-x` is no host name"),
        (format!("{ran}hostfile:=/no/such 1 true"), 2, "the hostfile /no/such cannot be read"),
        (format!("{ran}soft:=7 1 true"), 2, "soft 7: none of these numbers"),
        (format!("{ran}host:=bad 1 true"), 2, "the host bad cannot be reached"),
    ] {
        let steps = spawn(&programs);
        let hosts = "--agent sh|-c|'test|{host}|!=|bad|&&|WEFT_NODE={host}|exec|\"$@\"'|x --hosts h0,h1";
        let outcome = run(&format!("{hosts} -n 2 PEER meet {steps} {} 0@ended=2 done", spawn("1 PEER done"))).expect(0);
        let said = format!("process {process}: {reason}");
        assert!(outcome.out.lines().any(|line| line.starts_with(&said)), "{said}: {outcome:?}");
        assert_eq!(count(&outcome, "spawned 2 of 1"), 1, "{outcome:?}");
        assert_eq!(processes(&mark), []);
    }
}

#[test]
fn jobs_may_end_before_and_after_each_other() {
    let outcome = run(&format!("-n 2 PEER {} done", spawn("2 PEER sleep=300 say=late done"))).expect(0);
    assert_eq!((count(&outcome, "late"), outcome.err.as_str()), (2, ""));
    let outcome = run(&format!("-n 2 PEER {} 0@ended=1 sleep=100 say=late done", spawn("2 PEER done"))).expect(0);
    assert_eq!(count(&outcome, "late"), 2);
}

#[test]
fn a_family_ends_when_a_rank_of_any_job_fails() {
    let mark = mark(32);
    for hosts in ["", TWO_HOSTS] {
        // A rank of the spawned job is killed, aborts, or fails.
        for (end, status, says) in [
            ("kill//-9//$$", 137, "died by signal 9 (SIGKILL"),
            ("echo//cmd=abort//exitcode=7//>&$PMI_FD;//sleep//600", 7, "called MPI_Abort with code 7"),
            ("exit//5", 5, "exited with status 5"),
        ] {
            let ready = Ready::new(32);
            let wait = format!("until//test//-e//{}/0;//do//sleep//0.02;//done", ready.path());
            let script = format!("test//$PMI_RANK//=//1//&&//{{//{wait};//{end};//}};//exec//sleep//{mark}");
            let steps = spawn(&format!("2 bash -c {script}"));
            let outcome =
                run(&format!("{hosts} -n 2 PEER meet {steps} 0@touch={}/0 sleep=600000", ready.path())).expect(status);
            outcome.says("mpiexec: in spawned job 1 (bash), rank 1 on ").says(says);
            outcome.says("; ending the other 2 ranks\n");
            assert_eq!(outcome.err.lines().count(), 1, "one line is enough: {outcome:?}");
            await_processes(&mark, 0);
        }
        // A rank of the first job fails.
        let steps = spawn(&format!("2 sleep {mark}"));
        let outcome = run(&format!("{hosts} -n 2 PEER meet {steps} 0@exit=3 sleep=600000")).expect(3);
        outcome.says("rank 0 on ").says("; ending the other rank and 1 spawned job\n");
        await_processes(&mark, 0);
    }
}

#[test]
fn interrupts_and_time_limits_end_all_jobs() {
    let mark = mark(33);
    let line = format!("-n 1 PEER {}", spawn(&format!("2 sleep {mark}")));
    let ready = Ready::new(33);
    let job = Run::start(command(&format!("{line} touch={}/0 sleep=600000", ready.path())), b"");
    ready.wait(1);
    job.signal("INT");
    let outcome = job.wait().expect(130);
    outcome.says("interrupted by SIGINT; ending 1 rank and 1 spawned job\n  rank 0 on ");
    outcome.says("\nspawned job 1 (sleep):\n  ranks 0-1 on ");
    await_processes(&mark, 0);
    run(&format!("--timeout 3 {line} sleep=600000")).expect(124).says("ending 1 rank and 1 spawned job");
    await_processes(&mark, 0);
}

#[test]
fn killing_an_mpiexec_leaves_nobody() {
    let mark = mark(34);
    let (first, second) = (Ready::new(34), Ready::new(36));
    let line = |ready: &Ready| {
        format!("-n 1 PEER {} touch={}/0 sleep=600000", spawn(&format!("2 sleep {mark}")), ready.path())
    };
    let job = Run::start(command(&line(&first)), b"");
    first.wait(1);
    job.signal("KILL");
    job.wait();
    await_processes(&mark, 0);
    // The mpiexec of the spawned job alone.
    let job = Run::start(command(&line(&second)), b"");
    second.wait(1);
    let spawned = processes("--weft-spawned").into_iter().filter(|pid| processes(&mark).contains(pid));
    let parent = |pid: u32| -> u32 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        stat.rsplit_once(") ").expect("a name").1.split(' ').nth(1).expect("a parent").parse().expect("a pid")
    };
    let spawned = spawned.filter(|&pid| parent(pid) == job.child.id()).collect::<Vec<u32>>();
    signal(spawned[0], "KILL");
    job.wait().expect(1).says("of spawned job 1 (sleep) this is known: its mpiexec died by signal 9");
    await_processes(&mark, 0);
}

#[test]
fn others_go_on_where_that_is_asked_for() {
    let steps = spawn("1 PEER exit=6");
    let outcome = run(&format!("--disable-auto-cleanup -n 1 PEER {steps} ended=1 say=on done")).expect(6);
    outcome.says("in spawned job 1 (").says("exited with status 6; the others go on\n");
    assert_eq!(count(&outcome, "on"), 1);
}

#[test]
fn names_are_known_to_the_whole_family_and_ranks_of_all_jobs_spawn() {
    let inner = spawn("1 PEER say=inner done").replace('|', "//");
    let steps = spawn(&format!("1 PEER lookup=a publish=b {inner} 0@ended=2 done"));
    let outcome = run(&format!("-n 1 PEER publish=a {steps} ended=1 lookup=b done")).expect(0);
    for line in ["a is Some(\"port of a\")", "b is Some(\"port of b\")", "spawned 2 of 1", "inner"] {
        assert_eq!(count(&outcome, line), 1, "{line}: {outcome:?}");
    }
}

#[test]
fn lines_stay_whole_and_labels_tell_jobs_apart() {
    let outcome = run(&format!("-l -n 2 PEER say=a {} done", spawn("2 PEER say=b done"))).expect(0);
    let said: Vec<&str> = outcome.lines().into_iter().filter(|line| !line.contains("spawned")).collect();
    assert_eq!(said, ["[0] a", "[1:0] b", "[1:1] b", "[1] a"]);
    // Long lines of two jobs at a time.
    let script = "i=0;//while//[//$i//-lt//300//];//do//echo//$(printf//%05000d//7);//i=$((i+1));//done";
    let own = script.replace("//", "|");
    let steps = spawn(&format!("2 sh -c {script}"));
    let outcome = run(&format!("-n 1 PEER {steps} done : -n 2 sh -c {own}")).expect(0);
    let whole = outcome.out.lines().filter(|line| line.len() == 5000).count();
    assert_eq!((whole, outcome.out.lines().count()), (1200, 1201));
}

#[test]
fn many_spawns_leave_nothing_behind() {
    let outcome = run("-n 1 PEER descriptors spawns=100|2|true descriptors done").expect(0);
    let counts: Vec<&str> = outcome.out.lines().filter(|line| line.starts_with("descriptors")).collect();
    assert_eq!((counts.len(), counts[0]), (2, counts[1]), "{outcome:?}");
    assert_eq!(outcome.out.matches("all its processes have ended").count(), 100);
}

#[test]
fn a_process_without_a_launcher_spawns() {
    let steps = "spawn=2|PEER|parent|meet|done ended=1 spawn=1|PEER|say=second|done ended=2";
    let outcome = Run::start(singleton(&format!("{steps} done")), b"").wait().expect(0);
    assert_eq!(count(&outcome, "parent Some(\"the port\")"), 2, "{outcome:?}");
    assert_eq!((count(&outcome, "second"), outcome.err.as_str()), (1, ""));
    let outcome = Run::start(singleton("spawn=1|/no/such done"), b"").wait().expect(0);
    assert_eq!(count(&outcome, "process 0: there is no file /no/such"), 1, "{outcome:?}");
}

#[test]
fn a_process_without_a_launcher_and_its_jobs_end_together() {
    let mark = mark(35);
    let ready = Ready::new(35);
    let line = format!("spawn=2|sleep|{mark} touch={}/0 sleep=600000", ready.path());
    let job = Run::start(singleton(&line), b"");
    ready.wait(1);
    job.signal("KILL");
    job.wait();
    await_processes(&mark, 0);
    // A rank of the spawned job fails.
    let ready = Ready::new(37);
    let wait = format!("until//test//-e//{}/0;//do//sleep//0.02;//done", ready.path());
    let line = format!("spawn=2|sh|-c|{wait};//exit//4;//:{mark} touch={}/0 sleep=600000", ready.path());
    let outcome = Run::start(singleton(&line), b"").wait();
    assert_eq!(outcome.status, -15, "{outcome:?}");
    outcome.says("in spawned job 1 (sh), rank ").says("exited with status 4");
    await_processes(&mark, 0);
    // After its goodbye, the jobs go on without it.
    let began = Instant::now();
    let file = std::env::temp_dir().join(format!("weft-spawn-{mark}"));
    let late = format!("spawn=1|sh|-c|sleep//0.3;//echo//>//{} done", file.display());
    Run::start(singleton(&late), b"").wait().expect(0);
    while !file.exists() {
        assert!(began.elapsed() < LIMIT, "the spawned job was ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_file(file).expect("it is there");
}

#[test]
fn a_process_without_a_launcher_says_that_there_is_no_mpiexec() {
    let mut alone = Command::new(peer());
    alone.args(["spawn=1 true", "done"]).env("PATH", "/nothing");
    let outcome = Run::start(alone, b"").wait().expect(0);
    assert!(outcome.out.contains("not spawned: no mpiexec"), "{outcome:?}");
}
