//! Collectives on intercommunicators (MPI-5.0 §6.2.3): those that are implemented. A barrier is one of all processes of both groups, and
//! needs nothing of its own.

use super::buffers::Part;
use super::plan::{describe_bcast, operands, operation, plan_barrier, reduction, refuse_in_place, root_rank};
use super::start;
use crate::generated::constants::*;
use crate::types::*;
use std::ffi::{c_int, c_void};
use weft_mpi::algorithms;
use weft_mpi::collective::{Arguments, Bound, CollectiveScope};
use weft_mpi::error::Result;
use weft_mpi::object::Group;
use weft_mpi::process::Guard;

/// MPI_Bcast: `root` is MPI_ROOT at the root, MPI_PROC_NULL at the others of its group, and its rank at all of the other group.
pub(super) fn bcast(form: Form, mut process: Guard, comm: MPI_Comm, part: Part, root: c_int) -> Result<()> {
    let root = match root {
        MPI_PROC_NULL => {
            let place = process.agreement_scope(comm.0)?;
            let own = process.own();
            let alone = CollectiveScope { group: Group::new(vec![own], own), rank: 0, ..place };
            let nothing = Bound::shared(plan_barrier(&alone), Arguments::none());
            return start(form, process, alone, nothing);
        }
        MPI_ROOT => None,
        root => Some(root_rank(process.objects.communicator(comm.0)?, root)?),
    };
    let (items, arguments) = describe_bcast(&process, part)?;
    let place = process.rooted_scope(comm.0, root)?;
    let shape = algorithms::Bcast { rank: place.rank, size: place.group.size(), root: 0, items };
    // SAFETY: the contract of every function of this chapter: the buffer holds what count and datatype say until the collective is
    // complete; the schedule was planned for just that. `weft_mpi` uses it under the process lock, and until then.
    let bound = unsafe { Bound::new(algorithms::bcast(&shape), arguments) };
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
    let schedule = algorithms::allreduce_between(&shape);
    let place = process.agreement_scope(comm.0)?;
    // SAFETY: as for the broadcast.
    let bound = unsafe { Bound::new(schedule, reduction(send, recvbuf, description, operation)) };
    start(form, process, place, bound)
}
