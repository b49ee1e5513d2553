//! Schedules stay small in large groups, and cutting keeps to its limits.

use std::collections::VecDeque;

use weft_plan::collective::select::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BcastAlgorithm, GatherAlgorithm, ReduceAlgorithm,
    ReduceScatterAlgorithm, ScanAlgorithm, Tree, WHOLE,
};
use weft_plan::collective::{
    Allgather, Allreduce, Barrier, Bcast, Blocks, ElementShape, Frontier, Gather, Items, Reduce, ReduceScatterBlock,
    Schedule, allgather_with, allgatherv_with, allreduce_with, alltoall, alltoall_with, barrier, bcast_with,
    exscan_with, gather_with, reduce_scatter_block_with, reduce_with, scan_with, scatter_with,
};

const INT: ElementShape = ElementShape::plain(4);

/// Most transfers that are under way at a time, if they take long.
fn together(schedule: &Schedule) -> usize {
    let mut frontier = Frontier::new(schedule);
    let (mut under_way, mut together) = (VecDeque::new(), 0);
    while !frontier.is_at_end() {
        while let Some(number) = frontier.take_next() {
            frontier.start(schedule, number);
            match schedule.step(number).is_transfer() {
                true => under_way.push_back(number),
                false => frontier.complete(schedule, number),
            }
        }
        together = together.max(under_way.len());
        match under_way.pop_front() {
            Some(oldest) => frontier.complete(schedule, oldest),
            None => assert!(frontier.is_at_end(), "steps wait for ever"),
        }
    }
    together
}

/// Ranks worth looking at.
fn ranks(size: u32) -> [u32; 5] {
    [0, 1, size / 2, size - 2, size - 1]
}

fn check(name: &str, size: u32, steps_max: u64, schedule: impl Fn(u32) -> Schedule) {
    for rank in ranks(size) {
        let steps = schedule(rank).len() as u64;
        assert!(steps <= steps_max, "{name}: {steps} steps at rank {rank} of {size}");
        let together = together(&schedule(rank));
        assert!(together <= 130, "{name}: {together} transfers together at rank {rank} of {size}");
    }
}

const LARGE: [u32; 3] = [1000, 4096, 4097];

#[test]
fn schedules_for_one_vector_have_few_steps() {
    for size in LARGE {
        let (few, linear) = (16 * (size.ilog2() as u64 + 1), 4 * size as u64);
        let items = Items { count: 100_000, shape: INT };
        check("barrier", size, few, |rank| barrier(&Barrier { rank, size }));
        for (algorithm, steps_max) in [
            (BcastAlgorithm::BINOMIAL, few),
            (BcastAlgorithm::ScatterDissemination, few),
            (BcastAlgorithm::ScatterRing, linear),
            (BcastAlgorithm::chain(1), 2050),
        ] {
            check("bcast", size, steps_max, |rank| bcast_with(&Bcast { rank, size, root: 3, items }, algorithm));
        }
        for algorithm in [ReduceAlgorithm::BINOMIAL, ReduceAlgorithm::Halving] {
            check("reduce", size, few, |rank| {
                reduce_with(&Reduce { rank, size, root: 3, items, commutative: false, in_place: false }, algorithm)
            });
        }
        let arguments = |rank| Allreduce { rank, size, items, commutative: true, in_place: false };
        for (algorithm, steps_max) in [
            (AllreduceAlgorithm::Doubling, few),
            (AllreduceAlgorithm::Halving, few),
            (AllreduceAlgorithm::Ring, 2 * linear),
            (AllreduceAlgorithm::Tree { tree: Tree::Linear, segment_bytes: WHOLE }, linear),
        ] {
            check("allreduce", size, steps_max, |rank| allreduce_with(&arguments(rank), algorithm));
        }
        for (algorithm, steps_max) in
            [(ScanAlgorithm::Doubling, few), (ScanAlgorithm::Chain { segment_bytes: 1 }, 3100)]
        {
            check("scan", size, steps_max, |rank| scan_with(&arguments(rank), algorithm));
            check("exscan", size, steps_max, |rank| exscan_with(&arguments(rank), algorithm));
        }
    }
}

#[test]
fn schedules_for_blocks_have_steps_in_proportion_to_ranks() {
    for size in LARGE {
        let (few, linear) = (16 * (size.ilog2() as u64 + 1), 4 * size as u64);
        let items = Items { count: 3, shape: INT };
        let all = |rank| Allgather { rank, size, send: items, receive: items, in_place: false };
        let rooted = |rank| Gather { rank, size, root: 3, send: items, receive: items, in_place: false };
        for (algorithm, steps_max) in [(GatherAlgorithm::BINOMIAL, few), (GatherAlgorithm::Linear, linear)] {
            check("gather", size, steps_max, |rank| gather_with(&rooted(rank), algorithm));
            check("scatter", size, steps_max, |rank| scatter_with(&rooted(rank), algorithm));
        }
        let (counts, displacements) = (vec![3; size as usize], vec![0; size as usize]);
        let receive = Blocks { counts: &counts, displacements: &displacements, item_size: 4 };
        for (algorithm, steps_max) in [(AllgatherAlgorithm::Dissemination, few), (AllgatherAlgorithm::Ring, linear)] {
            check("allgather", size, steps_max, |rank| allgather_with(&all(rank), algorithm));
            check("allgatherv", size, steps_max + linear, |rank| {
                let arguments = weft_plan::collective::Allgatherv { rank, size, send: items, receive, in_place: false };
                allgatherv_with(&arguments, algorithm)
            });
        }
        for algorithm in [AlltoallAlgorithm::Bruck, AlltoallAlgorithm::Exchange { outstanding: 32 }] {
            check("alltoall", size, linear, |rank| alltoall_with(&all(rank), algorithm));
        }
        check("alltoall in place", size, linear, |rank| alltoall(&Allgather { in_place: true, ..all(rank) }));
        for algorithm in [ReduceScatterAlgorithm::Halving, ReduceScatterAlgorithm::Pairwise] {
            check("reduce_scatter_block", size, linear, |rank| {
                let arguments = ReduceScatterBlock { rank, size, items, commutative: false, in_place: false };
                reduce_scatter_block_with(&arguments, algorithm)
            });
        }
    }
}
