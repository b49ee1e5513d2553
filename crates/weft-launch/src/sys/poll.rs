//! Waiting for several descriptors at once.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Wake when there is something to read, or when the other side is gone.
pub(crate) const READ: PollFlags = PollFlags::IN;
/// Wake when there is room to write, or when the other side is gone.
pub(crate) const WRITE: PollFlags = PollFlags::OUT;

/// Wake only when the other side is gone.
pub(crate) const GONE: PollFlags = PollFlags::empty();

/// Descriptors to wait for, once.
#[derive(Default)]
pub(crate) struct Poll<'fd> {
    entries: Vec<PollFd<'fd>>,
}

/// The entries that were ready after a wait.
pub(crate) struct Ready(Vec<bool>);

impl<'fd> Poll<'fd> {
    /// Adds a descriptor. Its result is under the returned number after the wait.
    pub(crate) fn add(&mut self, fd: &'fd impl AsFd, events: PollFlags) -> usize {
        self.entries.push(PollFd::new(fd, events));
        self.entries.len() - 1
    }

    /// Waits until an entry is ready or the time is over; `None` waits without limit. An interruption by a
    /// signal counts as the end of the time.
    ///
    /// # Errors
    /// An error of the system.
    pub(crate) fn wait(mut self, limit: Option<Duration>) -> io::Result<Ready> {
        // A limit that the system cannot express is no limit.
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match rustix::event::poll(&mut self.entries, limit.as_ref()) {
            Ok(_) => Ok(Ready(self.entries.iter().map(|entry| !entry.revents().is_empty()).collect())),
            Err(Errno::INTR) => Ok(Ready(vec![false; self.entries.len()])),
            Err(error) => Err(error.into()),
        }
    }
}

impl Ready {
    /// Returns whether the entry is ready for an event that it waited for, or its other side is gone.
    pub(crate) fn has(&self, entry: usize) -> bool {
        self.0[entry]
    }
}
