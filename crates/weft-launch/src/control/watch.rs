//! Notices that the other side of a control connection has fallen silent.
//!
//! A host that loses power does not close its connections, which would stay open for hours. `mpiexec` and
//! remote agents watch each other by it.

use std::time::{Duration, Instant};

/// The number of questions for a sign of life within the limit.
const QUESTIONS: u32 = 4;

/// The patience of one side with the other.
#[derive(Debug)]
pub(crate) struct Watch {
    limit: Duration,
    /// The bytes that had been received when the other side was last heard.
    heard: u64,
    heard_at: Instant,
    /// The time at which this side looked last.
    looked_at: Instant,
}

impl Watch {
    /// Makes a watch with this much patience from `now` on.
    pub(crate) fn new(limit: Duration, now: Instant) -> Self {
        Self { limit, heard: 0, heard_at: now, looked_at: now }
    }

    /// The time between two looks, and between two questions for a sign of life.
    pub(crate) fn pause(&self) -> Duration {
        self.limit / QUESTIONS
    }

    /// The time for which nothing had been heard when this side looked last, and since then.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        now.duration_since(self.heard_at)
    }

    /// Returns whether nothing was heard for too long; `received` counts all bytes that ever came.
    pub(crate) fn is_over(&mut self, received: u64, now: Instant) -> bool {
        // A side that was stopped itself (by a terminal, by a batch system) has heard nothing for that
        // reason.
        let was_stopped = now.duration_since(self.looked_at) > self.limit / 2;
        if was_stopped || received != self.heard {
            (self.heard, self.heard_at) = (received, now);
        }
        self.looked_at = now;
        now.duration_since(self.heard_at) >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_noticed_and_words_are_heard() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch = Watch::new(Duration::from_secs(20), start);
        assert_eq!(watch.pause(), Duration::from_secs(5));
        let steps = [(5, 0, false), (10, 7, false), (15, 7, false), (20, 7, false), (25, 7, false), (30, 7, true)];
        for (seconds, received, over) in steps {
            assert_eq!(watch.is_over(received, at(seconds)), over, "{seconds} s");
        }
    }

    #[test]
    fn whoever_was_stopped_has_patience_anew() {
        let start = Instant::now();
        let mut watch = Watch::new(Duration::from_secs(20), start);
        assert!(!watch.is_over(0, start + Duration::from_secs(3600)));
        assert!(!watch.is_over(0, start + Duration::from_secs(3605)));
    }
}
