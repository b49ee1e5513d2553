//! The times at which the progress thread looks around while the program computes and nothing is outstanding.

use weft_core::time::Duration;

/// The pauses of the looks that follow the look of each period.
///
/// Over carriers that have connections, a peer that asks for the first time must be connected first, which
/// takes several looks of the process that is asked. With one look in each period of 0.5 s the first answer
/// over libfabric's provider `tcp` came after 1.4 to 1.6 s of a `WEFT_PEER_TIMEOUT` of 2 s, and too late if
/// anything else delayed it. With these groups of looks it came within 0.9 s (20 ranks on two processors of
/// an AMD EPYC, the second figure beside a build).
const SETTLING: [Duration; 4] =
    [Duration::from_millis(1), Duration::from_millis(4), Duration::from_millis(16), Duration::from_millis(64)];

/// The progress thread's looks that answer for a program that computes: one in each period, and some soon
/// after it, since an answer may take several steps of both processes.
#[derive(Clone, Copy, Debug)]
pub struct Pulse {
    period: Duration,
    /// The number of looks since the last period began.
    looks: usize,
}

impl Pulse {
    /// Makes the pulse with one group of looks in each `period`.
    pub const fn new(period: Duration) -> Self {
        Self { period, looks: SETTLING.len() }
    }

    /// Returns the time from this look to the next one. To be called at the start, and at each look.
    pub fn pause(&mut self) -> Duration {
        let pause = SETTLING.get(self.looks).copied().filter(|pause| *pause < self.period);
        self.looks = if pause.is_some() { self.looks + 1 } else { 0 };
        pause.unwrap_or(self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_three_steps_is_made_in_one_period_and_the_periods_stay_far_apart() {
        for millis in [1, 3, 50, 250, 500, 7_500, 1_000_000] {
            let period = Duration::from_millis(millis);
            let mut pulse = Pulse::new(period);
            assert_eq!(pulse.pause(), period, "the program has just left MPI");
            for _ in 0..3 {
                let mut pauses = Vec::new();
                while pauses.last() != Some(&period) {
                    pauses.push(pulse.pause());
                }
                let soon = &pauses[..pauses.len() - 1];
                assert!(soon.is_sorted() && soon.iter().all(|pause| *pause < period), "{pauses:?}");
                assert!(soon.len() == SETTLING.len() || millis <= 64, "{pauses:?}");
            }
        }
    }
}
