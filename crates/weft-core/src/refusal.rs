//! When to offer a carrier again what it has not taken: a pure function of how long it has refused.
//!
//! A carrier that is full has room within microseconds. A carrier whose peer is stopped, or that makes a
//! connection, refuses for seconds. A waiter that offered the packet every 100 µs all that time would use the
//! processor that the peer may need.

use crate::time::{Duration, Instant};

/// The shortest time between two offers.
pub const RETRY_MIN: Duration = Duration::from_micros(100);
/// The longest time between two offers.
pub const RETRY_MAX: Duration = Duration::from_millis(5);
/// An offer comes after a quarter of the time for which the carrier has refused, so what leaves is late by a
/// quarter at most.
const PART: u64 = 4;

/// A carrier refuses something that is offered again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The time of the first refusal, and of the last one.
    first: Instant,
    last: Instant,
}

impl Refusal {
    /// Notes a refusal at `now`, which follows those `before` it, if there were any.
    #[must_use]
    pub fn after(before: Option<Refusal>, now: Instant) -> Refusal {
        Refusal { first: before.map_or(now, |before| before.first), last: now }
    }

    /// Returns the time of the next offer.
    pub fn retry_at(&self) -> Instant {
        let pause = self.last.since(self.first).0 / PART;
        self.last + Duration(pause.clamp(RETRY_MIN.0, RETRY_MAX.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_become_rarer_the_longer_a_carrier_refuses() {
        let (mut refusal, mut now) = (None, Instant(1000));
        let mut offers = alloc::vec::Vec::new();
        while now.since(Instant(1000)) < Duration::from_secs(1) {
            offers.push(now.since(Instant(1000)));
            let next = Refusal::after(refusal, now);
            refusal = Some(next);
            // Expect: never early, and late by a quarter of the refused time at most.
            let pause = next.retry_at().since(now);
            assert!((RETRY_MIN..=RETRY_MAX).contains(&pause), "{pause:?}");
            let refused = now.since(Instant(1000)).0;
            assert!(pause.0 <= RETRY_MIN.0.max(refused / PART), "{pause:?} after {refused} ns");
            now = next.retry_at();
        }
        // Expect: five offers in the first half of a millisecond, and about 200 in a second; not 10,000.
        assert_eq!(offers.iter().filter(|at| **at < Duration::from_micros(500)).count(), 5);
        assert!((200..250).contains(&offers.len()), "{} offers", offers.len());
    }
}
