//! Collectives under way: the process holds them, and `crate::collective` moves them on.

use weft_engine::schedules::Cursor;

use super::Process;
use crate::error::Error;

/// A collective under way.
pub struct Running {
    /// The request that completes with it.
    pub(crate) request: usize,
    /// The progress of its schedule.
    pub(crate) cursor: Cursor,
    /// The continuation of the larger operation of which it is a step, if it is one.
    pub(crate) then: Option<Box<Continuation>>,
}

/// The continuation that runs when a collective is complete, with the error that it met.
pub(crate) type Continuation = dyn FnOnce(&mut Process, Option<Error>) + Send;
