//! Raw frames between two interfaces of a network namespace made for the test: a pair of virtual ones, `d0`
//! and `d1`.

mod support;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::time::Instant;
use support::{LIMIT, PAIR, Role, can_unshare, receive, say};
use weft_carrier_test::{Kit, Pair, check};
use weft_core::time::Duration;
use weft_net::carrier::{Address, Carrier, Outcome, receive_packets};
use weft_net::ethernet::{EndpointAddress, Ethernet};
use weft_net::udp::Settings;
use weft_net::wait::{Interest, wait};

const ETHER_TYPE: u16 = 0x88b5;
/// Bytes that every frame of Weft has behind the EtherType.
const MAGIC: [u8; 2] = *b"Wf";

fn run(preparation: &str, role: &str, expected: &str) {
    if !can_unshare() {
        return;
    }
    let mut role = Role::start_unshared("-n", preparation, role, &[]);
    assert_eq!(role.hear(), expected);
    role.finish();
}

fn open(interface: &str) -> Ethernet {
    Ethernet::open(&Settings { interfaces: Some(interface.into()), ..Settings::default() }, None, None).unwrap()
}

fn to(link: &Ethernet) -> Address {
    Address::Ethernet(EndpointAddress::decode(&link.endpoint_address().encode()).unwrap().address)
}

fn meet(near: &mut Ethernet, far: &mut Ethernet) {
    let to = to(far);
    support::meet(near, far, &to);
}

#[test]
fn it_keeps_what_carriers_promise() {
    run(PAIR, "role_keeps_promises", "memory: false, groups: true");
}

#[test]
#[ignore = "a role"]
fn role_keeps_promises() {
    let pair = || {
        let [mut near, mut far] = [open("d0"), open("d1")];
        meet(&mut near, &mut far);
        let (own, there) = (to(&near), to(&far));
        Pair::new((near, own), (far, there))
    };
    let kept = check(Kit::new(pair, support::is_readable));
    assert!(kept.contains(&"whoever sleeps is woken"), "{kept:?}");
    let has = |what: &str| kept.iter().any(|promise| promise.starts_with(what));
    say(&format!("memory: {}, groups: {}", has("memory"), has("what is sent to a group")));
}

#[test]
fn packets_of_every_length_arrive_whole_and_in_order() {
    run(PAIR, "role_exchanges", "1494");
    run(&format!("{PAIR} && ip link set d0 mtu 9000 && ip link set d1 mtu 9000"), "role_exchanges", "8994");
}

#[test]
#[ignore = "a role"]
fn role_exchanges() {
    let (mut near, mut far) = (open("d0"), open("d1"));
    meet(&mut near, &mut far);
    let size = near.attributes().packet_size;
    // Frames below 40 bytes are those that Ethernet would pad.
    for len in [0, 1, 28, 39, 40, 41, 1000, size] {
        let packet: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        assert_eq!(near.send(&to(&far), &packet).unwrap(), Outcome::Sent);
        assert_eq!(receive(&mut far, 1), [packet]);
    }
    assert_eq!(near.send(&to(&far), &vec![0; size + 1]).unwrap(), Outcome::TooLarge);
    // Several times round the ring.
    for round in 0..40_u32 {
        let train: Vec<u8> = (0..100 * 200).map(|i: u32| (i + round) as u8).collect();
        assert_eq!(near.send_train(&to(&far), &train, 200).unwrap(), train.len());
        assert_eq!(receive(&mut far, 100).concat(), train);
    }
    assert_eq!((far.take_losses(), far.counters().malformed), (0, 0));
    say(&size.to_string());
}

#[test]
fn a_process_gets_only_its_own_frames() {
    run(PAIR, "role_shares_an_interface", "1 0 1, and none of its own");
}

#[test]
#[ignore = "a role"]
fn role_shares_an_interface() {
    let (mut near, mut far, mut other) = (open("d0"), open("d1"), open("d1"));
    meet(&mut near, &mut far);
    near.send(&to(&far), b"for you").unwrap();
    let first = receive(&mut far, 1).len();
    let others = receive_packets(&mut other, &mut |_| (), 8);
    near.send(&to(&other), b"for the other").unwrap();
    let second = receive(&mut other, 1).len();
    assert_eq!(receive_packets(&mut far, &mut |_| (), 8) + receive_packets(&mut near, &mut |_| (), 8), 0);
    // A frame to a neighbour on the same interface leaves by the wire and does not come back.
    far.send(&to(&other), b"to oneself").unwrap();
    wait(
        &[(other.attributes().descriptor.expect("something to sleep on"), Interest::Read)],
        Some(Duration::from_millis(20)),
    )
    .unwrap();
    assert_eq!(receive_packets(&mut other, &mut |_| (), 8), 0);
    say(&format!("{first} {others} {second}, and none of its own"));
}

/// A sender of whole frames on `d0`, whatever bytes they have.
struct Stranger(OwnedFd);

impl Stranger {
    fn new() -> Self {
        // SAFETY: no memory is involved; the descriptor is new and becomes ours.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)) };
        // SAFETY: a sockaddr_ll of zeros is valid.
        let mut name: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        name.sll_family = libc::AF_PACKET as u16;
        // SAFETY: the name is a terminated string.
        name.sll_ifindex = unsafe { libc::if_nametoindex(c"d0".as_ptr()) } as i32;
        let size = size_of_val(&name) as u32;
        // SAFETY: the name is a sockaddr_ll and the size says so.
        assert_eq!(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&name).cast(), size) }, 0);
        Self(fd)
    }

    fn send(&self, destination: [u8; 6], body: &[u8]) {
        let mut frame = [&destination[..], &[2, 0, 0, 0, 0, 9], &ETHER_TYPE.to_be_bytes()].concat();
        frame.extend_from_slice(body);
        // SAFETY: the bytes are read only.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize);
    }
}

#[test]
fn foreign_and_broken_frames_are_counted_or_never_seen() {
    run(PAIR, "role_is_bothered", "2000 malformed, 1 packet");
}

#[test]
#[ignore = "a role"]
fn role_is_bothered() {
    let (mut near, mut far) = (open("d0"), open("d1"));
    meet(&mut near, &mut far);
    let before = far.counters().malformed;
    let (stranger, Address::Ethernet(own)) = (Stranger::new(), to(&far)) else { unreachable!() };
    let port = own.port.to_be_bytes();
    let says = |magic: [u8; 2], port: [u8; 2], length: u16, rest: usize| {
        [&magic[..], &port, &length.to_be_bytes(), &vec![0xab; rest]].concat()
    };
    let mut heard = 0;
    for round in 0..1000_u16 {
        // Frames of other experiments, for other processes, for all hosts, for another host: the filter keeps
        // them away.
        stranger.send(own.mac, &says([round as u8, 1], port, 10, 100));
        stranger.send(own.mac, &says(MAGIC, [port[0], port[1] ^ 1], 10, 100));
        stranger.send([0xff; 6], &says(MAGIC, port, 10, 100));
        stranger.send([2, 9, 9, 9, 9, 9], &says(MAGIC, port, 10, 100));
        stranger.send(own.mac, &[]);
        // Cut short, in the packet and in the header.
        stranger.send(own.mac, &says(MAGIC, port, 200 + round, 100));
        stranger.send(own.mac, &[MAGIC, port].concat());
        receive_packets(&mut far, &mut |_| heard += 1, 64);
    }
    near.send(&to(&far), b"a packet").unwrap();
    let deadline = Instant::now() + LIMIT / 3;
    while heard == 0 {
        receive_packets(&mut far, &mut |packet| heard += usize::from(packet == b"a packet"), 64);
        assert!(Instant::now() < deadline);
    }
    say(&format!("{} malformed, {heard} packet", far.counters().malformed - before));
}

#[test]
fn an_interface_that_goes_down_loses_packets_and_comes_back() {
    run(PAIR, "role_loses_its_interface", "Dropped, quiet, back");
}

#[test]
#[ignore = "a role"]
fn role_loses_its_interface() {
    let set = |state| assert!(Command::new("ip").args(["link", "set", "d0", state]).status().unwrap().success());
    let (mut near, mut far) = (open("d0"), open("d1"));
    meet(&mut near, &mut far);
    set("down");
    let outcome = near.send(&to(&far), b"lost").unwrap();
    // The socket holds an error, which makes it readable: looking takes it, so a sleeper sleeps again.
    (0..1000).for_each(|_| assert_eq!(receive_packets(&mut near, &mut |_| (), 8), 0));
    let ready = wait(
        &[(near.attributes().descriptor.expect("something to sleep on"), Interest::Read)],
        Some(Duration::from_millis(5)),
    )
    .unwrap();
    assert!(ready.is_empty() && near.counters().errors > 0);
    set("up");
    meet(&mut near, &mut far);
    say(&format!("{outcome:?}, quiet, back"));
}

#[test]
fn without_the_privilege_the_sentence_says_which_is_missing() {
    if !can_unshare() {
        return;
    }
    let mut role = Role::start_unshared("-n", PAIR, "role_has_no_privilege", &[]);
    let error = role.hear();
    assert!(
        error.contains("raw frames on d") && error.contains("CAP_NET_RAW") && error.contains("weft-netd"),
        "{error}"
    );
    role.finish();
}

#[test]
#[ignore = "a role"]
fn role_has_no_privilege() {
    // SAFETY: no memory is involved. Another user has no capabilities.
    assert_eq!(unsafe { libc::setuid(65_534) }, 0);
    say(&Ethernet::open(&Settings::default(), None, None).err().unwrap().to_string());
}
