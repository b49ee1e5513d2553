//! The representation of data in a file (MPI-5.0 §14.5), and the conversion between it and memory.

use std::sync::Arc;

use weft_core::layout::{Element, Layout};

use crate::constants::*;
use crate::datatypes::{Old, rebuilt};
use crate::error::{Error, Result};
use crate::external;
use crate::memory::{SharedBuffer, UserData};
use crate::predefined;

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

    /// The layout of a datatype in the file.
    ///
    /// # Errors
    /// The datatype has no such representation, or a function of the program has failed.
    pub fn layout(&self, of: &Old) -> Result<Layout> {
        match self {
            Self::Native | Self::Internal => Ok(of.layout.clone()),
            Self::External32 => external::layout(of),
            Self::Registered(registered) => rebuilt(&of.constituent, &|handle| {
                let extent = registered.conversion.file_extent(handle)?;
                let bytes = u64::try_from(extent).map_err(|_| {
                    let message = format!("the extent function of {} returned {extent}", registered.name);
                    Error::new(MPI_ERR_CONVERSION, message)
                })?;
                let byte = Layout::element(Element::Byte);
                Layout::contiguous(bytes, &byte).map_err(|why| Error::new(MPI_ERR_CONVERSION, why.to_string()))
            }),
        }
    }
}

/// The program's buffer of an access: `count` items of a datatype.
#[derive(Clone)]
pub struct Items {
    /// The memory.
    pub data: UserData,
    /// The address of the first item.
    pub address: usize,
    /// The handle of the datatype.
    pub handle: usize,
    /// The datatype.
    pub datatype: Old,
    /// The number of items.
    pub count: u64,
}

impl Items {
    /// The number of basic elements.
    fn elements(&self) -> u64 {
        self.count * self.datatype.layout.elements()
    }

    /// The basic elements that the first `bytes` bytes in the file hold, and their bytes in memory; an item
    /// has `item` bytes in the file. Of an item of different elements only the whole counts.
    fn elements_in(&self, bytes: u64, item: u64) -> (u64, u64) {
        let layout = &self.datatype.layout;
        let whole = if item == 0 { 0 } else { (bytes / item).min(self.count) };
        let of_rest = match layout.homogeneous() {
            Some(_) if whole < self.count => (bytes - whole * item) * layout.elements() / item,
            _ => 0,
        };
        let native = layout.size() / layout.elements().max(1) * of_rest;
        (whole * layout.elements() + of_rest, whole * layout.size() + native)
    }
}

/// The data of an access as it is in the file, and the way from there to the program's buffer.
#[derive(Clone)]
pub enum Converted {
    /// The data of memory is that of the file.
    Same(UserData),
    /// The data is converted in a buffer of the library.
    Other {
        /// The data as in the file.
        buffer: SharedBuffer,
        /// The program's buffer.
        items: Items,
        /// How it is converted.
        by: Representation,
    },
}

impl Converted {
    /// The data of a write, converted; or the room for the data of a read.
    ///
    /// # Errors
    /// A number does not fit, or a function of the program has failed; `MPI_ERR_NO_MEM`.
    pub fn new(representation: &Representation, items: Items, writes: bool) -> Result<Self> {
        match representation {
            Representation::Native | Representation::Internal => Ok(Self::Same(items.data)),
            Representation::External32 => {
                let bytes = external::packed_size(&items.datatype, items.count)?;
                let buffer = SharedBuffer::new(bytes as usize);
                if writes {
                    let mut native = vec![0; items.data.len() as usize];
                    items.data.read(0, &mut native);
                    buffer.write(0, &external::encode(&items.datatype, items.count, &native)?);
                }
                Ok(Self::Other { buffer, items, by: representation.clone() })
            }
            Representation::Registered(registered) => {
                let (reads_converted, writes_converted) = registered.conversion.converts();
                let is_converted = if writes { writes_converted } else { reads_converted };
                if !is_converted {
                    return Ok(Self::Same(items.data));
                }
                let item = representation.layout(&items.datatype)?.size();
                let bytes = item.checked_mul(items.count).filter(|bytes| *bytes < 1 << 40);
                let bytes = bytes.ok_or_else(|| Error::new(MPI_ERR_NO_MEM, "the data is too large to be converted"))?;
                let buffer = SharedBuffer::new(bytes as usize);
                if writes {
                    let count = items.elements();
                    buffer
                        .with_bytes_mut(|file| registered.conversion.write(items.address, items.handle, count, file))?;
                }
                Ok(Self::Other { buffer, items, by: representation.clone() })
            }
        }
    }

    /// Returns whether functions of the program convert the data.
    pub fn is_by_program(&self) -> bool {
        matches!(self, Self::Other { by, .. } if by.is_by_program())
    }

    /// The data as it is in the file.
    pub fn data(&self) -> UserData {
        match self {
            Self::Same(data) => data.clone(),
            Self::Other { buffer, .. } => buffer.describe_all(),
        }
    }

    /// Ends a write of all of the data: the bytes of the program's buffer.
    pub fn written(&self) -> u64 {
        match self {
            Self::Same(data) => data.len(),
            Self::Other { items, .. } => items.data.len(),
        }
    }

    /// Ends a read of the first `bytes` bytes: brings them to the program's buffer, and returns how many
    /// bytes of that have changed.
    ///
    /// # Errors
    /// A function of the program has failed.
    pub fn read(&self, bytes: u64) -> Result<u64> {
        let Self::Other { buffer, items, by } = self else { return Ok(bytes) };
        match by {
            Representation::Registered(registered) => {
                let (elements, native) = items.elements_in(bytes, by.layout(&items.datatype)?.size());
                buffer
                    .with_bytes_mut(|file| registered.conversion.read(items.address, items.handle, elements, file))?;
                Ok(native)
            }
            _ => {
                let native = buffer
                    .with_bytes(|file| external::decode(&items.datatype, items.count, &file[..bytes as usize]))?;
                items.data.write(0, &native);
                Ok(native.len() as u64)
            }
        }
    }
}

/// The bytes from one item to the next in the file (`MPI_File_get_type_extent`, MPI-5.0 §14.5.1).
///
/// # Errors
/// As for [`Representation::layout`].
pub fn file_extent(representation: &Representation, of: &Old) -> Result<i64> {
    match (representation, &of.constituent) {
        (Representation::Registered(registered), crate::object::Constituent::Predefined(handle))
            if predefined::element(*handle).is_some() =>
        {
            registered.conversion.file_extent(*handle)
        }
        _ => Ok(representation.layout(of)?.extent()),
    }
}
