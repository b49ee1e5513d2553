//! Finds the wide registers that this processor has. `lib.rs` asks it first.

use crate::{Kind, Op, kernel};

cpufeatures::new!(avx2_is_there, "avx2");
cpufeatures::new!(avx512_is_there, "avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl");

/// The bytes of a cache line. Results are aligned to it before a long loop: a register that is stored across
/// two lines costs two stores.
const LINE: usize = 64;
/// The shortest array for which aligning pays.
const ALIGNED_MIN: usize = 16 * LINE;

pub(crate) fn registers() -> &'static str {
    match (avx512_is_there::get(), avx2_is_there::get()) {
        (true, _) => "AVX-512",
        (false, true) => "AVX2",
        (false, false) => "SSE2",
    }
}

/// Computes with the widest registers. Returns `false` if the processor has no wider registers than every
/// processor. The caller has checked lengths and legality.
#[inline]
pub(crate) fn apply(op: Op, kind: Kind, input: &[u8], inout: &mut [u8]) -> bool {
    let chosen: unsafe fn(Op, Kind, &[u8], &mut [u8]) = if avx512_is_there::get() {
        kernel::of_avx512::apply
    } else if avx2_is_there::get() {
        kernel::of_avx2::apply
    } else {
        return false;
    };
    let head = head(kind, inout);
    let (input_head, input) = input.split_at(head);
    let (inout_head, inout) = inout.split_at_mut(head);
    if head > 0 {
        kernel::of_all::apply(op, kind, input_head, inout_head);
    }
    // SAFETY: the processor has the features.
    unsafe { chosen(op, kind, input, inout) };
    true
}

/// The bytes of the elements before the first one that begins a line; 0 where no element does.
fn head(kind: Kind, inout: &[u8]) -> usize {
    let head = inout.as_ptr().align_offset(LINE);
    if inout.len() >= ALIGNED_MIN && head < LINE && head.is_multiple_of(kind.step()) { head } else { 0 }
}
