//! Between two groups (MPI-5.0 §6.2.3): schedules among all processes of both, where the first group's ranks come first.

use super::gather::OUTSTANDING_MAX;
use super::plan::{Plan, Ranks, Vector, bytes};
use super::reduce as reduction;
use super::{AllreduceBetween, Bcast, Items, Reduce, ReduceBetween, ReduceScatterBetween, Schedule, bcast, choice};

/// Each group reduces to its first process; these two exchange the results; each passes what it got to its group.
pub(super) fn allreduce(arguments: &AllreduceBetween) -> Schedule {
    let AllreduceBetween { rank, size, remote_size, is_first, items, commutative } = *arguments;
    let mut plan = Plan::default();
    if bytes(items) == 0 {
        return plan.finish();
    }
    let own = Ranks::From(if is_first { 0 } else { remote_size });
    plan.among(own.clone(), |plan| {
        let arguments = Reduce { rank, size, root: 0, items, commutative, in_place: false };
        reduction::add(plan, &arguments, choice::reduce(size, bytes(items), commutative));
    });
    if rank == 0 {
        let other = if is_first { size } else { 0 };
        let (result, theirs) = (Vector::of_receive(items), plan.scratch_items(items));
        plan.send(other, result.part(0..items.count));
        plan.receive(other, theirs.part(0..items.count));
        plan.copy(theirs.part(0..items.count), result.part(0..items.count));
    }
    plan.among(own, |plan| bcast::add(plan, &Bcast { rank, size, root: 0, items }, choice::bcast(size, bytes(items))));
    plan.finish()
}

/// The group reduces to its first process, which passes the result on.
pub(super) fn reduce(arguments: &ReduceBetween) -> Schedule {
    let ReduceBetween { rank, size, items, commutative } = *arguments;
    let mut plan = Plan::default();
    if bytes(items) == 0 {
        return plan.finish();
    }
    if rank == 0 {
        plan.receive(1, Vector::of_receive(items).part(0..items.count));
        return plan.finish();
    }
    let result = reduce_in_group(&mut plan, (rank - 1, size - 1), Ranks::From(1), items, commutative);
    if rank == 1 {
        plan.send(0, result.part(0..items.count));
    }
    plan.finish()
}

/// Each group reduces to its first process; these two exchange the results, and give the processes of their groups their parts.
pub(super) fn reduce_scatter(arguments: &ReduceScatterBetween<'_>) -> Schedule {
    let ReduceScatterBetween { rank, size, remote_size, is_first, counts, shape, commutative } = *arguments;
    let items = Items { count: counts.iter().sum(), shape };
    let mut plan = Plan::default();
    if bytes(items) == 0 {
        return plan.finish();
    }
    let group = Ranks::From(if is_first { 0 } else { remote_size });
    let result = reduce_in_group(&mut plan, (rank, size), group.clone(), items, commutative);
    let own = Vector::of_receive(items).part(0..counts[rank as usize]);
    if rank != 0 {
        plan.among(group, |plan| plan.receive(0, own));
        return plan.finish();
    }
    let (other, theirs) = (if is_first { size } else { 0 }, plan.scratch_items(items));
    plan.receive(other, theirs.part(0..items.count));
    plan.send(other, result.part(0..items.count));
    plan.copy(theirs.part(0..counts[0]), own);
    plan.among(group, |plan| {
        plan.limit(OUTSTANDING_MAX, |plan| {
            let mut start = counts[0];
            for (to, count) in (1..).zip(&counts[1..]) {
                plan.send(to, theirs.part(start..start + count));
                start += count;
            }
        });
    });
    plan.finish()
}

/// A group reduces what its processes contribute. Its first process has the result in working memory: its receive buffer is for something
/// else, if it has one. Where that is; for the others it means nothing.
fn reduce_in_group(plan: &mut Plan, (rank, size): (u32, u32), group: Ranks, items: Items, commutative: bool) -> Vector {
    if size == 1 {
        return Vector::contribution(items, false);
    }
    let result = if rank == 0 { plan.scratch_items(items) } else { Vector::contribution(items, false) };
    plan.among(group, |plan| {
        let arguments = Reduce { rank, size, root: 0, items, commutative, in_place: false };
        reduction::add_to(plan, &arguments, choice::reduce(size, bytes(items), commutative), result);
    });
    result
}
