//! Tests of the reduction tables, and of their way to the kernels, which have tests of their own.

use alloc::vec::Vec;

use super::*;
use crate::layout::Element::*;

macro_rules! bytes {
    ($($value:expr),* $(,)?) => {{
        let mut bytes: Vec<u8> = Vec::new();
        $(bytes.extend_from_slice(&$value.to_ne_bytes());)*
        bytes
    }};
}

fn result(op: Op, element: Element, input: &[u8], inout: &[u8]) -> Vec<u8> {
    let mut inout = inout.to_vec();
    apply(op, element, input, &mut inout);
    inout
}

/// MPI-5.0 §6.9.2, "the valid datatypes for each operation", and §6.9.4.
#[test]
fn legal_operations_are_those_of_the_tables() {
    use Op::*;
    let integers = [Char, Int8, Int16, Int32, Int64, Int128, UInt8, UInt16, UInt32, UInt64];
    let floating = [Float16, Float32, Float64, LongDouble];
    let complex = [ComplexFloat16, ComplexFloat32, ComplexFloat64, ComplexLongDouble];
    let logical = [Bool, Logical8, Logical16, Logical32, Logical64, Logical128];
    let pairs = [FloatInt, DoubleInt, LongInt, TwoInt, ShortInt, LongDoubleInt, TwoFloat32, TwoFloat64];
    for element in Element::ALL {
        let is = |group: &[Element]| group.contains(&element);
        let expected = [
            (Max, is(&integers) || is(&floating)),
            (Min, is(&integers) || is(&floating)),
            (Sum, is(&integers) || is(&floating) || is(&complex)),
            (Prod, is(&integers) || is(&floating) || is(&complex)),
            (LAnd, is(&integers) || is(&logical)),
            (LOr, is(&integers) || is(&logical)),
            (LXor, is(&integers) || is(&logical)),
            (BAnd, is(&integers) || element == Byte),
            (BOr, is(&integers) || element == Byte),
            (BXor, is(&integers) || element == Byte),
            (MinLoc, is(&pairs)),
            (MaxLoc, is(&pairs)),
            (Replace, true),
            (NoOp, true),
        ];
        for (op, legal) in expected {
            assert_eq!(supports(op, element), legal, "{op:?} on {element:?}");
        }
    }
}

/// The table's pairs all have a kernel, also for no elements and for unaligned buffers.
#[test]
fn every_legal_operation_runs() {
    for element in Element::ALL {
        for op in Op::ALL.into_iter().filter(|&op| supports(op, element)) {
            apply(op, element, &[], &mut []);
            let size = element.extent() * 5;
            let input: Vec<u8> = (0..=size as u32).map(|byte| byte as u8).collect();
            let mut inout: Vec<u8> = (0..=size as u32).map(|byte| (byte * 7) as u8).collect();
            let before = inout.clone();
            apply(op, element, &input[1..], &mut inout[1..]);
            assert_eq!(inout[0], before[0]);
            let size = element.size() * 5;
            apply_packed(op, element, &input[..size], &mut inout[..size]);
        }
    }
}

/// All arithmetic of an integer type against plain Rust, on values at the edges.
macro_rules! check_integer {
    ($number:ty, $element:expr) => {{
        let values = [0, 1, 2, 3, 85, <$number>::MAX, <$number>::MAX - 1, <$number>::MIN, <$number>::MAX / 2 + 3];
        for a in values {
            for b in values {
                // An odd number of elements, so that a vectorised loop has a rest.
                let check = |op: Op, expected: $number| {
                    let input = bytes!(a, a, a, a, a, a, a);
                    let inout = bytes!(b, b, b, b, b, b, b);
                    let all = bytes!(expected, expected, expected, expected, expected, expected, expected);
                    assert_eq!(result(op, $element, &input, &inout), all, "{op:?} {a} {b}");
                };
                check(Op::Max, a.max(b));
                check(Op::Min, a.min(b));
                check(Op::Sum, a.wrapping_add(b));
                check(Op::Prod, a.wrapping_mul(b));
                check(Op::LAnd, <$number>::from(a != 0 && b != 0));
                check(Op::LOr, <$number>::from(a != 0 || b != 0));
                check(Op::LXor, <$number>::from((a != 0) != (b != 0)));
                check(Op::BAnd, a & b);
                check(Op::BOr, a | b);
                check(Op::BXor, a ^ b);
                check(Op::Replace, a);
                check(Op::NoOp, b);
            }
        }
    }};
}

#[test]
fn integers() {
    check_integer!(i8, Int8);
    check_integer!(i16, Int16);
    check_integer!(i32, Int32);
    check_integer!(i64, Int64);
    check_integer!(i128, Int128);
    check_integer!(u8, UInt8);
    check_integer!(u16, UInt16);
    check_integer!(u32, UInt32);
    check_integer!(u64, UInt64);
}

#[test]
fn logicals_are_one_or_zero() {
    for (element, size) in [(Bool, 1), (Logical8, 1), (Logical16, 2), (Logical32, 4), (Logical64, 8), (Logical128, 16)]
    {
        let value = |number: u128| number.to_le_bytes()[..size].to_vec();
        for (a, b) in [(0, 0), (0, 2), (4, 0), (4, 2)] {
            let (left, right) = (a != 0, b != 0);
            let (input, inout) = (value(a), value(b));
            assert_eq!(result(Op::LAnd, element, &input, &inout), value(u128::from(left && right)));
            assert_eq!(result(Op::LOr, element, &input, &inout), value(u128::from(left || right)));
            assert_eq!(result(Op::LXor, element, &input, &inout), value(u128::from(left != right)));
        }
    }
}

#[test]
fn floating() {
    let (a, b) = (bytes!(1.5f64, -2.0f64, f64::INFINITY), bytes!(2.25f64, -3.0f64, 1.0f64));
    assert_eq!(result(Op::Sum, Float64, &a, &b), bytes!(3.75f64, -5.0f64, f64::INFINITY));
    assert_eq!(result(Op::Prod, Float64, &a, &b), bytes!(3.375f64, 6.0f64, f64::INFINITY));
    assert_eq!(result(Op::Max, Float64, &a, &b), bytes!(2.25f64, -2.0f64, f64::INFINITY));
    assert_eq!(result(Op::Min, Float64, &a, &b), bytes!(1.5f64, -3.0f64, 1.0f64));
    let (a, b) = (bytes!(1.5f32, -2.0f32), bytes!(2.25f32, -3.0f32));
    assert_eq!(result(Op::Sum, Float32, &a, &b), bytes!(3.75f32, -5.0f32));
    assert_eq!(result(Op::Prod, Float32, &a, &b), bytes!(3.375f32, 6.0f32));
    assert_eq!(result(Op::Max, Float32, &a, &b), bytes!(2.25f32, -2.0f32));
    assert_eq!(result(Op::Min, Float32, &a, &b), bytes!(1.5f32, -3.0f32));
}

#[test]
fn complex() {
    // (1 + 2i)(3 - 4i) = 11 + 2i
    let (a, b) = (bytes!(1.0f64, 2.0f64), bytes!(3.0f64, -4.0f64));
    assert_eq!(result(Op::Sum, ComplexFloat64, &a, &b), bytes!(4.0f64, -2.0f64));
    assert_eq!(result(Op::Prod, ComplexFloat64, &a, &b), bytes!(11.0f64, 2.0f64));
    let (a, b) = (bytes!(1.0f32, 2.0f32), bytes!(3.0f32, -4.0f32));
    assert_eq!(result(Op::Sum, ComplexFloat32, &a, &b), bytes!(4.0f32, -2.0f32));
    assert_eq!(result(Op::Prod, ComplexFloat32, &a, &b), bytes!(11.0f32, 2.0f32));
    let (a, b) = ([long_double(1.0), long_double(2.0)].concat(), [long_double(3.0), long_double(-4.0)].concat());
    let sum = [long_double(4.0), long_double(-2.0)].concat();
    assert_eq!(result(Op::Sum, ComplexLongDouble, &a, &b), sum);
    let product = [long_double(11.0), long_double(2.0)].concat();
    assert_eq!(result(Op::Prod, ComplexLongDouble, &a, &b), product);
}

/// A normal number of binary64 in the x87 format.
fn long_double(number: f64) -> [u8; 16] {
    let bits = number.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as u16 + 0x3fff - 0x3ff;
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(1 << 63 | bits << 11).to_le_bytes());
    bytes[8..10].copy_from_slice(&exponent.to_le_bytes());
    bytes[9] |= (bits >> 63 << 7) as u8;
    bytes
}

/// A pair as in memory, its padding filled with `padding`.
fn pair_in_memory(element: Element, value: &[u8], index: &[u8], padding: u8) -> Vec<u8> {
    let pair = element.pair().unwrap();
    let mut bytes = alloc::vec![padding; element.extent()];
    bytes[..pair.value_size].copy_from_slice(value);
    bytes[pair.index_offset..pair.index_offset + pair.index_size].copy_from_slice(index);
    bytes
}

#[test]
fn pairs() {
    let value = |element: Element, number: f64| match element {
        FloatInt | TwoFloat32 => (number as f32).to_ne_bytes().to_vec(),
        DoubleInt | TwoFloat64 => number.to_ne_bytes().to_vec(),
        LongInt => (number as i64).to_ne_bytes().to_vec(),
        TwoInt => (number as i32).to_ne_bytes().to_vec(),
        ShortInt => (number as i16).to_ne_bytes().to_vec(),
        _ => long_double(number).to_vec(),
    };
    let index = |element: Element, number: i32| match element {
        TwoFloat32 => (number as f32).to_ne_bytes().to_vec(),
        TwoFloat64 => f64::from(number).to_ne_bytes().to_vec(),
        _ => number.to_ne_bytes().to_vec(),
    };
    // ((value, index) of input, of inout, result of MINLOC, of MAXLOC)
    let cases = [
        ((-3.0, 9), (5.0, 2), (-3.0, 9), (5.0, 2)),
        ((7.0, 9), (5.0, 2), (5.0, 2), (7.0, 9)),
        ((5.0, 1), (5.0, 2), (5.0, 1), (5.0, 1)),
        ((5.0, 3), (5.0, 2), (5.0, 2), (5.0, 2)),
    ];
    for element in Element::ALL.into_iter().filter(|element| element.pair().is_some()) {
        for (a, b, min, max) in cases {
            let memory = |(number, at): (f64, i32), padding| {
                pair_in_memory(element, &value(element, number), &index(element, at), padding)
            };
            assert_eq!(result(Op::MinLoc, element, &memory(a, 1), &memory(b, 2)), memory(min, 2), "{element:?}");
            assert_eq!(result(Op::MaxLoc, element, &memory(a, 1), &memory(b, 2)), memory(max, 2), "{element:?}");
            let packed = |(number, at): (f64, i32)| [value(element, number), index(element, at)].concat();
            for (op, expected) in [(Op::MinLoc, min), (Op::MaxLoc, max)] {
                let mut inout = [packed(b), packed(b)].concat();
                apply_packed(op, element, &[packed(a), packed(b)].concat(), &mut inout);
                assert_eq!(inout, [packed(expected), packed(b)].concat(), "{element:?}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "not defined")]
fn illegal_operation() {
    apply(Op::Sum, WChar, &[0; 4], &mut [0; 4]);
}
