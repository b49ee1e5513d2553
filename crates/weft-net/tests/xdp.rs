//! AF_XDP between two interfaces of a network namespace made for the test: a pair of virtual ones, `d0` and
//! `d1`.

mod support;

use std::process::Command;
use std::time::Instant;
use support::{LIMIT, PAIR, Role, can_unshare, listen, meet, receive, say, variable};
use weft_carrier_test::{Kit, Pair, check};
use weft_core::time::Duration;
use weft_net::carrier::{Address, Carrier, EthernetAddress, Outcome};
use weft_net::ethernet::Ethernet;
use weft_net::udp::Settings;
use weft_net::wait::{Interest, wait};
use weft_net::xdp::{Group, RING_FRAMES, Xdp, outlook};

/// Makes a role's namespace, after which `role` says a text that begins with `expected`. Skipped where AF_XDP
/// is not available.
fn run(preparation: &str, role: &str, expected: &str) {
    if !can_unshare() {
        return;
    }
    let mut role = Role::start_unshared("-n", preparation, role, &[]);
    let said = role.hear();
    match said.strip_prefix("skipped: ") {
        Some(why) => eprintln!("skipped: {why}"),
        None => assert_eq!(said, expected),
    }
    role.finish();
}

/// Returns whether this role can do its work; it says why not otherwise.
fn is_able() -> bool {
    let why = outlook(&open("d0")).err();
    if let Some(why) = &why {
        say(&format!("skipped: {why}"));
    }
    why.is_none()
}

fn open(interface: &str) -> Ethernet {
    Ethernet::open(&Settings { interfaces: Some(interface.into()), ..Settings::default() }, None, None).unwrap()
}

fn own(link: &Ethernet) -> EthernetAddress {
    link.endpoint_address().address
}

/// Opens `d1` by AF_XDP for a process alone.
fn alone() -> (Xdp, Address) {
    alone_on("d1")
}

fn alone_on(interface: &str) -> (Xdp, Address) {
    let link = open(interface);
    let address = own(&link);
    let link = Xdp::open(link, &Group::alone(address.port)).map_err(|refused| refused.why.unwrap()).unwrap();
    (link, address.into())
}

/// Returns whether a program is attached to `interface`.
fn has_program(interface: &str) -> bool {
    let shown = Command::new("ip").args(["-details", "link", "show", interface]).output().unwrap();
    String::from_utf8(shown.stdout).unwrap().contains("prog/xdp")
}

#[test]
fn it_keeps_what_carriers_promise() {
    run(PAIR, "role_keeps_promises", "groups: true");
}

#[test]
#[ignore = "a role"]
fn role_keeps_promises() {
    if !is_able() {
        return;
    }
    let pair = || {
        let (mut near, (mut far, there)) = (open("d0"), alone());
        meet(&mut near, &mut far, &there);
        let own = own(&near).into();
        Pair::new((near, own), (far, there))
    };
    let kept = check(Kit::new(pair, support::is_readable));
    assert!(kept.contains(&"whoever sleeps is woken"), "{kept:?}");
    let has = |what: &str| kept.iter().any(|promise| promise.starts_with(what));
    say(&format!("groups: {}", has("what is sent to a group")));
}

#[test]
fn packets_of_every_length_arrive_whole_and_in_order_and_those_too_long_for_a_chunk_too() {
    run(PAIR, "role_exchanges", "1494 by AF_XDP");
    run(&format!("{PAIR} && ip link set d0 mtu 9000 && ip link set d1 mtu 9000"), "role_exchanges", "1772 by AF_XDP");
}

#[test]
#[ignore = "a role"]
fn role_exchanges() {
    if !is_able() {
        return;
    }
    let (mut near, (mut far, to)) = (open("d0"), alone());
    meet(&mut near, &mut far, &to);
    let (size, mut longest) = (near.attributes().packet_size, 0);
    for len in [0, 1, 28, 39, 40, 41, 1000, 1494, 1772, 1773, 3000, size].into_iter().filter(|len| *len <= size) {
        let (packet, before) = ((0..len).map(|i| (i * 7) as u8).collect::<Vec<u8>>(), far.counters().packets_received);
        assert_eq!(near.send(&to, &packet).unwrap(), Outcome::Sent);
        assert_eq!(receive(&mut far, 1), [packet]);
        if far.counters().packets_received > before {
            longest = longest.max(len);
        }
    }
    // The packets go several times round the rings and the memory.
    for round in 0..40_u32 {
        let train: Vec<u8> = (0..100 * 200).map(|i: u32| (i + round) as u8).collect();
        assert_eq!(near.send_train(&to, &train, 200).unwrap(), train.len());
        assert_eq!(receive(&mut far, 100).concat(), train);
    }
    assert_eq!((far.losses(), far.counters().malformed), (0, 0));
    // The other way: packets leave through the packet socket.
    far.send(&own(&near).into(), b"an answer").unwrap();
    assert_eq!(receive(&mut near, 1), [b"an answer"]);
    say(&format!("{longest} by AF_XDP"));
}

#[test]
fn an_interface_whose_driver_takes_no_programs_has_the_generic_one() {
    let upper = "ip link add link d1 name m1 type macvlan && ip link set m1 up && ip addr add 10.78.0.3/24 dev m1";
    run(&format!("{PAIR} && {upper}"), "role_is_generic", "the driver of m1 takes no XDP program, by AF_XDP");
}

#[test]
#[ignore = "a role"]
fn role_is_generic() {
    if !is_able() {
        return;
    }
    let (mut near, (mut far, to)) = (open("d0"), alone_on("m1"));
    meet(&mut near, &mut far, &to);
    near.send(&to, b"hello").unwrap();
    assert_eq!(receive(&mut far, 1), [b"hello"]);
    let way = if far.counters().packets_received > 0 { "by AF_XDP" } else { "by the packet socket" };
    let warning = far.warning().unwrap();
    say(&format!("{}, {way}", warning.split(':').next().unwrap()));
}

#[test]
fn frames_of_all_queues_arrive() {
    let queues = "numrxqueues 2 numtxqueues 2";
    let pair = PAIR.replace("d0 type", &format!("d0 {queues} type")).replace("name d1", &format!("name d1 {queues}"));
    run(&pair, "role_has_queues", "2 queues, all arrive");
}

#[test]
#[ignore = "a role"]
fn role_has_queues() {
    if !is_able() {
        return;
    }
    let (mut near, (mut far, to)) = (open("d0"), alone());
    meet(&mut near, &mut far, &to);
    for round in 0..200_u32 {
        near.send(&to, &round.to_le_bytes()).unwrap();
        assert_eq!(receive(&mut far, 1), [round.to_le_bytes()]);
    }
    say(&format!("{} queues, all arrive", outlook(far.ethernet()).unwrap().queues));
}

#[test]
fn a_sleeper_wakes_by_either_way() {
    run(PAIR, "role_sleeps", "awake, awake");
}

#[test]
#[ignore = "a role"]
fn role_sleeps() {
    if !is_able() {
        return;
    }
    let (mut near, (mut far, to)) = (open("d0"), alone());
    meet(&mut near, &mut far, &to);
    let idle = wait(
        &[(far.attributes().descriptor.expect("something to sleep on"), Interest::Read)],
        Some(Duration::from_millis(20)),
    )
    .unwrap();
    assert!(idle.is_empty());
    let mut heard = Vec::new();
    for is_by_xdp in [true, false] {
        if !is_by_xdp {
            // Frames for another address of the interface pass the program.
            let changed =
                Command::new("ip").args(["link", "set", "d1", "address", "02:00:00:00:00:77"]).status().unwrap();
            assert!(changed.success());
        }
        let to = EthernetAddress {
            mac: if is_by_xdp { own(far.ethernet()).mac } else { [2, 0, 0, 0, 0, 0x77] },
            ..own(far.ethernet())
        };
        let sleeper = std::thread::spawn(move || {
            let ready = wait(
                &[(far.attributes().descriptor.expect("something to sleep on"), Interest::Read)],
                Some(Duration::from_secs(20)),
            )
            .unwrap();
            (far, ready.has(0))
        });
        std::thread::sleep(std::time::Duration::from_millis(30));
        near.send(&to.into(), b"wake up").unwrap();
        let is_awake;
        (far, is_awake) = sleeper.join().unwrap();
        let before = far.counters().packets_received;
        assert_eq!(receive(&mut far, 1), [b"wake up"]);
        assert_eq!(far.counters().packets_received > before, is_by_xdp);
        heard.push(if is_awake { "awake" } else { "asleep" });
    }
    say(&heard.join(", "));
}

#[test]
fn a_process_that_does_not_look_loses_only_its_own() {
    run(PAIR, "role_overflows", "both again");
}

/// Opens `d1` for two members of a group in one process.
fn two() -> [(Xdp, Address); 2] {
    let links = [open("d1"), open("d1")];
    let ports = links.each_ref().map(|link| own(link).port).to_vec();
    let members: Vec<_> = links.into_iter().enumerate().collect();
    let members = members.into_iter().map(|(member, link)| {
        let group = Group { key: "test".into(), member, ports: ports.clone() };
        std::thread::spawn(move || {
            let address = own(&link);
            (Xdp::open(link, &group).map_err(|refused| refused.why.unwrap()).unwrap(), address.into())
        })
    });
    let members: Vec<_> = members.collect();
    let members: Vec<_> = members.into_iter().map(|member| member.join().unwrap()).collect();
    members.try_into().ok().unwrap()
}

#[test]
#[ignore = "a role"]
fn role_overflows() {
    if !is_able() {
        return;
    }
    let (mut near, [(mut lazy, to_lazy), (mut far, to_far)]) = (open("d0"), two());
    meet(&mut near, &mut lazy, &to_lazy);
    meet(&mut near, &mut far, &to_far);
    for round in 0..5 * RING_FRAMES {
        near.send(&to_lazy, b"unheard").unwrap();
        near.send(&to_far, &round.to_le_bytes()).unwrap();
        assert_eq!(receive(&mut far, 1), [round.to_le_bytes()]);
    }
    assert_eq!(far.losses(), 0);
    assert_eq!(receive(&mut lazy, RING_FRAMES as usize).len(), RING_FRAMES as usize);
    assert_eq!(lazy.losses(), u64::from(4 * RING_FRAMES));
    meet(&mut near, &mut lazy, &to_lazy);
    meet(&mut near, &mut far, &to_far);
    say("both again");
}

#[test]
fn the_program_lasts_as_long_as_any_process_that_is_killed_or_not() {
    run(PAIR, "role_watches_members", "attached, attached, gone");
}

#[test]
#[ignore = "a role"]
fn role_watches_members() {
    if !is_able() {
        return;
    }
    let mut members: Vec<Role> =
        ["0", "1"].into_iter().map(|member| Role::start("role_is_a_member", &[("MEMBER", member)])).collect();
    let addresses: Vec<String> = members.iter_mut().map(Role::hear).collect();
    members.iter_mut().for_each(|member| member.tell(&addresses.join(" ")));
    members.iter_mut().for_each(|member| assert_eq!(member.hear(), "open"));
    let mut states = vec![if has_program("d1") { "attached" } else { "gone" }];
    let mut near = open("d0");
    let mac = Ethernet::endpoint_address(&open("d1")).address.mac;
    let mut greet = |number: usize, member: &mut Role| {
        let to = EthernetAddress { mac, port: addresses[number].parse().unwrap() };
        member.tell("receive");
        near.send(&to.into(), b"hello").unwrap();
        assert_eq!(member.hear(), "hello by AF_XDP");
    };
    members.iter_mut().enumerate().for_each(|(number, member)| greet(number, member));
    // The process that has made everything ends first.
    members[0].kill();
    greet(1, &mut members[1]);
    states.push(if has_program("d1") { "attached" } else { "gone" });
    members[1].kill();
    let deadline = Instant::now() + LIMIT / 3;
    while has_program("d1") {
        assert!(Instant::now() < deadline, "the program stays");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    states.push("gone");
    // The next process has the interface for itself, though the kernel takes a moment to free the queue.
    drop(alone());
    say(&states.join(", "));
}

#[test]
#[ignore = "a role"]
fn role_is_a_member() {
    let link = open("d1");
    say(&own(&link).port.to_string());
    let ports = listen().split(' ').map(|port| port.parse().unwrap()).collect();
    let group = Group { key: "test".into(), member: variable("MEMBER").parse().unwrap(), ports };
    let mut link = Xdp::open(link, &group).map_err(|refused| refused.why.unwrap()).unwrap();
    say("open");
    while listen() == "receive" {
        let packet = receive(&mut link, 1).concat();
        let way = if link.counters().packets_received > 0 { "AF_XDP" } else { "the packet socket" };
        say(&format!("{} by {way}", String::from_utf8(packet).unwrap()));
    }
}

#[test]
fn who_cannot_have_it_keeps_the_packet_socket_and_is_told_why() {
    run(
        PAIR,
        "role_is_refused",
        "AF_XDP cannot be used on d1: another XDP program is attached, perhaps of another job | \
         AF_XDP cannot be used on d0: it needs the privilege CAP_NET_RAW",
    );
}

#[test]
#[ignore = "a role"]
fn role_is_refused() {
    if !is_able() {
        return;
    }
    let (mut near, (_first, _)) = (open("d0"), alone());
    let refuse = |link: Ethernet| {
        let port = own(&link).port;
        let Err(refused) = Xdp::open(link, &Group::alone(port)) else { panic!("both have it") };
        (*refused.ethernet, refused.why.unwrap().to_string())
    };
    let (mut second, why) = refuse(open("d1"));
    let to = own(&second).into();
    meet(&mut near, &mut second, &to);
    // SAFETY: no memory is involved. Another user has no capabilities.
    assert_eq!(unsafe { libc::setuid(65_534) }, 0);
    let (mut near, other_why) = refuse(near);
    meet(&mut near, &mut second, &to);
    say(&format!("{why} | {other_why}"));
}
