//! Looking at requests without completing them (MPI-5.0 §3.7.6).

use super::{Found, all_complete, first_complete, generalized, report, some_complete, try_twice};
use crate::arguments::*;
use crate::calls::status;
use crate::constants::*;
use crate::types::*;
use std::ffi::c_int;
use weft_mpi::completion::Outcome;
use weft_mpi::error::Result;
use weft_mpi::process::with;
use weft_mpi::request::Hold;

/// Reports a complete request without completing it.
fn peek(handle: usize, status: Option<InOut<MPI_Status>>) -> Result<()> {
    if handle == MPI_REQUEST_NULL.0 || !with(|process| process.is_active(handle))? {
        report(Outcome::EMPTY, status, false);
        return Ok(());
    }
    let (mut found, callbacks) = with(|process| {
        let request = process.request(handle)?;
        // "A subsequent call to test, wait or free should be executed with that request" (MPI-5.0 §3.7.6).
        request.hold = Hold::ToldComplete;
        let mut found = status::EMPTY;
        status::store(Some(InOut::from(&mut found)), &request.status, None);
        Ok((found, request.generalized.as_deref().copied()))
    })?;
    if let Some(callbacks) = callbacks {
        generalized::query(&callbacks, &mut found);
    }
    if let Some(status) = status {
        found.error = status.get().error;
        status.set(found);
    }
    Ok(())
}

/// MPI_Request_get_status (MPI-5.0 §3.7.6).
pub(crate) fn request_get_status(
    request: MPI_Request,
    flag: Out<c_int>,
    status: Option<InOut<MPI_Status>>,
) -> Result<()> {
    let complete = try_twice(|process| process.is_complete(request.0))?;
    flag.set(c_int::from(complete));
    if complete { peek(request.0, status) } else { Ok(()) }
}

/// MPI_Request_get_status_any (MPI-5.0 §3.7.6).
pub(crate) fn request_get_status_any(
    _count: c_int,
    array_of_requests: InArray<MPI_Request>,
    index: Out<c_int>,
    flag: Out<c_int>,
    status: Option<InOut<MPI_Status>>,
) -> Result<()> {
    let mut found = Found::NotYet;
    try_twice(|process| {
        found = first_complete(process, array_of_requests)?;
        Ok(!matches!(found, Found::NotYet))
    })?;
    flag.set(c_int::from(!matches!(found, Found::NotYet)));
    index.set(MPI_UNDEFINED);
    match found {
        Found::At(at) => {
            index.set(at as c_int);
            peek(array_of_requests.get(at).0, status)
        }
        Found::NotYet => Ok(()),
        Found::NoneActive => peek(MPI_REQUEST_NULL.0, status),
    }
}

/// MPI_Request_get_status_all (MPI-5.0 §3.7.6).
pub(crate) fn request_get_status_all(
    _count: c_int,
    array_of_requests: InArray<MPI_Request>,
    flag: Out<c_int>,
    array_of_statuses: Option<InOutArray<MPI_Status>>,
) -> Result<()> {
    let mut from = 0;
    let complete = try_twice(|process| all_complete(process, array_of_requests, &mut from))?;
    flag.set(c_int::from(complete));
    if complete {
        for (index, handle) in array_of_requests.iter().enumerate() {
            peek(handle.0, array_of_statuses.map(|statuses| statuses.at(index)))?;
        }
    }
    Ok(())
}

/// MPI_Request_get_status_some (MPI-5.0 §3.7.6).
pub(crate) fn request_get_status_some(
    _incount: c_int,
    array_of_requests: InArray<MPI_Request>,
    outcount: Out<c_int>,
    array_of_indices: OutArray<c_int>,
    array_of_statuses: Option<InOutArray<MPI_Status>>,
) -> Result<()> {
    let Some(complete) = some_complete(array_of_requests)? else {
        outcount.set(MPI_UNDEFINED);
        return Ok(());
    };
    outcount.set(complete.len() as c_int);
    for (nth, index) in complete.iter().enumerate() {
        array_of_indices.set(nth, *index as c_int);
        peek(array_of_requests.get(*index).0, array_of_statuses.map(|statuses| statuses.at(nth)))?;
    }
    Ok(())
}
