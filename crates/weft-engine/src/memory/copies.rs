//! Copies of single runs of bytes, and of batches of runs.
//!
//! `copier.rs` is the only room that calls them.

use weft_core::layout::Batch;

/// The most bytes that are copied without a call.
pub(super) const SHORT_BYTES: usize = 64;

/// Copies `length` bytes; without a call when they are few.
///
/// # Safety
/// `from` can be read and `to` written. They may overlap.
#[inline(always)]
pub(super) unsafe fn copy_run(from: *const u8, to: *mut u8, length: usize) {
    /// Copies the first and the last `N` bytes of `N` to `2 * N`, all of them read before any is written.
    #[inline(always)]
    unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, length: usize) {
        // SAFETY: both pieces lie inside `length`; the caller's promise.
        unsafe {
            let first = from.cast::<[u8; N]>().read_unaligned();
            let last = from.add(length - N).cast::<[u8; N]>().read_unaligned();
            to.cast::<[u8; N]>().write_unaligned(first);
            to.add(length - N).cast::<[u8; N]>().write_unaligned(last);
        }
    }
    // SAFETY: the caller's promise.
    unsafe {
        match length {
            0 => {}
            1..4 => {
                // One, two or three bytes are these three.
                let bytes = [from.read(), from.add(length / 2).read(), from.add(length - 1).read()];
                to.write(bytes[0]);
                to.add(length / 2).write(bytes[1]);
                to.add(length - 1).write(bytes[2]);
            }
            4..8 => ends::<4>(from, to, length),
            8..=16 => ends::<8>(from, to, length),
            17..=32 => ends::<16>(from, to, length),
            33..=SHORT_BYTES => ends::<32>(from, to, length),
            _ => std::ptr::copy(from, to, length),
        }
    }
}

/// The length above which runs are copied forward. They go to memory that is in no near cache as a rule, and
/// a processor asks early for the lines to be written only if a copy goes forward.
const BACKWARD_BYTES_MAX: usize = 12 << 10;
/// The bytes that are copied at once of a run that is copied backward.
const BLOCK_BYTES: usize = 512;

/// Copies `length` bytes that another process may have written just now. A short run is copied with its last
/// block first: docs/design/node.md.
///
/// # Safety
/// As for [`copy_run`].
#[inline(always)]
pub(super) unsafe fn copy_arrived(from: *const u8, to: *mut u8, length: usize) {
    if !(1024..=BACKWARD_BYTES_MAX).contains(&length) || (from as usize).abs_diff(to as usize) < length {
        // SAFETY: the caller's promise.
        return unsafe { copy_run(from, to, length) };
    }
    // SAFETY: the caller's promise, and they are apart.
    unsafe { copy_backward(from, to, length, BLOCK_BYTES) }
}

/// Copies `length` bytes with the last `block` first.
///
/// # Safety
/// As for [`copy_run`]; they do not overlap.
#[inline(never)]
pub(super) unsafe fn copy_backward(from: *const u8, to: *mut u8, length: usize, block: usize) {
    let mut left = length - length % block;
    // SAFETY: all blocks lie inside `length`, and the two sides do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from.add(left), to.add(left), length - left) };
    while left > 0 {
        // Otherwise the compiler sees that all this is one copy, and makes it one.
        left = std::hint::black_box(left - block);
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from.add(left), to.add(left), block) };
    }
}

/// Calls `$body` with a constant length for the lengths that matter, so that the copy becomes one move.
macro_rules! by_length {
    ($length:expr, $name:ident => $body:expr) => {
        match $length {
            4 => {
                const $name: usize = 4;
                $body
            }
            8 => {
                const $name: usize = 8;
                $body
            }
            16 => {
                const $name: usize = 16;
                $body
            }
            _ => {
                #[allow(non_snake_case)]
                let $name = $length;
                $body
            }
        }
    };
}

/// Copies the runs of a batch, the first of which is at `from`, one after the other to `to`.
///
/// # Safety
/// Every run can be read; `to` has room for all of them; they do not overlap.
pub(super) unsafe fn gather(from: *const u8, batch: &Batch, to: *mut u8) {
    let (mut from, mut to) = (from, to);
    by_length!(batch.length, LENGTH => for _ in 0..batch.count {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from, to, LENGTH) };
        from = from.wrapping_offset(batch.step as isize);
        to = to.wrapping_add(LENGTH);
    });
}

/// Copies from `from`, one after the other, to the runs of a batch, the first of which is at `to`.
///
/// # Safety
/// As for [`gather`], the other way round. Runs may overlap the source: a program may send to itself.
pub(super) unsafe fn scatter(from: *const u8, to: *mut u8, batch: &Batch) {
    let (mut from, mut to) = (from, to);
    by_length!(batch.length, LENGTH => for _ in 0..batch.count {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy(from, to, LENGTH) };
        from = from.wrapping_add(LENGTH);
        to = to.wrapping_offset(batch.step as isize);
    });
}
