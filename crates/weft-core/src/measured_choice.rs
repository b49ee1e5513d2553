//! The choice between two ways of moving the same bytes, by the times that both have taken.
//!
//! Which is quicker depends on the machine, the network, and on who else uses them, so both are measured. The
//! quicker way is taken. The slower one is tried again now and then, the more rarely the slower it was: tries
//! take about one part in a hundred of the time.

use crate::time::Duration;

/// The measurements of each way before the quicker one is taken.
const MEASURED_MIN: u32 = 3;
/// The fewest choices between two tries of the slower way.
const TRY_AFTER_MIN: u64 = 32;
/// The most choices between two tries of the slower way.
const TRY_AFTER_MAX: u64 = 100_000;
/// The number of tries in a row: the first one may find the way cold.
const TRIES: u64 = 2;
/// The number of choices in which the time of one try that takes twice as long goes unnoticed.
const UNNOTICED_AMONG: u64 = 100;
/// The number of times that the choices between two tries double while tries change nothing.
const DOUBLINGS_MAX: u32 = 4;

/// The time of a byte by one of the ways, as far as it has been measured.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    /// Picoseconds.
    per_byte: u64,
    measured: u32,
}

impl Estimate {
    /// Takes in a measurement. What is in the way of messages makes them late, and never early, so the
    /// estimate follows quick ones sooner than slow ones.
    fn measure(&mut self, per_byte: u64) {
        let known = self.per_byte;
        self.per_byte = match self.measured {
            0 => per_byte,
            _ if self.measured <= MEASURED_MIN => known.min(per_byte),
            _ if per_byte < known => u64::midpoint(known, per_byte),
            _ => known + (per_byte.min(known.saturating_mul(2)) - known) / 16,
        };
        self.measured = self.measured.saturating_add(1);
    }

    /// The picoseconds of a byte, once they are known.
    fn known(&self) -> Option<u64> {
        (self.measured >= MEASURED_MIN).then_some(self.per_byte)
    }
}

/// What is known of two ways, the first and the second, of moving messages of similar length.
#[derive(Clone, Copy, Debug, Default)]
pub struct MeasuredChoice {
    estimates: [Estimate; 2],
    /// The choices since the last try of the slower way.
    choices: u64,
    /// The number of tries since the quicker way was another.
    tries: u32,
    /// The way that was the quicker one at the last choice: the second one, or not.
    quicker: Option<bool>,
}

impl MeasuredChoice {
    /// Chooses the way to be taken next. Returns whether it is the second one, which is tried before the
    /// first.
    pub fn choose(&mut self) -> bool {
        let [Some(first), Some(second)] = self.known() else { return self.known()[1].is_none() };
        let quicker = second <= first;
        if self.quicker.replace(quicker) != Some(quicker) {
            (self.choices, self.tries) = (0, 0);
        }
        self.choices += 1;
        let tries_from = try_after(first.min(second), first.max(second), self.tries);
        if self.choices < tries_from {
            return quicker;
        }
        if self.choices + 1 >= tries_from + TRIES {
            (self.choices, self.tries) = (0, self.tries + 1);
        }
        !quicker
    }

    /// Notes the time that `bytes` bytes have taken by one of the ways.
    pub fn measure(&mut self, by_second: bool, time: Duration, bytes: u64) {
        let per_byte = time.0.saturating_mul(1000) / bytes.max(1);
        self.estimates[usize::from(by_second)].measure(per_byte.max(1));
    }

    /// The picoseconds of a byte by each way, as far as they are known.
    pub fn known(&self) -> [Option<u64>; 2] {
        self.estimates.map(|estimate| estimate.known())
    }
}

/// The choices for messages of all lengths. Messages are told apart by the power of two that is not larger,
/// from the exponent `FIRST` on; the last of the `CLASSES` classes has all longer messages.
#[derive(Clone, Copy, Debug)]
pub struct ChoiceBySize<const FIRST: u32, const CLASSES: usize>([MeasuredChoice; CLASSES]);

impl<const FIRST: u32, const CLASSES: usize> Default for ChoiceBySize<FIRST, CLASSES> {
    fn default() -> Self {
        Self([MeasuredChoice::default(); CLASSES])
    }
}

impl<const FIRST: u32, const CLASSES: usize> ChoiceBySize<FIRST, CLASSES> {
    const fn class(bytes: u64) -> usize {
        let class = (bytes | 1).ilog2().saturating_sub(FIRST) as usize;
        if class < CLASSES { class } else { CLASSES - 1 }
    }

    /// The choice for messages of `bytes` bytes.
    pub fn of(&self, bytes: u64) -> &MeasuredChoice {
        &self.0[Self::class(bytes)]
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, bytes: u64) -> &mut MeasuredChoice {
        &mut self.0[Self::class(bytes)]
    }
}

/// The number of choices until the slower way is tried again, if a byte takes these times.
fn try_after(quick: u64, slow: u64, tries: u32) -> u64 {
    let lost = (slow - quick).saturating_mul(UNNOTICED_AMONG * TRIES) / quick;
    (lost.clamp(TRY_AFTER_MIN, TRY_AFTER_MAX) << tries.min(DOUBLINGS_MAX)).min(TRY_AFTER_MAX)
}
