//! The way of every call into the library and out of it. The generated functions go through it.
//!
//! On the way in, the number of the running call is noted, so that `mpiexec` can name the call if the process
//! dies, and the library must be initialised. On the way out, an error goes to the error handler of the
//! call's object. A panic ends here: it becomes MPI_ERR_INTERN and never reaches C.

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
    call_anytime(function, scope, || if is_active() { body() } else { Err(inactive()) })
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
    weft_mpi::start::note_call(u32::from(function as u16));
    let code = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => MPI_SUCCESS,
        Ok(Err(error)) => failed(function, scope, error),
        Err(panic) => panicked(function, scope, panic),
    };
    // No panic passes this place, since none leaves the functions above.
    weft_mpi::start::note_return();
    code
}

/// Runs one call of a function that returns a value and cannot fail; after a panic the value is the default.
#[inline(always)]
pub(crate) fn value<T: Default>(function: Function, body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(panic) => {
            panicked(function, Scope::None, panic);
            T::default()
        }
    }
}

/// The way out of a call that did not succeed. `extern "C"` because nothing unwinds out of such a function:
/// its callers, of which there are hundreds, need no code for that.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)]
extern "C" fn failed(function: Function, scope: Scope, error: Error) -> c_int {
    if weft_mpi::process::FORKED.load(Ordering::Relaxed) {
        return refused_in_child(function, scope);
    }
    // Error handlers are code of the library and of the user: a panic in them must not reach C either.
    let handled = catch_unwind(AssertUnwindSafe(|| {
        let scope = error.communicator.map_or(scope, Scope::of_operation);
        error_handling::invoke(scope, &error.in_procedure(&procedure(function.name())))
    }));
    handled.unwrap_or_else(|_| code_without_sentence(scope, MPI_ERR_INTERN))
}

/// The way out of a call that panicked, with what the panic has left.
#[cold]
#[inline(never)]
#[allow(improper_ctypes_definitions)]
extern "C" fn panicked(function: Function, scope: Scope, panic: Box<dyn Any + Send>) -> c_int {
    let error = Error::new(MPI_ERR_INTERN, format!("defect in Weft: {}", panic_message(&*panic)));
    failed(function, scope, error)
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

/// Returns whether the library is between initialisation and finalisation, of the world model or of any
/// session.
#[inline(always)]
fn is_active() -> bool {
    weft_mpi::process::ACTIVE.load(Ordering::Relaxed)
}
