//! Windows of one-sided operations (MPI-5.0 §12): what this process exposes, what it has begun at others, and what others have asked of it.
//!
//! How an operation travels depends on where its target's memory is ([`Reach`]):
//!
//! | target | put and get | accumulates |
//! |---|---|---|
//! | this process | a copy | computed here |
//! | shared memory of the node | a copy | computed here, under the lock of that memory |
//! | other memory of the node | one copy between the two address spaces | records |
//! | another node | records; large ones are messages that go straight to the other side's memory | records |
//! | another node, over a carrier that writes to memory of peers and reads it | these are done by the carrier | records |
//!
//! Records (`weft_core::one_sided`) are collected for each target, and leave when a packet is full or something is to be waited for. The
//! target does what they say in any pass of progress, so that it need not call MPI for that: the progress thread makes such passes.
//! `engine/windows.rs` moves all this.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use weft_core::layout::{Element, Layout};
use weft_core::matching::Envelope;
use weft_core::one_sided::{LockQueue, Place};
use weft_core::reduce::Op;

use crate::carriers::Registered;
use crate::error::{Error, ErrorClass};
use crate::group::{Group, PeerId};
use crate::handle::{Kind, Slab};
use crate::memory::{Exposed, SharedBuffer, UserData};
use crate::transport::{Proof, RemoteMemory};

/// Target datatypes that one process keeps of another for one window. The oldest is forgotten first.
pub const LAYOUTS_MAX: usize = 64;

/// As few batches that leave are looked through for those that have left.
pub(crate) const LEAVING_MIN: usize = 64;

/// Records of a program that calls MPI no more leave after so many nanoseconds.
const COLLECTED_DUE_NS: u64 = 50_000;

/// What a process exposes.
pub enum Exposure {
    /// One run of memory.
    Whole(Exposed),
    /// What has been attached (MPI-5.0 §12.2.4): offsets are addresses.
    Attached(Attached),
}

/// Memory that has been attached to a dynamic window.
#[derive(Default)]
pub struct Attached {
    /// As the program has attached it, by address.
    parts: Vec<Exposed>,
    /// The same, adjacent parts together: an access may reach over several.
    runs: Vec<Exposed>,
}

impl Attached {
    /// Adds memory; false: some of it is attached already.
    pub fn attach(&mut self, part: Exposed) -> bool {
        let (begin, end) = (part.address(), part.address() + part.len());
        if self.parts.iter().any(|other| other.address() < end && begin < other.address() + other.len()) {
            return false;
        }
        let place = self.parts.partition_point(|other| other.address() < begin);
        self.parts.insert(place, part);
        self.join();
        true
    }

    /// Removes the memory that begins at this address; false: there is none.
    pub fn detach(&mut self, address: u64) -> bool {
        let Some(place) = self.parts.iter().position(|part| part.address() == address) else { return false };
        self.parts.remove(place);
        self.join();
        true
    }

    fn join(&mut self) {
        self.runs.clear();
        for part in &self.parts {
            match self.runs.last_mut().and_then(|last| last.joined(part)) {
                Some(joined) => _ = self.runs.last_mut().map(|last| *last = joined),
                None => self.runs.push(*part),
            }
        }
    }

    /// Memory without gaps, by address.
    pub fn runs(&self) -> &[Exposed] {
        &self.runs
    }
}

/// Where the memory of a target is.
#[derive(Clone, Copy)]
pub enum Reach {
    /// In this address space: this process's own, or shared by processes of the node.
    Mapped(Exposed),
    /// In the address space of another process of the node that lets this one copy: from this address on.
    Neighbour {
        /// Its process id.
        process: i32,
        /// Where its memory begins.
        address: u64,
        /// Its length in bytes.
        bytes: u64,
    },
    /// On another node, where our carrier writes and reads it by itself.
    Placed {
        /// Where its memory begins, as that carrier calls it.
        memory: RemoteMemory,
        /// Its length in bytes.
        bytes: u64,
    },
    /// Elsewhere, or where only its process can tell what is exposed.
    Records,
}

/// What makes a window.
pub struct NewWindow {
    /// The context of its messages.
    pub context: u32,
    /// Handle of the communicator that has this context.
    pub communicator: usize,
    /// Its processes.
    pub group: Arc<Group>,
    /// This process's rank among them.
    pub rank: u32,
    /// What this process exposes.
    pub exposure: Exposure,
    /// Where the memory of each of them is.
    pub reaches: Vec<Reach>,
}

/// A window.
pub struct Window {
    pub(crate) context: u32,
    pub(crate) communicator: usize,
    pub(crate) group: Arc<Group>,
    pub(crate) rank: u32,
    /// What this process exposes.
    pub exposure: Exposure,
    /// The same, as our carrier calls it, where peers' carriers may access it.
    pub(crate) registered: Option<Registered>,
    pub(crate) targets: Vec<Target>,
    pub(crate) sources: Vec<Source>,
    /// Answers that are waited for.
    pub(crate) answers: Slab<Answer>,
    /// The lock of what this process exposes.
    pub(crate) lock: LockQueue,
    /// Targets of which messages are under way, or records have been collected.
    pub(crate) busy: Vec<u32>,
    /// Processes that have sent what is not done yet.
    pub(crate) asking: Vec<u32>,
    /// Processes whose `MPI_Win_post` or `MPI_Win_complete` the epochs of this one need: once for each epoch.
    awaited: Vec<u32>,
    /// Tag of the next message that carries a large put or get.
    pub(crate) next_tag: i32,
}

/// What this process has begun at another.
pub(crate) struct Target {
    pub reach: Reach,
    /// Records that have not left.
    pub batch: Vec<u8>,
    /// Full batches before these, which wait until what is being written there is there.
    pub held: VecDeque<Vec<u8>>,
    /// Puts and gets that the carrier does, the last of those there have ever been the last: whether they are over.
    pub placed: VecDeque<bool>,
    /// How many of them there have ever been.
    pub placed_begun: u64,
    /// Puts among those that are not over.
    pub writes: u32,
    /// It has been asked for something since it last said that all is done.
    pub is_dirty: bool,
    /// The carrier has been given something to write there since it was last asked what shows that this is in place, and needs no answer for that.
    pub is_written: bool,
    /// Reads that are to show it ([`Proof::Read`]) which have ever been wanted, the last that has begun, and the last that is over.
    pub proofs: u64,
    pub proofs_begun: u64,
    pub proofs_ended: u64,
    /// How many answers must have come before what the carrier did not write after all is in place.
    pub refused: u64,
    /// It has been sent what nobody waits for, a lock that is given back, and nothing that is answered behind it.
    pub is_unanswered: bool,
    /// Answers of it that have ever been waited for, and those that have come: in this order, but for those to locks.
    pub asked: u64,
    pub answered: u64,
    /// Messages to and from it that are under way, in the order in which they were begun: only the first is looked at.
    pub transfers: VecDeque<Transfer>,
    /// Those of them for which a request of the program waits.
    pub requested: Vec<Transfer>,
    /// Those there have ever been.
    pub transferred: u64,
    /// Datatypes that it has been told.
    pub layouts: Vec<Layout>,
    /// Which of these is replaced next.
    pub layout_next: usize,
    /// What went wrong, until somebody asks.
    pub error: Option<Error>,
    pub is_busy: bool,
}

/// A put or get that the carrier does.
pub(crate) struct Placed {
    /// The index of its window.
    pub window: usize,
    pub target: u32,
    pub peer: PeerId,
    /// The how many-th at this target it is.
    pub number: u64,
    /// The program's memory.
    pub data: UserData,
    /// What of it no carrier has taken.
    pub range: Range<u64>,
    /// Bytes from the beginning of the target's window to where the first byte of `data` goes, or comes from.
    pub offset: u64,
    /// The same place, as the carrier calls it.
    pub there: RemoteMemory,
    pub writes: bool,
    /// Pieces that the carrier has.
    pub under_way: u32,
    /// The carrier had no room for what is left, and is asked again.
    pub waits: bool,
    /// The carrier does not take what is left.
    pub refused: bool,
    /// The program's request that completes with it.
    pub request: Option<usize>,
    /// It is a read that shows that what was written is in place, and so many have been wanted up to it.
    pub proof: Option<u64>,
}

/// The program's request that waits for something, and whether that is a part of what it waits for.
pub(crate) type ForRequest = (Option<usize>, bool);

/// A message that carries a large put or get, or a part of one.
pub(crate) struct Transfer {
    /// Which one to or from this target it is.
    pub number: u64,
    /// Its request in the message layer.
    pub handle: usize,
    /// The program's request that completes with it.
    pub request: Option<usize>,
    /// Others may be of the same access, and have the same request.
    pub is_part: bool,
    /// Bytes that a get asks for: fewer come where it is refused.
    pub expected: u64,
}

/// How far this process has come at a target: what has been begun there up to now.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub(crate) rank: u32,
    asked: u64,
    transferred: u64,
    placed: u64,
    proofs: u64,
}

impl Mark {
    /// The target.
    pub fn rank(&self) -> u32 {
        self.rank
    }
}

/// What another process has asked for.
#[derive(Default)]
pub(crate) struct Source {
    /// Batches that have arrived or are arriving, in order.
    pub batches: VecDeque<Batch>,
    /// Bytes of the first of them that have been dealt with.
    pub read: usize,
    /// Large puts that are arriving, and large gets that are leaving: only the first is looked at.
    pub transfers: VecDeque<usize>,
    /// What it accumulates when that has arrived; its later records wait for this.
    pub accumulating: Option<Accumulating>,
    /// Datatypes that it has told.
    pub layouts: Vec<Option<Layout>>,
    /// The class of what went wrong with its operations, until it asks.
    pub class: Option<ErrorClass>,
    /// `MPI_Win_post` of it that no `MPI_Win_start` here has taken.
    pub posts: u32,
    /// `MPI_Win_complete` of it that no `MPI_Win_wait` here has taken.
    pub completes: u32,
    pub is_asking: bool,
}

impl Source {
    /// Something of it went wrong: the first thing counts, until it asks.
    pub(crate) fn note_class(&mut self, class: ErrorClass) {
        self.class.get_or_insert(class);
    }
}

/// A large accumulate that is arriving.
pub(crate) struct Accumulating {
    pub handle: usize,
    pub buffer: SharedBuffer,
    pub place: Place,
    pub operation: (Op, Element),
}

/// Records that have arrived.
pub(crate) enum Batch {
    /// All of them.
    Whole(Vec<u8>),
    /// Their sender has them still, or is sending them: they are received when all before them has been done, and there is room. So a target keeps
    /// one of these of each origin.
    Announced { envelope: Envelope, unexpected: usize, bytes: u64 },
    /// They are arriving by this request.
    Arriving(usize, SharedBuffer),
}

/// Something that another process will answer.
pub(crate) struct Answer {
    pub target: u32,
    /// Where its data goes: from which packed byte on, and how many.
    pub data: Option<(UserData, u64, u64)>,
    /// The request that it completes …
    pub request: Option<usize>,
    /// … unless others come for it.
    pub is_last: bool,
}

impl Answer {
    /// The only one that is waited for by `request`.
    pub(crate) fn of(target: u32, data: Option<(UserData, u64, u64)>, request: Option<usize>) -> Self {
        Self { target, data, request, is_last: true }
    }
}

/// All windows of this process.
pub struct Windows {
    pub(crate) table: Vec<Option<Box<Window>>>,
    pub(crate) open: usize,
    /// Completions of the message layer that have been looked at.
    pub(crate) seen: u64,
    /// Batches that could not leave at once, by their requests.
    pub(crate) leaving: Vec<(usize, SharedBuffer)>,
    /// How many there may be before those are let go that have left.
    pub(crate) leaving_max: usize,
    /// A batch on its way out.
    pub(crate) outgoing: Option<SharedBuffer>,
    /// Some records have been collected and have not left: they do in the next pass of progress, so that a program which waits for their effect need
    /// not know that it must flush.
    pub(crate) has_collected: bool,
    /// Peers that are gone, which windows have not been told.
    pub(crate) failed: Vec<PeerId>,
    /// What carriers write and read.
    pub(crate) placed: Slab<Placed>,
    /// Those of them for which the carrier has had no room, by their handles.
    pub(crate) unbegun: VecDeque<usize>,
    /// Pieces that carriers have written or read, by the names of what they belong to.
    pub(crate) pieces_done: Vec<u32>,
    /// Where reads go whose data nobody wants.
    pub(crate) proof_data: Option<UserData>,
    /// Records that made no sense, and operations that named what is not exposed. The origin of the latter hears of it (decision 0194).
    pub refused: u64,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            table: Vec::new(),
            open: 0,
            seen: u64::MAX,
            leaving: Vec::new(),
            leaving_max: LEAVING_MIN,
            outgoing: None,
            has_collected: false,
            failed: Vec::new(),
            placed: Slab::new(Kind::Placed),
            proof_data: None,
            unbegun: VecDeque::new(),
            pieces_done: Vec::new(),
            refused: 0,
        }
    }
}

impl Windows {
    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// In how many nanoseconds records leave that have been collected.
    pub(crate) fn due(&self) -> Option<u64> {
        (self.has_collected || !self.unbegun.is_empty()).then_some(COLLECTED_DUE_NS)
    }

    /// Whether records have been collected that have not left.
    pub(crate) fn has_collected(&self) -> bool {
        self.has_collected
    }

    /// Whether there may be something to do, with so many completions up to now.
    #[inline]
    pub(crate) fn has_news(&self, completions: u64) -> bool {
        !self.is_empty() && (self.has_collected || !self.unbegun.is_empty() || self.seen != completions)
    }

    /// The carrier has done a piece of what is called so.
    pub(crate) fn note_piece(&mut self, name: u32) {
        self.pieces_done.push(name);
    }

    /// The window `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&Window> {
        self.table.get(index)?.as_deref()
    }

    /// The same, to change it.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Window> {
        self.table.get_mut(index)?.as_deref_mut()
    }

    /// Adds one; its index.
    pub fn open(&mut self, new: NewWindow) -> usize {
        let NewWindow { context, communicator, group, rank, exposure, reaches } = new;
        let sources = reaches.iter().map(|_| Source::default()).collect();
        let window = Box::new(Window {
            context,
            communicator,
            group,
            rank,
            exposure,
            registered: None,
            targets: reaches.into_iter().map(Target::new).collect(),
            sources,
            answers: Slab::new(Kind::Answer),
            lock: LockQueue::default(),
            busy: Vec::new(),
            asking: Vec::new(),
            awaited: Vec::new(),
            next_tag: FIRST_TAG,
        });
        self.open += 1;
        // What others have sent before this process had it is here already.
        self.seen = u64::MAX;
        match self.table.iter().position(Option::is_none) {
            Some(index) => {
                self.table[index] = Some(window);
                index
            }
            None => {
                self.table.push(Some(window));
                self.table.len() - 1
            }
        }
    }

    /// Removes one.
    pub fn close(&mut self, index: usize) {
        if self.table.get_mut(index).and_then(Option::take).is_some() {
            self.open -= 1;
        }
    }

    /// Visits the processes of other nodes without which something here does not go on.
    pub fn for_each_awaited(&self, visit: &mut dyn FnMut(PeerId)) {
        for window in self.table.iter().flatten() {
            // Who waits for a lock asks only who gives it, and that one asks who has it.
            let holders = window.lock.holders().filter(|_| window.lock.has_waiting());
            for rank in window.busy.iter().copied().chain(window.awaited.iter().copied()).chain(holders) {
                visit(window.group.members[rank as usize]);
            }
        }
    }

    /// Whether something is waited for.
    pub fn awaits(&self) -> bool {
        let awaits =
            |window: &Window| !window.busy.is_empty() || !window.awaited.is_empty() || window.lock.has_waiting();
        self.open > 0 && self.table.iter().flatten().any(|window| awaits(window))
    }
}

/// The tag of messages that are batches.
pub const BATCH_TAG: i32 = 0;
/// The first tag of those that carry what is large.
const FIRST_TAG: i32 = BATCH_TAG + 2;

impl Target {
    fn new(reach: Reach) -> Self {
        Self {
            reach,
            batch: Vec::new(),
            held: VecDeque::new(),
            placed: VecDeque::new(),
            placed_begun: 0,
            writes: 0,
            is_dirty: false,
            is_written: false,
            proofs: 0,
            proofs_begun: 0,
            proofs_ended: 0,
            refused: 0,
            is_unanswered: false,
            asked: 0,
            answered: 0,
            transfers: VecDeque::new(),
            requested: Vec::new(),
            transferred: 0,
            layouts: Vec::new(),
            layout_next: 0,
            error: None,
            is_busy: false,
        }
    }

    /// Whether nothing of this process is under way to it.
    pub(crate) fn is_idle(&self) -> bool {
        self.asked == self.answered
            && self.proofs == self.proofs_ended
            && self.transfers.is_empty()
            && self.requested.is_empty()
            && self.placed.is_empty()
            && self.batch.is_empty()
            && self.held.is_empty()
    }

    /// One more that the carrier does; its number.
    pub(crate) fn begin_placed(&mut self, writes: bool) -> u64 {
        self.placed.push_back(false);
        self.placed_begun += 1;
        self.writes += u32::from(writes);
        self.placed_begun
    }

    /// The carrier is given something to write.
    pub(crate) fn note_written(&mut self, proof: Proof) {
        match proof {
            Proof::Answer => self.is_dirty = true,
            Proof::Completion | Proof::Read => self.is_written = true,
        }
    }

    /// How many there have been before the first that is not over, and it.
    fn placed_first(&self) -> u64 {
        self.placed_begun - self.placed.len() as u64 + 1
    }

    /// The one of this number is over.
    pub(crate) fn end_placed(&mut self, number: u64, writes: bool) {
        let place = number.checked_sub(self.placed_first()).and_then(|place| usize::try_from(place).ok());
        if let Some(is_over) = place.and_then(|place| self.placed.get_mut(place)) {
            *is_over = true;
            self.writes -= u32::from(writes);
        }
        while self.placed.front() == Some(&true) {
            self.placed.pop_front();
        }
    }
}

impl Window {
    /// The name of the process of this rank among the engine's peers.
    pub fn member(&self, rank: u32) -> PeerId {
        self.group.members[rank as usize]
    }

    /// How many processes it has.
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// An epoch needs a `MPI_Win_post` or `MPI_Win_complete` of each of `ranks`: they are asked whether they live.
    pub fn await_ranks(&mut self, ranks: &[u32]) {
        let own = self.rank;
        self.awaited.extend(ranks.iter().filter(|rank| **rank != own));
    }

    /// It needs them no more.
    pub fn await_no_more(&mut self, ranks: &[u32]) {
        for rank in ranks {
            if let Some(place) = self.awaited.iter().position(|awaited| awaited == rank) {
                self.awaited.swap_remove(place);
            }
        }
    }

    /// Processes that have called `MPI_Win_post` for this one more often than it has taken.
    pub fn has_post_of(&self, rank: u32) -> bool {
        self.sources[rank as usize].posts > 0
    }

    /// A `MPI_Win_post` of `rank` is taken.
    pub fn take_post(&mut self, rank: u32) {
        let posts = &mut self.sources[rank as usize].posts;
        *posts = posts.saturating_sub(1);
    }

    /// The same for `MPI_Win_complete`.
    pub fn has_complete_of(&self, rank: u32) -> bool {
        self.sources[rank as usize].completes > 0
    }

    /// A `MPI_Win_complete` of `rank` is taken.
    pub fn take_complete(&mut self, rank: u32) {
        let completes = &mut self.sources[rank as usize].completes;
        *completes = completes.saturating_sub(1);
    }

    /// What has been begun at `rank` up to now.
    pub fn mark(&self, rank: u32) -> Mark {
        let Target { asked, transferred, placed_begun: placed, proofs, .. } = self.targets[rank as usize];
        Mark { rank, asked, transferred, placed, proofs }
    }

    /// Whether all that is answered which was asked up to a mark, and all messages are over that had been begun then.
    pub fn has_reached(&self, mark: &Mark) -> bool {
        let target = &self.targets[mark.rank as usize];
        let is_later = |first: Option<&Transfer>| first.is_none_or(|first| first.number > mark.transferred);
        target.answered >= mark.asked.max(target.refused)
            && target.proofs_ended >= mark.proofs
            && is_later(target.transfers.front())
            && is_later(target.requested.first())
            && target.placed_first() > mark.placed
    }

    /// What went wrong at `rank` since this was last asked.
    pub fn take_error(&mut self, rank: u32) -> Option<Error> {
        self.targets[rank as usize].error.take()
    }

    /// Whether nothing is under way to `rank`, and nothing has gone wrong there.
    #[inline]
    pub fn is_untouched(&self, rank: u32) -> bool {
        let target = &self.targets[rank as usize];
        !target.is_dirty && !target.is_written && target.error.is_none() && target.is_idle()
    }

    /// Whether the memory of `rank` is in this address space: operations on it are over as they return.
    #[inline]
    pub fn is_mapped(&self, rank: u32) -> bool {
        matches!(self.targets[rank as usize].reach, Reach::Mapped(_))
    }

    /// The window is about to be freed: what others have been sent must have been done there, also what nobody waits for. It could come
    /// later than the news that this process has done all, and would be taken for what is meant for another window.
    pub fn finish_unanswered(&mut self) {
        for target in &mut self.targets {
            target.is_dirty |= target.is_unanswered && !cfg!(weft_mutant = "window_freed_early");
        }
    }

    /// This process's rank.
    pub fn own_rank(&self) -> u32 {
        self.rank
    }

    /// The ranks that may not have done yet what this process has begun there.
    pub fn unfinished(&self) -> Vec<u32> {
        let is_unfinished = |target: &Target| target.is_dirty || target.is_written || !target.is_idle();
        (0..self.size()).filter(|rank| is_unfinished(&self.targets[*rank as usize])).collect()
    }

    /// Where the memory of `rank` is.
    #[inline]
    pub fn reach(&self, rank: u32) -> &Reach {
        &self.targets[rank as usize].reach
    }

    pub(crate) fn note_busy(&mut self, rank: u32) {
        if !std::mem::replace(&mut self.targets[rank as usize].is_busy, true) {
            self.busy.push(rank);
        }
    }

    pub(crate) fn note_asking(&mut self, rank: u32) {
        if !std::mem::replace(&mut self.sources[rank as usize].is_asking, true) {
            self.asking.push(rank);
        }
    }

    pub(crate) fn add_transfer(&mut self, rank: u32, handle: usize, (request, is_part): ForRequest, expected: u64) {
        let target = &mut self.targets[rank as usize];
        target.transferred += 1;
        let transfer = Transfer { number: target.transferred, handle, request, is_part, expected };
        match request {
            Some(_) => target.requested.push(transfer),
            None => target.transfers.push_back(transfer),
        }
        self.note_busy(rank);
    }

    /// The transfer to `rank` that was begun last stands for something that was begun long before: whoever waits for that waits for it.
    pub(crate) fn advance_last_transfer(&mut self, rank: u32, is_requested: bool) {
        let target = &mut self.targets[rank as usize];
        if is_requested {
            target.requested.rotate_right(1);
            target.requested.first_mut().into_iter().for_each(|first| first.number = 0);
        } else if let Some(last) = target.transfers.pop_back() {
            target.transfers.push_front(Transfer { number: 0, ..last });
        }
    }

    /// The tag of a message that carries what this process puts (or accumulates) at another, or what it gets from there. Both ends of a pair count for
    /// themselves, and what one puts goes the way of what the other gets: the first have even tags, the second odd ones.
    pub(crate) fn take_tag(&mut self, gets: bool) -> i32 {
        let tag = self.next_tag;
        // Long before a tag comes again, its message has been received.
        self.next_tag = if tag >= i32::MAX - 2 { FIRST_TAG } else { tag + 2 };
        #[cfg(weft_mutant = "put_taken_for_get")]
        let gets = gets && tag < 0;
        tag + i32::from(gets)
    }
}
