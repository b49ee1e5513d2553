//! Operations that move data.

use weft_plan::collective::select::{
    AllgatherAlgorithm, AlltoallAlgorithm, BarrierAlgorithm, BcastAlgorithm, GatherAlgorithm, Tree,
};
use weft_plan::collective::{
    Allgather, Allgatherv, Alltoallv, Alltoallw, Barrier, Bcast, Blocks, Gather, Gatherv, Items, Scatterv, Schedule,
    Step, TypedBlocks, allgather, allgather_in_two_levels, allgather_with, allgatherv_with, alltoall, alltoall_with,
    alltoallv, alltoallw, barrier_in_two_levels, barrier_with, bcast, bcast_in_two_levels, bcast_with, gather,
    gather_with, gatherv, scatter, scatter_with, scatterv,
};

use crate::interpreter::{Memory, Process, Type, run};
use crate::reduction::nodes;
use crate::{SEGMENTS, TREES, double, is_played, no_op, pattern, roots, sizes, types};

const COUNTS: [u64; 5] = [0, 2, 6, 14, 40];

/// A description of `count` (even) items of 4 bytes: some ranks call them half as many of 8.
fn described(rank: u32, count: u64) -> (Type, u64) {
    let types = types();
    if rank % 4 == 3 { (double(), count / 2) } else { (types[rank as usize % types.len()].clone(), count) }
}

fn holding(kind: &Type, count: u64, bytes: &[u8]) -> Memory {
    let mut memory = Memory::default();
    memory.put(kind, 0, count, bytes);
    memory
}

fn space(kind: &Type, count: u64) -> Memory {
    let mut memory = Memory::default();
    memory.allow(kind, 0, count);
    memory
}

/// `size` blocks of `count` items each, block i of seed `seed(i)`.
fn blocks(size: u32, count: u64, seed: impl Fn(u32) -> u64) -> Vec<u8> {
    (0..size).flat_map(|i| pattern(seed(i), 4 * count)).collect()
}

/// The data is longer than the part that a rank publishes at once. Expect: segments one behind the other, in
/// whatever datatypes the ranks describe the data.
#[test]
fn a_long_broadcast_through_shared_memory_is_cut_into_segments() {
    let count = 25_002;
    for (size, root) in [(2, 0), (3, 1), (5, 4)] {
        let label = format!("bcast Shared of {count} items, {size} ranks, root {root}");
        let bytes = pattern(u64::from(root), 4 * count);
        let (mut processes, mut expected) = (Vec::new(), Vec::new());
        for rank in 0..size {
            let (kind, count) = described(rank, count);
            let arguments = Bcast { rank, size, root, items: kind.items(count) };
            let schedule = bcast_with(&arguments, BcastAlgorithm::Shared);
            assert_eq!(schedule.phases, 4, "{label}");
            let buffer = if rank == root { holding(&kind, count, &bytes) } else { space(&kind, count) };
            processes.push(Process::new(schedule, (Memory::default(), &Type::bytes()), (buffer, &kind)));
            expected.push(holding(&kind, count, &bytes));
        }
        assert_eq!(run(&label, no_op, processes), expected, "{label}");
    }
}

#[test]
fn barrier_ends_after_all_have_entered() {
    let algorithms = [BarrierAlgorithm::Dissemination, BarrierAlgorithm::Shared, BarrierAlgorithm::Multicast]
        .into_iter()
        .chain(TREES.map(BarrierAlgorithm::Tree));
    let algorithms: Vec<_> = algorithms.collect();
    for size in sizes() {
        for &algorithm in &algorithms {
            let schedules: Vec<_> = (0..size).map(|rank| barrier_with(&Barrier { rank, size }, algorithm)).collect();
            let empty = || (Memory::default(), Type::bytes());
            let processes = schedules.iter().map(|schedule| {
                let ((send, of_send), (receive, of_receive)) = (empty(), empty());
                Process::new(schedule.clone(), (send, &of_send), (receive, &of_receive))
            });
            run(&format!("barrier {algorithm:?} of {size}"), no_op, processes.collect());
            let heard = heard_of(&schedules);
            assert!(heard.iter().all(|of| of.iter().all(|&heard| heard)), "barrier {algorithm:?} of {size}: {heard:?}");
        }
    }
}

#[test]
fn barrier_in_two_levels_ends_after_all_have_entered() {
    let within =
        [BarrierAlgorithm::Tree(Tree::BINOMIAL), BarrierAlgorithm::Tree(Tree::Linear), BarrierAlgorithm::Shared];
    for (size, within) in sizes().flat_map(|size| within.map(|within| (size, within))) {
        for (number, nodes) in nodes(size).into_iter().enumerate() {
            for between in [BarrierAlgorithm::Dissemination, BarrierAlgorithm::Multicast] {
                let schedule = |rank| barrier_in_two_levels(&Barrier { rank, size }, &nodes, (within, between));
                let schedules: Vec<_> = (0..size).map(schedule).collect();
                let processes = schedules.iter().map(|schedule| {
                    let empty = (Memory::default(), &Type::bytes());
                    Process::new(schedule.clone(), empty.clone(), empty)
                });
                let label = format!("barrier in two levels {within:?}, {between:?} of {size} on {number}");
                run(&label, no_op, processes.collect());
                let heard = heard_of(&schedules);
                assert!(heard.iter().all(|of| of.iter().all(|&heard| heard)), "{label}: {heard:?}");
            }
        }
    }
}

/// The steps that wait for published data: their numbers, the publishing ranks, and the phases.
fn awaited(schedule: &Schedule) -> Vec<(usize, usize, u32)> {
    let steps = schedule.steps().enumerate().filter_map(|(number, step)| match step {
        Step::Collect { phase, from, .. } => Some((number, *from as usize, *phase)),
        _ => None,
    });
    steps.collect()
}

/// The ranks of which each rank has heard, directly or indirectly, when all its steps are complete.
fn heard_of(schedules: &[Schedule]) -> Vec<Vec<bool>> {
    let size = schedules.len();
    // A multicast reaches the ranks that receive from its sender, and that are sent nothing else.
    let receives = |rank: usize, from: usize| {
        let is_sent = |step: &Step| matches!(step, Step::Send { to, .. } if *to as usize == rank);
        let is_received = |step: &Step| matches!(step, Step::Receive { from: of, .. } if *of as usize == from);
        schedules[rank].steps().any(is_received) && !schedules[from].steps().any(is_sent)
    };
    // The matching steps of a pair of ranks: those in one direction, in order.
    let between = |rank: usize, other: usize, sends: bool| {
        let steps = schedules[rank].steps().enumerate().filter_map(move |(number, step)| match step {
            Step::Send { to, .. } if sends && *to as usize == other => Some(number),
            Step::Multicast { .. } if sends && receives(other, rank) => Some(number),
            Step::Receive { from, .. } if !sends && *from as usize == other => Some(number),
            _ => None,
        });
        steps.collect::<Vec<_>>()
    };
    // At each step of each rank: the ranks that are known to have entered.
    let alone = |rank: usize| (0..size).map(|other| other == rank).collect::<Vec<bool>>();
    let mut known: Vec<Vec<Vec<bool>>> =
        schedules.iter().enumerate().map(|(rank, schedule)| vec![alone(rank); schedule.len()]).collect();
    let learn = |to: &mut Vec<bool>, from: &[bool]| {
        let before = to.clone();
        to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
        *to != before
    };
    loop {
        let mut changed = false;
        for rank in 0..size {
            for other in (0..size).filter(|&other| other != rank) {
                for (sent, received) in between(other, rank, true).into_iter().zip(between(rank, other, false)) {
                    let from = known[other][sent].clone();
                    changed |= learn(&mut known[rank][received], &from);
                }
            }
            // All ranks may see published data, and a rank that waits for it has heard of the publishing
            // rank.
            for (taken, from, phase) in awaited(&schedules[rank]) {
                let is_it = |step: &Step| matches!(step, Step::Publish { phase: of, .. } if *of == phase);
                let published = schedules[from].steps().position(is_it).expect("somebody publishes what is waited for");
                let from = known[from][published].clone();
                changed |= learn(&mut known[rank][taken], &from);
            }
            for number in 0..schedules[rank].len() {
                for &later in schedules[rank].after_end(number as u32) {
                    let from = known[rank][number].clone();
                    changed |= learn(&mut known[rank][later as usize], &from);
                }
            }
        }
        if !changed {
            let all = |(rank, steps): (usize, &Vec<Vec<bool>>)| {
                steps.iter().fold(alone(rank), |mut all, step| {
                    learn(&mut all, step);
                    all
                })
            };
            return known.iter().enumerate().map(all).collect();
        }
    }
}

#[test]
fn bcast_brings_the_roots_data_to_all() {
    let trees =
        TREES.into_iter().flat_map(|tree| SEGMENTS.map(|segment_bytes| BcastAlgorithm::Tree { tree, segment_bytes }));
    let others = [
        BcastAlgorithm::ScatterDissemination,
        BcastAlgorithm::ScatterRing,
        BcastAlgorithm::Shared,
        BcastAlgorithm::SingleCopy,
        BcastAlgorithm::Multicast,
    ];
    let algorithms = others.into_iter().chain(trees);
    let algorithms: Vec<_> = algorithms.collect();
    for (size, algorithm) in sizes().flat_map(|size| algorithms.iter().map(move |&algorithm| (size, algorithm))) {
        for (root, count) in roots(size).into_iter().flat_map(|root| COUNTS.map(|count| (root, count))) {
            let label = format!("bcast {algorithm:?} of {count} from {root} of {size}");
            if !is_played(&label) {
                continue;
            }
            let data = pattern(root as u64, 4 * count);
            let (mut processes, mut expected) = (Vec::new(), Vec::new());
            for rank in 0..size {
                let (kind, count) = described(rank, count);
                let arguments = Bcast { rank, size, root, items: kind.items(count) };
                let memory = if rank == root { holding(&kind, count, &data) } else { space(&kind, count) };
                expected.push(holding(&kind, count, &data));
                let schedule = bcast_with(&arguments, algorithm);
                processes.push(Process::new(schedule, (Memory::default(), &Type::bytes()), (memory, &kind)));
            }
            assert_eq!(run(&label, no_op, processes), expected, "{label}");
        }
    }
}

#[test]
fn bcast_in_two_levels_brings_the_roots_data_to_all() {
    let within = [BcastAlgorithm::BINOMIAL, BcastAlgorithm::Shared, BcastAlgorithm::SingleCopy];
    let cases = sizes().flat_map(|size| [0, 1, 2].map(|number| (size, number)));
    for ((size, number), within) in cases.flat_map(|case| within.map(|within| (case, within))) {
        for (root, count) in roots(size).into_iter().flat_map(|root| COUNTS.map(|count| (root, count))) {
            let label = format!("bcast in two levels, {within:?}, of {count} from {root} of {size} on nodes {number}");
            if !is_played(&label) {
                continue;
            }
            let nodes = &crate::reduction::nodes(size)[number];
            let data = pattern(root as u64, 4 * count);
            let (mut processes, mut expected) = (Vec::new(), Vec::new());
            for rank in 0..size {
                let (kind, count) = described(rank, count);
                let arguments = Bcast { rank, size, root, items: kind.items(count) };
                let memory = if rank == root { holding(&kind, count, &data) } else { space(&kind, count) };
                expected.push(holding(&kind, count, &data));
                let between = if size % 2 == 0 { BcastAlgorithm::Multicast } else { BcastAlgorithm::chain(7) };
                let algorithms = (between, within);
                let schedule = bcast_in_two_levels(&arguments, nodes, algorithms);
                processes.push(Process::new(schedule, (Memory::default(), &Type::bytes()), (memory, &kind)));
            }
            assert_eq!(run(&label, no_op, processes), expected, "{label}");
        }
    }
}

#[test]
fn gather_collects_blocks_in_rank_order() {
    for (size, algorithm) in sizes().flat_map(|size| GATHER.map(|algorithm| (size, algorithm))) {
        for (root, count) in roots(size).into_iter().flat_map(|root| COUNTS.map(|count| (root, count))) {
            for in_place in [false, true] {
                gather_case(size, algorithm, root, count, in_place);
            }
        }
    }
}

const GATHER: [GatherAlgorithm; 3] =
    [GatherAlgorithm::Linear, GatherAlgorithm::BINOMIAL, GatherAlgorithm::Tree { radix: 4 }];

fn gather_case(size: u32, algorithm: GatherAlgorithm, root: u32, count: u64, in_place: bool) {
    let label = format!("gather {algorithm:?} of {count} to {root} of {size}, in place {in_place}");
    if !is_played(&label) {
        return;
    }
    let all = blocks(size, count, |i| i as u64);
    let (mut processes, mut expected) = (Vec::new(), Vec::new());
    for rank in 0..size {
        let own = pattern(rank as u64, 4 * count);
        let (of_send, send_count) = described(rank, count);
        let (of_receive, receive_count) = described(rank + 1, count);
        let mut arguments = Gather {
            rank,
            size,
            root,
            send: of_send.items(send_count),
            receive: Items::default(),
            in_place: in_place && rank == root,
        };
        let mut send = holding(&of_send, send_count, &own);
        let (mut receive, mut result) = (Memory::default(), Memory::default());
        if rank == root {
            arguments.receive = of_receive.items(receive_count);
            receive = space(&of_receive, receive_count * size as u64);
            result = holding(&of_receive, receive_count * size as u64, &all);
            if in_place {
                send = Memory::default();
                arguments.send = Items::default();
                let offset = rank as i64 * receive_count as i64 * of_receive.extent;
                receive.put(&of_receive, offset, receive_count, &own);
            }
        }
        expected.push(result);
        processes.push(Process::new(gather_with(&arguments, algorithm), (send, &of_send), (receive, &of_receive)));
    }
    assert_eq!(run(&label, no_op, processes), expected, "{label}");
}

#[test]
fn scatter_distributes_blocks_in_rank_order() {
    for (size, algorithm) in sizes().flat_map(|size| GATHER.map(|algorithm| (size, algorithm))) {
        for (root, count) in roots(size).into_iter().flat_map(|root| COUNTS.map(|count| (root, count))) {
            for in_place in [false, true] {
                scatter_case(size, algorithm, root, count, in_place);
            }
        }
    }
}

fn scatter_case(size: u32, algorithm: GatherAlgorithm, root: u32, count: u64, in_place: bool) {
    let label = format!("scatter {algorithm:?} of {count} from {root} of {size}, in place {in_place}");
    if !is_played(&label) {
        return;
    }
    let all = blocks(size, count, |i| i as u64);
    let (mut processes, mut expected) = (Vec::new(), Vec::new());
    for rank in 0..size {
        let own = pattern(rank as u64, 4 * count);
        let (of_send, send_count) = described(rank, count);
        let (of_receive, receive_count) = described(rank + 1, count);
        let stays = in_place && rank == root;
        let send = if rank == root { holding(&of_send, send_count * size as u64, &all) } else { Memory::default() };
        let arguments = Gather {
            rank,
            size,
            root,
            send: if rank == root { of_send.items(send_count) } else { Items::default() },
            receive: if stays { Items::default() } else { of_receive.items(receive_count) },
            in_place: stays,
        };
        let receive = if stays { Memory::default() } else { space(&of_receive, receive_count) };
        expected.push(if stays { Memory::default() } else { holding(&of_receive, receive_count, &own) });
        processes.push(Process::new(scatter_with(&arguments, algorithm), (send, &of_send), (receive, &of_receive)));
    }
    assert_eq!(run(&label, no_op, processes), expected, "{label}");
}

/// Different block lengths, some of them 0.
fn lengths(size: u32, scheme: u32) -> Vec<u64> {
    (0..size)
        .map(|i| if scheme == 0 { 2 * ((i as u64 * 7 + 1) % 4) } else { if i == size / 2 { 10 } else { 0 } })
        .collect()
}

/// Displacements of blocks with gaps between them, the last rank's block first; bytes.
fn displacements(counts: &[u64], kind: &Type) -> Vec<i64> {
    let mut next = 3;
    let mut result = vec![0; counts.len()];
    for (i, count) in counts.iter().enumerate().rev() {
        result[i] = next * kind.extent;
        next += *count as i64 + 70;
    }
    result
}

/// The counts as given, or halved where the type is [`double`].
fn counts_of(kind: &Type, counts: &[u64]) -> Vec<u64> {
    counts.iter().map(|count| count * 4 / kind.size()).collect()
}

fn laid_out(kind: &Type, counts: &[u64], displacements: &[i64], bytes: impl Fn(u32) -> Option<Vec<u8>>) -> Memory {
    let mut memory = Memory::default();
    for (i, (&count, &displacement)) in counts.iter().zip(displacements).enumerate() {
        match bytes(i as u32) {
            Some(bytes) => memory.put(kind, displacement, count, &bytes),
            None => memory.allow(kind, displacement, count),
        }
    }
    memory
}

#[test]
fn gatherv_and_scatterv_with_any_lengths() {
    for size in sizes() {
        for (root, scheme) in roots(size).into_iter().flat_map(|root| [(root, 0), (root, 1)]) {
            for in_place in [false, true] {
                gatherv_case(size, root, scheme, in_place);
                scatterv_case(size, root, scheme, in_place);
            }
        }
    }
}

fn gatherv_case(size: u32, root: u32, scheme: u32, in_place: bool) {
    let label = format!("gatherv of {scheme} to {root} of {size}, in place {in_place}");
    if !is_played(&label) {
        return;
    }
    let lengths = lengths(size, scheme);
    let block = |i: u32| pattern(i as u64, 4 * lengths[i as usize]);
    let (mut processes, mut expected) = (Vec::new(), Vec::new());
    for rank in 0..size {
        let (of_send, send_count) = described(rank, lengths[rank as usize]);
        let (of_receive, _) = described(rank + 1, 0);
        let counts = counts_of(&of_receive, &lengths);
        let displacements = displacements(&counts, &of_receive);
        let in_place = in_place && rank == root;
        let receive = Blocks { counts: &counts, displacements: &displacements, item_size: of_receive.size() };
        let arguments = Gatherv {
            rank,
            size,
            root,
            send: if in_place { Items::default() } else { of_send.items(send_count) },
            receive: if rank == root { receive } else { Blocks::default() },
            in_place,
        };
        let send = if in_place { Memory::default() } else { holding(&of_send, send_count, &block(rank)) };
        let (mut memory, mut result) = (Memory::default(), Memory::default());
        if rank == root {
            let there = |i| (in_place && i == rank).then(|| block(i));
            memory = laid_out(&of_receive, &counts, &displacements, there);
            result = laid_out(&of_receive, &counts, &displacements, |i| Some(block(i)));
        }
        expected.push(result);
        processes.push(Process::new(gatherv(&arguments), (send, &of_send), (memory, &of_receive)));
    }
    assert_eq!(run(&label, no_op, processes), expected, "{label}");
}

fn scatterv_case(size: u32, root: u32, scheme: u32, in_place: bool) {
    let label = format!("scatterv of {scheme} from {root} of {size}, in place {in_place}");
    if !is_played(&label) {
        return;
    }
    let lengths = lengths(size, scheme);
    let block = |i: u32| pattern(i as u64, 4 * lengths[i as usize]);
    let (mut processes, mut expected) = (Vec::new(), Vec::new());
    for rank in 0..size {
        let (of_receive, receive_count) = described(rank, lengths[rank as usize]);
        let (of_send, _) = described(rank + 1, 0);
        let counts = counts_of(&of_send, &lengths);
        let displacements = displacements(&counts, &of_send);
        let in_place = in_place && rank == root;
        let send = Blocks { counts: &counts, displacements: &displacements, item_size: of_send.size() };
        let arguments = Scatterv {
            rank,
            size,
            root,
            send: if rank == root { send } else { Blocks::default() },
            receive: if in_place { Items::default() } else { of_receive.items(receive_count) },
            in_place,
        };
        let all = || laid_out(&of_send, &counts, &displacements, |i| Some(block(i)));
        let send = if rank == root { all() } else { Memory::default() };
        let receive = if in_place { Memory::default() } else { space(&of_receive, receive_count) };
        expected.push(if in_place { Memory::default() } else { holding(&of_receive, receive_count, &block(rank)) });
        processes.push(Process::new(scatterv(&arguments), (send, &of_send), (receive, &of_receive)));
    }
    assert_eq!(run(&label, no_op, processes), expected, "{label}");
}

const ALLGATHER: [AllgatherAlgorithm; 8] = [
    AllgatherAlgorithm::Dissemination,
    AllgatherAlgorithm::Ring,
    AllgatherAlgorithm::NeighbourExchange,
    AllgatherAlgorithm::Doubling,
    AllgatherAlgorithm::Linear,
    AllgatherAlgorithm::Multicast,
    AllgatherAlgorithm::Shared,
    AllgatherAlgorithm::SingleCopy,
];

/// Returns whether a rank is in place: no rank, all ranks, or some.
fn in_place_at(scheme: u32, rank: u32) -> bool {
    scheme == 1 || scheme == 2 && rank % 3 == 1
}

#[test]
fn allgather_collects_everywhere() {
    for (size, algorithm) in sizes().flat_map(|size| ALLGATHER.map(|algorithm| (size, algorithm))) {
        allgather_cases(size, &format!("{algorithm:?}"), |arguments| allgather_with(arguments, algorithm));
    }
}

#[test]
fn allgather_in_two_levels_collects_everywhere() {
    // Between nodes the leaders share no memory.
    let is_between = |algorithm: &AllgatherAlgorithm| {
        !matches!(algorithm, AllgatherAlgorithm::Shared | AllgatherAlgorithm::SingleCopy)
    };
    let between: Vec<_> = ALLGATHER.into_iter().filter(is_between).collect();
    let within = [BcastAlgorithm::chain(7), BcastAlgorithm::Shared, BcastAlgorithm::SingleCopy];
    let algorithms = || between.iter().flat_map(|between| within.map(|within| (*between, within)));
    for (size, algorithms) in sizes().flat_map(|size| algorithms().map(move |algorithms| (size, algorithms))) {
        // In blocks, of the same length or not.
        for (number, nodes) in
            [(0..size).map(|rank| rank / 4).collect(), (0..size).map(|rank| (rank + 1).ilog2()).collect::<Vec<_>>()]
                .into_iter()
                .enumerate()
        {
            allgather_cases(size, &format!("in two levels {algorithms:?} on {number}"), |arguments| {
                allgather_in_two_levels(arguments, &nodes, algorithms)
            });
        }
    }
}

fn allgather_cases(size: u32, name: &str, schedule: impl Fn(&Allgather) -> Schedule) {
    for (count, in_place_where) in COUNTS.into_iter().flat_map(|count| [(count, 0), (count, 1), (count, 2)]) {
        let label = format!("allgather {name} of {count} in {size}, in place {in_place_where}");
        if !is_played(&label) {
            continue;
        }
        let all = blocks(size, count, |i| i as u64);
        let (mut processes, mut expected) = (Vec::new(), Vec::new());
        for rank in 0..size {
            let own = pattern(rank as u64, 4 * count);
            let (of_send, send_count) = described(rank, count);
            let (of_receive, receive_count) = described(rank + 1, count);
            let in_place = in_place_at(in_place_where, rank);
            let mut receive = space(&of_receive, receive_count * size as u64);
            let (mut send, mut items) = (Memory::default(), Items::default());
            if in_place {
                let offset = rank as i64 * receive_count as i64 * of_receive.extent;
                receive.put(&of_receive, offset, receive_count, &own);
            } else {
                send = holding(&of_send, send_count, &own);
                items = of_send.items(send_count);
            }
            let receive_items = of_receive.items(receive_count);
            let arguments = Allgather { rank, size, send: items, receive: receive_items, in_place };
            expected.push(holding(&of_receive, receive_count * size as u64, &all));
            let schedule = schedule(&arguments);
            processes.push(Process::new(schedule, (send, &of_send), (receive, &of_receive)));
        }
        assert_eq!(run(&label, no_op, processes), expected, "{label}");
    }
}

#[test]
fn allgatherv_collects_everywhere() {
    for (size, algorithm) in sizes().flat_map(|size| ALLGATHER.map(|algorithm| (size, algorithm))) {
        for (scheme, in_place_where) in (0..2).flat_map(|scheme| [(scheme, 0), (scheme, 1), (scheme, 2)]) {
            let label = format!("allgatherv {algorithm:?} of {scheme} in {size}, in place {in_place_where}");
            if !is_played(&label) {
                continue;
            }
            let lengths = lengths(size, scheme);
            let block = |i: u32| pattern(i as u64, 4 * lengths[i as usize]);
            let (mut processes, mut expected) = (Vec::new(), Vec::new());
            for rank in 0..size {
                let (of_send, send_count) = described(rank, lengths[rank as usize]);
                let (of_receive, _) = described(rank + 1, 0);
                let counts = counts_of(&of_receive, &lengths);
                let displacements = displacements(&counts, &of_receive);
                let in_place = in_place_at(in_place_where, rank);
                let receive = Blocks { counts: &counts, displacements: &displacements, item_size: of_receive.size() };
                let send = if in_place { Items::default() } else { of_send.items(send_count) };
                let arguments = Allgatherv { rank, size, send, receive, in_place };
                let send = if in_place { Memory::default() } else { holding(&of_send, send_count, &block(rank)) };
                let there = |i| (in_place && i == rank).then(|| block(i));
                let memory = laid_out(&of_receive, &counts, &displacements, there);
                expected.push(laid_out(&of_receive, &counts, &displacements, |i| Some(block(i))));
                let schedule = allgatherv_with(&arguments, algorithm);
                processes.push(Process::new(schedule, (send, &of_send), (memory, &of_receive)));
            }
            assert_eq!(run(&label, no_op, processes), expected, "{label}");
        }
    }
}

#[test]
fn alltoall_transposes() {
    let algorithms = [
        AlltoallAlgorithm::Bruck,
        AlltoallAlgorithm::Shared,
        AlltoallAlgorithm::SingleCopy,
        AlltoallAlgorithm::Exchange { outstanding: 1 },
        AlltoallAlgorithm::Exchange { outstanding: 5 },
        AlltoallAlgorithm::Exchange { outstanding: 100 },
    ];
    for (size, algorithm) in sizes().flat_map(|size| algorithms.map(|algorithm| (size, algorithm))) {
        for (count, in_place) in [0, 2, 6].into_iter().flat_map(|count| [(count, false), (count, true)]) {
            let label = format!("alltoall {algorithm:?} of {count} in {size}, in place {in_place}");
            if !is_played(&label) {
                continue;
            }
            let seed = |from: u32, to: u32| (from * 100 + to) as u64;
            let (mut processes, mut expected) = (Vec::new(), Vec::new());
            for rank in 0..size {
                let own = blocks(size, count, |to| seed(rank, to));
                let (of_send, send_count) = described(rank, count);
                let (of_receive, receive_count) = described(rank + 1, count);
                let (all_sent, all_received) = (send_count * size as u64, receive_count * size as u64);
                let (send, items, receive) = if in_place {
                    (Memory::default(), Items::default(), holding(&of_receive, all_received, &own))
                } else {
                    let send = holding(&of_send, all_sent, &own);
                    (send, of_send.items(send_count), space(&of_receive, all_received))
                };
                let receive_items = of_receive.items(receive_count);
                let arguments = Allgather { rank, size, send: items, receive: receive_items, in_place };
                expected.push(holding(&of_receive, all_received, &blocks(size, count, |from| seed(from, rank))));
                let schedule = alltoall_with(&arguments, algorithm);
                processes.push(Process::new(schedule, (send, &of_send), (receive, &of_receive)));
            }
            assert_eq!(run(&label, no_op, processes), expected, "{label}");
        }
    }
}

/// Items of 4 bytes from one rank to another, the same both ways if `symmetric`.
fn between(from: u32, to: u32, symmetric: bool) -> u64 {
    let (a, b) = if symmetric { (from.min(to), from.max(to)) } else { (from, to) };
    2 * ((a as u64 * 5 + b as u64 * 3) % 3)
}

#[test]
fn alltoallv_with_any_lengths() {
    for (size, in_place) in sizes().flat_map(|size| [(size, false), (size, true)]) {
        let label = format!("alltoallv in {size}, in place {in_place}");
        if !is_played(&label) {
            continue;
        }
        let block = |from: u32, to: u32| pattern((from * 100 + to) as u64, 4 * between(from, to, in_place));
        let (mut processes, mut expected) = (Vec::new(), Vec::new());
        for rank in 0..size {
            let ((of_send, _), (of_receive, _)) = (described(rank, 0), described(rank + 1, 0));
            let leaving: Vec<_> = (0..size).map(|to| between(rank, to, in_place)).collect();
            let arriving: Vec<_> = (0..size).map(|from| between(from, rank, in_place)).collect();
            let (send_counts, receive_counts) = (counts_of(&of_send, &leaving), counts_of(&of_receive, &arriving));
            let send_at = displacements(&send_counts, &of_send);
            let receive_at = displacements(&receive_counts, &of_receive);
            let send = Blocks { counts: &send_counts, displacements: &send_at, item_size: of_send.size() };
            let receive = Blocks { counts: &receive_counts, displacements: &receive_at, item_size: of_receive.size() };
            let send = if in_place { Blocks::default() } else { send };
            let schedule = alltoallv(&Alltoallv { rank, size, send, receive, in_place });
            let sent = match in_place {
                true => Memory::default(),
                false => laid_out(&of_send, &send_counts, &send_at, |to| Some(block(rank, to))),
            };
            let there = |to| in_place.then(|| block(rank, to));
            let memory = laid_out(&of_receive, &receive_counts, &receive_at, there);
            expected.push(laid_out(&of_receive, &receive_counts, &receive_at, |from| Some(block(from, rank))));
            processes.push(Process::new(schedule, (sent, &of_send), (memory, &of_receive)));
        }
        assert_eq!(run(&label, no_op, processes), expected, "{label}");
    }
}

#[test]
fn alltoallw_with_any_types() {
    for (size, in_place) in sizes().flat_map(|size| [(size, false), (size, true)]) {
        let label = format!("alltoallw in {size}, in place {in_place}");
        if !is_played(&label) {
            continue;
        }
        let block = |from: u32, to: u32| pattern((from * 100 + to) as u64, 4 * between(from, to, in_place));
        let (mut processes, mut expected) = (Vec::new(), Vec::new());
        for rank in 0..size {
            let side = |shift: u32, items: &dyn Fn(u32) -> u64| {
                let types: Vec<_> = (0..size).map(|peer| described(peer + shift, 0).0).collect();
                let counts: Vec<_> = (0..size).map(|peer| items(peer) * 4 / types[peer as usize].size()).collect();
                let displacements: Vec<_> = (0..size as i64).map(|peer| peer * 1000).collect();
                let sizes: Vec<_> = types.iter().map(Type::size).collect();
                (types, counts, displacements, sizes)
            };
            let (send_types, send_counts, send_at, send_sizes) = side(rank, &|to| between(rank, to, in_place));
            let (types, counts, at, item_sizes) = side(rank + 1, &|from| between(from, rank, in_place));
            let send = TypedBlocks { counts: &send_counts, displacements: &send_at, item_sizes: &send_sizes };
            let receive = TypedBlocks { counts: &counts, displacements: &at, item_sizes: &item_sizes };
            let send = if in_place { TypedBlocks::default() } else { send };
            let schedule = alltoallw(&Alltoallw { rank, size, send, receive, in_place });
            let (mut sent, mut memory, mut result) = (Memory::default(), Memory::default(), Memory::default());
            for peer in 0..size {
                let i = peer as usize;
                match in_place {
                    true => memory.put(&types[i], at[i], counts[i], &block(rank, peer)),
                    false => {
                        sent.put(&send_types[i], send_at[i], send_counts[i], &block(rank, peer));
                        memory.allow(&types[i], at[i], counts[i]);
                    }
                }
                result.put(&types[i], at[i], counts[i], &block(peer, rank));
            }
            expected.push(result);
            let mut process = Process::new(schedule, (sent, &Type::bytes()), (memory, &Type::bytes()));
            (process.send_types, process.receive_types) = (send_types, types);
            processes.push(process);
        }
        assert_eq!(run(&label, no_op, processes), expected, "{label}");
    }
}

/// No bytes, in each rank's own terms: no items, or items without bytes (MPI-5.0 §3.3.1 compares signatures
/// only).
#[test]
fn nothing_may_be_described_as_items_without_bytes() {
    let empty = Type { blocks: Vec::new(), extent: 4 };
    for size in sizes() {
        let words = |rank: u32| if rank % 2 == 1 { (empty.clone(), 3) } else { (Type::bytes(), 0) };
        let check = |name: &str, schedule: &dyn Fn(u32, Items, Blocks<'_>, TypedBlocks<'_>) -> Schedule| {
            let process = |rank| {
                let (kind, count) = words(rank);
                let (counts, displacements) = (vec![count; size as usize], vec![0; size as usize]);
                let item_sizes = vec![kind.size(); size as usize];
                let blocks = Blocks { counts: &counts, displacements: &displacements, item_size: kind.size() };
                let typed = TypedBlocks { counts: &counts, displacements: &displacements, item_sizes: &item_sizes };
                let schedule = schedule(rank, kind.items(count), blocks, typed);
                let mut process = Process::new(schedule, (Memory::default(), &kind), (Memory::default(), &kind));
                process.send_types = vec![kind.clone(); size as usize];
                process.receive_types = process.send_types.clone();
                process
            };
            run(&format!("{name} of nothing in {size}"), no_op, (0..size).map(process).collect());
        };
        let (root, in_place) = (size / 2, false);
        check("bcast", &|rank, items, _, _| bcast(&Bcast { rank, size, root, items }));
        check("gather", &|rank, items, _, _| {
            gather(&Gather { rank, size, root, send: items, receive: items, in_place })
        });
        check("scatter", &|rank, items, _, _| {
            scatter(&Gather { rank, size, root, send: items, receive: items, in_place })
        });
        check("gatherv", &|rank, send, receive, _| gatherv(&Gatherv { rank, size, root, send, receive, in_place }));
        check("scatterv", &|rank, receive, send, _| scatterv(&Scatterv { rank, size, root, send, receive, in_place }));
        check("allgather", &|rank, items, _, _| {
            allgather(&Allgather { rank, size, send: items, receive: items, in_place })
        });
        check("alltoall", &|rank, items, _, _| {
            alltoall(&Allgather { rank, size, send: items, receive: items, in_place })
        });
        for algorithm in ALLGATHER {
            check("allgatherv", &|rank, send, receive, _| {
                allgatherv_with(&Allgatherv { rank, size, send, receive, in_place }, algorithm)
            });
        }
        for in_place in [false, true] {
            check("alltoallv", &|rank, _, blocks, _| {
                alltoallv(&Alltoallv { rank, size, send: blocks, receive: blocks, in_place })
            });
            check("alltoallw", &|rank, _, _, blocks| {
                alltoallw(&Alltoallw { rank, size, send: blocks, receive: blocks, in_place })
            });
        }
    }
}
