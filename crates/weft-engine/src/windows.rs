//! Windows of one-sided operations (MPI-5.0 §12): what this process exposes, what it has begun at others, and
//! what others have asked of it.
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
//! Records (`weft_core::one_sided`) are collected for each target, and leave when a packet is full or
//! something is to be waited for. The target does what they say in any pass of progress, so that it need not
//! call MPI for that: the progress thread makes such passes. `engine/windows.rs` moves all this.

mod exposed_memory;
mod source;
mod target;

use std::collections::VecDeque;
use std::sync::Arc;

use weft_core::one_sided::LockQueue;

use crate::carriers::Registered;
use crate::error::Error;
use crate::group::{Group, PeerId};
use crate::handle::{Kind, Slab};
use crate::memory::{Exposed, SharedBuffer, UserData};
use crate::transport::RemoteMemory;

pub use exposed_memory::{Attached, ExposedMemory};
pub(crate) use source::{Accumulating, Batch, Source};
pub(crate) use target::{ForRequest, Placed, Target, Transfer};

/// Target datatypes that one process keeps of another for one window. The oldest is forgotten first.
pub const LAYOUTS_MAX: usize = 64;

/// As few batches that leave are looked through for those that have left.
pub(crate) const LEAVING_MIN: usize = 64;

/// Records of a program that calls MPI no more leave after so many nanoseconds.
const COLLECTED_DUE_NS: u64 = 50_000;

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
    pub exposed_memory: ExposedMemory,
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
    pub exposed_memory: ExposedMemory,
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
    /// Some records have been collected and have not left: they do in the next pass of progress, so that a
    /// program which waits for their effect need not know that it must flush.
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
    /// Records that made no sense, and operations that named what is not exposed. The origin of the latter
    /// hears of it (decision 0194).
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
        let NewWindow { context, communicator, group, rank, exposed_memory, reaches } = new;
        let sources = reaches.iter().map(|_| Source::default()).collect();
        let window = Box::new(Window {
            context,
            communicator,
            group,
            rank,
            exposed_memory,
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

impl Window {
    /// The name of the process of this rank among the engine's peers.
    pub fn member(&self, rank: u32) -> PeerId {
        self.group.members[rank as usize]
    }

    /// How many processes it has.
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// An epoch needs a `MPI_Win_post` or `MPI_Win_complete` of each of `ranks`: they are asked whether they
    /// live.
    pub fn await_ranks(&mut self, ranks: &[u32]) {
        let own = self.rank;
        self.awaited.extend(ranks.iter().filter(|rank| **rank != own));
    }

    /// It needs them no more.
    pub fn await_no_more(&mut self, ranks: &[u32]) {
        for rank in ranks {
            if let Some(index) = self.awaited.iter().position(|awaited| awaited == rank) {
                self.awaited.swap_remove(index);
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

    /// Whether all that is answered which was asked up to a mark, and all messages are over that had been
    /// begun then.
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

    /// The window is about to be freed: what others have been sent must have been done there, also what
    /// nobody waits for. It could come later than the news that this process has done all, and would be taken
    /// for what is meant for another window.
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

    /// The transfer to `rank` that was begun last stands for something that was begun long before: whoever
    /// waits for that waits for it.
    pub(crate) fn advance_last_transfer(&mut self, rank: u32, is_requested: bool) {
        let target = &mut self.targets[rank as usize];
        if is_requested {
            target.requested.rotate_right(1);
            target.requested.first_mut().into_iter().for_each(|first| first.number = 0);
        } else if let Some(last) = target.transfers.pop_back() {
            target.transfers.push_front(Transfer { number: 0, ..last });
        }
    }

    /// The tag of a message that carries what this process puts (or accumulates) at another, or what it gets
    /// from there. Both ends of a pair count for themselves, and what one puts goes the way of what the other
    /// gets: the first have even tags, the second odd ones.
    pub(crate) fn take_tag(&mut self, gets: bool) -> i32 {
        let tag = self.next_tag;
        // Long before a tag comes again, its message has been received.
        self.next_tag = if tag >= i32::MAX - 2 { FIRST_TAG } else { tag + 2 };
        #[cfg(weft_mutant = "put_taken_for_get")]
        let gets = gets && tag < 0;
        tag + i32::from(gets)
    }
}
