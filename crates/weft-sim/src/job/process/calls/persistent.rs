//! Persistent requests: made once, started and awaited in rounds, with different bytes in each round.

use super::{Checked, Live, Proc, background, text};
use crate::job::program::{Message, Step};
use crate::job::shape::{Placed, content};
use weft_engine::error::ErrorClass;
use weft_engine::request::{self, State, Status};

/// An end of a message that is sent again and again.
pub(in crate::job::process) struct Persistent {
    message: Message,
    is_send: bool,
    live: Live,
}

/// The name of the message that is sent in a round.
fn in_round(id: u32, round: u8) -> u64 {
    u64::from(id) | u64::from(round) << 40
}

impl Proc {
    pub(super) fn make_persistent(&mut self, role: usize, step: &Step, messages: &[Message]) -> Checked<()> {
        let mut made = Vec::new();
        for message in messages {
            for is_send in [!message.receive_first, message.receive_first] {
                let member = if is_send { message.from } else { message.to };
                if self.comms[role][step.comm].members[member] != self.rank {
                    continue;
                }
                let placed = if is_send {
                    Placed::new(message.send_shape, message.bytes, u64::from(message.id))
                } else {
                    Placed::new(message.receive_shape, message.room, background(message.id))
                };
                self.place(&placed);
                let handle = self.engine.messages.add(State::Inactive, step.context as usize).map_err(text)?;
                let operation = if is_send {
                    request::Persistent::Send(self.make_send(role, step, message, &placed, false))
                } else {
                    request::Persistent::Receive(self.make_receive(role, step, message, &placed, false))
                };
                if let Some(request) = self.engine.messages.requests.get_mut(handle) {
                    request.persistent = Some(Box::new(operation));
                }
                made.push(Persistent {
                    message: message.clone(),
                    is_send,
                    live: Live { handle, placed, message: None },
                });
            }
        }
        self.persistent.insert(role, made);
        Ok(())
    }

    pub(super) fn start_persistent(&mut self, role: usize, round: u8) -> Checked<()> {
        for at in 0..self.persistent[&role].len() {
            let Persistent { message, is_send, live } = &self.persistent[&role][at];
            let (handle, is_send) = (live.handle, *is_send);
            live.placed.wipe();
            if is_send {
                live.placed.put(content(in_round(message.id, round), message.bytes as usize));
            }
            let Some(request) = self.engine.messages.requests.get_mut(handle) else {
                return Err("a persistent request is gone".into());
            };
            (request.status, request.error) = (Status::EMPTY, None);
            let state = match request.persistent.as_deref().cloned() {
                Some(request::Persistent::Send(send)) => State::Queued(send),
                Some(request::Persistent::Receive(receive)) => State::Posted(receive),
                _ => return Err("a persistent request has lost its operation".into()),
            };
            self.engine.messages.restart(handle, state);
            if is_send { self.engine.start_send(handle) } else { self.engine.start_receive(handle) }
        }
        Ok(())
    }

    pub(super) fn end_round(&mut self, role: usize, round: u8) -> Checked<bool> {
        let all = &self.persistent[&role];
        if !all.iter().all(|one| self.settled(one.live.handle)) {
            return Ok(false);
        }
        for at in 0..all.len() {
            let Persistent { message, is_send, live } = &self.persistent[&role][at];
            let (message, is_send, handle) = (message.clone(), *is_send, live.handle);
            let Some(request) = self.engine.messages.requests.get_mut(handle) else {
                return Err("a persistent request is gone".into());
            };
            let (status, error) = (request.status, request.error.take());
            request.state = State::Inactive;
            if error.as_ref().is_some_and(|error| self.may_fail(error)) {
                continue;
            }
            let id = message.id;
            let placed = &self.persistent[&role][at].live.placed;
            if is_send {
                placed.wipe();
                if let Some(error) = error {
                    return Err(format!("the persistent send {id} fails in round {round}: {error}"));
                }
                continue;
            }
            let bytes = message.bytes.min(message.room);
            let expected = Status { source: message.from as i32, tag: message.tag, error: 0, bytes, cancelled: false };
            let truncated = message.bytes > message.room;
            if status != expected
                || error.as_ref().map(|error| error.class) != truncated.then_some(ErrorClass::Truncate)
            {
                return Err(format!(
                    "the persistent receive {id} in round {round}: {status:?}, not {expected:?}; {error:?}"
                ));
            }
            let checked = placed.check(content(in_round(id, round), bytes as usize));
            checked.map_err(|what| format!("the persistent receive {id} in round {round}: {what}"))?;
        }
        Ok(true)
    }

    pub(super) fn free_persistent(&mut self, role: usize) {
        for one in self.persistent.remove(&role).into_iter().flatten() {
            if let Some(request) = self.engine.messages.requests.get_mut(one.live.handle) {
                request.persistent = None;
                request.state = State::Complete;
            }
            self.engine.messages.forget(one.live.handle);
            self.spent.push(one.live.placed);
        }
    }
}
