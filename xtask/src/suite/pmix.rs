//! Tests of PMIx itself, under Open MPI's `mpirun`, which is PRRTE's `prterun`: notices of dead ranks, a
//! launcher that is gone, and variables that are left over. The suite `launchers` has the ordinary jobs.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::context::{Context, Expected};
use super::gone::{WAYS, second_half};
use super::launchers::rows::{environment, missing, open_mpi, prepared, program};
use super::launchers::{Place, Shape};
use super::needs::Need;
use super::process::{Finished, Run};
use super::strangers::rank_of;
use super::{Case, Outcome};

/// Lets the others go on when a rank fails, and tells them.
const WITH_NOTICES: [&str; 2] = ["--runtime-options", "recoverable,notifyerrors"];
/// The ranks of `vanish`: half of them wait, each in another call.
const RANKS: u32 = 20;
const START: Duration = Duration::from_secs(60);
const LIMIT_SECONDS: u64 = 120;
const POLL: Duration = Duration::from_millis(20);
/// The seconds after which silence would tell the ranks, longer than the limit of the case.
const PEER_TIMEOUT: &str = "600";

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    vec![
        with_launcher("sessions that end and begin again, 3 ranks", |context| {
            let program = context.compile("tests/c/sessions.c");
            Expected::code(0).judge(program.and_then(|program| mpirun(context).args(["-n", "3"]).arg(program).finish()))
        }),
        with_launcher("point_to_point, 5 ranks on two hosts", |context| {
            let program = context.compile("tests/c/point_to_point.c");
            Expected::code(0).judge(program.and_then(|program| on_two_hosts(context, 5)?.arg(program).finish()))
        })
        .needs(&[Need::Networks]),
        with_launcher("hardware of ranks that the launcher has bound to cores, 2 ranks", |context| {
            if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
                return Outcome::Skipped("one processor".into());
            }
            let attempt = || {
                let run = prepared(Run::new(program(context, "mpirun"))).limit(LIMIT_SECONDS);
                let run = run.args(["--map-by", "core", "--bind-to", "core", "-n", "2"]);
                run.arg(context.compile("tests/c/hardware.c")?).arg("bound").finish()
            };
            Expected::code(0).judge(attempt())
        }),
        with_launcher("weft info says to which cores the launcher has bound ranks", |context| {
            if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
                return Outcome::Skipped("one processor".into());
            }
            let attempt = || -> anyhow::Result<Finished> {
                let run = prepared(Run::new(program(context, "mpirun"))).limit(LIMIT_SECONDS);
                let run = run.args(["--map-by", "core", "--bind-to", "core", "-n", "2"]);
                let finished = run.arg(context.bin("weft")).arg("info").finish()?;
                let bound = finished.output.lines().filter(|line| line.trim_start().starts_with("bound to"));
                let mut sets: Vec<&str> = bound.map(str::trim).collect();
                sets.sort_unstable();
                sets.dedup();
                let are_two = sets.len() == 2 && sets.iter().all(|set| set.contains(": 1 core, socket"));
                anyhow::ensure!(are_two, "two ranks with a core each say {sets:?}:\n{}", finished.report());
                Ok(finished)
            };
            Expected::code(0).judge(attempt())
        }),
        with_launcher("ranks of this host are killed: the others are told", |context| {
            told(Ok(mpirun(context).args(WITH_NOTICES).args(["-n", &RANKS.to_string()])), context)
        }),
        with_launcher("ranks of another host are killed: the others are told", |context| {
            told(on_two_hosts(context, RANKS).map(|run| run.args(WITH_NOTICES)), context)
        })
        .needs(&[Need::Networks]),
        with_launcher("the launcher is killed: the ranks end", |context| {
            let attempt = || -> anyhow::Result<Finished> {
                let run =
                    mpirun(context).args(["-n", "3"]).arg(context.compile("tests/launcher/behave.c")?).arg("hang");
                let mut running = run.start()?;
                anyhow::ensure!(running.says("ready", START), "it did not start:\n{}", running.output());
                running.kill()?;
                running.finish(START)
            };
            // What the ranks say had to pass through the launcher.
            Expected::code(128 + Signal::KILL.as_raw()).judge(attempt())
        }),
        with_launcher("a single rank is known to the launcher", |context| {
            let program = context.compile("tests/launcher/behave.c");
            let run = program.map(|program| mpirun(context).args(["-n", "1"]).arg(program).args(["abort", "0", "7"]));
            let expected = Expected::code(7).says("due to process rank 0");
            expected.judge(run.and_then(|run| run.finish()))
        }),
        Case::new("the launcher's variables say that it is left over: no silent singletons", |context| {
            let run = || {
                let ring = Run::new(context.compile("examples/ring.c")?);
                ring.env("PMIX_RANK", "0").env("PMIX_NAMESPACE", "gone").env("OMPI_COMM_WORLD_SIZE", "2").finish()
            };
            Expected::failure().says("PMIx").judge(run())
        }),
        with_launcher("the server is gone: an error, no hang", |context| {
            Expected::failure()
                .says("PMIx")
                .judge(left_over(context, environment(context)).and_then(|run| run.finish()))
        }),
        with_launcher("the server of a single rank is gone: a singleton", |context| {
            let run = left_over(context, environment(context)).map(|run| run.env("OMPI_COMM_WORLD_SIZE", "1"));
            Expected::code(0).says("over 1 ranks").judge(run.and_then(|run| run.finish()))
        }),
        Case::new("no libpmix: what to do", |context| {
            // A system may have a libpmix of its own, which finds no server.
            let run = left_over(context, "/nowhere".into()).map(|run| run.env("LD_LIBRARY_PATH", ""));
            Expected::failure().says("PMIx").judge(run.and_then(|run| run.finish()))
        }),
    ]
}

/// A program with the variables of a launcher that has gone. `prefix` is where it was.
fn left_over(context: &Context, prefix: PathBuf) -> anyhow::Result<Run> {
    let ring = Run::new(context.compile("examples/ring.c")?).env("PMIX_RANK", "0");
    let ring = ring.env("PMIX_NAMESPACE", "gone").env("PMIX_SERVER_URI4", "gone.0;tcp4://127.0.0.1:9");
    Ok(ring.env("PMIX_PREFIX", prefix).limit(60))
}

/// The command that starts ranks of this host.
fn mpirun(context: &Context) -> Run {
    let run = prepared(Run::new(program(context, "mpirun"))).limit(LIMIT_SECONDS);
    run.args(["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"])
}

fn on_two_hosts(context: &Context, ranks: u32) -> anyhow::Result<Run> {
    let shape = Shape { ranks, place: Place::TwoHosts };
    Ok(open_mpi(context, shape, "mpirun")?.limit(LIMIT_SECONDS))
}

/// Kills the second half of the ranks of `vanish`: each rank of the first half hears of it in its call, and
/// not by the silence of its peer.
fn told(launcher: anyhow::Result<Run>, context: &Context) -> Outcome {
    let attempt = || -> anyhow::Result<Finished> {
        let run = launcher?.arg(context.compile("tests/c/vanish.c")?).arg("gone");
        let mut running = run.env("WEFT_PEER_TIMEOUT", PEER_TIMEOUT).start()?;
        anyhow::ensure!(running.says("waiting", START), "it did not start:\n{}", running.output());
        let ranks = second_half(&running, RANKS);
        anyhow::ensure!(ranks.len() == RANKS as usize / 2, "{} ranks of the second half", ranks.len());
        ranks.iter().try_for_each(|pid| kill_process(*pid, Signal::KILL))?;
        for way in WAYS {
            anyhow::ensure!(running.says(way, START), "{way} has not come:\n{}", running.output());
        }
        // The last to hear calls MPI_Abort, and all ranks end. In some runs PRRTE's launcher then waits for
        // ever, also after SIGTERM, if it was told to let a job go on.
        let deadline = Instant::now() + START;
        let ranks = || running.processes().iter().filter(|(pid, _)| rank_of(*pid).is_some()).count();
        while ranks() > 0 {
            anyhow::ensure!(Instant::now() < deadline, "ranks go on:\n{}", running.output());
            std::thread::sleep(POLL);
        }
        running.kill()?;
        running.finish(Duration::from_secs(LIMIT_SECONDS))
    };
    Expected::failure().never_says("vanish.c:").judge(attempt())
}

/// A case that needs the launcher.
fn with_launcher<R: Into<Outcome>>(name: &str, run: impl Fn(&Context) -> R + 'static) -> Case {
    Case::new(name, move |context| match missing(context) {
        None => run(context).into(),
        Some(why) => Outcome::Skipped(why),
    })
}
