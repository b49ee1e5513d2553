//! Memory of windows (MPI-5.0 §12): the program's own, or memory that processes of the node share.
//!
//! Accumulates are atomic for each element (MPI-5.0 §12.7.1). What only this process touches is so because one thread at a time has the engine. In memory that
//! several processes map, each of them computes for itself: elements of 1, 2, 4 and 8 bytes by the processor's atomic operations, all others under a lock
//! that lies in that memory. Which of the two it is depends on the element and its address alone, so that all processes do the same.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use weft_core::layout::{Element, Layout};
use weft_core::reduce::{self, Op};

use super::{Shape, SharedBuffer, UserData};

/// Packed bytes that are computed at once: they stay in a processor's first-level cache.
const CHUNK_BYTES: usize = 4 << 10;
/// How often a process that waits for the lock looks before it lets others have the processor.
const LOOKS_PER_YIELD: u32 = 100;
/// Nobody holds the lock for longer than one chunk takes, so that one that has not been released after so many yields is that of a process that was killed.
const YIELDS_MAX: u32 = 1 << 20;

/// A window's memory, or a part of it, in the address space of this process.
#[derive(Clone, Copy)]
pub struct Exposed {
    base: *mut u8,
    bytes: u64,
    /// Set where other processes map it: the word that is the lock of elements without atomic operations.
    lock: Option<&'static AtomicU32>,
    /// It is a [`SharedBuffer`], which checks each access.
    is_checked: bool,
}

// SAFETY: whoever called `new` promised that it may be used from any thread that has the engine.
unsafe impl Send for Exposed {}

impl Exposed {
    /// No memory.
    pub const fn empty() -> Self {
        Self { base: std::ptr::null_mut(), bytes: 0, lock: None, is_checked: false }
    }

    /// `bytes` bytes at address `base`, which only this process writes to by operations.
    ///
    /// # Safety
    /// They stay valid for reading and writing as long as a window has this value, and may be written whenever a process of the window does so
    /// (MPI-5.0 §12.7): the program that makes the window promises both.
    pub unsafe fn new(base: *mut u8, bytes: u64) -> Self {
        Self { base, bytes, lock: None, is_checked: false }
    }

    /// The same in memory that other processes have mapped as well; all of them give a lock that is the same word.
    ///
    /// # Safety
    /// As for [`Exposed::new`], and so for the word at `lock`, which is aligned and used for nothing else.
    pub unsafe fn shared(base: *mut u8, bytes: u64, lock: *mut u32) -> Self {
        // SAFETY: the caller's promise; an atomic is as large as its integer.
        Self { base, bytes, lock: Some(unsafe { AtomicU32::from_ptr(lock) }), is_checked: false }
    }

    /// All of `buffer`. Other engines of this process may have the same memory, as processes of a node do that map it.
    pub fn of_buffer(buffer: &SharedBuffer) -> Self {
        let base = std::ptr::without_provenance_mut(buffer.base());
        Self { base, bytes: buffer.len() as u64, lock: None, is_checked: true }
    }

    /// Whether other processes have mapped it as well.
    pub fn is_shared(&self) -> bool {
        self.lock.is_some()
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.base.addr() as u64
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Both together, if `next` begins where this one ends, and no other process computes in either.
    pub fn joined(&self, next: &Self) -> Option<Self> {
        let adjacent = self.address().checked_add(self.bytes)? == next.address();
        let plain = self.lock.is_none() && next.lock.is_none();
        (adjacent && plain && !self.is_checked && !next.is_checked)
            .then_some(Self { bytes: self.bytes + next.bytes, ..*self })
    }

    /// `count` items of `layout`, the first based `offset` bytes from the beginning; `None`: they do not lie inside.
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
        // SAFETY: `new` was promised this memory, in which all that the items touch lies.
        unsafe { UserData::new(self.base.wrapping_add(offset as usize), count, layout) }.ok()
    }

    /// `length` bytes from `offset` on; `None`: they do not lie inside.
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

    /// Combines packed elements `input` with those of `target`, which lies in this memory, from its packed byte `skip` on. What these were
    /// before is written to `previous`, if it is wanted. With [`Op::NoOp`] there may be no input: `length` says how many bytes are meant.
    ///
    /// # Panics
    /// When that is no whole number of elements, or reaches past the end of `target`.
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
        let has_atomics = matches!(size, 1 | 2 | 4 | 8);
        if self.lock.is_some() && has_atomics {
            let mut at = 0;
            let mut each = |place: *mut u8| {
                let operand = if op == Op::NoOp { &[][..] } else { &input[at..at + size] };
                let before = self.update(place, (op, element), operand);
                if let Some(previous) = previous.as_deref_mut() {
                    previous[at..at + size].copy_from_slice(&before.to_le_bytes()[..size]);
                }
                at += size;
            };
            return for_each_element(target, skip..skip + length as u64, size, &mut each);
        }
        let mut chunk = [0_u8; CHUNK_BYTES];
        let step = CHUNK_BYTES / size * size;
        for begin in (0..length).step_by(step) {
            let piece = &mut chunk[..(length - begin).min(step)];
            let at = skip + begin as u64;
            let _held = self.lock.map(Held::take);
            target.read(at, piece);
            if let Some(previous) = previous.as_deref_mut() {
                previous[begin..begin + piece.len()].copy_from_slice(piece);
            }
            if op != Op::NoOp {
                reduce::apply_packed(op, element, &input[begin..begin + piece.len()], piece);
                target.write(at, piece);
            }
        }
    }

    /// Replaces the element at `offset` by `value` if it is equal to `compare`; what it was is appended to `previous`. False: it does not lie
    /// inside, and nothing has been done.
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
        let place = self.base.wrapping_add(offset as usize);
        if self.lock.is_some() && is_atomic(place, size) {
            let before = swap_if_equal(place, size, word(compare), word(value)).unwrap_or_else(|before| before);
            previous.extend_from_slice(&before.to_le_bytes()[..size]);
            return true;
        }
        let _held = self.lock.map(Held::take);
        let begin = previous.len();
        previous.resize(begin + size, 0);
        target.read(0, &mut previous[begin..]);
        if previous[begin..] == *compare {
            target.write(0, value);
        }
        true
    }

    /// One element, of which the program's processes may change any at the same time; what it was.
    fn update(&self, place: *mut u8, (op, element): (Op, Element), operand: &[u8]) -> u64 {
        let size = element.size();
        if !is_atomic(place, size) {
            let _held = self.lock.map(Held::take);
            let mut bytes = [0; 8];
            // SAFETY: the element lies in memory that `new` was promised, and is as long as that.
            unsafe { std::ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), size) };
            let before = u64::from_le_bytes(bytes);
            if op != Op::NoOp {
                reduce::apply_packed(op, element, operand, &mut bytes[..size]);
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, size) };
            }
            return before;
        }
        update_atomic(place, (op, element), operand)
    }
}

/// Combines an element for which [the processor has atomic operations](is_atomic) with `operand`; what it was.
#[inline]
pub(super) fn update_atomic(place: *mut u8, (op, element): (Op, Element), operand: &[u8]) -> u64 {
    let size = element.size();
    if op == Op::NoOp {
        return load(place, size);
    }
    if let Some(before) = add(place, (op, element), operand) {
        return before;
    }
    let mut before = load(place, size);
    loop {
        let mut bytes = before.to_le_bytes();
        reduce::apply_packed(op, element, operand, &mut bytes[..size]);
        match swap_if_equal(place, size, before, u64::from_le_bytes(bytes)) {
            Ok(before) => return before,
            Err(found) => before = found,
        }
    }
}

/// Calls `each` for the elements of `size` bytes in a range of packed bytes, which are whole runs of memory.
fn for_each_element(target: &UserData, range: Range<u64>, size: usize, each: &mut dyn FnMut(*mut u8)) {
    assert!(range.end <= target.len());
    match &target.shape {
        Shape::Run => {
            let begin = target.base.wrapping_add(range.start as usize);
            (0..(range.end - range.start) as usize).step_by(size).for_each(|at| each(begin.wrapping_add(at)));
        }
        Shape::Items { count, layout } => layout.runs(count.items(), range, &mut |offset, length| {
            let begin = target.base.wrapping_offset(offset as isize);
            (0..length).step_by(size).for_each(|at| each(begin.wrapping_add(at)));
        }),
    }
}

/// Whether the processor has atomic operations for it.
pub(super) fn is_atomic(place: *mut u8, size: usize) -> bool {
    matches!(size, 1 | 2 | 4 | 8) && place.addr().is_multiple_of(size)
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// What an aligned element holds.
fn load(place: *mut u8, size: usize) -> u64 {
    // SAFETY: callers give elements in memory that `Exposed::new` was promised, aligned to their size.
    unsafe {
        match size {
            1 => AtomicU8::from_ptr(place).load(Ordering::Acquire).into(),
            2 => AtomicU16::from_ptr(place.cast()).load(Ordering::Acquire).into(),
            4 => AtomicU32::from_ptr(place.cast()).load(Ordering::Acquire).into(),
            _ => AtomicU64::from_ptr(place.cast()).load(Ordering::Acquire),
        }
    }
}

/// What it held, when it was what was expected, and otherwise as an error.
pub(super) fn swap_if_equal(place: *mut u8, size: usize, expected: u64, value: u64) -> Result<u64, u64> {
    macro_rules! swap {
        ($atomic:ty, $integer:ty) => {{
            // SAFETY: as for `load`.
            let place = unsafe { <$atomic>::from_ptr(place.cast()) };
            let swapped =
                place.compare_exchange(expected as $integer, value as $integer, Ordering::AcqRel, Ordering::Acquire);
            swapped.map(u64::from).map_err(u64::from)
        }};
    }
    match size {
        1 => swap!(AtomicU8, u8),
        2 => swap!(AtomicU16, u16),
        4 => swap!(AtomicU32, u32),
        _ => swap!(AtomicU64, u64),
    }
}

/// Does by one instruction what is most of all that programs do to counters; what the aligned element held. `None`: it is something else.
fn add(place: *mut u8, (op, element): (Op, Element), operand: &[u8]) -> Option<u64> {
    use Element::{Int32, Int64, UInt32, UInt64};
    let value = word(operand);
    // SAFETY: as for `load`.
    unsafe {
        match (op, element) {
            (Op::Sum, Int64 | UInt64) => Some(AtomicU64::from_ptr(place.cast()).fetch_add(value, Ordering::AcqRel)),
            (Op::Sum, Int32 | UInt32) => {
                Some(AtomicU32::from_ptr(place.cast()).fetch_add(value as u32, Ordering::AcqRel).into())
            }
            (Op::Replace, _) if element.size() == 8 => {
                Some(AtomicU64::from_ptr(place.cast()).swap(value, Ordering::AcqRel))
            }
            (Op::Replace, _) if element.size() == 4 => {
                Some(AtomicU32::from_ptr(place.cast()).swap(value as u32, Ordering::AcqRel).into())
            }
            _ => None,
        }
    }
}

/// The lock of a window, taken.
struct Held(&'static AtomicU32);

impl Held {
    fn take(lock: &'static AtomicU32) -> Self {
        let (mut looks, mut yields) = (0, 0);
        while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            looks += 1;
            if looks % LOOKS_PER_YIELD != 0 {
                std::hint::spin_loop();
                continue;
            }
            yields += 1;
            if yields == YIELDS_MAX {
                // Whoever had it is dead, or has been stopped for seconds.
                break;
            }
            std::thread::yield_now();
        }
        Self(lock)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same accumulates on memory of this process, and on memory that others share: of each element and operation, at aligned and other
    /// addresses.   Expect: the same results, and the same as the arithmetic by itself.
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
                                Exposed::shared(base, begin.len() as u64, lock)
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

    /// Several threads add to the same elements: those with atomic operations, and those without.   Expect: nothing is lost.
    #[test]
    fn nothing_is_lost_when_many_add() {
        const EACH: usize = 2000;
        let mut memory = [0_u64; 4];
        let mut lock = 0_u32;
        // SAFETY: both outlive the threads.
        let exposed = unsafe { Exposed::shared(memory.as_mut_ptr().cast(), 32, &raw mut lock) };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(move || {
                    let exposed = exposed;
                    let one = 1.0_f64.to_le_bytes();
                    let complex = [one, one].concat();
                    for _ in 0..EACH {
                        let number = exposed.bytes(0, 8).unwrap();
                        exposed.accumulate(&number, 0, (Op::Sum, Element::Float64), &one, 8, None);
                        let pair = exposed.bytes(16, 16).unwrap();
                        exposed.accumulate(&pair, 0, (Op::Sum, Element::ComplexFloat64), &complex, 16, None);
                        let mut before = Vec::new();
                        loop {
                            before.clear();
                            let now = exposed.bytes(8, 8).unwrap();
                            let mut old = [0; 8];
                            now.read(0, &mut old);
                            let new = (u64::from_le_bytes(old) + 1).to_le_bytes();
                            assert!(exposed.compare_and_swap(8, Element::UInt64, &old, &new, &mut before));
                            if before == old {
                                break;
                            }
                        }
                    }
                });
            }
        });
        let sum = (3 * EACH) as f64;
        assert_eq!(memory, [sum.to_bits(), 3 * EACH as u64, sum.to_bits(), sum.to_bits()]);
    }

    /// Items and bytes that begin or end outside.   Expect: none.
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
