//! Model checks of the shared link (`make loom`): all schedules of two or three ranks, and all values that a
//! processor's memory may show them.
//!
//! A wake-up that gets lost is a schedule in which no thread can go on, and the checker reports it. The
//! checker also reports a line that two threads use at once.
#![allow(unsafe_code)]

use loom::thread;

use super::area::LINE;
use weft_engine::memory::{Held, Holder, LockWord};
use weft_engine::transport::{
    CollectiveSlots as _, Frames as _, Offered, PostState, PostedReceive, PostedReceives as _, PostedTable,
    Sleeping as _, Stamp, Taker,
};

use super::segment::Segment;
use super::*;

/// Most places where a thread is interrupted in a schedule. Every defect that was put into the protocols on
/// purpose is found with two interruptions.
const INTERRUPTIONS: usize = 3;

/// Most interruptions where three threads wait in a loop, which makes many more schedules.
const INTERRUPTIONS_OF_THREE: usize = 1;

fn check(model: impl Fn() + Sync + Send + 'static) {
    check_interrupted(INTERRUPTIONS, model);
}

fn check_interrupted(times: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(times);
    builder.max_branches = 20_000;
    builder.check(model);
}

fn nodes(size: usize) -> Vec<Node> {
    let key = format!("model-{}-{:?}", std::process::id(), std::thread::current().id()).replace(['(', ')'], "");
    let (segment, _) = Segment::create(&key, size, &Settings::default()).unwrap();
    let segment = Arc::new(segment);
    let node =
        |index| Node::join(Arc::clone(&segment), index, Arc::new(Doorbell::hang().unwrap()), Vec::new()).unwrap();
    (0..size).map(node).collect()
}

/// Receives `count` frames, asleep whenever nothing is there.
fn receive_asleep(node: &mut Node, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while frames.len() < count {
        if node.poll(8, |_, bytes| frames.push(bytes.to_vec())) > 0 {
            continue;
        }
        if node.arm(SleepMode::Futex) {
            node.sleeper().sleep(None);
            node.disarm();
        }
    }
    frames
}

#[test]
fn a_sleeper_is_woken_by_the_first_frame_that_it_ever_gets_and_by_the_next() {
    check(|| {
        let mut nodes = nodes(2);
        let mut receiver = nodes.pop().unwrap();
        let mut sender = nodes.pop().unwrap();
        let sending = thread::spawn(move || {
            assert!(sender.try_send(1, b"a", b""));
            assert!(sender.try_send(1, b"b", b""));
            sender
        });
        assert_eq!(receive_asleep(&mut receiver, 2), [b"a", b"b"]);
        drop(sending.join().unwrap());
        assert_eq!(receiver.awake(), 2);
    });
}

#[test]
fn two_senders_wake_one_sleeper() {
    check(|| {
        let mut nodes = nodes(3);
        let mut receiver = nodes.pop().unwrap();
        let send = |mut node: Node| {
            thread::spawn(move || {
                assert!(node.try_send(2, b"x", b""));
                node
            })
        };
        let senders: Vec<_> = nodes.drain(..).map(send).collect();
        assert_eq!(receive_asleep(&mut receiver, 2), [b"x", b"x"]);
        senders.into_iter().for_each(|sender| drop(sender.join().unwrap()));
        assert_eq!(receiver.awake(), 3);
    });
}

#[test]
fn who_has_written_to_a_receive_wakes_its_owner() {
    check(|| {
        let mut nodes = nodes(2);
        let mut receiver = nodes.pop().unwrap();
        let mut sender = nodes.pop().unwrap();
        let writing = thread::spawn(move || {
            sender.announce_written(1);
            sender
        });
        while !receiver.take_written() {
            if receiver.arm(SleepMode::Futex) {
                receiver.sleeper().sleep(None);
                receiver.disarm();
            }
        }
        drop(writing.join().unwrap());
    });
}

#[test]
fn two_that_answer_each_other_asleep_never_wait_in_vain() {
    check(|| {
        let mut nodes = nodes(2);
        let mut second = nodes.pop().unwrap();
        let mut first = nodes.pop().unwrap();
        let answering = thread::spawn(move || {
            assert_eq!(receive_asleep(&mut second, 1), [b"ping"]);
            assert!(second.try_send(0, b"pong", b""));
            second
        });
        assert!(first.try_send(1, b"ping", b""));
        assert_eq!(receive_asleep(&mut first, 1), [b"pong"]);
        drop(answering.join().unwrap());
    });
}

#[test]
fn frames_of_all_sizes_go_round_a_ring_in_order() {
    // Frames of a single line and of two, so that a frame of two does not fit at the end and is put at the
    // start. The ring goes round twice.
    const SIZES: [usize; 7] = [LINE, 8, LINE, LINE, 8, LINE, LINE];
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 50_000;
    builder.check(|| {
        let mut nodes = nodes(2);
        let mut receiver = nodes.pop().unwrap();
        let mut sender = nodes.pop().unwrap();
        let sending = thread::spawn(move || {
            for (number, size) in SIZES.iter().enumerate() {
                while !sender.try_send_with(1, &[], *size, |out| out.fill(number as u8)) {
                    thread::yield_now();
                }
            }
            sender
        });
        let mut next = 0;
        while next < SIZES.len() {
            let handled = receiver.poll(8, |_, bytes| {
                assert_eq!(bytes, vec![next as u8; SIZES[next]]);
                next += 1;
            });
            if handled == 0 {
                thread::yield_now();
            }
        }
        drop(sending.join().unwrap());
    });
}

/// A segment in which rank 0 has an any-source table.
fn segment(ranks: usize) -> Arc<Segment> {
    let (segment, _) = Segment::create("board", ranks, &Settings::default()).unwrap();
    segment.rank_state(0).common.store(1, Ordering::Relaxed);
    Arc::new(segment)
}

/// The two ends of the table on which rank 0 posts receives for rank 1.
fn posted_tables() -> (PostedReceives, PostedReceives) {
    let segment = segment(2);
    (PostedReceives::new(Arc::clone(&segment), 1, 0), PostedReceives::new(segment, 1, 0))
}

fn wanted(address: u64) -> PostedReceive {
    PostedReceive { context: 8, tag: None, address, length: 100, awaited: false }
}

fn offered(before: u32, number: Option<u32>) -> Offered {
    Offered { context: 8, source: 1, tag: 5, before, written: 0, number }
}

#[test]
fn of_taking_and_withdrawing_a_receive_one_wins_and_both_know() {
    check(|| {
        let (mut receiver, mut sender) = posted_tables();
        let ticket = receiver.post(&wanted(1)).unwrap();
        let taking = thread::spawn(move || {
            let claim = sender.take(&offered(0, None));
            if let Some(claim) = &claim {
                assert_eq!((claim.address, claim.length), (1, 100));
                sender.finish(claim, 70, None, true);
            }
            claim.is_some()
        });
        let withdrawn = receiver.withdraw(ticket);
        assert_ne!(taking.join().unwrap(), withdrawn);
        if !withdrawn {
            let taker = Taker { by: 1, announced: None };
            assert_eq!(receiver.state(ticket), PostState::Done { taker, source: 1, tag: 5, total: 70, rest: None });
        }
    });
}

#[test]
fn of_two_senders_and_the_receiver_one_has_a_receive_from_anybody() {
    check(|| {
        let segment = segment(3);
        let mut common = PostedReceives::new(Arc::clone(&segment), 0, 0);
        let ticket = common.post(&wanted(1)).unwrap();
        let taking = [1, 2].map(|rank| {
            let mut sender = PostedReceives::new(Arc::clone(&segment), rank, 0);
            thread::spawn(move || {
                let claim = sender.take(&offered(0, Some(1)));
                if let Some(claim) = &claim {
                    sender.finish(claim, rank as u64, None, true);
                }
                claim.is_some()
            })
        });
        let withdrawn = common.withdraw(ticket);
        let [one, two] = taking.map(|thread| thread.join().unwrap());
        assert_eq!(usize::from(withdrawn) + usize::from(one) + usize::from(two), 1);
        if !withdrawn {
            let by = if one { 1 } else { 2 };
            let PostState::Done { taker, total, .. } = common.state(ticket) else { panic!("not done") };
            assert_eq!((taker, total), (Taker { by, announced: Some(1) }, by as u64));
        }
    });
}

#[test]
fn a_message_that_is_being_handled_is_never_written_to_the_next_receive() {
    check(|| {
        let (mut receiver, mut sender) = posted_tables();
        let first = receiver.post(&wanted(1)).unwrap();
        receiver.post(&wanted(2)).unwrap();
        let taking = thread::spawn(move || sender.take(&offered(0, Some(1))).map(|claim| claim.address));
        // The announcement of message 1 is handled: the first receive is for message 1, unless the sender has
        // taken it.
        receiver.advance(1);
        let fetched = receiver.withdraw(first);
        receiver.publish_matched();
        match taking.join().unwrap() {
            Some(address) => assert!(!fetched && address == 1, "written to {address}, fetched: {fetched}"),
            None => assert!(fetched),
        }
    });
}

/// Message 1 is handled, and finds its receive; the sender offers message 2. Expect: the receive that was
/// posted first is for message 1, on whichever table it stands.
#[test]
fn a_message_does_not_overtake_one_that_is_being_handled() {
    for first_is_common in [false, true] {
        check(move || {
            let segment = segment(2);
            let mut pair = PostedReceives::new(Arc::clone(&segment), 1, 0);
            let mut common = PostedReceives::new(Arc::clone(&segment), 0, 0);
            let mut sender = PostedReceives::new(segment, 1, 0);
            let (earlier, later) = if first_is_common { (&mut common, &mut pair) } else { (&mut pair, &mut common) };
            let first = earlier.post(&wanted(1)).unwrap();
            later.post(&wanted(2)).unwrap();
            let taking = thread::spawn(move || sender.take(&offered(1, None)).map(|claim| claim.address));
            pair.advance(1);
            let posted_table = if first_is_common { &mut common } else { &mut pair };
            assert!(posted_table.withdraw(first), "message 2 has overtaken message 1");
            pair.publish_matched();
            assert!(matches!(taking.join().unwrap(), None | Some(2)));
        });
    }
}

/// Message 1 is announced and written to the first receive. Its announcement is handled while the sender
/// offers message 2, which is announced as well.   Expect: message 2 has the second receive, or none.
#[test]
fn a_message_behind_a_written_one_has_the_next_receive() {
    check(|| {
        let (mut receiver, mut sender) = posted_tables();
        let [first, second] = [1, 2].map(|address| receiver.post(&wanted(address)).unwrap());
        let claim = sender.take(&offered(0, Some(1))).unwrap();
        sender.finish(&claim, 70, None, true);
        let taking = thread::spawn(move || {
            let behind = Offered { written: 1, ..offered(1, Some(2)) };
            sender.take(&behind).map(|claim| claim.address)
        });
        // Both announcements are handled, the second one only if its message is not being written.
        receiver.advance(1);
        assert!(!receiver.withdraw(first), "message 1 has two receives");
        receiver.publish_matched();
        receiver.advance(2);
        let fetched = receiver.withdraw(second);
        receiver.publish_matched();
        match taking.join().unwrap() {
            Some(address) => assert!(!fetched && address == 2, "written to {address}, fetched: {fetched}"),
            None => assert!(fetched),
        }
    });
}

/// A sender relocates its message, and the program overwrites the memory, while the receiver copies.
/// Expect: a receiver that has copied what the program wrote later finds the new address.
#[test]
fn a_receiver_that_has_copied_too_late_knows_where_the_message_is() {
    check(|| {
        let (receiver, sender) = posted_tables();
        let memory = Arc::new(crate::atomic::AtomicU64::default());
        let program = Arc::clone(&memory);
        let relocating = thread::spawn(move || {
            sender.note_relocated(0, Some((7, 99)));
            program.store(1, Ordering::Relaxed);
            sender
        });
        let copied = memory.load(Ordering::Relaxed);
        let relocated = receiver.relocated(7);
        assert!(copied == 0 || relocated == Some(99), "{copied} {relocated:?}");
        assert_eq!(receiver.relocated(8), None);
        drop(relocating.join().unwrap());
    });
}

#[test]
fn a_receive_that_is_posted_meanwhile_is_taken_whole_or_not_at_all() {
    check(|| {
        let (mut receiver, mut sender) = posted_tables();
        let old = receiver.post(&wanted(1)).unwrap();
        let taking = thread::spawn(move || sender.take(&offered(0, None)).map(|claim| (claim.address, claim.length)));
        let free = receiver.withdraw(old);
        if free {
            // The same entry again, for another receive.
            receiver.post(&PostedReceive { length: 200, ..wanted(2) }).unwrap();
        }
        match taking.join().unwrap() {
            Some((1, 100)) => assert!(!free),
            Some((2, 200)) => assert!(free),
            Some(mixed) => panic!("taken of two receives: {mixed:?}"),
            None => assert!(free),
        }
    });
}

#[test]
fn receives_on_two_boards_are_taken_in_the_order_of_posting() {
    check(|| {
        let segment = segment(2);
        let mut pair = PostedReceives::new(Arc::clone(&segment), 1, 0);
        let mut common = PostedReceives::new(Arc::clone(&segment), 0, 0);
        let mut sender = PostedReceives::new(segment, 1, 0);
        let taking = thread::spawn(move || sender.take(&offered(0, None)).map(|claim| claim.address));
        common.post(&wanted(1)).unwrap();
        pair.post(&wanted(2)).unwrap();
        assert!(matches!(taking.join().unwrap(), None | Some(1)));
    });
}

/// A rank publishes and wakes the other rank, which sleeps until the bytes are there. Expect: the other rank
/// reads the published bytes, and neither sleeps for ever.
#[test]
fn who_sleeps_until_something_is_published_is_woken_and_reads_it_whole() {
    check(|| {
        let mut nodes = nodes(2);
        let mut reader = nodes.pop().unwrap();
        let mut writer = nodes.pop().unwrap();
        let stamp = Stamp { context: 1, phase: 0 };
        let writing = thread::spawn(move || {
            writer.publish(0, stamp, 3, |out| out.copy_from_slice(b"abc"));
            writer.wake_if_asleep(1);
            writer
        });
        let read = loop {
            if let Some(read) = reader.with_published(0, 0, stamp, <[u8]>::to_vec) {
                break read;
            }
            if reader.arm(SleepMode::Futex) {
                if !reader.is_published(0, 0, stamp) {
                    reader.sleeper().sleep(None);
                }
                reader.disarm();
            }
        };
        assert_eq!(read, b"abc");
        drop(writing.join().unwrap());
    });
}

/// A rank publishes phase after phase, each as soon as the other rank has finished the phase whose cell it
/// takes. Expect: the other rank reads each phase, and never a cell that is being written.
#[test]
fn a_cell_is_written_again_only_when_its_reader_has_finished() {
    check(|| {
        let mut nodes = nodes(2);
        let mut reader = nodes.pop().unwrap();
        let mut writer = nodes.pop().unwrap();
        let stamp = |phase| Stamp { context: 1, phase };
        let phases = sizes::SMALL_CELLS + 1;
        let writing = thread::spawn(move || {
            for phase in 0..phases {
                while phase >= sizes::SMALL_CELLS && writer.finished_phases(1, 0).phase + sizes::SMALL_CELLS <= phase {
                    thread::yield_now();
                }
                writer.publish(0, stamp(phase), 1, |out| out[0] = phase as u8);
            }
            writer
        });
        for phase in 0..phases {
            while reader.with_published(0, 0, stamp(phase), |bytes| assert_eq!(bytes, [phase as u8])).is_none() {
                thread::yield_now();
            }
            reader.finish_phases(0, stamp(phase + 1));
        }
        drop(writing.join().unwrap());
    });
}

/// The lock of a part of a window, as a word that the checker knows. Every look asks whether the holder
/// exists.
impl LockWord for crate::atomic::AtomicU32 {
    const LOOKS_PER_YIELD: u32 = 1;
    const LOOKS_PER_QUESTION: u32 = 1;

    fn look(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    fn replace(&self, expected: u32, new: u32) -> bool {
        self.compare_exchange(expected, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn clear(&self) {
        self.store(0, Ordering::Release);
    }

    fn pause() {
        thread::yield_now();
    }

    fn rest() {
        thread::yield_now();
    }
}

/// Two elements that are accessed as plain memory, and their lock. The checker finds two threads that access
/// an element at once.
struct Part {
    lock: crate::atomic::AtomicU32,
    elements: [loom::cell::UnsafeCell<u32>; 2],
}

impl Part {
    fn new() -> loom::sync::Arc<Self> {
        let elements = [loom::cell::UnsafeCell::new(0), loom::cell::UnsafeCell::new(0)];
        loom::sync::Arc::new(Self { lock: crate::atomic::AtomicU32::default(), elements })
    }

    /// Adds one to the elements from `first` on, as a run: all are read before the first is written.
    fn add(&self, first: usize, holder: &Holder) {
        let _held = Held::take(&self.lock, holder);
        self.add_held(first);
    }

    fn add_held(&self, first: usize) {
        let run = &self.elements[first..];
        // SAFETY: the lock is held.
        let before: Vec<u32> = run.iter().map(|element| element.with(|value| unsafe { *value })).collect();
        for (element, before) in run.iter().zip(before) {
            // SAFETY: as above.
            element.with_mut(|value| unsafe { *value = before + 1 });
        }
    }

    fn elements(&self, holder: &Holder) -> [u32; 2] {
        let _held = Held::take(&self.lock, holder);
        // SAFETY: the lock is held.
        [0, 1].map(|index| self.elements[index].with(|value| unsafe { *value }))
    }
}

const fn process(id: u32) -> Holder {
    Holder { id, exists: |_| true }
}

#[test]
fn runs_and_single_elements_of_a_window_lose_nothing() {
    check(|| {
        let part = Part::new();
        let single = loom::sync::Arc::clone(&part);
        let adding = thread::spawn(move || single.add(1, &process(2)));
        part.add(0, &process(1));
        adding.join().unwrap();
        assert_eq!(part.elements(&process(1)), [1, 2]);
    });
}

loom::lazy_static! {
    static ref IS_KILLED: crate::atomic::AtomicU32 = crate::atomic::AtomicU32::default();
}

#[test]
fn the_lock_of_a_process_that_is_killed_goes_to_one_of_those_that_wait() {
    const KILLED: u32 = 9;
    const fn survivor(id: u32) -> Holder {
        Holder { id, exists: |id| id != KILLED || IS_KILLED.load(Ordering::Acquire) == 0 }
    }
    check_interrupted(INTERRUPTIONS_OF_THREE, || {
        let part = Part::new();
        let others = [1, 2].map(|id| {
            let part = loom::sync::Arc::clone(&part);
            thread::spawn(move || part.add(0, &survivor(id)))
        });
        // The killed holder gets this far, and never gives the lock back.
        std::mem::forget(Held::take(&part.lock, &survivor(KILLED)));
        part.add_held(1);
        IS_KILLED.store(1, Ordering::Release);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(part.elements(&survivor(1)), [2, 3]);
    });
}
