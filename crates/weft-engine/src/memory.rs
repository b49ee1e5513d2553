//! The program's memory and the program's functions: the one module of this crate that is unsafe.
//!
//! MPI gives the library addresses and promises that they stay valid until the operation completes (MPI-5.0
//! §3.7, §2.4). A [`UserData`] is that promise as a value. The code that makes one vouches for it. All other
//! code reads and writes through it safely. A [`Bound`] is the same for a collective: its schedule, and the
//! buffers that it is for.
//!
//! The code that vouches calls an `unsafe fn`: that is the boundary, which got the addresses from the
//! program. The library's own memory needs no such promise: it is a [`SharedBuffer`], and each access is
//! checked.

mod bound;
mod checkers;
mod copier;
mod copies;
mod described;
mod exposed;
mod in_process;
mod label;
mod mapped;
mod reader;
mod shared;
mod trials;
mod window_lock;
mod writer;

use std::ops::Range;
use std::sync::atomic::Ordering;

use checkers::LOOK_BELOW;
use described::{PROGRAM_START, nowhere};
use weft_core::layout::Layout;
use weft_plan::collective::SCRATCH_ALIGNMENT;

use crate::error::{Error, ErrorClass, Result};

pub(crate) use bound::too_long;
pub use bound::{
    Address, Arguments, Bound, Datatype, Operation, Run, Scratch, SharedDatatype, UserFunction, UserOperation,
    UserReduction, reduce_elements, reduce_local,
};
pub(crate) use checkers::note_written;
pub use checkers::{BufferUse, FindPoison, Report, Sanitizer, attach, label_messages, runs_one_thread};
pub use copier::{Copier, copy};
pub use described::{Divisible, Footprint, check_bytes, check_distance, check_items, check_size, packed_size};
pub use exposed::Exposed;
pub use in_process::InProcess;
pub use label::{LABEL_BYTES, LABEL_WORDS, Label};
pub use mapped::MappedMemory;
pub use reader::Reader;
pub use shared::SharedBuffer;
pub use window_lock::{Held, Holder, LockWord};
pub use writer::Writer;

/// The memory of the node's other processes. A process is named by its id, as the system has it.
///
/// An address in that memory is what a peer says, so it may be wrong. The system checks it, and touches that
/// process only. This process itself is not protected so. The engine never asks for it: it finds a message to
/// itself by the request. An implementation that is asked for its own process, as a simulator's is, touches
/// only memory that it knows.
pub trait NeighbourMemory: Clone {
    /// Copies `len` bytes at `address` of `process` to `to`.
    ///
    /// # Errors
    /// As the system says; then the bytes at `to` are unknown.
    ///
    /// # Safety
    /// `to` points to `len` bytes that this process may write and that nothing else uses during the call.
    unsafe fn read(&self, process: i32, address: u64, to: *mut u8, len: usize) -> std::io::Result<()>;

    /// Copies `len` bytes at `from` to `address` of `process`, which has asked for them there.
    ///
    /// # Errors
    /// As for [`Self::read`], for the bytes at `address`.
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
    /// The packed bytes are one run of host memory at `base`, which is copied at once.
    Run,
    /// Several runs of host memory, or any items in memory of another kind.
    Items { items: Items, layout: Layout },
}

/// The kind of memory that data lies in, which decides how it is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// The program's memory, which processors read and write.
    Host,
    /// A [`SharedBuffer`] of this library: each read or write checks that it is there, and locks it.
    Buffer,
}

/// The number of items, and the kind of memory that they are in. One word holds both, so that it does not
/// enlarge a [`UserData`] of one run.
#[derive(Clone, Copy)]
struct Items(u64);

impl Items {
    /// The first of the bits that hold the kind. MPI counts items with 63 bits; but items in such numbers
    /// have no bytes, or no memory holds them.
    const KIND_SHIFT: u32 = 62;

    /// `count` items, which have `bytes` bytes.
    fn new(kind: MemoryKind, count: u64, bytes: u64) -> Self {
        let count = if bytes == 0 { 0 } else { count };
        assert!(count < 1 << Self::KIND_SHIFT, "no memory holds {count} items");
        Self(count | (kind as u64) << Self::KIND_SHIFT)
    }

    fn kind(self) -> MemoryKind {
        match self.0 >> Self::KIND_SHIFT {
            0 => MemoryKind::Host,
            _ => MemoryKind::Buffer,
        }
    }

    fn count(self) -> u64 {
        self.0 & ((1 << Self::KIND_SHIFT) - 1)
    }
}

// SAFETY: the caller of `new` or `from_bytes` promised that the value and its clones are used by one thread
// at a time. The bytes of a `SharedBuffer` are locked by each access.
unsafe impl Send for UserData {}

impl UserData {
    /// Makes data of no bytes.
    pub const fn empty() -> Self {
        Self { base: std::ptr::null_mut(), bytes: 0, shape: Shape::Run }
    }

    /// Describes `count` items of `layout` at `base`.
    ///
    /// # Errors
    /// As for [`check_items`]: it can be no buffer.
    ///
    /// # Safety
    /// The memory that the items touch stays valid, for reading or (when used to receive) writing, until the
    /// operation that gets this value is complete. This value and its clones are not used after that. Before,
    /// one thread at a time uses them. Both hold for operations that are started, moved on and completed
    /// under the process lock.
    #[inline(always)]
    pub unsafe fn new(base: *mut u8, count: u64, layout: &Layout) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::new_for(BufferUse::Any, base, count, layout) }
    }

    /// Describes items for a known use, of which a memory checker is told ([`attach`]).
    ///
    /// # Errors
    /// As for [`UserData::new`].
    ///
    /// # Safety
    /// As for [`UserData::new`].
    #[inline(always)]
    pub unsafe fn new_for(buffer_use: BufferUse, base: *mut u8, count: u64, layout: &Layout) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::described::<false>(buffer_use, base, count, layout) }
    }

    /// Describes a whole message of the program.
    ///
    /// # Errors
    /// As for [`UserData::new`]; and always where [messages have labels](label_messages): then
    /// [`Label::before`] describes it.
    ///
    /// # Safety
    /// As for [`UserData::new`].
    #[inline(always)]
    pub unsafe fn of_message(buffer_use: BufferUse, base: *mut u8, count: u64, layout: &Layout) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::described::<true>(buffer_use, base, count, layout) }
    }

    /// # Safety
    /// As for [`UserData::new`].
    #[inline(always)]
    unsafe fn described<const MESSAGE: bool>(
        buffer_use: BufferUse,
        base: *mut u8,
        count: u64,
        layout: &Layout,
    ) -> Result<Self> {
        // The four words are merged, never a whole result: a result that a call has written would send every
        // message through memory.
        let (base, bytes, shape) = match layout.single_run(count) {
            Some((offset, bytes)) => {
                let start = base.wrapping_offset(offset as isize);
                if start.addr() < LOOK_BELOW.load(Ordering::Relaxed) {
                    look::<MESSAGE>(buffer_use, start, bytes, base.addr())?;
                }
                (start, bytes, Shape::Run)
            }
            None => {
                let bytes = check_items(base.addr(), count, layout)?;
                if checkers::looks() {
                    checkers::check_unlabelled::<MESSAGE>()?;
                    checkers::show_items(buffer_use, base, count, layout);
                }
                let items = Items::new(MemoryKind::Host, count, bytes);
                (base, bytes, Shape::Items { items, layout: layout.clone() })
            }
        };
        Ok(Self { base, bytes, shape })
    }

    /// Describes `count` items of `layout` at address `base` of a [`SharedBuffer`].
    fn shared(base: usize, count: u64, layout: &Layout) -> Self {
        let bytes = layout.packed_size(count).expect("what a buffer has room for can be counted");
        let shape = Shape::Items { items: Items::new(MemoryKind::Buffer, count, bytes), layout: layout.clone() };
        Self { base: std::ptr::without_provenance_mut(base), bytes, shape }
    }

    /// Describes `bytes` bytes at address `base` of a [`SharedBuffer`].
    fn shared_bytes(base: usize, bytes: u64) -> Self {
        Self::shared(base, bytes, shared::byte())
    }

    /// Describes `bytes` bytes at `base`.
    ///
    /// # Safety
    /// As for [`UserData::new`].
    pub unsafe fn from_bytes(base: *mut u8, bytes: u64) -> Self {
        Self { base, bytes, shape: Shape::Run }
    }

    /// Makes `bytes` bytes that are never given back: a device may write to them at any time. They are
    /// aligned to words of eight bytes.
    pub fn leaked(bytes: usize) -> Self {
        let memory: &'static mut [u64] = Box::leak(vec![0; bytes.div_ceil(8)].into_boxed_slice());
        Self { base: memory.as_mut_ptr().cast(), bytes: bytes as u64, shape: Shape::Run }
    }

    /// The kind of memory that the data is in.
    pub fn kind(&self) -> MemoryKind {
        match &self.shape {
            Shape::Run => MemoryKind::Host,
            Shape::Items { items, .. } => items.kind(),
        }
    }

    /// Packed length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Returns whether the data has `length` bytes from `offset` on.
    #[inline(always)]
    fn has(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.bytes)
    }

    /// Returns whether there is nothing to move.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The packed bytes `range` of the data.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`: its items are nested too deep for a part of them to be described.
    ///
    /// # Panics
    /// When the range reaches past the end.
    pub fn part(&self, range: Range<u64>) -> Result<Self> {
        assert!(range.start <= range.end && range.end <= self.bytes);
        let bytes = range.end - range.start;
        match &self.shape {
            Shape::Run => Ok(Self { base: self.base.wrapping_add(range.start as usize), bytes, shape: Shape::Run }),
            Shape::Items { items, layout } => {
                let too_deep =
                    |error| Error::new(ErrorClass::NoMem, format!("a part of the buffer cannot be described: {error}"));
                let layout = layout.window(items.count(), range).map_err(too_deep)?;
                let items = Items::new(items.kind(), 1, bytes);
                Ok(Self { base: self.base, bytes, shape: Shape::Items { items, layout } })
            }
        }
    }

    /// Drops all but the address: the value is used no more, and need not be dropped.
    #[inline]
    pub(crate) fn release(&mut self) {
        if !matches!(self.shape, Shape::Run) {
            self.shape = Shape::Run;
        }
    }

    /// The address of the bytes, when they are one run.
    pub fn address(&self) -> Option<u64> {
        match &self.shape {
            Shape::Run => Some(self.base as u64),
            Shape::Items { items, layout } => match items.kind() {
                // Host memory in one run has the shape `Run`.
                MemoryKind::Host => None,
                MemoryKind::Buffer => {
                    let (offset, _) = layout.single_run(items.count())?;
                    Some((self.base as u64).wrapping_add_signed(offset))
                }
            },
        }
    }

    /// The address of the bytes `range`, when they are in one run of the program's memory: all of them may be
    /// read and written there.
    ///
    /// # Panics
    /// When the range reaches past the end.
    #[inline]
    pub fn program_run(&self, range: &Range<u64>) -> Option<*mut u8> {
        assert!(range.start <= range.end && range.end <= self.bytes);
        matches!(self.shape, Shape::Run).then(|| self.base.wrapping_add(range.start as usize))
    }

    /// The part of `bytes` that has room from `offset` on, and where it begins.
    pub fn fitting<'a>(&self, offset: u64, bytes: &'a [u8]) -> (u64, &'a [u8]) {
        let begin = offset.min(self.bytes);
        (begin, &bytes[..(self.bytes - begin).min(bytes.len() as u64) as usize])
    }

    /// The bytes from `offset` on, `length` of them, when they are one run of the program's memory.
    ///
    /// # Panics
    /// When they reach past the end.
    #[inline]
    pub fn run(&self, offset: u64, length: u64) -> Option<&[u8]> {
        assert!(self.has(offset, length));
        match &self.shape {
            Shape::Run if length == 0 => Some(&[]),
            // SAFETY: `new` was promised `bytes` readable bytes at `base`; the range was checked above, and
            // is not empty.
            Shape::Run => Some(unsafe { std::slice::from_raw_parts(self.base.add(offset as usize), length as usize) }),
            Shape::Items { .. } => None,
        }
    }

    /// The bytes from `offset` on, `length` of them, for writing, when they are one run of the program's
    /// memory.
    ///
    /// # Panics
    /// When they reach past the end.
    #[allow(clippy::mut_from_ref)]
    pub fn run_mut(&self, offset: u64, length: u64) -> Option<&mut [u8]> {
        assert!(self.has(offset, length));
        match &self.shape {
            Shape::Run if length == 0 => Some(&mut []),
            Shape::Run => {
                let first = self.base.wrapping_add(offset as usize);
                // SAFETY: `new` was promised `bytes` writable bytes at `base`, which one thread at a time
                // uses; the range was checked above, and is not empty. Any bits are a byte.
                Some(unsafe { std::slice::from_raw_parts_mut(first, length as usize) })
            }
            Shape::Items { .. } => None,
        }
    }
}

/// Takes a closer look at one run of a buffer that begins at `address`.
///
/// # Errors
/// The address is that of no memory, or the message lacks a label.
#[cold]
#[inline(never)]
fn look<const MESSAGE: bool>(buffer_use: BufferUse, start: *mut u8, bytes: u64, address: usize) -> Result<()> {
    checkers::check_unlabelled::<MESSAGE>()?;
    if bytes == 0 {
        return Ok(());
    }
    if start.addr() < PROGRAM_START {
        return Err(nowhere(address, bytes));
    }
    checkers::show_run(buffer_use, start, bytes);
    Ok(())
}

/// Memory for any basic type.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    bytes: [u8; SCRATCH_ALIGNMENT as usize],
}

const _: () = assert!(align_of::<Line>() as u64 == SCRATCH_ALIGNMENT);

impl Line {
    const ZERO: Self = Self { bytes: [0; SCRATCH_ALIGNMENT as usize] };
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::layout::Element;

    /// Data of each kind and shape.   Expect: it knows its kind, and so does a part of it.
    #[test]
    fn data_knows_the_kind_of_its_memory() {
        let byte = Layout::element(Element::UInt8);
        let gaps = Layout::vector(3, 2, 5, &byte).unwrap();
        let mut bytes = [0; 12];
        let buffer = SharedBuffer::new(12);
        for layout in [&byte, &gaps] {
            // SAFETY: `bytes` outlives it.
            let host = unsafe { UserData::new(bytes.as_mut_ptr(), 1, layout) }.unwrap();
            let ours = buffer.describe(0, 1, layout);
            for (data, kind) in [(host, MemoryKind::Host), (ours, MemoryKind::Buffer)] {
                assert_eq!(data.kind(), kind);
                assert_eq!(data.part(0..1).unwrap().kind(), kind);
                assert_eq!(data.part(0..0).unwrap().kind(), kind);
            }
        }
        assert_eq!(UserData::empty().kind(), MemoryKind::Host);
    }

    /// Items in the greatest number that MPI can count, without any bytes.   Expect: they are described, and
    /// there is nothing to copy.
    #[test]
    fn items_without_bytes_may_be_as_many_as_mpi_counts() {
        let byte = Layout::element(Element::UInt8);
        let nothing = Layout::vector(0, 1, 1, &byte).unwrap();
        // SAFETY: the items touch no memory.
        let data = unsafe { UserData::new(std::ptr::null_mut(), i64::MAX as u64, &nothing) }.unwrap();
        data.read(0, &mut []);
        data.write(0, &[]);
        assert!(data.is_empty());
    }
}
