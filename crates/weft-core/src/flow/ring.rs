//! A bit set over the packets of a window; a packet number selects the bit.

use super::settings::WINDOW_MAX;
use crate::wire::Number;

/// Words of the ring.
pub(super) const WORDS: usize = WINDOW_MAX as usize / 64;

/// Bit `number % WINDOW_MAX` belongs to a packet.
#[derive(Debug)]
pub(super) struct Ring([u64; WORDS]);

impl Default for Ring {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl Ring {
    pub(super) const fn has(&self, number: Number) -> bool {
        self.word(number) & bit(number) != 0
    }

    pub(super) const fn set(&mut self, number: Number) {
        self.0[index(number)] |= bit(number);
    }

    /// Clears a bit; true if it was set.
    pub(super) const fn take(&mut self, number: Number) -> bool {
        let had = self.has(number);
        self.0[index(number)] &= !bit(number);
        had
    }

    /// The word that holds a number's bit: bit 0 is that of the multiple of 64 at or below the number.
    pub(super) const fn word(&self, number: Number) -> u64 {
        self.0[index(number)]
    }

    /// The 64 bits from `first` on.
    pub(super) const fn bits_from(&self, first: Number) -> u64 {
        let shift = first.0 % 64;
        let low = self.word(first) >> shift;
        // Two shifts, because shifting by 64 in one is not defined.
        let high = self.word(first.plus(64)) << (63 - shift) << 1;
        low | high
    }
}

const fn index(number: Number) -> usize {
    (number.0 % WINDOW_MAX / 64) as usize
}

const fn bit(number: Number) -> u64 {
    1 << (number.0 % 64)
}
