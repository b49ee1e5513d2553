//! The engine: joins the message layer to the carriers and moves both.
//!
//! Every peer has one route: it is this process itself, or reached through a ring in shared memory, or by a
//! reliable flow of datagrams. [`Engine::progress`] takes in what has arrived and sends what is due; it never
//! waits.
//!
//! | part | its state | what it does |
//! |---|---|---|
//! | [`PointToPoint`] | requests, peers, carriers | messages between two processes |
//! | [`OneSided`] | [`Windows`] | operations on the memory of other processes |
//! | [`Multicasts`] | [`Groups`] | messages to all hosts of a communicator |
//! | [`NodeCollectives`] | slots | collectives of the processes of a node, through memory that they share |
//!
//! The last three parts stand on the first, and reach it through a `Link` only.
//!
//! The process in `weft-mpi` calls the engine under its lock; `weft-sim` calls it in virtual time.

mod awaited;
mod eager_writes;
mod farewell;
mod immediate;
mod link;
mod multicast;
mod network;
mod outgoing;
mod placement;
mod point_to_point;
mod report;
mod single_copy;
mod sleep;
mod slots;
mod stalls;
mod windows;

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use weft_ordered::Map;

use weft_core::process::ProcessName;
use weft_core::time::{Duration, Instant};
use weft_core::wire::Secret;

use crate::carriers::{CarrierId, Carriers};
use crate::error::Result;
use crate::group::PeerId;
use crate::messages::Messages;
use crate::peers::Peers;
use crate::protocols::{Choices, CostModel};
use crate::transport::Platform;
use crate::windows::Windows;
use eager_writes::{EagerWrite, OF_AN_EAGER_WRITE};
use link::Link;
use multicast::Heard;
use network::Network;
use placement::ProgressOfWrites;
use single_copy::SingleCopies;

/// The most frames taken from the rings, and datagrams from the network, in one pass.
const FRAMES_PER_PASS: usize = 64;
/// The number of idle passes for each look at the network, with peers on this node: a look is a system call.
const NETWORK_EVERY: u32 = 16;
/// The number of passes after which peers of the node are checked for faults; a sleep is followed by a check
/// too.
const NODE_CHECK_EVERY: u32 = 1024;
/// Bytes that may wait in a flow before further messages queue with their requests instead.
const FLOW_QUEUE_BYTES: usize = 4 << 20;
/// The time after which a full outgoing ring is looked at again: its reader does not tell us of room.
const FULL_RING_RETRY_NS: u64 = 50_000;

pub use immediate::Received;
pub use multicast::{
    Groups, Multicasts, NewGroup, Path as GroupPath, Paths as GroupPaths, Reviewed, Standing as GroupStanding,
};
pub use point_to_point::Taken;
pub use report::Traffic;
pub use sleep::{Rests, Sleep, SleepOn};
pub use slots::NodeCollectives;
pub(crate) use slots::SlotWait;
pub use windows::{OneSided, TargetItems};

/// The parts from which an engine is built.
pub struct Parts<P: Platform> {
    /// The clock, and the kinds of carriers.
    pub platform: P,
    /// The name of this process.
    pub name: ProcessName,
    /// The name of the host of this process.
    pub host: Option<Arc<str>>,
    /// The node's rings, when there are peers on it.
    pub node: Option<P::Node>,
    /// The memory of other processes of the node.
    pub memory: P::Memory,
    /// The network, when there are peers on other nodes.
    pub carriers: Carriers,
    /// The job's secret, which tags every packet within it.
    pub secret: Secret,
    /// Largest message that is sent eagerly, in bytes; `None`: the limit that suits the route.
    pub eager_limit: Option<u64>,
    /// The costs of moving bytes on this machine, until the node has others
    /// ([`crate::transport::Node::costs`]).
    pub costs: CostModel,
    /// Memory for small unexpected messages beyond the credit of their senders, in bytes.
    pub unexpected_bytes: u64,
    /// The silence after which a peer of another node counts as failed; zero: never.
    pub peer_timeout: Duration,
}

/// Messages between two processes, over any route that leads from one to the other.
pub struct PointToPoint<P: Platform> {
    platform: P,
    /// Requests and matching.
    pub messages: Messages,
    /// All processes that can be reached.
    pub peers: Peers<P>,
    node: Option<P::Node>,
    single_copy: SingleCopies,
    /// The eager writes whose FIN has not come.
    eager_writes: Vec<EagerWrite>,
    network: Network,
    /// The eager limit that the user has set, for all routes.
    said_eager_limit: Option<u64>,
    /// Largest message that is sent eagerly where the route sets no lower limit, in bytes.
    eager_limit: u64,
    choices: Choices,
    /// The version of the node's costs by which `choices` was made; 0: it is older than all of them.
    costs_version: u32,
    frame_max: u64,
    /// Largest message that goes into a ring without a request, in bytes.
    immediate_max: u64,
    myself: VecDeque<Vec<u8>>,
    backlog: Vec<PeerId>,
    /// Set while items may wait for room at a peer of this node.
    is_full_on_node: bool,
    /// Synchronous sends to peers of this node that were not matched when they were last looked at.
    synchronous: Vec<usize>,
    /// Set while the next look may wake the progress thread of a neighbour, though nothing arrives before.
    looks_after_stalls: bool,
    scratch: Vec<u8>,
    passes: u32,
    /// The peers that write to memory of this process beside their flows.
    progress_of_writes: ProgressOfWrites,
    /// The sending of a message was interrupted to look at what has arrived: more of it could leave.
    turn_over: bool,
    /// Peers that have failed and of which the other parts have not been told yet.
    failed: Vec<PeerId>,
    /// The messages to processes of other jobs that are gone, by their link.
    past_messages: Map<&'static str, u64>,
}

/// Point-to-point communication, and the parts that stand on it.
///
/// A caller need not know which part runs an operation: the engine offers all that point-to-point
/// communication offers (docs/design/message.md).
pub struct Engine<P: Platform> {
    point_to_point: PointToPoint<P>,
    /// Windows of one-sided operations.
    pub windows: Windows,
    /// Multicast groups.
    pub groups: Groups,
    slots: slots::Slots,
    awaited: awaited::Awaited,
    /// Set when a neighbour may have rung the doorbell of this process.
    doorbell_used: bool,
    rests: Rests,
}

impl<P: Platform> Deref for Engine<P> {
    type Target = PointToPoint<P>;

    #[inline(always)]
    fn deref(&self) -> &PointToPoint<P> {
        &self.point_to_point
    }
}

impl<P: Platform> DerefMut for Engine<P> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut PointToPoint<P> {
        &mut self.point_to_point
    }
}

impl<P: Platform> Engine<P> {
    /// Builds an engine from its parts.
    pub fn new(parts: Parts<P>) -> Self {
        Self {
            windows: Windows::default(),
            groups: Groups::default(),
            slots: slots::Slots::default(),
            awaited: awaited::Awaited::new(parts.peer_timeout),
            point_to_point: PointToPoint::new(parts),
            doorbell_used: false,
            rests: Rests::default(),
        }
    }

    /// Returns the part for one-sided operations.
    #[inline(always)]
    pub fn one_sided(&mut self) -> OneSided<'_, P> {
        OneSided::new(&mut self.windows, Link::new(&mut self.point_to_point))
    }

    /// Checks that the process `rank` of a window can be waited for.
    ///
    /// # Errors
    /// It is gone, or the window has been revoked.
    pub fn check_member(&self, index: usize, rank: u32) -> Result<()> {
        let Some(window) = self.windows.get(index) else { return Ok(()) };
        match &window.revoked {
            Some(error) => Err(error.clone()),
            None => self.check_peer(window.member(rank)),
        }
    }

    /// Returns the part for collectives of the node's processes through shared memory.
    #[inline(always)]
    pub fn node_collectives(&mut self) -> NodeCollectives<'_, P> {
        NodeCollectives::new(&mut self.slots, Link::new(&mut self.point_to_point))
    }

    /// Returns the context that a slot serves, or has served last.
    pub fn last_context(&self, slot: u32) -> Option<u32> {
        self.slots.last_context(slot)
    }

    /// Returns whether a slot can serve another communicator: nobody reads what this process has published
    /// for the last one.
    pub fn is_slot_free(&self, slot: u32) -> bool {
        self.slots.is_free(slot, self.published())
    }

    /// The processes of the node for which an operation in the slots waits, some of them more than once.
    pub fn awaited_in_slots(&self) -> impl Iterator<Item = PeerId> + '_ {
        self.slots
            .awaited_local_ranks()
            .filter_map(|local_rank| self.peers.near.by_local_rank.get(local_rank as usize).copied())
    }

    /// Returns the part for messages to all hosts of a communicator at once.
    pub fn multicasts(&mut self) -> Multicasts<'_, P> {
        self.tell_failures();
        Multicasts::new(&mut self.groups, Link::new(&mut self.point_to_point))
    }

    /// Removes a peer: operations that wait for it fail, and nothing leads to it any more.
    ///
    /// Returns false when messages of the peer are kept that no receive has taken: then the peer stays, as
    /// one that is gone.
    pub fn remove_peer(&mut self, peer: PeerId) -> bool {
        if self.peers.get(peer).is_none() || peer == self.peers.own() {
            return false;
        }
        self.peer_failed(peer, "it has left");
        self.messages.recovery.forget(peer);
        self.tell_failures();
        self.single_copy.forget_peer(peer);
        self.network.cached.retain(|cached| *cached != peer);
        self.messages.outbox.retain(|(to, _)| *to != peer);
        if self.messages.keeps_messages_of(peer) {
            return false;
        }
        self.peers.remove(peer);
        true
    }

    /// Marks a peer as failed that somebody else knows to be dead, for this `reason`. Messages of it that are
    /// here already come first. A peer that has failed already, or that is not known, changes nothing.
    pub fn hear_of_death(&mut self, peer: PeerId, reason: &str) {
        if self.peers.get(peer).is_none() || peer == self.peers.own() {
            return;
        }
        self.network.must_look = true;
        self.progress();
        while self.poll_node() > 0 {}
        if self.check_peer(peer).is_ok() {
            self.peer_failed(peer, reason);
            self.tell_failures();
        }
    }

    /// Makes one pass of progress: takes in what has arrived and sends what is due. Returns true once in many
    /// passes: then it is time to tell how this process stands.
    pub fn progress(&mut self) -> bool {
        self.passes = self.passes.wrapping_add(1);
        let is_check = self.passes.is_multiple_of(NODE_CHECK_EVERY);
        if is_check {
            self.check_node();
            self.network.must_look = true;
        }
        let arrived = self.poll_node() + self.poll_myself();
        self.progress_single_copies();
        self.look_for_stalls();
        self.node_collectives().progress();
        let look = self.node.is_none()
            || (arrived == 0 && self.passes.is_multiple_of(NETWORK_EVERY))
            || !self.network.active.is_empty()
            || self.groups.are_active()
            || std::mem::take(&mut self.network.must_look);
        if self.has_network() && look {
            // One reading of the clock serves the whole pass.
            let now = self.platform.now();
            self.poll_network(now);
            self.one_sided().progress();
            self.look_after_writes(now);
            self.messages.look_for_grants(now);
            self.ask_awaited(now);
            self.drain_queues();
            self.transmit(now);
            self.multicasts().progress(now);
            self.tell_failures();
        } else {
            self.one_sided().progress();
            self.drain_queues();
        }
        is_check
    }

    /// Notes that the thread made no passes for this `span`, although a call waits or looks: it yielded its
    /// processor, or computed between two calls. The next pass looks at the network.
    #[inline]
    pub fn note_away(&mut self, span: Duration) {
        if self.has_network() {
            self.network.note_away(span);
        }
    }

    /// Takes in the packets that the carriers have, and notes the remote writes and reads that they have
    /// completed.
    fn poll_network(&mut self, now: Instant) {
        for id in self.network.looked_at() {
            if self.network.is_look_due(id) {
                let found = self.receive(id, now);
                self.network.note_found(id, found);
            }
        }
    }

    fn receive(&mut self, id: CarrierId, now: Instant) -> usize {
        let Self { point_to_point, groups, .. } = self;
        let (count, broken) = point_to_point.receive(id, now, &mut |stream, packet, secret, messages, peers| {
            let heard = groups.handle(now, stream, packet, secret, &mut |root, number, frame| {
                messages.handle_frame_on(root, number, frame, peers);
            });
            if heard == Heard::Test {
                messages.notify();
            }
            heard != Heard::Nothing
        });
        if self.network.carriers.attributes(id).remote_memory.is_some() {
            self.take_remote_completions(id);
            self.look_for_writes();
        }
        if let Some(to) = broken {
            self.connection_broke(&to);
        }
        self.tell_failures();
        count
    }

    /// Notes the remote writes and reads that a carrier has completed, and takes back memory that peers reach
    /// no more.
    fn take_remote_completions(&mut self, carrier: CarrierId) {
        while let Some(done) = self.network.carriers.rma(carrier).and_then(|rma| rma.poll_completion()) {
            if done & placement::OF_A_WINDOW != 0 {
                self.windows.note_piece(done as u32);
                self.messages.notify();
            } else if done & OF_AN_EAGER_WRITE != 0 {
                self.note_eager_write((done & !OF_AN_EAGER_WRITE) as usize);
            } else if done & placement::OF_A_STREAM != 0 {
                self.groups.note_written(done as u32);
            } else {
                self.note_placed(done);
            }
        }
        while let Some(written) = self.network.carriers.rma(carrier).and_then(|rma| rma.poll_written()) {
            self.note_written(carrier, written);
        }
        self.deregister_closed();
    }

    /// Checks the processes of the node: a process that has died or broken its ring fails.
    fn check_node(&mut self) {
        self.look_after_neighbours();
        self.give_up_stalled_writes();
        self.take_faults();
        self.tell_failures();
    }

    /// Tells the other parts of peers that have failed.
    #[inline]
    fn tell_failures(&mut self) {
        if !self.failed.is_empty() {
            self.take_failures();
        }
    }

    #[cold]
    fn take_failures(&mut self) {
        for peer in std::mem::take(&mut self.failed) {
            self.one_sided().leave_peer(peer);
            Multicasts::new(&mut self.groups, Link::new(&mut self.point_to_point)).leave_peer(peer);
        }
    }

    /// Returns whether nothing that this process has sent is still on its way.
    pub fn is_quiet(&self) -> bool {
        self.backlog.is_empty()
            && self.myself.is_empty()
            && self.messages.outbox.is_empty()
            && self.groups.are_idle()
            && self.peers.iter().all(|(_, peer)| peer.pending.is_empty())
            && self.network.remotes.iter().all(|remote| remote.is_idle(&self.network.carriers))
    }

    /// Returns whether something is under way that needs a look at a certain time.
    pub fn has_deadlines(&self) -> bool {
        !self.network.active.is_empty()
            || !self.backlog.is_empty()
            || self.windows.has_collected()
            || self.groups.are_active()
            || self.messages.grants.next_timeout().is_some()
    }

    /// The nanoseconds until something is due of which no event wakes this process; `None`: nothing is.
    pub fn due(&self) -> Option<u64> {
        let full = !self.backlog.is_empty() || !self.network.stalled.is_empty();
        let full = full.then_some(FULL_RING_RETRY_NS).or(self.slots.due());
        let mut span = full.into_iter().chain(self.windows.due()).min();
        let grants = self.messages.grants.next_timeout();
        let groups = self.groups.next_timeout().filter(|_| self.network.stalled.is_empty());
        let writes = self.progress_of_writes.next;
        let rarely = grants.into_iter().chain(groups).chain(writes).min();
        if self.network.active.is_empty() && rarely.is_none() {
            return span;
        }
        let now = self.platform.now();
        if let Some(due) = rarely.map(|at| at.since(now).as_nanos()) {
            span = Some(span.map_or(due, |shortest| shortest.min(due)));
        }
        // While the link has no room nothing leaves, even if it is due: a further look would bring nothing.
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

    /// Returns whether the next pass has work even if nothing arrives: then no thread may sleep.
    pub fn has_work(&self) -> bool {
        self.owes_a_turn()
            || self.owes_copies()
            || self.looks_after_early()
            || self.looks_after_offers()
            || self.looks_after_stalls
            || !self.failed.is_empty()
            || self.has_settled_eager_writes()
            || self.windows.has_news(self.messages.completions())
            || !self.myself.is_empty()
            || !self.messages.outbox.is_empty()
            || self.messages.may_grant()
    }
}
