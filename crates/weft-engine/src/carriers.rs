//! The carriers to other nodes: which packets take which carrier, and what happens when a carrier fails.
//!
//! On every interface that leads to a peer there may be a carrier for small messages, and one with offloads
//! for bulk data (`weft_core::rails`).
//!
//! `weft-mpi` opens the carriers at the start. `engine/network.rs` sends and receives through them, and the
//! other parts of the engine reach them through a `Link`.

mod coalescing;

use std::fmt::Write;
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::Arc;

use weft_core::connection::Connection;
use weft_core::distrust::Distrust;
use weft_core::flow::{Counters, Event, Flow, LongPath, Parked, Settings as FlowSettings};
use weft_core::long_path_choice::{LongPathChoice, LongPathMessages, LongPathUse};
use weft_core::message::Head;
use weft_core::path_validation::{Ends, Keys};
use weft_core::placement::Placements;
use weft_core::rails::{Handled, PathFrame, RAILS_MAX, RailCarrier, Rails, Role};
use weft_core::refusal::Refusal;
use weft_core::time::Instant;

use crate::jobs::{Jobs, Member};
use crate::memory::UserData;
use crate::transport::{
    Address, Carrier, CarrierAttributes, Multicast, Placement, Registration, RemoteMemory, RemoteMemoryAccess,
};
pub use coalescing::Attendance;
pub(crate) use coalescing::{COALESCE_TIME_MAX, Coalescing, coalesced_bytes_max};

/// A carrier of any kind.
pub type BoxedCarrier = Box<dyn Carrier + std::marker::Send>;

/// The most carriers of a process: one for small messages on each interface, one for bulk data, one that only
/// writes to memory of peers, and two to processes of other jobs.
pub const CARRIERS_MAX: usize = RAILS_MAX + 4;

/// The descriptors of all carriers; `None` where there are fewer carriers.
pub type Descriptors = [Option<RawFd>; CARRIERS_MAX];

/// The name of one of the [`Carriers`] of this process: its index among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CarrierId(pub u8);

/// The carriers of this process to other nodes. The attributes of a carrier tell its role.
#[derive(Default)]
pub struct Carriers {
    open: Vec<Open>,
    /// The number of carriers up to the last one by which something may come.
    awaited: u8,
}

struct Open {
    carrier: BoxedCarrier,
    attributes: CarrierAttributes,
    /// Set if packets to some peer take the carrier.
    has_packets: bool,
    /// Set if packets of all lengths do, and not only the long ones of a flow.
    is_path: bool,
    /// The number of registrations of memory.
    registered: usize,
}

impl Carriers {
    /// No carriers.
    pub const NONE: Self = Self { open: Vec::new(), awaited: 0 };

    /// Makes the set of these carriers; their order gives their names ([`CarrierId`]). Of carriers for the
    /// same role the better ones come first.
    ///
    /// # Panics
    /// When there are more than [`CARRIERS_MAX`], or a carrier claims an ability that it does not have.
    pub fn new(carriers: Vec<BoxedCarrier>) -> Self {
        assert!(carriers.len() <= CARRIERS_MAX, "a process has at most {CARRIERS_MAX} carriers");
        let mut all = Self::NONE;
        for carrier in carriers {
            let _ = all.add(carrier);
        }
        all
    }

    /// Adds a carrier behind all others, and returns its name; `None` when there are [`CARRIERS_MAX`].
    ///
    /// # Panics
    /// The carrier claims an ability that it does not have.
    pub(crate) fn add(&mut self, mut carrier: BoxedCarrier) -> Option<CarrierId> {
        let attributes = *carrier.attributes();
        let CarrierAttributes { name, remote_memory, multicast, .. } = attributes;
        assert_eq!(carrier.rma().is_some(), remote_memory.is_some(), "{name}: what it says of remote memory");
        assert_eq!(carrier.multicast().is_some(), multicast.is_some(), "{name}: what it says of multicast");
        if self.open.len() == CARRIERS_MAX {
            return None;
        }
        self.open.push(Open { attributes, carrier, has_packets: false, is_path: false, registered: 0 });
        Some(CarrierId(self.open.len() as u8 - 1))
    }

    /// Returns whether there are no carriers.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &BoxedCarrier> {
        self.open.iter().map(|open| &open.carrier)
    }

    /// The attributes of a carrier.
    #[inline]
    pub(crate) fn attributes(&self, id: CarrierId) -> &CarrierAttributes {
        &self.open[usize::from(id.0)].attributes
    }

    /// The names of all carriers.
    pub(crate) fn ids(&self) -> impl Iterator<Item = CarrierId> + use<> {
        (0..self.open.len() as u8).map(CarrierId)
    }

    #[inline]
    pub(crate) fn get(&self, id: CarrierId) -> Option<&BoxedCarrier> {
        self.open.get(usize::from(id.0)).map(|open| &open.carrier)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: CarrierId) -> Option<&mut BoxedCarrier> {
        self.open.get_mut(usize::from(id.0)).map(|open| &mut open.carrier)
    }

    fn find(&self, is_it: impl Fn(&CarrierAttributes) -> bool) -> Option<CarrierId> {
        self.ids().find(|id| is_it(self.attributes(*id)))
    }

    /// The best carrier for a role.
    pub(crate) fn of_role(&self, role: Role) -> Option<CarrierId> {
        self.find(|attributes| attributes.role() == role)
    }

    /// The best carrier for one-sided operations: it reads the memory of peers, and writes there.
    pub(crate) fn for_one_sided(&self) -> Option<CarrierId> {
        self.find(|attributes| attributes.remote_memory.is_some_and(|placement| placement.reads && placement.writes))
    }

    /// A carrier's access to the memory of peers.
    #[inline]
    pub(crate) fn rma(&mut self, id: CarrierId) -> Option<&mut dyn RemoteMemoryAccess> {
        self.get_mut(id)?.rma()
    }

    /// A carrier's interface for multicast groups.
    pub(crate) fn multicast(&mut self, id: CarrierId) -> Option<&mut dyn Multicast> {
        self.get_mut(id)?.multicast()
    }

    /// Registers memory so that peers can reach it by this carrier.
    pub(crate) fn register(
        &mut self,
        id: CarrierId,
        data: &UserData,
        bytes: u64,
    ) -> Option<(Registered, RemoteMemory)> {
        let (registration, memory) = self.rma(id)?.register(data, bytes)?;
        self.open[usize::from(id.0)].registered += 1;
        self.count_awaited();
        Some((Registered { carrier: id, registration }, memory))
    }

    /// Registers memory for what a peer writes unasked under this `name`, by the carrier that leads there.
    pub(crate) fn register_unasked(
        &mut self,
        from: &CarrierPath,
        name: u32,
        data: &UserData,
        bytes: u64,
    ) -> Option<Registered> {
        let registration = self.rma(from.carrier)?.register_unasked(&from.to, name, data, bytes)?;
        self.open[usize::from(from.carrier.0)].registered += 1;
        self.count_awaited();
        Some(Registered { carrier: from.carrier, registration })
    }

    /// Deregisters memory: peers reach it no more.
    pub(crate) fn deregister(&mut self, registered: Registered) {
        if let Some(rma) = self.rma(registered.carrier) {
            rma.deregister(registered.registration);
            self.open[usize::from(registered.carrier.0)].registered -= 1;
            self.count_awaited();
        }
    }

    /// Notes that packets come or leave by a carrier, as long packets of flows do from some time on.
    #[cold]
    pub(crate) fn note_packets(&mut self, id: CarrierId) {
        self.open[usize::from(id.0)].has_packets = true;
        self.count_awaited();
    }

    /// Notes which carriers the packets to a peer take.
    pub(crate) fn carry_packets(&mut self, remote: &Remote) {
        for CarrierPath { carrier, .. } in &remote.carrier_paths {
            if let Some(open) = self.open.get_mut(usize::from(carrier.0)) {
                (open.has_packets, open.is_path) = (true, true);
            }
        }
        self.count_awaited();
    }

    /// Tells the carriers to a peer that it is gone.
    pub(crate) fn let_go(&mut self, remote: &Remote) {
        for CarrierPath { carrier, to } in &remote.carrier_paths {
            if let Some(carrier) = self.get_mut(*carrier) {
                carrier.let_go(to);
            }
        }
    }

    /// Returns whether packets to some peer take a carrier.
    #[inline]
    pub(crate) fn has_packets(&self, id: CarrierId) -> bool {
        self.open[usize::from(id.0)].has_packets
    }

    /// Returns whether packets of all lengths to some peer take a carrier.
    #[inline]
    pub(crate) fn is_path(&self, id: CarrierId) -> bool {
        self.open[usize::from(id.0)].is_path
    }

    /// Returns whether peers may be writing to memory of this process by a carrier.
    #[inline]
    pub(crate) fn has_registered(&self, id: CarrierId) -> bool {
        self.open[usize::from(id.0)].registered > 0
    }

    /// Something may come by a carrier that has packets, or writes to memory that is registered.
    fn count_awaited(&mut self) {
        let last = self.open.iter().rposition(|open| open.has_packets || open.registered > 0);
        self.awaited = last.map_or(0, |last| last as u8 + 1);
    }

    /// The names of all carriers, or of those up to the last one by which something may come. Behind it are
    /// carriers that only write.
    #[inline]
    pub(crate) fn looked_at(&self, all: bool) -> impl Iterator<Item = CarrierId> + use<> {
        (0..if all { self.open.len() as u8 } else { self.awaited }).map(CarrierId)
    }

    /// Prepares the carriers for a sleep; returns whether nothing has arrived of which their descriptors
    /// would not tell.
    #[inline]
    pub(crate) fn prepare_sleep(&mut self) -> bool {
        self.open.iter_mut().all(|open| open.carrier.prepare_sleep())
    }

    /// The descriptors to wait on.
    pub(crate) fn descriptors(&self) -> Descriptors {
        let mut descriptors = [None; CARRIERS_MAX];
        for (descriptor, carrier) in descriptors.iter_mut().zip(self.ids()) {
            *descriptor = self.attributes(carrier).descriptor;
        }
        descriptors
    }
}

/// Registered memory, and the carrier by which peers reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Registered {
    /// The carrier.
    pub carrier: CarrierId,
    /// The carrier's name for the memory.
    pub registration: Registration,
}

/// A carrier here, and the address to which it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarrierPath {
    /// The carrier here.
    pub carrier: CarrierId,
    /// The peer's address.
    pub to: Address,
}

/// A peer on another node.
pub struct Remote {
    carrier_paths: Box<[CarrierPath]>,
    rails: Rails,
    settings: Arc<FlowSettings>,
    /// The name of the peer.
    member: Member,
    pub(crate) conversation: Conversation,
    /// The remote memory access to the peer, as far as both ends have it.
    pub(crate) access: Option<Box<Access>>,
    /// Packets that the flow had sent again before it was parked.
    resent: u64,
    pub(crate) active: bool,
    /// Set while the flow is idle and still has its memory.
    pub(crate) cached: bool,
    pub(crate) coalescing: Coalescing,
    /// The eager writes of the peer that have arrived, by its names, of which the peer has not been told: the
    /// next message takes the word along, or the next pass but one.
    owed_fins: Vec<u32>,
    /// Set once a pass has left these words to the next message.
    has_left_fins: bool,
    /// The packets and bytes that have left on each rail, where there are several.
    sent: Box<[Sent]>,
}

/// The protocol that runs over the carriers to a peer.
pub(crate) enum Conversation {
    /// A reliable flow: the carriers may lose, repeat and reorder packets.
    Flow {
        /// The flow is made on first contact, and again when something happens after it has been parked.
        flow: Option<Box<Flow>>,
        parked: Option<Box<Parked>>,
    },
    /// A connection: the only carrier delivers every packet once and in order.
    Connection {
        /// The connection is made on first contact.
        connection: Option<Box<Connection>>,
    },
}

/// The access of a carrier to the memory of a peer. Packets to the peer take the same carrier, or others.
pub(crate) struct Access {
    /// The carrier, and the peer's address.
    pub(crate) carrier_path: CarrierPath,
    pub(crate) placement: Placement,
    /// The writes for the carrier.
    pub(crate) placements: Placements,
    /// Set while the carrier refuses the next write.
    pub(crate) refusal: Option<Refusal>,
    /// The trust in the carrier as the long path of the flow.
    distrust: Distrust,
    /// The messages that may take the long path.
    long_messages: LongPathMessages,
}

/// The way of an eager message to a peer on another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Packets as long as the carriers of the flow take.
    Packets,
    /// Packets of the long path, with so many bytes of head and payload at most.
    LongPackets(usize),
    /// The carrier of the long path writes it.
    EagerWrite,
}

/// The protocol to which messages for a peer are submitted.
pub(crate) enum Submission<'a> {
    /// A flow, of which packets may be lost.
    Flow(&'a mut Flow),
    /// A connection, of which no packets are lost.
    Connection(&'a mut Connection),
}

impl Submission<'_> {
    /// The largest message that fits a packet, head and payload, in bytes.
    #[inline]
    pub(crate) fn frame_max(&self) -> usize {
        match self {
            Self::Flow(flow) => flow.frame_max(),
            Self::Connection(connection) => connection.frame_max(),
        }
    }

    /// The largest message that still fits the packet of what was submitted before; 0 if none does.
    pub(crate) fn frame_room(&self) -> usize {
        match self {
            Self::Flow(flow) => flow.frame_room(),
            Self::Connection(connection) => connection.frame_room(),
        }
    }

    /// Bytes of messages that are queued, or not acknowledged.
    #[inline]
    pub(crate) fn queued_bytes(&self) -> usize {
        match self {
            Self::Flow(flow) => flow.queued_bytes(),
            Self::Connection(connection) => connection.queued_bytes(),
        }
    }

    /// Sends a message in order; both parts are copied.
    #[inline]
    pub(crate) fn submit_message(&mut self, head: &[u8], payload: &[u8]) {
        match self {
            Self::Flow(flow) => flow.submit_message(head, payload),
            Self::Connection(connection) => connection.submit_message(head, payload),
        }
    }

    /// Sends a range of a region.
    pub(crate) fn submit_data(&mut self, remote_key: u32, region: u32, range: Range<u64>) {
        match self {
            Self::Flow(flow) => flow.submit_data(remote_key, region, range),
            Self::Connection(connection) => connection.submit_data(remote_key, region, range),
        }
    }
}

/// Packets and bytes that have left on one rail.
#[derive(Clone, Copy, Default)]
struct Sent {
    packets: u64,
    bytes: u64,
}

/// The traffic on a rail to one peer, for `mpiexec --stats`.
pub struct RailTraffic {
    /// Index of the peer in the job.
    pub peer: u32,
    /// Number of the interface here.
    pub interface: u8,
    /// Packets that left on the rail.
    pub packets: u64,
    /// The bytes of these packets.
    pub bytes: u64,
    /// The number of times that the rail was silent while others answered.
    pub failures: u16,
    /// Set while the rail is silent and others answer.
    pub has_failed: bool,
}

#[cold]
fn make_flow(parked: &mut Option<Box<Parked>>, settings: &Arc<FlowSettings>, member: Member, jobs: &Jobs) -> Box<Flow> {
    let (secret, parties) = jobs.parties(member);
    Box::new(match parked.take() {
        Some(parked) => Flow::unpark(*parked, settings.clone(), secret, &parties),
        None => Flow::new(settings.clone(), secret, &parties),
    })
}

#[cold]
fn make_connection(settings: &Arc<FlowSettings>, member: Member, jobs: &Jobs) -> Box<Connection> {
    let (secret, parties) = jobs.parties(member);
    Box::new(Connection::new(settings.clone(), secret, &parties))
}

/// Makes the keys that prove questions and answers about the carriers.
#[cold]
fn make_keys(member: Member, jobs: &Jobs) -> Keys {
    let (secret, parties) = jobs.parties(member);
    Keys::new(secret, &parties)
}

impl Remote {
    /// Makes the record of a peer at the ends of these carriers: at least one, the better ones first.
    pub fn new(carriers: &[(RailCarrier, CarrierPath)], settings: FlowSettings) -> Self {
        let rails = Rails::new(&carriers.iter().map(|(carrier, _)| *carrier).collect::<Vec<_>>());
        let settings = Arc::new(FlowSettings { bulk_paths: rails.bulk_paths() as u8, ..settings });
        let carrier_paths = carriers.iter().map(|(_, carrier_path)| *carrier_path).collect();
        let counted = if rails.rails() > 1 { rails.rails() } else { 0 };
        Self {
            carrier_paths,
            rails,
            settings,
            member: Member::default(),
            conversation: Conversation::Flow { flow: None, parked: None },
            access: None,
            resent: 0,
            active: false,
            cached: false,
            coalescing: Coalescing::default(),
            owed_fins: Vec::new(),
            has_left_fins: false,
            sent: vec![Sent::default(); counted].into(),
        }
    }

    /// Makes the record of a peer at the end of a carrier that delivers every packet once and in order. The
    /// remote memory access of the carrier is used, as far as it has any.
    pub fn connected(
        carrier: RailCarrier,
        carrier_path: CarrierPath,
        placement: Option<Placement>,
        settings: FlowSettings,
    ) -> Self {
        let conversation = Conversation::Connection { connection: None };
        let remote = Self { conversation, ..Self::new(&[(carrier, carrier_path)], settings) };
        match placement {
            Some(placement) => remote.with_remote_memory(carrier_path, placement),
            None => remote,
        }
    }

    /// Adds the remote memory access of a carrier to the peer. The carrier may be one that takes no packets;
    /// then it must tell of its writes ([`Placement::tells`]).
    pub fn with_remote_memory(self, carrier_path: CarrierPath, placement: Placement) -> Self {
        let placements = Placements::new(placement.bytes_max);
        Self {
            access: Some(Box::new(Access {
                carrier_path,
                placement,
                placements,
                refusal: None,
                distrust: Distrust::default(),
                long_messages: LongPathMessages::default(),
            })),
            ..self
        }
    }

    /// Makes the carrier that writes to the peer ([`Self::with_remote_memory`]) the long path of the flow as
    /// well, with packets of at most `packet_size` bytes. Both ends do the same, but each may use its path
    /// otherwise.
    pub fn with_long_path(mut self, packet_size: usize, long_path: LongPathUse) -> Self {
        let settings = FlowSettings { long_packet_size: packet_size, ..(*self.settings).clone() };
        if let Some(access) = &mut self.access {
            access.long_messages = LongPathMessages::new(long_path);
        }
        Self { settings: Arc::new(settings), ..self }
    }

    /// The carrier that is the long path of the flow.
    #[inline]
    fn long(&self) -> Option<&Access> {
        self.access.as_deref().filter(|_| self.settings.long_packet_size > 0)
    }

    /// Tells the flow whether its long path takes packets. To be called before messages for that path are
    /// submitted or leave.
    pub(crate) fn look_at_long_path(&mut self, carriers: &mut Carriers, now: Instant) {
        let Some(Access { carrier_path: CarrierPath { carrier, to }, distrust, .. }) = self.long() else { return };
        let (carrier, to, is_trusted) = (*carrier, *to, distrust.is_over(now));
        let asked = carriers.get_mut(carrier).filter(|_| is_trusted).map(|carrier| carrier.long_path(&to));
        let state = asked.unwrap_or(LongPath::Closed);
        if state != LongPath::Closed && !carriers.has_packets(carrier) {
            carriers.note_packets(carrier);
        }
        if let Some(flow) = self.current_flow_mut() {
            flow.set_long_path(state);
        }
    }

    /// Closes the long path for some time: its carrier does not deliver what it has taken.
    #[cold]
    pub(crate) fn give_up_long_path(&mut self, now: Instant) {
        let has_worked = self.current_flow().is_some_and(Flow::has_long_path_worked);
        let Some(Access { distrust, long_messages, .. }) = self.access.as_deref_mut() else { return };
        long_messages.forget();
        if has_worked {
            distrust.succeeded();
        }
        distrust.failed(now);
        if let Some(flow) = self.current_flow_mut() {
            flow.set_long_path(LongPath::Closed);
        }
    }

    /// Returns whether the carrier of the long path does not deliver what it takes.
    pub(crate) fn has_long_path_failed(&self) -> bool {
        self.current_flow().is_some_and(Flow::has_long_path_failed)
    }

    /// Returns whether packets are in flight on the long path, or wait for it.
    pub(crate) fn needs_long_path(&self) -> bool {
        self.current_flow().is_some_and(Flow::needs_long_path)
    }

    /// Returns whether the long path was open at the last look.
    #[inline]
    pub(crate) fn has_long_path(&self) -> bool {
        self.current_flow().is_some_and(|flow| flow.long_path() != LongPath::Closed)
    }

    /// The carrier of the long path, if the path waits for it to take more.
    pub(crate) fn full_long_path(&self) -> Option<CarrierId> {
        let is_full = |flow: &Flow| flow.long_path() == LongPath::Full && flow.needs_long_path();
        self.access
            .as_ref()
            .filter(|_| self.current_flow().is_some_and(is_full))
            .map(|access| access.carrier_path.carrier)
    }

    /// The carrier of the long path, if `path` is that path.
    pub(crate) fn long_carrier(&self, path: usize) -> Option<CarrierPath> {
        self.long().filter(|_| self.settings.is_long(path)).map(|access| access.carrier_path)
    }

    /// The way of a message of `bytes` bytes, and of `length` with its head. To be asked once for each
    /// message. `may_write` is the attendance of this process if the carrier of the long path takes the
    /// message, and `None` if it does not.
    pub(crate) fn way(
        &mut self,
        (bytes, length): (u64, usize),
        may_write: Option<Attendance>,
        carriers: &mut Carriers,
        choice: &mut LongPathChoice,
        now: impl FnOnce() -> Instant,
    ) -> Way {
        let Some(flow) = self.current_flow().filter(|flow| flow.may_take_long_path(length)) else {
            return Way::Packets;
        };
        let sending = flow.sending(now());
        if may_write.is_some_and(|attendance| self.begins_eager_write(bytes, attendance, carriers, sending.now)) {
            return Way::EagerWrite;
        }
        let Some(access) = self.access.as_deref_mut() else { return Way::Packets };
        if !choice.begin(&mut access.long_messages, &sending, length as u64) {
            return Way::Packets;
        }
        self.look_at_long_path(carriers, sending.now);
        let most = self.current_flow().and_then(Flow::long_frame_max);
        if most.is_none()
            && let Some(access) = &mut self.access
        {
            access.long_messages.refused();
        }
        most.map_or(Way::Packets, Way::LongPackets)
    }

    /// Returns whether a message of `bytes` bytes that the carrier of the long path may write is an eager
    /// write: the flow is idle, and the path open.
    pub(crate) fn begins_eager_write(
        &mut self,
        bytes: u64,
        attendance: Attendance,
        carriers: &mut Carriers,
        now: Instant,
    ) -> bool {
        let is_idle = self.current_flow().is_some_and(|flow| flow.sending(now).is_idle);
        if !is_idle || !self.writes_unasked(bytes, attendance) {
            return false;
        }
        self.look_at_long_path(carriers, now);
        let is_open = self.current_flow().is_some_and(|flow| flow.long_path() == LongPath::Open);
        if let Some(access) = self.access.as_mut().filter(|_| is_open) {
            access.long_messages.forget();
            return true;
        }
        false
    }

    /// Returns whether the carrier of the long path writes a message of `bytes` bytes that finds the flow
    /// idle.
    fn writes_unasked(&self, bytes: u64, attendance: Attendance) -> bool {
        let takes_turns = attendance == Attendance::Late;
        self.long()
            .is_some_and(|access| access.placement.unasked && access.long_messages.is_eager_write(bytes, takes_turns))
    }

    /// Returns whether the message of `length` bytes that was submitted last to `flow`, the one to the peer,
    /// has taken the long path.
    pub(crate) fn has_taken_long_path(&self, flow: &Flow, length: usize) -> bool {
        flow.may_take_long_path(length)
            && self.access.as_ref().is_some_and(|access| access.long_messages.is_last_long())
    }

    /// Measures messages that may take the long path and are acknowledged just now.
    pub(crate) fn measure_long_path(&mut self, choice: &mut LongPathChoice, now: Instant) {
        let is_under_way = |access: &&mut Box<Access>| access.long_messages.is_under_way();
        let Conversation::Flow { flow: Some(flow), .. } = &self.conversation else { return };
        if let Some(access) = self.access.as_mut().filter(is_under_way) {
            choice.measure(&mut access.long_messages, &flow.sending(now));
        }
    }

    /// The flow to the peer, if there is one at present.
    #[inline]
    pub fn current_flow(&self) -> Option<&Flow> {
        match &self.conversation {
            Conversation::Flow { flow, .. } => flow.as_deref(),
            Conversation::Connection { .. } => None,
        }
    }

    /// The flow to the peer, to be changed.
    #[inline]
    pub(crate) fn current_flow_mut(&mut self) -> Option<&mut Flow> {
        match &mut self.conversation {
            Conversation::Flow { flow, .. } => flow.as_deref_mut(),
            Conversation::Connection { .. } => None,
        }
    }

    /// The connection to the peer, if there is one and something has happened in it.
    #[inline]
    pub fn current_connection(&self) -> Option<&Connection> {
        match &self.conversation {
            Conversation::Connection { connection } => connection.as_deref(),
            Conversation::Flow { .. } => None,
        }
    }

    /// The connection to the peer, to be changed.
    #[inline]
    pub(crate) fn current_connection_mut(&mut self) -> Option<&mut Connection> {
        match &mut self.conversation {
            Conversation::Connection { connection } => connection.as_deref_mut(),
            Conversation::Flow { .. } => None,
        }
    }

    /// The remote memory access to the peer, if its carrier writes.
    fn writing(&self) -> Option<&Access> {
        self.access.as_deref().filter(|access| access.placement.writes)
    }

    /// The remote memory access to the peer, if its carrier writes and reads.
    pub(crate) fn accessing(&self) -> Option<&Access> {
        self.writing().filter(|access| access.placement.reads)
    }

    /// The size in bytes from which on announced messages are written by the sender's carrier; the largest
    /// number means never.
    pub(crate) fn placed_min(&self) -> u64 {
        self.writing().map_or(u64::MAX, |access| access.placement.bytes_min)
    }

    /// The size in bytes above which a message is better announced, and then written by the sender's carrier,
    /// than sent eagerly; the largest number means never.
    pub(crate) fn placed_above(&self) -> u64 {
        self.writing().map_or(u64::MAX, |access| access.placement.eager_max)
    }

    /// The remote writes to the peer; `None` where no carrier writes.
    pub(crate) fn placements(&mut self) -> Option<&mut Placements> {
        let access = self.access.as_deref_mut().filter(|access| access.placement.writes)?;
        Some(&mut access.placements)
    }

    /// Returns whether there is a remote write to give to the carrier.
    #[inline]
    pub(crate) fn has_placements(&self) -> bool {
        self.access.as_ref().is_some_and(|access| access.placements.is_waiting())
    }

    /// Returns whether remote writes wait for the carrier, or are under way.
    #[inline]
    pub(crate) fn is_writing(&self) -> bool {
        self.access.as_ref().is_some_and(|access| !access.placements.is_idle())
    }

    /// Returns whether there is a connection to the peer, and no flow.
    #[inline(always)]
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(self.conversation, Conversation::Connection { .. })
    }

    /// The flow or connection to which messages are submitted; it is made on first contact.
    #[inline(always)]
    pub(crate) fn submission(&mut self, jobs: &Jobs) -> Submission<'_> {
        let (settings, member) = (&self.settings, self.member);
        match &mut self.conversation {
            Conversation::Flow { flow, parked } => {
                Submission::Flow(flow.get_or_insert_with(|| make_flow(parked, settings, member, jobs)))
            }
            Conversation::Connection { connection } => {
                Submission::Connection(connection.get_or_insert_with(|| make_connection(settings, member, jobs)))
            }
        }
    }

    /// The flow, made on first contact; `None` where there is a connection.
    #[inline]
    pub(crate) fn flow(&mut self, jobs: &Jobs) -> Option<&mut Flow> {
        let Conversation::Flow { flow, parked } = &mut self.conversation else { return None };
        Some(flow.get_or_insert_with(|| make_flow(parked, &self.settings, self.member, jobs)))
    }

    /// The connection, made on first contact; `None` where there is a flow.
    #[inline]
    pub(crate) fn connection(&mut self, jobs: &Jobs) -> Option<&mut Connection> {
        let Conversation::Connection { connection } = &mut self.conversation else { return None };
        Some(connection.get_or_insert_with(|| make_connection(&self.settings, self.member, jobs)))
    }

    /// The next event of the flow or connection.
    #[inline]
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        match &mut self.conversation {
            Conversation::Flow { flow, .. } => flow.as_mut()?.poll_event(),
            Conversation::Connection { connection } => connection.as_mut()?.poll_event(),
        }
    }

    /// Tells the flow or connection whether the program waits for something from the peer.
    pub(crate) fn watch(&mut self, watched: bool) {
        match &mut self.conversation {
            Conversation::Flow { flow: Some(flow), .. } => flow.watch(watched),
            Conversation::Connection { connection: Some(connection) } => connection.watch(watched),
            _ => {}
        }
    }

    /// Returns whether nothing is under way to the peer, and nothing is owed to it.
    pub(crate) fn is_idle(&self, carriers: &Carriers) -> bool {
        let held = |connection: &Connection| {
            let carrier_path = &self.carrier_paths[0];
            let has_packets = |carrier: &BoxedCarrier| {
                carrier.under_way(&carrier_path.to) > 0 && !cfg!(weft_mutant = "held_packets_forgotten")
            };
            !connection.is_idle()
                || connection.misses_packets()
                || carriers.get(carrier_path.carrier).is_some_and(has_packets)
        };
        self.current_flow().is_none_or(Flow::is_idle)
            && !self.current_connection().is_some_and(held)
            && !self.is_writing()
            && self.owed_fins.is_empty()
    }

    /// Owes the peer the word that its eager write of this name has arrived. Nobody waits for it.
    pub(crate) fn owe_fin(&mut self, request: u32) {
        self.owed_fins.push(request);
        self.has_left_fins = false;
    }

    /// Submits the words that are owed, ahead of a message that is about to be submitted.
    #[inline]
    pub(crate) fn submit_fins(&mut self, jobs: &Jobs) {
        if !self.owed_fins.is_empty() {
            self.submit_all_fins(jobs);
        }
    }

    #[inline(never)]
    fn submit_all_fins(&mut self, jobs: &Jobs) {
        for request in std::mem::take(&mut self.owed_fins) {
            self.submission(jobs).submit_message(Head::fin(request).as_bytes(), &[]);
        }
    }

    /// Submits the words that are owed, if a pass has left them to the next message before.
    #[inline]
    pub(crate) fn submit_left_fins(&mut self, jobs: &Jobs) {
        if !self.owed_fins.is_empty() && std::mem::replace(&mut self.has_left_fins, true) {
            self.submit_all_fins(jobs);
        }
    }

    /// Tells the connection, if there is one, how many of its packets the carrier still holds.
    #[inline]
    pub(crate) fn note_held(&mut self, carriers: &Carriers, now: Instant) {
        let carrier_path = self.carrier_paths[0];
        if let Some(connection) = self.current_connection_mut() {
            connection
                .hold(carriers.get(carrier_path.carrier).map_or(0, |carrier| carrier.under_way(&carrier_path.to)), now);
        }
    }

    /// Returns whether packets to the peer take an ordered carrier that leads to this address.
    pub(crate) fn sends_packets_to(&self, to: &Address) -> bool {
        self.is_ordered() && self.carrier_paths[0].to == *to
    }

    /// Returns whether remote writes to the peer take a carrier that leads to this address.
    pub(crate) fn writes_to(&self, to: &Address) -> bool {
        self.access.as_ref().is_some_and(|access| access.carrier_path.to == *to)
    }

    /// The counters of the flow or connection since it was parked last.
    pub fn counters(&self) -> Option<&Counters> {
        self.current_flow().map(Flow::counters).or_else(|| self.current_connection().map(Connection::counters))
    }

    /// The settings of the flow.
    pub(crate) fn settings(&self) -> &Arc<FlowSettings> {
        &self.settings
    }

    /// Shares the settings with another peer that has the same ones, so that they are kept once.
    pub(crate) fn share_settings<'a>(&mut self, mut known: impl Iterator<Item = &'a Arc<FlowSettings>>) {
        if let Some(other) = known.find(|other| **other == self.settings) {
            self.settings = other.clone();
        }
    }

    /// The index by which the peer knows this process.
    pub(crate) fn own_index(&self) -> u32 {
        self.member.own_index
    }

    /// Names the process to which the carriers lead.
    pub(crate) fn belongs_to(&mut self, member: Member) {
        self.member = member;
    }

    /// Bytes that the flow or connection occupies.
    pub(crate) fn memory_bytes(&self) -> usize {
        let connection = || self.current_connection().map(Connection::memory_bytes);
        self.current_flow().map(Flow::memory_bytes).or_else(connection).unwrap_or(0)
    }

    /// Gives back memory that the idle flow or connection keeps for what may come next.
    pub(crate) fn shrink(&mut self) {
        match &mut self.conversation {
            Conversation::Flow { flow: Some(flow), .. } => flow.shrink(),
            Conversation::Connection { connection: Some(connection) } => connection.shrink(),
            _ => {}
        }
    }

    /// Parks the flow if nothing happens in it. Otherwise it gives back the memory that it can spare; a
    /// connection always does so. Returns the counters of a parked flow.
    pub(crate) fn park(&mut self) -> Counters {
        if let Conversation::Flow { flow, parked } = &mut self.conversation
            && let Some(idle) = flow.take_if(|flow| flow.can_park())
        {
            let (kept, counters) = idle.park();
            *parked = Some(Box::new(kept));
            self.rails.shrink();
            self.resent += counters.resent();
            return counters;
        }
        self.shrink();
        Counters::default()
    }

    /// The number of packets that were sent again.
    pub(crate) fn resent(&self) -> u64 {
        self.resent + self.current_flow().map_or(0, |flow| flow.counters().resent())
    }

    /// The carrier and address that packets of a path of the flow take at present.
    pub(crate) fn carrier_path(&self, path: usize) -> (usize, CarrierPath) {
        let carrier = self.rails.carrier(path);
        (carrier, self.carrier_paths[carrier])
    }

    /// The best carrier and address to the peer for this role, if there is one.
    pub(crate) fn carrier_path_of(&self, role: Role) -> Option<CarrierPath> {
        (0..self.carriers())
            .find(|carrier| self.rails.named(*carrier).role == role)
            .map(|carrier| self.carrier_paths[carrier])
    }

    /// Every carrier: the interfaces that it joins, and the address to which it leads.
    pub fn carrier_paths(&self) -> impl Iterator<Item = (Ends, &CarrierPath)> {
        self.carrier_paths
            .iter()
            .enumerate()
            .map(|(carrier, carrier_path)| (self.rails.named(carrier).ends, carrier_path))
    }

    /// Bytes of messages to the peer that are queued or not acknowledged.
    pub(crate) fn queued_bytes(&self) -> usize {
        let connection = || self.current_connection().map(Connection::queued_bytes);
        self.current_flow().map(Flow::queued_bytes).or_else(connection).unwrap_or(0)
    }

    /// Takes in a packet of path validation that has come by a carrier for this role; returns the answer, and
    /// where it goes.
    pub(crate) fn handle_path_frame(
        &mut self,
        now: Instant,
        role: Role,
        bytes: &[u8],
        jobs: &Jobs,
    ) -> Option<(CarrierPath, PathFrame)> {
        let member = self.member;
        match self.rails.handle(role, bytes, || make_keys(member, jobs)) {
            Handled::Answer(carrier, answer) => return Some((self.carrier_paths[carrier], answer)),
            Handled::PeerLives => {
                if let Conversation::Flow { flow: Some(flow), .. } = &mut self.conversation {
                    flow.heard_beside(now);
                }
            }
            Handled::Nothing => {}
        }
        None
    }

    /// The number of challenges and responses that came and that the peer did not make.
    pub(crate) fn forged(&self) -> u64 {
        self.rails.forged().into()
    }

    /// The number of carriers to the peer.
    pub(crate) fn carriers(&self) -> usize {
        self.carrier_paths.len()
    }

    /// The challenge that is due on a carrier, and the address for it.
    #[inline]
    pub(crate) fn poll_challenge(
        &mut self,
        carrier: usize,
        now: Instant,
        jobs: &Jobs,
    ) -> Option<(CarrierPath, PathFrame)> {
        let member = self.member;
        let challenge = self.rails.poll_challenge(carrier, now, || make_keys(member, jobs))?;
        Some((self.carrier_paths[carrier], challenge))
    }

    /// Notes that the machine has refused a packet for a carrier.
    pub(crate) fn refused(&mut self, carrier: usize) {
        self.rails.refused(carrier);
    }

    /// Tells the flow which paths it may use from now on; called when the flow has sent all that it had.
    #[inline]
    pub(crate) fn steer(&mut self) {
        if let Conversation::Flow { flow: Some(flow), .. } = &mut self.conversation {
            self.rails.steer(flow);
        }
    }

    /// Counts packets that leave on a carrier.
    #[inline]
    pub(crate) fn note_sent(&mut self, carrier: usize, packets: usize, bytes: usize) {
        if let Some(sent) = self.sent.get_mut(usize::from(self.rails.named(carrier).rail)) {
            sent.packets += packets as u64;
            sent.bytes += bytes as u64;
        }
    }

    /// The traffic of each rail, where there are several.
    pub(crate) fn rail_traffic(&self, peer: u32) -> impl Iterator<Item = RailTraffic> {
        self.sent.iter().enumerate().filter_map(move |(rail, sent)| {
            let ((failures, has_failed), ends) = (self.rails.failures(rail), self.rails.ends(rail)?);
            let Sent { packets, bytes } = *sent;
            Some(RailTraffic { peer, interface: ends.own, packets, bytes, failures, has_failed })
        })
    }

    /// The time at which to look at this peer again even if nothing arrives.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let flow = match self.coalescing.ends() {
            None => match self.current_connection() {
                None => self.current_flow().and_then(Flow::next_timeout),
                Some(connection) => connection.next_timeout(),
            },
            ends => ends,
        };
        let writes = self.access.as_ref().filter(|access| access.placements.is_waiting());
        let writes = writes.map(|access| access.refusal.map_or(Instant(0), |refusal| refusal.retry_at()));
        flow.into_iter().chain(writes).chain(self.rails.next_timeout()).min()
    }

    /// The peer's addresses, and what this machine has said of packets on the way there, for a message to the
    /// user.
    pub(crate) fn addresses(&self, carriers: &Carriers) -> String {
        let mut text = String::new();
        for carrier_path in &self.carrier_paths {
            let gap = if text.is_empty() { "" } else { " and " };
            write!(text, "{gap}{}", carrier_path.to).expect("strings accept all text");
        }
        let carrier_paths = self.carrier_paths.iter().enumerate();
        let carrier_paths = carrier_paths.filter(|(index, carrier_path)| {
            self.carrier_paths[..*index].iter().all(|before| before.carrier != carrier_path.carrier)
        });
        for refusal in
            carrier_paths.filter_map(|(_, carrier_path)| carriers.get(carrier_path.carrier)?.diagnostics().last_refusal)
        {
            write!(text, "; this machine last refused a packet with: {refusal}").expect("strings accept all text");
        }
        text
    }

    /// The carriers in use, for `mpiexec --stats`.
    pub(crate) fn links(&self, carriers: &Carriers) -> &'static str {
        let name = |id| carriers.get(id).map_or("none", |carrier| carrier.attributes().name);
        let [messages, bulk] = [0, 1].map(|path| self.carrier_path(path).1.carrier);
        match (name(messages), name(bulk)) {
            ("xdp", "udp") => "xdp+udp",
            ("ethernet", "udp") => "ethernet+udp",
            ("xdp", "fabric") => "xdp+fabric",
            ("ethernet", "fabric") => "ethernet+fabric",
            ("xdp", "verbs") => "xdp+verbs",
            ("ethernet", "verbs") => "ethernet+verbs",
            (one, _) => one,
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_core::flow::{IDLE_BYTES_MAX, PACKET_SIZE_MAX, Regions};
    use weft_core::process::ProcessName;
    use weft_core::wire::Secret;

    use super::*;
    use crate::transport::EthernetAddress;

    struct NoRegions;

    impl Regions for NoRegions {
        fn read(&mut self, _region: u32, _offset: u64, _out: &mut [u8]) {
            unreachable!("no bulk data was submitted");
        }
    }

    #[test]
    fn a_connection_that_is_not_used_for_long_keeps_little() {
        let carrier = RailCarrier { role: Role::BulkData, rail: 0, ends: Ends::default(), standby: false };
        let carrier_path = CarrierPath { carrier: CarrierId(0), to: EthernetAddress { mac: [0; 6], port: 0 }.into() };
        let settings = FlowSettings { packet_size: PACKET_SIZE_MAX, ..FlowSettings::default() };
        let mut remote = Remote::connected(carrier, carrier_path, None, settings);
        let jobs = Jobs::new(ProcessName::of_only_job(0), Secret::new([1; 16]));
        let Submission::Connection(connection) = remote.submission(&jobs) else {
            panic!("there is no connection");
        };
        connection.submit_message(&[], &[7; 60_000]);
        while connection.poll_packet(Instant(0), &mut NoRegions).is_some() {
            connection.taken();
        }
        assert!(remote.memory_bytes() > 60_000);
        remote.park();
        assert!(remote.memory_bytes() <= IDLE_BYTES_MAX && remote.current_connection().is_some());
    }
}
