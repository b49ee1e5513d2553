//! Keyvals (MPI-5.0 §7.7.2): the kinds of attributes that a program has made, and how long each is kept.

use super::{Class, Objects};
use crate::callbacks::{MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function};
use crate::constants::*;
use crate::error::{Error, Result};

/// A keyval (MPI-5.0 §7.7.2).
#[derive(Clone, Copy, Debug)]
pub struct Keyval {
    /// Objects that it is for.
    pub class: Class,
    /// What a duplicate of the object gets.
    pub copy: Copying,
    /// Called before an attribute goes, if there is one.
    pub delete: Option<MPI_Comm_delete_attr_function>,
    /// Passed to both.
    pub extra_state: usize,
    /// The program's handle, while not freed, and attributes that use it.
    pub references: u32,
    /// `MPI_*_free_keyval` was called.
    pub freed: bool,
}

/// What a duplicate of an object gets of an attribute. The copy functions of communicators, datatypes and
/// windows have one type.
#[derive(Clone, Copy, Debug)]
pub enum Copying {
    /// Nothing: `MPI_COMM_NULL_COPY_FN` and its twins.
    Nothing,
    /// The same value: `MPI_COMM_DUP_FN` and its twins.
    Value,
    /// What a function of the program says.
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

/// A copy or delete function of the program that runs (MPI-5.0 §7.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callback {
    /// What kind of object it runs for …
    pub class: Class,
    /// … and which one.
    pub handle: usize,
    /// The keyval of its attribute.
    pub keyval: i32,
    /// It deletes the attribute; else it copies it.
    pub deletes: bool,
}

/// First keyval that the program gets.
pub(super) const KEYVAL_FIRST: i32 = 1024;

impl Objects {
    /// Makes a keyval.
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

    /// The program gives up keyval `number`; attributes that use it keep it alive (MPI-5.0 §7.7.2).
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

    /// An attribute uses keyval `number` from now on.
    pub fn retain_keyval(&mut self, number: i32) {
        if let Some(keyval) = self.keyvals.get_mut(&number) {
            keyval.references += 1;
        }
    }

    /// An attribute that uses keyval `number` is gone, or the program freed it.
    pub fn release_keyval(&mut self, number: i32) {
        if let Some(keyval) = self.keyvals.get_mut(&number) {
            keyval.references -= 1;
            if keyval.references == 0 {
                self.keyvals.remove(&number);
            }
        }
    }
}
