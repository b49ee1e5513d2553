//! The moves of a waiter to another processor.
//!
//! The kernel likes to put a process that is woken beside the process that woke it. Two ranks that spin on
//! one processor, each yielding to the other, never look idle. Nor are they off the processor long enough to
//! be moved. So a waiter migrates itself if it sees another spinning rank of the node on its processor, or if
//! each of its yields lets another thread run (docs/design/progress.md).

use weft_core::time::{Duration, Instant};

/// The number of yields in a row that let another thread run after which a rank of another host or job must
/// be spinning on this processor as well.
const YIELDED_ALWAYS: u32 = 16;
/// The least and the most time between two migrations; it doubles with each migration that did not last.
const PAUSES: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(16));
/// The number of pauses after which a migration has lasted.
const PAUSES_LASTED: u64 = 8;
/// The time between two checks of how the ranks of an oversubscribed node are spread over the processors.
const EVEN_OUT_PAUSE: Duration = Duration::from_micros(200);

/// The state that decides when this process may next move to another processor.
#[derive(Clone, Debug)]
pub struct Migration {
    last: Option<Instant>,
    pause: Duration,
    /// The time of the last check whether the ranks of an oversubscribed node are spread evenly.
    rebalanced: Option<Instant>,
    /// The number of yields in a row that have let another thread run.
    yielded: u32,
}

impl Migration {
    /// Makes the state of a process that may move at any time.
    pub const fn new() -> Self {
        Self { last: None, pause: PAUSES.0, rebalanced: None, yielded: 0 }
    }

    /// Notes whether a yield has let another thread run; returns whether each of the last [`YIELDED_ALWAYS`]
    /// has.
    pub(super) fn note_yield(&mut self, shared: bool) -> bool {
        self.yielded = if shared { self.yielded.saturating_add(1) } else { 0 };
        self.yielded >= YIELDED_ALWAYS
    }

    /// Returns whether to check now if the ranks of an oversubscribed node are spread evenly; puts the next
    /// time off.
    pub(super) fn is_time_to_rebalance(&mut self, now: Instant) -> bool {
        let due = self.rebalanced.is_none_or(|last| now.since(last) >= EVEN_OUT_PAUSE);
        if due {
            self.rebalanced = Some(now);
        }
        due
    }

    /// Returns whether to migrate now; puts the next time off.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let (least, most) = PAUSES;
        if let Some(last) = self.last {
            let since = now.since(last).as_nanos();
            if since < self.pause.as_nanos() {
                return false;
            }
            let lasted = since >= self.pause.as_nanos() * PAUSES_LASTED;
            self.pause = if lasted { least } else { Duration((self.pause.as_nanos() * 2).min(most.as_nanos())) };
        }
        self.last = Some(now);
        true
    }
}

impl Default for Migration {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times at which the process migrates if it could every 100 µs of `span`.
    fn times(migration: &mut Migration, from: Instant, span: Duration) -> Vec<u64> {
        let steps = span.as_micros() / 100;
        let at = (0..steps).map(|step| from + Duration::from_micros(step * 100));
        at.filter(|now| migration.is_due(*now)).map(|now| now.since(from).as_micros()).collect()
    }

    #[test]
    fn migrations_that_do_not_last_are_ever_rarer_and_one_that_lasts_makes_them_quick_again() {
        let mut migration = Migration::new();
        let start = Instant(1);
        let first = times(&mut migration, start, Duration::from_millis(100));
        assert_eq!(first[..8], [0, 500, 1_500, 3_500, 7_500, 15_500, 31_500, 47_500], "µs; 16 ms is the most");
        let later = start + Duration::from_secs(1);
        let again = times(&mut migration, later, Duration::from_millis(2));
        assert_eq!(again, [0, 500, 1_500]);
    }

    #[test]
    fn somebody_spins_here_as_well_after_many_yields_in_a_row_that_let_others_run() {
        let mut migration = Migration::new();
        let mut heard = |shared: &[bool]| shared.iter().filter(|shared| migration.note_yield(**shared)).count();
        assert_eq!(heard(&[true; YIELDED_ALWAYS as usize - 1]), 0);
        assert_eq!(heard(&[false]), 0, "one that did not begins anew");
        assert_eq!(heard(&[true; YIELDED_ALWAYS as usize]), 1);
    }

    #[test]
    fn evening_out_has_a_pause_of_its_own() {
        let mut migration = Migration::new();
        let at = |us| Instant(0) + Duration::from_micros(us);
        let times: Vec<u64> = (0..1_000).filter(|us| migration.is_time_to_rebalance(at(*us))).collect();
        assert_eq!(times, [0, 200, 400, 600, 800]);
        assert!(migration.is_due(at(1_000)), "and does not put off a migration");
    }
}
