//! The board: what is posted is taken once, in order, by exactly one of the two sides.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::shared::Settings;

/// Both ends of one board.
fn ends() -> (Board, Board) {
    let (segment, _) = Segment::create("board", 1, &Settings::default()).unwrap();
    let segment = Arc::new(segment);
    (Board::new(Arc::clone(&segment), 0, 0), Board::new(segment, 0, 0))
}

fn wanted(tag: Option<i32>, after: u32) -> Wanted {
    Wanted { context: 8, tag, address: 4096, length: 100, after, awaited: false }
}

#[test]
fn the_earliest_receive_that_matches_is_taken_and_only_if_nothing_is_on_its_way() {
    let (mut receiver, mut sender) = ends();
    let five = receiver.post(&wanted(Some(5), 3)).unwrap();
    let any = receiver.post(&wanted(None, 3)).unwrap();
    assert!(sender.take(9, 5, 3, None).is_none(), "another context");
    assert!(sender.take(8, 5, 4, None).is_none(), "a message before it is on its way");
    let claim = sender.take(8, 7, 3, None).unwrap();
    assert_eq!(receiver.fate(any), Fate::Taken { message: None });
    assert_eq!((receiver.withdraw(any), receiver.withdraw(five)), (false, true));
    sender.finish(&claim, 1000, true);
    assert_eq!(receiver.fate(any), Fate::Done { message: None, tag: 7, total: 1000 });
    receiver.free(any);
    assert!(sender.take(8, 5, 3, None).is_none(), "nothing is left");
    // The same slots again: what the sender knew of them before is worth nothing.
    let again = receiver.post(&wanted(Some(5), 3)).unwrap();
    assert!(!receiver.withdraw(five) && receiver.withdraw(again));
}

#[test]
fn a_full_board_says_so() {
    let (mut receiver, mut sender) = ends();
    let tickets: Vec<Ticket> = (0..SLOTS).map(|_| receiver.post(&wanted(Some(1), 0)).unwrap()).collect();
    assert!(receiver.post(&wanted(Some(1), 0)).is_none());
    for ticket in tickets {
        let claim = sender.take(8, 1, 0, Some(1)).unwrap();
        assert_eq!(receiver.fate(ticket), Fate::Taken { message: Some(1) });
        sender.finish(&claim, 0, false);
        assert_eq!(receiver.fate(ticket), Fate::Failed);
        receiver.free(ticket);
    }
    assert!(receiver.post(&wanted(Some(1), 0)).is_some());
}

#[test]
fn of_taking_and_withdrawing_one_wins_and_both_know() {
    const ROUNDS: u64 = 20_000;
    let (mut receiver, mut sender) = ends();
    let over = AtomicBool::new(false);
    let (kept, taken) = std::thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let mut taken = 0_u64;
            while !over.load(Ordering::Relaxed) {
                if let Some(claim) = sender.take(8, 1, 0, None) {
                    assert_eq!(claim.address, claim.length * 8, "a mixture of two posts");
                    taken += 1;
                    sender.finish(&claim, claim.length, true);
                }
                std::thread::yield_now();
            }
            taken
        });
        let mut kept = 0;
        for round in 0..ROUNDS {
            let ticket = receiver.post(&Wanted { address: round * 8, length: round, ..wanted(None, 0) }).unwrap();
            if round % 16 == 0 {
                std::thread::yield_now();
            }
            if receiver.withdraw(ticket) {
                kept += 1;
                continue;
            }
            while !matches!(receiver.fate(ticket), Fate::Done { .. }) {
                std::thread::yield_now();
            }
            assert!(matches!(receiver.fate(ticket), Fate::Done { total, .. } if total == round));
            receiver.free(ticket);
        }
        over.store(true, Ordering::Relaxed);
        (kept, taker.join().unwrap())
    });
    assert_eq!(kept + taken, ROUNDS);
}

/// Two receives wait, and a message for them is announced. The receiver fetches it into the first.
/// Expect: its sender, who looks at the board only now, does not write it to the second, which is for the next message.
#[test]
fn a_message_that_is_being_handled_is_not_written_to_the_next_receive() {
    let (mut receiver, mut sender) = ends();
    let first = receiver.post(&wanted(Some(1), 0)).unwrap();
    let second = receiver.post(&wanted(Some(1), 0)).unwrap();
    receiver.advance(1);
    assert!(receiver.withdraw(first));
    assert!(sender.take(8, 1, 0, Some(1)).is_none(), "the message has two receives");
    assert!(receiver.withdraw(second));
    receiver.post(&wanted(Some(1), 1)).unwrap();
    assert!(sender.take(8, 1, 1, Some(2)).is_some(), "the next message has one");
}

#[test]
fn a_board_says_whether_somebody_waits_for_all_that_a_message_matches() {
    let (mut receiver, sender) = ends();
    receiver.post(&Wanted { awaited: true, ..wanted(Some(1), 0) }).unwrap();
    assert_eq!([1, 2].map(|tag| sender.wish(8, tag)), [Wish::Awaited, Wish::None]);
    receiver.post(&wanted(None, 0)).unwrap();
    assert_eq!([1, 2].map(|tag| sender.wish(8, tag)), [Wish::Posted, Wish::Posted]);
    assert_eq!(sender.wish(9, 1), Wish::None);
}
