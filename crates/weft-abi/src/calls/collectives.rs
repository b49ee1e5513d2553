//! Collective communication (MPI-5.0 §6).
//!
//! Each operation is planned once: its schedule and its buffers. The blocking, nonblocking and persistent forms differ in
//! what they do with the plan.
//!
//! # Safety
//! Of what C hands over, arrays of counts, displacements and datatypes have no length beside them: they have
//! an element for each process of the communicator, of its remote group, or of the neighbours (MPI-5.0 §6.5,
//! §8.6), where they are significant. Functions that measure them are unsafe.

mod buffers;
mod called;
mod inter;
pub(crate) mod neighbors;
pub(crate) mod operations;
mod plan;
mod sides;

use crate::arguments::*;
use crate::check::is_in_place;
use crate::constants::*;
use crate::types::*;
use buffers::counts_of;
use buffers::{Part, Parts, TypedParts};
use plan::*;
use sides::Side;
use std::ffi::c_int;
use std::sync::Arc;
use weft_mpi::algorithms::{Barrier, choice};
use weft_mpi::check::{self, Call};
use weft_mpi::collective::{Bound, CollectiveScope};
use weft_mpi::communicator::Agreed;
use weft_mpi::error::{Error, Result};
use weft_mpi::object::Communicator;
use weft_mpi::planner::{self, InMemory};
use weft_mpi::process::{Guard, Process, lock};

/// Does what the form asks with the plan: starts and waits, starts, or keeps it (MPI-5.0 §6, §6.12, §6.13). Where calls are compared, `called`
/// says with what.
#[inline]
fn run(
    form: Form,
    comm: MPI_Comm,
    plan: impl Fn(&Process, &Communicator) -> Result<Plan>,
    called: impl FnOnce(&Process, &Communicator) -> Result<Call>,
) -> Result<()> {
    run_from(form, lock(), comm, None, plan, called)
}

/// The same, and `between` where the communicator is an intercommunicator.
#[inline]
fn run_either(
    form: Form,
    comm: MPI_Comm,
    plan: impl Fn(&Process, &Communicator) -> Result<Plan>,
    called: impl FnOnce(&Process, &Communicator) -> Result<Call>,
    between: impl FnOnce(Guard) -> Result<()>,
) -> Result<()> {
    run_either_from(form, lock(), comm, None, plan, called, between)
}

/// The lock again, for an operation that may be multicast: whether the network carries that is tried before if it is time to.
#[inline]
fn try_multicast(form: Form, mut process: Guard, comm: MPI_Comm, operation: choice::Operation) -> Result<Guard> {
    if let Form::Blocking = form
        && process.tries_multicast(comm.0, operation)
    {
        drop(process);
        weft_mpi::communicator::prepare_multicast(comm.0)?;
        process = lock();
    }
    Ok(process)
}

/// The same for operations that programs repeat: a blocking `call` that was made lately is neither checked nor planned again.
#[inline]
fn run_repeatable(
    form: Form,
    call: planner::Call,
    plan: impl Fn(&Process, &Communicator) -> Result<Plan>,
    called: impl FnOnce(&Process, &Communicator) -> Result<Call>,
    between: impl FnOnce(Guard) -> Result<()>,
) -> Result<()> {
    let mut process = lock();
    if let Form::Blocking = form
        && let Some(bound) = process.planner.repeated(&call)
    {
        let mut place = process.agreement_scope(call.communicator)?;
        process.take_turn(&mut place, bound.schedule());
        return weft_mpi::collective::run(process, place, bound);
    }
    let comm = MPI_Comm(call.communicator);
    process = try_multicast(form, process, comm, call.operation)?;
    run_either_from(form, process, comm, Some(&call), plan, called, between)
}

/// The same, when the lock is held already; a blocking `call` is kept for those that repeat it.
#[inline]
fn run_either_from(
    form: Form,
    process: Guard,
    comm: MPI_Comm,
    call: Option<&planner::Call>,
    plan: impl Fn(&Process, &Communicator) -> Result<Plan>,
    called: impl FnOnce(&Process, &Communicator) -> Result<Call>,
    between: impl FnOnce(Guard) -> Result<()>,
) -> Result<()> {
    if process.objects.communicator(comm.0)?.inter.is_some() {
        return between(process);
    }
    run_from(form, process, comm, call, plan, called)
}

/// Of what a repeatable call consists.
fn call(operation: choice::Operation, comm: MPI_Comm, send: Part, receive: Part) -> planner::Call {
    let words = |part: Part| (part.buffer.addr(), part.count, part.datatype.0);
    planner::Call { operation, communicator: comm.0, send: words(send), receive: words(receive), by: (0, 0) }
}

/// The same, when the lock is held already; a blocking `call` is kept for those that repeat it.
#[inline]
fn run_from(
    form: Form,
    process: Guard,
    comm: MPI_Comm,
    call: Option<&planner::Call>,
    plan: impl Fn(&Process, &Communicator) -> Result<Plan>,
    called: impl FnOnce(&Process, &Communicator) -> Result<Call>,
) -> Result<()> {
    let bind = |process: &Process| {
        let (schedule, arguments) = plan(process, process.objects.communicator(comm.0)?.check_collective()?)?;
        // SAFETY: `Buffer::new` was promised what count and datatype say, until the operation is complete.
        // The schedule was planned for just these, and `weft_mpi` uses it under the process lock, and until
        // then.
        Ok(Arc::new(unsafe { Bound::new(schedule, arguments) }))
    };
    if let Form::Persistent(request) = form {
        return make_persistent(request, process, comm, bind, called);
    }
    let bound = process.planner.at_most(in_memory(form), || bind(&process))?;
    if let (Form::Blocking, Some(call), false) = (form, call, process.checks_calls) {
        process.keep_call(call, &bound);
    }
    run_bound(form, process, comm, |process| process.agreement_scope(comm.0), |_, _| bound, called)
}

/// Where a collective of this form may go through the memory that processes share in the order in which they call.
const fn in_memory(form: Form) -> InMemory {
    match form {
        Form::Blocking => InMemory::Everywhere,
        Form::Nonblocking(_) => InMemory::OnOneNode,
        Form::Persistent(_) => InMemory::Nowhere,
    }
}

/// Makes a persistent collective of what `bind` binds: planned for a slot of its own in the memory of each node, and, where the processes find that
/// there is none for it, once more without.
fn make_persistent(
    request: Out<MPI_Request>,
    mut process: Guard,
    comm: MPI_Comm,
    bind: impl Fn(&Process) -> Result<Arc<Bound>>,
    called: impl FnOnce(&Process, &Communicator) -> Result<Call>,
) -> Result<()> {
    let mut bound = process.planner.apart(|| bind(&process))?;
    if process.checks_calls {
        let call = called(&process, process.objects.communicator(comm.0)?)?;
        let comparison = process.agreement_scope(comm.0)?;
        process = check::check_now(process, comparison, call)?;
    }
    let place = process.agreement_scope(comm.0)?;
    let agreed;
    (process, agreed) = weft_mpi::communicator::agree_on_slot(process, comm.0, &bound)?;
    let slot = match agreed {
        Agreed::NotNeeded => None,
        Agreed::Slot(slot) => slot,
        Agreed::NoneFree => {
            bound = process.planner.by_messages(|| bind(&process))?;
            None
        }
    };
    let handle = process.make_persistent_collective(place, bound, slot)?;
    process.signal();
    request.set(MPI_Request(handle));
    Ok(())
}

/// Does what the form asks with what `bind` binds for the place that `scope` gives. Where calls are compared, that is done first.
#[inline]
fn run_bound(
    form: Form,
    mut process: Guard,
    comm: MPI_Comm,
    scope: impl FnOnce(&mut Process) -> Result<CollectiveScope>,
    bind: impl FnOnce(&Process, &CollectiveScope) -> Arc<Bound>,
    called: impl FnOnce(&Process, &Communicator) -> Result<Call>,
) -> Result<()> {
    if process.checks_calls {
        let call = called(&process, process.objects.communicator(comm.0)?)?;
        let comparison = process.agreement_scope(comm.0)?;
        if let Form::Nonblocking(request) = form {
            let mut place = scope(&mut process)?;
            let bound = bind(&process, &place);
            process.take_turn(&mut place, bound.schedule());
            let handle = process.start_checked(comparison, place, bound, call)?;
            process.signal();
            request.set(MPI_Request(handle));
            return Ok(());
        }
        process = check::check_now(process, comparison, call)?;
    }
    let mut place = scope(&mut process)?;
    let bound = bind(&process, &place);
    process.take_turn(&mut place, bound.schedule());
    start(form, process, place, bound)
}

fn negative_count(count: i64) -> Error {
    Error::new(MPI_ERR_COUNT, format!("the count is {count}; it must not be negative"))
}

/// Does what the form asks with `bound` among the processes of `place`.
#[inline]
fn start(form: Form, mut process: Guard, place: CollectiveScope, bound: impl Into<Arc<Bound>>) -> Result<()> {
    let bound = bound.into();
    let (handle, request) = match form {
        Form::Blocking => return weft_mpi::collective::run(process, place, bound),
        Form::Nonblocking(request) => (process.start_collective(place, bound)?, request),
        Form::Persistent(request) => (process.make_persistent_collective(place, bound, None)?, request),
    };
    process.signal();
    request.set(MPI_Request(handle));
    Ok(())
}

/// MPI_Barrier (MPI-5.0 §6.3).
pub(crate) fn barrier(form: Form, comm: MPI_Comm) -> Result<()> {
    let in_memory = in_memory(form);
    let bind =
        |process: &Process, place: &CollectiveScope| process.planner.at_most(in_memory, || process.barrier(place));
    let process = try_multicast(form, lock(), comm, choice::Operation::Barrier)?;
    if let Form::Persistent(request) = form
        && process.objects.communicator(comm.0)?.inter.is_none()
    {
        let bind = |process: &Process| {
            let comm = process.objects.communicator(comm.0)?;
            Ok(process.plans(comm).barrier(Barrier { rank: comm.rank, size: comm.group.size() }))
        };
        return make_persistent(request, process, comm, bind, called::barrier);
    }
    run_bound(form, process, comm, |process| process.agreement_scope(comm.0), bind, called::barrier)
}

/// MPI_Bcast (MPI-5.0 §6.4).
pub(crate) fn bcast(
    form: Form,
    buffer: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let part = Part { buffer, count, datatype };
    run_repeatable(
        form,
        planner::Call { by: (0, root), ..call(choice::Operation::Bcast, comm, part, part) },
        |process, comm| plan_bcast(process, comm, part, root),
        |process, comm| called::bcast(process, comm, part, root),
        |process| inter::bcast(form, process, comm, part, root),
    )
}

/// MPI_Gather (MPI-5.0 §6.5).
pub(crate) fn gather(
    form: Form,
    sendbuf: Buffer,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: Buffer,
    recvcount: i64,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    run_either(
        form,
        comm,
        |process, comm| plan_gather(process, comm, send, receive, root),
        move |process, comm| called::gather(process, comm, (send, receive), root, true),
        // SAFETY: there are no arrays.
        |process| unsafe {
            inter::rooted(form, process, comm, (Side::Consecutive(receive), Side::Same(send)), root, true)
        },
    )
}

/// MPI_Gatherv (MPI-5.0 §6.5).
pub(crate) unsafe fn gatherv(
    form: Form,
    sendbuf: Buffer,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: Buffer,
    recvcounts: UnmeasuredCounts,
    displs: UnmeasuredCounts,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Parts { buffer: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
    // SAFETY: the arrays have an element for each process of the communicator.
    run_either(
        form,
        comm,
        |process, comm| unsafe { plan_gatherv(process, comm, send, receive, root) },
        move |process, comm| unsafe { called::gatherv(process, comm, (send, receive), root, true) },
        |process| unsafe { inter::rooted(form, process, comm, (Side::Listed(receive), Side::Same(send)), root, true) },
    )
}

/// MPI_Scatter (MPI-5.0 §6.6).
pub(crate) fn scatter(
    form: Form,
    sendbuf: Buffer,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: Buffer,
    recvcount: i64,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    run_either(
        form,
        comm,
        |process, comm| plan_scatter(process, comm, send, receive, root),
        move |process, comm| called::gather(process, comm, (receive, send), root, false),
        // SAFETY: there are no arrays.
        |process| unsafe {
            inter::rooted(form, process, comm, (Side::Consecutive(send), Side::Same(receive)), root, false)
        },
    )
}

/// MPI_Scatterv (MPI-5.0 §6.6).
pub(crate) unsafe fn scatterv(
    form: Form,
    sendbuf: Buffer,
    sendcounts: UnmeasuredCounts,
    displs: UnmeasuredCounts,
    sendtype: MPI_Datatype,
    recvbuf: Buffer,
    recvcount: i64,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    let send = Parts { buffer: sendbuf, counts: sendcounts, displacements: displs, datatype: sendtype };
    // SAFETY: the arrays have an element for each process of the communicator.
    run_either(
        form,
        comm,
        |process, comm| unsafe { plan_scatterv(process, comm, send, receive, root) },
        move |process, comm| unsafe { called::gatherv(process, comm, (receive, send), root, false) },
        |process| unsafe { inter::rooted(form, process, comm, (Side::Listed(send), Side::Same(receive)), root, false) },
    )
}

/// MPI_Allgather (MPI-5.0 §6.7).
pub(crate) fn allgather(
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
    run_repeatable(
        form,
        call(choice::Operation::Allgather, comm, send, receive),
        |process, comm| plan_every(process, comm, send, receive, 1, |plans, shape| plans.allgather(shape)),
        move |process, comm| called::every(process, comm, send, receive),
        // SAFETY: there are no arrays.
        |process| unsafe { inter::exchange(form, process, comm, Side::Same(send), Side::Consecutive(receive)) },
    )
}

/// MPI_Allgatherv (MPI-5.0 §6.7).
pub(crate) unsafe fn allgatherv(
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
    // SAFETY: the arrays have an element for each process of the communicator.
    run_either_from(
        form,
        try_multicast(form, lock(), comm, choice::Operation::Allgather)?,
        comm,
        None,
        |process, comm| unsafe { plan_allgatherv(process, comm, send, receive) },
        move |process, comm| unsafe { called::allgatherv(process, comm, send, receive) },
        |process| unsafe { inter::exchange(form, process, comm, Side::Same(send), Side::Listed(receive)) },
    )
}

/// MPI_Alltoall (MPI-5.0 §6.8).
pub(crate) fn alltoall(
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
    run_repeatable(
        form,
        call(choice::Operation::Alltoall, comm, send, receive),
        |process, comm| {
            plan_every(process, comm, send, receive, comm.group.size(), |plans, shape| plans.alltoall(shape))
        },
        move |process, comm| called::every(process, comm, send, receive),
        // SAFETY: there are no arrays.
        |process| unsafe { inter::exchange(form, process, comm, Side::Consecutive(send), Side::Consecutive(receive)) },
    )
}

/// MPI_Alltoallv (MPI-5.0 §6.8).
pub(crate) unsafe fn alltoallv(
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
    // SAFETY: the arrays have an element for each process of the communicator.
    run_either(
        form,
        comm,
        |process, comm| unsafe { plan_alltoallv(process, comm, send, receive) },
        move |process, comm| unsafe { called::alltoallv(process, comm, send, receive) },
        |process| unsafe { inter::exchange(form, process, comm, Side::Listed(send), Side::Listed(receive)) },
    )
}

/// MPI_Alltoallw (MPI-5.0 §6.8).
pub(crate) unsafe fn alltoallw(
    form: Form,
    sendbuf: Buffer,
    sendcounts: UnmeasuredCounts,
    sdispls: UnmeasuredCounts,
    sendtypes: UnmeasuredArray<MPI_Datatype>,
    recvbuf: Buffer,
    recvcounts: UnmeasuredCounts,
    rdispls: UnmeasuredCounts,
    recvtypes: UnmeasuredArray<MPI_Datatype>,
    comm: MPI_Comm,
) -> Result<()> {
    let send = TypedParts { buffer: sendbuf, counts: sendcounts, displacements: sdispls, datatypes: sendtypes };
    let receive = TypedParts { buffer: recvbuf, counts: recvcounts, displacements: rdispls, datatypes: recvtypes };
    // SAFETY: the arrays have an element for each process of the communicator.
    run_either(
        form,
        comm,
        |process, comm| unsafe { plan_alltoallw(process, comm, send, receive) },
        move |process, comm| unsafe {
            let sent = (!is_in_place(sendbuf.addr())).then_some((sendcounts, sendtypes));
            called::alltoallw(process, comm, sent, (recvcounts, recvtypes))
        },
        |process| unsafe { inter::exchange(form, process, comm, Side::Typed(send), Side::Typed(receive)) },
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
        |process, comm| plan_reduce(process, comm, send, recvbuf, op, root),
        move |process, _| called::reduction(process, (datatype, count as u64), op, Some(root)),
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
        |process, comm| plan_all(process, comm, send, recvbuf, op, |plans, shape| plans.allreduce(shape)),
        |process, _| called::reduction(process, (datatype, count as u64), op, None),
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
        |process, comm| plan_reduce_scatter_block(process, comm, send, recvbuf, op),
        move |process, _| called::reduction(process, (datatype, recvcount as u64), op, None),
        |process| {
            let size = process.objects.communicator(comm.0)?.group.size() as usize;
            let count = u64::try_from(recvcount).map_err(|_| negative_count(recvcount))?;
            inter::reduce_scatter(form, process, comm, send, recvbuf, &vec![count; size], op)
        },
    )
}

/// MPI_Reduce_scatter (MPI-5.0 §6.10.2).
pub(crate) unsafe fn reduce_scatter(
    form: Form,
    sendbuf: Buffer,
    recvbuf: Buffer,
    recvcounts: UnmeasuredCounts,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: 0, datatype };
    // SAFETY: the arrays have an element for each process of the communicator.
    run_either(
        form,
        comm,
        |process, comm| unsafe { plan_reduce_scatter(process, comm, send, recvbuf, recvcounts, op) },
        move |process, comm| {
            // SAFETY: as above.
            let counts = unsafe { counts_of(recvcounts, comm.group.size() as usize, "recvcounts")? };
            called::reduction(process, (datatype, counts.iter().sum()), op, None)
        },
        |process| {
            let size = process.objects.communicator(comm.0)?.group.size() as usize;
            // SAFETY: as above.
            let counts = unsafe { counts_of(recvcounts, size, "recvcounts")? };
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
        |process, comm| plan_all(process, comm, send, recvbuf, op, |plans, shape| plans.scan(shape)),
        move |process, _| called::reduction(process, (datatype, count as u64), op, None),
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
        |process, comm| plan_all(process, comm, send, recvbuf, op, |plans, shape| plans.exscan(shape)),
        move |process, _| called::reduction(process, (datatype, count as u64), op, None),
    )
}
