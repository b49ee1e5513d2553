//! Which algorithm is used when: a table of rules, and pure functions that look into it. The algorithms themselves know nothing of this choice.
//!
//! The choice depends only on numbers that every rank of the operation has, so all of them choose the same. The table that is built in
//! (`choice.table`) says how one is written.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::select::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BarrierAlgorithm, BcastAlgorithm, GatherAlgorithm,
    ReduceAlgorithm, ReduceScatterAlgorithm, ScanAlgorithm, Tree, WHOLE,
};
use super::shared::{CUT_MAX, SEGMENT_BYTES};
use crate::multicast::MESSAGE_BYTES_MAX;

/// The table that is built in.
pub const BUILT_IN: &str = include_str!("choice.table");

/// Most rules of a table, and most conditions of a rule: one that is read from a file stays small.
const RULES_MAX: usize = 1000;
const CONDITIONS_MAX: usize = 16;

/// What can be chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`.
    Bcast,
    /// `MPI_Gather`.
    Gather,
    /// `MPI_Scatter`.
    Scatter,
    /// `MPI_Allgather` and `MPI_Allgatherv`.
    Allgather,
    /// `MPI_Alltoall`.
    Alltoall,
    /// `MPI_Reduce`.
    Reduce,
    /// `MPI_Allreduce`.
    Allreduce,
    /// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`.
    ReduceScatter,
    /// `MPI_Scan` and `MPI_Exscan`.
    Scan,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Barrier,
        Self::Bcast,
        Self::Gather,
        Self::Scatter,
        Self::Allgather,
        Self::Alltoall,
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatter,
        Self::Scan,
    ];

    /// Its name in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Allgather => "allgather",
            Self::Alltoall => "alltoall",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::Scan => "scan",
        }
    }

    /// The algorithms that it has, as a table names them: K is a number, S a segment's bytes.
    pub const fn algorithms(self) -> &'static str {
        match self {
            Self::Barrier => {
                "dissemination, binomial, k-nomial:K, k-ary:K, chain, linear, shared, multicast or two-level"
            }
            Self::Bcast => {
                "binomial, k-nomial:K, k-ary:K, chain, linear or double-tree, each with /S; scatter-dissemination, scatter-ring, shared, single-copy, multicast or two-level"
            }
            Self::Reduce => {
                "binomial, k-nomial:K, k-ary:K, chain, linear or double-tree, each with /S; halving, shared, single-copy or two-level"
            }
            Self::Allreduce => {
                "doubling, multiplying:K, halving, ring, shared, shared-shares, single-copy, multicast or two-level:K; binomial, k-nomial:K, k-ary:K, chain, linear or double-tree, each with /S"
            }
            Self::Gather | Self::Scatter => "linear, binomial or k-nomial:K",
            Self::Allgather => {
                "dissemination, doubling, ring, neighbour-exchange, linear, shared, single-copy, multicast or two-level"
            }
            Self::Alltoall => "bruck, pairwise:K, shared or single-copy",
            Self::ReduceScatter => "halving, pairwise or single-copy",
            Self::Scan => "doubling or chain/S",
        }
    }

    /// The algorithms worth comparing, of all that [`Self::algorithms`] allows. One that is not possible in some place is no other there than what
    /// the table chooses.
    pub const fn candidates(self) -> &'static [&'static str] {
        match self {
            Self::Barrier => &["dissemination", "binomial", "k-nomial:4", "linear", "two-level", "shared"],
            Self::Bcast => &[
                "binomial",
                "k-nomial:4",
                "k-nomial:8",
                "linear",
                "chain/16K",
                "chain/64K",
                "k-ary:2/16K",
                "double-tree/16K",
                "double-tree/64K",
                "scatter-dissemination",
                "scatter-ring",
                "two-level",
                "shared",
                "single-copy",
            ],
            Self::Reduce => &[
                "binomial",
                "k-nomial:4",
                "linear",
                "chain/16K",
                "chain/64K",
                "double-tree/16K",
                "double-tree/64K",
                "halving",
                "two-level",
                "shared",
                "single-copy",
            ],
            Self::Allreduce => &[
                "doubling",
                "multiplying:4",
                "multiplying:8",
                "halving",
                "ring",
                "linear",
                "binomial",
                "chain/64K",
                "double-tree/16K",
                "double-tree/64K",
                "two-level",
                "two-level:2",
                "two-level:4",
                "shared",
                "shared-shares",
                "single-copy",
            ],
            Self::Gather | Self::Scatter => &["linear", "binomial", "k-nomial:4", "k-nomial:8"],
            Self::Allgather => &[
                "dissemination",
                "doubling",
                "ring",
                "neighbour-exchange",
                "linear",
                "two-level",
                "shared",
                "single-copy",
            ],
            Self::Alltoall => &["bruck", "pairwise:1", "pairwise:4", "pairwise:32", "shared", "single-copy"],
            Self::ReduceScatter => &["halving", "pairwise", "single-copy"],
            Self::Scan => &["doubling", "chain/16K", "chain/64K"],
        }
    }

    /// Whether it combines operands.
    const fn is_reduction(self) -> bool {
        matches!(self, Self::Reduce | Self::Allreduce | Self::ReduceScatter | Self::Scan)
    }

    /// The algorithm of a name.
    ///
    /// # Errors
    /// There is none of it: a sentence.
    pub fn parse(self, name: &str) -> Result<Algorithm, String> {
        let found = Written::parse(name).and_then(|written| self.of(written));
        found.ok_or_else(|| format!("there is no algorithm {name} of {}: it may be {}", self.name(), self.algorithms()))
    }

    fn of(self, written: Written<'_>) -> Option<Algorithm> {
        if let ("two-level", None) = (written.name, written.segment) {
            return match (self, written.number) {
                (Self::Barrier | Self::Bcast | Self::Reduce | Self::Allreduce | Self::Allgather, None) => {
                    Some(Algorithm::TwoLevel { leaders: 1 })
                }
                (Self::Allreduce, Some(leaders @ 1..=64)) => Some(Algorithm::TwoLevel { leaders }),
                _ => None,
            };
        }
        let plain = (written.number.is_none() && written.segment.is_none()).then_some(written.name);
        Some(match self {
            Self::Barrier => Algorithm::Barrier(match plain {
                Some("shared") => BarrierAlgorithm::Shared,
                Some("dissemination") => BarrierAlgorithm::Dissemination,
                Some("multicast") => BarrierAlgorithm::Multicast,
                _ if written.segment.is_none() => {
                    BarrierAlgorithm::Tree(written.tree().filter(|tree| *tree != Tree::DoubleBinary)?)
                }
                _ => return None,
            }),
            Self::Bcast => Algorithm::Bcast(match plain {
                Some("shared") => BcastAlgorithm::Shared,
                Some("single-copy") => BcastAlgorithm::SingleCopy,
                Some("scatter-dissemination") => BcastAlgorithm::ScatterDissemination,
                Some("scatter-ring") => BcastAlgorithm::ScatterRing,
                Some("multicast") => BcastAlgorithm::Multicast,
                _ => BcastAlgorithm::Tree { tree: written.tree()?, segment_bytes: written.segment_bytes() },
            }),
            Self::Reduce => Algorithm::Reduce(match plain {
                Some("shared") => ReduceAlgorithm::Shared,
                Some("single-copy") => ReduceAlgorithm::SingleCopy,
                Some("halving") => ReduceAlgorithm::Halving,
                _ => ReduceAlgorithm::Tree { tree: written.tree()?, segment_bytes: written.segment_bytes() },
            }),
            Self::Allreduce => Algorithm::Allreduce(match (plain, written.name, written.number) {
                (Some("shared"), ..) => AllreduceAlgorithm::Shared,
                (Some("single-copy"), ..) => AllreduceAlgorithm::SingleCopy,
                (Some("shared-shares"), ..) => AllreduceAlgorithm::SharedShares,
                (Some("doubling"), ..) => AllreduceAlgorithm::Doubling,
                (Some("multicast"), ..) => AllreduceAlgorithm::Multicast,
                (Some("halving"), ..) => AllreduceAlgorithm::Halving,
                (Some("ring"), ..) => AllreduceAlgorithm::Ring,
                (_, "multiplying", Some(radix @ 2..=64)) if written.segment.is_none() => {
                    AllreduceAlgorithm::Multiplying { radix }
                }
                _ => AllreduceAlgorithm::Tree { tree: written.tree()?, segment_bytes: written.segment_bytes() },
            }),
            Self::Gather | Self::Scatter => Algorithm::Gather(match (written.segment, written.tree()?) {
                (None, Tree::KNomial { radix }) => GatherAlgorithm::Tree { radix },
                (None, Tree::Linear) => GatherAlgorithm::Linear,
                _ => return None,
            }),
            Self::Allgather => Algorithm::Allgather(match plain? {
                "shared" => AllgatherAlgorithm::Shared,
                "single-copy" => AllgatherAlgorithm::SingleCopy,
                "dissemination" => AllgatherAlgorithm::Dissemination,
                "doubling" => AllgatherAlgorithm::Doubling,
                "ring" => AllgatherAlgorithm::Ring,
                "neighbour-exchange" => AllgatherAlgorithm::NeighbourExchange,
                "linear" => AllgatherAlgorithm::Linear,
                "multicast" => AllgatherAlgorithm::Multicast,
                _ => return None,
            }),
            Self::Alltoall => Algorithm::Alltoall(match (plain, written.name, written.number) {
                (Some("shared"), ..) => AlltoallAlgorithm::Shared,
                (Some("single-copy"), ..) => AlltoallAlgorithm::SingleCopy,
                (Some("bruck"), ..) => AlltoallAlgorithm::Bruck,
                (_, "pairwise", Some(outstanding @ 1..=1024)) if written.segment.is_none() => {
                    AlltoallAlgorithm::Exchange { outstanding: outstanding as usize }
                }
                _ => return None,
            }),
            Self::ReduceScatter => Algorithm::ReduceScatter(match plain? {
                "halving" => ReduceScatterAlgorithm::Halving,
                "pairwise" => ReduceScatterAlgorithm::Pairwise,
                "single-copy" => ReduceScatterAlgorithm::SingleCopy,
                _ => return None,
            }),
            Self::Scan => Algorithm::Scan(match (plain, written.name, written.number, written.segment) {
                (Some("doubling"), ..) => ScanAlgorithm::Doubling,
                (_, "chain", None, Some(segment_bytes)) => ScanAlgorithm::Chain { segment_bytes },
                _ => return None,
            }),
        })
    }
}

/// An algorithm as it is written: `name:number/segment`.
struct Written<'a> {
    name: &'a str,
    number: Option<u32>,
    segment: Option<u64>,
}

impl<'a> Written<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (text, segment) = match text.split_once('/') {
            Some((before, segment)) => (before, Some(size(segment).filter(|&bytes| bytes > 0)?)),
            None => (text, None),
        };
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number.parse().ok()?)),
            None => (text, None),
        };
        Some(Self { name, number, segment })
    }

    fn tree(&self) -> Option<Tree> {
        Some(match (self.name, self.number) {
            ("binomial", None) => Tree::BINOMIAL,
            ("linear", None) => Tree::Linear,
            ("chain", None) => Tree::Chain,
            ("double-tree", None) => Tree::DoubleBinary,
            ("k-nomial", Some(radix @ 2..=1024)) => Tree::KNomial { radix },
            ("k-ary", Some(arity @ 1..=1024)) => Tree::KAry { arity },
            _ => return None,
        })
    }

    fn segment_bytes(&self) -> u64 {
        self.segment.unwrap_or(WHOLE)
    }
}

/// A number, with K or M behind it.
fn size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u64>().ok()?.checked_mul(unit))?
}

/// An algorithm of some operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is that of its operation")]
pub enum Algorithm {
    Barrier(BarrierAlgorithm),
    Bcast(BcastAlgorithm),
    Gather(GatherAlgorithm),
    Allgather(AllgatherAlgorithm),
    Alltoall(AlltoallAlgorithm),
    Reduce(ReduceAlgorithm),
    Allreduce(AllreduceAlgorithm),
    ReduceScatter(ReduceScatterAlgorithm),
    Scan(ScanAlgorithm),
    /// Within each node, and between so many ranks of each, by what is chosen for a group within a node and for one of a rank on each.
    TwoLevel {
        leaders: u32,
    },
}

impl Algorithm {
    /// Whether it can be run in such a case.
    fn is_possible(self, operation: Operation, facts: &Facts) -> bool {
        let in_order = facts.commutative || !self.needs_commuting();
        if self.is_shared() {
            let published = published_bytes(operation, self, facts.ranks, facts.bytes);
            return published.zip(facts.place.published_max).is_some_and(|(bytes, max)| bytes <= max);
        }
        let place = &facts.place;
        if self.is_single_copy() {
            return place.copies;
        }
        if self.is_multicast() {
            // Between nodes with several ranks it is one of two levels.
            let is_carried = match place.multicast {
                Multicast::No => false,
                Multicast::Others => operation != Operation::Bcast,
                Multicast::Possible | Multicast::Asked => true,
            };
            // A block is multicast as one message.
            let is_short = operation != Operation::Allgather || facts.bytes <= MESSAGE_BYTES_MAX;
            return is_carried && is_short && place.per_node == 1;
        }
        let Self::TwoLevel { .. } = self else { return in_order };
        in_order
            && place.nodes > 1
            && place.per_node > 1
            && (facts.commutative || !operation.is_reduction())
            && (place.consecutive || operation != Operation::Allgather)
    }

    /// Whether it changes the order of operands.
    fn needs_commuting(self) -> bool {
        let reorders = |tree: Tree| !tree.is_ordered();
        match self {
            Self::Reduce(ReduceAlgorithm::Tree { tree, .. })
            | Self::Allreduce(AllreduceAlgorithm::Tree { tree, .. }) => reorders(tree),
            Self::Allreduce(AllreduceAlgorithm::Ring | AllreduceAlgorithm::Multiplying { .. }) => true,
            _ => false,
        }
    }

    /// Whether it is multicast to other nodes.
    pub(super) fn is_multicast(self) -> bool {
        matches!(
            self,
            Self::Barrier(BarrierAlgorithm::Multicast)
                | Self::Bcast(BcastAlgorithm::Multicast)
                | Self::Allreduce(AllreduceAlgorithm::Multicast)
                | Self::Allgather(AllgatherAlgorithm::Multicast)
        )
    }

    /// Whether ranks copy from each other's memory.
    fn is_single_copy(self) -> bool {
        matches!(
            self,
            Self::Bcast(BcastAlgorithm::SingleCopy)
                | Self::Reduce(ReduceAlgorithm::SingleCopy)
                | Self::Allreduce(AllreduceAlgorithm::SingleCopy)
                | Self::Allgather(AllgatherAlgorithm::SingleCopy)
                | Self::Alltoall(AlltoallAlgorithm::SingleCopy)
                | Self::ReduceScatter(ReduceScatterAlgorithm::SingleCopy)
        )
    }

    /// Whether it goes through memory that the ranks share.
    fn is_shared(self) -> bool {
        matches!(
            self,
            Self::Barrier(BarrierAlgorithm::Shared)
                | Self::Bcast(BcastAlgorithm::Shared)
                | Self::Reduce(ReduceAlgorithm::Shared)
                | Self::Allreduce(AllreduceAlgorithm::Shared | AllreduceAlgorithm::SharedShares)
                | Self::Allgather(AllgatherAlgorithm::Shared)
                | Self::Alltoall(AlltoallAlgorithm::Shared)
        )
    }
}

/// Bytes that one rank publishes at once in an operation of `ranks` ranks, if it is done through shared memory; `bytes` as the table of choices
/// counts them. `None`: it cannot be done so.
fn published_bytes(operation: Operation, algorithm: Algorithm, ranks: u32, bytes: u64) -> Option<u64> {
    let is_cut = operation == Operation::Bcast || algorithm == Algorithm::Allreduce(AllreduceAlgorithm::SharedShares);
    match operation {
        Operation::Barrier => Some(0),
        _ if is_cut => (bytes <= CUT_MAX).then_some(bytes.min(SEGMENT_BYTES)),
        Operation::Bcast | Operation::Reduce | Operation::Allreduce => Some(bytes),
        Operation::Allgather => Some(bytes.div_ceil(u64::from(ranks.max(1)))),
        Operation::Alltoall => bytes.checked_mul(u64::from(ranks)),
        Operation::Gather | Operation::Scatter | Operation::ReduceScatter | Operation::Scan => None,
    }
}

/// What a choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Processes of the group.
    pub ranks: u32,
    /// Packed bytes, see the table.
    pub bytes: u64,
    /// The reduction commutes; true where there is none.
    pub commutative: bool,
    /// Where the processes are.
    pub place: Place,
}

/// What may be multicast between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Multicast {
    /// The network does not carry it, it has not been tried, or nobody wants it.
    #[default]
    No,
    /// Other operations than the broadcast, for which a setting or a hint says otherwise.
    Others,
    /// Where the table says so.
    Possible,
    /// Broadcasts, wherever it is possible: a setting or a hint of the communicator says so. Others where the table says so.
    Asked,
}

/// Where the processes of a group are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Nodes with any of them.
    pub nodes: u32,
    /// Most of them on one node.
    pub per_node: u32,
    /// They take turns on the processors that they share.
    pub oversubscribed: bool,
    /// The ranks of each node follow each other.
    pub consecutive: bool,
    /// All of them are on one node, and each can publish so many bytes at once in memory that all of them read.
    pub published_max: Option<u64>,
    /// The same, and each may copy from the memory of the others.
    pub copies: bool,
    /// What may be multicast between their nodes.
    pub multicast: Multicast,
}

impl Place {
    /// Each of `ranks` processes on a node of its own.
    pub const fn apart(ranks: u32) -> Self {
        Self {
            nodes: ranks,
            per_node: 1,
            oversubscribed: false,
            consecutive: true,
            published_max: None,
            copies: false,
            multicast: Multicast::No,
        }
    }

    /// All of `ranks` processes on one node.
    pub const fn together(ranks: u32) -> Self {
        Self { nodes: 1, per_node: ranks, ..Self::apart(1) }
    }
}

/// Where each process of a group is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    place: Place,
    /// The node of each rank, as numbers that are equal where the node is; empty where that makes no difference.
    nodes: Arc<[u32]>,
    /// Where there are several nodes: what the ranks of this rank's node can publish, and whether they may copy from each other's memory.
    /// Other nodes know nothing of that, so only what is done within the node depends on it.
    within: (Option<u64>, bool),
    /// The cluster of each rank, by numbers from 0, where there are several of which one has several ranks; else empty.
    clusters: Arc<[u32]>,
}

impl Layout {
    /// Each of `ranks` processes on a node of its own.
    pub fn apart(ranks: u32) -> Self {
        Self { place: Place::apart(ranks), nodes: Arc::new([]), within: (None, false), clusters: Arc::new([]) }
    }

    /// Of ranks on these nodes, numbered anyhow.
    pub fn of(nodes: Vec<u32>) -> Self {
        let mut counts = BTreeMap::new();
        nodes.iter().for_each(|node| *counts.entry(*node).or_insert(0_u32) += 1);
        let changes = nodes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let place = Place {
            nodes: counts.len() as u32,
            per_node: counts.values().copied().max().unwrap_or(0),
            oversubscribed: false,
            consecutive: changes < counts.len().max(1),
            published_max: None,
            copies: false,
            multicast: Multicast::No,
        };
        let levels = place.nodes > 1 && place.per_node > 1;
        let nodes: Arc<[u32]> = if levels { nodes.into() } else { Arc::new([]) };
        Self { place, nodes, within: (None, false), clusters: Arc::new([]) }
    }

    /// The same ranks, which take turns on processors that they share, or do not.
    pub fn with_oversubscription(self, oversubscribed: bool) -> Self {
        Self { place: Place { oversubscribed, ..self.place }, ..self }
    }

    /// The same ranks, of which those of this rank's node can publish so many bytes each in memory that all of them read, if there is such memory.
    pub fn with_published_max(mut self, published_max: Option<u64>) -> Self {
        match self.place.nodes {
            1 => self.place.published_max = published_max,
            _ if self.nodes.is_empty() => {}
            _ => self.within.0 = published_max,
        }
        self
    }

    /// Whether ranks of this rank's node publish something anywhere.
    pub fn publishes(&self) -> bool {
        self.place.published_max.or(self.within.0).is_some()
    }

    /// The same ranks, of which those of this rank's node may copy from each other's memory or may not. Without memory in which they publish they
    /// cannot say where.
    pub fn with_copies(mut self, copies: bool) -> Self {
        if self.place.nodes == 1 {
            self.place.copies = copies && self.place.published_max.is_some();
        } else {
            self.within.1 = copies && self.within.0.is_some();
        }
        self
    }

    /// The same ranks in these clusters, numbered anyhow: between them a message takes much longer than within them. A node is where its first rank says.
    pub fn with_clusters(mut self, clusters: &[u32]) -> Self {
        let node = |rank: usize| match (self.nodes.get(rank), self.place.nodes) {
            (Some(node), _) => *node,
            (None, 1) => 0,
            (None, _) => rank as u32,
        };
        let (mut of_nodes, mut numbers) = (BTreeMap::new(), BTreeMap::new());
        let number = |(rank, cluster): (usize, &u32)| {
            let cluster = *of_nodes.entry(node(rank)).or_insert(*cluster);
            let next = numbers.len() as u32;
            *numbers.entry(cluster).or_insert(next)
        };
        let clusters: Vec<u32> = clusters.iter().enumerate().map(number).collect();
        let levels = numbers.len() > 1 && numbers.len() < clusters.len();
        self.clusters = if levels { clusters.into() } else { Arc::new([]) };
        self
    }

    /// The cluster of each rank, and how many there are; none if that makes no difference.
    pub fn clusters(&self) -> Option<(&[u32], u32)> {
        let last = self.clusters.iter().max()?;
        Some((&self.clusters, last + 1))
    }

    /// Some of the ranks, in this order: those of this rank's cluster. What the ranks of its node share they share here, too, since all of them are here.
    pub(super) fn part(&self, members: &[u32]) -> Self {
        let (published_max, copies) = match self.place.nodes {
            1 => (self.place.published_max, self.place.copies),
            _ => self.within,
        };
        let node = |rank: &u32| match self.place.nodes {
            1 => 0,
            _ => self.nodes.get(*rank as usize).copied().unwrap_or(*rank),
        };
        Self::of(members.iter().map(node).collect())
            .with_oversubscription(self.place.oversubscribed)
            .with_published_max(published_max)
            .with_copies(copies)
    }

    /// The place of the ranks of one node, as for a group of their own.
    pub(super) fn within(&self) -> Place {
        let (published_max, copies) = self.within;
        Place { published_max, copies, ..Place::together(1) }
    }

    /// The same ranks, between whose nodes this may be multicast.
    pub fn with_multicast(self, multicast: Multicast) -> Self {
        Self { place: Place { multicast, ..self.place }, ..self }
    }

    /// The numbers of it.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The node of each rank, where there are several nodes of which one has several ranks; else nothing.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }
}

/// What a condition looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Ranks,
    Nodes,
    RanksPerNode,
    Bytes,
    BytesPerRank,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flag {
    Commutative,
    Oversubscribed,
    PowerOfTwo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    /// From the first number to the second.
    Between(Quantity, u64, u64),
    Is(Flag, bool),
}

impl Condition {
    fn parse(text: &str) -> Option<Self> {
        let (flag, wanted) = text.strip_prefix("not-").map_or((text, true), |flag| (flag, false));
        match flag {
            "commutative" => return Some(Self::Is(Flag::Commutative, wanted)),
            "oversubscribed" => return Some(Self::Is(Flag::Oversubscribed, wanted)),
            "power-of-two" => return Some(Self::Is(Flag::PowerOfTwo, wanted)),
            _ => {}
        }
        let at = text.find(['<', '>'])?;
        let quantity = match &text[..at] {
            "ranks" => Quantity::Ranks,
            "nodes" => Quantity::Nodes,
            "ranks/node" => Quantity::RanksPerNode,
            "bytes" => Quantity::Bytes,
            "bytes/ranks" => Quantity::BytesPerRank,
            _ => return None,
        };
        let (less, rest) = (text[at..].starts_with('<'), &text[at + 1..]);
        let (or_equal, number) = rest.strip_prefix('=').map_or((false, rest), |number| (true, number));
        let number = size(number)?;
        Some(match (less, or_equal) {
            (true, true) => Self::Between(quantity, 0, number),
            (true, false) => Self::Between(quantity, 0, number.checked_sub(1)?),
            (false, true) => Self::Between(quantity, number, u64::MAX),
            (false, false) => Self::Between(quantity, number.checked_add(1)?, u64::MAX),
        })
    }

    fn holds(self, facts: &Facts) -> bool {
        match self {
            Self::Between(quantity, low, high) => {
                let number = match quantity {
                    Quantity::Ranks => facts.ranks as u64,
                    Quantity::Nodes => facts.place.nodes as u64,
                    Quantity::RanksPerNode => facts.place.per_node as u64,
                    Quantity::Bytes => facts.bytes,
                    Quantity::BytesPerRank => facts.bytes / facts.ranks.max(1) as u64,
                };
                low <= number && number <= high
            }
            Self::Is(flag, wanted) => {
                let is = match flag {
                    Flag::Commutative => facts.commutative,
                    Flag::Oversubscribed => facts.place.oversubscribed,
                    Flag::PowerOfTwo => facts.ranks.is_power_of_two(),
                };
                is == wanted
            }
        }
    }
}

/// A line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    operation: Operation,
    conditions: Vec<Condition>,
    algorithm: Algorithm,
}

impl Rule {
    /// The rule of a line; `None` for one without any.
    fn parse(line: &str) -> Result<Option<Self>, String> {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { return Ok(None) };
        let operation = Operation::ALL.into_iter().find(|operation| operation.name() == name);
        let operation = operation.ok_or_else(|| {
            let names = Operation::ALL.map(Operation::name).join(", ");
            format!("there is no operation {name}: it may be {names}")
        })?;
        let mut words: Vec<&str> = words.collect();
        let algorithm = words.pop().ok_or_else(|| format!("{name} has no algorithm"))?;
        if words.len() > CONDITIONS_MAX {
            return Err(format!("there are more than {CONDITIONS_MAX} conditions"));
        }
        let condition = |word: &&str| {
            Condition::parse(word).ok_or_else(|| format!("{word} is no condition: one is commutative, oversubscribed, power-of-two, or such as ranks>8 or bytes/ranks<=4K"))
        };
        let conditions = words.iter().map(condition).collect::<Result<_, _>>()?;
        Ok(Some(Self { operation, conditions, algorithm: operation.parse(algorithm)? }))
    }

    fn fits(&self, operation: Operation, facts: &Facts) -> bool {
        self.operation == operation
            && self.conditions.iter().all(|condition| condition.holds(facts))
            && self.algorithm.is_possible(operation, facts)
    }
}

/// Rules, of which the first that fits is taken.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rules: Vec<Rule>,
}

impl Table {
    /// The table of a text.
    ///
    /// # Errors
    /// A line that makes no sense: a sentence with its number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let rule = Rule::parse(line).map_err(|what| format!("line {}: {what}", number + 1))?;
            rules.extend(rule);
            if rules.len() > RULES_MAX {
                return Err(format!("there are more than {RULES_MAX} rules"));
            }
        }
        Ok(Self { rules })
    }

    fn choose(&self, operation: Operation, facts: &Facts) -> Option<Algorithm> {
        self.rules.iter().find(|rule| rule.fits(operation, facts)).map(|rule| rule.algorithm)
    }
}

/// Where a choice came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The algorithm is asked for.
    Forced,
    /// The user's table.
    Users,
    /// The table that is built in.
    BuiltIn,
}

/// What is asked for, the user's table, and the one that is built in: in this order.
#[derive(Clone, Debug)]
pub struct Choices {
    forced: Vec<(Operation, Algorithm)>,
    users: Table,
    built_in: Table,
    /// Reductions combine in the same order wherever ranks are.
    same_everywhere: bool,
}

impl Choices {
    /// By the built-in table alone, which is read anew for each choice.
    pub const fn without_settings() -> Self {
        Self {
            forced: Vec::new(),
            users: Table { rules: Vec::new() },
            built_in: Table { rules: Vec::new() },
            same_everywhere: false,
        }
    }

    /// With these algorithms for all cases in which they are possible, and this table for the others.
    ///
    /// # Panics
    /// The table that is built in makes no sense: a test sees to that.
    pub fn new(forced: Vec<(Operation, Algorithm)>, users: Table) -> Self {
        let built_in = Table::parse(BUILT_IN).expect("the built-in table makes sense");
        Self { forced, users, built_in, same_everywhere: false }
    }

    /// The same, but that operands of reductions are combined in an order that depends on the number of ranks only, and not on where they are
    /// (MPI-5.0 §6.9.1, advice to implementors).
    pub fn with_one_order(self, same_everywhere: bool) -> Self {
        Self { same_everywhere, ..self }
    }

    /// Whether the order of operands depends on the number of ranks and bytes only.
    pub fn has_one_order(&self) -> bool {
        self.same_everywhere
    }

    /// A number that differs, but by an accident of one in 2⁶⁴, where choices could.
    pub fn digest(&self) -> u64 {
        let text = format!("{:?}{:?}{}{BUILT_IN}", self.forced, self.users, self.same_everywhere);
        // FNV-1a.
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }

    /// Whether a setting asks for multicast wherever an operation can be done by it.
    pub fn asks_for_multicast(&self, operation: Operation) -> bool {
        self.forced.iter().any(|(of, algorithm)| *of == operation && algorithm.is_multicast())
    }

    /// Whether an operation may be multicast, of some length and in some place.
    pub fn may_multicast(&self, operation: Operation) -> bool {
        let of_table =
            |table: &Table| table.rules.iter().any(|rule| rule.operation == operation && rule.algorithm.is_multicast());
        self.asks_for_multicast(operation) || of_table(&self.users) || of_table(&self.built_in)
    }

    /// The algorithm for a case, and who says so.
    ///
    /// # Panics
    /// The table that is built in has no line for it: a test sees to that.
    pub fn choose(&self, operation: Operation, facts: &Facts) -> (Algorithm, Source) {
        let apart = Facts { place: Place::apart(facts.ranks), ..*facts };
        let facts = if self.same_everywhere && operation.is_reduction() { &apart } else { facts };
        let multicast = Algorithm::Bcast(BcastAlgorithm::Multicast);
        let is_asked = operation == Operation::Bcast && facts.place.multicast == Multicast::Asked;
        if is_asked && multicast.is_possible(operation, facts) {
            return (multicast, Source::Forced);
        }
        let forced =
            self.forced.iter().find(|(of, algorithm)| *of == operation && algorithm.is_possible(operation, facts));
        if let Some((_, algorithm)) = forced {
            return (*algorithm, Source::Forced);
        }
        if let Some(algorithm) = self.users.choose(operation, facts) {
            return (algorithm, Source::Users);
        }
        (self.built_in.choose(operation, facts).unwrap_or_else(|| built_in(operation, facts)), Source::BuiltIn)
    }
}

/// The same by the built-in table alone, of which only the lines of the operation are read: for what is not done often.
pub(super) fn built_in(operation: Operation, facts: &Facts) -> Algorithm {
    let lines = BUILT_IN.lines().filter(|line| line.split_whitespace().next() == Some(operation.name()));
    let mut rules = lines.filter_map(|line| Rule::parse(line).ok().flatten());
    let rule = rules.find(|rule| rule.fits(operation, facts));
    rule.expect("there is a line for every case").algorithm
}

/// A choice by the built-in table, for processes that are each on a node of their own.
macro_rules! chosen {
    ($operation:ident, $kind:ident, $ranks:expr, $bytes:expr, $commutative:expr) => {{
        let (ranks, bytes, commutative) = ($ranks, $bytes, $commutative);
        let facts = Facts { ranks, bytes, commutative, place: Place::apart(ranks) };
        match built_in(Operation::$operation, &facts) {
            Algorithm::$kind(algorithm) => algorithm,
            other => unreachable!("{other} is for another operation"),
        }
    }};
}

/// Of messages without contents.
pub fn barrier(size: u32) -> BarrierAlgorithm {
    chosen!(Barrier, Barrier, size, 0, true)
}

/// For `bytes` in all.
pub fn bcast(size: u32, bytes: u64) -> BcastAlgorithm {
    chosen!(Bcast, Bcast, size, bytes, true)
}

/// For `bytes` from each rank.
pub fn reduce(size: u32, bytes: u64, commutative: bool) -> ReduceAlgorithm {
    chosen!(Reduce, Reduce, size, bytes, commutative)
}

/// For `bytes` from each rank.
pub fn allreduce(size: u32, bytes: u64, commutative: bool) -> AllreduceAlgorithm {
    chosen!(Allreduce, Allreduce, size, bytes, commutative)
}

/// For `block_bytes` from each rank.
pub fn gather(size: u32, block_bytes: u64) -> GatherAlgorithm {
    chosen!(Gather, Gather, size, block_bytes, true)
}

/// For `block_bytes` to each rank.
pub fn scatter(size: u32, block_bytes: u64) -> GatherAlgorithm {
    chosen!(Scatter, Gather, size, block_bytes, true)
}

/// For `total_bytes` at the end at each rank; also for blocks of different lengths.
pub fn allgather(size: u32, total_bytes: u64) -> AllgatherAlgorithm {
    chosen!(Allgather, Allgather, size, total_bytes, true)
}

/// For `block_bytes` between each two ranks.
pub fn alltoall(size: u32, block_bytes: u64) -> AlltoallAlgorithm {
    chosen!(Alltoall, Alltoall, size, block_bytes, true)
}

/// For `bytes` from each rank; scan and exscan.
pub fn scan(size: u32, bytes: u64) -> ScanAlgorithm {
    chosen!(Scan, Scan, size, bytes, true)
}

/// For `total_bytes` from each rank.
pub fn reduce_scatter(size: u32, total_bytes: u64) -> ReduceScatterAlgorithm {
    chosen!(ReduceScatter, ReduceScatter, size, total_bytes, true)
}

/// How a table writes an algorithm.
impl core::fmt::Display for Algorithm {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let tree = |tree: Tree| match tree {
            Tree::Linear => "linear".to_string(),
            Tree::Chain => "chain".to_string(),
            Tree::BINOMIAL => "binomial".to_string(),
            Tree::KNomial { radix } => format!("k-nomial:{radix}"),
            Tree::KAry { arity } => format!("k-ary:{arity}"),
            Tree::DoubleBinary => "double-tree".to_string(),
        };
        let segmented = |name: String, bytes: u64| if bytes == WHOLE { name } else { format!("{name}/{bytes}") };
        let text = match *self {
            Self::Barrier(BarrierAlgorithm::Shared)
            | Self::Bcast(BcastAlgorithm::Shared)
            | Self::Reduce(ReduceAlgorithm::Shared)
            | Self::Allreduce(AllreduceAlgorithm::Shared)
            | Self::Allgather(AllgatherAlgorithm::Shared)
            | Self::Alltoall(AlltoallAlgorithm::Shared) => "shared".to_string(),
            Self::Allreduce(AllreduceAlgorithm::SharedShares) => "shared-shares".to_string(),
            Self::Bcast(BcastAlgorithm::SingleCopy)
            | Self::Reduce(ReduceAlgorithm::SingleCopy)
            | Self::Allreduce(AllreduceAlgorithm::SingleCopy)
            | Self::Allgather(AllgatherAlgorithm::SingleCopy)
            | Self::Alltoall(AlltoallAlgorithm::SingleCopy)
            | Self::ReduceScatter(ReduceScatterAlgorithm::SingleCopy) => "single-copy".to_string(),
            Self::Barrier(BarrierAlgorithm::Dissemination) => "dissemination".to_string(),
            Self::Barrier(BarrierAlgorithm::Tree(one)) => tree(one),
            Self::Bcast(BcastAlgorithm::ScatterDissemination) => "scatter-dissemination".to_string(),
            Self::Bcast(BcastAlgorithm::ScatterRing) => "scatter-ring".to_string(),
            Self::Barrier(BarrierAlgorithm::Multicast)
            | Self::Bcast(BcastAlgorithm::Multicast)
            | Self::Allreduce(AllreduceAlgorithm::Multicast)
            | Self::Allgather(AllgatherAlgorithm::Multicast) => "multicast".to_string(),
            Self::Bcast(BcastAlgorithm::Tree { tree: one, segment_bytes })
            | Self::Reduce(ReduceAlgorithm::Tree { tree: one, segment_bytes })
            | Self::Allreduce(AllreduceAlgorithm::Tree { tree: one, segment_bytes }) => {
                segmented(tree(one), segment_bytes)
            }
            Self::Gather(GatherAlgorithm::Linear) | Self::Allgather(AllgatherAlgorithm::Linear) => "linear".to_string(),
            Self::Gather(GatherAlgorithm::Tree { radix }) => tree(Tree::KNomial { radix }),
            Self::Allgather(AllgatherAlgorithm::Dissemination) => "dissemination".to_string(),
            Self::Allgather(AllgatherAlgorithm::Doubling)
            | Self::Allreduce(AllreduceAlgorithm::Doubling)
            | Self::Scan(ScanAlgorithm::Doubling) => "doubling".to_string(),
            Self::Allgather(AllgatherAlgorithm::Ring) | Self::Allreduce(AllreduceAlgorithm::Ring) => "ring".to_string(),
            Self::Allgather(AllgatherAlgorithm::NeighbourExchange) => "neighbour-exchange".to_string(),
            Self::Alltoall(AlltoallAlgorithm::Bruck) => "bruck".to_string(),
            Self::Alltoall(AlltoallAlgorithm::Exchange { outstanding }) => format!("pairwise:{outstanding}"),
            Self::Reduce(ReduceAlgorithm::Halving)
            | Self::Allreduce(AllreduceAlgorithm::Halving)
            | Self::ReduceScatter(ReduceScatterAlgorithm::Halving) => "halving".to_string(),
            Self::Allreduce(AllreduceAlgorithm::Multiplying { radix }) => format!("multiplying:{radix}"),
            Self::ReduceScatter(ReduceScatterAlgorithm::Pairwise) => "pairwise".to_string(),
            Self::Scan(ScanAlgorithm::Chain { segment_bytes }) => segmented("chain".to_string(), segment_bytes),
            Self::TwoLevel { leaders: 1 } => "two-level".to_string(),
            Self::TwoLevel { leaders } => format!("two-level:{leaders}"),
        };
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(ranks: u32, bytes: u64, commutative: bool) -> Facts {
        Facts { ranks, bytes, commutative, place: Place::apart(ranks) }
    }

    #[test]
    fn the_built_in_table_has_a_line_for_every_case() {
        let choices = Choices::new(Vec::new(), Table::default());
        for operation in Operation::ALL {
            for ranks in (1..40).chain([1000, 1 << 20]) {
                for bytes in
                    [0, 1].into_iter().chain((0..40).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]))
                {
                    for commutative in [false, true] {
                        let facts = facts(ranks, bytes, commutative);
                        let (algorithm, source) = choices.choose(operation, &facts);
                        assert_eq!(source, Source::BuiltIn);
                        assert_eq!(algorithm, built_in(operation, &facts));
                        assert!(commutative || !algorithm.needs_commuting());
                    }
                }
            }
        }
    }

    #[test]
    fn what_an_algorithm_is_called_names_it() {
        let names = [
            (Operation::Barrier, "dissemination binomial k-nomial:4 k-ary:2 chain linear two-level"),
            (
                Operation::Bcast,
                "binomial k-nomial:3/100 double-tree/65536 scatter-ring scatter-dissemination chain/1 linear two-level",
            ),
            (Operation::Reduce, "halving binomial k-ary:2/4096 two-level"),
            (Operation::Allreduce, "doubling multiplying:4 halving ring double-tree/9 linear two-level two-level:4"),
            (Operation::Gather, "linear binomial k-nomial:4"),
            (Operation::Scatter, "linear binomial k-nomial:3"),
            (Operation::Allgather, "dissemination doubling ring neighbour-exchange linear two-level"),
            (Operation::Alltoall, "bruck pairwise:7"),
            (Operation::ReduceScatter, "halving pairwise"),
            (Operation::Scan, "doubling chain/100"),
        ];
        for (operation, names) in names {
            for name in names.split(' ') {
                assert_eq!(operation.parse(name).map(|algorithm| algorithm.to_string()), Ok(name.to_string()));
            }
        }
    }

    #[test]
    fn all_candidates_are_algorithms() {
        for operation in Operation::ALL {
            for name in operation.candidates() {
                // K and M are written as bytes.
                assert!(operation.parse(name).is_ok(), "{name} of {}", operation.name());
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_told_in_a_sentence_with_its_line() {
        let cases = [
            ("bcast binomial\n\nbcats linear", "line 3: there is no operation bcats: it may be barrier, bcast,"),
            ("bcast", "line 1: bcast has no algorithm"),
            ("bcast ranks=3 linear", "line 1: ranks=3 is no condition: "),
            ("bcast bytes<4G linear", "line 1: bytes<4G is no condition: "),
            ("bcast bytes<0 linear", "line 1: bytes<0 is no condition: "),
            ("bcast tree", "line 1: there is no algorithm tree of bcast: it may be binomial,"),
            (
                "alltoall pairwise",
                "line 1: there is no algorithm pairwise of alltoall: it may be bruck, pairwise:K, shared or",
            ),
            ("bcast chain/0", "line 1: there is no algorithm chain/0"),
            ("bcast k-nomial:1", "line 1: there is no algorithm k-nomial:1"),
            ("gather linear/4", "line 1: there is no algorithm linear/4"),
            ("reduce k-nomial:99999999999", "line 1: there is no algorithm"),
            ("gather two-level", "line 1: there is no algorithm two-level of gather"),
            ("bcast two-level:2", "line 1: there is no algorithm two-level:2 of bcast"),
        ];
        for (text, sentence) in cases {
            let said = Table::parse(text).map(|_| ()).unwrap_err();
            assert!(said.starts_with(sentence), "{text}: {said}");
        }
    }

    #[test]
    fn what_is_asked_for_comes_before_tables_where_it_is_possible() {
        let ring = Operation::Allreduce.parse("ring").unwrap();
        let users =
            Table::parse("allreduce nodes>=2 ranks/node<=4 linear # few\nbcast commutative ranks>8 chain/1K").unwrap();
        let choices = Choices::new(alloc::vec![(Operation::Allreduce, ring)], users);
        let linear = Operation::Allreduce.parse("linear").unwrap();
        assert_eq!(choices.choose(Operation::Allreduce, &facts(4, 8, true)), (ring, Source::Forced));
        assert_eq!(choices.choose(Operation::Allreduce, &facts(4, 8, false)), (linear, Source::Users));
        assert_eq!(choices.choose(Operation::Bcast, &facts(8, 8, true)).1, Source::BuiltIn);
        assert_eq!(choices.choose(Operation::Bcast, &facts(9, 8, true)).1, Source::Users);
        let one_node = Facts { place: Place { oversubscribed: true, ..Place::together(4) }, ..facts(4, 8, false) };
        assert_eq!(choices.choose(Operation::Allreduce, &one_node), (linear, Source::BuiltIn));
    }

    #[test]
    fn two_levels_are_chosen_only_where_there_are_two_and_the_order_allows_it() {
        let two_level = Operation::Allreduce.parse("two-level:2").unwrap();
        let forced = Operation::ALL.map(|operation| (operation, two_level));
        let choices = Choices::new(forced.to_vec(), Table::default());
        let blocks = Layout::of(alloc::vec![0, 0, 1, 1]);
        let in_turns = Layout::of(alloc::vec![0, 1, 0, 1]);
        let in_order = Facts { place: *blocks.place(), ..facts(4, 8, false) };
        let commutes = Facts { place: *blocks.place(), ..facts(4, 8, true) };
        let mixed = Facts { place: *in_turns.place(), ..facts(4, 8, true) };
        let is_two_level = |operation, facts: &Facts| choices.choose(operation, facts).0 == two_level;
        assert!(is_two_level(Operation::Allreduce, &commutes) && is_two_level(Operation::Allgather, &commutes));
        assert!(is_two_level(Operation::Allreduce, &mixed) && !is_two_level(Operation::Allgather, &mixed));
        assert!(!is_two_level(Operation::Allreduce, &in_order) && is_two_level(Operation::Bcast, &in_order));
        for place in [Place::apart(4), Place::together(4)] {
            assert!(!is_two_level(Operation::Bcast, &Facts { place, ..commutes }), "{place:?}");
        }
        let choices = choices.with_one_order(true);
        assert_ne!(choices.choose(Operation::Allreduce, &commutes).0, two_level);
        assert_eq!(
            choices.choose(Operation::Allreduce, &commutes),
            choices.choose(Operation::Allreduce, &facts(4, 8, true))
        );
    }

    #[test]
    fn choices_that_differ_have_different_digests() {
        let table = |text| Choices::new(Vec::new(), Table::parse(text).unwrap());
        let forced =
            Choices::new(alloc::vec![(Operation::Bcast, Operation::Bcast.parse("chain").unwrap())], Table::default());
        let all =
            [table(""), table("bcast chain"), table("bcast ranks>2 chain"), forced, table("").with_one_order(true)];
        for (i, one) in all.iter().enumerate() {
            assert!(all.iter().enumerate().all(|(j, other)| (i == j) == (one.digest() == other.digest())), "{i}");
        }
        // How it is written makes no difference.
        assert_eq!(table("bcast  bytes<1K chain # quick").digest(), table("\nbcast bytes<1024 chain").digest());
    }
}
