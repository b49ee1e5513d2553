//! Plans this process's part in each collective: its schedule and its buffers.

use super::buffers::*;
use crate::arguments::*;
use crate::check::is_in_place;
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use std::sync::Arc;
use weft_mpi::algorithms::{self as plan, Items, Schedule};
use weft_mpi::collective::{Arguments, SharedDatatype};
use weft_mpi::error::{Error, Result};
use weft_mpi::memory::{Address, Footprint};
use weft_mpi::object::{Communicator, Description, Operation};
use weft_mpi::planner::Plans;
use weft_mpi::process::Process;
use weft_mpi::reduce::{self, Op};

/// A schedule, and the buffers it is for.
pub(super) type Plan = (Arc<Schedule>, Arguments);

/// The rank of the root: in the remote group, where there is one.
pub(super) fn root_rank(comm: &Communicator, root: c_int) -> Result<u32> {
    let size = comm.partners().size();
    u32::try_from(root).ok().filter(|root| *root < size).ok_or_else(|| {
        Error::new(MPI_ERR_ROOT, format!("root is {root}, but the ranks of the communicator are 0 to {}", size - 1))
    })
}

pub(super) fn refuse_in_place(buffer: Buffer, name: &str) -> Result<()> {
    if is_in_place(buffer.addr()) {
        return Err(Error::new(MPI_ERR_BUFFER, format!("{name} is MPI_IN_PLACE, which is not allowed here")));
    }
    Ok(())
}

/// The operation with this handle; it must be defined for the datatype (MPI-5.0 §6.9.2).
pub(super) fn operation(process: &Process, op: MPI_Op, description: &Description) -> Result<Operation> {
    let operation = process.objects.operation(op.0)?;
    if let Operation::Predefined(Op::Replace | Op::NoOp) = operation {
        let message = "MPI_REPLACE and MPI_NO_OP are for one-sided operations only (MPI-5.0 section 6.9.2)";
        return Err(Error::new(MPI_ERR_OP, message));
    }
    if let Operation::Predefined(predefined) = operation
        && !description.element.is_some_and(|element| reduce::supports(predefined, element))
    {
        return Err(Error::new(
            MPI_ERR_OP,
            format!("the operation {predefined:?} is not defined for this datatype (MPI-5.0 section 6.9.2)"),
        ));
    }
    Ok(operation)
}

pub(super) fn plan_bcast(process: &Process, comm: &Communicator, part: Part, root: c_int) -> Result<Plan> {
    let root = root_rank(comm, root)?;
    let (items, arguments) = describe_bcast(process, part)?;
    let shape = plan::Bcast { rank: comm.rank, size: comm.group.size(), root, items };
    Ok((process.plans(comm).bcast(&shape), arguments))
}

pub(super) fn describe_bcast(process: &Process, part: Part) -> Result<(Items, Arguments)> {
    refuse_in_place(part.buffer, "buffer")?;
    let (items, description) = part.describe(process, 1)?;
    Ok((items, Arguments { receive: part.address(), receive_type: Some(description), ..Arguments::none() }))
}

pub(super) fn plan_reduce(
    process: &Process,
    comm: &Communicator,
    send: Part,
    recvbuf: Buffer,
    op: MPI_Op,
    root: c_int,
) -> Result<Plan> {
    let root = root_rank(comm, root)?;
    let in_place = is_in_place(send.buffer.addr());
    if in_place && comm.rank != root {
        refuse_in_place(send.buffer, "sendbuf of a rank that is not the root")?;
    }
    let receive = (comm.rank == root).then_some(recvbuf);
    let (items, description) = operands(process, send, receive, (1, 1))?;
    let operation = operation(process, op, &description)?;
    let shape = plan::Reduce {
        rank: comm.rank,
        size: comm.group.size(),
        root,
        items,
        commutative: operation.is_commutative(),
        in_place,
    };
    Ok((process.plans(comm).reduce(&shape), reduction(send, recvbuf, description, operation)))
}

/// The items that are reduced. The send buffer has `send_blocks` times as many, the receive buffer, if it is
/// significant, `receive_blocks` times.
pub(super) fn operands(
    process: &Process,
    send: Part,
    receive: Option<Buffer>,
    (send_blocks, receive_blocks): (u32, u32),
) -> Result<(Items, Arc<Description>)> {
    let in_place = is_in_place(send.buffer.addr());
    let (items, description) =
        if in_place { send.describe_only(process)? } else { send.describe(process, send_blocks)? };
    let layout = &description.layout;
    if let Some(buffer) = receive {
        refuse_in_place(buffer, "recvbuf")?;
        // In place, the receive buffer holds the data of the send buffer.
        let blocks = if in_place { send_blocks } else { receive_blocks };
        check(buffer, items.count, blocks, layout)?;
        if !in_place {
            let receive = Part { buffer, ..send };
            let (sent, received) = (send.footprint(send_blocks, layout), receive.footprint(receive_blocks, layout));
            check_apart(Some(sent), Some(received))?;
        }
    }
    Ok((items, description))
}

pub(super) fn reduction(send: Part, recvbuf: Buffer, description: Arc<Description>, operation: Operation) -> Arguments {
    Arguments {
        send: send.address(),
        receive: address(recvbuf),
        send_type: Some(description.clone()),
        receive_type: Some(description),
        operation: Some(operation),
        ..Arguments::none()
    }
}

pub(super) fn plan_all(
    process: &Process,
    comm: &Communicator,
    send: Part,
    recvbuf: Buffer,
    op: MPI_Op,
    schedule: fn(&Plans<'_>, &plan::Allreduce) -> Arc<Schedule>,
) -> Result<Plan> {
    let (items, description) = operands(process, send, Some(recvbuf), (1, 1))?;
    let operation = operation(process, op, &description)?;
    let shape = plan::Allreduce {
        rank: comm.rank,
        size: comm.group.size(),
        items,
        commutative: operation.is_commutative(),
        in_place: is_in_place(send.buffer.addr()),
    };
    Ok((schedule(&process.plans(comm), &shape), reduction(send, recvbuf, description, operation)))
}

pub(super) fn plan_reduce_scatter_block(
    process: &Process,
    comm: &Communicator,
    send: Part,
    recvbuf: Buffer,
    op: MPI_Op,
) -> Result<Plan> {
    let (items, description) = operands(process, send, Some(recvbuf), (comm.group.size(), 1))?;
    let operation = operation(process, op, &description)?;
    let shape = plan::ReduceScatterBlock {
        rank: comm.rank,
        size: comm.group.size(),
        items,
        commutative: operation.is_commutative(),
        in_place: is_in_place(send.buffer.addr()),
    };
    Ok((process.plans(comm).reduce_scatter_block(&shape), reduction(send, recvbuf, description, operation)))
}

pub(super) fn plan_reduce_scatter(
    process: &Process,
    comm: &Communicator,
    send: Part,
    recvbuf: Buffer,
    recvcounts: UnmeasuredCounts,
    op: MPI_Op,
) -> Result<Plan> {
    let counts = counts_of(recvcounts, Partners::of(comm), "recvcounts")?;
    let sum = counts.iter().try_fold(0_i64, |sum, count| sum.checked_add_unsigned(*count)).unwrap_or(i64::MAX);
    let in_place = is_in_place(send.buffer.addr());
    let own = if in_place { sum } else { counts[comm.rank as usize] as i64 };
    let (sent, received) = (Part { count: sum, ..send }, Part { buffer: recvbuf, count: own, ..send });
    refuse_in_place(recvbuf, "recvbuf")?;
    let (items, description) = received.describe(process, 1)?;
    if !in_place {
        sent.describe(process, 1)?;
        let layout = &description.layout;
        check_apart(Some(sent.footprint(1, layout)), Some(received.footprint(1, layout)))?;
    }
    let operation = operation(process, op, &description)?;
    let shape = plan::ReduceScatter {
        rank: comm.rank,
        size: comm.group.size(),
        counts: &counts,
        shape: items.shape,
        commutative: operation.is_commutative(),
        in_place: is_in_place(send.buffer.addr()),
    };
    Ok((process.plans(comm).reduce_scatter(&shape), reduction(send, recvbuf, description, operation)))
}

/// Items, description and offset of a part; none where it is not significant. The buffer has `blocks` times
/// as many items.
fn significant(process: &Process, part: Part, blocks: u32, is_significant: bool) -> Result<Described> {
    if !is_significant {
        return Ok(Described::default());
    }
    let (items, description) = part.describe(process, blocks)?;
    let footprint = Some(part.footprint(blocks, &description.layout));
    Ok(Described { items, description: Some(description), footprint })
}

#[derive(Default)]
struct Described {
    items: Items,
    description: Option<Arc<Description>>,
    footprint: Option<Footprint>,
}

fn shared(description: Option<Arc<Description>>) -> Option<SharedDatatype> {
    Some(description? as SharedDatatype)
}

fn buffers(
    send: Address,
    receive: Address,
    send_type: Option<Arc<Description>>,
    receive_type: Option<Arc<Description>>,
) -> Arguments {
    Arguments { send, receive, send_type: shared(send_type), receive_type: shared(receive_type), ..Arguments::none() }
}

pub(super) fn plan_gather(
    process: &Process,
    comm: &Communicator,
    send: Part,
    receive: Part,
    root: c_int,
) -> Result<Plan> {
    let root = root_rank(comm, root)?;
    let at_root = comm.rank == root;
    let in_place = at_root && is_in_place(send.buffer.addr());
    if !at_root {
        refuse_in_place(send.buffer, "sendbuf of a rank that is not the root")?;
    }
    let sent = significant(process, send, 1, !in_place)?;
    let received = significant(process, receive, comm.group.size(), at_root)?;
    check_apart(sent.footprint, received.footprint)?;
    let shape = plan::Gather {
        rank: comm.rank,
        size: comm.group.size(),
        root,
        send: sent.items,
        receive: received.items,
        in_place,
    };
    Ok((
        process.plans(comm).gather(&shape),
        buffers(send.address(), receive.address(), sent.description, received.description),
    ))
}

pub(super) fn plan_scatter(
    process: &Process,
    comm: &Communicator,
    send: Part,
    receive: Part,
    root: c_int,
) -> Result<Plan> {
    let root = root_rank(comm, root)?;
    let at_root = comm.rank == root;
    let in_place = at_root && is_in_place(receive.buffer.addr());
    if !at_root {
        refuse_in_place(receive.buffer, "recvbuf of a rank that is not the root")?;
    }
    let sent = significant(process, send, comm.group.size(), at_root)?;
    let received = significant(process, receive, 1, !in_place)?;
    check_apart(sent.footprint, received.footprint)?;
    let shape = plan::Gather {
        rank: comm.rank,
        size: comm.group.size(),
        root,
        send: sent.items,
        receive: received.items,
        in_place,
    };
    Ok((
        process.plans(comm).scatter(&shape),
        buffers(send.address(), receive.address(), sent.description, received.description),
    ))
}

pub(super) fn plan_gatherv(
    process: &Process,
    comm: &Communicator,
    send: Part,
    receive: Parts,
    root: c_int,
) -> Result<Plan> {
    let root = root_rank(comm, root)?;
    let at_root = comm.rank == root;
    let in_place = at_root && is_in_place(send.buffer.addr());
    if !at_root {
        refuse_in_place(send.buffer, "sendbuf of a rank that is not the root")?;
    }
    let sent = significant(process, send, 1, !in_place)?;
    let size = comm.group.size();
    let blocks = if at_root { Some(receive.describe(process, Partners::of(comm), "recvcounts")?) } else { None };
    if let Some((blocks, description)) = &blocks {
        for rank in 0..size as usize {
            check_apart(sent.footprint, Some(blocks.footprint(receive.buffer, rank, &description.layout)))?;
        }
    }
    let shape = plan::Gatherv {
        rank: comm.rank,
        size,
        root,
        send: sent.items,
        receive: blocks.as_ref().map(|(blocks, _)| blocks.view()).unwrap_or_default(),
        in_place,
    };
    let schedule = Arc::new(plan::gatherv(&shape));
    let receive_type = blocks.map(|(_, description)| description);
    Ok((schedule, buffers(send.address(), address(receive.buffer), sent.description, receive_type)))
}

pub(super) fn plan_scatterv(
    process: &Process,
    comm: &Communicator,
    send: Parts,
    receive: Part,
    root: c_int,
) -> Result<Plan> {
    let root = root_rank(comm, root)?;
    let at_root = comm.rank == root;
    let in_place = at_root && is_in_place(receive.buffer.addr());
    if !at_root {
        refuse_in_place(receive.buffer, "recvbuf of a rank that is not the root")?;
    }
    let received = significant(process, receive, 1, !in_place)?;
    let size = comm.group.size();
    let blocks = if at_root { Some(send.describe(process, Partners::of(comm), "sendcounts")?) } else { None };
    if let Some((blocks, description)) = &blocks {
        for rank in 0..size as usize {
            check_apart(received.footprint, Some(blocks.footprint(send.buffer, rank, &description.layout)))?;
        }
    }
    let shape = plan::Scatterv {
        rank: comm.rank,
        size,
        root,
        send: blocks.as_ref().map(|(blocks, _)| blocks.view()).unwrap_or_default(),
        receive: received.items,
        in_place,
    };
    let schedule = Arc::new(plan::scatterv(&shape));
    let send_type = blocks.map(|(_, description)| description);
    Ok((schedule, buffers(address(send.buffer), receive.address(), send_type, received.description)))
}

pub(super) fn plan_every(
    process: &Process,
    comm: &Communicator,
    send: Part,
    receive: Part,
    send_blocks: u32,
    schedule: fn(&Plans<'_>, &plan::Allgather) -> Arc<Schedule>,
) -> Result<Plan> {
    refuse_in_place(receive.buffer, "recvbuf")?;
    let in_place = is_in_place(send.buffer.addr());
    let sent = significant(process, send, send_blocks, !in_place)?;
    let received = significant(process, receive, comm.group.size(), true)?;
    check_apart(sent.footprint, received.footprint)?;
    let shape = plan::Allgather {
        rank: comm.rank,
        size: comm.group.size(),
        send: sent.items,
        receive: received.items,
        in_place,
    };
    Ok((
        schedule(&process.plans(comm), &shape),
        buffers(send.address(), receive.address(), sent.description, received.description),
    ))
}

pub(super) fn plan_allgatherv(process: &Process, comm: &Communicator, send: Part, receive: Parts) -> Result<Plan> {
    refuse_in_place(receive.buffer, "recvbuf")?;
    let in_place = is_in_place(send.buffer.addr());
    let sent = significant(process, send, 1, !in_place)?;
    let size = comm.group.size();
    let (blocks, receive_type) = receive.describe(process, Partners::of(comm), "recvcounts")?;
    for rank in 0..size as usize {
        check_apart(sent.footprint, Some(blocks.footprint(receive.buffer, rank, &receive_type.layout)))?;
    }
    let shape = plan::Allgatherv { rank: comm.rank, size, send: sent.items, receive: blocks.view(), in_place };
    let receive = address(receive.buffer);
    Ok((process.plans(comm).allgatherv(&shape), buffers(send.address(), receive, sent.description, Some(receive_type))))
}

pub(super) fn plan_alltoallv(process: &Process, comm: &Communicator, send: Parts, receive: Parts) -> Result<Plan> {
    refuse_in_place(receive.buffer, "recvbuf")?;
    let in_place = is_in_place(send.buffer.addr());
    let size = comm.group.size();
    let outgoing = if in_place { None } else { Some(send.describe(process, Partners::of(comm), "sendcounts")?) };
    let (blocks, receive_type) = receive.describe(process, Partners::of(comm), "recvcounts")?;
    if let Some((sent, description)) = &outgoing {
        for rank in 0..size as usize {
            let one = sent.footprint(send.buffer, rank, &description.layout);
            check_apart(Some(one), Some(blocks.footprint(receive.buffer, rank, &receive_type.layout)))?;
        }
    }
    let shape = plan::Alltoallv {
        rank: comm.rank,
        size,
        send: outgoing.as_ref().map(|(blocks, _)| blocks.view()).unwrap_or_default(),
        receive: blocks.view(),
        in_place,
    };
    let schedule = Arc::new(plan::alltoallv(&shape));
    let send_type = outgoing.map(|(_, description)| description);
    let (send, receive) = (address(send.buffer), address(receive.buffer));
    Ok((schedule, buffers(send, receive, send_type, Some(receive_type))))
}

pub(super) fn plan_alltoallw(
    process: &Process,
    comm: &Communicator,
    send: TypedParts,
    receive: TypedParts,
) -> Result<Plan> {
    refuse_in_place(receive.buffer, "recvbuf")?;
    let in_place = is_in_place(send.buffer.addr());
    let size = comm.group.size();
    let (outgoing, incoming) = {
        let outgoing = if in_place {
            OwnedTypedBlocks::default()
        } else {
            send.describe(process, Partners::of(comm), "sendcounts")?
        };
        (outgoing, receive.describe(process, Partners::of(comm), "recvcounts")?)
    };
    for rank in 0..size as usize {
        check_apart(outgoing.footprint(send.buffer, rank), incoming.footprint(receive.buffer, rank))?;
    }
    let shape = plan::Alltoallw { rank: comm.rank, size, send: outgoing.view(), receive: incoming.view(), in_place };
    let schedule = Arc::new(plan::alltoallw(&shape));
    let arguments = Arguments {
        send: address(send.buffer),
        receive: address(receive.buffer),
        send_types: outgoing.types,
        receive_types: incoming.types,
        ..Arguments::none()
    };
    Ok((schedule, arguments))
}
