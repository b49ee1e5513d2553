//! Point-to-point communication (MPI-5.0 §3): requests, the peers that they are for, and the carriers that
//! lead there.
//!
//! The parts of the engine stand on this structure and reach it through [`Link`](super::Link) alone. The
//! structure knows nothing of the parts. It notes events that concern them, such as a peer that has failed,
//! and the engine tells them.

use std::collections::VecDeque;
use std::io;
use weft_ordered::Map;

use weft_core::matching::Envelope;
use weft_core::message::{HEAD_MAX, Head};
use weft_core::process::{JobId, ProcessName};
use weft_core::wire::Secret;

use super::network::Network;
use super::placement::ProgressOfWrites;
use super::single_copy::SingleCopies;
use super::{FRAMES_PER_PASS, Parts, PointToPoint};
use crate::arguments::CollectiveScope;
use crate::carriers::{BoxedCarrier, CarrierId, Remote};
use crate::error::{Cause, Error, Result};
use crate::group::PeerId;
use crate::jobs::{JobKey, Jobs};
use crate::messages::{self, Bar, CREDIT_PER_MESSAGE, Messages, Outgoing, PeerAccess};
use crate::peers::{NewPeer, Peers, Route};
use crate::protocols::{self, Choices, CostModel, RING_PIECE_BYTES, Refinement, Streams, UNASKED_BYTES_MAX};
use crate::request::{Cancellation, Send, State};
use crate::transport::{CollectiveSlots, Frames, Node, Platform, Sleeping, SlotCounts};

/// A message that has been taken out of the queue of those without a receive.
pub struct Taken {
    /// The envelope of the message.
    pub envelope: Envelope,
    /// The message's name, by which [`PointToPoint::claim`] receives it if it is not whole.
    pub unexpected: usize,
    /// The sender.
    pub peer: PeerId,
    /// The length in bytes.
    pub bytes: u64,
    /// The bytes, if all of them are here.
    pub whole: Option<Vec<u8>>,
}

impl<P: Platform> PointToPoint<P> {
    /// Makes the structure with nothing under way, and this process as the only peer.
    pub(super) fn new(parts: Parts<P>) -> Self {
        let frame_max = parts.node.as_ref().map_or(0, |node| (node.frame_max() - HEAD_MAX) as u64);
        let streams = Streams::new(frame_max, &parts.costs);
        let peers = Peers::new(parts.name, parts.host, parts.memory, streams, &parts.costs);
        let eager_limit = protocols::eager_limit(parts.eager_limit, &parts.costs, u64::MAX);
        let mut messages = Messages::new();
        messages.set_unexpected_max(parts.unexpected_bytes);
        Self {
            platform: parts.platform,
            messages,
            peers,
            node: parts.node,
            single_copy: SingleCopies::default(),
            eager_writes: Vec::new(),
            network: Network::new(parts.carriers, Jobs::new(parts.name, parts.secret)),
            said_eager_limit: parts.eager_limit,
            eager_limit,
            choices: Choices::new(parts.costs),
            costs_version: 0,
            frame_max,
            immediate_max: eager_limit.min(frame_max).min(RING_PIECE_BYTES),
            myself: VecDeque::new(),
            backlog: Vec::new(),
            is_full_on_node: false,
            synchronous: Vec::new(),
            looks_after_stalls: false,
            scratch: Vec::new(),
            passes: 0,
            progress_of_writes: ProgressOfWrites::default(),
            turn_over: false,
            failed: Vec::new(),
            past_messages: Map::new(),
        }
    }

    /// Adds a peer, with which messages can be exchanged from now on.
    ///
    /// # Panics
    /// Its job has not been met, has no process with its number, or no secret in common with this one.
    pub fn add_peer(&mut self, mut new: NewPeer) -> PeerId {
        let jobs = &self.network.jobs;
        let found = jobs.find(new.name.job).filter(|job| jobs.has_agreed(*job));
        let found = found.and_then(|job| Some((job, jobs.index(job, new.name.number)?)));
        let (job, index) = found.expect("a process of a job that is known");
        if let Route::Remote(remote) = &mut new.route {
            remote.share_settings(self.network.remotes.iter().map(Remote::settings));
        }
        let local_rank = if let Route::Shared(local_rank) = new.route { Some(local_rank) } else { None };
        let (id, remote) = self.peers.add(new, job, index);
        if let Some(remote) = remote {
            self.network.carriers.carry_packets(&remote);
            self.network.remotes.insert(id, remote);
        }
        if let Some(local_rank) = local_rank {
            self.peers.near.note_local_rank(local_rank, id);
        }
        id
    }

    /// Meets another job of `size` processes. They can be added as peers once [`Self::agree_with_job`] has
    /// been called.
    ///
    /// Returns the index by which this process knows the process number 0 of that job; the other numbers
    /// follow. Each process of that job must be told its index, as its [`NewPeer::own_index`]. All processes
    /// of this process's own job are peers already.
    ///
    /// # Errors
    /// The job is known already, has no process, or too many for the packets.
    pub fn meet_job(&mut self, job: JobId, size: u32) -> io::Result<u32> {
        self.network.jobs.meet(job, size, self.peers.own_indices())
    }

    /// Tags packets between this job and one that has been met by `secret`, which no other process knows. A
    /// secret that is agreed already stays.
    pub fn agree_with_job(&mut self, job: JobId, secret: Secret) {
        if let Some(key) = self.network.jobs.find(job) {
            self.network.jobs.agree(key, secret);
        }
    }

    /// The index by which this process knows the process number 0 of a job; `None`: the job is not known.
    pub fn index_of_job(&self, job: JobId) -> Option<u32> {
        self.network.jobs.index(self.network.jobs.find(job)?, 0)
    }

    /// The jobs that have been met.
    pub fn jobs_met(&self) -> Vec<JobId> {
        self.network.jobs.met().collect()
    }

    /// The peer that this process knows by this index.
    pub fn find_index(&self, index: u32) -> Option<PeerId> {
        self.peers.of_index(index)
    }

    /// The index by which a peer that is reached over the network knows this process.
    pub fn own_index(&self, peer: PeerId) -> Option<u32> {
        self.network.remotes.get(peer).map(Remote::own_index)
    }

    /// Returns whether a peer that is reached over the network has acknowledged everything, and this process
    /// has acknowledged everything of the peer.
    pub fn is_quiet_with(&self, peer: PeerId) -> bool {
        self.network.remotes.get(peer).is_none_or(|remote| remote.is_idle(&self.network.carriers))
    }

    /// Adds a carrier behind all others, and returns its name; `None` when there are too many. Whoever
    /// watches descriptors for this engine must ask for them anew.
    pub fn add_carrier(&mut self, carrier: BoxedCarrier) -> Option<CarrierId> {
        self.network.add_carrier(carrier)
    }

    /// Forgets a job that was met. Returns false if one of its processes is still a peer, or the job is not
    /// known.
    pub fn part_from_job(&mut self, job: JobId) -> bool {
        let Some(key) = self.network.jobs.find(job) else { return false };
        if key == JobKey::OWN || self.peers.iter().any(|(_, peer)| peer.job() == key) {
            return false;
        }
        self.network.jobs.part(key);
        true
    }

    /// The name of a peer; `None`: it has been removed.
    pub fn name_of(&self, peer: PeerId) -> Option<ProcessName> {
        self.peers.get(peer).map(|peer| self.network.jobs.name(peer.job(), peer.number()))
    }

    /// The peer that has this name.
    pub fn find_process(&self, name: ProcessName) -> Option<PeerId> {
        let jobs = &self.network.jobs;
        self.peers.of_index(jobs.index(jobs.find(name.job)?, name.number)?)
    }

    /// Starts the send of the request `handle` (state `Queued`) behind the sends that wait already.
    pub fn start_send(&mut self, handle: usize) {
        let Some(State::Queued(send)) = self.messages.requests.get(handle).map(|request| &request.state) else {
            return;
        };
        let Some(peer) = send.peer else {
            self.messages.complete(handle);
            return;
        };
        if self.peers.has_failed(peer) {
            let error = messages::failure(peer, &self.peers);
            self.messages.fail(handle, error);
            return;
        }
        let (blocking, bytes) = (send.blocking, send.data.len() as usize);
        self.look_for_credit(peer, bytes as u64);
        let is_large = !blocking && self.is_large(bytes as u64);
        if is_large {
            self.note_send(peer, handle);
        }
        self.enqueue(peer, Outgoing::Send { request: handle });
        self.drain_queues();
        let state = &self.peers[peer];
        if !blocking && state.pending.is_empty() && matches!(state.route, Route::Remote(_)) {
            let state = self.messages.requests.get(handle).map(|request| &request.state);
            // An announcement is a small message: the announcements of a window of large messages share
            // packets.
            let announced = matches!(state, Some(State::Announced(_)));
            self.flush_or_coalesce(peer, HEAD_MAX + if announced { 0 } else { bytes });
        } else if !self.network.active.is_empty() {
            self.transmit(self.platform.now());
        }
        self.fetch_before_computing();
        if is_large {
            self.note_start();
        }
        self.note_route(handle, peer);
    }

    /// Notes that a request for a message with `peer` needs no network, if so it is. Without a network that
    /// makes no difference.
    #[inline(always)]
    fn note_route(&mut self, handle: usize, peer: PeerId) {
        if self.has_network() && self.peers.get(peer).is_some_and(|peer| !matches!(peer.route, Route::Remote(_))) {
            self.messages.note_on_node(handle);
        }
    }

    /// Looks at the rings if a neighbour's credit does not suffice for a message that could be sent eagerly:
    /// the neighbour may have given credit back since the program's last call that waits. In a window of
    /// messages it has.
    #[inline]
    fn look_for_credit(&mut self, peer: PeerId, bytes: u64) {
        let state = &self.peers[peer];
        let is_short_of_credit = bytes <= self.eager_limit && state.matching.credit < bytes + CREDIT_PER_MESSAGE;
        if is_short_of_credit && matches!(state.route, Route::Shared(_)) {
            self.poll_node();
        }
    }

    /// Posts the receive of the request `handle` (state `Posted`).
    #[inline(always)]
    pub fn start_receive(&mut self, handle: usize) {
        let waits = self.messages.post(handle, &mut self.peers);
        if let Some((_, Some(source))) = waits {
            self.note_route(handle, source);
        }
        // Posting alone brings nothing to send.
        if waits.is_none_or(|(room, _)| self.is_large(room)) {
            self.follow_up(handle, waits.is_some());
        }
    }

    /// Returns whether a message of `bytes` bytes is so large that its sender, on the same node, wants to
    /// know of its receiver. Short messages never are, whatever the costs.
    #[inline(always)]
    pub fn is_large(&self, bytes: u64) -> bool {
        bytes > UNASKED_BYTES_MAX && bytes >= self.choices.visible_bytes_min()
    }

    /// The largest message for which its receiver waits without posting the receive where the sender sees it,
    /// in bytes.
    #[inline(always)]
    pub(super) fn awaited_eager_max(&self) -> u64 {
        self.eager_limit.min(self.choices.awaited_eager_max())
    }

    /// The largest message of a window that goes eagerly whatever its receiver does, in bytes.
    #[inline]
    pub(super) fn window_eager_max(&self, is_exchanged: bool) -> u64 {
        self.eager_limit.min(self.choices.window_eager_max(is_exchanged))
    }

    /// Takes over the costs of the node if there are new ones, and tells the node of costs that fit better.
    /// The eager limit, for which there is credit, stays.
    #[inline]
    pub(super) fn follow_costs(&mut self) {
        let refined = self.peers.near.refinement.take();
        let Some(shared) = self.node.as_ref().and_then(Node::costs) else { return };
        if shared.version() != self.costs_version {
            // What copies took beside other costs says nothing of these.
            self.take_over_costs();
        } else if let Some(costs) = refined {
            shared.share(&costs.values().collect::<Vec<_>>());
        }
    }

    #[cold]
    fn take_over_costs(&mut self) {
        let Some(shared) = self.node.as_ref().and_then(Node::costs) else { return };
        let version = shared.version();
        // Costs that change at this moment are there for the next message.
        let Some(values) = shared.read() else { return };
        self.costs_version = version;
        // Another process may have damaged them.
        let Some(costs) = CostModel::from_values(&values) else { return };
        self.peers.near.streams = Streams::new(self.frame_max, &costs);
        self.peers.near.cooperative_bytes_min = costs.cooperative_bytes_min();
        self.peers.near.refinement = Refinement::new(costs);
        self.choices = Choices::new(costs);
    }

    /// The costs that the processes of the node share, if this process speaks for all of them.
    pub fn costs_of_node(&self) -> Option<CostModel> {
        let node = self.node.as_ref().filter(|node| node.own_local_rank() == 0)?;
        CostModel::from_values(&node.costs()?.read()?)
    }

    /// Sends what is due when a receive has taken its message, or a large receive has been posted.
    #[inline(never)]
    fn follow_up(&mut self, handle: usize, is_posted: bool) {
        if is_posted && self.announce_receive(handle) {
            // Messages that the sender sent before it could see the receive are here now.
            self.poll_node();
        }
        self.fetch_before_computing();
        self.flush();
    }

    /// Gives the extracted message `unexpected` to the receive `handle` (state `Posted`, not in the matcher).
    pub fn claim(&mut self, handle: usize, envelope: Envelope, unexpected: usize) {
        self.messages.claim(handle, envelope, unexpected, &mut self.peers);
        self.fetch_before_computing();
        self.flush();
    }

    /// Forgets the messages in contexts for which `is_over` holds ([`Messages::discard_contexts`]).
    pub fn discard_contexts(&mut self, is_over: impl Fn(u32) -> bool) {
        self.messages.discard_contexts(is_over, &mut self.peers);
        self.flush();
    }

    /// Tells the other members that this process cannot begin its part of a collective operation, for
    /// `error`: they wait for it (docs/design/boundary.md).
    #[cold]
    pub fn give_up(&mut self, scope: &CollectiveScope, error: &Error) {
        self.give_up_for(scope, error.cause(), true, (0..scope.group.size()).collect());
    }

    /// Tells other members that this process gives its part of a collective operation up, for a `cause`.
    ///
    /// If this process `is_first` to know of the cause, all members are told, unless they are very many.
    /// Otherwise the `partners` are told, which may wait for this process.
    #[cold]
    pub(crate) fn give_up_for(&mut self, scope: &CollectiveScope, cause: Cause, is_first: bool, partners: Vec<u32>) {
        self.messages.give_up(scope, cause, is_first, partners, &self.peers);
        self.flush();
    }

    /// The reason why an operation cannot succeed any more, if a member has given it up.
    pub fn given_up(&self, scope: &CollectiveScope) -> Option<Error> {
        self.messages.given_up(scope, &self.peers)
    }

    /// Abandons a request whose message is not wanted any more ([`Messages::abandon`]).
    pub fn abandon(&mut self, handle: usize) {
        self.settle_copies();
        self.abandon_early(handle);
        self.abandon_eager_write(handle);
        self.messages.abandon(handle, &self.peers);
        self.end_accesses();
    }

    /// Notes that a probe has found nothing ([`Messages::probed_in_vain`]).
    ///
    /// # Errors
    /// The message will not come, since its sender is gone.
    pub fn probed_in_vain(
        &mut self,
        context: u32,
        peer: Option<PeerId>,
        is_member: impl Fn(PeerId) -> bool,
    ) -> Result<()> {
        self.messages.probed_in_vain(context, peer, is_member, &mut self.peers)
    }

    /// Interrupts the point-to-point operations of a communicator that has been revoked: those that wait end
    /// with `error`. Messages that both sides have begun to move come to their end. A message that has been
    /// announced ends when the receiver has said that it does not take it.
    pub fn interrupt(&mut self, contexts: &std::ops::Range<u32>, error: &Error) {
        for handle in self.messages.interruptible(contexts) {
            if let Some(request) = self.messages.requests.get_mut(handle) {
                request.error = Some(error.clone());
            }
            self.cancel(handle);
        }
        self.messages.notify();
    }

    /// Takes the next message of a context, and of this tag if one is given, that no receive is posted for.
    pub fn take_message(&mut self, context: u32, tag: Option<i32>) -> Option<Taken> {
        let Self { messages, peers, .. } = self;
        loop {
            let (envelope, unexpected) = messages.matcher.extract(context, None, tag)?;
            let Some(message) = messages.unexpected.get(unexpected) else { continue };
            let (peer, bytes) = (message.peer, message.total);
            let whole = messages.take_whole(unexpected, peers);
            return Some(Taken { envelope, unexpected, peer, bytes, whole });
        }
    }

    /// Bars a context to receives from any source ([`Messages::bar`]).
    pub fn bar(&mut self, context: u32, bar: Bar) {
        if let Bar::Failed(peer) = bar {
            self.withdraw_receives_from_anybody(peer);
        }
        self.messages.bar(context, bar, &self.peers);
    }

    /// Tells `peer` that the communicator with this first context has been revoked.
    pub fn tell_revoked(&mut self, peer: PeerId, context: u32) {
        if !self.peers.has_failed(peer) {
            self.messages.tell_revoked(peer, context);
        }
    }

    /// Asks for a started operation to be cancelled (MPI-5.0 §3.8.4).
    pub fn cancel(&mut self, handle: usize) {
        if !self.withdraw_receive(handle) || self.messages.cancel_receive(handle) {
            return;
        }
        let wire = self.messages.requests.wire(handle);
        let Some(request) = self.messages.requests.get_mut(handle) else { return };
        let (peer, context) = match &request.state {
            State::Queued(Send { peer: Some(peer), .. }) => {
                let peer = *peer;
                let waits = |out: &Outgoing| matches!(out, Outgoing::Send { request } if *request == handle);
                self.peers[peer].pending.retain(|out| !waits(out));
                request.status.cancelled = true;
                self.messages.complete(handle);
                // Other messages may have waited behind this one.
                self.resume(peer);
                self.drain_queues();
                return;
            }
            State::Announced(send @ Send { peer: Some(peer), .. }) => (*peer, send.envelope.context),
            // The message has left, but nothing else says when the program may go on: a wait for a cancelled
            // operation must not depend on a receive that may never be posted (MPI-5.0 §3.8.4).
            State::AwaitingMatch { peer, context } => (*peer, *context),
            // Other messages that have left are not called back: programs look at the status right after
            // MPI_Cancel and take it for final. Cancelling sends is deprecated (MPI-5.0 §3.8.4).
            _ => return,
        };
        if std::mem::replace(&mut request.cancellation, Cancellation::Asked) == Cancellation::Possible {
            self.enqueue(peer, Outgoing::Control(Head::retract(context, wire)));
            self.flush();
        }
        // A question of this process to itself is answered at once: a program that looks at the status now
        // takes it for final.
        while peer == self.peers.own() && self.poll_myself() > 0 {
            self.flush();
        }
    }

    /// Makes the next pass look at the network as well, even if it finds something else.
    pub fn look_at_network(&mut self) {
        self.network.must_look = true;
    }

    /// Returns whether this process has copied something large, or taken packets in, since the last call.
    pub fn take_advance(&mut self) -> bool {
        std::mem::take(&mut self.network.packets_arrived) | self.take_copied() | self.owes_a_turn()
    }

    /// Returns whether more of a message can leave as soon as this process has looked at what has arrived.
    pub(super) fn owes_a_turn(&self) -> bool {
        self.turn_over && !self.backlog.is_empty()
    }

    /// Marks peers of the node as failed that have died or broken their ring.
    pub(super) fn take_faults(&mut self) {
        while let Some(fault) = self.node.as_mut().and_then(|node| node.poll_fault()) {
            // The frames that the peer has sent before are here, and come before its end.
            while self.poll_node() > 0 {}
            self.peer_failed(self.peers.near.by_local_rank[fault.peer], &fault.reason);
        }
    }

    pub(super) fn poll_node(&mut self) -> usize {
        let Self { node, messages, peers, .. } = self;
        let Some(node) = node else { return 0 };
        node.poll(FRAMES_PER_PASS, |from, frame| {
            peers.near.note_frame(frame.len());
            messages.handle_frame(peers.near.by_local_rank[from], frame, peers);
        })
    }

    pub(super) fn poll_myself(&mut self) -> usize {
        let mut frames = 0;
        while let Some(frame) = self.myself.pop_front() {
            self.messages.handle_frame(self.peers.own(), &frame, &mut self.peers);
            frames += 1;
        }
        frames
    }

    /// Sends what the last operations have made due.
    #[inline]
    pub fn flush(&mut self) {
        if self.backlog.is_empty() && self.messages.outbox.is_empty() && !self.messages.may_grant() {
            return;
        }
        self.drain_queues();
        if !self.network.active.is_empty() {
            self.transmit(self.platform.now());
        }
    }

    pub(super) fn peer_failed(&mut self, peer: PeerId, reason: &str) {
        let reason = match self.network.remotes.get(peer) {
            Some(remote) => format!("{reason} (at {})", remote.addresses(&self.network.carriers)),
            None => reason.to_owned(),
        };
        // No carrier may look at the memory of sends that fail.
        if self.peers[peer].matching.has_choice() {
            self.drop_writes(peer);
        }
        if let Some(remote) = self.network.remotes.remove(peer) {
            if !self.peers[peer].is_of_own_job() {
                let link = remote.links(&self.network.carriers);
                *self.past_messages.entry(link).or_default() += self.peers[peer].traffic()[0];
            }
            self.network.carriers.let_go(&remote);
        }
        self.peers.near.due.retain(|announced| announced.peer != peer);
        let state = &mut self.peers[peer];
        state.pending.clear();
        state.route = Route::None(reason.clone());
        self.network.active.retain(|active| *active != peer);
        self.backlog.retain(|waiting| *waiting != peer);
        (state.waiting, state.ahead_of_room) = (false, None);
        self.withdraw_receives_from_anybody(peer);
        self.drop_eager_writes(peer);
        self.messages.peer_failed(peer, &reason, &mut self.peers);
        // An operation that waits in a slot for something of this peer has no request, and finds the failure
        // by looking.
        self.messages.notify();
        // This comes before any caller is told that the memory is the program's again.
        self.deregister_closed();
        // The other parts are told in the next pass, which is to come soon.
        self.failed.push(peer);
        self.network.must_look = true;
    }

    /// Tells the processes of this node whether any process still needs this one. If none does, it may end,
    /// and they do not take it for dead.
    pub fn say_left(&mut self, left: bool) {
        if let Some(liveness) = self.node.as_mut().and_then(Node::liveness) {
            liveness.say_left(left);
        }
    }

    /// Returns whether there are peers on other nodes.
    pub fn has_network(&self) -> bool {
        !self.network.carriers.is_empty()
    }

    /// Returns whether the kernel may not copy between processes of the node. Then large messages always move
    /// on only while both ends make passes.
    #[inline]
    pub fn node_needs_help(&self) -> bool {
        self.node.is_some() && !self.peers.near.copies
    }

    /// Returns whether a message from this process or to it goes through a ring, and moves on only while both
    /// ends make passes. Its receiver has asked for it, though the kernel could have copied it; or its sender
    /// waits for room. The receiver of a window may ask at any time.
    #[inline]
    pub fn needs_rings(&self) -> bool {
        (self.single_copy.may_stand_still && self.stands_still_without_passes())
            || (!self.messages.regions.is_empty() && self.is_asked_on_node())
    }

    #[inline(never)]
    fn is_asked_on_node(&self) -> bool {
        let is_near = |peer: PeerId| matches!(self.peers[peer].route, Route::Shared(_));
        self.peers.near.copies && self.messages.regions.peers().any(is_near)
    }

    /// Returns whether messages of the node are left that move on only if this process makes passes.
    #[inline]
    pub fn needs_passes(&self) -> bool {
        self.owes_copies() || self.needs_rings()
    }

    /// Wakes the thread of this process that sleeps until a neighbour wakes it; returns `false` when no
    /// thread sleeps like that.
    pub fn nudge(&mut self) -> bool {
        let only_neighbours = !self.has_network();
        match &mut self.node {
            Some(node) if only_neighbours => {
                node.nudge();
                true
            }
            _ => false,
        }
    }

    /// Returns whether `members` are all on this node, and it has fewer processors than processes. The answer
    /// is the same at all of them.
    pub fn are_oversubscribed(&self, members: &[PeerId]) -> bool {
        self.is_oversubscribed() && self.peers.are_near(members)
    }

    /// Returns whether this node has fewer processors than processes.
    #[inline]
    pub fn is_oversubscribed(&self) -> bool {
        self.node.as_ref().is_some_and(Sleeping::is_oversubscribed)
    }

    /// The number of processes of the node that want a processor, as far as MPI knows.
    pub fn awake(&self) -> usize {
        self.node.as_ref().map_or(1, Sleeping::awake)
    }

    /// Checks that `peer` is there.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn check_peer(&self, peer: PeerId) -> Result<()> {
        if self.peers.has_failed(peer) { Err(messages::failure(peer, &self.peers)) } else { Ok(()) }
    }

    /// The memory in which processes of the node publish.
    #[inline]
    pub(super) fn published(&self) -> Option<&<P::Node as Node>::Slots> {
        self.node.as_ref()?.slots()
    }

    /// The slots of each process of the node; none without such memory.
    pub fn slots(&self) -> SlotCounts {
        self.published().map_or(SlotCounts::default(), CollectiveSlots::counts)
    }

    /// Bytes that a process can publish at once in a slot.
    pub fn published_max(&self, slot: u32) -> u64 {
        self.published().map_or(0, |slots| slots.published_max(slot as usize) as u64)
    }

    /// Returns whether the memory of `peer` can be shared with this process.
    pub fn is_near(&self, peer: PeerId) -> bool {
        self.peers.are_near(&[peer])
    }
}
