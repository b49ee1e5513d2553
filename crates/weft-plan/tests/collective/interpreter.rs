//! The interpreter of schedules: runs those of all ranks of a group against plain memory, strictly. A send
//! completes only with its receive, and every act that a schedule may not do is a failure (see [`run`]).

use std::collections::{HashMap, VecDeque};

use weft_plan::collective::{
    Buffer, ElementShape, Frontier, Items, Kind, PHASES_AHEAD, SCRATCH_ALIGNMENT, Schedule, Slice, Step,
};

/// A datatype: blocks of bytes in packed order, and the extent.
#[derive(Clone, Debug)]
pub(crate) struct Type {
    pub(crate) blocks: Vec<(i64, usize)>,
    pub(crate) extent: i64,
}

impl Type {
    pub(crate) fn bytes() -> Self {
        Self { blocks: vec![(0, 1)], extent: 1 }
    }

    pub(crate) fn size(&self) -> u64 {
        self.blocks.iter().map(|&(_, length)| length as u64).sum()
    }

    pub(crate) fn shape(&self) -> ElementShape {
        let true_lb = self.blocks.iter().map(|&(offset, _)| offset).min().unwrap_or(0);
        let end = self.blocks.iter().map(|&(offset, length)| offset + length as i64).max().unwrap_or(0);
        let addresses = self.addresses(0, 2);
        let contiguous = addresses.iter().enumerate().all(|(i, &address)| address == true_lb + i as i64);
        ElementShape { extent: self.extent, true_lb, true_extent: end - true_lb, size: self.size(), contiguous }
    }

    pub(crate) fn items(&self, count: u64) -> Items {
        Items { count, shape: self.shape() }
    }

    /// The address of each packed byte of `count` items based at `offset`.
    pub(crate) fn addresses(&self, offset: i64, count: u64) -> Vec<i64> {
        let mut addresses = Vec::new();
        for item in 0..count as i64 {
            for &(block, length) in &self.blocks {
                addresses.extend((0..length as i64).map(|byte| offset + item * self.extent + block + byte));
            }
        }
        addresses
    }
}

/// Bytes that exist, by address.
#[derive(Clone, Default)]
struct Cells {
    /// Address of the first byte.
    low: i64,
    cells: Vec<Option<u8>>,
}

impl Cells {
    fn get(&self, address: i64) -> Option<u8> {
        *self.cells.get(usize::try_from(address - self.low).ok()?)?
    }

    fn insert(&mut self, address: i64, byte: u8) {
        if self.cells.is_empty() {
            self.low = address;
        }
        if address < self.low {
            // Room for as many again, so that filling downwards is not quadratic.
            let more = (self.low - address) as usize + self.cells.len();
            self.cells.splice(0..0, std::iter::repeat_n(None, more));
            self.low -= more as i64;
        }
        let index = (address - self.low) as usize;
        if index >= self.cells.len() {
            self.cells.resize(index + 1, None);
        }
        self.cells[index] = Some(byte);
    }

    fn existing(&self) -> impl Iterator<Item = (i64, u8)> {
        (self.low..).zip(&self.cells).filter_map(|(address, cell)| cell.map(|byte| (address, byte)))
    }
}

impl PartialEq for Cells {
    fn eq(&self, other: &Self) -> bool {
        self.existing().eq(other.existing())
    }
}

impl std::fmt::Debug for Cells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.existing()).finish()
    }
}

/// Memory around a base address; bytes that may not be touched are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Memory {
    cells: Cells,
}

impl Memory {
    /// Allows `count` items at `offset` and puts packed bytes there.
    pub(crate) fn put(&mut self, kind: &Type, offset: i64, count: u64, packed: &[u8]) {
        let addresses = kind.addresses(offset, count);
        assert_eq!(addresses.len(), packed.len(), "a test gives as many bytes as it describes");
        addresses.into_iter().zip(packed).for_each(|(address, &byte)| self.cells.insert(address, byte));
    }

    /// Returns whether the first `count` items are those of `expected`, whatever follows.
    pub(crate) fn starts_with(&self, expected: &Self, kind: &Type, count: u64) -> bool {
        kind.addresses(0, count).into_iter().all(|address| self.cells.get(address) == expected.cells.get(address))
    }

    /// Allows `count` items at `offset`, with any content.
    pub(crate) fn allow(&mut self, kind: &Type, offset: i64, count: u64) {
        let bytes = vec![0xEE; (count * kind.size()) as usize];
        self.put(kind, offset, count, &bytes);
    }
}

/// A process of the group.
pub(crate) struct Process {
    pub(crate) schedule: Schedule,
    pub(crate) send: Memory,
    pub(crate) receive: Memory,
    /// Datatypes: of `Kind::Send`, `Kind::Receive`, and of `SendOf`, `ReceiveOf` by index.
    pub(crate) send_type: Type,
    pub(crate) receive_type: Type,
    pub(crate) send_types: Vec<Type>,
    pub(crate) receive_types: Vec<Type>,
}

impl Process {
    pub(crate) fn new(schedule: Schedule, send: (Memory, &Type), receive: (Memory, &Type)) -> Self {
        Self {
            schedule,
            send: send.0,
            receive: receive.0,
            send_type: send.1.clone(),
            receive_type: receive.1.clone(),
            send_types: Vec::new(),
            receive_types: Vec::new(),
        }
    }

    fn kind(&self, kind: Kind) -> Type {
        match kind {
            Kind::Bytes => Type::bytes(),
            Kind::Send => self.send_type.clone(),
            Kind::Receive => self.receive_type.clone(),
            Kind::SendOf(i) => self.send_types[i as usize].clone(),
            Kind::ReceiveOf(i) => self.receive_types[i as usize].clone(),
        }
    }

    fn addresses(&self, slice: Slice) -> Vec<i64> {
        self.kind(slice.kind).addresses(slice.offset, slice.count)
    }
}

/// `inout = input op inout` on the packed bytes of one item.
pub(crate) type Op = fn(input: &[u8], inout: &mut [u8]);

struct Running<'a> {
    process: Process,
    scratch: Cells,
    frontier: Frontier,
    /// Transfers under way.
    pending: usize,
    /// Steps that wait for data which a rank has not published yet.
    waiting: Vec<u32>,
    /// Phases that the rank has finished.
    finished: u32,
    /// The newest transfer that has begun, to each rank and from each rank.
    begun: HashMap<(u32, bool), u32>,
    op: Op,
    label: &'a str,
}

impl Running<'_> {
    /// Reads bytes that exist: no hole, nothing past the end of a buffer, no scratch that no step has
    /// written.
    fn read(&self, slice: Slice) -> Vec<u8> {
        let cells = match slice.buffer {
            Buffer::Send => &self.process.send.cells,
            Buffer::Receive => &self.process.receive.cells,
            Buffer::Scratch => &self.scratch,
        };
        let byte =
            |address| cells.get(address).unwrap_or_else(|| panic!("{}: {slice:?} read at {address}", self.label));
        self.process.addresses(slice).into_iter().map(byte).collect()
    }

    fn write(&mut self, slice: Slice, bytes: &[u8]) {
        let addresses = self.process.addresses(slice);
        assert_eq!(addresses.len(), bytes.len(), "{}: {slice:?} has another length", self.label);
        for (address, &byte) in addresses.into_iter().zip(bytes) {
            match slice.buffer {
                Buffer::Send => panic!("{}: write to the send buffer", self.label),
                Buffer::Receive => {
                    let cells = &mut self.process.receive.cells;
                    assert!(cells.get(address).is_some(), "{}: {slice:?} written at {address}", self.label);
                    cells.insert(address, byte);
                }
                Buffer::Scratch => {
                    let inside = 0 <= address && address < self.process.schedule.scratch as i64;
                    assert!(inside, "{}: {slice:?} written at {address} of scratch", self.label);
                    self.scratch.insert(address, byte);
                }
            }
        }
    }

    fn local(&mut self, step: Step) {
        let overlap = |a: Slice, b: Slice| {
            a.buffer == b.buffer && {
                let mut first = self.process.addresses(a);
                first.sort_unstable();
                self.process.addresses(b).iter().any(|address| first.binary_search(address).is_ok())
            }
        };
        match step {
            Step::Copy { from, to } => {
                assert!(!overlap(from, to), "{}: copy onto itself", self.label);
                let bytes = self.read(from);
                self.write(to, &bytes);
            }
            Step::Reduce { input, inout } => {
                assert!(!overlap(input, inout), "{}: reduction onto itself", self.label);
                assert_eq!((input.kind, inout.kind), (Kind::Receive, Kind::Receive), "{}", self.label);
                assert_eq!(input.count, inout.count, "{}", self.label);
                for slice in [input, inout] {
                    let aligned = slice.buffer != Buffer::Scratch || slice.count == 0 || self.is_aligned(slice);
                    assert!(aligned, "{}: {slice:?} unaligned", self.label);
                }
                let size = self.process.receive_type.size() as usize;
                let (left, mut right) = (self.read(input), self.read(inout));
                left.chunks(size).zip(right.chunks_mut(size)).for_each(|(left, right)| (self.op)(left, right));
                self.write(inout, &right);
            }
            Step::Join => {}
            Step::Send { .. } | Step::Multicast { .. } | Step::Receive { .. } => unreachable!("a transfer"),
            Step::Publish { .. }
            | Step::Collect { .. }
            | Step::Combine { .. }
            | Step::Expose { .. }
            | Step::Fetch { .. }
            | Step::Finish { .. } => {
                unreachable!("shared memory")
            }
        }
    }

    /// Does a step that publishes data, or takes published data; false: the data is not there yet.
    fn share(&mut self, rank: u32, step: Step, published: &mut HashMap<(u32, u32), Vec<u8>>) -> bool {
        let reads = matches!(step, Step::Collect { .. } | Step::Combine { .. });
        assert!(!reads || step.phase() >= Some(self.finished), "{}: {step:?} after its phase was finished", self.label);
        match step {
            Step::Publish { phase, slice } => {
                let is_new = published.insert((rank, phase), self.read(slice)).is_none();
                assert!(is_new, "{}: published twice in phase {phase}", self.label);
            }
            Step::Collect { phase, from, at, of, slice } => {
                let Some(bytes) = published.get(&(from, phase)) else { return false };
                assert_eq!(bytes.len() as u64, of, "{}: rank {from} published another length", self.label);
                let length = self.process.addresses(slice).len();
                self.write(slice, &bytes[at as usize..at as usize + length]);
            }
            Step::Combine { phase, from, at, inout } => {
                let Some(bytes) = published.get(&(from, phase)) else { return false };
                let addresses = self.process.addresses(inout);
                let is_run = addresses.windows(2).all(|pair| pair[1] == pair[0] + 1);
                assert!(is_run, "{}: {inout:?} is not one run of memory", self.label);
                assert_eq!(inout.kind, Kind::Receive, "{}", self.label);
                let size = self.process.receive_type.size() as usize;
                let mut right = self.read(inout);
                let left = &bytes[at as usize..at as usize + right.len()];
                left.chunks(size).zip(right.chunks_mut(size)).for_each(|(left, right)| (self.op)(left, right));
                self.write(inout, &right);
            }
            Step::Finish { phase } => self.finished = self.finished.max(phase + 1),
            _ => unreachable!("no shared memory"),
        }
        true
    }

    /// The number of phases that the rank has finished.
    fn has_finished(&self) -> u32 {
        if self.frontier.is_at_end() { u32::MAX - PHASES_AHEAD } else { self.finished }
    }

    /// Returns whether items in scratch are based at a multiple of the alignment plus a number of extents.
    fn is_aligned(&self, slice: Slice) -> bool {
        let extent = self.process.receive_type.extent;
        (0..=4096).any(|items| (slice.offset - items * extent) % SCRATCH_ALIGNMENT as i64 == 0)
    }

    /// Checks that two steps without an order touch no memory in common, unless both read it.
    fn check_races(&self) {
        let schedule = &self.process.schedule;
        // For each step, a bit for each step that comes before it.
        let words = schedule.len().div_ceil(64);
        let mut before = vec![vec![0_u64; words]; schedule.len()];
        for number in 0..schedule.len() {
            let mut own = before[number].clone();
            own[number / 64] |= 1 << (number % 64);
            for &later in schedule.after_end(number as u32) {
                assert!(later as usize > number, "{}: step {number} comes before {later}", self.label);
                before[later as usize].iter_mut().zip(&own).for_each(|(later, own)| *later |= own);
            }
        }
        let mut writers: HashMap<(u8, i64), usize> = HashMap::new();
        let mut readers: HashMap<(u8, i64), Vec<usize>> = HashMap::new();
        for (number, step) in schedule.steps().enumerate() {
            let waits_for =
                |earlier: usize| earlier == number || before[number][earlier / 64] >> (earlier % 64) & 1 == 1;
            let touched = |slice: Option<&Slice>| {
                let slice = slice.filter(|slice| slice.buffer != Buffer::Send);
                let addresses = slice.map(|slice| self.process.addresses(*slice)).unwrap_or_default();
                addresses
                    .into_iter()
                    .map(|address| (slice.map_or(0, |slice| slice.buffer as u8), address))
                    .collect::<Vec<_>>()
            };
            let (read, written) = step.slices();
            for byte in touched(read) {
                let ordered = writers.get(&byte).is_none_or(|&writer| waits_for(writer));
                assert!(ordered, "{}: {step:?} reads what another step may be writing", self.label);
                readers.entry(byte).or_default().push(number);
            }
            for byte in touched(written) {
                let ordered = writers.insert(byte, number).is_none_or(waits_for)
                    && readers.remove(&byte).is_none_or(|readers| readers.into_iter().all(waits_for));
                assert!(ordered, "{}: {step:?} writes what another step may be using", self.label);
            }
        }
    }
}

/// Most steps of a schedule of which every two steps are compared.
const COMPARED_MAX: usize = 300;

/// Runs all ranks to the end, in some order that `label` decides, and returns their receive buffers.
///
/// # Panics
/// When the schedules are wrong in one of these ways:
///
/// - A rank waits for ever.
/// - A message has no counterpart, or a length that the receiver does not expect.
/// - A step touches memory that is neither the user's nor scratch.
/// - A step reads scratch that no step has written, or writes the send buffer.
/// - Two steps that are not ordered touch the same memory.
/// - Transfers between two ranks do not begin in their order.
/// - A rank sends to itself.
/// - A local step has operands that overlap.
pub(crate) fn run(label: &str, op: Op, processes: Vec<Process>) -> Vec<Memory> {
    let size = processes.len() as u32;
    let begin = |process: Process| {
        let frontier = Frontier::new(&process.schedule);
        let (scratch, begun) = (Cells::default(), HashMap::new());
        Running { process, scratch, frontier, pending: 0, waiting: Vec::new(), finished: 0, begun, op, label }
    };
    let mut ranks: Vec<Running<'_>> = processes.into_iter().map(begin).collect();
    ranks.iter().filter(|rank| rank.process.schedule.len() <= COMPARED_MAX).for_each(Running::check_races);
    // The data that ranks have published, by rank and phase, and the memory that they have exposed.
    let mut published: HashMap<(u32, u32), Vec<u8>> = HashMap::new();
    let mut exposed: HashMap<(u32, u32), Slice> = HashMap::new();
    let phases: Vec<u32> = ranks.iter().map(|rank| rank.process.schedule.phases).collect();
    let nodes = nodes(&ranks);
    for (rank, of) in ranks.iter().enumerate() {
        // These ranks share memory, so they must count alike.
        let read = of.process.schedule.steps().filter_map(|step| match step {
            Step::Collect { from, .. } | Step::Combine { from, .. } | Step::Fetch { from, .. } => Some(*from),
            _ => None,
        });
        for from in read {
            let (own, theirs) = (phases[rank], phases[from as usize]);
            assert_eq!(own, theirs, "{label}: ranks {rank} and {from} count different phases: {phases:?}");
        }
    }
    let mut sends: HashMap<(u32, u32), VecDeque<Sent>> = HashMap::new();
    let mut receives: HashMap<(u32, u32), VecDeque<(u32, Slice)>> = HashMap::new();
    let mut random = weft_random::Random::new(
        label.bytes().fold(size as u64, |state, byte| (state ^ byte as u64).wrapping_mul(0x100_0000_01B3)),
    );
    let mut has_left = vec![false; ranks.len()];
    // Ranks that may go on.
    let mut able: Vec<u32> = (0..size).collect();
    while !able.is_empty() {
        let rank = able.swap_remove(random.below(able.len() as u64) as usize);
        let me = &mut ranks[rank as usize];
        // Any of the steps that may begin may be the first.
        let mut ready: Vec<u32> = std::iter::from_fn(|| me.frontier.take_next()).collect();
        if ready.is_empty() {
            if me.frontier.is_at_end() && !std::mem::replace(&mut has_left[rank as usize], true) {
                wake(&mut ranks, &mut able);
            }
            continue;
        }
        let number = ready.swap_remove(random.below(ready.len() as u64) as usize);
        ready.into_iter().for_each(|other| me.frontier.put_back(other));
        able.push(rank);
        let step = *me.process.schedule.step(number);
        // The data in the place of the publication must not be needed any more.
        if let Step::Publish { phase, .. } | Step::Expose { phase, .. } = step
            && let of_node = nodes[rank as usize]
            && let others = (0..size).filter(|other| *other != rank && nodes[*other as usize] == of_node)
            && others.map(|other| &ranks[other as usize]).any(|other| other.has_finished() + PHASES_AHEAD <= phase)
        {
            ranks[rank as usize].waiting.push(number);
            continue;
        }
        let me = &mut ranks[rank as usize];
        let (pair, slice) = match step {
            Step::Send { to, slice } => ((rank, to), slice),
            Step::Receive { from, slice } => ((from, rank), slice),
            shared if shared.phase().is_some() => {
                assert!(shared.phase() < Some(phases[rank as usize]), "{label}: {shared:?}");
                let is_done = match shared {
                    Step::Expose { phase, slice } => {
                        let addresses = me.process.addresses(slice);
                        let is_run = addresses.windows(2).all(|pair| pair[1] == pair[0] + 1);
                        assert!(is_run, "{label}: {slice:?} is not one run of memory");
                        assert!(exposed.insert((rank, phase), slice).is_none(), "{label}: exposed twice in {phase}");
                        true
                    }
                    Step::Fetch { phase, from, at, of, slice } => match exposed.get(&(from, phase)).copied() {
                        None => false,
                        // The data as it is now, not as it was when it was exposed; and only as long as that
                        // rank is in the operation.
                        Some(theirs) => {
                            assert_ne!(from, rank, "{label}: rank {rank} fetches from itself");
                            let other = &mut ranks[from as usize];
                            assert!(!other.frontier.is_at_end(), "{label}: rank {from} has left before {shared:?}");
                            let bytes = other.read(theirs);
                            assert_eq!(bytes.len() as u64, of, "{label}: rank {from} exposed another length");
                            let me = &mut ranks[rank as usize];
                            let length = me.process.addresses(slice).len();
                            me.write(slice, &bytes[at as usize..at as usize + length]);
                            true
                        }
                    },
                    _ => me.share(rank, shared, &mut published),
                };
                let me = &mut ranks[rank as usize];
                if !is_done {
                    me.waiting.push(number);
                    continue;
                }
                me.frontier.complete(&me.process.schedule, number);
                let is_news = matches!(shared, Step::Publish { .. } | Step::Expose { .. } | Step::Finish { .. });
                if is_news {
                    wake(&mut ranks, &mut able);
                }
                continue;
            }
            // The data goes to the ranks that receive from this rank and are sent nothing else. The memory is
            // free again at once.
            Step::Multicast { slice } => {
                let bytes = me.read(slice);
                me.frontier.start(&me.process.schedule, number);
                me.frontier.complete(&me.process.schedule, number);
                let is_for = |other: u32| {
                    let is_sent = |step: &Step| matches!(step, Step::Send { to, .. } if *to == other);
                    let is_received = |step: &Step| matches!(step, Step::Receive { from, .. } if *from == rank);
                    let steps = |rank: u32| ranks[rank as usize].process.schedule.steps();
                    steps(other).any(is_received) && !steps(rank).any(is_sent)
                };
                let others: Vec<u32> = (0..size).filter(|other| is_for(*other)).collect();
                for other in others {
                    sends.entry((rank, other)).or_default().push_back(Sent::Bytes(bytes.clone()));
                    meet(&mut ranks, (rank, other), &mut sends, &mut receives, &mut able);
                }
                continue;
            }
            local => {
                me.local(local);
                me.frontier.complete(&me.process.schedule, number);
                continue;
            }
        };
        assert!(pair.0 < size && pair.1 < size && pair.0 != pair.1, "{label}: {step:?} at rank {rank}");
        let (to_me, other) = (pair.1 == rank, if pair.1 == rank { pair.0 } else { pair.1 });
        let earlier = me.begun.insert((other, to_me), number);
        assert!(earlier.is_none_or(|earlier| earlier < number), "{label}: {step:?} at rank {rank} begins too late");
        me.frontier.start(&me.process.schedule, number);
        me.pending += 1;
        if to_me {
            receives.entry(pair).or_default().push_back((number, slice));
        } else {
            sends.entry(pair).or_default().push_back(Sent::Step(number, slice));
        }
        meet(&mut ranks, pair, &mut sends, &mut receives, &mut able);
    }
    for (rank, me) in ranks.iter().enumerate() {
        assert!(
            me.frontier.is_at_end(),
            "{label}: rank {rank} waits, for {} transfers: {:?}",
            me.pending,
            me.process.schedule
        );
    }
    let left = sends.values().map(VecDeque::len).chain(receives.values().map(VecDeque::len)).sum::<usize>();
    assert_eq!(left, 0, "{label}: messages without counterpart");
    ranks.into_iter().map(|me| me.process.receive).collect()
}

/// Makes all ranks look again that wait for others to publish or to finish.
fn wake(ranks: &mut [Running<'_>], able: &mut Vec<u32>) {
    for waiting in ranks.iter_mut() {
        waiting.waiting.drain(..).for_each(|number| waiting.frontier.put_back(number));
    }
    able.extend(0..ranks.len() as u32);
}

/// A number for the node of each rank: a rank that takes published data is on the node of the publishing
/// rank.
fn nodes(ranks: &[Running<'_>]) -> Vec<usize> {
    let mut nodes: Vec<usize> = (0..ranks.len()).collect();
    for (rank, of) in ranks.iter().enumerate() {
        for step in of.process.schedule.steps() {
            if let Step::Collect { from, .. } | Step::Combine { from, .. } | Step::Fetch { from, .. } = step {
                let (own, theirs) = (nodes[rank], nodes[*from as usize]);
                nodes.iter_mut().filter(|node| **node == theirs).for_each(|node| *node = own);
            }
        }
    }
    nodes
}

/// A send that waits for its receive.
enum Sent {
    /// A step that sends, and its slice.
    Step(u32, Slice),
    /// The bytes of a multicast.
    Bytes(Vec<u8>),
}

/// Carries out the transfers between two ranks of which both sides have begun.
fn meet(
    ranks: &mut [Running<'_>],
    pair: (u32, u32),
    sends: &mut HashMap<(u32, u32), VecDeque<Sent>>,
    receives: &mut HashMap<(u32, u32), VecDeque<(u32, Slice)>>,
    able: &mut Vec<u32>,
) {
    let (Some(leaving), Some(arriving)) = (sends.get_mut(&pair), receives.get_mut(&pair)) else { return };
    while !leaving.is_empty()
        && let Some((received, to)) = arriving.pop_front()
        && let Some(sent) = leaving.pop_front()
    {
        let (bytes, sent) = match sent {
            Sent::Step(sent, from) => (ranks[pair.0 as usize].read(from), Some(sent)),
            Sent::Bytes(bytes) => (bytes, None),
        };
        ranks[pair.1 as usize].write(to, &bytes);
        for (end, number) in sent.map(|sent| (pair.0, sent)).into_iter().chain([(pair.1, received)]) {
            let end_of = &mut ranks[end as usize];
            end_of.pending -= 1;
            end_of.frontier.complete(&end_of.process.schedule, number);
            able.push(end);
        }
    }
}
