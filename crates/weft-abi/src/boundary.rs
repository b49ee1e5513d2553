//! The way of every call into the library and out of it. The generated functions go through it.
//!
//! On the way in, the number of the running call is noted, and the library must be initialised. On the way
//! out, an error goes to the error handler of the call's object. A panic ends here: it becomes MPI_ERR_INTERN
//! and never reaches C.

use crate::caller::procedure;
use crate::constants::{MPI_ERR_INTERN, MPI_ERR_OTHER, MPI_SUCCESS};
use crate::error_codes::{number, without_sentence};
use crate::error_handling;
use crate::functions::Function;
use crate::scope::Scope;
use std::any::Any;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use weft_mpi::error::{Error, ErrorClass};

/// Runs one call of a function that needs an initialised library.
#[inline(always)]
pub(crate) fn call(function: Function, scope: Scope, body: impl FnOnce() -> Result<(), Error>) -> c_int {
    let _whereabouts = Whereabouts::enter(function);
    if !is_active() {
        return failed(function, scope, Err(inactive()));
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => MPI_SUCCESS,
        Ok(Err(error)) => failed(function, scope, Err(error)),
        Err(panic) => failed(function, scope, Ok(panic)),
    }
}

/// Runs one call that processes make together. Where these calls are compared, the thread knows which call it
/// is in.
#[inline(always)]
pub(crate) fn call_together(function: Function, scope: Scope, body: impl FnOnce() -> Result<(), Error>) -> c_int {
    call(function, scope, || weft_mpi::check::in_call(u32::from(function as u16), body))
}

/// Runs one call of a function that works before initialisation and after finalisation too (MPI-5.0 §11.4.1).
#[inline(always)]
pub(crate) fn call_anytime(function: Function, scope: Scope, body: impl FnOnce() -> Result<(), Error>) -> c_int {
    let _whereabouts = Whereabouts::enter(function);
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => MPI_SUCCESS,
        Ok(Err(error)) => failed(function, scope, Err(error)),
        Err(panic) => failed(function, scope, Ok(panic)),
    }
}

/// Runs one call of a function that returns a value and cannot fail; after a panic the value is the default.
#[inline(always)]
pub(crate) fn value<T: Default>(function: Function, body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(panic) => {
            failed(function, Scope::None, Ok(panic));
            T::default()
        }
    }
}

/// The way out of a call that did not succeed: an error, or (`Ok`) the payload of a panic.
#[cold]
#[inline(never)]
fn failed(function: Function, scope: Scope, cause: Result<Box<dyn Any + Send>, Error>) -> c_int {
    if weft_mpi::process::FORKED.load(Ordering::Relaxed) {
        return refused_in_child(function, scope);
    }
    // Error handlers are code of the library and of the user: a panic in them must not reach C either.
    let handled = catch_unwind(AssertUnwindSafe(|| {
        let error = match cause {
            Err(error) => error,
            Ok(panic) => Error::new(MPI_ERR_INTERN, format!("defect in Weft: {}", panic_message(&*panic))),
        };
        let scope = error.communicator.map_or(scope, Scope::of_operation);
        error_handling::invoke(scope, &error.in_procedure(&procedure(function.name())))
    }));
    handled.unwrap_or_else(|_| code_without_sentence(scope, MPI_ERR_INTERN))
}

/// Refuses a call of MPI in a forked child of a process of the job. Everything that the child inherited
/// belongs to its parent, above all the connection to the launcher, so nothing of it is touched. The child
/// goes on only if the program looks at errors itself.
fn refused_in_child(function: Function, scope: Scope) -> c_int {
    eprintln!("weft: process {}: {}: {}", std::process::id(), procedure(function.name()), weft_mpi::process::IN_CHILD);
    match weft_mpi::process::returns_errors() {
        true => code_without_sentence(scope, MPI_ERR_OTHER),
        false => weft_mpi::start::end_child(),
    }
}

/// What a call returns whose sentence cannot be kept. The tool interface's codes are classes.
fn code_without_sentence(scope: Scope, class: ErrorClass) -> c_int {
    if scope == Scope::Tool { number(class) } else { without_sentence(class) }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    if let Some(message) = panic.downcast_ref::<&str>() {
        message
    } else if let Some(message) = panic.downcast_ref::<String>() {
        message
    } else {
        "a panic without a message"
    }
}

#[cold]
#[inline(never)]
fn inactive() -> Error {
    Error::new(MPI_ERR_OTHER, "called before MPI_Init or after MPI_Finalize")
}

/// Says, while it lives, that this process is in a call of MPI; `mpiexec` reports the call if the process
/// dies.
struct Whereabouts;

impl Whereabouts {
    #[inline(always)]
    fn enter(function: Function) -> Self {
        weft_mpi::start::note_call(u32::from(function as u16));
        Self
    }
}

impl Drop for Whereabouts {
    #[inline(always)]
    fn drop(&mut self) {
        weft_mpi::start::note_return();
    }
}

/// Returns whether the library is between initialisation and finalisation, of the world model or of any
/// session.
#[inline(always)]
fn is_active() -> bool {
    weft_mpi::process::ACTIVE.load(Ordering::Relaxed)
}
