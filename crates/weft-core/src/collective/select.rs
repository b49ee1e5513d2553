//! Which algorithm is used when. The algorithms themselves know nothing of this choice.
//!
//! The choice depends only on numbers that every rank of the operation has: the size of the group, packed bytes, and
//! whether the operation commutes. The thresholds are starting points for Ethernet between hosts, from a model in which a
//! round costs 20 µs and a link carries 1.25 GB/s, so that a round costs as much as 25 kB.
//! A chain or a ring has many rounds, but sends every byte once from each host, however many ranks that has.

/// How to broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BcastAlgorithm {
    /// Whole, down a binomial tree.
    Binomial,
    /// Scatter, then allgather in ⌈log₂ n⌉ rounds.
    ScatterDissemination,
    /// Scatter, then allgather round the ring.
    ScatterRing,
    /// Segments from rank to rank.
    Chain {
        /// Bytes of a segment; longer if there would be too many.
        segment_bytes: u64,
    },
}

/// How to reduce to one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceAlgorithm {
    /// Whole, up a binomial tree.
    Binomial,
    /// Reduce-scatter by recursive halving, then gather.
    Halving,
}

/// How to reduce to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllreduceAlgorithm {
    /// Whole, by recursive doubling.
    Doubling,
    /// Reduce-scatter by recursive halving, then allgather.
    Halving,
    /// Reduce-scatter and allgather round the ring; for operations that commute.
    Ring,
    /// At rank 0, which tells all.
    Gathered,
}

/// How to gather or scatter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherAlgorithm {
    /// Between the root and each rank.
    Linear,
    /// Along a binomial tree.
    Binomial,
}

/// How to allgather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllgatherAlgorithm {
    /// ⌈log₂ n⌉ rounds of doubling messages.
    Dissemination,
    /// Round the ring.
    Ring,
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
}

const KIB: u64 = 1024;

/// Bytes of a segment of a pipeline: enough to hide a round's cost.
const SEGMENT_BYTES: u64 = 64 * KIB;

/// For `bytes` in all.
pub fn bcast(size: u32, bytes: u64) -> BcastAlgorithm {
    // A pipeline needs about n + bytes/segment rounds, each of a segment; it must be full most of the time.
    if size > 2 && bytes >= 2 * size as u64 * SEGMENT_BYTES {
        BcastAlgorithm::Chain { segment_bytes: SEGMENT_BYTES }
    } else if size <= 4 || bytes < 64 * KIB {
        BcastAlgorithm::Binomial
    } else if bytes / (size as u64) < 4 * KIB {
        BcastAlgorithm::ScatterDissemination
    } else {
        BcastAlgorithm::ScatterRing
    }
}

/// For `bytes` from each rank.
pub fn reduce(size: u32, bytes: u64) -> ReduceAlgorithm {
    if size <= 2 || bytes < 64 * KIB { ReduceAlgorithm::Binomial } else { ReduceAlgorithm::Halving }
}

/// For `bytes` from each rank.
pub fn allreduce(size: u32, bytes: u64, commutative: bool) -> AllreduceAlgorithm {
    let small = if size <= 4 { 128 * KIB } else { 32 * KIB };
    if size <= 2 || bytes < small {
        AllreduceAlgorithm::Doubling
    } else if commutative && !size.is_power_of_two() && bytes >= size as u64 * 32 * KIB {
        // Folding ranks together would cost a whole vector twice.
        AllreduceAlgorithm::Ring
    } else {
        AllreduceAlgorithm::Halving
    }
}

/// For `bytes` from each rank, where ranks take turns on the processors of one node: what counts then is how many turns each rank needs.
pub fn allreduce_oversubscribed(size: u32, bytes: u64, commutative: bool) -> AllreduceAlgorithm {
    if size > 2 && bytes <= 2 * KIB { AllreduceAlgorithm::Gathered } else { allreduce(size, bytes, commutative) }
}

/// For `block_bytes` from or to each rank: the tree saves the root messages and costs the others copies.
pub fn gather(size: u32, block_bytes: u64) -> GatherAlgorithm {
    if size >= 8 && block_bytes <= 4 * KIB { GatherAlgorithm::Binomial } else { GatherAlgorithm::Linear }
}

/// As [`gather`].
pub fn scatter(size: u32, block_bytes: u64) -> GatherAlgorithm {
    gather(size, block_bytes)
}

/// For `total_bytes` at the end at each rank; also for blocks of different lengths.
pub fn allgather(size: u32, total_bytes: u64) -> AllgatherAlgorithm {
    if total_bytes < 128 * KIB || total_bytes / size as u64 <= 2 * KIB {
        AllgatherAlgorithm::Dissemination
    } else {
        AllgatherAlgorithm::Ring
    }
}

/// For `block_bytes` between each two ranks.
pub fn alltoall(size: u32, block_bytes: u64) -> AlltoallAlgorithm {
    if size >= 8 && block_bytes <= 256 {
        AlltoallAlgorithm::Bruck
    } else if block_bytes <= 16 * KIB {
        AlltoallAlgorithm::Exchange { outstanding: 32 }
    } else {
        AlltoallAlgorithm::Exchange { outstanding: 4 }
    }
}

/// For `bytes` from each rank; scan and exscan.
pub fn scan(size: u32, bytes: u64) -> ScanAlgorithm {
    if size > 2 && bytes >= size as u64 * SEGMENT_BYTES {
        ScanAlgorithm::Chain { segment_bytes: SEGMENT_BYTES }
    } else {
        ScanAlgorithm::Doubling
    }
}

/// For `total_bytes` from each rank.
pub fn reduce_scatter(size: u32, total_bytes: u64) -> ReduceScatterAlgorithm {
    if total_bytes < 64 * KIB || total_bytes / (size as u64) < 2 * KIB {
        ReduceScatterAlgorithm::Halving
    } else {
        ReduceScatterAlgorithm::Pairwise
    }
}
