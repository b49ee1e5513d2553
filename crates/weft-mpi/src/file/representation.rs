//! The representation of data in a file (MPI-5.0 §14.5). `files/conversion.rs` converts.

use std::sync::Arc;

use crate::constants::*;
use crate::error::{Error, Result};

/// The functions of a program for a representation of its own (MPI-5.0 §14.5.3). The boundary calls them.
pub trait Conversion: Send + Sync {
    /// The bytes of one item of a predefined datatype in the file.
    ///
    /// # Errors
    /// The code that the program's function returned.
    fn file_extent(&self, datatype: usize) -> Result<i64>;

    /// Converts `count` basic elements of items at the address `user` of the program's memory to `file`.
    ///
    /// # Errors
    /// As for [`Conversion::file_extent`].
    fn write(&self, user: usize, datatype: usize, count: u64, file: &mut [u8]) -> Result<()>;

    /// Converts `count` basic elements in `file` to items at the address `user` of the program's memory.
    ///
    /// # Errors
    /// As for [`Conversion::file_extent`].
    fn read(&self, user: usize, datatype: usize, count: u64, file: &mut [u8]) -> Result<()>;

    /// Says whether there is a function for reads and one for writes; without it data is as in memory.
    fn converts(&self) -> (bool, bool);
}

/// A representation that the program has registered.
pub struct Registered {
    /// Its name.
    pub name: String,
    /// The functions.
    pub conversion: Box<dyn Conversion>,
}

/// The representation of data in a file.
#[derive(Clone)]
pub enum Representation {
    /// As in memory.
    Native,
    /// As this library likes it: as in memory.
    Internal,
    /// Big-endian numbers of fixed sizes.
    External32,
    /// As functions of the program say.
    Registered(Arc<Registered>),
}

/// The most characters of a name, the last zero of C included (`MPI_MAX_DATAREP_STRING`).
const NAME_MAX: usize = MPI_MAX_DATAREP_STRING as usize;

/// The representations that a program has registered; they live until it ends.
#[derive(Default)]
pub struct Representations(Vec<Arc<Registered>>);

impl Representations {
    /// No representations.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Registers a representation.
    ///
    /// # Errors
    /// `MPI_ERR_DUP_DATAREP`: there is one of that name; `MPI_ERR_ARG`: the name is too long.
    pub fn register(&mut self, name: &str, conversion: Box<dyn Conversion>) -> Result<()> {
        if self.find(name).is_ok() {
            return Err(Error::new(MPI_ERR_DUP_DATAREP, format!("there is a data representation {name} already")));
        }
        if name.is_empty() || name.len() >= NAME_MAX {
            let message = format!("the name of a data representation has 1 to {} characters", NAME_MAX - 1);
            return Err(Error::new(MPI_ERR_ARG, message));
        }
        self.0.push(Arc::new(Registered { name: name.to_owned(), conversion }));
        Ok(())
    }

    /// The representation `name`.
    ///
    /// # Errors
    /// `MPI_ERR_UNSUPPORTED_DATAREP`.
    pub fn find(&self, name: &str) -> Result<Representation> {
        match name {
            "native" => Ok(Representation::Native),
            "internal" => Ok(Representation::Internal),
            "external32" => Ok(Representation::External32),
            _ => self.0.iter().find(|one| one.name == name).cloned().map(Representation::Registered).ok_or_else(|| {
                let message = format!(
                    "there is no data representation {name}: it is native, internal, external32, or one of \
                     MPI_Register_datarep"
                );
                Error::new(MPI_ERR_UNSUPPORTED_DATAREP, message)
            }),
        }
    }
}

impl Representation {
    /// Returns whether the data in the file is not as in memory.
    pub fn is_converted(&self) -> bool {
        !matches!(self, Self::Native | Self::Internal)
    }

    /// Returns whether functions of the program convert the data.
    pub fn is_by_program(&self) -> bool {
        matches!(self, Self::Registered(_))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Native => "native",
            Self::Internal => "internal",
            Self::External32 => "external32",
            Self::Registered(registered) => &registered.name,
        }
    }
}
