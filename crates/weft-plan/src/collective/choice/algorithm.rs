//! Operations, the algorithms that each of them has, and the cases in which an algorithm can be run.

mod names;

use super::facts::{Facts, Multicast};
use crate::collective::select::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BarrierAlgorithm, BcastAlgorithm, GatherAlgorithm,
    ReduceAlgorithm, ReduceScatterAlgorithm, ScanAlgorithm, Tree,
};
use crate::collective::shared::{CUT_MAX, SEGMENT_BYTES};
pub(super) use names::size;
use weft_core::multicast::MESSAGE_BYTES_MAX;

/// The operations that have a choice of algorithms.
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
    /// The list of all operations.
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

    /// Returns whether the operation combines operands.
    pub(super) const fn is_reduction(self) -> bool {
        matches!(self, Self::Reduce | Self::Allreduce | Self::ReduceScatter | Self::Scan)
    }
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
    /// An operation in two levels: within each node, and between `leaders` ranks of each node. Each level
    /// runs the algorithm that is chosen for a group within a node, or for a group with one rank on each
    /// node.
    TwoLevel {
        leaders: u32,
    },
}

impl Algorithm {
    /// Returns whether the algorithm can run `operation` in the case of these facts.
    pub(super) fn is_possible(self, operation: Operation, facts: &Facts) -> bool {
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
            // Between nodes with several ranks, multicast is one level of two.
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

    /// Returns whether the algorithm changes the order of operands.
    pub(super) fn needs_commuting(self) -> bool {
        let reorders = |tree: Tree| !tree.is_ordered();
        match self {
            Self::Reduce(ReduceAlgorithm::Tree { tree, .. })
            | Self::Allreduce(AllreduceAlgorithm::Tree { tree, .. }) => reorders(tree),
            Self::Allreduce(AllreduceAlgorithm::Ring | AllreduceAlgorithm::Multiplying { .. }) => true,
            _ => false,
        }
    }

    /// Returns whether the algorithm multicasts to other nodes.
    pub(in crate::collective) fn is_multicast(self) -> bool {
        matches!(
            self,
            Self::Barrier(BarrierAlgorithm::Multicast)
                | Self::Bcast(BcastAlgorithm::Multicast)
                | Self::Allreduce(AllreduceAlgorithm::Multicast)
                | Self::Allgather(AllgatherAlgorithm::Multicast)
        )
    }

    /// Returns whether ranks copy from each other's memory.
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

    /// Returns whether the data goes through memory that the ranks share.
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

/// Bytes that one rank publishes at once in an operation of `ranks` ranks through shared memory; `bytes` as
/// the table of choices counts them. `None`: the operation cannot go through shared memory.
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
