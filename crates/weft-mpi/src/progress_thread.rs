//! The thread that makes progress while the program computes (MPI-5.0 §3.7.4 leaves it to us whether anybody
//! does).
//!
//! It sleeps in the kernel. What it watches there, and what it does when the kernel wakes it because a packet
//! is here, a neighbour rings, or something is due, is decided by [`Coverage`] (`weft_engine::waiting`); here
//! is how that is done. What it runs when it is awake is given to it as it starts.
//!
//! Where there are peers on other hosts it also looks around a few times in each `WEFT_PEER_TIMEOUT`, with
//! nothing outstanding and with `WEFT_PROGRESS=none` too: it answers for a program that computes, so that
//! nobody who waits for it takes it for dead (decision 0080).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_core::time::Duration;
use weft_engine::waiting::{Armed, Backoff, Coverage, Outstanding, Woken};
use weft_net::watch::{self, Apart, Watch};

use crate::engine::Engine;

/// The thread and what it watches; under the process lock, like all the rest.
pub(crate) struct ProgressThread {
    coverage: Coverage,
    watch: Arc<Watch>,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    network: Vec<i32>,
    doorbell: Option<i32>,
    /// Where the program was when it left MPI.
    processor: Option<u32>,
    /// The processor that the thread leaves to it.
    apart: Option<Apart>,
}

impl ProgressThread {
    /// Starts the thread, which sleeps, and wakes every `pulse`. Each time it has woken it runs `help`, which
    /// says in how long to do so again if nothing that is armed wakes it before.
    pub(crate) fn start(
        engine: &Engine,
        pulse: Option<Duration>,
        help: impl Fn() -> Option<Duration> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (network, doorbell) = engine.watched();
        let descriptors: Vec<i32> = network.iter().copied().chain(doorbell).collect();
        let watch = Arc::new(Watch::new(&descriptors)?);
        if let Some(pulse) = pulse {
            watch.set_pulse(pulse);
        }
        let over = Arc::new(AtomicBool::new(false));
        let (its_watch, its_over) = (Arc::clone(&watch), Arc::clone(&over));
        let thread = watch::spawn_without_signals("weft-progress", move || {
            let mut backoff = Backoff::default();
            loop {
                its_watch.wait();
                if its_over.load(Ordering::Acquire) {
                    return;
                }
                if let Some(pause) = backoff.pause(help()) {
                    its_watch.set_timer(pause);
                }
            }
        })?;
        Ok(Self {
            coverage: Coverage::new(doorbell.is_some()),
            watch,
            over,
            thread: Some(thread),
            network,
            doorbell,
            processor: None,
            apart: None,
        })
    }

    /// A thread of the program is about to leave MPI.
    #[inline]
    pub(crate) fn note_processor(&mut self) {
        self.processor = watch::processor();
    }

    /// A call leaves MPI, and nobody waits inside: whether so much is covered by what is armed.
    #[inline(always)]
    pub(crate) fn covers(&mut self, engine: &Engine, outstanding: &Outstanding) -> bool {
        self.coverage.is_covered(outstanding, engine.coalescing_time().is_some())
    }

    /// It is not: arms what is to be armed.
    #[inline(never)]
    pub(crate) fn arm(&mut self, engine: &mut Engine, outstanding: Outstanding) {
        let arm = self.coverage.hand_over(outstanding);
        let mut arrived = false;
        if arm.network {
            for network in &self.network {
                // Known to the watch, so it can be armed; so is the doorbell.
                let _ = self.watch.arm(*network);
            }
            arrived = !engine.arm_network_for_thread();
        }
        if arm.doorbell
            && let Some(doorbell) = self.doorbell
        {
            let _ = self.watch.arm(doorbell);
            arrived |= !engine.arm_for_thread();
        }
        let due = if self.coverage.wants_due(arrived) { engine.due().map(Duration) } else { None };
        let armed = Armed { arrived, due, coalescing: engine.coalescing_time() };
        if let Some(span) = self.coverage.set_timer(outstanding, armed) {
            self.watch.set_timer(span);
        }
    }

    /// Somebody waits inside MPI and watches for itself.
    pub(crate) fn take_back(&mut self, engine: &mut Engine) {
        let back = self.coverage.take_back();
        if back.network {
            for network in &self.network {
                // As it could be armed.
                let _ = self.watch.disarm(*network);
            }
        }
        if back.doorbell
            && let Some(doorbell) = self.doorbell
        {
            let _ = self.watch.disarm(doorbell);
            engine.disarm_for_thread();
        }
        if let Some(span) = back.timer {
            self.watch.set_timer(span);
        }
    }

    /// Whether [`Self::take_back`] has something to do.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.coverage.is_armed()
    }

    /// The thread is awake, and has the process lock: what it does now. `waits`: somebody waits inside MPI.
    /// `looked`: this is the second look, after [`Woken::LookAgain`].
    pub(crate) fn woken(&mut self, engine: &Engine, waits: bool, looked: bool) -> Woken {
        let woken = self.coverage.woken(waits, engine.coalescing_time().is_some(), looked);
        if let Woken::Defer(span) = woken {
            self.watch.set_timer(span);
        }
        woken
    }

    /// It acts: if nobody `waits` inside MPI the program computes, and the thread leaves it its processor.
    /// `disarm_doorbell` as in [`Woken::Act`].
    pub(crate) fn act(&mut self, engine: &mut Engine, waits: bool, disarm_doorbell: bool) {
        if !waits {
            self.apart = Apart::from(self.processor, self.apart);
        }
        if disarm_doorbell {
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
