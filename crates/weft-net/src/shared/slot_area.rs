//! The memory of a slot: what its owner has finished, then its cells.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::slice;

use super::sizes::{LARGE_CELLS, SHORT_CELLS, SMALL_CELLS};
use crate::atomic::{AtomicU32, AtomicU64};

/// Bytes before the cells, in two lines of their own, because others read them seldom.
const CONTROL_BYTES: usize = 128;
/// Bytes of a cell before the published data: the stamp and the length.
const HEAD_BYTES: usize = 16;
/// Bytes of a small cell.
const SMALL_BYTES: usize = 1 << 10;
/// Bytes of a large cell: the data that fits beside the head in the first line, and 32 KiB.
const LARGE_BYTES: usize = 64 + (32 << 10);
/// Start of the large cells in a slot.
const LARGE_START: usize = CONTROL_BYTES + SMALL_CELLS as usize * SMALL_BYTES;
/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = LARGE_START + LARGE_CELLS as usize * LARGE_BYTES;
/// Bytes of a short slot.
pub(crate) const SHORT_SLOT_BYTES: usize = CONTROL_BYTES + SHORT_CELLS as usize * SMALL_BYTES;
/// Bytes that a small cell has room for.
pub(super) const SMALL_MAX: usize = SMALL_BYTES - HEAD_BYTES;
/// Bytes that a large cell has room for: the most that can be published at once.
pub(crate) const LARGE_MAX: usize = LARGE_BYTES - HEAD_BYTES;

const _: () =
    assert!(SMALL_BYTES.is_multiple_of(64) && LARGE_BYTES.is_multiple_of(64) && CONTROL_BYTES.is_multiple_of(64));

/// A cell of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell {
    Small(u32),
    Large(u32),
}

impl Cell {
    /// Returns the bytes that can be published in the cell.
    pub(super) fn payload_max(self) -> usize {
        match self {
            Self::Small(_) => SMALL_MAX,
            Self::Large(_) => LARGE_MAX,
        }
    }
}

/// Memory of a slot. The slot's owner and each of its readers hold a value.
#[derive(Clone, Copy)]
pub(crate) struct SlotArea {
    base: NonNull<u8>,
    is_short: bool,
}

impl SlotArea {
    /// The memory of a slot at `base`.
    ///
    /// # Safety
    /// `base` points to [`SLOT_BYTES`] bytes, or to [`SHORT_SLOT_BYTES`] if the slot is short, aligned to a
    /// cache line. The bytes were zero when they were new. They stay mapped, readable and writable as long as
    /// this value, or a reference that it gives out, is used. Slots alone use these bytes.
    #[inline]
    pub(crate) unsafe fn new(base: NonNull<u8>, is_short: bool) -> Self {
        assert!(base.addr().get().is_multiple_of(64));
        Self { base, is_short }
    }

    /// Returns the number of small cells.
    #[inline]
    pub(super) fn small_cells(&self) -> u32 {
        if self.is_short { SHORT_CELLS } else { SMALL_CELLS }
    }

    /// Returns whether the slot has large cells too.
    #[inline]
    pub(super) fn has_large(&self) -> bool {
        !self.is_short
    }

    /// Returns the address of a cell.
    #[inline]
    fn cell(&self, at: Cell) -> NonNull<u8> {
        let offset = match at {
            Cell::Small(at) => CONTROL_BYTES + (at % self.small_cells()) as usize * SMALL_BYTES,
            Cell::Large(at) => {
                assert!(self.has_large(), "a short slot has no large cells");
                LARGE_START + (at % LARGE_CELLS) as usize * LARGE_BYTES
            }
        };
        // SAFETY: the cell lies inside the slot.
        unsafe { self.base.add(offset) }
    }

    /// The word that says which phases the owner has finished.
    #[inline]
    pub(super) fn finished(&self) -> &AtomicU64 {
        // SAFETY: the slot begins with this word, mapped and aligned. All uses of the word are by this
        // atomic.
        unsafe { self.base.cast::<AtomicU64>().as_ref() }
    }

    /// The stamp under which a cell stands.
    #[inline]
    pub(super) fn stamp(&self, at: Cell) -> &AtomicU64 {
        // SAFETY: a cell begins with this word, mapped and aligned. All uses of the word are by this atomic.
        unsafe { self.cell(at).cast::<AtomicU64>().as_ref() }
    }

    /// The number of bytes that are published in a cell.
    #[inline]
    pub(super) fn length(&self, at: Cell) -> &AtomicU32 {
        // SAFETY: the word behind the stamp, likewise.
        unsafe { self.cell(at).add(8).cast::<AtomicU32>().as_ref() }
    }

    /// The room of a cell, for writing.
    ///
    /// # Safety
    /// `len` is at most [`Cell::payload_max`]; no other reference to the cell is used.
    #[inline]
    pub(super) unsafe fn payload_mut(&mut self, at: Cell, len: usize) -> &mut [u8] {
        // SAFETY: the caller's promise; the memory was zero when it was new, so it is initialised.
        unsafe { slice::from_raw_parts_mut(self.cell(at).add(HEAD_BYTES).as_ptr(), len) }
    }

    /// The published bytes of a cell.
    ///
    /// # Safety
    /// `len` is at most [`Cell::payload_max`]; no process writes the cell meanwhile.
    #[inline]
    pub(super) unsafe fn payload(&self, at: Cell, len: usize) -> &[u8] {
        // SAFETY: the caller's promise.
        unsafe { slice::from_raw_parts(self.cell(at).add(HEAD_BYTES).as_ptr(), len) }
    }

    /// Writes a wrong length for the small publication of a phase, as a peer might.
    #[cfg(test)]
    pub(crate) fn scribble_for_tests(&self, phase: u32, length: u32) {
        self.length(Cell::Small(phase % SMALL_CELLS)).store(length, std::sync::atomic::Ordering::SeqCst);
    }

    /// Asks for the first line of a cell that will be written soon, and does nothing else.
    #[inline]
    pub(super) fn fetch_to_write(&self, at: Cell) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: PREFETCHW is a hint: it changes nothing that a program can see, and never faults.
        // Processors of this architecture that do not know the instruction pass over it.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]", in(reg) self.cell(at).as_ptr(), options(nostack, preserves_flags, readonly)
            );
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = at;
    }
}
