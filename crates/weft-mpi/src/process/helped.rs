//! Hands the operations that are outstanding as a call leaves MPI over to the progress thread, and runs the
//! progress thread when it is awake.

use std::sync::atomic::Ordering;

use weft_core::time::Duration;
use weft_engine::carriers::Attendance;
use weft_engine::waiting::{CALLS_APART, Leaving, Left, Outstanding, Pulse, State, Woken, after_passes, when_busy};
use weft_net::clock;

use super::{Guard, PROCESS, Process, THREAD_HAS_LOCK, WAITS, lock};
use crate::contention::is_contended;
use crate::progress_thread::ProgressThread;

/// The operations for which the progress thread is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Helped {
    /// No operation.
    Nothing,
    /// Collectives: all other operations of this process go on by themselves.
    Collectives,
    /// Every outstanding operation.
    Everything,
}

/// Takes the lock, or returns the time after which to look again.
fn try_lock() -> std::result::Result<Guard, Duration> {
    PROCESS.try_lock().ok_or_else(|| when_busy(WAITS.load(Ordering::Relaxed)))
}

/// Makes progress when the kernel has woken the progress thread. Returns the time after which the thread
/// looks again, if the armed wake-ups are not enough.
fn progress_from_thread() -> Option<Duration> {
    try_progress().err()
}

fn try_progress() -> std::result::Result<(), Duration> {
    let mut process = try_lock()?;
    let mut woken = process.woken(false);
    if woken == Some(Woken::LookAgain) {
        drop(process);
        // A program that starts one operation after the other calls again within this time.
        let began = clock::now();
        while clock::now().since(began) < CALLS_APART {
            std::hint::spin_loop();
        }
        process = try_lock()?;
        woken = process.woken(true);
    }
    let Some(Woken::Act { disarm_doorbell, passes }) = woken else { return Ok(()) };
    THREAD_HAS_LOCK.store(true, Ordering::Relaxed);
    process.act(disarm_doorbell, passes);
    // A thread that wants the lock now hands over again as it leaves, so it need not wait until everything is
    // armed.
    let left = match after_passes(is_contended()) {
        Left::HandOver => {
            process.signal();
            Ok(())
        }
        Left::Pause(span) => {
            process.notify();
            Err(span)
        }
    };
    THREAD_HAS_LOCK.store(false, Ordering::Relaxed);
    left
}

/// Runs `operation` under the lock in another thread of the library, whose processor is not the program's,
/// and wakes the threads that wait for its result.
pub(crate) fn with_in_thread(operation: impl FnOnce(&mut Process)) {
    let mut process = lock();
    THREAD_HAS_LOCK.store(true, Ordering::Relaxed);
    operation(&mut process);
    process.signal();
    THREAD_HAS_LOCK.store(false, Ordering::Relaxed);
}

/// Notes when a call of the program leaves MPI, but not when a thread of the library leaves.
#[inline(always)]
fn note_leave(thread: &mut ProgressThread, expects: bool) {
    if !THREAD_HAS_LOCK.load(Ordering::Relaxed) {
        thread.note_leave(expects);
    }
}

impl Process {
    /// Decides what the progress thread does now, see [`ProgressThread::woken`]. `None` when nothing is left
    /// for it.
    fn woken(&mut self, looked: bool) -> Option<Woken> {
        let thread = self.progress_thread.as_mut()?;
        Some(thread.woken(self.engine.as_ref()?, self.waiters.any(), looked))
    }

    /// Lets the progress thread make at most so many passes of the progress loop.
    fn act(&mut self, disarm_doorbell: bool, passes: u32) {
        let Self { progress_thread: Some(thread), engine: Some(engine), waiters, .. } = self else { return };
        thread.act(engine, waiters.any(), disarm_doorbell);
        if passes == 0 {
            return;
        }
        engine.finish_sleep();
        self.note_awake();
        for _ in 0..passes {
            self.progress();
            if is_contended() {
                break;
            }
        }
        while self.owes_copies() && !is_contended() {
            self.progress();
        }
        self.publish(false);
    }

    /// Ends a call: wakes the threads that its result concerns, and hands outstanding operations over to the
    /// progress thread.
    #[inline(always)]
    pub fn signal(&mut self) {
        self.notify();
        if self.helped == Helped::Everything || (self.helped == Helped::Collectives && self.serves_others()) {
            self.hand_over_outstanding();
        } else if self.engine.as_ref().is_some_and(|engine| engine.needs_passes()) {
            self.hand_over_copies();
        }
    }

    /// Returns whether messages of neighbours are left for this process to fetch.
    #[inline(always)]
    fn owes_copies(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.owes_copies())
    }

    /// Leaves messages of neighbours to the progress thread, of those that only passes of this process move
    /// on. Without a thread this call fetches what is to be fetched.
    #[cold]
    fn hand_over_copies(&mut self) {
        if self.helped != Helped::Nothing {
            return self.hand_over_outstanding();
        }
        if let Some(engine) = &mut self.engine {
            engine.settle_copies();
        }
    }

    /// Returns whether other processes may need this one: for a collective under way, or for a window in
    /// which they may access its memory.
    #[inline]
    fn serves_others(&self) -> bool {
        (!self.collectives.is_empty() && self.collective_needs_help())
            || !self.exchanges.is_empty()
            || self.has_windows()
    }

    #[inline(never)]
    fn collective_needs_help(&self) -> bool {
        self.collectives.iter().any(|(_, running)| running.cursor.needs_help())
    }

    #[inline]
    fn has_windows(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.windows.len() > self.windows_elsewhere)
    }

    fn hand_over_outstanding(&mut self) {
        let Some(engine) = &self.engine else { return };
        if self.waiters.any() {
            return;
        }
        let neighbours = self.serves_others() || engine.node_needs_help();
        let most = Outstanding::most(neighbours, engine.needs_rings(), engine.owes_copies());
        if let Some(thread) = &mut self.progress_thread
            && !thread.trusts()
            && thread.covers(engine, &most)
        {
            return note_leave(thread, true);
        }
        self.hand_over_exactly();
    }

    #[inline(never)]
    fn hand_over_exactly(&mut self) {
        let (collectives, has_windows) = (self.serves_others(), self.has_windows());
        let is_crowded = self.is_oversubscribed();
        let Some(engine) = &mut self.engine else { return };
        let state = State {
            requests: engine.messages.are_under_way() || has_windows,
            remote: engine.messages.need_network() || has_windows,
            collectives,
            has_network: engine.has_network(),
            node_needs_help: engine.node_needs_help(),
            needs_rings: engine.needs_rings(),
            is_crowded,
            owes_copies: engine.owes_copies(),
        };
        let outstanding = Outstanding::of(&state, || engine.has_deadlines());
        let Some(thread) = &mut self.progress_thread else {
            return outstanding.into_iter().for_each(|outstanding| self.start_progress_thread(outstanding));
        };
        note_leave(thread, state.remote || engine.coalescing_time().is_some());
        let Some(outstanding) = outstanding else { return };
        if !thread.covers(engine, &outstanding) {
            // Processes of the node that sleep inside MPI leave their processors to others.
            let takes_turns = state.has_network && is_crowded && engine.awake() + self.elsewhere > self.processors;
            let coalescing = engine.coalescing_time().is_some();
            thread.arm(engine, outstanding, Leaving { coalescing, takes_turns, has_windows });
        }
    }

    /// Starts the thread, when an operation is outstanding for the first time.
    #[cold]
    fn start_progress_thread(&mut self, outstanding: Outstanding) {
        self.start_thread(None);
        let (Some(engine), Some(thread)) = (&mut self.engine, &mut self.progress_thread) else { return };
        thread.note_leave(outstanding.requests);
        let coalescing = engine.coalescing_time().is_some();
        thread.arm(engine, outstanding, Leaving { coalescing, ..Leaving::default() });
    }

    #[inline(never)]
    fn start_thread(&mut self, pulse: Option<Pulse>) {
        let Some(engine) = &mut self.engine else { return };
        match ProgressThread::start(engine, pulse, progress_from_thread) {
            Ok(thread) => self.progress_thread = Some(thread),
            Err(error) => self.do_without_progress_thread(&error),
        }
    }

    /// Starts the thread if there is none, when the program has posted a receive and goes on. Messages of
    /// neighbours need no thread, unless they stand still while the program computes: then the neighbour
    /// wakes the thread.
    #[cold]
    pub(crate) fn start_thread_for_neighbours(&mut self) {
        if self.engine.as_ref().is_some_and(|engine| engine.messages.are_under_way()) {
            self.lacks_thread = false;
            if self.progress_thread.is_none() {
                self.start_thread(None);
            }
        }
    }

    #[inline(never)]
    fn do_without_progress_thread(&mut self, error: &std::io::Error) {
        (self.helped, self.lacks_thread) = (Helped::Nothing, false);
        let rank = self.job.as_ref().map_or(0, |job| job.rank);
        if let Some(engine) = &mut self.engine {
            engine.attend(Attendance::None);
        }
        weft_launch::say(&format!(
            "weft: rank {rank}: nothing moves while the program computes: no progress thread: {error}"
        ));
    }

    /// Starts a thread that answers peers who ask whether this process lives, also while the program
    /// computes.
    pub fn give_signs_of_life(&mut self, period: Duration) {
        self.start_thread(Some(Pulse::new(period)));
    }

    /// Lets calls that leave MPI hand outstanding operations over to a thread from now on.
    pub fn allow_progress_thread(&mut self) {
        self.helped = Helped::Collectives;
        let takes_turns = self.is_oversubscribed();
        if let Some(engine) = &mut self.engine {
            self.lacks_thread = self.has_neighbours;
            if engine.has_network() || engine.node_needs_help() {
                self.helped = Helped::Everything;
            }
            engine.attend(if takes_turns { Attendance::Late } else { Attendance::Prompt });
        }
    }

    /// Ends the thread, if there is one. The caller must join it while the lock is free.
    pub fn dismiss_progress_thread(&mut self) -> Option<std::thread::JoinHandle<()>> {
        (self.helped, self.lacks_thread) = (Helped::Nothing, false);
        if let Some(engine) = &mut self.engine {
            engine.attend(Attendance::None);
        }
        self.progress_thread.take()?.end()
    }
}
