//! Tests a link: the doctor offers this host's address to peers (as an *endpoint address*), chooses the pair
//! of addresses to use with a peer, and sends packets in both directions.
//!
//! A new link of the library needs one implementation of [`Link`] and one line in [`open_all`].

mod links;
mod multicast;

use super::protocol::{
    Arrived, BURST, COPIES, MULTICAST, MULTICAST_OF_LINK, OpenedLink, SHORT_BYTES, SentTo, Target, Unanswered,
};
use links::{Link, open_all};
use multicast::{Multicast, NO_MULTICAST, Sockets, join_by_device};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use weft_mpi::settings::Settings;
use weft_net::carrier::{Address, Arrival, Outcome, receive_packets};
use weft_net::udp::{self, EndpointAddress};

/// The bytes with which a doctor's packet begins; the token, sender and receiver follow.
const MAGIC: &[u8; 8] = b"weftdoc1";
const HEAD_BYTES: usize = 8 + 8 + 2 + 2;
/// The receiver's number that means every host.
const EVERYBODY: u16 = u16::MAX;
/// The most packets taken from a link at one time.
const BATCH: usize = 64;
/// The most different packets that are remembered, so that strangers cannot fill the memory.
const ARRIVED_MAX: usize = 1 << 16;
const POLL: Duration = Duration::from_millis(1);
/// The time to wait for the network's answer to a packet that did not arrive, and the number of attempts.
const TRACE_WAIT: Duration = Duration::from_millis(300);
const TRACE_ATTEMPTS: usize = 3;
/// The time that a link may need when it has no room for a packet: RDMA devices make a connection first, and
/// then each peer has room for one packet until it has answered.
const ROOM_WAIT: Duration = Duration::from_secs(2);

const _: () = assert!(HEAD_BYTES <= SHORT_BYTES && SHORT_BYTES <= udp::PACKET_SIZE_MIN);

/// The identity of a run and of an agent in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) token: u64,
    pub(crate) index: u16,
}

/// The links of one host and the packets that arrived over them.
#[derive(Default)]
pub(crate) struct Probe {
    identity: Identity,
    links: Vec<Box<dyn Link>>,
    multicast: Option<Multicast>,
    arrived: BTreeSet<Arrived>,
}

impl Probe {
    pub(crate) fn new(identity: Identity) -> Probe {
        Probe { identity, ..Probe::default() }
    }

    /// Opens every link that the settings allow. Returns the outcome of each, and that of multicast.
    pub(crate) fn open(&mut self, settings: &Settings) -> (Vec<OpenedLink>, Result<usize, String>) {
        let mut told = Vec::new();
        self.links.clear();
        for (name, opened) in open_all(settings) {
            let warnings = opened.as_ref().map_or(Vec::new(), |link| link.warnings());
            let endpoint_address = opened.as_ref().map(|link| link.endpoint_address()).map_err(Clone::clone);
            told.push(OpenedLink { name, endpoint_address, warnings });
            self.links.extend(opened.ok());
        }
        let own = self
            .links
            .iter()
            .find_map(|link| EndpointAddress::decode(&link.endpoint_address()).ok()?.candidates.first().copied());
        let by_device = self.links.iter_mut().find_map(|link| join_by_device(link.as_mut(), self.identity));
        let multicast = match own.map(|candidate| (candidate.ip, candidate.packet_size)) {
            Some((IpAddr::V4(own), packet_size)) => {
                Sockets::join(own, packet_size.into(), self.identity).map(Multicast::Sockets)
            }
            Some((IpAddr::V6(_), _)) => Err("it is tried with IPv4 only".to_owned()),
            None => by_device.unwrap_or_else(|| Err("no link has an address".to_owned())),
        };
        let bytes_or_why = multicast.as_ref().map(Multicast::packet_size).map_err(Clone::clone);
        self.multicast = multicast.ok();
        (told, bytes_or_why)
    }

    /// Sends packets to the targets.
    pub(crate) fn send(&mut self, link: &str, targets: &[Target]) -> Result<Vec<SentTo>, String> {
        let Self { identity, links, arrived, .. } = self;
        let link = links.iter_mut().find(|one| one.name() == link).ok_or("this link is not open")?;
        let name = link.name().to_owned();
        let mut note = |bytes: &[u8]| note(*identity, arrived, &name, bytes);
        Ok(targets.iter().map(|target| send_to(link.as_mut(), *identity, target, &mut note)).collect())
    }

    /// Sends to the multicast groups.
    pub(crate) fn multicast(&mut self) -> Result<(), String> {
        let Self { identity, links, multicast, .. } = self;
        let multicast = multicast.as_ref().ok_or(NO_MULTICAST)?;
        let sized = |bytes: usize| packet(*identity, EVERYBODY, bytes);
        if let Multicast::Sockets(sockets) = multicast {
            sockets.send(sockets.of_link, &sized(SHORT_BYTES), COPIES)?;
        }
        multicast.send(links, &sized(SHORT_BYTES), COPIES)?;
        multicast.send(links, &sized(multicast.packet_size()), COPIES)
    }

    /// Sends many packets in a row, each once.
    pub(crate) fn multicast_in_a_row(&mut self) -> Result<(), String> {
        let Self { identity, links, multicast, .. } = self;
        let multicast = multicast.as_ref().ok_or(NO_MULTICAST)?;
        let sized = |bytes: usize| packet(*identity, EVERYBODY, bytes);
        (1..=BURST).try_for_each(|more| multicast.send(links, &sized(SHORT_BYTES + more), 1))
    }

    /// Takes packets until `expected` different ones have arrived, at most for `limit`.
    pub(crate) fn collect(&mut self, expected: usize, limit: Duration) -> Vec<Arrived> {
        let deadline = Instant::now() + limit;
        loop {
            let took = self.take();
            if self.arrived.len() >= expected || Instant::now() >= deadline {
                return self.arrived.iter().cloned().collect();
            }
            if took == 0 {
                std::thread::sleep(POLL);
            }
        }
    }

    fn take(&mut self) -> usize {
        let (identity, arrived) = (self.identity, &mut self.arrived);
        let mut took = 0;
        let mut note = |link: &str, bytes: &[u8]| note(identity, arrived, link, bytes);
        for link in &mut self.links {
            let name = link.name().to_owned();
            let mut each = |train: Arrival<'_>| {
                for bytes in train.packets() {
                    // A device does not tell one group from another.
                    if train.to_group && bytes.len() == SHORT_BYTES {
                        note(MULTICAST_OF_LINK, bytes);
                    }
                    note(if train.to_group { MULTICAST } else { &name }, bytes);
                }
            };
            took += link.carrier().receive(&mut each, BATCH);
        }
        if let Some(Multicast::Sockets(multicast)) = &self.multicast {
            let mut bytes = vec![0; multicast.packet_size + 1];
            for (name, listener) in [(MULTICAST, &multicast.listener), (MULTICAST_OF_LINK, &multicast.listener_of_link)]
            {
                for _ in 0..BATCH {
                    let Ok(length) = listener.recv(&mut bytes) else { break };
                    note(name, &bytes[..length]);
                    took += 1;
                }
            }
        }
        took
    }

    /// Sends a packet from a socket of its own, to which the network's answers come back.
    pub(crate) fn trace(&mut self, link: &str, endpoint_address: &str) -> Result<Unanswered, String> {
        let link = self.links.iter_mut().find(|one| one.name() == link).ok_or("this link is not open")?;
        let (_, Address::Udp(to)) = link.path(endpoint_address)? else { return Ok(Unanswered::Silence) };
        let any = if to.is_ipv4() { SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)) } else { "[::]:0".parse().unwrap() };
        let socket = UdpSocket::bind(any).map_err(|error| error.to_string())?;
        socket.set_read_timeout(Some(TRACE_WAIT)).map_err(|error| error.to_string())?;
        let packet = packet(self.identity, EVERYBODY, SHORT_BYTES);
        for _ in 0..TRACE_ATTEMPTS {
            let answer = socket.connect(to).and_then(|()| socket.send(&packet)).and_then(|_| socket.recv(&mut [0; 1]));
            if let Some(unanswered) = answer.err().and_then(|error| unanswered(error.kind())) {
                return Ok(unanswered);
            }
        }
        let neighbours = std::fs::read_to_string("/proc/net/arp").unwrap_or_default();
        Ok(if is_silent_neighbour(&neighbours, &to.ip().to_string()) {
            Unanswered::HostDown
        } else {
            Unanswered::Silence
        })
    }
}

/// Returns whether the kernel has asked for the hardware address of `ip` on its own segment, and no host has
/// answered: the entry's flags are 0 (proc_pid_net(5)).
fn is_silent_neighbour(neighbours: &str, ip: &str) -> bool {
    let mut entries = neighbours.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    entries.any(|entry| entry.first() == Some(&ip) && entry.get(2) == Some(&"0x0"))
}

/// The meaning of a connected socket's error; `None` if there is no answer yet.
fn unanswered(error: ErrorKind) -> Option<Unanswered> {
    match error {
        ErrorKind::ConnectionRefused => Some(Unanswered::Refused),
        // For a connected UDP socket Linux reports only final errors: "prohibited", not "unreachable just
        // now".
        ErrorKind::HostUnreachable | ErrorKind::PermissionDenied => Some(Unanswered::Prohibited),
        ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => Some(Unanswered::NoRoute),
        _ => None,
    }
}

/// Remembers a packet that has arrived, if it belongs to this run.
fn note(identity: Identity, arrived: &mut BTreeSet<Arrived>, link: &str, bytes: &[u8]) {
    if let Some(from) = sender(identity, bytes).filter(|_| arrived.len() < ARRIVED_MAX) {
        arrived.insert(Arrived { link: link.to_owned(), from, bytes: bytes.len() });
    }
}

/// Sends a packet. A link that has no room for it is given a moment, and its arrivals are taken meanwhile.
fn send_soon(
    link: &mut dyn Link,
    to: &Address,
    packet: &[u8],
    note: &mut dyn FnMut(&[u8]),
) -> std::io::Result<Outcome> {
    let deadline = Instant::now() + ROOM_WAIT;
    loop {
        match link.carrier().send(to, packet) {
            Ok(Outcome::WouldBlock) if Instant::now() < deadline => {
                if receive_packets(link.carrier(), note, BATCH) == 0 {
                    std::thread::sleep(POLL);
                }
            }
            outcome => return outcome,
        }
    }
}

fn send_to(link: &mut dyn Link, identity: Identity, target: &Target, note: &mut dyn FnMut(&[u8])) -> SentTo {
    let (path, to) = match link.path(&target.endpoint_address) {
        Ok(found) => found,
        Err(why) => return SentTo { peer: target.peer, path: Err(why), refused: Vec::new() },
    };
    let usual = [SHORT_BYTES, path.packet_bytes];
    let sizes: &[usize] = if target.sizes.is_empty() { &usual } else { &target.sizes };
    let (mut refused, most) = (Vec::new(), link.carrier().attributes().packet_size.max(SHORT_BYTES));
    for &size in sizes {
        let packet = packet(identity, target.peer, size.clamp(SHORT_BYTES, most));
        for _ in 0..COPIES {
            let outcome = send_soon(link, &to, &packet, note);
            let why = match outcome {
                Ok(Outcome::Sent) => continue,
                Ok(Outcome::WouldBlock) => "the send buffer is full".to_owned(),
                Ok(Outcome::Dropped) => link.refusal(),
                Ok(Outcome::TooLarge) => "it is larger than the path allows, says this machine".to_owned(),
                Err(error) => error.to_string(),
            };
            refused.push((size, why));
            break;
        }
    }
    SentTo { peer: target.peer, path: Ok(path), refused }
}

/// A packet of `size` bytes with a body that can be checked.
fn packet(identity: Identity, to: u16, size: usize) -> Vec<u8> {
    let mut packet = Vec::with_capacity(size);
    packet.extend_from_slice(MAGIC);
    packet.extend_from_slice(&identity.token.to_le_bytes());
    packet.extend_from_slice(&identity.index.to_le_bytes());
    packet.extend_from_slice(&to.to_le_bytes());
    packet.extend((HEAD_BYTES..size).map(body));
    packet
}

fn body(at: usize) -> u8 {
    (at % 251) as u8
}

/// The sender of a packet of the same run to this agent; `None` for a packet of a stranger, and for a damaged
/// one.
fn sender(identity: Identity, packet: &[u8]) -> Option<u16> {
    let (head, rest) = packet.split_at_checked(HEAD_BYTES)?;
    let (magic, head) = head.split_at(MAGIC.len());
    let (token, head) = head.split_at(8);
    let (from, to) = (u16::from_le_bytes([head[0], head[1]]), u16::from_le_bytes([head[2], head[3]]));
    let is_whole = rest.iter().enumerate().all(|(at, &byte)| byte == body(HEAD_BYTES + at));
    let is_ours = magic == MAGIC && token == identity.token.to_le_bytes();
    (is_ours && is_whole && from != identity.index && (to == identity.index || to == EVERYBODY)).then_some(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Identity = Identity { token: 77, index: 0 };
    const B: Identity = Identity { token: 77, index: 1 };

    #[test]
    fn only_whole_packets_of_this_run_count() {
        for size in [HEAD_BYTES, SHORT_BYTES, 1472] {
            assert_eq!(sender(B, &packet(A, 1, size)), Some(0));
        }
        assert_eq!(sender(B, &packet(A, EVERYBODY, 64)), Some(0));
        assert_eq!(sender(B, &packet(A, 2, 64)), None);
        assert_eq!(sender(A, &packet(A, EVERYBODY, 64)), None, "its own echo");
        assert_eq!(sender(Identity { token: 78, index: 1 }, &packet(A, 1, 64)), None);
        let mut damaged = packet(A, 1, 64);
        damaged[40] ^= 1;
        assert_eq!(sender(B, &damaged), None);
        assert_eq!(sender(B, b"short"), None);
    }

    #[test]
    fn a_neighbour_that_never_answered_is_known() {
        let table = "IP address HW type Flags HW address Mask Device\n\
                     10.0.0.2 0x1 0x0 00:00:00:00:00:00 * e0\n10.0.0.3 0x1 0x2 02:00:00:00:00:01 * e0\n";
        assert!(is_silent_neighbour(table, "10.0.0.2"));
        assert!(!is_silent_neighbour(table, "10.0.0.3") && !is_silent_neighbour(table, "10.0.0.4"));
    }

    #[test]
    fn two_probes_of_one_machine_reach_each_other() {
        let settings = Settings::read(|name| (name == "WEFT_INTERFACE").then(|| "lo".to_owned())).unwrap();
        let (mut a, mut b) = (Probe::new(A), Probe::new(B));
        // This test does not depend on multicast over the loopback interface.
        let _ = a.open(&settings);
        let (links, _) = b.open(&settings);
        let endpoint_address = links[0].endpoint_address.clone().unwrap();
        let sent = a
            .send("udp", &[Target { peer: 1, endpoint_address: endpoint_address.clone(), sizes: Vec::new() }])
            .unwrap();
        assert_eq!(sent[0].refused, []);
        let full = sent[0].path.as_ref().unwrap().packet_bytes;
        let arrived = b.collect(2, Duration::from_secs(10));
        let sizes: Vec<usize> = arrived.iter().map(|one| one.bytes).collect();
        assert_eq!(sizes, [SHORT_BYTES, full]);
        drop(b);
        assert_eq!(a.trace("udp", &endpoint_address), Ok(Unanswered::Refused));
        assert!(a.send("carrier pigeon", &[]).is_err());
    }
}
