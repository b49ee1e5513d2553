//! The monitor: reports what happens to the program's memory, by userfaultfd(2), so that registrations of
//! memory that is no longer there are not used again.
//!
//! A thread that changes a mapping (munmap, mremap, brk, madvise, another mapping at the same place) waits in
//! the kernel until the event has been read. So the monitor has a thread that reads events and writes the
//! changes down. The monitor's thread neither takes a lock nor allocates, because the waiting thread may be
//! within `free`. Memory is watched in the mode for writes to protected pages, of which there are none: no
//! access of the program waits, and a child of fork(2) is not watched.
//!
//! *When the list of changes is complete* ([`Monitor::is_settled`]): the kernel counts the changes that are
//! under way, from before the mapping changes until the event has been read. Meanwhile it refuses to protect
//! pages, so a call that asks for that shows whether a change is under way. The monitor's thread says when
//! all events that it has read are written down.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Barrier, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::areas::Areas;
use crate::sys::{self, check};
use crate::watch::spawn_without_signals;

/// Changes that are kept. A reader that has not looked for longer takes everything to have changed.
const CHANGES_MAX: usize = 1024;
/// Events of a read.
const EVENTS: usize = 16;
/// Longest time for which the end waits for threads that are still within a call that changes mappings.
const LAST_CHANGES: Duration = Duration::from_secs(1);

const UFFD_USER_MODE_ONLY: libc::c_int = 1;
const API: u64 = 0xaa;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_UNREGISTER: libc::c_ulong = 0x8010_aa01;
const UFFDIO_WRITEPROTECT: libc::c_ulong = 0xc018_aa06;
const MODE_WRITE_PROTECT: u64 = 1 << 1;
const FEATURE_WRITE_PROTECT: u64 = 1;
const FEATURE_REMAP: u64 = 1 << 2;
const FEATURE_REMOVE: u64 = 1 << 3;
const FEATURE_UNMAP: u64 = 1 << 6;
const FEATURES: u64 = FEATURE_WRITE_PROTECT | FEATURE_REMAP | FEATURE_REMOVE | FEATURE_UNMAP;
const EVENT_REMAP: u8 = 0x14;
const EVENT_REMOVE: u8 = 0x15;
const EVENT_UNMAP: u8 = 0x16;

/// `struct uffd_msg`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    kind: u8,
    reserved: [u8; 7],
    words: [u64; 3],
}

/// A change since the reader last looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// The mapping of this range is not what it was.
    Range(Range<u64>),
    /// Unknown changes: there were too many to be kept.
    Everything,
}

/// The last changes, in a circle. The monitor's thread writes, and many read. A reader notices when an entry
/// that it reads is overwritten.
struct Changes {
    /// Odd while the thread may have read an event that is not written down yet.
    turn: AtomicU64,
    /// Changes whose writing has begun; then changes that are written.
    begun: AtomicU64,
    written: AtomicU64,
    ranges: [[AtomicU64; 2]; CHANGES_MAX],
    /// Bounds of all memory that was ever watched.
    lowest: AtomicU64,
    highest: AtomicU64,
}

impl Changes {
    fn new() -> Self {
        Self {
            turn: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            written: AtomicU64::new(0),
            ranges: std::array::from_fn(|_| [AtomicU64::new(0), AtomicU64::new(0)]),
            lowest: AtomicU64::new(u64::MAX),
            highest: AtomicU64::new(0),
        }
    }

    /// Writes a change down. Only the thread that reads events calls this.
    fn write(&self, range: &Range<u64>) {
        let number = self.written.load(Ordering::Relaxed);
        self.begun.store(number + 1, Ordering::Relaxed);
        // A reader that sees a part of the new range also sees that its writing has begun.
        fence(Ordering::Release);
        let [start, end] = &self.ranges[number as usize % CHANGES_MAX];
        start.store(range.start, Ordering::Relaxed);
        end.store(range.end, Ordering::Relaxed);
        self.written.store(number + 1, Ordering::Release);
    }

    /// Tells of the changes from number `from` on, and returns the number of the next one.
    fn since(&self, from: u64, mut tell: impl FnMut(Changed)) -> u64 {
        let written = self.written.load(Ordering::Acquire);
        let most = CHANGES_MAX as u64;
        if written - from <= most {
            for number in from..written {
                let [start, end] = &self.ranges[number as usize % CHANGES_MAX];
                tell(Changed::Range(start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)));
            }
        }
        fence(Ordering::Acquire);
        if self.begun.load(Ordering::Relaxed) - from > most {
            tell(Changed::Everything);
        }
        written
    }

    fn note_watched(&self, range: &Range<u64>) {
        self.lowest.fetch_min(range.start, Ordering::Relaxed);
        self.highest.fetch_max(range.end, Ordering::Relaxed);
    }
}

/// Watches memory of this process.
pub(super) struct Monitor {
    fd: Arc<OwnedFd>,
    quit: Arc<OwnedFd>,
    changes: Arc<Changes>,
    areas: Mutex<Areas>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Returns the monitor of this process, which lives as long as a user holds it.
    ///
    /// # Errors
    /// The kernel has no userfaultfd for this process: a part of a sentence, with what to do.
    pub(super) fn of_process() -> Result<Arc<Self>, String> {
        static MONITOR: Mutex<Weak<Monitor>> = Mutex::new(Weak::new());
        let mut known = MONITOR.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(monitor) = known.upgrade() {
            return Ok(monitor);
        }
        let monitor = Arc::new(Self::new(FEATURES)?);
        *known = Arc::downgrade(&monitor);
        Ok(monitor)
    }

    fn new(features: u64) -> Result<Self, String> {
        let fd = Arc::new(open(features)?);
        let failed = |call: &'static str| move |error: io::Error| format!("{call}: {error}");
        // SAFETY: no memory is involved.
        let quit = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        check(quit).map_err(failed("eventfd"))?;
        // SAFETY: the descriptor is new and ours.
        let quit = Arc::new(unsafe { OwnedFd::from_raw_fd(quit) });
        let areas = Mutex::new(Areas::new().map_err(failed("/proc/self/maps"))?);
        let changes = Arc::new(Changes::new());
        // No memory may be watched before the thread has reached the place where it allocates no more.
        let begun = Arc::new(Barrier::new(2));
        let theirs = (Arc::clone(&fd), Arc::clone(&quit), Arc::clone(&changes), Arc::clone(&begun));
        let body = move || {
            let (fd, quit, changes, begun) = &theirs;
            begun.wait();
            read_events(fd.as_raw_fd(), quit.as_raw_fd(), changes);
        };
        let thread = spawn_without_signals("weft-memory", body).map_err(failed("a thread"))?;
        begun.wait();
        Ok(Self { fd, quit, changes, areas, thread: Some(thread) })
    }

    /// Watches this memory from now on, and returns whether it may be written to. `None`: the kernel does not
    /// report all that can happen to the memory, for example memory of other processes or of files, or
    /// another descriptor watches it.
    pub(super) fn watch(&self, range: &Range<u64>) -> Option<bool> {
        let areas = self.areas.lock().unwrap_or_else(PoisonError::into_inner).of(range).ok()??;
        if !areas.iter().all(|area| area.is_private) {
            return None;
        }
        // Register whole areas: the kernel would split them otherwise, and mremap(2) does not move split
        // areas.
        let whole = areas.first()?.range.start..areas.last()?.range.end;
        let mut register = [whole.start, whole.end - whole.start, MODE_WRITE_PROTECT, 0];
        // SAFETY: the structure is that of the call; memory is only marked.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), UFFDIO_REGISTER, register.as_mut_ptr()) }).ok()?;
        self.changes.note_watched(&whole);
        Some(areas.iter().all(|area| area.is_writable))
    }

    /// Returns the number that the next change will have.
    pub(super) fn next(&self) -> u64 {
        self.changes.written.load(Ordering::Acquire)
    }

    /// Tells of the changes from number `from` on, and returns the number of the next one.
    pub(super) fn since(&self, from: u64, tell: impl FnMut(Changed)) -> u64 {
        self.changes.since(from, tell)
    }

    /// Returns whether each change of watched memory that is over, or that a thread could have noticed, is
    /// written down. If not, it will be soon.
    pub(super) fn is_settled(&self) -> bool {
        // The order matters: an event that has been read was read in a turn that had begun.
        !self.is_changing() && self.changes.turn.load(Ordering::SeqCst).is_multiple_of(2)
    }

    /// Returns whether a change is under way whose event has not been read.
    fn is_changing(&self) -> bool {
        // No page becomes protected: the range is empty. The kernel looks at the range only when no change is
        // under way.
        let mut protect = [0_u64; 3];
        // SAFETY: the structure is that of the call.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), UFFDIO_WRITEPROTECT, protect.as_mut_ptr()) };
        result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL)
    }

    /// Ends the watching of all memory. A process that shares the descriptor, as a child of a bare clone(2),
    /// keeps it open, but would not read it.
    fn forget_all(&self) {
        let watched = self.changes.lowest.load(Ordering::Relaxed)..self.changes.highest.load(Ordering::Relaxed);
        let all = self.areas.lock().unwrap_or_else(PoisonError::into_inner).all().unwrap_or_default();
        for area in all.iter().filter(|area| area.is_private) {
            let range = area.range.start.max(watched.start)..area.range.end.min(watched.end);
            if range.start < range.end {
                let mut unregister = [range.start, range.end - range.start];
                // SAFETY: as in `watch`. Memory that is not watched stays as it is.
                unsafe { libc::ioctl(self.fd.as_raw_fd(), UFFDIO_UNREGISTER, unregister.as_mut_ptr()) };
            }
        }
        let begun = Instant::now();
        while self.is_changing() && begun.elapsed() < LAST_CHANGES {
            std::thread::yield_now();
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.forget_all();
        let one = 1_u64;
        // SAFETY: eight bytes of ours.
        unsafe { libc::write(self.quit.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
        if let Some(thread) = self.thread.take() {
            // The thread does not panic, and if it did there would be nothing to do.
            let _ = thread.join();
        }
    }
}

/// Opens the descriptor. The error says what stands in the way, and what to do about it.
fn open(features: u64) -> Result<OwnedFd, String> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    let call = |flags: libc::c_int| {
        // SAFETY: no memory is involved.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) } as RawFd;
        // SAFETY: a descriptor that the call made is new and ours.
        check(fd).map(|()| unsafe { OwnedFd::from_raw_fd(fd) })
    };
    // Kernels before 5.11 do not know the flag, with which no privilege is needed.
    let opened = call(flags | UFFD_USER_MODE_ONLY).or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => call(flags),
        _ => Err(error),
    });
    let fd = opened.map_err(|error| format!("userfaultfd: {error}{}", cure(error.raw_os_error())))?;
    let mut api = [API, features, 0];
    // SAFETY: the structure is that of the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_API, api.as_mut_ptr()) }).map_err(|error| {
        format!("this kernel does not tell what happens to memory (UFFDIO_API: {error}); Linux 5.7 and later do")
    })?;
    Ok(fd)
}

/// Returns what to do when there is no descriptor, as a part of a sentence.
fn cure(code: Option<i32>) -> &'static str {
    match code {
        Some(libc::EPERM) => {
            "; a filter of system calls as those of containers (`--cap-add SYS_PTRACE`, or a profile that allows userfaultfd), or before Linux 5.11 \
             vm.unprivileged_userfaultfd (`sysctl -w vm.unprivileged_userfaultfd=1`), keeps it away"
        }
        Some(libc::ENOSYS) => "; this kernel was built without CONFIG_USERFAULTFD",
        Some(libc::EMFILE | libc::ENFILE) => "; more files may be opened with `ulimit -n`",
        _ => "",
    }
}

/// Reads events until it is told to quit. It uses no lock, and no memory but the stack.
fn read_events(fd: RawFd, quit: RawFd, changes: &Changes) {
    let mut events = [Event::default(); EVENTS];
    let mut wakes = [fd, quit].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    loop {
        // This thread gets no signals. An error here would be a defect of this library, and is no reason to
        // leave callers waiting.
        let _ = sys::ppoll(&mut wakes, None);
        changes.turn.fetch_add(1, Ordering::SeqCst);
        loop {
            // SAFETY: the events are ours, and of plain numbers.
            let read = unsafe { libc::read(fd, events.as_mut_ptr().cast(), size_of_val(&events)) };
            let count = usize::try_from(read).unwrap_or(0) / size_of::<Event>();
            if count == 0 {
                break;
            }
            events[..count].iter().for_each(|event| note(event, changes));
        }
        changes.turn.fetch_add(1, Ordering::SeqCst);
        if wakes[1].revents != 0 {
            return;
        }
    }
}

fn note(event: &Event, changes: &Changes) {
    let [first, second, third] = event.words;
    match event.kind {
        EVENT_UNMAP | EVENT_REMOVE => changes.write(&(first..second)),
        EVENT_REMAP => {
            // Memory that moves stays watched.
            changes.note_watched(&(second..second.saturating_add(third)));
            changes.write(&(first..first.saturating_add(third)));
        }
        // No page is protected, and forks are not asked for.
        _ => {}
    }
}

#[cfg(test)]
#[path = "monitor_tests.rs"]
mod tests;
