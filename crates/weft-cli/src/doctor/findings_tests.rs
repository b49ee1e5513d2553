//! Tests of findings from made-up facts: the name that each must have, and that all but "ok" have a cure.

use super::pair::of_pair;
use super::*;
use crate::doctor::protocol::{BURST, MULTICAST, MULTICAST_OF_LINK, SHORT_BYTES};
use crate::info::library::Library;
use crate::info::machine::{Copying, Directory, Machine};

fn good() -> HostSeen {
    let machine = Machine {
        processors: 8,
        processors_usable: 8,
        shared_memory: Directory {
            path: "/dev/shm".into(),
            bytes: Some(8 << 30),
            bytes_free: Some(8 << 30),
            no_exec: false,
            writable: true,
        },
        single_copy: Copying { allowed: true, why: String::new(), ptrace_scope: Some(1) },
        ..Machine::default()
    };
    let library = Library { path: Some("/x".into()), found_by: String::new(), version: None, fault: None };
    let facts = Facts {
        machine,
        library: Some(library),
        capabilities: u64::MAX,
        user_namespaces: Some(1000),
        locked_bytes: (None, None),
        open_files: (Some(1024), Some(1 << 20)),
        receive_buffer_max: 8 << 20,
        clock_source: "tsc".into(),
        network: 1,
        own_name_milliseconds: Some(1),
        ..Facts::default()
    };
    let link = OpenedLink { name: "udp".into(), endpoint_address: Ok("card".into()), warnings: Vec::new() };
    HostSeen {
        name: "h0".into(),
        reached_seconds: 0.1,
        answer_milliseconds: 0.2,
        facts,
        links: vec![link],
        ..HostSeen::default()
    }
}

/// The names of the findings that are not "ok", each with its level; each must have a cure.
fn names(findings: &[Finding]) -> Vec<(Level, &'static str)> {
    for finding in findings.iter().filter(|finding| finding.level != Level::Ok) {
        assert!(!finding.what.is_empty() && !finding.cure.is_empty(), "{finding:?}");
    }
    findings.iter().filter(|finding| finding.level != Level::Ok).map(|finding| (finding.level, finding.name)).collect()
}

fn changed(change: impl Fn(&mut HostSeen)) -> Vec<(Level, &'static str)> {
    let mut seen = good();
    change(&mut seen);
    names(&of_host(&seen))
}

#[test]
fn a_good_host_has_nothing_but_ok() {
    assert_eq!(names(&of_host(&good())), []);
}

#[test]
fn each_thing_that_is_wrong_on_a_host_has_one_finding() {
    use Level::{Fault, Note, Warning};
    type Change = fn(&mut HostSeen);
    let cases: [(Change, Level, &str); 17] = [
        (|seen| seen.reached_seconds = 9.0, Note, "host-slow"),
        (|seen| seen.facts.library.as_mut().unwrap().fault = Some("old".into()), Warning, "library-differs"),
        (|seen| seen.facts.wrong_setting = Some("WEFT_ACK=late".into()), Fault, "setting-wrong"),
        (|seen| seen.links[0].endpoint_address = Err("e0 is down".into()), Fault, "link-unusable"),
        (|seen| seen.links[0].warnings = vec!["small".into()], Warning, "link-limited"),
        (|seen| seen.facts.machine.shared_memory.bytes_free = Some(1 << 20), Warning, "shm-small"),
        (|seen| seen.facts.machine.shared_memory.bytes = None, Warning, "shm-missing"),
        (|seen| seen.facts.machine.shared_memory.no_exec = true, Note, "shm-no-exec"),
        (|seen| seen.facts.machine.shared_memory.writable = false, Warning, "shm-not-writable"),
        (|seen| seen.facts.machine.single_copy.allowed = false, Warning, "single-copy-refused"),
        (|seen| seen.facts.machine.processors_usable = 2, Note, "processors-limited"),
        (|seen| seen.facts.locked_bytes.0 = Some(64 << 10), Note, "locked-memory-small"),
        (|seen| seen.facts.open_files.1 = Some(256), Warning, "open-files-few"),
        (|seen| seen.clock_ahead_seconds = -7.0, Warning, "clock-differs"),
        (|seen| seen.facts.clock_source = "hpet".into(), Warning, "clock-slow"),
        (|seen| seen.facts.own_name_milliseconds = None, Note, "own-name-unknown"),
        (|seen| seen.facts.firewall = firewall(), Note, "firewall-rules"),
    ];
    for (change, level, name) in cases {
        assert_eq!(changed(change), [(level, name)]);
    }
}

fn firewall() -> super::super::facts::Firewall {
    super::super::facts::Firewall { stopping: 2, example: "udp drop".into(), tool: "nft".into() }
}

#[test]
fn without_rights_there_are_notes_and_small_buffers_count() {
    let found = changed(|seen| {
        seen.facts.capabilities = 0;
        seen.facts.receive_buffer_max = 212_992;
    });
    let expected = ["socket-buffers-small", "no-raw-packets", "no-xdp-rights"].map(|name| (Level::Note, name));
    assert_eq!(found, expected);
    assert_eq!(changed(|seen| seen.facts.receive_buffer_max = 212_992), [], "CAP_NET_ADMIN may exceed the limit");
}

#[test]
fn a_clock_is_not_blamed_for_a_slow_answer() {
    assert_eq!(changed(|seen| (seen.clock_ahead_seconds, seen.answer_milliseconds) = (1.5, 4000.0)), []);
}

fn path(own: usize, peer: usize) -> LinkPath {
    let packet_bytes = own.min(peer);
    LinkPath { own: "10.0.0.1".into(), peer: "10.0.0.2:7000".into(), own_bytes: own, peer_bytes: peer, packet_bytes }
}

fn pair(change: impl Fn(&mut PairSeen)) -> Vec<(Level, &'static str)> {
    let mut seen = PairSeen {
        link: "udp".into(),
        from: "h0".into(),
        to: "h1".into(),
        path: Some(Ok(path(1472, 1472))),
        short_arrived: true,
        full_arrived: true,
        ..PairSeen::default()
    };
    change(&mut seen);
    names(&of_pair(&seen))
}

#[test]
fn each_way_in_which_packets_do_not_arrive_has_one_finding() {
    use Level::{Fault, Warning};
    assert_eq!(pair(|_| ()), []);
    assert_eq!(pair(|seen| seen.path = Some(Err("no common family".into()))), [(Fault, "no-path")]);
    assert_eq!(pair(|seen| seen.full_arrived = false), [(Warning, "full-size-lost")]);
    assert_eq!(pair(|seen| seen.path = Some(Ok(path(1472, 872)))), [(Warning, "mtu-differs")]);
    let lost = |unanswered: Option<Unanswered>, firewall: Option<&str>| {
        pair(|seen| {
            (seen.short_arrived, seen.full_arrived) = (false, false);
            (seen.unanswered, seen.firewall) = (unanswered, firewall.map(str::to_owned));
        })
    };
    assert_eq!(lost(Some(Unanswered::Refused), None), [(Fault, "packets-rejected")]);
    assert_eq!(lost(Some(Unanswered::Prohibited), None), [(Fault, "packets-prohibited")]);
    assert_eq!(lost(Some(Unanswered::NoRoute), None), [(Fault, "packets-no-route")]);
    assert_eq!(lost(Some(Unanswered::HostDown), None), [(Fault, "packets-lost")]);
    assert_eq!(lost(Some(Unanswered::Silence), None), [(Fault, "packets-lost")]);
    assert_eq!(lost(Some(Unanswered::Silence), Some("udp drop")), [(Fault, "packets-dropped")]);
    let refused = pair(|seen| {
        (seen.short_arrived, seen.full_arrived) = (false, false);
        seen.refused = vec![(SHORT_BYTES, "Operation not permitted".into())];
    });
    assert_eq!(refused, [(Fault, "packets-refused-here")]);
}

#[test]
fn a_link_that_fails_beside_one_that_works_is_a_warning() {
    let (from, to) = ("h0".to_owned(), "h1".to_owned());
    let lost = PairSeen { link: "udp".into(), from, to, path: Some(Ok(path(1472, 1472))), ..PairSeen::default() };
    let fine = PairSeen { link: "other".into(), short_arrived: true, full_arrived: true, ..lost.clone() };
    assert_eq!(names(&of_pairs(&[&lost])), [(Level::Fault, "packets-lost")]);
    assert_eq!(names(&of_pairs(&[&lost, &fine])), [(Level::Warning, "packets-lost")]);
    let beside = PairSeen { link: "tcp".into(), ..fine.clone() };
    let alone = of_pairs(&[&lost, &beside]);
    assert_eq!(names(&alone), [(Level::Fault, "packets-lost")]);
    assert!(alone[0].cure.contains("WEFT_LINK=shared,tcp"), "{alone:?}");
    let no_tcp = PairSeen { link: "tcp".into(), ..lost.clone() };
    let by_udp = PairSeen { link: "udp".into(), ..fine.clone() };
    assert_eq!(names(&of_pairs(&[&no_tcp, &by_udp]))[0], (Level::Warning, "packets-lost"));
    // The second pair of interfaces helps, and is not missed where the first one leads there.
    let second = |pair: &PairSeen| PairSeen { link: "udp on other interfaces".into(), ..pair.clone() };
    assert_eq!(names(&of_pairs(&[&lost, &second(&fine)]))[0], (Level::Warning, "packets-lost"));
    assert_eq!(names(&of_pairs(&[&second(&lost), &fine]))[0], (Level::Note, "packets-lost"));
    let none = PairSeen { path: Some(Err("one pair of interfaces leads there".into())), ..second(&lost) };
    assert_eq!(names(&of_pairs(&[&none, &fine])), []);
    let back = PairSeen { from: "h1".into(), to: "h0".into(), ..fine };
    assert_eq!(names(&of_pairs(&[&lost, &back])), [(Level::Fault, "packets-lost")]);
    let closed = OpenedLink { name: "other".into(), endpoint_address: Err("no right".into()), warnings: Vec::new() };
    assert_eq!(changed(|seen| seen.links.push(closed.clone())), [(Level::Warning, "link-unusable")]);
}

#[test]
fn the_largest_packet_that_arrives_gives_the_mtu_to_set() {
    let seen = PairSeen {
        link: "udp".into(),
        path: Some(Ok(path(1472, 1472))),
        short_arrived: true,
        largest_arrived: Some(872),
        ..PairSeen::default()
    };
    let finding = &of_pair(&seen)[0];
    assert!(finding.what.contains("872 bytes still arrive") && finding.cure.contains("mtu 900"), "{finding:?}");
}

fn address(interface: &str, address: &str, refused: Option<&str>) -> Address {
    let (interface, address) = (interface.to_owned(), address.to_owned());
    Address {
        interface,
        address,
        mtu: 1500,
        refused: refused.map(str::to_owned),
        segmentation: None,
        is_wireless: false,
    }
}

#[test]
fn hosts_are_compared_with_each_other() {
    let other = |change: fn(&mut HostSeen)| {
        let mut other = good();
        other.name = "h1".into();
        other.facts.network = 2;
        change(&mut other);
        names(&of_all(&[good(), other]))
    };
    assert_eq!(other(|_| ()), []);
    assert_eq!(
        other(|seen| seen.facts.addresses = vec![address("lo", "127.0.0.1/8", None)]),
        [(Level::Fault, "only-loopback")]
    );
    let usual = |seen: &mut HostSeen| {
        let refused = address("lo", "127.0.0.1/8", Some("there are others"));
        seen.facts.addresses = vec![refused, address("e0", "10.0.0.1/24", None)];
    };
    assert_eq!(other(usual), []);
    assert_eq!(other(|seen| seen.facts.user = 1000), [(Level::Warning, "user-differs")]);
    assert_eq!(other(|seen| seen.facts.network = 1), [(Level::Note, "same-machine")]);
    assert_eq!(of_all(&[good()]), []);
}

#[test]
fn what_keeps_multicast_away_is_named() {
    const FULL: usize = 1472;
    let names_of_hosts = ["h0".to_owned(), "h1".to_owned()];
    let all_of = |from: u16| {
        let one = |link: &str, bytes| Arrived { link: link.into(), from, bytes };
        let in_a_row = (1..=BURST).map(|more| one(MULTICAST, SHORT_BYTES + more));
        let others = [one(MULTICAST_OF_LINK, SHORT_BYTES), one(MULTICAST, SHORT_BYTES), one(MULTICAST, FULL)];
        in_a_row.chain(others).collect::<std::collections::BTreeSet<_>>()
    };
    let (mut h0, mut h1) = (good(), good());
    h1.name = "h1".into();
    (h0.multicast, h1.multicast) = (Ok(FULL), Ok(FULL));
    h0.arrived = all_of(1);
    h1.arrived = all_of(0);
    let all = of_multicast(&[h0.clone(), h1.clone()], &names_of_hosts);
    assert_eq!((all.len(), all[0].name, all[0].level), (1, "multicast", Level::Ok));
    let keeping = |keeps: &dyn Fn(&Arrived) -> bool| {
        let mut h1 = h1.clone();
        h1.arrived.retain(|one| keeps(one));
        let all = of_multicast(&[h0.clone(), h1], &names_of_hosts);
        assert!(
            all.iter().all(|one| one.subject == "h0" && one.what.contains("h1") && one.level == Level::Note),
            "{all:?}"
        );
        all.iter().map(|one| one.name).collect::<Vec<_>>()
    };
    assert_eq!(keeping(&|one| one.link == MULTICAST_OF_LINK), ["multicast-snooped"]);
    assert_eq!(keeping(&|_| false), ["multicast-lost"]);
    assert_eq!(keeping(&|one| one.bytes < 1000), ["multicast-full-size-lost"]);
    assert_eq!(keeping(&|one| one.bytes % 8 == 0), ["multicast-limited"]);
    // A single packet that the group hears shows that switches know of the group.
    assert_eq!(keeping(&|one| one.link == MULTICAST_OF_LINK || one.bytes == SHORT_BYTES + 3), ["multicast-limited"]);
    // A single lost packet is no limit.
    h1.arrived.retain(|one| one.bytes != SHORT_BYTES + 7);
    let all = of_multicast(&[h0.clone(), h1.clone()], &names_of_hosts);
    assert_eq!((all.len(), all[0].name, all[0].level), (1, "multicast", Level::Ok));
    let mut wireless = h0.clone();
    wireless.facts.addresses = vec![Address { is_wireless: true, ..address("w0", "10.0.0.1/24", None) }];
    let all = of_multicast(&[wireless, h1.clone()], &names_of_hosts);
    assert_eq!(names(&all), [(Level::Note, "multicast-wireless")]);
    h1.multicast = Err("no IPv4".into());
    assert_eq!(names(&of_multicast(&[h0, h1], &names_of_hosts)), [(Level::Note, "multicast-untried")]);
}

#[test]
fn a_host_that_cannot_be_talked_to_is_a_fault() {
    let all = [unreachable("h1", "`false` ended"), other_version("h1", "0.0.1", "0.1.0"), lost("h1", "it hung")];
    let expected = ["host-unreachable", "version-differs", "host-stopped-answering"].map(|name| (Level::Fault, name));
    assert_eq!(names(&all), expected);
}
