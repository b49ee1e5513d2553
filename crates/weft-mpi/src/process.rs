//! The process as a whole: one lock around everything, and the ways to wait.
//!
//! Whoever calls MPI takes the lock, does its work, makes progress for everybody, and leaves. A call that
//! must wait first spins, then one waiter sleeps in the kernel on behalf of all (a doorbell of the node's
//! peers, the network, a timer) while other threads that wait are parked until what they wait for is
//! complete. When it does what is decided by `weft_engine::waiting`; how, here.
//!
//! | module | what it holds |
//! |---|---|
//! | `waiting` | calls that wait, and who wakes them |
//! | `parked` | threads that wait while another one makes progress for them |
//! | `helped` | what is left to the progress thread |
//! | `running` | collectives under way |
//! | `finalizing` | who waits for a process that has called MPI_Finalize |
//! | `settling` | what is left to complete in this process's own |

mod finalizing;
mod helped;
mod parked;
mod running;
mod settling;
mod waiting;

use std::cell::Cell;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use weft_core::time::Duration;
use weft_engine::messages::Messages;
use weft_engine::waiting::{Learned, Looks, Waiters};
use weft_launch::Load;
use weft_net::clock;

use crate::awaited::Awaited;
use crate::constants::{MPI_ERR_OTHER, MPI_THREAD_SINGLE};
use crate::contention::{LockWaiter, is_contended};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::handle::{Kind, Slab};
use crate::job::Job;
use crate::live::{Collective, Live, View};
use crate::object::{Group, Objects, PeerId};
use crate::progress_thread::ProgressThread;
use helped::Helped;
pub use running::Running;
pub use waiting::{block_for, block_from, block_until};

/// A thread that wants the lock while the progress thread holds it looks so long whether it is free before it
/// sleeps …
const THREAD_LEAVES: Duration = Duration::from_micros(100);
/// … and yields its processor after so many looks.
const LOOKS_PER_YIELD: u32 = 64;

/// Where the process stands between `MPI_Init` and `MPI_Finalize` (MPI-5.0 §11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before `MPI_Init` has returned.
    Before,
    /// In between.
    Active,
    /// After `MPI_Finalize`.
    After,
}

/// Everything that Weft knows in this process.
pub struct Process {
    /// Between init and finalize, or not.
    pub phase: Phase,
    /// Level of thread support (MPI-5.0 §11.6).
    pub thread_level: i32,
    /// Thread that initialised MPI.
    pub main_thread: Option<u64>,
    /// Communicators, datatypes and so on.
    pub objects: Objects,
    /// Buffer for buffered sends of the process.
    pub buffer: crate::buffered::Buffer,
    /// Copies of messages that are on their way although the program's buffer is free again.
    pub temporaries: crate::buffered::Buffer,
    /// Whether errors that are returned are printed too.
    pub verbose_errors: bool,
    /// Whether what processes call is compared (`WEFT_CHECK`).
    pub checks_calls: bool,
    /// What messages say of themselves then.
    pub(crate) labels: crate::labels::Labels,
    /// What plans collectives.
    pub planner: crate::planner::Planner,
    /// What is known of multicast.
    pub multicast: crate::multicast::Knowledge,
    /// Names of the MPI calls by number.
    pub call_names: &'static [&'static str],
    /// Collectives under way.
    pub collectives: Slab<Running>,
    /// Completions that they have been moved on for.
    pub collectives_seen: u64,
    /// Completions under engines that are gone. The next one counts on from there: whoever has seen a number
    /// would otherwise take the same number of the next engine for no news, and what had come then would wait
    /// for ever.
    completions_before: u64,
    /// When a call that synchronizes a window has last looked for what has arrived, in ticks.
    pub(crate) window_looked: u64,
    /// Partitioned operations.
    pub(crate) partitioned: crate::partitions::Partitioned,
    /// Contexts for new communicators.
    pub contexts: crate::context::Contexts,
    /// Slots in the node's memory.
    pub(crate) slots: crate::slots::Slots,
    /// How the job was started; set from when this process has joined it until it leaves.
    pub job: Option<Job>,
    /// What talks to the launcher, while this process has left its job.
    pub(crate) manager: Option<Box<dyn weft_launch::ProcessManager>>,
    /// A session has been opened since it joined.
    pub(crate) had_sessions: bool,
    pub(crate) engine: Option<Box<Engine>>,
    /// Where others see how this process stands; told before each sleep, and now and then.
    live: Option<Live>,
    /// What the call that sleeps waits for.
    awaited: Awaited,
    /// Packets sent again and paths failed, as far as tools have been told.
    pub(crate) packets_seen: [u64; 2],
    finalizing: finalizing::Finalizing,
    learned: Learned,
    looks: Looks,
    processors: usize,
    /// The job has more processes on its processors than there are of these, on this node or as nodes of
    /// their own.
    pub(crate) is_crowded: bool,
    helped: Helped,
    progress_thread: Option<ProgressThread>,
    waiters: Waiters,
    parked: parked::Parked,
    alarm: Option<(UnixStream, UnixStream)>,
}

/// The threads of this process that have asked for their number.
static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A number that no other thread of this process has, at any time. (Those of the standard library stand in
/// memory that is never given back.)
pub fn thread_number() -> u64 {
    THREAD.with(|number| {
        if number.get() == 0 {
            number.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}

/// Whether MPI was initialized by another thread than this one.
pub fn is_beside_main_thread() -> bool {
    with(|process| process.main_thread).is_some_and(|main| main != thread_number())
}

/// Whether the phase is [`Phase::Active`] or a session is open, for a look without the lock.
pub static ACTIVE: AtomicBool = AtomicBool::new(false);
/// Whether this process was forked from one that was in MPI: then nothing here may be used.
pub static FORKED: AtomicBool = AtomicBool::new(false);
static PROCESS: Mutex<Process> = Mutex::new(Process::new());
/// Whether it is the progress thread that has the lock.
static THREAD_HAS_LOCK: AtomicBool = AtomicBool::new(false);
/// Whether a call waits, for a look without the lock.
static WAITS: AtomicBool = AtomicBool::new(false);

/// What tells tools of the events that have been noted; set once there is one that listens.
pub(crate) static LISTENERS: OnceLock<fn()> = OnceLock::new();

/// Tells tools what has happened. The lock is free meanwhile.
#[cold]
fn tell_events() {
    if let Some(tell) = LISTENERS.get() {
        tell();
    }
}

/// Exclusive use of the process.
pub type Guard = MutexGuard<'static, Process>;

/// Takes the lock. A panic of another thread while it held the lock does not hide the process from this one:
/// the boundary reports such a panic as an internal error.
#[inline]
pub fn lock() -> Guard {
    match PROCESS.try_lock() {
        Ok(guard) => guard,
        Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(std::sync::TryLockError::WouldBlock) => lock_slowly(),
    }
}

/// From now on a child that is forked knows that it is none of the job.
pub fn watch_for_forks() {
    weft_launch::on_fork(|| {
        ACTIVE.store(false, Ordering::Relaxed);
        FORKED.store(true, Ordering::Relaxed);
        weft_launch::CallSite::hide();
    });
}

/// A forked child must not wait for a lock that a thread of its parent held.
#[cold]
fn refuse_in_child() -> ! {
    eprintln!("weft: process {}: {IN_CHILD}", std::process::id());
    weft_launch::exit_now(CHILD_EXIT_CODE)
}

/// The exit code of a forked child that calls MPI.
pub const CHILD_EXIT_CODE: i32 = 16;

/// Why a forked child cannot call MPI.
pub const IN_CHILD: &str = "this process was forked from a process of an MPI job, and is none itself: only the parent may call MPI \
                            (end such a child with _exit, or let it execute another program)";

#[cold]
fn lock_slowly() -> Guard {
    if FORKED.load(Ordering::Relaxed) {
        refuse_in_child();
    }
    let _waiter = LockWaiter::begin();
    // The progress thread leaves after the train that it is sending: that is sooner than a sleep would end.
    let began = clock::now();
    while THREAD_HAS_LOCK.load(Ordering::Relaxed) && clock::now().since(began) < THREAD_LEAVES {
        for _ in 0..LOOKS_PER_YIELD {
            if let Ok(guard) = PROCESS.try_lock() {
                return guard;
            }
            std::hint::spin_loop();
        }
        // It may need this very processor.
        std::thread::yield_now();
    }
    PROCESS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs `operation` under the lock and wakes whom it concerns.
#[inline]
pub fn with<R>(operation: impl FnOnce(&mut Process) -> R) -> R {
    let mut process = lock();
    let result = operation(&mut process);
    process.signal();
    let has_events = process.has_events();
    drop(process);
    if has_events {
        tell_events();
    }
    result
}

/// Whether MPI_COMM_WORLD, or else MPI_COMM_SELF, has the error handler MPI_ERRORS_RETURN. Does not wait:
/// `false` when it cannot be known.
#[cold]
pub fn returns_errors() -> bool {
    use crate::constants::{MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERRORS_RETURN};
    let Ok(process) = PROCESS.try_lock() else { return false };
    [MPI_COMM_WORLD, MPI_COMM_SELF].into_iter().any(|handle| {
        process.objects.find_communicator(handle).is_some_and(|object| object.error_handler == MPI_ERRORS_RETURN)
    })
}

/// Has MPI been initialized, whether or not it has been finalized since?
pub fn has_started() -> bool {
    let process = lock();
    process.phase != Phase::Before || process.job.is_some()
}

/// Looks once, and if there is nothing, once more after a pass of the progress loop.
pub fn attempt<R>(mut check: impl FnMut(&mut Process) -> Option<R>) -> Option<R> {
    let mut process = lock();
    let mut found = check(&mut process);
    if found.is_none() {
        process.progress();
        process = run_due_reductions(process);
        found = check(&mut process);
    }
    process.signal();
    let has_events = process.has_events();
    // Programs test in a loop: those who wait for the lock must come to have it, and so must ranks without a
    // processor, of which one may be what the program tests for.
    let yields = found.is_none() && {
        let wanted = is_contended() || process.is_oversubscribed();
        let passes = process.learned.passes_per_look();
        process.looks.in_vain(wanted, passes)
    };
    drop(process);
    if has_events {
        tell_events();
    }
    if yields {
        std::thread::yield_now();
    }
    found
}

/// Makes progress once, calls of the program's reduction functions included.
pub fn progress_once() {
    let mut process = lock();
    process.progress();
    run_due_reductions(process).signal();
}

fn run_due_reductions(mut process: Guard) -> Guard {
    while let Some((running, reduction)) = process.take_due_reduction() {
        drop(process);
        reduction.call();
        process = lock();
        process.finish_reduction(running);
        process.progress();
    }
    process
}

impl Process {
    const fn new() -> Self {
        Self {
            phase: Phase::Before,
            thread_level: MPI_THREAD_SINGLE,
            main_thread: None,
            objects: Objects::new(),
            buffer: crate::buffered::Buffer::new(),
            temporaries: crate::buffered::Buffer::new(),
            verbose_errors: false,
            checks_calls: false,
            labels: crate::labels::Labels::new(),
            planner: crate::planner::Planner::without_settings(),
            multicast: crate::multicast::Knowledge::new(
                crate::multicast::BcastSetting::Off,
                false,
                weft_core::time::Duration(0),
            ),
            call_names: &[],
            collectives: Slab::new(Kind::Collective),
            collectives_seen: 0,
            completions_before: 0,
            window_looked: 0,
            partitioned: crate::partitions::Partitioned::new(),
            contexts: crate::context::Contexts::new(),
            slots: crate::slots::Slots::new(),
            job: None,
            manager: None,
            had_sessions: false,
            engine: None,
            live: None,
            awaited: Awaited::Unknown,
            packets_seen: [0; 2],
            finalizing: finalizing::Finalizing::new(),
            learned: Learned::new(false),
            looks: Looks::new(),
            processors: 1,
            is_crowded: false,
            helped: Helped::Nothing,
            progress_thread: None,
            waiters: Waiters::new(),
            parked: parked::Parked::new(),
            alarm: None,
        }
    }

    /// The engine is there: communication is possible. `load` is what its processors bear, `neighbours` how
    /// many processes of the job are on this node.
    ///
    /// # Errors
    /// When the process has not enough file descriptors.
    pub fn attach_engine(
        &mut self,
        mut engine: Engine,
        load: Load,
        neighbours: usize,
        live: Option<Live>,
    ) -> std::io::Result<()> {
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        sender.set_nonblocking(true)?;
        self.alarm = Some((receiver, sender));
        self.learned = Learned::new(engine.has_network());
        self.processors = load.processors;
        if load.ranks > neighbours && load.is_oversubscribed() {
            // Other jobs were here first: spinning must show that it pays before it is trusted.
            self.learned.distrust_spinning();
        }
        engine.messages.resume_completions(self.completions_before);
        self.engine = Some(Box::new(engine));
        self.live = live;
        self.packets_seen = [0; 2];
        self.follow_events();
        self.publish(false);
        Ok(())
    }

    /// Communication is over.
    pub fn detach_engine(&mut self) {
        if let Some(engine) = self.engine.take() {
            self.completions_before = engine.messages.completions() + 1;
        }
        self.live = None;
        self.alarm = None;
    }

    /// The engine.
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` outside of init and finalize.
    #[inline]
    pub fn engine(&mut self) -> Result<&mut Engine> {
        self.engine
            .as_deref_mut()
            .ok_or_else(|| Error::new(MPI_ERR_OTHER, "MPI is not initialised, or has been finalized already"))
    }

    /// This process, as peers name it.
    pub fn own(&self) -> PeerId {
        self.engine.as_ref().map_or(PeerId::FIRST, |engine| engine.peers.own())
    }

    /// Whether processes of `group` take turns on their processors; the same at all of them.
    pub fn are_oversubscribed(&self, group: &Group) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.are_oversubscribed(&group.members))
            || self.job.as_ref().is_some_and(|job| group.members.iter().any(|member| job.crowded.contains(member)))
    }

    /// Whether this process takes turns with others of the job on the processors that it may use.
    #[inline]
    pub(crate) fn is_oversubscribed(&self) -> bool {
        self.is_crowded || self.engine.as_ref().is_some_and(|engine| engine.is_oversubscribed())
    }

    /// Requests and matching.
    ///
    /// # Errors
    /// As for [`Process::engine`].
    #[inline]
    pub fn messages(&mut self) -> Result<&mut Messages> {
        Ok(&mut self.engine()?.messages)
    }

    /// Objects and engine at the same time.
    ///
    /// # Errors
    /// As for [`Process::engine`].
    #[inline]
    pub fn parts(&mut self) -> Result<(&mut Objects, &mut Engine)> {
        let engine = self
            .engine
            .as_deref_mut()
            .ok_or_else(|| Error::new(MPI_ERR_OTHER, "MPI is not initialised, or has been finalized already"))?;
        Ok((&mut self.objects, engine))
    }

    /// Collectives under way and engine at the same time; none outside of init and finalize.
    pub(crate) fn collectives_and_engine(&mut self) -> Option<(&mut Slab<Running>, &mut Engine)> {
        Some((&mut self.collectives, self.engine.as_deref_mut()?))
    }

    /// One pass of the progress loop.
    #[inline]
    pub fn progress(&mut self) {
        if let Some(engine) = &mut self.engine
            && engine.progress()
        {
            self.publish(false);
        }
        if !self.collectives.is_empty() {
            self.advance_collectives();
        }
        if self.partitioned.expects() {
            self.expect_plans();
        }
    }

    /// Tells those who look from outside how this process stands.
    #[cold]
    fn publish(&mut self, asleep: bool) {
        self.note_packets();
        if let (Some(live), Some(engine)) = (&mut self.live, &self.engine) {
            let threads = self.waiters.count();
            let collectives: Vec<Collective<'_>> = self
                .collectives
                .iter()
                .map(|(_, running)| {
                    let (request, cursor) = (running.request, &running.cursor);
                    let scope = cursor.scope();
                    let missing = cursor.missing().map(|rank| scope.group.members[rank as usize]).collect();
                    Collective { request, transfers: cursor.transfers(), missing, context: scope.context }
                })
                .collect();
            let (objects, awaited) = (&self.objects, &self.awaited);
            let carried = self.multicast.carried;
            live.publish(&View { objects, collectives: &collectives, engine, awaited, threads, carried }, asleep);
        }
    }

    /// Tells them that it is awake again.
    fn note_awake(&self) {
        self.live.iter().for_each(Live::awake);
    }

    /// Something has happened that is no completion of an operation, but that somebody waits for.
    pub fn announce(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.messages.notify();
        }
    }
}
