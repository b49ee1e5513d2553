//! The errors for a handle that names no object, and for a table that is full.

use crate::constants::*;
use crate::error::{Error, ErrorClass};

#[cold]
pub(super) fn wrong_communicator(handle: usize) -> Error {
    let name = match handle {
        MPI_COMM_WORLD => "MPI_COMM_WORLD",
        MPI_COMM_SELF => "MPI_COMM_SELF",
        _ => return wrong(handle, "communicator", MPI_ERR_COMM, MPI_COMM_NULL, "MPI_COMM_NULL"),
    };
    let sentence = format!(
        "{name} exists only from MPI_Init to MPI_Finalize: where only sessions are open, make a communicator by \
         MPI_Group_from_session_pset and MPI_Comm_create_from_group"
    );
    Error::new(MPI_ERR_COMM, sentence)
}

#[cold]
pub(super) fn wrong_type(handle: usize) -> Error {
    wrong(handle, "datatype", MPI_ERR_TYPE, MPI_DATATYPE_NULL, "MPI_DATATYPE_NULL")
}

#[cold]
pub(super) fn wrong_window(handle: usize) -> Error {
    wrong(handle, "window", MPI_ERR_WIN, MPI_WIN_NULL, "MPI_WIN_NULL")
}

#[cold]
pub(super) fn wrong_file(handle: usize) -> Error {
    wrong(handle, "file", MPI_ERR_FILE, MPI_FILE_NULL, "MPI_FILE_NULL")
}

#[cold]
pub(super) fn wrong_session(handle: usize) -> Error {
    wrong(handle, "session", MPI_ERR_SESSION, MPI_SESSION_NULL, "MPI_SESSION_NULL")
}

#[cold]
pub(super) fn wrong_info(handle: usize) -> Error {
    if handle == MPI_INFO_ENV {
        return Error::new(MPI_ERR_INFO, "MPI_INFO_ENV can only be read");
    }
    wrong(handle, "info object", MPI_ERR_INFO, MPI_INFO_NULL, "MPI_INFO_NULL")
}

/// The error for a handle that names no object.
#[cold]
pub(crate) fn wrong(handle: usize, what: &str, class: ErrorClass, null: usize, null_name: &str) -> Error {
    if handle == null {
        return Error::new(class, format!("the {what} is {null_name}"));
    }
    let sentence = crate::foreign::explain(handle, class);
    Error::new(class, sentence.unwrap_or_else(|| format!("{handle:#x} is no {what}, or one that has been freed")))
}

/// The error for a full table of `what`.
pub fn full(what: &str) -> Error {
    Error::new(MPI_ERR_NO_MEM, format!("too many {what} exist (limit 16777216): free some first"))
}
