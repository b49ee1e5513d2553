//! The nonblocking collectives (MPI-5.0 §6.12).
//!
//! # Safety
//! As for the blocking ones; buffers stay valid until the request is complete.

use super::plan::*;
use crate::types::*;
use std::ffi::{c_int, c_void};
use weft_mpi::algorithms;
use weft_mpi::error::Result;
use weft_mpi::object::Communicator;
use weft_mpi::process::{Process, with};

/// Nonblocking: start.
unsafe fn start(
    comm: MPI_Comm,
    request: *mut MPI_Request,
    plan: impl FnOnce(&Process, &Communicator) -> Result<Plan>,
) -> Result<()> {
    with(|process| {
        let (schedule, arguments) = plan(process, process.objects.communicator(comm.0)?)?;
        let handle = process.start_collective(comm.0, schedule, arguments)?;
        // SAFETY: the caller's pointer.
        unsafe { *request = MPI_Request(handle) };
        Ok(())
    })
}

/// MPI_Ibarrier (MPI-5.0 §6.12).
pub(crate) unsafe fn ibarrier(comm: MPI_Comm, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, plan_barrier) }
}

/// MPI_Ibcast (MPI-5.0 §6.12).
pub(crate) unsafe fn ibcast(
    buffer: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_bcast(process, comm, Part { buffer, count, datatype }, root)) }
}

/// MPI_Igather (MPI-5.0 §6.12).
pub(crate) unsafe fn igather(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_gather(process, comm, send, receive, root)) }
}

/// MPI_Igatherv (MPI-5.0 §6.12).
pub(crate) unsafe fn igatherv(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Counts,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Parts { buffer: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_gatherv(process, comm, send, receive, root)) }
}

/// MPI_Iscatter (MPI-5.0 §6.12).
pub(crate) unsafe fn iscatter(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_scatter(process, comm, send, receive, root)) }
}

/// MPI_Iscatterv (MPI-5.0 §6.12).
pub(crate) unsafe fn iscatterv(
    sendbuf: *const c_void,
    sendcounts: Counts,
    displs: Counts,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    let send = Parts { buffer: sendbuf, counts: sendcounts, displacements: displs, datatype: sendtype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_scatterv(process, comm, send, receive, root)) }
}

/// MPI_Iallgather (MPI-5.0 §6.12).
pub(crate) unsafe fn iallgather(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_every(process, comm, send, receive, algorithms::allgather)) }
}

/// MPI_Iallgatherv (MPI-5.0 §6.12).
pub(crate) unsafe fn iallgatherv(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Counts,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Parts { buffer: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_allgatherv(process, comm, send, receive)) }
}

/// MPI_Ialltoall (MPI-5.0 §6.12).
pub(crate) unsafe fn ialltoall(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_every(process, comm, send, receive, algorithms::alltoall)) }
}

/// MPI_Ialltoallv (MPI-5.0 §6.12).
pub(crate) unsafe fn ialltoallv(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Parts { buffer: sendbuf, counts: sendcounts, displacements: sdispls, datatype: sendtype };
    let receive = Parts { buffer: recvbuf, counts: recvcounts, displacements: rdispls, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_alltoallv(process, comm, send, receive)) }
}

/// MPI_Ialltoallw (MPI-5.0 §6.12).
pub(crate) unsafe fn ialltoallw(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = TypedParts { buffer: sendbuf, counts: sendcounts, displacements: sdispls, datatypes: sendtypes };
    let receive = TypedParts { buffer: recvbuf, counts: recvcounts, displacements: rdispls, datatypes: recvtypes };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_alltoallw(process, comm, send, receive)) }
}

/// MPI_Ireduce (MPI-5.0 §6.12).
pub(crate) unsafe fn ireduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_reduce(process, comm, send, recvbuf, op, root)) }
}

/// MPI_Iallreduce (MPI-5.0 §6.12).
pub(crate) unsafe fn iallreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_all(process, comm, send, recvbuf, op, algorithms::allreduce)) }
}

/// MPI_Ireduce_scatter_block (MPI-5.0 §6.12).
pub(crate) unsafe fn ireduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: recvcount, datatype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_reduce_scatter_block(process, comm, send, recvbuf, op)) }
}

/// MPI_Ireduce_scatter (MPI-5.0 §6.12).
pub(crate) unsafe fn ireduce_scatter(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: 0, datatype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_reduce_scatter(process, comm, send, recvbuf, recvcounts, op)) }
}

/// MPI_Iscan (MPI-5.0 §6.12).
pub(crate) unsafe fn iscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_all(process, comm, send, recvbuf, op, algorithms::scan)) }
}

/// MPI_Iexscan (MPI-5.0 §6.12).
pub(crate) unsafe fn iexscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_all(process, comm, send, recvbuf, op, algorithms::exscan)) }
}
