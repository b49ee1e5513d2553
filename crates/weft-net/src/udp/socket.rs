//! Sockets that std cannot make: a second one on a used port, for a single peer, and one for multicast
//! groups. Linux: socket(7), ip(7), ipv6(7), udp(7).
#![allow(unsafe_code)]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};

use crate::sys::{SocketName, check, set_option};

/// Opens a socket on the port of `shared`. All sockets of the port must agree to that: the kernel lets no
/// other user join. The socket is not connected yet, so a datagram to the port may arrive at either.
pub(super) fn beside(shared: &UdpSocket) -> io::Result<UdpSocket> {
    let own = shared.local_addr()?;
    let socket = open(&own)?;
    set_option(shared.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    bind(&socket, &own)?;
    Ok(socket)
}

/// Opens a socket for datagrams to the port of `group` at the multicast addresses that it will join, and at
/// no others. Other processes of the host may have one like it.
pub(super) fn for_groups(group: &SocketAddr) -> io::Result<UdpSocket> {
    let socket = open(group)?;
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    let (level, all, any) = match group.is_ipv4() {
        true => (libc::IPPROTO_IP, IP_MULTICAST_ALL, IpAddr::from(Ipv4Addr::UNSPECIFIED)),
        false => (libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, Ipv6Addr::UNSPECIFIED.into()),
    };
    // Kernels before 4.20 have this for IPv4 only: then the socket also receives datagrams of groups that
    // others have joined, and they are recognized as foreign.
    let _ = set_option(socket.as_fd(), level, all, 0);
    bind(&socket, &SocketAddr::new(any, group.port()))?;
    Ok(socket)
}

/// Makes packets that `socket` sends to groups leave on this interface, stay on its segment, and not come
/// back to this host.
pub(super) fn send_to_groups_through(socket: &UdpSocket, own: IpAddr, interface: u32) -> io::Result<()> {
    match own {
        IpAddr::V4(own) => {
            let address = libc::in_addr { s_addr: u32::from(own).to_be() };
            let size = size_of_val(&address) as libc::socklen_t;
            let (fd, value) = (socket.as_raw_fd(), std::ptr::from_ref(&address).cast());
            // SAFETY: the value is an address and the size says so.
            check(unsafe { libc::setsockopt(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, value, size) })?;
            socket.set_multicast_ttl_v4(1)?;
            socket.set_multicast_loop_v4(false)
        }
        IpAddr::V6(_) => {
            let set = |name, value| set_option(socket.as_fd(), libc::IPPROTO_IPV6, name, value);
            set(libc::IPV6_MULTICAST_IF, interface as i32)?;
            set(libc::IPV6_MULTICAST_HOPS, 1)?;
            socket.set_multicast_loop_v6(false)
        }
    }
}

/// `linux/in.h` and `linux/in6.h`.
const IP_MULTICAST_ALL: libc::c_int = 49;
const IPV6_MULTICAST_ALL: libc::c_int = 29;

/// Opens a socket of the family of `like` that never blocks.
fn open(like: &SocketAddr) -> io::Result<UdpSocket> {
    let family = if like.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(family, kind, 0) };
    check(fd)?;
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { UdpSocket::from_raw_fd(fd) })
}

fn bind(socket: &UdpSocket, own: &SocketAddr) -> io::Result<()> {
    let (name, length) = SocketName::new(own);
    // SAFETY: the name is as long as said, and the kernel only reads it.
    check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&name).cast(), length) })
}

/// Connects the socket to `peer` from now on. Datagrams that have arrived at it stay.
pub(super) fn connect(socket: &UdpSocket, peer: &SocketAddr) -> io::Result<()> {
    // SAFETY: a name of zeros is valid.
    let mut nobody: libc::sockaddr = unsafe { std::mem::zeroed() };
    nobody.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
    // The kernel chooses a new source address for another peer.
    // SAFETY: the name is as long as said, and the kernel only reads it.
    check(unsafe { libc::connect(socket.as_raw_fd(), &nobody, size_of_val(&nobody) as libc::socklen_t) })?;
    socket.connect(peer)
}
