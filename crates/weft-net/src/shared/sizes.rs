//! Sizes of the parts of a segment that several of its modules share: rings, tables of posted receives,
//! slots.

use weft_plan::collective::PHASES_AHEAD;

/// The smallest ring, control included.
pub(crate) const RING_BYTES_MIN: usize = 16 << 10;
/// The largest ring, control included: a frame's length must fit beside the mark in the ready word.
pub(crate) const RING_BYTES_MAX: usize = 16 << 20;

/// The most bytes of a ring between few ranks, on a processor with this second-level cache. They are as many
/// as the cache has, from 1 to 2 MiB. Lines that are written again should have left the reader's near caches,
/// and be no further away than that. An AMD EPYC (Zen 5) has a cache of 1 MiB. Rings of 2 MiB move windows of
/// 2 MiB at 18 GB/s there, and rings of 1 MiB at 48, between processors that share a third-level cache.
pub(super) fn ring_bytes_max(second_level_cache: Option<usize>) -> usize {
    second_level_cache.unwrap_or(usize::MAX).clamp(1 << 20, 2 << 20)
}

/// Most receives that stand on a table.
pub(super) const POSTED_MAX: usize = if cfg!(loom) { 2 } else { 64 };
/// Bytes of a table.
pub(super) const POSTED_TABLE_BYTES: usize = (POSTED_MAX + 4) * 64;

/// Phases that a process may be ahead of the others with small data. Where processes take turns on a
/// processor, each then has much to do in its turn.
pub(crate) const SMALL_CELLS: u32 = if cfg!(loom) { 2 } else { 64 };
/// Phases that a process may be ahead of the others with large data.
pub(crate) const LARGE_CELLS: u32 = if cfg!(loom) { 1 } else { PHASES_AHEAD };
/// Small cells of a short slot, which has no large cells.
pub(crate) const SHORT_CELLS: u32 = if cfg!(loom) { 2 } else { PHASES_AHEAD };
