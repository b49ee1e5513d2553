//! Statuses: the view of the program on a completed operation (MPI-5.0 §3.2.5).
//!
//! The ABI gives five private integers. The first two hold the length of the message in bytes, the third
//! whether the operation was cancelled.

use crate::arguments::*;
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

/// A form in which the program has a status. All its bits may have any value.
pub(crate) trait StatusForm: Copy {
    /// Sets the source, the tag, the length, and whether the operation was cancelled. The error stays.
    fn set(&mut self, status: &Status);
}

impl StatusForm for MPI_Status {
    #[inline(always)]
    fn set(&mut self, status: &Status) {
        self.source = status.source;
        self.tag = status.tag;
        set_bytes(self, status.bytes);
        set_cancelled(self, status.cancelled);
    }
}

/// Gives the program the status of a finished receive, unless `to` is MPI_STATUS_IGNORE. The field MPI_ERROR
/// keeps its value, as the calls that complete one operation must do (MPI-5.0 §3.2.5).
#[inline]
pub(crate) fn store_received<S: StatusForm>(to: Option<InOut<S>>, status: &Status) {
    if let Some(to) = to {
        to.update(|to| to.set(status));
    }
}

/// Gives the program `status`, unless `to` is MPI_STATUS_IGNORE. The field MPI_ERROR keeps its value when
/// `with_error` is `None`.
#[inline]
pub(crate) fn store(to: Option<InOut<MPI_Status>>, status: &Status, with_error: Option<i32>) {
    let Some(to) = to else { return };
    to.update(|to| {
        to.set(status);
        if let Some(error) = with_error {
            to.error = error;
        }
    });
}

/// The length of the message in bytes.
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

/// Returns whether the operation was cancelled.
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
pub(crate) fn test_cancelled(status: MPI_Status, flag: Out<c_int>) -> Result<(), Error> {
    flag.set(c_int::from(is_cancelled(&status)));
    Ok(())
}

/// MPI_Status_set_cancelled (MPI-5.0 §13.3).
pub(crate) fn status_set_cancelled(status: InOut<MPI_Status>, flag: c_int) -> Result<(), Error> {
    change(status, |status| set_cancelled(status, flag != 0));
    Ok(())
}

/// MPI_Status_get_source (MPI-5.0 §3.2.5).
pub(crate) fn status_get_source(status: MPI_Status, source: Out<c_int>) -> Result<(), Error> {
    source.set(status.source);
    Ok(())
}

/// MPI_Status_get_tag (MPI-5.0 §3.2.5).
pub(crate) fn status_get_tag(status: MPI_Status, tag: Out<c_int>) -> Result<(), Error> {
    tag.set(status.tag);
    Ok(())
}

/// MPI_Status_get_error (MPI-5.0 §3.2.5).
pub(crate) fn status_get_error(status: MPI_Status, err: Out<c_int>) -> Result<(), Error> {
    err.set(status.error);
    Ok(())
}

/// MPI_Status_set_source (MPI-5.0 §13.3).
pub(crate) fn status_set_source(status: InOut<MPI_Status>, source: c_int) -> Result<(), Error> {
    change(status, |status| status.source = source);
    Ok(())
}

/// MPI_Status_set_tag (MPI-5.0 §13.3).
pub(crate) fn status_set_tag(status: InOut<MPI_Status>, tag: c_int) -> Result<(), Error> {
    change(status, |status| status.tag = tag);
    Ok(())
}

/// MPI_Status_set_error (MPI-5.0 §13.3).
pub(crate) fn status_set_error(status: InOut<MPI_Status>, err: c_int) -> Result<(), Error> {
    change(status, |status| status.error = err);
    Ok(())
}

/// Changes a part of a status of the program.
pub(crate) fn change(status: InOut<MPI_Status>, body: impl FnOnce(&mut MPI_Status)) {
    let mut value = status.get();
    body(&mut value);
    status.set(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_keeps_long_lengths_and_the_error_of_others() {
        let mut status = MPI_Status { error: 77, ..EMPTY };
        let told = Status { source: 3, tag: 4, error: 0, bytes: 0x1_8000_0001, cancelled: true };
        store(Some(InOut::from(&mut status)), &told, None);
        assert_eq!((status.source, status.tag, status.error), (3, 4, 77));
        assert_eq!((bytes(&status), is_cancelled(&status)), (told.bytes, true));
        // No place: MPI_STATUS_IGNORE.
        store(None, &told, Some(1));
    }
}
