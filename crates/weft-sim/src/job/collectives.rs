//! Collective operations of a simulated process: their schedules, and the contents that the buffers must have
//! afterwards by the definition of each operation (MPI-5.0 §6).
//!
//! `process/collectives.rs` runs them.

mod items;

use super::program::{Collective, Kind};
use super::shape::content;
pub(super) use items::{Array, item};
use items::{ITEM, parts, shape};
use std::sync::LazyLock;
use weft_core::reduce::Op;
use weft_plan::collective::choice::{Choices, Layout as Places, Multicast, Operation as Chooses, Table};
use weft_plan::collective::select::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BarrierAlgorithm, BcastAlgorithm, GatherAlgorithm,
    ReduceAlgorithm, ReduceScatterAlgorithm, ScanAlgorithm, Tree, WHOLE,
};
use weft_plan::collective::{self as core, Blocks, Chosen, ElementShape, Items, Schedule, TypedBlocks};

/// Trees, with the bytes of their segments.
const TREES: [(Tree, u64); 7] = [
    (Tree::BINOMIAL, WHOLE),
    (Tree::Chain, 3000),
    (Tree::KNomial { radix: 3 }, WHOLE),
    (Tree::KNomial { radix: 4 }, 2000),
    (Tree::KAry { arity: 2 }, 3000),
    (Tree::DoubleBinary, 2000),
    (Tree::Linear, WHOLE),
];

/// A collective as one process sees it.
pub(super) struct View {
    /// The places of the processes, if the operation may be multicast, or go through memory of a node.
    places: Option<Places>,
    collective: Collective,
    rank: u32,
    size: u32,
    counts: Vec<u64>,
}

/// The schedule of a collective, its buffers, and its expected result.
pub(super) struct Plan {
    pub(super) schedule: Schedule,
    pub(super) send_items: u64,
    pub(super) receive_items: u64,
    pub(super) send: Vec<(u64, Vec<u8>)>,
    pub(super) expected: Option<Vec<(u64, Vec<u8>)>>,
}

impl View {
    pub(super) fn new(collective: Collective, rank: u32, size: u32, places: Option<Places>) -> Self {
        // The counts of ranks differ, and some are zero.
        let count = |rank: u64| (collective.count + 5 * rank) % (collective.count + 3);
        Self { places, collective, rank, size, counts: (0..u64::from(size)).map(count).collect() }
    }

    /// The first `count` items that `from` has for `to`.
    fn items(&self, from: u32, to: u32, count: u64) -> Vec<u8> {
        let name = u64::from(self.collective.id) << 16 | u64::from(from) << 8 | u64::from(to);
        content(name ^ 1 << 59, count as usize * ITEM).to_vec()
    }

    /// The planner that the library uses, for operations that are planned by the places of the processes:
    ///
    /// - three of four operations, where the network has groups: they are multicast wherever they can be;
    /// - one of two operations of a communicator that has a slot in the memory of its nodes.
    fn chosen(&self) -> Option<Chosen<'_>> {
        static MULTICAST: LazyLock<Choices> = LazyLock::new(|| {
            let operations = [Chooses::Barrier, Chooses::Bcast, Chooses::Allreduce, Chooses::Allgather];
            let asked =
                operations.map(|operation| (operation, operation.parse("multicast").expect("all of them have it")));
            Choices::new(asked.to_vec(), Table::default())
        });
        static DEFAULT: LazyLock<Choices> = LazyLock::new(|| Choices::new(Vec::new(), Table::default()));
        let layout = self.places.as_ref()?;
        let is_multicast = layout.place().multicast == Multicast::Asked && self.collective.algorithm % 4 != 3;
        let choices = if is_multicast {
            &MULTICAST
        } else if self.collective.id.is_multiple_of(2) {
            &DEFAULT
        } else {
            return None;
        };
        Some(Chosen { choices, layout })
    }

    pub(super) fn op(&self) -> Op {
        [Op::Sum, Op::Max, Op::BXor, Op::BAnd][self.collective.id as usize % 4]
    }

    /// The reduction of the items that `ranks` contribute, by its definition.
    fn reduced(&self, ranks: std::ops::Range<u32>, count: u64) -> Vec<u8> {
        let value = |bytes: &[u8], at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let all: Vec<Vec<u8>> = ranks.map(|rank| self.items(rank, 0, count)).collect();
        let element = |at: usize| {
            all.iter().map(|bytes| value(bytes, at * ITEM)).reduce(|left, right| match self.op() {
                Op::Sum => left.wrapping_add(right),
                Op::Max => left.max(right),
                Op::BXor => left ^ right,
                _ => left & right,
            })
        };
        (0..count as usize).flat_map(|at| element(at).unwrap_or(0).to_le_bytes()).collect()
    }

    /// The places of blocks of these lengths: the last block first, with an item between two blocks.
    fn starts(&self) -> Vec<u64> {
        let mut starts = vec![0; self.counts.len()];
        let mut at = 1;
        for rank in (0..self.counts.len()).rev() {
            starts[rank] = at;
            at += self.counts[rank] + 1;
        }
        starts
    }

    pub(super) fn plan(&self) -> Plan {
        match self.collective.kind {
            Kind::Barrier | Kind::Bcast | Kind::Gather | Kind::Gatherv | Kind::Scatter | Kind::Scatterv => {
                self.rooted()
            }
            Kind::Allgather | Kind::Allgatherv => self.allgather(),
            Kind::Alltoall | Kind::Alltoallv | Kind::Alltoallw => self.alltoall(),
            _ => self.reduction(),
        }
    }

    /// The algorithm that the program asks for; `None` for the algorithm that is chosen by default.
    fn asked<A>(&self, algorithms: impl IntoIterator<Item = A>) -> Option<A> {
        let mut algorithms: Vec<Option<A>> = algorithms.into_iter().map(Some).collect();
        algorithms.insert(0, None);
        let number = usize::from(self.collective.algorithm) % algorithms.len();
        algorithms.swap_remove(number)
    }

    fn shape(&self) -> ElementShape {
        shape(item(self.collective.strided).layout())
    }

    fn displacements(&self) -> Vec<i64> {
        let extent = parts(self.collective.strided).1 as i64;
        self.starts().iter().map(|start| *start as i64 * extent).collect()
    }

    fn rooted(&self) -> Plan {
        let Self { collective, rank, size, ref counts, .. } = *self;
        let (root, count, shape) = (collective.root as u32, collective.count, self.shape());
        let at_root = rank == root;
        let items = Items { count, shape };
        let gather = [GatherAlgorithm::Linear, GatherAlgorithm::BINOMIAL, GatherAlgorithm::Tree { radix: 3 }];
        let both = core::Gather { rank, size, root, send: items, receive: items, in_place: false };
        let displacements = self.displacements();
        let blocks = Blocks { counts, displacements: &displacements, item_size: ITEM as u64 };
        let spread: u64 = counts.iter().sum::<u64>() + u64::from(size) + 1;
        let own = counts[rank as usize];
        let each = |count: &dyn Fn(u32) -> u64, start: &dyn Fn(u32) -> u64, name: &dyn Fn(u32) -> (u32, u32)| {
            let block = |other: u32| (start(other), self.items(name(other).0, name(other).1, count(other)));
            (0..size).map(block).collect::<Vec<_>>()
        };
        let (starts, equal) = (self.starts(), |other: u32| u64::from(other) * count);
        let no_plan = Plan {
            schedule: Schedule::default(),
            send_items: 0,
            receive_items: 0,
            send: Vec::new(),
            expected: Some(Vec::new()),
        };
        match collective.kind {
            Kind::Barrier => {
                let barrier = core::Barrier { rank, size };
                let trees = TREES.map(|(tree, _)| BarrierAlgorithm::Tree(tree));
                let schedule = match (self.chosen(), self.asked(trees)) {
                    (Some(chosen), _) => chosen.barrier(&barrier),
                    (_, Some(algorithm)) => core::barrier_with(&barrier, algorithm),
                    (_, None) => core::barrier(&barrier),
                };
                Plan { schedule, ..no_plan }
            }
            Kind::Bcast => {
                let arguments = core::Bcast { rank, size, root, items };
                let tree = |(tree, segment_bytes)| BcastAlgorithm::Tree { tree, segment_bytes };
                let others = [BcastAlgorithm::ScatterDissemination, BcastAlgorithm::ScatterRing];
                let algorithms = TREES.map(tree).into_iter().chain(others);
                let schedule = match (self.chosen(), self.asked(algorithms)) {
                    (Some(chosen), _) => chosen.bcast(&arguments),
                    (_, Some(algorithm)) => core::bcast_with(&arguments, algorithm),
                    (_, None) => core::bcast(&arguments),
                };
                let expected = Some(vec![(0, self.items(root, 0, count))]);
                Plan { schedule, receive_items: count, expected, ..no_plan }
            }
            Kind::Gather => {
                let schedule = match collective.algorithm {
                    0 => core::gather(&both),
                    which => core::gather_with(&both, gather[usize::from(which) % 2]),
                };
                let send = vec![(0, self.items(rank, 0, count))];
                let expected = if at_root { each(&|_| count, &equal, &|from| (from, 0)) } else { Vec::new() };
                let receive_items = if at_root { count * u64::from(size) } else { 0 };
                Plan { schedule, send_items: count, receive_items, send, expected: Some(expected) }
            }
            Kind::Gatherv => {
                let send_items = Items { count: own, shape };
                let schedule = core::gatherv(&core::Gatherv {
                    rank,
                    size,
                    root,
                    send: send_items,
                    receive: blocks,
                    in_place: false,
                });
                let send = vec![(0, self.items(rank, 0, own))];
                let count = |from: u32| counts[from as usize];
                let start = |from: u32| starts[from as usize];
                let expected = if at_root { each(&count, &start, &|from| (from, 0)) } else { Vec::new() };
                let receive_items = if at_root { spread } else { 0 };
                Plan { schedule, send_items: own, receive_items, send, expected: Some(expected) }
            }
            Kind::Scatter => {
                let schedule = match collective.algorithm {
                    0 => core::scatter(&both),
                    which => core::scatter_with(&both, gather[usize::from(which) % 2]),
                };
                let send = if at_root { each(&|_| count, &equal, &|to| (root, to)) } else { Vec::new() };
                let send_items = if at_root { count * u64::from(size) } else { 0 };
                let expected = Some(vec![(0, self.items(root, rank, count))]);
                Plan { schedule, send_items, receive_items: count, send, expected }
            }
            _ => {
                let receive = Items { count: own, shape };
                let schedule =
                    core::scatterv(&core::Scatterv { rank, size, root, send: blocks, receive, in_place: false });
                let count = |to: u32| counts[to as usize];
                let start = |to: u32| starts[to as usize];
                let send = if at_root { each(&count, &start, &|to| (root, to)) } else { Vec::new() };
                let send_items = if at_root { spread } else { 0 };
                let expected = Some(vec![(0, self.items(root, rank, own))]);
                Plan { schedule, send_items, receive_items: own, send, expected }
            }
        }
    }

    fn allgather(&self) -> Plan {
        let Self { collective, rank, size, ref counts, .. } = *self;
        let (count, shape) = (collective.count, self.shape());
        let algorithms = [
            AllgatherAlgorithm::Dissemination,
            AllgatherAlgorithm::Ring,
            AllgatherAlgorithm::NeighbourExchange,
            AllgatherAlgorithm::Doubling,
            AllgatherAlgorithm::Linear,
        ];
        let algorithm = self.asked(algorithms);
        if collective.kind == Kind::Allgather {
            let items = Items { count, shape };
            let arguments = core::Allgather { rank, size, send: items, receive: items, in_place: false };
            let schedule = match (self.chosen(), algorithm) {
                (Some(chosen), _) => chosen.allgather(&arguments),
                (_, None) => core::allgather(&arguments),
                (_, Some(algorithm)) => core::allgather_with(&arguments, algorithm),
            };
            let expected = (0..size).map(|from| (u64::from(from) * count, self.items(from, 0, count))).collect();
            let send = vec![(0, self.items(rank, 0, count))];
            return Plan {
                schedule,
                send_items: count,
                receive_items: count * u64::from(size),
                send,
                expected: Some(expected),
            };
        }
        let (own, starts, displacements) = (counts[rank as usize], self.starts(), self.displacements());
        let receive = Blocks { counts, displacements: &displacements, item_size: ITEM as u64 };
        let arguments = core::Allgatherv { rank, size, send: Items { count: own, shape }, receive, in_place: false };
        let schedule = match (self.chosen(), algorithm) {
            (Some(chosen), _) => chosen.allgatherv(&arguments),
            (_, None) => core::allgatherv(&arguments),
            (_, Some(algorithm)) => core::allgatherv_with(&arguments, algorithm),
        };
        let block = |from: u32| (starts[from as usize], self.items(from, 0, counts[from as usize]));
        let receive_items = counts.iter().sum::<u64>() + u64::from(size) + 1;
        let send = vec![(0, self.items(rank, 0, own))];
        Plan { schedule, send_items: own, receive_items, send, expected: Some((0..size).map(block).collect()) }
    }

    /// The number of items from one rank to another, where the ranks differ.
    fn between(&self, from: u32, to: u32) -> u64 {
        match self.collective.kind {
            Kind::Alltoall => self.collective.count,
            _ => self.counts[((from + to) % self.size) as usize],
        }
    }

    fn alltoall(&self) -> Plan {
        let Self { collective, rank, size, .. } = *self;
        let extent = parts(collective.strided).1 as i64;
        let sums = |count: &dyn Fn(u32) -> u64| -> (Vec<u64>, Vec<u64>, u64) {
            let counts: Vec<u64> = (0..size).map(count).collect();
            let gap = u64::from(collective.kind != Kind::Alltoall);
            let mut at = 0;
            let mut start = |count: &u64| {
                at += count + gap;
                at - count - gap
            };
            let starts = counts.iter().map(&mut start).collect();
            (counts, starts, at)
        };
        let (out_counts, out_places, send_items) = sums(&|to| self.between(rank, to));
        let (in_counts, in_places, receive_items) = sums(&|from| self.between(from, rank));
        let bytes = |starts: &[u64]| -> Vec<i64> { starts.iter().map(|start| *start as i64 * extent).collect() };
        let (out_bytes, in_bytes) = (bytes(&out_places), bytes(&in_places));
        let sizes = vec![ITEM as u64; size as usize];
        let schedule = match collective.kind {
            Kind::Alltoall => {
                let items = Items { count: collective.count, shape: self.shape() };
                let arguments = core::Allgather { rank, size, send: items, receive: items, in_place: false };
                match (self.chosen(), collective.algorithm) {
                    (Some(chosen), _) => chosen.alltoall(&arguments),
                    (_, 1) => core::alltoall_with(&arguments, AlltoallAlgorithm::Bruck),
                    (_, 2) => core::alltoall_with(&arguments, AlltoallAlgorithm::Exchange { outstanding: 1 }),
                    (_, _) => core::alltoall(&arguments),
                }
            }
            Kind::Alltoallv => core::alltoallv(&core::Alltoallv {
                rank,
                size,
                send: Blocks { counts: &out_counts, displacements: &out_bytes, item_size: ITEM as u64 },
                receive: Blocks { counts: &in_counts, displacements: &in_bytes, item_size: ITEM as u64 },
                in_place: false,
            }),
            _ => core::alltoallw(&core::Alltoallw {
                rank,
                size,
                send: TypedBlocks { counts: &out_counts, displacements: &out_bytes, item_sizes: &sizes },
                receive: TypedBlocks { counts: &in_counts, displacements: &in_bytes, item_sizes: &sizes },
                in_place: false,
            }),
        };
        let send = (0..size).map(|to| (out_places[to as usize], self.items(rank, to, out_counts[to as usize])));
        let expected =
            (0..size).map(|from| (in_places[from as usize], self.items(from, rank, in_counts[from as usize])));
        let (send, expected) = (send.collect(), Some(expected.collect()));
        Plan { schedule, send_items, receive_items, send, expected }
    }

    fn reduction(&self) -> Plan {
        let Self { collective, rank, size, ref counts, .. } = *self;
        let (root, count, shape) = (collective.root as u32, collective.count, self.shape());
        let items = Items { count, shape };
        let all = core::Allreduce { rank, size, items, commutative: true, in_place: false };
        let whole = vec![(0, self.reduced(0..size, count))];
        let (mut total, mut receive_items) = (count, count);
        let (schedule, expected) = match collective.kind {
            Kind::Reduce => {
                let arguments = core::Reduce { rank, size, root, items, commutative: true, in_place: false };
                let tree = |(tree, segment_bytes)| ReduceAlgorithm::Tree { tree, segment_bytes };
                let algorithms = TREES.map(tree).into_iter().chain([ReduceAlgorithm::Halving]);
                let schedule = match (self.chosen(), self.asked(algorithms)) {
                    (Some(chosen), _) => chosen.reduce(&arguments),
                    (_, Some(algorithm)) => core::reduce_with(&arguments, algorithm),
                    (_, None) => core::reduce(&arguments),
                };
                if rank != root {
                    receive_items = 0;
                }
                (schedule, Some(if rank == root { whole } else { Vec::new() }))
            }
            Kind::Allreduce => {
                let tree = |(tree, segment_bytes)| AllreduceAlgorithm::Tree { tree, segment_bytes };
                let others = [
                    AllreduceAlgorithm::Doubling,
                    AllreduceAlgorithm::Halving,
                    AllreduceAlgorithm::Ring,
                    AllreduceAlgorithm::Multiplying { radix: 3 },
                ];
                let schedule = match (self.chosen(), self.asked(TREES.map(tree).into_iter().chain(others))) {
                    (Some(chosen), _) => chosen.allreduce(&all),
                    (_, Some(algorithm)) => core::allreduce_with(&all, algorithm),
                    (_, None) => core::allreduce(&all),
                };
                (schedule, Some(whole))
            }
            Kind::ReduceScatter | Kind::ReduceScatterBlock => {
                let equal = vec![count; size as usize];
                let counts = if collective.kind == Kind::ReduceScatter { counts } else { &equal };
                total = counts.iter().sum();
                receive_items = counts[rank as usize];
                let first: u64 = counts[..rank as usize].iter().sum();
                let reduced = self.reduced(0..size, total);
                let own = reduced[first as usize * ITEM..(first + receive_items) as usize * ITEM].to_vec();
                let algorithm = [ReduceScatterAlgorithm::Halving, ReduceScatterAlgorithm::Pairwise]
                    [usize::from(collective.algorithm) % 2];
                let schedule = if collective.kind == Kind::ReduceScatter {
                    let arguments =
                        core::ReduceScatter { rank, size, counts, shape, commutative: true, in_place: false };
                    match (self.chosen(), collective.algorithm) {
                        (Some(chosen), _) => chosen.reduce_scatter(&arguments),
                        (_, 0) => core::reduce_scatter(&arguments),
                        (_, _) => core::reduce_scatter_with(&arguments, algorithm),
                    }
                } else {
                    let arguments = core::ReduceScatterBlock { rank, size, items, commutative: true, in_place: false };
                    match (self.chosen(), collective.algorithm) {
                        (Some(chosen), _) => chosen.reduce_scatter_block(&arguments),
                        (_, 0) => core::reduce_scatter_block(&arguments),
                        (_, _) => core::reduce_scatter_block_with(&arguments, algorithm),
                    }
                };
                (schedule, Some(vec![(0, own)]))
            }
            kind => {
                let algorithm = [ScanAlgorithm::Doubling, ScanAlgorithm::Chain { segment_bytes: 3000 }]
                    [usize::from(collective.algorithm) % 2];
                let exclusive = kind == Kind::Exscan;
                let schedule = match (exclusive, collective.algorithm) {
                    (false, 0) => core::scan(&all),
                    (false, _) => core::scan_with(&all, algorithm),
                    (true, 0) => core::exscan(&all),
                    (true, _) => core::exscan_with(&all, algorithm),
                };
                let end = if exclusive { rank } else { rank + 1 };
                // At rank 0 an exclusive scan leaves the buffer undefined (MPI-5.0 §6.11.2).
                let expected = (end > 0).then(|| vec![(0, self.reduced(0..end, count))]);
                (schedule, expected)
            }
        };
        Plan { schedule, send_items: total, receive_items, send: vec![(0, self.items(rank, 0, total))], expected }
    }
}
