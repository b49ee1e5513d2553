//! Error handlers, error codes and their texts (MPI-5.0 §9.3–§9.5).

use super::text;
use crate::boundary::Scope;
use crate::types::{MPI_Comm, MPI_Errhandler, MPI_File, MPI_Session};
use std::ffi::{c_char, c_int};
use weft_mpi::constants::*;
use weft_mpi::error::Error;
use weft_mpi::object::{Class, ErrorHandler, full};
use weft_mpi::process::{self, Phase, Process};

/// `MPI_Comm_errhandler_function` and its twins: the object's handle, the error code, and nothing that is portable.
type HandlerFunction = unsafe extern "C" fn(*mut usize, *mut c_int, ...);

/// What is to be done about an error.
enum Reaction {
    /// The call returns the error.
    Return,
    /// The job ends.
    Fatal,
    /// The program's function is called with the handle of the object.
    Call { function: usize, object: usize },
}

/// Does what the error handler of `scope` wants and returns what the C function returns (MPI-5.0 §9.3): a code of the error's class
/// for which MPI_Error_string has the whole sentence. `error.message` names the function. The process lock is free.
pub(crate) fn invoke(scope: Scope, error: &Error) -> c_int {
    if scope == Scope::Tool {
        // The generated checks name the class of all other calls (MPI-5.0 §15.3.10).
        return if error.class == MPI_ERR_ARG { MPI_T_ERR_INVALID } else { error.class };
    }
    let communicator = if let Scope::Comm(comm) = scope { Some(comm.0) } else { None };
    let code = process::with(|process| code_of(process, error, communicator));
    react(scope, error, code);
    code
}

/// The code of an error that has happened, on `communicator` if on any. What a function of the program returned stays as it is.
pub(crate) fn code_of(process: &mut Process, error: &Error, communicator: Option<usize>) -> c_int {
    if let Some(code) = error.code {
        return code;
    }
    let found = communicator.and_then(|handle| Some((handle, process.objects.find_communicator(handle)?)));
    let on = found.map_or_else(String::new, |(handle, object)| {
        let name = if object.name.is_empty() { format!("{handle:#x}") } else { object.name.clone() };
        format!("communicator {name}, rank {} of {}; ", object.rank, object.group.size())
    });
    let sentence = format!("{}: {error} [{on}{}]", class_name(error.class), place(process));
    process.errors.note(error.class, &sentence)
}

/// Does what the error handler of `scope` wants about an error whose code the program gets.
fn react(scope: Scope, error: &Error, code: c_int) {
    let (reaction, place, is_verbose) =
        process::with(|process| (reaction(process, scope), place(process), process.verbose_errors));
    match reaction {
        Reaction::Return if is_verbose => {
            weft_mpi::say(&format!("weft: {place}: {error} [{}]", class_name(error.class)));
        }
        Reaction::Return => {}
        Reaction::Fatal => end_job_at(&place, error),
        Reaction::Call { function, object } => {
            let (mut object, mut code) = (object, code);
            // SAFETY: the program gave a function of this type when it made the handler.
            let function = unsafe { std::mem::transmute::<usize, HandlerFunction>(function) };
            // SAFETY: the call that MPI-5.0 §9.3 describes; a handle is as wide as a pointer.
            unsafe { function(&raw mut object, &raw mut code) };
        }
    }
}

/// Ends the job with the sentence of `error`, whatever any error handler says. The process lock is free.
pub(crate) fn end_job(error: &Error) -> ! {
    end_job_at(&process::with(|process| place(process)), error)
}

fn end_job_at(place: &str, error: &Error) -> ! {
    weft_mpi::start::abort(exit_code(error.class), &format!("{place}: {error} [{}]", class_name(error.class)))
}

fn reaction(process: &Process, scope: Scope) -> Reaction {
    let is_active = process.phase == Phase::Active || !process.objects.sessions.is_empty();
    // A session that could not be opened is for the handler given to the call (MPI-5.0 §9.3.4).
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
        // No file can be opened: all have the handler of MPI_FILE_NULL.
        Scope::File(_) => (objects.file_error_handler, MPI_FILE_NULL),
        Scope::Errhandler(handler) if objects.is_error_handler(handler.0) => (handler.0, MPI_COMM_NULL),
        // What was given is no error handler.
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

/// Errors of calls without an object are MPI_COMM_SELF's (MPI-5.0 §9.3).
fn own_handler(handler_of: impl Fn(usize) -> Option<usize>) -> usize {
    handler_of(MPI_COMM_SELF).unwrap_or(MPI_ERRORS_ARE_FATAL)
}

/// Who speaks.
fn place(process: &Process) -> String {
    match &process.job {
        Some(job) => format!("rank {} in MPI_COMM_WORLD ({})", job.rank, job.processor_name),
        None => format!("process {}", std::process::id()),
    }
}

fn class_name(class: i32) -> String {
    let known = ERROR_CLASS_NAMES.iter().find(|(known, ..)| *known == class);
    known.map_or_else(|| format!("error code {class}"), |(_, name, _)| (*name).to_owned())
}

/// Exit codes above this one say that a shell or a signal was involved.
const EXIT_CODE_MAX: i32 = 125;

/// The exit code of a job that ends by an error of `class`.
fn exit_code(class: i32) -> i32 {
    if (1..=EXIT_CODE_MAX).contains(&class) { class } else { MPI_ERR_OTHER }
}

/// # Safety
/// `handle` can be written; `function` is one for objects of `class`.
unsafe fn create(class: Class, function: usize, name: &str, handle: *mut MPI_Errhandler) -> Result<(), Error> {
    if function == 0 {
        return Err(Error::new(MPI_ERR_ARG, format!("{name} is a null pointer")));
    }
    let handler = ErrorHandler { class, function, references: 1 };
    let made = process::with(|process| process.objects.error_handlers.insert(handler));
    // SAFETY: the caller's pointer.
    unsafe { *handle = MPI_Errhandler(made.ok_or_else(|| full("error handlers"))?) };
    Ok(())
}

/// MPI_Comm_create_errhandler (MPI-5.0 §9.3.1).
///
/// # Safety
/// `errhandler` can be written; the function is what its type says.
pub(crate) unsafe fn comm_create_errhandler(
    comm_errhandler_fn: usize,
    errhandler: *mut MPI_Errhandler,
) -> Result<(), Error> {
    // SAFETY: the caller's promises.
    unsafe { create(Class::Communicator, comm_errhandler_fn, "comm_errhandler_fn", errhandler) }
}

/// MPI_Win_create_errhandler (MPI-5.0 §9.3.2).
///
/// # Safety
/// `errhandler` can be written; the function is what its type says.
pub(crate) unsafe fn win_create_errhandler(
    win_errhandler_fn: usize,
    errhandler: *mut MPI_Errhandler,
) -> Result<(), Error> {
    // SAFETY: the caller's promises.
    unsafe { create(Class::Window, win_errhandler_fn, "win_errhandler_fn", errhandler) }
}

/// MPI_File_create_errhandler (MPI-5.0 §9.3.3).
///
/// # Safety
/// `errhandler` can be written; the function is what its type says.
pub(crate) unsafe fn file_create_errhandler(
    file_errhandler_fn: usize,
    errhandler: *mut MPI_Errhandler,
) -> Result<(), Error> {
    // SAFETY: the caller's promises.
    unsafe { create(Class::File, file_errhandler_fn, "file_errhandler_fn", errhandler) }
}

/// MPI_Session_create_errhandler (MPI-5.0 §9.3.4).
///
/// # Safety
/// `errhandler` can be written; the function is what its type says.
pub(crate) unsafe fn session_create_errhandler(
    session_errhandler_fn: usize,
    errhandler: *mut MPI_Errhandler,
) -> Result<(), Error> {
    // SAFETY: the caller's promises.
    unsafe { create(Class::Session, session_errhandler_fn, "session_errhandler_fn", errhandler) }
}

/// MPI_Comm_set_errhandler (MPI-5.0 §9.3.1).
///
/// # Safety
/// None.
pub(crate) unsafe fn comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) -> Result<(), Error> {
    process::with(|process| {
        let objects = &mut process.objects;
        let old = objects.communicator(comm.0)?.error_handler;
        objects.retain_error_handler(errhandler.0, Some(Class::Communicator))?;
        objects.communicator_mut(comm.0)?.error_handler = errhandler.0;
        objects.release_error_handler(old);
        Ok(())
    })
}

/// MPI_Comm_get_errhandler (MPI-5.0 §9.3.1): the program frees the handle that it gets.
///
/// # Safety
/// `errhandler` can be written.
pub(crate) unsafe fn comm_get_errhandler(comm: MPI_Comm, errhandler: *mut MPI_Errhandler) -> Result<(), Error> {
    let handler = process::with(|process| {
        let handler = process.objects.communicator(comm.0)?.error_handler;
        process.objects.retain_error_handler(handler, None)?;
        Ok(handler)
    })?;
    // SAFETY: the caller's pointer.
    unsafe { *errhandler = MPI_Errhandler(handler) };
    Ok(())
}

/// MPI_Errhandler_free (MPI-5.0 §9.3.5). Predefined handlers may be freed, since MPI_Comm_get_errhandler gives them.
///
/// # Safety
/// `errhandler` can be read and written.
pub(crate) unsafe fn errhandler_free(errhandler: *mut MPI_Errhandler) -> Result<(), Error> {
    // SAFETY: the caller's pointer.
    let errhandler = unsafe { &mut *errhandler };
    process::with(|process| {
        // The same check as for a new reference, which is not made.
        process.objects.retain_error_handler(errhandler.0, None)?;
        process.objects.release_error_handler(errhandler.0);
        process.objects.release_error_handler(errhandler.0);
        Ok(())
    })?;
    *errhandler = MPI_Errhandler::NULL;
    Ok(())
}

/// MPI_Comm_call_errhandler (MPI-5.0 §9.5.2).
///
/// # Safety
/// The process lock is free.
pub(crate) unsafe fn comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) -> Result<(), Error> {
    process::with(|process| process.objects.communicator(comm.0).map(drop))?;
    call(Scope::Comm(comm), "MPI_Comm_call_errhandler", errorcode)
}

/// Calls the error handler of `scope` for the program (MPI-5.0 §9.5.2), with the very code that it gives. The process lock is free.
pub(crate) fn call(scope: Scope, name: &str, errorcode: c_int) -> Result<(), Error> {
    let (class, text) = process::with(|process| {
        Ok::<_, Error>((process.errors.class_of(errorcode)?, process.errors.text(errorcode)?))
    })?;
    react(scope, &Error::new(class, format!("{name}: {text}")), errorcode);
    Ok(())
}

/// The only file handle that there is: no file can be opened.
fn check_file(file: MPI_File) -> Result<(), Error> {
    if file.0 == MPI_FILE_NULL { Ok(()) } else { Err(Error::new(MPI_ERR_FILE, format!("{:#x} is no file", file.0))) }
}

/// MPI_File_set_errhandler (MPI-5.0 §9.3.3), of MPI_FILE_NULL: the handler that files get (§14.7).
///
/// # Safety
/// None.
pub(crate) unsafe fn file_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) -> Result<(), Error> {
    check_file(file)?;
    process::with(|process| {
        let objects = &mut process.objects;
        objects.retain_error_handler(errhandler.0, Some(Class::File))?;
        let old = std::mem::replace(&mut objects.file_error_handler, errhandler.0);
        objects.release_error_handler(old);
        Ok(())
    })
}

/// MPI_File_get_errhandler (MPI-5.0 §9.3.3): the program frees the handle that it gets.
///
/// # Safety
/// `errhandler` can be written.
pub(crate) unsafe fn file_get_errhandler(file: MPI_File, errhandler: *mut MPI_Errhandler) -> Result<(), Error> {
    check_file(file)?;
    let handler = process::with(|process| {
        let handler = process.objects.file_error_handler;
        process.objects.retain_error_handler(handler, None)?;
        Ok::<_, Error>(handler)
    })?;
    // SAFETY: the caller's pointer.
    unsafe { *errhandler = MPI_Errhandler(handler) };
    Ok(())
}

/// MPI_File_call_errhandler (MPI-5.0 §9.5.2).
///
/// # Safety
/// The process lock is free.
pub(crate) unsafe fn file_call_errhandler(fh: MPI_File, errorcode: c_int) -> Result<(), Error> {
    check_file(fh)?;
    call(Scope::File(fh), "MPI_File_call_errhandler", errorcode)
}

/// MPI_Session_set_errhandler (MPI-5.0 §9.3.4).
///
/// # Safety
/// None.
pub(crate) unsafe fn session_set_errhandler(session: MPI_Session, errhandler: MPI_Errhandler) -> Result<(), Error> {
    process::with(|process| {
        let objects = &mut process.objects;
        let old = objects.session(session.0)?.error_handler;
        objects.retain_error_handler(errhandler.0, Some(Class::Session))?;
        objects.session_mut(session.0)?.error_handler = errhandler.0;
        objects.release_error_handler(old);
        Ok(())
    })
}

/// MPI_Session_get_errhandler (MPI-5.0 §9.3.4): the program frees the handle that it gets.
///
/// # Safety
/// `errhandler` can be written.
pub(crate) unsafe fn session_get_errhandler(
    session: MPI_Session,
    errhandler: *mut MPI_Errhandler,
) -> Result<(), Error> {
    let handler = process::with(|process| {
        let handler = process.objects.session(session.0)?.error_handler;
        process.objects.retain_error_handler(handler, None)?;
        Ok(handler)
    })?;
    // SAFETY: the caller's pointer.
    unsafe { *errhandler = MPI_Errhandler(handler) };
    Ok(())
}

/// MPI_Session_call_errhandler (MPI-5.0 §9.5.2).
///
/// # Safety
/// The process lock is free.
pub(crate) unsafe fn session_call_errhandler(session: MPI_Session, errorcode: c_int) -> Result<(), Error> {
    process::with(|process| process.objects.session(session.0).map(drop))?;
    call(Scope::Session(session), "MPI_Session_call_errhandler", errorcode)
}

/// MPI_Error_string (MPI-5.0 §9.3.5).
///
/// # Safety
/// `string` has room for MPI_MAX_ERROR_STRING bytes, `resultlen` can be written.
pub(crate) unsafe fn error_string(errorcode: c_int, string: *mut c_char, resultlen: *mut c_int) -> Result<(), Error> {
    let text = process::with(|process| process.errors.text(errorcode))?;
    // SAFETY: the room that the standard demands.
    let length = unsafe { text::give(&text, string, MPI_MAX_ERROR_STRING as usize) };
    // SAFETY: the caller's pointer.
    unsafe { *resultlen = length };
    Ok(())
}

/// MPI_Error_class (MPI-5.0 §9.4).
///
/// # Safety
/// `errorclass` can be written.
pub(crate) unsafe fn error_class(errorcode: c_int, errorclass: *mut c_int) -> Result<(), Error> {
    let class = process::with(|process| process.errors.class_of(errorcode))?;
    // SAFETY: the caller's pointer.
    unsafe { *errorclass = class };
    Ok(())
}

/// MPI_Add_error_class (MPI-5.0 §9.5.1).
///
/// # Safety
/// `errorclass` can be written.
pub(crate) unsafe fn add_error_class(errorclass: *mut c_int) -> Result<(), Error> {
    let class = process::with(|process| process.errors.add_class());
    // SAFETY: the caller's pointer.
    unsafe { *errorclass = class };
    Ok(())
}

/// MPI_Add_error_code (MPI-5.0 §9.5.1).
///
/// # Safety
/// `errorcode` can be written.
pub(crate) unsafe fn add_error_code(errorclass: c_int, errorcode: *mut c_int) -> Result<(), Error> {
    let code = process::with(|process| process.errors.add_code(errorclass))?;
    // SAFETY: the caller's pointer.
    unsafe { *errorcode = code };
    Ok(())
}

/// MPI_Add_error_string (MPI-5.0 §9.5.1).
///
/// # Safety
/// `string` is a string.
pub(crate) unsafe fn add_error_string(errorcode: c_int, string: *const c_char) -> Result<(), Error> {
    // SAFETY: the caller's string.
    let text = unsafe { text::take(string) };
    process::with(|process| process.errors.set_text(errorcode, &text))
}

/// MPI_Remove_error_class (MPI-5.0 §9.5.1).
///
/// # Safety
/// None.
pub(crate) unsafe fn remove_error_class(errorclass: c_int) -> Result<(), Error> {
    process::with(|process| process.errors.remove_class(errorclass))
}

/// MPI_Remove_error_code (MPI-5.0 §9.5.1).
///
/// # Safety
/// None.
pub(crate) unsafe fn remove_error_code(errorcode: c_int) -> Result<(), Error> {
    process::with(|process| process.errors.remove_code(errorcode))
}

/// MPI_Remove_error_string (MPI-5.0 §9.5.1).
///
/// # Safety
/// None.
pub(crate) unsafe fn remove_error_string(errorcode: c_int) -> Result<(), Error> {
    process::with(|process| process.errors.remove_text(errorcode))
}
