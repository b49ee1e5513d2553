//! Tests with hosts that are joined in a tree: a host starts the agents of further hosts. In a tree of the
//! width 2, `mpiexec` starts h0 and h1; h0 starts h2 and h4, h1 starts h3 and h5; h2 starts h6.

mod common;

use common::{LIMIT, MPIEXEC, Run, await_processes, command, mark, run, run_with_input};
use std::time::Duration;

/// The options of a job on `count` hosts whose agents are started through a shell that first runs `script`,
/// in a tree of this width.
fn hosts(count: usize, width: usize, script: &str) -> String {
    let names: Vec<String> = (0..count).map(|host| format!("h{host}")).collect();
    let separator = if script.is_empty() { "" } else { ";" };
    let template = format!("sh|-c|'{script}{separator}WEFT_NODE={{host}}|exec|\"$@\"'|x");
    format!("--tree-width {width} --agent {template} --hosts {}", names.join(","))
}

/// The script that runs `command` in place of the agent of this host.
fn on(host: &str, command: &str) -> String {
    format!("if|[|{{host}}|=|{host}|];|then|{command};|fi")
}

#[test]
fn ranks_of_every_tree_meet() {
    for (count, width) in [(3, 1), (5, 2), (7, 2), (13, 3), (9, 8), (9, 9)] {
        let outcome = run(&format!("{} -n {count} PEER meet done", hosts(count, width, ""))).expect(0);
        assert_eq!(outcome.out.matches("met all").count(), count, "{outcome:?}");
        assert_eq!(outcome.err, "");
    }
}

#[test]
fn each_host_is_started_by_another_and_verbose_says_by_which() {
    let outcome = run(&format!("-v {} -n 7 sh -c echo|$WEFT_NODE", hosts(7, 2, ""))).expect(0);
    assert_eq!(outcome.lines(), ["h0", "h1", "h2", "h3", "h4", "h5", "h6"]);
    outcome.says("on h1: ranks 1, agent: sh").says("on h5: ranks 5, agent on h1: sh");
    outcome.says("on h6: ranks 6, agent on h2: sh");
    // Of the agents, each is the child of the one that starts it.
    let parents = "p=$PPID;|while|[|$p|-gt|1|];|do|s=$(cat|/proc/$p/stat);|s=${s##*|)|};|s=${s##*)|};|set|--|$s;|\
                   p=$2;|printf|-|;|done;|echo";
    let outcome = run(&format!("{} -n 3 sh -c {parents}", hosts(3, 1, ""))).expect(0);
    let mut depths: Vec<usize> = outcome.lines().iter().map(|line| line.len()).collect();
    depths.sort_unstable();
    assert_eq!((depths[1] - depths[0], depths[2] - depths[1]), (1, 1), "{outcome:?}");
}

#[test]
fn output_and_input_pass_through_hosts() {
    let input = "warp and weft\n".repeat(40_000);
    let outcome = run_with_input(&format!("--stdin 6 {} -n 7 PEER 6@echo done", hosts(7, 2, "")), input.as_bytes());
    let outcome = outcome.expect(0);
    assert!(outcome.out == input, "{} bytes of {}", outcome.out.len(), input.len());
    let script = "i=0;|while|[|$i|-lt|3000|];|do|echo|$PMI_RANK:|a|line|of|some|length|to|fill|pipes;|\
                  echo|$PMI_RANK:|error|>&2;|i=$((i+1));|done";
    let outcome = run(&format!("{} -n 7 sh -c {script}", hosts(7, 2, ""))).expect(0);
    for rank in 0..7 {
        let line = |text: &str| format!("{rank}: {text}\n");
        assert_eq!(outcome.out.matches(&line("a line of some length to fill pipes")).count(), 3000, "{rank}");
        assert_eq!(outcome.err.matches(&line("error")).count(), 3000, "{rank}");
    }
    run(&format!("{} -n 7 PEER exchange=16000 done", hosts(7, 2, ""))).expect(0);
}

#[test]
fn a_rank_that_fails_anywhere_ends_all() {
    for rank in [0, 3, 6] {
        let mark = mark(20 + rank);
        let script = format!("[|$PMI_RANK|=|{rank}|]|&&|exit|7;|exec|sleep|{mark}");
        let outcome = run(&format!("{} -n 7 sh -c {script}", hosts(7, 2, ""))).expect(7);
        outcome.says(&format!("rank {rank} on h{rank} exited with status 7"));
        assert!(outcome.took < Duration::from_secs(30), "{outcome:?}");
        await_processes(&mark, 0);
    }
    run(&format!("{} -n 7 PEER 6@abort=9 barrier done", hosts(7, 2, ""))).expect(9).says("rank 6 on h6");
}

/// Expect: hosts whose own ranks have ended go on passing messages of others.
#[test]
fn hosts_without_ranks_any_more_stay_for_others() {
    let script = "if|[|$PMI_RANK|!=|6|];|then|exit|0;|fi;|sleep|1;|echo|still|here;|exit|3";
    run(&format!("{} -n 7 sh -c {script}", hosts(7, 2, ""))).expect(3).says("rank 6 on h6 exited with status 3");
}

#[test]
fn killing_mpiexec_leaves_nobody_in_the_tree() {
    let mark = mark(31);
    let job = Run::start(command(&format!("{} -n 7 sleep {mark}", hosts(7, 2, ""))), b"");
    await_processes(&mark, 7 + 1);
    job.signal("KILL");
    assert_eq!(job.wait().status, -9);
    await_processes(&mark, 0);
}

#[test]
fn a_signal_ends_the_tree() {
    for (story, name, status) in [(32, "TERM", 143), (33, "INT", 130)] {
        let mark = mark(story);
        let job = Run::start(command(&format!("{} -n 7 sleep {mark}", hosts(7, 2, ""))), b"");
        await_processes(&mark, 7 + 1);
        job.signal(name);
        job.wait().expect(status);
        await_processes(&mark, 0);
    }
}

#[test]
fn a_host_that_hosts_cannot_start_is_started_from_here() {
    // Commands that an agent runs fail, as ssh does without a key.
    let script = "if|[|-n|\"$BEHIND\"|];|then|echo|no|key|>&2;|exit|255;|fi;|export|BEHIND=1";
    let outcome = run(&format!("{} -n 7 PEER meet done", hosts(7, 2, script))).expect(0);
    assert_eq!(outcome.out.matches("met all").count(), 7);
    outcome
        .says("cannot start the agent on h")
        .says("ended with status 255, saying: no key; mpiexec starts this agent");
    assert_eq!(outcome.err.lines().count(), 1, "{outcome:?}");
    // The program that reaches a host is not there.
    let outcome = run("--tree-width 1 --agent env|-i|PATH=/no/such --hosts h0,h1,h2 -n 3 PEER meet done").expect(0);
    outcome.says("cannot start the agent on h1").says("on h0 ended with status 127, saying: the command `env");
    assert_eq!(outcome.err.lines().count(), 1, "{outcome:?}");
    // A host that cannot be reached from here either is named with both ways.
    let script = on("h3", "echo|no|way|>&2;|exit|255");
    let outcome = run(&format!("{} -n 7 sleep 600", hosts(7, 2, &script))).expect(1);
    outcome.says("the host h1 cannot start the agent on h3").says("the host h3 cannot be reached: `sh");
}

#[test]
fn a_host_that_hangs_in_the_tree_is_named_with_its_starter() {
    let mark = mark(34);
    let script = on("h5", &format!("exec|sleep|{mark}"));
    let outcome = run(&format!("--agent-timeout 2 {} -n 7 echo started", hosts(7, 2, &script))).expect(1);
    outcome.says("the host h5 cannot be reached").says("on h1 did not answer within 2 s").says("`ssh h5 true` on h1");
    assert_eq!(outcome.out, "");
    assert!(outcome.took < Duration::from_secs(30), "{outcome:?}");
    await_processes(&mark, 0);
}

#[test]
fn something_else_that_answers_in_the_tree_is_no_agent() {
    let script = on("h4", "exec|yes|nonsense");
    let outcome = run(&format!("{} -n 7 echo started", hosts(7, 2, &script))).expect(1);
    outcome.says("the host h4 cannot be used: something else than mpiexec answers there");
    assert!(outcome.took < Duration::from_secs(30), "{outcome:?}");
    let script = on("h4", "echo|WEFT-AGENT|99;|exec|sleep|5");
    run(&format!("{} -n 7 true", hosts(7, 2, &script))).expect(1).says("the host h4 cannot be used").says("version 99");
}

/// Expect: an agent that dies while it starts others is named, with those behind it, and nobody stays.
#[test]
fn an_agent_that_dies_while_it_starts_others_is_named() {
    let mark = mark(35);
    // The shell's parent is the agent that starts it.
    let script = on("h3", "kill|-9|$PPID");
    // The agents have the mark in their command lines.
    let program = std::env::temp_dir().join(format!("weft-mpiexec-{mark}"));
    std::os::unix::fs::symlink(MPIEXEC, &program).expect("a new name");
    let options = format!("--agent-program {} {}", program.display(), hosts(7, 2, &script));
    let outcome = run(&format!("{options} -n 7 echo started"));
    std::fs::remove_file(&program).expect("it was made");
    let outcome = outcome.expect(1);
    outcome.says("the agent on h1 is lost: its command died by signal 9, and with it the way to 2 hosts, h3 to h5");
    assert_eq!(outcome.out, "");
    await_processes(&mark, 0);
}

#[test]
fn an_agent_that_dies_while_ranks_run_is_named() {
    let mark = mark(36);
    let script = format!("[|$PMI_RANK|=|2|]|&&|kill|-9|$PPID;|exec|sleep|{mark}");
    let outcome = run(&format!("{} -n 7 sh -c {script}", hosts(7, 2, ""))).expect(1);
    outcome.says("the agent on h2 is lost: its command on h0 died by signal 9, and with it the way to h6");
    await_processes(&mark, 0);
}

#[test]
fn a_silent_host_is_named_and_not_those_behind_it() {
    let mark = mark(37);
    let script = format!("[|$PMI_RANK|=|0|]|&&|kill|-STOP|$PPID;|exec|sleep|{mark}");
    let outcome = run(&format!("--host-timeout 2 {} -n 7 sh -c {script}", hosts(7, 2, ""))).expect(1);
    outcome.says("the host h0 has not answered for 2 s");
    assert!(outcome.took < LIMIT / 2, "{outcome:?}");
    // The ranks behind the stopped agent end once their agents hear that it is gone.
    await_processes(&mark, 0);
}

#[test]
fn words_that_are_no_width_are_explained() {
    run("--tree-width wide -n 1 true").expect(2).says("--tree-width is auto, none or a number of hosts, not `wide`");
    let mut wrong = command("-n 1 true");
    wrong.env("WEFT_TREE_WIDTH", "0");
    Run::start(wrong, b"").wait().expect(2).says("WEFT_TREE_WIDTH is auto, none or a number of hosts, not `0`");
    let mut set = command("-v --agent env --hosts h0,h1 -n 2 true");
    set.env("WEFT_TREE_WIDTH", "1");
    Run::start(set, b"").wait().expect(0).says("agent on h0: env");
}
