//! Runs a job: a command under a time limit. Hands over its lines as they come, and leaves nothing of it
//! behind.
//!
//! Every process of a job carries a mark in its environment, by which this module finds it again. Process
//! groups do not suffice: launchers make sessions and process groups of their own, also inside virtual hosts.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::launch::Invocation;
use crate::lines::{CHANGE_RATIO, REPEATS_MAX};

const MARK: &str = "WEFT_MEASUREMENT_JOB";
/// The variable `RATIO:REPEATS:FILE`, for bench/programs/lines.h.
const LINES: &str = "BENCH_LINES";
/// The time between two looks at ending signals and the time limit: long, because looking takes processor
/// time from the job.
const LOOK: Duration = Duration::from_millis(50);
const POLL: Duration = Duration::from_millis(1);
/// The time that launchers may take to clean up after SIGTERM.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The time that processes may outlive their job before they count as left behind.
const LEFTOVER_TIMEOUT: Duration = Duration::from_millis(500);
/// The time to wait for the rest of the output when the job has ended.
const REST_TIMEOUT: Duration = Duration::from_millis(300);
const LINE_BYTES_MAX: u64 = 64 * 1024;
const LINES_MAX: usize = 100_000;
/// The most lines of complaint that are kept: the first and the last of this many.
const COMPLAINTS_MAX: usize = 200;

/// The end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The exit code, or 128 + signal.
    Code(i32),
    TimedOut,
    Interrupted,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) ending: Ending,
    /// The lines of standard output.
    pub(crate) lines: Vec<String>,
    /// The lines of standard error, also those of a companion.
    pub(crate) complaints: Vec<String>,
    /// The time from the job's start to its end.
    pub(crate) elapsed: Duration,
}

/// A job to run.
pub(crate) struct Task<'a> {
    pub(crate) main: &'a Invocation,
    /// A command that runs beside the job, and is ended with it.
    pub(crate) companion: Option<&'a Invocation>,
    /// A directory for the temporary files of all.
    pub(crate) temporary: &'a Path,
    pub(crate) limit: Duration,
    /// The number that tells this job from all others.
    pub(crate) number: u32,
    /// Says whether the job measures the time of a cache line around its samples.
    pub(crate) lines: bool,
}

impl Task<'_> {
    /// The file of the cache line that ranks map and measure.
    fn lines_file(&self) -> PathBuf {
        self.temporary.join(format!("lines-{}", self.number))
    }
}

enum Said {
    Out(String),
    Complaint(String),
}

/// Runs a task to its end, its time limit, or until `stop` names a signal. Returns an error if the task could
/// not be started.
pub(crate) fn run(task: &Task, stop: &mut dyn FnMut() -> Option<i32>) -> Result<Finished, String> {
    let mark = format!("{}-{}", std::process::id(), task.number);
    let (sender, receiver) = channel();
    let mut companion = match task.companion {
        Some(companion) => Some(start(companion, task, &mark, &sender)?),
        None => None,
    };
    let began = Instant::now();
    let started = start(task.main, task, &mark, &sender);
    drop(sender);
    let mut finished =
        Finished { ending: Ending::Interrupted, lines: Vec::new(), complaints: Vec::new(), elapsed: Duration::ZERO };
    let result = started.map(|mut child| {
        let ending = attend(&mut child, &receiver, began + task.limit, stop, &mut finished);
        finished.elapsed = began.elapsed();
        finished.ending = match ending {
            Some(ending) => ending,
            None => Ending::Code(await_end(&mut child)),
        };
        if matches!(finished.ending, Ending::TimedOut | Ending::Interrupted) {
            end(&mut child);
        }
    });
    if let Some(companion) = &mut companion {
        // The companion ends by itself when the other side has: it is only given a moment.
        let deadline = Instant::now() + LEFTOVER_TIMEOUT;
        while result.is_ok() && Instant::now() < deadline && matches!(companion.try_wait(), Ok(None)) {
            std::thread::sleep(POLL);
        }
        end(companion);
    }
    sweep(&mark, !matches!(finished.ending, Ending::Code(0)));
    let deadline = Instant::now() + REST_TIMEOUT;
    while let Ok(said) = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        finished.take(said);
    }
    if task.lines {
        // The file is there only if the program got so far.
        let _ = fs::remove_file(task.lines_file());
    }
    result.map(|()| finished)
}

impl Finished {
    fn take(&mut self, said: Said) {
        match said {
            Said::Out(line) if self.lines.len() < LINES_MAX => self.lines.push(line),
            Said::Out(_) => {}
            Said::Complaint(line) => {
                if self.complaints.len() == COMPLAINTS_MAX {
                    self.complaints.remove(COMPLAINTS_MAX / 2);
                }
                self.complaints.push(line);
            }
        }
    }
}

fn start(what: &Invocation, task: &Task, mark: &str, sender: &Sender<Said>) -> Result<Child, String> {
    let mut command = Command::new(&what.words[0]);
    command.args(&what.words[1..]).envs(what.environment.iter().cloned()).env(MARK, mark).env("TMPDIR", task.temporary);
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if task.lines {
        command.env(LINES, format!("{CHANGE_RATIO}:{REPEATS_MAX}:{}", task.lines_file().display()));
    }
    let mut child = command.spawn().map_err(|error| format!("cannot run {}: {error}", what.words[0]))?;
    read(child.stdout.take(), sender.clone(), Said::Out);
    read(child.stderr.take(), sender.clone(), Said::Complaint);
    Ok(child)
}

/// Hands over the lines of `stream` from a thread of its own, until the stream or the receiver ends.
fn read(stream: Option<impl Read + Send + 'static>, sender: Sender<Said>, make: fn(String) -> Said) {
    let Some(stream) = stream else { return };
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            match reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            if !line.is_empty() && sender.send(make(line)).is_err() {
                return;
            }
        }
    });
}

/// Takes the output of a job until the job ends (None), or must be ended.
fn attend(
    child: &mut Child,
    said: &Receiver<Said>,
    deadline: Instant,
    stop: &mut dyn FnMut() -> Option<i32>,
    finished: &mut Finished,
) -> Option<Ending> {
    let mut is_open = true;
    loop {
        if is_open {
            match said.recv_timeout(LOOK) {
                Ok(line) => {
                    finished.take(line);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => is_open = false,
                Err(RecvTimeoutError::Timeout) => {}
            }
        } else {
            // Its output is closed: it ends about now, and a launch measures the exact time.
            std::thread::sleep(POLL);
        }
        if !matches!(child.try_wait(), Ok(None)) {
            return None;
        }
        if stop().is_some() {
            return Some(Ending::Interrupted);
        }
        if Instant::now() > deadline {
            return Some(Ending::TimedOut);
        }
    }
}

fn await_end(child: &mut Child) -> i32 {
    let status = child.wait().ok();
    status.and_then(|status| status.code().or(status.signal().map(|signal| 128 + signal))).unwrap_or(-1)
}

/// Ends a job: SIGTERM, a moment to clean up, SIGKILL, each to the whole process group.
fn end(child: &mut Child) {
    if !matches!(child.try_wait(), Ok(None)) {
        return;
    }
    let group = Pid::from_child(child);
    let _ = kill_process_group(group, Signal::TERM);
    let deadline = Instant::now() + END_TIMEOUT;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = child.wait();
        }
        std::thread::sleep(POLL);
    }
}

/// Ends all processes that carry the mark, and removes the shared memory that they leave: a killed library
/// cannot.
fn sweep(mark: &str, is_certain: bool) {
    let entry = format!("{MARK}={mark}");
    let mut shared = BTreeSet::new();
    let deadline = Instant::now() + if is_certain { Duration::ZERO } else { LEFTOVER_TIMEOUT };
    // A process may start another one during a look, so the loop ends when a look finds none.
    let give_up = deadline + END_TIMEOUT;
    loop {
        let left = marked(&entry);
        if left.is_empty() || Instant::now() > give_up {
            break;
        }
        if Instant::now() >= deadline {
            for pid in left {
                shared.extend(shared_memory(pid));
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(POLL * 4);
    }
    for path in shared {
        let _ = fs::remove_file(path);
    }
}

/// The processes whose environment holds `entry`; processes that have ended and wait for their parent have no
/// environment.
fn marked(entry: &str) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes())
    };
    pids.filter(has).filter_map(Pid::from_raw).collect()
}

/// Files below /dev/shm that the process has mapped.
fn shared_memory(pid: Pid) -> Vec<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", pid.as_raw_nonzero())).unwrap_or_default();
    let paths = maps.lines().filter_map(|line| line.find("/dev/shm/").map(|at| &line[at..]));
    paths.filter(|path| !path.ends_with("(deleted)")).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_shell(script: &str, limit: f64, stop_after: Option<Duration>) -> Finished {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1000);
        let main = Invocation {
            words: ["sh", "-c", script].map(str::to_owned).to_vec(),
            environment: vec![("A".into(), "b".into())],
        };
        let temporary = std::env::temp_dir();
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let limit = Duration::from_secs_f64(limit);
        let task = Task { main: &main, companion: None, temporary: &temporary, limit, number, lines: false };
        let began = Instant::now();
        let finished =
            run(&task, &mut || stop_after.filter(|after| began.elapsed() > *after).map(|_| 2)).expect("sh starts");
        assert!(marked(&format!("{MARK}={}-{number}", std::process::id())).is_empty());
        finished
    }

    #[test]
    fn lines_and_the_exit_code_are_kept() {
        let finished = run_shell("echo one; echo $A; echo no >&2; exit 3", 30.0, None);
        assert_eq!(finished.ending, Ending::Code(3));
        assert_eq!((finished.lines, finished.complaints), (vec!["one".to_owned(), "b".into()], vec!["no".to_owned()]));
    }

    #[test]
    fn what_takes_too_long_is_ended_with_all_it_started() {
        // The inner shell leaves the process group and does not listen to SIGTERM.
        let finished = run_shell("echo begun; setsid sh -c 'trap \"\" TERM; sleep 600' & wait", 0.3, None);
        assert_eq!(finished.ending, Ending::TimedOut);
        assert_eq!(finished.lines, ["begun"]);
    }

    #[test]
    fn a_job_that_leaves_a_process_behind_is_still_over() {
        let finished = run_shell("sleep 600 & echo done", 30.0, None);
        assert_eq!((finished.ending, finished.lines), (Ending::Code(0), vec!["done".to_owned()]));
    }

    #[test]
    fn a_signal_ends_it() {
        let finished = run_shell("sleep 600", 30.0, Some(Duration::from_millis(100)));
        assert_eq!(finished.ending, Ending::Interrupted);
    }
}
