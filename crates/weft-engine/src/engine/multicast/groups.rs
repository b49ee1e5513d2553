//! The groups that this process belongs to: how each stands, what arrives for it, and what it owes to others.

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
pub(super) struct Queued {
    pub(super) request: usize,
    pub(super) offset: u64,
}

/// A group that this process belongs to.
pub(super) struct Group {
    pub(super) context: u32,
    /// Number of the first process, and of the group among those of this context and first process.
    pub(super) first: u32,
    pub(super) generation: u32,
    pub(super) processes: Arc<Processes>,
    /// Of each rank.
    pub(super) members: Vec<u32>,
    /// Rank of the process that receives for each member.
    pub(super) receiving: Vec<u32>,
    /// This process's member, and its rank.
    pub(super) own: u32,
    pub(super) rank: u32,
    pub(super) paths: Paths<Option<(Role, CarrierPath)>>,
    /// Nothing leaves by the carrier for small messages before all have the packets below this one, which
    /// went by the other: it would overtake them.
    pub(super) in_bulk_until: u64,
    pub(super) settings: Settings,
    /// Makes and verifies packets that are of no stream.
    pub(super) key: Key,
    pub(super) sender: Option<Box<Sender>>,
    /// Where its receivers write.
    pub(super) slots: Option<written::Slots>,
    /// A member has failed: it may be late with what it writes.
    pub(super) has_lost: bool,
    /// By the rank of the root, with the number of the stream.
    pub(super) receivers: Vec<(u32, Stream, Box<Receiver>)>,
    pub(super) queue: VecDeque<Queued>,
    /// Requests that end when all have acknowledged packets up to this.
    pub(super) unacknowledged: VecDeque<(usize, u64)>,
    /// By which paths a test has arrived.
    pub(super) tests: Paths<bool>,
    /// Small messages that share packets.
    pub(super) coalescing: Coalescing,
    /// The network loses most of what this process multicasts: it sends to each by itself, from when all have
    /// what was multicast on.
    pub(super) goes_straight: bool,
    /// Messages that do so, with the request of each of their sends.
    pub(super) straight: Vec<(usize, Vec<usize>)>,
    /// Packets that this process had multicast when that was last asked.
    pub(super) reviewed: u64,
}

/// What a packet of a stream was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Heard {
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
    pub(super) groups: Vec<Group>,
    pub(super) streams: Stream,
    pub(super) packet: Vec<u8>,
    pub(super) train: Vec<u8>,
    /// What waits for the carriers to single peers.
    pub(super) singly: Singly,
    /// What is written to memory of roots, and by receivers to ours.
    pub(super) written: Written,
    /// What happened in groups that are no more.
    pub(super) past: Counters,
    /// Groups that are used no more because the network carried them no more.
    pub(super) given_up: u64,
    /// Messages that went to each by itself.
    pub(super) straight: u64,
}

impl Group {
    /// Who has to have a packet for `to`, in the stream of rank `root`.
    pub(super) fn process(&self, to: u32, root: u32) -> Option<PeerId> {
        let is_root = self.members.get(root as usize) == Some(&to);
        let rank = if is_root { root } else { *self.receiving.get(to as usize)? };
        self.processes.members.get(rank as usize).copied()
    }

    /// Those that receive what this process multicasts.
    pub(super) fn receivers(&self) -> impl Iterator<Item = PeerId> + '_ {
        let others = (0..).zip(&self.receiving).filter(|(member, _)| *member != self.own);
        others.map(|(_, rank)| self.processes.members[*rank as usize])
    }

    /// Where packets for which a role is best leave; none where no path has that role.
    pub(super) fn carrier_path(&self, role: Role) -> Option<CarrierPath> {
        self.paths.iter().flatten().find(|(of, _)| *of == role).map(|(_, carrier_path)| *carrier_path)
    }

    pub(super) fn stream(&self, root: u32) -> StreamId {
        StreamId { context: self.context, first: self.first, generation: self.generation, root }
    }

    /// Whether all have what this process has multicast.
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

    /// What receivers have written counts as what they have sent.
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

    /// Packets of all groups, by what they are: those that this process has sent, and those that it could not
    /// use; and groups that were given up.
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

    /// Whether nothing is owed to anybody.
    pub(in crate::engine) fn are_idle(&self) -> bool {
        self.singly.is_empty() && self.groups.iter().all(Group::is_idle)
    }

    /// When something is due although nothing arrives.
    pub(in crate::engine) fn next_timeout(&self) -> Option<Instant> {
        self.groups
            .iter()
            .filter_map(Group::next_timeout)
            .chain(self.singly.next_timeout())
            .chain(self.written.next_timeout())
            .min()
    }

    /// The carrier has written something to memory of a root.
    pub(in crate::engine) fn note_written(&mut self, number: u32) {
        self.written.ended(number);
    }

    /// Whether something is to be sent, or waited for.
    pub(in crate::engine) fn are_active(&self) -> bool {
        !self.singly.is_empty() || self.groups.iter().any(|group| !group.is_idle())
    }

    /// A packet that claims to be of `stream` has arrived. `deliver` gets the frames that it brings: from
    /// whom, and on which stream.
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
