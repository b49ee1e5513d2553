//! Broadcast. Ranks may describe the data by different counts and datatypes, so data is cut at packed bytes
//! only.

use alloc::vec::Vec;

use super::gather::OUTSTANDING_MAX;
use super::pieces::{self, SEGMENTS_MAX, STEPS_UNDER_WAY, close, cut, open, segments};
use super::plan::{Plan, Vector, bytes};
use super::select::{BcastAlgorithm, Tree};
use super::{Bcast, tree};
use weft_core::multicast::MESSAGE_BYTES_MAX;

pub(super) fn add(plan: &mut Plan, arguments: &Bcast, algorithm: BcastAlgorithm) {
    if arguments.size == 1 || bytes(arguments.items) == 0 {
        return;
    }
    match algorithm {
        BcastAlgorithm::Tree { tree, segment_bytes } => down(plan, arguments, tree, segment_bytes),
        BcastAlgorithm::ScatterDissemination => scatter_allgather(plan, arguments, false),
        BcastAlgorithm::ScatterRing => scatter_allgather(plan, arguments, true),
        BcastAlgorithm::Shared => super::shared::bcast(plan, arguments),
        BcastAlgorithm::SingleCopy => super::single_copy::bcast(plan, arguments),
        BcastAlgorithm::Multicast => multicast(plan, arguments, MESSAGE_BYTES_MAX),
    }
}

/// Plans the way down a tree, in segments; each node sends to its largest subtrees first.
pub(super) fn down(plan: &mut Plan, arguments: &Bcast, tree: Tree, segment_bytes: u64) {
    let Bcast { rank, size, root, items } = *arguments;
    let total = bytes(items);
    let segments: Vec<_> = segments(total, segment_bytes, segments_max(tree, size)).collect();
    let whole = segments.len() < 2 && tree != Tree::DoubleBinary;
    let data = if whole { Vector::of_receive(items) } else { open(plan, arguments) };
    let here = tree::node(rank, root, size);
    let family = |one: tree::OneTree| (one.parent(here), one.children(here));
    let families: Vec<_> = tree.each(size).map(family).collect();
    let transfers = families.iter().map(|(parent, children)| parent.is_some() as usize + children.len()).max();
    plan.limit((STEPS_UNDER_WAY * transfers.unwrap_or(0)).min(OUTSTANDING_MAX), |plan| {
        for (range, (parent, children)) in segments.into_iter().zip(families.iter().cycle()) {
            let segment = data.part(if whole { 0..items.count } else { range });
            if let Some(parent) = parent {
                plan.receive(tree::rank(*parent, root, size), segment);
            }
            for child in children.iter().rev() {
                plan.send(tree::rank(*child, root, size), segment);
            }
        }
    });
    if !whole {
        close(plan, arguments, data);
    }
}

/// Plans one multicast of each segment by the root. The length of a multicast message is limited, because its
/// receivers' memory is.
pub(super) fn multicast(plan: &mut Plan, arguments: &Bcast, segment_bytes: u64) {
    let Bcast { rank, root, items, .. } = *arguments;
    let total = bytes(items);
    let segment_bytes = segment_bytes.min(MESSAGE_BYTES_MAX);
    let whole = total <= segment_bytes;
    let data = if whole { Vector::of_receive(items) } else { open(plan, arguments) };
    // No limit on the number of segments: the root's window bounds the bytes under way.
    for range in segments(total, segment_bytes, u64::MAX) {
        let segment = data.part(if whole { 0..items.count } else { range });
        if rank == root { plan.multicast(segment) } else { plan.receive(root, segment) }
    }
    if !whole {
        close(plan, arguments, data);
    }
}

/// Plans parts down the binomial tree, then an exchange of parts among all (van de Geijn): every byte leaves
/// each rank about twice, however many ranks there are.
fn scatter_allgather(plan: &mut Plan, arguments: &Bcast, ring: bool) {
    let Bcast { rank, size, root, .. } = *arguments;
    let total = bytes(arguments.items);
    let data = open(plan, arguments);
    let here = tree::node(rank, root, size);
    let rank_of = |node| tree::rank(node, root, size);
    let run = |first, end| data.part(cut(total, size, first)..cut(total, size, end));
    if let Some(parent) = tree::parent(here) {
        plan.receive(rank_of(parent), run(here, here + tree::subtree(here, size)));
    }
    for child in tree::children(here, size).rev() {
        plan.send(rank_of(child), run(child, child + tree::subtree(child, size)));
    }
    // Node 0 has all parts already. Sparing it the parts that it receives again would make the rounds
    // irregular.
    if ring {
        pieces::ring(plan, here, size, rank_of, |piece| run(piece, piece + 1));
    } else {
        pieces::dissemination(plan, here, size, rank_of, |range| run(range.start, range.end));
    }
    close(plan, arguments, data);
}

/// Most segments where nodes send each segment to all their children.
pub(super) fn segments_max(tree: Tree, size: u32) -> u64 {
    (2 * SEGMENTS_MAX / (tree.fan_out(size) + 1)).clamp(1, SEGMENTS_MAX)
}
