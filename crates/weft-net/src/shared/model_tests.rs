//! All schedules of two or three ranks, and all values that the memory of a processor may show them: `make loom`.
//!
//! A wake-up that gets lost is a schedule in which nobody can go on, which the checker reports. So is a line that two use at once.

use loom::thread;

use super::area::LINE;
use super::segment::Segment;
use super::*;

/// Places where a thread is interrupted at most, in one schedule. Every defect of the protocols that was put there on purpose is found
/// with two.
const INTERRUPTIONS: usize = 3;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(INTERRUPTIONS);
    builder.max_branches = 20_000;
    builder.check(model);
}

fn nodes(size: usize) -> Vec<Node> {
    let key = format!("model-{}-{:?}", std::process::id(), std::thread::current().id()).replace(['(', ')'], "");
    let addresses: Vec<SocketAddr> = (0..size).map(|index| doorbell::address(&key, index).unwrap()).collect();
    let (segment, _) = Segment::create(&key, size, &Settings::default()).unwrap();
    let segment = Arc::new(segment);
    let node = |index| {
        let bell = Doorbell::bind(&addresses[index]).unwrap();
        Node::join(Arc::clone(&segment), index, bell, addresses.clone(), Vec::new())
    };
    (0..size).map(node).collect()
}

/// Receives `count` frames, asleep whenever nothing is there.
fn receive_asleep(node: &mut Node, count: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while frames.len() < count {
        if node.poll(8, |_, bytes| frames.push(bytes.to_vec())) > 0 {
            continue;
        }
        if node.arm(Rest::Futex) {
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
            if receiver.arm(Rest::Futex) {
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
    // One line and two, so that a frame of two does not fit at the end and is put at the start; twice round.
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

/// The two ends of a board.
fn boards() -> (Board, Board) {
    let (segment, _) = Segment::create("board", 1, &Settings::default()).unwrap();
    let segment = Arc::new(segment);
    (Board::new(Arc::clone(&segment), 0, 0), Board::new(segment, 0, 0))
}

fn wanted(address: u64, after: u32) -> Wanted {
    Wanted { context: 8, tag: None, address, length: 100, after, awaited: false }
}

#[test]
fn of_taking_and_withdrawing_a_receive_one_wins_and_both_know() {
    check(|| {
        let (mut receiver, mut sender) = boards();
        let ticket = receiver.post(&wanted(1, 0)).unwrap();
        let taking = thread::spawn(move || {
            let claim = sender.take(8, 5, 0, None);
            if let Some(claim) = &claim {
                assert_eq!((claim.address, claim.length), (1, 100));
                sender.finish(claim, 70, true);
            }
            claim.is_some()
        });
        let withdrawn = receiver.withdraw(ticket);
        assert_ne!(taking.join().unwrap(), withdrawn);
        if !withdrawn {
            assert_eq!(receiver.fate(ticket), Fate::Done { message: None, tag: 5, total: 70 });
        }
    });
}

#[test]
fn a_message_that_is_being_handled_is_never_written_to_the_next_receive() {
    check(|| {
        let (mut receiver, mut sender) = boards();
        let first = receiver.post(&wanted(1, 0)).unwrap();
        receiver.post(&wanted(2, 0)).unwrap();
        let taking = thread::spawn(move || sender.take(8, 5, 0, Some(0)).map(|claim| claim.address));
        // The announcement of message 0 is handled: the first receive is for it, unless the sender has it.
        receiver.advance(1);
        let fetched = receiver.withdraw(first);
        match taking.join().unwrap() {
            Some(address) => assert!(!fetched && address == 1, "written to {address}, fetched: {fetched}"),
            None => assert!(fetched),
        }
    });
}

#[test]
fn a_receive_that_is_posted_meanwhile_is_taken_whole_or_not_at_all() {
    check(|| {
        let (mut receiver, mut sender) = boards();
        let old = receiver.post(&wanted(1, 0)).unwrap();
        let taking = thread::spawn(move || sender.take(8, 5, 0, None).map(|claim| (claim.address, claim.length)));
        let free = receiver.withdraw(old);
        if free {
            // The same slot again, for something else.
            receiver.post(&Wanted { length: 200, ..wanted(2, 0) }).unwrap();
        }
        match taking.join().unwrap() {
            Some((1, 100)) => assert!(!free),
            Some((2, 200)) => assert!(free),
            Some(mixed) => panic!("taken of two receives: {mixed:?}"),
            None => assert!(free),
        }
    });
}
