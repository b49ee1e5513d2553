//! Collectives on intercommunicators (MPI-5.0 §6.2.3). A barrier is one of all processes of both groups, and needs nothing of its own.

use super::buffers::Part;
use super::buffers::check_apart;
use super::plan::{describe_bcast, operands, operation, reduction, refuse_in_place, root_rank};
use super::sides::{Side, plan_exchange};
use super::start;
use crate::generated::constants::*;
use crate::types::*;
use std::ffi::{c_int, c_void};
use weft_mpi::algorithms;
use weft_mpi::collective::{Bound, CollectiveScope};
use weft_mpi::error::Result;
use weft_mpi::object::Group;
use weft_mpi::process::Guard;

/// What a process is in a rooted operation: `root` is MPI_ROOT at the root, MPI_PROC_NULL at the others of its group, and its rank at all of
/// the other group.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Root,
    Absent,
    /// Of the group that the root is not in.
    Member(u32),
}

fn role(process: &Guard, comm: MPI_Comm, root: c_int) -> Result<Role> {
    Ok(match root {
        MPI_PROC_NULL => Role::Absent,
        MPI_ROOT => Role::Root,
        root => Role::Member(root_rank(process.objects.communicator(comm.0)?, root)?),
    })
}

/// The scope of the operation; a process that is absent is alone in its own.
fn scope(process: &mut Guard, comm: MPI_Comm, role: Role) -> Result<CollectiveScope> {
    match role {
        Role::Root => process.rooted_scope(comm.0, None),
        Role::Member(root) => process.rooted_scope(comm.0, Some(root)),
        Role::Absent => {
            let place = process.agreement_scope(comm.0)?;
            let own = process.own();
            Ok(CollectiveScope { group: Group::new(vec![own], own), rank: 0, ..place })
        }
    }
}

/// A process of the root's group has nothing to do; the call counts as a collective nevertheless.
fn do_nothing(form: Form, mut process: Guard, comm: MPI_Comm) -> Result<()> {
    let place = scope(&mut process, comm, Role::Absent)?;
    let nothing = process.planner.by_messages(|| process.barrier(&place));
    start(form, process, place, nothing)
}

/// MPI_Bcast.
pub(super) fn bcast(form: Form, mut process: Guard, comm: MPI_Comm, part: Part, root: c_int) -> Result<()> {
    let role = role(&process, comm, root)?;
    if role == Role::Absent {
        return do_nothing(form, process, comm);
    }
    let (items, arguments) = describe_bcast(&process, part)?;
    let place = scope(&mut process, comm, role)?;
    let shape = algorithms::Bcast { rank: place.rank, size: place.group.size(), root: 0, items };
    // SAFETY: the contract of every function of this chapter: the buffer holds what count and datatype say until the collective is
    // complete; the schedule was planned for just that. `weft_mpi` uses it under the process lock, and until then.
    let bound = unsafe { Bound::new(process.plans_apart(shape.size).bcast(&shape), arguments) };
    start(form, process, place, bound)
}

/// MPI_Gather, MPI_Gatherv, MPI_Scatter, MPI_Scatterv: the root has a block with each process of the other group, `of_root`, and each of these one with
/// the root, `of_member`.
///
/// # Safety
/// At the root, arrays have an element for each process of the remote group.
pub(super) unsafe fn rooted(
    form: Form,
    mut process: Guard,
    comm: MPI_Comm,
    (of_root, of_member): (Side, Side),
    root: c_int,
    to_root: bool,
) -> Result<()> {
    let role = role(&process, comm, root)?;
    let own = match role {
        Role::Absent => return do_nothing(form, process, comm),
        Role::Root => of_root,
        Role::Member(_) => of_member,
    };
    let others = match role {
        Role::Root => process.objects.communicator(comm.0)?.addressed.size(),
        _ => 1,
    };
    let receives = to_root == (role == Role::Root);
    let (send, receive) = if receives { (Side::Nothing, own) } else { (own, Side::Nothing) };
    let (sources, destinations): (Vec<_>, Vec<_>) = {
        let first = u32::from(role == Role::Root);
        let all: Vec<Option<u32>> = (first..first + others).map(Some).collect();
        if receives { (all, Vec::new()) } else { (Vec::new(), all) }
    };
    let rank = if let Role::Root = role { 0 } else { process.objects.communicator(comm.0)?.rank + 1 };
    // SAFETY: the caller's promise.
    let (schedule, arguments) = unsafe {
        plan_exchange(&process, (send, destinations.len()), (receive, sources.len()), |send, receive| {
            algorithms::neighbour_exchange(&algorithms::NeighbourExchange {
                rank,
                sources: &sources,
                destinations: &destinations,
                is_grid: false,
                send,
                receive,
            })
        })?
    };
    let place = scope(&mut process, comm, role)?;
    // SAFETY: as for the broadcast.
    let bound = unsafe { Bound::new(schedule, arguments) };
    start(form, process, place, bound)
}

/// MPI_Allgather, MPI_Alltoall and their forms with counts and datatypes.
///
/// # Safety
/// Arrays have an element for each process of the remote group.
pub(super) unsafe fn exchange(form: Form, mut process: Guard, comm: MPI_Comm, send: Side, receive: Side) -> Result<()> {
    let object = process.objects.communicator(comm.0)?;
    let (remote, inter) = object.remote()?;
    let (rank, size, remote_size, is_first) = (object.rank, object.group.size(), remote.size(), inter.is_first);
    let others = remote_size as usize;
    // SAFETY: the caller's promise.
    let (schedule, arguments) = unsafe {
        plan_exchange(&process, (send, others), (receive, others), |send, receive| {
            algorithms::exchange_between(&algorithms::ExchangeBetween {
                rank,
                size,
                remote_size,
                is_first,
                send,
                receive,
            })
        })?
    };
    let place = process.agreement_scope(comm.0)?;
    // SAFETY: as for the broadcast.
    let bound = unsafe { Bound::new(schedule, arguments) };
    start(form, process, place, bound)
}

/// MPI_Reduce.
pub(super) fn reduce(
    form: Form,
    mut process: Guard,
    comm: MPI_Comm,
    send: Part,
    recvbuf: *mut c_void,
    op: MPI_Op,
    root: c_int,
) -> Result<()> {
    let role = role(&process, comm, root)?;
    let own = match role {
        Role::Absent => return do_nothing(form, process, comm),
        Role::Root => {
            refuse_in_place(recvbuf, "recvbuf")?;
            Part { buffer: recvbuf, ..send }
        }
        Role::Member(_) => {
            refuse_in_place(send.buffer, "sendbuf")?;
            send
        }
    };
    let (items, description) = own.describe(&process, 1)?;
    let operation = operation(&process, op, &description)?;
    let commutative = operation.is_commutative();
    let place = scope(&mut process, comm, role)?;
    let shape = algorithms::ReduceBetween { rank: place.rank, size: place.group.size(), items, commutative };
    let schedule = algorithms::reduce_between(&shape, process.choices());
    // SAFETY: as for the broadcast.
    let bound = unsafe { Bound::new(schedule, reduction(send, recvbuf, description, operation)) };
    start(form, process, place, bound)
}

/// MPI_Reduce_scatter, and with the same count for each MPI_Reduce_scatter_block: `counts` are those of the own group.
pub(super) fn reduce_scatter(
    form: Form,
    mut process: Guard,
    comm: MPI_Comm,
    send: Part,
    recvbuf: *mut c_void,
    counts: &[u64],
    op: MPI_Op,
) -> Result<()> {
    let object = process.objects.communicator(comm.0)?;
    let (remote, inter) = object.remote()?;
    let (rank, size, remote_size, is_first) = (object.rank, object.group.size(), remote.size(), inter.is_first);
    let sum = counts.iter().try_fold(0_i64, |sum, count| sum.checked_add_unsigned(*count)).unwrap_or(i64::MAX);
    let sent = Part { count: sum, ..send };
    let received = Part { buffer: recvbuf, count: counts[rank as usize] as i64, ..send };
    refuse_in_place(send.buffer, "sendbuf")?;
    refuse_in_place(recvbuf, "recvbuf")?;
    let (items, description) = sent.describe(&process, 1)?;
    received.describe(&process, 1)?;
    let layout = &description.layout;
    check_apart(Some(sent.footprint(1, layout)), Some(received.footprint(1, layout)))?;
    let operation = operation(&process, op, &description)?;
    let shape = algorithms::ReduceScatterBetween {
        rank,
        size,
        remote_size,
        is_first,
        counts,
        shape: items.shape,
        commutative: operation.is_commutative(),
    };
    let schedule = algorithms::reduce_scatter_between(&shape, process.choices());
    let place = process.agreement_scope(comm.0)?;
    // SAFETY: as for the broadcast.
    let bound = unsafe { Bound::new(schedule, reduction(send, recvbuf, description, operation)) };
    start(form, process, place, bound)
}

/// MPI_Allreduce: each group gets the result of the other (MPI-5.0 §6.9.6).
pub(super) fn allreduce(
    form: Form,
    mut process: Guard,
    comm: MPI_Comm,
    send: Part,
    recvbuf: *mut c_void,
    op: MPI_Op,
) -> Result<()> {
    refuse_in_place(send.buffer, "sendbuf")?;
    let (items, description) = operands(&process, send, Some(recvbuf), (1, 1))?;
    let operation = operation(&process, op, &description)?;
    let object = process.objects.communicator(comm.0)?;
    let (remote, inter) = object.remote()?;
    let shape = algorithms::AllreduceBetween {
        rank: object.rank,
        size: object.group.size(),
        remote_size: remote.size(),
        is_first: inter.is_first,
        items,
        commutative: operation.is_commutative(),
    };
    let schedule = algorithms::allreduce_between(&shape, process.choices());
    let place = process.agreement_scope(comm.0)?;
    // SAFETY: as for the broadcast.
    let bound = unsafe { Bound::new(schedule, reduction(send, recvbuf, description, operation)) };
    start(form, process, place, bound)
}
