//! The table of peers: one structure for each process that this one can reach, whatever it is reached by. It
//! grows and shrinks; processes that are spawned, accepted or reached through a session are peers like any
//! other.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use weft_core::process::ProcessName;

use crate::carriers::Remote;
use crate::group::PeerId;
use crate::jobs::{JobKey, Member};
use crate::memory::{Copier, Writer};
use crate::messages::{self, Announced, Outgoing};
use crate::transport::{Node, Platform, PostedReceives};

/// A table of posted receives, as this platform has it.
pub(crate) type Table<P> = <<<P as Platform>::Node as Node>::Posted as PostedReceives>::Table;

/// How a peer is reached. `R`: what goes to it through the carriers, when it is added; later the engine's
/// network keeps that.
pub enum Route<R = Box<Remote>> {
    /// It is this process.
    Myself,
    /// Through shared memory, as this process of the node.
    Shared(usize),
    /// Over the network.
    Remote(R),
    /// Not at all: the sentence says why.
    None(String),
}

impl Route {
    /// The route, and what the network is to keep of it.
    fn split(self) -> (Route<()>, Option<Box<Remote>>) {
        match self {
            Self::Myself => (Route::Myself, None),
            Self::Shared(local_rank) => (Route::Shared(local_rank), None),
            Self::Remote(remote) => (Route::Remote(()), Some(remote)),
            Self::None(reason) => (Route::None(reason), None),
        }
    }
}

/// What makes a peer.
pub struct NewPeer {
    /// Its name; of another job only when that has been met ([`crate::engine::Engine::meet_job`]).
    pub name: ProcessName,
    /// The index by which it knows this process, which packets to it carry: within a job the number of this
    /// process, else what the other one has told.
    pub own_index: u32,
    /// How it is reached.
    pub route: Route,
    /// Its process id on this node, if its memory may be read and written; 0 if not.
    pub process: i32,
    /// Name of its host, for messages to people.
    pub host: Option<Arc<str>>,
}

/// Everything that is known of one peer.
pub struct Peer<P: Platform> {
    id: PeerId,
    job: JobKey,
    number: u32,
    /// It is this process, or one of its node, reached or not.
    is_near: bool,
    /// How it is reached.
    pub(crate) route: Route<()>,
    /// What waits until there is room on the route.
    pub(crate) pending: VecDeque<Outgoing>,
    /// It is in the engine's backlog.
    pub(crate) waiting: bool,
    /// The first message that waits needs room at its receiver, who will say whether there is any; what needs
    /// none goes ahead of it: so many of those that wait.
    pub(crate) ahead_of_room: Option<usize>,
    /// How payloads are written into the ring, if there is one.
    pub(crate) writer: Writer,
    /// Messages that have been put on the route, the announced ones included; the receiver counts the same.
    numbered: u32,
    messages: u64,
    bytes: u64,
    /// What the message layer knows of it.
    pub(crate) matching: messages::Peer,
    /// Its process id on this node, if its memory may be read and written; 0 if not.
    pub(crate) process: i32,
    /// The table on which this process posts receives from it, once it has.
    pub(crate) own_table: Option<Box<Table<P>>>,
    /// The table on which it posts receives from this process, once it has.
    pub(crate) their_table: Option<Box<Table<P>>>,
    /// Something waited for it at the time of the last round of questions.
    pub(crate) waited_for: bool,
}

impl<P: Platform> Peer<P> {
    /// Its number in its job, which is its rank in that job's `MPI_COMM_WORLD`.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The job that it belongs to.
    pub(crate) fn job(&self) -> JobKey {
        self.job
    }

    /// Whether it was started together with this process.
    pub fn is_of_own_job(&self) -> bool {
        self.job == JobKey::OWN
    }

    /// How it is reached.
    pub fn route(&self) -> &Route<()> {
        &self.route
    }

    /// Messages that have been put on the route.
    pub(crate) fn numbered(&self) -> u32 {
        self.numbered
    }

    /// A message of so many bytes is put on the route; its number.
    #[inline]
    pub(crate) fn put(&mut self, bytes: u64) -> u32 {
        self.numbered = self.numbered.wrapping_add(1);
        self.note(bytes);
        self.numbered
    }

    /// A message has left, in whatever way.
    #[inline]
    pub(crate) fn note(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }

    /// Eager bytes of it that have been consumed here, and of which it does not know yet.
    pub fn uncredited(&self) -> u64 {
        self.matching.uncredited()
    }

    /// Messages and bytes of payload that have left for it, and bytes that may still be sent to it unasked.
    pub fn traffic(&self) -> [u64; 3] {
        [self.messages, self.bytes, self.matching.credit]
    }
}

/// What processes of one node have under way with each other beside their rings.
pub(crate) struct Neighbours<P: Platform> {
    /// Copies from and to their memory.
    pub(crate) copier: Copier<P::Memory>,
    /// Where our receives from anybody stand, once there has been one.
    pub(crate) common: Option<Table<P>>,
    /// Each process of the node, by its local rank.
    pub(crate) by_local_rank: Vec<PeerId>,
    /// Peers without a table that we would have copied a message together with.
    pub(crate) without_table: Vec<PeerId>,
    /// Receives of which the senders still copy a part.
    pub(crate) cooperative: Vec<Announced>,
    /// Whether something large has been copied since that was last asked.
    pub(crate) copied: bool,
    /// Rings are large enough for what is copied by both sides at once.
    pub(crate) streams: bool,
    /// Smallest message of which both sides copy a part, bytes.
    pub(crate) cooperative_bytes_min: u64,
    /// There is somebody whose memory we may read.
    pub(crate) copies: bool,
}

/// A frame of so many bytes is a piece of something large.
const LARGE_FRAME_BYTES: usize = 4 << 10;

impl<P: Platform> Neighbours<P> {
    /// A frame of `bytes` bytes is here.
    #[inline]
    pub(crate) fn note_frame(&mut self, bytes: usize) {
        self.copied |= bytes >= LARGE_FRAME_BYTES;
    }

    /// `peer` is the process of the node with this local rank.
    pub(crate) fn note_local_rank(&mut self, local_rank: usize, peer: PeerId) {
        if self.by_local_rank.len() <= local_rank {
            // What is not known yet is this process, which nobody else is.
            self.by_local_rank.resize(local_rank + 1, PeerId::FIRST);
        }
        self.by_local_rank[local_rank] = peer;
    }
}

/// All peers.
pub struct Peers<P: Platform> {
    entries: Vec<Peer<P>>,
    /// Places of peers that have been removed, as the next ones there will be named.
    free: Vec<PeerId>,
    /// The peer with each index, by which packets say where they come from.
    indices: Vec<Option<PeerId>>,
    own: PeerId,
    /// Peers that are not on this node.
    far: usize,
    pub(crate) near: Neighbours<P>,
}

impl<P: Platform> Peers<P> {
    /// Only this process, which has this name.
    pub(crate) fn new(
        name: ProcessName,
        host: Option<Arc<str>>,
        memory: P::Memory,
        streams: bool,
        cooperative_bytes_min: u64,
    ) -> Self {
        let near = Neighbours {
            copier: Copier::new(memory),
            common: None,
            by_local_rank: Vec::new(),
            without_table: Vec::new(),
            cooperative: Vec::new(),
            copied: false,
            streams,
            cooperative_bytes_min,
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

    /// Adds a peer of this job, whose packets carry this index; and what the network is to keep of it.
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
            // Receives from it must not wait for ever either.
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
            numbered: 0,
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

    /// Removes a peer to which nothing leads any more; its index may be another's from now on.
    pub(crate) fn remove(&mut self, id: PeerId) {
        if id == self.own || self.get(id).is_none() {
            return;
        }
        let peer = &mut self.entries[id.index()];
        // The name of whoever comes next: the one that is removed leads nowhere from now on.
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

    /// Whether all `members` are on this node.
    pub(crate) fn are_near(&self, members: &[PeerId]) -> bool {
        self.far == 0 || members.iter().all(|peer| self.get(*peer).is_some_and(|peer| peer.is_near))
    }

    /// This process.
    #[inline]
    pub fn own(&self) -> PeerId {
        self.own
    }

    /// The peer that `id` names, unless it has been removed.
    #[inline(always)]
    pub fn get(&self, id: PeerId) -> Option<&Peer<P>> {
        self.entries.get(id.index()).filter(|peer| peer.id == id)
    }

    /// The same, to change it.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer<P>> {
        self.entries.get_mut(id.index()).filter(|peer| peer.id == id)
    }

    /// The peer whose packets carry this index.
    #[inline]
    pub(crate) fn of_index(&self, index: u32) -> Option<PeerId> {
        *self.indices.get(index as usize)?
    }

    /// The process with this number of this process's own job, whose index its number is.
    #[inline]
    pub fn find(&self, number: u32) -> Option<PeerId> {
        self.of_index(number).filter(|id| self.get(*id).is_some_and(Peer::is_of_own_job))
    }

    /// Indices below this one are those of this process's own job.
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

    /// How many entries there are; those of removed peers count.
    pub(crate) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// The peer at an index, unless it has been removed.
    pub(crate) fn at(&self, index: usize) -> Option<PeerId> {
        self.entries.get(index).map(|peer| peer.id).filter(|id| !self.free.contains(id))
    }
}

/// A peer that is there: what the engine keeps of one that has been removed was let go before.
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
