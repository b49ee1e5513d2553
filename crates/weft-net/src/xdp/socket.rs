//! AF_XDP sockets and their rings. Linux: Documentation/networking/af_xdp.rst.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory::{Locked, Memory};
use crate::sys::{check, set_option};

/// Entries of the completion ring, which must be there though these sockets send nothing.
const COMPLETION_ENTRIES: i32 = 2;
/// linux/ethtool.h
const ETHTOOL_GDRVINFO: u32 = 0x3;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// Returns the index of an interface.
pub(super) fn index(interface: &str) -> io::Result<u32> {
    let name = CString::new(interface)?;
    // SAFETY: the name is a terminated string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// The first fields of `struct ethtool_drvinfo`, and room for the rest.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// Returns the receive queues of an interface; 1 where the interface does not say.
pub(super) fn queues(interface: &str) -> u32 {
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    // SAFETY: the command reads and writes channels.
    match unsafe { ask_driver(interface, &mut channels) } {
        Ok(()) => (channels.receive + channels.combined).max(1),
        Err(_) => 1,
    }
}

/// Returns the name of an interface's driver; empty where the interface does not say.
pub(super) fn driver(interface: &str) -> String {
    let mut info = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
    // SAFETY: the command reads and writes such an info, which is not longer than this.
    if unsafe { ask_driver(interface, &mut info) }.is_err() {
        return String::new();
    }
    let name = info.driver.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Asks the driver of an interface by ethtool.
///
/// # Safety
/// `question` is what the command in its first word reads and writes.
unsafe fn ask_driver<T>(interface: &str, question: &mut T) -> io::Result<()> {
    // Any socket serves for this.
    let any = std::net::UdpSocket::bind("0.0.0.0:0").or_else(|_| std::net::UdpSocket::bind("[::]:0"))?;
    // SAFETY: an ifreq of zeros is valid; the name is cut so that it stays terminated.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(interface.as_bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = ptr::from_mut(question).cast();
    // SAFETY: the request names an interface, and points to memory that the caller answers for.
    check(unsafe { libc::ioctl(any.as_raw_fd(), SIOCETHTOOL as _, &mut request) })
}

/// The interface and queue that a socket is bound to.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueBinding {
    pub(super) interface: u32,
    pub(super) queue: u32,
    /// Most frames that wait in the ring of a socket; a power of two.
    pub(super) entries: u32,
}

/// Creates a socket that has neither memory nor rings yet.
pub(super) fn create() -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    check(fd)?;
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Gives the first socket of a queue its rings and its memory, all of which the kernel then holds. `fill`:
/// entries of the ring of chunks.
pub(super) fn register(socket: BorrowedFd<'_>, memory: &Memory, fill: u32, binding: &QueueBinding) -> io::Result<()> {
    let geometry = memory.geometry();
    let region = libc::xdp_umem_reg {
        addr: memory.chunks() as u64,
        len: geometry.bytes() as u64,
        chunk_size: geometry.chunk as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    let size = size_of_val(&region) as libc::socklen_t;
    let pointer = ptr::from_ref(&region).cast();
    // SAFETY: the region is mapped with this length. The pages stay the kernel's as long as it needs them,
    // mapped here or not.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, libc::XDP_UMEM_REG, pointer, size) })?;
    set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_FILL_RING, fill as i32)?;
    set_option(socket, libc::SOL_XDP, libc::XDP_UMEM_COMPLETION_RING, COMPLETION_ENTRIES)?;
    set_option(socket, libc::SOL_XDP, libc::XDP_RX_RING, binding.entries as i32)
}

/// Binds the first socket of a queue. "Busy": a socket of another program has the queue, or a socket that was
/// closed a moment ago.
pub(super) fn bind_first(socket: BorrowedFd<'_>, binding: &QueueBinding) -> io::Result<()> {
    bind(socket, binding, libc::XDP_COPY, 0)
}

/// Creates a further socket of the queue, with a ring of its own; the rest is that of `first`.
pub(super) fn create_beside(first: BorrowedFd<'_>, binding: &QueueBinding) -> io::Result<OwnedFd> {
    let socket = create()?;
    set_option(socket.as_fd(), libc::SOL_XDP, libc::XDP_RX_RING, binding.entries as i32)?;
    bind(socket.as_fd(), binding, libc::XDP_SHARED_UMEM, first.as_raw_fd() as u32)?;
    Ok(socket)
}

fn bind(socket: BorrowedFd<'_>, binding: &QueueBinding, flags: u16, shared: u32) -> io::Result<()> {
    let name = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: binding.interface,
        sxdp_queue_id: binding.queue,
        sxdp_shared_umem_fd: shared,
    };
    let size = size_of_val(&name) as libc::socklen_t;
    // SAFETY: the name is a sockaddr_xdp and the size says so.
    check(unsafe { libc::bind(socket.as_raw_fd(), ptr::from_ref(&name).cast(), size) })
}

/// A ring shared with the kernel. One side moves the producer's index, and the other side the consumer's.
/// Both indices only ever grow, and wrap.
struct Ring<T> {
    map: NonNull<u8>,
    bytes: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
    _entries: PhantomData<T>,
}

// SAFETY: the ring is mapped memory; its indices are atomics, and an entry belongs to the side that the
// indices say.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn map(socket: BorrowedFd<'_>, at: &libc::xdp_ring_offset, entries: u32, page: u64) -> io::Result<Self> {
        let bytes = at.desc as usize + entries as usize * size_of::<T>();
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        let fd = socket.as_raw_fd();
        // SAFETY: the kernel chooses the address, and refuses a length that the ring does not have.
        let map = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, fd, page as libc::off_t) };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the kernel says where in the ring this is, aligned for its type.
        let producer = unsafe { map.add(at.producer as usize) }.cast();
        // SAFETY: as above.
        let consumer = unsafe { map.add(at.consumer as usize) }.cast();
        // SAFETY: as above.
        let first = unsafe { map.add(at.desc as usize) }.cast();
        Ok(Self { map, bytes, producer, consumer, entries: first, mask: entries - 1, _entries: PhantomData })
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping, which lives as long as `self`. All uses are atomic, also the kernel's.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: the mask keeps the index inside the ring.
        unsafe { self.entries.add((index & self.mask) as usize) }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and no code looks at it any more.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.bytes) };
    }
}

/// A bound socket and its rings.
pub(super) struct Receiver {
    fd: OwnedFd,
    frames: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
}

impl Receiver {
    /// Maps the rings of a bound socket: its own of `binding.entries`, and the ring of `fill` entries which
    /// it shares with all sockets of its queue.
    pub(super) fn open(fd: OwnedFd, fill: u32, binding: &QueueBinding) -> io::Result<Self> {
        let offsets = offsets(fd.as_fd())?;
        let frames = Ring::map(fd.as_fd(), &offsets.rx, binding.entries, libc::XDP_PGOFF_RX_RING as u64)?;
        let fill = Ring::map(fd.as_fd(), &offsets.fr, fill, libc::XDP_UMEM_PGOFF_FILL_RING)?;
        Ok(Self { fd, frames, fill })
    }

    /// Takes at most `limit` frames that have arrived, as addresses and lengths, and returns their number.
    #[inline]
    pub(super) fn take(&mut self, limit: usize, mut take: impl FnMut(u64, u32)) -> usize {
        let ring = &self.frames;
        let start = ring.consumer().load(Ordering::Relaxed);
        let waiting = ring.producer().load(Ordering::Acquire).wrapping_sub(start);
        let count = waiting.min(ring.mask + 1).min(u32::try_from(limit).unwrap_or(u32::MAX));
        for at in 0..count {
            // SAFETY: the kernel has written this entry, and writes it again only after the consumer's index
            // has passed it.
            let descriptor = unsafe { ring.entry(start.wrapping_add(at)).read() };
            take(descriptor.addr, descriptor.len);
        }
        if count > 0 {
            ring.consumer().store(start.wrapping_add(count), Ordering::Release);
        }
        count as usize
    }

    /// Gives chunks back to the kernel. Chunks that the ring has no room for stay in `chunks`.
    pub(super) fn give(&mut self, chunks: &mut Vec<u64>, _lock: &Locked<'_>) {
        let ring = &self.fill;
        let start = ring.producer().load(Ordering::Relaxed);
        let used = start.wrapping_sub(ring.consumer().load(Ordering::Acquire));
        let room = (ring.mask + 1).saturating_sub(used) as usize;
        let count = chunks.len().min(room);
        for (at, chunk) in chunks.drain(..count).enumerate() {
            // SAFETY: the entry is free, and the lock keeps other processes away from it.
            unsafe { ring.entry(start.wrapping_add(at as u32)).write(chunk) };
        }
        ring.producer().store(start.wrapping_add(count as u32), Ordering::Release);
    }

    /// Returns the frames for this socket that were lost: its ring was full, or no chunk was free.
    pub(super) fn losses(&self) -> u64 {
        // SAFETY: statistics of zeros are valid.
        let mut counts: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        let mut size = size_of_val(&counts) as libc::socklen_t;
        let pointer = ptr::from_mut(&mut counts).cast();
        let fd = self.fd.as_raw_fd();
        // SAFETY: the buffer is ours and as large as said.
        let result = unsafe { libc::getsockopt(fd, libc::SOL_XDP, libc::XDP_STATISTICS, pointer, &mut size) };
        if result == 0 { counts.rx_dropped + counts.rx_ring_full } else { 0 }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

fn offsets(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: offsets of zeros are valid.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let mut size = size_of_val(&offsets) as libc::socklen_t;
    let pointer = ptr::from_mut(&mut offsets).cast();
    // SAFETY: the buffer is ours and as large as said.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, pointer, &mut size) })?;
    if size as usize == size_of_val(&offsets) {
        return Ok(offsets);
    }
    Err(io::Error::new(io::ErrorKind::Unsupported, "Linux before 5.4 describes its rings in another way"))
}
