//! The arithmetic of reductions on arrays of bytes that hold numbers, at any address:
//! `inout[i] = input[i] op inout[i]`.
//!
//! | what | where |
//! |---|---|
//! | the loops for all processors, which the compiler vectorises | `number.rs`, `half.rs`, `pair.rs`; `fold.rs` |
//! | the same loops compiled for wider registers: AVX2, AVX-512 | `kernel.rs` |
//! | the choice of these by processor | `x86.rs` |
//! | C's `long double` of x86-64, by the processor's own instructions | `x87.rs` |
//! | the same in software, for other processors | `extended.rs` |
//!
//! Each element's result is the result of the operation on two scalars. So the registers in which it was
//! computed make no difference to its bits. There is one exception: a sum or product of two NaNs may be
//! either of them.
#![no_std]

#[cfg(any(test, miri, not(target_arch = "x86_64")))]
mod extended;
mod fold;
mod half;
mod kernel;
mod number;
mod pair;
#[cfg(test)]
mod tests;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x87;

#[cfg(any(miri, not(target_arch = "x86_64")))]
use extended as long_double;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use x87 as long_double;

/// A predefined reduction operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Op {
    /// `MPI_MAX`. Where one of the values is not a number, or both are zero, the value of inout results.
    Max,
    /// `MPI_MIN`, with the same rule as `Max`.
    Min,
    /// `MPI_SUM`; integers wrap around.
    Sum,
    /// `MPI_PROD`; integers wrap around.
    Prod,
    /// `MPI_LAND`: 1 or 0.
    LAnd,
    /// `MPI_BAND`.
    BAnd,
    /// `MPI_LOR`: 1 or 0.
    LOr,
    /// `MPI_BOR`.
    BOr,
    /// `MPI_LXOR`: 1 or 0.
    LXor,
    /// `MPI_BXOR`.
    BXor,
    /// `MPI_MINLOC`: the smaller value and its index; of equal values the smaller index.
    MinLoc,
    /// `MPI_MAXLOC`: the larger value and its index; of equal values the smaller index.
    MaxLoc,
    /// `MPI_REPLACE`: the input (one-sided operations, MPI-5.0 §12.3.4).
    Replace,
    /// `MPI_NO_OP`: inout unchanged (one-sided operations).
    NoOp,
}

impl Op {
    /// All operations, in the order of declaration.
    pub const ALL: [Op; 14] = [
        Op::Max,
        Op::Min,
        Op::Sum,
        Op::Prod,
        Op::LAnd,
        Op::BAnd,
        Op::LOr,
        Op::BOr,
        Op::LXor,
        Op::BXor,
        Op::MinLoc,
        Op::MaxLoc,
        Op::Replace,
        Op::NoOp,
    ];
}

/// The type of the elements of an array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Kind {
    Int8,
    Int16,
    Int32,
    Int64,
    Int128,
    /// Also logical values of this size, and bytes.
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    UInt128,
    /// IEEE binary16: computed in binary32, and rounded once.
    Float16,
    Float32,
    Float64,
    /// The x87 format in 16 bytes, of which the last 6 mean nothing.
    LongDouble,
    ComplexFloat16,
    ComplexFloat32,
    ComplexFloat64,
    ComplexLongDouble,
    Pair(Pair),
    /// Pairs whose members follow each other without the padding between and behind them.
    PackedPair(Pair),
}

/// A value and its index, as `struct { value; index; }` of a C compiler for x86-64 System V.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Pair {
    FloatInt,
    DoubleInt,
    LongInt,
    TwoInt,
    ShortInt,
    LongDoubleInt,
    TwoFloat32,
    TwoFloat64,
}

impl Kind {
    /// The bytes from one element to the next.
    #[inline]
    pub const fn step(self) -> usize {
        match self {
            Kind::Int8 | Kind::UInt8 => 1,
            Kind::Int16 | Kind::UInt16 | Kind::Float16 => 2,
            Kind::Int32 | Kind::UInt32 | Kind::Float32 | Kind::ComplexFloat16 => 4,
            Kind::Int64 | Kind::UInt64 | Kind::Float64 | Kind::ComplexFloat32 => 8,
            Kind::Int128 | Kind::UInt128 | Kind::LongDouble | Kind::ComplexFloat64 => 16,
            Kind::ComplexLongDouble => 32,
            Kind::Pair(pair) => match pair {
                Pair::FloatInt | Pair::TwoInt | Pair::ShortInt | Pair::TwoFloat32 => 8,
                Pair::DoubleInt | Pair::LongInt | Pair::TwoFloat64 => 16,
                Pair::LongDoubleInt => 32,
            },
            Kind::PackedPair(pair) => match pair {
                Pair::ShortInt => 6,
                Pair::FloatInt | Pair::TwoInt | Pair::TwoFloat32 => 8,
                Pair::DoubleInt | Pair::LongInt => 12,
                Pair::TwoFloat64 => 16,
                Pair::LongDoubleInt => 20,
            },
        }
    }

    /// Returns whether the operation has a meaning for this type. MPI allows less; the caller checks that.
    pub const fn supports(self, op: Op) -> bool {
        let is_pair = matches!(self, Kind::Pair(_) | Kind::PackedPair(_));
        let is_complex = matches!(
            self,
            Kind::ComplexFloat16 | Kind::ComplexFloat32 | Kind::ComplexFloat64 | Kind::ComplexLongDouble
        );
        let is_floating = matches!(self, Kind::Float16 | Kind::Float32 | Kind::Float64 | Kind::LongDouble);
        match op {
            Op::Replace | Op::NoOp => true,
            Op::MinLoc | Op::MaxLoc => is_pair,
            Op::Sum | Op::Prod => !is_pair,
            Op::Max | Op::Min => !is_pair && !is_complex,
            Op::LAnd | Op::LOr | Op::LXor | Op::BAnd | Op::BOr | Op::BXor => !is_pair && !is_complex && !is_floating,
        }
    }
}

/// The shortest array, in bytes, for which wide registers pay.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const WIDE_MIN: usize = 64;

/// `inout[i] = input[i] op inout[i]`.
///
/// # Panics
/// When the lengths differ or are no multiple of the step, or the operation has no meaning for this kind.
#[inline]
pub fn apply(op: Op, kind: Kind, input: &[u8], inout: &mut [u8]) {
    assert!(kind.supports(op), "{op:?} has no meaning for {kind:?}");
    assert_eq!(input.len(), inout.len(), "a reduction takes two arrays of one length");
    let step = kind.step();
    // Only for packed pairs the step is no power of two, and a division is needed.
    let is_whole =
        if step.is_power_of_two() { inout.len() & (step - 1) == 0 } else { inout.len().is_multiple_of(step) };
    assert!(is_whole, "a reduction takes whole elements");
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if inout.len() >= WIDE_MIN && x86::apply(op, kind, input, inout) {
        return;
    }
    kernel::of_all::apply(op, kind, input, inout);
}

/// The bytes that are copied at once before they are reduced: they stay in the nearest cache.
const BLOCK: usize = 8 << 10;

/// Computes `out[i] = left[i] op right[i]`. This passes over memory once; a copy and then [`apply`] would do
/// so twice.
///
/// # Panics
/// As for [`apply`].
pub fn combine(op: Op, kind: Kind, left: &[u8], right: &[u8], out: &mut [u8]) {
    assert!(left.len() == right.len() && right.len() == out.len(), "a reduction takes arrays of one length");
    let block = BLOCK - BLOCK % kind.step();
    for ((left, right), out) in left.chunks(block).zip(right.chunks(block)).zip(out.chunks_mut(block)) {
        out.copy_from_slice(right);
        apply(op, kind, left, out);
    }
}

/// The widest registers that this process computes with, for measurements.
pub fn registers() -> &'static str {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return x86::registers();
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    "those of every processor of this kind"
}
