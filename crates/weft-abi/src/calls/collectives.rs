//! Collective communication (MPI-5.0 §6).
//!
//! Each operation is planned once: its schedule and its buffers. The blocking, nonblocking and persistent forms differ in
//! what they do with the plan.
//!
//! # Safety
//! Every function here is called by its generated wrapper with the arguments of the C prototype: buffers hold what counts
//! and datatypes say, arrays of counts have an element for each process of the communicator.

use crate::check::is_in_place;
use crate::generated::constants::*;
use crate::types::*;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use weft_mpi::algorithms::{self as plan, Blocks, Items, Schedule, TypedBlocks};
use weft_mpi::collective::Arguments;
use weft_mpi::error::{Error, Result};
use weft_mpi::memory::Address;
use weft_mpi::object::{Communicator, Description, Operation};
use weft_mpi::point_to_point::wait;
use weft_mpi::process::{Process, lock, with};
use weft_mpi::reduce;

/// What this process does in a collective, and with which buffers.
type Plan = (Schedule, Arguments);

/// Blocking: start and wait.
fn run(comm: MPI_Comm, plan: impl FnOnce(&Process, &Communicator) -> Result<Plan>) -> Result<()> {
    let mut process = lock();
    let (schedule, arguments) = plan(&process, process.objects.communicator(comm.0)?)?;
    let request = process.start_collective(comm.0, schedule, arguments)?;
    wait(process, request)?.error.map_or(Ok(()), Err)
}

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

/// A buffer, its count and its datatype.
#[derive(Clone, Copy)]
struct Part {
    buffer: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
}

impl Part {
    fn address(&self) -> Address {
        Address(self.buffer.cast_mut().cast())
    }

    fn describe(&self, process: &Process) -> Result<(Items, Arc<Description>)> {
        let description = process.objects.committed(self.datatype.0)?.description.clone();
        Ok((Items { count: self.count as u64, shape: description.shape() }, description))
    }
}

/// A buffer, its counts and displacements by rank, and its datatype.
#[derive(Clone, Copy)]
struct Parts {
    buffer: *const c_void,
    counts: Counts,
    displacements: Counts,
    datatype: MPI_Datatype,
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

fn refuse_in_place(buffer: *const c_void, name: &str) -> Result<()> {
    if is_in_place(buffer) {
        return Err(Error::new(MPI_ERR_BUFFER, format!("{name} is MPI_IN_PLACE, which is not allowed here")));
    }
    Ok(())
}

/// The operation, which must be defined for the datatype (MPI-5.0 §6.9.2).
fn operation(process: &Process, op: MPI_Op, description: &Description) -> Result<Operation> {
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

fn plan_barrier(_process: &Process, comm: &Communicator) -> Result<Plan> {
    let shape = plan::Barrier { rank: comm.rank, size: comm.group.size() };
    Ok((plan::barrier(&shape), Arguments::none()))
}

fn plan_bcast(process: &Process, comm: &Communicator, part: Part, root: c_int) -> Result<Plan> {
    let root = root_rank(comm, root)?;
    refuse_in_place(part.buffer, "buffer")?;
    let (items, description) = part.describe(process)?;
    let shape = plan::Bcast { rank: comm.rank, size: comm.group.size(), root, items };
    let arguments = Arguments { receive: part.address(), receive_type: Some(description), ..Arguments::none() };
    Ok((plan::bcast(&shape), arguments))
}

fn plan_reduce(
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
        receive: Address(recvbuf.cast()),
        send_type: Some(description.clone()),
        receive_type: Some(description),
        operation: Some(operation),
        ..Arguments::none()
    }
}

fn plan_all(
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

fn plan_reduce_scatter_block(
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

unsafe fn plan_reduce_scatter(
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

fn buffers(
    send: Address,
    receive: Address,
    send_type: Option<Arc<Description>>,
    receive_type: Option<Arc<Description>>,
) -> Arguments {
    Arguments { send, receive, send_type, receive_type, ..Arguments::none() }
}

fn plan_gather(process: &Process, comm: &Communicator, send: Part, receive: Part, root: c_int) -> Result<Plan> {
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

fn plan_scatter(process: &Process, comm: &Communicator, send: Part, receive: Part, root: c_int) -> Result<Plan> {
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

unsafe fn plan_gatherv(
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
    Ok((schedule, buffers(send.address(), Address(receive.buffer.cast_mut().cast()), send_type, receive_type)))
}

unsafe fn plan_scatterv(
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
    Ok((schedule, buffers(Address(send.buffer.cast_mut().cast()), receive.address(), send_type, receive_type)))
}

fn plan_every(
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

unsafe fn plan_allgatherv(process: &Process, comm: &Communicator, send: Part, receive: Parts) -> Result<Plan> {
    refuse_in_place(receive.buffer, "recvbuf")?;
    let in_place = is_in_place(send.buffer);
    let (send_items, send_type) = significant(process, send, !in_place)?;
    let size = comm.group.size();
    // SAFETY: the caller's arrays.
    let (blocks, receive_type) = unsafe { receive.describe(process, size as usize, "recvcounts")? };
    let shape = plan::Allgatherv { rank: comm.rank, size, send: send_items, receive: blocks.view(), in_place };
    let receive = Address(receive.buffer.cast_mut().cast());
    Ok((plan::allgatherv(&shape), buffers(send.address(), receive, send_type, Some(receive_type))))
}

unsafe fn plan_alltoallv(process: &Process, comm: &Communicator, send: Parts, receive: Parts) -> Result<Plan> {
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
    let (send, receive) = (Address(send.buffer.cast_mut().cast()), Address(receive.buffer.cast_mut().cast()));
    Ok((schedule, buffers(send, receive, send_type, Some(receive_type))))
}

/// A buffer with counts, displacements in bytes and datatypes by rank.
#[derive(Clone, Copy)]
struct TypedParts {
    buffer: *const c_void,
    counts: Counts,
    displacements: Counts,
    datatypes: *const MPI_Datatype,
}

#[derive(Default)]
struct OwnedTypedBlocks {
    counts: Vec<u64>,
    displacements: Vec<i64>,
    item_sizes: Vec<u64>,
    types: Vec<Arc<Description>>,
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
            .map(|datatype| Ok(process.objects.committed(datatype.0)?.description.clone()))
            .collect::<Result<Vec<_>>>()?;
        let item_sizes = types.iter().map(|description| description.layout.size()).collect();
        Ok(OwnedTypedBlocks { counts, displacements, item_sizes, types })
    }
}

impl OwnedTypedBlocks {
    fn view(&self) -> TypedBlocks<'_> {
        TypedBlocks { counts: &self.counts, displacements: &self.displacements, item_sizes: &self.item_sizes }
    }
}

unsafe fn plan_alltoallw(
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
        send: Address(send.buffer.cast_mut().cast()),
        receive: Address(receive.buffer.cast_mut().cast()),
        send_types: outgoing.types,
        receive_types: incoming.types,
        ..Arguments::none()
    };
    Ok((schedule, arguments))
}

/// MPI_Barrier (MPI-5.0 §6.3).
pub(crate) unsafe fn barrier(comm: MPI_Comm) -> Result<()> {
    run(comm, |process, comm| plan_barrier(process, comm))
}

/// MPI_Ibarrier (MPI-5.0 §6.12).
pub(crate) unsafe fn ibarrier(comm: MPI_Comm, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's arguments.
    unsafe { start(comm, request, |process, comm| plan_barrier(process, comm)) }
}

/// MPI_Barrier_init (MPI-5.0 §6.13).
pub(crate) unsafe fn barrier_init(comm: MPI_Comm, _info: MPI_Info, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's arguments.
    unsafe { keep(comm, request, |process, comm| plan_barrier(process, comm)) }
}

/// MPI_Bcast (MPI-5.0 §6.4).
pub(crate) unsafe fn bcast(
    buffer: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    run(comm, |process, comm| plan_bcast(process, comm, Part { buffer, count, datatype }, root))
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

/// MPI_Gather (MPI-5.0 §6.5).
pub(crate) unsafe fn gather(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    run(comm, |process, comm| plan_gather(process, comm, send, receive, root))
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

/// MPI_Gatherv (MPI-5.0 §6.5).
pub(crate) unsafe fn gatherv(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Counts,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Parts { buffer: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
    // SAFETY: the caller's arrays.
    run(comm, |process, comm| unsafe { plan_gatherv(process, comm, send, receive, root) })
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

/// MPI_Scatter (MPI-5.0 §6.6).
pub(crate) unsafe fn scatter(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    run(comm, |process, comm| plan_scatter(process, comm, send, receive, root))
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

/// MPI_Scatterv (MPI-5.0 §6.6).
pub(crate) unsafe fn scatterv(
    sendbuf: *const c_void,
    sendcounts: Counts,
    displs: Counts,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    let send = Parts { buffer: sendbuf, counts: sendcounts, displacements: displs, datatype: sendtype };
    // SAFETY: the caller's arrays.
    run(comm, |process, comm| unsafe { plan_scatterv(process, comm, send, receive, root) })
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

/// MPI_Allgather (MPI-5.0 §6.7).
pub(crate) unsafe fn allgather(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    run(comm, |process, comm| plan_every(process, comm, send, receive, plan::allgather))
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
    unsafe { start(comm, request, |process, comm| plan_every(process, comm, send, receive, plan::allgather)) }
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
    unsafe { keep(comm, request, |process, comm| plan_every(process, comm, send, receive, plan::allgather)) }
}

/// MPI_Allgatherv (MPI-5.0 §6.7).
pub(crate) unsafe fn allgatherv(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Counts,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Parts { buffer: recvbuf, counts: recvcounts, displacements: displs, datatype: recvtype };
    // SAFETY: the caller's arrays.
    run(comm, |process, comm| unsafe { plan_allgatherv(process, comm, send, receive) })
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

/// MPI_Alltoall (MPI-5.0 §6.8).
pub(crate) unsafe fn alltoall(
    sendbuf: *const c_void,
    sendcount: i64,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: i64,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: sendcount, datatype: sendtype };
    let receive = Part { buffer: recvbuf, count: recvcount, datatype: recvtype };
    run(comm, |process, comm| plan_every(process, comm, send, receive, plan::alltoall))
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
    unsafe { start(comm, request, |process, comm| plan_every(process, comm, send, receive, plan::alltoall)) }
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
    unsafe { keep(comm, request, |process, comm| plan_every(process, comm, send, receive, plan::alltoall)) }
}

/// MPI_Alltoallv (MPI-5.0 §6.8).
pub(crate) unsafe fn alltoallv(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Parts { buffer: sendbuf, counts: sendcounts, displacements: sdispls, datatype: sendtype };
    let receive = Parts { buffer: recvbuf, counts: recvcounts, displacements: rdispls, datatype: recvtype };
    // SAFETY: the caller's arrays.
    run(comm, |process, comm| unsafe { plan_alltoallv(process, comm, send, receive) })
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

/// MPI_Alltoallw (MPI-5.0 §6.8).
pub(crate) unsafe fn alltoallw(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let send = TypedParts { buffer: sendbuf, counts: sendcounts, displacements: sdispls, datatypes: sendtypes };
    let receive = TypedParts { buffer: recvbuf, counts: recvcounts, displacements: rdispls, datatypes: recvtypes };
    // SAFETY: the caller's arrays.
    run(comm, |process, comm| unsafe { plan_alltoallw(process, comm, send, receive) })
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

/// MPI_Reduce (MPI-5.0 §6.9.1).
pub(crate) unsafe fn reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    run(comm, |process, comm| plan_reduce(process, comm, send, recvbuf, op, root))
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

/// MPI_Allreduce (MPI-5.0 §6.9.6).
pub(crate) unsafe fn allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    run(comm, |process, comm| plan_all(process, comm, send, recvbuf, op, plan::allreduce))
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
    unsafe { start(comm, request, |process, comm| plan_all(process, comm, send, recvbuf, op, plan::allreduce)) }
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
    unsafe { keep(comm, request, |process, comm| plan_all(process, comm, send, recvbuf, op, plan::allreduce)) }
}

/// MPI_Reduce_scatter_block (MPI-5.0 §6.10.1).
pub(crate) unsafe fn reduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: recvcount, datatype };
    run(comm, |process, comm| plan_reduce_scatter_block(process, comm, send, recvbuf, op))
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

/// MPI_Reduce_scatter (MPI-5.0 §6.10.2).
pub(crate) unsafe fn reduce_scatter(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count: 0, datatype };
    // SAFETY: the caller's arrays.
    run(comm, |process, comm| unsafe { plan_reduce_scatter(process, comm, send, recvbuf, recvcounts, op) })
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

/// MPI_Scan (MPI-5.0 §6.11.1).
pub(crate) unsafe fn scan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    run(comm, |process, comm| plan_all(process, comm, send, recvbuf, op, plan::scan))
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
    unsafe { start(comm, request, |process, comm| plan_all(process, comm, send, recvbuf, op, plan::scan)) }
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
    unsafe { keep(comm, request, |process, comm| plan_all(process, comm, send, recvbuf, op, plan::scan)) }
}

/// MPI_Exscan (MPI-5.0 §6.11.2).
pub(crate) unsafe fn exscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let send = Part { buffer: sendbuf, count, datatype };
    run(comm, |process, comm| plan_all(process, comm, send, recvbuf, op, plan::exscan))
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
    unsafe { start(comm, request, |process, comm| plan_all(process, comm, send, recvbuf, op, plan::exscan)) }
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
    unsafe { keep(comm, request, |process, comm| plan_all(process, comm, send, recvbuf, op, plan::exscan)) }
}

/// MPI_Reduce_local (MPI-5.0 §6.9.7).
pub(crate) unsafe fn reduce_local(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<()> {
    refuse_in_place(inbuf, "inbuf")?;
    refuse_in_place(inoutbuf, "inoutbuf")?;
    let part = Part { buffer: inbuf, count, datatype };
    let (description, operation) = with(|process| {
        let (_, description) = part.describe(process)?;
        let operation = operation(process, op, &description)?;
        Ok::<_, Error>((description, operation))
    })?;
    weft_mpi::collective::reduce_now(operation, &description, part.address(), Address(inoutbuf.cast()), count as u64)
}

/// MPI_Op_create (MPI-5.0 §6.9.5).
pub(crate) unsafe fn op_create(user_fn: usize, commute: c_int, op: *mut MPI_Op) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { create_operation(user_fn, false, commute, op) }
}

/// MPI_Op_create_c (MPI-5.0 §6.9.5).
pub(crate) unsafe fn op_create_c(user_fn: usize, commute: c_int, op: *mut MPI_Op) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { create_operation(user_fn, true, commute, op) }
}

unsafe fn create_operation(function: usize, large: bool, commute: c_int, op: *mut MPI_Op) -> Result<()> {
    if function == 0 {
        return Err(Error::new(MPI_ERR_ARG, "user_fn is a null pointer"));
    }
    let function = weft_mpi::memory::UserFunction { address: function, large };
    let operation = weft_mpi::object::UserOperation { function, commutative: commute != 0 };
    let handle = with(|process| process.objects.operations.insert(operation));
    let handle = handle.ok_or_else(|| weft_mpi::object::full("reduction operations"))?;
    // SAFETY: the caller's pointer.
    unsafe { *op = MPI_Op(handle) };
    Ok(())
}

/// MPI_Op_free (MPI-5.0 §6.9.5). Collectives that use the operation keep what they need of it.
pub(crate) unsafe fn op_free(op: *mut MPI_Op) -> Result<()> {
    // SAFETY: the caller's pointer.
    let handle = unsafe { *op };
    with(|process| {
        if matches!(process.objects.operation(handle.0)?, Operation::Predefined(_)) {
            return Err(Error::new(MPI_ERR_OP, "a predefined operation cannot be freed"));
        }
        process.objects.operations.remove(handle.0);
        Ok(())
    })?;
    // SAFETY: the caller's pointer.
    unsafe { *op = MPI_Op::NULL };
    Ok(())
}

/// MPI_Op_commutative (MPI-5.0 §6.9.7).
pub(crate) unsafe fn op_commutative(op: MPI_Op, commute: *mut c_int) -> Result<()> {
    let commutative = with(|process| Ok::<_, Error>(process.objects.operation(op.0)?.is_commutative()))?;
    // SAFETY: the caller's pointer.
    unsafe { *commute = c_int::from(commutative) };
    Ok(())
}
