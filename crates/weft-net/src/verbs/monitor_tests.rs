//! The monitor over the kernel's own userfaultfd: the report of each change, and the memory that is not
//! watched.

use std::ptr;
use std::sync::mpsc::channel;

use super::*;

const LIMIT: Duration = Duration::from_secs(20);
const PAGES: u64 = 64;

fn page() -> u64 {
    // SAFETY: no memory is involved.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// The origin of a test's memory.
#[derive(Clone, Copy)]
enum Kind {
    Private,
    ReadOnly,
    Shared,
    /// A file in memory, shared or of this process alone.
    Segment(libc::c_int),
    File,
    Huge,
}

/// Memory between two pages that cannot be accessed, so that the kernel does not join it with its neighbours
/// into an area. The memory is not given back: another test may have mapped memory where a test leaves a
/// hole.
struct Memory {
    inner: Range<u64>,
}

impl Memory {
    fn new(pages: u64) -> Self {
        let length = (pages + 2) * page();
        let outer = map(0, length, libc::PROT_NONE, Kind::Private).expect("memory");
        let inner = outer + page()..outer + length - page();
        map(inner.start, pages * page(), libc::PROT_READ | libc::PROT_WRITE, Kind::Private).expect("memory");
        Self { inner }
    }

    /// Returns a part of the memory, in pages.
    fn part(&self, pages: Range<u64>) -> Range<u64> {
        self.inner.start + pages.start * page()..self.inner.start + pages.end * page()
    }
}

/// Maps memory, at this address if it is not 0; `None`: the machine has no such memory.
fn map(at: u64, length: u64, rights: libc::c_int, kind: Kind) -> Option<u64> {
    let file = match kind {
        Kind::Segment(_) => {
            // SAFETY: the name ends with a zero.
            let fd = unsafe { libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC) };
            // SAFETY: the descriptor is new and ours.
            Some(unsafe { OwnedFd::from_raw_fd(fd) })
        }
        Kind::File => Some(std::fs::File::open("/proc/self/exe").expect("this program").into()),
        _ => None,
    };
    if let (Kind::Segment(_), Some(file)) = (kind, &file) {
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::ftruncate(file.as_raw_fd(), length as i64) }, 0);
    }
    let flags = match kind {
        Kind::Private | Kind::ReadOnly => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        Kind::Shared => libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        Kind::Segment(flags) => flags,
        Kind::File => libc::MAP_PRIVATE,
        Kind::Huge => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB,
    };
    let rights = if matches!(kind, Kind::ReadOnly) { libc::PROT_READ } else { rights };
    let flags = if at == 0 { flags } else { flags | libc::MAP_FIXED };
    let fd = file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: a place that the kernel chooses, or one within memory of these tests.
    let mapped = unsafe { libc::mmap(at as *mut _, length as usize, rights, flags, fd, 0) };
    (mapped != libc::MAP_FAILED).then_some(mapped as u64)
}

fn unmap(range: &Range<u64>) {
    // SAFETY: memory of these tests, to which nothing refers.
    assert_eq!(unsafe { libc::munmap(range.start as *mut _, (range.end - range.start) as usize) }, 0);
}

fn advise(range: &Range<u64>, advice: libc::c_int) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::madvise(range.start as *mut _, (range.end - range.start) as usize, advice) }, 0);
}

fn moved(range: &Range<u64>, length: u64, flags: libc::c_int) -> u64 {
    let (from, old) = (range.start as *mut _, (range.end - range.start) as usize);
    // SAFETY: as above.
    let to = unsafe { libc::mremap(from, old, length as usize, flags) };
    assert_ne!(to, libc::MAP_FAILED, "{}", io::Error::last_os_error());
    to as u64
}

/// Waits until all changes are written down.
fn settle(monitor: &Monitor) {
    let begun = Instant::now();
    while !monitor.is_settled() {
        assert!(begun.elapsed() < LIMIT, "changes are never written down");
        std::thread::yield_now();
    }
}

/// Returns the changes of some memory, once all changes are written down.
fn changed(monitor: &Monitor, from: u64, memory: &Range<u64>) -> Vec<Range<u64>> {
    settle(monitor);
    let mut all = Vec::new();
    monitor.since(from, |changed| match changed {
        Changed::Range(range) if range.start < memory.end && memory.start < range.end => all.push(range),
        Changed::Range(_) => {}
        Changed::Everything => all.push(memory.clone()),
    });
    all
}

#[test]
fn each_way_to_lose_memory_is_told_of_before_the_call_returns() {
    let monitor = Monitor::of_process().expect("userfaultfd");
    type Change = fn(&Memory);
    // Each change, with the pages that are reported.
    let changes: [(&str, Range<u64>, Change); 8] = [
        ("munmap", 0..PAGES, |memory| unmap(&memory.inner)),
        ("munmap of a part", 5..6, |memory| unmap(&memory.part(5..6))),
        ("MADV_DONTNEED", 3..9, |memory| advise(&memory.part(3..9), libc::MADV_DONTNEED)),
        ("MADV_FREE", 3..9, |memory| advise(&memory.part(3..9), libc::MADV_FREE)),
        ("another mapping there", 7..8, |memory| {
            let part = memory.part(7..8);
            map(part.start, page(), libc::PROT_READ, Kind::Private).expect("memory");
        }),
        ("mremap to less", 32..PAGES, |memory| {
            moved(&memory.inner, 32 * page(), 0);
        }),
        ("mremap elsewhere", 0..PAGES, |memory| {
            let longer = 2 * PAGES * page();
            let to = moved(&memory.inner, longer, libc::MREMAP_MAYMOVE);
            assert_ne!(to, memory.inner.start);
            unmap(&(to..to + longer));
        }),
        ("mremap that leaves the mapping", 0..PAGES, |memory| {
            let to = moved(&memory.inner, PAGES * page(), libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP);
            unmap(&(to..to + PAGES * page()));
        }),
    ];
    for (what, told, change) in changes {
        let memory = Memory::new(PAGES);
        assert_eq!(monitor.watch(&memory.inner), Some(true), "{what}");
        settle(&monitor);
        let from = monitor.next();
        change(&memory);
        let told = memory.part(told);
        let all = changed(&monitor, from, &memory.inner);
        assert!(all.iter().any(|one| one.start <= told.start && told.end <= one.end), "{what}: {all:x?} of {told:x?}");
        assert!(all.iter().all(|one| told.start <= one.start && one.end <= told.end), "{what}: {all:x?} of {told:x?}");
    }
}

#[test]
fn memory_that_is_freed_is_told_of() {
    let monitor = Monitor::of_process().expect("userfaultfd");
    // More bytes than any allocator keeps: they are mapped for this call alone.
    let length = 64 << 20;
    // SAFETY: freed once, and not accessed afterwards.
    let memory = unsafe { libc::malloc(length) };
    assert!(!memory.is_null());
    let range = memory as u64..memory as u64 + length as u64;
    assert_eq!(monitor.watch(&range), Some(true));
    settle(&monitor);
    let from = monitor.next();
    // SAFETY: as above.
    unsafe { libc::free(memory) };
    let all = changed(&monitor, from, &range);
    assert!(all.iter().any(|one| one.start <= range.start && range.end <= one.end), "{all:x?}");
}

/// Another thread may get the address before the thread that unmapped it has returned.   Expect: the list of
/// changes does not count as complete then.
#[test]
fn a_change_whose_event_was_not_read_yet_is_noticed() {
    let fd = Arc::new(open(FEATURES).expect("userfaultfd"));
    let (changes, areas) = (Arc::new(Changes::new()), Mutex::new(Areas::new().expect("/proc")));
    // No thread reads the events of this monitor.
    let monitor = Monitor { quit: Arc::clone(&fd), fd, changes, areas, thread: None };
    let memory = Memory::new(1);
    let inner = memory.inner.clone();
    assert_eq!(monitor.watch(&inner), Some(true));
    assert!(monitor.is_settled());
    let (unmapped, done) = channel();
    let theirs = inner.clone();
    std::thread::spawn(move || {
        unmap(&theirs);
        unmapped.send(()).expect("somebody waits");
    });
    let begun = Instant::now();
    let mut areas = Areas::new().expect("/proc");
    while areas.of(&inner).expect("/proc").is_some() {
        assert!(begun.elapsed() < LIMIT);
        std::thread::yield_now();
    }
    assert!(!monitor.is_settled(), "it is not mapped any more, and nothing is written down");
    let mut event = Event::default();
    while event.kind == 0 {
        // SAFETY: the event is ours.
        unsafe { libc::read(monitor.fd.as_raw_fd(), (&raw mut event).cast(), size_of::<Event>()) };
        assert!(begun.elapsed() < LIMIT);
    }
    assert_eq!((event.kind, event.words[0], event.words[1]), (EVENT_UNMAP, inner.start, inner.end));
    done.recv_timeout(LIMIT).expect("the call returns");
    assert!(monitor.is_settled());
}

#[test]
fn what_the_kernel_does_not_tell_everything_of_is_not_watched() {
    let monitor = Monitor::of_process().expect("userfaultfd");
    let length = PAGES * page();
    let kinds = [
        ("shared memory", Kind::Shared),
        ("a segment", Kind::Segment(libc::MAP_SHARED)),
        ("a copy of a segment", Kind::Segment(libc::MAP_PRIVATE)),
        ("a copy of a file", Kind::File),
    ];
    for (what, kind) in kinds {
        let at = map(0, length, libc::PROT_READ, kind).expect("memory");
        assert_eq!(monitor.watch(&(at..at + length)), None, "{what}");
        unmap(&(at..at + length));
    }
    // Few machines have huge pages reserved; the tests of areas have the kernel's words about them.
    let huge = 2 << 20;
    if let Some(at) = map(0, huge, libc::PROT_READ, Kind::Huge) {
        assert_eq!(monitor.watch(&(at..at + huge)), None, "huge pages");
        unmap(&(at..at + huge));
    }
    let memory = Memory::new(PAGES);
    let part = memory.part(10..11);
    map(part.start, page(), libc::PROT_READ, Kind::Shared).expect("memory");
    assert_eq!(monitor.watch(&memory.inner), None, "a part of it is shared");
    assert_eq!(monitor.watch(&memory.part(0..10)), Some(true));
    assert_eq!(monitor.watch(&(u64::MAX - 4096..u64::MAX)), None);
    let constant = map(0, length, 0, Kind::ReadOnly).expect("memory");
    assert_eq!(monitor.watch(&(constant..constant + length)), Some(false));
    unmap(&(constant..constant + length));
}

/// Memory that is watched in part cannot be moved: the kernel would have made several areas of it.
#[test]
fn memory_of_which_a_part_was_watched_is_still_one_area() {
    let monitor = Monitor::of_process().expect("userfaultfd");
    let memory = Memory::new(PAGES);
    assert_eq!(monitor.watch(&memory.part(3..5)), Some(true));
    let mut areas = Areas::new().expect("/proc");
    let found = areas.of(&memory.inner).expect("/proc").expect("it is mapped");
    assert_eq!((found.len(), &found[0].range), (1, &memory.inner));
    let longer = 4 * PAGES * page();
    let to = moved(&memory.inner, longer, libc::MREMAP_MAYMOVE);
    unmap(&(to..to + longer));
}

#[test]
fn who_has_not_looked_for_long_takes_everything_to_have_changed() {
    let changes = Changes::new();
    let all = |from: u64| {
        let mut all = Vec::new();
        let next = changes.since(from, |changed| all.push(changed));
        (all, next)
    };
    assert_eq!(all(0), (vec![], 0));
    changes.write(&(1..2));
    changes.write(&(5..9));
    assert_eq!(all(0), (vec![Changed::Range(1..2), Changed::Range(5..9)], 2));
    assert_eq!(all(1).0, [Changed::Range(5..9)]);
    (0..CHANGES_MAX as u64 - 1).for_each(|number| changes.write(&(number..number + 1)));
    assert_eq!(all(0).0, [Changed::Everything]);
    let (kept, next) = all(1);
    assert_eq!((kept.len(), &kept[0], next), (CHANGES_MAX, &Changed::Range(5..9), CHANGES_MAX as u64 + 1));
    // A change that is being written takes the place of another.
    changes.begun.fetch_add(1, Ordering::Relaxed);
    assert!(all(1).0.contains(&Changed::Everything));
}

/// A child does not read events, and no other process would for it. The descriptor is still open there when
/// the parent has given its monitor up.
#[test]
fn a_child_does_what_it_likes_and_keeps_nobody_waiting() {
    let monitor = Monitor::new(FEATURES).expect("userfaultfd");
    let memory = Memory::new(PAGES);
    assert_eq!(monitor.watch(&memory.inner), Some(true));
    let inner = memory.inner.clone();
    // SAFETY: the child makes system calls only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above: its own copy of the memory.
        unsafe {
            let length = (inner.end - inner.start) as usize;
            (inner.start as *mut u8).write_volatile(1);
            let failed = libc::madvise(inner.start as *mut _, length, libc::MADV_DONTNEED) != 0
                || libc::munmap(inner.start as *mut _, length) != 0;
            if failed {
                libc::_exit(1);
            }
            libc::raise(libc::SIGSTOP);
            libc::_exit(0)
        }
    }
    assert!(child > 0);
    let mut status = 0;
    // SAFETY: a child of ours, and a place of ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, libc::WUNTRACED) }, child);
    assert!(libc::WIFSTOPPED(status), "the child came through its calls: {status:x}");
    drop(monitor);
    let (unmapped, done) = channel();
    std::thread::spawn(move || {
        advise(&inner, libc::MADV_DONTNEED);
        unmap(&inner);
        unmapped.send(()).expect("somebody waits");
    });
    let returned = done.recv_timeout(LIMIT);
    // SAFETY: as above.
    unsafe {
        libc::kill(child, libc::SIGCONT);
        libc::waitpid(child, &raw mut status, 0);
    }
    assert!(returned.is_ok(), "nobody reads events, and somebody waits for that");
    assert_eq!(status, 0);
}

#[test]
fn a_kernel_that_does_not_tell_is_a_sentence_with_what_to_do() {
    let unknown = Monitor::new(FEATURES | 1 << 60).map(|_| ()).expect_err("a feature of the future");
    assert!(unknown.contains("UFFDIO_API") && unknown.contains("Linux 5.7"), "{unknown}");
    let refused = |error: libc::c_int| {
        // A filter applies to a thread and to the threads that it starts.
        std::thread::spawn(move || {
            refuse_userfaultfd(error);
            Monitor::new(FEATURES).map(|_| ()).expect_err("the call is refused")
        })
        .join()
        .expect("the thread")
    };
    let says = refused(libc::EPERM);
    assert!(says.contains("--cap-add SYS_PTRACE") && says.contains("vm.unprivileged_userfaultfd"), "{says}");
    let says = refused(libc::ENOSYS);
    assert!(says.contains("CONFIG_USERFAULTFD"), "{says}");
    let says = refused(libc::EMFILE);
    assert!(says.contains("`ulimit -n`"), "{says}");
}

/// Makes the call fail with this error in this thread, as in a container.
fn refuse_userfaultfd(error: libc::c_int) {
    let statement = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        // The number of the call.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_userfaultfd as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the filter lives while the call copies it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER as libc::c_ulong;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, ptr::from_ref(&filter)), 0);
    }
}
