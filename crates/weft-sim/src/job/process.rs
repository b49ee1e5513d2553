//! A simulated process: an engine, and threads that call it as programs call MPI.
//!
//! A few lines do the work of `weft-mpi` around the engine: a waiting thread spins and then sleeps on behalf
//! of all threads, and a progress thread makes progress while the program computes.

mod calls;
mod check;
mod collectives;
mod waits;
mod windows;

use super::construct::{self, Carriers, SimEngine, Slot};
use super::moments::Clock;
use super::node::SharedMemory;
use super::program::{Call, Comm, Pace, Program, Step};
use super::shape::Placed;
use super::windows::Windows;
use calls::{Done, Live, Persistent, Waiting, WildBlocks};
use collectives::Running;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use waits::{Sleeping, Spin, Watched};
use weft_core::wire::Secret;
use weft_engine::carriers::Attendance;
use weft_engine::memory::InProcess;
use weft_engine::waiting::{Backoff, Coverage, Learned, Waiters};
use weft_random::Random;
use windows::LiveWindow;

/// A result whose error is a sentence that says what went wrong.
pub(super) type Checked<T> = Result<T, String>;

/// The state of a thread.
enum Phase {
    /// The next call, or the thread's next step in it, begins at a time.
    Between,
    /// The thread waits inside MPI.
    Waits { waiting: Waiting, spin: Spin },
    /// Another thread of the process sleeps on behalf of all.
    Parked { waiting: Waiting, spin: Spin },
    /// The thread has made all its calls.
    Over,
}

struct Thread {
    role: usize,
    script: Vec<Step>,
    next: usize,
    phase: Phase,
    ready: u64,
}

/// A process of the job.
pub(super) struct Proc {
    pub(super) rank: usize,
    pub(super) engine: SimEngine,
    pub(super) memory: InProcess,
    pub(super) random: Random,
    clock: Clock,
    node: SharedMemory,
    local_rank: usize,
    network: super::network::Network,
    pub(super) comms: Vec<Vec<Comm>>,
    pace: Pace,
    threads: Vec<Thread>,
    sleeping: Option<Sleeping>,
    /// The sleeps in a row that another thread of the process has ended, though nothing had arrived.
    alarms: u32,
    waiters: Waiters,
    learned: Learned,
    coverage: Coverage,
    backoff: Backoff,
    watched: Watched,
    collectives_seen: u64,
    /// Operations under way, by the name of their message: sends and receives.
    sends: BTreeMap<u32, Live>,
    receives: BTreeMap<u32, Live>,
    running: Vec<Running>,
    entered: Rc<RefCell<BTreeMap<u32, usize>>>,
    /// Windows that are open, by role and number, and what the oracle knows of all windows.
    windows: BTreeMap<(usize, u32), LiveWindow>,
    truths: Windows,
    /// Persistent requests of each role.
    persistent: BTreeMap<usize, Vec<Persistent>>,
    /// Says whether each send was cancelled, by its message.
    cancelled: BTreeMap<u32, bool>,
    /// Received messages, whose bytes must stay as they are.
    received: Vec<Done>,
    /// Buffers of complete sends: no process may read them.
    spent: Vec<Placed>,
    /// Members of the role's wild blocks, for the oracle.
    wild: WildBlocks,
    /// The process that this one may lose.
    pub(super) mortal: Option<usize>,
    /// The node of each process.
    nodes: Vec<usize>,
    /// Says whether collectives between nodes are multicast.
    uses_multicast: bool,
    /// Says whether the processes of a node copy from each other's memory.
    single_copy: bool,
    /// The slot of each communicator of each role.
    slots: Vec<Vec<Slot>>,
    /// Says whether the network adds no packet to those that are sent, and changes none.
    faithful: bool,
    pub(super) dead: bool,
    pub(super) trace: bool,
    /// Says whether the process has made all its calls and waits for the other processes.
    pub(super) finalizes: bool,
    pub(super) violation: Option<String>,
    pub(super) calls: u64,
    pub(super) turns: u64,
}

impl Proc {
    pub(super) fn new(program: &Program, carriers: &Carriers, rank: usize, trace: bool) -> Self {
        let mut secret = [7; 16];
        secret[..8].copy_from_slice(&program.seed.to_le_bytes());
        let mut engine = carriers.engine(&program.machine, rank, Secret::new(secret));
        let attendance = match (program.pace.helps, engine.is_oversubscribed()) {
            (false, _) => Attendance::None,
            (true, false) => Attendance::Prompt,
            (true, true) => Attendance::Late,
        };
        engine.attend(attendance);
        let mut slots = Vec::new();
        let mut communicators = 0;
        for (number, role) in program.roles.iter().enumerate() {
            let join = |(which, comm)| {
                let context = super::program::context(number, which) + 1;
                construct::join_group(&mut engine, &program.machine, rank, comm, context);
                communicators += 1;
                Slot::open(&mut engine, rank, comm, context, communicators - 1)
            };
            slots.push(role.comms.iter().enumerate().map(join).collect());
        }
        let thread =
            |(role, script): (usize, Vec<Step>)| Thread { role, script, next: 0, phase: Phase::Between, ready: 0 };
        let scripts = program.roles.iter().enumerate().map(|(number, role)| (number, role.script(number, rank)));
        Self {
            rank,
            engine,
            memory: carriers.memory.clone(),
            random: Random::new(weft_random::mix(program.seed ^ 0x70 ^ (rank as u64) << 32)),
            clock: carriers.clock.clone(),
            node: carriers.nodes[program.machine.nodes[rank]].clone(),
            local_rank: carriers.local_ranks[rank],
            network: carriers.network.clone(),
            comms: program.roles.iter().map(|role| role.comms.clone()).collect(),
            pace: program.pace,
            threads: scripts.map(thread).collect(),
            sleeping: None,
            alarms: 0,
            waiters: Waiters::new(),
            learned: Learned::new(!program.machine.is_alone()),
            coverage: Coverage::new(carriers.places_on(program.machine.nodes[rank]) > 1),
            backoff: Backoff::default(),
            watched: Watched::default(),
            collectives_seen: 0,
            sends: BTreeMap::new(),
            receives: BTreeMap::new(),
            running: Vec::new(),
            entered: carriers.entered.clone(),
            windows: BTreeMap::new(),
            truths: carriers.windows.clone(),
            persistent: BTreeMap::new(),
            cancelled: BTreeMap::new(),
            received: Vec::new(),
            spent: Vec::new(),
            wild: WildBlocks::new(program, rank),
            mortal: program.loses(rank),
            nodes: program.machine.nodes.clone(),
            uses_multicast: program.machine.wires.multicast.is_some(),
            single_copy: program.machine.single_copy,
            slots,
            faithful: program.machine.wires.nuisances.is_empty(),
            dead: false,
            trace,
            finalizes: false,
            violation: None,
            calls: 0,
            turns: 0,
        }
    }

    /// Prints an event, if the run is traced.
    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        if self.trace {
            crate::out::line(format_args!("{:>12} ns  process {}: {}", self.clock.now(), self.rank, what()));
        }
    }

    /// Makes one pass of the progress loop.
    pub(super) fn progress(&mut self) {
        self.engine.progress();
        if self.engine.messages.completions() != self.collectives_seen {
            self.collectives_seen = self.engine.messages.completions();
            for running in &mut self.running {
                running.advance(&mut self.engine);
            }
        }
    }

    /// Uses a turn that another process has given this one.
    pub(super) fn take_turn(&mut self) {
        let spins = self.threads.iter().any(|thread| matches!(thread.phase, Phase::Waits { .. }));
        if spins && self.sleeping.is_none() && !self.dead {
            self.progress();
            self.notify();
        }
    }

    /// The time of this process's next turn, and the thread that has it: a thread of the program, or the
    /// progress thread.
    pub(super) fn next_turn(&self) -> Option<(u64, usize)> {
        if self.dead {
            return None;
        }
        let threads =
            self.threads.iter().enumerate().filter_map(|(at, thread)| Some((self.thread_ready(at, thread)?, at)));
        let helper = self.watched.ready(self).map(|at| (at, self.threads.len()));
        threads.chain(helper).min()
    }

    fn thread_ready(&self, at: usize, thread: &Thread) -> Option<u64> {
        match (&thread.phase, &self.sleeping) {
            (Phase::Over | Phase::Parked { .. }, _) => None,
            (Phase::Between, _) if self.joins(at) => None,
            (Phase::Waits { .. }, Some(sleeping)) if sleeping.thread == at => {
                let node = self.node.borrow().wakes(self.local_rank);
                let network = sleeping.watches_network.then(|| self.network.next_event(self.rank)).flatten();
                [sleeping.until, sleeping.alarm, node, network]
                    .into_iter()
                    .flatten()
                    .min()
                    .map(|wake| wake.max(thread.ready))
            }
            _ => Some(thread.ready),
        }
    }

    /// Returns whether the first thread waits for the other threads to end, outside of MPI.
    fn joins(&self, at: usize) -> bool {
        let over = |thread: &Thread| matches!(thread.phase, Phase::Over);
        at == 0 && self.threads[0].next == self.threads[0].script.len() && !self.threads[1..].iter().all(over)
    }

    /// Gives a thread its turn; the number behind those of the threads is the progress thread.
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
            Phase::Waits { waiting, spin } => self.wait(at, waiting, spin),
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
        let role = thread.role;
        match self.begin(role, &step)? {
            Some(waiting) => self.begin_waiting(at, waiting),
            None => {
                self.leave();
                Ok(())
            }
        }
    }

    /// Describes for people what each thread waits for.
    pub(super) fn stands(&self) -> String {
        let stands = |thread: &Thread| match &thread.phase {
            Phase::Between => format!("call {} of {}", thread.next, thread.script.len()),
            Phase::Waits { waiting, .. } | Phase::Parked { waiting, .. } => format!("waits for {waiting}"),
            Phase::Over => "over".into(),
        };
        let threads: Vec<String> = self.threads.iter().map(stands).collect();
        let asleep = if self.sleeping.is_some() { ", asleep" } else { "" };
        format!("process {}: {}{asleep}", self.rank, threads.join("; "))
    }
}
