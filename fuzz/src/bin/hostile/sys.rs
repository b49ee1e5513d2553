//! Packet sockets: packet(7).

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// The constants of linux/if_packet.h.
const PACKET_OUTGOING: u8 = 4;
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_QDISC_BYPASS: libc::c_int = 20;
/// The size of struct virtio_net_hdr of linux/virtio_net.h, and the kinds of trains.
const VNET: usize = 10;
const GSO_NONE: u8 = 0;
/// The largest frame, trains included.
const FRAME_MAX: usize = 1 << 17;
/// The most frames taken in one look.
const FRAMES_PER_LOOK: usize = 256;
/// The memory for frames that wait, bytes.
const RECEIVE_BUFFER: libc::c_int = 8 << 20;

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn open(interface: &str, protocol: libc::c_int) -> io::Result<OwnedFd> {
    let name = CString::new(interface)?;
    // SAFETY: the name is terminated.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    check(fd)?;
    // SAFETY: the descriptor is new and ours.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: a sockaddr_ll of zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = (protocol as u16).to_be();
    address.sll_ifindex = index as libc::c_int;
    let size = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is a sockaddr_ll and the size says so.
    check(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(&address).cast(), size) })?;
    Ok(fd)
}

fn set(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let size = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value is an int and the size says so.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), size) })
}

/// Listens to the frames that enter at an interface.
pub(crate) struct Capture {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl Capture {
    pub(crate) fn open(interface: &str) -> io::Result<Self> {
        let fd = open(interface, libc::ETH_P_ALL)?;
        // With this header the kernel gives the size of a train's segments.
        set(&fd, libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
        // Only with the machine's privilege is the buffer larger than the system's limit for users; in a user
        // namespace it is that limit.
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER)
            .or_else(|_| set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER))?;
        Ok(Self { fd, buffer: vec![0; FRAME_MAX] })
    }

    /// Hands frames that have entered to `take`, with the segments' size if it is a train.
    pub(crate) fn receive(&mut self, take: &mut dyn FnMut(&[u8], Option<usize>)) {
        for _ in 0..FRAMES_PER_LOOK {
            // SAFETY: a sockaddr_ll of zeros is valid.
            let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            let mut size = size_of_val(&from) as libc::socklen_t;
            let (pointer, flags) = (ptr::from_mut(&mut from).cast(), libc::MSG_DONTWAIT);
            let (buffer, room) = (self.buffer.as_mut_ptr().cast(), self.buffer.len());
            // SAFETY: the kernel writes within the buffer and the address.
            let length = unsafe { libc::recvfrom(self.fd.as_raw_fd(), buffer, room, flags, pointer, &mut size) };
            let Ok(length) = usize::try_from(length) else { return };
            if length < VNET || from.sll_pkttype == PACKET_OUTGOING {
                continue;
            }
            let (head, frame) = self.buffer[..length].split_at(VNET);
            let segment = usize::from(u16::from_ne_bytes([head[4], head[5]]));
            take(frame, (head[1] != GSO_NONE && segment > 0).then_some(segment));
        }
    }
}

/// Sends frames out of an interface, past its queue and its own listeners.
pub(crate) struct Sender(OwnedFd);

impl Sender {
    pub(crate) fn open(interface: &str) -> io::Result<Self> {
        // With protocol 0 the socket receives no frames.
        let fd = open(interface, 0)?;
        set(&fd, libc::SOL_PACKET, PACKET_QDISC_BYPASS, 1)?;
        Ok(Self(fd))
    }

    /// Sends frames; returns how many of them were taken.
    pub(crate) fn send(&self, frames: &[Vec<u8>]) -> usize {
        let mut vectors: Vec<libc::iovec> = frames
            .iter()
            .map(|frame| libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() })
            .collect();
        let mut headers: Vec<libc::mmsghdr> = vectors
            .iter_mut()
            .map(|vector| {
                // SAFETY: a header of zeros is valid.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_iov = vector;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        let (pointer, count) = (headers.as_mut_ptr(), headers.len() as libc::c_uint);
        // SAFETY: the headers and what they point to live until the call returns; the kernel only reads the
        // frames.
        let sent = unsafe { libc::sendmmsg(self.0.as_raw_fd(), pointer, count, libc::MSG_DONTWAIT as _) };
        usize::try_from(sent).unwrap_or(0)
    }
}
