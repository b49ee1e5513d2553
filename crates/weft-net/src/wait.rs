//! Waiting: sleeping in the kernel until a descriptor is ready or a time has come ([`wait`]), and how long to spin before that ([`Spin`]).

use std::io;
use std::os::fd::RawFd;

use weft_core::time::Duration;

use crate::sys;

/// Descriptors one call can watch.
pub const FDS_MAX: usize = 16;

/// A set of descriptors by their place in the list given to [`wait`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready(pub u32);

impl Ready {
    /// Whether the descriptor at `place` is ready (readable, writable if asked for, hung up, or broken).
    pub fn has(self, place: usize) -> bool {
        place < FDS_MAX && self.0 & (1 << place) != 0
    }

    /// Whether the time ran out, or a signal came, and nothing is ready.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What to wait for on a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Something to read.
    Read,
    /// Something to read, or room to write.
    ReadWrite,
    /// Room to write.
    Write,
}

/// Sleeps until one of `fds` is ready or `timeout` has passed (None: no limit). A signal ends the sleep with nothing ready.
///
/// # Errors
/// InvalidInput with more than [`FDS_MAX`] descriptors; otherwise what ppoll(2) says.
pub fn wait(fds: &[(RawFd, Interest)], timeout: Option<Duration>) -> io::Result<Ready> {
    if fds.len() > FDS_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors to wait for"));
    }
    let mut polled = [libc::pollfd { fd: -1, events: 0, revents: 0 }; FDS_MAX];
    for (slot, &(fd, interest)) in polled.iter_mut().zip(fds) {
        slot.fd = fd;
        slot.events = match interest {
            Interest::Read => libc::POLLIN,
            Interest::ReadWrite => libc::POLLIN | libc::POLLOUT,
            Interest::Write => libc::POLLOUT,
        };
    }
    match sys::ppoll(&mut polled[..fds.len()], timeout.map(Duration::as_nanos)) {
        Ok(()) => {}
        Err(cause) if cause.kind() == io::ErrorKind::Interrupted => return Ok(Ready::default()),
        Err(cause) => return Err(cause),
    }
    let mut ready = 0;
    for (place, slot) in polled[..fds.len()].iter().enumerate() {
        if slot.revents != 0 {
            ready |= 1 << place;
        }
    }
    Ok(Ready(ready))
}

/// Moves this thread to another one of its processors, if there is one.
pub fn leave_processor() {
    if let Some(here) = sys::processor() {
        sys::move_to(|other| other != here);
    }
}

/// Sleeps after which a waiter that has stopped spinning tries it again; the second number is reached by doubling.
const PROBES: (u32, u32) = (8, 256);
/// A budget below this is none.
const BUDGET_MIN: Duration = Duration::from_micros(2);

/// How long a waiter spins before it sleeps, learnt from what spinning has brought.
///
/// A spin that sees what it waits for costs less than a sleep; one that does not takes the processor from whoever could
/// bring it. Nobody can know beforehand which it will be: other jobs, other virtual hosts and other programs use the same
/// processors. So the budget is halved by each spin in vain, and from time to time the whole budget is tried again.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    most: Duration,
    budget: Duration,
    sleeps: u32,
    interval: u32,
    /// The last time that the processor was with somebody else for long is not followed by a spin that paid.
    kept_away: bool,
}

impl Spin {
    /// Spins for `most` at most.
    pub const fn new(most: Duration) -> Self {
        Self { most, budget: most, sleeps: 0, interval: PROBES.0, kept_away: false }
    }

    /// How long to spin this time.
    pub fn budget(&self) -> Duration {
        if self.budget < BUDGET_MIN { Duration::default() } else { self.budget }
    }

    /// What was waited for came during the spin.
    #[inline]
    pub fn hit(&mut self) {
        if self.interval != PROBES.0 || self.kept_away || self.budget.as_nanos() != self.most.as_nanos() {
            *self = Self::new(self.most);
        }
    }

    /// Somebody else had the processor for long. Whether that happens again and again, with nothing that came by spinning in between.
    pub fn is_kept_away(&mut self) -> bool {
        std::mem::replace(&mut self.kept_away, true)
    }

    /// It did not: the waiter sleeps. `preempted`: the processor was taken away meanwhile, so somebody else wants it.
    pub fn missed(&mut self, preempted: bool) {
        let half = if preempted { 0 } else { self.budget.as_nanos() / 2 };
        let was_probe = self.sleeps >= self.interval;
        self.budget = Duration(half);
        if was_probe {
            self.sleeps = 0;
            self.interval = (self.interval * 2).min(PROBES.1);
            self.budget = Duration::default();
        }
        self.sleeps += 1;
        if self.sleeps >= self.interval {
            self.budget = self.most;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_in_vain_ends_is_tried_again_ever_less_often_and_returns_when_it_pays() {
        let mut spin = Spin::new(Duration::from_micros(20));
        let whole = spin.budget();
        let mut spins = Vec::new();
        for sleep in 0..2_000 {
            if spin.budget() == whole {
                spins.push(sleep);
            }
            spin.missed(false);
        }
        assert!(spins.len() < 16 && spins[0] == 0, "{spins:?}");
        assert!(spins.windows(3).all(|at| at[2] - at[1] >= at[1] - at[0]), "{spins:?}");
        spin.hit();
        assert_eq!(spin.budget(), whole);
        spin.missed(true);
        assert_eq!(spin.budget(), Duration::default());
        spin.hit();
        assert!(!spin.is_kept_away() && spin.is_kept_away(), "once is not always");
        spin.hit();
        assert!(!spin.is_kept_away(), "it has paid since");
    }
    use crate::clock;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_timeout_ends_the_sleep_with_nothing_ready() {
        let (near, _far) = UnixStream::pair().unwrap();
        let start = clock::now();
        let ready = wait(&[(near.as_raw_fd(), Interest::Read)], Some(Duration::from_millis(3))).unwrap();
        assert!(ready.is_empty());
        assert!(clock::now().since(start) >= Duration::from_millis(3));
    }

    #[test]
    fn the_ready_descriptor_is_named() {
        let (idle, _far) = UnixStream::pair().unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"x").unwrap();
        let fds = [(idle.as_raw_fd(), Interest::Read), (near.as_raw_fd(), Interest::Read)];
        let ready = wait(&fds, Some(Duration::from_secs(5))).unwrap();
        assert!(!ready.has(0) && ready.has(1) && !ready.has(FDS_MAX));
        let ready = wait(&[(idle.as_raw_fd(), Interest::ReadWrite)], Some(Duration::from_secs(5))).unwrap();
        assert!(ready.has(0));
    }

    #[test]
    fn too_many_descriptors_are_refused() {
        assert!(wait(&[(0, Interest::Read); FDS_MAX + 1], None).is_err());
    }
}
