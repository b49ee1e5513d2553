//! Recovery from failures of processes: the procedures of `mpi-ext.h`.

use crate::arguments::*;
use crate::constants::{MPI_ERR_ARG, MPI_INT};
use crate::types::*;
use std::ffi::c_int;
use std::sync::Arc;
use weft_mpi::blocking::wait;
use weft_mpi::error::{Error, Result};
use weft_mpi::memory::BufferUse;
use weft_mpi::memory::UserData;
use weft_mpi::object::Group;
use weft_mpi::process::{Process, lock, with};
use weft_mpi::recovery;

/// MPIX_Comm_revoke: every process of the communicator gets errors from all its calls on it, from now on or
/// when it hears of it.
pub(crate) fn comm_revoke(comm: MPI_Comm) -> Result<()> {
    recovery::revoke(comm.0)
}

/// MPIX_Comm_is_revoked.
pub(crate) fn comm_is_revoked(comm: MPI_Comm, flag: Out<c_int>) -> Result<()> {
    flag.set(c_int::from(recovery::is_revoked(comm.0)?));
    Ok(())
}

/// MPIX_Comm_get_failed: the failed processes of the communicator, of both groups if there are two.
pub(crate) fn comm_get_failed(comm: MPI_Comm, failedgrp: Out<MPI_Group>) -> Result<()> {
    give(recovery::failed(comm.0)?, failedgrp)
}

/// MPIX_Comm_ack_failed: acknowledges the first failures, as many as are said.
pub(crate) fn comm_ack_failed(comm: MPI_Comm, num_to_ack: c_int, num_acked: Out<c_int>) -> Result<()> {
    let count = usize::try_from(num_to_ack).map_err(|_| {
        let message = format!("num_to_ack is {num_to_ack}; it must not be negative");
        Error::new(MPI_ERR_ARG, message)
    })?;
    num_acked.set(recovery::acknowledge(comm.0, Some(count))? as c_int);
    Ok(())
}

/// MPIX_Comm_failure_ack: acknowledges all failures that are known here.
pub(crate) fn comm_failure_ack(comm: MPI_Comm) -> Result<()> {
    recovery::acknowledge(comm.0, None).map(drop)
}

/// MPIX_Comm_failure_get_acked: the failed processes that have been acknowledged.
pub(crate) fn comm_failure_get_acked(comm: MPI_Comm, failedgrp: Out<MPI_Group>) -> Result<()> {
    give(recovery::acknowledged(comm.0)?, failedgrp)
}

fn give(failed: Arc<Group>, group: Out<MPI_Group>) -> Result<()> {
    group.set(MPI_Group(with(|process| process.objects.add_group(failed))?));
    Ok(())
}

/// MPIX_Comm_agree: the bits that the flags of all processes have.
pub(crate) fn comm_agree(comm: MPI_Comm, flag: InOut<c_int>) -> Result<()> {
    let mut process = lock();
    let data = flag_data(&process, flag)?;
    let request = process.start_flag_agreement(comm.0, flag.get(), data)?;
    wait(process, request)?.error.map_or(Ok(()), Err)
}

/// MPIX_Comm_iagree: the flag is written when the request is complete.
pub(crate) fn comm_iagree(comm: MPI_Comm, flag: InOut<c_int>, request: Out<MPI_Request>) -> Result<()> {
    let mut process = lock();
    let data = flag_data(&process, flag)?;
    let started = process.start_flag_agreement(comm.0, flag.get(), data)?;
    process.signal();
    request.set(MPI_Request(started));
    Ok(())
}

/// The memory of a flag, which is the library's until the operation is complete.
fn flag_data(process: &Process, flag: InOut<c_int>) -> Result<UserData> {
    Part { buffer: flag.into(), count: 1, datatype: MPI_INT }.operand(process, BufferUse::Receive)
}

/// MPIX_Comm_shrink: a communicator of the processes that live.
pub(crate) fn comm_shrink(comm: MPI_Comm, newcomm: Out<MPI_Comm>) -> Result<()> {
    let mut process = lock();
    let (handle, request) = process.start_shrinking(comm.0)?;
    newcomm.set(MPI_Comm::NULL);
    wait(process, request)?.error.map_or(Ok(()), Err)?;
    newcomm.set(MPI_Comm(handle));
    Ok(())
}

/// MPIX_Comm_ishrink: the communicator may be used when the request is complete.
pub(crate) fn comm_ishrink(comm: MPI_Comm, newcomm: Out<MPI_Comm>, request: Out<MPI_Request>) -> Result<()> {
    let mut process = lock();
    let (handle, started) = process.start_shrinking(comm.0)?;
    process.signal();
    newcomm.set(MPI_Comm(handle));
    request.set(MPI_Request(started));
    Ok(())
}

/// MPIX_Win_revoke.
pub(crate) fn win_revoke(win: MPI_Win) -> Result<()> {
    recovery::revoke_window(win.0)
}

/// MPIX_Win_is_revoked.
pub(crate) fn win_is_revoked(win: MPI_Win, flag: Out<c_int>) -> Result<()> {
    flag.set(c_int::from(recovery::is_window_revoked(win.0)?));
    Ok(())
}

/// MPIX_File_revoke.
pub(crate) fn file_revoke(fh: MPI_File) -> Result<()> {
    recovery::revoke_file(fh.0)
}

/// MPIX_File_is_revoked.
pub(crate) fn file_is_revoked(fh: MPI_File, flag: Out<c_int>) -> Result<()> {
    flag.set(c_int::from(recovery::is_file_revoked(fh.0)?));
    Ok(())
}
