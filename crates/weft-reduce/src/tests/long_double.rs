//! Tests long doubles, by instructions and in software, against the processor.

use core::arch::asm;

use proptest::prelude::*;

use super::*;
use crate::extended;

type Bytes = [u8; 16];

macro_rules! x87 {
    ($name:ident, $instruction:literal) => {
        fn $name(a: &Bytes, b: &Bytes) -> Bytes {
            let mut result = [0u8; 16];
            // SAFETY: the three operands are 16 bytes each, of which the instructions read and write 10; the
            // register stack is empty before and after.
            unsafe {
                asm!(
                    "fld tbyte ptr [{a}]",
                    "fld tbyte ptr [{b}]",
                    $instruction,
                    "fstp tbyte ptr [{result}]",
                    a = in(reg) a,
                    b = in(reg) b,
                    result = in(reg) &mut result,
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                );
            }
            result
        }
    };
}

x87!(processor_sum, "faddp");
x87!(processor_product, "fmulp");

/// Returns whether a > b, by `fucomip`; false when they cannot be compared.
fn processor_greater(a: &Bytes, b: &Bytes) -> bool {
    let above: u8;
    // SAFETY: as above; both numbers are popped.
    unsafe {
        asm!(
            "fld tbyte ptr [{b}]",
            "fld tbyte ptr [{a}]",
            "fucomip st(0), st(1)",
            "seta {above}",
            "fstp st(0)",
            a = in(reg) a,
            b = in(reg) b,
            above = out(reg_byte) above,
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nostack),
        );
    }
    above != 0
}

fn compare(a: &Bytes, b: &Bytes) {
    let larger = if processor_greater(a, b) { a } else { b };
    let smaller = if processor_greater(b, a) { a } else { b };
    type Software = fn(&[u8], &mut [u8]);
    let expectations: [(Op, Software, Bytes); 4] = [
        (Op::Sum, extended::sum, processor_sum(a, b)),
        (Op::Prod, extended::product, processor_product(a, b)),
        (Op::Max, extended::maximum, *larger),
        (Op::Min, extended::minimum, *smaller),
    ];
    for (op, software, expected) in expectations {
        let (mut by_software, mut by_kernel) = (*b, *b);
        software(a, &mut by_software);
        apply(op, Kind::LongDouble, a, &mut by_kernel);
        assert_eq!(by_software[..10], expected[..10], "{op:?} {a:02x?} {b:02x?} in software");
        assert_eq!(by_kernel[..10], expected[..10], "{op:?} {a:02x?} {b:02x?}");
    }
}

fn number(sign_exponent: u16, significand: u64) -> Bytes {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&significand.to_le_bytes());
    bytes[8..10].copy_from_slice(&sign_exponent.to_le_bytes());
    bytes
}

#[test]
fn every_pair_of_extreme_encodings() {
    let exponents = [0, 1, 2, 62, 64, 65, 0x3ffe, 0x3fff, 0x4000, 0x403e, 0x403f, 0x7ffd, 0x7ffe, 0x7fff];
    let significands = [
        0,
        1,
        2,
        3,
        0x4000_0000_0000_0000,
        0x7fff_ffff_ffff_ffff,
        0x8000_0000_0000_0000,
        0x8000_0000_0000_0001,
        0x8000_0000_8000_0000,
        0xa000_0000_0000_0001,
        0xc000_0000_0000_0000,
        0xffff_ffff_ffff_fffe,
        0xffff_ffff_ffff_ffff,
    ];
    let mut all = std::vec::Vec::new();
    for exponent in exponents {
        for significand in significands {
            all.push(number(exponent, significand));
            all.push(number(exponent | 0x8000, significand));
        }
    }
    for a in &all {
        for b in &all {
            compare(a, b);
        }
    }
}

/// Significands with long runs of equal bits, where rounding is decided.
fn significands() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (any::<u64>(), 0u32..64).prop_map(|(bits, by)| bits << by),
        (any::<u64>(), 0u32..64).prop_map(|(bits, by)| (bits << by).wrapping_sub(1)),
    ]
}

fn exponents() -> impl Strategy<Value = u16> {
    prop_oneof![0u16..0x8000, 0x3f80u16..0x4080, 0u16..80, 0x7f80u16..0x8000]
}

fn numbers() -> impl Strategy<Value = Bytes> {
    let normal = (any::<bool>(), exponents(), significands()).prop_map(|(negative, exponent, significand)| {
        number(exponent | u16::from(negative) << 15, significand | u64::from(exponent != 0) << 63)
    });
    let any_encoding = (any::<u16>(), significands()).prop_map(|(exponent, significand)| number(exponent, significand));
    prop_oneof![8 => normal, 1 => any_encoding]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_numbers(a in numbers(), b in numbers()) {
        compare(&a, &b);
    }

    /// Equal or neighbouring exponents: cancellation.
    #[test]
    fn near_numbers(a in numbers(), significand in significands(), apart in -70i32..70) {
        let exponent = i32::from(u16::from_le_bytes([a[8], a[9] & 0x7f]));
        let other = (exponent + apart).clamp(0, 0x7fff) as u16;
        let negative = !a[9] & 0x80;
        let b = number(other | u16::from(negative) << 8, significand | u64::from(other != 0) << 63);
        compare(&a, &b);
    }
}

#[test]
fn padding_is_left_alone() {
    let (mut a, mut b) = (number(0x3fff, 1 << 63), number(0x4000, 1 << 63));
    a[10..].fill(0xaa);
    b[10..].fill(0xbb);
    let padding = b;
    apply(Op::Sum, Kind::LongDouble, &a, &mut b);
    assert_eq!(b[10..], padding[10..]);
    // 1.0 + 2.0 = 3.0
    assert_eq!(b[..10], number(0x4000, 3 << 62)[..10]);
}
