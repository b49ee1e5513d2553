//! Makes the calls of a program at the engine, and checks the result of each.

mod leftovers;
mod persistent;

use super::windows::WindowWait;
use super::{Checked, Proc};
use crate::job::construct::{self, Carriers};
use crate::job::program::{Call, How, Message, Step, role_of};
use crate::job::shape::{Placed, Shape, content};
pub(super) use leftovers::{WildBlocks, WildWait};
pub(super) use persistent::Persistent;
use std::fmt;
use weft_core::matching::Envelope;
use weft_engine::error::{Error, ErrorClass};
use weft_engine::group::PeerId;
use weft_engine::request::{Mode, Receive, Request, Send, State, Status};

/// The tag of the message that tells whether a send was cancelled.
const TELLS: i32 = 5000;
/// The most looks of a blocking receive before it is posted.
const LOOKS_MAX: u64 = 3;

/// An operation under way.
pub(super) struct Live {
    pub(super) handle: usize,
    pub(super) placed: Placed,
    pub(super) message: Option<Message>,
}

/// A received message: its bytes, and the place where they are.
pub(super) struct Done {
    pub(super) placed: Placed,
    pub(super) name: u64,
    pub(super) bytes: usize,
}

/// The event that a thread waits for.
#[derive(Clone, Debug)]
pub(super) enum Waiting {
    Send(u32),
    Receive(u32),
    Probe {
        step: Box<Step>,
        message: Box<Message>,
        matched: bool,
    },
    Persistent {
        role: usize,
        round: u8,
    },
    Wild(Box<WildWait>),
    /// The end of a send that the program has asked to cancel.
    Cancel(u32),
    /// The message that tells whether the send was cancelled.
    Word {
        step: Box<Step>,
        message: Box<Message>,
    },
    Collective(u32),
    Window(Box<WindowWait>),
    /// All other processes.
    Others,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(id) => write!(f, "the send of message {id}"),
            Self::Receive(id) => write!(f, "message {id}"),
            Self::Probe { message, .. } => write!(f, "a probe for message {}", message.id),
            Self::Persistent { round, .. } => write!(f, "round {round} of persistent requests"),
            Self::Wild(wait) => write!(
                f,
                "{} messages in context {}, or {} sends",
                wait.expected - wait.drained.len(),
                wait.context,
                wait.sends.len()
            ),
            Self::Cancel(id) => write!(f, "the cancelled send of message {id}"),
            Self::Word { message, .. } => write!(f, "the word whether message {} was cancelled", message.id),
            Self::Collective(id) => write!(f, "collective {id}"),
            Self::Window(wait) => write!(f, "{wait}"),
            Self::Others => write!(f, "the other processes"),
        }
    }
}

fn background(id: u32) -> u64 {
    u64::from(id) | 1 << 60
}

impl Proc {
    fn place(&self, placed: &Placed) {
        self.memory.register(Carriers::pid(self.rank), &placed.buffer);
    }

    /// The engine's name of a process.
    pub(in crate::job) fn peer(&self, rank: usize) -> PeerId {
        construct::peer_id(&self.engine, rank)
    }

    fn member(&self, role: usize, step: &Step, rank: usize) -> PeerId {
        self.peer(self.comms[role][step.comm].members[rank])
    }

    fn make_send(&self, role: usize, step: &Step, message: &Message, placed: &Placed, blocking: bool) -> Send {
        let envelope = Envelope { context: step.context, source: message.from as u32, tag: message.tag };
        let peer = Some(self.member(role, step, message.to));
        Send { peer, envelope, data: placed.data(), mode: message.mode, blocking }
    }

    fn make_receive(&self, role: usize, step: &Step, message: &Message, placed: &Placed, blocking: bool) -> Receive {
        let source = (!message.any_source).then_some(message.from as u32);
        Receive {
            context: Some(step.context),
            source,
            peer: source.map(|_| self.member(role, step, message.from)),
            tag: (!message.any_tag).then_some(message.tag),
            data: placed.data(),
            blocking,
        }
    }

    /// Begins a call. Returns the event that the call waits for, if it waits.
    pub(super) fn begin(&mut self, role: usize, step: &Step) -> Checked<Option<Waiting>> {
        self.note(|| format!("role {role}, context {}: {}", step.context, summary(&step.call)));
        match &step.call {
            Call::Compute(_) => Ok(None),
            Call::Send { message, blocking } => {
                self.start_send(role, step, message, *blocking)?;
                Ok(blocking.then_some(Waiting::Send(message.id)))
            }
            Call::WildSend { message } => self.start_send(role, step, message, false).map(|()| None),
            Call::Receive { message, how } => self.begin_receive(role, step, message, *how),
            Call::AwaitSend(id) => Ok(Some(Waiting::Send(*id))),
            Call::AwaitReceive(id) => Ok(Some(Waiting::Receive(*id))),
            Call::MakePersistent { messages } => self.make_persistent(role, step, messages).map(|()| None),
            Call::StartPersistent { round } => self.start_persistent(role, *round).map(|()| None),
            Call::AwaitPersistent { round } => Ok(Some(Waiting::Persistent { role, round: *round })),
            Call::FreePersistent => {
                self.free_persistent(role);
                Ok(None)
            }
            Call::WildReceive(receive) => self.post_wild(role, step, receive).map(|()| None),
            Call::AwaitWild { sends, receives, expected, matched } => Ok(Some(Waiting::Wild(Box::new(WildWait {
                context: step.context,
                role,
                comm: step.comm,
                sends: sends.clone(),
                receives: receives.clone(),
                expected: *expected,
                matched: *matched,
                drained: Vec::new(),
            })))),
            Call::SendAndCancel(message) => {
                self.start_send(role, step, message, false)?;
                let handle = self.sends[&message.id].handle;
                if self.random.chance(500_000) {
                    self.progress();
                }
                self.engine.cancel(handle);
                Ok(Some(Waiting::Cancel(message.id)))
            }
            Call::TellCancelled(message) => {
                let word = word_of(message);
                let cancelled = u64::from(self.cancelled[&message.id]);
                let placed = Placed::holding(Shape::Plain, word.bytes, cancelled);
                self.start_placed(role, step, &word, placed, true)?;
                Ok(Some(Waiting::Send(word.id)))
            }
            Call::ReceiveUnlessCancelled(message) => {
                let word = word_of(message);
                self.post(role, step, &word, true)?;
                Ok(Some(Waiting::Word { step: Box::new(step.clone()), message: Box::new(message.clone()) }))
            }
            Call::StartCollective(collective) => self.start_collective(role, step, collective).map(|()| None),
            Call::AwaitCollective(id) => Ok(Some(Waiting::Collective(*id))),
            Call::Window(id, call) => {
                let begun = self.begin_on_window(role, step, *id, call)?;
                Ok(begun.map(|wait| Waiting::Window(Box::new(wait))))
            }
        }
    }

    /// Checks whether an awaited event has happened. Returns the event if it has not.
    pub(super) fn look(&mut self, waiting: Waiting) -> Checked<Option<Waiting>> {
        match waiting {
            Waiting::Send(id) => Ok((!self.end_send(id)?).then_some(waiting)),
            Waiting::Receive(id) => Ok((!self.end_receive(id)?).then_some(waiting)),
            Waiting::Probe { step, message, matched } => self.look_for(step, message, matched),
            Waiting::Persistent { role, round } => Ok((!self.end_round(role, round)?).then_some(waiting)),
            Waiting::Wild(wait) => self.end_wild(wait),
            Waiting::Cancel(id) => {
                let live = &self.sends[&id];
                let request = self.engine.messages.requests.get(live.handle);
                if request.is_some_and(|request| !request.is_complete()) {
                    return Ok(Some(waiting));
                }
                let cancelled = request.is_some_and(|request| request.status.cancelled);
                self.cancelled.insert(id, cancelled);
                self.end_send(id)?;
                self.note(|| format!("message {id} was cancelled: {cancelled}"));
                Ok(None)
            }
            Waiting::Word { step, message } => self.end_word(step, message),
            Waiting::Collective(id) => Ok((!self.end_collective(id)?).then_some(waiting)),
            Waiting::Window(wait) => Ok(self.look_at_window(*wait)?.map(|wait| Waiting::Window(Box::new(wait)))),
            Waiting::Others => Ok(Some(waiting)),
        }
    }

    fn start_send(&mut self, role: usize, step: &Step, message: &Message, blocking: bool) -> Checked<()> {
        let placed = Placed::holding(message.send_shape, message.bytes, message.id.into());
        self.start_placed(role, step, message, placed, blocking)
    }

    fn start_placed(
        &mut self,
        role: usize,
        step: &Step,
        message: &Message,
        placed: Placed,
        blocking: bool,
    ) -> Checked<()> {
        self.place(&placed);
        let send = self.make_send(role, step, message, &placed, blocking);
        let handle = if self.engine.submit_now(&send) {
            // The program may change its buffer from now on.
            placed.wipe();
            self.engine.messages.sent
        } else {
            let handle = self.engine.messages.add(State::Queued(send), step.context as usize).map_err(text)?;
            self.engine.start_send(handle);
            handle
        };
        self.sends.insert(message.id, Live { handle, placed, message: Some(message.clone()) });
        Ok(())
    }

    fn begin_receive(&mut self, role: usize, step: &Step, message: &Message, how: How) -> Checked<Option<Waiting>> {
        match how {
            How::Later(_) => self.post(role, step, message, false).map(|()| None),
            How::Probed | How::MatchedProbe => {
                let (matched, message) = (how == How::MatchedProbe, Box::new(message.clone()));
                Ok(Some(Waiting::Probe { step: Box::new(step.clone()), message, matched }))
            }
            How::Blocking => {
                let placed = Placed::new(message.receive_shape, message.room, background(message.id));
                self.place(&placed);
                let receive = self.make_receive(role, step, message, &placed, true);
                let looks = self.random.below(LOOKS_MAX) as u32;
                if let Some(received) = self.engine.receive_now(&receive, looks, || true) {
                    self.check_received(message, placed, received.status, received.error.as_ref())?;
                    return Ok(None);
                }
                self.post_placed(step, receive, placed, Some(message.clone()), message.id)?;
                Ok(Some(Waiting::Receive(message.id)))
            }
        }
    }

    fn post(&mut self, role: usize, step: &Step, message: &Message, blocking: bool) -> Checked<()> {
        let placed = Placed::new(message.receive_shape, message.room, background(message.id));
        self.place(&placed);
        let receive = self.make_receive(role, step, message, &placed, blocking);
        self.post_placed(step, receive, placed, Some(message.clone()), message.id)
    }

    fn post_placed(
        &mut self,
        step: &Step,
        receive: Receive,
        placed: Placed,
        message: Option<Message>,
        id: u32,
    ) -> Checked<()> {
        let handle = self.engine.messages.add(State::Posted(receive), step.context as usize).map_err(text)?;
        self.engine.start_receive(handle);
        self.receives.insert(id, Live { handle, placed, message });
        Ok(())
    }

    pub(super) fn settled(&self, handle: usize) -> bool {
        self.engine.messages.requests.get(handle).is_none_or(Request::is_complete)
    }

    /// Takes the status and the error of a settled request; the engine then forgets the request.
    pub(super) fn conclude(&mut self, handle: usize) -> (Status, Option<Error>) {
        let status = self.engine.messages.requests.get(handle).map_or(Status::EMPTY, |request| request.status);
        let error = self.engine.messages.take_error(handle);
        (status, error)
    }

    /// Returns whether an operation with another process may fail with this error.
    pub(super) fn may_fail(&self, error: &Error) -> bool {
        let Some(mortal) = self.mortal else { return false };
        // A process that copies to or from the memory of a dead neighbour is the first to notice the
        // death.
        matches!(error.class, ErrorClass::ProcAborted | ErrorClass::Other)
            && error.message.contains(&format!("process {mortal} of the job"))
    }

    fn end_send(&mut self, id: u32) -> Checked<bool> {
        let handle = self.sends[&id].handle;
        if !self.settled(handle) {
            return Ok(false);
        }
        let (_, error) = self.conclude(handle);
        let Some(live) = self.sends.remove(&id) else { return Ok(true) };
        // The program may change its buffer from now on.
        live.placed.wipe();
        self.spent.push(live.placed);
        match error {
            Some(error) if !self.may_fail(&error) => Err(format!("the send of message {id} fails: {error}")),
            _ => Ok(true),
        }
    }

    fn end_receive(&mut self, id: u32) -> Checked<bool> {
        let handle = self.receives[&id].handle;
        if !self.settled(handle) {
            return Ok(false);
        }
        let (status, error) = self.conclude(handle);
        let Some(Live { placed, message: Some(message), .. }) = self.receives.remove(&id) else { return Ok(true) };
        self.check_received(&message, placed, status, error.as_ref()).map(|()| true)
    }

    /// Checks that a receive has brought exactly its message.
    fn check_received(
        &mut self,
        message: &Message,
        placed: Placed,
        status: Status,
        error: Option<&Error>,
    ) -> Checked<()> {
        let wrong = |what: String| Err(format!("the receive of message {}: {what}", message.id));
        if let Some(error) = error
            && self.may_fail(error)
        {
            self.spent.push(placed);
            return Ok(());
        }
        let bytes = message.bytes.min(message.room);
        let expected = Status { source: message.from as i32, tag: message.tag, error: 0, bytes, cancelled: false };
        if status != expected {
            return wrong(format!("its status is {status:?}, not {expected:?}; error {:?}", error.map(|e| &e.message)));
        }
        let truncated = message.bytes > message.room;
        match error {
            None if truncated => return wrong("it was too long, and nothing is said".into()),
            Some(error) if !truncated || error.class != ErrorClass::Truncate => {
                return wrong(format!("it fails: {error}"));
            }
            _ => {}
        }
        self.take_in(message.id.into(), bytes as usize, placed).or_else(wrong)
    }

    /// Checks the bytes of a received message, and keeps them for a second check at the end.
    fn take_in(&mut self, name: u64, bytes: usize, placed: Placed) -> Checked<()> {
        let checked = placed.check(content(name, bytes));
        self.received.push(Done { placed, name, bytes });
        checked
    }

    /// Probes for a message, and receives it if it is there.
    fn look_for(&mut self, step: Box<Step>, message: Box<Message>, matched: bool) -> Checked<Option<Waiting>> {
        let role = role_of(step.context);
        let source = (!message.any_source).then_some(message.from as u32);
        let tag = (!message.any_tag).then_some(message.tag);
        let Some((envelope, bytes)) = self.probe(step.context, source, tag) else {
            let peer = source.map(|_| self.member(role, &step, message.from));
            return match self.engine.probed_in_vain(step.context, peer, |_| true) {
                Ok(()) => Ok(Some(Waiting::Probe { step, message, matched })),
                Err(error) if self.may_fail(&error) => Ok(None),
                Err(error) => Err(format!("the probe for message {}: {error}", message.id)),
            };
        };
        if (envelope.source, envelope.tag, bytes) != (message.from as u32, message.tag, message.bytes) {
            return Err(format!("the probe for message {} finds {envelope:?} of {bytes} bytes", message.id));
        }
        if !matched {
            return match self.begin_receive(role, &step, &message, How::Blocking)? {
                Some(waiting) => self.look(waiting),
                None => Ok(None),
            };
        }
        self.receive_extracted(role, &step, &message, source, tag)?;
        self.look(Waiting::Receive(message.id))
    }

    pub(super) fn probe(&mut self, context: u32, source: Option<u32>, tag: Option<i32>) -> Option<(Envelope, u64)> {
        let messages = &mut self.engine.messages;
        let (envelope, unexpected) = messages.matcher.probe(context, source, tag)?;
        let bytes = messages.unexpected.get(*unexpected).map_or(0, |message| message.total);
        Some((envelope, bytes))
    }

    /// Takes a message that has arrived out of the matching, and receives it.
    fn receive_extracted(
        &mut self,
        role: usize,
        step: &Step,
        message: &Message,
        source: Option<u32>,
        tag: Option<i32>,
    ) -> Checked<()> {
        let Some((envelope, unexpected)) = self.engine.messages.matcher.extract(step.context, source, tag) else {
            return Err(format!("a matched probe does not find message {}, which a probe has found", message.id));
        };
        if self.random.chance(300_000) {
            // Between MPI_Mprobe and MPI_Mrecv.
            self.progress();
        }
        let placed = Placed::new(message.receive_shape, message.room, background(message.id));
        self.place(&placed);
        let receive = self.make_receive(role, step, message, &placed, self.random.clone().chance(500_000));
        let handle = self.engine.messages.add(State::Posted(receive), step.context as usize).map_err(text)?;
        self.engine.claim(handle, envelope, unexpected);
        self.receives.insert(message.id, Live { handle, placed, message: Some(message.clone()) });
        Ok(())
    }

    fn end_word(&mut self, step: Box<Step>, message: Box<Message>) -> Checked<Option<Waiting>> {
        let word = word_of(&message);
        let live = &self.receives[&word.id];
        if !self.settled(live.handle) {
            return Ok(Some(Waiting::Word { step, message }));
        }
        let handle = live.handle;
        let (_, error) = self.conclude(handle);
        if let Some(error) = error {
            return Err(format!("the word about message {}: {error}", message.id));
        }
        let Some(live) = self.receives.remove(&word.id) else { return Ok(None) };
        let cancelled = live.placed.check(content(1, word.bytes as usize)).is_ok();
        self.take_in(u64::from(cancelled), word.bytes as usize, live.placed)?;
        if cancelled {
            return Ok(None);
        }
        let role = role_of(step.context);
        match self.begin_receive(role, &step, &message, How::Blocking)? {
            Some(waiting) => self.look(waiting),
            None => Ok(None),
        }
    }
}

/// The message that tells whether another was cancelled.
fn word_of(message: &Message) -> Message {
    Message {
        id: message.id | 1 << 31,
        tag: TELLS,
        bytes: 16,
        room: 16,
        mode: Mode::Standard,
        send_shape: Shape::Plain,
        receive_shape: Shape::Plain,
        ..message.clone()
    }
}

fn text(error: Error) -> String {
    error.to_string()
}

fn summary(call: &Call) -> String {
    let of = |message: &Message| {
        let Message { id, from, to, tag, bytes, room, mode, .. } = message;
        format!("message {id} from {from} to {to}, tag {tag}, {bytes} bytes (room for {room}), {mode:?}")
    };
    match call {
        Call::Send { message, blocking } => format!("{} {}", if *blocking { "send" } else { "isend" }, of(message)),
        Call::Receive { message, how } => {
            format!("receive ({how:?}) {}, any source {}, any tag {}", of(message), message.any_source, message.any_tag)
        }
        Call::WildSend { message } => format!("isend {}", of(message)),
        Call::MakePersistent { messages } => {
            format!("make persistent {}", messages.iter().map(of).collect::<Vec<_>>().join(", "))
        }
        Call::SendAndCancel(message) => format!("isend and cancel {}", of(message)),
        Call::TellCancelled(message) => format!("tell whether message {} was cancelled", message.id),
        Call::ReceiveUnlessCancelled(message) => format!("receive, unless cancelled, {}", of(message)),
        other => format!("{other:?}"),
    }
}
