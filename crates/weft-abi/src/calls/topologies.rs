//! Process topologies (MPI-5.0 §8).
//!
//! # Safety
//! Every function here is called by its generated wrapper with the arguments of the C prototype: arrays have the
//! lengths given beside them.

use crate::generated::constants::*;
use std::ffi::c_int;
use weft_mpi::dimensions::balanced;
use weft_mpi::error::{Error, Result};

/// MPI_Dims_create (MPI-5.0 §8.5.2).
pub(crate) unsafe fn dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) -> Result<()> {
    let wrong = |message: String| Err(Error::new(MPI_ERR_DIMS, message));
    let dims: &mut [c_int] = match ndims {
        0 => &mut [],
        // SAFETY: the caller's array.
        _ => unsafe { std::slice::from_raw_parts_mut(dims, ndims as usize) },
    };
    let Some(nodes) = u32::try_from(nnodes).ok().filter(|nodes| *nodes > 0) else {
        return wrong(format!("nnodes is {nnodes}; it must be at least 1"));
    };
    let mut rest = nodes;
    for (index, dim) in dims.iter().enumerate().filter(|(_, dim)| **dim != 0) {
        match u32::try_from(*dim) {
            Ok(given) if rest.is_multiple_of(given) => rest /= given,
            Ok(_) => return wrong(format!("nnodes is {nnodes}, no multiple of the given dims")),
            Err(_) => return wrong(format!("dims[{index}] is {dim}; it must not be negative")),
        }
    }
    let open = dims.iter().filter(|dim| **dim == 0).count();
    if open == 0 && ndims > 0 && rest != 1 {
        return wrong(format!("nnodes is {nnodes}, but the given dims have {} nodes", nodes / rest));
    }
    let factors = balanced(rest, open);
    for (dim, factor) in dims.iter_mut().filter(|dim| **dim == 0).zip(factors) {
        *dim = factor as c_int;
    }
    Ok(())
}
