//! A host's clock: its offset from the simulator's time, and how fast it runs.

use crate::nuisance::Nuisance;
use weft_core::time::{Duration, Instant};
use weft_random::{Random, mix};

const MILLION: i128 = 1_000_000;

/// The clock that a host reads instead of the true time. It never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    ahead: Duration,
    /// Parts per million; negative for a slow clock.
    drift: i32,
}

impl Clock {
    /// The clock of a rank under these nuisances.
    pub fn of(rank: u32, nuisances: &[Nuisance], seed: u64) -> Self {
        let skew = nuisances.iter().find_map(|nuisance| match *nuisance {
            Nuisance::Clocks { ahead_max, drift_max } => Some((ahead_max, drift_max)),
            _ => None,
        });
        let Some((ahead_max, drift_max)) = skew else { return Self::default() };
        let mut random = Random::new(mix(seed ^ 0xc10c ^ u64::from(rank) << 16));
        let ahead = Duration(random.between(0, ahead_max.0));
        let drift = random.between(0, 2 * u64::from(drift_max)) as i64 - i64::from(drift_max);
        Self { ahead, drift: drift as i32 }
    }

    /// The time that the clock shows at the true time `now`.
    pub fn read(&self, now: Instant) -> Instant {
        let shown = i128::from(now.0) * (MILLION + i128::from(self.drift)) / MILLION;
        Instant(shown as u64) + self.ahead
    }

    /// The first instant at which the clock shows `shown`, or more.
    pub fn reaches(&self, shown: Instant) -> Instant {
        let since = i128::from(shown.since(Instant(self.ahead.0)).0) * MILLION;
        let rate = MILLION + i128::from(self.drift);
        Instant(u64::try_from((since + rate - 1) / rate).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_over_when_the_clock_says_so_and_not_much_later() {
        let nuisances = [Nuisance::Clocks { ahead_max: Duration::from_secs(1000), drift_max: 500 }];
        for rank in 0..100 {
            let clock = Clock::of(rank, &nuisances, 1);
            for now in [0, 1, 999, 123_456_789, 1 << 40] {
                let now = Instant(now);
                let timer = clock.read(now) + Duration(1_000_003);
                let over = clock.reaches(timer);
                assert!(clock.read(over) >= timer && clock.read(over - Duration(2)) < timer, "{clock:?}");
            }
        }
        assert_ne!(Clock::of(1, &nuisances, 1), Clock::of(2, &nuisances, 1));
        assert_eq!(Clock::of(1, &[], 1).read(Instant(77)), Instant(77));
    }
}
