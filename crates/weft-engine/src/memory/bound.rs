//! Collectives and the memory they touch: a schedule that is bound to its buffers, and the memory that a run
//! of it reads, writes and reduces.
//!
//! A schedule tells the places of bytes by offsets; it depends on the buffers whether memory is there. So the
//! two are bound together once, and memory is found only for the steps of that schedule.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{BufferUse, Line, SharedBuffer, UserData};
use crate::callbacks::{MPI_User_function, MPI_User_function_c};
use crate::error::{Error, ErrorClass, Result, internal};
use weft_core::layout::{Element, Layout};
use weft_core::reduce::{self, Op};
use weft_plan::collective::{Buffer, Kind, SCRATCH_ALIGNMENT, Schedule, Slice, Step};

/// The beginning of a collective's buffer: an address of the program, or an offset in a [`SharedBuffer`],
/// which it keeps.
#[derive(Clone)]
pub struct Address {
    base: *mut u8,
    shared: Option<SharedBuffer>,
}

// SAFETY: it is a number; code that reads or writes there does so by a promise that was made for that.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    /// The null address.
    pub const NULL: Self = Self::new(std::ptr::null_mut());

    /// The buffer at `base`, as a call of MPI was given it, or one of the addresses with a special meaning.
    /// Nothing is promised of it yet: see [`Bound::new`].
    pub const fn new(base: *mut u8) -> Self {
        Self { base, shared: None }
    }

    pub(super) fn shared(buffer: &SharedBuffer, offset: usize) -> Self {
        Self { base: std::ptr::without_provenance_mut(buffer.base() + offset), shared: Some(buffer.clone()) }
    }

    /// The place `offset` bytes further on.
    fn start(&self, offset: i64) -> SliceStart<'_> {
        match &self.shared {
            None => SliceStart::Program(self.base.wrapping_offset(offset as isize)),
            Some(buffer) => {
                SliceStart::Shared(buffer, ((self.base.addr() - buffer.base()) as i64).saturating_add(offset))
            }
        }
    }
}

impl SharedBuffer {
    /// The address `offset` bytes from the beginning of the buffer.
    ///
    /// # Panics
    /// When that is not inside.
    pub fn address(&self, offset: usize) -> Address {
        assert!(offset <= self.len(), "{offset} is outside of {} bytes", self.len());
        Address::shared(self, offset)
    }
}

/// The place where a slice begins.
enum SliceStart<'a> {
    Program(*mut u8),
    Shared(&'a SharedBuffer, i64),
}

/// A reduction function of the program (MPI-5.0 §6.9.5).
#[derive(Clone, Copy, Debug)]
pub enum UserFunction {
    /// A function that counts in `int`.
    Small(MPI_User_function),
    /// A function that counts in `MPI_Count`.
    Large(MPI_User_function_c),
}

/// A reduction operation of the program (MPI-5.0 §6.9.5).
#[derive(Clone, Copy, Debug)]
pub struct UserOperation {
    /// The program's function, in C.
    pub function: UserFunction,
    /// Set if operands may change places.
    pub commutative: bool,
}

/// The operation of a reduction.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// An operation of the standard.
    Predefined(Op),
    /// An operation of the program.
    User(UserOperation),
}

impl Operation {
    /// Returns whether operands may change places.
    pub fn is_commutative(&self) -> bool {
        match self {
            Self::Predefined(_) => true,
            Self::User(user) => user.commutative,
        }
    }
}

/// The facts of a datatype that a collective needs. Operations that use it keep it alive.
pub trait Datatype: Send + Sync {
    /// The places of an item's bytes.
    fn layout(&self) -> &Layout;
    /// The element of a predefined type; `None` for others.
    fn element(&self) -> Option<Element>;
    /// The program's handle of the datatype, for reduction functions of the program.
    fn handle(&self) -> &AtomicUsize;
}

/// A datatype as collectives hold it.
pub type SharedDatatype = Arc<dyn Datatype>;

/// The buffers of a collective, as the program gave them.
#[derive(Clone)]
pub struct Arguments {
    /// The send buffer; where `MPI_IN_PLACE` was given, it is never used.
    pub send: Address,
    /// The receive buffer, or the only buffer.
    pub receive: Address,
    /// Datatype of the send buffer.
    pub send_type: Option<SharedDatatype>,
    /// Datatype of the receive buffer.
    pub receive_type: Option<SharedDatatype>,
    /// `sendtypes` of `MPI_Alltoallw`.
    pub send_types: Vec<SharedDatatype>,
    /// `recvtypes` of `MPI_Alltoallw`.
    pub receive_types: Vec<SharedDatatype>,
    /// The operation of a reduction.
    pub operation: Option<Operation>,
}

impl Arguments {
    /// Makes arguments without buffers.
    pub const fn none() -> Self {
        Self {
            send: Address::NULL,
            receive: Address::NULL,
            send_type: None,
            receive_type: None,
            send_types: Vec::new(),
            receive_types: Vec::new(),
            operation: None,
        }
    }

    fn datatype(&self, kind: Kind) -> Option<&dyn Datatype> {
        let datatype = match kind {
            Kind::Bytes => None,
            Kind::Send => self.send_type.as_ref(),
            Kind::Receive => self.receive_type.as_ref(),
            Kind::SendOf(peer) => self.send_types.get(peer as usize),
            Kind::ReceiveOf(peer) => self.receive_types.get(peer as usize),
        };
        datatype.map(AsRef::as_ref)
    }
}

/// A schedule and the buffers that it is for. Neither changes, so a persistent collective is started again
/// without copying them.
pub struct Bound {
    schedule: Arc<Schedule>,
    arguments: Arguments,
    /// Set if all memory that the schedule touches was found to be in buffers of the library.
    is_checked: bool,
}

impl Bound {
    /// Binds `schedule` to the buffers of `arguments`.
    ///
    /// # Safety
    /// Until every collective that runs it is complete (MPI-5.0 §2.4, §6.1):
    /// - the memory that its slices touch, by their counts and the datatypes of `arguments`, stays valid: for
    ///   reading in the send buffer, for writing too in the receive buffer;
    /// - slices of its working memory lie inside that memory;
    /// - the operands of its reductions do not overlap, and have elements of the operation's type one extent
    ///   apart;
    /// - where the operation is a function of the program, that can be called with them.
    ///
    /// One thread at a time uses it, its runs and the memory that these give out. Memory that a run has given
    /// out is not used once that run is gone. Both hold for collectives that are started, moved on and
    /// completed under the process lock.
    pub unsafe fn new(schedule: impl Into<Arc<Schedule>>, arguments: Arguments) -> Self {
        Self { schedule: schedule.into(), arguments, is_checked: false }
    }

    /// Binds `schedule` to [shared](SharedBuffer) buffers: the memory that it touches is checked.
    ///
    /// # Panics
    /// When a slice of the schedule is not inside of its buffer, or a reduction is done by a function of the
    /// program.
    pub fn shared(schedule: impl Into<Arc<Schedule>>, arguments: Arguments) -> Self {
        let bound = Self { schedule: schedule.into(), arguments, is_checked: true };
        let by_program = matches!(bound.arguments.operation, Some(Operation::User(_)));
        for step in bound.schedule.steps() {
            let (read, written) = step.slices();
            read.into_iter().chain(written).for_each(|slice| bound.check(slice));
            let is_reduction = matches!(step, Step::Reduce { .. });
            assert!(!(is_reduction && by_program), "a function of the program is given the program's memory only");
        }
        bound
    }

    fn check(&self, slice: &Slice) {
        let address = match slice.buffer {
            Buffer::Send => &self.arguments.send,
            Buffer::Receive => &self.arguments.receive,
            // Each run has its own working memory. It is shared memory too, so each access is checked; but a
            // schedule without working memory is not.
            Buffer::Scratch => {
                assert!(slice.count == 0 || self.schedule.scratch > 0, "there is no working memory");
                return;
            }
        };
        match (address.start(slice.offset), self.arguments.datatype(slice.kind)) {
            (SliceStart::Program(_), _) => assert!(slice.count == 0, "the buffer is not one of ours"),
            (SliceStart::Shared(buffer, offset), Some(datatype)) => {
                buffer.check(offset, slice.count, datatype.layout())
            }
            (SliceStart::Shared(buffer, offset), None) => buffer.check_bytes(offset, slice.count),
        }
    }

    /// The schedule that the call runs.
    #[inline]
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The most bytes that a step publishes; `None`: no step publishes, or takes published bytes.
    pub fn published_max(&self) -> Option<u64> {
        let published = |step: &Step| match step {
            Step::Publish { slice, .. } => {
                let size = self.arguments.datatype(slice.kind).map_or(1, |datatype| datatype.layout().size());
                slice.count.saturating_mul(size)
            }
            _ => 0,
        };
        (self.schedule.phases > 0).then(|| self.schedule.steps().map(published).max().unwrap_or(0))
    }

    /// The operation of a reduction; `None` for other collectives.
    pub fn operation(&self) -> Option<Operation> {
        self.arguments.operation
    }

    /// Makes working memory for one run.
    pub fn scratch(&self) -> Scratch {
        let bytes = self.schedule.scratch as usize;
        if self.is_checked && bytes > 0 { Scratch::shared(SharedBuffer::new(bytes)) } else { Scratch::new(bytes) }
    }
}

/// The memory of one run of a collective.
pub struct Run {
    bound: Arc<Bound>,
    scratch: Scratch,
}

impl Run {
    /// Makes a run of `bound`, with working memory at least as long as its schedule asks for, and shared if
    /// `bound` is.
    ///
    /// # Panics
    /// When the working memory is not like that.
    pub fn new(bound: Arc<Bound>, scratch: Scratch) -> Self {
        assert!(
            scratch.len() as u64 >= bound.schedule.scratch,
            "the collective has less working memory than it asks for"
        );
        assert!(
            !bound.is_checked || scratch.is_shared() || bound.schedule.scratch == 0,
            "the collective's working memory is not shared as its buffers are"
        );
        Self { bound, scratch }
    }

    /// The schedule and buffers of this run.
    #[inline]
    pub fn bound(&self) -> &Arc<Bound> {
        &self.bound
    }

    fn start(&self, slice: &Slice) -> SliceStart<'_> {
        match slice.buffer {
            Buffer::Send => self.bound.arguments.send.start(slice.offset),
            Buffer::Receive => self.bound.arguments.receive.start(slice.offset),
            Buffer::Scratch => self.scratch.start(slice.offset),
        }
    }

    fn data(&self, slice: &Slice, buffer_use: BufferUse) -> UserData {
        match (self.start(slice), self.bound.arguments.datatype(slice.kind)) {
            // SAFETY: `Bound::new` was promised the memory that the slices of its schedule touch, and
            // `Bound::shared` has checked that slices of no shared buffer have no items. `slice` is a slice
            // of the schedule.
            (SliceStart::Program(base), Some(datatype)) => unsafe {
                UserData::new_for(buffer_use, base, slice.count, datatype.layout()).unwrap_or_else(|error| {
                    panic!("the buffers of a collective are checked before it is planned: {error}")
                })
            },
            // SAFETY: as above.
            (SliceStart::Program(base), None) => unsafe { UserData::from_bytes(base, slice.count) },
            (SliceStart::Shared(buffer, offset), Some(datatype)) => {
                buffer.describe_at(offset, slice.count, datatype.layout())
            }
            (SliceStart::Shared(buffer, offset), None) => buffer.describe_bytes_at(offset, slice.count),
        }
    }

    /// The data of a transfer.
    ///
    /// # Panics
    /// When the step is no transfer.
    #[inline]
    pub fn transfer(&self, step: u32) -> UserData {
        match self.bound.schedule.step(step) {
            Step::Send { slice, .. } | Step::Multicast { slice } => self.data(slice, BufferUse::Send),
            Step::Receive { slice, .. } => self.data(slice, BufferUse::Receive),
            _ => panic!("step {step} is no transfer"),
        }
    }

    /// The data that a step publishes or exposes.
    ///
    /// # Panics
    /// When the step does neither.
    #[inline]
    pub fn published(&self, step: u32) -> UserData {
        match self.bound.schedule.step(step) {
            Step::Publish { slice, .. } | Step::Expose { slice, .. } => self.data(slice, BufferUse::Send),
            _ => panic!("step {step} publishes nothing"),
        }
    }

    /// The memory for the data that a step fetches.
    ///
    /// # Panics
    /// When the step fetches nothing.
    #[inline]
    pub fn fetched(&self, step: u32) -> UserData {
        match self.bound.schedule.step(step) {
            Step::Fetch { slice, .. } => self.data(slice, BufferUse::Receive),
            _ => panic!("step {step} fetches nothing"),
        }
    }

    /// Does a step that takes `bytes`, which another process has published; or returns the call of the
    /// program's function that does it. The step decides how much is taken; where less was published, less is
    /// taken.
    ///
    /// # Errors
    /// `MPI_ERR_TRUNCATE` when more was published than this process knows of; a step that makes no sense.
    ///
    /// # Panics
    /// When it is another step.
    #[inline]
    pub fn take_published(&self, step: u32, bytes: &[u8]) -> Result<Option<UserReduction>> {
        let from = |at: u64| bytes.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default();
        match self.bound.schedule.step(step) {
            Step::Collect { slice, .. } if slice.count == 0 => Ok(None),
            Step::Collect { at, of, slice, .. } => {
                let (data, bytes_left) = (self.data(slice, BufferUse::Receive), from(*at));
                let len = bytes_left.len().min(data.len() as usize);
                data.write(0, &bytes_left[..len]);
                let published = bytes.len() as u64;
                if published > *of { Err(too_long(published, *of)) } else { Ok(None) }
            }
            Step::Combine { at, inout, .. } => self.combine(from(*at), inout),
            _ => panic!("step {step} takes nothing that was published"),
        }
    }

    /// Computes `inout = input op inout`, for packed items that are packed in memory too.
    fn combine(&self, input: &[u8], inout: &Slice) -> Result<Option<UserReduction>> {
        let arguments = &self.bound.arguments;
        let datatype = arguments.datatype(inout.kind).ok_or_else(|| internal("a reduction of plain bytes"))?;
        let data = self.data(inout, BufferUse::Any);
        let len = input.len().min(data.len() as usize);
        match arguments.operation.ok_or_else(|| internal("a reduction without an operation"))? {
            Operation::Predefined(op) => {
                let element = element_of(datatype)?;
                let whole = len / element.extent() * element.extent();
                match data.program_run(&(0..whole as u64)) {
                    // SAFETY: the maker of the value promised `whole` bytes, which lie apart from the bytes
                    // that others publish.
                    Some(to) => unsafe { reduce_elements(op, element, input.as_ptr(), to, whole / element.extent()) },
                    None => {
                        let mut right = vec![0; whole];
                        data.read(0, &mut right);
                        reduce::apply(op, element, &input[..whole], &mut right);
                        data.write(0, &right);
                    }
                }
                Ok(None)
            }
            Operation::User(user) => {
                // Another process may write over its published bytes while the function runs, and the
                // function may want them aligned.
                let Some(to) = data.program_run(&(0..data.len())) else {
                    return Err(internal("a function of the program for memory that is not the program's"));
                };
                let mut operand = vec![Line::ZERO; (data.len() as usize).div_ceil(SCRATCH_ALIGNMENT as usize)];
                let start = operand.as_mut_ptr().cast::<u8>();
                // SAFETY: `operand` has at least as many bytes as `data`, which `len` does not exceed.
                unsafe { std::ptr::copy_nonoverlapping(input.as_ptr(), start, len) };
                let extent = datatype.layout().extent();
                let at = to.wrapping_offset(-(datatype.layout().true_lb() as isize));
                Ok(Some(UserReduction {
                    function: user.function,
                    input: Address::new(start.wrapping_offset(-(datatype.layout().true_lb() as isize))),
                    inout: Address::new(at),
                    count: inout.count,
                    extent: extent as isize,
                    datatype: datatype.handle().load(Ordering::Relaxed),
                    _operand: operand,
                }))
            }
        }
    }

    /// Does a step that is no transfer, or returns the call of the program's function that does it.
    ///
    /// # Errors
    /// A step that makes no sense; `MPI_ERR_TRUNCATE` when a message of this process to itself is longer than
    /// its receive: the front part has been copied then.
    ///
    /// # Panics
    /// When it is a transfer.
    pub fn do_local(&self, step: u32) -> Result<Option<UserReduction>> {
        match self.bound.schedule.step(step) {
            Step::Copy { from, to } => {
                let (from, to) = (self.data(from, BufferUse::Any), self.data(to, BufferUse::Any));
                super::copy(&from, &to);
                if from.len() > to.len() { Err(truncated(from.len(), to.len())) } else { Ok(None) }
            }
            Step::Reduce { input, inout } => self.reduce(input, inout),
            Step::Join => Ok(None),
            Step::Send { .. } | Step::Multicast { .. } | Step::Receive { .. } => panic!("step {step} is a transfer"),
            Step::Publish { .. }
            | Step::Collect { .. }
            | Step::Combine { .. }
            | Step::Expose { .. }
            | Step::Fetch { .. }
            | Step::Finish { .. } => {
                panic!("step {step} needs what others publish")
            }
        }
    }

    fn reduce(&self, input: &Slice, inout: &Slice) -> Result<Option<UserReduction>> {
        let arguments = &self.bound.arguments;
        let datatype = arguments.datatype(input.kind).ok_or_else(|| internal("a reduction of plain bytes"))?;
        let operation = arguments.operation.ok_or_else(|| internal("a reduction without an operation"))?;
        match (self.start(input), self.start(inout)) {
            (SliceStart::Program(from), SliceStart::Program(to)) => {
                // SAFETY: `Bound::new` was promised both operands of each reduction, and that they are apart.
                // `Bound::shared` has found no items here.
                unsafe { reduction(operation, datatype, from, to, input.count) }
            }
            (from, to) => {
                let Operation::Predefined(op) = operation else {
                    return Err(internal("a function of the program for memory that is not the program's"));
                };
                let element = element_of(datatype)?;
                let touched = datatype.layout().touched(input.count).end as u64;
                reduce_shared(op, element, (input.count, touched), &from.bytes(touched), &to.bytes(touched));
                Ok(None)
            }
        }
    }
}

impl SliceStart<'_> {
    /// The bytes from here on, which are those of an operand of a reduction.
    fn bytes(&self, bytes: u64) -> UserData {
        match self {
            // SAFETY: `Bound::new` was promised the operands of each reduction; `Bound::shared` has found no
            // items here.
            Self::Program(base) => unsafe { UserData::from_bytes(*base, bytes) },
            Self::Shared(buffer, offset) => buffer.describe_bytes_at(*offset, bytes),
        }
    }
}

/// The error when more bytes have come than there is room for.
#[cold]
pub(crate) fn too_long(published: u64, expected: u64) -> Error {
    let message = format!(
        "message truncated: {published} bytes have come, and there is room for {expected}; all ranks must describe the same data"
    );
    Error::new(ErrorClass::Truncate, message)
}

#[cold]
fn truncated(sent: u64, received: u64) -> Error {
    let message = format!(
        "message truncated: this process sends {sent} bytes to itself, and receives {received} from itself; both must describe the same data"
    );
    Error::new(ErrorClass::Truncate, message)
}

fn element_of(datatype: &dyn Datatype) -> Result<Element> {
    datatype.element().ok_or_else(|| internal("a predefined operation on a derived type"))
}

/// Computes `inout = input op inout` for `count` elements of which `touched` bytes are there: the last one's
/// padding may be missing.
fn reduce_shared(op: Op, element: Element, (count, touched): (u64, u64), input: &UserData, inout: &UserData) {
    let mut operands = [(); 2].map(|()| vec![0; count as usize * element.extent()]);
    let [left, right] = &mut operands;
    input.read(0, &mut left[..touched as usize]);
    inout.read(0, &mut right[..touched as usize]);
    reduce::apply(op, element, left, right);
    inout.write(0, &right[..touched as usize]);
}

/// Computes `inout[i] = input[i] op inout[i]` for `count` items, outside of any collective
/// (`MPI_Reduce_local`, MPI-5.0 §6.9.7). The function of the program may call MPI: the process lock must be
/// free.
///
/// # Errors
/// A predefined operation on a derived datatype.
///
/// # Safety
/// Both addresses hold `count` items of `datatype`, and these do not overlap. Where the operation is a
/// function of the program, that can be called with them.
pub unsafe fn reduce_local(
    operation: Operation,
    datatype: &dyn Datatype,
    input: *const u8,
    inout: *mut u8,
    count: u64,
) -> Result<()> {
    // SAFETY: the caller's promise.
    if let Some(call) = unsafe { reduction(operation, datatype, input.cast_mut(), inout, count)? } {
        call.call();
    }
    Ok(())
}

/// Computes as [`reduce_local`] does: at once, or by a call of the program's function that is returned.
///
/// # Errors
/// As for [`reduce_local`].
///
/// # Safety
/// As for [`reduce_local`], until the call that is returned has been made.
unsafe fn reduction(
    operation: Operation,
    datatype: &dyn Datatype,
    input: *mut u8,
    inout: *mut u8,
    count: u64,
) -> Result<Option<UserReduction>> {
    match operation {
        Operation::Predefined(op) => {
            let element = element_of(datatype)?;
            // SAFETY: the caller's promise; items of a predefined type are its elements.
            unsafe { reduce_elements(op, element, input, inout, count as usize) };
            Ok(None)
        }
        Operation::User(user) => Ok(Some(UserReduction {
            function: user.function,
            input: Address::new(input),
            inout: Address::new(inout),
            count,
            extent: datatype.layout().extent() as isize,
            datatype: datatype.handle().load(Ordering::Relaxed),
            _operand: Vec::new(),
        })),
    }
}

/// Computes `inout[i] = input[i] op inout[i]` on `count` contiguous elements in the program's memory, for
/// which `op` is defined.
///
/// # Safety
/// Both addresses hold `count` elements, and do not overlap.
pub unsafe fn reduce_elements(op: Op, element: Element, input: *const u8, inout: *mut u8, count: usize) {
    let bytes = count * element.extent();
    if bytes == 0 {
        return;
    }
    // SAFETY: the caller promises `count` elements to read here, which are not written meanwhile: those at
    // `inout` are apart.
    let input = unsafe { std::slice::from_raw_parts(input, bytes) };
    // SAFETY: the caller promises `count` elements to write here, apart from those at `input`.
    let inout = unsafe { std::slice::from_raw_parts_mut(inout, bytes) };
    reduce::apply(op, element, input, inout);
}

/// A call of the program's reduction function that is due.
///
/// It runs while the process lock is free, because the function may call MPI (MPI-5.0 §6.9.5). Only a [`Run`]
/// makes one, and the code that vouched for the run vouched for the operands.
pub struct UserReduction {
    function: UserFunction,
    /// The left operands.
    input: Address,
    /// The right operands and results.
    inout: Address,
    /// The number of items in each.
    count: u64,
    /// Bytes from one item to the next.
    extent: isize,
    /// Handle of the items' datatype.
    datatype: usize,
    /// The memory of the left operands, if they are not in the memory of the collective.
    _operand: Vec<Line>,
}

impl UserReduction {
    /// Calls the function, which is what the program gave to `MPI_Op_create(_c)`.
    pub fn call(&self) {
        let mut datatype = self.datatype;
        match self.function {
            UserFunction::Large(function) => {
                let mut count = self.count as i64;
                // SAFETY: the code that vouched for this call vouched for the function and its operands.
                unsafe { function(self.input.base.cast(), self.inout.base.cast(), &raw mut count, &raw mut datatype) };
            }
            UserFunction::Small(function) => {
                let mut done = 0;
                while done < self.count {
                    let mut count = (self.count - done).min(i32::MAX as u64) as i32;
                    let offset = self.extent * done as isize;
                    let at = |address: &Address| address.base.wrapping_offset(offset).cast();
                    // SAFETY: as above; these are the next operands.
                    unsafe { function(at(&self.input), at(&self.inout), &raw mut count, &raw mut datatype) };
                    done += i32::MAX as u64;
                }
            }
        }
    }
}

/// Scratch memory of a collective, aligned for any basic type.
pub struct Scratch {
    memory: ScratchMemory,
    bytes: usize,
}

enum ScratchMemory {
    /// Lines that only this process knows, and their address.
    Own { start: *mut u8, _lines: Vec<Line> },
    /// A buffer that is kept for as long as anything may touch it.
    Shared(SharedBuffer),
}

// SAFETY: it owns its lines as a vector does.
unsafe impl Send for ScratchMemory {}

impl Scratch {
    /// Makes `bytes` zeroed bytes.
    pub fn new(bytes: usize) -> Self {
        let mut lines = vec![Line::ZERO; bytes.div_ceil(SCRATCH_ALIGNMENT as usize)];
        Self { memory: ScratchMemory::Own { start: lines.as_mut_ptr().cast(), _lines: lines }, bytes }
    }

    /// Takes the bytes of `buffer`.
    pub fn shared(buffer: SharedBuffer) -> Self {
        Self { bytes: buffer.len(), memory: ScratchMemory::Shared(buffer) }
    }

    fn is_shared(&self) -> bool {
        matches!(self.memory, ScratchMemory::Shared(_))
    }

    fn start(&self, offset: i64) -> SliceStart<'_> {
        match &self.memory {
            ScratchMemory::Own { start, .. } => SliceStart::Program(start.wrapping_offset(offset as isize)),
            ScratchMemory::Shared(buffer) => SliceStart::Shared(buffer, offset),
        }
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_plan::collective::{ElementShape, Items, allreduce};

    struct Numbers(Element, Layout, AtomicUsize);

    impl Datatype for Numbers {
        fn layout(&self) -> &Layout {
            &self.1
        }
        fn element(&self) -> Option<Element> {
            Some(self.0)
        }
        fn handle(&self) -> &AtomicUsize {
            &self.2
        }
    }

    fn numbers(element: Element) -> SharedDatatype {
        Arc::new(Numbers(element, Layout::element(element), AtomicUsize::new(7)))
    }

    fn sum(receive: Address) -> Arguments {
        let operation = Some(Operation::Predefined(Op::Sum));
        Arguments { receive, receive_type: Some(numbers(Element::Int64)), operation, ..Arguments::none() }
    }

    fn slice(buffer: Buffer, offset: i64, count: u64) -> Slice {
        Slice { buffer, offset, count, kind: Kind::Receive }
    }

    /// A schedule in which two numbers are copied to working memory, and added to the two behind them.
    fn schedule() -> Schedule {
        let (first, last) = (slice(Buffer::Receive, 0, 2), slice(Buffer::Receive, 16, 2));
        let scratch = slice(Buffer::Scratch, 0, 2);
        let local = [Step::Copy { from: first, to: scratch }, Step::Reduce { input: scratch, inout: last }];
        Schedule::in_order(local.into_iter().chain([Step::Send { to: 1, slice: last }]), 16)
    }

    fn run(bound: Bound) -> Vec<u8> {
        let scratch = bound.scratch();
        let run = Run::new(Arc::new(bound), scratch);
        for step in 0..2 {
            assert!(run.do_local(step).unwrap().is_none());
        }
        let mut sent = vec![0; 16];
        run.transfer(2).read(0, &mut sent);
        sent
    }

    #[test]
    fn steps_are_done_in_memory_of_the_program_and_of_ours() {
        let mut values = [1_i64, 2, 30, 40];
        let buffer = SharedBuffer::of_values(&values);
        let arguments = sum(Address::new(values.as_mut_ptr().cast()));
        // SAFETY: the schedule touches four numbers in the receive buffer and two in its working memory;
        // `values` outlives the run.
        let sent = run(unsafe { Bound::new(schedule(), arguments) });
        assert_eq!(values, [1, 2, 31, 42]);
        assert_eq!(run(Bound::shared(schedule(), sum(buffer.address(0)))), sent);
        assert_eq!(buffer.values(), values);
    }

    #[test]
    #[should_panic(expected = "16..32 is not inside of 24 bytes")]
    fn a_schedule_that_reaches_outside_of_a_buffer_is_not_bound_to_it() {
        Bound::shared(schedule(), sum(SharedBuffer::new(24).address(0)));
    }

    #[test]
    #[should_panic(expected = "the buffer is not one of ours")]
    fn an_address_alone_is_no_buffer() {
        Bound::shared(schedule(), sum(Address::NULL));
    }

    #[test]
    #[should_panic(expected = "is not inside of 16 bytes")]
    fn a_step_outside_of_its_working_memory_is_not_done() {
        let to = slice(Buffer::Scratch, 8, 2);
        let outside = Step::Copy { from: slice(Buffer::Receive, 0, 2), to };
        let schedule = Schedule::in_order([outside], 16);
        run(Bound::shared(schedule, sum(SharedBuffer::new(32).address(0))));
    }

    #[test]
    #[should_panic(expected = "less working memory")]
    fn working_memory_is_as_long_as_the_schedule_asks() {
        let bound = Bound::shared(schedule(), sum(SharedBuffer::new(32).address(0)));
        Run::new(Arc::new(bound), Scratch::shared(SharedBuffer::new(15)));
    }

    /// Pairs have padding at their end, which a buffer need not have for its last one.
    #[test]
    fn the_last_pair_of_a_reduction_may_be_without_padding() {
        let element = Element::ALL.iter().copied().find(|element| element.extent() > element.size()).unwrap();
        let datatype = numbers(element);
        let touched = datatype.layout().touched(1).end as usize;
        let buffers = [1_u8, 2].map(|fill| {
            let buffer = SharedBuffer::new(touched);
            buffer.write(0, &vec![fill; touched]);
            buffer
        });
        let reduction = Step::Reduce { input: slice(Buffer::Send, 0, 1), inout: slice(Buffer::Receive, 0, 1) };
        let schedule = Schedule::in_order([reduction], 0);
        let arguments = Arguments {
            send: buffers[0].address(0),
            receive: buffers[1].address(0),
            receive_type: Some(datatype),
            operation: Some(Operation::Predefined(Op::MinLoc)),
            ..Arguments::none()
        };
        let bound = Bound::shared(schedule, arguments);
        let scratch = bound.scratch();
        Run::new(Arc::new(bound), scratch).do_local(0).unwrap();
        let mut result = vec![0; element.size()];
        let shared = buffers[1].describe(0, 1, &Layout::element(element));
        shared.read(0, &mut result);
        assert_eq!(result, vec![1; element.size()]);
    }

    #[test]
    fn the_schedules_of_agreements_fit_their_buffers() {
        for size in 1..9 {
            for rank in 0..size {
                let items = Items { count: 3, shape: ElementShape::plain(8) };
                let shape = weft_plan::collective::Allreduce { rank, size, items, commutative: true, in_place: true };
                let bound = Bound::shared(allreduce(&shape), sum(SharedBuffer::new(24).address(0)));
                let scratch = bound.scratch();
                let run = Run::new(Arc::new(bound), scratch);
                for (number, step) in run.bound().schedule().steps().enumerate() {
                    match step.is_transfer() {
                        true => drop(run.transfer(number as u32)),
                        false => assert!(run.do_local(number as u32).unwrap().is_none()),
                    }
                }
            }
        }
    }
}
