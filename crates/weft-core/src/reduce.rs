//! Reduction operations on predefined datatypes (MPI-5.0 §6.9.2, §6.9.4): the table of allowed ones. The
//! arithmetic is `weft-reduce`'s.

#[cfg(test)]
mod tests;

use weft_reduce::{Kind, Pair};

use crate::layout::Element;

pub use weft_reduce::Op;

/// The groups of types in the tables of MPI-5.0 §6.9.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Group {
    /// C integer, Fortran integer and multi-language types. An [`Element`] does not tell them apart, so the
    /// logical operations, which the standard defines for C integers only, are allowed for all of them.
    /// `MPI_CHAR` is in this group, too. The standard leaves it out, but every other library takes it, and
    /// some programs and benchmarks reduce it.
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
        Int8 | Int16 | Int32 | Int64 | Int128 | UInt8 | UInt16 | UInt32 | UInt64 | Char => Group::Integer,
        Float16 | Float32 | Float64 | LongDouble => Group::Floating,
        ComplexFloat16 | ComplexFloat32 | ComplexFloat64 | ComplexLongDouble => Group::Complex,
        Bool | Logical8 | Logical16 | Logical32 | Logical64 | Logical128 => Group::Logical,
        Byte => Group::Byte,
        WChar | Packed => Group::Unreducible,
        FloatInt | DoubleInt | LongInt | TwoInt | ShortInt | LongDoubleInt | TwoFloat32 | TwoFloat64 => Group::Pair,
    }
}

/// Returns whether `op` is defined for `element` (the tables of MPI-5.0 §6.9.2 and §6.9.4). REPLACE and NO_OP
/// are defined for all elements; the caller must see that only one-sided operations use them.
#[inline(always)]
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

/// The kind of an element for the arithmetic: as in memory, or `packed`. The two differ for pairs only.
const fn kind(element: Element, packed: bool) -> Kind {
    use Element::*;
    let pair = match element {
        Int8 | Char => return Kind::Int8,
        Int16 => return Kind::Int16,
        Int32 => return Kind::Int32,
        Int64 => return Kind::Int64,
        Int128 => return Kind::Int128,
        UInt8 | Byte | Bool | Logical8 | Packed => return Kind::UInt8,
        UInt16 | Logical16 => return Kind::UInt16,
        UInt32 | Logical32 | WChar => return Kind::UInt32,
        UInt64 | Logical64 => return Kind::UInt64,
        Logical128 => return Kind::UInt128,
        Float16 => return Kind::Float16,
        Float32 => return Kind::Float32,
        Float64 => return Kind::Float64,
        LongDouble => return Kind::LongDouble,
        ComplexFloat16 => return Kind::ComplexFloat16,
        ComplexFloat32 => return Kind::ComplexFloat32,
        ComplexFloat64 => return Kind::ComplexFloat64,
        ComplexLongDouble => return Kind::ComplexLongDouble,
        FloatInt => Pair::FloatInt,
        DoubleInt => Pair::DoubleInt,
        LongInt => Pair::LongInt,
        TwoInt => Pair::TwoInt,
        ShortInt => Pair::ShortInt,
        LongDoubleInt => Pair::LongDoubleInt,
        TwoFloat32 => Pair::TwoFloat32,
        TwoFloat64 => Pair::TwoFloat64,
    };
    if packed { Kind::PackedPair(pair) } else { Kind::Pair(pair) }
}

/// Computes `inout[i] = input[i] op inout[i]` for arrays of elements one extent apart, as in memory.
///
/// # Panics
/// When the lengths differ, are no multiple of the element's extent, or `supports(op, element)` is false.
pub fn apply(op: Op, element: Element, input: &[u8], inout: &mut [u8]) {
    check(op, element);
    weft_reduce::apply(op, kind(element, false), input, inout);
}

/// Computes `out[i] = left[i] op right[i]`, in one pass over memory where a copy and [`apply`] would be two.
///
/// # Panics
/// When [`apply`] would panic.
pub fn combine(op: Op, element: Element, left: &[u8], right: &[u8], out: &mut [u8]) {
    check(op, element);
    weft_reduce::combine(op, kind(element, false), left, right, out);
}

/// Reduces as [`apply`], for packed elements, one size apart. It differs for pairs with padding only.
///
/// # Panics
/// When [`apply`] would panic, with the size in place of the extent.
pub fn apply_packed(op: Op, element: Element, input: &[u8], inout: &mut [u8]) {
    check(op, element);
    weft_reduce::apply(op, kind(element, true), input, inout);
}

fn check(op: Op, element: Element) {
    assert!(supports(op, element), "{op:?} is not defined for {element:?}");
}

/// The arithmetic takes the same steps as the layouts, and has a meaning for every allowed pair.
const _: () = {
    let mut at = 0;
    while at < Element::ALL.len() {
        let element = Element::ALL[at];
        assert!(kind(element, false).step() == element.extent() && kind(element, true).step() == element.size());
        let mut op = 0;
        while op < Op::ALL.len() {
            assert!(!supports(Op::ALL[op], element) || kind(element, false).supports(Op::ALL[op]));
            op += 1;
        }
        at += 1;
    }
};
