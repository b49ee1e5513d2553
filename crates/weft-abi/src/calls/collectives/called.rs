//! What a collective call must have in common with those of the other processes, for `WEFT_CHECK` (`weft_mpi::check`): of each operation its
//! root, reduction operation and operands, and which data goes from whom to whom. The arguments have been checked by then: its plan is made.

use super::buffers::*;
use crate::check::is_in_place;
use crate::generated::constants::*;
use crate::types::*;
use std::ffi::c_int;
use weft_mpi::check::{Call, Data};
use weft_mpi::error::Result;
use weft_mpi::object::{Communicator, Operation};
use weft_mpi::process::Process;
use weft_mpi::signature::Items;

/// `count` items of a datatype.
fn items(process: &Process, datatype: MPI_Datatype, count: u64) -> Result<Items> {
    let found = process.objects.datatype(datatype.0)?;
    Ok(Items::new(datatype.0, &found.description, &found.name, count))
}

fn of_part(process: &Process, part: &Part) -> Result<Items> {
    items(process, part.datatype, part.count.max(0) as u64)
}

/// # Safety
/// The counts have `size` elements.
unsafe fn of_parts(process: &Process, parts: &Parts, size: usize) -> Result<Data> {
    // SAFETY: the caller's promise.
    let counts = unsafe { counts_of(parts.counts, size, "counts")? };
    Ok(Data::Each(counts.into_iter().map(|count| items(process, parts.datatype, count)).collect::<Result<_>>()?))
}

pub(super) fn bcast(process: &Process, comm: &Communicator, part: Part, root: c_int) -> Result<Call> {
    let (root, data) = (root as u32, of_part(process, &part)?);
    let (sends, expects) =
        if comm.rank == root { (Data::Alike(data), Data::Nothing) } else { (Data::Nothing, Data::One(root, data)) };
    Ok(Call { root: Some(root), sends, expects, ..Call::default() })
}

/// What a rank has for the root, or what the root has for each: the other of the two is not looked at.
fn rooted(
    process: &Process,
    comm: &Communicator,
    own: &Part,
    each: impl FnOnce() -> Result<Data>,
    root: c_int,
    to_root: bool,
) -> Result<Call> {
    let root = root as u32;
    let (own, each) = match comm.rank == root {
        true => (Data::Nothing, each()?),
        false => (Data::One(root, of_part(process, own)?), Data::Nothing),
    };
    let (sends, expects) = if to_root { (own, each) } else { (each, own) };
    Ok(Call { root: Some(root), sends, expects, ..Call::default() })
}

/// `own` is the part of each rank, `each` that of the root.
pub(super) fn gather(
    process: &Process,
    comm: &Communicator,
    (own, each): (Part, Part),
    root: c_int,
    to_root: bool,
) -> Result<Call> {
    rooted(process, comm, &own, || Ok(Data::Alike(of_part(process, &each)?)), root, to_root)
}

/// # Safety
/// At the root the counts have an element for each process.
pub(super) unsafe fn gatherv(
    process: &Process,
    comm: &Communicator,
    (own, each): (Part, Parts),
    root: c_int,
    to_root: bool,
) -> Result<Call> {
    // SAFETY: the caller's promise.
    let each = || unsafe { of_parts(process, &each, comm.group.size() as usize) };
    rooted(process, comm, &own, each, root, to_root)
}

pub(super) fn every(process: &Process, _: &Communicator, send: Part, receive: Part) -> Result<Call> {
    let sent = if is_in_place(send.buffer) { receive } else { send };
    let (sends, expects) = (Data::Alike(of_part(process, &sent)?), Data::Alike(of_part(process, &receive)?));
    Ok(Call { sends, expects, ..Call::default() })
}

/// # Safety
/// The counts have an element for each process.
pub(super) unsafe fn allgatherv(process: &Process, comm: &Communicator, send: Part, receive: Parts) -> Result<Call> {
    let size = comm.group.size() as usize;
    // SAFETY: the caller's promise.
    let expects = unsafe { of_parts(process, &receive, size)? };
    let sends = match &expects {
        Data::Each(all) if is_in_place(send.buffer) => Data::Alike(all[comm.rank as usize].clone()),
        _ => Data::Alike(of_part(process, &send)?),
    };
    Ok(Call { sends, expects, ..Call::default() })
}

/// # Safety
/// The counts have an element for each process.
pub(super) unsafe fn alltoallv(process: &Process, comm: &Communicator, send: Parts, receive: Parts) -> Result<Call> {
    let size = comm.group.size() as usize;
    // SAFETY: the caller's promise.
    unsafe {
        let sent = if is_in_place(send.buffer) { receive } else { send };
        let (sends, expects) = (of_parts(process, &sent, size)?, of_parts(process, &receive, size)?);
        Ok(Call { sends, expects, ..Call::default() })
    }
}

/// # Safety
/// Counts and datatypes have an element for each process; those of the send buffer are not significant where it is in place.
pub(super) unsafe fn alltoallw(
    process: &Process,
    comm: &Communicator,
    send: Option<(Counts, *const MPI_Datatype)>,
    receive: (Counts, *const MPI_Datatype),
) -> Result<Call> {
    let size = comm.group.size() as usize;
    let each = |(counts, types): (Counts, *const MPI_Datatype)| -> Result<Data> {
        // SAFETY: the caller's promise.
        let counts = unsafe { counts_of(counts, size, "counts")? };
        // SAFETY: as above.
        let all = counts.into_iter().enumerate().map(|(at, count)| items(process, unsafe { *types.add(at) }, count));
        Ok(Data::Each(all.collect::<Result<_>>()?))
    };
    let expects = each(receive)?;
    let sends = send.map_or_else(|| Ok(expects.clone()), each)?;
    Ok(Call { sends, expects, ..Call::default() })
}

/// A reduction operation as a number that all processes have alike, and its name.
fn operation(process: &Process, op: MPI_Op) -> Result<(i64, String)> {
    let named = |handle: usize| {
        const NAMES: [(MPI_Op, &str); 12] = [
            (MPI_SUM, "MPI_SUM"),
            (MPI_MIN, "MPI_MIN"),
            (MPI_MAX, "MPI_MAX"),
            (MPI_PROD, "MPI_PROD"),
            (MPI_BAND, "MPI_BAND"),
            (MPI_BOR, "MPI_BOR"),
            (MPI_BXOR, "MPI_BXOR"),
            (MPI_LAND, "MPI_LAND"),
            (MPI_LOR, "MPI_LOR"),
            (MPI_LXOR, "MPI_LXOR"),
            (MPI_MINLOC, "MPI_MINLOC"),
            (MPI_MAXLOC, "MPI_MAXLOC"),
        ];
        NAMES.iter().find(|(known, _)| known.0 == handle).map_or("another operation", |(_, name)| *name)
    };
    Ok(match process.objects.operation(op.0)? {
        Operation::Predefined(_) => (op.0 as i64, named(op.0).to_owned()),
        // Handles of user operations are this process's own.
        own @ Operation::User(_) if own.is_commutative() => (-2, "a commutative operation of the program".to_owned()),
        Operation::User(_) => (-3, "an operation of the program".to_owned()),
    })
}

/// A reduction of `count` items.
pub(super) fn reduction(
    process: &Process,
    (datatype, count): (MPI_Datatype, u64),
    op: MPI_Op,
    root: Option<c_int>,
) -> Result<Call> {
    let operands = Some(items(process, datatype, count)?);
    let root = root.map(|root| root as u32);
    Ok(Call { root, operation: Some(operation(process, op)?), operands, ..Call::default() })
}
