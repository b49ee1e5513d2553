//! Suites side by side: each lane is a process of its own that runs one suite after the other, in a folder of
//! its own.
//!
//! Most cases wait for messages, time limits or guests, so that a processor is free for the next suite. Cases
//! of one suite stay one after the other, and so do suites that share something ([`TOGETHER`]).
//!
//! A suite's lines are printed together once the suite has ended. On a terminal a line at the bottom shows
//! the case that each lane runs.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::Suite;
use super::process::is_interrupted;

/// Suites of which one uses what another makes: one lane runs them, in this order.
const TOGETHER: &[&[&str]] = &[&["mpi4py", "demo", "user"]];
/// Suites that take longest on every machine, the longest first. A lane that begins one of them late would
/// still run when the others have ended.
const LONGEST: &[&str] = &[
    "mpi4py-collectives",
    "mpi4py-all",
    "lifetimes-all",
    "fabric-all",
    "mpi4py",
    "guests",
    "fabric",
    "hostile",
    "c",
    "hosts",
];
/// Lanes beyond the processors: the suites use about half a processor each.
const LANES_BEYOND_PROCESSORS: usize = 1;
/// Lanes at most. Each may have virtual machines, browsers and 8 ranks.
const LANES_MAX: usize = 4;

/// The results of some suites.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) passed: usize,
    /// The cases that failed, as `suite:case`.
    pub(super) failed: Vec<String>,
    /// The number of cases that were skipped, by reason.
    pub(super) skipped: BTreeMap<String, usize>,
    /// The seconds that each suite took.
    pub(super) seconds: Vec<(String, f64)>,
}

impl Tally {
    pub(super) fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        for (why, count) in other.skipped {
            *self.skipped.entry(why).or_default() += count;
        }
        self.seconds.extend(other.seconds);
    }
}

/// The lanes to use on a machine with so many processors, for so many suites.
pub(super) fn usual(processors: usize, suites: usize) -> usize {
    let lanes = if processors < 2 { 1 } else { processors + LANES_BEYOND_PROCESSORS };
    lanes.min(LANES_MAX).min(suites).max(1)
}

/// Suites, each with its filter, in groups that one lane runs: the longest first.
fn units<'a>(wanted: &[(&'a Suite, &'a str)]) -> VecDeque<Vec<(&'a Suite, &'a str)>> {
    let together = |name: &str| TOGETHER.iter().position(|group| group.contains(&name));
    let mut units: Vec<Vec<(&Suite, &str)>> = Vec::new();
    for &(suite, filter) in wanted {
        let group = together(suite.name);
        match units.iter_mut().find(|unit| group.is_some() && together(unit[0].0.name) == group) {
            Some(unit) => unit.push((suite, filter)),
            None => units.push(vec![(suite, filter)]),
        }
    }
    let length = |unit: &[(&Suite, &str)]| {
        let place = |(suite, _): &(&Suite, &str)| LONGEST.iter().position(|name| *name == suite.name);
        unit.iter().filter_map(place).min().unwrap_or(LONGEST.len())
    };
    units.sort_by_key(|unit| length(unit));
    units.into()
}

/// Runs `wanted` in so many lanes. `arguments` are what each lane's process gets before its suite.
///
/// # Errors
/// A lane's process cannot be started, or ends without a word about its suite.
pub(super) fn run(root: &Path, arguments: &[String], wanted: &[(&Suite, &str)], lanes: usize) -> anyhow::Result<Tally> {
    let queue = Mutex::new(units(wanted));
    let all = Mutex::new(Tally::default());
    let screen = Mutex::new(Screen::new(lanes));
    let lane = |number: usize| -> anyhow::Result<()> {
        loop {
            let unit = queue.lock().ok().and_then(|mut queue| queue.pop_front());
            let Some(unit) = unit.filter(|_| !is_interrupted()) else { return Ok(()) };
            for (suite, filter) in unit {
                let tally = one(root, arguments, suite, filter, number, &screen)?;
                all.lock().map_err(|_| anyhow::anyhow!("a lane has ended early"))?.add(tally);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..lanes).map(|number| scope.spawn(move || lane(number))).collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow::anyhow!("a lane has ended early"))??;
        }
        anyhow::Ok(())
    })?;
    all.into_inner().map_err(|_| anyhow::anyhow!("a lane has ended early"))
}

/// Runs one suite in a process of its own.
fn one(
    root: &Path,
    arguments: &[String],
    suite: &Suite,
    filter: &str,
    lane: usize,
    screen: &Mutex<Screen>,
) -> anyhow::Result<Tally> {
    let work = root.join(format!("build/suite/lane-{lane}"));
    std::fs::create_dir_all(&work)?;
    let tally = work.join("tally.json");
    let _ = std::fs::remove_file(&tally);
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("suite").args(arguments).arg("--work").arg(&work).arg("--tally").arg(&tally);
    let mut child = command.arg(format!("{}:{filter}", suite.name)).stdout(Stdio::piped()).spawn()?;
    let pid = Pid::from_child(&child);
    let mut block = String::new();
    for line in BufReader::new(child.stdout.take().context("piped above")?).lines() {
        let line = line?;
        if is_interrupted() {
            // The lane's process ends its case, and then itself.
            let _ = kill_process(pid, Signal::TERM);
        }
        if let Ok(mut screen) = screen.lock() {
            screen.shows(lane, format!("{}: {}", suite.name, line.trim()));
        }
        block.push_str(&line);
        block.push('\n');
    }
    let status = child.wait()?;
    if let Ok(mut screen) = screen.lock() {
        screen.prints(lane, &block);
    }
    let text =
        std::fs::read(&tally).with_context(|| format!("the suite {} ended without a result: {status}", suite.name))?;
    Ok(serde_json::from_slice(&text)?)
}

/// The terminal, of which the last line shows what the lanes do.
struct Screen {
    is_terminal: bool,
    lanes: Vec<String>,
    began: Instant,
}

impl Screen {
    fn new(lanes: usize) -> Self {
        Self { is_terminal: std::io::stdout().is_terminal(), lanes: vec![String::new(); lanes], began: Instant::now() }
    }

    fn shows(&mut self, lane: usize, text: String) {
        if self.is_terminal {
            self.lanes[lane] = text.chars().take(STATUS_WIDTH).collect();
            print!("\r\x1b[K{:5.0} s  {}", self.began.elapsed().as_secs_f64(), self.lanes.join(" | "));
            let _ = std::io::stdout().flush();
        }
    }

    fn prints(&mut self, lane: usize, block: &str) {
        self.lanes[lane].clear();
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        print!("{clear}{block}");
        let _ = std::io::stdout().flush();
    }
}

/// Columns of the status line for each lane.
const STATUS_WIDTH: usize = 36;

#[cfg(test)]
mod tests {
    use super::super::{LARGE, SUITES, parse_name};
    use super::*;

    fn names(wanted: &[&str]) -> Vec<Vec<&'static str>> {
        let wanted: Vec<_> = wanted.iter().map(|name| parse_name(name).unwrap()).collect();
        units(&wanted).iter().map(|unit| unit.iter().map(|(suite, _)| suite.name).collect()).collect()
    }

    #[test]
    fn long_suites_begin_first_and_those_that_share_stay_in_order() {
        assert_eq!(
            names(&["c", "windows", "fabric", "mpi4py", "demo", "user"]),
            [vec!["mpi4py", "demo", "user"], vec!["fabric"], vec!["c"], vec!["windows"]]
        );
    }

    #[test]
    fn no_suite_is_lost() {
        let all: Vec<&str> = SUITES.iter().chain(LARGE).map(|suite| suite.name).collect();
        let mut run: Vec<&str> = names(&all).concat();
        run.sort_unstable();
        let mut expected = all.clone();
        expected.sort_unstable();
        assert_eq!(run, expected);
        for name in TOGETHER.iter().copied().flatten().chain(LONGEST) {
            assert!(all.contains(name), "{name}");
        }
    }

    #[test]
    fn one_processor_has_one_lane() {
        assert_eq!([usual(1, 9), usual(2, 9), usual(2, 2), usual(64, 9), usual(8, 0)], [1, 3, 2, 4, 1]);
    }
}
