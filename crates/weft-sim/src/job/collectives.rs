//! Collective operations of a simulated process: buffers, schedules, and what must be in the buffers afterwards, by the definition of each
//! operation (MPI-5.0 §6).

use super::construct::{self, Carriers, SimEngine};
use super::process::{Checked, Proc};
use super::program::{Collective, Kind, Step};
use super::shape::content;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, LazyLock};
use weft_core::collective::choice::{Choices, Layout as Places, Multicast, Operation as Chooses, Table};
use weft_core::collective::select::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BarrierAlgorithm, BcastAlgorithm, GatherAlgorithm,
    ReduceAlgorithm, ReduceScatterAlgorithm, ScanAlgorithm, Tree, WHOLE,
};
use weft_core::collective::{self as core, Blocks, Chosen, ElementShape, Items, Schedule, TypedBlocks};
use weft_core::layout::{Element, Layout};
use weft_core::reduce::Op;
use weft_engine::arguments::{Arguments, CollectiveScope, Datatype, Operation, SharedDatatype};
use weft_engine::group::Group;
use weft_engine::memory::{Address, Bound, Scratch, SharedBuffer};
use weft_engine::request::State;
use weft_engine::schedules::{Cursor, Progress};

/// Packed bytes of an item.
const ITEM: usize = 8;
/// Bytes around what may be touched.
const GUARD: usize = 64;

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

/// The datatype of items: eight bytes, or eight bytes in two parts.
struct Item {
    layout: Layout,
    element: Option<Element>,
    handle: AtomicUsize,
}

impl Datatype for Item {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn element(&self) -> Option<Element> {
        self.element
    }

    fn handle(&self) -> &AtomicUsize {
        &self.handle
    }
}

/// Where the parts of an item are, and the bytes from one to the next.
fn parts(strided: bool) -> (&'static [(usize, usize)], usize) {
    if strided { (&[(1, 3), (6, 5)], 16) } else { (&[(0, ITEM)], ITEM) }
}

fn item(strided: bool) -> SharedDatatype {
    let (layout, element) = if strided {
        let byte = Layout::element(Element::UInt8);
        let blocks: Vec<(i64, u64)> = parts(true).0.iter().map(|(at, length)| (*at as i64, *length as u64)).collect();
        let parts = Layout::indexed(&blocks, &byte).expect("two small blocks can be described");
        (Layout::resized(&parts, 0, 16).expect("16 bytes are no overflow"), None)
    } else {
        (Layout::element(Element::Int64), Some(Element::Int64))
    };
    Arc::new(Item { layout, element, handle: AtomicUsize::new(0) })
}

fn shape(layout: &Layout) -> ElementShape {
    ElementShape {
        extent: layout.extent(),
        true_lb: layout.true_lb(),
        true_extent: layout.true_extent(),
        size: layout.size(),
        contiguous: layout.is_contiguous(2),
    }
}

/// Items in memory, and what lies around them.
struct Array {
    buffer: SharedBuffer,
    strided: bool,
    background: u64,
}

impl Array {
    fn new(items: u64, strided: bool, background: u64) -> Self {
        let buffer = SharedBuffer::new(items as usize * parts(strided).1 + 2 * GUARD);
        buffer.write(0, content(background, buffer.len()));
        Self { buffer, strided, background }
    }

    /// Packed items, from number `first` on.
    fn put(&self, first: u64, packed: &[u8]) {
        let (parts, extent) = parts(self.strided);
        for (at, item) in packed.chunks(ITEM).enumerate() {
            let base = GUARD + (first as usize + at) * extent;
            let mut from = 0;
            for (offset, length) in parts {
                self.buffer.write(base + offset, &item[from..from + length]);
                from += length;
            }
        }
    }

    fn address(&self) -> Address {
        self.buffer.address(GUARD)
    }

    /// Whether there is nothing but these items and the background.
    fn check(&self, items: &[(u64, Vec<u8>)]) -> Checked<()> {
        let length = self.buffer.len();
        let expected = Self { buffer: SharedBuffer::new(length), strided: self.strided, background: self.background };
        expected.buffer.write(0, content(self.background, length));
        items.iter().for_each(|(first, packed)| expected.put(*first, packed));
        let (mut found, mut wanted) = (vec![0; length], vec![0; length]);
        self.buffer.read(0, &mut found);
        expected.buffer.read(0, &mut wanted);
        if found == wanted {
            return Ok(());
        }
        let differ: Vec<usize> = (0..length).filter(|at| found[*at] != wanted[*at]).collect();
        let (first, last) = (differ[0] as i64 - GUARD as i64, differ[differ.len() - 1] as i64 - GUARD as i64);
        Err(format!("{} bytes at {first} to {last} are wrong", differ.len()))
    }
}

/// A collective under way.
pub(super) struct Running {
    id: u32,
    collective: Collective,
    request: usize,
    cursor: Cursor,
    outcome: Option<Result<(), String>>,
    send: Array,
    receive: Array,
    sent: Vec<(u64, Vec<u8>)>,
    /// What the receive buffer holds in the end; `None`: that is not said.
    expected: Option<Vec<(u64, Vec<u8>)>>,
}

impl Running {
    /// Goes as far as it can.
    pub(super) fn advance(&mut self, engine: &mut SimEngine) {
        if self.outcome.is_some() {
            return;
        }
        self.outcome = match self.cursor.advance(engine) {
            Progress::Waits => return,
            Progress::Complete => Some(Ok(())),
            Progress::Failed(error) => Some(Err(error.to_string())),
        };
        engine.messages.complete(self.request);
    }
}

/// A collective as one process sees it.
struct View {
    /// Where the processes are, if broadcasts between nodes are multicast.
    multicast: Option<Places>,
    collective: Collective,
    rank: u32,
    size: u32,
    counts: Vec<u64>,
}

/// What is to be done, with what, and what must come of it.
struct Plan {
    schedule: Schedule,
    send_items: u64,
    receive_items: u64,
    send: Vec<(u64, Vec<u8>)>,
    expected: Option<Vec<(u64, Vec<u8>)>>,
}

impl View {
    fn new(collective: Collective, rank: u32, size: u32, multicast: Option<Places>) -> Self {
        // Different for each rank, some of them nothing.
        let count = |rank: u64| (collective.count + 5 * rank) % (collective.count + 3);
        Self { multicast, collective, rank, size, counts: (0..u64::from(size)).map(count).collect() }
    }

    /// What `from` has for `to`, `count` items of it.
    fn items(&self, from: u32, to: u32, count: u64) -> Vec<u8> {
        let name = u64::from(self.collective.id) << 16 | u64::from(from) << 8 | u64::from(to);
        content(name ^ 1 << 59, count as usize * ITEM).to_vec()
    }

    /// What plans operations that are multicast wherever they can be: three of four, where the network has groups.
    fn multicast(&self) -> Option<Chosen<'_>> {
        static CHOICES: LazyLock<Choices> = LazyLock::new(|| {
            let operations = [Chooses::Barrier, Chooses::Bcast, Chooses::Allreduce, Chooses::Allgather];
            let asked =
                operations.map(|operation| (operation, operation.parse("multicast").expect("all of them have it")));
            Choices::new(asked.to_vec(), Table::default())
        });
        let layout = self.multicast.as_ref().filter(|_| self.collective.algorithm % 4 != 3)?;
        Some(Chosen { choices: &CHOICES, layout })
    }

    fn op(&self) -> Op {
        [Op::Sum, Op::Max, Op::BXor, Op::BAnd][self.collective.id as usize % 4]
    }

    /// The reduction of what `ranks` contribute, by its definition.
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

    /// Where blocks of these lengths lie: the last first, with an item between them.
    fn places(&self) -> Vec<u64> {
        let mut places = vec![0; self.counts.len()];
        let mut at = 1;
        for rank in (0..self.counts.len()).rev() {
            places[rank] = at;
            at += self.counts[rank] + 1;
        }
        places
    }

    fn plan(&self) -> Plan {
        match self.collective.kind {
            Kind::Barrier | Kind::Bcast | Kind::Gather | Kind::Gatherv | Kind::Scatter | Kind::Scatterv => {
                self.rooted()
            }
            Kind::Allgather | Kind::Allgatherv => self.allgather(),
            Kind::Alltoall | Kind::Alltoallv | Kind::Alltoallw => self.alltoall(),
            _ => self.reduction(),
        }
    }

    /// The algorithm that the program asks for; none for the one that is chosen by default.
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
        self.places().iter().map(|place| *place as i64 * extent).collect()
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
        let each = |count: &dyn Fn(u32) -> u64, place: &dyn Fn(u32) -> u64, name: &dyn Fn(u32) -> (u32, u32)| {
            let block = |other: u32| (place(other), self.items(name(other).0, name(other).1, count(other)));
            (0..size).map(block).collect::<Vec<_>>()
        };
        let (places, equal) = (self.places(), |other: u32| u64::from(other) * count);
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
                let schedule = match (self.multicast(), self.asked(trees)) {
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
                let schedule = match (self.multicast(), self.asked(algorithms)) {
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
                let place = |from: u32| places[from as usize];
                let expected = if at_root { each(&count, &place, &|from| (from, 0)) } else { Vec::new() };
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
                let place = |to: u32| places[to as usize];
                let send = if at_root { each(&count, &place, &|to| (root, to)) } else { Vec::new() };
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
            let schedule = match (self.multicast(), algorithm) {
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
        let (own, places, displacements) = (counts[rank as usize], self.places(), self.displacements());
        let receive = Blocks { counts, displacements: &displacements, item_size: ITEM as u64 };
        let arguments = core::Allgatherv { rank, size, send: Items { count: own, shape }, receive, in_place: false };
        let schedule = match (self.multicast(), algorithm) {
            (Some(chosen), _) => chosen.allgatherv(&arguments),
            (_, None) => core::allgatherv(&arguments),
            (_, Some(algorithm)) => core::allgatherv_with(&arguments, algorithm),
        };
        let block = |from: u32| (places[from as usize], self.items(from, 0, counts[from as usize]));
        let receive_items = counts.iter().sum::<u64>() + u64::from(size) + 1;
        let send = vec![(0, self.items(rank, 0, own))];
        Plan { schedule, send_items: own, receive_items, send, expected: Some((0..size).map(block).collect()) }
    }

    /// Items from one rank to another, where they differ.
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
            let mut place = |count: &u64| {
                at += count + gap;
                at - count - gap
            };
            let places = counts.iter().map(&mut place).collect();
            (counts, places, at)
        };
        let (out_counts, out_places, send_items) = sums(&|to| self.between(rank, to));
        let (in_counts, in_places, receive_items) = sums(&|from| self.between(from, rank));
        let bytes = |places: &[u64]| -> Vec<i64> { places.iter().map(|place| *place as i64 * extent).collect() };
        let (out_bytes, in_bytes) = (bytes(&out_places), bytes(&in_places));
        let sizes = vec![ITEM as u64; size as usize];
        let schedule = match collective.kind {
            Kind::Alltoall => {
                let items = Items { count: collective.count, shape: self.shape() };
                let arguments = core::Allgather { rank, size, send: items, receive: items, in_place: false };
                match collective.algorithm {
                    1 => core::alltoall_with(&arguments, AlltoallAlgorithm::Bruck),
                    2 => core::alltoall_with(&arguments, AlltoallAlgorithm::Exchange { outstanding: 1 }),
                    _ => core::alltoall(&arguments),
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
                let schedule = match self.asked(algorithms) {
                    Some(algorithm) => core::reduce_with(&arguments, algorithm),
                    None => core::reduce(&arguments),
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
                let schedule = match (self.multicast(), self.asked(TREES.map(tree).into_iter().chain(others))) {
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
                    match collective.algorithm {
                        0 => core::reduce_scatter(&arguments),
                        _ => core::reduce_scatter_with(&arguments, algorithm),
                    }
                } else {
                    let arguments = core::ReduceScatterBlock { rank, size, items, commutative: true, in_place: false };
                    match collective.algorithm {
                        0 => core::reduce_scatter_block(&arguments),
                        _ => core::reduce_scatter_block_with(&arguments, algorithm),
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

impl Proc {
    /// Begins a collective.
    pub(super) fn start_collective(&mut self, role: usize, step: &Step, collective: &Collective) -> Checked<()> {
        let members: Vec<_> = self.comms[role][step.comm].members.iter().map(|member| self.peer(*member)).collect();
        let part = collective.part.map(|part| part.ranks());
        let members = match &part {
            Some(ranks) => ranks.iter().map(|rank| members[*rank as usize]).collect(),
            None => members,
        };
        let group = Group::new(members, self.peer(self.rank));
        let Some(rank) = group.rank else { return Err("a collective of others".into()) };
        let reduces = !matches!(
            collective.kind,
            Kind::Barrier
                | Kind::Bcast
                | Kind::Gather
                | Kind::Gatherv
                | Kind::Scatter
                | Kind::Scatterv
                | Kind::Allgather
                | Kind::Allgatherv
                | Kind::Alltoall
                | Kind::Alltoallv
                | Kind::Alltoallw
        );
        // A predefined operation has a predefined datatype.
        let collective = Collective { strided: collective.strided && !reduces, ..*collective };
        let multicast = self.multicast_nodes.as_ref().filter(|_| part.is_none()).and_then(|nodes| {
            let nodes = construct::members(nodes, &self.comms[role][step.comm].members);
            let is_apart = nodes.iter().any(|node| *node > 0);
            is_apart.then(|| Places::of(nodes).with_multicast(Multicast::Asked))
        });
        let view = View::new(collective, rank, group.size(), multicast);
        let plan = view.plan();
        let send = Array::new(plan.send_items, collective.strided, u64::from(collective.id) | 1 << 58);
        let receive = Array::new(plan.receive_items, collective.strided, u64::from(collective.id) | 1 << 57);
        plan.send.iter().for_each(|(first, packed)| send.put(*first, packed));
        if collective.kind == Kind::Bcast && rank as usize == collective.root {
            plan.expected.iter().flatten().for_each(|(first, packed)| receive.put(*first, packed));
        }
        let scratch = SharedBuffer::new(plan.schedule.scratch as usize);
        for buffer in [&send.buffer, &receive.buffer, &scratch] {
            self.memory.register(Carriers::pid(self.rank), buffer);
        }
        let of = item(collective.strided);
        let arguments = Arguments {
            send: send.address(),
            receive: receive.address(),
            send_type: Some(of.clone()),
            receive_type: Some(of.clone()),
            send_types: vec![of.clone(); group.members.len()],
            receive_types: vec![of; group.members.len()],
            operation: Some(Operation::Predefined(view.op())),
        };
        let place = CollectiveScope {
            communicator: 0,
            context: step.context + 1,
            // Whole communicators have the other tags.
            tag: if part.is_some() { 0 } else { collective.id as i32 },
            group,
            rank,
            sources: part.map(Arc::from),
            turn: None,
        };
        let request = self.engine.messages.add(State::Collective, 0).map_err(|error| error.to_string())?;
        let cursor = {
            let bound = Arc::new(Bound::shared(plan.schedule, arguments));
            Cursor::in_scratch(place, bound, Scratch::shared(scratch))
        };
        *self.entered.borrow_mut().entry(collective.id).or_default() += 1;
        let mut running = Running {
            id: collective.id,
            collective,
            request,
            cursor,
            outcome: None,
            send,
            receive,
            sent: plan.send,
            expected: plan.expected,
        };
        running.advance(&mut self.engine);
        self.running.push(running);
        Ok(())
    }

    /// Whether a collective is complete; it is checked then.
    pub(super) fn end_collective(&mut self, id: u32) -> Checked<bool> {
        let Some(at) = self.running.iter().position(|running| running.id == id) else {
            return Err(format!("collective {id} is gone"));
        };
        if self.running[at].outcome.is_none() {
            return Ok(false);
        }
        let Running { collective, request, cursor, outcome, send, receive, sent, expected, .. } =
            self.running.remove(at);
        self.engine.messages.forget(request);
        let size = cursor.place().group.size() as usize;
        cursor.abandon(&mut self.engine);
        let wrong = |what: String| format!("{collective:?}: {what}");
        if let Some(Err(error)) = outcome {
            return Err(wrong(error));
        }
        if collective.kind == Kind::Barrier && self.entered.borrow().get(&id) != Some(&size) {
            return Err(wrong("one has left before all have entered".into()));
        }
        send.check(&sent).map_err(|what| wrong(format!("the send buffer: {what}")))?;
        if let Some(expected) = expected {
            receive.check(&expected).map_err(|what| wrong(format!("the receive buffer: {what}")))?;
        }
        Ok(true)
    }
}
