//! The loop from which all other loops are made.

use crate::Kind;

/// `inout[i] = combine(input[i], inout[i])` on elements of `N` bytes.
#[inline(always)]
pub(crate) fn fold<const N: usize>(input: &[u8], inout: &mut [u8], combine: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let (input, _) = input.as_chunks::<N>();
    let (inout, _) = inout.as_chunks_mut::<N>();
    for (input, inout) in input.iter().zip(inout) {
        *inout = combine(*input, *inout);
    }
}

#[cold]
pub(crate) fn illegal(kind: Kind) -> ! {
    unreachable!("the table of operations let {kind:?} through")
}
