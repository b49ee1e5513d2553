//! What this process has begun at another: records that have not left, messages that are under way, and what
//! its carrier does.

use std::collections::VecDeque;
use std::ops::Range;

use weft_core::layout::Layout;

use super::Reach;
use crate::error::Error;
use crate::group::PeerId;
use crate::memory::UserData;
use crate::transport::{Proof, RemoteMemory};

/// What this process has begun at another.
pub(crate) struct Target {
    pub reach: Reach,
    /// Records that have not left.
    pub batch: Vec<u8>,
    /// Full batches before these, which wait until what is being written there is there.
    pub held: VecDeque<Vec<u8>>,
    /// Puts and gets that the carrier does, the last of those there have ever been the last: whether they are
    /// over.
    pub placed: VecDeque<bool>,
    /// How many of them there have ever been.
    pub placed_begun: u64,
    /// Puts among those that are not over.
    pub writes: u32,
    /// It has been asked for something since it last said that all is done.
    pub is_dirty: bool,
    /// The carrier has been given something to write there since it was last asked what shows that this is in
    /// place, and needs no answer for that.
    pub is_written: bool,
    /// Reads that are to show it ([`Proof::Read`]) which have ever been wanted, the last that has begun, and
    /// the last that is over.
    pub proofs: u64,
    pub proofs_begun: u64,
    pub proofs_ended: u64,
    /// How many answers must have come before what the carrier did not write after all is in place.
    pub refused: u64,
    /// It has been sent what nobody waits for, a lock that is given back, and nothing that is answered behind
    /// it.
    pub is_unanswered: bool,
    /// Answers of it that have ever been waited for, and those that have come: in this order, but for those
    /// to locks.
    pub asked: u64,
    pub answered: u64,
    /// Messages to and from it that are under way, in the order in which they were begun: only the first is
    /// looked at.
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

impl Target {
    pub(super) fn new(reach: Reach) -> Self {
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
    pub(super) fn placed_first(&self) -> u64 {
        self.placed_begun - self.placed.len() as u64 + 1
    }

    /// The one of this number is over.
    pub(crate) fn end_placed(&mut self, number: u64, writes: bool) {
        let index = number.checked_sub(self.placed_first()).and_then(|index| usize::try_from(index).ok());
        if let Some(is_over) = index.and_then(|index| self.placed.get_mut(index)) {
            *is_over = true;
            self.writes -= u32::from(writes);
        }
        while self.placed.front() == Some(&true) {
            self.placed.pop_front();
        }
    }
}
