//! RDMA devices (InfiniBand, RoCE, iWARP) by rdma-core, several of them as rails of one link: connections of
//! RDMA CM, reliable queue pairs, packets that are sent into receives which all peers share, and remote
//! writes and reads for large messages and windows. A peer is a connection of `weft_core::connection`:
//! numbers and tags.
//!
//! | module | what it does |
//! |---|---|
//! | `api` | the C interfaces, opened at run time: who does not name the link does not need the libraries |
//! | `pairing` | how two peers come to one connection: a pure state machine |
//! | `limits` | what a device is asked for: pure functions |
//! | `credits` | how many packets may be on their way: pure state machines |
//! | `wire` | what the two ends say to each other |
//! | `memory` | registered memory |
//! | `local` | registrations of what only this end's device gets to, kept for the next operation |
//! | `registrations` | which of them are kept: a pure data structure |
//! | `monitor` | says when memory is no longer there; `areas`: what is mapped where |
//! | `ring` | the fast path: small packets that peers write into a ring, found by looking at memory |
//! | `device` | the queues: `connections`, `sending`, `receiving`, `accesses` to memory of peers, and multicast `groups` |
//! | `choice` | which devices are used |
//! | `endpoint_address` | what peers are told of them |
//! | `rails` | all of them as one link: which leads to which of a peer's, what goes by which, and what is done when one fails |
//! | `stripes` | how an access is cut over rails: a pure function |
//!
//! iWARP tells a sender nothing of a receiver that has no receive posted: the connection ends. So a sender is
//! granted so many packets, and each message says how many more.

mod api;
mod areas;
mod choice;
mod credits;
mod device;
mod endpoint_address;
mod kept;
mod limits;
mod local;
mod memory;
mod monitor;
mod pairing;
mod rails;
mod registrations;
mod ring;
mod status;
mod stripes;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use weft_core::time::Duration;
use weft_engine::memory::UserData;
use weft_engine::regions::AccessKind;

use crate::Error;
use crate::carrier::{
    Address, Arrival, Begun, Carrier, CarrierAttributes, Delivery, Diagnostics, Look, Multicast, MulticastAttributes,
    Outcome, Placement, Proof, Registration, RemoteMemory, RemoteMemoryAccess, VerbsAddress, send_one_by_one,
    wrong_address,
};
use crate::udp::{self, Candidate};
use api::Library;
use choice::Found;
pub use choice::{Chosen, consider};
use device::{Device, Rings, Use};
pub use endpoint_address::EndpointAddress;
pub use limits::CONNECTIONS_MAX;
pub use memory::{Registered, registered};
pub use rails::{Rail, VerbsRails};
pub use status::{DeviceStatus, PortStatus, locked_memory, status};

/// Smaller messages are as quick as packets: what is announced costs a key more to tell, and a frame at the
/// end.
const PLACED_MIN: u64 = 16 << 10;
/// Larger messages are announced rather than sent unasked: written they take fewer instructions also where
/// nothing else is on its way, and half as many where several are (docs/decisions/0193).
pub const EAGER_MAX: u64 = 20 << 10;
/// All one-sided operations that can be: each is one work request then, and neither a message nor the
/// target's processor is needed.
const ONE_SIDED_MIN: u64 = 1;
/// Bytes of one access, at most.
const ACCESS_MAX: u64 = 1 << 30;

/// Devices that are used at a time: the key of exposed memory, which peers are told, has room for the keys of
/// so many.
pub const RAILS_MAX: usize = 2;
/// Packets to groups that each look takes, if there are so many, whatever has come from peers.
const GROUP_SHARE: usize = 16;
/// Stands in the place of a peer's number in a group's address.
const GROUP: u32 = u32::MAX;

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

/// How devices are used.
#[derive(Clone, Debug)]
pub struct Settings {
    /// As for UDP: the devices of these interfaces are used, the better ones first, at most [`RAILS_MAX`].
    pub interfaces: Option<String>,
    /// By which operations.
    pub mode: Mode,
    /// Neither messages nor windows are written to memory of peers, whatever the mode.
    pub without_placement: bool,
    /// Connections of each device that are open at a time.
    pub connections: u32,
    /// Bytes of registrations that are kept for the next operation; 0: none.
    pub registration_cache: u64,
    /// A rail on which part of an access has been under way for so long has failed, if others lead to the
    /// same peer; 0: never.
    pub access_limit: Duration,
}

/// Bytes of registrations that are kept where nothing else says so.
pub const REGISTRATION_CACHE: u64 = 256 << 20;

impl Default for Settings {
    fn default() -> Self {
        Self {
            interfaces: None,
            mode: Mode::Auto,
            without_placement: false,
            connections: CONNECTIONS_MAX,
            registration_cache: REGISTRATION_CACHE,
            access_limit: Duration(0),
        }
    }
}

/// rdma-core, opened.
fn library() -> Result<&'static Library, Error> {
    let missing = |why| {
        Error::Unavailable(format!(
            "rdma-core is not to be had ({why}): install it (Debian: libibverbs1, librdmacm1 and ibverbs-providers), or name another link in \
             WEFT_LINK"
        ))
    };
    Library::get().map_err(missing)
}

/// An open device: one of the rails.
pub struct Verbs {
    device: Device,
    chosen: Chosen,
    attributes: CarrierAttributes,
}

impl Verbs {
    /// Opens a device; `token` is in the endpoint address of this process. Else one sentence that names the
    /// device and the call.
    fn open(library: &'static Library, found: Found, settings: &Settings, token: u64) -> Result<Self, Error> {
        let Found { chosen, bound } = found;
        let how = Use {
            connections: settings.connections,
            has_remote_memory: settings.mode != Mode::SendReceive && !settings.without_placement,
            rings: match settings.mode {
                Mode::Auto => Rings::WherePaid,
                Mode::Rdma => Rings::Everywhere,
                Mode::SendReceive | Mode::OneSided => Rings::Nowhere,
            },
            kept_bytes: settings.registration_cache,
            token,
        };
        let device = Device::open(library, bound, chosen.address, &how)
            .map_err(|why| Error::Unavailable(format!("the RDMA device {} cannot be used: {why}", chosen.device)))?;
        let bytes_min = if settings.mode == Mode::OneSided { u64::MAX } else { PLACED_MIN };
        let attributes = attributes(&device, bytes_min);
        Ok(Self { device, chosen, attributes })
    }

    /// In words: what the connections are made of.
    fn describe(&self) -> String {
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

    /// In words: whether registrations are kept, or why not.
    fn registration_cache(&self) -> String {
        self.device.kept.describe()
    }

    /// Bytes of the longest datagram that the device multicasts, or why it has not what that takes; it is
    /// tried.
    fn multicast(&mut self) -> Result<usize, String> {
        Ok(self.device.groups()?.bytes)
    }

    /// Why registrations are not kept, if the settings wish for it.
    fn warning(&self) -> Option<String> {
        self.device.kept.warning().map(|why| format!("memory is registered for each operation: {why}"))
    }
}

impl Rail for Verbs {
    fn candidate(&self) -> Candidate {
        Candidate { port: self.device.name.port(), ..self.chosen.candidate }
    }

    fn meet(&mut self, listens: SocketAddr, token: u64) -> VerbsAddress {
        VerbsAddress { peer: self.device.insert(listens, token) as u32, listens }
    }

    fn abandon(&mut self, peer: u32) {
        self.device.abandon(peer as usize);
    }

    fn tell_dropped(&mut self, peer: u32, rails: u16) -> bool {
        self.device.tell_dropped(peer as usize, rails)
    }

    fn poll_dropped(&mut self) -> Option<(u32, u16)> {
        self.device.poll_dropped()
    }
}

/// What the carriers' trait wants to know of a device. Messages of `bytes_min` bytes are written to the
/// receiver's memory.
fn attributes(device: &Device, bytes_min: u64) -> CarrierAttributes {
    let placement = Placement {
        writes: true,
        reads: true,
        bytes_max: u64::from(device.message_max).min(ACCESS_MAX),
        bytes_min,
        // Where messages are never written (mode `one-sided`) none is announced for that.
        eager_max: EAGER_MAX.max(bytes_min),
        one_sided_min: ONE_SIDED_MIN,
        proof: if device.is_iwarp { Proof::Read } else { Proof::Completion },
    };
    CarrierAttributes {
        delivery: Delivery::Ordered,
        descriptor: Some(device.fd()).filter(|fd| *fd >= 0),
        remote_memory: device.has_remote_memory.then_some(placement),
        multicast: device
            .datagrams()
            .map(|room| MulticastAttributes { packet_size: room.bytes, receives: Some(room.receives) }),
        ..CarrierAttributes::packets("verbs", limits::MESSAGE_BYTES - wire::HEADER, Look::Memory)
    }
}

impl Carrier for Verbs {
    #[inline]
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    #[inline]
    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        let Address::Verbs(to) = to else { return Err(wrong_address()) };
        if to.peer == GROUP {
            return Ok(self.device.send_to_group(&to.listens, packet));
        }
        if packet.len() > self.attributes.packet_size {
            return Ok(Outcome::TooLarge);
        }
        Ok(match self.device.send(to.peer as usize, packet) {
            Ok(true) => Outcome::Sent,
            Ok(false) => Outcome::WouldBlock,
            Err(()) => Outcome::Dropped,
        })
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        send_one_by_one(self, to, train, segment)
    }

    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        // Many from peers must not keep out what comes to groups: it would be lost.
        let for_groups = if self.device.has_groups() { GROUP_SHARE.min(limit / 2) } else { 0 };
        let count = self.device.receive(&mut |packet| on_arrival(Arrival::packet(packet)), limit - for_groups);
        let mut on_datagram = |packet: &[u8]| on_arrival(Arrival { to_group: true, ..Arrival::packet(packet) });
        count + self.device.receive_from_groups(&mut on_datagram, limit.saturating_sub(count))
    }

    fn prepare_sleep(&mut self) -> bool {
        self.device.arm()
    }

    fn diagnostics(&self) -> Diagnostics {
        let Device { rejected, written, last_error, .. } = &self.device;
        Diagnostics { rejected: *rejected, written: *written, last_refusal: last_error.clone() }
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

    #[inline]
    fn rma(&mut self) -> Option<&mut dyn RemoteMemoryAccess> {
        if self.attributes.remote_memory.is_some() { Some(self) } else { None }
    }

    fn multicast(&mut self) -> Option<&mut dyn Multicast> {
        if self.device.datagrams().is_some() { Some(self) } else { None }
    }
}

impl RemoteMemoryAccess for Verbs {
    fn register(&mut self, data: &UserData, length: u64) -> Option<(Registration, RemoteMemory)> {
        self.device.expose(data, length)
    }

    fn deregister(&mut self, registration: Registration) {
        self.device.conceal(registration);
    }

    fn write(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun {
        let Address::Verbs(to) = to else { return Begun::Never };
        self.device.access(to.peer as usize, AccessKind::Write, data, range, target, number)
    }

    fn read(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun {
        let Address::Verbs(to) = to else { return Begun::Never };
        self.device.access(to.peer as usize, AccessKind::Read, data, range, target, number)
    }

    fn poll_completion(&mut self) -> Option<u64> {
        self.device.poll_placed()
    }
}

impl Multicast for Verbs {
    fn address(&self, job: u64, group: u64) -> Address {
        let listens = udp::group_address(self.chosen.candidate.ip, self.chosen.candidate.interface, job, group);
        Address::Verbs(VerbsAddress { peer: GROUP, listens })
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

    /// Where there is no device, which is nearly everywhere, who names the link is told what is missing.
    #[test]
    fn without_a_device_one_sentence_says_what_is_missing() {
        if let Err(error) = VerbsRails::open(&Settings::default()) {
            let says = error.to_string();
            assert!(says.contains("RDMA") || says.contains("rdma-core") || says.contains("interface"), "{says}");
        }
    }
}
