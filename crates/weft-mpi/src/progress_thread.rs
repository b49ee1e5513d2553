//! The thread that makes progress while the program computes. (MPI-5.0 §3.7.4 leaves it to the library
//! whether there is one.)
//!
//! The thread sleeps in the kernel, which wakes it when a packet arrives, a neighbour rings the doorbell, or
//! a timer ends. [`Coverage`] (`weft_engine::waiting`) decides which of these the thread watches, and what it
//! does when it wakes. This module carries it out. The function that the thread runs when awake is passed to
//! it at its start.
//!
//! Where there are peers on other hosts, the thread also makes progress a few times in each
//! `WEFT_PEER_TIMEOUT` ([`Pulse`]), even with no operation outstanding and with `WEFT_PROGRESS=none`. So it
//! answers for a program that computes, and no peer that waits for the program takes it for dead
//! (docs/design/progress.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_core::time::Duration;
use weft_engine::waiting::{Armed, Backoff, Coverage, Leaving, Outstanding, Pulse, Woken};
use weft_net::clock;
use weft_net::watch::{self, Apart, Watch};

use crate::engine::Engine;

/// The thread and the descriptors that it watches. The process lock protects it, like everything else.
pub(crate) struct ProgressThread {
    coverage: Coverage,
    watch: Arc<Watch>,
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
    network: Vec<i32>,
    doorbell: Option<i32>,
    /// The processor that the program ran on when it left MPI.
    processor: Option<u32>,
    /// The processor that the thread leaves to the program.
    apart: Option<Apart>,
}

impl ProgressThread {
    /// Starts the thread, which sleeps. It wakes at each look of the `pulse`, and when a neighbour asks for
    /// progress, whatever else wakes it. At each wake it runs `help`. `help` returns the time after which the
    /// thread runs it again, if nothing that is armed wakes the thread before.
    pub(crate) fn start(
        engine: &mut Engine,
        mut pulse: Option<Pulse>,
        help: impl Fn() -> Option<Duration> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (network, doorbell) = engine.watched();
        let descriptors: Vec<i32> = network.iter().copied().chain(doorbell).collect();
        let watch = Arc::new(Watch::new(&descriptors, engine.progress_bell())?);
        if let Some(pulse) = &mut pulse {
            watch.set_pulse(pulse.pause());
        }
        let over = Arc::new(AtomicBool::new(false));
        let (its_watch, its_over) = (Arc::clone(&watch), Arc::clone(&over));
        let thread = watch::spawn_without_signals("weft-progress", move || {
            let mut backoff = Backoff::default();
            loop {
                let pulsed = its_watch.wait();
                if let Some(pulse) = pulse.as_mut().filter(|_| pulsed) {
                    its_watch.set_pulse(pulse.pause());
                }
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

    /// Notes that a thread of the program is about to leave MPI, whether it `expects` to come back for what
    /// it leaves, and the processor on which it runs.
    #[inline]
    pub(crate) fn note_leave(&mut self, expects: bool) {
        self.coverage.leave(expects, clock::ticks);
        self.processor = watch::processor();
    }

    /// Notes that the program has come to a call that may wait.
    #[inline]
    pub(crate) fn note_wait(&mut self) {
        self.coverage.wait(clock::ticks);
    }

    /// Returns whether what is outstanding is covered since the program always waits for it at once: then
    /// [`Self::note_leave`] must be told exactly whether there is anything.
    #[inline]
    pub(crate) fn trusts(&self) -> bool {
        self.coverage.trusts()
    }

    /// Returns whether the armed wake-ups cover the `outstanding` operations. The caller is a call that
    /// leaves MPI while no thread waits inside.
    #[inline(always)]
    pub(crate) fn covers(&mut self, engine: &Engine, outstanding: &Outstanding) -> bool {
        self.coverage.is_covered(outstanding, engine.coalescing_time().is_some())
    }

    /// Arms the wake-ups that are missing for the `outstanding` operations of a call that leaves MPI under
    /// these circumstances.
    #[inline(never)]
    pub(crate) fn arm(&mut self, engine: &mut Engine, outstanding: Outstanding, leaving: Leaving) {
        let arm = self.coverage.hand_over(outstanding, leaving);
        let mut arrived = false;
        if arm.network {
            for network in &self.network {
                // The watch knows the network, so it can be armed; the doorbell too.
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

    /// Disarms the wake-ups: a thread waits inside MPI and watches for itself.
    pub(crate) fn take_back(&mut self, engine: &mut Engine) {
        let back = self.coverage.take_back();
        if back.network {
            for network in &self.network {
                // It could be armed, so it can be disarmed.
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

    /// Returns whether [`Self::take_back`] has something to do.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        self.coverage.is_armed()
    }

    /// Decides what the thread does now that it is awake and has the process lock. `waits`: a thread waits
    /// inside MPI. `looked`: this is the second look, after [`Woken::LookAgain`].
    pub(crate) fn woken(&mut self, engine: &Engine, waits: bool, looked: bool) -> Woken {
        let woken = self.coverage.woken(waits, engine.coalescing_time().is_some(), looked, clock::ticks());
        if let Woken::Defer(span) = woken {
            self.watch.set_timer(span);
        }
        woken
    }

    /// Prepares the thread to act. If no thread `waits` inside MPI, the program computes, and the progress
    /// thread leaves it its processor. `disarm_doorbell` as in [`Woken::Act`].
    pub(crate) fn act(&mut self, engine: &mut Engine, waits: bool, disarm_doorbell: bool) {
        if !waits {
            self.apart = Apart::from(self.processor, self.apart);
        }
        if disarm_doorbell {
            engine.disarm_for_thread();
        }
    }

    /// Ends the thread. The caller must join the handle that is returned while the process lock is free.
    pub(crate) fn end(mut self) -> Option<std::thread::JoinHandle<()>> {
        self.over.store(true, Ordering::Release);
        self.watch.set_timer(Duration::default());
        self.thread.take()
    }
}
