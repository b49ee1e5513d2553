//! Runs collective schedules: `weft_core::collective` says what to do, this does it.
//!
//! A running collective owns the requests of its current round. The progress loop moves it on; only the program's
//! reduction functions are left to a thread that waits, because they must run while the lock is free.

mod at_once;

use std::sync::Arc;

use weft_core::collective::{Buffer, Kind, Local, Schedule, Slice, Transfer};
use weft_core::matching::Envelope;

use crate::communicator::Agreement;
use crate::constants::MPI_ERR_NO_MEM;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::memory::{self, Address, Scratch, UserData, UserReduction};
use crate::messages::internal;
use crate::object::{Description, Group, Operation};
use crate::process::Process;
use crate::request::{Mode, Persistent, Receive, Request, Send, State};

pub use at_once::run;

/// Scratch memory that one collective may ask for, in bytes.
const SCRATCH_MAX: u64 = 1 << 44;

/// The buffers of a collective, as the program gave them.
#[derive(Clone)]
pub struct Arguments {
    /// Send buffer; where `MPI_IN_PLACE` was given, it is never used.
    pub send: Address,
    /// Receive buffer, or the only one.
    pub receive: Address,
    /// Datatype of the send buffer.
    pub send_type: Option<Arc<Description>>,
    /// Datatype of the receive buffer.
    pub receive_type: Option<Arc<Description>>,
    /// `sendtypes` of `MPI_Alltoallw`.
    pub send_types: Vec<Arc<Description>>,
    /// `recvtypes` of `MPI_Alltoallw`.
    pub receive_types: Vec<Arc<Description>>,
    /// The reduction.
    pub operation: Option<Operation>,
}

impl Arguments {
    /// No buffers.
    pub const fn none() -> Self {
        Self {
            send: Address::NULL,
            receive: Address::NULL,
            send_type: None,
            receive_type: None,
            send_types: Vec::new(),
            receive_types: Vec::new(),
            operation: None,
        }
    }
}

/// Where the messages of a collective go: among whom, and apart from all others.
#[derive(Clone)]
pub struct Place {
    /// Communicator whose error handler hears of errors.
    pub communicator: usize,
    /// Context of the messages.
    pub context: u32,
    /// Their tag.
    pub tag: i32,
    /// The processes.
    pub group: Arc<Group>,
    /// This process's rank among them.
    pub rank: u32,
}

enum Stage {
    /// The next round has not begun.
    Between,
    /// Its transfers are under way.
    Transfers,
    /// Its local steps are due from this one on.
    Locals(usize),
    /// The program's reduction function runs for this step.
    Reducing(usize),
}

/// A collective under way.
pub struct Running {
    request: usize,
    schedule: Schedule,
    round: usize,
    stage: Stage,
    transfers: Vec<usize>,
    arguments: Arguments,
    scratch: Scratch,
    place: Place,
    due: Option<UserReduction>,
    /// The agreement that it is a step of.
    agreement: Option<Box<Agreement>>,
}

impl Running {
    fn new(place: Place, schedule: Schedule, arguments: Arguments) -> Self {
        Self {
            request: 0,
            scratch: Scratch::new(schedule.scratch as usize),
            schedule,
            round: 0,
            stage: Stage::Between,
            transfers: Vec::new(),
            arguments,
            place,
            due: None,
            agreement: None,
        }
    }

    fn describe(&self, kind: Kind) -> Option<&Arc<Description>> {
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
        match self.describe(slice.kind) {
            Some(description) => memory::promised(base, slice.count, &description.layout),
            None => memory::promised_bytes(base, slice.count),
        }
    }

    fn send_of(&mut self, to: u32, slice: &Slice) -> Send {
        Send {
            peer: Some(self.place.group.members[to as usize]),
            envelope: Envelope { context: self.place.context, source: self.place.rank, tag: self.place.tag },
            data: self.data(slice),
            mode: Mode::Standard,
            blocking: true,
        }
    }

    fn receive_of(&mut self, from: u32, slice: &Slice) -> Receive {
        Receive {
            context: Some(self.place.context),
            source: Some(from),
            peer: Some(self.place.group.members[from as usize]),
            tag: Some(self.place.tag),
            data: self.data(slice),
            blocking: true,
        }
    }

    fn start_round(&mut self, engine: &mut Engine) -> Result<()> {
        let transfers = std::mem::take(&mut self.schedule.rounds[self.round].transfers);
        for transfer in transfers {
            let handle = match transfer {
                Transfer::Send { to, slice } => {
                    let send = self.send_of(to, &slice);
                    if engine.submit_now(&send) {
                        continue;
                    }
                    let handle = engine.messages.add(State::Queued(send), self.place.communicator)?;
                    engine.start_send(handle);
                    handle
                }
                Transfer::Receive { from, slice } => {
                    let receive = self.receive_of(from, &slice);
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
    fn collect(&mut self, engine: &mut Engine, error: &mut Option<Error>) -> bool {
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
        match self.schedule.rounds[self.round].local[step] {
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
        let description = self.describe(input.kind).ok_or_else(|| internal("a reduction of plain bytes"))?;
        match self.arguments.operation {
            Some(Operation::Predefined(op)) => {
                let element =
                    description.element.ok_or_else(|| internal("a predefined operation on a derived type"))?;
                memory::reduce_promised(op, element, from, to, input.count as usize);
                Ok(true)
            }
            Some(Operation::User(user)) => {
                let datatype = description.handle.load(std::sync::atomic::Ordering::Relaxed);
                let extent = description.layout.extent() as isize;
                self.due = Some(UserReduction {
                    function: user.function,
                    input: from,
                    inout: to,
                    count: input.count,
                    extent,
                    datatype,
                });
                Ok(false)
            }
            None => Err(internal("a reduction without an operation")),
        }
    }

    /// Goes as far as possible; `Some` when the collective is complete.
    fn advance(&mut self, engine: &mut Engine) -> Option<Option<Error>> {
        let mut error = None;
        loop {
            match self.stage {
                Stage::Between if self.round == self.schedule.rounds.len() => return Some(None),
                Stage::Between => {
                    if let Err(error) = self.start_round(engine) {
                        return Some(Some(error));
                    }
                    self.stage = Stage::Transfers;
                }
                Stage::Transfers => {
                    let complete = self.collect(engine, &mut error);
                    if let Some(error) = error.take() {
                        return Some(Some(error));
                    }
                    if !complete {
                        return None;
                    }
                    self.stage = Stage::Locals(0);
                }
                Stage::Locals(step) if step == self.schedule.rounds[self.round].local.len() => {
                    self.round += 1;
                    self.stage = Stage::Between;
                }
                Stage::Locals(step) => match self.do_local(step) {
                    Ok(true) => self.stage = Stage::Locals(step + 1),
                    Ok(false) => {
                        self.stage = Stage::Reducing(step);
                        return None;
                    }
                    Err(error) => return Some(Some(error)),
                },
                Stage::Reducing(_) => return None,
            }
        }
    }
}

impl Process {
    /// Starts `schedule` on the communicator `communicator`; the request completes with it. All processes of the
    /// communicator must call this in the same order (MPI-5.0 §6.14).
    ///
    /// # Errors
    /// A communicator that is none, or no memory for the scratch buffer.
    pub fn start_collective(&mut self, communicator: usize, schedule: Schedule, arguments: Arguments) -> Result<usize> {
        let place = self.collective_place(communicator)?;
        let request = self.messages()?.add(State::Collective, communicator)?;
        self.start_schedule(request, place, schedule, arguments)?;
        Ok(request)
    }

    /// The place of the next collective of `communicator`: it counts as begun.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`.
    pub fn collective_place(&mut self, communicator: usize) -> Result<Place> {
        let object = self.objects.communicator_mut(communicator)?;
        let tag = (object.collectives & 0x7fff_ffff) as i32;
        object.collectives = object.collectives.wrapping_add(1);
        let context = object.collective_context();
        Ok(Place { communicator, context, tag, group: object.group.clone(), rank: object.rank })
    }

    /// Makes a persistent collective (MPI-5.0 §6.13). Its messages have a tag of their own, so that different ones
    /// may be started in different orders.
    ///
    /// # Errors
    /// As for [`Process::start_collective`].
    pub fn make_persistent_collective(
        &mut self,
        communicator: usize,
        schedule: Schedule,
        arguments: Arguments,
    ) -> Result<usize> {
        let place = self.collective_place(communicator)?;
        let operation = Persistent::Collective(Box::new((place, schedule, arguments)));
        self.make_persistent(operation, communicator)
    }

    /// Runs `schedule` among the processes of `place`; `request` (state `Collective`) completes with it.
    ///
    /// # Errors
    /// No memory for the scratch buffer.
    pub fn start_schedule(
        &mut self,
        request: usize,
        place: Place,
        schedule: Schedule,
        arguments: Arguments,
    ) -> Result<()> {
        check_scratch(&schedule)?;
        self.engine()?;
        self.start_schedule_then(request, place, schedule, arguments, None);
        Ok(())
    }

    /// The same for a step of `agreement`, which goes on when the schedule is complete.
    pub(crate) fn start_schedule_then(
        &mut self,
        request: usize,
        place: Place,
        schedule: Schedule,
        arguments: Arguments,
        agreement: Option<Box<Agreement>>,
    ) {
        self.go_on(Running { request, agreement, ..Running::new(place, schedule, arguments) });
    }

    /// Moves `running` on from where it is, now and in the progress loop.
    fn go_on(&mut self, mut running: Running) {
        let Ok(engine) = self.engine() else { return };
        match running.advance(engine) {
            Some(error) => self.finish_collective(running, error),
            None => {
                self.collectives.insert(running);
            }
        }
    }

    fn finish_collective(&mut self, running: Running, error: Option<Error>) {
        let Ok(engine) = self.engine() else { return };
        // After an error there may be transfers left. Without its request a transfer touches no memory any more: what
        // arrives for it is dropped, what would be read for it is zeros.
        for handle in running.transfers {
            engine.abandon_receive(handle);
        }
        if let Some(agreement) = running.agreement {
            self.continue_agreement(running.request, *agreement, error);
            return;
        }
        let Ok(messages) = self.messages() else { return };
        if let Some(request) = messages.requests.get_mut(running.request) {
            request.error = error;
        }
        messages.complete(running.request);
    }

    /// Moves every running collective on.
    pub fn advance_collectives(&mut self) {
        let Some(completions) = self.messages().ok().map(|messages| messages.completions) else { return };
        if completions == self.collectives_seen {
            return;
        }
        self.collectives_seen = completions;
        let handles: Vec<usize> = self.collectives.iter().map(|(handle, _)| handle).collect();
        for handle in handles {
            self.advance_collective(handle);
        }
    }

    fn advance_collective(&mut self, handle: usize) {
        let Some((collectives, engine)) = self.collectives_and_engine() else { return };
        // It keeps its handle: a thread that runs a reduction function for it comes back by that.
        let Some(running) = collectives.get_mut(handle) else { return };
        if let Some(error) = running.advance(engine)
            && let Some(running) = collectives.remove(handle)
        {
            self.finish_collective(running, error);
        }
    }

    /// Whether a reduction function of the program is due.
    #[inline]
    pub fn has_due_reductions(&self) -> bool {
        !self.collectives.is_empty() && self.collectives.iter().any(|(_, running)| running.due.is_some())
    }

    /// Takes a due call of the program's reduction function, and the collective it is for.
    pub fn take_due_reduction(&mut self) -> Option<(usize, UserReduction)> {
        let handle = self.collectives.iter().find(|(_, running)| running.due.is_some()).map(|(handle, _)| handle)?;
        let reduction = self.collectives.get_mut(handle)?.due.take()?;
        Some((handle, reduction))
    }

    /// The call has returned.
    pub fn finish_reduction(&mut self, handle: usize) {
        if let Some(running) = self.collectives.get_mut(handle)
            && let Stage::Reducing(step) = running.stage
        {
            running.stage = Stage::Locals(step + 1);
            self.advance_collective(handle);
        }
    }
}

fn check_scratch(schedule: &Schedule) -> Result<()> {
    let bytes = schedule.scratch;
    if bytes > SCRATCH_MAX {
        return Err(Error::new(MPI_ERR_NO_MEM, format!("the collective needs {bytes} bytes of working memory")));
    }
    Ok(())
}

/// `inout = input op inout` at once, outside of any collective (`MPI_Reduce_local`). The lock must be free.
///
/// # Errors
/// A predefined operation on a derived datatype.
pub fn reduce_now(
    operation: Operation,
    description: &Description,
    input: Address,
    inout: Address,
    count: u64,
) -> Result<()> {
    match operation {
        Operation::Predefined(op) => {
            let element = description.element.ok_or_else(|| internal("a predefined operation on a derived type"))?;
            memory::reduce_promised(op, element, input, inout, count as usize);
        }
        Operation::User(user) => UserReduction {
            function: user.function,
            input,
            inout,
            count,
            extent: description.layout.extent() as isize,
            datatype: description.handle.load(std::sync::atomic::Ordering::Relaxed),
        }
        .call(),
    }
    Ok(())
}
