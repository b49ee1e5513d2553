//! Calls that wait: carries out the decisions of `weft_engine::waiting`.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use weft_core::time::Duration;
use weft_engine::waiting::{Fact, Next, Wait};
use weft_net::clock;
use weft_net::wait::{self, Interest};

use super::{Guard, Process, WAITS, lock, run_due_reductions, tell_events, with};
use crate::awaited::Awaited;
use crate::constants::{MPI_ERR_OTHER, MPI_THREAD_MULTIPLE};
use crate::contention::is_contended;
use crate::engine::protocols::UNASKED_BYTES_MAX;
use crate::engine::{CARRIERS_MAX, SleepOn};
use crate::error::{Error, Result};

/// The most times that a spinning waiter yields to threads that want the lock before it takes the lock again.
const YIELDS_MAX: u32 = 64;

/// Waits until `check` has a result, making progress meanwhile.
#[inline]
pub fn block_until<R>(check: impl FnMut(&mut Process) -> Option<R>) -> R {
    block_from(lock(), check)
}

/// Runs `work`, which waits for the system or the launcher, in a thread of its own, while this one makes
/// progress. `name` is that of the thread.
///
/// # Errors
/// The system has no thread more: then `work` is dropped.
pub(crate) fn block_beside<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    // Not a channel: what a channel can do beyond this takes 10 KB of the library.
    let place = Arc::new(Mutex::new(None));
    let report = Arc::clone(&place);
    // Not a scoped thread: those leave memory behind that belongs to the thread that calls them.
    // Boxed, so that what starts a thread is there once.
    let body: Box<dyn FnOnce() + Send> = Box::new(move || {
        let found = work();
        *report.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        with(Process::announce);
    });
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
    let thread =
        thread.map_err(|error| Error::new(MPI_ERR_OTHER, format!("cannot start the thread {name}: {error}")))?;
    let result = block_until(|_| place.lock().unwrap_or_else(PoisonError::into_inner).take());
    // The thread can only have panicked, which has been reported; it has done its work.
    let _ = thread.join();
    Ok(result)
}

/// The longest sleep of a call that waits for something from outside of MPI, before it asks whether that may
/// still come.
const ASKS_EVERY: Duration = Duration::from_millis(100);

/// A thing that comes from outside of MPI, such as a connection, and that a call waits for.
pub(crate) trait Outside {
    /// What has come, or the reason why it does not come any more.
    type Found;

    /// Looks whether it is there, without waiting.
    fn look(&mut self) -> Option<Self::Found>;

    /// Asks now and then whether it may still come.
    fn ask(&mut self, process: &mut Process) -> Option<Self::Found>;

    /// The sockets on which it comes, at most [`OUTSIDE_MAX`].
    fn sockets(&self) -> Vec<Watched>;
}

/// A descriptor, and the event to wait for on it.
type Watched = (std::os::fd::RawFd, Interest);

/// The most sockets on which something comes from outside.
const OUTSIDE_MAX: usize = weft_net::port::SOCKETS_MAX;
/// The doorbell, the alarm, and the network.
const INSIDE: usize = 2 + CARRIERS_MAX;
const _: () = assert!(OUTSIDE_MAX + INSIDE <= wait::FDS_MAX);

/// Waits for something from outside, making progress meanwhile.
pub(crate) fn block_outside<O: Outside>(outside: &mut O) -> O::Found {
    let mut process = lock();
    let (mut wait, mut asked) = (Wait::default(), None);
    loop {
        process.progress();
        if process.has_due_reductions() {
            process = aside(process, &wait, run_due_reductions);
            continue;
        }
        let mut found = outside.look();
        if found.is_none() && !wait.is_brief() {
            let now = clock::now();
            if asked.is_none_or(|asked| now.since(asked) >= ASKS_EVERY) {
                found = asked.replace(now).and_then(|_| outside.ask(&mut process));
            }
        }
        if let Some(found) = found {
            process.conclude(&wait);
            return found;
        }
        let sleeps = process.notify() && process.waiters.sleeps();
        process = match wait.pass_in_vain(sleeps) {
            Next::Pass => give_way(process),
            next => pause_outside(process, &mut wait, next, &outside.sockets()),
        };
    }
}

/// Does what comes `next` for a call that waits for something from outside. It does not park: what it waits
/// for wakes no thread that sleeps for others.
fn pause_outside(process: Guard, wait: &mut Wait, next: Next, sockets: &[Watched]) -> Guard {
    let (process, next) = carry_out(process, wait, next);
    match next {
        Next::Park => {
            drop(process);
            // The next step is always to look around, whatever ends the sleep.
            let _ = wait::wait(sockets, Some(ASKS_EVERY));
            lock()
        }
        Next::Sleep if process.has_events() => tell_listeners(process, wait),
        Next::Sleep => sleep(process, sockets),
        _ => give_way(process),
    }
}

/// Waits until `check` has a result. The caller holds the lock already.
#[inline]
pub fn block_from<R>(process: Guard, check: impl FnMut(&mut Process) -> Option<R>) -> R {
    block_for(process, &|| Awaited::Unknown, check)
}

/// Waits until `check` has a result, for a call that can say what it waits for. `awaited` is asked before
/// each sleep, and others may see its answer then.
pub fn block_for<R>(
    mut process: Guard,
    awaited: &dyn Fn() -> Awaited,
    mut check: impl FnMut(&mut Process) -> Option<R>,
) -> R {
    let mut wait = Wait::default();
    process.note_wait();
    loop {
        if let Some(result) = check(&mut process) {
            process.conclude(&wait);
            return result;
        }
        process.progress();
        if process.has_due_reductions() {
            process = aside(process, &wait, run_due_reductions);
            continue;
        }
        if let Some(result) = check(&mut process) {
            process.conclude(&wait);
            return result;
        }
        let sleeps = process.notify() && process.waiters.sleeps();
        process = match wait.pass_in_vain(sleeps) {
            Next::Pass => give_way(process),
            next => go_on(process, &mut wait, next, awaited),
        };
    }
}

/// Does what comes `next`, up to the next pass. Most waits come here once, and no wait comes here often. This
/// is one of three small functions, so that the loop above has the processor's registers to itself.
#[inline(never)]
fn go_on(mut process: Guard, wait: &mut Wait, next: Next, awaited: &dyn Fn() -> Awaited) -> Guard {
    let next = match next {
        Next::Enter | Next::Assess => process.begin_to_spin(wait, next),
        next => next,
    };
    if next == Next::Pass { give_way(process) } else { pause(process, wait, next, awaited) }
}

/// Does what comes `next` where the call must look, yield, sleep or park.
#[inline(never)]
fn pause(process: Guard, wait: &mut Wait, next: Next, awaited: &dyn Fn() -> Awaited) -> Guard {
    let (mut process, next) = carry_out(process, wait, next);
    match next {
        Next::Park => {
            if wait.enters() {
                process.enter_wait();
            }
            park(process, awaited())
        }
        Next::Sleep if process.has_events() => tell_listeners(process, wait),
        Next::Sleep => {
            process.awaited = process.without_labels(awaited());
            process = sleep(process, &[]);
            process.awaited = Awaited::Unknown;
            process
        }
        _ => give_way(process),
    }
}

/// Carries out what comes `next`, and gives the processor away as long as that is what comes then.
#[inline]
fn carry_out(mut process: Guard, wait: &mut Wait, next: Next) -> (Guard, Next) {
    let mut next = process.carry_out(wait, next);
    while let Next::Yield { rebalance } = next {
        (process, next) = yield_processor(process, wait, rebalance);
        next = process.carry_out(wait, next);
    }
    (process, next)
}

/// Tells listeners of events, before a call sleeps.
fn tell_listeners(process: Guard, wait: &Wait) -> Guard {
    aside(process, wait, |process| {
        drop(process);
        tell_events();
        lock()
    })
}

/// Lets other threads that want the lock have it.
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

/// Notes on which processor this thread waits, and yields the processor. Returns what comes next.
fn yield_processor(mut process: Guard, wait: &mut Wait, rebalance: bool) -> (Guard, Next) {
    if let Some(engine) = &process.engine {
        engine.note_processor();
        // The engine sees only ranks of this node. Where ranks of other nodes use the same processors, the
        // kernel spreads all of them.
        if rebalance && process.elsewhere == 0 {
            engine.rebalance();
        }
    }
    if process.thread_level != MPI_THREAD_MULTIPLE {
        std::thread::yield_now();
        let next = process.end_yield(wait);
        return (process, next);
    }
    // The next thread on this processor may be one of this process. It would otherwise wait for the lock, and
    // so for the next turn of this thread.
    let seen = process.completions();
    drop(process);
    std::thread::yield_now();
    process = lock();
    let next = process.end_yield(wait);
    // An operation of this call may have completed meanwhile, and this thread, being awake, was not told.
    let is_stale = process.completions() != seen || process.waiters.sleeps();
    let next = if next == Next::Sleep && is_stale { Next::Pass } else { next };
    (process, next)
}

/// Runs a function that may take long, with the lock released, while the call waits. A parked thread makes
/// progress meanwhile.
#[cold]
fn aside(mut process: Guard, wait: &Wait, run: impl FnOnce(Guard) -> Guard) -> Guard {
    if wait.is_brief() || !process.waiters.has_parked() {
        return run(process);
    }
    process.waiters.leave();
    process.notify();
    process = run(process);
    // Perhaps no thread waited in between, and the progress thread has the outstanding operations.
    process.enter_wait();
    process
}

/// Parks this thread while another thread sleeps for all: until `awaited` is complete, or no other thread
/// makes progress.
fn park(mut process: Guard, awaited: Awaited) -> Guard {
    let place = process.park(awaited);
    drop(process);
    place.wait();
    let mut process = lock();
    process.parked.give_back(place);
    process
}

/// Sleeps in the kernel until there is something to do, or something comes from outside: on these `sockets`.
fn sleep(mut process: Guard, sockets: &[Watched]) -> Guard {
    let mut soon = None;
    if process.heed_finalizing(&mut soon) {
        return process;
    }
    let Some(engine) = &mut process.engine else { return process };
    let plan = if sockets.is_empty() { engine.prepare_sleep() } else { engine.prepare_sleep_on_descriptors() };
    let Some(plan) = plan else { return process };
    if !sockets.is_empty() {
        soon = Some(soon.map_or(ASKS_EVERY, |soon| soon.min(ASKS_EVERY)));
    }
    process.publish(true);
    let timeout = plan.timeout.map(Duration).into_iter().chain(soon).min();
    let alarm = process.alarm.as_ref().map(|(receiver, _)| receiver.as_raw_fd());
    process.waiters.fall_asleep(timeout.map(|timeout| clock::now() + timeout));
    drop(process);
    match plan.rest {
        SleepOn::Neighbours(sleeper) => sleeper.sleep(timeout),
        SleepOn::Descriptors { doorbell, network } => {
            // ppoll(2) passes over negative descriptors.
            let mut fds = [(-1, Interest::Read); INSIDE + OUTSIDE_MAX];
            for (to, fd) in fds.iter_mut().zip([doorbell, alarm].into_iter().chain(network)) {
                to.0 = fd.unwrap_or(-1);
            }
            fds[INSIDE..].iter_mut().zip(sockets).for_each(|(to, socket)| *to = *socket);
            // The next step is always to look around, whatever ends the sleep.
            let _ = wait::wait(&fds[..INSIDE + sockets.len()], timeout);
        }
    }
    let mut process = lock();
    process.waiters.wake_up();
    if let Some((receiver, _)) = &mut process.alarm {
        // The pipe is level-triggered and non-blocking: the bytes in it have done their work.
        let _ = receiver.read(&mut [0; 64]);
    }
    if let Some(engine) = &mut process.engine {
        engine.finish_sleep();
    }
    process.note_awake();
    // Some threads do not say what they wait for. The event that ended the sleep may concern them.
    process.wake_vague();
    process
}

impl Process {
    /// Carries out the decision of `wait`. Returns what comes next: the next pass, a yield, the sleep, or a
    /// park.
    #[inline]
    fn carry_out(&mut self, wait: &mut Wait, mut next: Next) -> Next {
        loop {
            next = match next {
                Next::Pass | Next::Park | Next::Sleep | Next::Yield { .. } => return next,
                Next::Migrate => {
                    self.engine.iter().for_each(|engine| _ = engine.migrate());
                    return Next::Pass;
                }
                Next::Enter | Next::Assess => self.begin_to_spin(wait, next),
                Next::AskServed => wait.next(Fact::Served(self.is_served()), &mut self.learned),
                Next::Look => {
                    let now = clock::now();
                    let advanced = self.has_advanced();
                    let oversubscribed = !self.has_processors();
                    wait.next(Fact::Looked { now, advanced, oversubscribed }, &mut self.learned)
                }
                Next::AskShared => {
                    let shared = self.engine.as_ref().is_some_and(|engine| engine.shares_processor());
                    wait.next(Fact::Shared(shared), &mut self.learned)
                }
            };
        }
    }

    /// Notes that the program has come to a call that may wait.
    #[inline]
    fn note_wait(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.note_wait();
        }
        if let Some(thread) = &mut self.progress_thread {
            thread.note_wait();
        }
    }

    /// Notes that a yield is over. Returns what comes next.
    fn end_yield(&mut self, wait: &mut Wait) -> Next {
        let now = clock::now();
        if let Some(engine) = &mut self.engine {
            engine.note_away(wait.away(now));
        }
        wait.next(Fact::Yielded(now), &mut self.learned)
    }

    /// Counts a look of the program in vain. Returns whether the call yields its processor as it leaves; it
    /// always does where others are known to want it (`wanted`).
    pub(super) fn look_in_vain(&mut self, wanted: bool) -> bool {
        let yields = self.looks.in_vain(wanted, self.learned.passes_per_look());
        // Without a progress thread nobody else looks at the network while the program computes.
        if (yields || self.progress_thread.is_none())
            && let Some(engine) = &mut self.engine
            && engine.has_network()
            && let Some(away) = self.looks.away(clock::now())
        {
            engine.note_away(away);
        }
        yields
    }

    /// The number of operations that have completed so far.
    fn completions(&self) -> u64 {
        self.engine.as_ref().map_or(0, |engine| engine.messages.completions())
    }

    /// Begins to spin after the free passes were in vain: [`Next::Enter`] or [`Next::Assess`].
    #[inline]
    fn begin_to_spin(&mut self, wait: &mut Wait, next: Next) -> Next {
        if next == Next::Enter {
            self.enter_wait();
        }
        // Progress before the spin does not count for the spin.
        self.has_advanced();
        let oversubscribed = !self.has_processors();
        wait.next(Fact::Assessed { oversubscribed }, &mut self.learned)
    }

    /// Ends the wait, and the call leaves MPI. There are many places that wait, so this is there once.
    #[inline(never)]
    fn conclude(&mut self, wait: &Wait) {
        if !wait.is_brief() {
            self.leave_wait(wait);
        }
        self.end_wait();
        self.signal();
    }

    /// Takes back the sign that this call waits.
    #[inline(never)]
    fn leave_wait(&mut self, wait: &Wait) {
        wait.conclude(&mut self.learned);
        self.finalizing.end_wait();
        self.waiters.leave();
        WAITS.store(self.waiters.any(), Ordering::Relaxed);
    }

    /// Gives the sign that a call waits and will make progress, to neighbours and to the progress thread.
    fn enter_wait(&mut self) {
        self.waiters.enter();
        WAITS.store(true, Ordering::Relaxed);
        let Some(engine) = &mut self.engine else { return };
        engine.set_inside_mpi(true);
        if let Some(thread) = &mut self.progress_thread
            && thread.is_armed()
        {
            thread.take_back(engine);
        }
    }

    /// Tells neighbours that the call which begins will wait for messages of `bytes` bytes, before it has
    /// looked in vain.
    #[inline]
    pub fn expect_wait(&mut self, bytes: u64) {
        if bytes > UNASKED_BYTES_MAX
            && let Some(engine) = &mut self.engine
            && engine.is_large(bytes)
        {
            engine.set_inside_mpi(true);
        }
    }

    /// Tells neighbours that they must not count on this process any more, unless another thread waits.
    #[inline]
    fn end_wait(&mut self) {
        if !self.waiters.any()
            && let Some(engine) = &mut self.engine
        {
            engine.set_inside_mpi(false);
        }
    }

    /// Returns whether the awaited operation may have come nearer since the last question.
    fn has_advanced(&mut self) -> bool {
        self.engine.as_mut().is_some_and(|engine| engine.take_advance())
    }

    /// Returns whether a neighbour is copying the data of the awaited operation.
    fn is_served(&mut self) -> bool {
        self.engine.as_mut().is_some_and(|engine| engine.is_served())
    }

    /// Returns whether there is a processor for every rank of the node that is awake. The answer is no where
    /// there are fewer processors than ranks: a rank that sleeps wants its processor as soon as it is woken,
    /// and would have to wait for the end of a spin.
    #[inline]
    fn has_processors(&self) -> bool {
        !self.is_oversubscribed() && self.engine.as_ref().is_none_or(|engine| engine.awake() <= self.processors)
    }

    /// Returns whether a pass in vain is worth more than a sleep, as far as is known.
    #[inline]
    pub(crate) fn may_spin(&self) -> bool {
        self.has_processors() && self.learned.may_spin()
    }

    /// Takes the process manager's word that the process with this rank is dead, for this `reason`.
    pub(crate) fn hear_of_death(&mut self, rank: u32, reason: &str) {
        let peer = self.job.as_ref().and_then(|job| job.members.get(rank as usize).copied());
        let (Some(peer), Some(engine)) = (peer, &mut self.engine) else { return };
        engine.hear_of_death(peer, &format!("{reason}, says the launcher"));
        self.progress();
    }

    /// Wakes sleeping threads of this process when an event has happened that they may wait for. Returns
    /// whether there are any.
    #[inline(always)]
    pub(super) fn notify(&mut self) -> bool {
        let others = self.waiters.may_want_news();
        if others {
            self.signal_sleepers();
        }
        others
    }

    #[cold]
    fn signal_sleepers(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let due = || engine.due().map(|span| clock::now() + Duration(span));
        let news = self.waiters.news(engine.messages.completions(), due);
        // Work that is left for the next pass concerns the sleeping thread as well, since this thread may
        // leave.
        let has_work = engine.has_work();
        if self.waiters.sleeps() && (has_work || news.sooner || (news.completed && self.concerns_sleeper())) {
            self.wake_sleeper();
        }
        if news.completed {
            self.wake_concerned();
        }
        if self.waiters.lacks_driver() {
            self.wake_driver();
        }
    }

    fn wake_sleeper(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        if !engine.nudge()
            && let Some((_, sender)) = &mut self.alarm
        {
            // A full pipe means that the sleeper has been woken already.
            let _ = sender.write(&[1]);
        }
    }
}
