//! Broadcast. Ranks may describe the data by different counts and datatypes, so data is cut at packed bytes only.

use alloc::vec::Vec;

use super::pieces::{self, cut};
use super::plan::{Plan, Vector, bytes};
use super::select::BcastAlgorithm;
use super::{Bcast, Buffer, Schedule, tree};

pub(super) fn schedule(arguments: &Bcast, algorithm: BcastAlgorithm) -> Schedule {
    if arguments.size == 1 || bytes(arguments.items) == 0 {
        return Schedule::default();
    }
    match algorithm {
        BcastAlgorithm::Binomial => binomial(arguments),
        BcastAlgorithm::ScatterDissemination => scatter_allgather(arguments, false),
        BcastAlgorithm::ScatterRing => scatter_allgather(arguments, true),
        BcastAlgorithm::Chain { segment_bytes } => chain(arguments, segment_bytes),
    }
}

/// Down the binomial tree, whole: ⌈log₂ n⌉ steps, largest subtrees first.
fn binomial(arguments: &Bcast) -> Schedule {
    let Bcast { rank, size, root, items } = *arguments;
    let mut plan = Plan::default();
    let whole = Vector::of_receive(items).part(0..items.count);
    let here = tree::node(rank, root, size);
    if let Some(parent) = tree::parent(here) {
        plan.receive(tree::rank(parent, root, size), whole);
        plan.end_round();
    }
    for child in tree::children(here, size).rev() {
        plan.send(tree::rank(child, root, size), whole);
    }
    plan.finish()
}

/// Parts go down the binomial tree, then everybody exchanges parts (van de Geijn): every byte leaves each rank about
/// twice, however many ranks there are.
fn scatter_allgather(arguments: &Bcast, ring: bool) -> Schedule {
    let Bcast { rank, size, root, .. } = *arguments;
    let total = bytes(arguments.items);
    let mut plan = Plan::default();
    let data = open(&mut plan, arguments);
    let here = tree::node(rank, root, size);
    let rank_of = |node| tree::rank(node, root, size);
    let run = |first, end| data.part(cut(total, size, first)..cut(total, size, end));
    if let Some(parent) = tree::parent(here) {
        plan.receive(rank_of(parent), run(here, here + tree::subtree(here, size)));
        plan.end_round();
    }
    for child in tree::children(here, size).rev() {
        plan.send(rank_of(child), run(child, child + tree::subtree(child, size)));
    }
    plan.end_round();
    // Node 0 has everything and could be spared what it receives again, at the price of irregular rounds.
    if ring {
        pieces::ring(&mut plan, here, size, rank_of, |piece| run(piece, piece + 1));
    } else {
        pieces::dissemination(&mut plan, here, size, rank_of, |range| run(range.start, range.end));
    }
    close(&mut plan, arguments, data);
    plan.finish()
}

/// Segments follow one another from rank to rank: the time of one copy of the data, and of a segment for each rank.
fn chain(arguments: &Bcast, segment_bytes: u64) -> Schedule {
    let Bcast { rank, size, root, .. } = *arguments;
    let total = bytes(arguments.items);
    let mut plan = Plan::default();
    let data = open(&mut plan, arguments);
    let here = tree::node(rank, root, size);
    let segments: Vec<_> = segments(total, segment_bytes).map(|range| data.part(range)).collect();
    for step in 0..=segments.len() {
        if here > 0 && step < segments.len() {
            plan.receive(tree::rank(here - 1, root, size), segments[step]);
        }
        if here + 1 < size && step > 0 {
            plan.send(tree::rank(here + 1, root, size), segments[step - 1]);
        }
        plan.end_round();
    }
    close(&mut plan, arguments, data);
    plan.finish()
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
