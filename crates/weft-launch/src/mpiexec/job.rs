//! Runs a job until its last rank has ended: one loop that waits for agents, standard streams, signals and
//! the clock.

mod endings;
mod family;
mod heartbeats;
mod parent;
mod reaching;
mod relaying;
mod reports;
mod singleton;

use super::console::{Console, Fed, Feeder};
use super::family::ToSpawned;
use super::plan::Job;
use super::reach::{Agent, Stage};
use super::settings::Loudness;
use super::stats::Stats;
use super::survey::{Purpose, Survey};
use super::verdict::{self, Verdict};
use crate::control::{INPUT_WINDOW, InputTo, Order, Phase, Watch};
use crate::sys::{self, Mask, Poll, READ, Ready, Signals};
use crate::wire;
use family::Family;
use heartbeats::Heartbeats;
pub(super) use parent::Parent;
use reaching::Connecting;
pub(super) use singleton::Singleton;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// The longest time for ranks to end after a signal, before they are killed, in milliseconds.
const END_GRACE_MS: u32 = 2_000;
/// The longest time for agents beyond that, before they are given up.
const END_RESERVE: Duration = Duration::from_secs(8);
/// The longest wait for the exit status of an agent's command, once it says nothing more.
const STATUS_WAIT: Duration = Duration::from_millis(500);
/// The longest time for agents to report where their ranks are.
const SURVEY_LIMIT: Duration = Duration::from_secs(2);
/// The longest time for the same reports while a user waits for the end.
const INTERRUPT_LIMIT: Duration = Duration::from_secs(1);
/// The time for which ranks may go on after one has ended early, before `mpiexec` asks whether they wait for
/// it.
const EARLY_END_GRACE: Duration = Duration::from_secs(1);
/// The time after which a background process looks again whether it may read its terminal.
const TERMINAL_PAUSE: Duration = Duration::from_millis(500);
/// The longest time for agents' commands to end when the job is over.
const AGENT_EXIT_LIMIT: Duration = Duration::from_millis(500);

/// The signals that are read: the ends of children, signals that end a job, and signals that are passed on to
/// ranks.
const SIGNALS: [i32; 9] = [
    libc::SIGCHLD,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGCONT,
];

/// The place of this `mpiexec` in its family of jobs.
enum Place {
    /// It is the first one, which serves all.
    First(Family),
    /// It runs a spawned job.
    Spawned(Parent),
}

/// The origin of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// A rank of this job, and its agent.
    Rank { agent: usize, rank: u32 },
    /// A rank of a spawned job.
    Job { number: u32, rank: u32 },
    /// The process without a launcher.
    Singleton,
}

/// Runs the first job of a family and returns the exit status of `mpiexec`.
///
/// # Errors
/// One sentence with the reason why the job could not even be tried.
pub(crate) fn run(job: Job) -> Result<i32, String> {
    run_in(job, Place::First(Family::default()))
}

/// Runs a job that another one has spawned, as [`run`] does.
pub(super) fn run_spawned(job: Job, parent: Parent) -> Result<i32, String> {
    run_in(job, Place::Spawned(parent))
}

/// Serves a process without a launcher, as [`run`] does. `job` has no ranks.
pub(super) fn run_for_singleton(job: Job, singleton: Singleton) -> Result<i32, String> {
    run_in(job, Place::First(Family::of_singleton(singleton)))
}

fn run_in(job: Job, place: Place) -> Result<i32, String> {
    let system = |error: std::io::Error| format!("the system refuses to start a job: {}", sys::reason(&error));
    // Under nohup the loss of the terminal is no reason to end.
    let wanted: Vec<i32> =
        SIGNALS.into_iter().filter(|&signal| signal != libc::SIGHUP || !sys::is_ignored(signal)).collect();
    let (signals, mask) = Signals::block(&wanted).map_err(system)?;
    let (agents, unreachable) = reaching::start_agents(&job, &mask)?;
    let mut running = Running::new(job, agents, signals, mask, place);
    if let Some(text) = unreachable {
        running.fail(Verdict::new(verdict::STATUS_LAUNCHER, text));
    }
    running.say_notes();
    running.start_queued();
    // A job on this host alone waits for no greeting.
    running.launch_when_ready();
    while !running.is_over() {
        running.turn().map_err(|error| format!("the system refuses to wait: {}", sys::reason(&error)))?;
    }
    running.finish();
    let status = running.failed.or(running.verdict).unwrap_or(0);
    running.part_from_family(status);
    Ok(status)
}

struct Running {
    job: Job,
    agents: Vec<Agent>,
    signals: Signals,
    /// The signals that are blocked in the commands of agents.
    mask: Mask,
    /// The commands of agents that may be on their way at a time: those of `mpiexec`, then those of each
    /// agent.
    connecting: Vec<Connecting>,
    /// Some agents are started by other hosts.
    has_tree: bool,
    /// The number of the next command that a host runs to start another's agent.
    next_command: u32,
    /// For each agent, whether it relays to others that are not done.
    relays: Vec<bool>,
    /// The user was told that agents are started from here which a host could not start.
    is_fallback_told: bool,
    console: Console,
    feeder: Feeder,
    started_at: Instant,
    launched: bool,
    /// The phase of each rank when it ended; `None`: it has not ended.
    ended: Vec<Option<Phase>>,
    /// The ranks of which the others know that they are lost.
    told: Vec<bool>,
    /// The process of each rank on its host, once known.
    processes: Vec<Option<i32>>,
    /// The exit status, once the job has failed.
    verdict: Option<i32>,
    /// The status of the first rank that failed while the others go on.
    failed: Option<i32>,
    /// The ranks have exchanged their cards: from then on they can do without one of them.
    exchanged: bool,
    /// The time at which agents are given up.
    give_up_at: Option<Instant>,
    time_limit_at: Option<Instant>,
    /// The time of the next look for silent hosts.
    look_at: Option<Instant>,
    /// The heartbeats between hosts, where they are asked for.
    heartbeats: Option<Heartbeats>,
    survey: Option<Survey>,
    /// The time at which `mpiexec` asks whether ranks wait for one that has ended.
    check_at: Option<Instant>,
    /// The number of times that the user wanted the end.
    interrupts: u32,
    /// The place of this job in its family.
    place: Place,
    stats: Stats,
    /// The bytes of written output that were not reported to agents yet, by agent.
    credits: Vec<usize>,
}

impl Running {
    fn new(job: Job, agents: Vec<Agent>, signals: Signals, mask: Mask, place: Place) -> Self {
        let now = Instant::now();
        let wants_input = job.settings.input != InputTo::Nobody;
        let size = job.size as usize;
        Self {
            time_limit_at: job.settings.time_limit.map(|limit| now + limit),
            credits: vec![0; agents.len()],
            connecting: (0..=agents.len()).map(|_| Connecting::new(now)).collect(),
            has_tree: agents.iter().any(|agent| agent.starter.is_some()),
            next_command: 0,
            relays: vec![false; agents.len()],
            is_fallback_told: false,
            job,
            agents,
            signals,
            mask,
            console: Console::new(),
            feeder: Feeder::new(wants_input),
            started_at: now,
            launched: false,
            ended: vec![None; size],
            told: vec![false; size],
            processes: vec![None; size],
            verdict: None,
            failed: None,
            exchanged: false,
            give_up_at: None,
            look_at: None,
            heartbeats: None,
            survey: None,
            check_at: None,
            interrupts: 0,
            place,
            stats: Stats::default(),
        }
    }

    fn say_notes(&mut self) {
        let (verbose, quiet) = (self.job.settings.verbose, self.job.settings.quiet);
        for (loudness, note) in std::mem::take(&mut self.job.settings.notes) {
            if verbose || (loudness == Loudness::Everybody && !quiet) {
                self.console.say(&note);
            }
        }
        if self.job.settings.print_rank_map {
            let lines: String = self
                .job
                .shares
                .iter()
                .map(|share| {
                    let ranks: Vec<String> = share.plan.ranks.iter().map(|(rank, _)| rank.to_string()).collect();
                    format!("({}:{})\n", share.host, ranks.join(","))
                })
                .collect();
            self.console.queue_text(&lines);
        }
        if verbose {
            for (share, agent) in self.job.shares.iter().zip(&self.agents) {
                let ranks: Vec<u32> = share.plan.ranks.iter().map(|&(rank, _)| rank).collect();
                let (ranks, command) = (wire::format_ranks(&ranks), &agent.command());
                let starter =
                    agent.starter.as_ref().map_or_else(String::new, |starter| format!(" on {}", starter.host));
                self.console.say(&format!("on {}: ranks {ranks}, agent{starter}: {command}", share.host));
            }
        }
    }

    fn note(&mut self, text: &str) {
        if !self.job.settings.quiet {
            self.console.say(text);
        }
    }

    fn is_over(&self) -> bool {
        let impatient = self.interrupts > 1;
        let is_family_over = if let Place::First(family) = &self.place { family.is_over() } else { true };
        let is_over = self.agents.iter().all(|agent| agent.stage == Stage::Done) && is_family_over;
        is_over && (self.console.is_empty() || impatient)
    }

    /// Waits for an event and handles it.
    fn turn(&mut self) -> std::io::Result<()> {
        self.carry();
        self.note_relays();
        let mut poll = Poll::default();
        let signals = poll.add(&self.signals, READ);
        let console = self.console.wait_in(&mut poll);
        let input = if self.may_feed() { self.feeder.wait_in(&mut poll) } else { None };
        let mut entries = Vec::with_capacity(self.agents.len());
        for (agent, relays) in self.agents.iter().zip(&self.relays) {
            let channel = match agent.stage {
                Stage::Queued => (None, None),
                Stage::Done if !relays => (None, None),
                _ => agent.channel.wait_in(&mut poll),
            };
            entries.push((channel, agent.wait_for_errors(&mut poll)));
        }
        let (mut jobs, mut singleton, mut parent) = (Vec::new(), None, (None, None));
        match &self.place {
            Place::First(family) => {
                jobs = family.wait_in(&mut poll, self.has_room());
                singleton = family.singleton.as_ref().map(|singleton| singleton.wait_in(&mut poll));
            }
            Place::Spawned(link) => parent = link.wait_in(&mut poll),
        }
        let limit = self.next_timeout();
        let ready = poll.wait(limit)?;
        if ready.has(signals) {
            self.handle_signals();
        }
        for (index, (channel, errors)) in entries.into_iter().enumerate() {
            self.agents[index].channel.handle(&ready, channel);
            if errors.is_some_and(|entry| ready.has(entry))
                && let Some(text) = self.agents[index].read_errors()
            {
                let host = self.agents[index].host.clone();
                self.note(&format!("the agent on {host} says: {text}"));
            }
            self.hear(index);
        }
        self.handle_family(&ready, jobs);
        self.handle_singleton(&ready, singleton);
        self.handle_parent(&ready, parent);
        self.write_console(&ready, console);
        if input.is_some_and(|entry| ready.has(entry)) {
            self.feed();
        }
        self.start_queued();
        self.launch_when_ready();
        self.handle_timers();
        Ok(())
    }

    /// The time until the next timer, if there is one.
    fn next_timeout(&self) -> Option<Duration> {
        let greeting = self.greeting_limit();
        let closing = self.agents.iter().filter(|agent| agent.stage != Stage::Done);
        let closing = closing.filter_map(|agent| agent.closed_at).map(|at| at + STATUS_WAIT).min();
        let survey = self.survey.as_ref().map(|survey| survey.deadline);
        let terminal = (self.may_feed() && self.feeder.must_look_again()).then(|| Instant::now() + TERMINAL_PAUSE);
        let heartbeats = self.heartbeats.as_ref().and_then(Heartbeats::next_timeout);
        let timers = [
            heartbeats,
            greeting,
            closing,
            survey,
            terminal,
            self.check_at,
            self.look_at,
            self.give_up_at,
            self.time_limit_at,
        ];
        if self.console.is_urgent() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        timers.into_iter().flatten().min().map(|at| at.saturating_duration_since(now))
    }

    fn handle_timers(&mut self) {
        let now = Instant::now();
        let passed = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        if passed(self.greeting_limit()) && self.verdict.is_none() {
            self.lose_unreached();
        }
        if passed(self.time_limit_at) {
            self.time_limit_at = None;
            self.ask_where(Purpose::TimeLimit);
        }
        if passed(self.check_at) {
            self.check_at = None;
            self.ask_where(Purpose::Waiting);
        }
        if self.survey.as_ref().is_some_and(|survey| survey.is_complete() || now >= survey.deadline)
            && let Some(survey) = self.survey.take()
        {
            self.conclude(&survey);
        }
        if passed(self.look_at) {
            self.look_at = self.look_for_silence();
        }
        if passed(self.give_up_at) {
            self.give_up();
        }
        self.judge_heartbeats();
    }

    /// Starts the ranks as soon as every host has an agent: all start, or none.
    fn launch_when_ready(&mut self) {
        let ready = self.agents.iter().all(|agent| agent.stage == Stage::Greeted || !agent.remote);
        if self.launched || self.verdict.is_some() || !ready {
            return;
        }
        self.launched = true;
        self.heartbeats = self.job.settings.heartbeat.map(Heartbeats::new);
        let machines: Vec<String> = self.agents.iter().map(|agent| agent.machine.clone()).collect();
        let ranks: Vec<usize> = self.job.shares.iter().map(|share| share.plan.ranks.len()).collect();
        for (agent, share) in self.agents.iter_mut().zip(&self.job.shares) {
            let mut plan = share.plan.clone();
            let there = machines.iter().zip(&ranks).filter(|(machine, _)| **machine == agent.machine);
            plan.binding.machine_ranks = there.map(|(_, &ranks)| ranks as u32).sum();
            let fits = agent.order(&Order::Launch(plan));
            assert!(fits, "a command line is shorter than a frame");
            if agent.stage == Stage::Greeted {
                agent.stage = Stage::Working;
            }
            let limit = self.job.settings.silence_max().filter(|_| agent.remote);
            agent.watch = limit.map(|limit| Watch::new(limit, Instant::now()));
            self.look_at = self.look_at.or(limit.map(|_| Instant::now()));
        }
        if self.feeder.is_closed() {
            self.order_input(&Order::InputEnd);
        }
    }

    /// Returns whether ranks take more input now.
    fn may_feed(&self) -> bool {
        if !self.launched || self.verdict.is_some() {
            return false;
        }
        let taken = self.input_agents().map(|index| self.agents[index].input_taken).min().unwrap_or(0);
        self.feeder.sent - taken < INPUT_WINDOW as u64
    }

    /// The agents that have ranks with input.
    fn input_agents(&self) -> impl Iterator<Item = usize> {
        let target = self.job.settings.input;
        self.job.shares.iter().enumerate().filter_map(move |(index, share)| {
            let takes = match target {
                InputTo::Nobody => false,
                InputTo::Everybody => true,
                InputTo::Rank(rank) => share.plan.ranks.iter().any(|&(other, _)| other == rank),
            };
            takes.then_some(index)
        })
    }

    fn order_input(&mut self, order: &Order) {
        let agents: Vec<usize> = self.input_agents().collect();
        for index in agents {
            let fits = self.agents[index].order(order);
            assert!(fits, "input is sent in small pieces");
        }
    }

    fn feed(&mut self) {
        match self.feeder.read() {
            Fed::Bytes(bytes) => self.order_input(&Order::Input(bytes)),
            Fed::End => self.order_input(&Order::InputEnd),
            Fed::Nothing => {}
        }
    }

    fn write_console(&mut self, ready: &Ready, entries: [Option<usize>; 2]) {
        for (agent, bytes) in self.console.handle(ready, entries) {
            self.credits[agent] += bytes;
        }
        for (agent, credit) in self.agents.iter_mut().zip(&mut self.credits) {
            if *credit > 0 && agent.stage == Stage::Working {
                let bytes = u32::try_from(std::mem::take(credit)).expect("less than the output window");
                let fits = agent.order(&Order::Credit(bytes));
                assert!(fits, "a short order");
            }
        }
        match self.console.broken() {
            None => {}
            Some(_) if self.verdict.is_some() => {}
            Some(ErrorKind::BrokenPipe) => {
                // The status of a program that SIGPIPE ended, as people expect of `mpiexec … | head`.
                self.verdict = Some(verdict::STATUS_SIGNAL + libc::SIGPIPE);
                self.end_ranks(libc::SIGTERM, END_GRACE_MS, None);
            }
            Some(kind) => {
                let clause = format!("standard output cannot be written ({kind})");
                self.fail(Verdict::new(verdict::STATUS_LAUNCHER, clause));
            }
        }
    }

    fn handle_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                libc::SIGCHLD => self.reap(),
                libc::SIGUSR1 | libc::SIGUSR2 | libc::SIGCONT => self.pass_on(signal),
                libc::SIGTSTP => {
                    self.pass_on(libc::SIGSTOP);
                    sys::kill(i32::try_from(std::process::id()).expect("a process id"), libc::SIGSTOP);
                }
                libc::SIGQUIT if self.launched && self.verdict.is_none() => self.ask_where(Purpose::Look),
                _ => self.interrupt(signal),
            }
        }
    }

    fn pass_on(&mut self, signal: i32) {
        for agent in self.agents.iter_mut().filter(|agent| agent.is_working()) {
            let fits = agent.order(&Order::Signal(signal));
            assert!(fits, "a short order");
        }
        self.tell_jobs(&ToSpawned::Signal(signal));
    }

    fn tell_jobs(&mut self, message: &ToSpawned) {
        if let Place::First(family) = &mut self.place {
            family.tell_all(message);
        }
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, how))) = sys::reap() {
            if let Some(agent) = self.agents.iter_mut().find(|agent| agent.pid == Some(pid)) {
                agent.pid = None;
                agent.ended = Some(how);
            } else if let Place::First(family) = &mut self.place {
                family.note_end(pid, how);
            }
        }
    }

    fn host_of(&self, rank: u32) -> &str {
        let share = self.job.share_of_rank.get(rank as usize).copied().unwrap_or(0);
        &self.job.shares[share].host
    }

    /// Ends the job when all agents are done: prints the last messages, then waits for the agents' commands.
    fn finish(&mut self) {
        self.judge_silent_ends();
        if let Some(format) = self.job.settings.stats {
            let table = self.stats.print(format);
            let title = self.title();
            let title = if title.is_empty() { title } else { format!("mpiexec: {}\n", title.trim_end()) };
            self.console.queue_text(&(title + &table));
        }
        self.see_off();
        while !self.console.is_empty() && self.interrupts < 2 {
            let mut poll = Poll::default();
            let signals = poll.add(&self.signals, READ);
            let console = self.console.wait_in(&mut poll);
            let limit = self.console.is_urgent().then_some(Duration::ZERO);
            let Ok(ready) = poll.wait(limit) else { return };
            if ready.has(signals) {
                self.handle_signals();
            }
            self.console.handle(&ready, console);
        }
    }

    /// Closes the connections to the agents, and waits a little for their commands to end.
    fn see_off(&mut self) {
        let pids: Vec<libc::pid_t> = self.agents.drain(..).filter_map(|agent| agent.pid).collect();
        let mut left = pids.len();
        let deadline = Instant::now() + AGENT_EXIT_LIMIT;
        while left > 0 {
            match sys::reap() {
                Err(()) => return,
                Ok(Some(_)) => left -= 1,
                Ok(None) if Instant::now() >= deadline => break,
                Ok(None) => {
                    let mut poll = Poll::default();
                    poll.add(&self.signals, READ);
                    if poll.wait(Some(deadline.saturating_duration_since(Instant::now()))).is_err() {
                        break;
                    }
                    while self.signals.next().is_some() {}
                }
            }
        }
        if left > 0 {
            for pid in pids {
                sys::kill_group(pid, libc::SIGKILL);
            }
        }
    }
}
