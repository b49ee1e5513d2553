//! Copies into shared memory that another processor is about to read.
//!
//! There are three kinds of stores. *Plain* stores leave the lines in the writer's cache. Between processors
//! that share a cache nothing is quicker. Between others each line must be fetched from the reader's cache
//! before it can be written again. That happens line by line, and takes up to ten times as long as the copy
//! itself. *Prefetched* stores are plain ones for which the lines are asked for in advance (PREFETCHW),
//! several at a time. *Streaming* stores bypass the caches: no line is fetched, and the reader's prefetcher
//! finds the data in memory. Their speed does not depend on where the two processes run, but the reader pays.
//!
//! This module does not ask which processors share a cache: a process may move, and a virtual machine does
//! not say. A [`Writer`] measures instead: it makes trials of two kinds, and keeps what was quicker
//! ([`Rule::choose`]). It makes further trials from time to time, less often after each trial that changed
//! nothing, and at once when several copies in a row have been slow.

use super::trials::{PAUSE_MAX, Trials, cost_of};

/// The length below which copies are always plain, in bytes: the fence behind streaming stores waits for
/// memory.
const BYTES_MIN: usize = 6 << 10;
/// The bytes of a block, and the most bytes that are copied in blocks. The C library copies more than 2 KiB
/// at once by one instruction (`rep movsb`), which takes 70 ns to begin on an AMD EPYC (Zen 5). Above 5 KiB
/// the instruction is the quicker way all the same.
const BLOCK_BYTES: usize = 2 << 10;
const BLOCKS_BYTES_MAX: usize = 5 << 10;
/// The number of slow copies in a row after which there is a trial at once: a single one may have been
/// interrupted, or met memory that had never been touched.
const SLOW_IN_A_ROW: u32 = 3;
/// The bytes that count as one copy when they go another way.
const PASSED_BYTES_PER_COPY: u64 = 8 << 10;
/// Ticks for 1 KiB, above which plain stores are slow: 5 GB/s at 2.5 GHz. With a shared cache a copy takes a
/// third of that time at most, without one three times as much at least (AMD EPYC, Zen 3 and Zen 5).
const SLOW_TICKS_PER_KIB: u64 = 512;
/// The same for memory that the reader may have in no cache. Lines that are written must come from memory
/// first then, and a copy does 6 to 18 GB/s instead of 25 to 30; a streamed one does 25. Where the lines are
/// in a cache, an AMD EPYC (Zen 5) does 50 GB/s, and 18 by streaming stores.
const SLOW_TICKS_PER_KIB_BEYOND_CACHES: u64 = 128;
/// Where plain stores are slow, prefetched ones must be quicker than this to be taken: streamed ones are
/// known to help there.
const QUICK_TICKS_PER_KIB: u64 = 256;
/// The distance at which prefetched stores ask for lines, in lines. Half and double of it were no quicker on
/// an Intel Xeon of the Skylake kind. The ring asks for the first ones.
const AHEAD_LINES: usize = 16;
/// The bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// A kind of stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stores {
    Plain,
    Prefetched,
    Streamed,
}

/// What the stores go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Memory that another processor reads at once.
    ForReader,
    /// Memory of the program, for more data than caches hold.
    BeyondCaches,
}

impl Rule {
    /// The ticks for 1 KiB above which plain stores are slow.
    fn slow(self) -> u64 {
        match self {
            Self::ForReader => SLOW_TICKS_PER_KIB,
            Self::BeyondCaches => SLOW_TICKS_PER_KIB_BEYOND_CACHES,
        }
    }

    /// The kind of stores that is tried beside plain ones. What a streamed copy for a reader costs is not
    /// asked: its reader pays a part.
    fn other(self) -> Stores {
        match self {
            Self::ForReader => Stores::Prefetched,
            Self::BeyondCaches => Stores::Streamed,
        }
    }

    /// The kind of stores to use, from the ticks for 1 KiB that plain ones and those of the other kind took.
    fn choose(self, plain: u64, other: u64) -> Stores {
        let is_slow = plain > self.slow();
        match self {
            Self::ForReader if is_slow && other > QUICK_TICKS_PER_KIB => Stores::Streamed,
            Self::BeyondCaches if !is_slow => Stores::Plain,
            // An eighth is no accident.
            _ if other < plain - plain / 8 => self.other(),
            _ => Stores::Plain,
        }
    }
}

/// The state of one process's writes to memory that one other process reads.
#[derive(Debug)]
pub struct Writer {
    rule: Rule,
    /// The kind that the last trial chose.
    chosen: Stores,
    /// The trials of plain stores and of the rule's other kind, by ticks for 1 KiB.
    trials: Trials,
    /// The number of copies in a row that were slow.
    slow: u32,
    ticks: fn() -> u64,
}

impl Writer {
    /// Makes a writer for memory that one other process reads. `ticks` is a counter that grows by about 2.5
    /// each nanosecond. Where there is none, it stands still: copies are plain then.
    pub const fn new(ticks: fn() -> u64) -> Self {
        Self { rule: Rule::ForReader, chosen: Stores::Plain, trials: Trials::new(), slow: 0, ticks }
    }

    /// Makes a writer for arriving data that is too large to stay in the caches that it is copied through.
    pub const fn beyond_caches(ticks: fn() -> u64) -> Self {
        Self { rule: Rule::BeyondCaches, ..Self::new(ticks) }
    }

    /// Returns whether plain or prefetched stores were quick at the last trial, so that the reader is near,
    /// or are being tried.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.chosen != Stores::Streamed || self.trials.next().is_some()
    }

    /// Notes that `len` bytes have gone another way than they would if plain stores were quick: that, too, is
    /// a reason for a trial some time.
    #[inline]
    pub fn pass_by(&mut self, len: u64) {
        self.trials.pass((len / PASSED_BYTES_PER_COPY).min(u64::from(PAUSE_MAX)) as u32);
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
        let began = (self.ticks)();
        // SAFETY: the caller's promise.
        unsafe {
            match self.next() {
                Stores::Plain => copy_plain(from, to, len),
                Stores::Prefetched => copy_prefetched(from, to, len),
                Stores::Streamed => stream(from, to, len),
            }
        }
        self.judge(cost_of((self.ticks)().wrapping_sub(began), len));
    }

    /// The kind of the next copy's stores.
    fn next(&self) -> Stores {
        match self.trials.next() {
            Some(0) => Stores::Plain,
            Some(_) => self.rule.other(),
            None => self.chosen,
        }
    }

    /// Notes the ticks for 1 KiB of a copy.
    fn judge(&mut self, cost: u64) {
        if self.trials.next().is_none() {
            self.slow = if cost > self.rule.slow() { self.slow + 1 } else { 0 };
            self.trials.pass(1);
            if self.slow >= SLOW_IN_A_ROW && self.chosen != Stores::Streamed {
                self.trials.begin();
            }
            return;
        }
        let Some([plain, other]) = self.trials.note(cost) else { return };
        let chosen = self.rule.choose(plain, other);
        self.trials.end(chosen != self.chosen);
        (self.chosen, self.slow) = (chosen, 0);
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

/// Copies by plain stores, and asks for the lines in advance.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_prefetched(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::_mm_storeu_si128;
    // SAFETY: the caller's promise.
    unsafe {
        copy_lines(from, to, len, |target, quarters, left| {
            let ahead = target.add(AHEAD_LINES.min(left - 1) * quarters.len());
            std::arch::asm!("prefetchw [{}]", in(reg) ahead, options(nostack, preserves_flags, readonly));
            quarters.into_iter().enumerate().for_each(|(at, quarter)| _mm_storeu_si128(target.add(at), quarter));
        });
    }
}

/// Copies by streaming stores, which are fenced before this function returns.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
#[cfg(target_arch = "x86_64")]
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{_mm_sfence, _mm_stream_si128};
    // SAFETY: the caller's promise.
    unsafe {
        copy_lines(from, to, len, |target, quarters, _| {
            quarters.into_iter().enumerate().for_each(|(at, quarter)| _mm_stream_si128(target.add(at), quarter));
        });
        _mm_sfence();
    }
}

/// Copies whole aligned lines by `store`, and what lies before and behind them by plain stores. `store` gets
/// the place of a line, its four quarters, and the number of lines that are left with it.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap. `store` touches these lines
/// only.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy_lines(
    from: *const u8,
    to: *mut u8,
    len: usize,
    store: impl Fn(*mut std::arch::x86_64::__m128i, [std::arch::x86_64::__m128i; 4], usize),
) {
    let front = to.align_offset(LINE).min(len);
    let lines = (len - front) / LINE;
    let back = front + lines * LINE;
    // SAFETY: all three parts lie inside the caller's `len` bytes. SSE2 is part of x86-64.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, front);
        for line in 0..lines {
            let at = front + line * LINE;
            let source = from.add(at).cast::<std::arch::x86_64::__m128i>();
            let quarters = std::array::from_fn(|quarter| std::arch::x86_64::_mm_loadu_si128(source.add(quarter)));
            store(to.add(at).cast(), quarters, lines - line);
        }
        std::ptr::copy_nonoverlapping(from.add(back), to.add(back), len - back);
    }
}

// On other processors there are only plain stores.
#[cfg(not(target_arch = "x86_64"))]
use copy_plain as copy_prefetched;
#[cfg(not(target_arch = "x86_64"))]
use copy_plain as stream;

#[cfg(test)]
mod tests {
    use super::super::trials::PAUSE_MIN;
    use super::*;

    #[test]
    fn every_alignment_and_length_is_copied_whole_and_nothing_else_is_touched() {
        let source: Vec<u8> = (0..3 * BYTES_MIN).map(|i| (i % 251) as u8).collect();
        for chosen in [Stores::Plain, Stores::Prefetched, Stores::Streamed] {
            let mut writer = Writer { chosen, trials: Trials::never(), ..Writer::new(|| 0) };
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

    /// Makes copies that cost what `cost` says of their kind, until a trial has ended. Returns the number of
    /// copies before the trial.
    fn until_a_trial_has_ended(writer: &mut Writer, cost: impl Fn(Stores) -> u64) -> u32 {
        let mut before = 0;
        while writer.trials.next().is_none() {
            writer.judge(cost(writer.next()));
            before += 1;
        }
        while writer.trials.next().is_some() {
            writer.judge(cost(writer.next()));
        }
        before
    }

    /// Plain copies turn slow, as when one of the two processes moves to another cache, and quick again
    /// later.   Expect: a trial follows at once, and the writer streams. It makes further trials at longer
    /// and longer intervals. Once a trial is quick it stays plain, and a single slow copy is forgotten.
    #[test]
    fn slow_copies_are_tried_again_less_and_less_often() {
        let mut writer = Writer::new(|| 0);
        let slow = |stores| if stores == Stores::Streamed { 60 } else { 1500 };
        let pauses: Vec<u32> = (0..8).map(|_| until_a_trial_has_ended(&mut writer, slow)).collect();
        assert_eq!(pauses, [SLOW_IN_A_ROW, 128, 256, 512, 1024, 2048, 4096, 4096]);
        assert!(!writer.is_plain());
        writer.pass_by(3 * PASSED_BYTES_PER_COPY);
        assert_eq!((writer.trials.left(), writer.is_plain()), (PAUSE_MAX - 3, false));
        writer.pass_by(u64::MAX);
        assert!(writer.is_plain(), "a message must go through the ring to be tried");
        until_a_trial_has_ended(&mut writer, |_| 100);
        assert_eq!((writer.chosen, writer.trials.left()), (Stores::Plain, PAUSE_MIN));
        for cost in [1500, 1500, 100, 1500] {
            writer.judge(cost);
        }
        assert_eq!(writer.trials.left(), PAUSE_MIN - 4, "copies that are slow now and then were interrupted");
    }

    /// The kinds of machines, by the ticks for 1 KiB of plain and of prefetched stores.   Expect: the
    /// quickest kind, plain ones where both are alike, and streamed ones where neither helps.
    #[test]
    fn each_machine_gets_the_stores_that_are_quick_there() {
        let reader = Rule::ForReader;
        assert_eq!(reader.choose(0, 0), Stores::Plain, "no clock");
        assert_eq!(reader.choose(90, 85), Stores::Plain, "a shared cache");
        assert_eq!(reader.choose(245, 160), Stores::Prefetched, "Skylake, two processors that share none");
        assert_eq!(reader.choose(1500, 1400), Stores::Streamed, "Zen 5 without a shared cache");
        assert_eq!(reader.choose(1500, 200), Stores::Prefetched);
        assert_eq!(reader.choose(400, 390), Stores::Plain);
        let beyond = Rule::BeyondCaches;
        assert_eq!(beyond.choose(100, 10), Stores::Plain, "quick enough to be kept in caches");
        assert_eq!(beyond.choose(200, 102), Stores::Streamed, "memory whose lines are in no cache");
        assert_eq!(beyond.choose(141, 145), Stores::Plain, "Zen 5, lines in a cache: 17 GB/s either way");
    }

    /// A trial, of whose copies one is interrupted.   Expect: the interruption does not count.
    #[test]
    fn an_interrupted_copy_does_not_decide_a_trial() {
        let mut writer = Writer::new(|| 0);
        writer.trials.begin();
        for cost in [90_000, 160, 245, 90_000, 245, 160] {
            writer.judge(cost);
        }
        assert_eq!((writer.chosen, writer.trials.left()), (Stores::Prefetched, PAUSE_MIN));
    }
}
