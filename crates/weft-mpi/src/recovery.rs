//! Recovery from failures of processes (User-Level Failure Mitigation): which failures a communicator has,
//! revocation, agreements, and communicators of the processes that are left.
//!
//! The engine notes failures and takes in what others say (`weft_engine::messages::Recovery`). Each pass of
//! the progress loop in which there is news comes here (`attend_to_recovery`). How processes agree
//! although some fail meanwhile is `weft_plan::agreement`; this module moves the messages.
//!
//! A communicator knows its failures in the order in which this process has learned of them, so the failures
//! that the program has acknowledged are a number.

mod revoke;
mod service;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_engine::messages::Bar;
use weft_plan::agreement::{Ranks, Vote};

use crate::constants::{MPI_ERR_NO_MEM, MPI_ERR_OTHER, MPI_ERR_PROC_ABORTED};
use crate::context::RECOVERY_CONTEXT;
use crate::error::{Error, Result};
use crate::memory::UserData;
use crate::object::{Communicator, Group, PeerId};
use crate::process::{Process, Waiting, with};

pub use revoke::{is_file_revoked, is_revoked, is_window_revoked, revoke, revoke_file, revoke_window};

/// A round of an agreement: the communicator's first context, the agreement and the round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) context: u32,
    pub(crate) number: u32,
    pub(crate) round: u32,
}

impl Communicator {
    /// Context of the agreements that survive failures; revocation does not concern it.
    pub(crate) fn recovery_context(&self) -> u32 {
        self.context + RECOVERY_CONTEXT
    }
}

/// Says that the program goes on when processes fail. For a look without the lock.
pub static GOES_ON: AtomicBool = AtomicBool::new(false);

impl Process {
    /// Sets whether the program goes on when processes fail.
    pub(crate) fn set_goes_on(&mut self, goes_on: bool) {
        GOES_ON.store(goes_on, Ordering::Relaxed);
        if let Some(engine) = &mut self.engine {
            engine.messages.recovery.goes_on = goes_on;
        }
    }

    /// The failed members of a communicator, in the order in which this process has learned of the failures.
    fn failures_of(&self, communicator: &Communicator) -> Vec<PeerId> {
        let Some(engine) = &self.engine else { return Vec::new() };
        let members = &communicator.everybody().0.members;
        engine.messages.recovery.failures.iter().copied().filter(|peer| members.contains(peer)).collect()
    }

    /// The group of the first failed members of a communicator, as many as `which` chooses of all and of
    /// those that the program has acknowledged.
    fn group_of_failures(&self, communicator: usize, which: impl Fn(usize, usize) -> usize) -> Result<Arc<Group>> {
        let object = self.objects.communicator(communicator)?;
        let mut failures = self.failures_of(object);
        failures.truncate(which(failures.len(), object.acknowledged));
        Ok(object.group.derive(failures, self.own()))
    }

    /// Acknowledges the first `count` failures of a communicator. Returns the number of those that are
    /// acknowledged then. Receives from any source wait on when all failures are.
    fn acknowledge(&mut self, communicator: usize, count: usize) -> Result<usize> {
        let all = self.failures_of(self.objects.communicator(communicator)?).len();
        let object = self.objects.communicator_mut(communicator)?;
        object.acknowledged = object.acknowledged.max(count.min(all));
        let (acknowledged, context) = (object.acknowledged, object.context);
        if acknowledged == all {
            self.messages()?.unbar(context);
        }
        Ok(acknowledged)
    }

    /// Bars receives from any source on a communicator that has failures which are not acknowledged.
    pub(crate) fn bar_if_failed(&mut self, communicator: usize) {
        let Some(object) = self.objects.find_communicator(communicator) else { return };
        let failures = self.failures_of(object);
        let (context, unknown) = (object.context, failures.get(object.acknowledged).copied());
        if let (Some(peer), Some(engine)) = (unknown, &mut self.engine)
            && engine.messages.recovery.goes_on
        {
            engine.bar(context, Bar::Failed(peer));
        }
    }

    /// Takes in what the engine has noted of failures, revocations and agreements.
    #[cold]
    pub(crate) fn attend_to_recovery(&mut self) {
        let Some(engine) = &mut self.engine else { return };
        let completions = engine.messages.completions();
        let recovery = &mut engine.messages.recovery;
        let failed = recovery.take_failures();
        let revoked = recovery.take_revoked();
        // Messages of agreements may come at any time from now on.
        recovery.has_news = !self.recovery.services.is_empty();
        if failed.is_empty() && revoked.is_empty() && self.recovery.looked == completions {
            return;
        }
        self.recovery.looked = completions;
        for peer in failed {
            self.heed_failure(peer);
        }
        for context in revoked {
            self.heed_revocation(context);
        }
        self.serve_agreements();
    }

    fn heed_failure(&mut self, peer: PeerId) {
        for service in &mut self.recovery.services {
            service.handle_failure(peer);
        }
        let concerned = |object: &Communicator| object.everybody().0.members.contains(&peer);
        let found = self.objects.communicators.iter().filter(|(_, object)| concerned(object));
        let handles: Vec<usize> = found.map(|(handle, _)| handle).collect();
        for handle in handles {
            self.bar_if_failed(handle);
            self.spread_revocation(handle);
        }
    }

    /// This process's vote in an agreement of a communicator: the failures that it knows, and those that the
    /// program has acknowledged.
    pub(crate) fn vote_of(&self, communicator: usize) -> Result<Vote> {
        let object = self.objects.communicator(communicator)?;
        let members = &object.everybody().0.members;
        let rank = |peer: &PeerId| members.iter().position(|member| member == peer).map(|rank| rank as u32);
        let failures: Vec<u32> = self.failures_of(object).iter().filter_map(rank).collect();
        let mut vote = Vote::new(u32::MAX);
        vote.acknowledged = Ranks::of(failures.iter().copied().take(object.acknowledged));
        vote.failed = Ranks::of(failures);
        Ok(vote)
    }

    /// Begins the next agreement of a communicator: its first round.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`; too many are under way.
    pub(crate) fn begin_agreement(&mut self, communicator: usize) -> Result<Round> {
        let context = self.objects.communicator(communicator)?.context;
        let number = self.service_of(communicator)?.begin().ok_or_else(|| {
            Error::new(MPI_ERR_NO_MEM, "too many agreements of the communicator are under way: complete some first")
        })?;
        Ok(Round { context, number, round: 0 })
    }

    /// Votes in a round, and goes on with the decision.
    pub(crate) fn vote_in(&mut self, round: Round, vote: Vote, then: impl FnOnce(&mut Self, Vote) + Send + 'static) {
        let Round { context, number, round } = round;
        let Some(service) = self.recovery.services.iter_mut().find(|service| service.context == context) else {
            return;
        };
        service.vote(number, round, vote);
        self.recovery.waiting.push(Waiting { context, number, round, then: Box::new(then) });
        self.serve_agreements();
    }

    /// Notes that this process knows all decisions of an agreement.
    pub(crate) fn finish_agreement(&mut self, round: Round) {
        if let Some(service) = self.recovery.services.iter_mut().find(|service| service.context == round.context) {
            service.finish(round.number);
        }
    }

    /// Starts an agreement on the bits of `flag` that all processes of a communicator have. They are written
    /// to `data` when the request is complete.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`; too many requests or agreements.
    pub fn start_flag_agreement(&mut self, communicator: usize, flag: i32, data: UserData) -> Result<usize> {
        let vote = Vote { flags: flag as u32, ..self.vote_of(communicator)? };
        let request = self.messages()?.add_collective(communicator)?;
        let round = match self.begin_agreement(communicator) {
            Ok(round) => round,
            Err(error) => {
                self.complete_agreement(request, None);
                self.messages()?.forget(request);
                return Err(error);
            }
        };
        self.vote_in(round, vote, move |process, decision| {
            process.finish_agreement(round);
            if let Some(bytes) = data.run_mut(0, size_of::<i32>() as u64) {
                bytes.copy_from_slice(&decision.flags.to_ne_bytes());
            }
            process.complete_agreement(request, unacknowledged(&decision));
        });
        Ok(request)
    }

    /// Completes the request of an agreement.
    fn complete_agreement(&mut self, request: usize, error: Option<Error>) {
        let Ok(messages) = self.messages() else { return };
        if let Some(request) = messages.requests.get_mut(request) {
            request.error = error;
        }
        messages.complete(request);
    }
}

/// The error of an agreement in which processes have failed that not all participants have acknowledged; all
/// of them get it.
fn unacknowledged(decision: &Vote) -> Option<Error> {
    if decision.is_acknowledged() {
        return None;
    }
    let unknown = decision.failed.iter().filter(|rank| !decision.acknowledged.contains(*rank));
    let ranks: Vec<String> = unknown.map(|rank| rank.to_string()).collect();
    let message = format!(
        "rank {} of the communicator has failed, and not all processes have acknowledged it (MPIX_Comm_ack_failed)",
        ranks.join(", ")
    );
    Some(Error::new(MPI_ERR_PROC_ABORTED, message))
}

/// The group of the failed members of a communicator, as far as this process knows.
///
/// # Errors
/// `MPI_ERR_COMM`.
pub fn failed(communicator: usize) -> Result<Arc<Group>> {
    with(|process| {
        process.progress();
        process.group_of_failures(communicator, |all, _| all)
    })
}

/// The group of the failed members of a communicator that the program has acknowledged.
///
/// # Errors
/// `MPI_ERR_COMM`.
pub fn acknowledged(communicator: usize) -> Result<Arc<Group>> {
    with(|process| process.group_of_failures(communicator, |_, acknowledged| acknowledged))
}

/// Acknowledges the first `count` failures of a communicator, all of them if `None`. Returns the number of
/// those that are acknowledged then.
///
/// # Errors
/// `MPI_ERR_COMM`.
pub fn acknowledge(communicator: usize, count: Option<usize>) -> Result<usize> {
    with(|process| {
        process.progress();
        process.acknowledge(communicator, count.unwrap_or(usize::MAX))
    })
}

/// The error of a process that the others take for failed.
fn excluded() -> Error {
    Error::new(MPI_ERR_OTHER, "the other processes of the job take this one for failed, and go on without it")
}
