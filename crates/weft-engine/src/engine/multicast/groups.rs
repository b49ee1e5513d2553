//! The groups that this process belongs to: their state, their arriving packets, and what this process owes
//! to others.

use std::collections::VecDeque;
use std::sync::Arc;

use weft_core::multicast::{
    Counters, Receiver, Scheme, Sender, Settings, StreamId,
    wire::{self, Packet},
};
use weft_core::rails::Role;
use weft_core::time::Instant;
use weft_core::wire::{Key, Secret};

use super::Paths;
use super::singly::Singly;
use super::written::{self, Written};
use crate::carriers::{CarrierPath, Coalescing};
use crate::group::{Group as Processes, PeerId};
use crate::messages::Stream;
use crate::transport::AddressKind;

/// The state of a group, for people.
pub struct Standing {
    /// The context of the multicast messages.
    pub context: u32,
    /// The number of hosts.
    pub members: u32,
    /// The scheme of acknowledgements.
    pub scheme: Scheme,
    /// Set if the network loses most of this process's multicasts: it sends to each member by itself.
    pub goes_straight: bool,
    /// The counters of the group.
    pub counters: Counters,
}

/// The performance of the groups of a context for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reviewed {
    /// Set if the network has lost too much of what this process has multicast, or keeps for others.
    pub beyond_use: bool,
    /// Set if this process has multicast something.
    pub used: bool,
}

/// A message that is to be multicast, from `offset` on.
pub(super) struct Queued {
    pub(super) request: usize,
    pub(super) offset: u64,
}

/// A group that this process belongs to.
pub(super) struct Group {
    pub(super) context: u32,
    /// The number of the first process, and that of the group among those of this context and first process.
    pub(super) first: u32,
    pub(super) generation: u32,
    pub(super) processes: Arc<Processes>,
    /// The member of each rank.
    pub(super) members: Vec<u32>,
    /// The rank of the process that receives for each member.
    pub(super) receiving: Vec<u32>,
    /// The member and the rank of this process.
    pub(super) own: u32,
    pub(super) rank: u32,
    pub(super) paths: Paths<Option<(Role, CarrierPath)>>,
    /// The packet below which all members must have the stream before anything leaves by the carrier for
    /// small messages. Those packets went by the other carrier, and a later one would overtake them.
    pub(super) in_bulk_until: u64,
    pub(super) settings: Settings,
    /// The key for packets that belong to no stream.
    pub(super) key: Key,
    pub(super) sender: Option<Box<Sender>>,
    /// The slots to which this process's receivers write.
    pub(super) slots: Option<written::Slots>,
    /// Set when a member has failed: its writes may come late.
    pub(super) has_lost: bool,
    /// The receivers of streams, each with the rank of its root and the number of its stream.
    pub(super) receivers: Vec<(u32, Stream, Box<Receiver>)>,
    pub(super) queue: VecDeque<Queued>,
    /// Requests that end when all members have acknowledged packets up to this number.
    pub(super) unacknowledged: VecDeque<(usize, u64)>,
    /// The paths by which a test has arrived.
    pub(super) tests: Paths<bool>,
    /// Small messages that share packets.
    pub(super) coalescing: Coalescing,
    /// Set if the network loses most of this process's multicasts: it sends to each member by itself, as soon
    /// as all members have what was multicast.
    pub(super) goes_straight: bool,
    /// Messages that go to each member by themselves, with the request of each of their sends.
    pub(super) straight: Vec<(usize, Vec<usize>)>,
    /// The number of packets that this process had multicast at the last review.
    pub(super) reviewed: u64,
}

/// The kind of a packet of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Heard {
    /// A packet of no stream that this process receives.
    Nothing,
    /// A packet of a stream, which has dealt with it.
    Packet,
    /// A test: the sender waits for its arrival.
    Test,
}

/// The multicast groups that this process belongs to.
#[derive(Default)]
pub struct Groups {
    pub(super) groups: Vec<Group>,
    pub(super) streams: Stream,
    pub(super) packet: Vec<u8>,
    pub(super) train: Vec<u8>,
    /// Packets that wait for the carriers to single peers.
    pub(super) singly: Singly,
    /// Acknowledgements that this process writes to the memory of roots, and that receivers write to its
    /// memory.
    pub(super) written: Written,
    /// The counters of groups that are no more.
    pub(super) past: Counters,
    /// The number of groups that are not used any more because the network carried them no more.
    pub(super) given_up: u64,
    /// The number of messages that went to each member by itself.
    pub(super) straight: u64,
}

impl Group {
    /// The process that has to have a packet for member `to`, in the stream of rank `root`.
    pub(super) fn process(&self, to: u32, root: u32) -> Option<PeerId> {
        let is_root = self.members.get(root as usize) == Some(&to);
        let rank = if is_root { root } else { *self.receiving.get(to as usize)? };
        self.processes.members.get(rank as usize).copied()
    }

    /// The processes that receive this process's multicasts.
    pub(super) fn receivers(&self) -> impl Iterator<Item = PeerId> + '_ {
        let others = (0..).zip(&self.receiving).filter(|(member, _)| *member != self.own);
        others.map(|(_, rank)| self.processes.members[*rank as usize])
    }

    /// The path for packets of a role; `None` where no path has that role.
    pub(super) fn carrier_path(&self, role: Role) -> Option<CarrierPath> {
        self.paths.iter().flatten().find(|(of, _)| *of == role).map(|(_, carrier_path)| *carrier_path)
    }

    pub(super) fn stream(&self, root: u32) -> StreamId {
        StreamId { context: self.context, first: self.first, generation: self.generation, root }
    }

    /// Returns whether all members have what this process has multicast.
    fn has_sent_all(&self) -> bool {
        self.queue.is_empty()
            && self.unacknowledged.is_empty()
            && self.straight.is_empty()
            && self.sender.as_ref().is_none_or(|sender| sender.is_idle())
    }

    pub(super) fn is_idle(&self) -> bool {
        self.has_sent_all() && self.receivers.iter().all(|(.., receiver)| receiver.is_idle())
    }

    pub(super) fn counters(&self) -> Counters {
        let mut all = Counters::default();
        let senders = self.sender.iter().map(|sender| sender.counters());
        senders.chain(self.receivers.iter().map(|(.., receiver)| receiver.counters())).for_each(|one| all.add(one));
        all
    }

    /// Hands acknowledgements that receivers have written to the sender, like those that they have sent.
    pub(super) fn look_at_slots(&mut self, now: Instant) {
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
    /// Returns whether all that this process has multicast has reached its receivers.
    pub fn have_sent_all(&self) -> bool {
        self.groups.iter().all(Group::has_sent_all)
    }

    /// Returns whether nothing is owed to the groups of a context, nor by them.
    pub fn are_quiet(&self, context: u32) -> bool {
        self.groups.iter().all(|group| group.context != context || group.is_idle())
    }

    /// The performance of the groups of a context since the last review.
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

    /// The paths by which a test has arrived.
    pub fn tests_heard(&self, context: u32) -> Paths<bool> {
        let of_context = || self.groups.iter().filter(|group| group.context == context);
        std::array::from_fn(|path| of_context().any(|group| group.tests[path]))
    }

    /// The state of each group.
    pub fn standings(&self) -> impl Iterator<Item = Standing> + '_ {
        self.groups.iter().map(|group| Standing {
            context: group.context,
            members: group.settings.members,
            scheme: group.settings.scheme,
            goes_straight: group.goes_straight,
            counters: group.counters(),
        })
    }

    /// The counters of all groups together.
    pub fn counters(&self) -> Counters {
        let mut all = self.past;
        self.groups.iter().for_each(|group| all.add(&group.counters()));
        all
    }

    /// Counts a group that is used for nothing new because the network carries it no more.
    pub fn count_given_up(&mut self) {
        self.given_up += 1;
    }

    /// The packet counts of all groups by kind: sent packets, packets that could not be used, and groups that
    /// were given up.
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

    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.singly.is_empty()
    }

    fn find(&mut self, stream: &StreamId) -> Option<&mut Group> {
        let is_it = |group: &&mut Group| group.stream(stream.root) == *stream;
        self.groups.iter_mut().find(is_it)
    }

    /// Returns whether nothing is owed to any member.
    pub(in crate::engine) fn are_idle(&self) -> bool {
        self.singly.is_empty() && self.groups.iter().all(Group::is_idle)
    }

    /// The time when something is due even if nothing arrives.
    pub(in crate::engine) fn next_timeout(&self) -> Option<Instant> {
        self.groups
            .iter()
            .filter_map(Group::next_timeout)
            .chain(self.singly.next_timeout())
            .chain(self.written.next_timeout())
            .min()
    }

    /// Notes that the carrier has completed a write to the memory of a root.
    pub(in crate::engine) fn note_written(&mut self, number: u32) {
        self.written.ended(number);
    }

    /// Returns whether there is something to send, or to wait for.
    pub(in crate::engine) fn are_active(&self) -> bool {
        !self.singly.is_empty() || self.groups.iter().any(|group| !group.is_idle())
    }

    /// Takes in a packet that claims to be of `stream`. `deliver` gets the frames of the packet, with their
    /// sender and the number of the stream.
    pub(in crate::engine) fn handle(
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
            // This process has the packet already as the root; some carriers bring it all the same.
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
