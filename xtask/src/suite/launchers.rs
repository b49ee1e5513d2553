//! The matrix of launchers: each of them starts, ends and cancels jobs of Weft's programs, on one host and on
//! two.
//!
//! A launcher is a row of [`LAUNCHERS`], in `launchers/rows.rs`: its name, how it starts a job, and what it
//! cannot do. A [`Trial`] is a column. Each launcher has each trial on each place; a cell that cannot be is a
//! sentence. `launchers-all` runs all cells and prints the table; `launchers` is a selection.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use super::context::{Context, Expected};
use super::needs::Need;
use super::peers;
use super::process::{Finished, Run};
use super::{Case, Outcome};

pub(super) mod rows;

use rows::LAUNCHERS;

/// The time in which a job starts: Open MPI's takes two seconds on an idle machine.
const READY: Duration = Duration::from_secs(60);
/// The time in which a job ends that has been cancelled.
const END: Duration = Duration::from_secs(90);
/// The time limit of a program that ends by itself, and of mpi4py's modules.
const LIMIT_SECONDS: u64 = 120;
const MPI4PY_LIMIT_SECONDS: u64 = 600;

const BEHAVE: &str = "tests/launcher/behave.c";
const RING: &str = "examples/ring.c";
/// The ranks of a job that is cancelled, or in which a rank fails.
const FEW: u32 = 4;
/// The lines of each of [`FEW`] ranks that come to a megabyte, and the letters of each line.
const LINES: usize = 1250;
const LETTERS: usize = 200;
/// Standard input, of fewer bytes than a pipe holds: Hydra gives a job up whose rank does not read in time.
const INPUT_LINE: &str = "warp and weft\n";
const INPUT_LINES: usize = 3_500;
/// The modules of mpi4py's tests about messages between two ranks, as a pattern.
const POINT_TO_POINT: &str = "^test_p2p_";

/// Where the ranks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    OneHost,
    TwoHosts,
}

impl Place {
    const ALL: [Place; 2] = [Place::OneHost, Place::TwoHosts];

    fn name(self) -> &'static str {
        match self {
            Place::OneHost => "one host",
            Place::TwoHosts => "two hosts",
        }
    }
}

/// What is asked of a launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    /// A ring of so many ranks.
    Ranks(u32),
    /// A rank is killed inside MPI, and the launcher ends the others.
    Dies,
    /// A rank calls `MPI_Abort` with code 7.
    Abort,
    /// The launcher gets SIGTERM.
    Terminated,
    /// The launcher gets SIGINT.
    Interrupted,
    /// The ranks print a megabyte.
    Output,
    /// Rank 0 reads standard input.
    Input,
    /// mpi4py's tests of messages between two ranks.
    Mpi4py,
}

impl Trial {
    const ALL: [Trial; 11] = [
        Trial::Ranks(1),
        Trial::Ranks(2),
        Trial::Ranks(5),
        Trial::Ranks(16),
        Trial::Dies,
        Trial::Abort,
        Trial::Terminated,
        Trial::Interrupted,
        Trial::Output,
        Trial::Input,
        Trial::Mpi4py,
    ];

    /// The column's head.
    fn name(self) -> String {
        match self {
            Trial::Ranks(1) => "1 rank".into(),
            Trial::Ranks(ranks) => format!("{ranks} ranks"),
            Trial::Dies => "a rank dies".into(),
            Trial::Abort => "MPI_Abort".into(),
            Trial::Terminated => "SIGTERM".into(),
            Trial::Interrupted => "SIGINT".into(),
            Trial::Output => "1 MB of output".into(),
            Trial::Input => "standard input".into(),
            Trial::Mpi4py => "mpi4py".into(),
        }
    }
}

/// The shape of a job.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) ranks: u32,
    pub(super) place: Place,
}

impl Shape {
    /// The most ranks of a host.
    pub(super) fn per_host(self) -> u32 {
        match self.place {
            Place::OneHost => self.ranks,
            Place::TwoHosts => self.ranks.div_ceil(2),
        }
    }
}

/// A launcher, as a row of the matrix.
pub(super) struct Launcher {
    pub(super) name: &'static str,
    /// The reason why it is not on this machine.
    pub(super) missing: fn(&Context) -> Option<String>,
    /// The command that starts a job of this shape; the program and its arguments follow.
    pub(super) start: fn(&Context, Shape) -> anyhow::Result<Run>,
    /// The reason why a cell cannot be, as a sentence.
    pub(super) cannot: fn(Trial, Place) -> Option<&'static str>,
    /// Its exit code when a signal has ended a rank; `None`: any but 0.
    pub(super) code_after_signal: Option<i32>,
}

/// All cells of the matrix.
pub(crate) fn all_cases(_: &Context) -> Vec<Case> {
    let mut cases = vec![peers::mpi4py_build("build mpi4py from the source distribution")];
    for launcher in LAUNCHERS {
        for place in Place::ALL {
            cases.extend(Trial::ALL.map(|trial| cell(launcher, trial, place)));
        }
    }
    cases
}

/// The cells that `make test` runs. Weft's own launcher has suites of its own.
pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let is_selected = |launcher: &Launcher, trial: Trial, place: Place| match place {
        Place::OneHost => matches!(trial, Trial::Ranks(5) | Trial::Abort),
        Place::TwoHosts => trial == Trial::Ranks(2) || (trial == Trial::Dies && launcher.name == "Hydra"),
    };
    let mut cases = Vec::new();
    for launcher in LAUNCHERS.iter().filter(|launcher| launcher.name != rows::OWN) {
        for place in Place::ALL {
            let possible = Trial::ALL.into_iter().filter(|trial| (launcher.cannot)(*trial, place).is_none());
            let selected = possible.filter(|trial| is_selected(launcher, *trial, place));
            cases.extend(selected.map(|trial| cell(launcher, trial, place)));
        }
    }
    cases
}

fn cell(launcher: &'static Launcher, trial: Trial, place: Place) -> Case {
    let row = format!("{}, {}", launcher.name, place.name());
    let case = Case::new(format!("{row}: {}", trial.name()), move |context| {
        let why = (launcher.missing)(context).or_else(|| (launcher.cannot)(trial, place).map(str::to_owned));
        why.map_or_else(|| attempt(context, launcher, trial, place), Outcome::Skipped)
    });
    let needs: &[Need] = if place == Place::TwoHosts { &[Need::Networks] } else { &[] };
    case.needs(needs).in_table(row, trial.name())
}

fn attempt(context: &Context, launcher: &Launcher, trial: Trial, place: Place) -> Outcome {
    let start = |ranks| (launcher.start)(context, Shape { ranks, place }).map(|run| run.limit(LIMIT_SECONDS));
    let behave =
        |words: &str| -> anyhow::Result<Run> { Ok(start(FEW)?.arg(context.compile(BEHAVE)?).args(words.split(' '))) };
    let by_signal = || Expected { code: launcher.code_after_signal, ..Expected::default() };
    match trial {
        Trial::Ranks(ranks) => {
            let finished = start(ranks).and_then(|run| run.arg(context.compile(RING)?).finish());
            Expected::code(0).says(format!("over {ranks} ranks")).says("(right) on Weft").judge(finished)
        }
        Trial::Dies => {
            let finished = behave("signal-inside 2 9").and_then(|run| run.finish());
            by_signal().never_says("behave:").judge(finished)
        }
        Trial::Abort => {
            let finished = behave("abort 1 7").and_then(|run| run.finish());
            Expected::code(7).judge(finished)
        }
        Trial::Terminated => by_signal().judge(cancel(behave("hang"), Signal::TERM)),
        Trial::Interrupted => by_signal().judge(cancel(behave("hang"), Signal::INT)),
        Trial::Output => whole(behave(&format!("lines {LINES}")).and_then(|run| run.finish())),
        Trial::Input => {
            let text = INPUT_LINE.repeat(INPUT_LINES);
            // Not to its end: PRRTE 3.0.14 does not tell a rank of it.
            let finished = behave(&format!("input {}", text.len())).and_then(|run| run.input(&text).finish());
            Expected::code(0).says(format!("rank 0 read {} bytes", text.len())).judge(finished)
        }
        Trial::Mpi4py => {
            let attempt = || -> anyhow::Result<Finished> {
                let (tests, words) = peers::test_words(context, 2, &["-i", POINT_TO_POINT])?;
                start(2)?.args(words).directory(&tests).limit(MPI4PY_LIMIT_SECONDS).finish()
            };
            Expected::code(0).says("OK").never_says("FAILED (").judge(attempt())
        }
    }
}

/// Cancels a job by a signal to its launcher, and waits for its end.
fn cancel(run: anyhow::Result<Run>, signal: Signal) -> anyhow::Result<Finished> {
    let running = run?.start()?;
    anyhow::ensure!(running.says("ready", READY), "it did not start:\n{}", running.output());
    kill_process(running.pid(), signal)?;
    running.finish(READY + END)
}

/// Judges a run of [`FEW`] ranks that print [`LINES`] lines each. Launchers may mix lines of different ranks,
/// but lose nothing.
fn whole(finished: anyhow::Result<Finished>) -> Outcome {
    let output = finished.as_ref().map(|finished| finished.output.clone()).unwrap_or_default();
    let lost: Vec<String> = (b'a'..).take(FEW as usize).filter_map(|letter| letters_lost(&output, letter)).collect();
    match (Expected::code(0).judge(finished), lost.is_empty()) {
        (Outcome::Passed, false) => Outcome::Failed(lost.join("; ")),
        (outcome, _) => outcome,
    }
}

/// Says how many letters came from the rank that prints this letter, unless all came.
fn letters_lost(output: &str, letter: u8) -> Option<String> {
    let come = output.bytes().filter(|byte| *byte == letter).count();
    (come < LINES * LETTERS).then(|| format!("{come} letters {} of {}", letter as char, LINES * LETTERS))
}

/// The script by which other launchers reach the virtual hosts, in the place of `ssh`.
///
/// # Errors
/// It cannot be written, or there are no hosts.
pub(super) fn reach(context: &Context) -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let hosts = context.hosts()?;
    let pairs = ADDRESSES.iter().zip(&hosts.names);
    let lines: String = pairs.map(|(address, host)| format!("{address}) host={host} ;;\n")).collect();
    let script = format!(
        "#!/bin/sh\n# Called as ssh would be: OPTIONS ADDRESS COMMAND\n\
         while [ \"${{1#-}}\" != \"$1\" ]; do shift; done\ncase $1 in\n{lines}\
         *) echo \"no host has the address $1\" >&2; exit 1 ;;\nesac\nshift\n\
         exec '{}' hosts enter \"$host\" sh -c \"$*\"\n",
        context.bin("weft").display()
    );
    let path = context.work.join("reach-host");
    std::fs::write(&path, script)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// The addresses of the virtual hosts.
pub(super) const ADDRESSES: [&str; 2] = ["198.18.0.1", "198.18.0.2"];

/// Puts a launcher into the first host, unless it starts ranks of this machine alone. Other launchers than
/// Weft's must be reachable over IP from all hosts.
///
/// # Errors
/// There are no hosts.
pub(super) fn inside(context: &Context, place: Place, launcher: PathBuf) -> anyhow::Result<Run> {
    Ok(match place {
        Place::OneHost => Run::new(launcher),
        Place::TwoHosts => context.hosts()?.on(&context.hosts()?.names[0], [launcher]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_cannot_be_have_a_sentence_and_each_launcher_can_do_something() {
        for launcher in LAUNCHERS {
            let cells = || Place::ALL.into_iter().flat_map(|place| Trial::ALL.map(|trial| (trial, place)));
            let sentences = || cells().filter_map(|(trial, place)| (launcher.cannot)(trial, place));
            assert!(sentences().count() < cells().count() / 2 + 1, "{}", launcher.name);
            assert!(sentences().all(|sentence| sentence.len() > 20), "{}", launcher.name);
        }
    }

    #[test]
    fn what_is_lost_is_counted() {
        let all = "ab".repeat(LINES * LETTERS);
        assert_eq!(letters_lost(&all, b'a'), None);
        assert_eq!(letters_lost(&all[2..], b'b').as_deref(), Some("249999 letters b of 250000"));
    }
}
