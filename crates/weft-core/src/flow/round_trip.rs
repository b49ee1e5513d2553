//! The round trip of a path, without the time for which the receiver held its answer (RFC 6298, RFC 9002 §5).

use super::settings::FAR;
use crate::time::{Duration, Instant};

/// The round trip assumed before the first sample. No packet is resent because of it; only a probe leaves
/// earlier or later.
const INITIAL: Duration = Duration::from_micros(200);
/// The most by which a sample may exceed the expected round trip. A longer delay comes from a receiver that
/// did not look, not from a longer path.
const SURPRISE_MAX: Duration = Duration::from_millis(1);
/// The time for which the shortest round trip is believed, in seconds.
const MINIMUM_MEMORY_S: u32 = 10;
/// Time added to the time threshold: clocks are read per batch, not per packet.
const GRANULARITY: Duration = Duration::from_micros(10);

/// The estimate for one path; nanoseconds unless a name says otherwise.
#[derive(Debug)]
pub(super) struct RoundTrip {
    smoothed: u32,
    variance: u32,
    latest: u32,
    /// The shortest round trip; `UNKNOWN` before the first sample.
    minimum: u32,
    /// The least since `since`. It becomes the minimum when it is old enough, so that a path that got longer
    /// is believed.
    fresh: u32,
    since_s: u32,
}

const UNKNOWN: u32 = u32::MAX;

impl RoundTrip {
    pub(super) const fn new() -> Self {
        let (smoothed, variance) = (INITIAL.0 as u32, INITIAL.0 as u32 / 2);
        Self { smoothed, variance, latest: 0, minimum: UNKNOWN, fresh: UNKNOWN, since_s: 0 }
    }

    /// Takes the round trip of a packet and its answer, without the hold time.
    pub(super) fn sample(&mut self, now: Instant, sample: Duration) {
        let sample = sample.0.min(u64::from(UNKNOWN - 1)) as u32;
        self.latest = sample;
        if self.has_sample() {
            let bound =
                self.smoothed.saturating_add(self.variance.saturating_mul(4)).saturating_add(SURPRISE_MAX.0 as u32);
            let sample = sample.min(bound);
            self.variance = self.variance - self.variance / 4 + self.smoothed.abs_diff(sample) / 4;
            self.smoothed = self.smoothed - self.smoothed / 8 + sample / 8;
        } else {
            let first = sample.min((INITIAL.0 + SURPRISE_MAX.0) as u32);
            (self.smoothed, self.variance) = (first, first / 2);
        }
        self.minimum = self.minimum.min(sample);
        self.fresh = self.fresh.min(sample);
        let now_s = (now.0 / 1_000_000_000) as u32;
        if now_s.wrapping_sub(self.since_s) >= MINIMUM_MEMORY_S {
            (self.minimum, self.fresh, self.since_s) = (self.fresh, UNKNOWN, now_s);
        }
    }

    /// Returns whether at least one round trip was measured.
    pub(super) const fn has_sample(&self) -> bool {
        self.minimum != UNKNOWN
    }

    /// Returns whether the path is known to be far.
    pub(super) const fn is_far(&self) -> bool {
        self.has_sample() && self.minimum as u64 >= FAR.0
    }

    /// The shortest recent round trip.
    pub(super) fn minimum(&self) -> Option<Duration> {
        self.has_sample().then_some(Duration(self.minimum as u64))
    }

    /// The smoothed estimate.
    pub(super) const fn smoothed(&self) -> Duration {
        Duration(self.smoothed as u64)
    }

    /// Returns whether an answer is impossible so soon after the packet that it answers.
    pub(super) const fn is_too_early(&self, span: Duration) -> bool {
        self.has_sample() && span.0 < self.minimum as u64 / 4 * 3
    }

    /// The time after which a packet counts as lost, provided that a later one has arrived.
    pub(super) fn loss_delay(&self) -> Duration {
        let longest = u64::from(self.smoothed.max(self.latest));
        Duration(longest + longest / 8 + GRANULARITY.0)
    }

    /// The time without any answer after which a probe is worth its cost.
    pub(super) fn probe_delay(&self, ack_delay: Duration, floor: Duration) -> Duration {
        Duration((u64::from(self.smoothed) + 4 * u64::from(self.variance) + ack_delay.0).max(floor.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_way_is_learnt_and_one_stall_hardly_matters() {
        let mut path = RoundTrip::new();
        for _ in 0..100 {
            path.sample(Instant(1), Duration::from_micros(40));
        }
        assert!(path.smoothed().as_micros().abs_diff(40) <= 1);
        let quiet = path.probe_delay(Duration::from_micros(50), Duration::from_micros(200));
        assert_eq!(quiet.as_micros(), 200);

        // Receive a sample from a receiver that computed for two seconds.   Expect: probes stay within
        // milliseconds.
        path.sample(Instant(1), Duration::from_secs(2));
        assert!(path.probe_delay(Duration::from_micros(50), Duration::from_micros(200)) < Duration::from_millis(3));
    }

    #[test]
    fn a_longer_way_is_learnt_step_by_step() {
        let mut path = RoundTrip::new();
        path.sample(Instant(1), Duration::from_micros(40));
        for _ in 0..200 {
            path.sample(Instant(1), Duration::from_millis(80));
        }
        assert!(path.smoothed() > Duration::from_millis(70));
    }
}
