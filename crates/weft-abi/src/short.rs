//! Requests as integers of 32 bits, which programs of MPICH's ABI hold. The library for such programs
//! (`faces/mpich`) calls the functions of this file instead of MPI_Isend, MPI_Irecv and MPI_Wait. So it needs
//! no room for handles of the standard's ABI, and need not come back to convert them. They are in no header.

use crate::arguments::*;
use crate::boundary::{call, value};
use crate::calls::{point_to_point, requests};
use crate::check;
use crate::functions::Function;
use crate::scope::Scope;
use crate::types::*;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;
use weft_mpi::handle::{Kind, lengthen, shorten};
use weft_mpi::process::{FORKED, Process, with};

/// A request as programs of MPICH's ABI hold it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
struct ShortRequest(c_int);

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

/// From now on every new request and every new communicator has a short form. Those that are there may have
/// none. A forked child has neither.
#[unsafe(no_mangle)]
extern "C" fn weft_short_handles() {
    if !FORKED.load(Ordering::Relaxed) {
        value(Function::Init, || with(Process::shorten_handles));
    }
}

/// MPI_Isend with a short request.
///
/// # Safety
/// As for MPI_Isend.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_short_isend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut ShortRequest,
) -> c_int {
    call(Function::Isend, Scope::Comm(comm), || {
        check::count("count", i64::from(count))?;
        check::pointer("request", request)?;
        // SAFETY: the caller keeps the contract of MPI_Isend; `request` is not null.
        let (buf, request) = unsafe { (Buffer::new(buf), Out::new(request)) };
        point_to_point::isend_as(buf, i64::from(count), datatype, dest, tag, comm, request)
    })
}

/// MPI_Irecv with a short request.
///
/// # Safety
/// As for MPI_Irecv.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_short_irecv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut ShortRequest,
) -> c_int {
    call(Function::Irecv, Scope::Comm(comm), || {
        check::count("count", i64::from(count))?;
        check::pointer("request", request)?;
        // SAFETY: the caller keeps the contract of MPI_Irecv; `request` is not null.
        let (buf, request) = unsafe { (Buffer::new(buf), Out::new(request)) };
        point_to_point::irecv(buf, i64::from(count), datatype, source, tag, comm, request)
    })
}

/// MPI_Wait for a short request, without a status.
///
/// # Safety
/// As for MPI_Wait.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_short_wait(request: *mut ShortRequest) -> c_int {
    call(Function::Wait, Scope::None, || {
        check::pointer("request", request)?;
        // SAFETY: the caller keeps the contract of MPI_Wait; `request` is not null.
        requests::wait(unsafe { InOut::new(request) }, None)
    })
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
}
