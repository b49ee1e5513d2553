//! The process as a whole: one lock around everything, and the ways to wait.
//!
//! Whoever calls MPI takes the lock, does its work, makes progress for everybody, and leaves. A call that must wait
//! first spins, then one waiter sleeps in the kernel on behalf of all (a doorbell of the node's peers, the network, a
//! timer) while other threads that wait sleep until something has completed.

mod spinning;

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use weft_core::time::Duration;
use weft_launch::Load;
use weft_net::clock;
use weft_net::wait::{self, Interest, Spin};

use crate::collective::Running;
use crate::constants::{MPI_ERR_OTHER, MPI_THREAD_SINGLE};
use crate::contention::{Wanted, is_contended};
use crate::engine::{Engine, Rest, SINGLE_COPY_BYTES_MIN};
use crate::error::{Error, Result};
use crate::handle::{Kind, Slab};
use crate::helper::{self, Helper, Outstanding};
use crate::live::Live;
use crate::object::{Group, Objects, PeerId};
use crate::start::Job;
use spinning::{Parting, SPIN_NETWORK, SPIN_NODE, Wait};
use weft_engine::messages::Messages;

/// Times that a spinning waiter yields to threads that want the lock before it takes it again.
const YIELDS_MAX: u32 = 64;

/// A thread that wants the lock while the helper holds it looks so long whether it is free before it sleeps …
const HELPER_LEAVES: Duration = Duration::from_micros(100);
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
    pub main_thread: Option<std::thread::ThreadId>,
    /// Communicators, datatypes and so on.
    pub objects: Objects,
    /// Buffer for buffered sends of the process.
    pub buffer: crate::buffered::Buffer,
    /// Copies of messages that are on their way although the program's buffer is free again.
    pub temporaries: crate::buffered::Buffer,
    /// Whether errors that are returned are printed too.
    pub verbose_errors: bool,
    /// Error classes, codes and strings of the program.
    pub errors: crate::error_codes::ErrorCodes,
    /// Collectives under way.
    pub collectives: Slab<Running>,
    /// Completions that they have been moved on for.
    pub collectives_seen: u64,
    /// Contexts for new communicators.
    pub contexts: crate::context::Contexts,
    /// How the job was started; set while active.
    pub job: Option<Job>,
    pub(crate) engine: Option<Box<Engine>>,
    /// Where others see how this process stands; told before each sleep, and now and then.
    live: Option<Live>,
    spin: Spin,
    parting: Parting,
    processors: usize,
    helps: bool,
    /// Whether it helps with whatever is outstanding; otherwise it does with collectives.
    helps_always: bool,
    helper: Option<Helper>,
    /// Calls that wait, spinning or asleep.
    waiting: u32,
    asleep: bool,
    parked: u32,
    signalled: u64,
    alarm: Option<(UnixStream, UnixStream)>,
}

/// Whether the phase is [`Phase::Active`], for a look without the lock.
pub static ACTIVE: AtomicBool = AtomicBool::new(false);
static PROCESS: Mutex<Process> = Mutex::new(Process::new());
static CHANGED: Condvar = Condvar::new();
/// Whether it is the helper who has the lock.
static HELPS: AtomicBool = AtomicBool::new(false);
/// Whether a call waits, for a look without the lock.
static WAITS: AtomicBool = AtomicBool::new(false);

/// Exclusive use of the process.
pub type Guard = MutexGuard<'static, Process>;

/// Takes the lock. A panic of another thread while it held the lock does not hide the process from this one: the
/// boundary reports such a panic as an internal error.
#[inline]
pub fn lock() -> Guard {
    match PROCESS.try_lock() {
        Ok(guard) => guard,
        Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(std::sync::TryLockError::WouldBlock) => lock_slowly(),
    }
}

#[cold]
fn lock_slowly() -> Guard {
    let _wanted = Wanted::begin();
    // The helper leaves after the train that it is sending: that is sooner than a sleep would end.
    let began = clock::now();
    while HELPS.load(Ordering::Relaxed) && clock::now().since(began) < HELPER_LEAVES {
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
    result
}

/// Has MPI been initialized, whether or not it has been finalized since?
pub fn has_started() -> bool {
    lock().phase != Phase::Before
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
    drop(process);
    if found.is_none() && is_contended() {
        // Programs test in a loop: those who wait for the lock must come to have it.
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

/// Waits until `check` has a result, making progress meanwhile.
#[inline]
pub fn block_until<R>(check: impl FnMut(&mut Process) -> Option<R>) -> R {
    block_from(lock(), check)
}

/// The same, when the lock is held already.
pub fn block_from<R>(mut process: Guard, mut check: impl FnMut(&mut Process) -> Option<R>) -> R {
    let mut wait = Wait::default();
    loop {
        if let Some(result) = check(&mut process) {
            wait.conclude(&mut process);
            process.signal();
            return result;
        }
        process.progress();
        if process.has_due_reductions() {
            process = run_due_reductions(process);
            continue;
        }
        if let Some(result) = check(&mut process) {
            wait.conclude(&mut process);
            process.signal();
            return result;
        }
        process.notify();
        process = if process.asleep {
            park(process)
        } else if wait.spins_on(&mut process) {
            give_way(process)
        } else {
            wait = Wait::after_sleep();
            sleep(process)
        };
    }
}

/// Lets threads that want the lock have it.
#[inline]
fn give_way(process: Guard) -> Guard {
    std::hint::spin_loop();
    if !is_contended() {
        return process;
    }
    drop(process);
    for _ in 0..YIELDS_MAX {
        std::thread::yield_now();
        if !is_contended() {
            break;
        }
    }
    lock()
}

/// Another thread sleeps on behalf of all: wait for what it, or anybody, brings about.
fn park(mut process: Guard) -> Guard {
    process.parked += 1;
    process = CHANGED.wait(process).unwrap_or_else(std::sync::PoisonError::into_inner);
    process.parked -= 1;
    process
}

/// Sleeps in the kernel until there is something to do.
fn sleep(mut process: Guard) -> Guard {
    let Some(engine) = &mut process.engine else { return process };
    let Some(plan) = engine.prepare_sleep() else { return process };
    process.publish(true);
    let timeout = plan.timeout.map(Duration);
    let alarm = process.alarm.as_ref().map(|(receiver, _)| receiver.as_raw_fd());
    process.asleep = true;
    drop(process);
    match plan.rest {
        Rest::Neighbours(sleeper) => sleeper.sleep(timeout),
        Rest::Descriptors { doorbell, network: [a, b, c, d, e] } => {
            // ppoll(2) passes over negative descriptors.
            let fds = [doorbell, alarm, a, b, c, d, e].map(|fd| (fd.unwrap_or(-1), Interest::Read));
            // Whatever ends the sleep, the next thing to do is to look around.
            let _ = wait::wait(&fds, timeout);
        }
    }
    let mut process = lock();
    process.asleep = false;
    if let Some((receiver, _)) = &mut process.alarm {
        // Level-triggered and non-blocking: whatever was written has done its work by now.
        let _ = receiver.read(&mut [0; 64]);
    }
    if let Some(engine) = &mut process.engine {
        engine.finish_sleep();
    }
    process.note_awake();
    if process.parked > 0 {
        CHANGED.notify_all();
    }
    process
}

fn lock_for_helper() -> std::result::Result<Guard, Duration> {
    match PROCESS.try_lock() {
        Ok(guard) => Ok(guard),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        // Who waits inside sees to everything.
        Err(std::sync::TryLockError::WouldBlock) if WAITS.load(Ordering::Relaxed) => Err(helper::REPAIR_AFTER),
        Err(std::sync::TryLockError::WouldBlock) => Err(helper::CALLS_PAUSE),
    }
}

/// What the helper does when the kernel has woken it. The program is calling MPI just now: when to try again.
pub(crate) fn help() -> std::result::Result<(), Duration> {
    let mut process = lock_for_helper()?;
    if process.waiting == 0 && process.helper.as_mut().is_some_and(|helper| helper.calls_go_on()) {
        drop(process);
        // A program that starts one operation after the other calls again by then.
        let began = clock::now();
        while clock::now().since(began) < helper::CALLS_APART {
            std::hint::spin_loop();
        }
        process = lock_for_helper()?;
    }
    let Process { helper: Some(helper), engine: Some(engine), waiting, .. } = &mut *process else { return Ok(()) };
    if *waiting == 0 && helper.defers(engine) {
        return Ok(());
    }
    HELPS.store(true, Ordering::Relaxed);
    helper.awoke(engine, *waiting == 0);
    if *waiting == 0 {
        engine.finish_sleep();
        process.note_awake();
        for _ in 0..helper::PASSES {
            process.progress();
            if is_contended() {
                break;
            }
        }
        process.publish(false);
    }
    // Who comes now hands over again as it leaves: it need not wait until everything is armed.
    let left = if is_contended() { Err(helper::REPAIR_AFTER) } else { Ok(()) };
    if left.is_ok() {
        process.signal();
    } else {
        process.notify();
    }
    HELPS.store(false, Ordering::Relaxed);
    left
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
            errors: crate::error_codes::ErrorCodes::new(),
            collectives: Slab::new(Kind::Collective),
            collectives_seen: 0,
            contexts: crate::context::Contexts::new(),
            job: None,
            engine: None,
            live: None,
            spin: Spin::new(SPIN_NODE),
            parting: Parting::new(),
            processors: 1,
            helps: false,
            helps_always: false,
            helper: None,
            waiting: 0,
            asleep: false,
            parked: 0,
            signalled: 0,
            alarm: None,
        }
    }

    /// The engine is there: communication is possible. `load` is what its processors bear, `neighbours` how many
    /// processes of the job are on this node.
    ///
    /// # Errors
    /// When the process has not enough file descriptors.
    pub fn attach_engine(
        &mut self,
        engine: Engine,
        load: Load,
        neighbours: usize,
        live: Option<Live>,
    ) -> std::io::Result<()> {
        let (receiver, sender) = UnixStream::pair()?;
        receiver.set_nonblocking(true)?;
        sender.set_nonblocking(true)?;
        self.alarm = Some((receiver, sender));
        self.spin = Spin::new(if engine.has_network() { SPIN_NETWORK } else { SPIN_NODE });
        self.processors = load.processors;
        if load.ranks > neighbours && load.is_crowded() {
            // Other jobs were here first: spinning must show that it pays before it is trusted.
            self.spin.missed(true);
        }
        self.engine = Some(Box::new(engine));
        self.live = live;
        self.publish(false);
        Ok(())
    }

    /// Communication is over.
    pub fn detach_engine(&mut self) {
        self.engine = None;
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
        self.engine.as_ref().map_or(PeerId::new(0, 0), |engine| engine.peers.own())
    }

    /// Whether the processes of `group` take turns on the processors of this node; the same at all of them.
    pub fn take_turns(&self, group: &Group) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.take_turns(&group.members))
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
    }

    /// Tells those who look from outside how this process stands.
    #[cold]
    fn publish(&mut self, asleep: bool) {
        if let (Some(live), Some(engine)) = (&mut self.live, &self.engine) {
            live.publish(engine, asleep);
        }
    }

    /// Tells them that it is awake again.
    fn note_awake(&self) {
        self.live.iter().for_each(Live::awake);
    }

    /// Something has happened that is no completion of an operation, but that somebody waits for.
    pub fn announce(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.messages.completions += 1;
        }
    }

    /// A call waits: it will see to what arrives, and neighbours and the helper may know.
    fn enter_wait(&mut self) {
        self.waiting += 1;
        WAITS.store(true, Ordering::Relaxed);
        let Some(engine) = &mut self.engine else { return };
        engine.set_attentive(true);
        if let Some(helper) = &mut self.helper
            && helper.is_armed()
        {
            helper.take_back(engine);
        }
    }

    /// The call that begins will wait for messages of `bytes` bytes: neighbours may know that before it has looked in vain.
    #[inline]
    pub fn expect_wait(&mut self, bytes: u64) {
        if bytes >= SINGLE_COPY_BYTES_MIN
            && let Some(engine) = &mut self.engine
        {
            engine.set_attentive(true);
        }
    }

    /// It has ended, unless another thread waits.
    #[inline]
    fn end_wait(&mut self) {
        if self.waiting == 0
            && let Some(engine) = &mut self.engine
        {
            engine.set_attentive(false);
        }
    }

    /// Whether what it waits for may have come nearer since this was last asked.
    fn has_advanced(&mut self) -> bool {
        self.engine.as_mut().is_some_and(|engine| engine.take_advance())
    }

    /// Whether what it waits for is being copied by a neighbour.
    fn is_served(&mut self) -> bool {
        self.engine.as_mut().is_some_and(|engine| engine.is_served())
    }

    /// It waits no more.
    fn leave_wait(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
        WAITS.store(self.waiting > 0, Ordering::Relaxed);
        self.end_wait();
    }

    /// A call leaves MPI: wakes whom it concerns, and hands what is outstanding over to the helper.
    #[inline(always)]
    pub fn signal(&mut self) {
        self.notify();
        if self.helps_always || (self.helps && !self.collectives.is_empty()) {
            self.hand_over_outstanding();
        }
    }

    fn hand_over_outstanding(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let requests = engine.messages.are_under_way();
        let neighbours = !self.collectives.is_empty() || (requests && engine.node_needs_help());
        let networked = engine.has_network() && (requests || engine.has_deadlines());
        if self.waiting > 0 || !(networked || neighbours) {
            return;
        }
        if self.helper.is_none() {
            match Helper::start(engine, None) {
                Ok(helper) => self.helper = Some(helper),
                Err(error) => return self.do_without_helper(&error),
            }
        }
        if let Some(helper) = &mut self.helper {
            if !HELPS.load(Ordering::Relaxed) {
                helper.note_processor();
            }
            helper.hand_over(engine, Outstanding { requests, neighbours });
        }
    }

    fn do_without_helper(&mut self, error: &std::io::Error) {
        (self.helps, self.helps_always) = (false, false);
        let rank = self.job.as_ref().map_or(0, |job| job.rank);
        if let Some(engine) = &mut self.engine {
            engine.attend(false);
        }
        eprintln!("weft: rank {rank}: nothing moves while the program computes: no progress thread: {error}");
    }

    /// A thread answers those who ask whether this process lives, also while the program computes.
    pub fn give_signs_of_life(&mut self, period: Duration) {
        let Some(engine) = &self.engine else { return };
        match Helper::start(engine, Some(period)) {
            Ok(helper) => self.helper = Some(helper),
            Err(error) => self.do_without_helper(&error),
        }
    }

    /// From now on calls that leave MPI hand over to a thread what is outstanding.
    pub fn allow_helper(&mut self) {
        self.helps = true;
        if let Some(engine) = &mut self.engine {
            self.helps_always = engine.has_network() || engine.node_needs_help();
            engine.attend(true);
        }
    }

    /// No more: the thread, if there is one, ends. It must be joined while the lock is free.
    pub fn dismiss_helper(&mut self) -> Option<std::thread::JoinHandle<()>> {
        (self.helps, self.helps_always) = (false, false);
        if let Some(engine) = &mut self.engine {
            engine.attend(false);
        }
        self.helper.take()?.end()
    }

    /// Wakes sleeping threads of this process when something has happened that they may wait for.
    #[inline(always)]
    fn notify(&mut self) {
        if self.asleep || self.parked > 0 {
            self.signal_sleepers();
        }
    }

    #[cold]
    fn signal_sleepers(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let completions = engine.messages.completions;
        let news = completions != self.signalled;
        self.signalled = completions;
        if self.asleep
            && (news || engine.has_deadlines())
            && !engine.nudge()
            && let Some((_, sender)) = &mut self.alarm
        {
            // A full pipe means that the sleeper has been woken already.
            let _ = sender.write(&[1]);
        }
        if news && self.parked > 0 {
            CHANGED.notify_all();
        }
    }
}
