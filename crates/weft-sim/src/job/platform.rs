//! The platform of a simulated engine: its clocks, its node and its memory.

use super::moments::{Clock, Moments};
use super::node::SimNode;
use std::cell::Cell;
use weft_core::time::Instant;
use weft_engine::memory::InProcess;
use weft_engine::transport::Platform;

thread_local! {
    /// The value of the tick counter, and the amount by which it grows with each look.
    static TICKS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Sets the number of ticks that a copy takes between two looks at the counter. With few ticks copies use
/// plain stores; with many they pass the caches by.
pub(super) fn set_ticks_per_look(ticks: u64) {
    TICKS.set((0, ticks));
}

/// The platform of a simulated engine.
pub(super) struct Virtual {
    pub(super) clock: Clock,
    pub(super) moments: Moments,
}

impl Platform for Virtual {
    type Node = SimNode;
    type Memory = InProcess;

    fn now(&self) -> Instant {
        Instant(self.clock.now())
    }

    fn is_contended(&self) -> bool {
        self.moments.is_contended()
    }

    fn ticks() -> u64 {
        let (now, step) = TICKS.get();
        TICKS.set((now + step, step));
        now
    }
}
