//! Collective operations: `weft_core::collective` says what each process does, as an immutable schedule, which is
//! [bound](Bound) to its buffers; a [`Cursor`] does it.
//!
//! A bound schedule is shared and never changed, so a persistent operation is started again without copying it. The cursor knows how far one
//! run of it has come, and owns the requests of the round that is under way. Whoever makes progress moves it on
//! ([`Cursor::advance`]); only reduction functions of the program are left to a thread that waits, because they may call MPI and so must run
//! while the engine is free.

use std::sync::Arc;

use weft_core::collective::{Round, Transfer};
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

enum Stage {
    /// The transfers of the round have not all begun: so many of its sends have left already, and its receives have been taken or not.
    Starting { sent: usize, received: bool },
    /// They are under way.
    Transfers,
    /// The local steps are due from this one on.
    Locals(usize),
    /// The program's reduction function runs for this step.
    Reducing(usize),
}

const START: Stage = Stage::Starting { sent: 0, received: false };

/// How a step of a cursor ended.
pub enum Progress {
    /// It waits for messages, or for a reduction function of the program.
    Waits,
    /// The operation is complete.
    Complete,
    /// It cannot be completed.
    Failed(Error),
}

/// One run of a bound schedule: how far it has come, among whom.
pub struct Cursor {
    run: Run,
    round: usize,
    stage: Stage,
    transfers: Vec<usize>,
    place: CollectiveScope,
    due: Option<UserReduction>,
    /// A local step that went wrong: the others wait for what comes after it, so the operation goes on, and fails at its end.
    failed: Option<Error>,
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
        Self {
            run: Run::new(bound, scratch),
            round: 0,
            stage: START,
            transfers: Vec::new(),
            place,
            due: None,
            failed: None,
        }
    }

    /// Among whom it runs.
    pub fn place(&self) -> &CollectiveScope {
        &self.place
    }

    /// The requests of the round that is under way: what it waits for.
    pub fn transfers(&self) -> &[usize] {
        &self.transfers
    }

    /// Whether nothing is left to be done.
    pub fn is_at_end(&self) -> bool {
        self.round == self.run.bound().schedule().rounds.len()
    }

    fn current(&self) -> &Round {
        &self.run.bound().schedule().rounds[self.round]
    }

    /// Starts the transfers of the round that have not been started.
    fn start_round<P: Platform>(&mut self, engine: &mut Engine<P>, sent: usize, received: bool) -> Result<()> {
        let bound = self.run.bound().clone();
        let mut sends = 0;
        for (index, transfer) in bound.schedule().rounds[self.round].transfers.iter().enumerate() {
            let handle = match transfer {
                Transfer::Send { to, .. } => {
                    sends += 1;
                    if sends <= sent {
                        continue;
                    }
                    let data = self.run.transfer(self.round, index);
                    let send = self.place.send(*to, data);
                    if engine.submit_now(&send) {
                        continue;
                    }
                    let handle = engine.messages.add(State::Queued(send), self.place.communicator)?;
                    engine.start_send(handle);
                    handle
                }
                Transfer::Receive { .. } if received => continue,
                Transfer::Receive { from, .. } => {
                    let data = self.run.transfer(self.round, index);
                    let receive = self.place.receive(*from, data);
                    let handle = engine.messages.add(State::Posted(receive), self.place.communicator)?;
                    engine.start_receive(handle);
                    handle
                }
            };
            self.transfers.push(handle);
        }
        Ok(())
    }

    /// Removes the transfers that are complete; whether all are.
    fn collect<P: Platform>(&mut self, engine: &mut Engine<P>, error: &mut Option<Error>) -> bool {
        self.transfers.retain(|handle| {
            let complete = engine.messages.requests.get(*handle).is_none_or(Request::is_complete);
            if complete && let Some(failed) = engine.messages.take_error(*handle) {
                error.get_or_insert(failed);
            }
            !complete
        });
        self.transfers.is_empty()
    }

    /// Does local step `step`; `false` when it is one for the program's function.
    fn do_local(&mut self, step: usize) -> bool {
        match self.run.do_local(self.round, step) {
            Ok(due) => self.due = due,
            Err(error) => self.failed = self.failed.take().or(Some(error)),
        }
        self.due.is_none()
    }

    /// What went wrong on the way to the end.
    pub fn take_error(&mut self) -> Option<Error> {
        self.failed.take()
    }

    /// Goes as far as possible.
    pub fn advance<P: Platform>(&mut self, engine: &mut Engine<P>) -> Progress {
        let mut error = None;
        loop {
            match self.stage {
                Stage::Starting { .. } if self.is_at_end() => {
                    return self.take_error().map_or(Progress::Complete, Progress::Failed);
                }
                Stage::Starting { sent, received } => {
                    if let Err(error) = self.start_round(engine, sent, received) {
                        return Progress::Failed(error);
                    }
                    self.stage = Stage::Transfers;
                }
                Stage::Transfers => {
                    let complete = self.collect(engine, &mut error);
                    if let Some(error) = error.take() {
                        return Progress::Failed(error);
                    }
                    if !complete {
                        return Progress::Waits;
                    }
                    self.stage = Stage::Locals(0);
                }
                Stage::Locals(step) if step == self.current().local.len() => {
                    self.round += 1;
                    self.stage = START;
                }
                Stage::Locals(step) => {
                    if !self.do_local(step) {
                        self.stage = Stage::Reducing(step);
                        return Progress::Waits;
                    }
                    self.stage = Stage::Locals(step + 1);
                }
                Stage::Reducing(_) => return Progress::Waits,
            }
        }
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
        self.due.is_some()
    }

    /// Takes the call of it that is due.
    pub fn take_due_reduction(&mut self) -> Option<UserReduction> {
        self.due.take()
    }

    /// The call has returned: the cursor can be moved on.
    pub fn finish_reduction(&mut self) {
        if let Stage::Reducing(step) = self.stage {
            self.stage = Stage::Locals(step + 1);
        }
    }

    /// Whether this round waits for one receive at most, and does nothing for which the engine must be free.
    pub fn is_simple(&self) -> bool {
        let transfers = &self.current().transfers;
        let receives = transfers.iter().filter(|transfer| matches!(transfer, Transfer::Receive { .. })).count();
        receives <= 1 && !matches!(self.run.bound().operation(), Some(Operation::User(_)))
    }

    /// Sends what this round sends, if all of it can leave at once. False: what is left is for [`Self::advance`].
    pub fn send_at_once<P: Platform>(&mut self, engine: &mut Engine<P>) -> bool {
        let bound = self.run.bound().clone();
        let mut left = 0;
        for (index, transfer) in bound.schedule().rounds[self.round].transfers.iter().enumerate() {
            let Transfer::Send { to, .. } = transfer else { continue };
            let data = self.run.transfer(self.round, index);
            if !engine.submit_now(&self.place.send(*to, data)) {
                self.stage = Stage::Starting { sent: left, received: false };
                return false;
            }
            left += 1;
        }
        self.stage = Stage::Starting { sent: left, received: false };
        true
    }

    /// The receive of a [simple](Self::is_simple) round whose sends have left, for whoever waits for it without a request.
    pub fn take_receive(&mut self) -> Option<Receive> {
        let found = self.current().transfers.iter().enumerate().find_map(|(index, transfer)| match transfer {
            Transfer::Receive { from, .. } => Some((index, *from)),
            Transfer::Send { .. } => None,
        });
        let (index, from) = found?;
        if let Stage::Starting { received, .. } = &mut self.stage {
            *received = true;
        }
        let data = self.run.transfer(self.round, index);
        Some(self.place.receive(from, data))
    }

    /// Does the local steps of a simple round whose transfers are complete, and goes to the next one.
    pub fn finish_round(&mut self) {
        for step in 0..self.current().local.len() {
            self.do_local(step);
        }
        self.round += 1;
        self.stage = START;
    }
}
