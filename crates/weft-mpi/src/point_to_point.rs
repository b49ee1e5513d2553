//! Point-to-point communication: arguments to operations, operations to requests, requests to statuses (MPI-5.0 §3).

use weft_core::matching::Envelope;

use crate::buffered::Buffer;
use crate::constants::{
    MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, MPI_ERR_RANK, MPI_ERR_REQUEST, MPI_ERR_TAG, MPI_PROC_NULL,
    MPI_REQUEST_NULL,
};
use crate::engine::Received;
use crate::error::{Error, Result};
use crate::memory::{Address, UserData};
use crate::object::{Communicator, Extracted, full};
use crate::process::Process;
use crate::request::{Generalized, Mode, Persistent, Receive, Request, Send, State, Status};

/// How an operation ended.
pub struct Outcome {
    /// What it reports.
    pub status: Status,
    /// What went wrong.
    pub error: Option<Error>,
    /// Communicator whose error handler is called.
    pub communicator: usize,
    /// The handle that the program holds from now on: null, but for persistent requests.
    pub handle: usize,
    /// Callbacks of a generalized request, to be called now that it is complete.
    pub generalized: Option<Box<Generalized>>,
}

impl Outcome {
    /// Of a null or inactive request.
    pub const EMPTY: Self =
        Self { status: Status::EMPTY, error: None, communicator: 0, handle: MPI_REQUEST_NULL, generalized: None };

    /// What a blocking receive reports of it.
    #[inline]
    pub fn into_received(self) -> Received {
        Received { status: self.status, error: self.error }
    }

    /// Whether it is that of a null or inactive request.
    pub fn is_empty(&self) -> bool {
        self.communicator == 0
    }
}

impl Communicator {
    /// Rank `rank` of this communicator as a process of the job; `None` for `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`.
    #[inline]
    pub fn peer(&self, rank: i32, name: &str) -> Result<Option<u32>> {
        match usize::try_from(rank).ok().and_then(|rank| self.group.members.get(rank)) {
            Some(peer) => Ok(Some(*peer)),
            None if rank == MPI_PROC_NULL => Ok(None),
            None => Err(wrong_rank(rank, name, self.group.members.len())),
        }
    }
}

#[cold]
fn wrong_rank(rank: i32, name: &str, size: usize) -> Error {
    Error::new(MPI_ERR_RANK, format!("{name} is {rank}, but the ranks of the communicator are 0 to {}", size - 1))
}

#[cold]
fn wrong_tag(tag: i32) -> Error {
    Error::new(MPI_ERR_TAG, format!("tag is {tag}, but tags are 0 to {}", i32::MAX))
}

impl Process {
    /// A send to rank `destination`.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`, `MPI_ERR_RANK`, `MPI_ERR_TAG`.
    #[inline]
    pub fn make_send(
        &self,
        communicator: usize,
        destination: i32,
        tag: i32,
        data: UserData,
        mode: Mode,
    ) -> Result<Send> {
        let object = self.objects.communicator(communicator)?;
        if tag < 0 {
            return Err(wrong_tag(tag));
        }
        let peer = object.peer(destination, "dest")?;
        let envelope = Envelope { context: object.context, source: object.rank, tag };
        Ok(Send { peer, envelope, data, mode, blocking: false })
    }

    /// A receive from rank `source`.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`, `MPI_ERR_RANK`, `MPI_ERR_TAG`.
    #[inline(always)]
    pub fn make_receive(&self, communicator: usize, source: i32, tag: i32, data: UserData) -> Result<Receive> {
        let object = self.objects.communicator(communicator)?;
        if tag < 0 && tag != MPI_ANY_TAG {
            return Err(wrong_tag(tag));
        }
        let tag = (tag != MPI_ANY_TAG).then_some(tag);
        if source == MPI_ANY_SOURCE {
            let context = Some(object.context);
            return Ok(Receive { context, source: None, peer: None, tag, data, blocking: false });
        }
        let peer = object.peer(source, "source")?;
        let context = peer.is_some().then_some(object.context);
        Ok(Receive { context, source: Some(source as u32), peer, tag, data, blocking: false })
    }

    /// Sends a small standard message at once, if nothing stands in the way; `false` leaves everything as it was. Wrong
    /// arguments stand in the way, too: [`Process::make_send`] has the sentences.
    #[inline(always)]
    pub fn send_now(&mut self, communicator: usize, destination: i32, tag: i32, data: &UserData) -> bool {
        let Some(object) = self.objects.find_communicator(communicator) else { return false };
        let peer = usize::try_from(destination).ok().and_then(|rank| object.group.members.get(rank));
        let (Some(peer), Some(engine), 0..) = (peer, &mut self.engine, tag) else { return false };
        engine.send_now(*peer, Envelope { context: object.context, source: object.rank, tag }, data)
    }

    /// Starts `send`; its request.
    ///
    /// # Errors
    /// Too many requests.
    #[inline]
    pub fn start_send(&mut self, send: Send, communicator: usize) -> Result<usize> {
        let engine = self.engine()?;
        if engine.submit_now(&send) {
            return Ok(engine.messages.sent);
        }
        let handle = engine.messages.add(State::Queued(send), communicator)?;
        engine.start_send(handle);
        Ok(handle)
    }

    /// Starts `receive`; its request.
    ///
    /// # Errors
    /// Too many requests.
    #[inline(always)]
    pub fn start_receive(&mut self, receive: Receive, communicator: usize) -> Result<usize> {
        let engine = self.engine()?;
        let handle = engine.messages.add(State::Posted(receive), communicator)?;
        engine.start_receive(handle);
        Ok(handle)
    }

    /// Makes a persistent request (MPI-5.0 §3.9).
    ///
    /// # Errors
    /// Too many requests.
    pub fn make_persistent(&mut self, operation: Persistent, communicator: usize) -> Result<usize> {
        let handle = self.messages()?.add(State::Inactive, communicator)?;
        self.request(handle)?.persistent = Some(Box::new(operation));
        Ok(handle)
    }

    /// Makes a generalized request (MPI-5.0 §13.2).
    ///
    /// # Errors
    /// Too many requests.
    pub fn make_generalized(&mut self, callbacks: Generalized) -> Result<usize> {
        let handle = self.messages()?.add(State::Generalized, crate::constants::MPI_COMM_SELF)?;
        self.request(handle)?.generalized = Some(Box::new(callbacks));
        Ok(handle)
    }

    /// Starts a persistent request again.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when it is not persistent or still active.
    pub fn restart(&mut self, handle: usize) -> Result<()> {
        let request = self.request(handle)?;
        let Some(operation) = request.persistent.as_deref().cloned() else {
            return Err(Error::new(MPI_ERR_REQUEST, "the request is not persistent: it cannot be started"));
        };
        if !matches!(request.state, State::Inactive) {
            return Err(Error::new(MPI_ERR_REQUEST, "the persistent request is active already: complete it first"));
        }
        let engine = self.engine()?;
        let Some(request) = engine.messages.requests.get_mut(handle) else { return Ok(()) };
        request.status = Status::EMPTY;
        request.error = None;
        match operation {
            Persistent::Send(send) if send.mode == Mode::Buffered => {
                let communicator = request.communicator;
                request.state = State::Complete;
                self.buffered_send(send, communicator)?;
            }
            Persistent::Send(send) => {
                engine.messages.restart(handle, State::Queued(send));
                engine.start_send(handle);
            }
            Persistent::Receive(receive) => {
                engine.messages.restart(handle, State::Posted(receive));
                engine.start_receive(handle);
            }
            Persistent::Collective(collective) => {
                engine.messages.restart(handle, State::Collective);
                let (place, schedule, arguments) = *collective;
                self.start_schedule(handle, place, schedule, arguments)?;
            }
        }
        Ok(())
    }

    /// Sends through the attached buffer: the data is copied, and the program is free at once (MPI-5.0 §3.6).
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when it does not fit.
    pub fn buffered_send(&mut self, send: Send, communicator: usize) -> Result<()> {
        self.reclaim_buffers();
        let own = self.objects.communicator(communicator)?.buffer.is_attached();
        let buffer = if own { &self.objects.communicator(communicator)?.buffer } else { &self.buffer };
        buffer.check(send.data.len())?;
        let mut bytes = vec![0; send.data.len() as usize].into_boxed_slice();
        send.data.read(0, &mut bytes);
        let length = bytes.len() as u64;
        let data = crate::memory::promised_bytes(Address::of_bytes(&mut bytes), length);
        let request = self.start_send(Send { data, mode: Mode::Standard, blocking: false, ..send }, communicator)?;
        let buffer = if own { &mut self.objects.communicator_mut(communicator)?.buffer } else { &mut self.buffer };
        buffer.keep(request, bytes);
        self.reclaim_buffers();
        Ok(())
    }

    /// Gives back the space of buffered messages that have left.
    pub fn reclaim_buffers(&mut self) {
        let mut own = [std::mem::take(&mut self.buffer), std::mem::take(&mut self.temporaries)];
        if let Ok((objects, engine)) = self.parts() {
            let requests = &engine.messages.requests;
            let mut left = Vec::new();
            let mut reclaim = |buffer: &mut Buffer| {
                left.extend(buffer.reclaim(|request| requests.get(request).is_none_or(Request::is_settled)));
            };
            objects.for_each_buffer(&mut reclaim);
            own.iter_mut().for_each(reclaim);
            for request in left {
                engine.messages.forget(request);
            }
        }
        [self.buffer, self.temporaries] = own;
    }

    /// Starts `send` from a copy of its data; its request. The program's buffer is free at once.
    ///
    /// # Errors
    /// Too many requests.
    pub fn start_copied(&mut self, send: Send, communicator: usize) -> Result<usize> {
        self.reclaim_buffers();
        let mut bytes = vec![0; send.data.len() as usize].into_boxed_slice();
        send.data.read(0, &mut bytes);
        let length = bytes.len() as u64;
        let data = crate::memory::promised_bytes(Address::of_bytes(&mut bytes), length);
        let request = self.start_send(Send { data, blocking: false, ..send }, communicator)?;
        self.temporaries.keep(request, bytes);
        Ok(request)
    }

    /// One request for a send and a receive that have been started.
    ///
    /// # Errors
    /// Too many requests.
    pub fn pair(&mut self, send: usize, receive: usize, communicator: usize) -> Result<usize> {
        self.messages()?.add(State::Pair { send, receive }, communicator)
    }

    /// Completes a pair whose parts are complete.
    fn settle_pair(&mut self, handle: usize, send: usize, receive: usize) -> Result<bool> {
        let messages = self.messages()?;
        let settled = |part| messages.requests.get(part).is_none_or(Request::is_settled);
        if !settled(send) || !settled(receive) {
            return Ok(false);
        }
        let sent = messages.take_error(send);
        let status = messages.requests.get(receive).map(|received| received.status);
        let error = messages.take_error(receive).or(sent);
        if let Some(request) = messages.requests.get_mut(handle) {
            request.status = status.unwrap_or(request.status);
            request.error = error;
        }
        messages.complete(handle);
        Ok(true)
    }

    /// A request that completes when the messages that wait in the buffer of `communicator`, or of the process, at this
    /// time have left (MPI-5.0 §3.6).
    ///
    /// # Errors
    /// Too many requests; `MPI_ERR_COMM`.
    pub fn start_flush(&mut self, communicator: Option<usize>) -> Result<usize> {
        let buffer = match communicator {
            Some(handle) => &self.objects.communicator(handle)?.buffer,
            None => &self.buffer,
        };
        let waiting = buffer.requests().collect();
        let communicator = communicator.unwrap_or(crate::constants::MPI_COMM_SELF);
        self.messages()?.add(State::Flush(waiting), communicator)
    }

    /// Completes a flush whose messages have left.
    fn settle_flush(&mut self, handle: usize) -> Result<bool> {
        let messages = self.messages()?;
        let Some(State::Flush(waiting)) = messages.requests.get(handle).map(|request| &request.state) else {
            return Ok(false);
        };
        let left = waiting.iter().all(|part| messages.requests.get(*part).is_none_or(Request::is_settled));
        if left {
            messages.complete(handle);
        }
        Ok(left)
    }

    /// The request of `handle`.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`.
    #[inline]
    pub fn request(&mut self, handle: usize) -> Result<&mut Request> {
        let found = self.messages()?.requests.get_mut(handle);
        found.ok_or_else(|| wrong_request(handle))
    }

    /// Whether a wait for `handle` would return at once; null and inactive requests count as complete.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`.
    #[inline]
    pub fn is_settled(&mut self, handle: usize) -> Result<bool> {
        if handle == MPI_REQUEST_NULL {
            return Ok(true);
        }
        let messages = self.messages()?;
        if handle == messages.sent {
            return Ok(true);
        }
        let request = messages.requests.get(handle).ok_or_else(|| wrong_request(handle))?;
        if let State::Pair { send, receive } = request.state {
            return self.settle_pair(handle, send, receive);
        }
        if let State::Flush(_) = request.state {
            return self.settle_flush(handle);
        }
        Ok(request.is_settled())
    }

    /// Whether `handle` is neither null nor inactive.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`.
    pub fn is_active(&mut self, handle: usize) -> Result<bool> {
        if handle == MPI_REQUEST_NULL {
            return Ok(false);
        }
        Ok(!matches!(self.request(handle)?.state, State::Inactive))
    }

    /// Takes the result of a settled request; the request is gone, or inactive if it is persistent.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`.
    #[inline]
    pub fn finish(&mut self, handle: usize) -> Result<Outcome> {
        if handle == MPI_REQUEST_NULL {
            return Ok(Outcome::EMPTY);
        }
        let messages = self.messages()?;
        if handle == messages.sent {
            return Ok(Outcome { communicator: MPI_COMM_SELF, ..Outcome::EMPTY });
        }
        let request = messages.requests.get_mut(handle).ok_or_else(|| wrong_request(handle))?;
        if matches!(request.state, State::Inactive) {
            return Ok(Outcome { handle, ..Outcome::EMPTY });
        }
        let outcome = Outcome {
            status: request.status,
            error: request.error.take(),
            communicator: request.communicator,
            handle: if request.persistent.is_some() { handle } else { MPI_REQUEST_NULL },
            generalized: request.generalized.take(),
        };
        if request.persistent.is_some() {
            request.state = State::Inactive;
        } else {
            messages.forget(handle);
        }
        Ok(outcome)
    }

    /// Takes the result of a request of which [nothing but its status](Request::is_over) is to be told; `None`, and everything is as it
    /// was, if it is none, not complete, or another.
    #[inline(always)]
    pub fn finish_plain(&mut self, handle: usize) -> Option<Status> {
        let messages = &mut self.engine.as_deref_mut()?.messages;
        if handle == MPI_REQUEST_NULL || handle == messages.sent {
            return Some(Status::EMPTY);
        }
        let request = messages.requests.get(handle).filter(|request| request.is_over())?;
        let status = request.status;
        messages.requests.put_back(handle);
        Some(status)
    }

    /// The program gives up its handle; the operation goes on (MPI-5.0 §3.7.3). Callbacks of a generalized request
    /// that is complete are returned, to be called now.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`.
    pub fn free_request(&mut self, handle: usize) -> Result<Option<Generalized>> {
        let request = self.request(handle)?;
        if request.is_settled() {
            let callbacks = request.generalized.as_deref().copied();
            self.messages()?.forget(handle);
            return Ok(callbacks);
        }
        if let State::Pair { send, receive } = request.state {
            self.messages()?.abandon(handle);
            self.free_request(send)?;
            return self.free_request(receive);
        }
        if let State::Flush(_) = request.state {
            self.messages()?.abandon(handle);
            return Ok(None);
        }
        request.freed = true;
        Ok(None)
    }

    /// Asks for `handle` to be cancelled (MPI-5.0 §3.8.4). Callbacks of a generalized request are returned, to be
    /// called with whether it is complete.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST`.
    pub fn cancel(&mut self, handle: usize) -> Result<Option<(Generalized, bool)>> {
        let request = self.request(handle)?;
        if let Some(callbacks) = request.generalized.as_deref() {
            return Ok(Some((*callbacks, request.is_settled())));
        }
        if matches!(request.state, State::Inactive | State::Collective | State::Flush(_)) {
            return Err(Error::new(MPI_ERR_REQUEST, "only active point-to-point operations can be cancelled"));
        }
        self.engine()?.cancel(handle);
        Ok(None)
    }

    /// Looks for a message without receiving it (MPI-5.0 §3.8.1).
    ///
    /// # Errors
    /// As for a receive.
    pub fn probe(&mut self, communicator: usize, source: i32, tag: i32) -> Result<Option<Status>> {
        let receive = self.make_receive(communicator, source, tag, UserData::empty())?;
        let Some(context) = receive.context else { return Ok(Some(Status::PROC_NULL)) };
        let messages = self.messages()?;
        let Some((envelope, unexpected)) = messages.matcher.probe(context, receive.source, receive.tag) else {
            let (objects, engine) = self.parts()?;
            let group = &objects.communicator(communicator)?.group;
            engine.messages.probed_in_vain(receive.peer, |peer| group.members.contains(&peer))?;
            return Ok(None);
        };
        let bytes = messages.unexpected.get(*unexpected).map_or(0, |message| message.total);
        Ok(Some(status_of(envelope, bytes)))
    }

    /// The same, and takes the message out of the matching (MPI-5.0 §3.8.2): its handle, `None` for the message of
    /// `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// As for a receive.
    pub fn extract(&mut self, communicator: usize, source: i32, tag: i32) -> Result<Option<(Option<usize>, Status)>> {
        let Some(status) = self.probe(communicator, source, tag)? else { return Ok(None) };
        let receive = self.make_receive(communicator, source, tag, UserData::empty())?;
        let Some(context) = receive.context else { return Ok(Some((None, status))) };
        let found = self.messages()?.matcher.extract(context, receive.source, receive.tag);
        let Some((envelope, unexpected)) = found else { return Ok(None) };
        let extracted = Extracted { envelope, unexpected, communicator };
        let handle = self.objects.extracted.insert(extracted).ok_or_else(|| full("messages"))?;
        Ok(Some((Some(handle), status)))
    }

    /// Starts the receive of an extracted message; its request.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when `message` is no message handle.
    pub fn receive_extracted(&mut self, message: usize, data: UserData) -> Result<usize> {
        let extracted = self.objects.extracted.remove(message).ok_or_else(|| {
            Error::new(MPI_ERR_REQUEST, format!("{message:#x} is no message, or one that has been received already"))
        })?;
        let receive = Receive {
            context: Some(extracted.envelope.context),
            source: Some(extracted.envelope.source),
            peer: None,
            tag: Some(extracted.envelope.tag),
            data,
            blocking: false,
        };
        let engine = self.engine()?;
        let handle = engine.messages.add(State::Posted(receive), extracted.communicator)?;
        engine.claim(handle, extracted.envelope, extracted.unexpected);
        Ok(handle)
    }
}

fn status_of(envelope: Envelope, bytes: u64) -> Status {
    Status { source: envelope.source as i32, tag: envelope.tag, error: 0, bytes, cancelled: false }
}

#[cold]
fn wrong_request(handle: usize) -> Error {
    Error::new(MPI_ERR_REQUEST, format!("{handle:#x} is no request, or one that is complete already"))
}
