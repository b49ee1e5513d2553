//! The ways of messages: the protocol and the carrier of a message of each size to each kind of peer, with
//! the reasons; and the costs of the protocols.
//!
//! The answers come from the rows that every rank asks for its messages (`weft_mpi::engine::protocols`), so
//! this module has no thresholds of its own.

use serde::Serialize;
use weft_mpi::engine::protocols::{
    Choices, CostModel, PeerClass, Protocol, ROWS, Range, Receiver, RouteClass, Situation, eager_limit, offers,
};
use weft_mpi::engine::{CREDIT_BYTES, CREDIT_PER_MESSAGE, Candidate, EAGER_WRITE_BYTES_MIN, HEAD_MAX, RUN_PACKETS};
use weft_mpi::settings::Settings;
use weft_net::shared;

use super::links::{Addresses, Link, Written};
use super::machine::Machine;

/// The links for the traffic that raw frames do not carry, and their names in sentences.
const BULK: [(&str, &str); 4] = [("udp", "UDP"), ("fabric", "libfabric"), ("verbs", "the RDMA device"), ("tcp", "TCP")];
/// The number of ranks of this host for which rings are described: with more ranks rings may be smaller.
const RANKS: usize = 2;

/// The facts of this host on which the choice depends.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    /// The value of `WEFT_EAGER_LIMIT`; None where the route decides.
    eager_limit: Option<u64>,
    /// The costs of moving bytes.
    costs: CostModel,
    /// The payload of the largest frame of a ring, bytes; None where ranks of this host share no memory.
    frame_max: Option<u64>,
    /// Says whether ranks of this host copy directly from each other's memory.
    single_copy: bool,
    /// The links to other hosts.
    network: Network,
    packet_size: usize,
}

/// The links to other hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    /// Says whether raw frames lead there.
    raw: bool,
    /// The other link that leads there.
    bulk: Option<Bulk>,
    /// The messages that TCP may write to their receivers' memory beside that link.
    beside: Option<Written>,
}

/// The link for the traffic that raw frames do not carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bulk {
    name: &'static str,
    written: Option<Written>,
}

impl Network {
    /// The messages that the link writes to their receivers' memory. With raw frames beside the link it
    /// writes none.
    fn written(self) -> Option<Written> {
        self.bulk.filter(|_| !self.raw)?.written
    }
}

impl Here {
    pub(crate) fn of(
        settings: &Settings,
        costs: CostModel,
        machine: &Machine,
        links: &[Link],
        addresses: &Addresses,
    ) -> Here {
        let used = |name: &str| links.iter().find(|link| link.used && link.name == name);
        let uses = |name: &str| used(name).is_some();
        let bulk = |(link, name)| used(link).map(|link| Bulk { name, written: link.written });
        let beside = used("udp").and(used("tcp")).and_then(|tcp| tcp.written);
        let wanted = shared::Settings { directory: settings.shm_dir.clone(), ..shared::Settings::default() };
        let memory = shared::memory(RANKS, &wanted).filter(|_| uses("shared"));
        Here {
            eager_limit: settings.eager_limit,
            costs,
            frame_max: memory.map(|memory| (memory.frame_max - HEAD_MAX) as u64),
            single_copy: settings.single_copy && machine.single_copy.allowed,
            network: Network { raw: uses("ethernet") || uses("xdp"), bulk: BULK.into_iter().find_map(bulk), beside },
            packet_size: addresses.packet_size,
        }
    }
}

/// A peer, the situations in which messages travel in the same way, and that way.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Journey {
    pub(crate) peer: &'static str,
    pub(crate) situations: Vec<&'static str>,
    /// The sizes in ascending order, without gaps.
    pub(crate) sizes: Vec<Stretch>,
}

/// Sizes of messages that travel in one way.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Stretch {
    pub(crate) bytes_min: u64,
    /// The largest size; None if there is no limit.
    pub(crate) bytes_max: Option<u64>,
    pub(crate) protocol: &'static str,
    /// The name of the protocol's row.
    pub(crate) row: &'static str,
    pub(crate) carrier: String,
    pub(crate) reason: String,
}

const MYSELF: &str = "to itself";
const NODE: &str = "to this host";
const HOST: &str = "to other hosts";

/// The protocols, and the costs and sizes that decide between them.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Protocols {
    /// The source of the costs.
    pub(crate) origin: String,
    pub(crate) costs: Vec<CostRow>,
    pub(crate) rows: Vec<ProtocolRow>,
    pub(crate) thresholds: Thresholds,
}

/// A cost of the model.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct CostRow {
    pub(crate) name: &'static str,
    pub(crate) picoseconds: u64,
    pub(crate) meaning: &'static str,
}

/// A protocol.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct ProtocolRow {
    pub(crate) name: &'static str,
    pub(crate) when: &'static str,
    /// The costs, each with the situations in which it counts.
    pub(crate) costs: Vec<ProtocolCost>,
}

/// The cost of a protocol in some of the situations in which it is possible.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct ProtocolCost {
    pub(crate) fixed_ps: u64,
    pub(crate) per_byte_ps: u64,
    pub(crate) peer: &'static str,
    pub(crate) situations: Vec<&'static str>,
}

/// The sizes that follow from the costs, in bytes; None: no message is that large.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Thresholds {
    /// The largest message that is sent eagerly, where no other limit is set.
    pub(crate) eager_limit: u64,
    /// The smallest message that the kernel copies between processes.
    pub(crate) single_copy_bytes_min: Option<u64>,
    /// The smallest message of which both sides copy a part.
    pub(crate) cooperative_bytes_min: Option<u64>,
}

/// The protocols as ranks of this host choose them, by costs that come from `origin`.
pub(crate) fn protocols(here: &Here, origin: String) -> Protocols {
    let meanings = CostModel::MEANINGS.iter().zip(here.costs.values());
    let costs = meanings.map(|((name, meaning), picoseconds)| CostRow { name, picoseconds, meaning });
    let bounded = |bytes: u64| (bytes != u64::MAX).then_some(bytes);
    let rows = ROWS.iter().map(|row| {
        let mut costs: Vec<ProtocolCost> = Vec::new();
        for known in &SITUATIONS {
            let class = class(here, known);
            let offers = offers(&class, &situation(known, true), &here.costs);
            let Some((_, offer)) = offers.into_iter().find(|(one, _)| one.protocol == row.protocol) else { continue };
            let (fixed_ps, per_byte_ps, peer) = (offer.cost.fixed_ps, offer.cost.per_byte_ps, known.peer);
            let same =
                costs.iter_mut().find(|one| (one.fixed_ps, one.per_byte_ps, one.peer) == (fixed_ps, per_byte_ps, peer));
            match same {
                Some(same) => same.situations.push(known.name),
                None => costs.push(ProtocolCost { fixed_ps, per_byte_ps, peer, situations: vec![known.name] }),
            }
        }
        ProtocolRow { name: row.name, when: row.when, costs }
    });
    Protocols {
        origin,
        costs: costs.collect(),
        rows: rows.collect(),
        thresholds: Thresholds {
            eager_limit: here.costs.eager_limit(),
            single_copy_bytes_min: bounded(here.costs.single_copy_bytes_min()),
            cooperative_bytes_min: bounded(here.costs.cooperative_bytes_min()),
        },
    }
}

/// The knowledge of the sender when a message is sent.
#[derive(Clone, Copy)]
struct Known {
    peer: &'static str,
    name: &'static str,
    is_blocking: bool,
    receiver: Receiver,
    /// Says whether the processors of both sides share a cache.
    is_near: bool,
    /// Says whether many bytes of earlier messages are on their way over the network, or the message belongs
    /// to a window of messages to this host.
    is_path_busy: bool,
}

/// The knowledge of a sender that knows nothing and does not wait.
const UNKNOWN: Known = Known {
    peer: NODE,
    name: "nothing is known of the receiver",
    is_blocking: false,
    receiver: Receiver::UNKNOWN,
    is_near: true,
    is_path_busy: false,
};
const WAITS: Receiver = Receiver { posted: Candidate::Awaited, is_inside: true, has_announced: false };
const COMPUTES: Receiver = Receiver { posted: Candidate::Posted, is_inside: false, has_announced: false };

/// The situations that are shown.
const SITUATIONS: [Known; 10] = [
    Known { peer: MYSELF, name: "MPI_Send", is_blocking: true, ..UNKNOWN },
    Known { peer: MYSELF, name: "MPI_Isend", ..UNKNOWN },
    Known {
        name: "MPI_Send, the receiver waits inside MPI, on a processor that shares a cache",
        is_blocking: true,
        receiver: WAITS,
        ..UNKNOWN
    },
    Known {
        name: "MPI_Send, the receiver waits inside MPI, on a processor that shares none",
        is_blocking: true,
        receiver: WAITS,
        is_near: false,
        ..UNKNOWN
    },
    Known { name: "MPI_Isend, the receive is posted, the receiver computes", receiver: COMPUTES, ..UNKNOWN },
    Known { name: "MPI_Isend, nothing is known of the receiver", ..UNKNOWN },
    Known { name: "MPI_Isend in a window of messages", is_path_busy: true, receiver: COMPUTES, ..UNKNOWN },
    Known { peer: HOST, name: "MPI_Send, whatever the receiver does", is_blocking: true, ..UNKNOWN },
    Known { peer: HOST, name: "MPI_Isend, whatever the receiver does", ..UNKNOWN },
    Known { peer: HOST, name: "MPI_Isend behind many bytes that are on their way", is_path_busy: true, ..UNKNOWN },
];

/// The ways of messages in standard mode with their data in one run of memory.
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

/// The ways of messages of each size in one situation.
fn stretches(here: &Here, situation: &Known) -> Vec<Stretch> {
    let class = class(here, situation);
    if class.route == RouteClass::Network && here.network == (Network { raw: false, bulk: None, beside: None }) {
        let (carrier, reason) = ("none".into(), "no link leads there".into());
        return vec![Stretch { bytes_min: 0, bytes_max: None, protocol: "not at all", row: "none", carrier, reason }];
    }
    let mut found: Vec<Stretch> = Vec::new();
    let mut bytes_min = 0;
    for Range { bytes_max, protocol, reason } in split(here, &class, ranges(here, situation, &class)) {
        let carrier = match class.route {
            RouteClass::Myself => by_itself(protocol).to_owned(),
            RouteClass::Ring { .. } => on_node(protocol, situation).to_owned(),
            RouteClass::Network => over_network(here, protocol, bytes_min),
        };
        let stretch = Stretch {
            bytes_min,
            bytes_max: (bytes_max != u64::MAX).then_some(bytes_max),
            protocol: name(protocol),
            row: ROWS.iter().find(|row| row.protocol == protocol).map_or("none", |row| row.name),
            carrier,
            reason: reason.to_string(),
        };
        bytes_min = bytes_max.saturating_add(1);
        match found.last_mut() {
            Some(last) if last.travels_as(&stretch) => last.bytes_max = stretch.bytes_max,
            _ => found.push(stretch),
        }
    }
    found
}

impl Stretch {
    fn travels_as(&self, other: &Self) -> bool {
        (self.row, &self.carrier, &self.reason) == (other.row, &other.carrier, &other.reason)
    }
}

/// The class of the peers in this situation.
fn class(here: &Here, situation: &Known) -> PeerClass {
    let (route, placed_above) = match (situation.peer, here.frame_max) {
        (MYSELF, _) => (RouteClass::Myself, None),
        (NODE, Some(frame_max)) => {
            let Known { is_near, .. } = *situation;
            (RouteClass::Ring { frame_max, is_near, is_copied: here.single_copy }, None)
        }
        // Without shared memory, ranks of this host are reached as ranks of other hosts are.
        _ => (RouteClass::Network, here.network.written().map(|written| written.eager_max)),
    };
    PeerClass { route, eager_limit: eager_limit(here.eager_limit, &here.costs, placed_above.unwrap_or(u64::MAX)) }
}

/// The situation of a message in standard mode whose data is one run of memory, to a receiver that
/// `has_credit` for it.
fn situation(known: &Known, has_credit: bool) -> Situation {
    Situation {
        is_synchronous: false,
        is_blocking: known.is_blocking,
        is_contiguous: true,
        has_credit,
        is_path_busy: known.is_path_busy,
        is_exchanged: false,
        receiver: known.receiver,
        write_failed: false,
    }
}

/// The ways of messages of each size to a receiver that holds no unconsumed message: the sender has all its
/// credit then.
fn ranges(here: &Here, known: &Known, class: &PeerClass) -> Vec<Range> {
    const CREDIT_MAX: u64 = CREDIT_BYTES - CREDIT_PER_MESSAGE;
    let mut choices = Choices::new(here.costs);
    let mut found: Vec<Range> = Vec::new();
    for range in choices.ranges(class, &situation(known, true)) {
        found.push(Range { bytes_max: range.bytes_max.min(CREDIT_MAX), ..*range });
        if range.bytes_max >= CREDIT_MAX {
            break;
        }
    }
    let without = choices.ranges(class, &situation(known, false));
    found.extend(without.iter().filter(|range| range.bytes_max > CREDIT_MAX));
    found
}

/// Splits the ranges where a carrier begins to write messages by itself.
fn split(here: &Here, class: &PeerClass, ranges: Vec<Range>) -> Vec<Range> {
    let written = here.network.written().or(here.network.beside).filter(|_| class.route == RouteClass::Network);
    let Some(end) = written.and_then(|written| written.bytes_min.checked_sub(1)) else { return ranges };
    let mut least = 0;
    let mut all = Vec::new();
    for range in ranges {
        if (least..range.bytes_max).contains(&end) {
            all.push(Range { bytes_max: end, ..range });
        }
        all.push(range);
        least = range.bytes_max.saturating_add(1);
    }
    all
}

fn name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Eager | Protocol::Pipeline => "eager",
        Protocol::WriteToPosted => "written to its receive",
        Protocol::Fetch | Protocol::Cooperate | Protocol::ClearToSend => "announced",
    }
}

fn by_itself(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Eager => "memory of this process",
        _ => "one copy within this process",
    }
}

fn on_node(protocol: Protocol, known: &Known) -> &'static str {
    match protocol {
        Protocol::Eager | Protocol::Pipeline => "shared ring",
        Protocol::WriteToPosted => "single copy by the kernel, made by the sender",
        Protocol::Cooperate => "single copy by the kernel, a part by each side",
        Protocol::Fetch => "single copy by the kernel, made by the receiver",
        Protocol::ClearToSend if known.is_blocking => "shared ring, both sides copying at the same time",
        Protocol::ClearToSend => "shared ring",
    }
}

fn over_network(here: &Here, protocol: Protocol, bytes: u64) -> String {
    let is_beside = here.network.beside.is_some_and(|written| bytes >= written.bytes_min);
    if is_beside && protocol == Protocol::ClearToSend {
        let packets = by_packets(here, protocol, bytes);
        return format!("{packets}, or written to where it belongs by TCP, whichever has been quicker");
    }
    if here.network.beside.is_some() && protocol == Protocol::Eager && bytes >= EAGER_WRITE_BYTES_MIN {
        let packets = by_packets(here, protocol, bytes);
        return format!("{packets}; TCP, from {EAGER_WRITE_BYTES_MIN} bytes on if it is alone");
    }
    by_packets(here, protocol, bytes)
}

fn by_packets(here: &Here, protocol: Protocol, bytes: u64) -> String {
    let is_written = here.network.written().is_some_and(|written| bytes >= written.bytes_min);
    match (here.network.raw, here.network.bulk, protocol) {
        (false, None, _) => "none".into(),
        (true, None, _) => "raw frames".into(),
        (false, Some(Bulk { name, .. }), Protocol::ClearToSend) if is_written => {
            format!("written to where it belongs by {name}")
        }
        (false, Some(Bulk { name, .. }), _) => name.into(),
        (true, Some(Bulk { name, .. }), Protocol::Eager | Protocol::Pipeline) => {
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
        costs: CostModel::BUILT_IN,
        frame_max: Some(300_000),
        single_copy: true,
        network: Network { raw: true, bulk: Some(Bulk { name: "UDP", written: None }), beside: None },
        packet_size: 1472,
    };

    /// The last size of each stretch, and its protocol, in the situation whose name contains `situation`.
    fn limits(here: &Here, peer: &str, situation: &str) -> Vec<(Option<u64>, &'static str)> {
        let all = journeys(here);
        let mut found =
            all.iter().filter(|one| one.peer == peer && one.situations.iter().any(|name| name.contains(situation)));
        let journey = found.next().expect("the situation is shown");
        assert!(found.next().is_none(), "{situation} names several");
        journey.sizes.iter().map(|size| (size.bytes_max, size.protocol)).collect()
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
        let here = Here { network: Network { raw: false, bulk: None, beside: None }, ..HERE };
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
            Network { raw, bulk: bulk.map(|(_, name)| Bulk { name, written: None }), beside: None }
        };
        assert!(carriers(network(false, "udp")).iter().all(|carrier| carrier == "UDP"));
        assert!(carriers(network(true, "")).iter().all(|carrier| carrier == "raw frames"));
        let both = carriers(network(true, "udp"));
        assert!(both.iter().all(|carrier| carrier.contains("raw frame") && carrier.contains("UDP")));
        assert!(carriers(network(false, "fabric")).iter().all(|carrier| carrier == "libfabric"));
    }

    /// A device writes messages from 16000 bytes on, and those above 20000 instead of packets.
    ///
    /// Expect: the page says so, unless the user has set another limit, or raw frames lead there as well.
    #[test]
    fn what_an_rdma_device_writes_is_said_with_the_size_from_which_on() {
        let written = Some(Written { bytes_min: 16_000, eager_max: 20_000 });
        let network = Network { raw: false, bulk: Some(Bulk { name: "the RDMA device", written }), beside: None };
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
