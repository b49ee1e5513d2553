//! Two datagram endpoints of libfabric's provider `udp` in one process, over loopback. Where there is no
//! libfabric nothing is tested.

use std::time::{Duration, Instant};

use weft_net::carrier::{Address, Carrier, Outcome, receive_packets};
use weft_net::fabric::{EndpointAddress, Fabric, Settings, consider};
use weft_net::wait::{Interest, wait};

const LIMIT: Duration = Duration::from_secs(20);

fn settings() -> Settings {
    Settings { provider: Some("udp".into()), interfaces: Some("lo".into()), ..Settings::default() }
}

/// Opens two endpoints, and returns for each the address of the other; none without libfabric.
fn pair() -> Option<[(Fabric, Address); 2]> {
    if let Err(why) = consider(&settings()) {
        eprintln!("left out: {why}");
        return None;
    }
    let mut both = [(); 2].map(|()| Fabric::open(&settings()).expect("an endpoint"));
    let endpoint_addresses = both
        .each_ref()
        .map(|fabric| EndpointAddress::decode(&fabric.endpoint_address().encode()).expect("its own endpoint address"));
    let [near, far] = &mut both;
    let to = [
        near.address_of(&endpoint_addresses[1]).expect("an address"),
        far.address_of(&endpoint_addresses[0]).expect("an address"),
    ];
    let [near, far] = both;
    Some([(near, to[0]), (far, to[1])])
}

/// Sleeps on the descriptor as the engine does, until so many packets are there.
fn receive(fabric: &mut Fabric, count: usize) -> Vec<Vec<u8>> {
    let (began, mut packets) = (Instant::now(), Vec::new());
    while packets.len() < count {
        assert!(began.elapsed() < LIMIT, "{} of {count} packets have arrived", packets.len());
        if receive_packets(fabric, &mut |packet| packets.push(packet.to_vec()), 16) == 0 && fabric.prepare_sleep() {
            let limit = weft_core::time::Duration::from_millis(100);
            wait(&[(fabric.attributes().descriptor.expect("something to sleep on"), Interest::Read)], Some(limit))
                .expect("a sleep");
        }
    }
    packets
}

#[test]
fn packets_of_every_length_arrive_whole_and_wake_who_sleeps() {
    let Some([(mut near, to), (mut far, back)]) = pair() else { return };
    assert!(near.can_sleep(), "the provider udp has descriptors");
    let size = near.attributes().packet_size;
    assert_eq!(near.send(&to, &vec![0; size + 1]).expect("a verdict"), Outcome::TooLarge);
    for length in [0, 1, 28, 100, 1000, size] {
        let packet: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
        assert_eq!(near.send(&to, &packet).expect("a verdict"), Outcome::Sent);
        assert_eq!(receive(&mut far, 1), std::slice::from_ref(&packet));
        assert_eq!(far.send(&back, &packet).expect("a verdict"), Outcome::Sent);
        assert_eq!(receive(&mut near, 1), [packet]);
    }
    // Several times as many packets as buffers, so that all buffers are used again.
    for round in 0..60_u32 {
        for number in 0..50_u32 {
            let packet = [round.to_le_bytes(), number.to_le_bytes()].concat();
            assert_eq!(near.send(&to, &packet).expect("a verdict"), Outcome::Sent);
        }
        let expected: Vec<Vec<u8>> =
            (0..50_u32).map(|number| [round.to_le_bytes(), number.to_le_bytes()].concat()).collect();
        assert_eq!(receive(&mut far, 50), expected, "loopback loses and reorders nothing");
    }
    // A look takes all packets that are there, and not just one.
    for number in 0..40_u32 {
        assert_eq!(near.send(&to, &number.to_le_bytes()).expect("a verdict"), Outcome::Sent);
    }
    let (mut packets, mut looks, began) = (0, 0, Instant::now());
    while packets < 40 {
        assert!(began.elapsed() < LIMIT, "{packets} of 40 packets have arrived");
        looks += usize::from(receive_packets(&mut far, &mut |_| packets += 1, 64) > 0);
    }
    assert!(looks < 20, "{looks} looks for 40 packets");
    assert!(far.prepare_sleep(), "nothing is there, so a sleep is allowed");
    assert_eq!(near.diagnostics().rejected + far.diagnostics().rejected, 0);
}

#[test]
fn what_a_peer_says_of_itself_is_not_believed() {
    for nonsense in [
        "",
        "udp",
        "udp:1472:100",
        "udp:1472:100:0",
        "udp:1472:100:zz",
        "udp:1:100:00",
        "udp:1472:0:00",
        "udp:99999:1:00",
    ] {
        assert!(EndpointAddress::decode(nonsense).is_err(), "{nonsense}");
    }
    let Some([(mut near, _), (far, _)]) = pair() else { return };
    let endpoint_address = far.endpoint_address();
    assert_eq!(
        EndpointAddress::decode(&endpoint_address.encode()).expect("its own endpoint address"),
        endpoint_address
    );
    let other = EndpointAddress { provider: "cloth".into(), ..endpoint_address.clone() };
    assert!(near.address_of(&other).unwrap_err().to_string().contains("WEFT_FABRIC_PROVIDER"));
    let short = EndpointAddress { address: endpoint_address.address[..4].to_vec(), ..endpoint_address };
    assert!(near.address_of(&short).is_err());
}

#[test]
fn a_provider_that_is_not_there_is_named() {
    let wanted = Settings { provider: Some("cloth".into()), ..Settings::default() };
    let why = consider(&wanted).unwrap_err().to_string();
    assert!(why.contains("'cloth'") || why.contains("libfabric is not to be had"), "{why}");
}
