//! False reports of the packets that the peer has: they may delay data, and never lose it.

use super::*;
use crate::wire::MAP_WORDS_MAX;

/// A false acknowledgement of B: everything has arrived but the first packet.
fn false_report(pair: &mut Pair, number: u32, packets: u32) {
    let first = Number::FIRST;
    let map_packets = packets.saturating_sub(1).saturating_sub(64);
    let selective = if packets > 64 { u64::MAX } else { (1 << (packets - 1)) - 1 };
    let kind = Kind::Acknowledgement(first.plus(number));
    let head =
        Packet { sender: 2, acknowledged: first, selective, echo: None, request: false, marked: false, path: 0, kind };
    let mut bytes = vec![0; 28 + 8 * MAP_WORDS_MAX];
    let at = head.emit(0, &mut bytes);
    // Words of the map begin at multiples of 64.
    let (start, aligned) = (first.plus(65), first.plus(65).0 & !63);
    for (word, out) in bytes[at..].chunks_exact_mut(8).enumerate() {
        let bit = |bit: u32| {
            let distance = Number(aligned.wrapping_add(64 * word as u32 + bit)).since(start);
            u64::from((0..map_packets as i32).contains(&distance)) << bit
        };
        out.copy_from_slice(&(0..64).map(bit).sum::<u64>().to_le_bytes());
    }
    Key::derive(&secret(), ProcessName::of_only_job(2), ProcessName::of_only_job(1)).write_tag(0, &mut bytes);
    let malformed = pair.a.flow.counters().malformed + pair.a.flow.counters().forged;
    pair.a.receive(pair.now, &[bytes]);
    assert_eq!(pair.a.flow.counters().malformed + pair.a.flow.counters().forged, malformed);
    assert_eq!(pair.a.flow.counters().acknowledged_unsent, 0);
}

#[test]
fn packets_that_were_acknowledged_and_never_arrived_are_sent_again() {
    for (packets, lost) in [(40, vec![0, 7, 8, 39]), (200, vec![3, 70, 71, 150, 199]), (200, (0..200).collect())] {
        let mut pair = Pair::new(&Settings { window_packets: WINDOW_MAX, ..small() });
        pair.a.flow.submit_message(b"first", &[]);
        let bytes = 256 * (packets - 1);
        pair.a.flow.submit_data(9, 4, 0..bytes);
        let sent = pair.a.packets(pair.now);
        assert_eq!(sent.len() as u64, packets);
        // Receive that everything has arrived behind the first. It has not.
        pair.later(us(10));
        false_report(&mut pair, 0, packets as u32);
        assert_eq!(pair.a.acknowledged(), 0, "memory is kept until the peer has all before it");
        let arriving: Vec<_> =
            sent.iter().enumerate().filter(|(at, _)| !lost.contains(at)).map(|(_, p)| p.clone()).collect();
        let now = pair.later(us(10));
        pair.b.receive(now, &arriving);
        // B's own acknowledgements take their numbers behind that of the false one.
        pair.b.flow.next_control += 1;
        // Expect: the missing packets are asked for and sent again, and little else.
        pair.run_until_idle();
        assert_eq!(pair.a.acknowledged(), bytes);
        assert_eq!(pair.b.memory.messages, [b"first".to_vec()]);
        let mut places: Vec<_> = pair.b.memory.placed.iter().map(|(_, offset, bytes)| (*offset, bytes.len())).collect();
        places.sort_unstable();
        assert!(places.iter().zip(0_u64..).all(|(place, index)| *place == (256 * index, 256)), "each byte once");
        assert_eq!(places.len() as u64, packets - 1);
        for (_, offset, bytes) in &pair.b.memory.placed {
            assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == pattern(4, offset + i as u64)));
        }
        let counters = pair.a.flow.counters();
        let believed = lost.iter().filter(|at| **at > 0).count() as u64;
        // The report was proof enough that the first was lost.
        assert_eq!((counters.resent(), counters.resent_by_denial), (believed + 1, believed));
        assert_eq!(pair.b.flow.counters().duplicates, u64::from(!lost.contains(&0)));
    }
}

#[test]
fn who_waits_only_by_what_it_notes_asks_and_fails_if_nobody_answers() {
    let mut pair = Pair::new(&small());
    pair.a.flow.submit_data(9, 4, 0..10_000);
    let sent = pair.a.packets(pair.now);
    pair.later(us(10));
    pair.b.receive(pair.now, &sent[..1]);
    let answer = pair.b.packets(pair.now);
    pair.a.receive(pair.now, &answer);
    // Only the worst of B's later reports arrives: that it has all packets but the first, after it has
    // acknowledged the first.
    let began = pair.now;
    false_report(&mut pair, 9, sent.len() as u32);
    while let Some(at) = pair.a.flow.next_timeout() {
        pair.now = pair.now.max(at);
        pair.a.packets(pair.now);
    }
    assert_eq!(pair.a.flow.poll_event(), Some(Event::PeerFailed { reason: Failure::Silent }));
    let timeout = Settings::default().peer_timeout;
    assert!((timeout.0..2 * timeout.0).contains(&pair.now.since(began).0));
    assert!(pair.a.flow.counters().probes < 1_000);
}
