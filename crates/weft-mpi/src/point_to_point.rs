//! Point-to-point communication (MPI-5.0 §3): from arguments to operations, to requests, to statuses. The
//! boundary calls this module.

use weft_core::layout::Layout;
use weft_core::matching::Envelope;
use weft_core::time::Duration;
use weft_net::clock;

use crate::buffered::{Buffer, Holder};
use crate::constants::{
    MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, MPI_ERR_RANK, MPI_ERR_REQUEST, MPI_ERR_TAG, MPI_MESSAGE_NULL,
    MPI_PROC_NULL,
};
use crate::error::{Error, Result};
use crate::memory::{SharedBuffer, UserData};
use crate::object::{Communicator, Extracted, PeerId, full};
use crate::process::Process;
use crate::request::{Cancellation, Generalized, Hold, Mode, Persistent, Receive, Request, Send, State, Status};

/// The time for which a buffered send without room makes progress before it is refused, if no message of the
/// buffer has been matched. A message that is in a ring on the node leaves in this time.
const ROOM_PATIENCE: Duration = Duration::from_millis(50);
/// The time for which a buffered send waits for a message of the buffer that has been matched. The receiver
/// may have this message already, so that only the acknowledgement is missing. The limit is many times the
/// longest probe timeout (core `flow/settings.rs`, `pto_max`): an acknowledgement may be lost often.
const MATCHED_PATIENCE: Duration = Duration::from_secs(5);

/// The messages that a receive takes.
struct ReceivePattern {
    context: Option<u32>,
    source: Option<u32>,
    peer: Option<PeerId>,
    tag: Option<i32>,
}

/// The program's memory, of which a datatype's layout makes data.
///
/// A closure would do as well, but the compiler cannot be made to inline it, and then the data goes through
/// memory once more for each message.
pub trait Describe {
    /// The data of items of `layout`.
    ///
    /// # Errors
    /// As for [`UserData::new`].
    fn describe(self, layout: &Layout) -> Result<UserData>;
}

impl Communicator {
    /// The pattern of a receive from rank `source`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`, `MPI_ERR_TAG`.
    #[inline(always)]
    fn receive_pattern(&self, source: i32, tag: i32) -> Result<ReceivePattern> {
        if tag < 0 && tag != MPI_ANY_TAG {
            return Err(wrong_tag(tag));
        }
        let any = source == MPI_ANY_SOURCE;
        let peer = if any { None } else { self.peer(source, "source")? };
        Ok(ReceivePattern {
            context: (any || peer.is_some()).then_some(self.context),
            source: (!any).then_some(source as u32),
            peer,
            tag: (tag != MPI_ANY_TAG).then_some(tag),
        })
    }

    #[cold]
    fn wrong_rank(&self, rank: i32, name: &str) -> Error {
        if self.revocation.is_some() {
            return Error::revoked();
        }
        let whose = if self.inter.is_some() { "its remote group" } else { "the communicator" };
        let highest = self.partners().members.len() - 1;
        Error::new(MPI_ERR_RANK, format!("{name} is {rank}, but the ranks of {whose} are 0 to {highest}"))
    }

    /// The peer with rank `rank` of this communicator, or of its remote group if it has one. `None` for
    /// `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`.
    #[inline(always)]
    pub fn peer(&self, rank: i32, name: &str) -> Result<Option<PeerId>> {
        match usize::try_from(rank).ok().and_then(|rank| self.addressed.members.get(rank)) {
            Some(peer) => Ok(Some(*peer)),
            None if rank == MPI_PROC_NULL && self.revocation.is_none() => Ok(None),
            None => Err(self.wrong_rank(rank, name)),
        }
    }
}

/// Checks that a tag is no wildcard.
///
/// # Errors
/// `MPI_ERR_TAG`.
#[inline(always)]
pub(crate) fn check_tag(tag: i32) -> Result<()> {
    if tag < 0 { Err(wrong_tag(tag)) } else { Ok(()) }
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
        check_tag(tag)?;
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
        let ReceivePattern { context, source, peer, tag } =
            self.objects.communicator(communicator)?.receive_pattern(source, tag)?;
        Ok(Receive { context, source, peer, tag, data, blocking: false })
    }

    /// Starts a receive from rank `source` into `buffer`, described by the layout of `datatype`, which must
    /// be committed. Returns the request.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`, `MPI_ERR_COMM`, `MPI_ERR_RANK`, `MPI_ERR_TAG`; an error of `buffer`; too many
    /// requests.
    #[inline(always)]
    pub fn receive_into(
        &mut self,
        communicator: usize,
        source: i32,
        tag: i32,
        datatype: usize,
        buffer: impl Describe,
    ) -> Result<usize> {
        let (objects, engine) = self.parts()?;
        let layout = &objects.committed(datatype)?.description.layout;
        let ReceivePattern { context, source, peer, tag } =
            objects.communicator(communicator)?.receive_pattern(source, tag)?;
        let data = buffer.describe(layout)?;
        // The receive is made in its final place. A copy would wait until the processor has stored the
        // original.
        let handle = engine
            .messages
            .add_with(communicator, || State::Posted(Receive { context, source, peer, tag, data, blocking: false }))?;
        engine.start_receive(handle);
        if self.lacks_thread {
            self.start_thread_for_neighbours();
        }
        Ok(handle)
    }

    /// Sends a small standard message at once, if nothing prevents it. Returns `false`, with nothing changed,
    /// otherwise. Wrong arguments prevent it, too: [`Process::make_send`] makes their errors.
    #[inline(always)]
    pub fn send_now(&mut self, communicator: usize, destination: i32, tag: i32, data: &UserData) -> bool {
        let Some(object) = self.objects.find_communicator(communicator) else { return false };
        let peer = usize::try_from(destination).ok().and_then(|rank| object.addressed.members.get(rank));
        let (Some(peer), Some(engine), 0..) = (peer, &mut self.engine, tag) else { return false };
        engine.send_now(*peer, Envelope { context: object.context, source: object.rank, tag }, data)
    }

    /// Starts `send`, and returns the request.
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

    /// Starts `receive`, and returns the request.
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

    /// Attaches callbacks to the request of an operation that has begun: they are called when it completes,
    /// as those of a generalized request are. Returns the state of those that they replace, or 0.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when it is persistent, generalized, or no request.
    pub fn attach(&mut self, handle: usize, callbacks: Generalized) -> Result<usize> {
        let request = self.request(handle)?;
        let attached = request.generalized.as_deref();
        if request.persistent.is_some() || attached.is_some_and(|attached| attached.cancel.is_some()) {
            return Err(Error::new(MPI_ERR_REQUEST, "nothing can be attached to a persistent or generalized request"));
        }
        let replaced = request.generalized.replace(Box::new(callbacks));
        Ok(replaced.map_or(0, |replaced| replaced.extra_state))
    }

    /// Starts a persistent request again.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when it is not persistent or still active.
    pub fn restart(&mut self, handle: usize) -> Result<()> {
        let request = self.request(handle)?;
        let Some(operation) = request.persistent.as_deref().cloned() else {
            let message = "the request is not persistent: it cannot be started";
            return Err(Error::new(MPI_ERR_REQUEST, message).on(request.communicator));
        };
        if !matches!(request.state, State::Inactive) {
            let message = "the persistent request is active already: complete it first";
            return Err(Error::new(MPI_ERR_REQUEST, message).on(request.communicator));
        }
        let communicator = request.communicator;
        if self.recovery.has_revoked
            && let Some(object) = self.objects.find_communicator(communicator)
        {
            object.check_not_revoked().map_err(|error| error.on(communicator))?;
        }
        let has_labels = self.labels.expects(handle);
        let engine = self.engine()?;
        let Some(request) = engine.messages.requests.get_mut(handle) else { return Ok(()) };
        request.status = Status::EMPTY;
        request.error = None;
        request.hold = Hold::Held;
        match operation {
            Persistent::Send(send) if send.mode == Mode::Buffered => {
                let communicator = request.communicator;
                self.buffered_send(send, communicator)?;
                self.request(handle)?.state = State::Complete;
            }
            Persistent::Send(send) => {
                engine.messages.restart(handle, State::Queued(send));
                engine.start_send(handle);
            }
            Persistent::Receive(receive) if has_labels => {
                let communicator = request.communicator;
                let receive = self.start_receive(receive, communicator)?;
                self.messages()?.restart(handle, State::Labelled { receive });
            }
            Persistent::Receive(receive) => {
                engine.messages.restart(handle, State::Posted(receive));
                engine.start_receive(handle);
                if self.lacks_thread {
                    self.start_thread_for_neighbours();
                }
            }
            Persistent::Partitioned => self.start_partitioned(handle)?,
            Persistent::Collective(collective) => {
                engine.messages.restart(handle, State::Collective);
                self.restart_collective(handle, &collective)?;
            }
        }
        Ok(())
    }

    /// Sends through the attached buffer. The data is copied, and the program may use its memory at once
    /// (MPI-5.0 §3.6).
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when it does not fit.
    pub fn buffered_send(&mut self, send: Send, communicator: usize) -> Result<()> {
        let holder = self.buffer_for(communicator)?;
        let length = send.data.len() - self.label_bytes();
        self.make_room(holder, length)?;
        let bytes = SharedBuffer::packed(&send.data);
        let data = bytes.describe_all();
        let request = self.start_send(Send { data, mode: Mode::Standard, blocking: false, ..send }, communicator)?;
        self.buffer_of(holder)?.keep(request, bytes, length);
        self.reclaim_buffers();
        Ok(())
    }

    /// Makes room for a message of `bytes` bytes in the buffer of `holder`. If there is no room, messages may
    /// have been received already without this process knowing. Progress brings the news that they have left,
    /// which may still be on its way. (MPI-5.0 §3.6: only pending messages count.)
    ///
    /// A large message that its receiver has was matched before, and this process knows that: it has sent the
    /// data. So the send waits longer while a message of the buffer is matched and under way.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when it does not fit.
    fn make_room(&mut self, holder: Holder, bytes: u64) -> Result<()> {
        let mut began = None;
        loop {
            self.reclaim_buffers();
            let buffer = self.buffer_of(holder)?;
            let fits = buffer.check(bytes);
            if fits.is_ok() || !buffer.could_hold(bytes) {
                return fits;
            }
            let patience = if self.has_matched(holder)? { MATCHED_PATIENCE } else { ROOM_PATIENCE };
            let now = clock::now();
            if now.since(*began.get_or_insert(now)) >= patience {
                self.signal();
                return fits;
            }
            self.progress();
            std::thread::yield_now();
        }
    }

    /// Returns whether a message in the buffer of `holder` is under way to a receive that has matched it.
    fn has_matched(&mut self, holder: Holder) -> Result<bool> {
        let kept: Vec<usize> = self.buffer_of(holder)?.requests().collect();
        let unfinished = self.messages()?.unfinished(&kept);
        Ok(unfinished.iter().any(|operation| kept.contains(&operation.request) && !operation.is_unmatched))
    }

    /// Gives back the space of buffered messages that have left.
    pub fn reclaim_buffers(&mut self) {
        let mut own = [std::mem::take(&mut self.buffer), std::mem::take(&mut self.temporaries)];
        if let Ok((objects, engine)) = self.parts() {
            let requests = &engine.messages.requests;
            let mut left = Vec::new();
            let mut reclaim = |buffer: &mut Buffer| {
                left.extend(buffer.reclaim(|request| requests.get(request).is_none_or(Request::is_complete)));
            };
            objects.for_each_buffer(&mut reclaim);
            own.iter_mut().for_each(reclaim);
            for request in left {
                engine.messages.forget(request);
            }
        }
        [self.buffer, self.temporaries] = own;
    }

    /// Starts `send` from a copy of its data, and returns the request. The program may use its memory at
    /// once.
    ///
    /// # Errors
    /// Too many requests.
    pub fn start_copied(&mut self, send: Send, communicator: usize) -> Result<usize> {
        self.reclaim_buffers();
        let bytes = SharedBuffer::packed(&send.data);
        let data = bytes.describe_all();
        let request = self.start_send(Send { data, blocking: false, ..send }, communicator)?;
        let length = bytes.len() as u64;
        self.temporaries.keep(request, bytes, length);
        Ok(request)
    }

    /// Makes one request for a send and a receive that have been started.
    ///
    /// # Errors
    /// Too many requests.
    pub fn pair(&mut self, send: usize, receive: usize, communicator: usize) -> Result<usize> {
        self.messages()?.add(State::Pair { send, receive }, communicator)
    }

    /// Makes a request that completes when the messages that wait in the buffer of `holder` now have left
    /// (MPI-5.0 §3.6).
    ///
    /// # Errors
    /// Too many requests; `MPI_ERR_COMM`, `MPI_ERR_SESSION`.
    pub fn start_flush(&mut self, holder: Holder) -> Result<usize> {
        let waiting = self.buffer_of(holder)?.requests().collect();
        let communicator = if let Holder::Communicator(handle) = holder { handle } else { MPI_COMM_SELF };
        let messages = self.messages()?;
        let handle = messages.add(State::Flush(waiting), communicator)?;
        if let Some(request) = messages.requests.get_mut(handle) {
            request.cancellation = Cancellation::OnlyFreed;
        }
        Ok(handle)
    }

    /// Looks for a message without receiving it (MPI-5.0 §3.8.1).
    ///
    /// # Errors
    /// As for a receive.
    pub fn probe(&mut self, communicator: usize, source: i32, tag: i32) -> Result<Option<Status>> {
        self.objects.communicator(communicator)?.check_not_revoked()?;
        let receive = self.make_receive(communicator, source, tag, UserData::empty())?;
        let Some(context) = receive.context else { return Ok(Some(Status::PROC_NULL)) };
        let messages = self.messages()?;
        let Some((envelope, unexpected)) = messages.matcher.probe(context, receive.source, receive.tag) else {
            let (objects, engine) = self.parts()?;
            let group = objects.communicator(communicator)?.partners();
            let is_member = |peer| group.members.contains(&peer);
            engine.probed_in_vain(context, receive.peer, is_member)?;
            self.check_not_finalizing(receive.peer)?;
            return Ok(None);
        };
        let bytes = messages.unexpected.get(*unexpected).map_or(0, |message| message.total);
        Ok(Some(status_of(envelope, bytes.saturating_sub(self.label_bytes()))))
    }

    /// Looks for a message, and takes it out of the matching (MPI-5.0 §3.8.2). Returns its handle, `None` for
    /// the message of `MPI_PROC_NULL`.
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

    /// The extracted message with this handle.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when `message` is no message handle.
    pub fn extracted(&self, message: usize) -> Result<Extracted> {
        self.objects.extracted.get(message).copied().ok_or_else(|| {
            let what =
                if message == MPI_MESSAGE_NULL { "MPI_MESSAGE_NULL".to_owned() } else { format!("{message:#x}") };
            Error::new(MPI_ERR_REQUEST, format!("{what} is no message, or one that has been received already"))
        })
    }

    /// Starts the receive of an extracted message, and returns the request.
    ///
    /// # Errors
    /// `MPI_ERR_REQUEST` when `message` is no message handle.
    pub fn receive_extracted(&mut self, message: usize, data: UserData) -> Result<usize> {
        let extracted = self.extracted(message)?;
        self.objects.extracted.remove(message);
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

impl Process {
    /// The buffer of `holder`.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`, `MPI_ERR_SESSION`.
    pub fn buffer_of(&mut self, holder: Holder) -> Result<&mut Buffer> {
        Ok(match holder {
            Holder::Process => &mut self.buffer,
            Holder::Communicator(handle) => &mut self.objects.communicator_mut(handle)?.buffer,
            Holder::Session(handle) => &mut self.objects.session_mut(handle)?.buffer,
        })
    }

    /// The holder of the buffer for buffered sends on `communicator` (MPI-5.0 §3.6): the communicator if it
    /// has a buffer, else its session if that has one, else the process (docs/design/boundary.md).
    ///
    /// # Errors
    /// `MPI_ERR_COMM`.
    pub(crate) fn buffer_for(&self, communicator: usize) -> Result<Holder> {
        let object = self.objects.communicator(communicator)?;
        let has_buffer = |session: &usize| self.objects.sessions.get(*session).is_some_and(|s| s.buffer.is_attached());
        let session = object.group.session.filter(has_buffer);
        Ok(match session {
            _ if object.buffer.is_attached() => Holder::Communicator(communicator),
            Some(session) => Holder::Session(session),
            None => Holder::Process,
        })
    }
}

fn status_of(envelope: Envelope, bytes: u64) -> Status {
    Status { source: envelope.source as i32, tag: envelope.tag, error: 0, bytes, cancelled: false }
}
