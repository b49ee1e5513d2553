//! Programs: the calls of each thread of each process, drawn from a seed so that no order of events can make
//! a thread wait for ever.
//!
//! Thread `t` of every process plays role `t`, which is a list of blocks. Roles have communicators of their
//! own, so threads of one process meet in the engine only, never in a message.
//!
//! An ordered block comes to its end for these reasons:
//!
//! - The messages of the block stand in one order. Every thread starts and awaits its ends of them in that
//!   order.
//! - When a thread awaits a message, both sides have started it, and every message before it in that order.
//! - The receives of a channel (communicator, sender, receiver) are posted in the order of its sends, and
//!   each accepts its own message.
//! - A receive from any source has a tag that only its sender uses.
//!
//! So the earliest event that has not happened can happen.
//!
//! In a wild block any receive may take any message. Every thread starts everything before it awaits
//! anything. Each process knows the number of messages that come to it. It receives with wildcards the
//! messages that its receives do not take, and cancels the receives that are left over.

use super::machine::Machine;
use super::network::Ordered;
use super::shape::Shape;
use super::windows::{WindowBlock, WindowCall, WindowStep};
use weft_engine::request::Mode;

/// Processes that talk to each other apart from all others. Roles and wild blocks have contexts of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comm {
    /// Processes of the job, by rank.
    pub(super) members: Vec<usize>,
}

/// The way in which one end of a message is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// `MPI_Send`, `MPI_Ssend`, `MPI_Recv`.
    Blocking,
    /// `MPI_Isend`, `MPI_Issend`, `MPI_Irecv`; awaited after this number of further messages of the block.
    Later(u8),
    /// `MPI_Probe`, then `MPI_Recv`.
    Probed,
    /// `MPI_Mprobe`, then `MPI_Mrecv`.
    MatchedProbe,
}

/// A message of an ordered block.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// The name that determines the message's bytes.
    pub(super) id: u32,
    /// The index of the communicator among those of the role.
    pub(super) comm: usize,
    /// The ranks of the sender and the receiver in the communicator.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) tag: i32,
    pub(super) bytes: u64,
    pub(super) mode: Mode,
    pub(super) send: How,
    pub(super) receive: How,
    pub(super) send_shape: Shape,
    pub(super) receive_shape: Shape,
    /// The bytes that the receive buffer has room for.
    pub(super) room: u64,
    pub(super) any_source: bool,
    pub(super) any_tag: bool,
    /// Says whether the receive comes before the send in the order of the block.
    pub(super) receive_first: bool,
    /// Nanoseconds that the sender and the receiver compute before their calls.
    pub(super) compute: (u64, u64),
}

/// A receive of a wild block.
#[derive(Clone, Debug)]
pub(super) struct WildReceive {
    pub(super) id: u32,
    /// The rank of the receiver in the communicator.
    pub(super) at: usize,
    pub(super) source: Option<usize>,
    pub(super) tag: Option<i32>,
    pub(super) room: u64,
    pub(super) shape: Shape,
    /// The number of sends that the process has started when it posts the receive.
    pub(super) after: usize,
}

/// The operation of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Barrier,
    Bcast,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    Alltoallw,
    Reduce,
    Allreduce,
    ReduceScatter,
    ReduceScatterBlock,
    Scan,
    Exscan,
}

/// A collective operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collective {
    pub(super) id: u32,
    pub(super) kind: Kind,
    pub(super) root: usize,
    /// Items of each block.
    pub(super) count: u64,
    /// The number of the algorithm, where there are several; 0: the algorithm that `select` chooses.
    pub(super) algorithm: u8,
    /// Says whether items have holes.
    pub(super) strided: bool,
    /// The processes that take part, if not all do. Only their ranks in the communicator tell their messages
    /// from those of others.
    pub(super) part: Option<Part>,
}

/// Some of the processes of a communicator, in an order of their own: the group in which
/// `MPI_Comm_create_group` agrees (MPI-5.0 §7.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// A bit for each rank.
    pub(super) mask: u32,
    /// The number of processes by which the order is rotated.
    pub(super) turn: u8,
}

impl Part {
    /// The ranks in the communicator.
    pub(super) fn ranks(self) -> Vec<u32> {
        let mut ranks: Vec<u32> = (0..u32::BITS).filter(|rank| self.mask >> rank & 1 != 0).collect();
        let turn = usize::from(self.turn) % ranks.len().max(1);
        ranks.rotate_left(turn);
        ranks
    }
}

/// A part of a role.
#[derive(Clone, Debug)]
pub(super) enum Block {
    Ordered(Vec<Message>),
    /// Persistent requests for all these messages, started `rounds` times.
    Persistent {
        messages: Vec<Message>,
        rounds: u8,
    },
    Wild {
        /// The number of the block, which determines its context.
        id: u32,
        comm: usize,
        messages: Vec<Message>,
        receives: Vec<WildReceive>,
        /// Says whether messages that no receive wants are received by a matched probe.
        matched: bool,
    },
    /// A send that is cancelled; its receiver then hears whether it was.
    Cancelled(Message),
    Collectives {
        comm: usize,
        list: Vec<Collective>,
        /// Says whether all are started before any is awaited.
        together: bool,
    },
    Window(WindowBlock),
}

/// The work of all threads with one number.
#[derive(Clone, Debug)]
pub(super) struct Role {
    pub(super) comms: Vec<Comm>,
    pub(super) blocks: Vec<Block>,
}

/// The turns of processes and threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The longest time between two steps of a thread, nanoseconds.
    pub(super) step_max: u64,
    /// The most looks in vain before a thread sleeps.
    pub(super) spins_max: u64,
    /// Says whether a thread decides as in the library instead.
    pub(super) spins_like_the_library: bool,
    /// Says whether a progress thread makes progress while the program computes.
    pub(super) helps: bool,
    /// The pauses of a process: it rests for the second of these durations in each of the first, nanoseconds.
    pub(super) pause: Option<(u64, u64)>,
    /// A process that does nothing for a while, as if a signal had stopped it, or its machine had been busy.
    pub(super) stop: Option<Stop>,
}

/// A time in which a process does nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) rank: usize,
    /// Nanoseconds since the job began.
    pub(super) at: u64,
    /// Nanoseconds.
    pub(super) lasts: u64,
}

impl Pace {
    /// The time of a turn of a process that could be at `at` if nothing kept the process from it.
    pub(super) fn turn_at(&self, rank: usize, at: u64) -> u64 {
        let at = match self.pause {
            Some((period, rests)) => {
                // The processes rest at different times.
                let phase = (at + rank as u64 * 17_000_000) % period;
                if phase < rests { at + (rests - phase) } else { at }
            }
            None => at,
        };
        let is_stopped = |stop: &Stop| stop.rank == rank && (stop.at..stop.at + stop.lasts).contains(&at);
        self.stop.filter(is_stopped).map_or(at, |stop| stop.at + stop.lasts)
    }
}

/// A process that dies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Death {
    pub(super) rank: usize,
    pub(super) at: u64,
}

/// A job: its calls, its machine, and its faults.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) seed: u64,
    pub(super) machine: Machine,
    pub(super) pace: Pace,
    pub(super) death: Option<Death>,
    pub(super) roles: Vec<Role>,
}

impl Program {
    /// Returns whether a receiver may ask for a message anew. Three things make it do so: the carrier's own
    /// network fails; the receiver's first question arrives late; one end refuses an announced eager write.
    pub(super) fn may_ask_anew(&self) -> bool {
        let wires = &self.machine.wires;
        let fails = |ordered: Ordered| ordered.breaks.or(ordered.stalls).is_some();
        let is_late = !wires.nuisances.is_empty() || self.pace.pause.is_some() || self.pace.stop.is_some();
        let refuses = |ordered: Ordered| {
            ordered.placing.is_some_and(|placing| placing.unasked && (placing.refused > 0 || placing.unexposed > 0))
        };
        wires.ordered.is_some_and(|ordered| fails(ordered) || refuses(ordered)) || is_late || self.death.is_some()
    }

    /// The peer that a process may lose: a process that dies, or the other end of a connection that breaks.
    pub(super) fn loses(&self, rank: usize) -> Option<usize> {
        let ordered = self.machine.wires.ordered.filter(|ordered| !ordered.beside);
        let breaks = ordered.and_then(|ordered| ordered.breaks);
        self.death.map(|death| death.rank).or_else(|| breaks?.other(rank))
    }
}

/// A call of a thread.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Compute(u64),
    Send {
        message: Message,
        blocking: bool,
    },
    Receive {
        message: Message,
        how: How,
    },
    AwaitSend(u32),
    AwaitReceive(u32),
    MakePersistent {
        messages: Vec<Message>,
    },
    StartPersistent {
        round: u8,
    },
    AwaitPersistent {
        round: u8,
    },
    FreePersistent,
    WildSend {
        message: Message,
    },
    WildReceive(WildReceive),
    AwaitWild {
        sends: Vec<u32>,
        receives: Vec<u32>,
        expected: usize,
        matched: bool,
    },
    SendAndCancel(Message),
    TellCancelled(Message),
    ReceiveUnlessCancelled(Message),
    StartCollective(Collective),
    AwaitCollective(u32),
    /// A call on the window of this number.
    Window(u32, WindowCall),
}

/// A call, and the communicator on which it is made.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) comm: usize,
    /// Context of the communicator; the one after it is for its collectives.
    pub(super) context: u32,
    pub(super) call: Call,
}

/// Contexts of a role's communicators, and of its wild blocks.
const CONTEXTS_PER_ROLE: u32 = 1 << 16;
const WILD_CONTEXTS: u32 = 1 << 8;
const WINDOW_CONTEXTS: u32 = 1 << 12;

/// The context of a wild block.
pub(super) fn wild_context(role: usize, id: u32) -> u32 {
    8 + role as u32 * CONTEXTS_PER_ROLE + WILD_CONTEXTS + 2 * id
}

/// The context of a window.
pub(super) fn window_context(role: usize, id: u32) -> u32 {
    8 + role as u32 * CONTEXTS_PER_ROLE + WINDOW_CONTEXTS + 2 * id
}

/// The context of a role's communicator; the one after it is for its collectives.
pub(super) fn context(role: usize, comm: usize) -> u32 {
    8 + role as u32 * CONTEXTS_PER_ROLE + 2 * comm as u32
}

/// The role to which a context belongs.
pub(super) fn role_of(context: u32) -> usize {
    ((context - 8) / CONTEXTS_PER_ROLE) as usize
}

impl Role {
    /// The calls that process `rank` makes in role `number`.
    pub(super) fn script(&self, number: usize, rank: usize) -> Vec<Step> {
        let mut script = Script { role: self, number, rank, steps: Vec::new() };
        for block in &self.blocks {
            script.block(block);
        }
        script.steps
    }

    /// The number of operations in the role's blocks, for people.
    pub(super) fn size(&self) -> usize {
        self.blocks.iter().map(Block::size).sum()
    }
}

impl Block {
    /// The number of operations in the block.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Ordered(messages) | Self::Persistent { messages, .. } => messages.len(),
            Self::Wild { messages, receives, .. } => messages.len() + receives.len(),
            Self::Cancelled(_) => 1,
            Self::Collectives { list, .. } => list.len(),
            Self::Window(block) => block.acts(),
        }
    }
}

struct Script<'a> {
    role: &'a Role,
    number: usize,
    rank: usize,
    steps: Vec<Step>,
}

impl Script<'_> {
    fn push(&mut self, comm: usize, call: Call) {
        self.push_in(comm, context(self.number, comm), call);
    }

    fn push_in(&mut self, comm: usize, context: u32, call: Call) {
        self.steps.push(Step { comm, context, call });
    }

    fn compute(&mut self, comm: usize, nanoseconds: u64) {
        if nanoseconds > 0 {
            self.push(comm, Call::Compute(nanoseconds));
        }
    }

    fn is_member(&self, comm: usize, member: usize) -> bool {
        self.role.comms[comm].members[member] == self.rank
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Ordered(messages) => self.ordered(messages),
            Block::Persistent { messages, rounds } => self.persistent(messages, *rounds),
            Block::Wild { id, comm, messages, receives, matched } => {
                self.wild(*id, *comm, messages, receives, *matched);
            }
            Block::Cancelled(message) => {
                if self.is_member(message.comm, message.from) {
                    self.push(message.comm, Call::SendAndCancel(message.clone()));
                    self.push(message.comm, Call::TellCancelled(message.clone()));
                }
                if self.is_member(message.comm, message.to) {
                    self.compute(message.comm, message.compute.1);
                    self.push(message.comm, Call::ReceiveUnlessCancelled(message.clone()));
                }
            }
            Block::Collectives { comm, list, together } => self.collectives(*comm, list, *together),
            Block::Window(block) => self.window(block),
        }
    }

    fn window(&mut self, block: &WindowBlock) {
        let members = &self.role.comms[block.comm].members;
        let Some(own) = members.iter().position(|member| *member == self.rank) else { return };
        for step in block.script(own, members.len()) {
            match step {
                WindowStep::Compute(nanoseconds) => self.compute(block.comm, nanoseconds),
                WindowStep::Barrier(id) => {
                    let barrier = barrier(id);
                    self.push(block.comm, Call::StartCollective(barrier));
                    self.push(block.comm, Call::AwaitCollective(id));
                }
                WindowStep::Call(call) => {
                    self.push_in(block.comm, window_context(self.number, block.id), Call::Window(block.id, call));
                }
            }
        }
    }

    fn ordered(&mut self, messages: &[Message]) {
        // Each operation that was started earlier is awaited after the message of this index.
        let mut due: Vec<(usize, usize, Call)> = Vec::new();
        for (at, message) in messages.iter().enumerate() {
            for is_receive in [message.receive_first, !message.receive_first] {
                if is_receive { self.receive(at, message, &mut due) } else { self.send(at, message, &mut due) }
            }
            let (now, later) = due.into_iter().partition(|(when, ..)| *when <= at);
            due = later;
            self.await_all(now);
        }
        self.await_all(due);
    }

    fn await_all(&mut self, calls: Vec<(usize, usize, Call)>) {
        for (_, comm, call) in calls {
            self.push(comm, call);
        }
    }

    fn send(&mut self, at: usize, message: &Message, due: &mut Vec<(usize, usize, Call)>) {
        if !self.is_member(message.comm, message.from) {
            return;
        }
        self.compute(message.comm, message.compute.0);
        let blocking = matches!(message.send, How::Blocking) && message.from != message.to;
        self.push(message.comm, Call::Send { message: message.clone(), blocking });
        if !blocking {
            let later = if let How::Later(later) = message.send { usize::from(later) } else { 0 };
            due.push((at + later, message.comm, Call::AwaitSend(message.id)));
        }
    }

    fn receive(&mut self, at: usize, message: &Message, due: &mut Vec<(usize, usize, Call)>) {
        if !self.is_member(message.comm, message.to) {
            return;
        }
        self.compute(message.comm, message.compute.1);
        let how = match message.receive {
            // A process that sends to itself sends before it waits for the message.
            how @ (How::Blocking | How::Probed | How::MatchedProbe) if message.from == message.to => {
                if message.receive_first { How::Later(0) } else { how }
            }
            how => how,
        };
        self.push(message.comm, Call::Receive { message: message.clone(), how });
        if let How::Later(later) = how {
            due.push((at + usize::from(later), message.comm, Call::AwaitReceive(message.id)));
        }
    }

    fn persistent(&mut self, messages: &[Message], rounds: u8) {
        let ours =
            |message: &&Message| self.is_member(message.comm, message.from) || self.is_member(message.comm, message.to);
        let messages: Vec<Message> = messages.iter().filter(ours).cloned().collect();
        if messages.is_empty() {
            return;
        }
        let comm = messages[0].comm;
        self.push(comm, Call::MakePersistent { messages });
        for round in 0..rounds {
            self.push(comm, Call::StartPersistent { round });
            self.push(comm, Call::AwaitPersistent { round });
        }
        self.push(comm, Call::FreePersistent);
    }

    fn wild(&mut self, id: u32, comm: usize, messages: &[Message], receives: &[WildReceive], matched: bool) {
        let context = wild_context(self.number, id);
        let Some(own) = self.role.comms[comm].members.iter().position(|member| *member == self.rank) else { return };
        let mut receives: Vec<&WildReceive> = receives.iter().filter(|receive| receive.at == own).collect();
        receives.sort_by_key(|receive| receive.after);
        let ids: Vec<u32> = receives.iter().map(|receive| receive.id).collect();
        let mut receives = receives.into_iter().peekable();
        let mut sends = Vec::new();
        for message in messages.iter().filter(|message| message.from == own) {
            while let Some(receive) = receives.next_if(|receive| receive.after <= sends.len()) {
                self.push_in(comm, context, Call::WildReceive(receive.clone()));
            }
            self.compute(comm, message.compute.0);
            self.push_in(comm, context, Call::WildSend { message: message.clone() });
            sends.push(message.id);
        }
        for receive in receives {
            self.push_in(comm, context, Call::WildReceive(receive.clone()));
        }
        let expected = messages.iter().filter(|message| message.to == own).count();
        self.push_in(comm, context, Call::AwaitWild { sends, receives: ids, expected, matched });
    }

    fn collectives(&mut self, comm: usize, list: &[Collective], together: bool) {
        let Some(own) = self.role.comms[comm].members.iter().position(|member| *member == self.rank) else { return };
        let is_in = |collective: &&Collective| collective.part.is_none_or(|part| part.mask >> own & 1 != 0);
        let list: Vec<&Collective> = list.iter().filter(is_in).collect();
        // Collectives of parts of the communicator have no tag of their own, so each has to be over before
        // the next.
        let together = together && list.iter().all(|collective| collective.part.is_none());
        for &collective in &list {
            self.push(comm, Call::StartCollective(*collective));
            if !together {
                self.push(comm, Call::AwaitCollective(collective.id));
            }
        }
        if together {
            list.iter().for_each(|collective| self.push(comm, Call::AwaitCollective(collective.id)));
        }
    }
}

fn barrier(id: u32) -> Collective {
    Collective { id, kind: Kind::Barrier, root: 0, count: 0, algorithm: 0, strided: false, part: None }
}
