//! Slots: where the processes of a node publish data for each other in collective operations. A publication
//! is no message, and no reader takes it away.
//!
//! Each process has some slots in the segment, a slot for each communicator that uses them. A slot has many
//! small cells and a few large ones. Data that a process publishes in phase `p` stands in the small cell
//! `p mod SMALL_CELLS` if it fits there, and otherwise in the large cell `p mod LARGE_CELLS`. The data stands
//! under a [`Stamp`], which is different for each two phases of all that use the slot. Persistent operations
//! have slots of their own, most of them short: a short slot has only [`SHORT_CELLS`] small cells. A process
//! may overwrite its data as soon as all others have *finished* phase `p`, as they say in slots of their own.
//! The engine decides which process may write when; this module only makes the data visible.
//!
//! A cell begins with its stamp and its length, so that up to 48 bytes come with the stamp in one cache line.
//! Two processes exchange only a line each way for a barrier or for the sum of a number.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use weft_engine::transport::{CollectiveSlots, SlotCounts, Stamp};

use super::Node;
use super::sizes::{LARGE_CELLS, SHORT_CELLS, SMALL_CELLS};
use super::slot_area::{Cell, LARGE_MAX, SMALL_MAX, SlotArea};
use crate::atomic::publish_word;

/// Returns the number of phases with `len` bytes that may stand in a slot at once.
#[inline]
pub(super) fn cells(is_short: bool, len: usize) -> u32 {
    match (len <= SMALL_MAX, is_short) {
        (true, true) => SHORT_CELLS,
        (true, false) => SMALL_CELLS,
        (false, _) => LARGE_CELLS,
    }
}

/// Returns the most bytes that can be published in a slot at once.
pub(super) fn published_max(is_short: bool) -> usize {
    if is_short { SMALL_MAX } else { LARGE_MAX }
}

fn word(stamp: Stamp) -> u64 {
    u64::from(stamp.context) << 32 | u64::from(stamp.phase)
}

fn stamp(word: u64) -> Stamp {
    Stamp { context: (word >> 32) as u32, phase: word as u32 }
}

/// Returns the small cell of a phase.
#[inline]
fn small(slot: &SlotArea, phase: u32) -> Cell {
    Cell::Small(phase % slot.small_cells())
}

/// Returns the large cell of a phase, in a slot that has large cells.
#[inline]
fn large(phase: u32) -> Cell {
    Cell::Large(phase % LARGE_CELLS)
}

/// Finds the cell that stands under a stamp, as far as `stamp_in` sees.
#[inline]
fn find(slot: &SlotArea, of: Stamp, stamp_in: impl Fn(Cell) -> u64) -> Option<Cell> {
    let small = small(slot, of.phase);
    if stamp_in(small) == word(of) {
        return Some(small);
    }
    let large = large(of.phase);
    (slot.has_large() && stamp_in(large) == word(of)).then_some(large)
}

/// Publishes `len` bytes that `fill` writes. When it returns, the bytes are visible to the other processes,
/// and ordered before every later sequentially consistent operation.
///
/// # Panics
/// When `len` exceeds the room of a large cell, or of a small cell in a slot without large ones.
#[inline]
pub(super) fn publish(mut slot: SlotArea, of: Stamp, len: usize, fill: impl FnOnce(&mut [u8])) {
    let at = if len <= SMALL_MAX {
        small(&slot, of.phase)
    } else {
        assert!(slot.has_large() && len <= LARGE_MAX, "{len} bytes are more than a cell holds");
        large(of.phase)
    };
    // SAFETY: the length was checked. Only this process writes the cell, and no process reads what the cell
    // held (the engine's promise; a breach makes others read wrong bytes of this memory).
    fill(unsafe { slot.payload_mut(at, len) });
    slot.length(at).store(len as u32, Ordering::Relaxed);
    publish_word(|order| slot.stamp(at).store(word(of), order));
}

/// Returns the bytes that are published under a stamp, or `None` while there are none. The bytes may be wrong
/// if the slot's owner breaks the rules, but they never lie outside of its cell.
#[inline]
pub(super) fn published(slot: &SlotArea, of: Stamp) -> Option<&[u8]> {
    let at = find(slot, of, |at| slot.stamp(at).load(Ordering::Acquire))?;
    let len = (slot.length(at).load(Ordering::Relaxed) as usize).min(at.payload_max());
    // SAFETY: the length was limited. The slot's owner does not write the cell again before this process says
    // that it has finished the phase.
    Some(unsafe { slot.payload(at, len) })
}

/// Returns whether bytes are published under a stamp, sequentially consistent: step 2 of the sleeping
/// protocol.
pub(super) fn is_published(slot: &SlotArea, of: Stamp) -> bool {
    find(slot, of, |at| slot.stamp(at).load(Ordering::SeqCst)).is_some()
}

/// Says that this process has finished all phases of the context before this one.
#[inline]
pub(super) fn finish(slot: &SlotArea, before: Stamp) {
    slot.finished().store(word(before), Ordering::Release);
    // The others have read this cell's line, so the line must come back before this process can write it. Ask
    // now, and not when the next phase begins.
    slot.fetch_to_write(small(slot, before.phase));
}

/// Returns the stamp up to which the owner of the slot said last that it has finished.
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
