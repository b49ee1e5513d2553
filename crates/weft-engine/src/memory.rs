//! The program's memory and the program's functions: the one module of this crate that is unsafe.
//!
//! MPI hands us addresses and promises that they stay valid until the operation completes (MPI-5.0 §3.7, §2.4). A
//! [`UserData`] is that promise as a value: whoever makes one vouches for it, and everybody else reads and writes
//! through it safely. A [`Bound`] is the same for a collective: its schedule, and the buffers that it is for.
//!
//! Who vouches calls an `unsafe fn`: the boundary, which got the addresses from the program. Memory of ours needs nobody to vouch for
//! it: it is a [`SharedBuffer`], and each access is checked.

mod bound;
mod checkers;
mod copies;
mod described;
mod exposed;
mod in_process;
mod label;
mod mapped;
mod shared;
mod window_lock;
mod writer;

use std::ops::Range;
use std::sync::atomic::Ordering;

use checkers::LOOK_BELOW;
use copies::{SHORT_BYTES, copy_arrived, copy_run, gather, scatter};
use described::{PROGRAM_START, nowhere};
use weft_core::collective::SCRATCH_ALIGNMENT;
use weft_core::layout::Layout;

use crate::error::{Error, ErrorClass, Result};

pub(crate) use bound::too_long;
pub use bound::{
    Address, Arguments, Bound, Datatype, Operation, Run, Scratch, SharedDatatype, UserFunction, UserOperation,
    UserReduction, reduce_elements, reduce_local,
};
pub(crate) use checkers::note_written;
pub use checkers::{Access, FindPoison, Report, Sanitizer, attach, label_messages, runs_one_thread};
pub use described::{Divisible, Footprint, check_bytes, check_distance, check_items, check_size, packed_size};
pub use exposed::Exposed;
pub use in_process::InProcess;
pub use label::{LABEL_BYTES, LABEL_WORDS, Label};
pub use mapped::MappedMemory;
pub use shared::SharedBuffer;
pub use window_lock::{Held, Holder, LockWord};
pub use writer::Writer;

/// The memory of the node's other processes. A process is named by its id, as the system has it.
///
/// An address there is what a peer says, so it may be wrong: the system checks it, and touches that process only. A process that is this
/// very one is not protected so. The engine asks for none: it finds what it sends to itself by its request. An implementation that is
/// asked for its own process, as a simulator's is, touches what it knows to be there, and nothing else.
pub trait NeighbourMemory: Clone {
    /// Copies `len` bytes at `address` of `process` to `to`.
    ///
    /// # Errors
    /// As the system says; then nothing is known of the bytes at `to`.
    ///
    /// # Safety
    /// `to` points to `len` bytes that this process may write and nobody else uses during the call.
    unsafe fn read(&self, process: i32, address: u64, to: *mut u8, len: usize) -> std::io::Result<()>;

    /// Copies `len` bytes at `from` to `address` of `process`, which has asked for them there.
    ///
    /// # Errors
    /// As for [`Self::read`], of the bytes there.
    ///
    /// # Safety
    /// `from` points to `len` bytes that this process may read.
    unsafe fn write(&self, process: i32, address: u64, from: *const u8, len: usize) -> std::io::Result<()>;
}

/// `count` items of a datatype in the program's memory, seen as a sequence of packed bytes.
#[derive(Clone)]
pub struct UserData {
    base: *mut u8,
    bytes: u64,
    shape: Shape,
}

const _: () = assert!(size_of::<UserData>() == 32, "every request and every message on its way holds one");

#[derive(Clone)]
enum Shape {
    /// The packed bytes are one run of the program's memory at `base`.
    Run,
    /// Several runs of the program's memory, or any items in a [`SharedBuffer`].
    Items { count: Count, layout: Layout },
}

/// How many items there are, and whose memory they are in. MPI counts items with 63 bits; one word leaves a [`UserData`] of one run as
/// small as it is.
#[derive(Clone, Copy)]
struct Count(u64);

impl Count {
    const SHARED: u64 = 1 << 63;

    fn of_program(items: u64) -> Self {
        assert!(items < Self::SHARED);
        Self(items)
    }

    fn of_shared(items: u64) -> Self {
        assert!(items < Self::SHARED);
        Self(items | Self::SHARED)
    }

    fn is_shared(self) -> bool {
        self.0 & Self::SHARED != 0
    }

    fn items(self) -> u64 {
        self.0 & !Self::SHARED
    }
}

// SAFETY: whoever called `new` or `from_bytes` promised that the value and its clones are used by one thread at a time. What is in a
// `SharedBuffer` is locked by each access.
unsafe impl Send for UserData {}

impl UserData {
    /// No data at all.
    pub const fn empty() -> Self {
        Self { base: std::ptr::null_mut(), bytes: 0, shape: Shape::Run }
    }

    /// `count` items of `layout` at `base`.
    ///
    /// # Errors
    /// As for [`check_items`]: it can be no buffer.
    ///
    /// # Safety
    /// The memory that the items touch stays valid, for reading or (when used to receive) writing, until the
    /// operation that gets this value is complete. Nobody uses this value or a clone of it after that, and one thread at a time does
    /// before: so it is with operations that are started, moved on and completed under the process lock.
    #[inline(always)]
    pub unsafe fn new(base: *mut u8, count: u64, layout: &Layout) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::new_for(Access::Any, base, count, layout) }
    }

    /// The same for memory of which it is known what will happen to it: a memory checker is told ([`attach`]).
    ///
    /// # Errors
    /// As for [`UserData::new`].
    ///
    /// # Safety
    /// As for [`UserData::new`].
    #[inline(always)]
    pub unsafe fn new_for(access: Access, base: *mut u8, count: u64, layout: &Layout) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::described::<false>(access, base, count, layout) }
    }

    /// The same for a whole message of the program.
    ///
    /// # Errors
    /// As for [`UserData::new`]; and always where [messages have labels](label_messages): then [`Label::before`] describes it.
    ///
    /// # Safety
    /// As for [`UserData::new`].
    #[inline(always)]
    pub unsafe fn of_message(access: Access, base: *mut u8, count: u64, layout: &Layout) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::described::<true>(access, base, count, layout) }
    }

    /// # Safety
    /// As for [`UserData::new`].
    #[inline(always)]
    unsafe fn described<const MESSAGE: bool>(
        access: Access,
        base: *mut u8,
        count: u64,
        layout: &Layout,
    ) -> Result<Self> {
        // The four words are merged, never a whole result: one that a call has written would send every message through memory.
        let (base, bytes, shape) = match layout.single_run(count) {
            Some((offset, bytes)) => {
                let start = base.wrapping_offset(offset as isize);
                if start.addr() < LOOK_BELOW.load(Ordering::Relaxed) {
                    look::<MESSAGE>(access, start, bytes, base.addr())?;
                }
                (start, bytes, Shape::Run)
            }
            None => {
                let bytes = check_items(base.addr(), count, layout)?;
                if checkers::looks() {
                    checkers::check_unlabelled::<MESSAGE>()?;
                    checkers::show_items(access, base, count, layout);
                }
                (base, bytes, Shape::Items { count: Count::of_program(count), layout: layout.clone() })
            }
        };
        Ok(Self { base, bytes, shape })
    }

    /// `count` items of `layout` at address `base` of a [`SharedBuffer`].
    fn shared(base: usize, count: u64, layout: &Layout) -> Self {
        let bytes = layout.packed_size(count).expect("what a buffer has room for can be counted");
        let shape = Shape::Items { count: Count::of_shared(count), layout: layout.clone() };
        Self { base: std::ptr::without_provenance_mut(base), bytes, shape }
    }

    /// `bytes` bytes at address `base` of a [`SharedBuffer`].
    fn shared_bytes(base: usize, bytes: u64) -> Self {
        Self::shared(base, bytes, shared::byte())
    }

    /// `bytes` bytes at `base`.
    ///
    /// # Safety
    /// As for [`UserData::new`].
    pub unsafe fn from_bytes(base: *mut u8, bytes: u64) -> Self {
        Self { base, bytes, shape: Shape::Run }
    }

    /// So many bytes that are never given back: a device may write to them at any time. They begin where a word of eight bytes may.
    pub fn leaked(bytes: usize) -> Self {
        let memory: &'static mut [u64] = Box::leak(vec![0; bytes.div_ceil(8)].into_boxed_slice());
        Self { base: memory.as_mut_ptr().cast(), bytes: bytes as u64, shape: Shape::Run }
    }

    /// Packed length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether it has `length` bytes from `offset` on.
    #[inline(always)]
    fn has(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.bytes)
    }

    /// Whether there is nothing to move.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The packed bytes `range` of it.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`: its items are nested too deep for a part of them to be described.
    ///
    /// # Panics
    /// When that reaches past the end.
    pub fn part(&self, range: Range<u64>) -> Result<Self> {
        assert!(range.start <= range.end && range.end <= self.bytes);
        let bytes = range.end - range.start;
        match &self.shape {
            Shape::Run => Ok(Self { base: self.base.wrapping_add(range.start as usize), bytes, shape: Shape::Run }),
            Shape::Items { count, layout } => {
                let too_deep =
                    |error| Error::new(ErrorClass::NoMem, format!("a part of the buffer cannot be described: {error}"));
                let layout = layout.window(count.items(), range).map_err(too_deep)?;
                let one = if count.is_shared() { Count::of_shared(1) } else { Count::of_program(1) };
                Ok(Self { base: self.base, bytes, shape: Shape::Items { count: one, layout } })
            }
        }
    }

    /// Lets go of all but the address: the value is used no more, and need not be dropped.
    #[inline]
    pub(crate) fn release(&mut self) {
        if !matches!(self.shape, Shape::Run) {
            self.shape = Shape::Run;
        }
    }

    /// Where the bytes are, when they are one run.
    pub fn address(&self) -> Option<u64> {
        match &self.shape {
            Shape::Run => Some(self.base as u64),
            Shape::Items { count, layout } if count.is_shared() => {
                let (offset, _) = layout.single_run(count.items())?;
                Some((self.base as u64).wrapping_add_signed(offset))
            }
            Shape::Items { .. } => None,
        }
    }

    /// Where the bytes `range` are, when they are in one run of the program's memory: all of them may be read and written there.
    ///
    /// # Panics
    /// When that reaches past the end.
    #[inline]
    pub fn program_run(&self, range: &Range<u64>) -> Option<*mut u8> {
        assert!(range.start <= range.end && range.end <= self.bytes);
        matches!(self.shape, Shape::Run).then(|| self.base.wrapping_add(range.start as usize))
    }

    /// The bytes from `offset` on, `length` of them, when they are one run of the program's memory.
    ///
    /// # Panics
    /// When that reaches past the end.
    #[inline]
    pub fn run(&self, offset: u64, length: u64) -> Option<&[u8]> {
        assert!(self.has(offset, length));
        match &self.shape {
            Shape::Run if length == 0 => Some(&[]),
            // SAFETY: `new` was promised `bytes` readable bytes at `base`; the range was checked above, and is not empty.
            Shape::Run => Some(unsafe { std::slice::from_raw_parts(self.base.add(offset as usize), length as usize) }),
            Shape::Items { .. } => None,
        }
    }

    /// Packs the bytes from `offset` on into `out`.
    ///
    /// # Panics
    /// When that reaches past the end.
    #[inline(always)]
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        assert!(self.has(offset, out.len() as u64));
        match &self.shape {
            // SAFETY: `new` was promised `bytes` readable bytes at `base`; the range was checked above.
            Shape::Run => unsafe { copy_run(self.base.add(offset as usize), out.as_mut_ptr(), out.len()) },
            Shape::Items { count, layout } => self.read_runs(*count, layout, offset, out),
        }
    }

    #[inline(never)]
    fn read_runs(&self, count: Count, layout: &Layout, offset: u64, out: &mut [u8]) {
        if count.is_shared() {
            return shared::read_items(self.base.addr(), count.items(), layout, offset, out);
        }
        let mut packed = out.as_mut_ptr();
        layout.batches(count.items(), offset..offset + out.len() as u64, &mut |batch| {
            let start = self.base.wrapping_offset(batch.offset as isize);
            // SAFETY: a batch is memory that `new` was promised, and all batches together are `out.len()` long.
            unsafe { gather(start, &batch, packed) };
            packed = packed.wrapping_add(batch.length * batch.count as usize);
        });
    }

    /// The same, into memory that another process is about to read.
    ///
    /// # Panics
    /// As for [`UserData::read`].
    #[inline(always)]
    pub fn read_for_others(&self, offset: u64, out: &mut [u8], writer: &mut Writer) {
        if out.len() <= SHORT_BYTES || !matches!(self.shape, Shape::Run) {
            return self.read(offset, out);
        }
        assert!(self.has(offset, out.len() as u64));
        // SAFETY: `new` was promised `bytes` readable bytes at `base`; the range was checked above. `out` is ours.
        unsafe { writer.copy(self.base.add(offset as usize), out.as_mut_ptr(), out.len()) };
    }

    /// Unpacks `bytes` to the place of the bytes from `offset` on.
    ///
    /// # Panics
    /// When that reaches past the end.
    #[inline(always)]
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(self.has(offset, bytes.len() as u64));
        match &self.shape {
            // SAFETY: `new` was promised `bytes` writable bytes at `base`; the range was checked above. The source
            // is a buffer of ours, or memory of the program that MPI forbids to overlap (MPI-5.0 §3.2.4).
            Shape::Run => unsafe { copy_arrived(bytes.as_ptr(), self.base.add(offset as usize), bytes.len()) },
            Shape::Items { count, layout } => self.write_runs(*count, layout, offset, bytes),
        }
    }

    #[inline(never)]
    fn write_runs(&self, count: Count, layout: &Layout, offset: u64, bytes: &[u8]) {
        if count.is_shared() {
            return shared::write_items(self.base.addr(), count.items(), layout, offset, bytes);
        }
        let mut packed = bytes.as_ptr();
        layout.batches(count.items(), offset..offset + bytes.len() as u64, &mut |batch| {
            let start = self.base.wrapping_offset(batch.offset as isize);
            // SAFETY: as in `read_runs`, for writing.
            unsafe { scatter(packed, start, &batch) };
            packed = packed.wrapping_add(batch.length * batch.count as usize);
        });
    }

    /// As [`UserData::write`], for a part of a message that is larger than a processor's own caches.
    ///
    /// # Panics
    /// As for [`UserData::write`].
    pub fn write_large(&self, offset: u64, bytes: &[u8], writer: &mut Writer) {
        let range = offset..offset.wrapping_add(bytes.len() as u64);
        let Some(to) = self.program_run(&range) else { return self.write(offset, bytes) };
        // SAFETY: as in `write`; what has arrived in a ring is not the program's memory.
        unsafe { writer.copy(bytes.as_ptr(), to, bytes.len()) };
    }
}

/// A closer look at one run of a buffer that begins at `address`.
///
/// # Errors
/// It is nowhere, or lacks a label.
#[cold]
#[inline(never)]
fn look<const MESSAGE: bool>(access: Access, start: *mut u8, bytes: u64, address: usize) -> Result<()> {
    checkers::check_unlabelled::<MESSAGE>()?;
    if bytes == 0 {
        return Ok(());
    }
    if start.addr() < PROGRAM_START {
        return Err(nowhere(address, bytes));
    }
    checkers::show_run(access, start, bytes);
    Ok(())
}

/// Bytes that are copied at once between another process and memory in several runs: what has been packed is still in the cache. The
/// kernel takes 0.1 µs for each run of its own process, and 0.35 µs for each of another.
const BOUNCE_BYTES: usize = 64 << 10;

/// Copies the bytes `range` of a message at `address` of process `pid`, which has announced it, to their place in `data`. `bounce` is
/// memory for messages in several runs, of any length and content. Of this process, what is touched is the range of `data`, which is
/// checked, whatever `address` is.
///
/// # Errors
/// As the system says; then nothing is known of `data`.
pub fn fetch(
    memory: &impl NeighbourMemory,
    pid: i32,
    address: u64,
    data: &UserData,
    range: Range<u64>,
    bounce: &mut Vec<u8>,
) -> std::io::Result<()> {
    if let Some(to) = data.program_run(&range) {
        // SAFETY: whoever made `data` promised `len()` writable bytes; the range lies within them.
        return unsafe { memory.read(pid, address.wrapping_add(range.start), to, (range.end - range.start) as usize) };
    }
    for (at, len) in pieces(range) {
        let piece = grown(bounce, len);
        // SAFETY: `piece` is a borrow of `len` bytes of ours.
        unsafe { memory.read(pid, address.wrapping_add(at), piece.as_mut_ptr(), len)? };
        data.write(at, piece);
    }
    Ok(())
}

/// Copies the bytes `range` of `data` to the same place of a message at `address` of process `pid`, which has asked for them there.
/// `bounce`: as for [`fetch`]. What is touched at `address` is that process's: see [`NeighbourMemory`].
///
/// # Errors
/// As for [`fetch`].
pub fn deliver(
    memory: &impl NeighbourMemory,
    pid: i32,
    address: u64,
    data: &UserData,
    range: Range<u64>,
    bounce: &mut Vec<u8>,
) -> std::io::Result<()> {
    if let Some(from) = data.program_run(&range) {
        // SAFETY: whoever made `data` promised `len()` readable bytes; the range lies within them.
        return unsafe {
            memory.write(pid, address.wrapping_add(range.start), from, (range.end - range.start) as usize)
        };
    }
    for (at, len) in pieces(range) {
        let piece = grown(bounce, len);
        data.read(at, piece);
        // SAFETY: `piece` is a borrow of `len` bytes of ours.
        unsafe { memory.write(pid, address.wrapping_add(at), piece.as_ptr(), len)? };
    }
    Ok(())
}

/// Where the pieces of a range begin that are copied at once, and their lengths.
fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, usize)> {
    range.clone().step_by(BOUNCE_BYTES).map(move |at| (at, (range.end - at).min(BOUNCE_BYTES as u64) as usize))
}

fn grown(bounce: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if bounce.len() < len {
        bounce.resize(len, 0);
    }
    &mut bounce[..len]
}

/// Bytes that one step of a copy between two user buffers holds in between.
const COPY_CHUNK: usize = 16 * 1024;

/// Copies the packed bytes of `from` to `to`, as many as both have.
pub fn copy(from: &UserData, to: &UserData) {
    let total = from.len().min(to.len());
    if let (Some(source), Some(target)) = (from.program_run(&(0..total)), to.program_run(&(0..total))) {
        // SAFETY: whoever made them promised `total` bytes at each; `copy` allows them to overlap.
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

/// Memory for any basic type.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; SCRATCH_ALIGNMENT as usize],
}

const _: () = assert!(align_of::<Line>() as u64 == SCRATCH_ALIGNMENT);

impl Line {
    const ZERO: Self = Self { _bytes: [0; SCRATCH_ALIGNMENT as usize] };
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
