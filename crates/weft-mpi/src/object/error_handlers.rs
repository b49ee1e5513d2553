//! Error handlers (MPI-5.0 §9.3) of the program, and the references that keep them.

use super::wrong::wrong;
use super::{Class, Objects};
use crate::callbacks::MPI_Comm_errhandler_function;
use crate::constants::*;
use crate::error::{Error, Result};

/// An error handler of the program (MPI-5.0 §9.3).
pub struct ErrorHandler {
    /// The kind of object that it may be attached to.
    pub class: Class,
    /// The function; the functions for all kinds of objects have one type.
    pub function: MPI_Comm_errhandler_function,
    /// The number of handles and objects that refer to it.
    pub references: u32,
}

impl Objects {
    /// Returns whether this is a predefined error handler, or one that the program has made and that still
    /// exists.
    pub fn is_error_handler(&self, handle: usize) -> bool {
        is_predefined_handler(handle) || self.error_handlers.get(handle).is_some()
    }

    /// Adds a reference to the error handler `handle`.
    ///
    /// # Errors
    /// `MPI_ERR_ERRHANDLER` when there is no such handler for objects of `class`.
    pub fn retain_error_handler(&mut self, handle: usize, class: Option<Class>) -> Result<()> {
        if is_predefined_handler(handle) {
            return Ok(());
        }
        match self.error_handlers.get_mut(handle) {
            Some(handler) if class.is_none_or(|class| class == handler.class) => {
                handler.references += 1;
                Ok(())
            }
            Some(_) => Err(Error::new(MPI_ERR_ERRHANDLER, "the error handler was made for another kind of object")),
            None => Err(wrong(handle, "error handler", MPI_ERR_ERRHANDLER, MPI_ERRHANDLER_NULL, "MPI_ERRHANDLER_NULL")),
        }
    }

    /// Removes a reference to the error handler `handle`.
    pub fn release_error_handler(&mut self, handle: usize) {
        if let Some(handler) = self.error_handlers.get_mut(handle) {
            handler.references -= 1;
            if handler.references == 0 {
                self.error_handlers.remove(handle);
            }
        }
    }
}

/// Returns whether `handle` is one of the standard's error handlers.
pub fn is_predefined_handler(handle: usize) -> bool {
    matches!(handle, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN)
}
