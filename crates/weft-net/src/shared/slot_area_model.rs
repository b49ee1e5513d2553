//! The memory of a slot for the model checker: cells of a few bytes, each with a cell that detects two uses
//! at the same time.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::slice;

use loom::cell::UnsafeCell;

use super::sizes::{LARGE_CELLS, SMALL_CELLS};
use crate::atomic::{AtomicU32, AtomicU64};

pub(super) const SMALL_MAX: usize = 4;
pub(crate) const LARGE_MAX: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(super) enum Cell {
    Small(u32),
    Large(u32),
}

impl Cell {
    pub(super) fn payload_max(self) -> usize {
        match self {
            Self::Small(_) => SMALL_MAX,
            Self::Large(_) => LARGE_MAX,
        }
    }
}

#[derive(Default)]
struct CellMemory {
    stamp: AtomicU64,
    length: AtomicU32,
    /// The cell that each read or write of the published bytes touches. By it the checker finds uses that
    /// nothing keeps apart.
    uses: UnsafeCell<()>,
    payload: std::cell::UnsafeCell<[u8; LARGE_MAX]>,
}

#[derive(Default)]
pub(super) struct SlotMemory {
    finished: AtomicU64,
    small: [CellMemory; SMALL_CELLS as usize],
    large: [CellMemory; LARGE_CELLS as usize],
}

// SAFETY: `uses` finds what would be a race.
unsafe impl Sync for SlotMemory {}

impl SlotMemory {
    pub(super) fn area(&self) -> SlotArea {
        SlotArea(NonNull::from(self))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct SlotArea(NonNull<SlotMemory>);

impl SlotArea {
    pub(super) fn small_cells(&self) -> u32 {
        SMALL_CELLS
    }

    pub(super) fn has_large(&self) -> bool {
        true
    }

    fn memory(&self) -> &SlotMemory {
        // SAFETY: every user of a slot has a Node, which keeps the segment and so the memory.
        unsafe { self.0.as_ref() }
    }

    fn cell(&self, at: Cell) -> &CellMemory {
        match at {
            Cell::Small(at) => &self.memory().small[at as usize],
            Cell::Large(at) => &self.memory().large[at as usize],
        }
    }

    pub(super) fn finished(&self) -> &AtomicU64 {
        &self.memory().finished
    }

    pub(super) fn stamp(&self, at: Cell) -> &AtomicU64 {
        &self.cell(at).stamp
    }

    pub(super) fn length(&self, at: Cell) -> &AtomicU32 {
        &self.cell(at).length
    }

    pub(super) unsafe fn payload_mut(&mut self, at: Cell, len: usize) -> &mut [u8] {
        let cell = self.cell(at);
        cell.uses.with_mut(|_| ());
        // SAFETY: the caller's promise.
        unsafe { slice::from_raw_parts_mut(cell.payload.get().cast::<u8>(), len) }
    }

    pub(super) unsafe fn payload(&self, at: Cell, len: usize) -> &[u8] {
        let cell = self.cell(at);
        cell.uses.with(|_| ());
        // SAFETY: the caller's promise.
        unsafe { slice::from_raw_parts(cell.payload.get().cast::<u8>(), len) }
    }

    pub(super) fn fetch_to_write(&self, _: Cell) {}
}
