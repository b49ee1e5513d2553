//! The kernels of everything but value–index pairs.

use super::Op;
use super::extended::Extended;
use crate::layout::Element;

/// `inout[i] = combine(input[i], inout[i])` on elements of `N` bytes.
#[inline(always)]
fn fold<const N: usize>(input: &[u8], inout: &mut [u8], combine: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let (input, _) = input.as_chunks::<N>();
    let (inout, _) = inout.as_chunks_mut::<N>();
    for (input, inout) in input.iter().zip(inout) {
        *inout = combine(*input, *inout);
    }
}

/// The same on numbers that know their bytes.
macro_rules! fold_as {
    ($number:ty, $input:expr, $inout:expr, $combine:expr) => {{
        let combine = $combine;
        fold($input, $inout, |a, b| {
            let value: $number = combine(<$number>::from_ne_bytes(a), <$number>::from_ne_bytes(b));
            value.to_ne_bytes()
        })
    }};
}

/// The same on two numbers, the real and the imaginary part.
macro_rules! fold_complex {
    ($number:ty, $size:literal, $input:expr, $inout:expr, $combine:expr) => {{
        let parts = |bytes: [u8; 2 * $size]| {
            let (parts, _) = bytes.as_chunks::<$size>();
            [<$number>::from_ne_bytes(parts[0]), <$number>::from_ne_bytes(parts[1])]
        };
        let combine = $combine;
        fold::<{ 2 * $size }>($input, $inout, |a, b| {
            let [re, im]: [$number; 2] = combine(parts(a), parts(b));
            let mut bytes = [0; 2 * $size];
            bytes[..$size].copy_from_slice(&re.to_ne_bytes());
            bytes[$size..].copy_from_slice(&im.to_ne_bytes());
            bytes
        })
    }};
}

/// Lengths and legality have been checked.
pub(super) fn apply(op: Op, element: Element, input: &[u8], inout: &mut [u8]) {
    match op {
        Op::Max => maximum(element, input, inout),
        Op::Min => minimum(element, input, inout),
        Op::Sum => sum(element, input, inout),
        Op::Prod => product(element, input, inout),
        Op::LAnd => logical(element, input, inout, |a, b| a & b),
        Op::LOr => logical(element, input, inout, |a, b| a | b),
        Op::LXor => logical(element, input, inout, |a, b| a ^ b),
        Op::BAnd => fold_as!(u8, input, inout, |a, b| a & b),
        Op::BOr => fold_as!(u8, input, inout, |a, b| a | b),
        Op::BXor => fold_as!(u8, input, inout, |a, b| a ^ b),
        Op::Replace => inout.copy_from_slice(input),
        Op::NoOp => {}
        Op::MinLoc | Op::MaxLoc => unreachable!("pairs have kernels of their own"),
    }
}

/// A kernel that picks one of two numbers by a comparison.
macro_rules! choice {
    ($name:ident, $better:tt) => {
        fn $name(element: Element, input: &[u8], inout: &mut [u8]) {
            macro_rules! choose {
                                        ($number:ty) => {
                                            fold_as!($number, input, inout, |a, b| if a $better b { a } else { b })
                                        };
                                    }
            match element {
                Element::Int8 => choose!(i8),
                Element::Int16 => choose!(i16),
                Element::Int32 => choose!(i32),
                Element::Int64 => choose!(i64),
                Element::Int128 => choose!(i128),
                Element::UInt8 => choose!(u8),
                Element::UInt16 => choose!(u16),
                Element::UInt32 => choose!(u32),
                Element::UInt64 => choose!(u64),
                Element::Float32 => choose!(f32),
                Element::Float64 => choose!(f64),
                Element::LongDouble => choose!(Extended),
                _ => illegal(element),
            }
        }
    };
}

choice!(maximum, >);
choice!(minimum, <);

/// Two's complement: signed and unsigned numbers of one width have the same sum.
fn sum(element: Element, input: &[u8], inout: &mut [u8]) {
    match element {
        Element::Int8 | Element::UInt8 => fold_as!(u8, input, inout, u8::wrapping_add),
        Element::Int16 | Element::UInt16 => fold_as!(u16, input, inout, u16::wrapping_add),
        Element::Int32 | Element::UInt32 => fold_as!(u32, input, inout, u32::wrapping_add),
        Element::Int64 | Element::UInt64 => fold_as!(u64, input, inout, u64::wrapping_add),
        Element::Int128 => fold_as!(u128, input, inout, u128::wrapping_add),
        Element::Float32 | Element::ComplexFloat32 => fold_as!(f32, input, inout, |a, b| a + b),
        Element::Float64 | Element::ComplexFloat64 => fold_as!(f64, input, inout, |a, b| a + b),
        Element::LongDouble | Element::ComplexLongDouble => {
            fold_as!(Extended, input, inout, |a: Extended, b: Extended| a.plus(b));
        }
        _ => illegal(element),
    }
}

/// Two's complement: signed and unsigned numbers of one width have the same product, modulo the width.
fn product(element: Element, input: &[u8], inout: &mut [u8]) {
    match element {
        Element::Int8 | Element::UInt8 => fold_as!(u8, input, inout, u8::wrapping_mul),
        Element::Int16 | Element::UInt16 => fold_as!(u16, input, inout, u16::wrapping_mul),
        Element::Int32 | Element::UInt32 => fold_as!(u32, input, inout, u32::wrapping_mul),
        Element::Int64 | Element::UInt64 => fold_as!(u64, input, inout, u64::wrapping_mul),
        Element::Int128 => fold_as!(u128, input, inout, u128::wrapping_mul),
        Element::Float32 => fold_as!(f32, input, inout, |a, b| a * b),
        Element::Float64 => fold_as!(f64, input, inout, |a, b| a * b),
        Element::LongDouble => fold_as!(Extended, input, inout, |a: Extended, b: Extended| a.times(b)),
        Element::ComplexFloat32 => fold_complex!(f32, 4, input, inout, |a: [f32; 2], b: [f32; 2]| {
            [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
        }),
        Element::ComplexFloat64 => fold_complex!(f64, 8, input, inout, |a: [f64; 2], b: [f64; 2]| {
            [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
        }),
        Element::ComplexLongDouble => {
            fold_complex!(Extended, 16, input, inout, |a: [Extended; 2], b: [Extended; 2]| {
                let re = a[0].times(b[0]).plus(a[1].times(b[1]).negated());
                [re, a[0].times(b[1]).plus(a[1].times(b[0]))]
            });
        }
        _ => illegal(element),
    }
}

/// Anything but 0 is true; the result is 1 or 0, which is `.TRUE.` and `.FALSE.` of the usual Fortran compilers too.
#[inline(always)]
fn logical(element: Element, input: &[u8], inout: &mut [u8], combine: impl Fn(bool, bool) -> bool) {
    match element.size() {
        1 => fold_as!(u8, input, inout, |a, b| u8::from(combine(a != 0, b != 0))),
        2 => fold_as!(u16, input, inout, |a, b| u16::from(combine(a != 0, b != 0))),
        4 => fold_as!(u32, input, inout, |a, b| u32::from(combine(a != 0, b != 0))),
        8 => fold_as!(u64, input, inout, |a, b| u64::from(combine(a != 0, b != 0))),
        16 => fold_as!(u128, input, inout, |a, b| u128::from(combine(a != 0, b != 0))),
        _ => illegal(element),
    }
}

#[cold]
fn illegal(element: Element) -> ! {
    unreachable!("the table of legal operations let {element:?} through")
}
