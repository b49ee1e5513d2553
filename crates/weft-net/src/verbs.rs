//! RDMA devices (InfiniBand, RoCE, iWARP) by rdma-core, several of them as rails of a single link.
//!
//! The link uses RDMA CM's connections, reliable queue pairs, packets that are sent into receives which all
//! peers share, and remote writes and reads for large messages and windows. A peer is a connection of
//! `weft_core::connection`: numbers and tags, no acknowledgements.
//!
//! | module | what it does |
//! |---|---|
//! | `api` | the C interfaces, opened at run time: without this link the libraries are not needed |
//! | `pairing` | how two peers come to a single connection: a pure state machine |
//! | `limits` | the sizes that a device is asked for: pure functions |
//! | `credits` | how many packets may be on their way: pure state machines |
//! | `wire` | the messages of the two ends |
//! | `memory` | registered memory |
//! | `local` | registrations for this end's own device, kept for the next operation |
//! | `registrations` | which registrations are kept: a pure data structure |
//! | `monitor` | says when memory is no longer there; `areas`: which memory is mapped where |
//! | `ring` | the fast path: peers write small packets into a ring, found by looking at memory |
//! | `device` | the queues: `connections`, `sending`, `receiving`, `accesses` to memory, multicast `groups` |
//! | `choice` | which devices are used |
//! | `endpoint_address` | the devices as peers are told of them |
//! | `rails` | all devices as a link: which rail leads where and carries what; what follows when one fails |
//! | `stripes` | how an access is cut over rails: a pure function |
//!
//! On iWARP a sender does not learn that the receiver has no receive posted: the connection ends. So the
//! receiver grants the sender a number of packets, and each message grants more.

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

/// Smallest message that is written to the receiver's memory. A smaller message is as quick as packets: an
/// announced message needs a key to be told, and a frame at the end.
const PLACED_MIN: u64 = 16 << 10;
/// Largest eager message.
///
/// A larger message is announced: a written message takes fewer instructions also where nothing else is on
/// its way, and half as many where several messages are (docs/design/rdma.md).
pub const EAGER_MAX: u64 = 20 << 10;
/// Smallest one-sided operation that the device does: all of them. Each is a single work request then, and
/// needs neither a message nor the target's processor.
const ONE_SIDED_MIN: u64 = 1;
/// Most bytes of an access.
const ACCESS_MAX: u64 = 1 << 30;

/// Most devices that are used at a time. The key of exposed memory, which peers are told, has room for the
/// keys of this many devices.
pub const RAILS_MAX: usize = 2;
/// Packets to groups that each look takes, if so many are there, whatever has come from peers.
const GROUP_SHARE: usize = 16;
/// The value that a group's address has in the place of a peer's number.
const GROUP: u32 = u32::MAX;

/// The operations by which peers are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// All operations; rings for small messages of peers with much traffic.
    #[default]
    Auto,
    /// All operations; rings from the first message on.
    Rdma,
    /// Sends and receives only.
    SendReceive,
    /// Messages by sends and receives, puts and gets by remote writes and reads.
    OneSided,
}

impl Mode {
    /// All modes, with the names that `WEFT_VERBS_MODE` gives them.
    pub const ALL: [(&str, Self); 4] =
        [("auto", Self::Auto), ("rdma", Self::Rdma), ("sendrecv", Self::SendReceive), ("one-sided", Self::OneSided)];
}

/// Settings for the use of RDMA devices.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Interfaces, named as for UDP: the devices of these interfaces are used, the better ones first, at most
    /// [`RAILS_MAX`].
    pub interfaces: Option<String>,
    /// The operations that are used.
    pub mode: Mode,
    /// True if neither messages nor windows are written to memory of peers, whatever the mode.
    pub without_placement: bool,
    /// Most connections of each device that are open at a time.
    pub connections: u32,
    /// Bytes of registrations that are kept for the next operation; 0: no registration is kept.
    pub registration_cache: u64,
    /// Longest time for which a part of an access may be under way on a rail. After it the rail has failed,
    /// if other rails lead to the same peer; 0: no limit.
    pub access_limit: Duration,
}

/// Bytes of registrations that are kept by default.
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

/// Opens rdma-core.
fn library() -> Result<&'static Library, Error> {
    let missing = |why| {
        Error::Unavailable(format!(
            "rdma-core is not to be had ({why}): install it (Debian: libibverbs1, librdmacm1 and ibverbs-providers), or name another link in \
             WEFT_LINK"
        ))
    };
    Library::get().map_err(missing)
}

/// The link over one open RDMA device, one of the rails.
pub struct Verbs {
    device: Device,
    chosen: Chosen,
    attributes: CarrierAttributes,
}

impl Verbs {
    /// Opens a device; `token` is in the endpoint address of this process. The error is a sentence that names
    /// the device and the call.
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

    /// Describes in words how the connections are made.
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

    /// Says in words that registrations are kept, or why not.
    fn registration_cache(&self) -> String {
        self.device.kept.describe()
    }

    /// Returns the bytes of the longest datagram that the device multicasts, or why the device cannot
    /// multicast. It tries multicast.
    fn multicast(&mut self) -> Result<usize, String> {
        Ok(self.device.groups()?.bytes)
    }

    /// Returns why registrations are not kept, if the settings wish for it.
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

/// Returns the attributes of a device as a carrier. Messages of `bytes_min` bytes are written to the
/// receiver's memory.
fn attributes(device: &Device, bytes_min: u64) -> CarrierAttributes {
    let placement = Placement {
        writes: true,
        reads: true,
        bytes_max: u64::from(device.message_max).min(ACCESS_MAX),
        bytes_min,
        // Where messages are never written (mode `one-sided`), none is announced for a write.
        eager_max: EAGER_MAX.max(bytes_min),
        one_sided_min: ONE_SIDED_MIN,
        proof: if device.is_iwarp { Proof::Read } else { Proof::Completion },
        tells: false,
        unasked: false,
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
        // Many packets from peers must not keep out packets to groups: those would be lost.
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

    /// On a machine without a device, which is nearly every one, a user who names the link learns what is
    /// missing.
    #[test]
    fn without_a_device_one_sentence_says_what_is_missing() {
        if let Err(error) = VerbsRails::open(&Settings::default()) {
            let says = error.to_string();
            assert!(says.contains("RDMA") || says.contains("rdma-core") || says.contains("interface"), "{says}");
        }
    }
}
