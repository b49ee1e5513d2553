//! Tests of addresses: those that are offered, their text, and the choice between them.

use super::*;

fn interface(name: &str, ip: &str, prefix: u8) -> Interface {
    Interface {
        name: name.into(),
        index: name.bytes().map(u32::from).sum(),
        ip: ip.parse().unwrap(),
        prefix,
        mtu: 1500,
        speed: 0,
        is_up: true,
        has_carrier: true,
        is_loopback: name == "lo",
    }
}

fn at(host: u32, ip: &str, prefix: u8) -> Candidate {
    Candidate { ip: ip.parse().unwrap(), prefix, port: 7000, packet_size: 1472, host, interface: 3, rail: 0, speed: 0 }
}

fn offered(interfaces: &[Interface], selection: &str) -> Result<Vec<String>, String> {
    let selection = Selection::parse(selection).unwrap();
    let chosen = select(interfaces, &selection, 1).map_err(|error| error.to_string())?;
    Ok(chosen.iter().map(|candidate| candidate.ip.to_string()).collect())
}

fn host() -> Vec<Interface> {
    vec![
        interface("lo", "127.0.0.1", 8),
        interface("lo", "::1", 128),
        interface("docker0", "172.17.0.1", 16),
        interface("virbr0", "192.168.122.1", 24),
        interface("br-8f2e", "172.18.0.1", 16),
        interface("eth0", "10.0.0.5", 24),
        interface("eth0", "fd00::5", 64),
        interface("eth0", "fe80::5", 64),
        interface("br0", "10.0.1.5", 24),
    ]
}

#[test]
fn ordinary_interfaces_are_offered_ipv4_first() {
    assert_eq!(offered(&host(), "").unwrap(), ["10.0.0.5", "10.0.1.5"]);
}

#[test]
fn without_ipv4_the_global_ipv6_addresses_are_offered() {
    let mut interfaces = host();
    interfaces.retain(|interface| interface.ip.is_ipv6());
    assert_eq!(offered(&interfaces, "").unwrap(), ["fd00::5"]);
    interfaces.retain(|interface| interface.ip != "fd00::5".parse::<IpAddr>().unwrap());
    assert_eq!(offered(&interfaces, "").unwrap(), ["fe80::5"]);
}

#[test]
fn every_address_that_is_not_offered_has_its_reason() {
    let mut interfaces = host();
    interfaces.push(interface("eth1", "10.0.2.5", 24));
    interfaces[9].is_up = false;
    let all = consider(&interfaces, &Selection::default(), 1);
    let reason = |ip: &str| all.iter().find(|one| one.ip.to_string() == ip).unwrap().verdict.clone().err();
    assert_eq!(reason("10.0.0.5"), None);
    assert_eq!(reason("127.0.0.1").unwrap(), "there are IPv4 addresses, which come first");
    assert_eq!(reason("fd00::5").unwrap(), "there are IPv4 addresses, which come first");
    assert!(reason("172.17.0.1").unwrap().contains("bridge for containers"));
    assert_eq!(reason("10.0.2.5").unwrap(), "it is down");
    let many: Vec<Interface> = (1..=10).map(|i| interface("eth0", &format!("10.0.{i}.5"), 24)).collect();
    let last = consider(&many, &Selection::default(), 1).pop().unwrap();
    assert_eq!(last.verdict.unwrap_err(), "8 others are offered already");
}

#[test]
fn loopback_is_the_last_resort() {
    assert_eq!(offered(&host()[..5], "").unwrap(), ["127.0.0.1"]);
    assert_eq!(offered(&host()[1..5], "").unwrap(), ["::1"]);
}

#[test]
fn the_user_can_name_interfaces_and_subnets() {
    assert_eq!(offered(&host(), "br0").unwrap(), ["10.0.1.5"]);
    assert_eq!(offered(&host(), "docker0").unwrap(), ["172.17.0.1"]);
    assert_eq!(offered(&host(), " 10.0.1.0/24 , nothing0").unwrap(), ["10.0.1.5"]);
    assert_eq!(offered(&host(), "fd00::/16").unwrap(), ["fd00::5"]);
    assert_eq!(offered(&host(), "lo").unwrap(), ["127.0.0.1"]);
    for bad in ["10.0.0.0/33", "eth0/x", "/", "fd00::/129"] {
        assert!(Selection::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_user_can_exclude_interfaces_and_order_them() {
    assert_eq!(offered(&host(), "!br0").unwrap(), ["10.0.0.5"]);
    assert_eq!(offered(&host(), "!10.0.0.0/24").unwrap(), ["10.0.1.5"]);
    assert_eq!(offered(&host(), "10.0.0.0/16,!eth0").unwrap(), ["10.0.1.5"]);
    assert_eq!(offered(&host(), "br0,eth0").unwrap(), ["10.0.1.5", "10.0.0.5"]);
    let error = offered(&host(), "eth0,!eth0").unwrap_err();
    assert!(error.contains("eth0 10.0.0.5: WEFT_INTERFACE excludes it"), "{error}");
}

#[test]
fn the_faster_interface_is_the_first_rail_and_one_interface_is_one_rail() {
    let mut interfaces = vec![
        interface("eth0", "10.0.0.5", 24),
        interface("eth0", "10.0.9.5", 24),
        interface("eth1", "10.0.1.5", 24),
        interface("eth2", "10.0.2.5", 24),
    ];
    let rails = |interfaces: &[Interface]| -> Vec<(String, u8)> {
        let chosen = select(interfaces, &Selection::default(), 1).unwrap();
        chosen.iter().map(|candidate| (candidate.ip.to_string(), candidate.rail)).collect()
    };
    let named =
        |list: &[(&str, u8)]| -> Vec<(String, u8)> { list.iter().map(|(ip, n)| (ip.to_string(), *n)).collect() };
    let expected = named(&[("10.0.0.5", 0), ("10.0.9.5", 0), ("10.0.1.5", 1), ("10.0.2.5", 2)]);
    assert_eq!(rails(&interfaces), expected);
    (interfaces[0].speed, interfaces[1].speed, interfaces[3].speed) = (1_000, 1_000, 25_000);
    let expected = named(&[("10.0.2.5", 0), ("10.0.0.5", 1), ("10.0.9.5", 1), ("10.0.1.5", 2)]);
    assert_eq!(rails(&interfaces), expected);
}

/// The rails of an end, each with an address.
fn end(host: u32, addresses: &[(u8, &str)]) -> Vec<Candidate> {
    addresses.iter().map(|(rail, ip)| Candidate { rail: *rail, ..at(host, ip, 24) }).collect()
}

fn pairs(own: &[Candidate], peer: &[Candidate], first: bool) -> Vec<String> {
    let pairs = pair_rails(own, peer, first).unwrap();
    pairs.iter().map(|pair| format!("{}-{}", pair.own.ip, pair.peer.ip)).collect()
}

#[test]
fn interfaces_of_two_ends_are_joined_by_subnet_each_once() {
    let near = end(1, &[(0, "10.0.0.1"), (1, "10.0.1.1"), (2, "10.0.5.1")]);
    // The other end numbers its rails in another order, and has a second address on one of them.
    let far = end(2, &[(0, "10.0.1.2"), (0, "10.0.7.2"), (1, "10.0.0.2")]);
    assert_eq!(pairs(&near, &far, true), ["10.0.0.1-10.0.0.2", "10.0.1.1-10.0.1.2"]);
    assert_eq!(pairs(&far, &near, false), ["10.0.1.2-10.0.1.1", "10.0.0.2-10.0.0.1"]);
    // Two interfaces in one subnet.
    let (near, far) = (end(1, &[(0, "10.0.0.1"), (1, "10.0.0.2")]), end(2, &[(0, "10.0.0.3"), (1, "10.0.0.4")]));
    assert_eq!(pairs(&near, &far, true), ["10.0.0.1-10.0.0.3", "10.0.0.2-10.0.0.4"]);
    assert_eq!(pairs(&far, &near, false), ["10.0.0.3-10.0.0.1", "10.0.0.4-10.0.0.2"]);
}

#[test]
fn a_routed_pair_is_used_only_if_there_is_no_better_and_rails_are_bounded() {
    let (near, far) = (end(1, &[(0, "10.0.0.1"), (1, "10.0.1.1")]), end(2, &[(0, "10.0.8.2"), (1, "10.0.9.2")]));
    assert_eq!(pairs(&near, &far, true).len(), 1);
    let near = end(1, &[(0, "10.0.0.1"), (1, "10.0.1.1")]);
    let far = end(2, &[(0, "10.0.8.2"), (1, "10.0.1.2")]);
    assert_eq!(pairs(&near, &far, true), ["10.0.1.1-10.0.1.2"]);
    let many = |host: u8| -> Vec<Candidate> {
        (0..8).flat_map(|rail| end(host.into(), &[(rail, &format!("10.0.{rail}.{host}"))])).collect()
    };
    assert_eq!(pairs(&many(1), &many(2), true).len(), RAILS_MAX);
}

#[test]
fn a_router_is_hoped_for_on_standby_where_a_common_subnet_may_be_private_to_each_host() {
    let standby = |own: &[Candidate], peer: &[Candidate], first: bool| {
        let pairs = pair_rails(own, peer, first).unwrap();
        standby_pair(&pairs, own, peer, first).map(|pair| format!("{}-{}", pair.own.ip, pair.peer.ip))
    };
    let near = end(1, &[(0, "10.0.0.1"), (1, "192.168.122.1")]);
    let far = end(2, &[(0, "192.168.122.2"), (1, "10.0.8.2")]);
    assert_eq!(pairs(&near, &far, true), ["192.168.122.1-192.168.122.2"]);
    assert_eq!(standby(&near, &far, true).as_deref(), Some("10.0.0.1-10.0.8.2"));
    assert_eq!(standby(&far, &near, false).as_deref(), Some("10.0.8.2-10.0.0.1"));
    // The only pair is a routed one; no interface is left; the addresses are equal.
    assert_eq!(standby(&near[..1], &far[1..], true), None);
    assert_eq!(standby(&near[1..], &far, true), None);
    assert_eq!(standby(&near, &end(2, &[(0, "192.168.122.2"), (1, "10.0.0.1")]), true), None);
}

#[test]
fn when_nothing_can_be_used_each_interface_is_named_with_its_reason() {
    let mut interfaces = host();
    interfaces[0].is_up = false;
    interfaces[1].is_up = false;
    interfaces[5].has_carrier = false;
    interfaces[6].has_carrier = false;
    interfaces[7].mtu = 300;
    interfaces.truncate(8);
    let error = offered(&interfaces, "").unwrap_err();
    let reasons =
        ["lo ::1: it is down", "docker0 172.17.0.1: it looks like a bridge", "eth0 10.0.0.5: it has no carrier"];
    for reason in reasons.iter().chain(&["eth0 fe80::5: its MTU of 300 bytes is too small"]) {
        assert!(error.contains(reason), "{error}");
    }
    let error = offered(&host(), "ib0").unwrap_err();
    assert!(error.contains("eth0 10.0.0.5: WEFT_INTERFACE does not name it"), "{error}");
    assert!(offered(&[], "").unwrap_err().contains("there are none"));
}

#[test]
fn the_packet_size_is_what_the_mtu_leaves() {
    let sizes = |ip: &str, mtu| {
        let interface = Interface { mtu, ..interface("eth0", ip, 24) };
        select(&[interface], &Selection::default(), 1).unwrap()[0].packet_size
    };
    assert_eq!(sizes("10.0.0.1", 1500), 1472);
    assert_eq!(sizes("fd00::1", 1500), 1452);
    assert_eq!(sizes("10.0.0.1", 9000), 8972);
    assert_eq!(usize::from(sizes("10.0.0.1", 65536)), PACKET_SIZE_MAX);
}

#[test]
fn cards_survive_the_round_trip() {
    let candidates = vec![at(9, "10.0.0.1", 24), at(9, "fd00::1", 64)];
    let endpoint_address = EndpointAddress { candidates, window_packets: 184 };
    let text = endpoint_address.encode();
    assert!(text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'.'), "{text}");
    let mut expected = endpoint_address.clone();
    expected.candidates.iter_mut().for_each(|candidate| candidate.interface = 0);
    assert_eq!(EndpointAddress::decode(&text).unwrap(), expected);
    let empty = EndpointAddress { candidates: Vec::new(), window_packets: 1 };
    assert_eq!(EndpointAddress::decode(&empty.encode()).unwrap(), empty);
}

#[test]
fn broken_cards_are_refused() {
    let text = EndpointAddress { candidates: vec![at(9, "10.0.0.1", 24)], window_packets: 184 }.encode();
    for cut in 0..text.len() {
        let whole = text.find('.').unwrap() + 1;
        // A text that is cut after the window is an endpoint address without addresses, and that is legal.
        let is_legal = cut > whole && !text[whole..cut].contains('.');
        assert_eq!(EndpointAddress::decode(&text[..cut]).is_ok(), is_legal, "{}", &text[..cut]);
    }
    let endpoint_addresses = |count| format!("00000009.b8{}", ".40a000001181b5805c01000000".repeat(count));
    assert!(EndpointAddress::decode(&endpoint_addresses(CANDIDATES_MAX)).is_ok());
    let too_many = endpoint_addresses(CANDIDATES_MAX + 1);
    for bad in ["", ".", "x", "00000009", "00000009.", "+0000009.b8", "00000009.b8.", "00000009.b8.5", &too_many] {
        assert!(EndpointAddress::decode(bad).is_err(), "{bad}");
    }
    let bad = [(33, 1472, 0), (24, 100, 0), (24, PACKET_SIZE_MAX + 1, 0), (24, 1472, CANDIDATES_MAX)];
    for (prefix, size, rail) in bad {
        assert!(
            EndpointAddress::decode(&format!("00000009.b8.40a000001{prefix:02x}0001{size:04x}{rail:x}000000")).is_err()
        );
    }
    assert!(EndpointAddress::decode("00000009.b8.é0a000001181b5805c0").is_err());
}

fn chosen(own: &[Candidate], peer: &[Candidate]) -> Result<String, String> {
    choose_peer_address(own, peer).map(|pair| format!("{} -> {}", pair.own.ip, pair.to))
}

#[test]
fn a_common_subnet_is_preferred_and_the_longest_most() {
    let own = [at(1, "192.168.7.1", 24), at(1, "10.1.0.1", 16), at(1, "10.9.0.1", 8)];
    let peer = [at(2, "192.168.8.2", 24), at(2, "10.1.0.2", 16)];
    assert_eq!(chosen(&own, &peer).unwrap(), "10.1.0.1 -> 10.1.0.2:7000");
}

#[test]
fn without_a_common_subnet_a_router_is_hoped_for() {
    assert_eq!(chosen(&[at(1, "10.0.0.1", 24)], &[at(2, "10.0.1.1", 24)]).unwrap(), "10.0.0.1 -> 10.0.1.1:7000");
}

#[test]
fn one_machine_is_reached_at_its_own_address() {
    let ranks = [at(1, "10.0.0.1", 24), at(1, "10.0.1.1", 24)];
    assert_eq!(chosen(&ranks, &ranks).unwrap(), "10.0.0.1 -> 10.0.0.1:7000");
    let alone = [at(1, "127.0.0.1", 8)];
    assert_eq!(chosen(&alone, &alone).unwrap(), "127.0.0.1 -> 127.0.0.1:7000");
}

#[test]
fn an_address_that_exists_on_both_hosts_is_not_used() {
    let own = [at(1, "192.168.122.1", 24), at(1, "10.0.0.1", 24)];
    let peer = [at(2, "192.168.122.1", 24), at(2, "10.0.0.2", 24)];
    assert_eq!(chosen(&own, &peer).unwrap(), "10.0.0.1 -> 10.0.0.2:7000");
    assert!(chosen(&own[..1], &peer[..1]).unwrap_err().contains("the same address"));
}

#[test]
fn what_cannot_work_is_explained() {
    let explain = |own: Candidate, peer: Candidate| chosen(&[own], &[peer]).unwrap_err();
    let error = explain(at(1, "10.0.0.1", 24), at(2, "fd00::1", 64));
    assert!(error.contains("IPv4 only") && error.contains("10.0.0.1/24") && error.contains("fd00::1/64"), "{error}");
    assert!(explain(at(1, "127.0.0.1", 8), at(2, "127.0.0.1", 8)).contains("different hosts"));
    assert!(explain(at(1, "127.0.0.1", 8), at(2, "10.0.0.1", 8)).contains("loopback"));
    assert!(chosen(&[], &[]).unwrap_err().contains("offers no address"));
}

#[test]
fn link_local_addresses_carry_their_own_interface() {
    let pair = choose_peer_address(&[at(1, "fe80::1", 64)], &[at(2, "fe80::2", 64)]).unwrap();
    assert!(matches!(pair.to, SocketAddr::V6(to) if to.scope_id() == 3));
}

#[test]
fn a_pair_uses_the_smaller_packet_size() {
    let jumbo = Candidate { packet_size: 8972, ..at(1, "10.0.0.1", 24) };
    assert_eq!(choose_peer_address(&[jumbo], &[at(2, "10.0.0.2", 24)]).unwrap().packet_size, 1472);
}
