//! The time for which a way that has failed is not taken again.

use crate::time::{Duration, Instant};

/// The time for which a way is not taken after it has failed; it doubles with each further failure.
const DISTRUSTED_FOR: Duration = Duration::from_secs(10);
/// The number of times that it doubles at most.
const DOUBLINGS_MAX: u32 = 8;

/// The trust in a way that may fail and come back, such as a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Distrust {
    /// The failures since the way has led to its end.
    failures: u32,
    /// The time until which the way is not taken.
    until: Instant,
}

impl Distrust {
    /// Returns whether the way may be taken.
    #[inline]
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// Notes that the way has failed.
    pub fn failed(&mut self, now: Instant) {
        self.until = now + Duration(DISTRUSTED_FOR.0 << self.failures.min(DOUBLINGS_MAX));
        self.failures = self.failures.saturating_add(1);
    }

    /// Notes that the way has led to its end: the next failure counts as the first.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A way fails each time that it is taken again, then works, and fails.   Expect: it is taken more and
    /// more rarely, and after it has worked as soon as at first.
    #[test]
    fn a_way_that_fails_again_is_taken_more_rarely() {
        let mut distrust = Distrust::default();
        let mut now = Instant(1_000_000_000);
        let mut waits = Vec::new();
        for _ in 0..10 {
            distrust.failed(now);
            let begin = now;
            while !distrust.is_over(now) {
                now = now + Duration::from_secs(1);
            }
            waits.push(now.since(begin).0 / 1_000_000_000);
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 2560]);
        distrust.succeeded();
        distrust.failed(now);
        assert!(!distrust.is_over(now + Duration::from_secs(9)) && distrust.is_over(now + Duration::from_secs(10)));
    }
}
