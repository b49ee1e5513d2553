//! Keyvals (MPI-5.0 §7.7.2): the kinds of attributes that a program has made, and the references that keep
//! them.

use super::{Class, Objects};
use crate::callbacks::{MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function};
use crate::constants::*;
use crate::error::{Error, Result};

/// A keyval (MPI-5.0 §7.7.2).
#[derive(Clone, Copy, Debug)]
pub struct Keyval {
    /// The kind of object that it is for.
    pub class: Class,
    /// The rule for the attribute of a duplicate of the object.
    pub copy: Copying,
    /// The function that is called before an attribute goes, if there is one.
    pub delete: Option<MPI_Comm_delete_attr_function>,
    /// The value that is passed to both functions.
    pub extra_state: usize,
    /// The number of references: the program's handle while it is not freed, and attributes that use the
    /// keyval.
    pub references: u32,
    /// `MPI_*_free_keyval` was called.
    pub freed: bool,
}

/// The rule for an attribute when its object is duplicated. The copy functions of communicators, datatypes
/// and windows have one type.
#[derive(Clone, Copy, Debug)]
pub enum Copying {
    /// The duplicate gets nothing: `MPI_COMM_NULL_COPY_FN` and its twins.
    Nothing,
    /// The duplicate gets the same value: `MPI_COMM_DUP_FN` and its twins.
    Value,
    /// The duplicate gets what a function of the program says.
    By(MPI_Comm_copy_attr_function),
}

const _: () = assert!(MPI_TYPE_DUP_FN == MPI_COMM_DUP_FN && MPI_WIN_DUP_FN == MPI_COMM_DUP_FN);

impl From<Option<MPI_Comm_copy_attr_function>> for Copying {
    fn from(function: Option<MPI_Comm_copy_attr_function>) -> Self {
        match function {
            None => Self::Nothing,
            Some(function) if function as usize == MPI_COMM_DUP_FN => Self::Value,
            Some(function) => Self::By(function),
        }
    }
}

/// A copy or delete function of the program that runs at present (MPI-5.0 §7.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callback {
    /// The kind of object that it runs for.
    pub class: Class,
    /// The handle of that object.
    pub handle: usize,
    /// The keyval of its attribute.
    pub keyval: i32,
    /// The function deletes the attribute; else it copies it.
    pub deletes: bool,
}

/// The first keyval that the program gets.
pub(super) const KEYVAL_FIRST: i32 = 1024;

impl Objects {
    /// Adds a keyval, and returns its number.
    pub fn add_keyval(&mut self, keyval: Keyval) -> i32 {
        let number = self.keyval_next;
        self.keyval_next += 1;
        self.keyvals.insert(number, keyval);
        number
    }

    /// The keyval `number`, if it is for objects of `class`.
    ///
    /// # Errors
    /// `MPI_ERR_KEYVAL`.
    pub fn keyval(&self, number: i32, class: Class) -> Result<Keyval> {
        match self.keyvals.get(&number) {
            Some(keyval) if keyval.class == class => Ok(*keyval),
            _ if number == MPI_KEYVAL_INVALID => Err(Error::new(MPI_ERR_KEYVAL, "the keyval is MPI_KEYVAL_INVALID")),
            _ => Err(Error::new(
                MPI_ERR_KEYVAL,
                crate::foreign::explain(number as u32 as usize, MPI_ERR_KEYVAL)
                    .unwrap_or_else(|| format!("{number} is no keyval for this kind of object")),
            )),
        }
    }

    /// Gives up the program's handle of keyval `number`. Attributes that use the keyval keep it alive
    /// (MPI-5.0 §7.7.2).
    ///
    /// # Errors
    /// `MPI_ERR_KEYVAL`, also when it has been freed already.
    pub fn free_keyval(&mut self, number: i32, class: Class) -> Result<()> {
        self.keyval(number, class)?;
        match self.keyvals.get_mut(&number) {
            Some(keyval) if !keyval.freed => keyval.freed = true,
            _ => return Err(Error::new(MPI_ERR_KEYVAL, format!("keyval {number} has been freed already"))),
        }
        self.release_keyval(number);
        Ok(())
    }

    /// Adds a reference for an attribute that uses keyval `number`.
    pub fn retain_keyval(&mut self, number: i32) {
        if let Some(keyval) = self.keyvals.get_mut(&number) {
            keyval.references += 1;
        }
    }

    /// Removes a reference to keyval `number`: an attribute is gone, or the program has freed the keyval.
    pub fn release_keyval(&mut self, number: i32) {
        if let Some(keyval) = self.keyvals.get_mut(&number) {
            keyval.references -= 1;
            if keyval.references == 0 {
                self.keyvals.remove(&number);
            }
        }
    }
}
