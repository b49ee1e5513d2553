//! The agreement of the processes of a new communicator on its context (MPI-5.0 §7.4.2): one reduction where
//! all offer the same number, as they mostly do, and two elsewhere. Any call can leave them under way.
//! `weft_plan::contexts` explains the numbers.

use std::sync::Arc;
use weft_ordered::Set;

use weft_core::reduce::Op;
use weft_engine::schedules::Cursor;
use weft_plan::agreement::{Ranks, Vote};
use weft_plan::collective::choice::Layout;

use super::creation::{Creation, NOTES, Notes, OPENING};
use super::reduction;
use crate::blocking::wait;
use crate::collective::CollectiveScope;
use crate::constants::{MPI_ERR_NO_MEM, MPI_ERR_PROC_ABORTED};
use crate::context::{CONTEXTS_EACH, Proposal, Reserved, Serial};
use crate::error::{Error, Result};
use crate::memory::SharedBuffer;
use crate::object::{Group, PeerId};
use crate::process::{Process, lock};
use crate::recovery::Round;
use crate::request::Hold;
use crate::slots::Slots;

/// The most times that an agreement may meet others before the call gives up. Each time spreads the offers
/// over twice as many numbers.
const MET_MAX: u32 = 200;
/// The most numbers that are tried whose contexts some process still uses. A process never offers a number
/// whose contexts it uses itself, so these are few unless nearly all are in use.
const IN_USE_MAX: u32 = 10_000;

/// The step of an agreement.
enum Step {
    /// The processes find the highest offer, and whether all have offered it. `reserved`: whether this
    /// process could reserve its own.
    Offer { reserved: Reserved },
    /// The processes find whether all could reserve the highest. `reserved`: whether this process could.
    Confirm { reserved: Reserved },
}

/// An agreement on the context of a new communicator that is under way: one or two reductions, repeated when
/// it met another agreement.
struct Agreement {
    scope: CollectiveScope,
    /// The places of its processes, and the multicast allowed between them, as all processes knew these when
    /// the agreement began. They may change between two reductions.
    layout: Option<Layout>,
    /// The handle of the communicator that gets the context, if this process is a member.
    communicator: Option<usize>,
    /// The reason why this process has no communicator: then no process gets one.
    refusal: Option<Error>,
    /// The call that it is for.
    creation: Creation,
    /// The numbers that the running reduction reads and writes.
    value: SharedBuffer,
    /// The numbers of the caller: its own before the first step, and the highest after it.
    notes: SharedBuffer,
    step: Step,
    /// The number of times that it has met another agreement, and a context that is in use.
    met: u32,
    in_use: u32,
    offer: Option<Serial>,
    serial: Serial,
    /// The slot that goes with the context is reserved.
    has_slot: bool,
    /// Set for an agreement that survives failures.
    shrinking: Option<Shrinking>,
}

/// The part of an agreement that survives failures: its steps are rounds of `weft_plan::agreement`.
struct Shrinking {
    /// The communicator whose living processes agree.
    parent: usize,
    /// The last round, once there has been one.
    round: Option<Round>,
    /// The processes that have failed, as all others have agreed.
    failed: Ranks,
}

impl Agreement {
    fn key(&self) -> u64 {
        u64::from(self.scope.context) << 32 | u64::from(self.scope.tag as u32)
    }
}

impl Process {
    /// Starts to agree with all processes of `scope` on a context. The communicator with handle
    /// `communicator` has the context when the request is complete. After an error that communicator is gone.
    /// A process that could not make the communicator takes part all the same: its error becomes that of the
    /// request, and no process gets a communicator.
    ///
    /// # Errors
    /// Too many requests: then nothing has been started, and the communicator is gone.
    pub fn start_agreement(
        &mut self,
        scope: CollectiveScope,
        communicator: Result<Option<usize>>,
        creation: Creation,
    ) -> Result<usize> {
        self.start_with_notes(scope, communicator, creation, SharedBuffer::of_values(&[0; NOTES]))
    }

    /// Does the same, and finds the highest of each of the numbers in `notes` of all processes: they are in
    /// `notes` when the request is complete.
    fn start_with_notes(
        &mut self,
        scope: CollectiveScope,
        communicator: Result<Option<usize>>,
        creation: Creation,
        notes: SharedBuffer,
    ) -> Result<usize> {
        if self.contexts.is_short() {
            // An operation that is complete without this process knowing uses no context any more.
            self.progress();
        }
        let (communicator, refusal) = match communicator {
            Ok(communicator) => (communicator, None),
            Err(error) => (None, Some(error)),
        };
        let request = self.collective_request(&scope).inspect_err(|_| {
            communicator.into_iter().for_each(|handle| self.remove_communicator(handle));
        })?;
        let agreement = Agreement {
            layout: self.agreement_layout(&scope),
            value: SharedBuffer::of_values(&[0; OPENING]),
            notes,
            scope,
            communicator,
            refusal,
            creation,
            step: Step::Offer { reserved: Reserved::Taken },
            met: 0,
            in_use: 0,
            offer: None,
            serial: Serial(0),
            has_slot: false,
            shrinking: None,
        };
        self.offer_context(request, agreement);
        Ok(request)
    }

    /// Starts to make a communicator of the processes of `parent` that live (`MPIX_Comm_shrink`). Returns its
    /// handle, and the request with which it is there.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`; too many communicators or requests.
    pub fn start_shrinking(&mut self, parent: usize) -> Result<(usize, usize)> {
        let object = self.objects.communicator(parent)?;
        let (group, rank) = object.everybody();
        let scope = CollectiveScope {
            communicator: parent,
            context: object.recovery_context(),
            tag: 0,
            group: group.clone(),
            rank,
            sources: None,
            turn: None,
        };
        let (own_group, addressed, inter) = (object.group.clone(), object.partners().clone(), object.inter.clone());
        let handle = self.add_communicator(own_group, parent)?;
        let object = self.objects.communicator_mut(handle)?;
        (object.addressed, object.inter) = (addressed, inter);
        let request = match self.messages()?.add_collective(parent) {
            Ok(request) => request,
            Err(error) => {
                self.remove_communicator(handle);
                return Err(error);
            }
        };
        let agreement = Agreement {
            layout: None,
            value: SharedBuffer::of_values(&[0; OPENING]),
            scope,
            communicator: Some(handle),
            refusal: None,
            creation: Creation::Duplicate,
            notes: SharedBuffer::of_values(&[0; NOTES]),
            step: Step::Offer { reserved: Reserved::Taken },
            met: 0,
            in_use: 0,
            offer: None,
            serial: Serial(0),
            has_slot: false,
            shrinking: Some(Shrinking { parent, round: None, failed: Ranks::new() }),
        };
        self.offer_context(request, agreement);
        Ok((handle, request))
    }

    /// Votes for the value of an agreement that survives failures, and goes on with the decision.
    fn vote_for_agreement(&mut self, request: usize, mut agreement: Agreement, op: Op) {
        let Some(shrinking) = &mut agreement.shrinking else { return };
        let round = match shrinking.round {
            Some(round) => Ok(Round { round: round.round + 1, ..round }),
            None => self.begin_agreement(shrinking.parent),
        };
        // The communicator may have been freed meanwhile; the others still count this process's vote.
        let vote = self.vote_of(shrinking.parent).unwrap_or_else(|_| Vote::new(u32::MAX));
        let round = match round {
            Ok(round) => round,
            Err(error) => return self.end_agreement(request, &mut agreement, Some(error)),
        };
        shrinking.round = Some(round);
        let value = agreement.value.values()[0] as u64;
        let vote = if op == Op::Max { Vote { highest: value, ..vote } } else { Vote { lowest: value, ..vote } };
        self.vote_in(round, vote, move |process, decision| {
            let value = if op == Op::Max { decision.highest } else { decision.lowest };
            // The votes say the highest offer, and not whether all have offered it.
            let values = match op {
                Op::Max => {
                    let proposal = Proposal::numbers(Some(Serial(value)), Reserved::Taken);
                    agreement.creation.opening(proposal, agreement.scope.rank, None, [0; NOTES])
                }
                _ => [value as i64; OPENING],
            };
            agreement.value.set_values(&values);
            if let Some(shrinking) = &mut agreement.shrinking {
                shrinking.failed = decision.failed;
            }
            process.continue_agreement(request, agreement, None);
        });
    }

    /// Takes part in an agreement only to tell the other processes of `scope` of `error`, without waiting for
    /// them.
    ///
    /// # Errors
    /// As for [`Process::start_agreement`]: then the other processes have been told in another way.
    pub fn start_refusal(&mut self, scope: CollectiveScope, creation: Creation, error: &Error) -> Result<()> {
        let request = self.start_agreement(scope, Err(error.clone()), creation)?;
        let messages = self.messages()?;
        match messages.requests.get_mut(request) {
            Some(found) if !found.is_complete() => found.hold = Hold::Freed,
            _ => messages.forget(request),
        }
        Ok(())
    }

    /// Begins an attempt: offers the other processes a context that is free here.
    fn offer_context(&mut self, request: usize, mut agreement: Agreement) {
        if self.contexts.is_short() {
            self.sweep_contexts();
        }
        agreement.offer = self.contexts.offer(agreement.key(), agreement.met);
        // A process that has no number left still takes part, so that all others learn of it. Agreements that
        // met before meet less when nobody reserves until all have told their offers.
        let is_first = agreement.met == 0 && agreement.in_use == 0;
        let (reserved, answer) = match agreement.offer.filter(|offer| is_first && !offer.is_repeated()) {
            Some(offer) => self.reserve_for(&mut agreement, offer, true),
            None => (Reserved::Taken, Reserved::Taken),
        };
        let proposal = Proposal::numbers(agreement.offer, answer);
        let (rank, notes) = (agreement.scope.rank, numbers(&agreement.notes));
        let opening = agreement.creation.opening(proposal, rank, agreement.refusal.as_ref(), notes);
        agreement.value.set_values(&opening);
        agreement.step = Step::Offer { reserved };
        self.reduce_agreement(request, agreement, Op::Max);
    }

    fn reduce_agreement(&mut self, request: usize, mut agreement: Agreement, op: Op) {
        if agreement.shrinking.is_some() {
            return self.vote_for_agreement(request, agreement, op);
        }
        let scope = agreement.scope.clone();
        let prepared = reduction(&scope, &agreement.value, op, self, agreement.layout.as_ref())
            .and_then(|bound| Cursor::new(scope, Arc::new(bound)));
        match prepared {
            Ok(cursor) => self.run_then(request, cursor, move |process, error| {
                process.continue_agreement(request, agreement, error);
            }),
            Err(error) => self.end_agreement(request, &mut agreement, Some(error)),
        }
    }

    /// Reserves `serial` for `agreement`, and its slot. Returns whether this process could reserve the
    /// number, and its answer to the others.
    fn reserve_for(&mut self, agreement: &mut Agreement, serial: Serial, is_clear: bool) -> (Reserved, Reserved) {
        agreement.serial = serial;
        let reserved = self.contexts.reserve(serial, is_clear);
        let has_slot = reserved != Reserved::Ours || self.reserve_slot(serial);
        agreement.has_slot = reserved == Reserved::Ours && has_slot;
        (reserved, if has_slot { reserved } else { Reserved::OursWithoutSlot })
    }

    /// Gives back what this process has reserved in the present step of `agreement`.
    fn unreserve(&mut self, agreement: &mut Agreement) {
        self.give_slot_back(agreement);
        if let Step::Offer { reserved: Reserved::Ours } | Step::Confirm { reserved: Reserved::Ours } = agreement.step {
            self.contexts.release(agreement.serial);
        }
    }

    /// Takes the next step of `agreement`, whose reduction is complete.
    fn continue_agreement(&mut self, request: usize, mut agreement: Agreement, error: Option<Error>) {
        let values = agreement.value.values();
        let is_offer = matches!(agreement.step, Step::Offer { .. });
        let opening = if is_offer { Creation::compare(&values) } else { Ok(()) };
        let error = agreement.refusal.take().or(error).or(opening.err());
        if error.is_some() {
            return self.end_agreement(request, &mut agreement, error);
        }
        if is_offer {
            agreement.notes.set_values(&values[OPENING - NOTES..]);
            return match Proposal::of(&values) {
                Proposal::NoneLeft => {
                    let message = "a process of the group has as many communicators as it can have: MPI_Comm_free makes room for more";
                    self.end_agreement(request, &mut agreement, Some(Error::new(MPI_ERR_NO_MEM, message)));
                }
                Proposal::Agreed { all_have_slots } => self.conclude_agreement(request, agreement, all_have_slots),
                Proposal::Highest(serial) => {
                    self.unreserve(&mut agreement);
                    let is_clear = !serial.is_repeated() || self.is_clear(serial.context());
                    let (reserved, answer) = self.reserve_for(&mut agreement, serial, is_clear);
                    agreement.step = Step::Confirm { reserved };
                    agreement.value.set_values(&[answer as i64; OPENING]);
                    self.reduce_agreement(request, agreement, Op::Min);
                }
            };
        }
        let answer = values[0];
        if answer >= Reserved::OursWithoutSlot as i64 {
            return self.conclude_agreement(request, agreement, answer == Reserved::Ours as i64);
        }
        if agreement.met == MET_MAX || agreement.in_use == IN_USE_MAX {
            let error = Error::new(MPI_ERR_NO_MEM, "no agreement on a context for the new communicator");
            return self.end_agreement(request, &mut agreement, Some(error));
        }
        self.unreserve(&mut agreement);
        agreement.offer.take().into_iter().for_each(|offer| self.contexts.withdraw(offer));
        if answer == Reserved::Taken as i64 {
            agreement.met += 1;
        } else {
            agreement.in_use += 1;
        }
        self.offer_context(request, agreement);
    }

    /// Ends `agreement` well: all processes have reserved its number.
    fn conclude_agreement(&mut self, request: usize, mut agreement: Agreement, all_have_slots: bool) {
        if let Err(error) = self.leave_failed_out(&agreement) {
            return self.end_agreement(request, &mut agreement, Some(error));
        }
        if let Some(handle) = agreement.communicator
            && let Ok(communicator) = self.objects.communicator_mut(handle)
        {
            communicator.context = agreement.serial.context();
            self.contexts.begin_use(agreement.serial);
            if all_have_slots && let Some(engine) = self.engine.as_deref_mut() {
                let context = communicator.collective_context();
                communicator.slot = Slots::open(agreement.serial, context, &communicator.group, engine);
                agreement.has_slot &= communicator.slot.is_none();
            }
        }
        agreement.communicator.into_iter().for_each(|handle| self.begin_recovery_of(handle));
        self.end_agreement(request, &mut agreement, None);
    }

    /// Takes the processes that have failed out of the groups of the new communicator, if the agreement
    /// survives failures.
    ///
    /// # Errors
    /// No process of the remote group lives.
    fn leave_failed_out(&mut self, agreement: &Agreement) -> Result<()> {
        let (Some(Shrinking { failed, .. }), Some(handle)) = (&agreement.shrinking, agreement.communicator) else {
            return Ok(());
        };
        let own = self.own();
        let failed: Vec<PeerId> = failed.iter().map(|rank| agreement.scope.group.members[rank as usize]).collect();
        let object = self.objects.communicator_mut(handle)?;
        let living = |group: &Group| group.members.iter().copied().filter(|peer| !failed.contains(peer)).collect();
        let group = object.group.derive(living(&object.group), own);
        let remote = object.inter.as_ref().map(|inter| (group.derive(living(&object.addressed), own), inter.is_first));
        object.rank = group.rank.unwrap_or(0);
        (object.group, object.addressed) = (group.clone(), group);
        match remote {
            Some((remote, _)) if remote.members.is_empty() => {
                Err(Error::new(MPI_ERR_PROC_ABORTED, "all processes of the remote group have failed"))
            }
            Some((remote, is_first)) => {
                object.connect(remote, is_first);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns whether nothing is left here of a communicator that had these contexts before.
    fn is_clear(&mut self, context: u32) -> bool {
        let Ok(messages) = self.messages() else { return true };
        messages.forget_given_up(|other| (context..context + CONTEXTS_EACH).contains(&other));
        (context..context + CONTEXTS_EACH).all(|context| messages.matcher.counts_in(context) == (0, 0))
    }

    /// Frees the contexts of freed communicators, except of those with operations under way (MPI-5.0 §7.4.3).
    /// Messages that are left in these contexts, or have come since, are dropped: no receive can take them.
    pub(super) fn sweep_contexts(&mut self) {
        // A program that never waits has not looked at the messages that it sent to itself.
        self.look_before_a_sweep();
        let Some(engine) = self.engine.as_deref_mut() else { return };
        let requests = engine.messages.requests.iter();
        let busy: Set<usize> = requests
            .filter(|(_, request)| request.persistent.is_some() || !request.is_complete())
            .map(|(_, request)| request.communicator)
            .collect();
        self.contexts.sweep(|handle| busy.contains(&handle));
        engine.discard_contexts(|context| self.contexts.is_over(context));
    }

    fn look_before_a_sweep(&mut self) {
        let Some(engine) = self.engine.as_deref_mut() else { return };
        engine.progress();
        if engine.messages.recovery.has_news {
            // Messages of agreements are taken out of contexts that are about to be swept.
            self.attend_to_recovery();
        }
    }

    /// Drops the messages in contexts that no communicator has, and in `another` one.
    pub(crate) fn discard_contexts_that_are_over(&mut self, another: Option<u32>) {
        self.look_before_a_sweep();
        let Some(engine) = self.engine.as_deref_mut() else { return };
        engine.discard_contexts(|context| another == Some(context) || self.contexts.is_over(context));
    }

    /// Takes the slot of a communicator with this number. Returns `false` when another one has it.
    fn reserve_slot(&mut self, serial: Serial) -> bool {
        let Self { slots, engine: Some(engine), .. } = self else { return true };
        slots.reserve(serial, engine)
    }

    /// Gives back the slot that the agreement has taken and no longer needs.
    fn give_slot_back(&mut self, agreement: &mut Agreement) {
        let Self { slots, engine: Some(engine), .. } = self else { return };
        if std::mem::take(&mut agreement.has_slot) {
            slots.give_back(agreement.serial, engine);
        }
    }

    fn end_agreement(&mut self, request: usize, agreement: &mut Agreement, error: Option<Error>) {
        self.give_slot_back(agreement);
        if error.is_some() {
            self.unreserve(agreement);
            if let Some(handle) = agreement.communicator {
                self.remove_communicator(handle);
            }
        }
        agreement.offer.into_iter().for_each(|offer| self.contexts.withdraw(offer));
        if let Some(Shrinking { round: Some(round), .. }) = &agreement.shrinking {
            self.finish_agreement(*round);
        }
        let Ok(messages) = self.messages() else { return };
        if let Some(request) = messages.requests.get_mut(request) {
            request.error = error;
        }
        messages.complete(request);
    }
}

/// Agrees with all processes of `scope` on a context for the communicator with handle `communicator`, or
/// tells them that this process could not make it.
///
/// # Errors
/// This process or another one could not make the communicator; others have come to another call; a process
/// is gone. The communicator is gone then, too.
pub fn agree_on_context(scope: CollectiveScope, communicator: Result<Option<usize>>, creation: Creation) -> Result<()> {
    agree_with_notes(scope, communicator, creation, [0; NOTES]).map(drop)
}

/// Does the same, and returns the highest of each of the `notes` of all processes.
///
/// # Errors
/// As for [`agree_on_context`].
pub fn agree_with_notes(
    scope: CollectiveScope,
    communicator: Result<Option<usize>>,
    creation: Creation,
    notes: Notes,
) -> Result<Notes> {
    let mut process = lock();
    let notes = SharedBuffer::of_values(&notes);
    let request = process.start_with_notes(scope, communicator, creation, notes.clone())?;
    wait(process, request)?.error.map_or(Ok(()), Err)?;
    Ok(numbers(&notes))
}

fn numbers(notes: &SharedBuffer) -> Notes {
    let values = notes.values();
    std::array::from_fn(|at| values[at])
}

/// Returns what this process needs for a creation that begins with an agreement. If this process has not got
/// it, tells the others, who wait for this process.
///
/// # Errors
/// This process has not got what it needs.
pub fn needed<T>(scope: &CollectiveScope, creation: Creation, needed: Result<T>) -> Result<T> {
    if let Err(error) = &needed {
        // Any further error matters less than this one.
        agree_on_context(scope.clone(), Err(error.clone()), creation).ok();
    }
    needed
}
