//! How the doctor tests a link: it offers this host's address to peers (as a *card*), chooses the pair of addresses to use with a peer, and sends
//! packets in both directions.
//!
//! A new link of the library needs one implementation of [`Link`] and one line in [`open_all`].

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weft_mpi::settings::Settings;
use weft_net::carrier::{Address, Arrival, Carrier, Outcome, receive_packets};
use weft_net::ethernet::{self, Ethernet};
use weft_net::fabric::{self, Fabric};
use weft_net::udp::{self, Card, Udp};
use weft_net::verbs::{self, VerbsRails};
use weft_net::xdp;

use super::protocol::{Arrived, LinkPath, MULTICAST, MULTICAST_OF_LINK, OpenedLink, SentTo, Target, Unanswered};
use super::protocol::{BURST, COPIES, FABRIC, FABRIC_ON, SHORT_BYTES};

/// What a packet of a doctor begins with; the token, sender and receiver follow.
const MAGIC: &[u8; 8] = b"weftdoc1";
const HEAD_BYTES: usize = 8 + 8 + 2 + 2;
/// The receiver that means everybody.
const EVERYBODY: u16 = u16::MAX;
/// Packets taken from a link in one go.
const BATCH: usize = 64;
/// Different packets that are remembered, so that strangers cannot fill the memory.
const ARRIVED_MAX: usize = 1 << 16;
const POLL: Duration = Duration::from_millis(1);
/// How long an answer of the network to a packet that did not arrive is waited for, and how often it is tried.
const TRACE_WAIT: Duration = Duration::from_millis(300);
const TRACE_ATTEMPTS: usize = 3;
/// How long a link that takes no packet now may need: RDMA devices make a connection first, and then each peer has room for one packet until it has answered.
const ROOM_WAIT: Duration = Duration::from_secs(2);

const _: () = assert!(HEAD_BYTES <= SHORT_BYTES && SHORT_BYTES <= udp::PACKET_SIZE_MIN);

/// Which run this is, and which of its agents.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) token: u64,
    pub(crate) index: u16,
}

/// A link, opened.
pub(crate) trait Link {
    /// As `WEFT_LINK` says it, and where there are several the interface: what both ends call the same belongs together.
    fn name(&self) -> &str;
    /// What peers need to know.
    fn card(&self) -> String;
    fn warnings(&self) -> Vec<String>;
    /// The way to the peer with this card, and where packets go.
    fn way(&mut self, card: &str) -> Result<(LinkPath, Address), String>;
    fn carrier(&mut self) -> &mut dyn Carrier;
    /// Why the machine last refused a packet.
    fn refusal(&self) -> String;
    /// Bytes of the longest packet that its device multicasts, or why it does not; none where sockets do that.
    fn multicast(&mut self) -> Option<Result<usize, String>> {
        None
    }
}

struct UdpLink(Udp);

impl Link for UdpLink {
    fn name(&self) -> &str {
        "udp"
    }

    fn card(&self) -> String {
        self.0.card().encode()
    }

    fn warnings(&self) -> Vec<String> {
        self.0.warnings().to_vec()
    }

    fn way(&mut self, card: &str) -> Result<(LinkPath, Address), String> {
        let peer = Card::decode(card).map_err(|error| error.to_string())?;
        let pair = udp::choose_peer_address(self.0.candidates(), &peer.candidates)?;
        let way = LinkPath {
            own: pair.own.ip.to_string(),
            peer: pair.to.to_string(),
            own_bytes: usize::from(pair.own.packet_size),
            peer_bytes: usize::from(pair.peer.packet_size),
            packet_bytes: pair.packet_size,
        };
        Ok((way, pair.to.into()))
    }

    fn carrier(&mut self) -> &mut dyn Carrier {
        &mut self.0
    }

    fn refusal(&self) -> String {
        self.0.diagnostics().last_refusal.unwrap_or_default()
    }
}

struct EthernetLink(Ethernet);

impl Link for EthernetLink {
    fn name(&self) -> &str {
        "ethernet"
    }

    fn card(&self) -> String {
        self.0.card().encode()
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn way(&mut self, card: &str) -> Result<(LinkPath, Address), String> {
        let (own, peer) = (self.0.card(), ethernet::Card::decode(card).map_err(|error| error.to_string())?);
        let way = LinkPath {
            own: own.address.to_string(),
            peer: peer.address.to_string(),
            own_bytes: usize::from(own.packet_size),
            peer_bytes: usize::from(peer.packet_size),
            packet_bytes: usize::from(own.packet_size.min(peer.packet_size)),
        };
        Ok((way, peer.address.into()))
    }

    fn carrier(&mut self) -> &mut dyn Carrier {
        &mut self.0
    }

    fn refusal(&self) -> String {
        "the interface takes no frame just now".to_owned()
    }
}

struct VerbsLink(VerbsRails);

/// Addresses of rails, that of packets first.
fn by_rdma<'ways>(ends: impl Iterator<Item = &'ways std::net::SocketAddr>) -> String {
    let all: Vec<String> = ends.map(ToString::to_string).collect();
    format!("{} by RDMA", all.join(" and "))
}

impl Link for VerbsLink {
    fn name(&self) -> &str {
        VERBS
    }

    fn card(&self) -> String {
        self.0.card().encode()
    }

    fn warnings(&self) -> Vec<String> {
        self.0.warning().into_iter().collect()
    }

    fn way(&mut self, card: &str) -> Result<(LinkPath, Address), String> {
        let peer = verbs::Card::decode(card).map_err(|error| error.to_string())?;
        let to = self.0.address_of(&peer, 0).map_err(|error| error.to_string())?;
        let (own, ways) = (self.0.card(), self.0.paths(&to));
        let way = LinkPath {
            own: by_rdma(ways.iter().map(|(own, _)| own)),
            peer: by_rdma(ways.iter().map(|(_, peer)| peer)),
            own_bytes: usize::from(own.packet_size),
            peer_bytes: usize::from(peer.packet_size),
            packet_bytes: usize::from(own.packet_size.min(peer.packet_size)),
        };
        Ok((way, to))
    }

    fn carrier(&mut self) -> &mut dyn Carrier {
        &mut self.0
    }

    fn refusal(&self) -> String {
        self.0.diagnostics().last_refusal.unwrap_or_default()
    }

    fn multicast(&mut self) -> Option<Result<usize, String>> {
        Some(self.0.multicast())
    }
}

struct FabricLink {
    name: String,
    fabric: Fabric,
}

impl Link for FabricLink {
    fn name(&self) -> &str {
        &self.name
    }

    fn card(&self) -> String {
        self.fabric.card().encode()
    }

    fn warnings(&self) -> Vec<String> {
        self.fabric.warning().into_iter().collect()
    }

    fn way(&mut self, card: &str) -> Result<(LinkPath, Address), String> {
        let peer = fabric::Card::decode(card).map_err(|error| error.to_string())?;
        let to = self.fabric.address_of(&peer).map_err(|error| error.to_string())?;
        let own = self.fabric.card();
        let way = LinkPath {
            own: self.fabric.own_address().to_string(),
            peer: to.to_string(),
            own_bytes: usize::from(own.packet_size),
            peer_bytes: usize::from(peer.packet_size),
            packet_bytes: usize::from(own.packet_size.min(peer.packet_size)),
        };
        Ok((way, to))
    }

    fn carrier(&mut self) -> &mut dyn Carrier {
        &mut self.fabric
    }

    fn refusal(&self) -> String {
        self.fabric.diagnostics().last_refusal.unwrap_or_default()
    }
}

/// The links of one host and what came over them.
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

    /// Opens every link that the settings allow; tells what became of each, and of multicast.
    pub(crate) fn open(&mut self, settings: &Settings) -> (Vec<OpenedLink>, Result<usize, String>) {
        let mut told = Vec::new();
        self.links.clear();
        for (name, opened) in open_all(settings) {
            let warnings = opened.as_ref().map_or(Vec::new(), |link| link.warnings());
            let card = opened.as_ref().map(|link| link.card()).map_err(Clone::clone);
            told.push(OpenedLink { name, card, warnings });
            self.links.extend(opened.ok());
        }
        let own = self.links.iter().find_map(|link| Card::decode(&link.card()).ok()?.candidates.first().copied());
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

    /// Takes what comes until `expected` different packets are there, at most for `limit`.
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
                    // To a device all groups are alike.
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

    /// Sends from a socket of its own that the network's answers come back to.
    pub(crate) fn trace(&mut self, link: &str, card: &str) -> Result<Unanswered, String> {
        let link = self.links.iter_mut().find(|one| one.name() == link).ok_or("this link is not open")?;
        let (_, Address::Udp(to)) = link.way(card)? else { return Ok(Unanswered::Silence) };
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

/// Whether the kernel has asked for the hardware address of `ip` on its own segment, and nobody has answered: the entry's flags
/// are 0 (proc_pid_net(5)).
fn is_silent_neighbour(neighbours: &str, ip: &str) -> bool {
    let mut entries = neighbours.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    entries.any(|entry| entry.first() == Some(&ip) && entry.get(2) == Some(&"0x0"))
}

/// What an error of a connected socket says; none: nothing yet.
fn unanswered(error: ErrorKind) -> Option<Unanswered> {
    match error {
        ErrorKind::ConnectionRefused => Some(Unanswered::Refused),
        // For a connected UDP socket Linux reports only those that are final: "prohibited", not "unreachable just now".
        ErrorKind::HostUnreachable | ErrorKind::PermissionDenied => Some(Unanswered::Prohibited),
        ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => Some(Unanswered::NoRoute),
        _ => None,
    }
}

/// A link, or why it cannot be used here.
type Opened = Result<Box<dyn Link>, String>;

fn open_all(settings: &Settings) -> Vec<(String, Opened)> {
    let mut all = Vec::new();
    let wanted = udp::Settings { interfaces: settings.interface.clone(), packet_size_max: None };
    if settings.links.udp {
        let opened = Udp::bind(&wanted).map(|udp| Box::new(UdpLink(udp)) as Box<dyn Link>);
        all.push(("udp".to_owned(), opened.map_err(|error| error.to_string())));
    }
    if settings.links.fabric {
        all.extend(open_fabric(settings, &wanted));
    }
    if settings.links.verbs {
        let opened = VerbsRails::open(&weft_mpi::settings::verbs(settings))
            .map(|verbs| Box::new(VerbsLink(verbs)) as Box<dyn Link>);
        all.push((VERBS.to_owned(), opened.map_err(|error| error.to_string())));
    }
    if settings.links.ethernet {
        let opened = Ethernet::open(&wanted, None, settings.netd.as_deref());
        // Where it can be had, its frames are those of the raw link, and no others are tried.
        let xdp = opened.as_ref().ok().filter(|_| settings.links.xdp).map(xdp::outlook);
        let opened = opened.map(|link| Box::new(EthernetLink(link)) as Box<dyn Link>);
        all.push(("ethernet".to_owned(), opened.map_err(|error| error.to_string())));
        all.extend(xdp.and_then(Result::err).map(|why| ("xdp".to_owned(), Err(why.to_string()))));
    }
    all
}

/// libfabric's best endpoint, for a host that has one; where there are several each of them as well, by what both ends call it ([`super::protocol::FABRIC_ON`]):
/// programs pair those in a common subnet, and devices without addresses of IP by their order.
fn open_fabric(settings: &Settings, wanted: &udp::Settings) -> Vec<(String, Opened)> {
    let settings = weft_mpi::settings::fabric(settings);
    let link = |name: String, opened: Result<Fabric, weft_net::Error>| {
        let made = |fabric| Box::new(FabricLink { name: name.clone(), fabric }) as Box<dyn Link>;
        let opened = opened.map(made).map_err(|error| error.to_string());
        (name, opened)
    };
    let mut all = vec![link(FABRIC.to_owned(), Fabric::open(&settings))];
    let several = Fabric::open_all(&settings).unwrap_or_default();
    if several.len() > 1 {
        let candidates = udp::candidates(wanted).unwrap_or_default();
        for fabric in several {
            let on = candidates.iter().find(|candidate| Some(candidate.ip) == fabric.offer().address);
            let on = on.map_or_else(|| format!("device {}", fabric.rail() + 1), udp::Candidate::subnet);
            all.push(link(format!("{FABRIC_ON}{on}"), Ok(fabric)));
        }
    }
    all
}

/// Remembers a packet that has arrived, if it is one of this run.
fn note(identity: Identity, arrived: &mut BTreeSet<Arrived>, link: &str, bytes: &[u8]) {
    if let Some(from) = sender(identity, bytes).filter(|_| arrived.len() < ARRIVED_MAX) {
        arrived.insert(Arrived { link: link.to_owned(), from, bytes: bytes.len() });
    }
}

/// Sends a packet; a link that has no room for it is given a moment, and looked at meanwhile.
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
    let (way, to) = match link.way(&target.card) {
        Ok(found) => found,
        Err(why) => return SentTo { peer: target.peer, path: Err(why), refused: Vec::new() },
    };
    let usual = [SHORT_BYTES, way.packet_bytes];
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
    SentTo { peer: target.peer, path: Ok(way), refused }
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

/// Who sent this packet of the same run to this agent; none: it is a stranger's, or damaged.
fn sender(identity: Identity, packet: &[u8]) -> Option<u16> {
    let (head, rest) = packet.split_at_checked(HEAD_BYTES)?;
    let (magic, head) = head.split_at(MAGIC.len());
    let (token, head) = head.split_at(8);
    let (from, to) = (u16::from_le_bytes([head[0], head[1]]), u16::from_le_bytes([head[2], head[3]]));
    let is_whole = rest.iter().enumerate().all(|(at, &byte)| byte == body(HEAD_BYTES + at));
    let is_ours = magic == MAGIC && token == identity.token.to_le_bytes();
    (is_ours && is_whole && from != identity.index && (to == identity.index || to == EVERYBODY)).then_some(from)
}

/// The link of an RDMA device.
const VERBS: &str = "verbs";
const NO_MULTICAST: &str = "there is no multicast socket";

/// How packets go to the run's multicast groups.
enum Multicast {
    Sockets(Sockets),
    /// An RDMA device sends datagrams to a group, which arrive by its link.
    Device {
        group: Address,
        packet_size: usize,
    },
}

impl Multicast {
    fn packet_size(&self) -> usize {
        match self {
            Self::Sockets(Sockets { packet_size, .. }) | Self::Device { packet_size, .. } => *packet_size,
        }
    }

    fn send(&self, links: &mut [Box<dyn Link>], packet: &[u8], copies: usize) -> Result<(), String> {
        let group = match self {
            Self::Sockets(sockets) => return sockets.send(sockets.group, packet, copies),
            Self::Device { group, .. } => group,
        };
        let link = links.iter_mut().find(|link| link.name() == VERBS).ok_or(NO_MULTICAST)?;
        let deadline = Instant::now() + ROOM_WAIT;
        let mut left = copies;
        while left > 0 {
            match link.carrier().send(group, packet).map_err(|error| error.to_string())? {
                Outcome::Sent => left -= 1,
                Outcome::WouldBlock if Instant::now() < deadline => std::thread::sleep(POLL),
                _ => return Err(link.refusal()),
            }
        }
        Ok(())
    }
}

/// Joins the run's group by an RDMA device; none if the link is none.
fn join_by_device(link: &mut dyn Link, identity: Identity) -> Option<Result<Multicast, String>> {
    let packet_size = match link.multicast()? {
        Ok(packet_size) => packet_size,
        Err(why) => return Some(Err(why)),
    };
    let groups = link.carrier().multicast()?;
    let group = groups.address(identity.token, identity.token);
    let joined = groups.join(&group, true).map_err(|error| error.to_string());
    Some(joined.map(|()| Multicast::Device { group, packet_size }))
}

/// A member of the run's multicast groups.
struct Sockets {
    listener: UdpSocket,
    listener_of_link: UdpSocket,
    speaker: UdpSocket,
    group: SocketAddr,
    of_link: SocketAddr,
    packet_size: usize,
}

impl Sockets {
    /// Groups and port follow from the run's token: one that is administratively scoped, RFC 2365, so that no router passes it on, and one of the link.
    fn join(own: Ipv4Addr, packet_size: usize, identity: Identity) -> Result<Sockets, String> {
        let [a, b, c, d, ..] = identity.token.to_le_bytes();
        let port = 20_000 + u16::from_le_bytes([c, d]) % 12_000;
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: std::io::Error| format!("{what}: {error}")
        };
        let listen = |group: Ipv4Addr| {
            let listener = UdpSocket::bind((group, port)).map_err(failed("no socket for the group"))?;
            listener.join_multicast_v4(&group, &own).map_err(failed("the group cannot be joined"))?;
            listener.set_nonblocking(true).map_err(failed("no socket for the group"))?;
            Ok::<_, String>((listener, SocketAddr::from((group, port))))
        };
        let (listener, group) = listen(Ipv4Addr::new(239, 255, a, b))?;
        // The upper half of 224.0.0.0/24 has hardly any names (IANA).
        let (listener_of_link, of_link) = listen(Ipv4Addr::new(224, 0, 0, 0x80 | a & 0x3f))?;
        // A sender that is bound to an address uses its interface.
        let speaker = UdpSocket::bind((own, 0)).map_err(failed("no socket to send with"))?;
        Ok(Sockets { listener, listener_of_link, speaker, group, of_link, packet_size: packet_size.max(SHORT_BYTES) })
    }

    fn send(&self, to: SocketAddr, packet: &[u8], copies: usize) -> Result<(), String> {
        for _ in 0..copies {
            self.speaker.send_to(packet, to).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
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
        // Whether the loopback interface has multicast is nothing to this.
        let _ = a.open(&settings);
        let (links, _) = b.open(&settings);
        let card = links[0].card.clone().unwrap();
        let sent = a.send("udp", &[Target { peer: 1, card: card.clone(), sizes: Vec::new() }]).unwrap();
        assert_eq!(sent[0].refused, []);
        let full = sent[0].path.as_ref().unwrap().packet_bytes;
        let arrived = b.collect(2, Duration::from_secs(10));
        let sizes: Vec<usize> = arrived.iter().map(|one| one.bytes).collect();
        assert_eq!(sizes, [SHORT_BYTES, full]);
        drop(b);
        assert_eq!(a.trace("udp", &card), Ok(Unanswered::Refused));
        assert!(a.send("carrier pigeon", &[]).is_err());
    }
}
