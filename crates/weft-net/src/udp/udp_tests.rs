//! Tests on real sockets of this machine. Tests with other hosts, IPv6-only hosts and firewalls are in
//! `tests/udp.rs`.

use super::*;
use crate::carrier::receive_packets;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

fn loopback() -> Udp {
    Udp::bind(&Settings { interfaces: Some("lo".into()), ..Settings::default() }).unwrap()
}

fn to(link: &Udp) -> Address {
    choose_peer_address(link.candidates(), link.candidates()).unwrap().to.into()
}

fn receive(link: &mut Udp, count: usize) -> Vec<Vec<u8>> {
    let (mut packets, deadline) = (Vec::new(), Instant::now() + LIMIT);
    while packets.len() < count {
        let missing = count - packets.len();
        receive_packets(link, &mut |packet| packets.push(packet.to_vec()), missing);
        assert!(Instant::now() < deadline, "{} of {count} packets arrived", packets.len());
    }
    packets
}

#[test]
fn packets_arrive_whole_in_batches_and_one_by_one() {
    let (mut near, mut far) = (loopback(), loopback());
    let address = to(&far);
    assert_eq!(receive_packets(&mut far, &mut |_| unreachable!(), 8), 0);
    for len in [0, 1, 1000, near.attributes().packet_size] {
        let packet: Vec<u8> = (0..len).map(|i| i as u8).collect();
        assert_eq!(near.send(&address, &packet).unwrap(), Outcome::Sent);
        assert_eq!(receive(&mut far, 1), [packet]);
    }
    (0..100_u8).for_each(|i| assert_eq!(near.send(&address, &[i; 50]).unwrap(), Outcome::Sent));
    assert_eq!(receive(&mut far, 100), (0..100).map(|i| vec![i; 50]).collect::<Vec<_>>());
    assert_eq!((near.counters().packets_sent, far.counters().packets_received), (104, 104));
}

#[test]
fn a_limit_is_kept() {
    let (mut near, mut far) = (loopback(), loopback());
    (0..10_u8).for_each(|i| assert_eq!(near.send(&to(&far), &[i]).unwrap(), Outcome::Sent));
    assert_eq!(receive(&mut far, 1), [[0]]);
    let mut seen = 0;
    assert_eq!(
        (receive_packets(&mut far, &mut |_| seen += 1, 0), receive_packets(&mut far, &mut |_| seen += 1, 3), seen),
        (0, 3, 3)
    );
}

#[test]
fn a_mark_of_congestion_is_handed_on_with_what_bears_it() {
    let (mut near, mut far) = (loopback(), loopback());
    let deadline = Instant::now() + LIMIT;
    // A congested router writes the second class.
    for (class, expected) in [(sys::ECN_CAPABLE, false), (3, true)] {
        sys::set_option(near.socket.as_fd(), libc::IPPROTO_IP, libc::IP_TOS, class).unwrap();
        assert_eq!(near.send_train(&to(&far), &[5; 250], 100).unwrap(), 250);
        let (mut bytes, mut marks) = (0, Vec::new());
        while bytes < 250 {
            far.receive(
                &mut |train| {
                    bytes += train.bytes.len();
                    marks.push(train.marked);
                },
                8,
            );
            assert!(Instant::now() < deadline);
        }
        assert!(marks.iter().all(|marked| *marked == expected), "{marks:?}");
    }
    assert!(far.counters().marked > 0);
}

#[test]
fn a_train_is_cut_into_packets_by_the_kernel_or_by_us() {
    let (mut near, mut far) = (loopback(), loopback());
    let train: Vec<u8> = (0..250).collect();
    for refusals in [0, REFUSALS_MAX] {
        near.refusals = refusals;
        assert_eq!(near.send_train(&to(&far), &train, 100).unwrap(), 250);
        assert_eq!(receive(&mut far, 3).concat(), train, "in order");
    }
    assert_eq!(near.counters().trains_sent + near.counters().trains_refused, 1);
    assert_eq!((near.counters().packets_sent, far.counters().packets_received), (6, 6));
}

#[test]
fn a_train_longer_than_a_call_takes_arrives_whole() {
    let (mut near, mut far) = (loopback(), loopback());
    for (segment, packets) in [(1000, 200), (10, 300), (near.attributes().packet_size, 9)] {
        let train: Vec<u8> = (0..segment * packets - 5).map(|i| (i / 7) as u8).collect();
        assert_eq!(near.send_train(&to(&far), &train, segment).unwrap(), train.len());
        let arrived = receive(&mut far, packets);
        assert!(arrived[..packets - 1].iter().all(|packet| packet.len() == segment));
        assert_eq!(arrived.concat(), train);
    }
}

#[test]
fn joined_packets_are_handed_over_together_whatever_the_limit() {
    let (mut near, mut far) = (loopback(), loopback());
    assert_eq!(near.send_train(&to(&far), &[1; 400], 100).unwrap(), 400);
    if near.counters().trains_sent == 0 {
        return;
    }
    let mut packets = 0;
    while receive_packets(&mut far, &mut |packet| packets += packet.len() / 100, 1) == 0 {}
    assert_eq!((packets, far.counters().joined_received), (4, 1));
}

#[test]
fn a_packet_that_does_not_fit_is_refused_clearly() {
    let (mut near, far) = (loopback(), loopback());
    assert_eq!(near.send(&to(&far), &vec![0; 66_000]).unwrap(), Outcome::TooLarge);
    assert_eq!((near.counters().too_large, near.counters().packets_sent), (1, 0));
}

#[test]
fn a_packet_larger_than_agreed_is_counted_and_dropped() {
    let mut far = Udp::bind(&Settings { interfaces: Some("lo".into()), packet_size_max: Some(1000) }).unwrap();
    assert_eq!(far.attributes().packet_size, 1000);
    let mut near = loopback();
    for len in [1001, 5000, 1000] {
        assert_eq!(near.send(&to(&far), &vec![3; len]).unwrap(), Outcome::Sent);
    }
    assert_eq!(receive(&mut far, 1), [vec![3; 1000]]);
    assert_eq!(far.counters().truncated, 2);
}

#[test]
fn a_peer_that_has_gone_disturbs_nobody() {
    let (mut near, mut far, gone) = (loopback(), loopback(), to(&loopback()));
    for _ in 0..20 {
        assert_eq!(near.send(&gone, &[1]).unwrap(), Outcome::Sent);
        assert_eq!(receive_packets(&mut near, &mut |_| unreachable!(), 4), 0);
    }
    assert_eq!(near.send(&to(&far), &[2]).unwrap(), Outcome::Sent);
    assert_eq!(receive(&mut far, 1), [[2]]);
}

#[test]
fn the_default_choice_reaches_a_neighbour_on_this_machine_and_its_card_says_how() {
    let (mut near, mut far) = (Udp::bind(&Settings::default()).unwrap(), Udp::bind(&Settings::default()).unwrap());
    let endpoint_address = EndpointAddress::decode(&far.endpoint_address().encode()).unwrap();
    assert!(
        endpoint_address.window_packets >= 1 && endpoint_address.candidates.iter().all(|candidate| candidate.port != 0)
    );
    let pair = choose_peer_address(near.candidates(), &endpoint_address.candidates).unwrap();
    assert_eq!(near.send(&pair.to.into(), &vec![8; pair.packet_size]).unwrap(), Outcome::Sent);
    assert_eq!(receive(&mut far, 1), [vec![8; pair.packet_size]]);
}

#[test]
fn the_window_that_is_promised_is_there() {
    // A full window of the largest packets, sent before the receiver looks once: none may be lost.
    let (mut near, mut far) = (Udp::bind(&Settings::default()).unwrap(), Udp::bind(&Settings::default()).unwrap());
    let pair = choose_peer_address(near.candidates(), far.candidates()).unwrap();
    for size in [pair.packet_size, 600, 8] {
        let count = far.endpoint_address().window_packets as usize;
        (0..count).for_each(|_| assert_eq!(near.send(&pair.to.into(), &vec![1; size]).unwrap(), Outcome::Sent));
        assert_eq!(receive(&mut far, count).len(), count, "{size} bytes");
    }
}

#[test]
fn settings_without_sense_are_refused() {
    assert!(Udp::bind(&Settings { interfaces: Some("10.0.0.0/99".into()), ..Settings::default() }).is_err());
    assert!(Udp::bind(&Settings { packet_size_max: Some(10), ..Settings::default() }).is_err());
}

/// Answers every packet that has arrived at `far` with the same bytes.
fn echo(far: &mut Udp, to: &Address) {
    let mut packets = Vec::new();
    receive_packets(far, &mut |packet| packets.push(packet.to_vec()), 64);
    packets.iter().for_each(|packet| assert_eq!(far.send(to, packet).unwrap(), Outcome::Sent));
}

#[test]
fn peers_talked_to_often_get_sockets_of_their_own_and_all_packets_come_in_order() {
    let mut near = loopback();
    let mut peers: Vec<Udp> = (0..6).map(|_| loopback()).collect();
    let back = to(&near);
    // Two peers at a time, so that other peers become the most frequent ones. Some packets wait in a socket
    // while it changes hands.
    for (round, pair) in [[0, 1], [2, 3], [4, 5], [0, 5]].into_iter().enumerate() {
        let mut expected: Vec<(u8, u16)> = Vec::new();
        let mut heard = Vec::new();
        let deadline = Instant::now() + LIMIT;
        for i in 0..600_u16 {
            for peer in pair {
                let [low, high] = i.to_le_bytes();
                assert_eq!(near.send(&to(&peers[peer]), &[peer as u8, low, high]).unwrap(), Outcome::Sent);
                expected.push((peer as u8, i));
                echo(&mut peers[peer], &back);
            }
            if i % 8 == 0 {
                receive_packets(
                    &mut near,
                    &mut |packet| heard.push((packet[0], u16::from_le_bytes([packet[1], packet[2]]))),
                    64,
                );
            }
        }
        while heard.len() < expected.len() {
            pair.into_iter().for_each(|peer| echo(&mut peers[peer], &back));
            receive_packets(
                &mut near,
                &mut |packet| heard.push((packet[0], u16::from_le_bytes([packet[1], packet[2]]))),
                64,
            );
            assert!(Instant::now() < deadline, "round {round}: {} of {}", heard.len(), expected.len());
        }
        for peer in pair {
            let of =
                |all: &[(u8, u16)]| all.iter().filter(|(from, _)| *from == peer as u8).copied().collect::<Vec<_>>();
            assert_eq!(of(&heard), of(&expected), "round {round}");
            let address = to(&peers[peer]);
            let Address::Udp(address) = address else { unreachable!() };
            assert!(near.connected.to(&address).is_some(), "round {round}: peer {peer} is talked to most");
        }
        assert!(near.connected.sockets().count() <= 4);
    }
    // The descriptor tells of all sockets.   Send to the shared one and to a connected one.   Expect:
    // readable.
    for peer in [3, 5] {
        assert_eq!(peers[peer].send(&back, &[9]).unwrap(), Outcome::Sent);
        let ready = crate::wait::wait(
            &[(near.attributes().descriptor.expect("something to sleep on"), crate::wait::Interest::Read)],
            Some(weft_core::time::Duration::from_secs(20)),
        );
        assert!(!ready.unwrap().is_empty(), "peer {peer}");
        assert_eq!(receive(&mut near, 1), [[9]]);
    }
    assert_eq!(receive_packets(&mut near, &mut |_| unreachable!(), 64), 0);
}

#[test]
fn a_process_with_many_peers_alike_keeps_one_socket() {
    let mut near = loopback();
    let peers: Vec<Udp> = (0..20).map(|_| loopback()).collect();
    for _ in 0..300 {
        peers.iter().for_each(|peer| assert_eq!(near.send(&to(peer), &[1]).unwrap(), Outcome::Sent));
    }
    assert_eq!(near.connected.sockets().count(), 0);
}
