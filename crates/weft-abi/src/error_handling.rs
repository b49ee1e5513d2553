//! The handling of an error of a call (MPI-5.0 §9.3): the error handler of the call's object decides, and the
//! program gets a code for the error.

use crate::error_codes::{self, number};
use crate::scope::Scope;
use std::ffi::c_int;
use std::time::Duration;
use weft_mpi::callbacks::MPI_Comm_errhandler_function;
use weft_mpi::constants::*;
use weft_mpi::error::Error;
use weft_mpi::object::{Class, ErrorHandler};
use weft_mpi::process::{self, Phase, Process};

/// The reaction to an error.
enum Reaction {
    /// The call returns the error.
    Return,
    /// The job ends.
    Fatal,
    /// The program's function is called with the handle of the object.
    Call { function: MPI_Comm_errhandler_function, object: usize },
}

/// Carries out the decision of the error handler of `scope`, and returns the value of the C function (MPI-5.0
/// §9.3): a code of the error's class for which MPI_Error_string has the whole sentence. `error.message`
/// names the function. The process lock is free.
pub(crate) fn invoke(scope: Scope, error: &Error) -> c_int {
    if scope == Scope::Tool {
        // For all other calls, the generated checks give the class (MPI-5.0 §15.3.10).
        return number(if error.class == MPI_ERR_ARG { MPI_T_ERR_INVALID } else { error.class });
    }
    let communicator = if let Scope::Comm(comm) = scope { Some(comm.0) } else { None };
    let code = process::with(|process| code_of(process, error, communicator));
    react(scope, error, number(error.class), code);
    code
}

/// The code of an error that has happened, on `communicator` if there is one. A code that a function of the
/// program returned stays as it is.
pub(crate) fn code_of(process: &mut Process, error: &Error, communicator: Option<usize>) -> c_int {
    if let Some(code) = error.code {
        return code;
    }
    let found = communicator.and_then(|handle| Some((handle, process.objects.find_communicator(handle)?)));
    let on = found.map_or_else(String::new, |(handle, object)| {
        let name = if object.name.is_empty() { format!("{handle:#x}") } else { object.name.clone() };
        format!("communicator {name}, rank {} of {}; ", object.rank, object.group.size())
    });
    let sentence = format!("{}: {error} [{on}{}]", class_name(number(error.class)), speaker(process));
    error_codes::with(|codes| codes.note(error.class, &sentence))
}

/// Carries out the decision of the error handler of `scope` about an error. The program gets its `code`, and
/// `class`, a number of the standard or of the program.
pub(crate) fn react(scope: Scope, error: &Error, class: c_int, code: c_int) {
    let (reaction, speaker, is_verbose) =
        process::with(|process| (reaction(process, scope), speaker(process), process.verbose_errors));
    match reaction {
        Reaction::Return if is_verbose => {
            weft_mpi::say(&format!("weft: {speaker}: {error} [{}]", class_name(class)));
        }
        Reaction::Return => {}
        Reaction::Fatal => end_job_at(&speaker, error, class),
        Reaction::Call { function, object } => {
            let (mut object, mut code) = (object, code);
            // SAFETY: the program gave the function for this call (MPI-5.0 §9.3), whose variable part has
            // nothing that is portable.
            unsafe { function(&raw mut object, &raw mut code) };
        }
    }
}

/// The time for which a process whose error is the consequence of another process's waits before it ends the
/// job. The other process has an error handler of its own, and may call MPI_Abort itself.
const CAUSE_LIMIT: Duration = Duration::from_secs(1);

/// Ends the job with the sentence of `error`. The process lock is free.
fn end_job_at(speaker: &str, error: &Error, class: c_int) -> ! {
    if error.is_consequence {
        // The launcher reports the process that ends the job first. That should be the one that says why.
        std::thread::sleep(CAUSE_LIMIT);
    }
    weft_mpi::start::abort(exit_code(class), &format!("{speaker}: {error} [{}]", class_name(class)))
}

fn reaction(process: &Process, scope: Scope) -> Reaction {
    let is_active = process.phase == Phase::Active || !process.objects.sessions.is_empty();
    // The error of a session that could not be opened goes to the handler given to the call (MPI-5.0 §9.3.4).
    if !is_active && !matches!(scope, Scope::Errhandler(_)) {
        return Reaction::Fatal;
    }
    let objects = &process.objects;
    let handler_of = |handle| objects.communicator(handle).ok().map(|object| object.error_handler);
    let (handler, object) = match scope {
        Scope::Comm(comm) => match handler_of(comm.0) {
            Some(handler) => (handler, comm.0),
            None => (own_handler(handler_of), MPI_COMM_SELF),
        },
        // Errors of no file, or of none yet, go to the handler of MPI_FILE_NULL (MPI-5.0 §14.7).
        Scope::File(file) => match objects.file(file.0) {
            Ok(object) => (object.error_handler, file.0),
            Err(_) => (objects.file_error_handler, MPI_FILE_NULL),
        },
        Scope::Errhandler(handler) if objects.is_error_handler(handler.0) => (handler.0, MPI_COMM_NULL),
        // The argument is no error handler.
        Scope::Errhandler(_) => (own_handler(handler_of), MPI_COMM_SELF),
        Scope::Session(session) => match objects.session(session.0) {
            Ok(object) => (object.error_handler, session.0),
            Err(_) => (own_handler(handler_of), MPI_COMM_SELF),
        },
        Scope::Win(win) => match objects.window(win.0) {
            Ok(object) => (object.error_handler, win.0),
            Err(_) => (own_handler(handler_of), MPI_COMM_SELF),
        },
        Scope::None | Scope::Tool => (own_handler(handler_of), MPI_COMM_SELF),
    };
    match handler {
        MPI_ERRORS_RETURN => Reaction::Return,
        MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT => Reaction::Fatal,
        other => match objects.error_handlers.get(other) {
            Some(ErrorHandler { class: Class::Session, function, .. }) if object == MPI_COMM_NULL => {
                Reaction::Call { function: *function, object: MPI_SESSION_NULL }
            }
            Some(handler) => Reaction::Call { function: handler.function, object },
            None => Reaction::Fatal,
        },
    }
}

/// The handler of MPI_COMM_SELF, which gets errors of calls without an object (MPI-5.0 §9.3).
fn own_handler(handler_of: impl Fn(usize) -> Option<usize>) -> usize {
    handler_of(MPI_COMM_SELF).unwrap_or(MPI_ERRORS_ARE_FATAL)
}

/// The name of this process in messages.
fn speaker(process: &Process) -> String {
    match &process.job {
        Some(job) => format!("rank {} in MPI_COMM_WORLD ({})", job.rank, job.processor_name),
        None => format!("process {}", std::process::id()),
    }
}

fn class_name(class: c_int) -> String {
    error_codes::name(class).map_or_else(|| format!("error code {class}"), str::to_owned)
}

/// The highest exit code that an error may have: higher ones say that a shell or a signal was involved.
const EXIT_CODE_MAX: i32 = 125;

/// The exit code of a job that ends by an error of `class`.
fn exit_code(class: c_int) -> c_int {
    if (1..=EXIT_CODE_MAX).contains(&class) { class } else { number(MPI_ERR_OTHER) }
}
