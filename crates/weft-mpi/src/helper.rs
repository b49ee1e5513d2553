//! The thread that makes progress while the program computes (MPI-5.0 §3.7.4 leaves it to us whether anybody does).
//!
//! It sleeps in the kernel. The process lock is the right to make progress: a call that leaves MPI with something
//! outstanding, and nobody else waiting inside, arms what the thread watches; one that waits inside MPI disarms it, and
//! watches for itself. Arming wakes nobody. The kernel wakes the thread when a packet is here, when a neighbour rings, or
//! when something is due; then it takes the lock, makes progress unless somebody inside MPI does, and arms again.
//!
//! | outstanding as a call leaves | what is armed |
//! |---|---|
//! | nothing | nothing |
//! | packets that are not acknowledged, after blocking calls | the timer, no earlier than [`REPAIR_AFTER`] |
//! | requests | the network, and the timer when something is due |
//! | messages that wait for others to share their packet | the timer |
//! | collectives, or requests where memory is not shared by copies | the doorbell as well |
//!
//! Where there are peers on other hosts it also looks around a few times in each `WEFT_PEER_TIMEOUT`, with nothing
//! outstanding and with `WEFT_PROGRESS=none` too: it answers for a program that computes, so that nobody who waits for
//! it takes it for dead (decision 0080).
//!
//! A program that calls MPI again and again, a window of messages for instance, makes progress itself. The thread would only
//! take its processor and its lock, and send from another processor what the network then carries out of order. So it does
//! nothing if the program calls again within [`CALLS_APART`], or is calling, and looks again after [`CALLS_PAUSE`]
//! (decision 0108, section 5). It leaves the program its processor, and the lock after a train.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_core::time::Duration;
use weft_net::watch::{self, Apart, Watch};

use crate::engine::Engine;
use crate::process;

/// A program that communicates all the time repairs losses itself: the thread looks no earlier than this.
pub(crate) const REPAIR_AFTER: Duration = Duration::from_millis(2);
/// A program that has not called MPI for so long computes.
pub(crate) const CALLS_PAUSE: Duration = Duration::from_micros(50);
/// One that starts operations one after the other calls again sooner than that.
pub(crate) const CALLS_APART: Duration = Duration::from_micros(8);
/// One that calls all the time, but never waits, may make no progress: the thread leaves it alone so many times in a row.
const DEFERS_MAX: u32 = 8;
/// Passes of the progress loop for one wake-up: the first takes in what has arrived, the second sends what that brought.
pub(crate) const PASSES: u32 = 2;

/// The thread and what it watches; under the process lock, like all the rest.
pub(crate) struct Helper {
    watch: Arc<Watch>,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    network: Vec<i32>,
    doorbell: Option<i32>,
    network_armed: bool,
    doorbell_armed: bool,
    timer_set: bool,
    /// It is set for messages that wait for others to share their packet.
    timer_is_soon: bool,
    /// Calls that have left MPI with something outstanding …
    calls: u64,
    /// … and how many there were when the network was armed, or when the thread last woke.
    calls_seen: u64,
    /// Times in a row that the thread left everything to the program.
    defers: u32,
    /// Where the program was when it left MPI.
    processor: Option<u32>,
    /// The processor that the thread leaves to it.
    apart: Option<Apart>,
}

/// What is outstanding as a call leaves MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outstanding {
    /// Requests that are not complete.
    pub(crate) requests: bool,
    /// Something that a neighbour's frame moves on, and that no neighbour moves on itself.
    pub(crate) neighbours: bool,
}

impl Helper {
    /// Starts the thread, which sleeps, and wakes every `pulse`.
    pub(crate) fn start(engine: &Engine, pulse: Option<Duration>) -> std::io::Result<Self> {
        let (network, doorbell) = engine.watched();
        let descriptors: Vec<i32> = network.iter().copied().chain(doorbell).collect();
        let watch = Arc::new(Watch::new(&descriptors)?);
        if let Some(pulse) = pulse {
            watch.set_pulse(pulse);
        }
        let over = Arc::new(AtomicBool::new(false));
        let (its_watch, its_over) = (Arc::clone(&watch), Arc::clone(&over));
        let thread = watch::spawn_without_signals("weft-progress", move || {
            let mut pause = Duration::default();
            loop {
                its_watch.wait();
                if its_over.load(Ordering::Acquire) {
                    return;
                }
                pause = match process::help() {
                    Ok(()) => Duration::default(),
                    // A program that is inside MPI each time the thread looks does without it ever longer.
                    Err(again) => Duration((pause.as_nanos() * 2).clamp(again.as_nanos(), REPAIR_AFTER.as_nanos())),
                };
                if pause > Duration::default() {
                    its_watch.set_timer(pause);
                }
            }
        })?;
        Ok(Self {
            watch,
            over,
            thread: Some(thread),
            network,
            doorbell,
            network_armed: false,
            doorbell_armed: false,
            timer_set: false,
            timer_is_soon: false,
            calls: 0,
            calls_seen: 0,
            defers: 0,
            processor: None,
            apart: None,
        })
    }

    /// A thread of the program is about to leave MPI.
    #[inline]
    pub(crate) fn note_processor(&mut self) {
        self.processor = watch::processor();
    }

    /// The program leaves MPI.
    pub(crate) fn hand_over(&mut self, engine: &mut Engine, outstanding: Outstanding) {
        self.calls = self.calls.wrapping_add(1);
        if outstanding.requests && !self.network_armed {
            self.network_armed = true;
            self.calls_seen = self.calls;
            for network in &self.network {
                // Known to the watch, so it can be armed.
                let _ = self.watch.arm(*network);
            }
        }
        let mut arrived = false;
        if outstanding.neighbours
            && !self.doorbell_armed
            && let Some(doorbell) = self.doorbell
        {
            self.doorbell_armed = self.watch.arm(doorbell).is_ok();
            arrived = !engine.arm_for_thread();
        }
        if arrived {
            self.timer_set = true;
            self.watch.set_timer(Duration::default());
        } else if !self.timer_set
            && let Some(due) = engine.due()
        {
            self.timer_set = true;
            let least = if outstanding.requests { 0 } else { REPAIR_AFTER.as_nanos() };
            self.watch.set_timer(Duration(due.max(least)));
        }
        if let Some(soon) = engine.gathers()
            && !self.timer_is_soon
        {
            (self.timer_set, self.timer_is_soon) = (true, true);
            self.watch.set_timer(soon);
        }
    }

    /// Somebody waits inside MPI and watches for itself. A timer that is set may still wake the thread.
    pub(crate) fn take_back(&mut self, engine: &mut Engine) {
        if std::mem::take(&mut self.network_armed) {
            for network in &self.network {
                // As it could be armed.
                let _ = self.watch.disarm(*network);
            }
        }
        if std::mem::take(&mut self.doorbell_armed)
            && let Some(doorbell) = self.doorbell
        {
            let _ = self.watch.disarm(doorbell);
            engine.disarm_for_thread();
        }
        if std::mem::take(&mut self.timer_is_soon) {
            self.watch.set_timer(REPAIR_AFTER);
        }
    }

    /// Whether [`Self::take_back`] has something to do.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.network_armed || self.doorbell_armed || self.timer_is_soon
    }

    /// The thread is awake, and the program has called MPI since the network was armed: it may be about to call again. From now on only
    /// further calls count.
    pub(crate) fn calls_go_on(&mut self) -> bool {
        self.network_armed && std::mem::replace(&mut self.calls_seen, self.calls) != self.calls
    }

    /// The thread is awake. Whether it leaves everything to the program, which keeps calling, and looks again later: what is armed
    /// counts as armed until then.
    pub(crate) fn defers(&mut self, engine: &Engine) -> bool {
        let calls = self.calls_go_on();
        // Messages that wait for others were promised that they leave when the timer runs out.
        let is_urgent = self.timer_is_soon || self.doorbell_armed || engine.gathers().is_some();
        if !calls || is_urgent || self.defers >= DEFERS_MAX {
            self.defers = 0;
            return false;
        }
        self.defers += 1;
        self.timer_set = true;
        self.watch.set_timer(CALLS_PAUSE);
        true
    }

    /// The thread makes progress: each of what it watches may be what woke it. If the program `computes` the thread leaves it its
    /// processor.
    pub(crate) fn awoke(&mut self, engine: &mut Engine, computes: bool) {
        (self.timer_set, self.timer_is_soon) = (false, false);
        if computes {
            self.apart = Apart::from(self.processor, self.apart);
        }
        // The network is disarmed only if it was what woke the thread; arming it again does no harm.
        self.network_armed = false;
        if self.doorbell_armed {
            self.doorbell_armed = false;
            engine.disarm_for_thread();
        }
    }

    /// The thread ends: what is returned must be joined while the process lock is free.
    pub(crate) fn end(mut self) -> Option<std::thread::JoinHandle<()>> {
        self.over.store(true, Ordering::Release);
        self.watch.set_timer(Duration::default());
        self.thread.take()
    }
}
