//! Windows of many packets, trains, and numbers beyond 32 bits.

use super::*;

fn wide() -> Settings {
    Settings { packet_size: 300, window_packets: WINDOW_MAX, ..Settings::default() }
}

#[test]
fn a_hole_at_the_front_of_a_full_window_is_all_that_is_sent_again() {
    let mut pair = Pair::new(&wide());
    let bytes = u64::from(WINDOW_MAX) * 256;
    pair.a.flow.submit_data(0, 0, 0..bytes);
    let mut packets = pair.a.packets(pair.now);
    assert_eq!(packets.len(), WINDOW_MAX as usize);
    let gauges = pair.a.flow.gauges();
    assert_eq!((gauges.in_flight_packets, gauges.window_packets), (WINDOW_MAX.into(), WINDOW_MAX.into()));
    assert_eq!(gauges.values()[1], 0, "no round trip yet");
    for lost in [1700, 900, 33, 0] {
        packets.remove(lost);
    }
    let now = pair.later(us(10));
    pair.b.receive(now, &packets);
    let answer = pair.b.packets(now);
    assert_eq!(answer.len(), 1);
    // Receive one acknowledgement with a map of the whole window.   Expect: the four again, and nothing else.
    let now = pair.later(us(10));
    pair.a.receive(now, &answer);
    assert_eq!((pair.a.flow.gauges().in_flight_packets, pair.a.flow.counters().lost_by_gap), (0, 4));
    assert_eq!(pair.a.acknowledged(), 0, "its bytes may be needed until all before them have arrived");
    let again = pair.a.packets(now);
    assert_eq!((again.len(), pair.a.flow.counters().resent_by_gap), (4, 4));
    pair.b.receive(now, &again);
    pair.run_until_idle();
    assert_eq!((pair.a.acknowledged(), pair.b.flow.counters().duplicates), (bytes, 0));
    pair.a.flow.shrink();
    pair.b.flow.shrink();
    assert!(pair.a.flow.memory_bytes() <= IDLE_BYTES_MAX && pair.b.flow.memory_bytes() <= IDLE_BYTES_MAX);
}

#[test]
fn a_map_that_does_not_fit_a_packet_is_cut_and_the_rest_follows() {
    let mut pair = Pair::new(&Settings { packet_size: PACKET_SIZE_MIN, ..wide() });
    pair.a.flow.submit_data(0, 0, 0..u64::from(WINDOW_MAX) * 212);
    let mut packets = pair.a.packets(pair.now);
    packets.remove(0);
    let now = pair.later(us(10));
    pair.b.receive(now, &packets);
    let answer = pair.b.packets(now);
    assert!(answer.iter().all(|packet| packet.len() <= PACKET_SIZE_MIN));
    pair.a.receive(now, &answer);
    pair.run_until_idle();
    assert_eq!((pair.a.acknowledged(), pair.a.flow.counters().resent()), (u64::from(WINDOW_MAX) * 212, 1));
}

/// Of a window of packets every other four are lost, and so is each answer but that to a probe. The answer
/// has no room for a map of all of them.   Expect: nothing that has arrived is sent again.
#[test]
fn the_answer_to_a_probe_proves_nothing_of_packets_that_its_map_does_not_reach() {
    let mut pair = Pair::new(&wide());
    pair.a.flow.submit_data(0, 0, 0..u64::from(WINDOW_MAX) * 256);
    let mut packets = pair.a.packets(pair.now);
    let mut number = 0;
    packets.retain(|_| {
        number += 1;
        number % 8 > 3
    });
    let lost = u64::from(WINDOW_MAX) - packets.len() as u64;
    let now = pair.later(us(10));
    pair.b.receive(now, &packets);
    assert!(!pair.b.packets(now).is_empty(), "this answer is lost");
    while pair.a.flow.counters().probes == 0 {
        let now = pair.later(us(100));
        let probe = pair.a.packets(now);
        pair.b.receive(now, &probe);
        let answer = pair.b.packets(now);
        pair.a.receive(now, &answer);
    }
    assert!(pair.a.flow.gauges().in_flight_packets > 100, "the map was cut");
    pair.run_until_idle();
    assert_eq!((pair.a.flow.counters().resent(), pair.b.flow.counters().duplicates), (lost, 0));
}

#[test]
fn a_map_goes_on_its_own_though_data_goes_back() {
    let mut pair = Pair::new(&wide());
    pair.a.flow.submit_data(0, 0, 0..60_000);
    pair.b.flow.submit_data(0, 0, 0..60_000);
    let mut packets = pair.a.packets(pair.now);
    packets.remove(0);
    let now = pair.later(us(10));
    pair.b.receive(now, &packets);
    let back = pair.b.packets(now);
    assert_eq!(pair.b.flow.counters().acks_standalone, 1);
    pair.a.receive(now, &back[..1]);
    // Receive the first packet that comes back.   Expect: everything but the lost packet is known to have
    // arrived.
    assert_eq!((pair.a.flow.gauges().in_flight_packets, pair.a.flow.counters().lost_by_gap), (0, 1));
}

#[test]
fn a_train_is_made_of_equal_packets_and_taken_as_a_whole() {
    let mut pair = Pair::new(&Settings::default());
    pair.a.flow.submit_data(1, 1, 0..100_000);
    let mut out = vec![0; 1 << 16];
    let mut bytes = 0;
    let mut trains = Vec::new();
    while let Some(train) = pair.a.flow.poll_train(pair.now, &mut pair.a.memory, &mut out, 44) {
        assert_eq!(train.segment, 1452);
        pair.b.flow.handle_train(pair.now, &out[..train.bytes], train.segment, false, &mut pair.b.memory);
        bytes += train.bytes;
        trains.push(train.bytes.div_ceil(train.segment));
    }
    assert_eq!(trains, [36, 36], "two of one length, since one does not do");
    assert_eq!(bytes, 100_000 + 72 * crate::wire::DATA_OVERHEAD);
    assert_eq!(pair.b.memory.placed.iter().map(|(_, _, bytes)| bytes.len()).sum::<usize>(), 100_000);
    // One acknowledgement answers all packets.
    assert_eq!(pair.b.packets(pair.now).len(), 1);
}

#[test]
fn a_train_carries_the_echo_in_its_first_packet_without_getting_uneven() {
    let mut pair = Pair::new(&Settings::default());
    pair.b.flow.submit_message(b"x", &[]);
    let packets = pair.b.packets(pair.now);
    pair.a.receive(pair.now, &packets);
    pair.a.flow.submit_data(1, 1, 0..14_000);
    let mut out = vec![0; 1 << 16];
    let train = pair.a.flow.poll_train(pair.now, &mut pair.a.memory, &mut out, 44).expect("a train");
    assert_eq!((train.segment, train.bytes.div_ceil(1452)), (1452, 10));
    let (first, _) = Packet::parse(&out[..1452]).expect("a packet");
    assert!(first.echo.is_some());
    assert!(pair.a.flow.poll_train(pair.now, &mut pair.a.memory, &mut out, 44).is_none());
}

#[test]
fn messages_make_trains_too_and_data_is_not_mixed_with_them() {
    let mut pair = Pair::new(&Settings::default());
    let body = vec![3; pair.a.flow.frame_max()];
    for _ in 0..5 {
        pair.a.flow.submit_message(&[], &body);
    }
    pair.a.flow.submit_data(1, 1, 0..5_000);
    let mut out = vec![0; 1 << 16];
    let mut trains = Vec::new();
    while let Some(train) = pair.a.flow.poll_train(pair.now, &mut pair.a.memory, &mut out, 44) {
        trains.push(train.bytes.div_ceil(train.segment));
        pair.b.flow.handle_train(pair.now, &out[..train.bytes], train.segment, false, &mut pair.b.memory);
    }
    assert_eq!(trains, [5, 4]);
    assert_eq!((pair.b.memory.messages.len(), pair.b.memory.placed.len()), (5, 4));
}

#[test]
fn long_messages_whose_first_pieces_fill_up_packets_leave_as_one_train() {
    let mut pair = Pair::new(&Settings::default());
    let full = pair.a.flow.frame_max();
    for _ in 0..8 {
        // Two packets and a half each.
        let mut left = 2 * full + full / 2;
        let mut piece = pair.a.flow.frame_room();
        while left > 0 {
            piece = piece.min(left);
            pair.a.flow.submit_message(&[], &vec![1; piece]);
            left -= piece;
            piece = full;
        }
    }
    let mut out = vec![0; 1 << 16];
    let train = pair.a.flow.poll_train(pair.now, &mut pair.a.memory, &mut out, 44).expect("a train");
    assert_eq!(train.bytes.div_ceil(train.segment), 21, "all of them");
    assert!(pair.a.flow.poll_train(pair.now, &mut pair.a.memory, &mut out, 44).is_none());
    assert_eq!(pair.a.flow.frame_room(), full, "what comes next begins a packet");
}

#[test]
fn ranges_of_data_that_follow_each_other_share_trains() {
    let mut pair = Pair::new(&Settings::default());
    // 64 KiB fill 45 packets and nearly one more.
    for region in 0..4 {
        pair.a.flow.submit_data(region, region, 0..65_536);
    }
    let mut out = vec![0xff; 1 << 16];
    let mut trains = Vec::new();
    while let Some(train) = pair.a.flow.poll_train(pair.now, &mut pair.a.memory, &mut out, 44) {
        trains.push(train.bytes.div_ceil(train.segment));
        for packet in out[..train.bytes].chunks(train.segment) {
            let (_, data) = Packet::parse(packet).expect("a packet");
            let filling = &packet[crate::wire::DATA_OVERHEAD + data.len()..];
            assert!(filling.iter().all(|&byte| byte == 0), "nothing leaves that nobody sent");
        }
        pair.b.flow.handle_train(pair.now, &out[..train.bytes], train.segment, false, &mut pair.b.memory);
        out.fill(0xff);
    }
    assert!(trains.len() <= 5, "{trains:?}");
    assert_eq!(pair.b.memory.placed.iter().map(|(_, _, bytes)| bytes.len()).sum::<usize>(), 4 * 65_536);
    let per_range = 65_536usize.div_ceil(1452 - crate::wire::DATA_OVERHEAD);
    assert_eq!(pair.a.flow.counters().data_packets_sent, 4 * per_range as u64, "no more packets than without");
}

#[test]
fn numbers_go_on_beyond_32_bits_and_what_was_recorded_before_does_not_fit() {
    let mut pair = Pair::new(&Settings::default());
    pair.a.flow.submit_message(b"old", &[]);
    let old = pair.a.packets(pair.now);
    pair.b.receive(pair.now, &old);
    pair.run_until_idle();
    // 2³² packets later.
    for side in [&mut pair.a, &mut pair.b] {
        side.flow.outgoing.base += 1 << 32;
        side.flow.next_control += 1 << 32;
        side.flow.incoming.skip(1 << 32);
    }
    for i in 0..400u32 {
        pair.a.flow.submit_message(&i.to_le_bytes(), &[]);
        pair.run_until_idle();
    }
    // Receive the old packet again.   Expect: forged, since its number means another one now.
    pair.b.receive(pair.now, &old);
    assert_eq!((pair.b.flow.counters().forged, pair.b.memory.messages.len()), (1, 401));
}

#[test]
fn a_replayed_packet_of_any_kind_is_counted_and_harmless() {
    let mut pair = Pair::new(&Settings::default());
    pair.a.flow.submit_message(b"x", &[]);
    let message = pair.a.packets(pair.now);
    let at = pair.a.flow.next_timeout().expect("a probe");
    let probe = pair.a.packets(at);
    pair.b.receive(at, &[message.clone(), probe.clone()].concat());
    let answer = pair.b.packets(at);
    pair.a.receive(at, &answer);
    for _ in 0..3 {
        pair.b.receive(at, &[message.clone(), probe.clone()].concat());
        pair.a.receive(at, &answer);
    }
    assert_eq!((pair.b.flow.counters().duplicates, pair.b.flow.counters().replayed), (3, 3));
    assert_eq!((pair.a.flow.counters().replayed, pair.b.memory.messages.len()), (3, 1));
    assert_eq!(pair.b.flow.counters().probes_received, 1);
}

#[test]
fn acknowledgements_of_their_own_are_counted_by_cause() {
    let settings = Settings { ack_scheme: AckScheme::Deferred, ..small() };
    let mut pair = Pair::new(&settings);
    // One message, whose acknowledgement no other packet takes along.
    pair.a.flow.submit_message(&[1], &[]);
    let packets = pair.a.packets(pair.now);
    let now = pair.later(us(10));
    pair.b.receive(now, &packets);
    let now = pair.later(settings.ack_delay);
    let answer = pair.b.packets(now);
    assert_eq!((answer.len(), pair.b.flow.counters().acks_by_delay), (1, 1));
    // The packet comes once more.
    pair.b.receive(now, &packets);
    assert_eq!((pair.b.packets(now).len(), pair.b.flow.counters().acks_by_duplicate), (1, 1));
    pair.a.receive(now, &answer);
    // The first of some packets is lost.
    pair.a.flow.submit_data(0, 0, 0..2_000);
    let mut packets = pair.a.packets(now);
    packets.remove(0);
    let now = pair.later(us(10));
    pair.b.receive(now, &packets);
    assert_eq!((pair.b.packets(now).len(), pair.b.flow.counters().acks_by_disorder), (1, 1));
    pair.run_until_idle();
    let counters = pair.b.flow.counters();
    assert_eq!(counters.acks_by_cause(), counters.acks_standalone);
}
