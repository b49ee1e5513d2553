//! The memory of a ring for the model checker: a few lines, each with its ready word and a cell that detects
//! two uses at the same time.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::slice;

use loom::cell::UnsafeCell;

use super::posted_receives::Layout;
use super::sizes::POSTED_TABLE_BYTES;
use crate::atomic::{AtomicU32, AtomicU64};

pub(crate) const LINE: usize = 64;
pub(crate) const CONTROL_BYTES: usize = POSTED_TABLE_BYTES;

/// Lines of the data area. The largest frame has two lines, so a few frames go round.
pub(super) const LINES: usize = 8;

pub(super) struct Memory {
    freed: AtomicU64,
    words: [AtomicU32; LINES],
    /// The cells that each read or write of a line touches. By them the checker finds uses that nothing keeps
    /// apart.
    uses: [UnsafeCell<()>; LINES],
    data: std::cell::UnsafeCell<[u8; LINES * LINE]>,
    posted_table: Layout,
}

// SAFETY: `uses` finds what would be a race.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            freed: AtomicU64::default(),
            words: Default::default(),
            uses: Default::default(),
            data: std::cell::UnsafeCell::new([0; LINES * LINE]),
            posted_table: Layout::default(),
        }
    }

    pub(super) fn area(&self) -> Area {
        Area(NonNull::from(self))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Area(NonNull<Memory>);

// SAFETY: as for the real one.
unsafe impl Send for Area {}

impl Area {
    fn memory(&self) -> &Memory {
        // SAFETY: both ends live in a Node, which keeps the segment and so the memory.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn bytes(self) -> usize {
        CONTROL_BYTES + LINES * LINE
    }

    pub(super) fn capacity(self) -> usize {
        LINES * LINE
    }

    pub(super) fn freed(&self) -> &AtomicU64 {
        &self.memory().freed
    }

    pub(super) fn posted_table(&self) -> NonNull<u8> {
        NonNull::from(&self.memory().posted_table).cast()
    }

    pub(super) fn word(&self, offset: usize) -> &AtomicU32 {
        &self.memory().words[offset / LINE]
    }

    fn lines(offset: usize, len: usize) -> std::ops::Range<usize> {
        offset / LINE..(offset + len).div_ceil(LINE)
    }

    pub(super) unsafe fn frame_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        Self::lines(offset, len).for_each(|line| self.memory().uses[line].with_mut(|_| ()));
        // SAFETY: the caller's promise.
        unsafe { slice::from_raw_parts_mut(self.memory().data.get().cast::<u8>().add(offset), len) }
    }

    pub(super) unsafe fn frame(&self, offset: usize, len: usize) -> &[u8] {
        Self::lines(offset, len).for_each(|line| self.memory().uses[line].with(|_| ()));
        // SAFETY: the caller's promise.
        unsafe { slice::from_raw_parts(self.memory().data.get().cast::<u8>().add(offset), len) }
    }

    pub(super) fn fetch_to_read(&self, _offset: usize, _bytes: usize) {}

    pub(super) fn fetch_to_write(&self, _: usize) {}
}
