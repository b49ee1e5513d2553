//! A simulated node: frames in queues between its processes, the processes that sleep, and the receives that
//! are posted for senders.

mod posted_receives;

use super::moments::{Clock, Moments};
use posted_receives::{Posted, Sharing, Table};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::rc::Rc;
use weft_core::message::Frame as Parsed;
use weft_engine::protocols::CostModel;
use weft_engine::transport::{
    Announcements, CollectiveSlots, Frames, Liveness, Node, NodeCosts, NodeProcessors, PeerFault, PostedReceives,
    RELOCATED_MAX, SleepMode, Sleeping, SlotCounts, Stamp,
};
use weft_plan::collective::PHASES_AHEAD;
use weft_random::Random;

/// The behaviour of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// Bytes of the ring between two processes.
    pub(super) ring_bytes: usize,
    /// The chance that a frame finds the ring full although it is not; cases per million.
    pub(super) refused: u32,
    /// The longest time until a frame is seen, nanoseconds.
    pub(super) delay_max: u64,
    /// The number of receives that a table has room for.
    pub(super) entries: usize,
    /// Says whether the node has more processes than processors.
    pub(super) crowded: bool,
    /// The costs that the processes share, in turns, and the frames after which the next ones come; 0: each
    /// process has its own.
    pub(super) costs: [CostModel; 2],
    pub(super) frames_per_costs: u64,
}

struct Frame {
    visible: u64,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Ring {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// The number of frames that have been taken.
    taken: u64,
    /// A frame that comes once more, after this number of other frames: no carrier of a node may repeat a
    /// frame.
    again: Option<(u32, Vec<u8>)>,
}

impl Ring {
    /// Delivers data a second time, when its region has been closed and its entry may belong to another
    /// region.
    fn repeat_data(&mut self, visible: u64, bytes: &[u8]) {
        if let Some((0, again)) = self.again.take_if(|(left, _)| *left == 0) {
            self.bytes += again.len();
            self.frames.push_back(Frame { visible, bytes: again });
        }
        match &mut self.again {
            Some((left, _)) => *left -= 1,
            None if matches!(Parsed::parse(bytes), Ok(Parsed::Data { .. })) => self.again = Some((20, bytes.to_vec())),
            None => {}
        }
    }
}

/// The state of a process that the other processes of the node see.
#[derive(Default)]
pub(super) struct Neighbour {
    /// The number of receives that the process has ever posted.
    pub(super) posted: u32,
    /// The receives of the process that are still posted.
    pub(super) posts: Vec<Posted>,
    pub(super) has_common: bool,
    attentive: bool,
    copies: Option<bool>,
    written: bool,
    armed: Option<SleepMode>,
    /// The time when the process wakes, if something has arranged for it.
    wake: Option<u64>,
    /// The time when the process's progress thread wakes since a neighbour has rung for it.
    asked: Option<u64>,
    dead: bool,
    faults: VecDeque<PeerFault>,
    /// The number of frames that the process has sent.
    sent: u64,
}

/// The state that two processes keep for the receives of one of them from the other.
#[derive(Default)]
pub(super) struct Pair {
    pub(super) opened: bool,
    pub(super) handled: u32,
    pub(super) settled: u32,
    pub(super) announcements: Announcements,
    pub(super) fetching: bool,
    pub(super) relocated: [Option<(u32, u64)>; RELOCATED_MAX],
    pub(super) sharing: Sharing,
}

/// The number of slots for collectives of each process, and the most bytes that a process can publish at
/// once.
pub(super) const SLOTS: usize = 4;
const PUBLISHED_MAX: usize = 1000;

/// The values that a process publishes for the collectives of one communicator.
#[derive(Default)]
struct Slot {
    finished: Stamp,
    cells: [Option<Published>; PHASES_AHEAD as usize],
}

struct Published {
    stamp: Stamp,
    visible: u64,
    bytes: Vec<u8>,
}

impl Slot {
    fn cell(&mut self, phase: u32) -> &mut Option<Published> {
        &mut self.cells[(phase % PHASES_AHEAD) as usize]
    }
}

/// The memory that the processes of a node share.
pub(super) struct NodeMemory {
    /// The process of each local rank.
    ranks: Vec<usize>,
    pub(super) neighbours: Vec<Neighbour>,
    rings: Vec<Ring>,
    pairs: Vec<Pair>,
    slots: Vec<Slot>,
    pub(super) habits: Habits,
    pub(super) random: Random,
    pub(super) serial: u32,
    clock: Clock,
    pub(super) frames: u64,
    pub(super) taken: u64,
    pub(super) shared: u64,
}

pub(super) type SharedMemory = Rc<RefCell<NodeMemory>>;

impl NodeMemory {
    pub(super) fn new(ranks: Vec<usize>, habits: Habits, clock: Clock, seed: u64) -> SharedMemory {
        let size = ranks.len();
        Rc::new(RefCell::new(Self {
            ranks,
            neighbours: (0..size).map(|_| Neighbour::default()).collect(),
            rings: (0..size * size).map(|_| Ring::default()).collect(),
            pairs: (0..size * size).map(|_| Pair::default()).collect(),
            slots: (0..size * SLOTS).map(|_| Slot::default()).collect(),
            habits,
            random: Random::new(seed),
            serial: 0,
            clock,
            frames: 0,
            taken: 0,
            shared: 0,
        }))
    }

    pub(super) fn pair(&mut self, receiver: usize, sender: usize) -> &mut Pair {
        let size = self.neighbours.len();
        &mut self.pairs[receiver * size + sender]
    }

    fn ring(&mut self, to: usize, from: usize) -> &mut Ring {
        let size = self.neighbours.len();
        &mut self.rings[to * size + from]
    }

    /// A number that changes with the costs.
    fn costs_version(&self) -> u64 {
        1 + self.frames.checked_div(self.habits.frames_per_costs).unwrap_or_default()
    }

    pub(super) fn is_inside_mpi(&self, who: usize) -> bool {
        self.neighbours[who].attentive
    }

    /// The time when other processes see a value that is written now.
    fn seen_at(&mut self) -> u64 {
        let delay_max = self.habits.delay_max;
        self.clock.now() + if delay_max > 0 { self.random.below(delay_max + 1) } else { 0 }
    }

    /// Wakes a process at a time, if it sleeps.
    fn wake(&mut self, who: usize, at: u64) {
        if cfg!(weft_mutant = "wake_up_lost") && self.random.chance(100_000) {
            return;
        }
        let neighbour = &mut self.neighbours[who];
        if neighbour.armed.is_some() {
            neighbour.wake = Some(neighbour.wake.map_or(at, |before| before.min(at)));
            self.clock.touch(self.ranks[who]);
        }
    }

    /// The time when a sleeping process wakes because of a neighbour.
    pub(super) fn wakes(&self, who: usize) -> Option<u64> {
        self.neighbours[who].wake
    }

    /// The time when the progress thread of a process wakes since a neighbour has rung for it.
    pub(super) fn is_asked_at(&self, who: usize) -> Option<u64> {
        self.neighbours[who].asked
    }

    /// Notes that the progress thread of a process is awake at this time.
    pub(super) fn take_asked(&mut self, who: usize, now: u64) {
        self.neighbours[who].asked.take_if(|at| *at <= now);
    }

    /// The next time when a process sees something that has been written already.
    fn seen_next(&self, own: usize) -> Option<u64> {
        let (now, size) = (self.clock.now(), self.neighbours.len());
        let rings = &self.rings[own * size..(own + 1) * size];
        let frames = rings.iter().filter_map(|ring| Some(ring.frames.front()?.visible));
        let cells = self.slots.iter().flat_map(|slot| &slot.cells).flatten().map(|cell| cell.visible);
        frames.chain(cells.filter(|visible| *visible > now)).min()
    }

    /// Returns whether something has come for a sleeping process, and no neighbour has woken the process.
    pub(super) fn is_forgotten(&mut self, who: usize) -> bool {
        let Neighbour { armed, wake, ref faults, .. } = self.neighbours[who];
        armed.is_some() && wake.is_none() && (!faults.is_empty() || self.is_pending(who))
    }

    /// The number of frames that the others have sent, and of their single copies and those of `who`.
    pub(super) fn acts_of_others(&self, who: usize) -> u64 {
        let others = self.neighbours.iter().enumerate().filter(|(other, _)| *other != who);
        others.map(|(_, neighbour)| neighbour.sent).sum::<u64>() + self.taken + self.shared
    }

    /// Ends a process; the other processes of the node hear of it.
    pub(super) fn die(&mut self, who: usize) {
        let now = self.clock.now();
        self.neighbours[who].dead = true;
        // The frames that the process has written are there.
        for to in 0..self.neighbours.len() {
            self.ring(to, who).frames.iter_mut().for_each(|frame| frame.visible = now);
        }
        for other in (0..self.neighbours.len()).filter(|other| *other != who) {
            let fault = PeerFault { peer: who, reason: "has died: the simulation has ended it".into() };
            self.neighbours[other].faults.push_back(fault);
            self.wake(other, now);
        }
    }

    /// Returns whether no frames are on their way between living processes, and each of them has heard of the
    /// deaths.
    pub(super) fn is_empty(&self) -> bool {
        let size = self.neighbours.len();
        let alive = |at: usize| !self.neighbours[at / size].dead;
        self.rings.iter().enumerate().all(|(at, ring)| !alive(at) || ring.frames.is_empty())
            && self.neighbours.iter().all(|neighbour| neighbour.dead || neighbour.faults.is_empty())
    }

    fn is_pending(&mut self, own: usize) -> bool {
        let now = self.clock.now();
        let arrived = |ring: &Ring| ring.frames.front().is_some_and(|frame| frame.visible <= now);
        let size = self.neighbours.len();
        self.neighbours[own].written || self.rings[own * size..(own + 1) * size].iter().any(arrived)
    }

    /// Takes the next frame for a process out of a ring that has one.
    fn take_frame(&mut self, own: usize) -> Option<(usize, Vec<u8>)> {
        let (now, size) = (self.clock.now(), self.neighbours.len());
        let first = self.random.below(size as u64) as usize;
        for turn in 0..size {
            let from = (first + turn) % size;
            let ring = self.ring(own, from);
            if ring.frames.front().is_some_and(|frame| frame.visible <= now) {
                let frame = ring.frames.pop_front()?;
                ring.bytes -= frame.bytes.len();
                ring.taken += 1;
                return Some((from, frame.bytes));
            }
        }
        None
    }
}

/// The view that a process has of a simulated node.
pub(super) struct SimNode {
    memory: SharedMemory,
    own: usize,
    moments: Moments,
}

impl SimNode {
    pub(super) fn new(memory: SharedMemory, own: usize, moments: Moments) -> Self {
        Self { memory, own, moments }
    }

    fn table(&self, receiver: usize, sender: usize) -> Table {
        Table::new(self.memory.clone(), receiver, sender, self.moments.clone())
    }
}

impl Node for SimNode {
    type Slots = Self;
    type Posted = Self;

    fn slots(&self) -> Option<&Self> {
        Some(self)
    }

    fn slots_mut(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    fn posted_receives(&self) -> Option<&Self> {
        Some(self)
    }

    fn posted_receives_mut(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    /// Processes hear of a death by themselves.
    fn liveness(&mut self) -> Option<&mut dyn Liveness> {
        None
    }

    /// The simulation gives each process its time.
    fn processors(&self) -> Option<&dyn NodeProcessors> {
        None
    }

    fn costs(&self) -> Option<&dyn NodeCosts> {
        (self.memory.borrow().habits.frames_per_costs > 0).then_some(self)
    }
}

/// Costs that change with the frames that have been sent on the node, and are being written at some of the
/// looks.
impl NodeCosts for SimNode {
    fn version(&self) -> u32 {
        self.memory.borrow().costs_version() as u32
    }

    fn read(&self) -> Option<Vec<u64>> {
        let memory = &mut *self.memory.borrow_mut();
        let model = memory.habits.costs[(memory.costs_version() % 2) as usize];
        memory.random.chance(900_000).then(|| model.values().collect())
    }

    /// The node keeps to its own.
    fn share(&self, _: &[u64]) {}
}

impl Frames for SimNode {
    fn own_local_rank(&self) -> usize {
        self.own
    }

    fn frame_max(&self) -> usize {
        self.memory.borrow().habits.ring_bytes / 4
    }

    fn try_send_with(&mut self, to: usize, head: &[u8], len: usize, fill: impl FnOnce(&mut [u8])) -> bool {
        self.moments.pass();
        {
            let mut memory = self.memory.borrow_mut();
            let NodeMemory { habits: Habits { ring_bytes, refused, .. }, .. } = *memory;
            let is_refused = memory.random.chance(refused);
            let ring = memory.ring(to, self.own);
            if is_refused || ring.bytes + head.len() + len > ring_bytes {
                return false;
            }
            // A ring has a table at its beginning.
            memory.pair(self.own, to).opened = true;
        }
        let mut bytes = Vec::with_capacity(head.len() + len);
        bytes.extend_from_slice(head);
        bytes.resize(head.len() + len, 0xEE);
        fill(&mut bytes[head.len()..]);
        let mut memory = self.memory.borrow_mut();
        memory.frames += 1;
        memory.neighbours[self.own].sent += 1;
        let mut visible = memory.seen_at();
        let ring = memory.ring(to, self.own);
        if let Some(last) = ring.frames.back() {
            visible = visible.max(last.visible);
        }
        if cfg!(weft_mutant = "region_used_after_its_generation") {
            ring.repeat_data(visible, &bytes);
        }
        ring.bytes += bytes.len();
        ring.frames.push_back(Frame { visible, bytes });
        memory.wake(to, visible);
        true
    }

    fn has_room(&mut self, to: usize, bytes: u64, _: u64) -> bool {
        self.moments.pass();
        let mut memory = self.memory.borrow_mut();
        let ring_bytes = memory.habits.ring_bytes as u64;
        memory.ring(to, self.own).bytes as u64 + bytes + bytes / 32 <= ring_bytes
    }

    fn taken_by(&self, to: usize) -> Option<u64> {
        let mut memory = self.memory.borrow_mut();
        let ring = memory.ring(to, self.own);
        (!ring.frames.is_empty()).then_some(ring.taken)
    }

    fn poll(&mut self, limit: usize, mut on_frame: impl FnMut(usize, &[u8])) -> usize {
        self.moments.pass();
        for count in 0..limit {
            let Some((from, frame)) = self.memory.borrow_mut().take_frame(self.own) else { return count };
            on_frame(from, &frame);
        }
        limit
    }

    fn is_pending(&mut self) -> bool {
        self.memory.borrow_mut().is_pending(self.own)
    }

    fn poll_fault(&mut self) -> Option<PeerFault> {
        self.memory.borrow_mut().neighbours[self.own].faults.pop_front()
    }
}

impl Sleeping for SimNode {
    type Sleeper = ();

    fn arm(&mut self, rest: SleepMode) -> bool {
        let mut memory = self.memory.borrow_mut();
        if memory.is_pending(self.own) || !memory.neighbours[self.own].faults.is_empty() {
            return false;
        }
        let wake = memory.seen_next(self.own);
        let neighbour = &mut memory.neighbours[self.own];
        (neighbour.armed, neighbour.wake) = (Some(rest), wake);
        true
    }

    fn disarm(&mut self) {
        let neighbour = &mut self.memory.borrow_mut().neighbours[self.own];
        (neighbour.armed, neighbour.wake) = (None, None);
    }

    fn wake_if_asleep(&mut self, local_rank: usize) {
        let mut memory = self.memory.borrow_mut();
        let at = memory.clock.now() + memory.habits.delay_max;
        memory.wake(local_rank, at);
    }

    fn nudge(&mut self) {
        let mut memory = self.memory.borrow_mut();
        let now = memory.clock.now();
        if memory.neighbours[self.own].armed == Some(SleepMode::Futex) {
            memory.wake(self.own, now);
        }
    }

    fn sleeper(&self) {}

    fn doorbell_fd(&self) -> RawFd {
        -1
    }

    fn drain_doorbell(&mut self) {}

    fn make_progress_bell(&mut self) -> Option<RawFd> {
        None
    }

    fn ring_for_progress(&mut self, local_rank: usize) {
        let mut memory = self.memory.borrow_mut();
        let at = memory.clock.now() + memory.habits.delay_max;
        memory.neighbours[local_rank].asked.get_or_insert(at);
    }

    fn awake(&self) -> usize {
        self.memory.borrow().neighbours.iter().filter(|neighbour| neighbour.armed.is_none()).count()
    }

    fn is_oversubscribed(&self) -> bool {
        self.memory.borrow().habits.crowded
    }
}

impl CollectiveSlots for SimNode {
    fn counts(&self) -> SlotCounts {
        SlotCounts { communicators: SLOTS, ..SlotCounts::default() }
    }

    fn published_max(&self, _: usize) -> usize {
        PUBLISHED_MAX
    }

    fn phases_ahead(&self, _: usize, _: usize) -> u32 {
        PHASES_AHEAD
    }

    fn publish(&mut self, slot: usize, stamp: Stamp, len: usize, fill: impl FnOnce(&mut [u8])) {
        assert!(len <= PUBLISHED_MAX, "more is published than there is room for");
        let mut bytes = vec![0; len];
        fill(&mut bytes);
        let mut memory = self.memory.borrow_mut();
        let visible = memory.seen_at();
        *memory.slots[self.own * SLOTS + slot].cell(stamp.phase) = Some(Published { stamp, visible, bytes });
    }

    fn with_published<R>(&self, of: usize, slot: usize, stamp: Stamp, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let bytes = {
            let mut memory = self.memory.borrow_mut();
            let now = memory.clock.now();
            let published = memory.slots[of * SLOTS + slot].cell(stamp.phase).as_ref();
            published.filter(|found| found.stamp == stamp && found.visible <= now)?.bytes.clone()
        };
        Some(take(&bytes))
    }

    fn is_published(&self, of: usize, slot: usize, stamp: Stamp) -> bool {
        self.with_published(of, slot, stamp, |_| ()).is_some()
    }

    fn finish_phases(&mut self, slot: usize, before: Stamp) {
        self.memory.borrow_mut().slots[self.own * SLOTS + slot].finished = before;
    }

    fn finished_phases(&self, of: usize, slot: usize) -> Stamp {
        self.memory.borrow().slots[of * SLOTS + slot].finished
    }
}

impl PostedReceives for SimNode {
    type Table = Table;

    fn own_table(&mut self, sender: usize) -> Option<Table> {
        self.memory.borrow_mut().pair(self.own, sender).opened = true;
        Some(self.table(self.own, sender))
    }

    fn any_source_table(&mut self) -> Option<Table> {
        self.memory.borrow_mut().neighbours[self.own].has_common = true;
        Some(self.table(self.own, self.own))
    }

    fn table_of(&mut self, receiver: usize) -> Option<Table> {
        let opened = self.memory.borrow_mut().pair(receiver, self.own).opened;
        opened.then(|| self.table(receiver, self.own))
    }

    fn announce_written(&mut self, receiver: usize) {
        {
            let mut memory = self.memory.borrow_mut();
            memory.neighbours[receiver].written = true;
            let now = memory.clock.now();
            memory.wake(receiver, now);
        }
        self.moments.pass();
    }

    fn take_written(&mut self) -> bool {
        std::mem::take(&mut self.memory.borrow_mut().neighbours[self.own].written)
    }

    fn set_inside_mpi(&self, waits: bool) {
        self.memory.borrow_mut().neighbours[self.own].attentive = waits;
    }

    fn is_inside_mpi(&self, peer: usize) -> bool {
        self.memory.borrow().is_inside_mpi(peer)
    }

    fn say_copies(&self, from_all: bool) {
        self.memory.borrow_mut().neighbours[self.own].copies = Some(from_all);
    }

    fn says_copies(&self, local_rank: usize) -> Option<bool> {
        self.memory.borrow().neighbours[local_rank].copies
    }
}
