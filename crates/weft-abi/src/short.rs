//! Requests as integers of 32 bits and statuses of 20 bytes, which programs of MPICH's ABI hold. The library
//! for such programs (`faces/mpich`) calls the functions of this file instead of MPI_Isend, MPI_Irecv and
//! MPI_Wait, and instead of MPI_Recv and MPI_Sendrecv with a status. So it needs no room for handles and
//! statuses of the standard's ABI, and need not come back to convert them. They are in no header.

use crate::arguments::*;
use crate::boundary::{call, value};
use crate::calls::{point_to_point, requests, status::StatusForm};
use crate::check;
use crate::constants::{MPI_ANY_TAG, MPI_PROC_NULL};
use crate::functions::Function;
use crate::scope::Scope;
use crate::types::*;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;
use weft_mpi::handle::{Kind, lengthen, shorten};
use weft_mpi::process::{FORKED, Process, with};
use weft_mpi::request::Status;

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

/// A status as programs of MPICH's ABI hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct ShortStatus {
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
    fn tell(&mut self, status: &Status) {
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

/// MPI_Recv with a status of MPICH's ABI, or null.
///
/// # Safety
/// As for MPI_Recv.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_short_recv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut ShortStatus,
) -> c_int {
    call(Function::Recv, Scope::Comm(comm), || {
        check::count("count", i64::from(count))?;
        // SAFETY: the caller keeps the contract of MPI_Recv.
        let (buf, status) = unsafe { (Buffer::new(buf), InOut::if_wanted(status)) };
        point_to_point::recv(buf, i64::from(count), datatype, source, tag, comm, status)
    })
}

/// MPI_Sendrecv with a status of MPICH's ABI, or null.
///
/// # Safety
/// As for MPI_Sendrecv.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_short_sendrecv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut ShortStatus,
) -> c_int {
    call(Function::Sendrecv, Scope::Comm(comm), || {
        check::count("sendcount", i64::from(sendcount))?;
        check::count("recvcount", i64::from(recvcount))?;
        // SAFETY: the caller keeps the contract of MPI_Sendrecv.
        let (from, to, status) = unsafe { (Buffer::new(sendbuf), Buffer::new(recvbuf), InOut::if_wanted(status)) };
        let (sent, received) = (i64::from(sendcount), i64::from(recvcount));
        point_to_point::sendrecv(
            from, sent, sendtype, dest, sendtag, to, received, recvtype, source, recvtag, comm, status,
        )
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

    /// Expect: a status has the constants of MPICH's ABI, a length of 63 bits, and the error that it had.
    #[test]
    fn a_short_status_is_told() {
        let mut status = ShortStatus { error: 77, ..ShortStatus::default() };
        status.tell(&Status { source: 3, tag: 4, error: 0, bytes: 0x1_8000_0001, cancelled: true });
        let expected = ShortStatus {
            count_low: 0x8000_0001_u32 as c_int,
            count_high_and_cancelled: 3,
            source: 3,
            tag: 4,
            error: 77,
        };
        assert_eq!(status, expected);
        status.tell(&Status::PROC_NULL);
        assert_eq!((status.source, status.tag, status.count_low, status.count_high_and_cancelled), (-1, -1, 0, 0));
    }
}
