//! The table of peers: one structure for each process that this one can reach, by any route.
//!
//! The table grows and shrinks: processes that are spawned, accepted or reached through a session are peers
//! like any other.
//!
//! `engine/point_to_point.rs` adds and removes peers; the message layer sees the table as a
//! [`messages::PeerAccess`].

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use weft_core::process::ProcessName;

use crate::carriers::Remote;
use crate::group::PeerId;
use crate::jobs::{JobKey, Member};
use crate::memory::{Copier, Writer};
use crate::messages::{self, Announced, Outgoing};
use crate::protocols::{CostModel, EarlyAnnouncements, KernelTrials, Overlap, PeerWindows, Refinement, Streams};
use crate::transport::{Node, Platform, PostedReceives};
use crate::waiting::Stall;

/// The table of posted receives of this platform.
pub(crate) type Table<P> = <<<P as Platform>::Node as Node>::Posted as PostedReceives>::Table;

/// The route to a peer. `R` holds the carriers' part when the peer is added; later the engine's network keeps
/// that.
pub enum Route<R = Box<Remote>> {
    /// The peer is this process.
    Myself,
    /// Through shared memory; the number is the peer's local rank.
    Shared(usize),
    /// Over the network.
    Remote(R),
    /// No route: the sentence says why.
    None(String),
}

impl Route {
    /// Splits the route from the part that the network is to keep.
    fn split(self) -> (Route<()>, Option<Box<Remote>>) {
        match self {
            Self::Myself => (Route::Myself, None),
            Self::Shared(local_rank) => (Route::Shared(local_rank), None),
            Self::Remote(remote) => (Route::Remote(()), Some(remote)),
            Self::None(reason) => (Route::None(reason), None),
        }
    }
}

/// The parts from which a peer is made.
pub struct NewPeer {
    /// The peer's name; a peer of another job only when that job has been met
    /// ([`PointToPoint::meet_job`](crate::engine::PointToPoint::meet_job)).
    pub name: ProcessName,
    /// The index by which the peer knows this process; packets to the peer carry it. Within a job it is the
    /// number of this process. A peer of another job has told it.
    pub own_index: u32,
    /// The route to the peer.
    pub route: Route,
    /// The peer's process id on this node, if its memory may be read and written; 0 if not.
    pub process: i32,
    /// The name of the peer's host, for messages to people.
    pub host: Option<Arc<str>>,
}

/// The engine's record of one peer.
pub struct Peer<P: Platform> {
    id: PeerId,
    job: JobKey,
    number: u32,
    /// Set if the peer is this process, or a process of its node, reached or not.
    is_near: bool,
    /// The route to the peer.
    pub(crate) route: Route<()>,
    /// Items that wait until there is room on the route.
    pub(crate) pending: VecDeque<Outgoing>,
    /// Set while the peer is in the engine's backlog.
    pub(crate) waiting: bool,
    /// The number of waiting items that go ahead of the first message that needs room at the receiver; set
    /// while there is such a message. These items need no room, and the receiver will say when there is room
    /// for the message.
    pub(crate) ahead_of_room: Option<usize>,
    /// The writer that puts payloads into the ring, if there is one.
    pub(crate) writer: Writer,
    /// The windows of nonblocking large messages to and from the peer, if it is a process of this node.
    pub(crate) windows: PeerWindows,
    /// The looks at the peer while messages to it stand still, if it is a process of this node.
    pub(crate) stall: Stall,
    /// Set if the peer has written a message to a receive of this process since this process last fetched one
    /// from it: the memory of receives may still lie in the cache of the peer's processor.
    pub(crate) has_written: bool,
    /// The announcements of messages to the peer that could be sent eagerly.
    pub(crate) early_announcements: EarlyAnnouncements,
    /// The number of messages put on the route, the announced ones included; the receiver counts the same
    /// messages.
    numbered: u32,
    /// The last messages in a row that this process announced, and then wrote itself: the number of the last
    /// one, and their count.
    written: (u32, u32),
    messages: u64,
    bytes: u64,
    /// The message layer's part of the peer.
    pub(crate) matching: messages::Peer,
    /// The peer's process id on this node, if its memory may be read and written; 0 if not.
    pub(crate) process: i32,
    /// The table on which this process posts receives from the peer, once there is one.
    pub(crate) own_table: Option<Box<Table<P>>>,
    /// The table on which the peer posts receives from this process, once there is one.
    pub(crate) their_table: Option<Box<Table<P>>>,
    /// Set if an operation waited for the peer at the time of the last round of questions.
    pub(crate) waited_for: bool,
}

impl<P: Platform> Peer<P> {
    /// The peer's number in its job, which is its rank in that job's `MPI_COMM_WORLD`.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The job of the peer.
    pub(crate) fn job(&self) -> JobKey {
        self.job
    }

    /// Returns whether the peer was started together with this process.
    pub fn is_of_own_job(&self) -> bool {
        self.job == JobKey::OWN
    }

    /// The route to the peer.
    pub fn route(&self) -> &Route<()> {
        &self.route
    }

    /// The number of messages that have been put on the route.
    pub(crate) fn numbered(&self) -> u32 {
        self.numbered
    }

    /// The number of messages in a row, up to message `last`, that this process announced and then wrote.
    pub(crate) fn written_up_to(&self, last: u32) -> u32 {
        if self.written.0 == last { self.written.1 } else { 0 }
    }

    /// Notes that the message `number` was announced, and has been written to its receive.
    pub(crate) fn note_announced_written(&mut self, number: u32) {
        self.written = (number, self.written_up_to(number.wrapping_sub(1)).saturating_add(1));
    }

    /// Counts a message of this many bytes that is put on the route; returns its number.
    #[inline]
    pub(crate) fn put(&mut self, bytes: u64) -> u32 {
        self.numbered = self.numbered.wrapping_add(1);
        self.note(bytes);
        self.numbered
    }

    /// Counts a message that has left, by any route.
    #[inline]
    pub(crate) fn note(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }

    /// Eager bytes of the peer that have been consumed here, and whose credit it has not got back yet.
    pub fn uncredited(&self) -> u64 {
        self.matching.uncredited()
    }

    /// The messages and the payload bytes that have left for the peer, and the eager bytes that may still be
    /// sent to it.
    pub fn traffic(&self) -> [u64; 3] {
        [self.messages, self.bytes, self.matching.credit]
    }
}

/// The state that processes of one node share beside their rings.
pub(crate) struct Neighbours<P: Platform> {
    /// Copies from and to the memory of neighbours.
    pub(crate) copier: Copier<P::Memory>,
    /// The table of this process's receives from any source, once there has been one.
    pub(crate) common: Option<Table<P>>,
    /// The processes of the node, by local rank.
    pub(crate) by_local_rank: Vec<PeerId>,
    /// Announced messages that have their receives, and that this process has still to fetch.
    pub(crate) due: VecDeque<Announced>,
    /// Receives of which the sender still copies a part.
    pub(crate) cooperative: Vec<Announced>,
    /// Set when something large has been copied since the last time that this was asked.
    pub(crate) copied: bool,
    /// Whether both sides of a ring copy large data at once.
    pub(crate) streams: Streams,
    /// Whether the program computes between the start of large messages and its wait for them.
    pub(crate) overlap: Overlap,
    /// The trials among announced messages that this process would ask for through a ring.
    pub(crate) trials: KernelTrials,
    /// The smallest message of which both sides copy a part, in bytes.
    pub(crate) cooperative_bytes_min: u64,
    /// Whether copies take the time that the costs say.
    pub(crate) refinement: Refinement,
    /// Set if there is a peer whose memory this process may read.
    pub(crate) copies: bool,
}

/// The size from which on a frame counts as a piece of something large, in bytes.
const LARGE_FRAME_BYTES: usize = 4 << 10;

impl<P: Platform> Neighbours<P> {
    /// Notes a frame of `bytes` bytes that has arrived, or left.
    #[inline]
    pub(crate) fn note_frame(&mut self, bytes: usize) {
        self.copied |= bytes >= LARGE_FRAME_BYTES;
    }

    /// Notes that `peer` is the process of the node with this local rank.
    pub(crate) fn note_local_rank(&mut self, local_rank: usize, peer: PeerId) {
        if self.by_local_rank.len() <= local_rank {
            // A local rank that is not known yet leads to this process, which no neighbour is.
            self.by_local_rank.resize(local_rank + 1, PeerId::FIRST);
        }
        self.by_local_rank[local_rank] = peer;
    }
}

/// The table of all peers, by [`PeerId`].
pub struct Peers<P: Platform> {
    entries: Vec<Peer<P>>,
    /// Places of removed peers, each as the name that its next peer gets.
    free: Vec<PeerId>,
    /// The peer of each index; a packet names its sender by an index.
    indices: Vec<Option<PeerId>>,
    own: PeerId,
    /// The number of peers that are not on this node.
    far: usize,
    pub(crate) near: Neighbours<P>,
}

impl<P: Platform> Peers<P> {
    /// Makes a table with only this process, which has this name.
    pub(crate) fn new(
        name: ProcessName,
        host: Option<Arc<str>>,
        memory: P::Memory,
        streams: Streams,
        costs: &CostModel,
    ) -> Self {
        let near = Neighbours {
            copier: Copier::new(memory),
            common: None,
            by_local_rank: Vec::new(),
            due: VecDeque::new(),
            cooperative: Vec::new(),
            copied: false,
            streams,
            overlap: Overlap::default(),
            trials: KernelTrials::default(),
            cooperative_bytes_min: costs.cooperative_bytes_min(),
            refinement: Refinement::new(*costs),
            copies: false,
        };
        let own = PeerId::FIRST;
        let mut peers = Self { entries: Vec::new(), free: Vec::new(), indices: Vec::new(), own, far: 0, near };
        let myself = NewPeer { name, own_index: name.number, route: Route::Myself, process: 0, host };
        let (added, _) = peers.add(myself, JobKey::OWN, name.number);
        debug_assert!(added == own);
        peers[own].matching.single_copy = true;
        peers
    }

    /// The windows of messages to and from `peer`, and what is known of the program's waits for them.
    pub(crate) fn windows(&mut self, peer: PeerId) -> (&mut PeerWindows, &Overlap) {
        let Self { entries, near, .. } = self;
        (&mut entries[peer.index()].windows, &near.overlap)
    }

    /// Adds a peer of the job `job`, whose packets carry this index. Returns its id and the part that the
    /// network is to keep.
    pub(crate) fn add(&mut self, new: NewPeer, job: JobKey, index: u32) -> (PeerId, Option<Box<Remote>>) {
        let NewPeer { name: ProcessName { number, .. }, own_index, route, process, host } = new;
        let (route, mut remote) = route.split();
        let mut matching = messages::Peer::new(P::ticks);
        matching.host = host;
        matching.single_copy = process != 0;
        if let Some(remote) = &mut remote {
            matching.paced = !remote.is_ordered();
            matching.placed_min = remote.placed_min();
            remote.belongs_to(Member { job, number, own_index });
        }
        if let Route::None(reason) = &route {
            // Receives from the peer must not wait for ever either.
            matching.failed = Some(reason.clone());
        }
        self.near.copies |= process != 0;
        let is_near = matches!(route, Route::Myself | Route::Shared(_));
        self.far += usize::from(!is_near);
        let id = self.free.pop().unwrap_or_else(|| PeerId::new(self.entries.len(), 0));
        let peer = Peer {
            id,
            job,
            number,
            is_near,
            route,
            pending: VecDeque::new(),
            waiting: false,
            ahead_of_room: None,
            writer: Writer::new(P::ticks),
            windows: PeerWindows::default(),
            stall: Stall::default(),
            has_written: false,
            early_announcements: EarlyAnnouncements::default(),
            numbered: 0,
            written: (0, 0),
            messages: 0,
            bytes: 0,
            matching,
            process,
            own_table: None,
            their_table: None,
            waited_for: false,
        };
        match self.entries.get_mut(id.index()) {
            Some(entry) => *entry = peer,
            None => self.entries.push(peer),
        }
        let at = index as usize;
        if self.indices.len() <= at {
            self.indices.resize(at + 1, None);
        }
        self.indices[at] = Some(id);
        (id, remote)
    }

    /// Removes a peer to which nothing leads any more; another peer may have its index from now on.
    pub(crate) fn remove(&mut self, id: PeerId) {
        if id == self.own || self.get(id).is_none() {
            return;
        }
        let peer = &mut self.entries[id.index()];
        // The place gets the name of its next peer: the name of the removed peer leads nowhere from now on.
        peer.id = id.next_generation();
        self.far -= usize::from(!peer.is_near);
        (peer.pending, peer.own_table, peer.their_table) = (VecDeque::new(), None, None);
        peer.process = 0;
        self.free.push(peer.id);
        if let Some(known) = self.indices.iter_mut().find(|known| **known == Some(id)) {
            *known = None;
        }
        while matches!(self.indices.last(), Some(None)) {
            self.indices.pop();
        }
    }

    /// Returns whether all `members` are on this node.
    pub(crate) fn are_near(&self, members: &[PeerId]) -> bool {
        self.far == 0 || members.iter().all(|peer| self.get(*peer).is_some_and(|peer| peer.is_near))
    }

    /// The id of this process.
    #[inline]
    pub fn own(&self) -> PeerId {
        self.own
    }

    /// The peer that `id` names, unless it has been removed.
    #[inline(always)]
    pub fn get(&self, id: PeerId) -> Option<&Peer<P>> {
        self.entries.get(id.index()).filter(|peer| peer.id == id)
    }

    /// The peer that `id` names, to change it.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer<P>> {
        self.entries.get_mut(id.index()).filter(|peer| peer.id == id)
    }

    /// The peer whose packets carry this index.
    #[inline]
    pub(crate) fn of_index(&self, index: u32) -> Option<PeerId> {
        *self.indices.get(index as usize)?
    }

    /// The process with this number in this process's own job; its index is its number.
    #[inline]
    pub fn find(&self, number: u32) -> Option<PeerId> {
        self.of_index(number).filter(|id| self.get(*id).is_some_and(Peer::is_of_own_job))
    }

    /// The first index above all indices of this process's own job.
    pub(crate) fn own_indices(&self) -> u32 {
        let own = |id: &Option<PeerId>| id.and_then(|id| self.get(id)).is_some_and(Peer::is_of_own_job);
        self.indices.iter().rposition(own).map_or(0, |last| last as u32 + 1)
    }

    /// Every peer, in order of its index.
    pub fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer<P>)> {
        self.entries.iter().filter(|peer| !self.free.contains(&peer.id)).map(|peer| (peer.id, peer))
    }

    /// Every peer, to change it.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (PeerId, &mut Peer<P>)> {
        let Self { entries, free, .. } = self;
        entries.iter_mut().filter(|peer| !free.contains(&peer.id)).map(|peer| (peer.id, peer))
    }

    /// The number of entries; those of removed peers count.
    pub(crate) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The peer at an index, unless it has been removed.
    pub(crate) fn at(&self, index: usize) -> Option<PeerId> {
        self.entries.get(index).map(|peer| peer.id).filter(|id| !self.free.contains(id))
    }
}

/// A peer that exists: the engine lets go all that it keeps of a peer before it removes the peer.
impl<P: Platform> Index<PeerId> for Peers<P> {
    type Output = Peer<P>;

    #[inline(always)]
    fn index(&self, id: PeerId) -> &Peer<P> {
        &self.entries[id.index()]
    }
}

impl<P: Platform> IndexMut<PeerId> for Peers<P> {
    #[inline(always)]
    fn index_mut(&mut self, id: PeerId) -> &mut Peer<P> {
        &mut self.entries[id.index()]
    }
}
