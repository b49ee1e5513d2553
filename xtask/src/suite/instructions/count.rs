//! Counts instructions: runs `tests/instructions/messages.c` under callgrind, with one way of sending and at
//! one distance.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::super::context::Context;
use super::super::process::Run;

/// The blocks of a run, each with its counts. The median is taken: a disturbance of some blocks does not
/// matter.
const BLOCKS: usize = 9;
/// The messages of each block: many times those of a window, and those of an acknowledgement.
pub(crate) const MESSAGES: usize = 640;
/// The program, and the directory of all profiles.
pub(super) const SOURCE: &str = "tests/instructions/messages.c";
const DIRECTORY: &str = "build/instructions";
/// The time limit of a run, seconds; a run takes two or three seconds on an idle machine.
const LIMIT_SECONDS: u64 = 300;
/// The options for two hosts without privilege, as in `demo/demo.sh`.
const LOOPBACK: [&str; 6] = ["-ppn", "1", "--hosts", "h0,h1", "--agent", "env WEFT_NODE={host}"];

/// The distance of the two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A node, with shared memory.
    Node,
    /// Two hosts that are one, over its loopback interface.
    Udp,
    /// Two hosts made of network namespaces, which take the privilege.
    Frames,
}

/// The way in which the messages are sent and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Blocking,
    Nonblocking,
    /// As `Blocking`, on a communicator of the program and with a status.
    Statuses,
    /// One request for each message.
    Single,
    /// As `Nonblocking`, but only the call that completes the requests is counted.
    Completion,
    /// Operations on a window in memory that both ranks have mapped.
    OneSided,
    /// Accumulates of 16 KB on such a window.
    Accumulates,
}

/// The cost of a message of 8 bytes, or of an operation, on one side, in user space.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Count {
    pub(crate) place: String,
    pub(crate) mode: String,
    /// The side: `sender` or `receiver`; for one-sided operations, the operation.
    pub(crate) side: String,
    pub(crate) instructions: f64,
    pub(crate) system_calls: f64,
}

impl Place {
    pub(crate) const ALL: [Place; 3] = [Place::Node, Place::Udp, Place::Frames];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Place::Node => "one node",
            Place::Udp => "two hosts, UDP",
            Place::Frames => "two hosts, raw frames",
        }
    }
}

impl Mode {
    const MESSAGES: [Mode; 2] = [Mode::Blocking, Mode::Nonblocking];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Blocking => "blocking",
            Mode::Nonblocking => "nonblocking",
            Mode::Statuses => "statuses",
            Mode::Single => "single",
            Mode::Completion => "completion",
            Mode::OneSided => "one-sided",
            Mode::Accumulates => "accumulates",
        }
    }

    /// The names of the two ranks' work.
    fn sides(self) -> [&'static str; 2] {
        match self {
            Mode::Blocking | Mode::Nonblocking | Mode::Statuses | Mode::Single | Mode::Completion => {
                ["sender", "receiver"]
            }
            Mode::OneSided => ["put and flush", "fetch-and-op and flush"],
            Mode::Accumulates => {
                ["accumulate of 16 KB of char and flush", "get-accumulate of 16 KB of short and flush"]
            }
        }
    }
}

/// The kinds of counts: messages at each distance, and operations on shared memory.
pub(crate) fn kinds() -> impl Iterator<Item = (Place, Mode)> {
    let messages = Place::ALL.into_iter().flat_map(|place| Mode::MESSAGES.map(|mode| (place, mode)));
    messages.chain([(Place::Node, Mode::OneSided), (Place::Node, Mode::Accumulates)])
}

/// The reason why nothing can be counted: a program that counting needs is missing.
pub(crate) fn missing() -> Option<String> {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join("valgrind").is_file()));
    (!found).then(|| "no valgrind; tools/setup.sh tests installs it".to_owned())
}

/// The compiler that made the installed library, as a note in the library says (the section `.comment`):
/// `rustc version 1.88.0 (…)`.
///
/// # Errors
/// There is no library, or no such note.
pub(crate) fn compiler(prefix: &Path) -> anyhow::Result<String> {
    let library = prefix.join("lib/libmpi_abi.so.1");
    let bytes = std::fs::read(&library).with_context(|| library.display().to_string())?;
    noted_compiler(&bytes).with_context(|| format!("{} does not say which rustc made it", library.display()))
}

fn noted_compiler(library: &[u8]) -> Option<String> {
    const NOTE: &[u8] = b"rustc version ";
    // The same words may stand in a message: a version begins with a digit and ends with a zero byte.
    let starts = library.windows(NOTE.len()).enumerate().filter(|(_, window)| *window == NOTE).map(|(start, _)| start);
    starts.map(|start| &library[start..]).find_map(|rest| {
        let note = &rest[..rest.iter().position(|byte| *byte == 0)?];
        note.get(NOTE.len())?.is_ascii_digit().then(|| String::from_utf8_lossy(note).into_owned())
    })
}

/// Counts at the sender and at the receiver; `None` if there are no hosts. Callgrind's output stays in
/// `build/instructions/`, a profile for each block, for `callgrind_annotate`.
///
/// # Errors
/// The program does not build, fails, or does not count what it should.
pub(crate) fn count(context: &Context, place: Place, mode: Mode) -> anyhow::Result<Option<[Count; 2]>> {
    let program = build(context)?;
    let directory = format!("{place:?}-{mode:?}").to_lowercase();
    let Some(profiles) = profiles(context, place, mode, &program, &directory)? else { return Ok(None) };
    let side = |profiles: &Vec<String>, side: &str| {
        let [instructions, system_calls] = per_message(profiles).context(directory.clone())?;
        let (place, mode, side) = (place.name().to_owned(), mode.name().to_owned(), side.to_owned());
        Ok::<_, anyhow::Error>(Count { place, mode, side, instructions, system_calls })
    };
    let [first, second] = mode.sides();
    Ok(Some([side(&profiles[0], first)?, side(&profiles[1], second)?]))
}

/// Runs `messages` under callgrind. Returns the profiles of the blocks of both ranks; `None` if there are no
/// hosts.
pub(super) fn profiles(
    context: &Context,
    place: Place,
    mode: Mode,
    program: &Path,
    directory: &str,
) -> anyhow::Result<Option<[Vec<String>; 2]>> {
    let run = match place {
        Place::Node => context.mpiexec(2).env("WEFT_LINK", "shared"),
        // Other interfaces would be rails, and each rail has a cost.
        Place::Udp => context.mpiexec(2).args(LOOPBACK).env("WEFT_LINK", "udp").env("WEFT_INTERFACE", "lo"),
        Place::Frames if context.hosts()?.why_no_networks().is_some() => return Ok(None),
        Place::Frames => context.mpiexec_on_hosts(2)?.env("WEFT_LINK", "ethernet,udp"),
    };
    let directory = context.root.join(DIRECTORY).join(directory);
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    std::fs::create_dir_all(&directory)?;
    let counter = [
        "valgrind",
        "--quiet",
        "--tool=callgrind",
        "--collect-atstart=no",
        "--toggle-collect=counted",
        "--dump-after=mark",
        "--collect-systime=yes",
    ];
    let run = run.args(counter).arg(format!("--callgrind-out-file={}/rank-%q{{PMI_RANK}}", directory.display()));
    let run = run.arg(program).arg(&directory).args([mode.name(), &BLOCKS.to_string(), &MESSAGES.to_string()]);
    let finished = run.env("LD_LIBRARY_PATH", context.prefix.join("lib")).limit(LIMIT_SECONDS).finish()?;
    anyhow::ensure!(finished.code == Some(0), "{}, {}: {}", place.name(), mode.name(), finished.report());
    anyhow::ensure!(finished.leftovers.is_empty(), "left behind: {}", finished.leftovers.join("; "));
    let of_rank = |rank: u32| {
        // The first profile is that of the warm-up.
        let profiles = (2..2 + BLOCKS).map(|number| {
            let path = directory.join(format!("rank-{rank}.{number}"));
            std::fs::read_to_string(&path).with_context(|| path.display().to_string())
        });
        profiles.collect::<anyhow::Result<Vec<String>>>()
    };
    Ok(Some([of_rank(0)?, of_rank(1)?]))
}

/// Compiles `messages` with Weft's own wrapper.
pub(super) fn build(context: &Context) -> anyhow::Result<PathBuf> {
    let directory = context.root.join(DIRECTORY);
    std::fs::create_dir_all(&directory)?;
    let program = directory.join("messages");
    let source = context.root.join(SOURCE);
    let flags = ["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"];
    let finished = Run::new(context.bin("mpicc")).args(flags).arg(&program).arg(source).finish()?;
    anyhow::ensure!(finished.code == Some(0), "cannot compile messages.c:\n{}", finished.report());
    Ok(program)
}

/// The instructions and system calls per message from callgrind's profiles of the blocks: the medians.
pub(super) fn per_message(profiles: &[String]) -> anyhow::Result<[f64; 2]> {
    let blocks = profiles.iter().map(|profile| totals(profile)).collect::<anyhow::Result<Vec<_>>>()?;
    let per_message = |column: usize| {
        let values: Vec<u64> = blocks.iter().map(|block| block[column]).collect();
        median(&values) as f64 / MESSAGES as f64
    };
    let [instructions, system_calls] = [per_message(0), per_message(1)];
    anyhow::ensure!(instructions >= 1.0, "nothing was counted");
    Ok([instructions, system_calls])
}

/// Instructions and system calls of one profile.
fn totals(profile: &str) -> anyhow::Result<[u64; 2]> {
    let line = |name: &str| {
        let line = profile.lines().find_map(|line| line.strip_prefix(name));
        line.with_context(|| format!("a profile without a line of {name}"))
    };
    let (events, values) = (line("events: ")?, line("totals: ")?);
    let of = |event: &str| {
        let column = events.split_whitespace().position(|name| name == event);
        let column = column.with_context(|| format!("a profile without {event}"))?;
        // Columns of zeros at the end of the line are left out.
        Ok::<_, anyhow::Error>(values.split_whitespace().nth(column).map_or(Ok(0), str::parse)?)
    };
    Ok([of("Ir")?, of("sysCount")?])
}

pub(super) fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profiles(totals: &[&str]) -> Vec<String> {
        totals
            .iter()
            .map(|totals| format!("version: 1\nevents: Ir sysCount sysTime\nfn=(1)\ntotals: {totals}\n"))
            .collect()
    }

    #[test]
    fn a_message_costs_the_median_block_divided_by_its_messages() {
        let disturbed = ["640000 64 3", "700000 640 9", "640000 64"];
        assert_eq!(per_message(&profiles(&disturbed)).unwrap(), [1000.0, 0.1]);
        assert_eq!(per_message(&profiles(&["6400"])).unwrap(), [10.0, 0.0]);
    }

    #[test]
    fn what_counts_nothing_is_no_count() {
        assert!(per_message(&profiles(&["0", "0", "640"])).is_err());
        assert!(per_message(&profiles(&["many"])).is_err());
        assert!(per_message(&["events: Ir\ntotals: 640\n".to_owned()]).is_err());
        assert!(per_message(&["events: Ir sysCount\n".to_owned()]).is_err());
    }

    #[test]
    fn the_compiler_is_found_among_other_words() {
        let library = b"\x7fELF the rustc version \0x\0rustc version 1.95.0 (59807616e 2026-04-14)\0Linker: LLD\0";
        assert_eq!(noted_compiler(library).unwrap(), "rustc version 1.95.0 (59807616e 2026-04-14)");
        assert_eq!(noted_compiler(b"GCC: (Debian)\0rustc version 1"), None);
    }
}
