//! Requests as integers of 32 bits and statuses of 20 bytes, which programs of MPICH's ABI hold. The library
//! for such programs (`faces/mpich`) calls functions with these (`generated/short.rs`) instead of MPI_Isend,
//! MPI_Irecv, MPI_Wait, MPI_Recv and MPI_Sendrecv. So it needs no room for handles and statuses of the
//! standard's ABI, and need not come back to convert them. They are in no header.

use crate::arguments::MadeRequest;
use crate::boundary::value;
use crate::calls::status::StatusForm;
use crate::constants::{MPI_ANY_TAG, MPI_PROC_NULL};
use crate::functions::Function;
use crate::types::MPI_Request;
use std::ffi::c_int;
use std::sync::atomic::Ordering;
use weft_mpi::handle::{Kind, lengthen, shorten};
use weft_mpi::process::{FORKED, Process, with};
use weft_mpi::request::Status;

/// A request as programs of MPICH's ABI hold it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(crate) struct ShortRequest(c_int);

impl ShortRequest {
    /// MPI_REQUEST_NULL in MPICH's ABI.
    const NULL: Self = Self(0x2c00_0000);
}

impl From<MPI_Request> for ShortRequest {
    #[inline(always)]
    fn from(request: MPI_Request) -> Self {
        if request == MPI_Request::NULL { Self::NULL } else { Self(shorten(request.0)) }
    }
}

impl MadeRequest for ShortRequest {
    #[inline(always)]
    fn made(handle: usize) -> Self {
        Self(shorten(handle))
    }
}

impl From<ShortRequest> for MPI_Request {
    /// An integer that is no request becomes a handle that is none either.
    #[inline(always)]
    fn from(request: ShortRequest) -> Self {
        match lengthen(request.0, Kind::Request) {
            Some(handle) => Self(handle),
            None if request == ShortRequest::NULL => Self::NULL,
            None => Self::default(),
        }
    }
}

/// A status as programs of MPICH's ABI hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct ShortStatus {
    count_low: c_int,
    /// The upper 31 bits of the length of the message in bytes; the lowest bit says that the operation was
    /// cancelled.
    count_high_and_cancelled: c_int,
    source: c_int,
    tag: c_int,
    error: c_int,
}

impl ShortStatus {
    /// MPI_PROC_NULL in MPICH's ABI.
    const PROC_NULL: c_int = -1;
    /// MPI_ANY_TAG in MPICH's ABI.
    const ANY_TAG: c_int = -1;
}

impl StatusForm for ShortStatus {
    #[inline(always)]
    fn set(&mut self, status: &Status) {
        self.count_low = status.bytes as c_int;
        self.count_high_and_cancelled = ((status.bytes >> 32) as c_int) << 1 | c_int::from(status.cancelled);
        // A receive from nobody has these two.
        self.source = if status.source == MPI_PROC_NULL { Self::PROC_NULL } else { status.source };
        self.tag = if status.tag == MPI_ANY_TAG { Self::ANY_TAG } else { status.tag };
    }
}

/// From now on every new request and every new communicator has a short form. Those that are there may have
/// none. A forked child has neither.
#[unsafe(no_mangle)]
extern "C" fn weft_short_handles() {
    if !FORKED.load(Ordering::Relaxed) {
        value(Function::Init, || with(Process::shorten_handles));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expect: null requests stay null, requests that were made come back, other integers are no requests.
    #[test]
    fn short_requests_become_handles_and_come_back() {
        assert_eq!(ShortRequest::from(MPI_Request::NULL), ShortRequest::NULL);
        assert_eq!(MPI_Request::from(ShortRequest::NULL), MPI_Request::NULL);
        let made = MPI_Request(0x7f << 32 | 0xab_cdef << 8 | Kind::Request as usize);
        assert_eq!(MPI_Request::from(ShortRequest::from(made)), made);
        assert_eq!(ShortRequest::made(made.0), ShortRequest::from(made));
        for no_request in [0, 1, 0x2c00_0001, c_int::MAX] {
            assert_eq!(MPI_Request::from(ShortRequest(no_request)), MPI_Request::default());
        }
    }

    /// Expect: a status has the constants of MPICH's ABI, a length of 63 bits, and the error that it had.
    #[test]
    fn a_short_status_is_set() {
        let mut status = ShortStatus { error: 77, ..ShortStatus::default() };
        status.set(&Status { source: 3, tag: 4, error: 0, bytes: 0x1_8000_0001, cancelled: true });
        let expected = ShortStatus {
            count_low: 0x8000_0001_u32 as c_int,
            count_high_and_cancelled: 3,
            source: 3,
            tag: 4,
            error: 77,
        };
        assert_eq!(status, expected);
        status.set(&Status::PROC_NULL);
        assert_eq!((status.source, status.tag, status.count_low, status.count_high_and_cancelled), (-1, -1, 0, 0));
    }
}
