//! Multicast groups: what one process sends to all hosts of a communicator at once (`weft_core::multicast`).
//!
//! A message that is multicast is made of the same frames as one that is sent eagerly to each receiver, within the credit of each, and at the receivers
//! it goes through the same matching. So a schedule receives it as any other message, and what nobody has asked for yet is kept like any
//! other. Acknowledgements and repairs go to processes' own addresses, as packets of their own beside the flows.

mod singly;
mod written;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use weft_core::message::Head;
use weft_core::multicast::{
    Counters, Destination, MESSAGE_BYTES_MAX, Receiver, Scheme, Sender, Settings, StreamId, WINDOW_MAX,
    wire::{self, Body, Packet},
};
use weft_core::rails::Role;
use weft_core::time::{Duration, Instant};
use weft_core::wire::{Key, Secret};

use super::link::Link;
use crate::carriers::{CarrierId, Carriers, Coalescing, Hop};
use crate::group::{Group as Processes, PeerId};
use crate::memory::UserData;
use crate::messages::{CREDIT_BYTES, CREDIT_PER_MESSAGE, Stream};
use crate::request::{Request, Send, State};
use crate::transport::{AddressKind, Carrier, MulticastAttributes, Platform};
use singly::Singly;
use written::Written;

/// Most packets of one train.
const TRAIN_PACKETS_MAX: usize = 64;
/// Packets that leave by the carrier for small messages, a system call for each, where one for bulk data takes them with one: the
/// receivers need none for them.
const SHORT_TRAIN_PACKETS: usize = 4;
/// Packets that one pass sends for one group.
const PACKETS_PER_PASS: usize = 256;

// A receiver that has consumed all it was sent has given back so much credit at least.
const _: () = assert!(MESSAGE_BYTES_MAX + CREDIT_PER_MESSAGE <= CREDIT_BYTES / 2);

/// What makes a group.
pub struct NewGroup {
    /// Context of the messages that are multicast.
    pub context: u32,
    /// A number that no other group with this context has had.
    pub generation: u32,
    /// The processes, by rank.
    pub processes: Arc<Processes>,
    /// The member that each rank belongs to: its host.
    pub members: Vec<u32>,
    /// By which paths packets are to go to the group.
    pub paths: Paths<bool>,
    /// Bytes of the longest packet, and packets of the window: the same at all processes.
    pub packet_size: usize,
    /// Packets that may wait for acknowledgements, at most [`WINDOW_MAX`].
    pub window: u32,
    /// Who acknowledges to whom.
    pub scheme: Scheme,
    /// After so much silence a member that is asked has failed; zero: never.
    pub peer_timeout: Duration,
}

/// Something for each of the paths by which packets may go to a group. A path is named by the kind of its addresses, so that all
/// processes mean the same by it, whatever carriers each of them has. On each the best carrier with multicast is used: for trains one
/// for bulk data; for few packets one for small messages, whose arrival costs no system call. Where there is only one, it takes all.
pub type Paths<T> = [T; AddressKind::ALL.len()];

/// What a process can do on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    carrier: CarrierId,
    /// Bytes of the longest packet.
    pub packet_size: usize,
    /// What it is best for.
    pub role: Role,
}

/// How a group stands.
pub struct Standing {
    /// Context of the messages that are multicast.
    pub context: u32,
    /// Hosts.
    pub members: u32,
    /// Who acknowledges to whom.
    pub scheme: Scheme,
    /// The network loses most of what this process multicasts: it sends to each by itself.
    pub goes_straight: bool,
    /// What has happened.
    pub counters: Counters,
}

/// How the groups of a context have done for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reviewed {
    /// The network has lost too much of what this process has multicast, or keeps for others.
    pub beyond_use: bool,
    /// This process has multicast something.
    pub used: bool,
}

/// A message that is to be multicast, from `offset` on.
struct Queued {
    request: usize,
    offset: u64,
}

/// A group that this process belongs to.
struct Group {
    context: u32,
    /// Number of the first process, and of the group among those of this context and first process.
    first: u32,
    generation: u32,
    processes: Arc<Processes>,
    /// Of each rank.
    members: Vec<u32>,
    /// Rank of the process that receives for each member.
    receiving: Vec<u32>,
    /// This process's member, and its rank.
    own: u32,
    rank: u32,
    paths: Paths<Option<(Role, Hop)>>,
    /// Nothing leaves by the carrier for small messages before all have the packets below this one, which went by the other: it would overtake them.
    in_bulk_until: u64,
    settings: Settings,
    /// Makes and verifies packets that are of no stream.
    key: Key,
    sender: Option<Box<Sender>>,
    /// Where its receivers write.
    slots: Option<written::Slots>,
    /// A member has failed: it may be late with what it writes.
    has_lost: bool,
    /// By the rank of the root, with the number of the stream.
    receivers: Vec<(u32, Stream, Box<Receiver>)>,
    queue: VecDeque<Queued>,
    /// Requests that end when all have acknowledged packets up to this.
    unacknowledged: VecDeque<(usize, u64)>,
    /// By which paths a test has arrived.
    tests: Paths<bool>,
    /// Small messages that share packets.
    coalescing: Coalescing,
    /// The network loses most of what this process multicasts: it sends to each by itself, from when all have what was multicast on.
    goes_straight: bool,
    /// Messages that do so, with the request of each of their sends.
    straight: Vec<(usize, Vec<usize>)>,
    /// Packets that this process had multicast when that was last asked.
    reviewed: u64,
}

/// What a packet of a stream was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Of none that this process receives.
    Nothing,
    /// One of a stream, which has dealt with it.
    Packet,
    /// A test: somebody waits for it.
    Test,
}

/// The multicast groups that this process belongs to.
#[derive(Default)]
pub struct Groups {
    groups: Vec<Group>,
    streams: Stream,
    packet: Vec<u8>,
    train: Vec<u8>,
    /// What waits for the carriers to single peers.
    singly: Singly,
    /// What is written to memory of roots, and by receivers to ours.
    written: Written,
    /// What happened in groups that are no more.
    past: Counters,
    /// Groups that are used no more because the network carried them no more.
    given_up: u64,
    /// Messages that went to each by itself.
    straight: u64,
}

impl Group {
    /// Who has to have a packet for `to`, in the stream of rank `root`.
    fn process(&self, to: u32, root: u32) -> Option<PeerId> {
        let is_root = self.members.get(root as usize) == Some(&to);
        let rank = if is_root { root } else { *self.receiving.get(to as usize)? };
        self.processes.members.get(rank as usize).copied()
    }

    /// Those that receive what this process multicasts.
    fn receivers(&self) -> impl Iterator<Item = PeerId> + '_ {
        let others = (0..).zip(&self.receiving).filter(|(member, _)| *member != self.own);
        others.map(|(_, rank)| self.processes.members[*rank as usize])
    }

    /// Where packets for which a role is best leave; none where no path has that role.
    fn hop(&self, role: Role) -> Option<Hop> {
        self.paths.iter().flatten().find(|(of, _)| *of == role).map(|(_, hop)| *hop)
    }

    fn stream(&self, root: u32) -> StreamId {
        StreamId { context: self.context, first: self.first, generation: self.generation, root }
    }

    /// Whether all have what this process has multicast.
    fn has_sent_all(&self) -> bool {
        self.queue.is_empty()
            && self.unacknowledged.is_empty()
            && self.straight.is_empty()
            && self.sender.as_ref().is_none_or(|sender| sender.is_idle())
    }

    fn is_idle(&self) -> bool {
        self.has_sent_all() && self.receivers.iter().all(|(.., receiver)| receiver.is_idle())
    }

    fn counters(&self) -> Counters {
        let mut all = Counters::default();
        let senders = self.sender.iter().map(|sender| sender.counters());
        senders.chain(self.receivers.iter().map(|(.., receiver)| receiver.counters())).for_each(|one| all.add(one));
        all
    }

    /// What receivers have written counts as what they have sent.
    fn look_at_slots(&mut self, now: Instant) {
        if let (Some(slots), Some(sender)) = (&self.slots, &mut self.sender)
            && !sender.is_idle()
        {
            slots.look(now, sender, self.settings.members);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        let sender = self.sender.as_ref().and_then(|sender| sender.next_timeout());
        self.receivers.iter().filter_map(|(.., receiver)| receiver.next_timeout()).chain(sender).min()
    }
}

impl Groups {
    /// Whether everything that this process has multicast is where it should be.
    pub fn have_sent_all(&self) -> bool {
        self.groups.iter().all(Group::has_sent_all)
    }

    /// Whether nothing is owed to the groups of a context, nor by them.
    pub fn are_quiet(&self, context: u32) -> bool {
        self.groups.iter().all(|group| group.context != context || group.is_idle())
    }

    /// How the groups of a context have done since this was asked last.
    pub fn review(&mut self, context: u32) -> Reviewed {
        let mut reviewed = Reviewed { beyond_use: false, used: false };
        for group in self.groups.iter_mut().filter(|group| group.context == context) {
            reviewed.beyond_use |= group.goes_straight | group.sender.as_mut().is_some_and(|sender| sender.review());
            reviewed.beyond_use |=
                group.receivers.iter_mut().fold(false, |any, (.., receiver)| any | receiver.review());
            let packets = group.sender.as_ref().map_or(0, |sender| sender.counters().packets);
            reviewed.used |= std::mem::replace(&mut group.reviewed, packets) != packets;
        }
        reviewed
    }

    /// By which paths a test has arrived.
    pub fn tests_heard(&self, context: u32) -> Paths<bool> {
        let of_context = || self.groups.iter().filter(|group| group.context == context);
        std::array::from_fn(|path| of_context().any(|group| group.tests[path]))
    }

    /// How each group stands.
    pub fn standings(&self) -> impl Iterator<Item = Standing> + '_ {
        self.groups.iter().map(|group| Standing {
            context: group.context,
            members: group.settings.members,
            scheme: group.settings.scheme,
            goes_straight: group.goes_straight,
            counters: group.counters(),
        })
    }

    /// What has happened in all groups.
    pub fn counters(&self) -> Counters {
        let mut all = self.past;
        self.groups.iter().for_each(|group| all.add(&group.counters()));
        all
    }

    /// A group is used for nothing new because the network carries it no more.
    pub fn count_given_up(&mut self) {
        self.given_up += 1;
    }

    /// Packets of all groups, by what they are: those that this process has sent, and those that it could not use; and groups that were given up.
    pub fn packets(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = self.counters();
        [
            ("data", all.packets),
            ("sent-again-to-all", all.repairs_by_multicast),
            ("sent-again-to-one", all.repairs_by_unicast),
            ("probes", all.probes),
            ("acknowledgements", all.acknowledgements),
            ("written-acknowledgements", all.written),
            ("asking", all.negative),
            ("duplicate", all.duplicates),
            ("rejected", all.rejected),
            ("messages-sent-to-each", self.straight),
            ("groups-given-up", self.given_up),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.singly.is_empty()
    }

    fn find(&mut self, stream: &StreamId) -> Option<&mut Group> {
        let is_it = |group: &&mut Group| group.stream(stream.root) == *stream;
        self.groups.iter_mut().find(is_it)
    }

    /// Whether nothing is owed to anybody.
    pub(super) fn are_idle(&self) -> bool {
        self.singly.is_empty() && self.groups.iter().all(Group::is_idle)
    }

    /// When something is due although nothing arrives.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.groups
            .iter()
            .filter_map(Group::next_timeout)
            .chain(self.singly.next_timeout())
            .chain(self.written.next_timeout())
            .min()
    }

    /// The carrier has written something to memory of a root.
    pub(super) fn note_written(&mut self, number: u32) {
        self.written.ended(number);
    }

    /// Whether something is to be sent, or waited for.
    pub(super) fn are_active(&self) -> bool {
        !self.singly.is_empty() || self.groups.iter().any(|group| !group.is_idle())
    }

    /// A packet that claims to be of `stream` has arrived. `deliver` gets the frames that it brings: from whom, and
    /// on which stream.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        stream: &StreamId,
        bytes: &[u8],
        secret: &Secret,
        deliver: &mut dyn FnMut(PeerId, Stream, &[u8]),
    ) -> Heard {
        let streams = self.streams;
        let Some(group) = self.find(stream) else { return Heard::Nothing };
        let (Some(&root_member), Some(&root)) =
            (group.members.get(stream.root as usize), group.processes.members.get(stream.root as usize))
        else {
            return Heard::Nothing;
        };
        if stream.root == group.rank {
            let Some(sender) = &mut group.sender else { return Heard::Nothing };
            sender.handle(now, bytes);
            return Heard::Packet;
        }
        if root_member == group.own {
            // It has it from the root; some carriers bring it all the same.
            return Heard::Packet;
        }
        if group.receiving[group.own as usize] != group.rank {
            return Heard::Nothing;
        }
        if wire::is_test(bytes) {
            let Ok(Packet { number, .. }) = Packet::open(&group.key, 0, bytes) else { return Heard::Nothing };
            group.tests[number as usize % AddressKind::ALL.len()] = true;
            return Heard::Test;
        }
        let known = group.receivers.iter().position(|(known, ..)| *known == stream.root);
        let at = known.unwrap_or_else(|| {
            let receiver = Receiver::new(group.settings, *stream, root_member, group.own, secret);
            group.receivers.push((stream.root, streams + 1, Box::new(receiver)));
            group.receivers.len() - 1
        });
        let (_, number, receiver) = &mut group.receivers[at];
        let number = *number;
        receiver.handle(now, bytes, &mut |frame| deliver(root, number, frame));
        if known.is_none() {
            self.streams += 1;
        }
        Heard::Packet
    }
}

/// Multicast groups, and the link to the rest of the engine.
pub struct Multicasts<'a, P: Platform> {
    groups: &'a mut Groups,
    link: Link<'a, P>,
}

impl<'a, P: Platform> Multicasts<'a, P> {
    pub(super) fn new(groups: &'a mut Groups, link: Link<'a, P>) -> Self {
        Self { groups, link }
    }
}

impl<P: Platform> Multicasts<'_, P> {
    /// What this process can multicast on each path.
    pub fn multicast_paths(&mut self) -> Paths<Option<Path>> {
        let carriers = self.link.carriers();
        let mut paths: Paths<Option<Path>> = Paths::default();
        for carrier in carriers.ids() {
            let Some(kind) = carriers.multicast(carrier).map(|groups| groups.address(0, 0).kind()) else { continue };
            let attributes = carriers.attributes(carrier);
            let Some(MulticastAttributes { packet_size, .. }) = attributes.multicast else { continue };
            paths[kind as usize].get_or_insert(Path { carrier, packet_size, role: attributes.role() });
        }
        paths
    }

    /// Packets of a stream that may be under way without one being lost because this process does not look, at most [`WINDOW_MAX`].
    pub fn multicast_window(&mut self) -> u32 {
        let paths = self.multicast_paths();
        let carriers = self.link.carriers();
        let attributes = |path: &Path| carriers.attributes(path.carrier).multicast;
        let least = paths.iter().flatten().filter_map(attributes).filter_map(|attributes| attributes.receives).min();
        least.map_or(WINDOW_MAX, |least| (least.min(WINDOW_MAX as usize) as u32).max(1))
    }

    /// Whether acknowledgements to this process can be written, and those to others.
    pub fn multicast_writes(&mut self) -> bool {
        let carriers = self.link.carriers();
        let Some(id) = carriers.of_role(Role::BulkData).filter(|id| carriers.multicast(*id).is_some()) else {
            return false;
        };
        carriers.attributes(id).remote_memory.is_some_and(|placement| placement.writes)
    }

    /// Joins a group: what its members multicast arrives from now on. By which of the paths that are asked for: where the machine refuses, or
    /// there is no carrier with multicast, not.
    ///
    /// # Errors
    /// The process is not one of them, the members are not numbered as they come, or they are of several
    /// jobs.
    pub fn join_group(&mut self, new: NewGroup) -> io::Result<Paths<bool>> {
        let NewGroup { context, generation, processes, members, paths, packet_size, window, scheme, peer_timeout } =
            new;
        let rank = processes.rank.filter(|rank| (*rank as usize) < members.len());
        let Some(rank) = rank else { return Err(io::ErrorKind::InvalidInput.into()) };
        if processes.members.iter().any(|member| !self.link.is_of_own_job(*member)) {
            // What is multicast is tagged by the secret of one job.
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut receiving = Vec::new();
        for (rank, member) in (0..).zip(&members) {
            if *member as usize == receiving.len() {
                receiving.push(rank);
            } else if *member as usize > receiving.len() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
        let first = self.link.number(processes.members[0]).unwrap_or(0);
        let secret = self.link.own_secret();
        let key = StreamId { context, first, generation, root: u32::MAX }.key(secret);
        let [job, name] = names(secret, context, first, generation);
        let receives = receiving[members[rank as usize] as usize] == rank;
        let known = self.multicast_paths();
        let carriers = self.link.carriers();
        let paths: Paths<_> = std::array::from_fn(|path| {
            let Path { carrier, role, .. } = known[path].filter(|_| paths[path])?;
            let groups = carriers.multicast(carrier)?;
            let to = groups.address(job, name);
            groups.join(&to, receives).ok()?;
            Some((role, Hop { carrier, to }))
        });
        let window = window.clamp(1, WINDOW_MAX);
        let settings = Settings { members: receiving.len() as u32, packet_size, window, scheme, peer_timeout };
        self.groups.groups.push(Group {
            context,
            first,
            generation,
            own: members[rank as usize],
            rank,
            processes,
            members,
            receiving,
            paths,
            in_bulk_until: 0,
            settings,
            key,
            sender: None,
            slots: None,
            has_lost: false,
            receivers: Vec::new(),
            queue: VecDeque::new(),
            unacknowledged: VecDeque::new(),
            tests: Paths::default(),
            coalescing: Coalescing::default(),
            goes_straight: false,
            straight: Vec::new(),
            reviewed: 0,
        });
        Ok(paths.map(|path| path.is_some()))
    }

    /// The other paths of the groups of a context are not used: they do not reach all.
    pub fn settle_group(&mut self, context: u32, paths: Paths<bool>) {
        let Self { groups, link } = self;
        let carriers = link.carriers();
        for group in groups.groups.iter_mut().filter(|group| group.context == context) {
            for (path, _) in group.paths.iter_mut().zip(paths).filter(|(_, stays)| !stays) {
                if let Some((_, Hop { carrier, to })) = path.take()
                    && let Some(groups) = carriers.multicast(carrier)
                {
                    groups.leave(&to);
                }
            }
        }
    }

    /// Leaves the groups of a context: what is still owed to them is forgotten.
    pub fn leave_groups(&mut self, context: u32) {
        let Self { groups: Groups { groups, past, written, .. }, link } = self;
        groups.retain_mut(|group| {
            if group.context != context {
                return true;
            }
            past.add(&group.counters());
            if let Some(slots) = group.slots.take().filter(|_| !group.has_lost) {
                written.close(slots);
            }
            for (root, stream, _) in &group.receivers {
                let peer = group.processes.members[*root as usize];
                link.end_stream(peer, *stream);
            }
            for (_, Hop { carrier, to }) in group.paths.iter().flatten() {
                if let Some(groups) = link.carriers().multicast(*carrier) {
                    groups.leave(to);
                }
            }
            false
        });
    }

    /// Multicasts packets of full length that say nothing, to find out whether they arrive: one by each path that is asked for.
    pub fn test_group(&mut self, context: u32, attempt: u32, paths: Paths<bool>) {
        let Self { groups, link } = self;
        let Some(group) = groups.groups.iter_mut().find(|group| group.context == context) else { return };
        let stream = group.stream(group.rank);
        for (path, hop) in group.paths.iter().enumerate().filter(|(path, _)| paths[*path]) {
            let Some((_, Hop { carrier, to })) = *hop else { continue };
            let number = u64::from(attempt) * AddressKind::ALL.len() as u64 + path as u64;
            let packet = Packet { from: group.own, request: false, number, body: Body::Test };
            packet.emit(&stream, &mut groups.packet);
            groups.packet.resize(group.settings.packet_size, 0);
            wire::seal(&group.key, number, &mut groups.packet);
            if let Some(carrier) = link.carriers().get_mut(carrier) {
                // One that is lost, for whatever reason, is what the test is for.
                let _ = carrier.send(&to, &groups.packet);
            }
        }
    }

    /// Multicasts the message of the request `handle` (state `Multicasting`) to the other members of its context's group.
    pub fn start_multicast(&mut self, handle: usize) {
        let Self { groups, link } = self;
        let Some(context) = link.multicasting(handle).map(|send| send.envelope.context) else { return };
        let Some(group) = groups.groups.iter_mut().find(|group| group.context == context) else {
            return link.fail(
                handle,
                crate::error::Error::new(crate::error::ErrorClass::Other, "there is no multicast group"),
            );
        };
        if group.sender.is_none() {
            let mut sender = Sender::new(group.settings, group.stream(group.rank), group.own, link.own_secret());
            if group.settings.scheme.written {
                let carriers = link.carriers();
                let carrier = carriers.of_role(Role::BulkData);
                group.slots =
                    carrier.and_then(|carrier| groups.written.open(group.settings.members, carrier, carriers));
            }
            if let Some(slots) = &group.slots {
                sender.open_slots(slots.target());
            }
            group.sender = Some(Box::new(sender));
        }
        group.queue.push_back(Queued { request: handle, offset: 0 });
        self.push_multicasts();
        let now = self.link.now();
        if self.link.is_attended() && self.coalesces(context, now) {
            self.link.note_coalescing();
            return;
        }
        self.transmit_groups(now);
    }

    /// Whether what has just been put into the window of a group waits for more that shares its packet, as with messages to one peer.
    fn coalesces(&mut self, context: u32, now: Instant) -> bool {
        let Some(group) = self.groups.groups.iter_mut().find(|group| group.context == context) else { return false };
        let may_wait = !group.settings.scheme.blocking
            && group.queue.is_empty()
            && group.sender.as_ref().is_some_and(|sender| sender.may_coalesce());
        if may_wait && group.coalescing.joins(|| now) {
            return true;
        }
        group.coalescing.end(false);
        false
    }

    /// Hands what waits to be multicast to the windows, as far as there is room, and completes what all have.
    pub(super) fn push_multicasts(&mut self) {
        let Self { groups, link } = self;
        let mut straight = Vec::new();
        for (at, group) in groups.groups.iter_mut().enumerate() {
            group.goes_straight |= group.sender.as_mut().is_some_and(|sender| sender.is_beyond_use());
            while let Some(next) = group.queue.front_mut() {
                let (request, offset) = (next.request, next.offset);
                if group.goes_straight && offset == 0 {
                    // What was multicast comes by another way: it must not be overtaken.
                    if group.sender.as_ref().is_some_and(|sender| !sender.is_idle()) {
                        break;
                    }
                    group.queue.pop_front();
                    straight.push((at, request));
                    continue;
                }
                match push(group, request, offset, link) {
                    Pushed::Until(offset) => {
                        if let Some(next) = group.queue.front_mut() {
                            next.offset = offset;
                        }
                        break;
                    }
                    Pushed::Whole(number) => {
                        group.queue.pop_front();
                        if group.settings.scheme.blocking {
                            group.unacknowledged.push_back((request, number));
                        } else {
                            link.complete(request);
                        }
                    }
                    Pushed::Gone => {
                        group.queue.pop_front();
                    }
                }
            }
            let acknowledged = group.sender.as_ref().map_or(0, |sender| sender.acknowledged());
            while let Some((request, _)) =
                group.unacknowledged.front().copied().filter(|(_, number)| *number < acknowledged)
            {
                group.unacknowledged.pop_front();
                link.complete(request);
            }
        }
        straight.into_iter().for_each(|(at, request)| self.send_to_each(at, request));
        self.complete_straight();
    }

    /// Sends the message of `request` to each that would receive what the group multicasts.
    fn send_to_each(&mut self, at: usize, request: usize) {
        let Some(entry) = self.link.request(request) else { return };
        let State::Multicasting(send) = &entry.state else { return };
        let (send, communicator) = (send.clone(), entry.communicator);
        self.groups.straight += 1;
        let receivers: Vec<PeerId> = self.groups.groups[at].receivers().collect();
        let mut sends = Vec::with_capacity(receivers.len());
        for peer in receivers {
            match self.link.add(State::Queued(Send { peer: Some(peer), ..send.clone() }), communicator) {
                Ok(handle) => {
                    self.link.start_send(handle);
                    sends.push(handle);
                }
                Err(error) => {
                    self.link.fail(request, error);
                    break;
                }
            }
        }
        self.groups.groups[at].straight.push((request, sends));
    }

    /// Completes messages that every receiver has been sent, and forgets those that nobody waits for any more.
    fn complete_straight(&mut self) {
        for at in 0..self.groups.groups.len() {
            let mut index = 0;
            while let Some((request, sends)) = self.groups.groups[at].straight.get(index) {
                let is_complete = |handle: &usize| self.link.request(*handle).is_none_or(Request::is_complete);
                let is_wanted = !is_complete(request);
                if is_wanted && !sends.iter().all(is_complete) {
                    index += 1;
                    continue;
                }
                let (request, sends) = self.groups.groups[at].straight.swap_remove(index);
                if !is_wanted {
                    sends.into_iter().for_each(|handle| self.link.give_up(handle));
                    continue;
                }
                let errors = sends.into_iter().filter_map(|handle| self.link.take_error(handle));
                match errors.last() {
                    Some(error) => self.link.fail(request, error),
                    None => self.link.complete(request),
                }
            }
        }
    }

    /// Sends what the streams of all groups have for others.
    pub(super) fn transmit_groups(&mut self, now: Instant) {
        let mut silent = None;
        let Self { groups: Groups { groups, packet, train, singly, written, .. }, link } = self;
        written.begin();
        for group in groups {
            let mut sent = 0;
            let sender = group.sender.take();
            if let Some(mut sender) = sender {
                train.clear();
                let mut segment = 0;
                while link.has_room() && sent < PACKETS_PER_PASS {
                    let Some(to) = sender.poll(now, packet) else { break };
                    sent += 1;
                    // Packets of one length, and a shorter one behind them, leave together.
                    let joins = to == Destination::Group
                        && train.len() < TRAIN_PACKETS_MAX * segment
                        && packet.len() <= segment;
                    if !joins {
                        flush(group, &sender, link, train, segment);
                        segment = packet.len();
                    }
                    match to {
                        Destination::Group => train.extend_from_slice(packet),
                        Destination::Member(member) => {
                            send_to(now, group, (group.rank, member), packet, singly, link);
                        }
                    }
                    if packet.len() < segment {
                        flush(group, &sender, link, train, segment);
                    }
                }
                flush(group, &sender, link, train, segment);
                silent = silent.or_else(|| group.process(sender.silent(now)?, group.rank));
                group.sender = Some(sender);
            }
            let mut receivers = std::mem::take(&mut group.receivers);
            for (root, _, receiver) in &mut receivers {
                while link.has_room() && sent < PACKETS_PER_PASS {
                    let Some(to) = receiver.poll(now, packet) else { break };
                    sent += 1;
                    match to {
                        Destination::Group => {
                            let hop = group.hop(Role::SmallMessages).or(group.hop(Role::BulkData));
                            send_packet(hop, packet, link.carriers());
                        }
                        Destination::Member(member) => {
                            send_to(now, group, (*root, member), packet, singly, link);
                        }
                    }
                }
                let peer = group.processes.members[*root as usize];
                if let Some((remote, carriers)) = link.remote_and_carriers(peer) {
                    written.write(now, group.stream(*root), receiver, remote, carriers);
                }
                silent = silent.or_else(|| group.process(receiver.silent(now)?, *root));
            }
            group.receivers = receivers;
        }
        if let Some(peer) = silent {
            self.link.peer_failed(
                peer,
                "it has not acknowledged what was multicast for longer than WEFT_PEER_TIMEOUT: its host or the network may be down, or \
                 it was stopped",
            );
        }
    }

    /// Puts into the windows of all groups what has room there, and sends what they have for others.
    #[inline]
    pub(super) fn progress(&mut self, now: Instant) {
        if self.groups.is_empty() {
            return;
        }
        self.link.send_stalled();
        self.groups.singly.send_waiting(now, self.link.carriers());
        self.groups.groups.iter_mut().for_each(|group| group.look_at_slots(now));
        self.push_multicasts();
        self.groups.groups.iter_mut().for_each(|group| group.coalescing.end(true));
        self.transmit_groups(now);
    }

    /// `peer` is gone: what is multicast to it fails, and nobody waits for its acknowledgements.
    pub(super) fn leave_peer(&mut self, peer: PeerId) {
        let Self { groups: Groups { groups, written, .. }, link } = self;
        for group in groups {
            let Some(rank) = group.processes.members.iter().position(|process| *process == peer) else { continue };
            let (rank, member) = (rank as u32, group.members[rank]);
            group.has_lost = true;
            let stream = group.stream(rank);
            written.forget(|other| *other == stream);
            if group.receiving[member as usize] != rank {
                continue;
            }
            if let Some(sender) = &mut group.sender {
                sender.forget(member);
            }
            group.receivers.iter_mut().for_each(|(.., receiver)| receiver.forget(member));
            let waiting = group.queue.drain(..).map(|queued| queued.request);
            for request in waiting.chain(group.unacknowledged.drain(..).map(|(request, _)| request)) {
                link.fail(request, link.failure(peer));
            }
        }
    }
}

/// How far a message has been put into the window.
enum Pushed {
    /// All of it; the last packet.
    Whole(u64),
    /// Up to here: there is no more room.
    Until(u64),
    /// Nobody wants it any more.
    Gone,
}

fn push<P: Platform>(group: &mut Group, request: usize, mut offset: u64, link: &mut Link<'_, P>) -> Pushed {
    let Some(total) = link.multicasting(request).map(|send| send.data.len()) else { return Pushed::Gone };
    if offset == 0 && !charge(group, total, link) {
        return Pushed::Until(0);
    }
    let pushed = match (&mut group.sender, link.multicasting(request)) {
        (Some(sender), Some(send)) => push_pieces(sender, send, &mut offset),
        _ => Pushed::Gone,
    };
    if let Pushed::Until(0) = pushed {
        refund(group, total, link);
    }
    pushed
}

/// Puts into the window what has room there of a message, from `offset` on.
fn push_pieces(sender: &mut Sender, send: &Send, offset: &mut u64) -> Pushed {
    let Send { envelope, data, .. } = send;
    let total = data.len();
    let mut number = sender.acknowledged();
    let whole = Head::eager(*envelope, None);
    if whole.as_bytes().len() as u64 + total <= sender.frame_max() as u64 {
        return match submit(sender, &whole, data, 0, total) {
            Some(number) => {
                sender.end_broadcast();
                Pushed::Whole(number)
            }
            None => Pushed::Until(0),
        };
    }
    while *offset < total {
        let Some(room) = sender.room() else { break };
        let head = if *offset == 0 { Head::eager_first(*envelope, None, total) } else { Head::eager_more() };
        let head_size = head.as_bytes().len();
        // What is left of a packet that others have begun may be too little for a piece: then it begins the next.
        let room = if room <= head_size { sender.frame_max() } else { room };
        let length = (room.saturating_sub(head_size) as u64).min(total - *offset);
        let Some(newest) = submit(sender, &head, data, *offset, length) else { break };
        number = newest;
        *offset += length;
    }
    if *offset < total {
        return Pushed::Until(*offset);
    }
    sender.end_broadcast();
    Pushed::Whole(number)
}

fn submit(sender: &mut Sender, head: &Head, data: &UserData, offset: u64, length: u64) -> Option<u64> {
    let head = head.as_bytes();
    sender.submit(head.len() + length as usize, |out| {
        out[..head.len()].copy_from_slice(head);
        if length > 0 {
            data.read(offset, &mut out[head.len()..]);
        }
    })
}

/// Takes the price of a message of `total` bytes from the credit of each receiver, if all have it.
fn charge<P: Platform>(group: &Group, total: u64, link: &mut Link<'_, P>) -> bool {
    let has_credit = group.receivers().all(|peer| link.has_credit(peer, total));
    if has_credit {
        group.receivers().for_each(|peer| link.take_credit(peer, total));
    }
    has_credit
}

/// Gives it back.
fn refund<P: Platform>(group: &Group, total: u64, link: &mut Link<'_, P>) {
    group.receivers().for_each(|peer| link.give_credit_back(peer, total));
}

/// Sends a train to the group: a short one by the carrier for small messages, unless it would overtake what others may still lack.
fn flush<P: Platform>(group: &mut Group, sender: &Sender, link: &mut Link<'_, P>, train: &mut Vec<u8>, segment: usize) {
    if train.is_empty() {
        return;
    }
    let is_short = train.len() <= SHORT_TRAIN_PACKETS * segment && sender.acknowledged() >= group.in_bulk_until;
    let hop = match (group.hop(Role::SmallMessages), group.hop(Role::BulkData)) {
        (Some(hop), bulk) if is_short || bulk.is_none() => Some(hop),
        (_, bulk) => {
            group.in_bulk_until = sender.sent();
            bulk
        }
    };
    if let Some(hop) = hop {
        link.send_train(hop, train, segment);
    }
    train.clear();
}

/// Sends one packet of the stream of rank `root` to a member, by the way that messages to it take. One that is lost is sent again.
fn send_to<P: Platform>(
    now: Instant,
    group: &Group,
    (root, member): (u32, u32),
    packet: &[u8],
    singly: &mut Singly,
    link: &mut Link<'_, P>,
) {
    let Some(peer) = group.process(member, root) else { return };
    let Some((remote, carriers)) = link.remote_and_carriers(peer) else { return };
    let (_, best) = remote.hop(0);
    if remote.is_ordered() {
        return singly.send(now, best, packet, carriers);
    }
    let carries = packet.len() <= carriers.attributes(best.carrier).packet_size;
    send_packet(if carries { Some(best) } else { remote.hop_of(Role::BulkData) }, packet, carriers);
}

fn send_packet(hop: Option<Hop>, packet: &[u8], carriers: &mut Carriers) {
    if let Some(hop) = hop
        && let Some(carrier) = carriers.get_mut(hop.carrier)
    {
        let _ = carrier.send(&hop.to, packet);
    }
}

/// Numbers that name the job and the group to a carrier, and tell nobody the secret.
fn names(secret: &Secret, context: u32, first: u32, generation: u32) -> [u64; 2] {
    [StreamId { context: 0, first: 0, generation: 0, root: 0 }, StreamId { context, first, generation, root: 0 }]
        .map(|stream| weft_core::multicast::public_name(&stream, secret))
}
