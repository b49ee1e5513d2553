//! Collectives through memory that the ranks of a node share, without any message: a rank *publishes* its
//! data there, and the ranks that need the data take it.
//!
//! These algorithms are for ranks of one node, and for data that has room in a rank's part of that memory
//! (`published_bytes` in [`choice`](super::choice)).
//!
//! A rank that publishes waits for no other rank, so it does not matter which rank comes last.

use alloc::vec::Vec;
use core::ops::Range;

use super::pieces::{self, SEGMENTS_MAX, cut};
use super::plan::{self, Part, Plan, Vector};
use super::{Allgather, Allreduce, Barrier, Bcast, Items, Reduce};

/// Longer data is cut into segments of this many bytes, one behind the other.
pub(super) const SEGMENT_BYTES: u64 = 32 << 10;
/// Data that would be cut into more than [`SEGMENTS_MAX`] segments is left to other algorithms.
pub(super) const CUT_MAX: u64 = SEGMENT_BYTES * SEGMENTS_MAX;

/// Plans the first half of a barrier: rank 0 hears that each of the others has come.
pub(super) fn barrier_up(plan: &mut Plan, arguments: &Barrier) {
    let Barrier { rank, size } = *arguments;
    let phase = plan.begin_phase();
    if rank == 0 {
        others(0, size).for_each(|other| plan.await_published(phase, other));
    } else {
        plan.publish_nothing(phase);
    }
}

/// Plans the second half of a barrier: the others hear from rank 0 that they may leave.
pub(super) fn barrier_down(plan: &mut Plan, arguments: &Barrier) {
    let phase = plan.begin_phase();
    if arguments.rank == 0 { plan.publish_nothing(phase) } else { plan.await_published(phase, 0) }
}

/// All ranks but `rank`, the next one first, so that not all ranks begin with the same one.
pub(super) fn others(rank: u32, size: u32) -> impl Iterator<Item = u32> {
    (rank + 1..size).chain(0..rank)
}

/// Plans a barrier: each rank tells that it has come, and waits for all others.
pub(super) fn barrier(plan: &mut Plan, arguments: &Barrier) {
    let Barrier { rank, size } = *arguments;
    let phase = plan.begin_phase();
    plan.publish_nothing(phase);
    others(rank, size).for_each(|other| plan.await_published(phase, other));
}

/// Plans a broadcast: the root publishes, the others copy. Long data goes one segment after the other; as
/// many segments are under way as there is room.
pub(super) fn bcast(plan: &mut Plan, arguments: &Bcast) {
    let Bcast { rank, root, items, .. } = *arguments;
    let total = plan::bytes(items);
    if total > SEGMENT_BYTES {
        let data = pieces::open(plan, arguments);
        for range in pieces::segments(total, SEGMENT_BYTES, SEGMENTS_MAX) {
            let (phase, bytes) = (plan.begin_phase(), range.end - range.start);
            if rank == root {
                plan.publish(phase, data.part(range));
            } else {
                plan.collect(phase, root, (0, bytes), data.part(range));
                plan.fence();
                plan.finish_phase(phase);
            }
            plan.fence();
        }
        return pieces::close(plan, arguments, data);
    }
    let data = Vector::of_receive(items).part(0..items.count);
    let phase = plan.begin_phase();
    if rank == root { plan.publish(phase, data) } else { plan.collect(phase, root, (0, plan::bytes(items)), data) }
}

/// Plans a reduction: the others publish `own`, the root reduces to `result`, where its own contribution may
/// be.
pub(super) fn reduce(plan: &mut Plan, arguments: &Reduce, own: Vector, result: Vector) {
    let Reduce { rank, size, root, items, .. } = *arguments;
    let in_place = own == result;
    let phase = plan.begin_phase();
    if rank != root || in_place {
        plan.publish(phase, own.part(0..items.count));
    }
    if rank == root {
        let own = (!in_place).then_some(own);
        fold(plan, phase, (rank, size), items, (own, result), whole(items), &mut None);
    }
}

/// Plans an allreduce: each rank publishes its operand, and reduces the operands of all in the same order.
pub(super) fn allreduce_whole(plan: &mut Plan, arguments: &Allreduce) {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let own = Vector::contribution(items, in_place);
    let phase = plan.begin_phase();
    plan.publish(phase, own.part(0..items.count));
    let own = (!in_place).then_some(own);
    fold(plan, phase, (rank, size), items, (own, Vector::of_receive(items)), whole(items), &mut None);
}

/// Returns whether at least one item can be published: all ranks have items of the same size.
pub(super) fn can_publish(items: Items) -> bool {
    items.shape.size <= SEGMENT_BYTES
}

/// Plans an allreduce by shares: each rank publishes its operand, reduces its share of all operands,
/// publishes that, and copies the shares of the others. Long data goes one segment after the other.
pub(super) fn allreduce_by_shares(plan: &mut Plan, arguments: &Allreduce) {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let own = Vector::contribution(items, in_place);
    let target = Vector::of_receive(items);
    let length = (SEGMENT_BYTES / items.shape.size.max(1)).max(1);
    let segments: Vec<_> = pieces::segments(items.count, length, SEGMENTS_MAX).collect();
    let mut unpacked = None;
    let mut operands = plan.begin_phase();
    if let Some(first) = segments.first() {
        plan.publish(operands, own.part(first.clone()));
    }
    for (number, segment) in segments.iter().enumerate() {
        let share = |rank: u32| {
            let cut = |rank| segment.start + cut(segment.end - segment.start, size, rank);
            cut(rank)..cut(rank + 1)
        };
        let mine = Folded { range: share(rank), published: segment.clone() };
        fold(plan, operands, (rank, size), items, ((!in_place).then_some(own), target), mine, &mut unpacked);
        let results = plan.begin_phase();
        plan.publish(results, target.part(share(rank)));
        // The others need not wait for the next operands when they come to look for these results.
        let next = segments.get(number + 1).map(|next| (plan.begin_phase(), next.clone()));
        if let Some((phase, next)) = &next {
            plan.fence();
            plan.finish_phase(operands);
            plan.publish(*phase, own.part(next.clone()));
            operands = *phase;
        }
        for other in others(rank, size) {
            let theirs = share(other);
            let bytes = (theirs.end - theirs.start) * items.shape.size;
            plan.collect(results, other, (0, bytes), target.part(theirs));
        }
        plan.fence();
    }
}

/// The items that are reduced, of those that ranks publish in a phase.
struct Folded {
    /// The items to reduce.
    range: Range<u64>,
    /// The published items, which include them.
    published: Range<u64>,
}

/// All items, of which all are published.
fn whole(items: Items) -> Folded {
    Folded { range: 0..items.count, published: 0..items.count }
}

/// Plans `target = published by 0 op published by 1 op …`. Operands are in the order of ranks and grouped
/// from the last one on, whichever rank reduces. `own` is the place of this rank's operand in memory, unless
/// the result goes there. `unpacked` is room for an operand, once there is one.
fn fold(
    plan: &mut Plan,
    phase: u32,
    (rank, size): (u32, u32),
    items: Items,
    (own, target): (Option<Vector>, Vector),
    Folded { range, published }: Folded,
    unpacked: &mut Option<Vector>,
) {
    let part = |vector: Vector| vector.part(range.clone());
    let at = (range.start - published.start) * items.shape.size;
    let of = (published.end - published.start) * items.shape.size;
    // An operand from another rank is unpacked first, unless its items lie in memory as they are packed.
    let is_dense = items.shape.contiguous && items.shape.extent == items.shape.size as i64;
    match own {
        Some(own) if rank == size - 1 => plan.copy(part(own), part(target)),
        // In place, this rank's operand is also the published one, and the same steps work for all.
        _ => plan.collect(phase, size - 1, (at, of), part(target)),
    }
    for from in (0..size - 1).rev() {
        match own {
            Some(own) if from == rank => plan.reduce(part(own), part(target)),
            _ if is_dense => plan.combine(phase, from, at, part(target)),
            _ => {
                let operand: Vector = *unpacked.get_or_insert_with(|| plan.scratch_items(items));
                plan.collect(phase, from, (at, of), part(operand));
                plan.reduce(part(operand), part(target));
            }
        }
    }
}

/// Plans an allgather: each rank publishes its block, and copies the blocks of all. `own` is this rank's
/// block, which lies in its place already with `in_place`. `block` gives each rank's block, and its packed
/// bytes.
pub(super) fn allgather(
    plan: &mut Plan,
    (rank, size): (u32, u32),
    own: Part,
    in_place: bool,
    block: impl Fn(u32) -> (Part, u64),
) {
    let phase = plan.begin_phase();
    plan.publish(phase, own);
    if !in_place {
        plan.copy(own, block(rank).0);
    }
    for other in others(rank, size) {
        let (block, bytes) = block(other);
        plan.collect(phase, other, (0, bytes), block);
    }
}

/// Plans an all-to-all exchange: each rank publishes all of its blocks, and copies those for itself.
pub(super) fn alltoall(plan: &mut Plan, arguments: &Allgather) {
    let Allgather { rank, size, send, receive, in_place } = *arguments;
    let own = if in_place { Vector::of_receive(receive) } else { Vector::of_send(send) };
    let count = if in_place { receive.count } else { send.count };
    let block =
        |vector: Vector, rank: u32, count: u64| vector.part(u64::from(rank) * count..(u64::from(rank) + 1) * count);
    let all = Vector::of_receive(receive);
    let phase = plan.begin_phase();
    plan.publish(phase, own.part(0..u64::from(size) * count));
    if !in_place {
        plan.copy(block(own, rank, count), block(all, rank, receive.count));
    }
    let at = u64::from(rank) * plan::bytes(receive);
    others(rank, size).for_each(|other| {
        plan.collect(phase, other, (at, u64::from(size) * plan::bytes(receive)), block(all, other, receive.count))
    });
}
