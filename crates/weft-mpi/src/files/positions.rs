//! File pointers (MPI-5.0 §14.4.3, §14.4.4), in etypes of the view.
//!
//! The shared pointer is a number in the file's window, at rank 0. Each access by it is one atomic addition
//! there.

use weft_core::fingerprint;
use weft_core::reduce::Op;

use super::failure::Failure;
use super::opening::{Common, OWNER, set_shared};
use crate::constants::*;
use crate::error::{Error, Result};
use crate::file::File;
use crate::one_sided::fetch_and_op;
use crate::process::with;

/// An offset of the program.
pub(super) fn natural_offset(offset: i64) -> Result<u64> {
    let wrong = || Error::new(MPI_ERR_ARG, format!("offset is {offset}; it must not be negative"));
    u64::try_from(offset).map_err(|_| wrong())
}

fn too_far() -> Error {
    Error::new(MPI_ERR_IO, "the file pointer would move past the offset 2^63 - 1")
}

/// Moves the individual pointer, and returns where it was.
pub(super) fn advance(file: usize, etypes: u64) -> Result<u64> {
    with(|process| {
        let found = process.objects.file_mut(file)?;
        let before = found.position;
        found.position = before.checked_add(etypes).filter(|at| *at <= i64::MAX as u64).ok_or_else(too_far)?;
        Ok(before)
    })
}

/// Moves the shared pointer of the file with this window, and returns where it was.
pub(super) fn advance_shared(window: usize, etypes: u64) -> Result<u64> {
    let by = i64::try_from(etypes).map_err(|_| too_far())?;
    u64::try_from(fetch_and_op(window, OWNER, Op::Sum, by)?).map_err(|_| too_far())
}

/// Moves the shared pointer past the data of all processes, and returns where that of this process begins:
/// behind that of lower ranks.
pub(super) fn advance_ordered(file: usize, etypes: u64) -> Result<u64> {
    let common = Common::of(file)?;
    let all = common.gather(&[etypes as i64])?;
    let counts = all.iter().map(|count| *count as u64);
    let sum = |ranks: usize| counts.clone().take(ranks).try_fold(0_u64, u64::checked_add);
    let total = sum(all.len()).ok_or_else(too_far)?;
    let first = common.by_rank_0(|| advance_shared(common.window, total).map_err(Failure::from))?;
    first.checked_add(sum(common.rank as usize).ok_or_else(too_far)?).ok_or_else(too_far)
}

/// The shared pointer (`MPI_File_get_position_shared`).
///
/// # Errors
/// `MPI_ERR_FILE`; the process that has it is gone.
pub fn shared_position(file: usize) -> Result<i64> {
    let window = with(|process| {
        let found = process.objects.file(file)?;
        found.check_positions()?;
        Ok::<_, Error>(found.window)
    })?;
    fetch_and_op(window, OWNER, Op::NoOp, 0)
}

/// The individual pointer (`MPI_File_get_position`).
///
/// # Errors
/// `MPI_ERR_FILE`, `MPI_ERR_UNSUPPORTED_OPERATION`.
pub fn position(file: usize) -> Result<i64> {
    with(|process| {
        let found = process.objects.file(file)?;
        found.check_positions()?;
        Ok(found.position as i64)
    })
}

/// The offset that `whence` and `offset` name, where the pointer is at `current`.
fn target(file: &File, offset: i64, whence: i32, current: u64) -> Result<u64> {
    let base = match whence {
        MPI_SEEK_SET => 0,
        MPI_SEEK_CUR => current,
        MPI_SEEK_END => {
            let size = file.body.size().map_err(|error| Failure::from(error).error)?;
            file.view.view.end_of_file(size)
        }
        other => {
            let message = format!("whence is {other}; it must be MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END");
            return Err(Error::new(MPI_ERR_ARG, message));
        }
    };
    let wrong = || Error::new(MPI_ERR_ARG, format!("offset {offset} from {base} is before the view or past 2^63 - 1"));
    base.checked_add_signed(offset).filter(|at| *at <= i64::MAX as u64).ok_or_else(wrong)
}

/// Moves the individual pointer (`MPI_File_seek`).
///
/// # Errors
/// `MPI_ERR_FILE`, `MPI_ERR_ARG`, `MPI_ERR_UNSUPPORTED_OPERATION`.
pub fn seek(file: usize, offset: i64, whence: i32) -> Result<()> {
    with(|process| {
        let found = process.objects.file_mut(file)?;
        found.check_positions()?;
        found.position = target(found, offset, whence, found.position)?;
        Ok(())
    })
}

/// Moves the shared pointer (`MPI_File_seek_shared`). All processes call this with the same arguments.
///
/// # Errors
/// As for [`seek`], of any process; `MPI_ERR_NOT_SAME`.
pub fn seek_shared(file: usize, offset: i64, whence: i32) -> Result<()> {
    let from = match whence {
        MPI_SEEK_SET => "MPI_SEEK_SET",
        MPI_SEEK_CUR => "MPI_SEEK_CUR",
        MPI_SEEK_END => "MPI_SEEK_END",
        _ => "a wrong whence",
    };
    let words = format!("offset {offset} from {from}");
    let argument = fingerprint::add(fingerprint::EMPTY, words.as_bytes()) as i64;
    let common = Common::of_call(file, Some((argument, words)))?;
    let checked = with(|process| process.objects.file(file)?.check_positions()).map_err(Failure::from);
    common.agree_on(checked, &[offset, i64::from(whence)], "an offset or whence")?;
    // All processes are here, so no earlier access of theirs is behind the seek.
    common.by_rank_0(|| move_shared(file, common.window, offset, whence).map_err(Failure::from)).map(drop)
}

fn move_shared(file: usize, window: usize, offset: i64, whence: i32) -> Result<u64> {
    let current = if whence == MPI_SEEK_CUR { fetch_and_op(window, OWNER, Op::NoOp, 0)? } else { 0 };
    let to = with(|process| target(process.objects.file(file)?, offset, whence, current as u64))?;
    set_shared(window, to)?;
    Ok(to)
}

/// The byte of the file at which the etype `offset` of the view begins (`MPI_File_get_byte_offset`).
///
/// # Errors
/// `MPI_ERR_FILE`, `MPI_ERR_ARG`, `MPI_ERR_UNSUPPORTED_OPERATION`.
pub fn byte_offset(file: usize, offset: i64) -> Result<i64> {
    let offset = natural_offset(offset)?;
    with(|process| {
        let found = process.objects.file(file)?;
        found.check_positions()?;
        let view = &found.view.view;
        let byte = view.data(offset).and_then(|data| view.byte_offset(data));
        byte.map(|byte| byte as i64).map_err(|why| Error::new(MPI_ERR_ARG, format!("offset is {offset}: {why}")))
    })
}
