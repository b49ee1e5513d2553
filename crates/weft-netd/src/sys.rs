//! The calls of the system and of libc that `weft-netd` makes, as safe functions.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::Mode;
use rustix::io::{Errno, FdFlags};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, netlink};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

/// The first descriptor that systemd hands over: sd_listen_fds(3).
const LISTEN_FD: RawFd = 3;
/// The user and group without rights.
const NOBODY: u32 = 65_534;

/// The listening socket that systemd has handed over.
pub(crate) fn inherited_listener() -> Option<UnixListener> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    if number("LISTEN_PID") != Some(std::process::id()) || number("LISTEN_FDS") != Some(1) {
        return None;
    }
    // SAFETY: systemd says that this descriptor is open and ours. No other code has taken it before: this is
    // called once.
    let socket = unsafe { OwnedFd::from_raw_fd(LISTEN_FD) };
    rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC).ok()?;
    Some(UnixListener::from(socket))
}

/// Becomes nobody for good: a user that may make packet sockets and see those of others, and nothing else.
/// The process has one thread, so a call for the thread holds for the process.
pub(crate) fn drop_privileges() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    if rustix::process::geteuid().is_root() {
        rustix::thread::set_keep_capabilities(true)?;
        rustix::thread::set_thread_groups(&[])?;
        let (group, user) = (Gid::from_raw(NOBODY), Uid::from_raw(NOBODY));
        rustix::thread::set_thread_res_gid(group, group, group)?;
        rustix::thread::set_thread_res_uid(user, user, user)?;
    }
    let kept = CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Runs an action while new files get at most these permissions; the process has one thread.
pub(crate) fn with_umask<T>(mask: Mode, action: impl FnOnce() -> T) -> T {
    let before = rustix::process::umask(mask);
    let result = action();
    rustix::process::umask(before);
    result
}

/// Returns the number of a group.
pub(crate) fn group(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is terminated; there is one thread, so the entry stays until the next call.
    let entry = unsafe { libc::getgrnam(name.as_ptr()) };
    // SAFETY: null or an entry.
    unsafe { entry.as_ref() }.map(|entry| entry.gr_gid)
}

/// Returns the name of the interface with this index.
pub(crate) fn interface_name(index: u32) -> Option<String> {
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    netdevice::index_to_name(&socket, index).ok()
}

/// Sleeps until one of the descriptors is readable or the time is over; a signal ends it too.
pub(crate) fn poll_readable<'fd>(
    descriptors: impl Iterator<Item = BorrowedFd<'fd>>,
    timeout: Option<Duration>,
) -> io::Result<()> {
    let mut list: Vec<PollFd<'_>> =
        descriptors.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
    let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
    match rustix::event::poll(&mut list, timeout.as_ref()) {
        Err(error) if error != Errno::INTR => Err(error.into()),
        _ => Ok(()),
    }
}

/// Opens a socket for questions about sockets.
pub(crate) fn diag_socket() -> io::Result<OwnedFd> {
    let protocol = Some(netlink::SOCK_DIAG);
    Ok(rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?)
}

/// Sends bytes, without waiting.
pub(crate) fn send(socket: &impl AsFd, bytes: &[u8]) -> io::Result<()> {
    rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message of the kernel's answer, which is there when the question has been sent, and returns its
/// length.
pub(crate) fn receive(socket: &impl AsFd, bytes: &mut [u8]) -> io::Result<usize> {
    let (length, _) = rustix::net::recv(socket, bytes, RecvFlags::DONTWAIT)?;
    Ok(length)
}
