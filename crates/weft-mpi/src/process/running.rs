//! Collectives under way: the process holds them, and `crate::collective` moves them on.

use weft_engine::schedules::Cursor;

use super::Process;
use crate::error::Error;

/// A collective under way.
pub struct Running {
    /// Completes with it.
    pub(crate) request: usize,
    /// Where it is.
    pub(crate) cursor: Cursor,
    /// What it is a step of, if it is: goes on with it.
    pub(crate) then: Option<Box<Continuation>>,
}

/// What is done when a collective is complete, with the error that it met.
pub(crate) type Continuation = dyn FnOnce(&mut Process, Option<Error>) + Send;
