//! Collective communication (MPI-5.0 §6).
//!
//! Each operation is planned once: its schedule and its buffers. The blocking, nonblocking and persistent
//! forms use the same plan in different ways.
//!
//! C passes arrays of counts, displacements and datatypes without a length. Where they are significant, they
//! have an element for each process of the communicator, of its remote group, or of the neighbours (MPI-5.0
//! §6.5, §8.6). Only [`Partners`] measures them.

mod buffers;
mod called;
mod inter;
pub(crate) mod neighbors;
pub(crate) mod operations;
mod plan;
mod running;
mod sides;

use crate::arguments::*;
use crate::constants::*;
use crate::types::*;
use buffers::{Partners, counts_of};
use plan::*;
use running::*;
use sides::Side;
use std::ffi::c_int;
use weft_mpi::algorithms::{Barrier, choice};
use weft_mpi::collective::CollectiveScope;
use weft_mpi::error::{Error, Result};
use weft_mpi::planner;
use weft_mpi::process::{Process, lock};

fn negative_count(count: i64) -> Error {
    Error::new(MPI_ERR_COUNT, format!("the count is {count}; it must not be negative"))
}

/// MPI_Barrier (MPI-5.0 §6.3).
pub(crate) fn barrier(form: Form, comm: MPI_Comm) -> Result<()> {
    let in_memory = in_memory(form);
    let bind =
        |process: &Process, scope: &CollectiveScope| process.planner.at_most(in_memory, || process.barrier(scope));
    let process = try_multicast(form, lock(), comm, choice::Operation::Barrier)?;
    if let Form::Persistent(request) = form
        && process.objects.communicator(comm.0)?.inter.is_none()
    {
        let bind = |process: &Process| {
            let comm = process.objects.communicator(comm.0)?;
            Ok(process.plans(comm).barrier(Barrier { rank: comm.rank, size: comm.group.size() }))
        };
        return make_persistent(request, process, comm, &bind, &called::barrier);
    }
    run_bound(form, process, comm, |process| process.agreement_scope(comm.0), bind, &called::barrier)
}

/// MPI_Bcast (MPI-5.0 §6.4).
pub(crate) fn bcast(form: Form, part: Part, root: c_int, comm: MPI_Comm) -> Result<()> {
    run_repeatable(
        form,
        planner::Call { by: (0, root), ..call(choice::Operation::Bcast, comm, part, part) },
        &|process, comm| plan_bcast(process, comm, part, root),
        &|process, comm| called::bcast(process, comm, part, root),
        |process| inter::bcast(form, process, comm, part, root),
    )
}

/// MPI_Gather (MPI-5.0 §6.5).
pub(crate) fn gather(form: Form, send: Part, receive: Part, root: c_int, comm: MPI_Comm) -> Result<()> {
    run_either(
        form,
        comm,
        &|process, comm| plan_gather(process, comm, send, receive, root),
        &|process, comm| called::gather(process, comm, (send, receive), root, true),
        |process| inter::rooted(form, process, comm, (Side::Consecutive(receive), Side::Same(send)), root, true),
    )
}

/// MPI_Gatherv (MPI-5.0 §6.5).
pub(crate) fn gatherv(form: Form, send: Part, receive: Parts, root: c_int, comm: MPI_Comm) -> Result<()> {
    run_either(
        form,
        comm,
        &|process, comm| plan_gatherv(process, comm, send, receive, root),
        &|process, comm| called::gatherv(process, comm, (send, receive), root, true),
        |process| inter::rooted(form, process, comm, (Side::Listed(receive), Side::Same(send)), root, true),
    )
}

/// MPI_Scatter (MPI-5.0 §6.6).
pub(crate) fn scatter(form: Form, send: Part, receive: Part, root: c_int, comm: MPI_Comm) -> Result<()> {
    run_either(
        form,
        comm,
        &|process, comm| plan_scatter(process, comm, send, receive, root),
        &|process, comm| called::gather(process, comm, (receive, send), root, false),
        |process| inter::rooted(form, process, comm, (Side::Consecutive(send), Side::Same(receive)), root, false),
    )
}

/// MPI_Scatterv (MPI-5.0 §6.6).
pub(crate) fn scatterv(form: Form, send: Parts, receive: Part, root: c_int, comm: MPI_Comm) -> Result<()> {
    run_either(
        form,
        comm,
        &|process, comm| plan_scatterv(process, comm, send, receive, root),
        &|process, comm| called::gatherv(process, comm, (receive, send), root, false),
        |process| inter::rooted(form, process, comm, (Side::Listed(send), Side::Same(receive)), root, false),
    )
}

/// MPI_Allgather (MPI-5.0 §6.7).
pub(crate) fn allgather(form: Form, send: Part, receive: Part, comm: MPI_Comm) -> Result<()> {
    run_repeatable(
        form,
        call(choice::Operation::Allgather, comm, send, receive),
        &|process, comm| plan_every(process, comm, send, receive, 1, |plans, shape| plans.allgather(shape)),
        &|process, comm| called::every(process, comm, send, receive),
        |process| inter::exchange(form, process, comm, Side::Same(send), Side::Consecutive(receive)),
    )
}

/// MPI_Allgatherv (MPI-5.0 §6.7).
pub(crate) fn allgatherv(form: Form, send: Part, receive: Parts, comm: MPI_Comm) -> Result<()> {
    run_either_from(
        form,
        try_multicast(form, lock(), comm, choice::Operation::Allgather)?,
        comm,
        None,
        &|process, comm| plan_allgatherv(process, comm, send, receive),
        &|process, comm| called::allgatherv(process, comm, send, receive),
        |process| inter::exchange(form, process, comm, Side::Same(send), Side::Listed(receive)),
    )
}

/// MPI_Alltoall (MPI-5.0 §6.8).
pub(crate) fn alltoall(form: Form, send: Part, receive: Part, comm: MPI_Comm) -> Result<()> {
    run_repeatable(
        form,
        call(choice::Operation::Alltoall, comm, send, receive),
        &|process, comm| {
            plan_every(process, comm, send, receive, comm.group.size(), |plans, shape| plans.alltoall(shape))
        },
        &|process, comm| called::every(process, comm, send, receive),
        |process| inter::exchange(form, process, comm, Side::Consecutive(send), Side::Consecutive(receive)),
    )
}

/// MPI_Alltoallv (MPI-5.0 §6.8).
pub(crate) fn alltoallv(form: Form, send: Parts, receive: Parts, comm: MPI_Comm) -> Result<()> {
    run_either(
        form,
        comm,
        &|process, comm| plan_alltoallv(process, comm, send, receive),
        &|process, comm| called::alltoallv(process, comm, send, receive),
        |process| inter::exchange(form, process, comm, Side::Listed(send), Side::Listed(receive)),
    )
}

/// MPI_Alltoallw (MPI-5.0 §6.8).
pub(crate) fn alltoallw(form: Form, send: TypedParts, receive: TypedParts, comm: MPI_Comm) -> Result<()> {
    run_either(
        form,
        comm,
        &|process, comm| plan_alltoallw(process, comm, send, receive),
        &|process, comm| called::alltoallw(process, comm, send, receive),
        |process| inter::exchange(form, process, comm, Side::Typed(send), Side::Typed(receive)),
    )
}

/// MPI_Reduce (MPI-5.0 §6.9.1).
pub(crate) fn reduce(
    form: Form,
    sendbuf: Buffer,
    recvbuf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    let receive = Part { buffer: recvbuf, ..send };
    run_repeatable(
        form,
        planner::Call { by: (op.0, root), ..call(choice::Operation::Reduce, comm, send, receive) },
        &|process, comm| plan_reduce(process, comm, send, recvbuf, op, root),
        &|process, _| called::reduction(process, (datatype, count as u64), op, Some(root)),
        |process| inter::reduce(form, process, comm, send, recvbuf, op, root),
    )
}

/// MPI_Allreduce (MPI-5.0 §6.9.6).
pub(crate) fn allreduce(
    form: Form,
    sendbuf: Buffer,
    recvbuf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    let receive = Part { buffer: recvbuf, ..send };
    run_repeatable(
        form,
        planner::Call { by: (op.0, 0), ..call(choice::Operation::Allreduce, comm, send, receive) },
        &|process, comm| plan_all(process, comm, send, recvbuf, op, |plans, shape| plans.allreduce(shape)),
        &|process, _| called::reduction(process, (datatype, count as u64), op, None),
        |process| inter::allreduce(form, process, comm, send, recvbuf, op),
    )
}

/// MPI_Reduce_scatter_block (MPI-5.0 §6.10.1).
pub(crate) fn reduce_scatter_block(
    form: Form,
    sendbuf: Buffer,
    recvbuf: Buffer,
    recvcount: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: recvcount, datatype };
    run_either(
        form,
        comm,
        &|process, comm| plan_reduce_scatter_block(process, comm, send, recvbuf, op),
        &|process, _| called::reduction(process, (datatype, recvcount as u64), op, None),
        |process| {
            let size = process.objects.communicator(comm.0)?.group.size() as usize;
            let count = u64::try_from(recvcount).map_err(|_| negative_count(recvcount))?;
            inter::reduce_scatter(form, process, comm, send, recvbuf, &vec![count; size], op)
        },
    )
}

/// MPI_Reduce_scatter (MPI-5.0 §6.10.2).
pub(crate) fn reduce_scatter(
    form: Form,
    sendbuf: Buffer,
    recvbuf: Buffer,
    recvcounts: UnmeasuredCounts,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: 0, datatype };
    run_either(
        form,
        comm,
        &|process, comm| plan_reduce_scatter(process, comm, send, recvbuf, recvcounts, op),
        &|process, comm| {
            let counts = counts_of(recvcounts, Partners::of(comm), "recvcounts")?;
            called::reduction(process, (datatype, counts.iter().sum()), op, None)
        },
        |process| {
            let partners = Partners::of(process.objects.communicator(comm.0)?);
            let counts = counts_of(recvcounts, partners, "recvcounts")?;
            inter::reduce_scatter(form, process, comm, send, recvbuf, &counts, op)
        },
    )
}

/// MPI_Scan (MPI-5.0 §6.11.1).
pub(crate) fn scan(
    form: Form,
    sendbuf: Buffer,
    recvbuf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    run(
        form,
        comm,
        &|process, comm| plan_all(process, comm, send, recvbuf, op, |plans, shape| plans.scan(shape)),
        &|process, _| called::reduction(process, (datatype, count as u64), op, None),
    )
}

/// MPI_Exscan (MPI-5.0 §6.11.2).
pub(crate) fn exscan(
    form: Form,
    sendbuf: Buffer,
    recvbuf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    run(
        form,
        comm,
        &|process, comm| plan_all(process, comm, send, recvbuf, op, |plans, shape| plans.exscan(shape)),
        &|process, _| called::reduction(process, (datatype, count as u64), op, None),
    )
}
