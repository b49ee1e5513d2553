//! The algorithms that there are, by operation. Which is used when is said by [`choice`](super::choice).

/// Who passes data on to whom, from the root on or towards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// The root and all others.
    Linear,
    /// From rank to rank.
    Chain,
    /// Children stand 1, 2, … radix − 1, then as many times the radix, then its square … further on; radix 2
    /// is the binomial tree.
    KNomial {
        /// At least 2.
        radix: u32,
    },
    /// Each node has so many children, all as long as there are nodes.
    KAry {
        /// At least 1.
        arity: u32,
    },
    /// Two binary trees for half of the data each, in which nobody is an inner node twice (Sanders, Speck,
    /// Träff, 2009).
    DoubleBinary,
}

impl Tree {
    /// The binomial tree.
    pub const BINOMIAL: Self = Self::KNomial { radix: 2 };

    /// By which `ranks` ranks tell the one that multicasts for all of them: its processor takes a message
    /// from each as long as there are few.
    pub(super) const fn towards_multicast(ranks: u32) -> Self {
        if ranks <= 16 { Self::Linear } else { Self::KNomial { radix: 8 } }
    }
}

/// Data that is not cut into segments.
pub const WHOLE: u64 = u64::MAX;

/// How to broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BcastAlgorithm {
    /// Down a tree.
    Tree {
        /// Which.
        tree: Tree,
        /// Bytes of a segment, or [`WHOLE`]; longer if there would be too many.
        segment_bytes: u64,
    },
    /// Scatter, then allgather in ⌈log₂ n⌉ rounds.
    ScatterDissemination,
    /// Scatter, then allgather round the ring.
    ScatterRing,
    /// Through memory that the ranks share: the root publishes, the others copy. For ranks of one node.
    Shared,
    /// By network multicast to one rank of each other node; between nodes only.
    Multicast,
    /// By single copies between ranks of one node that may read each other's memory: the root exposes, the
    /// others copy.
    SingleCopy,
}

impl BcastAlgorithm {
    /// Whole, down a binomial tree.
    pub const BINOMIAL: Self = Self::Tree { tree: Tree::BINOMIAL, segment_bytes: WHOLE };

    /// Segments from rank to rank.
    pub const fn chain(segment_bytes: u64) -> Self {
        Self::Tree { tree: Tree::Chain, segment_bytes }
    }
}

/// How to reduce to one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceAlgorithm {
    /// Up a tree; one that keeps no order only if the operation commutes.
    Tree {
        /// Which.
        tree: Tree,
        /// Bytes of a segment, or [`WHOLE`]; longer if there would be too many.
        segment_bytes: u64,
    },
    /// Reduce-scatter by recursive halving, then gather.
    Halving,
    /// Through memory that the ranks share: the others publish, the root reduces. For ranks of one node.
    Shared,
    /// By single copies between ranks of one node that may read each other's memory: each reduces a share,
    /// and the root copies the shares.
    SingleCopy,
}

impl ReduceAlgorithm {
    /// Whole, up a binomial tree.
    pub const BINOMIAL: Self = Self::Tree { tree: Tree::BINOMIAL, segment_bytes: WHOLE };
}

/// How to reduce to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllreduceAlgorithm {
    /// Whole, by recursive doubling.
    Doubling,
    /// Whole, by recursive multiplying: each round combines what so many ranks have. For operations that
    /// commute.
    Multiplying {
        /// Ranks that exchange with each other in a round; at least 2.
        radix: u32,
    },
    /// Up a tree and down again, segments one behind the other; a tree that keeps no order only if the
    /// operation commutes.
    Tree {
        /// Which.
        tree: Tree,
        /// Bytes of a segment, or [`WHOLE`]; longer if there would be too many.
        segment_bytes: u64,
    },
    /// Reduce-scatter by recursive halving, then allgather (Rabenseifner, 2004).
    Halving,
    /// Reduce-scatter and allgather round the ring; for operations that commute.
    Ring,
    /// Up a tree, and then one multicast to one rank of each other node; between nodes only.
    Multicast,
    /// Through memory that the ranks share: all publish, and each reduces what all have. For ranks of one
    /// node.
    Shared,
    /// The same in two phases: each reduces its share of what all have, and publishes that. For ranks of one
    /// node.
    SharedShares,
    /// By single copies between ranks of one node that may read each other's memory: each reduces a share,
    /// and copies the shares of the others.
    SingleCopy,
}

/// How to gather or scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherAlgorithm {
    /// Between the root and each rank.
    Linear,
    /// Along a k-nomial tree.
    Tree {
        /// At least 2; 2 is the binomial tree.
        radix: u32,
    },
}

impl GatherAlgorithm {
    /// Along a binomial tree.
    pub const BINOMIAL: Self = Self::Tree { radix: 2 };
}

/// How to allgather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllgatherAlgorithm {
    /// ⌈log₂ n⌉ rounds of doubling messages.
    Dissemination,
    /// Round the ring.
    Ring,
    /// In turns with the one and the other neighbour on the ring, two blocks at a time (Chen and others,
    /// 2005); the ring for odd n.
    NeighbourExchange,
    /// With partners 1, 2, 4, … away; dissemination unless n is a power of two.
    Doubling,
    /// From each to each.
    Linear,
    /// Each multicasts its block to one rank of each other node; between nodes only.
    Multicast,
    /// Through memory that the ranks share: all publish, and each copies what all have. For ranks of one
    /// node.
    Shared,
    /// By single copies between ranks of one node that may read each other's memory: all expose their blocks,
    /// and each copies those of the others.
    SingleCopy,
}

/// How to wait for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierAlgorithm {
    /// ⌈log₂ n⌉ rounds of signals 1, 2, 4, … further on.
    Dissemination,
    /// Up a tree and down again.
    Tree(Tree),
    /// Up a tree, and then one multicast to one rank of each other node; between nodes only.
    Multicast,
    /// Through memory that the ranks share: each says there that it has come, and looks for all others. For
    /// ranks of one node.
    Shared,
}

/// How to exchange blocks between all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlltoallAlgorithm {
    /// ⌈log₂ n⌉ rounds in which blocks travel together.
    Bruck,
    /// Each block by itself.
    Exchange {
        /// Blocks that are under way together in each direction.
        outstanding: usize,
    },
    /// Through memory that the ranks share: all publish all of their blocks, and each copies its own. For
    /// ranks of one node.
    Shared,
    /// By single copies between ranks of one node that may read each other's memory: all expose their blocks,
    /// and each copies its own.
    SingleCopy,
}

/// How to scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanAlgorithm {
    /// Whole, ⌈log₂ n⌉ rounds.
    Doubling,
    /// Segments from rank to rank.
    Chain {
        /// Bytes of a segment; longer if there would be too many.
        segment_bytes: u64,
    },
}

/// How to reduce and scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceScatterAlgorithm {
    /// Recursive halving.
    Halving,
    /// Each block straight to its owner.
    Pairwise,
    /// By single copies between ranks of one node that may read each other's memory: each reduces its block.
    SingleCopy,
}
