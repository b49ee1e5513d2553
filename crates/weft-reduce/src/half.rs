//! IEEE binary16 in the registers of binary32: no branches, so that loops over it become vector instructions.
//!
//! Sums and products of two numbers are the exact result rounded once, to nearest even, because binary32 has
//! more than twice the precision and two bits (S. A. Figueroa, "When is double rounding innocuous?", SIGNUM
//! 1995). A result that is not a number has only one form.

use crate::fold::{fold, illegal};
use crate::{Kind, Op};

const SIGN: u16 = 0x8000;
const INFINITY: u16 = 0x7c00;
const QUIET: u16 = 0x7e00;
/// The difference between the exponents of the two formats, at its place in binary32.
const REBIAS: u32 = (127 - 15) << 23;
/// The smallest normal number of binary16, as binary32.
const NORMAL_MIN: u32 = 113 << 23;
/// The lowest number of which binary16 has only infinity, as far as the exponent tells.
const OVERFLOW: u32 = (127 + 16) << 23;
/// A number in which the unit of binary32 is the smallest number of binary16.
const SUBNORMAL: u32 = (127 - 15 + 23 - 10 + 1) << 23;

/// Computes sums, products, maxima and minima. The caller has checked lengths and legality.
#[inline(always)]
pub(crate) fn apply(op: Op, kind: Kind, input: &[u8], inout: &mut [u8]) {
    match (op, kind) {
        (Op::Sum, _) => fold(input, inout, sum),
        (Op::Prod, Kind::Float16) => fold(input, inout, product),
        (Op::Prod, Kind::ComplexFloat16) => fold(input, inout, complex_product),
        (Op::Max, Kind::Float16) => fold(input, inout, larger),
        (Op::Min, Kind::Float16) => fold(input, inout, smaller),
        _ => illegal(kind),
    }
}

#[derive(Clone, Copy, Debug)]
struct Half(u16);

impl Half {
    #[inline(always)]
    fn from_ne_bytes(bytes: [u8; 2]) -> Half {
        Half(u16::from_ne_bytes(bytes))
    }

    #[inline(always)]
    fn to_ne_bytes(self) -> [u8; 2] {
        self.0.to_ne_bytes()
    }

    /// The same number as binary32, exactly.
    #[inline(always)]
    fn widened(self) -> f32 {
        let sign = u32::from(self.0 & SIGN) << 16;
        let magnitude = u32::from(self.0 & !SIGN) << 13;
        let is_special = self.0 & INFINITY == INFINITY;
        let is_subnormal = self.0 & INFINITY == 0;
        let ordinary = magnitude + REBIAS + if is_special { REBIAS } else { 0 };
        let subnormal = (f32::from_bits(magnitude + NORMAL_MIN) - f32::from_bits(NORMAL_MIN)).to_bits();
        f32::from_bits(sign | if is_subnormal { subnormal } else { ordinary })
    }

    /// The nearest number of binary16; of two equally near, the even one.
    #[inline(always)]
    fn nearest(number: f32) -> Half {
        let bits = number.to_bits();
        let magnitude = bits & 0x7fff_ffff;
        let special = if magnitude > 0x7f80_0000 { QUIET } else { INFINITY };
        // The processor's addition rounds the bits away that have no room.
        let subnormal = (f32::from_bits(magnitude) + f32::from_bits(SUBNORMAL)).to_bits().wrapping_sub(SUBNORMAL);
        let odd = magnitude >> 13 & 1;
        let normal = magnitude.wrapping_sub(REBIAS).wrapping_add(0xfff + odd) >> 13;
        let finite = if magnitude < NORMAL_MIN { subnormal as u16 } else { normal as u16 };
        Half((bits >> 16) as u16 & SIGN | if magnitude >= OVERFLOW { special } else { finite })
    }

    #[inline(always)]
    fn plus(self, other: Half) -> Half {
        Half::nearest(self.widened() + other.widened())
    }

    #[inline(always)]
    fn times(self, other: Half) -> Half {
        Half::nearest(self.widened() * other.widened())
    }
}

#[inline(always)]
fn sum(a: [u8; 2], b: [u8; 2]) -> [u8; 2] {
    Half::from_ne_bytes(a).plus(Half::from_ne_bytes(b)).to_ne_bytes()
}

#[inline(always)]
fn product(a: [u8; 2], b: [u8; 2]) -> [u8; 2] {
    Half::from_ne_bytes(a).times(Half::from_ne_bytes(b)).to_ne_bytes()
}

#[inline(always)]
fn larger(a: [u8; 2], b: [u8; 2]) -> [u8; 2] {
    if Half::from_ne_bytes(a).widened() > Half::from_ne_bytes(b).widened() { a } else { b }
}

#[inline(always)]
fn smaller(a: [u8; 2], b: [u8; 2]) -> [u8; 2] {
    if Half::from_ne_bytes(a).widened() < Half::from_ne_bytes(b).widened() { a } else { b }
}

/// Computes products and their sum in binary32, and rounds each part once.
#[inline(always)]
fn complex_product(a: [u8; 4], b: [u8; 4]) -> [u8; 4] {
    #[inline(always)]
    fn parts([re_0, re_1, im_0, im_1]: [u8; 4]) -> (f32, f32) {
        (Half::from_ne_bytes([re_0, re_1]).widened(), Half::from_ne_bytes([im_0, im_1]).widened())
    }
    let ((a_re, a_im), (b_re, b_im)) = (parts(a), parts(b));
    let [re_0, re_1] = Half::nearest(a_re * b_re - a_im * b_im).to_ne_bytes();
    let [im_0, im_1] = Half::nearest(a_re * b_im + a_im * b_re).to_ne_bytes();
    [re_0, re_1, im_0, im_1]
}

/// Gives tests access to [`Half::widened`].
#[cfg(test)]
pub(crate) fn widened(bits: u16) -> f32 {
    Half(bits).widened()
}

/// Gives tests access to [`Half::nearest`].
#[cfg(test)]
pub(crate) fn nearest(number: f32) -> u16 {
    Half::nearest(number).0
}
