//! A cooperative copy: a large message that its sender and its receiver copy at the same time, each a part.
//!
//! The receiver begins: it writes down the address of its buffer, and takes pieces from the front. Meanwhile
//! the sender takes pieces from the back. A side takes a piece by a compare-and-swap of the range that is
//! left. A piece is half of that range, so that a side that comes late still finds work, and few system calls
//! are made. The message is complete once every unit of it has been copied. A pair of ranks has a single
//! share: the next message begins when the last one is complete, or is copied by its receiver alone.
//!
//! Neither side trusts the other: what stands here can make a copy fail, or a message arrive wrong, between
//! these two ranks only.

use std::sync::atomic::Ordering;

use weft_engine::transport::{Cooperation, Ending, Piece};

use crate::atomic::{AtomicU32, AtomicU64};

/// Bytes of a unit. Pieces begin and end at units.
const UNIT_BYTES: u64 = 16 << 10;
/// Smallest piece in units, unless less is left: each piece costs a system call.
const PIECE_UNITS_MIN: u64 = 4;
/// Largest piece in units, so that a side that comes in the middle of a very large message has its share.
const PIECE_UNITS_MAX: u64 = 64;
/// Pieces of a message for each side, as a bound: no piece is smaller than that share of the message.
const PIECES_PER_SIDE: u64 = 8;
/// Bits of a unit's number. A longer message has a single mover.
const NUMBER_BITS: u32 = 24;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;

/// The share of a message that both sides copy. It lies on the table of the pair of ranks.
#[repr(C, align(64))]
#[cfg_attr(loom, derive(Default))]
pub struct CooperativeCopy {
    /// The range that no side has taken: the message's generation, above two unit numbers, the end and the
    /// beginning.
    span: AtomicU64,
    /// Units that have not been moved.
    left: AtomicU32,
    failed: AtomicU32,
    name: AtomicU32,
    address: AtomicU64,
    length: AtomicU64,
}

#[derive(Clone, Copy)]
struct Span {
    generation: u64,
    begin: u64,
    end: u64,
}

impl Span {
    fn parse(word: u64) -> Self {
        let (end, begin) = (word >> NUMBER_BITS & NUMBER_MASK, word & NUMBER_MASK);
        Self { generation: word >> (2 * NUMBER_BITS), begin, end }
    }

    fn word(self) -> u64 {
        self.generation << (2 * NUMBER_BITS) | self.end << NUMBER_BITS | self.begin
    }

    /// Returns the units of the next piece of a message of so many units, or 0 when nothing is left.
    fn piece(self, units: u64) -> u64 {
        let left = self.end.saturating_sub(self.begin);
        let least = (units / PIECES_PER_SIDE).clamp(PIECE_UNITS_MIN, PIECE_UNITS_MAX);
        left.div_ceil(2).clamp(least, PIECE_UNITS_MAX).min(left)
    }
}

impl CooperativeCopy {
    fn take(&self, back_of: Option<u32>) -> Option<Piece> {
        let mut word = self.span.load(Ordering::Acquire);
        // The loop ends: each turn in vain is one in which the other side has taken a piece, and pieces get
        // smaller.
        loop {
            let span = Span::parse(word);
            let units = span.piece(self.length.load(Ordering::Relaxed) / UNIT_BYTES);
            if units == 0 || back_of.is_some_and(|name| name != self.name.load(Ordering::Relaxed)) {
                return None;
            }
            let (rest, taken) = match back_of {
                None => (Span { begin: span.begin + units, ..span }, span.begin..span.begin + units),
                Some(_) => (Span { end: span.end - units, ..span }, span.end - units..span.end),
            };
            // The two values belong to this message if the exchange succeeds: no message begins while a part
            // of the one before is left.
            let (address, length) = (self.address.load(Ordering::Relaxed), self.length.load(Ordering::Relaxed));
            match self.span.compare_exchange(word, rest.word(), Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => {
                    let range = (taken.start * UNIT_BYTES).min(length)..(taken.end * UNIT_BYTES).min(length);
                    return Some(Piece { address, range, units: units as u32 });
                }
                Err(found) => word = found,
            }
        }
    }
}

impl Cooperation for CooperativeCopy {
    fn begin(&self, name: u32, address: u64, length: u64) -> bool {
        let units = length.div_ceil(UNIT_BYTES);
        if !(2..=NUMBER_MASK).contains(&units) || self.left.load(Ordering::Acquire) != 0 {
            return false;
        }
        self.name.store(name, Ordering::Relaxed);
        self.address.store(address, Ordering::Relaxed);
        self.length.store(length, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
        self.left.store(units as u32, Ordering::Relaxed);
        let generation = Span::parse(self.span.load(Ordering::Relaxed)).generation.wrapping_add(1) & 0xffff;
        self.span.store(Span { generation, begin: 0, end: units }.word(), Ordering::SeqCst);
        true
    }

    #[inline]
    fn open_name(&self) -> Option<u32> {
        let span = Span::parse(self.span.load(Ordering::Acquire));
        (span.begin < span.end).then(|| self.name.load(Ordering::Relaxed))
    }

    fn moving_name(&self) -> Option<u32> {
        (self.left.load(Ordering::Acquire) != 0).then(|| self.name.load(Ordering::Relaxed))
    }

    fn take_front(&self) -> Option<Piece> {
        self.take(None)
    }

    fn take_back(&self, name: u32) -> Option<Piece> {
        self.take(Some(name))
    }

    fn moved(&self, piece: &Piece, success: bool) -> bool {
        if !success {
            self.failed.store(1, Ordering::Relaxed);
        }
        self.left.fetch_sub(piece.units, Ordering::SeqCst) == piece.units
    }

    fn ending(&self) -> Ending {
        match (self.left.load(Ordering::SeqCst), self.failed.load(Ordering::Relaxed)) {
            (0, 0) => Ending::Moved,
            (0, _) => Ending::Failed,
            _ => Ending::Open,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn new() -> CooperativeCopy {
        CooperativeCopy {
            span: AtomicU64::new(0),
            left: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            name: AtomicU32::new(0),
            address: AtomicU64::new(0),
            length: AtomicU64::new(0),
        }
    }

    #[test]
    fn each_byte_is_taken_once_whoever_takes_it() {
        for length in [UNIT_BYTES + 1, 100_000, 1 << 20, (9 << 20) + 5] {
            for turns in [1_u32, 2, 3, 7] {
                let cooperative_copy = new();
                assert!(cooperative_copy.begin(9, 4096, length));
                let (mut seen, mut turn) = (vec![], 0_u32);
                while let Some(piece) =
                    if turn % turns == 0 { cooperative_copy.take_front() } else { cooperative_copy.take_back(9) }
                {
                    assert!(piece.address == 4096 && cooperative_copy.ending() == Ending::Open);
                    assert!(!cooperative_copy.begin(10, 0, 1 << 20), "the last one is under way");
                    cooperative_copy.moved(&piece, true);
                    seen.push((piece.range.start, piece.range.end));
                    turn += 1;
                }
                seen.sort_unstable();
                let end = seen.iter().fold(0, |at, (start, end)| {
                    assert_eq!(at, *start);
                    *end
                });
                assert_eq!(
                    (end, cooperative_copy.ending(), cooperative_copy.open_name()),
                    (length, Ending::Moved, None)
                );
            }
        }
    }

    #[test]
    fn a_piece_that_fails_fails_the_message_and_not_the_next() {
        let cooperative_copy = new();
        assert!(!cooperative_copy.begin(1, 0, UNIT_BYTES), "one unit has one mover");
        assert!(cooperative_copy.begin(1, 0, 8 * UNIT_BYTES));
        assert_eq!((cooperative_copy.open_name(), cooperative_copy.take_back(2)), (Some(1), None));
        let (front, back) = (cooperative_copy.take_front().unwrap(), cooperative_copy.take_back(1).unwrap());
        assert_eq!((front.range.end, back.range.start), (4 * UNIT_BYTES, 4 * UNIT_BYTES));
        assert!(!cooperative_copy.moved(&back, false) && cooperative_copy.moved(&front, true));
        assert_eq!(cooperative_copy.ending(), Ending::Failed);
        assert!(cooperative_copy.begin(2, 0, 8 * UNIT_BYTES));
        assert_eq!(cooperative_copy.ending(), Ending::Open);
    }

    /// Two threads play the two sides of thousands of messages and count what they have moved. Expect: each
    /// byte of each message is moved once, and the receiver never sees the end too early.
    #[test]
    fn both_sides_at_once_move_each_byte_once() {
        const MESSAGES: u32 = 4000;
        let (cooperative_copy, sums) = (new(), [AtomicU64::new(0), AtomicU64::new(0)]);
        let length = |number: u32| u64::from(number % 97 + 2) * (UNIT_BYTES - 7);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 0;
                while number + 1 < MESSAGES {
                    let Some(name) = cooperative_copy.open_name() else {
                        std::thread::yield_now();
                        if cooperative_copy.ending() == Ending::Failed {
                            return;
                        }
                        continue;
                    };
                    number = name;
                    while let Some(piece) = cooperative_copy.take_back(name) {
                        assert_eq!(piece.address, u64::from(name) * 8, "a mixture of two messages");
                        sums[1].fetch_add(piece.range.end - piece.range.start, Ordering::Relaxed);
                        cooperative_copy.moved(&piece, true);
                    }
                }
            });
            let mut total = 0;
            for number in 0..MESSAGES {
                assert!(cooperative_copy.begin(number, u64::from(number) * 8, length(number)));
                if number % 3 == 0 {
                    std::thread::yield_now();
                }
                while let Some(piece) = cooperative_copy.take_front() {
                    sums[0].fetch_add(piece.range.end - piece.range.start, Ordering::Relaxed);
                    cooperative_copy.moved(&piece, true);
                }
                while cooperative_copy.ending() == Ending::Open {
                    std::thread::yield_now();
                }
                total += length(number);
                assert_eq!(sums[0].load(Ordering::Relaxed) + sums[1].load(Ordering::Relaxed), total);
            }
            // Lets the other thread go, if it has missed the last message.
            cooperative_copy.failed.store(1, Ordering::Relaxed);
        });
    }
}
