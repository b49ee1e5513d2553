//! Reduction operations on predefined datatypes (MPI-5.0 §6.9.2, §6.9.4).
//!
//! The kernels read and write native-endian bytes in safe code of a shape that the compiler turns into vector
//! instructions; buffers need no alignment.

mod extended;
mod kernel;
mod pair;
#[cfg(test)]
mod tests;

use crate::layout::Element;

/// A predefined reduction operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Op {
    /// `MPI_MAX`. Where a value is not a number, one of the two is the result.
    Max,
    /// `MPI_MIN`, likewise.
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
    /// `MPI_MINLOC`: the smaller value and its index, of equal values the smaller index.
    MinLoc,
    /// `MPI_MAXLOC`: the larger value and its index, of equal values the smaller index.
    MaxLoc,
    /// `MPI_REPLACE`: the input (one-sided operations, MPI-5.0 §12.3.4).
    Replace,
    /// `MPI_NO_OP`: inout as it is (one-sided operations).
    NoOp,
}

impl Op {
    /// Every operation, in the order of declaration.
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

/// The groups of types in the tables of MPI-5.0 §6.9.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Group {
    /// C integer, Fortran integer and multi-language types. An [`Element`] does not tell them apart, so the logical
    /// operations, which the standard defines for C integers only, are allowed for all of them.
    Integer,
    Floating,
    Complex,
    Logical,
    Byte,
    Pair,
    Unreducible,
}

const fn group(element: Element) -> Group {
    use Element::*;
    match element {
        Int8 | Int16 | Int32 | Int64 | Int128 | UInt8 | UInt16 | UInt32 | UInt64 => Group::Integer,
        Float32 | Float64 | LongDouble => Group::Floating,
        ComplexFloat32 | ComplexFloat64 | ComplexLongDouble => Group::Complex,
        Bool | Logical8 | Logical16 | Logical32 | Logical64 | Logical128 => Group::Logical,
        Byte => Group::Byte,
        Char | WChar | Packed => Group::Unreducible,
        FloatInt | DoubleInt | LongInt | TwoInt | ShortInt | LongDoubleInt | TwoFloat32 | TwoFloat64 => Group::Pair,
    }
}

/// Whether `op` is defined for `element` (the tables of MPI-5.0 §6.9.2 and §6.9.4). REPLACE and NO_OP are for all;
/// that they are for one-sided operations only is the caller's matter.
pub const fn supports(op: Op, element: Element) -> bool {
    let group = group(element);
    match op {
        Op::Max | Op::Min => matches!(group, Group::Integer | Group::Floating),
        Op::Sum | Op::Prod => matches!(group, Group::Integer | Group::Floating | Group::Complex),
        Op::LAnd | Op::LOr | Op::LXor => matches!(group, Group::Integer | Group::Logical),
        Op::BAnd | Op::BOr | Op::BXor => matches!(group, Group::Integer | Group::Byte),
        Op::MinLoc | Op::MaxLoc => matches!(group, Group::Pair),
        Op::Replace | Op::NoOp => true,
    }
}

/// `inout[i] = input[i] op inout[i]` for arrays of elements one extent apart, as in memory.
///
/// # Panics
/// When the lengths differ, are no multiple of the element's extent, or `supports(op, element)` is false.
pub fn apply(op: Op, element: Element, input: &[u8], inout: &mut [u8]) {
    let step = element.extent();
    check(op, element, step, input, inout);
    match element.pair() {
        Some(places) if matches!(op, Op::MinLoc | Op::MaxLoc) => {
            pair::apply(op, element, step, places.index_offset, input, inout);
        }
        _ => kernel::apply(op, element, input, inout),
    }
}

/// The same for packed elements, one size apart; it differs from [`apply`] for pairs with padding only.
///
/// # Panics
/// As [`apply`], with the size for the extent.
pub fn apply_packed(op: Op, element: Element, input: &[u8], inout: &mut [u8]) {
    let step = element.size();
    check(op, element, step, input, inout);
    match element.pair() {
        Some(places) if matches!(op, Op::MinLoc | Op::MaxLoc) => {
            pair::apply(op, element, step, places.value_size, input, inout);
        }
        _ => kernel::apply(op, element, input, inout),
    }
}

fn check(op: Op, element: Element, step: usize, input: &[u8], inout: &[u8]) {
    assert!(supports(op, element), "{op:?} is not defined for {element:?}");
    assert_eq!(input.len(), inout.len(), "a reduction takes two arrays of one length");
    assert_eq!(inout.len() % step, 0, "a reduction takes whole elements");
}
