//! The simulated network between nodes: each process has devices with queues of packets that arrive at a
//! time. All faults on the way are [`Nuisance`]s.

mod ordered;

use super::moments::Clock;
use crate::nuisance::{Flight, Nuisance, Outcome as StageOutcome, Stages};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_core::flow::LongPath;
use weft_core::multicast::Scheme;
use weft_core::rails::Role;
use weft_core::time::Instant;
use weft_engine::memory::UserData;
use weft_engine::transport::{
    Address, Arrival, Begun, Carrier, CarrierAttributes, Delivery, Diagnostics, EthernetAddress, JOINED_MAX, Look,
    Multicast as Groups, MulticastAttributes, Outcome, Registration, RemoteMemory, RemoteMemoryAccess, TcpAddress,
    Unasked, Written, send_one_by_one, wrong_address,
};
use weft_random::Random;

pub(super) use ordered::{Break, Ordered, Placing};
use ordered::{Exposed, Line, Placed};

/// The properties of a network.
#[derive(Clone, Debug)]
pub(super) struct Wires {
    pub(super) packet_size: usize,
    /// The least number of nanoseconds from one host to another.
    pub(super) latency: u64,
    /// Bits per nanosecond.
    pub(super) gigabits: u64,
    /// Bytes that may wait in a host for its link before sends are refused.
    pub(super) send_bytes: u64,
    /// Bytes that may wait in a socket before packets are dropped.
    pub(super) receive_bytes: usize,
    /// Sends that the machine refuses; cases per million.
    pub(super) refused: u32,
    /// Says whether packets that arrive together are handed over as one.
    pub(super) joins: bool,
    /// The longest train that leaves by one call, bytes.
    pub(super) train_bytes: usize,
    pub(super) nuisances: Vec<Nuisance>,
    /// The multicast groups of the network, if it has any. A packet to a group reaches the group's processes,
    /// and each copy has its own outcome; or packets to groups reach no process.
    pub(super) multicast: Option<Multicast>,
    /// The carriers that deliver every packet once and in order, if the network has them: flows are then
    /// replaced by connections, unless these carriers are beside others.
    pub(super) ordered: Option<Ordered>,
}

impl Wires {
    /// The ordered carrier of this medium, if it is one.
    fn ordered_by(&self, medium: Medium) -> Option<Ordered> {
        self.ordered.filter(|ordered| match medium {
            Medium::Streams => ordered.beside,
            Medium::Udp => !ordered.beside,
            Medium::Frames(_) => false,
        })
    }

    /// The device of a process, among `devices`, at which the lines of ordered carriers end.
    fn line_device(&self, devices: usize) -> usize {
        if self.ordered.is_some_and(|ordered| ordered.beside) { devices - 1 } else { 0 }
    }
}

/// The treatment of packets to groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Multicast {
    /// The scheme that says which receiver acknowledges to which.
    pub(super) scheme: Scheme,
    /// Packets of a window.
    pub(super) window: u32,
    /// Says whether packets to groups reach no process.
    pub(super) filtered: bool,
}

struct Packet {
    at: u64,
    serial: u64,
    from: u32,
    bytes: Vec<u8>,
    to_group: bool,
    /// The message between two carriers, if this is no packet.
    placed: Option<Placed>,
}

impl PartialEq for Packet {
    fn eq(&self, other: &Self) -> bool {
        self.serial == other.serial
    }
}
impl Eq for Packet {}
impl PartialOrd for Packet {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Packet {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

#[derive(Default)]
struct Inbox {
    packets: BinaryHeap<Reverse<Packet>>,
    bytes: usize,
}

struct Inner {
    wires: Wires,
    stages: Stages,
    outcome: StageOutcome,
    random: Random,
    clock: Clock,
    /// The inboxes, by process and device.
    inboxes: Vec<Inbox>,
    /// The number of devices of a process.
    devices: usize,
    /// The time when the link of each process has sent the bytes that it was given.
    free: Vec<u64>,
    dead: Vec<bool>,
    /// The lines, by sender and receiver.
    lines: Vec<Line>,
    /// Memory that peers may write to, by process.
    exposed: Vec<Exposed>,
    /// The processes that have joined a group, with the group.
    joined: Vec<(usize, SocketAddr)>,
    serial: u64,
    packets: u64,
    long: u64,
    grouped: u64,
    placed: u64,
}

/// The network of a job. Clones are the same.
#[derive(Clone)]
pub(super) struct Network(Arc<Mutex<Inner>>);

impl Network {
    pub(super) fn new(wires: &Wires, ranks: usize, devices: usize, clock: Clock, seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            stages: Stages::new(&wires.nuisances, ranks as u32, seed),
            wires: wires.clone(),
            outcome: StageOutcome::default(),
            random: Random::new(seed ^ 0x6e65),
            clock,
            inboxes: (0..ranks * devices).map(|_| Inbox::default()).collect(),
            devices,
            free: vec![0; ranks],
            dead: vec![false; ranks],
            lines: (0..ranks * ranks).map(|_| Line::default()).collect(),
            exposed: (0..ranks).map(|_| Exposed::default()).collect(),
            joined: Vec::new(),
            serial: 0,
            packets: 0,
            long: 0,
            grouped: 0,
            placed: 0,
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time when the devices of a process have something for it next: a packet has arrived, will arrive,
    /// or can leave.
    pub(super) fn next_event(&self, rank: usize) -> Option<u64> {
        let inner = self.inner();
        let inboxes = &inner.inboxes[rank * inner.devices..(rank + 1) * inner.devices];
        let arrival = inboxes.iter().filter_map(|inbox| Some(inbox.packets.peek()?.0.at)).min();
        arrival.into_iter().chain(inner.next_departure(rank)).chain(inner.exposed[rank].next_done()).min()
    }

    /// The number of packets that the devices of a process still hold and that must arrive.
    pub(super) fn waiting(&self, rank: usize) -> usize {
        self.inner().waiting(rank)
    }

    /// Returns whether every packet is delivered once and in order.
    pub(super) fn is_ordered(&self) -> bool {
        self.inner().wires.ordered_by(Medium::Udp).is_some()
    }

    /// Returns whether packets that all must arrive are on their way to a process.
    pub(super) fn is_expected(&self, rank: usize) -> bool {
        let inner = self.inner();
        inner.wires.ordered.is_some() && inner.inboxes[inner.line_inbox(rank)].bytes > 0
    }

    /// Ends a process: it sends and receives nothing any more.
    pub(super) fn die(&self, rank: usize) {
        let mut inner = self.inner();
        inner.dead[rank] = true;
        let devices = inner.devices;
        inner.inboxes[rank * devices..(rank + 1) * devices].iter_mut().for_each(|inbox| *inbox = Inbox::default());
        inner.forget_lines(rank);
        inner.exposed[rank] = Exposed::default();
        inner.touch_all();
    }

    /// The number of pieces that carriers have written to memory of peers.
    pub(super) fn placed(&self) -> u64 {
        self.inner().placed
    }

    /// The number of packets that have been sent on the long paths of flows.
    pub(super) fn long(&self) -> u64 {
        self.inner().long
    }

    /// The number of packets that have been sent to groups.
    pub(super) fn grouped(&self) -> u64 {
        self.inner().grouped
    }

    /// The number of packets that have been sent.
    pub(super) fn packets(&self) -> u64 {
        self.inner().packets
    }

    /// Opens a device of a process.
    pub(super) fn device(&self, rank: usize, carrier_index: usize, medium: Medium) -> Device {
        let inner = self.inner();
        let Wires { packet_size, train_bytes, multicast, .. } = inner.wires;
        let ordered = inner.wires.ordered_by(medium);
        let plain = match medium {
            Medium::Frames(_) => CarrierAttributes::packets("ethernet", packet_size, Look::Memory),
            Medium::Udp => CarrierAttributes {
                delivery: if ordered.is_some() { Delivery::Ordered } else { Delivery::Unreliable },
                train_bytes: train_bytes.max(packet_size),
                multicast: multicast.map(|_| MulticastAttributes { packet_size, receives: None }),
                ..CarrierAttributes::packets("udp", packet_size, Look::SystemCall)
            },
            Medium::Streams => {
                let long = ordered.and_then(|ordered| ordered.long_path).map_or(0, |(packet_size, _)| packet_size);
                CarrierAttributes {
                    delivery: Delivery::Ordered,
                    ..CarrierAttributes::packets("tcp", packet_size.max(long), Look::SystemCall)
                }
            }
        };
        let remote_memory = ordered.and_then(|ordered| ordered.placing).map(|placing| placing.placement());
        let attributes = CarrierAttributes { remote_memory, ..plain };
        Device { network: self.clone(), rank, carrier_index, medium, attributes }
    }
}

/// The medium of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// Frames on the interface with this number.
    Frames(u8),
    /// UDP, or the ordered carrier in its place.
    Udp,
    /// The ordered carrier beside others.
    Streams,
}

impl Medium {
    /// The role of a device, and the interface that it is on.
    pub(super) fn role_and_rail(self) -> (Role, u8) {
        match self {
            Self::Frames(rail) => (Role::SmallMessages, rail),
            Self::Udp | Self::Streams => (Role::BulkData, 0),
        }
    }
}

/// The address of a device of a process.
pub(super) fn address(rank: usize, medium: Medium) -> Address {
    match medium {
        Medium::Udp => SocketAddr::from(([10, 0, 0, 1], rank as u16)).into(),
        Medium::Streams => {
            Address::Tcp(TcpAddress { peer: rank as u32, listens: SocketAddr::from(([10, 0, 0, 2], rank as u16)) })
        }
        Medium::Frames(carrier_index) => {
            EthernetAddress { mac: [2, 0, 0, 0, 0, carrier_index], port: rank as u16 }.into()
        }
    }
}

impl Inner {
    /// The inbox of a process at which the lines of ordered carriers end.
    fn line_inbox(&self, rank: usize) -> usize {
        rank * self.devices + self.wires.line_device(self.devices)
    }

    fn send(&mut self, (from, to, carrier_index): (usize, usize, usize), medium: Medium, bytes: &[u8]) -> Outcome {
        let now = self.clock.now();
        let free = self.free[from].max(now);
        if (free - now) * self.wires.gigabits / 8 > self.wires.send_bytes {
            return Outcome::WouldBlock;
        }
        if self.random.chance(self.wires.refused) {
            return if self.random.chance(500_000) { Outcome::Dropped } else { Outcome::WouldBlock };
        }
        let ordered = self.wires.ordered_by(medium);
        if ordered.is_some_and(|ordered| self.held(from, to) >= ordered.room) {
            return Outcome::WouldBlock;
        }
        let sent = free + (bytes.len() as u64 + 66) * 8 / self.wires.gigabits;
        self.free[from] = sent;
        self.packets += 1;
        self.long += u64::from(medium == Medium::Streams);
        if self.dead[from] {
            return Outcome::Sent;
        }
        if let Some(ordered) = ordered {
            self.hold((from, to), sent, ordered, bytes);
            return Outcome::Sent;
        }
        self.fly((from, to, carrier_index), Some(medium), sent, bytes);
        Outcome::Sent
    }

    /// Sends a packet to a group: it takes the sender's link once, and each copy then goes its own way to its
    /// receiver.
    fn send_to_group(&mut self, from: usize, carrier_index: usize, group: SocketAddr, bytes: &[u8]) -> Outcome {
        let now = self.clock.now();
        let free = self.free[from].max(now);
        if (free - now) * self.wires.gigabits / 8 > self.wires.send_bytes {
            return Outcome::WouldBlock;
        }
        let sent = free + (bytes.len() as u64 + 66) * 8 / self.wires.gigabits;
        self.free[from] = sent;
        (self.packets, self.grouped) = (self.packets + 1, self.grouped + 1);
        if self.dead[from] || self.wires.multicast.is_none_or(|multicast| multicast.filtered) {
            return Outcome::Sent;
        }
        let members = self.joined.iter().filter(|(rank, joined)| *rank != from && *joined == group);
        let members: Vec<usize> = members.map(|(rank, _)| *rank).collect();
        members.into_iter().for_each(|to| self.fly((from, to, carrier_index), None, sent, bytes));
        Outcome::Sent
    }

    /// Decides the outcome of a packet that has left at `sent`, by a medium for one process, or by UDP for a
    /// group.
    fn fly(
        &mut self,
        (from, to, carrier_index): (usize, usize, usize),
        single: Option<Medium>,
        sent: u64,
        bytes: &[u8],
    ) {
        let medium = single.unwrap_or(Medium::Udp);
        let (carrier, rail) = medium.role_and_rail();
        let now = self.clock.now();
        let path = u8::from(medium == Medium::Udp);
        let (from, to) = (from as u32, to as u32);
        let flight = Flight { from, to, bytes: bytes.to_vec(), number: None, marked: false, path, rail, carrier };
        let mut outcome = std::mem::take(&mut self.outcome);
        self.stages.pass(Instant(now), flight, &mut outcome);
        for (later, flight) in outcome.onward.drain(..) {
            self.deliver(sent + self.wires.latency + later.0, carrier_index, flight, (single.is_none(), None));
        }
        self.outcome = outcome;
    }

    fn deliver(&mut self, at: u64, carrier_index: usize, flight: Flight, (to_group, placed): (bool, Option<Placed>)) {
        let to = flight.to as usize;
        let inbox = &mut self.inboxes[to * self.devices + carrier_index];
        let is_full = inbox.bytes + flight.bytes.len() > self.wires.receive_bytes;
        if self.dead[to] || is_full && flight.number.is_none() {
            return;
        }
        inbox.bytes += flight.bytes.len();
        self.clock.touch(to);
        self.serial += 1;
        let packet = Packet { at, serial: self.serial, from: flight.from, bytes: flight.bytes, to_group, placed };
        inbox.packets.push(Reverse(packet));
    }

    /// Takes the next packet that has arrived, if `passes` accepts it.
    fn take(&mut self, inbox: usize, passes: impl FnOnce(&Packet) -> bool) -> Option<Packet> {
        let now = self.clock.now();
        let inbox = &mut self.inboxes[inbox];
        let Reverse(next) = inbox.packets.peek()?;
        if next.at > now || !passes(next) {
            return None;
        }
        let Reverse(packet) = inbox.packets.pop()?;
        inbox.bytes -= packet.bytes.len();
        if self.wires.ordered.is_some() {
            // The inbox has room for other packets now.
            self.touch_all();
        }
        Some(packet)
    }

    /// Takes the next packet that has arrived, once the carrier has handled the messages that are for itself.
    fn take_packet(&mut self, inbox: usize) -> Option<Packet> {
        loop {
            let packet = self.take(inbox, |_| true)?;
            match packet.placed {
                Some(placed) => self.place(packet.from as usize, inbox / self.devices, placed, &packet.bytes),
                None => return Some(packet),
            }
        }
    }

    fn touch_all(&self) {
        (0..self.dead.len()).for_each(|rank| self.clock.touch(rank));
    }

    /// Takes the next packets that have arrived; similar packets of one sender are joined. Returns their
    /// bytes, whether they were sent to a group, the length of each, and their number.
    fn take_train(&mut self, inbox: usize) -> Option<(Vec<u8>, bool, usize, usize)> {
        let Packet { from, mut bytes, to_group, .. } = self.take_packet(inbox)?;
        let (segment, mut count) = (bytes.len(), 1);
        let joins = self.wires.joins && self.random.chance(700_000);
        while joins && count < JOINED_MAX && bytes.len() == count * segment {
            let fits = |next: &Packet| {
                next.placed.is_none()
                    && (next.from, next.to_group) == (from, to_group)
                    && (1..=segment).contains(&next.bytes.len())
                    && bytes.len() + next.bytes.len() < 1 << 16
            };
            let Some(next) = self.take(inbox, fits) else { break };
            bytes.extend_from_slice(&next.bytes);
            count += 1;
        }
        Some((bytes, to_group, segment, count))
    }
}

/// A device of a process: its end of the network.
pub(super) struct Device {
    network: Network,
    rank: usize,
    carrier_index: usize,
    medium: Medium,
    attributes: CarrierAttributes,
}

impl Device {
    fn to(&self, address: &Address) -> io::Result<usize> {
        match (address, self.medium) {
            (Address::Udp(to), Medium::Udp) => Ok(usize::from(to.port())),
            (Address::Ethernet(to), Medium::Frames(_)) => Ok(usize::from(to.port)),
            (Address::Tcp(to), Medium::Streams) => Ok(to.peer as usize),
            _ => Err(wrong_address()),
        }
    }

    fn inbox(&self, inner: &Inner) -> usize {
        self.rank * inner.devices + self.carrier_index
    }
}

impl Carrier for Device {
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    fn send(&mut self, to: &Address, packet: &[u8]) -> io::Result<Outcome> {
        if packet.len() > self.attributes.packet_size {
            return Ok(Outcome::TooLarge);
        }
        if let Address::Udp(group) = to
            && to.is_group()
        {
            return Ok(self.network.inner().send_to_group(self.rank, self.carrier_index, *group, packet));
        }
        let to = self.to(to)?;
        Ok(self.network.inner().send((self.rank, to, self.carrier_index), self.medium, packet))
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> io::Result<usize> {
        send_one_by_one(self, to, train, segment)
    }

    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        self.network.inner().depart(self.rank);
        let mut handed = 0;
        while handed < limit {
            let train = {
                let mut inner = self.network.inner();
                let inbox = self.inbox(&inner);
                inner.take_train(inbox)
            };
            let Some((bytes, to_group, segment, count)) = train else { break };
            on_arrival(Arrival { segment, to_group, ..Arrival::packet(&bytes) });
            handed += count;
        }
        handed
    }

    /// The simulation wakes sleeping processes by other means.
    fn prepare_sleep(&mut self) -> bool {
        true
    }

    fn diagnostics(&self) -> Diagnostics {
        Diagnostics::default()
    }

    fn under_way(&self, to: &Address) -> usize {
        let inner = self.network.inner();
        let to = self.to(to).ok().filter(|_| inner.wires.ordered_by(self.medium).is_some());
        to.map_or(0, |to| inner.held(self.rank, to))
    }

    fn take_broken(&mut self) -> Option<Address> {
        self.network.inner().take_broken(self.rank).map(|to| address(to, self.medium))
    }

    fn long_path(&mut self, to: &Address) -> LongPath {
        match (self.to(to), self.medium) {
            (Ok(to), Medium::Streams) => self.network.inner().long_path(self.rank, to),
            _ => LongPath::Closed,
        }
    }

    fn rma(&mut self) -> Option<&mut dyn RemoteMemoryAccess> {
        if self.attributes.remote_memory.is_some() { Some(self) } else { None }
    }

    fn multicast(&mut self) -> Option<&mut dyn Groups> {
        if self.attributes.multicast.is_some() { Some(self) } else { None }
    }
}

impl Groups for Device {
    fn address(&self, job: u64, group: u64) -> Address {
        let [_, a, b, c, d, ..] = (job ^ group.rotate_left(17)).to_le_bytes();
        SocketAddr::from(([239, 192, a, b], u16::from_le_bytes([c, d]))).into()
    }

    fn join(&mut self, group: &Address, receives: bool) -> io::Result<()> {
        let Address::Udp(group) = group else { return Err(wrong_address()) };
        if receives {
            self.network.inner().joined.push((self.rank, *group));
        }
        Ok(())
    }

    fn leave(&mut self, group: &Address) {
        let Address::Udp(group) = group else { return };
        self.network.inner().joined.retain(|joined| *joined != (self.rank, *group));
    }
}

impl RemoteMemoryAccess for Device {
    fn register(&mut self, data: &UserData, length: u64) -> Option<(Registration, RemoteMemory)> {
        self.network.inner().register(self.rank, data, length)
    }

    fn deregister(&mut self, registration: Registration) {
        self.network.inner().exposed[self.rank].deregister(registration);
    }

    fn write(&mut self, to: &Address, data: &UserData, range: Range<u64>, there: RemoteMemory, number: u64) -> Begun {
        let Ok(to) = self.to(to) else { return Begun::Never };
        self.network.inner().access((self.rank, to), (data, range, true), there, number)
    }

    fn may_write_unasked(&self, data: &UserData) -> bool {
        data.address().is_some()
    }

    fn write_unasked(&mut self, to: &Address, data: &UserData, name: u32, number: u64) -> Unasked {
        let Ok(to) = self.to(to) else { return Unasked::Refused };
        self.network.inner().write_unasked((self.rank, to), data, name, number)
    }

    fn register_unasked(&mut self, from: &Address, name: u32, data: &UserData, length: u64) -> Option<Registration> {
        let from = self.to(from).ok()?;
        self.network.inner().register_unasked((from, self.rank), name, data, length)
    }

    fn read(&mut self, to: &Address, data: &UserData, range: Range<u64>, there: RemoteMemory, number: u64) -> Begun {
        let Ok(to) = self.to(to) else { return Begun::Never };
        self.network.inner().access((self.rank, to), (data, range, false), there, number)
    }

    fn poll_completion(&mut self) -> Option<u64> {
        let mut inner = self.network.inner();
        let now = inner.clock.now();
        inner.exposed[self.rank].poll_done(now)
    }

    fn disconnect(&mut self, to: &Address) {
        if let (Ok(to), Medium::Streams) = (self.to(to), self.medium) {
            self.network.inner().disconnect(self.rank, to);
        }
    }

    fn poll_written(&mut self) -> Option<Written> {
        self.network.inner().exposed[self.rank].poll_written()
    }
}

#[cfg(test)]
mod tests;
