//! MPI environmental management (MPI-5.0 §9).

use crate::generated::constants::{MPI_ABI_SUBVERSION, MPI_ABI_VERSION, MPI_SUBVERSION, MPI_VERSION};
use std::ffi::c_int;
use weft_mpi::error::Error;

/// MPI_Get_version (MPI-5.0 §9.1.1).
///
/// # Safety
/// Both pointers can be written.
pub(crate) unsafe fn get_version(version: *mut c_int, subversion: *mut c_int) -> Result<(), Error> {
    // SAFETY: the caller's pointer.
    unsafe { *version = MPI_VERSION };
    // SAFETY: the caller's pointer.
    unsafe { *subversion = MPI_SUBVERSION };
    Ok(())
}

/// MPI_Abi_get_version (MPI-5.0 §20).
///
/// # Safety
/// Both pointers can be written.
pub(crate) unsafe fn abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> Result<(), Error> {
    // SAFETY: the caller's pointer.
    unsafe { *abi_major = MPI_ABI_VERSION };
    // SAFETY: the caller's pointer.
    unsafe { *abi_minor = MPI_ABI_SUBVERSION };
    Ok(())
}
