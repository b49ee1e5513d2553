//! The epochs of a window, and the accesses that they allow to calls without the lock of the process. The
//! synchronizing calls of `one_sided/` change it.

use std::ops::Deref;

use super::direct::Direct;
use super::{Epochs, Held};
use crate::error::Result;

/// The epochs of a window, as [`Epochs`] has them. Each change of them is told to the window's entry in
/// `direct`, if it has one.
#[derive(Debug, Default)]
pub struct OpenEpochs {
    epochs: Epochs,
    direct: Option<&'static Direct>,
}

impl Deref for OpenEpochs {
    type Target = Epochs;

    fn deref(&self) -> &Epochs {
        &self.epochs
    }
}

impl Drop for OpenEpochs {
    fn drop(&mut self) {
        if let Some(direct) = self.direct {
            direct.close();
        }
    }
}

impl OpenEpochs {
    /// Sets the entry that is told of every epoch from now on. No epoch is open yet.
    pub(crate) fn tell(&mut self, direct: Option<&'static Direct>) {
        self.direct = direct;
    }

    /// Does the same as [`Epochs::check_access`].
    ///
    /// # Errors
    /// As there; the same holds for all functions here.
    #[inline]
    pub fn check_access(&mut self, rank: u32) -> Result<()> {
        self.epochs.check_access(rank)?;
        // The first operation behind a fence counts, because other epochs may not begin after it. Later
        // operations need not be counted.
        if let Some(direct) = self.direct.filter(|_| self.epochs.is_between_fences()) {
            direct.begin_all(false);
        }
        Ok(())
    }

    /// Does the same as [`Epochs::fence`].
    pub fn fence(&mut self, goes_on: bool) -> Result<()> {
        self.epochs.fence(goes_on)?;
        self.direct.inspect(|direct| direct.end_all());
        Ok(())
    }

    /// Does the same as [`Epochs::start`], when all `ranks` have called `MPI_Win_post`, or need not have.
    pub fn start(&mut self, ranks: Vec<u32>) -> Result<()> {
        self.epochs.start(ranks)
    }

    /// Opens access to the targets of [`Self::start`].
    pub fn begin_started(&mut self, ranks: &[u32]) {
        self.direct.inspect(|direct| ranks.iter().for_each(|rank| direct.begin(*rank, false)));
    }

    /// Does the same as [`Epochs::complete`].
    pub fn complete(&mut self) -> Result<Vec<u32>> {
        let ranks = self.epochs.complete()?;
        self.direct.inspect(|direct| ranks.iter().for_each(|rank| direct.end(*rank)));
        Ok(ranks)
    }

    /// Does the same as [`Epochs::post`].
    pub fn post(&mut self, ranks: Vec<u32>) -> Result<()> {
        self.epochs.post(ranks)
    }

    /// Does the same as [`Epochs::end_exposure`].
    pub fn end_exposure(&mut self) {
        self.epochs.end_exposure();
    }

    /// Does the same as [`Epochs::lock`].
    pub fn lock(&mut self, held: Held) {
        self.epochs.lock(held);
        self.direct.inspect(|direct| direct.begin(held.rank, true));
    }

    /// Does the same as [`Epochs::unlock`].
    pub fn unlock(&mut self, rank: u32) {
        self.epochs.unlock(rank);
        self.direct.inspect(|direct| direct.end(rank));
    }

    /// Does the same as [`Epochs::lock_all`].
    pub fn lock_all(&mut self, unchecked: bool) {
        self.epochs.lock_all(unchecked);
        self.direct.inspect(|direct| direct.begin_all(true));
    }

    /// Does the same as [`Epochs::unlock_all`].
    pub fn unlock_all(&mut self) {
        self.epochs.unlock_all();
        self.direct.inspect(|direct| direct.end_all());
    }
}
