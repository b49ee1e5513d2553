//! The table of posted receives: a posted receive is taken once, in order, by exactly one of the two sides.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::shared::Settings;
use weft_engine::transport::number_near;

/// The segment of `ranks` ranks, as rank 0 has it.
fn segment(key: &str, ranks: usize) -> Arc<Segment> {
    let directory = Some(std::env::temp_dir());
    let key = format!("board-{key}-{}", std::process::id());
    Arc::new(Segment::create(&key, ranks, &Settings { directory, ..Settings::default() }).unwrap().0)
}

/// The two ends of the table on which rank 0 posts receives for rank 1.
fn ends(key: &str) -> (PostedReceives, PostedReceives) {
    let segment = segment(key, 2);
    (PostedReceives::new(Arc::clone(&segment), 1, 0), PostedReceives::new(segment, 1, 0))
}

fn wanted(tag: Option<i32>) -> PostedReceive {
    PostedReceive { context: 8, tag, address: 4096, length: 100, awaited: false }
}

fn offered(tag: i32, before: u32) -> Offered {
    Offered { context: 8, source: 3, tag, before, written: 0, number: None }
}

fn announced_as(tag: i32, number: u32) -> Offered {
    Offered { before: number - 1, number: Some(number), ..offered(tag, 0) }
}

/// Says that `handled` messages have been handled and have found their receives.
fn publish(receiver: &mut PostedReceives, handled: u32) {
    receiver.advance(handled);
    receiver.publish_matched();
}

#[test]
fn the_earliest_receive_that_matches_is_taken_and_only_if_nothing_is_on_its_way() {
    let (mut receiver, mut sender) = ends("earliest");
    publish(&mut receiver, 3);
    let five = receiver.post(&wanted(Some(5))).unwrap();
    let any = receiver.post(&wanted(None)).unwrap();
    assert!(sender.take(&Offered { context: 9, ..offered(5, 3) }).is_none(), "another context");
    assert!(sender.take(&offered(5, 4)).is_none(), "a message before it is on its way");
    receiver.advance(4);
    assert!(sender.take(&offered(5, 4)).is_none(), "a message before it is being handled");
    receiver.publish_matched();
    let claim = sender.take(&offered(7, 4)).unwrap();
    let taker = Taker { by: 1, announced: None };
    assert_eq!(receiver.state(any), PostState::Taken(taker));
    assert_eq!((receiver.withdraw(any), receiver.withdraw(five)), (false, true));
    sender.finish(&claim, 1000, None, true);
    assert_eq!(receiver.state(any), PostState::Done { taker, source: 3, tag: 7, total: 1000, rest: None });
    receiver.free(any);
    assert!(sender.take(&offered(5, 4)).is_none(), "nothing is left");
    // The same entries again: what the sender knew of the entries before is worth nothing.
    let again = receiver.post(&wanted(Some(5))).unwrap();
    assert!(!receiver.withdraw(five) && receiver.withdraw(again));
}

#[test]
fn a_full_board_says_so() {
    let (mut receiver, mut sender) = ends("full");
    let tickets: Vec<Ticket> = (0..POSTED_MAX).map(|_| receiver.post(&wanted(Some(1))).unwrap()).collect();
    assert!(receiver.post(&wanted(Some(1))).is_none());
    for ticket in tickets {
        let claim = sender.take(&announced_as(1, 1)).unwrap();
        assert_eq!(receiver.state(ticket), PostState::Taken(Taker { by: 1, announced: Some(1) }));
        sender.finish(&claim, 0, None, false);
        assert_eq!(receiver.state(ticket), PostState::Failed);
        receiver.free(ticket);
    }
    assert!(receiver.post(&wanted(Some(1))).is_some());
}

#[test]
fn a_receive_from_anybody_stands_among_those_that_name_their_source() {
    let segment = segment("common", 3);
    let posted_table = |sender| PostedReceives::new(Arc::clone(&segment), sender, 0);
    let (mut of_one, mut common) = (posted_table(1), posted_table(0));
    let (mut one, mut two) = (posted_table(1), posted_table(2));
    let named = of_one.post(&wanted(Some(1))).unwrap();
    assert!(two.take(&offered(1, 0)).is_none(), "it is for rank 1");
    segment.reserve_common(0).unwrap();
    segment.rank_state(0).common.store(1, Ordering::Release);
    let any = common.post(&wanted(None)).unwrap();
    let last = of_one.post(&wanted(Some(1))).unwrap();
    assert_eq!(
        [one.candidate(8, 1), two.candidate(8, 1), two.candidate(9, 1)],
        [Candidate::Posted, Candidate::Posted, Candidate::None]
    );
    for (ticket, is_common) in [(named, false), (any, true), (last, false)] {
        let claim = one.take(&announced_as(1, 1)).unwrap();
        let posted_table = if is_common { &mut common } else { &mut of_one };
        let taker = Taker { by: 1, announced: Some(1) };
        assert_eq!((ticket.common, posted_table.state(ticket)), (is_common, PostState::Taken(taker)));
        one.finish(&claim, 5, None, true);
        assert_eq!(posted_table.state(ticket), PostState::Done { taker, source: 3, tag: 1, total: 5, rest: None });
        posted_table.free(ticket);
    }
    let any = common.post(&wanted(None)).unwrap();
    let claim = two.take(&offered(1, 0)).unwrap();
    assert!(one.take(&offered(1, 0)).is_none() && !common.withdraw(any));
    two.finish(&claim, 5, None, true);
    assert!(matches!(common.state(any), PostState::Done { taker: Taker { by: 2, .. }, .. }));
}

#[test]
fn a_number_is_known_by_its_low_bits() {
    for handled in [0, 5, 1 << 20, (1 << 21) - 1, 1 << 21, u32::MAX - 3] {
        for ahead in [-3_i32, 0, 1, 1000] {
            let number = handled.wrapping_add_signed(ahead);
            let low = (announced(Some(number)) >> NUMBER_SHIFT) as u32;
            assert_eq!(number_near(low, handled), number);
        }
    }
}

#[test]
fn of_taking_and_withdrawing_one_wins_and_both_know() {
    const ROUNDS: u64 = 20_000;
    let (mut receiver, mut sender) = ends("race");
    let over = AtomicBool::new(false);
    let (kept, taken) = std::thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let mut taken = 0_u64;
            while !over.load(Ordering::Relaxed) {
                if let Some(claim) = sender.take(&offered(1, 0)) {
                    assert_eq!(claim.address, claim.length * 8, "a mixture of two posts");
                    taken += 1;
                    sender.finish(&claim, claim.length, None, true);
                }
                std::thread::yield_now();
            }
            taken
        });
        let mut kept = 0;
        for round in 0..ROUNDS {
            let ticket = receiver.post(&PostedReceive { address: round * 8, length: round, ..wanted(None) }).unwrap();
            if round % 16 == 0 {
                std::thread::yield_now();
            }
            if receiver.withdraw(ticket) {
                kept += 1;
                continue;
            }
            while !matches!(receiver.state(ticket), PostState::Done { .. }) {
                std::thread::yield_now();
            }
            assert!(matches!(receiver.state(ticket), PostState::Done { total, .. } if total == round));
            receiver.free(ticket);
        }
        over.store(true, Ordering::Relaxed);
        (kept, taker.join().unwrap())
    });
    assert_eq!(kept + taken, ROUNDS);
}

/// A sender announces three messages to a receiver that is outside of MPI and has posted three receives, and
/// writes them one after the other.   Expect: each has its receive, whether or not the receiver handles
/// announcements meanwhile. A message before which another one was not written must wait.
#[test]
fn announced_messages_are_written_though_their_receiver_handles_none() {
    for handled in 0..=2 {
        let (mut receiver, mut sender) = ends("written");
        let tickets: Vec<Ticket> = (0..3).map(|_| receiver.post(&wanted(Some(1))).unwrap()).collect();
        assert!(sender.take(&announced_as(1, 2)).is_none(), "message 1 has no receive yet");
        for (ticket, number) in tickets.iter().zip(1..) {
            let claim = sender.take(&Offered { written: number - 1, ..announced_as(1, number) }).unwrap();
            assert_eq!(receiver.state(*ticket), PostState::Taken(Taker { by: 1, announced: Some(number) }));
            sender.finish(&claim, 5, None, true);
            publish(&mut receiver, handled.min(number));
        }
        let next = receiver.post(&wanted(Some(1))).unwrap();
        assert!(sender.take(&Offered { written: 2 - handled, ..announced_as(1, 5) }).is_none(), "4 is on its way");
        receiver.advance(4);
        assert!(sender.take(&Offered { written: 3, ..announced_as(1, 4) }).is_none(), "4 is being handled");
        assert!(receiver.withdraw(next));
    }
}

/// Two receives wait, and a message for them is announced. The receiver fetches the message into the first.
/// Expect: its sender, which looks at the table only now, does not write the message to the second receive,
/// which is for the next message.
#[test]
fn a_message_that_is_being_handled_is_not_written_to_the_next_receive() {
    let (mut receiver, mut sender) = ends("handled");
    let first = receiver.post(&wanted(Some(1))).unwrap();
    receiver.post(&wanted(Some(1))).unwrap();
    receiver.advance(1);
    assert!(receiver.withdraw(first));
    assert!(sender.take(&announced_as(1, 1)).is_none(), "the message has two receives");
    receiver.publish_matched();
    assert!(sender.take(&announced_as(1, 1)).is_none(), "the message has two receives");
    assert!(sender.take(&announced_as(1, 2)).is_some(), "the next message has one");
}

#[test]
fn a_board_says_whether_somebody_waits_for_all_that_a_message_matches() {
    let (mut receiver, sender) = ends("awaited");
    receiver.post(&PostedReceive { awaited: true, ..wanted(Some(1)) }).unwrap();
    assert_eq!([1, 2].map(|tag| sender.candidate(8, tag)), [Candidate::Awaited, Candidate::None]);
    receiver.post(&wanted(None)).unwrap();
    assert_eq!([1, 2].map(|tag| sender.candidate(8, tag)), [Candidate::Posted, Candidate::Posted]);
    assert_eq!(sender.candidate(9, 1), Candidate::None);
}
