//! How large the parts of a segment are that several of its modules speak of: rings, tables of posted
//! receives, slots.

use weft_core::collective::PHASES_AHEAD;

/// The smallest ring, control included.
pub(crate) const RING_BYTES_MIN: usize = 16 << 10;
/// The largest ring, control included: a length must fit beside the mark in the ready word.
pub(crate) const RING_BYTES_MAX: usize = 16 << 20;

/// Receives that stand on one table at most.
pub(super) const POSTED_MAX: usize = if cfg!(loom) { 2 } else { 64 };
/// Bytes of a table.
pub(super) const POSTED_TABLE_BYTES: usize = (POSTED_MAX + 2) * 64;

/// Phases that a process may be ahead of the others with what is small: where processes take turns on a
/// processor, each has much to do in its turn then.
pub(crate) const SMALL_CELLS: u32 = if cfg!(loom) { 2 } else { 64 };
/// The same with what is large.
pub(crate) const LARGE_CELLS: u32 = if cfg!(loom) { 1 } else { PHASES_AHEAD };
/// The small cells of a short slot, which has no others.
pub(crate) const SHORT_CELLS: u32 = if cfg!(loom) { 2 } else { PHASES_AHEAD };
