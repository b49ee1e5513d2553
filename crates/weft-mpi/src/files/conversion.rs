//! The conversion of data between memory and the representation of a file (MPI-5.0 §14.5).

use weft_core::layout::{Element, Layout};

use crate::constants::*;
use crate::datatypes::{Old, rebuilt};
use crate::error::{Error, Result};
use crate::external;
use crate::file::representation::Representation;
use crate::memory::{SharedBuffer, UserData};
use crate::predefined;

/// The layout of a datatype in the file.
///
/// # Errors
/// The datatype has no such representation, or a function of the program has failed.
pub(super) fn layout(representation: &Representation, of: &Old) -> Result<Layout> {
    match representation {
        Representation::Native | Representation::Internal => Ok(of.layout.clone()),
        Representation::External32 => external::layout(of),
        Representation::Registered(registered) => rebuilt(&of.constituent, &|handle| {
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
        let whole = bytes.checked_div(item).map_or(0, |items| items.min(self.count));
        let of_rest = match layout.homogeneous() {
            Some(_) if whole < self.count && item > 0 => (bytes - whole * item) * layout.elements() / item,
            _ => 0,
        };
        let native = layout.size() / layout.elements().max(1) * of_rest;
        (whole * layout.elements() + of_rest, whole * layout.size() + native)
    }
}

/// The data of an access as it is in the file, and the way from there to the program's buffer.
#[derive(Clone)]
pub(crate) enum Converted {
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
    pub(crate) fn new(representation: &Representation, items: Items, writes: bool) -> Result<Self> {
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
                let item = layout(representation, &items.datatype)?.size();
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
    pub(crate) fn is_by_program(&self) -> bool {
        matches!(self, Self::Other { by, .. } if by.is_by_program())
    }

    /// The data as it is in the file.
    pub(crate) fn data(&self) -> UserData {
        match self {
            Self::Same(data) => data.clone(),
            Self::Other { buffer, .. } => buffer.describe_all(),
        }
    }

    /// Ends a write of all of the data: the bytes of the program's buffer.
    pub(crate) fn written(&self) -> u64 {
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
    pub(crate) fn read(&self, bytes: u64) -> Result<u64> {
        let Self::Other { buffer, items, by } = self else { return Ok(bytes) };
        match by {
            Representation::Registered(registered) => {
                let (elements, native) = items.elements_in(bytes, layout(by, &items.datatype)?.size());
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
/// As for `layout`.
pub fn file_extent(representation: &Representation, of: &Old) -> Result<i64> {
    match (representation, &of.constituent) {
        (Representation::Registered(registered), crate::object::Constituent::Predefined(handle))
            if predefined::element(*handle).is_some() =>
        {
            registered.conversion.file_extent(*handle)
        }
        _ => Ok(layout(representation, of)?.extent()),
    }
}
