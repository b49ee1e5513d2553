//! The process as a whole: one lock around everything, and the ways to wait.
//!
//! A thread that calls MPI takes the lock, does its work, makes progress for the whole process, and leaves. A
//! call that must wait spins first. Then one waiter sleeps in the kernel for all waiters: a doorbell of the
//! node's peers, the network, or a timer wakes it. Other threads that wait are parked until their operation
//! is complete. `weft_engine::waiting` decides when a waiter spins or sleeps; this module carries it out.
//!
//! | module | what it holds |
//! |---|---|
//! | `waiting` | calls that wait, and how they are woken |
//! | `parked` | threads that wait while another one makes progress for them |
//! | `helped` | work that is left to the progress thread |
//! | `recovering` | failures that the program survives |
//! | `running` | collectives under way |
//! | `finalizing` | calls that wait for a process in MPI_Finalize |
//! | `settling` | operations that are left to complete in this process's own MPI_Finalize |

mod finalizing;
mod helped;
mod parked;
mod recovering;
mod running;
mod settling;
mod waiting;

use std::cell::Cell;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weft_core::time::Duration;
use weft_engine::messages::Messages;
use weft_engine::waiting::{Learned, Looks, Waiters};
use weft_launch::Load;
use weft_net::clock;
use weft_net::lock::{Lock, LockGuard, SmallGuard};

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
pub(crate) use helped::with_in_thread;
pub(crate) use recovering::{Recovery, Service, Waiting};
pub(crate) use running::{Exchange, Exchanges};
pub use running::{FileJob, Running};
pub(crate) use waiting::{Outside, block_beside, block_outside};
pub use waiting::{block_for, block_from, block_until};

/// The longest time for which a thread of the program looks whether the progress thread has released the
/// lock, before the thread sleeps.
const THREAD_LEAVES: Duration = Duration::from_micros(100);
/// The number of looks at the lock after which that thread yields its processor.
const LOOKS_PER_YIELD: u32 = 64;

/// The place of the process between `MPI_Init` and `MPI_Finalize` (MPI-5.0 §11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before `MPI_Init` has returned.
    Before,
    /// Between `MPI_Init` and `MPI_Finalize`.
    Active,
    /// After `MPI_Finalize`.
    After,
}

/// The state of Weft in this process.
pub struct Process {
    /// Before `MPI_Init`, between `MPI_Init` and `MPI_Finalize`, or after.
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
    /// Prints errors also when they are returned (`WEFT_VERBOSE_ERRORS`).
    pub verbose_errors: bool,
    /// Compares the calls of the processes (`WEFT_CHECK`).
    pub checks_calls: bool,
    /// The labels that messages carry while calls are compared.
    pub(crate) labels: crate::labels::Labels,
    /// The planner of collectives.
    pub planner: crate::planner::Planner,
    /// The knowledge about multicast.
    pub multicast: crate::multicast::Knowledge,
    /// Names of the MPI calls by number.
    pub call_names: &'static [&'static str],
    /// Collectives under way.
    pub collectives: Slab<Running>,
    /// Messages under way of operations that are made of them.
    pub(crate) exchanges: Exchanges,
    /// Failures that the program survives.
    pub(crate) recovery: Recovery,
    /// Accesses to files that threads of the library make.
    pub(crate) file_jobs: u32,
    /// Accesses to files that the calls which wait for them make, by their requests.
    pub(crate) jobs_of_callers: Vec<(usize, FileJob)>,
    /// Representations of data in files that the program has registered.
    pub representations: crate::file::representation::Representations,
    /// The count of completions up to which collectives have been moved on.
    pub collectives_seen: u64,
    /// The completions under engines that are gone. The next engine counts on from this number. Otherwise a
    /// waiter that has seen a number would take the same number of the next engine for no news, and would
    /// wait for ever.
    completions_before: u64,
    /// The time at which a call that synchronizes a window last looked for arrivals, in ticks.
    pub(crate) window_looked: u64,
    /// Partitioned operations.
    pub(crate) partitioned: crate::partitions::Partitioned,
    /// Contexts for new communicators.
    pub contexts: crate::context::Contexts,
    /// Slots in the node's memory.
    pub(crate) slots: crate::slots::Slots,
    /// The job of this process; set from when this process has joined it until it leaves.
    pub job: Option<Job>,
    /// Ports at which processes of other jobs can come.
    pub(crate) ports: crate::ports::Ports,
    /// The connection to the launcher, kept while this process has left its job.
    pub(crate) manager: Option<Box<dyn weft_launch::ProcessManager>>,
    /// A session has been opened since it joined.
    pub(crate) had_sessions: bool,
    pub(crate) engine: Option<Box<Engine>>,
    /// Handles of requests must have a short form ([`crate::handle::shorten`]).
    has_short_handles: bool,
    /// The page on which others see the state of this process; written before each sleep, and now and then.
    live: Option<Live>,
    /// The operation that the sleeping call waits for.
    awaited: Awaited,
    /// The packets sent again and the paths failed, as far as tools have been told.
    pub(crate) packets_seen: [u64; 2],
    finalizing: finalizing::Finalizing,
    learned: Learned,
    looks: Looks,
    processors: usize,
    /// The job has more processes than processors here, on this node or with each process as a node of its
    /// own.
    pub(crate) is_crowded: bool,
    /// The number of processes of the job that use the same processors and belong to other nodes.
    pub(crate) elsewhere: usize,
    /// The windows of the library that lie at another process.
    pub(crate) windows_elsewhere: usize,
    helped: Helped,
    progress_thread: Option<ProgressThread>,
    /// Set if other processes of the job are on this node.
    has_neighbours: bool,
    /// Set if there may be a progress thread, and there has been none that neighbours could wake.
    pub(crate) lacks_thread: bool,
    waiters: Waiters,
    parked: parked::Parked,
    alarm: Option<(UnixStream, UnixStream)>,
}

/// The threads of this process that have asked for their number.
static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Returns a number that no other thread of this process ever has. (The standard library's thread identifiers
/// are in memory that is never given back.)
pub fn thread_number() -> u64 {
    THREAD.with(|number| {
        if number.get() == 0 {
            number.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}

/// Returns whether another thread than this one initialized MPI.
pub fn is_beside_main_thread() -> bool {
    with(|process| process.main_thread).is_some_and(|main| main != thread_number())
}

/// The phase is [`Phase::Active`] or a session is open. For a look without the lock.
pub static ACTIVE: AtomicBool = AtomicBool::new(false);
/// Says that this process was forked from a process of an MPI job: nothing of MPI may be used here.
pub static FORKED: AtomicBool = AtomicBool::new(false);
static PROCESS: Lock<Process> = Lock::new(Process::new());
/// A thread of the library holds the lock: the progress thread, or one that accesses files.
static THREAD_HAS_LOCK: AtomicBool = AtomicBool::new(false);
/// A call waits. For a look without the lock.
static WAITS: AtomicBool = AtomicBool::new(false);

/// The function that tells tools of noted events; set when the first tool listens.
pub(crate) static LISTENERS: OnceLock<fn()> = OnceLock::new();

/// Tells tools of the events that have been noted, while the lock is free.
#[cold]
fn tell_events() {
    if let Some(tell) = LISTENERS.get() {
        tell();
    }
}

/// Exclusive use of the process.
pub type Guard = LockGuard<'static, Process>;

/// Takes the lock. A panic of another thread while it held the lock does not hide the process from this one:
/// the boundary reports such a panic as an internal error.
#[inline]
pub fn lock() -> Guard {
    PROCESS.try_lock().unwrap_or_else(lock_slowly)
}

/// Makes every child that is forked from now on know that it does not belong to the job.
pub fn watch_for_forks() {
    weft_launch::on_fork(|| {
        ACTIVE.store(false, Ordering::Relaxed);
        FORKED.store(true, Ordering::Relaxed);
        weft_launch::CallSite::hide();
    });
}

/// Ends a forked child, because the child must not wait for a lock that a thread of its parent held.
#[cold]
fn refuse_in_child() -> ! {
    eprintln!("weft: process {}: {IN_CHILD}", std::process::id());
    weft_launch::exit_now(CHILD_EXIT_CODE)
}

/// The exit code of a forked child that calls MPI.
pub const CHILD_EXIT_CODE: i32 = 16;

/// The reason why a forked child cannot call MPI.
pub const IN_CHILD: &str = "this process was forked from a process of an MPI job, and is none itself: only the parent may call MPI \
                            (end such a child with _exit, or let it execute another program)";

#[cold]
fn lock_slowly() -> Guard {
    if FORKED.load(Ordering::Relaxed) {
        refuse_in_child();
    }
    let _waiter = LockWaiter::begin();
    // The progress thread releases the lock after the train that it is sending, sooner than a sleep would
    // end.
    let began = clock::now();
    while THREAD_HAS_LOCK.load(Ordering::Relaxed) && clock::now().since(began) < THREAD_LEAVES {
        for _ in 0..LOOKS_PER_YIELD {
            if let Some(guard) = PROCESS.try_lock() {
                return guard;
            }
            std::hint::spin_loop();
        }
        // The progress thread may need the processor of this thread.
        std::thread::yield_now();
    }
    PROCESS.lock()
}

/// Runs `operation` under the lock, then wakes the threads that wait for its result. Hundreds of calls go
/// this way, so what is around the operation is there once. The calls that each message passes take the lock
/// themselves.
#[inline]
pub fn with<R>(operation: impl FnOnce(&mut Process) -> R) -> R {
    let mut process = enter();
    let result = operation(process.value());
    leave(process);
    result
}

/// Takes the lock for [`with`].
#[inline(never)]
fn enter() -> SmallGuard<'static, Process> {
    SmallGuard::new(lock())
}

/// Ends a call, and gives the lock back.
#[inline(never)]
fn leave(process: SmallGuard<'static, Process>) {
    let mut process = process.into_guard();
    process.signal();
    let has_events = process.has_events();
    drop(process);
    if has_events {
        tell_events();
    }
}

/// Returns whether MPI_COMM_WORLD, or else MPI_COMM_SELF, has the error handler MPI_ERRORS_RETURN. Never
/// waits for the lock: returns `false` when the lock is taken.
#[cold]
pub fn returns_errors() -> bool {
    use crate::constants::{MPI_COMM_SELF, MPI_COMM_WORLD, MPI_ERRORS_RETURN};
    let Some(process) = PROCESS.try_lock() else { return false };
    [MPI_COMM_WORLD, MPI_COMM_SELF].into_iter().any(|handle| {
        process.objects.find_communicator(handle).is_some_and(|object| object.error_handler == MPI_ERRORS_RETURN)
    })
}

/// Returns whether MPI has been initialized, whether or not it has been finalized since.
pub fn has_started() -> bool {
    let process = lock();
    process.phase != Phase::Before || process.job.is_some()
}

/// Runs `check`, and if it finds nothing, runs it once more after a pass of the progress loop.
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
    // Programs test in a loop. Threads that wait for the lock must get it. Ranks without a processor must get
    // one: the program may test for a message of such a rank.
    let yields = found.is_none() && {
        let wanted = is_contended() || process.is_oversubscribed();
        process.look_in_vain(wanted)
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

/// Makes progress once, and calls the program's reduction functions that are due.
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

#[cold]
#[inline(never)]
fn no_engine() -> Error {
    Error::new(MPI_ERR_OTHER, "MPI is not initialised, or has been finalized already")
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
            exchanges: Exchanges::new(),
            recovery: Recovery::new(),
            file_jobs: 0,
            jobs_of_callers: Vec::new(),
            representations: crate::file::representation::Representations::new(),
            collectives_seen: 0,
            completions_before: 0,
            window_looked: 0,
            partitioned: crate::partitions::Partitioned::new(),
            contexts: crate::context::Contexts::new(),
            slots: crate::slots::Slots::new(),
            job: None,
            ports: crate::ports::Ports::NONE,
            manager: None,
            had_sessions: false,
            engine: None,
            has_short_handles: false,
            live: None,
            awaited: Awaited::Unknown,
            packets_seen: [0; 2],
            finalizing: finalizing::Finalizing::new(),
            learned: Learned::new(false),
            looks: Looks::new(),
            processors: 1,
            is_crowded: false,
            elsewhere: 0,
            windows_elsewhere: 0,
            helped: Helped::Nothing,
            progress_thread: None,
            has_neighbours: false,
            lacks_thread: false,
            waiters: Waiters::new(),
            parked: parked::Parked::new(),
            alarm: None,
        }
    }

    /// Attaches the engine: from now on the process can communicate. `load` is the load of its processors, as
    /// far as the launcher tells; `neighbours` the number of processes of the job on this node, and
    /// `processors` the number of processors that they may use.
    ///
    /// # Errors
    /// When the process has not enough file descriptors.
    pub fn attach_engine(
        &mut self,
        mut engine: Engine,
        load: Option<Load>,
        (neighbours, processors): (usize, usize),
        live: Option<Live>,
    ) -> std::io::Result<()> {
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        sender.set_nonblocking(true)?;
        self.alarm = Some((receiver, sender));
        self.learned = Learned::new(engine.has_network());
        self.processors = processors;
        self.has_neighbours = neighbours > 1;
        if load.is_some_and(|load| load.ranks > neighbours && load.is_oversubscribed()) {
            // Other jobs were here first: spinning must show that it pays before it is trusted.
            self.learned.distrust_spinning();
        }
        engine.messages.resume_completions(self.completions_before);
        self.engine = Some(Box::new(engine));
        self.limit_requests();
        self.live = live;
        self.packets_seen = [0; 2];
        self.follow_events();
        self.publish(false);
        Ok(())
    }

    /// From now on every new request and every new communicator has a handle with a short form
    /// ([`crate::handle::shorten`]).
    pub fn shorten_handles(&mut self) {
        self.has_short_handles = true;
        self.objects.communicators.limit_generations(crate::handle::SHORT_GENERATION_LAST);
        self.limit_requests();
    }

    fn limit_requests(&mut self) {
        if let Some(engine) = self.engine.as_deref_mut().filter(|_| self.has_short_handles) {
            engine.messages.requests.limit_generations(crate::handle::SHORT_GENERATION_LAST);
        }
    }

    /// Notes that this process has peers on the network from now on.
    pub(crate) fn learn_of_network(&mut self) {
        self.learned = Learned::new(true);
    }

    /// Detaches the engine: communication is over.
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
        self.engine.as_deref_mut().ok_or_else(no_engine)
    }

    /// The number by which peers name this process.
    pub fn own(&self) -> PeerId {
        self.engine.as_ref().map_or(PeerId::FIRST, |engine| engine.peers.own())
    }

    /// Returns whether processes of `group` take turns on their processors. All processes of the group get
    /// the same answer.
    pub fn are_oversubscribed(&self, group: &Group) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.are_oversubscribed(&group.members))
            || self.job.as_ref().is_some_and(|job| group.members.iter().any(|member| job.crowded.contains(member)))
    }

    /// Returns whether this process takes turns with others of the job on the processors that it may use.
    #[inline]
    pub(crate) fn is_oversubscribed(&self) -> bool {
        self.is_crowded || self.engine.as_ref().is_some_and(|engine| engine.is_oversubscribed())
    }

    /// The requests and the matching of the engine.
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

    /// Makes one pass of the progress loop.
    #[inline]
    pub fn progress(&mut self) {
        if let Some(engine) = &mut self.engine {
            let is_time = engine.progress();
            if is_time | engine.messages.recovery.has_news {
                self.attend(is_time);
            }
        }
        if !self.collectives.is_empty() || !self.exchanges.is_empty() {
            self.advance_collectives();
        }
        if self.partitioned.expects() {
            self.expect_plans();
        }
    }

    /// Does what few passes have to do: publishes the state of this process if it is time, and looks at news
    /// of failures.
    #[cold]
    fn attend(&mut self, is_time: bool) {
        if is_time {
            self.publish(false);
        }
        if self.engine.as_ref().is_some_and(|engine| engine.messages.recovery.has_news) {
            self.attend_to_recovery();
        }
    }

    /// Publishes the state of this process for readers outside of it.
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
                .chain(self.exchanges.under_way.iter().map(|exchange| Collective {
                    request: exchange.request,
                    transfers: &exchange.requests,
                    missing: Vec::new(),
                    context: exchange.scope.context,
                }))
                .collect();
            let (objects, awaited) = (&self.objects, &self.awaited);
            let carried = self.multicast.carried;
            let questions = self.finalizing.arrived();
            let view = View { objects, collectives: &collectives, engine, awaited, threads, carried, questions };
            live.publish(&view, asleep);
        }
    }

    /// Publishes that this process is awake again.
    fn note_awake(&self) {
        self.live.iter().for_each(Live::awake);
    }

    /// Wakes the waiters after an event that completes no operation but that a waiter waits for.
    pub fn announce(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.messages.notify();
        }
    }
}
