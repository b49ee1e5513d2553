//! Operations under way in several steps: the process holds them, and `crate::collective` moves them on.

use weft_engine::arguments::CollectiveScope;
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

/// Messages under way between the processes of an operation that is made of them.
pub(crate) struct Exchange {
    /// The request of the operation.
    pub(crate) request: usize,
    /// The operation.
    pub(crate) scope: CollectiveScope,
    /// The sends and receives.
    pub(crate) requests: Vec<usize>,
    /// The continuation.
    pub(crate) then: Box<Continuation>,
}

/// All such messages.
pub(crate) struct Exchanges {
    pub(crate) under_way: Vec<Exchange>,
    /// Ends are being looked for: an exchange that begins now is looked at by that search.
    pub(crate) is_searched: bool,
}

impl Exchanges {
    pub(crate) const fn new() -> Self {
        Self { under_way: Vec::new(), is_searched: false }
    }

    /// Returns whether nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }
}

/// Work on a file that is done without the process lock. It returns what is to be done with the lock
/// afterwards.
pub type FileJob = Box<dyn FnOnce() -> Box<dyn FnOnce(&mut Process) + Send> + Send>;
