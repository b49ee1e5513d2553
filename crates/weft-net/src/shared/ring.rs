//! One ring: a stream of frames from one producer to one consumer through memory that both map.
//!
//! The data area is a circle of 64-byte lines. A frame occupies whole lines in a row: a *ready word* of 4
//! bytes, then its bytes. The ready word is written last; it holds a mark and the length, and zero means "not
//! yet". So a frame of up to 60 bytes travels as one cache line and the consumer polls the very line that
//! brings it. The payload of a longer frame begins on a line, so that both copies of it are aligned: the mark
//! says how many bytes lie between the ready word and the frame. A frame that does not fit before the end of
//! the area is preceded by a *skip word* that sends the consumer back to the start.
//!
//! The producer keeps this promise: **the line after the last frame has a zero ready word before that frame
//! becomes visible.** It clears a few lines ahead after it has published, off the path of the message, and
//! asks for the lines of the next frame: they are in the consumer's cache, and taking them costs more than
//! all else. The consumer only reads the data area; it writes one counter, the bytes it has freed, every
//! eighth of the ring.
//!
//! Neither side trusts the other: lengths, marks and counters that are read from shared memory are checked,
//! and impossible ones are [`Broken`].
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use super::area::{Area, CONTROL_BYTES, LINE};
use super::sizes::{RING_BYTES_MAX, RING_BYTES_MIN};

/// Bytes of the ready word.
const READY_BYTES: usize = 4;
/// Bytes cleared ahead of the next frame, at least, after each frame.
const CLEAR_AHEAD: usize = 2 * LINE;
/// So many bytes are cleared, and asked for, in one go, beyond what must be: most small frames then find
/// nothing to do.
const STRIDE: usize = 4 * LINE;
/// Bytes behind a frame that are asked for when it has left: what the next frames will use, if they are like
/// it. Behind one that is larger than the most there comes the next piece of a message, if anything: it is
/// waited for already, and its copy asks for lines itself.
const FETCH_AHEAD_MIN: usize = 8 * LINE;
const FETCH_AHEAD_MAX: usize = 66 * LINE;
/// A frame of so many bytes occupies one line.
const ONE_LINE_BYTES: usize = LINE - READY_BYTES;
/// Payloads of so many bytes begin on a line.
const ALIGNED_MIN: usize = 512;

const MARK_MASK: u32 = 0xf000_0000;
const FRAME_MARK: u32 = 0xa000_0000;
const SKIP: u32 = 0x5a00_0000;
/// Of a frame's ready word: the bytes before the frame, in units of 4, and its length.
const PAD_SHIFT: u32 = 24;
const PAD_MASK: u32 = 0x0f00_0000;
const LENGTH_MASK: u32 = 0x00ff_ffff;

/// The consumer tells the producer what it has freed each time this share of the ring has gathered.
const PUBLISH_SHARE: usize = 8;

/// Head and payload of the largest frame in a ring of `ring_bytes`: three eighths of the data area.
pub(crate) const fn frame_max(ring_bytes: usize) -> usize {
    (ring_bytes - CONTROL_BYTES) / 8 * 3 / LINE * LINE - LINE
}

// A ring whose consumer has taken everything always has room for the largest frame: the unpublished eighth,
// the part skipped at the end (less than the frame), the frame, and the cleared line behind it fit together.
const _: () = {
    let capacity = RING_BYTES_MIN - CONTROL_BYTES;
    assert!(capacity / PUBLISH_SHARE + 2 * (frame_max(RING_BYTES_MIN) + LINE) + 2 * LINE <= capacity);
    assert!(frame_max(RING_BYTES_MIN) >= 4096);
    assert!(frame_max(RING_BYTES_MAX) < LENGTH_MASK as usize);
    // What is asked for is there before it is cleared, which must not be waited for.
    assert!(CLEAR_AHEAD + STRIDE < FETCH_AHEAD_MIN);
};

/// The other side wrote what the protocol never writes. The ring must not be used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// A ready word with a wrong mark, or a length that no frame has, or a skip where none can be.
    ReadyWord(u32),
    /// A counter of freed bytes that goes back, overtakes the producer, or is not whole lines.
    Freed(u64),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ReadyWord(word) => write!(f, "wrote the impossible ready word {word:#010x} into the shared ring"),
            Self::Freed(count) => write!(f, "claims to have freed {count} bytes of the shared ring, which cannot be"),
        }
    }
}

/// Bytes of whole lines that a frame of `len` bytes, `pad` bytes behind its ready word, occupies.
#[inline]
fn footprint(pad: usize, len: usize) -> usize {
    (READY_BYTES + pad + len).next_multiple_of(LINE)
}

/// Bytes between the ready word and a frame, so that the payload behind the head begins on a line if it is
/// long.
#[inline]
fn pad(head: usize, payload: usize) -> usize {
    let before = READY_BYTES + head;
    if payload < ALIGNED_MIN || before > LINE || !before.is_multiple_of(4) { 0 } else { LINE - before }
}

/// What a frame takes of a ring, bytes.
struct Room {
    /// Before it in its first line.
    pad: usize,
    /// Of all its lines.
    need: usize,
    /// Before the end of the data area, where it does not fit.
    skip: usize,
}

/// The sending end of a ring.
pub(crate) struct Producer {
    area: Area,
    /// Where the next frame begins: `sent` modulo the capacity.
    offset: usize,
    /// Bytes used since the beginning, skipped ones included.
    sent: u64,
    /// The consumer's counter when it was last read.
    freed: u64,
    /// The first words of all lines from `sent` up to here are zero.
    cleared: u64,
    /// The lines up to here have been asked for.
    fetched: u64,
}

impl Producer {
    /// The sending end of a new ring.
    pub(crate) fn new(area: Area) -> Self {
        Self { area, offset: 0, sent: 0, freed: 0, cleared: area.capacity() as u64, fetched: 0 }
    }

    /// Appends a frame of `head` and `len` bytes that `fill` writes in place. Ok(false): no room yet, and
    /// `fill` was not called. Visible to the consumer, and ordered before every later sequentially consistent
    /// operation, when it returns true.
    ///
    /// # Panics
    /// When head and payload together exceed [`frame_max`].
    #[inline(always)]
    pub(crate) fn push(&mut self, head: &[u8], len: usize, fill: impl FnOnce(&mut [u8])) -> Result<bool, Broken> {
        if head.len() + len <= ONE_LINE_BYTES {
            return self.append(Room { pad: 0, need: LINE, skip: 0 }, head, len, fill);
        }
        self.push_lines(head, len, fill)
    }

    /// The same for a frame of several lines. Apart, since with constants for them [`Self::append`] is half
    /// as long.
    #[inline(never)]
    fn push_lines(&mut self, head: &[u8], len: usize, fill: impl FnOnce(&mut [u8])) -> Result<bool, Broken> {
        let total = head.len() + len;
        assert!(total <= frame_max(self.area.bytes()), "frame of {total} bytes is larger than the shared ring takes");
        let pad = pad(head.len(), len);
        let need = footprint(pad, total);
        let tail = self.area.capacity() - self.offset;
        self.append(Room { pad, need, skip: if need > tail { tail } else { 0 } }, head, len, fill)
    }

    /// Appends a frame that takes this room.
    #[inline(always)]
    fn append(
        &mut self,
        Room { pad, need, skip }: Room,
        head: &[u8],
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<bool, Broken> {
        let total = head.len() + len;
        if !self.has_room(skip + need)? {
            return Ok(false);
        }
        let start = if skip == 0 { self.offset } else { 0 };
        let end = self.sent + (skip + need) as u64;
        if self.cleared <= end {
            self.clear(end);
        }
        // SAFETY: lines [start, start + need) are inside the data area: where the next frame begins there is
        // a line at least, and longer frames have been measured. They are free (has_room), so the consumer
        // does not look at them until the ready word below.
        let frame = unsafe { self.area.frame_mut(start + READY_BYTES + pad, total) };
        let (front, payload) = frame.split_at_mut(head.len());
        // SAFETY: both are that long; `head` is elsewhere.
        unsafe { copy_short(head.as_ptr(), front.as_mut_ptr(), head.len()) };
        fill(payload);
        let word = FRAME_MARK | (pad as u32 / 4) << PAD_SHIFT | total as u32;
        if skip == 0 {
            self.area.word(start).store(word, Ordering::SeqCst);
        } else {
            self.area.word(0).store(word, Ordering::Release);
            self.area.word(self.offset).store(SKIP, Ordering::SeqCst);
        }
        self.sent = end;
        self.offset = if start + need == self.area.capacity() { 0 } else { start + need };
        self.prepare_next(need);
        Ok(true)
    }

    /// Whether `bytes` and the cleared line behind them are free.
    #[inline(always)]
    fn has_room(&mut self, bytes: usize) -> Result<bool, Broken> {
        let limit = (self.area.capacity() - LINE) as u64;
        if self.sent + bytes as u64 - self.freed <= limit {
            return Ok(true);
        }
        self.look_for_room(bytes, limit)
    }

    #[inline(never)]
    fn look_for_room(&mut self, bytes: usize, limit: u64) -> Result<bool, Broken> {
        let freed = self.area.freed().load(Ordering::Acquire);
        if freed < self.freed || freed > self.sent || !freed.is_multiple_of(LINE as u64) {
            return Err(Broken::Freed(freed));
        }
        self.freed = freed;
        Ok(self.sent + bytes as u64 - freed <= limit)
    }

    /// Clears the line at position `at`, which is free and not before `cleared`; what lies between belongs to
    /// the frame being written.
    fn clear(&mut self, at: u64) {
        let mut offset = self.offset + (at - self.sent) as usize;
        if offset >= self.area.capacity() {
            offset -= self.area.capacity();
        }
        self.area.word(offset).store(0, Ordering::Relaxed);
        self.cleared = at + LINE as u64;
    }

    /// Clears the lines on which the next small frames will begin, and asks for those that frames like the
    /// last one, of `need` bytes, will use, while nobody waits for it.
    #[inline(always)]
    fn prepare_next(&mut self, need: usize) {
        let ahead = if need > FETCH_AHEAD_MAX { FETCH_AHEAD_MIN } else { need.max(FETCH_AHEAD_MIN) };
        if self.cleared < self.sent + CLEAR_AHEAD as u64 || self.fetched < self.sent + ahead as u64 {
            self.prepare(ahead);
        }
    }

    #[inline(never)]
    fn prepare(&mut self, ahead: usize) {
        let free = self.freed + self.area.capacity() as u64;
        let target = (self.sent + (CLEAR_AHEAD + STRIDE) as u64).min(free);
        while self.cleared < target {
            self.clear(self.cleared);
        }
        let from = self.fetched.max(self.sent);
        let to = (self.sent + (ahead + STRIDE) as u64).min(free);
        let mut offset = self.offset + (from - self.sent) as usize;
        for _ in 0..to.saturating_sub(from) / LINE as u64 {
            if offset >= self.area.capacity() {
                offset -= self.area.capacity();
            }
            self.area.fetch_to_write(offset);
            offset += LINE;
        }
        self.fetched = self.fetched.max(to);
    }
}

/// The receiving end of a ring.
pub(crate) struct Consumer {
    area: Area,
    /// Where the next frame begins.
    offset: usize,
    /// Bytes consumed since the beginning, skipped ones included.
    taken: u64,
    /// What the producer was last told.
    published: u64,
    /// Bytes of the lines of the frame that `peek` has returned and nobody has released.
    shown: usize,
}

impl Consumer {
    /// The receiving end of a new ring.
    pub(crate) fn new(area: Area) -> Self {
        Self { area, offset: 0, taken: 0, published: 0, shown: 0 }
    }

    /// Whether something is there, in the single order of all sequentially consistent operations (see the
    /// sleeping protocol).
    pub(crate) fn is_pending(&self) -> bool {
        self.area.word(self.offset).load(Ordering::SeqCst) != 0
    }

    /// The next frame, if it is there. It stays until [`Self::release`] is called.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<Option<&[u8]>, Broken> {
        let mut word = self.area.word(self.offset).load(Ordering::Acquire);
        if word == 0 {
            return Ok(None);
        }
        if word == SKIP {
            if self.offset == 0 {
                return Err(Broken::ReadyWord(word));
            }
            self.taken += (self.area.capacity() - self.offset) as u64;
            self.offset = 0;
            word = self.area.word(0).load(Ordering::Acquire);
        }
        let short = word.wrapping_sub(FRAME_MARK) as usize;
        let (pad, len) = if short <= ONE_LINE_BYTES {
            self.shown = LINE;
            (0, short)
        } else {
            self.measure(word)?
        };
        // SAFETY: the frame lies inside the data area (checked). The producer does not write these lines
        // again before `release` has published them. A producer that does so all the same is another process
        // of the same user that breaks the protocol: it can change the bytes of its own frame, nothing else.
        Ok(Some(unsafe { self.area.frame(self.offset + READY_BYTES + pad, len) }))
    }

    /// How far behind its ready word a frame of several lines begins, and how long it is.
    #[inline]
    fn measure(&mut self, word: u32) -> Result<(usize, usize), Broken> {
        let len = (word & LENGTH_MASK) as usize;
        let pad = ((word & PAD_MASK) >> PAD_SHIFT) as usize * 4;
        let bytes = footprint(pad, len);
        let fits = len <= frame_max(self.area.bytes()) && bytes <= self.area.capacity() - self.offset;
        if word & MARK_MASK != FRAME_MARK || !fits {
            return Err(Broken::ReadyWord(word));
        }
        self.shown = bytes;
        Ok((pad, len))
    }

    /// Frees the frame that `peek` returned last.
    #[inline]
    pub(crate) fn release(&mut self) {
        let bytes = std::mem::take(&mut self.shown);
        self.taken += bytes as u64;
        self.offset += bytes;
        if self.offset == self.area.capacity() {
            self.offset = 0;
        }
        if (self.taken - self.published) as usize >= self.area.capacity() / PUBLISH_SHARE {
            self.area.freed().store(self.taken, Ordering::Release);
            self.published = self.taken;
        }
    }
}

/// Copies `len` bytes; the usual head of 16–32 bytes takes four moves and no call.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
#[inline]
unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    if (16..=32).contains(&len) {
        // SAFETY: both 16-byte pieces lie inside `len`; where they overlap each other they write the same
        // bytes.
        unsafe {
            let first = from.cast::<[u8; 16]>().read_unaligned();
            let last = from.add(len - 16).cast::<[u8; 16]>().read_unaligned();
            to.cast::<[u8; 16]>().write_unaligned(first);
            to.add(len - 16).cast::<[u8; 16]>().write_unaligned(last);
        }
    } else {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
    }
}

#[cfg(all(test, not(loom)))]
#[path = "ring_tests.rs"]
mod tests;
