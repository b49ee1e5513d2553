//! Between two groups (MPI-5.0 §6.2.3): schedules among all processes of both, where the first group's ranks come first.

use super::plan::{Plan, Ranks, Vector, bytes};
use super::{AllreduceBetween, Bcast, Reduce, Schedule, bcast, reduce, select};

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
        reduce::add(plan, &arguments, select::reduce(size, bytes(items)));
    });
    if rank == 0 {
        let other = if is_first { size } else { 0 };
        let (result, theirs) = (Vector::of_receive(items), plan.scratch_items(items));
        plan.send(other, result.part(0..items.count));
        plan.receive(other, theirs.part(0..items.count));
        plan.copy(theirs.part(0..items.count), result.part(0..items.count));
    }
    plan.among(own, |plan| bcast::add(plan, &Bcast { rank, size, root: 0, items }, select::bcast(size, bytes(items))));
    plan.finish()
}
