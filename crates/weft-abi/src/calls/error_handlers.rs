//! Error handlers, error codes and their texts (MPI-5.0 §9.3–§9.5).

use crate::arguments::*;
use crate::check;
use crate::error_codes;
use crate::error_handling::react;
use crate::scope::Scope;
use crate::types::{MPI_Comm, MPI_Errhandler, MPI_File, MPI_Session};
use std::ffi::c_int;
use weft_mpi::callbacks::*;
use weft_mpi::constants::*;
use weft_mpi::error::Error;
use weft_mpi::object::{Class, ErrorHandler, full};
use weft_mpi::process;

fn create(
    class: Class,
    function: Option<MPI_Comm_errhandler_function>,
    name: &'static str,
    handle: Out<MPI_Errhandler>,
) -> Result<(), Error> {
    let function = check::function(name, function)?;
    let handler = ErrorHandler { class, function, references: 1 };
    let made = process::with(|process| process.objects.error_handlers.insert(handler));
    handle.set(MPI_Errhandler(made.ok_or_else(|| full("error handlers"))?));
    Ok(())
}

/// MPI_Comm_create_errhandler (MPI-5.0 §9.3.1).
pub(crate) fn comm_create_errhandler(
    comm_errhandler_fn: Option<MPI_Comm_errhandler_function>,
    errhandler: Out<MPI_Errhandler>,
) -> Result<(), Error> {
    create(Class::Communicator, comm_errhandler_fn, "comm_errhandler_fn", errhandler)
}

/// MPI_Win_create_errhandler (MPI-5.0 §9.3.2).
pub(crate) fn win_create_errhandler(
    win_errhandler_fn: Option<MPI_Win_errhandler_function>,
    errhandler: Out<MPI_Errhandler>,
) -> Result<(), Error> {
    create(Class::Window, win_errhandler_fn, "win_errhandler_fn", errhandler)
}

/// MPI_File_create_errhandler (MPI-5.0 §9.3.3).
pub(crate) fn file_create_errhandler(
    file_errhandler_fn: Option<MPI_File_errhandler_function>,
    errhandler: Out<MPI_Errhandler>,
) -> Result<(), Error> {
    create(Class::File, file_errhandler_fn, "file_errhandler_fn", errhandler)
}

/// MPI_Session_create_errhandler (MPI-5.0 §9.3.4).
pub(crate) fn session_create_errhandler(
    session_errhandler_fn: Option<MPI_Session_errhandler_function>,
    errhandler: Out<MPI_Errhandler>,
) -> Result<(), Error> {
    create(Class::Session, session_errhandler_fn, "session_errhandler_fn", errhandler)
}

/// MPI_Comm_set_errhandler (MPI-5.0 §9.3.1).
pub(crate) fn comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) -> Result<(), Error> {
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
pub(crate) fn comm_get_errhandler(comm: MPI_Comm, errhandler: Out<MPI_Errhandler>) -> Result<(), Error> {
    let handler = process::with(|process| {
        let handler = process.objects.communicator(comm.0)?.error_handler;
        process.objects.retain_error_handler(handler, None)?;
        Ok(handler)
    })?;
    errhandler.set(MPI_Errhandler(handler));
    Ok(())
}

/// MPI_Errhandler_free (MPI-5.0 §9.3.5). Predefined handlers may be freed, since MPI_Comm_get_errhandler
/// returns them.
pub(crate) fn errhandler_free(errhandler: InOut<MPI_Errhandler>) -> Result<(), Error> {
    let handle = errhandler.get().0;
    process::with(|process| {
        // The check is the one for a new reference, which is not made.
        process.objects.retain_error_handler(handle, None)?;
        process.objects.release_error_handler(handle);
        process.objects.release_error_handler(handle);
        Ok(())
    })?;
    errhandler.set(MPI_Errhandler::NULL);
    Ok(())
}

/// MPI_Comm_call_errhandler (MPI-5.0 §9.5.2).
pub(crate) fn comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) -> Result<(), Error> {
    process::with(|process| process.objects.communicator(comm.0).map(drop))?;
    call(Scope::Comm(comm), "MPI_Comm_call_errhandler", errorcode)
}

/// Calls the error handler of `scope` for the program (MPI-5.0 §9.5.2), with exactly the code that it gives.
/// The process lock is free.
pub(crate) fn call(scope: Scope, name: &str, errorcode: c_int) -> Result<(), Error> {
    let (class, text) =
        error_codes::with(|codes| Ok::<_, Error>((codes.class_of(errorcode)?, codes.text(errorcode)?)))?;
    react(scope, &Error::returned(errorcode, format!("{name}: {text}")), class, errorcode);
    Ok(())
}

/// MPI_File_set_errhandler (MPI-5.0 §9.3.3); of MPI_FILE_NULL: the handler that files get (§14.7).
pub(crate) fn file_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) -> Result<(), Error> {
    if file.0 != MPI_FILE_NULL {
        return weft_mpi::files::set_error_handler(file.0, errhandler.0);
    }
    process::with(|process| {
        let objects = &mut process.objects;
        objects.retain_error_handler(errhandler.0, Some(Class::File))?;
        let old = std::mem::replace(&mut objects.file_error_handler, errhandler.0);
        objects.release_error_handler(old);
        Ok(())
    })
}

/// MPI_File_get_errhandler (MPI-5.0 §9.3.3): the program frees the handle that it gets.
pub(crate) fn file_get_errhandler(file: MPI_File, errhandler: Out<MPI_Errhandler>) -> Result<(), Error> {
    let handler = process::with(|process| {
        let handler = match file.0 {
            MPI_FILE_NULL => process.objects.file_error_handler,
            file => process.objects.file(file)?.error_handler,
        };
        process.objects.retain_error_handler(handler, None)?;
        Ok::<_, Error>(handler)
    })?;
    errhandler.set(MPI_Errhandler(handler));
    Ok(())
}

/// MPI_File_call_errhandler (MPI-5.0 §9.5.2).
pub(crate) fn file_call_errhandler(fh: MPI_File, errorcode: c_int) -> Result<(), Error> {
    if fh.0 != MPI_FILE_NULL {
        process::with(|process| process.objects.file(fh.0).map(drop))?;
    }
    call(Scope::File(fh), "MPI_File_call_errhandler", errorcode)
}

/// MPI_Session_set_errhandler (MPI-5.0 §9.3.4).
pub(crate) fn session_set_errhandler(session: MPI_Session, errhandler: MPI_Errhandler) -> Result<(), Error> {
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
pub(crate) fn session_get_errhandler(session: MPI_Session, errhandler: Out<MPI_Errhandler>) -> Result<(), Error> {
    let handler = process::with(|process| {
        let handler = process.objects.session(session.0)?.error_handler;
        process.objects.retain_error_handler(handler, None)?;
        Ok(handler)
    })?;
    errhandler.set(MPI_Errhandler(handler));
    Ok(())
}

/// MPI_Session_call_errhandler (MPI-5.0 §9.5.2).
pub(crate) fn session_call_errhandler(session: MPI_Session, errorcode: c_int) -> Result<(), Error> {
    process::with(|process| process.objects.session(session.0).map(drop))?;
    call(Scope::Session(session), "MPI_Session_call_errhandler", errorcode)
}

/// MPI_Error_string (MPI-5.0 §9.3.5).
pub(crate) fn error_string(errorcode: c_int, string: OutString, resultlen: Out<c_int>) -> Result<(), Error> {
    let text = error_codes::with(|codes| codes.text(errorcode))?;
    let length = string.set(&text);
    resultlen.set(length);
    Ok(())
}

/// MPI_Error_class (MPI-5.0 §9.4).
pub(crate) fn error_class(errorcode: c_int, errorclass: Out<c_int>) -> Result<(), Error> {
    let class = error_codes::with(|codes| codes.class_of(errorcode))?;
    errorclass.set(class);
    Ok(())
}

/// MPI_Add_error_class (MPI-5.0 §9.5.1).
pub(crate) fn add_error_class(errorclass: Out<c_int>) -> Result<(), Error> {
    let class = error_codes::with(|codes| codes.add_class());
    errorclass.set(class);
    Ok(())
}

/// MPI_Add_error_code (MPI-5.0 §9.5.1).
pub(crate) fn add_error_code(errorclass: c_int, errorcode: Out<c_int>) -> Result<(), Error> {
    let code = error_codes::with(|codes| codes.add_code(errorclass))?;
    errorcode.set(code);
    Ok(())
}

/// MPI_Add_error_string (MPI-5.0 §9.5.1).
pub(crate) fn add_error_string(errorcode: c_int, string: InString) -> Result<(), Error> {
    let text = string.to_string();
    error_codes::with(|codes| codes.set_text(errorcode, &text))
}

/// MPI_Remove_error_class (MPI-5.0 §9.5.1).
pub(crate) fn remove_error_class(errorclass: c_int) -> Result<(), Error> {
    error_codes::with(|codes| codes.remove_class(errorclass))
}

/// MPI_Remove_error_code (MPI-5.0 §9.5.1).
pub(crate) fn remove_error_code(errorcode: c_int) -> Result<(), Error> {
    error_codes::with(|codes| codes.remove_code(errorcode))
}

/// MPI_Remove_error_string (MPI-5.0 §9.5.1).
pub(crate) fn remove_error_string(errorcode: c_int) -> Result<(), Error> {
    error_codes::with(|codes| codes.remove_text(errorcode))
}
