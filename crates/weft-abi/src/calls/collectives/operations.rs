//! Reduction operations (MPI-5.0 §6.9.5 to §6.9.7), and the reduction that needs no other process.

use super::buffers::check_apart;
use super::plan::*;
use crate::arguments::*;
use crate::check;
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use weft_mpi::callbacks::*;
use weft_mpi::error::{Error, Result};
use weft_mpi::memory::{self, UserFunction};
use weft_mpi::object::Operation;
use weft_mpi::predefined;
use weft_mpi::process::with;
use weft_mpi::reduce::{self, Op};

/// MPI_Reduce_local (MPI-5.0 §6.9.7).
pub(crate) fn reduce_local(
    inbuf: Buffer,
    inoutbuf: Buffer,
    count: i64,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<()> {
    // SAFETY: as below.
    if unsafe { reduce_predefined(inbuf.as_ptr(), inoutbuf.as_ptr(), count, datatype, op) } {
        return Ok(());
    }
    refuse_in_place(inbuf, "inbuf")?;
    refuse_in_place(inoutbuf, "inoutbuf")?;
    let (left, right) = (Part { buffer: inbuf, count, datatype }, Part { buffer: inoutbuf, count, datatype });
    let (description, operation) = with(|process| {
        let (_, description) = left.describe(process, 1)?;
        right.describe(process, 1)?;
        let layout = &description.layout;
        check_apart(Some(left.footprint(1, layout)), Some(right.footprint(1, layout)))?;
        let operation = operation(process, op, &description)?;
        Ok::<_, Error>((description, operation))
    })?;
    // SAFETY: `Buffer::new` was promised `count` items each; the check above found that the buffers are
    // apart.
    unsafe { memory::reduce_local(operation, description.as_ref(), inbuf.as_ptr(), inoutbuf.as_ptr(), count as u64) }
}

/// Reduces by a predefined operation on a predefined datatype, as programs do again and again for a few
/// elements. This depends on no object, so it needs no lock. Returns `false`, with nothing done, for other
/// operations and for wrong arguments.
///
/// # Safety
/// Buffers that are apart and not null hold `count` items each.
#[inline]
unsafe fn reduce_predefined(input: *const u8, inout: *mut u8, count: i64, datatype: MPI_Datatype, op: MPI_Op) -> bool {
    let (Some(op), Some(element)) = (predefined::operation(op.0), predefined::element(datatype.0)) else {
        return false;
    };
    let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(element.extent()));
    let Some(bytes) = bytes.filter(|_| !matches!(op, Op::Replace | Op::NoOp) && reduce::supports(op, element)) else {
        return false;
    };
    let (left, right) = (input.addr(), inout.addr());
    let are_somewhere = [left, right].iter().all(|base| memory::check_bytes(*base, bytes as u64).is_ok());
    if !are_somewhere || left.abs_diff(right) < bytes {
        return false;
    }
    // SAFETY: the buffers are apart, and the caller promises that they hold so many items.
    unsafe { memory::reduce_elements(op, element, input, inout, count as usize) };
    true
}

/// MPI_Op_create (MPI-5.0 §6.9.5).
pub(crate) fn op_create(user_fn: Option<MPI_User_function>, commute: c_int, op: Out<MPI_Op>) -> Result<()> {
    create_operation(UserFunction::Small(check::function("user_fn", user_fn)?), commute, op)
}

/// MPI_Op_create_c (MPI-5.0 §6.9.5).
pub(crate) fn op_create_c(user_fn: Option<MPI_User_function_c>, commute: c_int, op: Out<MPI_Op>) -> Result<()> {
    create_operation(UserFunction::Large(check::function("user_fn", user_fn)?), commute, op)
}

fn create_operation(function: UserFunction, commute: c_int, op: Out<MPI_Op>) -> Result<()> {
    let operation = weft_mpi::object::UserOperation { function, commutative: commute != 0 };
    let handle = with(|process| process.objects.operations.insert(operation));
    let handle = handle.ok_or_else(|| weft_mpi::object::full("reduction operations"))?;
    op.set(MPI_Op(handle));
    Ok(())
}

/// MPI_Op_free (MPI-5.0 §6.9.5). Collectives that use the operation keep what they need of it.
pub(crate) fn op_free(op: InOut<MPI_Op>) -> Result<()> {
    let handle = op.get();
    with(|process| {
        if matches!(process.objects.operation(handle.0)?, Operation::Predefined(_)) {
            return Err(Error::new(MPI_ERR_OP, "a predefined operation cannot be freed"));
        }
        process.objects.operations.remove(handle.0);
        Ok(())
    })?;
    op.set(MPI_Op::NULL);
    Ok(())
}

/// MPI_Op_commutative (MPI-5.0 §6.9.7).
pub(crate) fn op_commutative(op: MPI_Op, commute: Out<c_int>) -> Result<()> {
    let commutative = with(|process| Ok::<_, Error>(process.objects.operation(op.0)?.is_commutative()))?;
    commute.set(c_int::from(commutative));
    Ok(())
}
