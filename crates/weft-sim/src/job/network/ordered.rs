//! Carriers that deliver every packet once and in order, as reliable endpoints of libfabric do.
//!
//! A carrier has room for a limited number of packets. They leave when their sender looks at the network. The
//! carrier reports a connection that has broken.

use super::Inner;
use crate::nuisance::Flight;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use weft_core::flow::LongPath;
use weft_core::long_path_choice::LongPathUse;
use weft_core::rails::Role;
use weft_core::time::Instant;
use weft_engine::memory::UserData;
use weft_engine::transport::{Begun, Placement, Proof, Registration, RemoteMemory, Unasked, Written};

/// The properties of a carrier that delivers every packet once and in order.
#[derive(Clone, Copy, Debug)]
pub(in crate::job) struct Ordered {
    /// Says whether the carrier is beside others: it writes, and carries the long packets of flows.
    pub(in crate::job) beside: bool,
    /// The most packets for one peer that the carrier holds.
    pub(in crate::job) room: usize,
    /// The longest packet that leaves at once if no packet is before it, bytes.
    pub(in crate::job) inject_max: usize,
    /// The longest time by which a packet may take longer than another, nanoseconds.
    pub(in crate::job) delay_max: u64,
    /// Says whether a sender is told that its peer has died; otherwise packets to that peer never leave.
    pub(in crate::job) tells_of_death: bool,
    /// The connection that breaks, if any.
    pub(in crate::job) breaks: Option<Break>,
    /// The connection on which nothing leaves any more, if any, until an end gives it up. Carriers beside
    /// others only.
    pub(in crate::job) stalls: Option<Break>,
    /// The properties of remote writes, if the carrier writes to memory of peers by itself.
    pub(in crate::job) placing: Option<Placing>,
    /// If the carrier is the long path of flows: bytes of the longest packet there, and the use of the path.
    pub(in crate::job) long_path: Option<(usize, LongPathUse)>,
}

/// The properties of a carrier that writes to memory of peers. Chances are cases per million.
#[derive(Clone, Copy, Debug)]
pub(in crate::job) struct Placing {
    pub(in crate::job) bytes_min: u64,
    pub(in crate::job) eager_max: u64,
    pub(in crate::job) bytes_max: u64,
    /// The least number of bytes of a one-sided operation that the carrier does by itself. It reads as well
    /// then; 0: it only writes.
    pub(in crate::job) one_sided_min: u64,
    /// The time when the carrier reports a write: with [`Proof::Completion`] when the bytes are in place,
    /// otherwise when they have left.
    pub(in crate::job) proof: Proof,
    /// Says whether the carrier tells the process whose memory it is of each write.
    pub(in crate::job) tells: bool,
    /// Says whether the carrier writes messages that their receivers have not asked for.
    pub(in crate::job) unasked: bool,
    /// The chance that the carrier refuses to expose memory to peers.
    pub(in crate::job) unexposed: u32,
    /// The chance that the carrier begins to refuse all writes for ever.
    pub(in crate::job) refused: u32,
    /// The chance that a packet that is sent before the carrier has reported a write arrives before the
    /// written bytes.
    pub(in crate::job) overtaken: u32,
}

impl Placing {
    pub(in crate::job) fn placement(self) -> Placement {
        Placement {
            writes: true,
            reads: self.one_sided_min > 0,
            bytes_max: self.bytes_max,
            bytes_min: self.bytes_min,
            eager_max: self.eager_max,
            one_sided_min: self.one_sided_min,
            proof: self.proof,
            tells: self.tells,
            unasked: self.unasked,
        }
    }
}

/// Writes bytes from `address` on, as far as they have room.
fn put(data: &UserData, address: u64, bytes: &[u8]) {
    let (begin, bytes) = data.fitting(address, bytes);
    data.write(begin, bytes);
}

/// The bit that is set in the keys of unasked writes.
const UNASKED: u64 = 1 << 63;

/// The key of an unasked write of the process `from`.
fn unasked_key(from: usize, name: u32) -> u64 {
    UNASKED | (from as u64) << 32 | u64::from(name)
}

/// The memory that a process exposes to its peers, and the writes that have been made for it.
#[derive(Default)]
pub(super) struct Exposed {
    /// The exposed memory, by its key.
    memory: BTreeMap<u64, (Registration, UserData, u64)>,
    /// Unasked writes for which no memory has been named, by their keys.
    kept: BTreeMap<u64, Vec<u8>>,
    next: u32,
    /// Writes and reads that are over, each with the time from which on the carrier tells of it.
    done: VecDeque<(u64, u64)>,
    /// Writes of peers that have ended here, if the carrier tells of them.
    written: VecDeque<Written>,
    refuses: bool,
}

impl Exposed {
    pub(super) fn deregister(&mut self, registration: Registration) {
        self.memory.retain(|_, (known, ..)| *known != registration);
    }

    pub(super) fn poll_done(&mut self, now: u64) -> Option<u64> {
        self.next_done().filter(|at| *at <= now)?;
        self.done.pop_front().map(|(_, number)| number)
    }

    /// The time from which on the carrier tells of the next access that is over.
    pub(super) fn next_done(&self) -> Option<u64> {
        self.done.front().map(|(at, _)| *at)
    }

    pub(super) fn poll_written(&mut self) -> Option<Written> {
        self.written.pop_front()
    }
}

/// A message from one carrier to another.
pub(super) enum Placed {
    /// Asks to write the bytes that come with the message, and to confirm the write if it has a number.
    Write(RemoteMemory, Option<u64>),
    /// Confirms a write.
    Written(u64),
    /// Asks to read for this access.
    Read(RemoteMemory, Reading),
    /// Brings the bytes of a read.
    Answer(Reading),
}

/// The place where the bytes of a read go.
pub(super) struct Reading {
    data: UserData,
    range: Range<u64>,
    number: u64,
}

/// A message that a carrier has still to send.
enum Load {
    Packet(Vec<u8>),
    /// A part of memory, which the carrier reads when the message leaves.
    Write {
        data: UserData,
        range: Range<u64>,
        there: RemoteMemory,
        number: u64,
    },
    /// A request for a part of the peer's memory.
    Read(RemoteMemory, Reading),
}

/// A break of a connection: the first packet that leaves one process for another from a time on is lost;
/// those behind it are not.
#[derive(Clone, Copy, Debug)]
pub(in crate::job) struct Break {
    pub(in crate::job) from: usize,
    pub(in crate::job) to: usize,
    /// Nanoseconds since the job began.
    pub(in crate::job) at: u64,
}

impl Break {
    /// The peer that this process may lose by the break.
    pub(in crate::job) fn other(&self, rank: usize) -> Option<usize> {
        if rank == self.from { Some(self.to) } else { (rank == self.to).then_some(self.from) }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Health {
    #[default]
    Whole,
    /// The connection has broken, and its sender can hear of it from this time on.
    Broken(u64),
    Told,
}

/// The packets on the way from one process to another.
#[derive(Default)]
pub(super) struct Line {
    /// Messages that the carrier holds, and the time when each may leave.
    held: VecDeque<(u64, Load)>,
    /// The time when the last message that has left arrives.
    arrives: u64,
    health: Health,
    /// Set once an end has given the connection up: the next one does not stall.
    is_anew: bool,
}

impl Inner {
    fn line(&mut self, from: usize, to: usize) -> &mut Line {
        let ranks = self.dead.len();
        &mut self.lines[from * ranks + to]
    }

    fn line_at(&self, from: usize, to: usize) -> &Line {
        &self.lines[from * self.dead.len() + to]
    }

    /// Ends the connection between two processes: what has not left is gone, and both ends can connect again.
    pub(super) fn disconnect(&mut self, from: usize, to: usize) {
        let now = self.clock.now();
        for (from, to, is_told) in [(from, to, false), (to, from, true)] {
            let line = self.line(from, to);
            let health = match line.health {
                // The connection has lost something, and this end has not heard of it.
                Health::Broken(at) if is_told => Health::Broken(at),
                _ if is_told && !line.held.is_empty() => Health::Broken(now),
                _ => Health::Whole,
            };
            *line = Line { arrives: line.arrives, health, is_anew: true, ..Line::default() };
            self.clock.touch(from);
        }
    }

    /// The lines that begin at a process, with their ends.
    fn lines_of(&self, from: usize) -> impl Iterator<Item = (usize, &Line)> {
        let ranks = self.dead.len();
        self.lines.iter().skip(from * ranks).take(ranks).enumerate()
    }

    pub(super) fn held(&self, from: usize, to: usize) -> usize {
        self.lines.get(from * self.dead.len() + to).map_or(0, |line| line.held.len())
    }

    /// The time when the next message can leave a line.
    fn leaves(&self, to: usize, line: &Line) -> Option<u64> {
        let (at, load) = line.held.front()?;
        let length = match load {
            Load::Packet(bytes) => bytes.len(),
            Load::Write { range, .. } => (range.end - range.start) as usize,
            Load::Read(..) => 0,
        };
        if self.dead[to] {
            return self.wires.ordered?.tells_of_death.then_some(*at);
        }
        let stalls = self.wires.ordered.and_then(|ordered| ordered.stalls);
        let is_this = |one: Break| {
            !line.is_anew && one.at <= self.clock.now() && std::ptr::eq(line, self.line_at(one.from, one.to))
        };
        if stalls.is_some_and(is_this) {
            return None;
        }
        let waiting = self.inboxes[self.line_inbox(to)].bytes;
        (waiting == 0 || waiting + length <= self.wires.receive_bytes).then_some(*at)
    }

    /// The time when a process has something to do for the packets that it has sent.
    pub(super) fn next_departure(&self, from: usize) -> Option<u64> {
        let due = |(to, line): (usize, &Line)| match line.health {
            Health::Broken(at) => Some(self.leaves(to, line).map_or(at, |leaves| leaves.min(at))),
            _ => self.leaves(to, line),
        };
        self.lines_of(from).filter_map(due).min()
    }

    /// Gives the carrier a packet that may leave at `sent`.
    pub(super) fn hold(&mut self, (from, to): (usize, usize), sent: u64, ordered: Ordered, bytes: &[u8]) {
        let now = self.clock.now();
        let overtakes = ordered.placing.is_some_and(|placing| self.random.chance(placing.overtaken));
        let line = self.line(from, to);
        let at_once = bytes.len() <= ordered.inject_max && line.held.is_empty();
        let behind_packets = || line.held.iter().rposition(|(_, load)| matches!(load, Load::Packet(_)));
        let index = if overtakes { behind_packets().map_or(0, |last| last + 1) } else { line.held.len() };
        line.held.insert(index, (if at_once { now } else { sent }, Load::Packet(bytes.to_vec())));
        if at_once {
            self.depart(from);
        }
        self.clock.touch(from);
    }

    /// Lets everything that can leave a process leave; a process calls this when it looks at the network.
    pub(super) fn depart(&mut self, from: usize) {
        let Some(ordered) = self.wires.ordered else { return };
        let now = self.clock.now();
        for to in 0..self.dead.len() {
            loop {
                let line = &self.lines[from * self.dead.len() + to];
                if self.leaves(to, line).is_none_or(|at| at > now) {
                    break;
                }
                let Some((_, load)) = self.line(from, to).held.pop_front() else { break };
                let delay = self.random.below(ordered.delay_max + 1);
                let breaks = ordered.breaks.is_some_and(|one| (one.from, one.to) == (from, to) && one.at <= now);
                let dead = self.dead[to];
                let line = self.line(from, to);
                if dead || breaks && line.health == Health::Whole {
                    if line.health == Health::Whole {
                        line.health = Health::Broken(now + delay);
                    }
                    // Both ends of a stream hear of its end.
                    if ordered.beside && !dead {
                        self.line(to, from).health = Health::Broken(now + delay);
                        self.clock.touch(to);
                    }
                    continue;
                }
                let arrives = now + self.wires.latency + delay;
                match load {
                    Load::Packet(bytes) => self.leave(from, to, arrives, bytes),
                    Load::Write { data, range, there, number } => {
                        let mut bytes = vec![0; (range.end - range.start) as usize];
                        data.read(range.start, &mut bytes);
                        let proof = ordered.placing.map(|placing| placing.proof);
                        let number = (proof == Some(Proof::Completion)).then_some(number).ok_or(number);
                        if let Err(number) = number {
                            // A look at another carrier may find the receiver's answer first.
                            let late = if ordered.beside { 2 * (self.wires.latency + ordered.delay_max) } else { 0 };
                            let at = now + self.random.below(late + 1);
                            self.exposed[from].done.push_back((at, number));
                        }
                        self.tell((from, to), arrives, bytes, Placed::Write(there, number.ok()));
                    }
                    Load::Read(there, reading) => {
                        self.tell((from, to), arrives, Vec::new(), Placed::Read(there, reading))
                    }
                }
            }
        }
        self.clock.touch(from);
    }

    /// Sends a message between carriers, behind the messages that have left before.
    fn tell(&mut self, (from, to): (usize, usize), arrives: u64, bytes: Vec<u8>, placed: Placed) {
        let line = self.line(from, to);
        let arrives = arrives.max(line.arrives);
        line.arrives = arrives;
        let (from, to, carrier, number) = (from as u32, to as u32, Role::BulkData, Some(0));
        let flight = Flight { from, to, bytes, number, marked: false, path: 0, rail: 0, carrier };
        let device = self.wires.line_device(self.devices);
        self.deliver(arrives, device, flight, (false, Some(placed)));
    }

    fn leave(&mut self, from: usize, to: usize, arrives: u64, bytes: Vec<u8>) {
        let (from, to) = (from as u32, to as u32);
        let carrier = Role::BulkData;
        // Forged and replayed packets have no number.
        let flight = Flight { from, to, bytes, number: Some(0), marked: false, path: 0, rail: 0, carrier };
        let mut outcome = std::mem::take(&mut self.outcome);
        self.stages.pass(Instant(self.clock.now()), flight, &mut outcome);
        for (later, flight) in outcome.onward.drain(..) {
            let line = self.line(flight.from as usize, flight.to as usize);
            let arrives = (arrives + later.0).max(line.arrives);
            if flight.number.is_some() {
                line.arrives = arrives;
            }
            let device = self.wires.line_device(self.devices);
            self.deliver(arrives, device, flight, (false, None));
        }
        self.outcome = outcome;
    }

    /// The state of a line as the long path of a flow.
    pub(super) fn long_path(&self, from: usize, to: usize) -> LongPath {
        let Some(ordered) = self.wires.ordered.filter(|ordered| ordered.long_path.is_some()) else {
            return LongPath::Closed;
        };
        match self.line_at(from, to).health {
            Health::Whole if self.held(from, to) < ordered.room => LongPath::Open,
            Health::Whole => LongPath::Full,
            Health::Broken(_) | Health::Told => LongPath::Closed,
        }
    }

    /// Exposes memory of a process to its peers.
    pub(super) fn register(
        &mut self,
        rank: usize,
        data: &UserData,
        length: u64,
    ) -> Option<(Registration, RemoteMemory)> {
        let placing = self.wires.ordered?.placing?;
        if self.random.chance(placing.unexposed) {
            return None;
        }
        let exposed = &mut self.exposed[rank];
        exposed.next += 1;
        let (key, registration) = (u64::from(exposed.next) << 32, Registration(exposed.next));
        exposed.memory.insert(key, (registration, data.clone(), length));
        Some((registration, RemoteMemory { key, address: 0 }))
    }

    /// Puts what `from` writes unasked under this name to memory of a process, also if it has arrived.
    pub(super) fn register_unasked(
        &mut self,
        (from, rank): (usize, usize),
        name: u32,
        data: &UserData,
        length: u64,
    ) -> Option<Registration> {
        let placing = self.wires.ordered?.placing?;
        if self.random.chance(placing.unexposed) {
            return None;
        }
        let key = unasked_key(from, name);
        let exposed = &mut self.exposed[rank];
        exposed.next += 1;
        let registration = Registration(exposed.next);
        exposed.memory.insert(key, (registration, data.clone(), length));
        if let Some(bytes) = exposed.kept.remove(&key) {
            put(data, 0, &bytes);
            exposed.written.push_back(Written { registration, offset: 0, length: bytes.len() as u64 });
        }
        Some(registration)
    }

    /// Gives the carrier of a process a message that its receiver has not asked for.
    pub(super) fn write_unasked(
        &mut self,
        (from, to): (usize, usize),
        data: &UserData,
        name: u32,
        number: u64,
    ) -> Unasked {
        let there = RemoteMemory { key: unasked_key(from, name), address: 0 };
        match self.access((from, to), (data, 0..data.len(), true), there, number) {
            Begun::Yes => Unasked::Begun,
            Begun::NotNow | Begun::Never => Unasked::Refused,
        }
    }

    /// Gives the carrier of a process an access to memory of a peer: a write or a read.
    pub(super) fn access(
        &mut self,
        (from, to): (usize, usize),
        (data, range, writes): (&UserData, Range<u64>, bool),
        there: RemoteMemory,
        number: u64,
    ) -> Begun {
        let Some((ordered, placing)) = self.wires.ordered.and_then(|ordered| Some((ordered, ordered.placing?))) else {
            return Begun::Never;
        };
        self.exposed[from].refuses |= self.random.chance(placing.refused);
        if self.exposed[from].refuses {
            return Begun::Never;
        }
        if self.held(from, to) >= ordered.room || self.random.chance(self.wires.refused) {
            return Begun::NotNow;
        }
        let now = self.clock.now();
        let sent = self.free[from].max(now) + (range.end - range.start + 66) * 8 / self.wires.gigabits;
        self.free[from] = sent;
        self.packets += 1;
        let data = data.clone();
        let load = match writes {
            true => Load::Write { data, range, there, number },
            false => Load::Read(there, Reading { data, range, number }),
        };
        self.line(from, to).held.push_back((sent, load));
        self.clock.touch(from);
        Begun::Yes
    }

    /// Handles a message of a carrier that arrives at another. Memory that is exposed no more is not touched,
    /// and the connection breaks.
    pub(super) fn place(&mut self, from: usize, to: usize, placed: Placed, bytes: &[u8]) {
        let now = self.clock.now();
        let (RemoteMemory { key, address }, length) = match &placed {
            Placed::Write(there, _) => (*there, bytes.len() as u64),
            Placed::Written(number) => return self.exposed[to].done.push_back((now, *number)),
            Placed::Read(there, Reading { range, .. }) => (*there, range.end - range.start),
            Placed::Answer(Reading { data, range, number }) => {
                data.write(range.start, bytes);
                self.exposed[to].done.push_back((now, *number));
                return;
            }
        };
        self.placed += 1;
        let tells = self.wires.ordered.and_then(|ordered| ordered.placing).is_some_and(|placing| placing.tells);
        let found = self.exposed[to].memory.get(&key);
        let Some((registration, data, _)) = found.filter(|(_, _, bytes)| address + length <= *bytes) else {
            if key & UNASKED != 0 {
                self.exposed[to].kept.insert(key, bytes.to_vec());
                return;
            }
            // A stream drops a write that comes too late.
            if self.wires.ordered.is_some_and(|ordered| ordered.beside) {
                return;
            }
            self.line(from, to).health = Health::Broken(now);
            return;
        };
        match placed {
            Placed::Read(_, reading) => {
                let mut bytes = vec![0; length as usize];
                data.read(address, &mut bytes);
                let arrives = now + self.wires.latency;
                self.tell((to, from), arrives, bytes, Placed::Answer(reading));
            }
            Placed::Write(_, number) => {
                put(data, address, bytes);
                let registration = *registration;
                if tells {
                    self.exposed[to].written.push_back(Written { registration, offset: address, length });
                }
                if let Some(number) = number {
                    self.tell((to, from), now + self.wires.latency, Vec::new(), Placed::Written(number));
                }
            }
            Placed::Answer(_) | Placed::Written(_) => {}
        }
    }

    /// Takes a peer to which a packet was lost; each is reported once.
    pub(super) fn take_broken(&mut self, from: usize) -> Option<usize> {
        let now = self.clock.now();
        let broken = |line: &Line| matches!(line.health, Health::Broken(at) if at <= now);
        let to = self.lines_of(from).find(|(_, line)| broken(line)).map(|(to, _)| to)?;
        self.line(from, to).health = Health::Told;
        Some(to)
    }

    /// The number of messages that wait to leave a process for a living process over an unbroken line, and
    /// that nothing else brings. A long packet of a flow on a line that stalls has come in pieces on other
    /// paths.
    pub(super) fn waiting(&self, from: usize) -> usize {
        let counts = |(to, line): (usize, &Line)| !self.dead[to] && line.health == Health::Whole;
        let beside = self.wires.ordered.is_some_and(|ordered| ordered.beside);
        let is_needed = |(_, load): &&(u64, Load)| !(beside && matches!(load, Load::Packet(_)));
        let needed = |(_, line): (usize, &Line)| line.held.iter().filter(is_needed).count();
        self.lines_of(from).filter(|line| counts(*line)).map(needed).sum()
    }

    /// Drops the messages that a process has sent and that have not left: they are gone with it.
    pub(super) fn forget_lines(&mut self, from: usize) {
        let ranks = self.dead.len();
        self.lines.iter_mut().skip(from * ranks).take(ranks).for_each(|line| *line = Line::default());
    }
}
