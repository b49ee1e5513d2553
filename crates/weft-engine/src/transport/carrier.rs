//! The interface of a carrier: it sends a packet, or a *train* of consecutive packets of equal size; it hands
//! over what has arrived; it declares its abilities.
//!
//! Fault injection and capture are carriers that wrap another carrier ([`super::Wrapper`]).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::RawFd;

use weft_core::flow::LongPath;
use weft_core::rails::Role;

use super::placement::{Begun, Placement, Registration, RemoteMemory, Unasked, Written};
use crate::memory::UserData;

/// The address to which a link sends a packet. Each kind of carrier has its own kind of address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An IP address and a UDP port.
    Udp(SocketAddr),
    /// A socket on an Ethernet segment.
    Ethernet(EthernetAddress),
    /// An endpoint that a provider of libfabric knows.
    Fabric(FabricAddress),
    /// A process behind an RDMA device.
    Verbs(VerbsAddress),
    /// A process that listens for TCP connections.
    Tcp(TcpAddress),
    /// A process of this node that shares memory.
    Shared(SharedAddress),
}

/// A socket on an Ethernet segment: an interface, and one of the processes behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EthernetAddress {
    /// The interface's hardware address.
    pub mac: [u8; 6],
    /// The process's number on its host.
    pub port: u16,
}

/// An endpoint of libfabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FabricAddress {
    /// The index of the endpoint of this process that has learnt the address, from 0.
    pub endpoint: u8,
    /// The address's index among those that this endpoint has learnt, from 0.
    pub name: u64,
    /// The IP address and port, if the provider's addresses are those of IP.
    pub ip: Option<SocketAddr>,
}

/// A process behind an RDMA device, or a multicast group of RDMA devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VerbsAddress {
    /// The peer's index among those that this end has learnt, from 0.
    pub peer: u32,
    /// The address at which the process listens for connections; of a group, its address.
    pub listens: SocketAddr,
}

/// A process that listens for TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpAddress {
    /// The peer's index among those that this end has learnt, from 0.
    pub peer: u32,
    /// The address at which the process listens.
    pub listens: SocketAddr,
}

/// A process of this node that shares a segment of memory with this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedAddress {
    /// The segment's number at this end.
    pub segment: u32,
    /// The process's number in the segment.
    pub member: u32,
}

/// A kind of address. Carriers with the same kind of address can reach each other, even under different
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// [`Address::Udp`]
    Udp,
    /// [`Address::Ethernet`]
    Ethernet,
    /// [`Address::Fabric`]
    Fabric,
    /// [`Address::Verbs`]
    Verbs,
    /// [`Address::Tcp`]
    Tcp,
    /// [`Address::Shared`]
    Shared,
}

impl AddressKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 6] = [Self::Udp, Self::Ethernet, Self::Fabric, Self::Verbs, Self::Tcp, Self::Shared];
}

impl Address {
    /// The kind of the address.
    pub const fn kind(&self) -> AddressKind {
        match self {
            Self::Udp(_) => AddressKind::Udp,
            Self::Ethernet(_) => AddressKind::Ethernet,
            Self::Fabric(_) => AddressKind::Fabric,
            Self::Verbs(_) => AddressKind::Verbs,
            Self::Tcp(_) => AddressKind::Tcp,
            Self::Shared(_) => AddressKind::Shared,
        }
    }

    /// Returns whether the address is that of a multicast group.
    pub fn is_group(&self) -> bool {
        match self {
            Self::Udp(address) => address.ip().is_multicast(),
            Self::Ethernet(address) => address.mac[0] & 1 == 1,
            Self::Verbs(address) => address.listens.ip().is_multicast(),
            Self::Fabric(_) | Self::Tcp(_) | Self::Shared(_) => false,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Udp(address)
    }
}

impl From<EthernetAddress> for Address {
    fn from(address: EthernetAddress) -> Self {
        Self::Ethernet(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => address.fmt(f),
            Self::Ethernet(address) => address.fmt(f),
            Self::Fabric(address) => address.fmt(f),
            Self::Verbs(address) => write!(f, "{} by RDMA", address.listens),
            Self::Tcp(address) => write!(f, "{} by TCP", address.listens),
            Self::Shared(_) => f.write_str("this node, by shared memory"),
        }
    }
}

impl fmt::Display for FabricAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            Some(ip) => write!(f, "{ip} by libfabric"),
            None => write!(f, "libfabric's address {}", self.name),
        }
    }
}

impl fmt::Display for EthernetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.mac;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x} port {}", self.port)
    }
}

/// The outcome of [`Carrier::send`] for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel took it. It may still be lost.
    Sent,
    /// The socket's send buffer is full: try again later.
    WouldBlock,
    /// The machine has refused the packet (firewall, queue full, no route just now) and counted it: a lost
    /// packet like any other.
    Dropped,
    /// Larger than the link carries. Sending it again cannot help.
    TooLarge,
}

/// Packets of one sender that arrived together because the kernel had joined them, or a single packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// The packets, one after the other.
    pub bytes: &'a [u8],
    /// Bytes of each packet but the last, which may be shorter.
    pub segment: usize,
    /// Set when the network marked at least one of the packets as having met congestion (RFC 3168).
    pub marked: bool,
    /// Set when the packets came to the address of a multicast group.
    pub to_group: bool,
}

impl<'a> Arrival<'a> {
    /// A single packet without a mark.
    pub const fn packet(bytes: &'a [u8]) -> Self {
        Self { bytes, segment: bytes.len(), marked: false, to_group: false }
    }

    /// The packets, one by one.
    pub fn packets(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (first, rest) = self.bytes.split_at(self.segment.min(self.bytes.len()));
        std::iter::once(first).chain(rest.chunks(self.segment.max(1)))
    }
}

/// The attributes of a carrier. The carrier states them once, when it is opened; the engine and the peers
/// rely on them. They never change later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarrierAttributes {
    /// The carrier's name, as in `WEFT_LINK`.
    pub name: &'static str,
    /// The fate of packets on their way.
    pub delivery: Delivery,
    /// The largest packet that this end can send and receive, in bytes. A pair uses the smaller of its two
    /// ends.
    pub packet_size: usize,
    /// Bytes of a train that one system call sends; no more than a packet where trains gain nothing.
    pub train_bytes: usize,
    /// The cost of finding out that nothing has arrived.
    pub look: Look,
    /// The descriptor that becomes readable when a packet arrives. `None`: there is no descriptor, so no
    /// thread may sleep on the carrier.
    pub descriptor: Option<RawFd>,
    /// The carrier's remote memory access. `None`: it has none, and [`Carrier::rma`] returns `None` as well.
    pub remote_memory: Option<Placement>,
    /// The carrier's multicast. `None`: it has none, and [`Carrier::multicast`] returns `None` as well.
    pub multicast: Option<MulticastAttributes>,
}

impl CarrierAttributes {
    /// The attributes of a carrier that carries packets only: it may lose them, sends them one by one, and
    /// cannot be slept on.
    pub const fn packets(name: &'static str, packet_size: usize, look: Look) -> Self {
        Self {
            name,
            delivery: Delivery::Unreliable,
            packet_size,
            train_bytes: packet_size,
            look,
            descriptor: None,
            remote_memory: None,
            multicast: None,
        }
    }

    /// The carrier's role where several carriers lead to one peer.
    ///
    /// - An unreliable carrier whose look is a read of memory takes small messages: the look costs next to
    ///   nothing.
    /// - A carrier whose look is a system call takes bulk data: it sends many packets with one call.
    /// - An ordered carrier takes bulk data, too: packets of other carriers would not keep its order.
    pub const fn role(&self) -> Role {
        match (self.look, self.delivery) {
            (Look::Memory, Delivery::Unreliable) => Role::SmallMessages,
            (Look::SystemCall, _) | (_, Delivery::Ordered) => Role::BulkData,
        }
    }
}

/// The fate of packets on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Packets may be lost, repeated or reordered, though never on purpose: a flow makes messages of them.
    Unreliable,
    /// Each packet arrives once and in the order of sending, or [`Carrier::take_broken`] tells of it.
    Ordered,
}

/// The cost of a look for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A few reads of memory: the look is made in every pass.
    Memory,
    /// A call of the system or of a library, a hundred times as dear. The look is made once in several passes
    /// if other sources are looked at as well.
    SystemCall,
}

/// The limits of a carrier's multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulticastAttributes {
    /// The largest packet that can be sent to a group, in bytes.
    pub packet_size: usize,
    /// The number of packets to groups that may arrive while nobody looks; one sender should not have more
    /// under way. `None`: the carrier does not know.
    pub receives: Option<usize>,
}

/// A carrier's counters and its last refusal, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// Packets that arrived and that the carrier itself dropped: cut, or larger than a packet may be.
    pub rejected: u64,
    /// Packets that the carrier wrote to memory of their receivers by itself (the fast path of RDMA devices).
    pub written: u64,
    /// The machine's words when it last refused a packet ([`Outcome::Dropped`]); `None` if it never has.
    pub last_refusal: Option<String>,
}

/// A carrier moves packets between processes. The trait is small, so that a new carrier is soon written.
///
/// Abilities that only some carriers have are behind [`Self::rma`] and [`Self::multicast`]. A carrier around
/// another carrier is a [`super::Wrapper`].
pub trait Carrier {
    /// Returns the carrier's attributes.
    fn attributes(&self) -> &CarrierAttributes;

    /// Sends one packet of at most [`CarrierAttributes::packet_size`] bytes. Never blocks.
    ///
    /// # Errors
    /// Only conditions that no later attempt can cure (the socket is unusable, the address is another
    /// carrier's); every transient condition is an [`Outcome`].
    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome>;

    /// Sends a train to one peer: consecutive packets of `segment` bytes each (the last may be shorter), of
    /// any length.
    ///
    /// Returns how many bytes were taken, a multiple of `segment` or all; less than all means "would block".
    /// Packets that are [`Outcome::Dropped`] count as taken, by a carrier with [`Delivery::Ordered`] as well:
    /// a caller that needs to know sends packet by packet. A carrier with segmentation offload takes
    /// [`CarrierAttributes::train_bytes`] with one system call; a carrier without it uses
    /// [`send_one_by_one`].
    ///
    /// # Errors
    /// As [`Self::send`].
    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize>;

    /// Hands packets that have arrived to `on_arrival`, in order of arrival; returns how many. Never blocks.
    ///
    /// The call stops once `limit` packets have been handed over. Packets that the kernel joined are handed
    /// over together, so there may be up to [`JOINED_MAX`] more. With a limit of 0 nothing happens. The
    /// sender's address is not reported: a packet names its sender, and its tag proves the name.
    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize;

    /// Prepares a sleep on [`CarrierAttributes::descriptor`]; called before each one. Returns `false` if
    /// something has arrived that the descriptor would not tell of, or if there is no descriptor.
    fn prepare_sleep(&mut self) -> bool;

    /// Returns the carrier's counters and its last refusal.
    fn diagnostics(&self) -> Diagnostics;

    /// The number of packets to this address that the carrier has taken and that have not left it. The caller
    /// must go on looking at the carrier until they have left. 0 for carriers that hand each packet to the
    /// kernel.
    fn under_way(&self, to: &Address) -> usize;

    /// An address to which a packet that the carrier had taken has not been delivered; each such address
    /// once. Asked of carriers with [`Delivery::Ordered`]; `None` for all others.
    /// [`Diagnostics::last_refusal`] says why.
    fn take_broken(&mut self) -> Option<Address>;

    /// The state of the carrier's way to this address as the long path of a flow whose other packets take
    /// other carriers. A carrier that could be one begins to connect.
    fn long_path(&mut self, to: &Address) -> LongPath {
        let _ = to;
        LongPath::Closed
    }

    /// Notes that nothing is sent to this address any more, and nothing of the process there is wanted.
    fn let_go(&mut self, to: &Address) {
        let _ = to;
    }

    /// The access to memory of peers ([`CarrierAttributes::remote_memory`]).
    fn rma(&mut self) -> Option<&mut dyn RemoteMemoryAccess> {
        None
    }

    /// The multicast groups ([`CarrierAttributes::multicast`]). `None` also where the machine has refused
    /// what groups need.
    fn multicast(&mut self) -> Option<&mut dyn Multicast> {
        None
    }
}

/// Access to memory of peers, without their processors. The engine's part is `engine/placement.rs`.
pub trait RemoteMemoryAccess {
    /// Lets peers access the first `length` bytes of `data`, one run of memory, until [`Self::deregister`].
    ///
    /// `None` where that cannot be done at present. The engine keeps the operation of `data` open as long as
    /// the memory is registered.
    fn register(&mut self, data: &UserData, length: u64) -> Option<(Registration, RemoteMemory)>;

    /// Notes that the process at `from` is likely to write to the beginning of registered memory next. Until
    /// that write begins nobody reads the memory, and nobody else writes there: the carrier may use it for
    /// what arrives.
    fn expect(&mut self, from: &Address, registration: Registration) {
        let _ = (from, registration);
    }

    /// Ends the access to registered memory: no access that begins after this call succeeds.
    fn deregister(&mut self, registration: Registration);

    /// Writes the bytes `range` of `data`, one run of memory, to `target` of the process at `to`.
    ///
    /// The bytes must not change until [`Self::poll_completion`] has returned `number`, unless the carrier
    /// has said before that the peer is lost ([`Carrier::take_broken`]).
    fn write(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun;

    /// Returns whether [`Self::write_unasked`] takes such data.
    fn may_write_unasked(&self, data: &UserData) -> bool {
        let _ = data;
        false
    }

    /// Writes all bytes of `data`, one run of memory, to the process at `to`, under the conditions of
    /// [`Self::write`]. The receiver names the place by [`Self::register_unasked`], before the bytes arrive
    /// or later. `name` is a number of the sender that no other such write has at the time.
    fn write_unasked(&mut self, to: &Address, data: &UserData, name: u32, number: u64) -> Unasked {
        let _ = (to, data, name, number);
        Unasked::Refused
    }

    /// Puts the `length` bytes that the process at `from` has written, or will write, under this `name` to
    /// `data`, which need be no run of memory, until [`Self::deregister`]. What has no room there is dropped.
    /// Bytes that have arrived already count as written now. `None` where that cannot be done at present.
    fn register_unasked(&mut self, from: &Address, name: u32, data: &UserData, length: u64) -> Option<Registration> {
        let _ = (from, name, data, length);
        None
    }

    /// Reads the bytes at `target` of the process at `to` into `range` of `data`, under the conditions of
    /// [`Self::write`].
    fn read(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun;

    /// The number of an access that is complete, each once.
    fn poll_completion(&mut self) -> Option<u64>;

    /// Returns whether a process may be invited to write to memory here: what that takes is there, or can be
    /// had.
    fn has_room_for(&self, from: &Address) -> bool {
        let _ = from;
        true
    }

    /// Closes the connection to the process at this address, if the carrier has one. The engine asks for it
    /// only where other carriers bring the packets.
    ///
    /// The carrier drops the writes that have not ended: it reads their memory no more, and
    /// [`Self::poll_completion`] never returns their numbers.
    fn disconnect(&mut self, to: &Address) {
        let _ = to;
    }

    /// A write of a peer that has ended in memory of this process, each once, if the carrier tells of writes
    /// ([`Placement::tells`]).
    fn poll_written(&mut self) -> Option<Written> {
        None
    }
}

/// Packets that reach all members of a group.
pub trait Multicast {
    /// The address of one of a job's groups, which the two numbers name. Packets are sent to it as to a
    /// peer's address.
    fn address(&self, job: u64, group: u64) -> Address;

    /// Joins a group: packets may be sent to this multicast address from now on and, if it `receives`,
    /// arrive. Packets of this process itself do not arrive.
    ///
    /// # Errors
    /// The machine refuses.
    fn join(&mut self, group: &Address, receives: bool) -> io::Result<()>;

    /// Leaves a group: its packets need not arrive any more.
    fn leave(&mut self, group: &Address);
}

/// Sends a train packet by packet: [`Carrier::send_train`] of carriers that gain nothing by trains.
///
/// # Errors
/// As [`Carrier::send`].
pub fn send_one_by_one<C: Carrier + ?Sized>(
    carrier: &mut C,
    to: &Address,
    train: &[u8],
    segment: usize,
) -> io::Result<usize> {
    let mut taken = 0;
    for packet in train.chunks(segment.max(1)) {
        if carrier.send(to, packet)? == Outcome::WouldBlock {
            break;
        }
        taken += packet.len();
    }
    Ok(taken)
}

/// Receives as [`Carrier::receive`] does, and hands over each packet by itself instead of packets that came
/// together.
pub fn receive_packets<C: Carrier + ?Sized>(carrier: &mut C, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
    carrier.receive(&mut |arrival| arrival.packets().for_each(&mut *on_packet), limit)
}

/// The most packets that a kernel joins to one: Linux's limit is 128 segments, and 64 KiB in all.
pub const JOINED_MAX: usize = 128;

/// The error for an address that belongs to another carrier.
pub fn wrong_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the address belongs to another kind of link")
}
