//! Collective operations: `weft_core::collective` says what each process does, as an immutable [`Schedule`]; a [`Cursor`] does it.
//!
//! A schedule is shared and never changed, so a persistent operation is started again without copying it. The cursor knows how far one
//! run of it has come, and owns the requests of the round that is under way. Whoever makes progress moves it on
//! ([`Cursor::advance`]); only reduction functions of the program are left to a thread that waits, because they may call MPI and so must run
//! while the engine is free.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weft_core::collective::{Buffer, Kind, Local, Round, Schedule, Slice, Transfer};
use weft_core::matching::Envelope;

use crate::arguments::{Arguments, Datatype, Operation, Place, SharedDatatype};
use crate::engine::Engine;
use crate::error::{Error, NO_MEMORY, Result};
use crate::memory::{self, Address, Scratch, UserData, UserReduction};
use crate::messages::internal;
use crate::request::{Mode, Receive, Request, Send, State};
use crate::transport::Platform;

/// Working memory that one collective may ask for, in bytes.
const SCRATCH_MAX: u64 = 1 << 44;

impl Place {
    /// A message from this process to rank `to`, of which whoever starts it waits for the end.
    pub fn send(&self, to: u32, data: UserData) -> Send {
        Send {
            peer: Some(self.group.members[to as usize]),
            envelope: Envelope { context: self.context, source: self.rank, tag: self.tag },
            data,
            mode: Mode::Standard,
            blocking: true,
        }
    }

    /// The receive of one from rank `from`.
    pub fn receive(&self, from: u32, data: UserData) -> Receive {
        Receive {
            context: Some(self.context),
            source: Some(from),
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

/// One run of a schedule: how far it has come, with which buffers, among whom.
pub struct Cursor {
    schedule: Arc<Schedule>,
    round: usize,
    stage: Stage,
    transfers: Vec<usize>,
    arguments: Arguments,
    scratch: Scratch,
    place: Place,
    due: Option<UserReduction>,
}

impl Cursor {
    /// At the beginning of `schedule`, whose slices must lie in the buffers of `arguments`.
    ///
    /// # Errors
    /// The schedule asks for more working memory than there can be.
    pub fn new(place: Place, schedule: Arc<Schedule>, arguments: Arguments) -> Result<Self> {
        let bytes = schedule.scratch;
        if bytes > SCRATCH_MAX {
            return Err(Error::new(NO_MEMORY, format!("the collective needs {bytes} bytes of working memory")));
        }
        Ok(Self::in_scratch(place, schedule, arguments, Scratch::new(bytes as usize)))
    }

    /// The same with working memory that somebody else has made, at least as much as the schedule asks for.
    pub fn in_scratch(place: Place, schedule: Arc<Schedule>, arguments: Arguments, scratch: Scratch) -> Self {
        assert!(scratch.len() as u64 >= schedule.scratch, "the collective has less working memory than it asks for");
        Self { scratch, schedule, round: 0, stage: START, transfers: Vec::new(), arguments, place, due: None }
    }

    /// Among whom it runs.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether nothing is left to be done.
    pub fn is_at_end(&self) -> bool {
        self.round == self.schedule.rounds.len()
    }

    fn current(&self) -> &Round {
        &self.schedule.rounds[self.round]
    }

    fn datatype(&self, kind: Kind) -> Option<&SharedDatatype> {
        match kind {
            Kind::Bytes => None,
            Kind::Send => self.arguments.send_type.as_ref(),
            Kind::Receive => self.arguments.receive_type.as_ref(),
            Kind::SendOf(peer) => self.arguments.send_types.get(peer as usize),
            Kind::ReceiveOf(peer) => self.arguments.receive_types.get(peer as usize),
        }
    }

    fn base(&mut self, slice: &Slice) -> Address {
        let base = match slice.buffer {
            Buffer::Send => self.arguments.send,
            Buffer::Receive => self.arguments.receive,
            Buffer::Scratch => self.scratch.address(),
        };
        base.offset(slice.offset)
    }

    fn data(&mut self, slice: &Slice) -> UserData {
        let base = self.base(slice);
        match self.datatype(slice.kind) {
            Some(datatype) => memory::promised(base, slice.count, datatype.layout()),
            None => memory::promised_bytes(base, slice.count),
        }
    }

    /// Starts the transfers of the round that have not been started.
    fn start_round<P: Platform>(&mut self, engine: &mut Engine<P>, sent: usize, received: bool) -> Result<()> {
        let schedule = self.schedule.clone();
        let mut sends = 0;
        for transfer in &schedule.rounds[self.round].transfers {
            let handle = match transfer {
                Transfer::Send { to, slice } => {
                    sends += 1;
                    if sends <= sent {
                        continue;
                    }
                    let data = self.data(slice);
                    let send = self.place.send(*to, data);
                    if engine.submit_now(&send) {
                        continue;
                    }
                    let handle = engine.messages.add(State::Queued(send), self.place.communicator)?;
                    engine.start_send(handle);
                    handle
                }
                Transfer::Receive { .. } if received => continue,
                Transfer::Receive { from, slice } => {
                    let data = self.data(slice);
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
            let settled = engine.messages.requests.get(*handle).is_none_or(Request::is_settled);
            if settled && let Some(failed) = engine.messages.take_error(*handle) {
                error.get_or_insert(failed);
            }
            !settled
        });
        self.transfers.is_empty()
    }

    /// Does local step `step`; `false` when it is one for the program's function.
    fn do_local(&mut self, step: usize) -> Result<bool> {
        match self.current().local[step] {
            Local::Copy { from, to } => {
                let (from, to) = (self.data(&from), self.data(&to));
                memory::copy(&from, &to);
                Ok(true)
            }
            Local::Reduce { input, inout } => self.reduce(&input, &inout),
        }
    }

    fn reduce(&mut self, input: &Slice, inout: &Slice) -> Result<bool> {
        let (from, to) = (self.base(input), self.base(inout));
        let datatype = self.datatype(input.kind).ok_or_else(|| internal("a reduction of plain bytes"))?;
        let operation = self.arguments.operation.ok_or_else(|| internal("a reduction without an operation"))?;
        self.due = reduction(operation, datatype.as_ref(), from, to, input.count)?;
        Ok(self.due.is_none())
    }

    /// Goes as far as possible.
    pub fn advance<P: Platform>(&mut self, engine: &mut Engine<P>) -> Progress {
        let mut error = None;
        loop {
            match self.stage {
                Stage::Starting { .. } if self.is_at_end() => return Progress::Complete,
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
                Stage::Locals(step) => match self.do_local(step) {
                    Ok(true) => self.stage = Stage::Locals(step + 1),
                    Ok(false) => {
                        self.stage = Stage::Reducing(step);
                        return Progress::Waits;
                    }
                    Err(error) => return Progress::Failed(error),
                },
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
        receives <= 1 && !matches!(self.arguments.operation, Some(Operation::User(_)))
    }

    /// Sends what this round sends, if all of it can leave at once. False: what is left is for [`Self::advance`].
    pub fn send_at_once<P: Platform>(&mut self, engine: &mut Engine<P>) -> bool {
        let schedule = self.schedule.clone();
        let mut left = 0;
        for transfer in &schedule.rounds[self.round].transfers {
            let Transfer::Send { to, slice } = transfer else { continue };
            let data = self.data(slice);
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
        let found = self.current().transfers.iter().find_map(|transfer| match transfer {
            Transfer::Receive { from, slice } => Some((*from, *slice)),
            Transfer::Send { .. } => None,
        });
        let (from, slice) = found?;
        if let Stage::Starting { received, .. } = &mut self.stage {
            *received = true;
        }
        let data = self.data(&slice);
        Some(self.place.receive(from, data))
    }

    /// Does the local steps of a simple round whose transfers are complete, and goes to the next one.
    ///
    /// # Errors
    /// A step that makes no sense.
    pub fn finish_round(&mut self) -> Result<()> {
        for step in 0..self.current().local.len() {
            self.do_local(step)?;
        }
        self.round += 1;
        self.stage = START;
        Ok(())
    }
}

/// `inout = input op inout` for `count` items: at once, or by a call of the program's function that is returned.
///
/// # Errors
/// A predefined operation on a derived datatype.
pub fn reduction(
    operation: Operation,
    datatype: &dyn Datatype,
    input: Address,
    inout: Address,
    count: u64,
) -> Result<Option<UserReduction>> {
    match operation {
        Operation::Predefined(op) => {
            let element = datatype.element().ok_or_else(|| internal("a predefined operation on a derived type"))?;
            memory::reduce_promised(op, element, input, inout, count as usize);
            Ok(None)
        }
        Operation::User(user) => Ok(Some(UserReduction {
            function: user.function,
            input,
            inout,
            count,
            extent: datatype.layout().extent() as isize,
            datatype: datatype.handle().load(Ordering::Relaxed),
        })),
    }
}
