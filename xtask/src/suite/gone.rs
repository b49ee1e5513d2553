//! Ranks that only wait for others: they hear of it when those are gone, or their host is, and of nothing when they are only slow. Also under a launcher
//! that does nothing about ranks that die.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::collectives::SINGLE_COPIES;
use super::context::{Context, Expected, Hosts};
use super::lanes::Down;
use super::process::{Run, Running};
use super::strangers::rank_of;
use super::{Case, Outcome, libfabric};

/// Half of them wait, each in another call.
const RANKS: u32 = 2 * WAYS.len() as u32;
/// Ranks of those that die inside of a collective.
const COLLECTIVE_RANKS: u32 = 6;
/// Seconds after which a silent peer counts as failed here.
const PEER_TIMEOUT: u64 = 2;
/// A third of that.
const STOPPED: Duration = Duration::from_millis(1000 * PEER_TIMEOUT / 3);
/// A rank that is only slow computes for three times that.
const SLOW: &[&str] = &["slow", "6"];
const START: Duration = Duration::from_secs(20);
const LIMIT_SECONDS: u64 = 45;
/// What `vanish gone` ends with when all have heard.
const HEARD: i32 = 42;
const WAYS: [&str; 10] = [
    "MPI_Recv heard",
    "MPI_Recv from anybody heard",
    "MPI_Probe heard",
    "MPI_Wait heard",
    "MPI_Ssend heard",
    "MPI_Barrier heard",
    "MPI_Send of 8 MB heard",
    "MPI_Recv of 8 MB heard",
    "many MPI_Send heard",
    "MPI_Test heard",
];
/// Seconds in which ranks of one host hear that others of it have died, with their start and on a busy machine.
const NEIGHBOURS_LIMIT_SECONDS: u64 = 25;

/// Operations that `dies` knows, by number, and their forms.
const COLLECTIVES: u32 = 13;
const FORMS: u32 = 3;
/// Items in each of their blocks: through the memory of a node, where there is one, and by messages.
const ITEMS: [&str; 2] = ["1", "50000"];
const DIES: &str = "tests/c/dies.c";

/// Epochs that `window_dies` knows, by number.
const EPOCHS: u32 = 10;
/// Ranks of those that die inside of an epoch.
const WINDOW_RANKS: u32 = 4;
/// Windows over memory that the ranks of a node share, and over memory of the program.
const MEMORY: [&str; 2] = ["allocated", "created"];
const WINDOW_DIES: &str = "tests/c/window_dies.c";

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = over(None);
    cases.push(Case::new("each collective: a host loses its network", |context| {
        match context.hosts().map(Hosts::no_namespaces) {
            Ok(Some(skipped)) => return skipped,
            Ok(None) => {}
            Err(error) => return Outcome::Failed(error.to_string()),
        }
        let attempt = || {
            let run = context.mpiexec_on_hosts(COLLECTIVE_RANKS)?.arg(context.compile(DIES)?).arg("gone");
            let running = run.env("WEFT_PEER_TIMEOUT", PEER_TIMEOUT.to_string()).limit(LIMIT_SECONDS).start()?;
            if !running.says("waiting", START) {
                return running.finish(Duration::ZERO);
            }
            let down = Down::new(context)?;
            let finished = running.finish(Duration::from_secs(LIMIT_SECONDS));
            drop(down);
            finished
        };
        Expected::code(HEARD).never_says("each_collective.h:").never_says("dies.c:").judge(attempt())
    }));
    for memory in MEMORY {
        cases.push(Case::new(format!("each epoch of a window, {memory}: a host loses its network"), move |context| {
            match context.hosts().map(Hosts::no_namespaces) {
                Ok(Some(skipped)) => return skipped,
                Ok(None) => {}
                Err(error) => return Outcome::Failed(error.to_string()),
            }
            let attempt = || {
                let run = context.mpiexec_on_hosts(WINDOW_RANKS)?.arg(context.compile(WINDOW_DIES)?);
                let run = run.args(["gone", memory]).env("WEFT_PEER_TIMEOUT", PEER_TIMEOUT.to_string());
                let running = run.limit(LIMIT_SECONDS).start()?;
                if !running.says("waiting", START) {
                    return running.finish(Duration::ZERO);
                }
                let down = Down::new(context)?;
                let finished = running.finish(Duration::from_secs(LIMIT_SECONDS));
                drop(down);
                finished
            };
            Expected::code(HEARD).says("MPI_Win_free heard of it").never_says("window_dies.c:").judge(attempt())
        }));
        cases.push(Case::new(format!("each epoch of a window, {memory}: a rank is killed in it"), move |context| {
            for epoch in 0..EPOCHS {
                let attempt = || {
                    let run = context.mpiexec(WINDOW_RANKS - 1).arg(context.compile(WINDOW_DIES)?);
                    run.args(["killed", &epoch.to_string(), memory]).limit(START.as_secs()).finish()
                };
                match killed().never_says("window_dies.c:").judge(attempt()) {
                    Outcome::Passed => {}
                    Outcome::Failed(why) => return Outcome::Failed(format!("epoch {epoch}: {why}")),
                    other => return other,
                }
            }
            Outcome::Passed
        }));
    }
    cases.extend(neighbours());
    for (place, is_remote, copies) in
        [("on one node", false, false), ("on one node, by single copies", false, true), ("on two hosts", true, false)]
    {
        cases.push(Case::new(format!("each collective: a rank is killed inside it, {place}"), move |context| {
            killed_inside(context, is_remote, if copies { &SINGLE_COPIES } else { &[] })
        }));
    }
    cases
}

/// Ranks of one host, started by a launcher that leaves it to them to notice that some have died.
fn neighbours() -> Vec<Case> {
    let no_copies = ("WEFT_SINGLE_COPY", "0");
    let kill = |ranks: &[Pid]| ranks.iter().try_for_each(|pid| Ok(kill_process(*pid, Signal::KILL)?));
    let nothing = |_: &[Pid]| Ok(());
    let stop = |ranks: &[Pid]| {
        ranks.iter().try_for_each(|pid| kill_process(*pid, Signal::STOP))?;
        // For several of the looks of those that wait.
        std::thread::sleep(Duration::from_secs(1));
        Ok(ranks.iter().try_for_each(|pid| kill_process(*pid, Signal::CONT))?)
    };
    let dies = || Expected::code(HEARD).never_says("each_collective.h:").never_says("dies.c:");
    let window = || Expected::code(HEARD).says("MPI_Win_free heard of it").never_says("window_dies.c:");
    vec![
        neighbour("ranks of this host are killed", "tests/c/vanish.c", RANKS, &["gone"], None, all_hear, kill),
        neighbour(
            "ranks of this host are killed, no single copies",
            "tests/c/vanish.c",
            RANKS,
            &["gone"],
            Some(no_copies),
            all_hear,
            kill,
        ),
        neighbour("ranks of this host exit", "tests/c/vanish.c", RANKS, &["leaves"], None, all_hear, nothing),
        neighbour(
            "ranks of this host are stopped for a while",
            "tests/c/vanish.c",
            RANKS,
            &["slow", "1.5"],
            None,
            || Expected::code(0).never_says("vanish.c:"),
            stop,
        ),
        neighbour(
            "each collective: ranks of this host are killed",
            DIES,
            COLLECTIVE_RANKS,
            &["gone"],
            None,
            dies,
            kill,
        ),
        neighbour(
            "each epoch of a window, allocated: ranks of this host are killed",
            WINDOW_DIES,
            WINDOW_RANKS,
            &["gone", MEMORY[0]],
            None,
            window,
            kill,
        ),
        neighbour(
            "each epoch of a window, created: ranks of this host are killed",
            WINDOW_DIES,
            WINDOW_RANKS,
            &["gone", MEMORY[1]],
            None,
            window,
            kill,
        ),
    ]
}

/// A program half of whose ranks wait for the others, to which something happens then.
fn neighbour(
    name: &str,
    program: &'static str,
    ranks: u32,
    words: &'static [&'static str],
    setting: Option<(&'static str, &'static str)>,
    expected: impl Fn() -> Expected + 'static,
    happens: impl Fn(&[Pid]) -> anyhow::Result<()> + 'static,
) -> Case {
    Case::new(format!("another launcher, {name}"), move |context| {
        let attempt = || {
            let launcher = Run::new("python3").arg(context.root.join("tests/launcher/plain.py"));
            let run = launcher.arg(ranks.to_string()).arg(context.compile(program)?).args(words);
            let run = run.limit(NEIGHBOURS_LIMIT_SECONDS);
            let run = setting.iter().fold(run, |run, (name, value)| run.env(name, value));
            let running = run.start()?;
            if running.says("waiting", START) {
                happens(&second_half(&running, ranks))?;
            }
            running.finish(Duration::from_secs(NEIGHBOURS_LIMIT_SECONDS))
        };
        expected().judge(attempt())
    })
}

/// The ranks of a run's second half, as far as they live.
fn second_half(running: &Running, ranks: u32) -> Vec<Pid> {
    let all = running.processes().into_iter().map(|(pid, _)| pid);
    all.filter(|pid| rank_of(*pid).is_some_and(|rank| rank >= ranks / 2)).collect()
}

/// A job for each operation, form and size, which ends with what the rank has died of.
fn killed_inside(context: &Context, is_remote: bool, settings: &[(&str, &str)]) -> Outcome {
    for (which, form) in (0..COLLECTIVES).flat_map(|which| (0..FORMS).map(move |form| (which, form))) {
        for items in ITEMS {
            let attempt = || {
                let run = if is_remote {
                    context.mpiexec_on_hosts(COLLECTIVE_RANKS)?
                } else {
                    context.mpiexec(COLLECTIVE_RANKS)
                };
                let run =
                    run.arg(context.compile(DIES)?).args(["killed", &which.to_string(), &form.to_string(), items]);
                let run = settings.iter().fold(run, |run, (name, value)| run.env(name, value));
                run.limit(START.as_secs()).finish()
            };
            match killed().never_says("dies.c:").judge(attempt()) {
                Outcome::Passed => {}
                Outcome::Failed(why) => {
                    return Outcome::Failed(format!("operation {which}, form {form}, {items} items: {why}"));
                }
                other => return other,
            }
        }
    }
    Outcome::Passed
}

/// The cases over the usual links, or over libfabric by this provider.
pub(super) fn over(provider: Option<&'static str>) -> Vec<Case> {
    vec![
        case(provider, "a host loses its network", "thread", &["gone"], all_hear, |context, _| {
            let down = Down::new(context)?;
            std::thread::sleep(Duration::from_secs(2 * PEER_TIMEOUT));
            drop(down);
            Ok(())
        }),
        case(
            provider,
            "ranks are stopped for longer than the timeout",
            "none",
            &["gone"],
            all_hear,
            |context, running| {
                ranks_of_second_host(context, running)?.iter().try_for_each(|pid| Ok(kill_process(*pid, Signal::STOP)?))
            },
        ),
        case(provider, "a rank is killed: the launcher says so", "thread", &["gone"], killed, |context, running| {
            let ranks = ranks_of_second_host(context, running)?;
            Ok(kill_process(*ranks.first().ok_or_else(|| anyhow::anyhow!("no rank there"))?, Signal::KILL)?)
        }),
        slow(provider, "thread"),
        slow(provider, "none"),
    ]
}

/// Whoever waits hears of it, whatever it waits in.
fn all_hear() -> Expected {
    WAYS.iter().fold(Expected::code(HEARD), |expected, way| expected.says(way)).never_says("vanish.c:")
}

fn killed() -> Expected {
    Expected::code(128 + Signal::KILL.as_raw()).says("died by signal 9")
}

/// Ranks that compute for longer than the timeout, and are stopped for a part of it.
fn slow(provider: Option<&'static str>, progress: &'static str) -> Case {
    let name = format!("ranks compute for three timeouts, WEFT_PROGRESS={progress}");
    case(
        provider,
        name,
        progress,
        SLOW,
        || Expected::code(0),
        |context, running| {
            let ranks = ranks_of_second_host(context, running)?;
            std::thread::sleep(Duration::from_secs(PEER_TIMEOUT));
            ranks.iter().try_for_each(|pid| kill_process(*pid, Signal::STOP))?;
            std::thread::sleep(STOPPED);
            Ok(ranks.iter().try_for_each(|pid| kill_process(*pid, Signal::CONT))?)
        },
    )
}

/// A run of `vanish`, to which something happens once its ranks wait.
fn case(
    provider: Option<&'static str>,
    name: impl Into<String>,
    progress: &'static str,
    words: &'static [&'static str],
    expected: impl Fn() -> Expected + 'static,
    happens: impl Fn(&Context, &Running) -> anyhow::Result<()> + 'static,
) -> Case {
    let name = name.into();
    let name = provider.map_or_else(|| name.clone(), |provider| format!("provider {provider}, {name}"));
    Case::new(name, move |context| {
        if let Some(skipped) = provider.and_then(|_| libfabric::missing(context)) {
            return skipped;
        }
        match context.hosts().map(Hosts::no_namespaces) {
            Ok(Some(skipped)) => return skipped,
            Ok(None) => {}
            Err(error) => return Outcome::Failed(error.to_string()),
        }
        let attempt = || {
            let program = context.compile("tests/c/vanish.c")?;
            let run = context.mpiexec_on_hosts(RANKS)?.arg(program).args(words).limit(LIMIT_SECONDS);
            let run = run.env("WEFT_PEER_TIMEOUT", PEER_TIMEOUT.to_string()).env("WEFT_PROGRESS", progress);
            let run = match provider {
                Some(provider) => libfabric::by(provider, run),
                None => run,
            };
            let running = run.start()?;
            if running.says("waiting", START) {
                happens(context, &running)?;
            }
            running.finish(Duration::from_secs(LIMIT_SECONDS))
        };
        expected().judge(attempt())
    })
}

/// The ranks of the second host, without their agent.
fn ranks_of_second_host(context: &Context, running: &Running) -> anyhow::Result<Vec<Pid>> {
    let hosts = context.hosts()?;
    let there = hosts.do_on(&hosts.names[1], &["ip", "netns", "pids", &hosts.names[1]])?;
    let is_there = |pid: &Pid| there.lines().any(|line| line.trim() == pid.as_raw_nonzero().to_string());
    let ranks = running.processes().into_iter().filter(|(pid, command)| {
        command.split(' ').nth(1).is_some_and(|program| program.contains("vanish")) && is_there(pid)
    });
    let ranks: Vec<Pid> = ranks.map(|(pid, _)| pid).collect();
    anyhow::ensure!(ranks.len() == RANKS as usize / 2, "{} ranks on the second host", ranks.len());
    Ok(ranks)
}
