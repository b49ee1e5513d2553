//! Waiting for several descriptors at once.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Wake when there is something to read, or when the other side is gone.
pub(crate) const READ: i16 = libc::POLLIN;
/// Wake when there is room to write, or when the other side is gone.
pub(crate) const WRITE: i16 = libc::POLLOUT;

/// A list of descriptors to wait for, filled anew for every wait.
#[derive(Default)]
pub(crate) struct Poll {
    entries: Vec<libc::pollfd>,
}

impl Poll {
    /// Forgets all entries.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Adds a descriptor; the answer is found under the returned number after the wait.
    pub(crate) fn add(&mut self, fd: &impl AsRawFd, events: i16) -> usize {
        self.add_raw(fd.as_raw_fd(), events)
    }

    fn add_raw(&mut self, fd: RawFd, events: i16) -> usize {
        self.entries.push(libc::pollfd { fd, events, revents: 0 });
        self.entries.len() - 1
    }

    /// Waits until something is ready or the time is over; `None` waits without limit. An interruption by a signal
    /// counts as time over.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> io::Result<()> {
        // Rounded up: a timer that is due in 0.3 ms must not be polled for in a busy loop.
        let timeout = limit.map_or(-1, |limit| i32::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(i32::MAX));
        // SAFETY: the pointer and the count describe the vector's entries.
        let result = unsafe { libc::poll(self.entries.as_mut_ptr(), self.entries.len() as libc::nfds_t, timeout) };
        if result >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::Interrupted {
            for entry in &mut self.entries {
                entry.revents = 0;
            }
            return Ok(());
        }
        Err(error)
    }

    /// Whether the entry is ready for anything it waited for, or its other side is gone.
    pub(crate) fn ready(&self, entry: usize) -> bool {
        self.entries[entry].revents != 0
    }
}
