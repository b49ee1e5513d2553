//! The message layer: from frames to requests and back.
//!
//! It knows nothing of links: frames come in through [`Messages::handle_frame`] and
//! [`Messages::handle_data`], and what must leave is left in the outbox for the engine. The protocol is
//! described in `weft_core::message`.

mod access;
mod awaited;
mod completions;
mod contexts;
mod eager;
mod errors;
mod frames;
mod given_up;
mod peer;
mod rendezvous;

pub use access::{Announced, Fetched, PeerAccess, Withdrawal, Written};
pub use awaited::Unfinished;
pub use errors::failure;
pub use peer::Peer;

use weft_core::grants::Grants;
use weft_core::matching::{Envelope, Matcher};
use weft_core::message::Head;

use crate::error::{Error, Result};
use crate::events::{Events, Kind as EventKind};
use crate::group::PeerId;
use crate::handle::{Kind, Slab};
use crate::memory::{SharedBuffer, UserData};
use crate::regions::{RegionKey, Regions};
use crate::request::{Cancellation, Hold, NO_COMMUNICATOR, Request, State, Status};
use crate::transport::RemoteMemory;
use completions::Completions;
use errors::{status_of, too_many, too_many_regions, truncated};
use frames::Matched;
use peer::{Arriving, Target};

/// Eager bytes that one process may have under way to, and unconsumed at, another.
pub const CREDIT_BYTES: u64 = 1 << 20;
/// What every eager message costs of that beside its payload, so that empty messages are bounded as well.
pub const CREDIT_PER_MESSAGE: u64 = 64;

/// Messages of so many bytes are small: they travel whole on every carrier, and have room at their receiver
/// beyond their sender's credit as long as there is memory for them.
pub const SMALL_BYTES_MAX: u64 = 1 << 10;
/// Who keeps more than this of a peer's messages within its credit tells it that there is no more room.
const KEPT_BYTES_TOLD: u64 = CREDIT_BYTES / 4;

/// What must leave for a peer, in order.
pub enum Outgoing {
    /// A frame without payload.
    Control(Head),
    /// Nothing leaves: there is news of the peer's room, and what waits for it goes on.
    Room,
    /// A queued eager or rendezvous send: the request says what.
    Send {
        /// Its handle.
        request: usize,
    },
    /// What is left of an eager message from `offset` on, the first pieces of which have left.
    Remainder {
        /// Its handle.
        request: usize,
        /// First byte that has not left.
        offset: u64,
    },
    /// The sender's `asked` is to be written to the memory of the receive `request` by its carrier.
    Invite {
        /// The receive's handle.
        request: usize,
        /// The sender's name for the message.
        asked: u32,
    },
    /// The first `total` bytes of `request` are to be written to `target` by our carrier.
    Place {
        /// Its handle.
        request: usize,
        /// The receiver's name for where they go.
        remote_key: u32,
        /// How many.
        total: u64,
        /// Where to.
        target: RemoteMemory,
    },
    /// Granted data of `request` from `offset` to `limit`, to the receiver's `remote_key`.
    Stream {
        /// Its handle.
        request: usize,
        /// The receiver's name for where it goes.
        remote_key: u32,
        /// First byte that has not left.
        offset: u64,
        /// One past the last byte.
        limit: u64,
    },
}

/// A message that nobody has asked for yet.
pub struct Unexpected {
    /// Who sent it.
    pub peer: PeerId,
    /// Its length in bytes.
    pub total: u64,
    /// Whether its sender has got its credit back already.
    is_lent: bool,
    body: Body,
}

impl Unexpected {
    /// The bytes of it that have arrived, from the first on; none of a message that its sender keeps.
    pub fn front(&self) -> &[u8] {
        match &self.body {
            Body::Whole { bytes, .. } | Body::Arriving { bytes, .. } => bytes,
            Body::Announced { .. } => &[],
        }
    }

    /// Bytes of it that are kept here; none of a message that its sender keeps.
    pub fn held_bytes(&self) -> u64 {
        match &self.body {
            Body::Whole { bytes, .. } | Body::Arriving { bytes, .. } => bytes.len() as u64,
            Body::Announced { .. } => 0,
        }
    }
}

enum Body {
    /// All of it, and the sender's request that waits for the match.
    Whole { bytes: Vec<u8>, acknowledge: Option<u32> },
    /// The front part; the rest comes on this stream.
    Arriving { bytes: Vec<u8>, acknowledge: Option<u32>, stream: Stream },
    /// The sender keeps it in `request`.
    Announced { request: u32, address: Option<u64> },
}

/// What brings the frames of a peer in order: its ring or flow ([`OWN_STREAM`]), or a multicast stream, by
/// the number that the engine gives it.
pub type Stream = u32;

/// What leads to this process alone.
pub const OWN_STREAM: Stream = 0;

/// All messages and requests of this process.
pub struct Messages {
    /// Operations of the program.
    pub requests: Slab<Request>,
    /// The request of every send that is complete as it starts: nothing about one of them differs from
    /// another.
    pub sent: usize,
    /// How many of them are under way.
    incomplete: usize,
    /// Posted receives and unexpected messages.
    pub matcher: Matcher<usize, usize>,
    /// Messages without a receive, named by the matcher.
    pub unexpected: Slab<Unexpected>,
    /// Memory for the next ones.
    spare: Vec<Vec<u8>>,
    /// Bytes of memory of those that are kept beyond the credit of their senders, and how many they may be.
    lent: u64,
    lent_max: u64,
    /// Memory that peers may read or write.
    pub regions: Regions,
    /// Which announced messages may send how much.
    pub grants: Grants,
    /// Regions of which bytes have arrived that the grants do not know of.
    arrived: Vec<RegionKey>,
    /// Something has happened after which there may be something to grant.
    regrant: bool,
    /// A probe has found nothing, since somebody asked …
    probed: bool,
    /// … and it would have taken a message of anybody.
    probed_anybody: bool,
    /// A peer that failed while nobody who waits for anybody heard of it.
    unheard: Option<PeerId>,
    /// What the last calls want sent.
    pub outbox: Vec<(PeerId, Outgoing)>,
    /// A waiter sees by it cheaply whether anything happened.
    completions: Completions,
    /// Collective operations that others have given up.
    given_up: Vec<given_up::GivenUp>,
    /// What is still to leave of abandoned messages, by their requests.
    remnants: Vec<(usize, SharedBuffer)>,
    /// Frames and data that made no sense and were dropped.
    pub malformed_frames: u64,
    /// Writes to memory of peers, and reads of it, that carriers have been given.
    pub remote_writes: u64,
    /// See there.
    pub remote_reads: u64,
    /// What happened, while a tool wants to hear of it.
    pub events: Option<Box<Events>>,
}

impl Default for Messages {
    fn default() -> Self {
        Self::new()
    }
}

impl Messages {
    /// No messages yet.
    pub fn new() -> Self {
        let mut requests = Slab::new(Kind::Request);
        let sent = requests.insert(Request::new(State::Complete, NO_COMMUNICATOR)).unwrap_or(0);
        Self {
            requests,
            sent,
            incomplete: 0,
            matcher: Matcher::new(),
            unexpected: Slab::new(Kind::Unexpected),
            spare: Vec::new(),
            lent: 0,
            lent_max: 0,
            regions: Regions::default(),
            grants: Grants::new(),
            arrived: Vec::new(),
            regrant: false,
            probed: false,
            probed_anybody: false,
            unheard: None,
            outbox: Vec::new(),
            completions: Completions::default(),
            given_up: Vec::new(),
            remnants: Vec::new(),
            malformed_frames: 0,
            remote_writes: 0,
            remote_reads: 0,
            events: None,
        }
    }

    /// Small messages that nobody has asked for may take so many bytes of memory beyond the credit of their
    /// senders, all together.
    pub fn set_unexpected_max(&mut self, bytes: u64) {
        self.lent_max = bytes;
    }

    /// How many bytes they take.
    pub fn unexpected_bytes(&self) -> u64 {
        self.lent
    }

    /// Something has happened that somebody may wait for.
    #[inline(always)]
    pub fn notify(&mut self) {
        self.completions.notify();
    }

    /// How often something has happened that somebody may wait for: as long as this stays the same, nothing
    /// has.
    #[inline(always)]
    pub fn completions(&self) -> u64 {
        self.completions.count()
    }

    /// So often something had happened before this message layer began: nobody who waits takes a number for
    /// an old one.
    pub fn resume_completions(&mut self, before: u64) {
        self.completions.resume(before);
    }

    /// Adds a request in `state` on `communicator`.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when too many exist.
    #[inline]
    pub fn add(&mut self, state: State, communicator: usize) -> Result<usize> {
        self.add_with(communicator, || state)
    }

    /// The same; the state is made where it will be.
    ///
    /// # Errors
    /// As for [`Self::add`].
    #[inline(always)]
    pub fn add_with(&mut self, communicator: usize, state: impl FnOnce() -> State) -> Result<usize> {
        if let Some((handle, request)) = self.requests.take_up() {
            request.begin(state(), communicator);
            self.incomplete += usize::from(!request.is_complete());
            return Ok(handle);
        }
        self.add_to_table(Request::new(state(), communicator))
    }

    /// Adds the request of a collective operation on `communicator`.
    ///
    /// # Errors
    /// As for [`Self::add`].
    pub fn add_collective(&mut self, communicator: usize) -> Result<usize> {
        self.add_lasting(State::Collective, communicator)
    }

    /// Adds the request of an operation on `communicator` that can be neither cancelled nor freed while it is
    /// active.
    ///
    /// # Errors
    /// As for [`Self::add`].
    pub fn add_lasting(&mut self, state: State, communicator: usize) -> Result<usize> {
        let handle = self.add(state, communicator)?;
        if let Some(request) = self.requests.get_mut(handle) {
            request.cancellation = Cancellation::Excluded;
        }
        Ok(handle)
    }

    #[cold]
    fn add_to_table(&mut self, request: Request) -> Result<usize> {
        let incomplete = !request.is_complete();
        let handle = self.requests.insert(request).ok_or_else(too_many)?;
        self.incomplete += usize::from(incomplete);
        Ok(handle)
    }

    /// Whether an operation is under way: complete ones that the program has not asked for do not count.
    #[inline]
    pub fn are_under_way(&self) -> bool {
        self.incomplete > 0
    }

    /// Whether this request is of an operation that is under way.
    #[inline]
    pub fn is_under_way(&self, handle: usize) -> bool {
        self.requests.get(handle).is_some_and(|request| !request.is_complete())
    }

    /// Whether several are.
    #[inline]
    pub fn are_several_under_way(&self) -> bool {
        self.incomplete > 1
    }

    /// Whether messages of `peer` have arrived that nobody has received.
    pub fn keeps_messages_of(&self, peer: PeerId) -> bool {
        self.unexpected.iter().any(|(_, message)| message.peer == peer)
    }

    /// Starts a persistent request again, which is inactive.
    pub fn restart(&mut self, handle: usize, state: State) {
        if let Some(request) = self.requests.get_mut(handle) {
            request.state = state;
            self.incomplete += usize::from(!request.is_complete());
        }
    }

    /// Forgets a request that is complete.
    #[inline]
    pub fn forget(&mut self, handle: usize) {
        if handle == self.sent {
            return;
        }
        let Some(request) = self.requests.get_mut(handle) else { return };
        if !request.is_over() {
            *request = Request::new(State::Complete, NO_COMMUNICATOR);
        }
        self.requests.put_back(handle);
    }

    /// The same; what went wrong with it.
    pub fn take_error(&mut self, handle: usize) -> Option<Error> {
        let error = self.requests.get_mut(handle)?.error.take();
        self.forget(handle);
        error
    }

    /// Marks `handle` complete; a request that the program has freed disappears.
    #[inline]
    pub fn complete(&mut self, handle: usize) {
        self.completions.notify();
        let Some(request) = self.requests.get_mut(handle) else { return };
        self.incomplete -= usize::from(!request.is_complete());
        request.ticket = None;
        let before = std::mem::replace(&mut request.state, State::Complete);
        let freed = request.hold == Hold::Freed;
        if let State::Receiving { region: Some(key), .. } | State::Sending { region: Some(key), .. } = &before {
            self.end_access(*key, matches!(before, State::Receiving { pulled: Some(_), .. }));
        }
        if freed {
            self.forget(handle);
        }
    }

    /// The same with an error.
    pub fn fail(&mut self, handle: usize, error: Error) {
        if let Some(request) = self.requests.get_mut(handle) {
            request.error.get_or_insert(error);
        }
        self.complete(handle);
    }

    /// The same, whatever else is wrong with it: what has been cut is not even there.
    pub(crate) fn fail_over(&mut self, handle: usize, error: Error) {
        if let Some(request) = self.requests.get_mut(handle) {
            request.error = Some(error);
        }
        self.complete(handle);
    }

    /// Tells tools of a message that no receive has asked for, or of one of those that has found its receive.
    #[inline]
    fn note_event(&mut self, kind: EventKind, peer: PeerId, envelope: Envelope, bytes: u64) {
        if let Some(events) = &mut self.events {
            events.note(kind, Some(peer), envelope, bytes);
        }
    }

    /// Posts the receive of `handle` (state `Posted`), and takes its message when it is here already.
    /// Otherwise it waits: how many bytes have room in it.
    #[inline(always)]
    pub fn post(&mut self, handle: usize, peers: &mut impl PeerAccess) -> Option<u64> {
        let Some(State::Posted(receive)) = self.requests.get(handle).map(|request| &request.state) else { return None };
        let Some(context) = receive.context else {
            self.complete_with(handle, Status::PROC_NULL);
            return None;
        };
        let (peer, room) = (receive.peer, receive.data.len());
        if let Some((envelope, unexpected)) = self.matcher.post(context, receive.source, receive.tag, handle) {
            self.claim(handle, envelope, unexpected, peers);
            return None;
        }
        if let Some(peer) = peer
            && peers.has_failed(peer)
        {
            self.fail_posted(handle, context, peer, peers);
            return None;
        }
        Some(room)
    }

    #[cold]
    fn fail_posted(&mut self, handle: usize, context: u32, peer: PeerId, peers: &impl PeerAccess) {
        self.matcher.cancel(context, |posted| *posted == handle);
        let error = failure(peer, peers);
        self.fail(handle, error);
    }

    fn complete_with(&mut self, handle: usize, status: Status) {
        if let Some(request) = self.requests.get_mut(handle) {
            request.status = status;
        }
        self.complete(handle);
    }

    /// Fills in the status of a receive and tells how many of `total` bytes fit.
    fn begin_receive(&mut self, handle: usize, envelope: Envelope, total: u64) -> Option<(UserData, u64)> {
        let request = self.requests.get_mut(handle)?;
        let State::Posted(receive) = &request.state else { return None };
        let data = receive.data.clone();
        let fits = total.min(data.len());
        request.status = status_of(envelope, fits);
        if fits < total {
            request.error = Some(truncated(envelope, total, data.len()));
        }
        Some((data, fits))
    }

    /// Cancels a receive that has not matched; `true` when it is cancelled.
    pub fn cancel_receive(&mut self, handle: usize) -> bool {
        let Some(State::Posted(receive)) = self.requests.get(handle).map(|entry| &entry.state) else { return false };
        let Some(context) = receive.context else { return false };
        if self.matcher.cancel(context, |posted| *posted == handle).is_none() {
            return false;
        }
        let status = Status { cancelled: true, ..Status::EMPTY };
        self.complete_with(handle, status);
        true
    }
}
