//! Checks of arguments that need no object: counts, lengths and null pointers.
//!
//! Generated code calls these checks before the implementation. On the good path each is a compare and a
//! jump; a cold function makes the error's sentence. Ranks, tags and handles are checked where the object is
//! known.

use crate::arguments::InOut;
use crate::constants::{MPI_ERR_ARG, MPI_ERR_COUNT, MPI_ERR_DIMS, MPI_ERR_SIZE, MPI_IN_PLACE};
use crate::types::MPI_Info;
use std::ffi::c_int;
use weft_mpi::error::{Error, ErrorClass};
use weft_mpi::process::with;

/// The most elements that any memory holds, even of one byte each.
const ELEMENTS_MAX: i64 = 1 << 56;

/// Checks that a count is neither negative nor larger than any memory: MPI_ERR_COUNT.
#[inline(always)]
pub(crate) fn count(name: &'static str, value: i64) -> Result<(), Error> {
    if (0..=ELEMENTS_MAX).contains(&value) { Ok(()) } else { Err(no_count(name, value)) }
}

/// Checks that a length or size is not negative: MPI_ERR_ARG.
#[inline(always)]
pub(crate) fn natural(name: &'static str, value: i64) -> Result<(), Error> {
    if value < 0 { Err(negative(MPI_ERR_ARG, name, value)) } else { Ok(()) }
}

/// Checks that a length is not negative that says how much room there is, and is set to what is needed:
/// MPI_ERR_ARG.
#[inline(always)]
pub(crate) fn room(name: &'static str, length: Option<InOut<c_int>>) -> Result<(), Error> {
    length.map_or(Ok(()), |length| natural(name, i64::from(length.get())))
}

/// Checks that the size of a window is not negative: MPI_ERR_SIZE.
#[inline(always)]
pub(crate) fn size(name: &'static str, value: i64) -> Result<(), Error> {
    if value < 0 { Err(negative(MPI_ERR_SIZE, name, value)) } else { Ok(()) }
}

/// Checks that a number of dimensions is not negative: MPI_ERR_DIMS.
#[inline(always)]
pub(crate) fn dimensions(name: &'static str, value: i64) -> Result<(), Error> {
    if value < 0 { Err(negative(MPI_ERR_DIMS, name, value)) } else { Ok(()) }
}

/// Checks that a number is one or more: MPI_ERR_ARG.
#[inline(always)]
pub(crate) fn positive(name: &'static str, value: i64) -> Result<(), Error> {
    if value < 1 { Err(not_positive(name, value)) } else { Ok(()) }
}

/// Checks that an info handle is that of an object, or null: MPI_ERR_INFO. Calls that need an object look for
/// it themselves.
#[inline(always)]
pub(crate) fn info(_name: &'static str, info: MPI_Info) -> Result<(), Error> {
    if info == MPI_Info::NULL { Ok(()) } else { with(|process| process.objects.info(info.0).map(|_| ())) }
}

/// Checks that a pointer that is needed is not null: MPI_ERR_ARG.
#[inline(always)]
pub(crate) fn pointer<T>(name: &'static str, pointer: *const T) -> Result<(), Error> {
    if pointer.is_null() { Err(null(name)) } else { Ok(()) }
}

/// Checks that a function of the program that is needed is not null: MPI_ERR_ARG.
#[inline]
pub(crate) fn function<F>(name: &'static str, function: Option<F>) -> Result<F, Error> {
    function.ok_or_else(|| null(name))
}

/// Checks that an array with elements is not null, and not longer than any memory: MPI_ERR_ARG.
#[inline(always)]
pub(crate) fn array<T>(name: &'static str, array: *const T, length: i64) -> Result<(), Error> {
    if array.is_null() && length > 0 {
        Err(null_array(name, length))
    } else if length > ELEMENTS_MAX {
        Err(endless(MPI_ERR_ARG, name, length))
    } else {
        Ok(())
    }
}

/// Returns whether this is the address that stands for "where the result goes" (MPI-5.0 §6.2.2).
#[inline(always)]
pub(crate) fn is_in_place(address: usize) -> bool {
    address == MPI_IN_PLACE
}

#[cold]
#[inline(never)]
fn negative(class: ErrorClass, name: &'static str, value: i64) -> Error {
    Error::new(class, format!("{name} is {value}; it must not be negative"))
}

#[cold]
#[inline(never)]
fn not_positive(name: &'static str, value: i64) -> Error {
    Error::new(MPI_ERR_ARG, format!("{name} is {value}; it must be at least 1"))
}

#[cold]
#[inline(never)]
fn null(name: &'static str) -> Error {
    Error::new(MPI_ERR_ARG, format!("{name} is a null pointer"))
}

#[cold]
#[inline(never)]
fn null_array(name: &'static str, length: i64) -> Error {
    Error::new(MPI_ERR_ARG, format!("{name} is a null pointer; it must have {length} elements"))
}

#[cold]
#[inline(never)]
fn endless(class: ErrorClass, name: &'static str, value: i64) -> Error {
    Error::new(class, format!("{name} says {value} elements, more than any memory holds"))
}

#[cold]
#[inline(never)]
fn no_count(name: &'static str, value: i64) -> Error {
    if value < 0 { negative(MPI_ERR_COUNT, name, value) } else { endless(MPI_ERR_COUNT, name, value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_argument_and_its_value() {
        assert!(count("count", 0).is_ok());
        let error = count("count", -3).expect_err("a negative count");
        assert_eq!((error.class, error.message.as_ref()), (MPI_ERR_COUNT, "count is -3; it must not be negative"));
        assert_eq!(count("count", i64::MAX).expect_err("an endless count").class, MPI_ERR_COUNT);
        let error = natural("size", -1).expect_err("a negative size");
        assert_eq!(error.class, MPI_ERR_ARG);
        let error = positive("maxprocs", 0).expect_err("zero");
        assert_eq!(error.message, "maxprocs is 0; it must be at least 1");
    }

    #[test]
    fn null_is_an_error_where_something_is_needed() {
        static SOME: i32 = 5;
        let none: *const i32 = std::ptr::null();
        assert_eq!(pointer("newcomm", none).expect_err("null").message, "newcomm is a null pointer");
        assert!(array("ranks", none, 0).is_ok());
        assert!(array("ranks", none, 2).is_err());
        assert!(array("ranks", &raw const SOME, i64::MAX).is_err());
        assert!(array("ranks", &raw const SOME, 2).is_ok());
    }
}
