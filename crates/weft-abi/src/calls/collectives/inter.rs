//! Collectives on intercommunicators (MPI-5.0 §6.2.3). A barrier is one of all processes of both groups, and
//! needs no code here.

use super::buffers::{Partners, check_apart};
use super::plan::{describe_bcast, operands, operation, reduction, refuse_in_place, root_rank};
use super::sides::{Role, Side, plan_exchange};
use super::{called, run_bound};
use crate::arguments::*;
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use std::sync::Arc;
use weft_mpi::algorithms::{self, Schedule};
use weft_mpi::check::Call;
use weft_mpi::collective::{Arguments, Bound, CollectiveScope};
use weft_mpi::error::Result;
use weft_mpi::object::{Communicator, Group};
use weft_mpi::process::{Guard, Process};

fn role(process: &Guard, comm: MPI_Comm, root: c_int) -> Result<Role> {
    Ok(match root {
        MPI_PROC_NULL => Role::Absent,
        MPI_ROOT => Role::Root,
        root => Role::Member(root_rank(process.objects.communicator(comm.0)?, root)?),
    })
}

/// The scope of the operation. A process that is absent is alone in its scope.
fn scope(process: &mut Process, comm: MPI_Comm, role: Role) -> Result<CollectiveScope> {
    match role {
        Role::Root => process.rooted_scope(comm.0, None),
        Role::Member(root) => process.rooted_scope(comm.0, Some(root)),
        Role::Absent => {
            let scope = process.agreement_scope(comm.0)?;
            let own = process.own();
            Ok(CollectiveScope { group: Group::new(vec![own], own), rank: 0, ..scope })
        }
    }
}

/// Completes the call of a process of the root's group, which has no part. The call counts as a collective
/// nevertheless.
fn do_nothing(form: Form, process: Guard, comm: MPI_Comm) -> Result<()> {
    let called =
        |process: &Process, comm: &Communicator| Ok(Call { is_absent: true, ..called::barrier(process, comm)? });
    run_bound(form, process, comm, |process| scope(process, comm, Role::Absent), Process::barrier, &called)
}

/// Carries out the form with this schedule and these buffers, in the scope of a role, or of all processes of
/// both groups.
fn run_planned(
    form: Form,
    process: Guard,
    comm: MPI_Comm,
    role: Option<Role>,
    schedule: impl Into<Arc<Schedule>>,
    arguments: Arguments,
    called: &dyn Fn(&Process, &Communicator) -> Result<Call>,
) -> Result<()> {
    // SAFETY: as in `running`.
    let bound = Arc::new(unsafe { Bound::new(schedule, arguments) });
    let scope = |process: &mut Process| match role {
        Some(role) => scope(process, comm, role),
        None => process.agreement_scope(comm.0),
    };
    run_bound(form, process, comm, scope, |_, _| bound, called)
}

/// The rank in the scope of a role that is not absent, and the number of processes in the scope.
fn seat(process: &Process, comm: MPI_Comm, role: Role) -> Result<(u32, u32)> {
    let comm = process.objects.communicator(comm.0)?;
    Ok(match role {
        Role::Root => (0, comm.partners().size() + 1),
        _ => (comm.rank + 1, comm.group.size() + 1),
    })
}

/// MPI_Bcast.
pub(super) fn bcast(form: Form, process: Guard, comm: MPI_Comm, part: Part, root: c_int) -> Result<()> {
    let role = role(&process, comm, root)?;
    if role == Role::Absent {
        return do_nothing(form, process, comm);
    }
    let (items, arguments) = describe_bcast(&process, part)?;
    let (rank, size) = seat(&process, comm, role)?;
    let schedule = process.plans_apart(size).bcast(&algorithms::Bcast { rank, size, root: 0, items });
    run_planned(form, process, comm, Some(role), schedule, arguments, &|process, comm| {
        called::rooted_between(process, comm, role, &Side::Same(part), false)
    })
}

/// MPI_Gather, MPI_Gatherv, MPI_Scatter, MPI_Scatterv. `of_root` are the root's blocks, one with each process
/// of the other group; `of_member` is the block of each of these with the root.
pub(super) fn rooted(
    form: Form,
    process: Guard,
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
    let partners = match role {
        Role::Root => Partners::remote(process.objects.communicator(comm.0)?),
        _ => Partners::ROOT,
    };
    let receives = to_root == (role == Role::Root);
    let (nothing, own_side) = ((Side::Nothing, Partners::NONE), (own, partners));
    let (send, receive) = if receives { (nothing, own_side) } else { (own_side, nothing) };
    let (sources, destinations): (Vec<_>, Vec<_>) = {
        let first = u32::from(role == Role::Root);
        let all: Vec<Option<u32>> = (first..first + partners.count() as u32).map(Some).collect();
        if receives { (all, Vec::new()) } else { (Vec::new(), all) }
    };
    let (rank, _) = seat(&process, comm, role)?;
    let (schedule, arguments) = plan_exchange(&process, send, receive, |send, receive| {
        algorithms::neighbour_exchange(&algorithms::NeighbourExchange {
            rank,
            sources: &sources,
            destinations: &destinations,
            is_grid: false,
            send,
            receive,
        })
    })?;
    run_planned(form, process, comm, Some(role), schedule, arguments, &|process, comm| {
        called::rooted_between(process, comm, role, &own, to_root)
    })
}

/// MPI_Allgather, MPI_Alltoall and their forms with counts and datatypes.
pub(super) fn exchange(form: Form, process: Guard, comm: MPI_Comm, send: Side, receive: Side) -> Result<()> {
    let object = process.objects.communicator(comm.0)?;
    let (remote, inter) = object.remote()?;
    let (rank, size, remote_size, is_first) = (object.rank, object.group.size(), remote.size(), inter.is_first);
    let partners = Partners::remote(object);
    let (schedule, arguments) = plan_exchange(&process, (send, partners), (receive, partners), |send, receive| {
        algorithms::exchange_between(&algorithms::ExchangeBetween { rank, size, remote_size, is_first, send, receive })
    })?;
    run_planned(form, process, comm, None, schedule, arguments, &|process, comm| {
        called::exchange_between(process, comm, &send, &receive)
    })
}

/// MPI_Reduce.
pub(super) fn reduce(
    form: Form,
    process: Guard,
    comm: MPI_Comm,
    send: Part,
    recvbuf: Buffer,
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
    let (rank, size) = seat(&process, comm, role)?;
    let schedule =
        algorithms::reduce_between(&algorithms::ReduceBetween { rank, size, items, commutative }, process.choices());
    let arguments = reduction(send, recvbuf, description, operation);
    let operands = (send.datatype, send.count as u64);
    run_planned(form, process, comm, Some(role), schedule, arguments, &|process, comm| {
        called::reduction_between(process, comm, Some(role), operands, op)
    })
}

/// MPI_Reduce_scatter, and MPI_Reduce_scatter_block with equal counts. `counts` are those of the own group.
pub(super) fn reduce_scatter(
    form: Form,
    process: Guard,
    comm: MPI_Comm,
    send: Part,
    recvbuf: Buffer,
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
    let arguments = reduction(send, recvbuf, description, operation);
    let operands = (send.datatype, sum as u64);
    run_planned(form, process, comm, None, schedule, arguments, &|process, comm| {
        called::reduction_between(process, comm, None, operands, op)
    })
}

/// MPI_Allreduce: each group gets the result of the other (MPI-5.0 §6.9.6).
pub(super) fn allreduce(
    form: Form,
    process: Guard,
    comm: MPI_Comm,
    send: Part,
    recvbuf: Buffer,
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
    let arguments = reduction(send, recvbuf, description, operation);
    let operands = (send.datatype, send.count as u64);
    run_planned(form, process, comm, None, schedule, arguments, &|process, comm| {
        called::reduction_between(process, comm, None, operands, op)
    })
}
