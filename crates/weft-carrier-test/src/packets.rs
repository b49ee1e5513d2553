//! Tests of the promises about packets: their sizes, their order, their senders, and the sleep until they
//! arrive.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::Duration;

use weft_engine::transport::{Address, Delivery, EthernetAddress, JOINED_MAX, Outcome, receive_packets};

use super::{Kit, LOOK, Pair, name};

/// Bytes of the smallest packet that every carrier must take.
const PACKET_SIZE_MIN: usize = 256;
/// Packets that are sent in a row where order and content count.
const ROW: u32 = 500;
/// Packets that are sent while the receiver does not look.
const FLOOD: u32 = 5_000;

/// Makes a packet of so many bytes, at least four, with a number. Packets with different numbers differ.
fn packet(number: u32, length: usize) -> Vec<u8> {
    let seed = number.wrapping_mul(31);
    let mut bytes: Vec<u8> = (0..length).map(|at| (at as u32 * 7).wrapping_add(seed) as u8).collect();
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn number(packet: &[u8]) -> u32 {
    packet.first_chunk().map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes))
}

fn is_ordered(pair: &Pair) -> bool {
    pair.far.carrier.attributes().delivery == Delivery::Ordered
}

/// Sends a packet as soon as there is room, and returns the outcome. An ordered carrier has not taken a
/// packet that it drops.
fn send(kit: &mut Kit<'_>, pair: &mut Pair, packet: &[u8], on_packet: &mut dyn FnMut(&[u8])) -> Outcome {
    let (mut became, is_ordered) = (Outcome::WouldBlock, is_ordered(pair));
    kit.until(pair, "it should have room for a packet again", |kit, pair| {
        became = pair.near.carrier.send(&pair.near.peer, packet).expect("the address is that of its peer");
        let waits = became == Outcome::WouldBlock || is_ordered && became == Outcome::Dropped;
        if waits {
            kit.look(pair, &mut |arrival| arrival.packets().for_each(&mut *on_packet));
        }
        !waits
    });
    became
}

/// Sends a packet, again and again where it may be lost, until it has arrived. Other packets that arrive
/// before go to `other`.
fn deliver(kit: &mut Kit<'_>, pair: &mut Pair, packet: &[u8], mut other: impl FnMut(&[u8])) {
    let (is_ordered, has_arrived, mut looks) = (is_ordered(pair), Cell::new(false), 0_u32);
    let mut on_packet = |bytes: &[u8]| if bytes == packet { has_arrived.set(true) } else { other(bytes) };
    send(kit, pair, packet, &mut on_packet);
    kit.until(pair, &format!("a packet of {} bytes should arrive", packet.len()), |kit, pair| {
        kit.look(pair, &mut |arrival| arrival.packets().for_each(&mut on_packet));
        looks += 1;
        if !is_ordered && looks.is_multiple_of(1_000) {
            // The packet may have been lost. A lack of room now is no reason to wait.
            let _ = pair.near.carrier.send(&pair.near.peer, packet);
        }
        has_arrived.get()
    });
}

pub(crate) fn attributes(kit: &mut Kit<'_>) -> bool {
    let mut pair = kit.pair();
    for end in [&mut pair.near, &mut pair.far] {
        let attributes = *end.carrier.attributes();
        let name = attributes.name;
        assert!(!name.is_empty(), "it has no name");
        assert!(attributes.packet_size >= PACKET_SIZE_MIN, "{name}: packets of {} bytes", attributes.packet_size);
        assert!(attributes.train_bytes >= attributes.packet_size, "{name}: a train is at least a packet");
        assert_eq!(attributes.remote_memory.is_some(), end.carrier.rma().is_some(), "{name}: remote memory");
        assert_eq!(attributes.multicast.is_some(), end.carrier.multicast().is_some(), "{name}: multicast");
        let group_size = attributes.multicast.map(|groups| groups.packet_size);
        assert!(group_size.is_none_or(|size| size > 0), "{name}: packets to a group have no room");
        assert_eq!(end.carrier.take_broken(), None, "{name}: nothing has been sent");
        assert_eq!(end.carrier.under_way(&end.peer), 0, "{name}: nothing has been sent");
        assert_eq!(end.carrier.diagnostics().rejected, 0, "{name}: nothing has arrived");
        assert_eq!(attributes, *end.carrier.attributes(), "{name}: what it is does not change");
    }
    true
}

pub(crate) fn lengths(kit: &mut Kit<'_>) -> bool {
    let mut pair = kit.pair();
    let size = |pair: &Pair| pair.near.carrier.attributes().packet_size.min(pair.far.carrier.attributes().packet_size);
    let size = size(&pair);
    for length in [4, 5, 39, 40, 41, PACKET_SIZE_MIN - 1, PACKET_SIZE_MIN, size - 1, size] {
        deliver(kit, &mut pair, &packet(length as u32, length), |other| {
            assert!(other.len() < length, "what was sent before is no longer than this");
        });
    }
    let too_long = packet(u32::MAX, pair.near.carrier.attributes().packet_size + 1);
    let became = pair.near.carrier.send(&pair.near.peer, &too_long).expect("a length is no reason for an error");
    let is_refused = matches!(became, Outcome::TooLarge | Outcome::Dropped);
    assert!(is_refused || !is_ordered(&pair), "{}: it took a packet that is too long: {became:?}", name(&pair));
    // Whatever the outcome, the packet does not arrive.
    for last in 0..10 {
        deliver(kit, &mut pair, &packet(last, 100), |other| assert!(other.len() <= size, "a packet that is too long"));
    }
    true
}

pub(crate) fn limits(kit: &mut Kit<'_>) -> bool {
    let mut pair = kit.pair();
    let mut missing = 20;
    let mut sent = 0;
    kit.until(&mut pair, "it should hand over 20 packets", |kit, pair| {
        if send(kit, pair, &packet(sent, 64), &mut |_| {}) == Outcome::Sent {
            sent += 1;
        }
        (kit.pass)();
        pair.near.carrier.receive(&mut |_| {}, LOOK);
        assert_eq!(receive_packets(&mut *pair.far.carrier, &mut |_| panic!("nothing was asked for"), 0), 0);
        let mut handed = 0;
        let count = receive_packets(&mut *pair.far.carrier, &mut |_| handed += 1, 1);
        assert_eq!(count, handed, "{}: it counts what it hands over", name(pair));
        assert!(handed <= 1 + JOINED_MAX, "{}: one was asked for, and {handed} came", name(pair));
        missing -= i64::try_from(handed).expect("few");
        missing <= 0
    });
    true
}

pub(crate) fn order(kit: &mut Kit<'_>) -> bool {
    let mut pair = kit.pair();
    if !is_ordered(&pair) {
        return false;
    }
    let (expected, name) = (Cell::new(0), name(&pair));
    let mut on_packet = |bytes: &[u8]| {
        let number = expected.get();
        assert_eq!(bytes, packet(number, 20 + number as usize % 200), "{name}: once and in order");
        expected.set(number + 1);
    };
    for number in 0..ROW {
        let became = send(kit, &mut pair, &packet(number, 20 + number as usize % 200), &mut on_packet);
        assert_eq!(became, Outcome::Sent, "{name}: nothing is lost");
    }
    kit.until(&mut pair, "all packets should arrive", |kit, pair| {
        kit.look(pair, &mut |arrival| arrival.packets().for_each(&mut on_packet));
        pair.near.carrier.under_way(&pair.near.peer) == 0
    });
    kit.until(&mut pair, "the last packet should arrive", |kit, pair| {
        kit.look(pair, &mut |arrival| arrival.packets().for_each(&mut on_packet));
        expected.get() == ROW
    });
    assert_eq!(pair.near.carrier.take_broken(), None, "{name}: nothing was lost");
    true
}

pub(crate) fn content(kit: &mut Kit<'_>) -> bool {
    let mut pair = kit.pair();
    let length = |number: u32| 20 + number as usize % 200;
    let mut seen = HashMap::new();
    let mut on_packet = |bytes: &[u8]| {
        let number = number(bytes);
        assert!(number < ROW && bytes == packet(number, length(number)), "a packet that nobody has sent");
        *seen.entry(number).or_insert(0) += 1;
    };
    for number in 0..ROW {
        send(kit, &mut pair, &packet(number, length(number)), &mut on_packet);
        kit.look(&mut pair, &mut |arrival| arrival.packets().for_each(&mut on_packet));
    }
    for number in 0..ROW {
        deliver(kit, &mut pair, &packet(number, length(number)), &mut on_packet);
    }
    true
}

pub(crate) fn trains(kit: &mut Kit<'_>) -> bool {
    let mut pair = kit.pair();
    let attributes = *pair.near.carrier.attributes();
    let most = attributes.packet_size;
    // A single packet; a shorter last packet; more than one call takes.
    for (segment, bytes) in [(100, 100), (100, 1_037), (most, 2 * most + 9), (200, 2 * attributes.train_bytes + 250)] {
        let train: Vec<u8> = (0..bytes).map(|at| (at / segment * 5 + at) as u8).collect();
        let packets: Vec<&[u8]> = train.chunks(segment).collect();
        let mut missing: Vec<&[u8]> = packets.clone();
        let on_packet =
            |bytes: &[u8], missing: &mut Vec<&[u8]>| match missing.iter().position(|packet| *packet == bytes) {
                Some(index) => _ = missing.remove(index),
                None => assert!(packets.contains(&bytes), "a packet that is none of the train's"),
            };
        let mut rest = &train[..];
        kit.until(&mut pair, "it should take a train", |kit, pair| {
            let taken = pair.near.carrier.send_train(&pair.near.peer, rest, segment).expect("the peer's address");
            assert!(taken == rest.len() || taken % segment == 0 && taken < rest.len(), "{taken} of {}", rest.len());
            rest = &rest[taken..];
            kit.look(pair, &mut |arrival| arrival.packets().for_each(|packet| on_packet(packet, &mut missing)));
            rest.is_empty()
        });
        let mut looks = 0_u32;
        kit.until(&mut pair, "all packets of a train should arrive", |kit, pair| {
            kit.look(pair, &mut |arrival| arrival.packets().for_each(|packet| on_packet(packet, &mut missing)));
            looks += 1;
            // A packet of a train that the machine drops counts as taken, by an ordered carrier, too.
            if looks.is_multiple_of(1_000) {
                for packet in missing.iter().take(LOOK) {
                    let _ = pair.near.carrier.send(&pair.near.peer, packet);
                }
            }
            missing.is_empty()
        });
        // Packets that came twice are taken before the next train.
        deliver(kit, &mut pair, &packet(bytes as u32, 77), |_| {});
    }
    true
}

pub(crate) fn full(kit: &mut Kit<'_>) -> bool {
    let mut pair = kit.pair();
    let mut taken = 0;
    for number in 0..FLOOD {
        match pair.near.carrier.send(&pair.near.peer, &packet(number, 250)).expect("the address is that of its peer") {
            Outcome::Sent => taken += 1,
            Outcome::WouldBlock => break,
            Outcome::Dropped => {}
            Outcome::TooLarge => panic!("{}: 250 bytes are not too many", name(&pair)),
        }
    }
    let mut arrived = 0;
    if is_ordered(&pair) {
        kit.until(&mut pair, "what it has taken should arrive", |kit, pair| {
            arrived += kit.look(pair, &mut |_| {});
            arrived == taken
        });
    }
    deliver(kit, &mut pair, &packet(FLOOD, 250), |_| {});
    true
}

pub(crate) fn sleep(kit: &mut Kit<'_>) -> bool {
    let mut pair = kit.pair();
    let Some(descriptor) = pair.far.carrier.attributes().descriptor else { return false };
    for round in 0..50 {
        deliver(kit, &mut pair, &packet(round, 100), |_| {});
        let is_readable = kit.is_readable;
        // Nothing has arrived: at some time a sleep is allowed.
        kit.until(&mut pair, "it should allow a sleep", |kit, pair| {
            kit.look(pair, &mut |_| {}) == 0 && pair.far.carrier.prepare_sleep()
        });
        let woken = packet(round + ROW, 100);
        let (mut has_arrived, mut waits) = (false, 0_u32);
        send(kit, &mut pair, &woken, &mut |_| {});
        // An end that sleeps does not look: only the descriptor says that a packet is there.
        kit.until(&mut pair, "its descriptor should tell of a packet", |kit, pair| {
            (kit.pass)();
            pair.near.carrier.receive(&mut |_| {}, LOOK);
            waits += 1;
            if kit.loses && waits.is_multiple_of(20) {
                let _ = pair.near.carrier.send(&pair.near.peer, &woken);
            }
            if is_readable(descriptor, Duration::from_millis(1)) {
                receive_packets(&mut *pair.far.carrier, &mut |bytes| has_arrived |= bytes == woken, LOOK);
            }
            has_arrived
        });
    }
    true
}

pub(crate) fn addresses(kit: &mut Kit<'_>) -> bool {
    if kit.loses {
        // A packet that is lost on purpose goes to no address.
        return false;
    }
    let mut pair = kit.pair();
    let foreign = match pair.near.peer {
        Address::Udp(_) => Address::Ethernet(EthernetAddress { mac: [2, 0, 0, 0, 0, 9], port: 9 }),
        _ => Address::Udp(([127, 0, 0, 1], 9).into()),
    };
    let name = name(&pair);
    assert!(pair.near.carrier.send(&foreign, &packet(1, 100)).is_err(), "{name}: {foreign} is none of its addresses");
    let taken = pair.near.carrier.send_train(&foreign, &packet(1, 200), 100);
    assert!(taken.is_err(), "{name}: {foreign} is none of its addresses");
    assert_eq!(pair.near.carrier.under_way(&foreign), 0, "{name}: nothing goes there");
    true
}
