//! The refinement of a cost model by what copies really take. A model may be wrong: the calibration that it
//! comes from ran while the processor was throttled, or the virtual machine has moved to another host since.
//!
//! Only copies by the kernel are timed, and few of them: a process that copies does nothing else meanwhile,
//! so its time is the cost. A sender that writes to its receiver's memory may have to take that memory out of
//! the receiver's cache first, if the receiver fetched the message before. That says nothing of the next
//! message: on an Intel Xeon of 2025 16 KiB take 0.8 µs otherwise and 4 µs then. So writes are judged apart,
//! and are too slow only where nothing of that kind explains their time. For the same reason a fetch after a
//! write does not count, nor one of data that the library itself has just copied. Memory that has left the
//! caches, or that was never touched, makes a copy slower than the model says, on every machine, and a ring
//! as well. Nothing makes it much quicker. So a model is believed until copies take half of its time, or more
//! than twice as long. Then the built-in costs of copies take its place, times what copies took of them.
//!
//! The time of a copy depends on the program as well. The figures are those of an Intel Xeon of 2025. Its
//! kernel copies 64 KiB in 2.9 µs if the sender has not changed the data since the last message. It takes 9.5
//! µs if the sender has just written the data, which then lies in the cache of the sender's processor. A ring
//! takes 5.3 µs in both cases. So a process tries the kernel now and then where the model prefers rings: it
//! announces a few messages, and the kernel copies them ([`KernelTrials`]).

use super::CostModel;

/// The copies of which one is timed, where the kernel makes many.
const EVERY: u32 = 16;
/// The timed copies after which the model is judged.
const SAMPLES: usize = 16;
/// The sample, in ascending order, that speaks for all: interruptions only make copies slower.
const JUDGE: usize = SAMPLES / 4;
/// The sizes of copies that are timed, in bytes. Shorter ones are hidden by the look at the clock, and longer
/// ones by the caches.
const BYTES_MIN: u64 = 16 << 10;
const BYTES_MAX: u64 = 256 << 10;
/// The model's time, as a share.
const WHOLE: u64 = 10_000;
/// The shares of the model's time at which copies are too quick for the model, and too slow for it.
const TOO_QUICK: u64 = WHOLE / 2;
/// The same where copies take long by the model, [`LONG_PERCENT`] of their time by the built-in costs: memory
/// that was touched for the first time may have made them slow.
const TOO_QUICK_IF_LONG: u64 = WHOLE * 3 / 4;
const LONG_PERCENT: u128 = 125;
const TOO_SLOW: u64 = WHOLE * 9 / 4;
const TOO_SLOW_IF_WRITTEN: u64 = WHOLE * 16;
/// Picoseconds of a tick of the platform's counter ([`crate::transport::Platform::ticks`]).
const PS_PER_TICK: u64 = 400;

/// The process for which the kernel copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copying {
    /// The receiver, which fetches a message.
    Fetch,
    /// The same where the sender has just written the data, or the memory of a receive. The time of such a
    /// copy says nothing of others.
    FetchOfWritten,
    /// The sender, which writes a message to its receive.
    Write,
}

/// What copies of a kind took of the model's time, and of the time by the built-in costs, as shares.
type Shares = Vec<[u64; 2]>;

/// The times of copies by the kernel beside those of the model.
#[derive(Debug)]
pub(crate) struct Refinement {
    costs: CostModel,
    /// The copies of which one is timed: all where a ring is chosen for most messages.
    every: u32,
    /// The share of the model's time at which copies are too quick for it.
    too_quick: u64,
    /// The copies until one is timed.
    until: u32,
    /// The timed copies of both kinds.
    fetched: Shares,
    written: Shares,
    /// The model that fits better, until somebody has taken it.
    refined: Option<CostModel>,
}

impl Refinement {
    pub(crate) fn new(costs: CostModel) -> Self {
        let every = if costs.copies_at_both_ends(costs.ring_near_per_byte_ps) { 1 } else { EVERY };
        let [of_model, of_built_in] = [&costs, &CostModel::BUILT_IN].map(|costs| costs.kernel_copy().of(BYTES_MAX));
        let is_long = of_model * 100 > of_built_in * LONG_PERCENT;
        let too_quick = if is_long { TOO_QUICK_IF_LONG } else { TOO_QUICK };
        let [fetched, written] = [0, 1].map(|_| Vec::with_capacity(SAMPLES));
        Self { costs, every, too_quick, until: every, fetched, written, refined: None }
    }

    /// Makes a copy of `bytes` bytes, and times it if it is its turn. `ticks` is the platform's counter.
    #[inline]
    pub(crate) fn copy<R>(&mut self, copying: Copying, bytes: u64, ticks: fn() -> u64, copy: impl FnOnce() -> R) -> R {
        self.until -= 1;
        if self.until > 0 {
            return copy();
        }
        self.until = self.every;
        let began = ticks();
        let result = copy();
        self.note(copying, bytes, ticks().wrapping_sub(began));
        result
    }

    /// Notes that the kernel took so many ticks for so many bytes.
    fn note(&mut self, copying: Copying, bytes: u64, ticks: u64) {
        // A counter that stands still says nothing.
        if !(BYTES_MIN..=BYTES_MAX).contains(&bytes) || ticks == 0 {
            return;
        }
        let took = u128::from(ticks) * u128::from(PS_PER_TICK) * u128::from(WHOLE);
        let share = |costs: &CostModel| u64::try_from(took / costs.kernel_copy().of(bytes).max(1)).unwrap_or(u64::MAX);
        let share = [share(&self.costs), share(&CostModel::BUILT_IN)];
        let (shares, too_slow) = match copying {
            Copying::Fetch => (&mut self.fetched, TOO_SLOW),
            Copying::Write => (&mut self.written, TOO_SLOW_IF_WRITTEN),
            Copying::FetchOfWritten => return,
        };
        shares.push(share);
        if shares.len() == SAMPLES {
            weft_ordered::sort(shares);
            let judge = shares[JUDGE];
            shares.clear();
            self.judge(judge, too_slow);
        }
    }

    fn judge(&mut self, [share, of_built_in]: [u64; 2], too_slow: u64) {
        if share > self.too_quick && share < too_slow {
            return;
        }
        let scaled = |cost: u64| {
            let scaled = u128::from(cost) * u128::from(of_built_in) / u128::from(WHOLE);
            u64::try_from(scaled).unwrap_or(super::COST_PS_MAX).clamp(1, super::COST_PS_MAX)
        };
        let built_in = CostModel::BUILT_IN;
        // Dividing a message between two sides has costs beside the calls, of which nothing is known.
        let dividing = built_in.cooperative_copy_ps - built_in.kernel_copy_ps;
        let kernel_copy_ps = scaled(built_in.kernel_copy_ps);
        self.refined = Some(CostModel {
            kernel_copy_ps,
            kernel_copy_per_byte_ps: scaled(built_in.kernel_copy_per_byte_ps),
            cooperative_copy_ps: (kernel_copy_ps + dividing).min(super::COST_PS_MAX),
            cooperative_copy_per_byte_ps: scaled(built_in.cooperative_copy_per_byte_ps),
            ..self.costs
        });
    }

    /// Takes the model that fits better, if there is one.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<CostModel> {
        self.refined.take()
    }
}

/// The sizes of messages that are announced as a trial, in bytes.
const TRIAL_BYTES: std::ops::RangeInclusive<u64> = BYTES_MIN..=BYTES_MAX;
/// The messages of a trial, one after the other. The copy of the first one may leave data in the receiver's
/// cache. The copies of the next ones find the data there.
const TRIAL_MESSAGES: usize = 4;
/// The messages of these sizes through a ring between two trials, at first and at last.
const TRIAL_PAUSE_FIRST: u32 = 32;
const TRIAL_PAUSE_LAST: u32 = 4096;

/// The messages through rings of which a few are announced, so that the kernel copies them: without such
/// trials a model that wrongly prefers rings would never be found out. Trials get rare as long as the model
/// stays.
#[derive(Debug)]
pub(crate) struct KernelTrials {
    /// The messages until the next trial; none in a trial.
    until: u32,
    pause: u32,
    /// The messages of trials since the pause was made longer.
    made: usize,
}

impl Default for KernelTrials {
    fn default() -> Self {
        Self { until: TRIAL_PAUSE_FIRST, pause: TRIAL_PAUSE_FIRST, made: 0 }
    }
}

impl KernelTrials {
    /// Notes an announced message that would be asked for through a ring, after a first part that the kernel
    /// copies in a trial; returns whether one is due, and is made.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let is_due = self.is_due(bytes.min(BYTES_MAX));
        if is_due {
            self.make();
        }
        is_due
    }

    /// Notes a message of `bytes` bytes that would go through a ring; returns whether a trial is due.
    #[inline]
    pub(crate) fn is_due(&mut self, bytes: u64) -> bool {
        if !TRIAL_BYTES.contains(&bytes) {
            return false;
        }
        self.until = self.until.saturating_sub(1);
        self.until == 0
    }

    /// Notes that a message of a trial has been announced.
    pub(crate) fn make(&mut self) {
        self.made += 1;
        if self.made.is_multiple_of(TRIAL_MESSAGES) {
            self.until = self.pause;
        }
        if self.made == SAMPLES {
            self.made = 0;
            self.pause = (self.pause * 2).min(TRIAL_PAUSE_LAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(1) };
    }

    fn ticks() -> u64 {
        NOW.get()
    }

    /// Copies `bytes` bytes `times` times on a machine whose kernel has these costs; one copy of four is
    /// interrupted for a millisecond.
    fn run(refinement: &mut Refinement, real: &CostModel, bytes: u64, times: u32) -> Option<CostModel> {
        for number in 0..times {
            let took = real.kernel_copy().of(bytes) as u64 / PS_PER_TICK;
            let interrupted = if (number / refinement.every).is_multiple_of(4) { 2_500_000 } else { 0 };
            refinement.copy(Copying::Fetch, bytes, ticks, || NOW.set(NOW.get() + took + interrupted));
        }
        refinement.take()
    }

    const INTEL: CostModel = CostModel { kernel_copy_ps: 400_000, kernel_copy_per_byte_ps: 33, ..CostModel::BUILT_IN };

    /// A file of another machine, in both directions.   Expect: after a few hundred copies the model fits.
    #[test]
    fn a_model_of_another_machine_is_mended() {
        let sandbox = CostModel { kernel_copy_ps: 50_000_000, ..CostModel::BUILT_IN };
        for (believed, real) in [(CostModel::BUILT_IN, INTEL), (INTEL, sandbox), (sandbox, INTEL)] {
            let mut refinement = Refinement::new(believed);
            let refined = run(&mut refinement, &real, 64 << 10, EVERY * SAMPLES as u32).expect("it is far off");
            let (found, expected) = (refined.kernel_copy().of(64 << 10), real.kernel_copy().of(64 << 10));
            assert!(found.abs_diff(expected) * 20 <= expected, "{found} for {expected}");
            assert_eq!(refined.ring_near_per_byte_ps, believed.ring_near_per_byte_ps);
            // What fits stays.
            assert_eq!(run(&mut Refinement::new(refined), &real, 64 << 10, 10_000), None);
        }
    }

    /// Writes to memory in the receiver's cache, fetches to memory in the sender's, and copies that an
    /// emulated system call makes slow.   Expect: only the latter change the model, and fetches after writes
    /// never do.
    #[test]
    fn copies_into_the_cache_of_the_other_process_say_nothing_of_the_model() {
        let refined = |copying, times: u64| {
            let mut refinement = Refinement::new(INTEL);
            let took = times * INTEL.kernel_copy().of(16 << 10) as u64 / PS_PER_TICK;
            for _ in 0..EVERY * SAMPLES as u32 {
                refinement.copy(copying, 16 << 10, ticks, || NOW.set(NOW.get() + took));
            }
            refinement.take()
        };
        assert_eq!(refined(Copying::Write, 5), None);
        assert_eq!(refined(Copying::FetchOfWritten, 50), None);
        for (copying, times) in [(Copying::Write, 50), (Copying::Fetch, 5)] {
            let slow = refined(copying, times).expect("such a copy says something");
            assert!(slow.kernel_copy_ps > 2 * INTEL.kernel_copy_ps, "{copying:?}: {slow:?}");
        }
    }

    /// Cold memory, a short copy, a long one, a counter that stands still.   Expect: the model stays.
    #[test]
    fn what_is_no_fault_of_the_model_changes_nothing() {
        let cold = CostModel { kernel_copy_per_byte_ps: 180, ..CostModel::BUILT_IN };
        let mut refinement = Refinement::new(CostModel::BUILT_IN);
        assert_eq!(run(&mut refinement, &cold, 128 << 10, 10_000), None);
        let mut refinement = Refinement::new(CostModel::BUILT_IN);
        assert_eq!(run(&mut refinement, &INTEL, 8 << 10, 10_000), None);
        assert_eq!(run(&mut refinement, &INTEL, 1 << 20, 10_000), None);
        for _ in 0..10_000 {
            refinement.copy(Copying::Fetch, 64 << 10, || 7, || ());
        }
        assert_eq!(refinement.take(), None);
    }

    /// Messages through a ring, in turn too short for a trial and long enough.   Expect: of the long ones
    /// four are a trial, after 32 at first, and after 4096 in the end.
    #[test]
    fn trials_get_rare() {
        let mut trials = KernelTrials::default();
        let mut made = Vec::new();
        for message in 0..200_000_u32 {
            assert!(!trials.is_due(BYTES_MIN - 1) && !trials.is_due(BYTES_MAX + 1));
            if trials.is_due(64 << 10) {
                assert!(trials.is_due(64 << 10), "it stays due until it is made");
                trials.make();
                made.push(message);
            }
        }
        let distances: Vec<u32> = made.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(
            made.len() > 16 && distances.chunks(4).all(|chunk| chunk.iter().take(3).all(|distance| *distance == 1))
        );
        let pauses: Vec<u32> = distances.into_iter().filter(|distance| *distance > 1).collect();
        assert_eq!((pauses[0], pauses[4], pauses[pauses.len() - 1]), (32, 64, 4096));
        assert!(pauses.is_sorted());
    }

    #[test]
    fn costs_beyond_all_bounds_stay_costs() {
        let most = CostModel { kernel_copy_ps: super::super::COST_PS_MAX, ..CostModel::BUILT_IN };
        let mut refinement = Refinement::new(CostModel { kernel_copy_ps: 0, kernel_copy_per_byte_ps: 0, ..most });
        let refined = run(&mut refinement, &most, 64 << 10, EVERY * SAMPLES as u32).expect("it is far off");
        assert_eq!(CostModel::from_values(&refined.values().collect::<Vec<_>>()), Some(refined));
    }
}
