//! Memory for a simulator: buffers of this very process that safe code can describe, read and write, and copies between them by address,
//! as between the processes of a node.
//!
//! A block of memory is never given back to the system, only to the next buffer: so a description that is used too late reads or writes
//! the wrong bytes, which a simulator notices, and never memory that is not there.

use std::collections::BTreeMap;
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Address, Line, NeighbourMemory, UserData};
use weft_core::collective::SCRATCH_ALIGNMENT;
use weft_core::layout::Layout;

/// Blocks have `2^n` lines, at most this many.
const CLASSES: usize = 32;

/// Blocks that no buffer uses, by the logarithm of their lines.
static UNUSED: Mutex<[Vec<Block>; CLASSES]> = Mutex::new([const { Vec::new() }; CLASSES]);

/// The first line of a block that lives as long as this process.
struct Block(NonNull<Line>);

// SAFETY: a block is memory that nobody uses; whoever takes it is its only user.
unsafe impl Send for Block {}
// SAFETY: all that several threads can do with a block that they share is to look at its address.
unsafe impl Sync for Block {}

impl Block {
    fn take(class: usize) -> Self {
        let unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner)[class].pop();
        unused.unwrap_or_else(|| {
            let lines = vec![Line { _bytes: [0; SCRATCH_ALIGNMENT as usize] }; 1 << class].leak();
            Self(NonNull::from(&mut lines[0]))
        })
    }
}

struct Inner {
    block: Block,
    class: usize,
    bytes: usize,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let block = Block(self.block.0);
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner)[self.class].push(block);
    }
}

/// Bytes that the operations of a simulation read and write in turns, from one thread at a time; clones are the same bytes.
#[derive(Clone)]
pub struct SharedBuffer(Arc<Inner>);

// SAFETY: as for `UserData`: whoever simulates processes runs all that share memory in one thread at a time.
unsafe impl Send for SharedBuffer {}

impl SharedBuffer {
    /// `bytes` bytes with any content, aligned for any basic type.
    pub fn new(bytes: usize) -> Self {
        let lines = bytes.div_ceil(SCRATCH_ALIGNMENT as usize).max(1).next_power_of_two();
        let class = lines.trailing_zeros() as usize;
        Self(Arc::new(Inner { block: Block::take(class), class, bytes }))
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.0.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.bytes == 0
    }

    fn base(&self) -> *mut u8 {
        self.0.block.0.as_ptr().cast()
    }

    /// The place `offset` bytes from its beginning.
    ///
    /// # Panics
    /// When that is not inside.
    pub fn address(&self, offset: usize) -> Address {
        assert!(offset <= self.len(), "{offset} is outside of {} bytes", self.len());
        Address(self.base().wrapping_add(offset))
    }

    /// `count` items of `layout`, the first of them based `offset` bytes from the beginning.
    ///
    /// # Panics
    /// When items touch what is not inside.
    pub fn describe(&self, offset: usize, count: u64, layout: &Layout) -> UserData {
        let touched = layout.touched(count);
        let (low, high) = (offset as i64 + touched.start, offset as i64 + touched.end);
        assert!(0 <= low && high <= self.len() as i64, "{low}..{high} is not inside of {} bytes", self.len());
        // SAFETY: the items lie in the block, as was just asserted, and a block is valid as long as the process.
        unsafe { UserData::new(self.base().wrapping_add(offset), count, layout) }
    }

    /// Copies the bytes from `offset` on to `out`.
    ///
    /// # Panics
    /// When that reaches past the end.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        assert!(offset + out.len() <= self.len());
        // SAFETY: the range lies in the block, which is always initialized; `out` is a borrow, so it is elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(self.base().add(offset), out.as_mut_ptr(), out.len()) };
    }

    /// Copies `bytes` to the place from `offset` on.
    ///
    /// # Panics
    /// When that reaches past the end.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len());
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base().add(offset), bytes.len()) };
    }

    /// Whether the bytes from `offset` on are `bytes`.
    ///
    /// # Panics
    /// When that reaches past the end.
    pub fn equals(&self, offset: usize, bytes: &[u8]) -> bool {
        assert!(offset + bytes.len() <= self.len());
        // SAFETY: as in `read`; the borrow ends before anybody of this thread writes.
        unsafe { std::slice::from_raw_parts(self.base().add(offset), bytes.len()) == bytes }
    }
}

/// What may be reached of the processes that are simulated, by the id of each.
#[derive(Default)]
struct Reachable {
    /// By process and address.
    buffers: BTreeMap<(i32, u64), SharedBuffer>,
    /// Processes whose memory nobody may touch any more.
    refused: Vec<i32>,
    /// Copies that have been made.
    copies: u64,
}

/// The memory of simulated processes, all of which are this one: what is registered can be copied by its address.
#[derive(Clone, Default)]
pub struct InProcess(Arc<Mutex<Reachable>>);

impl InProcess {
    /// Nothing is registered yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn reachable(&self) -> MutexGuard<'_, Reachable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `buffer` is memory of `process` from now on.
    pub fn register(&self, process: i32, buffer: &SharedBuffer) {
        self.reachable().buffers.insert((process, buffer.base() as u64), buffer.clone());
    }

    /// It is so no more.
    pub fn forget(&self, process: i32, buffer: &SharedBuffer) {
        self.reachable().buffers.remove(&(process, buffer.base() as u64));
    }

    /// From now on nobody may copy from or to the memory of `process`.
    pub fn refuse(&self, process: i32) {
        self.reachable().refused.push(process);
    }

    /// How many copies have been made.
    pub fn copies(&self) -> u64 {
        self.reachable().copies
    }

    /// The buffer of `process` in which `len` bytes at `address` lie, and where there.
    fn find(&self, process: i32, address: u64, len: usize) -> io::Result<(SharedBuffer, usize)> {
        let mut reachable = self.reachable();
        if reachable.refused.contains(&process) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let below = reachable.buffers.range((process, 0)..=(process, address)).next_back();
        let found = below.map(|((_, base), buffer)| (buffer.clone(), (address - base) as usize));
        let inside = found.filter(|(buffer, offset)| offset.saturating_add(len) <= buffer.len());
        reachable.copies += 1;
        inside
            .ok_or_else(|| io::Error::other(format!("{len} bytes at {address:#x} are not memory of process {process}")))
    }
}

impl NeighbourMemory for InProcess {
    unsafe fn read(&self, process: i32, address: u64, to: *mut u8, len: usize) -> io::Result<()> {
        let (buffer, offset) = self.find(process, address, len)?;
        // SAFETY: `find` has checked the one range, the caller promises the other. They may be one buffer.
        unsafe { std::ptr::copy(buffer.base().add(offset), to, len) };
        Ok(())
    }

    unsafe fn write(&self, process: i32, address: u64, from: *const u8, len: usize) -> io::Result<()> {
        let (buffer, offset) = self.find(process, address, len)?;
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy(from, buffer.base().add(offset), len) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{deliver, fetch};
    use weft_core::layout::Element;

    #[test]
    fn items_with_gaps_are_read_and_written_in_their_places() {
        let layout = Layout::vector(3, 2, 5, &Layout::element(Element::UInt8)).unwrap();
        let buffer = SharedBuffer::new(20);
        buffer.write(0, &[9; 20]);
        buffer.describe(1, 1, &layout).write(0, &[1, 2, 3, 4, 5, 6]);
        assert!(buffer.equals(0, &[9, 1, 2, 9, 9, 9, 3, 4, 9, 9, 9, 5, 6, 9, 9, 9, 9, 9, 9, 9]));
        let mut packed = [0; 4];
        buffer.describe(1, 1, &layout).read(1, &mut packed);
        assert_eq!(packed, [2, 3, 4, 5]);
    }

    #[test]
    #[should_panic(expected = "is not inside of 12 bytes")]
    fn items_outside_of_a_buffer_cannot_be_described() {
        SharedBuffer::new(12).describe(1, 12, &Layout::element(Element::UInt8));
    }

    #[test]
    fn only_what_a_process_has_registered_is_copied() {
        let (memory, byte) = (InProcess::new(), Layout::element(Element::UInt8));
        let (theirs, ours) = (SharedBuffer::new(100), SharedBuffer::new(100));
        theirs.write(0, &[7; 100]);
        ours.write(0, &[1; 100]);
        memory.register(5, &theirs);
        let data = ours.describe(0, 10, &byte);
        let address = theirs.describe(90, 10, &byte).address().unwrap();
        let try_fetch = |pid, address| fetch(&memory, pid, address, &data, 0..10, &mut Vec::new());
        // Another process, one byte too far, and memory of nobody.
        for (pid, address) in [(6, address), (5, address + 1), (5, 64)] {
            assert!(try_fetch(pid, address).is_err());
        }
        assert!(ours.equals(0, &[1; 10]));
        try_fetch(5, address).unwrap();
        assert!(ours.equals(0, &[7; 10]) && ours.equals(10, &[1; 90]));
        ours.write(0, &[3; 10]);
        deliver(&memory, 5, address, &data, 2..4, &mut Vec::new()).unwrap();
        assert!(theirs.equals(0, &[7; 92]) && theirs.equals(92, &[3; 2]) && theirs.equals(94, &[7; 6]));
        memory.refuse(5);
        assert!(try_fetch(5, address).is_err());
    }
}
