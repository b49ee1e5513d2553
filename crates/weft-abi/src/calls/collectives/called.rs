//! The parts of a collective call on which the processes must agree, for `WEFT_CHECK` (`weft_mpi::check`):
//! root, reduction operation and operands, and the data from each process to each.
//!
//! By then the plan of the call has been made, so its arguments have been checked.

use super::buffers::*;
use super::sides::{Role, Side};
use crate::arguments::*;
use crate::check::is_in_place;
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use std::ops::Range;
use weft_mpi::check::{Call, Data};
use weft_mpi::error::Result;
use weft_mpi::object::{Communicator, Operation};
use weft_mpi::process::Process;
use weft_mpi::signature::Items;
use weft_mpi::topology::NeighbourLists;

/// `count` items of a datatype.
fn items(process: &Process, datatype: MPI_Datatype, count: u64) -> Result<Items> {
    let found = process.objects.datatype(datatype.0)?;
    Ok(Items::new(datatype.0, &found.description, &found.name, count))
}

fn of_part(process: &Process, part: &Part) -> Result<Items> {
    items(process, part.datatype, part.count.max(0) as u64)
}

fn of_parts(process: &Process, parts: &Parts, partners: Partners) -> Result<Data> {
    of_counts(process, parts, partners).map(Data::Each)
}

fn of_counts(process: &Process, parts: &Parts, partners: Partners) -> Result<Vec<Items>> {
    let counts = counts_of(parts.counts, partners, "counts")?;
    counts.into_iter().map(|count| items(process, parts.datatype, count)).collect()
}

fn of_typed(
    process: &Process,
    counts: UnmeasuredCounts,
    types: UnmeasuredArray<MPI_Datatype>,
    partners: Partners,
) -> Result<Vec<Items>> {
    let (counts, types) = (counts_of(counts, partners, "counts")?, types_of(types, partners));
    counts.into_iter().zip(types.iter()).map(|(count, datatype)| items(process, datatype, count)).collect()
}

/// The items of one side of an exchange, for each of its partners.
fn of_side(process: &Process, side: &Side, partners: Partners) -> Result<Vec<Items>> {
    match side {
        Side::Nothing => Ok(Vec::new()),
        Side::Same(part) | Side::Consecutive(part) => Ok(vec![of_part(process, part)?; partners.count()]),
        Side::Listed(parts) => of_counts(process, parts, partners),
        Side::Typed(parts) => of_typed(process, parts.counts, parts.datatypes, partners),
    }
}

/// A barrier, also between groups.
pub(super) fn barrier(process: &Process, comm: &Communicator) -> Result<Call> {
    Ok(Call { between: between(process, comm), ..Call::default() })
}

/// An exchange with neighbours.
pub(super) fn neighbours(process: &Process, comm: &Communicator, send: &Side, receive: &Side) -> Result<Call> {
    let neighbours = comm.neighbour_lists()?;
    let sent = of_side(process, send, Partners::destinations(&neighbours))?;
    let expected = of_side(process, receive, Partners::sources(&neighbours))?;
    let NeighbourLists { sources, destinations, .. } = neighbours;
    Ok(Call { sends: Data::among(destinations, sent), expects: Data::among(sources, expected), ..Call::default() })
}

/// The ranks in MPI_COMM_WORLD of all processes of an intercommunicator.
fn between(process: &Process, comm: &Communicator) -> Option<Vec<u32>> {
    comm.inter.as_ref()?;
    let members = process.job.as_ref().map_or(&[][..], |job| &job.members);
    let number = |peer| members.iter().position(|member| *member == peer).map_or(u32::MAX, |rank| rank as u32);
    Some(comm.everybody().0.members.iter().copied().map(number).collect())
}

/// The ranks of the other group's processes among those of both.
fn others(comm: &Communicator) -> Range<u32> {
    let (own, other) = (comm.group.size(), comm.partners().size());
    if comm.inter.as_ref().is_some_and(|inter| inter.is_first) { own..own + other } else { 0..other }
}

/// An operation between groups with a root (MPI-5.0 §6.2.3). `own` is the data between this process and the
/// root, or between the root and each process.
pub(super) fn rooted_between(
    process: &Process,
    comm: &Communicator,
    role: Role,
    own: &Side,
    to_root: bool,
) -> Result<Call> {
    let others = others(comm);
    let receives = to_root == (role == Role::Root);
    let (root, data) = match role {
        Role::Absent => (None, Data::Nothing),
        Role::Root => {
            let items = of_side(process, own, Partners::remote(comm))?;
            (Some(comm.everybody().1), Data::among(others.map(Some), items))
        }
        Role::Member(root) => {
            let root = others.start + root;
            let items = of_side(process, own, Partners::ROOT)?;
            (Some(root), Data::among([Some(root)], items))
        }
    };
    let (sends, expects) = if receives { (Data::Nothing, data) } else { (data, Data::Nothing) };
    let is_absent = role == Role::Absent;
    Ok(Call { root, is_absent, sends, expects, ..barrier(process, comm)? })
}

/// An exchange of each process with all processes of the other group.
pub(super) fn exchange_between(process: &Process, comm: &Communicator, send: &Side, receive: &Side) -> Result<Call> {
    let others = others(comm);
    let partners = Partners::remote(comm);
    let (sent, expected) = (of_side(process, send, partners)?, of_side(process, receive, partners)?);
    let (sends, expects) = (Data::among(others.clone().map(Some), sent), Data::among(others.map(Some), expected));
    Ok(Call { sends, expects, ..barrier(process, comm)? })
}

/// A reduction between groups. Without a role all processes of both groups take part.
pub(super) fn reduction_between(
    process: &Process,
    comm: &Communicator,
    role: Option<Role>,
    (datatype, count): (MPI_Datatype, u64),
    op: MPI_Op,
) -> Result<Call> {
    let root = match role {
        Some(Role::Absent) => return Ok(Call { is_absent: true, ..barrier(process, comm)? }),
        Some(Role::Root) => Some(comm.everybody().1),
        Some(Role::Member(root)) => Some(others(comm).start + root),
        None => None,
    };
    Ok(Call { root, between: between(process, comm), ..reduction(process, (datatype, count), op, None)? })
}

pub(super) fn bcast(process: &Process, comm: &Communicator, part: Part, root: c_int) -> Result<Call> {
    let (root, data) = (root as u32, of_part(process, &part)?);
    let (sends, expects) =
        if comm.rank == root { (Data::Alike(data), Data::Nothing) } else { (Data::Nothing, Data::One(root, data)) };
    Ok(Call { root: Some(root), sends, expects, ..Call::default() })
}

/// The data between a rank and the root, or between the root and each rank. The side that has no part is not
/// looked at.
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

/// A gather: `own` is the part of each rank, `each` the part of the root.
pub(super) fn gather(
    process: &Process,
    comm: &Communicator,
    (own, each): (Part, Part),
    root: c_int,
    to_root: bool,
) -> Result<Call> {
    rooted(process, comm, &own, || Ok(Data::Alike(of_part(process, &each)?)), root, to_root)
}

pub(super) fn gatherv(
    process: &Process,
    comm: &Communicator,
    (own, each): (Part, Parts),
    root: c_int,
    to_root: bool,
) -> Result<Call> {
    let each = || of_parts(process, &each, Partners::of(comm));
    rooted(process, comm, &own, each, root, to_root)
}

pub(super) fn every(process: &Process, _: &Communicator, send: Part, receive: Part) -> Result<Call> {
    let sent = if is_in_place(send.buffer.addr()) { receive } else { send };
    let (sends, expects) = (Data::Alike(of_part(process, &sent)?), Data::Alike(of_part(process, &receive)?));
    Ok(Call { sends, expects, ..Call::default() })
}

pub(super) fn allgatherv(process: &Process, comm: &Communicator, send: Part, receive: Parts) -> Result<Call> {
    let expects = of_parts(process, &receive, Partners::of(comm))?;
    let sends = match &expects {
        Data::Each(all) if is_in_place(send.buffer.addr()) => Data::Alike(all[comm.rank as usize].clone()),
        _ => Data::Alike(of_part(process, &send)?),
    };
    Ok(Call { sends, expects, ..Call::default() })
}

pub(super) fn alltoallv(process: &Process, comm: &Communicator, send: Parts, receive: Parts) -> Result<Call> {
    let partners = Partners::of(comm);
    let sent = if is_in_place(send.buffer.addr()) { receive } else { send };
    let (sends, expects) = (of_parts(process, &sent, partners)?, of_parts(process, &receive, partners)?);
    Ok(Call { sends, expects, ..Call::default() })
}

pub(super) fn alltoallw(process: &Process, comm: &Communicator, send: TypedParts, receive: TypedParts) -> Result<Call> {
    let each = |parts: TypedParts| of_typed(process, parts.counts, parts.datatypes, Partners::of(comm)).map(Data::Each);
    let expects = each(receive)?;
    let sends = if is_in_place(send.buffer.addr()) { expects.clone() } else { each(send)? };
    Ok(Call { sends, expects, ..Call::default() })
}

/// The number of a reduction operation, the same in all processes, and its name.
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
        // Handles of user operations differ between processes.
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
