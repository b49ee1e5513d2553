//! The algorithms of each operation. The module [`choice`](super::choice) decides which one is used when.

/// The order in which ranks pass data on, from the root or towards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// The root and all others.
    Linear,
    /// From rank to rank.
    Chain,
    /// Children stand 1, 2, … radix − 1 places further on, then as many times the radix, then its square, and
    /// so on. Radix 2 is the binomial tree.
    KNomial {
        /// At least 2.
        radix: u32,
    },
    /// Each node has `arity` children, as long as there are nodes.
    KAry {
        /// At least 1.
        arity: u32,
    },
    /// Two binary trees for half of the data each, in which no rank is an inner node twice (Sanders, Speck,
    /// Träff, 2009).
    DoubleBinary,
}

impl Tree {
    /// The binomial tree.
    pub const BINOMIAL: Self = Self::KNomial { radix: 2 };

    /// The tree by which `ranks` ranks tell the rank that multicasts. As long as the ranks are few, its
    /// processor takes a message from each.
    pub(super) const fn towards_multicast(ranks: u32) -> Self {
        if ranks <= 16 { Self::Linear } else { Self::KNomial { radix: 8 } }
    }
}

/// Data that is not cut into segments.
pub const WHOLE: u64 = u64::MAX;

/// An algorithm of broadcasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BcastAlgorithm {
    /// Down a tree.
    Tree {
        /// The tree.
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
    /// By single copies between ranks of one node that may read each other's memory. The root exposes its
    /// data, and the others copy it.
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

/// An algorithm of reductions to one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceAlgorithm {
    /// Up a tree; a tree that keeps no order only if the operation commutes.
    Tree {
        /// The tree.
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

/// An algorithm of reductions to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllreduceAlgorithm {
    /// Whole, by recursive doubling.
    Doubling,
    /// Whole, by recursive multiplying: each round combines the vectors of `radix` ranks. For operations that
    /// commute.
    Multiplying {
        /// Ranks that exchange with each other in a round; at least 2.
        radix: u32,
    },
    /// Up a tree and down again, segments one behind the other; a tree that keeps no order only if the
    /// operation commutes.
    Tree {
        /// The tree.
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
    /// Through memory that the ranks share: each rank publishes its operand, and reduces the operands of all.
    /// For ranks of one node.
    Shared,
    /// Through memory that the ranks share, in two phases: each rank reduces its share of all operands, and
    /// publishes that. For ranks of one node.
    SharedShares,
    /// By single copies between ranks of one node that may read each other's memory. Each rank reduces a
    /// share, and copies the shares of the others.
    SingleCopy,
}

/// An algorithm of gather and scatter.
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

/// An algorithm of allgather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllgatherAlgorithm {
    /// ⌈log₂ n⌉ rounds of doubling messages.
    Dissemination,
    /// Round the ring.
    Ring,
    /// In turns with the one and the other neighbour on the ring, two blocks at a time (Chen and others,
    /// 2005). For odd n it is the ring.
    NeighbourExchange,
    /// With partners 1, 2, 4, … away; dissemination unless n is a power of two.
    Doubling,
    /// From each to each.
    Linear,
    /// Each multicasts its block to one rank of each other node; between nodes only.
    Multicast,
    /// Through memory that the ranks share: each rank publishes its block, and copies the blocks of all. For
    /// ranks of one node.
    Shared,
    /// By single copies between ranks of one node that may read each other's memory. Each rank exposes its
    /// block, and copies the blocks of the others.
    SingleCopy,
}

/// An algorithm of barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierAlgorithm {
    /// ⌈log₂ n⌉ rounds of signals 1, 2, 4, … further on.
    Dissemination,
    /// Up a tree and down again.
    Tree(Tree),
    /// Up a tree, and then one multicast to one rank of each other node; between nodes only.
    Multicast,
    /// Through memory that the ranks share: each rank says there that it has come, and looks for all others.
    /// For ranks of one node.
    Shared,
}

/// An algorithm of all-to-all exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlltoallAlgorithm {
    /// ⌈log₂ n⌉ rounds in which blocks travel together.
    Bruck,
    /// Each block by itself.
    Exchange {
        /// Blocks that are under way together in each direction.
        outstanding: usize,
    },
    /// Through memory that the ranks share: each rank publishes all of its blocks, and copies those for
    /// itself. For ranks of one node.
    Shared,
    /// By single copies between ranks of one node that may read each other's memory. Each rank exposes all of
    /// its blocks, and copies those for itself.
    SingleCopy,
}

/// An algorithm of scans.
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

/// An algorithm of reduce-scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceScatterAlgorithm {
    /// Recursive halving.
    Halving,
    /// Each block straight to its owner.
    Pairwise,
    /// By single copies between ranks of one node that may read each other's memory. Each rank reduces its
    /// block.
    SingleCopy,
}
