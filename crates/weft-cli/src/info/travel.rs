//! How messages travel: by which protocol and which carrier a message of each size goes to each kind of peer, and why. The answers are
//! those of the function that every rank asks for each message (`weft_mpi::engine::protocols`), so no threshold stands here.

use serde::Serialize;
use weft_mpi::engine::protocols::{Facts, Protocol, Receiver, RouteFacts, choose, eager_limit};
use weft_mpi::engine::{CREDIT_BYTES, CREDIT_PER_MESSAGE, HEAD_MAX, RUN_PACKETS, Wish};
use weft_mpi::settings::Settings;
use weft_net::shared;

use super::links::{Addresses, Link, Written};
use super::machine::Machine;

/// Sizes are looked at up to two to the power of this.
const BYTES_LOG_MAX: u32 = 40;
/// The links that carry what raw frames do not, and their names in sentences.
const BULK: [(&str, &str); 3] = [("udp", "UDP"), ("fabric", "libfabric"), ("verbs", "the RDMA device")];
/// Ranks of this host for which rings are meant: with more they may be smaller.
const RANKS: usize = 2;

/// What the choice depends on, here.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    /// What `WEFT_EAGER_LIMIT` says; none where it leaves that to the route.
    eager_limit: Option<u64>,
    /// Payload of the largest frame of a ring, bytes; none where ranks of this host share no memory.
    frame_max: Option<u64>,
    /// Whether ranks of this host copy directly from each other's memory.
    single_copy: bool,
    /// What leads to other hosts.
    network: Network,
    packet_size: usize,
}

/// What leads to other hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    /// Raw frames do.
    raw: bool,
    /// What else does.
    bulk: Option<Bulk>,
}

/// What carries what raw frames do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bulk {
    name: &'static str,
    written: Option<Written>,
}

impl Network {
    /// What its carrier writes to where it belongs; where there are raw frames beside it, that is left alone.
    fn written(self) -> Option<Written> {
        self.bulk.filter(|_| !self.raw)?.written
    }
}

impl Here {
    pub(crate) fn of(settings: &Settings, machine: &Machine, links: &[Link], addresses: &Addresses) -> Here {
        let used = |name: &str| links.iter().find(|link| link.used && link.name == name);
        let uses = |name: &str| used(name).is_some();
        let bulk = |(link, name)| used(link).map(|link| Bulk { name, written: link.written });
        let wanted = shared::Settings { directory: settings.shm_dir.clone(), ..shared::Settings::default() };
        let memory = shared::memory(RANKS, &wanted).filter(|_| uses("shared"));
        Here {
            eager_limit: settings.eager_limit,
            frame_max: memory.map(|memory| (memory.frame_max - HEAD_MAX) as u64),
            single_copy: settings.single_copy && machine.single_copy.allowed,
            network: Network { raw: uses("ethernet") || uses("xdp"), bulk: BULK.into_iter().find_map(bulk) },
            packet_size: addresses.packet_size,
        }
    }
}

/// A peer, situations in which the same happens, and what happens.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Journey {
    pub(crate) peer: &'static str,
    pub(crate) situations: Vec<&'static str>,
    /// In order of size, without gaps.
    pub(crate) sizes: Vec<Stretch>,
}

/// Sizes of messages that travel in one way.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Stretch {
    pub(crate) bytes_min: u64,
    /// None: there is no limit.
    pub(crate) bytes_max: Option<u64>,
    pub(crate) protocol: &'static str,
    pub(crate) carrier: String,
    pub(crate) reason: String,
}

const MYSELF: &str = "to itself";
const NODE: &str = "to this host";
const HOST: &str = "to other hosts";

/// What is known when a message is sent.
#[derive(Clone, Copy)]
struct Situation {
    peer: &'static str,
    name: &'static str,
    is_blocking: bool,
    receiver: Receiver,
    /// The processors of both sides share a cache.
    is_near: bool,
    /// Bytes of earlier messages that are on their way over the network.
    queued: usize,
}

/// Nothing is known, and nobody waits.
const UNKNOWN: Situation = Situation {
    peer: NODE,
    name: "nothing is known of the receiver",
    is_blocking: false,
    receiver: Receiver::UNKNOWN,
    is_near: true,
    queued: 0,
};
const WAITS: Receiver = Receiver { posted: Wish::Awaited, is_inside: true, has_announced: false };
const COMPUTES: Receiver = Receiver { posted: Wish::Posted, is_inside: false, has_announced: false };

/// All that are shown.
const SITUATIONS: [Situation; 9] = [
    Situation { peer: MYSELF, name: "MPI_Send", is_blocking: true, ..UNKNOWN },
    Situation { peer: MYSELF, name: "MPI_Isend", ..UNKNOWN },
    Situation {
        name: "MPI_Send, the receiver waits inside MPI, on a processor that shares a cache",
        is_blocking: true,
        receiver: WAITS,
        ..UNKNOWN
    },
    Situation {
        name: "MPI_Send, the receiver waits inside MPI, on a processor that shares none",
        is_blocking: true,
        receiver: WAITS,
        is_near: false,
        ..UNKNOWN
    },
    Situation { name: "MPI_Isend, the receive is posted, the receiver computes", receiver: COMPUTES, ..UNKNOWN },
    Situation { name: "MPI_Isend, nothing is known of the receiver", ..UNKNOWN },
    Situation { peer: HOST, name: "MPI_Send, whatever the receiver does", is_blocking: true, ..UNKNOWN },
    Situation { peer: HOST, name: "MPI_Isend, whatever the receiver does", ..UNKNOWN },
    Situation { peer: HOST, name: "MPI_Isend behind many bytes that are on their way", queued: usize::MAX, ..UNKNOWN },
];

/// How messages travel, those in standard mode with their data in one run of memory.
pub(crate) fn journeys(here: &Here) -> Vec<Journey> {
    let mut journeys: Vec<Journey> = Vec::new();
    for situation in &SITUATIONS {
        let sizes = stretches(here, situation);
        match journeys.iter_mut().find(|known| known.peer == situation.peer && known.sizes == sizes) {
            Some(known) => known.situations.push(situation.name),
            None => journeys.push(Journey { peer: situation.peer, situations: vec![situation.name], sizes }),
        }
    }
    journeys
}

/// What happens to messages of each size.
fn stretches(here: &Here, situation: &Situation) -> Vec<Stretch> {
    let mut probes: Vec<u64> = (0..=BYTES_LOG_MAX).map(|log| 1 << log).collect();
    probes.extend(here.eager_limit.into_iter().flat_map(|limit| [limit, limit + 1]));
    probes.extend(here.network.written().into_iter().flat_map(|written| [written.eager_max, written.bytes_min]));
    probes.sort_unstable();
    let found = changes(&probes, |bytes| travel(here, situation, bytes));
    let ends = found.iter().skip(1).map(|(start, _)| Some(start - 1)).chain([None]);
    let stretch = |((bytes_min, (protocol, carrier, reason)), bytes_max): (&(u64, Travel), Option<u64>)| Stretch {
        bytes_min: *bytes_min,
        bytes_max,
        protocol,
        carrier: carrier.clone(),
        reason: reason.clone(),
    };
    found.iter().zip(ends).map(stretch).collect()
}

/// From which size on the answer is which, from 0 on. Between two of the probes, which are in order, with one answer it is taken to be
/// the same; between two others the exact place is looked for.
fn changes<T: PartialEq>(probes: &[u64], answer: impl Fn(u64) -> T) -> Vec<(u64, T)> {
    let mut before = 0;
    let (mut start, mut current) = (0, answer(0));
    let mut found = Vec::new();
    for &probe in probes {
        while answer(probe) != current {
            let (mut same, mut other) = (before, probe);
            while other - same > 1 {
                let middle = same + (other - same) / 2;
                if answer(middle) == current { same = middle } else { other = middle }
            }
            found.push((start, std::mem::replace(&mut current, answer(other))));
            (start, before) = (other, other);
        }
        before = probe;
    }
    found.push((start, current));
    found
}

/// Protocol, carrier and reason, in words.
type Travel = (&'static str, String, String);

/// How one message travels.
fn travel(here: &Here, situation: &Situation, bytes: u64) -> Travel {
    let Situation { peer, is_blocking, mut receiver, is_near, queued, .. } = *situation;
    let route = match (peer, here.frame_max) {
        (MYSELF, _) => RouteFacts::Myself,
        (NODE, Some(frame_max)) => RouteFacts::Ring { frame_max, is_near },
        // Without shared memory ranks of this host are reached as those of others.
        _ => RouteFacts::Network { queued },
    };
    match route {
        // Boards of posted receives are looked at only where their memory may be written.
        RouteFacts::Ring { .. } if !here.single_copy => receiver.posted = Wish::None,
        RouteFacts::Ring { .. } => {}
        _ => receiver = Receiver::UNKNOWN,
    }
    let is_network = matches!(route, RouteFacts::Network { .. });
    if is_network && here.network == (Network { raw: false, bulk: None }) {
        return ("not at all", "none".into(), "no link leads there".into());
    }
    let placed_above = here.network.written().filter(|_| is_network).map_or(u64::MAX, |written| written.eager_max);
    let (protocol, reason) = choose(&Facts {
        bytes,
        is_synchronous: false,
        is_blocking,
        is_contiguous: true,
        eager_limit: eager_limit(here.eager_limit, placed_above),
        has_credit: bytes + CREDIT_PER_MESSAGE <= CREDIT_BYTES,
        route,
        receiver,
        write_failed: false,
    });
    let name = match protocol {
        Protocol::Eager => "eager",
        Protocol::WriteToPosted => "written to its receive",
        Protocol::Announce { .. } => "announced",
    };
    let carrier = match route {
        RouteFacts::Myself => by_itself(protocol).to_owned(),
        RouteFacts::Ring { .. } => on_node(protocol, here.single_copy).to_owned(),
        RouteFacts::Network { .. } => over_network(here, protocol, bytes),
    };
    (name, carrier, reason.to_string())
}

fn by_itself(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Eager => "memory of this process",
        Protocol::WriteToPosted | Protocol::Announce { .. } => "one copy within this process",
    }
}

fn on_node(protocol: Protocol, single_copy: bool) -> &'static str {
    match protocol {
        Protocol::Eager => "shared ring",
        Protocol::WriteToPosted => "single copy by the kernel, made by the sender",
        Protocol::Announce { with_address: true, is_cooperative: true } if single_copy => {
            "single copy by the kernel, a part by each side"
        }
        Protocol::Announce { with_address: true, is_cooperative: false } if single_copy => {
            "single copy by the kernel, made by the receiver"
        }
        Protocol::Announce { is_cooperative: true, .. } => "shared ring, both sides copying at the same time",
        Protocol::Announce { is_cooperative: false, .. } => "shared ring",
    }
}

fn over_network(here: &Here, protocol: Protocol, bytes: u64) -> String {
    let is_written = here.network.written().is_some_and(|written| bytes >= written.bytes_min);
    match (here.network.raw, here.network.bulk, protocol) {
        (false, None, _) => "none".into(),
        (true, None, _) => "raw frames".into(),
        (false, Some(Bulk { name, .. }), Protocol::Announce { .. }) if is_written => {
            format!("written to where it belongs by {name}")
        }
        (false, Some(Bulk { name, .. }), _) => name.into(),
        (true, Some(Bulk { name, .. }), Protocol::Eager) => {
            format!("raw frames; {name}, if it fills more than {RUN_PACKETS} packets of {} bytes", here.packet_size)
        }
        (true, Some(Bulk { name, .. }), _) => format!("its announcement in a raw frame, its data by {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Here = Here {
        eager_limit: None,
        frame_max: Some(300_000),
        single_copy: true,
        network: Network { raw: true, bulk: Some(Bulk { name: "UDP", written: None }) },
        packet_size: 1472,
    };

    /// The last size of each stretch, and its protocol, in the situation with this in its name.
    fn limits(here: &Here, peer: &str, situation: &str) -> Vec<(Option<u64>, &'static str)> {
        let all = journeys(here);
        let mut found =
            all.iter().filter(|one| one.peer == peer && one.situations.iter().any(|name| name.contains(situation)));
        let journey = found.next().expect("the situation is shown");
        assert!(found.next().is_none(), "{situation} names several");
        journey.sizes.iter().map(|size| (size.bytes_max, size.protocol)).collect()
    }

    #[test]
    fn changes_are_found_at_the_byte_where_they_are() {
        let probes: Vec<u64> = (0..20).map(|log| 1 << log).collect();
        let steps = |bytes: u64| [3, 4, 1000, 5000, 5001].iter().filter(|limit| bytes >= **limit).count();
        let starts: Vec<u64> = changes(&probes, steps).iter().map(|(start, _)| *start).collect();
        assert_eq!(starts, [0, 3, 4, 1000, 5000, 5001]);
        assert_eq!(changes(&probes, |_| 7), [(0, 7)]);
    }

    #[test]
    fn sizes_have_no_gaps_and_neighbours_differ() {
        for eager_limit in [0, 1, 4095, 65_536, 262_144] {
            for (frame_max, single_copy) in
                [(Some(300_000), true), (Some(5_000), true), (Some(300_000), false), (None, true)]
            {
                let here = Here { eager_limit: Some(eager_limit), frame_max, single_copy, ..HERE };
                for Journey { sizes, .. } in journeys(&here) {
                    assert_eq!((sizes[0].bytes_min, sizes.last().unwrap().bytes_max), (0, None));
                    for pair in sizes.windows(2) {
                        assert_eq!(pair[0].bytes_max.map(|most| most + 1), Some(pair[1].bytes_min));
                        let said = |one: &Stretch| (one.protocol, one.carrier.clone(), one.reason.clone());
                        assert_ne!(said(&pair[0]), said(&pair[1]));
                    }
                }
            }
        }
    }

    #[test]
    fn the_eager_limit_is_where_the_setting_says() {
        for eager_limit in [0, 5_000, 65_536, 200_000] {
            let here = Here { eager_limit: Some(eager_limit), ..HERE };
            for (peer, situation) in [(MYSELF, "MPI_Isend"), (NODE, "nothing is known"), (HOST, "MPI_Isend, whatever")]
            {
                assert_eq!(limits(&here, peer, situation)[0], (Some(eager_limit), "eager"), "{peer}");
            }
        }
    }

    #[test]
    fn a_receive_that_is_posted_is_written_where_memory_may_be() {
        let written = limits(&HERE, NODE, "computes");
        assert_eq!(written, [(Some(16_383), "eager"), (None, "written to its receive")]);
        let here = Here { single_copy: false, ..HERE };
        assert_eq!(limits(&here, NODE, "computes"), [(Some(65_536), "eager"), (None, "announced")]);
        let carriers: Vec<String> =
            journeys(&here).iter().flat_map(|one| &one.sizes).map(|one| one.carrier.clone()).collect();
        assert!(!carriers.iter().any(|carrier| carrier.contains("kernel")), "{carriers:?}");
    }

    #[test]
    fn who_waits_copies_at_the_same_time_for_longer_where_a_cache_is_shared() {
        let longest = |situation| {
            let limits = limits(&HERE, NODE, situation);
            limits.iter().filter(|(_, protocol)| *protocol == "eager").filter_map(|(most, _)| *most).max()
        };
        assert_eq!((longest("shares a cache"), longest("shares none")), (Some(512 << 10), Some(128 << 10)));
    }

    #[test]
    fn without_shared_memory_this_host_is_like_another_and_without_links_nothing_leads_there() {
        let here = Here { frame_max: None, ..HERE };
        let of =
            |here: &Here, peer| journeys(here).into_iter().filter(|one| one.peer == peer).map(|one| one.sizes).next();
        assert_eq!(of(&here, NODE), of(&here, HOST));
        let here = Here { network: Network { raw: false, bulk: None }, ..HERE };
        assert_eq!(limits(&here, HOST, "MPI_Send"), [(None, "not at all")]);
        assert!(limits(&here, NODE, "computes").len() > 1);
    }

    #[test]
    fn each_carrier_of_the_network_is_named_where_it_is_used() {
        let carriers = |network| {
            let all = journeys(&Here { network, ..HERE });
            let sizes = all.into_iter().filter(|one| one.peer == HOST).flat_map(|one| one.sizes);
            sizes.map(|one| one.carrier).collect::<Vec<String>>()
        };
        let network = |raw, names: &str| {
            let bulk = BULK.into_iter().find(|(link, _)| *link == names);
            Network { raw, bulk: bulk.map(|(_, name)| Bulk { name, written: None }) }
        };
        assert!(carriers(network(false, "udp")).iter().all(|carrier| carrier == "UDP"));
        assert!(carriers(network(true, "")).iter().all(|carrier| carrier == "raw frames"));
        let both = carriers(network(true, "udp"));
        assert!(both.iter().all(|carrier| carrier.contains("raw frame") && carrier.contains("UDP")));
        assert!(carriers(network(false, "fabric")).iter().all(|carrier| carrier == "libfabric"));
    }

    /// A device that writes messages from 16000 bytes on, and those that are longer than 20000 rather than packets.   Expect: the page says so,
    /// unless the user has said another limit, or raw frames lead there as well.
    #[test]
    fn what_an_rdma_device_writes_is_said_with_the_size_from_which_on() {
        let written = Some(Written { bytes_min: 16_000, eager_max: 20_000 });
        let network = Network { raw: false, bulk: Some(Bulk { name: "the RDMA device", written }) };
        let device = Here { network, ..HERE };
        let sizes = |here: &Here| {
            let all = journeys(here);
            let found = all.into_iter().find(|one| one.situations.iter().any(|name| name.contains("whatever")));
            found.unwrap().sizes.into_iter().map(|size| (size.bytes_max, size.carrier)).collect::<Vec<_>>()
        };
        let (packets, writes) =
            ("the RDMA device".to_owned(), "written to where it belongs by the RDMA device".to_owned());
        assert_eq!(sizes(&device), [(Some(20_000), packets.clone()), (None, writes.clone())]);
        let said = Here { eager_limit: Some(200), ..device.clone() };
        let expected = [(Some(200), packets.clone()), (Some(15_999), packets), (None, writes)];
        assert_eq!(sizes(&said), expected);
        let beside_frames = Here { network: Network { raw: true, ..network }, ..HERE };
        assert_eq!(limits(&beside_frames, HOST, "MPI_Isend, whatever")[0], (Some(65_536), "eager"));
    }
}
