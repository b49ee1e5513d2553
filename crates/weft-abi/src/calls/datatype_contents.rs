//! The construction of a datatype (MPI-5.0 §5.1.13), and predefined datatypes by their contents (§6.9.4,
//! §19.1.9).

use crate::arguments::*;
use crate::types::*;
use std::ffi::c_int;
use weft_mpi::constants::*;
use weft_mpi::datatypes;
use weft_mpi::error::{Error, Result};
use weft_mpi::object::Recipe;
use weft_mpi::predefined::UNSUPPORTED_TYPES;
use weft_mpi::process::with;

/// The recipe of a datatype.
fn recipe(datatype: MPI_Datatype) -> Result<Recipe> {
    if UNSUPPORTED_TYPES.iter().any(|(handle, _)| *handle == datatype.0) {
        return Ok(Recipe { combiner: MPI_COMBINER_NAMED, ..Recipe::default() });
    }
    with(|process| Ok(process.objects.datatype(datatype.0)?.description.recipe.clone()))
}

/// Refuses the usual form of a call for a datatype with large counts, which this form cannot report.
fn refuse_large(recipe: &Recipe, name: &str) -> Result<()> {
    if recipe.large && !recipe.counts.is_empty() {
        let message = format!("the datatype was made with large counts, so {name}_c must be called");
        return Err(Error::new(MPI_ERR_TYPE, message));
    }
    Ok(())
}

/// MPI_Type_get_envelope (MPI-5.0 §5.1.13).
pub(crate) fn type_get_envelope(
    datatype: MPI_Datatype,
    num_integers: Out<i64>,
    num_addresses: Out<i64>,
    num_large_counts: Out<i64>,
    num_datatypes: Out<i64>,
    combiner: Out<c_int>,
) -> Result<()> {
    refuse_large(&recipe(datatype)?, "MPI_Type_get_envelope")?;
    type_get_envelope_c(datatype, num_integers, num_addresses, num_large_counts, num_datatypes, combiner)
}

/// MPI_Type_get_envelope_c.
pub(crate) fn type_get_envelope_c(
    datatype: MPI_Datatype,
    num_integers: Out<i64>,
    num_addresses: Out<i64>,
    num_large_counts: Out<i64>,
    num_datatypes: Out<i64>,
    combiner: Out<c_int>,
) -> Result<()> {
    let recipe = recipe(datatype)?;
    num_integers.set(recipe.integers.len() as i64);
    num_addresses.set(recipe.addresses.len() as i64);
    num_large_counts.set(recipe.counts.len() as i64);
    num_datatypes.set(recipe.types.len() as i64);
    combiner.set(recipe.combiner);
    Ok(())
}

/// MPI_Type_get_contents (MPI-5.0 §5.1.13).
pub(crate) fn type_get_contents(
    datatype: MPI_Datatype,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    array_of_integers: OutArray<c_int>,
    array_of_addresses: OutArray<MPI_Aint>,
    array_of_large_counts: OutArray<MPI_Count>,
    array_of_datatypes: OutArray<MPI_Datatype>,
) -> Result<()> {
    refuse_large(&recipe(datatype)?, "MPI_Type_get_contents")?;
    type_get_contents_c(
        datatype,
        max_integers,
        max_addresses,
        max_large_counts,
        max_datatypes,
        array_of_integers,
        array_of_addresses,
        array_of_large_counts,
        array_of_datatypes,
    )
}

/// MPI_Type_get_contents_c.
pub(crate) fn type_get_contents_c(
    datatype: MPI_Datatype,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    array_of_integers: OutArray<c_int>,
    array_of_addresses: OutArray<MPI_Aint>,
    array_of_large_counts: OutArray<MPI_Count>,
    array_of_datatypes: OutArray<MPI_Datatype>,
) -> Result<()> {
    let recipe = recipe(datatype)?;
    if recipe.combiner == MPI_COMBINER_NAMED {
        return Err(Error::new(MPI_ERR_TYPE, "a predefined datatype has no contents"));
    }
    for (name, room, needed) in [
        ("max_integers", max_integers, recipe.integers.len()),
        ("max_addresses", max_addresses, recipe.addresses.len()),
        ("max_large_counts", max_large_counts, recipe.counts.len()),
        ("max_datatypes", max_datatypes, recipe.types.len()),
    ] {
        if room < needed as i64 {
            return Err(Error::new(MPI_ERR_ARG, format!("{name} is {room}, but there are {needed}")));
        }
    }
    let handles: Vec<usize> = with(|process| {
        recipe.types.iter().map(|constituent| process.objects.constituent_handle(constituent)).collect::<Result<_>>()
    })?;
    // The integers were integers, or counts that were an int.
    let integers = recipe.integers.iter().map(|value| *value as c_int);
    array_of_integers.fill(integers);
    array_of_addresses.fill(recipe.addresses.iter().map(|value| *value as MPI_Aint));
    array_of_large_counts.fill(recipe.counts.iter().copied());
    array_of_datatypes.fill(handles.into_iter().map(MPI_Datatype));
    Ok(())
}

/// MPI_Type_match_size (MPI-5.0 §19.1.9).
pub(crate) fn type_match_size(typeclass: c_int, size: c_int, datatype: Out<MPI_Datatype>) -> Result<()> {
    let handle = datatypes::match_size(typeclass, size)?;
    datatype.set(MPI_Datatype(handle));
    Ok(())
}

/// MPI_Type_create_f90_real (MPI-5.0 §19.1.9).
pub(crate) fn type_create_f90_real(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) -> Result<()> {
    let handle = with(|process| datatypes::real_type(&mut process.objects, p, r))?;
    newtype.set(MPI_Datatype(handle));
    Ok(())
}

/// MPI_Type_create_f90_complex (MPI-5.0 §19.1.9).
pub(crate) fn type_create_f90_complex(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) -> Result<()> {
    let handle = with(|process| datatypes::complex_type(&mut process.objects, p, r))?;
    newtype.set(MPI_Datatype(handle));
    Ok(())
}

/// MPI_Type_create_f90_integer (MPI-5.0 §19.1.9).
pub(crate) fn type_create_f90_integer(r: c_int, newtype: Out<MPI_Datatype>) -> Result<()> {
    let handle = with(|process| datatypes::integer_type(&mut process.objects, r))?;
    newtype.set(MPI_Datatype(handle));
    Ok(())
}

/// MPI_Type_get_value_index (MPI-5.0 §6.9.4): pairs without a name are not supported, which the standard
/// allows.
pub(crate) fn type_get_value_index(
    value_type: MPI_Datatype,
    index_type: MPI_Datatype,
    pair_type: Out<MPI_Datatype>,
) -> Result<()> {
    let handle = with(|process| {
        let value = process.objects.old_type(value_type.0)?;
        let index = process.objects.old_type(index_type.0)?;
        datatypes::pair_type(&value, &index)
    })?;
    pair_type.set(MPI_Datatype(handle));
    Ok(())
}
