//! Tests every operation on every kind, in every width of registers that this processor has, against a
//! computation element by element.

extern crate std;
use std::vec::Vec;

use super::*;
use crate::extended::Extended;

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod long_double;

const PAIRS: [Pair; 8] = [
    Pair::FloatInt,
    Pair::DoubleInt,
    Pair::LongInt,
    Pair::TwoInt,
    Pair::ShortInt,
    Pair::LongDoubleInt,
    Pair::TwoFloat32,
    Pair::TwoFloat64,
];

fn kinds() -> Vec<Kind> {
    use Kind::*;
    let mut kinds = Vec::from([
        Int8,
        Int16,
        Int32,
        Int64,
        Int128,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        UInt128,
        Float16,
        Float32,
        Float64,
        LongDouble,
        ComplexFloat16,
        ComplexFloat32,
        ComplexFloat64,
        ComplexLongDouble,
    ]);
    kinds.extend(PAIRS.map(Pair));
    kinds.extend(PAIRS.map(PackedPair));
    kinds
}

type Implementation = fn(Op, Kind, &[u8], &mut [u8]);

/// All implementations that can run here.
fn implementations() -> Vec<(&'static str, Implementation)> {
    #[allow(unused_mut)]
    let mut all: Vec<(&str, Implementation)> =
        Vec::from([("chosen", apply as Implementation), ("portable", kernel::of_all::apply)]);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the features.
            all.push(("AVX2", |op, kind, input, inout| unsafe { kernel::of_avx2::apply(op, kind, input, inout) }));
        }
        if x86::registers() == "AVX-512" {
            // SAFETY: the processor has the features.
            all.push(("AVX-512", |op, kind, input, inout| unsafe { kernel::of_avx512::apply(op, kind, input, inout) }));
        }
    }
    all
}

/// Computes one element, by the plainest code for the operation. `None` where a sum or product of two NaNs
/// may be either.
fn one(op: Op, kind: Kind, input: &[u8], inout: &[u8]) -> Option<Vec<u8>> {
    macro_rules! read {
        ($number:ty, $bytes:expr) => {
            <$number>::from_ne_bytes($bytes[..size_of::<$number>()].try_into().unwrap())
        };
    }
    macro_rules! integer {
        ($number:ty) => {{
            let (a, b) = (read!($number, input), read!($number, inout));
            let truth = |value: bool| <$number>::from(value);
            let result = match op {
                Op::Max => a.max(b),
                Op::Min => a.min(b),
                Op::Sum => a.wrapping_add(b),
                Op::Prod => a.wrapping_mul(b),
                Op::LAnd => truth(a != 0 && b != 0),
                Op::LOr => truth(a != 0 || b != 0),
                Op::LXor => truth((a != 0) != (b != 0)),
                Op::BAnd => a & b,
                Op::BOr => a | b,
                Op::BXor => a ^ b,
                Op::Replace => a,
                Op::NoOp => b,
                _ => unreachable!(),
            };
            Some(result.to_ne_bytes().to_vec())
        }};
    }
    macro_rules! floating {
        ($number:ty) => {{
            let (a, b) = (read!($number, input), read!($number, inout));
            if matches!(op, Op::Sum | Op::Prod) && a.is_nan() && b.is_nan() {
                return None;
            }
            let result = match op {
                Op::Max => {
                    if a > b {
                        a
                    } else {
                        b
                    }
                }
                Op::Min => {
                    if a < b {
                        a
                    } else {
                        b
                    }
                }
                Op::Sum => a + b,
                Op::Prod => a * b,
                Op::Replace => a,
                _ => b,
            };
            Some(result.to_ne_bytes().to_vec())
        }};
    }
    macro_rules! complex {
        ($number:ty) => {{
            let half = size_of::<$number>();
            let ((a, b), (c, d)) = (
                (read!($number, input), read!($number, &input[half..])),
                (read!($number, inout), read!($number, &inout[half..])),
            );
            if op == Op::Sum {
                let part = if half == 4 { Kind::Float32 } else { Kind::Float64 };
                return Some([one(op, part, input, inout)?, one(op, part, &input[half..], &inout[half..])?].concat());
            }
            if [a, b, c, d].iter().filter(|part| part.is_nan()).count() > 1 {
                return None;
            }
            let (re, im) = (a * c - b * d, a * d + b * c);
            // Also when an infinity makes NaNs, only one of the two may be a NaN.
            if (a * c).is_nan() && (b * d).is_nan() || (a * d).is_nan() && (b * c).is_nan() {
                return None;
            }
            Some([re.to_ne_bytes(), im.to_ne_bytes()].concat())
        }};
    }
    macro_rules! pair {
        ($value:ty, $index:ty, $at:expr) => {{
            let (a, b) = (read!($value, input), read!($value, inout));
            let (i, j) = (read!($index, &input[$at..]), read!($index, &inout[$at..]));
            let better = if op == Op::MinLoc { a < b } else { a > b };
            let mut result = inout.to_vec();
            if better {
                result[..size_of::<$value>()].copy_from_slice(&input[..size_of::<$value>()]);
            }
            if better || (a == b && i < j) {
                result[$at..$at + size_of::<$index>()].copy_from_slice(&input[$at..$at + size_of::<$index>()]);
            }
            Some(result)
        }};
    }
    match (op, kind) {
        (Op::Replace, _) => return Some(input.to_vec()),
        (Op::NoOp, _) => return Some(inout.to_vec()),
        _ => {}
    }
    match kind {
        Kind::Int8 => integer!(i8),
        Kind::Int16 => integer!(i16),
        Kind::Int32 => integer!(i32),
        Kind::Int64 => integer!(i64),
        Kind::Int128 => integer!(i128),
        Kind::UInt8 => integer!(u8),
        Kind::UInt16 => integer!(u16),
        Kind::UInt32 => integer!(u32),
        Kind::UInt64 => integer!(u64),
        Kind::UInt128 => integer!(u128),
        Kind::Float32 => floating!(f32),
        Kind::Float64 => floating!(f64),
        Kind::ComplexFloat32 => complex!(f32),
        Kind::ComplexFloat64 => complex!(f64),
        Kind::Float16 => Some(half(op, read!(u16, input), read!(u16, inout)).to_ne_bytes().to_vec()),
        Kind::ComplexFloat16 if op == Op::Sum => {
            let part = |at: usize| half(op, read!(u16, &input[at..]), read!(u16, &inout[at..])).to_ne_bytes();
            Some([part(0), part(2)].concat())
        }
        // Its parts, with one rounding less, are checked separately.
        Kind::ComplexFloat16 => None,
        Kind::LongDouble | Kind::ComplexLongDouble => {
            let mut result = inout.to_vec();
            match (op, kind) {
                (Op::Sum, _) => extended::sum(input, &mut result),
                (Op::Prod, Kind::LongDouble) => extended::product(input, &mut result),
                (Op::Prod, _) => extended::complex_product(input, &mut result),
                (Op::Max, _) => extended::maximum(input, &mut result),
                _ => extended::minimum(input, &mut result),
            }
            Some(result)
        }
        Kind::Pair(Pair::FloatInt) | Kind::PackedPair(Pair::FloatInt) => pair!(f32, i32, 4),
        Kind::Pair(Pair::TwoInt) | Kind::PackedPair(Pair::TwoInt) => pair!(i32, i32, 4),
        Kind::Pair(Pair::TwoFloat32) | Kind::PackedPair(Pair::TwoFloat32) => pair!(f32, f32, 4),
        Kind::Pair(Pair::TwoFloat64) | Kind::PackedPair(Pair::TwoFloat64) => pair!(f64, f64, 8),
        Kind::Pair(Pair::DoubleInt) | Kind::PackedPair(Pair::DoubleInt) => pair!(f64, i32, 8),
        Kind::Pair(Pair::LongInt) | Kind::PackedPair(Pair::LongInt) => pair!(i64, i32, 8),
        Kind::Pair(Pair::ShortInt) => pair!(i16, i32, 4),
        Kind::PackedPair(Pair::ShortInt) => pair!(i16, i32, 2),
        Kind::Pair(Pair::LongDoubleInt) | Kind::PackedPair(Pair::LongDoubleInt) => pair!(Extended, i32, 16),
    }
}

/// The value of a binary16 (IEEE 754, §3.4).
fn worth(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// The nearest binary16, found by a search of all; infinity is at the place of the next number.
fn nearest(number: f64) -> u16 {
    let sign = if number.is_sign_negative() { 0x8000 } else { 0 };
    if number.is_nan() {
        return sign | 0x7e00;
    }
    let number = number.abs();
    let ordered = |bits: u16| if bits == 0x7c00 { 65536.0 } else { worth(bits) };
    // The largest that is not larger than the number.
    let (mut below, mut above) = (0_u16, 0x7c00_u16);
    while above - below > 1 {
        let middle = u16::midpoint(below, above);
        if ordered(middle) <= number { below = middle } else { above = middle }
    }
    let (down, up) = (number - ordered(below), ordered(above) - number);
    sign | if down < up || (down == up && below & 1 == 0) { below } else { above }
}

fn half(op: Op, a: u16, b: u16) -> u16 {
    let (left, right) = (worth(a), worth(b));
    match op {
        Op::Max => {
            if left > right {
                a
            } else {
                b
            }
        }
        Op::Min => {
            if left < right {
                a
            } else {
                b
            }
        }
        // Exact, so that there is only one rounding.
        Op::Sum => nearest(left + right),
        _ => nearest(left * right),
    }
}

/// Bytes from a seed, with the special values of all kinds among them, and many equal ones.
fn operand(seed: u64, length: usize) -> Vec<u8> {
    let mut random = weft_random::Random::new(seed);
    let mut next = || random.next();
    let mut bytes = Vec::with_capacity(length + 16);
    while bytes.len() < length {
        match next() % 12 {
            0 => bytes.extend([0; 16]),
            1 => bytes.extend([0xff; 16]),
            2 => bytes.extend((next() % 3).to_ne_bytes().repeat(2)),
            3 => bytes.extend((-0.0_f64).to_ne_bytes().repeat(2)),
            4 => bytes.extend(f64::INFINITY.to_ne_bytes().repeat(2)),
            5 => bytes.extend(f32::NEG_INFINITY.to_ne_bytes().repeat(4)),
            6 => bytes.extend(f32::NAN.to_ne_bytes().repeat(4)),
            7 => bytes.extend((-0.0_f32).to_ne_bytes().repeat(4)),
            8 => bytes.extend(((next() % 7) as f32 - 3.0).to_ne_bytes().repeat(4)),
            9 => bytes.extend(((next() % 7) as f64 / 4.0).to_ne_bytes().repeat(2)),
            _ => bytes.extend(next().to_ne_bytes()),
        }
    }
    bytes.truncate(length);
    bytes
}

/// Checks all results of `implementation` against a computation element by element.
fn check(name: &str, implementation: Implementation, op: Op, kind: Kind, input: &[u8], inout: &mut [u8]) {
    let before = inout.to_vec();
    implementation(op, kind, input, inout);
    let step = kind.step();
    for (at, result) in inout.chunks_exact(step).enumerate() {
        let (a, b) = (&input[at * step..][..step], &before[at * step..][..step]);
        let Some(expected) = one(op, kind, a, b) else { continue };
        let same = match kind {
            // The bytes behind the 10 bytes of a number mean nothing.
            Kind::LongDouble => result[..10] == expected[..10],
            Kind::ComplexLongDouble => result[..10] == expected[..10] && result[16..26] == expected[16..26],
            Kind::Float16 | Kind::ComplexFloat16 => {
                let halves = |bytes: &[u8]| -> Vec<u16> {
                    bytes.chunks_exact(2).map(|two| u16::from_ne_bytes([two[0], two[1]])).collect()
                };
                halves(result)
                    .iter()
                    .zip(halves(&expected))
                    .all(|(a, b)| *a == b || (worth(*a).is_nan() && worth(b).is_nan()))
            }
            _ => *result == expected[..],
        };
        assert!(
            same,
            "{name}: {op:?} on {kind:?}, element {at}: {a:02x?} and {b:02x?} gave {result:02x?}, not {expected:02x?}"
        );
    }
}

fn operations(kind: Kind) -> impl Iterator<Item = Op> {
    Op::ALL.into_iter().filter(move |op| kind.supports(*op))
}

/// Every operation × kind × 0 to 70 elements × the places where the two operands begin. Expect: the bytes
/// around the result stay.
#[test]
fn every_operation_on_every_kind_wherever_it_lies() {
    const PLACES: [(usize, usize); 8] = [(0, 0), (0, 1), (1, 0), (3, 3), (8, 8), (4, 8), (63, 16), (5, 62)];
    let lengths: &[usize] =
        if cfg!(miri) { &[0, 1, 7] } else { &core::array::from_fn::<usize, 71, _>(|length| length) };
    for (name, implementation) in implementations() {
        for kind in kinds() {
            for op in operations(kind) {
                for &length in lengths {
                    let bytes = length * kind.step();
                    let (left_at, right_at) = PLACES[(length + op as usize) % PLACES.len()];
                    let left = operand(length as u64 + 1, left_at + bytes);
                    let mut right = operand(length as u64 + 1000, right_at + bytes + 9);
                    let around = right.clone();
                    check(name, implementation, op, kind, &left[left_at..], &mut right[right_at..right_at + bytes]);
                    assert_eq!(right[..right_at], around[..right_at], "{name}: {op:?} on {kind:?} before the result");
                    assert_eq!(
                        right[right_at + bytes..],
                        around[right_at + bytes..],
                        "{name}: {op:?} on {kind:?} behind it"
                    );
                }
            }
        }
    }
}

/// Arrays so long that results are aligned first, at every place of a cache line.
#[test]
fn long_arrays_at_every_place_of_a_line() {
    let offsets = if cfg!(miri) { 0..2 } else { 0..65 };
    for kind in kinds() {
        for op in operations(kind) {
            for offset in offsets.clone() {
                let bytes = (3000 / kind.step() + offset % 3) * kind.step();
                let left = operand(offset as u64 + 7, bytes + 1);
                let mut right = operand(offset as u64 + 77, bytes + offset);
                check("chosen", apply, op, kind, &left[1..], &mut right[offset..]);
            }
        }
    }
}

/// A result that is at another place than the operands.
#[test]
fn three_operands_are_a_copy_and_two() {
    let combined: Implementation = |op, kind, left, inout| {
        let right = inout.to_vec();
        inout.fill(0x5a);
        combine(op, kind, left, &right, inout);
    };
    for kind in kinds() {
        for op in operations(kind) {
            for length in [0, 1, 33, 20_000 / kind.step()] {
                let bytes = length * kind.step();
                check("combined", combined, op, kind, &operand(5, bytes), &mut operand(6, bytes));
            }
        }
    }
}

#[test]
fn every_binary16_is_widened_and_rounded_exactly() {
    for bits in 0..=u16::MAX {
        let number = half::widened(bits);
        assert!(
            f64::from(number).to_bits() == worth(bits).to_bits() || (number.is_nan() && worth(bits).is_nan()),
            "{bits:#x}"
        );
        assert!(half::nearest(number) == bits || number.is_nan(), "{bits:#x}");
        // Numbers between this and the next: below, at and above half the distance.
        for beside in [0x0fff, 0x1000, 0x1001, 0x1fff] {
            let number = f32::from_bits(number.to_bits() | beside);
            let (ours, expected) = (half::nearest(number), nearest(f64::from(number)));
            assert!(ours == expected || number.is_nan(), "{number:e}: {ours:#x} instead of {expected:#x}");
        }
    }
    for number in [0.0, 1e-9, 2.9e-8, 3.0e-8, 65519.0, 65520.0, 1e9, f32::MAX, f32::MIN_POSITIVE] {
        assert_eq!(half::nearest(number), nearest(f64::from(number)), "{number:e}");
        assert_eq!(half::nearest(-number), nearest(f64::from(-number)), "-{number:e}");
    }
}

#[test]
#[should_panic(expected = "one length")]
fn unequal_lengths() {
    apply(Op::Sum, Kind::Int32, &[0; 8], &mut [0; 4]);
}

#[test]
#[should_panic(expected = "whole elements")]
fn half_an_element() {
    apply(Op::Sum, Kind::Int32, &[0; 6], &mut [0; 6]);
}

#[test]
#[should_panic(expected = "no meaning")]
fn an_operation_without_meaning() {
    apply(Op::BAnd, Kind::Float64, &[0; 8], &mut [0; 8]);
}

#[test]
fn what_computes_has_a_name() {
    assert!(!registers().is_empty());
}
