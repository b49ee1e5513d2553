//! Memory of a window that other processes have mapped as well, for whoever accesses it without the engine.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use weft_core::layout::Element;
use weft_core::reduce::Op;

use super::checkers::LOOK_BELOW;
use super::exposed::{Exposed, is_atomic, swap_if_equal, update_atomic};

/// Bytes that are copied so at most: what is longer takes so long that finding out how to copy it best is worth it.
const DIRECT_BYTES_MAX: u64 = 4 << 10;

/// One process's part of a window, in memory that all processes of the node have mapped. Any thread may access it at any time: each function
/// reads or writes what MPI-5.0 §12.7 lets it.
#[derive(Debug, Default)]
pub struct MappedMemory {
    base: AtomicPtr<u8>,
    bytes: AtomicU64,
}

/// Whether a buffer of the program may be used without another look: it is somewhere, and no memory checker wants to hear of it.
fn is_plain(address: *const u8) -> bool {
    address.addr() >= LOOK_BELOW.load(Ordering::Relaxed)
}

impl MappedMemory {
    /// It is `exposed` from now on, as long as nothing else is [set](Self::set) or it is [gone](Self::clear). False: that is not memory which
    /// others have mapped, or has no bytes.
    pub fn set(&self, exposed: &Exposed) -> bool {
        let is_fit = exposed.is_shared() && !exposed.is_empty();
        if is_fit {
            self.base.store(exposed.base(), Ordering::Relaxed);
            self.bytes.store(exposed.len(), Ordering::Release);
        }
        is_fit
    }

    /// Whether it is no memory.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) == 0
    }

    /// It is no memory from now on.
    pub fn clear(&self) {
        self.bytes.store(0, Ordering::Release);
    }

    /// The address of `length` bytes from `offset` on, if they lie inside.
    #[inline]
    fn at(&self, offset: u64, length: u64) -> Option<*mut u8> {
        let inside = offset.checked_add(length)? <= self.bytes.load(Ordering::Acquire);
        (inside && length <= DIRECT_BYTES_MAX).then(|| self.base.load(Ordering::Relaxed).wrapping_add(offset as usize))
    }

    /// Copies `length` bytes of the program there. False: nothing has been done, since that must be looked at more closely.
    ///
    /// # Safety
    /// `from` is an address that the program gives for so many bytes. The window is not freed meanwhile.
    #[inline]
    pub unsafe fn put(&self, offset: u64, from: *const u8, length: u64) -> bool {
        let Some(to) = self.at(offset, length).filter(|_| is_plain(from)) else { return false };
        // SAFETY: the caller's promise, and that of whoever made the exposed memory. Both may overlap where a process puts to itself.
        unsafe { std::ptr::copy(from, to, length as usize) };
        true
    }

    /// Copies `length` bytes from there to the program's memory. False: as for [`Self::put`].
    ///
    /// # Safety
    /// As for [`Self::put`].
    #[inline]
    pub unsafe fn get(&self, offset: u64, to: *mut u8, length: u64) -> bool {
        let Some(from) = self.at(offset, length).filter(|_| is_plain(to)) else { return false };
        // SAFETY: as for `put`.
        unsafe { std::ptr::copy(from, to, length as usize) };
        true
    }

    /// Combines one element with `operand`, atomically; what it was goes to `result`, if that is not null. False: as for [`Self::put`], or the
    /// processor has no atomic operations for such an element.
    ///
    /// # Safety
    /// As for [`Self::put`]; so many bytes as the element has.
    #[inline]
    pub unsafe fn update(
        &self,
        offset: u64,
        (op, element): (Op, Element),
        operand: *const u8,
        result: *mut u8,
    ) -> bool {
        let size = element.size();
        let Some(place) = self.at(offset, size as u64).filter(|place| is_atomic(*place, size)) else { return false };
        if op != Op::NoOp && !is_plain(operand) || !result.is_null() && !is_plain(result) {
            return false;
        }
        let mut value = [0_u8; 8];
        if op != Op::NoOp {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(operand, value.as_mut_ptr(), size) };
        }
        let before = update_atomic(place, (op, element), &value[..size]);
        if !result.is_null() {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(before.to_le_bytes().as_ptr(), result, size) };
        }
        true
    }

    /// Replaces one element by `value` if it is equal to `compare`, atomically; what it was goes to `result`. False: as for [`Self::update`].
    ///
    /// # Safety
    /// As for [`Self::put`]; so many bytes as the element has.
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
        let Some(place) = self.at(offset, size as u64).filter(|place| is_atomic(*place, size)) else { return false };
        if !is_plain(compare) || !is_plain(value) || !is_plain(result) {
            return false;
        }
        let word = |from: *const u8| {
            let mut word = [0_u8; 8];
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from, word.as_mut_ptr(), size) };
            u64::from_le_bytes(word)
        };
        let before = swap_if_equal(place, size, word(compare), word(value)).unwrap_or_else(|before| before);
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(before.to_le_bytes().as_ptr(), result, size) };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: [u8; 8] = 1_u64.to_le_bytes();

    /// Accesses inside, at the end, beyond it, at an address that is not aligned, and to memory that is gone.   Expect: those that lie inside are
    /// done, and all others are refused and change nothing.
    #[test]
    fn what_lies_inside_is_done_and_nothing_else() {
        let mut memory = [7_u64; 4];
        let mut lock = 0_u32;
        let mapped = MappedMemory::default();
        let mut result = 0_u64;
        let into = (&raw mut result).cast::<u8>();
        // SAFETY: all buffers are as long as what is said of them, and live on.
        unsafe {
            assert!(!mapped.put(0, ONE.as_ptr(), 8), "nothing is mapped yet");
            assert!(!mapped.set(&Exposed::new(memory.as_mut_ptr().cast(), 32)), "its own memory is not shared");
            assert!(mapped.set(&Exposed::shared(memory.as_mut_ptr().cast(), 32, &raw mut lock)));
            assert!(mapped.put(8, ONE.as_ptr(), 8) && mapped.get(8, into, 8));
            assert_eq!(result, 1);
            let sum = (Op::Sum, Element::UInt64);
            assert!(mapped.update(24, sum, ONE.as_ptr(), into));
            assert!(mapped.update(24, sum, ONE.as_ptr(), std::ptr::null_mut()));
            assert_eq!((result, memory[3]), (7, 9));
            assert!(mapped.update(24, (Op::NoOp, Element::UInt64), std::ptr::null(), into));
            assert_eq!(result, 9);
            let (nine, two) = (9_u64.to_le_bytes(), 2_u64.to_le_bytes());
            assert!(mapped.compare_and_swap(24, Element::UInt64, nine.as_ptr(), two.as_ptr(), into));
            assert!(mapped.compare_and_swap(24, Element::UInt64, nine.as_ptr(), ONE.as_ptr(), into));
            assert_eq!((result, memory[3]), (2, 2));
            let before = memory;
            assert!(!mapped.put(25, ONE.as_ptr(), 8) && !mapped.put(u64::MAX, ONE.as_ptr(), 8));
            assert!(!mapped.get(33, into, 1) && !mapped.put(0, std::ptr::null(), 8));
            assert!(!mapped.update(4, sum, ONE.as_ptr(), into), "no atomic operation there");
            assert!(!mapped.update(0, (Op::Sum, Element::ComplexFloat64), ONE.as_ptr(), into), "nor for so many bytes");
            assert!(!mapped.compare_and_swap(32, Element::UInt64, ONE.as_ptr(), ONE.as_ptr(), into));
            mapped.clear();
            assert!(!mapped.put(0, ONE.as_ptr(), 8));
            assert_eq!(memory, before);
        }
    }
}
