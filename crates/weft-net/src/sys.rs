//! System calls, each wrapped in a safe function with Rust types, so that the links need no `unsafe` for them.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use crate::socket_filter::Instruction;

/// How often a call that a signal interrupted is repeated before the interruption is reported.
pub(crate) const INTERRUPTS_MAX: usize = 64;

/// The processor's time stamp counter; 0 where there is none.
#[inline]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a counter; every x86-64 processor has it.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Nanoseconds of CLOCK_MONOTONIC.
#[inline]
pub(crate) fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours to write. CLOCK_MONOTONIC always exists, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The memory that this process may lock, in bytes; none where there is no limit.
pub(crate) fn locked_memory_max() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours to write.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } == 0;
    Some(limit.rlim_cur).filter(|limit| known && *limit != libc::RLIM_INFINITY)
}

/// Whether this process may have a file of so many bytes, one in memory too: the system ends by a signal who makes a larger one.
pub(crate) fn check_file_size(bytes: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours to write.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    if known && bytes > limit.rlim_cur { Err(io::Error::from_raw_os_error(libc::EFBIG)) } else { Ok(()) }
}

/// Gives a file so many bytes, if this process may have so large a one.
pub(crate) fn set_length(file: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    check_file_size(bytes)?;
    // SAFETY: the descriptor is open, no memory is involved.
    check(unsafe { libc::ftruncate(file.as_raw_fd(), bytes as libc::off_t) })
}

/// ppoll(2) with a timeout in nanoseconds.
pub(crate) fn ppoll(fds: &mut [libc::pollfd], timeout_ns: Option<u64>) -> io::Result<()> {
    let time = timeout_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let time_pointer = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `fds` is a valid list of that length, the time is null or valid, the signal mask is absent.
    let result = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, time_pointer, ptr::null()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The processor that this thread is on; it may be on another one by the time of the answer.
#[inline]
pub(crate) fn processor() -> Option<u32> {
    // SAFETY: no arguments.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The processors that this thread may use; none if the machine has more than a `cpu_set_t`.
pub(crate) fn processors() -> Vec<u32> {
    let bytes = size_of::<libc::cpu_set_t>();
    // SAFETY: a set of processors is plain bits: zeros are the empty set.
    let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `all` is ours to write, of the size given.
    if unsafe { libc::sched_getaffinity(0, bytes, &mut all) } != 0 {
        return Vec::new();
    }
    // SAFETY: the set has a bit for each of these.
    (0..bytes * 8)
        .filter(|processor| unsafe { libc::CPU_ISSET(*processor, &all) })
        .map(|processor| processor as u32)
        .collect()
}

/// Lets this thread run on these processors; whether the system has.
pub(crate) fn run_on(processors: &[u32]) -> bool {
    let bytes = size_of::<libc::cpu_set_t>();
    // SAFETY: zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &processor in processors.iter().filter(|&&processor| (processor as usize) < bytes * 8) {
        // SAFETY: the processor is one that the set has a bit for.
        unsafe { libc::CPU_SET(processor as usize, &mut set) };
    }
    // SAFETY: the set is ours; an empty one is refused by the kernel.
    unsafe { libc::sched_setaffinity(0, bytes, &set) == 0 }
}

/// Moves this thread to one of its processors that `suits`, and then lets it run on all of them again. False: there is none.
pub(crate) fn move_to(suits: impl Fn(u32) -> bool) -> bool {
    let all = processors();
    let some: Vec<u32> = all.iter().copied().filter(|processor| suits(*processor)).collect();
    let moved = some.len() < all.len() && run_on(&some);
    if moved {
        // They were this thread's before, so it is allowed.
        run_on(&all);
    }
    moved
}

/// The effective user.
pub(crate) fn user() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

/// The machine's name; empty when it has none.
pub(crate) fn host_name() -> Vec<u8> {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer is ours, one byte is left for the terminator.
    let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    if result != 0 {
        return Vec::new();
    }
    name.iter().copied().take_while(|&byte| byte != 0).collect()
}

/// Whether a lock is for readers (many) or for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    Shared,
    Exclusive,
}

/// flock(2) without waiting. The lock lasts as long as the open file, so it dies with its process.
pub(crate) fn try_lock(file: BorrowedFd<'_>, lock: Lock) -> io::Result<()> {
    let operation = match lock {
        Lock::Shared => libc::LOCK_SH,
        Lock::Exclusive => libc::LOCK_EX,
    };
    // SAFETY: the descriptor is open, no memory is involved.
    check(unsafe { libc::flock(file.as_raw_fd(), operation | libc::LOCK_NB) })
}

/// posix_fallocate(3): the range has memory or disk behind it, or the call fails. Interrupted calls are repeated.
pub(crate) fn reserve(file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    for _ in 0..INTERRUPTS_MAX {
        // SAFETY: the descriptor is open, no memory is involved.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), offset as libc::off_t, len as libc::off_t) } {
            0 => return Ok(()),
            libc::EINTR => {}
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EINTR))
}

pub(crate) fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// One address of one network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) ip: IpAddr,
    pub(crate) prefix: u8,
    /// Bytes of an IP packet, header included; 0 when the interface does not say.
    pub(crate) mtu: u32,
    /// Mb/s; 0 when the interface does not say.
    pub(crate) speed: u32,
    pub(crate) is_up: bool,
    pub(crate) has_carrier: bool,
    pub(crate) is_loopback: bool,
}

/// All addresses of all interfaces of this network namespace, in the kernel's order.
pub(crate) fn interfaces() -> io::Result<Vec<Interface>> {
    let mut head: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: on success `head` is a list that is ours until freeifaddrs.
    check(unsafe { libc::getifaddrs(&mut head) })?;
    let probe = UdpSocket::bind("0.0.0.0:0").or_else(|_| UdpSocket::bind("[::]:0"));
    let mut list = Vec::new();
    let mut next = head;
    while !next.is_null() {
        // SAFETY: `next` is an entry of the list, not freed yet.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        // SAFETY: both addresses are null or sockaddrs of the list, as long as their family says.
        let (ip, mask) = unsafe { (ip_of(entry.ifa_addr), ip_of(entry.ifa_netmask)) };
        let Some(ip) = ip else { continue };
        // SAFETY: the name of an entry is a terminated string.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        let has = |flag: libc::c_int| entry.ifa_flags & flag as u32 != 0;
        list.push(Interface {
            name: name.to_string_lossy().into_owned(),
            // SAFETY: `name` is a terminated string.
            index: unsafe { libc::if_nametoindex(name.as_ptr()) },
            ip,
            prefix: mask.map_or(0, prefix_of),
            mtu: probe.as_ref().ok().and_then(|socket| mtu(socket.as_fd(), name)).unwrap_or(0),
            speed: speed(&name.to_string_lossy()),
            is_up: has(libc::IFF_UP),
            has_carrier: has(libc::IFF_RUNNING),
            is_loopback: has(libc::IFF_LOOPBACK),
        });
    }
    // SAFETY: `head` came from getifaddrs and nothing above keeps a pointer into it.
    unsafe { libc::freeifaddrs(head) };
    Ok(list)
}

/// # Safety
/// `address` is null or points to a sockaddr that is as large as its family says.
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null, so at least the family can be read; then the type that the family names.
    unsafe {
        match libc::c_int::from((*address).sa_family) {
            libc::AF_INET => {
                Some(IpAddr::V4(Ipv4Addr::from(u32::from_be((*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr))))
            }
            libc::AF_INET6 => {
                Some(IpAddr::V6(Ipv6Addr::from((*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr)))
            }
            _ => None,
        }
    }
}

fn prefix_of(mask: IpAddr) -> u8 {
    let ones = match mask {
        IpAddr::V4(ip) => u32::from(ip).leading_ones(),
        IpAddr::V6(ip) => u128::from(ip).leading_ones(),
    };
    ones as u8
}

/// The name of the interface with this index.
pub(crate) fn interface_name(index: u32) -> Option<String> {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the length that the call asks for.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    // SAFETY: the call succeeded, so there is a terminated string in the buffer.
    (!found.is_null()).then(|| unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
}

/// What the driver says of the link, Mb/s; virtual interfaces say nothing, or something made up.
fn speed(interface: &str) -> u32 {
    let said = std::fs::read_to_string(format!("/sys/class/net/{interface}/speed"));
    // "-1" where it is not known.
    said.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

fn mtu(socket: BorrowedFd<'_>, name: &CStr) -> Option<u32> {
    // SAFETY: an ifreq of zeros is valid; the name is cut so that it stays terminated.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.to_bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: SIOCGIFMTU reads the name and writes the MTU of this ifreq.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &mut request) }).ok()?;
    // SAFETY: the call succeeded, so this member was written.
    u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).ok()
}

/// Sets an option of type int.
pub(crate) fn set_option(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: i32) -> io::Result<()> {
    let size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value is an int and the size says so.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(&value).cast(), size) })
}

/// Reads an option of type int.
pub(crate) fn option(socket: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<i32> {
    let (mut value, mut size) = (0_i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: value and size are ours, and the size says how large the value is.
    check(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, ptr::from_mut(&mut value).cast(), &mut size) })?;
    Ok(value)
}

/// `struct sock_fprog` of linux/filter.h.
#[repr(C)]
struct FilterProgram {
    length: libc::c_ushort,
    instructions: *const Instruction,
}

/// From now on the socket keeps what its filter accepts, and nothing else: socket(7), SO_ATTACH_FILTER.
pub(crate) fn attach_filter(socket: BorrowedFd<'_>, filter: &[Instruction]) -> io::Result<()> {
    let program = FilterProgram { length: filter.len() as libc::c_ushort, instructions: filter.as_ptr() };
    let size = size_of_val(&program) as libc::socklen_t;
    let pointer = ptr::from_ref(&program).cast();
    // SAFETY: the program has the kernel's layout, and its instructions live until the call returns.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, pointer, size) })
}

/// Datagrams that one call of [`discard`] takes at most. A Unix socket queues 10 by default.
const DISCARD_MAX: usize = 16;

/// Takes datagrams that have arrived, and whatever came with them, out of the socket's queue without looking at them or waiting.
pub(crate) fn discard(socket: BorrowedFd<'_>) -> io::Result<()> {
    // Room for nothing: the kernel drops the bytes, and closes descriptors that were sent along, as there is no room for control messages.
    // SAFETY: headers of zeros are valid.
    let mut headers: [libc::mmsghdr; DISCARD_MAX] = unsafe { std::mem::zeroed() };
    let (count, flags, none) = (DISCARD_MAX as libc::c_uint, libc::MSG_DONTWAIT, ptr::null_mut());
    // SAFETY: the headers are ours and point to nothing.
    check(unsafe { libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, flags as _, none) })
}

/// Fills `bytes` with random ones that cannot be guessed.
pub(crate) fn random(bytes: &mut [u8]) -> io::Result<()> {
    for _ in 0..INTERRUPTS_MAX {
        // SAFETY: the buffer is ours and that long. So few bytes come at once or not at all (getrandom(2)).
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        match check(got as libc::c_int) {
            Ok(()) => return Ok(()),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EINTR))
}

/// Whether there is a process with this number; a zombie is one.
pub(crate) fn has_process(pid: i32) -> bool {
    // SAFETY: signal 0 only asks.
    match check(unsafe { libc::kill(pid, 0) }) {
        Ok(()) => true,
        // Such as that it is another user's.
        Err(cause) => cause.raw_os_error() != Some(libc::ESRCH),
    }
}

/// An IP address and port as the kernel wants it.
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

/// A control message with one value, laid out as cmsg(3) does.
#[repr(C)]
#[derive(Clone, Copy)]
struct Control<T> {
    head: libc::cmsghdr,
    value: T,
}

/// Sends datagrams of `segment` bytes each (the last may be shorter) with one call: Linux's UDP_SEGMENT, udp(7). A connected socket
/// knows to whom.
pub(crate) fn send_segmented(
    socket: BorrowedFd<'_>,
    to: Option<&SocketAddr>,
    bytes: &[u8],
    segment: u16,
) -> io::Result<()> {
    let mut name = to.map(SocketName::new);
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // Alignment leaves room behind the number, which is handed over with it: zeros, so that nothing is read that was never written.
    // SAFETY: a cmsghdr of zeros is valid.
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

/// Connects to the unix socket `path`; this, and every step on the connection, takes at most `patience`.
pub(crate) fn connect_unix(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    // SAFETY: a sockaddr_un of zeros is valid.
    let mut name: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    name.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= name.sun_path.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is too long for a unix socket"));
    }
    for (to, &from) in name.sun_path.iter_mut().zip(bytes) {
        *to = from as libc::c_char;
    }
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    check(fd)?;
    // SAFETY: the descriptor is new and ours.
    let stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
    stream.set_write_timeout(Some(patience))?;
    stream.set_read_timeout(Some(patience))?;
    let size = size_of_val(&name) as libc::socklen_t;
    // SAFETY: the name is a terminated sockaddr_un and the size says so.
    check(unsafe { libc::connect(stream.as_raw_fd(), ptr::from_ref(&name).cast(), size) })?;
    Ok(stream)
}

/// What a packet says in the two low bits of its traffic class (RFC 3168 §5): its sender heeds marks; it was marked.
pub(crate) const ECN_CAPABLE: i32 = 2;
const ECN_MARKED: i32 = 3;

/// Room for the control messages of one datagram: how long those are that were joined to it, and its traffic class.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Controls([u8; CONTROLS_BYTES]);

const CONTROL_HEAD: usize = size_of::<libc::cmsghdr>();
/// A small value is followed by what aligns the next one.
const CONTROL_STEP: usize = CONTROL_HEAD + size_of::<usize>();
const CONTROLS_BYTES: usize = 2 * CONTROL_STEP;

impl Controls {
    /// Level, type and value of each, as cmsg(3) lays them out; a value is an int or, of IPv4's traffic class, a byte.
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

/// One datagram that was received, perhaps several joined.
pub(crate) struct Datagram<'a> {
    pub(crate) bytes: &'a [u8],
    /// Bytes of each that was joined to it; all of it when none were.
    pub(crate) segment: usize,
    /// It bears a mark of congestion.
    pub(crate) marked: bool,
}

/// Buffers into which the kernel receives one or several datagrams with one call, each perhaps several joined to one (UDP_GRO).
pub(crate) struct ReceiveBatch {
    bytes: Box<[u8]>,
    slot: usize,
    // The headers point to the others: boxes, so they stay where they are.
    headers: Box<[libc::mmsghdr]>,
    controls: Box<[Controls]>,
    _vectors: Box<[libc::iovec]>,
}

// SAFETY: the raw pointers inside point into boxes of the same value.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// Room for `count` datagrams of `slot` bytes each. The kernel gives memory only to those that are used.
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

    /// Receives at most `limit` datagrams without waiting; at least one, or the error says why not.
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

    /// Receives one datagram without waiting, with the cheaper call.
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

    /// Datagram `i` of the last call.
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
