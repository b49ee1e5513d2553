//! The interface of every datagram link: send a packet, or a *train* of consecutive packets of equal size; receive what has arrived; say what the
//! link can do. Faults and capture are links that wrap another link.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::RawFd;

use super::placement::{Begun, Exposure, Placement, RemoteMemory};
use crate::memory::UserData;

/// Where a link sends a packet: each kind of link has its own kind of address.
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

impl Address {
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

/// What became of a packet handed to [`Datagrams::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel took it. It may still be lost.
    Sent,
    /// The socket's send buffer is full: wait until [`Datagrams::fd`] is writable, or try again later.
    WouldBlock,
    /// Refused by the machine (firewall, queue full, no route just now) and counted: a lost packet like any other.
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
}

/// A link that carries packets unreliably: it may lose, repeat or reorder them, never on purpose.
pub trait Datagrams {
    /// The link's name, as `WEFT_LINK` says it.
    fn name(&self) -> &'static str;

    /// Sends one packet of at most [`Self::packet_size`] bytes. One system call, never blocks.
    ///
    /// # Errors
    /// Only what no later attempt can cure (the socket is unusable, the address is another link's); everything transient is an
    /// [`Outcome`].
    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome>;

    /// Sends a train: consecutive packets of `segment` bytes each (the last may be shorter) to one peer, of any length.
    /// Returns how many bytes were taken, a multiple of `segment` or all; less than all means "would block".
    /// A link with segmentation offload takes [`Self::train_bytes`] with one system call.
    ///
    /// # Errors
    /// As [`Self::send`].
    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        let mut taken = 0;
        for packet in train.chunks(segment.max(1)) {
            if self.send(to, packet)? == Outcome::WouldBlock {
                break;
            }
            taken += packet.len();
        }
        Ok(taken)
    }

    /// Bytes of a train that are sent by one system call; no more than a packet where trains gain nothing.
    fn train_bytes(&self) -> usize {
        self.packet_size()
    }

    /// Hands packets that have arrived to `on_packet`, in order of arrival; returns how many. Never blocks.
    /// Stops once `limit` have been handed over; those that the kernel joined to one are handed over together, so there may be
    /// up to [`JOINED_MAX`] more. With a limit of 0 nothing happens.
    /// Who sent a packet is written in the packet and proved by its tag, so the sender's address is not reported.
    fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize;

    /// Like [`Self::receive`], but packets that the kernel joined are handed over as one, and with the network's mark.
    fn receive_trains(&mut self, on_train: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        self.receive(&mut |packet| on_train(Arrival::packet(packet)), limit)
    }

    /// The descriptor that becomes readable when a packet arrives; negative: there is none, so nobody may sleep.
    fn fd(&self) -> RawFd;

    /// Called before each sleep on [`Self::fd`]; `false`: something has arrived that the descriptor would not tell of, or there is none.
    fn arm(&mut self) -> bool {
        self.fd() >= 0
    }

    /// Packets that arrived and were dropped by the link itself: cut, or larger than a packet may be.
    fn rejected(&self) -> u64 {
        0
    }

    /// Packets that it wrote to memory of their receivers by itself (the fast path of RDMA devices).
    fn written(&self) -> u64 {
        0
    }

    /// What the machine said when it last refused a packet ([`Outcome::Dropped`]), for a message to the user; none if it never has.
    fn last_refusal(&self) -> Option<String> {
        None
    }

    /// Packets to this address that the link has taken and that have not left it: somebody must look at it until they have. 0 of links that
    /// hand each packet to the kernel.
    fn under_way(&self, _to: &Address) -> usize {
        0
    }

    /// An address to which a packet that the link had taken has not been delivered, by a link that delivers every packet once and in order;
    /// each such address once. [`Self::last_refusal`] says why.
    fn take_broken(&mut self) -> Option<Address> {
        None
    }

    /// The largest packet this end can send and receive, in bytes. A pair uses the smaller of its two ends.
    fn packet_size(&self) -> usize;

    /// What the link can do to the memory of peers by itself; none if nothing.
    fn placement(&self) -> Option<Placement> {
        None
    }

    /// Lets peers access the first `length` bytes of `data`, which are one run of memory, until [`Self::conceal`]; none where that cannot be done
    /// at present. The engine keeps the operation open that `data` belongs to as long as it is exposed.
    fn expose(&mut self, _data: &UserData, _length: u64) -> Option<(Exposure, RemoteMemory)> {
        None
    }

    /// No access to the memory that begins after this call succeeds.
    fn conceal(&mut self, _exposure: Exposure) {}

    /// Writes the bytes `range` of `data`, which are one run of memory, to `target` of the process at `to`. They stay as they are until
    /// [`Self::poll_placed`] has returned `number`, unless the link has said before that the peer is lost ([`Self::take_broken`]).
    fn write(
        &mut self,
        _to: &Address,
        _data: &UserData,
        _range: Range<u64>,
        _target: RemoteMemory,
        _number: u64,
    ) -> Begun {
        Begun::Never
    }

    /// The same the other way: reads what lies at `target` into `range` of `data`.
    fn read(
        &mut self,
        _to: &Address,
        _data: &UserData,
        _range: Range<u64>,
        _target: RemoteMemory,
        _number: u64,
    ) -> Begun {
        Begun::Never
    }

    /// The number of an access that is complete, each once.
    fn poll_placed(&mut self) -> Option<u64> {
        None
    }

    /// The multicast address of one of a job's groups, which these numbers name; none if the link has no multicast. Packets are sent to it as to a
    /// peer's.
    fn group(&self, _job: u64, _group: u64) -> Option<Address> {
        None
    }

    /// The largest packet that can be sent to a multicast group, in bytes.
    fn group_packet_size(&self) -> usize {
        self.packet_size()
    }

    /// Packets to groups that may arrive while nobody looks; more of one sender should not be under way. The largest number: the link does not know.
    fn group_receives(&self) -> usize {
        usize::MAX
    }

    /// Packets may be sent to this multicast address from now on and, if it `receives`, arrive. Those of this process do not.
    ///
    /// # Errors
    /// The machine refuses, or the link has no multicast.
    fn join(&mut self, _group: &Address, _receives: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// They need not arrive any more.
    fn leave(&mut self, _group: &Address) {}
}

/// Packets that a kernel joins to one at most: Linux's limit is 128 segments, and 64 KiB in all.
pub const JOINED_MAX: usize = 128;

/// The error for an address of another link.
pub fn wrong_address() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the address belongs to another kind of link")
}
