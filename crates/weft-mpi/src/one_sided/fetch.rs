//! An atomic operation on one number of a window, for the library itself: the shared pointer of a file.

use std::sync::LazyLock;

use weft_core::layout::{Element, Layout};
use weft_core::reduce::Op;
use weft_engine::engine::TargetItems;

use super::completion::{Awaiting, finish};
use crate::error::{Error, Result};
use crate::memory::SharedBuffer;
use crate::process::with;

static NUMBER: LazyLock<Layout> = LazyLock::new(|| Layout::element(Element::Int64));

/// Replaces the first number of the part of `rank` by what `op` makes of it and `value`, and returns what it
/// was before. The window is in an epoch with that process.
///
/// # Errors
/// `MPI_ERR_WIN`; the process is gone.
pub fn fetch_and_op(window: usize, rank: u32, op: Op, value: i64) -> Result<i64> {
    let (origin, result) = (SharedBuffer::of_values(&[value]), SharedBuffer::of_values(&[0]));
    let index = with(|process| {
        let (found, engine) = process.window_parts(window)?;
        let target = TargetItems { target: rank, offset: 0, count: 1, layout: &NUMBER };
        let operation = (op, Element::Int64);
        let (from, to) = (origin.describe_all(), result.describe_all());
        engine.one_sided().accumulate(found.index, target, operation, &from, Some(&to), false)?;
        Ok::<_, Error>(found.index)
    })?;
    finish(index, Some(&[rank]), Awaiting::Done)?;
    Ok(result.values()[0])
}
