//! The program's memory and the program's functions: the one module of this crate that is unsafe.
//!
//! MPI hands us addresses and promises that they stay valid until the operation completes (MPI-5.0 §3.7, §2.4). A
//! [`UserData`] is that promise as a value: whoever makes one vouches for it, and everybody else reads and writes
//! through it safely.

mod copies;
mod in_process;
mod writer;

use std::ops::Range;

use copies::{SHORT_BYTES, copy_arrived, copy_run, gather, scatter};
use weft_core::collective::SCRATCH_ALIGNMENT;
use weft_core::layout::{Element, Layout};
use weft_core::reduce::{self, Op};

pub use in_process::{InProcess, SharedBuffer};
pub use writer::Writer;

/// The memory of the node's other processes. A process is named by its id, as the system has it.
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

#[derive(Clone)]
enum Shape {
    /// The packed bytes are one run of memory at `base`.
    Run,
    Strided {
        count: u64,
        layout: Layout,
    },
}

// SAFETY: the addresses belong to the program, which promised to leave them alone until the operation is complete
// (MPI-5.0 §3.7.2), from whichever thread Weft touches them; every touch happens under the process lock.
unsafe impl Send for UserData {}

impl UserData {
    /// No data at all.
    pub const fn empty() -> Self {
        Self { base: std::ptr::null_mut(), bytes: 0, shape: Shape::Run }
    }

    /// `count` items of `layout` at `base`.
    ///
    /// # Safety
    /// The memory that the items touch stays valid, for reading or (when used to receive) writing, until the
    /// operation that gets this value is complete.
    #[inline]
    pub unsafe fn new(base: *mut u8, count: u64, layout: &Layout) -> Self {
        match layout.single_run(count) {
            Some((offset, bytes)) => Self { base: base.wrapping_offset(offset as isize), bytes, shape: Shape::Run },
            None => {
                Self { base, bytes: layout.size() * count, shape: Shape::Strided { count, layout: layout.clone() } }
            }
        }
    }

    /// `bytes` bytes at `base`.
    ///
    /// # Safety
    /// As for [`UserData::new`].
    pub unsafe fn from_bytes(base: *mut u8, bytes: u64) -> Self {
        Self { base, bytes, shape: Shape::Run }
    }

    /// Packed length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether there is nothing to move.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
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
        matches!(self.shape, Shape::Run).then_some(self.base as u64)
    }

    /// The bytes from `offset` on, `length` of them, when they are one run.
    ///
    /// # Panics
    /// When that reaches past the end.
    #[inline]
    pub fn run(&self, offset: u64, length: u64) -> Option<&[u8]> {
        assert!(offset + length <= self.bytes);
        match &self.shape {
            Shape::Run if length == 0 => Some(&[]),
            // SAFETY: `new` was promised `bytes` readable bytes at `base`; the range was checked above, and is not empty.
            Shape::Run => Some(unsafe { std::slice::from_raw_parts(self.base.add(offset as usize), length as usize) }),
            Shape::Strided { .. } => None,
        }
    }

    /// Packs the bytes from `offset` on into `out`.
    ///
    /// # Panics
    /// When that reaches past the end.
    #[inline(always)]
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        assert!(offset + out.len() as u64 <= self.bytes);
        match &self.shape {
            // SAFETY: `new` was promised `bytes` readable bytes at `base`; the range was checked above.
            Shape::Run => unsafe { copy_run(self.base.add(offset as usize), out.as_mut_ptr(), out.len()) },
            Shape::Strided { count, layout } => self.read_runs(*count, layout, offset, out),
        }
    }

    #[inline(never)]
    fn read_runs(&self, count: u64, layout: &Layout, offset: u64, out: &mut [u8]) {
        let mut packed = out.as_mut_ptr();
        layout.batches(count, offset..offset + out.len() as u64, &mut |batch| {
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
        assert!(offset + out.len() as u64 <= self.bytes);
        // SAFETY: `new` was promised `bytes` readable bytes at `base`; the range was checked above. `out` is ours.
        unsafe { writer.copy(self.base.add(offset as usize), out.as_mut_ptr(), out.len()) };
    }

    /// Unpacks `bytes` to the place of the bytes from `offset` on.
    ///
    /// # Panics
    /// When that reaches past the end.
    #[inline(always)]
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= self.bytes);
        match &self.shape {
            // SAFETY: `new` was promised `bytes` writable bytes at `base`; the range was checked above. The source
            // is a buffer of ours, or memory of the program that MPI forbids to overlap (MPI-5.0 §3.2.4).
            Shape::Run => unsafe { copy_arrived(bytes.as_ptr(), self.base.add(offset as usize), bytes.len()) },
            Shape::Strided { count, layout } => self.write_runs(*count, layout, offset, bytes),
        }
    }

    #[inline(never)]
    fn write_runs(&self, count: u64, layout: &Layout, offset: u64, bytes: &[u8]) {
        let mut packed = bytes.as_ptr();
        layout.batches(count, offset..offset + bytes.len() as u64, &mut |batch| {
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
        let Some(base) = self.address() else { return self.write(offset, bytes) };
        assert!(offset + bytes.len() as u64 <= self.bytes);
        // SAFETY: as in `write`; what has arrived in a ring is not the program's memory.
        unsafe { writer.copy(bytes.as_ptr(), (base + offset) as *mut u8, bytes.len()) };
    }
}

/// Bytes that one step of a copy between two user buffers holds in between.
const COPY_CHUNK: usize = 16 * 1024;

/// `bytes` bytes at an address of this process that one of its own sends announced: that send keeps them valid.
pub fn own_bytes(address: u64, bytes: u64) -> UserData {
    UserData { base: address as *mut u8, bytes, shape: Shape::Run }
}

/// `count` items of `layout` at `base`.
pub fn promised(base: Address, count: u64, layout: &Layout) -> UserData {
    // SAFETY: schedules address only the buffers that the boundary got with the call, within the counts given there;
    // MPI keeps them valid until the collective is complete (MPI-5.0 §6.1).
    unsafe { UserData::new(base.0, count, layout) }
}

/// The same for plain bytes.
pub fn promised_bytes(base: Address, bytes: u64) -> UserData {
    // SAFETY: as in `promised`.
    unsafe { UserData::from_bytes(base.0, bytes) }
}

/// The same for a reduction of elements.
pub fn reduce_promised(op: Op, element: Element, input: Address, inout: Address, count: usize) {
    // SAFETY: as in `promised`; schedules never reduce overlapping slices.
    unsafe { reduce_elements(op, element, input.0, inout.0, count) }
}

/// Bytes that are copied at once between another process and memory in several runs: what has been packed is still in the cache. The
/// kernel takes 0.1 µs for each run of its own process, and 0.35 µs for each of another.
const BOUNCE_BYTES: usize = 64 << 10;

/// Copies the bytes `range` of a message at `address` of process `pid`, which has announced it, to their place in `data`. `bounce` is
/// memory for messages in several runs, of any length and content.
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
    if let Some(target) = data.address() {
        assert!(range.end <= data.len());
        let (from, len) = (address.wrapping_add(range.start), (range.end - range.start) as usize);
        // SAFETY: `data` is promised memory that has the range.
        return unsafe { memory.read(pid, from, (target + range.start) as *mut u8, len) };
    }
    for (at, len) in pieces(range) {
        let piece = grown(bounce, len);
        // SAFETY: `piece` is ours and has `len` bytes.
        unsafe { memory.read(pid, address.wrapping_add(at), piece.as_mut_ptr(), len)? };
        data.write(at, piece);
    }
    Ok(())
}

/// Copies the bytes `range` of `data` to the same place of a message at `address` of process `pid`, which has asked for them there.
/// `bounce`: as for [`fetch`].
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
    if let Some(source) = data.address() {
        assert!(range.end <= data.len());
        let (to, len) = (address.wrapping_add(range.start), (range.end - range.start) as usize);
        // SAFETY: `data` is promised memory that has the range.
        return unsafe { memory.write(pid, to, (source + range.start) as *const u8, len) };
    }
    for (at, len) in pieces(range) {
        let piece = grown(bounce, len);
        data.read(at, piece);
        // SAFETY: `piece` is ours and has `len` bytes.
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

/// An address in the program's memory, kept for an operation: whoever makes one vouches for it.
#[derive(Clone, Copy)]
pub struct Address(*mut u8);

// SAFETY: as for `UserData`.
unsafe impl Send for Address {}

impl Address {
    /// No address.
    pub const NULL: Self = Self(std::ptr::null_mut());

    /// The buffer at `base`, as a call of MPI was given it.
    ///
    /// # Safety
    /// What the operation that gets it touches, by its counts and datatypes, stays valid until it is complete
    /// (MPI-5.0 §2.4, §6.1), or `base` is one of the addresses that stand for something else.
    pub const unsafe fn new(base: *mut u8) -> Self {
        Self(base)
    }

    /// Memory of ours, for an operation that is complete before `values` goes away.
    pub fn of_values(values: &mut [i64]) -> Self {
        Self(values.as_mut_ptr().cast())
    }

    /// Memory of ours, for an operation that is complete before `bytes` goes away.
    pub fn of_bytes(bytes: &mut [u8]) -> Self {
        Self(bytes.as_mut_ptr())
    }

    /// The address `bytes` bytes further on.
    pub fn offset(self, bytes: i64) -> Self {
        Self(self.0.wrapping_offset(bytes as isize))
    }
}

/// Copies the packed bytes of `from` to `to`, as many as both have.
pub fn copy(from: &UserData, to: &UserData) {
    let total = from.len().min(to.len());
    if let (Some(source), Some(target)) = (from.address(), to.address()) {
        // SAFETY: both are runs of at least `total` promised bytes; `copy` allows them to overlap.
        unsafe { std::ptr::copy(source as *const u8, target as *mut u8, total as usize) };
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

/// `inout[i] = input[i] op inout[i]` on `count` contiguous elements in the program's memory.
///
/// # Safety
/// Both addresses hold `count` elements, and do not overlap.
pub unsafe fn reduce_elements(op: Op, element: Element, input: *const u8, inout: *mut u8, count: usize) {
    let bytes = count * element.extent();
    if bytes == 0 {
        return;
    }
    // SAFETY: the caller promises `count` elements at each address and that they are apart.
    let (input, inout) =
        unsafe { (std::slice::from_raw_parts(input, bytes), std::slice::from_raw_parts_mut(inout, bytes)) };
    reduce::apply(op, element, input, inout);
}

/// A reduction function of the program (MPI-5.0 §6.9.5): the address of an `MPI_User_function`, or of an
/// `MPI_User_function_c` when `large`.
#[derive(Clone, Copy, Debug)]
pub struct UserFunction {
    /// Address of the C function.
    pub address: usize,
    /// Whether its length argument is an `MPI_Count`.
    pub large: bool,
}

/// A call of the program's reduction function that is due: it runs while the process lock is free, because the
/// function may call MPI (MPI-5.0 §6.9.5).
pub struct UserReduction {
    /// The function.
    pub function: UserFunction,
    /// Left operands.
    pub input: Address,
    /// Right operands and results.
    pub inout: Address,
    /// Items in each.
    pub count: u64,
    /// Bytes from one item to the next.
    pub extent: isize,
    /// Handle of the items' datatype.
    pub datatype: usize,
}

impl UserReduction {
    /// Calls the function, which is what the program gave to `MPI_Op_create(_c)`.
    pub fn call(&self) {
        let mut datatype = self.datatype;
        if self.function.large {
            let mut count = self.count as i64;
            // SAFETY: an `MPI_User_function_c` has this signature; a handle is pointer-sized (MPI-5.0 §20.3).
            let function: extern "C" fn(*mut u8, *mut u8, *mut i64, *mut usize) =
                unsafe { std::mem::transmute(self.function.address) };
            function(self.input.0, self.inout.0, &raw mut count, &raw mut datatype);
            return;
        }
        // SAFETY: an `MPI_User_function` has this signature.
        let function: extern "C" fn(*mut u8, *mut u8, *mut i32, *mut usize) =
            unsafe { std::mem::transmute(self.function.address) };
        let mut done = 0;
        while done < self.count {
            let mut count = (self.count - done).min(i32::MAX as u64) as i32;
            let offset = self.extent * done as isize;
            let (input, inout) = (self.input.0.wrapping_offset(offset), self.inout.0.wrapping_offset(offset));
            function(input, inout, &raw mut count, &raw mut datatype);
            done += i32::MAX as u64;
        }
    }
}

/// Scratch memory of a collective, aligned for any basic type.
pub struct Scratch {
    memory: ScratchMemory,
    bytes: usize,
}

enum ScratchMemory {
    Own(Vec<Line>),
    /// Kept for as long as somebody may touch it.
    Shared(SharedBuffer),
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    _bytes: [u8; SCRATCH_ALIGNMENT as usize],
}

const _: () = assert!(align_of::<Line>() as u64 == SCRATCH_ALIGNMENT);

impl Scratch {
    /// `bytes` zeroed bytes.
    pub fn new(bytes: usize) -> Self {
        Self { memory: ScratchMemory::Own(vec![Line { _bytes: [0; 64] }; bytes.div_ceil(64)]), bytes }
    }

    /// The bytes of `buffer`.
    pub fn shared(buffer: SharedBuffer) -> Self {
        Self { bytes: buffer.len(), memory: ScratchMemory::Shared(buffer) }
    }

    /// Its address; valid while the value lives.
    pub fn address(&mut self) -> Address {
        match &mut self.memory {
            ScratchMemory::Own(lines) => Address(lines.as_mut_ptr().cast()),
            ScratchMemory::Shared(buffer) => buffer.address(0),
        }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
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
}
