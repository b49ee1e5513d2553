//! Completing requests (MPI-5.0 §3.7.3–§3.7.6, §3.8.4, §3.9, §13.2).
//!
//! # Safety
//! Every function here is called by its generated wrapper with the arguments of the C prototype: arrays have the
//! lengths given beside them, status pointers may be null.

use crate::calls::status;
use crate::constants::*;
use crate::error_handling::code_of;
use crate::types::*;
use std::ffi::{c_int, c_void};
use weft_mpi::awaited::Awaited;
use weft_mpi::completion::Outcome;
use weft_mpi::error::{Error, Result};
use weft_mpi::process::{self, Process, attempt, block_for, lock, with};
use weft_mpi::request::{Generalized, Hold, State};

type QueryFunction = unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
type FreeFunction = unsafe extern "C" fn(*mut c_void) -> c_int;
type CancelFunction = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// Stores what a completed request reports, after the callbacks of a generalized one; its error. The lock is free.
///
/// # Safety
/// `status` can be written or is null.
unsafe fn report(outcome: Outcome, status: *mut MPI_Status, with_error: bool) -> Option<Error> {
    // SAFETY: the caller's promise.
    unsafe {
        report_by(outcome, status, with_error, |error, communicator| {
            with(|process| code_of(process, error, communicator))
        })
    }
}

/// The same; `code` tells the code of an error on a communicator.
///
/// # Safety
/// As for [`report`].
unsafe fn report_by(
    outcome: Outcome,
    status: *mut MPI_Status,
    with_error: bool,
    code: impl FnOnce(&Error, Option<usize>) -> c_int,
) -> Option<Error> {
    let empty = outcome.is_empty();
    let mut error = outcome.error;
    if status.is_null() && outcome.generalized.is_none() {
        return error.map(|error| if empty { error } else { error.on(outcome.communicator) });
    }
    let mut local = status::EMPTY;
    // SAFETY: a local variable.
    unsafe { status::store(&raw mut local, &outcome.status, None) };
    if let Some(callbacks) = outcome.generalized {
        // SAFETY: callbacks that the program gave to MPI_Grequest_start.
        let code = unsafe { complete_generalized(&callbacks, &mut local) };
        if code != MPI_SUCCESS {
            let sentence = format!("a callback of the generalized request returned error code {code}");
            error.get_or_insert_with(|| Error::returned(code, sentence));
        }
    }
    if !status.is_null() {
        // SAFETY: the caller's pointer, which is not null.
        let kept = unsafe { (*status).error };
        local.error = match (&error, with_error) {
            (Some(error), true) => code(error, (!empty).then_some(outcome.communicator)),
            (None, true) => MPI_SUCCESS,
            // The empty status is set as a whole (MPI-5.0 §3.7.3).
            (_, false) if empty => MPI_SUCCESS,
            (_, false) => kept,
        };
        // SAFETY: as above.
        unsafe { *status = local };
    }
    error.map(|error| if empty { error } else { error.on(outcome.communicator) })
}

/// # Safety
/// The callbacks are the program's.
unsafe fn complete_generalized(callbacks: &Generalized, status: &mut MPI_Status) -> c_int {
    let state = callbacks.extra_state as *mut c_void;
    // SAFETY: MPI_Grequest_query_function and MPI_Grequest_free_function have these signatures (MPI-5.0 §13.2).
    unsafe {
        let query: QueryFunction = std::mem::transmute(callbacks.query);
        let queried = query(state, status);
        let freed = free_generalized(callbacks);
        if queried == MPI_SUCCESS { freed } else { queried }
    }
}

/// # Safety
/// The callbacks are the program's.
unsafe fn free_generalized(callbacks: &Generalized) -> c_int {
    // SAFETY: MPI_Grequest_free_function has this signature.
    unsafe {
        let free: FreeFunction = std::mem::transmute(callbacks.free);
        free(callbacks.extra_state as *mut c_void)
    }
}

/// Element `index` of a status array that may be MPI_STATUSES_IGNORE.
fn status_at(statuses: *mut MPI_Status, index: usize) -> *mut MPI_Status {
    if statuses.is_null() { statuses } else { statuses.wrapping_add(index) }
}

/// The requests of an array.
///
/// # Safety
/// `requests` has `count` elements, which do not change while the result is used.
unsafe fn handles<'a>(count: c_int, requests: *const MPI_Request) -> &'a [MPI_Request] {
    if count <= 0 {
        return &[];
    }
    // SAFETY: the caller's array.
    unsafe { std::slice::from_raw_parts(requests, count as usize) }
}

/// The first of `handles` that is active and complete; `Err` of an outcome: none is active.
fn first_complete(process: &mut Process, handles: &[MPI_Request]) -> Result<Found> {
    let mut any = false;
    for (index, handle) in handles.iter().enumerate() {
        if process.is_active(handle.0)? {
            any = true;
            if process.is_complete(handle.0)? {
                return Ok(Found::At(index));
            }
        }
    }
    Ok(if any { Found::NotYet } else { Found::NoneActive })
}

enum Found {
    At(usize),
    NotYet,
    NoneActive,
}

/// Looks; if that is not enough, makes progress and looks again.
fn try_twice(mut complete: impl FnMut(&mut Process) -> Result<bool>) -> Result<bool> {
    let found = attempt(|process| match complete(process) {
        Ok(false) => None,
        other => Some(other),
    });
    found.unwrap_or(Ok(false))
}

/// MPI_Wait (MPI-5.0 §3.7.3).
pub(crate) unsafe fn wait(request: *mut MPI_Request, status: *mut MPI_Status) -> Result<()> {
    let mut process = process::lock();
    // SAFETY: the caller's pointers.
    unsafe {
        // An empty status is set as a whole: that is for `report`. The others leave the error in their status alone (MPI-5.0 §3.2.5).
        if (*request).0 != MPI_REQUEST_NULL.0 && take_plain(&mut process, request, status, None) {
            process.signal();
            return Ok(());
        }
        let outcome = weft_mpi::blocking::wait(process, (*request).0)?;
        *request = MPI_Request(outcome.handle);
        report(outcome, status, false).map_or(Ok(()), Err)
    }
}

/// MPI_Test (MPI-5.0 §3.7.3).
pub(crate) unsafe fn test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status) -> Result<()> {
    // SAFETY: the caller's pointers.
    unsafe {
        let handle = (*request).0;
        let outcome = attempt(|process| match process.is_complete(handle) {
            Ok(true) => Some(process.finish(handle)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        });
        *flag = c_int::from(outcome.is_some());
        let Some(outcome) = outcome else { return Ok(()) };
        let outcome = outcome?;
        *request = MPI_Request(outcome.handle);
        report(outcome, status, false).map_or(Ok(()), Err)
    }
}

/// Completes request `index` of an array.
///
/// # Safety
/// `requests` has more than `index` elements; `status` can be written or is null.
unsafe fn complete_at(
    requests: *mut MPI_Request,
    index: usize,
    status: *mut MPI_Status,
    with_error: bool,
) -> Result<Option<Error>> {
    // SAFETY: the caller's promise.
    unsafe {
        let request = requests.add(index);
        let outcome = with(|process| process.finish((*request).0))?;
        *request = MPI_Request(outcome.handle);
        Ok(report(outcome, status, with_error))
    }
}

/// MPI_Waitany (MPI-5.0 §3.7.5).
pub(crate) unsafe fn waitany(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    index: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's array.
    let handles = unsafe { handles(count, array_of_requests) };
    let awaited = || Awaited::any(handles.iter().map(|handle| handle.0));
    let found = block_for(lock(), &awaited, |process| match first_complete(process, handles) {
        Ok(Found::NotYet) => None,
        other => Some(other),
    })?;
    // SAFETY: the caller's pointers.
    unsafe { conclude_any(found, array_of_requests, index, status) }
}

/// MPI_Testany (MPI-5.0 §3.7.5).
pub(crate) unsafe fn testany(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's array.
    let handles = unsafe { handles(count, array_of_requests) };
    let mut found = Found::NotYet;
    try_twice(|process| {
        found = first_complete(process, handles)?;
        Ok(!matches!(found, Found::NotYet))
    })?;
    // SAFETY: the caller's pointers.
    unsafe {
        *flag = c_int::from(!matches!(found, Found::NotYet));
        conclude_any(found, array_of_requests, index, status)
    }
}

unsafe fn conclude_any(
    found: Found,
    requests: *mut MPI_Request,
    index: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's pointers.
    unsafe {
        match found {
            Found::At(at) => {
                *index = at as c_int;
                complete_at(requests, at, status, false)?.map_or(Ok(()), Err)
            }
            Found::NotYet => {
                *index = MPI_UNDEFINED;
                Ok(())
            }
            Found::NoneActive => {
                *index = MPI_UNDEFINED;
                report(Outcome::EMPTY, status, false);
                Ok(())
            }
        }
    }
}

/// Whether all of `handles` are complete; `from` remembers how far that is known.
fn all_complete(process: &mut Process, handles: &[MPI_Request], from: &mut usize) -> Result<bool> {
    while let Some(handle) = handles.get(*from) {
        if !process.is_complete(handle.0)? {
            return Ok(false);
        }
        *from += 1;
    }
    Ok(true)
}

/// Completes a request if nothing but its status is to be told of it, with `error` in that if any; `false`, and everything is as it was,
/// if it is none such.
///
/// # Safety
/// `request` can be written; `status`, too, or is null.
#[inline(always)]
unsafe fn take_plain(
    process: &mut Process,
    request: *mut MPI_Request,
    status: *mut MPI_Status,
    error: Option<i32>,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(found) = process.finish_plain((*request).0) else { return false };
        *request = MPI_Request::NULL;
        status::store(status, &found, error);
    }
    true
}

/// What became of several requests of which each is complete.
#[derive(Default)]
struct Completion {
    failed: Option<Error>,
    /// Those with callbacks, which run while the lock is free.
    generalized: Vec<(Outcome, *mut MPI_Status)>,
}

impl Completion {
    /// Completes the requests at `indices`; their statuses lie at the same indices, or `packed` one after the other.
    ///
    /// # Safety
    /// The arrays have the elements that are named; `statuses` may be null.
    unsafe fn take(
        &mut self,
        process: &mut Process,
        requests: *mut MPI_Request,
        indices: impl Iterator<Item = usize>,
        statuses: *mut MPI_Status,
        packed: bool,
    ) -> Result<()> {
        for (place, index) in indices.enumerate() {
            let status = status_at(statuses, if packed { place } else { index });
            // SAFETY: the caller's promise.
            unsafe {
                let request = requests.add(index);
                if !take_plain(process, request, status, Some(MPI_SUCCESS)) {
                    self.take_one(process, request, status)?;
                }
            }
        }
        Ok(())
    }

    /// Completes one of the requests, which is complete.
    ///
    /// # Safety
    /// As for `take`.
    unsafe fn take_one(
        &mut self,
        process: &mut Process,
        request: *mut MPI_Request,
        status: *mut MPI_Status,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            let outcome = process.finish((*request).0)?;
            *request = MPI_Request(outcome.handle);
            if outcome.generalized.is_some() {
                self.generalized.push((outcome, status));
            } else if let Some(error) = report_by(outcome, status, true, |error, on| code_of(process, error, on)) {
                self.failed.get_or_insert(error);
            }
        }
        Ok(())
    }

    /// Completes requests one after the other, from number `from` of `count` on, which is moved on, as long as they are complete.
    /// Whether that is all of them.
    ///
    /// # Safety
    /// As for `take`.
    unsafe fn take_complete(
        &mut self,
        process: &mut Process,
        requests: *mut MPI_Request,
        from: &mut usize,
        count: usize,
        statuses: *mut MPI_Status,
    ) -> Result<bool> {
        while *from < count {
            let status = status_at(statuses, *from);
            // SAFETY: the caller's promise.
            unsafe {
                let request = requests.add(*from);
                if !take_plain(process, request, status, Some(MPI_SUCCESS)) {
                    if !process.is_complete((*request).0)? {
                        return Ok(false);
                    }
                    self.take_one(process, request, status)?;
                }
            }
            *from += 1;
        }
        Ok(true)
    }

    /// Runs the callbacks. The error, if any request failed: MPI_ERR_IN_STATUS (MPI-5.0 §3.7.5). The lock must be free.
    ///
    /// # Safety
    /// As for `take`.
    unsafe fn conclude(mut self) -> Result<()> {
        for (outcome, status) in self.generalized {
            // SAFETY: the caller's promise.
            if let Some(error) = unsafe { report(outcome, status, true) } {
                self.failed.get_or_insert(error);
            }
        }
        let Some(first) = self.failed else { return Ok(()) };
        let communicator = first.communicator;
        let error = Error::new(MPI_ERR_IN_STATUS, format!("at least one request failed: {}", first.message));
        Err(communicator.map_or(error.clone(), |communicator| error.on(communicator)))
    }
}

/// MPI_Waitall (MPI-5.0 §3.7.5).
pub(crate) unsafe fn waitall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    let (mut from, count) = (0, count.max(0) as usize);
    let mut completion = Completion::default();
    // SAFETY: the caller's arrays.
    unsafe {
        // Those that are complete are null by then.
        let awaited = || Awaited::all((0..count).map(|at| (*array_of_requests.add(at)).0));
        let waited = block_for(lock(), &awaited, |process| {
            match completion.take_complete(process, array_of_requests, &mut from, count, array_of_statuses) {
                Ok(false) => None,
                Ok(true) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            }
        });
        // What is complete has its callbacks, also before a handle that is none.
        let concluded = completion.conclude();
        waited.and(concluded)
    }
}

/// MPI_Testall (MPI-5.0 §3.7.5).
pub(crate) unsafe fn testall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    flag: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's array.
    let handles = unsafe { handles(count, array_of_requests) };
    let mut from = 0;
    let mut completion = Completion::default();
    // SAFETY: the caller's arrays; `handles` is not used any more when they are written.
    unsafe {
        let complete = attempt(|process| match all_complete(process, handles, &mut from) {
            Ok(false) => None,
            Ok(true) => Some(completion.take(process, array_of_requests, 0..count as usize, array_of_statuses, false)),
            Err(error) => Some(Err(error)),
        });
        *flag = c_int::from(complete.is_some());
        complete.transpose()?;
        completion.conclude()
    }
}

/// Indices of the active requests that are complete; `None`: none is active.
fn complete_ones(process: &mut Process, handles: &[MPI_Request]) -> Result<Option<Vec<usize>>> {
    let mut any = false;
    let mut complete = Vec::new();
    for (index, handle) in handles.iter().enumerate() {
        if process.is_active(handle.0)? {
            any = true;
            if process.is_complete(handle.0)? {
                complete.push(index);
            }
        }
    }
    Ok(any.then_some(complete))
}

unsafe fn conclude_some(
    complete: Option<Vec<usize>>,
    requests: *mut MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's arrays.
    unsafe {
        let Some(complete) = complete else {
            *outcount = MPI_UNDEFINED;
            return Ok(());
        };
        *outcount = complete.len() as c_int;
        for (place, index) in complete.iter().enumerate() {
            *array_of_indices.add(place) = *index as c_int;
        }
        let mut completion = Completion::default();
        with(|process| completion.take(process, requests, complete.iter().copied(), statuses, true))?;
        completion.conclude()
    }
}

/// MPI_Waitsome (MPI-5.0 §3.7.5).
pub(crate) unsafe fn waitsome(
    incount: c_int,
    array_of_requests: *mut MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's array.
    let handles = unsafe { handles(incount, array_of_requests) };
    let awaited = || Awaited::any(handles.iter().map(|handle| handle.0));
    let complete = block_for(lock(), &awaited, |process| match complete_ones(process, handles) {
        Ok(Some(complete)) if complete.is_empty() => None,
        other => Some(other),
    })?;
    // SAFETY: the caller's arrays.
    unsafe { conclude_some(complete, array_of_requests, outcount, array_of_indices, array_of_statuses) }
}

/// MPI_Testsome (MPI-5.0 §3.7.5).
pub(crate) unsafe fn testsome(
    incount: c_int,
    array_of_requests: *mut MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's array.
    let handles = unsafe { handles(incount, array_of_requests) };
    let mut complete = None;
    try_twice(|process| {
        complete = complete_ones(process, handles)?;
        Ok(complete.as_ref().is_none_or(|complete| !complete.is_empty()))
    })?;
    // SAFETY: the caller's arrays.
    unsafe { conclude_some(complete, array_of_requests, outcount, array_of_indices, array_of_statuses) }
}

/// Reports a complete request without completing it.
///
/// # Safety
/// `status` can be written or is null.
unsafe fn peek(handle: usize, status: *mut MPI_Status) -> Result<()> {
    if handle == MPI_REQUEST_NULL.0 || !with(|process| process.is_active(handle))? {
        // SAFETY: the caller's pointer.
        unsafe { report(Outcome::EMPTY, status, false) };
        return Ok(());
    }
    let (mut found, callbacks) = with(|process| {
        let request = process.request(handle)?;
        // "A subsequent call to test, wait or free should be executed with that request" (MPI-5.0 §3.7.6).
        request.hold = Hold::ToldComplete;
        let mut found = status::EMPTY;
        // SAFETY: a local variable.
        unsafe { status::store(&raw mut found, &request.status, None) };
        Ok((found, request.generalized.as_deref().copied()))
    })?;
    if let Some(callbacks) = callbacks {
        // SAFETY: MPI_Grequest_query_function has this signature; the program gave it.
        unsafe {
            let query: QueryFunction = std::mem::transmute(callbacks.query);
            query(callbacks.extra_state as *mut c_void, &raw mut found);
        }
    }
    if !status.is_null() {
        // SAFETY: the caller's pointer.
        unsafe {
            found.error = (*status).error;
            *status = found;
        }
    }
    Ok(())
}

/// MPI_Request_get_status (MPI-5.0 §3.7.6).
pub(crate) unsafe fn request_get_status(request: MPI_Request, flag: *mut c_int, status: *mut MPI_Status) -> Result<()> {
    let complete = try_twice(|process| process.is_complete(request.0))?;
    // SAFETY: the caller's pointers.
    unsafe {
        *flag = c_int::from(complete);
        if complete { peek(request.0, status) } else { Ok(()) }
    }
}

/// MPI_Request_get_status_any (MPI-5.0 §3.7.6).
pub(crate) unsafe fn request_get_status_any(
    count: c_int,
    array_of_requests: *const MPI_Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's array.
    let handles = unsafe { handles(count, array_of_requests) };
    let mut found = Found::NotYet;
    try_twice(|process| {
        found = first_complete(process, handles)?;
        Ok(!matches!(found, Found::NotYet))
    })?;
    // SAFETY: the caller's pointers.
    unsafe {
        *flag = c_int::from(!matches!(found, Found::NotYet));
        *index = MPI_UNDEFINED;
        match found {
            Found::At(at) => {
                *index = at as c_int;
                peek(handles[at].0, status)
            }
            Found::NotYet => Ok(()),
            Found::NoneActive => peek(MPI_REQUEST_NULL.0, status),
        }
    }
}

/// MPI_Request_get_status_all (MPI-5.0 §3.7.6).
pub(crate) unsafe fn request_get_status_all(
    count: c_int,
    array_of_requests: *const MPI_Request,
    flag: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's array.
    let handles = unsafe { handles(count, array_of_requests) };
    let mut from = 0;
    let complete = try_twice(|process| all_complete(process, handles, &mut from))?;
    // SAFETY: the caller's pointer.
    unsafe { *flag = c_int::from(complete) };
    if complete {
        for (index, handle) in handles.iter().enumerate() {
            // SAFETY: the caller's array.
            unsafe { peek(handle.0, status_at(array_of_statuses, index))? };
        }
    }
    Ok(())
}

/// MPI_Request_get_status_some (MPI-5.0 §3.7.6).
pub(crate) unsafe fn request_get_status_some(
    incount: c_int,
    array_of_requests: *const MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's array.
    let handles = unsafe { handles(incount, array_of_requests) };
    let mut complete = None;
    try_twice(|process| {
        complete = complete_ones(process, handles)?;
        Ok(complete.as_ref().is_none_or(|complete| !complete.is_empty()))
    })?;
    // SAFETY: the caller's arrays.
    unsafe {
        let Some(complete) = complete else {
            *outcount = MPI_UNDEFINED;
            return Ok(());
        };
        *outcount = complete.len() as c_int;
        for (place, index) in complete.iter().enumerate() {
            *array_of_indices.add(place) = *index as c_int;
            peek(handles[*index].0, status_at(array_of_statuses, place))?;
        }
    }
    Ok(())
}

/// MPI_Request_free (MPI-5.0 §3.7.3).
pub(crate) unsafe fn request_free(request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's pointer.
    unsafe {
        let callbacks = with(|process| process.free_request((*request).0))?;
        *request = MPI_Request::NULL;
        match callbacks.map(|callbacks| free_generalized(&callbacks)) {
            None | Some(MPI_SUCCESS) => Ok(()),
            Some(code) => Err(Error::returned(code, format!("the free callback returned error code {code}"))),
        }
    }
}

/// MPI_Cancel (MPI-5.0 §3.8.4).
pub(crate) unsafe fn cancel(request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's pointer.
    let handle = unsafe { *request }.0;
    if let Some((callbacks, complete)) = with(|process| process.cancel(handle))? {
        // SAFETY: MPI_Grequest_cancel_function has this signature; the program gave it.
        let code = unsafe {
            let cancel: CancelFunction = std::mem::transmute(callbacks.cancel);
            cancel(callbacks.extra_state as *mut c_void, c_int::from(complete))
        };
        if code != MPI_SUCCESS {
            return Err(Error::returned(code, format!("the cancel callback returned error code {code}")));
        }
    }
    Ok(())
}

/// MPI_Start (MPI-5.0 §3.9).
pub(crate) unsafe fn start(request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's pointer.
    let handle = unsafe { *request }.0;
    with(|process| process.restart(handle))
}

/// MPI_Startall (MPI-5.0 §3.9).
pub(crate) unsafe fn startall(count: c_int, array_of_requests: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's array.
    let handles = unsafe { handles(count, array_of_requests) };
    with(|process| handles.iter().try_for_each(|handle| process.restart(handle.0)))
}

/// MPI_Grequest_start (MPI-5.0 §13.2).
pub(crate) unsafe fn grequest_start(
    query_fn: usize,
    free_fn: usize,
    cancel_fn: usize,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> Result<()> {
    let callbacks =
        Generalized { query: query_fn, free: free_fn, cancel: cancel_fn, extra_state: extra_state as usize };
    for (name, address) in [("query_fn", query_fn), ("free_fn", free_fn), ("cancel_fn", cancel_fn)] {
        if address == 0 {
            return Err(Error::new(MPI_ERR_ARG, format!("{name} is a null pointer")));
        }
    }
    with(|process| {
        // SAFETY: the caller's pointer.
        unsafe { *request = MPI_Request(process.make_generalized(callbacks)?) };
        Ok(())
    })
}

/// MPI_Grequest_complete (MPI-5.0 §13.2).
pub(crate) unsafe fn grequest_complete(request: MPI_Request) -> Result<()> {
    let freed = with(|process| {
        let entry = process.request(request.0)?;
        if !matches!(entry.state, State::Generalized) {
            return Err(Error::new(MPI_ERR_REQUEST, "the request is no active generalized request"));
        }
        let freed = (entry.hold == Hold::Freed).then(|| entry.generalized.as_deref().copied()).flatten();
        process.messages()?.complete(request.0);
        Ok(freed)
    })?;
    if let Some(callbacks) = freed {
        // SAFETY: the program's callback.
        unsafe { free_generalized(&callbacks) };
    }
    Ok(())
}
