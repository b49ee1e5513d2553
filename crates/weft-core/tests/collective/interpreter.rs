//! Runs the schedules of all ranks of a group against plain memory, strictly: a send completes only with its receive,
//! and whatever a schedule may not do is a failure (see [`run`]).

use std::collections::{HashMap, VecDeque};

use weft_core::collective::{
    Buffer, ElementShape, Items, Kind, Local, Round, SCRATCH_ALIGNMENT, Schedule, Slice, Transfer,
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

    /// Where each packed byte of `count` items based at `offset` is.
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
    /// Address of the first.
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

    /// Allows `count` items at `offset`, with any content.
    pub(crate) fn allow(&mut self, kind: &Type, offset: i64, count: u64) {
        let bytes = vec![0xEE; (count * kind.size()) as usize];
        self.put(kind, offset, count, &bytes);
    }
}

/// One process.
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
    round: usize,
    started: bool,
    pending: usize,
    op: Op,
    label: &'a str,
}

impl Running<'_> {
    fn round(&self) -> Option<&Round> {
        self.process.schedule.rounds.get(self.round)
    }

    /// Bytes that exist: no hole, no end of a buffer is read, no scratch that nobody wrote.
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

    fn local(&mut self, step: Local) {
        let overlap = |a: Slice, b: Slice| {
            a.buffer == b.buffer && {
                let mut first = self.process.addresses(a);
                first.sort_unstable();
                self.process.addresses(b).iter().any(|address| first.binary_search(address).is_ok())
            }
        };
        match step {
            Local::Copy { from, to } => {
                assert!(!overlap(from, to), "{}: copy onto itself", self.label);
                let bytes = self.read(from);
                self.write(to, &bytes);
            }
            Local::Reduce { input, inout } => {
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
        }
    }

    /// Items in scratch are based at a multiple of the alignment plus a number of extents.
    fn is_aligned(&self, slice: Slice) -> bool {
        let extent = self.process.receive_type.extent;
        (0..=4096).any(|items| (slice.offset - items * extent) % SCRATCH_ALIGNMENT as i64 == 0)
    }

    /// What a round receives must not overlap anything else that it transfers.
    fn check_round(&self, round: &Round) {
        let mut uses = Vec::new();
        for transfer in &round.transfers {
            let (slice, writes) = match *transfer {
                Transfer::Send { slice, .. } => (slice, false),
                Transfer::Receive { slice, .. } => (slice, true),
            };
            let key = |address| (slice.buffer as u8, address, writes);
            uses.extend(self.process.addresses(slice).into_iter().map(key));
        }
        uses.sort_unstable();
        for pair in uses.windows(2) {
            let ((buffer, address, wrote), (other_buffer, other_address, writes)) = (pair[0], pair[1]);
            let same = (buffer, address) == (other_buffer, other_address);
            assert!(!same || !wrote && !writes, "{}: transfers overlap in {round:?}", self.label);
        }
    }
}

/// Runs all ranks to the end and returns their receive buffers.
///
/// Panics if somebody waits for ever, a message has no counterpart or another length than expected, anything is touched
/// that is not the user's or inside scratch, scratch is read before it is written, the send buffer is written, transfers
/// of a round overlap, a rank talks to itself, or a local step works on overlapping memory.
pub(crate) fn run(label: &str, op: Op, processes: Vec<Process>) -> Vec<Memory> {
    let size = processes.len() as u32;
    let mut ranks: Vec<Running<'_>> = processes
        .into_iter()
        .map(|process| Running { process, scratch: Cells::default(), round: 0, started: false, pending: 0, op, label })
        .collect();
    let mut sends: HashMap<(u32, u32), VecDeque<Slice>> = HashMap::new();
    let mut receives: HashMap<(u32, u32), VecDeque<Slice>> = HashMap::new();
    let mut ready: VecDeque<u32> = (0..size).collect();
    while let Some(rank) = ready.pop_front() {
        let me = &mut ranks[rank as usize];
        let Some(round) = me.round().cloned() else { continue };
        if !me.started {
            me.check_round(&round);
            me.started = true;
            me.pending = round.transfers.len();
            for transfer in &round.transfers {
                let pair = match *transfer {
                    Transfer::Send { to, slice } => {
                        sends.entry((rank, to)).or_default().push_back(slice);
                        (rank, to)
                    }
                    Transfer::Receive { from, slice } => {
                        receives.entry((from, rank)).or_default().push_back(slice);
                        (from, rank)
                    }
                };
                assert!(pair.0 < size && pair.1 < size && pair.0 != pair.1, "{label}: {transfer:?} at rank {rank}");
                let (Some(leaving), Some(arriving)) = (sends.get_mut(&pair), receives.get_mut(&pair)) else { continue };
                while !leaving.is_empty() && !arriving.is_empty() {
                    let (leaving, arriving) = (leaving.pop_front().unwrap(), arriving.pop_front().unwrap());
                    let bytes = ranks[pair.0 as usize].read(leaving);
                    ranks[pair.1 as usize].write(arriving, &bytes);
                    for end in [pair.0, pair.1] {
                        ranks[end as usize].pending -= 1;
                        ready.push_back(end);
                    }
                }
            }
        }
        let me = &mut ranks[rank as usize];
        if me.pending == 0 {
            round.local.into_iter().for_each(|step| me.local(step));
            me.round += 1;
            me.started = false;
            ready.push_back(rank);
        }
    }
    for (rank, me) in ranks.iter().enumerate() {
        assert!(me.round().is_none(), "{label}: rank {rank} waits in round {}: {:?}", me.round, me.round());
    }
    let left = sends.values().chain(receives.values()).map(VecDeque::len).sum::<usize>();
    assert_eq!(left, 0, "{label}: messages without counterpart");
    ranks.into_iter().map(|me| me.process.receive).collect()
}
