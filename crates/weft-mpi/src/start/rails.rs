//! The route to a peer on another node: the pairs of interfaces, and the packets on each. `start.rs` asks for
//! a route to each peer.

use weft_core::flow::Settings as FlowSettings;
use weft_core::path_validation::Ends;
use weft_core::rails::{RAILS_MAX, RailCarrier, Role};
use weft_core::time::Duration;
use weft_net::carrier::{Address, Carrier, CarrierAttributes, Placement};
use weft_net::fabric::Fabric;
use weft_net::tcp::{LONG_PACKET_BYTES, Tcp};
use weft_net::udp::{self, Pair};
use weft_net::verbs::VerbsRails;

use super::links::{Bulk, Opened};
use crate::business_card::BusinessCard;
use crate::engine::{CarrierId, CarrierPath, Remote, Route};
use crate::job::Link;
use crate::settings::Settings;

/// The fewest packets that may be on their way to a peer, however many peers share the receive buffer.
const WINDOW_MIN: u32 = 4;
/// The number of times in each `WEFT_PEER_TIMEOUT` at which a waiting process asks a quiet peer whether it
/// lives.
const ASKED_PER_TIMEOUT: u64 = 8;
/// The factor by which a rail may be slower than the fastest and still decide on the size of packets. A
/// slower rail carries what the others do not.
const MUCH_SLOWER: u32 = 8;
/// The longest delay of acknowledgements where ranks take turns on processors. An acknowledgement that leaves
/// by itself costs a turn at each end. A message that it could travel with comes when the other ranks have
/// had their turns.
const ACK_DELAY_OF_TURNS: Duration = Duration::from_micros(500);

/// A carrier that both ends have.
struct Found {
    carrier: RailCarrier,
    carrier_path: CarrierPath,
    packet_size: usize,
    window_packets: u32,
    /// Packets must fit it.
    decides: bool,
    /// Delivers every packet once and in order.
    ordered: bool,
    /// Writes to memory of the peer by itself.
    placement: Option<Placement>,
}

/// The longest delay of acknowledgements, the same at both ends. `take_turns`: ranks take turns on processors
/// at either end.
pub(super) fn ack_delay(settings: &Settings, take_turns: bool) -> Duration {
    let default = if take_turns { ACK_DELAY_OF_TURNS } else { FlowSettings::default().ack_delay };
    settings.ack_delay.unwrap_or(default)
}

/// The route to a peer. `own` and `peer` are the cards of the two ends, `ranks` their ranks.
pub(super) fn remote(
    (settings, ack_delay): (&Settings, Duration),
    size: u32,
    (own, peer): (&BusinessCard, &BusinessCard),
    links: &mut Opened,
    ranks: (u32, u32),
) -> Route {
    // One end is the first, and the other one is not.
    let first = ranks.0 < ranks.1;
    let bulk = links.bulk_id();
    let found = match &mut links.bulk {
        Some(Bulk::Fabric(endpoints)) => by_fabric((own, peer), (endpoints, &links.candidates), bulk, first),
        Some(Bulk::Verbs(devices)) => by_verbs((own, peer), devices, bulk, ranks),
        Some(Bulk::Tcp(tcp)) => by_tcp((own, peer), tcp, bulk, first),
        Some(Bulk::Udp(_)) | None => match own.addresses.as_ref().and(peer.addresses.as_ref()) {
            Some(addresses) => udp::pair_rails(&links.candidates, &addresses.candidates, first).map(|pairs| {
                let standby = udp::standby_pair(&pairs, &links.candidates, &addresses.candidates, first);
                let mut found = on_rails(own, peer, &pairs, bulk);
                found.extend(standby.and_then(|pair| on_standby((own, peer), &pair, pairs.len() as u8, bulk)));
                found
            }),
            None => Ok(Vec::new()),
        },
    };
    let (mut found, refusal) = match found {
        Ok(found) => (found, None),
        Err(reason) => (raw_only(own, peer), Some(reason)),
    };
    let route = route(&mut found, refusal, (settings, ack_delay), size);
    match (route, writes((own, peer), links, first)) {
        (Route::Remote(remote), Some((carrier_path, placement))) => {
            let remote = remote.with_remote_memory(carrier_path, placement);
            Route::Remote(Box::new(remote.with_long_path(LONG_PACKET_BYTES, settings.long_path)))
        }
        (route, _) => route,
    }
}

/// The route to a peer of another job: UDP, and raw frames where both ends have them. `size` is the number of
/// processes of both jobs, and `first` is true at exactly one end.
pub(super) fn between_jobs(
    (settings, ack_delay): (&Settings, Duration),
    size: u32,
    (own, peer): (&BusinessCard, &BusinessCard),
    link: &Link,
    first: bool,
) -> Route {
    let theirs = peer.addresses.as_ref().map_or(&[][..], |addresses| &addresses.candidates);
    let found = udp::pair_rails(&link.candidates, theirs, first).map(|pairs| on_rails(own, peer, &pairs, link.carrier));
    let (mut found, refusal) = match found {
        Ok(found) => (found, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    route(&mut found, refusal, (settings, ack_delay), size)
}

/// The route to a peer of another job on this node: the carrier, and the address of the peer there.
pub(super) fn by_shared_memory(
    settings: &Settings,
    (carrier, to): (CarrierId, Address),
    attributes: &CarrierAttributes,
) -> Route {
    let ends = Ends { own: 0, peer: 0 };
    let rail_carrier = RailCarrier { role: Role::BulkData, rail: 0, ends, standby: false };
    // Nothing leaves the node, and so nothing is sealed. The system says who has ended: nobody who is stopped
    // is taken for dead.
    let flow = FlowSettings {
        packet_size: attributes.packet_size,
        peer_timeout: Duration::default(),
        keepalive: Duration::default(),
        ack_scheme: settings.ack,
        sealed: false,
        ..FlowSettings::default()
    };
    Route::Remote(Box::new(Remote::connected(rail_carrier, CarrierPath { carrier, to }, None, flow)))
}

/// The route on these carriers. `refusal` says why there are none.
fn route(
    found: &mut Vec<Found>,
    refusal: Option<String>,
    (settings, ack_delay): (&Settings, Duration),
    size: u32,
) -> Route {
    // Packets fit every carrier. Both ends get the same numbers, and all peers together cannot overrun a
    // receive buffer.
    let packet_size = found.iter().filter(|carrier| carrier.decides).map(|carrier| carrier.packet_size).min();
    // A raw frame cannot be split on its way.
    found.retain(|one| one.carrier.role == Role::BulkData || packet_size.is_none_or(|size| one.packet_size >= size));
    let (Some(packet_size), Some(window)) = (packet_size, found.iter().map(|carrier| carrier.window_packets).min())
    else {
        return Route::None(
            refusal.unwrap_or_else(|| "no link leads there: WEFT_LINK allows none that does".to_owned()),
        );
    };
    let share = window / (size - 1).max(1);
    let defaults = FlowSettings::default();
    let flow = FlowSettings {
        packet_size,
        window_packets: share.clamp(WINDOW_MIN, defaults.window_packets),
        ack_scheme: settings.ack,
        ack_delay,
        peer_timeout: settings.peer_timeout,
        keepalive: Duration(settings.peer_timeout.0 / ASKED_PER_TIMEOUT),
        sealed: settings.sealed,
        ..defaults
    };
    let carriers: Vec<(RailCarrier, CarrierPath)> = found.iter().map(|one| (one.carrier, one.carrier_path)).collect();
    let remote = match &found[..] {
        [one] if one.ordered => Remote::connected(one.carrier, one.carrier_path, one.placement, flow),
        _ => Remote::new(&carriers, flow),
    };
    Route::Remote(Box::new(remote))
}

/// The carrier that only writes, and its way to the peer, where both ends have it.
fn writes(
    (own, peer): (&BusinessCard, &BusinessCard),
    links: &mut Opened,
    first: bool,
) -> Option<(CarrierPath, Placement)> {
    let carrier = links.writer_id();
    let (tcp, there) = (links.writer.as_mut()?, peer.tcp.as_ref().filter(|_| own.tcp.is_some())?);
    let pairs = udp::pair_rails(tcp.candidates(), &there.candidates, first).ok()?;
    let to = tcp.address_of(pairs.first()?.to, there.token);
    Some((CarrierPath { carrier, to }, tcp.attributes().remote_memory?))
}

/// The carriers on these pairs of interfaces.
fn on_rails(own: &BusinessCard, peer: &BusinessCard, pairs: &[Pair], bulk: CarrierId) -> Vec<Found> {
    let best = pairs.iter().map(Pair::speed).max().unwrap_or(0);
    let mut found = Vec::new();
    for (pair, rail) in pairs.iter().zip(0..) {
        let decides = decides(pair, best);
        found.extend(raw(own, peer, rail, ends(pair), decides));
        found.extend(by_udp((own, peer), pair, rail, bulk).map(|udp| Found { decides, ..udp }));
    }
    found
}

/// The rail that is used only while no other one leads to the peer. Raw frames pass no router.
fn on_standby(cards: (&BusinessCard, &BusinessCard), pair: &Pair, rail: u8, bulk: CarrierId) -> Option<Found> {
    let udp = by_udp(cards, pair, rail, bulk)?;
    Some(Found { carrier: RailCarrier { standby: true, ..udp.carrier }, ..udp })
}

/// UDP between two interfaces, where both ends have it.
fn by_udp((own, peer): (&BusinessCard, &BusinessCard), pair: &Pair, rail: u8, bulk: CarrierId) -> Option<Found> {
    let (own, peer) = (own.addresses.as_ref()?, peer.addresses.as_ref()?);
    (pair.own.port != 0 && pair.peer.port != 0).then(|| Found {
        carrier: RailCarrier { role: Role::BulkData, rail, ends: ends(pair), standby: false },
        carrier_path: CarrierPath { carrier: bulk, to: pair.to.into() },
        packet_size: pair.packet_size,
        window_packets: own.window_packets.min(peer.window_packets),
        decides: false,
        ordered: false,
        placement: None,
    })
}

/// The interfaces of a pair.
fn ends(pair: &Pair) -> Ends {
    Ends { own: pair.own.rail, peer: pair.peer.rail }
}

/// Returns whether packets must fit the interfaces of this pair. `best` is the speed of the fastest pair.
fn decides(pair: &Pair, best: u32) -> bool {
    pair.speed() == 0 || pair.speed().saturating_mul(MUCH_SLOWER) >= best
}

/// The carriers by libfabric's endpoints, with raw frames beside them where both ends have them.
fn by_fabric(
    (own, peer): (&BusinessCard, &BusinessCard),
    (endpoints, candidates): (&mut [Fabric], &[udp::Candidate]),
    bulk: CarrierId,
    first: bool,
) -> Result<Vec<Found>, String> {
    if peer.fabric.is_empty() {
        return Err("it has no endpoint of libfabric: WEFT_LINK must name fabric at both ends".into());
    }
    let mut found = Vec::new();
    let has_ip = endpoints.iter().any(|fabric| fabric.offer().address.is_some());
    let candidates = if has_ip { candidates } else { &[] };
    for (pair, rail) in fabric_pairs(own, peer, (candidates, has_ip), first).iter().zip(0..) {
        let (Some(here), Some(there)) = (own.fabric.get(pair.near), peer.fabric.get(pair.far)) else { continue };
        let Some(fabric) = endpoints.get_mut(pair.near) else { continue };
        let to = fabric.address_of(there).map_err(|error| error.to_string())?;
        match pair.ends {
            Some(ends) => found.extend(raw(own, peer, rail, ends, pair.decides)),
            None if rail == 0 => found.extend(raw_only(own, peer)),
            None => {}
        }
        found.push(Found {
            carrier: RailCarrier {
                role: Role::BulkData,
                rail,
                ends: Ends { own: here.rail, peer: there.rail },
                standby: false,
            },
            carrier_path: CarrierPath { carrier: bulk, to },
            packet_size: usize::from(here.packet_size.min(there.packet_size)),
            window_packets: here.window_packets.min(there.window_packets),
            decides: pair.decides,
            ordered: here.ordered && there.ordered,
            placement: fabric.attributes().remote_memory.filter(|_| here.has_remote_memory && there.has_remote_memory),
        });
    }
    Ok(found)
}

/// The carriers by RDMA devices, with raw frames beside them where both ends have them. Injected faults spare
/// connections, so these keep their promise.
fn by_verbs(
    (own, peer): (&BusinessCard, &BusinessCard),
    verbs: &mut VerbsRails,
    bulk: CarrierId,
    (rank, other): (u32, u32),
) -> Result<Vec<Found>, String> {
    let (Some(here), Some(there)) = (&own.verbs, &peer.verbs) else {
        return Err("it has no RDMA device: WEFT_LINK must name verbs at both ends".into());
    };
    let to = verbs.address_of(there, u32::midpoint(rank, other)).map_err(|error| error.to_string())?;
    let mut found = raw_only(own, peer);
    found.push(Found {
        carrier: RailCarrier { role: Role::BulkData, rail: 0, ends: Ends { own: 0, peer: 0 }, standby: false },
        carrier_path: CarrierPath { carrier: bulk, to },
        packet_size: usize::from(here.packet_size.min(there.packet_size)),
        window_packets: FlowSettings::default().window_packets,
        decides: true,
        ordered: true,
        placement: verbs.attributes().remote_memory.filter(|_| here.has_remote_memory && there.has_remote_memory),
    });
    Ok(found)
}

/// The carrier by TCP, with raw frames beside it where both ends have them. Injected faults spare
/// connections, so these keep their promise.
fn by_tcp(
    (own, peer): (&BusinessCard, &BusinessCard),
    tcp: &mut Tcp,
    bulk: CarrierId,
    first: bool,
) -> Result<Vec<Found>, String> {
    let Some(there) = &peer.tcp else {
        return Err("it does not listen for TCP: WEFT_LINK must name tcp at both ends".into());
    };
    let pairs = udp::pair_rails(tcp.candidates(), &there.candidates, first)?;
    let Some(best) = pairs.first() else { return Err("no address of it can be reached from here".into()) };
    let to = tcp.address_of(best.to, there.token);
    let CarrierAttributes { packet_size, remote_memory, .. } = *tcp.attributes();
    let mut found = raw_only(own, peer);
    found.push(Found {
        carrier: RailCarrier { role: Role::BulkData, rail: 0, ends: Ends { own: 0, peer: 0 }, standby: false },
        carrier_path: CarrierPath { carrier: bulk, to },
        packet_size,
        window_packets: FlowSettings::default().window_packets,
        decides: true,
        ordered: true,
        placement: remote_memory,
    });
    Ok(found)
}

/// A pair of endpoints of two ends that lead to each other, by their indices.
#[derive(Debug, PartialEq, Eq)]
struct FabricPair {
    near: usize,
    far: usize,
    /// The interfaces of the endpoints, if these are known to lead to each other.
    ends: Option<Ends>,
    decides: bool,
}

/// Pairs the endpoints of two ends. Endpoints with IP addresses are paired as interfaces are, by common
/// subnets; without a common subnet the best of both ends are a pair. Other endpoints are paired by their
/// order. An endpoint that leads nowhere is found out when it is asked.
fn fabric_pairs(
    own: &BusinessCard,
    peer: &BusinessCard,
    (candidates, has_ip): (&[udp::Candidate], bool),
    first: bool,
) -> Vec<FabricPair> {
    let theirs = peer.addresses.as_ref().map_or(&[][..], |addresses| &addresses.candidates);
    let pairs = udp::pair_rails(candidates, theirs, first).unwrap_or_default();
    let best = pairs.iter().map(Pair::speed).max().unwrap_or(0);
    let index = |card: &BusinessCard, rail| card.fabric.iter().position(|endpoint| endpoint.rail == rail);
    let on_interfaces = pairs.iter().filter_map(|pair| {
        let ends = Ends { own: pair.own.rail, peer: pair.peer.rail };
        let decides = decides(pair, best);
        Some(FabricPair { near: index(own, ends.own)?, far: index(peer, ends.peer)?, ends: Some(ends), decides })
    });
    let on_interfaces: Vec<FabricPair> = on_interfaces.collect();
    if !on_interfaces.is_empty() {
        return on_interfaces;
    }
    let count = if has_ip { 1 } else { own.fabric.len().min(peer.fabric.len()).min(RAILS_MAX) };
    (0..count).map(|index| FabricPair { near: index, far: index, ends: None, decides: true }).collect()
}

/// The raw frames between the best interfaces of both ends, although their addresses do not fit.
fn raw_only(own: &BusinessCard, peer: &BusinessCard) -> Vec<Found> {
    let best = |card: &BusinessCard| card.raw.first().map(|raw| raw.rail);
    let ends = best(own).zip(best(peer)).map(|(own, peer)| Ends { own, peer });
    ends.and_then(|ends| raw(own, peer, 0, ends, true)).into_iter().collect()
}

fn raw(own: &BusinessCard, peer: &BusinessCard, rail: u8, ends: Ends, decides: bool) -> Option<Found> {
    let index = own.raw.iter().position(|raw| raw.rail == ends.own)?;
    let own = &own.raw[index];
    // An interface does not hear its own frames, and no other interface has its address.
    let peer = peer.raw.iter().find(|raw| raw.rail == ends.peer && raw.address.mac != own.address.mac)?;
    Some(Found {
        carrier: RailCarrier { role: Role::SmallMessages, rail, ends, standby: false },
        carrier_path: CarrierPath { carrier: Opened::frames_on(index), to: Address::from(peer.address) },
        packet_size: usize::from(own.packet_size.min(peer.packet_size)),
        window_packets: own.window_packets.min(peer.window_packets),
        decides,
        ordered: false,
        placement: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_net::carrier::EthernetAddress;
    use weft_net::udp::Candidate;
    use weft_net::{ethernet, fabric};

    #[test]
    fn acknowledgements_wait_for_a_turn_unless_a_setting_says_how_long() {
        let of = |value: Option<&str>| {
            let value = |name: &str| value.filter(|_| name == "WEFT_ACK_DELAY").map(str::to_owned);
            let settings = Settings::read(value).unwrap();
            [false, true].map(|take_turns| ack_delay(&settings, take_turns).0 / 1000)
        };
        assert_eq!((of(None), of(Some("auto")), of(Some("70"))), ([50, 500], [50, 500], [70, 70]));
    }

    /// An end of host `host` with interfaces of these speeds and packet sizes, each in a subnet of its own.
    fn card(host: u8, interfaces: &[(u32, u16)]) -> BusinessCard {
        let candidate = |(rail, &(speed, packet_size)): (usize, &(u32, u16))| Candidate {
            ip: [10, 0, rail as u8, host].into(),
            prefix: 24,
            port: 7,
            packet_size,
            host: host.into(),
            interface: 2 + rail as u32,
            rail: rail as u8,
            speed,
        };
        let raw = |(rail, &(_, packet_size)): (usize, &(u32, u16))| {
            let address = EthernetAddress { mac: [2, 0, 0, 0, rail as u8, host], port: 7 };
            ethernet::EndpointAddress { rail: rail as u8, address, packet_size: packet_size + 22, window_packets: 900 }
        };
        let candidates = interfaces.iter().enumerate().map(candidate).collect();
        BusinessCard {
            node: host.into(),
            pid: 1,
            host: format!("host {host}"),
            secret: None,
            addresses: Some(udp::EndpointAddress { candidates, window_packets: 1000 }),
            raw: interfaces.iter().enumerate().map(raw).collect(),
            fabric: Vec::new(),
            verbs: None,
            tcp: None,
            appnum: None,
            processors: (0, 1),
            choices: 0,
        }
    }

    fn found(near: &BusinessCard, far: &BusinessCard, first: bool) -> Vec<Found> {
        let candidates = |card: &BusinessCard| card.addresses.clone().unwrap().candidates;
        let pairs = udp::pair_rails(&candidates(near), &candidates(far), first).unwrap();
        on_rails(near, far, &pairs, CarrierId(near.raw.len() as u8))
    }

    #[test]
    fn every_common_subnet_is_a_rail_with_both_carriers_and_both_ends_see_the_same() {
        let (near, far) = (card(1, &[(10_000, 1472); 3]), card(2, &[(10_000, 1472); 2]));
        let (there, back) = (found(&near, &far, true), found(&far, &near, false));
        assert_eq!((there.len(), back.len()), (4, 4));
        for (one, other) in there.iter().zip(&back) {
            assert_eq!((one.carrier.role, one.carrier.rail), (other.carrier.role, other.carrier.rail));
            assert_eq!(
                (one.carrier.ends.own, one.carrier.ends.peer),
                (other.carrier.ends.peer, other.carrier.ends.own)
            );
        }
    }

    #[test]
    fn a_rail_that_is_much_slower_does_not_make_packets_small() {
        let (near, far) = (card(1, &[(100_000, 8972), (1_000, 1472)]), card(2, &[(100_000, 8972), (1_000, 1472)]));
        let sizes = |card: &BusinessCard, other| -> Vec<usize> {
            found(card, other, true).iter().filter(|one| one.decides).map(|one| one.packet_size).collect()
        };
        assert_eq!(sizes(&near, &far), [8994, 8972]);
        let (near, far) = (card(1, &[(0, 8972), (0, 1472)]), card(2, &[(0, 8972), (0, 1472)]));
        assert_eq!(sizes(&near, &far).into_iter().min(), Some(1472));
    }

    #[test]
    fn endpoints_of_libfabric_are_paired_by_subnets_or_by_their_order() {
        let endpoint = |rail| fabric::EndpointAddress {
            provider: "udp".into(),
            ordered: false,
            has_remote_memory: false,
            packet_size: 1472,
            window_packets: 100,
            rail,
            address: vec![rail],
        };
        let with = |host, interfaces, rails: &[u8]| BusinessCard {
            fabric: rails.iter().copied().map(endpoint).collect(),
            ..card(host, interfaces)
        };
        // The second host has no endpoint on the second of the three interfaces that both have.
        let (near, far) = (with(1, &[(0, 1472); 3], &[0, 1, 2]), with(2, &[(0, 1472); 3], &[0, 2]));
        let of = |card: &BusinessCard| card.addresses.clone().unwrap().candidates;
        let (there, back) =
            (fabric_pairs(&near, &far, (&of(&near), true), true), fabric_pairs(&far, &near, (&of(&far), true), false));
        let indices = |pairs: &[FabricPair]| pairs.iter().map(|pair| (pair.near, pair.far)).collect::<Vec<_>>();
        assert_eq!((indices(&there), indices(&back)), (vec![(0, 0), (2, 1)], vec![(0, 0), (1, 2)]));
        assert!(there.iter().all(|pair| pair.ends.is_some()));
        assert_eq!(indices(&fabric_pairs(&near, &far, (&[], true), true)), [(0, 0)], "no common subnet is known");
        assert_eq!(indices(&fabric_pairs(&near, &far, (&[], false), true)), [(0, 0), (1, 1)]);
    }

    #[test]
    fn raw_frames_do_where_no_addresses_fit_and_nothing_does_between_an_interface_and_itself() {
        let (mut near, far) = (card(1, &[(0, 1472)]), card(2, &[(0, 1472)]));
        assert_eq!(raw_only(&near, &far).len(), 1);
        near.raw[0].address = far.raw[0].address;
        assert!(raw_only(&near, &far).is_empty());
    }
}
