//! Probes, and receives of the messages that they have found (MPI-5.0 §3.8).

use super::labelled::{incoming, with_label};
use super::{Message, conclude};
use crate::arguments::*;
use crate::calls::status;
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use weft_mpi::awaited::Awaited;
use weft_mpi::blocking::wait;
use weft_mpi::error::Result;
use weft_mpi::memory::UserData;
use weft_mpi::process::{Process, attempt, block_for, lock, with};
use weft_mpi::request::Status;

/// MPI_Probe (MPI-5.0 §3.8.1).
pub(crate) fn probe(source: c_int, tag: c_int, comm: MPI_Comm, status: Option<InOut<MPI_Status>>) -> Result<()> {
    let awaited = || Awaited::Message { communicator: comm.0, source, tag };
    let found = block_for(lock(), &awaited, |process| process.probe(comm.0, source, tag).transpose())?;
    status::store(status, &found, None);
    Ok(())
}

/// MPI_Iprobe (MPI-5.0 §3.8.1).
pub(crate) fn iprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: Out<c_int>,
    status: Option<InOut<MPI_Status>>,
) -> Result<()> {
    let found = look(|process| process.probe(comm.0, source, tag))?;
    flag.set(c_int::from(found.is_some()));
    if let Some(found) = found {
        status::store(status, &found, None);
    }
    Ok(())
}

/// Runs `find`, and if it finds nothing, runs it again after a pass of the progress loop.
fn look<T>(mut find: impl FnMut(&mut Process) -> Result<Option<T>>) -> Result<Option<T>> {
    attempt(|process| find(process).transpose()).transpose()
}

fn message_handle(handle: Option<usize>) -> MPI_Message {
    handle.map_or(MPI_MESSAGE_NO_PROC, MPI_Message)
}

/// MPI_Mprobe (MPI-5.0 §3.8.2).
pub(crate) fn mprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    message: Out<MPI_Message>,
    status: Option<InOut<MPI_Status>>,
) -> Result<()> {
    let awaited = || Awaited::Message { communicator: comm.0, source, tag };
    let (handle, found) = block_for(lock(), &awaited, |process| process.extract(comm.0, source, tag).transpose())?;
    message.set(message_handle(handle));
    status::store(status, &found, None);
    Ok(())
}

/// MPI_Improbe (MPI-5.0 §3.8.2).
pub(crate) fn improbe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: Out<c_int>,
    message: Out<MPI_Message>,
    status: Option<InOut<MPI_Status>>,
) -> Result<()> {
    let found = look(|process| process.extract(comm.0, source, tag))?;
    flag.set(c_int::from(found.is_some()));
    if let Some((handle, found)) = found {
        message.set(message_handle(handle));
        status::store(status, &found, None);
    }
    Ok(())
}

/// MPI_Mrecv (MPI-5.0 §3.8.3).
pub(crate) fn mrecv(
    buf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    message: InOut<MPI_Message>,
    status: Option<InOut<MPI_Status>>,
) -> Result<()> {
    let mut process = lock();
    let request = receive_message(&mut process, buf, count, datatype, message)?;
    let Some(request) = request else {
        status::store(status, &Status::PROC_NULL, None);
        return Ok(());
    };
    let outcome = wait(process, request)?;
    let communicator = outcome.communicator;
    conclude(outcome.into_received(), status).map_err(|error| error.on(communicator))
}

/// MPI_Imrecv (MPI-5.0 §3.8.3).
pub(crate) fn imrecv(
    buf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    message: InOut<MPI_Message>,
    request: Out<MPI_Request>,
) -> Result<()> {
    with(|process| {
        let handle = match receive_message(process, buf, count, datatype, message)? {
            Some(handle) => handle,
            None => {
                let nothing = process.make_receive(MPI_COMM_SELF.0, MPI_PROC_NULL, 0, UserData::empty())?;
                process.start_receive(nothing, MPI_COMM_SELF.0)?
            }
        };
        request.set(MPI_Request(handle));
        Ok(())
    })
}

/// Starts the receive of an extracted message; `None` for the message of MPI_PROC_NULL.
fn receive_message(
    process: &mut Process,
    buf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    message: InOut<MPI_Message>,
) -> Result<Option<usize>> {
    let handle = message.get().0;
    let started = if handle == MPI_MESSAGE_NO_PROC.0 {
        None
    } else {
        let communicator = process.extracted(handle)?.communicator;
        let target = Message { buffer: buf, count, datatype, peer: 0, tag: 0, comm: MPI_Comm(communicator) };
        // Errors go to the communicator on which the message was found (MPI-5.0 §9.3).
        let (data, label) = incoming(process, &target).map_err(|error| error.on(communicator))?;
        let request = process.receive_extracted(handle, data)?;
        Some(with_label(process, request, label)?)
    };
    message.set(MPI_Message::NULL);
    Ok(started)
}
