//! The watch of the progress thread: the descriptors, by epoll(7), and the timers that it sleeps on. Also the
//! processor on which it runs ([`Apart`]).
//!
//! The thread sleeps. Another thread, which holds the right to make progress, arms and disarms the
//! descriptors; that does not wake the progress thread. A descriptor that becomes readable wakes the progress
//! thread once, and is disarmed by that. So the descriptor does not wake it again while another thread makes
//! progress.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use weft_core::time::{Duration, Instant};

use crate::clock;
use crate::sys::{self, check};

/// Most events of a wait; the next wait tells the rest.
const EVENTS_MAX: usize = 4;

/// The descriptors and timers that a thread watches.
pub struct Watch {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// The second timer, which [`Watch::wait`] tells from the first.
    pulse: OwnedFd,
    /// A doorbell that is always watched.
    bell: Option<RawFd>,
}

impl Watch {
    /// Begins without watching: `descriptors` are known and disarmed, and so is the timer. The doorbell
    /// `bell` is always armed. It must stay open as long as the watch is used.
    ///
    /// # Errors
    /// The process has not enough descriptors, or one of these cannot be watched.
    pub fn new(descriptors: &[RawFd], bell: Option<RawFd>) -> io::Result<Self> {
        let owned = |fd: RawFd| {
            check(fd)?;
            // SAFETY: the call succeeded, so the descriptor is open, and no other value owns it.
            Ok::<_, io::Error>(unsafe { OwnedFd::from_raw_fd(fd) })
        };
        // SAFETY: no memory is involved.
        let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        let timer = || {
            // SAFETY: as above.
            owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) })
        };
        let watch = Self { epoll, timer: timer()?, pulse: timer()?, bell };
        for fd in [watch.timer.as_raw_fd(), watch.pulse.as_raw_fd()].into_iter().chain(bell) {
            watch.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN)?;
        }
        for fd in descriptors {
            watch.control(libc::EPOLL_CTL_ADD, *fd, libc::EPOLLONESHOT)?;
        }
        Ok(watch)
    }

    fn control(&self, operation: libc::c_int, fd: RawFd, events: libc::c_int) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: fd as u64 };
        // SAFETY: both descriptors are open as far as we know (the kernel says so if not), the event is ours.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &mut event) })
    }

    /// Arms a descriptor: the thread wakes when `fd` is readable, once.
    ///
    /// # Errors
    /// The descriptor is not one of those that were given to [`Watch::new`].
    pub fn arm(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, libc::EPOLLIN | libc::EPOLLONESHOT)
    }

    /// Disarms a descriptor: the thread no longer wakes when it is readable.
    ///
    /// # Errors
    /// As for [`Self::arm`].
    pub fn disarm(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, libc::EPOLLONESHOT)
    }

    /// Sets the timer: the thread wakes after `span`, once; a span of 0 is as short as can be.
    pub fn set_timer(&self, span: Duration) {
        set_timer(&self.timer, Some(span));
    }

    /// Sets the pulse: the thread wakes after `span`, once, whatever wakes it before that.
    pub fn set_pulse(&self, span: Duration) {
        set_timer(&self.pulse, Some(span));
    }

    /// Sleeps until an armed descriptor or the doorbell is readable, or the timer or the pulse has run out. A
    /// signal may end it earlier. Returns whether the pulse has run out since the last call.
    pub fn wait(&self) -> bool {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        // SAFETY: the list is ours and that long. An error is an early end.
        unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), EVENTS_MAX as libc::c_int, -1) };
        let [_, pulsed] = [&self.timer, &self.pulse].map(|timer| {
            let mut expirations = 0_u64;
            // SAFETY: the buffer is eight bytes. Not expired: EAGAIN.
            unsafe { libc::read(timer.as_raw_fd(), ptr::from_mut(&mut expirations).cast(), size_of::<u64>()) };
            expirations > 0
        });
        if let Some(bell) = self.bell {
            // SAFETY: the owner keeps the doorbell open.
            let _ = sys::discard(unsafe { BorrowedFd::borrow_raw(bell) });
        }
        pulsed
    }
}

/// Returns a descriptor that is readable when any of these is: an epoll(7).
pub(crate) fn any_of(descriptors: &[RawFd]) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    check(fd)?;
    // SAFETY: the descriptor is new and ours.
    let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
    descriptors.iter().try_for_each(|fd| also(&epoll, *fd))?;
    Ok(epoll)
}

/// Makes a timer that is not set, for [`any_of`].
pub(crate) fn timer() -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
    check(fd)?;
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a timer: it is readable after `span`, and not before; without a span never.
pub(crate) fn set_timer(timer: &OwnedFd, span: Option<Duration>) {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let value = libc::itimerspec { it_interval: never, it_value: span.map_or(never, timespec) };
    // SAFETY: the value is ours. The call fails only for wrong values and descriptors, which these are not.
    unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const value, ptr::null_mut()) };
}

/// Adds a descriptor to those of [`any_of`].
pub(crate) fn also(any: &OwnedFd, fd: RawFd) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    // SAFETY: the event is ours; the kernel refuses a number that is no descriptor.
    check(unsafe { libc::epoll_ctl(any.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) })
}

/// Returns a time that is not 0, because 0 would mean never.
fn timespec(span: Duration) -> libc::timespec {
    let ns = span.as_nanos().max(1);
    libc::timespec { tv_sec: (ns / 1_000_000_000) as libc::time_t, tv_nsec: (ns % 1_000_000_000) as libc::c_long }
}

/// Least time between two moves of a thread: a thread that the kernel moves from one processor to the next is
/// not followed at once.
const APART_PAUSE: Duration = Duration::from_millis(1);

/// A processor that a thread leaves to another thread.
#[derive(Clone, Copy, Debug)]
pub struct Apart {
    processor: u32,
    /// True if the thread could use the processor before.
    taken: bool,
    since: Instant,
}

impl Apart {
    /// Keeps this thread off `processor` from now on if it runs there, unless it may use no other. `before`
    /// is what this returned last, and ends.
    pub fn from(processor: Option<u32>, before: Option<Self>) -> Option<Self> {
        let here = sys::processor()?;
        if processor != Some(here) {
            return before;
        }
        let now = clock::now();
        if before.is_some_and(|before| now.since(before.since) < APART_PAUSE) {
            return before;
        }
        let back = before.filter(|before| before.taken).map(|before| before.processor);
        Some(Self { processor: here, taken: keep_off(here, back), since: now })
    }
}

/// Returns the processor that this thread is on, if the system says so.
#[inline]
pub fn processor() -> Option<u32> {
    sys::processor()
}

/// Takes `processor` from those that this thread may use, unless it is the only one, and gives it `back`.
/// Returns whether it was taken. It is not, for instance, if the machine has more processors than a
/// `cpu_set_t`.
fn keep_off(processor: u32, back: Option<u32>) -> bool {
    let mut mine = sys::processors();
    if mine.is_empty() {
        return false;
    }
    mine.extend(back);
    weft_ordered::sort(&mut mine);
    mine.dedup();
    let taken = mine.len() > 1 && mine.contains(&processor);
    mine.retain(|one| !taken || *one != processor);
    sys::run_on(&mine) && taken
}

/// Starts a thread to which no signal of the program is delivered.
///
/// # Errors
/// There cannot be another thread.
pub fn spawn_without_signals(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    spawn(name, Box::new(body))
}

/// What starts a thread is there once, and not for each body.
fn spawn(name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<std::thread::JoinHandle<()>> {
    // SAFETY: sets of zeros are valid places for sets; the calls read and write only these. A new thread has
    // the signal mask of the thread that starts it, which gets its own mask back at once.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        thread
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration as Span;

    use super::*;

    const LIMIT: Span = Span::from_secs(20);
    const A_WHILE: Span = Span::from_millis(30);

    /// Starts a thread that reports each time it wakes, and whether the pulse has run out.
    fn sleeper(watch: &Arc<Watch>) -> Receiver<bool> {
        let (report, reported) = channel();
        let watch = Arc::clone(watch);
        spawn_without_signals("test", move || {
            loop {
                if report.send(watch.wait()).is_err() {
                    return;
                }
            }
        })
        .unwrap();
        reported
    }

    #[test]
    fn a_thread_leaves_a_processor_that_is_wanted_and_gets_it_back_when_it_leaves_another() {
        // A thread of its own: the processors of the thread that runs tests stay as they are.
        std::thread::spawn(|| {
            let before = allowed();
            let first = processor().unwrap();
            let elsewhere = before.iter().copied().find(|other| *other != first);
            assert!(Apart::from(elsewhere.or(Some(first + 1)), None).is_none(), "it is not there");
            let apart = Apart::from(processor(), None).unwrap();
            let left = apart.processor;
            if before.len() == 1 {
                assert!(!apart.taken && allowed() == before, "there is no other");
                return;
            }
            assert!(apart.taken && !allowed().contains(&left) && allowed().len() == before.len() - 1);
            std::thread::sleep(Span::from_millis(2));
            let again = Apart::from(processor(), Some(apart)).unwrap();
            assert!(again.processor != left && allowed().contains(&left) && !allowed().contains(&again.processor));
        })
        .join()
        .unwrap();
    }

    /// Returns the processors that this thread may use.
    fn allowed() -> Vec<u32> {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
        let bounds = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<u32>().unwrap()..=last.parse().unwrap()
        };
        list.split(',').flat_map(bounds).collect()
    }

    #[test]
    fn an_armed_descriptor_wakes_once_and_a_disarmed_one_never() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let watch = Arc::new(Watch::new(&[near.as_raw_fd()], None).unwrap());
        let woken = sleeper(&watch);
        far.write_all(b"x").unwrap();
        assert!(woken.recv_timeout(A_WHILE).is_err(), "nothing is armed");
        watch.arm(near.as_raw_fd()).unwrap();
        woken.recv_timeout(LIMIT).unwrap();
        assert!(woken.recv_timeout(A_WHILE).is_err(), "once");
        near.read_exact(&mut [0]).unwrap();
        watch.arm(near.as_raw_fd()).unwrap();
        watch.disarm(near.as_raw_fd()).unwrap();
        far.write_all(b"y").unwrap();
        assert!(woken.recv_timeout(A_WHILE).is_err(), "disarmed");
        watch.set_timer(Duration::default());
        assert!(!woken.recv_timeout(LIMIT).unwrap(), "it was the timer");
        assert!(woken.recv_timeout(A_WHILE).is_err(), "the timer runs out once");
        watch.set_pulse(Duration::from_millis(2));
        assert!(woken.recv_timeout(LIMIT).unwrap(), "it was the pulse");
        assert!(woken.recv_timeout(A_WHILE).is_err(), "the pulse runs out once");
    }
}
