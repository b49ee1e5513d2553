//! Addresses: the addresses that this machine offers, their text on the business card, and the pair that two
//! processes use.

use std::cmp::Reverse;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::Error;
use crate::sys::{self, Interface};
use weft_core::rails::RAILS_MAX;

/// Largest packet in bytes: a jumbo frame fits, and so does a good part of loopback's 64 KiB, with bounded
/// buffers.
pub const PACKET_SIZE_MAX: usize = 16 << 10;
/// Smallest useful packet in bytes: the 576 bytes that IPv4 promises of every link, less headers and options.
pub const PACKET_SIZE_MIN: usize = 508;
/// Most addresses on a business card.
pub const CANDIDATES_MAX: usize = 8;

/// An address at which a process can be reached, as the business card carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The address.
    pub ip: IpAddr,
    /// Length of the subnet prefix in bits.
    pub prefix: u8,
    /// UDP port; 0 where there is no UDP.
    pub port: u16,
    /// Largest packet (UDP payload) that the interface carries, in bytes.
    pub packet_size: u16,
    /// Number of the machine (network namespace) that has the address. It tells equal addresses on different
    /// hosts apart.
    pub host: u32,
    /// Index of the interface on this machine. It is not in the endpoint address (0 in a peer's candidate).
    pub interface: u32,
    /// Index of the interface among those that are offered, from 0. The first is the best, as far as this
    /// machine can tell.
    pub rail: u8,
    /// Speed of the interface in Mb/s; 0 if the interface does not say.
    pub speed: u32,
}

impl Candidate {
    /// Returns the subnet of the address, as `10.0.0.0/24`.
    pub fn subnet(&self) -> String {
        let first = network(self.ip, self.prefix);
        let left = |bits: u8| first.checked_shl(u32::from(bits.saturating_sub(self.prefix))).unwrap_or(0);
        let ip: IpAddr = match self.ip {
            IpAddr::V4(_) => Ipv4Addr::from(left(32) as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from(left(128)).into(),
        };
        format!("{ip}/{}", self.prefix)
    }

    /// Returns the socket address, for one of this machine's own addresses: an address that only its link has
    /// needs the interface.
    pub fn socket_address(&self) -> SocketAddr {
        reached_by(self.ip, self.port, self.interface)
    }

    /// Returns the name of the interface, for one of this machine's own addresses.
    pub fn interface_name(&self) -> String {
        sys::interface_name(self.interface).unwrap_or_else(|| format!("interface {}", self.interface))
    }
}

/// The endpoint address of a process: the facts that its peers need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointAddress {
    /// Addresses, best first, at most [`CANDIDATES_MAX`].
    pub candidates: Vec<Candidate>,
    /// Full packets that the receive buffer holds, of all senders together.
    pub window_packets: u32,
}

impl EndpointAddress {
    /// Encodes the endpoint address as compact text of `[0-9a-f.]`: host, window, then each address as
    /// family, address, prefix, port, packet size, rail, speed.
    pub fn encode(&self) -> String {
        let host = self.candidates.first().map_or(0, |candidate| candidate.host);
        let mut text = format!("{host:08x}.{:x}", self.window_packets);
        for candidate in &self.candidates {
            let written = match candidate.ip {
                IpAddr::V4(ip) => write!(text, ".4{:08x}", u32::from(ip)),
                IpAddr::V6(ip) => write!(text, ".6{:032x}", u128::from(ip)),
            };
            written.expect("strings accept all text");
            let Candidate { prefix, port, packet_size, rail, speed, .. } = candidate;
            write!(text, "{prefix:02x}{port:04x}{packet_size:04x}{rail:x}{speed:06x}")
                .expect("strings accept all text");
        }
        text
    }

    /// Decodes the text of [`Self::encode`].
    ///
    /// # Errors
    /// The text is not an endpoint address, or a value in it is out of range.
    pub fn decode(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| Error::Invalid(format!("this is not the business card of a UDP link: {text:?}")))
    }
}

fn parse(text: &str) -> Option<EndpointAddress> {
    let mut fields = text.split('.');
    let host = parse_hex(fields.next()?, 8)? as u32;
    let window = fields.next().filter(|field| field.len() <= 8)?;
    let window_packets = parse_hex(window, window.len())? as u32;
    let candidates = fields.map(|field| parse_candidate(field, host)).collect::<Option<Vec<_>>>()?;
    (candidates.len() <= CANDIDATES_MAX).then_some(EndpointAddress { candidates, window_packets })
}

fn parse_candidate(field: &str, host: u32) -> Option<Candidate> {
    let (digits, bits) = match field.as_bytes().first()? {
        b'4' => (8, 32),
        b'6' => (32, 128),
        _ => return None,
    };
    let number = |start: usize, len: usize| parse_hex(field.get(start..start + len)?, len);
    let ip = number(1, digits)?;
    let ip = if digits == 8 { IpAddr::V4(Ipv4Addr::from(ip as u32)) } else { IpAddr::V6(Ipv6Addr::from(ip)) };
    let rest = 1 + digits;
    let (prefix, port, packet_size) = (number(rest, 2)?, number(rest + 2, 4)?, number(rest + 6, 4)?);
    let (rail, speed) = (number(rest + 10, 1)? as u8, number(rest + 11, 6)? as u32);
    let size_fits = (PACKET_SIZE_MIN..=PACKET_SIZE_MAX).contains(&(packet_size as usize));
    if field.len() != rest + 17 || prefix > bits || !size_fits || usize::from(rail) >= CANDIDATES_MAX {
        return None;
    }
    let (prefix, port, packet_size) = (prefix as u8, port as u16, packet_size as u16);
    Some(Candidate { ip, prefix, port, packet_size, host, interface: 0, rail, speed })
}

/// Parses exactly `len` lower-case hexadecimal digits (`from_str_radix` alone would also take a sign).
fn parse_hex(text: &str, len: usize) -> Option<u128> {
    let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (len > 0 && text.len() == len && digits).then(|| u128::from_str_radix(text, 16).ok())?
}

/// The addresses that a pair of processes has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The address of this end.
    pub own: Candidate,
    /// The address of the other end.
    pub peer: Candidate,
    /// The socket address to send to.
    pub to: SocketAddr,
    /// The largest packet that both ends carry, in bytes.
    pub packet_size: usize,
}

/// The fit of two addresses, worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The same link, as far as an end can see: every link has these addresses.
    LinkLocal,
    /// Presumably a router between the addresses.
    Routed,
    /// Loopback addresses of the same machine.
    Loopback,
    /// The same subnet. A longer prefix says more.
    Subnet(u8),
    /// The same address of the same machine.
    SameHost,
}

/// Chooses the addresses by which this process reaches a peer: the same machine's own address, else a common
/// subnet, else a routed one.
///
/// # Errors
/// A sentence that names both sides' addresses and why no pair of them fits.
pub fn choose_peer_address(own: &[Candidate], peer: &[Candidate]) -> Result<Pair, String> {
    Ok(pair_rails(own, peer, true)?.remove(0))
}

/// Joins the interfaces of two processes to pairs, the best pair first, at least one and at most
/// [`RAILS_MAX`].
///
/// The first pair has the addresses that fit best. Every other interface is paired if it shares a subnet with
/// one of the peer. Both ends come to the same pairs when `first` is true at exactly one of them.
///
/// # Errors
/// As for [`choose_peer_address`].
pub fn pair_rails(own: &[Candidate], peer: &[Candidate], first: bool) -> Result<Vec<Pair>, String> {
    let mut fitting: Vec<(Fit, Pair, (usize, usize))> = Vec::new();
    let mut refusal = "one side offers no address";
    for (i, near) in own.iter().enumerate() {
        for (j, far) in peer.iter().enumerate() {
            match fit(near, far) {
                Ok(fit) => fitting.push((fit, Pair::of(near, far), if first { (i, j) } else { (j, i) })),
                Err(why) => refusal = why,
            }
        }
    }
    weft_ordered::sort_by_key(&mut fitting, |(fit, pair, indices)| (Reverse(*fit), Reverse(pair.speed()), *indices));
    let mut pairs: Vec<Pair> = Vec::new();
    for (fit, pair, _) in fitting {
        let is_free = pairs.iter().all(|taken| taken.own.rail != pair.own.rail && taken.peer.rail != pair.peer.rail);
        let leads_elsewhere = matches!(fit, Fit::Subnet(_) | Fit::LinkLocal);
        if pairs.is_empty() || is_free && leads_elsewhere && pairs.len() < RAILS_MAX {
            pairs.push(pair);
        }
    }
    if pairs.is_empty() {
        return Err(format!(
            "no way to the peer: {refusal} (own addresses: {}; the peer's: {}); WEFT_INTERFACE selects interfaces",
            list(own),
            list(peer)
        ));
    }
    // This end's order counts here; only the set of pairs must be the same at both ends.
    weft_ordered::sort_by_key(&mut pairs, |pair| pair.own.rail);
    Ok(pairs)
}

/// The pair that is used only while none of `pairs` leads to the peer: two interfaces that are in no pair and
/// between which a router may be. There is one only where `pairs` have common subnets, because equal subnets
/// of two hosts may be private to each. Both ends come to the same pair, as with [`pair_rails`].
pub fn standby_pair(pairs: &[Pair], own: &[Candidate], peer: &[Candidate], first: bool) -> Option<Pair> {
    let has_subnet = pairs.iter().any(|pair| matches!(fit(&pair.own, &pair.peer), Ok(Fit::Subnet(_))));
    if !has_subnet || pairs.len() >= RAILS_MAX {
        return None;
    }
    let is_free = |near: &Candidate, far: &Candidate| {
        pairs.iter().all(|pair| pair.own.rail != near.rail && pair.peer.rail != far.rail)
    };
    let all = own.iter().enumerate().flat_map(|near| peer.iter().enumerate().map(move |far| (near, far)));
    let routed = all.filter(|((_, near), (_, far))| is_free(near, far) && fit(near, far) == Ok(Fit::Routed));
    let place = |(i, j): (usize, usize)| if first { (i, j) } else { (j, i) };
    let best = routed.min_by_key(|((i, near), (j, far))| (Reverse(Pair::of(near, far).speed()), place((*i, *j))));
    best.map(|((_, near), (_, far))| Pair::of(near, far))
}

impl Pair {
    fn of(own: &Candidate, peer: &Candidate) -> Self {
        let to = reached_by(peer.ip, peer.port, own.interface);
        Self { own: *own, peer: *peer, to, packet_size: usize::from(own.packet_size.min(peer.packet_size)) }
    }

    /// Returns the speed that both ends carry, in Mb/s; 0 if one of them does not say.
    pub fn speed(&self) -> u32 {
        self.own.speed.min(self.peer.speed)
    }
}

/// Returns the socket address of an address and a port behind this interface.
fn reached_by(ip: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, port, 0, interface).into(),
        ip => SocketAddr::new(ip, port),
    }
}

fn fit(own: &Candidate, peer: &Candidate) -> Result<Fit, &'static str> {
    if own.ip.is_ipv4() != peer.ip.is_ipv4() {
        return Err("one side has IPv4 only, the other IPv6 only");
    }
    match (own.ip.is_loopback(), peer.ip.is_loopback()) {
        (true, true) if own.host == peer.host => return Ok(Fit::Loopback),
        (false, false) => {}
        (true, true) => return Err("both sides have loopback addresses only, but they are on different hosts"),
        _ => return Err("one side has a loopback address only"),
    }
    if own.ip == peer.ip {
        let refusal = "both hosts have the same address";
        return if own.host == peer.host { Ok(Fit::SameHost) } else { Err(refusal) };
    }
    match (is_link_local(own.ip), is_link_local(peer.ip)) {
        (true, true) => return Ok(Fit::LinkLocal),
        (false, false) => {}
        _ => return Err("a link-local address reaches its own link only"),
    }
    let prefix = own.prefix.min(peer.prefix);
    Ok(if prefix > 0 && network(own.ip, prefix) == network(peer.ip, prefix) {
        Fit::Subnet(prefix)
    } else {
        Fit::Routed
    })
}

/// Returns the first `prefix` bits of an address.
fn network(ip: IpAddr, prefix: u8) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)).checked_shr(32 - u32::from(prefix.min(32))).unwrap_or(0),
        IpAddr::V6(ip) => u128::from(ip).checked_shr(128 - u32::from(prefix.min(128))).unwrap_or(0),
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn list(candidates: &[Candidate]) -> String {
    let names: Vec<String> =
        candidates.iter().map(|candidate| format!("{}/{}", candidate.ip, candidate.prefix)).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// The interfaces that the user asks for with `WEFT_INTERFACE`.
#[derive(Default)]
pub(super) struct Selection {
    /// The interfaces to use, the better ones first; empty: all.
    only: Vec<Term>,
    /// The interfaces not to use.
    but: Vec<Term>,
}

pub(super) enum Term {
    Name(String),
    Subnet(IpAddr, u8),
}

impl Selection {
    /// Parses names and subnets separated by commas, with `!` in front of those that are not wanted. An empty
    /// text means all.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let mut selection = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (terms, word) = match word.strip_prefix('!') {
                Some(word) => (&mut selection.but, word),
                None => (&mut selection.only, word),
            };
            terms.push(match word.split_once('/') {
                None => Term::Name(word.to_owned()),
                Some((ip, prefix)) => {
                    let invalid =
                        || Error::Invalid(format!("WEFT_INTERFACE: {word:?} is neither an interface nor a subnet"));
                    let ip: IpAddr = ip.parse().map_err(|_| invalid())?;
                    let bits = if ip.is_ipv4() { 32 } else { 128 };
                    Term::Subnet(ip, prefix.parse().ok().filter(|&prefix| prefix <= bits).ok_or_else(invalid)?)
                }
            });
        }
        Ok(selection)
    }

    /// Returns the position of an interface among those that are asked for; none if it is not asked for.
    fn position(&self, interface: &Interface) -> Option<usize> {
        self.only.iter().position(|term| term.fits(interface))
    }
}

impl Term {
    fn fits(&self, interface: &Interface) -> bool {
        match self {
            Term::Name(name) => *name == interface.name,
            Term::Subnet(ip, prefix) => {
                ip.is_ipv4() == interface.ip.is_ipv4() && network(*ip, *prefix) == network(interface.ip, *prefix)
            }
        }
    }
}

/// Prefixes of the names of bridges that managers of containers and virtual machines make on every host with
/// the same addresses.
const PRIVATE_BRIDGES: [&str; 8] = ["docker", "virbr", "br-", "lxcbr", "lxdbr", "cni", "podman", "veth"];

/// An address of this machine, and whether it is offered to peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Considered {
    /// Name of the interface.
    pub interface: String,
    /// The address.
    pub ip: IpAddr,
    /// Length of its subnet prefix in bits.
    pub prefix: u8,
    /// Bytes of an IP packet, header included; 0 when the interface does not say.
    pub mtu: u32,
    /// The candidate (its port is not known yet), or the reason why there is none. The reason completes the
    /// sentence "it is not offered: …".
    pub verdict: Result<Candidate, String>,
}

type IsOfKind = fn(&IpAddr) -> bool;

/// Kinds of addresses, best first. Only addresses of the best kind that is there are offered.
const KINDS: [(&str, IsOfKind); 6] = [
    ("IPv4 addresses", |ip| ip.is_ipv4() && !ip.is_loopback() && !is_link_local(*ip)),
    ("IPv6 addresses", |ip| ip.is_ipv6() && !ip.is_loopback() && !is_link_local(*ip)),
    ("link-local IPv4 addresses", |ip| ip.is_ipv4() && !ip.is_loopback()),
    ("link-local IPv6 addresses", |ip| ip.is_ipv6() && !ip.is_loopback()),
    ("loopback's IPv4 addresses", |ip| ip.is_ipv4()),
    ("loopback's IPv6 addresses", |_| true),
];

/// Returns every address with its verdict, in the kernel's order.
pub(super) fn consider(interfaces: &[Interface], selection: &Selection, host: u32) -> Vec<Considered> {
    let mut all: Vec<Considered> = interfaces
        .iter()
        .map(|interface| Considered {
            interface: interface.name.clone(),
            ip: interface.ip,
            prefix: interface.prefix,
            mtu: interface.mtu,
            verdict: refusal(interface, selection).map_or_else(|| Ok(candidate(interface, host)), Err),
        })
        .collect();
    let is_there = |kind: &&(&str, IsOfKind)| all.iter().any(|one| one.verdict.is_ok() && kind.1(&one.ip));
    let Some((name, is_best)) = KINDS.iter().find(is_there) else { return all };
    let mut offered = 0;
    for one in all.iter_mut().filter(|one| one.verdict.is_ok()) {
        if !is_best(&one.ip) {
            one.verdict = Err(format!("there are {name}, which come first"));
        } else if offered == CANDIDATES_MAX {
            one.verdict = Err(format!("{CANDIDATES_MAX} others are offered already"));
        } else {
            offered += 1;
        }
    }
    rank(&mut all, interfaces, selection);
    all
}

/// Numbers the offered interfaces in the order in which the user asks for them; else the faster ones first,
/// in the kernel's order.
fn rank(all: &mut [Considered], interfaces: &[Interface], selection: &Selection) {
    let mut order: Vec<(usize, Reverse<u32>, u32)> = Vec::new();
    for (one, interface) in all.iter().zip(interfaces).filter(|(one, _)| one.verdict.is_ok()) {
        let Interface { index, speed, .. } = *interface;
        let position = selection.position(interface).unwrap_or(0);
        debug_assert!(one.interface == interface.name, "both lists have the same order");
        if order.iter().all(|known| known.2 != index) {
            order.push((position, Reverse(speed), index));
        }
    }
    // Sorting keeps the order of equal ones.
    weft_ordered::sort_by_key(&mut order, |(position, speed, _)| (*position, *speed));
    for candidate in all.iter_mut().filter_map(|one| one.verdict.as_mut().ok()) {
        let rail = order.iter().position(|(_, _, index)| *index == candidate.interface);
        candidate.rail = rail.unwrap_or(0) as u8;
    }
}

/// Returns the addresses worth offering, all of one kind; their port is not known yet. If there is none, the
/// error says why each was left out.
pub(super) fn select(interfaces: &[Interface], selection: &Selection, host: u32) -> Result<Vec<Candidate>, Error> {
    let all = consider(interfaces, selection, host);
    let mut chosen: Vec<Candidate> = all.iter().filter_map(|one| one.verdict.clone().ok()).collect();
    weft_ordered::sort_by_key(&mut chosen, |candidate| candidate.rail);
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let said = |one: &Considered| Some(format!("{} {}: {}", one.interface, one.ip, one.verdict.as_ref().err()?));
    let reasons: Vec<String> = all.iter().filter_map(said).collect();
    let seen = if reasons.is_empty() { "there are none".into() } else { reasons.join("; ") };
    Err(Error::Unavailable(format!("no network interface can be used: {seen}")))
}

fn candidate(interface: &Interface, host: u32) -> Candidate {
    let Interface { ip, prefix, index, speed, .. } = *interface;
    let packet_size = packet_size(interface).min(PACKET_SIZE_MAX) as u16;
    Candidate { ip, prefix, port: 0, packet_size, host, interface: index, rail: 0, speed }
}

/// Returns the bytes that the interface's MTU leaves after the IP and UDP headers.
fn packet_size(interface: &Interface) -> usize {
    let headers = if interface.ip.is_ipv4() { 28 } else { 48 };
    (interface.mtu as usize).saturating_sub(headers)
}

fn refusal(interface: &Interface, selection: &Selection) -> Option<String> {
    if !interface.is_up {
        return Some("it is down".into());
    }
    if !interface.has_carrier {
        return Some("it has no carrier".into());
    }
    if packet_size(interface) < PACKET_SIZE_MIN {
        return Some(format!("its MTU of {} bytes is too small", interface.mtu));
    }
    if selection.but.iter().any(|term| term.fits(interface)) {
        return Some("WEFT_INTERFACE excludes it".into());
    }
    if !selection.only.is_empty() {
        return selection.position(interface).is_none().then(|| "WEFT_INTERFACE does not name it".into());
    }
    let private = PRIVATE_BRIDGES.iter().find(|bridge| interface.name.starts_with(**bridge))?;
    Some(format!("it looks like a bridge for containers or virtual machines ({private}…)"))
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
