//! The time for which a waiter spins before it sleeps, learnt from the success of earlier spins.

use weft_core::time::Duration;

/// The number of sleeps after which a waiter that has stopped spinning tries it again: the first number,
/// doubled up to the second.
const PROBES: (u32, u32) = (8, 256);
/// The budget below which a waiter does not spin.
const BUDGET_MIN: Duration = Duration::from_micros(2);

/// The time for which a waiter spins before it sleeps.
///
/// A spin that sees what it waits for costs less than a sleep. A spin in vain takes the processor from the
/// process that could bring it. The waiter cannot know the outcome beforehand: other jobs, other virtual
/// hosts and other programs use the same processors. So the budget is halved by each spin in vain, and from
/// time to time the whole budget is tried again (docs/design/progress.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinBudget {
    most: Duration,
    budget: Duration,
    sleeps: u32,
    interval: u32,
    /// Set when another thread had the processor for long, and no spin has paid since.
    kept_away: bool,
}

impl SpinBudget {
    /// Makes a budget of at most `most`.
    pub const fn new(most: Duration) -> Self {
        Self { most, budget: most, sleeps: 0, interval: PROBES.0, kept_away: false }
    }

    /// The time to spin now; zero: not at all.
    #[inline]
    pub fn now(&self) -> Duration {
        if self.budget < BUDGET_MIN { Duration::default() } else { self.budget }
    }

    /// Notes that the spin has seen what the call waited for.
    #[inline]
    pub fn hit(&mut self) {
        if self.interval != PROBES.0 || self.kept_away || self.budget.as_nanos() != self.most.as_nanos() {
            *self = Self::new(self.most);
        }
    }

    /// Notes that another thread had the processor for long. Returns whether that happens again and again,
    /// with no spin in between that paid.
    pub fn is_kept_away(&mut self) -> bool {
        std::mem::replace(&mut self.kept_away, true)
    }

    /// Notes that the spin was in vain: the waiter sleeps. `preempted` says that the processor was taken away
    /// meanwhile, so another thread wants it.
    pub fn missed(&mut self, preempted: bool) {
        let half = if preempted { 0 } else { self.budget.as_nanos() / 2 };
        let was_probe = self.sleeps >= self.interval;
        self.budget = Duration(half);
        if was_probe {
            self.sleeps = 0;
            self.interval = (self.interval * 2).min(PROBES.1);
            self.budget = Duration::default();
        }
        self.sleeps += 1;
        if self.sleeps >= self.interval {
            self.budget = self.most;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: Duration = Duration::from_micros(20);

    #[test]
    fn spinning_in_vain_ends_is_tried_again_ever_less_often_and_returns_when_it_pays() {
        let mut spin = SpinBudget::new(MOST);
        let mut spins = Vec::new();
        for sleep in 0..2_000 {
            if spin.now() == MOST {
                spins.push(sleep);
            }
            spin.missed(false);
        }
        // The first spin; after 8 sleeps; after 16, 32, … and from then on every 256.
        assert_eq!(spins[..7], [0, 8, 24, 56, 120, 248, 504], "{spins:?}");
        assert!(spins[6..].windows(2).all(|at| at[1] - at[0] == 256), "{spins:?}");
        spin.hit();
        assert_eq!(spin, SpinBudget::new(MOST));
    }

    #[test]
    fn each_miss_halves_the_budget_until_it_is_none() {
        let mut spin = SpinBudget::new(MOST);
        let budgets: Vec<u64> = std::iter::repeat_with(|| {
            let now = spin.now().as_nanos();
            spin.missed(false);
            now
        })
        .take(9)
        .collect();
        assert_eq!(budgets, [20_000, 10_000, 5_000, 2_500, 0, 0, 0, 0, 20_000]);
    }

    #[test]
    fn a_preemption_ends_spinning_at_once() {
        let mut spin = SpinBudget::new(MOST);
        spin.missed(true);
        assert_eq!(spin.now(), Duration::default());
        spin.hit();
        assert_eq!(spin.now(), MOST);
        assert!(!spin.is_kept_away() && spin.is_kept_away(), "once is not always");
        spin.hit();
        assert!(!spin.is_kept_away(), "it has paid since");
    }

    proptest! {
        #[test]
        fn the_budget_has_bounds_and_the_next_try_is_never_far(misses in prop::collection::vec(any::<Option<bool>>(), 0..400)) {
            let mut spin = SpinBudget::new(MOST);
            for miss in misses {
                match miss {
                    Some(preempted) => spin.missed(preempted),
                    None => spin.hit(),
                }
                prop_assert!(spin.now() <= MOST && (spin.now() == Duration::default() || spin.now() >= BUDGET_MIN));
            }
            let again = (0..PROBES.1).position(|_| {
                spin.missed(true);
                spin.now() == MOST
            });
            prop_assert!(again.is_some());
        }
    }
}
