//! Runs collective schedules, which `weft_plan::collective` plans. The boundary starts the program's
//! collectives here; `communicator.rs`, `check.rs` and `one_sided.rs` start the library's own.
//!
//! A running collective owns the requests of its current round. The progress loop moves it on; only the
//! program's reduction functions are left to a thread that waits, because they must run while the lock is
//! free.

mod at_once;
mod exchange;
mod persistent;
mod plans;

use std::sync::Arc;

use weft_engine::memory::Run;
use weft_engine::schedules::{Cursor, InOrder, Progress, run_in_order};

use crate::error::{Error, Result};
use crate::memory::UserReduction;
use crate::process::{Process, Running};

pub use at_once::run;
pub use weft_engine::arguments::{Arguments, Bound, CollectiveScope, Datatype, SharedDatatype};

impl Process {
    /// Starts `bound` among the processes of `scope`. The request completes with it. All of them must call
    /// this in the same order (MPI-5.0 §6.14).
    ///
    /// # Errors
    /// Too many requests, or no memory for the scratch buffer.
    pub fn start_collective(&mut self, scope: CollectiveScope, bound: Arc<Bound>) -> Result<usize> {
        let request = self.collective_request(&scope)?;
        self.start_schedule(request, scope, bound)?;
        Ok(request)
    }

    /// Makes the request of an operation of the processes of `scope`. If there is none, this process takes no
    /// part, and the others are told.
    ///
    /// # Errors
    /// Too many requests.
    pub(crate) fn collective_request(&mut self, scope: &CollectiveScope) -> Result<usize> {
        let added = self.messages()?.add_collective(scope.communicator);
        self.take_part(scope, added)
    }

    /// Returns what this process needs for its part of the operation of `scope`. If this process has not got
    /// it, the others are told.
    fn take_part<T>(&mut self, scope: &CollectiveScope, needed: Result<T>) -> Result<T> {
        if let Err(error) = &needed {
            self.engine()?.give_up(scope, error);
        }
        needed
    }

    /// Returns the scope of the next collective of `communicator`, which counts as begun.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`, on an intercommunicator too.
    pub fn collective_scope(&mut self, communicator: usize) -> Result<CollectiveScope> {
        self.objects.communicator(communicator)?.check_collective()?;
        self.agreement_scope(communicator)
    }

    /// Returns the scope of the next collective between one process of an intercommunicator and the opposite
    /// group. With a `root`, these are the process of this rank in the remote group, and this process's own
    /// group. Without a `root`, they are this process and the remote group. The single process has rank 0 in
    /// the scope.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`.
    pub fn rooted_scope(&mut self, communicator: usize, root: Option<u32>) -> Result<CollectiveScope> {
        let scope = self.agreement_scope(communicator)?;
        let object = self.objects.communicator(communicator)?;
        let (first, rank, others) = match root {
            Some(root) => (object.partners().members[root as usize], object.rank + 1, &object.group),
            None => (object.group.members[object.rank as usize], 0, object.partners()),
        };
        let members = [first].into_iter().chain(others.members.iter().copied()).collect();
        Ok(CollectiveScope { group: object.group.derive(members, self.own()), rank, ..scope })
    }

    /// Returns the scope of an agreement among all processes of `communicator`, of both groups if there are
    /// two. The agreement counts as a collective.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`.
    pub fn agreement_scope(&mut self, communicator: usize) -> Result<CollectiveScope> {
        let object = self.objects.communicator_mut(communicator)?;
        object.check_not_revoked()?;
        let tag = (object.collectives & 0x7fff_ffff) as i32;
        object.collectives = object.collectives.wrapping_add(1);
        let context = object.collective_context();
        let (group, rank) = object.everybody();
        Ok(CollectiveScope { communicator, context, tag, group: group.clone(), rank, sources: None, turn: None })
    }

    /// Runs `bound` among the processes of `scope`; `request` (state `Collective`) completes with it.
    ///
    /// # Errors
    /// No memory for the scratch buffer.
    pub fn start_schedule(&mut self, request: usize, scope: CollectiveScope, bound: Arc<Bound>) -> Result<()> {
        self.engine()?;
        let scratch = self.take_part(&scope, Cursor::scratch(&bound))?;
        let engine = self.engine()?;
        let cursor = if bound.schedule().phases > 0 {
            // Data that other processes have published already is taken without building anything for it.
            let run = Run::new(bound, scratch);
            match run_in_order(engine, &scope, &run, |_| false) {
                Ok(InOrder::Stopped { complete, failed }) => Cursor::behind(scope, run, complete, failed),
                complete => {
                    self.complete_collective(request, complete.err());
                    return Ok(());
                }
            }
        } else {
            Cursor::in_scratch(scope, bound, scratch)
        };
        self.go_on(Running { request, cursor, then: None });
        Ok(())
    }

    /// Runs a collective that is a step of a larger operation. `then` goes on when it is complete, and
    /// completes `request`.
    pub(crate) fn run_then(
        &mut self,
        request: usize,
        cursor: Cursor,
        then: impl FnOnce(&mut Self, Option<Error>) + Send + 'static,
    ) {
        self.go_on(Running { request, cursor, then: Some(Box::new(then)) });
    }

    /// Moves `running` on from where it is, now and in the progress loop.
    fn go_on(&mut self, mut running: Running) {
        let Ok(engine) = self.engine() else { return };
        match running.cursor.advance(engine) {
            Progress::Complete => self.finish_collective(running, None),
            Progress::Failed(error) => self.finish_collective(running, Some(error)),
            Progress::Waits => {
                self.collectives.insert(running);
            }
        }
    }

    pub(crate) fn finish_collective(&mut self, running: Running, error: Option<Error>) {
        let Ok(engine) = self.engine() else { return };
        // After an error there may be transfers left.
        running.cursor.abandon(engine);
        if let Some(then) = running.then {
            return then(self, error);
        }
        self.complete_collective(running.request, error);
    }

    fn complete_collective(&mut self, request: usize, error: Option<Error>) {
        let Ok(messages) = self.messages() else { return };
        if let Some(request) = messages.requests.get_mut(request) {
            request.error = error;
        }
        messages.complete(request);
    }

    /// Moves every running collective on.
    pub fn advance_collectives(&mut self) {
        let Some(completions) = self.messages().ok().map(|messages| messages.completions()) else { return };
        if completions == self.collectives_seen {
            return;
        }
        self.collectives_seen = completions;
        self.advance_exchanges();
        let handles: Vec<usize> = self.collectives.iter().map(|(handle, _)| handle).collect();
        for handle in handles {
            self.advance_collective(handle);
        }
    }

    fn advance_collective(&mut self, handle: usize) {
        let Some((collectives, engine)) = self.collectives_and_engine() else { return };
        // The collective keeps its handle: a thread that runs a reduction function for it comes back with the
        // handle.
        let Some(running) = collectives.get_mut(handle) else { return };
        let error = match running.cursor.advance(engine) {
            Progress::Waits => return,
            Progress::Complete => None,
            Progress::Failed(error) => Some(error),
        };
        if let Some(running) = collectives.remove(handle) {
            self.finish_collective(running, error);
        }
    }

    /// Returns whether a reduction function of the program is due.
    #[inline]
    pub fn has_due_reductions(&self) -> bool {
        !self.collectives.is_empty() && self.collectives.iter().any(|(_, running)| running.cursor.has_due_reduction())
    }

    /// Takes a due call of the program's reduction function, and the handle of its collective.
    pub fn take_due_reduction(&mut self) -> Option<(usize, UserReduction)> {
        let handle = self.collectives.iter().find(|(_, running)| running.cursor.has_due_reduction());
        let handle = handle.map(|(handle, _)| handle)?;
        let reduction = self.collectives.get_mut(handle)?.cursor.take_due_reduction()?;
        Some((handle, reduction))
    }

    /// Notes that the reduction function of a collective has returned.
    pub fn finish_reduction(&mut self, handle: usize) {
        if let Some(running) = self.collectives.get_mut(handle) {
            running.cursor.finish_reduction();
            self.advance_collective(handle);
        }
    }
}
