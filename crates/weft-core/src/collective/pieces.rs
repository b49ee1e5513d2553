//! Each rank has one piece at first, and all pieces in the end: an allgather, which is the second half of many algorithms.
//!
//! The ranks stand in a cycle of places `0..size`; `rank_of(place)` is the rank at a place.

use core::ops::Range;

use super::plan::{Part, Plan};
use super::tree::cyclic;

/// Steps of a ring, or segments of a pipeline, that one rank sends, or receives, at a time.
pub(super) const STEPS_UNDER_WAY: usize = 8;

/// Where `count` items cut into `parts` nearly equal parts begin: part `i` is `cut(i) .. cut(i + 1)`.
pub(super) fn cut(count: u64, parts: u32, i: u32) -> u64 {
    let (quotient, remainder) = (count / parts as u64, count % parts as u64);
    i as u64 * quotient + remainder.min(i as u64)
}

/// The range of part `i`.
pub(super) fn cut_range(count: u64, parts: u32, i: u32) -> Range<u64> {
    cut(count, parts, i)..cut(count, parts, i + 1)
}

/// Pieces travel round the ring, one place each round: `size - 1` rounds, everything crosses each gap once. Neighbours
/// on one host keep most of it off the network.
pub(super) fn ring(plan: &mut Plan, here: u32, size: u32, rank_of: impl Fn(u32) -> u32, piece: impl Fn(u32) -> Part) {
    let (at, n) = (here as u64, size as u64);
    let next = rank_of(cyclic(at + 1, size));
    let previous = rank_of(cyclic(at + n - 1, size));
    plan.limit(2 * STEPS_UNDER_WAY, |plan| {
        for step in 0..n - 1 {
            plan.send(next, piece(cyclic(at + n - step, size)));
            plan.receive(previous, piece(cyclic(at + n - step - 1, size)));
        }
    });
}

/// ⌈log₂ size⌉ rounds, for any size; what is held doubles each round (Bruck and others, 1997, but every piece goes to its
/// final place at once: a run of pieces that wraps past the last place travels as two messages).
///
/// `run(first..end)` is the part of adjacent pieces.
pub(super) fn dissemination(
    plan: &mut Plan,
    here: u32,
    size: u32,
    rank_of: impl Fn(u32) -> u32,
    run: impl Fn(Range<u32>) -> Part,
) {
    let (at, n) = (here as u64, size as u64);
    // The `held` pieces that end with this place's own are here.
    let mut held = 1;
    while held < n {
        let count = held.min(n - held);
        let (to, from) = (cyclic(at + held, size), cyclic(at + n - held, size));
        runs_ending(here, count as u32, size, |range| plan.send(rank_of(to), run(range)));
        runs_ending(from, count as u32, size, |range| plan.receive(rank_of(from), run(range)));
        held += count;
    }
}

/// The `count` places that end with `last`, as one or two runs without wrap.
fn runs_ending(last: u32, count: u32, size: u32, mut visit: impl FnMut(Range<u32>)) {
    if count <= last + 1 {
        visit(last + 1 - count..last + 1);
    } else {
        visit(size - (count - last - 1)..size);
        visit(0..last + 1);
    }
}
