//! The calibration of the machine: at their start the first two ranks of a node move a few messages, in each
//! way in which messages can move, and the first rank times them.
//!
//! The leader (local rank 0) gives orders, and its helper (local rank 1) carries them out:
//!
//! | order | the helper | the leader |
//! |---|---|---|
//! | fill | writes to its buffer, so that the bytes are in its cache | – |
//! | read | has the kernel copy half of the leader's buffer | has the kernel copy half of the helper's |
//! | send | sends frames through a ring | takes them out |
//! | touch | sends frames through a ring whose memory is new | takes them out |
//!
//! Both have a time limit for everything, so a rank that comes late, computes, or dies costs the other one a
//! millisecond at most. Each only writes to memory of its own, and to a ring that nothing else uses: part of
//! the leader's ring to itself.
#![allow(unsafe_code)]

use std::fmt;
use std::sync::atomic::Ordering;

use weft_core::time::{Duration, Instant};
use weft_engine::memory::Writer;
use weft_engine::protocols::{
    CALIBRATION_LONG_BYTES, CALIBRATION_PIECE_BYTES, CALIBRATION_ROUNDS_MAX, CALIBRATION_ROUNDS_MIN,
    CALIBRATION_SHORT_BYTES, CalibrationRound, CalibrationSamples,
};
use weft_engine::transport::Sleeping as _;

use super::Node;
use super::ring::{Consumer, Producer};
use crate::atomic::{AtomicU32, AtomicU64};
use crate::{clock, single_copy, sys};

/// The longest time for which one of the two ranks waits for the other one to come. Both have to come before
/// the job can start.
const WAIT: Duration = Duration::from_millis(3);
/// The time after which no further round begins, if there are enough.
const ROUNDS_TIME: Duration = Duration::from_micros(600);
/// The time after which the leader gives up, with the rounds that it has.
const LEADER_TIME: Duration = Duration::from_millis(1);
/// The time after which the helper gives up.
const HELPER_TIME: Duration = Duration::from_millis(2);
/// Threads beside those on the processors that say nothing: a launcher that serves the ranks at this moment.
const LAUNCHERS: usize = 1;
/// The looks between two looks at the clock.
const LOOKS: u32 = 32;

/// Values of [`CalibrationWords::state`]: the leader has not said yet whether it calibrates, waits for the
/// helper, has it, or needs it no more. The helper may also say that it does not wait any longer.
const UNKNOWN: u32 = 0;
const WAITS: u32 = 1;
const HELPED: u32 = 2;
const OVER: u32 = 3;

/// The bytes of the ring: a long message fits in twice.
pub(super) const CALIBRATION_RING_BYTES: usize = 2 * BUFFER_BYTES;

/// The bytes of the smallest frame that is timed.
const SMALL_BYTES: u64 = 8;
/// The buffer of either rank.
const BUFFER_BYTES: usize = CALIBRATION_LONG_BYTES as usize;

/// The words by which the two ranks agree, in the segment. They are 0 in a new segment.
#[repr(C, align(128))]
pub(super) struct CalibrationWords {
    state: AtomicU32,
    /// Not 0 once the helper has found that plain stores to the ring are slow.
    is_far: AtomicU32,
    /// The addresses of the buffers of the leader and of its helper.
    addresses: [AtomicU64; 2],
    /// The leader's order: its number, and what to do ([`Order`]). In a line of its own, as is the answer.
    order: Line,
    /// The number of the last order that the helper has carried out.
    done: Line,
}

#[repr(C, align(128))]
struct Line(AtomicU64);

/// An order, for so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Fill(u64),
    Read(u64),
    Send(u64),
    Touch(u64),
}

impl Order {
    /// The order as a word: its number, its kind, its bytes.
    fn word(self, number: u64) -> u64 {
        let (kind, bytes) = match self {
            Self::Fill(bytes) => (1, bytes),
            Self::Read(bytes) => (2, bytes),
            Self::Send(bytes) => (3, bytes),
            Self::Touch(bytes) => (4, bytes),
        };
        number << 32 | kind << 28 | bytes
    }

    /// The order in a word, and its number; `None` where the word makes no sense.
    fn parse(word: u64) -> Option<(Self, u64)> {
        let bytes = word & 0x0fff_ffff;
        let order = match word >> 28 & 0xf {
            1 => Self::Fill(bytes),
            2 => Self::Read(bytes),
            3 => Self::Send(bytes),
            4 => Self::Touch(bytes),
            _ => return None,
        };
        (bytes <= CALIBRATION_LONG_BYTES).then_some((order, word >> 32))
    }
}

/// Looks until `found` returns something, or until `end`.
fn look<T>(end: Instant, mut found: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        for _ in 0..LOOKS {
            if let Some(found) = found() {
                return Some(found);
            }
            std::hint::spin_loop();
        }
        if clock::now() >= end {
            return None;
        }
    }
}

/// The reason why nothing is measured; it reads as one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmeasured {
    /// The ranks of the node have no processor each.
    TakesTurns,
    /// Other programs have processors that the ranks need.
    Busy,
    /// The shared segment is too small.
    NoRoom,
    /// There is no memory for the ring.
    NoMemory,
    /// The second rank has waited in vain for the first one.
    WaitedInVain,
    /// The second rank did not come in time.
    CameLate,
}

impl fmt::Display for Unmeasured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TakesTurns => "the ranks of this node take turns on their processors",
            Self::Busy => "other programs have processors that the ranks of this node need",
            Self::NoRoom => "the shared segment has no room for a calibration",
            Self::NoMemory => "there is no memory for the ring of a calibration",
            Self::WaitedInVain => "the second rank of this node has waited in vain for the first one",
            Self::CameLate => "the second rank of this node did not come in time",
        })
    }
}

/// Returns whether the machine has more runnable threads than processors, as far as the kernel says.
fn is_busy() -> bool {
    let runnable = std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| runnable(&text));
    runnable.is_some_and(|runnable| runnable > sys::online_processors() + LAUNCHERS)
}

/// The number of runnable threads in the text of `/proc/loadavg` (proc(5)), `0.20 0.18 0.12 3/80 11206`.
fn runnable(text: &str) -> Option<usize> {
    text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

impl Node {
    /// Measures copies between this rank, the leader, and local rank 1. Takes a millisecond at most. The
    /// leader then calls [`Self::end_calibration`].
    ///
    /// # Errors
    /// The ranks have no processor each, the other rank did not come in time, or there is no memory for the
    /// calibration.
    pub fn calibrate(&self) -> Result<CalibrationSamples, Unmeasured> {
        let segment = &self.inbox.segment;
        if self.is_oversubscribed() {
            return Err(Unmeasured::TakesTurns);
        }
        if is_busy() {
            return Err(Unmeasured::Busy);
        }
        let words = segment.calibration_words();
        let Some(area) = segment.calibration_ring() else { return Err(Unmeasured::NoRoom) };
        segment.reserve_calibration_ring().map_err(|_| Unmeasured::NoMemory)?;
        let mut buffers = [vec![1_u8; BUFFER_BYTES], vec![2_u8; BUFFER_BYTES]];
        words.addresses[0].store(buffers[0].as_mut_ptr().addr() as u64, Ordering::Relaxed);
        let begins = words.state.compare_exchange(UNKNOWN, WAITS, Ordering::SeqCst, Ordering::SeqCst);
        if begins.is_err() {
            return Err(Unmeasured::WaitedInVain);
        }
        let has_come = || (words.state.load(Ordering::Acquire) == HELPED).then_some(());
        if look(clock::now() + WAIT, has_come).is_none()
            && words.state.compare_exchange(WAITS, OVER, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            return Err(Unmeasured::CameLate);
        }
        let pid = segment.rank_state(1).pid.load(Ordering::Acquire);
        let began = clock::now();
        let mut leader = Leader {
            words,
            pid: single_copy::available(pid).then_some(pid),
            buffers,
            ring: Consumer::new(area),
            number: 0,
            end: began + LEADER_TIME,
        };
        let mut rounds = Vec::new();
        let _ = leader.touch();
        // The first round is slow: caches and translations of addresses are cold.
        let _ = leader.round();
        while rounds.len() < CALIBRATION_ROUNDS_MAX
            && (rounds.len() < CALIBRATION_ROUNDS_MIN || clock::now() < began + ROUNDS_TIME)
            && let Some(round) = leader.round()
        {
            rounds.push(round);
        }
        // All rounds are slow beside a program that ran all the time, and no time stands out.
        if is_busy() {
            return Err(Unmeasured::Busy);
        }
        Ok(CalibrationSamples { rounds, is_near: words.is_far.load(Ordering::Acquire) == 0 })
    }

    /// Tells the ranks of the node that nobody needs to help with a calibration, or no longer. Only the
    /// leader may call this, and it does so whether it has calibrated or not.
    pub fn end_calibration(&self) {
        self.inbox.segment.calibration_words().state.store(OVER, Ordering::SeqCst);
    }

    /// Helps the leader with its calibration, if there is one. Only local rank 1 may call this. Takes two
    /// milliseconds at most, and hardly any time if the leader does not calibrate.
    pub fn help_calibrate(&self) {
        let segment = &self.inbox.segment;
        let words = segment.calibration_words();
        let said = || Some(words.state.load(Ordering::Acquire)).filter(|state| *state != UNKNOWN);
        if look(clock::now() + WAIT, said) != Some(WAITS) {
            // A leader that comes later need not wait.
            let _ = words.state.compare_exchange(UNKNOWN, OVER, Ordering::SeqCst, Ordering::SeqCst);
            return;
        }
        let Some(area) = segment.calibration_ring() else { return };
        let buffers = [vec![3_u8; BUFFER_BYTES], vec![4_u8; BUFFER_BYTES]];
        words.addresses[1].store(buffers[0].as_ptr().addr() as u64, Ordering::Relaxed);
        if words.state.compare_exchange(WAITS, HELPED, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return;
        }
        let pid = segment.rank_state(0).pid.load(Ordering::Acquire);
        let helper = Helper { words, pid, buffers, ring: Producer::new(area), end: clock::now() + HELPER_TIME };
        helper.serve();
    }
}

/// The rank that gives orders and times.
struct Leader<'a> {
    words: &'a CalibrationWords,
    /// The helper's process, if the kernel may copy from its memory.
    pid: Option<i32>,
    /// The buffer from which the helper may read, and one for what arrives.
    buffers: [Vec<u8>; 2],
    ring: Consumer,
    /// The number of the last order.
    number: u64,
    end: Instant,
}

impl Leader<'_> {
    fn order(&mut self, order: Order) {
        self.number += 1;
        self.words.order.0.store(order.word(self.number), Ordering::SeqCst);
    }

    /// Waits until the helper has done what it was told.
    fn is_done(&self) -> Option<()> {
        look(self.end, || (self.words.done.0.load(Ordering::Acquire) == self.number).then_some(()))
    }

    fn fill(&mut self, bytes: u64) -> Option<()> {
        self.order(Order::Fill(bytes));
        self.is_done()
    }

    /// Touches all memory for the first time, which is slow.
    fn touch(&mut self) -> Option<()> {
        for _ in 0..CALIBRATION_RING_BYTES / BUFFER_BYTES {
            self.receive(Order::Touch(CALIBRATION_LONG_BYTES), CALIBRATION_LONG_BYTES)?;
        }
        // A helper whose order fails gives up, and the kernel would refuse this one.
        if self.pid.is_none() {
            return Some(());
        }
        self.order(Order::Read(CALIBRATION_LONG_BYTES / 2));
        self.is_done()
    }

    /// A round of everything; `None` when there is no time for it.
    fn round(&mut self) -> Option<CalibrationRound> {
        let mut round = CalibrationRound::default();
        if self.pid.is_some() {
            let CalibrationRound { written, again, .. } = &mut round;
            self.fill(CALIBRATION_SHORT_BYTES)?;
            written.short_ns = self.time_copy(CALIBRATION_SHORT_BYTES)?;
            again.short_ns = self.time_copy(CALIBRATION_SHORT_BYTES)?;
            self.fill(CALIBRATION_LONG_BYTES)?;
            written.long_ns = self.time_copy(CALIBRATION_LONG_BYTES)?;
            again.long_ns = self.time_copy(CALIBRATION_LONG_BYTES)?;
            self.fill(CALIBRATION_LONG_BYTES)?;
            self.buffers[0].fill(self.number as u8);
            written.both_ns = self.time_both()?;
            again.both_ns = self.time_both()?;
        }
        self.fill(CALIBRATION_LONG_BYTES)?;
        round.small_frame_ns = timed(|| self.receive(Order::Send(SMALL_BYTES), SMALL_BYTES))?;
        round.ring_ns = timed(|| self.receive(Order::Send(CALIBRATION_LONG_BYTES), CALIBRATION_LONG_BYTES))?;
        Some(round)
    }

    /// Times a copy of so much of the helper's buffer by the kernel.
    fn time_copy(&mut self, bytes: u64) -> Option<u64> {
        timed(|| self.copy(bytes))
    }

    /// Times copies by both ranks at once, of half a long message each.
    fn time_both(&mut self) -> Option<u64> {
        timed(|| {
            self.order(Order::Read(CALIBRATION_LONG_BYTES / 2));
            self.copy(CALIBRATION_LONG_BYTES / 2)?;
            self.is_done()
        })
    }

    /// Has the kernel copy so much of the helper's buffer.
    fn copy(&mut self, bytes: u64) -> Option<()> {
        let address = self.words.addresses[1].load(Ordering::Relaxed);
        read(self.pid?, address, &mut self.buffers[1], bytes)
    }

    /// Gives an order by which so many bytes come through the ring, and takes them out.
    fn receive(&mut self, order: Order, bytes: u64) -> Option<()> {
        self.order(order);
        let (mut arrived, end) = (0, self.end);
        while arrived < bytes {
            let (ring, landing) = (&mut self.ring, &mut self.buffers[1]);
            // What makes no sense is as good as nothing: the time will be over.
            let taken = look(end, || {
                let frame = ring.peek().ok()??;
                let into = landing.get_mut(arrived as usize..arrived as usize + frame.len())?;
                into.copy_from_slice(frame);
                Some(frame.len())
            })?;
            ring.release();
            arrived += taken as u64;
        }
        Some(())
    }
}

/// The rank that carries out orders.
struct Helper<'a> {
    words: &'a CalibrationWords,
    /// The leader's process.
    pid: i32,
    /// The buffer from which the leader may read, and one for what is read from it.
    buffers: [Vec<u8>; 2],
    ring: Producer,
    end: Instant,
}

impl Helper<'_> {
    /// Carries out orders until there are none, or the time is over.
    fn serve(mut self) {
        let mut writer = Writer::new(clock::ticks);
        let mut last = 0;
        loop {
            let next = look(self.end, || {
                if self.words.state.load(Ordering::Acquire) == OVER {
                    return Some(None);
                }
                let order = Order::parse(self.words.order.0.load(Ordering::Acquire));
                order.filter(|(_, number)| *number != last).map(Some)
            });
            let Some(Some((order, number))) = next else { return };
            let done = match order {
                Order::Fill(bytes) => {
                    self.buffers[0][..bytes as usize].fill(number as u8);
                    Some(())
                }
                Order::Read(bytes) => {
                    let address = self.words.addresses[0].load(Ordering::Relaxed);
                    read(self.pid, address, &mut self.buffers[1], bytes)
                }
                Order::Send(bytes) => self.send(bytes, |from, to| {
                    // SAFETY: both are slices of the same length, and the second one is part of the segment.
                    unsafe { writer.copy(from.as_ptr(), to.as_mut_ptr(), to.len()) }
                }),
                // Slow stores to new memory say nothing of the processors.
                Order::Touch(bytes) => self.send(bytes, |from, to| to.copy_from_slice(from)),
            };
            if done.is_none() {
                return;
            }
            self.words.is_far.store(u32::from(!writer.is_plain()), Ordering::Release);
            last = number;
            self.words.done.0.store(number, Ordering::SeqCst);
        }
    }

    /// Sends so many bytes, in pieces that `copy` writes.
    fn send(&mut self, bytes: u64, mut copy: impl FnMut(&[u8], &mut [u8])) -> Option<()> {
        for start in (0..bytes).step_by(CALIBRATION_PIECE_BYTES as usize) {
            let piece = &self.buffers[0][start as usize..(start + CALIBRATION_PIECE_BYTES).min(bytes) as usize];
            let ring = &mut self.ring;
            look(self.end, || ring.push(&[], piece.len(), || 0, |out| copy(piece, out)).ok()?.then_some(()))?;
        }
        Some(())
    }
}

/// Copies `bytes` bytes at `address` of process `pid` to `landing`.
fn read(pid: i32, address: u64, landing: &mut [u8], bytes: u64) -> Option<()> {
    let landing = landing.get_mut(..bytes as usize)?;
    // SAFETY: `landing` is this rank's memory. If the other rank has freed its memory meanwhile, the kernel
    // refuses, or copies bytes that nobody looks at.
    unsafe { single_copy::read(pid, address, landing.as_mut_ptr(), landing.len()) }.ok()
}

/// The nanoseconds that something took, at least one.
fn timed(something: impl FnOnce() -> Option<()>) -> Option<u64> {
    let began = clock::now();
    something()?;
    Some(clock::now().since(began).as_nanos().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_how_many_threads_run() {
        assert_eq!(runnable("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        for nothing in ["", "0.20 0.18 0.12", "0.20 0.18 0.12 3 11206", "0.20 0.18 0.12 -3/80 11206"] {
            assert_eq!(runnable(nothing), None, "{nothing}");
        }
        assert!(sys::online_processors() > 0);
    }

    #[test]
    fn orders_are_understood() {
        for order in [Order::Fill(0), Order::Read(CALIBRATION_LONG_BYTES), Order::Send(8)] {
            assert_eq!(Order::parse(order.word(77)), Some((order, 77)));
        }
        assert_eq!(Order::parse(0), None);
        assert_eq!(Order::parse(Order::Send(CALIBRATION_LONG_BYTES + 1).word(1)), None);
    }
}
