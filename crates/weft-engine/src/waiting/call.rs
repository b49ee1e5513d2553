//! A call that waits: it spins as long as that is worth it, then sleeps.

use weft_core::time::{Duration, Instant};

use super::Learned;

/// The longest spin of a waiter before it sleeps, with peers on this node.
///
/// A spin must outlast the wake-up of a sleeping peer, which takes 25 µs on a virtual machine whose
/// processors idle. Otherwise two processes that sleep would never find out that spinning pays.
pub(super) const SPIN_NODE: Duration = Duration::from_micros(100);
/// The longest spin when there are peers on other nodes.
pub(super) const SPIN_NETWORK: Duration = Duration::from_micros(200);
/// The longest spin while a neighbour copies a message to or from this process, which takes as long as the
/// message is large.
const SPIN_SERVED: Duration = Duration::from_micros(20_000);
/// The number of passes of the progress loop after which a waiter checks whether it may spin on.
const PASSES_FREE: u32 = 3;
/// The value of the pass counter from a look on: no free passes any more.
const PASSES_LOOKED: u32 = PASSES_FREE + 1;
/// The time between two looks above which the thread was not running: passes take much less.
const PREEMPTED: Duration = Duration::from_micros(100);
/// The longest turn that a rank is expected to take that shares the processor: it computes between two
/// messages, and then it waits as well. Programs that only compute keep the processor for longer.
const TURN: Duration = Duration::from_micros(1_000);
/// The most such turns that a wait lets go by before it counts as kept away from the processor.
const TURNS_MAX: u32 = 16;
/// The length from which on a yield has let another thread run.
const YIELDED: Duration = Duration::from_micros(2);

const _: () =
    assert!(SPIN_NODE.as_nanos() <= SPIN_NETWORK.as_nanos() && SPIN_NETWORK.as_nanos() < SPIN_SERVED.as_nanos());
const _: () = assert!(YIELDED.as_nanos() < PREEMPTED.as_nanos() && PREEMPTED.as_nanos() < TURN.as_nanos());

/// The next step of a call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Make one more pass of the progress loop, and then [`Wait::pass_in_vain`].
    Pass,
    /// Park, since another thread of the process sleeps on behalf of all:
    /// [say that a call waits](Wait::enters), and wait until the operation is complete, or until no other
    /// thread sees to what arrives. Then a pass.
    Park,
    /// Say that a call waits: neighbours may know, and the progress thread need not watch. Then as
    /// [`Next::Assess`].
    Enter,
    /// Forget what has advanced so far, and check how many processors there are: [`Fact::Assessed`].
    Assess,
    /// Check whether a neighbour is copying a message to or from this process: [`Fact::Served`].
    AskServed,
    /// Look at the clock, and at what has advanced since the last look: [`Fact::Looked`].
    Look,
    /// Say on which processor this thread waits. If `rebalance`, check whether the waiting ranks are spread
    /// evenly over the processors. Then yield: [`Fact::Yielded`].
    Yield {
        /// Set when it is time for that check, on an oversubscribed node.
        rebalance: bool,
    },
    /// Check whether another rank of the node spins on this processor: [`Fact::Shared`].
    AskShared,
    /// Go to a processor on which no other rank spins. Then a pass.
    Migrate,
    /// Sleep until there is something to do; the wait goes on with a pass. The sleep is skipped if there is
    /// something to do already.
    Sleep,
}

/// The answer to a [`Next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The answer to [`Next::Assess`]: progress before the spin does not count any more.
    Assessed {
        /// Set if there are fewer processors than ranks of the node, or than ranks that are awake.
        oversubscribed: bool,
    },
    /// The answer to [`Next::AskServed`]: true if a neighbour is copying a message to or from this process,
    /// so that it has a processor and will soon be done.
    Served(bool),
    /// The answer to [`Next::Look`].
    Looked {
        /// The time.
        now: Instant,
        /// Set if something large was copied, or packets have arrived, since the last look.
        advanced: bool,
        /// As for [`Fact::Assessed`].
        oversubscribed: bool,
    },
    /// The answer to [`Next::Yield`]: the time when the yield was over.
    Yielded(Instant),
    /// The answer to [`Next::AskShared`]: true if another rank of the node spins on this processor.
    Shared(bool),
}

/// A call that waits. It begins with a pass.
#[derive(Clone, Debug, Default)]
pub struct Wait {
    /// The number of passes since the wait began, or since it last slept. From the first look on: the passes
    /// since the last look, plus [`PASSES_LOOKED`].
    passes: u32,
    /// The number of the pass with which the next look comes.
    look_at: u32,
    /// Set if the node was oversubscribed at the last look.
    oversubscribed: bool,
    looked: Option<Spinning>,
    /// The number of turns that others have taken since the wait began, or since it last slept.
    turns: u32,
    /// Set when the call has said that it waits.
    entered: bool,
    slept: bool,
}

/// A spin that has looked at the clock.
#[derive(Clone, Copy, Debug)]
struct Spinning {
    /// The time of the first look, or of the last look at which something had advanced.
    since: Instant,
    /// The time of the last look.
    last: Instant,
    /// The end of the yield that came with the last look: passes follow again.
    resumed: Instant,
}

impl Wait {
    /// Notes a pass in vain and returns the next step. `sleeps` says that another thread of the process
    /// sleeps on behalf of all.
    #[inline]
    pub fn pass_in_vain(&mut self, sleeps: bool) -> Next {
        if sleeps {
            return Next::Park;
        }
        self.passes += 1;
        if self.passes < PASSES_FREE {
            return Next::Pass;
        }
        if self.passes == PASSES_FREE {
            return if self.enters() { Next::Enter } else { Next::Assess };
        }
        // On an oversubscribed node each pass in vain ends a turn: the next rank to run may bring what the
        // call waits for.
        if self.oversubscribed || self.passes >= self.look_at { Next::Look } else { Next::Pass }
    }

    /// Returns whether the call must say that it waits, on [`Next::Enter`] or [`Next::Park`]; true the first
    /// time.
    #[inline]
    pub fn enters(&mut self) -> bool {
        !std::mem::replace(&mut self.entered, true)
    }

    /// Takes the fact that was asked for, and returns the next step. Inlined, since the caller knows which
    /// fact it is.
    #[inline(always)]
    pub fn next(&mut self, fact: Fact, learned: &mut Learned) -> Next {
        match fact {
            Fact::Assessed { oversubscribed } => {
                self.oversubscribed = oversubscribed;
                self.look_at = learned.pace.passes().max(PASSES_LOOKED);
                match (learned.may_spin(), oversubscribed) {
                    (true, _) => Next::Pass,
                    (false, false) => Next::AskServed,
                    // This sleep counts like any other: it brings the next try nearer.
                    (false, true) => self.sleep(learned, false),
                }
            }
            Fact::Served(false) => self.sleep(learned, false),
            Fact::Served(true) => match self.looked {
                None => Next::Pass,
                Some(spinning) => self.spin_on(spinning, learned),
            },
            Fact::Looked { now, advanced, oversubscribed } => self.looked(now, advanced, oversubscribed, learned),
            Fact::Yielded(now) => self.yielded(now, learned),
            Fact::Shared(shared) => match self.looked {
                Some(spinning) if shared => migrate(spinning, learned),
                _ => Next::Pass,
            },
        }
    }

    /// The time since the last look, for a yield that ends `now`.
    #[inline]
    pub fn away(&self, now: Instant) -> Duration {
        self.looked.map_or(Duration::default(), |spinning| now.since(spinning.last))
    }

    fn looked(&mut self, now: Instant, advanced: bool, oversubscribed: bool, learned: &mut Learned) -> Next {
        if let Some(before) = self.looked.filter(|_| !advanced && !self.oversubscribed) {
            let span = now.since(before.resumed);
            if span <= PREEMPTED {
                learned.pace.measured(self.passes - PASSES_LOOKED, span);
            }
        }
        // A wait may take many more passes than can be counted.
        self.passes = PASSES_LOOKED;
        self.look_at = PASSES_LOOKED + learned.pace.passes();
        if advanced {
            // A pass that copies a large message is progress, however long it takes. So are the arriving
            // packets of a message: the spin has brought them, and starts anew.
            learned.budget.hit();
        }
        let before = self.looked.filter(|_| !advanced).unwrap_or(Spinning { since: now, last: now, resumed: now });
        let spinning = Spinning { since: before.since, last: now, resumed: now };
        self.looked = Some(spinning);
        if now.since(before.last) > PREEMPTED {
            return self.sleep(learned, true);
        }
        let was_oversubscribed = std::mem::replace(&mut self.oversubscribed, oversubscribed);
        let spun = now.since(spinning.since);
        if spun < learned.budget.now() {
            self.spin_on(spinning, learned)
        } else if !was_oversubscribed && spun < SPIN_SERVED {
            Next::AskServed
        } else {
            self.sleep(learned, false)
        }
    }

    /// Yields the processor: other jobs and other virtual hosts use the same processors, and one of them may
    /// bring what this call waits for.
    fn spin_on(&self, spinning: Spinning, learned: &mut Learned) -> Next {
        Next::Yield { rebalance: self.oversubscribed && learned.migration.is_time_to_rebalance(spinning.last) }
    }

    fn yielded(&mut self, now: Instant, learned: &mut Learned) -> Next {
        let Some(spinning) = &mut self.looked else { return Next::Pass };
        spinning.resumed = now;
        let spinning = *spinning;
        let away = self.away(now);
        learned.pace.yielded(away > PREEMPTED);
        if away > PREEMPTED {
            // Where ranks share processors it was probably one of them, and now it waits itself. If both
            // slept, nobody would use the processor. A longer turn may have been something that comes once in
            // a while.
            self.turns += 1;
            let is_turn = away <= TURN && self.turns <= TURNS_MAX;
            if self.oversubscribed && (is_turn || !learned.budget.is_kept_away()) {
                self.looked = None;
                return Next::Pass;
            }
            return self.sleep(learned, true);
        }
        let others = learned.migration.note_yield(away > YIELDED);
        match (self.oversubscribed, away > YIELDED, others) {
            (false, true, true) => migrate(spinning, learned),
            (false, true, false) => Next::AskShared,
            _ => Next::Pass,
        }
    }

    fn sleep(&mut self, learned: &mut Learned, preempted: bool) -> Next {
        learned.budget.missed(preempted);
        *self = Self { entered: self.entered, slept: true, ..Self::default() };
        Next::Sleep
    }

    /// Returns whether the call has not said that it waits ([`Self::enters`]): then there is nothing to take
    /// back or to learn when it ends.
    #[inline]
    pub fn is_brief(&self) -> bool {
        !self.entered
    }

    /// Ends the wait: the operation is complete.
    #[inline]
    pub fn conclude(&self, learned: &mut Learned) {
        if self.passes > PASSES_FREE && !self.slept {
            learned.budget.hit();
        }
    }
}

fn migrate(spinning: Spinning, learned: &mut Learned) -> Next {
    if learned.migration.is_due(spinning.last) { Next::Migrate } else { Next::Pass }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const US: u64 = 1_000;

    /// The surroundings of a call that waits, and the time.
    #[derive(Clone, Copy, Debug)]
    struct Around {
        now: u64,
        /// The lengths of a pass and of a yield, in ns.
        pass: u64,
        away: u64,
        advanced: bool,
        oversubscribed: bool,
        served: bool,
        shared: bool,
    }

    const QUIET: Around =
        Around { now: 0, pass: 100, away: 500, advanced: false, oversubscribed: false, served: false, shared: false };

    impl Around {
        /// Answers as the mechanism does; `None` for a step that needs no answer.
        fn answer(&mut self, next: Next) -> Option<Fact> {
            match next {
                Next::Enter | Next::Assess => Some(Fact::Assessed { oversubscribed: self.oversubscribed }),
                Next::AskServed => Some(Fact::Served(self.served)),
                Next::Look => Some(Fact::Looked {
                    now: Instant(self.now),
                    advanced: self.advanced,
                    oversubscribed: self.oversubscribed,
                }),
                Next::Yield { .. } => {
                    self.now += self.away;
                    Some(Fact::Yielded(Instant(self.now)))
                }
                Next::AskShared => Some(Fact::Shared(self.shared)),
                Next::Pass | Next::Park | Next::Migrate | Next::Sleep => None,
            }
        }

        /// The steps of the call from one pass in vain up to the next pass or the sleep.
        fn pass(&mut self, wait: &mut Wait, learned: &mut Learned) -> Vec<Next> {
            self.now += self.pass;
            let mut did = vec![wait.pass_in_vain(false)];
            while let Some(fact) = self.answer(*did.last().unwrap()) {
                did.push(wait.next(fact, learned));
            }
            did
        }

        /// Makes passes in vain until the call sleeps, at most `most`; returns its steps, one entry a pass.
        fn spin(&mut self, wait: &mut Wait, learned: &mut Learned, most: usize) -> Vec<Vec<Next>> {
            let mut all = Vec::new();
            while all.len() < most && all.last().is_none_or(|did: &Vec<Next>| did.last() != Some(&Next::Sleep)) {
                all.push(self.pass(wait, learned));
            }
            all
        }
    }

    fn without_budget() -> Learned {
        let mut learned = Learned::new(false);
        learned.distrust_spinning();
        assert!(!learned.may_spin());
        learned
    }

    const YIELD: Next = Next::Yield { rebalance: false };

    #[test]
    fn the_first_passes_look_at_nothing_then_it_enters_then_every_64th_looks_at_the_clock() {
        let (mut wait, mut learned, mut around) = (Wait::default(), Learned::new(false), QUIET);
        let did = around.spin(&mut wait, &mut learned, 128);
        for (at, did) in did.iter().enumerate() {
            let expected: &[Next] = match at + 1 {
                3 => &[Next::Enter, Next::Pass],
                64 | 128 => &[Next::Look, YIELD, Next::Pass],
                _ => &[Next::Pass],
            };
            assert_eq!(did, expected, "pass {}", at + 1);
        }
    }

    /// A pass that asks a socket takes as long as many that look at memory. Another thread on the processor
    /// gets its turn as soon.
    #[test]
    fn it_yields_every_four_microseconds_however_long_a_pass_takes() {
        for (pass, least, most) in [(100, 40, 40), (600, 6, 8), (2_000, 4, 8)] {
            let (mut wait, mut learned) = (Wait::default(), Learned::new(true));
            let mut around = Around { pass, ..QUIET };
            let did = around.spin(&mut wait, &mut learned, 100);
            let looks: Vec<usize> = (0..did.len()).filter(|at| did[*at].contains(&YIELD)).collect();
            assert_eq!(looks[0] + 1, 8, "nothing is known yet");
            let apart: Vec<usize> = looks.windows(2).skip(1).map(|at| at[1] - at[0]).collect();
            assert!(!apart.is_empty() && apart.iter().all(|apart| (least..=most).contains(apart)), "{pass}: {apart:?}");
        }
    }

    #[test]
    fn where_another_thread_of_the_process_sleeps_it_parks_and_that_is_no_pass() {
        let mut wait = Wait::default();
        for _ in 0..10 {
            assert_eq!(wait.pass_in_vain(true), Next::Park);
        }
        assert_eq!([(); 3].map(|()| wait.pass_in_vain(false)), [Next::Pass, Next::Pass, Next::Enter]);
    }

    /// The steps of a wait behind its free passes, for each state of the budget and each fact.
    #[test]
    fn without_a_budget_it_sleeps_unless_a_neighbour_serves_it_and_has_a_processor_for_that() {
        use Next::{AskServed, Enter, Pass, Sleep};
        for budget in [false, true] {
            for oversubscribed in [false, true] {
                for served in [false, true] {
                    let mut learned = if budget { Learned::new(false) } else { without_budget() };
                    let mut around = Around { oversubscribed, served, ..QUIET };
                    let did = around.spin(&mut Wait::default(), &mut learned, 3).pop().unwrap();
                    let expected: &[Next] = match (budget, oversubscribed, served) {
                        (true, ..) => &[Enter, Pass],
                        (false, true, _) => &[Enter, Sleep],
                        (false, false, true) => &[Enter, AskServed, Pass],
                        (false, false, false) => &[Enter, AskServed, Sleep],
                    };
                    assert_eq!(did, expected, "{budget} {oversubscribed} {served}");
                }
            }
        }
    }

    #[test]
    fn a_spin_ends_with_its_budget_and_halves_the_next_one() {
        let mut learned = Learned::new(false);
        let mut spans = Vec::new();
        for _ in 0..7 {
            let mut around = QUIET;
            around.spin(&mut Wait::default(), &mut learned, usize::MAX);
            spans.push(around.now / US);
        }
        // A look after 64 passes of 100 ns, then every 40 (4 µs), and a yield of 500. The spin is counted
        // from the first look: 100, 50, 25, 12.5, 6.25, 3.1 µs, none.
        assert_eq!(spans, [107, 58, 31, 17, 13, 8, 0]);
    }

    #[test]
    fn a_spin_during_which_something_advances_starts_anew_and_restores_the_budget() {
        let (mut wait, mut learned) = (Wait::default(), Learned::new(false));
        learned.budget.missed(false);
        let mut around = Around { advanced: true, ..QUIET };
        let did = around.spin(&mut wait, &mut learned, 100_000);
        assert_eq!(did.len(), 100_000, "it does not sleep while packets arrive");
        around.advanced = false;
        let before = around.now;
        around.spin(&mut wait, &mut learned, usize::MAX);
        let spun = (around.now - before) / US;
        assert!((95..=110).contains(&spun), "{spun}");
    }

    #[test]
    fn passes_are_not_counted_without_end_so_that_a_very_long_wait_enters_only_once() {
        let (mut wait, mut learned) = (Wait::default(), Learned::new(false));
        let mut around = Around { advanced: true, ..QUIET };
        around.spin(&mut wait, &mut learned, 3);
        for _ in 0..10_000 {
            assert_ne!(around.pass(&mut wait, &mut learned)[0], Next::Enter);
            assert!(wait.passes > PASSES_FREE && wait.passes <= 2 * 64, "{}", wait.passes);
        }
    }

    #[test]
    fn while_a_neighbour_copies_it_spins_on_but_not_for_ever() {
        let mut learned = without_budget();
        let mut around = Around { served: true, ..QUIET };
        around.spin(&mut Wait::default(), &mut learned, usize::MAX);
        let spun = around.now / US;
        assert!((20_000..20_020).contains(&spun), "{spun} µs");
        // Neighbours have no processor for the copy where there are too few.
        let mut around = Around { served: true, oversubscribed: true, ..QUIET };
        around.spin(&mut Wait::default(), &mut Learned::new(false), usize::MAX);
        assert!((100..102).contains(&(around.now / US)), "{around:?}");
    }

    #[test]
    fn who_was_not_running_between_two_looks_sleeps_and_spins_no_more() {
        let (mut wait, mut learned, mut around) = (Wait::default(), Learned::new(false), QUIET);
        around.spin(&mut wait, &mut learned, 127);
        around.now += 150 * US;
        assert_eq!(around.pass(&mut wait, &mut learned), [Next::Look, Next::Sleep]);
        assert!(!learned.may_spin());
    }

    #[test]
    fn on_an_oversubscribed_node_every_pass_yields_and_now_and_then_ranks_even_themselves_out() {
        let (mut wait, mut learned) = (Wait::default(), Learned::new(true));
        let mut around = Around { oversubscribed: true, now: 1_000_000, ..QUIET };
        let did = around.spin(&mut wait, &mut learned, usize::MAX);
        let last = did.len() - 1;
        for (at, did) in did.iter().enumerate().skip(3) {
            let expected: &[Next] = match at {
                3 => &[Next::Look, Next::Yield { rebalance: true }, Next::Pass],
                at if at == last => &[Next::Look, Next::Sleep],
                _ => &[Next::Look, YIELD, Next::Pass],
            };
            assert_eq!(did, expected, "pass {at}");
        }
    }

    #[test]
    fn a_very_long_yield_ends_the_spin_at_once_but_on_an_oversubscribed_node_only_the_second_time() {
        let long = Around { away: 1_001 * US, ..QUIET };
        let mut learned = Learned::new(false);
        let did = { long }.spin(&mut Wait::default(), &mut learned, usize::MAX);
        assert_eq!(did.last().unwrap()[..], [Next::Look, YIELD, Next::Sleep]);
        assert_eq!(did.len(), 64);

        let (mut wait, mut learned) = (Wait::default(), Learned::new(true));
        let mut long = Around { oversubscribed: true, ..long };
        let did = long.spin(&mut wait, &mut learned, usize::MAX);
        assert_eq!(did.len(), 5, "{did:?}");
        assert_eq!(did[3].last(), Some(&Next::Pass));
        assert_eq!(did[4].last(), Some(&Next::Sleep));
        // A spin that paid in between makes it once again.
        learned.budget.hit();
        assert_eq!(long.spin(&mut Wait::default(), &mut learned, usize::MAX).len(), 5);
    }

    /// Two ranks on a processor, each of which computes for 0.4 ms between two messages.   Expect: each lets
    /// the other have its turn and goes on, and spinning pays. But a wait sleeps in the end.
    #[test]
    fn on_an_oversubscribed_node_it_takes_turns_with_ranks_that_compute_for_a_short_time() {
        let around = Around { away: 400 * US, oversubscribed: true, ..QUIET };
        let mut learned = Learned::new(true);
        for _ in 0..100 {
            let mut wait = Wait::default();
            let did = { around }.spin(&mut wait, &mut learned, 10);
            assert!(did.iter().flatten().all(|next| *next != Next::Sleep), "{did:?}");
            wait.conclude(&mut learned);
            assert_eq!(learned.budget.now(), SPIN_NETWORK);
        }
        let did = { around }.spin(&mut Wait::default(), &mut learned, usize::MAX);
        let yields = did.iter().flatten().filter(|next| matches!(next, Next::Yield { .. })).count();
        assert_eq!(yields, TURNS_MAX as usize + 2, "the first turn too many is the first by which it is kept away");
        assert!(!learned.may_spin());
        // Where each rank has a processor it is a stranger that computes.
        let did = Around { oversubscribed: false, ..around }.spin(&mut Wait::default(), &mut Learned::new(true), 1000);
        assert_eq!(did.last().unwrap()[..], [Next::Look, YIELD, Next::Sleep]);
    }

    /// All facts that lead to a migration, and all neighbours of these that do not.
    #[test]
    fn it_migrates_when_somebody_else_ran_and_another_rank_spins_here_unless_it_has_just_done_so() {
        for oversubscribed in [false, true] {
            for away in [US, 3 * US] {
                for shared in [false, true] {
                    let (mut wait, mut learned) = (Wait::default(), Learned::new(true));
                    let mut around = Around { oversubscribed, away, shared, ..QUIET };
                    let did = around.spin(&mut wait, &mut learned, 64);
                    let moves = did.iter().flatten().filter(|next| **next == Next::Migrate).count();
                    assert_eq!(moves, usize::from(!oversubscribed && away > 2 * US && shared), "{around:?}");
                    let asks = did.iter().flatten().any(|next| *next == Next::AskShared);
                    assert_eq!(asks, !oversubscribed && away > 2 * US, "who shares is asked only if it matters");
                    around.pass = 10;
                    let did = around.spin(&mut wait, &mut learned, 64);
                    assert!(did.iter().flatten().all(|next| *next != Next::Migrate), "too soon");
                }
            }
        }
    }

    #[test]
    fn somebody_of_another_job_that_always_takes_the_turn_is_left_as_well() {
        let (mut wait, mut learned) = (Wait::default(), Learned::new(true));
        let mut around = Around { away: 3 * US, pass: 10, ..QUIET };
        let did = around.spin(&mut wait, &mut learned, 64 * 16);
        let looks: Vec<_> = did.iter().filter(|did| did[0] == Next::Look).collect();
        assert!(looks[..15].iter().all(|did| did[..] == [Next::Look, YIELD, Next::AskShared, Next::Pass]), "{looks:?}");
        assert_eq!(looks[15][..], [Next::Look, YIELD, Next::Migrate]);
    }

    #[test]
    fn after_a_sleep_it_does_not_enter_again_and_what_comes_then_is_no_success_of_spinning() {
        let (mut wait, mut learned) = (Wait::default(), Learned::new(false));
        { QUIET }.spin(&mut wait, &mut learned, usize::MAX);
        let halved = learned.budget.now();
        assert!(halved < SPIN_NODE);
        let did = { QUIET }.spin(&mut wait, &mut learned, 3);
        assert_eq!(did[2][..], [Next::Assess, Next::Pass]);
        { QUIET }.spin(&mut wait, &mut learned, 10);
        assert!(!wait.is_brief());
        wait.conclude(&mut learned);
        assert_eq!(learned.budget.now(), halved);
    }

    #[test]
    fn what_comes_in_the_free_passes_says_nothing_and_what_comes_later_says_that_spinning_pays() {
        for (passes, has_entered, pays) in [(0, false, false), (2, false, false), (3, true, false), (4, true, true)] {
            let (mut wait, mut learned) = (Wait::default(), Learned::new(false));
            learned.budget.missed(false);
            let halved = learned.budget.now();
            { QUIET }.spin(&mut wait, &mut learned, passes);
            assert_eq!(!wait.is_brief(), has_entered, "{passes}");
            wait.conclude(&mut learned);
            assert_eq!(learned.budget.now() > halved, pays, "{passes}");
        }
    }

    prop_compose! {
        fn surroundings()(pass in 20_u64..3_000, away in prop_oneof![100_u64..4_000, 90_000_u64..200_000, 900_000_u64..1_100_000],
            advanced in prop::bool::weighted(0.02), oversubscribed: bool, served: bool, shared: bool) -> Around {
            Around { now: 0, pass, away, advanced, oversubscribed, served, shared }
        }
    }

    proptest! {
        /// Any surroundings, and any lessons learnt.   Expect: no question is asked without end, a wait comes
        /// to a sleep, and it does not spin longer than its budget by more than one look.
        #[test]
        fn a_wait_ends_in_a_sleep_and_no_spin_outlasts_its_budget_by_more_than_one_look(
            changes in prop::collection::vec(surroundings(), 1..40),
            misses in prop::collection::vec(any::<bool>(), 0..20),
            at_random in prop::collection::vec(0_usize..400, 40),
        ) {
            let mut learned = Learned::new(true);
            misses.into_iter().for_each(|preempted| learned.budget.missed(preempted));
            let (mut wait, mut around) = (Wait::default(), changes[0]);
            for (change, passes) in changes.iter().zip(at_random) {
                around = Around { now: around.now, ..*change };
                for _ in 0..passes {
                    let did = around.pass(&mut wait, &mut learned);
                    prop_assert!(did.len() <= 5, "{did:?}");
                    let Some(spinning) = wait.looked.filter(|_| did[0] == Next::Look) else { continue };
                    // The wait goes on: at the time of this look there was budget left.
                    let budget = learned.budget.now().max(if around.served { SPIN_SERVED } else { Duration::default() });
                    prop_assert!(spinning.last.since(spinning.since) < budget, "{spinning:?} {budget:?}");
                }
            }
            // Nothing comes any more.
            around = Around { advanced: false, served: false, ..around };
            let did = around.spin(&mut wait, &mut learned, 1_000_000);
            prop_assert!(did.last().unwrap().ends_with(&[Next::Sleep]));
        }
    }
}
