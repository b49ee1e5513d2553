//! Two flows, and between them a wire that each test controls. Combinations of faults are left to weft-sim.

use super::*;
use crate::process::ProcessName;
use crate::wire::{Channel, Echo, Echoed, Kind, Packet};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn secret() -> Secret {
    Secret::new([7; 16])
}

/// Regions and remote keys of one side: region r holds bytes of a known pattern; a remote key is a vector
/// that grows.
#[derive(Default)]
struct Memory {
    messages: Vec<Vec<u8>>,
    placed: Vec<(u32, u64, Vec<u8>)>,
}

fn pattern(region: u32, offset: u64) -> u8 {
    (u64::from(region) * 31 + offset * 7 + (offset >> 8)) as u8
}

impl Regions for Memory {
    fn read(&mut self, region: u32, offset: u64, out: &mut [u8]) {
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = pattern(region, offset + i as u64);
        }
    }
}

impl Deliver for Memory {
    fn message(&mut self, body: &[u8]) {
        self.messages.push(body.to_vec());
    }
    fn data(&mut self, remote_key: u32, offset: u64, bytes: &[u8]) {
        self.placed.push((remote_key, offset, bytes.to_vec()));
    }
}

struct Side {
    flow: Flow,
    memory: Memory,
}

struct Pair {
    now: Instant,
    a: Side,
    b: Side,
}

const fn us(count: u64) -> Duration {
    Duration::from_micros(count)
}

impl Side {
    fn new(settings: &Settings, own: u32, peer: u32) -> Self {
        Self {
            flow: Flow::new(Arc::new(settings.clone()), &secret(), &Parties::of_only_job(own, peer)),
            memory: Memory::default(),
        }
    }

    /// The packets that may leave now.
    fn packets(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut out = vec![0; self.flow.settings.longest()];
        let mut packets = Vec::new();
        while let Some(length) = self.flow.poll_transmit(now, &mut self.memory, &mut out) {
            packets.push(out[..length].to_vec());
            assert!(packets.len() < 50_000, "poll_transmit never ends");
        }
        packets
    }

    fn receive(&mut self, now: Instant, packets: &[Vec<u8>]) {
        for packet in packets {
            self.flow.handle_packet(now, packet, &mut self.memory);
        }
    }

    fn acknowledged(&mut self) -> u64 {
        let mut total = 0;
        while let Some(event) = self.flow.poll_event() {
            match event {
                Event::Acknowledged { bytes, .. } => total += bytes,
                Event::PeerFailed { reason } => panic!("peer failed: {reason:?}"),
            }
        }
        total
    }
}

impl Pair {
    fn new(settings: &Settings) -> Self {
        Self { now: Instant(1), a: Side::new(settings, 1, 2), b: Side::new(settings, 2, 1) }
    }

    fn later(&mut self, span: Duration) -> Instant {
        self.now = self.now + span;
        self.now
    }

    /// Carries everything both ways, 10 µs each, and jumps to the next timeout when nothing moves, until both
    /// are idle.
    fn run_until_idle(&mut self) {
        for _ in 0..100_000 {
            let now = self.later(us(10));
            let from_a = self.a.packets(now);
            let from_b = self.b.packets(now);
            let now = self.later(us(10));
            self.b.receive(now, &from_a);
            self.a.receive(now, &from_b);
            if from_a.is_empty() && from_b.is_empty() {
                match [self.a.flow.next_timeout(), self.b.flow.next_timeout()].into_iter().flatten().min() {
                    None => return,
                    Some(at) => self.now = self.now.max(at),
                }
            }
        }
        panic!("the flows never come to rest");
    }
}

fn small() -> Settings {
    Settings { packet_size: 300, window_packets: 64, ..Settings::default() }
}

#[test]
fn messages_arrive_in_order_and_share_packets() {
    let mut pair = Pair::new(&small());
    for i in 0..100u8 {
        pair.a.flow.submit_message(&[i], &[i; 10]);
    }
    pair.run_until_idle();
    assert_eq!(pair.b.memory.messages.len(), 100);
    for (i, message) in pair.b.memory.messages.iter().enumerate() {
        assert_eq!(message, &vec![i as u8; 11]);
    }
    let sent = pair.a.flow.counters().data_packets_sent;
    assert!(sent <= 6, "19 messages fit a packet, yet {sent} packets left");
    assert_eq!(pair.a.flow.counters().resent(), 0);
}

#[test]
fn the_largest_and_the_empty_message_fit() {
    let mut pair = Pair::new(&small());
    let max = pair.a.flow.frame_max();
    pair.a.flow.submit_message(&[], &vec![5; max]);
    pair.a.flow.submit_message(&[], &[]);
    pair.run_until_idle();
    assert_eq!(pair.b.memory.messages, [vec![5; max], vec![]]);
}

#[test]
#[should_panic(expected = "larger than frame_max")]
fn a_larger_message_is_refused() {
    let mut pair = Pair::new(&small());
    let max = pair.a.flow.frame_max();
    pair.a.flow.submit_message(&[1], &vec![5; max]);
}

#[test]
fn bulk_data_is_placed_and_acknowledged() {
    let mut pair = Pair::new(&small());
    pair.a.flow.submit_data(9, 4, 1000..51_000);
    pair.run_until_idle();
    let mut expected = 1000;
    for (remote_key, offset, bytes) in &pair.b.memory.placed {
        assert_eq!((*remote_key, *offset), (9, expected));
        assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == pattern(4, offset + i as u64)));
        expected += bytes.len() as u64;
    }
    assert_eq!(expected, 51_000);
    assert_eq!(pair.a.acknowledged(), 50_000);
    assert_eq!(pair.a.flow.counters().resent(), 0);
}

#[test]
fn messages_overtake_bulk_data() {
    let mut pair = Pair::new(&small());
    pair.a.flow.submit_data(0, 0, 0..100_000);
    let first = pair.a.packets(pair.now);
    pair.b.receive(pair.now, &first);
    pair.a.flow.submit_message(b"urgent", &[]);
    let now = pair.later(us(10));
    let answer = pair.b.packets(now);
    pair.a.receive(now, &answer);
    let next = pair.a.packets(now);
    pair.b.receive(now, &next[..1]);
    assert_eq!(pair.b.memory.messages, [b"urgent".to_vec()]);
}

#[test]
fn an_answer_to_a_burst_of_messages_carries_the_acknowledgement_that_they_ask_for() {
    for answers in [true, false] {
        let mut pair = Pair::new(&small());
        let (mut out, mut packets) = ([0; 300], Vec::new());
        for _ in 0..settings::BURST_PACKETS {
            pair.a.flow.submit_message(&[1; 200], &[]);
            let length = pair.a.flow.poll_transmit(pair.now, &mut pair.a.memory, &mut out).unwrap();
            packets.push(out[..length].to_vec());
        }
        let now = pair.later(us(10));
        pair.b.receive(now, &packets);
        assert!(pair.b.packets(now).is_empty(), "the program may answer");
        if answers {
            pair.b.flow.submit_message(&[2], &[]);
        } else {
            assert_eq!(pair.b.flow.next_timeout(), Some(now + ANSWER_TIME));
        }
        let now = pair.later(ANSWER_TIME);
        let answer = pair.b.packets(now);
        assert_eq!((answer.len(), pair.b.flow.counters().acks_standalone), (1, u64::from(!answers)));
        pair.a.receive(now, &answer);
        assert_eq!(pair.a.flow.queued_bytes(), 0);
    }
}

#[test]
fn a_small_message_may_wait_while_others_are_on_their_way_and_there_is_room_beside_it() {
    let mut pair = Pair::new(&small());
    let frame = pair.a.flow.frame_max();
    pair.a.flow.submit_message(&[1; 100], &[]);
    assert!(!pair.a.flow.may_coalesce(100, frame), "nothing is on its way that an answer could come for");
    let first = pair.a.packets(pair.now);
    pair.a.flow.submit_message(&[2; 100], &[]);
    assert!(pair.a.flow.may_coalesce(100, frame));
    pair.a.flow.submit_message(&[3; 100], &[]);
    assert!(!pair.a.flow.may_coalesce(100, frame), "a third would not fit");
    assert!(pair.a.flow.may_coalesce(10, frame));
    // Receive an acknowledgement.   Expect: nothing to wait for any more.
    let now = pair.later(us(100));
    pair.b.receive(now, &first);
    let now = pair.later(us(100));
    let answer = pair.b.packets(now);
    pair.a.receive(now, &answer);
    assert!(!pair.a.flow.may_coalesce(10, frame));
    pair.run_until_idle();
    assert_eq!(pair.b.memory.messages.len(), 3);
}

#[test]
fn a_ping_pong_has_no_packet_of_its_own_for_acknowledgements() {
    let mut pair = Pair::new(&Settings::default());
    for i in 0..1000u32 {
        pair.a.flow.submit_message(&i.to_le_bytes(), &[]);
        let now = pair.later(us(1));
        let ping = pair.a.packets(now);
        assert_eq!(ping.len(), 1);
        let now = pair.later(us(10));
        pair.b.receive(now, &ping);
        pair.b.flow.submit_message(&i.to_le_bytes(), &[]);
        let pong = pair.b.packets(now);
        assert_eq!(pong.len(), 1);
        let now = pair.later(us(10));
        pair.a.receive(now, &pong);
    }
    for side in [&pair.a, &pair.b] {
        let counters = side.flow.counters();
        assert_eq!((counters.acks_standalone, counters.probes, counters.resent()), (0, 0, 0));
        assert_eq!(counters.packets_sent, 1000);
    }
    assert!(pair.a.flow.smoothed_round_trip().0.abs_diff(us(20).0) < us(1).0);
}

#[test]
fn a_lonely_message_is_acknowledged_after_the_delay() {
    let mut pair = Pair::new(&Settings::default());
    pair.a.flow.submit_message(b"x", &[]);
    let packets = pair.a.packets(pair.now);
    pair.b.receive(pair.now, &packets);
    let due = pair.b.flow.next_timeout().expect("an acknowledgement is owed");
    assert_eq!(due, pair.now + us(50));
    assert!(pair.b.packets(Instant(due.0 - 1)).is_empty());
    let answer = pair.b.packets(due);
    assert_eq!(answer.len(), 1);
    pair.a.receive(due, &answer);
    assert!(pair.a.flow.is_idle() && pair.b.flow.is_idle());
    assert_eq!((pair.a.flow.next_timeout(), pair.b.flow.next_timeout()), (None, None));
}

#[test]
fn the_hold_time_is_not_in_the_round_trip() {
    let mut pair = Pair::new(&Settings { ack_delay: us(1000), ..Settings::default() });
    for _ in 0..50 {
        pair.a.flow.submit_message(b"x", &[]);
        let packets = pair.a.packets(pair.now);
        let now = pair.later(us(10));
        pair.b.receive(now, &packets);
        let now = pair.later(us(1000));
        let answer = pair.b.packets(now);
        let now = pair.later(us(10));
        pair.a.receive(now, &answer);
    }
    assert!(pair.a.flow.smoothed_round_trip().0.abs_diff(us(20).0) < us(1).0);
}

#[test]
fn a_gap_is_repaired_on_evidence_within_one_more_round_trip() {
    let mut pair = Pair::new(&small());
    pair.a.flow.submit_data(0, 0, 0..5_000);
    let mut packets = pair.a.packets(pair.now);
    packets.remove(3);
    let now = pair.later(us(10));
    pair.b.receive(now, &packets);
    let answer = pair.b.packets(now);
    let now = pair.later(us(10));
    pair.a.receive(now, &answer);
    let again = pair.a.packets(now);
    assert_eq!(again.len(), 1);
    assert_eq!(pair.a.flow.counters().resent_by_gap, 1);
    let now = pair.later(us(10));
    pair.b.receive(now, &again);
    pair.run_until_idle();
    assert_eq!(pair.a.acknowledged(), 5_000);
    assert_eq!(pair.a.flow.counters().probes, 0);
}

#[test]
fn an_answer_to_the_late_original_is_not_taken_for_one_to_the_resend() {
    let mut pair = Pair::new(&small());
    pair.a.flow.submit_data(0, 0, 0..2_000);
    let mut packets = pair.a.packets(pair.now);
    let original = packets.remove(0);
    let now = pair.later(us(10));
    pair.b.receive(now, &packets);
    let answer = pair.b.packets(now);
    let now = pair.later(us(10));
    pair.a.receive(now, &answer);
    let resend = pair.a.packets(now);
    assert_eq!(resend.len(), 1);
    // Receive the original while the resend is still on its way.   Expect: no round trip of a few
    // microseconds.
    let now = pair.later(us(1));
    pair.b.receive(now, &[original]);
    let answer = pair.b.packets(now);
    let now = pair.later(us(1));
    pair.a.receive(now, &answer);
    assert!(pair.a.flow.smoothed_round_trip() >= us(19), "{:?}", pair.a.flow.smoothed_round_trip());
    pair.b.receive(now, &resend);
    pair.run_until_idle();
    assert_eq!((pair.a.acknowledged(), pair.b.flow.counters().duplicates), (2_000, 1));

    // The same loss and delay again.   Expect: the path is known to change places, so three later packets are
    // no proof any more.
    pair.a.flow.submit_data(0, 0, 0..2_000);
    let mut packets = pair.a.packets(pair.now);
    packets.truncate(5);
    let late = packets.remove(0);
    let now = pair.later(us(10));
    pair.b.receive(now, &packets);
    let answer = pair.b.packets(now);
    pair.a.receive(now, &answer);
    assert!(pair.a.packets(now).is_empty());
    pair.b.receive(now, &[late]);
}

#[test]
fn what_counts_as_lost_and_comes_before_it_is_sent_again_teaches_patience() {
    let mut pair = Pair::new(&small());
    for round in 0..2 {
        pair.a.flow.submit_data(0, 0, 0..10_000);
        let mut packets = pair.a.packets(pair.now);
        let late: Vec<_> = packets.drain(2..22).collect();
        let now = pair.later(us(10));
        pair.b.receive(now, &packets);
        let gap = pair.b.packets(now);
        pair.b.receive(now, &late);
        let all = pair.b.packets(now);
        pair.a.receive(now, &gap);
        assert_eq!(pair.a.flow.counters().lost_by_gap, 20, "round {round}: only the first time");
        pair.a.receive(now, &all);
        pair.run_until_idle();
    }
    assert_eq!((pair.a.flow.counters().resent(), pair.a.acknowledged()), (0, 20_000));
}

#[test]
fn two_packets_that_change_places_cause_no_resend() {
    let mut pair = Pair::new(&small());
    pair.a.flow.submit_data(0, 0, 0..5_000);
    let mut packets = pair.a.packets(pair.now);
    packets.swap(3, 4);
    packets.swap(9, 11);
    for packet in packets {
        let now = pair.later(us(1));
        pair.b.receive(now, &[packet]);
        let answer = pair.b.packets(now);
        pair.a.receive(now, &answer);
        assert!(pair.a.packets(now).is_empty());
    }
    pair.run_until_idle();
    assert_eq!((pair.a.flow.counters().resent(), pair.a.acknowledged()), (0, 5_000));
    assert!(pair.b.flow.counters().reordered > 0);
}

#[test]
fn the_tail_is_probed_for_and_the_echo_proves_what_is_missing() {
    let mut pair = Pair::new(&small());
    pair.a.flow.submit_message(b"lost", &[]);
    let lost = pair.a.packets(pair.now);
    assert_eq!(lost.len(), 1);
    let at = pair.a.flow.next_timeout().expect("a probe");
    let probe = pair.a.packets(at);
    assert_eq!((probe.len(), pair.a.flow.counters().probes, pair.a.flow.counters().resent()), (1, 1, 0));
    pair.b.receive(at, &probe);
    let answer = pair.b.packets(at);
    assert_eq!(answer.len(), 1);
    pair.a.receive(at, &answer);
    let again = pair.a.packets(at);
    assert_eq!((again.len(), pair.a.flow.counters().resent_by_probe), (1, 1));
    pair.b.receive(at, &again);
    assert_eq!(pair.b.memory.messages, [b"lost".to_vec()]);
}

#[test]
fn a_lost_resend_is_noticed_too() {
    let mut pair = Pair::new(&small());
    pair.a.flow.submit_data(0, 0, 0..60_000);
    let mut packets = pair.a.packets(pair.now);
    packets.remove(0);
    for round in 0..5 {
        let now = pair.later(us(10));
        pair.b.receive(now, &packets);
        let answer = pair.b.packets(now);
        pair.a.receive(now, &answer);
        packets = pair.a.packets(now);
        if packets.is_empty() {
            let at = pair.a.flow.next_timeout().expect("a probe");
            pair.now = at;
            packets = pair.a.packets(at);
        } else if round < 4 {
            // The resend stands first.
            packets.remove(0);
        }
    }
    pair.run_until_idle();
    assert_eq!(pair.a.acknowledged(), 60_000);
    assert!(pair.a.flow.counters().resent() >= 2);
}

#[test]
fn a_receiver_that_computes_is_probed_with_patience_and_nothing_is_resent() {
    let mut pair = Pair::new(&small());
    pair.a.flow.submit_data(0, 0, 0..5_000);
    let mut packets = pair.a.packets(pair.now);
    let end = pair.now + Duration::from_secs(10);
    while let Some(at) = pair.a.flow.next_timeout().filter(|at| *at < end) {
        packets.extend(pair.a.packets(at));
    }
    let counters = pair.a.flow.counters();
    assert_eq!(counters.resent(), 0);
    assert!((10..=150).contains(&counters.probes), "{} probes in ten seconds", counters.probes);
    pair.now = end;
    pair.b.receive(end, &packets);
    pair.run_until_idle();
    assert_eq!((pair.a.acknowledged(), pair.a.flow.counters().resent()), (5_000, 0));
}

#[test]
fn a_peer_that_never_answers_fails_after_its_time() {
    let mut pair = Pair::new(&Settings { peer_timeout: Duration::from_secs(3), ..small() });
    pair.a.flow.submit_message(b"x", &[]);
    pair.a.packets(pair.now);
    while let Some(at) = pair.a.flow.next_timeout() {
        pair.now = at;
        pair.a.packets(at);
    }
    assert_eq!(pair.a.flow.poll_event(), Some(Event::PeerFailed { reason: Failure::Silent }));
    assert!((2_900..=3_400).contains(&(pair.now.0 / 1_000_000)), "failed after {} ns", pair.now.0);
    pair.a.flow.submit_message(b"y", &[]);
    assert!(pair.a.packets(pair.now).is_empty() && pair.a.flow.is_idle());
}

#[test]
fn a_recording_of_a_dead_peer_does_not_keep_it_alive() {
    let mut pair = Pair::new(&Settings { peer_timeout: Duration::from_secs(3), ..small() });
    pair.b.flow.submit_message(b"recorded", &[]);
    let recorded = pair.b.packets(pair.now);
    pair.a.receive(pair.now, &recorded);
    pair.a.flow.submit_message(b"x", &[]);
    let began = pair.now;
    pair.a.packets(began);
    while let Some(at) = pair.a.flow.next_timeout() {
        pair.now = pair.now.max(at);
        pair.a.receive(pair.now, &recorded);
        pair.a.packets(pair.now);
        assert!(pair.now < began + Duration::from_secs(10), "replayed packets count as life");
        pair.now = pair.now + Duration::from_millis(1);
    }
    assert_eq!(pair.a.flow.poll_event(), Some(Event::PeerFailed { reason: Failure::Silent }));
    assert!(pair.a.flow.counters().duplicates > 0);
}

#[test]
fn our_own_absence_is_not_the_peers_silence() {
    let mut pair = Pair::new(&Settings { peer_timeout: Duration::from_secs(3), ..small() });
    pair.a.flow.submit_message(b"x", &[]);
    pair.a.packets(pair.now);
    for _ in 0..5 {
        let now = pair.later(Duration::from_secs(60));
        pair.a.packets(now);
    }
    assert!(!pair.a.flow.has_failed());
}

#[test]
fn with_no_timeout_a_silent_peer_never_fails() {
    let mut pair = Pair::new(&Settings { peer_timeout: Duration(0), ..small() });
    pair.a.flow.submit_message(b"x", &[]);
    for _ in 0..5_000 {
        let now = pair.later(Duration::from_millis(100));
        pair.a.packets(now);
    }
    assert!(!pair.a.flow.has_failed());
}

#[test]
fn resends_leave_in_small_passes() {
    let mut pair = Pair::new(&small());
    pair.a.flow.submit_data(0, 0, 0..15_000);
    let packets = pair.a.packets(pair.now);
    assert!(packets.len() > 50);
    // Receive only the last two and a probe.   Expect: the others again, but sixteen at a time.
    pair.b.receive(pair.now, &packets[packets.len() - 2..]);
    let at = pair.a.flow.next_timeout().expect("a probe");
    let probe = pair.a.packets(at);
    pair.b.receive(at, &probe);
    let answer = pair.b.packets(at);
    pair.a.receive(at, &answer);
    let first = pair.a.packets(at);
    assert_eq!(first.len(), RESENDS_PER_PASS as usize);
    let next = pair.a.flow.next_timeout().expect("the next pass");
    assert_eq!(next, at + RESEND_PASS);
    assert_eq!(pair.a.packets(next).len(), RESENDS_PER_PASS as usize);
    // Many losses in one round trip cut the window, never by more than half.
    assert!((32..48).contains(&pair.a.flow.window()), "{}", pair.a.flow.window());
}

#[test]
fn a_duplicate_is_delivered_once_and_answered_at_once() {
    let mut pair = Pair::new(&small());
    pair.a.flow.submit_message(b"once", &[]);
    let packets = pair.a.packets(pair.now);
    pair.b.receive(pair.now, &packets);
    pair.b.receive(pair.now, &packets);
    assert_eq!(pair.b.memory.messages.len(), 1);
    assert_eq!(pair.b.flow.counters().duplicates, 1);
    assert_eq!(pair.b.packets(pair.now).len(), 1);
}

/// A packet that only a member of the job can make, with content of the test's choice.
fn authentic(kind: Kind, acknowledged: Number, selective: u64, echo: Option<Echo>, payload: &[u8]) -> Vec<u8> {
    let packet = Packet { sender: 1, acknowledged, selective, echo, request: true, marked: false, path: 0, kind };
    let mut bytes = vec![0; 600];
    let at = packet.emit(payload.len(), &mut bytes);
    bytes[at..at + payload.len()].copy_from_slice(payload);
    bytes.truncate(at + payload.len());
    let number = match kind {
        Kind::Acknowledgement(number) | Kind::Probe(number) | Kind::Piece(number) | Kind::Numbered { number, .. } => {
            number
        }
    };
    // The first numbers stand just before the wrap.
    let epoch = u32::from(number.0 < 1 << 31);
    Key::derive(&secret(), ProcessName::of_only_job(1), ProcessName::of_only_job(2)).write_tag(epoch, &mut bytes);
    bytes
}

#[test]
fn packets_outside_the_window_are_counted_and_dropped() {
    let mut pair = Pair::new(&Settings { far_bytes: 0, ..small() });
    let channel = Channel::Data { remote_key: 0, offset: 0, end: false };
    for number in [Number::FIRST.plus(64), Number::FIRST.plus(1 << 30), Number(Number::FIRST.0 - 3000)] {
        let kind = Kind::Numbered { number, transmission: 1, order: 0, channel };
        let packet = authentic(kind, Number::FIRST, 0, None, &[1, 2, 3]);
        pair.b.receive(pair.now, &[packet]);
    }
    assert_eq!(pair.b.flow.counters().out_of_window, 3);
    assert!(pair.b.memory.placed.is_empty() && pair.b.flow.is_idle());
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_changes_nothing() {
    let mut pair = Pair::new(&small());
    pair.b.flow.submit_message(b"x", &[]);
    pair.b.packets(pair.now);
    let mut control = Number::FIRST;
    for (acknowledged, selective) in [(2, 0), (0, 1), (0, u64::MAX), (1 << 30, 0), (1, 1)] {
        control = control.plus(1);
        let kind = Kind::Acknowledgement(control);
        let packet = authentic(kind, Number::FIRST.plus(acknowledged), selective, None, &[]);
        pair.b.receive(pair.now, &[packet]);
    }
    assert_eq!(pair.b.flow.counters().acknowledged_unsent, 5);
    assert!(!pair.b.flow.is_idle());
}

#[test]
fn every_packet_is_acknowledged_when_told_so() {
    let mut pair = Pair::new(&Settings { ack_scheme: AckScheme::EveryPacket, ..small() });
    pair.a.flow.submit_data(0, 0, 0..10_000);
    let packets = pair.a.packets(pair.now);
    pair.b.receive(pair.now, &packets);
    assert_eq!(pair.b.packets(pair.now).len(), packets.len());
}

#[test]
fn the_schemes_differ_in_the_last_fragment() {
    for (scheme, expected) in [(AckScheme::Deferred, 0), (AckScheme::Immediate, 1)] {
        let mut pair = Pair::new(&Settings { ack_scheme: scheme, ..small() });
        pair.a.flow.submit_data(0, 0, 0..1_000);
        let packets = pair.a.packets(pair.now);
        pair.b.receive(pair.now, &packets);
        assert_eq!(pair.b.packets(pair.now).len(), expected, "{scheme:?}");
    }
}

#[test]
fn an_idle_flow_is_small_whatever_it_did() {
    let mut pair = Pair::new(&Settings { window_packets: WINDOW_MAX, ..small() });
    assert!(pair.a.flow.memory_bytes() <= IDLE_BYTES_MAX);
    pair.a.flow.submit_data(0, 0, 0..1_000_000);
    for _ in 0..5_000 {
        pair.a.flow.submit_message(&[1; 100], &[2; 100]);
        pair.b.flow.submit_message(&[1; 20], &[]);
    }
    pair.run_until_idle();
    assert_eq!(pair.a.acknowledged(), 1_000_000);
    for side in [&mut pair.a, &mut pair.b] {
        assert_eq!(side.flow.poll_event(), None);
        side.flow.shrink();
        assert!(side.flow.memory_bytes() <= IDLE_BYTES_MAX, "{} bytes", side.flow.memory_bytes());
    }
}

#[test]
fn can_accept_turns_false_and_true_again() {
    let mut pair = Pair::new(&Settings { queue_bytes: 10_000, ..small() });
    let mut submitted = 0;
    while pair.a.flow.can_accept() {
        pair.a.flow.submit_message(&[0; 200], &[]);
        submitted += 1;
    }
    assert_eq!(submitted, 10_000_usize.div_ceil(202));
    pair.run_until_idle();
    assert!(pair.a.flow.can_accept());
    assert_eq!(pair.b.memory.messages.len(), submitted);
}

mod denial;
mod long;
mod parked;
mod path_mtu;
mod paths;
mod sealed;
mod stripes;
mod windows;

/// The fate of a packet on the wire.
#[derive(Clone, Copy, Debug)]
enum WireAction {
    Arrive,
    Drop,
    Twice,
    Late,
    Damaged,
}

fn actions() -> impl Strategy<Value = Vec<WireAction>> {
    let action = prop_oneof![
        6 => Just(WireAction::Arrive), 2 => Just(WireAction::Drop), 1 => Just(WireAction::Twice), 2 => Just(WireAction::Late), 1 => Just(WireAction::Damaged)
    ];
    prop::collection::vec(action, 1..400)
}

fn apply(
    actions: &mut impl Iterator<Item = WireAction>,
    late: &mut Vec<Vec<u8>>,
    packets: Vec<Vec<u8>>,
) -> Vec<Vec<u8>> {
    let mut out = core::mem::take(late);
    for mut packet in packets {
        match actions.next().unwrap_or(WireAction::Arrive) {
            WireAction::Arrive => out.push(packet),
            WireAction::Drop => {}
            WireAction::Twice => out.extend([packet.clone(), packet]),
            WireAction::Late => late.push(packet),
            WireAction::Damaged => {
                packet[20] ^= 0x55;
                out.push(packet);
            }
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn exactly_once_and_in_order_whatever_the_wire_does(actions in actions(), messages in 1u32..200, bytes in 0u64..30_000) {
        let mut pair = Pair::new(&small());
        for i in 0..messages {
            pair.a.flow.submit_message(&i.to_le_bytes(), &vec![i as u8; (i % 90) as usize]);
            pair.b.flow.submit_message(&i.to_le_bytes(), &[]);
        }
        pair.a.flow.submit_data(1, 1, 0..bytes);
        let (mut late_a, mut late_b) = (Vec::new(), Vec::new());
        let mut actions = actions.into_iter();
        while actions.len() > 0 && !(pair.a.flow.is_idle() && pair.b.flow.is_idle()) {
            let now = pair.later(us(30));
            let from_a = apply(&mut actions, &mut late_a, pair.a.packets(now));
            let from_b = apply(&mut actions, &mut late_b, pair.b.packets(now));
            pair.b.receive(now, &from_a);
            pair.a.receive(now, &from_b);
            if from_a.is_empty() && from_b.is_empty() {
                let next = [pair.a.flow.next_timeout(), pair.b.flow.next_timeout()].into_iter().flatten().min();
                pair.now = next.unwrap_or(now).max(now);
            }
        }
        pair.run_until_idle();
        for side in [&pair.a, &pair.b] {
            prop_assert_eq!(side.memory.messages.len(), messages as usize);
            for (i, message) in side.memory.messages.iter().enumerate() {
                prop_assert_eq!(&message[..4], &(i as u32).to_le_bytes()[..]);
            }
        }
        let mut placed: Vec<_> = pair.b.memory.placed.iter().map(|(_, offset, bytes)| (*offset, bytes.len() as u64)).collect();
        placed.sort_unstable();
        let mut at = 0;
        for (offset, length) in placed {
            prop_assert_eq!(offset, at);
            at += length;
        }
        prop_assert_eq!((at, pair.a.acknowledged()), (bytes, bytes));
    }

    #[test]
    fn authentic_nonsense_is_harmless(
        numbers in prop::collection::vec((any::<u8>(), -70i32..70, -70i32..70, any::<u64>(), any::<u8>()), 1..100)
    ) {
        let mut pair = Pair::new(&small());
        for i in 0..40u8 {
            pair.b.flow.submit_message(&[i; 200], &[]);
        }
        for (what, number, acknowledged, selective, transmission) in numbers {
            let now = pair.later(us(100));
            pair.b.packets(now);
            let number = Number::FIRST.plus(number as u32);
            let echo = Some(Echo { of: Echoed::Packet { number, transmission }, hold: None, host_delay: Duration(0) });
            let numbered = |channel| Kind::Numbered { number, transmission, order: transmission, channel };
            let (kind, payload): (_, &[u8]) = match what % 4 {
                0 => (Kind::Acknowledgement(number), &[]),
                1 => (Kind::Probe(number), &[]),
                2 => (numbered(Channel::Messages { first: number }), &[1, 0, 9, 0, 0]),
                _ => (numbered(Channel::Data { remote_key: 1, offset: 5, end: true }), &[1, 2, 3]),
            };
            let bytes = authentic(kind, Number::FIRST.plus(acknowledged as u32), selective, echo, payload);
            pair.b.receive(now, &[bytes]);
            prop_assert!(pair.b.flow.memory_bytes() < 100_000);
        }
    }
}

/// The long path of a flow, with packets of 5,000 bytes beside those of 300.
fn with_long_path() -> Settings {
    Settings { bulk_paths: 1, long_packet_size: 5_000, ..small() }
}

/// The packets of a side that may leave now, each with its path.
fn packets_on_paths(side: &mut Side, now: Instant) -> Vec<(usize, Vec<u8>)> {
    let mut out = vec![0; side.flow.settings.longest()];
    let mut packets = Vec::new();
    while let Some(train) = side.flow.poll_train(now, &mut side.memory, &mut out, 64) {
        packets.extend(out[..train.bytes].chunks(train.segment).map(|packet| (train.path, packet.to_vec())));
        assert!(packets.len() < 50_000, "poll_train never ends");
    }
    packets
}

/// Carries everything both ways but what is on the long path, until both sides are idle. `room`: the packets
/// of a burst that a buffer on the way takes; those behind them are lost.
fn run_without_long_path(pair: &mut Pair, room: usize) {
    for _ in 0..100_000 {
        let now = pair.later(us(10));
        let long = pair.a.flow.settings.long_path();
        let [from_a, from_b] = [&mut pair.a, &mut pair.b].map(|side| packets_on_paths(side, now));
        let now = pair.later(us(10));
        let others = |packets: &[(usize, Vec<u8>)]| {
            let others = packets.iter().filter(|(path, _)| *path != long).map(|(_, packet)| packet.clone());
            others.take(room).collect::<Vec<_>>()
        };
        pair.b.receive(now, &others(&from_a));
        pair.a.receive(now, &others(&from_b));
        if pair.a.flow.has_long_path_failed() {
            pair.a.flow.set_long_path(LongPath::Closed);
        }
        if from_a.is_empty() && from_b.is_empty() {
            match [pair.a.flow.next_timeout(), pair.b.flow.next_timeout()].into_iter().flatten().min() {
                None => return,
                Some(at) => pair.now = pair.now.max(at),
            }
        }
    }
    panic!("the flows never come to rest");
}

/// Messages of 10, 3,000 and 10 bytes while the long path is open.   Expect: the one of 3,000 takes it as one
/// packet, the others take path 0, and all arrive in order though the long one is late.
#[test]
fn a_message_longer_than_a_packet_takes_the_long_path() {
    let mut pair = Pair::new(&with_long_path());
    assert_eq!(pair.a.flow.long_frame_max(), None);
    pair.a.flow.set_long_path(LongPath::Open);
    assert!(pair.a.flow.long_frame_max() > Some(4_900) && pair.a.flow.frame_max() < 300);
    assert!(pair.a.flow.may_take_long_path(1_200) && !pair.a.flow.may_take_long_path(1_000));
    let sent: Vec<Vec<u8>> = vec![vec![1; 10], vec![2; 3_000], vec![3; 10]];
    for message in &sent {
        pair.a.flow.submit_message(message, &[]);
        let now = pair.now;
        let packets = packets_on_paths(&mut pair.a, now);
        assert_eq!(packets.len(), 1);
        let (path, packet) = &packets[0];
        assert_eq!((*path, packet.len() > 300), if message.len() > 300 { (2, true) } else { (0, false) });
        if message.len() < 300 {
            pair.b.receive(now, core::slice::from_ref(packet));
        } else {
            pair.b.memory.placed.push((0, 0, packet.clone()));
        }
    }
    assert_eq!(pair.b.memory.messages, sent[..1], "the last one waits for the long one");
    let (_, _, late) = pair.b.memory.placed.pop().expect("the long packet");
    let now = pair.now;
    pair.b.receive(now, &[late]);
    assert_eq!(pair.b.memory.messages, sent);
    pair.run_until_idle();
    assert_eq!((pair.a.flow.counters().long_packets_sent, pair.a.flow.counters().resent()), (1, 0));
}

/// The carrier of the long path takes packets and delivers none, while the peer answers on path 0.   Expect:
/// the path has failed within some milliseconds, and what it took arrives in pieces on other paths. No path
/// is thought to carry smaller packets.
#[test]
fn what_the_long_path_does_not_deliver_comes_in_pieces() {
    for sealed in [false, true] {
        let mut pair = Pair::new(&Settings { sealed, ..with_long_path() });
        pair.a.flow.set_long_path(LongPath::Open);
        let sent: Vec<Vec<u8>> = (1..=20).map(|number| vec![number; 200 * usize::from(number)]).collect();
        let began = pair.now;
        for message in &sent {
            pair.a.flow.submit_message(message, &[]);
        }
        run_without_long_path(&mut pair, usize::MAX);
        assert_eq!(pair.b.memory.messages, sent);
        let counters = pair.a.flow.counters();
        assert!(counters.long_packets_sent > 0 && counters.cut >= counters.long_packets_sent);
        assert_eq!((counters.packets_smaller, counters.long_packets_sent), (0, counters.resent_by_path));
        assert!(pair.now.since(began) < Duration::from_millis(100), "{:?}", pair.now.since(began));
    }
}

/// What a long packet becomes on another path is a burst for which a buffer on the way has no room.   Expect:
/// the message arrives after a few bursts all the same.
#[test]
fn the_pieces_of_a_long_packet_arrive_through_a_small_buffer() {
    let mut pair = Pair::new(&with_long_path());
    pair.a.flow.set_long_path(LongPath::Open);
    pair.a.flow.submit_message(&[7; 4_900], &[]);
    let now = pair.now;
    assert_eq!(packets_on_paths(&mut pair.a, now).len(), 1);
    pair.a.flow.set_long_path(LongPath::Closed);
    run_without_long_path(&mut pair, 14);
    assert_eq!(pair.b.memory.messages, [vec![7; 4_900]]);
    assert!(pair.a.flow.counters().cut <= 4, "{} bursts", pair.a.flow.counters().cut);
}

/// The carrier of the long path takes one packet, and is full.   Expect: the next message for the path, and
/// those behind it, wait as long as the first is in flight. If the carrier is still full then, or was full
/// from the beginning, they take other paths: nothing shows that it ever takes more.
#[test]
fn messages_wait_for_a_full_long_path_only_while_it_has_a_packet_in_flight() {
    for takes_one in [true, false] {
        let mut pair = Pair::new(&with_long_path());
        let sent = [vec![1; 3_000], vec![2; 3_000], vec![3; 10]];
        pair.a.flow.set_long_path(if takes_one { LongPath::Open } else { LongPath::Full });
        pair.a.flow.submit_message(&sent[0], &[]);
        let now = pair.now;
        let first = packets_on_paths(&mut pair.a, now);
        assert_eq!(first.iter().all(|(path, _)| *path == 2), takes_one);
        pair.a.flow.set_long_path(LongPath::Full);
        sent[1..].iter().for_each(|message| pair.a.flow.submit_message(message, &[]));
        if takes_one {
            assert!(packets_on_paths(&mut pair.a, now).is_empty() && pair.a.flow.needs_long_path());
        }
        let now = pair.later(us(10));
        pair.b.receive(now, &first.into_iter().map(|(_, packet)| packet).collect::<Vec<_>>());
        run_without_long_path(&mut pair, usize::MAX);
        assert_eq!(pair.b.memory.messages, sent);
        assert_eq!(pair.a.flow.counters().long_packets_sent, u64::from(takes_one));
    }
}
