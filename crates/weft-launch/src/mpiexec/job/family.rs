//! The jobs of a family, as the first `mpiexec` sees them: it starts an `mpiexec` for each spawned job,
//! serves the requests of all ranks, and ends all jobs when one fails.

use super::singleton::Singleton;
use super::{Asker, END_GRACE_MS, Place, Running};
use crate::Spawned;
use crate::agent::Lines;
use crate::control::{Answer, Channel, OUTPUT_WINDOW, Order, Request, State, Stream};
use crate::mpiexec::family::{FromSpawned, Start, ToSpawned};
use crate::mpiexec::settings::Settings;
use crate::mpiexec::spawned;
use crate::mpiexec::table::SPAWNED_OPTION;
use crate::mpiexec::verdict::{self, Verdict};
use crate::service_names::ServiceNames;
use crate::spawn::Spawn;
use crate::sys::{self, Ended, Mask, Poll, READ, Ready};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;

/// The most spawned jobs of a family at a time.
const JOBS_MAX: usize = 4096;
/// The most ends of jobs that are remembered in words.
const ENDINGS_MAX: usize = 1024;
/// The descriptors of this process for each spawned job, and those besides.
const DESCRIPTORS_PER_JOB: u64 = 4;
const DESCRIPTORS_SPARE: u64 = 256;
/// Bytes of a spawned job's output that are read at once.
const CHUNK: usize = 16 * 1024;
/// The longest text about a job in the list of processes, in characters.
const TITLE_CHARS_MAX: usize = 200;
/// How a job has ended of which nothing else is known.
const ENDED: &str = "all its processes have ended";

/// What the first `mpiexec` of a family knows.
#[derive(Default)]
pub(super) struct Family {
    jobs: Vec<SpawnedJob>,
    /// The number of the last job that was spawned.
    last: u32,
    /// How jobs have ended, by number.
    endings: BTreeMap<u32, String>,
    /// Service names and ports (MPI-5.0 §11.9.4).
    names: ServiceNames,
    /// The process without a launcher for which this `mpiexec` exists.
    pub(super) singleton: Option<Singleton>,
}

/// A spawned job, and the connection to its `mpiexec`.
struct SpawnedJob {
    number: u32,
    /// Its first program, for messages.
    program: String,
    /// The number of processes that were wanted.
    wanted: usize,
    channel: Channel,
    /// The process of its `mpiexec`; `None` when it has ended.
    pid: Option<libc::pid_t>,
    how: Option<Ended>,
    outputs: [Option<(File, Lines)>; 2],
    progress: Progress,
    /// Its exit status, once it has said it.
    status: Option<i32>,
}

/// The progress of a spawned job.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    /// Its processes are being started; somebody waits for the outcome.
    Starting(Asker),
    Running,
    /// Its processes could not be started, for this reason.
    NotStarted(String),
    /// It has failed, for this reason.
    Failed(String),
}

/// The poll entries of a spawned job.
pub(super) struct Entries {
    number: u32,
    channel: (Option<usize>, Option<usize>),
    outputs: [Option<usize>; 2],
}

impl SpawnedJob {
    fn tell(&mut self, message: &ToSpawned) {
        // A message is far shorter than a frame, because a request is.
        let fits = self.channel.queue(|out| message.encode(out));
        assert!(fits, "a request is far shorter than a frame");
        self.channel.flush();
    }

    /// The job as a subject of sentences.
    fn name(&self) -> String {
        format!("spawned job {} ({})", self.number, self.program)
    }

    /// Returns whether its `mpiexec` has ended.
    fn is_over(&self) -> bool {
        self.pid.is_none() && self.channel.state() == State::Closed
    }

    /// Reads from an output once and appends whole lines to `out`. Returns `true` when there may be more.
    fn read(&mut self, which: usize, out: &mut Vec<u8>) -> bool {
        let Some((file, lines)) = &mut self.outputs[which] else { return false };
        let mut bytes = [0; CHUNK];
        match file.read(&mut bytes) {
            Ok(count) if count > 0 => {
                lines.push(&bytes[..count], out);
                return true;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            _ => {}
        }
        self.close(which, out);
        false
    }

    fn close(&mut self, which: usize, out: &mut Vec<u8>) {
        if let Some((_, mut lines)) = self.outputs[which].take() {
            lines.finish(out);
        }
    }
}

/// Starts the `mpiexec` of a spawned job: this program once more. Its connection takes the place of all that
/// a command line says.
fn start(number: u32, spawn: &Spawn, asker: Asker, mask: &Mask) -> io::Result<SpawnedJob> {
    let (own, other) = UnixStream::pair()?;
    let (out, child_out) = io::pipe()?;
    let (errors, child_errors) = io::pipe()?;
    let null = File::open("/dev/null")?;
    let argument = format!("{SPAWNED_OPTION}={}", other.as_raw_fd());
    // For those who look at the list of processes.
    let first = spawn.programs.first().map(|program| [&program.command].into_iter().chain(&program.arguments));
    let words: Vec<&str> = first.into_iter().flatten().map(String::as_str).collect();
    let title: String = format!("job {number}: {}", words.join(" ")).chars().take(TITLE_CHARS_MAX).collect();
    let environment = std::env::vars_os().map(|(name, value)| {
        let entry = [name.into_vec(), value.into_vec()].join(&b'=');
        CString::new(entry).map_err(io::Error::from)
    });
    let pid = sys::spawn(&sys::Spawn {
        // The program that runs, even where another one has taken its name meanwhile.
        file: c"/proc/self/exe",
        arguments: &[c"mpiexec".to_owned(), CString::new(argument)?, CString::new(title)?],
        environment: &environment.collect::<Result<Vec<_>, _>>()?,
        directory: None,
        streams: [null.as_raw_fd(), child_out.as_raw_fd(), child_errors.as_raw_fd()],
        keep: &[other.as_raw_fd()],
        // It ends its job by itself when the connection ends.
        death_signal: 0,
        mask,
        affinity: &[],
        session: false,
    });
    let pid = pid.map_err(|failure| failure.error)?;
    let output = |pipe: io::PipeReader| -> io::Result<Option<(File, Lines)>> {
        let file = File::from(OwnedFd::from(pipe));
        sys::set_nonblocking(&file)?;
        Ok(Some((file, Lines::new("", false))))
    };
    let channel = Channel::new(File::from(OwnedFd::from(own.try_clone()?)), File::from(OwnedFd::from(own)))?;
    let program = spawn.programs.first().map_or_else(String::new, |program| program.command.clone());
    Ok(SpawnedJob {
        number,
        program,
        wanted: spawn.processes(),
        channel,
        pid: Some(pid),
        how: None,
        outputs: [output(out)?, output(errors)?],
        progress: Progress::Starting(asker),
        status: None,
    })
}

impl Family {
    /// The family of a process without a launcher.
    pub(super) fn of_singleton(singleton: Singleton) -> Self {
        Self { singleton: Some(singleton), ..Self::default() }
    }

    /// Returns whether all spawned jobs have ended, and the process without a launcher has.
    pub(super) fn is_over(&self) -> bool {
        self.jobs.is_empty() && self.singleton.is_none()
    }

    /// The number of spawned jobs that have not failed.
    pub(super) fn running(&self) -> usize {
        let runs = |job: &&SpawnedJob| matches!(job.progress, Progress::Starting(_) | Progress::Running);
        self.jobs.iter().filter(runs).count()
    }

    /// How the spawned job has ended; `None`: it runs.
    fn end_of(&self, number: u32) -> Option<String> {
        if self.jobs.iter().any(|job| job.number == number) || number > self.last || number == 0 {
            return None;
        }
        Some(self.endings.get(&number).cloned().unwrap_or_else(|| ENDED.into()))
    }

    fn remember_end(&mut self, number: u32, how: String) {
        self.endings.insert(number, how);
        if self.endings.len() > ENDINGS_MAX {
            self.endings.pop_first();
        }
    }

    /// Adds the events that this family waits for. Output is read where `has_room`.
    pub(super) fn wait_in<'fd>(&'fd self, poll: &mut Poll<'fd>, has_room: bool) -> Vec<Entries> {
        let mut entries = Vec::with_capacity(self.jobs.len());
        for job in &self.jobs {
            let channel = job.channel.wait_in(poll);
            let output = |output: &'fd Option<(File, Lines)>| output.as_ref().filter(|_| has_room);
            let outputs = [0, 1].map(|which| output(&job.outputs[which]).map(|(file, _)| poll.add(file, READ)));
            entries.push(Entries { number: job.number, channel, outputs });
        }
        entries
    }

    /// Sends a message to all spawned jobs that have not failed.
    pub(super) fn tell_all(&mut self, message: &ToSpawned) {
        for job in self.jobs.iter_mut().filter(|job| !matches!(job.progress, Progress::Failed(_))) {
            job.tell(message);
        }
    }

    /// Kills every `mpiexec` of a spawned job. Their agents and ranks go with them.
    pub(super) fn kill_all(&mut self) {
        for pid in self.jobs.iter().filter_map(|job| job.pid) {
            sys::kill(pid, libc::SIGKILL);
        }
    }

    /// Notes the end of a child of this process.
    pub(super) fn note_end(&mut self, pid: libc::pid_t, how: Ended) {
        if let Some(job) = self.jobs.iter_mut().find(|job| job.pid == Some(pid)) {
            (job.pid, job.how) = (None, Some(how));
        }
    }
}

impl Running {
    /// Passes a rank's request on to where it is served.
    pub(super) fn handle_request(&mut self, agent: usize, rank: u32, request: Request) {
        let settings = matches!(request, Request::Spawn(_)).then(|| Box::new(self.inherited(rank)));
        match &mut self.place {
            Place::First(_) => self.serve(Asker::Rank { agent, rank }, request, settings),
            Place::Spawned(parent) => parent.tell(&FromSpawned::Request { rank, request, settings }),
        }
    }

    /// Serves a request. `settings`: what a spawned job inherits.
    pub(super) fn serve(&mut self, asker: Asker, request: Request, settings: Option<Box<Settings>>) {
        let Place::First(family) = &mut self.place else { return };
        let answer = match (request, settings) {
            (Request::Name(request), _) => family.names.serve(request),
            (Request::SpawnedEnd(number), _) => Answer::SpawnedEnd(family.end_of(number)),
            (Request::Spawn(spawn), Some(settings)) => match self.start_job(asker, &spawn, settings) {
                Ok(()) => return,
                Err(why) => Answer::Spawned(Spawned { number: 0, outcomes: vec![Err(why); spawn.processes()] }),
            },
            (Request::Spawn(_), None) => return,
        };
        self.answer(asker, answer);
    }

    /// Starts a spawned job; the outcome comes later.
    fn start_job(&mut self, asker: Asker, spawn: &Spawn, settings: Box<Settings>) -> Result<(), String> {
        let is_ending = self.verdict.is_some();
        let Place::First(family) = &mut self.place else { return Err("this mpiexec serves nobody".into()) };
        if is_ending {
            return Err("the job is being ended".into());
        }
        if family.jobs.len() >= JOBS_MAX {
            return Err(format!("{JOBS_MAX} spawned jobs run already"));
        }
        let number = family.last + 1;
        let wanted = (family.jobs.len() as u64 + 1) * DESCRIPTORS_PER_JOB + self.agents.len() as u64;
        sys::raise_descriptor_limit(wanted + DESCRIPTORS_SPARE);
        let failed = |error| format!("no mpiexec can be started for it: {}", sys::reason(&error));
        let mut job = start(number, spawn, asker, &self.mask).map_err(failed)?;
        job.tell(&ToSpawned::Start(Box::new(Start { number, settings: *settings, spawn: spawn.clone() })));
        family.last = number;
        family.jobs.push(job);
        Ok(())
    }

    /// The settings that a job inherits which this rank spawns. It starts no process on hosts that are lost.
    fn inherited(&self, rank: u32) -> Settings {
        let mut settings = spawned::inherited(&self.job, Some(rank));
        let is_lost = |name: &str| self.agents.iter().any(|agent| agent.is_lost && agent.host == name);
        settings.hosts.retain(|host| !is_lost(&host.name));
        settings
    }

    fn answer(&mut self, asker: Asker, answer: Answer) {
        match asker {
            Asker::Rank { agent, rank } => {
                // An answer is as long as the request, or shorter than a frame.
                let fits = self.agents[agent].order(&Order::Answer { rank, answer });
                assert!(fits, "a request is far shorter than a frame");
            }
            Asker::Job { number, rank } => {
                let Place::First(family) = &mut self.place else { return };
                if let Some(job) = family.jobs.iter_mut().find(|job| job.number == number) {
                    job.tell(&ToSpawned::Answer { rank, answer });
                }
            }
            Asker::Singleton => {
                let Place::First(family) = &mut self.place else { return };
                if let Some(singleton) = &mut family.singleton {
                    singleton.answer(&answer);
                }
            }
        }
    }

    /// Returns whether output of spawned jobs may be read: what was read before has been written.
    pub(super) fn has_room(&self) -> bool {
        self.console.unsent() < OUTPUT_WINDOW
    }

    /// Handles what spawned jobs have said, and their ends.
    pub(super) fn handle_family(&mut self, ready: &Ready, entries: Vec<Entries>) {
        for Entries { number, channel, outputs } in entries {
            let Some(job) = self.spawned(number) else { continue };
            job.channel.handle(ready, channel);
            for (which, entry) in outputs.into_iter().enumerate() {
                if entry.is_some_and(|entry| ready.has(entry)) {
                    self.read_output(number, which);
                }
            }
            self.hear_job(number);
        }
        let Place::First(family) = &self.place else { return };
        let over: Vec<u32> = family.jobs.iter().filter(|job| job.is_over()).map(|job| job.number).collect();
        for number in over {
            for which in [0, 1] {
                while self.read_output(number, which) {}
            }
            self.conclude_job(number);
        }
    }

    fn spawned(&mut self, number: u32) -> Option<&mut SpawnedJob> {
        let Place::First(family) = &mut self.place else { return None };
        family.jobs.iter_mut().find(|job| job.number == number)
    }

    /// Reads from an output of a spawned job once. Returns `true` when there may be more.
    fn read_output(&mut self, number: u32, which: usize) -> bool {
        let mut bytes = Vec::new();
        let more = self.spawned(number).is_some_and(|job| job.read(which, &mut bytes));
        self.show_output(which, bytes);
        more
    }

    fn show_output(&mut self, which: usize, bytes: Vec<u8>) {
        let stream = if which == 0 { Stream::Output } else { Stream::Error };
        if !bytes.is_empty() {
            self.console.queue_output(None, stream, bytes);
        }
    }

    fn hear_job(&mut self, number: u32) {
        while let Some(job) = self.spawned(number) {
            let message = match job.channel.next_frame() {
                Ok(None) => return,
                Ok(Some(frame)) => FromSpawned::decode(frame),
                Err(()) => None,
            };
            let Some(message) = message else {
                // It is not our program any more, or broken. Its end tells the rest.
                job.channel.close();
                if let Some(pid) = job.pid {
                    sys::kill(pid, libc::SIGKILL);
                }
                return;
            };
            self.handle_job(number, message);
        }
    }

    fn handle_job(&mut self, number: u32, message: FromSpawned) {
        let Some(job) = self.spawned(number) else { return };
        match message {
            FromSpawned::Outcome(spawned) => {
                let failed = spawned.outcomes.iter().find_map(|outcome| outcome.as_ref().err());
                let runs = spawned.outcomes.iter().any(Result::is_ok);
                let next = match failed.filter(|_| !runs) {
                    Some(why) => Progress::NotStarted(why.clone()),
                    None => Progress::Running,
                };
                if let Progress::Starting(asker) = std::mem::replace(&mut job.progress, next) {
                    self.answer(asker, Answer::Spawned(Spawned { number, ..spawned }));
                }
            }
            FromSpawned::Request { rank, request, settings } => {
                self.serve(Asker::Job { number, rank }, request, settings);
            }
            FromSpawned::Failed { status, clause } => {
                job.progress = Progress::Failed(clause.clone());
                let clause = format!("in {}, {clause}", job.name());
                self.fail_for_job(Verdict::new(status, clause));
            }
            FromSpawned::Ended { status } => job.status = Some(status),
            FromSpawned::Standings(seen) => {
                if let Some(survey) = &mut self.survey {
                    survey.handle_job(number, Some(seen));
                }
            }
        }
    }

    /// The spawned jobs that say where their ranks are when they are asked.
    pub(super) fn asked_jobs(&self) -> impl Iterator<Item = u32> + use<> {
        let jobs = if let Place::First(family) = &self.place { &family.jobs[..] } else { &[] };
        let asked = jobs.iter().filter(|job| job.progress == Progress::Running).map(|job| job.number);
        asked.collect::<Vec<_>>().into_iter()
    }

    /// A spawned job, in words.
    pub(super) fn name_of_job(&self, number: u32) -> String {
        let Place::First(family) = &self.place else { return String::new() };
        let job = family.jobs.iter().find(|job| job.number == number);
        job.map_or_else(|| format!("spawned job {number}"), SpawnedJob::name)
    }

    /// Judges a job that is over, and forgets it.
    fn conclude_job(&mut self, number: u32) {
        if let Some(survey) = &mut self.survey {
            survey.handle_job(number, None);
        }
        let Place::First(family) = &mut self.place else { return };
        let Some(at) = family.jobs.iter().position(|job| job.number == number) else { return };
        let mut job = family.jobs.remove(at);
        let how = match (job.status, job.how) {
            (Some(0), _) => ENDED.to_owned(),
            (Some(status), _) => format!("it has ended with status {status}"),
            (None, Some(Ended::Signal(signal))) => {
                format!("its mpiexec died by signal {signal} ({})", verdict::describe(signal))
            }
            (None, _) => "its mpiexec has ended too early".to_owned(),
        };
        let mut rest = [Vec::new(), Vec::new()];
        (0..2).for_each(|which| job.close(which, &mut rest[which]));
        let (name, progress) = (job.name(), job.progress.clone());
        let reason = match &progress {
            Progress::Failed(why) | Progress::NotStarted(why) => why.clone(),
            _ => how.clone(),
        };
        family.remember_end(number, reason);
        for (which, bytes) in rest.into_iter().enumerate() {
            self.show_output(which, bytes);
        }
        let status = job.status.unwrap_or(verdict::STATUS_LAUNCHER);
        match progress {
            Progress::Failed(_) | Progress::NotStarted(_) => {}
            Progress::Starting(asker) => {
                let outcomes = vec![Err(how); job.wanted];
                self.answer(asker, Answer::Spawned(Spawned { number, outcomes }));
            }
            Progress::Running if status == 0 => {}
            Progress::Running => self.fail_for_job(Verdict::new(status, format!("of {name} this is known: {how}"))),
        }
    }

    /// Ends all jobs for one that has failed, unless the others shall go on.
    fn fail_for_job(&mut self, verdict: Verdict) {
        let Place::First(family) = &self.place else { return };
        let others = self.living() + family.running();
        if self.job.settings.keep_others && others > 0 && self.verdict.is_none() {
            self.console.say(&format!("{}; the others go on", verdict.clause));
            self.failed.get_or_insert(verdict.status);
        } else {
            self.fail_sparing(verdict, None);
        }
    }

    /// Ends all spawned jobs, and the process without a launcher.
    pub(super) fn end_family(&mut self, signal: i32, grace_ms: u32) {
        let Place::First(family) = &mut self.place else { return };
        family.tell_all(&ToSpawned::End { signal, grace_ms: grace_ms.min(END_GRACE_MS) });
        if let Some(singleton) = &family.singleton {
            singleton.end(signal);
        }
    }
}
