//! Whether a program waits at once for the operations that it has started.

/// The ticks between a call that leaves MPI and the next wait up to which the wait came at once: 10 µs at
/// 2.5 GHz. To arm what the progress thread watches, and to disarm it again, costs as much.
const AT_ONCE_TICKS: u64 = 25_000;
/// The ticks between the two above which the program computed in between: 50 µs at 2.5 GHz. In less time it
/// may also have lost its processor for a moment.
pub(crate) const COMPUTES_TICKS: u64 = 125_000;
/// The number of waits in a row, all at once, after which the next is expected to come at once: the first
/// number, doubled up to the second by each disappointment. A disappointment costs the program up to 100 µs
/// of overlap, and trust saves 2 µs a wait.
const TRUSTS_AFTER: (u32, u32) = (4, 256);
/// The most waits that are counted, as a multiple of those that are needed. After so many a disappointment
/// counts as the first.
const COUNTED_MAX: u32 = 1024;

/// What is known of the waits of a program for its requests.
///
/// Most programs start messages and wait for them at once. Others compute in between, and some do both in
/// turns: a program that is found to compute where it was expected to wait is trusted later the next time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habit {
    /// The time at which the last call left MPI with something to come back for, in ticks; `None` since the
    /// program has waited.
    left: Option<u64>,
    /// The number of waits in a row that came at once; halved by a wait that came a little later.
    prompt: u32,
    /// The number of such waits after which the program is trusted.
    needed: u32,
}

impl Default for Habit {
    fn default() -> Self {
        Self { left: None, prompt: 0, needed: TRUSTS_AFTER.0 }
    }
}

impl Habit {
    /// Notes that a call leaves MPI at the time `now`, with something to come back for if so `expects`.
    #[inline]
    pub(super) fn leave(&mut self, expects: bool, now: impl FnOnce() -> u64) {
        self.left = expects.then(now);
    }

    /// Notes that the program has come to a call that may wait, at the time `now`.
    #[inline]
    pub(super) fn wait(&mut self, now: impl FnOnce() -> u64) {
        let Some(left) = self.left.take() else { return };
        match now().saturating_sub(left) {
            ..=AT_ONCE_TICKS => self.prompt = (self.prompt + 1).min(self.needed * COUNTED_MAX),
            ..=COMPUTES_TICKS if self.prompt / 2 >= self.needed => self.prompt /= 2,
            _ => self.disappoint(),
        }
    }

    /// Returns whether the program is expected to wait at once.
    #[inline]
    pub(super) fn is_trusted(&self) -> bool {
        self.prompt >= self.needed
    }

    /// Returns whether the program computes; `None` if it has nothing to come back for.
    pub(super) fn computes(&self, now: u64) -> Option<bool> {
        self.left.map(|left| now.saturating_sub(left) > COMPUTES_TICKS)
    }

    /// Notes that the program computes.
    pub(super) fn disappoint(&mut self) {
        if self.is_trusted() {
            let forgiven = self.prompt == self.needed * COUNTED_MAX;
            self.needed = if forgiven { TRUSTS_AFTER.0 } else { (self.needed * 2).min(TRUSTS_AFTER.1) };
        }
        self.prompt = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The waits that are expected to come at once, as `t`, of a program that computes for these times before
    /// it waits.
    fn expected(habit: &mut Habit, gaps: &[u64]) -> String {
        let expect = |gap: &u64| {
            habit.leave(true, || 1_000_000);
            let trusted = habit.is_trusted();
            habit.wait(|| 1_000_000 + gap);
            // Waits for other operations say nothing.
            habit.wait(|| u64::MAX);
            if trusted { 't' } else { '-' }
        };
        gaps.iter().map(expect).collect()
    }

    const AT_ONCE: u64 = 3_000;
    const A_LITTLE_LATER: u64 = 100_000;
    const LATE: u64 = 130_000;

    #[test]
    fn a_program_that_waits_at_once_is_trusted_after_some_waits_until_it_computes() {
        let mut habit = Habit::default();
        let gaps = [[AT_ONCE; 6].as_slice(), &[LATE], &[AT_ONCE; 10]].concat();
        assert_eq!(expected(&mut habit, &gaps), "----ttt--------tt");
        assert_eq!(expected(&mut Habit::default(), &[LATE; 20]), "-".repeat(20));
    }

    /// Ten exchanges, and then one beside which the program computes, again and again.   Expect: soon it is
    /// trusted no more, so that it loses no time beside which messages could move. A program that computes
    /// once in a long while is trusted again.
    #[test]
    fn who_computes_now_and_then_is_trusted_ever_later() {
        let mut habit = Habit::default();
        let round = [[AT_ONCE; 10].as_slice(), &[LATE]].concat();
        let rounds: Vec<String> = (0..4).map(|_| expected(&mut habit, &round)).collect();
        assert_eq!(rounds, ["----ttttttt", "--------ttt", "-----------", "-----------"]);
        for _ in 0..100 {
            expected(&mut habit, &round);
        }
        assert_eq!(habit.needed, 16);
        expected(&mut habit, &[AT_ONCE; 17_000]);
        expected(&mut habit, &[LATE]);
        assert_eq!(expected(&mut habit, &[AT_ONCE; 5]), "----t");
    }

    /// Something else takes the processor for 40 µs now and then.   Expect: that makes no difference. A
    /// program that computes for 40 µs each time is not trusted, and soon not any more.
    #[test]
    fn a_little_later_once_is_no_disappointment_but_always_is() {
        let mut habit = Habit::default();
        expected(&mut habit, &[AT_ONCE; 20]);
        let round = [[AT_ONCE; 9].as_slice(), &[A_LITTLE_LATER]].concat();
        for _ in 0..100 {
            assert_eq!(expected(&mut habit, &round), "t".repeat(10));
        }
        expected(&mut habit, &[AT_ONCE; 100]);
        assert_eq!(expected(&mut habit, &[A_LITTLE_LATER; 8]), "ttttt---");
        assert_eq!(expected(&mut Habit::default(), &[A_LITTLE_LATER; 20]), "-".repeat(20));
    }

    #[test]
    fn a_call_that_leaves_nothing_under_way_begins_no_wait() {
        let mut habit = Habit::default();
        habit.leave(true, || 0);
        assert_eq!([LATE, A_LITTLE_LATER].map(|now| habit.computes(now)), [Some(true), Some(false)]);
        habit.leave(false, || unreachable!("nobody needs the time"));
        assert_eq!(habit.computes(LATE), None);
        habit.wait(|| unreachable!("nobody needs the time"));
        assert_eq!((habit.prompt, habit.is_trusted()), (0, false));
    }
}
