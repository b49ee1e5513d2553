//! Descriptors that have something to do: epoll(7), and descriptors of processes, pidfd_open(2).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::check;

/// Most descriptors of which a look is told; the next look is told of the others.
const EVENTS_MAX: usize = 64;

/// Sockets and other descriptors, by numbers that their owner gives them.
pub(crate) struct Watched(OwnedFd);

impl Watched {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        check(fd)?;
        // SAFETY: the descriptor is new and ours.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The descriptor that is readable when one of them has something to do.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Adds a descriptor; it leaves when it is closed.
    pub(crate) fn add(&self, socket: &impl AsRawFd, number: u64, writes: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, number, writes)
    }

    /// Sets whether a descriptor has something to do when it can be written, beside when it can be read.
    pub(crate) fn change(&self, socket: &impl AsRawFd, number: u64, writes: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket, number, writes)
    }

    fn control(&self, operation: libc::c_int, socket: &impl AsRawFd, number: u64, writes: bool) -> io::Result<()> {
        let events = libc::EPOLLIN | if writes { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event { events: events as u32, u64: number };
        // SAFETY: both descriptors are open, and the event is ours.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, socket.as_raw_fd(), &mut event) })
    }

    /// The numbers of those that have something to do now.
    pub(crate) fn ready(&self) -> impl Iterator<Item = u64> + use<> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        // SAFETY: the list is ours and that long.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), EVENTS_MAX as i32, 0) };
        events.into_iter().take(usize::try_from(count).unwrap_or(0)).map(|event| event.u64)
    }
}

/// Opens a descriptor that is readable once the process with this number has ended.
pub(crate) fn watch_process(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as libc::c_int;
    check(fd)?;
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
