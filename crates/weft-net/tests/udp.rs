//! UDP on machines unlike this one: IPv6 only, loopback only, behind a firewall. Each is a network namespace.

mod support;

use std::time::Instant;
use support::{LIMIT, Role, can_unshare, say};
use weft_core::time::Duration;
use weft_net::carrier::{Address, Carrier, Outcome, receive_packets};
use weft_net::udp::{EndpointAddress, Settings, Udp, choose_peer_address};
use weft_net::wait::{Interest, wait};

fn in_namespace(preparation: &str, role: &str) -> Option<Role> {
    can_unshare().then(|| Role::start_unshared("-n", preparation, role, &[]))
}

#[test]
#[ignore = "a role"]
fn role_exchanges_with_a_neighbour() {
    let (mut near, mut far) = (Udp::bind(&Settings::default()).unwrap(), Udp::bind(&Settings::default()).unwrap());
    let endpoint_address = EndpointAddress::decode(&far.endpoint_address().encode()).unwrap();
    let pair = choose_peer_address(near.candidates(), &endpoint_address.candidates).unwrap();
    let packet = vec![5; pair.packet_size];
    let deadline = Instant::now() + LIMIT / 3;
    // The interfaces came up a moment ago, and a network may lose packets at any time: send again until the
    // packet arrives.
    while receive_packets(&mut far, &mut |bytes| assert_eq!(bytes, packet), 8) == 0 {
        assert_eq!(near.send(&pair.to.into(), &packet).unwrap(), Outcome::Sent);
        wait(
            &[(far.attributes().descriptor.expect("something to sleep on"), Interest::Read)],
            Some(Duration::from_millis(20)),
        )
        .unwrap();
        assert!(Instant::now() < deadline, "nothing arrives");
    }
    say(&format!("{} {}", pair.peer.ip, pair.packet_size));
}

#[test]
fn an_ipv6_only_host_uses_ipv6() {
    let preparation = "ip link set lo up && ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up \
                       && ip addr add fd99::7/64 dev d0 nodad";
    let Some(mut role) = in_namespace(preparation, "role_exchanges_with_a_neighbour") else { return };
    assert_eq!(role.hear(), "fd99::7 1452");
    role.finish();
}

#[test]
fn a_host_without_a_network_uses_loopback() {
    let Some(mut role) = in_namespace("ip link set lo up", "role_exchanges_with_a_neighbour") else { return };
    assert_eq!(role.hear(), "127.0.0.1 16384");
    role.finish();
}

#[test]
fn a_host_without_any_interface_is_told_why() {
    let Some(mut role) = in_namespace("true", "role_cannot_bind") else { return };
    let error = role.hear();
    assert!(error.contains("no network interface can be used"), "{error}");
    role.finish();
}

#[test]
fn an_interface_that_is_down_is_named() {
    let preparation = "ip link add d0 type veth peer name d1 && ip addr add 10.77.0.1/24 dev d0";
    let Some(mut role) = in_namespace(preparation, "role_cannot_bind") else { return };
    let error = role.hear();
    assert!(error.contains("d0 10.77.0.1: it is down"), "{error}");
    role.finish();
}

#[test]
#[ignore = "a role"]
fn role_cannot_bind() {
    say(&Udp::bind(&Settings::default()).err().unwrap().to_string());
}

#[test]
fn a_packet_larger_than_the_interface_is_too_large_not_fragmented() {
    let preparation = "ip link set lo up && ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up \
                       && ip addr add 10.77.0.1/24 dev d0 && ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev d0";
    let Some(mut role) = in_namespace(preparation, "role_sends_too_much") else { return };
    assert_eq!(role.hear(), "1472 Sent 1473 TooLarge");
    role.finish();
}

#[test]
#[ignore = "a role"]
fn role_sends_too_much() {
    let mut link = Udp::bind(&Settings::default()).unwrap();
    let size = link.attributes().packet_size;
    let to = Address::Udp("10.77.0.2:9".parse().unwrap());
    let [fits, larger] = [size, size + 1].map(|len| link.send(&to, &vec![1; len]).unwrap());
    assert_eq!(link.counters().too_large, 1);
    say(&format!("{size} {fits:?} {} {larger:?}", size + 1));
}

/// A message says that a path carries less than its ends. ICMP messages say so, and any host may forge them.
#[test]
fn what_is_said_of_a_path_neither_cuts_packets_nor_holds_them_back() {
    let preparation = "ip link set lo up && ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up \
                       && ip addr add 10.77.0.1/24 dev d0 && ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev d0 \
                       && ip route add 10.77.0.3/32 via 10.77.0.2 dev d0 mtu 600";
    let Some(mut role) = in_namespace(preparation, "role_hears_of_a_small_path") else { return };
    assert_eq!(role.hear(), "1472 Sent, 14720 of a train, 0 fragments");
    role.finish();
}

#[test]
#[ignore = "a role"]
fn role_hears_of_a_small_path() {
    let mut link = Udp::bind(&Settings::default()).unwrap();
    let narrow = Address::Udp("10.77.0.3:9".parse().unwrap());
    let size = link.attributes().packet_size;
    let outcome = link.send(&narrow, &vec![1; size]).unwrap();
    let taken = link.send_train(&narrow, &vec![1; 10 * size], size).unwrap();
    say(&format!("{size} {outcome:?}, {taken} of a train, {} fragments", fragmented_packets()));
}

/// Returns the packets that this network namespace has fragmented: `FragOKs`.
fn fragmented_packets() -> u64 {
    let table = std::fs::read_to_string("/proc/net/snmp").unwrap();
    let mut lines = table.lines().filter(|line| line.starts_with("Ip:")).map(str::split_whitespace);
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.zip(values);
    both.find(|(name, _)| *name == "FragOKs").unwrap().1.parse().unwrap()
}

/// The interface itself carries less from now on, and more again later.
#[test]
fn a_smaller_interface_refuses_what_is_too_large_and_trains_leave_as_before() {
    let preparation = "ip link set lo up && ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up \
                       && ip addr add 10.77.0.1/24 dev d0 && ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev d0";
    let Some(mut role) = in_namespace(preparation, "role_becomes_smaller") else { return };
    assert_eq!(role.hear(), "Sent; TooLarge TooLarge, 1300 Sent, trains 1; Sent, trains 2");
    role.finish();
}

#[test]
#[ignore = "a role"]
fn role_becomes_smaller() {
    let mut link = Udp::bind(&Settings::default()).unwrap();
    let to = Address::Udp("10.77.0.2:9".parse().unwrap());
    let set = |mtu: &str| {
        let done = std::process::Command::new("ip").args(["link", "set", "d0", "mtu", mtu]).status().unwrap();
        assert!(done.success());
    };
    let full = vec![1; 1472];
    let first = link.send(&to, &full).unwrap();
    set("1400");
    let refused = [0; 2].map(|_| link.send(&to, &full).unwrap());
    // More trains than may be refused before the link makes no more.
    (0..20).for_each(|_| assert_eq!(link.send_train(&to, &vec![1; 4 * 1472], 1472).unwrap(), 4 * 1472));
    let fits = link.send(&to, &full[..1300]).unwrap();
    link.send_train(&to, &vec![1; 4 * 1300], 1300).unwrap();
    let trains = link.counters().trains_sent;
    set("1500");
    let again = link.send(&to, &full).unwrap();
    link.send_train(&to, &vec![1; 4 * 1472], 1472).unwrap();
    let [one, two] = refused;
    say(&format!(
        "{first:?}; {one:?} {two:?}, 1300 {fits:?}, trains {trains}; {again:?}, trains {}",
        link.counters().trains_sent
    ));
}

/// No route, and routes that refuse as a firewall does: each answer is about this packet and this moment.
#[test]
fn what_the_machine_refuses_is_loss_not_an_error() {
    let preparation = "ip link set lo up && ip route add prohibit 10.1.2.4/32 && ip route add blackhole 10.1.2.5/32 \
                       && ip route add unreachable 10.1.2.6/32";
    let Some(mut role) = in_namespace(preparation, "role_is_refused") else { return };
    assert_eq!(role.hear(), "4 dropped, then Sent");
    role.finish();
}

#[test]
#[ignore = "a role"]
fn role_is_refused() {
    let mut link = Udp::bind(&Settings::default()).unwrap();
    for host in 3..=6 {
        let to = Address::Udp(([10, 1, 2, host], 9).into());
        assert_eq!(link.send(&to, &[1]).unwrap(), Outcome::Dropped, "{to}");
        assert!(link.diagnostics().last_refusal.is_some());
    }
    let to = choose_peer_address(link.candidates(), link.candidates()).unwrap().to.into();
    let outcome = link.send(&to, &[1]).unwrap();
    say(&format!("{} dropped, then {outcome:?}", link.counters().dropped));
}
