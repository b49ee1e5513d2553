//! Collectives by single copies, between ranks of one node that may read each other's memory.
//!
//! A rank *exposes* its data: it tells the others where the data is. The ranks that need the data copy it
//! from there, once. These algorithms are for long data: no rank waits for shared memory, and reductions are
//! divided among all ranks.
//!
//! Exposed data must stay unchanged until all ranks have their bytes. So each of these algorithms ends with a
//! phase in which the ranks tell that they have the bytes.

use core::ops::Range;

use super::pieces::{self, SEGMENTS_MAX, cut_range};
use super::plan::{self, Part, Plan, Vector};
use super::shared::others;
use super::{Allgather, Allreduce, Bcast, Items, Reduce};

/// Bytes of an operand that are fetched and reduced at a time. They stay in a processor's second-level cache.
const CHUNK_BYTES: u64 = 64 << 10;

/// Plans a broadcast: the root exposes its data, and the others copy it.
pub(super) fn bcast(plan: &mut Plan, arguments: &Bcast) {
    let Bcast { rank, size, root, items } = *arguments;
    let data = Vector::of_receive(items).part(0..items.count);
    let (phase, end) = (plan.begin_phase(), plan.begin_phase());
    if rank == root {
        let exposed = as_one_run(plan, data, plan::bytes(items), items.shape.contiguous);
        plan.expose(phase, exposed);
        others(rank, size).for_each(|other| plan.await_published(end, other));
    } else {
        plan.fetch(phase, root, (0, plan::bytes(items)), data);
        plan.fence();
        plan.publish_nothing(end);
    }
}

/// Plans a reduction: each rank reduces its share of all exposed operands, and the root copies the shares to
/// `result`, where its own contribution may be.
pub(super) fn reduce(plan: &mut Plan, arguments: &Reduce, own: Vector, result: Vector) {
    let Reduce { rank, size, root, items, .. } = *arguments;
    let phase = expose_operand(plan, own, items);
    let mine = cut_range(items.count, size, rank);
    let part = Items { count: mine.end - mine.start, shape: items.shape };
    let target = if rank == root { result.starting_at(mine.start) } else { plan.scratch_items(part) };
    let operands = Operands { phase, rank, size, own, overwritten: rank == root && own == result };
    operands.reduce(plan, items, mine, target);
    let (results, end) = (plan.begin_phase(), plan.begin_phase());
    if rank != root {
        let exposed = as_one_run(plan, target.part(0..part.count), plan::bytes(part), items.shape.contiguous);
        plan.expose(results, exposed);
        plan.await_published(end, root);
        return;
    }
    fetch_shares(plan, results, (rank, size), items, result);
    plan.fence();
    plan.publish_nothing(end);
}

/// Plans an allreduce: each rank reduces its share of all exposed operands, exposes that, and copies the
/// shares of the others.
pub(super) fn allreduce(plan: &mut Plan, arguments: &Allreduce) {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let own = Vector::contribution(items, in_place);
    let phase = expose_operand(plan, own, items);
    let mine = cut_range(items.count, size, rank);
    let target = Vector::of_receive(items);
    let operands = Operands { phase, rank, size, own, overwritten: in_place };
    operands.reduce(plan, items, mine.clone(), target.starting_at(mine.start));
    let results = plan.begin_phase();
    let bytes = (mine.end - mine.start) * items.shape.size;
    let exposed = as_one_run(plan, target.part(mine), bytes, items.shape.contiguous);
    plan.expose(results, exposed);
    fetch_shares(plan, results, (rank, size), items, target);
    end(plan, (rank, size));
}

/// Plans a reduce-scatter: each rank reduces its block, `mine`, of all exposed operands.
pub(super) fn reduce_scatter(
    plan: &mut Plan,
    (rank, size): (u32, u32),
    items: Items,
    (own, in_place): (Vector, bool),
    mine: Range<u64>,
) {
    let block = Items { count: mine.end - mine.start, shape: items.shape };
    let phase = expose_operand(plan, own, items);
    let result = Vector::of_receive(block);
    // In place the result goes to memory where other ranks still read operands.
    let target = if in_place { plan.scratch_items(block) } else { result };
    let operands = Operands { phase, rank, size, own, overwritten: false };
    operands.reduce(plan, items, mine, target);
    end(plan, (rank, size));
    if in_place {
        plan.fence();
        plan.copy(target.part(0..block.count), result.part(0..block.count));
    }
}

/// Plans an allgather: each rank exposes its block, and copies the blocks of the others. `own` is this rank's
/// block, in one run of memory if `own_is_run`; it lies in its place already with `in_place`. `block` gives
/// each rank's block, and its packed bytes.
pub(super) fn allgather(
    plan: &mut Plan,
    (rank, size): (u32, u32),
    (own, own_is_run): (Part, bool),
    in_place: bool,
    block: impl Fn(u32) -> (Part, u64),
) {
    let phase = plan.begin_phase();
    let exposed = as_one_run(plan, own, block(rank).1, own_is_run);
    plan.expose(phase, exposed);
    if !in_place {
        plan.copy(own, block(rank).0);
    }
    for other in others(rank, size) {
        let (block, bytes) = block(other);
        plan.fetch(phase, other, (0, bytes), block);
    }
    end(plan, (rank, size));
}

/// Plans an all-to-all exchange: each rank exposes all of its blocks, and copies those for itself.
pub(super) fn alltoall(plan: &mut Plan, arguments: &Allgather) {
    let Allgather { rank, size, send, receive, in_place } = *arguments;
    let (own, items) = if in_place { (Vector::of_receive(receive), receive) } else { (Vector::of_send(send), send) };
    let (ranks, bytes) = (u64::from(size), plan::bytes(receive));
    let block =
        |vector: Vector, rank: u32, count: u64| vector.part(u64::from(rank) * count..(u64::from(rank) + 1) * count);
    let all = Vector::of_receive(receive);
    let phase = plan.begin_phase();
    let exposed = as_one_run(plan, own.part(0..ranks * items.count), ranks * bytes, items.shape.contiguous);
    plan.expose(phase, exposed);
    // In place the blocks go to memory where other ranks still read theirs.
    let arrived = in_place.then(|| plan.scratch_bytes(ranks * bytes));
    if !in_place {
        plan.copy(block(own, rank, send.count), block(all, rank, receive.count));
    }
    for other in others(rank, size) {
        let to = arrived.map_or(block(all, other, receive.count), |arrived| block(arrived, other, bytes));
        plan.fetch(phase, other, (u64::from(rank) * bytes, ranks * bytes), to);
    }
    end(plan, (rank, size));
    if let Some(arrived) = arrived {
        plan.fence();
        others(rank, size).for_each(|other| plan.copy(block(arrived, other, bytes), block(all, other, receive.count)));
    }
}

/// A part that other ranks can copy as it is: `part` itself, or a packed copy.
fn as_one_run(plan: &mut Plan, part: Part, bytes: u64, is_run: bool) -> Part {
    if is_run {
        return part;
    }
    let packed = plan.scratch_bytes(bytes).part(0..bytes);
    plan.copy(part, packed);
    packed
}

/// Exposes this rank's operand of a reduction; returns the phase.
fn expose_operand(plan: &mut Plan, own: Vector, items: Items) -> u32 {
    let phase = plan.begin_phase();
    let exposed = as_one_run(plan, own.part(0..items.count), plan::bytes(items), items.shape.contiguous);
    plan.expose(phase, exposed);
    phase
}

/// Copies to its place the share that each of the other ranks has reduced. In place an operand was there; the
/// rank that reduced the share no longer needs it.
fn fetch_shares(plan: &mut Plan, results: u32, (rank, size): (u32, u32), items: Items, to: Vector) {
    for other in others(rank, size) {
        let share = cut_range(items.count, size, other);
        let bytes = (share.end - share.start) * items.shape.size;
        plan.fetch(results, other, (0, bytes), to.part(share));
    }
}

/// Makes all ranks wait until all have the bytes that they need of what this rank exposes.
fn end(plan: &mut Plan, (rank, size): (u32, u32)) {
    let end = plan.begin_phase();
    plan.fence();
    plan.publish_nothing(end);
    others(rank, size).for_each(|other| plan.await_published(end, other));
}

/// The operands that all ranks have exposed for a reduction.
struct Operands {
    phase: u32,
    rank: u32,
    size: u32,
    /// The place of this rank's operand.
    own: Vector,
    /// The result overwrites the operand of this rank.
    overwritten: bool,
}

impl Operands {
    /// Plans items `mine` of `target = exposed by 0 op exposed by 1 op …`. Operands are in the order of ranks
    /// and grouped from the last one on, whichever rank reduces. Item 0 of the target is the first of `mine`.
    fn reduce(&self, plan: &mut Plan, items: Items, mine: Range<u64>, target: Vector) {
        let Self { phase, rank, size, own, overwritten } = *self;
        let item = items.shape.size.max(1);
        let length = (CHUNK_BYTES / item).max(1);
        let count = mine.end - mine.start;
        let chunk = Items { count: length.max(count.div_ceil(SEGMENTS_MAX)).min(count), shape: items.shape };
        let (operand, mut saved) = (plan.scratch_items(chunk), None);
        for range in pieces::segments(count, length, SEGMENTS_MAX) {
            let (first, len) = (mine.start + range.start, range.end - range.start);
            let (into, at) = (target.part(range), (first * items.shape.size, plan::bytes(items)));
            let mut mine = own.part(first..first + len);
            if overwritten && rank + 1 < size {
                let kept = saved.get_or_insert_with(|| plan.scratch_items(chunk)).part(0..len);
                plan.copy(mine, kept);
                mine = kept;
            }
            match rank + 1 == size {
                false => plan.fetch(phase, size - 1, at, into),
                true if overwritten => {}
                true => plan.copy(mine, into),
            }
            for from in (0..size - 1).rev() {
                if from == rank {
                    plan.reduce(mine, into);
                } else {
                    plan.fetch(phase, from, at, operand.part(0..len));
                    plan.reduce(operand.part(0..len), into);
                }
            }
        }
    }
}
