//! Reduction operations on predefined datatypes (MPI-5.0 §6.9.2, §6.9.4).

use crate::layout::Element;

/// A predefined reduction operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Op {
    /// `MPI_MAX`.
    Max,
    /// `MPI_MIN`.
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

/// Whether `op` is defined for `element` (the tables of MPI-5.0 §6.9.2 and §6.9.4).
pub fn supports(_op: Op, _element: Element) -> bool {
    todo!("tables")
}

/// `inout[i] = input[i] op inout[i]` for arrays of elements, one extent apart as in memory.
///
/// # Panics
/// When the lengths differ, are no multiple of the element's extent, or `supports(op, element)` is false.
pub fn apply(_op: Op, _element: Element, _input: &[u8], _inout: &mut [u8]) {
    todo!("kernels")
}

/// The same for packed elements, one size apart: differs from [`apply`] for pairs with padding only.
///
/// # Panics
/// As [`apply`], with the size for the extent.
pub fn apply_packed(_op: Op, _element: Element, _input: &[u8], _inout: &mut [u8]) {
    todo!("kernels")
}
