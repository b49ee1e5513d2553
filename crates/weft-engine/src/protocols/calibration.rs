//! The costs of this machine, from a calibration: two processes of a node move a few messages at their
//! start, and time them.
//!
//! The carrier moves the bytes and fills [`CalibrationSamples`]. This module turns them into a
//! [`CostModel`], or says that they contradict each other.
//!
//! A calibration moves a few sizes through warm caches, and messages of programs do not. So no cost is taken
//! from a calibration directly. The built-in costs come from messages on one machine, and on that machine a
//! calibration finds [`REFERENCE`]. Another machine's costs are the built-in ones times what its calibration
//! finds, divided by the reference. Costs of parts that a calibration does not see keep their values.

use std::fmt;

use super::costs::Cost;
use super::{COST_PS_MAX, CostModel};

/// The bytes of the short message that the kernel copies.
pub const CALIBRATION_SHORT_BYTES: u64 = 16 << 10;
/// The bytes of a long message. Where both sides copy, each copies half of it. A longer one would say no
/// more, and all of its memory is new: a virtual machine may need 10 µs and more for each page of that.
pub const CALIBRATION_LONG_BYTES: u64 = 64 << 10;
/// The bytes of a piece of a message that goes through the ring.
pub const CALIBRATION_PIECE_BYTES: u64 = 8 << 10;
/// The bytes of the time of a long message through the ring: one end copies the first piece while the other
/// end has nothing to do yet.
const RING_TIME_BYTES: u64 = CALIBRATION_LONG_BYTES + CALIBRATION_PIECE_BYTES;
/// The rounds without which a calibration says nothing.
pub const CALIBRATION_ROUNDS_MIN: usize = 3;
/// The most rounds of a calibration.
pub const CALIBRATION_ROUNDS_MAX: usize = 9;
/// The median of some times may be this much of their lower quartile, in percent. Where it is more,
/// something else had the processors.
const MEDIAN_PERCENT_MAX: u64 = 150;

/// What a calibration finds, as costs.
struct Found {
    /// A question and a frame of a few bytes as its answer.
    small_frame_ns: u64,
    kernel_copy: Cost,
    /// Of each byte of a message of which both sides copy a half.
    both_per_byte_ps: u64,
    ring_near_per_byte_ps: u64,
    ring_far_per_byte_ps: u64,
}

/// The findings of calibrations on the machine of the built-in costs, an AMD EPYC with two processors. Its
/// caches are near each other or far from each other, and this changes within seconds. The near figures are
/// medians of seven jobs on the idle machine. The far figure is the median of six calibrations. All were
/// found with long messages of 128 KiB; those of the ring are without the time of the first piece.
const REFERENCE: Found = Found {
    small_frame_ns: 130,
    kernel_copy: Cost { fixed_ps: 1_480_000, per_byte_ps: 64 },
    both_per_byte_ps: 34,
    ring_near_per_byte_ps: 31,
    ring_far_per_byte_ps: 72,
};

/// The times of copies by the kernel, in nanoseconds; 0 where it may not copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelTimes {
    /// The kernel copies a short message.
    pub short_ns: u64,
    /// The kernel copies a long message.
    pub long_ns: u64,
    /// The kernel copies half of a long message for each of two processes at the same time.
    pub both_ns: u64,
}

/// The reason why a calibration says nothing of the machine; it reads as one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disturbed {
    /// There was time for so few rounds.
    Rounds(usize),
    /// The times of one kind, in nanoseconds, differ too much.
    Differ {
        /// What took these times.
        what: &'static str,
        /// The lower quartile.
        quartile: u64,
        /// The median.
        median: u64,
    },
}

impl fmt::Display for Disturbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rounds(rounds) => write!(f, "there was time for {rounds} rounds of {CALIBRATION_ROUNDS_MIN}"),
            Self::Differ { what, quartile, median } => {
                write!(f, "the times of {what} differ too much, from {quartile} to {median} ns and more")
            }
        }
    }
}

impl KernelTimes {
    /// The lower quartiles of these times.
    ///
    /// # Errors
    /// The times differ too much.
    fn quartiles(times: impl Iterator<Item = Self> + Clone) -> Result<Self, Disturbed> {
        let one = |of: fn(Self) -> u64, what| quartile(times.clone().map(of).collect(), what);
        Ok(Self {
            short_ns: one(|times| times.short_ns, "a short copy")?,
            long_ns: one(|times| times.long_ns, "a long copy")?,
            both_ns: one(|times| times.both_ns, "two copies at once")?,
        })
    }
}

/// The times of a round, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CalibrationRound {
    /// The copies of data that its sender has just written.
    pub written: KernelTimes,
    /// The copies of the same data once more.
    pub again: KernelTimes,
    /// A question and, as its answer, a frame of a few bytes.
    pub small_frame_ns: u64,
    /// A question and, as its answer, a long message through a ring, in pieces of
    /// [`CALIBRATION_PIECE_BYTES`].
    pub ring_ns: u64,
}

/// The rounds of a calibration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalibrationSamples {
    /// The rounds, at most [`CALIBRATION_ROUNDS_MAX`].
    pub rounds: Vec<CalibrationRound>,
    /// Set if plain stores to the ring were quick: its two processors share a cache.
    pub is_near: bool,
}

impl CalibrationSamples {
    /// The costs of the machine, in which all parts that the calibration does not see are those of `others`.
    ///
    /// # Errors
    /// There are too few rounds, or their times differ too much.
    pub fn costs(&self, others: &CostModel) -> Result<CostModel, Disturbed> {
        if self.rounds.len() < CALIBRATION_ROUNDS_MIN {
            return Err(Disturbed::Rounds(self.rounds.len()));
        }
        let time = |of: fn(&CalibrationRound) -> u64, what| quartile(self.rounds.iter().map(of).collect(), what);
        let small = time(|round| round.small_frame_ns, "a small frame")?;
        let ring_ns = time(|round| round.ring_ns, "a ring")?.saturating_sub(small);
        let ring = each_ps(ring_ns, RING_TIME_BYTES);
        let built_in = CostModel::BUILT_IN;
        // Which stores the writer used says which kind of pair the two processors are. The cost of the other
        // kind is a guess.
        let (ring_near_per_byte_ps, ring_far_per_byte_ps) = if self.is_near {
            let near = scaled(built_in.ring_near_per_byte_ps, ring, REFERENCE.ring_near_per_byte_ps);
            (near, near.max(built_in.ring_far_per_byte_ps))
        } else {
            let scaled = |cost| scaled(cost, ring, REFERENCE.ring_far_per_byte_ps);
            (scaled(built_in.ring_near_per_byte_ps), scaled(built_in.ring_far_per_byte_ps))
        };
        let mut costs = CostModel {
            ring_near_per_byte_ps,
            ring_far_per_byte_ps,
            ring_answer_ps: scaled(built_in.ring_answer_ps, small, REFERENCE.small_frame_ns),
            ..*others
        };
        let written = KernelTimes::quartiles(self.rounds.iter().map(|round| round.written))?;
        let again = KernelTimes::quartiles(self.rounds.iter().map(|round| round.again))?;
        // Where the two kinds of data differ that much, as on an Intel Xeon of 2025, the program decides
        // which kind it has. A model that is too good for the kernel is mended after some copies. One that
        // is too bad hardly ever is: nobody then tries.
        let kernel = if again.long_ns * 2 < written.long_ns { again } else { written };
        let KernelTimes { short_ns: short, long_ns: long, both_ns: both } = kernel;
        // Where the kernel may not copy, its costs do not count.
        if ![short, long, both].contains(&0) {
            let copy = line((CALIBRATION_SHORT_BYTES, short), (CALIBRATION_LONG_BYTES, long));
            let both = each_ps(both.saturating_sub(small + copy.fixed_ps / 1000), CALIBRATION_LONG_BYTES);
            let reference = REFERENCE.kernel_copy;
            costs.kernel_copy_ps = scaled(built_in.kernel_copy_ps, copy.fixed_ps, reference.fixed_ps);
            costs.kernel_copy_per_byte_ps =
                scaled(built_in.kernel_copy_per_byte_ps, copy.per_byte_ps, reference.per_byte_ps);
            // The kernel's copy takes each line from the other processor once, as a ring does. If the ring
            // is much quicker, then copying limits it and not the lines, and no pair of processors is
            // quicker.
            if !self.is_near && costs.ring_far_per_byte_ps * 4 < costs.kernel_copy_per_byte_ps * 3 {
                costs.ring_near_per_byte_ps = costs.ring_far_per_byte_ps;
            }
            // Dividing the message between the two sides costs beside the calls what it costs elsewhere.
            let dividing = built_in.cooperative_copy_ps - built_in.kernel_copy_ps;
            costs.cooperative_copy_ps = costs.kernel_copy_ps + dividing;
            costs.cooperative_copy_per_byte_ps =
                scaled(built_in.cooperative_copy_per_byte_ps, both, REFERENCE.both_per_byte_ps);
        }
        // Two copies one after the other are no quicker than two at once. That they keep a program from
        // computing is in this cost, too, and is the same everywhere.
        costs.ring_in_turn_per_byte_ps = costs.ring_in_turn_per_byte_ps.max(2 * costs.ring_near_per_byte_ps);
        Ok(costs)
    }
}

/// A built-in cost, as much larger or smaller as what was found is than the reference.
fn scaled(built_in: u64, found: u64, reference: u64) -> u64 {
    let scaled = u128::from(built_in) * u128::from(found) / u128::from(reference);
    u64::try_from(scaled).unwrap_or(COST_PS_MAX).clamp(1, COST_PS_MAX)
}

/// The lower quartile of these times: interruptions only make times longer.
///
/// # Errors
/// The times differ too much.
fn quartile(mut times: Vec<u64>, what: &'static str) -> Result<u64, Disturbed> {
    weft_ordered::sort(&mut times);
    let (quartile, median) = (times[times.len() / 4], times[times.len() / 2]);
    if median * 100 > quartile * MEDIAN_PERCENT_MAX {
        return Err(Disturbed::Differ { what, quartile, median });
    }
    Ok(quartile)
}

/// The picoseconds of each of `bytes` bytes that took so long, at least one.
fn each_ps(nanoseconds: u64, bytes: u64) -> u64 {
    ((nanoseconds * 1000 + bytes / 2) / bytes).max(1)
}

/// The line through two points, of (bytes, nanoseconds). None of its parts is below zero.
fn line((short, short_ns): (u64, u64), (long, long_ns): (u64, u64)) -> Cost {
    let per_byte_ps = each_ps(long_ns.saturating_sub(short_ns), long - short);
    let fixed_ps = (short_ns * 1000).saturating_sub(per_byte_ps * short);
    Cost { fixed_ps, per_byte_ps }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::{Choices, PeerClass, Protocol, RouteClass, Situation};

    /// The rounds of a machine with these costs: a call by which the kernel copies in nanoseconds, and for
    /// each byte picoseconds of such copies, of those by both sides, and of a ring.
    fn machine(call_ns: u64, kernel_ps: u64, both_ps: u64, ring_ps: u64) -> CalibrationSamples {
        let built_in = CostModel::BUILT_IN;
        let found = |cost: u64, reference, built_in| scaled(reference, cost, built_in);
        let call_ps = found(call_ns * 1000, REFERENCE.kernel_copy.fixed_ps, built_in.kernel_copy_ps);
        let ns = |per_byte_ps, reference, built_in, bytes| per_byte_ps * bytes * reference / built_in / 1000;
        let kernel = |bytes| {
            let (reference, built_in) = (REFERENCE.kernel_copy.per_byte_ps, built_in.kernel_copy_per_byte_ps);
            call_ps / 1000 + ns(kernel_ps, reference, built_in, bytes)
        };
        let (small_frame_ns, long) = (REFERENCE.small_frame_ns, CALIBRATION_LONG_BYTES);
        let kernel = KernelTimes {
            short_ns: kernel(CALIBRATION_SHORT_BYTES),
            long_ns: kernel(long),
            both_ns: small_frame_ns
                + call_ps / 1000
                + ns(both_ps, REFERENCE.both_per_byte_ps, built_in.cooperative_copy_per_byte_ps, long),
        };
        let round = CalibrationRound {
            written: kernel,
            again: kernel,
            small_frame_ns,
            ring_ns: small_frame_ns
                + ns(ring_ps, REFERENCE.ring_near_per_byte_ps, built_in.ring_near_per_byte_ps, RING_TIME_BYTES),
        };
        CalibrationSamples { rounds: vec![round; CALIBRATION_ROUNDS_MIN], is_near: true }
    }

    /// The cost of a message for which both sides wait, by the protocol that `chosen` costs take, but in
    /// picoseconds of `real` costs; and the least cost of all protocols that are possible.
    fn taken_and_best(chosen: CostModel, real: CostModel, bytes: u64) -> (Protocol, u128, u128) {
        let route = RouteClass::Ring { frame_max: 1 << 20, is_near: true, is_copied: true };
        let class = PeerClass { route, eager_limit: 64 << 10 };
        let situation = Situation::BOTH_WAIT;
        let mut choices = Choices::new(chosen);
        let ranges = choices.ranges(&class, &situation);
        let protocol = ranges.iter().find(|range| bytes <= range.bytes_max).expect("the last has no end").protocol;
        let offers = crate::protocols::offers(&class, &situation, &real);
        let possible = offers.iter().filter(|(_, offer)| offer.sizes.contains(&bytes));
        let costs: Vec<_> = possible.map(|(row, offer)| (row.protocol, offer.cost.of(bytes))).collect();
        let cost = costs.iter().find(|(one, _)| *one == protocol).expect("what is taken is possible").1;
        (protocol, cost, costs.iter().map(|(_, cost)| *cost).min().unwrap_or(cost))
    }

    /// Six machines. Two were measured. On one, a sandbox makes each system call take 50 µs. One has no
    /// shared cache, one has a kernel that copies at the speed of light, and one has slow memory.   Expect:
    /// at each size from 16 KiB on the protocol that is taken costs at most 5 % more than the best.
    #[test]
    fn the_choice_is_within_a_twentieth_of_the_best_on_every_kind_of_machine() {
        let kinds = [
            (1_000, 84, 48, 36),
            (400, 33, 33, 62),
            (50_000, 84, 48, 36),
            (1_000, 200, 120, 400),
            (10, 1, 1, 40),
            (2_000, 900, 700, 800),
        ];
        for (call_ns, kernel_ps, both_ps, ring_ps) in kinds {
            let found = machine(call_ns, kernel_ps, both_ps, ring_ps).costs(&CostModel::BUILT_IN).expect("steady");
            let real = CostModel {
                kernel_copy_ps: call_ns * 1000,
                kernel_copy_per_byte_ps: kernel_ps,
                cooperative_copy_ps: call_ns * 1000 + 2_359_296,
                cooperative_copy_per_byte_ps: both_ps,
                ring_in_turn_per_byte_ps: CostModel::BUILT_IN.ring_in_turn_per_byte_ps.max(2 * ring_ps),
                ring_near_per_byte_ps: ring_ps,
                ..CostModel::BUILT_IN
            };
            for bytes in (14..26).flat_map(|power| [1 << power, 3 << (power - 1)]) {
                let (protocol, cost, best) = taken_and_best(found, real, bytes);
                assert!(cost * 100 <= best * 105, "{bytes} bytes on {real:?}: {protocol:?} costs {cost} of {best}");
            }
        }
    }

    #[test]
    fn the_two_kinds_of_machine_take_different_protocols() {
        let taken = |samples: CalibrationSamples, bytes| {
            let costs = samples.costs(&CostModel::BUILT_IN).expect("steady");
            taken_and_best(costs, costs, bytes).0
        };
        for bytes in [80 << 10, 256 << 10, 400 << 10] {
            assert_eq!(taken(machine(1_000, 84, 48, 36), bytes), Protocol::Pipeline, "{bytes} bytes, AMD");
            assert_eq!(taken(machine(400, 33, 33, 62), bytes), Protocol::Fetch, "{bytes} bytes, Intel");
        }
    }

    /// Two processors that share a cache, and two that share none, on an AMD EPYC and on an Intel Xeon.
    /// Expect: the pair's own cost is what was found. The cost of the other kind is in proportion on AMD,
    /// and the same on Intel, where the ring is much quicker than the kernel.
    #[test]
    fn a_pair_says_what_a_ring_costs_there_and_the_cost_of_the_other_kind_is_guessed() {
        let (amd, intel) = (84, 120);
        for (kernel_ps, ring_ps, is_near, expected) in [
            (amd, 36, true, [36, 73]),
            (amd, 73, false, [36, 73]),
            (intel, 80, true, [80, 80]),
            (intel, 80, false, [80, 80]),
        ] {
            let mut samples = CalibrationSamples { is_near, ..machine(1_000, kernel_ps, 48, ring_ps) };
            if !is_near {
                for round in &mut samples.rounds {
                    round.ring_ns = round.small_frame_ns + ring_ps * 72 / 73 * RING_TIME_BYTES / 1000;
                }
            }
            let costs = samples.costs(&CostModel::BUILT_IN).expect("steady");
            for (found, expected) in [costs.ring_near_per_byte_ps, costs.ring_far_per_byte_ps].into_iter().zip(expected)
            {
                assert!(found.abs_diff(expected) <= 4, "{found} for {expected}");
            }
        }
    }

    /// Copies of the same data that are a little quicker, as on an AMD EPYC, and much quicker, as on an
    /// Intel Xeon.   Expect: the costs of data that was just written, and then those of the same data.
    #[test]
    fn copies_of_the_same_data_count_where_they_are_much_quicker() {
        let [slow, quick] = [120, 40].map(|kernel_ps| machine(1_000, kernel_ps, kernel_ps / 2, 80));
        let costs = |percent: u64| {
            let mut samples = slow.clone();
            for round in &mut samples.rounds {
                let KernelTimes { short_ns, long_ns, both_ns } = round.again;
                let [short_ns, long_ns, both_ns] = [short_ns, long_ns, both_ns].map(|time| time * percent / 100);
                round.again = KernelTimes { short_ns, long_ns, both_ns };
            }
            samples.costs(&CostModel::BUILT_IN)
        };
        assert_eq!(costs(60), slow.costs(&CostModel::BUILT_IN));
        let mut samples = slow.clone();
        samples.rounds.iter_mut().zip(&quick.rounds).for_each(|(round, quick)| round.again = quick.again);
        assert_eq!(samples.costs(&CostModel::BUILT_IN), quick.costs(&CostModel::BUILT_IN));
    }

    #[test]
    fn the_machine_of_the_built_in_costs_has_them() {
        let costs = machine(1_048, 84, 48, 36).costs(&CostModel::BUILT_IN).expect("steady");
        for ((name, _), (found, built_in)) in
            CostModel::MEANINGS.iter().zip(costs.values().zip(CostModel::BUILT_IN.values()))
        {
            assert!(found.abs_diff(built_in) * 50 <= built_in, "{name}: {found} for {built_in}");
        }
    }

    /// A kernel that refuses copies.   Expect: the ring's costs are found, those of the kernel stay.
    #[test]
    fn copies_that_are_forbidden_keep_their_costs() {
        let mut samples = machine(1_000, 84, 48, 72);
        for round in &mut samples.rounds {
            (round.written, round.again) = Default::default();
        }
        let costs = samples.costs(&CostModel::BUILT_IN).expect("steady");
        assert_eq!((costs.kernel_copy(), costs.ring_near_per_byte_ps), (CostModel::BUILT_IN.kernel_copy(), 72));
    }

    #[test]
    fn a_calibration_that_was_disturbed_says_so() {
        let mut samples = machine(1_000, 84, 48, 36);
        samples.rounds[0].ring_ns /= 2;
        let said = samples.costs(&CostModel::BUILT_IN).expect_err("one time is half of the others").to_string();
        assert!(said.contains("a ring differ too much"), "{said}");
        // A single round that was interrupted does not count.
        let mut samples = machine(1_000, 84, 48, 36);
        samples.rounds[1].ring_ns *= 100;
        assert_eq!(samples.costs(&CostModel::BUILT_IN), machine(1_000, 84, 48, 36).costs(&CostModel::BUILT_IN));
        samples.rounds.pop();
        let said = samples.costs(&CostModel::BUILT_IN).expect_err("two rounds").to_string();
        assert!(said.contains("time for 2 rounds of 3"), "{said}");
    }
}
