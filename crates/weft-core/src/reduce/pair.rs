//! MINLOC and MAXLOC on value–index pairs (MPI-5.0 §6.9.4).

use super::Op;
use super::extended::Extended;
use crate::layout::Element;

/// A member of a pair, read from the place where its bytes begin.
trait Member: Copy + PartialOrd {
    const SIZE: usize;
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! member {
    ($($number:ty: $size:literal),*) => {$(
        impl Member for $number {
            const SIZE: usize = $size;

            fn read(bytes: &[u8]) -> Self {
                let (numbers, _) = bytes.as_chunks::<$size>();
                <$number>::from_ne_bytes(numbers[0])
            }
        }
    )*};
}

member!(i16: 2, i32: 4, i64: 8, f32: 4, f64: 8, Extended: 16);

/// Pairs `step` bytes apart, the index `index_offset` bytes into each. Lengths and legality have been checked.
pub(super) fn apply(op: Op, element: Element, step: usize, index_offset: usize, input: &[u8], inout: &mut [u8]) {
    let larger = op == Op::MaxLoc;
    let places = (step, index_offset);
    match element {
        Element::FloatInt => fold::<f32, i32>(larger, places, input, inout),
        Element::DoubleInt => fold::<f64, i32>(larger, places, input, inout),
        Element::LongInt => fold::<i64, i32>(larger, places, input, inout),
        Element::TwoInt => fold::<i32, i32>(larger, places, input, inout),
        Element::ShortInt => fold::<i16, i32>(larger, places, input, inout),
        Element::LongDoubleInt => fold::<Extended, i32>(larger, places, input, inout),
        Element::TwoFloat32 => fold::<f32, f32>(larger, places, input, inout),
        Element::TwoFloat64 => fold::<f64, f64>(larger, places, input, inout),
        _ => unreachable!("{element:?} is no pair"),
    }
}

fn fold<V: Member, I: Member>(larger: bool, (step, index_offset): (usize, usize), input: &[u8], inout: &mut [u8]) {
    let index = index_offset..index_offset + I::SIZE;
    for (input, inout) in input.chunks_exact(step).zip(inout.chunks_exact_mut(step)) {
        let (a, b) = (V::read(input), V::read(inout));
        let better = if larger { a > b } else { a < b };
        if better {
            inout[..V::SIZE].copy_from_slice(&input[..V::SIZE]);
        }
        if better || (a == b && I::read(&input[index.clone()]) < I::read(&inout[index.clone()])) {
            inout[index.clone()].copy_from_slice(&input[index.clone()]);
        }
    }
}
