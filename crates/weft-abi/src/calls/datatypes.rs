//! Constructors of datatypes, and calls that return their shape (MPI-5.0 §5.1, §7.8).
//!
//! Where the arguments do not tell whether the large-count form was called, each form has its own function:
//! MPI_Type_get_envelope reports the constructor.

use super::attributes::{copy_attributes, delete_attributes};
use super::text;
use crate::arguments::*;
use crate::types::*;
use std::ffi::c_int;
use std::sync::Arc;
use weft_mpi::constants::*;
use weft_mpi::datatypes::{self, Darray, Old, Subarray};
use weft_mpi::error::{Error, Result};
use weft_mpi::object::{Class, Description};
use weft_mpi::predefined::UNSUPPORTED_TYPES;
use weft_mpi::process::with;

/// Makes a datatype of another.
fn derive(
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
    make: impl FnOnce(Old) -> Result<Description>,
) -> Result<()> {
    let handle = with(|process| {
        let description = make(process.objects.old_type(oldtype.0)?)?;
        process.objects.add_datatype(description)
    })?;
    newtype.set(MPI_Datatype(handle));
    Ok(())
}

fn is_large(counts: Counts) -> bool {
    matches!(counts, Counts::Wide(_))
}

/// MPI_Type_contiguous (MPI-5.0 §5.1.2).
pub(crate) fn type_contiguous(count: i64, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) -> Result<()> {
    derive(oldtype, newtype, |old| datatypes::contiguous(count, old, false))
}

/// MPI_Type_contiguous_c.
pub(crate) fn type_contiguous_c(count: i64, oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) -> Result<()> {
    derive(oldtype, newtype, |old| datatypes::contiguous(count, old, true))
}

/// MPI_Type_vector (MPI-5.0 §5.1.2).
pub(crate) fn type_vector(
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    derive(oldtype, newtype, |old| datatypes::vector(count, blocklength, stride, old, false))
}

/// MPI_Type_vector_c.
pub(crate) fn type_vector_c(
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    derive(oldtype, newtype, |old| datatypes::vector(count, blocklength, stride, old, true))
}

/// MPI_Type_create_hvector (MPI-5.0 §5.1.2).
pub(crate) fn type_create_hvector(
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    derive(oldtype, newtype, |old| datatypes::hvector(count, blocklength, stride, old, false))
}

/// MPI_Type_create_hvector_c.
pub(crate) fn type_create_hvector_c(
    count: i64,
    blocklength: i64,
    stride: i64,
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    derive(oldtype, newtype, |old| datatypes::hvector(count, blocklength, stride, old, true))
}

/// MPI_Type_indexed (MPI-5.0 §5.1.2).
pub(crate) fn type_indexed(
    _count: i64,
    array_of_blocklengths: Counts,
    array_of_displacements: Counts,
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    let lengths = array_of_blocklengths.to_vec();
    let displacements = array_of_displacements.to_vec();
    let large = is_large(array_of_blocklengths);
    derive(oldtype, newtype, |old| datatypes::indexed(&lengths, &displacements, old, large))
}

/// MPI_Type_create_hindexed (MPI-5.0 §5.1.2).
pub(crate) fn type_create_hindexed(
    _count: i64,
    array_of_blocklengths: Counts,
    array_of_displacements: Counts,
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    let lengths = array_of_blocklengths.to_vec();
    let displacements = array_of_displacements.to_vec();
    let large = is_large(array_of_blocklengths);
    derive(oldtype, newtype, |old| datatypes::hindexed(&lengths, &displacements, old, large))
}

/// MPI_Type_create_indexed_block (MPI-5.0 §5.1.2).
pub(crate) fn type_create_indexed_block(
    _count: i64,
    blocklength: i64,
    array_of_displacements: Counts,
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    let displacements = array_of_displacements.to_vec();
    let large = is_large(array_of_displacements);
    derive(oldtype, newtype, |old| datatypes::indexed_block(blocklength, &displacements, old, large))
}

/// MPI_Type_create_hindexed_block (MPI-5.0 §5.1.2).
pub(crate) fn type_create_hindexed_block(
    _count: i64,
    blocklength: i64,
    array_of_displacements: Counts,
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    let displacements = array_of_displacements.to_vec();
    derive(oldtype, newtype, |old| datatypes::hindexed_block(blocklength, &displacements, old, false))
}

/// MPI_Type_create_hindexed_block_c.
pub(crate) fn type_create_hindexed_block_c(
    _count: i64,
    blocklength: i64,
    array_of_displacements: Counts,
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    let displacements = array_of_displacements.to_vec();
    derive(oldtype, newtype, |old| datatypes::hindexed_block(blocklength, &displacements, old, true))
}

/// MPI_Type_create_struct (MPI-5.0 §5.1.2).
pub(crate) fn type_create_struct(
    _count: i64,
    array_of_blocklengths: Counts,
    array_of_displacements: Counts,
    array_of_types: InArray<MPI_Datatype>,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    let lengths = array_of_blocklengths.to_vec();
    let displacements = array_of_displacements.to_vec();
    let large = is_large(array_of_blocklengths);
    let handle = with(|process| {
        let old: Vec<Old> = array_of_types.iter().map(|of| process.objects.old_type(of.0)).collect::<Result<_>>()?;
        process.objects.add_datatype(datatypes::structure(&lengths, &displacements, &old, large)?)
    })?;
    newtype.set(MPI_Datatype(handle));
    Ok(())
}

/// MPI_Type_create_resized (MPI-5.0 §5.1.7).
pub(crate) fn type_create_resized(
    oldtype: MPI_Datatype,
    lb: i64,
    extent: i64,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    derive(oldtype, newtype, |old| datatypes::resized(lb, extent, old, false))
}

/// MPI_Type_create_resized_c.
pub(crate) fn type_create_resized_c(
    oldtype: MPI_Datatype,
    lb: i64,
    extent: i64,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    derive(oldtype, newtype, |old| datatypes::resized(lb, extent, old, true))
}

/// MPI_Type_create_subarray (MPI-5.0 §5.1.3).
pub(crate) fn type_create_subarray(
    _ndims: c_int,
    array_of_sizes: Counts,
    array_of_subsizes: Counts,
    array_of_starts: Counts,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    let [sizes, subsizes, starts] = [array_of_sizes, array_of_subsizes, array_of_starts].map(Counts::to_vec);
    let arguments = Subarray { sizes: &sizes, subsizes: &subsizes, starts: &starts, order };
    derive(oldtype, newtype, |old| datatypes::subarray(old, &arguments, is_large(array_of_sizes)))
}

/// MPI_Type_create_darray (MPI-5.0 §5.1.4).
pub(crate) fn type_create_darray(
    size: c_int,
    rank: c_int,
    _ndims: c_int,
    array_of_gsizes: Counts,
    array_of_distribs: InArray<c_int>,
    array_of_dargs: InArray<c_int>,
    array_of_psizes: InArray<c_int>,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    let gsizes = array_of_gsizes.to_vec();
    let [distribs, dargs, psizes] = [array_of_distribs, array_of_dargs, array_of_psizes].map(InArray::to_vec);
    let arguments = Darray { size, rank, gsizes: &gsizes, distribs: &distribs, dargs: &dargs, psizes: &psizes, order };
    derive(oldtype, newtype, |old| datatypes::darray(old, &arguments, is_large(array_of_gsizes)))
}

/// MPI_Type_dup (MPI-5.0 §5.1.10): committed as the original is, with its attributes.
pub(crate) fn type_dup(oldtype: MPI_Datatype, newtype: Out<MPI_Datatype>) -> Result<()> {
    let attributes = with(|process| Ok(process.objects.datatype(oldtype.0)?.attributes.clone()))?;
    let attributes = copy_attributes(&attributes, oldtype.0, Class::Datatype)?;
    let handle = with(|process| {
        let objects = &mut process.objects;
        let committed = objects.datatype(oldtype.0)?.committed;
        let description = Arc::new(datatypes::duplicate(objects.old_type(oldtype.0)?)?);
        let handle = objects.add_datatype_again(description, committed)?;
        objects.datatype_mut(handle)?.attributes = attributes;
        Ok(handle)
    })?;
    newtype.set(MPI_Datatype(handle));
    Ok(())
}

/// MPI_Type_commit (MPI-5.0 §5.1.9).
pub(crate) fn type_commit(datatype: InOut<MPI_Datatype>) -> Result<()> {
    let handle = datatype.get();
    with(|process| {
        process.objects.datatype_mut(handle.0)?.committed = true;
        Ok(())
    })
}

/// MPI_Type_free (MPI-5.0 §5.1.9): operations under way and datatypes made of it go on.
pub(crate) fn type_free(datatype: InOut<MPI_Datatype>) -> Result<()> {
    let handle = datatype.get().0;
    with(|process| {
        let recipe = &process.objects.datatype(handle)?.description.recipe;
        if recipe.combiner == MPI_COMBINER_NAMED || datatypes::is_unnamed_predefined(recipe) {
            return Err(Error::new(MPI_ERR_TYPE, "predefined datatypes cannot be freed"));
        }
        Ok(())
    })?;
    delete_attributes(handle, Class::Datatype)?;
    // The description is dropped while the lock is free: it may be the last of many.
    let freed = with(|process| process.objects.datatypes.remove(handle));
    drop(freed);
    datatype.set(MPI_Datatype::NULL);
    Ok(())
}

/// The numbers that describe the shape of a datatype; MPI_UNDEFINED for optional datatypes that are not
/// supported (MPI-5.0 §5.1.5, §20).
fn shape<const N: usize>(datatype: MPI_Datatype, of: impl FnOnce(&Description) -> [i64; N]) -> Result<[i64; N]> {
    if UNSUPPORTED_TYPES.iter().any(|(handle, _)| *handle == datatype.0) {
        return Ok([i64::from(MPI_UNDEFINED); N]);
    }
    with(|process| Ok(of(&process.objects.datatype(datatype.0)?.description)))
}

/// MPI_Type_size, MPI_Type_size_x (MPI-5.0 §5.1.5, §16.4).
pub(crate) fn type_size(datatype: MPI_Datatype, size: Out<i64>) -> Result<()> {
    let [found] = shape(datatype, |description| [description.layout.size() as i64])?;
    size.set(found);
    Ok(())
}

/// MPI_Type_get_extent, MPI_Type_get_extent_x (MPI-5.0 §5.1.7, §16.4).
pub(crate) fn type_get_extent(datatype: MPI_Datatype, lb: Out<i64>, extent: Out<i64>) -> Result<()> {
    let found = shape(datatype, |description| [description.layout.lb(), description.layout.extent()])?;
    lb.set(found[0]);
    extent.set(found[1]);
    Ok(())
}

/// MPI_Type_get_true_extent, MPI_Type_get_true_extent_x (MPI-5.0 §5.1.8, §16.4).
pub(crate) fn type_get_true_extent(datatype: MPI_Datatype, true_lb: Out<i64>, true_extent: Out<i64>) -> Result<()> {
    let found = shape(datatype, |description| [description.layout.true_lb(), description.layout.true_extent()])?;
    true_lb.set(found[0]);
    true_extent.set(found[1]);
    Ok(())
}

/// MPI_Type_set_name (MPI-5.0 §7.8).
pub(crate) fn type_set_name(datatype: MPI_Datatype, type_name: InString) -> Result<()> {
    let name = text::object_name(type_name);
    with(|process| {
        process.objects.datatype_mut(datatype.0)?.name = name;
        Ok(())
    })
}

/// MPI_Type_get_name (MPI-5.0 §7.8): MPI_DATATYPE_NULL has a name, too.
pub(crate) fn type_get_name(datatype: MPI_Datatype, type_name: OutString, resultlen: Out<c_int>) -> Result<()> {
    let unsupported = UNSUPPORTED_TYPES.iter().find(|(handle, _)| *handle == datatype.0);
    let name = match unsupported {
        Some((_, name)) => (*name).to_owned(),
        None if datatype == MPI_Datatype::NULL => "MPI_DATATYPE_NULL".to_owned(),
        None => with(|process| Ok(process.objects.datatype(datatype.0)?.name.clone()))?,
    };
    let length = type_name.set(&name);
    resultlen.set(length);
    Ok(())
}
