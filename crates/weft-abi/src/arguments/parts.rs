//! Groups of arguments that describe data together. A function of `calls/` whose parameters have these types
//! gets one value for each group.

use std::ffi::c_int;

use super::{Buffer, UnmeasuredArray, UnmeasuredCounts};
use crate::types::{MPI_Aint, MPI_Datatype};

/// Items of one datatype in memory of the program.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) buffer: Buffer,
    pub(crate) count: i64,
    pub(crate) datatype: MPI_Datatype,
}

/// Blocks of one datatype: for each process a number of items at a displacement, in extents of the datatype.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'call> {
    pub(crate) buffer: Buffer,
    pub(crate) counts: UnmeasuredCounts<'call>,
    pub(crate) displacements: UnmeasuredCounts<'call>,
    pub(crate) datatype: MPI_Datatype,
}

/// Blocks of several datatypes: for each process a number of items of its datatype at a displacement, in
/// bytes.
#[derive(Clone, Copy)]
pub(crate) struct TypedParts<'call> {
    pub(crate) buffer: Buffer,
    pub(crate) counts: UnmeasuredCounts<'call>,
    pub(crate) displacements: UnmeasuredCounts<'call>,
    pub(crate) datatypes: UnmeasuredArray<'call, MPI_Datatype>,
}

/// Items of one datatype in the window of another process.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) rank: c_int,
    pub(crate) disp: MPI_Aint,
    pub(crate) count: i64,
    pub(crate) datatype: MPI_Datatype,
}
