//! Error handlers (MPI-5.0 §9.3): those of the program, and how long each is kept.

use super::wrong::wrong;
use super::{Class, Objects};
use crate::callbacks::MPI_Comm_errhandler_function;
use crate::constants::*;
use crate::error::{Error, Result};

/// An error handler of the program (MPI-5.0 §9.3).
pub struct ErrorHandler {
    /// Objects that it may be attached to.
    pub class: Class,
    /// The function; those of all kinds of objects have one type.
    pub function: MPI_Comm_errhandler_function,
    /// Handles and objects that refer to it.
    pub references: u32,
}

impl Objects {
    /// Whether this is a predefined error handler, or one that has been made and is still there.
    pub fn is_error_handler(&self, handle: usize) -> bool {
        is_predefined_handler(handle) || self.error_handlers.get(handle).is_some()
    }

    /// An object or handle refers to the error handler `handle` from now on.
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

    /// One reference less.
    pub fn release_error_handler(&mut self, handle: usize) {
        if let Some(handler) = self.error_handlers.get_mut(handle) {
            handler.references -= 1;
            if handler.references == 0 {
                self.error_handlers.remove(handle);
            }
        }
    }
}

/// Whether `handle` is one of the standard's error handlers.
pub fn is_predefined_handler(handle: usize) -> bool {
    matches!(handle, MPI_ERRORS_ARE_FATAL | MPI_ERRORS_ABORT | MPI_ERRORS_RETURN)
}
