//! Multicast groups: messages that one process sends to all hosts of a communicator at once
//! (`weft_core::multicast`).
//!
//! A multicast message consists of the same frames as an eager message to each receiver, within the credit of
//! each. At the receivers it goes through the same matching. A schedule receives a multicast like any
//! message, and an unexpected multicast is kept like any unexpected message. Acknowledgements and repairs go
//! to processes' own addresses, as packets of their own beside the flows.
//!
//! `weft-mpi` joins, tests and leaves groups (`communicator/multicast.rs`); a schedule's multicast steps send
//! to them.

mod groups;
mod sending;
mod singly;
mod written;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use weft_core::bytes;
use weft_core::multicast::{
    MESSAGE_BYTES_MAX, Scheme, Settings, StreamId, WINDOW_MAX,
    wire::{self, Body, Packet},
};
use weft_core::rails::Role;
use weft_core::time::{Duration, Instant};
use weft_core::wire::Secret;

use super::link::Link;
use crate::carriers::{CarrierId, CarrierPath, Coalescing};
use crate::group::{Group as Processes, PeerId};
use crate::messages::{CREDIT_BYTES, CREDIT_PER_MESSAGE};
use crate::transport::{AddressKind, Carrier, MulticastAttributes, Platform};
use groups::Group;

pub(super) use groups::Heard;
pub use groups::{Groups, Reviewed, Standing};

// A receiver that has consumed all it was sent has given back at least this much credit.
const _: () = assert!(MESSAGE_BYTES_MAX + CREDIT_PER_MESSAGE <= CREDIT_BYTES / 2);

/// The parts from which a group is made.
pub struct NewGroup {
    /// The context of the multicast messages.
    pub context: u32,
    /// A number that no other group with this context has had.
    pub generation: u32,
    /// The processes, by rank.
    pub processes: Arc<Processes>,
    /// The member of each rank: its host.
    pub members: Vec<u32>,
    /// The paths by which packets are to go to the group.
    pub paths: Paths<bool>,
    /// The bytes of the longest packet: the same at all processes.
    pub packet_size: usize,
    /// The packets that may wait for acknowledgements, at most [`WINDOW_MAX`]: the same number at all
    /// processes.
    pub window: u32,
    /// The scheme of acknowledgements: which member acknowledges to which.
    pub scheme: Scheme,
    /// The silence after which a member that is asked has failed; zero: never.
    pub peer_timeout: Duration,
}

/// A value for each of the paths by which packets may go to a group.
///
/// A path is named by the kind of its addresses, so that all processes mean the same path, even with
/// different carriers. On each path the best carrier with multicast is used. Trains go by a carrier for bulk
/// data. A few packets go by a carrier for small messages: their arrival costs no system call. Where there is
/// only one carrier, it takes all.
pub type Paths<T> = [T; AddressKind::ALL.len()];

/// The multicast of a process on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    carrier: CarrierId,
    /// Bytes of the longest packet.
    pub packet_size: usize,
    /// The role for which the path is best.
    pub role: Role,
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
    /// The multicast abilities of this process on each path.
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

    /// The number of packets of a stream that may be under way without a loss because this process does not
    /// look, at most [`WINDOW_MAX`].
    pub fn multicast_window(&mut self) -> u32 {
        let paths = self.multicast_paths();
        let carriers = self.link.carriers();
        let attributes = |path: &Path| carriers.attributes(path.carrier).multicast;
        let least = paths.iter().flatten().filter_map(attributes).filter_map(|attributes| attributes.receives).min();
        least.map_or(WINDOW_MAX, |least| (least.min(WINDOW_MAX as usize) as u32).max(1))
    }

    /// Returns whether acknowledgements to this process, and those to others, can be written to memory.
    pub fn multicast_writes(&mut self) -> bool {
        let carriers = self.link.carriers();
        let Some(id) = carriers.of_role(Role::BulkData).filter(|id| carriers.multicast(*id).is_some()) else {
            return false;
        };
        carriers.attributes(id).remote_memory.is_some_and(|placement| placement.writes)
    }

    /// Joins a group: messages that its members multicast arrive from now on.
    ///
    /// Returns the paths that it joined, of those that are asked for. A path is left out where the machine
    /// refuses, or where there is no carrier with multicast.
    ///
    /// # Errors
    /// The process is not a member, the members are not numbered as they come, or they are of several jobs.
    pub fn join_group(&mut self, new: NewGroup) -> io::Result<Paths<bool>> {
        let NewGroup { context, generation, processes, members, paths, packet_size, window, scheme, peer_timeout } =
            new;
        let rank = processes.rank.filter(|rank| (*rank as usize) < members.len());
        let Some(rank) = rank else { return Err(io::ErrorKind::InvalidInput.into()) };
        if processes.members.iter().any(|member| !self.link.is_of_own_job(*member)) {
            // Multicast packets are tagged by the secret of one job.
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
            Some((role, CarrierPath { carrier, to }))
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

    /// Gives up all other paths of the groups of a context: they do not reach all members.
    pub fn settle_group(&mut self, context: u32, paths: Paths<bool>) {
        let Self { groups, link } = self;
        let carriers = link.carriers();
        for group in groups.groups.iter_mut().filter(|group| group.context == context) {
            for (path, _) in group.paths.iter_mut().zip(paths).filter(|(_, stays)| !stays) {
                if let Some((_, CarrierPath { carrier, to })) = path.take()
                    && let Some(groups) = carriers.multicast(carrier)
                {
                    groups.leave(&to);
                }
            }
        }
    }

    /// Leaves the groups of a context, and forgets what is still owed to them.
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
            for (_, CarrierPath { carrier, to }) in group.paths.iter().flatten() {
                if let Some(groups) = link.carriers().multicast(*carrier) {
                    groups.leave(to);
                }
            }
            false
        });
    }

    /// Multicasts test packets of full length without contents, one by each path that is asked for, to find
    /// out whether they arrive.
    pub fn test_group(&mut self, context: u32, attempt: u32, paths: Paths<bool>) {
        let Self { groups, link } = self;
        let Some(group) = groups.groups.iter_mut().find(|group| group.context == context) else { return };
        let stream = group.stream(group.rank);
        for (path, carrier_path) in group.paths.iter().enumerate().filter(|(path, _)| paths[*path]) {
            let Some((_, CarrierPath { carrier, to })) = *carrier_path else { continue };
            let number = u64::from(attempt) * AddressKind::ALL.len() as u64 + path as u64;
            let packet = Packet { from: group.own, request: false, number, body: Body::Test };
            packet.emit(&stream, &mut groups.packet);
            bytes::resize(&mut groups.packet, group.settings.packet_size);
            wire::seal(&group.key, number, &mut groups.packet);
            if let Some(carrier) = link.carriers().get_mut(carrier) {
                // The test is to find out whether a packet is lost, for whatever reason.
                let _ = carrier.send(&to, &groups.packet);
            }
        }
    }

    /// Fills the windows of all groups as far as they have room, and sends the packets of all streams.
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

    /// Removes a failed `peer`: messages that are multicast to it fail, and no sender waits for its
    /// acknowledgements.
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

/// Numbers that name the job and the group to a carrier, and do not reveal the secret.
fn names(secret: &Secret, context: u32, first: u32, generation: u32) -> [u64; 2] {
    [StreamId { context: 0, first: 0, generation: 0, root: 0 }, StreamId { context, first, generation, root: 0 }]
        .map(|stream| weft_core::multicast::public_name(&stream, secret))
}
