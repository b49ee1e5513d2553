//! The waiting threads of one process.
//!
//! One of them drives: it makes progress and sleeps in the kernel on behalf of all. The others park until
//! their operations are complete, or until one of them must drive.

use weft_core::time::{Duration, Instant};

/// The least time by which something must be due before the sleeping thread's deadline to be worth waking it:
/// times differ by as much as it takes to read the clock twice.
const SOONER_MIN: Duration = Duration::from_micros(10);

/// The waiting threads of one process, and the news that they have been told.
///
/// As long as a thread is parked, another thread is awake and will look again, or sleeps and will be woken by
/// an arrival; see [`Self::lacks_driver`].
#[derive(Clone, Debug, Default)]
pub struct Waiters {
    /// The number of calls that wait and have said so: spinning, asleep or parked.
    inside: u32,
    sleeper: Sleeper,
    /// The number of those calls that are parked and have not been woken.
    parked: u32,
    /// The number of parked calls, plus the one that sleeps: every call looks at this one number.
    listening: u32,
    /// The count of completions of which the sleeping and parked threads know.
    told: u64,
}

/// The thread that sleeps on behalf of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sleeper {
    #[default]
    None,
    /// A thread sleeps, until this time at most; `None`: until it is woken.
    Asleep(Option<Instant>),
}

/// The news for sleeping and parked threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Operations have completed: a thread that waits for one of them is to be woken, whether it sleeps or is
    /// parked.
    pub completed: bool,
    /// A deadline comes before the end of the sleep: the sleeping thread is to be woken.
    pub sooner: bool,
}

impl Waiters {
    /// Makes a record of no waiting threads.
    pub const fn new() -> Self {
        Self { inside: 0, sleeper: Sleeper::None, parked: 0, listening: 0, told: 0 }
    }

    /// Notes that a call waits: it will see to what arrives.
    pub fn enter(&mut self) {
        self.inside += 1;
    }

    /// Notes that a call waits no more, or is kept from looking for a while. [`Self::lacks_driver`] is to be
    /// asked afterwards.
    pub fn leave(&mut self) {
        self.inside = self.inside.saturating_sub(1);
    }

    /// The number of calls that wait and have said so.
    pub fn count(&self) -> u32 {
        self.inside
    }

    /// Returns whether a call waits.
    #[inline]
    pub fn any(&self) -> bool {
        self.inside > 0
    }

    /// Notes that a thread is about to sleep on behalf of all, until the time `until` at most.
    pub fn fall_asleep(&mut self, until: Option<Instant>) {
        self.sleeper = Sleeper::Asleep(until);
        self.listening = self.parked + 1;
    }

    /// Notes that the sleeping thread is awake again, and drives on. The parked threads need not know that.
    pub fn wake_up(&mut self) {
        self.sleeper = Sleeper::None;
        self.listening = self.parked;
    }

    /// Returns whether a thread sleeps on behalf of all.
    #[inline]
    pub fn sleeps(&self) -> bool {
        self.sleeper != Sleeper::None
    }

    /// Parks a thread that has [said that it waits](Self::enter).
    pub fn park(&mut self) {
        self.parked += 1;
        self.listening += 1;
    }

    /// Wakes a parked thread: from now on it counts as one that will look, before it has run.
    pub fn unpark(&mut self) {
        self.parked -= 1;
        self.listening -= 1;
    }

    /// Returns whether a thread is parked.
    pub fn has_parked(&self) -> bool {
        self.parked > 0
    }

    /// Returns whether a parked thread must be woken because no other thread sees to what arrives: none
    /// sleeps on behalf of all, and no waiting thread is awake.
    #[inline]
    pub fn lacks_driver(&self) -> bool {
        self.parked > 0 && !self.sleeps() && self.inside <= self.parked
    }

    /// Returns whether a thread sleeps or is parked: then [`Self::news`] and [`Self::lacks_driver`] are to be
    /// asked.
    #[inline(always)]
    pub fn may_want_news(&self) -> bool {
        self.listening > 0
    }

    /// The news for the other threads when a thread is about to release the lock, with this count of
    /// `completions` so far.
    ///
    /// `due` returns the time when something is due; it is called only if that matters. The sleeping thread
    /// is not told of a deadline that it knows: otherwise two threads would wake each other all the time that
    /// a packet is not acknowledged.
    pub fn news(&mut self, completions: u64, due: impl FnOnce() -> Option<Instant>) -> News {
        let completed = completions != self.told;
        self.told = completions;
        let sooner = match self.sleeper {
            Sleeper::None => false,
            Sleeper::Asleep(None) => due().is_some(),
            Sleeper::Asleep(Some(until)) => due().is_some_and(|due| until.since(due) >= SOONER_MIN),
        };
        News { completed, sooner }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOON: Instant = Instant(1_000_000);
    const LATER: Instant = Instant(2_000_000);

    /// Each fact in all ways: a thread that waits for a completion hears of it once, and no thread hears of
    /// what it knows.
    #[test]
    fn who_sleeps_hears_of_earlier_deadlines_and_everybody_of_completions_once() {
        for (asleep, is_news) in [
            (None, [false, false, false]),
            // By the time at which something is due: never, soon, later.
            (Some(None), [false, true, true]),
            (Some(Some(LATER)), [false, true, false]),
            (Some(Some(SOON)), [false, false, false]),
        ] {
            for (due, sooner) in [None, Some(SOON), Some(LATER)].into_iter().zip(is_news) {
                for facts in 0..4_u32 {
                    let [parked, completed] = [1, 2].map(|bit| facts & bit != 0);
                    let mut waiters = Waiters::new();
                    waiters.news(7, || None);
                    if let Some(until) = asleep {
                        waiters.enter();
                        waiters.fall_asleep(until);
                    }
                    if parked {
                        waiters.enter();
                        waiters.park();
                    }
                    assert_eq!(waiters.may_want_news(), asleep.is_some() || parked);
                    let completions = if completed { 8 } else { 7 };
                    let news = waiters.news(completions, || due);
                    assert_eq!(news, News { completed, sooner }, "{asleep:?} {due:?}");
                    assert!(!waiters.news(completions, || None).completed, "once for each completion");
                }
            }
        }
    }

    #[test]
    fn a_deadline_that_is_read_from_the_clock_twice_is_no_news() {
        let mut waiters = Waiters::new();
        waiters.fall_asleep(Some(LATER));
        assert!(!waiters.news(0, || Some(LATER - Duration::from_micros(9))).sooner);
        assert!(waiters.news(0, || Some(LATER - Duration::from_micros(10))).sooner);
    }

    #[test]
    fn who_wakes_up_drives_on_and_hands_that_over_when_it_leaves() {
        let mut waiters = Waiters::new();
        waiters.enter();
        waiters.fall_asleep(None);
        waiters.enter();
        waiters.park();
        assert!(waiters.sleeps() && !waiters.lacks_driver());
        waiters.wake_up();
        assert!(!waiters.sleeps() && !waiters.lacks_driver(), "it will look, and sleep again");
        waiters.leave();
        assert!(waiters.lacks_driver(), "the one that is parked would wait for ever");
        waiters.unpark();
        assert!(!waiters.lacks_driver() && waiters.any(), "it has been woken, and will look");
        waiters.fall_asleep(None);
        assert!(waiters.sleeps() && !waiters.lacks_driver());
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

    /// The state of a thread.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Thread {
        Away,
        Awake,
        Asleep,
        Parked,
    }

    proptest! {
        /// Any order of the threads' steps, where a parked thread is woken whenever no thread drives.
        /// Expect: as long as a thread is parked, another one looks or sleeps. No thread is woken while
        /// another drives.
        #[test]
        fn as_long_as_anybody_is_parked_somebody_drives(steps in prop::collection::vec((0_usize..5, 0_u8..3), 1..200)) {
            let mut waiters = Waiters::new();
            let mut threads = [Thread::Away; 5];
            for (at, step) in steps {
                let sleeps = threads.contains(&Thread::Asleep);
                threads[at] = match (threads[at], step) {
                    (Thread::Away, _) => {
                        waiters.enter();
                        Thread::Awake
                    }
                    (Thread::Awake, 0) => {
                        waiters.leave();
                        Thread::Away
                    }
                    (Thread::Awake, _) if sleeps => {
                        waiters.park();
                        Thread::Parked
                    }
                    (Thread::Awake, 1) => {
                        waiters.fall_asleep(None);
                        Thread::Asleep
                    }
                    (Thread::Asleep, 0) => {
                        waiters.wake_up();
                        Thread::Awake
                    }
                    (Thread::Parked, 0) => {
                        waiters.unpark();
                        Thread::Awake
                    }
                    (same, _) => same,
                };
                let drives = threads.iter().any(|thread| matches!(thread, Thread::Awake | Thread::Asleep));
                let parked = threads.iter().position(|thread| *thread == Thread::Parked);
                prop_assert_eq!(waiters.lacks_driver(), parked.is_some() && !drives);
                if let Some(parked) = parked.filter(|_| waiters.lacks_driver()) {
                    waiters.unpark();
                    threads[parked] = Thread::Awake;
                }
            }
        }
    }
}
