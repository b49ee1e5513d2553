//! Suites side by side: each lane is a process of its own that runs one suite after the other, in a folder of
//! its own.
//!
//! One lane is there beyond the processors. Some suites mostly wait, for time limits or for the death of a
//! rank ([`WAITING`]). The others keep the processors busy, and at most as many of them run at a time as
//! there are processors. With more busy suites, ranks spin while their peers wait for a processor. On two
//! processors of an AMD EPYC mpi4py's tests took 372 s beside two busy suites, and 233 s beside one.
//!
//! Cases of one suite stay one after the other, and so do suites that share something ([`TOGETHER`]).
//!
//! A suite's lines are printed together once the suite has ended. On a terminal a line at the bottom shows
//! the case that each lane runs.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
    "hosts",
    "c",
    "gone",
    "multicast",
];
/// Suites whose cases mostly wait.
const WAITING: &[&str] = &[
    "carriers",
    "checkers",
    "doctor",
    "gone",
    "hangs",
    "hostile",
    "instructions",
    "instrument",
    "interfaces",
    "launcher",
    "launcher-chaos",
    "lifetimes",
    "memory",
    "multicast",
    "path-mtu",
    "rails",
    "report",
    "slurm",
    "slurm-all",
    "tools",
    "trace",
];
/// Lanes beyond the processors, for suites that mostly wait.
const LANES_BEYOND_PROCESSORS: usize = 1;
/// Lanes at most. Each may have virtual machines, browsers and 8 ranks.
const LANES_MAX: usize = 4;
/// The time between two looks for a signal.
const POLL: Duration = Duration::from_millis(50);

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
fn units<'a>(wanted: &[(&'a Suite, &'a str)]) -> VecDeque<Unit<'a>> {
    let together = |name: &str| TOGETHER.iter().position(|group| group.contains(&name));
    let mut units: Vec<Unit<'a>> = Vec::new();
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

/// Suites with their filters that one lane runs, one after the other.
type Unit<'a> = Vec<(&'a Suite, &'a str)>;

/// Returns whether a unit keeps processors busy.
fn is_busy(unit: &Unit<'_>) -> bool {
    unit.iter().any(|(suite, _)| !WAITING.contains(&suite.name))
}

/// The units that wait for a lane, and the number of busy ones that run.
struct Queue<'a> {
    units: VecDeque<Unit<'a>>,
    busy: usize,
    /// The most busy units at a time.
    busy_max: usize,
}

impl<'a> Queue<'a> {
    /// The queue of `units` on so many processors.
    fn new(units: VecDeque<Unit<'a>>, processors: usize) -> Self {
        Self { units, busy: 0, busy_max: processors.max(1) }
    }

    /// Takes the unit that a free lane runs next: a busy one if one more may run, since these take longest.
    /// `None`: there is nothing left for this lane. The lanes that run busy units take the busy ones that are
    /// left.
    fn take(&mut self) -> Option<Unit<'a>> {
        let first = |busy: bool| self.units.iter().position(|unit| is_busy(unit) == busy);
        let busy = if self.busy < self.busy_max { first(true) } else { None };
        let unit = self.units.remove(busy.or_else(|| first(false))?)?;
        self.busy += usize::from(is_busy(&unit));
        Some(unit)
    }

    /// Notes that a unit that was taken has ended.
    fn ends(&mut self, was_busy: bool) {
        self.busy -= usize::from(was_busy);
    }
}

/// The state that the lanes share.
struct Lanes<'a> {
    root: &'a Path,
    /// The arguments of each lane's process before its suite.
    arguments: &'a [String],
    queue: Mutex<Queue<'a>>,
    all: Mutex<Tally>,
    screen: Mutex<Screen>,
    /// The process that each lane runs.
    running: Mutex<Vec<Option<Pid>>>,
}

/// Runs `wanted` in so many lanes, on so many processors. `arguments` are what each lane's process gets
/// before its suite.
///
/// # Errors
/// A lane's process cannot be started.
pub(super) fn run(
    root: &Path,
    arguments: &[String],
    wanted: &[(&Suite, &str)],
    lanes: usize,
    processors: usize,
) -> anyhow::Result<Tally> {
    let shared = Lanes {
        root,
        arguments,
        queue: Mutex::new(Queue::new(units(wanted), processors)),
        all: Mutex::default(),
        screen: Mutex::new(Screen::new(lanes)),
        running: Mutex::new(vec![None; lanes]),
    };
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Acquire) {
                shared.pass_interrupts_on();
                std::thread::sleep(POLL);
            }
        });
        let shared = &shared;
        let threads: Vec<_> = (0..lanes).map(|number| scope.spawn(move || shared.lane(number))).collect();
        let ends: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        has_ended.store(true, Ordering::Release);
        ends.into_iter().try_for_each(|end| end.unwrap_or_else(|_| Err(anyhow::anyhow!("a lane has panicked"))))
    })?;
    Ok(shared.all.into_inner().unwrap_or_else(PoisonError::into_inner))
}

impl Lanes<'_> {
    /// Ends what runs, after SIGINT or SIGTERM. A terminal sends SIGINT to all processes, but `kill` to one.
    fn pass_interrupts_on(&self) {
        if is_interrupted() {
            for pid in lock(&self.running).iter().flatten() {
                // A process that has ended in this moment needs no signal.
                let _ = kill_process(*pid, Signal::TERM);
            }
        }
    }

    /// Runs units from the queue until it has none for this lane.
    fn lane(&self, number: usize) -> anyhow::Result<()> {
        loop {
            let unit = lock(&self.queue).take();
            let Some(unit) = unit.filter(|_| !is_interrupted()) else { return Ok(()) };
            let was_busy = is_busy(&unit);
            for (suite, filter) in unit {
                let tally = self.suite(suite, filter, number)?;
                lock(&self.all).add(tally);
            }
            lock(&self.queue).ends(was_busy);
        }
    }

    /// Runs one suite in a process of its own.
    fn suite(&self, suite: &Suite, filter: &str, lane: usize) -> anyhow::Result<Tally> {
        let work = self.root.join(format!("build/suite/lane-{lane}"));
        std::fs::create_dir_all(&work)?;
        let tally = work.join("tally.json");
        // One of an earlier run would count as this one's.
        let _ = std::fs::remove_file(&tally);
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("suite").args(self.arguments).arg("--work").arg(&work).arg("--tally").arg(&tally);
        let mut child = command.arg(format!("{}:{filter}", suite.name)).stdout(Stdio::piped()).spawn()?;
        lock(&self.running)[lane] = Some(Pid::from_child(&child));
        let mut block = String::new();
        for line in BufReader::new(child.stdout.take().context("piped above")?).lines() {
            let line = line?;
            lock(&self.screen).shows(lane, &format!("{}: {}", suite.name, line.trim()));
            block.push_str(&line);
            block.push('\n');
        }
        // From now on its number may be another process's.
        lock(&self.running)[lane] = None;
        let status = child.wait()?;
        lock(&self.screen).prints(lane, &block);
        let result = std::fs::read(&tally).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Ok(result.unwrap_or_else(|| Tally {
            failed: vec![format!("{}: ended without a result: {status}", suite.name)],
            ..Tally::default()
        }))
    }
}

/// Locks what a thread that has panicked may have left: each part is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn shows(&mut self, lane: usize, text: &str) {
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
        for name in TOGETHER.iter().copied().flatten().chain(LONGEST).chain(WAITING) {
            assert!(all.contains(name), "{name}");
        }
    }

    /// Three lanes on two processors.   Expect: two run busy suites, the longest first. The third runs suites
    /// that wait, and ends when these are over. The last busy suites stay for the two. A single lane runs
    /// all.
    #[test]
    fn as_many_busy_suites_run_as_there_are_processors() {
        let wanted: Vec<_> =
            ["gone", "c", "doctor", "windows", "fabric"].iter().map(|name| parse_name(name).unwrap()).collect();
        let taken = |queue: &mut Queue<'_>| queue.take().map(|unit| unit[0].0.name);
        let mut queue = Queue::new(units(&wanted), 2);
        assert_eq!(
            [taken(&mut queue), taken(&mut queue), taken(&mut queue)],
            [Some("fabric"), Some("c"), Some("gone")]
        );
        queue.ends(false);
        assert_eq!(taken(&mut queue), Some("doctor"));
        queue.ends(false);
        assert_eq!(taken(&mut queue), None);
        queue.ends(true);
        assert_eq!([taken(&mut queue), taken(&mut queue)], [Some("windows"), None]);

        let mut alone = Queue::new(units(&wanted), 1);
        let mut order = Vec::new();
        while let Some(unit) = alone.take() {
            order.push(unit[0].0.name);
            alone.ends(is_busy(&unit));
        }
        assert_eq!(order, ["fabric", "c", "windows", "gone", "doctor"]);
    }

    #[test]
    fn one_processor_has_one_lane() {
        assert_eq!([usual(1, 9), usual(2, 9), usual(2, 2), usual(64, 9), usual(8, 0)], [1, 3, 2, 4, 1]);
    }
}
