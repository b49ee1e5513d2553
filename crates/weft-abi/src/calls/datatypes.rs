//! Making datatypes and asking for their shape (MPI-5.0 §5.1, §7.8).
//!
//! Where the arguments do not tell whether the large-count form was called, there is one function for each form: the
//! constructor is remembered for MPI_Type_get_envelope.
//!
//! # Safety
//! Every function here is called by its generated wrapper with the arguments of the C prototype; output pointers can be
//! written, arrays have the lengths given beside them.

use super::attributes::{copy_attributes, delete_attributes};
use super::text;
use crate::arguments::*;
use crate::types::*;
use std::ffi::{c_char, c_int};
use std::sync::Arc;
use weft_mpi::constants::*;
use weft_mpi::datatypes::{self, Darray, Old, Subarray};
use weft_mpi::error::{Error, Result};
use weft_mpi::object::{Class, Description};
use weft_mpi::predefined::UNSUPPORTED_TYPES;
use weft_mpi::process::with;

/// Makes a datatype of another.
///
/// # Safety
/// `newtype` can be written.
unsafe fn derive(
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
    make: impl FnOnce(Old) -> Result<Description>,
) -> Result<()> {
    let handle = with(|process| {
        let description = make(process.objects.old_type(oldtype.0)?)?;
        process.objects.add_datatype(description)
    })?;
    // SAFETY: the caller's pointer.
    unsafe { *newtype = MPI_Datatype(handle) };
    Ok(())
}

fn is_large(counts: Counts) -> bool {
    matches!(counts, Counts::Wide(_))
}

/// # Safety
/// There are `length` elements at `array`, or none at all.
unsafe fn slice<'a, T>(array: *const T, length: usize) -> &'a [T] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's array; the boundary has checked that it is not null.
    unsafe { std::slice::from_raw_parts(array, length) }
}

/// MPI_Type_contiguous (MPI-5.0 §5.1.2).
pub(crate) unsafe fn type_contiguous(count: i64, oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::contiguous(count, old, false)) }
}

/// MPI_Type_contiguous_c.
pub(crate) unsafe fn type_contiguous_c(count: i64, oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::contiguous(count, old, true)) }
}

/// MPI_Type_vector (MPI-5.0 §5.1.2).
pub(crate) unsafe fn type_vector(
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::vector(count, blocklength, stride, old, false)) }
}

/// MPI_Type_vector_c.
pub(crate) unsafe fn type_vector_c(
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::vector(count, blocklength, stride, old, true)) }
}

/// MPI_Type_create_hvector (MPI-5.0 §5.1.2).
pub(crate) unsafe fn type_create_hvector(
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::hvector(count, blocklength, stride, old, false)) }
}

/// MPI_Type_create_hvector_c.
pub(crate) unsafe fn type_create_hvector_c(
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::hvector(count, blocklength, stride, old, true)) }
}

/// MPI_Type_indexed (MPI-5.0 §5.1.2).
pub(crate) unsafe fn type_indexed(
    count: i64,
    array_of_blocklengths: Counts,
    array_of_displacements: Counts,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's array.
    let lengths = unsafe { array_of_blocklengths.to_vec(count as usize) };
    // SAFETY: the caller's array.
    let displacements = unsafe { array_of_displacements.to_vec(count as usize) };
    let large = is_large(array_of_blocklengths);
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::indexed(&lengths, &displacements, old, large)) }
}

/// MPI_Type_create_hindexed (MPI-5.0 §5.1.2).
pub(crate) unsafe fn type_create_hindexed(
    count: i64,
    array_of_blocklengths: Counts,
    array_of_displacements: Counts,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's array.
    let lengths = unsafe { array_of_blocklengths.to_vec(count as usize) };
    // SAFETY: the caller's array.
    let displacements = unsafe { array_of_displacements.to_vec(count as usize) };
    let large = is_large(array_of_blocklengths);
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::hindexed(&lengths, &displacements, old, large)) }
}

/// MPI_Type_create_indexed_block (MPI-5.0 §5.1.2).
pub(crate) unsafe fn type_create_indexed_block(
    count: i64,
    blocklength: i64,
    array_of_displacements: Counts,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's array.
    let displacements = unsafe { array_of_displacements.to_vec(count as usize) };
    let large = is_large(array_of_displacements);
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::indexed_block(blocklength, &displacements, old, large)) }
}

/// MPI_Type_create_hindexed_block (MPI-5.0 §5.1.2).
pub(crate) unsafe fn type_create_hindexed_block(
    count: i64,
    blocklength: i64,
    array_of_displacements: Counts,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's array.
    let displacements = unsafe { array_of_displacements.to_vec(count as usize) };
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::hindexed_block(blocklength, &displacements, old, false)) }
}

/// MPI_Type_create_hindexed_block_c.
pub(crate) unsafe fn type_create_hindexed_block_c(
    count: i64,
    blocklength: i64,
    array_of_displacements: Counts,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's array.
    let displacements = unsafe { array_of_displacements.to_vec(count as usize) };
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::hindexed_block(blocklength, &displacements, old, true)) }
}

/// MPI_Type_create_struct (MPI-5.0 §5.1.2).
pub(crate) unsafe fn type_create_struct(
    count: i64,
    array_of_blocklengths: Counts,
    array_of_displacements: Counts,
    array_of_types: *const MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's array.
    let lengths = unsafe { array_of_blocklengths.to_vec(count as usize) };
    // SAFETY: the caller's array.
    let displacements = unsafe { array_of_displacements.to_vec(count as usize) };
    // SAFETY: the caller's array.
    let types = unsafe { slice(array_of_types, count as usize) };
    let large = is_large(array_of_blocklengths);
    let handle = with(|process| {
        let old: Vec<Old> = types.iter().map(|of| process.objects.old_type(of.0)).collect::<Result<_>>()?;
        process.objects.add_datatype(datatypes::structure(&lengths, &displacements, &old, large)?)
    })?;
    // SAFETY: the caller's pointer.
    unsafe { *newtype = MPI_Datatype(handle) };
    Ok(())
}

/// MPI_Type_create_resized (MPI-5.0 §5.1.7).
pub(crate) unsafe fn type_create_resized(
    oldtype: MPI_Datatype,
    lb: i64,
    extent: i64,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::resized(lb, extent, old, false)) }
}

/// MPI_Type_create_resized_c.
pub(crate) unsafe fn type_create_resized_c(
    oldtype: MPI_Datatype,
    lb: i64,
    extent: i64,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::resized(lb, extent, old, true)) }
}

/// MPI_Type_create_subarray (MPI-5.0 §5.1.3).
pub(crate) unsafe fn type_create_subarray(
    ndims: c_int,
    array_of_sizes: Counts,
    array_of_subsizes: Counts,
    array_of_starts: Counts,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let dimensions = ndims as usize;
    // SAFETY: the caller's arrays.
    let [sizes, subsizes, starts] =
        [array_of_sizes, array_of_subsizes, array_of_starts].map(|array| unsafe { array.to_vec(dimensions) });
    let arguments = Subarray { sizes: &sizes, subsizes: &subsizes, starts: &starts, order };
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::subarray(old, &arguments, is_large(array_of_sizes))) }
}

/// MPI_Type_create_darray (MPI-5.0 §5.1.4).
pub(crate) unsafe fn type_create_darray(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    array_of_gsizes: Counts,
    array_of_distribs: *const c_int,
    array_of_dargs: *const c_int,
    array_of_psizes: *const c_int,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let dimensions = ndims as usize;
    // SAFETY: the caller's array.
    let gsizes = unsafe { array_of_gsizes.to_vec(dimensions) };
    // SAFETY: the caller's arrays.
    let [distribs, dargs, psizes] =
        [array_of_distribs, array_of_dargs, array_of_psizes].map(|array| unsafe { slice(array, dimensions) });
    let arguments = Darray { size, rank, gsizes: &gsizes, distribs, dargs, psizes, order };
    // SAFETY: the caller's pointer.
    unsafe { derive(oldtype, newtype, |old| datatypes::darray(old, &arguments, is_large(array_of_gsizes))) }
}

/// MPI_Type_dup (MPI-5.0 §5.1.10): committed as the original is, with its attributes.
pub(crate) unsafe fn type_dup(oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) -> Result<()> {
    let attributes = with(|process| Ok(process.objects.datatype(oldtype.0)?.attributes.clone()))?;
    // SAFETY: the boundary holds no lock.
    let attributes = unsafe { copy_attributes(&attributes, oldtype.0, Class::Datatype) }?;
    let handle = with(|process| {
        let objects = &mut process.objects;
        let committed = objects.datatype(oldtype.0)?.committed;
        let description = Arc::new(datatypes::duplicate(objects.old_type(oldtype.0)?)?);
        let handle = objects.add_datatype_again(description, committed)?;
        objects.datatype_mut(handle)?.attributes = attributes;
        Ok(handle)
    })?;
    // SAFETY: the caller's pointer.
    unsafe { *newtype = MPI_Datatype(handle) };
    Ok(())
}

/// MPI_Type_commit (MPI-5.0 §5.1.9).
pub(crate) unsafe fn type_commit(datatype: *mut MPI_Datatype) -> Result<()> {
    // SAFETY: the caller's pointer.
    let handle = unsafe { *datatype };
    with(|process| {
        process.objects.datatype_mut(handle.0)?.committed = true;
        Ok(())
    })
}

/// MPI_Type_free (MPI-5.0 §5.1.9): operations under way and datatypes made of it go on.
pub(crate) unsafe fn type_free(datatype: *mut MPI_Datatype) -> Result<()> {
    // SAFETY: the caller's pointer.
    let datatype = unsafe { &mut *datatype };
    with(|process| {
        let recipe = &process.objects.datatype(datatype.0)?.description.recipe;
        if recipe.combiner == MPI_COMBINER_NAMED || datatypes::is_unnamed_predefined(recipe) {
            return Err(Error::new(MPI_ERR_TYPE, "predefined datatypes cannot be freed"));
        }
        Ok(())
    })?;
    // SAFETY: the boundary holds no lock.
    unsafe { delete_attributes(datatype.0, Class::Datatype) }?;
    // The description is dropped while the lock is free: it may be the last of many.
    let freed = with(|process| process.objects.datatypes.remove(datatype.0));
    drop(freed);
    *datatype = MPI_Datatype::NULL;
    Ok(())
}

/// Numbers that describe the shape of a datatype; MPI_UNDEFINED for optional datatypes that are not supported
/// (MPI-5.0 §5.1.5, §20).
fn shape<const N: usize>(datatype: MPI_Datatype, of: impl FnOnce(&Description) -> [i64; N]) -> Result<[i64; N]> {
    if UNSUPPORTED_TYPES.iter().any(|(handle, _)| *handle == datatype.0) {
        return Ok([i64::from(MPI_UNDEFINED); N]);
    }
    with(|process| Ok(of(&process.objects.datatype(datatype.0)?.description)))
}

/// MPI_Type_size, MPI_Type_size_x (MPI-5.0 §5.1.5, §16.4).
pub(crate) unsafe fn type_size(datatype: MPI_Datatype, size: &mut i64) -> Result<()> {
    [*size] = shape(datatype, |description| [description.layout.size() as i64])?;
    Ok(())
}

/// MPI_Type_get_extent, MPI_Type_get_extent_x (MPI-5.0 §5.1.7, §16.4).
pub(crate) unsafe fn type_get_extent(datatype: MPI_Datatype, lb: &mut i64, extent: &mut i64) -> Result<()> {
    [*lb, *extent] = shape(datatype, |description| [description.layout.lb(), description.layout.extent()])?;
    Ok(())
}

/// MPI_Type_get_true_extent, MPI_Type_get_true_extent_x (MPI-5.0 §5.1.8, §16.4).
pub(crate) unsafe fn type_get_true_extent(
    datatype: MPI_Datatype,
    true_lb: &mut i64,
    true_extent: &mut i64,
) -> Result<()> {
    [*true_lb, *true_extent] =
        shape(datatype, |description| [description.layout.true_lb(), description.layout.true_extent()])?;
    Ok(())
}

/// MPI_Type_set_name (MPI-5.0 §7.8).
pub(crate) unsafe fn type_set_name(datatype: MPI_Datatype, type_name: *const c_char) -> Result<()> {
    // SAFETY: the caller's string.
    let name = unsafe { text::object_name(type_name) };
    with(|process| {
        process.objects.datatype_mut(datatype.0)?.name = name;
        Ok(())
    })
}

/// MPI_Type_get_name (MPI-5.0 §7.8): MPI_DATATYPE_NULL has a name, too.
pub(crate) unsafe fn type_get_name(
    datatype: MPI_Datatype,
    type_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    let unsupported = UNSUPPORTED_TYPES.iter().find(|(handle, _)| *handle == datatype.0);
    let name = match unsupported {
        Some((_, name)) => (*name).to_owned(),
        None if datatype == MPI_Datatype::NULL => "MPI_DATATYPE_NULL".to_owned(),
        None => with(|process| Ok(process.objects.datatype(datatype.0)?.name.clone()))?,
    };
    // SAFETY: the room that the standard demands.
    let length = unsafe { text::give(&name, type_name, MPI_MAX_OBJECT_NAME as usize) };
    // SAFETY: the caller's pointer.
    unsafe { *resultlen = length };
    Ok(())
}
