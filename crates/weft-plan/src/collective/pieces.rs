//! An allgather of pieces, which is the second half of many algorithms: each rank has one piece at first, and
//! all pieces in the end.
//!
//! The ranks stand in a cycle of positions `0..size`; `rank_of(position)` is the rank at a position.

use core::ops::Range;

use super::gather::OUTSTANDING_MAX;
use super::plan::{Part, Plan, Vector, bytes};
use super::tree::cyclic;
use super::{Bcast, Buffer};

/// Steps of a ring, or segments of a pipeline, that one rank sends, or receives, at a time.
pub(super) const STEPS_UNDER_WAY: usize = 8;

/// The first item of part `i`, where `count` items are cut into `parts` nearly equal parts: part `i` is
/// `cut(i) .. cut(i + 1)`.
pub(super) fn cut(count: u64, parts: u32, i: u32) -> u64 {
    let (quotient, remainder) = (count / parts as u64, count % parts as u64);
    i as u64 * quotient + remainder.min(i as u64)
}

/// The range of part `i`.
pub(super) fn cut_range(count: u64, parts: u32, i: u32) -> Range<u64> {
    cut(count, parts, i)..cut(count, parts, i + 1)
}

/// Plans a ring: pieces travel one position each round, in `size - 1` rounds, and each piece crosses each gap
/// once. Neighbours on one host keep most of the data off the network.
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

/// Plans rounds with the one and the other neighbour in turns, in which the two newest pieces go on: half as
/// many rounds as the ring's (Chen and others, 2005). For odd sizes it is the ring.
pub(super) fn neighbour_exchange(plan: &mut Plan, here: u32, size: u32, piece: impl Fn(u32) -> Part) {
    if !size.is_multiple_of(2) {
        return ring(plan, here, size, |position| position, piece);
    }
    let (n, is_even) = (size as u64, here.is_multiple_of(2));
    let at = |number: u64| cyclic(number, size);
    // Pieces come in pairs, named by their even piece. First each rank completes its own pair.
    let mut newest = (here & !1) as u64;
    plan.send(here ^ 1, piece(here));
    plan.receive(here ^ 1, piece(here ^ 1));
    plan.limit(4 * STEPS_UNDER_WAY, |plan| {
        for round in 1..n / 2 {
            // In odd rounds the even ranks turn to the rank before, the odd ranks to the rank behind.
            let turns_back = is_even == (round % 2 == 1);
            let peer = at(here as u64 + if turns_back { n - 1 } else { 1 });
            // Even ranks get the pairs before their own, then those behind, further away each time; odd ranks
            // the other way round.
            let away = 2 * round.div_ceil(2);
            let base = (here & !1) as u64;
            let arriving = if turns_back { base + n - away } else { base + away };
            for i in [0, 1] {
                plan.send(peer, piece(at(newest + i)));
            }
            for i in [0, 1] {
                plan.receive(peer, piece(at(arriving + i)));
            }
            newest = arriving;
        }
    });
}

/// Plans log₂ size rounds with partners 1, 2, 4, … away; each partner gives all the pieces that it has. For
/// sizes that are powers of two, else dissemination.
pub(super) fn doubling(plan: &mut Plan, here: u32, size: u32, run: impl Fn(Range<u32>) -> Part) {
    if !size.is_power_of_two() {
        return dissemination(plan, here, size, |position| position, run);
    }
    for distance in (0..size.trailing_zeros()).map(|bit| 1 << bit) {
        let (mine, theirs) = (here & !(distance - 1), here & !(distance - 1) ^ distance);
        plan.send(here ^ distance, run(mine..mine + distance));
        plan.receive(here ^ distance, run(theirs..theirs + distance));
    }
}

/// Plans a message with each piece from its rank to each other rank.
pub(super) fn linear(plan: &mut Plan, here: u32, size: u32, piece: impl Fn(u32) -> Part) {
    let (at, n) = (here as u64, size as u64);
    plan.limit(2 * OUTSTANDING_MAX, |plan| {
        for step in 1..n {
            let (to, from) = (cyclic(at + step, size), cyclic(at + n - step, size));
            plan.receive(from, piece(from));
            plan.send(to, piece(here));
        }
    });
}

/// Plans a multicast of each piece by the rank that has it. Ranks send nothing else.
pub(super) fn multicast(plan: &mut Plan, here: u32, size: u32, piece: impl Fn(u32) -> Part) {
    if size > 1 {
        plan.multicast(piece(here));
    }
    (1..size as u64).map(|step| cyclic(here as u64 + step, size)).for_each(|from| plan.receive(from, piece(from)));
}

/// Plans ⌈log₂ size⌉ rounds, for any size; the number of pieces held doubles each round (Bruck and others,
/// 1997). Unlike Bruck's, every piece goes to its final position at once: a run of pieces that wraps past the
/// last position travels as two messages.
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
    // The `held` pieces that end with this position's own are here.
    let mut held = 1;
    while held < n {
        let count = held.min(n - held);
        let (to, from) = (cyclic(at + held, size), cyclic(at + n - held, size));
        runs_ending(here, count as u32, size, |range| plan.send(rank_of(to), run(range)));
        runs_ending(from, count as u32, size, |range| plan.receive(rank_of(from), run(range)));
        held += count;
    }
}

/// Visits the `count` positions that end with `last`, as one or two runs without wrap.
fn runs_ending(last: u32, count: u32, size: u32, mut visit: impl FnMut(Range<u32>)) {
    if count <= last + 1 {
        visit(last + 1 - count..last + 1);
    } else {
        visit(size - (count - last - 1)..size);
        visit(0..last + 1);
    }
}

/// Most segments of a pipeline whose segments are each sent once or received once. It bounds the size of a
/// schedule.
pub(super) const SEGMENTS_MAX: u64 = 1024;

/// The ranges of segments of `length` (at least 1). Segments are longer if there would be more than
/// `segments_max`.
pub(super) fn segments(total: u64, length: u64, segments_max: u64) -> impl Iterator<Item = core::ops::Range<u64>> {
    let length = length.max(total.div_ceil(segments_max)).max(1);
    (0..total.div_ceil(length)).map(move |i| i * length..(i * length).saturating_add(length).min(total))
}

/// The data of a broadcast as packed bytes: in the user's buffer if it is packed there, else in scratch,
/// packed at the root.
pub(super) fn open(plan: &mut Plan, arguments: &Bcast) -> Vector {
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

/// Unpacks the data of a broadcast at each rank where it arrived in scratch.
pub(super) fn close(plan: &mut Plan, arguments: &Bcast, data: Vector) {
    let items = arguments.items;
    if data.buffer == Buffer::Scratch && arguments.rank != arguments.root {
        plan.copy(data.part(0..bytes(items)), Vector::of_receive(items).part(0..items.count));
    }
}
