//! Memory of windows (MPI-5.0 §12): the program's own, or memory that processes of the node share.
//!
//! Accumulates are atomic for each element (MPI-5.0 §12.7.1). Memory that only this process touches needs no
//! lock, since one thread at a time has the engine. In memory that several processes map, each of them
//! computes for itself, with the [lock](super::window_lock) of the part that it changes. Either way no other
//! thread or process changes an element meanwhile, and whole runs are computed where they lie.

use std::sync::atomic::AtomicU32;

use weft_core::bytes;
use weft_core::layout::{Element, Layout};
use weft_core::reduce::{self, Op};

use super::window_lock::{Held, Holder};
use super::{SharedBuffer, UserData};

/// The bytes that are computed at once: others need not wait longer for the lock than that takes, and a copy
/// of the bytes stays in a processor's first-level cache.
pub(super) const CHUNK_BYTES: usize = 8 << 10;

/// The lock of memory that other processes have mapped as well.
#[derive(Clone, Copy)]
pub(super) struct Lock {
    pub(super) word: &'static AtomicU32,
    pub(super) holder: &'static Holder,
}

impl Lock {
    #[inline]
    pub(super) fn take(self) -> Held<'static, AtomicU32> {
        Held::take(self.word, self.holder)
    }
}

/// A window's memory, or a part of it, in the address space of this process.
#[derive(Clone, Copy)]
pub struct Exposed {
    base: *mut u8,
    bytes: u64,
    /// The lock; set where other processes map the memory.
    lock: Option<Lock>,
    /// Set for a [`SharedBuffer`], which checks each access.
    is_checked: bool,
}

// SAFETY: the caller of `new` promised that it may be used from any thread that has the engine.
unsafe impl Send for Exposed {}

impl Exposed {
    /// Makes exposed memory of no bytes.
    pub const fn empty() -> Self {
        Self { base: std::ptr::null_mut(), bytes: 0, lock: None, is_checked: false }
    }

    /// Exposes `bytes` bytes at address `base`, which only this process writes to by operations.
    ///
    /// # Safety
    /// The bytes stay valid for reading and writing as long as a window has this value, and may be written
    /// whenever a process of the window does so (MPI-5.0 §12.7): the program that makes the window promises
    /// both.
    pub unsafe fn new(base: *mut u8, bytes: u64) -> Self {
        Self { base, bytes, lock: None, is_checked: false }
    }

    /// Exposes memory that other processes have mapped as well; all of them give the same word as lock.
    /// `holder` is this process.
    ///
    /// # Safety
    /// As for [`Exposed::new`], and likewise for the word at `lock`, which is aligned and used for nothing
    /// else.
    pub unsafe fn shared(base: *mut u8, bytes: u64, lock: *mut u32, holder: &'static Holder) -> Self {
        // SAFETY: the caller's promise; an atomic is as large as its integer.
        let lock = Lock { word: unsafe { AtomicU32::from_ptr(lock) }, holder };
        Self { base, bytes, lock: Some(lock), is_checked: false }
    }

    /// Exposes all of `buffer`. Other engines of this process may have the same memory, as processes of a
    /// node do that map it.
    pub fn of_buffer(buffer: &SharedBuffer) -> Self {
        let base = std::ptr::without_provenance_mut(buffer.base());
        Self { base, bytes: buffer.len() as u64, lock: None, is_checked: true }
    }

    /// Returns whether other processes have mapped the memory as well.
    pub fn is_shared(&self) -> bool {
        self.lock.is_some()
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(super) fn lock(&self) -> Option<Lock> {
        self.lock
    }

    /// The address of the memory.
    pub fn address(&self) -> u64 {
        self.base.addr() as u64
    }

    /// The length of the memory in bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Returns whether the memory has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Joins this memory and `next`, if `next` begins where this one ends, and no other process computes in
    /// either.
    pub fn joined(&self, next: &Self) -> Option<Self> {
        let adjacent = self.address().checked_add(self.bytes)? == next.address();
        let plain = self.lock.is_none() && next.lock.is_none();
        (adjacent && plain && !self.is_checked && !next.is_checked)
            .then_some(Self { bytes: self.bytes + next.bytes, ..*self })
    }

    /// Returns whether none of these bytes are in the memory.
    pub fn is_apart(&self, bytes: &[u8]) -> bool {
        let begin = bytes.as_ptr().addr() as u64;
        begin >= self.address() + self.bytes || begin + bytes.len() as u64 <= self.address()
    }

    /// Describes `count` items of `layout`, the first based `offset` bytes from the beginning; `None`: they
    /// do not lie inside.
    pub fn items(&self, offset: u64, count: u64, layout: &Layout) -> Option<UserData> {
        let touched = layout.touched(count);
        let low = i64::try_from(offset).ok()?.checked_add(touched.start)?;
        let high = i64::try_from(offset).ok()?.checked_add(touched.end)?;
        let inside = touched.is_empty() || 0 <= low && u64::try_from(high).ok()? <= self.bytes;
        if !inside {
            return None;
        }
        if self.is_checked {
            layout.packed_size(count).ok()?;
            return Some(UserData::shared(self.address().wrapping_add(offset) as usize, count, layout));
        }
        // SAFETY: `new` was promised this memory, and all that the items touch lies in it.
        unsafe { UserData::new(self.base.wrapping_add(offset as usize), count, layout) }.ok()
    }

    /// Describes `length` bytes from `offset` on; `None`: they do not lie inside.
    #[inline]
    pub fn bytes(&self, offset: u64, length: u64) -> Option<UserData> {
        if offset.checked_add(length)? > self.bytes {
            return None;
        }
        if self.is_checked {
            return Some(UserData::shared_bytes(self.address().wrapping_add(offset) as usize, length));
        }
        // SAFETY: `new` was promised this memory.
        Some(unsafe { UserData::from_bytes(self.base.wrapping_add(offset as usize), length) })
    }

    /// Combines packed elements `input` with those of `target`, which lies in this memory, from its packed
    /// byte `skip` on. Their old values are written to `previous`, if it is wanted. With [`Op::NoOp`] there
    /// may be no input: `length` says how many bytes are meant.
    ///
    /// # Panics
    /// When `length` is no whole number of elements, or reaches past the end of `target`.
    pub fn accumulate(
        &self,
        target: &UserData,
        skip: u64,
        (op, element): (Op, Element),
        input: &[u8],
        length: usize,
        mut previous: Option<&mut [u8]>,
    ) {
        let size = element.size();
        assert!(length.is_multiple_of(size) && (op == Op::NoOp || input.len() == length));
        assert!(previous.as_ref().is_none_or(|previous| previous.len() == length));
        let step = CHUNK_BYTES / size * size;
        for begin in (0..length).step_by(step) {
            let length = (length - begin).min(step);
            let at = skip + begin as u64;
            let input = if op == Op::NoOp { input } else { &input[begin..begin + length] };
            let mut previous = previous.as_deref_mut().map(|previous| &mut previous[begin..begin + length]);
            let _held = self.lock.map(Lock::take);
            if let Some(previous) = &mut previous {
                target.read(at, previous);
            }
            match target.program_run(&(at..at + length as u64)) {
                _ if op == Op::NoOp => {}
                // SAFETY: the run lies in memory that `new` was promised, apart from the input. Nothing else
                // combines elements there meanwhile.
                Some(at) if are_apart(input.as_ptr(), at, length) => unsafe {
                    combine((op, element), input, at);
                },
                _ => combine_items(target, at, (op, element), input),
            }
        }
    }

    /// Replaces the element at `offset` by `value` if it is equal to `compare`; its old value is appended to
    /// `previous`. Returns false, and does nothing, if it does not lie inside.
    ///
    /// # Panics
    /// When the values are no elements.
    pub fn compare_and_swap(
        &self,
        offset: u64,
        element: Element,
        compare: &[u8],
        value: &[u8],
        previous: &mut Vec<u8>,
    ) -> bool {
        let size = element.size();
        assert!(compare.len() == size && value.len() == size);
        let Some(target) = self.bytes(offset, size as u64) else { return false };
        let _held = self.lock.map(Lock::take);
        let begin = previous.len();
        bytes::resize(previous, begin + size);
        target.read(0, &mut previous[begin..]);
        if previous[begin..] == *compare {
            target.write(0, value);
        }
        true
    }
}

/// Computes `at[i] = input[i] op at[i]`, of packed elements one after the other.
///
/// # Safety
/// `at` can be read and written as far as the input is long, and is apart from it. Nothing else combines
/// elements there meanwhile; other reads and puts there are then undefined by MPI-5.0 §12.7.
#[inline]
pub(super) unsafe fn combine((op, element): (Op, Element), input: &[u8], at: *mut u8) {
    // SAFETY: the caller's promise.
    let target = unsafe { std::slice::from_raw_parts_mut(at, input.len()) };
    reduce::apply_packed(op, element, input, target);
}

/// Returns whether two buffers of `length` bytes have no byte in common.
#[inline]
pub(super) fn are_apart(one: *const u8, other: *const u8, length: usize) -> bool {
    one.addr().abs_diff(other.addr()) >= length
}

/// Combines elements that do not lie one after the other.
#[inline(never)]
fn combine_items(target: &UserData, at: u64, (op, element): (Op, Element), input: &[u8]) {
    let mut chunk = [0_u8; CHUNK_BYTES];
    let piece = &mut chunk[..input.len()];
    target.read(at, piece);
    reduce::apply_packed(op, element, input, piece);
    target.write(at, piece);
}

#[cfg(test)]
mod tests {
    use super::super::MappedMemory;
    use super::*;

    static OWN: Holder = Holder { id: 1, exists: |_| true };
    static OWNERS: [Holder; 3] = {
        const fn living(id: u32) -> Holder {
            Holder { id, exists: |_| true }
        }
        [living(1), living(2), living(3)]
    };

    /// The same accumulates on memory of this process, and on memory that others share: each element and
    /// operation, at aligned and other addresses.   Expect: the same results, and the same as the arithmetic
    /// by itself.
    #[test]
    fn shared_and_private_memory_compute_alike() {
        let mut lock = 0_u32;
        for element in Element::ALL {
            for op in Op::ALL.into_iter().filter(|op| reduce::supports(*op, element)) {
                for shift in [0, 1] {
                    let size = element.size();
                    let length = size * 3;
                    let input: Vec<u8> = (0..length).map(|i| (i % 3) as u8).collect();
                    let begin: Vec<u8> = (0..length + 32).map(|i| (i % 2) as u8).collect();
                    let run = |is_shared: bool, lock: *mut u32| {
                        let mut memory = vec![0_u64; begin.len().div_ceil(8)];
                        let base: *mut u8 = memory.as_mut_ptr().cast();
                        // SAFETY: the vector is as long, and outlives all uses.
                        unsafe {
                            std::ptr::copy_nonoverlapping(begin.as_ptr(), base, begin.len());
                            let exposed = if is_shared {
                                Exposed::shared(base, begin.len() as u64, lock, &OWN)
                            } else {
                                Exposed::new(base, begin.len() as u64)
                            };
                            let target = exposed.bytes(shift, length as u64).unwrap();
                            let mut previous = vec![0; length];
                            exposed.accumulate(&target, 0, (op, element), &input, length, Some(&mut previous));
                            assert_eq!(previous, begin[shift as usize..][..length]);
                            let mut after = vec![0; length];
                            target.read(0, &mut after);
                            after
                        }
                    };
                    let mut expected = begin[shift as usize..][..length].to_vec();
                    reduce::apply_packed(op, element, &input, &mut expected);
                    assert_eq!(run(false, std::ptr::null_mut()), expected, "{op:?} {element:?}");
                    assert_eq!(run(true, &raw mut lock), expected, "{op:?} {element:?} shared");
                }
            }
        }
        assert_eq!(lock, 0);
    }

    /// Threads stand for processes, and add to the same elements in every way: long runs, runs with gaps,
    /// single elements, accesses without the engine, and compare-and-swap.   Expect: no addition to an
    /// element is lost, and the lock is free.
    #[test]
    fn nothing_is_lost_when_runs_and_single_elements_meet() {
        /// The number of elements; more than are computed at once.
        const ELEMENTS: usize = 2 * CHUNK_BYTES / 2 + 3;
        const TIMES: usize = if cfg!(miri) { 2 } else { 60 };
        const SINGLE: usize = ELEMENTS - 7;
        let mut memory = vec![0_u64; (2 * ELEMENTS).div_ceil(8)];
        let mut lock = 0_u32;
        let bytes = 2 * ELEMENTS as u64;
        let base: *mut u8 = memory.as_mut_ptr().cast();
        let lock_word = &raw mut lock;
        let short = Layout::element(Element::UInt16);
        let odd = Layout::vector(ELEMENTS as u64 / 2, 1, 4, &short).unwrap();
        std::thread::scope(|scope| {
            for own in &OWNERS {
                // SAFETY: both outlive the threads.
                let exposed = unsafe { Exposed::shared(base, bytes, lock_word, own) };
                let odd = &odd;
                scope.spawn(move || {
                    let sum = (Op::Sum, Element::UInt16);
                    let ones: Vec<u8> = 1_u16.to_le_bytes().repeat(ELEMENTS);
                    let mapped = MappedMemory::default();
                    assert!(mapped.set(&exposed));
                    for _ in 0..TIMES {
                        let all = exposed.bytes(0, bytes).unwrap();
                        exposed.accumulate(&all, 0, sum, &ones, ones.len(), None);
                        let gaps = exposed.items(2, 1, odd).unwrap();
                        exposed.accumulate(&gaps, 0, sum, &ones[..gaps.len() as usize], gaps.len() as usize, None);
                        // SAFETY: the buffers are as long.
                        unsafe {
                            assert!(mapped.update(2 * SINGLE as u64, sum, 2, ones.as_ptr(), std::ptr::null_mut()));
                            assert!(mapped.update(2 * SINGLE as u64, sum, 14, ones.as_ptr(), std::ptr::null_mut()));
                        }
                        let (mut guess, mut before) = (0_u16, Vec::new());
                        loop {
                            before.clear();
                            let (old, new) = (guess.to_le_bytes(), (guess + 1).to_le_bytes());
                            let at = 2 * SINGLE as u64;
                            assert!(exposed.compare_and_swap(at, Element::UInt16, &old, &new, &mut before));
                            guess = u16::from_le_bytes([before[0], before[1]]);
                            if before == old {
                                break;
                            }
                        }
                    }
                });
            }
        });
        // SAFETY: the vector is as long.
        let found = unsafe { std::slice::from_raw_parts(memory.as_ptr().cast::<u16>(), ELEMENTS) };
        for (index, value) in found.iter().enumerate() {
            let gaps = index % 2;
            let singles = if index == SINGLE { 2 } else { 0 } + if index >= SINGLE { 1 } else { 0 };
            assert_eq!(usize::from(*value), 3 * TIMES * (1 + gaps + singles), "element {index}");
        }
        assert_eq!(lock, 0);
    }

    /// Items and bytes that begin or end outside.   Expect: they are not described.
    #[test]
    fn nothing_outside_is_described() {
        let mut memory = [0_u64; 4];
        // SAFETY: it outlives all uses.
        let exposed = unsafe { Exposed::new(memory.as_mut_ptr().cast(), 32) };
        let int = Layout::element(Element::Int32);
        let spread = Layout::vector(2, 1, 16, &int).unwrap();
        let back = Layout::indexed(&[(-8, 1)], &int).unwrap();
        assert!(exposed.items(8, 1, &spread).is_some() && exposed.items(13, 1, &spread).is_none());
        assert!(exposed.items(8, 1, &back).is_some() && exposed.items(4, 1, &back).is_none());
        assert!(exposed.items(u64::MAX, 1, &int).is_none() && exposed.bytes(u64::MAX, 2).is_none());
        assert!(exposed.bytes(32, 0).is_some() && exposed.bytes(32, 1).is_none());
        assert!(!exposed.compare_and_swap(28, Element::Int64, &[0; 8], &[0; 8], &mut Vec::new()));
    }
}
