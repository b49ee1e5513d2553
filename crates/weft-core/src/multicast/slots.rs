//! Acknowledgements that receivers write into the root's memory by themselves, by RDMA: a number in a slot of
//! each receiver. No packet is sent, and nothing wakes the root.
//!
//! A slot tells as much as an acknowledgement without gaps. A member that lacks a packet asks for it by a
//! packet, and questions are answered by packets. So the stream goes on even if a write is lost.

use alloc::vec;
use alloc::vec::Vec;

/// Bytes of a slot.
pub const SLOT_BYTES: u64 = 8;
/// Most times that a member which acknowledges by packets is told of its slot: the member may be unable to
/// write.
const OFFERS_MAX: u8 = 8;
/// Bits of the number in a slot. The other bits are a check of the number, since a half-written word is no
/// number.
const NUMBER_BITS: u32 = 48;

/// The word that stands for a number.
pub(super) fn word(number: u64) -> u64 {
    let number = number & ((1 << NUMBER_BITS) - 1);
    number | check(number) << NUMBER_BITS
}

fn check(number: u64) -> u64 {
    // No number has the check 0: an empty slot is none.
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> NUMBER_BITS) | 1
}

/// The number that a word stands for; `None`: the word stands for none.
fn number(word: u64) -> Option<u64> {
    let number = word & ((1 << NUMBER_BITS) - 1);
    (word >> NUMBER_BITS == check(number)).then_some(number)
}

/// The state of the slot of one member.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The last word that was looked at.
    seen: u64,
    number: u64,
    offers: u8,
}

/// The slots of the members, as the root knows them.
pub(super) struct Slots(Vec<Slot>);

/// The result of a look at a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// No new word, or a word that is still being written.
    Nothing,
    /// The packets before this one have arrived.
    Progress(u64),
    /// A word that no member writes: its number goes back, or is ahead of the packets that have been sent.
    Wrong,
}

impl Slots {
    pub(super) fn new(members: u32) -> Self {
        Self(vec![Slot::default(); members as usize])
    }

    /// Looks at the word in the slot of `member`; `sent`: the packets before this one have left.
    pub(super) fn look(&mut self, member: u32, word: u64, sent: u64) -> Look {
        let Some(slot) = self.0.get_mut(member as usize).filter(|slot| slot.seen != word) else { return Look::Nothing };
        let Some(number) = number(word) else { return Look::Nothing };
        slot.seen = word;
        if number < slot.number || number > sent {
            return Look::Wrong;
        }
        slot.number = number;
        Look::Progress(number)
    }

    /// Returns whether to tell `member`, which has acknowledged by a packet, of its slot.
    pub(super) fn offers(&mut self, member: u32) -> bool {
        let Some(slot) = self.0.get_mut(member as usize) else { return false };
        let offers = slot.number == 0 && slot.offers < OFFERS_MAX;
        slot.offers += u8::from(offers);
        offers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_back_and_other_words_are_hardly_ever_numbers(written in 0u64..1 << NUMBER_BITS, bit in 0u32..64) {
            prop_assert_eq!(number(word(written)), Some(written));
            prop_assert!(word(written) != 0);
            let damaged = word(written) ^ 1 << bit;
            // A flipped bit of the number changes more than one bit of the check.
            prop_assert!(number(damaged).is_none() || damaged >> NUMBER_BITS == check(damaged & ((1 << NUMBER_BITS) - 1)));
        }
    }

    #[test]
    fn a_slot_goes_forward_within_what_was_sent_and_anything_else_is_not_believed() {
        let mut slots = Slots::new(3);
        assert_eq!(slots.look(1, 0, 100), Look::Nothing, "nobody has written");
        assert_eq!(slots.look(1, word(40), 100), Look::Progress(40));
        assert_eq!(slots.look(1, word(40), 100), Look::Nothing, "the same");
        assert_eq!(slots.look(1, word(101), 100), Look::Wrong, "nobody has a packet that has not left");
        assert_eq!(slots.look(1, word(101), 100), Look::Nothing, "it is counted once");
        assert_eq!(slots.look(1, word(39), 100), Look::Wrong, "it goes back");
        assert_eq!(slots.look(1, word(41) ^ 1 << 60, 100), Look::Nothing, "half of it is written");
        assert_eq!(slots.look(1, word(41), 100), Look::Progress(41));
        assert_eq!(slots.look(2, word(100), 100), Look::Progress(100));
        assert_eq!(slots.look(3, word(100), 100), Look::Nothing, "there is no such member");
    }

    #[test]
    fn who_does_not_write_is_told_a_few_times_and_who_does_never_again() {
        let mut slots = Slots::new(3);
        assert_eq!((0..100).filter(|_| slots.offers(1)).count(), usize::from(OFFERS_MAX));
        assert!(slots.offers(2));
        slots.look(2, word(7), 10);
        assert!(!slots.offers(2) && !slots.offers(3));
    }
}
