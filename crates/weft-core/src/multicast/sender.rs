//! The sending side of a stream: the root.

use alloc::vec::Vec;

use super::keeper::{Keeper, Review};
use super::slots::{Look, SLOT_BYTES, Slots};
use super::wire::{self, Acknowledgement, Body, FRAME_PREFIX, HEADER_SIZE, Packet, StreamId};
use super::{
    AckTree, Counters, Destination, FIRST, LOSS_SHARE, LOSSES_FREE, Settings, Timing, WINDOW_MAX, WINDOW_MIN, earlier,
};
use crate::placement::RemoteMemory;
use crate::time::{Duration, Instant};
use crate::wire::{Key, Secret};

/// The shortest pause after which a broadcast asks for acknowledgements by itself. Broadcasts closer behind
/// each other ask together, if the scheme aggregates: the acknowledgements of all members cost more than one
/// broadcast takes.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Sends the stream of a root: frames to all other members of its group.
pub struct Sender {
    settings: Settings,
    stream: StreamId,
    /// The number of this member.
    member: u32,
    key: Key,
    keeper: Keeper,
    /// The first packet that has not left.
    unsent: u64,
    /// The newest packet has room for another frame, because it has not left.
    is_open: bool,
    /// Broadcasts since the last one that asked for acknowledgements.
    broadcasts: u32,
    /// The packet that asked last.
    asked: u64,
    timing: Timing,
    /// The time at which the newest packet left; and whether a packet has left after a pause, with no wish
    /// for acknowledgements since.
    left: Option<Instant>,
    paused: bool,
    /// A packet that has asked for acknowledgements, and the time at which it left; and whether it may have
    /// been sent again since.
    timed: Option<(u64, Instant)>,
    is_repaired: bool,
    /// The number of the newest question, and the time at which it left.
    probed: Option<(u64, Instant)>,
    /// A question to all is to leave: the newest packet has left again before it.
    asks_all: bool,
    /// The last packet that left again before a question.
    repeated: u64,
    /// Packets that may be under way.
    congestion_window: u32,
    /// The window has shrunk because of losses among packets before this one.
    recovering: u64,
    /// Packets that receivers have lost since the window was last looked at. Only the receiver that has lost
    /// most counts.
    losses: Losses,
    /// The memory into which receivers may write acknowledgements, and the words that they have written.
    slots: Option<(RemoteMemory, Slots)>,
    /// Members that are to be told of their slots.
    offers: Vec<u32>,
    counters: Counters,
}

/// Losses of one receiver in one window.
#[derive(Default)]
struct Losses {
    until: u64,
    of: Vec<(u32, u32)>,
}

impl Sender {
    /// Begins the stream of a process of this member.
    ///
    /// # Panics
    /// When the window is empty or larger than [`WINDOW_MAX`], or a packet has no room for a frame.
    pub fn new(settings: Settings, stream: StreamId, member: u32, secret: &Secret) -> Self {
        assert!((1..=WINDOW_MAX).contains(&settings.window), "a window has 1 to {WINDOW_MAX} packets");
        assert!(settings.packet_size > HEADER_SIZE + FRAME_PREFIX, "a packet has room for a frame");
        let tree = AckTree::new(settings.members, member, settings.scheme);
        Self {
            key: stream.key(secret),
            keeper: Keeper::new(FIRST, tree.children(member)),
            unsent: FIRST,
            is_open: false,
            broadcasts: 0,
            asked: FIRST,
            left: None,
            paused: false,
            timing: Timing::new(),
            timed: None,
            is_repaired: false,
            probed: None,
            asks_all: false,
            repeated: 0,
            congestion_window: settings.window.min(4 * WINDOW_MIN),
            recovering: FIRST,
            losses: Losses::default(),
            slots: None,
            offers: Vec::new(),
            counters: Counters::default(),
            settings,
            stream,
            member,
        }
    }

    /// Lets receivers write their acknowledgements at `target`, each into a slot of [`SLOT_BYTES`] bytes in
    /// the order of the members. A receiver is told when it acknowledges by a packet.
    pub fn open_slots(&mut self, target: RemoteMemory) {
        self.slots = Some((target, Slots::new(self.settings.members)));
    }

    /// Takes the word in the slot of `member`. A peer has written it, so it counts only if it goes forward,
    /// and not beyond the packets that have been sent.
    pub fn handle_written(&mut self, now: Instant, member: u32, word: u64) {
        let Some((_, slots)) = self.slots.as_mut().filter(|_| member != self.member) else { return };
        match slots.look(member, word, self.unsent) {
            Look::Nothing => {}
            Look::Progress(number) => {
                if let Some((_, left)) = self.timed.take_if(|(timed, _)| *timed < number)
                    && !self.is_repaired
                {
                    self.timing.sample_at_most(now.since(left));
                }
                let arrived = Acknowledgement { expected: number, end: number, ..Acknowledgement::default() };
                self.acknowledge(now, member, number, &arrived);
            }
            Look::Wrong => self.counters.rejected += 1,
        }
    }

    /// Bytes of the longest frame.
    pub fn frame_max(&self) -> usize {
        (self.settings.packet_size - HEADER_SIZE - FRAME_PREFIX).min(usize::from(u16::MAX))
    }

    /// Bytes of the longest frame that [`Self::submit`] takes now; `None` if the window is full.
    pub fn room(&self) -> Option<usize> {
        let open = self.open_room();
        if open > FRAME_PREFIX {
            return Some(open - FRAME_PREFIX);
        }
        (self.keeper.len() < self.settings.window as usize).then(|| self.frame_max())
    }

    fn open_room(&self) -> usize {
        let newest = self.keeper.packet(self.keeper.end().wrapping_sub(1)).filter(|_| self.is_open);
        newest.map_or(0, |packet| self.settings.packet_size.saturating_sub(packet.len()))
    }

    /// Takes a frame of `length` bytes, which `write` writes. The frame shares a packet with other frames
    /// that have not left. Returns the number that [`Self::acknowledged`] exceeds when all have the frame.
    /// Without room for the frame it returns `None` and does nothing.
    pub fn submit(&mut self, length: usize, write: impl FnOnce(&mut [u8])) -> Option<u64> {
        if length > self.frame_max() {
            return None;
        }
        if self.open_room() < FRAME_PREFIX + length {
            if self.keeper.len() >= self.settings.window as usize {
                return None;
            }
            let mut bytes = Vec::with_capacity(self.settings.packet_size);
            let (from, number) = (self.member, self.keeper.end());
            Packet { from, request: false, number, body: Body::Data }.emit(&self.stream, &mut bytes);
            self.keeper.keep(|| bytes);
            self.is_open = !self.keeper.is_empty();
        }
        let number = self.keeper.end().wrapping_sub(1);
        if let Some(packet) = self.keeper.packet_mut(number) {
            packet.extend_from_slice(&(length as u16).to_le_bytes());
            let at = packet.len();
            packet.resize(at + length, 0);
            write(&mut packet[at..]);
        }
        Some(number)
    }

    /// Ends a broadcast with the frame that was submitted last.
    pub fn end_broadcast(&mut self) {
        self.broadcasts += 1;
        if self.broadcasts >= self.settings.scheme.aggregate {
            self.request(self.keeper.end().wrapping_sub(1));
        }
    }

    /// Makes packet `number`, which has not left, ask for acknowledgements.
    fn request(&mut self, number: u64) {
        if let Some(packet) = self.keeper.packet_mut(number).filter(|_| number >= self.unsent) {
            wire::request(packet);
            self.broadcasts = 0;
            self.asked = number;
        }
    }

    /// Returns whether only one packet waits, which has room for another message like its last.
    pub fn may_coalesce(&self) -> bool {
        let newest = self.keeper.end().wrapping_sub(1);
        self.is_open && newest == self.unsent && 2 * self.open_room() > self.settings.packet_size
    }

    /// Returns whether some receiver had to ask for most of the packets since the last call: the network
    /// carries no multicast to it any more, or loses too much.
    pub fn review(&mut self) -> bool {
        self.keeper.review(self.unsent, Review::Together)
    }

    /// Reviews as [`Self::review`], over so many packets that the root may send to each member by itself
    /// without asking the others.
    pub fn is_beyond_use(&mut self) -> bool {
        let acknowledged = self.keeper.acknowledged();
        self.keeper.review(acknowledged, Review::Alone)
    }

    /// The number before which all members have all packets.
    pub fn acknowledged(&self) -> u64 {
        self.keeper.acknowledged()
    }

    /// The number before which all packets have left.
    pub fn sent(&self) -> u64 {
        self.unsent
    }

    /// Returns whether nothing is to be sent, and no acknowledgement is awaited.
    pub fn is_idle(&self) -> bool {
        self.keeper.is_empty()
    }

    /// Writes the next packet that leaves; returns its destination.
    pub fn poll(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Destination> {
        let cutter = wire::Cutter { stream: &self.stream, key: &self.key, from: self.member };
        if let Some(to) = self.keeper.poll_repair(now, &cutter, out) {
            self.counters.count_repair(to);
            self.is_repaired = true;
            self.keeper.sent(now, &self.timing);
            return Some(to);
        }
        if self.send_next(now, out) {
            return Some(Destination::Group);
        }
        if let (Some(member), Some((target, _))) = (self.offers.pop(), &self.slots) {
            let address = target.address.wrapping_add(u64::from(member) * SLOT_BYTES);
            let (number, body) = (self.unsent, Body::Slot(RemoteMemory { address, ..*target }));
            Packet { from: self.member, request: false, number, body }.emit(&self.stream, out);
            wire::seal(&self.key, number, out);
            return Some(Destination::Member(member));
        }
        let to = if core::mem::take(&mut self.asks_all) && !self.is_idle() {
            Destination::Group
        } else {
            let to = self.keeper.poll_probe(now, self.unsent, &self.timing)?;
            if to == Destination::Group && self.send_newest_again(now, out) {
                return Some(to);
            }
            to
        };
        let number = self.unsent;
        Packet { from: self.member, request: true, number, body: Body::Probe }.emit(&self.stream, out);
        wire::seal(&self.key, number, out);
        self.counters.probes += 1;
        self.probed = Some((number, now));
        Some(to)
    }

    /// Sends the newest packet again before a question. A missing answer most often means that the newest
    /// packet was lost, which no later packet proves. Members that still lack other packets ask for them (as
    /// with the tail loss probes of TCP, RFC 8985 §7).
    ///
    /// If the newest packet has not asked for an answer, the question is put off: more broadcasts may come,
    /// and ask for all answers together. Questions to single members come without the packet. What these
    /// members ask for shows whether the network carries multicast to them at all.
    fn send_newest_again(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let newest = self.unsent.wrapping_sub(1);
        let was_asked = self.asked == newest;
        if !was_asked && self.repeated == newest {
            return false;
        }
        let Some(packet) = self.keeper.packet(newest) else { return false };
        out.clear();
        out.extend_from_slice(packet);
        self.counters.repairs_by_multicast += 1;
        (self.repeated, self.is_repaired) = (newest, true);
        if was_asked {
            self.asks_all = true;
        } else {
            self.keeper.put_off_probe(now + PAUSE_MIN);
        }
        true
    }

    fn send_next(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let number = self.unsent;
        let under_way = number - self.keeper.acknowledged().min(number);
        if number >= self.keeper.end() || under_way >= u64::from(self.congestion_window) {
            return false;
        }
        let is_newest = number + 1 == self.keeper.end();
        // A window that is about to be full must hear from the receivers, however many broadcasts it holds.
        let quarter = u64::from(self.congestion_window.min(self.settings.window) / 4).max(1);
        // Broadcasts that are so far apart that a question would follow each of them ask for acknowledgements
        // by themselves.
        let pause = self.timing.probe_delay(0).max(PAUSE_MIN);
        self.paused |= self.left.is_none_or(|left| now.since(left) >= pause);
        if number >= self.asked + quarter || (is_newest && core::mem::take(&mut self.paused)) {
            self.request(number);
        }
        self.left = Some(now);
        self.unsent += 1;
        self.is_open &= !is_newest;
        let Some(packet) = self.keeper.packet_mut(number) else { return false };
        wire::seal(&self.key, number, packet);
        out.clear();
        out.extend_from_slice(packet);
        if self.timed.is_none() && number == self.asked {
            (self.timed, self.is_repaired) = (Some((number, now)), false);
        }
        self.keeper.sent(now, &self.timing);
        self.counters.packets += 1;
        true
    }

    /// Takes a packet of this stream.
    pub fn handle(&mut self, now: Instant, bytes: &[u8]) {
        match Packet::open(&self.key, self.unsent, bytes) {
            Ok(Packet { from, number, body: Body::Acknowledgement(acknowledgement), .. })
                // No member knows of a packet that has not left.
                if from < self.settings.members && from != self.member && acknowledgement.end <= self.unsent =>
            {
                self.acknowledge(now, from, number, &acknowledgement);
                if self.slots.as_mut().is_some_and(|(_, slots)| slots.offers(from)) && !self.offers.contains(&from) {
                    self.offers.push(from);
                }
            }
            // A packet that a bridge has brought back to its sender.
            Ok(Packet { from, .. }) if from == self.member => {}
            _ => self.counters.rejected += 1,
        }
    }

    fn acknowledge(&mut self, now: Instant, from: u32, number: u64, acknowledgement: &Acknowledgement) {
        if let Some((echo, hold)) = acknowledgement.echo {
            self.time(now, echo, hold);
        }
        let before = self.keeper.acknowledged();
        let learnt = self.keeper.handle(now, from, number, acknowledgement, self.unsent, &self.timing);
        if learnt.lost > 0 {
            self.count_losses(from, learnt.lost);
        }
        if learnt.progress {
            let all = self.keeper.acknowledged();
            let grown = self.congestion_window.saturating_add((all - before) as u32 / 2 + 1);
            self.congestion_window = grown.min(self.settings.window);
        }
    }

    /// Takes the answer to the packet with number `echo`, given `hold` after the packet came. A packet that
    /// has been sent again does not measure a round trip (Karn and Partridge, 1987): the sample would grow by
    /// the wait before the packet was sent again, and the wait would grow by the sample. Questions have
    /// numbers of their own.
    fn time(&mut self, now: Instant, echo: u64, hold: Duration) {
        let since = |left: Instant| now.since(left).0.checked_sub(hold.0).map(Duration);
        let answers_question = self.probed.filter(|(probed, _)| *probed == echo);
        let answers_data = self.timed.filter(|(timed, _)| *timed == echo && !self.is_repaired);
        if let (None, Some((_, left))) | (Some((_, left)), None) = (answers_question, answers_data)
            && let Some(sample) = since(left)
        {
            self.timing.sample(sample);
        }
        self.probed = self.probed.filter(|_| answers_question.is_none());
        self.timed = self.timed.filter(|(timed, _)| *timed > echo);
    }

    /// Counts losses: a receiver that has lost more than its share shrinks the window, once for the packets
    /// that were under way then.
    fn count_losses(&mut self, from: u32, lost: u32) {
        if self.keeper.acknowledged() >= self.losses.until {
            self.losses = Losses { until: self.unsent, of: Vec::new() };
        }
        let of = &mut self.losses.of;
        let at = of.iter().position(|(member, _)| *member == from).unwrap_or_else(|| {
            of.push((from, 0));
            of.len() - 1
        });
        of[at].1 += lost;
        let share = (self.congestion_window / LOSS_SHARE).max(LOSSES_FREE);
        if of[at].1 > share && self.keeper.acknowledged() >= self.recovering {
            self.congestion_window = (self.congestion_window / 2).max(WINDOW_MIN.min(self.settings.window));
            self.recovering = self.unsent;
        }
    }

    /// The time to call [`Self::poll`] although nothing arrives.
    pub fn next_timeout(&self) -> Option<Instant> {
        let may_send = self.unsent < self.keeper.end()
            && self.unsent - self.keeper.acknowledged().min(self.unsent) < u64::from(self.congestion_window);
        earlier(
            (may_send || self.asks_all || !self.offers.is_empty()).then_some(Instant(0)),
            self.keeper.next_timeout(),
        )
    }

    /// Returns a member that has not answered for longer than the settings allow.
    pub fn silent(&self, now: Instant) -> Option<u32> {
        self.keeper.silent(now, self.settings.peer_timeout)
    }

    /// Forgets a member that has left or failed: nothing waits for it any more.
    pub fn forget(&mut self, member: u32) {
        self.keeper.forget(member);
    }

    /// The counts of what happened.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
