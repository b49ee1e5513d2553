//! Carries out the form of a collective with its plan: blocking, nonblocking or persistent (MPI-5.0 §6,
//! §6.12, §6.13). Compares calls where that is asked for.
//!
//! What differs from one collective to the next is called by a pointer: a copy of this code for each would
//! take 100 KB of the library.

use super::plan::Plan;
use crate::arguments::*;
use crate::types::*;
use std::sync::Arc;
use weft_mpi::algorithms::choice;
use weft_mpi::check::{self, Call};
use weft_mpi::collective::{Bound, CollectiveScope};
use weft_mpi::communicator::Agreed;
use weft_mpi::error::Result;
use weft_mpi::object::Communicator;
use weft_mpi::planner::{self, InMemory};
use weft_mpi::process::{Guard, Process, lock};

/// Carries out the form with the plan: starts and waits, starts, or keeps the plan (MPI-5.0 §6, §6.12,
/// §6.13). Where calls are compared, `called` gives the arguments to compare.
#[inline]
pub(super) fn run(
    form: Form,
    comm: MPI_Comm,
    plan: &dyn Fn(&Process, &Communicator) -> Result<Plan>,
    called: &dyn Fn(&Process, &Communicator) -> Result<Call>,
) -> Result<()> {
    run_from(form, lock(), comm, None, plan, called)
}

/// Runs as [`run`] does, but with `between` where the communicator is an intercommunicator.
#[inline]
pub(super) fn run_either(
    form: Form,
    comm: MPI_Comm,
    plan: &dyn Fn(&Process, &Communicator) -> Result<Plan>,
    called: &dyn Fn(&Process, &Communicator) -> Result<Call>,
    between: impl FnOnce(Guard) -> Result<()>,
) -> Result<()> {
    run_either_from(form, lock(), comm, None, plan, called, between)
}

/// Tries multicast if it is time to, for an operation that may use it, and returns the lock again.
#[inline]
pub(super) fn try_multicast(
    form: Form,
    mut process: Guard,
    comm: MPI_Comm,
    operation: choice::Operation,
) -> Result<Guard> {
    if let Form::Blocking = form
        && process.tries_multicast(comm.0, operation)
    {
        drop(process);
        weft_mpi::communicator::prepare_multicast(comm.0)?;
        process = lock();
    }
    Ok(process)
}

/// Runs as [`run_either`] does, for operations that programs repeat. A blocking `call` that was made lately
/// is neither checked nor planned again.
#[inline]
pub(super) fn run_repeatable(
    form: Form,
    call: planner::Call,
    plan: &dyn Fn(&Process, &Communicator) -> Result<Plan>,
    called: &dyn Fn(&Process, &Communicator) -> Result<Call>,
    between: impl FnOnce(Guard) -> Result<()>,
) -> Result<()> {
    let mut process = lock();
    if let Form::Blocking = form
        && let Some(bound) = process.planner.repeated(&call)
    {
        let mut scope = process.agreement_scope(call.communicator)?;
        process.take_turn(&mut scope, bound.schedule());
        return weft_mpi::collective::run(process, scope, bound);
    }
    let comm = MPI_Comm(call.communicator);
    process = try_multicast(form, process, comm, call.operation)?;
    run_either_from(form, process, comm, Some(&call), plan, called, between)
}

/// Runs as [`run_either`] does, with the lock held. The schedule of a blocking `call` is kept for calls that
/// repeat it.
#[inline]
pub(super) fn run_either_from(
    form: Form,
    process: Guard,
    comm: MPI_Comm,
    call: Option<&planner::Call>,
    plan: &dyn Fn(&Process, &Communicator) -> Result<Plan>,
    called: &dyn Fn(&Process, &Communicator) -> Result<Call>,
    between: impl FnOnce(Guard) -> Result<()>,
) -> Result<()> {
    if process.objects.communicator(comm.0)?.inter.is_some() {
        return between(process);
    }
    run_from(form, process, comm, call, plan, called)
}

/// The arguments that identify a call that may be repeated: its operation, communicator and buffers.
pub(super) fn call(operation: choice::Operation, comm: MPI_Comm, send: Part, receive: Part) -> planner::Call {
    let words = |part: Part| (part.buffer.addr(), part.count, part.datatype.0);
    planner::Call { operation, communicator: comm.0, send: words(send), receive: words(receive), by: (0, 0) }
}

/// Runs the collective within one group, with the lock held. The schedule of a blocking `call` is kept for
/// calls that repeat it.
pub(super) fn run_from(
    form: Form,
    process: Guard,
    comm: MPI_Comm,
    call: Option<&planner::Call>,
    plan: &dyn Fn(&Process, &Communicator) -> Result<Plan>,
    called: &dyn Fn(&Process, &Communicator) -> Result<Call>,
) -> Result<()> {
    let bind = |process: &Process| {
        let (schedule, arguments) = plan(process, process.objects.communicator(comm.0)?.check_collective()?)?;
        // SAFETY: `Buffer::new` was promised memory as count and datatype say, until the operation is
        // complete. The schedule was planned for exactly these buffers, and `weft_mpi` uses it under the
        // process lock, and only until the operation is complete.
        Ok(Arc::new(unsafe { Bound::new(schedule, arguments) }))
    };
    if let Form::Persistent(request) = form {
        return make_persistent(request, process, comm, &bind, called);
    }
    let bound = process.planner.at_most(in_memory(form), || bind(&process))?;
    if let (Form::Blocking, Some(call), false) = (form, call, process.checks_calls) {
        process.keep_call(call, &bound);
    }
    run_bound(form, process, comm, |process| process.agreement_scope(comm.0), |_, _| bound, called)
}

/// The places where a collective of this form may use memory that processes share in the order in which they
/// call.
pub(super) const fn in_memory(form: Form) -> InMemory {
    match form {
        Form::Blocking => InMemory::Everywhere,
        Form::Nonblocking(_) => InMemory::OnOneNode,
        Form::Persistent(_) => InMemory::Nowhere,
    }
}

/// Makes a persistent collective of what `bind` binds. The collective is planned for its own slot in the
/// memory of each node. Where no slot is free, it is planned once more without a slot.
pub(super) fn make_persistent(
    request: Out<MPI_Request>,
    mut process: Guard,
    comm: MPI_Comm,
    bind: &dyn Fn(&Process) -> Result<Arc<Bound>>,
    called: &dyn Fn(&Process, &Communicator) -> Result<Call>,
) -> Result<()> {
    let mut bound = process.planner.apart(|| bind(&process))?;
    if process.checks_calls {
        let call = called(&process, process.objects.communicator(comm.0)?)?;
        let comparison = process.agreement_scope(comm.0)?;
        process = check::check_now(process, comparison, call)?;
    }
    let scope = process.agreement_scope(comm.0)?;
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
    let handle = process.make_persistent_collective(scope, bound, slot)?;
    process.signal();
    request.set(MPI_Request(handle));
    Ok(())
}

/// Carries out the form with what `bind` binds, for the scope that `scope` returns. Where calls are compared,
/// that comes first.
#[inline]
pub(super) fn run_bound(
    form: Form,
    mut process: Guard,
    comm: MPI_Comm,
    scope: impl FnOnce(&mut Process) -> Result<CollectiveScope>,
    bind: impl FnOnce(&Process, &CollectiveScope) -> Arc<Bound>,
    called: &dyn Fn(&Process, &Communicator) -> Result<Call>,
) -> Result<()> {
    if process.checks_calls {
        let call = called(&process, process.objects.communicator(comm.0)?)?;
        let comparison = process.agreement_scope(comm.0)?;
        if let Form::Nonblocking(request) = form {
            let mut scope = scope(&mut process)?;
            let bound = bind(&process, &scope);
            process.take_turn(&mut scope, bound.schedule());
            let handle = process.start_checked(comparison, scope, bound, call)?;
            process.signal();
            request.set(MPI_Request(handle));
            return Ok(());
        }
        process = check::check_now(process, comparison, call)?;
    }
    let mut scope = scope(&mut process)?;
    let bound = bind(&process, &scope);
    process.take_turn(&mut scope, bound.schedule());
    start(form, process, scope, bound)
}

/// Carries out the form with `bound` among the processes of `scope`.
#[inline]
pub(super) fn start(
    form: Form,
    mut process: Guard,
    scope: CollectiveScope,
    bound: impl Into<Arc<Bound>>,
) -> Result<()> {
    let bound = bound.into();
    let (handle, request) = match form {
        Form::Blocking => return weft_mpi::collective::run(process, scope, bound),
        Form::Nonblocking(request) => (process.start_collective(scope, bound)?, request),
        Form::Persistent(request) => (process.make_persistent_collective(scope, bound, None)?, request),
    };
    process.signal();
    request.set(MPI_Request(handle));
    Ok(())
}
