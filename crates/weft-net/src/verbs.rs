//! RDMA devices (InfiniBand, RoCE, iWARP) by rdma-core: connections of RDMA CM, reliable queue pairs, packets that are sent into receives which all peers
//! share, and remote writes and reads for large messages and windows. A peer is a connection of `weft_core::connection`: numbers and tags.
//!
//! | module | what it does |
//! |---|---|
//! | `api` | the C interfaces, opened at run time: who does not name the link does not need the libraries |
//! | `pairing` | how two peers come to one connection: a pure state machine |
//! | `limits` | what a device is asked for: pure functions |
//! | `credits` | how many packets may be on their way: pure state machines |
//! | `wire` | what the two ends say to each other |
//! | `memory` | registered memory |
//! | `ring` | the fast path: small packets that peers write into a ring, found by looking at memory |
//! | `device` | the queues: `connections`, `sending`, `receiving`, `accesses` to memory of peers, and multicast `groups` |
//!
//! iWARP tells a sender nothing of a receiver that has no receive posted: the connection ends. So a sender is granted so many packets, and each message
//! says how many more.

mod api;
mod credits;
mod device;
mod limits;
mod memory;
mod pairing;
mod ring;
mod status;
mod wire;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::RawFd;

use weft_engine::memory::UserData;

use crate::Error;
use crate::datagrams::{
    Address, Arrival, Begun, Datagrams, Exposure, Outcome, Placement, Proof, RemoteMemory, VerbsAddress, wrong_address,
};
use crate::udp;
use api::Library;
use device::{Bound, Device, Rings, Use};
pub use limits::CONNECTIONS_MAX;
use memory::Access;
pub use status::{DeviceStatus, PortStatus, locked_memory, status};

/// Smaller messages are as quick as packets: what is announced costs a key more to tell, and a frame at the end.
const PLACED_MIN: u64 = 16 << 10;
/// All one-sided operations that can be: each is one work request then, and neither a message nor the target's processor is needed.
const ONE_SIDED_MIN: u64 = 1;
/// Bytes of one access, at most.
const ACCESS_MAX: u64 = 1 << 30;
/// Packets to groups that each look takes, if there are so many, whatever has come from peers.
const GROUP_SHARE: usize = 16;
/// Stands in the place of a peer's number in a group's address.
const GROUP: u32 = u32::MAX;
/// How a card says that remote writes and reads are used, or are not.
const PLACING: &str = "placing";
const PACKETS: &str = "packets";

/// By which operations peers are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// All of them, rings for small messages for peers that are talked to much.
    #[default]
    Auto,
    /// All of them, rings from the first message on.
    Rdma,
    /// Sends and receives only.
    SendReceive,
    /// Messages by sends and receives, puts and gets by remote writes and reads.
    OneSided,
}

impl Mode {
    /// All of them by the names that `WEFT_VERBS_MODE` gives them.
    pub const ALL: [(&str, Self); 4] =
        [("auto", Self::Auto), ("rdma", Self::Rdma), ("sendrecv", Self::SendReceive), ("one-sided", Self::OneSided)];
}

/// How the device is used.
#[derive(Clone, Debug)]
pub struct Settings {
    /// As for UDP: the first interface that has an RDMA device is used.
    pub interfaces: Option<String>,
    /// By which operations.
    pub mode: Mode,
    /// Neither messages nor windows are written to memory of peers, whatever the mode.
    pub without_placement: bool,
    /// Connections that are open at a time.
    pub connections: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { interfaces: None, mode: Mode::Auto, without_placement: false, connections: CONNECTIONS_MAX }
    }
}

/// What peers need to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Where this process listens.
    pub listens: SocketAddr,
    /// Who has not read the card does not know it: it comes with each request for a connection.
    pub token: u64,
    /// Peers may write to memory here, and this end to theirs.
    pub places: bool,
    /// Bytes of a packet.
    pub packet_size: u16,
}

impl Card {
    /// As it is told to peers: without commas and spaces.
    pub fn encode(&self) -> String {
        let Self { listens, token, places, packet_size } = self;
        let kind = if *places { PLACING } else { PACKETS };
        format!("{kind};{packet_size};{token:x};{listens}")
    }

    /// The inverse. The text is a peer's: it is believed in nothing.
    ///
    /// # Errors
    /// It says something else.
    pub fn decode(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Peer(format!("'{text}' is no address of an RDMA device"));
        let parts: Vec<&str> = text.splitn(4, ';').collect();
        let [kind, packet_size, token, listens] = parts[..] else { return Err(wrong()) };
        let places = match kind {
            PLACING => true,
            PACKETS => false,
            _ => return Err(wrong()),
        };
        let packet_size = packet_size.parse().map_err(|_| wrong())?;
        let token = u64::from_str_radix(token, 16).map_err(|_| wrong())?;
        let listens: SocketAddr = listens.parse().map_err(|_| wrong())?;
        let fits = usize::from(packet_size) >= udp::PACKET_SIZE_MIN && listens.port() != 0;
        fits.then_some(Self { listens, token, places, packet_size }).ok_or_else(wrong)
    }
}

/// The device that would be used, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Its name, e.g. `mlx5_0`.
    pub device: String,
    /// Which of its ports.
    pub port: u8,
    /// Its interface.
    pub interface: String,
    /// The address that peers connect to.
    pub address: std::net::IpAddr,
    /// The number of its interface.
    index: u32,
}

fn library() -> Result<&'static Library, Error> {
    let missing = |why| {
        Error::Unavailable(format!(
            "rdma-core is not to be had ({why}): install it (Debian: libibverbs1, librdmacm1 and ibverbs-providers), or name another link in \
             WEFT_LINK"
        ))
    };
    Library::get().map_err(missing)
}

/// The first interface behind which there is a device.
fn choose(library: &'static Library, settings: &Settings) -> Result<(Chosen, Bound), Error> {
    let wanted = udp::Settings { interfaces: settings.interfaces.clone(), packet_size_max: None };
    let mut refusals = Vec::new();
    for candidate in udp::candidates(&wanted)? {
        let interface = candidate.interface_name();
        match Bound::new(library, candidate.ip) {
            Ok(bound) => {
                let (device, port) = bound.device();
                return Ok((
                    Chosen { device, port, interface, address: candidate.ip, index: candidate.interface },
                    bound,
                ));
            }
            Err(why) => refusals.push(format!("{interface}: {why}")),
        }
    }
    let why = refusals.join("; ");
    let has = status::summary(library);
    Err(Error::Unavailable(format!(
        "no interface that may be used leads to an RDMA device ({why}); {has}: WEFT_INTERFACE chooses among interfaces, and an RDMA device needs an \
         interface with an address of IP"
    )))
}

/// What the settings would make of this machine's devices.
///
/// # Errors
/// There are no libraries, or there is no device: one sentence.
pub fn consider(settings: &Settings) -> Result<Chosen, Error> {
    Ok(choose(library()?, settings)?.0)
}

/// An open device.
pub struct Verbs {
    device: Device,
    chosen: Chosen,
    /// Messages of so many bytes are written to the receiver's memory.
    bytes_min: u64,
    packet_size: usize,
}

impl Verbs {
    /// Opens the device that the settings mean.
    ///
    /// # Errors
    /// There is none, or it does not do what is needed: one sentence that names it and the call.
    pub fn open(settings: &Settings) -> Result<Self, Error> {
        let library = library()?;
        let (chosen, bound) = choose(library, settings)?;
        // Nobody can guess it.
        let token = RandomState::new().hash_one((std::process::id(), crate::clock::now().0));
        let how = Use {
            connections: settings.connections,
            places: settings.mode != Mode::SendReceive && !settings.without_placement,
            rings: match settings.mode {
                Mode::Auto => Rings::WherePaid,
                Mode::Rdma => Rings::Everywhere,
                Mode::SendReceive | Mode::OneSided => Rings::Nowhere,
            },
            token,
        };
        let device = Device::open(library, bound, chosen.address, &how)
            .map_err(|why| Error::Unavailable(format!("the RDMA device {} cannot be used: {why}", chosen.device)))?;
        let bytes_min = if settings.mode == Mode::OneSided { u64::MAX } else { PLACED_MIN };
        Ok(Self { device, chosen, bytes_min, packet_size: limits::MESSAGE_BYTES - wire::HEADER })
    }

    /// What peers need to know.
    pub fn card(&self) -> Card {
        let Device { name, token, places, .. } = &self.device;
        Card { listens: *name, token: *token, places: *places, packet_size: self.packet_size as u16 }
    }

    /// Where this end is.
    pub fn own_address(&self) -> Address {
        Address::Verbs(VerbsAddress { peer: u32::MAX, listens: self.device.name })
    }

    /// The device and its interface.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// In words: what the connections are made of.
    pub fn describe(&self) -> String {
        let Device { is_iwarp, limits, port, device, rings, .. } = &self.device;
        let kind = if *is_iwarp { "iWARP" } else { "InfiniBand or RoCE" };
        let receives =
            if limits.shared { "shared by all peers" } else { "of each peer's own, since the device shares none" };
        let small = match rings {
            Rings::Nowhere => "small messages are sent",
            Rings::WherePaid => "small messages of peers that are talked to much are written into rings",
            Rings::Everywhere => "small messages are written into rings",
        };
        format!(
            "{device} port {port} ({kind}), receives {receives}, {small}, at most {} connections at a time",
            limits.connections
        )
    }

    /// Bytes of the longest datagram that the device multicasts: it is tried whether it has what that takes.
    ///
    /// # Errors
    /// It has not: a clause that says why.
    pub fn multicast(&mut self) -> Result<usize, String> {
        Ok(self.device.groups()?.bytes)
    }

    /// From how many bytes on messages are written to the receiver's memory; none if they are not.
    pub fn placed_min(&self) -> Option<u64> {
        (self.device.places && self.bytes_min < u64::MAX).then_some(self.bytes_min)
    }

    /// Learns where a peer is.
    ///
    /// # Errors
    /// Its address is of another family, or its own: one sentence.
    pub fn address_of(&mut self, peer: &Card) -> Result<Address, Error> {
        let own = self.device.name;
        if peer.listens.is_ipv4() != own.is_ipv4() || peer.listens == own {
            let theirs = peer.listens;
            return Err(Error::Peer(format!(
                "an RDMA connection from {own} to {theirs} cannot be: WEFT_INTERFACE chooses interfaces"
            )));
        }
        let place = self.device.insert(peer.listens, peer.token);
        Ok(Address::Verbs(VerbsAddress { peer: place as u32, listens: peer.listens }))
    }
}

impl Datagrams for Verbs {
    fn name(&self) -> &'static str {
        "verbs"
    }

    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        let Address::Verbs(to) = to else { return Err(wrong_address()) };
        if to.peer == GROUP {
            return Ok(self.device.send_to_group(&to.listens, packet));
        }
        if packet.len() > self.packet_size {
            return Ok(Outcome::TooLarge);
        }
        Ok(match self.device.send(to.peer as usize, packet) {
            Ok(true) => Outcome::Sent,
            Ok(false) => Outcome::WouldBlock,
            Err(()) => Outcome::Dropped,
        })
    }

    fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        self.receive_trains(&mut |packet| on_packet(packet.bytes), limit)
    }

    fn receive_trains(&mut self, on_train: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        // Many from peers must not keep out what comes to groups: it would be lost.
        let for_groups = if self.device.has_groups() { GROUP_SHARE.min(limit / 2) } else { 0 };
        let count = self.device.receive(&mut |packet| on_train(Arrival::packet(packet)), limit - for_groups);
        let mut on_datagram = |packet: &[u8]| on_train(Arrival { to_group: true, ..Arrival::packet(packet) });
        count + self.device.receive_from_groups(&mut on_datagram, limit.saturating_sub(count))
    }

    fn written(&self) -> u64 {
        self.device.written
    }

    fn fd(&self) -> RawFd {
        self.device.fd()
    }

    fn arm(&mut self) -> bool {
        self.device.arm()
    }

    fn rejected(&self) -> u64 {
        self.device.rejected
    }

    fn last_refusal(&self) -> Option<String> {
        self.device.last_error.clone()
    }

    fn under_way(&self, to: &Address) -> usize {
        match to {
            Address::Verbs(to) => self.device.under_way(to.peer as usize),
            _ => 0,
        }
    }

    fn take_broken(&mut self) -> Option<Address> {
        let peer = self.device.take_broken()?;
        let listens = self.device.name_of(peer)?;
        Some(Address::Verbs(VerbsAddress { peer: peer as u32, listens }))
    }

    fn packet_size(&self) -> usize {
        self.packet_size
    }

    fn placement(&self) -> Option<Placement> {
        let bytes_max = u64::from(self.device.message_max).min(ACCESS_MAX);
        self.device.places.then_some(Placement {
            writes: true,
            reads: true,
            bytes_max,
            bytes_min: self.bytes_min,
            one_sided_min: ONE_SIDED_MIN,
            proof: if self.device.is_iwarp { Proof::Read } else { Proof::Completion },
        })
    }

    fn expose(&mut self, data: &UserData, length: u64) -> Option<(Exposure, RemoteMemory)> {
        self.device.expose(data, length)
    }

    fn conceal(&mut self, exposure: Exposure) {
        self.device.conceal(exposure);
    }

    fn write(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun {
        let Address::Verbs(to) = to else { return Begun::Never };
        self.device.access(to.peer as usize, Access::Write, data, range, target, number)
    }

    fn read(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun {
        let Address::Verbs(to) = to else { return Begun::Never };
        self.device.access(to.peer as usize, Access::Read, data, range, target, number)
    }

    fn poll_placed(&mut self) -> Option<u64> {
        self.device.poll_placed()
    }

    fn group(&self, job: u64, group: u64) -> Option<Address> {
        self.device.datagrams()?;
        let listens = udp::group_address(self.chosen.address, self.chosen.index, job, group);
        Some(Address::Verbs(VerbsAddress { peer: GROUP, listens }))
    }

    fn group_packet_size(&self) -> usize {
        self.device.datagrams().map_or(0, |room| room.bytes)
    }

    fn group_receives(&self) -> usize {
        self.device.datagrams().map_or(0, |room| room.receives)
    }

    fn join(&mut self, group: &Address, receives: bool) -> io::Result<()> {
        let Address::Verbs(VerbsAddress { listens, .. }) = group else { return Err(wrong_address()) };
        self.device.join(listens, receives)
    }

    fn leave(&mut self, group: &Address) {
        if let Address::Verbs(VerbsAddress { peer: GROUP, listens }) = group {
            self.device.leave_group(listens);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_read_back_and_nothing_else_is() {
        for (listens, places) in [("192.0.2.1:18515", true), ("[2001:db8::7]:1", false)] {
            let listens = listens.parse().expect("an address");
            let card = Card { listens, token: u64::MAX - 1, places, packet_size: 4088 };
            let text = card.encode();
            assert!(!text.contains([',', ' ', '+']), "{text}");
            assert_eq!(Card::decode(&text).expect("a card"), card);
        }
        for text in
            ["", "placing;4088;1", "placing;4088;1;192.0.2.1:0", "placing;1;1;192.0.2.1:7", "else;4088;1;192.0.2.1:7"]
        {
            assert!(Card::decode(text).is_err(), "{text}");
        }
    }

    /// Where there is no device, which is nearly everywhere, who names the link is told what is missing.
    #[test]
    fn without_a_device_one_sentence_says_what_is_missing() {
        if let Err(error) = Verbs::open(&Settings::default()) {
            let says = error.to_string();
            assert!(says.contains("RDMA") || says.contains("rdma-core") || says.contains("interface"), "{says}");
        }
    }
}
