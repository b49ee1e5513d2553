//! Gather: one block from each rank to the root.

use super::plan::{Plan, Vector, bytes};
use super::select::GatherAlgorithm;
use super::{Buffer, Gather, Gatherv, Kind, Schedule, Slice, tree};

/// Most transfers that a root (or a process in an exchange with all) has under way.
pub(super) const OUTSTANDING_MAX: usize = 64;

/// Packed bytes of one block, as everybody knows it.
pub(super) fn block_bytes(arguments: &Gather) -> u64 {
    bytes(if arguments.rank == arguments.root { arguments.receive } else { arguments.send })
}

pub(super) fn schedule(arguments: &Gather, algorithm: GatherAlgorithm) -> Schedule {
    if block_bytes(arguments) == 0 {
        return Schedule::default();
    }
    match algorithm {
        GatherAlgorithm::Linear => linear(arguments),
        GatherAlgorithm::Binomial => binomial(arguments),
    }
}

/// The root receives from everybody.
fn linear(arguments: &Gather) -> Schedule {
    let Gather { rank, size, root, send, receive, in_place } = *arguments;
    let mut plan = Plan::default();
    let own = Vector::of_send(send).part(0..send.count);
    if rank != root {
        plan.send(root, own);
        return plan.finish();
    }
    let all = Vector::of_receive(receive);
    let block = |i: u32| all.part(i as u64 * receive.count..(i as u64 + 1) * receive.count);
    if !in_place {
        plan.copy(own, block(root));
        plan.end_round();
    }
    for node in 1..size {
        let from = tree::rank(node, root, size);
        plan.receive(from, block(from));
        plan.end_full_round(OUTSTANDING_MAX);
    }
    plan.finish()
}

/// Up the binomial tree of ranks counted from the root: a subtree's blocks travel as one message. Inner nodes keep them
/// packed in scratch; the root receives in place, unless a subtree wraps from the last rank to rank 0.
fn binomial(arguments: &Gather) -> Schedule {
    let Gather { rank, size, root, send, receive, in_place } = *arguments;
    let mut plan = Plan::default();
    let here = tree::node(rank, root, size);
    let own = Vector::of_send(send).part(0..send.count);
    let Some(parent) = tree::parent(here) else {
        let all = Vector::of_receive(receive);
        let blocks = |first: u32, count: u32| {
            all.part(first as u64 * receive.count..(first as u64 + count as u64) * receive.count)
        };
        let mut wrapped = None;
        for child in tree::children(here, size) {
            let (from, count) = (tree::rank(child, root, size), tree::subtree(child, size));
            if from + count <= size {
                plan.receive(from, blocks(from, count));
            } else {
                let packed = plan.scratch_bytes(count as u64 * bytes(receive));
                plan.receive(from, packed.part(0..count as u64 * bytes(receive)));
                wrapped = Some((packed, from, count));
            }
        }
        if let Some((packed, from, count)) = wrapped {
            let (before, all) = ((size - from) as u64 * bytes(receive), count as u64 * bytes(receive));
            plan.copy(packed.part(0..before), blocks(from, size - from));
            plan.copy(packed.part(before..all), blocks(0, count - (size - from)));
        }
        if !in_place {
            plan.copy(own, blocks(rank, 1));
        }
        return plan.finish();
    };
    let (parent, mine) = (tree::rank(parent, root, size), tree::subtree(here, size));
    if mine == 1 {
        plan.send(parent, own);
        return plan.finish();
    }
    let length = bytes(send);
    let packed = plan.scratch_bytes(mine as u64 * length);
    let blocks = |first: u32, count: u32| packed.part(first as u64 * length..(first as u64 + count as u64) * length);
    for child in tree::children(here, size) {
        plan.receive(tree::rank(child, root, size), blocks(child - here, tree::subtree(child, size)));
    }
    plan.copy(own, blocks(0, 1));
    plan.send(parent, blocks(0, mine));
    plan.finish()
}

/// Only the root knows what others send, so everybody sends to the root.
pub(super) fn gatherv(arguments: &Gatherv<'_>) -> Schedule {
    let Gatherv { rank, size, root, send, receive, in_place } = *arguments;
    let mut plan = Plan::default();
    let own = Vector::of_send(send).part(0..send.count);
    if rank != root {
        if bytes(send) > 0 {
            plan.send(root, own);
        }
        return plan.finish();
    }
    if !in_place && receive.bytes(root) > 0 {
        plan.copy(own, receive.slice(root, Buffer::Receive, Kind::Receive));
        plan.end_round();
    }
    for from in (1..size).map(|node| tree::rank(node, root, size)) {
        if receive.bytes(from) > 0 {
            plan.receive(from, receive.slice(from, Buffer::Receive, Kind::Receive));
            plan.end_full_round(OUTSTANDING_MAX);
        }
    }
    plan.finish()
}

impl super::Blocks<'_> {
    /// Packed bytes of a rank's block.
    pub(super) fn bytes(&self, rank: u32) -> u64 {
        self.counts[rank as usize] * self.item_size
    }

    /// A rank's block.
    pub(super) fn slice(&self, rank: u32, buffer: Buffer, kind: Kind) -> Slice {
        let rank = rank as usize;
        Slice { buffer, offset: self.displacements[rank], count: self.counts[rank], kind }
    }
}
