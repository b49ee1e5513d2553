//! Prefix reductions (scan and exscan). All algorithms keep the order of ranks.

use super::bcast::segments;
use super::plan::{Plan, Vector, bytes};
use super::select::ScanAlgorithm;
use super::{Allreduce, Items, Schedule};

/// Inclusive: rank r gets a₀ op … op aᵣ.
pub(super) fn scan(arguments: &Allreduce, algorithm: ScanAlgorithm) -> Schedule {
    if bytes(arguments.items) == 0 {
        return Schedule::default();
    }
    match algorithm {
        ScanAlgorithm::Doubling => scan_doubling(arguments),
        ScanAlgorithm::Chain { segment_bytes } => scan_chain(arguments, segment_bytes),
    }
}

/// Exclusive: rank r gets a₀ op … op aᵣ₋₁; rank 0's receive buffer is left as it is.
pub(super) fn exscan(arguments: &Allreduce, algorithm: ScanAlgorithm) -> Schedule {
    if bytes(arguments.items) == 0 {
        return Schedule::default();
    }
    match algorithm {
        ScanAlgorithm::Doubling => exscan_doubling(arguments),
        ScanAlgorithm::Chain { segment_bytes } => exscan_chain(arguments, segment_bytes),
    }
}

/// Before round k a rank has the result over the 2^k ranks that end with itself; it gets that of the rank 2^k before
/// (Hillis and Steele, 1986). ⌈log₂ n⌉ rounds with one reduction each.
fn scan_doubling(arguments: &Allreduce) -> Schedule {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let mut plan = Plan::default();
    let result = Vector::of_receive(items).part(0..items.count);
    if !in_place {
        plan.copy(Vector::contribution(items, false).part(0..items.count), result);
    }
    let arrived = if rank > 0 { plan.scratch_items(items).part(0..items.count) } else { result };
    for distance in distances(size) {
        plan.end_round();
        if rank + distance < size {
            plan.send(rank + distance, result);
        }
        if rank >= distance {
            plan.receive(rank - distance, arrived);
            plan.reduce(arrived, result);
        }
    }
    plan.finish()
}

/// As [`scan_doubling`], with two results: with its own contribution for others, without it for itself.
fn exscan_doubling(arguments: &Allreduce) -> Schedule {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let mut plan = Plan::default();
    let whole = 0..items.count;
    let own = Vector::contribution(items, in_place).part(whole.clone());
    let result = Vector::of_receive(items).part(whole.clone());
    let forwards = rank + 1 < size && rank > 0;
    // What is sent on. Rank 0 always sends its own; in place at others, the result is about to overwrite it.
    let inclusive = if forwards { plan.scratch_items(items).part(whole.clone()) } else { own };
    if forwards {
        plan.copy(own, inclusive);
    }
    let arrived = if rank > 1 { plan.scratch_items(items).part(whole) } else { result };
    for distance in distances(size) {
        plan.end_round();
        if rank + distance < size {
            plan.send(rank + distance, inclusive);
        }
        if rank < distance {
            continue;
        }
        // What arrives first is the result so far.
        let into = if distance == 1 { result } else { arrived };
        plan.receive(rank - distance, into);
        if distance > 1 {
            plan.reduce(arrived, result);
        }
        if rank + 2 * distance < size {
            plan.reduce(into, inclusive);
        }
    }
    plan.finish()
}

/// 1, 2, 4, … below `size`.
fn distances(size: u32) -> impl Iterator<Item = u32> {
    (0..u32::BITS).map(|bit| 1 << bit).take_while(move |&distance| distance < size)
}

/// Segments follow one another from rank to rank, which adds its own: the time of one copy of the data, and of a segment
/// for each rank.
fn scan_chain(arguments: &Allreduce, segment_bytes: u64) -> Schedule {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let mut plan = Plan::default();
    let result = Vector::of_receive(items);
    if !in_place {
        plan.copy(Vector::contribution(items, false).part(0..items.count), result.part(0..items.count));
        plan.end_round();
    }
    let mut segments = segments(items.count, segment_bytes / items.shape.size).peekable();
    // The first segment is the longest, and each is combined before the next arrives.
    let longest = segments.peek().map_or(0, |range| range.end);
    let arrived = if rank > 0 { plan.scratch_items(Items { count: longest, ..items }) } else { result };
    let mut leaving = None;
    for range in segments {
        if let Some(ready) = leaving.replace(result.part(range.clone())).filter(|_| rank + 1 < size) {
            plan.send(rank + 1, ready);
        }
        if rank > 0 {
            let arrived = arrived.part(0..range.end - range.start);
            plan.receive(rank - 1, arrived);
            plan.reduce(arrived, result.part(range));
        }
        plan.end_round();
    }
    if let Some(ready) = leaving.filter(|_| rank + 1 < size) {
        plan.send(rank + 1, ready);
    }
    plan.finish()
}

/// As [`scan_chain`], where what arrives is the result, and with the own contribution added is what leaves.
fn exscan_chain(arguments: &Allreduce, segment_bytes: u64) -> Schedule {
    let Allreduce { rank, size, items, in_place, .. } = *arguments;
    let mut plan = Plan::default();
    let own = Vector::contribution(items, in_place);
    let result = Vector::of_receive(items);
    let forwards = rank > 0 && rank + 1 < size;
    let inclusive = if forwards { plan.scratch_items(items) } else { own };
    if forwards {
        plan.copy(own.part(0..items.count), inclusive.part(0..items.count));
        plan.end_round();
    }
    let mut leaving = None;
    for range in segments(items.count, segment_bytes / items.shape.size) {
        if let Some(ready) = leaving.replace(inclusive.part(range.clone())).filter(|_| rank + 1 < size) {
            plan.send(rank + 1, ready);
        }
        if rank > 0 {
            plan.receive(rank - 1, result.part(range.clone()));
            if forwards {
                plan.reduce(result.part(range.clone()), inclusive.part(range));
            }
        }
        plan.end_round();
    }
    if let Some(ready) = leaving.filter(|_| rank + 1 < size) {
        plan.send(rank + 1, ready);
    }
    plan.finish()
}
