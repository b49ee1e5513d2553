//! Collectives between two groups (MPI-5.0 §6.2.3): schedules among all processes of both, where the first
//! group's ranks come first.

use super::choice::{Choices, Layout};
use super::chosen::Chosen;
use super::gather::OUTSTANDING_MAX;
use super::plan::{Plan, Ranks, Vector, bytes};
use super::reduce as reduction;
use super::select::{BcastAlgorithm, ReduceAlgorithm};
use super::{AllreduceBetween, Bcast, Items, Reduce, ReduceBetween, ReduceScatterBetween, Schedule, bcast};

/// Plans an allreduce: each group reduces to its first process, the two first processes exchange the results,
/// and each passes on to its group the result that it got.
pub(super) fn allreduce(arguments: &AllreduceBetween, choices: &Choices) -> Schedule {
    let AllreduceBetween { rank, size, remote_size, is_first, items, commutative } = *arguments;
    let mut plan = Plan::default();
    if bytes(items) == 0 {
        return plan.finish();
    }
    let (up, down) = algorithms(choices, size, items, commutative);
    let own = Ranks::From(if is_first { 0 } else { remote_size });
    plan.among(own.clone(), |plan| {
        let arguments = Reduce { rank, size, root: 0, items, commutative, in_place: false };
        reduction::add(plan, &arguments, up);
    });
    if rank == 0 {
        let other = if is_first { size } else { 0 };
        let (result, theirs) = (Vector::of_receive(items), plan.scratch_items(items));
        plan.send(other, result.part(0..items.count));
        plan.receive(other, theirs.part(0..items.count));
        plan.copy(theirs.part(0..items.count), result.part(0..items.count));
    }
    plan.among(own, |plan| bcast::add(plan, &Bcast { rank, size, root: 0, items }, down));
    plan.finish()
}

/// Plans a reduction: the group reduces to its first process, which passes the result on.
pub(super) fn reduce(arguments: &ReduceBetween, choices: &Choices) -> Schedule {
    let ReduceBetween { rank, size, items, commutative } = *arguments;
    let mut plan = Plan::default();
    if bytes(items) == 0 {
        return plan.finish();
    }
    if rank == 0 {
        plan.receive(1, Vector::of_receive(items).part(0..items.count));
        return plan.finish();
    }
    let (up, _) = algorithms(choices, size - 1, items, commutative);
    let result = reduce_in_group(&mut plan, (rank - 1, size - 1), Ranks::From(1), (items, commutative), up);
    if rank == 1 {
        plan.send(0, result.part(0..items.count));
    }
    plan.finish()
}

/// Plans a reduce-scatter: each group reduces to its first process, the two first processes exchange the
/// results, and give the processes of their groups their parts.
pub(super) fn reduce_scatter(arguments: &ReduceScatterBetween<'_>, choices: &Choices) -> Schedule {
    let ReduceScatterBetween { rank, size, remote_size, is_first, counts, shape, commutative } = *arguments;
    let items = Items { count: counts.iter().sum(), shape };
    let mut plan = Plan::default();
    if bytes(items) == 0 {
        return plan.finish();
    }
    let group = Ranks::From(if is_first { 0 } else { remote_size });
    let (up, _) = algorithms(choices, size, items, commutative);
    let result = reduce_in_group(&mut plan, (rank, size), group.clone(), (items, commutative), up);
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

/// The algorithms by which a group of `size` reduces to its first process, and by which this process passes
/// on the result. The places of the processes make no difference here.
fn algorithms(choices: &Choices, size: u32, items: Items, commutative: bool) -> (ReduceAlgorithm, BcastAlgorithm) {
    let layout = Layout::apart(size);
    Chosen { choices, layout: &layout }.reduce_and_bcast(size, bytes(items), commutative)
}

/// Reduces the contributions of a group to its first process, and returns where the result is. That is
/// working memory, because the receive buffer of the first process, if it has one, is for something else. For
/// the other processes the returned place means nothing.
fn reduce_in_group(
    plan: &mut Plan,
    (rank, size): (u32, u32),
    group: Ranks,
    (items, commutative): (Items, bool),
    algorithm: ReduceAlgorithm,
) -> Vector {
    if size == 1 {
        return Vector::contribution(items, false);
    }
    let result = if rank == 0 { plan.scratch_items(items) } else { Vector::contribution(items, false) };
    plan.among(group, |plan| {
        let arguments = Reduce { rank, size, root: 0, items, commutative, in_place: false };
        reduction::add_to(plan, &arguments, algorithm, result);
    });
    result
}
