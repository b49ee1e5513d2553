//! Statuses: what the program sees of a completed operation (MPI-5.0 §3.2.5).
//!
//! The ABI gives five private integers; the first two hold the length of the message in bytes, the third whether the
//! operation was cancelled.

use crate::types::MPI_Status;
use std::ffi::c_int;
use weft_mpi::error::Error;
use weft_mpi::request::Status;

const BYTES_LOW: usize = 0;
const BYTES_HIGH: usize = 1;
const CANCELLED: usize = 2;

/// The empty status (MPI-5.0 §3.7.3).
pub(crate) const EMPTY: MPI_Status =
    MPI_Status { source: Status::EMPTY.source, tag: Status::EMPTY.tag, error: Status::EMPTY.error, private: [0; 5] };

/// Tells the program `status`; nothing when `to` is MPI_STATUS_IGNORE. Its field MPI_ERROR is left alone when
/// `with_error` is `None`, as the calls that complete one operation must (MPI-5.0 §3.2.5).
///
/// # Safety
/// `to` is null or can be written.
#[inline]
pub(crate) unsafe fn store(to: *mut MPI_Status, status: &Status, with_error: Option<i32>) {
    // SAFETY: null, or the caller's status. It may hold any bits, which an integer may, too.
    let Some(to) = (unsafe { to.as_mut() }) else { return };
    to.source = status.source;
    to.tag = status.tag;
    if let Some(error) = with_error {
        to.error = error;
    }
    set_bytes(to, status.bytes);
    set_cancelled(to, status.cancelled);
}

/// Length of the message in bytes.
#[inline]
pub(crate) fn bytes(status: &MPI_Status) -> u64 {
    u64::from(status.private[BYTES_LOW] as u32) | u64::from(status.private[BYTES_HIGH] as u32) << 32
}

/// Sets the length of the message in bytes.
#[inline]
pub(crate) fn set_bytes(status: &mut MPI_Status, bytes: u64) {
    status.private[BYTES_LOW] = bytes as c_int;
    status.private[BYTES_HIGH] = (bytes >> 32) as c_int;
}

/// Whether the operation was cancelled.
#[inline]
pub(crate) fn is_cancelled(status: &MPI_Status) -> bool {
    status.private[CANCELLED] != 0
}

/// Sets whether the operation was cancelled.
#[inline]
pub(crate) fn set_cancelled(status: &mut MPI_Status, cancelled: bool) {
    status.private[CANCELLED] = c_int::from(cancelled);
}

/// MPI_Test_cancelled (MPI-5.0 §3.8.4).
///
/// # Safety
/// `status` can be read, `flag` written.
pub(crate) unsafe fn test_cancelled(status: *const MPI_Status, flag: *mut c_int) -> Result<(), Error> {
    // SAFETY: the caller's pointers.
    unsafe { *flag = c_int::from(is_cancelled(&*status)) };
    Ok(())
}

/// MPI_Status_set_cancelled (MPI-5.0 §13.3).
///
/// # Safety
/// `status` can be written.
pub(crate) unsafe fn status_set_cancelled(status: *mut MPI_Status, flag: c_int) -> Result<(), Error> {
    // SAFETY: the caller's pointer.
    set_cancelled(unsafe { &mut *status }, flag != 0);
    Ok(())
}

/// MPI_Status_get_source (MPI-5.0 §3.2.5).
///
/// # Safety
/// `status` can be read, `source` written.
pub(crate) unsafe fn status_get_source(status: *const MPI_Status, source: *mut c_int) -> Result<(), Error> {
    // SAFETY: the caller's pointers.
    unsafe { *source = (*status).source };
    Ok(())
}

/// MPI_Status_get_tag (MPI-5.0 §3.2.5).
///
/// # Safety
/// `status` can be read, `tag` written.
pub(crate) unsafe fn status_get_tag(status: *const MPI_Status, tag: *mut c_int) -> Result<(), Error> {
    // SAFETY: the caller's pointers.
    unsafe { *tag = (*status).tag };
    Ok(())
}

/// MPI_Status_get_error (MPI-5.0 §3.2.5).
///
/// # Safety
/// `status` can be read, `err` written.
pub(crate) unsafe fn status_get_error(status: *const MPI_Status, err: *mut c_int) -> Result<(), Error> {
    // SAFETY: the caller's pointers.
    unsafe { *err = (*status).error };
    Ok(())
}

/// MPI_Status_set_source (MPI-5.0 §13.3).
///
/// # Safety
/// `status` can be written.
pub(crate) unsafe fn status_set_source(status: *mut MPI_Status, source: c_int) -> Result<(), Error> {
    // SAFETY: the caller's pointer.
    unsafe { (*status).source = source };
    Ok(())
}

/// MPI_Status_set_tag (MPI-5.0 §13.3).
///
/// # Safety
/// `status` can be written.
pub(crate) unsafe fn status_set_tag(status: *mut MPI_Status, tag: c_int) -> Result<(), Error> {
    // SAFETY: the caller's pointer.
    unsafe { (*status).tag = tag };
    Ok(())
}

/// MPI_Status_set_error (MPI-5.0 §13.3).
///
/// # Safety
/// `status` can be written.
pub(crate) unsafe fn status_set_error(status: *mut MPI_Status, err: c_int) -> Result<(), Error> {
    // SAFETY: the caller's pointer.
    unsafe { (*status).error = err };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_keeps_long_lengths_and_the_error_of_others() {
        let mut status = MPI_Status { error: 77, ..EMPTY };
        let told = Status { source: 3, tag: 4, error: 0, bytes: 0x1_8000_0001, cancelled: true };
        // SAFETY: a local variable.
        unsafe { store(&raw mut status, &told, None) };
        assert_eq!((status.source, status.tag, status.error), (3, 4, 77));
        assert_eq!((bytes(&status), is_cancelled(&status)), (told.bytes, true));
        // SAFETY: null is MPI_STATUS_IGNORE.
        unsafe { store(std::ptr::null_mut(), &told, Some(1)) };
    }
}
