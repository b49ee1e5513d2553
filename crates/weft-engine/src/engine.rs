//! The engine: joins the message layer to the carriers and moves both.
//!
//! For every peer there is one path: this process itself, a shared-memory ring, or a reliable flow of datagrams.
//! [`Engine::progress`] takes in what has arrived and sends what is due; it never waits.

mod awaited;
mod direct;
mod immediate;
mod lanes;
mod network;
mod outgoing;
mod report;

use std::collections::VecDeque;
use std::sync::Arc;

use weft_core::flow::Counters;
use weft_core::message::{HEAD_MAX, Head};
use weft_core::time::Duration;

use crate::memory::Writer;
use crate::messages::{Messages, Outgoing};
use crate::request::{Send, State};
use crate::transport::{Node, Platform, Rest as SleepMode};

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

pub use direct::BYTES_MIN as LARGE_BYTES_MIN;
pub use immediate::Received;
pub use lanes::{Descriptors, Device, Devices, Hop, RailTraffic, Remote, Slot};
pub use report::Traffic;

/// How a peer is reached.
pub enum Path {
    /// It is this process.
    Myself,
    /// Through shared memory, as this process of the node.
    Shared(usize),
    /// Over the network.
    Remote(Box<Remote>),
    /// Not at all: the sentence says why.
    None(String),
}

struct Link {
    path: Path,
    pending: VecDeque<Outgoing>,
    waiting: bool,
    /// How payloads are written into the ring, if there is one.
    writer: Writer,
    /// Messages that have been put on the path, the announced ones included; the receiver counts the same.
    numbered: u32,
    messages: u64,
    bytes: u64,
}

impl Link {
    /// A message of so many bytes is put on the path; its number.
    #[inline]
    fn put(&mut self, bytes: u64) -> u32 {
        self.numbered = self.numbered.wrapping_add(1);
        self.note(bytes);
        self.numbered
    }

    /// A message has left, in whatever way.
    #[inline]
    fn note(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }
}

/// What the engine is made of.
pub struct Parts<P: Platform> {
    /// Its clock.
    pub platform: P,
    /// Index of this process in the job.
    pub rank: u32,
    /// How each process of the job is reached.
    pub paths: Vec<Path>,
    /// Name of the host of each, for messages to people.
    pub hosts: Vec<Arc<str>>,
    /// The node's rings, when there are peers on it.
    pub node: Option<P::Node>,
    /// The memory of other processes of the node.
    pub memory: P::Memory,
    /// Index in the job of each process of the node.
    pub locals: Vec<u32>,
    /// Process ids of peers whose memory may be read, by index in the job; 0 for the others.
    pub pids: Vec<i32>,
    /// The network, when there are peers on other nodes.
    pub devices: Devices,
    /// The job's secret, which tags every packet.
    pub secret: [u8; 16],
    /// Largest message that is sent without asking, in bytes.
    pub eager_limit: u64,
    /// After so much silence a peer of another node counts as failed; zero: never.
    pub peer_timeout: Duration,
}

/// The message layer on its links.
pub struct Engine<P: Platform> {
    platform: P,
    /// Index of this process in the job.
    pub rank: u32,
    /// Number of processes in the job.
    pub size: u32,
    /// Requests and matching.
    pub messages: Messages,
    links: Vec<Link>,
    node: Option<P::Node>,
    locals: Vec<u32>,
    memory: direct::PeerMemory<P>,
    direct: direct::Direct<P>,
    devices: Devices,
    awaited: awaited::Awaited,
    secret: [u8; 16],
    eager_limit: u64,
    frame_max: u64,
    /// Largest message that goes into a ring without a request, in bytes.
    immediate_max: u64,
    myself: VecDeque<Vec<u8>>,
    backlog: Vec<u32>,
    active: Vec<u32>,
    stalled: VecDeque<network::Stalled>,
    train: Vec<u8>,
    udp_looks: network::Looks,
    /// Idle flows that still have their memory.
    warm: VecDeque<u32>,
    /// What happened in flows that have been folded, until then.
    past: Counters,
    /// Somebody looks after messages that wait for others although no call of MPI comes.
    attended: bool,
    gathering: bool,
    scratch: Vec<u8>,
    passes: u32,
    /// The next pass looks at the network, whatever neighbours have sent.
    must_look: bool,
    /// There are peers on this node whose memory we may not read or write.
    copies_alone: bool,
    /// Whether this process may have been rung.
    doorbell_used: bool,
    /// More of a message could leave: it was time to look at what has arrived.
    turn_over: bool,
    /// Packets have arrived since that was last asked.
    packets_arrived: bool,
    /// Packets that cannot have come from a peer.
    foreign: u64,
}

impl<P: Platform> Engine<P> {
    /// Puts the parts together.
    pub fn new(mut parts: Parts<P>) -> Self {
        let size = parts.paths.len();
        let mut messages = Messages::new(size, P::ticks);
        for (peer, pid) in parts.pids.iter().enumerate() {
            messages.peers[peer].single_copy = *pid != 0;
        }
        messages.peers[parts.rank as usize].single_copy = true;
        let mut settings = Vec::new();
        for (peer, path) in parts.paths.iter_mut().enumerate() {
            match path {
                Path::Remote(remote) => {
                    messages.peers[peer].paced = true;
                    remote.share_settings(&mut settings);
                }
                // Receives from it must not wait for ever either.
                Path::None(reason) => messages.peers[peer].failed = Some(reason.clone()),
                Path::Myself | Path::Shared(_) => {}
            }
        }
        for (peer, host) in messages.peers.iter_mut().zip(parts.hosts) {
            peer.host = Some(host);
        }
        let link = |path| Link {
            path,
            pending: VecDeque::new(),
            waiting: false,
            writer: Writer::new(P::ticks),
            numbered: 0,
            messages: 0,
            bytes: 0,
        };
        let frame_max = parts.node.as_ref().map_or(0, |node| (node.frame_max() - HEAD_MAX) as u64);
        let train = network::train_room(&parts.devices);
        let streams = outgoing::is_wide(frame_max);
        let memory = direct::PeerMemory::new(parts.memory, parts.rank, parts.pids, parts.locals.clone(), streams);
        let copies_alone = parts.node.is_some() && !memory.copies();
        Self {
            platform: parts.platform,
            rank: parts.rank,
            size: size as u32,
            messages,
            links: parts.paths.into_iter().map(link).collect(),
            node: parts.node,
            locals: parts.locals,
            copies_alone,
            memory,
            direct: direct::Direct::new(size),
            awaited: awaited::Awaited::new(size, parts.peer_timeout),
            devices: parts.devices,
            udp_looks: network::Looks::default(),
            warm: VecDeque::new(),
            past: Counters::default(),
            attended: false,
            gathering: false,
            secret: parts.secret,
            eager_limit: parts.eager_limit,
            frame_max,
            immediate_max: parts.eager_limit.min(frame_max).min(outgoing::RING_PIECE_BYTES),
            myself: VecDeque::new(),
            backlog: Vec::new(),
            active: Vec::new(),
            stalled: VecDeque::new(),
            train,
            scratch: Vec::new(),
            passes: 0,
            must_look: false,
            doorbell_used: false,
            turn_over: false,
            packets_arrived: false,
            foreign: 0,
        }
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
        if self.messages.peers[peer as usize].failed.is_some() {
            let error = self.messages.failure(peer);
            self.messages.fail(handle, error);
            return;
        }
        let (blocking, bytes) = (send.blocking, send.data.len() as usize);
        self.enqueue(peer, Outgoing::Send { request: handle });
        self.settle();
        let link = &self.links[peer as usize];
        if !blocking && link.pending.is_empty() && matches!(link.path, Path::Remote(_)) {
            let state = self.messages.requests.get(handle).map(|request| &request.state);
            // An announcement is a small message: those of a window of large ones share packets.
            let announced = matches!(state, Some(State::Announced(_)));
            self.depart(peer, HEAD_MAX + if announced { 0 } else { bytes });
        } else if !self.active.is_empty() {
            self.transmit(self.platform.now());
        }
    }

    /// Posts the receive of the request `handle` (state `Posted`).
    #[inline(always)]
    pub fn start_receive(&mut self, handle: usize) {
        let room = self.messages.post(handle, &mut self.memory);
        // Posting alone brings nothing to send.
        if room.is_none_or(|room| room >= direct::BYTES_MIN) {
            self.follow_up(handle, room.is_some());
        }
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
        self.messages.claim(handle, envelope, unexpected, &mut self.memory);
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
                self.links[peer as usize].pending.retain(|out| !waits(out));
                request.status.cancelled = true;
                self.messages.complete(handle);
                return;
            }
            State::Announced(send @ Send { peer: Some(peer), .. }) => (*peer, send.envelope.context),
            // Data that has left is not called back: programs look at the status right after MPI_Cancel and take what
            // it says for final. Cancelling sends is deprecated (MPI-5.0 §3.8.4).
            _ => return,
        };
        if !std::mem::replace(&mut request.cancelling, true) {
            self.enqueue(peer, Outgoing::Control(Head::retract(context, wire)));
            self.flush();
        }
    }

    /// One pass: takes in what has arrived and sends what is due. True once in many passes: it is time to tell how this process stands.
    pub fn progress(&mut self) -> bool {
        self.passes = self.passes.wrapping_add(1);
        let is_check = self.passes.is_multiple_of(NODE_CHECK_EVERY);
        if is_check {
            self.check_node();
            self.must_look = true;
        }
        let arrived = self.poll_node() + self.poll_myself();
        self.progress_direct();
        let look = self.node.is_none()
            || (arrived == 0 && self.passes.is_multiple_of(NETWORK_EVERY))
            || !self.active.is_empty()
            || std::mem::take(&mut self.must_look);
        if self.has_network() && look {
            // One look at the clock serves the whole pass.
            let now = self.platform.now();
            self.poll_network(now);
            self.messages.look_for_grants(now);
            self.ask_awaited(now);
            self.settle();
            self.transmit(now);
        } else {
            self.settle();
        }
        is_check
    }

    /// Whether this process has copied something large, or taken packets in, since this was last asked.
    pub fn take_advance(&mut self) -> bool {
        std::mem::take(&mut self.packets_arrived) | self.take_copied() | self.owes_a_turn()
    }

    /// Whether more of a message can leave as soon as it has been looked at what has arrived.
    fn owes_a_turn(&self) -> bool {
        self.turn_over && !self.backlog.is_empty()
    }

    /// Peers of the node that have died or broken their ring.
    fn check_node(&mut self) {
        while let Some(fault) = self.node.as_mut().and_then(|node| node.poll_fault()) {
            self.peer_failed(self.locals[fault.peer], &fault.reason);
        }
    }

    fn poll_node(&mut self) -> usize {
        let Self { node, messages, memory, locals, .. } = self;
        let Some(node) = node else { return 0 };
        node.poll(FRAMES_PER_PASS, |from, frame| {
            memory.note_frame(frame.len());
            messages.handle_frame(locals[from], frame, memory);
        })
    }

    fn poll_myself(&mut self) -> usize {
        let mut frames = 0;
        while let Some(frame) = self.myself.pop_front() {
            self.messages.handle_frame(self.rank, &frame, &mut self.memory);
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
        self.settle();
        if !self.active.is_empty() {
            self.transmit(self.platform.now());
        }
    }

    fn peer_failed(&mut self, peer: u32, reason: &str) {
        let reason = match &self.links[peer as usize].path {
            Path::Remote(remote) => format!("{reason} (at {})", remote.addresses()),
            _ => reason.to_owned(),
        };
        let link = &mut self.links[peer as usize];
        link.pending.clear();
        link.path = Path::None(reason.clone());
        self.active.retain(|active| *active != peer);
        self.backlog.retain(|waiting| *waiting != peer);
        link.waiting = false;
        self.withdraw_receives_from_anybody(peer);
        self.messages.peer_failed(peer, &reason);
    }

    /// Whether nothing of ours is still on its way.
    pub fn is_quiet(&self) -> bool {
        self.backlog.is_empty()
            && self.myself.is_empty()
            && self.messages.outbox.is_empty()
            && self.links.iter().all(|link| match &link.path {
                Path::Remote(remote) => remote.flow.as_ref().is_none_or(|flow| flow.is_idle()),
                _ => true,
            })
    }

    /// Whether something is under way that needs a look at a certain time.
    pub fn has_deadlines(&self) -> bool {
        !self.active.is_empty() || !self.backlog.is_empty() || self.messages.grants.next_timeout().is_some()
    }

    /// Whether there are peers on other nodes.
    pub fn has_network(&self) -> bool {
        !self.devices.is_empty()
    }

    /// In how many nanoseconds something is due that nobody wakes us for; `None`: never.
    pub fn due(&self) -> Option<u64> {
        let mut span = (!self.backlog.is_empty() || !self.stalled.is_empty()).then_some(FULL_RING_RETRY_NS);
        let grants = self.messages.grants.next_timeout();
        if self.active.is_empty() && grants.is_none() {
            return span;
        }
        let now = self.platform.now();
        if let Some(due) = grants.map(|at| at.since(now).as_nanos()) {
            span = Some(span.map_or(due, |shortest| shortest.min(due)));
        }
        for peer in &self.active {
            let Path::Remote(remote) = &self.links[*peer as usize].path else { continue };
            if let Some(due) = remote.next_timeout() {
                let due = due.since(now).as_nanos();
                span = Some(span.map_or(due, |shortest| shortest.min(due)));
            }
        }
        span
    }

    /// What a thread has to watch so that it can make progress for us: network and doorbell.
    pub fn watched(&self) -> (Vec<i32>, Option<i32>) {
        let network = self.devices.descriptors().into_iter().flatten().filter(|fd| *fd >= 0).collect();
        (network, self.node.as_ref().map(Node::doorbell_fd))
    }

    /// Whether large messages of the node need a hand of their receiver or sender while the other is inside MPI.
    #[inline]
    pub fn node_needs_help(&self) -> bool {
        self.copies_alone
    }

    /// A thread of this process watches the doorbell from now on; `false` when something has arrived already.
    pub fn arm_for_thread(&mut self) -> bool {
        self.doorbell_used = true;
        self.node.as_mut().is_none_or(|node| node.arm(SleepMode::Thread))
    }

    /// It does no more.
    pub fn disarm_for_thread(&mut self) {
        if let Some(node) = &mut self.node {
            node.disarm();
        }
    }

    /// Gets ready to sleep: what to sleep on, and for how long at most (nanoseconds). `None` when there is something
    /// to do already.
    pub fn prepare_sleep(&mut self) -> Option<Sleep<P>> {
        if self.owes_a_turn()
            || !self.myself.is_empty()
            || !self.messages.outbox.is_empty()
            || self.messages.may_grant()
        {
            return None;
        }
        let timeout = self.due().into_iter().chain(self.asking_due()).min();
        let network = self.devices.descriptors();
        let Some(node) = &mut self.node else {
            return Some(Sleep { rest: Rest::Descriptors { doorbell: None, network }, timeout });
        };
        if !self.devices.is_empty() {
            let rest = Rest::Descriptors { doorbell: Some(node.doorbell_fd()), network };
            return node.arm(SleepMode::Doorbell).then_some(Sleep { rest, timeout });
        }
        node.arm(SleepMode::Futex).then(|| Sleep { rest: Rest::Neighbours(node.sleeper()), timeout })
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

    /// Processes of the job on this node.
    pub fn locals(&self) -> usize {
        self.locals.len()
    }

    /// Whether `members` are all on this node, which has fewer processors than processes; the same at all of them.
    pub fn take_turns(&self, members: &[u32]) -> bool {
        self.is_crowded()
            && (self.locals.len() == self.size as usize || members.iter().all(|member| self.locals.contains(member)))
    }

    /// Whether this node has fewer processors than processes.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.node.as_ref().is_some_and(Node::is_crowded)
    }

    /// Processes of the node that want a processor, as far as MPI knows.
    pub fn awake(&self) -> usize {
        self.node.as_ref().map_or(1, Node::awake)
    }

    /// After the sleep.
    pub fn finish_sleep(&mut self) {
        if let Some(node) = &mut self.node {
            node.disarm();
            if !self.devices.is_empty() || self.doorbell_used {
                node.drain_doorbell();
            }
        }
        self.check_node();
        // The network is looked at in the very next pass.
        self.must_look = true;
        self.udp_looks = network::Looks::now();
    }
}

/// How a waiter sleeps.
pub struct Sleep<P: Platform> {
    /// On what.
    pub rest: Rest<P>,
    /// At most so many nanoseconds.
    pub timeout: Option<u64>,
}

/// What a waiter sleeps on.
pub enum Rest<P: Platform> {
    /// Only processes of the node can have something for us.
    Neighbours(<P::Node as Node>::Sleeper),
    /// Descriptors that become readable.
    Descriptors {
        /// When a process of the node has something for us.
        doorbell: Option<i32>,
        /// When a packet is here.
        network: Descriptors,
    },
}
