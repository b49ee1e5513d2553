//! The loops over integers and floating-point numbers. Everything here is inlined into a caller that is
//! compiled for certain registers, so nothing here may be a function of its own.

use crate::fold::{fold, illegal};
use crate::{Kind, Op, long_double};

/// Runs `fold` on numbers that know their bytes.
macro_rules! fold_as {
    ($number:ty, $input:expr, $inout:expr, $combine:expr) => {{
        let combine = $combine;
        fold(
            $input,
            $inout,
            #[inline(always)]
            |a, b| {
                let value: $number = combine(<$number>::from_ne_bytes(a), <$number>::from_ne_bytes(b));
                value.to_ne_bytes()
            },
        )
    }};
}

/// The product of complex numbers, each a real and an imaginary part.
macro_rules! complex_product {
    ($number:ty, $size:literal, $input:expr, $inout:expr) => {{
        #[inline(always)]
        fn parts(bytes: [u8; 2 * $size]) -> [$number; 2] {
            let (parts, _) = bytes.as_chunks::<$size>();
            [<$number>::from_ne_bytes(parts[0]), <$number>::from_ne_bytes(parts[1])]
        }
        fold::<{ 2 * $size }>(
            $input,
            $inout,
            #[inline(always)]
            |a, b| {
                let ([a_re, a_im], [b_re, b_im]) = (parts(a), parts(b));
                let (re, im) = (a_re * b_re - a_im * b_im, a_re * b_im + a_im * b_re);
                let mut bytes = [0; 2 * $size];
                bytes[..$size].copy_from_slice(&re.to_ne_bytes());
                bytes[$size..].copy_from_slice(&im.to_ne_bytes());
                bytes
            },
        )
    }};
}

/// Makes a loop for each integer type.
macro_rules! for_integers {
    ($kind:expr, $input:expr, $inout:expr, $combine:expr) => {
        match $kind {
            Kind::Int8 => fold_as!(i8, $input, $inout, $combine),
            Kind::Int16 => fold_as!(i16, $input, $inout, $combine),
            Kind::Int32 => fold_as!(i32, $input, $inout, $combine),
            Kind::Int64 => fold_as!(i64, $input, $inout, $combine),
            Kind::Int128 => fold_as!(i128, $input, $inout, $combine),
            Kind::UInt8 => fold_as!(u8, $input, $inout, $combine),
            Kind::UInt16 => fold_as!(u16, $input, $inout, $combine),
            Kind::UInt32 => fold_as!(u32, $input, $inout, $combine),
            Kind::UInt64 => fold_as!(u64, $input, $inout, $combine),
            Kind::UInt128 => fold_as!(u128, $input, $inout, $combine),
            _ => illegal($kind),
        }
    };
}

/// Makes a loop for each size of integers, where two's complement makes signed and unsigned ones the same.
macro_rules! for_sizes {
    ($kind:expr, $input:expr, $inout:expr, |$a:ident, $b:ident| $combine:expr) => {
        match $kind {
            Kind::Int8 | Kind::UInt8 => fold_as!(u8, $input, $inout, |$a: u8, $b: u8| $combine),
            Kind::Int16 | Kind::UInt16 => fold_as!(u16, $input, $inout, |$a: u16, $b: u16| $combine),
            Kind::Int32 | Kind::UInt32 => fold_as!(u32, $input, $inout, |$a: u32, $b: u32| $combine),
            Kind::Int64 | Kind::UInt64 => fold_as!(u64, $input, $inout, |$a: u64, $b: u64| $combine),
            Kind::Int128 | Kind::UInt128 => fold_as!(u128, $input, $inout, |$a: u128, $b: u128| $combine),
            _ => illegal($kind),
        }
    };
}

/// Computes `inout = input op inout`. The caller has checked lengths and legality.
#[inline(always)]
pub(crate) fn apply(op: Op, kind: Kind, input: &[u8], inout: &mut [u8]) {
    match op {
        Op::Max => maximum(kind, input, inout),
        Op::Min => minimum(kind, input, inout),
        Op::Sum => sum(kind, input, inout),
        Op::Prod => product(kind, input, inout),
        // Anything but 0 is true. The result is 1 or 0, which is also `.TRUE.` and `.FALSE.` of the usual
        // Fortran compilers.
        Op::LAnd => for_sizes!(kind, input, inout, |a, b| ((a != 0) & (b != 0)).into()),
        Op::LOr => for_sizes!(kind, input, inout, |a, b| ((a | b) != 0).into()),
        Op::LXor => for_sizes!(kind, input, inout, |a, b| ((a != 0) ^ (b != 0)).into()),
        Op::BAnd => fold_as!(u8, input, inout, |a, b| a & b),
        Op::BOr => fold_as!(u8, input, inout, |a, b| a | b),
        Op::BXor => fold_as!(u8, input, inout, |a, b| a ^ b),
        Op::Replace | Op::NoOp | Op::MinLoc | Op::MaxLoc => illegal(kind),
    }
}

/// Makes a kernel that picks one of two numbers by a comparison: as `MAXPD` and `MINPD` do, the right one
/// where neither is better.
macro_rules! choice {
    ($name:ident, $long_double:path, $better:tt) => {
        #[inline(always)]
        fn $name(kind: Kind, input: &[u8], inout: &mut [u8]) {
            match kind {
                Kind::Float32 => fold_as!(f32, input, inout, |a, b| if a $better b { a } else { b }),
                Kind::Float64 => fold_as!(f64, input, inout, |a, b| if a $better b { a } else { b }),
                Kind::LongDouble => $long_double(input, inout),
                _ => for_integers!(kind, input, inout, |a, b| if a $better b { a } else { b }),
            }
        }
    };
}

choice!(maximum, long_double::maximum, >);
choice!(minimum, long_double::minimum, <);

#[inline(always)]
fn sum(kind: Kind, input: &[u8], inout: &mut [u8]) {
    match kind {
        Kind::Float32 | Kind::ComplexFloat32 => fold_as!(f32, input, inout, |a, b| a + b),
        Kind::Float64 | Kind::ComplexFloat64 => fold_as!(f64, input, inout, |a, b| a + b),
        Kind::LongDouble | Kind::ComplexLongDouble => long_double::sum(input, inout),
        _ => for_sizes!(kind, input, inout, |a, b| a.wrapping_add(b)),
    }
}

#[inline(always)]
fn product(kind: Kind, input: &[u8], inout: &mut [u8]) {
    match kind {
        Kind::Float32 => fold_as!(f32, input, inout, |a, b| a * b),
        Kind::Float64 => fold_as!(f64, input, inout, |a, b| a * b),
        Kind::LongDouble => long_double::product(input, inout),
        Kind::ComplexFloat32 => complex_product!(f32, 4, input, inout),
        Kind::ComplexFloat64 => complex_product!(f64, 8, input, inout),
        Kind::ComplexLongDouble => long_double::complex_product(input, inout),
        _ => for_sizes!(kind, input, inout, |a, b| a.wrapping_mul(b)),
    }
}
