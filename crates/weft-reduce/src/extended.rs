//! The x87 extended format (C's `long double` on x86-64) in software: Rust has no such type. It replaces
//! `x87.rs` on other processors, and `x87.rs` is tested against it.
//!
//! Results are those of the processor with its default control word: 64 bits of precision, rounding to
//! nearest even, exceptions masked (Intel 64 and IA-32 Software Developer's Manual, volume 1, §4.2, §4.8 and
//! chapter 8).

use core::cmp::Ordering;

use crate::fold::fold;

const EXPONENT_MASK: u16 = 0x7fff;
const EXPONENT_BIAS: i32 = 0x3fff;
const SIGN: u16 = 0x8000;
const INTEGER_BIT: u64 = 1 << 63;
const QUIET_BIT: u64 = 1 << 62;

/// Bits below the significand while a result is being rounded.
const GUARD_BITS: u32 = 62;

/// A number, with the 6 bytes that follow it in memory and mean nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extended {
    significand: u64,
    sign_exponent: u16,
    padding: [u8; 6],
}

/// The meaning of the bits.
enum Value {
    /// The number `significand * 2^(exponent - bias - 63)`. The top bit of the significand may be clear when
    /// the exponent is 1.
    Finite {
        negative: bool,
        exponent: i32,
        significand: u64,
    },
    Infinite {
        negative: bool,
    },
    NotANumber,
    /// An encoding that the processor has refused since the 80387: unnormal, pseudo-infinity, pseudo-NaN.
    Invalid,
}

impl Extended {
    /// The quiet NaN that results from an invalid operation.
    const INDEFINITE: Extended = Extended::new(SIGN | EXPONENT_MASK, INTEGER_BIT | QUIET_BIT);

    const fn new(sign_exponent: u16, significand: u64) -> Extended {
        Extended { significand, sign_exponent, padding: [0; 6] }
    }

    pub(crate) fn from_ne_bytes(bytes: [u8; 16]) -> Extended {
        let [s0, s1, s2, s3, s4, s5, s6, s7, e0, e1, padding @ ..] = bytes;
        Extended {
            significand: u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            sign_exponent: u16::from_le_bytes([e0, e1]),
            padding,
        }
    }

    pub(crate) fn to_ne_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.significand.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.sign_exponent.to_le_bytes());
        bytes[10..].copy_from_slice(&self.padding);
        bytes
    }

    fn value(self) -> Value {
        let negative = self.sign_exponent & SIGN != 0;
        let significand = self.significand;
        let normal = significand & INTEGER_BIT != 0;
        match self.sign_exponent & EXPONENT_MASK {
            0 => Value::Finite { negative, exponent: 1, significand },
            _ if !normal => Value::Invalid,
            EXPONENT_MASK if significand == INTEGER_BIT => Value::Infinite { negative },
            EXPONENT_MASK => Value::NotANumber,
            exponent => Value::Finite { negative, exponent: i32::from(exponent), significand },
        }
    }

    fn infinite(negative: bool) -> Extended {
        Extended::new(if negative { SIGN } else { 0 } | EXPONENT_MASK, INTEGER_BIT)
    }

    fn zero(negative: bool) -> Extended {
        Extended::new(if negative { SIGN } else { 0 }, 0)
    }

    /// Subtracts `other`. A NaN in it keeps its sign.
    fn minus(self, other: Extended) -> Extended {
        match other.value() {
            Value::NotANumber | Value::Invalid => self.plus(other),
            _ => self.plus(Extended { sign_exponent: other.sign_exponent ^ SIGN, ..other }),
        }
    }

    pub(crate) fn plus(self, other: Extended) -> Extended {
        match (self.value(), other.value()) {
            (Value::Invalid, _) | (_, Value::Invalid) => Extended::INDEFINITE,
            (Value::NotANumber, _) | (_, Value::NotANumber) => propagate(self, other),
            (Value::Infinite { negative: a }, Value::Infinite { negative: b }) if a != b => Extended::INDEFINITE,
            (Value::Infinite { negative }, _) | (_, Value::Infinite { negative }) => Extended::infinite(negative),
            (
                Value::Finite { negative: a_negative, exponent: a_exponent, significand: a },
                Value::Finite { negative: b_negative, exponent: b_exponent, significand: b },
            ) => {
                if (a_exponent, a) >= (b_exponent, b) {
                    add(a_negative, a_exponent, a, b_negative, b_exponent, b)
                } else {
                    add(b_negative, b_exponent, b, a_negative, a_exponent, a)
                }
            }
        }
    }

    pub(crate) fn times(self, other: Extended) -> Extended {
        match (self.value(), other.value()) {
            (Value::Invalid, _) | (_, Value::Invalid) => Extended::INDEFINITE,
            (Value::NotANumber, _) | (_, Value::NotANumber) => propagate(self, other),
            (Value::Infinite { .. }, Value::Finite { significand: 0, .. })
            | (Value::Finite { significand: 0, .. }, Value::Infinite { .. }) => Extended::INDEFINITE,
            (Value::Infinite { .. }, _) | (_, Value::Infinite { .. }) => {
                Extended::infinite((self.sign_exponent ^ other.sign_exponent) & SIGN != 0)
            }
            (
                Value::Finite { negative: a_negative, exponent: a_exponent, significand: a },
                Value::Finite { negative: b_negative, exponent: b_exponent, significand: b },
            ) => {
                let negative = a_negative != b_negative;
                let product = u128::from(a) * u128::from(b);
                // The unit of the product is 2^-126 of the two leading bits, and the unit of `round` is
                // 2^-125.
                round(negative, a_exponent + b_exponent - EXPONENT_BIAS - 1, product)
            }
        }
    }
}

/// The sum of two finite numbers. The magnitude of the first is at least that of the second.
fn add(a_negative: bool, a_exponent: i32, a: u64, b_negative: bool, b_exponent: i32, b: u64) -> Extended {
    let a = u128::from(a) << GUARD_BITS;
    let b = shift_right_jamming(u128::from(b) << GUARD_BITS, (a_exponent - b_exponent) as u32);
    if a_negative == b_negative {
        return round(a_negative, a_exponent, a + b);
    }
    // An exact zero is positive when the signs differ.
    let difference = a - b;
    round(a_negative && difference != 0, a_exponent, difference)
}

/// Shifts right. The lowest bit of the result records that bits were lost, so that rounding still sees on
/// which side of half the value is.
fn shift_right_jamming(value: u128, by: u32) -> u128 {
    match value.checked_shr(by) {
        Some(shifted) => shifted | u128::from(shifted << by != value),
        None => u128::from(value != 0),
    }
}

/// The number nearest to `value * 2^(exponent - bias - 63 - GUARD_BITS)`; of two equally near, the even one.
fn round(negative: bool, exponent: i32, value: u128) -> Extended {
    if value == 0 {
        return Extended::zero(negative);
    }
    // Moves the leading bit to the place of the significand's top bit.
    let zeros = value.leading_zeros();
    let wanted = u128::BITS - 64 - GUARD_BITS;
    let (mut value, mut exponent) = if zeros >= wanted {
        (value << (zeros - wanted), exponent - (zeros - wanted) as i32)
    } else {
        (shift_right_jamming(value, wanted - zeros), exponent + (wanted - zeros) as i32)
    };
    if exponent < 1 {
        value = shift_right_jamming(value, (1 - exponent) as u32);
        exponent = 1;
    }
    let half = 1u128 << (GUARD_BITS - 1);
    let below = value & ((1 << GUARD_BITS) - 1);
    let mut significand = value >> GUARD_BITS;
    if below > half || (below == half && significand & 1 == 1) {
        significand += 1;
    }
    if significand >> 64 != 0 {
        significand >>= 1;
        exponent += 1;
    }
    if exponent >= i32::from(EXPONENT_MASK) {
        return Extended::infinite(negative);
    }
    let significand = significand as u64;
    let field = if significand & INTEGER_BIT == 0 { 0 } else { exponent as u16 };
    Extended::new(if negative { SIGN } else { 0 } | field, significand)
}

/// The NaN that results when at least one operand is a NaN. A quiet NaN goes before a signalling one, then
/// the larger significand before the smaller, then the positive one before the negative (the manual's table
/// "Rules for handling NaNs").
fn propagate(a: Extended, b: Extended) -> Extended {
    let rank = |number: Extended| {
        let is_nan = matches!(number.value(), Value::NotANumber);
        let quiet = number.significand & QUIET_BIT != 0;
        (is_nan, quiet, number.significand, number.sign_exponent & SIGN == 0)
    };
    let chosen = if rank(a) >= rank(b) { a } else { b };
    Extended::new(chosen.sign_exponent, chosen.significand | QUIET_BIT)
}

impl PartialEq for Extended {
    fn eq(&self, other: &Extended) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Extended {
    fn partial_cmp(&self, other: &Extended) -> Option<Ordering> {
        /// Orders like the number itself: magnitude by exponent, then significand.
        fn key(number: Extended) -> Option<i128> {
            let (negative, exponent, significand) = match number.value() {
                Value::Finite { negative, exponent, significand } => (negative, exponent, significand),
                Value::Infinite { negative } => (negative, i32::from(EXPONENT_MASK), INTEGER_BIT),
                Value::NotANumber | Value::Invalid => return None,
            };
            let magnitude = match significand {
                0 => 0,
                _ => i128::from(exponent) << 64 | i128::from(significand),
            };
            Some(if negative { -magnitude } else { magnitude })
        }
        Some(key(*self)?.cmp(&key(*other)?))
    }
}

/// `inout = input + inout`.
pub(crate) fn sum(input: &[u8], inout: &mut [u8]) {
    fold::<16>(input, inout, |a, b| Extended::from_ne_bytes(a).plus(Extended::from_ne_bytes(b)).to_ne_bytes());
}

/// `inout = input * inout`.
pub(crate) fn product(input: &[u8], inout: &mut [u8]) {
    fold::<16>(input, inout, |a, b| Extended::from_ne_bytes(a).times(Extended::from_ne_bytes(b)).to_ne_bytes());
}

/// `inout = input * inout` on complex numbers.
pub(crate) fn complex_product(input: &[u8], inout: &mut [u8]) {
    let parts = |bytes: [u8; 32]| {
        let (parts, _) = bytes.as_chunks::<16>();
        (Extended::from_ne_bytes(parts[0]), Extended::from_ne_bytes(parts[1]))
    };
    fold::<32>(input, inout, |a, b| {
        let ((a_re, a_im), (b_re, b_im)) = (parts(a), parts(b));
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&a_re.times(b_re).minus(a_im.times(b_im)).to_ne_bytes());
        bytes[16..].copy_from_slice(&a_re.times(b_im).plus(a_im.times(b_re)).to_ne_bytes());
        bytes
    });
}

/// The larger of each two numbers; the one of `inout` where neither is larger.
pub(crate) fn maximum(input: &[u8], inout: &mut [u8]) {
    fold::<16>(input, inout, |a, b| if Extended::from_ne_bytes(a) > Extended::from_ne_bytes(b) { a } else { b });
}

/// The smaller of each two numbers; the one of `inout` where neither is smaller.
pub(crate) fn minimum(input: &[u8], inout: &mut [u8]) {
    fold::<16>(input, inout, |a, b| if Extended::from_ne_bytes(a) < Extended::from_ne_bytes(b) { a } else { b });
}
