//! A call that waits for a process in MPI_Finalize need not wait for ever: it fails, and the error says why.
//!
//! A process that calls MPI_Finalize sends messages to some of the others in a context that nothing else
//! uses. Messages between two processes keep their order, so everything that the process sent before is here
//! when such a message is. The other processes learn nothing by themselves. A call that has waited for a
//! while asks the process that it waits for, once; a process in MPI_Finalize answers. So processes that do
//! not wait long send nothing.
//!
//! The answer says nothing of messages *to* a process in MPI_Finalize: a receive that this process has freed
//! may still take one (MPI-5.0 §3.7.3). A sender that waits asks a second question. The answer comes when the
//! process has looked at everything that the sender sent before, and everything that a receive has taken of
//! it has come.

use weft_core::matching::Envelope;
use weft_core::time::{Duration, Instant};
use weft_net::clock;

use super::Process;
use crate::awaited::Awaited;
use crate::context::FINALIZE_CONTEXT;
use crate::error::{Error, Result};
use crate::memory::UserData;
use crate::object::PeerId;

/// The question "are you in MPI_Finalize?". The collectives there have lower tags.
const QUESTION: i32 = 100;
/// The answer "yes".
const ANSWER: i32 = 101;
/// The question to a process in MPI_Finalize: "have you looked at all that I have sent?".
const QUESTION_OF_SENDER: i32 = 102;
/// The answer "yes, and no message of yours is on its way to a receive".
const ANSWER_TO_SENDER: i32 = 103;
/// The time for which a call sleeps before it asks.
const PATIENCE: Duration = Duration::from_millis(500);
/// Above this number of requests, a call looks through them only when it may ask, not whenever it sleeps.
const REQUESTS_MANY: usize = 256;

/// The state of the questions, and the processes that are known to be in MPI_Finalize.
#[derive(Default)]
pub(crate) struct Finalizing {
    /// The time since which the call that sleeps has slept, apart from moments.
    since: Option<Instant>,
    /// The time at which many requests were last looked through.
    looked: Option<Instant>,
    /// The processes that this process has asked.
    asked: Vec<PeerId>,
    /// The processes that are known to be in MPI_Finalize.
    known: Vec<PeerId>,
    /// The processes in MPI_Finalize that have been asked about sends, each with the requests of these sends.
    sends: Vec<(PeerId, Vec<usize>)>,
    /// The knowledge of operations that are still under way in this process's own MPI_Finalize.
    pub(super) settling: super::settling::Settling,
    /// The questions and answers of others that lie here.
    arrived: u64,
    /// Says that this process is in MPI_Finalize itself.
    is_own: bool,
}

impl Finalizing {
    /// The state in which no process is in MPI_Finalize.
    pub(super) const fn new() -> Self {
        Self {
            since: None,
            looked: None,
            asked: Vec::new(),
            known: Vec::new(),
            sends: Vec::new(),
            settling: super::settling::Settling::new(),
            arrived: 0,
            is_own: false,
        }
    }

    /// The questions and answers of others that lay here when a call last looked.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Notes that no call waits any more.
    pub(super) fn end_wait(&mut self) {
        self.since = None;
        self.looked = None;
    }
}

impl Process {
    /// Notes that this process has called MPI_Finalize, and answers questions from now on.
    pub(crate) fn begin_finalizing(&mut self) {
        self.finalizing.is_own = true;
        self.answer();
    }

    /// Forgets everything: the World Model is over.
    pub(crate) fn end_finalizing(&mut self) {
        self.finalizing = Finalizing::new();
    }

    /// Checks that a probe for messages of `peer` can still find one.
    ///
    /// # Errors
    /// `peer` has called MPI_Finalize.
    pub(crate) fn check_not_finalizing(&self, peer: Option<PeerId>) -> Result<()> {
        match peer.filter(|peer| self.finalizing.known.contains(peer)) {
            Some(peer) => Err(self.nothing_comes_from(peer)),
            None => Ok(()),
        }
    }

    fn nothing_comes_from(&self, peer: PeerId) -> Error {
        let members = self.job.as_ref().map_or(&[][..], |job| &job.members);
        let rank = members.iter().position(|member| *member == peer).unwrap_or_default();
        Error::finalized(rank as u32)
    }

    /// Returns `true` if the call that is about to sleep waits for a process in MPI_Finalize, so that the
    /// call need not sleep. Otherwise shortens `timeout` to the longest time that the call may sleep. (Where
    /// there are sessions, a process in MPI_Finalize may send more.)
    pub(super) fn heed_finalizing(&mut self, timeout: &mut Option<Duration>) -> bool {
        if self.finalizing.is_own {
            self.answer();
            return false;
        }
        if self.had_sessions || self.job.as_ref().is_none_or(|job| job.size == 1) {
            return false;
        }
        self.learn();
        if self.finalizing.known.is_empty() && self.is_patient(timeout) {
            return false;
        }
        let waited_for = self.waited_for();
        let mut any = matches!(self.awaited, Awaited::Message { .. })
            && waited_for.iter().any(|peer| self.finalizing.known.contains(peer));
        for peer in self.finalizing.known.clone() {
            let error = self.nothing_comes_from(peer);
            let requests = self.awaited_requests();
            let Some(engine) = &mut self.engine else { return false };
            any |= engine.messages.no_message_from(peer, FINALIZE_CONTEXT, &requests, &error);
            any |= engine.node_collectives().nothing_more_published_by(peer, &error);
            self.ask_about_sends(peer, &requests, timeout);
        }
        any |= self.fail_sends();
        if !any {
            self.ask(&waited_for, timeout);
        }
        any
    }

    /// Asks `peer`, which is in MPI_Finalize, about the sends to it that a call waits for.
    fn ask_about_sends(&mut self, peer: PeerId, requests: &[usize], timeout: &mut Option<Duration>) {
        let Some(engine) = &self.engine else { return };
        let sends = engine.messages.unmatched_sends(peer, FINALIZE_CONTEXT, requests);
        if sends.is_empty() || self.finalizing.sends.iter().any(|(asked, _)| *asked == peer) {
            return;
        }
        if self.say(peer, QUESTION_OF_SENDER) {
            self.finalizing.sends.push((peer, sends));
        } else {
            *timeout = Some(timeout.map_or(PATIENCE, |timeout| timeout.min(PATIENCE)));
        }
    }

    /// Lets the sends fail that no receive has taken at processes that have answered. Returns whether there
    /// are any.
    fn fail_sends(&mut self) -> bool {
        let mut any = false;
        for peer in self.take_answers() {
            let error = self.nothing_comes_from(peer);
            let Some(at) = self.finalizing.sends.iter().position(|(asked, _)| *asked == peer) else { continue };
            let (_, sends) = self.finalizing.sends.swap_remove(at);
            any |= self.engine.as_mut().is_some_and(|engine| engine.messages.fail_unmatched(&sends, &error));
        }
        any
    }

    /// Takes the processes that have answered a question of this process as a sender.
    pub(super) fn take_answers(&mut self) -> Vec<PeerId> {
        let (Some(engine), Some(job)) = (&mut self.engine, &self.job) else { return Vec::new() };
        let mut peers = Vec::new();
        for (rank, tag) in engine.messages.unexpected_in(FINALIZE_CONTEXT) {
            if let Some(peer) = job.members.get(rank as usize).filter(|_| tag == ANSWER_TO_SENDER) {
                engine.messages.drop_unexpected(FINALIZE_CONTEXT, rank, tag);
                peers.push(*peer);
            }
        }
        peers
    }

    /// Asks `peer`, which is in MPI_Finalize as this process is. Returns `false` when the message cannot be
    /// sent now.
    pub(super) fn ask_as_sender(&mut self, peer: PeerId) -> bool {
        self.say(peer, QUESTION_OF_SENDER)
    }

    /// Returns whether it is too early to look through many requests for processes to ask. If so, the call
    /// sleeps until it is time.
    fn is_patient(&mut self, timeout: &mut Option<Duration>) -> bool {
        if self.engine.as_ref().is_none_or(|engine| engine.messages.requests.len() <= REQUESTS_MANY) {
            return false;
        }
        let now = clock::now();
        let waited = now.since(*self.finalizing.looked.get_or_insert(now));
        let left = Duration(PATIENCE.0.saturating_sub(waited.0));
        if left.0 == 0 {
            self.finalizing.looked = Some(now);
            return false;
        }
        *timeout = Some(timeout.map_or(left, |timeout| timeout.min(left)));
        true
    }

    /// Notes the processes that have called MPI_Finalize, as far as their messages say.
    fn learn(&mut self) {
        let (Some(engine), Some(job)) = (&mut self.engine, &self.job) else { return };
        let arrived = engine.messages.unexpected_in(FINALIZE_CONTEXT);
        self.finalizing.arrived = arrived.len() as u64;
        for (rank, tag) in arrived {
            if let Some(peer) = job.members.get(rank as usize).filter(|_| tag != QUESTION && tag != QUESTION_OF_SENDER)
                && !self.finalizing.known.contains(peer)
            {
                self.finalizing.known.push(*peer);
            }
        }
    }

    /// The requests that the call which is about to sleep, and the calls of parked threads, wait for.
    fn awaited_requests(&self) -> Vec<usize> {
        self.awaited.requests().into_iter().chain(self.parked.requests()).collect()
    }

    /// The processes that the call which is about to sleep waits for.
    fn waited_for(&self) -> Vec<PeerId> {
        let probed = match self.awaited {
            Awaited::Message { communicator, source, .. } => {
                self.objects.find_communicator(communicator).and_then(|object| object.peer(source, "source").ok()?)
            }
            _ => None,
        };
        let Some(engine) = &self.engine else { return Vec::new() };
        let mut peers = engine.messages.waited_for(FINALIZE_CONTEXT, &self.awaited_requests());
        peers.extend(probed);
        peers.extend(engine.awaited_in_slots());
        peers
    }

    /// Asks those of `peers` that have not been asked, once the call has slept long enough. Until then
    /// shortens the call's sleep to that time.
    fn ask(&mut self, peers: &[PeerId], timeout: &mut Option<Duration>) {
        let asked = &mut self.finalizing.asked;
        let unasked: Vec<PeerId> = peers.iter().copied().filter(|peer| !asked.contains(peer)).collect();
        if unasked.is_empty() {
            return;
        }
        let now = clock::now();
        let waited = now.since(*self.finalizing.since.get_or_insert(now));
        if waited < PATIENCE {
            let left = Duration(PATIENCE.0 - waited.0);
            *timeout = Some(timeout.map_or(left, |timeout| timeout.min(left)));
            return;
        }
        for peer in unasked {
            if self.say(peer, QUESTION) {
                self.finalizing.asked.push(peer);
            }
        }
    }

    /// Answers all processes that have asked.
    pub(super) fn answer(&mut self) {
        let (Some(engine), Some(job)) = (&mut self.engine, &self.job) else { return };
        let mut answers = Vec::new();
        for (rank, question) in engine.messages.unexpected_in(FINALIZE_CONTEXT) {
            let Some(peer) = job.members.get(rank as usize).copied() else { continue };
            let answer = match question {
                QUESTION => ANSWER,
                QUESTION_OF_SENDER if !engine.messages.is_receiving_from(peer) => ANSWER_TO_SENDER,
                _ => continue,
            };
            answers.push((rank, peer, question, answer));
        }
        for (rank, peer, question, answer) in answers {
            if self.say(peer, answer)
                && let Some(engine) = &mut self.engine
            {
                engine.messages.drop_unexpected(FINALIZE_CONTEXT, rank, question);
            }
        }
    }

    /// Sends `peer` an empty message. Returns `false` when the message cannot be sent now.
    fn say(&mut self, peer: PeerId, tag: i32) -> bool {
        let (Some(engine), Some(job)) = (&mut self.engine, &self.job) else { return false };
        let envelope = Envelope { context: FINALIZE_CONTEXT, source: job.rank, tag };
        let said = engine.send_now(peer, envelope, &UserData::empty());
        self.signal();
        said
    }
}
