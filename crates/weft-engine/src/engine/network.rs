//! The network: packets in and out of the flows.
//!
//! `Engine::progress` receives and sends here in each pass. The room `outgoing.rs` submits frames to the
//! flows. What a look at a carrier brings is sorted in `network/intake.rs`.

mod intake;
mod looks;
mod remotes;

use std::collections::VecDeque;

use weft_core::connection::Connection;
use weft_core::flow::{Counters, Event, Failure, LongPath, PACKET_SIZE_MIN, Regions, Train};
use weft_core::long_path_choice::LongPathChoice;
use weft_core::rails::PathFrame;
use weft_core::time::{Duration, Instant};

use super::{FRAMES_PER_PASS, PointToPoint};
use intake::{Intake, OnStream, without_questions};
pub(super) use looks::Looks;
pub(super) use remotes::Remotes;

use crate::carriers::{
    Attendance, BoxedCarrier, COALESCE_TIME_MAX, CarrierId, CarrierPath, Carriers, Conversation, Remote, Submission,
    coalesced_bytes_max,
};
use crate::group::PeerId;
use crate::jobs::Jobs;
use crate::messages::Messages;
use crate::regions::RegionKey;
use crate::transport::{Address, Arrival, Carrier, Delivery, Look, Outcome, Platform};

/// The most packets that one pass sends to one peer before other peers get their turn.
const PACKETS_PER_PASS: usize = 128;
/// The longest train that is collected before it leaves, in bytes.
const TRAIN_BYTES_MAX: usize = 64 << 10;

/// The number of idle flows that keep their memory.
const CACHED_FLOWS_MAX: usize = 32;
/// The most memory of an idle flow that keeps its memory, in bytes.
const CACHED_FLOW_BYTES_MAX: usize = 256 << 10;

/// A train, or the rest of one, that found the link's send buffer full.
pub(super) struct Stalled {
    carrier_path: CarrierPath,
    bytes: Vec<u8>,
    segment: usize,
}

/// The carriers to other nodes, and all that is under way there.
pub(super) struct Network {
    pub(super) carriers: Carriers,
    /// The flow or connection to each peer, and its carriers.
    pub(super) remotes: Remotes,
    pub(super) jobs: Jobs,
    /// Peers whose flows have something to send or to wait for.
    pub(super) active: Vec<PeerId>,
    /// Trains for which a link had no room.
    pub(super) stalled: VecDeque<Stalled>,
    train: Vec<u8>,
    pub(super) looks: Looks,
    /// Set while carriers may be writing to memory of peers.
    pub(super) writes: bool,
    /// What is known of the long paths of flows.
    pub(super) long_path_choice: LongPathChoice,
    /// Set if a carrier is looked at in memory, so that carriers whose look is a system call wait for their
    /// turn.
    looks_in_memory: bool,
    /// Idle flows that still have their memory.
    pub(super) cached: VecDeque<PeerId>,
    /// The counters of flows until they were parked.
    pub(super) past: Counters,
    /// The care for messages that wait for others while no call of MPI comes.
    pub(super) attendance: Attendance,
    /// Set while messages wait for others to share their packet.
    pub(super) coalescing: bool,
    /// Set while a call submits messages behind which it will submit another one to the same peer: they leave
    /// with that.
    pub(super) precedes: bool,
    /// Set if the next pass is to look at the network even if neighbours have sent something.
    pub(super) must_look: bool,
    /// Set when packets have arrived since the last time that this was asked.
    pub(super) packets_arrived: bool,
    /// The number of packets that cannot have come from a peer.
    pub(super) foreign: u64,
}

impl Network {
    /// Makes a network with nothing under way; peers belong to `jobs`.
    pub(super) fn new(carriers: Carriers, jobs: Jobs) -> Self {
        Self {
            jobs,
            remotes: Remotes::default(),
            active: Vec::new(),
            stalled: VecDeque::new(),
            train: train_room(&carriers),
            looks_in_memory: is_any_in_memory(&carriers),
            carriers,
            looks: Looks::now(),
            long_path_choice: LongPathChoice::default(),
            writes: false,
            cached: VecDeque::new(),
            past: Counters::default(),
            attendance: Attendance::None,
            coalescing: false,
            precedes: false,
            must_look: false,
            packets_arrived: false,
            foreign: 0,
        }
    }
}

impl Network {
    /// Adds a carrier behind all others, and returns its name; `None` when there are too many.
    pub(super) fn add_carrier(&mut self, carrier: BoxedCarrier) -> Option<CarrierId> {
        let id = self.carriers.add(carrier)?;
        self.train = train_room(&self.carriers);
        self.looks_in_memory = is_any_in_memory(&self.carriers);
        Some(id)
    }

    /// The carriers that are looked at in this pass, as far as it does not depend on what a look costs. Those
    /// by which nothing is expected have their turn now and then: somebody may have sent something all the
    /// same.
    #[inline]
    pub(super) fn looked_at(&mut self) -> impl Iterator<Item = CarrierId> + use<> {
        let has_turn = self.looks.begin_pass() || self.writes;
        self.carriers.looked_at(has_turn)
    }

    /// Returns whether this carrier, one of [`Self::looked_at`], is looked at in this pass. It always is if
    /// the look costs little, if only writes come by it, or if it brings packets and no carrier is looked at
    /// in memory. One that brings long packets of flows is while something may be written, here or there.
    #[inline]
    pub(super) fn is_look_due(&mut self, id: CarrierId) -> bool {
        !self.looks_in_memory && self.carriers.is_path(id)
            || self.is_look_cheap(id)
            || !self.carriers.has_packets(id)
            || self.carriers.has_registered(id)
            || self.writes && self.carriers.attributes(id).remote_memory.is_some()
            || self.looks.is_due(id)
    }

    /// Notes that the thread made no passes for this `span`. The next pass looks at the network.
    pub(super) fn note_away(&mut self, span: Duration) {
        self.must_look = true;
        self.looks.note_away(span);
    }

    /// Returns whether this carrier is looked at in memory.
    fn is_look_cheap(&self, id: CarrierId) -> bool {
        self.carriers.attributes(id).look != Look::SystemCall
    }

    /// Notes that a look at a carrier has found packets: more of them will follow.
    pub(super) fn note_found(&mut self, id: CarrierId, found: usize) {
        if found > 0 && !self.is_look_cheap(id) {
            self.looks.found(id, found);
        }
    }
}

/// Returns whether some carrier is looked at in memory.
fn is_any_in_memory(carriers: &Carriers) -> bool {
    carriers.iter().any(|carrier| carrier.attributes().look == Look::Memory)
}

/// A buffer with room for a train.
fn train_room(carriers: &Carriers) -> Vec<u8> {
    let all = || carriers.iter().map(|carrier| carrier.attributes());
    let longest = all().map(|attributes| attributes.train_bytes).max().unwrap_or(0).min(TRAIN_BYTES_MAX);
    vec![0; all().map(|attributes| attributes.packet_size).fold(longest, usize::max)]
}

struct Sources<'a>(&'a Messages);

impl Regions for Sources<'_> {
    fn read(&mut self, region: u32, offset: u64, out: &mut [u8]) {
        self.0.regions.read_for_sending(RegionKey::from_wire(region), offset, out);
    }
}

impl<P: Platform> PointToPoint<P> {
    /// Takes in the packets that a carrier has, at most [`FRAMES_PER_PASS`]. Returns their number, and the
    /// peer's address if the carrier's connection to it broke.
    pub(super) fn receive(
        &mut self,
        id: CarrierId,
        now: Instant,
        on_stream: &mut OnStream<'_, P>,
    ) -> (usize, Option<Address>) {
        let Self { network, messages, peers, .. } = self;
        let Network { carriers, remotes, active, jobs, foreign, .. } = network;
        let attributes = carriers.attributes(id);
        let (role, is_ordered) = (attributes.role(), attributes.delivery == Delivery::Ordered);
        let Some(carrier) = carriers.get_mut(id) else { return (0, None) };
        let answers = Vec::new();
        let mut intake = Intake { now, role, jobs, messages, peers, remotes, active, on_stream, foreign, answers };
        let mut on_part = |part: Arrival<'_>| intake.take(part);
        let count = carrier.receive(&mut |train| without_questions(train, &mut on_part), FRAMES_PER_PASS);
        let answers = intake.answers;
        let broken = if is_ordered { carrier.take_broken() } else { None };
        for (carrier_path, answer) in &answers {
            say(carriers, carrier_path, answer);
        }
        if count > 0 && !network.carriers.has_packets(id) {
            network.carriers.note_packets(id);
        }
        network.packets_arrived |= count > 0;
        (count, broken)
    }

    /// The flow or connection to which messages to `peer` are submitted; the peer becomes due to be looked
    /// at.
    #[inline]
    pub(super) fn submission(&mut self, peer: PeerId) -> Submission<'_> {
        let Some(remote) = self.network.remotes.get_mut(peer) else { unreachable!("only remote peers have flows") };
        if !std::mem::replace(&mut remote.active, true) {
            self.network.active.push(peer);
        }
        remote.submission(&self.network.jobs)
    }

    /// Notes that packets to this address, or writes, are lost for good, as the carrier has said. Writes
    /// beside a flow are asked for anew, as packets.
    #[cold]
    pub(super) fn connection_broke(&mut self, to: &Address) {
        let remote = |peer| self.network.remotes.get(peer);
        let leads_there = |remote: &Remote| remote.sends_packets_to(to) || remote.writes_to(to);
        let found = self.peers.iter().map(|(id, _)| id).find(|peer| remote(*peer).is_some_and(leads_there));
        let Some(peer) = found else { return };
        if remote(peer).is_some_and(|remote| remote.sends_packets_to(to)) {
            return self.peer_failed(peer, "its connection broke");
        }
        let now = self.platform.now();
        if let Some(remote) = self.network.remotes.get_mut(peer) {
            remote.give_up_long_path(now);
        }
        self.give_up_writes(peer, now);
    }

    pub(super) fn transmit(&mut self, now: Instant) {
        self.network.coalescing = false;
        let mut at = 0;
        while at < self.network.active.len() {
            let peer = self.network.active[at];
            if let Some(remote) = self.network.remotes.get_mut(peer) {
                remote.coalescing.end(true);
                remote.submit_left_fins(&self.network.jobs);
                remote.note_held(&self.network.carriers, now);
            }
            self.transmit_to(peer, now);
            self.collect_events(peer);
            match self.network.remotes.get_mut(peer) {
                Some(remote) if !remote.is_idle(&self.network.carriers) => at += 1,
                Some(remote) => {
                    remote.active = false;
                    self.network.active.swap_remove(at);
                    self.keep_cached(peer);
                }
                // The peer has failed just now, and is no longer among the active ones.
                None => {}
            }
        }
    }

    /// Keeps the memory of an idle flow or connection until enough others have become idle after it; then it
    /// is parked.
    fn keep_cached(&mut self, peer: PeerId) {
        let Some(remote) = self.network.remotes.get_mut(peer) else { return };
        if remote.memory_bytes() > CACHED_FLOW_BYTES_MAX {
            remote.shrink();
        }
        if std::mem::replace(&mut remote.cached, true) {
            return;
        }
        self.network.cached.push_back(peer);
        if self.network.cached.len() <= CACHED_FLOWS_MAX {
            return;
        }
        let Some(oldest) = self.network.cached.pop_front() else { return };
        if let Some(remote) = self.network.remotes.get_mut(oldest) {
            remote.cached = false;
            // A flow that is not idle comes back here.
            self.network.past.add(&remote.park());
        }
    }

    /// Sends a message of `length` bytes, head included, that has been submitted for `peer`. The message
    /// waits if others are likely to follow and share its packet or, if it is longer than a packet, its
    /// train.
    #[inline]
    pub(super) fn flush_or_coalesce(&mut self, peer: PeerId, length: usize) {
        if self.network.precedes {
            return;
        }
        let Some(remote) = self.network.remotes.get_mut(peer) else { return };
        let train = self.network.train.len();
        let attendance = self.network.attendance;
        let may_coalesce = attendance != Attendance::None
            && match &remote.conversation {
                Conversation::Flow { flow: Some(flow), .. } => {
                    // Messages for the long path leave one by one.
                    (flow.long_path() == LongPath::Closed || !remote.has_taken_long_path(flow, length))
                        && flow.may_coalesce(length, coalesced_bytes_max(length, flow.frame_max(), train))
                }
                Conversation::Connection { connection: Some(connection), .. } => {
                    connection.queued_bytes() + length <= connection.frame_max()
                }
                _ => false,
            };
        if may_coalesce && remote.coalescing.joins(attendance, || self.platform.now()) {
            self.network.coalescing = true;
            return;
        }
        remote.coalescing.end(false);
        let needs_time = remote.current_connection().is_none_or(Connection::needs_time);
        let now = if needs_time { self.platform.now() } else { Instant(0) };
        self.transmit_to(peer, now);
        self.collect_events(peer);
    }

    /// The longest time for which messages may be waiting for others, if there may be such messages.
    pub fn coalescing_time(&self) -> Option<Duration> {
        self.network.coalescing.then_some(COALESCE_TIME_MAX)
    }

    /// Tells the network how a thread looks after messages that wait for others while no call of MPI comes.
    pub fn attend(&mut self, attendance: Attendance) {
        self.network.attendance = attendance;
    }

    /// Sends the packets of `peer`'s flow, consecutive packets of equal size together.
    pub(super) fn transmit_to(&mut self, peer: PeerId, now: Instant) {
        let Self { platform, messages, network, .. } = self;
        let Network { carriers, remotes, train, stalled, jobs, .. } = network;
        if !send_stalled(carriers, stalled) {
            return;
        }
        let Some(remote) = remotes.get_mut(peer) else { return };
        if remote.is_ordered() {
            transmit_connected(carriers, remote, messages, now, || platform.is_contended());
            if remote.has_placements() {
                super::placement::write_pieces(carriers, peer, remote, messages, (jobs, now));
            }
            return;
        }
        if remote.has_placements() {
            super::placement::write_pieces(carriers, peer, remote, messages, (jobs, now));
        }
        let has_long_path = remote.has_long_path();
        if has_long_path && remote.needs_long_path() {
            remote.look_at_long_path(carriers, now);
        }
        for carrier in 0..remote.carriers() {
            if let Some((carrier_path, question)) = remote.poll_challenge(carrier, now, jobs) {
                say(carriers, &carrier_path, &question);
            }
        }
        let mut packets = 0;
        // A thread that waits for the lock is let in after a train, and sends the next train itself.
        while packets < PACKETS_PER_PASS && stalled.is_empty() && (packets == 0 || !platform.is_contended()) {
            let Some(flow) = remote.current_flow_mut() else { return };
            let Some(next) = flow.poll_train(now, &mut Sources(messages), train, PACKETS_PER_PASS) else {
                break;
            };
            packets += next.bytes.div_ceil(next.segment);
            match if has_long_path { remote.long_carrier(next.path) } else { None } {
                Some(carrier_path) => send_long(carriers, remote, &carrier_path, &train[..next.bytes], now),
                None => send_train(carriers, remote, &train[..next.bytes], &next, stalled),
            }
            if !next.more {
                break;
            }
        }
        remote.steer();
        if has_long_path {
            self.look_after_long_path(peer, now);
        }
    }

    /// Ends the connection of a peer's long path if it does not deliver what it takes. Packets that it has
    /// taken leave on other paths, and messages that it was to write are asked for anew. A full carrier is
    /// looked at in each pass: it takes more after a look.
    fn look_after_long_path(&mut self, peer: PeerId, now: Instant) {
        let Network { remotes, looks, long_path_choice, .. } = &mut self.network;
        let Some(remote) = remotes.get_mut(peer) else { return };
        remote.measure_long_path(long_path_choice, now);
        if let Some(carrier) = remote.full_long_path() {
            looks.found(carrier, 1);
        }
        if remote.has_long_path_failed() {
            remote.give_up_long_path(now);
            self.give_up_writes(peer, now);
        }
    }

    pub(super) fn collect_events(&mut self, peer: PeerId) {
        loop {
            let Some(remote) = self.network.remotes.get_mut(peer) else { return };
            match remote.poll_event() {
                Some(Event::Acknowledged { region, bytes }) => {
                    self.messages.handle_acknowledged(RegionKey::from_wire(region), bytes);
                }
                Some(Event::PeerFailed { reason }) => self.peer_failed(peer, describe(reason)),
                None => return,
            }
        }
    }
}

/// Sends a challenge or a response. A lost challenge is repeated, and a lost response is asked for again.
fn say(carriers: &mut Carriers, carrier_path: &CarrierPath, sentence: &PathFrame) {
    if let Some(carrier) = carriers.get_mut(carrier_path.carrier) {
        let _ = carrier.send(&carrier_path.to, sentence);
    }
}

/// Sends the packets of a peer's connection, until its carrier has no more room.
fn transmit_connected(
    carriers: &mut Carriers,
    remote: &mut Remote,
    messages: &Messages,
    now: Instant,
    is_contended: impl Fn() -> bool,
) {
    let (rail_carrier, carrier_path) = remote.carrier_path(0);
    let Some(carrier) = carriers.get_mut(carrier_path.carrier) else { return };
    let mut packets = 0;
    while packets < PACKETS_PER_PASS && (packets == 0 || !is_contended()) {
        let Some(connection) = remote.current_connection_mut() else { return };
        let Some(packet) = connection.poll_packet(now, &mut Sources(messages)) else { return };
        let length = packet.len();
        // A packet of a connection stays until the carrier takes it, whatever the carrier says.
        if !matches!(carrier.send(&carrier_path.to, packet), Ok(Outcome::Sent)) {
            return connection.refused(now);
        }
        connection.taken();
        remote.note_sent(rail_carrier, 1, length);
        packets += 1;
    }
}

/// Sends a packet on the long path, and asks its carrier whether it takes another one. A carrier that does
/// not take the packet has lost its connection.
fn send_long(carriers: &mut Carriers, remote: &mut Remote, carrier_path: &CarrierPath, packet: &[u8], now: Instant) {
    let sent = carriers.get_mut(carrier_path.carrier).map(|carrier| carrier.send(&carrier_path.to, packet));
    match sent {
        Some(Ok(Outcome::Sent)) => remote.look_at_long_path(carriers, now),
        _ => remote.give_up_long_path(now),
    }
}

/// Sends a train over its carrier; the part for which the link has no room waits in `stalled`.
fn send_train(
    carriers: &mut Carriers,
    remote: &mut Remote,
    bytes: &[u8],
    train: &Train,
    stalled: &mut VecDeque<Stalled>,
) {
    let (rail_carrier, carrier_path) = remote.carrier_path(train.path);
    let Some(carrier) = carriers.get_mut(carrier_path.carrier) else { return };
    remote.note_sent(rail_carrier, bytes.len().div_ceil(train.segment), bytes.len());
    match take(carrier.as_mut(), &carrier_path.to, bytes, train.segment) {
        Taken::Bytes(taken) if taken < bytes.len() => {
            stalled.push_back(Stalled { carrier_path, bytes: bytes[taken..].to_vec(), segment: train.segment });
        }
        Taken::Bytes(_) => {}
        Taken::Refused => remote.refused(rail_carrier),
    }
}

/// Sends a train; the part for which the link has no room waits in `stalled`. A lost packet is asked for
/// again by its receiver.
pub(super) fn send_or_stall(
    carriers: &mut Carriers,
    stalled: &mut VecDeque<Stalled>,
    carrier_path: CarrierPath,
    bytes: &[u8],
    segment: usize,
) {
    let Some(carrier) = carriers.get_mut(carrier_path.carrier) else { return };
    if let Taken::Bytes(taken) = take(carrier.as_mut(), &carrier_path.to, bytes, segment)
        && taken < bytes.len()
    {
        stalled.push_back(Stalled { carrier_path, bytes: bytes[taken..].to_vec(), segment });
    }
}

/// Sends the trains that found no room before; returns `false` when there is none yet.
pub(super) fn send_stalled(carriers: &mut Carriers, stalled: &mut VecDeque<Stalled>) -> bool {
    while let Some(first) = stalled.front_mut() {
        let Some(carrier) = carriers.get_mut(first.carrier_path.carrier) else { return true };
        match take(carrier.as_mut(), &first.carrier_path.to, &first.bytes, first.segment) {
            Taken::Bytes(taken) if taken < first.bytes.len() => {
                first.bytes.drain(..taken);
                return false;
            }
            _ => stalled.pop_front(),
        };
    }
    true
}

/// The outcome of sending a train.
enum Taken {
    /// The link has taken this many bytes; the rest has no room yet.
    Bytes(usize),
    /// The machine refuses packets of this carrier. That counts as loss: the flow repairs it or reports the
    /// peer.
    Refused,
}

fn take(carrier: &mut dyn Carrier, to: &Address, train: &[u8], segment: usize) -> Taken {
    if train.len() > segment {
        return carrier.send_train(to, train, segment).map_or(Taken::Refused, Taken::Bytes);
    }
    match carrier.send(to, train) {
        Ok(Outcome::WouldBlock) => Taken::Bytes(0),
        Ok(Outcome::Sent | Outcome::TooLarge) => Taken::Bytes(train.len()),
        Ok(Outcome::Dropped) | Err(_) => Taken::Refused,
    }
}

/// The text for [`Failure::Blocked`] names this number.
const _: () = assert!(PACKET_SIZE_MIN == 256);

fn describe(reason: Failure) -> &'static str {
    match reason {
        Failure::Silent => {
            "it has not answered for longer than WEFT_PEER_TIMEOUT: its host or the network may be down, or it was stopped"
        }
        Failure::Blocked => {
            "it answers, but a packet does not get through however often it is sent, not even in pieces: packets of 256 bytes, the smallest \
             that Weft sends, need an MTU of at least 284 (304 with IPv6) everywhere on the way"
        }
        Failure::Lost => "a packet of it was lost by a carrier that should lose none: its connection broke",
    }
}
