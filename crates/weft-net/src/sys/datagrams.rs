//! Trains of UDP datagrams: many leave or arrive by a single system call.
#![allow(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// An IP address and port in the kernel's form.
pub(crate) union SocketName {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl SocketName {
    pub(crate) fn new(address: &SocketAddr) -> (Self, libc::socklen_t) {
        match address {
            SocketAddr::V4(v4) => {
                // SAFETY: a sockaddr_in of zeros is valid.
                let mut name: libc::sockaddr_in = unsafe { std::mem::zeroed() };
                name.sin_family = libc::AF_INET as libc::sa_family_t;
                name.sin_port = v4.port().to_be();
                name.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
                (Self { v4: name }, size_of::<libc::sockaddr_in>() as libc::socklen_t)
            }
            SocketAddr::V6(v6) => {
                // SAFETY: a sockaddr_in6 of zeros is valid.
                let mut name: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
                name.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                name.sin6_port = v6.port().to_be();
                name.sin6_addr.s6_addr = v6.ip().octets();
                name.sin6_scope_id = v6.scope_id();
                (Self { v6: name }, size_of::<libc::sockaddr_in6>() as libc::socklen_t)
            }
        }
    }
}

/// A control message with a single value, laid out as cmsg(3) does.
#[repr(C)]
#[derive(Clone, Copy)]
struct Control<T> {
    head: libc::cmsghdr,
    value: T,
}

/// Sends datagrams of `segment` bytes each (the last may be shorter) with a single call: Linux's UDP_SEGMENT,
/// udp(7). A connected socket knows the destination.
pub(crate) fn send_segmented(
    socket: BorrowedFd<'_>,
    to: Option<&SocketAddr>,
    bytes: &[u8],
    segment: u16,
) -> io::Result<()> {
    let mut name = to.map(SocketName::new);
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // Alignment leaves room behind the number, and the kernel gets it too: zeros, so that the kernel reads
    // nothing that was never written. SAFETY: a cmsghdr of zeros is valid.
    let mut control = Control { head: unsafe { std::mem::zeroed() }, value: [segment, 0, 0, 0] };
    control.head.cmsg_len = (size_of::<libc::cmsghdr>() + size_of::<u16>()) as _;
    control.head.cmsg_level = libc::SOL_UDP;
    control.head.cmsg_type = libc::UDP_SEGMENT;
    // SAFETY: a header of zeros is valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    if let Some((name, length)) = &mut name {
        header.msg_name = ptr::from_mut(name).cast();
        header.msg_namelen = *length;
    }
    header.msg_iov = &mut vector;
    header.msg_iovlen = 1;
    header.msg_control = ptr::from_mut(&mut control).cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: everything the header points to lives until the call returns; the kernel only reads.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Values of the two low bits of a packet's traffic class (RFC 3168 §5): its sender heeds marks; it was
/// marked.
pub(crate) const ECN_CAPABLE: i32 = 2;
const ECN_MARKED: i32 = 3;

/// Room for the control messages of a datagram: the length of those that were joined to it, and its traffic
/// class.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Controls([u8; CONTROLS_BYTES]);

const CONTROL_HEAD: usize = size_of::<libc::cmsghdr>();
/// Bytes from one control message to the next: a small value is followed by padding.
const CONTROL_STEP: usize = CONTROL_HEAD + size_of::<usize>();
const CONTROLS_BYTES: usize = 2 * CONTROL_STEP;

impl Controls {
    /// Returns level, type and value of each control message, as cmsg(3) lays them out. A value is an int or,
    /// for IPv4's traffic class, a byte.
    fn iter(&self, length: usize) -> impl Iterator<Item = (libc::c_int, libc::c_int, libc::c_int)> + '_ {
        let whole = self.0[..length.min(CONTROLS_BYTES)].chunks(CONTROL_STEP).filter(|one| one.len() > CONTROL_HEAD);
        whole.map(|one| {
            let int = |at: usize| {
                one.get(at..at + 4).map_or(0, |bytes| i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            };
            let word: [u8; size_of::<usize>()] = std::array::from_fn(|i| one[i]);
            let has_int = usize::from_ne_bytes(word) >= CONTROL_HEAD + size_of::<libc::c_int>();
            let value = if has_int { int(CONTROL_HEAD) } else { i32::from(one[CONTROL_HEAD]) };
            (int(size_of::<usize>()), int(size_of::<usize>() + 4), value)
        })
    }
}

/// A received datagram, perhaps several joined.
pub(crate) struct Datagram<'a> {
    pub(crate) bytes: &'a [u8],
    /// Bytes of each datagram that was joined to it; all bytes when none were.
    pub(crate) segment: usize,
    /// True if the datagram bears a mark of congestion.
    pub(crate) marked: bool,
}

/// Buffers into which the kernel receives one or several datagrams with a single call, each perhaps several
/// joined (UDP_GRO).
pub(crate) struct ReceiveBatch {
    bytes: Box<[u8]>,
    slot: usize,
    // The headers point to the other boxes; a box stays where it is.
    headers: Box<[libc::mmsghdr]>,
    controls: Box<[Controls]>,
    _vectors: Box<[libc::iovec]>,
}

// SAFETY: the raw pointers inside point into boxes of the same value.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// Makes room for `count` datagrams of `slot` bytes each. The kernel gives memory only to slots that are
    /// used.
    pub(crate) fn new(count: usize, slot: usize) -> Self {
        let mut bytes = vec![0; count * slot].into_boxed_slice();
        let start = bytes.as_mut_ptr();
        let mut vectors: Box<[libc::iovec]> = (0..count)
            // SAFETY: slot `i` lies inside `bytes`.
            .map(|i| libc::iovec { iov_base: unsafe { start.add(i * slot) }.cast(), iov_len: slot })
            .collect();
        let mut controls: Box<[Controls]> = (0..count).map(|_| Controls([0; CONTROLS_BYTES])).collect();
        let headers = vectors
            .iter_mut()
            .zip(controls.iter_mut())
            .map(|(vector, control)| {
                // SAFETY: a header of zeros is valid.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_iov = vector;
                header.msg_hdr.msg_iovlen = 1;
                header.msg_hdr.msg_control = ptr::from_mut(control).cast();
                header
            })
            .collect();
        Self { bytes, slot, headers, controls, _vectors: vectors }
    }

    /// Receives at most `limit` datagrams without waiting: at least one, or the error says why not.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, limit: usize) -> io::Result<usize> {
        let count = limit.min(self.headers.len());
        for header in &mut self.headers[..count] {
            header.msg_hdr.msg_controllen = CONTROLS_BYTES as _;
        }
        let (flags, none) = (libc::MSG_DONTWAIT, ptr::null_mut());
        // SAFETY: the headers and everything they point to are boxes of this value, borrowed exclusively.
        let received = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), count as libc::c_uint, flags as _, none)
        };
        if received < 0 { Err(io::Error::last_os_error()) } else { Ok(received as usize) }
    }

    /// Receives a datagram without waiting, with the cheaper call.
    pub(crate) fn receive_one(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let header = &mut self.headers[0];
        header.msg_hdr.msg_controllen = CONTROLS_BYTES as _;
        // SAFETY: as in `receive`.
        let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header.msg_hdr, libc::MSG_DONTWAIT) };
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        header.msg_len = received as libc::c_uint;
        Ok(())
    }

    /// Returns datagram `i` of the last call.
    pub(crate) fn datagram(&self, i: usize) -> Datagram<'_> {
        let header = &self.headers[i];
        let bytes = &self.bytes[i * self.slot..][..header.msg_len as usize];
        let (mut segment, mut marked) = (bytes.len(), false);
        for (level, kind, value) in self.controls[i].iter(header.msg_hdr.msg_controllen) {
            match (level, kind) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    segment = usize::try_from(value).ok().filter(|&s| s > 0).unwrap_or(segment)
                }
                (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    marked = value & ECN_MARKED == ECN_MARKED;
                }
                _ => {}
            }
        }
        Datagram { bytes, segment, marked }
    }
}
