//! The refinement of a cost model by what copies really take. A model may be wrong: the calibration that it
//! comes from ran while the processor was throttled, or the virtual machine has moved to another host since.
//!
//! Only copies by the kernel are timed, and few of them: a process that copies does nothing else meanwhile,
//! so its time is the cost. Memory that has left the caches, or that was never touched, makes a copy slower
//! than the model says, on every machine, and a ring as well. Nothing makes it much quicker. So a model is
//! believed until copies take half of its time, or four times as long. Then the built-in costs of copies take
//! its place, times what copies took of them.

use super::CostModel;

/// The copies of which one is timed.
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
const TOO_SLOW: u64 = WHOLE * 4;
/// Picoseconds of a tick of the platform's counter ([`crate::transport::Platform::ticks`]).
const PS_PER_TICK: u64 = 400;

/// The times of copies by the kernel beside those of the model.
#[derive(Debug)]
pub(crate) struct Refinement {
    costs: CostModel,
    /// The copies until one is timed.
    until: u32,
    /// What copies took of the model's time, and of the time by the built-in costs, as shares.
    shares: Vec<[u64; 2]>,
    /// The model that fits better, until somebody has taken it.
    refined: Option<CostModel>,
}

impl Refinement {
    pub(crate) fn new(costs: CostModel) -> Self {
        Self { costs, until: EVERY, shares: Vec::with_capacity(SAMPLES), refined: None }
    }

    /// Makes a copy of `bytes` bytes, and times it if it is its turn. `ticks` is the platform's counter.
    #[inline]
    pub(crate) fn copy<R>(&mut self, bytes: u64, ticks: fn() -> u64, copy: impl FnOnce() -> R) -> R {
        self.until -= 1;
        if self.until > 0 {
            return copy();
        }
        self.until = EVERY;
        let began = ticks();
        let result = copy();
        self.note(bytes, ticks().wrapping_sub(began));
        result
    }

    /// Notes that the kernel took so many ticks for so many bytes.
    fn note(&mut self, bytes: u64, ticks: u64) {
        // A counter that stands still says nothing.
        if !(BYTES_MIN..=BYTES_MAX).contains(&bytes) || ticks == 0 {
            return;
        }
        let took = u128::from(ticks) * u128::from(PS_PER_TICK) * u128::from(WHOLE);
        let share = |costs: &CostModel| u64::try_from(took / costs.kernel_copy().of(bytes).max(1)).unwrap_or(u64::MAX);
        self.shares.push([share(&self.costs), share(&CostModel::BUILT_IN)]);
        if self.shares.len() == SAMPLES {
            self.judge();
        }
    }

    fn judge(&mut self) {
        weft_ordered::sort(&mut self.shares);
        let [share, of_built_in] = self.shares[JUDGE];
        self.shares.clear();
        if share > TOO_QUICK && share < TOO_SLOW {
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
            let interrupted = if (number / EVERY).is_multiple_of(4) { 2_500_000 } else { 0 };
            refinement.copy(bytes, ticks, || NOW.set(NOW.get() + took + interrupted));
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

    /// Cold memory, a short copy, a long one, a counter that stands still.   Expect: the model stays.
    #[test]
    fn what_is_no_fault_of_the_model_changes_nothing() {
        let cold = CostModel { kernel_copy_per_byte_ps: 250, ..CostModel::BUILT_IN };
        let mut refinement = Refinement::new(CostModel::BUILT_IN);
        assert_eq!(run(&mut refinement, &cold, 128 << 10, 10_000), None);
        let mut refinement = Refinement::new(CostModel::BUILT_IN);
        assert_eq!(run(&mut refinement, &INTEL, 8 << 10, 10_000), None);
        assert_eq!(run(&mut refinement, &INTEL, 1 << 20, 10_000), None);
        for _ in 0..10_000 {
            refinement.copy(64 << 10, || 7, || ());
        }
        assert_eq!(refinement.take(), None);
    }

    #[test]
    fn costs_beyond_all_bounds_stay_costs() {
        let most = CostModel { kernel_copy_ps: super::super::COST_PS_MAX, ..CostModel::BUILT_IN };
        let mut refinement = Refinement::new(CostModel { kernel_copy_ps: 0, kernel_copy_per_byte_ps: 0, ..most });
        let refined = run(&mut refinement, &most, 64 << 10, EVERY * SAMPLES as u32).expect("it is far off");
        assert_eq!(CostModel::from_values(&refined.values().collect::<Vec<_>>()), Some(refined));
    }
}
