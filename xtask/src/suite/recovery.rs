//! Tests of programs that survive the death of their ranks: each scenario on one host and on two.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::carriers::Down;
use super::chaos::Folder;
use super::context::{Context, Expected};
use super::needs::Need;
use super::process::{Finished, Run, Running};
use super::strangers::rank_of;
use super::{Case, Outcome};

const PROGRAM: &str = "tests/c/recovery.c";
const EXAMPLE: &str = "examples/survive.c";
/// The ranks of each job, half of them on each of two hosts.
const RANKS: u32 = 6;
/// The exit code of a job in which a rank has killed itself.
const KILLED: i32 = 128 + 9;
const LIMIT_SECONDS: u64 = 60;
/// The most runs in which the news of a death may come too late.
const SLOW_ENDS_MAX: u32 = 10;
/// The scenarios of the program, each with the ranks that die.
const STORIES: [(&str, u32); 7] = [
    ("named", 1),
    ("anybody", 1),
    ("revoked", 0),
    ("agreements", RANKS / 3 + 2),
    ("one-by-one", RANKS - 2),
    ("windows", 1),
    ("many", RANKS / 2),
];
/// Collectives by messages, with a root, and with neighbours.
const SOME_COLLECTIVES: [&str; 4] = ["barrier", "bcast", "allreduce", "neighbor_alltoall"];
const COLLECTIVES: [&str; 13] = [
    "barrier",
    "bcast",
    "gather",
    "scatter",
    "allgather",
    "alltoall",
    "reduce",
    "allreduce",
    "reduce_scatter_block",
    "scan",
    "exscan",
    "neighbor_allgather",
    "neighbor_alltoall",
];
const FORMS: [&str; 3] = ["blocking", "nonblocking", "persistent"];

/// The hosts of a job.
#[derive(Clone, Copy)]
enum Place {
    Host,
    TwoHosts,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Host => "on one host",
            Self::TwoHosts => "on two hosts",
        }
    }

    /// The command that starts a job that goes on when ranks die.
    fn mpiexec(self, context: &Context, ranks: u32) -> anyhow::Result<Run> {
        let run = match self {
            Self::Host => context.mpiexec(ranks),
            Self::TwoHosts => context.mpiexec_on_hosts(ranks)?,
        };
        Ok(run.args(["--on-failure", "continue"]).limit(LIMIT_SECONDS))
    }
}

const PLACES: [Place; 2] = [Place::Host, Place::TwoHosts];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = vec![Case::new("a rank that dies ends the job where nothing else is asked for", |context| {
        let run = |context: &Context| context.mpiexec(RANKS).arg(context.compile(PROGRAM)?).arg("named").finish();
        Expected::code(KILLED).says("ending the other 5 ranks").judge(run(context))
    })];
    for place in PLACES {
        cases.extend(STORIES.map(|(story, deaths)| survived(place, &[story], deaths)));
        cases.extend(SOME_COLLECTIVES.map(|which| survived(place, &["collective", which, "blocking"], 1)));
        cases.extend([false, true].map(|respawns| example(place, respawns)));
    }
    cases.push(host_lost());
    cases.extend([false, true].map(cut_off));
    cases.push(stopped());
    cases.push(slow_end());
    cases
        .extend(["nonblocking", "persistent"].map(|form| survived(Place::Host, &["collective", "allreduce", form], 1)));
    cases
}

pub(crate) fn all_cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for place in PLACES {
        for (which, form) in COLLECTIVES.into_iter().flat_map(|which| FORMS.map(|form| (which, form))) {
            cases.push(survived(place, &["collective", which, form], 1));
        }
    }
    cases
}

/// A scenario: as many ranks as live say that they go on, and no check fails.
fn survived(place: Place, words: &[&'static str], deaths: u32) -> Case {
    let words = words.to_vec();
    let case = Case::new(format!("{}, {RANKS} ranks {}", words.join(" "), place.name()), move |context| {
        let attempt = || place.mpiexec(context, RANKS)?.arg(context.compile(PROGRAM)?).args(&words).finish();
        let finished = match attempt() {
            Ok(finished) => finished,
            Err(error) => return Outcome::Failed(format!("{error:#}")),
        };
        let going = finished.output.lines().filter(|line| line.ends_with("goes on")).count();
        if going != (RANKS - deaths) as usize {
            return Outcome::Failed(format!("{}\n{going} ranks go on", finished.report()));
        }
        let code = if deaths == 0 { 0 } else { KILLED };
        Expected::code(code).never_says("recovery.c:").never_says("exited with status").judge(Ok(finished))
    });
    match place {
        Place::Host => case,
        Place::TwoHosts => case.needs(&[Need::Networks]),
    }
}

/// The agent of one of two hosts dies, and half of the ranks with it.
fn host_lost() -> Case {
    let case = Case::new(format!("a whole host is lost, {RANKS} ranks on two hosts"), |context| {
        let run = |context: &Context| {
            Place::TwoHosts.mpiexec(context, RANKS)?.arg(context.compile(PROGRAM)?).arg("host").finish()
        };
        Expected::code(1).says("is lost").says("rank 0 goes on").never_says("recovery.c:").judge(run(context))
    });
    case.needs(&[Need::Networks])
}

/// The example on two hosts, whose link is cut in the middle while `mpiexec` still reaches both: the second
/// host is told that it is excluded, and the first computes the right result alone.
fn cut_off(respawns: bool) -> Case {
    let what = if respawns { ", and new ones are started" } else { "" };
    let case = Case::new(format!("examples/survive.c: the network of a host is cut{what}"), move |context| {
        let attempt = || {
            let folder = Folder::new()?;
            let running = holding(context, Place::TwoHosts, &folder, respawns)?;
            let down = Down::new(context)?;
            let finished = go_on(running, &folder);
            drop(down);
            finished
        };
        let ranks = if respawns { 4 } else { 2 };
        let right = format!("{ranks} ranks have computed 1000 steps: the result is right");
        let expected = Expected::code(1).says(right).says("has sent no heartbeat for 1 s").says("the others go on");
        expected.says("is excluded from the job").judge(attempt())
    });
    case.needs(&[Need::Networks])
}

/// A rank that is stopped for longer than the limit counts as lost, and does not come back.
fn stopped() -> Case {
    Case::new("examples/survive.c: a rank is stopped for longer than --heartbeat says", |context| {
        let attempt = || {
            let folder = Folder::new()?;
            let running = holding(context, Place::Host, &folder, false)?;
            let ranks: Vec<Pid> = running.processes().into_iter().map(|(pid, _)| pid).collect();
            let last = ranks.into_iter().find(|pid| rank_of(*pid) == Some(3));
            kill_process(last.ok_or_else(|| anyhow::anyhow!("no rank 3"))?, Signal::STOP)?;
            go_on(running, &folder)
        };
        let expected = Expected::code(KILLED).says("3 ranks have computed 1000 steps: the result is right");
        expected.says("rank 3 was stopped for longer than 1 s").judge(attempt())
    })
}

/// The others hear of a death before the system has closed the sockets of the process. On a busy machine they
/// may hear too late, so one of several runs is enough; without the early sign none is.
fn slow_end() -> Case {
    let case = Case::new("the end of a rank is known while the system closes its sockets for raw frames", |context| {
        let mut output = String::new();
        for _ in 0..SLOW_ENDS_MAX {
            let run = Place::TwoHosts.mpiexec(context, 4)?.arg(context.compile(PROGRAM)?).arg("slow-end");
            let finished = run.finish()?;
            if finished.output.contains("no sockets for raw frames") {
                return Ok(Outcome::Skipped("no privilege to open sockets for raw frames".into()));
            }
            output = finished.report();
            let expected = Expected::code(KILLED).says("rank 0 goes on").never_says("recovery.c:");
            if finished.output.contains("heard before") {
                return Ok(expected.judge(Ok(finished)));
            }
        }
        anyhow::bail!("nobody hears of it before, in {SLOW_ENDS_MAX} runs:\n{output}")
    });
    case.needs(&[Need::Networks])
}

/// Four ranks of the example with heartbeats, all of which wait in the middle for a file.
fn holding(context: &Context, place: Place, folder: &Folder, respawns: bool) -> anyhow::Result<Running> {
    let hold = format!("500@{}", folder.path().join("go").display());
    let run = place.mpiexec(context, 4)?.args(["--heartbeat", "1"]).arg(context.compile(EXAMPLE)?);
    let run = run.args(["--hold", &hold]).env("WEFT_SHM_DIR", folder.path()).env("TMPDIR", folder.path());
    let running = if respawns { run.arg("--respawn") } else { run }.start()?;
    for rank in 0..4 {
        let text = format!("rank {rank} waits before step 500");
        anyhow::ensure!(running.says(&text, Duration::from_secs(LIMIT_SECONDS)), "no hold:\n{}", running.output());
    }
    Ok(running)
}

/// Lets ranks go on that [`holding`] has made wait. Nothing of the job may be left in the folder.
fn go_on(running: Running, folder: &Folder) -> anyhow::Result<Finished> {
    let file = folder.path().join("go");
    std::fs::write(&file, "")?;
    let finished = running.finish(Duration::from_secs(LIMIT_SECONDS))?;
    std::fs::remove_file(file)?;
    let left = folder.files()?;
    anyhow::ensure!(left.is_empty(), "files are left: {}\n{}", left.join(", "), finished.report());
    Ok(finished)
}

/// The example computes the right result with the ranks that are left, or with new ones.
fn example(place: Place, respawns: bool) -> Case {
    let what = if respawns { " and starts new ones" } else { "" };
    let case =
        Case::new(format!("examples/survive.c loses two of four ranks{what} {}", place.name()), move |context| {
            let run = |context: &Context| {
                let run = place.mpiexec(context, 4)?.arg(context.compile(EXAMPLE)?);
                let run = run.args(["--lose", "2@300", "--lose", "0@700"]);
                let run = if respawns { run.arg("--respawn") } else { run };
                run.finish()
            };
            let ranks = if respawns { 4 } else { 2 };
            let right = format!("{ranks} ranks have computed 1000 steps: the result is right");
            Expected::code(KILLED).says(right).judge(run(context))
        });
    match place {
        Place::Host => case,
        Place::TwoHosts => case.needs(&[Need::Networks]),
    }
}
