//! Addresses: which of this machine's are offered, how they are written on the business card, which pair two processes use.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::Error;
use crate::sys::Interface;

/// Largest packet in bytes: a jumbo frame fits, and so does a good part of loopback's 64 KiB, with bounded buffers.
pub const PACKET_SIZE_MAX: usize = 16 << 10;
/// Smallest packet that is worth having: what IPv4 promises of every link (576 bytes) less headers and options.
pub const PACKET_SIZE_MIN: usize = 508;
/// Addresses on one business card.
pub const CANDIDATES_MAX: usize = 8;

/// One address at which a process can be reached, as the business card carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The address.
    pub ip: IpAddr,
    /// Length of its subnet prefix in bits.
    pub prefix: u8,
    /// UDP port.
    pub port: u16,
    /// Largest packet (UDP payload) the interface carries, bytes.
    pub packet_size: u16,
    /// Which machine (network namespace) it belongs to: equal addresses on different hosts are told apart.
    pub host: u32,
    /// Index of the interface on this machine; not on the card (0 in a peer's candidate).
    pub interface: u32,
}

/// What other processes need to know about this end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Addresses, best first, at most [`CANDIDATES_MAX`].
    pub candidates: Vec<Candidate>,
    /// Full packets the receive buffer holds, all senders together.
    pub window_packets: u32,
}

impl Card {
    /// Compact text of `[0-9a-f.]`: host, window, then each address as family, address, prefix, port, packet size.
    pub fn encode(&self) -> String {
        let host = self.candidates.first().map_or(0, |candidate| candidate.host);
        let mut text = format!("{host:08x}.{:x}", self.window_packets);
        for candidate in &self.candidates {
            let written = match candidate.ip {
                IpAddr::V4(ip) => write!(text, ".4{:08x}", u32::from(ip)),
                IpAddr::V6(ip) => write!(text, ".6{:032x}", u128::from(ip)),
            };
            written.expect("strings accept all text");
            let Candidate { prefix, port, packet_size, .. } = candidate;
            write!(text, "{prefix:02x}{port:04x}{packet_size:04x}").expect("strings accept all text");
        }
        text
    }

    /// The inverse of [`Self::encode`].
    ///
    /// # Errors
    /// The text is not a card, or a value on it is out of range.
    pub fn decode(text: &str) -> Result<Self, Error> {
        parse_card(text).ok_or_else(|| Error::Invalid(format!("this is not the business card of a UDP link: {text:?}")))
    }
}

fn parse_card(text: &str) -> Option<Card> {
    let mut fields = text.split('.');
    let host = parse_hex(fields.next()?, 8)? as u32;
    let window = fields.next().filter(|field| field.len() <= 8)?;
    let window_packets = parse_hex(window, window.len())? as u32;
    let candidates = fields.map(|field| parse_candidate(field, host)).collect::<Option<Vec<_>>>()?;
    (candidates.len() <= CANDIDATES_MAX).then_some(Card { candidates, window_packets })
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
    let size_fits = (PACKET_SIZE_MIN..=PACKET_SIZE_MAX).contains(&(packet_size as usize));
    if field.len() != rest + 10 || prefix > bits || port == 0 || !size_fits {
        return None;
    }
    Some(Candidate { ip, prefix: prefix as u8, port: port as u16, packet_size: packet_size as u16, host, interface: 0 })
}

/// Exactly `len` lower-case hexadecimal digits (`from_str_radix` alone would also take a sign).
fn parse_hex(text: &str, len: usize) -> Option<u128> {
    let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (len > 0 && text.len() == len && digits).then(|| u128::from_str_radix(text, 16).ok())?
}

/// Addresses chosen for one pair of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// This end.
    pub own: Candidate,
    /// The other end.
    pub peer: Candidate,
    /// Where to send.
    pub to: SocketAddr,
    /// The largest packet both ends carry, bytes.
    pub packet_size: usize,
}

/// How well two addresses fit, worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The same link, as far as one can see: every link has these addresses.
    LinkLocal,
    /// A router between them, or so we hope.
    Routed,
    /// Both are this machine's loopback.
    Loopback,
    /// The same subnet; a longer prefix says more.
    Subnet(u8),
    /// One address of one machine.
    SameHost,
}

/// Chooses the addresses by which this process reaches a peer: one machine's own address, else a common subnet, else a routed one.
///
/// # Errors
/// One sentence that names both sides' addresses and why no pair of them fits.
pub fn choose_peer_address(own: &[Candidate], peer: &[Candidate]) -> Result<Pair, String> {
    let mut best: Option<(Fit, Candidate, Candidate)> = None;
    let mut refusal = "one side offers no address";
    for &near in own {
        for &far in peer {
            match fit(&near, &far) {
                Ok(fit) if best.is_none_or(|(other, ..)| fit > other) => best = Some((fit, near, far)),
                Ok(_) => {}
                Err(why) => refusal = why,
            }
        }
    }
    let Some((_, own, peer)) = best else {
        return Err(format!(
            "no way to the peer: {refusal} (own addresses: {}; the peer's: {}); WEFT_INTERFACE selects interfaces",
            list(own),
            list(peer)
        ));
    };
    let to = match peer.ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => SocketAddrV6::new(ip, peer.port, 0, own.interface).into(),
        ip => SocketAddr::new(ip, peer.port),
    };
    Ok(Pair { own, peer, to, packet_size: usize::from(own.packet_size.min(peer.packet_size)) })
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

/// The first `prefix` bits.
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

/// What the user asks for with `WEFT_INTERFACE`.
pub(super) enum Selection {
    Any,
    Only(Vec<Term>),
}

pub(super) enum Term {
    Name(String),
    Subnet(IpAddr, u8),
}

impl Selection {
    /// Names and subnets separated by commas; empty means any.
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let mut terms = Vec::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
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
        Ok(if terms.is_empty() { Self::Any } else { Self::Only(terms) })
    }

    fn names(&self, interface: &Interface) -> bool {
        let Self::Only(terms) = self else { return false };
        terms.iter().any(|term| match term {
            Term::Name(name) => *name == interface.name,
            Term::Subnet(ip, prefix) => {
                ip.is_ipv4() == interface.ip.is_ipv4() && network(*ip, *prefix) == network(interface.ip, *prefix)
            }
        })
    }
}

/// Bridges that container and virtual machine managers make on every host with the same addresses.
const PRIVATE_BRIDGES: [&str; 8] = ["docker", "virbr", "br-", "lxcbr", "lxdbr", "cni", "podman", "veth"];

/// One address of this machine, and whether it is offered to peers.
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
    /// The candidate (its port is not known yet), or why there is none: completes the sentence "it is not offered: …".
    pub verdict: Result<Candidate, String>,
}

type IsOfKind = fn(&IpAddr) -> bool;

/// Kinds of addresses, best first; only those of the best kind that is there are offered.
const KINDS: [(&str, IsOfKind); 6] = [
    ("IPv4 addresses", |ip| ip.is_ipv4() && !ip.is_loopback() && !is_link_local(*ip)),
    ("IPv6 addresses", |ip| ip.is_ipv6() && !ip.is_loopback() && !is_link_local(*ip)),
    ("link-local IPv4 addresses", |ip| ip.is_ipv4() && !ip.is_loopback()),
    ("link-local IPv6 addresses", |ip| ip.is_ipv6() && !ip.is_loopback()),
    ("loopback's IPv4 addresses", |ip| ip.is_ipv4()),
    ("loopback's IPv6 addresses", |_| true),
];

/// Every address with its verdict, in the kernel's order.
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
    all
}

/// Addresses worth offering, of one kind; the port is not known yet. Also why the others were left out.
pub(super) fn select(interfaces: &[Interface], selection: &Selection, host: u32) -> Result<Vec<Candidate>, Error> {
    let all = consider(interfaces, selection, host);
    let chosen: Vec<Candidate> = all.iter().filter_map(|one| one.verdict.clone().ok()).collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let said = |one: &Considered| Some(format!("{} {}: {}", one.interface, one.ip, one.verdict.as_ref().err()?));
    let reasons: Vec<String> = all.iter().filter_map(said).collect();
    let seen = if reasons.is_empty() { "there are none".into() } else { reasons.join("; ") };
    Err(Error::Unavailable(format!("no network interface can be used: {seen}")))
}

fn candidate(interface: &Interface, host: u32) -> Candidate {
    let Interface { ip, prefix, index, .. } = *interface;
    let packet_size = packet_size(interface).min(PACKET_SIZE_MAX) as u16;
    Candidate { ip, prefix, port: 0, packet_size, host, interface: index }
}

/// What the interface's MTU leaves after the IP and UDP headers.
fn packet_size(interface: &Interface) -> usize {
    let headers = if interface.ip.is_ipv4() { 28 } else { 48 };
    (interface.mtu as usize).saturating_sub(headers)
}

fn refusal(interface: &Interface, selection: &Selection) -> Option<String> {
    let named = selection.names(interface);
    if !interface.is_up {
        return Some("it is down".into());
    }
    if !interface.has_carrier {
        return Some("it has no carrier".into());
    }
    if packet_size(interface) < PACKET_SIZE_MIN {
        return Some(format!("its MTU of {} bytes is too small", interface.mtu));
    }
    if matches!(selection, Selection::Only(_)) {
        return (!named).then(|| "WEFT_INTERFACE does not name it".into());
    }
    let private = PRIVATE_BRIDGES.iter().find(|bridge| interface.name.starts_with(**bridge))?;
    Some(format!("it looks like a bridge for containers or virtual machines ({private}…)"))
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
