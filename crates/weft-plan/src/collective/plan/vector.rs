//! The memory that steps are given: items at equal distances, parts of them, and blocks by rank.

use crate::collective::{Blocks, Buffer, Items, Kind, Slice};
use core::ops::Range;

/// The memory that a step is given: a slice, and its span.
#[derive(Clone, Copy, Debug)]
pub(in crate::collective) struct Part {
    pub(in crate::collective) slice: Slice,
    /// Start and end of the span; empty in the send buffer, which is never written.
    pub(super) span: (u64, u64),
}

/// Items of one datatype at equal distances; steps take parts of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::collective) struct Vector {
    pub(in crate::collective) buffer: Buffer,
    /// Bytes from the buffer's base to the base of item 0.
    pub(super) base: i64,
    /// Bytes from one item to the next.
    pub(super) extent: i64,
    pub(super) kind: Kind,
    /// Start of the span of item 0.
    pub(super) origin: u64,
    /// Packed bytes of an item.
    pub(super) item_size: u64,
}

impl Vector {
    /// The user's send buffer.
    pub(in crate::collective) fn of_send(items: Items) -> Self {
        Self { buffer: Buffer::Send, kind: Kind::Send, ..Self::of_receive(items) }
    }

    /// The user's receive buffer.
    pub(in crate::collective) fn of_receive(items: Items) -> Self {
        let (extent, item_size) = (items.shape.extent, items.shape.size);
        Self { buffer: Buffer::Receive, base: 0, extent, kind: Kind::Receive, origin: 0, item_size }
    }

    /// The contribution of a rank to a reduction; its datatype is that of the receive buffer.
    pub(in crate::collective) fn contribution(items: Items, in_place: bool) -> Self {
        let buffer = if in_place { Buffer::Receive } else { Buffer::Send };
        Self { buffer, ..Self::of_receive(items) }
    }

    /// Packed bytes.
    pub(in crate::collective) fn packed(buffer: Buffer, base: i64) -> Self {
        Self { buffer, base, extent: 1, kind: Kind::Bytes, origin: 0, item_size: 1 }
    }

    /// The items of a range.
    pub(in crate::collective) fn part(self, range: Range<u64>) -> Part {
        let offset = self.base + range.start as i64 * self.extent;
        let slice = Slice { buffer: self.buffer, offset, count: range.end - range.start, kind: self.kind };
        let offset = |item: u64| self.origin + item * self.item_size;
        Part {
            slice,
            span: if self.buffer == Buffer::Send { (0, 0) } else { (offset(range.start), offset(range.end)) },
        }
    }

    /// The vector that begins at item `first` of this one.
    pub(in crate::collective) fn starting_at(self, first: u64) -> Self {
        Self { base: self.base + first as i64 * self.extent, origin: self.origin + first * self.item_size, ..self }
    }
}

impl Part {
    /// Drops the items of the part; a part without items makes no step.
    pub(in crate::collective) fn without_items(self) -> Self {
        Self { slice: Slice { count: 0, ..self.slice }, ..self }
    }

    /// The block of a rank, of the blocks that one buffer has for each. No two of these blocks overlap in a
    /// buffer that is written.
    pub(in crate::collective) fn block(rank: u32, slice: Slice) -> Self {
        let span = if slice.buffer == Buffer::Send { (0, 0) } else { (rank as u64, rank as u64 + 1) };
        Self { slice, span }
    }
}

impl Blocks<'_> {
    /// Packed bytes of a rank's block.
    pub(in crate::collective) fn bytes(&self, rank: u32) -> u64 {
        self.counts[rank as usize] * self.item_size
    }

    /// A rank's block.
    pub(in crate::collective) fn part(&self, rank: u32, buffer: Buffer, kind: Kind) -> Part {
        let at = rank as usize;
        Part::block(rank, Slice { buffer, offset: self.displacements[at], count: self.counts[at], kind })
    }
}

/// Bytes in the items.
pub(in crate::collective) fn bytes(items: Items) -> u64 {
    items.count * items.shape.size
}
