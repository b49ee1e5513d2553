//! The ring against a queue, between threads, and against a peer that writes nonsense.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use super::*;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use weft_random::Random;

struct Memory {
    base: NonNull<u8>,
    layout: Layout,
}

impl Memory {
    fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes, 2 * LINE).unwrap();
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
        Self { base, layout }
    }

    fn ends(&self) -> (Producer, Consumer) {
        // SAFETY: fresh zeroed memory that outlives both ends in every test.
        let area = unsafe { Area::new(self.base, self.layout.size()) };
        (Producer::new(area), Consumer::new(area))
    }

    fn scribble(&self, offset: usize, word: u32) {
        // SAFETY: tests scribble inside the area only.
        unsafe { self.base.add(offset).cast::<AtomicU32>().as_ref() }.store(word, Ordering::SeqCst);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated above with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (seed as usize * 31 + i * 7 + (i >> 8)) as u8).collect()
}

fn random_len(random: &mut Random, max: usize) -> usize {
    match random.next() % 4 {
        0 => random.next() as usize % 61,
        1 => random.next() as usize % 300,
        2 => random.next() as usize % (max + 1),
        _ => [0, 1, 59, 60, 61, 124, 125, max - 1, max][random.next() as usize % 9],
    }
}

#[test]
fn behaves_like_a_queue_over_many_laps_and_sizes() {
    let rounds = if cfg!(miri) { 300 } else { 60_000 };
    for (seed, bytes) in [(1, RING_BYTES_MIN), (2, RING_BYTES_MIN + 4096), (3, 64 << 10), (4, RING_BYTES_MIN + LINE)] {
        let memory = Memory::new(bytes);
        let (mut producer, mut consumer) = memory.ends();
        let (mut model, mut random, mut sequence) = (VecDeque::new(), Random::new(seed), 0);
        for _ in 0..rounds {
            if random.next() & 1 == 0 {
                let frame = pattern(sequence, random_len(&mut random, frame_max(bytes)));
                let (head, payload) = frame.split_at(frame.len().min(random.next() as usize % 40));
                if producer.push(head, payload.len(), || 0, |out| out.copy_from_slice(payload)).unwrap() {
                    model.push_back(frame);
                    sequence += 1;
                } else {
                    assert!(!model.is_empty(), "an empty ring has room for every frame (seed {seed})");
                }
            } else {
                let found = consumer.peek().unwrap().map(<[u8]>::to_vec);
                assert_eq!(found, model.pop_front(), "seed {seed}");
                if found.is_some() {
                    consumer.release();
                }
            }
            assert_eq!(consumer.is_pending(), !model.is_empty());
        }
        assert!(sequence > rounds / 8, "the test moves frames");
    }
}

#[test]
fn an_empty_ring_always_has_room_for_the_largest_frame_wherever_it_stands() {
    let bytes = RING_BYTES_MIN;
    for lines in 0..(bytes - CONTROL_BYTES) / LINE {
        if cfg!(miri) && lines % 32 != 0 {
            continue;
        }
        let memory = Memory::new(bytes);
        let (mut producer, mut consumer) = memory.ends();
        let mut exchange = |len: usize| {
            assert!(producer.push(&[], len, || 0, |out| out.fill(7)).unwrap(), "{len} bytes after {lines} lines");
            assert_eq!(consumer.peek().unwrap().unwrap(), vec![7; len]);
            consumer.release();
        };
        (0..lines).for_each(|_| exchange(8));
        (0..8).for_each(|_| exchange(frame_max(bytes)));
    }
}

/// Frames of all lengths go through a ring, and some are taken.   Expect: whenever the ring has room for so
/// many bytes, frames with these bytes fit, whatever their lengths are, while the consumer takes nothing.
#[test]
fn bytes_for_which_there_is_room_fit_in_frames_of_any_length() {
    const FRAME_MAX: usize = 8 << 10;
    let (mut random, mut fitted) = (Random::new(11), 0);
    for round in 0..if cfg!(miri) { 5 } else { 2_000 } {
        let memory = Memory::new(96 << 10);
        let (mut producer, mut consumer) = memory.ends();
        for _ in 0..random.next() % 60 {
            let length = random_len(&mut random, FRAME_MAX);
            if !producer.push(&[], length, || 0, |out| out.fill(7)).unwrap() || random.next() % 8 != 0 {
                while consumer.peek().unwrap().is_some() {
                    consumer.release();
                }
            }
        }
        let bytes = random.next() as usize % (80 << 10);
        let mut left = if producer.has_room(bytes as u64, FRAME_MAX as u64).unwrap() { bytes } else { 0 };
        fitted += left;
        while left > 0 {
            let length = (4096 + random.next() as usize % 4097).min(left);
            let is_sent = producer.push(&[1; 20], length, || 0, |out| out.fill(7)).unwrap();
            assert!(is_sent, "{left} of {bytes} bytes do not fit (round {round})");
            left -= length;
        }
    }
    assert!(fitted > 0, "there was never room");
}

#[test]
fn two_threads_see_every_frame_once_and_in_order() {
    let memory = Memory::new(RING_BYTES_MIN);
    let (mut producer, mut consumer) = memory.ends();
    let frames: u64 = if cfg!(miri) { 200 } else { 200_000 };
    let deadline = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut random = Random::new(9);
            for sequence in 0..frames {
                let body = pattern(sequence, random_len(&mut random, 600));
                while !producer
                    .push(&sequence.to_le_bytes(), body.len(), || 0, |out| out.copy_from_slice(&body))
                    .unwrap()
                {
                    assert!(Instant::now() < deadline, "stuck after {sequence} frames");
                    std::thread::yield_now();
                }
            }
        });
        let mut random = Random::new(9);
        for sequence in 0..frames {
            let body = pattern(sequence, random_len(&mut random, 600));
            loop {
                if let Some(frame) = consumer.peek().unwrap() {
                    assert_eq!(frame[..8], sequence.to_le_bytes());
                    assert_eq!(frame[8..], body);
                    break;
                }
                assert!(Instant::now() < deadline, "stuck before frame {sequence}");
                std::thread::yield_now();
            }
            consumer.release();
        }
        assert_eq!(consumer.peek().unwrap(), None);
    });
}

#[test]
fn a_scribbled_ready_word_is_an_error_not_a_wild_read() {
    let first = CONTROL_BYTES;
    let too_long = FRAME_MARK | (frame_max(RING_BYTES_MIN) as u32 + 1);
    for word in [1, u32::MAX, TURN, SKIP, SKIP | 0x00ff_ffff, too_long, FRAME_MARK | 0x00ff_ffff, 0x7f00_0010] {
        let memory = Memory::new(RING_BYTES_MIN);
        let (_, mut consumer) = memory.ends();
        memory.scribble(first, word);
        assert_eq!(consumer.peek(), Err(Broken::ReadyWord(word)));
    }
    // A length that is legal, but not so close to the end of the area.
    let memory = Memory::new(RING_BYTES_MIN);
    let (mut producer, mut consumer) = memory.ends();
    let lines = (RING_BYTES_MIN - CONTROL_BYTES) / LINE;
    // The producer does not turn early: nothing is freed meanwhile.
    for _ in 0..lines - 1 {
        assert!(producer.push(&[], 8, || 0, |_| {}).unwrap());
    }
    for _ in 0..lines - 1 {
        assert!(consumer.peek().unwrap().is_some());
        consumer.release();
    }
    memory.scribble(CONTROL_BYTES + (lines - 1) * LINE, FRAME_MARK | 61);
    assert_eq!(consumer.peek(), Err(Broken::ReadyWord(FRAME_MARK | 61)));
    // A skip to a start where no frame is ready, which a correct producer never makes visible.
    memory.scribble(CONTROL_BYTES + (lines - 1) * LINE, SKIP | 1);
    memory.scribble(CONTROL_BYTES, 0);
    assert_eq!(consumer.peek(), Err(Broken::ReadyWord(0)));
}

#[test]
fn a_scribbled_counter_of_freed_bytes_is_an_error() {
    for (low, high) in [(1, 0), (64, 1), (u32::MAX, u32::MAX), (1 << 20, 0)] {
        let memory = Memory::new(RING_BYTES_MIN);
        let (mut producer, _) = memory.ends();
        memory.scribble(0, low);
        memory.scribble(4, high);
        let mut pushed = 0;
        let broken = loop {
            match producer.push(&[0; 60], 0, || 0, |_| {}) {
                Ok(true) => pushed += 1,
                Ok(false) => panic!("the counter was believed"),
                Err(broken) => break broken,
            }
            assert!(pushed < RING_BYTES_MIN / LINE, "never asked for the counter");
        };
        assert_eq!(broken, Broken::Freed(u64::from(low) | u64::from(high) << 32));
    }
}

#[test]
fn random_scribbles_never_panic() {
    let mut random = Random::new(77);
    for _ in 0..if cfg!(miri) { 5 } else { 2_000 } {
        let memory = Memory::new(RING_BYTES_MIN);
        let (mut producer, mut consumer) = memory.ends();
        for _ in 0..200 {
            if random.next().is_multiple_of(50) {
                let offset = (random.next() as usize % (RING_BYTES_MIN / LINE)) * LINE;
                memory
                    .scribble(offset, random.next() as u32 & [0xff, 0x00ff_ffff, u32::MAX][random.next() as usize % 3]);
            }
            let len = random_len(&mut random, frame_max(RING_BYTES_MIN));
            if random.next() & 1 == 0 {
                if producer.push(&[], len, || 0, |out| out.fill(1)).is_err() {
                    break;
                }
            } else {
                match consumer.peek().map(|frame| frame.map(<[u8]>::len)) {
                    Ok(Some(_)) => consumer.release(),
                    Ok(None) => {}
                    Err(_) => break,
                }
            }
        }
    }
}

/// The bytes of the data area, from its start, that `frames` frames of `len` bytes go through, of which so
/// many are sent at once and then taken.
fn reach(len: usize, frames: usize, at_once: usize, are_answered: bool) -> usize {
    let memory = Memory::new(2 << 20);
    let (mut producer, mut consumer) = memory.ends();
    let mut reach = 0;
    for _ in 0..frames / at_once {
        for _ in 0..at_once {
            let answers = if are_answered { producer.sent } else { 0 };
            assert!(producer.push(&[], len, || answers, |out| out.fill(1)).unwrap());
            reach = reach.max(if producer.offset == 0 { producer.area.capacity() } else { producer.offset });
        }
        for _ in 0..at_once {
            assert_eq!(consumer.peek().unwrap().map(<[u8]>::len), Some(len));
            consumer.release();
        }
    }
    reach
}

/// Short frames that are answered one by one, that are not, windows of them, and long ones.   Expect: the
/// first go round a circle that fits into a first-level cache, the next ones round a longer one, and the last
/// ones through the whole ring.
#[test]
fn short_frames_go_round_a_circle() {
    if cfg!(miri) {
        return;
    }
    for len in [8, 64, 1 << 10, 2 << 10] {
        let answered = reach(len, 20_000, 1, true);
        assert!(answered <= ANSWERED_CIRCLE_MAX + SHORT_FRAME_MAX, "{len} bytes reach {answered}");
        let others = reach(len, 20_000, 1, false);
        assert!((CIRCLE_MAX / 2..=CIRCLE_MAX * 3 / 2).contains(&others), "{len} bytes reach {others}");
        let windows = reach(len, 20_000, 100, true);
        assert!(windows > CIRCLE_MAX / 2 && windows <= CIRCLE_MAX * 2, "windows of {len} bytes reach {windows}");
    }
    let long = reach(64 << 10, 200, 1, true);
    assert!(long > (2 << 20) - (128 << 10), "long frames reach {long}");
}

/// A consumer that stops at every place of a circle, and so also right behind or before a turn.   Expect: the
/// producer sends as much as fits into the ring, frames of mixed lengths arrive in order, and nothing is
/// lost.
#[test]
fn a_consumer_that_stops_leaves_the_whole_ring_to_the_producer() {
    let bytes = 64 << 10;
    let (steps, mut turned) = (if cfg!(miri) { 30 } else { 700 }, 0);
    for stop in 0..steps {
        let memory = Memory::new(bytes);
        let (mut producer, mut consumer) = memory.ends();
        let mut exchanged = 0;
        for _ in 0..stop {
            assert!(producer.push(&[], 8, || exchanged, |out| out.fill(1)).unwrap());
            assert_eq!(consumer.peek().unwrap(), Some(&[1; 8][..]));
            consumer.release();
            exchanged = producer.sent;
        }
        turned += u64::from(producer.offset as u64 != producer.sent);
        let (mut random, mut sent, mut lengths) = (Random::new(stop), 0, Vec::new());
        loop {
            let len = random_len(&mut random, 2000);
            if !producer.push(&[], len, || 0, |out| out.copy_from_slice(&pattern(sent, len))).unwrap() {
                break;
            }
            lengths.push(len);
            sent += 1;
        }
        let room: usize = lengths.iter().map(|len| footprint(0, *len)).sum();
        assert!(room > bytes - CONTROL_BYTES - 8000, "{room} bytes fit after {stop} frames");
        for (sequence, len) in lengths.into_iter().enumerate() {
            assert_eq!(consumer.peek().unwrap(), Some(&pattern(sequence as u64, len)[..]), "after {stop} frames");
            consumer.release();
        }
        assert_eq!(consumer.peek().unwrap(), None);
    }
    assert!(cfg!(miri) || turned > 100, "{turned} consumers stopped behind a turn");
}
