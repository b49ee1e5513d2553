//! Collective operations: a [`Cursor`] carries out a schedule.
//!
//! `weft_plan::collective` plans the part of each process as an immutable schedule, which is [bound](Bound)
//! to the buffers of the operation. A bound schedule is shared and never changed, so a persistent operation
//! is started again without copying it.
//!
//! The cursor knows how far one run of the schedule has come ([`Frontier`]), and owns the requests of the
//! transfers under way. Each pass of progress moves it on ([`Cursor::advance`]). Only reduction functions of
//! the program are left to a thread that waits: they may call MPI, so they must run while the engine is free.
//!
//! `weft-mpi` starts cursors and moves them on (`collective.rs`).

mod in_order;
mod transfers;

use std::sync::Arc;

use weft_plan::collective::{Frontier, Step};

use crate::arguments::{Bound, CollectiveScope, Operation, Turn};
use crate::engine::{Engine, SlotWait};
use crate::error::{Cause, Error, ErrorClass, Result};
use crate::memory::{Run, Scratch, UserReduction};
use crate::request::{Receive, Request, State};
use crate::transport::Platform;
use in_order::{Share, share};

pub use in_order::{InOrder, run_in_order};

/// The most working memory that one collective may ask for, in bytes.
const SCRATCH_MAX: u64 = 1 << 44;

/// The outcome of moving a cursor on.
pub enum Progress {
    /// The operation waits for messages, or for a reduction function of the program.
    Waits,
    /// The operation is complete.
    Complete,
    /// The operation cannot be completed.
    Failed(Error),
}

/// The outcome of a cursor that goes on [without requests](Cursor::go_without_requests).
pub enum AtOnce {
    /// The operation is complete.
    Complete,
    /// The next step needs the end of this receive: call [`Cursor::finish_receive`] then.
    Receive(Receive),
    /// The next step needs requests: it is for [`Cursor::advance`].
    NeedsRequests,
}

/// A run of a bound schedule: its state, and the processes that take part.
pub struct Cursor {
    run: Run,
    frontier: Frontier,
    /// The requests of the transfers that are under way,
    transfers: Vec<usize>,
    /// and the steps to which they belong.
    steps: Vec<u32>,
    scope: CollectiveScope,
    /// The step of the receive that the caller waits for without a request.
    received: Option<u32>,
    reducing: Option<Reducing>,
    /// The steps that wait for other processes of the node to publish, each with its wait.
    waiting: Vec<(u32, SlotWait)>,
    /// The turn of the operation in its slot, until its part there is finished.
    turn: Option<Turn>,
    /// The error of a local step. The other processes wait for later steps, so the operation goes on, and
    /// fails at its end.
    failed: Option<Error>,
    /// The number of steps that are not complete and that other processes need.
    owed: u32,
    /// The reason why the operation cannot be completed.
    given_up: Option<Why>,
}

/// The reason why an operation is given up before its end.
#[derive(Clone, Copy)]
struct Why {
    cause: Cause,
    /// Set if another process has told this one, so that the others know the reason already.
    is_told: bool,
}

/// Returns whether other processes wait for a step, or the step is a message.
fn is_owed(step: &Step) -> bool {
    step.is_transfer() || matches!(step, Step::Publish { .. } | Step::Expose { .. } | Step::Finish { .. })
}

/// A call of the program's reduction function that is due, or runs.
struct Reducing {
    step: u32,
    due: Option<UserReduction>,
    /// Other reduction steps, whose turn comes afterwards.
    others: Vec<u32>,
}

impl Cursor {
    /// Makes a cursor at the beginning of `bound`.
    ///
    /// # Errors
    /// The schedule asks for more working memory than there can be.
    pub fn new(scope: CollectiveScope, bound: Arc<Bound>) -> Result<Self> {
        let scratch = Self::scratch(&bound)?;
        Ok(Self::in_scratch(scope, bound, scratch))
    }

    /// Makes the working memory for one run of `bound`.
    ///
    /// # Errors
    /// As for [`Cursor::new`].
    pub fn scratch(bound: &Bound) -> Result<Scratch> {
        let bytes = bound.schedule().scratch;
        if bytes > SCRATCH_MAX {
            return Err(Error::new(ErrorClass::NoMem, format!("the collective needs {bytes} bytes of working memory")));
        }
        Ok(bound.scratch())
    }

    /// Makes a cursor with working memory that the caller has made: see [`Run::new`].
    ///
    /// # Panics
    /// As [`Run::new`].
    pub fn in_scratch(scope: CollectiveScope, bound: Arc<Bound>, scratch: Scratch) -> Self {
        Self::of_run(scope, Run::new(bound, scratch))
    }

    fn of_run(scope: CollectiveScope, run: Run) -> Self {
        let bound = run.bound();
        let frontier = Frontier::new(bound.schedule());
        let bound_phases = bound.schedule().phases;
        let owed = bound.schedule().steps().filter(|step| is_owed(step)).count() as u32;
        assert!(bound_phases == 0 || scope.turn.is_some(), "an operation through shared memory has its turn");
        Self {
            run,
            frontier,
            transfers: Vec::new(),
            steps: Vec::new(),
            received: None,
            reducing: None,
            waiting: Vec::new(),
            turn: scope.turn.filter(|_| bound_phases > 0),
            scope,
            failed: None,
            owed,
            given_up: None,
        }
    }

    /// Makes a cursor for a run of which the first `complete` steps have been done [in order](run_in_order).
    pub fn behind(scope: CollectiveScope, run: Run, complete: u32, failed: Option<Error>) -> Self {
        let mut cursor = Self { failed, ..Self::of_run(scope, run) };
        for number in 0..complete {
            // In that order each step may begin when the steps before it are complete.
            let taken = cursor.frontier.take(number);
            assert!(taken, "step {number} was done before what it waits for");
            cursor.complete(number);
        }
        cursor
    }

    /// The processes of the operation, and its context.
    pub fn scope(&self) -> &CollectiveScope {
        &self.scope
    }

    /// The requests of the transfers under way, for which the cursor waits.
    pub fn transfers(&self) -> &[usize] {
        &self.transfers
    }

    /// Starts the message of a step; returns false if it has left already.
    fn start_transfer<P: Platform>(&mut self, engine: &mut Engine<P>, number: u32) -> Result<bool> {
        let data = self.run.transfer(number);
        let handle = match self.run.bound().schedule().step(number) {
            Step::Send { to, .. } => {
                let send = self.scope.send(*to, data);
                if engine.submit_now(&send) {
                    return Ok(false);
                }
                let handle = engine.messages.add(State::Queued(send), self.scope.communicator)?;
                engine.start_send(handle);
                handle
            }
            Step::Multicast { .. } => {
                let state = State::Multicasting(self.scope.multicast(data));
                let handle = engine.messages.add(state, self.scope.communicator)?;
                engine.multicasts().start_multicast(handle);
                handle
            }
            Step::Receive { from, .. } => {
                let receive = self.scope.receive(*from, data);
                let handle = engine.messages.add(State::Posted(receive), self.scope.communicator)?;
                engine.start_receive(handle);
                handle
            }
            _ => return Ok(false),
        };
        self.transfers.push(handle);
        self.steps.push(number);
        Ok(true)
    }

    /// Does a local step; returns `false` when it is left to the program's function.
    fn do_local(&mut self, number: u32) -> bool {
        let is_reduction = matches!(self.run.bound().schedule().step(number), Step::Reduce { .. });
        if let Some(reducing) = self.reducing.as_mut().filter(|_| is_reduction) {
            reducing.others.push(number);
            return false;
        }
        match self.run.do_local(number) {
            Ok(None) => true,
            Ok(due) => {
                self.reducing = Some(Reducing { step: number, due, others: Vec::new() });
                false
            }
            Err(error) => {
                self.failed = self.failed.take().or(Some(error));
                true
            }
        }
    }

    fn complete(&mut self, number: u32) {
        self.owed -= u32::from(is_owed(self.run.bound().schedule().step(number)));
        self.frontier.complete(self.run.bound().schedule(), number);
    }

    /// Begins all steps that may begin.
    fn begin<P: Platform>(&mut self, engine: &mut Engine<P>) -> Result<()> {
        while let Some(number) = self.frontier.take_next() {
            let step = self.run.bound().schedule().step(number);
            let is_complete = if let Some(phase) = step.phase() {
                match self.share(engine, number) {
                    Share::Done(_) => true,
                    Share::Due(_) => false,
                    Share::Waits(from) => {
                        self.wait_for(engine, number, phase, from)?;
                        false
                    }
                }
            } else if step.is_transfer() {
                let under_way = self.start_transfer(engine, number)?;
                self.frontier.start(self.run.bound().schedule(), number);
                !under_way
            } else {
                self.do_local(number)
            };
            if is_complete {
                self.complete(number);
            }
        }
        Ok(())
    }

    /// Does a step that publishes data, or takes data that has been published.
    fn share<P: Platform>(&mut self, engine: &mut Engine<P>, number: u32) -> Share {
        let is_reduction = matches!(self.run.bound().schedule().step(number), Step::Combine { .. });
        if let Some(reducing) = self.reducing.as_mut().filter(|_| is_reduction) {
            reducing.others.push(number);
            return Share::Due(None);
        }
        let Some(turn) = self.turn else { return Share::Waits(None) };
        let mut shared = share(engine, &self.scope, &turn, &self.run, number);
        match &mut shared {
            Share::Due(due) => self.reducing = Some(Reducing { step: number, due: due.take(), others: Vec::new() }),
            Share::Done(error) => self.failed = self.failed.take().or(error.take()),
            Share::Waits(_) => {}
        }
        shared
    }

    /// Makes a step wait for rank `from`, or for room.
    ///
    /// # Errors
    /// The wait would be in vain.
    fn wait_for<P: Platform>(
        &mut self,
        engine: &mut Engine<P>,
        number: u32,
        phase: u32,
        from: Option<u32>,
    ) -> Result<()> {
        let Some(turn) = self.turn else { return Ok(()) };
        if let Some(error) = engine.node_collectives().slot_error(&turn) {
            return Err(error);
        }
        let wait = engine.node_collectives().slot_wait(&turn, phase, from);
        engine.node_collectives().await_slot(wait);
        self.waiting.push((number, wait));
        Ok(())
    }

    /// Makes steps that have waited for other processes of the node ready to be tried again.
    fn put_back_waiting<P: Platform>(&mut self, engine: &mut Engine<P>) {
        for (number, wait) in self.waiting.drain(..) {
            engine.node_collectives().forget_slot_wait(wait);
            self.frontier.put_back(number);
        }
    }

    /// Ends this process's part: operations that come after it in its slot may begin.
    fn finish_turn<P: Platform>(&mut self, engine: &mut Engine<P>) {
        if let Some(turn) = self.turn.take() {
            engine.node_collectives().finish_turn(&turn, self.run.bound().schedule().phases);
        }
    }

    /// Returns whether other processes may need something of this one before the operation is complete. They
    /// do not where this process has only to take a little out of what they publish.
    pub fn needs_help(&self) -> bool {
        self.owed > 0
    }

    /// The ranks for which steps wait because they have not published yet.
    pub fn missing(&self) -> impl Iterator<Item = u32> {
        self.waiting.iter().filter_map(|(number, _)| match self.run.bound().schedule().step(*number) {
            Step::Collect { from, .. } | Step::Combine { from, .. } | Step::Fetch { from, .. } => Some(*from),
            _ => None,
        })
    }

    /// Removes the complete transfers; returns whether there were any.
    fn collect<P: Platform>(&mut self, engine: &mut Engine<P>) -> Result<bool> {
        let before = self.transfers.len();
        let mut error = None;
        for at in (0..before).rev() {
            let handle = self.transfers[at];
            if engine.messages.requests.get(handle).is_none_or(Request::is_complete) {
                error = engine.messages.take_error(handle).or(error);
                self.transfers.swap_remove(at);
                let number = self.steps.swap_remove(at);
                self.complete(number);
            }
        }
        error.map_or(Ok(self.transfers.len() < before), Err)
    }

    /// The error of the operation, if another process has said that it cannot be completed.
    fn hear<P: Platform>(&mut self, engine: &Engine<P>) -> Option<Error> {
        let error = engine.messages.given_up(&self.scope, &engine.peers)?;
        self.given_up = Some(Why { cause: error.cause(), is_told: true });
        Some(error)
    }

    /// Moves the operation on as far as possible.
    pub fn advance<P: Platform>(&mut self, engine: &mut Engine<P>) -> Progress {
        self.put_back_waiting(engine);
        if let Some(error) = self.hear(engine) {
            return Progress::Failed(error);
        }
        loop {
            let goes_on = self.collect(engine).and_then(|goes_on| {
                self.begin(engine)?;
                Ok(goes_on)
            });
            match goes_on {
                Err(error) => {
                    self.given_up = Some(Why { cause: error.cause(), is_told: false });
                    return Progress::Failed(error);
                }
                Ok(_) if self.frontier.is_at_end() => {
                    self.finish_turn(engine);
                    return self.failed.take().map_or(Progress::Complete, Progress::Failed);
                }
                // Transfers that have just begun may be complete: only a look that finds none ends this.
                Ok(_) if self.has_complete_transfer(engine) => {}
                Ok(_) => return Progress::Waits,
            }
        }
    }

    fn has_complete_transfer<P: Platform>(&self, engine: &Engine<P>) -> bool {
        let is_complete = |handle: &usize| engine.messages.requests.get(*handle).is_none_or(Request::is_complete);
        self.transfers.iter().any(is_complete)
    }

    /// Gives the operation up. A transfer without its request touches no memory any more: arriving data is
    /// dropped, and zeros are read in place of outgoing data.
    ///
    /// If the operation has failed, the processes that may wait for its messages are told.
    pub fn abandon<P: Platform>(mut self, engine: &mut Engine<P>) {
        self.put_back_waiting(engine);
        if let Some(turn) = self.turn {
            engine.node_collectives().break_slot(&turn);
        }
        for handle in &self.transfers {
            engine.abandon_receive(*handle);
        }
        let schedule = self.run.bound().schedule();
        let Some(Why { cause, is_told }) = self.given_up.filter(|_| schedule.steps().any(Step::is_transfer)) else {
            return;
        };
        let partners = schedule.steps().filter_map(|step| match step {
            Step::Send { to: partner, .. } | Step::Receive { from: partner, .. } => Some(*partner),
            _ => None,
        });
        // Processes of the node may wait for data that this one would have published.
        let near = self.turn.iter().flat_map(|turn| engine.node_collectives().ranks_in_slot(turn));
        let partners: Vec<u32> = partners.chain(near).collect();
        engine.give_up_for(&self.scope, cause, !is_told, partners);
    }

    /// Ends the operation when the receive that [`Self::go_without_requests`] has given out has failed, or
    /// has been given up. Returns the error of the operation.
    #[cold]
    pub fn fail_receive<P: Platform>(mut self, engine: &mut Engine<P>, error: Option<Error>) -> Error {
        let heard = self.hear(engine);
        if heard.is_none() {
            self.given_up = Some(Why {
                cause: error.as_ref().map_or(Cause { class: ErrorClass::Other, finalized: None }, Error::cause),
                is_told: false,
            });
        }
        self.abandon(engine);
        error.or(heard).unwrap_or_else(|| Error::new(ErrorClass::Other, "a collective operation has been given up"))
    }

    /// Returns whether a reduction function of the program is due.
    pub fn has_due_reduction(&self) -> bool {
        self.reducing.as_ref().is_some_and(|reducing| reducing.due.is_some())
    }

    /// Takes the call of the reduction function that is due.
    pub fn take_due_reduction(&mut self) -> Option<UserReduction> {
        self.reducing.as_mut()?.due.take()
    }

    /// Notes that the call has returned: the cursor can be moved on.
    pub fn finish_reduction(&mut self) {
        if let Some(Reducing { step, others, .. }) = self.reducing.take() {
            self.complete(step);
            others.into_iter().for_each(|other| self.frontier.put_back(other));
        }
    }

    /// Goes on as long as every message leaves at once, and at most one receive has to be waited for: that
    /// needs no requests.
    ///
    /// # Errors
    /// The error of the operation, which is complete.
    pub fn go_without_requests<P: Platform>(&mut self, engine: &mut Engine<P>) -> Result<AtOnce> {
        if matches!(self.run.bound().operation(), Some(Operation::User(_))) {
            return Ok(AtOnce::NeedsRequests);
        }
        if engine.messages.is_given_up(self.scope.context, self.scope.tag) {
            return Ok(AtOnce::NeedsRequests);
        }
        let bound = self.run.bound().clone();
        let schedule = bound.schedule();
        while let Some(number) = self.frontier.take_next() {
            match schedule.step(number) {
                Step::Send { to, .. } => {
                    if !engine.submit_now(&self.scope.send(*to, self.run.transfer(number))) {
                        return Ok(self.stop_at(number));
                    }
                    self.frontier.start(schedule, number);
                }
                Step::Multicast { .. } => return Ok(self.stop_at(number)),
                Step::Receive { .. } if self.received.is_some() => return Ok(self.stop_at(number)),
                Step::Receive { .. } => {
                    self.received = Some(number);
                    continue;
                }
                step if step.phase().is_some() => return Ok(self.stop_at(number)),
                _ => {
                    self.do_local(number);
                }
            }
            self.complete(number);
        }
        match self.received.map(|number| (number, schedule.step(number))) {
            Some((number, Step::Receive { from, .. })) => {
                Ok(AtOnce::Receive(self.scope.receive(*from, self.run.transfer(number))))
            }
            _ => {
                self.finish_turn(engine);
                self.failed.take().map_or(Ok(AtOnce::Complete), Err)
            }
        }
    }

    /// Puts steps back that were taken and have not begun: they are for [`Self::advance`].
    fn stop_at(&mut self, number: u32) -> AtOnce {
        self.received.take().into_iter().chain([number]).for_each(|number| self.frontier.put_back(number));
        AtOnce::NeedsRequests
    }

    /// Notes that the receive that [`Self::go_without_requests`] has given out is complete.
    pub fn finish_receive(&mut self) {
        if let Some(number) = self.received.take() {
            self.frontier.start(self.run.bound().schedule(), number);
            self.complete(number);
        }
    }
}
