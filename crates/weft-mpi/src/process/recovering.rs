//! The state of recovery from failures: `crate::recovery` moves it on.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_core::matching::Envelope;
use weft_plan::agreement::{Agreements, Vote};

use super::Process;
use crate::constants::MPI_COMM_WORLD;
use crate::context::RECOVERY_CONTEXT;
use crate::engine::Engine;
use crate::memory::SharedBuffer;
use crate::object::{Group, PeerId};
use crate::request::{Receive, Request, State};

/// The continuation of a vote, with the decision.
pub(crate) type VoteContinuation = dyn FnOnce(&mut Process, Vote) + Send;

/// The longest message of an agreement, in bytes: a few sets of ranks.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;
/// The state of recovery in this process.
pub(crate) struct Recovery {
    /// The completions up to which messages of agreements have been looked for.
    pub(crate) looked: u64,
    /// The agreements of communicators, those of freed ones included: others may still ask for a decision.
    pub(crate) services: Vec<Service>,
    /// The votes whose decisions are waited for.
    pub(crate) waiting: Vec<Waiting>,
    /// The contexts that are revoked although this process does not know their communicators yet.
    pub(crate) early: Vec<u32>,
    /// Something has been revoked here.
    pub(crate) has_revoked: bool,
}

/// A wait for a decision.
pub(crate) struct Waiting {
    pub(crate) context: u32,
    pub(crate) number: u32,
    pub(crate) round: u32,
    pub(crate) then: Box<VoteContinuation>,
}

impl Recovery {
    pub(crate) const fn new() -> Self {
        Self { looked: 0, services: Vec::new(), waiting: Vec::new(), early: Vec::new(), has_revoked: false }
    }
}

/// The agreements of a communicator.
pub(crate) struct Service {
    /// The first context of the communicator.
    pub(crate) context: u32,
    pub(crate) group: Arc<Group>,
    pub(crate) rank: u32,
    pub(crate) agreements: Agreements,
    /// Long messages that are arriving: the request of each, its sender, and its memory.
    arriving: Vec<(usize, u32, SharedBuffer)>,
    /// Messages that could not be sent for want of a request.
    pub(crate) unsent: VecDeque<(u32, Vec<u8>)>,
    /// The communicator is gone.
    pub(crate) is_freed: bool,
}

impl Service {
    pub(crate) fn new(context: u32, group: Arc<Group>, rank: u32) -> Self {
        let agreements = Agreements::new(rank, group.size());
        let (arriving, unsent) = (Vec::new(), VecDeque::new());
        Self { context, group, rank, agreements, arriving, unsent, is_freed: false }
    }

    pub(crate) fn begin(&mut self) -> Option<u32> {
        self.agreements.begin()
    }

    pub(crate) fn vote(&mut self, number: u32, round: u32, vote: Vote) {
        self.agreements.vote(number, round, vote);
    }

    pub(crate) fn finish(&mut self, number: u32) {
        self.agreements.finish(number);
    }

    pub(crate) fn handle_failure(&mut self, peer: PeerId) {
        if let Some(rank) = self.group.members.iter().position(|member| *member == peer) {
            self.agreements.handle_failure(rank as u32);
        }
    }

    /// Takes in the messages that are here.
    pub(crate) fn receive(&mut self, engine: &mut Engine) {
        while let Some(taken) = engine.take_message(self.context + RECOVERY_CONTEXT, None) {
            let from = taken.envelope.source;
            if self.group.members.get(from as usize) != Some(&taken.peer) || taken.bytes > MESSAGE_BYTES_MAX {
                // No process of this library sends such a message.
                engine.messages.unexpected.remove(taken.unexpected);
                continue;
            }
            match taken.whole {
                Some(bytes) => {
                    self.agreements.handle_message(from, &bytes);
                }
                None => self.begin_long(engine, taken.envelope, taken.unexpected, taken.bytes),
            }
        }
        for at in (0..self.arriving.len()).rev() {
            let handle = self.arriving[at].0;
            if engine.messages.requests.get(handle).is_none_or(Request::is_complete) {
                let (_, from, buffer) = self.arriving.swap_remove(at);
                if engine.messages.take_error(handle).is_none() {
                    buffer.with_bytes(|bytes| self.agreements.handle_message(from, bytes));
                }
            }
        }
    }

    /// Receives a message that is not whole yet.
    fn begin_long(&mut self, engine: &mut Engine, envelope: Envelope, unexpected: usize, bytes: u64) {
        let buffer = SharedBuffer::new(bytes as usize);
        let receive = Receive {
            context: Some(envelope.context),
            source: Some(envelope.source),
            peer: Some(self.group.members[envelope.source as usize]),
            tag: Some(envelope.tag),
            data: buffer.describe_all(),
            blocking: false,
        };
        if let Ok(handle) = engine.messages.add(State::Posted(receive), MPI_COMM_WORLD) {
            engine.claim(handle, envelope, unexpected);
            self.arriving.push((handle, envelope.source, buffer));
        }
    }
}
