//! The operations that this process has begun at another: records that have not left, messages that are under
//! way, and puts and gets that its carrier does.

use std::collections::VecDeque;
use std::ops::Range;

use weft_core::layout::Layout;

use super::Reach;
use crate::error::Error;
use crate::group::PeerId;
use crate::memory::UserData;
use crate::transport::{Proof, RemoteMemory};

/// The operations that this process has begun at one target.
pub(crate) struct Target {
    pub reach: Reach,
    /// Records that have not left.
    pub batch: Vec<u8>,
    /// Full batches before these records, which wait until the carrier's writes to the target are in place.
    pub held: VecDeque<Vec<u8>>,
    /// A flag for each of the newest puts and gets that the carrier does: whether it is over.
    pub placed: VecDeque<bool>,
    /// The number of puts and gets that the carrier has ever been given.
    pub placed_begun: u64,
    /// The number of puts among those that are not over.
    pub writes: u32,
    /// Set when the target has been asked for something since it last said that all is done.
    pub is_dirty: bool,
    /// Set when the carrier has been given a write since the last proof that its writes are in place, and the
    /// proof needs no answer of the target.
    pub is_written: bool,
    /// Proving reads ([`Proof::Read`]): the number ever wanted, the last that has begun, and the last that is
    /// over.
    pub proofs: u64,
    pub proofs_begun: u64,
    pub proofs_ended: u64,
    /// The number of answers that must have come before data that the carrier did not write after all is in
    /// place.
    pub refused: u64,
    /// Set when the target has been sent a record that no call waits for, such as an unlock, and no record
    /// behind it that is answered.
    pub is_unanswered: bool,
    /// The number of answers ever waited for, and of those that have come. Answers come in this order, except
    /// those to locks.
    pub asked: u64,
    pub answered: u64,
    /// Messages to and from the target that are under way, in the order in which they were begun: only the
    /// first is looked at.
    pub transfers: VecDeque<Transfer>,
    /// Messages under way for which a request of the program waits.
    pub requested: Vec<Transfer>,
    /// The number of messages to and from the target that have ever been begun.
    pub transferred: u64,
    /// Datatypes that have been described to the target.
    pub layouts: Vec<Layout>,
    /// The index of the datatype that is replaced next.
    pub layout_next: usize,
    /// The error of the operations here, until the program asks.
    pub error: Option<Error>,
    pub is_busy: bool,
}

/// A put or get that the carrier does.
pub(crate) struct Placed {
    /// The index of the window.
    pub window: usize,
    pub target: u32,
    pub peer: PeerId,
    /// The number of this put or get among those at this target.
    pub number: u64,
    /// The program's memory.
    pub data: UserData,
    /// The bytes of `data` that no carrier has taken.
    pub range: Range<u64>,
    /// The offset in the target's window that the first byte of `data` goes to, or comes from.
    pub offset: u64,
    /// The same place, as the carrier addresses it.
    pub there: RemoteMemory,
    pub writes: bool,
    /// The number of pieces that the carrier has.
    pub under_way: u32,
    /// Set while the carrier has no room for the rest; it is asked again.
    pub waits: bool,
    /// Set when the carrier does not take the rest.
    pub refused: bool,
    /// The request of the program that completes with this operation.
    pub request: Option<usize>,
    /// Set for a proving read: it shows that earlier writes are in place. The number of proofs wanted up to
    /// it.
    pub proof: Option<u64>,
}

/// The request of the program that waits for an operation, and whether the operation is only a part of what
/// it waits for.
pub(crate) type ForRequest = (Option<usize>, bool);

/// A message that carries a large put or get, or a part of one.
pub(crate) struct Transfer {
    /// The number of this message among those to or from this target.
    pub number: u64,
    /// The message's request in the message layer.
    pub handle: usize,
    /// The request of the program that completes with this message.
    pub request: Option<usize>,
    /// Set when other messages may belong to the same access, and have the same request.
    pub is_part: bool,
    /// The bytes that a get asks for: fewer come where the target refuses it.
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

    /// Returns whether nothing of this process is under way to the target.
    pub(crate) fn is_idle(&self) -> bool {
        self.asked == self.answered
            && self.proofs == self.proofs_ended
            && self.transfers.is_empty()
            && self.requested.is_empty()
            && self.placed.is_empty()
            && self.batch.is_empty()
            && self.held.is_empty()
    }

    /// Counts one more put or get that the carrier does; returns its number.
    pub(crate) fn begin_placed(&mut self, writes: bool) -> u64 {
        self.placed.push_back(false);
        self.placed_begun += 1;
        self.writes += u32::from(writes);
        self.placed_begun
    }

    /// Notes that the carrier is given a write.
    pub(crate) fn note_written(&mut self, proof: Proof) {
        match proof {
            Proof::Answer => self.is_dirty = true,
            Proof::Completion | Proof::Read => self.is_written = true,
        }
    }

    /// The number of the first of the carrier's puts and gets that is not over.
    pub(super) fn placed_first(&self) -> u64 {
        self.placed_begun - self.placed.len() as u64 + 1
    }

    /// Ends the put or get with this number.
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
