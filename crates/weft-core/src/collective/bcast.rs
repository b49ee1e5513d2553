//! Broadcast. Ranks may describe the data by different counts and datatypes, so data is cut at packed bytes only.

use alloc::vec::Vec;

use super::gather::OUTSTANDING_MAX;
use super::pieces::{self, STEPS_UNDER_WAY, cut};
use super::plan::{Plan, Vector, bytes};
use super::select::{BcastAlgorithm, Tree};
use super::{Bcast, Buffer, tree};

pub(super) fn add(plan: &mut Plan, arguments: &Bcast, algorithm: BcastAlgorithm) {
    if arguments.size == 1 || bytes(arguments.items) == 0 {
        return;
    }
    match algorithm {
        BcastAlgorithm::Tree { tree, segment_bytes } => down(plan, arguments, tree, segment_bytes),
        BcastAlgorithm::ScatterDissemination => scatter_allgather(plan, arguments, false),
        BcastAlgorithm::ScatterRing => scatter_allgather(plan, arguments, true),
    }
}

/// Down a tree, in segments: in each a node's largest subtrees come first.
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

/// Parts go down the binomial tree, then everybody exchanges parts (van de Geijn): every byte leaves each rank about
/// twice, however many ranks there are.
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
    // Node 0 has everything and could be spared what it receives again, at the price of irregular rounds.
    if ring {
        pieces::ring(plan, here, size, rank_of, |piece| run(piece, piece + 1));
    } else {
        pieces::dissemination(plan, here, size, rank_of, |range| run(range.start, range.end));
    }
    close(plan, arguments, data);
}

/// Most segments that a pipeline is cut into where each is sent once or received once; it bounds the size of a schedule.
pub(super) const SEGMENTS_MAX: u64 = 1024;

/// Most segments where nodes send each segment to all their children.
pub(super) fn segments_max(tree: Tree, size: u32) -> u64 {
    (2 * SEGMENTS_MAX / (tree.fan_out(size) + 1)).clamp(1, SEGMENTS_MAX)
}

/// The ranges of segments of `length` (at least 1), longer if there would be more than `segments_max`.
pub(super) fn segments(total: u64, length: u64, segments_max: u64) -> impl Iterator<Item = core::ops::Range<u64>> {
    let length = length.max(total.div_ceil(segments_max)).max(1);
    (0..total.div_ceil(length)).map(move |i| i * length..(i * length).saturating_add(length).min(total))
}

/// The data as packed bytes: in the user's buffer if it is so there, else in scratch, packed at the root.
fn open(plan: &mut Plan, arguments: &Bcast) -> Vector {
    let items = arguments.items;
    if items.shape.contiguous {
        return Vector::packed(Buffer::Receive, items.shape.true_lb);
    }
    let data = plan.scratch_bytes(bytes(items));
    if arguments.rank == arguments.root {
        plan.copy(Vector::of_receive(items).part(0..items.count), data.part(0..bytes(items)));
    }
    data
}

/// Unpacks where that is due.
fn close(plan: &mut Plan, arguments: &Bcast, data: Vector) {
    let items = arguments.items;
    if data.buffer == Buffer::Scratch && arguments.rank != arguments.root {
        plan.copy(data.part(0..bytes(items)), Vector::of_receive(items).part(0..items.count));
    }
}
