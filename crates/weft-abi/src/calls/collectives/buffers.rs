//! The buffers of a collective, as the program describes them.
//!
//! Before the operation is planned, these checks are made: the bytes can be counted, the addresses can be
//! memory, and the buffers do not overlap (MPI-5.0 §6.1).

use crate::arguments::*;
use crate::constants::*;
use crate::types::MPI_Datatype;
use std::sync::Arc;
use weft_mpi::algorithms::{Blocks, Items, TypedBlocks};
use weft_mpi::collective::SharedDatatype;
use weft_mpi::error::{Error, Result};
use weft_mpi::layout::Layout;
use weft_mpi::memory::{self, Address, Footprint};
use weft_mpi::object::{Communicator, Description};
use weft_mpi::process::Process;
use weft_mpi::topology::NeighbourLists;

/// The address of a buffer of the call. Schedules never use a buffer that is MPI_IN_PLACE or not significant
/// here.
pub(super) fn address(buffer: Buffer) -> Address {
    Address::new(buffer.as_ptr())
}

/// Checks that two buffers of one call share no byte (MPI-5.0 §6.1).
pub(super) fn check_apart(one: Option<Footprint>, other: Option<Footprint>) -> Result<()> {
    match (one, other) {
        (Some(one), Some(other)) if one.overlaps(&other) => Err(overlapping()),
        _ => Ok(()),
    }
}

#[cold]
fn overlapping() -> Error {
    let message = "the buffers of the call overlap, which no collective allows: pass MPI_IN_PLACE where one of them is to be both";
    Error::new(MPI_ERR_BUFFER, message)
}

impl Part {
    pub(super) fn address(&self) -> Address {
        address(self.buffer)
    }

    /// Describes and checks the items of the buffer, which has `blocks` times as many.
    pub(super) fn describe(&self, process: &Process, blocks: u32) -> Result<(Items, Arc<Description>)> {
        let (items, description) = self.describe_only(process)?;
        check(self.buffer, items.count, blocks, &description.layout)?;
        Ok((items, description))
    }

    /// Describes the items where the buffer is MPI_IN_PLACE: count and datatype are those of another buffer.
    pub(super) fn describe_only(&self, process: &Process) -> Result<(Items, Arc<Description>)> {
        if self.count < 0 {
            return Err(Error::new(MPI_ERR_COUNT, format!("the count is {}; it must not be negative", self.count)));
        }
        let description = process.objects.committed(self.datatype.0)?.description.clone();
        Ok((Items { count: self.count as u64, shape: description.shape() }, description))
    }

    /// The memory of the items, `blocks` times as many as the count says.
    pub(super) fn footprint(&self, blocks: u32, layout: &Layout) -> Footprint {
        Footprint::of_items(self.buffer.addr(), self.count as u64 * u64::from(blocks), layout)
    }
}

/// Checks that `blocks` times `count` items of `layout` can be at `buffer`.
pub(super) fn check(buffer: Buffer, count: u64, blocks: u32, layout: &Layout) -> Result<()> {
    let count = count.saturating_mul(u64::from(blocks));
    memory::check_items(buffer.addr(), count, layout)?;
    Ok(())
}

/// Blocks of one datatype, copied to memory of the library.
pub(super) struct OwnedBlocks {
    counts: Vec<u64>,
    displacements: Vec<i64>,
    item_size: u64,
}

impl OwnedBlocks {
    pub(super) fn view(&self) -> Blocks<'_> {
        Blocks { counts: &self.counts, displacements: &self.displacements, item_size: self.item_size }
    }

    /// The memory of block `rank` of `buffer`.
    pub(super) fn footprint(&self, buffer: Buffer, rank: usize, layout: &Layout) -> Footprint {
        let start = buffer.addr().wrapping_add_signed(self.displacements[rank] as isize);
        Footprint::of_items(start, self.counts[rank], layout)
    }
}

/// The number of elements that the standard gives to an array of a collective (MPI-5.0 §6.5, §8.6). It is
/// made only of the object that determines it, so no array is measured by another number.
#[derive(Clone, Copy)]
pub(super) struct Partners(usize);

impl Partners {
    /// No partners: for the side of an exchange in which a process has no part.
    pub(super) const NONE: Self = Self(0);
    /// Only the root: a process of the other group exchanges with it data that no array describes.
    pub(super) const ROOT: Self = Self(1);

    /// The processes of a communicator; for an intercommunicator, those of the local group.
    pub(super) fn of(comm: &Communicator) -> Self {
        Self(comm.group.size() as usize)
    }

    /// The processes of the remote group of an intercommunicator.
    pub(super) fn remote(comm: &Communicator) -> Self {
        Self(comm.partners().size() as usize)
    }

    /// The neighbours from which data comes.
    pub(super) fn sources(neighbours: &NeighbourLists) -> Self {
        Self(neighbours.sources.len())
    }

    /// The neighbours to which data goes.
    pub(super) fn destinations(neighbours: &NeighbourLists) -> Self {
        Self(neighbours.destinations.len())
    }

    pub(super) fn count(self) -> usize {
        self.0
    }
}

/// The counts for `partners`.
pub(super) fn counts_of(counts: UnmeasuredCounts, partners: Partners, name: &str) -> Result<Vec<u64>> {
    let Partners(size) = partners;
    if counts.is_null() && size > 0 {
        return Err(Error::new(MPI_ERR_ARG, format!("{name} is a null pointer; it must have {size} elements")));
    }
    // SAFETY: the array has an element for each partner; it is not null where it has any.
    let counts = unsafe { counts.measured(size) }.to_vec();
    counts
        .iter()
        .enumerate()
        .map(|(rank, count)| {
            u64::try_from(*count)
                .map_err(|_| Error::new(MPI_ERR_COUNT, format!("{name}[{rank}] is {count}; it must not be negative")))
        })
        .collect()
}

/// The datatypes for `partners`; where there are any, the array is not null.
pub(super) fn types_of<'call>(
    types: UnmeasuredArray<'call, MPI_Datatype>,
    partners: Partners,
) -> InArray<'call, MPI_Datatype> {
    // SAFETY: the array has an element for each partner.
    unsafe { types.measured(partners.0) }
}

/// Checks that block `rank` of a buffer, `displacement` bytes from its beginning, can be counted and can be
/// there.
fn check_block(buffer: Buffer, displacement: i64, count: u64, layout: &Layout, rank: usize) -> Result<()> {
    // Where the buffer has no address, displacements are addresses.
    if !buffer.is_null() && count > 0 {
        memory::check_distance(displacement)
            .map_err(|why| Error::new(MPI_ERR_ARG, format!("the block of rank {rank}: {why}")))?;
    }
    let start = buffer.addr().wrapping_add_signed(displacement as isize);
    memory::check_items(start, count, layout)
        .map_err(|error| Error::new(error.class, format!("the block of rank {rank}: {}", error.message)))?;
    Ok(())
}

/// Checks that all blocks together can be counted.
fn check_sum(bytes: impl Iterator<Item = u64>, name: &str) -> Result<()> {
    let sum = bytes.into_iter().try_fold(0_i64, |sum, bytes| sum.checked_add(i64::try_from(bytes).ok()?));
    match sum {
        Some(_) => Ok(()),
        None => Err(Error::new(MPI_ERR_COUNT, format!("{name} are more than 2^63 - 1 bytes together"))),
    }
}

impl Parts<'_> {
    /// Describes and checks the blocks of `partners`.
    pub(super) fn describe(
        &self,
        process: &Process,
        partners: Partners,
        name: &str,
    ) -> Result<(OwnedBlocks, Arc<Description>)> {
        let Partners(size) = partners;
        let description = process.objects.committed(self.datatype.0)?.description.clone();
        let layout = &description.layout;
        let counts = counts_of(self.counts, partners, name)?;
        if self.displacements.is_null() && size > 0 {
            return Err(Error::new(MPI_ERR_ARG, format!("the displacements that go with {name} are a null pointer")));
        }
        // SAFETY: the array has an element for each partner; it is not null where it has any.
        let displacements = unsafe { self.displacements.measured(size) }.to_vec();
        let mut bytes = Vec::with_capacity(size);
        for (rank, (count, items)) in counts.iter().zip(displacements).enumerate() {
            let far = || {
                let extent = layout.extent();
                let what =
                    format!("the displacement of rank {rank}, {items} items of {extent} bytes, does not fit 63 bits");
                Error::new(MPI_ERR_ARG, what)
            };
            let displacement = items.checked_mul(layout.extent()).ok_or_else(far)?;
            check_block(self.buffer, displacement, *count, layout, rank)?;
            bytes.push(displacement);
        }
        check_sum(counts.iter().map(|count| count * layout.size()), name)?;
        Ok((OwnedBlocks { counts, displacements: bytes, item_size: layout.size() }, description))
    }
}

/// Blocks of several datatypes, copied to memory of the library.
#[derive(Default)]
pub(super) struct OwnedTypedBlocks {
    counts: Vec<u64>,
    displacements: Vec<i64>,
    item_sizes: Vec<u64>,
    pub(super) types: Vec<SharedDatatype>,
}

impl TypedParts<'_> {
    /// Describes and checks the blocks of `partners`.
    pub(super) fn describe(&self, process: &Process, partners: Partners, name: &str) -> Result<OwnedTypedBlocks> {
        let Partners(size) = partners;
        if size > 0 && (self.displacements.is_null() || self.datatypes.as_ptr().is_null()) {
            return Err(Error::new(MPI_ERR_ARG, format!("an array that goes with {name} is a null pointer")));
        }
        // SAFETY: the array has an element for each partner; it is not null where it has any.
        let displacements = unsafe { self.displacements.measured(size) }.to_vec();
        let (counts, types) = (counts_of(self.counts, partners, name)?, types_of(self.datatypes, partners));
        let types = types
            .iter()
            .map(|datatype| Ok(process.objects.committed(datatype.0)?.description.clone() as SharedDatatype))
            .collect::<Result<Vec<_>>>()?;
        for (rank, datatype) in types.iter().enumerate() {
            check_block(self.buffer, displacements[rank], counts[rank], datatype.layout(), rank)?;
        }
        check_sum(counts.iter().zip(&types).map(|(count, datatype)| count * datatype.layout().size()), name)?;
        let item_sizes = types.iter().map(|datatype| datatype.layout().size()).collect();
        Ok(OwnedTypedBlocks { counts, displacements, item_sizes, types })
    }
}

impl OwnedTypedBlocks {
    pub(super) fn view(&self) -> TypedBlocks<'_> {
        TypedBlocks { counts: &self.counts, displacements: &self.displacements, item_sizes: &self.item_sizes }
    }

    /// The memory of block `rank` of `buffer`, if there is one.
    pub(super) fn footprint(&self, buffer: Buffer, rank: usize) -> Option<Footprint> {
        let start = buffer.addr().wrapping_add_signed(*self.displacements.get(rank)? as isize);
        Some(Footprint::of_items(start, self.counts[rank], self.types[rank].layout()))
    }
}
