//! Sealed flows: payloads are encrypted, and nothing in them can be changed.

use super::*;

fn sealed() -> Settings {
    Settings { sealed: true, ..small() }
}

fn contains(packet: &[u8], text: &[u8]) -> bool {
    packet.windows(text.len()).any(|window| window == text)
}

#[test]
fn everything_arrives_and_nothing_can_be_read_on_the_way() {
    let mut pair = Pair::new(&sealed());
    let text = b"a sentence that is easy to recognise";
    pair.a.flow.submit_message(text, &[]);
    pair.a.flow.submit_message(&[], &vec![5; pair.a.flow.frame_max()]);
    let packets = pair.a.packets(pair.now);
    assert!(packets.iter().all(|packet| packet.len() <= 300 && !contains(packet, &text[..8])));
    pair.b.receive(pair.now, &packets);
    pair.a.flow.submit_data(9, 4, 0..50_000);
    pair.run_until_idle();
    assert_eq!(pair.b.memory.messages[0], text);
    let mut expected = 0;
    for (_, offset, bytes) in &pair.b.memory.placed {
        assert_eq!(*offset, expected);
        assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == pattern(4, offset + i as u64)));
        expected += bytes.len() as u64;
    }
    assert_eq!((expected, pair.a.acknowledged(), pair.a.flow.counters().resent()), (50_000, 50_000, 0));
    for side in [&mut pair.a, &mut pair.b] {
        assert_eq!(side.flow.poll_event(), None);
        side.flow.shrink();
        assert!(side.flow.memory_bytes() <= IDLE_BYTES_MAX, "{} bytes", side.flow.memory_bytes());
    }
}

#[test]
fn a_payload_that_is_not_sealed_by_the_peer_is_not_believed_whatever_its_tag() {
    let mut pair = Pair::new(&sealed());
    pair.a.flow.submit_data(9, 4, 0..5_000);
    let packets = pair.a.packets(pair.now);
    for (at, packet) in packets.iter().enumerate() {
        let mut changed = packet.clone();
        let last = changed.len() - 1;
        changed[last - 7 * at] ^= 1;
        Key::derive(&secret(), ProcessName::of_only_job(1), ProcessName::of_only_job(2)).write_tag(0, &mut changed);
        pair.b.receive(pair.now, &[changed]);
    }
    assert_eq!(pair.b.flow.counters().unsealed, packets.len() as u64);
    assert!(pair.b.memory.placed.is_empty());
    pair.b.receive(pair.now, &packets);
    pair.run_until_idle();
    assert_eq!(pair.a.acknowledged(), 5_000);
}

#[test]
fn a_resend_is_sealed_anew() {
    let mut pair = Pair::new(&sealed());
    pair.a.flow.submit_data(0, 0, 0..5_000);
    let mut packets = pair.a.packets(pair.now);
    let lost = packets.remove(3);
    let now = pair.later(us(10));
    pair.b.receive(now, &packets);
    let answer = pair.b.packets(now);
    pair.a.receive(now, &answer);
    let again = pair.a.packets(now);
    assert_eq!(again.len(), 1);
    // Compare the two transmissions behind their heads.   Expect: not one stretch in common.
    assert!(!lost[44..].windows(8).any(|window| contains(&again[0][44..], window)));
    pair.b.receive(now, &again);
    pair.run_until_idle();
    assert_eq!((pair.a.acknowledged(), pair.b.flow.counters().unsealed), (5_000, 0));
}

#[test]
fn trains_are_equal_when_sealed_too() {
    let mut pair = Pair::new(&Settings { sealed: true, ..Settings::default() });
    pair.b.flow.submit_message(b"x", &[]);
    let packets = pair.b.packets(pair.now);
    pair.a.receive(pair.now, &packets);
    pair.a.flow.submit_data(1, 1, 0..40_000);
    let mut out = vec![0; 1 << 16];
    let train = pair.a.flow.poll_train(pair.now, &mut pair.a.memory, &mut out, 44).expect("a train");
    assert_eq!(train.segment, 1452);
    pair.b.flow.handle_train(pair.now, &out[..train.bytes], train.segment, false, &mut pair.b.memory);
    assert_eq!(pair.b.memory.placed.iter().map(|(_, _, bytes)| bytes.len()).sum::<usize>(), 40_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// A member of the job sends payloads that are not sealed, or are sealed nonsense.
    #[test]
    fn authentic_packets_that_are_not_sealed_are_counted_and_harmless(
        mut bytes in prop::collection::vec(any::<u8>(), 28..200), kind in 2u8..5,
    ) {
        let mut pair = Pair::new(&sealed());
        bytes[8..12].copy_from_slice(&[1, 0, 0, kind]);
        bytes[12..16].copy_from_slice(&Number::FIRST.0.to_le_bytes());
        Key::derive(&secret(), ProcessName::of_only_job(1), ProcessName::of_only_job(2)).write_tag(0, &mut bytes);
        pair.b.receive(pair.now, &[bytes]);
        prop_assert_eq!(pair.b.flow.counters().unsealed, 1);
        prop_assert!(pair.b.memory.placed.is_empty() && pair.b.memory.messages.is_empty());
    }
}
