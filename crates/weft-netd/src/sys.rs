//! System calls, each in a safe function with Rust types.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::ptr;
use std::time::Duration;

/// The first descriptor that systemd hands over: sd_listen_fds(3).
const LISTEN_FD: RawFd = 3;
/// Who has nothing.
const NOBODY: u32 = 65_534;
/// linux/capability.h
const CAPABILITY_VERSION: u32 = 0x2008_0522;
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
/// NETLINK_SOCK_DIAG
const SOCK_DIAG: libc::c_int = 4;

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The listening socket that systemd has handed over.
pub(crate) fn inherited_listener() -> Option<UnixListener> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(std::process::id()) || number("LISTEN_FDS") != Some(1) {
        return None;
    }
    // SAFETY: no memory is involved.
    check(unsafe { libc::fcntl(LISTEN_FD, libc::F_SETFD, libc::FD_CLOEXEC) }).ok()?;
    // SAFETY: systemd says that this descriptor is open and ours, and nobody has taken it before: this is called once.
    Some(UnixListener::from(unsafe { OwnedFd::from_raw_fd(LISTEN_FD) }))
}

/// Becomes nobody, who may make packet sockets and see those of others, and nothing else; for good.
pub(crate) fn drop_privileges() -> io::Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    // SAFETY: no arguments, cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        // SAFETY: no memory is involved.
        check(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) })?;
        // SAFETY: an empty list.
        check(unsafe { libc::setgroups(0, ptr::null()) })?;
        // SAFETY: no memory is involved.
        check(unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) })?;
        // SAFETY: no memory is involved.
        check(unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) })?;
    }
    // struct __user_cap_header_struct; struct __user_cap_data_struct twice: effective, permitted, inheritable.
    let head = [CAPABILITY_VERSION, 0];
    let kept = 1 << CAP_NET_ADMIN | 1 << CAP_NET_RAW;
    let data = [kept, kept, 0, 0, 0, 0_u32];
    // SAFETY: version 3 of the call reads two words, and six.
    let result = unsafe { libc::syscall(libc::SYS_capset, head.as_ptr(), data.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Does something while new files get no other permissions than these leave.
pub(crate) fn with_umask<T>(mask: libc::mode_t, action: impl FnOnce() -> T) -> T {
    // SAFETY: no memory is involved; there is one thread.
    let before = unsafe { libc::umask(mask) };
    let result = action();
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    result
}

/// The number of a group.
pub(crate) fn group(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is terminated; there is one thread, so the entry stays until the next call.
    let entry = unsafe { libc::getgrnam(name.as_ptr()) };
    // SAFETY: null or an entry.
    unsafe { entry.as_ref() }.map(|entry| entry.gr_gid)
}

/// The name of the interface with this index.
pub(crate) fn interface_name(index: u32) -> Option<String> {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the size that the call may write.
    if unsafe { libc::if_indextoname(index, name.as_mut_ptr()) }.is_null() {
        return None;
    }
    // SAFETY: the call succeeded, so there is a terminated name.
    unsafe { CStr::from_ptr(name.as_ptr()) }.to_str().ok().map(str::to_owned)
}

/// Sleeps until one of the descriptors is readable or the time is over; a signal ends it too.
pub(crate) fn poll_readable(descriptors: impl Iterator<Item = RawFd>, timeout: Option<Duration>) -> io::Result<()> {
    let mut list: Vec<libc::pollfd> =
        descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    // A millisecond more, so that the time is over afterwards.
    let timeout = timeout.map_or(-1, |time| if time.is_zero() { 0 } else { time.as_millis() as libc::c_int + 1 });
    // SAFETY: a list of that length.
    match check(unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, timeout) }) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}

/// A socket for questions about sockets.
pub(crate) fn diag_socket() -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, SOCK_DIAG) };
    check(fd)?;
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends bytes, without waiting.
pub(crate) fn send(socket: &impl AsRawFd, bytes: &[u8]) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the bytes only.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives one message of the kernel's answer, which is there when the question has been sent; its length.
pub(crate) fn receive(socket: &impl AsRawFd, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes within the buffer.
    let length = unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) };
    if length < 0 { Err(io::Error::last_os_error()) } else { Ok(length as usize) }
}
