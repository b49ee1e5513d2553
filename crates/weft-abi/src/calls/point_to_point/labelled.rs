//! Messages with labels (`WEFT_CHECK`): what a call does where a message cannot be described without one.
//! Nothing of this is inlined: it costs nothing where there are no labels.

use super::*;

/// The same as a message with a label, what the label says, and its memory, which lives as long as the
/// caller's.
///
/// # Errors
/// `error`, which is why the message could not be described without one, unless messages have labels.
#[cold]
pub(super) fn labelled(
    process: &Process,
    buffer_use: BufferUse,
    m: &Message,
    error: Error,
) -> Result<(UserData, Label, Labelled)> {
    if !process.checks_calls {
        return Err(error);
    }
    let what = process.labelled(m.datatype.0, m.count as u64)?;
    let label = what.label();
    let layout = &process.objects.committed(m.datatype.0)?.description.layout;
    // SAFETY: `Buffer::new` was promised what count and datatype say, until the operation is complete. The
    // label is kept as long.
    let data = unsafe { label.before(buffer_use, m.buffer.as_ptr(), m.count as u64, layout)? };
    Ok((data, label, what))
}

#[cold]
#[inline(never)]
pub(super) fn send_labelled_and_wait(mut process: Guard, m: &Message, mode: Mode, error: Error) -> Result<()> {
    let request = start_labelled_send(&mut process, m, mode, error)?;
    wait(process, request)?.error.map_or(Ok(()), Err)
}

/// Starts a send with a label, if that is why it could not be described without: `error` says so; its
/// request.
#[cold]
#[inline(never)]
pub(super) fn start_labelled_send(process: &mut Process, m: &Message, mode: Mode, error: Error) -> Result<usize> {
    let (data, label, _) = labelled(process, BufferUse::Send, m, error)?;
    let request = start_send(process, m, data, mode)?;
    process.keep_label(request, label);
    Ok(request)
}

/// The same for a receive.
#[cold]
#[inline(never)]
pub(super) fn start_labelled_receive(process: &mut Process, m: &Message, error: Error) -> Result<usize> {
    let (data, label, what) = labelled(process, BufferUse::Receive, m, error)?;
    let receive = process.make_receive(m.comm.0, m.peer, m.tag, data)?;
    let request = process.start_receive(receive, m.comm.0)?;
    process.expect_label(request, label, what)
}

#[cold]
#[inline(never)]
pub(super) fn send_labelled_and_go_on(
    mut process: Guard,
    m: &Message,
    mode: Mode,
    request: Out<MPI_Request>,
    error: Error,
) -> Result<()> {
    let handle = start_labelled_send(&mut process, m, mode, error)?;
    process.signal();
    request.set(MPI_Request(handle));
    Ok(())
}

/// What is sent, and the memory of its label if it has one, which must be kept as long as the buffer.
pub(super) fn outgoing(process: &Process, buffer_use: BufferUse, m: &Message) -> Result<(UserData, Option<Label>)> {
    match data(process, buffer_use, m.buffer, m.count, m.datatype) {
        Ok(data) => Ok((data, None)),
        Err(error) => labelled(process, buffer_use, m, error).map(|(data, label, _)| (data, Some(label))),
    }
}

/// What is received into, and the memory of a label and what it is compared with, if one comes.
pub(super) fn incoming(process: &Process, m: &Message) -> Result<(UserData, Option<(Label, Labelled)>)> {
    match data(process, BufferUse::Receive, m.buffer, m.count, m.datatype) {
        Ok(data) => Ok((data, None)),
        Err(error) => {
            labelled(process, BufferUse::Receive, m, error).map(|(data, label, what)| (data, Some((label, what))))
        }
    }
}

/// The program's request for the receive `request`: another one if a label comes.
pub(super) fn with_label(process: &mut Process, request: usize, label: Option<(Label, Labelled)>) -> Result<usize> {
    match label {
        Some((label, what)) => process.expect_label(request, label, what),
        None => Ok(request),
    }
}

/// A blocking receive that may want a label. The arguments are those of the call, so that one without pays
/// nothing for putting them together.
#[cold]
#[inline(never)]
pub(super) fn receive_labelled(
    mut process: Guard,
    buffer: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    peer: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: Option<InOut<MPI_Status>>,
    error: Error,
) -> Result<()> {
    let message = Message { buffer, count, datatype, peer, tag, comm };
    let request = start_labelled_receive(&mut process, &message, error)?;
    conclude(wait(process, request)?.into_received(), status)
}

/// Sends one message and receives another, with a label if one comes, and waits for both.
pub(super) fn exchange(
    mut process: Guard,
    send: Send,
    receive: Receive,
    label: Option<(Label, Labelled)>,
    comm: MPI_Comm,
) -> Result<Received> {
    if label.is_none() {
        return blocking::exchange(process, send, receive, comm.0);
    }
    let request = process.start_receive(receive, comm.0)?;
    let request = with_label(&mut process, request, label)?;
    let send = process.start_send(send, comm.0)?;
    let (received, sent) = blocking::wait_both(process, request, send)?;
    let mut received = received.into_received();
    received.error = received.error.or(sent.error);
    Ok(received)
}
