//! Windows of one-sided communication (MPI-5.0 §12) as objects: the parts that their processes contribute,
//! and the epochs that are open. `one_sided.rs` makes and uses them.

pub mod direct;
mod epochs;
mod open_epochs;

use weft_net::shared::WindowMemory;

use crate::constants::*;
use crate::description::{Attributes, Info};
use crate::error::{Error, Result};

pub use epochs::{Epochs, Held};
pub use open_epochs::OpenEpochs;

/// The part that one process contributes to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The length in bytes; 0 for a dynamic window.
    pub size: u64,
    /// Bytes of one step of a displacement.
    pub disp_unit: u64,
    /// The address in the process that has it.
    pub(crate) base: u64,
    /// The address in this process; 0 when it is not mapped here.
    pub here: usize,
}

/// Values that attributes point to (MPI-5.0 §12.2.6).
#[derive(Debug)]
pub struct Facts {
    /// `MPI_WIN_SIZE`.
    pub size: isize,
    /// `MPI_WIN_DISP_UNIT`.
    pub disp_unit: i32,
    /// `MPI_WIN_CREATE_FLAVOR`.
    pub flavor: i32,
    /// `MPI_WIN_MODEL`.
    pub model: i32,
}

/// A window of one-sided communication, as the program has it.
pub struct Window {
    /// Handle of its own communicator.
    pub communicator: usize,
    /// The number in the engine.
    pub index: usize,
    /// The rank of this process.
    pub rank: u32,
    /// The values that attributes point to; they never move.
    pub facts: Box<Facts>,
    /// The part of each process.
    pub parts: Vec<Part>,
    /// Epochs that are open.
    pub epochs: OpenEpochs,
    /// Handle of its error handler.
    pub error_handler: usize,
    /// Set by `MPI_Win_set_name`.
    pub name: String,
    /// Cached by the program.
    pub attributes: Attributes,
    /// Hints that are in effect.
    pub info: Info,
    /// The memory that the library has allocated for it.
    pub(crate) memory: Option<WindowMemory>,
    /// The library's own window of one number, which lies at another process: nobody accesses this process.
    pub(crate) is_elsewhere: bool,
}

impl Window {
    /// The part of the process `rank`; `None` for `MPI_PROC_NULL`.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`.
    #[inline]
    pub fn target(&self, rank: i32) -> Result<Option<(u32, &Part)>> {
        match usize::try_from(rank).ok().and_then(|rank| self.parts.get(rank)) {
            Some(part) => Ok(Some((rank as u32, part))),
            None => self.nobody(rank),
        }
    }

    /// The target of a rank that has no part.
    #[cold]
    fn nobody(&self, rank: i32) -> Result<Option<(u32, &Part)>> {
        self.check_not_revoked()?;
        if rank == MPI_PROC_NULL { Ok(None) } else { Err(wrong_rank(rank, self.parts.len())) }
    }

    /// Checks that it has not been revoked. A revoked window has no parts.
    ///
    /// # Errors
    /// `MPIX_ERR_REVOKED`.
    pub fn check_not_revoked(&self) -> Result<()> {
        if self.parts.is_empty() { Err(Error::revoked()) } else { Ok(()) }
    }

    /// Returns whether it was made by `MPI_Win_create_dynamic`.
    pub fn is_dynamic(&self) -> bool {
        self.facts.flavor == MPI_WIN_FLAVOR_DYNAMIC
    }
}

#[cold]
fn wrong_rank(rank: i32, size: usize) -> Error {
    let message = format!("the target rank is {rank}, but the ranks of the window are 0 to {}", size - 1);
    Error::new(MPI_ERR_RANK, message)
}
