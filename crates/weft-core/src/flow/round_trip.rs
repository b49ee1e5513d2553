//! How long a round trip takes, without the time the receiver held its answer (RFC 6298, RFC 9002 §5).

use crate::time::Duration;

/// Assumed before the first sample: nothing is resent because of it, only a probe leaves earlier or later.
const INITIAL: Duration = Duration::from_micros(200);
/// A sample may exceed what was expected by this much; more is a receiver that did not look, not a longer way.
const SURPRISE_MAX: Duration = Duration::from_millis(1);
/// Added to the time threshold: clocks are read per batch, not per packet.
const GRANULARITY: Duration = Duration::from_micros(10);

/// The estimate for one peer.
#[derive(Debug)]
pub(super) struct RoundTrip {
    smoothed: u64,
    variance: u64,
    latest: u64,
    minimum: u64,
}

impl RoundTrip {
    pub(super) const fn new() -> Self {
        Self { smoothed: INITIAL.0, variance: INITIAL.0 / 2, latest: 0, minimum: u64::MAX }
    }

    /// A packet and its answer took `sample`, hold time already taken off.
    pub(super) fn sample(&mut self, sample: Duration) {
        self.latest = sample.0;
        if self.minimum == u64::MAX {
            let first = sample.0.min(INITIAL.0 + SURPRISE_MAX.0);
            (self.smoothed, self.variance) = (first, first / 2);
        } else {
            let bound = self.smoothed + 4 * self.variance + SURPRISE_MAX.0;
            let sample = sample.0.min(bound);
            self.variance = self.variance - self.variance / 4 + self.smoothed.abs_diff(sample) / 4;
            self.smoothed = self.smoothed - self.smoothed / 8 + sample / 8;
        }
        self.minimum = self.minimum.min(sample.0);
    }

    /// The smoothed estimate.
    pub(super) const fn smoothed(&self) -> Duration {
        Duration(self.smoothed)
    }

    /// No answer can come that soon after what it answers.
    pub(super) const fn is_too_early(&self, span: Duration) -> bool {
        self.minimum != u64::MAX && span.0 < self.minimum / 4 * 3
    }

    /// After this long a packet is lost, provided that a later one has arrived.
    pub(super) fn loss_delay(&self) -> Duration {
        let longest = self.smoothed.max(self.latest);
        Duration(longest + longest / 8 + GRANULARITY.0)
    }

    /// After this long without any answer a probe is worth its while.
    pub(super) fn probe_delay(&self, ack_delay: Duration, floor: Duration) -> Duration {
        Duration((self.smoothed + 4 * self.variance + ack_delay.0).max(floor.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_way_is_learnt_and_one_stall_hardly_matters() {
        let mut way = RoundTrip::new();
        for _ in 0..100 {
            way.sample(Duration::from_micros(40));
        }
        assert!(way.smoothed().as_micros().abs_diff(40) <= 1);
        let quiet = way.probe_delay(Duration::from_micros(50), Duration::from_micros(200));
        assert_eq!(quiet.as_micros(), 200);

        // Receive a sample from a receiver that computed for two seconds.   Expect: probes stay within milliseconds.
        way.sample(Duration::from_secs(2));
        assert!(way.probe_delay(Duration::from_micros(50), Duration::from_micros(200)) < Duration::from_millis(3));
    }

    #[test]
    fn a_longer_way_is_learnt_step_by_step() {
        let mut way = RoundTrip::new();
        way.sample(Duration::from_micros(40));
        for _ in 0..200 {
            way.sample(Duration::from_millis(80));
        }
        assert!(way.smoothed() > Duration::from_millis(70));
    }
}
