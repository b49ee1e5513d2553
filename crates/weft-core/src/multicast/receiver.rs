//! The receiving side of a stream: every member but the root.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::keeper::{Keeper, Review};
use super::slots;
use super::wire::{self, Acknowledgement, Body, Packet, StreamId};
use super::{AckTree, Counters, Destination, FIRST, Settings, Timing, earlier};
use crate::assembly::Assemblies;
use crate::placement::RemoteMemory;
use crate::time::{Duration, Instant};
use crate::wire::{Key, Number, Secret};

/// Requests for a missing packet that its keeper does not answer before the root is asked instead, every
/// other time.
const ASK_ROOT_AFTER: u32 = 3;

/// The wait before a packet is asked for that only a question shows to be missing. A question to one member
/// comes by another socket than the packets in question, which may lie unread in the socket of the group.
const ASK_AFTER_QUESTION: Duration = Duration::from_micros(50);

/// Most unanswered wishes for an acknowledgement. There is one for each quarter of a window, and one for each
/// broadcast where none is aggregated. If there are more, the oldest are answered with the next.
const ASKED_MAX: usize = 16;

/// An acknowledgement is wanted.
#[derive(Clone, Copy)]
struct Asked {
    /// The newest packet that the acknowledgement is to cover.
    number: u64,
    since: Instant,
    /// The number of the asking packet, or of a question behind it.
    by: u64,
}

/// Receives the stream of one root, at one other member of the group.
pub struct Receiver {
    settings: Settings,
    stream: StreamId,
    key: Key,
    /// The member that sends the stream, and this member.
    root: u32,
    member: u32,
    /// The member that this one acknowledges to.
    parent: u32,
    /// The first packet that has not arrived.
    expected: u64,
    /// Packets that have arrived beyond `expected`; the first place is that of `expected`, and is empty.
    held: VecDeque<Option<Vec<u8>>>,
    /// Packets of which only pieces have arrived.
    assemblies: Assemblies,
    /// One past the number of the newest packet that is known to exist.
    end: u64,
    /// The number before which missing packets count as lost. A question alone moves it only after a while.
    proved: u64,
    /// The packets that others may still lack; for a co-root.
    keeper: Keeper,
    /// The acknowledgements that are wanted, oldest first. A co-root gives each when the members behind it
    /// have come so far. If it waited for the newest alone, a root that keeps asking would hear of nothing
    /// before its window is used up.
    asked: VecDeque<Asked>,
    /// The members to which an acknowledgement is due: the parent, or a member that has asked out of turn.
    due: Vec<u32>,
    /// The time to ask for missing packets.
    ask_at: Option<Instant>,
    /// The number of requests for missing packets since a packet came.
    questions: u32,
    timing: Timing,
    /// The slot into which acknowledgements may be written, and whether one is to be written.
    slot: Option<RemoteMemory>,
    writes: bool,
    counters: Counters,
}

impl Receiver {
    /// Begins to receive, at `member`, the stream of a process of another member, `root`.
    ///
    /// # Panics
    /// When `member` is the root, or no member.
    pub fn new(settings: Settings, stream: StreamId, root: u32, member: u32, secret: &Secret) -> Self {
        let tree = AckTree::new(settings.members, root, settings.scheme);
        let parent = tree.parent(member).filter(|_| member < settings.members);
        Self {
            key: stream.key(secret),
            parent: parent.expect("another member than the root receives"),
            keeper: Keeper::new(FIRST, tree.children(member)),
            expected: FIRST,
            held: VecDeque::new(),
            assemblies: Assemblies::default(),
            end: FIRST,
            proved: FIRST,
            asked: VecDeque::new(),
            due: Vec::new(),
            ask_at: None,
            questions: 0,
            timing: Timing::new(),
            slot: None,
            writes: false,
            counters: Counters::default(),
            settings,
            stream,
            root,
            member,
        }
    }

    /// Takes a packet of this stream: the frames that are next in order go to `deliver`.
    pub fn handle(&mut self, now: Instant, bytes: &[u8], deliver: &mut impl FnMut(&[u8])) {
        let Ok(packet) = Packet::open(&self.key, self.expected, bytes) else {
            self.counters.rejected += 1;
            return;
        };
        match packet.body {
            Body::Data if packet.from == self.root => {
                self.handle_data(now, packet.number, bytes, deliver);
                if packet.request {
                    self.handle_request(now, packet.number);
                }
            }
            // A piece from any member that repairs.
            Body::Piece(whole, at) if packet.from != self.member => {
                let number = packet.number;
                let window = self.expected..self.expected + u64::from(self.settings.window);
                let has_arrived =
                    self.held.get(number.saturating_sub(self.expected) as usize).is_some_and(Option::is_some);
                if !window.contains(&number) || has_arrived {
                    self.counters.duplicates += 1;
                    return;
                }
                let bytes = &bytes[wire::PIECE_AT..];
                if let Some(packet) = self.assemblies.take(Number(number as u32), whole, at, bytes)
                    && wire::is_data(&packet)
                {
                    self.handle(now, &packet, deliver);
                }
            }
            // A question of the root, or of the co-root.
            Body::Probe if packet.from != self.member => self.handle_probe(now, &packet),
            Body::Acknowledgement(acknowledgement) if packet.from < self.settings.members => {
                let (number, sent) = (packet.number, self.expected);
                self.keeper.handle(now, packet.from, number, &acknowledgement, sent, &self.timing);
                self.pass_on();
            }
            // The check of the slot's memory happens where it is written.
            Body::Slot(slot) if packet.from == self.root && self.settings.scheme.written => self.slot = Some(slot),
            Body::Data | Body::Probe | Body::Acknowledgement(_) | Body::Test | Body::Slot(_) | Body::Piece(..) => {
                self.counters.rejected += 1;
            }
        }
    }

    fn handle_data(&mut self, now: Instant, number: u64, bytes: &[u8], deliver: &mut impl FnMut(&[u8])) {
        let Some(ahead) = number.checked_sub(self.expected) else {
            self.counters.duplicates += 1;
            return;
        };
        if ahead >= u64::from(self.settings.window) {
            // No sender that keeps to its window is so far ahead of a member that has not acknowledged.
            self.counters.rejected += 1;
            return;
        }
        self.learn_of(now, number, ahead > 0);
        if ahead > 0 {
            let at = ahead as usize;
            if self.held.len() <= at {
                self.held.resize(at + 1, None);
            }
            if self.held[at].is_some() {
                self.counters.duplicates += 1;
            } else {
                self.held[at] = Some(bytes.to_vec());
            }
            return;
        }
        self.take(bytes, deliver);
        self.held.pop_front();
        while let Some(next) = self.held.front_mut().and_then(Option::take) {
            self.take(&next, deliver);
            self.held.pop_front();
        }
        self.questions = 0;
        if self.expected >= self.end {
            self.ask_at = None;
        } else if self.ask_at.is_some() {
            // The packets that are missing now have been asked for with the rest.
            self.ask_at = Some(now + self.timing.probe_delay(0));
        }
        // A question that came before this packet is answered now.
        self.pass_on();
    }

    /// Takes the packet that was expected.
    fn take(&mut self, bytes: &[u8], deliver: &mut impl FnMut(&[u8])) {
        self.expected += 1;
        self.assemblies.forget_before(Number(self.expected as u32));
        self.keeper.keep(|| bytes.to_vec());
        for frame in wire::frames(bytes) {
            match frame {
                Some(frame) => deliver(frame),
                None => self.counters.rejected += 1,
            }
        }
    }

    /// Notes that packet `number` exists, and whether there is a gap before it: new gaps are asked for at
    /// once.
    fn learn_of(&mut self, now: Instant, number: u64, has_gap: bool) {
        if has_gap && (number > self.end || self.ask_at.is_none()) {
            self.questions = 0;
            self.ask_at = Some(now);
        }
        self.end = self.end.max(number + 1);
        self.proved = self.proved.max(number + 1);
    }

    fn handle_request(&mut self, now: Instant, number: u64) {
        self.note_asked(Asked { number, since: now, by: number });
        self.pass_on();
        if self.keeper.acknowledged() < self.expected {
            self.keeper.sent(now, &self.timing);
        }
    }

    /// Takes a question for the packets that have arrived.
    fn handle_probe(&mut self, now: Instant, packet: &Packet) {
        let number = packet.number;
        if number > self.expected.saturating_add(u64::from(self.settings.window)) {
            self.counters.rejected += 1;
            return;
        }
        if number > self.end || (number > self.expected && self.ask_at.is_none()) {
            self.end = self.end.max(number);
            self.ask_at = Some(now + ASK_AFTER_QUESTION);
        }
        self.note_asked(Asked { number: number.wrapping_sub(1), since: now, by: number });
        let to = if packet.from == self.root { self.parent } else { packet.from };
        // A packet tells more than a slot.
        self.writes = false;
        // The co-roots answer the root's question to everybody. A member that the root asks alone answers as
        // well, for its co-root may be gone.
        self.owe(to);
        if self.keeper.acknowledged() < self.expected {
            self.keeper.sent(now, &self.timing);
        }
    }

    fn owe(&mut self, to: u32) {
        if !self.due.contains(&to) {
            self.due.push(to);
        }
    }

    fn note_asked(&mut self, asked: Asked) {
        // A packet that comes again asks again.
        self.asked.retain(|known| known.number < asked.number);
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back(asked);
    }

    /// Makes a wanted acknowledgement due to the parent, as soon as this member and all behind it have the
    /// packet.
    fn pass_on(&mut self) {
        let subtree = self.subtree();
        if self.asked.front().is_none_or(|asked| subtree <= asked.number) {
            return;
        }
        if self.slot.is_none() {
            return self.owe(self.parent);
        }
        self.asked.retain(|asked| subtree <= asked.number);
        self.writes = true;
    }

    /// The word that is to be written to the root's memory, and its place. The word stays the same or becomes
    /// newer until [`Self::begun`].
    pub fn to_write(&self) -> Option<(RemoteMemory, u64)> {
        self.slot.filter(|_| self.writes).map(|slot| (slot, slots::word(self.subtree())))
    }

    /// Notes that the carrier has taken the word of the last [`Self::to_write`].
    pub fn begun(&mut self) {
        self.writes = false;
        self.counters.written += 1;
    }

    /// Notes that the carrier does not write: acknowledgements are packets from now on.
    pub fn cannot_write(&mut self) {
        self.slot = None;
        if core::mem::take(&mut self.writes) {
            self.owe(self.parent);
        }
    }

    /// The first packet that this member, or a member whose acknowledgements it gathers, may lack.
    fn subtree(&self) -> u64 {
        self.keeper.acknowledged().min(self.expected)
    }

    /// Writes the next packet that leaves; returns its destination.
    pub fn poll(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Destination> {
        let cutter = wire::Cutter { stream: &self.stream, key: &self.key, from: self.member };
        if let Some(to) = self.keeper.poll_repair(now, &cutter, out) {
            self.counters.count_repair(to);
            return Some(to);
        }
        if self.ask_at.is_some_and(|at| at <= now) && self.end > self.expected {
            self.questions += 1;
            self.proved = self.end;
            self.ask_at = Some(now + self.timing.probe_delay(self.questions));
            let asks_root = self.questions > ASK_ROOT_AFTER && self.questions.is_multiple_of(2);
            let to = if asks_root { self.root } else { self.parent };
            self.counters.negative += 1;
            self.due.retain(|due| *due != to);
            return Some(self.acknowledge(now, to, out));
        }
        if let Some(to) = self.due.pop() {
            return Some(self.acknowledge(now, to, out));
        }
        let to = self.keeper.poll_probe(now, self.expected, &self.timing)?;
        // A co-root asks the members behind it one by one: the others have nothing to tell it.
        let Destination::Member(_) = to else { return self.poll(now, out) };
        let number = self.expected;
        Packet { from: self.member, request: true, number, body: Body::Probe }.emit(&self.stream, out);
        wire::seal(&self.key, number, out);
        self.counters.probes += 1;
        Some(to)
    }

    fn acknowledge(&mut self, now: Instant, to: u32, out: &mut Vec<u8>) -> Destination {
        let subtree = self.subtree();
        let answered = self.asked.iter().rev().find(|asked| subtree > asked.number).or(self.asked.back());
        let echo = answered.map(|asked| (asked.by, now.since(asked.since)));
        let (expected, end) = (self.expected, self.proved);
        let mut acknowledgement = Acknowledgement { expected, end, echo, map: Vec::new() };
        let beyond = (self.expected..).zip(&self.held).filter(|(_, held)| held.is_some());
        beyond.for_each(|(number, _)| acknowledgement.note(number));
        let number = subtree;
        let body = Body::Acknowledgement(acknowledgement);
        Packet { from: self.member, request: false, number, body }.emit(&self.stream, out);
        wire::seal(&self.key, number, out);
        self.counters.acknowledgements += 1;
        if to == self.parent {
            self.asked.retain(|asked| number <= asked.number);
        }
        Destination::Member(to)
    }

    /// Reviews as [`super::Sender::review`], for the members whose losses this member repairs.
    pub fn review(&mut self) -> bool {
        self.keeper.review(self.expected, Review::Together)
    }

    /// The first packet that has not arrived.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Returns whether no packet is known to be missing, here or at the members whose acknowledgements this
    /// one gathers.
    pub fn is_idle(&self) -> bool {
        self.end <= self.expected && self.due.is_empty() && !self.writes && self.keeper.is_empty()
    }

    /// The time to call [`Self::poll`] although nothing arrives.
    pub fn next_timeout(&self) -> Option<Instant> {
        let due = (!self.due.is_empty()).then_some(Instant(0));
        let ask = self.ask_at.filter(|_| self.end > self.expected);
        earlier(earlier(due, ask), self.keeper.next_timeout())
    }

    /// Returns a member whose acknowledgements this one gathers, and that has not answered for longer than
    /// the settings allow.
    pub fn silent(&self, now: Instant) -> Option<u32> {
        self.keeper.silent(now, self.settings.peer_timeout)
    }

    /// Forgets a member that has left or failed: nothing waits for it any more.
    pub fn forget(&mut self, member: u32) {
        self.keeper.forget(member);
        if member == self.parent {
            self.parent = self.root;
        }
    }

    /// The counts of what happened.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
