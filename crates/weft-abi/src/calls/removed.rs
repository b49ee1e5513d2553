//! What MPI-3.0 removed and binaries still call (§16 there): only what no procedure of today says by itself. The others are second
//! names, see `spec/removed.txt`.

use super::datatypes::type_get_extent;
use crate::types::{MPI_Aint, MPI_Datatype};
use weft_mpi::error::Result;

/// MPI_Type_extent (MPI-1.1 §3.12.3).
///
/// # Safety
/// `extent` can be written.
pub(crate) unsafe fn type_extent(datatype: MPI_Datatype, extent: *mut MPI_Aint) -> Result<()> {
    let (_, found) = bounds(datatype)?;
    // SAFETY: the caller's pointer.
    unsafe { *extent = found };
    Ok(())
}

/// MPI_Type_lb (MPI-1.1 §3.12.3).
///
/// # Safety
/// `displacement` can be written.
pub(crate) unsafe fn type_lb(datatype: MPI_Datatype, displacement: *mut MPI_Aint) -> Result<()> {
    let (lower, _) = bounds(datatype)?;
    // SAFETY: the caller's pointer.
    unsafe { *displacement = lower };
    Ok(())
}

/// MPI_Type_ub (MPI-1.1 §3.12.3).
///
/// # Safety
/// `displacement` can be written.
pub(crate) unsafe fn type_ub(datatype: MPI_Datatype, displacement: *mut MPI_Aint) -> Result<()> {
    let (lower, extent) = bounds(datatype)?;
    // SAFETY: the caller's pointer.
    unsafe { *displacement = lower.wrapping_add(extent) };
    Ok(())
}

/// Lower bound and extent in bytes.
fn bounds(datatype: MPI_Datatype) -> Result<(MPI_Aint, MPI_Aint)> {
    let (mut lower, mut extent) = (0, 0);
    // SAFETY: it writes to two references.
    unsafe { type_get_extent(datatype, &mut lower, &mut extent) }?;
    Ok((lower as MPI_Aint, extent as MPI_Aint))
}
