//! Multicast groups over UDP: another socket, on a port that all processes of the job derive from its secret,
//! and the addresses that it has joined.
//!
//! Packets to a group leave through the shared socket, on the interface that is offered first, and stay on
//! its segment.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use super::address::Candidate;
use super::socket;

/// Most groups that a process joins: Linux allows a socket 20 groups of IPv4 by default
/// (`net.ipv4.igmp_max_memberships`).
const GROUPS_MAX: usize = 20;
/// First port of groups, and the number of ports: as a rule neither services nor the kernel's own choice use
/// them.
const PORTS: (u16, u16) = (20_000, 12_000);
/// While the groups' socket brings nothing, it is looked at once in so many passes.
const QUIET_EVERY: u32 = 4;
/// Looks in vain at the groups' socket after which it is looked at less often.
const QUIET_LOOKS: u32 = 64;

/// The groups that this process has joined.
#[derive(Default)]
pub(super) struct Groups {
    /// True once the shared socket knows the interface on which packets to groups leave.
    sends: bool,
    socket: Option<UdpSocket>,
    joined: Vec<SocketAddr>,
    /// Looks in vain since a datagram was found; then passes.
    quiet: u32,
    turn: u32,
}

/// Returns the address of group `group` of job `job`, on the segment of the interface with address `own`. The
/// address is local to an organization (RFC 2365 §6.2) or a link (RFC 4291 §2.7).
pub(crate) fn address(own: IpAddr, interface: u32, job: u64, group: u64) -> SocketAddr {
    let port = PORTS.0 + (job % u64::from(PORTS.1)) as u16;
    if own.is_ipv4() {
        // 239.192.0.0/14 has 18 free bits. Only the last 23 bits of an address reach Ethernet; these are
        // among them.
        let chosen = (job ^ group.rotate_left(17)) as u32 & 0x0003_ffff;
        return (Ipv4Addr::from(0xefc0_0000 | chosen), port).into();
    }
    let chosen = u128::from(job) << 32 ^ u128::from(group);
    let ip = Ipv6Addr::from(0xff12_u128 << 112 | chosen & ((1 << 112) - 1) | 1 << 31);
    SocketAddrV6::new(ip, port, 0, interface).into()
}

impl Groups {
    /// Makes packets that `shared` sends to groups leave on the interface of `best`.
    pub(super) fn send_through(&mut self, shared: &UdpSocket, best: &Candidate) -> io::Result<()> {
        if !self.sends {
            socket::send_to_groups_through(shared, best.ip, best.interface)?;
            self.sends = true;
        }
        Ok(())
    }

    /// Joins a group. `prepare` sets the options of the new socket.
    pub(super) fn join(
        &mut self,
        best: &Candidate,
        group: &SocketAddr,
        prepare: impl FnOnce(&UdpSocket) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.joined.contains(group) {
            return Ok(());
        }
        if self.joined.len() >= GROUPS_MAX {
            return Err(io::Error::other(format!("a process joins no more than {GROUPS_MAX} groups")));
        }
        if self.socket.is_none() {
            let new = socket::for_groups(group)?;
            prepare(&new)?;
            self.socket = Some(new);
        }
        if let Some(socket) = &self.socket {
            match (group.ip(), best.ip) {
                (IpAddr::V4(group), IpAddr::V4(own)) => socket.join_multicast_v4(&group, &own)?,
                (IpAddr::V6(group), _) => socket.join_multicast_v6(&group, best.interface)?,
                _ => return Err(io::ErrorKind::InvalidInput.into()),
            }
        }
        self.joined.push(*group);
        Ok(())
    }

    /// Leaves a group.
    pub(super) fn leave(&mut self, best: &Candidate, group: &SocketAddr) {
        let Some(at) = self.joined.iter().position(|joined| joined == group) else { return };
        self.joined.swap_remove(at);
        let Some(socket) = &self.socket else { return };
        // Datagrams that still come belong to no known group.
        let _ = match (group.ip(), best.ip) {
            (IpAddr::V4(group), IpAddr::V4(own)) => socket.leave_multicast_v4(&group, &own),
            (IpAddr::V6(group), _) => socket.leave_multicast_v6(&group, best.interface),
            _ => Ok(()),
        };
    }

    pub(super) fn socket(&self) -> Option<&UdpSocket> {
        self.socket.as_ref()
    }

    /// Returns whether to look here before the other sockets, because a datagram was found here lately.
    #[inline]
    pub(super) fn come_first(&self) -> bool {
        !self.joined.is_empty() && self.quiet == 0
    }

    /// Returns whether to look here when the other sockets have brought nothing.
    #[inline]
    pub(super) fn come_last(&mut self) -> bool {
        if self.joined.is_empty() || self.quiet == 0 {
            return false;
        }
        self.turn = self.turn.wrapping_add(1);
        self.quiet < QUIET_LOOKS || self.turn.is_multiple_of(QUIET_EVERY)
    }

    /// Notes whether a look found a datagram here; `false` also when one was found elsewhere.
    #[inline]
    pub(super) fn looked(&mut self, found: bool) {
        self.quiet = if found { 0 } else { self.quiet.saturating_add(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(ip: IpAddr) -> Candidate {
        Candidate { ip, prefix: 24, port: 1, packet_size: 1472, host: 0, interface: 3, rail: 0, speed: 0 }
    }

    #[test]
    fn groups_of_a_job_differ_and_stay_where_only_its_segment_hears_them() {
        let v4 = candidate(Ipv4Addr::new(10, 0, 0, 1).into());
        let v6 = candidate(Ipv6Addr::LOCALHOST.into());
        for best in [v4, v6] {
            let mut seen = std::collections::HashSet::new();
            for group in 0..100_u64 {
                let hash = group.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let address = address(best.ip, best.interface, 77, hash);
                assert!(address.ip().is_multicast() && seen.insert(address), "{address}");
                assert!((PORTS.0..PORTS.0 + PORTS.1).contains(&address.port()));
                let within = match address.ip() {
                    IpAddr::V4(ip) => ip.octets()[0] == 239 && (192..196).contains(&ip.octets()[1]),
                    IpAddr::V6(ip) => ip.segments()[0] == 0xff12,
                };
                assert!(within, "{address}");
            }
        }
    }
}
