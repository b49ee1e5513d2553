//! Messages with labels (`WEFT_CHECK`): the cases in which a message cannot be described without a label.
//! None of this is inlined, so it costs nothing where there are no labels.

use super::*;

/// Describes the message with a label. Returns the description, the label, whose memory lives as long as the
/// caller's, and the label's contents.
///
/// # Errors
/// `error`, the reason why the message could not be described without a label, unless messages have labels.
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

/// Starts a send with a label, if messages have labels; `error` is the reason why the message could not be
/// described without one. Returns the request.
#[cold]
#[inline(never)]
pub(super) fn start_labelled_send(process: &mut Process, m: &Message, mode: Mode, error: Error) -> Result<usize> {
    let (data, label, _) = labelled(process, BufferUse::Send, m, error)?;
    let request = start_send(process, m, data, mode)?;
    process.keep_label(request, label);
    Ok(request)
}

/// Starts a receive with a label, if messages have labels, and returns the request.
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
pub(super) fn send_labelled_and_go_on<R: MadeRequest>(
    mut process: Guard,
    m: &Message,
    mode: Mode,
    request: Out<R>,
    error: Error,
) -> Result<()> {
    let handle = start_labelled_send(&mut process, m, mode, error)?;
    process.signal();
    request.set(R::made(handle));
    Ok(())
}

/// The data to send, and the memory of its label if it has one. The label must be kept as long as the buffer.
pub(super) fn outgoing(process: &Process, buffer_use: BufferUse, m: &Message) -> Result<(UserData, Option<Label>)> {
    match data(process, buffer_use, m.buffer, m.count, m.datatype) {
        Ok(data) => Ok((data, None)),
        Err(error) => labelled(process, buffer_use, m, error).map(|(data, label, _)| (data, Some(label))),
    }
}

/// The data to receive into. Where a label comes, also the memory of the label, and the items it is compared
/// with.
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

/// Receives, blocking, with a label if messages have labels. The arguments are those of the call, so that a
/// receive without a label need not collect them.
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
    error: Error,
) -> Result<Received> {
    let message = Message { buffer, count, datatype, peer, tag, comm };
    let request = start_labelled_receive(&mut process, &message, error)?;
    Ok(wait(process, request)?.into_received())
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
