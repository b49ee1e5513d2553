//! Cases at the points where the built-in table changes its choice: sizes just below, at and just above each
//! number of bytes in its rules. The places of the ranks vary, and all cases are drawn from a seed
//! (`WEFT_COLLECTIVES_SEED`).

use weft_plan::collective::choice::{BUILT_IN, Choices, Layout, Operation, Table};
use weft_plan::collective::{Allgather, Allreduce, Bcast, Chosen, Gather, Reduce, ReduceScatterBlock, Schedule};

use crate::interpreter::{Memory, Process, Type, run};
use weft_random::Random;

use crate::reduction::{contribution, holding, naive, space, sum};
use crate::{is_every_case_played, no_op, pattern, types};

/// Bytes of all buffers of a case together, and cases of each operation: here, and in `make collectives`.
const BYTES_MAX: [u64; 2] = [96 << 10, 256 << 10];
const CASES: [usize; 2] = [12, 40];
/// Bytes of an item.
const ITEM: u64 = 4;

/// A number of bytes that a rule of an operation names, in all or for each rank.
#[derive(Clone, Copy, Debug)]
struct Point {
    bytes: u64,
    for_each: bool,
}

/// The points in the rules of an operation.
fn points(operation: Operation) -> Vec<Point> {
    let rules = BUILT_IN.lines().map(|line| line.split('#').next().unwrap_or_default());
    let rules = rules.filter(|line| line.split_whitespace().next() == Some(operation.name()));
    let point = |word: &str| {
        let (for_each, rest) = match word.strip_prefix("bytes/ranks") {
            Some(rest) => (true, rest),
            None => (false, word.strip_prefix("bytes")?),
        };
        let number = rest.trim_start_matches(['<', '>', '=']);
        let (digits, unit) = number.split_at(number.trim_end_matches(['K', 'M']).len());
        let shift = [("", 0), ("K", 10), ("M", 20)].iter().find(|(name, _)| *name == unit)?.1;
        Some(Point { bytes: digits.parse::<u64>().ok()? << shift, for_each })
    };
    rules.flat_map(|line| line.split_whitespace().filter_map(point).collect::<Vec<_>>()).collect()
}

/// The subject of a case.
struct Case {
    operation: Operation,
    size: u32,
    root: u32,
    /// Items, as the operation counts them: of the message, of a block, or of a rank's contribution.
    count: u64,
    layout: Layout,
    in_place: bool,
    commutative: bool,
    kind: Type,
}

/// Draws a case; `shares_memory`: it has several ranks, on one node, which publish in shared memory.
fn draw(
    random: &mut Random,
    operation: Operation,
    points: &[Point],
    bytes_max: u64,
    shares_memory: bool,
) -> Option<Case> {
    let size = if shares_memory { 2 + random.below(32) } else { 1 + random.below(33) } as u32;
    let Point { bytes, for_each } = random.pick(points);
    let bytes = if for_each { bytes * u64::from(size) } else { bytes };
    // The table counts all blocks of these operations, and one block or the message of the others.
    let blocks = if matches!(operation, Operation::Allgather | Operation::ReduceScatter) { u64::from(size) } else { 1 };
    let count = (bytes / ITEM / blocks + random.below(3)).saturating_sub(1);
    let everywhere = match operation {
        Operation::Gather | Operation::Scatter | Operation::Alltoall => u64::from(size) * u64::from(size),
        _ => u64::from(size) * blocks,
    };
    if count * ITEM * everywhere > bytes_max {
        return None;
    }
    let per_node = if shares_memory { 40 } else { random.pick(&[1, 1, 2, 3, 4, 8, 40]) };
    let node_of = |rank: u32| if random_round_robin(per_node) { rank % per_node } else { rank / per_node };
    let layout = Layout::of((0..size).map(node_of).collect()).with_oversubscription(random.below(2) == 0);
    let publishes = shares_memory || random.below(4) > 0;
    let layout = layout.with_published_max(publishes.then_some(32 << 10)).with_copies(random.below(2) == 0);
    // Clusters of ranks that follow each other, clusters that ranks take in turns, and none.
    let clusters: Vec<u32> = match random.below(4) {
        0 => (0..size).map(|rank| rank % 3).collect(),
        1 => (0..size).map(|rank| rank * 2 / size).collect(),
        2 => (0..size).map(|rank| rank / 5).collect(),
        _ => vec![0; size as usize],
    };
    let layout = if shares_memory { layout } else { layout.with_clusters(&clusters) };
    let in_place = random.below(2) == 0;
    let commutative = random.below(3) > 0;
    // Interleaved items are apart only as long as they are few.
    let kinds = types().into_iter().filter(|kind| kind.items(1).shape.true_extent < 1000 || count * everywhere < 2000);
    let kinds: Vec<Type> = kinds.collect();
    Some(Case {
        operation,
        size,
        root: random.below(u64::from(size)) as u32,
        count,
        layout,
        in_place,
        commutative,
        kind: kinds[random.below(kinds.len() as u64) as usize].clone(),
    })
}

/// Returns whether ranks take the nodes in turns, instead of following each other on each node.
fn random_round_robin(per_node: u32) -> bool {
    per_node == 3
}

impl Case {
    fn label(&self) -> String {
        let Self { operation, size, root, count, in_place, commutative, kind, layout } = self;
        let name = operation.name();
        format!(
            "{name} of {count} items, root {root} of {size}, {in_place}, {commutative}, {kind:?}, {:?}, clusters {:?}",
            layout.place(),
            layout.clusters()
        )
    }

    fn is_reduction(&self) -> bool {
        use Operation::{Allreduce, Reduce, ReduceScatter, Scan};
        matches!(self.operation, Reduce | Allreduce | ReduceScatter | Scan)
    }

    fn schedule(&self, chosen: &Chosen<'_>, rank: u32) -> Schedule {
        let Self { size, root, in_place, commutative, .. } = *self;
        let items = self.kind.items(self.count);
        let (send, receive) = (items, items);
        let own_in_place = in_place && rank == root;
        let gather = Gather { rank, size, root, send, receive, in_place: own_in_place };
        let all = Allreduce { rank, size, items, commutative, in_place };
        let everybody = Allgather { rank, size, send, receive, in_place };
        match self.operation {
            Operation::Bcast => chosen.bcast(&Bcast { rank, size, root, items }),
            Operation::Gather => chosen.gather(&gather),
            Operation::Scatter => chosen.scatter(&gather),
            Operation::Allgather => chosen.allgather(&everybody),
            Operation::Alltoall => chosen.alltoall(&everybody),
            Operation::Reduce => {
                chosen.reduce(&Reduce { rank, size, root, items, commutative, in_place: own_in_place })
            }
            Operation::Allreduce => chosen.allreduce(&all),
            Operation::Scan => chosen.scan(&all),
            Operation::ReduceScatter => {
                chosen.reduce_scatter_block(&ReduceScatterBlock { rank, size, items, commutative, in_place })
            }
            Operation::Barrier => unreachable!("a barrier has no bytes"),
        }
    }

    /// The block that goes from one rank to another.
    fn block(&self, from: u32, to: u32) -> Vec<u8> {
        pattern(u64::from(from) << 8 | u64::from(to), ITEM * self.count)
    }

    fn blocks(&self, block: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
        (0..self.size).flat_map(block).collect()
    }

    /// The data that a rank sends, the content of its receive buffer before (`None`: room for as much), and
    /// the content afterwards.
    fn buffers(&self, rank: u32) -> (Option<Vec<u8>>, Option<Vec<u8>>, Vec<u8>) {
        let Self { size, root, count, in_place, .. } = *self;
        let at_root = rank == root;
        let only_at_root = |bytes: Vec<u8>| if at_root { bytes } else { Vec::new() };
        let own_in_place = in_place && at_root;
        // Blocks in place, the others not yet there.
        let with_own =
            || self.blocks(|from| if from == rank { self.block(rank, 0) } else { vec![0xEE; (ITEM * count) as usize] });
        let (own, reduced) = (contribution(rank, count), |last: u32| naive(sum, 0..last, count));
        match self.operation {
            Operation::Bcast => (None, at_root.then(|| self.block(root, 0)), self.block(root, 0)),
            Operation::Gather => {
                let all = only_at_root(self.blocks(|from| self.block(from, 0)));
                let before = own_in_place.then(with_own);
                ((!own_in_place).then(|| self.block(rank, 0)), before, all)
            }
            Operation::Scatter => {
                let result = if own_in_place { Vec::new() } else { self.block(root, rank) };
                (at_root.then(|| self.blocks(|to| self.block(root, to))), None, result)
            }
            Operation::Allgather => {
                let all = self.blocks(|from| self.block(from, 0));
                ((!in_place).then(|| self.block(rank, 0)), in_place.then(with_own), all)
            }
            Operation::Alltoall => {
                let out = self.blocks(|to| self.block(rank, to));
                let all = self.blocks(|from| self.block(from, rank));
                if in_place { (None, Some(out), all) } else { (Some(out), None, all) }
            }
            Operation::ReduceScatter => {
                let own = contribution(rank, count * u64::from(size));
                let all = naive(sum, 0..size, count * u64::from(size));
                let bytes = (ITEM * count) as usize;
                let result = all[rank as usize * bytes..][..bytes].to_vec();
                // The bytes behind the result in place are not defined.
                if in_place { (None, Some(own), result) } else { (Some(own), None, result) }
            }
            Operation::Reduce if own_in_place => (None, Some(own), reduced(size)),
            Operation::Reduce => (Some(own), None, only_at_root(reduced(size))),
            Operation::Allreduce if in_place => (None, Some(own), reduced(size)),
            Operation::Allreduce => (Some(own), None, reduced(size)),
            _ if in_place => (None, Some(own), reduced(rank + 1)),
            _ => (Some(own), None, reduced(rank + 1)),
        }
    }

    fn play(&self, choices: &Choices) {
        let label = self.label();
        let chosen = Chosen { choices, layout: &self.layout };
        let (mut processes, mut expected) = (Vec::new(), Vec::new());
        for rank in 0..self.size {
            let (send, before, after) = self.buffers(rank);
            let room = after.len() as u64 / ITEM;
            let receive = before.as_ref().map_or_else(|| space(&self.kind, room), |bytes| holding(&self.kind, bytes));
            let send = send.map_or_else(Memory::default, |bytes| holding(&self.kind, &bytes));
            // The datatype of a reduction's send buffer is that of its result.
            let send_type = if self.is_reduction() { Type::bytes() } else { self.kind.clone() };
            processes.push(Process::new(self.schedule(&chosen, rank), (send, &send_type), (receive, &self.kind)));
            expected.push(holding(&self.kind, &after));
        }
        let op = if self.is_reduction() { sum } else { no_op };
        let found = run(&label, op, processes);
        for (rank, (found, expected)) in found.into_iter().zip(expected).enumerate() {
            // The bytes behind the result of a reduction that is scattered in place are not defined.
            let is_right = if self.operation == Operation::ReduceScatter && self.in_place {
                found.starts_with(&expected, &self.kind, self.count)
            } else {
                found == expected
            };
            assert!(is_right, "rank {rank}: {label}");
        }
    }
}

#[test]
fn where_the_choice_changes_the_results_are_right() {
    let every = usize::from(is_every_case_played());
    let seed = std::env::var("WEFT_COLLECTIVES_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let choices = Choices::new(Vec::new(), Table::default());
    for operation in Operation::ALL.into_iter().filter(|operation| *operation != Operation::Barrier) {
        let mut random = Random::new(seed);
        let points = points(operation);
        assert!(points.len() > 3, "{} has no rules by size", operation.name());
        // One of four drawn cases has ranks that share memory, whatever the seed says.
        let drawn = (0_u32..).filter_map(|turn| draw(&mut random, operation, &points, BYTES_MAX[every], turn % 4 == 0));
        let cases: Vec<Case> = drawn.take(CASES[every]).collect();
        assert!(cases.iter().any(|case| case.layout.place().published_max.is_some() && case.size > 1));
        cases.iter().for_each(|case| case.play(&choices));
    }
}
