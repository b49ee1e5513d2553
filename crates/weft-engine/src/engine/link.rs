//! The interface between a part of the engine and the rest: requests and their messages, the state of a peer,
//! and the remote memory access of its carrier.
//!
//! A part sees nothing else of point-to-point communication, and nothing of the other parts.

use std::io;
use std::ops::Range;

use weft_core::matching::Envelope;
use weft_core::time::Instant;
use weft_core::wire::Secret;

use super::network::{self, Network};
use super::{PointToPoint, Taken};
use crate::carriers::{Attendance, CarrierPath, Carriers, Registered, Remote};
use crate::error::{Error, Result};
use crate::group::PeerId;
use crate::memory::UserData;
use crate::messages::{self, CREDIT_PER_MESSAGE, PeerAccess, Stream};
use crate::peers::Route;
use crate::protocols::UNASKED_BYTES_MAX;
use crate::regions::REGIONS_MAX;
use crate::request::{Hold, Request, Send, State};
use crate::transport::{Address, Frames, Node, Placement, Platform, RemoteMemory, RemoteMemoryAccess, Sleeping};

/// The way of a part to the rest of the engine, for one call.
pub(super) struct Link<'a, P: Platform>(&'a mut PointToPoint<P>);

impl<'a, P: Platform> Link<'a, P> {
    #[inline(always)]
    pub(super) fn new(point_to_point: &'a mut PointToPoint<P>) -> Self {
        Self(point_to_point)
    }
}

/// Requests, and their completion.
impl<P: Platform> Link<'_, P> {
    /// Adds a request in `state` on `communicator`.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn add(&mut self, state: State, communicator: usize) -> Result<usize> {
        self.0.messages.add(state, communicator)
    }

    /// Adds a request of an operation that can be neither cancelled nor freed while it is active.
    ///
    /// # Errors
    /// As for [`Self::add`].
    pub(super) fn add_lasting(&mut self, state: State, communicator: usize) -> Result<usize> {
        self.0.messages.add_lasting(state, communicator)
    }

    /// The request of every operation that is complete as it starts.
    #[inline(always)]
    pub(super) fn complete_request(&self) -> usize {
        self.0.messages.sent
    }

    /// The request `handle`, unless it is gone.
    pub(super) fn request(&self, handle: usize) -> Option<&Request> {
        self.0.messages.requests.get(handle)
    }

    /// Returns whether a request belongs to an operation that is under way.
    pub(super) fn is_under_way(&self, handle: usize) -> bool {
        self.0.messages.is_under_way(handle)
    }

    /// Frees a request that nobody asks for any more: it goes when it is complete.
    pub(super) fn free(&mut self, handle: usize) {
        if let Some(request) = self.0.messages.requests.get_mut(handle) {
            request.hold = Hold::Freed;
        }
    }

    /// Notes an error of an operation that `handle` waits for; the first error is the request's.
    pub(super) fn note_error(&mut self, handle: usize, error: Error) {
        if let Some(request) = self.0.messages.requests.get_mut(handle) {
            request.error.get_or_insert(error);
        }
    }

    /// Completes an operation.
    pub(super) fn complete(&mut self, handle: usize) {
        self.0.messages.complete(handle);
    }

    /// Completes an operation with an error.
    pub(super) fn fail(&mut self, handle: usize, error: Error) {
        self.0.messages.fail(handle, error);
    }

    /// Removes a request that is complete, and returns its error.
    pub(super) fn take_error(&mut self, handle: usize) -> Option<Error> {
        self.0.messages.take_error(handle)
    }

    /// Abandons a message that is not wanted any more: its memory is about to go.
    pub(super) fn abandon(&mut self, handle: usize) {
        self.0.abandon(handle);
    }

    /// Notes that something has happened for which a caller may be waiting.
    pub(super) fn notify(&mut self) {
        self.0.messages.notify();
    }

    /// The count of events for which a caller may be waiting.
    #[inline(always)]
    pub(super) fn completions(&self) -> u64 {
        self.0.messages.completions()
    }
}

/// Messages.
impl<P: Platform> Link<'_, P> {
    /// Sends a small message at once, without a request; returns false if the message needs a request.
    pub(super) fn send_now(&mut self, peer: PeerId, envelope: Envelope, data: &UserData) -> bool {
        self.0.send_now(peer, envelope, data)
    }

    /// Says whether the caller will start another send to the same process behind the messages that it sends
    /// now: they leave with that, in the same packets.
    pub(super) fn precede(&mut self, precedes: bool) {
        self.0.network.precedes = precedes;
    }

    /// Starts a send that has been added.
    pub(super) fn start_send(&mut self, handle: usize) {
        self.0.start_send(handle);
    }

    /// Starts a receive that has been added.
    pub(super) fn start_receive(&mut self, handle: usize) {
        self.0.start_receive(handle);
    }

    /// Takes an unexpected message of this context and tag, from any source.
    pub(super) fn take_unexpected(&mut self, context: u32, tag: i32) -> Option<Taken> {
        self.0.take_message(context, Some(tag))
    }

    /// Receives an unexpected message by the request `handle`, which has been added.
    pub(super) fn claim(&mut self, handle: usize, envelope: Envelope, unexpected: usize) {
        self.0.claim(handle, envelope, unexpected);
    }

    /// Drops an unexpected message that is not wanted.
    pub(super) fn drop_unexpected(&mut self, unexpected: usize) {
        self.0.messages.unexpected.remove(unexpected);
    }

    /// Gives back the memory of a whole message, for another one.
    pub(super) fn put_aside(&mut self, bytes: Vec<u8>) {
        self.0.messages.put_aside(bytes);
    }

    /// Returns whether one more large message can be received.
    pub(super) fn has_room_for_large(&self) -> bool {
        self.0.messages.regions.len() < REGIONS_MAX
    }

    /// Sends all that has become due.
    pub(super) fn flush(&mut self) {
        self.0.flush();
    }

    /// The largest message that leaves for `peer` without an announcement; and, for a peer on this node, the
    /// largest that leaves in one piece.
    pub(super) fn eager_max(&self, peer: PeerId) -> (u64, Option<u64>) {
        let is_shared = matches!(self.0.peers[peer].route, Route::Shared(_));
        // A carrier that writes to the receiver's memory takes longer messages, which are announced for that.
        let placed_above = self.0.network.remotes.get(peer).map_or(u64::MAX, Remote::placed_above);
        let most = self.0.eager_limit.min(placed_above.max(UNASKED_BYTES_MAX));
        (most, is_shared.then_some(self.0.immediate_max))
    }
}

/// Peers.
impl<P: Platform> Link<'_, P> {
    /// Returns whether `peer` is gone, so that nothing comes of waiting for it.
    pub(super) fn has_failed(&self, peer: PeerId) -> bool {
        self.0.peers.has_failed(peer)
    }

    /// The error of an operation with a peer that is gone.
    pub(super) fn failure(&self, peer: PeerId) -> Error {
        messages::failure(peer, &self.0.peers)
    }

    /// Checks that a peer is there.
    ///
    /// # Errors
    /// The peer is gone.
    pub(super) fn check_peer(&self, peer: PeerId) -> Result<()> {
        self.0.check_peer(peer)
    }

    /// The number of `peer` in its job; `None`: it has been removed.
    pub(super) fn number(&self, peer: PeerId) -> Option<u32> {
        self.0.peers.get(peer).map(|peer| peer.number())
    }

    /// The process id of `peer`, if it is on this node and its memory can be copied.
    pub(super) fn neighbour(&self, peer: PeerId) -> Option<i32> {
        let peer = self.0.peers.get(peer)?;
        (peer.process != 0 && matches!(peer.route, Route::Shared(_))).then_some(peer.process)
    }

    /// Copies from the memory of a process of this node.
    ///
    /// # Errors
    /// The system does not allow it, or the process is gone.
    pub(super) fn fetch(&mut self, process: i32, address: u64, to: &UserData, range: Range<u64>) -> io::Result<()> {
        self.0.peers.near.copier.fetch(process, address, to, range)
    }

    /// Copies to the memory of a process of this node.
    ///
    /// # Errors
    /// As for [`Self::fetch`].
    pub(super) fn deliver(&mut self, process: i32, address: u64, data: &UserData, range: Range<u64>) -> io::Result<()> {
        self.0.peers.near.copier.deliver(process, address, data, range)
    }
}

/// Remote memory access by carriers.
impl<P: Platform> Link<'_, P> {
    /// The remote memory access of the carrier to `peer`, if that writes and reads.
    pub(super) fn placement(&self, peer: PeerId) -> Option<Placement> {
        self.0.network.remotes.get(peer).and_then(Remote::accessing).map(|access| access.placement)
    }

    /// The interface of that carrier, and the peer's address.
    pub(super) fn remote_memory(&mut self, peer: PeerId) -> Option<(&mut dyn RemoteMemoryAccess, Address)> {
        let network = &mut self.0.network;
        let carrier_path = network.remotes.get(peer)?.accessing()?.carrier_path;
        Some((network.carriers.rma(carrier_path.carrier)?, carrier_path.to))
    }

    /// Counts writes or reads that the carrier has been given.
    pub(super) fn count_remote(&mut self, writes: bool, count: u64) {
        let messages = &mut self.0.messages;
        *(if writes { &mut messages.remote_writes } else { &mut messages.remote_reads }) += count;
    }

    /// Keeps looking at the carrier to `peer` until it has done its work.
    pub(super) fn look_after(&mut self, peer: PeerId) {
        self.0.submission(peer);
    }

    /// Registers memory so that peers reach it through the carrier with remote memory access, if there is
    /// one.
    pub(super) fn register(&mut self, data: &UserData, bytes: u64) -> Option<(Registered, RemoteMemory)> {
        let carriers = &mut self.0.network.carriers;
        let carrier = carriers.for_one_sided()?;
        carriers.register(carrier, data, bytes)
    }

    /// Deregisters memory: peers reach it no more.
    pub(super) fn deregister(&mut self, registered: Registered) {
        self.0.network.carriers.deregister(registered);
    }
}

/// Carriers, for packets beside the flows.
impl<P: Platform> Link<'_, P> {
    /// The time.
    pub(super) fn now(&self) -> Instant {
        self.0.platform.now()
    }

    /// The secret of this process's own job.
    pub(super) fn own_secret(&self) -> &Secret {
        self.0.network.jobs.own_secret()
    }

    /// Returns whether `peer` was started together with this process.
    pub(super) fn is_of_own_job(&self, peer: PeerId) -> bool {
        self.0.peers.get(peer).is_some_and(|peer| peer.is_of_own_job())
    }

    /// All carriers.
    pub(super) fn carriers(&mut self) -> &mut Carriers {
        &mut self.0.network.carriers
    }

    /// All carriers, and their state for `peer`; `None`: it is reached otherwise.
    pub(super) fn remote_and_carriers(&mut self, peer: PeerId) -> Option<(&Remote, &mut Carriers)> {
        let Network { carriers, remotes, .. } = &mut self.0.network;
        Some((remotes.get(peer)?, carriers))
    }

    /// Returns whether no train waits for room in a carrier.
    pub(super) fn has_room(&self) -> bool {
        self.0.network.stalled.is_empty()
    }

    /// Sends packets; the part for which the carrier has no room waits.
    pub(super) fn send_train(&mut self, carrier_path: CarrierPath, bytes: &[u8], segment: usize) {
        let Network { carriers, stalled, .. } = &mut self.0.network;
        network::send_or_stall(carriers, stalled, carrier_path, bytes, segment);
    }

    /// Sends the trains that wait for room, as far as there is some.
    pub(super) fn send_stalled(&mut self) {
        let Network { carriers, stalled, .. } = &mut self.0.network;
        network::send_stalled(carriers, stalled);
    }

    /// The care for messages that wait for others while no call of MPI comes.
    pub(super) fn attendance(&self) -> Attendance {
        self.0.network.attendance
    }

    /// Notes that a message waits for others to share its packet.
    pub(super) fn note_coalescing(&mut self) {
        self.0.network.coalescing = true;
    }

    /// Marks `peer` as failed, for this reason: nothing leads to it any more.
    pub(super) fn peer_failed(&mut self, peer: PeerId, reason: &str) {
        self.0.peer_failed(peer, reason);
    }
}

/// Messages that are multicast.
impl<P: Platform> Link<'_, P> {
    /// The message of a request, if it is to be multicast.
    pub(super) fn multicasting(&self, handle: usize) -> Option<&Send> {
        match &self.request(handle)?.state {
            State::Multicasting(send) => Some(send),
            _ => None,
        }
    }

    /// Returns whether `peer` has room for a message of this many bytes; a peer that is gone counts as having
    /// it.
    pub(super) fn has_credit(&self, peer: PeerId, bytes: u64) -> bool {
        self.0.peers.get(peer).is_none_or(|peer| peer.matching.credit >= bytes + CREDIT_PER_MESSAGE)
    }

    /// Takes the price of a message from the credit of `peer`.
    pub(super) fn take_credit(&mut self, peer: PeerId, bytes: u64) {
        if let Some(peer) = self.0.peers.get_mut(peer) {
            peer.matching.credit -= bytes + CREDIT_PER_MESSAGE;
            peer.put(bytes);
        }
    }

    /// Gives the price of a message back: it does not leave yet.
    pub(super) fn give_credit_back(&mut self, peer: PeerId, bytes: u64) {
        if let Some(peer) = self.0.peers.get_mut(peer) {
            peer.matching.credit += bytes + CREDIT_PER_MESSAGE;
        }
    }

    /// Gives the message of a request up: nothing touches its memory afterwards.
    pub(super) fn give_up(&mut self, handle: usize) {
        self.0.abandon_receive(handle);
    }

    /// Ends a stream of `peer`: nothing more comes on it.
    pub(super) fn end_stream(&mut self, peer: PeerId, stream: Stream) {
        if let Some(peer) = self.0.peers.get_mut(peer) {
            peer.matching.end_stream(stream);
        }
    }
}

/// The node, for collectives through its memory.
impl<P: Platform> Link<'_, P> {
    /// The memory in which processes of the node publish.
    #[inline]
    pub(super) fn published(&self) -> Option<&<P::Node as Node>::Slots> {
        self.0.published()
    }

    /// The memory in which processes of the node publish, to publish there.
    #[inline]
    pub(super) fn published_mut(&mut self) -> Option<&mut <P::Node as Node>::Slots> {
        self.0.node.as_mut()?.slots_mut()
    }

    /// Wakes the processes of the node with these local ranks if they sleep.
    #[inline]
    pub(super) fn wake_if_asleep(&mut self, local_ranks: impl Iterator<Item = usize>) {
        if let Some(node) = &mut self.0.node {
            local_ranks.for_each(|local_rank| node.wake_if_asleep(local_rank));
        }
    }

    /// The local rank of this process.
    pub(super) fn own_local_rank(&self) -> Option<usize> {
        self.0.node.as_ref().map(Frames::own_local_rank)
    }

    /// The local rank of `peer`, if it is reached through the node.
    pub(super) fn local_rank(&self, peer: PeerId) -> Option<usize> {
        match &self.0.peers.get(peer)?.route {
            Route::Myself => self.own_local_rank(),
            Route::Shared(local_rank) => Some(*local_rank),
            Route::Remote(()) | Route::None(_) => None,
        }
    }

    /// The local rank of `peer`, even if it cannot be reached any more.
    pub(super) fn known_local_rank(&self, peer: PeerId) -> Option<usize> {
        self.0.peers.near.by_local_rank.iter().position(|near| *near == peer)
    }

    /// Notes that this process has copied something large.
    pub(super) fn note_copied(&mut self) {
        self.0.peers.near.copied = true;
    }
}
