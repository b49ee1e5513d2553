//! Functions that MPI-3.0 removed and binaries still call (§16 there), where no present procedure does the
//! same. The others are second names, see `spec/removed.txt`.

use super::datatypes::type_get_extent;
use crate::arguments::*;
use crate::types::{MPI_Aint, MPI_Datatype};
use weft_mpi::error::Result;

/// MPI_Type_extent (MPI-1.1 §3.12.3).
pub(crate) fn type_extent(datatype: MPI_Datatype, extent: Out<MPI_Aint>) -> Result<()> {
    let (_, found) = bounds(datatype)?;
    extent.set(found);
    Ok(())
}

/// MPI_Type_lb (MPI-1.1 §3.12.3).
pub(crate) fn type_lb(datatype: MPI_Datatype, displacement: Out<MPI_Aint>) -> Result<()> {
    let (lower, _) = bounds(datatype)?;
    displacement.set(lower);
    Ok(())
}

/// MPI_Type_ub (MPI-1.1 §3.12.3).
pub(crate) fn type_ub(datatype: MPI_Datatype, displacement: Out<MPI_Aint>) -> Result<()> {
    let (lower, extent) = bounds(datatype)?;
    displacement.set(lower.wrapping_add(extent));
    Ok(())
}

/// Lower bound and extent in bytes.
fn bounds(datatype: MPI_Datatype) -> Result<(MPI_Aint, MPI_Aint)> {
    let (mut lower, mut extent) = (0, 0);
    type_get_extent(datatype, Out::from(&mut lower), Out::from(&mut extent))?;
    Ok((lower as MPI_Aint, extent as MPI_Aint))
}
