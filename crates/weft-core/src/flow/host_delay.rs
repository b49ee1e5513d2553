//! Host delay: the longest time that a packet may have waited at this end because no process looked at the
//! flow.

use super::settings::HOST_DELAY_MEMORY;
use crate::time::{Duration, Instant};

/// The looks at a flow. A packet that arrives during a pause has waited, and so have later packets that queue
/// behind it. Therefore a pause is remembered for twice its length.
#[derive(Debug)]
pub(super) struct HostDelay {
    looked_at: Instant,
    /// The longest pause that still counts, and the time until which it counts.
    pause: Duration,
    until: Instant,
}

impl HostDelay {
    pub(super) const fn new() -> Self {
        Self { looked_at: Instant(0), pause: Duration(0), until: Instant(0) }
    }

    /// Notes that the process looks at the flow.
    pub(super) fn look(&mut self, now: Instant) {
        if now == self.looked_at {
            return;
        }
        let pause = now.since(self.looked_at);
        self.looked_at = now;
        if pause >= self.pause || now > self.until {
            self.pause = pause;
            self.until = now + Duration((2 * pause.0).min(HOST_DELAY_MEMORY.0));
        }
    }

    /// The longest time that a packet which arrives now has waited.
    pub(super) const fn current(&self) -> Duration {
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_while_what_came_meanwhile_is_worked_off() {
        let mut host_delay = HostDelay::new();
        let us = |us: u64| Instant(us * 1_000);
        for at in 1_000..1_100 {
            host_delay.look(us(at));
        }
        host_delay.look(us(5_000));
        assert_eq!(host_delay.current().as_micros(), 3_901);
        host_delay.look(us(5_010));
        assert_eq!(host_delay.current().as_micros(), 3_901, "what waited is not read at once");
        // Looked at often for long enough.   Expect: forgotten.
        for at in (5_020..14_000).step_by(10) {
            host_delay.look(us(at));
        }
        assert_eq!(host_delay.current().as_micros(), 10);
    }
}
