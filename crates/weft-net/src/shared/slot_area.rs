//! The memory of one slot: what its owner has finished, then its cells.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::slice;

use super::sizes::{LARGE_CELLS, SHORT_CELLS, SMALL_CELLS};
use crate::atomic::{AtomicU32, AtomicU64};

/// Bytes before the cells, in two lines of their own: others read them seldom.
const CONTROL_BYTES: usize = 128;
/// Bytes of a cell before what is published: the stamp and the length.
const HEAD_BYTES: usize = 16;
/// Bytes of a small cell.
const SMALL_BYTES: usize = 1 << 10;
/// Bytes of a large cell: what fits beside the head in its first line, and 32 KiB.
const LARGE_BYTES: usize = 64 + (32 << 10);
/// Where the large cells begin.
const LARGE_START: usize = CONTROL_BYTES + SMALL_CELLS as usize * SMALL_BYTES;
/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = LARGE_START + LARGE_CELLS as usize * LARGE_BYTES;
/// Bytes of a short slot.
pub(crate) const SHORT_SLOT_BYTES: usize = CONTROL_BYTES + SHORT_CELLS as usize * SMALL_BYTES;
/// Bytes that a small cell has room for.
pub(super) const SMALL_MAX: usize = SMALL_BYTES - HEAD_BYTES;
/// Bytes that a large cell has room for: most that can be published at once.
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
    /// Bytes that can be published in it.
    pub(super) fn payload_max(self) -> usize {
        match self {
            Self::Small(_) => SMALL_MAX,
            Self::Large(_) => LARGE_MAX,
        }
    }
}

/// Memory of one slot. Its owner and all who read it hold one.
#[derive(Clone, Copy)]
pub(crate) struct SlotArea {
    base: NonNull<u8>,
    is_short: bool,
}

impl SlotArea {
    /// # Safety
    /// `base` points to [`SLOT_BYTES`] bytes, or to [`SHORT_SLOT_BYTES`] if it is short, aligned to a cache
    /// line, that stay mapped, readable and writable as long as this value or what it gives out is used, were
    /// zero when they were new, and are used by slots only.
    #[inline]
    pub(crate) unsafe fn new(base: NonNull<u8>, is_short: bool) -> Self {
        assert!(base.addr().get().is_multiple_of(64));
        Self { base, is_short }
    }

    /// How many small cells it has.
    #[inline]
    pub(super) fn small_cells(&self) -> u32 {
        if self.is_short { SHORT_CELLS } else { SMALL_CELLS }
    }

    /// Whether it has large cells too.
    #[inline]
    pub(super) fn has_large(&self) -> bool {
        !self.is_short
    }

    /// Where a cell begins.
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

    /// Phases that the owner has finished.
    #[inline]
    pub(super) fn finished(&self) -> &AtomicU64 {
        // SAFETY: the slot begins with this word, mapped and aligned, which is only ever used as this atomic.
        unsafe { self.base.cast::<AtomicU64>().as_ref() }
    }

    /// Under which stamp a cell stands.
    #[inline]
    pub(super) fn stamp(&self, at: Cell) -> &AtomicU64 {
        // SAFETY: a cell begins with this word, mapped and aligned, which is only ever used as this atomic.
        unsafe { self.cell(at).cast::<AtomicU64>().as_ref() }
    }

    /// How many bytes are published in it.
    #[inline]
    pub(super) fn length(&self, at: Cell) -> &AtomicU32 {
        // SAFETY: the word behind the stamp, likewise.
        unsafe { self.cell(at).add(8).cast::<AtomicU32>().as_ref() }
    }

    /// # Safety
    /// `len` is at most [`Cell::payload_max`]; nobody else uses the cell.
    #[inline]
    pub(super) unsafe fn payload_mut(&mut self, at: Cell, len: usize) -> &mut [u8] {
        // SAFETY: the caller's promise; the memory was zero when it was new, so it is initialised.
        unsafe { slice::from_raw_parts_mut(self.cell(at).add(HEAD_BYTES).as_ptr(), len) }
    }

    /// # Safety
    /// `len` is at most [`Cell::payload_max`]; nobody writes the cell meanwhile.
    #[inline]
    pub(super) unsafe fn payload(&self, at: Cell, len: usize) -> &[u8] {
        // SAFETY: the caller's promise.
        unsafe { slice::from_raw_parts(self.cell(at).add(HEAD_BYTES).as_ptr(), len) }
    }

    /// Writes nonsense for the length of something small that is published in a phase, as a peer might.
    #[cfg(test)]
    pub(crate) fn scribble_for_tests(&self, phase: u32, length: u32) {
        self.length(Cell::Small(phase % SMALL_CELLS)).store(length, std::sync::atomic::Ordering::SeqCst);
    }

    /// Asks for the first line of a cell that will be written soon. Does nothing else.
    #[inline]
    pub(super) fn fetch_to_write(&self, at: Cell) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: PREFETCHW is a hint: it changes nothing that a program can see and never faults. Processors
        // of this architecture that do not know it pass over it.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]", in(reg) self.cell(at).as_ptr(), options(nostack, preserves_flags, readonly)
            );
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = at;
    }
}
