//! Partitioned communication (MPI-5.0 §4).

use crate::arguments::*;
use crate::types::*;
use std::ffi::c_int;
use weft_mpi::constants::{MPI_ERR_ARG, MPI_ERR_COUNT};
use weft_mpi::error::{Error, Result};
use weft_mpi::memory::Divisible;
use weft_mpi::partitioned::Side;
use weft_mpi::process::{Process, attempt, with};
use weft_mpi::signature::Items;

/// Describes a side of an operation.
fn side(
    process: &Process,
    buffer: Buffer,
    partitions: c_int,
    count: i64,
    datatype: MPI_Datatype,
    rank: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<Side> {
    let wrong = || Error::new(MPI_ERR_ARG, format!("partitions is {partitions}; it must not be negative"));
    let partitions = u32::try_from(partitions).map_err(|_| wrong())?;
    let found = process.objects.committed(datatype.0)?;
    let layout = &found.description.layout;
    let many = || Error::new(MPI_ERR_COUNT, format!("{partitions} partitions of {count} items are more than 2^63 - 1"));
    let items = count.checked_mul(i64::from(partitions)).ok_or_else(many)? as u64;
    // SAFETY: `Buffer::new` was promised what count and datatype say, until the operation is complete.
    let data = unsafe { Divisible::new(buffer.as_ptr(), items, layout)? };
    let consists = || Items::new(datatype.0, &found.description, &found.name, items);
    let items = process.checks_calls.then(consists);
    Ok(Side { data, partitions, communicator: comm.0, rank, tag, items })
}

/// MPI_Psend_init (MPI-5.0 §4.2.1). Weft knows no hints for it.
pub(crate) fn psend_init(
    buf: Buffer,
    partitions: c_int,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: Out<MPI_Request>,
) -> Result<()> {
    with(|process| {
        let side = side(process, buf, partitions, count, datatype, dest, tag, comm)?;
        request.set(MPI_Request(process.make_partitioned_send(side)?));
        Ok(())
    })
}

/// MPI_Precv_init (MPI-5.0 §4.2.1). Weft knows no hints for it.
pub(crate) fn precv_init(
    buf: Buffer,
    partitions: c_int,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: Out<MPI_Request>,
) -> Result<()> {
    with(|process| {
        let side = side(process, buf, partitions, count, datatype, source, tag, comm)?;
        request.set(MPI_Request(process.make_partitioned_receive(side)?));
        Ok(())
    })
}

/// MPI_Pready (MPI-5.0 §4.2.1).
pub(crate) fn pready(partition: c_int, request: MPI_Request) -> Result<()> {
    with(|process| process.mark_list(request.0, &[partition]))
}

/// MPI_Pready_range (MPI-5.0 §4.2.1).
pub(crate) fn pready_range(partition_low: c_int, partition_high: c_int, request: MPI_Request) -> Result<()> {
    with(|process| process.mark_range(request.0, partition_low, partition_high))
}

/// MPI_Pready_list (MPI-5.0 §4.2.1).
pub(crate) fn pready_list(_length: c_int, array_of_partitions: InArray<c_int>, request: MPI_Request) -> Result<()> {
    let list = array_of_partitions.to_vec();
    with(|process| process.mark_list(request.0, &list))
}

/// MPI_Parrived (MPI-5.0 §4.2.2).
pub(crate) fn parrived(request: MPI_Request, partition: c_int, flag: Out<c_int>) -> Result<()> {
    let arrived = attempt(|process| match process.has_arrived(request.0, partition) {
        Ok(false) => None,
        other => Some(other),
    });
    flag.set(c_int::from(arrived.unwrap_or(Ok(false))?));
    Ok(())
}
