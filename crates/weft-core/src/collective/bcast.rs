//! Broadcast. Ranks may describe the data by different counts and datatypes, so data is cut at packed bytes only.

use super::pieces::{self, STEPS_UNDER_WAY, cut};
use super::plan::{Plan, Vector, bytes};
use super::select::BcastAlgorithm;
use super::{Bcast, Buffer, tree};

pub(super) fn add(plan: &mut Plan, arguments: &Bcast, algorithm: BcastAlgorithm) {
    if arguments.size == 1 || bytes(arguments.items) == 0 {
        return;
    }
    match algorithm {
        BcastAlgorithm::Binomial => binomial(plan, arguments),
        BcastAlgorithm::ScatterDissemination => scatter_allgather(plan, arguments, false),
        BcastAlgorithm::ScatterRing => scatter_allgather(plan, arguments, true),
        BcastAlgorithm::Chain { segment_bytes } => chain(plan, arguments, segment_bytes),
    }
}

/// Down the binomial tree, whole: ⌈log₂ n⌉ steps, largest subtrees first.
fn binomial(plan: &mut Plan, arguments: &Bcast) {
    let Bcast { rank, size, root, items } = *arguments;
    let whole = Vector::of_receive(items).part(0..items.count);
    let here = tree::node(rank, root, size);
    if let Some(parent) = tree::parent(here) {
        plan.receive(tree::rank(parent, root, size), whole);
    }
    for child in tree::children(here, size).rev() {
        plan.send(tree::rank(child, root, size), whole);
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

/// Segments follow one another from rank to rank: the time of one copy of the data, and of a segment for each rank.
fn chain(plan: &mut Plan, arguments: &Bcast, segment_bytes: u64) {
    let Bcast { rank, size, root, .. } = *arguments;
    let total = bytes(arguments.items);
    let data = open(plan, arguments);
    let here = tree::node(rank, root, size);
    let (receives, sends) = (here > 0, here + 1 < size);
    plan.limit(STEPS_UNDER_WAY * (receives as usize + sends as usize), |plan| {
        for segment in segments(total, segment_bytes).map(|range| data.part(range)) {
            if receives {
                plan.receive(tree::rank(here - 1, root, size), segment);
            }
            if sends {
                plan.send(tree::rank(here + 1, root, size), segment);
            }
        }
    });
    close(plan, arguments, data);
}

/// Most segments that a pipeline is cut into; it bounds the size of a schedule.
pub(super) const SEGMENTS_MAX: u64 = 1024;

/// The ranges of segments of `length` (at least 1), longer if there would be more than [`SEGMENTS_MAX`].
pub(super) fn segments(total: u64, length: u64) -> impl Iterator<Item = core::ops::Range<u64>> {
    let length = length.max(total.div_ceil(SEGMENTS_MAX)).max(1);
    (0..total.div_ceil(length)).map(move |i| i * length..(i * length + length).min(total))
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
