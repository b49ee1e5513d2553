//! Tells what happens to the program's memory, so that registrations of memory that is no longer there are
//! not used again: userfaultfd(2).
//!
//! The kernel has whoever changes a mapping (munmap, mremap, brk, madvise, another mapping at the same place)
//! wait until the event has been read. So a thread reads them, and writes down what has changed. This thread
//! neither takes a lock nor allocates: whoever waits for it may be within `free`. Memory is watched in the
//! mode for writes to protected pages, of which there are none: no access of the program's waits, and a child
//! of fork(2) is not watched.
//!
//! *When what is written down is complete* ([`Monitor::is_settled`]): the kernel counts changes that are
//! under way, from before the mapping changes until the event has been read, and refuses to protect pages
//! meanwhile, which costs one call to ask. And what has been read is written down when the thread says so.
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

/// Changes that are kept: who has not looked for longer takes everything to have changed.
const CHANGES_MAX: usize = 1024;
/// Events of one read.
const EVENTS: usize = 16;
/// How long the end waits for whoever is still within a call that changes mappings.
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

/// What has changed since somebody last looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// What is mapped there is not what was.
    Range(Range<u64>),
    /// Nobody knows what: too much to be kept.
    Everything,
}

/// What the thread writes down: the last changes, in a circle. One writes, many read; a reader notices when
/// what it reads is overwritten.
struct Changes {
    /// Odd while the thread may have read something that is not written down yet.
    turn: AtomicU64,
    /// Changes that are being written or have been, and those that have been.
    begun: AtomicU64,
    written: AtomicU64,
    ranges: [[AtomicU64; 2]; CHANGES_MAX],
    /// All that was watched lies between these.
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

    /// Only the thread that reads events calls this.
    fn write(&self, range: &Range<u64>) {
        let number = self.written.load(Ordering::Relaxed);
        self.begun.store(number + 1, Ordering::Relaxed);
        // Who sees something of the new range sees that it was begun.
        fence(Ordering::Release);
        let [start, end] = &self.ranges[number as usize % CHANGES_MAX];
        start.store(range.start, Ordering::Relaxed);
        end.store(range.end, Ordering::Relaxed);
        self.written.store(number + 1, Ordering::Release);
    }

    /// Tells of the changes from this one on; the number of the next one.
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
    /// The one of this process, which lives as long as somebody has it.
    ///
    /// # Errors
    /// The kernel has no such thing for this process: a part of a sentence, with what to do.
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
        // Nothing may be watched before the thread is where it allocates no more.
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

    /// From now on changes of this memory are told; whether it may be written to. `None`: the kernel does not
    /// tell all that can happen to it, as that of other processes or of files, or somebody else watches it.
    pub(super) fn watch(&self, range: &Range<u64>) -> Option<bool> {
        let areas = self.areas.lock().unwrap_or_else(PoisonError::into_inner).of(range).ok()??;
        if !areas.iter().all(|area| area.is_private) {
            return None;
        }
        // Whole areas: the kernel would split them otherwise, and mremap(2) does not move what is split.
        let whole = areas.first()?.range.start..areas.last()?.range.end;
        let mut register = [whole.start, whole.end - whole.start, MODE_WRITE_PROTECT, 0];
        // SAFETY: the structure is that of the call; memory is only marked.
        check(unsafe { libc::ioctl(self.fd.as_raw_fd(), UFFDIO_REGISTER, register.as_mut_ptr()) }).ok()?;
        self.changes.note_watched(&whole);
        Some(areas.iter().all(|area| area.is_writable))
    }

    /// The number that the next change will have.
    pub(super) fn next(&self) -> u64 {
        self.changes.written.load(Ordering::Acquire)
    }

    /// Tells of the changes from this one on; the number of the next one.
    pub(super) fn since(&self, from: u64, tell: impl FnMut(Changed)) -> u64 {
        self.changes.since(from, tell)
    }

    /// Whether each change of watched memory that is over, or that somebody could have noticed, is written
    /// down. If not it will be soon.
    pub(super) fn is_settled(&self) -> bool {
        // In this order: what has been read was read in a turn that had begun.
        !self.is_changing() && self.changes.turn.load(Ordering::SeqCst).is_multiple_of(2)
    }

    /// A change is under way whose event has not been read.
    fn is_changing(&self) -> bool {
        // Nothing is protected: the range is empty, which the kernel looks at only when nothing changes.
        let mut protect = [0_u64; 3];
        // SAFETY: the structure is that of the call.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), UFFDIO_WRITEPROTECT, protect.as_mut_ptr()) };
        result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EINVAL)
    }

    /// Nothing is watched any more: a process that shares the descriptor, as a child of a bare clone(2),
    /// keeps it open, but nobody would read it.
    fn forget_all(&self) {
        let watched = self.changes.lowest.load(Ordering::Relaxed)..self.changes.highest.load(Ordering::Relaxed);
        let all = self.areas.lock().unwrap_or_else(PoisonError::into_inner).all().unwrap_or_default();
        for area in all.iter().filter(|area| area.is_private) {
            let range = area.range.start.max(watched.start)..area.range.end.min(watched.end);
            if range.start < range.end {
                let mut unregister = [range.start, range.end - range.start];
                // SAFETY: as in `watch`. What is not watched stays as it is.
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
            // It does not panic, and if it did there would be nothing to do.
            let _ = thread.join();
        }
    }
}

/// The descriptor; otherwise what stands in the way, and what to do about it.
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

/// What to do when there is no descriptor, as a part of a sentence.
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

/// Reads until it is told to quit. No lock, and no memory but the stack.
fn read_events(fd: RawFd, quit: RawFd, changes: &Changes) {
    let mut events = [Event::default(); EVENTS];
    let mut wakes = [fd, quit].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    loop {
        // No signal is delivered to this thread; an error would be one of ours, and is no reason to leave
        // callers waiting.
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
            // What moves stays watched.
            changes.note_watched(&(second..second.saturating_add(third)));
            changes.write(&(first..first.saturating_add(third)));
        }
        // Nothing is protected, and forks are not asked for.
        _ => {}
    }
}

#[cfg(test)]
#[path = "monitor_tests.rs"]
mod tests;
