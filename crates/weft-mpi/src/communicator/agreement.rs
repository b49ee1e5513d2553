//! The agreement of the processes of a new communicator on its context (MPI-5.0 §7.4.2): two reductions,
//! which any call can leave under way. `context.rs` explains the numbers.

use std::collections::BTreeSet;
use std::sync::Arc;

use weft_core::agreement::{Ranks, Vote};
use weft_core::collective::choice::Layout;
use weft_core::reduce::Op;
use weft_engine::schedules::Cursor;

use super::creation::{Creation, OPENING};
use super::reduction;
use crate::blocking::wait;
use crate::collective::CollectiveScope;
use crate::constants::{MPI_ERR_NO_MEM, MPI_ERR_PROC_ABORTED};
use crate::context::{CONTEXTS_EACH, Reserved, Serial};
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
    /// The processes find the highest offer.
    Offer,
    /// The processes find whether all could reserve it. `reserved`: whether this process could.
    Confirm { reserved: Reserved },
}

/// An agreement on the context of a new communicator that is under way: two reductions, repeated when it met
/// another agreement.
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

/// The part of an agreement that survives failures: its steps are rounds of `weft_core::agreement`.
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
            scope,
            communicator,
            refusal,
            creation,
            step: Step::Offer,
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
            step: Step::Offer,
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
            agreement.value.set_values(&[value as i64, 0, 0, 0]);
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
        // A process that has no number left still takes part, so that all others learn of it.
        let offer = agreement.offer.map_or(i64::MAX, |offer| offer.0 as i64);
        let opening = agreement.creation.opening(offer, agreement.scope.rank, agreement.refusal.as_ref());
        agreement.value.set_values(&opening);
        agreement.step = Step::Offer;
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

    /// Takes the next step of `agreement`, whose reduction is complete.
    fn continue_agreement(&mut self, request: usize, mut agreement: Agreement, error: Option<Error>) {
        let values = agreement.value.values();
        let value = values[0];
        let opening = if matches!(agreement.step, Step::Offer) { Creation::compare(&values) } else { Ok(()) };
        let error = agreement.refusal.take().or(error).or(opening.err());
        let failed = error.is_some();
        match agreement.step {
            _ if failed => self.end_agreement(request, &mut agreement, error),
            Step::Offer if value == i64::MAX => {
                let message = "a process of the group has as many communicators as it can have: MPI_Comm_free makes room for more";
                self.end_agreement(request, &mut agreement, Some(Error::new(MPI_ERR_NO_MEM, message)));
            }
            Step::Offer => {
                agreement.serial = Serial(value as u64);
                let is_clear = !agreement.serial.is_repeated() || self.is_clear(agreement.serial.context());
                let reserved = self.contexts.reserve(agreement.serial, is_clear);
                agreement.step = Step::Confirm { reserved };
                let has_slot = reserved != Reserved::Ours || self.reserve_slot(agreement.serial);
                let answer = if has_slot { reserved } else { Reserved::OursWithoutSlot };
                agreement.value.set_values(&[answer as i64; OPENING]);
                agreement.has_slot = reserved == Reserved::Ours && has_slot;
                self.reduce_agreement(request, agreement, Op::Min);
            }
            Step::Confirm { .. } if value >= Reserved::OursWithoutSlot as i64 => {
                let all_have_slots = value == Reserved::Ours as i64;
                let survived = self.leave_failed_out(&agreement);
                if survived.is_err() {
                    return self.end_agreement(request, &mut agreement, survived.err());
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
                self.give_slot_back(&mut agreement);
                agreement.communicator.into_iter().for_each(|handle| self.begin_recovery_of(handle));
                self.end_agreement(request, &mut agreement, None);
            }
            Step::Confirm { .. } if agreement.met == MET_MAX || agreement.in_use == IN_USE_MAX => {
                let error = Error::new(MPI_ERR_NO_MEM, "no agreement on a context for the new communicator");
                self.end_agreement(request, &mut agreement, Some(error));
            }
            Step::Confirm { reserved } => {
                self.give_slot_back(&mut agreement);
                if reserved == Reserved::Ours {
                    self.contexts.release(agreement.serial);
                }
                agreement.offer.take().into_iter().for_each(|offer| self.contexts.withdraw(offer));
                if value == Reserved::Taken as i64 {
                    agreement.met += 1;
                } else {
                    agreement.in_use += 1;
                }
                self.offer_context(request, agreement);
            }
        }
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
        let Some(engine) = self.engine.as_deref_mut() else { return };
        // A program that never waits has not looked at the messages that it sent to itself.
        engine.progress();
        if engine.messages.recovery.has_news {
            // Messages of agreements are taken out of contexts that are about to be swept.
            self.attend_to_recovery();
        }
        let Some(engine) = self.engine.as_deref_mut() else { return };
        let requests = engine.messages.requests.iter();
        let busy: BTreeSet<usize> = requests
            .filter(|(_, request)| request.persistent.is_some() || !request.is_complete())
            .map(|(_, request)| request.communicator)
            .collect();
        self.contexts.sweep(|handle| busy.contains(&handle));
        engine.discard_contexts(|context| self.contexts.is_over(context));
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
            if let Step::Confirm { reserved: Reserved::Ours } = agreement.step {
                self.contexts.release(agreement.serial);
            }
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
    let mut process = lock();
    let request = process.start_agreement(scope, communicator, creation)?;
    wait(process, request)?.error.map_or(Ok(()), Err)
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
