//! Allgather: one block from each rank to all.

use alloc::vec::Vec;

use super::pieces;
use super::plan::{Plan, Vector, bytes};
use super::select::AllgatherAlgorithm;
use super::{Allgather, Allgatherv, Buffer, Kind, Schedule};

pub(super) fn schedule(arguments: &Allgather, algorithm: AllgatherAlgorithm) -> Schedule {
    let Allgather { rank, size, send, receive, in_place } = *arguments;
    if bytes(receive) == 0 {
        return Schedule::default();
    }
    let mut plan = Plan::default();
    let all = Vector::of_receive(receive);
    let run = |first: u32, end: u32| all.part(first as u64 * receive.count..end as u64 * receive.count);
    if !in_place {
        plan.copy(Vector::of_send(send).part(0..send.count), run(rank, rank + 1));
        plan.end_round();
    }
    match algorithm {
        AllgatherAlgorithm::Dissemination => {
            pieces::dissemination(&mut plan, rank, size, |place| place, |range| run(range.start, range.end));
        }
        AllgatherAlgorithm::Ring => pieces::ring(&mut plan, rank, size, |place| place, |i| run(i, i + 1)),
    }
    plan.finish()
}

pub(super) fn allgatherv(arguments: &Allgatherv<'_>, algorithm: AllgatherAlgorithm) -> Schedule {
    let Allgatherv { rank, size, send, receive, in_place } = *arguments;
    let mut plan = Plan::default();
    let block = |i: u32| receive.slice(i, Buffer::Receive, Kind::Receive);
    let own = if in_place { block(rank) } else { Vector::of_send(send).part(0..send.count) };
    match algorithm {
        AllgatherAlgorithm::Dissemination => packed(&mut plan, arguments, own),
        AllgatherAlgorithm::Ring => {
            if !in_place {
                plan.copy(own, block(rank));
                plan.end_round();
            }
            // A block without bytes may have items; neighbours must agree that it does not travel.
            let piece =
                |i: u32| super::Slice { count: if receive.bytes(i) == 0 { 0 } else { block(i).count }, ..block(i) };
            pieces::ring(&mut plan, rank, size, |place| place, piece);
        }
    }
    plan.finish()
}

/// Dissemination of packed blocks, which lie side by side in scratch as they need not in the user's buffer.
fn packed(plan: &mut Plan, arguments: &Allgatherv<'_>, own: super::Slice) {
    let Allgatherv { rank, size, receive, in_place, .. } = *arguments;
    let mut starts = Vec::with_capacity(size as usize + 1);
    let mut total = 0;
    for i in 0..size {
        starts.push(total);
        total += receive.bytes(i);
    }
    starts.push(total);
    let data = plan.scratch_bytes(total);
    let run = |first: u32, end: u32| data.part(starts[first as usize]..starts[end as usize]);
    plan.copy(own, run(rank, rank + 1));
    plan.end_round();
    pieces::dissemination(plan, rank, size, |place| place, |range| run(range.start, range.end));
    for i in (0..size).filter(|&i| !(in_place && i == rank)) {
        plan.copy(run(i, i + 1), receive.slice(i, Buffer::Receive, Kind::Receive));
    }
}
