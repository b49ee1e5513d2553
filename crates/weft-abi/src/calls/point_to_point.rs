//! Point-to-point communication (MPI-5.0 §3).

mod labelled;
pub(crate) mod probes;

use crate::arguments::*;
use crate::calls::status::{self, StatusForm};
use crate::constants::*;
use crate::types::*;
use labelled::*;
use std::ffi::c_int;
use weft_mpi::blocking::{self, wait};
use weft_mpi::engine::Received;
use weft_mpi::error::{Error, Result};
use weft_mpi::labels::Labelled;
use weft_mpi::layout::Layout;
use weft_mpi::memory::{BufferUse, Label, UserData};
use weft_mpi::point_to_point::Describe;
use weft_mpi::process::{Guard, Process, lock, with};
use weft_mpi::request::{Mode, Persistent, Receive, Send};

/// Describes the message of `count` items of `datatype` at `buffer`, for this use of the buffer.
///
/// # Errors
/// `MPI_ERR_TYPE`, `MPI_ERR_BUFFER`, `MPI_ERR_COUNT`. Always an error where messages have labels: after an
/// error the caller asks [`labelled()`].
#[inline(always)]
fn data(
    process: &Process,
    buffer_use: BufferUse,
    buffer: Buffer,
    count: i64,
    datatype: MPI_Datatype,
) -> Result<UserData> {
    let datatype = process.objects.committed(datatype.0)?;
    // SAFETY: `Buffer::new` was promised what count and datatype say, until the operation is complete.
    unsafe { UserData::of_message(buffer_use, buffer.as_ptr(), count as u64, &datatype.description.layout) }
}

/// Stores the status of a blocking receive, and returns its error.
#[inline]
fn conclude<S: StatusForm>(received: Received, status: Option<InOut<S>>) -> Result<()> {
    status::store_received(status, &received.status);
    received.error.map_or(Ok(()), Err)
}

struct Message {
    buffer: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    peer: c_int,
    tag: c_int,
    comm: MPI_Comm,
}

#[inline(always)]
fn send_blocking(m: &Message, mode: Mode) -> Result<()> {
    let mut process = lock();
    let data = match data(&process, BufferUse::Send, m.buffer, m.count, m.datatype) {
        Ok(data) => data,
        Err(error) => return send_labelled_and_wait(process, m, mode, error),
    };
    if mode == Mode::Standard && process.send_now(m.comm.0, m.peer, m.tag, &data) {
        process.signal();
        return Ok(());
    }
    send_and_wait(process, m, data, mode)
}

#[inline(never)]
fn send_and_wait(mut process: Guard, m: &Message, data: UserData, mode: Mode) -> Result<()> {
    let send = Send { blocking: true, ..process.make_send(m.comm.0, m.peer, m.tag, data, mode)? };
    if mode == Mode::Buffered {
        process.buffered_send(send, m.comm.0)?;
        process.signal();
        return Ok(());
    }
    let request = process.start_send(send, m.comm.0)?;
    wait(process, request)?.error.map_or(Ok(()), Err)
}

#[inline(always)]
fn send_nonblocking<R: MadeRequest>(m: &Message, mode: Mode, request: Out<R>) -> Result<()> {
    let mut process = lock();
    let data = match data(&process, BufferUse::Send, m.buffer, m.count, m.datatype) {
        Ok(data) => data,
        Err(error) => return send_labelled_and_go_on(process, m, mode, request, error),
    };
    let handle = if mode == Mode::Standard && process.send_now(m.comm.0, m.peer, m.tag, &data) {
        process.messages()?.sent
    } else {
        start_send(&mut process, m, data, mode)?
    };
    process.signal();
    request.set(R::made(handle));
    Ok(())
}

#[inline(never)]
fn start_send(process: &mut Process, m: &Message, data: UserData, mode: Mode) -> Result<usize> {
    let send = process.make_send(m.comm.0, m.peer, m.tag, data, mode)?;
    if mode == Mode::Buffered {
        process.buffered_send(send, m.comm.0)?;
        let nothing = process.make_send(m.comm.0, MPI_PROC_NULL, 0, UserData::empty(), Mode::Standard)?;
        return process.start_send(nothing, m.comm.0);
    }
    process.start_send(send, m.comm.0)
}

fn send_persistent(m: &Message, mode: Mode, request: Out<MPI_Request>) -> Result<()> {
    with(|process| {
        let (data, label) = outgoing(process, BufferUse::Send, m)?;
        let send = process.make_send(m.comm.0, m.peer, m.tag, data, mode)?;
        let handle = process.make_persistent(Persistent::Send(send), m.comm.0)?;
        if let Some(label) = label {
            process.keep_label(handle, label);
        }
        request.set(MPI_Request(handle));
        Ok(())
    })
}

/// Sends in one of the modes (MPI-5.0 §3.4), in one of the forms.
#[inline(always)]
fn send_as(form: Form, message: &Message, mode: Mode) -> Result<()> {
    match form {
        Form::Blocking => send_blocking(message, mode),
        Form::Nonblocking(request) => send_nonblocking(message, mode, request),
        Form::Persistent(request) => send_persistent(message, mode, request),
    }
}

/// MPI_Send, MPI_Isend, MPI_Send_init (MPI-5.0 §3.2.1, §3.7.2, §3.9).
#[inline(always)]
pub(crate) fn send(
    form: Form,
    buf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let message = Message { buffer: buf, count, datatype, peer: dest, tag, comm };
    send_as(form, &message, Mode::Standard)
}

/// MPI_Isend, where the request may have another form than the standard's.
#[inline(always)]
pub(crate) fn isend_as<R: MadeRequest>(
    buf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Out<R>,
) -> Result<()> {
    let message = Message { buffer: buf, count, datatype, peer: dest, tag, comm };
    send_nonblocking(&message, Mode::Standard, request)
}

/// MPI_Ssend, MPI_Issend, MPI_Ssend_init (MPI-5.0 §3.4, §3.7.2, §3.9).
#[inline]
pub(crate) fn ssend(
    form: Form,
    buf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let message = Message { buffer: buf, count, datatype, peer: dest, tag, comm };
    send_as(form, &message, Mode::Synchronous)
}

/// MPI_Rsend, MPI_Irsend, MPI_Rsend_init (MPI-5.0 §3.4, §3.7.2, §3.9). The receive has been posted, which
/// makes no difference here.
#[inline]
pub(crate) fn rsend(
    form: Form,
    buf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let message = Message { buffer: buf, count, datatype, peer: dest, tag, comm };
    send_as(form, &message, Mode::Standard)
}

/// MPI_Bsend, MPI_Ibsend, MPI_Bsend_init (MPI-5.0 §3.4, §3.7.2, §3.9).
#[inline]
pub(crate) fn bsend(
    form: Form,
    buf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let message = Message { buffer: buf, count, datatype, peer: dest, tag, comm };
    send_as(form, &message, Mode::Buffered)
}

/// The memory to which a nonblocking receive writes its message. Only [`start_receive`] makes it, and the
/// caller of that keeps the memory.
struct Target {
    buffer: *mut u8,
    count: u64,
}

impl Describe for Target {
    #[inline(always)]
    fn describe(self, layout: &Layout) -> Result<UserData> {
        // SAFETY: `Buffer::new` was promised what count and datatype say, until the operation is complete.
        unsafe { UserData::of_message(BufferUse::Receive, self.buffer, self.count, layout) }
    }
}

#[inline(always)]
fn start_receive(process: &mut Process, m: &Message) -> Result<usize> {
    let target = Target { buffer: m.buffer.as_ptr(), count: m.count as u64 };
    match process.receive_into(m.comm.0, m.peer, m.tag, m.datatype.0, target) {
        Err(error) => start_labelled_receive(process, m, error),
        handle => handle,
    }
}

/// MPI_Recv (MPI-5.0 §3.2.4).
#[inline(always)]
pub(crate) fn recv<S: StatusForm>(
    buf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: Option<InOut<S>>,
) -> Result<()> {
    let process = lock();
    let data = match data(&process, BufferUse::Receive, buf, count, datatype) {
        Ok(data) => data,
        Err(error) => {
            let received = receive_labelled(process, buf, count, datatype, source, tag, comm, error)?;
            return conclude(received, status);
        }
    };
    let receive = process.make_receive(comm.0, source, tag, data)?;
    let received = blocking::receive(process, receive, comm.0)?;
    conclude(received, status)
}

/// MPI_Irecv (MPI-5.0 §3.7.2).
#[inline(always)]
pub(crate) fn irecv<R: MadeRequest>(
    buf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Out<R>,
) -> Result<()> {
    let message = Message { buffer: buf, count, datatype, peer: source, tag, comm };
    let mut process = lock();
    let handle = start_receive(&mut process, &message)?;
    process.signal();
    request.set(R::made(handle));
    Ok(())
}

/// MPI_Recv_init (MPI-5.0 §3.9).
pub(crate) fn recv_init(
    buf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: Out<MPI_Request>,
) -> Result<()> {
    with(|process| {
        let message = Message { buffer: buf, count, datatype, peer: source, tag, comm };
        let (data, label) = incoming(process, &message)?;
        let receive = process.make_receive(comm.0, source, tag, data)?;
        let handle = process.make_persistent(Persistent::Receive(receive), comm.0)?;
        if let Some((label, what)) = label {
            process.expect_labels(handle, label, what);
        }
        request.set(MPI_Request(handle));
        Ok(())
    })
}

/// MPI_Sendrecv (MPI-5.0 §3.2.7).
pub(crate) fn sendrecv<S: StatusForm>(
    sendbuf: Buffer,
    sendcount: i64,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: Buffer,
    recvcount: i64,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: Option<InOut<S>>,
) -> Result<()> {
    let process = lock();
    let sent = Message { buffer: sendbuf, count: sendcount, datatype: sendtype, peer: dest, tag: sendtag, comm };
    let message = Message { buffer: recvbuf, count: recvcount, datatype: recvtype, peer: source, tag: recvtag, comm };
    // The labels last until this call returns, as the operations do.
    let ((data, _label), (into, label)) = (outgoing(&process, BufferUse::Send, &sent)?, incoming(&process, &message)?);
    let send = process.make_send(comm.0, dest, sendtag, data, Mode::Standard)?;
    let receive = process.make_receive(comm.0, source, recvtag, into)?;
    let received = exchange(process, send, receive, label, comm)?;
    conclude(received, status)
}

/// MPI_Sendrecv_replace (MPI-5.0 §3.2.7).
pub(crate) fn sendrecv_replace(
    buf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: Option<InOut<MPI_Status>>,
) -> Result<()> {
    let process = lock();
    let sent = Message { buffer: buf, count, datatype, peer: dest, tag: sendtag, comm };
    // The labels last until this call returns, as the operations do.
    let ((out, _label), (into, label)) = (outgoing(&process, BufferUse::Receive, &sent)?, incoming(&process, &sent)?);
    let send = process.make_send(comm.0, dest, sendtag, out, Mode::Standard)?;
    let incoming = process.make_receive(comm.0, source, recvtag, into)?;
    let mut copy = vec![0; send.data.len() as usize];
    send.data.read(0, &mut copy);
    let length = copy.len() as u64;
    // SAFETY: `copy` outlives both operations, which are complete when this function returns.
    let data = unsafe { UserData::from_bytes(copy.as_mut_ptr(), length) };
    let received = exchange(process, Send { data, ..send }, incoming, label, comm)?;
    conclude(received, status)
}

/// MPI_Isendrecv (MPI-5.0 §3.7.2).
pub(crate) fn isendrecv(
    sendbuf: Buffer,
    sendcount: i64,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: Buffer,
    recvcount: i64,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: Out<MPI_Request>,
) -> Result<()> {
    with(|process| {
        let sent = Message { buffer: sendbuf, count: sendcount, datatype: sendtype, peer: dest, tag: sendtag, comm };
        let (out, label) = outgoing(process, BufferUse::Send, &sent)?;
        let send = process.make_send(comm.0, dest, sendtag, out, Mode::Standard)?;
        let incoming =
            Message { buffer: recvbuf, count: recvcount, datatype: recvtype, peer: source, tag: recvtag, comm };
        let receive = start_receive(process, &incoming)?;
        let send = process.start_send(send, comm.0)?;
        if let Some(label) = label {
            process.keep_label(send, label);
        }
        request.set(MPI_Request(process.pair(send, receive, comm.0)?));
        Ok(())
    })
}

/// MPI_Isendrecv_replace (MPI-5.0 §3.7.2).
pub(crate) fn isendrecv_replace(
    buf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: Out<MPI_Request>,
) -> Result<()> {
    with(|process| {
        let sent = Message { buffer: buf, count, datatype, peer: dest, tag: sendtag, comm };
        // The data that is sent is copied before its label goes.
        let ((data, _label), (into, label)) =
            (outgoing(process, BufferUse::Receive, &sent)?, incoming(process, &sent)?);
        let send = process.make_send(comm.0, dest, sendtag, data, Mode::Standard)?;
        let incoming = process.make_receive(comm.0, source, recvtag, into)?;
        let send = process.start_copied(send, comm.0)?;
        let receive = process.start_receive(incoming, comm.0)?;
        let receive = with_label(process, receive, label)?;
        request.set(MPI_Request(process.pair(send, receive, comm.0)?));
        Ok(())
    })
}
