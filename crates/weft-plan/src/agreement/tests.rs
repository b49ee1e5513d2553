use alloc::vec;
use alloc::vec::Vec;

use super::wire::{Body, Covered, Message};
use super::{Agreements, Ranks, UNDER_WAY_MAX, Vote};

fn deliver_all(all: &mut [Agreements], dead: &[u32]) {
    loop {
        let mut moved = false;
        for from in 0..all.len() {
            while let Some((to, bytes)) = all[from].poll_transmit() {
                moved = true;
                if !dead.contains(&to) && !dead.contains(&(from as u32)) {
                    assert!(all[to as usize].handle_message(from as u32, &bytes));
                }
            }
        }
        if !moved {
            return;
        }
    }
}

fn job(size: u32) -> Vec<Agreements> {
    (0..size).map(|rank| Agreements::new(rank, size)).collect()
}

fn vote_all(all: &mut [Agreements], voters: impl Iterator<Item = u32>) {
    for rank in voters {
        let number = all[rank as usize].begin().unwrap();
        let vote = Vote { highest: u64::from(rank), lowest: u64::from(rank) + 7, ..Vote::new(!(1 << (rank % 32))) };
        all[rank as usize].vote(number, 0, vote);
    }
}

#[test]
fn all_have_what_all_votes_have() {
    for size in 1..70 {
        let mut all = job(size);
        vote_all(&mut all, 0..size);
        deliver_all(&mut all, &[]);
        let lost = (0..size.min(32)).fold(0, |bits, rank| bits | 1 << rank);
        for one in &all {
            let decision = one.decision(0, 0).unwrap();
            assert_eq!((decision.flags, decision.highest, decision.lowest), (!lost, u64::from(size) - 1, 7));
            assert!(decision.failed.is_empty() && decision.is_acknowledged());
        }
    }
}

/// Expect: without failures a process sends its votes once, and the decision once to each child.
#[test]
fn without_failures_there_are_two_messages_for_each_process_but_one() {
    let mut all = job(33);
    let mut messages = 0;
    vote_all(&mut all, 0..33);
    loop {
        let sent: Vec<_> =
            (0..33).flat_map(|from| all[from as usize].poll_transmit().map(|(to, bytes)| (from, to, bytes))).collect();
        if sent.is_empty() {
            break;
        }
        for (from, to, bytes) in sent {
            messages += 1;
            all[to as usize].handle_message(from, &bytes);
        }
    }
    assert_eq!(messages, 64);
}

/// Expect: the decision of a coordinator that died right after it told one process is everybody's.
#[test]
fn a_decision_that_one_process_has_survives_the_coordinator() {
    for told in [1, 2, 4] {
        let mut all = job(8);
        vote_all(&mut all, 1..8);
        deliver_all(&mut all, &[]);
        vote_all(&mut all, 0..1);
        // The coordinator tells only one of its children.
        while let Some((to, bytes)) = all[0].poll_transmit() {
            if to == told {
                all[to as usize].handle_message(0, &bytes);
            }
        }
        for one in &mut all[1..] {
            one.handle_failure(0);
        }
        deliver_all(&mut all, &[0]);
        for one in &all[1..] {
            assert_eq!(one.decision(0, 0), all[0].decision(0, 0), "{told}");
        }
    }
}

#[test]
fn the_decision_names_the_failed_and_whether_all_voters_know_of_them() {
    for acknowledges in [true, false] {
        let mut all = job(5);
        for rank in [0, 1, 2, 4] {
            all[rank].handle_failure(3);
            let known = if rank != 2 || acknowledges { vec![3] } else { Vec::new() };
            let number = all[rank].begin().unwrap();
            all[rank].vote(number, 0, Vote { acknowledged: Ranks::of(known), ..Vote::new(5) });
        }
        deliver_all(&mut all, &[3]);
        for rank in [0, 1, 2, 4] {
            let decision = all[rank].decision(0, 0).unwrap();
            assert_eq!((decision.failed.clone(), decision.is_acknowledged()), (Ranks::of([3]), acknowledges));
        }
    }
}

/// Expect: a process whose votes went to a parent that has died hears of the death from its new parent.
#[test]
fn messages_tell_of_failures() {
    let mut all = job(4);
    vote_all(&mut all, [3].into_iter());
    deliver_all(&mut all, &[2]);
    all[0].handle_failure(2);
    vote_all(&mut all, 0..2);
    deliver_all(&mut all, &[2]);
    assert_eq!(all[3].decision(0, 0).unwrap().failed, Ranks::of([2]));
    assert_eq!((all[3].poll_heard(), all[3].poll_heard()), (Some(2), None));
}

#[test]
fn decisions_are_kept_until_all_processes_have_finished() {
    let mut all = job(3);
    for number in 0..50 {
        vote_all(&mut all, 0..3);
        deliver_all(&mut all, &[]);
        for one in &mut all {
            assert!(one.decision(number, 0).is_some());
            one.finish(number);
            assert!(one.kept() <= 2, "{}", one.kept());
        }
    }
}

#[test]
fn no_more_than_a_limit_are_under_way() {
    let mut one = Agreements::new(0, 2);
    let begun = core::iter::from_fn(|| one.begin()).take(5000).count();
    assert_eq!(begun as u32, UNDER_WAY_MAX);
    let early = Message { number: UNDER_WAY_MAX, round: 0, failed: Ranks::new(), body: Body::Question };
    assert!(one.handle_message(1, &early.to_bytes()));
    assert_eq!(one.kept(), 0);
}

#[test]
fn messages_survive_the_round_trip_and_cut_ones_are_refused() {
    let vote = Vote { highest: 1 << 40, lowest: 3, acknowledged: Ranks::of([1]), ..Vote::new(9) };
    let bodies = [
        Body::Question,
        Body::Decision(vote.clone()),
        Body::Vote { covered: Covered::Below, vote: vote.clone() },
        Body::Vote { covered: Covered::These(Ranks::of([0, 64, 99])), vote },
    ];
    for body in bodies {
        let message = Message { number: 7, round: 2, failed: Ranks::of([5, 70]), body };
        let bytes = message.to_bytes();
        assert_eq!(Message::parse(&bytes, 100), Some(message));
        for length in 0..bytes.len() {
            assert_eq!(Message::parse(&bytes[..length], 100), None);
        }
        assert_eq!(Message::parse(&[&bytes[..], &[0]].concat(), 100), None);
        assert_eq!(Message::parse(&bytes, 70), None, "rank 70 is none of 70");
    }
    let mut one = Agreements::new(0, 2);
    assert!(!one.handle_message(1, b"nonsense") && !one.handle_message(9, b""));
}

#[test]
fn sets_of_ranks() {
    let mut set = Ranks::of([3, 64, 130]);
    assert_eq!(set.iter().collect::<Vec<_>>(), [3, 64, 130]);
    assert!(!set.insert(64) && set.len() == 3 && set.contains(130) && !set.contains(131));
    assert!(Ranks::of([3]).is_within(&set) && !set.is_within(&Ranks::of([3])));
    assert!(set.unite(&Ranks::of([200])) && !set.unite(&Ranks::of([200])));
    set.intersect(&Ranks::of([64, 131]));
    assert_eq!(set, Ranks::of([64]));
    set.intersect(&Ranks::new());
    assert_eq!(set, Ranks::new());
    assert_eq!(Ranks::from_words([0, 1, 0].into_iter(), 65), Some(Ranks::of([64])));
    assert_eq!(Ranks::from_words([0, 1].into_iter(), 64), None);
}
