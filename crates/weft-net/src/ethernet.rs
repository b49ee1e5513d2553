//! Frames straight on an Ethernet interface, without the kernel's IP and UDP: of the paths that every
//! interface offers between two hosts of a segment, this one has the least work.
//!
//! It needs the privilege CAP_NET_RAW. It is unreliable, as all datagrams here.
//!
//! A port tells the processes of a host apart. A process takes its port from the kernel's UDP ports, so that
//! no two processes have the same. A filter in the kernel passes only frames for that port. The link does not
//! know whether another host is on the same segment at all: the link's user sends a challenge and waits for
//! the response (`weft_core::path_validation`).

mod filter;
pub(crate) mod frame;
mod groups;
pub mod netd;
mod socket;

pub(crate) use frame::{ETHER_TYPE, share_of_header};

use std::fmt::Write;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use crate::carrier::{
    Address, Arrival, Carrier, CarrierAttributes, Diagnostics, EthernetAddress, Look, Multicast, MulticastAttributes,
    Outcome, send_one_by_one, wrong_address,
};
use crate::udp::{self, PACKET_SIZE_MAX, PACKET_SIZE_MIN};
use crate::{Error, reason};
pub use filter::Filter;
use groups::Groups;
use socket::PacketSocket;
pub use socket::{hardware_address, open_filtered};
use weft_core::rails::RAILS_MAX;

/// Bytes of memory for frames that have arrived and that the link has not looked at.
const RING_BYTES: usize = 4 << 20;
/// Looks that find nothing, after which the link asks whether the socket holds an error.
const LOOKS_PER_CHECK: u32 = 256;

/// Counters of the link's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that the kernel took.
    pub packets_sent: u64,
    /// Packets that were handed to the caller.
    pub packets_received: u64,
    /// Sends that found the send buffer full.
    pub would_block: u64,
    /// Frames that were refused: the interface is down, or a queue is full.
    pub dropped: u64,
    /// Packets that were larger than the interface carries.
    pub too_large: u64,
    /// Frames that were cut, or whose header was wrong.
    pub malformed: u64,
    /// Errors that the socket reported, for example that an interface went down.
    pub errors: u64,
}

/// The endpoint address of this end: the facts that other processes need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointAddress {
    /// Index of the interface among those that are offered (`udp::Candidate::rail`).
    pub rail: u8,
    /// The address to send to.
    pub address: EthernetAddress,
    /// Longest packet in bytes.
    pub packet_size: u16,
    /// Packets that the receive ring holds, of all senders together.
    pub window_packets: u32,
}

impl EndpointAddress {
    /// Encodes the endpoint address as compact text of `[0-9a-f.]`: rail, address, port, packet size, window.
    pub fn encode(&self) -> String {
        let mut text = format!("{:x}.", self.rail);
        for byte in self.address.mac {
            write!(text, "{byte:02x}").expect("strings accept all text");
        }
        let Self { address, packet_size, window_packets, .. } = self;
        write!(text, ".{:04x}.{packet_size:04x}.{window_packets:x}", address.port).expect("strings accept all text");
        text
    }

    /// Decodes the text of [`Self::encode`].
    ///
    /// # Errors
    /// The text is not an endpoint address, or a value in it is out of range.
    pub fn decode(text: &str) -> Result<Self, Error> {
        parse(text)
            .ok_or_else(|| Error::Invalid(format!("this is not the business card of an Ethernet link: {text:?}")))
    }
}

fn parse(text: &str) -> Option<EndpointAddress> {
    let fields: Vec<&str> = text.split('.').collect();
    let [rail, mac, port, size, window] = fields[..] else { return None };
    let hex = |field: &str, most: usize| {
        let is_hex = (1..=most).contains(&field.len()) && field.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u64::from_str_radix(field, 16).ok())?
    };
    let number = hex(mac, 12).filter(|_| mac.len() == 12)?;
    let bytes = number.to_be_bytes();
    let packet_size = hex(size, 4)? as u16;
    // The second bit of the address means "a group": no interface has such an address.
    let fits = (PACKET_SIZE_MIN..=PACKET_SIZE_MAX).contains(&usize::from(packet_size)) && bytes[2] & 1 == 0;
    let address = EthernetAddress { mac: std::array::from_fn(|i| bytes[2 + i]), port: hex(port, 4)? as u16 };
    let rail = hex(rail, 1)? as u8;
    fits.then_some(EndpointAddress { rail, address, packet_size, window_packets: hex(window, 8)? as u32 })
}

/// The link of raw frames over one open Ethernet interface.
pub struct Ethernet {
    socket: PacketSocket,
    rail: u8,
    address: EthernetAddress,
    interface: String,
    /// The interface's index.
    index: u32,
    groups: Groups,
    attributes: CarrierAttributes,
    frame: Vec<u8>,
    idle_looks: u32,
    counters: Counters,
    /// The socket that keeps the port for this process when no UDP link does.
    _port: Option<OwnedFd>,
}

impl Ethernet {
    /// Opens the first Ethernet interface that has one of the addresses which the UDP link would offer.
    /// `port`: a UDP port that this process holds; none: the link takes one. `netd`: the path of `weft-netd`,
    /// which gives a socket, with another port, to a process without the privilege.
    ///
    /// # Errors
    /// No interface fits, or the privilege is missing; the sentence says which.
    pub fn open(settings: &udp::Settings, port: Option<u16>, netd: Option<&Path>) -> Result<Self, Error> {
        let fitting = choose(settings)?;
        Self::open_one(settings, port, netd, &fitting[0], RING_BYTES)
    }

    /// Opens all Ethernet interfaces that have one of the addresses which the UDP link would offer, the
    /// better ones first, at most [`RAILS_MAX`]. Interfaces that cannot be opened are left out.
    ///
    /// # Errors
    /// As for [`Self::open`], of the first interface.
    pub fn open_all(settings: &udp::Settings, port: Option<u16>, netd: Option<&Path>) -> Result<Vec<Self>, Error> {
        let fitting = choose(settings)?;
        // All interfaces together take the memory of a single ring.
        let ring = RING_BYTES / fitting.len();
        let (first, others) = fitting.split_at(1);
        let mut opened = vec![Self::open_one(settings, port, netd, &first[0], ring)?];
        let port = Some(opened[0].address.port);
        opened.extend(others.iter().filter_map(|one| Self::open_one(settings, port, netd, one, ring).ok()));
        Ok(opened)
    }

    fn open_one(
        settings: &udp::Settings,
        port: Option<u16>,
        netd: Option<&Path>,
        one: &Fitting,
        ring: usize,
    ) -> Result<Self, Error> {
        let Fitting { interface, index, mac, mtu, rail } = one.clone();
        let (fd, holder, port) = open_socket(&interface, index, port, netd)?;
        let most = settings.packet_size_max.unwrap_or(PACKET_SIZE_MAX).min(PACKET_SIZE_MAX).min(frame::PACKET_MAX);
        let packet_size = (mtu as usize).saturating_sub(frame::MTU_SHARE).min(most);
        let socket = PacketSocket::new(fd, frame::HEADER + packet_size, ring)
            .map_err(|cause| Error::system(format!("share a ring for frames of {interface} with the kernel"), cause))?;
        let attributes = CarrierAttributes {
            descriptor: Some(socket.fd()),
            multicast: Some(MulticastAttributes { packet_size, receives: None }),
            ..CarrierAttributes::packets("ethernet", packet_size, Look::Memory)
        };
        Ok(Self {
            socket,
            rail,
            address: EthernetAddress { mac, port },
            interface,
            index,
            groups: Groups::default(),
            attributes,
            frame: frame::template(mac),
            idle_looks: 0,
            counters: Counters::default(),
            _port: holder,
        })
    }

    /// Returns the endpoint address that peers need, for the business card.
    pub fn endpoint_address(&self) -> EndpointAddress {
        EndpointAddress {
            rail: self.rail,
            address: self.address,
            packet_size: self.attributes.packet_size as u16,
            window_packets: self.socket.frames() as u32,
        }
    }

    /// Returns the interface's name.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the frames for which the ring had no room, since the last call.
    pub fn take_losses(&self) -> u32 {
        self.socket.take_losses()
    }

    fn refused(&mut self, cause: &io::Error) -> Option<Outcome> {
        match cause.raw_os_error()? {
            libc::EAGAIN => {
                self.counters.would_block += 1;
                Some(Outcome::WouldBlock)
            }
            libc::EMSGSIZE => {
                self.counters.too_large += 1;
                Some(Outcome::TooLarge)
            }
            // A full queue, or an interface that is down or gone: it may come back, and a flow retransmits.
            libc::ENOBUFS | libc::ENOMEM | libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EIO => {
                self.counters.dropped += 1;
                Some(Outcome::Dropped)
            }
            _ => None,
        }
    }

    /// Takes the socket's error. A socket whose interface went down counts as readable until its error is
    /// taken.
    #[cold]
    fn check_socket(&mut self) {
        self.idle_looks = 0;
        if self.socket.take_error().is_some() {
            self.counters.errors += 1;
        }
    }
}

impl Carrier for Ethernet {
    #[inline]
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    #[inline]
    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        let Address::Ethernet(to) = to else { return Err(wrong_address()) };
        if packet.len() > self.attributes.packet_size {
            self.counters.too_large += 1;
            return Ok(Outcome::TooLarge);
        }
        let length = frame::emit(&mut self.frame, to.mac, to.port, packet);
        let mut last = None;
        for _ in 0..crate::sys::INTERRUPTS_MAX {
            match self.socket.send(&self.frame[..length]) {
                Ok(()) => {
                    self.counters.packets_sent += 1;
                    return Ok(Outcome::Sent);
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => last = Some(cause),
                Err(cause) => return self.refused(&cause).ok_or(cause),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::Interrupted.into()))
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        send_one_by_one(self, to, train, segment)
    }

    #[inline]
    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        let Self { socket, counters, address, groups, .. } = self;
        let (mut frames, mut handled) = (0, 0);
        let mut take = |bytes: &[u8], length: usize| {
            let to_group = frame::is_to_group(bytes);
            // Other processes of this host may have joined groups that this process has not.
            if to_group && !groups.has_joined(bytes) {
                return;
            }
            let port = if to_group { groups.port() } else { address.port };
            match frame::parse(bytes, port) {
                Some(packet) if length == bytes.len() => {
                    on_arrival(Arrival { to_group, ..Arrival::packet(packet) });
                    handled += 1;
                }
                _ => counters.malformed += 1,
            }
        };
        while frames < limit && socket.receive(&mut take) {
            frames += 1;
        }
        if frames == 0 {
            self.idle_looks += 1;
            if self.idle_looks >= LOOKS_PER_CHECK {
                self.check_socket();
            }
            return 0;
        }
        self.counters.packets_received += handled as u64;
        handled
    }

    fn prepare_sleep(&mut self) -> bool {
        true
    }

    fn diagnostics(&self) -> Diagnostics {
        Diagnostics { rejected: self.counters.malformed, ..Diagnostics::default() }
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

impl Multicast for Ethernet {
    fn address(&self, job: u64, group: u64) -> Address {
        groups::address(job, group).into()
    }

    fn join(&mut self, group: &Address, receives: bool) -> io::Result<()> {
        let Address::Ethernet(group) = group else { return Err(wrong_address()) };
        if !receives {
            return Ok(());
        }
        let Self { groups, socket, index, address, .. } = self;
        let filter =
            Filter { interface: *index, port: address.port, user: crate::sys::user(), groups: Some(group.port) };
        groups.join(group, || socket.change_filter(&filter), |mac| socket.listen(*index, mac, true))
    }

    fn leave(&mut self, group: &Address) {
        let Address::Ethernet(group) = group else { return };
        if self.groups.leave(group) {
            // Frames that still come belong to no known group.
            let _ = self.socket.listen(self.index, group.mac, false);
        }
    }
}

/// An interface that can carry raw frames.
#[derive(Clone)]
struct Fitting {
    interface: String,
    index: u32,
    mac: [u8; 6],
    mtu: u32,
    rail: u8,
}

/// Returns the interfaces to use, the better ones first: at least one.
fn choose(settings: &udp::Settings) -> Result<Vec<Fitting>, Error> {
    let (mut reasons, mut fitting) = (Vec::new(), Vec::<Fitting>::new());
    for one in udp::consider(settings)? {
        let Ok(candidate) = &one.verdict else { continue };
        let (index, rail, mtu) = (candidate.interface, candidate.rail, one.mtu);
        if usize::from(rail) >= RAILS_MAX || fitting.iter().any(|known| known.index == index) {
            continue;
        }
        match socket::hardware_address(&one.interface) {
            Ok(Some(mac)) => fitting.push(Fitting { interface: one.interface, index, mac, mtu, rail }),
            Ok(None) => reasons.push(format!("{} is not Ethernet", one.interface)),
            Err(cause) => reasons.push(format!("{}: {}", one.interface, reason(&cause))),
        }
    }
    weft_ordered::sort_by_key(&mut fitting, |one| one.rail);
    if !fitting.is_empty() {
        return Ok(fitting);
    }
    reasons.dedup();
    let why = if reasons.is_empty() { "none has an address to offer".to_owned() } else { reasons.join("; ") };
    Err(Error::Unavailable(format!("no interface can be used for raw frames: {why}")))
}

/// Opens a socket on the interface. Returns it, the socket that holds its port unless the caller does, and
/// the port.
fn open_socket(
    interface: &str,
    index: u32,
    port: Option<u16>,
    netd: Option<&Path>,
) -> Result<(OwnedFd, Option<OwnedFd>, u16), Error> {
    let (holder, port) = match port {
        Some(port) => (None, port),
        None => {
            let (holder, port) = take_port().map_err(|cause| Error::system("take a port", cause))?;
            (Some(OwnedFd::from(holder)), port)
        }
    };
    let refusal = match open_filtered(&Filter { interface: index, port, user: crate::sys::user(), groups: None }, false)
    {
        Ok(socket) => return Ok((socket, holder, port)),
        Err(cause) if matches!(cause.raw_os_error(), Some(libc::EPERM | libc::EACCES)) => netd,
        Err(cause) => return Err(Error::system(format!("open {interface} for raw frames"), cause)),
    };
    let why = match refusal.map(|path| netd::ask(path, index)) {
        Some(Ok(granted)) => return Ok((granted.socket, Some(granted.holder), granted.port)),
        Some(Err(why)) => why.to_string(),
        None => "weft-netd is not asked".into(),
    };
    Err(Error::Unavailable(format!(
        "raw frames on {interface} would make small messages faster; they need weft-netd (systemctl enable --now \
         weft-netd.socket), CAP_NET_RAW (setcap cap_net_raw+ep PROGRAM), or root ({why})"
    )))
}

/// Returns a UDP socket on a port that no other process of this host has, and the port.
///
/// # Errors
/// No port is free, or there is neither IPv4 nor IPv6.
pub fn take_port() -> io::Result<(UdpSocket, u16)> {
    let holder =
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).or_else(|_| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)))?;
    // No process reads datagrams that strangers send there.
    let _ = crate::sys::set_option(holder.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, 0);
    let port = holder.local_addr()?.port();
    Ok((holder, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_read_as_they_were_written_and_nonsense_is_refused() {
        let address = EthernetAddress { mac: [2, 0xfe, 0, 1, 2, 0xff], port: 0xffee };
        let endpoint_address = EndpointAddress { rail: 1, address, packet_size: 1494, window_packets: 2048 };
        assert_eq!(EndpointAddress::decode(&endpoint_address.encode()).unwrap(), endpoint_address);
        assert_eq!(endpoint_address.encode(), "1.02fe000102ff.ffee.05d6.800");
        for bad in [
            "",
            "1.02fe000102ff.ffee.05d6",
            "02fe000102ff.ffee.05d6.800",
            "1.02fe000102ff.ffee.05d6.800.1",
            "1.2fe000102ff.ffee.05d6.800",
            "1.03fe000102ff.ffee.05d6.800",
            "1.02fe000102ff.ffee.0001.800",
            "1.02fe000102ff.ffee.ffff.800",
            "1.02fe000102ff.+fee.05d6.800",
            "1.02fe000102ff.ffee.05d6.123456789",
            "10.02fe000102ff.ffee.05d6.800",
        ] {
            assert!(EndpointAddress::decode(bad).is_err(), "{bad}");
        }
    }
}
