//! Allgather: one block from each rank to all.

use alloc::vec::Vec;

use super::pieces;
use super::plan::{Part, Plan, Vector, bytes};
use super::select::AllgatherAlgorithm;
use super::{Allgather, Allgatherv, Buffer, Kind};
use super::{shared, single_copy};

pub(super) fn add(plan: &mut Plan, arguments: &Allgather, algorithm: AllgatherAlgorithm) {
    let Allgather { rank, size, send, receive, in_place } = *arguments;
    if bytes(receive) == 0 {
        return;
    }
    let all = Vector::of_receive(receive);
    let run = |first: u32, end: u32| all.part(first as u64 * receive.count..end as u64 * receive.count);
    let own = if in_place { run(rank, rank + 1) } else { Vector::of_send(send).part(0..send.count) };
    if algorithm == AllgatherAlgorithm::Shared {
        let block = |i| (run(i, i + 1), bytes(receive));
        return shared::allgather(plan, (rank, size), own, in_place, block);
    }
    if algorithm == AllgatherAlgorithm::SingleCopy {
        let block = |i| (run(i, i + 1), bytes(receive));
        let is_run = if in_place { receive.shape.contiguous } else { send.shape.contiguous };
        return single_copy::allgather(plan, (rank, size), (own, is_run), in_place, block);
    }
    if !in_place {
        plan.copy(own, run(rank, rank + 1));
    }
    exchange(plan, (rank, size), algorithm, run);
}

/// Plans the exchange: each rank has its own block, and gets all. `run(first, end)` is the part of adjacent
/// blocks.
pub(super) fn exchange(
    plan: &mut Plan,
    (rank, size): (u32, u32),
    algorithm: AllgatherAlgorithm,
    run: impl Fn(u32, u32) -> Part,
) {
    match algorithm {
        AllgatherAlgorithm::Dissemination => {
            pieces::dissemination(plan, rank, size, |position| position, |range| run(range.start, range.end));
        }
        AllgatherAlgorithm::Ring => pieces::ring(plan, rank, size, |position| position, |i| run(i, i + 1)),
        AllgatherAlgorithm::NeighbourExchange => pieces::neighbour_exchange(plan, rank, size, |i| run(i, i + 1)),
        AllgatherAlgorithm::Doubling => pieces::doubling(plan, rank, size, |range| run(range.start, range.end)),
        AllgatherAlgorithm::Multicast => pieces::multicast(plan, rank, size, |i| run(i, i + 1)),
        // Ranks of several nodes share no memory, and ranks of one node do not come here to use it.
        AllgatherAlgorithm::Linear | AllgatherAlgorithm::Shared | AllgatherAlgorithm::SingleCopy => {
            pieces::linear(plan, rank, size, |i| run(i, i + 1));
        }
    }
}

pub(super) fn allgatherv(plan: &mut Plan, arguments: &Allgatherv<'_>, algorithm: AllgatherAlgorithm) {
    let Allgatherv { rank, size, send, receive, in_place } = *arguments;
    let block = |i: u32| receive.part(i, Buffer::Receive, Kind::Receive);
    let own = if in_place { block(rank) } else { Vector::of_send(send).part(0..send.count) };
    match algorithm {
        AllgatherAlgorithm::Shared => {
            shared::allgather(plan, (rank, size), own, in_place, |i| (block(i), receive.bytes(i)));
        }
        AllgatherAlgorithm::SingleCopy => {
            // The data in the receive buffer may be several runs; its shape is not known here.
            let own = (own, !in_place && send.shape.contiguous);
            single_copy::allgather(plan, (rank, size), own, in_place, |i| (block(i), receive.bytes(i)));
        }
        AllgatherAlgorithm::Dissemination | AllgatherAlgorithm::Doubling => packed(plan, arguments, own, algorithm),
        AllgatherAlgorithm::Ring
        | AllgatherAlgorithm::NeighbourExchange
        | AllgatherAlgorithm::Linear
        | AllgatherAlgorithm::Multicast => {
            if !in_place {
                plan.copy(own, block(rank));
            }
            // A block without bytes may have items; neighbours must agree that it does not travel.
            let piece = |i: u32| if receive.bytes(i) == 0 { block(i).without_items() } else { block(i) };
            match algorithm {
                AllgatherAlgorithm::NeighbourExchange => pieces::neighbour_exchange(plan, rank, size, piece),
                AllgatherAlgorithm::Linear => pieces::linear(plan, rank, size, piece),
                AllgatherAlgorithm::Multicast => pieces::multicast(plan, rank, size, piece),
                _ => pieces::ring(plan, rank, size, |position| position, piece),
            }
        }
    }
}

/// Exchanges packed blocks, which lie side by side in scratch though perhaps not in the user's buffer.
fn packed(plan: &mut Plan, arguments: &Allgatherv<'_>, own: Part, algorithm: AllgatherAlgorithm) {
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
    match algorithm {
        AllgatherAlgorithm::Doubling => pieces::doubling(plan, rank, size, |range| run(range.start, range.end)),
        _ => pieces::dissemination(plan, rank, size, |position| position, |range| run(range.start, range.end)),
    }
    for i in (0..size).filter(|&i| !(in_place && i == rank)) {
        plan.copy(run(i, i + 1), receive.part(i, Buffer::Receive, Kind::Receive));
    }
}
