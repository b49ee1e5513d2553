//! Completes the operations that the program has left to MPI, before MPI_Finalize returns: operations whose
//! requests the program has freed, and messages of its buffers (MPI-5.0 §3.6, §3.7.3, §11.2.2).
//!
//! All processes are in MPI_Finalize by then, so no operation begins. A message that has been matched
//! arrives. A process asks each peer with which one of its operations is open. Once the peer has answered, an
//! unmatched message stays unmatched for ever.

use weft_engine::messages::{PeerAccess, Unfinished};

use super::Process;
use crate::buffered::Buffer;
use crate::object::PeerId;

/// The questions about these operations, and the answers.
#[derive(Default)]
pub(super) struct Settling {
    /// The processes that this process has asked.
    asked: Vec<PeerId>,
    /// The processes that have answered.
    answered: Vec<PeerId>,
}

impl Settling {
    /// The state in which no process has been asked.
    pub(super) const fn new() -> Self {
        Self { asked: Vec::new(), answered: Vec::new() }
    }
}

impl Process {
    /// The sends and receives under way that the program has left to MPI.
    pub(crate) fn unfinished(&mut self) -> Vec<Unfinished> {
        let Self { objects, engine: Some(engine), buffer, temporaries, .. } = self else { return Vec::new() };
        let mut lent = Vec::new();
        let mut note = |buffer: &mut Buffer| lent.extend(buffer.requests());
        objects.for_each_buffer(&mut note);
        [buffer, temporaries].into_iter().for_each(&mut note);
        engine.messages.unfinished(&lent)
    }

    /// Looks whether these operations have come as far as they can. If so, returns the ones that are not
    /// complete. A wait calls this once in each pass.
    pub(crate) fn settle(&mut self) -> Option<Vec<Unfinished>> {
        self.answer();
        let unfinished = self.unfinished();
        let answered = self.take_answers();
        self.finalizing.settling.answered.extend(answered);
        let mut is_open = unfinished.iter().any(|operation| !operation.is_unmatched);
        for peer in self.partners(&unfinished) {
            let Settling { asked, answered, .. } = &self.finalizing.settling;
            let (is_asked, has_answered) = (asked.contains(&peer), answered.contains(&peer));
            // A message that has not left yet would come after the question.
            let moves = unfinished.iter().any(|operation| !operation.is_unmatched && operation.peer == Some(peer));
            if !is_asked && !moves && self.ask_as_sender(peer) {
                self.finalizing.settling.asked.push(peer);
            }
            is_open |= !has_answered;
        }
        if is_open {
            return None;
        }
        // All have answered. The progress loop looks once more at what they had written before, by any way:
        // nothing else would wake this wait.
        self.progress();
        let unfinished = self.unfinished();
        unfinished.iter().all(|operation| operation.is_unmatched).then_some(unfinished)
    }

    /// The peers of the unmatched operations: all processes, where a receive is from any source. Not this
    /// process, which knows its own messages, and not processes that are gone, from which nothing comes.
    fn partners(&self, unfinished: &[Unfinished]) -> Vec<PeerId> {
        let (Some(job), Some(engine)) = (&self.job, &self.engine) else { return Vec::new() };
        let unmatched = || unfinished.iter().filter(|operation| operation.is_unmatched);
        let any = unmatched().any(|operation| operation.peer.is_none());
        let others = job.members.iter().copied().filter(|peer| *peer != self.own() && !engine.peers.has_failed(*peer));
        others.filter(|peer| any || unmatched().any(|operation| operation.peer == Some(*peer))).collect()
    }

    /// The sentences about operations that have stayed unmatched.
    pub(crate) fn describe_unfinished(&self, unfinished: &[Unfinished]) -> Vec<String> {
        let kind = |is_send: bool| {
            let mut all = unfinished.iter().filter(|operation| operation.is_send == is_send);
            let first = all.next()?;
            let members = self.job.as_ref().map_or(&[][..], |job| &job.members);
            let rank_of = |peer| members.iter().position(|member| *member == peer);
            let rank = first.peer.and_then(rank_of).map_or("any rank".to_owned(), |rank| format!("rank {rank}"));
            let tag = first.tag.map_or(String::new(), |tag| format!(" with tag {tag}"));
            let more = match all.count() {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            Some(match is_send {
                true => format!(
                    "MPI_Finalize gives up a message to {rank}{tag}{more}: its request was freed, or MPI_Bsend sent it, and no receive has taken it; \
                     every message must be received (MPI-5.0 §11.2.2)"
                ),
                false => format!(
                    "MPI_Finalize gives up a receive from {rank}{tag}{more}: MPI_Request_free has freed it, and no message has come; cancel what may not come"
                ),
            })
        };
        [true, false].into_iter().filter_map(kind).collect()
    }
}
