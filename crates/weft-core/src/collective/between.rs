//! Between two groups (MPI-5.0 §6.2.3): schedules among all processes of both, where the first group's ranks come first.

use super::plan::{Plan, Vector, bytes};
use super::{AllreduceBetween, Bcast, Reduce, Schedule, Transfer, bcast, reduce};

/// Each group reduces to its first process; these two exchange the results; each passes what it got to its group.
pub(super) fn allreduce(arguments: &AllreduceBetween) -> Schedule {
    let AllreduceBetween { rank, size, remote_size, is_first, items, commutative } = *arguments;
    if bytes(items) == 0 {
        return Schedule::default();
    }
    let first_rank = if is_first { 0 } else { remote_size };
    let mut whole = reduce(&Reduce { rank, size, root: 0, items, commutative, in_place: false });
    renumber(&mut whole, first_rank);
    if rank == 0 {
        let other = if is_first { size } else { 0 };
        let mut plan = Plan::default();
        let (result, theirs) = (Vector::of_receive(items), plan.scratch_items(items));
        plan.send(other, result.part(0..items.count));
        plan.receive(other, theirs.part(0..items.count));
        plan.copy(theirs.part(0..items.count), result.part(0..items.count));
        append(&mut whole, plan.finish());
    }
    let mut spread = bcast(&Bcast { rank, size, root: 0, items });
    renumber(&mut spread, first_rank);
    append(&mut whole, spread);
    whole
}

/// The ranks of `schedule` begin at `first` from now on.
fn renumber(schedule: &mut Schedule, first: u32) {
    for transfer in schedule.rounds.iter_mut().flat_map(|round| &mut round.transfers) {
        match transfer {
            Transfer::Send { to, .. } => *to += first,
            Transfer::Receive { from, .. } => *from += first,
        }
    }
}

/// `next` follows; it uses the same working memory anew.
fn append(schedule: &mut Schedule, next: Schedule) {
    schedule.rounds.extend(next.rounds);
    schedule.scratch = schedule.scratch.max(next.scratch);
}
