//! Windows of one-sided operations (MPI-5.0 §12): exposed memory, the operations that this process has begun
//! at others, and the requests of others.
//!
//! The place of the target's memory decides how an operation travels ([`Reach`]):
//!
//! | target | put and get | accumulates |
//! |---|---|---|
//! | this process | a copy | computed here |
//! | shared memory of the node | a copy | computed here, under the lock of that memory |
//! | other memory of the node | one copy between the two address spaces | records |
//! | another node | records; large ones are messages that go straight to the other side's memory | records |
//! | another node, over a carrier that writes to memory of peers and reads it | done by the carrier | records |
//!
//! Records (`weft_core::one_sided`) are collected for each target. They leave when a packet is full or the
//! program waits. The target carries them out in any pass of progress, and the progress thread makes such
//! passes: so the target need not call MPI. `engine/windows.rs` moves the records.

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

/// The most target datatypes that one process keeps of another for one window. The oldest is forgotten first.
pub const LAYOUTS_MAX: usize = 64;

/// The number of leaving batches below which they are not searched for batches that have left.
pub(crate) const LEAVING_MIN: usize = 64;

/// The nanoseconds after which collected records leave even if the program calls MPI no more.
const COLLECTED_DUE_NS: u64 = 50_000;

/// The place of a target's memory.
#[derive(Clone, Copy)]
pub enum Reach {
    /// In this address space: the memory is this process's own, or shared by processes of the node.
    Mapped(Exposed),
    /// In the address space of another process of the node that lets this one copy.
    Neighbour {
        /// The process id of the target.
        process: i32,
        /// The address at which the memory begins.
        address: u64,
        /// The length in bytes.
        bytes: u64,
    },
    /// On another node, where this process's carrier writes and reads the memory by itself.
    Placed {
        /// The beginning of the memory, as that carrier addresses it.
        memory: RemoteMemory,
        /// The length in bytes.
        bytes: u64,
    },
    /// Elsewhere, or where only the target can tell what is exposed: records ask it.
    Records,
}

/// The parts from which a window is made.
pub struct NewWindow {
    /// The context of the window's messages.
    pub context: u32,
    /// The handle of the communicator that has this context.
    pub communicator: usize,
    /// The processes of the window.
    pub group: Arc<Group>,
    /// The rank of this process in the window.
    pub rank: u32,
    /// The memory that this process exposes.
    pub exposed_memory: ExposedMemory,
    /// The place of each process's memory, by rank.
    pub reaches: Vec<Reach>,
}

/// The state of one window at this process.
pub struct Window {
    pub(crate) context: u32,
    pub(crate) communicator: usize,
    pub(crate) group: Arc<Group>,
    pub(crate) rank: u32,
    /// The error of everything on the window, once it has been revoked.
    pub(crate) revoked: Option<Error>,
    /// The memory that this process exposes.
    pub exposed_memory: ExposedMemory,
    /// The registration of that memory with our carrier, where peers' carriers may access it.
    pub(crate) registered: Option<Registered>,
    pub(crate) targets: Vec<Target>,
    pub(crate) sources: Vec<Source>,
    /// Answers that this process waits for.
    pub(crate) answers: Slab<Answer>,
    /// The lock of the memory that this process exposes.
    pub(crate) lock: LockQueue,
    /// Targets with messages under way or with collected records.
    pub(crate) busy: Vec<u32>,
    /// Processes that have asked for something that is not done yet.
    pub(crate) asking: Vec<u32>,
    /// Processes whose `MPI_Win_post` or `MPI_Win_complete` the epochs of this process need: once for each
    /// epoch.
    awaited: Vec<u32>,
    /// The tag of the next message that carries a large put or get.
    pub(crate) next_tag: i32,
}

/// A mark in the stream of operations at a target: all that this process has begun there up to now.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub(crate) rank: u32,
    asked: u64,
    transferred: u64,
    placed: u64,
    proofs: u64,
}

impl Mark {
    /// The rank of the target.
    pub fn rank(&self) -> u32 {
        self.rank
    }
}

/// An answer that another process owes.
pub(crate) struct Answer {
    pub target: u32,
    /// The memory for the answer's data: the first packed byte, and the number of bytes.
    pub data: Option<(UserData, u64, u64)>,
    /// The request that the answer completes, if it is the last answer for the request.
    pub request: Option<usize>,
    /// Set when no other answers come for the request.
    pub is_last: bool,
}

impl Answer {
    /// An answer that `request` waits for alone.
    pub(crate) fn of(target: u32, data: Option<(UserData, u64, u64)>, request: Option<usize>) -> Self {
        Self { target, data, request, is_last: true }
    }
}

/// All windows of this process.
pub struct Windows {
    pub(crate) table: Vec<Option<Box<Window>>>,
    pub(crate) open: usize,
    /// The count of the message layer's completions up to which the windows have looked.
    pub(crate) seen: u64,
    /// Batches that could not leave at once, each with its request.
    pub(crate) leaving: Vec<(usize, SharedBuffer)>,
    /// The number of leaving batches at which those that have left are let go.
    pub(crate) leaving_max: usize,
    /// A batch on its way out.
    pub(crate) outgoing: Option<SharedBuffer>,
    /// A buffer for the next long batch: targets keep only short ones.
    pub(crate) spare: Vec<u8>,
    /// Set while collected records have not left. They leave in the next pass of progress, so that a program
    /// which waits for their effect need not know that it must flush.
    pub(crate) has_collected: bool,
    /// Failed peers of which the windows have not been told.
    pub(crate) failed: Vec<PeerId>,
    /// Puts and gets that carriers do.
    pub(crate) placed: Slab<Placed>,
    /// The handles of those puts and gets for which the carrier has had no room.
    pub(crate) unbegun: VecDeque<usize>,
    /// The names of the puts and gets of which a carrier has completed a piece.
    pub(crate) pieces_done: Vec<u32>,
    /// The memory for reads whose data nobody wants.
    pub(crate) proof_data: Option<UserData>,
    /// The number of records that made no sense, and of operations that named memory that is not exposed. The
    /// origin of such an operation is told (docs/design/boundary.md).
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
            spare: Vec::new(),
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
    /// Returns the number of open windows.
    #[inline]
    pub fn len(&self) -> usize {
        self.open
    }

    /// Returns whether there is no window.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// The nanoseconds until collected records leave, if there are any.
    pub(crate) fn due(&self) -> Option<u64> {
        (self.has_collected || !self.unbegun.is_empty()).then_some(COLLECTED_DUE_NS)
    }

    /// Returns whether there are collected records that have not left.
    pub(crate) fn has_collected(&self) -> bool {
        self.has_collected
    }

    /// Returns whether there may be something to do, with this count of completions up to now.
    #[inline]
    pub(crate) fn has_news(&self, completions: u64) -> bool {
        !self.is_empty() && (self.has_collected || !self.unbegun.is_empty() || self.seen != completions)
    }

    /// Notes that the carrier has completed a piece of the put or get with this name.
    pub(crate) fn note_piece(&mut self, name: u32) {
        self.pieces_done.push(name);
    }

    /// The window `index`, if it is open.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&Window> {
        self.table.get(index)?.as_deref()
    }

    /// The window `index`, if it is open, to change it.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Window> {
        self.table.get_mut(index)?.as_deref_mut()
    }

    /// Adds a window; returns its index.
    pub fn open(&mut self, new: NewWindow) -> usize {
        let NewWindow { context, communicator, group, rank, exposed_memory, reaches } = new;
        let sources = reaches.iter().map(|_| Source::default()).collect();
        let window = Box::new(Window {
            context,
            communicator,
            group,
            rank,
            revoked: None,
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
        // Messages that others have sent before this process had the window are here already.
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

    /// Removes the window `index`.
    pub fn close(&mut self, index: usize) {
        if self.table.get_mut(index).and_then(Option::take).is_some() {
            self.open -= 1;
        }
    }

    /// Visits the processes of other nodes without which an operation here does not go on.
    pub fn for_each_awaited(&self, visit: &mut dyn FnMut(PeerId)) {
        for window in self.table.iter().flatten() {
            // A process that waits for a lock asks only after the process that gives the lock, and that one
            // asks after the holders.
            let holders = window.lock.holders().filter(|_| window.lock.has_waiting());
            for rank in window.busy.iter().copied().chain(window.awaited.iter().copied()).chain(holders) {
                visit(window.group.members[rank as usize]);
            }
        }
    }

    /// Returns whether a window waits for another process.
    pub fn awaits(&self) -> bool {
        let awaits =
            |window: &Window| !window.busy.is_empty() || !window.awaited.is_empty() || window.lock.has_waiting();
        self.open > 0 && self.table.iter().flatten().any(|window| awaits(window))
    }
}

/// The tag of messages that are batches of records.
pub const BATCH_TAG: i32 = 0;
/// The first tag of messages that carry large puts and gets.
const FIRST_TAG: i32 = BATCH_TAG + 2;

impl Window {
    /// The name of the process of this rank among the engine's peers.
    pub fn member(&self, rank: u32) -> PeerId {
        self.group.members[rank as usize]
    }

    /// The number of the window's processes.
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// Begins to ask whether these processes live: an epoch needs a `MPI_Win_post` or `MPI_Win_complete` of
    /// each of `ranks`.
    pub fn await_ranks(&mut self, ranks: &[u32]) {
        let own = self.rank;
        self.awaited.extend(ranks.iter().filter(|rank| **rank != own));
    }

    /// Ends asking for one epoch: it needs these processes no more.
    pub fn await_no_more(&mut self, ranks: &[u32]) {
        for rank in ranks {
            if let Some(index) = self.awaited.iter().position(|awaited| awaited == rank) {
                self.awaited.swap_remove(index);
            }
        }
    }

    /// Returns whether `rank` has called `MPI_Win_post` for this process more often than this process has
    /// taken.
    pub fn has_post_of(&self, rank: u32) -> bool {
        self.sources[rank as usize].posts > 0
    }

    /// Takes a `MPI_Win_post` of `rank`.
    pub fn take_post(&mut self, rank: u32) {
        let posts = &mut self.sources[rank as usize].posts;
        *posts = posts.saturating_sub(1);
    }

    /// Returns whether `rank` has called `MPI_Win_complete` for this process more often than this process has
    /// taken.
    pub fn has_complete_of(&self, rank: u32) -> bool {
        self.sources[rank as usize].completes > 0
    }

    /// Takes a `MPI_Win_complete` of `rank`.
    pub fn take_complete(&mut self, rank: u32) {
        let completes = &mut self.sources[rank as usize].completes;
        *completes = completes.saturating_sub(1);
    }

    /// Marks the operations that have been begun at `rank` up to now.
    pub fn mark(&self, rank: u32) -> Mark {
        let Target { asked, transferred, placed_begun: placed, proofs, .. } = self.targets[rank as usize];
        Mark { rank, asked, transferred, placed, proofs }
    }

    /// Returns whether all that was asked up to a mark has been answered, and all messages that had been
    /// begun then are over.
    pub fn has_reached(&self, mark: &Mark) -> bool {
        let target = &self.targets[mark.rank as usize];
        let is_later = |first: Option<&Transfer>| first.is_none_or(|first| first.number > mark.transferred);
        target.answered >= mark.asked.max(target.refused)
            && target.proofs_ended >= mark.proofs
            && is_later(target.transfers.front())
            && is_later(target.requested.first())
            && target.placed_first() > mark.placed
    }

    /// The error of the operations at `rank` since the last call.
    pub fn take_error(&mut self, rank: u32) -> Option<Error> {
        self.targets[rank as usize].error.take()
    }

    /// Returns whether nothing is under way to `rank`, and nothing has gone wrong there.
    #[inline]
    pub fn is_untouched(&self, rank: u32) -> bool {
        let target = &self.targets[rank as usize];
        !target.is_dirty && !target.is_written && target.error.is_none() && target.is_idle()
    }

    /// Returns whether the memory of `rank` is in this address space: operations on it are over as they
    /// return.
    #[inline]
    pub fn is_mapped(&self, rank: u32) -> bool {
        matches!(self.targets[rank as usize].reach, Reach::Mapped(_))
    }

    /// Prepares the window to be freed: records that no call waits for must be done at their targets as well.
    ///
    /// Such a record could otherwise arrive after the news that this process has done all, and would be taken
    /// for a record of another window.
    pub fn finish_unanswered(&mut self) {
        for target in &mut self.targets {
            target.is_dirty |= target.is_unanswered && !cfg!(weft_mutant = "window_freed_early");
        }
    }

    /// The rank of this process.
    pub fn own_rank(&self) -> u32 {
        self.rank
    }

    /// The ranks that may not have done yet what this process has begun there.
    pub fn unfinished(&self) -> Vec<u32> {
        let is_unfinished = |target: &Target| target.is_dirty || target.is_written || !target.is_idle();
        (0..self.size()).filter(|rank| is_unfinished(&self.targets[*rank as usize])).collect()
    }

    /// The place of the memory of `rank`.
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

    /// Puts the transfer to `rank` that was begun last in front of the others. It continues an operation that
    /// was begun long before, and the caller that waits for that operation waits for this transfer.
    pub(crate) fn advance_last_transfer(&mut self, rank: u32, is_requested: bool) {
        let target = &mut self.targets[rank as usize];
        if is_requested {
            target.requested.rotate_right(1);
            target.requested.first_mut().into_iter().for_each(|first| first.number = 0);
        } else if let Some(last) = target.transfers.pop_back() {
            target.transfers.push_front(Transfer { number: 0, ..last });
        }
    }

    /// Takes the tag for a message that carries what this process puts (or accumulates) at another process,
    /// or gets from it.
    ///
    /// Both ends of a pair count for themselves, and the puts of one end go the same way as the gets of the
    /// other. Puts therefore have even tags, and gets odd ones.
    pub(crate) fn take_tag(&mut self, gets: bool) -> i32 {
        let tag = self.next_tag;
        // Long before a tag comes again, its message has been received.
        self.next_tag = if tag >= i32::MAX - 2 { FIRST_TAG } else { tag + 2 };
        #[cfg(weft_mutant = "put_taken_for_get")]
        let gets = gets && tag < 0;
        tag + i32::from(gets)
    }
}
