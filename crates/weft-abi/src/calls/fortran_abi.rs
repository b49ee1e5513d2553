//! Fortran's types (MPI-5.0 §20.4.1), as common compilers without options have them. They are known, so
//! programs cannot set them.

use super::info::give;
use crate::arguments::*;
use crate::constants::{MPI_ERR_ABI, MPI_ERR_ARG};
use crate::types::*;
use std::ffi::{c_int, c_void};
use weft_mpi::error::{Error, Result};
use weft_mpi::object::Info;

/// The sizes of LOGICAL, in bytes, for which there are datatypes.
const LOGICAL_SIZES: [c_int; 5] = [1, 2, 4, 8, 16];

/// The sizes of Fortran's types in bytes, as common compilers without options have them, and the sized types
/// that Weft has.
fn fortran_info() -> Info {
    let supported = |handle: usize| weft_mpi::predefined::element(handle).is_some().to_string();
    let sizes = [("logical", 4), ("integer", 4), ("real", 4), ("double_precision", 8)];
    let mut info: Info = sizes.map(|(name, size)| (format!("mpi_{name}_size"), size.to_string())).to_vec();
    for (name, handle) in [
        ("logical1", weft_mpi::constants::MPI_LOGICAL1),
        ("logical2", weft_mpi::constants::MPI_LOGICAL2),
        ("logical4", weft_mpi::constants::MPI_LOGICAL4),
        ("logical8", weft_mpi::constants::MPI_LOGICAL8),
        ("logical16", weft_mpi::constants::MPI_LOGICAL16),
        ("integer1", weft_mpi::constants::MPI_INTEGER1),
        ("integer2", weft_mpi::constants::MPI_INTEGER2),
        ("integer4", weft_mpi::constants::MPI_INTEGER4),
        ("integer8", weft_mpi::constants::MPI_INTEGER8),
        ("integer16", weft_mpi::constants::MPI_INTEGER16),
        ("real2", weft_mpi::constants::MPI_REAL2),
        ("real4", weft_mpi::constants::MPI_REAL4),
        ("real8", weft_mpi::constants::MPI_REAL8),
        ("real16", weft_mpi::constants::MPI_REAL16),
        ("complex4", weft_mpi::constants::MPI_COMPLEX4),
        ("complex8", weft_mpi::constants::MPI_COMPLEX8),
        ("complex16", weft_mpi::constants::MPI_COMPLEX16),
        ("complex32", weft_mpi::constants::MPI_COMPLEX32),
        ("double_complex", weft_mpi::constants::MPI_DOUBLE_COMPLEX),
    ] {
        info.push((format!("mpi_{name}_supported"), supported(handle)));
    }
    info
}

/// MPI_Abi_get_fortran_info (MPI-5.0 §20.4.1).
pub(crate) fn abi_get_fortran_info(info: Out<MPI_Info>) -> Result<()> {
    give(fortran_info(), info)
}

/// MPI_Abi_set_fortran_info (MPI-5.0 §20.4.1): the sizes are known and cannot be set.
pub(crate) fn abi_set_fortran_info(_info: MPI_Info) -> Result<()> {
    Err(known("the sizes of Fortran's types are", "MPI_Abi_get_fortran_info"))
}

/// MPI_Abi_get_fortran_booleans (MPI-5.0 §20.4.1): reductions take any bit that is set for true, and return
/// 1.
pub(crate) unsafe fn abi_get_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: Out<c_int>,
) -> Result<()> {
    check_logical_size(logical_size)?;
    let is_known = LOGICAL_SIZES.contains(&logical_size);
    if is_known {
        for (value, pointer) in [(1, logical_true), (0, logical_false)] {
            let bytes = u128::to_le_bytes(value);
            // SAFETY: both have `logical_size` bytes (MPI-5.0 §20.4), which are not more than 16.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer.cast(), logical_size as usize) };
        }
    }
    is_set.set(is_known.into());
    Ok(())
}

/// MPI_Abi_set_fortran_booleans (MPI-5.0 §20.4.1): the values are known and cannot be set.
pub(crate) fn abi_set_fortran_booleans(
    logical_size: c_int,
    _logical_true: *mut c_void,
    _logical_false: *mut c_void,
) -> Result<()> {
    check_logical_size(logical_size)?;
    Err(known("the values of Fortran's booleans are", "MPI_Abi_get_fortran_booleans"))
}

fn check_logical_size(size: c_int) -> Result<()> {
    if size > 0 && size.count_ones() == 1 {
        return Ok(());
    }
    Err(Error::new(MPI_ERR_ARG, format!("logical_size is {size}; it must be a power of two")))
}

fn known(what: &str, by: &str) -> Error {
    Error::new(MPI_ERR_ABI, format!("{what} known and cannot be set; {by} gives them"))
}
