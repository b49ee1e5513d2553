//! The threads of one process that wait: one sleeps in the kernel on behalf of all, the others park until something has completed.

/// The threads of one process that wait, and what they have been told.
#[derive(Clone, Debug, Default)]
pub struct Waiters {
    /// Calls that wait, spinning, asleep or parked, and have said so.
    inside: u32,
    asleep: bool,
    parked: u32,
    /// Completions that those who sleep and park know of.
    told: u64,
}

/// Whom to wake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake {
    /// The thread that sleeps on behalf of all.
    pub sleeper: bool,
    /// All those that are parked.
    pub parked: bool,
}

impl Waiters {
    /// Nobody waits.
    pub const fn new() -> Self {
        Self { inside: 0, asleep: false, parked: 0, told: 0 }
    }

    /// A call waits: it will see to what arrives.
    pub fn enter(&mut self) {
        self.inside += 1;
    }

    /// It waits no more.
    pub fn leave(&mut self) {
        self.inside = self.inside.saturating_sub(1);
    }

    /// Whether a call waits.
    #[inline]
    pub fn any(&self) -> bool {
        self.inside > 0
    }

    /// A thread is about to sleep on behalf of all.
    pub fn fall_asleep(&mut self) {
        self.asleep = true;
    }

    /// It is awake again. Whether there are threads that are parked: they must be woken, since one of them may have to sleep next.
    pub fn wake_up(&mut self) -> bool {
        self.asleep = false;
        self.parked > 0
    }

    /// Whether a thread sleeps on behalf of all.
    #[inline]
    pub fn sleeps(&self) -> bool {
        self.asleep
    }

    /// A thread parks.
    pub fn park(&mut self) {
        self.parked += 1;
    }

    /// It does no more.
    pub fn unpark(&mut self) {
        self.parked -= 1;
    }

    /// Whether [`Self::news`] may have somebody to wake.
    #[inline(always)]
    pub fn may_want_news(&self) -> bool {
        self.asleep || self.parked > 0
    }

    /// A thread is about to release the lock, `completions` operations having completed so far. Whom it must wake. `has_deadlines`:
    /// something may be due sooner than the one who sleeps knows.
    pub fn news(&mut self, completions: u64, has_deadlines: impl FnOnce() -> bool) -> Wake {
        let news = completions != self.told;
        self.told = completions;
        Wake { sleeper: self.asleep && (news || has_deadlines()), parked: news && self.parked > 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each fact in both ways: somebody who waits for a completion is woken by it, and nobody by nothing.
    #[test]
    fn who_sleeps_hears_of_completions_and_deadlines_and_who_is_parked_of_completions() {
        for facts in 0..16_u32 {
            let [asleep, parked, completed, deadlines] = [1, 2, 4, 8].map(|bit| facts & bit != 0);
            let mut waiters = Waiters::new();
            waiters.news(7, || false);
            if asleep {
                waiters.fall_asleep();
            }
            if parked {
                waiters.park();
            }
            assert_eq!(waiters.may_want_news(), asleep || parked);
            let completions = if completed { 8 } else { 7 };
            let wake = waiters.news(completions, || deadlines);
            assert_eq!(wake, Wake { sleeper: asleep && (completed || deadlines), parked: parked && completed });
            assert!(!waiters.news(completions, || false).parked, "once for each completion");
        }
    }

    #[test]
    fn who_wakes_up_wakes_those_that_are_parked_so_that_another_one_can_sleep_for_all() {
        let mut waiters = Waiters::new();
        waiters.fall_asleep();
        waiters.park();
        assert!(waiters.sleeps() && waiters.wake_up() && !waiters.sleeps());
        waiters.unpark();
        waiters.fall_asleep();
        assert!(!waiters.wake_up());
    }

    #[test]
    fn calls_that_wait_are_counted() {
        let mut waiters = Waiters::new();
        waiters.enter();
        waiters.enter();
        waiters.leave();
        assert!(waiters.any());
        waiters.leave();
        assert!(!waiters.any());
    }
}
