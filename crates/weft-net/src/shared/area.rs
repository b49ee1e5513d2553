//! The memory of a ring: control, then data in lines.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::slice;

use super::sizes::{POSTED_TABLE_BYTES, RING_BYTES_MAX, RING_BYTES_MIN};
use crate::atomic::{AtomicU32, AtomicU64};

/// Bytes of a cache line; the unit of the data area.
pub(crate) const LINE: usize = 64;
/// The consumer's counter has this many bytes for itself (two lines: processors fetch lines in pairs).
const COUNTER_BYTES: usize = 128;
/// Bytes before the data area: the counter, and the pair's table.
pub(crate) const CONTROL_BYTES: usize = COUNTER_BYTES + POSTED_TABLE_BYTES;

/// Memory of a ring. Each end of the ring holds a value.
#[derive(Clone, Copy)]
pub(crate) struct Area {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an Area is an address. Producer and Consumer, of which the ring has one each, govern what may be
// done there.
unsafe impl Send for Area {}

impl Area {
    /// The memory of a ring, `bytes` bytes from `base`.
    ///
    /// # Safety
    /// `base` points to `bytes` bytes that were zero when the ring was new. They stay mapped, readable and
    /// writable as long as any Producer or Consumer made from this Area lives. Only one Producer and one
    /// Consumer, perhaps in another process, write them. A process that breaks the last rule can make frames
    /// arrive wrong or be refused, but cannot make memory outside the ring be touched.
    pub(crate) unsafe fn new(base: NonNull<u8>, bytes: usize) -> Self {
        assert!((RING_BYTES_MIN..=RING_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(LINE));
        assert!(base.addr().get().is_multiple_of(LINE));
        Self { base, bytes }
    }

    /// Returns the number of bytes of the ring, control included.
    pub(super) fn bytes(self) -> usize {
        self.bytes
    }

    /// Returns the bytes of the data area.
    pub(super) fn capacity(self) -> usize {
        self.bytes - CONTROL_BYTES
    }

    /// The bytes that the consumer has freed since the beginning.
    pub(super) fn freed(&self) -> &AtomicU64 {
        // SAFETY: the first bytes of the area are mapped (see `new`) and aligned to a line. All uses of the
        // word are by this atomic.
        unsafe { self.base.cast::<AtomicU64>().as_ref() }
    }

    /// Returns the address of the pair's table of posted receives.
    pub(super) fn posted_table(&self) -> NonNull<u8> {
        // SAFETY: the control bytes are inside the area.
        unsafe { self.base.add(COUNTER_BYTES) }
    }

    /// The first word of the line at `offset`.
    #[inline]
    pub(super) fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset < self.capacity() && offset.is_multiple_of(LINE));
        // SAFETY: every caller keeps `offset` on a line inside the data area; the word is mapped and aligned.
        // The producer may write its own lines plainly, and then no other reference to this word is used: the
        // consumer looks only at the line after the last visible frame.
        unsafe { self.data(offset).cast::<AtomicU32>().as_ref() }
    }

    /// The `len` bytes from `offset` on, for the producer.
    ///
    /// # Safety
    /// The bytes lie inside the data area, and in lines that the producer owns.
    #[inline]
    pub(super) unsafe fn frame_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: the caller's promise; the memory was zero when it was new, so it is initialised.
        unsafe { slice::from_raw_parts_mut(self.data(offset).as_ptr(), len) }
    }

    /// The `len` bytes from `offset` on, for the consumer.
    ///
    /// # Safety
    /// The bytes lie inside the data area, and in the lines of a frame that has been made visible and has not
    /// been released.
    #[inline]
    pub(super) unsafe fn frame(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: the caller's promise.
        unsafe { slice::from_raw_parts(self.data(offset).as_ptr(), len) }
    }

    /// Asks for a line that the producer will write soon, and does nothing else.
    #[inline(always)]
    pub(super) fn fetch_to_write(&self, offset: usize) {
        debug_assert!(offset < self.capacity());
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: PREFETCHW is a hint: it changes nothing that a program can see, and never faults.
        // Processors of this architecture that do not know the instruction pass over it.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]", in(reg) self.data(offset).as_ptr(), options(nostack, preserves_flags, readonly)
            );
        }
    }

    /// Asks for the lines of `bytes` bytes from `offset` on, which the consumer will read soon, and does
    /// nothing else. The bytes lie inside the data area.
    #[inline(always)]
    pub(super) fn fetch_to_read(&self, offset: usize, bytes: usize) {
        debug_assert!(offset + bytes <= self.capacity());
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        for at in (offset..offset + bytes).step_by(LINE) {
            // SAFETY: PREFETCHT0 is a hint: it changes nothing that a program can see, and never faults.
            unsafe {
                std::arch::asm!(
                    "prefetcht0 [{}]", in(reg) self.data(at).as_ptr(), options(nostack, preserves_flags, readonly)
                );
            }
        }
    }

    /// Writes a wrong word at the start of a line, as a peer might.
    #[cfg(test)]
    pub(crate) fn scribble_for_tests(&self, line: usize, word: u32) {
        self.word(line * LINE).store(word, std::sync::atomic::Ordering::SeqCst);
    }

    /// Returns the address of the data area's byte at `offset`.
    ///
    /// # Safety
    /// `offset` lies inside the data area.
    #[inline]
    unsafe fn data(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: control and `offset` together stay inside the area (caller's promise).
        unsafe { self.base.add(CONTROL_BYTES + offset) }
    }
}
