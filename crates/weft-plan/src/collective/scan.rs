//! Prefix reductions (scan and exscan). All algorithms keep the order of ranks.

use super::pieces::{SEGMENTS_MAX, STEPS_UNDER_WAY, segments};
use super::plan::{Plan, Vector, bytes};
use super::select::ScanAlgorithm;
use super::{Allreduce, Items};

/// Plans the inclusive scan: rank r gets a₀ op … op aᵣ.
pub(super) fn scan(plan: &mut Plan, arguments: &Allreduce, algorithm: ScanAlgorithm) {
    if bytes(arguments.items) == 0 {
        return;
    }
    match algorithm {
        ScanAlgorithm::Doubling => scan_doubling(plan, arguments),
        ScanAlgorithm::Chain { segment_bytes } => scan_chain(plan, arguments, segment_bytes),
    }
}

/// Plans the exclusive scan: rank r gets a₀ op … op aᵣ₋₁; rank 0's receive buffer is left as it is.
pub(super) fn exscan(plan: &mut Plan, arguments: &Allreduce, algorithm: ScanAlgorithm) {
    if bytes(arguments.items) == 0 {
        return;
    }
    match algorithm {
        ScanAlgorithm::Doubling => exscan_doubling(plan, arguments),
        ScanAlgorithm::Chain { segment_bytes } => exscan_chain(plan, arguments, segment_bytes),
    }
}

/// Plans ⌈log₂ n⌉ rounds with one reduction each. Before round k a rank has the result over the 2^k ranks
/// that end with itself, and in round k it gets the result of the rank 2^k before (Hillis and Steele, 1986).
fn scan_doubling(plan: &mut Plan, arguments: &Allreduce) {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let result = Vector::of_receive(items).part(0..items.count);
    if !in_place {
        plan.copy(Vector::contribution(items, false).part(0..items.count), result);
    }
    let arrived = if rank > 0 { plan.scratch_items(items).part(0..items.count) } else { result };
    for distance in distances(size) {
        if rank + distance < size {
            plan.send(rank + distance, result);
        }
        if rank >= distance {
            plan.receive(rank - distance, arrived);
            plan.reduce(arrived, result);
        }
    }
}

/// Plans as [`scan_doubling`], with two results: with this rank's contribution for others, without it for
/// itself.
fn exscan_doubling(plan: &mut Plan, arguments: &Allreduce) {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let whole = 0..items.count;
    let own = Vector::contribution(items, in_place).part(whole.clone());
    let result = Vector::of_receive(items).part(whole.clone());
    let forwards = rank + 1 < size && rank > 0;
    // The value that is sent on. Rank 0 always sends its own; in place at other ranks, the result is about to
    // overwrite it.
    let inclusive = if forwards { plan.scratch_items(items).part(whole.clone()) } else { own };
    if forwards {
        plan.copy(own, inclusive);
    }
    let arrived = if rank > 1 { plan.scratch_items(items).part(whole) } else { result };
    for distance in distances(size) {
        if rank + distance < size {
            plan.send(rank + distance, inclusive);
        }
        if rank < distance {
            continue;
        }
        // The first arrival is the result so far.
        let into = if distance == 1 { result } else { arrived };
        plan.receive(rank - distance, into);
        if distance > 1 {
            plan.reduce(arrived, result);
        }
        if rank + 2 * distance < size {
            plan.reduce(into, inclusive);
        }
    }
}

/// 1, 2, 4, … below `size`.
fn distances(size: u32) -> impl Iterator<Item = u32> {
    (0..u32::BITS).map(|bit| 1 << bit).take_while(move |&distance| distance < size)
}

/// Plans segments that follow one another from rank to rank, and each rank adds its own: the time of one copy
/// of the data, and of a segment for each rank.
fn scan_chain(plan: &mut Plan, arguments: &Allreduce, segment_bytes: u64) {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let result = Vector::of_receive(items);
    if !in_place {
        plan.copy(Vector::contribution(items, false).part(0..items.count), result.part(0..items.count));
    }
    let mut segments = segments(items.count, segment_bytes / items.shape.size, SEGMENTS_MAX).peekable();
    // The first segment is the longest. One is combined while the next arrives.
    let longest = Items { count: segments.peek().map_or(0, |range| range.end), ..items };
    let arrived = if rank > 0 { [(); 2].map(|()| plan.scratch_items(longest)) } else { [result; 2] };
    plan.limit(STEPS_UNDER_WAY, |plan| {
        for (number, range) in segments.enumerate() {
            if rank > 0 {
                let arrived = arrived[number % 2].part(0..range.end - range.start);
                plan.receive(rank - 1, arrived);
                plan.reduce(arrived, result.part(range.clone()));
            }
            if rank + 1 < size {
                plan.send(rank + 1, result.part(range));
            }
        }
    });
}

/// Plans as [`scan_chain`]: the arriving data is the result, and the leaving data has this rank's
/// contribution added.
fn exscan_chain(plan: &mut Plan, arguments: &Allreduce, segment_bytes: u64) {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let own = Vector::contribution(items, in_place);
    let result = Vector::of_receive(items);
    let forwards = rank > 0 && rank + 1 < size;
    let inclusive = if forwards { plan.scratch_items(items) } else { own };
    if forwards {
        plan.copy(own.part(0..items.count), inclusive.part(0..items.count));
    }
    plan.limit(STEPS_UNDER_WAY, |plan| {
        for range in segments(items.count, segment_bytes / items.shape.size, SEGMENTS_MAX) {
            if rank > 0 {
                plan.receive(rank - 1, result.part(range.clone()));
            }
            if forwards {
                plan.reduce(result.part(range.clone()), inclusive.part(range.clone()));
            }
            if rank + 1 < size {
                plan.send(rank + 1, inclusive.part(range));
            }
        }
    });
}
