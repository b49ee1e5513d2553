//! Completing requests (MPI-5.0 §3.7.3–§3.7.6, §3.8.4, §3.9, §13.2).

pub(crate) mod generalized;
pub(crate) mod get_status;

use crate::arguments::*;
use crate::calls::status;
use crate::constants::*;
use crate::error_handling::code_of;
use crate::types::*;
use std::ffi::c_int;
use weft_mpi::awaited::Awaited;
use weft_mpi::completion::Outcome;
use weft_mpi::error::{Error, Result};
use weft_mpi::process::{self, Process, attempt, block_for, lock, with};

/// Stores the status of a completed request, after the callbacks of a generalized one, and returns its error.
/// The lock is free.
fn report(outcome: Outcome, status: Option<InOut<MPI_Status>>, with_error: bool) -> Option<Error> {
    report_by(outcome, status, with_error, |error, communicator| with(|process| code_of(process, error, communicator)))
}

/// Does the same as [`report`]; `code` returns the code of an error on a communicator.
fn report_by(
    outcome: Outcome,
    status: Option<InOut<MPI_Status>>,
    with_error: bool,
    code: impl FnOnce(&Error, Option<usize>) -> c_int,
) -> Option<Error> {
    let empty = outcome.is_empty();
    let mut error = outcome.error;
    if status.is_none() && outcome.generalized.is_none() {
        return error.map(|error| if empty { error } else { error.on(outcome.communicator) });
    }
    let mut local = status::EMPTY;
    status::store(Some(InOut::from(&mut local)), &outcome.status, None);
    if let Some(callbacks) = outcome.generalized {
        let code = generalized::complete(&callbacks, &mut local);
        if code != MPI_SUCCESS {
            let sentence = format!("a callback of the generalized request returned error code {code}");
            error.get_or_insert_with(|| Error::returned(code, sentence));
        }
    }
    if let Some(status) = status {
        local.error = match (&error, with_error) {
            (Some(error), true) => code(error, (!empty).then_some(outcome.communicator)),
            (None, true) => MPI_SUCCESS,
            // The empty status is set as a whole (MPI-5.0 §3.7.3).
            (_, false) if empty => MPI_SUCCESS,
            (_, false) => status.get().error,
        };
        status.set(local);
    }
    error.map(|error| if empty { error } else { error.on(outcome.communicator) })
}

/// The statuses of several requests, unless they are MPI_STATUSES_IGNORE.
type Statuses<'call> = Option<InOutArray<'call, MPI_Status>>;

/// The handles of several requests, for reading.
type Handles<'call> = InArray<'call, MPI_Request>;

/// Finds the first of `handles` that is active and complete. `Err` of an outcome when none is active.
fn first_complete(process: &mut Process, handles: Handles) -> Result<Found> {
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

/// Runs `complete`; if that is not enough, makes progress and runs it again.
fn try_twice(mut complete: impl FnMut(&mut Process) -> Result<bool>) -> Result<bool> {
    let found = attempt(|process| match complete(process) {
        Ok(false) => None,
        other => Some(other),
    });
    found.unwrap_or(Ok(false))
}

/// A form in which the program has a request.
pub(crate) trait RequestForm: From<MPI_Request> + Into<MPI_Request> + Copy {}

impl<R: From<MPI_Request> + Into<MPI_Request> + Copy> RequestForm for R {}

/// MPI_Wait (MPI-5.0 §3.7.3).
pub(crate) fn wait<R: RequestForm>(request: InOut<R>, status: Option<InOut<MPI_Status>>) -> Result<()> {
    let mut process = process::lock();
    let handle: MPI_Request = request.get().into();
    // An empty status is set as a whole, by `report`. The other statuses keep their error field (MPI-5.0
    // §3.2.5).
    if handle != MPI_REQUEST_NULL && take_plain(&mut process, request, status, None) {
        process.signal();
        return Ok(());
    }
    let outcome = weft_mpi::blocking::wait(process, handle.0)?;
    request.set(MPI_Request(outcome.handle).into());
    report(outcome, status, false).map_or(Ok(()), Err)
}

/// MPI_Test (MPI-5.0 §3.7.3).
pub(crate) fn test(request: InOut<MPI_Request>, flag: Out<c_int>, status: Option<InOut<MPI_Status>>) -> Result<()> {
    let handle = request.get().0;
    let outcome = attempt(|process| match process.is_complete(handle) {
        Ok(true) => Some(process.finish(handle)),
        Ok(false) => None,
        Err(error) => Some(Err(error)),
    });
    flag.set(c_int::from(outcome.is_some()));
    let Some(outcome) = outcome else { return Ok(()) };
    let outcome = outcome?;
    request.set(MPI_Request(outcome.handle));
    report(outcome, status, false).map_or(Ok(()), Err)
}

/// Completes one request of an array.
fn complete_one(request: InOut<MPI_Request>, status: Option<InOut<MPI_Status>>) -> Result<Option<Error>> {
    let outcome = with(|process| process.finish(request.get().0))?;
    request.set(MPI_Request(outcome.handle));
    Ok(report(outcome, status, false))
}

/// MPI_Waitany (MPI-5.0 §3.7.5).
pub(crate) fn waitany(
    _count: c_int,
    array_of_requests: InOutArray<MPI_Request>,
    index: Out<c_int>,
    status: Option<InOut<MPI_Status>>,
) -> Result<()> {
    let handles = array_of_requests.as_in();
    let awaited = || Awaited::any(handles.iter().map(|handle| handle.0));
    let found = block_for(lock(), &awaited, |process| match first_complete(process, handles) {
        Ok(Found::NotYet) => None,
        other => Some(other),
    })?;
    conclude_any(found, array_of_requests, index, status)
}

/// MPI_Testany (MPI-5.0 §3.7.5).
pub(crate) fn testany(
    _count: c_int,
    array_of_requests: InOutArray<MPI_Request>,
    index: Out<c_int>,
    flag: Out<c_int>,
    status: Option<InOut<MPI_Status>>,
) -> Result<()> {
    let handles = array_of_requests.as_in();
    let mut found = Found::NotYet;
    try_twice(|process| {
        found = first_complete(process, handles)?;
        Ok(!matches!(found, Found::NotYet))
    })?;
    flag.set(c_int::from(!matches!(found, Found::NotYet)));
    conclude_any(found, array_of_requests, index, status)
}

fn conclude_any(
    found: Found,
    requests: InOutArray<MPI_Request>,
    index: Out<c_int>,
    status: Option<InOut<MPI_Status>>,
) -> Result<()> {
    match found {
        Found::At(at) => {
            index.set(at as c_int);
            complete_one(requests.at(at), status)?.map_or(Ok(()), Err)
        }
        Found::NotYet => {
            index.set(MPI_UNDEFINED);
            Ok(())
        }
        Found::NoneActive => {
            index.set(MPI_UNDEFINED);
            report(Outcome::EMPTY, status, false);
            Ok(())
        }
    }
}

/// Returns whether all of `handles` are complete; `from` keeps the number of those that are known to be.
fn all_complete(process: &mut Process, handles: Handles, from: &mut usize) -> Result<bool> {
    while *from < handles.len() {
        if !process.is_complete(handles.get(*from).0)? {
            return Ok(false);
        }
        *from += 1;
    }
    Ok(true)
}

/// Completes a request that reports nothing but its status, with `error` in the status if any. Returns
/// `false`, with nothing changed, for other requests.
#[inline(always)]
fn take_plain<R: RequestForm>(
    process: &mut Process,
    request: InOut<R>,
    status: Option<InOut<MPI_Status>>,
    error: Option<i32>,
) -> bool {
    let handle: MPI_Request = request.get().into();
    let Some(found) = process.finish_plain(handle.0) else { return false };
    request.set(MPI_REQUEST_NULL.into());
    status::store(status, &found, error);
    true
}

/// The results of several requests, each of which is complete.
#[derive(Default)]
struct Completion<'call> {
    failed: Option<Error>,
    /// The requests with callbacks, which run while the lock is free.
    generalized: Vec<(Outcome, Option<InOut<'call, MPI_Status>>)>,
}

impl<'call> Completion<'call> {
    /// Completes the requests at `indices`. Their statuses are at the same indices, or `packed` one after the
    /// other.
    fn take(
        &mut self,
        process: &mut Process,
        requests: InOutArray<MPI_Request>,
        indices: impl Iterator<Item = usize>,
        statuses: Statuses<'call>,
        packed: bool,
    ) -> Result<()> {
        for (nth, index) in indices.enumerate() {
            let status = statuses.map(|statuses| statuses.at(if packed { nth } else { index }));
            let request = requests.at(index);
            if !take_plain(process, request, status, Some(MPI_SUCCESS)) {
                self.take_one(process, request, status)?;
            }
        }
        Ok(())
    }

    /// Completes one of the requests, which must be complete.
    fn take_one(
        &mut self,
        process: &mut Process,
        request: InOut<MPI_Request>,
        status: Option<InOut<'call, MPI_Status>>,
    ) -> Result<()> {
        let outcome = process.finish(request.get().0)?;
        request.set(MPI_Request(outcome.handle));
        if outcome.generalized.is_some() {
            self.generalized.push((outcome, status));
        } else if let Some(error) = report_by(outcome, status, true, |error, on| code_of(process, error, on)) {
            self.failed.get_or_insert(error);
        }
        Ok(())
    }

    /// Completes requests one after the other as long as they are complete, from number `from` on, which it
    /// moves. Returns whether these are all requests.
    fn take_complete(
        &mut self,
        process: &mut Process,
        requests: InOutArray<MPI_Request>,
        from: &mut usize,
        statuses: Statuses<'call>,
    ) -> Result<bool> {
        while *from < requests.len() {
            let status = statuses.map(|statuses| statuses.at(*from));
            let request = requests.at(*from);
            if !take_plain(process, request, status, Some(MPI_SUCCESS)) {
                if !process.is_complete(request.get().0)? {
                    return Ok(false);
                }
                self.take_one(process, request, status)?;
            }
            *from += 1;
        }
        Ok(true)
    }

    /// Runs the callbacks. Returns MPI_ERR_IN_STATUS if any request failed (MPI-5.0 §3.7.5). The lock must be
    /// free.
    fn conclude(mut self) -> Result<()> {
        for (outcome, status) in self.generalized {
            if let Some(error) = report(outcome, status, true) {
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
pub(crate) fn waitall(
    _count: c_int,
    array_of_requests: InOutArray<MPI_Request>,
    array_of_statuses: Option<InOutArray<MPI_Status>>,
) -> Result<()> {
    let mut from = 0;
    let mut completion = Completion::default();
    // The handles of complete requests are null by then.
    let awaited = || Awaited::all(array_of_requests.as_in().iter().map(|handle| handle.0));
    let waited = block_for(lock(), &awaited, |process| {
        match completion.take_complete(process, array_of_requests, &mut from, array_of_statuses) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        }
    });
    // The callbacks of complete requests run, also when a later handle is wrong.
    let concluded = completion.conclude();
    waited.and(concluded)
}

/// MPI_Testall (MPI-5.0 §3.7.5).
pub(crate) fn testall(
    _count: c_int,
    array_of_requests: InOutArray<MPI_Request>,
    flag: Out<c_int>,
    array_of_statuses: Option<InOutArray<MPI_Status>>,
) -> Result<()> {
    let handles = array_of_requests.as_in();
    let mut from = 0;
    let mut completion = Completion::default();
    let complete = attempt(|process| match all_complete(process, handles, &mut from) {
        Ok(false) => None,
        Ok(true) => Some(completion.take(process, array_of_requests, 0..handles.len(), array_of_statuses, false)),
        Err(error) => Some(Err(error)),
    });
    flag.set(c_int::from(complete.is_some()));
    complete.transpose()?;
    completion.conclude()
}

/// The indices of the active requests that are complete; `None` when no request is active.
fn complete_ones(process: &mut Process, handles: Handles) -> Result<Option<Vec<usize>>> {
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

fn conclude_some(
    complete: Option<Vec<usize>>,
    requests: InOutArray<MPI_Request>,
    outcount: Out<c_int>,
    array_of_indices: OutArray<c_int>,
    statuses: Statuses,
) -> Result<()> {
    let Some(complete) = complete else {
        outcount.set(MPI_UNDEFINED);
        return Ok(());
    };
    outcount.set(complete.len() as c_int);
    array_of_indices.fill(complete.iter().map(|index| *index as c_int));
    let mut completion = Completion::default();
    with(|process| completion.take(process, requests, complete.iter().copied(), statuses, true))?;
    completion.conclude()
}

/// MPI_Waitsome (MPI-5.0 §3.7.5).
pub(crate) fn waitsome(
    _incount: c_int,
    array_of_requests: InOutArray<MPI_Request>,
    outcount: Out<c_int>,
    array_of_indices: OutArray<c_int>,
    array_of_statuses: Option<InOutArray<MPI_Status>>,
) -> Result<()> {
    let handles = array_of_requests.as_in();
    let awaited = || Awaited::any(handles.iter().map(|handle| handle.0));
    let complete = block_for(lock(), &awaited, |process| match complete_ones(process, handles) {
        Ok(Some(complete)) if complete.is_empty() => None,
        other => Some(other),
    })?;
    conclude_some(complete, array_of_requests, outcount, array_of_indices, array_of_statuses)
}

/// MPI_Testsome (MPI-5.0 §3.7.5).
pub(crate) fn testsome(
    _incount: c_int,
    array_of_requests: InOutArray<MPI_Request>,
    outcount: Out<c_int>,
    array_of_indices: OutArray<c_int>,
    array_of_statuses: Option<InOutArray<MPI_Status>>,
) -> Result<()> {
    let complete = some_complete(array_of_requests.as_in())?;
    conclude_some(complete, array_of_requests, outcount, array_of_indices, array_of_statuses)
}

/// The indices of the active requests that are complete, after one or two looks; `None` when no request is
/// active.
fn some_complete(handles: Handles) -> Result<Option<Vec<usize>>> {
    let mut complete = None;
    try_twice(|process| {
        complete = complete_ones(process, handles)?;
        Ok(complete.as_ref().is_none_or(|complete| !complete.is_empty()))
    })?;
    Ok(complete)
}

/// MPI_Request_free (MPI-5.0 §3.7.3).
pub(crate) fn request_free(request: InOut<MPI_Request>) -> Result<()> {
    let callbacks = with(|process| process.free_request(request.get().0))?;
    request.set(MPI_Request::NULL);
    match callbacks.map(|callbacks| generalized::free(&callbacks)) {
        None | Some(MPI_SUCCESS) => Ok(()),
        Some(code) => Err(Error::returned(code, format!("the free callback returned error code {code}"))),
    }
}

/// MPI_Cancel (MPI-5.0 §3.8.4).
pub(crate) fn cancel(request: InOut<MPI_Request>) -> Result<()> {
    if let Some((callbacks, complete)) = with(|process| process.cancel(request.get().0))? {
        let code = generalized::cancel(&callbacks, complete);
        if code != MPI_SUCCESS {
            return Err(Error::returned(code, format!("the cancel callback returned error code {code}")));
        }
    }
    Ok(())
}

/// MPI_Start (MPI-5.0 §3.9).
pub(crate) fn start(request: InOut<MPI_Request>) -> Result<()> {
    with(|process| process.restart(request.get().0))
}

/// MPI_Startall (MPI-5.0 §3.9).
pub(crate) fn startall(_count: c_int, array_of_requests: InOutArray<MPI_Request>) -> Result<()> {
    let handles = array_of_requests.as_in();
    with(|process| handles.iter().try_for_each(|handle| process.restart(handle.0)))
}
