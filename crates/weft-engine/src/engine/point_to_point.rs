//! Point-to-point communication (MPI-5.0 §3): requests, the peers that they are for, and the carriers that
//! lead there.
//!
//! The parts of the engine stand on this structure and reach it through [`Link`](super::Link) alone. The
//! structure knows nothing of the parts. It notes what concerns them, such as a peer that has failed, and the
//! engine tells them.

use std::collections::VecDeque;
use std::io;

use weft_core::matching::Envelope;
use weft_core::message::{HEAD_MAX, Head};
use weft_core::process::{JobId, ProcessName};
use weft_core::wire::Secret;

use super::network::Network;
use super::single_copy::SingleCopies;
use super::{FRAMES_PER_PASS, Parts, PointToPoint};
use crate::arguments::CollectiveScope;
use crate::carriers::Remote;
use crate::error::{Cause, Error, Result};
use crate::group::PeerId;
use crate::jobs::{JobKey, Jobs};
use crate::messages::{self, Messages, Outgoing, PeerAccess};
use crate::peers::{NewPeer, Peers, Route};
use crate::protocols::{self, Choices, RING_PIECE_BYTES};
use crate::request::{Cancellation, Send, State};
use crate::transport::{CollectiveSlots, Frames, Node, Platform, Sleeping, SlotCounts};

impl<P: Platform> PointToPoint<P> {
    /// Nothing is under way yet, and this process is the only peer.
    pub(super) fn new(parts: Parts<P>) -> Self {
        let frame_max = parts.node.as_ref().map_or(0, |node| (node.frame_max() - HEAD_MAX) as u64);
        let (streams, cooperative_bytes_min) = (protocols::is_wide(frame_max), parts.costs.cooperative_bytes_min());
        let peers = Peers::new(parts.name, parts.host, parts.memory, streams, cooperative_bytes_min);
        let eager_limit = protocols::eager_limit(parts.eager_limit, &parts.costs, u64::MAX);
        let mut messages = Messages::new();
        messages.set_unexpected_max(parts.unexpected_bytes);
        Self {
            platform: parts.platform,
            messages,
            peers,
            node: parts.node,
            single_copy: SingleCopies::default(),
            network: Network::new(parts.carriers, Jobs::new(parts.name, parts.secret)),
            said_eager_limit: parts.eager_limit,
            eager_limit,
            choices: Choices::new(parts.costs),
            frame_max,
            immediate_max: eager_limit.min(frame_max).min(RING_PIECE_BYTES),
            myself: VecDeque::new(),
            backlog: Vec::new(),
            scratch: Vec::new(),
            passes: 0,
            turn_over: false,
            failed: Vec::new(),
        }
    }

    /// Adds a peer, which can be talked to from now on.
    ///
    /// # Panics
    /// Its job has not been met, or has no process with its number.
    pub fn add_peer(&mut self, mut new: NewPeer) -> PeerId {
        let jobs = &self.network.jobs;
        let found = jobs.find(new.name.job).and_then(|job| Some((job, jobs.index(job, new.name.number)?)));
        let (job, index) = found.expect("a process of a job that is known");
        if let Route::Remote(remote) = &mut new.route {
            remote.share_settings(self.network.remotes.iter().map(Remote::settings));
        }
        let local_rank = if let Route::Shared(local_rank) = new.route { Some(local_rank) } else { None };
        let (id, remote) = self.peers.add(new, job, index);
        if let Some(remote) = remote {
            self.network.remotes.insert(id, remote);
        }
        if let Some(local_rank) = local_rank {
            self.peers.near.note_local_rank(local_rank, id);
        }
        id
    }

    /// Meets another job of `size` processes: they can be added as peers from now on. Packets between the two
    /// jobs are tagged by `secret`, which nobody else knows. The index by which this process knows the
    /// process number 0 of that job, and so on: each of them is to be told, as its [`NewPeer::own_index`],
    /// what its own is. All processes of this process's own job are peers already.
    ///
    /// # Errors
    /// The job is known already, has no process, or too many for the packets.
    pub fn meet_job(&mut self, job: JobId, size: u32, secret: Secret) -> io::Result<u32> {
        self.network.jobs.meet(job, size, secret, self.peers.own_indices())
    }

    /// Forgets a job that was met. False: one of its processes is still a peer, or the job is not known.
    pub fn part_from_job(&mut self, job: JobId) -> bool {
        let Some(key) = self.network.jobs.find(job) else { return false };
        if key == JobKey::OWN || self.peers.iter().any(|(_, peer)| peer.job() == key) {
            return false;
        }
        self.network.jobs.part(key);
        true
    }

    /// The name of a peer; none: it has been removed.
    pub fn name_of(&self, peer: PeerId) -> Option<ProcessName> {
        self.peers.get(peer).map(|peer| self.network.jobs.name(peer.job(), peer.number()))
    }

    /// The peer that has this name.
    pub fn find_process(&self, name: ProcessName) -> Option<PeerId> {
        let jobs = &self.network.jobs;
        self.peers.of_index(jobs.index(jobs.find(name.job)?, name.number)?)
    }

    /// Starts the send of the request `handle` (state `Queued`) behind those that wait already.
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
        self.enqueue(peer, Outgoing::Send { request: handle });
        self.drain_queues();
        let state = &self.peers[peer];
        if !blocking && state.pending.is_empty() && matches!(state.route, Route::Remote(_)) {
            let state = self.messages.requests.get(handle).map(|request| &request.state);
            // An announcement is a small message: those of a window of large ones share packets.
            let announced = matches!(state, Some(State::Announced(_)));
            self.flush_or_coalesce(peer, HEAD_MAX + if announced { 0 } else { bytes });
        } else if !self.network.active.is_empty() {
            self.transmit(self.platform.now());
        }
    }

    /// Posts the receive of the request `handle` (state `Posted`).
    #[inline(always)]
    pub fn start_receive(&mut self, handle: usize) {
        let room = self.messages.post(handle, &mut self.peers);
        // Posting alone brings nothing to send.
        if room.is_none_or(|room| self.may_be_copied(room)) {
            self.follow_up(handle, room.is_some());
        }
    }

    /// Whether a message of `bytes` bytes may be copied between processes of a node by the kernel. Short ones
    /// never are, whatever that costs.
    #[inline(always)]
    pub fn may_be_copied(&self, bytes: u64) -> bool {
        bytes > RING_PIECE_BYTES && bytes >= self.choices.single_copy_bytes_min()
    }

    /// A receive has taken its message, or a large one has been posted.
    #[inline(never)]
    fn follow_up(&mut self, handle: usize, is_posted: bool) {
        if is_posted && self.announce_receive(handle) {
            // What the sender sent before it could see that is here now.
            self.poll_node();
        }
        self.flush();
    }

    /// Gives the extracted message `unexpected` to the receive `handle` (state `Posted`, not in the matcher).
    pub fn claim(&mut self, handle: usize, envelope: Envelope, unexpected: usize) {
        self.messages.claim(handle, envelope, unexpected, &mut self.peers);
        self.flush();
    }

    /// Forgets the messages in contexts of which `is_over` holds ([`Messages::discard_contexts`]).
    pub fn discard_contexts(&mut self, is_over: impl Fn(u32) -> bool) {
        self.messages.discard_contexts(is_over, &mut self.peers);
        self.flush();
    }

    /// This process cannot begin its part of a collective operation for `error`: the others hear of it,
    /// because they wait for it (decision 0194).
    #[cold]
    pub fn give_up(&mut self, scope: &CollectiveScope, error: &Error) {
        self.give_up_for(scope, error.cause(), true, (0..scope.group.size()).collect());
    }

    /// This process gives its part of a collective operation up for a `cause`. If it `is_first` to know of
    /// the cause, all others hear of it, unless they are very many. Otherwise the `partners` hear of it,
    /// which may wait for this process.
    #[cold]
    pub(crate) fn give_up_for(&mut self, scope: &CollectiveScope, cause: Cause, is_first: bool, partners: Vec<u32>) {
        self.messages.give_up(scope, cause, is_first, partners, &self.peers);
        self.flush();
    }

    /// Forgets a request whose message nobody wants any more ([`Messages::abandon`]).
    pub fn abandon(&mut self, handle: usize) {
        self.messages.abandon(handle, &self.peers);
    }

    /// A probe found nothing ([`Messages::probed_in_vain`]).
    ///
    /// # Errors
    /// The message will not come, since its sender is gone.
    pub fn probed_in_vain(&mut self, peer: Option<PeerId>, is_member: impl Fn(PeerId) -> bool) -> Result<()> {
        self.messages.probed_in_vain(peer, is_member, &mut self.peers)
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
                // Others may have waited behind it.
                self.resume(peer);
                self.drain_queues();
                return;
            }
            State::Announced(send @ Send { peer: Some(peer), .. }) => (*peer, send.envelope.context),
            // It has left, but nothing else says when the program may go on: a wait for what is cancelled
            // must not depend on a receive that may never be posted (MPI-5.0 §3.8.4).
            State::AwaitingMatch { peer, context } => (*peer, *context),
            // Other data that has left is not called back: programs look at the status right after MPI_Cancel
            // and take what it says for final. Cancelling sends is deprecated (MPI-5.0 §3.8.4).
            _ => return,
        };
        if std::mem::replace(&mut request.cancellation, Cancellation::Asked) == Cancellation::Possible {
            self.enqueue(peer, Outgoing::Control(Head::retract(context, wire)));
            self.flush();
        }
        // What this process asks itself is answered at once: a program that looks at the status now takes
        // what it says for final.
        while peer == self.peers.own() && self.poll_myself() > 0 {
            self.flush();
        }
    }

    /// The next pass looks at the network as well, whatever else it finds.
    pub fn look_at_network(&mut self) {
        self.network.must_look = true;
    }

    /// Whether this process has copied something large, or taken packets in, since this was last asked.
    pub fn take_advance(&mut self) -> bool {
        std::mem::take(&mut self.network.packets_arrived) | self.take_copied() | self.owes_a_turn()
    }

    /// Whether more of a message can leave as soon as it has been looked at what has arrived.
    pub(super) fn owes_a_turn(&self) -> bool {
        self.turn_over && !self.backlog.is_empty()
    }

    /// Peers of the node that have died or broken their ring fail.
    pub(super) fn take_faults(&mut self) {
        while let Some(fault) = self.node.as_mut().and_then(|node| node.poll_fault()) {
            // What it has sent before is here, and comes before its end.
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

    /// Sends what has become due by what was done just now.
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
        self.network.remotes.remove(peer);
        let state = &mut self.peers[peer];
        state.pending.clear();
        state.route = Route::None(reason.clone());
        self.network.active.retain(|active| *active != peer);
        self.backlog.retain(|waiting| *waiting != peer);
        (state.waiting, state.ahead_of_room) = (false, None);
        self.withdraw_receives_from_anybody(peer);
        self.messages.peer_failed(peer, &reason, &mut self.peers);
        // What waits for something that it would have published in a slot, and has no request, finds that out
        // by looking.
        self.messages.notify();
        // Before anybody is told that the memory is the program's again.
        self.deregister_closed();
        // The parts hear of it in the next pass, which is to come soon.
        self.failed.push(peer);
        self.network.must_look = true;
    }

    /// Says to the processes of this node whether nobody needs this one any more: it may end then, and they
    /// do not take it for dead.
    pub fn say_left(&mut self, left: bool) {
        if let Some(liveness) = self.node.as_mut().and_then(Node::liveness) {
            liveness.say_left(left);
        }
    }

    /// Whether there are peers on other nodes.
    pub fn has_network(&self) -> bool {
        !self.network.carriers.is_empty()
    }

    /// Whether large messages of the node need a hand of their receiver or sender while the other is inside
    /// MPI.
    #[inline]
    pub fn node_needs_help(&self) -> bool {
        self.node.is_some() && !self.peers.near.copies
    }

    /// Wakes the thread of this process that sleeps until a neighbour wakes it; `false` when none sleeps like
    /// that.
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

    /// Whether `members` are all on this node, which has fewer processors than processes; the same at all of
    /// them.
    pub fn are_oversubscribed(&self, members: &[PeerId]) -> bool {
        self.is_oversubscribed() && self.peers.are_near(members)
    }

    /// Whether this node has fewer processors than processes.
    #[inline]
    pub fn is_oversubscribed(&self) -> bool {
        self.node.as_ref().is_some_and(Sleeping::is_oversubscribed)
    }

    /// Processes of the node that want a processor, as far as MPI knows.
    pub fn awake(&self) -> usize {
        self.node.as_ref().map_or(1, Sleeping::awake)
    }

    /// Why nothing comes of an operation with `peer`, if that is gone.
    ///
    /// # Errors
    /// It is gone.
    pub fn check_peer(&self, peer: PeerId) -> Result<()> {
        if self.peers.has_failed(peer) { Err(messages::failure(peer, &self.peers)) } else { Ok(()) }
    }

    /// The memory in which processes of the node publish.
    #[inline]
    pub(super) fn published(&self) -> Option<&<P::Node as Node>::Slots> {
        self.node.as_ref()?.slots()
    }

    /// Slots of each process of the node; none without such memory.
    pub fn slots(&self) -> SlotCounts {
        self.published().map_or(SlotCounts::default(), CollectiveSlots::counts)
    }

    /// Bytes that a process can publish at once in a slot.
    pub fn published_max(&self, slot: u32) -> u64 {
        self.published().map_or(0, |slots| slots.published_max(slot as usize) as u64)
    }

    /// Whether the memory of `peer` can be shared with this process.
    pub fn is_near(&self, peer: PeerId) -> bool {
        self.peers.are_near(&[peer])
    }
}
