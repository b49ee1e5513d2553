//! One-sided operations (MPI-5.0 §12.3): put, get and the accumulates. Operations on memory that is mapped
//! here need no lock of the process.

use super::operands::Found;
use crate::arguments::*;
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use weft_mpi::error::{Error, Result};
use weft_mpi::layout::Element;
use weft_mpi::memory::{self, UserData};
use weft_mpi::object::Operation;
use weft_mpi::one_sided::Spot;
use weft_mpi::process::{Guard, Process, lock};
use weft_mpi::reduce::{self, Op};
use weft_mpi::request::State;

/// Ends the call of an operation: writes its request where the program wants one, and hands over what is
/// under way.
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
            // An operation that is over already has a request of the same kind, too.
            _ => messages.add_lasting(State::Complete, objects.window(win.0)?.communicator)?,
        };
        request.set(MPI_Request(handle));
    }
    Ok(())
}

/// The state of an operation that was begun.
struct Made {
    request: Option<usize>,
    is_over: bool,
}

impl Made {
    const NOTHING: Self = Self { request: None, is_over: true };
}

/// The direction of the bytes of a put or get.
#[derive(Clone, Copy)]
enum Direction {
    Put,
    Get,
}

/// MPI_Put and MPI_Get: a copy at once where the memory is mapped here.
#[inline(always)]
fn transfer(direction: Direction, form: Form, origin: Part, target: Target, win: MPI_Win) -> Result<()> {
    let address: *mut u8 = origin.buffer.as_ptr();
    let request = form.request();
    // SAFETY: `Buffer::new` was promised what count and datatype say, until the operation is complete. `spot`
    // has compared origin and target.
    unsafe {
        if request.is_none()
            && let Some(Spot { memory, offset, bytes, .. }) = target.spot(win, &origin)
            && match direction {
                Direction::Put => memory.put(offset, address, bytes),
                Direction::Get => memory.get(offset, address, bytes),
            }
        {
            return Ok(());
        }
    }
    start(direction, origin, target, win, request)
}

/// MPI_Put and MPI_Get by the engine, MPI_Rput and MPI_Rget if there is a `request`.
fn start(
    direction: Direction,
    origin: Part,
    target: Target,
    win: MPI_Win,
    request: Option<Out<MPI_Request>>,
) -> Result<()> {
    let mut process = lock();
    let access = match direction {
        Direction::Put => memory::BufferUse::Send,
        Direction::Get => memory::BufferUse::Receive,
    };
    let data = origin.operand(&process, access)?;
    let wanted = request.is_some();
    let made = match target.find(&mut process, win, Some(data.len()), wanted)? {
        Some(Found { index, access, engine, is_mapped }) => {
            let request = match direction {
                Direction::Put => engine.one_sided().put(index, access, &data, wanted)?,
                Direction::Get => engine.one_sided().get(index, access, &data, wanted)?,
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

/// MPI_Accumulate, and MPI_Get_accumulate with a `result`: at once where the memory is mapped here.
#[inline(always)]
fn update(form: Form, origin: Part, result: Option<Part>, target: Target, op: MPI_Op, win: MPI_Win) -> Result<()> {
    let request = form.request();
    if request.is_none() && target.update(win, origin, result, op) {
        return Ok(());
    }
    start_accumulate(lock(), origin, result, target, op, win, request)
}

/// MPI_Accumulate and MPI_Get_accumulate by the engine, and their forms with requests.
fn start_accumulate(
    mut process: Guard,
    origin: Part,
    result: Option<Part>,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
    request: Option<Out<MPI_Request>>,
) -> Result<()> {
    let wanted = request.is_some();
    let whole = Part { buffer: Buffer::NULL, count: target.count, datatype: target.datatype };
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
    // Only the arguments that the operation uses are looked at (MPI-5.0 §12.3.4).
    let (data, bytes) = if chosen == Op::NoOp {
        (UserData::empty(), None)
    } else {
        if origin.element(&process, "origin_datatype")? != element {
            let message = "origin_datatype and target_datatype must consist of the same predefined datatype";
            return Err(Error::new(MPI_ERR_TYPE, message));
        }
        let data = origin.operand(&process, memory::BufferUse::Send)?;
        let bytes = data.len();
        (data, Some(bytes))
    };
    let result = match result {
        Some(result) => Some(result.operand(&process, memory::BufferUse::Receive)?),
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
            let request =
                engine.one_sided().accumulate(index, access, (chosen, element), &data, result.as_ref(), wanted)?;
            Made { request, is_over: is_mapped }
        }
        _ => Made::NOTHING,
    };
    hand_out(&mut process, made, win, request)
}

/// MPI_Put, MPI_Rput (MPI-5.0 §12.3.1, §12.3.5).
#[inline(always)]
pub(crate) fn put(form: Form, origin: Part, target: Target, win: MPI_Win) -> Result<()> {
    transfer(Direction::Put, form, origin, target, win)
}

/// MPI_Get, MPI_Rget (MPI-5.0 §12.3.2, §12.3.5).
#[inline(always)]
pub(crate) fn get(form: Form, origin: Part, target: Target, win: MPI_Win) -> Result<()> {
    transfer(Direction::Get, form, origin, target, win)
}

/// MPI_Accumulate, MPI_Raccumulate (MPI-5.0 §12.3.4, §12.3.5).
#[inline(always)]
pub(crate) fn accumulate(form: Form, origin: Part, target: Target, op: MPI_Op, win: MPI_Win) -> Result<()> {
    update(form, origin, None, target, op, win)
}

/// MPI_Get_accumulate, MPI_Rget_accumulate (MPI-5.0 §12.3.4, §12.3.5).
#[inline(always)]
pub(crate) fn get_accumulate(
    form: Form,
    origin: Part,
    result: Part,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    update(form, origin, Some(result), target, op, win)
}

fn one(buffer: Buffer, datatype: MPI_Datatype) -> Part {
    Part { buffer, count: 1, datatype }
}

/// The element of a predefined datatype, as the next two operations need it.
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
    let origin = one(origin_addr, datatype);
    let result = one(result_addr, datatype);
    if target.update(win, origin, Some(result), op) {
        return Ok(());
    }
    let process = lock();
    predefined(&process, datatype)?;
    start_accumulate(process, origin, Some(result), target, op, win, None)
}

/// Returns whether MPI_Compare_and_swap takes these elements: integers, logicals and bytes.
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
    if let Some(Spot { memory, offset, element, .. }) = target.spot(win, &one(origin_addr, datatype))
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
        one(origin_addr, datatype).operand(&process, memory::BufferUse::Send)?,
        one(compare_addr, datatype).operand(&process, memory::BufferUse::Send)?,
        one(result_addr, datatype).operand(&process, memory::BufferUse::Receive)?,
    );
    let found = target.find(&mut process, win, None, false)?;
    let Some(Found { index, access, engine, is_mapped }) = found else { return Ok(()) };
    engine.one_sided().compare_and_swap(index, (access.target, access.offset), element, &compare, &value, &result)?;
    hand_out(&mut process, Made { request: None, is_over: is_mapped }, win, None)
}
