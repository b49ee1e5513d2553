//! The persistent collectives (MPI-5.0 §6.13).
//!
//! # Safety
//! As for the blocking ones; buffers stay valid while the request is active.

use super::plan::*;
use crate::types::*;
use std::ffi::{c_int, c_void};
use weft_mpi::algorithms;
use weft_mpi::error::Result;
use weft_mpi::object::Communicator;
use weft_mpi::process::{Process, with};

/// Persistent: keep.
unsafe fn keep(
    comm: MPI_Comm,
    request: *mut MPI_Request,
    plan: impl FnOnce(&Process, &Communicator) -> Result<Plan>,
) -> Result<()> {
    with(|process| {
        let (schedule, arguments) = plan(process, process.objects.communicator(comm.0)?)?;
        let handle = process.make_persistent_collective(comm.0, schedule, arguments)?;
        // SAFETY: the caller's pointer.
        unsafe { *request = MPI_Request(handle) };
        Ok(())
    })
}

/// MPI_Barrier_init (MPI-5.0 §6.13).
pub(crate) unsafe fn barrier_init(comm: MPI_Comm, _info: MPI_Info, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, plan_barrier) }
}

/// MPI_Bcast_init (MPI-5.0 §6.13).
pub(crate) unsafe fn bcast_init(
    buffer: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_bcast(process, comm, Part { buffer, count, datatype }, root)) }
}

/// MPI_Gather_init (MPI-5.0 §6.13).
pub(crate) unsafe fn gather_init(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_gather(process, comm, send, receive, root)) }
}

/// MPI_Gatherv_init (MPI-5.0 §6.13).
pub(crate) unsafe fn gatherv_init(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Counts,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Parts { buffer: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_gatherv(process, comm, send, receive, root)) }
}

/// MPI_Scatter_init (MPI-5.0 §6.13).
pub(crate) unsafe fn scatter_init(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_scatter(process, comm, send, receive, root)) }
}

/// MPI_Scatterv_init (MPI-5.0 §6.13).
pub(crate) unsafe fn scatterv_init(
    sendbuf: *const c_void,
    sendcounts: Counts,
    displs: Counts,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    let send = Parts { buffer: sendbuf, counts: sendcounts, displacements: displs, datatype: sendtype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_scatterv(process, comm, send, receive, root)) }
}

/// MPI_Allgather_init (MPI-5.0 §6.13).
pub(crate) unsafe fn allgather_init(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_every(process, comm, send, receive, algorithms::allgather)) }
}

/// MPI_Allgatherv_init (MPI-5.0 §6.13).
pub(crate) unsafe fn allgatherv_init(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Counts,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Parts { buffer: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_allgatherv(process, comm, send, receive)) }
}

/// MPI_Alltoall_init (MPI-5.0 §6.13).
pub(crate) unsafe fn alltoall_init(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_every(process, comm, send, receive, algorithms::alltoall)) }
}

/// MPI_Alltoallv_init (MPI-5.0 §6.13).
pub(crate) unsafe fn alltoallv_init(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Parts { buffer: sendbuf, counts: sendcounts, displacements: sdispls, datatype: sendtype };
    let receive = Parts { buffer: recvbuf, counts: recvcounts, displacements: rdispls, datatype: recvtype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_alltoallv(process, comm, send, receive)) }
}

/// MPI_Alltoallw_init (MPI-5.0 §6.13).
pub(crate) unsafe fn alltoallw_init(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = TypedParts { buffer: sendbuf, counts: sendcounts, displacements: sdispls, datatypes: sendtypes };
    let receive = TypedParts { buffer: recvbuf, counts: recvcounts, displacements: rdispls, datatypes: recvtypes };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_alltoallw(process, comm, send, receive)) }
}

/// MPI_Reduce_init (MPI-5.0 §6.13).
pub(crate) unsafe fn reduce_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_reduce(process, comm, send, recvbuf, op, root)) }
}

/// MPI_Allreduce_init (MPI-5.0 §6.13).
pub(crate) unsafe fn allreduce_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_all(process, comm, send, recvbuf, op, algorithms::allreduce)) }
}

/// MPI_Reduce_scatter_block_init (MPI-5.0 §6.13).
pub(crate) unsafe fn reduce_scatter_block_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: recvcount, datatype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_reduce_scatter_block(process, comm, send, recvbuf, op)) }
}

/// MPI_Reduce_scatter_init (MPI-5.0 §6.13).
pub(crate) unsafe fn reduce_scatter_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: 0, datatype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_reduce_scatter(process, comm, send, recvbuf, recvcounts, op)) }
}

/// MPI_Scan_init (MPI-5.0 §6.13).
pub(crate) unsafe fn scan_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_all(process, comm, send, recvbuf, op, algorithms::scan)) }
}

/// MPI_Exscan_init (MPI-5.0 §6.13).
pub(crate) unsafe fn exscan_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_all(process, comm, send, recvbuf, op, algorithms::exscan)) }
}
