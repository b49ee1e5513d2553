//! The oracle of windows: the memory of all processes, and the values that must be in it.

use super::{ADDED, COUNTER, PROTECTED, REPLACED, SLOTS, WindowBlock};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use weft_engine::memory::SharedBuffer;
use weft_engine::transport::RemoteMemory;
use weft_random::mix;

/// All windows of a job, by role and number.
pub(in crate::job) type Windows = Rc<RefCell<BTreeMap<(usize, u32), Truth>>>;

/// The oracle's knowledge of one window.
pub(in crate::job) struct Truth {
    pub(in crate::job) parts: Vec<Part>,
}

/// The part of a window that a process has.
pub(in crate::job) struct Part {
    pub(in crate::job) buffer: SharedBuffer,
    /// The name by which the carrier exposes the part, if processes of other nodes may access it.
    pub(in crate::job) remote: Option<RemoteMemory>,
    /// The bytes that each process has put to its strip of the part.
    pub(in crate::job) strips: Vec<Vec<u8>>,
    /// The epoch in which each process last put to either half of its strip.
    pub(in crate::job) put_in: Vec<[usize; 2]>,
    /// The sum of the values that all processes have added to each cell.
    pub(in crate::job) added: Vec<u64>,
    /// The number of fetches from the counter, and the numbers that it has given out.
    pub(in crate::job) counts: u64,
    pub(in crate::job) counted: BTreeSet<u64>,
    /// Values that have been written, and those that were replaced.
    pub(in crate::job) written: BTreeSet<u64>,
    pub(in crate::job) replaced: BTreeSet<u64>,
    /// The number of writes to the protected cell.
    pub(in crate::job) protected: u64,
}

impl Truth {
    pub(in crate::job) fn new(block: &WindowBlock, members: usize) -> Self {
        let part = |_| Part {
            buffer: SharedBuffer::new(block.bytes(members) as usize),
            remote: None,
            strips: vec![vec![0; (2 * SLOTS * block.slot) as usize]; members],
            put_in: vec![[0; 2]; members],
            added: vec![0; block.row as usize],
            counts: 0,
            counted: BTreeSet::new(),
            written: BTreeSet::new(),
            replaced: BTreeSet::new(),
            protected: 0,
        };
        Self { parts: (0..members).map(part).collect() }
    }
}

impl Part {
    pub(in crate::job) fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.buffer.read(at as usize, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Checks the bytes that process `of` has put in an epoch that is over. Skips the check when the process
    /// has begun to put other bytes to the same half of its strip.
    pub(in crate::job) fn check_put(&self, block: &WindowBlock, of: usize, epoch: usize) -> Result<(), String> {
        let (half, middle) = (epoch % 2, self.strips[of].len() / 2);
        if self.put_in[of][half] > epoch {
            return Ok(());
        }
        self.check_bytes(block, of, half * middle..(half + 1) * middle)
    }

    /// Checks that the strip of one process holds the bytes that the process has put there.
    pub(in crate::job) fn check_strip(&self, block: &WindowBlock, of: usize) -> Result<(), String> {
        self.check_bytes(block, of, 0..self.strips[of].len())
    }

    fn check_bytes(&self, block: &WindowBlock, of: usize, range: Range<usize>) -> Result<(), String> {
        let begin = block.strip(of) as usize + range.start;
        let expected = &self.strips[of][range.clone()];
        if self.buffer.equals(begin, expected) {
            return Ok(());
        }
        let mut found = vec![0; expected.len()];
        self.buffer.read(begin, &mut found);
        let wrong: Vec<usize> =
            range.clone().filter(|at| found[at - range.start] != expected[at - range.start]).collect();
        let (first, last, count) = (wrong[0], wrong[wrong.len() - 1], wrong.len());
        Err(format!("{count} bytes, {first} to {last}, of what rank {of} has put are wrong"))
    }

    /// Checks that all called operations have been done. The operations of the process `dead` may have been
    /// done in part.
    pub(in crate::job) fn check(&self, block: &WindowBlock, dead: Option<usize>) -> Result<(), String> {
        for of in (0..self.strips.len()).filter(|of| Some(*of) != dead) {
            self.check_strip(block, of)?;
        }
        if dead.is_some() {
            return Ok(());
        }
        let counter = self.word(COUNTER);
        if counter != self.counts || self.counted.len() as u64 != counter {
            let (counts, given) = (self.counts, self.counted.len());
            return Err(format!("the counter is {counter} after {counts} calls, which got {given} numbers"));
        }
        let last = self.word(REPLACED);
        let mut all = self.written.clone();
        all.insert(0);
        let mut found = self.replaced.clone();
        if !found.insert(last) || found != all {
            return Err(format!(
                "{last:#x} was written last; not each of the {} others was replaced",
                self.written.len()
            ));
        }
        let protected = self.word(PROTECTED);
        if protected != self.protected {
            return Err(format!("the protected cell is {protected} after {} writes", self.protected));
        }
        match (0..block.row).find(|cell| self.word(ADDED + 8 * cell) != self.added[*cell as usize]) {
            Some(cell) => {
                let (found, expected) = (self.word(ADDED + 8 * cell), self.added[cell as usize]);
                Err(format!("cell {cell} is {found}, and {expected} has been added"))
            }
            None => Ok(()),
        }
    }
}

/// The value that act `id` adds to a cell.
pub(in crate::job) fn summand(id: u32, cell: u64) -> u64 {
    mix(u64::from(id) << 32 ^ cell) % 1000
}
