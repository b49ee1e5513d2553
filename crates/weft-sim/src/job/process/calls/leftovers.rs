//! The end of a wild block: messages that match no receive are received all the same, and receives that got
//! no message are cancelled.

use super::{Checked, Done, Proc, Waiting, background};
use crate::job::program::{Block, Call, How, Message, Program, Step, WildReceive, wild_context};
use crate::job::shape::{Placed, Shape};
use crate::job::wild::{self, Taken};
use std::collections::BTreeMap;
use weft_engine::request::{Mode, Receive};

/// The state of a thread at the end of a wild block.
#[derive(Clone, Debug)]
pub(in crate::job::process) struct WildWait {
    pub(super) context: u32,
    pub(super) role: usize,
    pub(super) comm: usize,
    pub(super) sends: Vec<u32>,
    pub(super) receives: Vec<u32>,
    pub(super) expected: usize,
    pub(super) matched: bool,
    /// The messages that were received beyond the block's receives.
    pub(super) drained: Vec<u32>,
}

/// The messages and receives of a program's wild blocks that concern one process, by context.
#[derive(Default)]
pub(in crate::job::process) struct WildBlocks {
    /// Messages to this process, in the order in which each sender sends them.
    messages: BTreeMap<u32, Message>,
    by_context: BTreeMap<u32, Vec<u32>>,
    receives: BTreeMap<u32, WildReceive>,
}

impl WildBlocks {
    pub(in crate::job::process) fn new(program: &Program, rank: usize) -> Self {
        let mut found = Self::default();
        for (number, role) in program.roles.iter().enumerate() {
            // The steps that a block makes tell its context.
            for step in role.script(number, rank) {
                if let Call::WildReceive(receive) = &step.call {
                    found.receives.insert(receive.id, receive.clone());
                }
            }
            for block in &role.blocks {
                let Block::Wild { id, comm, messages, .. } = block else { continue };
                let members = &role.comms[*comm].members;
                let Some(own) = members.iter().position(|member| *member == rank) else { continue };
                let context = wild_context(number, *id);
                for message in messages.iter().filter(|message| message.to == own) {
                    found.by_context.entry(context).or_default().push(message.id);
                    found.messages.insert(message.id, message.clone());
                }
            }
        }
        found
    }
}

impl Proc {
    pub(super) fn post_wild(&mut self, role: usize, step: &Step, wanted: &WildReceive) -> Checked<()> {
        let placed = Placed::new(wanted.shape, wanted.room, background(wanted.id));
        self.place(&placed);
        let receive = Receive {
            context: Some(step.context),
            source: wanted.source.map(|source| source as u32),
            peer: wanted.source.map(|source| self.member(role, step, source)),
            tag: wanted.tag,
            data: placed.data(),
            blocking: false,
        };
        self.post_placed(step, receive, placed, None, wanted.id)
    }

    /// Receives messages that match no receive, until all messages are here; then cancels the receives that
    /// have got none.
    pub(super) fn end_wild(&mut self, mut wait: Box<WildWait>) -> Checked<Option<Waiting>> {
        let complete = |proc: &Self, id: &u32| proc.settled(proc.receives[id].handle);
        while let Some((envelope, bytes)) = self.probe(wait.context, None, None) {
            let id = (1 << 30) | wait.drained.len() as u32 | wait.context << 8;
            let step = Step { comm: wait.comm, context: wait.context, call: Call::Compute(0) };
            let (source, tag) = (Some(envelope.source), Some(envelope.tag));
            let message = Message {
                id,
                comm: 0,
                from: 0,
                to: 0,
                tag: envelope.tag,
                bytes,
                mode: Mode::Standard,
                send: How::Blocking,
                receive: How::Blocking,
                send_shape: Shape::Plain,
                receive_shape: Shape::Plain,
                room: bytes,
                any_source: true,
                any_tag: false,
                receive_first: false,
                compute: (0, 0),
            };
            if wait.matched {
                self.receive_extracted(wait.role, &step, &message, None, None)?;
            } else {
                let placed = Placed::new(Shape::Plain, bytes, background(id));
                self.place(&placed);
                let data = placed.data();
                let peer = Some(self.member(wait.role, &step, envelope.source as usize));
                let receive = Receive { context: Some(wait.context), source, peer, tag, data, blocking: false };
                self.post_placed(&step, receive, placed, None, id)?;
            }
            wait.drained.push(id);
        }
        let received = wait.receives.iter().filter(|id| complete(self, id)).count();
        let drained = wait.drained.iter().filter(|id| complete(self, id)).count();
        if received + drained > wait.expected {
            return Err(format!(
                "{} messages came in context {}, of {}",
                received + drained,
                wait.context,
                wait.expected
            ));
        }
        let sent = wait.sends.iter().all(|id| self.settled(self.sends[id].handle));
        if received + drained < wait.expected || !sent {
            return Ok(Some(Waiting::Wild(wait)));
        }
        self.conclude_wild(&wait)?;
        Ok(None)
    }

    fn conclude_wild(&mut self, wait: &WildWait) -> Checked<()> {
        for id in &wait.sends {
            self.end_send(*id)?;
        }
        let mut taken = Vec::new();
        for id in wait.receives.iter().chain(&wait.drained) {
            let Some(live) = self.receives.remove(id) else { continue };
            if !self.settled(live.handle) {
                self.engine.cancel(live.handle);
                if !self.settled(live.handle) {
                    return Err(format!("receive {id} of context {} cannot be cancelled", wait.context));
                }
            }
            let wanted = self.wild.receives.get(id).map_or((None, None), |wanted| (wanted.source, wanted.tag));
            let (status, error) = self.conclude(live.handle);
            taken.push(Taken {
                id: *id,
                source: wanted.0,
                tag: wanted.1,
                placed: live.placed,
                status,
                error,
                message: None,
            });
        }
        let sent: Vec<Message> = self
            .wild
            .by_context
            .get(&wait.context)
            .into_iter()
            .flatten()
            .map(|id| self.wild.messages[id].clone())
            .collect();
        wild::judge(&sent, &mut taken).map_err(|what| format!("context {}: {what}", wait.context))?;
        for one in taken {
            match one.message {
                Some((name, bytes)) => self.received.push(Done { placed: one.placed, name: name.into(), bytes }),
                None => self.received.push(Done { placed: one.placed, name: 0, bytes: 0 }),
            }
        }
        Ok(())
    }
}
