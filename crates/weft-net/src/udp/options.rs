//! Options of the sockets, and what the system grants of them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use crate::sys;

/// Bytes asked for as receive buffer. Linux counts its own bookkeeping in it.
const RECEIVE_BUFFER_BYTES: i32 = 8 << 20;
/// Bytes asked for as send buffer: several trains, since on some links a packet counts until the receiver has
/// taken it.
const SEND_BUFFER_BYTES: i32 = 2 << 20;
/// Full packets in the receive buffer below which a warning is worth its line.
const WINDOW_PACKETS_LOW: u32 = 64;
/// Bytes that the kernel counts against the receive buffer for a packet beyond the packet's own, when it
/// keeps packets in pages.
const KERNEL_OVERHEAD_BYTES: usize = 768;

pub(super) fn open(is_v4: bool) -> io::Result<UdpSocket> {
    let any = if is_v4 { SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)) } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.set_nonblocking(true)?;
    prepare(&socket, is_v4)?;
    Ok(socket)
}

/// Prepares a socket as every socket is: it cuts no packets, reports marks, and joins packets that belong
/// together.
pub(super) fn prepare(socket: &UdpSocket, is_v4: bool) -> io::Result<()> {
    never_fragment(socket, is_v4)?;
    ask_for_marks(socket, is_v4);
    // Kernels before 5.0 refuse this: then no packets are ever joined.
    let _ = sys::set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1);
    Ok(())
}

/// Forbids fragmentation. A packet that the interface does not carry is refused; every other packet leaves
/// whole, whatever has been said of its path (RFC 8899 §4.1).
fn never_fragment(socket: &UdpSocket, is_v4: bool) -> io::Result<()> {
    let set = |level, name, value| sys::set_option(socket.as_fd(), level, name, value);
    if is_v4 {
        return set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
    }
    set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
    set(libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)
}

/// Makes packets say that their sender heeds marks of congestion (RFC 3168 §5), and asks for the marks of
/// arriving packets.
fn ask_for_marks(socket: &UdpSocket, is_v4: bool) {
    let (level, class, report) = match is_v4 {
        true => (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_RECVTOS),
        false => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_RECVTCLASS),
    };
    // Where the machine refuses either, congestion still shows as delay and loss.
    if sys::set_option(socket.as_fd(), level, report, 1).is_ok() {
        let _ = sys::set_option(socket.as_fd(), level, class, sys::ECN_CAPABLE);
    }
}

/// Makes the buffers as large as the machine allows: past the limit with the privilege, up to it without.
/// Returns the receive buffer's bytes.
pub(super) fn enlarge_buffers(socket: &UdpSocket) -> usize {
    let set = |name, bytes| sys::set_option(socket.as_fd(), libc::SOL_SOCKET, name, bytes);
    // All of these may be refused; then the default stays, and the size that is read back shows that.
    let _ = set(libc::SO_SNDBUFFORCE, SEND_BUFFER_BYTES).or_else(|_| set(libc::SO_SNDBUF, SEND_BUFFER_BYTES));
    let _ = set(libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES).or_else(|_| set(libc::SO_RCVBUF, RECEIVE_BUFFER_BYTES));
    sys::option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF).map_or(0, |bytes| bytes.max(0) as usize)
}

/// Returns the full packets that fit into a receive buffer, at least 1. The kernel charges each packet the
/// memory that it really occupies.
pub(super) fn window(buffer_bytes: usize, packet_size: usize) -> u32 {
    let charged = (packet_size + KERNEL_OVERHEAD_BYTES).next_power_of_two() + KERNEL_OVERHEAD_BYTES;
    (buffer_bytes / charged).max(1) as u32
}

pub(super) fn window_warning(window_packets: u32) -> Vec<String> {
    if window_packets >= WINDOW_PACKETS_LOW {
        return Vec::new();
    }
    vec![format!("the UDP receive buffer holds only {window_packets} packets; raise the sysctl net.core.rmem_max")]
}
