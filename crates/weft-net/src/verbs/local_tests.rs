//! Kept registrations, over the kernel's own userfaultfd and a device that only counts.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::*;

const LIMIT: Duration = Duration::from_secs(20);
const PAGE: u64 = 4096;

/// A device whose registrations are numbers, with a limit on the bytes that are registered at a time.
#[derive(Default)]
struct Counting {
    made: Cell<u64>,
    reused: Cell<u64>,
    open: RefCell<BTreeMap<u64, (Range<u64>, Right)>>,
    bytes_max: Option<u64>,
}

impl Counting {
    fn bytes(&self) -> u64 {
        self.open.borrow().values().map(|(range, _)| range.end - range.start).sum()
    }
}

impl Registrar for Counting {
    type Registration = u64;

    fn register(&self, memory: &Range<u64>, right: Right) -> io::Result<u64> {
        if self.bytes_max.is_some_and(|most| self.bytes() + (memory.end - memory.start) > most) {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        self.made.set(self.made.get() + 1);
        self.open.borrow_mut().insert(self.made.get(), (memory.clone(), right));
        Ok(self.made.get())
    }

    fn deregister(&self, registration: u64) {
        assert!(self.open.borrow_mut().remove(&registration).is_some(), "{registration} is closed twice");
    }

    fn note_reuse(&self) {
        self.reused.set(self.reused.get() + 1);
    }
}

fn page() -> u64 {
    // SAFETY: no memory is involved.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

fn locals(bytes: u64, registrar: Counting) -> Locals<Counting> {
    Locals::new(registrar, Some(Monitor::of_process().expect("userfaultfd")), bytes, page())
}

/// Does an operation, and returns its registration.
fn operation(locals: &mut Locals<Counting>, memory: &Range<u64>, right: Right) -> u64 {
    let (local, registration) = locals.begin(memory.clone(), right).expect("a registration");
    let (range, has) = locals.registrar().open.borrow()[&registration].clone();
    assert!(range.start <= memory.start && memory.end <= range.end, "{range:x?} of {memory:x?}");
    assert!(has == right || has == Right::Write);
    locals.end(local);
    registration
}

/// Waits while changes that are over are being written down. Tests that expect a kept registration call this.
fn settle(locals: &Locals<Counting>) {
    let begun = Instant::now();
    while locals.cache.as_ref().is_some_and(|cache| !cache.monitor.is_settled()) {
        assert!(begun.elapsed() < LIMIT);
        std::thread::yield_now();
    }
}

/// Does the same operation until its registration is kept: other tests may be changing their memory
/// meanwhile.
fn kept(locals: &mut Locals<Counting>, memory: &Range<u64>, right: Right) -> u64 {
    let begun = Instant::now();
    loop {
        let registration = operation(locals, memory, right);
        if locals.registrar().open.borrow().contains_key(&registration) {
            return registration;
        }
        assert!(begun.elapsed() < LIMIT, "nothing is kept");
    }
}

/// Maps pages, of the process alone or shared, at an address that no other test then gets.
fn map(at: u64, pages: u64, is_shared: bool) -> Range<u64> {
    let kind = if is_shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let fixed = if at == 0 { 0 } else { libc::MAP_FIXED };
    let (length, rights) = ((pages * page()) as usize, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: where the kernel likes, or in the place of memory of this test.
    let mapped = unsafe { libc::mmap(at as *mut _, length, rights, kind | fixed | libc::MAP_ANONYMOUS, -1, 0) };
    assert_ne!(mapped, libc::MAP_FAILED);
    mapped as u64..mapped as u64 + pages * page()
}

#[test]
fn a_buffer_that_is_used_again_is_registered_once() {
    let mut locals = locals(1 << 20, Counting::default());
    let all = map(0, 16, false);
    let buffer = all.start + 100..all.start + 9000;
    let first = kept(&mut locals, &buffer, Right::Read);
    settle(&locals);
    let before = locals.registrar().reused.get();
    for right in [Right::Read, Right::Write] {
        // The registration has all rights that the memory allows, so that the other kind of operation finds
        // it, too.
        assert_eq!(kept(&mut locals, &(buffer.start..buffer.end - 1000), right), first);
    }
    assert_eq!(locals.registrar().reused.get(), before + 2);
    // Memory that peers may write to is never kept.
    let open = locals.registrar().open.borrow().len();
    assert_ne!(operation(&mut locals, &buffer, Right::RemoteWrite), first);
    assert_eq!(locals.registrar().open.borrow().len(), open);
    locals.close_all();
    assert_eq!(locals.registrar().open.borrow().len(), 0);
}

/// Each page's mapping has a number, and each registration has the number of the time when it was made.
/// Expect: none is used for another mapping.
#[test]
fn no_registration_outlives_its_memory() {
    let mut locals = locals(1 << 20, Counting::default());
    const PAGES: u64 = 32;
    let all = map(0, PAGES, false);
    let part = |pages: Range<u64>| all.start + pages.start * page()..all.start + pages.end * page();
    let (mut mapped, mut made_of) = (vec![0_u64; PAGES as usize], BTreeMap::new());
    let mut random = weft_random::Random::new(1);
    let mut below = |limit: u64| random.below(limit);
    let mut held = Vec::new();
    for step in 1..=3000_u64 {
        let first = below(PAGES - 4);
        let pages = first..first + 1 + below(4);
        let range = part(pages.clone());
        let length = (range.end - range.start) as usize;
        let touched = &mut mapped[pages.start as usize..pages.end as usize];
        match below(24) {
            0 => {
                map(range.start, pages.end - pages.start, below(4) == 0);
                touched.fill(step);
            }
            1 => {
                // SAFETY: memory of this test.
                unsafe { libc::madvise(range.start as *mut _, length, libc::MADV_DONTNEED) };
                touched.fill(step);
            }
            2 => {
                let elsewhere = map(0, pages.end - pages.start, false);
                // SAFETY: as above: another mapping is moved to the place of this one.
                let moved = unsafe {
                    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                    libc::mremap(elsewhere.start as *mut _, length, length, flags, range.start as *mut libc::c_void)
                };
                assert_ne!(moved, libc::MAP_FAILED);
                touched.fill(step);
            }
            3..8 if !held.is_empty() => {
                let (local, _): (Local<u64>, u64) = held.swap_remove(below(held.len() as u64) as usize);
                locals.end(local);
            }
            _ if held.len() < 8 => {
                let right = if below(2) == 0 { Right::Read } else { Right::Write };
                let made = locals.registrar().made.get();
                let (local, registration) = locals.begin(range.clone(), right).expect("a registration");
                if registration > made {
                    made_of
                        .insert(registration, (pages.start, mapped[pages.start as usize..pages.end as usize].to_vec()));
                }
                let (start, numbers) = &made_of[&registration];
                for page in pages {
                    let (then, now) = (numbers[(page - start) as usize], mapped[page as usize]);
                    assert_eq!(then, now, "step {step}: page {page} is not the one that was registered");
                }
                held.push((local, registration));
            }
            _ => {}
        }
    }
    assert!(locals.registrar().reused.get() > 20, "{}", locals.registrar().reused.get());
    held.into_iter().for_each(|(local, _)| locals.end(local));
    locals.close_all();
    assert_eq!(locals.registrar().open.borrow().len(), 0);
}

#[test]
fn what_cannot_be_watched_or_is_large_is_for_one_operation() {
    let mut locals = locals(16 * page(), Counting::default());
    let shared = map(0, 4, true);
    for _ in 0..3 {
        operation(&mut locals, &shared, Right::Write);
    }
    let large = map(0, 9, false);
    operation(&mut locals, &large, Right::Read);
    assert_eq!((locals.registrar().made.get(), locals.registrar().reused.get(), locals.registrar().bytes()), (4, 0, 0));
    let mut without = Locals::new(Counting::default(), None, 1 << 20, PAGE);
    let small = map(0, 1, false);
    operation(&mut without, &small, Right::Read);
    operation(&mut without, &small, Right::Read);
    assert_eq!((without.registrar().made.get(), without.registrar().bytes()), (2, 0));
}

#[test]
fn what_is_kept_stays_within_its_limits_and_gives_way() {
    let most = 32 * page();
    let registrar = Counting { bytes_max: Some(20 * page()), ..Counting::default() };
    let mut locals = locals(most, registrar);
    let all = map(0, 64, false);
    for number in 0..64 {
        let start = all.start + number * page();
        operation(&mut locals, &(start..start + page()), Right::Write);
        assert!(locals.registrar().bytes() <= 20 * page());
    }
    // The device has no more bytes than that: kept registrations are closed for it, even for one that is not
    // kept.
    let (local, _) = locals.begin(all.start..all.start + 20 * page(), Right::RemoteWrite).expect("all that there is");
    assert_eq!(locals.registrar().bytes(), 20 * page());
    assert!(locals.begin(all.start..all.start + page(), Right::Read).is_err());
    locals.end(local);
    assert!(!locals.give_back());
}

#[test]
fn freed_memory_is_closed_without_another_operation_and_what_is_in_use_after_it() {
    let mut locals = locals(1 << 20, Counting::default());
    let memory = map(0, 8, false);
    let first = kept(&mut locals, &memory, Right::Read);
    let (local, again) = loop {
        settle(&locals);
        let (local, registration) = locals.begin(memory.clone(), Right::Read).expect("a registration");
        if matches!(local, Local::Kept(_)) {
            break (local, registration);
        }
        locals.end(local);
    };
    assert_eq!(first, again);
    map(memory.start, 8, false);
    settle(&locals);
    locals.close_changed();
    assert!(locals.registrar().open.borrow().contains_key(&first), "it is in use");
    locals.end(local);
    assert!(!locals.registrar().open.borrow().contains_key(&first));
}

#[test]
fn connections_find_room_in_what_may_be_locked() {
    assert_eq!(capacity(1 << 28, None), 1 << 28);
    assert_eq!(capacity(1 << 28, Some(64 << 20)), 32 << 20);
    assert_eq!((capacity(0, None), capacity(1 << 20, Some(0))), (0, 0));
}
