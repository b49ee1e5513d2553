//! Copies by address between buffers of this very process, as between the processes of a node: for a
//! simulator.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weft_ordered::Map;

use super::{NeighbourMemory, SharedBuffer};

/// The memory of the simulated processes that may be reached, by the id of each.
#[derive(Default)]
struct Reachable {
    /// The buffers, by process and address.
    buffers: Map<(i32, u64), SharedBuffer>,
    /// The processes whose memory may not be touched any more.
    refused: Vec<i32>,
    /// The number of copies that have been made.
    copies: u64,
}

/// The memory of simulated processes, all of which are this one: registered buffers can be copied by their
/// address, and nothing else is touched.
#[derive(Clone, Default)]
pub struct InProcess(Arc<Mutex<Reachable>>);

impl InProcess {
    /// Makes a memory with nothing registered.
    pub fn new() -> Self {
        Self::default()
    }

    fn reachable(&self) -> MutexGuard<'_, Reachable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers `buffer` as memory of `process`.
    pub fn register(&self, process: i32, buffer: &SharedBuffer) {
        self.reachable().buffers.insert((process, buffer.base() as u64), buffer.clone());
    }

    /// Ends the registration of `buffer` as memory of `process`.
    pub fn forget(&self, process: i32, buffer: &SharedBuffer) {
        self.reachable().buffers.remove(&(process, buffer.base() as u64));
    }

    /// Refuses all copies from and to the memory of `process` from now on.
    pub fn refuse(&self, process: i32) {
        self.reachable().refused.push(process);
    }

    /// The number of copies that have been made.
    pub fn copies(&self) -> u64 {
        self.reachable().copies
    }

    /// The buffer of `process` in which `len` bytes at `address` lie, and their offset there.
    fn find(&self, process: i32, address: u64, len: usize) -> io::Result<(SharedBuffer, usize)> {
        let mut reachable = self.reachable();
        if reachable.refused.contains(&process) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let below = reachable.buffers.range((process, 0)..=(process, address)).next_back();
        let found = below.map(|((_, base), buffer)| (buffer.clone(), (address - base) as usize));
        let inside = found.filter(|(buffer, offset)| offset.saturating_add(len) <= buffer.len());
        reachable.copies += 1;
        // Buffers that engines have for themselves are not registered.
        let of_an_engine = || {
            let buffer = SharedBuffer::find(address as usize, (address as usize).checked_add(len)?)?;
            let is_known = reachable.buffers.values().any(|known| known.base() == buffer.base());
            let offset = address as usize - buffer.base();
            (!is_known).then_some((buffer, offset))
        };
        inside
            .or_else(of_an_engine)
            .ok_or_else(|| io::Error::other(format!("{len} bytes at {address:#x} are not memory of process {process}")))
    }
}

impl NeighbourMemory for InProcess {
    unsafe fn read(&self, process: i32, address: u64, to: *mut u8, len: usize) -> io::Result<()> {
        let (buffer, offset) = self.find(process, address, len)?;
        let mut bytes = vec![0; len];
        buffer.read(offset, &mut bytes);
        // SAFETY: the caller promises `len` writable bytes at `to`, which nothing else uses.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, len) };
        Ok(())
    }

    unsafe fn write(&self, process: i32, address: u64, from: *const u8, len: usize) -> io::Result<()> {
        let (buffer, offset) = self.find(process, address, len)?;
        let mut bytes = vec![0; len];
        // SAFETY: the caller promises `len` readable bytes at `from`.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len) };
        buffer.write(offset, &bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Copier;
    use weft_core::layout::{Element, Layout};

    #[test]
    fn only_what_a_process_has_registered_is_copied() {
        let (memory, byte) = (InProcess::new(), Layout::element(Element::UInt8));
        let (theirs, ours) = (SharedBuffer::new(100), SharedBuffer::new(100));
        theirs.write(0, &[7; 100]);
        ours.write(0, &[1; 100]);
        memory.register(5, &theirs);
        let data = ours.describe(0, 10, &byte);
        let address = theirs.describe(90, 10, &byte).address().unwrap();
        let mut copier = Copier::new(memory.clone());
        let mut try_fetch = |pid, address| copier.fetch(pid, address, &data, 0..10);
        // Another process, one byte too far, and memory of no process.
        for (pid, address) in [(6, address), (5, address + 1), (5, 64)] {
            assert!(try_fetch(pid, address).is_err());
        }
        assert!(ours.equals(0, &[1; 10]));
        try_fetch(5, address).unwrap();
        assert!(ours.equals(0, &[7; 10]) && ours.equals(10, &[1; 90]));
        ours.write(0, &[3; 10]);
        Copier::new(memory.clone()).deliver(5, address, &data, 2..4).unwrap();
        assert!(theirs.equals(0, &[7; 92]) && theirs.equals(92, &[3; 2]) && theirs.equals(94, &[7; 6]));
        memory.refuse(5);
        assert!(try_fetch(5, address).is_err());
    }
}
