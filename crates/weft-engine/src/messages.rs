//! The message layer: from frames to requests and back.
//!
//! It knows nothing of links. Frames come in through [`Messages::handle_frame`] and
//! [`Messages::handle_data`]. The frames that must leave wait in the outbox, where the engine fetches them.
//! The protocol is described in `weft_core::message`.
//!
//! The engine calls it for each frame that arrives and each operation that starts.

mod access;
mod awaited;
mod completions;
mod contexts;
mod eager;
mod eager_writes;
mod errors;
mod frames;
mod given_up;
mod peer;
mod recovery;
mod rendezvous;
mod spare_buffers;

pub use access::{Announced, Fetched, PeerAccess, Withdrawal, Written};
pub use awaited::Unfinished;
pub use errors::failure;
pub use peer::Peer;
pub use recovery::{Bar, Recovery};

use weft_core::grants::Grants;
use weft_core::matching::{Envelope, Matcher};
use weft_core::message::Head;

use crate::error::{Error, Result};
use crate::events::{Events, Kind as EventKind};
use crate::group::PeerId;
use crate::handle::{Kind, Slab};
use crate::memory::{SharedBuffer, UserData};
use crate::regions::{RegionKey, Regions};
use crate::request::{Cancellation, FULL_WEIGHT, Hold, NO_COMMUNICATOR, NODE_WEIGHT, Request, State, Status, Weight};
use crate::transport::RemoteMemory;
use completions::Completions;
use errors::{status_of, too_many, too_many_regions, truncated};
use frames::Matched;
use peer::{Arriving, Target};
use spare_buffers::SpareBuffers;

/// Eager bytes that one process may have under way to, and unconsumed at, another.
pub const CREDIT_BYTES: u64 = 1 << 20;
/// The credit that every eager message costs beside its payload, so that empty messages are bounded as well.
pub const CREDIT_PER_MESSAGE: u64 = 64;

/// The size up to which a message counts as small, in bytes. A small message travels whole on every carrier.
/// Its receiver keeps it beyond its sender's credit as long as there is memory for it.
pub const SMALL_BYTES_MAX: u64 = 1 << 10;
/// The bytes of a peer's messages, kept within its credit, beyond which the peer is told that there is no
/// more room.
const KEPT_BYTES_TOLD: u64 = CREDIT_BYTES / 4;

/// An item that must leave for a peer; the outbox keeps them in order.
pub enum Outgoing {
    /// A frame without payload.
    Control(Head),
    /// The word that an eager write of this name has arrived. It may wait for the next message to the peer.
    Fin {
        /// The sender's name for the message.
        request: u32,
    },
    /// News of the peer's room: nothing leaves, but messages that wait for room go on.
    Room,
    /// A queued eager or rendezvous send; its request says which.
    Send {
        /// The handle of the send.
        request: usize,
    },
    /// The rest of an eager message from `offset` on; its first pieces have left.
    Remainder {
        /// The handle of the send.
        request: usize,
        /// The first byte that has not left.
        offset: u64,
    },
    /// Asks the sender's carrier to write its message `asked` to the memory of the receive `request`.
    Invite {
        /// The handle of the receive.
        request: usize,
        /// The sender's name for the message.
        asked: u32,
    },
    /// Tells our carrier where the message `asked` goes, which the sender's carrier writes unasked: to the
    /// memory of the receive `request`.
    Expect {
        /// The handle of the receive.
        request: usize,
        /// The sender's name for the message.
        asked: u32,
    },
    /// The first `total` bytes of `request`, which our carrier is to write to `target`.
    Place {
        /// The handle of the send.
        request: usize,
        /// The receiver's name for the memory.
        remote_key: u32,
        /// The number of bytes.
        total: u64,
        /// The receiver's memory, as the carrier addresses it.
        target: RemoteMemory,
    },
    /// Granted data of `request` from `offset` to `limit`, to the receiver's `remote_key`.
    Stream {
        /// The handle of the send.
        request: usize,
        /// The receiver's name for the memory.
        remote_key: u32,
        /// The first byte that has not left.
        offset: u64,
        /// The byte after the last one.
        limit: u64,
    },
}

/// An unexpected message: no receive has asked for it yet.
pub struct Unexpected {
    /// The sender.
    pub peer: PeerId,
    /// The length of the message in bytes.
    pub total: u64,
    /// Set when the sender has got its credit for the message back already.
    is_lent: bool,
    body: Body,
}

impl Unexpected {
    /// The bytes of the message that have arrived, from the first on; none of a message that its sender
    /// keeps.
    pub fn front(&self) -> &[u8] {
        match &self.body {
            Body::Whole { bytes, .. } | Body::Arriving { bytes, .. } => bytes,
            Body::Announced { .. } | Body::EagerWrite { .. } => &[],
        }
    }

    /// The bytes of the message that are kept here; none of a message that its sender keeps.
    pub fn held_bytes(&self) -> u64 {
        match &self.body {
            Body::Whole { bytes, .. } | Body::Arriving { bytes, .. } => bytes.len() as u64,
            Body::Announced { .. } | Body::EagerWrite { .. } => 0,
        }
    }
}

enum Body {
    /// The whole message, and the sender's request that waits for the match.
    Whole { bytes: Vec<u8>, acknowledge: Option<u32> },
    /// The first part of the message; the rest comes on `stream`.
    Arriving { bytes: Vec<u8>, acknowledge: Option<u32>, stream: Stream },
    /// An announcement: the sender keeps the message in `request`.
    Announced { request: u32, address: Option<u64> },
    /// The sender's carrier writes the message `request`, or has written it: our carrier keeps what arrives.
    EagerWrite { request: u32 },
}

/// The number of the source that brings the frames of a peer in order: its ring or flow ([`OWN_STREAM`]), or
/// a multicast stream, by the number that the engine gives it.
pub type Stream = u32;

/// The ring or flow that leads to this process alone.
pub const OWN_STREAM: Stream = 0;

/// All messages and requests of this process.
pub struct Messages {
    /// Operations of the program.
    pub requests: Slab<Request>,
    /// The request of every send that is complete as it starts: those sends need no request each, since
    /// nothing tells them apart.
    pub sent: usize,
    /// The weight of all operations under way.
    under_way: Weight,
    /// Posted receives and unexpected messages.
    pub matcher: Matcher<usize, usize>,
    /// Messages without a receive; the matcher names them by their place here.
    pub unexpected: Slab<Unexpected>,
    /// Buffers for the next unexpected messages.
    spare: SpareBuffers,
    /// Bytes of memory of the messages that are kept beyond the credit of their senders, and the most that
    /// they may be.
    lent: u64,
    lent_max: u64,
    /// Memory that peers may read or write.
    pub regions: Regions,
    /// The grants: how much of each announced message may be sent.
    pub grants: Grants,
    /// The peers that write to memory of this process, where they could send packets as well.
    writers: Vec<PeerId>,
    /// Peers whose carrier did not write everything that it was to write: they ask for it anew.
    pub broken_writes: Vec<PeerId>,
    /// Set while there are such peers, or messages of which the choices of schemes have not been told.
    pub has_news_of_writes: bool,
    /// Announced messages that have arrived, by peer and bytes, of which the choices of schemes have not
    /// been told.
    arrived_whole: Vec<(PeerId, u64)>,
    /// The sends under way to peers for whose messages this process chooses the scheme.
    under_way_to_peer: Vec<usize>,
    /// The peers of such sends that have begun or ended, of which the choice has not been told yet; with the
    /// bytes of those that have ended.
    begun_to_peer: Vec<PeerId>,
    ended_to_peer: Vec<(PeerId, u64)>,
    /// Regions with arrived bytes that the grants have not been told of.
    arrived: Vec<RegionKey>,
    /// Set when something has happened after which there may be something to grant.
    regrant: bool,
    /// Set when a probe has found nothing since the last time that this was asked.
    probed: bool,
    /// Set when one of these probes would have taken a message of any source.
    probed_anybody: bool,
    /// A peer that failed while no caller that waits for any source heard of it.
    unheard: Option<PeerId>,
    /// Items that the last calls want sent, each with its peer.
    pub outbox: Vec<(PeerId, Outgoing)>,
    /// The counter by which a waiter sees cheaply whether anything happened.
    completions: Completions,
    /// Collective operations that other processes have given up.
    given_up: Vec<given_up::GivenUp>,
    /// The rests of abandoned messages that have still to leave, each with its request.
    remnants: Vec<(usize, SharedBuffer)>,
    /// Frames and data that made no sense and were dropped.
    pub malformed_frames: u64,
    /// The number of writes to peers' memory that carriers have been given.
    pub remote_writes: u64,
    /// The number of messages that carriers have written before their receivers asked for them.
    pub written_eagerly: u64,
    /// The number of announced messages that were relocated, since their receives did not come in time.
    pub relocated: u64,
    /// The number of messages that were asked for anew, as packets, since a carrier did not write them.
    pub asked_anew: u64,
    /// The number of reads of peers' memory that carriers have been given.
    pub remote_reads: u64,
    /// The failures of processes that the program wants to survive.
    pub recovery: Recovery,
    /// A record of events, while a tool wants to hear of them.
    pub events: Option<Box<Events>>,
}

impl Default for Messages {
    fn default() -> Self {
        Self::new()
    }
}

impl Messages {
    /// Makes a message layer without messages.
    pub fn new() -> Self {
        let mut requests = Slab::new(Kind::Request);
        let sent = requests.insert(Request::new(State::Complete, NO_COMMUNICATOR)).unwrap_or(0);
        Self {
            requests,
            sent,
            under_way: 0,
            matcher: Matcher::new(),
            unexpected: Slab::new(Kind::Unexpected),
            spare: SpareBuffers::default(),
            lent: 0,
            lent_max: 0,
            regions: Regions::default(),
            grants: Grants::new(),
            writers: Vec::new(),
            broken_writes: Vec::new(),
            has_news_of_writes: false,
            arrived_whole: Vec::new(),
            under_way_to_peer: Vec::new(),
            begun_to_peer: Vec::new(),
            ended_to_peer: Vec::new(),
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
            written_eagerly: 0,
            relocated: 0,
            asked_anew: 0,
            remote_reads: 0,
            recovery: Recovery::default(),
            events: None,
        }
    }

    /// Sets how many bytes of memory small unexpected messages may take beyond the credit of their senders,
    /// all together.
    pub fn set_unexpected_max(&mut self, bytes: u64) {
        self.lent_max = bytes;
    }

    /// The bytes of memory that small unexpected messages take beyond the credit of their senders.
    pub fn unexpected_bytes(&self) -> u64 {
        self.lent
    }

    /// Notes that something has happened for which a caller may be waiting.
    #[inline(always)]
    pub fn notify(&mut self) {
        self.completions.notify();
    }

    /// The count of events for which a caller may be waiting: while it stays the same, nothing has happened.
    #[inline(always)]
    pub fn completions(&self) -> u64 {
        self.completions.count()
    }

    /// Continues the count of events from `before`, the count of an earlier message layer: no waiter takes a
    /// new number for an old one.
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

    /// Adds a request on `communicator`; its state is made in place.
    ///
    /// # Errors
    /// As for [`Self::add`].
    #[inline(always)]
    pub fn add_with(&mut self, communicator: usize, state: impl FnOnce() -> State) -> Result<usize> {
        if let Some((handle, request)) = self.requests.take_up() {
            request.begin(state(), communicator);
            self.under_way += request.weight;
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
        let weight = request.weight;
        let handle = self.requests.insert(request).ok_or_else(too_many)?;
        self.under_way += weight;
        Ok(handle)
    }

    /// Returns whether an operation is under way. A complete operation does not count, even if the program
    /// has not asked for it.
    #[inline]
    pub fn are_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// Returns whether an operation is under way that the network may have to move on: any but messages from
    /// and to certain processes of the node.
    #[inline]
    pub fn need_network(&self) -> bool {
        self.under_way >= FULL_WEIGHT
    }

    /// Notes that the message of this request comes from a process of this node or goes to one, and not over
    /// the network.
    #[inline(never)]
    pub(crate) fn note_on_node(&mut self, handle: usize) {
        if let Some(request) = self.requests.get_mut(handle).filter(|request| request.weight == FULL_WEIGHT) {
            request.weight = NODE_WEIGHT;
            self.under_way -= FULL_WEIGHT - NODE_WEIGHT;
        }
    }

    /// Notes that the program has not to wait for this request, and that its message needs this process no
    /// more than a packet that is not acknowledged.
    fn note_as_sent(&mut self, handle: usize) {
        if let Some(request) = self.requests.get_mut(handle) {
            self.under_way -= std::mem::take(&mut request.weight);
        }
    }

    /// Returns whether this request belongs to an operation that is under way.
    #[inline]
    pub fn is_under_way(&self, handle: usize) -> bool {
        self.requests.get(handle).is_some_and(|request| !request.is_complete())
    }

    /// Returns whether the program still has to wait for the operation of a request. Another request may have
    /// taken the place of one that is gone.
    pub fn is_outstanding(&self, handle: usize) -> bool {
        self.requests.get(handle).is_some_and(|request| !matches!(request.state, State::Inactive))
    }

    /// Returns whether several operations are under way.
    #[inline]
    pub fn are_several_under_way(&self) -> bool {
        self.under_way as u32 > 1
    }

    /// Returns whether messages of `peer` have arrived that no receive has taken.
    pub fn keeps_messages_of(&self, peer: PeerId) -> bool {
        self.unexpected.iter().any(|(_, message)| message.peer == peer)
    }

    /// Starts an inactive persistent request again.
    pub fn restart(&mut self, handle: usize, state: State) {
        if let Some(request) = self.requests.get_mut(handle) {
            (request.state, request.weight) = (state, FULL_WEIGHT);
            self.under_way += FULL_WEIGHT;
        }
    }

    /// Removes a request that is complete.
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

    /// Removes a request that is complete, and returns its error.
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
        self.under_way -= std::mem::take(&mut request.weight);
        request.ticket = None;
        let before = std::mem::replace(&mut request.state, State::Complete);
        let freed = request.hold == Hold::Freed;
        if let State::Receiving { region: Some(key), .. } | State::Sending { region: Some(key), .. } = &before {
            self.end_access(*key, matches!(before, State::Receiving { pulled: Some(_), .. }));
        }
        if !self.under_way_to_peer.is_empty() {
            self.end_to_peer(handle, &before);
        }
        if freed {
            self.forget(handle);
        }
    }

    /// Marks `handle` complete with an error, unless it has an error already.
    pub fn fail(&mut self, handle: usize, error: Error) {
        if let Some(request) = self.requests.get_mut(handle) {
            request.error.get_or_insert(error);
        }
        self.complete(handle);
    }

    /// Marks `handle` complete with an error that replaces any other: a truncated message is not even there.
    pub(crate) fn fail_over(&mut self, handle: usize, error: Error) {
        if let Some(request) = self.requests.get_mut(handle) {
            request.error = Some(error);
        }
        self.complete(handle);
    }

    /// Tells tools of a message that no receive has asked for, or of an unexpected message that has found its
    /// receive.
    #[inline]
    fn note_event(&mut self, kind: EventKind, peer: PeerId, envelope: Envelope, bytes: u64) {
        if let Some(events) = &mut self.events {
            events.note(kind, Some(peer), envelope, bytes);
        }
    }

    /// Posts the receive of `handle` (state `Posted`), and gives it its message when that is here already.
    ///
    /// Returns the room of the receive in bytes, and its source if that is a certain one, if the receive has
    /// to wait; `None` if it does not.
    #[inline(always)]
    pub fn post(&mut self, handle: usize, peers: &mut impl PeerAccess) -> Option<(u64, Option<PeerId>)> {
        let Some(State::Posted(receive)) = self.requests.get(handle).map(|request| &request.state) else { return None };
        let Some(context) = receive.context else {
            self.complete_with(handle, Status::PROC_NULL);
            return None;
        };
        let (peer, room) = (receive.peer, receive.data.len());
        if peer.is_none() && self.recovery.bars_any() && self.recovery.is_revoked(context) {
            // A message that is here already is for nobody any more.
            self.fail(handle, Error::revoked());
            return None;
        }
        if let Some((envelope, unexpected)) = self.matcher.post(context, receive.source, receive.tag, handle) {
            self.claim(handle, envelope, unexpected, peers);
            return None;
        }
        let gone = match peer {
            Some(peer) => peers.has_failed(peer).then_some(peer),
            None if self.recovery.bars_any() => {
                return self.is_waiting_barred(handle, context, peers).then_some((room, None));
            }
            None => None,
        };
        if let Some(peer) = gone {
            self.fail_posted(handle, context, peer, peers);
            return None;
        }
        Some((room, peer))
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

    /// Fills in the status of a receive, and returns its data and how many of `total` bytes fit.
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

    /// Cancels a receive that has not matched; returns `true` when it is cancelled.
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
