//! The copies of the program's data: all are made here, from and to memory of this process, and between the
//! processes of a node.
//!
//! The [`MemoryKind`] decides how data is copied. Data in one run of host memory, which nearly every message
//! is, is copied at once: its shape says so, and the kind is not asked for. All other data goes through
//! [`UserData::read`] and [`UserData::write`] to the copies of its kind.

use std::ops::Range;

use weft_core::bytes;
use weft_core::layout::Layout;

use super::copies::{SHORT_BYTES, copy_arrived, copy_run, gather, scatter};
use super::{Items, MemoryKind, NeighbourMemory, Reader, Shape, UserData, Writer, shared};

impl UserData {
    /// Packs the bytes from `offset` on into `out`.
    ///
    /// # Panics
    /// When they reach past the end.
    #[inline(always)]
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        assert!(self.has(offset, out.len() as u64));
        match &self.shape {
            // SAFETY: `new` was promised `bytes` readable bytes at `base`; the range was checked above.
            Shape::Run => unsafe { copy_run(self.base.add(offset as usize), out.as_mut_ptr(), out.len()) },
            Shape::Items { items, layout } => self.read_items(*items, layout, offset, out),
        }
    }

    #[inline(never)]
    fn read_items(&self, items: Items, layout: &Layout, offset: u64, out: &mut [u8]) {
        match items.kind() {
            MemoryKind::Host => {
                let mut packed = out.as_mut_ptr();
                layout.batches(items.count(), offset..offset + out.len() as u64, &mut |batch| {
                    let start = self.base.wrapping_offset(batch.offset as isize);
                    // SAFETY: a batch is memory that `new` was promised, and all batches together are
                    // `out.len()` long.
                    unsafe { gather(start, &batch, packed) };
                    packed = packed.wrapping_add(batch.length * batch.count as usize);
                });
            }
            MemoryKind::Buffer => shared::read_items(self.base.addr(), items.count(), layout, offset, out),
        }
    }

    /// Packs the bytes from `offset` on into memory that another process is about to read.
    ///
    /// # Panics
    /// As for [`UserData::read`].
    #[inline(always)]
    pub fn read_for_others(&self, offset: u64, out: &mut [u8], writer: &mut Writer) {
        if out.len() <= SHORT_BYTES || !matches!(self.shape, Shape::Run) {
            return self.read(offset, out);
        }
        assert!(self.has(offset, out.len() as u64));
        // SAFETY: `new` was promised `bytes` readable bytes at `base`; the range was checked above. `out` is
        // the library's.
        unsafe { writer.copy(self.base.add(offset as usize), out.as_mut_ptr(), out.len()) };
    }

    /// Unpacks `bytes` to the place of the bytes from `offset` on.
    ///
    /// # Panics
    /// When they reach past the end.
    #[inline(always)]
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(self.has(offset, bytes.len() as u64));
        match &self.shape {
            // SAFETY: `new` was promised `bytes` writable bytes at `base`; the range was checked above. The
            // source is a buffer of the library, or memory of the program that MPI forbids to overlap
            // (MPI-5.0 §3.2.4).
            Shape::Run => unsafe { copy_arrived(bytes.as_ptr(), self.base.add(offset as usize), bytes.len()) },
            Shape::Items { items, layout } => self.write_items(*items, layout, offset, bytes),
        }
    }

    #[inline(never)]
    fn write_items(&self, items: Items, layout: &Layout, offset: u64, bytes: &[u8]) {
        match items.kind() {
            MemoryKind::Host => {
                let mut packed = bytes.as_ptr();
                layout.batches(items.count(), offset..offset + bytes.len() as u64, &mut |batch| {
                    let start = self.base.wrapping_offset(batch.offset as isize);
                    // SAFETY: as in `read_items`, for writing.
                    unsafe { scatter(packed, start, &batch) };
                    packed = packed.wrapping_add(batch.length * batch.count as usize);
                });
            }
            MemoryKind::Buffer => shared::write_items(self.base.addr(), items.count(), layout, offset, bytes),
        }
    }

    /// Unpacks a whole message that another process may have written just now.
    ///
    /// # Panics
    /// As for [`UserData::write`].
    #[inline(always)]
    pub fn write_whole(&self, bytes: &[u8], reader: &mut Reader) {
        let Shape::Run = self.shape else { return self.write(0, bytes) };
        assert!(self.has(0, bytes.len() as u64));
        // SAFETY: as in `write`.
        unsafe { reader.copy(bytes.as_ptr(), self.base, bytes.len()) };
    }

    /// Unpacks as [`UserData::write`] does, for a part of a message that is larger than a processor's own
    /// caches.
    ///
    /// # Panics
    /// As for [`UserData::write`].
    pub fn write_large(&self, offset: u64, bytes: &[u8], writer: &mut Writer) {
        let range = offset..offset.wrapping_add(bytes.len() as u64);
        let Some(to) = self.program_run(&range) else { return self.write(offset, bytes) };
        // SAFETY: as in `write`; bytes that have arrived in a ring are not the program's memory.
        unsafe { writer.copy(bytes.as_ptr(), to, bytes.len()) };
    }
}

/// The bytes that are copied at once between another process and memory in several runs: the packed bytes are
/// still in the cache. The kernel takes 0.1 µs for each run of its own process, and 0.35 µs for each of
/// another.
const BOUNCE_BYTES: usize = 64 << 10;

/// The copier of the program's data between processes of a node. The system copies once where the data is one
/// run of memory at both ends. Data in several runs goes through memory of this value.
pub struct Copier<M> {
    memory: M,
    bounce: Vec<u8>,
}

impl<M: NeighbourMemory> Copier<M> {
    /// Makes a copier from and to `memory`.
    pub fn new(memory: M) -> Self {
        Self { memory, bounce: Vec::new() }
    }

    /// Makes another copier for the same memory, for code that cannot reach this one.
    pub fn another(&self) -> Self {
        Self::new(self.memory.clone())
    }

    /// Copies the bytes `range` of a message at `address` of process `pid`, which has announced it, to their
    /// place in `data`.
    ///
    /// In this process only the range of `data` is touched, which is checked, whatever `address` is.
    ///
    /// # Errors
    /// As the system says; then the contents of `data` are unknown.
    pub fn fetch(&mut self, pid: i32, address: u64, data: &UserData, range: Range<u64>) -> std::io::Result<()> {
        if let Some(to) = data.program_run(&range) {
            let length = (range.end - range.start) as usize;
            // SAFETY: the maker of `data` promised `len()` writable bytes; the range lies within them.
            return unsafe { self.memory.read(pid, address.wrapping_add(range.start), to, length) };
        }
        for (at, len) in pieces(range) {
            let piece = grown(&mut self.bounce, len);
            // SAFETY: `piece` is a borrow of `len` bytes of the library.
            unsafe { self.memory.read(pid, address.wrapping_add(at), piece.as_mut_ptr(), len)? };
            data.write(at, piece);
        }
        Ok(())
    }

    /// Copies the bytes `range` of `data` to the same place of a message at `address` of process `pid`, which
    /// has asked for them there. The memory at `address` is that process's: see [`NeighbourMemory`].
    ///
    /// # Errors
    /// As for [`Self::fetch`].
    pub fn deliver(&mut self, pid: i32, address: u64, data: &UserData, range: Range<u64>) -> std::io::Result<()> {
        if let Some(from) = data.program_run(&range) {
            let length = (range.end - range.start) as usize;
            // SAFETY: the maker of `data` promised `len()` readable bytes; the range lies within them.
            return unsafe { self.memory.write(pid, address.wrapping_add(range.start), from, length) };
        }
        for (at, len) in pieces(range) {
            let piece = grown(&mut self.bounce, len);
            data.read(at, piece);
            // SAFETY: `piece` is a borrow of `len` bytes of the library.
            unsafe { self.memory.write(pid, address.wrapping_add(at), piece.as_ptr(), len)? };
        }
        Ok(())
    }
}

/// The beginnings and lengths of the pieces of a range that are copied at once.
fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, usize)> {
    range.clone().step_by(BOUNCE_BYTES).map(move |at| (at, (range.end - at).min(BOUNCE_BYTES as u64) as usize))
}

fn grown(bounce: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if bounce.len() < len {
        bytes::resize(bounce, len);
    }
    &mut bounce[..len]
}

/// The bytes that one step of a copy between two user buffers holds in between.
const COPY_CHUNK: usize = 16 * 1024;

/// Copies the packed bytes of `from` to `to`, as many as both have.
pub fn copy(from: &UserData, to: &UserData) {
    let total = from.len().min(to.len());
    if let (Some(source), Some(target)) = (from.program_run(&(0..total)), to.program_run(&(0..total))) {
        // SAFETY: the makers of both promised `total` bytes at each; `copy` allows them to overlap.
        unsafe { std::ptr::copy(source, target, total as usize) };
        return;
    }
    let mut chunk = [0; COPY_CHUNK];
    let mut offset = 0;
    while offset < total {
        let piece = &mut chunk[..((total - offset) as usize).min(COPY_CHUNK)];
        from.read(offset, piece);
        to.write(offset, piece);
        offset += piece.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole_and_nothing_else() {
        for length in (0..200).chain([1023, 1024, 1025, 1535, 4096, 8191]) {
            let from: Vec<u8> = (0..length).map(|i| (i % 251 + 1) as u8).collect();
            let mut to = vec![0; length + 2];
            // SAFETY: `to` has a byte before and one behind the run, and both outlive it.
            let data = unsafe { UserData::from_bytes(to.as_mut_ptr().wrapping_add(1), length as u64) };
            data.write(0, &from);
            let mut back = vec![0; length];
            data.read(0, &mut back);
            assert_eq!(back, from);
            assert!(to[0] == 0 && to[length + 1] == 0 && to[1..=length] == from);
        }
    }

    #[test]
    #[should_panic(expected = "self.has")]
    fn a_range_that_wraps_around_is_outside() {
        let mut bytes = [0; 8];
        // SAFETY: `bytes` outlives it.
        let data = unsafe { UserData::from_bytes(bytes.as_mut_ptr(), 8) };
        data.read(u64::MAX, &mut [0]);
    }
}
