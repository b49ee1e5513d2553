//! A simulated process: an engine, and threads that call it as programs call MPI. What `weft-mpi` does around the engine is here in a few
//! lines: who waits spins and then sleeps on behalf of all, and a thread of its own makes progress while the program computes.

use super::calls::{Done, Live, Waiting};
use super::collectives::Running;
use super::construct::{Carriers, SimEngine};
use super::node::SharedMemory;
use super::platform::Clock;
use super::program::{Call, Comm, Pace, Program, Step};
use super::shape::Placed;
use crate::random::Random;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_engine::engine::SleepOn;
use weft_engine::memory::InProcess;

/// Passes of the progress thread for one wake-up, as in `weft-mpi`.
const HELPER_PASSES: u32 = 2;

/// What goes wrong, in a sentence.
pub(super) type Checked<T> = Result<T, String>;

/// Where a thread stands.
enum Phase {
    /// Its next call, or what it does then, begins at a time.
    Between,
    /// It waits inside MPI, and spins so many more times.
    Waits { waiting: Waiting, spins: u64 },
    /// Another thread of the process sleeps on behalf of all.
    Parked { waiting: Waiting },
    /// It has called everything.
    Over,
}

struct Thread {
    lane: usize,
    script: Vec<Step>,
    next: usize,
    phase: Phase,
    ready: u64,
}

/// A thread that sleeps on behalf of all.
struct Sleeping {
    thread: usize,
    until: Option<u64>,
    watches_network: bool,
    alarm: Option<u64>,
}

/// What the progress thread watches.
#[derive(Default)]
struct Helper {
    network: bool,
    doorbell: bool,
    timer: Option<u64>,
    /// It takes time, too.
    busy: u64,
}

/// A process of the job.
pub(super) struct Proc {
    pub(super) rank: usize,
    pub(super) engine: SimEngine,
    pub(super) memory: InProcess,
    pub(super) random: Random,
    clock: Clock,
    node: SharedMemory,
    place: usize,
    network: super::network::Network,
    pub(super) comms: Vec<Vec<Comm>>,
    pace: Pace,
    threads: Vec<Thread>,
    sleeping: Option<Sleeping>,
    helper: Helper,
    waiting: usize,
    signalled: u64,
    collectives_seen: u64,
    /// Operations under way, by the name of their message; sends and receives.
    pub(super) sends: BTreeMap<u32, Live>,
    pub(super) receives: BTreeMap<u32, Live>,
    pub(super) running: Vec<Running>,
    pub(super) entered: Rc<RefCell<BTreeMap<u32, usize>>>,
    /// Persistent requests of each carrier.
    pub(super) persistent: BTreeMap<usize, Vec<super::calls::Persistent>>,
    /// Whether a send was cancelled, by its message.
    pub(super) cancelled: BTreeMap<u32, bool>,
    /// What has been received, which must stay as it is.
    pub(super) received: Vec<Done>,
    /// Buffers of sends that are complete: nobody may read them.
    pub(super) spent: Vec<Placed>,
    /// Members of the carrier's wild blocks, for the oracle.
    pub(super) wild: super::calls::WildBlocks,
    /// The process that dies in this job.
    pub(super) mortal: Option<usize>,
    pub(super) dead: bool,
    pub(super) trace: bool,
    /// Everything has been called, and the process waits for the others.
    pub(super) finalizes: bool,
    pub(super) violation: Option<String>,
    pub(super) calls: u64,
    pub(super) turns: u64,
}

impl Proc {
    pub(super) fn new(program: &Program, carriers: &Carriers, rank: usize, trace: bool) -> Self {
        let mut secret = [7; 16];
        secret[..8].copy_from_slice(&program.seed.to_le_bytes());
        let mut engine = carriers.engine(&program.machine, rank, secret);
        engine.attend(program.pace.helps);
        let thread =
            |(lane, script): (usize, Vec<Step>)| Thread { lane, script, next: 0, phase: Phase::Between, ready: 0 };
        let scripts = program.lanes.iter().enumerate().map(|(number, lane)| (number, lane.script(number, rank)));
        Self {
            rank,
            engine,
            memory: carriers.memory.clone(),
            random: Random::new(crate::random::mix(program.seed ^ 0x70 ^ (rank as u64) << 32)),
            clock: carriers.clock.clone(),
            node: carriers.nodes[program.machine.nodes[rank]].clone(),
            place: carriers.places[rank],
            network: carriers.network.clone(),
            comms: program.lanes.iter().map(|lane| lane.comms.clone()).collect(),
            pace: program.pace,
            threads: scripts.map(thread).collect(),
            sleeping: None,
            helper: Helper::default(),
            waiting: 0,
            signalled: 0,
            collectives_seen: 0,
            sends: BTreeMap::new(),
            receives: BTreeMap::new(),
            running: Vec::new(),
            entered: carriers.entered.clone(),
            persistent: BTreeMap::new(),
            cancelled: BTreeMap::new(),
            received: Vec::new(),
            spent: Vec::new(),
            wild: super::calls::WildBlocks::new(program, rank),
            mortal: program.death.map(|death| death.rank),
            dead: false,
            trace,
            finalizes: false,
            violation: None,
            calls: 0,
            turns: 0,
        }
    }

    /// Says what happens, if anybody wants to know.
    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>12} ns  process {}: {}", self.clock.now(), self.rank, what());
        }
    }

    /// A pass of the progress loop.
    pub(super) fn progress(&mut self) {
        self.engine.progress();
        if self.engine.messages.completions != self.collectives_seen {
            self.collectives_seen = self.engine.messages.completions;
            for running in &mut self.running {
                running.advance(&mut self.engine);
            }
        }
    }

    /// Another process has given this one a turn.
    pub(super) fn take_turn(&mut self) {
        let spins = self.threads.iter().any(|thread| matches!(thread.phase, Phase::Waits { .. }));
        if spins && self.sleeping.is_none() && !self.dead {
            self.progress();
            self.signal();
        }
    }

    /// When something of this process has its turn, and what: a thread, or the progress thread.
    pub(super) fn next_turn(&self) -> Option<(u64, usize)> {
        if self.dead {
            return None;
        }
        let threads =
            self.threads.iter().enumerate().filter_map(|(at, thread)| Some((self.thread_ready(at, thread)?, at)));
        let helper = self.helper_ready().map(|at| (at, self.threads.len()));
        threads.chain(helper).min()
    }

    fn thread_ready(&self, at: usize, thread: &Thread) -> Option<u64> {
        match (&thread.phase, &self.sleeping) {
            (Phase::Over | Phase::Parked { .. }, _) => None,
            (Phase::Between, _) if self.joins(at) => None,
            (Phase::Waits { .. }, Some(sleeping)) if sleeping.thread == at => {
                let node = self.node.borrow().wakes(self.place);
                let network = sleeping.watches_network.then(|| self.network.next_arrival(self.rank)).flatten();
                [sleeping.until, sleeping.alarm, node, network]
                    .into_iter()
                    .flatten()
                    .min()
                    .map(|wake| wake.max(thread.ready))
            }
            _ => Some(thread.ready),
        }
    }

    /// Whether the first thread waits for the others to end, outside of MPI.
    fn joins(&self, at: usize) -> bool {
        let over = |thread: &Thread| matches!(thread.phase, Phase::Over);
        at == 0 && self.threads[0].next == self.threads[0].script.len() && !self.threads[1..].iter().all(over)
    }

    fn helper_ready(&self) -> Option<u64> {
        let Helper { network, doorbell, timer, busy } = self.helper;
        let network = network.then(|| self.network.next_arrival(self.rank)).flatten();
        let doorbell = doorbell.then(|| self.node.borrow().wakes(self.place)).flatten();
        [timer, network, doorbell].into_iter().flatten().min().map(|at| at.max(busy))
    }

    /// A thread, or behind them the progress thread, has its turn.
    pub(super) fn turn(&mut self, who: usize) -> Checked<()> {
        if who == self.threads.len() {
            self.help();
        } else {
            self.turn_of_thread(who)?;
        }
        self.check_bounds()
    }

    fn pause(&mut self) -> u64 {
        1 + self.random.below(self.pace.step_max)
    }

    fn turn_of_thread(&mut self, at: usize) -> Checked<()> {
        let now = self.clock.now();
        self.threads[at].ready = now + self.pause();
        match std::mem::replace(&mut self.threads[at].phase, Phase::Between) {
            Phase::Between => self.call(at),
            Phase::Waits { waiting, spins } => self.wait(at, waiting, spins),
            phase => {
                self.threads[at].phase = phase;
                Ok(())
            }
        }
    }

    fn call(&mut self, at: usize) -> Checked<()> {
        let now = self.clock.now();
        let thread = &mut self.threads[at];
        let Some(step) = thread.script.get(thread.next).cloned() else {
            if at > 0 {
                thread.phase = Phase::Over;
                return Ok(());
            }
            self.note(|| "finalizes".into());
            self.finalizes = true;
            return self.begin_waiting(at, Waiting::Others);
        };
        thread.next += 1;
        if let Call::Compute(nanoseconds) = step.call {
            thread.ready = now + nanoseconds;
            return Ok(());
        }
        self.calls += 1;
        let lane = thread.lane;
        match self.begin(lane, &step)? {
            Some(waiting) => self.begin_waiting(at, waiting),
            None => {
                self.signal();
                self.hand_over();
                Ok(())
            }
        }
    }

    fn begin_waiting(&mut self, at: usize, waiting: Waiting) -> Checked<()> {
        self.waiting += 1;
        if self.waiting == 1 {
            self.engine.set_inside_mpi(true);
            self.take_back();
        }
        let spins = self.random.below(self.pace.spins_max + 1);
        self.wait(at, waiting, spins)
    }

    fn wait(&mut self, at: usize, waiting: Waiting, spins: u64) -> Checked<()> {
        if self.sleeping.as_ref().is_some_and(|sleeping| sleeping.thread == at) {
            self.sleeping = None;
            self.engine.finish_sleep();
            self.unpark();
        }
        let mut waiting = waiting;
        for looks_again in [true, false] {
            match self.look(waiting)? {
                None => {
                    self.waiting -= 1;
                    if self.waiting == 0 {
                        self.engine.set_inside_mpi(false);
                    }
                    self.signal();
                    self.hand_over();
                    return Ok(());
                }
                Some(still) => waiting = still,
            }
            if looks_again {
                self.progress();
            }
        }
        self.signal();
        if self.sleeping.is_some() {
            self.threads[at].phase = Phase::Parked { waiting };
            return Ok(());
        }
        if spins == 0
            && let Some(sleep) = self.engine.prepare_sleep()
        {
            let now = self.clock.now();
            let until = sleep.timeout.map(|timeout| now + timeout.max(1));
            let watches_network = matches!(sleep.rest, SleepOn::Descriptors { .. });
            self.sleeping = Some(Sleeping { thread: at, until, watches_network, alarm: None });
        }
        self.threads[at].phase = Phase::Waits { waiting, spins: spins.saturating_sub(1) };
        Ok(())
    }

    fn unpark(&mut self) {
        let ready = self.clock.now() + self.pause();
        for thread in &mut self.threads {
            match std::mem::replace(&mut thread.phase, Phase::Over) {
                Phase::Parked { waiting } => {
                    thread.ready = ready;
                    thread.phase = Phase::Waits { waiting, spins: 0 };
                }
                phase => thread.phase = phase,
            }
        }
    }

    /// Wakes whom it concerns that something has happened.
    fn signal(&mut self) {
        let completions = self.engine.messages.completions;
        let news = std::mem::replace(&mut self.signalled, completions) != completions;
        let now = self.clock.now();
        if let Some(Sleeping { until, .. }) = self.sleeping {
            // Something is due before the sleep ends.
            let sooner = self.engine.due().is_some_and(|due| until.is_none_or(|until| now + due < until));
            if (news || sooner)
                && !self.engine.nudge()
                && let Some(sleeping) = &mut self.sleeping
            {
                sleeping.alarm.get_or_insert(now);
            }
        }
        if news {
            self.unpark();
        }
    }

    /// The program leaves MPI: what the progress thread watches meanwhile.
    fn hand_over(&mut self) {
        if !self.pace.helps || self.waiting > 0 {
            return;
        }
        let requests = self.engine.messages.are_under_way();
        let neighbours = !self.running.is_empty() || (requests && self.engine.node_needs_help());
        let networked = self.engine.has_network() && (requests || self.engine.has_deadlines());
        if !networked && !neighbours {
            return;
        }
        let now = self.clock.now();
        self.helper.network |= requests;
        if neighbours && !self.helper.doorbell {
            self.helper.doorbell = true;
            if !self.engine.arm_for_thread() {
                self.helper.timer = Some(now);
            }
        }
        let soon = self.engine.due().into_iter().chain(self.engine.coalescing_time().map(|soon| soon.as_nanos())).min();
        if let Some(soon) = soon {
            let at = now + soon;
            self.helper.timer = Some(self.helper.timer.map_or(at, |timer| timer.min(at)));
        }
    }

    /// Somebody waits inside MPI, and sees to everything.
    fn take_back(&mut self) {
        if std::mem::take(&mut self.helper).doorbell {
            self.engine.disarm_for_thread();
        }
    }

    /// The progress thread is awake.
    fn help(&mut self) {
        let busy = self.clock.now() + self.pause();
        let doorbell = std::mem::replace(&mut self.helper, Helper { busy, ..Helper::default() }).doorbell;
        if doorbell {
            self.engine.disarm_for_thread();
        }
        if self.waiting == 0 {
            self.engine.finish_sleep();
            for _ in 0..HELPER_PASSES {
                self.progress();
            }
        }
        self.signal();
        self.hand_over();
    }

    /// What each thread waits for, for people.
    pub(super) fn stands(&self) -> String {
        let stands = |thread: &Thread| match &thread.phase {
            Phase::Between => format!("call {} of {}", thread.next, thread.script.len()),
            Phase::Waits { waiting, .. } | Phase::Parked { waiting } => format!("waits for {waiting}"),
            Phase::Over => "over".into(),
        };
        let threads: Vec<String> = self.threads.iter().map(stands).collect();
        let asleep = if self.sleeping.is_some() { ", asleep" } else { "" };
        format!("process {}: {}{asleep}", self.rank, threads.join("; "))
    }
}
