//! The object of a call, whose error handler gets the call's errors (MPI-5.0 §9.3). Generated functions give
//! it, and `error_handling.rs` uses it.

use crate::arguments::InOut;
use crate::types::*;
use weft_mpi::handle;

/// The object whose error handler gets an error (MPI-5.0 §9.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// No object: the error handler of MPI_COMM_SELF, or of the initial communicator before initialisation.
    None,
    /// A communicator.
    Comm(MPI_Comm),
    /// A window.
    Win(MPI_Win),
    /// A file; MPI_FILE_NULL has the handler that new files get.
    File(MPI_File),
    /// A session.
    Session(MPI_Session),
    /// An error handler that was given as an argument.
    Errhandler(MPI_Errhandler),
    /// The tool interface: errors are only returned (MPI-5.0 §15.3.10).
    Tool,
}

impl Scope {
    /// The object of an operation that has this handle: a file, or else a communicator.
    pub(crate) fn of_operation(handle: usize) -> Self {
        match handle::is_of_kind(handle, handle::Kind::File) {
            true => Self::File(MPI_File(handle)),
            false => Self::Comm(MPI_Comm(handle)),
        }
    }
}

/// The scope of a call that gets the address of its object's handle, to set it to null.
#[inline(always)]
pub(crate) fn scope_at<T: Copy>(handle: Option<InOut<T>>, scope: fn(T) -> Scope) -> Scope {
    handle.map_or(Scope::None, |handle| scope(handle.get()))
}
