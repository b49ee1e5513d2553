//! Copies into shared memory that another processor is about to read.
//!
//! There are two kinds of stores. Plain stores leave the lines in the writer's cache. Between processors that
//! share a cache nothing is quicker. Between others each line must be fetched from the reader's cache before
//! it can be written again. That happens line by line, and takes ten times as long as the copy itself.
//! Streaming stores bypass the caches: no line is fetched, and the reader's prefetcher finds the data in
//! memory. Their speed does not depend on where the two processes run.
//!
//! This module does not ask which processors share a cache: a process may move, and a virtual machine does
//! not say. A [`Writer`] measures instead: it uses plain stores until several copies in a row have been slow,
//! then streams, and tries plain stores again from time to time, less often after each try that was slow.

/// The length below which copies are always plain, in bytes: the fence behind streaming stores waits for
/// memory.
const BYTES_MIN: usize = 4 << 10;
/// The bytes of a block, and the most bytes that are copied in blocks. The C library copies more than 2 KiB
/// at once by one instruction (`rep movsb`), which takes 70 ns to begin on an AMD EPYC (Zen 5). Above 5 KiB
/// the instruction is the quicker way all the same.
const BLOCK_BYTES: usize = 2 << 10;
const BLOCKS_BYTES_MAX: usize = 5 << 10;
/// The number of copies between two tries of plain stores, at first and at most. A try in vain costs about as
/// much as ten copies.
const PAUSE_MIN: u32 = 128;
const PAUSE_MAX: u32 = 4096;
/// The number of slow copies in a row after which the writer streams: a single one may have been interrupted,
/// or met memory that had never been touched.
const SLOW_IN_A_ROW: u32 = 3;
/// The bytes that count as one copy when they go another way.
const PASSED_BYTES_PER_COPY: u64 = 8 << 10;
/// The divisor that tells a slow plain copy: it takes more ticks of the processor's clock than its bytes
/// divided by this. That is 5 GB/s at 2.5 GHz. With a shared cache a copy takes a third of that time at most,
/// without one three times as much at least.
const SLOW_TICKS_SHARE: u64 = 2;
/// The divisor for memory that the reader may have in no cache. Lines that are written must come from memory
/// first then, and a copy does 6 to 18 GB/s instead of 25 to 30; a streamed one does 25.
const SLOW_TICKS_SHARE_BEYOND_CACHES: u64 = 8;
/// The bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// The state of one process's writes to memory that one other process reads.
#[derive(Debug)]
pub struct Writer {
    /// The number of copies to be streamed before plain stores are tried again; 0: copies are plain.
    streamed_left: u32,
    /// The number at which that begins the next time.
    pause: u32,
    /// The number of plain copies in a row that were slow.
    slow: u32,
    /// The divisor: a plain copy that takes more ticks than its bytes divided by this is slow.
    slow_share: u64,
    ticks: fn() -> u64,
}

impl Writer {
    /// Makes a writer for memory that one other process reads. `ticks` is a counter that grows by about 2.5
    /// each nanosecond. Where there is none, it stands still: copies are plain then.
    pub const fn new(ticks: fn() -> u64) -> Self {
        Self { streamed_left: 0, pause: PAUSE_MIN, slow: 0, slow_share: SLOW_TICKS_SHARE, ticks }
    }

    /// Makes a writer for arriving data that is too large to stay in the caches that it is copied through.
    pub const fn beyond_caches(ticks: fn() -> u64) -> Self {
        Self { slow_share: SLOW_TICKS_SHARE_BEYOND_CACHES, ..Self::new(ticks) }
    }

    /// Returns whether plain stores were quick at the last try: the reader is near.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.streamed_left == 0
    }

    /// Notes that `len` bytes have gone another way than they would if plain stores were quick: that, too, is
    /// a reason to try again some time.
    #[inline]
    pub fn pass_by(&mut self, len: u64) {
        self.streamed_left =
            self.streamed_left.saturating_sub((len / PASSED_BYTES_PER_COPY).min(u64::from(PAUSE_MAX)) as u32);
    }

    /// Copies `len` bytes from `from` to `to`. A process that sees a later release store sees them.
    ///
    /// # Safety
    /// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
    #[inline]
    pub unsafe fn copy(&mut self, from: *const u8, to: *mut u8, len: usize) {
        if len < BYTES_MIN {
            // SAFETY: the caller's promise.
            return unsafe { copy_plain(from, to, len) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.copy_long(from, to, len) }
    }

    #[inline(never)]
    unsafe fn copy_long(&mut self, from: *const u8, to: *mut u8, len: usize) {
        if self.streamed_left > 0 {
            self.streamed_left -= 1;
            // SAFETY: the caller's promise.
            return unsafe { stream(from, to, len) };
        }
        let began = (self.ticks)();
        // SAFETY: the caller's promise.
        unsafe { copy_plain(from, to, len) };
        self.judge((self.ticks)().wrapping_sub(began) > len as u64 / self.slow_share);
    }

    fn judge(&mut self, slow: bool) {
        if !slow {
            self.slow = 0;
            self.pause = PAUSE_MIN.max(self.pause - self.pause / 8);
            return;
        }
        self.slow += 1;
        if self.slow >= SLOW_IN_A_ROW {
            self.slow = 0;
            self.streamed_left = self.pause;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Copies by plain stores.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
#[inline]
unsafe fn copy_plain(from: *const u8, to: *mut u8, len: usize) {
    let mut done = 0;
    if len <= BLOCKS_BYTES_MAX {
        while len - done > BLOCK_BYTES {
            // SAFETY: the block lies inside `len`; the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from.add(done), to.add(done), BLOCK_BYTES) };
            // Otherwise the compiler sees that all this is one copy, and makes it one.
            done = std::hint::black_box(done + BLOCK_BYTES);
        }
    }
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(from.add(done), to.add(done), len - done) };
}

#[cfg(target_arch = "x86_64")]
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    // Lines that are written in part are left to the caches.
    let front = to.align_offset(LINE).min(len);
    let lines = (len - front) / LINE;
    let back = front + lines * LINE;
    // SAFETY: all three parts lie inside the caller's `len` bytes; the streaming stores go to whole aligned
    // lines, and are fenced before this function returns. SSE2 is part of x86-64.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, front);
        for line in 0..lines {
            let source = from.add(front + line * LINE).cast::<__m128i>();
            let target = to.add(front + line * LINE).cast::<__m128i>();
            let (a, b) = (_mm_loadu_si128(source), _mm_loadu_si128(source.add(1)));
            let (c, d) = (_mm_loadu_si128(source.add(2)), _mm_loadu_si128(source.add(3)));
            _mm_stream_si128(target, a);
            _mm_stream_si128(target.add(1), b);
            _mm_stream_si128(target.add(2), c);
            _mm_stream_si128(target.add(3), d);
        }
        std::ptr::copy_nonoverlapping(from.add(back), to.add(back), len - back);
        _mm_sfence();
    }
}

// On other processors there are only plain stores.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alignment_and_length_is_copied_whole_and_nothing_else_is_touched() {
        let source: Vec<u8> = (0..3 * BYTES_MIN).map(|i| (i % 251) as u8).collect();
        for streamed_left in [0, u32::MAX] {
            let mut writer = Writer { streamed_left, ..Writer::new(|| 0) };
            for (skip_from, skip_to) in [(0, 0), (1, 0), (0, 1), (3, 61), (64, 63), (17, 32)] {
                for len in [0, 1, BYTES_MIN - 1, BYTES_MIN, BYTES_MIN + 1, BYTES_MIN + 63, 2 * BYTES_MIN + 17] {
                    let mut target = vec![0xaa_u8; 3 * BYTES_MIN];
                    // SAFETY: both ranges lie inside their vectors.
                    unsafe { writer.copy(source.as_ptr().add(skip_from), target.as_mut_ptr().add(skip_to), len) };
                    assert_eq!(target[skip_to..skip_to + len], source[skip_from..skip_from + len]);
                    assert!(target[..skip_to].iter().chain(&target[skip_to + len..]).all(|byte| *byte == 0xaa));
                }
            }
        }
    }

    /// Plain copies turn slow, as when one of the two processes moves to another cache, and quick again
    /// later.   Expect: after slow copies it streams, and tries plain stores at longer and longer intervals.
    /// Once a try is quick it stays plain, and a single slow copy is forgotten in the end.
    #[test]
    fn slow_copies_are_tried_again_less_and_less_often() {
        let mut writer = Writer::new(|| 0);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            (0..SLOW_IN_A_ROW).for_each(|_| writer.judge(true));
            pauses.push(std::mem::take(&mut writer.streamed_left));
        }
        assert_eq!(pauses, [128, 256, 512, 1024, 2048, 4096, 4096, 4096]);
        (0..64).for_each(|_| writer.judge(false));
        (0..SLOW_IN_A_ROW).for_each(|_| writer.judge(true));
        assert_eq!(writer.streamed_left, PAUSE_MIN);
        writer.pass_by(3 * PASSED_BYTES_PER_COPY);
        assert_eq!((writer.streamed_left, writer.is_plain()), (PAUSE_MIN - 3, false));
        writer.pass_by(u64::MAX);
        assert!(writer.is_plain());
        writer.judge(true);
        writer.judge(true);
        writer.judge(false);
        writer.judge(true);
        assert!(writer.is_plain(), "copies that are slow now and then were interrupted");
    }
}
