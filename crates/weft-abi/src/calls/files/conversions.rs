//! Data representations of the program (MPI-5.0 §14.5.3). The functions run while the process lock is free.

use crate::arguments::*;
use crate::check;
use crate::constants::*;
use std::ffi::{c_int, c_void};
use weft_mpi::callbacks::*;
use weft_mpi::error::{Error, Result};
use weft_mpi::file::representation::Conversion;
use weft_mpi::process::with;

/// A conversion function of either binding.
#[derive(Clone, Copy)]
enum Convert {
    /// `MPI_CONVERSION_FN_NULL`: the data is as in memory.
    Null,
    Small(MPI_Datarep_conversion_function),
    Large(MPI_Datarep_conversion_function_c),
}

/// The functions of one representation.
struct Functions {
    read: Convert,
    write: Convert,
    extent: MPI_Datarep_extent_function,
    /// The address that the program has given, which only its functions look at.
    extra_state: usize,
}

fn checked(code: c_int, which: &str) -> Result<()> {
    if code == MPI_SUCCESS {
        return Ok(());
    }
    Err(Error::new(MPI_ERR_CONVERSION, format!("the {which} of a data representation returned error code {code}")))
}

impl Functions {
    fn convert(&self, function: Convert, user: usize, datatype: usize, count: u64, file: &mut [u8]) -> Result<()> {
        let (user, file) = (std::ptr::with_exposed_provenance_mut::<c_void>(user), file.as_mut_ptr().cast());
        let extra_state = std::ptr::with_exposed_provenance_mut(self.extra_state);
        let too_many = |_| {
            let message = "the conversion function counts with an int: register one with MPI_Register_datarep_c";
            Error::new(MPI_ERR_COUNT, message)
        };
        // SAFETY: the program gave the function for this call (MPI-5.0 §14.5.3); the buffers have as many
        // elements as the count says.
        let code = unsafe {
            match function {
                Convert::Null => return Ok(()),
                Convert::Small(small) => {
                    small(user, datatype, c_int::try_from(count).map_err(too_many)?, file, 0, extra_state)
                }
                Convert::Large(large) => large(user, datatype, count as i64, file, 0, extra_state),
            }
        };
        checked(code, "conversion function")
    }
}

impl Conversion for Functions {
    fn file_extent(&self, datatype: usize) -> Result<i64> {
        let mut extent = 0;
        let extra_state = std::ptr::with_exposed_provenance_mut(self.extra_state);
        // SAFETY: the program gave the function for this call (MPI-5.0 §14.5.3).
        let code = unsafe { (self.extent)(datatype, &raw mut extent, extra_state) };
        checked(code, "extent function").map(|()| extent as i64)
    }

    fn write(&self, user: usize, datatype: usize, count: u64, file: &mut [u8]) -> Result<()> {
        self.convert(self.write, user, datatype, count, file)
    }

    fn read(&self, user: usize, datatype: usize, count: u64, file: &mut [u8]) -> Result<()> {
        self.convert(self.read, user, datatype, count, file)
    }

    fn converts(&self) -> (bool, bool) {
        let is_there = |function| !matches!(function, Convert::Null);
        (is_there(self.read), is_there(self.write))
    }
}

fn register(
    datarep: InString,
    read: Convert,
    write: Convert,
    extent: Option<MPI_Datarep_extent_function>,
    extra_state: *mut c_void,
) -> Result<()> {
    let extent = check::function("dtype_file_extent_fn", extent)?;
    let conversion = Box::new(Functions { read, write, extent, extra_state: extra_state.expose_provenance() });
    with(|process| process.representations.register(&datarep.to_string(), conversion))
}

/// MPI_Register_datarep (MPI-5.0 §14.5.3).
pub(crate) fn register_datarep(
    datarep: InString,
    read_conversion_fn: Option<MPI_Datarep_conversion_function>,
    write_conversion_fn: Option<MPI_Datarep_conversion_function>,
    dtype_file_extent_fn: Option<MPI_Datarep_extent_function>,
    extra_state: *mut c_void,
) -> Result<()> {
    let of = |function: Option<_>| function.map_or(Convert::Null, Convert::Small);
    register(datarep, of(read_conversion_fn), of(write_conversion_fn), dtype_file_extent_fn, extra_state)
}

/// MPI_Register_datarep_c (MPI-5.0 §14.5.3).
pub(crate) fn register_datarep_c(
    datarep: InString,
    read_conversion_fn: Option<MPI_Datarep_conversion_function_c>,
    write_conversion_fn: Option<MPI_Datarep_conversion_function_c>,
    dtype_file_extent_fn: Option<MPI_Datarep_extent_function>,
    extra_state: *mut c_void,
) -> Result<()> {
    let of = |function: Option<_>| function.map_or(Convert::Null, Convert::Large);
    register(datarep, of(read_conversion_fn), of(write_conversion_fn), dtype_file_extent_fn, extra_state)
}
