//! The message layer: from frames to requests and back.
//!
//! It knows nothing of links: frames come in through [`Messages::handle_frame`] and [`Messages::handle_data`], and
//! what must leave is left in the outbox for the engine. The protocol is described in `weft_core::message`.

mod awaited;
mod completions;
mod contexts;
mod eager;
mod given_up;
mod rendezvous;

pub use awaited::Unfinished;

use weft_core::grants::Grants;
use weft_core::matching::{Envelope, Matcher};
use weft_core::message::{Frame, Head};

use std::sync::Arc;

use crate::error::{Cause, Error, ErrorClass, Result};
use crate::events::{Events, Kind as EventKind};
use crate::group::PeerId;
use crate::handle::{Kind, Slab};
use crate::memory::{SharedBuffer, UserData, Writer};
use crate::regions::{RegionKey, Regions};
use crate::request::{Cancellation, Hold, NO_COMMUNICATOR, Receive, Request, State, Status};
use crate::transport::{Remainder, RemoteMemory, Ticket, number_near};
use completions::Completions;

/// Eager bytes that one process may have under way to, and unconsumed at, another.
pub const CREDIT_BYTES: u64 = 1 << 20;
/// What every eager message costs of that beside its payload, so that empty messages are bounded as well.
pub const CREDIT_PER_MESSAGE: u64 = 64;

/// Messages of so many bytes are small: they travel whole on every carrier, and have room at their receiver beyond their sender's credit as
/// long as there is memory for them.
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

/// What brings the frames of a peer in order: its ring or flow ([`OWN_STREAM`]), or a multicast stream, by the number that the engine gives it.
pub type Stream = u32;

/// What leads to this process alone.
pub const OWN_STREAM: Stream = 0;

/// Where the pieces of the fragmented message that is arriving from a peer go.
#[derive(Clone, Copy)]
enum Target {
    Request(usize),
    Unexpected(usize),
}

#[derive(Clone, Copy)]
struct Arriving {
    target: Target,
    total: u64,
    received: u64,
}

/// What the message layer knows of a peer.
pub struct Peer {
    /// Eager bytes that we may still send.
    pub credit: u64,
    /// Eager bytes consumed here that the peer has not been told of.
    uncredited: u64,
    /// What its messages cost that are here and no receive has asked for: within its credit, or they are not kept.
    kept: u64,
    /// It has been told that there is no room beyond its credit, since it last got some.
    told_full: bool,
    /// It has said so, since it last gave some: small messages that there is no credit for are announced.
    pub is_full: bool,
    arriving: Option<Arriving>,
    /// The same of its multicast streams.
    arriving_on: Vec<(Stream, Arriving)>,
    /// Messages that have arrived from it, also those that nobody has asked for yet.
    handled: u32,
    /// The message with this number has been written to its receive already: its announcement is still to come.
    written: Option<u32>,
    /// Whether its announced data can be read from its memory.
    pub single_copy: bool,
    /// Whether it shares a link with others: what it announces is granted piece by piece.
    pub paced: bool,
    /// From so many bytes on its carrier writes what it announces to our memory by itself.
    pub placed_min: u64,
    /// Set when the peer is known to be gone.
    pub failed: Option<String>,
    /// Name of its host, for messages to people.
    pub host: Option<Arc<str>>,
    /// A probe has looked for a message of it in vain, since somebody asked.
    probed: bool,
    /// How its largest messages are written to the program's memory.
    writer: Writer,
    /// Bytes that it has been asked for, as a neighbour, and has not sent.
    asked: u64,
}

/// Who has a receive that stood on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    /// We: it is on the table no more.
    Ours,
    /// A sender writes to it, or has done so; who, and the low bits of the number of its message, if it has announced that in the ring as well.
    Taken(Option<(PeerId, u32)>),
}

/// What has become of the receive that a message matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Matched {
    /// It is for the message.
    Ours,
    /// Its sender is writing that very message to it.
    Written,
    /// Another message has it.
    Taken,
}

/// A message whose data lies in the memory of a process of this node, and the receive that it goes to.
pub struct Announced {
    /// Who announced it.
    pub peer: PeerId,
    /// The sender's name for it.
    pub request: u32,
    /// Where it lies.
    pub address: u64,
    /// The receive.
    pub handle: usize,
    /// Where it goes.
    pub data: UserData,
    /// Bytes that have room there.
    pub limit: u64,
    /// Whether the program waits for it in the call that has posted it.
    pub blocking: bool,
}

/// What a sender has written to a receive of ours.
pub struct Written {
    /// Its rank in the communicator.
    pub source: u32,
    /// The message's tag.
    pub tag: i32,
    /// The message's length in bytes.
    pub total: u64,
    /// The number of its announcement, if there is one.
    pub number: Option<u32>,
    /// What of it is to be asked for.
    pub rest: Option<Remainder>,
}

/// What has become of such a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It is there.
    Whole,
    /// Its sender is still copying a part of it: [`Messages::conclude_fetch`] is called when that is there.
    Begun,
    /// Its sender waits as well: it shall send so many bytes from the beginning on; what lies behind them is there.
    Asked(u64),
    /// It cannot be copied like this.
    Refused,
}

/// The peers, and what the message layer needs done by their carriers: the engine provides both. As it stands, every peer is on a network: nothing
/// can be fetched from its memory, and there is no table of posted receives.
pub trait PeerAccess {
    /// What the message layer knows of a peer.
    fn peer(&self, peer: PeerId) -> &Peer;

    /// The same, to change it.
    fn peer_mut(&mut self, peer: PeerId) -> &mut Peer;

    /// The number of a peer, for messages to people.
    fn number(&self, peer: PeerId) -> u32;

    /// Whether there is such a peer: one that has been removed is known no more.
    fn is_known(&self, _peer: PeerId) -> bool {
        true
    }

    /// Whether nothing comes of waiting for it.
    #[inline(always)]
    fn has_failed(&self, peer: PeerId) -> bool {
        !self.is_known(peer) || self.peer(peer).failed.is_some()
    }

    /// Whether it is this process.
    fn is_own(&self, _peer: PeerId) -> bool {
        false
    }

    /// Message number `handled` of `peer` is being handled: said before a receive is taken off the table for it.
    fn counted(&mut self, _peer: PeerId, _handled: u32) {}

    /// All messages of `peer` that have been counted have found their receives, or have none yet.
    fn matched(&mut self, _peer: PeerId) {}

    /// Takes a receive off its table for a message of `peer`, unless a sender was quicker.
    fn withdraw(&mut self, _peer: PeerId, _ticket: Ticket) -> Withdrawal {
        Withdrawal::Ours
    }

    /// Copies an announced message into memory of this process.
    fn fetch(&mut self, _announced: Announced) -> Fetched {
        Fetched::Refused
    }
}

/// A peer by itself, for those who have only one.
impl PeerAccess for Peer {
    fn peer(&self, _peer: PeerId) -> &Peer {
        self
    }

    fn peer_mut(&mut self, _peer: PeerId) -> &mut Peer {
        self
    }

    fn number(&self, peer: PeerId) -> u32 {
        peer.index() as u32
    }
}

/// All messages and requests of this process.
pub struct Messages {
    /// Operations of the program.
    pub requests: Slab<Request>,
    /// The request of every send that is complete as it starts: nothing about one of them differs from another.
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
    pub nonsense: u64,
    /// Writes to memory of peers, and reads of it, that carriers have been given.
    pub remote_writes: u64,
    /// See there.
    pub remote_reads: u64,
    /// What happened, while a tool wants to hear of it.
    pub events: Option<Box<Events>>,
}

impl Peer {
    /// Of one that has sent nothing and got nothing. `ticks`: see [`Writer::new`].
    pub fn new(ticks: fn() -> u64) -> Self {
        Self {
            credit: CREDIT_BYTES,
            uncredited: 0,
            kept: 0,
            told_full: false,
            is_full: false,
            arriving: None,
            arriving_on: Vec::new(),
            handled: 0,
            written: None,
            single_copy: false,
            paced: false,
            placed_min: u64::MAX,
            failed: None,
            host: None,
            writer: Writer::beyond_caches(ticks),
            asked: 0,
            probed: false,
        }
    }

    /// The message that arrives in pieces on one of its streams.
    fn arriving(&self, stream: Stream) -> Option<Arriving> {
        if stream == OWN_STREAM {
            return self.arriving;
        }
        self.arriving_on.iter().find(|(on, _)| *on == stream).map(|(_, arriving)| *arriving)
    }

    fn set_arriving(&mut self, stream: Stream, arriving: Option<Arriving>) {
        if stream == OWN_STREAM {
            self.arriving = arriving;
            return;
        }
        self.arriving_on.retain(|(on, _)| *on != stream);
        self.arriving_on.extend(arriving.map(|arriving| (stream, arriving)));
    }

    /// Nothing more comes on a multicast stream.
    pub(crate) fn end_stream(&mut self, stream: Stream) {
        self.set_arriving(stream, None);
    }

    /// Eager bytes of it that have been consumed here, and that it has not been told of.
    pub fn uncredited(&self) -> u64 {
        self.uncredited
    }

    /// Messages of it that have been handled.
    pub fn handled(&self) -> u32 {
        self.handled
    }
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
            nonsense: 0,
            remote_writes: 0,
            remote_reads: 0,
            events: None,
        }
    }

    /// Small messages that nobody has asked for may take so many bytes of memory beyond the credit of their senders, all together.
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

    /// How often something has happened that somebody may wait for: as long as this stays the same, nothing has.
    #[inline(always)]
    pub fn completions(&self) -> u64 {
        self.completions.count()
    }

    /// So often something had happened before this message layer began: nobody who waits takes a number for an old one.
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

    /// Adds the request of an operation on `communicator` that can be neither cancelled nor freed while it is active.
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

    /// Posts the receive of `handle` (state `Posted`), and takes its message when it is here already. Otherwise it waits: how
    /// many bytes have room in it.
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

    /// A frame arrived from `peer` on a multicast stream: a message, or a piece of one.
    pub fn handle_frame_on(&mut self, peer: PeerId, stream: Stream, bytes: &[u8], peers: &mut impl PeerAccess) {
        match Frame::parse(bytes) {
            Ok(Frame::Eager { envelope, acknowledge: None, payload }) => {
                self.handle_eager(peer, envelope, None, payload, peers);
            }
            Ok(Frame::EagerFirst { envelope, acknowledge: None, total, payload }) => {
                self.handle_first(peer, stream, envelope, None, total, payload, peers);
            }
            Ok(Frame::EagerMore { payload }) => self.handle_more(peer, stream, payload, peers),
            _ => self.nonsense += 1,
        }
        peers.matched(peer);
    }

    /// A frame arrived from `peer`.
    #[inline]
    pub fn handle_frame(&mut self, peer: PeerId, bytes: &[u8], peers: &mut impl PeerAccess) {
        match Frame::whole(bytes) {
            Some((envelope, payload)) => self.handle_eager(peer, envelope, None, payload, peers),
            None => self.handle_other_frame(peer, bytes, peers),
        }
        peers.matched(peer);
    }

    #[inline(never)]
    fn handle_other_frame(&mut self, peer: PeerId, bytes: &[u8], peers: &mut impl PeerAccess) {
        let Ok(frame) = Frame::parse(bytes) else {
            self.nonsense += 1;
            return;
        };
        match frame {
            Frame::Eager { envelope, acknowledge, payload } => {
                self.handle_eager(peer, envelope, acknowledge, payload, peers);
            }
            Frame::EagerFirst { envelope, acknowledge, total, payload } => {
                self.handle_first(peer, OWN_STREAM, envelope, acknowledge, total, payload, peers);
            }
            Frame::EagerMore { payload } => self.handle_more(peer, OWN_STREAM, payload, peers),
            Frame::Rendezvous { envelope, request, total, address } => {
                self.handle_rendezvous(peer, envelope, request, total, address, peers);
            }
            Frame::ClearToSend { request, remote_key, limit, total } => {
                self.handle_clear_to_send(peer, request, remote_key, limit, total)
            }
            Frame::ClearToPlace { request, remote_key, total, target } => {
                self.handle_clear_to_place(peer, request, remote_key, total, target, peers)
            }
            Frame::Placed { remote_key, offset, length } => self.handle_placed(peer, remote_key, offset, length, peers),
            Frame::Data { remote_key, offset, payload } => self.handle_data(peer, remote_key, offset, payload, peers),
            Frame::Fin { request } => self.handle_fin(peer, request),
            Frame::Credit { bytes } => {
                let state = peers.peer_mut(peer);
                state.credit = state.credit.saturating_add(bytes).min(CREDIT_BYTES);
                // None is news as well: there is no more room.
                state.is_full = bytes == 0;
                self.completions.notify();
                self.outbox.push((peer, Outgoing::Room));
            }
            Frame::Retract { context, request } => self.handle_retract(peer, context, request, peers),
            Frame::Retracted { request, forgotten } => self.handle_retracted(peer, request, forgotten),
            Frame::GivenUp { context, tag, class, finalized } => {
                self.handle_given_up(
                    peer,
                    context,
                    tag,
                    Cause { class: ErrorClass::from_wire(class).unwrap_or(ErrorClass::Other), finalized },
                );
            }
        }
    }

    /// Counts a message that has arrived; `false` when it is one that its sender has written to its receive meanwhile.
    #[inline]
    fn count(&mut self, peer: PeerId, peers: &mut impl PeerAccess) -> bool {
        let state = peers.peer_mut(peer);
        let handled = state.handled.wrapping_add(1);
        state.handled = handled;
        let was_written = state.written.take_if(|written| *written == handled).is_some();
        peers.counted(peer, handled);
        !was_written
    }

    /// Who has the receive `handle`, which the message that was counted last matches.
    #[inline(never)]
    fn withdraw(&mut self, peer: PeerId, handle: usize, peers: &mut impl PeerAccess) -> Matched {
        let Some(request) = self.requests.get_mut(handle) else { return Matched::Ours };
        let Some(ticket) = request.ticket else { return Matched::Ours };
        match peers.withdraw(peer, ticket) {
            Withdrawal::Ours => {
                request.ticket = None;
                Matched::Ours
            }
            Withdrawal::Taken(None) => Matched::Taken,
            Withdrawal::Taken(Some((writer, low))) => {
                let number = number_near(low, peers.peer(writer).handled);
                if writer == peer && number == peers.peer(peer).handled {
                    return Matched::Written;
                }
                // The receive is in the matcher no more, so the announcement would find another one.
                note_written(writer, number, peers);
                Matched::Taken
            }
        }
    }

    /// `peer` has written a message to the receive `handle`.
    pub fn handle_written(&mut self, peer: PeerId, handle: usize, written: Written, peers: &mut impl PeerAccess) {
        let Written { source: from, tag, total, number, rest } = written;
        if let Some(number) = number {
            note_written(peer, number, peers);
        }
        let Some(request) = self.requests.get_mut(handle) else { return };
        request.ticket = None;
        let State::Posted(Receive { context: Some(context), source, .. }) = request.state else { return };
        self.matcher.cancel(context, |posted| *posted == handle);
        let begun = self.begin_receive(handle, Envelope { context, source: source.unwrap_or(from), tag }, total);
        match (begun, rest) {
            (Some((data, fits)), Some(Remainder { bytes, request })) if bytes <= fits => {
                if let Some(entry) = self.requests.get_mut(handle) {
                    entry.state =
                        State::Receiving { peer, data, total: bytes, received: 0, region: None, pulled: None };
                }
                self.ask(handle, peer, request, bytes, peers);
            }
            _ => self.complete(handle),
        }
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

/// `peer` has written its message `number` to a receive; its announcement may be still to come.
fn note_written(peer: PeerId, number: u32, peers: &mut impl PeerAccess) {
    let state = peers.peer_mut(peer);
    if number.wrapping_sub(state.handled) as i32 > 0 {
        state.written = Some(number);
    }
}

/// The error of an operation with a peer that is gone.
#[cold]
pub fn failure(peer: PeerId, peers: &impl PeerAccess) -> Error {
    if !peers.is_known(peer) {
        return Error::new(
            ErrorClass::ProcAborted,
            "a process that has left the job cannot be reached: stop talking to it",
        );
    }
    let state = peers.peer(peer);
    let reason = state.failed.as_deref().unwrap_or("it is gone");
    let host = state.host.as_ref().map_or_else(String::new, |host| format!(", on host {host},"));
    let number = peers.number(peer);
    Error::new(ErrorClass::ProcAborted, format!("process {number} of the job{host} cannot be reached: {reason}"))
}

#[cold]
fn too_many() -> Error {
    Error::new(ErrorClass::NoMem, "too many requests are active (limit 16777216): complete some with MPI_Wait first")
}

#[cold]
fn too_many_regions() -> Error {
    Error::new(
        ErrorClass::NoMem,
        "too many large messages are under way (limit 1048576): complete some with MPI_Wait first",
    )
}

fn status_of(envelope: Envelope, bytes: u64) -> Status {
    Status { source: envelope.source as i32, tag: envelope.tag, error: 0, bytes, cancelled: false }
}

#[cold]
fn truncated(envelope: Envelope, total: u64, capacity: u64) -> Error {
    let Envelope { source, tag, .. } = envelope;
    Error::new(
        ErrorClass::Truncate,
        format!(
            "message truncated: {total} bytes from rank {source} with tag {tag} do not fit the {capacity} bytes of the \
             receive buffer"
        ),
    )
}
