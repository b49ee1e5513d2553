//! Scatter: one block from the root to each rank.

use alloc::vec::Vec;

use super::gather::OUTSTANDING_MAX;
use super::plan::{Plan, Vector, bytes};
use super::select::GatherAlgorithm;
use super::{Buffer, Gather, Kind, Scatterv, tree};

pub(super) fn add(plan: &mut Plan, arguments: &Gather, algorithm: GatherAlgorithm) {
    if arguments.scattered_bytes() == 0 {
        return;
    }
    match algorithm {
        GatherAlgorithm::Linear => linear(plan, arguments),
        GatherAlgorithm::Tree { radix } => down(plan, arguments, radix),
    }
}

/// Plans a scatter in which the root sends to each rank.
fn linear(plan: &mut Plan, arguments: &Gather) {
    let Gather { rank, size, root, send, receive, in_place } = *arguments;
    let own = Vector::of_receive(receive).part(0..receive.count);
    if rank != root {
        plan.receive(root, own);
        return;
    }
    let all = Vector::of_send(send);
    let block = |i: u32| all.part(i as u64 * send.count..(i as u64 + 1) * send.count);
    plan.limit(OUTSTANDING_MAX, |plan| {
        for node in 1..size {
            let to = tree::rank(node, root, size);
            plan.send(to, block(to));
        }
    });
    if !in_place {
        plan.copy(block(root), own);
    }
}

/// Plans the way down the k-nomial tree of ranks counted from the root, largest subtrees first: a subtree's
/// blocks travel as one message. The root sends from the user's buffer, unless a subtree wraps from the last
/// rank to rank 0.
fn down(plan: &mut Plan, arguments: &Gather, radix: u32) {
    let tree = tree::k_nomial(radix, arguments.size);
    let Gather { rank, size, root, send, receive, in_place } = *arguments;
    let here = tree::node(rank, root, size);
    let own = Vector::of_receive(receive).part(0..receive.count);
    let children: Vec<u32> = tree.children(here).into_iter().rev().collect();
    let Some(parent) = tree.parent(here) else {
        let all = Vector::of_send(send);
        let blocks =
            |first: u32, count: u32| all.part(first as u64 * send.count..(first as u64 + count as u64) * send.count);
        let first_rank = |child| tree::rank(child, root, size);
        let wraps = |child| first_rank(child) + tree.subtree(child) > size;
        let wrapped = children.iter().copied().find(|&child| wraps(child)).map(|child| {
            let (from, count) = (first_rank(child), tree.subtree(child));
            let (before, length) = ((size - from) as u64 * bytes(send), count as u64 * bytes(send));
            let packed = plan.scratch_bytes(length);
            plan.copy(blocks(from, size - from), packed.part(0..before));
            plan.copy(blocks(0, count - (size - from)), packed.part(before..length));
            packed.part(0..length)
        });
        for child in children {
            let slice = match wrapped {
                Some(packed) if wraps(child) => packed,
                _ => blocks(first_rank(child), tree.subtree(child)),
            };
            plan.send(first_rank(child), slice);
        }
        if !in_place {
            plan.copy(blocks(rank, 1), own);
        }
        return;
    };
    let (parent, mine) = (tree::rank(parent, root, size), tree.subtree(here));
    if mine == 1 {
        plan.receive(parent, own);
        return;
    }
    let length = bytes(receive);
    let packed = plan.scratch_bytes(mine as u64 * length);
    let blocks = |first: u32, count: u32| packed.part(first as u64 * length..(first as u64 + count as u64) * length);
    plan.receive(parent, blocks(0, mine));
    for child in children {
        plan.send(tree::rank(child, root, size), blocks(child - here, tree.subtree(child)));
    }
    plan.copy(blocks(0, 1), own);
}

/// Plans a send from the root to each rank, because only the root knows the lengths of the blocks.
pub(super) fn scatterv(plan: &mut Plan, arguments: &Scatterv<'_>) {
    let Scatterv { rank, size, root, send, receive, in_place } = *arguments;
    let own = Vector::of_receive(receive).part(0..receive.count);
    if rank != root {
        if bytes(receive) > 0 {
            plan.receive(root, own);
        }
        return;
    }
    plan.limit(OUTSTANDING_MAX, |plan| {
        for to in (1..size).map(|node| tree::rank(node, root, size)) {
            if send.bytes(to) > 0 {
                plan.send(to, send.part(to, Buffer::Send, Kind::Send));
            }
        }
    });
    if !in_place && send.bytes(root) > 0 {
        plan.copy(send.part(root, Buffer::Send, Kind::Send), own);
    }
}
