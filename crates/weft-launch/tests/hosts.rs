//! Tests with several hosts: the places of ranks, their environment, and hosts that cannot be reached.

mod common;

use common::{Run, TWO_HOSTS, command, run};
use std::time::Duration;

#[test]
fn ranks_of_several_hosts_meet() {
    let outcome = run(&format!("{TWO_HOSTS} -n 4 PEER meet done")).expect(0);
    let locals = |rank| if rank < 2 { "[0, 1]" } else { "[2, 3]" };
    let expected = |rank| format!("rank {rank} of 4 met all, locals Some({}), appnum Some(0)", locals(rank));
    assert_eq!(outcome.lines(), (0..4).map(expected).collect::<Vec<_>>());
}

#[test]
fn ranks_go_where_they_should() {
    let on = |line: &str| {
        let outcome = run(&format!("-l --agent env|WEFT_NODE={{host}} {line} PEER done env=WEFT_NODE")).expect(0);
        outcome.lines().iter().map(|line| line.rsplit('=').next().expect("a value").to_string()).collect::<Vec<_>>()
    };
    assert_eq!(on("--hosts h0,h1 -n 3"), ["h0", "h0", "h1"]);
    assert_eq!(on("--hosts h0,h1 --map-by node -n 3"), ["h0", "h1", "h0"]);
    assert_eq!(on("--host h0:1,h1:2 -n 3"), ["h0", "h1", "h1"]);
    assert_eq!(on("--hosts h0,h1,h2 -ppn 1"), ["h0", "h1", "h2"]);
}

#[test]
fn a_hostfile_names_hosts() {
    let path = std::env::temp_dir().join(format!("weft-hostfile-{}", std::process::id()));
    std::fs::write(&path, "# two hosts\nh0 slots=1\nh1:2\n").expect("a file can be written");
    let outcome = run(&format!("-l --agent env -f {} -n 3 PEER done say=here", path.display())).expect(0);
    std::fs::remove_file(&path).expect("it was written");
    assert_eq!(outcome.lines(), ["[0 on h0] here", "[1 on h1] here", "[2 on h1] here"]);
}

#[test]
fn several_programs_are_one_job() {
    let line = "-n 1 PEER meet done : -n 2 -env COLOUR blue PEER meet done env=COLOUR";
    let outcome = run(&format!("{TWO_HOSTS} {line}")).expect(0);
    assert!(outcome.out.contains("rank 0 of 3 met all, locals Some([0, 1]), appnum Some(0)"), "{outcome:?}");
    assert!(outcome.out.contains("rank 2 of 3 met all, locals Some([2]), appnum Some(1)"), "{outcome:?}");
    assert_eq!(outcome.out.matches("COLOUR=blue").count(), 2);
}

#[test]
fn the_agent_may_be_reached_through_a_talkative_shell() {
    let template = "sh|-c|'echo|Welcome|to|{host};printf|noise;exec|\"$@\"'|login";
    run(&format!("--agent {template} --hosts h0,h1 -n 2 PEER meet done")).expect(0);
}

#[test]
fn a_host_that_cannot_be_reached_is_explained() {
    let template = "sh|-c|'echo|first|>&2;echo|no|route|to|{host}|>&2;exit|255'";
    let outcome = run(&format!("--agent {template} --hosts h0,h1 -n 2 PEER done")).expect(1);
    outcome.says("the host h").says("ended with status 255, saying: first / no route to h").says("--weft-agent`");
    run("--agent /no/such/command --hosts h0 -n 1 true")
        .expect(1)
        .says("the host h0 cannot be reached")
        .says("/no/such/command");
    run("--agent false --hosts h0,h1 -n 2 true").expect(1).says("`false ").says("ended with status 1");
}

#[test]
fn a_host_that_does_not_answer_is_given_up() {
    let outcome = run("--agent sh|-c|'exec|sleep|600' --agent-timeout 1 --hosts h0,h1 -n 2 true").expect(1);
    outcome.says("did not answer within 1 s");
    assert!(outcome.took < Duration::from_secs(30), "{outcome:?}");
    // One host answers and the other does not. Expect: no rank is started.
    let template = "sh|-c|'test|{host}|=|h1|&&|exec|sleep|600;exec|\"$@\"'|x";
    let outcome = run(&format!("--agent {template} --agent-timeout 1 --hosts h0,h1 -n 2 echo started")).expect(1);
    outcome.says("the host h1 cannot be reached");
    assert_eq!(outcome.out, "");
}

#[test]
fn something_else_that_answers_is_no_agent() {
    run("--agent sh|-c|'yes|nonsense' --hosts h0 -n 1 true").expect(1).says("the host h0 cannot be used");
    run("--agent sh|-c|'echo|WEFT-AGENT|99;sleep|5' --hosts h0 -n 1 true").expect(1).says("version 99");
}

#[test]
fn variables_reach_other_hosts() {
    let seen = |line: &str, name: &str| {
        let mut command = command(&format!("{line} -n 1 PEER done env={name}"));
        command.env("COLOUR", "blue").env("SHAPE", "round").env("WEFT_LINK", "udp");
        let outcome = Run::start(command, b"").wait().expect(0);
        outcome.out.trim_end().rsplit_once('=').expect("a value").1.to_string()
    };
    // An agent that starts with an empty environment, as over the network.
    let bare = "--agent env|-i|HOME=/there --hosts h0";
    assert_eq!(seen(bare, "COLOUR"), "blue");
    assert_eq!(seen(bare, "HOME"), "/there", "what describes a host is not sent");
    assert_eq!(seen(&format!("{bare} -genvnone"), "COLOUR"), "(unset)");
    assert_eq!(seen(&format!("{bare} -genvnone"), "WEFT_LINK"), "udp", "settings always pass");
    assert_eq!(seen(&format!("{bare} -genvlist SHAPE"), "SHAPE"), "round");
    assert_eq!(seen(&format!("{bare} -genvlist SHAPE"), "COLOUR"), "(unset)");
    assert_eq!(seen(&format!("{bare} -genvnone -x COLOUR"), "COLOUR"), "blue");
    for line in [bare, ""] {
        assert_eq!(seen(&format!("{line} -genv COLOUR red"), "COLOUR"), "red");
        assert_eq!(seen(&format!("{line} -env COLOUR=green"), "COLOUR"), "green");
        assert_eq!(seen(&format!("{line} -x COLOUR=pink"), "COLOUR"), "pink");
    }
    assert_eq!(seen("-genvnone", "COLOUR"), "(unset)");
    assert_eq!(seen("", "COLOUR"), "blue");
}

#[test]
fn the_secret_is_seen_by_nobody_else() {
    // Expect: neither the command lines nor the environments of agents and ranks contain the secret that
    // ranks are told.
    let script = "echo|cmd=init|pmi_version=1|pmi_subversion=1|>&$PMI_FD;|read|-r|a|<&$PMI_FD;\
                  echo|cmd=weft_hello|>&$PMI_FD;|read|-r|b|<&$PMI_FD;\
                  s=${b##*secret=};|s=${s:0:32};|if|[|${#s}|!=|32|];|then|exit|5;|fi;\
                  for|p|in|$PPID|$$;|do|if|grep|-q|$s|/proc/$p/environ|/proc/$p/cmdline;|then|exit|6;|fi;|done;\
                  echo|cmd=finalize|>&$PMI_FD;|read|-r|a|<&$PMI_FD";
    run(&format!("--agent env --hosts h0 -n 1 bash -c {script}")).expect(0);
}

#[test]
fn the_directory_is_the_same_or_the_one_asked_for() {
    let own = std::env::current_dir().expect("a directory");
    let here = run("--agent env --hosts h0 -n 1 PEER done where").expect(0);
    assert!(here.out.trim_end().ends_with(own.to_str().expect("text")), "{here:?}");
    assert!(run("-wdir / -n 1 PEER done where").expect(0).out.ends_with(" in /\n"));
}

#[test]
fn wrong_command_lines_are_explained_and_help_helps() {
    run("--tmeout 3 -n 1 true").expect(2).says("did you mean --timeout?");
    run("-n 2").expect(2).says("no program is named");
    run("-n 1 true :").expect(2).says("a program is missing after the last `:`");
    let mut unset = command("-n 1");
    unset.arg("");
    Run::start(unset, b"").wait().expect(2).says("the name of a program is empty");
    run("--no-oversubscribe --hosts h0:1 -n 2 true").expect(2).says("--no-oversubscribe");
    let noted = run("--mca btl self,tcp --rank-by core --allow-run-as-root -n 1 true").expect(0);
    let said =
        "`--mca btl self,tcp` has no effect here: parameters of Open MPI; `weft info` shows the settings of Weft";
    assert_eq!(noted.err, format!("mpiexec: {said}\n"));
    run("-v --rank-by core -n 1 true").expect(0).says("`--rank-by core` has no effect here");
    run("--bind-to moon -n 1 true").expect(2).says("not to `moon`");
    let help = run("--help").expect(0);
    assert!(help.out.contains("--agent TEMPLATE") && help.out.contains("--timeout SECONDS"));
    assert!(run("--version").expect(0).out.starts_with("mpiexec (Weft) "));
}
