//! Two paths that overtake each other, marks of congestion, and peers that are watched.

use super::*;

fn two_paths() -> Settings {
    Settings { bulk_paths: 1, ..Settings::default() }
}

/// The packets that may leave now, apart by path: messages and acknowledgements first, bulk data second.
fn by_path(side: &mut Side, now: Instant) -> [Vec<Vec<u8>>; 2] {
    let mut out = vec![0; 1 << 16];
    let mut paths = [Vec::new(), Vec::new()];
    while let Some(train) = side.flow.poll_train(now, &mut side.memory, &mut out, 44) {
        let packets = out[..train.bytes].chunks(train.segment).map(<[u8]>::to_vec);
        paths[train.path].extend(packets);
    }
    paths
}

#[test]
fn messages_that_overtake_data_prove_no_loss_and_hurry_nothing() {
    let mut pair = Pair::new(&two_paths());
    for round in 0..20 {
        pair.a.flow.submit_data(1, 1, 0..20_000);
        let [_, data] = by_path(&mut pair.a, pair.now);
        let mut messages = Vec::new();
        for _ in 0..8 {
            pair.a.flow.submit_message(&[7; 1000], &[]);
            messages.append(&mut by_path(&mut pair.a, pair.now)[0]);
        }
        let now = pair.later(us(10));
        pair.b.receive(now, &messages);
        // Receive an acknowledgement of every message and no data.   Expect: the data is not taken for lost.
        let [answer, _] = by_path(&mut pair.b, now);
        assert!(answer.len() <= 1, "{} acknowledgements", answer.len());
        pair.a.receive(now, &answer);
        let now = pair.later(us(150));
        assert!(by_path(&mut pair.a, now).concat().is_empty(), "round {round}");
        pair.b.receive(now, &data);
        pair.run_until_idle();
    }
    let counters = pair.a.flow.counters();
    assert_eq!((counters.resent(), pair.b.flow.counters().reordered), (0, 0));
    assert_eq!((pair.a.acknowledged(), pair.b.memory.messages.len()), (400_000, 160));
}

#[test]
fn many_messages_that_wait_together_travel_like_bulk_data_and_keep_their_order() {
    let mut pair = Pair::new(&two_paths());
    pair.b.flow.submit_message(&[], &[]);
    let greeting = pair.b.packets(pair.now);
    pair.a.receive(pair.now, &greeting);
    // A message in pieces that fill their packets, but for the last; and an acknowledgement is due as well.
    let full = pair.a.flow.frame_max();
    for piece in 0..20u8 {
        pair.a.flow.submit_message(&[piece], &vec![piece; full - 1]);
    }
    pair.a.flow.submit_message(&[20], &[]);
    let mut out = vec![0; 1 << 16];
    let train = pair.a.flow.poll_train(pair.now, &mut pair.a.memory, &mut out, 44).unwrap();
    assert_eq!((train.path, train.bytes.div_ceil(train.segment)), (1, 21), "one train");

    // Send a small message.   Expect: it goes the other path, overtakes the others, and is delivered after
    // them.
    pair.a.flow.submit_message(&[21], &[]);
    let [small, bulk] = by_path(&mut pair.a, pair.now);
    assert_eq!((small.len(), bulk.len()), (1, 0));
    let now = pair.later(us(10));
    pair.b.receive(now, &small);
    assert!(pair.b.memory.messages.is_empty());
    pair.b.flow.handle_train(now, &out[..train.bytes], train.segment, false, &mut pair.b.memory);
    let order: Vec<u8> = pair.b.memory.messages.iter().map(|message| message[0]).collect();
    assert_eq!(order, (0..22).collect::<Vec<u8>>());
    pair.run_until_idle();
    assert_eq!((pair.a.flow.counters().resent(), pair.b.flow.counters().reordered), (0, 0));
}

#[test]
fn with_one_way_many_messages_make_a_train_as_well() {
    let mut pair = Pair::new(&Settings::default());
    (0..100).for_each(|_| pair.a.flow.submit_message(&[1; 100], &[2; 100]));
    let mut out = vec![0; 1 << 16];
    let train = pair.a.flow.poll_train(pair.now, &mut pair.a.memory, &mut out, 44).unwrap();
    assert_eq!((train.path, train.bytes.div_ceil(train.segment)), (0, 17), "6 messages fit a packet");
    pair.b.flow.handle_train(pair.now, &out[..train.bytes], train.segment, false, &mut pair.b.memory);
    assert_eq!(pair.b.memory.messages.len(), 100);
}

#[test]
fn a_loss_on_one_way_is_proved_by_what_follows_on_the_same() {
    let mut pair = Pair::new(&two_paths());
    pair.a.flow.submit_data(1, 1, 0..20_000);
    let [_, mut data] = by_path(&mut pair.a, pair.now);
    data.remove(2);
    let now = pair.later(us(10));
    pair.b.receive(now, &data);
    let [answer, _] = by_path(&mut pair.b, now);
    pair.a.receive(now, &answer);
    let [none, again] = by_path(&mut pair.a, now);
    assert_eq!((none.len(), again.len(), pair.a.flow.counters().resent_by_gap), (0, 1, 1));
}

#[test]
fn a_lone_message_that_is_lost_under_bulk_data_is_probed_for() {
    let mut pair = Pair::new(&two_paths());
    pair.a.flow.submit_message(b"first", &[]);
    pair.run_until_idle();
    pair.b.memory.messages.clear();
    pair.a.flow.submit_message(b"lost", &[]);
    let [lost, _] = by_path(&mut pair.a, pair.now);
    assert_eq!(lost.len(), 1);
    pair.a.flow.submit_data(1, 1, 0..10_000_000);
    let begin = pair.now;
    while pair.b.memory.messages.is_empty() {
        let now = pair.later(us(20));
        let there = by_path(&mut pair.a, now).concat();
        pair.b.receive(now, &there);
        let back = by_path(&mut pair.b, now).concat();
        pair.a.receive(now, &back);
        assert!(now.since(begin) < us(400), "bulk data kept the message waiting");
    }
    assert_eq!(pair.a.flow.counters().resent_by_probe, 1);
}

#[test]
fn an_acknowledgement_overtakes_bulk_data_that_goes_back() {
    let mut pair = Pair::new(&two_paths());
    pair.b.flow.submit_data(1, 1, 0..1_000_000);
    let first = by_path(&mut pair.b, pair.now).concat();
    pair.a.receive(pair.now, &first);
    pair.a.flow.submit_data(1, 1, 0..10_000);
    let data = by_path(&mut pair.a, pair.now).concat();
    pair.b.receive(pair.now, &data);
    let mut out = vec![0; 1 << 16];
    let train = pair.b.flow.poll_train(pair.now, &mut pair.b.memory, &mut out, 44).expect("an acknowledgement");
    assert_eq!(train.path, 0);
    assert_eq!(pair.b.flow.counters().acks_standalone, 1);
}

#[test]
fn a_mark_of_congestion_travels_back_and_cuts_the_window() {
    let mut pair = Pair::new(&Settings::default());
    let full = pair.a.flow.window();
    pair.a.flow.submit_data(1, 1, 0..14_000);
    for packet in pair.a.packets(pair.now) {
        pair.b.flow.handle_train(pair.now, &packet, packet.len(), true, &mut pair.b.memory);
    }
    let answer = pair.b.packets(pair.now);
    assert!(Packet::parse(&answer[0]).expect("an acknowledgement").0.marked);
    // Receive the answer, marked too.   Expect: no answer to it.
    pair.a.flow.handle_train(pair.now, &answer[0], answer[0].len(), true, &mut pair.a.memory);
    assert!(pair.a.packets(pair.now).is_empty());
    assert_eq!((pair.b.flow.counters().marks, pair.a.flow.counters().window_cuts_by_mark), (10, 1));
    assert_eq!(pair.a.flow.window(), full - full / 4);
}

#[test]
fn a_peer_that_is_waited_for_is_probed_now_and_then_and_missed_when_it_is_gone() {
    let mut pair = Pair::new(&Settings { peer_timeout: Duration::from_secs(3), ..small() });
    pair.b.flow.submit_message(b"hello", &[]);
    pair.run_until_idle();
    assert_eq!(pair.a.flow.next_timeout(), None, "nobody waits");
    pair.a.flow.watch(true);
    // Ten seconds in which the peer answers.
    for _ in 0..10 {
        pair.now = pair.a.flow.next_timeout().expect("a probe");
        let probe = pair.a.packets(pair.now);
        assert_eq!(probe.len(), 1);
        pair.b.receive(pair.now, &probe);
        let answer = pair.b.packets(pair.now);
        pair.a.receive(pair.now, &answer);
    }
    assert!((9_000..=11_000).contains(&(pair.now.0 / 1_000_000)), "{} ns", pair.now.0);
    let gone = pair.now;
    while let Some(at) = pair.a.flow.next_timeout() {
        pair.now = at;
        pair.a.packets(at);
    }
    assert_eq!(pair.a.flow.poll_event(), Some(Event::PeerFailed { reason: Failure::Silent }));
    assert!((3_000..=3_500).contains(&(pair.now.since(gone).0 / 1_000_000)), "after {} ns", pair.now.since(gone).0);
}

#[test]
fn who_no_longer_waits_does_not_probe() {
    let mut pair = Pair::new(&small());
    pair.a.flow.watch(true);
    assert!(pair.a.flow.next_timeout().is_some());
    pair.a.flow.watch(false);
    assert_eq!(pair.a.flow.next_timeout(), None);
}

#[test]
fn a_packet_that_never_gets_through_fails_the_peer_though_it_answers() {
    for timeout in [Duration::from_secs(1), Duration::from_secs(30), Duration::from_secs(3600)] {
        let mut pair = Pair::new(&Settings { peer_timeout: timeout, ..small() });
        pair.a.flow.submit_data(0, 0, 0..200);
        let began = pair.now;
        let event = loop {
            let now = pair.now;
            // The path takes probes and nothing larger.
            let packets: Vec<_> = pair.a.packets(now).into_iter().filter(|packet| packet.len() < 100).collect();
            if let Some(event) = pair.a.flow.poll_event() {
                break event;
            }
            pair.b.receive(now, &packets);
            let answer = pair.b.packets(now);
            pair.a.receive(now, &answer);
            pair.now = pair.a.flow.next_timeout().expect("it goes on").max(now + us(1));
            assert!(pair.now.since(began).0 < 2 * timeout.0, "the flow sends one packet for ever");
        };
        // Expect: time decides, not a count, and few packets fill the time.
        assert_eq!(event, Event::PeerFailed { reason: Failure::Blocked });
        assert!(pair.now.since(began) >= timeout, "after {} ns", pair.now.since(began).0);
        let counters = pair.a.flow.counters();
        assert!((20..=150).contains(&counters.resent()), "{} resends", counters.resent());
        assert!(counters.probes <= 3 * counters.resent(), "{} probes", counters.probes);
    }
}

#[test]
fn a_packet_is_not_sent_as_often_as_can_be_before_the_peer_would_fail() {
    for timeout_ms in [0, 1, 1_000, 30_000, 600_000, 86_400_000] {
        let settings = Settings { peer_timeout: Duration::from_millis(timeout_ms), ..Settings::default() };
        let whole: u64 = (1..u8::MAX).map(|transmission| settings.spacing(transmission).0).sum();
        let least = if timeout_ms == 0 { Duration::from_secs(1000) } else { settings.peer_timeout };
        assert!(whole >= 2 * least.0, "{whole} ns with a timeout of {timeout_ms} ms");
        assert_eq!(settings.spacing(settings::SPACED_AFTER - 1), Duration(0));
    }
}

/// Messages leave on one carrier, and the probe for them on another. Then the path takes the first carrier
/// again. The peer has looked at the second carrier only.   Expect: the answer to the probe proves no loss.
#[test]
fn a_probe_on_another_carrier_overtakes_without_a_loss() {
    let mut pair = Pair::new(&Settings::default());
    pair.a.flow.submit_message(&[1], &[]);
    let messages = pair.a.packets(pair.now);
    pair.a.flow.changes_carrier(0);
    let mut probes = Vec::new();
    while probes.is_empty() {
        let now = pair.later(us(100));
        probes = pair.a.packets(now);
    }
    pair.a.flow.changes_carrier(0);
    let now = pair.later(us(10));
    pair.b.receive(now, &probes);
    let answers = pair.b.packets(now);
    assert_eq!(answers.len(), 1, "the probe is answered");
    pair.a.receive(now, &answers);
    assert!(pair.a.packets(now).is_empty(), "nothing is sent again");
    pair.b.receive(now, &messages);
    pair.run_until_idle();
    assert_eq!((pair.a.flow.counters().resent(), pair.b.memory.messages.len()), (0, 1));
}
