//! Tests of ranks that only wait for others. A waiting rank hears when the awaited rank or its host is gone,
//! and hears nothing when that rank is only slow. Cases run also under a launcher that does nothing about
//! ranks that die.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::carriers::Down;
use super::collectives::SINGLE_COPIES;
use super::context::{Context, Expected};
use super::needs::Need;
use super::process::{Run, Running};
use super::strangers::rank_of;
use super::{Case, libfabric};

/// The number of ranks: half of them wait, each in another call.
const RANKS: u32 = 2 * WAYS.len() as u32;
/// The ranks of a job in which one dies inside a collective.
const COLLECTIVE_RANKS: u32 = 6;
/// The seconds after which a silent peer counts as failed in these cases.
const PEER_TIMEOUT: u64 = 2;
/// A job of `vanish`: its arguments, and `WEFT_PEER_TIMEOUT` in seconds.
#[derive(Clone, Copy)]
struct Vanish {
    words: &'static [&'static str],
    timeout: u64,
}
/// Ranks compute for ever.
const GONE: Vanish = Vanish { words: &["gone"], timeout: PEER_TIMEOUT };
/// Ranks are only slow: they compute for three timeouts.
const SLOW: Vanish = Vanish { words: &["slow", "6"], timeout: PEER_TIMEOUT };
/// The same over libfabric. Its first message to a peer makes a connection, and each end of it touches 17 MB
/// of new buffers: 10 ms of a processor, and ten times as much beside others. On a machine with a load of 40,
/// half of the connections took more than 2 s.
const SLOW_OVER_LIBFABRIC: Vanish = Vanish { words: &["slow", "18"], timeout: 6 };
const START: Duration = Duration::from_secs(20);
const LIMIT_SECONDS: u64 = 60;
/// The exit code of `vanish gone` when all ranks have heard.
const HEARD: i32 = 42;
pub(super) const WAYS: [&str; 10] = [
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
/// The seconds in which ranks of one host hear that others of the host have died, including their start, on a
/// busy machine.
const NEIGHBOURS_LIMIT_SECONDS: u64 = 25;

/// Operations that `dies` knows, and their forms.
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
/// The numbers of items in each block: few, which go through the memory of a node where there is one, and
/// many, which go by messages.
const ITEMS: [&str; 2] = ["1", "50000"];
const DIES: &str = "tests/c/dies.c";

/// The calls in which `window_dies` ends an epoch, or is in the middle of one.
const EPOCHS: [&str; 10] = [
    "MPI_Win_fence",
    "MPI_Win_complete",
    "MPI_Win_wait",
    "MPI_Win_unlock",
    "MPI_Win_unlock_all",
    "MPI_Win_flush",
    "MPI_Get",
    "MPI_Fetch_and_op",
    "MPI_Rget",
    "MPI_Win_free",
];
/// The ranks of a job in which one dies inside an epoch.
const WINDOW_RANKS: u32 = 4;
/// Windows over memory that the ranks of a node share, and over memory of the program.
const MEMORY: [&str; 2] = ["allocated", "created"];
const WINDOW_DIES: &str = "tests/c/window_dies.c";

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = over(Links::Usual);
    cases.push(network_lost("each collective", DIES, COLLECTIVE_RANKS, &["gone"], told_in_collectives));
    for words in [&["gone", MEMORY[0]], &["gone", MEMORY[1]]] {
        let name = format!("each epoch of a window, {}", words[1]);
        cases.push(network_lost(&name, WINDOW_DIES, WINDOW_RANKS, words, told_in_epochs));
    }
    cases.extend(neighbours());
    cases.extend(EPOCHS.into_iter().flat_map(|epoch| MEMORY.map(|memory| killed_in_epoch(epoch, memory))));
    for place in [Place::Node, Place::NodeBySingleCopies, Place::Hosts] {
        for (operation, form) in COLLECTIVES.into_iter().flat_map(|operation| FORMS.map(|form| (operation, form))) {
            cases.extend(ITEMS.map(|items| killed_in_collective(place, operation, form, items)));
        }
    }
    cases
}

/// The expectation that all ranks of the first half have heard, in whatever call they were.
fn told_in_collectives() -> Expected {
    Expected::code(HEARD).never_says("each_collective.h:").never_says("dies.c:")
}

fn told_in_epochs() -> Expected {
    Expected::code(HEARD).says("MPI_Win_free heard of it").never_says("window_dies.c:")
}

/// A case whose program has half of its ranks wait for the others, while their host loses its network.
fn network_lost(
    name: &str,
    program: &'static str,
    ranks: u32,
    words: &'static [&'static str],
    expected: fn() -> Expected,
) -> Case {
    let attempt = move |context: &Context| {
        let run = context.mpiexec_on_hosts(ranks)?.arg(context.compile(program)?).args(words);
        let running = run.env("WEFT_PEER_TIMEOUT", PEER_TIMEOUT.to_string()).limit(LIMIT_SECONDS).start()?;
        if !running.says("waiting", START) {
            return running.finish(Duration::ZERO);
        }
        let down = Down::new(context)?;
        let finished = running.finish(Duration::from_secs(LIMIT_SECONDS));
        drop(down);
        finished
    };
    Case::new(format!("{name}: a host loses its network"), move |context| expected().judge(attempt(context)))
        .needs(&[Need::Networks])
}

/// The cases of ranks of one host under a launcher that does not report deaths: the ranks themselves must
/// notice.
fn neighbours() -> Vec<Case> {
    let no_copies = ("WEFT_SINGLE_COPY", "0");
    let kill = |ranks: &[Pid]| ranks.iter().try_for_each(|pid| Ok(kill_process(*pid, Signal::KILL)?));
    let nothing = |_: &[Pid]| Ok(());
    let stop = |ranks: &[Pid]| {
        ranks.iter().try_for_each(|pid| kill_process(*pid, Signal::STOP))?;
        // The time is enough for several looks of the waiting ranks.
        std::thread::sleep(Duration::from_secs(1));
        Ok(ranks.iter().try_for_each(|pid| kill_process(*pid, Signal::CONT))?)
    };
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
            told_in_collectives,
            kill,
        ),
        neighbour(
            "each epoch of a window, allocated: ranks of this host are killed",
            WINDOW_DIES,
            WINDOW_RANKS,
            &["gone", MEMORY[0]],
            None,
            told_in_epochs,
            kill,
        ),
        neighbour(
            "each epoch of a window, created: ranks of this host are killed",
            WINDOW_DIES,
            WINDOW_RANKS,
            &["gone", MEMORY[1]],
            None,
            told_in_epochs,
            kill,
        ),
    ]
}

/// A case whose program has half of its ranks wait for the others, to which something then happens.
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

/// The living ranks of a run's second half.
pub(super) fn second_half(running: &Running, ranks: u32) -> Vec<Pid> {
    let all = running.processes().into_iter().map(|(pid, _)| pid);
    all.filter(|pid| rank_of(*pid).is_some_and(|rank| rank >= ranks / 2)).collect()
}

/// The place of the ranks of a job.
#[derive(Clone, Copy)]
enum Place {
    Node,
    NodeBySingleCopies,
    Hosts,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Node => "on one node",
            Place::NodeBySingleCopies => "on one node, by single copies",
            Place::Hosts => "on two hosts",
        }
    }

    fn mpiexec(self, context: &Context, ranks: u32) -> anyhow::Result<Run> {
        match self {
            Place::Node => Ok(context.mpiexec(ranks)),
            Place::NodeBySingleCopies => {
                let run = context.mpiexec(ranks);
                Ok(SINGLE_COPIES.iter().fold(run, |run, (name, value)| run.env(name, value)))
            }
            Place::Hosts => context.mpiexec_on_hosts(ranks),
        }
    }
}

/// A case in which the job ends with the signal that killed the rank.
fn killed_in_collective(place: Place, operation: &'static str, form: &'static str, items: &'static str) -> Case {
    let name = format!("{form} {operation} of {items} items, {}: a rank is killed inside it", place.name());
    let attempt = move |context: &Context| {
        let run = place.mpiexec(context, COLLECTIVE_RANKS)?.arg(context.compile(DIES)?);
        run.args(["killed", operation, form, items]).limit(START.as_secs()).finish()
    };
    Case::new(name, move |context| killed().never_says("dies.c:").judge(attempt(context)))
}

/// A case in which a rank is killed in an epoch of a window.
fn killed_in_epoch(epoch: &'static str, memory: &'static str) -> Case {
    let attempt = move |context: &Context| {
        let run = context.mpiexec(WINDOW_RANKS - 1).arg(context.compile(WINDOW_DIES)?);
        run.args(["killed", epoch, memory]).limit(START.as_secs()).finish()
    };
    Case::new(format!("{epoch} in a window, {memory}: a rank is killed"), move |context| {
        killed().never_says("window_dies.c:").judge(attempt(context))
    })
}

/// The links of a run.
#[derive(Clone, Copy)]
pub(super) enum Links {
    /// Those that are used where nothing is said.
    Usual,
    /// libfabric, by this provider.
    Fabric(&'static str),
    /// Kernel TCP.
    Tcp,
}

/// The cases over these links.
pub(super) fn over(links: Links) -> Vec<Case> {
    vec![
        case(links, "a host loses its network", "thread", GONE, all_hear, |context, _| {
            let down = Down::new(context)?;
            std::thread::sleep(Duration::from_secs(2 * PEER_TIMEOUT));
            drop(down);
            Ok(())
        }),
        case(links, "ranks are stopped for longer than the timeout", "none", GONE, all_hear, |context, running| {
            ranks_of_second_host(context, running)?.iter().try_for_each(|pid| Ok(kill_process(*pid, Signal::STOP)?))
        }),
        case(links, "a rank is killed: the launcher says so", "thread", GONE, killed, |context, running| {
            let ranks = ranks_of_second_host(context, running)?;
            Ok(kill_process(*ranks.first().ok_or_else(|| anyhow::anyhow!("no rank there"))?, Signal::KILL)?)
        }),
        slow(links, "thread"),
        slow(links, "none"),
    ]
}

/// The expectation that every waiting rank hears of it, in whatever call it waits.
fn all_hear() -> Expected {
    WAYS.iter().fold(Expected::code(HEARD), |expected, way| expected.says(*way)).never_says("vanish.c:")
}

fn killed() -> Expected {
    Expected::code(128 + Signal::KILL.as_raw()).says("died by signal 9")
}

/// A case with ranks that compute for longer than the timeout. They are stopped for a part of it twice: first
/// before their first answers, for which some peers need a connection, and then later.
fn slow(links: Links, progress: &'static str) -> Case {
    let name = format!("ranks compute for three timeouts, WEFT_PROGRESS={progress}");
    let job = if matches!(links, Links::Fabric(_)) { SLOW_OVER_LIBFABRIC } else { SLOW };
    let timeout = Duration::from_secs(job.timeout);
    case(
        links,
        name,
        progress,
        job,
        || Expected::code(0),
        move |context, running| {
            let ranks = ranks_of_second_host(context, running)?;
            for pause in [Duration::ZERO, timeout] {
                std::thread::sleep(pause);
                ranks.iter().try_for_each(|pid| kill_process(*pid, Signal::STOP))?;
                std::thread::sleep(timeout / 3);
                ranks.iter().try_for_each(|pid| kill_process(*pid, Signal::CONT))?;
            }
            Ok(())
        },
    )
}

/// A run of `vanish`, to which something happens once its ranks wait.
fn case(
    links: Links,
    name: impl Into<String>,
    progress: &'static str,
    job: Vanish,
    expected: impl Fn() -> Expected + 'static,
    happens: impl Fn(&Context, &Running) -> anyhow::Result<()> + 'static,
) -> Case {
    let name = name.into();
    let name = match links {
        Links::Usual => name,
        Links::Fabric(provider) => format!("provider {provider}, {name}"),
        Links::Tcp => format!("tcp, {name}"),
    };
    let case = Case::new(name, move |context| {
        let attempt = || {
            let program = context.compile("tests/c/vanish.c")?;
            let run = context.mpiexec_on_hosts(RANKS)?.arg(program).args(job.words).limit(LIMIT_SECONDS);
            let run = run.env("WEFT_PEER_TIMEOUT", job.timeout.to_string()).env("WEFT_PROGRESS", progress);
            let run = match links {
                Links::Usual => run,
                Links::Fabric(provider) => libfabric::by(provider, run),
                Links::Tcp => run.env("WEFT_LINK", "shared,tcp"),
            };
            let running = run.start()?;
            if running.says("waiting", START) {
                happens(context, &running)?;
            }
            running.finish(Duration::from_secs(LIMIT_SECONDS))
        };
        expected().judge(attempt())
    });
    case.needs(if matches!(links, Links::Fabric(_)) { &[Need::Libfabric] } else { &[] }).needs(&[Need::Networks])
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
