//! The bulk data that a carrier writes to the memory of a peer by itself (*placement*: RDMA writes,
//! `fi_write`), beside a [`crate::connection`]: the next piece to write, and the pieces that are being
//! written.
//!
//! The receiver names the memory, and its carrier's key for it ([`RemoteMemory`]). The sender's carrier
//! writes the data in pieces. Only a few pieces are under way at a time, so small messages never wait behind
//! more than those. When the carrier reports that it has written a piece, a frame (`message`, `Placed`) tells
//! the receiver. The frame travels over the same carrier and so behind the data. A receiver without the frame
//! does not have the piece, whatever its memory holds.

use alloc::collections::VecDeque;
use core::ops::Range;

/// Bytes of a piece, at most.
pub const PIECE_MAX: u64 = 1 << 20;
/// Pieces for one peer that its carrier writes at a time.
pub const UNDER_WAY_MAX: usize = 2;

/// Memory of a peer, as its carrier knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// The carrier's key for the memory.
    pub key: u64,
    /// The address at which the memory begins, as the carrier counts.
    pub address: u64,
}

/// Data that is to be written.
#[derive(Debug)]
struct Job {
    remote_key: u32,
    region: u32,
    /// The bytes that no carrier has taken.
    range: Range<u64>,
    target: RemoteMemory,
}

/// A part of data that is to be written to the memory of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The number of the piece among those to this peer.
    pub number: u32,
    /// The receiver's name for the destination.
    pub remote_key: u32,
    /// The region that the carrier reads the piece from.
    pub region: u32,
    /// The bytes of the region.
    pub range: Range<u64>,
    /// The destination of these bytes.
    pub target: RemoteMemory,
}

/// The data that is to be written to the memory of one peer.
#[derive(Debug)]
pub struct Placements {
    /// Bytes of a piece, at most.
    piece_max: u64,
    waiting: VecDeque<Job>,
    under_way: VecDeque<Piece>,
    next: u32,
}

impl Placements {
    /// Begins without data, for a carrier that writes at most `bytes_max` bytes at a time.
    pub fn new(bytes_max: u64) -> Self {
        let piece_max = bytes_max.clamp(1, PIECE_MAX);
        Self { piece_max, waiting: VecDeque::new(), under_way: VecDeque::new(), next: 0 }
    }

    /// Adds the first `length` bytes of `region`, to be written to `target`, which the peer calls
    /// `remote_key`. These bytes must stay the same until [`Self::ended`] has returned all of their pieces.
    pub fn submit(&mut self, remote_key: u32, region: u32, length: u64, target: RemoteMemory) {
        if length > 0 {
            self.waiting.push_back(Job { remote_key, region, range: 0..length, target });
        }
    }

    /// The next piece for the carrier: the same until [`Self::begun`] or [`Self::refused`].
    pub fn poll(&self) -> Option<Piece> {
        let Job { remote_key, region, range, target } = self.waiting.front()?;
        let end = range.end.min(range.start + self.piece_max);
        let address = target.address.wrapping_add(range.start);
        (self.under_way.len() < UNDER_WAY_MAX).then_some(Piece {
            number: self.next,
            remote_key: *remote_key,
            region: *region,
            range: range.start..end,
            target: RemoteMemory { key: target.key, address },
        })
    }

    /// Notes that the carrier has taken the piece.
    pub fn begun(&mut self) {
        let Some(piece) = self.poll() else { return };
        self.next = self.next.wrapping_add(1);
        if let Some(job) = self.waiting.front_mut() {
            job.range.start = piece.range.end;
            if job.range.is_empty() {
                self.waiting.pop_front();
            }
        }
        self.under_way.push_back(piece);
    }

    /// Notes that the carrier refuses the piece; returns the rest of the same data, which has to go another
    /// way.
    pub fn refused(&mut self) -> Option<(u32, u32, Range<u64>)> {
        let Job { remote_key, region, range, .. } = self.waiting.pop_front()?;
        Some((remote_key, region, range))
    }

    /// Forgets all data: the carrier writes none of it any more.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.under_way.clear();
    }

    /// Takes out the piece of this number, which the carrier has written. `None`: there is none, or not any
    /// more.
    pub fn ended(&mut self, number: u32) -> Option<Piece> {
        let index = self.under_way.iter().position(|piece| piece.number == number)?;
        self.under_way.remove(index)
    }

    /// Returns whether a piece is ready for the carrier.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() && self.under_way.len() < UNDER_WAY_MAX
    }

    /// Returns whether no data is waiting or being written.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: RemoteMemory = RemoteMemory { key: 7, address: 1000 };

    /// Two messages, the first of two pieces and a bit.   Expect: every byte once, in consecutive pieces,
    /// never more of them at a time than may be under way, each to its place.
    #[test]
    fn what_is_submitted_leaves_in_pieces_and_each_byte_once() {
        let mut placements = Placements::new(u64::MAX);
        placements.submit(1, 2, 2 * PIECE_MAX + 5, TARGET);
        placements.submit(3, 4, 9, RemoteMemory { key: 8, address: 0 });
        placements.submit(5, 6, 0, TARGET);
        let mut written = alloc::vec::Vec::new();
        while !placements.is_idle() {
            while let Some(piece) = placements.poll() {
                assert_eq!(placements.poll().as_ref(), Some(&piece), "the same until it is taken");
                placements.begun();
                assert!(placements.under_way.len() <= UNDER_WAY_MAX);
            }
            let number = placements.under_way.front().map(|piece| piece.number).unwrap();
            let piece = placements.ended(number).unwrap();
            assert_eq!(placements.ended(number), None, "it ends once");
            written.push((piece.region, piece.target.key, piece.target.address, piece.range));
        }
        let expected = [
            (2, 7, 1000, 0..PIECE_MAX),
            (2, 7, 1000 + PIECE_MAX, PIECE_MAX..2 * PIECE_MAX),
            (2, 7, 1000 + 2 * PIECE_MAX, 2 * PIECE_MAX..2 * PIECE_MAX + 5),
            (4, 8, 0, 0..9),
        ];
        assert_eq!(written, expected);
    }

    /// The carrier takes one piece and refuses the next.   Expect: the rest of that message comes back, and
    /// the next message is not concerned.
    #[test]
    fn what_is_refused_comes_back_from_there_on() {
        let mut placements = Placements::new(u64::MAX);
        placements.submit(1, 2, 2 * PIECE_MAX, TARGET);
        placements.submit(3, 4, 9, TARGET);
        placements.begun();
        assert_eq!(placements.refused(), Some((1, 2, PIECE_MAX..2 * PIECE_MAX)));
        assert_eq!(placements.poll().map(|piece| piece.remote_key), Some(3));
        assert_eq!(placements.ended(0).map(|piece| piece.range), Some(0..PIECE_MAX));
        assert_eq!(placements.ended(17), None);
    }
}
