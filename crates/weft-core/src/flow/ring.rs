//! A bit set over the packets of a window; a packet number selects the bit. The set grows with the range of
//! its packets.

use super::settings::WINDOW_MAX;
use crate::wire::Number;
use alloc::boxed::Box;
use alloc::vec;

/// Words of a ring on a short path.
const WORDS: usize = WINDOW_MAX as usize / 64;

/// A set of packet numbers, none of which is far before the newest.
#[derive(Debug)]
pub(super) struct Ring {
    /// Bit `number % (64 × words)` belongs to a packet. At least one word beyond the held packets is clear,
    /// so that the word of the newest is not that of the oldest.
    words: Box<[u64]>,
    /// One past the newest number that was ever in the set. The bits of numbers from there on are those of
    /// older ones.
    end: Option<Number>,
}

impl Default for Ring {
    fn default() -> Self {
        Self { words: vec![0; WORDS].into(), end: None }
    }
}

impl Ring {
    pub(super) fn has(&self, number: Number) -> bool {
        self.word(number) & bit(number) != 0
    }

    /// Sets the bit of a number; neither it nor any number of the set is before `base`.
    pub(super) fn set(&mut self, base: Number, number: Number) {
        let words = (number.since(base).max(0) as usize + 64) / 64 + 1;
        if words > self.words.len() {
            self.grow(base, words.next_power_of_two());
        }
        let index = self.index(number);
        self.words[index] |= bit(number);
        if self.is_beyond(number) {
            self.end = Some(number.plus(1));
        }
    }

    /// Returns whether all numbers of the set are before this one.
    fn is_beyond(&self, number: Number) -> bool {
        self.end.is_none_or(|end| !end.is_after(number))
    }

    #[cold]
    fn grow(&mut self, base: Number, words: usize) {
        let mut longer = Self { words: vec![0; words].into(), end: self.end };
        let start = Number(base.0 & !63);
        for number in (0..self.words.len() as u32).map(|word| start.plus(64 * word)) {
            let index = longer.index(number);
            longer.words[index] = self.word(number);
        }
        *self = longer;
    }

    /// Clears a bit; true if it was set.
    pub(super) fn take(&mut self, number: Number) -> bool {
        let had = self.has(number);
        if had {
            let index = self.index(number);
            self.words[index] &= !bit(number);
        }
        had
    }

    /// The word that holds a number's bit: bit 0 is that of the multiple of 64 at or below the number.
    pub(super) fn word(&self, number: Number) -> u64 {
        if self.is_beyond(Number(number.0 & !63)) { 0 } else { self.words[self.index(number)] }
    }

    /// The 64 bits from `first` on.
    pub(super) fn bits_from(&self, first: Number) -> u64 {
        let shift = first.0 % 64;
        let low = self.word(first) >> shift;
        // Two shifts, because shifting by 64 in one is not defined.
        let high = self.word(first.plus(64)) << (63 - shift) << 1;
        low | high
    }

    /// The number of packets from `first` on, at most `most`, whose bits all equal that of `first`.
    pub(super) fn alike_from(&self, first: Number, most: u32) -> u32 {
        let set = self.has(first);
        let mut alike = 0;
        while alike < most {
            let bits = self.bits_from(first.plus(alike));
            let more = if set { bits.trailing_ones() } else { bits.trailing_zeros() };
            alike += more;
            if more < 64 {
                break;
            }
        }
        alike.min(most)
    }

    /// Bytes allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.words)
    }

    fn index(&self, number: Number) -> usize {
        // The number of words is a power of two: numbers go round in it.
        (number.0 as usize / 64) & (self.words.len() - 1)
    }
}

const fn bit(number: Number) -> u64 {
    1 << (number.0 % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_grows_with_what_is_in_it_and_forgets_nothing() {
        let mut ring = Ring::default();
        let base = Number(u32::MAX - 1_000);
        let kept: alloc::vec::Vec<u32> = (1..300_000).filter(|distance| distance % 7 == 3).collect();
        for distance in &kept {
            ring.set(base, base.plus(*distance));
        }
        assert_eq!(ring.memory_bytes(), size_of::<Ring>() + (1 << 19) / 8);
        for distance in 0..300_000 {
            assert_eq!(ring.take(base.plus(distance)), distance % 7 == 3, "{distance}");
        }
    }

    /// Ask for numbers as far beyond the newest as the ring is long, which have the bits of those in the set.
    /// Expect: none of them is in the set, however it is asked.
    #[test]
    fn a_number_beyond_the_newest_is_not_taken_for_an_old_one() {
        let mut ring = Ring::default();
        let base = Number(u32::MAX - 100);
        (1..2_000).for_each(|distance| ring.set(base, base.plus(distance)));
        for number in (2_000..9_000).map(|distance| base.plus(distance)) {
            assert!(!ring.has(number) && !ring.take(number) && ring.bits_from(number) == 0, "{number:?}");
            assert!(ring.alike_from(number, 10_000) == 10_000, "{number:?}");
        }
        assert!((1..2_000).all(|distance| ring.take(base.plus(distance))));
    }

    #[test]
    fn runs_are_measured_across_words_and_the_end_of_the_ring() {
        let mut ring = Ring::default();
        let base = Number(u32::MAX - 70);
        (5..1_500).for_each(|distance| ring.set(base, base.plus(distance)));
        assert_eq!(ring.alike_from(base, 2_000), 5);
        assert_eq!(ring.alike_from(base.plus(5), 2_000), 1_495);
        assert_eq!(ring.alike_from(base.plus(5), 100), 100);
        assert_eq!(ring.alike_from(base.plus(1_500), 300), 300);
    }
}
