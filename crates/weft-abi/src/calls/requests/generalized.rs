//! Generalized requests (MPI-5.0 §13.2): their callbacks are the program's, and run while the lock is free.

use crate::arguments::*;
use crate::boundary::value;
use crate::check;
use crate::constants::*;
use crate::functions::Function;
use crate::types::*;
use std::ffi::{c_int, c_void};
use weft_mpi::callbacks::*;
use weft_mpi::error::{Error, Result};
use weft_mpi::process::with;
use weft_mpi::request::{Generalized, Hold, State};

/// Runs the callbacks of a request that completes, which set its status, and returns their code.
pub(super) fn complete(callbacks: &Generalized, status: &mut MPI_Status) -> c_int {
    let queried = query(callbacks, status);
    let freed = free(callbacks);
    if queried == MPI_SUCCESS { freed } else { queried }
}

/// Asks for the status of a complete request.
pub(super) fn query(callbacks: &Generalized, status: &mut MPI_Status) -> c_int {
    // SAFETY: the program gave MPI_Grequest_start the function for this call (MPI-5.0 §13.2).
    unsafe { (callbacks.query)(callbacks.extra_state as *mut c_void, (&raw mut *status).cast()) }
}

/// Calls the program's function that frees the state of a request.
pub(super) fn free(callbacks: &Generalized) -> c_int {
    // SAFETY: as in `query`.
    unsafe { (callbacks.free)(callbacks.extra_state as *mut c_void) }
}

/// Tells the program that a request is cancelled, and whether it was complete.
pub(super) fn cancel(callbacks: &Generalized, complete: bool) -> c_int {
    let Some(cancel) = callbacks.cancel else { return MPI_SUCCESS };
    // SAFETY: as in `query`.
    unsafe { cancel(callbacks.extra_state as *mut c_void, c_int::from(complete)) }
}

/// What the Fortran binding asks of this library beyond the standard, in no header: `query` and `free` are
/// called when the request completes, in whichever language that is, as those of a generalized request are.
/// `before` gets the state of callbacks that these replace, or null. Returns 0 where nothing can be attached.
///
/// # Safety
/// The functions may be called with `state`, and `before` points to a pointer.
#[unsafe(no_mangle)]
unsafe extern "C" fn weft_request_attach(
    request: MPI_Request,
    query: MPI_Grequest_query_function,
    free: MPI_Grequest_free_function,
    state: *mut c_void,
    before: &mut *mut c_void,
) -> c_int {
    value(Function::GrequestStart, || {
        let callbacks = Generalized { query, free, cancel: None, extra_state: state as usize };
        let Ok(replaced) = with(|process| process.attach(request.0, callbacks)) else { return 0 };
        *before = replaced as *mut c_void;
        1
    })
}

/// MPI_Grequest_start (MPI-5.0 §13.2).
pub(crate) fn grequest_start(
    query_fn: Option<MPI_Grequest_query_function>,
    free_fn: Option<MPI_Grequest_free_function>,
    cancel_fn: Option<MPI_Grequest_cancel_function>,
    extra_state: *mut c_void,
    request: Out<MPI_Request>,
) -> Result<()> {
    let callbacks = Generalized {
        query: check::function("query_fn", query_fn)?,
        free: check::function("free_fn", free_fn)?,
        cancel: Some(check::function("cancel_fn", cancel_fn)?),
        extra_state: extra_state as usize,
    };
    with(|process| {
        request.set(MPI_Request(process.make_generalized(callbacks)?));
        Ok(())
    })
}

/// MPI_Grequest_complete (MPI-5.0 §13.2).
pub(crate) fn grequest_complete(request: MPI_Request) -> Result<()> {
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
        free(&callbacks);
    }
    Ok(())
}
