//! What another process has asked for: batches of records, and messages that belong to them.

use std::collections::VecDeque;

use weft_core::layout::{Element, Layout};
use weft_core::matching::Envelope;
use weft_core::one_sided::TargetLocation;
use weft_core::reduce::Op;

use crate::error::ErrorClass;
use crate::memory::SharedBuffer;

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
    pub location: TargetLocation,
    pub operation: (Op, Element),
}

/// Records that have arrived.
pub(crate) enum Batch {
    /// All of them.
    Whole(Vec<u8>),
    /// Their sender has them still, or is sending them: they are received when all before them has been done,
    /// and there is room. So a target keeps one of these of each origin.
    Announced { envelope: Envelope, unexpected: usize, bytes: u64 },
    /// They are arriving by this request.
    Arriving(usize, SharedBuffer),
}
