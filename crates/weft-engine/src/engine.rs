//! The engine: joins the message layer to the carriers and moves both.
//!
//! Every peer has one route: it is this process itself, or reached through a ring in shared memory, or by a reliable flow of datagrams.
//! [`Engine::progress`] takes in what has arrived and sends what is due; it never waits.

mod awaited;
mod immediate;
mod multicast;
mod network;
mod outgoing;
mod placement;
mod report;
mod single_copy;
mod slots;
mod windows;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use weft_core::message::{HEAD_MAX, Head};
use weft_core::process::{JobId, ProcessName};
use weft_core::time::Duration;
use weft_core::wire::Secret;

use crate::arguments::CollectiveScope;
use crate::carriers::{Carriers, Descriptors, Remote};
use crate::error::Error;
use crate::group::PeerId;
use crate::jobs::{JobKey, Jobs};
use crate::messages::{self, Messages, Outgoing, PeerAccess};
use crate::peers::{NewPeer, Peers, Route};
use crate::protocols::{self, Choices, CostModel, RING_PIECE_BYTES};
use crate::request::{Cancellation, Send, State};
use crate::transport::{Frames, Node, Platform, SleepMode, Sleeping};
use crate::windows::Windows;

/// Frames taken from the rings, and datagrams from the network, in one pass.
const FRAMES_PER_PASS: usize = 64;
/// With peers on this node, the network is looked at once in so many idle passes: a look is a system call.
const NETWORK_EVERY: u32 = 16;
/// Peers of the node are asked for faults once in so many passes, and after every sleep.
const NODE_CHECK_EVERY: u32 = 1024;
/// Bytes that may wait in a flow before further messages queue with their requests instead.
const FLOW_QUEUE_BYTES: usize = 4 << 20;
/// How soon to look again while a ring that we fill is full: its reader does not tell us.
const FULL_RING_RETRY_NS: u64 = 50_000;

pub use immediate::Received;
pub use multicast::{NewGroup, Reviewed, Standing as GroupStanding, TESTS_MAX, Ways};
pub use report::Traffic;
pub(crate) use slots::SlotWait;
pub use windows::Access;

/// What the engine is made of.
pub struct Parts<P: Platform> {
    /// Its clock.
    pub platform: P,
    /// The name of this process.
    pub name: ProcessName,
    /// Name of its host.
    pub host: Option<Arc<str>>,
    /// The node's rings, when there are peers on it.
    pub node: Option<P::Node>,
    /// The memory of other processes of the node.
    pub memory: P::Memory,
    /// The network, when there are peers on other nodes.
    pub carriers: Carriers,
    /// The job's secret, which tags every packet within it.
    pub secret: Secret,
    /// Largest message that is sent without asking, in bytes; `None`: what suits the route.
    pub eager_limit: Option<u64>,
    /// What moving bytes costs here.
    pub costs: CostModel,
    /// Memory for small messages that nobody has asked for, beyond the credit of their senders, bytes.
    pub unexpected_bytes: u64,
    /// After so much silence a peer of another node counts as failed; zero: never.
    pub peer_timeout: Duration,
}

/// The message layer on its carriers.
pub struct Engine<P: Platform> {
    platform: P,
    /// Requests and matching.
    pub messages: Messages,
    /// Everybody who can be reached.
    pub peers: Peers<P>,
    node: Option<P::Node>,
    single_copy: single_copy::SingleCopies,
    network: network::Network,
    slots: slots::Slots,
    awaited: awaited::Awaited,
    groups: multicast::Groups,
    /// Windows of one-sided operations.
    pub windows: Windows,
    /// The eager limit that the user has said, for all routes.
    said_eager_limit: Option<u64>,
    /// Largest message that is sent without asking where the route does not say less, in bytes.
    eager_limit: u64,
    choices: Choices,
    frame_max: u64,
    /// Largest message that goes into a ring without a request, in bytes.
    immediate_max: u64,
    myself: VecDeque<Vec<u8>>,
    backlog: Vec<PeerId>,
    scratch: Vec<u8>,
    passes: u32,
    /// Whether this process may have been rung.
    doorbell_used: bool,
    rests: Rests,
    /// More of a message could leave: it was time to look at what has arrived.
    turn_over: bool,
}

impl<P: Platform> Engine<P> {
    /// Puts the parts together.
    pub fn new(parts: Parts<P>) -> Self {
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
            single_copy: single_copy::SingleCopies::default(),
            network: network::Network::new(parts.carriers, Jobs::new(parts.name, parts.secret)),
            slots: slots::Slots::default(),
            awaited: awaited::Awaited::new(parts.peer_timeout),
            groups: multicast::Groups::default(),
            windows: Windows::default(),
            said_eager_limit: parts.eager_limit,
            eager_limit,
            choices: Choices::new(parts.costs),
            frame_max,
            immediate_max: eager_limit.min(frame_max).min(RING_PIECE_BYTES),
            myself: VecDeque::new(),
            backlog: Vec::new(),
            scratch: Vec::new(),
            passes: 0,
            doorbell_used: false,
            rests: Rests::default(),
            turn_over: false,
        }
    }

    /// Adds a peer, which can be talked to from now on.
    ///
    /// # Panics
    /// Its job has not been met, or has no process with its number.
    pub fn add_peer(&mut self, mut new: NewPeer) -> PeerId {
        let jobs = &self.network.jobs;
        let place = jobs.find(new.name.job).and_then(|job| Some((job, jobs.index(job, new.name.number)?)));
        let (job, index) = place.expect("a process of a job that is known");
        if let Route::Remote(remote) = &mut new.route {
            remote.share_settings(self.network.remotes.iter().map(Remote::settings));
        }
        let place = if let Route::Shared(place) = new.route { Some(place) } else { None };
        let (id, remote) = self.peers.add(new, job, index);
        if let Some(remote) = remote {
            self.network.remotes.insert(id, remote);
        }
        if let Some(place) = place {
            self.peers.near.note_place(place, id);
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

    /// Removes a peer: what waits for it fails, and nothing leads to it any more. False: messages of it are kept that nobody has received, so
    /// it stays, as one that is gone.
    pub fn remove_peer(&mut self, peer: PeerId) -> bool {
        if self.peers.get(peer).is_none() || peer == self.peers.own() {
            return false;
        }
        self.peer_failed(peer, "it has left");
        self.single_copy.forget_peer(peer);
        self.network.cached.retain(|cached| *cached != peer);
        self.messages.outbox.retain(|(to, _)| *to != peer);
        if self.messages.keeps_messages_of(peer) {
            return false;
        }
        self.peers.remove(peer);
        true
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
    pub fn claim(&mut self, handle: usize, envelope: weft_core::matching::Envelope, unexpected: usize) {
        self.messages.claim(handle, envelope, unexpected, &mut self.peers);
        self.flush();
    }

    /// Forgets the messages in contexts of which `is_over` holds ([`Messages::discard_contexts`]).
    pub fn discard_contexts(&mut self, is_over: impl Fn(u32) -> bool) {
        self.messages.discard_contexts(is_over, &mut self.peers);
        self.flush();
    }

    /// This process cannot begin its part of a collective operation for `error`: the others hear of it, because they wait for it (decision 0194).
    #[cold]
    pub fn give_up(&mut self, place: &CollectiveScope, error: &Error) {
        let all = (0..place.group.size()).collect();
        self.messages.give_up(place, error.cause(), true, all, &self.peers);
        self.flush();
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
            // It has left, but nothing else says when the program may go on: a wait for what is cancelled must not depend on
            // a receive that may never be posted (MPI-5.0 §3.8.4).
            State::AwaitingMatch { peer, context } => (*peer, *context),
            // Other data that has left is not called back: programs look at the status right after MPI_Cancel and take what
            // it says for final. Cancelling sends is deprecated (MPI-5.0 §3.8.4).
            _ => return,
        };
        if std::mem::replace(&mut request.cancellation, Cancellation::Asked) == Cancellation::Possible {
            self.enqueue(peer, Outgoing::Control(Head::retract(context, wire)));
            self.flush();
        }
        // What this process asks itself is answered at once: a program that looks at the status now takes what it says for final.
        while peer == self.peers.own() && self.poll_myself() > 0 {
            self.flush();
        }
    }

    /// One pass: takes in what has arrived and sends what is due. True once in many passes: it is time to tell how this process stands.
    pub fn progress(&mut self) -> bool {
        self.passes = self.passes.wrapping_add(1);
        let is_check = self.passes.is_multiple_of(NODE_CHECK_EVERY);
        if is_check {
            self.check_node();
            self.network.must_look = true;
        }
        let arrived = self.poll_node() + self.poll_myself();
        self.progress_single_copies();
        self.poll_slots();
        let look = self.node.is_none()
            || (arrived == 0 && self.passes.is_multiple_of(NETWORK_EVERY))
            || !self.network.active.is_empty()
            || self.groups.are_active()
            || std::mem::take(&mut self.network.must_look);
        if self.has_network() && look {
            // One look at the clock serves the whole pass.
            let now = self.platform.now();
            self.poll_network(now);
            self.progress_windows();
            self.messages.look_for_grants(now);
            self.ask_awaited(now);
            self.drain_queues();
            self.transmit(now);
            self.move_groups(now);
        } else {
            self.progress_windows();
            self.drain_queues();
        }
        is_check
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
    fn owes_a_turn(&self) -> bool {
        self.turn_over && !self.backlog.is_empty()
    }

    /// Peers of the node that have died or broken their ring.
    fn check_node(&mut self) {
        self.look_after_neighbours();
        while let Some(fault) = self.node.as_mut().and_then(|node| node.poll_fault()) {
            // What it has sent before is here, and comes before its end.
            while self.poll_node() > 0 {}
            self.peer_failed(self.peers.near.places[fault.peer], &fault.reason);
        }
    }

    fn poll_node(&mut self) -> usize {
        let Self { node, messages, peers, .. } = self;
        let Some(node) = node else { return 0 };
        node.poll(FRAMES_PER_PASS, |from, frame| {
            peers.near.note_frame(frame.len());
            messages.handle_frame(peers.near.places[from], frame, peers);
        })
    }

    fn poll_myself(&mut self) -> usize {
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

    fn peer_failed(&mut self, peer: PeerId, reason: &str) {
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
        // What waits for something that it would have published in a slot, and has no request, finds that out by looking.
        self.messages.notify();
        // After the reason is known, which what was multicast fails with.
        self.leave_failed_peer(peer);
        self.leave_windows(peer);
        // Before anybody is told that the memory is the program's again.
        self.deregister_closed();
    }

    /// Says to the processes of this node whether nobody needs this one any more: it may end then, and they do not take it for dead.
    pub fn say_left(&mut self, left: bool) {
        if let Some(liveness) = self.node.as_mut().and_then(Node::liveness) {
            liveness.say_left(left);
        }
    }

    /// Whether nothing of ours is still on its way.
    pub fn is_quiet(&self) -> bool {
        self.backlog.is_empty()
            && self.myself.is_empty()
            && self.messages.outbox.is_empty()
            && self.groups.are_idle()
            && self.peers.iter().all(|(_, peer)| peer.pending.is_empty())
            && self.network.remotes.iter().all(|remote| remote.is_idle(&self.network.carriers))
    }

    /// Whether something is under way that needs a look at a certain time.
    pub fn has_deadlines(&self) -> bool {
        !self.network.active.is_empty()
            || !self.backlog.is_empty()
            || self.windows.has_collected
            || self.groups.are_active()
            || self.messages.grants.next_timeout().is_some()
    }

    /// Whether there are peers on other nodes.
    pub fn has_network(&self) -> bool {
        !self.network.carriers.is_empty()
    }

    /// In how many nanoseconds something is due that nobody wakes us for; `None`: never.
    pub fn due(&self) -> Option<u64> {
        let full = !self.backlog.is_empty() || !self.network.stalled.is_empty();
        let full = full.then_some(FULL_RING_RETRY_NS).or(self.slots_due());
        let mut span = full.into_iter().chain(self.windows_due()).min();
        let grants = self.messages.grants.next_timeout();
        let groups = self.groups.next_timeout().filter(|_| self.network.stalled.is_empty());
        if self.network.active.is_empty() && grants.is_none() && groups.is_none() {
            return span;
        }
        let now = self.platform.now();
        if let Some(due) = grants.into_iter().chain(groups).min().map(|at| at.since(now).as_nanos()) {
            span = Some(span.map_or(due, |shortest| shortest.min(due)));
        }
        // While the link has no room nothing leaves, whatever is due: looking again and again would bring nothing.
        let active = if self.network.stalled.is_empty() { self.network.active.as_slice() } else { &[] };
        for peer in active {
            let Some(remote) = self.network.remotes.get(*peer) else { continue };
            if let Some(due) = remote.next_timeout() {
                let due = due.since(now).as_nanos();
                span = Some(span.map_or(due, |shortest| shortest.min(due)));
            }
        }
        span
    }

    /// What a thread has to watch so that it can make progress for us: network and doorbell.
    pub fn watched(&self) -> (Vec<i32>, Option<i32>) {
        let network = self.network.carriers.descriptors().into_iter().flatten().collect();
        (network, self.node.as_ref().map(Sleeping::doorbell_fd))
    }

    /// Whether large messages of the node need a hand of their receiver or sender while the other is inside MPI.
    #[inline]
    pub fn node_needs_help(&self) -> bool {
        self.node.is_some() && !self.peers.near.copies
    }

    /// A thread of this process watches the network from now on; `false` when something has arrived already.
    pub fn arm_network_for_thread(&mut self) -> bool {
        self.network.carriers.prepare_sleep()
    }

    /// A thread of this process watches the doorbell from now on; `false` when something has arrived already.
    pub fn arm_for_thread(&mut self) -> bool {
        self.doorbell_used = true;
        self.rests.watches += 1;
        self.node.is_none() || self.arm_node(SleepMode::Thread)
    }

    /// Says to the node how this process is about to sleep; false when something has arrived, and it must not.
    fn arm_node(&mut self, rest: SleepMode) -> bool {
        let Some(node) = &mut self.node else { return false };
        if !node.arm(rest) {
            return false;
        }
        let is_here = self.has_awaited_slot();
        if is_here && let Some(node) = &mut self.node {
            node.disarm();
        }
        !is_here
    }

    /// It does no more.
    pub fn disarm_for_thread(&mut self) {
        if let Some(node) = &mut self.node {
            node.disarm();
        }
    }

    /// Whether the next pass has something to do, whatever arrives: nobody must sleep.
    pub fn has_work(&self) -> bool {
        self.owes_a_turn()
            || self.has_news_for_windows()
            || !self.myself.is_empty()
            || !self.messages.outbox.is_empty()
            || self.messages.may_grant()
    }

    /// Gets ready to sleep: what to sleep on, and for how long at most (nanoseconds). `None` when there is something
    /// to do already.
    pub fn prepare_sleep(&mut self) -> Option<Sleep<P>> {
        let sleep = self.try_to_sleep();
        self.rests.sleeps += u64::from(sleep.is_some());
        sleep
    }

    fn try_to_sleep(&mut self) -> Option<Sleep<P>> {
        if self.has_work() || !self.network.carriers.prepare_sleep() {
            return None;
        }
        let timeout = self.due().into_iter().chain(self.asking_due()).chain(self.neighbours_due()).min();
        let network = self.network.carriers.descriptors();
        let Some(node) = &mut self.node else {
            return Some(Sleep { rest: SleepOn::Descriptors { doorbell: None, network }, timeout });
        };
        if !self.network.carriers.is_empty() {
            let rest = SleepOn::Descriptors { doorbell: Some(node.doorbell_fd()), network };
            return self.arm_node(SleepMode::Doorbell).then_some(Sleep { rest, timeout });
        }
        let rest = SleepOn::Neighbours(node.sleeper());
        self.arm_node(SleepMode::Futex).then_some(Sleep { rest, timeout })
    }

    /// How often it has rested so far.
    pub fn rests(&self) -> Rests {
        self.rests
    }

    /// Wakes the thread of this process that sleeps until a neighbour wakes it; `false` when none sleeps like that.
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

    /// Whether `members` are all on this node, which has fewer processors than processes; the same at all of them.
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

    /// After the sleep.
    pub fn finish_sleep(&mut self) {
        if let Some(node) = &mut self.node {
            node.disarm();
            if !self.network.carriers.is_empty() || self.doorbell_used {
                node.drain_doorbell();
            }
        }
        self.check_node();
        // The network is looked at in the very next pass.
        self.network.must_look = true;
        self.network.looks = network::Looks::now();
    }
}

/// How often this process was about to sleep, or left its neighbours to wake its progress thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rests {
    /// Sleeps of calls that waited.
    pub sleeps: u64,
    /// Times that neighbours were told to ring for the progress thread.
    pub watches: u64,
}

/// How a waiter sleeps.
pub struct Sleep<P: Platform> {
    /// On what.
    pub rest: SleepOn<P>,
    /// At most so many nanoseconds.
    pub timeout: Option<u64>,
}

/// What a waiter sleeps on.
pub enum SleepOn<P: Platform> {
    /// Only processes of the node can have something for us.
    Neighbours(<P::Node as Sleeping>::Sleeper),
    /// Descriptors that become readable.
    Descriptors {
        /// When a process of the node has something for us.
        doorbell: Option<i32>,
        /// When a packet is here.
        network: Descriptors,
    },
}
