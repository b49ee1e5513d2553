//! One-sided operations between processes that share no memory (MPI-5.0 §12): the records that origin and
//! target exchange, and the lock that a target keeps.
//!
//! Records travel in batches. A batch is a message of the window's context, a sequence of records, and the
//! target carries out its records one after the other. The batches of one process arrive in the order in
//! which they were sent, so accumulates keep their order (§12.7.2). The target answers a [`Record::Flush`] or
//! [`Record::Complete`] when the operations before it are done. Only large puts and gets have messages of
//! their own, which go straight to the memory of the other side: their record says by which tag.
//!
//! | record | what the receiver does |
//! |---|---|
//! | `Put`, `PutLarge` | writes the bytes that follow, or receives the message of this tag |
//! | `Get`, `GetLarge` | answers with `Data`, or sends a message of this tag |
//! | `Accumulate` | computes, element by element |
//! | `GetAccumulate`, `CompareAndSwap` | compute, element by element, and answer with `Data` |
//! | `AccumulateLarge` | receives the message of this tag and computes with it, before the next record |
//! | `Layout` | keeps the target datatype of later records under a number |
//! | `Flush` | answers with `Done` when all that came before it is done |
//! | `Lock`, `Unlock` | see [`LockQueue`]; answers with `Done` |
//! | `Post`, `Complete` | counts it: general active target synchronization (§12.5.2) |
//! | `Data`, `Done` | ends the operation that waits for it, with an error class if it is not 0 |
//!
//! All integers are little-endian. A batch comes from another process and is not trusted: reading ends at the
//! first fault, and the code that carries out a record checks what the record names.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::layout::Element;
use crate::reduce::{self, Op};

/// A place in the target's window: packed bytes of items of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetLocation {
    /// Bytes from the beginning of the window to the base of the first item; in a dynamic window, the base's
    /// address.
    pub offset: u64,
    /// The items; `None`: plain bytes, as many as the record has.
    pub items: Option<Items>,
}

/// Items of a target datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items {
    /// The number under which the origin sent the layout.
    pub layout: u32,
    /// The number of items.
    pub count: u64,
    /// Packed bytes of the items that come before the bytes of this record.
    pub skip: u64,
}

/// A request of one process to another, or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above and the names say what each field is")]
pub enum Record<'a> {
    Put {
        location: TargetLocation,
        data: &'a [u8],
    },
    PutLarge {
        location: TargetLocation,
        bytes: u64,
        tag: i32,
    },
    Get {
        location: TargetLocation,
        bytes: u32,
        reply: u32,
    },
    GetLarge {
        location: TargetLocation,
        bytes: u64,
        tag: i32,
    },
    Accumulate {
        location: TargetLocation,
        op: Op,
        element: Element,
        data: &'a [u8],
    },
    AccumulateLarge {
        location: TargetLocation,
        op: Op,
        element: Element,
        bytes: u64,
        tag: i32,
    },
    /// `data` is empty where the operation uses none.
    GetAccumulate {
        location: TargetLocation,
        op: Op,
        element: Element,
        bytes: u32,
        reply: u32,
        data: &'a [u8],
    },
    /// `data` is the value to compare with, then the new one.
    CompareAndSwap {
        offset: u64,
        element: Element,
        reply: u32,
        data: &'a [u8],
    },
    Layout {
        number: u32,
        description: &'a [u8],
    },
    Flush {
        reply: u32,
    },
    Lock {
        exclusive: bool,
        reply: u32,
    },
    Unlock {
        reply: u32,
    },
    Post,
    Complete,
    Data {
        reply: u32,
        data: &'a [u8],
    },
    Done {
        reply: u32,
        class: u32,
    },
}

const PUT: u8 = 1;
const PUT_LARGE: u8 = 2;
const GET: u8 = 3;
const GET_LARGE: u8 = 4;
const ACCUMULATE: u8 = 5;
const GET_ACCUMULATE: u8 = 6;
const COMPARE_AND_SWAP: u8 = 7;
const LAYOUT: u8 = 8;
const FLUSH: u8 = 9;
const LOCK: u8 = 10;
const UNLOCK: u8 = 11;
const POST: u8 = 12;
const COMPLETE: u8 = 13;
const DATA: u8 = 14;
const DONE: u8 = 15;
const ACCUMULATE_LARGE: u8 = 16;

/// Bit of the second byte: the location is of items, or the lock is exclusive.
const WITH_OPTION: u8 = 1;

/// Bytes of the longest record beside its data.
pub const RECORD_MAX: usize = 48;

impl Record<'_> {
    /// Appends the record to a batch.
    ///
    /// # Panics
    /// When its data has 2³² bytes or more.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Put { location, data } => {
                head(out, PUT, &location, 0, 0);
                with_location(out, &location);
                with_data(out, data);
            }
            Self::PutLarge { location, bytes, tag } => {
                head(out, PUT_LARGE, &location, 0, 0);
                with_location(out, &location);
                long(out, bytes);
                word(out, tag as u32);
            }
            Self::Get { location, bytes, reply } => {
                head(out, GET, &location, 0, 0);
                with_location(out, &location);
                word(out, bytes);
                word(out, reply);
            }
            Self::GetLarge { location, bytes, tag } => {
                head(out, GET_LARGE, &location, 0, 0);
                with_location(out, &location);
                long(out, bytes);
                word(out, tag as u32);
            }
            Self::Accumulate { location, op, element, data } => {
                head(out, ACCUMULATE, &location, op as u8, element as u8);
                with_location(out, &location);
                with_data(out, data);
            }
            Self::AccumulateLarge { location, op, element, bytes, tag } => {
                head(out, ACCUMULATE_LARGE, &location, op as u8, element as u8);
                with_location(out, &location);
                long(out, bytes);
                word(out, tag as u32);
            }
            Self::GetAccumulate { location, op, element, bytes, reply, data } => {
                head(out, GET_ACCUMULATE, &location, op as u8, element as u8);
                with_location(out, &location);
                word(out, bytes);
                word(out, reply);
                with_data(out, data);
            }
            Self::CompareAndSwap { offset, element, reply, data } => {
                out.extend_from_slice(&[COMPARE_AND_SWAP, 0, 0, element as u8]);
                long(out, offset);
                word(out, reply);
                with_data(out, data);
            }
            Self::Layout { number, description } => {
                out.extend_from_slice(&[LAYOUT, 0, 0, 0]);
                word(out, number);
                with_data(out, description);
            }
            Self::Flush { reply } => short(out, FLUSH, false, reply),
            Self::Lock { exclusive, reply } => short(out, LOCK, exclusive, reply),
            Self::Unlock { reply } => short(out, UNLOCK, false, reply),
            Self::Post => short(out, POST, false, 0),
            Self::Complete => short(out, COMPLETE, false, 0),
            Self::Data { reply, data } => {
                short(out, DATA, false, reply);
                with_data(out, data);
            }
            Self::Done { reply, class } => {
                short(out, DONE, false, reply);
                word(out, class);
            }
        }
    }
}

fn head(out: &mut Vec<u8>, kind: u8, location: &TargetLocation, op: u8, element: u8) {
    out.extend_from_slice(&[kind, if location.items.is_some() { WITH_OPTION } else { 0 }, op, element]);
}

fn short(out: &mut Vec<u8>, kind: u8, option: bool, value: u32) {
    out.extend_from_slice(&[kind, u8::from(option), 0, 0]);
    word(out, value);
}

fn with_location(out: &mut Vec<u8>, location: &TargetLocation) {
    long(out, location.offset);
    if let Some(items) = location.items {
        word(out, items.layout);
        long(out, items.count);
        long(out, items.skip);
    }
}

fn with_data(out: &mut Vec<u8>, data: &[u8]) {
    word(out, u32::try_from(data.len()).expect("records are short"));
    out.extend_from_slice(data);
}

fn word(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn long(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// The records of a batch, one after the other.
pub struct Records<'a> {
    rest: &'a [u8],
}

/// The error that the rest of a batch is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRecord;

impl<'a> Records<'a> {
    /// Begins to read the bytes of a message.
    pub fn new(batch: &'a [u8]) -> Self {
        Self { rest: batch }
    }

    /// The number of bytes that have not been read.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    fn word(&mut self) -> Result<u32, NoRecord> {
        let (head, rest) = self.rest.split_first_chunk::<4>().ok_or(NoRecord)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*head))
    }

    fn long(&mut self) -> Result<u64, NoRecord> {
        let (head, rest) = self.rest.split_first_chunk::<8>().ok_or(NoRecord)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*head))
    }

    fn data(&mut self) -> Result<&'a [u8], NoRecord> {
        let length = self.word()? as usize;
        let (data, rest) = self.rest.split_at_checked(length).ok_or(NoRecord)?;
        self.rest = rest;
        Ok(data)
    }

    fn location(&mut self, with_items: bool) -> Result<TargetLocation, NoRecord> {
        let offset = self.long()?;
        let items = if with_items {
            Some(Items { layout: self.word()?, count: self.long()?, skip: self.long()? })
        } else {
            None
        };
        Ok(TargetLocation { offset, items })
    }

    fn read(&mut self) -> Result<Record<'a>, NoRecord> {
        let (&[kind, option, op, element], rest) = self.rest.split_first_chunk::<4>().ok_or(NoRecord)?;
        self.rest = rest;
        let option = option & WITH_OPTION != 0;
        let computed = || {
            let op = *Op::ALL.iter().find(|known| **known as u8 == op).ok_or(NoRecord)?;
            let element = find_element(element)?;
            if reduce::supports(op, element) { Ok((op, element)) } else { Err(NoRecord) }
        };
        Ok(match kind {
            PUT => Record::Put { location: self.location(option)?, data: self.data()? },
            PUT_LARGE => {
                Record::PutLarge { location: self.location(option)?, bytes: self.long()?, tag: self.word()? as i32 }
            }
            GET => Record::Get { location: self.location(option)?, bytes: self.word()?, reply: self.word()? },
            GET_LARGE => {
                Record::GetLarge { location: self.location(option)?, bytes: self.long()?, tag: self.word()? as i32 }
            }
            ACCUMULATE => {
                let (op, element) = computed()?;
                Record::Accumulate { location: self.location(option)?, op, element, data: self.data()? }
            }
            ACCUMULATE_LARGE => {
                let (op, element) = computed()?;
                let location = self.location(option)?;
                Record::AccumulateLarge { location, op, element, bytes: self.long()?, tag: self.word()? as i32 }
            }
            GET_ACCUMULATE => {
                let (op, element) = computed()?;
                let location = self.location(option)?;
                let (bytes, reply) = (self.word()?, self.word()?);
                Record::GetAccumulate { location, op, element, bytes, reply, data: self.data()? }
            }
            COMPARE_AND_SWAP => {
                let element = find_element(element)?;
                Record::CompareAndSwap { offset: self.long()?, element, reply: self.word()?, data: self.data()? }
            }
            LAYOUT => Record::Layout { number: self.word()?, description: self.data()? },
            FLUSH => Record::Flush { reply: self.word()? },
            LOCK => Record::Lock { exclusive: option, reply: self.word()? },
            UNLOCK => Record::Unlock { reply: self.word()? },
            POST => self.word().map(|_| Record::Post)?,
            COMPLETE => self.word().map(|_| Record::Complete)?,
            DATA => Record::Data { reply: self.word()?, data: self.data()? },
            DONE => Record::Done { reply: self.word()?, class: self.word()? },
            _ => return Err(NoRecord),
        })
    }
}

fn find_element(number: u8) -> Result<Element, NoRecord> {
    Element::ALL.into_iter().find(|element| *element as u8 == number).ok_or(NoRecord)
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, NoRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}

/// A process that wants a lock, or has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The rank of the process in the window's group.
    pub rank: u32,
    /// The process wants the lock alone (`MPI_LOCK_EXCLUSIVE`).
    pub exclusive: bool,
    /// The number by which the process is answered.
    pub reply: u32,
}

/// The lock of one window at its target (MPI-5.0 §12.5.3): first come, first served, with one exception. A
/// claim that shares the lock never waits behind a claim that does not have it yet.
///
/// The exception avoids a deadlock. A process that asks for the locks of all targets (`MPI_Win_lock_all`)
/// holds some locks while it waits for others. Without the exception it could wait, at one target, behind an
/// exclusive claim of a process that waits, at another target, for the first process. The price: as long as
/// some process always shares the lock, an exclusive claim is never granted.
#[derive(Debug, Default)]
pub struct LockQueue {
    holders: Vec<Claim>,
    waiting: VecDeque<Claim>,
}

impl LockQueue {
    /// Takes a process's claim; returns whether the process has the lock at once.
    pub fn request(&mut self, claim: Claim) -> bool {
        // A release grants the lock to as many waiting claims as possible. So an exclusive claim finds the
        // lock free only if no claim waits.
        let in_line = cfg!(weft_mutant = "shared_lock_waits_in_line") && !self.waiting.is_empty();
        if self.is_free_for(&claim) && !in_line {
            self.holders.push(claim);
            return true;
        }
        self.waiting.push_back(claim);
        false
    }

    fn is_free_for(&self, claim: &Claim) -> bool {
        self.holders.is_empty() || !claim.exclusive && self.holders.iter().all(|holder| !holder.exclusive)
    }

    /// Takes the lock from a process, if it has the lock; calls `grant` for each claim that has it then.
    pub fn release(&mut self, rank: u32, grant: impl FnMut(Claim)) {
        if let Some(index) = self.holders.iter().position(|holder| holder.rank == rank) {
            self.holders.swap_remove(index);
        }
        self.grant(grant);
    }

    /// Drops the lock and the claims of a process that is gone.
    pub fn forget(&mut self, rank: u32, grant: impl FnMut(Claim)) {
        self.holders.retain(|holder| holder.rank != rank);
        self.waiting.retain(|claim| claim.rank != rank);
        self.grant(grant);
    }

    fn grant(&mut self, mut grant: impl FnMut(Claim)) {
        let Some(first) = self.waiting.front().copied().filter(|claim| self.is_free_for(claim)) else { return };
        let Self { holders, waiting } = self;
        // One exclusive claim, or all shared ones.
        waiting.retain(|claim| {
            let has_it = if first.exclusive { *claim == first } else { !claim.exclusive };
            if has_it {
                holders.push(*claim);
                grant(*claim);
            }
            !has_it
        });
    }

    /// Returns whether a claim waits until the lock is given up.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The ranks that have the lock.
    pub fn holders(&self) -> impl Iterator<Item = u32> + '_ {
        self.holders.iter().map(|holder| holder.rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Record<'static>> {
        let plain = TargetLocation { offset: 1 << 40, items: None };
        let typed = TargetLocation { offset: 16, items: Some(Items { layout: 3, count: 5, skip: 7 }) };
        alloc::vec![
            Record::Put { location: plain, data: b"abc" },
            Record::PutLarge { location: typed, bytes: 1 << 33, tag: 9 },
            Record::Get { location: typed, bytes: 8, reply: 4 },
            Record::GetLarge { location: plain, bytes: 1 << 20, tag: 8 },
            Record::Accumulate { location: plain, op: Op::Sum, element: Element::Float64, data: b"12345678" },
            Record::AccumulateLarge { location: typed, op: Op::Max, element: Element::Int16, bytes: 1 << 20, tag: 5 },
            Record::GetAccumulate {
                location: typed,
                op: Op::NoOp,
                element: Element::Int32,
                bytes: 4,
                reply: 1,
                data: b"",
            },
            Record::CompareAndSwap { offset: 8, element: Element::Int64, reply: 2, data: b"0123456789abcdef" },
            Record::Layout { number: 3, description: b"xyz" },
            Record::Flush { reply: 5 },
            Record::Lock { exclusive: true, reply: 6 },
            Record::Lock { exclusive: false, reply: 7 },
            Record::Unlock { reply: 8 },
            Record::Post,
            Record::Complete,
            Record::Data { reply: 9, data: b"q" },
            Record::Done { reply: 10, class: 3 },
        ]
    }

    /// Records of all kinds in one batch.   Expect: the same records come out; none is longer than
    /// `RECORD_MAX` beside its data.
    #[test]
    fn a_batch_is_read_as_it_was_written() {
        let mut batch = Vec::new();
        for record in records() {
            let before = batch.len();
            record.write(&mut batch);
            assert!(batch.len() - before <= RECORD_MAX + 16);
        }
        let read: Vec<_> = Records::new(&batch).map(Result::unwrap).collect();
        assert_eq!(read, records());
    }

    /// A batch is cut at each byte, and damaged in each byte.   Expect: the records before the fault are
    /// read, then none; never a panic.
    #[test]
    fn a_damaged_batch_ends() {
        let mut batch = Vec::new();
        records().iter().for_each(|record| record.write(&mut batch));
        for at in 0..batch.len() {
            assert!(Records::new(&batch[..at]).count() <= records().len());
            let mut damaged = batch.clone();
            damaged[at] ^= 0xff;
            assert!(Records::new(&damaged).count() <= damaged.len());
        }
    }

    fn claim(rank: u32, exclusive: bool) -> Claim {
        Claim { rank, exclusive, reply: rank }
    }

    /// Readers have the lock, a writer comes, then another reader.   Expect: the late reader shares it, and
    /// the writer has it when all have gone. Readers and another writer that come meanwhile wait in the order
    /// of asking, and the readers have it together.
    #[test]
    fn a_lock_is_shared_at_once_and_otherwise_given_in_the_order_of_asking() {
        let mut lock = LockQueue::default();
        assert!(lock.request(claim(1, false)) && lock.request(claim(2, false)));
        assert!(!lock.request(claim(3, true)) && lock.request(claim(4, false)));
        let mut granted = Vec::new();
        for rank in [1, 2] {
            lock.release(rank, |claim| granted.push(claim.rank));
            assert!(granted.is_empty());
        }
        lock.release(4, |claim| granted.push(claim.rank));
        assert_eq!(granted, [3]);
        assert!(!lock.request(claim(5, false)) && !lock.request(claim(6, true)) && !lock.request(claim(7, false)));
        lock.release(3, |claim| granted.push(claim.rank));
        assert_eq!(granted, [3, 5, 7]);
        lock.release(5, |claim| granted.push(claim.rank));
        lock.release(7, |claim| granted.push(claim.rank));
        assert_eq!(granted, [3, 5, 7, 6]);
    }

    /// Some processes take the locks of all targets, one after the other in any order; others want one lock
    /// alone; all sorts of schedules. Expect: every process comes to an end, since no holder of a lock waits
    /// for a process that waits itself.
    #[test]
    fn who_locks_all_targets_and_who_wants_one_alone_never_wait_for_each_other() {
        const TARGETS: usize = 4;
        for seed in 0..500_u64 {
            let mut random = weft_random::Random::new(seed);
            let mut next = move |limit: usize| random.below(limit as u64) as usize;
            let mut locks: Vec<LockQueue> = (0..TARGETS).map(|_| LockQueue::default()).collect();
            // For each process: the locks it still asks for, the lock it waits for, and the locks it has.
            let wishes = |rank: usize, first: usize| match rank % 2 {
                0 => (0..TARGETS).map(|at| (first + at) % TARGETS).collect::<Vec<_>>(),
                _ => alloc::vec![first],
            };
            let mut asks: Vec<Vec<usize>> = (0..6).map(|rank| wishes(rank, next(TARGETS))).collect();
            let mut waits = alloc::vec![0_usize; asks.len()];
            let mut has: Vec<Vec<usize>> = alloc::vec![Vec::new(); asks.len()];
            let mut turns = 0;
            while asks.iter().any(|left| !left.is_empty())
                || waits.iter().any(|left| *left > 0)
                || has.iter().any(|has| !has.is_empty())
            {
                turns += 1;
                assert!(turns < 10_000, "seed {seed}: {waits:?} wait for each other");
                let rank = next(asks.len());
                if let Some(target) = asks[rank].pop() {
                    if locks[target].request(claim(rank as u32, rank % 2 == 1)) {
                        has[rank].push(target);
                    } else {
                        waits[rank] += 1;
                    }
                } else if waits[rank] == 0 {
                    for target in core::mem::take(&mut has[rank]) {
                        locks[target].release(rank as u32, |claim| {
                            waits[claim.rank as usize] -= 1;
                            has[claim.rank as usize].push(target);
                        });
                    }
                }
            }
        }
    }

    /// The holder of the lock dies, and so does a process that waits.   Expect: the next claim has the lock.
    #[test]
    fn the_lock_of_the_dead_is_free() {
        let mut lock = LockQueue::default();
        assert!(lock.request(claim(1, true)));
        assert!(!lock.request(claim(2, true)) && !lock.request(claim(3, true)));
        let mut granted = Vec::new();
        lock.forget(2, |claim| granted.push(claim.rank));
        lock.forget(1, |claim| granted.push(claim.rank));
        assert_eq!(granted, [3]);
        assert_eq!(lock.holders().collect::<Vec<_>>(), [3]);
    }

    /// Claims and releases at random.   Expect: an exclusive claim never holds the lock beside another
    /// holder, and every claim is granted in the end.
    #[test]
    fn nobody_shares_with_a_writer_and_everybody_has_a_turn() {
        let mut random = weft_random::Random::new(7);
        let mut next = move || random.next();
        for _ in 0..200 {
            let mut lock = LockQueue::default();
            let (mut having, mut asked): (Vec<u32>, u32) = (Vec::new(), 0);
            let mut writers = Vec::new();
            while asked < 50 || !having.is_empty() {
                if asked < 50 && (having.is_empty() || next() % 2 == 0) {
                    let exclusive = next() % 3 == 0;
                    writers.push(exclusive);
                    if lock.request(claim(asked, exclusive)) {
                        having.push(asked);
                    }
                    asked += 1;
                } else {
                    let gone = having.swap_remove(next() as usize % having.len());
                    lock.release(gone, |claim| having.push(claim.rank));
                }
                assert!(having.len() <= 1 || having.iter().all(|rank| !writers[*rank as usize]));
                assert!(!having.is_empty() || lock.waiting.is_empty());
            }
        }
    }
}
