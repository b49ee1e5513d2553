//! One-sided communication (MPI-5.0 §12).
//!
//! # Safety
//! Every function here is called by its generated wrapper with the arguments of the C prototype: buffers hold what counts and datatypes say, and
//! stay valid until the operation is complete; memory of a window stays valid until the window is freed, or the memory detached (MPI-5.0 §12.2);
//! output pointers can be written.

use crate::arguments::*;
use crate::calls::attributes::delete_attributes;
use crate::calls::collectives;
use crate::calls::communicators::info_of;
use crate::calls::error_handlers;
use crate::calls::text;
use crate::constants::*;
use crate::types::*;
use std::ffi::{c_int, c_void};
use weft_mpi::engine::Engine;
use weft_mpi::error::{Error, Result};
use weft_mpi::layout::Element;
use weft_mpi::memory::{self, UserData};
use weft_mpi::object::{Class, Operation, full};
use weft_mpi::one_sided::{self, Access, Attached, Exposed, Exposure, Fence, Spot, Wish};
use weft_mpi::process::{Guard, Process, lock, with};
use weft_mpi::reduce::{self, Op};
use weft_mpi::request::State;

/// Makes a window; the address of this process's part of it.
///
/// # Safety
/// `base` has `size` bytes that stay valid until the window is freed, unless it is null.
unsafe fn create(
    flavor: i32,
    base: *mut c_void,
    size: i64,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    win: Out<MPI_Win>,
) -> Result<usize> {
    let info = with(|process| info_of(process, info));
    let prepared = one_sided::prepare(comm.0, Wish { flavor, size, disp_unit, base: base.addr(), info })?;
    let rank = prepared.rank() as usize;
    let mapped: Vec<Option<Exposed>> = prepared
        .parts
        .iter()
        .zip(&prepared.locks)
        .map(|(part, lock)| {
            let here = std::ptr::with_exposed_provenance_mut::<u8>(part.here);
            match (part.here, *lock) {
                _ if prepared.is_dynamic() => None,
                (0, _) => None,
                // SAFETY: memory that the program gives is as long as it says; memory that has been mapped as long as has been agreed. It is
                // unmapped when the window is gone.
                (_, 0) => Some(unsafe { Exposed::new(here, part.size) }),
                (_, lock) => {
                    let lock = std::ptr::with_exposed_provenance_mut(lock);
                    // SAFETY: as above; the lock lies in the same mapping, aligned.
                    Some(unsafe { Exposed::shared(here, part.size, lock, prepared.holder()) })
                }
            }
        })
        .collect();
    let exposure = match mapped[rank] {
        _ if prepared.is_dynamic() => Exposure::Attached(Attached::default()),
        Some(exposed) => Exposure::Whole(exposed),
        None => Exposure::Whole(Exposed::empty()),
    };
    let here = prepared.parts[rank].here;
    let handle = one_sided::open(prepared, exposure, mapped)?;
    win.set(MPI_Win(handle));
    Ok(here)
}

/// MPI_Win_create (MPI-5.0 §12.2.1).
pub(crate) unsafe fn win_create(
    base: *mut c_void,
    size: MPI_Aint,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    win: Out<MPI_Win>,
) -> Result<()> {
    // What is given to the program's processes by integers keeps its provenance so.
    base.expose_provenance();
    // SAFETY: the caller's memory and pointer.
    unsafe { create(MPI_WIN_FLAVOR_CREATE, base, size as i64, disp_unit, info, comm, win).map(|_| ()) }
}

/// MPI_Win_allocate (MPI-5.0 §12.2.2).
pub(crate) fn win_allocate(
    size: MPI_Aint,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: Out<usize>,
    win: Out<MPI_Win>,
) -> Result<()> {
    // SAFETY: it gives no memory.
    let here =
        unsafe { create(MPI_WIN_FLAVOR_ALLOCATE, std::ptr::null_mut(), size as i64, disp_unit, info, comm, win)? };
    baseptr.set(here);
    Ok(())
}

/// MPI_Win_allocate_shared (MPI-5.0 §12.2.3).
pub(crate) fn win_allocate_shared(
    size: MPI_Aint,
    disp_unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: Out<usize>,
    win: Out<MPI_Win>,
) -> Result<()> {
    // SAFETY: it gives no memory.
    let here = unsafe { create(MPI_WIN_FLAVOR_SHARED, std::ptr::null_mut(), size as i64, disp_unit, info, comm, win)? };
    baseptr.set(here);
    Ok(())
}

/// MPI_Win_shared_query (MPI-5.0 §12.2.3): MPI_PROC_NULL stands for the lowest rank that has memory.
pub(crate) fn win_shared_query(
    win: MPI_Win,
    rank: c_int,
    size: Out<MPI_Aint>,
    disp_unit: Out<i64>,
    baseptr: Out<usize>,
) -> Result<()> {
    let (bytes, unit, here) = with(|process| {
        let found = process.objects.window(win.0)?;
        if found.is_dynamic() {
            let message = "the window has been made by MPI_Win_create_dynamic, and its memory cannot be shared";
            return Err(Error::new(MPI_ERR_RMA_FLAVOR, message));
        }
        let allocated = found.facts.flavor != MPI_WIN_FLAVOR_CREATE;
        let part = match found.target(rank)? {
            Some((_, part)) => Some(part),
            None => found.parts.iter().find(|part| part.size > 0),
        };
        let shared = part.filter(|part| allocated && part.here != 0);
        Ok(shared.map_or((0, part.map_or(1, |part| part.disp_unit), 0), |part| (part.size, part.disp_unit, part.here)))
    })?;
    size.set(bytes as MPI_Aint);
    disp_unit.set(unit as i64);
    baseptr.set(here);
    Ok(())
}

/// MPI_Win_create_dynamic (MPI-5.0 §12.2.4).
pub(crate) fn win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: Out<MPI_Win>) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe { create(MPI_WIN_FLAVOR_DYNAMIC, std::ptr::null_mut(), 0, 1, info, comm, win).map(|_| ()) }
}

/// MPI_Win_attach (MPI-5.0 §12.2.4).
pub(crate) unsafe fn win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint) -> Result<()> {
    let bytes = u64::try_from(size)
        .map_err(|_| Error::new(MPI_ERR_SIZE, format!("size is {size}; it must not be negative")))?;
    if base.is_null() && bytes > 0 {
        return Err(Error::new(MPI_ERR_BASE, format!("base is a null pointer; it must have {bytes} bytes")));
    }
    memory::check_size(base.addr(), bytes, MPI_ERR_SIZE)?;
    // SAFETY: the caller's memory, until it is detached.
    one_sided::attach(win.0, unsafe { Exposed::new(base.cast(), bytes) })
}

/// MPI_Win_detach (MPI-5.0 §12.2.4).
pub(crate) unsafe fn win_detach(win: MPI_Win, base: *const c_void) -> Result<()> {
    one_sided::detach(win.0, base.addr() as u64)
}

/// MPI_Win_free (MPI-5.0 §12.2.5).
pub(crate) fn win_free(win: InOut<MPI_Win>) -> Result<()> {
    let handle = win.get();
    let may_end = with(|process| Ok::<_, Error>(process.objects.window(handle.0)?.epochs.check_free()))?;
    let may_end = may_end.and_then(|()| delete_attributes(handle.0, Class::Window));
    one_sided::free(handle.0, may_end)?;
    win.set(MPI_Win::NULL);
    Ok(())
}

/// MPI_Win_get_group (MPI-5.0 §12.2.6).
pub(crate) fn win_get_group(win: MPI_Win, group: Out<MPI_Group>) -> Result<()> {
    let handle = with(|process| {
        let communicator = process.objects.window(win.0)?.communicator;
        let members = process.objects.communicator(communicator)?.group.clone();
        process.objects.add_group(members)
    })?;
    group.set(MPI_Group(handle));
    Ok(())
}

/// MPI_Win_set_name (MPI-5.0 §7.8).
pub(crate) fn win_set_name(win: MPI_Win, win_name: InString) -> Result<()> {
    let name = text::object_name(win_name);
    with(|process| {
        process.objects.window_mut(win.0)?.name = name;
        Ok(())
    })
}

/// MPI_Win_get_name (MPI-5.0 §7.8): the null handle has a name as well.
pub(crate) fn win_get_name(win: MPI_Win, win_name: OutString, resultlen: Out<c_int>) -> Result<()> {
    let name = match win {
        MPI_Win::NULL => "MPI_WIN_NULL".to_owned(),
        _ => with(|process| Ok::<_, Error>(process.objects.window(win.0)?.name.clone()))?,
    };
    resultlen.set(win_name.set(&name));
    Ok(())
}

/// MPI_Win_set_info (MPI-5.0 §12.2.7): hints that are known take the values that are given.
pub(crate) fn win_set_info(win: MPI_Win, info: MPI_Info) -> Result<()> {
    with(|process| {
        let given = info_of(process, info)?;
        let found = process.objects.window_mut(win.0)?;
        for (key, value) in &mut found.info {
            if let Some((_, new)) = given.iter().find(|(name, _)| name == key) {
                value.clone_from(new);
            }
        }
        Ok(())
    })
}

/// MPI_Win_get_info (MPI-5.0 §12.2.7).
pub(crate) fn win_get_info(win: MPI_Win, info_used: Out<MPI_Info>) -> Result<()> {
    let handle = with(|process| {
        let info = process.objects.window(win.0)?.info.clone();
        process.objects.infos.insert(info).ok_or_else(|| full("info objects"))
    })?;
    info_used.set(MPI_Info(handle));
    Ok(())
}

/// MPI_Win_set_errhandler (MPI-5.0 §9.3.2).
pub(crate) fn win_set_errhandler(win: MPI_Win, errhandler: MPI_Errhandler) -> Result<()> {
    with(|process| one_sided::set_error_handler(process, win.0, errhandler.0))
}

/// MPI_Win_get_errhandler (MPI-5.0 §9.3.2): the program frees the handle that it gets.
pub(crate) fn win_get_errhandler(win: MPI_Win, errhandler: Out<MPI_Errhandler>) -> Result<()> {
    let handler = with(|process| {
        let handler = process.objects.window(win.0)?.error_handler;
        process.objects.retain_error_handler(handler, None)?;
        Ok::<_, Error>(handler)
    })?;
    errhandler.set(MPI_Errhandler(handler));
    Ok(())
}

/// MPI_Win_call_errhandler (MPI-5.0 §9.5.2).
pub(crate) fn win_call_errhandler(win: MPI_Win, errorcode: c_int) -> Result<()> {
    with(|process| process.objects.window(win.0).map(|_| ()))?;
    error_handlers::call(crate::scope::Scope::Win(win), "MPI_Win_call_errhandler", errorcode)
}

/// MPI_Win_fence (MPI-5.0 §12.5.1).
pub(crate) fn win_fence(assert: c_int, win: MPI_Win) -> Result<()> {
    let fence = Fence::begin(win.0, assert)?;
    let met = collectives::barrier(Form::Blocking, MPI_Comm(fence.communicator));
    // What goes wrong there concerns the window: its communicator has no error handler of the program.
    fence.end(met.map_err(|error| Error::new(error.class, error.message.clone())))
}

/// MPI_Win_post (MPI-5.0 §12.5.2).
pub(crate) fn win_post(group: MPI_Group, assert: c_int, win: MPI_Win) -> Result<()> {
    let members = with(|process| {
        process.objects.window(win.0)?;
        process.objects.group(group.0)
    })?;
    one_sided::post(win.0, &members, assert)
}

/// MPI_Win_start (MPI-5.0 §12.5.2).
pub(crate) fn win_start(group: MPI_Group, assert: c_int, win: MPI_Win) -> Result<()> {
    let members = with(|process| {
        process.objects.window(win.0)?;
        process.objects.group(group.0)
    })?;
    one_sided::start(win.0, &members, assert)
}

/// MPI_Win_complete (MPI-5.0 §12.5.2).
pub(crate) fn win_complete(win: MPI_Win) -> Result<()> {
    one_sided::complete(win.0)
}

/// MPI_Win_wait (MPI-5.0 §12.5.2).
pub(crate) fn win_wait(win: MPI_Win) -> Result<()> {
    one_sided::wait(win.0, true).map(|_| ())
}

/// MPI_Win_test (MPI-5.0 §12.5.2).
pub(crate) fn win_test(win: MPI_Win, flag: Out<c_int>) -> Result<()> {
    let over = one_sided::wait(win.0, false)?;
    flag.set(c_int::from(over));
    Ok(())
}

/// MPI_Win_lock (MPI-5.0 §12.5.3).
pub(crate) fn win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) -> Result<()> {
    one_sided::lock_one(win.0, lock_type, rank, assert)
}

/// MPI_Win_unlock (MPI-5.0 §12.5.3).
pub(crate) fn win_unlock(rank: c_int, win: MPI_Win) -> Result<()> {
    one_sided::unlock_one(win.0, rank)
}

/// MPI_Win_lock_all (MPI-5.0 §12.5.3).
pub(crate) fn win_lock_all(assert: c_int, win: MPI_Win) -> Result<()> {
    one_sided::lock_all(win.0, assert)
}

/// MPI_Win_unlock_all (MPI-5.0 §12.5.3).
pub(crate) fn win_unlock_all(win: MPI_Win) -> Result<()> {
    one_sided::unlock_all(win.0)
}

/// MPI_Win_flush (MPI-5.0 §12.5.4).
pub(crate) fn win_flush(rank: c_int, win: MPI_Win) -> Result<()> {
    one_sided::flush(win.0, Some(rank), false)
}

/// MPI_Win_flush_all (MPI-5.0 §12.5.4).
pub(crate) fn win_flush_all(win: MPI_Win) -> Result<()> {
    one_sided::flush(win.0, None, false)
}

/// MPI_Win_flush_local (MPI-5.0 §12.5.4).
pub(crate) fn win_flush_local(rank: c_int, win: MPI_Win) -> Result<()> {
    one_sided::flush(win.0, Some(rank), true)
}

/// MPI_Win_flush_local_all (MPI-5.0 §12.5.4).
pub(crate) fn win_flush_local_all(win: MPI_Win) -> Result<()> {
    one_sided::flush(win.0, None, true)
}

/// MPI_Win_sync (MPI-5.0 §12.5.4).
pub(crate) fn win_sync(win: MPI_Win) -> Result<()> {
    one_sided::sync(win.0)
}

/// Memory of the program, as the operations name it.
#[derive(Clone, Copy)]
struct Buffer {
    address: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
}

impl Buffer {
    fn new(address: *const c_void, count: i64, datatype: MPI_Datatype) -> Self {
        Self { address: address.cast_mut(), count, datatype }
    }

    fn describe(&self, process: &Process, access: memory::Access) -> Result<UserData> {
        let found = process.objects.committed(self.datatype.0)?;
        // SAFETY: the caller's promise.
        unsafe { UserData::new_for(access, self.address.cast(), self.count as u64, &found.description.layout) }
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
    /// Where it is, if this thread may access it without the lock of the process, and `origin` is described alike.
    #[inline]
    fn spot(&self, win: MPI_Win, origin: &Buffer) -> Option<Spot> {
        let alike = origin.datatype == self.datatype && origin.count == self.count;
        if alike { one_sided::spot(win.0, self.rank, self.disp, self.count, self.datatype.0) } else { None }
    }

    /// Combines its elements with those of `origin` without the lock of the process, if that can be done; what they were goes to `result`, if there is one.
    ///
    /// # Safety
    /// The buffers of the operation.
    #[inline]
    unsafe fn update(&self, win: MPI_Win, origin: Buffer, result: Option<Buffer>, op: MPI_Op) -> bool {
        let Some(op) = weft_mpi::predefined::operation(op.0) else { return false };
        let own = Buffer::new(std::ptr::null(), self.count, self.datatype);
        let is_unusual =
            |result: &Buffer| result.address.is_null() || result.count != own.count || result.datatype != own.datatype;
        if result.as_ref().map_or(op == Op::NoOp, is_unusual) {
            return false;
        }
        let into = result.map_or(std::ptr::null_mut(), |result| result.address);
        // What is not used is not looked at (MPI-5.0 §12.3.4).
        let spot = self.spot(win, if op == Op::NoOp { &own } else { &origin });
        // SAFETY: the caller's buffers.
        spot.filter(|spot| reduce::supports(op, spot.element)).is_some_and(|spot| unsafe {
            spot.memory.update(spot.offset, (op, spot.element), spot.bytes, origin.address.cast(), into.cast())
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
    /// What it means in this window; `None`: there is nothing to be done. `bytes`: of the data that goes there or comes from there, if it matters.
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

/// Ends the call of an operation: writes its request where the program wants it, and hands over what is under way.
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
///
/// # Safety
/// As for [`start`].
#[inline(always)]
unsafe fn transfer(way: Way, origin: Buffer, target: Target, win: MPI_Win) -> Result<()> {
    let address: *mut u8 = origin.address.cast();
    // SAFETY: the caller's promise; `spot` has compared what origin and target hold.
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
///
/// # Safety
/// The buffer holds what count and datatype say until the operation is complete (MPI-5.0 §12.3).
unsafe fn start(
    way: Way,
    origin: Buffer,
    target: Target,
    win: MPI_Win,
    request: Option<Out<MPI_Request>>,
) -> Result<()> {
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
///
/// # Safety
/// As for [`start`].
unsafe fn start_accumulate(
    mut process: Guard,
    origin: Buffer,
    result: Option<Buffer>,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
    request: Option<Out<MPI_Request>>,
) -> Result<()> {
    let wanted = request.is_some();
    let whole = Buffer { address: std::ptr::null_mut(), count: target.count, datatype: target.datatype };
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
pub(crate) unsafe fn put(
    origin_addr: *const c_void,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<()> {
    let origin = Buffer::new(origin_addr, origin_count, origin_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    // SAFETY: the caller's buffer.
    unsafe { transfer(Way::Put, origin, target, win) }
}

/// MPI_Rput (MPI-5.0 §12.3.5).
pub(crate) unsafe fn rput(
    origin_addr: *const c_void,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: Out<MPI_Request>,
) -> Result<()> {
    let origin = Buffer::new(origin_addr, origin_count, origin_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    // SAFETY: the caller's buffer and pointer.
    unsafe { start(Way::Put, origin, target, win, Some(request)) }
}

/// MPI_Get (MPI-5.0 §12.3.2).
pub(crate) unsafe fn get(
    origin_addr: *mut c_void,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<()> {
    let origin = Buffer::new(origin_addr, origin_count, origin_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    // SAFETY: the caller's buffer.
    unsafe { transfer(Way::Get, origin, target, win) }
}

/// MPI_Rget (MPI-5.0 §12.3.5).
pub(crate) unsafe fn rget(
    origin_addr: *mut c_void,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: Out<MPI_Request>,
) -> Result<()> {
    let origin = Buffer::new(origin_addr, origin_count, origin_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    // SAFETY: the caller's buffer and pointer.
    unsafe { start(Way::Get, origin, target, win, Some(request)) }
}

/// MPI_Accumulate (MPI-5.0 §12.3.4).
pub(crate) unsafe fn accumulate(
    origin_addr: *const c_void,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let origin = Buffer::new(origin_addr, origin_count, origin_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    // SAFETY: the caller's buffer.
    unsafe {
        if target.update(win, origin, None, op) {
            return Ok(());
        }
        start_accumulate(lock(), origin, None, target, op, win, None)
    }
}

/// MPI_Raccumulate (MPI-5.0 §12.3.5).
pub(crate) unsafe fn raccumulate(
    origin_addr: *const c_void,
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
    let origin = Buffer::new(origin_addr, origin_count, origin_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    // SAFETY: the caller's buffer and pointer.
    unsafe { start_accumulate(lock(), origin, None, target, op, win, Some(request)) }
}

/// MPI_Get_accumulate (MPI-5.0 §12.3.4).
pub(crate) unsafe fn get_accumulate(
    origin_addr: *const c_void,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: i64,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: i64,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let origin = Buffer::new(origin_addr, origin_count, origin_datatype);
    let result = Buffer::new(result_addr, result_count, result_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    // SAFETY: the caller's buffers.
    unsafe {
        if target.update(win, origin, Some(result), op) {
            return Ok(());
        }
        start_accumulate(lock(), origin, Some(result), target, op, win, None)
    }
}

/// MPI_Rget_accumulate (MPI-5.0 §12.3.5).
pub(crate) unsafe fn rget_accumulate(
    origin_addr: *const c_void,
    origin_count: i64,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
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
    let origin = Buffer::new(origin_addr, origin_count, origin_datatype);
    let result = Buffer::new(result_addr, result_count, result_datatype);
    let target = Target { rank: target_rank, disp: target_disp, count: target_count, datatype: target_datatype };
    // SAFETY: the caller's buffers and pointer.
    unsafe { start_accumulate(lock(), origin, Some(result), target, op, win, Some(request)) }
}

/// The element of a predefined datatype, which the next two operations are for.
fn predefined(process: &Process, datatype: MPI_Datatype) -> Result<Element> {
    process.objects.committed(datatype.0)?;
    weft_mpi::predefined::element(datatype.0)
        .ok_or_else(|| Error::new(MPI_ERR_TYPE, "the datatype must be a predefined one"))
}

/// MPI_Fetch_and_op (MPI-5.0 §12.3.4).
pub(crate) unsafe fn fetch_and_op(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let target = Target { rank: target_rank, disp: target_disp, count: 1, datatype };
    let origin = Buffer::new(origin_addr, 1, datatype);
    let result = Buffer::new(result_addr, 1, datatype);
    // SAFETY: the caller's buffers.
    if unsafe { target.update(win, origin, Some(result), op) } {
        return Ok(());
    }
    let process = lock();
    predefined(&process, datatype)?;
    // SAFETY: the caller's buffers.
    unsafe { start_accumulate(process, origin, Some(result), target, op, win, None) }
}

/// Whether MPI_Compare_and_swap takes such elements: integers, logicals and bytes.
const fn has_equality(element: Element) -> bool {
    reduce::supports(Op::BAnd, element) || reduce::supports(Op::LAnd, element)
}

/// MPI_Compare_and_swap (MPI-5.0 §12.3.4).
pub(crate) unsafe fn compare_and_swap(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    win: MPI_Win,
) -> Result<()> {
    let target = Target { rank: target_rank, disp: target_disp, count: 1, datatype };
    if let Some(Spot { memory, offset, element, .. }) = target.spot(win, &Buffer::new(origin_addr, 1, datatype))
        && has_equality(element)
        // SAFETY: the caller's buffers.
        && unsafe {
            memory.compare_and_swap(offset, element, compare_addr.cast(), origin_addr.cast(), result_addr.cast())
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
        Buffer::new(origin_addr, 1, datatype).describe(&process, memory::Access::Send)?,
        Buffer::new(compare_addr, 1, datatype).describe(&process, memory::Access::Send)?,
        Buffer::new(result_addr, 1, datatype).describe(&process, memory::Access::Receive)?,
    );
    let found = target.find(&mut process, win, None, false)?;
    let Some(Found { index, access, engine, is_mapped }) = found else { return Ok(()) };
    engine.compare_and_swap(index, (access.target, access.offset), element, &compare, &value, &result)?;
    hand_out(&mut process, Made { request: None, is_over: is_mapped }, win, None)
}
