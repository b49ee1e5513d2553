//! System calls, each wrapped in a safe function with Rust types, so that the links need no `unsafe` for
//! them.
#![allow(unsafe_code)]

mod datagrams;
#[cfg(not(loom))]
mod files;
mod interfaces;
mod watched;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use crate::socket_filter::Instruction;

pub(crate) use datagrams::{Datagram, ECN_CAPABLE, ReceiveBatch, SocketName, send_segmented};
#[cfg(not(loom))]
pub(crate) use files::{RangeLock, allocate, close, file_size_max, file_system, lock_range};
pub(crate) use interfaces::{Interface, interface_name, interfaces};
pub(crate) use watched::Watched;
#[cfg(not(loom))]
pub(crate) use watched::watch_process;

/// Times that a call is repeated when signals interrupt it, before the interruption is reported.
pub(crate) const INTERRUPTS_MAX: usize = 64;

/// Returns the processor's time stamp counter; 0 where there is none.
#[inline]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a counter; every x86-64 processor has it.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Returns nanoseconds of CLOCK_MONOTONIC.
#[inline]
pub(crate) fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours to write. CLOCK_MONOTONIC always exists, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the bytes of memory that this process may lock; none where there is no limit.
pub(crate) fn locked_memory_max() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours to write.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } == 0;
    Some(limit.rlim_cur).filter(|limit| known && *limit != libc::RLIM_INFINITY)
}

/// Checks that this process may have a file of so many bytes, on disk or in memory. The system sends a signal
/// to a process that makes a larger file, and the signal ends the process.
pub(crate) fn check_file_size(bytes: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours to write.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    if known && bytes > limit.rlim_cur { Err(io::Error::from_raw_os_error(libc::EFBIG)) } else { Ok(()) }
}

/// Gives a file so many bytes, if this process may have so large a file.
pub(crate) fn set_length(file: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    check_file_size(bytes)?;
    // SAFETY: the descriptor is open, no memory is involved.
    check(unsafe { libc::ftruncate(file.as_raw_fd(), bytes as libc::off_t) })
}

/// Calls ppoll(2) with a timeout in nanoseconds.
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

/// Returns the processor that this thread is on. The thread may be on another one by the time of the answer.
#[inline]
pub(crate) fn processor() -> Option<u32> {
    // SAFETY: no arguments.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The number of processors that the machine has switched on, whoever may use them.
pub(crate) fn online_processors() -> usize {
    // SAFETY: sysconf takes a number and returns one.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// The bytes of a processor's second-level cache, as far as the C library knows them.
#[cfg(target_env = "gnu")]
pub(crate) fn second_level_cache() -> Option<usize> {
    // SAFETY: as above.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_LEVEL2_CACHE_SIZE) }).ok().filter(|bytes| *bytes > 0)
}

/// The same; no other C library tells.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn second_level_cache() -> Option<usize> {
    None
}

/// Returns the processors that this thread may use; none if the machine has more than a `cpu_set_t`.
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

/// Lets this thread run on these processors, and returns whether the system allowed it.
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

/// Moves this thread to one of its processors that `suits`, and then lets it run on all of them again.
/// Returns false when there is none.
pub(crate) fn move_to(suits: impl Fn(u32) -> bool) -> bool {
    let all = processors();
    let some: Vec<u32> = all.iter().copied().filter(|processor| suits(*processor)).collect();
    let moved = some.len() < all.len() && run_on(&some);
    if moved {
        // All of them were this thread's before, so this is allowed.
        run_on(&all);
    }
    moved
}

/// Returns the effective user.
pub(crate) fn user() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns the machine's name; empty when it has none.
pub(crate) fn host_name() -> Vec<u8> {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer is ours, one byte is left for the terminator.
    let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    if result != 0 {
        return Vec::new();
    }
    name.iter().copied().take_while(|&byte| byte != 0).collect()
}

/// The kind of a lock: for many readers, or for a single holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    Shared,
    Exclusive,
}

/// Takes a lock by flock(2) without waiting. The lock lasts as long as the open file, so it dies with its
/// process.
pub(crate) fn try_lock(file: BorrowedFd<'_>, lock: Lock) -> io::Result<()> {
    let operation = match lock {
        Lock::Shared => libc::LOCK_SH,
        Lock::Exclusive => libc::LOCK_EX,
    };
    // SAFETY: the descriptor is open, no memory is involved.
    check(unsafe { libc::flock(file.as_raw_fd(), operation | libc::LOCK_NB) })
}

/// Calls posix_fallocate(3): the range has memory or disk behind it, or the call fails. Repeats interrupted
/// calls.
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

/// Attaches a filter: from now on the socket keeps the datagrams that the filter accepts, and no others
/// (socket(7), SO_ATTACH_FILTER).
pub(crate) fn attach_filter(socket: BorrowedFd<'_>, filter: &[Instruction]) -> io::Result<()> {
    let program = FilterProgram { length: filter.len() as libc::c_ushort, instructions: filter.as_ptr() };
    let size = size_of_val(&program) as libc::socklen_t;
    let pointer = ptr::from_ref(&program).cast();
    // SAFETY: the program has the kernel's layout, and its instructions live until the call returns.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, pointer, size) })
}

/// Most datagrams that a call of [`discard`] takes. A Unix socket queues 10 by default.
const DISCARD_MAX: usize = 16;

/// Removes arrived datagrams, with all that came along, from the socket's queue, without looking at them or
/// waiting.
pub(crate) fn discard(socket: BorrowedFd<'_>) -> io::Result<()> {
    // Without room the kernel drops the bytes. It closes descriptors that were sent along, because there is
    // no room for control messages. SAFETY: headers of zeros are valid.
    let mut headers: [libc::mmsghdr; DISCARD_MAX] = unsafe { std::mem::zeroed() };
    let (count, flags, none) = (DISCARD_MAX as libc::c_uint, libc::MSG_DONTWAIT, ptr::null_mut());
    // SAFETY: the headers are ours and point to nothing.
    check(unsafe { libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count, flags as _, none) })
}

/// Sends as many of these bytes as the kernel takes, without waiting. A connection that is broken is an
/// error, and no signal.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel only reads the bytes, which are that many.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Fills `bytes` with random bytes that cannot be guessed.
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

/// Returns whether there is a process with this number; a zombie is one.
pub(crate) fn has_process(pid: i32) -> bool {
    // SAFETY: signal 0 only asks.
    match check(unsafe { libc::kill(pid, 0) }) {
        Ok(()) => true,
        // For example because it is another user's.
        Err(cause) => cause.raw_os_error() != Some(libc::ESRCH),
    }
}

/// Connects to the unix socket `path`. The connection, and every step on it, takes at most `patience`.
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
