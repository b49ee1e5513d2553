//! A ring: a stream of frames from one producer to one consumer, through memory that both map.
//!
//! The data area is a circle of 64-byte lines. A frame occupies consecutive whole lines: a *ready word* of 4
//! bytes, then the frame's bytes. The producer writes the ready word last. The word holds a mark and the
//! length; zero means "not yet". So a frame of up to 60 bytes travels as one cache line, and the consumer
//! polls the very line that brings the frame. The payload of a longer frame begins on a line, so that the
//! copies at both ends are aligned: the mark says how many bytes lie between the ready word and the frame.
//! When a frame does not fit before the end of the area, a *skip word* before it sends the consumer over the
//! last lines, and so back to the start.
//!
//! The producer also goes back early. Short frames that are consumed as they come need little room, and lines
//! that both caches hold are quicker than new ones. So the producer *turns* behind a *circle* of short
//! frames: if the consumer has freed everything, the next frame stands at the start, and a *turn word* sends
//! the consumer there. The rest of the ring stays at the producer's disposal: while the consumer has not read
//! the turn word, frames skip over its line.
//!
//! The producer keeps this promise: **the line after the last frame has a zero ready word before the last
//! frame becomes visible.** After the producer has published a frame, off the message's path, it clears a few
//! lines ahead and asks for the lines of the next frame. The consumer's cache holds those lines, and taking
//! them from there costs more than all else. The consumer only reads the data area. It writes a single
//! counter, the bytes that it has freed, which the producer seldom reads.
//!
//! Neither side trusts the other: lengths, marks and counters that are read from shared memory are checked,
//! and impossible ones are [`Broken`].
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use super::area::{Area, CONTROL_BYTES, LINE};
use super::sizes::{RING_BYTES_MAX, RING_BYTES_MIN};
use crate::atomic::publish_word;

/// Bytes of the ready word.
const READY_BYTES: usize = 4;
/// Bytes cleared ahead of the next frame, at least, after each frame.
const CLEAR_AHEAD: usize = 2 * LINE;
/// Bytes that the producer clears, and asks for, in one go beyond what must be. Most small frames then find
/// nothing to do.
const STRIDE: usize = 4 * LINE;
/// Least bytes behind a sent frame that the producer asks for: the lines of the next frames, if they are like
/// the last one. Behind a frame larger than [`FETCH_AHEAD_MAX`] the producer prepares nothing: the next frame
/// comes at once, or late, and its copy asks for lines itself. Stores that clear lines wait for one line
/// after the other. 256 KiB between processors that share no cache took 12.5 µs with them, and take 10.9 (AMD
/// EPYC, Zen 5).
const FETCH_AHEAD_MIN: usize = 8 * LINE;
const FETCH_AHEAD_MAX: usize = 66 * LINE;
/// Most bytes of a frame, behind its first line, that the consumer asks for at once when it finds the frame.
/// The lines come while the message is matched. On an Intel Xeon of 2025 half a round trip of 256 bytes takes
/// 0.28 µs instead of 0.31; with all lines of a frame of 4 KiB it takes longer.
const FETCHED_BYTES_MAX: usize = 16 * LINE;
/// Longest frame, in bytes, that occupies a single line.
const ONE_LINE_BYTES: usize = LINE - READY_BYTES;
/// Shortest payload, in bytes, that begins on a line.
const ALIGNED_MIN: usize = 512;

const MARK_MASK: u32 = 0xf000_0000;
const FRAME_MARK: u32 = 0xa000_0000;
/// A skip word, with the number of lines that are skipped.
const SKIP: u32 = 0x5000_0000;
const TURN: u32 = 0x6000_0000;
/// Layout of a frame's ready word: the bytes before the frame in units of 4, then the frame's length.
const PAD_SHIFT: u32 = 24;
const PAD_MASK: u32 = 0x0f00_0000;
const LENGTH_MASK: u32 = 0x00ff_ffff;

/// Bytes of the longest short frame, of which circles are made: 2 KiB and a head. On an Intel Xeon of 2025
/// frames of 4 KiB are no quicker in a circle, and on an AMD EPYC windows of them are slower.
const SHORT_FRAME_MAX: usize = 34 * LINE;
/// Most bytes of a circle of short frames that are answered one by one. Its lines, and those of the answers,
/// stay in the first-level caches: half a round trip of 1 KiB on that Xeon takes 0.41 µs instead of 0.57.
const ANSWERED_CIRCLE_MAX: usize = 32 << 10;
/// Most bytes of a circle of other short frames: a window of 8 bytes is a fifth slower through the whole
/// ring, whose lines leave the caches, and as much slower through a small circle.
const CIRCLE_MAX: usize = 256 << 10;
/// Frames in a row before which the producer tries to turn, where it wants to.
const TURN_TRIES: u32 = 128;

/// Returns the bytes of a circle of short frames in a ring with a data area of `capacity` bytes.
const fn circle(capacity: usize, is_answered: bool) -> usize {
    let (most, share) = if is_answered { (ANSWERED_CIRCLE_MAX, capacity / 4) } else { (CIRCLE_MAX, capacity / 2) };
    if share < most { share } else { most }
}

/// Returns whether the consumer answers frames one by one: `pending` bytes are not freed yet, and since the
/// last look it has sent about as much as it got. A frame takes `need` bytes.
const fn is_answered(need: usize, pending: u64, sent: u64, answers: u64) -> bool {
    pending <= 2 * need as u64 && answers >= sent / 8
}

/// Head and payload of the largest frame in a ring of `ring_bytes`: three eighths of the data area.
pub(crate) const fn frame_max(ring_bytes: usize) -> usize {
    (ring_bytes - CONTROL_BYTES) / 8 * 3 / LINE * LINE - LINE
}

// A ring whose consumer has taken everything always has room for the largest frame: the part skipped at the
// end (less than the frame), the frame, and the cleared line behind it fit together.
const _: () = {
    let capacity = RING_BYTES_MIN - CONTROL_BYTES;
    assert!(2 * (frame_max(RING_BYTES_MIN) + LINE) + 2 * LINE <= capacity);
    assert!(frame_max(RING_BYTES_MIN) >= 4096);
    assert!(frame_max(RING_BYTES_MAX) < LENGTH_MASK as usize);
    // Lines arrive before they are cleared: clearing must not wait for them.
    assert!(CLEAR_AHEAD + STRIDE < FETCH_AHEAD_MIN);
};

/// A breach of the protocol: the other side wrote a value that the protocol never writes. The ring must not
/// be used again.
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

/// Returns the bytes of the whole lines that a frame of `len` bytes occupies when it begins `pad` bytes
/// behind its ready word.
#[inline]
fn footprint(pad: usize, len: usize) -> usize {
    (READY_BYTES + pad + len).next_multiple_of(LINE)
}

/// Returns the bytes between the ready word and a frame, by which a long payload behind the head begins on a
/// line.
#[inline]
fn pad(head: usize, payload: usize) -> usize {
    let before = READY_BYTES + head;
    if payload < ALIGNED_MIN || before > LINE || !before.is_multiple_of(4) { 0 } else { LINE - before }
}

/// Bytes that a frame takes of a ring.
struct Room {
    /// Bytes before the frame in its first line.
    pad: usize,
    /// Bytes of all lines of the frame.
    need: usize,
    /// The place where the consumer looks, and the word that sends it to the frame, if that stands elsewhere.
    away: Option<(usize, u32)>,
}

/// The producer's way to the place of a frame.
enum Way {
    /// The frame follows the last one, behind so many bytes that are skipped: the last ones of the data area,
    /// or those before and of the last turn word.
    On(usize),
    /// The consumer has freed everything: the frame stands at the start, and nothing is skipped.
    Turn,
}

/// The sending end of a ring.
pub(crate) struct Producer {
    area: Area,
    /// Place where the next frame begins.
    offset: usize,
    /// Bytes used since the beginning, skipped ones included.
    sent: u64,
    /// The consumer's counter of freed bytes when the producer last read it.
    freed: u64,
    /// Where the producer looks whether a circle of short frames is complete.
    turn: u64,
    /// The place of the last turn word, and the bytes that had been sent before it, unless the consumer is
    /// known to have read it.
    turned: Option<(usize, u64)>,
    /// The position of that word, if frames come to it. Its line is not cleared.
    turn_word: u64,
    /// The times that the producer has tried in vain to turn.
    tries: u32,
    /// The bytes sent, and those of the consumer's own frames that were taken, when the producer last looked
    /// whether it turns.
    looked: [u64; 2],
    /// The producer looks at nothing before a frame that ends here or earlier: there is room, and no turn.
    bound: u64,
    /// The first words of all lines from `sent` up to here are zero.
    cleared: u64,
    /// The lines up to here have been asked for.
    fetched: u64,
}

impl Producer {
    /// The sending end of a new ring.
    pub(crate) fn new(area: Area) -> Self {
        let turn = circle(area.capacity(), true) as u64;
        Self {
            area,
            offset: 0,
            sent: 0,
            freed: 0,
            turn,
            turned: None,
            turn_word: u64::MAX,
            tries: 0,
            looked: [0; 2],
            bound: turn,
            cleared: area.capacity() as u64,
            fetched: 0,
        }
    }

    /// Appends a frame of `head` and `len` bytes, which `fill` writes in place. Returns `Ok(false)` when
    /// there is no room yet; `fill` was not called then. When it returns true, the frame is visible to the
    /// consumer, and ordered before every later sequentially consistent operation. `answers` returns the
    /// bytes that this process has taken of the ring in the other direction.
    ///
    /// # Panics
    /// When head and payload together exceed [`frame_max`].
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        head: &[u8],
        len: usize,
        answers: impl FnOnce() -> u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<bool, Broken> {
        if head.len() + len <= ONE_LINE_BYTES && self.sent + LINE as u64 <= self.bound {
            self.append(Room { pad: 0, need: LINE, away: None }, head, len, fill);
            return Ok(true);
        }
        self.push_lines(head, len, answers, fill)
    }

    /// Appends any frame. Apart from [`Self::push`], because [`Self::append`] is half as long with constants
    /// for a single line.
    #[inline(never)]
    fn push_lines(
        &mut self,
        head: &[u8],
        len: usize,
        answers: impl FnOnce() -> u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<bool, Broken> {
        let total = head.len() + len;
        assert!(total <= frame_max(self.area.bytes()), "frame of {total} bytes is larger than the shared ring takes");
        let pad = pad(head.len(), len);
        let need = footprint(pad, total);
        let tail = self.area.capacity() - self.offset;
        let goes_on = need <= tail && self.sent + need as u64 <= self.bound;
        let way = if goes_on { Some(Way::On(0)) } else { self.look_for_room(need, answers)? };
        let away = match way {
            None => return Ok(false),
            Some(Way::On(0)) => None,
            Some(Way::On(skip)) => {
                let from = self.offset;
                self.sent += skip as u64;
                self.offset = if skip == tail { 0 } else { from + skip };
                Some((from, SKIP | (skip / LINE) as u32))
            }
            Some(Way::Turn) => {
                let from = std::mem::take(&mut self.offset);
                self.turned = Some((from, self.sent));
                Some((from, TURN))
            }
        };
        if away.is_some() {
            // Lines elsewhere were not cleared for this.
            (self.cleared, self.fetched) = (self.sent, self.sent);
        }
        // What follows the frame is prepared at once, and the turn word must stay.
        self.turn_word = self.turn_word();
        self.append(Room { pad, need, away }, head, len, fill);
        if need > SHORT_FRAME_MAX {
            self.turn = self.sent + circle(self.area.capacity(), true) as u64;
        }
        self.set_bound();
        Ok(true)
    }

    /// Appends a frame that takes this room, which is free.
    #[inline(always)]
    fn append(&mut self, Room { pad, need, away }: Room, head: &[u8], len: usize, fill: impl FnOnce(&mut [u8])) {
        let total = head.len() + len;
        let start = self.offset;
        let end = self.sent + need as u64;
        if self.cleared <= end {
            self.clear(end);
        }
        // SAFETY: lines [start, start + need) are inside the data area: a line at least is there where the
        // next frame begins, and longer frames have been measured. The lines are free (`bound`), so the
        // consumer does not look at them until the ready word below is written.
        let frame = unsafe { self.area.frame_mut(start + READY_BYTES + pad, total) };
        let (front, payload) = frame.split_at_mut(head.len());
        // SAFETY: both are `head.len()` bytes long, and `head` lies elsewhere.
        let mut write_head = || unsafe { copy_short(head.as_ptr(), front.as_mut_ptr(), head.len()) };
        if need == LINE {
            write_head();
            fill(payload);
        } else {
            // The consumer looks at the first line all the time, and so takes it back after each store. While
            // the payload is copied that would cost two more transfers of the line.
            fill(payload);
            write_head();
        }
        let word = FRAME_MARK | (pad as u32 / 4) << PAD_SHIFT | total as u32;
        match away {
            None => publish_word(|order| self.area.word(start).store(word, order)),
            Some((place, away)) => {
                self.area.word(start).store(word, Ordering::Release);
                publish_word(|order| self.area.word(place).store(away, order));
            }
        }
        self.sent = end;
        self.offset = if start + need == self.area.capacity() { 0 } else { start + need };
        self.prepare_next(need);
    }

    /// Returns whether `bytes` bytes have room at present, in frames of 4 KiB to `frame_max` bytes each. Two
    /// lines for each frame, and what frames skip at the end of the ring and before a turn word, count as
    /// taken.
    #[inline(never)]
    pub(crate) fn has_room(&mut self, bytes: u64, frame_max: u64) -> Result<bool, Broken> {
        let need = bytes + bytes / 32 + 2 * (frame_max + 4 * LINE as u64);
        let has_room = |ring: &Self| ring.sent + need <= ring.freed + (ring.area.capacity() - LINE) as u64;
        if !has_room(self) {
            self.read_freed()?;
        }
        Ok(has_room(self))
    }

    /// The bytes that the consumer has freed; `None`: it has freed everything.
    pub(crate) fn taken(&self) -> Option<u64> {
        let freed = self.area.freed().load(Ordering::Acquire);
        (freed != self.sent).then_some(freed)
    }

    /// Reads the consumer's counter of freed bytes.
    fn read_freed(&mut self) -> Result<(), Broken> {
        let freed = self.area.freed().load(Ordering::Acquire);
        if freed < self.freed || freed > self.sent || !freed.is_multiple_of(LINE as u64) {
            return Err(Broken::Freed(freed));
        }
        self.freed = freed;
        self.turned = self.turned.filter(|(_, before)| freed <= *before);
        Ok(())
    }

    /// Reads the consumer's counter, and returns the way to the place of a frame of `need` bytes; None if the
    /// frame, and the cleared line behind it, have no room.
    #[inline(never)]
    fn look_for_room(&mut self, need: usize, answers: impl FnOnce() -> u64) -> Result<Option<Way>, Broken> {
        self.read_freed()?;
        let freed = self.freed;
        let capacity = self.area.capacity();
        let skip = match self.turned {
            // Neither the frame nor the cleared line behind it takes the turn word.
            Some((place, _)) if self.offset <= place && self.offset + need + LINE > place => place + LINE - self.offset,
            _ => 0,
        };
        let tail = capacity - self.offset;
        let skip = if skip + need > tail { tail } else { skip };
        if self.sent + (skip + need) as u64 > freed + (capacity - LINE) as u64 {
            return Ok(None);
        }
        let ends = self.sent + need as u64 > self.turn && self.turns(need, answers);
        Ok(Some(if ends { Way::Turn } else { Way::On(skip) }))
    }

    /// Returns whether a frame of `need` bytes, before which the producer looks, is the first one of a
    /// circle.
    fn turns(&mut self, need: usize, answers: impl FnOnce() -> u64) -> bool {
        let pending = self.sent - self.freed;
        let now = [self.sent, answers()];
        let [sent, answers] = [0, 1].map(|at| now[at].saturating_sub(self.looked[at]));
        let bytes = circle(self.area.capacity(), is_answered(need, pending, sent, answers));
        // The frame takes no line of the turn word.
        let is_complete = need <= SHORT_FRAME_MAX && self.offset + need > bytes && need + LINE <= self.offset;
        let tries_again = is_complete && pending > 0 && self.tries < TURN_TRIES;
        if tries_again {
            // The consumer has freed everything some time.
            self.tries += 1;
            self.turn = self.sent + need as u64;
        } else {
            self.tries = 0;
            self.turn = self.sent + need.max(circle(self.area.capacity(), true)) as u64;
            self.looked = now;
        }
        is_complete && pending == 0
    }

    /// Returns the position of the turn word if frames come to it, and otherwise a position that they never
    /// reach.
    fn turn_word(&self) -> u64 {
        match self.turned {
            Some((place, before)) if self.sent <= before + place as u64 => before + place as u64,
            _ => u64::MAX,
        }
    }

    /// Sets the bound up to which frames need no look.
    fn set_bound(&mut self) {
        let room = self.freed + (self.area.capacity() - LINE) as u64;
        self.bound = room.min(self.turn).min(self.turn_word - LINE as u64);
    }

    /// Clears the line at position `at`. The line is free and not before `cleared`; the lines between
    /// `cleared` and `at` belong to the frame that is being written.
    fn clear(&mut self, at: u64) {
        let mut offset = self.offset + (at - self.sent) as usize;
        if offset >= self.area.capacity() {
            offset -= self.area.capacity();
        }
        self.area.word(offset).store(0, Ordering::Relaxed);
        self.cleared = at + LINE as u64;
    }

    /// Prepares the next frames, off the message's path: clears the lines on which small frames will begin,
    /// and asks for the lines of frames of `need` bytes, like the last one.
    #[inline(always)]
    fn prepare_next(&mut self, need: usize) {
        if need > FETCH_AHEAD_MAX {
            return;
        }
        let ahead = need.max(FETCH_AHEAD_MIN);
        if self.cleared < self.sent + CLEAR_AHEAD as u64 || self.fetched < self.sent + ahead as u64 {
            self.prepare(ahead);
        }
    }

    #[inline(never)]
    fn prepare(&mut self, ahead: usize) {
        let free = self.freed + self.area.capacity() as u64;
        let target = (self.sent + (CLEAR_AHEAD + STRIDE) as u64).min(free).min(self.turn_word);
        let from = self.cleared;
        self.cleared = from.max(target);
        let area = self.area;
        self.for_each_line(from, target, |offset| area.word(offset).store(0, Ordering::Relaxed));
        let from = self.fetched.max(self.sent);
        let to = (self.sent + (ahead + STRIDE) as u64).min(free);
        self.fetched = from.max(to);
        self.for_each_line(from, to, |offset| area.fetch_to_write(offset));
    }

    /// Calls `visit` with the offset of each line from position `from` to position `to`. Neither lies before
    /// `sent`, nor further behind it than the ring is long.
    #[inline(always)]
    fn for_each_line(&self, from: u64, to: u64, visit: impl Fn(usize)) {
        let mut offset = self.offset + (from - self.sent) as usize;
        if offset >= self.area.capacity() {
            offset -= self.area.capacity();
        }
        for _ in 0..to.saturating_sub(from) / LINE as u64 {
            visit(offset);
            offset += LINE;
            if offset == self.area.capacity() {
                offset = 0;
            }
        }
    }
}

/// The receiving end of a ring.
pub(crate) struct Consumer {
    area: Area,
    /// Place where the next frame begins.
    offset: usize,
    /// Bytes consumed since the beginning, skipped ones included.
    taken: u64,
    /// Bytes of the lines of the frame that `peek` has returned and the caller has not released.
    shown: usize,
}

impl Consumer {
    /// The receiving end of a new ring.
    pub(crate) fn new(area: Area) -> Self {
        Self { area, offset: 0, taken: 0, shown: 0 }
    }

    /// Returns the bytes consumed since the beginning, skipped ones included.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns whether a frame is there, in the single order of all sequentially consistent operations (see
    /// the sleeping protocol).
    pub(crate) fn is_pending(&self) -> bool {
        self.area.word(self.offset).load(Ordering::SeqCst) != 0
    }

    /// Returns the next frame, if there is one. The frame stays until [`Self::release`] is called.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<Option<&[u8]>, Broken> {
        let mut word = self.area.word(self.offset).load(Ordering::Acquire);
        if word == 0 {
            return Ok(None);
        }
        if matches!(word & MARK_MASK, SKIP | TURN) {
            self.go_away(word)?;
            word = self.area.word(self.offset).load(Ordering::Acquire);
        }
        let short = word.wrapping_sub(FRAME_MARK) as usize;
        let (pad, len) = if short <= ONE_LINE_BYTES {
            self.shown = LINE;
            (0, short)
        } else {
            self.measure(word)?
        };
        // SAFETY: the frame lies inside the data area (checked). The producer does not write these lines
        // again before `release` has published them. A producer that breaks this rule is another process of
        // the same user, and can change the bytes of its own frame only.
        Ok(Some(unsafe { self.area.frame(self.offset + READY_BYTES + pad, len) }))
    }

    /// Goes to the place of the next frame, which a word says.
    fn go_away(&mut self, word: u32) -> Result<(), Broken> {
        let capacity = self.area.capacity();
        let to = match word {
            TURN => 0,
            _ => {
                let bytes = (word - SKIP) as usize * LINE;
                self.taken += bytes as u64;
                if self.offset + bytes == capacity { 0 } else { self.offset + bytes }
            }
        };
        if to == self.offset || to >= capacity {
            return Err(Broken::ReadyWord(word));
        }
        self.offset = to;
        Ok(())
    }

    /// Returns the distance of a frame of several lines from its ready word, and the frame's length.
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
        // The frame is whole, so this takes nothing from the producer that it still writes.
        self.area.fetch_to_read(self.offset + LINE, bytes.min(LINE + FETCHED_BYTES_MAX) - LINE);
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
        self.area.freed().store(self.taken, Ordering::Release);
    }
}

/// Copies `len` bytes. The usual head of 16–32 bytes takes four moves and no call.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they do not overlap.
#[inline]
unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    if (16..=32).contains(&len) {
        // SAFETY: both 16-byte pieces lie inside `len`; where the pieces overlap, they write the same bytes.
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
