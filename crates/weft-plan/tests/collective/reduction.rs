//! Operations that reduce.

use weft_plan::collective::choice::Choices;
use weft_plan::collective::select::{
    AllreduceAlgorithm, BcastAlgorithm, ReduceAlgorithm, ReduceScatterAlgorithm, ScanAlgorithm, Tree,
};
use weft_plan::collective::{
    Allreduce, AllreduceBetween, Reduce, ReduceBetween, ReduceScatter, ReduceScatterBetween, ReduceScatterBlock,
    Schedule, allreduce_between, allreduce_in_two_levels, allreduce_with, exscan_with, reduce_between,
    reduce_in_two_levels, reduce_scatter_between, reduce_scatter_block_with, reduce_scatter_with, reduce_with,
    scan_with,
};

use crate::interpreter::{Memory, Op, Process, Type, run};
use crate::{SEGMENTS, TREES, is_ordered, is_played, pattern, roots, sizes, types};

const COUNTS: [u64; 5] = [0, 1, 2, 7, 40];

/// Composition of maps x → ax + b modulo 65536, two bytes each: associative, does not commute.
fn compose(input: &[u8], inout: &mut [u8]) {
    let word = |bytes: &[u8], i: usize| u16::from_le_bytes([bytes[i], bytes[i + 1]]);
    let (a, b, c, d) = (word(input, 0) | 1, word(input, 2), word(inout, 0) | 1, word(inout, 2));
    inout[..2].copy_from_slice(&a.wrapping_mul(c).to_le_bytes());
    inout[2..].copy_from_slice(&a.wrapping_mul(d).wrapping_add(b).to_le_bytes());
}

/// Sum modulo 2³²: commutes.
pub(crate) fn sum(input: &[u8], inout: &mut [u8]) {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let result = word(input).wrapping_add(word(inout));
    inout.copy_from_slice(&result.to_le_bytes());
}

/// An operation that neither commutes nor associates: the result tells the order in which operands were
/// combined, as rounding errors do.
fn mix(input: &[u8], inout: &mut [u8]) {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let result = word(input).rotate_left(5).wrapping_mul(31).wrapping_add(word(inout) ^ 0x5555);
    inout.copy_from_slice(&result.to_le_bytes());
}

/// The contribution of a rank, `count` items of 4 bytes. Maps have odd factors, so that composing leaves the
/// factors as they are.
pub(crate) fn contribution(rank: u32, count: u64) -> Vec<u8> {
    let mut bytes = pattern(rank as u64, 4 * count);
    bytes.iter_mut().step_by(4).for_each(|byte| *byte |= 1);
    bytes
}

/// The result a_first op … op a_last, from left to right.
pub(crate) fn naive(op: Op, ranks: std::ops::Range<u32>, count: u64) -> Vec<u8> {
    let mut result = contribution(ranks.start, count);
    for rank in ranks.skip(1) {
        let mut right = contribution(rank, count);
        result.chunks(4).zip(right.chunks_mut(4)).for_each(|(left, right)| op(left, right));
        result = right;
    }
    result
}

pub(crate) fn holding(kind: &Type, bytes: &[u8]) -> Memory {
    let mut memory = Memory::default();
    memory.put(kind, 0, bytes.len() as u64 / 4, bytes);
    memory
}

pub(crate) fn space(kind: &Type, count: u64) -> Memory {
    let mut memory = Memory::default();
    memory.allow(kind, 0, count);
    memory
}

/// A process: its contribution of `own` in the send buffer, or in place; room for `count` items of result.
fn process(kind: &Type, schedule: Schedule, own: &[u8], count: u64, in_place: bool) -> Process {
    let (send, receive) = match in_place {
        true => (Memory::default(), holding(kind, own)),
        false => (holding(kind, own), space(kind, count)),
    };
    // The datatype of reductions is `Receive`; naming `Send` would give other bytes.
    Process::new(schedule, (send, &Type::bytes()), (receive, kind))
}

/// The operations: function, whether it is said to commute, and name.
fn operations() -> [(Op, bool, &'static str); 3] {
    [(compose, false, "composition"), (sum, true, "sum"), (sum, false, "sum in order")]
}

fn in_place_at(scheme: u32, rank: u32) -> bool {
    scheme == 1 || scheme == 2 && rank % 3 == 1
}

/// The types to use: all in small groups, one in others.
fn some_types(size: u32) -> Vec<Type> {
    if size <= 6 { types() } else { vec![types()[size as usize % types().len()].clone()] }
}

fn reduce_algorithms(commutative: bool) -> Vec<ReduceAlgorithm> {
    let trees = TREES.into_iter().filter(|&tree| commutative || is_ordered(tree));
    let trees = trees.flat_map(|tree| SEGMENTS.map(|segment_bytes| ReduceAlgorithm::Tree { tree, segment_bytes }));
    trees.chain([ReduceAlgorithm::Halving, ReduceAlgorithm::Shared, ReduceAlgorithm::SingleCopy]).collect()
}

#[test]
fn reduce_combines_in_rank_order_at_any_root() {
    for size in sizes() {
        for (root, kind) in
            roots(size).into_iter().flat_map(|root| some_types(size).into_iter().map(move |k| (root, k)))
        {
            for (op, commutative, name) in operations() {
                for algorithm in reduce_algorithms(commutative) {
                    for (count, in_place) in COUNTS.into_iter().flat_map(|count| [(count, false), (count, true)]) {
                        let label =
                            format!("reduce {algorithm:?}, {name}, {count} to {root} of {size}, {in_place}, {kind:?}");
                        if !is_played(&label) {
                            continue;
                        }
                        let (mut processes, mut expected) = (Vec::new(), Vec::new());
                        for rank in 0..size {
                            let in_place = in_place && rank == root;
                            let items = kind.items(count);
                            let arguments = Reduce { rank, size, root, items, commutative, in_place };
                            let schedule = reduce_with(&arguments, algorithm);
                            let room = if rank == root { count } else { 0 };
                            processes.push(process(&kind, schedule, &contribution(rank, count), room, in_place));
                            let result = if rank == root { naive(op, 0..size, count) } else { Vec::new() };
                            expected.push(holding(&kind, &result));
                        }
                        assert_eq!(run(&label, op, processes), expected, "{label}");
                    }
                }
            }
        }
    }
}

fn allreduce_algorithms() -> Vec<AllreduceAlgorithm> {
    let trees = TREES.into_iter();
    let trees = trees.flat_map(|tree| SEGMENTS.map(|segment_bytes| AllreduceAlgorithm::Tree { tree, segment_bytes }));
    let others = [
        AllreduceAlgorithm::Doubling,
        AllreduceAlgorithm::Multiplying { radix: 2 },
        AllreduceAlgorithm::Multiplying { radix: 3 },
        AllreduceAlgorithm::Multiplying { radix: 4 },
        AllreduceAlgorithm::Halving,
        AllreduceAlgorithm::Ring,
        AllreduceAlgorithm::Multicast,
        AllreduceAlgorithm::Shared,
        AllreduceAlgorithm::SharedShares,
        AllreduceAlgorithm::SingleCopy,
    ];
    others.into_iter().chain(trees).collect()
}

fn needs_commuting(algorithm: AllreduceAlgorithm) -> bool {
    match algorithm {
        AllreduceAlgorithm::Ring | AllreduceAlgorithm::Multiplying { .. } => true,
        AllreduceAlgorithm::Tree { tree, .. } => !is_ordered(tree),
        _ => false,
    }
}

/// Runs an operation with the arguments of allreduce for every size, type, operation, count and place.
fn for_all(
    name: &str,
    commuting_only: bool,
    schedule: impl Fn(&Allreduce) -> Schedule,
    ranks_combined: impl Fn(u32, u32) -> std::ops::Range<u32>,
) {
    for size in sizes() {
        for (op, commutative, op_name) in
            operations().into_iter().filter(|&(_, commutes, _)| commutes || !commuting_only)
        {
            for (kind, count) in some_types(size).into_iter().flat_map(|kind| COUNTS.map(|count| (kind.clone(), count)))
            {
                for in_place_where in 0..3 {
                    let label = format!("{name}, {op_name}, {count} in {size}, in place {in_place_where}, {kind:?}");
                    if !is_played(&label) {
                        continue;
                    }
                    let (mut processes, mut expected) = (Vec::new(), Vec::new());
                    for rank in 0..size {
                        let in_place = in_place_at(in_place_where, rank);
                        let arguments = Allreduce { rank, size, items: kind.items(count), commutative, in_place };
                        let own = contribution(rank, count);
                        processes.push(process(&kind, schedule(&arguments), &own, count, in_place));
                        let combined = ranks_combined(rank, size);
                        // Without operands to combine, the receive buffer is left alone.
                        let untouched = || processes[rank as usize].receive.clone();
                        let result = || holding(&kind, &naive(op, combined.clone(), count));
                        expected.push(if combined.is_empty() { untouched() } else { result() });
                    }
                    assert_eq!(run(&label, op, processes), expected, "{label}");
                }
            }
        }
    }
}

#[test]
fn allreduce_gives_all_the_result_in_rank_order() {
    for algorithm in allreduce_algorithms() {
        let commuting_only = needs_commuting(algorithm);
        let name = format!("allreduce {algorithm:?}");
        for_all(&name, commuting_only, |arguments| allreduce_with(arguments, algorithm), |_, size| 0..size);
    }
}

/// The data is longer than the part that a rank publishes at once, and the shares are longer than the part
/// that a rank fetches at once, for all kinds of operations and types. Expect: segments one behind the other,
/// operands in the order of ranks.
#[test]
fn a_long_allreduce_through_shared_memory_is_cut_into_segments() {
    long_allreduce(AllreduceAlgorithm::SharedShares, &[(2, 0), (3, 1), (5, 2)], (70 << 10, 6), usize::MAX);
    long_allreduce(AllreduceAlgorithm::SingleCopy, &[(2, 1)], (140 << 10, 3), 1);
}

/// Runs allreduces of `bytes` bytes, in `phases` phases.
fn long_allreduce(algorithm: AllreduceAlgorithm, cases: &[(u32, u32)], (bytes, phases): (u64, u32), types: usize) {
    for &(size, in_place_where) in cases {
        for (op, commutative, name) in operations() {
            // As many items of a smaller extent would overlap.
            let kinds = some_types(size).into_iter().filter(|kind| kind.extent.unsigned_abs() >= kind.size());
            for kind in kinds.take(types) {
                let count = bytes / kind.size();
                let label = format!("long allreduce {algorithm:?}, {name}, {size} ranks, {in_place_where}, {kind:?}");
                let (mut processes, mut expected) = (Vec::new(), Vec::new());
                for rank in 0..size {
                    let in_place = in_place_at(in_place_where, rank);
                    let arguments = Allreduce { rank, size, items: kind.items(count), commutative, in_place };
                    let schedule = allreduce_with(&arguments, algorithm);
                    assert_eq!(schedule.phases, phases, "{label}");
                    processes.push(process(&kind, schedule, &contribution(rank, count), count, in_place));
                    expected.push(holding(&kind, &naive(op, 0..size, count)));
                }
                assert_eq!(run(&label, op, processes), expected, "{label}");
            }
        }
    }
}

/// Two groups of all small sizes: each gets the result of the other, in the order of its ranks.
#[test]
fn allreduce_between_groups_gives_each_the_result_of_the_other() {
    for (first, second) in (1..=6).flat_map(|first| (1..=6).map(move |second| (first, second))) {
        for (op, commutative, op_name) in operations() {
            for (kind, count) in some_types(3).into_iter().flat_map(|kind| COUNTS.map(|count| (kind.clone(), count))) {
                let label = format!("allreduce between {first} and {second}, {op_name}, {count}, {kind:?}");
                if !is_played(&label) {
                    continue;
                }
                let (mut processes, mut expected) = (Vec::new(), Vec::new());
                for number in 0..first + second {
                    let is_first = number < first;
                    let (rank, size, remote_size, others) = match is_first {
                        true => (number, first, second, first..first + second),
                        false => (number - first, second, first, 0..first),
                    };
                    let items = kind.items(count);
                    let arguments = AllreduceBetween { rank, size, remote_size, is_first, items, commutative };
                    let schedule = allreduce_between(&arguments, &Choices::without_settings());
                    processes.push(process(&kind, schedule, &contribution(number, count), count, false));
                    expected.push(holding(&kind, &naive(op, others, count)));
                }
                assert_eq!(run(&label, op, processes), expected, "{label}");
            }
        }
    }
}

/// Nodes in blocks, in turns, and of different sizes.
pub(crate) fn nodes(size: u32) -> [Vec<u32>; 3] {
    [
        (0..size).map(|rank| rank / 4).collect(),
        (0..size).map(|rank| rank % 3).collect(),
        (0..size).map(|rank| rank * rank % 5).collect(),
    ]
}

#[test]
fn allreduce_in_two_levels_gives_all_the_result() {
    let algorithms = [
        (ReduceAlgorithm::BINOMIAL, AllreduceAlgorithm::Doubling, BcastAlgorithm::BINOMIAL),
        (ReduceAlgorithm::Halving, AllreduceAlgorithm::Ring, BcastAlgorithm::chain(13)),
        (ReduceAlgorithm::BINOMIAL, AllreduceAlgorithm::Multicast, BcastAlgorithm::BINOMIAL),
        (ReduceAlgorithm::Shared, AllreduceAlgorithm::Doubling, BcastAlgorithm::Shared),
        (ReduceAlgorithm::SingleCopy, AllreduceAlgorithm::Ring, BcastAlgorithm::SingleCopy),
        (ReduceAlgorithm::Shared, AllreduceAlgorithm::Multicast, BcastAlgorithm::SingleCopy),
    ];
    for (number, algorithms) in (0..3).flat_map(|number| algorithms.map(|algorithms| (number, algorithms))) {
        // One rank of each node receives a multicast.
        for leaders in if algorithms.1 == AllreduceAlgorithm::Multicast { 1..=1 } else { 1..=3 } {
            let name = format!("allreduce in two levels {algorithms:?} on nodes {number} by {leaders}");
            let schedule = |arguments: &Allreduce| {
                allreduce_in_two_levels(arguments, &nodes(arguments.size)[number], leaders, algorithms)
            };
            for_all(&name, true, schedule, |_, size| 0..size);
        }
    }
}

#[test]
fn reduce_in_two_levels_gives_any_root_the_result() {
    let algorithms = [
        (ReduceAlgorithm::BINOMIAL, ReduceAlgorithm::Halving),
        (ReduceAlgorithm::Halving, ReduceAlgorithm::Tree { tree: Tree::Chain, segment_bytes: 13 }),
        (ReduceAlgorithm::Shared, ReduceAlgorithm::BINOMIAL),
        (ReduceAlgorithm::SingleCopy, ReduceAlgorithm::BINOMIAL),
    ];
    for (size, number, algorithms) in
        sizes().flat_map(|size| (0..3).flat_map(move |number| algorithms.map(|algorithms| (size, number, algorithms))))
    {
        let nodes = &nodes(size)[number];
        for (root, kind) in
            roots(size).into_iter().flat_map(|root| some_types(size).into_iter().map(move |k| (root, k)))
        {
            for (count, in_place) in COUNTS.into_iter().flat_map(|count| [(count, false), (count, true)]) {
                let label = format!(
                    "reduce in two levels {algorithms:?} on {number}, {count} to {root} of {size}, {in_place}, {kind:?}"
                );
                if !is_played(&label) {
                    continue;
                }
                let (mut processes, mut expected) = (Vec::new(), Vec::new());
                for rank in 0..size {
                    let in_place = in_place && rank == root;
                    let items = kind.items(count);
                    let arguments = Reduce { rank, size, root, items, commutative: true, in_place };
                    let schedule = reduce_in_two_levels(&arguments, nodes, algorithms);
                    let room = if rank == root { count } else { 0 };
                    processes.push(process(&kind, schedule, &contribution(rank, count), room, in_place));
                    let result = if rank == root { naive(sum, 0..size, count) } else { Vec::new() };
                    expected.push(holding(&kind, &result));
                }
                assert_eq!(run(&label, sum, processes), expected, "{label}");
            }
        }
    }
}

#[test]
fn reduce_between_groups_gives_the_root_the_result_of_the_other() {
    for group in (1..=9).chain([33]) {
        for (op, commutative, op_name) in operations() {
            for (kind, count) in some_types(3).into_iter().flat_map(|kind| COUNTS.map(|count| (kind.clone(), count))) {
                let label = format!("reduce of {group} to the other group, {op_name}, {count}, {kind:?}");
                let schedule = |rank| {
                    let items = kind.items(count);
                    reduce_between(
                        &ReduceBetween { rank, size: group + 1, items, commutative },
                        &Choices::without_settings(),
                    )
                };
                let root = Process::new(schedule(0), (Memory::default(), &kind), (space(&kind, count), &kind));
                let mut processes = vec![root];
                let mut expected = vec![holding(&kind, &naive(op, 0..group, count))];
                for rank in 0..group {
                    // The others have no receive buffer.
                    let own = holding(&kind, &contribution(rank, count));
                    processes.push(Process::new(schedule(rank + 1), (own, &Type::bytes()), (Memory::default(), &kind)));
                    expected.push(Memory::default());
                }
                assert_eq!(run(&label, op, processes), expected, "{label}");
            }
        }
    }
}

#[test]
fn reduce_scatter_between_groups_gives_each_its_part_of_the_others_result() {
    for (first, second) in (1..=6_u32).flat_map(|first| (1..=6).map(move |second| (first, second))) {
        for (op, commutative, op_name) in operations() {
            for kind in some_types(3) {
                let label = format!("reduce-scatter between {first} and {second}, {op_name}, {kind:?}");
                let total = 13;
                // Uneven counts, some of them 0, as many items together on both sides.
                let counts = |size: u32| -> Vec<u64> {
                    let mut counts: Vec<u64> = (0..size).map(|rank| u64::from(rank % 3)).collect();
                    counts[size as usize / 2] += total - counts.iter().sum::<u64>();
                    counts
                };
                let (mut processes, mut expected) = (Vec::new(), Vec::new());
                for number in 0..first + second {
                    let is_first = number < first;
                    let (rank, size, remote_size, others) = match is_first {
                        true => (number, first, second, first..first + second),
                        false => (number - first, second, first, 0..first),
                    };
                    let counts = counts(size);
                    let shape = kind.items(0).shape;
                    let arguments =
                        ReduceScatterBetween { rank, size, remote_size, is_first, counts: &counts, shape, commutative };
                    let schedule = reduce_scatter_between(&arguments, &Choices::without_settings());
                    let own = counts[rank as usize];
                    processes.push(process(&kind, schedule, &contribution(number, total), own, false));
                    let start = counts[..rank as usize].iter().sum::<u64>() as usize * 4;
                    let result = naive(op, others, total);
                    expected.push(holding(&kind, &result[start..start + own as usize * 4]));
                }
                assert_eq!(run(&label, op, processes), expected, "{label}");
            }
        }
    }
}

#[test]
fn allreduce_gives_all_the_same_bits() {
    let kind = &types()[0];
    for (size, algorithm) in
        sizes().flat_map(|size| allreduce_algorithms().into_iter().map(move |algorithm| (size, algorithm)))
    {
        for (count, in_place_where) in [1, 7, 40].into_iter().flat_map(|count| [(count, 0), (count, 1), (count, 2)]) {
            let label = format!("allreduce {algorithm:?} of {count} in {size}");
            if !is_played(&label) {
                continue;
            }
            let of = |rank: u32| {
                let (items, in_place) = (kind.items(count), in_place_at(in_place_where, rank));
                let arguments = Allreduce { rank, size, items, commutative: true, in_place };
                process(kind, allreduce_with(&arguments, algorithm), &contribution(rank, count), count, in_place)
            };
            let results = run(&label, mix, (0..size).map(of).collect());
            assert!(results.iter().all(|result| *result == results[0]), "{label}");
        }
    }
}

#[test]
fn scan_combines_up_to_each_rank() {
    for algorithm in [ScanAlgorithm::Doubling, ScanAlgorithm::Chain { segment_bytes: 13 }] {
        let name = format!("scan {algorithm:?}");
        for_all(&name, false, |arguments| scan_with(arguments, algorithm), |rank, _| 0..rank + 1);
    }
}

#[test]
fn exscan_combines_below_each_rank_and_leaves_rank_0_alone() {
    for algorithm in [ScanAlgorithm::Doubling, ScanAlgorithm::Chain { segment_bytes: 13 }] {
        let name = format!("exscan {algorithm:?}");
        for_all(&name, false, |arguments| exscan_with(arguments, algorithm), |rank, _| 0..rank);
    }
}

const REDUCE_SCATTER: [ReduceScatterAlgorithm; 3] =
    [ReduceScatterAlgorithm::Halving, ReduceScatterAlgorithm::Pairwise, ReduceScatterAlgorithm::SingleCopy];

/// Checks a reduce-scatter of blocks of `counts`.
fn reduce_scatter_case(
    label: &str,
    kind: &Type,
    (op, in_place_where): (Op, u32),
    counts: &[u64],
    schedule: impl Fn(u32, bool) -> Schedule,
) {
    let size = counts.len() as u32;
    let total = counts.iter().sum::<u64>();
    let all = naive(op, 0..size, total);
    let (mut processes, mut expected) = (Vec::new(), Vec::new());
    for rank in 0..size {
        let in_place = in_place_at(in_place_where, rank);
        let count = counts[rank as usize];
        let start = counts[..rank as usize].iter().sum::<u64>();
        let own = contribution(rank, total);
        processes.push(process(kind, schedule(rank, in_place), &own, count, in_place));
        let mut result = processes[rank as usize].receive.clone();
        result.put(kind, 0, count, &all[4 * start as usize..4 * (start + count) as usize]);
        expected.push(result);
    }
    assert_eq!(run(label, op, processes), expected, "{label}");
}

#[test]
fn reduce_scatter_block_gives_each_its_block() {
    for (size, algorithm) in sizes().flat_map(|size| REDUCE_SCATTER.map(|algorithm| (size, algorithm))) {
        for (op, commutative, name) in operations() {
            for (kind, count) in
                some_types(size).into_iter().flat_map(|kind| [0, 1, 3].map(|count| (kind.clone(), count)))
            {
                for in_place_where in 0..3 {
                    let label = format!(
                        "reduce_scatter_block {algorithm:?}, {name}, {count} in {size}, {in_place_where}, {kind:?}"
                    );
                    if !is_played(&label) {
                        continue;
                    }
                    reduce_scatter_case(
                        &label,
                        &kind,
                        (op, in_place_where),
                        &vec![count; size as usize],
                        |rank, in_place| {
                            let items = kind.items(count);
                            let arguments = ReduceScatterBlock { rank, size, items, commutative, in_place };
                            reduce_scatter_block_with(&arguments, algorithm)
                        },
                    );
                }
            }
        }
    }
}

#[test]
fn reduce_scatter_gives_each_its_block_of_any_length() {
    for (size, algorithm) in sizes().flat_map(|size| REDUCE_SCATTER.map(|algorithm| (size, algorithm))) {
        let uneven: Vec<u64> = (0..size as u64).map(|i| (i * 5 + 2) % 4).collect();
        let one: Vec<u64> = (0..size).map(|i| if i == size / 2 { 9 } else { 0 }).collect();
        for ((op, commutative, name), counts) in
            operations().into_iter().flat_map(|operation| [(operation, &uneven), (operation, &one)])
        {
            for (kind, in_place_where) in
                some_types(size).into_iter().flat_map(|kind| [0, 1, 2].map(|p| (kind.clone(), p)))
            {
                let label = format!("reduce_scatter {algorithm:?}, {name}, {counts:?}, {in_place_where}, {kind:?}");
                if !is_played(&label) {
                    continue;
                }
                reduce_scatter_case(&label, &kind, (op, in_place_where), counts, |rank, in_place| {
                    let shape = kind.shape();
                    reduce_scatter_with(&ReduceScatter { rank, size, counts, shape, commutative, in_place }, algorithm)
                });
            }
        }
    }
}
