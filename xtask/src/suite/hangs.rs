//! Tests of jobs that hang: `mpiexec` reports where each rank is and which ranks wait for which, when a user
//! asks (SIGQUIT) and when it ends the job.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::context::{Context, Expected};
use super::process::Run;
use super::{Case, Outcome};

/// The time that the ranks may take until they hang as they should.
const HANGS: Duration = Duration::from_secs(60);
/// The time between two questions.
const PAUSE: Duration = Duration::from_millis(400);
/// The time between two questions to a job whose ranks are about to ask each other.
const QUESTION_PAUSE: Duration = Duration::from_millis(40);
/// The time that the end may take.
const END: Duration = Duration::from_secs(20);

const HANG: &str = "tests/launcher/hang.c";

/// The kinds of hangs, each with the sentences that must be printed.
const KINDS: &[(&str, &[&str])] = &[
    (
        "circle",
        &[
            "receive from ranks 0-2, tag 7, 4 bytes on MPI_COMM_WORLD",
            // Each rank has been asked whether it is in MPI_Finalize: no further question wakes it.
            "3 posted, 3 unexpected (",
            "why: deadlock: rank 0 (",
            "→ rank 0",
        ],
    ),
    ("sends", &["in MPI_Ssend", "16777216 bytes", "why: deadlock: rank 0 (send to rank 1"]),
    ("compute", &["in MPI_Barrier", "rank 0", "which is outside MPI calls"]),
    ("bcast", &["in MPI_Bcast", "receive from rank 0", "why: ranks 1-2 wait for rank 0, which is outside MPI calls"]),
    ("orders", &["in MPI_Allreduce", "on twin", "why: deadlock: rank 0 (receive from rank "]),
    ("tag", &["on halo", "unexpected (from rank", "but a message from it with tag 8 is there"]),
    ("any", &["receive from anybody", "why: ranks 0-2 wait for each other"]),
    ("wait", &["in MPI_Wait", "tag 8", "for rank 0, which is outside MPI calls"]),
    ("probe", &["in MPI_Probe", "why: ranks 1-2 wait for rank 0, which is outside MPI calls"]),
    ("file-write", &["in MPI_File_write_at_all", "from rank 0", "on file hang-", "why: ranks 1-2 wait for rank 0"]),
    ("file-lock", &["in MPI_Wait", "access to file hang-"]),
    ("init", &["rank 0 on", "why: ranks 1-2 wait for rank 0, which has not come to MPI_Init"]),
];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let here = KINDS.iter().map(|(what, says)| {
        Case::new(format!("{what}: asked, and ended by Ctrl-C"), move |context| {
            asked_and_ended(context, Ok(context.mpiexec(3)), what, says)
        })
    });
    let there = KINDS.iter().filter(|(what, _)| ["circle", "compute", "any"].contains(what));
    let there = there.map(|(what, says)| {
        Case::new(format!("{what}: the same over two hosts"), move |context| {
            asked_and_ended(context, context.mpiexec_on_hosts(3), what, says)
        })
    });
    // A rank that waits for a finalized rank does not hang.
    let ended = [("", false), (" over two hosts", true)].map(|(place, is_remote)| {
        Case::new(format!("finalize: who waits is told and ends{place}"), move |context| finalized(context, is_remote))
    });
    let late = [
        ("late-receive", "MPI_Recv"),
        ("late-wait", "MPI_Wait"),
        ("late-probe", "MPI_Probe"),
        ("late-send", "MPI_Ssend"),
        ("late-large", "MPI_Send"),
        ("late-collective", "MPI_Allreduce"),
    ];
    let late = late.into_iter().flat_map(|(what, call)| {
        [(3, false), (5, false), (3, true)].map(move |(ranks, is_remote)| {
            let place = if is_remote { ", two hosts" } else { "" };
            Case::new(format!("{what}: {call} asks and is told, {ranks} ranks{place}"), move |context| {
                too_late(context, what, ranks, is_remote)
            })
        })
    });
    let others = [
        Case::new("circle: the question whether a peer is in MPI_Finalize is no progress", asked_about_finalize),
        Case::new("weft info --live names the culprit", |context| live(context, "compute", &[])),
        Case::new("a deadlock of a job and one that it has spawned", family),
        Case::new("weft info --live names the culprit and the file", |context| {
            live(context, "file-write", &["MPI_File_write_at_all", "on file hang-"])
        }),
    ];
    here.chain(there).chain(ended).chain(late).chain(others).collect()
}

/// Ranks that wait ask each other after half a second whether they are in MPI_Finalize. The first answer of
/// `mpiexec` in which these questions lie must name the deadlock: a count that begins anew would not.
fn asked_about_finalize(context: &Context) -> anyhow::Result<Outcome> {
    let running = context.mpiexec(3).arg(context.compile(HANG)?).arg("circle").start()?;
    let deadline = Instant::now() + HANGS;
    let answer = loop {
        std::thread::sleep(QUESTION_PAUSE);
        let output = running.output();
        let answer = last_answer(&output);
        let is_whole = answer.contains("3 posted") && answer.ends_with('\n');
        if is_whole && answer.contains(", 3 unexpected (") {
            break answer.to_owned();
        }
        if Instant::now() > deadline {
            break format!("no rank has asked:\n{output}");
        }
        kill_process(running.pid(), Signal::QUIT)?;
    };
    // The lines of one answer come in one piece, and the conclusion is the last of them.
    let is_right = answer.contains("why: deadlock: rank 0 (");
    kill_process(running.pid(), Signal::INT)?;
    running.finish(HANGS + END)?;
    Ok(if is_right { Outcome::Passed } else { Outcome::Failed(answer) })
}

/// A circle through two jobs is named by `mpiexec`, and by `weft info --live`.
fn family(context: &Context) -> anyhow::Result<Outcome> {
    let running = context.mpiexec(2).arg(context.compile(HANG)?).arg("family").start()?;
    let pid = running.pid().as_raw_nonzero().to_string();
    let deadline = Instant::now() + HANGS;
    let circle =
        ["why: deadlock: rank 0 (", ") → rank 1 of spawned job 1 (", ") → rank 0 of spawned job 1 (", ") → rank 1 ("];
    let (said, text) = loop {
        std::thread::sleep(PAUSE);
        kill_process(running.pid(), Signal::QUIT)?;
        let live = Run::new(context.bin("weft")).args(["info", "--live", &pid, "--once"]).finish()?.output;
        let output = running.output();
        let is_said = circle.iter().all(|part| last_answer(&output).contains(part));
        let is_seen =
            live.contains("why: deadlock: rank 0 of the job of process ") && live.matches("why:").count() == 1;
        if (is_said && is_seen) || Instant::now() > deadline {
            break (is_said && is_seen, output + &live);
        }
    };
    kill_process(running.pid(), Signal::INT)?;
    running.finish(HANGS + END)?;
    Ok(if said { Outcome::Passed } else { Outcome::Failed(text) })
}

fn finalized(context: &Context, is_remote: bool) -> Outcome {
    let run = || {
        let run = if is_remote { context.mpiexec_on_hosts(3)? } else { context.mpiexec(3) };
        run.arg(context.compile(HANG)?).arg("finalize").limit(HANGS.as_secs()).finish()
    };
    let sentence = "MPI_Recv: rank 0 of MPI_COMM_WORLD has called MPI_Finalize, and never sends what is waited for";
    Expected::failure().says(sentence).judge(run())
}

/// Runs a job in which all but the last rank have called MPI_Finalize, and the last rank needs a message of
/// the first.
fn too_late(context: &Context, what: &str, ranks: u32, is_remote: bool) -> Outcome {
    let run = || {
        let run = if is_remote { context.mpiexec_on_hosts(ranks)? } else { context.mpiexec(ranks) };
        run.arg(context.compile(HANG)?).arg(what).limit(HANGS.as_secs()).finish()
    };
    Expected::failure().says("has called MPI_Finalize, and never sends what is waited for").judge(run())
}

/// Asks until every sentence has been printed, then ends the job, which must print them again.
fn asked_and_ended(context: &Context, run: anyhow::Result<Run>, what: &str, says: &[&str]) -> anyhow::Result<Outcome> {
    let running = run?.arg(context.compile(HANG)?).arg(what).start()?;
    let is_said = |text: &str| says.iter().all(|part| text.contains(part));
    let deadline = Instant::now() + HANGS;
    loop {
        std::thread::sleep(PAUSE);
        if is_said(last_answer(&running.output())) {
            break;
        }
        if Instant::now() > deadline {
            let text = running.output();
            running.finish(Duration::ZERO)?;
            return Ok(Outcome::Failed(format!("it never said all of {says:?}:\n{text}")));
        }
        kill_process(running.pid(), Signal::QUIT)?;
    }
    kill_process(running.pid(), Signal::INT)?;
    let finished = running.finish(HANGS + END)?;
    let (asked, ended) = finished.output.split_once("interrupted by SIGINT; ending 3 ranks").unwrap_or_default();
    let is_right = is_said(ended) && asked.contains("mpiexec: after ") && finished.code == Some(130);
    Ok(if is_right && finished.leftovers.is_empty() { Outcome::Passed } else { Outcome::Failed(finished.report()) })
}

/// The answer to the last question.
fn last_answer(text: &str) -> &str {
    text.rsplit("mpiexec: after ").next().unwrap_or_default()
}

/// Checks that a user sees the hang without `mpiexec`, too.
fn live(context: &Context, what: &str, says: &[&str]) -> anyhow::Result<Outcome> {
    let running = context.mpiexec(3).arg(context.compile(HANG)?).arg(what).start()?;
    let pid = running.pid().as_raw_nonzero().to_string();
    let deadline = Instant::now() + HANGS;
    let (said, text) = loop {
        std::thread::sleep(PAUSE);
        let text = Run::new(context.bin("weft")).args(["info", "--live", &pid, "--once"]).finish()?.output;
        let culprit = "why: ranks 1-2 wait for rank 0, which is outside of MPI";
        if text.contains(culprit) && says.iter().all(|part| text.contains(part)) {
            break (true, text);
        }
        if Instant::now() > deadline {
            break (false, text);
        }
    };
    kill_process(running.pid(), Signal::INT)?;
    running.finish(HANGS + END)?;
    Ok(if said { Outcome::Passed } else { Outcome::Failed(text) })
}
