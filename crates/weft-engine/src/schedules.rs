//! Collective operations: `weft_core::collective` says what each process does, as an immutable schedule, which is
//! [bound](Bound) to its buffers; a [`Cursor`] does it.
//!
//! A bound schedule is shared and never changed, so a persistent operation is started again without copying it. The cursor knows how far one
//! run of it has come ([`Frontier`]), and owns the requests of the transfers that are under way. Whoever makes progress moves it on
//! ([`Cursor::advance`]); only reduction functions of the program are left to a thread that waits, because they may call MPI and so must run
//! while the engine is free.

use std::sync::Arc;

use weft_core::collective::{Frontier, Step};
use weft_core::matching::Envelope;

use crate::arguments::{Bound, CollectiveScope, Operation};
use crate::engine::Engine;
use crate::error::{Error, NO_MEMORY, Result};
use crate::memory::{Run, Scratch, UserData, UserReduction};
use crate::request::{Mode, Receive, Request, Send, State};
use crate::transport::Platform;

/// Working memory that one collective may ask for, in bytes.
const SCRATCH_MAX: u64 = 1 << 44;

impl CollectiveScope {
    /// What stands as the source in the messages of rank `rank`.
    fn source(&self, rank: u32) -> u32 {
        self.sources.as_ref().map_or(rank, |sources| sources[rank as usize])
    }

    /// A message from this process to rank `to`, of which whoever starts it waits for the end.
    pub fn send(&self, to: u32, data: UserData) -> Send {
        Send {
            peer: Some(self.group.members[to as usize]),
            envelope: Envelope { context: self.context, source: self.source(self.rank), tag: self.tag },
            data,
            mode: Mode::Standard,
            blocking: true,
        }
    }

    /// The receive of one from rank `from`.
    pub fn receive(&self, from: u32, data: UserData) -> Receive {
        Receive {
            context: Some(self.context),
            source: Some(self.source(from)),
            peer: Some(self.group.members[from as usize]),
            tag: Some(self.tag),
            data,
            blocking: true,
        }
    }
}

/// How a step of a cursor ended.
pub enum Progress {
    /// It waits for messages, or for a reduction function of the program.
    Waits,
    /// The operation is complete.
    Complete,
    /// It cannot be completed.
    Failed(Error),
}

/// What a cursor that goes on [without requests](Cursor::go_without_requests) has come to.
pub enum AtOnce {
    /// The operation is complete.
    Complete,
    /// Nothing is left to be done before this receive is complete: then say so by [`Cursor::finish_receive`].
    Receive(Receive),
    /// What comes next needs requests: it is for [`Cursor::advance`].
    NeedsRequests,
}

/// One run of a bound schedule: how far it has come, among whom.
pub struct Cursor {
    run: Run,
    frontier: Frontier,
    /// The requests of the transfers that are under way,
    transfers: Vec<usize>,
    /// and the steps that they are.
    steps: Vec<u32>,
    place: CollectiveScope,
    /// The receive that somebody waits for without a request.
    received: Option<u32>,
    reducing: Option<Reducing>,
    /// A local step that went wrong: the others wait for what comes after it, so the operation goes on, and fails at its end.
    failed: Option<Error>,
}

/// The program's reduction function is due, or runs.
struct Reducing {
    step: u32,
    due: Option<UserReduction>,
    /// Other steps of its kind whose turn comes afterwards.
    others: Vec<u32>,
}

impl Cursor {
    /// At the beginning of `bound`.
    ///
    /// # Errors
    /// The schedule asks for more working memory than there can be.
    pub fn new(place: CollectiveScope, bound: Arc<Bound>) -> Result<Self> {
        let bytes = bound.schedule().scratch;
        if bytes > SCRATCH_MAX {
            return Err(Error::new(NO_MEMORY, format!("the collective needs {bytes} bytes of working memory")));
        }
        let scratch = bound.scratch();
        Ok(Self::in_scratch(place, bound, scratch))
    }

    /// The same with working memory that somebody else has made: see [`Run::new`].
    ///
    /// # Panics
    /// As for that.
    pub fn in_scratch(place: CollectiveScope, bound: Arc<Bound>, scratch: Scratch) -> Self {
        let frontier = Frontier::new(bound.schedule());
        Self {
            run: Run::new(bound, scratch),
            frontier,
            transfers: Vec::new(),
            steps: Vec::new(),
            place,
            received: None,
            reducing: None,
            failed: None,
        }
    }

    /// Among whom it runs.
    pub fn place(&self) -> &CollectiveScope {
        &self.place
    }

    /// The requests of the transfers that are under way: what it waits for.
    pub fn transfers(&self) -> &[usize] {
        &self.transfers
    }

    /// The step's message, from now on under way; false: it has left already.
    fn start_transfer<P: Platform>(&mut self, engine: &mut Engine<P>, number: u32) -> Result<bool> {
        let data = self.run.transfer(number);
        let handle = match self.run.bound().schedule().step(number) {
            Step::Send { to, .. } => {
                let send = self.place.send(*to, data);
                if engine.submit_now(&send) {
                    return Ok(false);
                }
                let handle = engine.messages.add(State::Queued(send), self.place.communicator)?;
                engine.start_send(handle);
                handle
            }
            Step::Receive { from, .. } => {
                let receive = self.place.receive(*from, data);
                let handle = engine.messages.add(State::Posted(receive), self.place.communicator)?;
                engine.start_receive(handle);
                handle
            }
            _ => return Ok(false),
        };
        self.transfers.push(handle);
        self.steps.push(number);
        Ok(true)
    }

    /// Does a local step; `false` when it is left to the program's function.
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
        self.frontier.complete(self.run.bound().schedule(), number);
    }

    /// Begins all that may begin.
    fn begin<P: Platform>(&mut self, engine: &mut Engine<P>) -> Result<()> {
        while let Some(number) = self.frontier.take_next() {
            let is_complete = if self.run.bound().schedule().step(number).is_transfer() {
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

    /// Removes the transfers that are complete; whether there were any.
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

    /// Goes as far as possible.
    pub fn advance<P: Platform>(&mut self, engine: &mut Engine<P>) -> Progress {
        loop {
            let goes_on = self.collect(engine).and_then(|goes_on| {
                self.begin(engine)?;
                Ok(goes_on)
            });
            match goes_on {
                Err(error) => return Progress::Failed(error),
                Ok(_) if self.frontier.is_at_end() => {
                    return self.failed.take().map_or(Progress::Complete, Progress::Failed);
                }
                // What has just begun may be complete: only a look that finds nothing ends this.
                Ok(_) if self.has_complete_transfer(engine) => {}
                Ok(_) => return Progress::Waits,
            }
        }
    }

    fn has_complete_transfer<P: Platform>(&self, engine: &Engine<P>) -> bool {
        let is_complete = |handle: &usize| engine.messages.requests.get(*handle).is_none_or(Request::is_complete);
        self.transfers.iter().any(is_complete)
    }

    /// Gives the operation up. Without its request a transfer touches no memory any more: what arrives for it is dropped, what would be
    /// read for it is zeros.
    pub fn abandon<P: Platform>(self, engine: &mut Engine<P>) {
        for handle in self.transfers {
            engine.abandon_receive(handle);
        }
    }

    /// Whether a reduction function of the program is due.
    pub fn has_due_reduction(&self) -> bool {
        self.reducing.as_ref().is_some_and(|reducing| reducing.due.is_some())
    }

    /// Takes the call of it that is due.
    pub fn take_due_reduction(&mut self) -> Option<UserReduction> {
        self.reducing.as_mut()?.due.take()
    }

    /// The call has returned: the cursor can be moved on.
    pub fn finish_reduction(&mut self) {
        if let Some(Reducing { step, others, .. }) = self.reducing.take() {
            self.complete(step);
            others.into_iter().for_each(|other| self.frontier.put_back(other));
        }
    }

    /// Goes on as long as every message leaves at once, and no more than one has to be waited for: that needs no requests.
    ///
    /// # Errors
    /// What went wrong in the operation that is complete.
    pub fn go_without_requests<P: Platform>(&mut self, engine: &mut Engine<P>) -> Result<AtOnce> {
        if matches!(self.run.bound().operation(), Some(Operation::User(_))) {
            return Ok(AtOnce::NeedsRequests);
        }
        let bound = self.run.bound().clone();
        let schedule = bound.schedule();
        while let Some(number) = self.frontier.take_next() {
            match schedule.step(number) {
                Step::Send { to, .. } => {
                    if !engine.submit_now(&self.place.send(*to, self.run.transfer(number))) {
                        return Ok(self.stop_at(number));
                    }
                    self.frontier.start(schedule, number);
                }
                Step::Receive { .. } if self.received.is_some() => return Ok(self.stop_at(number)),
                Step::Receive { .. } => {
                    self.received = Some(number);
                    continue;
                }
                _ => {
                    self.do_local(number);
                }
            }
            self.frontier.complete(schedule, number);
        }
        match self.received.map(|number| (number, schedule.step(number))) {
            Some((number, Step::Receive { from, .. })) => {
                Ok(AtOnce::Receive(self.place.receive(*from, self.run.transfer(number))))
            }
            _ => self.failed.take().map_or(Ok(AtOnce::Complete), Err),
        }
    }

    /// Steps that were taken have not begun: they are for [`Self::advance`].
    fn stop_at(&mut self, number: u32) -> AtOnce {
        self.received.take().into_iter().chain([number]).for_each(|number| self.frontier.put_back(number));
        AtOnce::NeedsRequests
    }

    /// The receive that [`Self::go_without_requests`] has given out is complete.
    pub fn finish_receive(&mut self) {
        if let Some(number) = self.received.take() {
            self.frontier.start(self.run.bound().schedule(), number);
            self.complete(number);
        }
    }
}
