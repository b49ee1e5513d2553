//! The run's multicast groups, by sockets or by an RDMA device.

use super::links::{Link, VERBS};
use super::{Identity, POLL, ROOM_WAIT};
use crate::doctor::protocol::SHORT_BYTES;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Instant;
use weft_net::carrier::{Address, Outcome};

pub(super) const NO_MULTICAST: &str = "there is no multicast socket";

/// The way in which packets go to the run's multicast groups.
pub(super) enum Multicast {
    Sockets(Sockets),
    /// An RDMA device sends datagrams to a group, which arrive by its link.
    Device {
        group: Address,
        packet_size: usize,
    },
}

impl Multicast {
    pub(super) fn packet_size(&self) -> usize {
        match self {
            Self::Sockets(Sockets { packet_size, .. }) | Self::Device { packet_size, .. } => *packet_size,
        }
    }

    pub(super) fn send(&self, links: &mut [Box<dyn Link>], packet: &[u8], copies: usize) -> Result<(), String> {
        let group = match self {
            Self::Sockets(sockets) => return sockets.send(sockets.group, packet, copies),
            Self::Device { group, .. } => group,
        };
        let link = links.iter_mut().find(|link| link.name() == VERBS).ok_or(NO_MULTICAST)?;
        let deadline = Instant::now() + ROOM_WAIT;
        let mut left = copies;
        while left > 0 {
            match link.carrier().send(group, packet).map_err(|error| error.to_string())? {
                Outcome::Sent => left -= 1,
                Outcome::WouldBlock if Instant::now() < deadline => std::thread::sleep(POLL),
                _ => return Err(link.refusal()),
            }
        }
        Ok(())
    }
}

/// Joins the run's group by an RDMA device; `None` if the link has no device.
pub(super) fn join_by_device(link: &mut dyn Link, identity: Identity) -> Option<Result<Multicast, String>> {
    let packet_size = match link.multicast()? {
        Ok(packet_size) => packet_size,
        Err(why) => return Some(Err(why)),
    };
    let groups = link.carrier().multicast()?;
    let group = groups.address(identity.token, identity.token);
    let joined = groups.join(&group, true).map_err(|error| error.to_string());
    Some(joined.map(|()| Multicast::Device { group, packet_size }))
}

/// A member of the run's multicast groups.
pub(super) struct Sockets {
    pub(super) listener: UdpSocket,
    pub(super) listener_of_link: UdpSocket,
    speaker: UdpSocket,
    pub(super) group: SocketAddr,
    pub(super) of_link: SocketAddr,
    pub(super) packet_size: usize,
}

impl Sockets {
    /// Joins the groups. The groups and the port follow from the run's token. One group is administratively
    /// scoped (RFC 2365), so that no router passes it on; the other is a group of the link.
    pub(super) fn join(own: Ipv4Addr, packet_size: usize, identity: Identity) -> Result<Sockets, String> {
        let [a, b, c, d, ..] = identity.token.to_le_bytes();
        let port = 20_000 + u16::from_le_bytes([c, d]) % 12_000;
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: std::io::Error| format!("{what}: {error}")
        };
        let listen = |group: Ipv4Addr| {
            let listener = UdpSocket::bind((group, port)).map_err(failed("no socket for the group"))?;
            listener.join_multicast_v4(&group, &own).map_err(failed("the group cannot be joined"))?;
            listener.set_nonblocking(true).map_err(failed("no socket for the group"))?;
            Ok::<_, String>((listener, SocketAddr::from((group, port))))
        };
        let (listener, group) = listen(Ipv4Addr::new(239, 255, a, b))?;
        // The upper half of 224.0.0.0/24 has hardly any names (IANA).
        let (listener_of_link, of_link) = listen(Ipv4Addr::new(224, 0, 0, 0x80 | a & 0x3f))?;
        // A sender that is bound to an address uses the interface of that address.
        let speaker = UdpSocket::bind((own, 0)).map_err(failed("no socket to send with"))?;
        Ok(Sockets { listener, listener_of_link, speaker, group, of_link, packet_size: packet_size.max(SHORT_BYTES) })
    }

    pub(super) fn send(&self, to: SocketAddr, packet: &[u8], copies: usize) -> Result<(), String> {
        for _ in 0..copies {
            self.speaker.send_to(packet, to).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
