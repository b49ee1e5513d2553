//! What this process does in each collective: its schedule and its buffers.

use crate::check::is_in_place;
use crate::generated::constants::*;
use crate::types::*;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use weft_mpi::algorithms::{self as plan, Blocks, Items, Schedule, TypedBlocks};
use weft_mpi::collective::{Arguments, SharedDatatype};
use weft_mpi::error::{Error, Result};
use weft_mpi::memory::Address;
use weft_mpi::object::{Communicator, Description, Operation};
use weft_mpi::process::Process;
use weft_mpi::reduce;

/// A schedule, and the buffers it is for.
pub(super) type Plan = (Schedule, Arguments);

/// A buffer that the call was given. Schedules never use one that is MPI_IN_PLACE or not significant here.
fn address(buffer: *const c_void) -> Address {
    Address::new(buffer.cast_mut().cast())
}

/// A buffer, its count and its datatype.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) buffer: *const c_void,
    pub(super) count: i64,
    pub(super) datatype: MPI_Datatype,
}

impl Part {
    fn address(&self) -> Address {
        address(self.buffer)
    }

    pub(super) fn describe(&self, process: &Process) -> Result<(Items, Arc<Description>)> {
        let description = process.objects.committed(self.datatype.0)?.description.clone();
        Ok((Items { count: self.count as u64, shape: description.shape() }, description))
    }
}

/// A buffer, its counts and displacements by rank, and its datatype.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) buffer: *const c_void,
    pub(super) counts: Counts,
    pub(super) displacements: Counts,
    pub(super) datatype: MPI_Datatype,
}

/// The same, with memory of ours.
struct OwnedBlocks {
    counts: Vec<u64>,
    displacements: Vec<i64>,
    item_size: u64,
}

impl OwnedBlocks {
    fn view(&self) -> Blocks<'_> {
        Blocks { counts: &self.counts, displacements: &self.displacements, item_size: self.item_size }
    }
}

/// Counts of `size` processes.
///
/// # Safety
/// The array has `size` elements.
unsafe fn counts_of(counts: Counts, size: usize, name: &str) -> Result<Vec<u64>> {
    // SAFETY: the caller's array.
    let counts = unsafe { counts.to_vec(size) };
    counts
        .iter()
        .enumerate()
        .map(|(rank, count)| {
            u64::try_from(*count)
                .map_err(|_| Error::new(MPI_ERR_COUNT, format!("{name}[{rank}] is {count}; it must not be negative")))
        })
        .collect()
}

impl Parts {
    /// # Safety
    /// The arrays have `size` elements.
    unsafe fn describe(&self, process: &Process, size: usize, name: &str) -> Result<(OwnedBlocks, Arc<Description>)> {
        let description = process.objects.committed(self.datatype.0)?.description.clone();
        let extent = description.layout.extent();
        for (array, what) in [(self.counts, "counts"), (self.displacements, "displs")] {
            if array.is_null() && size > 0 {
                return Err(Error::new(MPI_ERR_ARG, format!("the array of {name} {what} is a null pointer")));
            }
        }
        // SAFETY: the caller's arrays.
        let (counts, displacements) = unsafe { (counts_of(self.counts, size, name)?, self.displacements.to_vec(size)) };
        let displacements = displacements.into_iter().map(|items| items * extent).collect();
        Ok((OwnedBlocks { counts, displacements, item_size: description.layout.size() }, description))
    }
}

fn root_rank(comm: &Communicator, root: c_int) -> Result<u32> {
    let size = comm.group.size();
    u32::try_from(root).ok().filter(|root| *root < size).ok_or_else(|| {
        Error::new(MPI_ERR_ROOT, format!("root is {root}, but the ranks of the communicator are 0 to {}", size - 1))
    })
}

pub(super) fn refuse_in_place(buffer: *const c_void, name: &str) -> Result<()> {
    if is_in_place(buffer) {
        return Err(Error::new(MPI_ERR_BUFFER, format!("{name} is MPI_IN_PLACE, which is not allowed here")));
    }
    Ok(())
}

/// The operation, which must be defined for the datatype (MPI-5.0 §6.9.2).
pub(super) fn operation(process: &Process, op: MPI_Op, description: &Description) -> Result<Operation> {
    let operation = process.objects.operation(op.0)?;
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

pub(super) fn plan_barrier(_process: &Process, comm: &Communicator) -> Result<Plan> {
    let shape = plan::Barrier { rank: comm.rank, size: comm.group.size() };
    Ok((plan::barrier(&shape), Arguments::none()))
}

pub(super) fn plan_bcast(process: &Process, comm: &Communicator, part: Part, root: c_int) -> Result<Plan> {
    let root = root_rank(comm, root)?;
    refuse_in_place(part.buffer, "buffer")?;
    let (items, description) = part.describe(process)?;
    let shape = plan::Bcast { rank: comm.rank, size: comm.group.size(), root, items };
    let arguments = Arguments { receive: part.address(), receive_type: Some(description), ..Arguments::none() };
    Ok((plan::bcast(&shape), arguments))
}

pub(super) fn plan_reduce(
    process: &Process,
    comm: &Communicator,
    send: Part,
    recvbuf: *mut c_void,
    op: MPI_Op,
    root: c_int,
) -> Result<Plan> {
    let root = root_rank(comm, root)?;
    let in_place = is_in_place(send.buffer);
    if in_place && comm.rank != root {
        refuse_in_place(send.buffer, "sendbuf of a rank that is not the root")?;
    }
    if comm.rank == root {
        refuse_in_place(recvbuf, "recvbuf")?;
    }
    let (items, description) = send.describe(process)?;
    let operation = operation(process, op, &description)?;
    let shape = plan::Reduce {
        rank: comm.rank,
        size: comm.group.size(),
        root,
        items,
        commutative: operation.is_commutative(),
        in_place,
    };
    Ok((plan::reduce(&shape), reduction(send, recvbuf, description, operation)))
}

fn reduction(send: Part, recvbuf: *mut c_void, description: Arc<Description>, operation: Operation) -> Arguments {
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
    recvbuf: *mut c_void,
    op: MPI_Op,
    algorithm: fn(&plan::Allreduce) -> Schedule,
) -> Result<Plan> {
    refuse_in_place(recvbuf, "recvbuf")?;
    let (items, description) = send.describe(process)?;
    let operation = operation(process, op, &description)?;
    let shape = plan::Allreduce {
        rank: comm.rank,
        size: comm.group.size(),
        items,
        commutative: operation.is_commutative(),
        in_place: is_in_place(send.buffer),
    };
    Ok((algorithm(&shape), reduction(send, recvbuf, description, operation)))
}

pub(super) fn plan_reduce_scatter_block(
    process: &Process,
    comm: &Communicator,
    send: Part,
    recvbuf: *mut c_void,
    op: MPI_Op,
) -> Result<Plan> {
    refuse_in_place(recvbuf, "recvbuf")?;
    let (items, description) = send.describe(process)?;
    let operation = operation(process, op, &description)?;
    let shape = plan::ReduceScatterBlock {
        rank: comm.rank,
        size: comm.group.size(),
        items,
        commutative: operation.is_commutative(),
        in_place: is_in_place(send.buffer),
    };
    Ok((plan::reduce_scatter_block(&shape), reduction(send, recvbuf, description, operation)))
}

pub(super) unsafe fn plan_reduce_scatter(
    process: &Process,
    comm: &Communicator,
    send: Part,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    op: MPI_Op,
) -> Result<Plan> {
    refuse_in_place(recvbuf, "recvbuf")?;
    let (items, description) = send.describe(process)?;
    let operation = operation(process, op, &description)?;
    // SAFETY: the caller's array.
    let counts = unsafe { counts_of(recvcounts, comm.group.size() as usize, "recvcounts")? };
    let shape = plan::ReduceScatter {
        rank: comm.rank,
        size: comm.group.size(),
        counts: &counts,
        shape: items.shape,
        commutative: operation.is_commutative(),
        in_place: is_in_place(send.buffer),
    };
    Ok((plan::reduce_scatter(&shape), reduction(send, recvbuf, description, operation)))
}

/// Items and description of a part that may be insignificant: then there are none.
fn significant(process: &Process, part: Part, is_significant: bool) -> Result<(Items, Option<Arc<Description>>)> {
    if !is_significant {
        return Ok((Items::default(), None));
    }
    if part.count < 0 {
        return Err(Error::new(MPI_ERR_COUNT, format!("the count is {}; it must not be negative", part.count)));
    }
    let (items, description) = part.describe(process)?;
    Ok((items, Some(description)))
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
    let in_place = at_root && is_in_place(send.buffer);
    if !at_root {
        refuse_in_place(send.buffer, "sendbuf of a rank that is not the root")?;
    }
    let (send_items, send_type) = significant(process, send, !in_place)?;
    let (receive_items, receive_type) = significant(process, receive, at_root)?;
    let shape = plan::Gather {
        rank: comm.rank,
        size: comm.group.size(),
        root,
        send: send_items,
        receive: receive_items,
        in_place,
    };
    Ok((plan::gather(&shape), buffers(send.address(), receive.address(), send_type, receive_type)))
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
    let in_place = at_root && is_in_place(receive.buffer);
    if !at_root {
        refuse_in_place(receive.buffer, "recvbuf of a rank that is not the root")?;
    }
    let (send_items, send_type) = significant(process, send, at_root)?;
    let (receive_items, receive_type) = significant(process, receive, !in_place)?;
    let shape = plan::Gather {
        rank: comm.rank,
        size: comm.group.size(),
        root,
        send: send_items,
        receive: receive_items,
        in_place,
    };
    Ok((plan::scatter(&shape), buffers(send.address(), receive.address(), send_type, receive_type)))
}

pub(super) unsafe fn plan_gatherv(
    process: &Process,
    comm: &Communicator,
    send: Part,
    receive: Parts,
    root: c_int,
) -> Result<Plan> {
    let root = root_rank(comm, root)?;
    let at_root = comm.rank == root;
    let in_place = at_root && is_in_place(send.buffer);
    if !at_root {
        refuse_in_place(send.buffer, "sendbuf of a rank that is not the root")?;
    }
    let (send_items, send_type) = significant(process, send, !in_place)?;
    let size = comm.group.size();
    // SAFETY: the caller's arrays, significant at the root.
    let blocks = if at_root { Some(unsafe { receive.describe(process, size as usize, "recvcounts")? }) } else { None };
    let shape = plan::Gatherv {
        rank: comm.rank,
        size,
        root,
        send: send_items,
        receive: blocks.as_ref().map(|(blocks, _)| blocks.view()).unwrap_or_default(),
        in_place,
    };
    let schedule = plan::gatherv(&shape);
    let receive_type = blocks.map(|(_, description)| description);
    Ok((schedule, buffers(send.address(), address(receive.buffer), send_type, receive_type)))
}

pub(super) unsafe fn plan_scatterv(
    process: &Process,
    comm: &Communicator,
    send: Parts,
    receive: Part,
    root: c_int,
) -> Result<Plan> {
    let root = root_rank(comm, root)?;
    let at_root = comm.rank == root;
    let in_place = at_root && is_in_place(receive.buffer);
    if !at_root {
        refuse_in_place(receive.buffer, "recvbuf of a rank that is not the root")?;
    }
    let (receive_items, receive_type) = significant(process, receive, !in_place)?;
    let size = comm.group.size();
    // SAFETY: the caller's arrays, significant at the root.
    let blocks = if at_root { Some(unsafe { send.describe(process, size as usize, "sendcounts")? }) } else { None };
    let shape = plan::Scatterv {
        rank: comm.rank,
        size,
        root,
        send: blocks.as_ref().map(|(blocks, _)| blocks.view()).unwrap_or_default(),
        receive: receive_items,
        in_place,
    };
    let schedule = plan::scatterv(&shape);
    let send_type = blocks.map(|(_, description)| description);
    Ok((schedule, buffers(address(send.buffer), receive.address(), send_type, receive_type)))
}

pub(super) fn plan_every(
    process: &Process,
    comm: &Communicator,
    send: Part,
    receive: Part,
    algorithm: fn(&plan::Allgather) -> Schedule,
) -> Result<Plan> {
    refuse_in_place(receive.buffer, "recvbuf")?;
    let in_place = is_in_place(send.buffer);
    let (send_items, send_type) = significant(process, send, !in_place)?;
    let (receive_items, receive_type) = significant(process, receive, true)?;
    let shape = plan::Allgather {
        rank: comm.rank,
        size: comm.group.size(),
        send: send_items,
        receive: receive_items,
        in_place,
    };
    Ok((algorithm(&shape), buffers(send.address(), receive.address(), send_type, receive_type)))
}

pub(super) unsafe fn plan_allgatherv(
    process: &Process,
    comm: &Communicator,
    send: Part,
    receive: Parts,
) -> Result<Plan> {
    refuse_in_place(receive.buffer, "recvbuf")?;
    let in_place = is_in_place(send.buffer);
    let (send_items, send_type) = significant(process, send, !in_place)?;
    let size = comm.group.size();
    // SAFETY: the caller's arrays.
    let (blocks, receive_type) = unsafe { receive.describe(process, size as usize, "recvcounts")? };
    let shape = plan::Allgatherv { rank: comm.rank, size, send: send_items, receive: blocks.view(), in_place };
    let receive = address(receive.buffer);
    Ok((plan::allgatherv(&shape), buffers(send.address(), receive, send_type, Some(receive_type))))
}

pub(super) unsafe fn plan_alltoallv(
    process: &Process,
    comm: &Communicator,
    send: Parts,
    receive: Parts,
) -> Result<Plan> {
    refuse_in_place(receive.buffer, "recvbuf")?;
    let in_place = is_in_place(send.buffer);
    let size = comm.group.size();
    // SAFETY: the caller's arrays; those of the send buffer are significant unless it is MPI_IN_PLACE.
    let outgoing = if in_place { None } else { Some(unsafe { send.describe(process, size as usize, "sendcounts")? }) };
    // SAFETY: as above.
    let (blocks, receive_type) = unsafe { receive.describe(process, size as usize, "recvcounts")? };
    let shape = plan::Alltoallv {
        rank: comm.rank,
        size,
        send: outgoing.as_ref().map(|(blocks, _)| blocks.view()).unwrap_or_default(),
        receive: blocks.view(),
        in_place,
    };
    let schedule = plan::alltoallv(&shape);
    let send_type = outgoing.map(|(_, description)| description);
    let (send, receive) = (address(send.buffer), address(receive.buffer));
    Ok((schedule, buffers(send, receive, send_type, Some(receive_type))))
}

/// A buffer with counts, displacements in bytes and datatypes by rank.
#[derive(Clone, Copy)]
pub(super) struct TypedParts {
    pub(super) buffer: *const c_void,
    pub(super) counts: Counts,
    pub(super) displacements: Counts,
    pub(super) datatypes: *const MPI_Datatype,
}

#[derive(Default)]
struct OwnedTypedBlocks {
    counts: Vec<u64>,
    displacements: Vec<i64>,
    item_sizes: Vec<u64>,
    types: Vec<SharedDatatype>,
}

impl TypedParts {
    /// # Safety
    /// The arrays have `size` elements.
    unsafe fn describe(&self, process: &Process, size: usize, name: &str) -> Result<OwnedTypedBlocks> {
        if self.counts.is_null() || self.displacements.is_null() || self.datatypes.is_null() {
            return Err(Error::new(MPI_ERR_ARG, format!("an array that goes with {name} is a null pointer")));
        }
        // SAFETY: the caller's arrays.
        let (counts, displacements) = unsafe { (counts_of(self.counts, size, name)?, self.displacements.to_vec(size)) };
        let types = (0..size)
            // SAFETY: the caller's array.
            .map(|rank| unsafe { *self.datatypes.add(rank) })
            .map(|datatype| Ok(process.objects.committed(datatype.0)?.description.clone() as SharedDatatype))
            .collect::<Result<Vec<_>>>()?;
        let item_sizes = types.iter().map(|datatype| datatype.layout().size()).collect();
        Ok(OwnedTypedBlocks { counts, displacements, item_sizes, types })
    }
}

impl OwnedTypedBlocks {
    fn view(&self) -> TypedBlocks<'_> {
        TypedBlocks { counts: &self.counts, displacements: &self.displacements, item_sizes: &self.item_sizes }
    }
}

pub(super) unsafe fn plan_alltoallw(
    process: &Process,
    comm: &Communicator,
    send: TypedParts,
    receive: TypedParts,
) -> Result<Plan> {
    refuse_in_place(receive.buffer, "recvbuf")?;
    let in_place = is_in_place(send.buffer);
    let size = comm.group.size();
    // SAFETY: the caller's arrays; those of the send buffer are significant unless it is MPI_IN_PLACE.
    let (outgoing, incoming) = unsafe {
        let outgoing =
            if in_place { OwnedTypedBlocks::default() } else { send.describe(process, size as usize, "sendcounts")? };
        (outgoing, receive.describe(process, size as usize, "recvcounts")?)
    };
    let shape = plan::Alltoallw { rank: comm.rank, size, send: outgoing.view(), receive: incoming.view(), in_place };
    let schedule = plan::alltoallw(&shape);
    let arguments = Arguments {
        send: address(send.buffer),
        receive: address(receive.buffer),
        send_types: outgoing.types,
        receive_types: incoming.types,
        ..Arguments::none()
    };
    Ok((schedule, arguments))
}
