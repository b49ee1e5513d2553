//! The multicasts of this process: from messages to the windows of groups, and from the windows to the
//! carriers.

use weft_core::message::Head;
use weft_core::multicast::{Destination, Sender};
use weft_core::rails::Role;
use weft_core::time::Instant;

use super::Multicasts;
use super::groups::{Group, Groups, Queued};
use super::singly::Singly;
use crate::carriers::{Attendance, CarrierPath, Carriers};
use crate::engine::link::Link;
use crate::group::PeerId;
use crate::memory::UserData;
use crate::request::{Request, Send, State};
use crate::transport::{Carrier, Platform};

/// The most packets of one train.
const TRAIN_PACKETS_MAX: usize = 64;
/// The most packets of a train that leaves by the carrier for small messages. Each packet costs a system call
/// there, while a carrier for bulk data takes all packets with one. But the receivers need no system call for
/// them.
const SHORT_TRAIN_PACKETS: usize = 4;
/// The most packets that one pass sends for one group.
const PACKETS_PER_PASS: usize = 256;

impl<P: Platform> Multicasts<'_, P> {
    /// Multicasts the message of the request `handle` (state `Multicasting`) to the other members of its
    /// context's group.
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
        if self.coalesces(context, now) {
            self.link.note_coalescing();
            return;
        }
        self.transmit_groups(now);
    }

    /// Returns whether a message that has just been put into a group's window waits for others to share its
    /// packet, as messages to one peer do.
    fn coalesces(&mut self, context: u32, now: Instant) -> bool {
        let attendance = self.link.attendance();
        let Some(group) = self.groups.groups.iter_mut().find(|group| group.context == context) else { return false };
        let may_wait = attendance != Attendance::None
            && !group.settings.scheme.blocking
            && group.queue.is_empty()
            && group.sender.as_ref().is_some_and(|sender| sender.may_coalesce());
        if may_wait && group.coalescing.joins(attendance, || now) {
            return true;
        }
        group.coalescing.end(false);
        false
    }

    /// Puts queued messages into the windows as far as there is room, and completes messages that all members
    /// have.
    pub(super) fn push_multicasts(&mut self) {
        let Self { groups, link } = self;
        let mut straight = Vec::new();
        for (at, group) in groups.groups.iter_mut().enumerate() {
            group.goes_straight |= group.sender.as_mut().is_some_and(|sender| sender.is_beyond_use());
            while let Some(next) = group.queue.front_mut() {
                let (request, offset) = (next.request, next.offset);
                if group.goes_straight && offset == 0 {
                    // Earlier multicasts come by another way, and must not be overtaken.
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

    /// Sends the message of `request` to each receiver of the group by itself.
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

    /// Completes messages that have been sent to every receiver, and forgets abandoned ones.
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

    /// Sends the packets of the streams of all groups.
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
                            let carrier_path =
                                group.carrier_path(Role::SmallMessages).or(group.carrier_path(Role::BulkData));
                            send_packet(carrier_path, packet, link.carriers());
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
}

/// The progress of a message into the window.
enum Pushed {
    /// All of it is in the window; this is its last packet.
    Whole(u64),
    /// The window is full; the message is in it up to this byte.
    Until(u64),
    /// The request is gone: the message is not wanted any more.
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

/// Puts the part of a message into the window that has room there, from `offset` on.
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
        // The rest of a packet that other messages have begun may be too small for a piece: then the piece
        // begins the next packet.
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

/// Takes the price of a message of `total` bytes from the credit of each receiver, if all have enough.
fn charge<P: Platform>(group: &Group, total: u64, link: &mut Link<'_, P>) -> bool {
    let has_credit = group.receivers().all(|peer| link.has_credit(peer, total));
    if has_credit {
        group.receivers().for_each(|peer| link.take_credit(peer, total));
    }
    has_credit
}

/// Gives the price of a message back.
fn refund<P: Platform>(group: &Group, total: u64, link: &mut Link<'_, P>) {
    group.receivers().for_each(|peer| link.give_credit_back(peer, total));
}

/// Sends a train to the group. A short one goes by the carrier for small messages, unless it would overtake
/// packets that members may still lack.
fn flush<P: Platform>(group: &mut Group, sender: &Sender, link: &mut Link<'_, P>, train: &mut Vec<u8>, segment: usize) {
    if train.is_empty() {
        return;
    }
    let is_short = train.len() <= SHORT_TRAIN_PACKETS * segment && sender.acknowledged() >= group.in_bulk_until;
    let carrier_path = match (group.carrier_path(Role::SmallMessages), group.carrier_path(Role::BulkData)) {
        (Some(carrier_path), bulk) if is_short || bulk.is_none() => Some(carrier_path),
        (_, bulk) => {
            group.in_bulk_until = sender.sent();
            bulk
        }
    };
    if let Some(carrier_path) = carrier_path {
        link.send_train(carrier_path, train, segment);
    }
    train.clear();
}

/// Sends one packet of the stream of rank `root` to a member, by the way that messages to it take. A lost
/// packet is sent again.
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
    let (_, best) = remote.carrier_path(0);
    if remote.is_ordered() {
        return singly.send(now, best, packet, carriers);
    }
    let carries = packet.len() <= carriers.attributes(best.carrier).packet_size;
    send_packet(if carries { Some(best) } else { remote.carrier_path_of(Role::BulkData) }, packet, carriers);
}

fn send_packet(carrier_path: Option<CarrierPath>, packet: &[u8], carriers: &mut Carriers) {
    if let Some(carrier_path) = carrier_path
        && let Some(carrier) = carriers.get_mut(carrier_path.carrier)
    {
        let _ = carrier.send(&carrier_path.to, packet);
    }
}
