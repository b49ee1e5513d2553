//! Memory of a window that other processes have mapped as well, for accesses without the engine.
//!
//! `weft-mpi` calls it from `window/direct.rs`.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use weft_core::layout::Element;
use weft_core::reduce::{self, Op};

use super::checkers::LOOK_BELOW;
use super::exposed::{CHUNK_BYTES, Exposed, Lock, are_apart, combine};
use super::window_lock::Holder;

/// The most bytes that are copied directly. For a longer copy it is worth finding out how to copy it best.
const DIRECT_BYTES_MAX: u64 = 4 << 10;

/// The part of a window that one process owns, in memory that all processes of the node have mapped.
///
/// Any thread may access it at any time: each function reads or writes what MPI-5.0 §12.7 allows.
#[derive(Debug, Default)]
pub struct MappedMemory {
    base: AtomicPtr<u8>,
    bytes: AtomicU64,
    /// The word of the part's lock, and this process as a holder: both are set where there are bytes.
    word: AtomicPtr<AtomicU32>,
    holder: AtomicPtr<Holder>,
}

/// Reads an element of 1, 2, 4 or 8 bytes.
///
/// # Safety
/// `size` bytes can be read at `from`.
#[inline]
unsafe fn read_word(from: *const u8, size: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => from.read().into(),
            2 => from.cast::<u16>().read_unaligned().into(),
            4 => from.cast::<u32>().read_unaligned().into(),
            _ => from.cast::<u64>().read_unaligned(),
        }
    }
}

/// Writes an element by one store: a program that looks at the memory of its own window sees the whole
/// element or none of it.
///
/// # Safety
/// `size` bytes can be written at `to`.
#[inline]
unsafe fn write_word(to: *mut u8, size: usize, word: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => to.write(word as u8),
            2 => to.cast::<u16>().write_unaligned(word as u16),
            4 => to.cast::<u32>().write_unaligned(word as u32),
            _ => to.cast::<u64>().write_unaligned(word),
        }
    }
}

/// Computes `word op operand`, for elements of `size` bytes: the usual operations on counters are computed
/// without a call.
#[inline]
fn combine_words((op, element): (Op, Element), size: usize, operand: u64, word: u64) -> u64 {
    use Element::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    match (op, element) {
        (Op::Replace, _) => operand,
        (Op::Sum, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64) => word.wrapping_add(operand),
        _ => {
            let mut bytes = word.to_le_bytes();
            reduce::apply_packed(op, element, &operand.to_le_bytes()[..size], &mut bytes[..size]);
            u64::from_le_bytes(bytes)
        }
    }
}

/// Returns whether an element is a word.
#[inline]
fn is_word(size: usize) -> bool {
    matches!(size, 1 | 2 | 4 | 8)
}

/// Returns whether a buffer of the program may be used without another look: its address is one of memory,
/// and no memory checker must be told of it.
fn is_plain(address: *const u8) -> bool {
    address.addr() >= LOOK_BELOW.load(Ordering::Relaxed)
}

impl MappedMemory {
    /// Sets the memory to `exposed`, until another one is [set](Self::set) or it is [gone](Self::clear).
    /// Returns false if `exposed` is not memory that others have mapped, or has no bytes.
    pub fn set(&self, exposed: &Exposed) -> bool {
        let Some(Lock { word, holder }) = exposed.lock().filter(|_| !exposed.is_empty()) else { return false };
        self.base.store(exposed.base(), Ordering::Relaxed);
        self.word.store(std::ptr::from_ref(word).cast_mut(), Ordering::Relaxed);
        self.holder.store(std::ptr::from_ref(holder).cast_mut(), Ordering::Relaxed);
        self.bytes.store(exposed.len(), Ordering::Release);
        true
    }

    /// Returns whether there is no memory.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) == 0
    }

    /// Ends the use of the memory.
    pub fn clear(&self) {
        self.bytes.store(0, Ordering::Release);
    }

    /// The address of `length` bytes from `offset` on, if they lie inside.
    #[inline]
    fn at(&self, offset: u64, length: u64) -> Option<*mut u8> {
        let inside = offset.checked_add(length)? <= self.bytes.load(Ordering::Acquire);
        inside.then(|| self.base.load(Ordering::Relaxed).wrapping_add(offset as usize))
    }

    /// The address of `length` bytes from `offset` on, for a copy between there and `near`, which is a buffer
    /// of the program.
    #[inline]
    fn at_copied(&self, offset: u64, near: *const u8, length: u64) -> Option<*mut u8> {
        let is_usual = length <= DIRECT_BYTES_MAX && is_plain(near);
        if is_usual { self.at(offset, length) } else { None }
    }

    /// The lock of memory that [`Self::at`] has found.
    ///
    /// # Safety
    /// [`Self::at`] has found memory.
    #[inline]
    unsafe fn lock(&self) -> Lock {
        // SAFETY: `set` has stored both before the bytes that were found, from references that are good for
        // ever.
        unsafe { Lock { word: &*self.word.load(Ordering::Relaxed), holder: &*self.holder.load(Ordering::Relaxed) } }
    }

    /// Copies `length` bytes of the program to `offset`. Returns false, and does nothing, if the access must
    /// be looked at more closely.
    ///
    /// # Safety
    /// `from` is an address that the program gives for `length` bytes. The window is not freed meanwhile.
    #[inline]
    pub unsafe fn put(&self, offset: u64, from: *const u8, length: u64) -> bool {
        let Some(to) = self.at_copied(offset, from, length) else { return false };
        // SAFETY: the caller's promise, and that of the maker of the exposed memory. Both may overlap where a
        // process puts to itself.
        unsafe { std::ptr::copy(from, to, length as usize) };
        true
    }

    /// Copies `length` bytes from `offset` to the program's memory. Returns false as [`Self::put`] does.
    ///
    /// # Safety
    /// As for [`Self::put`].
    #[inline]
    pub unsafe fn get(&self, offset: u64, to: *mut u8, length: u64) -> bool {
        let Some(from) = self.at_copied(offset, to, length) else { return false };
        // SAFETY: as for `put`.
        unsafe { std::ptr::copy(from, to, length as usize) };
        true
    }

    /// Combines `length` bytes of elements with those at `operand`, each atomically; their old values go to
    /// `result`, if that is not null. Returns false as [`Self::put`] does.
    ///
    /// # Safety
    /// As for [`Self::put`]; `length` bytes at `operand`, of which [`Op::NoOp`] needs none, and at `result`.
    #[inline]
    pub unsafe fn update(
        &self,
        offset: u64,
        (op, element): (Op, Element),
        length: u64,
        operand: *const u8,
        result: *mut u8,
    ) -> bool {
        let size = element.size();
        let Some(at) = self.at(offset, length) else { return false };
        if op != Op::NoOp && !is_plain(operand) || !result.is_null() && !is_plain(result) {
            return false;
        }
        // SAFETY: the memory has been found.
        let lock = unsafe { self.lock() };
        if length != size as u64 || !is_word(size) {
            // SAFETY: the caller's promise.
            return unsafe { update_run(lock, (at, length), (op, element), operand, result) };
        }
        // SAFETY: the caller's promise, and that of the maker of the exposed memory.
        unsafe {
            let operand = if op == Op::NoOp { 0 } else { read_word(operand, size) };
            let held = lock.take();
            let before = read_word(at, size);
            if op != Op::NoOp {
                write_word(at, size, combine_words((op, element), size, operand, before));
            }
            drop(held);
            if !result.is_null() {
                write_word(result, size, before);
            }
        }
        true
    }

    /// Replaces one element by `value` if it is equal to `compare`, atomically; its old value goes to
    /// `result`. Returns false as [`Self::update`] does.
    ///
    /// # Safety
    /// As for [`Self::put`]; as many bytes as the element has.
    #[inline]
    pub unsafe fn compare_and_swap(
        &self,
        offset: u64,
        element: Element,
        compare: *const u8,
        value: *const u8,
        result: *mut u8,
    ) -> bool {
        let size = element.size();
        let Some(at) = self.at(offset, size as u64).filter(|_| is_word(size)) else { return false };
        if !is_plain(compare) || !is_plain(value) || !is_plain(result) {
            return false;
        }
        // SAFETY: the caller's promise, and that of the maker of the exposed memory, which has been found.
        unsafe {
            let (compare, value) = (read_word(compare, size), read_word(value, size));
            let held = self.lock().take();
            let before = read_word(at, size);
            if before == compare {
                write_word(at, size, value);
            }
            drop(held);
            write_word(result, size, before);
        }
        true
    }
}

/// Does [`MappedMemory::update`] for more than a word at an address. Returns false, and does nothing, if
/// buffers overlap that MPI wants apart.
///
/// # Safety
/// As for [`MappedMemory::update`].
#[inline(never)]
unsafe fn update_run(
    lock: Lock,
    (at, length): (*mut u8, u64),
    (op, element): (Op, Element),
    operand: *const u8,
    result: *mut u8,
) -> bool {
    let (uses_operand, length) = (op != Op::NoOp, length as usize);
    if !length.is_multiple_of(element.size())
        || uses_operand && !(are_apart(operand, at, length) && are_apart(operand, result, length))
    {
        return false;
    }
    let step = CHUNK_BYTES / element.size() * element.size();
    for begin in (0..length).step_by(step) {
        let length = (length - begin).min(step);
        let at = at.wrapping_add(begin);
        let _held = lock.take();
        // SAFETY: the caller's promise, and that of the maker of the exposed memory.
        unsafe {
            if !result.is_null() {
                std::ptr::copy(at, result.add(begin), length);
            }
            if uses_operand {
                combine((op, element), std::slice::from_raw_parts(operand.add(begin), length), at);
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: [u8; 8] = 1_u64.to_le_bytes();
    static OWN: Holder = Holder { id: 1, exists: |_| true };

    /// Accesses inside, at the end and beyond it, accesses to parts of elements, and accesses to memory that
    /// is gone.   Expect: those that lie inside are done, and all others are refused and change nothing.
    #[test]
    fn what_lies_inside_is_done_and_nothing_else() {
        let mut memory = [7_u64; 4];
        let mut lock = 0_u32;
        let mapped = MappedMemory::default();
        let mut result = 0_u64;
        let into = (&raw mut result).cast::<u8>();
        // SAFETY: all buffers are as long as is said of them, and live on.
        unsafe {
            assert!(!mapped.put(0, ONE.as_ptr(), 8), "nothing is mapped yet");
            assert!(!mapped.set(&Exposed::new(memory.as_mut_ptr().cast(), 32)), "its own memory is not shared");
            assert!(mapped.set(&Exposed::shared(memory.as_mut_ptr().cast(), 32, &raw mut lock, &OWN)));
            assert!(mapped.put(8, ONE.as_ptr(), 8) && mapped.get(8, into, 8));
            assert_eq!(result, 1);
            let sum = (Op::Sum, Element::UInt64);
            assert!(mapped.update(24, sum, 8, ONE.as_ptr(), into));
            assert!(mapped.update(24, sum, 8, ONE.as_ptr(), std::ptr::null_mut()));
            assert_eq!((result, memory[3]), (7, 9));
            assert!(mapped.update(24, (Op::NoOp, Element::UInt64), 8, std::ptr::null(), into));
            assert_eq!(result, 9);
            let (nine, two) = (9_u64.to_le_bytes(), 2_u64.to_le_bytes());
            assert!(mapped.compare_and_swap(24, Element::UInt64, nine.as_ptr(), two.as_ptr(), into));
            assert!(mapped.compare_and_swap(24, Element::UInt64, nine.as_ptr(), ONE.as_ptr(), into));
            assert_eq!((result, memory[3]), (2, 2));
            let before = memory;
            assert!(!mapped.put(25, ONE.as_ptr(), 8) && !mapped.put(u64::MAX, ONE.as_ptr(), 8));
            assert!(!mapped.get(33, into, 1) && !mapped.put(0, std::ptr::null(), 8));
            assert!(!mapped.update(32, sum, 8, ONE.as_ptr(), into) && !mapped.update(0, sum, 12, ONE.as_ptr(), into));
            assert!(!mapped.compare_and_swap(0, Element::ComplexFloat64, ONE.as_ptr(), ONE.as_ptr(), into));
            assert!(!mapped.compare_and_swap(32, Element::UInt64, ONE.as_ptr(), ONE.as_ptr(), into));
            mapped.clear();
            assert!(!mapped.put(0, ONE.as_ptr(), 8));
            assert_eq!(memory, before);
        }
    }

    /// All lengths of runs of every element and operation, with and without a result.   Expect: the results
    /// of the arithmetic by itself, and the old values.
    #[test]
    fn runs_are_combined_as_arrays_are() {
        for element in Element::ALL.into_iter().filter(|element| element.size() == element.extent()) {
            for op in Op::ALL.into_iter().filter(|op| reduce::supports(*op, element)) {
                // More than one chunk takes an interpreter minutes.
                for count in [1, 2, 7, if cfg!(miri) { 8 } else { 2 * CHUNK_BYTES / element.size() + 3 }] {
                    let length = count * element.size();
                    let operand: Vec<u8> = (0..length).map(|i| (i % 3) as u8).collect();
                    let before: Vec<u8> = (0..length).map(|i| (i % 2) as u8).collect();
                    let mut expected = before.clone();
                    reduce::apply_packed(op, element, &operand, &mut expected);
                    for wanted in [false, true] {
                        let (mut memory, mut result, mut lock) = (before.clone(), vec![0; length], 0_u32);
                        let mapped = MappedMemory::default();
                        let into = if wanted { result.as_mut_ptr() } else { std::ptr::null_mut() };
                        // SAFETY: all buffers are so long, and live on.
                        unsafe {
                            let base = memory.as_mut_ptr();
                            assert!(mapped.set(&Exposed::shared(base, length as u64, &raw mut lock, &OWN)));
                            assert!(mapped.update(0, (op, element), length as u64, operand.as_ptr(), into));
                        }
                        assert_eq!(memory, expected, "{count} times {op:?} {element:?}");
                        assert!(!wanted || result == before, "{count} times {op:?} {element:?}");
                        assert_eq!(lock, 0);
                    }
                }
            }
        }
    }

    /// An operand that lies in the memory it is combined with, which MPI forbids.   Expect: the access is
    /// left to code that copies the operand first.
    #[test]
    fn buffers_that_overlap_are_left_alone() {
        let mut memory = [1_u64; 8];
        let mut lock = 0_u32;
        let mapped = MappedMemory::default();
        let base: *mut u8 = memory.as_mut_ptr().cast();
        // SAFETY: all addresses are of this memory.
        unsafe {
            assert!(mapped.set(&Exposed::shared(base, 64, &raw mut lock, &OWN)));
            let sum = (Op::Sum, Element::UInt64);
            assert!(!mapped.update(0, sum, 32, base.add(24), std::ptr::null_mut()));
            assert!(mapped.update(0, sum, 32, base.add(32), std::ptr::null_mut()));
            assert!(!mapped.update(0, sum, 16, base.add(32), base.add(40)));
        }
        assert_eq!(memory, [2, 2, 2, 2, 1, 1, 1, 1]);
    }
}
