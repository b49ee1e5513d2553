//! One-sided operations (MPI-5.0 §12.3): put, get and the accumulates. Those on memory that is mapped here
//! are done without the lock of the process.

use crate::arguments::*;
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use weft_mpi::engine::Engine;
use weft_mpi::error::{Error, Result};
use weft_mpi::layout::Element;
use weft_mpi::memory::{self, UserData};
use weft_mpi::object::Operation;
use weft_mpi::one_sided::{self, Access, Spot};
use weft_mpi::process::{Guard, Process, lock};
use weft_mpi::reduce::{self, Op};
use weft_mpi::request::State;

/// Memory of the program, as the operations name it.
#[derive(Clone, Copy)]
struct Operand {
    address: Buffer,
    count: i64,
    datatype: MPI_Datatype,
}

impl Operand {
    fn new(address: Buffer, count: i64, datatype: MPI_Datatype) -> Self {
        Self { address, count, datatype }
    }

    fn describe(&self, process: &Process, access: memory::Access) -> Result<UserData> {
        let found = process.objects.committed(self.datatype.0)?;
        // SAFETY: `Buffer::new` was promised what count and datatype say, until the operation is complete.
        unsafe { UserData::new_for(access, self.address.as_ptr(), self.count as u64, &found.description.layout) }
    }

    /// The one element that it consists of; `None` where there is no data.
    fn element(&self, process: &Process, name: &str) -> Result<Option<Element>> {
        let layout = &process.objects.committed(self.datatype.0)?.description.layout;
        match layout.homogeneous() {
            _ if layout.size() == 0 || self.count == 0 => Ok(None),
            None => {
                let message = format!("{name} must consist of one predefined datatype, however often");
                Err(Error::new(MPI_ERR_TYPE, message))
            }
            found => Ok(found),
        }
    }
}

/// Where at the target.
#[derive(Clone, Copy)]
struct Target {
    rank: c_int,
    disp: MPI_Aint,
    count: i64,
    datatype: MPI_Datatype,
}

impl Target {
    /// Where it is, if this thread may access it without the lock of the process, and `origin` is described
    /// alike.
    #[inline]
    fn spot(&self, win: MPI_Win, origin: &Operand) -> Option<Spot> {
        let alike = origin.datatype == self.datatype && origin.count == self.count;
        if alike { one_sided::spot(win.0, self.rank, self.disp, self.count, self.datatype.0) } else { None }
    }

    /// Combines the target's elements with those of `origin` without the lock of the process. `false`: that
    /// cannot be done. The elements as they were before go to `result`, if there is one.
    #[inline]
    fn update(&self, win: MPI_Win, origin: Operand, result: Option<Operand>, op: MPI_Op) -> bool {
        let Some(op) = weft_mpi::predefined::operation(op.0) else { return false };
        let own = Operand::new(Buffer::NULL, self.count, self.datatype);
        let is_unusual =
            |result: &Operand| result.address.is_null() || result.count != own.count || result.datatype != own.datatype;
        if result.as_ref().map_or(op == Op::NoOp, is_unusual) {
            return false;
        }
        let into = result.map_or(std::ptr::null_mut(), |result| result.address.as_ptr());
        // What is not used is not looked at (MPI-5.0 §12.3.4).
        let spot = self.spot(win, if op == Op::NoOp { &own } else { &origin });
        // SAFETY: `Buffer::new` was promised what count and datatype say, until the operation is complete.
        // `spot` has compared origin and target.
        spot.filter(|spot| reduce::supports(op, spot.element)).is_some_and(|spot| unsafe {
            spot.memory.update(spot.offset, (op, spot.element), spot.bytes, origin.address.as_ptr(), into)
        })
    }
}

/// What an operation goes to.
struct Found<'a> {
    index: usize,
    access: Access<'a>,
    engine: &'a mut Engine,
    /// The operation is over as it returns: nothing is handed over to anybody.
    is_mapped: bool,
}

impl Target {
    /// What it means in this window; `None`: there is nothing to be done. `bytes`: of the data that goes
    /// there or comes from there, if it matters.
    #[inline]
    fn find<'a>(
        &self,
        process: &'a mut Process,
        win: MPI_Win,
        bytes: Option<u64>,
        wanted: bool,
    ) -> Result<Option<Found<'a>>> {
        let (objects, engine) = process.parts()?;
        let found = objects.window_mut(win.0)?;
        let Some((rank, part)) = found.target(self.rank)? else {
            return objects.committed(self.datatype.0).map(|_| None);
        };
        let (unit, size) = (part.disp_unit, part.size);
        found.epochs.check_access(rank)?;
        if wanted {
            found.epochs.check_passive(rank)?;
        }
        let (index, is_dynamic) = (found.index, found.is_dynamic());
        let layout = &objects.committed(self.datatype.0)?.description.layout;
        let total = memory::packed_size(self.count as u64, layout)?;
        if let Some(bytes) = bytes
            && bytes != total
        {
            let message = format!("the origin has {bytes} bytes and the target {total}: they must be described alike");
            return Err(Error::new(MPI_ERR_TRUNCATE, message));
        }
        let offset = if is_dynamic {
            self.disp as u64
        } else {
            let disp = u64::try_from(self.disp).map_err(|_| negative(self.disp))?;
            let offset = disp.checked_mul(unit).filter(|offset| *offset < 1 << 63);
            let offset = offset.ok_or_else(|| out_of_range(self, size))?;
            let touched = layout.touched(self.count as u64);
            let (low, high) = (offset as i128 + touched.start as i128, offset as i128 + touched.end as i128);
            if total > 0 && (low < 0 || high > i128::from(size)) {
                return Err(out_of_range(self, size));
            }
            offset
        };
        let is_mapped = engine.windows.get(index).is_some_and(|window| window.is_mapped(rank));
        let access = Access { target: rank, offset, count: self.count as u64, layout };
        Ok((total > 0).then_some(Found { index, access, engine, is_mapped }))
    }
}

#[cold]
fn negative(disp: MPI_Aint) -> Error {
    Error::new(MPI_ERR_DISP, format!("target_disp is {disp}; it must not be negative"))
}

#[cold]
fn out_of_range(target: &Target, size: u64) -> Error {
    let Target { rank, disp, count, .. } = target;
    let message =
        format!("{count} items at target_disp {disp} are not in the window of rank {rank}, which has {size} bytes");
    Error::new(MPI_ERR_RMA_RANGE, message)
}

/// Ends the call of an operation: writes its request where the program wants it, and hands over what is under
/// way.
#[inline]
fn hand_out(process: &mut Process, made: Made, win: MPI_Win, request: Option<Out<MPI_Request>>) -> Result<()> {
    if !made.is_over {
        process.signal();
    }
    if let Some(request) = request {
        let (objects, engine) = process.parts()?;
        let messages = &mut engine.messages;
        let handle = match made.request {
            Some(handle) if handle != messages.sent => handle,
            // What is over already has a request of its own kind, too.
            _ => messages.add_lasting(State::Complete, objects.window(win.0)?.communicator)?,
        };
        request.set(MPI_Request(handle));
    }
    Ok(())
}

/// What has become of an operation.
struct Made {
    request: Option<usize>,
    is_over: bool,
}

impl Made {
    const NOTHING: Self = Self { request: None, is_over: true };
}

/// Which way the bytes of a put or get go.
#[derive(Clone, Copy)]
enum Way {
    Put,
    Get,
}

/// MPI_Put and MPI_Get: a copy at once where the memory is mapped here.
#[inline(always)]
fn transfer(way: Way, origin: Operand, target: Target, win: MPI_Win) -> Result<()> {
    let address: *mut u8 = origin.address.as_ptr();
    // SAFETY: `Buffer::new` was promised what count and datatype say, until the operation is complete. `spot`
    // has compared origin and target.
    unsafe {
        if let Some(Spot { memory, offset, bytes, .. }) = target.spot(win, &origin)
            && match way {
                Way::Put => memory.put(offset, address, bytes),
                Way::Get => memory.get(offset, address, bytes),
            }
        {
            return Ok(());
        }
        start(way, origin, target, win, None)
    }
}

/// MPI_Put and MPI_Get by the engine, MPI_Rput and MPI_Rget if there is a `request`.
fn start(way: Way, origin: Operand, target: Target, win: MPI_Win, request: Option<Out<MPI_Request>>) -> Result<()> {
    let mut process = lock();
    let access = match way {
        Way::Put => memory::Access::Send,
        Way::Get => memory::Access::Receive,
    };
    let data = origin.describe(&process, access)?;
    let wanted = request.is_some();
    let made = match target.find(&mut process, win, Some(data.len()), wanted)? {
        Some(Found { index, access, engine, is_mapped }) => {
            let request = match way {
                Way::Put => engine.put(index, access, &data, wanted)?,
                Way::Get => engine.get(index, access, &data, wanted)?,
            };
            Made { request, is_over: is_mapped }
        }
        None => Made::NOTHING,
    };
    hand_out(&mut process, made, win, request)
}

/// The predefined operation of an accumulate.
fn operation(process: &Process, op: MPI_Op, element: Element) -> Result<Op> {
    match process.objects.operation(op.0)? {
        Operation::Predefined(op) if reduce::supports(op, element) => Ok(op),
        Operation::Predefined(op) => {
            Err(Error::new(MPI_ERR_OP, format!("{op:?} is not defined for the elements of this datatype")))
        }
        Operation::User(_) => {
            Err(Error::new(MPI_ERR_OP, "one-sided operations take predefined reduction operations only"))
        }
    }
}

/// MPI_Accumulate, MPI_Get_accumulate with a `result`, and their forms with requests.
fn start_accumulate(
    mut process: Guard,
    origin: Operand,
    result: Option<Operand>,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
    request: Option<Out<MPI_Request>>,
) -> Result<()> {
    let wanted = request.is_some();
    let whole = Operand { address: Buffer::NULL, count: target.count, datatype: target.datatype };
    let element = whole.element(&process, "target_datatype")?;
    let chosen = match element {
        Some(element) => operation(&process, op, element)?,
        None => Op::NoOp,
    };
    if result.is_none() && element.is_some() && chosen == Op::NoOp {
        return Err(Error::new(
            MPI_ERR_OP,
            "MPI_NO_OP is for operations that fetch (MPI_Get_accumulate and MPI_Fetch_and_op)",
        ));
    }
    // Only what the operation uses is looked at (MPI-5.0 §12.3.4).
    let (data, bytes) = if chosen == Op::NoOp {
        (UserData::empty(), None)
    } else {
        if origin.element(&process, "origin_datatype")? != element {
            let message = "origin_datatype and target_datatype must consist of the same predefined datatype";
            return Err(Error::new(MPI_ERR_TYPE, message));
        }
        let data = origin.describe(&process, memory::Access::Send)?;
        let bytes = data.len();
        (data, Some(bytes))
    };
    let result = match result {
        Some(result) => Some(result.describe(&process, memory::Access::Receive)?),
        None => None,
    };
    let bytes = bytes.or(result.as_ref().map(UserData::len));
    let made = match (target.find(&mut process, win, bytes, wanted)?, element) {
        (Some(Found { index, access, engine, is_mapped }), Some(element)) => {
            if let Some(result) = &result
                && result.len() != memory::packed_size(access.count, access.layout)?
            {
                let message = format!("the result has {} bytes: it must be described as the target is", result.len());
                return Err(Error::new(MPI_ERR_TRUNCATE, message));
            }
            let request = engine.accumulate(index, access, (chosen, element), &data, result.as_ref(), wanted)?;
            Made { request, is_over: is_mapped }
        }
        _ => Made::NOTHING,
    };
    hand_out(&mut process, made, win, request)
}

/// MPI_Put (MPI-5.0 §12.3.1).
pub(crate) fn put(
    origin_addr: Buffer,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<()> {
    let origin = Operand::new(origin_addr, origin_count, origin_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    transfer(Way::Put, origin, target, win)
}

/// MPI_Rput (MPI-5.0 §12.3.5).
pub(crate) fn rput(
    origin_addr: Buffer,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: Out<MPI_Request>,
) -> Result<()> {
    let origin = Operand::new(origin_addr, origin_count, origin_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    start(Way::Put, origin, target, win, Some(request))
}

/// MPI_Get (MPI-5.0 §12.3.2).
pub(crate) fn get(
    origin_addr: Buffer,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<()> {
    let origin = Operand::new(origin_addr, origin_count, origin_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    transfer(Way::Get, origin, target, win)
}

/// MPI_Rget (MPI-5.0 §12.3.5).
pub(crate) fn rget(
    origin_addr: Buffer,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: Out<MPI_Request>,
) -> Result<()> {
    let origin = Operand::new(origin_addr, origin_count, origin_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    start(Way::Get, origin, target, win, Some(request))
}

/// MPI_Accumulate (MPI-5.0 §12.3.4).
pub(crate) fn accumulate(
    origin_addr: Buffer,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let origin = Operand::new(origin_addr, origin_count, origin_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    if target.update(win, origin, None, op) {
        return Ok(());
    }
    start_accumulate(lock(), origin, None, target, op, win, None)
}

/// MPI_Raccumulate (MPI-5.0 §12.3.5).
pub(crate) fn raccumulate(
    origin_addr: Buffer,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: Out<MPI_Request>,
) -> Result<()> {
    let origin = Operand::new(origin_addr, origin_count, origin_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    start_accumulate(lock(), origin, None, target, op, win, Some(request))
}

/// MPI_Get_accumulate (MPI-5.0 §12.3.4).
pub(crate) fn get_accumulate(
    origin_addr: Buffer,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    result_addr: Buffer,
    result_count: i64,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let origin = Operand::new(origin_addr, origin_count, origin_datatype);
    let result = Operand::new(result_addr, result_count, result_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    if target.update(win, origin, Some(result), op) {
        return Ok(());
    }
    start_accumulate(lock(), origin, Some(result), target, op, win, None)
}

/// MPI_Rget_accumulate (MPI-5.0 §12.3.5).
pub(crate) fn rget_accumulate(
    origin_addr: Buffer,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    result_addr: Buffer,
    result_count: i64,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: Out<MPI_Request>,
) -> Result<()> {
    let origin = Operand::new(origin_addr, origin_count, origin_datatype);
    let result = Operand::new(result_addr, result_count, result_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    start_accumulate(lock(), origin, Some(result), target, op, win, Some(request))
}

/// The element of a predefined datatype, which the next two operations are for.
fn predefined(process: &Process, datatype: MPI_Datatype) -> Result<Element> {
    process.objects.committed(datatype.0)?;
    weft_mpi::predefined::element(datatype.0)
        .ok_or_else(|| Error::new(MPI_ERR_TYPE, "the datatype must be a predefined one"))
}

/// MPI_Fetch_and_op (MPI-5.0 §12.3.4).
pub(crate) fn fetch_and_op(
    origin_addr: Buffer,
    result_addr: Buffer,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let target = Target { rank: target_rank, disp: target_disp, count: 1, datatype };
    let origin = Operand::new(origin_addr, 1, datatype);
    let result = Operand::new(result_addr, 1, datatype);
    if target.update(win, origin, Some(result), op) {
        return Ok(());
    }
    let process = lock();
    predefined(&process, datatype)?;
    start_accumulate(process, origin, Some(result), target, op, win, None)
}

/// Whether MPI_Compare_and_swap takes such elements: integers, logicals and bytes.
const fn has_equality(element: Element) -> bool {
    reduce::supports(Op::BAnd, element) || reduce::supports(Op::LAnd, element)
}

/// MPI_Compare_and_swap (MPI-5.0 §12.3.4).
pub(crate) fn compare_and_swap(
    origin_addr: Buffer,
    compare_addr: Buffer,
    result_addr: Buffer,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    win: MPI_Win,
) -> Result<()> {
    let target = Target { rank: target_rank, disp: target_disp, count: 1, datatype };
    if let Some(Spot { memory, offset, element, .. }) = target.spot(win, &Operand::new(origin_addr, 1, datatype))
        && has_equality(element)
        // SAFETY: `Buffer::new` was promised what count and datatype say, until the operation is complete.
        && unsafe {
            memory.compare_and_swap(offset, element, compare_addr.as_ptr(), origin_addr.as_ptr(), result_addr.as_ptr())
        }
    {
        return Ok(());
    }
    let mut process = lock();
    let element = predefined(&process, datatype)?;
    if !has_equality(element) {
        let message = "the datatype must be an integer, a logical or a byte";
        return Err(Error::new(MPI_ERR_TYPE, message));
    }
    let (value, compare, result) = (
        Operand::new(origin_addr, 1, datatype).describe(&process, memory::Access::Send)?,
        Operand::new(compare_addr, 1, datatype).describe(&process, memory::Access::Send)?,
        Operand::new(result_addr, 1, datatype).describe(&process, memory::Access::Receive)?,
    );
    let found = target.find(&mut process, win, None, false)?;
    let Some(Found { index, access, engine, is_mapped }) = found else { return Ok(()) };
    engine.compare_and_swap(index, (access.target, access.offset), element, &compare, &value, &result)?;
    hand_out(&mut process, Made { request: None, is_over: is_mapped }, win, None)
}
