//! What the engine asks of each carrier: to send a packet, or a *train* of consecutive packets of equal size;
//! to hand over what has arrived; to say what it can do. Faults and capture are carriers that wrap another
//! one ([`super::Wrapper`]).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::RawFd;

use weft_core::rails::Role;

use super::placement::{Begun, Placement, Registration, RemoteMemory};
use crate::memory::UserData;

/// Where a link sends a packet: each kind of carrier has its own kind of address.
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
}

/// A socket on an Ethernet segment: an interface, and which of the processes behind it.
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
    /// Which of this process's endpoints has learnt it, from 0.
    pub endpoint: u8,
    /// The how many-th address it is that this endpoint has learnt, from 0.
    pub name: u64,
    /// Where it is, if the provider's addresses are those of IP.
    pub ip: Option<SocketAddr>,
}

/// A process behind an RDMA device, or a multicast group of such.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VerbsAddress {
    /// The how many-th peer it is that this end has learnt, from 0.
    pub peer: u32,
    /// Where it listens for connections; of a group, its address.
    pub listens: SocketAddr,
}

/// A kind of address. Carriers whose addresses are of one kind can reach each other, whatever they are
/// called.
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
}

impl AddressKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Udp, Self::Ethernet, Self::Fabric, Self::Verbs];
}

impl Address {
    /// Its kind.
    pub const fn kind(&self) -> AddressKind {
        match self {
            Self::Udp(_) => AddressKind::Udp,
            Self::Ethernet(_) => AddressKind::Ethernet,
            Self::Fabric(_) => AddressKind::Fabric,
            Self::Verbs(_) => AddressKind::Verbs,
        }
    }

    /// Whether it is that of a multicast group.
    pub fn is_group(&self) -> bool {
        match self {
            Self::Udp(address) => address.ip().is_multicast(),
            Self::Ethernet(address) => address.mac[0] & 1 == 1,
            Self::Verbs(address) => address.listens.ip().is_multicast(),
            Self::Fabric(_) => false,
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

/// What became of a packet handed to [`Carrier::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel took it. It may still be lost.
    Sent,
    /// The socket's send buffer is full: try again later.
    WouldBlock,
    /// Refused by the machine (firewall, queue full, no route just now) and counted: a lost packet like any
    /// other.
    Dropped,
    /// Larger than the link carries. Sending it again cannot help.
    TooLarge,
}

/// Packets of one sender that arrived together: the kernel had joined them, or it is only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// One packet after the other.
    pub bytes: &'a [u8],
    /// Bytes of each but the last, which may be shorter.
    pub segment: usize,
    /// The network marked at least one as having met congestion (RFC 3168).
    pub marked: bool,
    /// They came to the address of a multicast group.
    pub to_group: bool,
}

impl<'a> Arrival<'a> {
    /// One packet without a mark.
    pub const fn packet(bytes: &'a [u8]) -> Self {
        Self { bytes, segment: bytes.len(), marked: false, to_group: false }
    }

    /// Each packet by itself.
    pub fn packets(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (first, rest) = self.bytes.split_at(self.segment.min(self.bytes.len()));
        std::iter::once(first).chain(rest.chunks(self.segment.max(1)))
    }
}

/// What a carrier is: whoever opens it says so once, and the engine and the peers go by that. Nothing of it
/// changes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarrierAttributes {
    /// The carrier's name, as `WEFT_LINK` says it.
    pub name: &'static str,
    /// What becomes of packets on their way.
    pub delivery: Delivery,
    /// The largest packet that this end can send and receive, in bytes. A pair uses the smaller of its two
    /// ends.
    pub packet_size: usize,
    /// Bytes of a train that are sent by one system call; no more than a packet where trains gain nothing.
    pub train_bytes: usize,
    /// What it takes to find out that nothing has arrived.
    pub look: Look,
    /// The descriptor that becomes readable when a packet arrives. `None`: there is none, so nobody may
    /// sleep.
    pub descriptor: Option<RawFd>,
    /// What it can do to the memory of peers; `None`: nothing, and [`Carrier::rma`] gives nothing either.
    pub remote_memory: Option<Placement>,
    /// What it can send to groups; `None`: nothing, and [`Carrier::multicast`] gives nothing either.
    pub multicast: Option<MulticastAttributes>,
}

impl CarrierAttributes {
    /// A carrier of packets and nothing else: it may lose them, sends them one by one, and cannot be slept
    /// on.
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

    /// What the carrier is for where several lead to one peer. An unreliable carrier whose look is a read of
    /// memory takes small messages: the look costs next to nothing. A carrier whose look is a system call
    /// takes bulk data: it sends many packets with one call. An ordered carrier takes bulk data, too: packets
    /// of other carriers would not keep its order.
    pub const fn role(&self) -> Role {
        match (self.look, self.delivery) {
            (Look::Memory, Delivery::Unreliable) => Role::SmallMessages,
            (Look::SystemCall, _) | (_, Delivery::Ordered) => Role::BulkData,
        }
    }
}

/// What becomes of packets on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// They may be lost, repeated or reordered, never on purpose: a flow makes messages of them.
    Unreliable,
    /// Each arrives once and in the order of sending, or [`Carrier::take_broken`] tells of it.
    Ordered,
}

/// What a look for packets costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A few reads of memory: it is made in every pass.
    Memory,
    /// A call of the system or of a library, a hundred times as dear: it is made once in several passes where
    /// something else is looked at as well.
    SystemCall,
}

/// What a carrier can send to groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulticastAttributes {
    /// The largest packet that can be sent to a group, in bytes.
    pub packet_size: usize,
    /// Packets to groups that may arrive while nobody looks; more of one sender should not be under way.
    /// `None`: the carrier does not know.
    pub receives: Option<usize>,
}

/// What a carrier counts and remembers, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// Packets that arrived and were dropped by the carrier itself: cut, or larger than a packet may be.
    pub rejected: u64,
    /// Packets that it wrote to memory of their receivers by itself (the fast path of RDMA devices).
    pub written: u64,
    /// What the machine said when it last refused a packet ([`Outcome::Dropped`]); `None` if it never has.
    pub last_refusal: Option<String>,
}

/// What moves packets between processes: small, so that a new one is soon written. What only some can do is
/// behind [`Self::rma`] and [`Self::multicast`]. A carrier around another one is a [`super::Wrapper`].
pub trait Carrier {
    /// What it is.
    fn attributes(&self) -> &CarrierAttributes;

    /// Sends one packet of at most [`CarrierAttributes::packet_size`] bytes. Never blocks.
    ///
    /// # Errors
    /// Only what no later attempt can cure (the socket is unusable, the address is another carrier's);
    /// everything transient is an [`Outcome`].
    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome>;

    /// Sends a train: consecutive packets of `segment` bytes each (the last may be shorter) to one peer, of
    /// any length. Returns how many bytes were taken, a multiple of `segment` or all; less than all means
    /// "would block". What is [`Outcome::Dropped`] counts as taken, by a carrier with [`Delivery::Ordered`]
    /// as well: who needs to know sends packet by packet. A carrier with segmentation offload takes
    /// [`CarrierAttributes::train_bytes`] with one system call; one without has [`send_one_by_one`].
    ///
    /// # Errors
    /// As [`Self::send`].
    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize>;

    /// Hands packets that have arrived to `on_arrival`, in order of arrival; returns how many. Never blocks.
    /// Stops once `limit` have been handed over; those that the kernel joined to one are handed over
    /// together, so there may be up to [`JOINED_MAX`] more. With a limit of 0 nothing happens. Who sent a
    /// packet is written in the packet and proved by its tag, so the sender's address is not reported.
    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize;

    /// Called before each sleep on [`CarrierAttributes::descriptor`]; `false`: something has arrived that the
    /// descriptor would not tell of, or there is none.
    fn prepare_sleep(&mut self) -> bool;

    /// What it has counted.
    fn diagnostics(&self) -> Diagnostics;

    /// Packets to this address that the carrier has taken and that have not left it: somebody must look at it
    /// until they have. 0 of carriers that hand each packet to the kernel.
    fn under_way(&self, to: &Address) -> usize;

    /// An address to which a packet that the carrier had taken has not been delivered, each such address
    /// once; asked of carriers with [`Delivery::Ordered`]. [`Diagnostics::last_refusal`] says why. `None` of
    /// all others.
    fn take_broken(&mut self) -> Option<Address>;

    /// Access to memory of peers ([`CarrierAttributes::remote_memory`]).
    fn rma(&mut self) -> Option<&mut dyn RemoteMemoryAccess> {
        None
    }

    /// Groups ([`CarrierAttributes::multicast`]). `None` also where the machine has refused what they take.
    fn multicast(&mut self) -> Option<&mut dyn Multicast> {
        None
    }
}

/// Access to memory of peers, in which their processors have no part. The engine's part is
/// `engine/placement.rs`.
pub trait RemoteMemoryAccess {
    /// Lets peers access the first `length` bytes of `data`, which are one run of memory, until
    /// [`Self::deregister`]; `None` where that cannot be done at present. The engine keeps the operation open
    /// that `data` belongs to as long as it is registered.
    fn register(&mut self, data: &UserData, length: u64) -> Option<(Registration, RemoteMemory)>;

    /// No access to the memory that begins after this call succeeds.
    fn deregister(&mut self, registration: Registration);

    /// Writes the bytes `range` of `data`, which are one run of memory, to `target` of the process at `to`.
    /// They stay as they are until [`Self::poll_completion`] has returned `number`, unless the carrier has
    /// said before that the peer is lost ([`Carrier::take_broken`]).
    fn write(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun;

    /// The same the other way: reads what lies at `target` into `range` of `data`.
    fn read(&mut self, to: &Address, data: &UserData, range: Range<u64>, target: RemoteMemory, number: u64) -> Begun;

    /// The number of an access that is complete, each once.
    fn poll_completion(&mut self) -> Option<u64>;
}

/// Packets that reach all members of a group.
pub trait Multicast {
    /// The address of one of a job's groups, which these numbers name. Packets are sent to it as to a peer's.
    fn address(&self, job: u64, group: u64) -> Address;

    /// Packets may be sent to this multicast address from now on and, if it `receives`, arrive. Those of this
    /// process do not.
    ///
    /// # Errors
    /// The machine refuses.
    fn join(&mut self, group: &Address, receives: bool) -> io::Result<()>;

    /// They need not arrive any more.
    fn leave(&mut self, group: &Address);
}

/// [`Carrier::send_train`] of carriers for which trains are nothing else than packets.
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

/// For those who want packets and not what came together: [`Carrier::receive`] with each packet by itself.
pub fn receive_packets<C: Carrier + ?Sized>(carrier: &mut C, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
    carrier.receive(&mut |arrival| arrival.packets().for_each(&mut *on_packet), limit)
}

/// Packets that a kernel joins to one at most: Linux's limit is 128 segments, and 64 KiB in all.
pub const JOINED_MAX: usize = 128;

/// The error for an address of another carrier.
pub fn wrong_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the address belongs to another kind of link")
}
