//! A builder for schedules: it adds rounds, reserves scratch memory, and keeps track of the buffer in which a partial result of a reduction is.

use alloc::vec::Vec;
use core::ops::Range;

use super::{Buffer, Items, Kind, Local, Round, SCRATCH_ALIGNMENT, Schedule, Slice, Transfer};

/// A schedule being written. A transfer added after a local step opens the next round; otherwise a round lasts until
/// [`Plan::end_round`].
#[derive(Default)]
pub(super) struct Plan {
    rounds: Vec<Round>,
    current: Round,
    scratch: u64,
}

impl Plan {
    /// Sends a slice; nothing if it has no items (the receiver leaves it out as well).
    pub(super) fn send(&mut self, to: u32, slice: Slice) {
        if slice.count > 0 {
            self.transfer(Transfer::Send { to, slice });
        }
    }

    /// Receives a slice; nothing if it has no items.
    pub(super) fn receive(&mut self, from: u32, slice: Slice) {
        if slice.count > 0 {
            self.transfer(Transfer::Receive { from, slice });
        }
    }

    /// Sends an empty message.
    pub(super) fn signal(&mut self, to: u32) {
        self.transfer(Transfer::Send { to, slice: NOTHING });
    }

    /// Receives an empty message.
    pub(super) fn await_signal(&mut self, from: u32) {
        self.transfer(Transfer::Receive { from, slice: NOTHING });
    }

    /// Copies when the transfers of the round are complete.
    pub(super) fn copy(&mut self, from: Slice, to: Slice) {
        if from.count > 0 && to.count > 0 {
            self.current.local.push(Local::Copy { from, to });
        }
    }

    /// `inout = input op inout` when the transfers of the round are complete.
    pub(super) fn reduce(&mut self, input: Slice, inout: Slice) {
        assert_eq!(input.count, inout.count);
        if input.count > 0 {
            self.current.local.push(Local::Reduce { input, inout });
        }
    }

    /// What follows waits for what was added so far.
    pub(super) fn end_round(&mut self) {
        if !self.current.transfers.is_empty() || !self.current.local.is_empty() {
            self.rounds.push(core::mem::take(&mut self.current));
        }
    }

    /// Ends the round when it has `transfers_max` transfers.
    pub(super) fn end_full_round(&mut self, transfers_max: usize) {
        if self.current.transfers.len() >= transfers_max {
            self.end_round();
        }
    }

    /// Scratch memory for packed bytes.
    pub(super) fn scratch_bytes(&mut self, count: u64) -> Vector {
        let base = self.scratch.next_multiple_of(SCRATCH_ALIGNMENT);
        self.scratch = base + count;
        Vector::packed(Buffer::Scratch, base as i64)
    }

    /// Scratch memory for items of the reduction's datatype.
    ///
    /// The base is where item 0 would begin if its lower bound were 0, a multiple of [`SCRATCH_ALIGNMENT`] so that items
    /// are aligned as in user memory; it may lie outside the scratch memory, the bytes touched do not.
    pub(super) fn scratch_items(&mut self, items: Items) -> Vector {
        let shape = items.shape;
        let last = (items.count.max(1) as i64 - 1) * shape.extent;
        let lowest = last.min(0) + shape.true_lb;
        let end = last.max(0) + shape.true_lb + shape.true_extent;
        let alignment = SCRATCH_ALIGNMENT as i64;
        let base = (self.scratch as i64 - lowest + alignment - 1).div_euclid(alignment) * alignment;
        self.scratch = self.scratch.max((base + end) as u64);
        Vector { buffer: Buffer::Scratch, base, extent: shape.extent, kind: Kind::Receive }
    }

    /// The schedule as written.
    pub(super) fn finish(mut self) -> Schedule {
        self.end_round();
        Schedule { rounds: self.rounds, scratch: self.scratch }
    }

    fn transfer(&mut self, transfer: Transfer) {
        if !self.current.local.is_empty() {
            self.end_round();
        }
        self.current.transfers.push(transfer);
    }
}

const NOTHING: Slice = Slice { buffer: Buffer::Scratch, offset: 0, count: 0, kind: Kind::Bytes };

/// Items of one datatype at equal distances, of which parts are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vector {
    pub(super) buffer: Buffer,
    /// Bytes from the buffer's base to the base of item 0.
    pub(super) base: i64,
    /// Bytes from one item to the next.
    pub(super) extent: i64,
    pub(super) kind: Kind,
}

impl Vector {
    /// The user's send buffer.
    pub(super) fn of_send(items: Items) -> Self {
        Self { buffer: Buffer::Send, base: 0, extent: items.shape.extent, kind: Kind::Send }
    }

    /// The user's receive buffer.
    pub(super) fn of_receive(items: Items) -> Self {
        Self { buffer: Buffer::Receive, base: 0, extent: items.shape.extent, kind: Kind::Receive }
    }

    /// A rank's contribution to a reduction; the datatype is that of the receive buffer.
    pub(super) fn contribution(items: Items, in_place: bool) -> Self {
        let buffer = if in_place { Buffer::Receive } else { Buffer::Send };
        Self { buffer, ..Self::of_receive(items) }
    }

    /// Packed bytes.
    pub(super) fn packed(buffer: Buffer, base: i64) -> Self {
        Self { buffer, base, extent: 1, kind: Kind::Bytes }
    }

    /// The items of a range.
    pub(super) fn part(self, range: Range<u64>) -> Slice {
        let offset = self.base + range.start as i64 * self.extent;
        Slice { buffer: self.buffer, offset, count: range.end - range.start, kind: self.kind }
    }

    /// The vector that begins at item `first` of this one.
    pub(super) fn starting_at(self, first: u64) -> Self {
        Self { base: self.base + first as i64 * self.extent, ..self }
    }
}

/// Bytes in the items.
pub(super) fn bytes(items: Items) -> u64 {
    items.count * items.shape.size
}

/// A partial result that grows by what arrives, operands kept in order, with few copies: "mine op theirs" leaves the
/// result where theirs arrived, so the value changes between two buffers.
pub(super) struct Fold {
    /// The value is still the user's data, which must not be changed.
    borrowed: Option<Vector>,
    /// `buffers[0]` is where the result is wanted.
    buffers: [Vector; 2],
    /// Which buffer has the value (or gets it, while it is borrowed).
    home: usize,
}

impl Fold {
    /// Begins with `own`. If it is not `target` itself it is only read. `rights`: how often [`Fold::absorb_right`] will
    /// be called; it makes the value end in `target` without a copy (except where `own` is `target` and `rights` odd).
    pub(super) fn new(own: Vector, target: Vector, other: Vector, rights: usize) -> Self {
        let in_place = own == target;
        let home = if in_place { 0 } else { rights % 2 };
        Self { borrowed: (!in_place).then_some(own), buffers: [target, other], home }
    }

    /// Where the value is.
    pub(super) fn value(&self) -> Vector {
        self.borrowed.unwrap_or(self.buffers[self.home])
    }

    /// Where the next operand must arrive.
    pub(super) fn incoming(&self) -> Vector {
        self.buffers[1 - self.home]
    }

    /// value = value op incoming, for a range of items; the rest of the value is lost.
    pub(super) fn absorb_right(&mut self, plan: &mut Plan, range: Range<u64>) {
        plan.reduce(self.value().part(range.clone()), self.incoming().part(range));
        self.swap();
    }

    /// value = incoming op value, for a range of items; the rest of the value is lost.
    pub(super) fn absorb_left(&mut self, plan: &mut Plan, range: Range<u64>) {
        let home = self.buffers[self.home];
        if let Some(own) = self.borrowed.take() {
            plan.copy(own.part(range.clone()), home.part(range.clone()));
        }
        plan.reduce(self.incoming().part(range.clone()), home.part(range));
    }

    /// Absorbs what came from rank `from` at rank `rank`, in the order of ranks.
    pub(super) fn absorb(&mut self, plan: &mut Plan, from: u32, rank: u32, range: Range<u64>) {
        if from < rank { self.absorb_left(plan, range) } else { self.absorb_right(plan, range) }
    }

    /// The caller has put the value into [`Fold::incoming`].
    pub(super) fn swap(&mut self) {
        self.borrowed = None;
        self.home = 1 - self.home;
    }

    /// Brings a range of the value into the target.
    pub(super) fn finish(&mut self, plan: &mut Plan, range: Range<u64>) {
        let (value, target) = (self.value(), self.buffers[0]);
        if value != target {
            plan.copy(value.part(range.clone()), target.part(range));
        }
        self.borrowed = None;
        self.home = 0;
    }
}
