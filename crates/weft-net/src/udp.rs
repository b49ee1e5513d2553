//! Datagrams between nodes over the kernel's UDP. The link is unreliable on purpose: the core's flow numbers,
//! acknowledges and retransmits.
//!
//! A process has one unconnected socket, bound to all addresses of one family, and connected sockets for the
//! few peers that it exchanges most with. Where the kernel can do so, a train of packets leaves with
//! segmentation offload (`UDP_SEGMENT`) and arrives joined (`UDP_GRO`); elsewhere it goes packet by packet.
//! IP never fragments, and the link does not heed ICMP messages about the path. So the core's flow notices
//! when the path does not carry a packet, which is lost then, and a forged ICMP message changes nothing.

mod address;
mod connected;
mod groups;
mod options;
mod socket;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::carrier::{
    Address, Arrival, Carrier, CarrierAttributes, Diagnostics, Look, Multicast, MulticastAttributes, Outcome,
    wrong_address,
};
use crate::sys::{self, Datagram, ReceiveBatch};
use crate::{Error, node, watch};
use address::Selection;
pub use address::{CANDIDATES_MAX, Candidate, Considered, EndpointAddress};
pub use address::{PACKET_SIZE_MAX, PACKET_SIZE_MIN, Pair, choose_peer_address, pair_rails, standby_pair};
use connected::{Connected, SocketIndex};
use groups::Groups;
pub(crate) use groups::address as group_address;
use options::{enlarge_buffers, open, prepare, window, window_warning};

/// Bytes of the longest train that a call takes: as many as an IPv4 packet can name.
const TRAIN_BYTES: usize = 65_507;
/// Room for an arriving datagram: no datagram is larger, joined or not.
const DATAGRAM_BYTES_MAX: usize = 1 << 16;
/// Most packets of a train in a call; newer kernels take 128.
const TRAIN_PACKETS_MAX: usize = 64;
/// Refusals in a row after which trains leave packet by packet for good.
const REFUSALS_MAX: u32 = 8;
/// Datagrams that a system call receives.
const BATCH: usize = 32;
/// Most joined datagrams that a system call receives. They are large, and all of them should stay in the
/// cache until the link reads them.
const BATCH_JOINED: usize = 4;
/// Most errors that the receiver takes from the socket in a look.
const RECEIVE_ERRORS_MAX: usize = 16;

/// Settings by which the socket is made.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Interfaces to use (`WEFT_INTERFACE`): names or subnets separated by commas, the better ones first,
    /// e.g. `eth0,10.1.0.0/16`. An entry with `!` in front is not used. None: all interfaces that fit.
    pub interfaces: Option<String>,
    /// Upper bound of the packet size in bytes, at least [`PACKET_SIZE_MIN`]. None: the interfaces' MTU
    /// decides.
    pub packet_size_max: Option<usize>,
}

/// Counters of a socket's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets that the kernel took.
    pub packets_sent: u64,
    /// Packets that were handed to the caller.
    pub packets_received: u64,
    /// Sends that found the send buffer full.
    pub would_block: u64,
    /// Packets that a firewall, a full queue or a missing route refused.
    pub dropped: u64,
    /// Packets that were larger than the link carries.
    pub too_large: u64,
    /// Trains that the kernel cut (segmentation offload).
    pub trains_sent: u64,
    /// Trains that the kernel refused to cut.
    pub trains_refused: u64,
    /// Large datagrams into which the kernel joined several that arrived.
    pub joined_received: u64,
    /// Datagrams that arrived with a mark of congestion (RFC 3168); joined ones count once.
    pub marked: u64,
    /// Packets that arrived longer than a packet may be.
    pub truncated: u64,
    /// Errors that the socket reported while receiving.
    pub receive_errors: u64,
}

/// Returns every address of this machine, with the verdict that [`Udp::bind`] would come to.
///
/// # Errors
/// The interfaces cannot be listed, or the settings make no sense.
pub fn consider(settings: &Settings) -> Result<Vec<Considered>, Error> {
    let selection = Selection::parse(settings.interfaces.as_deref().unwrap_or(""))?;
    let interfaces = sys::interfaces().map_err(|cause| Error::system("list the network interfaces", cause))?;
    Ok(address::consider(&interfaces, &selection, node::network()))
}

/// Returns the addresses that [`Udp::bind`] would offer, for links that need no UDP: their port is 0.
///
/// # Errors
/// As for [`Udp::bind`], but for the socket.
pub fn candidates(settings: &Settings) -> Result<Vec<Candidate>, Error> {
    let selection = Selection::parse(settings.interfaces.as_deref().unwrap_or(""))?;
    let interfaces = sys::interfaces().map_err(|cause| Error::system("list the network interfaces", cause))?;
    address::select(&interfaces, &selection, node::network())
}

/// The socket to look at.
#[derive(Clone, Copy)]
enum Source {
    /// A socket that peers send to.
    Peers(SocketIndex),
    /// The socket of the multicast groups.
    Groups,
}

/// A bound UDP socket.
pub struct Udp {
    socket: UdpSocket,
    connected: Connected,
    /// The socket where packets to multicast groups arrive, if a group has been joined.
    groups: Groups,
    /// Descriptor that is readable when one of the sockets is.
    wake: OwnedFd,
    /// The addresses of this end, at least one.
    candidates: Vec<Candidate>,
    batch: ReceiveBatch,
    attributes: CarrierAttributes,
    window_packets: u32,
    /// True if the last look found a datagram: then more is likely, and a batch is worth its price.
    was_busy: bool,
    /// True if that look found joined datagrams.
    was_joined: bool,
    /// True if that look found datagrams for a multicast group.
    was_group: bool,
    /// Trains that the kernel refused since it last took one.
    refusals: u32,
    last_refusal: Option<i32>,
    counters: Counters,
    warnings: Vec<String>,
}

impl Udp {
    /// Opens the socket and finds the addresses to offer: IPv4 when any usable interface has it, else IPv6.
    /// Loopback is offered only when there is nothing else, or the settings ask for it. Interfaces that are
    /// down or without carrier, and bridges for containers, are left out.
    ///
    /// # Errors
    /// No interface can be used (each is named with its reason), the settings make no sense, or the socket
    /// cannot be made.
    pub fn bind(settings: &Settings) -> Result<Self, Error> {
        let most = settings.packet_size_max.unwrap_or(PACKET_SIZE_MAX);
        if most < PACKET_SIZE_MIN {
            return Err(Error::Invalid(format!(
                "packets of {most} bytes are too small, {PACKET_SIZE_MIN} is the least"
            )));
        }
        let mut candidates = candidates(settings)?;
        let is_v4 = candidates[0].ip.is_ipv4();
        let socket = open(is_v4).map_err(|cause| Error::system("open a UDP socket", cause))?;
        let port = socket.local_addr().map_err(|cause| Error::system("ask for the UDP port", cause))?.port();
        for candidate in &mut candidates {
            candidate.port = port;
            candidate.packet_size = candidate.packet_size.min(most.min(PACKET_SIZE_MAX) as u16);
        }
        let packet_size =
            candidates.iter().map(|candidate| usize::from(candidate.packet_size)).max().unwrap_or(PACKET_SIZE_MIN);
        let window_packets = window(enlarge_buffers(&socket), packet_size);
        let wake = watch::any_of(&[socket.as_raw_fd()]).map_err(|cause| Error::system("watch a UDP socket", cause))?;
        let attributes = CarrierAttributes {
            train_bytes: TRAIN_BYTES,
            descriptor: Some(wake.as_raw_fd()),
            multicast: Some(MulticastAttributes { packet_size, receives: None }),
            ..CarrierAttributes::packets("udp", packet_size, Look::SystemCall)
        };
        Ok(Self {
            socket,
            connected: Connected::default(),
            groups: Groups::default(),
            wake,
            candidates,
            batch: ReceiveBatch::new(BATCH, DATAGRAM_BYTES_MAX),
            attributes,
            window_packets,
            was_busy: false,
            was_joined: false,
            was_group: false,
            refusals: 0,
            last_refusal: None,
            counters: Counters::default(),
            warnings: window_warning(window_packets),
        })
    }

    /// Returns this end's endpoint address, which peers need; for the business card.
    pub fn endpoint_address(&self) -> EndpointAddress {
        EndpointAddress { candidates: self.candidates.clone(), window_packets: self.window_packets }
    }

    /// Returns this end's addresses, best first.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns one-line warnings for the user, e.g. that the receive buffer is small.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn refused(&mut self, cause: &io::Error) -> Option<Outcome> {
        let code = cause.raw_os_error()?;
        let outcome = match code {
            libc::EAGAIN => Outcome::WouldBlock,
            libc::EMSGSIZE => Outcome::TooLarge,
            // A queue or memory is full, a firewall refuses, a route or an interface has gone: it may come
            // back, and a flow retransmits.
            libc::ENOBUFS | libc::ENOMEM | libc::EPERM | libc::EACCES => Outcome::Dropped,
            libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EHOSTDOWN => Outcome::Dropped,
            // A "blackhole" route answers EINVAL.
            libc::EADDRNOTAVAIL | libc::ECONNREFUSED | libc::EINVAL => Outcome::Dropped,
            _ => return None,
        };
        match outcome {
            Outcome::WouldBlock => self.counters.would_block += 1,
            Outcome::TooLarge => self.counters.too_large += 1,
            _ => {
                self.counters.dropped += 1;
                self.last_refusal = Some(code);
            }
        }
        Some(outcome)
    }

    /// Returns the connected socket through which packets to a peer leave, if the peer has one or gets one
    /// now; none for the shared socket.
    #[inline]
    fn line(&mut self, to: &SocketAddr) -> Option<usize> {
        let line = self.connected.to(to);
        if line.is_none() && !to.ip().is_multicast() && self.connected.vote(to) {
            self.connect(to);
            return self.connected.to(to);
        }
        line
    }

    #[cold]
    fn connect(&mut self, to: &SocketAddr) {
        let Self { socket: shared, connected, wake, candidates, .. } = self;
        let is_v4 = candidates[0].ip.is_ipv4();
        let prepared = connected.connect(shared, to, |socket| {
            prepare(socket, is_v4)?;
            enlarge_buffers(socket);
            watch::also(wake, socket.as_raw_fd())
        });
        if prepared.is_err() {
            connected.give_up();
        }
    }

    /// Sends a run of equal packets with a single call. Returns `None` when the kernel cannot cut the run, so
    /// that it goes packet by packet.
    fn send_run(&mut self, to: &SocketAddr, run: &[u8], segment: usize) -> io::Result<Option<Outcome>> {
        let packets = run.len().div_ceil(segment) as u64;
        let Ok(size) = u16::try_from(segment) else { return Ok(None) };
        let line = self.line(to);
        for _ in 0..sys::INTERRUPTS_MAX {
            let sent = match line {
                Some(line) => sys::send_segmented(self.connected.socket(line).as_fd(), None, run, size),
                None => sys::send_segmented(self.socket.as_fd(), Some(to), run, size),
            };
            let Err(cause) = sent else {
                self.refusals = 0;
                self.counters.trains_sent += 1;
                self.counters.packets_sent += packets;
                return Ok(Some(Outcome::Sent));
            };
            match cause.raw_os_error() {
                // ECONNREFUSED is about an earlier packet.
                Some(libc::EINTR | libc::ECONNREFUSED) => {}
                // No checksums in hardware, a tunnel, an old kernel, or a path smaller than a packet. Or no
                // route at all; the single packets will say that.
                Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE | libc::EOPNOTSUPP | libc::ENOPROTOOPT) => break,
                _ => return self.refused(&cause).map(Some).ok_or(cause),
            }
        }
        self.refusals += 1;
        self.counters.trains_refused += 1;
        Ok(None)
    }

    fn send_singly(&mut self, to: &SocketAddr, packet: &[u8]) -> io::Result<Outcome> {
        let (mut last, mut is_too_large) = (None, false);
        let line = self.line(to);
        for _ in 0..sys::INTERRUPTS_MAX {
            let sent = match line {
                Some(line) => self.connected.socket(line).send(packet),
                None => self.socket.send_to(packet, to),
            };
            match sent {
                Ok(_) => {
                    self.counters.packets_sent += 1;
                    return Ok(Outcome::Sent);
                }
                // ECONNREFUSED is about an earlier packet.
                Err(cause) if matches!(cause.raw_os_error(), Some(libc::EINTR | libc::ECONNREFUSED)) => {
                    last = Some(cause)
                }
                // The answer is about this packet, or about an earlier one, as an ICMP message says that any
                // host may have forged: ignore it once.
                Err(cause) if cause.raw_os_error() == Some(libc::EMSGSIZE) && !is_too_large => is_too_large = true,
                Err(cause) => return self.refused(&cause).ok_or(cause),
            }
        }
        let last = last.unwrap_or_else(|| io::ErrorKind::Interrupted.into());
        self.refused(&last).ok_or(last)
    }

    /// Receives datagrams into the batch, and returns their number; 0 when none has arrived.
    #[inline]
    fn fetch(&mut self, limit: usize) -> usize {
        if self.groups.come_first() {
            let count = self.fetch_from_groups(limit);
            if count > 0 {
                return count;
            }
        }
        for index in self.connected.where_to_look().into_iter().flatten() {
            let count = self.fetch_from(Source::Peers(index), limit);
            self.connected.looked(index, count > 0);
            if count > 0 {
                self.groups.looked(false);
                return count;
            }
        }
        if self.groups.come_last() { self.fetch_from_groups(limit) } else { 0 }
    }

    /// Receives datagrams that have come to the multicast groups of this process, and returns their number.
    fn fetch_from_groups(&mut self, limit: usize) -> usize {
        let count = self.fetch_from(Source::Groups, limit);
        self.groups.looked(count > 0);
        count
    }

    fn fetch_from(&mut self, source: Source, limit: usize) -> usize {
        let socket = match source {
            Source::Peers(index) => index.map_or(&self.socket, |index| self.connected.socket(index)),
            Source::Groups => match self.groups.socket() {
                Some(socket) => socket,
                None => return 0,
            },
        };
        let socket = socket.as_fd();
        self.was_group = matches!(source, Source::Groups);
        for _ in 0..RECEIVE_ERRORS_MAX {
            let fetched = if self.was_busy && limit > 1 {
                let most = if self.was_joined { BATCH_JOINED } else { BATCH };
                self.batch.receive(socket, limit.min(most))
            } else {
                // Receive a single datagram with the cheaper call: the usual case while a reply is awaited.
                self.batch.receive_one(socket).map(|()| 1)
            };
            match fetched {
                Ok(count) => return count,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return 0,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                // An ICMP message about an earlier packet, which this call took off the socket.
                Err(_) => self.counters.receive_errors += 1,
            }
        }
        0
    }
}

impl Carrier for Udp {
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    #[inline]
    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        let Address::Udp(to) = to else { return Err(wrong_address()) };
        self.send_singly(to, packet)
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        let Address::Udp(to) = to else { return Err(wrong_address()) };
        let segment = segment.max(1);
        let run_max = (TRAIN_BYTES / segment).clamp(1, TRAIN_PACKETS_MAX) * segment;
        let mut taken = 0;
        for run in train.chunks(run_max) {
            let is_train = run.len() > segment && self.refusals < REFUSALS_MAX;
            let outcome = if is_train { self.send_run(to, run, segment)? } else { None };
            match outcome {
                Some(Outcome::WouldBlock) => return Ok(taken),
                Some(_) => taken += run.len(),
                None => {
                    for packet in run.chunks(segment) {
                        match self.send_singly(to, packet)? {
                            Outcome::WouldBlock => return Ok(taken),
                            // The train was refused for this reason, so other trains may be cut as before.
                            Outcome::TooLarge => self.refusals = 0,
                            Outcome::Sent | Outcome::Dropped => {}
                        }
                        taken += packet.len();
                    }
                }
            }
        }
        Ok(taken)
    }

    #[inline]
    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        if limit == 0 {
            return 0;
        }
        let (mut handled, mut joined) = (0, 0);
        let count = self.fetch(limit);
        for i in 0..count {
            let Datagram { bytes, segment, marked } = self.batch.datagram(i);
            if segment > self.attributes.packet_size {
                self.counters.truncated += 1;
                continue;
            }
            let packets = if bytes.len() <= segment { 1 } else { bytes.len().div_ceil(segment) };
            joined += u64::from(packets > 1);
            self.counters.marked += u64::from(marked);
            on_arrival(Arrival { bytes, segment, marked, to_group: self.was_group });
            handled += packets;
        }
        self.was_busy = count > 0;
        self.was_joined = joined > 0;
        self.counters.joined_received += joined;
        self.counters.packets_received += handled as u64;
        handled
    }

    fn prepare_sleep(&mut self) -> bool {
        true
    }

    fn diagnostics(&self) -> Diagnostics {
        let last_refusal = self.last_refusal.map(|code| io::Error::from_raw_os_error(code).to_string());
        Diagnostics { rejected: self.counters.truncated, last_refusal, ..Diagnostics::default() }
    }

    fn under_way(&self, _to: &Address) -> usize {
        0
    }

    fn take_broken(&mut self) -> Option<Address> {
        None
    }

    fn multicast(&mut self) -> Option<&mut dyn Multicast> {
        Some(self)
    }
}

impl Multicast for Udp {
    fn address(&self, job: u64, group: u64) -> Address {
        let best = &self.candidates[0];
        Address::Udp(groups::address(best.ip, best.interface, job, group))
    }

    fn join(&mut self, group: &Address, receives: bool) -> io::Result<()> {
        let Address::Udp(group) = group else { return Err(wrong_address()) };
        let Self { groups, socket, wake, candidates, .. } = self;
        let best = &candidates[0];
        groups.send_through(socket, best)?;
        if !receives {
            return Ok(());
        }
        groups.join(best, group, |socket| {
            prepare(socket, best.ip.is_ipv4())?;
            enlarge_buffers(socket);
            watch::also(wake, socket.as_raw_fd())
        })
    }

    fn leave(&mut self, group: &Address) {
        if let Address::Udp(group) = group {
            self.groups.leave(&self.candidates[0], group);
        }
    }
}

#[cfg(test)]
#[path = "udp/udp_tests.rs"]
mod tests;
