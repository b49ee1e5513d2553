//! A reduction in a plan: a partial result, and the arriving operands that are combined with it.

use super::{Plan, Vector};
use core::ops::Range;

/// A partial result that grows by arriving operands, kept in order, with few copies. "mine op theirs" leaves
/// the result where theirs arrived, so the value changes between two buffers.
pub(in crate::collective) struct Fold {
    /// The value is still the user's data, which must not be changed.
    borrowed: Option<Vector>,
    /// `buffers[0]` is the place for the result.
    buffers: [Vector; 2],
    /// The index of the buffer that has the value (or gets it, while it is borrowed).
    home: usize,
}

impl Fold {
    /// Begins with `own`, which is only read unless it is `target` itself. `rights` is the number of calls of
    /// [`Fold::absorb_right`] to come. With it the value ends in `target` without a copy (except where `own`
    /// is `target` and `rights` odd).
    pub(in crate::collective) fn new(own: Vector, target: Vector, other: Vector, rights: usize) -> Self {
        let in_place = own == target;
        let home = if in_place { 0 } else { rights % 2 };
        Self { borrowed: (!in_place).then_some(own), buffers: [target, other], home }
    }

    /// The place of the value.
    pub(in crate::collective) fn value(&self) -> Vector {
        self.borrowed.unwrap_or(self.buffers[self.home])
    }

    /// The place where the next operand must arrive.
    pub(in crate::collective) fn incoming(&self) -> Vector {
        self.buffers[1 - self.home]
    }

    /// Computes value = value op incoming, for a range of items; the rest of the value is lost.
    pub(in crate::collective) fn absorb_right(&mut self, plan: &mut Plan, range: Range<u64>) {
        plan.reduce(self.value().part(range.clone()), self.incoming().part(range));
        self.swap();
    }

    /// Computes value = incoming op value, for a range of items; the rest of the value is lost.
    pub(in crate::collective) fn absorb_left(&mut self, plan: &mut Plan, range: Range<u64>) {
        let home = self.buffers[self.home];
        if let Some(own) = self.borrowed.take() {
            plan.copy(own.part(range.clone()), home.part(range.clone()));
        }
        plan.reduce(self.incoming().part(range.clone()), home.part(range));
    }

    /// Absorbs the operand that came from rank `from`, at rank `rank`, in the order of ranks.
    pub(in crate::collective) fn absorb(&mut self, plan: &mut Plan, from: u32, rank: u32, range: Range<u64>) {
        if from < rank { self.absorb_left(plan, range) } else { self.absorb_right(plan, range) }
    }

    /// Notes that the caller has put the value into [`Fold::incoming`].
    pub(in crate::collective) fn swap(&mut self) {
        self.borrowed = None;
        self.home = 1 - self.home;
    }

    /// Brings a range of the value into the target.
    pub(in crate::collective) fn finish(&mut self, plan: &mut Plan, range: Range<u64>) {
        let (value, target) = (self.value(), self.buffers[0]);
        if value != target {
            plan.copy(value.part(range.clone()), target.part(range));
        }
        self.borrowed = None;
        self.home = 0;
    }
}
