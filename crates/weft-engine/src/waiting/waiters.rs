//! The threads of one process that wait: one sleeps in the kernel on behalf of all, the others park until something has completed.

use weft_core::time::{Duration, Instant};

/// What is due sooner than the one who sleeps knows, by less than this, is not worth waking it: times differ by as much as it takes to
/// read the clock twice.
const SOONER_MIN: Duration = Duration::from_micros(10);

/// The threads of one process that wait, and what they have been told.
#[derive(Clone, Debug, Default)]
pub struct Waiters {
    /// Calls that wait, spinning, asleep or parked, and have said so.
    inside: u32,
    sleeper: Sleeper,
    parked: u32,
    /// Those that are parked, and the one that sleeps.
    listening: u32,
    /// Completions that those who sleep and park know of.
    told: u64,
}

/// The thread that sleeps on behalf of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sleeper {
    #[default]
    None,
    /// It sleeps until then at most; `None`: until it is woken.
    Asleep(Option<Instant>),
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
        Self { inside: 0, sleeper: Sleeper::None, parked: 0, listening: 0, told: 0 }
    }

    /// A call waits: it will see to what arrives.
    pub fn enter(&mut self) {
        self.inside += 1;
    }

    /// It waits no more.
    pub fn leave(&mut self) {
        self.inside = self.inside.saturating_sub(1);
    }

    /// How many calls wait, as far as they have said so.
    pub fn count(&self) -> u32 {
        self.inside
    }

    /// Whether a call waits.
    #[inline]
    pub fn any(&self) -> bool {
        self.inside > 0
    }

    /// A thread is about to sleep on behalf of all, `until` then at most.
    pub fn fall_asleep(&mut self, until: Option<Instant>) {
        self.sleeper = Sleeper::Asleep(until);
        self.listening = self.parked + 1;
    }

    /// It is awake again. Whether there are threads that are parked: they must be woken, since one of them may have to sleep next.
    pub fn wake_up(&mut self) -> bool {
        self.sleeper = Sleeper::None;
        self.listening = self.parked;
        self.parked > 0
    }

    /// Whether a thread sleeps on behalf of all.
    #[inline]
    pub fn sleeps(&self) -> bool {
        self.sleeper != Sleeper::None
    }

    /// A thread parks.
    pub fn park(&mut self) {
        self.parked += 1;
        self.listening += 1;
    }

    /// It does no more.
    pub fn unpark(&mut self) {
        self.parked -= 1;
        self.listening -= 1;
    }

    /// Whether [`Self::news`] may have somebody to wake.
    #[inline(always)]
    pub fn may_want_news(&self) -> bool {
        self.listening > 0
    }

    /// A thread is about to release the lock, `completions` operations having completed so far. Whom it must wake. `due`: when something
    /// is due; asked for only if it matters. Who sleeps need not hear of what it knows: two threads would wake each other all the time
    /// that a packet is not acknowledged.
    pub fn news(&mut self, completions: u64, due: impl FnOnce() -> Option<Instant>) -> Wake {
        let news = completions != self.told;
        self.told = completions;
        let sleeper = match self.sleeper {
            Sleeper::None => false,
            Sleeper::Asleep(_) if news => true,
            Sleeper::Asleep(None) => due().is_some(),
            Sleeper::Asleep(Some(until)) => due().is_some_and(|due| until.since(due) >= SOONER_MIN),
        };
        Wake { sleeper, parked: news && self.parked > 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Instant = Instant(1_000_000);
    const LATER: Instant = Instant(2_000_000);

    /// Each fact in all ways: somebody who waits for a completion is woken by it, and nobody by what it knows.
    #[test]
    fn who_sleeps_hears_of_completions_and_earlier_deadlines_and_who_is_parked_of_completions() {
        for (asleep, is_news) in [
            (None, [false, false, false]),
            // By what is due: nothing, soon, later.
            (Some(None), [false, true, true]),
            (Some(Some(LATER)), [false, true, false]),
            (Some(Some(SOON)), [false, false, false]),
        ] {
            for (due, is_news) in [None, Some(SOON), Some(LATER)].into_iter().zip(is_news) {
                for facts in 0..4_u32 {
                    let [parked, completed] = [1, 2].map(|bit| facts & bit != 0);
                    let mut waiters = Waiters::new();
                    waiters.news(7, || None);
                    if let Some(until) = asleep {
                        waiters.fall_asleep(until);
                    }
                    if parked {
                        waiters.park();
                    }
                    assert_eq!(waiters.may_want_news(), asleep.is_some() || parked);
                    let completions = if completed { 8 } else { 7 };
                    let wake = waiters.news(completions, || due);
                    let sleeper = asleep.is_some() && (completed || is_news);
                    assert_eq!(wake, Wake { sleeper, parked: parked && completed }, "{asleep:?} {due:?}");
                    assert!(!waiters.news(completions, || None).parked, "once for each completion");
                }
            }
        }
    }

    #[test]
    fn a_deadline_that_is_read_from_the_clock_twice_is_no_news() {
        let mut waiters = Waiters::new();
        waiters.fall_asleep(Some(LATER));
        assert!(!waiters.news(0, || Some(LATER - Duration::from_micros(9))).sleeper);
        assert!(waiters.news(0, || Some(LATER - Duration::from_micros(10))).sleeper);
    }

    #[test]
    fn who_wakes_up_wakes_those_that_are_parked_so_that_another_one_can_sleep_for_all() {
        let mut waiters = Waiters::new();
        waiters.fall_asleep(None);
        waiters.park();
        assert!(waiters.sleeps() && waiters.wake_up() && !waiters.sleeps());
        waiters.unpark();
        waiters.fall_asleep(None);
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
