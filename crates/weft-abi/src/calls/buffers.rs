//! Buffers for buffered sends (MPI-5.0 §3.6).

use crate::arguments::*;
use crate::constants::*;
use crate::types::*;
use weft_mpi::buffered::Holder;
use weft_mpi::error::Result;
use weft_mpi::memory::{check_bytes, check_size};
use weft_mpi::process::{block_until, with};

fn attach(holder: Holder, buffer: Buffer, size: i64) -> Result<()> {
    let automatic = buffer.addr() == MPI_BUFFER_AUTOMATIC;
    if !automatic {
        check_bytes(buffer.addr(), size as u64)?;
        check_size(buffer.addr(), size as u64, MPI_ERR_ARG)?;
    }
    with(|process| process.buffer_of(holder)?.attach(buffer.addr(), size, automatic))
}

/// Waits until every buffered message has left.
fn flush(holder: Holder) -> Result<()> {
    block_until(|process| {
        process.reclaim_buffers();
        match process.buffer_of(holder) {
            Ok(buffer) => buffer.requests().next().is_none().then_some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    })
}

/// Detaches a buffer. `buffer_addr` is the place of a pointer, although its type in C is `void*`.
fn detach(holder: Holder, buffer_addr: Out<usize>, size: Out<i64>) -> Result<()> {
    flush(holder)?;
    let (address, bytes) = with(|process| process.buffer_of(holder)?.detach())?;
    buffer_addr.set(address);
    size.set(bytes);
    Ok(())
}

/// MPI_Buffer_attach (MPI-5.0 §3.6).
pub(crate) fn buffer_attach(buffer: Buffer, size: i64) -> Result<()> {
    attach(Holder::Process, buffer, size)
}

/// MPI_Comm_attach_buffer (MPI-5.0 §3.6).
pub(crate) fn comm_attach_buffer(comm: MPI_Comm, buffer: Buffer, size: i64) -> Result<()> {
    attach(Holder::Communicator(comm.0), buffer, size)
}

/// MPI_Buffer_detach (MPI-5.0 §3.6).
pub(crate) fn buffer_detach(buffer_addr: Out<usize>, size: Out<i64>) -> Result<()> {
    detach(Holder::Process, buffer_addr, size)
}

/// MPI_Comm_detach_buffer (MPI-5.0 §3.6).
pub(crate) fn comm_detach_buffer(comm: MPI_Comm, buffer_addr: Out<usize>, size: Out<i64>) -> Result<()> {
    detach(Holder::Communicator(comm.0), buffer_addr, size)
}

/// MPI_Buffer_flush (MPI-5.0 §3.6).
pub(crate) fn buffer_flush() -> Result<()> {
    flush(Holder::Process)
}

/// MPI_Comm_flush_buffer (MPI-5.0 §3.6).
pub(crate) fn comm_flush_buffer(comm: MPI_Comm) -> Result<()> {
    flush(Holder::Communicator(comm.0))
}

fn start_flush(holder: Holder, request: Out<MPI_Request>) -> Result<()> {
    let handle = with(|process| process.start_flush(holder))?;
    request.set(MPI_Request(handle));
    Ok(())
}

/// MPI_Buffer_iflush (MPI-5.0 §3.6).
pub(crate) fn buffer_iflush(request: Out<MPI_Request>) -> Result<()> {
    start_flush(Holder::Process, request)
}

/// MPI_Comm_iflush_buffer (MPI-5.0 §3.6).
pub(crate) fn comm_iflush_buffer(comm: MPI_Comm, request: Out<MPI_Request>) -> Result<()> {
    start_flush(Holder::Communicator(comm.0), request)
}

/// MPI_Session_attach_buffer (MPI-5.0 §3.6).
pub(crate) fn session_attach_buffer(session: MPI_Session, buffer: Buffer, size: i64) -> Result<()> {
    attach(Holder::Session(session.0), buffer, size)
}

/// MPI_Session_detach_buffer (MPI-5.0 §3.6).
pub(crate) fn session_detach_buffer(session: MPI_Session, buffer_addr: Out<usize>, size: Out<i64>) -> Result<()> {
    detach(Holder::Session(session.0), buffer_addr, size)
}

/// MPI_Session_flush_buffer (MPI-5.0 §3.6).
pub(crate) fn session_flush_buffer(session: MPI_Session) -> Result<()> {
    flush(Holder::Session(session.0))
}

/// MPI_Session_iflush_buffer (MPI-5.0 §3.6).
pub(crate) fn session_iflush_buffer(session: MPI_Session, request: Out<MPI_Request>) -> Result<()> {
    start_flush(Holder::Session(session.0), request)
}
