//! Gather: one block from each rank to the root.

use super::plan::{Plan, Vector, bytes};
use super::select::GatherAlgorithm;
use super::{Buffer, Gather, Gatherv, Kind, tree};

/// Most transfers that a root has under way; also of a process in an exchange with all.
pub(super) const OUTSTANDING_MAX: usize = 64;

pub(super) fn add(plan: &mut Plan, arguments: &Gather, algorithm: GatherAlgorithm) {
    if arguments.gathered_bytes() == 0 {
        return;
    }
    match algorithm {
        GatherAlgorithm::Linear => linear(plan, arguments),
        GatherAlgorithm::Tree { radix } => up(plan, arguments, radix),
    }
}

/// Plans a gather in which the root receives from each rank.
fn linear(plan: &mut Plan, arguments: &Gather) {
    let Gather { rank, size, root, send, receive, in_place } = *arguments;
    let own = Vector::of_send(send).part(0..send.count);
    if rank != root {
        plan.send(root, own);
        return;
    }
    let all = Vector::of_receive(receive);
    let block = |i: u32| all.part(i as u64 * receive.count..(i as u64 + 1) * receive.count);
    if !in_place {
        plan.copy(own, block(root));
    }
    plan.limit(OUTSTANDING_MAX, |plan| {
        for node in 1..size {
            let from = tree::rank(node, root, size);
            plan.receive(from, block(from));
        }
    });
}

/// Plans the way up the k-nomial tree of ranks counted from the root: a subtree's blocks travel as one
/// message. Inner nodes keep the blocks packed in scratch. The root receives in place, unless a subtree wraps
/// from the last rank to rank 0.
fn up(plan: &mut Plan, arguments: &Gather, radix: u32) {
    let tree = tree::k_nomial(radix, arguments.size);
    let Gather { rank, size, root, send, receive, in_place } = *arguments;
    let here = tree::node(rank, root, size);
    let own = Vector::of_send(send).part(0..send.count);
    let Some(parent) = tree.parent(here) else {
        let all = Vector::of_receive(receive);
        let blocks = |first: u32, count: u32| {
            all.part(first as u64 * receive.count..(first as u64 + count as u64) * receive.count)
        };
        let mut wrapped = None;
        for child in tree.children(here) {
            let (from, count) = (tree::rank(child, root, size), tree.subtree(child));
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
        return;
    };
    let (parent, mine) = (tree::rank(parent, root, size), tree.subtree(here));
    if mine == 1 {
        plan.send(parent, own);
        return;
    }
    let length = bytes(send);
    let packed = plan.scratch_bytes(mine as u64 * length);
    let blocks = |first: u32, count: u32| packed.part(first as u64 * length..(first as u64 + count as u64) * length);
    for child in tree.children(here) {
        plan.receive(tree::rank(child, root, size), blocks(child - here, tree.subtree(child)));
    }
    plan.copy(own, blocks(0, 1));
    plan.send(parent, blocks(0, mine));
}

/// Plans a send from each rank to the root, because only the root knows the lengths of the blocks.
pub(super) fn gatherv(plan: &mut Plan, arguments: &Gatherv<'_>) {
    let Gatherv { rank, size, root, send, receive, in_place } = *arguments;
    let own = Vector::of_send(send).part(0..send.count);
    if rank != root {
        if bytes(send) > 0 {
            plan.send(root, own);
        }
        return;
    }
    if !in_place && receive.bytes(root) > 0 {
        plan.copy(own, receive.part(root, Buffer::Receive, Kind::Receive));
    }
    plan.limit(OUTSTANDING_MAX, |plan| {
        for from in (1..size).map(|node| tree::rank(node, root, size)) {
            if receive.bytes(from) > 0 {
                plan.receive(from, receive.part(from, Buffer::Receive, Kind::Receive));
            }
        }
    });
}
