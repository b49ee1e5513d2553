//! Datagrams between nodes.
use crate::Error;
use crate::datagrams::{Datagrams, Outcome};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

/// How the socket is made.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Interfaces to use (`WEFT_INTERFACE`): names or subnets separated by commas, e.g. `eth0,10.1.0.0/16`. None: all that fit.
    pub interfaces: Option<String>,
    /// Upper bound of the packet size in bytes. None: as the interfaces' MTU allows.
    pub packet_size_max: Option<usize>,
}

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
    /// Addresses, best first.
    pub candidates: Vec<Candidate>,
    /// Full packets the receive buffer holds.
    pub window_packets: u32,
}

impl Card {
    /// Compact text of `[0-9a-f.]`.
    pub fn encode(&self) -> String {
        todo!()
    }
    /// The inverse of `encode`.
    pub fn decode(_text: &str) -> Result<Self, Error> {
        todo!()
    }
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
    /// The smaller of both ends, bytes.
    pub packet_size: usize,
}

/// Chooses the pair of addresses; Err: one sentence why there is none.
pub fn choose_peer_address(_own: &[Candidate], _peer: &[Candidate]) -> Result<Pair, String> {
    todo!()
}

/// A bound UDP socket.
pub struct Udp(());
impl Udp {
    /// Binds.
    pub fn bind(_settings: &Settings) -> Result<Self, Error> {
        todo!()
    }
    /// The card.
    pub fn card(&self) -> Card {
        todo!()
    }
    /// Counters.
    pub fn counters(&self) -> &Counters {
        todo!()
    }
    /// One-line warnings for the user.
    pub fn warnings(&self) -> &[String] {
        todo!()
    }
}

/// What happened on a socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Packets the kernel took.
    pub packets_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Send buffer full.
    pub would_block: u64,
    /// Refused by firewall, full queue, no route.
    pub dropped: u64,
    /// Larger than the path.
    pub too_large: u64,
    /// Arrived larger than a packet may be.
    pub truncated: u64,
}

impl Datagrams for Udp {
    fn send(&mut self, _to: &SocketAddr, _packet: &[u8]) -> io::Result<Outcome> {
        todo!()
    }
    fn receive(&mut self, _on_packet: &mut dyn FnMut(&[u8]), _limit: usize) -> usize {
        todo!()
    }
    fn fd(&self) -> RawFd {
        todo!()
    }
    fn packet_size(&self) -> usize {
        todo!()
    }
}
