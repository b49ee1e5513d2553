//! Open files (MPI-5.0 §14) as objects: what a process knows of a file between `MPI_File_open` and
//! `MPI_File_close`. `files.rs` opens and uses them.

pub mod hints;
pub mod mode;
pub mod representation;

use std::sync::Arc;

use weft_core::file_view::View;
use weft_net::files::Home;

use crate::constants::*;
use crate::description::Old;
use crate::error::{Error, Result};
use hints::Hints;
use mode::Mode;
use representation::Representation;

/// The view of a process on a file (MPI-5.0 §14.3). Accesses that are under way keep the view with which they
/// began.
pub struct FileView {
    /// The bytes of the file, in the file's representation.
    pub view: View,
    /// The displacement, the etype and the filetype, as the program gave them.
    pub displacement: i64,
    /// The etype.
    pub etype: Old,
    /// The filetype.
    pub filetype: Old,
    /// The representation of the data in the file.
    pub representation: Representation,
}

/// The operation that a split collective access has begun (MPI-5.0 §14.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The access that was begun, whose end is due.
    pub kind: SplitKind,
    /// The request of the operation.
    pub request: usize,
    /// The address of the program's buffer.
    pub buffer: usize,
}

/// The split collective accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitKind {
    /// `MPI_File_read_all_begin`.
    ReadAll,
    /// `MPI_File_write_all_begin`.
    WriteAll,
    /// `MPI_File_read_at_all_begin`.
    ReadAtAll,
    /// `MPI_File_write_at_all_begin`.
    WriteAtAll,
    /// `MPI_File_read_ordered_begin`.
    ReadOrdered,
    /// `MPI_File_write_ordered_begin`.
    WriteOrdered,
}

impl SplitKind {
    /// The name of the procedures without `_begin` and `_end`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadAll => "MPI_File_read_all",
            Self::WriteAll => "MPI_File_write_all",
            Self::ReadAtAll => "MPI_File_read_at_all",
            Self::WriteAtAll => "MPI_File_write_at_all",
            Self::ReadOrdered => "MPI_File_read_ordered",
            Self::WriteOrdered => "MPI_File_write_ordered",
        }
    }
}

/// An open file.
pub struct File {
    /// Handle of the window of one number, at rank 0: the shared file pointer, in etypes (MPI-5.0 §14.4.4).
    /// The window's communicator is that of the file.
    pub window: usize,
    /// Handle of the file's own communicator.
    pub communicator: usize,
    /// The file of the system. Accesses under way keep it.
    pub body: Arc<weft_net::files::File>,
    /// The access mode.
    pub mode: Mode,
    /// Handle of its error handler.
    pub error_handler: usize,
    /// The view of this process.
    pub view: Arc<FileView>,
    /// The individual file pointer, in etypes.
    pub position: u64,
    /// Atomic mode (MPI-5.0 §14.6.1).
    pub is_atomic: bool,
    /// Hints that are in effect.
    pub hints: Hints,
    /// The split collective access that has begun, if one has.
    pub split: Option<Split>,
    /// The kind of its file system, as rank 0 has told.
    pub home: Home,
}

impl File {
    /// Checks that the program may read.
    ///
    /// # Errors
    /// `MPI_ERR_ACCESS`.
    pub fn check_reads(&self) -> Result<()> {
        if self.mode.reads() {
            return Ok(());
        }
        let message = format!("{} was opened with MPI_MODE_WRONLY, and cannot be read", self.body.path().display());
        Err(Error::new(MPI_ERR_ACCESS, message))
    }

    /// Checks that the program may write.
    ///
    /// # Errors
    /// `MPI_ERR_READ_ONLY`; `MPI_ERR_IO` when etypes of the view share bytes (MPI-5.0 §14.3).
    pub fn check_writes(&self) -> Result<()> {
        self.check_changes()?;
        if self.view.view.overlaps() {
            let message = "the view has a byte of the file twice, so it is for reading only";
            return Err(Error::new(MPI_ERR_IO, message));
        }
        Ok(())
    }

    /// Checks that the program may change the file.
    ///
    /// # Errors
    /// `MPI_ERR_READ_ONLY`.
    pub fn check_changes(&self) -> Result<()> {
        if self.mode.writes() {
            return Ok(());
        }
        let message = format!("{} was opened with MPI_MODE_RDONLY, and cannot be written", self.body.path().display());
        Err(Error::new(MPI_ERR_READ_ONLY, message))
    }

    /// Checks that the file has positions: that it was not opened with `MPI_MODE_SEQUENTIAL` (MPI-5.0
    /// §14.2.1).
    ///
    /// # Errors
    /// `MPI_ERR_UNSUPPORTED_OPERATION`.
    pub fn check_positions(&self) -> Result<()> {
        if !self.mode.is_sequential() {
            return Ok(());
        }
        let message =
            "the file was opened with MPI_MODE_SEQUENTIAL: only accesses by the shared file pointer are allowed";
        Err(Error::new(MPI_ERR_UNSUPPORTED_OPERATION, message))
    }

    /// Checks that no split collective access is open.
    ///
    /// # Errors
    /// `MPI_ERR_IO`.
    pub fn check_no_split(&self) -> Result<()> {
        match self.split {
            None => Ok(()),
            Some(split) => {
                let message = format!(
                    "{}_begin has begun an access to this file: end it with {0}_end before another collective \
                     access (MPI-5.0 §14.4.5)",
                    split.kind.name()
                );
                Err(Error::new(MPI_ERR_IO, message))
            }
        }
    }
}
