//! An AF_PACKET socket.
//!
//! Frames leave without passing the queueing discipline. They arrive in a ring that the kernel shares with
//! this process, so that a look costs no system call. Linux: packet(7),
//! Documentation/networking/packet_mmap.rst (TPACKET_V2).
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use super::filter::Filter;
use super::frame::ETHER_TYPE;
use crate::sys::{attach_filter, check, set_option};

/// linux/if_packet.h
const PACKET_RX_RING: libc::c_int = 5;
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VERSION: libc::c_int = 10;
const PACKET_QDISC_BYPASS: libc::c_int = 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const TPACKET_V2: libc::c_int = 1;
const TP_STATUS_KERNEL: u32 = 0;
const TP_STATUS_USER: u32 = 1;
/// asm-generic/socket.h
const SO_LOCK_FILTER: libc::c_int = 44;

/// The head that the kernel puts in front of every frame of the ring: `struct tpacket2_hdr`.
#[repr(C)]
struct FrameHead {
    status: AtomicU32,
    length: u32,
    captured: u32,
    mac: u16,
    net: u16,
    seconds: u32,
    nanoseconds: u32,
    vlan: [u16; 2],
    padding: [u8; 4],
}

#[repr(C)]
struct RingRequest {
    block_size: libc::c_uint,
    blocks: libc::c_uint,
    frame_size: libc::c_uint,
    frames: libc::c_uint,
}

/// Bytes that the kernel needs in a ring's frame beside the Ethernet frame itself, generously: its head, an
/// address, alignment.
const FRAME_OVERHEAD: usize = 128;
/// Size of the pieces in which memory of a ring is asked for: a multiple of every page size and frame size in
/// use.
const BLOCK: usize = 64 << 10;

/// A bound socket and its ring.
pub(super) struct PacketSocket {
    fd: OwnedFd,
    ring: NonNull<u8>,
    frame_size: usize,
    frames: usize,
    next: usize,
}

// SAFETY: the ring is memory of this process that only this value points to.
unsafe impl Send for PacketSocket {}

/// Opens a socket on its interface that gets the frames its filter passes. No process can take a locked
/// filter off. Needs CAP_NET_RAW.
///
/// # Errors
/// The privilege is missing, or the interface is gone.
pub fn open_filtered(filter: &Filter, lock: bool) -> io::Result<OwnedFd> {
    // Protocol 0: no frame arrives before the filter is in place and the socket is bound.
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    check(fd)?;
    // SAFETY: the descriptor is new and ours.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    attach_filter(fd.as_fd(), &filter.program())?;
    if lock {
        set_option(fd.as_fd(), libc::SOL_SOCKET, SO_LOCK_FILTER, 1)?;
    }
    bind(fd.as_fd(), filter.interface, ETHER_TYPE)?;
    Ok(fd)
}

fn bind(socket: BorrowedFd<'_>, index: u32, ether_type: u16) -> io::Result<()> {
    // SAFETY: a sockaddr_ll of zeros is valid.
    let mut name: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    name.sll_family = libc::AF_PACKET as libc::c_ushort;
    name.sll_protocol = ether_type.to_be();
    name.sll_ifindex = index as libc::c_int;
    let size = size_of_val(&name) as libc::socklen_t;
    // SAFETY: the name is a sockaddr_ll and the size says so.
    check(unsafe { libc::bind(socket.as_raw_fd(), ptr::from_ref(&name).cast(), size) })
}

impl PacketSocket {
    /// Gives a socket of [`open_filtered`] a ring of `ring_bytes` for frames of at most `frame_max` bytes.
    /// Frames that have arrived before are lost.
    pub(super) fn new(fd: OwnedFd, frame_max: usize, ring_bytes: usize) -> io::Result<Self> {
        set_option(fd.as_fd(), libc::SOL_PACKET, PACKET_VERSION, TPACKET_V2)?;
        // Kernels before 4.20 lack the second option; the filter also leaves out frames that this host sends.
        let _ = set_option(fd.as_fd(), libc::SOL_PACKET, PACKET_QDISC_BYPASS, 1);
        let _ = set_option(fd.as_fd(), libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
        let frame_size = (frame_max + FRAME_OVERHEAD).next_power_of_two();
        let frames = (ring_bytes / BLOCK).max(1) * (BLOCK / frame_size);
        let ring = share_ring(fd.as_fd(), frame_size, frames)?;
        Ok(Self { fd, ring, frame_size, frames, next: 0 })
    }

    /// Returns the number of frames that the ring holds.
    pub(super) fn frames(&self) -> usize {
        self.frames
    }

    /// Sends a whole frame, without waiting.
    #[inline]
    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the kernel reads the bytes of `frame` only.
        let sent = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Hands the next frame to `take`, with the length it had on the wire. Returns `false` when there is
    /// none.
    #[inline]
    pub(super) fn receive(&mut self, take: &mut dyn FnMut(&[u8], usize)) -> bool {
        // SAFETY: `next < frames`, so the head lies inside the ring. The head is aligned, since a frame is a
        // power of two of at least 128 bytes. The kernel writes to it only while the status says so; the
        // status itself is atomic.
        let head = unsafe { self.ring.add(self.next * self.frame_size).cast::<FrameHead>().as_ptr() };
        // SAFETY: as above.
        let status = unsafe { &(*head).status };
        if status.load(Ordering::Acquire) & TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the status gives the frame to us until it is set back; `Acquire` makes what the kernel
        // wrote visible.
        let (length, captured, mac) = unsafe { ((*head).length, (*head).captured as usize, usize::from((*head).mac)) };
        // The kernel keeps within the frame; a check costs little.
        if mac + captured <= self.frame_size {
            // SAFETY: `mac + captured` ends inside this frame, which is ours for now.
            let bytes = unsafe { std::slice::from_raw_parts(head.cast::<u8>().add(mac), captured) };
            take(bytes, length as usize);
        }
        status.store(TP_STATUS_KERNEL, Ordering::Release);
        self.next = if self.next + 1 == self.frames { 0 } else { self.next + 1 };
        true
    }

    /// Returns the frames for which the ring had no room since the last call.
    pub(super) fn take_losses(&self) -> u32 {
        let mut counts = [0_u32; 2];
        let mut size = size_of_val(&counts) as libc::socklen_t;
        let pointer = counts.as_mut_ptr().cast();
        // SAFETY: struct tpacket_stats has two words, and the size says so.
        let result =
            unsafe { libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_PACKET, PACKET_STATISTICS, pointer, &mut size) };
        if result == 0 { counts[1] } else { 0 }
    }

    /// Takes the error that the socket holds, for example that its interface went down. Until then the socket
    /// counts as readable.
    pub(super) fn take_error(&self) -> Option<io::Error> {
        let code = crate::sys::option(self.fd.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR).ok()?;
        (code != 0).then(|| io::Error::from_raw_os_error(code))
    }

    /// Changes the filter of the socket from now on.
    ///
    /// # Errors
    /// The opener of the socket has locked the filter.
    pub(super) fn change_filter(&self, filter: &Filter) -> io::Result<()> {
        attach_filter(self.fd.as_fd(), &filter.program())
    }

    /// Makes the interface take frames to a multicast address, or stop taking them.
    pub(super) fn listen(&self, interface: u32, mac: [u8; 6], joins: bool) -> io::Result<()> {
        // SAFETY: a packet_mreq of zeros is valid.
        let mut request: libc::packet_mreq = unsafe { std::mem::zeroed() };
        request.mr_ifindex = interface as libc::c_int;
        request.mr_type = libc::PACKET_MR_MULTICAST as libc::c_ushort;
        request.mr_alen = mac.len() as libc::c_ushort;
        request.mr_address[..mac.len()].copy_from_slice(&mac);
        let name = if joins { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
        let size = size_of_val(&request) as libc::socklen_t;
        let pointer = ptr::from_ref(&request).cast();
        // SAFETY: the request is a packet_mreq, and the size says so.
        check(unsafe { libc::setsockopt(self.fd.as_raw_fd(), libc::SOL_PACKET, name, pointer, size) })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for PacketSocket {
    fn drop(&mut self) {
        // SAFETY: the ring was mapped with this length, and no code looks at it any more.
        unsafe { libc::munmap(self.ring.as_ptr().cast(), self.frames * self.frame_size) };
    }
}

fn share_ring(socket: BorrowedFd<'_>, frame_size: usize, frames: usize) -> io::Result<NonNull<u8>> {
    let bytes = frame_size * frames;
    let request = RingRequest {
        block_size: BLOCK as libc::c_uint,
        blocks: (bytes / BLOCK) as libc::c_uint,
        frame_size: frame_size as libc::c_uint,
        frames: frames as libc::c_uint,
    };
    let size = size_of_val(&request) as libc::socklen_t;
    let pointer = ptr::from_ref(&request).cast();
    // SAFETY: struct tpacket_req has these four words.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, PACKET_RX_RING, pointer, size) })?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel chooses the address; the socket has a ring of exactly this length.
    let ring = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, socket.as_raw_fd(), 0) };
    match NonNull::new(ring.cast::<u8>()) {
        Some(ring) if ring.as_ptr().cast() != libc::MAP_FAILED => Ok(ring),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the hardware address of an interface; none when it is not Ethernet.
///
/// # Errors
/// There is no such interface.
pub fn hardware_address(interface: &str) -> io::Result<Option<[u8; 6]>> {
    let name = CString::new(interface)?;
    // Any socket serves for this call.
    let any = std::net::UdpSocket::bind("0.0.0.0:0").or_else(|_| std::net::UdpSocket::bind("[::]:0"))?;
    // SAFETY: an ifreq of zeros is valid; the name is cut so that it stays terminated.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.to_bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: SIOCGIFHWADDR reads the name and writes the address of this ifreq.
    check(unsafe { libc::ioctl(any.as_raw_fd(), libc::SIOCGIFHWADDR as _, &mut request) })?;
    // SAFETY: the call succeeded, so this member was written.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    let mac = std::array::from_fn(|i| address.sa_data[i] as u8);
    Ok((address.sa_family == libc::ARPHRD_ETHER).then_some(mac))
}
