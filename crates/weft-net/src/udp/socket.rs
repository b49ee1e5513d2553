//! Opens a second socket on a port that is already in use, for one peer alone. Linux: socket(7), ip(7), udp(7).
#![allow(unsafe_code)]

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};

use crate::sys::{SocketName, check, set_option};

/// A socket on the port of `shared`, which all of them must agree to: the kernel lets no other user join. Not connected yet, so
/// what comes for the port may arrive at either.
pub(super) fn beside(shared: &UdpSocket) -> io::Result<UdpSocket> {
    let own = shared.local_addr()?;
    let family = if own.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(family, kind, 0) };
    check(fd)?;
    // SAFETY: the descriptor is new and ours.
    let socket = unsafe { UdpSocket::from_raw_fd(fd) };
    set_option(shared.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    let (name, length) = SocketName::new(&own);
    // SAFETY: the name is as long as said, and the kernel only reads it.
    check(unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&name).cast(), length) })?;
    Ok(socket)
}

/// The socket is for `peer` from now on; what has arrived at it stays.
pub(super) fn connect(socket: &UdpSocket, peer: &SocketAddr) -> io::Result<()> {
    // SAFETY: a name of zeros is valid.
    let mut nobody: libc::sockaddr = unsafe { std::mem::zeroed() };
    nobody.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
    // The address that it sends from is chosen anew for another peer.
    // SAFETY: the name is as long as said, and the kernel only reads it.
    check(unsafe { libc::connect(socket.as_raw_fd(), &nobody, size_of_val(&nobody) as libc::socklen_t) })?;
    socket.connect(peer)
}
