//! Buffers for buffered sends (MPI-5.0 §3.6).
//!
//! # Safety
//! Every function here is called by its generated wrapper with the arguments of the C prototype; output pointers can be
//! written.

use crate::generated::constants::*;
use crate::types::*;
use std::ffi::c_void;
use weft_mpi::error::Result;
use weft_mpi::memory::check_bytes;
use weft_mpi::process::{block_until, with};

fn attach(scope: Option<MPI_Comm>, buffer: *mut c_void, size: i64) -> Result<()> {
    let automatic = buffer.addr() == MPI_BUFFER_AUTOMATIC;
    if !automatic {
        check_bytes(buffer.addr(), size as u64)?;
    }
    with(|process| match scope {
        Some(comm) => process.objects.communicator_mut(comm.0)?.buffer.attach(buffer.addr(), size, automatic),
        None => process.buffer.attach(buffer.addr(), size, automatic),
    })
}

/// Waits until every buffered message has left.
fn flush(scope: Option<MPI_Comm>) -> Result<()> {
    block_until(|process| {
        process.reclaim_buffers();
        let waiting = match scope {
            Some(comm) => match process.objects.communicator(comm.0) {
                Ok(object) => object.buffer.requests().next().is_some(),
                Err(error) => return Some(Err(error)),
            },
            None => process.buffer.requests().next().is_some(),
        };
        (!waiting).then_some(Ok(()))
    })
}

/// # Safety
/// `buffer_addr` points to a pointer, although its type in C is `void*`.
unsafe fn detach(scope: Option<MPI_Comm>, buffer_addr: *mut c_void, size: &mut i64) -> Result<()> {
    flush(scope)?;
    let (address, bytes) = with(|process| match scope {
        Some(comm) => process.objects.communicator_mut(comm.0)?.buffer.detach(),
        None => process.buffer.detach(),
    })?;
    // SAFETY: the caller's pointer.
    unsafe { *buffer_addr.cast::<usize>() = address };
    *size = bytes;
    Ok(())
}

/// MPI_Buffer_attach (MPI-5.0 §3.6).
pub(crate) unsafe fn buffer_attach(buffer: *mut c_void, size: i64) -> Result<()> {
    attach(None, buffer, size)
}

/// MPI_Comm_attach_buffer (MPI-5.0 §3.6).
pub(crate) unsafe fn comm_attach_buffer(comm: MPI_Comm, buffer: *mut c_void, size: i64) -> Result<()> {
    attach(Some(comm), buffer, size)
}

/// MPI_Buffer_detach (MPI-5.0 §3.6).
pub(crate) unsafe fn buffer_detach(buffer_addr: *mut c_void, size: &mut i64) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { detach(None, buffer_addr, size) }
}

/// MPI_Comm_detach_buffer (MPI-5.0 §3.6).
pub(crate) unsafe fn comm_detach_buffer(comm: MPI_Comm, buffer_addr: *mut c_void, size: &mut i64) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { detach(Some(comm), buffer_addr, size) }
}

/// MPI_Buffer_flush (MPI-5.0 §3.6).
pub(crate) fn buffer_flush() -> Result<()> {
    flush(None)
}

/// MPI_Comm_flush_buffer (MPI-5.0 §3.6).
pub(crate) fn comm_flush_buffer(comm: MPI_Comm) -> Result<()> {
    flush(Some(comm))
}

/// # Safety
/// `request` can be written.
unsafe fn start_flush(scope: Option<MPI_Comm>, request: *mut MPI_Request) -> Result<()> {
    let handle = with(|process| process.start_flush(scope.map(|comm| comm.0)))?;
    // SAFETY: the caller's pointer.
    unsafe { *request = MPI_Request(handle) };
    Ok(())
}

/// MPI_Buffer_iflush (MPI-5.0 §3.6).
pub(crate) unsafe fn buffer_iflush(request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { start_flush(None, request) }
}

/// MPI_Comm_iflush_buffer (MPI-5.0 §3.6).
pub(crate) unsafe fn comm_iflush_buffer(comm: MPI_Comm, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { start_flush(Some(comm), request) }
}
