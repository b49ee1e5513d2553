//! What the processes of a node publish for each other in collective operations: no message, and nobody who takes it away.
//!
//! Each process has some slots in the segment, one for each communicator that uses them, and a slot has many small cells and a few large ones. What it
//! publishes in phase `p` stands in the small cell `p mod SMALL_CELLS` if it has room there, and otherwise in the large cell `p mod LARGE_CELLS`, under a
//! [`Stamp`], which no two phases of any communicators share; it may be written over as soon as all others have *finished* phase `p`, as they say
//! in slots of their own. Who may write when is the engine's business; here is only how it becomes visible.
//!
//! A cell begins with its stamp and its length, so that up to 48 bytes come with the stamp in one cache line. One line each way is
//! all that two processes exchange for a barrier or for the sum of a number.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use weft_core::collective::PHASES_AHEAD;
use weft_engine::transport::Stamp;

use super::slot_area::{Cell, LARGE_MAX, SMALL_MAX, SlotArea};

/// Phases that a process may be ahead of the others with what is small: where processes take turns on a processor, each has much to do in its turn
/// then.
pub(crate) const SMALL_CELLS: u32 = if cfg!(loom) { 2 } else { 64 };
/// The same with what is large.
pub(crate) const LARGE_CELLS: u32 = if cfg!(loom) { 1 } else { PHASES_AHEAD };

/// How many phases with `len` bytes may stand in a slot.
pub(super) fn cells(len: usize) -> u32 {
    if len <= SMALL_MAX { SMALL_CELLS } else { LARGE_CELLS }
}

fn word(stamp: Stamp) -> u64 {
    u64::from(stamp.context) << 32 | u64::from(stamp.phase)
}

fn stamp(word: u64) -> Stamp {
    Stamp { context: (word >> 32) as u32, phase: word as u32 }
}

/// The cells in which something of a phase may stand: a small one, and a large one.
fn of_phase(phase: u32) -> [Cell; 2] {
    [Cell::Small(phase % SMALL_CELLS), Cell::Large(phase % LARGE_CELLS)]
}

/// Publishes `len` bytes that `fill` writes. Visible to the others, and ordered before every later sequentially consistent operation, when
/// it returns.
///
/// # Panics
/// When `len` exceeds the room of a cell.
#[inline]
pub(super) fn publish(mut slot: SlotArea, of: Stamp, len: usize, fill: impl FnOnce(&mut [u8])) {
    assert!(len <= LARGE_MAX, "{len} bytes are more than a cell holds");
    let [small, large] = of_phase(of.phase);
    let at = if len <= SMALL_MAX { small } else { large };
    // SAFETY: the length was checked; the cell is this process's to write, because nobody reads what it held (the engine's promise, of which a
    // breach makes others read wrong bytes of this memory).
    fill(unsafe { slot.payload_mut(at, len) });
    slot.length(at).store(len as u32, Ordering::Relaxed);
    slot.stamp(at).swap(word(of), Ordering::SeqCst);
}

/// What is published under a stamp; `None` as long as there is nothing. The bytes may be wrong if their owner breaks the rules, but they are
/// never outside of its cell.
#[inline]
pub(super) fn published(slot: &SlotArea, of: Stamp) -> Option<&[u8]> {
    let at = of_phase(of.phase).into_iter().find(|at| slot.stamp(*at).load(Ordering::Acquire) == word(of))?;
    let len = (slot.length(at).load(Ordering::Relaxed) as usize).min(at.payload_max());
    // SAFETY: the length was limited; its owner does not write it again before this process says that it has finished the phase.
    Some(unsafe { slot.payload(at, len) })
}

/// Whether it is, sequentially consistent: step 2 of the sleeping protocol.
pub(super) fn is_published(slot: &SlotArea, of: Stamp) -> bool {
    of_phase(of.phase).into_iter().any(|at| slot.stamp(at).load(Ordering::SeqCst) == word(of))
}

/// This process has finished all phases of the context before this one.
#[inline]
pub(super) fn finish(slot: &SlotArea, before: Stamp) {
    slot.finished().store(word(before), Ordering::Release);
    // The others have read it, so it must come back before it can be written: now, instead of when the next phase begins.
    slot.fetch_to_write(of_phase(before.phase)[0]);
}

/// What the owner of the slot has said so last.
#[inline]
pub(super) fn finished(slot: &SlotArea) -> Stamp {
    stamp(slot.finished().load(Ordering::Acquire))
}
