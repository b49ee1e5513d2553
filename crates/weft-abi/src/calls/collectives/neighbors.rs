//! Collective communication with the neighbours in a virtual topology (MPI-5.0 §8.6).

use super::buffers::{Part, Parts, TypedParts};
use super::sides::{Side, plan_exchange};
use super::{called, run};
use crate::arguments::*;
use crate::types::*;
use weft_mpi::algorithms::{self, NeighbourExchange};
use weft_mpi::error::Result;

/// One exchange: what goes to whom is said by the topology.
///
/// # Safety
/// Buffers and arrays are those of the C prototype.
unsafe fn exchange(form: Form, comm: MPI_Comm, send: Side, receive: Side) -> Result<()> {
    run(
        form,
        comm,
        |process, comm| {
            let neighbours = comm.neighbour_lists()?;
            let (sources, destinations) = (&neighbours.sources, &neighbours.destinations);
            // SAFETY: the caller's promise.
            unsafe {
                plan_exchange(process, (send, destinations.len()), (receive, sources.len()), |send, receive| {
                    algorithms::neighbour_exchange(&NeighbourExchange {
                        rank: comm.rank,
                        sources,
                        destinations,
                        is_grid: neighbours.is_grid,
                        send,
                        receive,
                    })
                })
            }
        },
        // SAFETY: as above.
        |process, comm| unsafe { called::neighbours(process, comm, &send, &receive) },
    )
}

/// MPI_Neighbor_allgather (MPI-5.0 §8.6.1).
pub(crate) fn neighbor_allgather(
    form: Form,
    sendbuf: Buffer,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: Buffer,
    recvcount: i64,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    // SAFETY: the arrays have an element for each neighbour (MPI-5.0 §8.6).
    unsafe { exchange(form, comm, Side::Same(send), Side::Consecutive(receive)) }
}

/// MPI_Neighbor_allgatherv (MPI-5.0 §8.6.1).
pub(crate) unsafe fn neighbor_allgatherv(
    form: Form,
    sendbuf: Buffer,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: Buffer,
    recvcounts: UnmeasuredCounts,
    displs: UnmeasuredCounts,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Parts { buffer: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
    // SAFETY: the arrays have an element for each neighbour (MPI-5.0 §8.6).
    unsafe { exchange(form, comm, Side::Same(send), Side::Listed(receive)) }
}

/// MPI_Neighbor_alltoall (MPI-5.0 §8.6.2).
pub(crate) fn neighbor_alltoall(
    form: Form,
    sendbuf: Buffer,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: Buffer,
    recvcount: i64,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    // SAFETY: the arrays have an element for each neighbour (MPI-5.0 §8.6).
    unsafe { exchange(form, comm, Side::Consecutive(send), Side::Consecutive(receive)) }
}

/// MPI_Neighbor_alltoallv (MPI-5.0 §8.6.2).
pub(crate) unsafe fn neighbor_alltoallv(
    form: Form,
    sendbuf: Buffer,
    sendcounts: UnmeasuredCounts,
    sdispls: UnmeasuredCounts,
    sendtype: MPI_Datatype,
    recvbuf: Buffer,
    recvcounts: UnmeasuredCounts,
    rdispls: UnmeasuredCounts,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Parts { buffer: sendbuf, counts: sendcounts, displacements: sdispls, datatype: sendtype };
    let receive = Parts { buffer: recvbuf, counts: recvcounts, displacements: rdispls, datatype: recvtype };
    // SAFETY: the arrays have an element for each neighbour (MPI-5.0 §8.6).
    unsafe { exchange(form, comm, Side::Listed(send), Side::Listed(receive)) }
}

/// MPI_Neighbor_alltoallw (MPI-5.0 §8.6.2).
pub(crate) unsafe fn neighbor_alltoallw(
    form: Form,
    sendbuf: Buffer,
    sendcounts: UnmeasuredCounts,
    sdispls: UnmeasuredArray<MPI_Aint>,
    sendtypes: UnmeasuredArray<MPI_Datatype>,
    recvbuf: Buffer,
    recvcounts: UnmeasuredCounts,
    rdispls: UnmeasuredArray<MPI_Aint>,
    recvtypes: UnmeasuredArray<MPI_Datatype>,
    comm: MPI_Comm,
) -> Result<()> {
    let (sdispls, rdispls) = (sdispls.into(), rdispls.into());
    let send = TypedParts { buffer: sendbuf, counts: sendcounts, displacements: sdispls, datatypes: sendtypes };
    let receive = TypedParts { buffer: recvbuf, counts: recvcounts, displacements: rdispls, datatypes: recvtypes };
    // SAFETY: the arrays have an element for each neighbour (MPI-5.0 §8.6).
    unsafe { exchange(form, comm, Side::Typed(send), Side::Typed(receive)) }
}
