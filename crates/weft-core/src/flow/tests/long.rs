//! Far paths: windows beyond the packets that a receiver takes at once, acknowledgements in runs, and the
//! false runs of a lying peer.

use super::*;
use crate::wire::{Map, RunWriter};

/// Packets in flight on a path that is 20 ms long.
const FAR_PACKETS: u32 = 40_000;

/// Two flows, where `a` knows the round trip to `b`, and has a window of `packets` packets.
fn far(settings: &Settings, round_trip: Duration, packets: u32) -> Pair {
    let mut pair = Pair::new(settings);
    let path = &mut pair.a.flow.outgoing.paths[0];
    for _ in 0..100 {
        path.round_trip.sample(pair.now, round_trip);
    }
    path.congestion.widen(packets);
    pair
}

/// All packets that leave within a round trip.
fn round(pair: &mut Pair, round_trip: Duration) -> Vec<Vec<u8>> {
    let (mut packets, end) = (Vec::new(), pair.now + round_trip);
    while pair.now < end {
        packets.extend(pair.a.packets(pair.now));
        pair.later(us(50));
    }
    packets
}

#[test]
fn one_acknowledgement_tells_of_tens_of_thousands_of_packets_and_only_what_is_lost_goes_again() {
    let settings = Settings { packet_size: 512, ..Settings::default() };
    let mut pair = far(&settings, Duration::from_millis(20), FAR_PACKETS);
    let bytes = u64::from(FAR_PACKETS) * 468;
    pair.a.flow.submit_data(0, 0, 0..bytes);
    let packets = round(&mut pair, Duration::from_millis(20));
    assert_eq!(packets.len(), FAR_PACKETS as usize);
    let lost = |at: usize| at % 997 == 5;
    let arriving: Vec<_> =
        packets.iter().enumerate().filter(|(at, _)| !lost(*at)).map(|(_, packet)| packet.clone()).collect();
    let now = pair.later(Duration::from_millis(10));
    pair.b.receive(now, &arriving);
    let answer = pair.b.packets(now);
    assert_eq!(answer.len(), 1, "one acknowledgement");
    assert!(answer[0].len() <= settings.packet_size);
    let now = pair.later(Duration::from_millis(10));
    pair.a.receive(now, &answer);
    let expected = (0..packets.len()).filter(|at| lost(*at)).count();
    assert_eq!(pair.a.flow.counters().lost_by_gap as usize, expected);
    assert_eq!(pair.a.flow.gauges().in_flight_packets, 0, "all others are known to have arrived");
    pair.run_until_idle();
    assert_eq!((pair.a.acknowledged(), pair.a.flow.counters().resent() as usize), (bytes, expected));
    assert_eq!(pair.b.flow.counters().duplicates, 0);
    pair.a.flow.shrink();
    pair.b.flow.shrink();
    assert!(pair.a.flow.memory_bytes() <= IDLE_BYTES_MAX && pair.b.flow.memory_bytes() <= IDLE_BYTES_MAX);
}

#[test]
fn runs_that_do_not_fit_a_packet_are_cut_and_nothing_is_sent_again_for_that() {
    let settings = Settings { packet_size: PACKET_SIZE_MIN, ..Settings::default() };
    let mut pair = far(&settings, Duration::from_millis(20), FAR_PACKETS);
    let bytes = 10_000 * (PACKET_SIZE_MIN as u64 - 44);
    pair.a.flow.submit_data(0, 0, 0..bytes);
    let mut packets = round(&mut pair, Duration::from_millis(20));
    // Far more gaps than a packet of this size tells of.
    let all = packets.len();
    let mut at = 0;
    packets.retain(|_| {
        at += 1;
        at % 16 != 3
    });
    let now = pair.later(Duration::from_millis(10));
    pair.b.receive(now, &packets);
    pair.run_until_idle();
    assert_eq!((pair.a.acknowledged(), pair.b.flow.counters().duplicates), (bytes, 0));
    assert_eq!(pair.a.flow.counters().resent(), (all - packets.len()) as u64);
}

#[test]
fn what_is_sent_waits_for_its_turn_and_messages_do_not() {
    let mut pair = far(&Settings::default(), Duration::from_millis(100), 2_000);
    pair.a.flow.submit_data(0, 0, 0..100_000_000);
    // The packets of a hundredth of a round trip, and those that may leave ahead of and behind their turn.
    let first = pair.a.packets(pair.now).len();
    assert!((1..=60).contains(&first), "{first}");
    assert!(pair.a.flow.next_timeout().is_some_and(|at| at > pair.now));
    pair.a.flow.submit_message(b"now", &[]);
    let packets = pair.a.packets(pair.now);
    assert_eq!(packets.len(), 1);
    pair.b.receive(pair.now, &packets);
    assert_eq!(pair.b.memory.messages, [b"now".to_vec()]);
    let all = first + round(&mut pair, Duration::from_millis(100)).len();
    assert!((1_990..=2_000).contains(&all), "a window in a round trip: {all}");
}

#[test]
fn messages_are_kept_behind_a_gap_no_farther_than_on_a_short_path() {
    let settings = Settings { window_packets: 32, ..Settings::default() };
    let mut pair = far(&settings, Duration::from_millis(20), FAR_PACKETS);
    for _ in 0..100 {
        pair.a.flow.submit_message(&vec![1; pair.a.flow.frame_max()], &[]);
    }
    let mut packets = pair.a.packets(pair.now);
    assert_eq!(packets.len(), 32);
    // Data goes on.
    pair.a.flow.submit_data(0, 0, 0..1_000_000);
    packets.extend(round(&mut pair, Duration::from_millis(20)));
    assert!(packets.len() > 700);
    packets.remove(0);
    let now = pair.later(us(10));
    pair.b.receive(now, &packets);
    let held = pair.b.flow.memory_bytes();
    assert!(held < size_of::<Flow>() + 32 * 1_600 + 8_192, "{held} bytes");
    pair.run_until_idle();
    assert_eq!((pair.b.memory.messages.len(), pair.b.flow.counters().malformed), (100, 0));
}

#[test]
fn a_peer_that_claims_a_packet_as_far_ahead_as_can_be_makes_no_more_than_a_map_of_that() {
    let mut pair = Pair::new(&Settings::default());
    let reach = pair.b.flow.settings.reach();
    let channel = Channel::Data { remote_key: 0, offset: 0, end: false };
    for ahead in [reach - 1, reach] {
        let kind = Kind::Numbered { number: Number::FIRST.plus(ahead), transmission: 1, order: 0, channel };
        pair.b.receive(pair.now, &[authentic(kind, Number::FIRST, 0, None, &[1, 2, 3])]);
    }
    assert_eq!((pair.b.flow.counters().data_packets_received, pair.b.flow.counters().out_of_window), (1, 1));
    assert!(pair.b.flow.memory_bytes() < size_of::<Flow>() + FAR_PACKETS_MAX as usize / 8 + 1_024);
    assert_eq!(pair.b.packets(pair.now).len(), 1);
}

#[test]
fn runs_of_packets_that_were_never_sent_change_nothing() {
    let mut pair = Pair::new(&Settings::default());
    pair.b.flow.submit_data(0, 0, 0..1_000_000);
    pair.b.packets(pair.now);
    let mut runs = [0; 32];
    let mut writer = RunWriter::new(&mut runs);
    assert!(writer.run(100, 1_000_000));
    let length = writer.finish();
    let kind = Kind::Acknowledgement(Number::FIRST);
    pair.b.receive(pair.now, &[authentic(kind, Number::FIRST, 0, None, &runs[..length])]);
    assert_eq!((pair.b.flow.counters().acknowledged_unsent, pair.b.acknowledged()), (1, 0));
}

#[test]
fn probes_do_not_come_before_an_answer_can() {
    let settings = Settings { pto_max: Duration::from_millis(100), ..Settings::default() };
    let mut pair = far(&settings, Duration::from_millis(200), 64);
    pair.a.flow.submit_data(0, 0, 0..1_000_000);
    pair.a.packets(pair.now);
    pair.later(Duration::from_millis(190));
    pair.a.packets(pair.now);
    assert_eq!(pair.a.flow.counters().probes, 0);
}

proptest! {
    #[test]
    fn runs_that_are_written_are_read(runs in prop::collection::vec((1u32..3_000, 1u32..20_000), 1..40), room in 2usize..200) {
        let mut out = vec![0; room];
        let mut writer = RunWriter::new(&mut out);
        let fitting: Vec<_> = runs.into_iter().take_while(|(missing, arrived)| writer.run(*missing, *arrived)).collect();
        let length = writer.finish();
        prop_assert!(length <= room && (length == 0 || !length.is_multiple_of(8)));
        let (first, map) = (Number(u32::MAX - 5_000), Map(&out[..length]));
        let mut expected = (Vec::new(), 0);
        for (missing, arrived) in fitting {
            expected.0.extend(expected.1 + missing..expected.1 + missing + arrived);
            expected.1 += missing + arrived;
        }
        let mut told = Vec::new();
        for (at, word) in map.pieces(first) {
            told.extend((0..64).filter(|bit| word >> bit & 1 != 0).map(|bit| at.plus(bit).since(first) as u32));
        }
        prop_assert_eq!(map.end(first), expected.1);
        prop_assert_eq!(told, expected.0);
    }
}
