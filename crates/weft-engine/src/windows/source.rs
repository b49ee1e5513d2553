//! The requests of another process: batches of records, and the messages that belong to them.

use std::collections::VecDeque;

use weft_core::layout::{Element, Layout};
use weft_core::matching::Envelope;
use weft_core::one_sided::TargetLocation;
use weft_core::reduce::Op;

use crate::error::ErrorClass;
use crate::memory::SharedBuffer;

/// The requests of another process, the origin.
#[derive(Default)]
pub(crate) struct Source {
    /// Batches that have arrived or are arriving, in order.
    pub batches: VecDeque<Batch>,
    /// Bytes of the first batch that have been dealt with.
    pub read: usize,
    /// Large puts that are arriving, and large gets that are leaving: only the first is looked at.
    pub transfers: VecDeque<usize>,
    /// The large accumulate whose data is arriving; the origin's later records wait for it.
    pub accumulating: Option<Accumulating>,
    /// Datatypes that the origin has described.
    pub layouts: Vec<Option<Layout>>,
    /// The error class of the origin's operations, until the origin asks.
    pub class: Option<ErrorClass>,
    /// The number of `MPI_Win_post` of the origin that no `MPI_Win_start` here has taken.
    pub posts: u32,
    /// The number of `MPI_Win_complete` of the origin that no `MPI_Win_wait` here has taken.
    pub completes: u32,
    pub is_asking: bool,
}

impl Source {
    /// Notes the error class of an operation: the first one counts, until the origin asks.
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

/// A batch of records that has arrived or is arriving.
pub(crate) enum Batch {
    /// All of its records.
    Whole(Vec<u8>),
    /// Records that their sender still has, or is sending. They are received when all earlier records have
    /// been done and there is room, so a target keeps one such batch of each origin.
    Announced { envelope: Envelope, unexpected: usize, bytes: u64 },
    /// Records that are arriving by this request.
    Arriving(usize, SharedBuffer),
}
