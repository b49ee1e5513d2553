//! What the processes of a node publish for each other in collective operations: no message, and nobody who
//! takes it away.
//!
//! Each process has some slots in the segment, one for each communicator that uses them, and a slot has many
//! small cells and a few large ones. What it publishes in phase `p` stands in the small cell
//! `p mod SMALL_CELLS` if it has room there, and otherwise in the large cell `p mod LARGE_CELLS`, under a
//! [`Stamp`], which no two phases of whatever uses the slot share. Persistent operations have slots of their
//! own, most of them short: these have [`SHORT_CELLS`] small cells only. What is published may be written
//! over as soon as all others have *finished* phase `p`, as they say in slots of their own. Who may write
//! when is the engine's business; here is only how it becomes visible.
//!
//! A cell begins with its stamp and its length, so that up to 48 bytes come with the stamp in one cache line.
//! One line each way is all that two processes exchange for a barrier or for the sum of a number.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use weft_engine::transport::{CollectiveSlots, SlotCounts, Stamp};

use super::Node;
use super::sizes::{LARGE_CELLS, SHORT_CELLS, SMALL_CELLS};
use super::slot_area::{Cell, LARGE_MAX, SMALL_MAX, SlotArea};

/// How many phases with `len` bytes may stand in a slot.
#[inline]
pub(super) fn cells(is_short: bool, len: usize) -> u32 {
    match (len <= SMALL_MAX, is_short) {
        (true, true) => SHORT_CELLS,
        (true, false) => SMALL_CELLS,
        (false, _) => LARGE_CELLS,
    }
}

/// Bytes that can be published in a slot at once.
pub(super) fn published_max(is_short: bool) -> usize {
    if is_short { SMALL_MAX } else { LARGE_MAX }
}

fn word(stamp: Stamp) -> u64 {
    u64::from(stamp.context) << 32 | u64::from(stamp.phase)
}

fn stamp(word: u64) -> Stamp {
    Stamp { context: (word >> 32) as u32, phase: word as u32 }
}

/// The small cell in which something of a phase may stand.
#[inline]
fn small(slot: &SlotArea, phase: u32) -> Cell {
    Cell::Small(phase % slot.small_cells())
}

/// The large cell in which something of a phase may stand, in a slot that has such.
#[inline]
fn large(phase: u32) -> Cell {
    Cell::Large(phase % LARGE_CELLS)
}

/// The cell that stands under a stamp, as far as `stamp_in` sees.
#[inline]
fn find(slot: &SlotArea, of: Stamp, stamp_in: impl Fn(Cell) -> u64) -> Option<Cell> {
    let small = small(slot, of.phase);
    if stamp_in(small) == word(of) {
        return Some(small);
    }
    let large = large(of.phase);
    (slot.has_large() && stamp_in(large) == word(of)).then_some(large)
}

/// Publishes `len` bytes that `fill` writes. Visible to the others, and ordered before every later
/// sequentially consistent operation, when it returns.
///
/// # Panics
/// When `len` exceeds the room of a cell, or of a small one where there are no others.
#[inline]
pub(super) fn publish(mut slot: SlotArea, of: Stamp, len: usize, fill: impl FnOnce(&mut [u8])) {
    let at = if len <= SMALL_MAX {
        small(&slot, of.phase)
    } else {
        assert!(slot.has_large() && len <= LARGE_MAX, "{len} bytes are more than a cell holds");
        large(of.phase)
    };
    // SAFETY: the length was checked; the cell is this process's to write, because nobody reads what it held
    // (the engine's promise, of which a breach makes others read wrong bytes of this memory).
    fill(unsafe { slot.payload_mut(at, len) });
    slot.length(at).store(len as u32, Ordering::Relaxed);
    slot.stamp(at).swap(word(of), Ordering::SeqCst);
}

/// What is published under a stamp; `None` as long as there is nothing. The bytes may be wrong if their owner
/// breaks the rules, but they are never outside of its cell.
#[inline]
pub(super) fn published(slot: &SlotArea, of: Stamp) -> Option<&[u8]> {
    let at = find(slot, of, |at| slot.stamp(at).load(Ordering::Acquire))?;
    let len = (slot.length(at).load(Ordering::Relaxed) as usize).min(at.payload_max());
    // SAFETY: the length was limited; its owner does not write it again before this process says that it has
    // finished the phase.
    Some(unsafe { slot.payload(at, len) })
}

/// Whether it is, sequentially consistent: step 2 of the sleeping protocol.
pub(super) fn is_published(slot: &SlotArea, of: Stamp) -> bool {
    find(slot, of, |at| slot.stamp(at).load(Ordering::SeqCst)).is_some()
}

/// This process has finished all phases of the context before this one.
#[inline]
pub(super) fn finish(slot: &SlotArea, before: Stamp) {
    slot.finished().store(word(before), Ordering::Release);
    // The others have read it, so it must come back before it can be written: now, instead of when the next
    // phase begins.
    slot.fetch_to_write(small(slot, before.phase));
}

/// What the owner of the slot has said so last.
#[inline]
pub(super) fn finished(slot: &SlotArea) -> Stamp {
    stamp(slot.finished().load(Ordering::Acquire))
}

impl CollectiveSlots for Node {
    fn counts(&self) -> SlotCounts {
        self.inbox.segment.geometry().slots
    }

    fn published_max(&self, slot: usize) -> usize {
        published_max(self.inbox.segment.geometry().is_short(slot))
    }

    #[inline]
    fn phases_ahead(&self, slot: usize, len: usize) -> u32 {
        cells(self.inbox.segment.geometry().is_short(slot), len)
    }

    #[inline]
    fn publish(&mut self, slot: usize, stamp: Stamp, len: usize, fill: impl FnOnce(&mut [u8])) {
        publish(self.inbox.segment.slot(self.inbox.own, slot), stamp, len, fill);
    }

    #[inline]
    fn with_published<R>(&self, of: usize, slot: usize, stamp: Stamp, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        published(&self.inbox.segment.slot(of, slot), stamp).map(take)
    }

    fn is_published(&self, of: usize, slot: usize, stamp: Stamp) -> bool {
        is_published(&self.inbox.segment.slot(of, slot), stamp)
    }

    #[inline]
    fn finish_phases(&mut self, slot: usize, before: Stamp) {
        finish(&self.inbox.segment.slot(self.inbox.own, slot), before);
    }

    #[inline]
    fn finished_phases(&self, of: usize, slot: usize) -> Stamp {
        finished(&self.inbox.segment.slot(of, slot))
    }
}
