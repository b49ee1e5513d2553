//! Collective operations as data (MPI-5.0 chapter 6).
//!
//! An algorithm is a pure function. Its input is what one rank knows: its rank, the size of the group, and
//! the counts and shapes of the datatypes. Its result is a [`Schedule`]: an immutable graph of [steps](Step),
//! which send, receive, copy and reduce. Nothing is sent here. Blocking, nonblocking and persistent
//! operations run the same schedule, and so does the simulator.
//!
//! # How a schedule is run
//!
//! A step begins as soon as all steps that it waits for are complete. A [`Frontier`] knows which steps may
//! begin; it gives out the one planned first. The rules of a run:
//!
//! - No step relies on buffering at another rank, so transfers may be synchronous.
//! - Two transfers between the same pair of ranks in the same direction match in the order in which they
//!   begin. So the transfers of a schedule begin in the order in which they were planned, and one tag for a
//!   whole schedule is enough.
//! - A transfer of zero items is a real, empty message.
//! - Two steps without an order between them never touch the same memory, unless both only read it.
//!
//! # How a schedule is written
//!
//! An algorithm is written as a program for one rank, from top to bottom, with a `Plan`. The
//! plan concludes from the memory that steps touch which steps must wait for which others.
//!
//! # Buffers
//!
//! A [`Slice`] names `count` items of a datatype, item `i` based at `offset + i × extent` bytes from the base
//! of a buffer.
//!
//! - [`Buffer::Send`] and [`Buffer::Receive`] are the user's buffers. `bcast` has one buffer only, which is
//!   called `Receive` at every rank, the root included. With `in_place` (`MPI_IN_PLACE`) a schedule never
//!   names `Send` for the process concerned (scatter's root: never names `Receive`). Nothing is ever written
//!   to `Send`.
//! - [`Buffer::Scratch`] is [`Schedule::scratch`] bytes, aligned to [`SCRATCH_ALIGNMENT`], with any content.
//!   An offset into it may be negative or beyond its end when the datatype's lower bound is far from zero;
//!   the bytes that the items really touch always lie inside.
//!
//! # Datatypes
//!
//! [`Kind`] names the caller's datatype of a slice. A reduction's datatype is [`Kind::Receive`], in both user
//! buffers and in scratch. Sender and receiver of a transfer may name different kinds, but the number of
//! packed bytes is equal. It is also equal for the two sides of a [`Step::Copy`] (pack one, unpack into the
//! other). [`Step::Reduce`] always has the same count on both sides, and kind `Receive`.
//!
//! # What all ranks must agree on
//!
//! The standard lets ranks describe the same data by different counts and datatypes, except in reductions.
//! Therefore the choice of an algorithm ([`select`]) and the cutting of data depend only on numbers of bytes
//! and on ranks.

extern crate alloc;

use alloc::vec::Vec;

use choice::Choices;
use select::{
    AllgatherAlgorithm, AllreduceAlgorithm, AlltoallAlgorithm, BarrierAlgorithm, BcastAlgorithm, GatherAlgorithm,
    ReduceAlgorithm, ReduceScatterAlgorithm, ScanAlgorithm,
};

mod allgather;
mod allreduce;
mod alltoall;
mod arguments;
mod barrier;
mod bcast;
mod between;
pub mod choice;
mod chosen;
pub mod cost;
mod dependencies;
mod frontier;
mod gather;
mod halving;
mod neighbours;
mod pieces;
mod plan;
mod reduce;
mod reduce_scatter;
mod scan;
mod scatter;
mod schedule;
pub mod select;
mod shared;
mod single_copy;
mod tree;
mod two_level;

pub use chosen::Chosen;
pub use frontier::Frontier;
pub use plan::PHASES_AHEAD;
pub use schedule::{Buffer, Kind, SCRATCH_ALIGNMENT, Schedule, Slice, Step};

pub use arguments::{
    Allgather, Allgatherv, Allreduce, AllreduceBetween, Alltoallv, Alltoallw, Barrier, Bcast, Blocks, ElementShape,
    ExchangeBetween, Gather, Gatherv, Items, NeighbourExchange, Parts, Reduce, ReduceBetween, ReduceScatter,
    ReduceScatterBetween, ReduceScatterBlock, Scatterv, TypedBlocks,
};

/// Returns the schedule that `write` plans.
fn planned(write: impl FnOnce(&mut plan::Plan)) -> Schedule {
    let mut plan = plan::Plan::default();
    write(&mut plan);
    plan.finish()
}

/// Plans this rank's part in `MPI_Barrier` (MPI-5.0 §6.3).
pub fn barrier(arguments: &Barrier) -> Schedule {
    barrier_with(arguments, choice::barrier(arguments.size))
}

/// Plans this rank's part in `MPI_Barrier` by the given algorithm, which is the same at all ranks.
pub fn barrier_with(arguments: &Barrier, algorithm: BarrierAlgorithm) -> Schedule {
    planned(|plan| barrier::add(plan, arguments, algorithm))
}

/// Plans this rank's part in `MPI_Bcast` (MPI-5.0 §6.4).
pub fn bcast(arguments: &Bcast) -> Schedule {
    bcast_with(arguments, choice::bcast(arguments.size, plan::bytes(arguments.items)))
}

/// Plans this rank's part in `MPI_Bcast` by the given algorithm, which is the same at all ranks.
pub fn bcast_with(arguments: &Bcast, algorithm: BcastAlgorithm) -> Schedule {
    planned(|plan| bcast::add(plan, arguments, algorithm))
}

/// Plans a [`bcast()`] in two levels: among one rank of each node, and from this rank to its node, by an
/// algorithm for each level. `nodes` has the node of each rank; equal numbers mean the same node.
pub fn bcast_in_two_levels(arguments: &Bcast, nodes: &[u32], algorithms: (BcastAlgorithm, BcastAlgorithm)) -> Schedule {
    planned(|plan| two_level::add_bcast(plan, arguments, nodes, algorithms))
}

/// Plans this rank's part in `MPI_Gather` (MPI-5.0 §6.5).
pub fn gather(arguments: &Gather) -> Schedule {
    gather_with(arguments, choice::gather(arguments.size, arguments.gathered_bytes()))
}

/// Plans this rank's part in `MPI_Gather` by the given algorithm, which is the same at all ranks.
pub fn gather_with(arguments: &Gather, algorithm: GatherAlgorithm) -> Schedule {
    planned(|plan| gather::add(plan, arguments, algorithm))
}

/// Plans this rank's part in `MPI_Gatherv` (MPI-5.0 §6.5).
pub fn gatherv(arguments: &Gatherv<'_>) -> Schedule {
    planned(|plan| gather::gatherv(plan, arguments))
}

/// Plans this rank's part in `MPI_Scatter` (MPI-5.0 §6.6).
pub fn scatter(arguments: &Gather) -> Schedule {
    scatter_with(arguments, choice::scatter(arguments.size, arguments.scattered_bytes()))
}

/// Plans this rank's part in `MPI_Scatter` by the given algorithm, which is the same at all ranks.
pub fn scatter_with(arguments: &Gather, algorithm: GatherAlgorithm) -> Schedule {
    planned(|plan| scatter::add(plan, arguments, algorithm))
}

/// Plans this rank's part in `MPI_Scatterv` (MPI-5.0 §6.6).
pub fn scatterv(arguments: &Scatterv<'_>) -> Schedule {
    planned(|plan| scatter::scatterv(plan, arguments))
}

/// Plans this rank's part in `MPI_Allgather` (MPI-5.0 §6.7).
pub fn allgather(arguments: &Allgather) -> Schedule {
    allgather_with(arguments, choice::allgather(arguments.size, arguments.size as u64 * plan::bytes(arguments.receive)))
}

/// Plans this rank's part in `MPI_Allgather` by the given algorithm, which is the same at all ranks.
pub fn allgather_with(arguments: &Allgather, algorithm: AllgatherAlgorithm) -> Schedule {
    planned(|plan| allgather::add(plan, arguments, algorithm))
}

/// Plans this rank's part in `MPI_Allgatherv` (MPI-5.0 §6.7).
pub fn allgatherv(arguments: &Allgatherv<'_>) -> Schedule {
    let total = arguments.receive.counts.iter().sum::<u64>() * arguments.receive.item_size;
    allgatherv_with(arguments, choice::allgather(arguments.size, total))
}

/// Plans this rank's part in `MPI_Allgatherv` by the given algorithm, which is the same at all ranks.
pub fn allgatherv_with(arguments: &Allgatherv<'_>, algorithm: AllgatherAlgorithm) -> Schedule {
    planned(|plan| allgather::allgatherv(plan, arguments, algorithm))
}

/// Plans this rank's part in `MPI_Alltoall` (MPI-5.0 §6.8).
pub fn alltoall(arguments: &Allgather) -> Schedule {
    alltoall_with(arguments, choice::alltoall(arguments.size, plan::bytes(arguments.receive)))
}

/// Plans this rank's part in `MPI_Alltoall` by the given algorithm, which is the same at all ranks.
pub fn alltoall_with(arguments: &Allgather, algorithm: AlltoallAlgorithm) -> Schedule {
    planned(|plan| alltoall::add(plan, arguments, algorithm))
}

/// Plans this rank's part in `MPI_Alltoallv` (MPI-5.0 §6.8).
pub fn alltoallv(arguments: &Alltoallv<'_>) -> Schedule {
    planned(|plan| alltoall::alltoallv(plan, arguments))
}

/// Plans this rank's part in `MPI_Alltoallw` (MPI-5.0 §6.8).
pub fn alltoallw(arguments: &Alltoallw<'_>) -> Schedule {
    planned(|plan| alltoall::alltoallw(plan, arguments))
}

/// Plans this rank's part in `MPI_Reduce` (MPI-5.0 §6.9.1).
pub fn reduce(arguments: &Reduce) -> Schedule {
    reduce_with(arguments, choice::reduce(arguments.size, plan::bytes(arguments.items), arguments.commutative))
}

/// Plans this rank's part in `MPI_Reduce` by the given algorithm, which is the same at all ranks.
pub fn reduce_with(arguments: &Reduce, algorithm: ReduceAlgorithm) -> Schedule {
    planned(|plan| reduce::add(plan, arguments, algorithm))
}

/// Plans this rank's part in `MPI_Allreduce` (MPI-5.0 §6.9.6).
pub fn allreduce(arguments: &Allreduce) -> Schedule {
    let bytes = plan::bytes(arguments.items);
    allreduce_with(arguments, choice::allreduce(arguments.size, bytes, arguments.commutative))
}

/// Plans this rank's part in `MPI_Allreduce` by the given algorithm, which is the same at all ranks. Some
/// algorithms need an operation that commutes.
pub fn allreduce_with(arguments: &Allreduce, algorithm: AllreduceAlgorithm) -> Schedule {
    planned(|plan| allreduce::add(plan, arguments, algorithm))
}

/// Plans a [`barrier()`] in two levels: to one rank of each node, among these, and back again. `nodes`: as
/// for [`bcast_in_two_levels`].
pub fn barrier_in_two_levels(
    arguments: &Barrier,
    nodes: &[u32],
    algorithms: (BarrierAlgorithm, BarrierAlgorithm),
) -> Schedule {
    planned(|plan| two_level::add_barrier(plan, arguments, nodes, algorithms))
}

/// Plans a [`reduce()`] in two levels: on each node to one rank, and among these ranks, by an algorithm for
/// each. The operation commutes. `nodes`: as for [`bcast_in_two_levels`].
pub fn reduce_in_two_levels(
    arguments: &Reduce,
    nodes: &[u32],
    algorithms: (ReduceAlgorithm, ReduceAlgorithm),
) -> Schedule {
    planned(|plan| two_level::add_reduce(plan, arguments, nodes, algorithms))
}

/// Plans an [`allreduce()`] in two levels: on each node to one rank, among these ranks, and back to the
/// others, by an algorithm for each.
///
/// The operation commutes. On each node `leaders` ranks lead for a share of the data each, or as many as the
/// smallest node has. `nodes`: as for [`bcast_in_two_levels`].
pub fn allreduce_in_two_levels(
    arguments: &Allreduce,
    nodes: &[u32],
    leaders: u32,
    algorithms: (ReduceAlgorithm, AllreduceAlgorithm, BcastAlgorithm),
) -> Schedule {
    planned(|plan| two_level::add_allreduce(plan, arguments, nodes, leaders, algorithms))
}

/// Plans an [`allgather()`] in two levels: among one rank of each node, and from this rank to its node. The
/// ranks of each node follow each other. `nodes`: as for [`bcast_in_two_levels`].
pub fn allgather_in_two_levels(
    arguments: &Allgather,
    nodes: &[u32],
    algorithms: (AllgatherAlgorithm, BcastAlgorithm),
) -> Schedule {
    planned(|plan| two_level::add_allgather(plan, arguments, nodes, algorithms))
}

/// Plans this process's part in `MPI_Allreduce` on an intercommunicator (MPI-5.0 §6.9.6): each group gets the
/// result of the other. Ranks are those of both groups together, the first group's first.
pub fn allreduce_between(arguments: &AllreduceBetween, choices: &Choices) -> Schedule {
    between::allreduce(arguments, choices)
}

/// Plans this process's part in `MPI_Neighbor_allgather`, `MPI_Neighbor_alltoall` and their forms with counts
/// and datatypes (MPI-5.0 §8.6).
pub fn neighbour_exchange(arguments: &NeighbourExchange<'_>) -> Schedule {
    neighbours::exchange(arguments)
}

/// Plans this process's part in `MPI_Allgather`, `MPI_Alltoall` and their forms with counts and datatypes on
/// an intercommunicator (MPI-5.0 §6.7, §6.8): each process gets a block of each of the other group.
///
/// Ranks are those of both groups together, the first group's first.
pub fn exchange_between(arguments: &ExchangeBetween<'_>) -> Schedule {
    neighbours::between(arguments)
}

/// Plans this process's part in `MPI_Reduce` on an intercommunicator (MPI-5.0 §6.9.1): the root gets the
/// result of the other group. Ranks are those of the root, which comes first, and of that group.
pub fn reduce_between(arguments: &ReduceBetween, choices: &Choices) -> Schedule {
    between::reduce(arguments, choices)
}

/// Plans this process's part in `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block` on an intercommunicator
/// (MPI-5.0 §6.10): each group gets the result of the other in parts.
///
/// Ranks are those of both groups together, the first group's first.
pub fn reduce_scatter_between(arguments: &ReduceScatterBetween<'_>, choices: &Choices) -> Schedule {
    between::reduce_scatter(arguments, choices)
}

/// Plans this rank's part in `MPI_Reduce_scatter_block` (MPI-5.0 §6.10.1).
pub fn reduce_scatter_block(arguments: &ReduceScatterBlock) -> Schedule {
    let total = arguments.size as u64 * plan::bytes(arguments.items);
    reduce_scatter_block_with(arguments, choice::reduce_scatter(arguments.size, total))
}

/// Plans this rank's part in `MPI_Reduce_scatter_block` by the given algorithm, which is the same at all
/// ranks.
pub fn reduce_scatter_block_with(arguments: &ReduceScatterBlock, algorithm: ReduceScatterAlgorithm) -> Schedule {
    let ReduceScatterBlock { rank, size, items, commutative, in_place } = *arguments;
    let start = |rank| rank as u64 * items.count;
    let arguments = reduce_scatter::Arguments { rank, size, shape: items.shape, start: &start, commutative, in_place };
    planned(|plan| reduce_scatter::add(plan, &arguments, algorithm))
}

/// Plans this rank's part in `MPI_Reduce_scatter` (MPI-5.0 §6.10.2).
pub fn reduce_scatter(arguments: &ReduceScatter<'_>) -> Schedule {
    let total = arguments.counts.iter().sum::<u64>() * arguments.shape.size;
    reduce_scatter_with(arguments, choice::reduce_scatter(arguments.size, total))
}

/// Plans this rank's part in `MPI_Reduce_scatter` by the given algorithm, which is the same at all ranks.
pub fn reduce_scatter_with(arguments: &ReduceScatter<'_>, algorithm: ReduceScatterAlgorithm) -> Schedule {
    let ReduceScatter { rank, size, counts, shape, commutative, in_place } = *arguments;
    let mut starts = Vec::with_capacity(size as usize + 1);
    starts.push(0);
    counts.iter().for_each(|count| starts.push(starts[starts.len() - 1] + count));
    let start = |rank: u32| starts[rank as usize];
    let arguments = reduce_scatter::Arguments { rank, size, shape, start: &start, commutative, in_place };
    planned(|plan| reduce_scatter::add(plan, &arguments, algorithm))
}

/// Plans this rank's part in `MPI_Scan` (MPI-5.0 §6.11.1).
pub fn scan(arguments: &Allreduce) -> Schedule {
    scan_with(arguments, choice::scan(arguments.size, plan::bytes(arguments.items)))
}

/// Plans this rank's part in `MPI_Scan` by the given algorithm, which is the same at all ranks.
pub fn scan_with(arguments: &Allreduce, algorithm: ScanAlgorithm) -> Schedule {
    planned(|plan| scan::scan(plan, arguments, algorithm))
}

/// Plans this rank's part in `MPI_Exscan` (MPI-5.0 §6.11.2).
pub fn exscan(arguments: &Allreduce) -> Schedule {
    exscan_with(arguments, choice::scan(arguments.size, plan::bytes(arguments.items)))
}

/// Plans this rank's part in `MPI_Exscan` by the given algorithm, which is the same at all ranks.
pub fn exscan_with(arguments: &Allreduce, algorithm: ScanAlgorithm) -> Schedule {
    planned(|plan| scan::exscan(plan, arguments, algorithm))
}
