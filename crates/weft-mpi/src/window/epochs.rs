//! Epochs of a window at one process (MPI-5.0 §12.5): which calls may come next, and which targets may be
//! accessed. A pure state machine. `open_epochs.rs` wraps it for the synchronizing calls.
//!
//! A wrong order of calls is an error of class `MPI_ERR_RMA_SYNC` whose text says which epoch is open. Where
//! the standard leaves open what many programs do, Weft allows it: after a fence with no operations behind
//! it, any other epoch may begin.

use crate::constants::MPI_ERR_RMA_SYNC;
use crate::error::{Error, Result};

/// A lock that this process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The target.
    pub rank: u32,
    /// The program has promised that no process holds a conflicting lock (`MPI_MODE_NOCHECK`), so Weft asked
    /// for none.
    pub unchecked: bool,
}

/// The access epoch that is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum AccessEpoch {
    #[default]
    None,
    /// Between fences. `used`: operations have begun since the last fence.
    Fence { used: bool },
    /// After `MPI_Win_start` of these targets.
    Started(Vec<u32>),
    /// After `MPI_Win_lock` of each of these targets.
    Locked(Vec<Held>),
    /// After `MPI_Win_lock_all`.
    LockedAll { unchecked: bool },
}

/// The epochs that are open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    access: AccessEpoch,
    /// The processes that `MPI_Win_post` named.
    exposed_to: Option<Vec<u32>>,
}

#[cold]
fn wrong(what: impl std::fmt::Display) -> Error {
    Error::new(MPI_ERR_RMA_SYNC, what.to_string())
}

impl Epochs {
    /// The open epochs, in words.
    fn state(&self) -> String {
        let access = match &self.access {
            AccessEpoch::None => "no access epoch is open".to_owned(),
            AccessEpoch::Fence { .. } => "the epoch behind MPI_Win_fence is open".to_owned(),
            AccessEpoch::Started(ranks) => format!("MPI_Win_start has opened an epoch for {} targets", ranks.len()),
            AccessEpoch::Locked(held) => {
                let ranks: Vec<String> = held.iter().take(8).map(|held| held.rank.to_string()).collect();
                format!("MPI_Win_lock has locked rank {}", ranks.join(", "))
            }
            AccessEpoch::LockedAll { .. } => "MPI_Win_lock_all has locked all ranks".to_owned(),
        };
        match &self.exposed_to {
            Some(ranks) => format!("{access}, and MPI_Win_post exposes the window to {} processes", ranks.len()),
            None => access,
        }
    }

    /// Returns whether another epoch may begin.
    fn is_free(&self) -> bool {
        matches!(self.access, AccessEpoch::None | AccessEpoch::Fence { used: false })
    }

    /// Notes a call of `MPI_Win_fence`. `goes_on`: operations may follow.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC`, as for all functions here.
    pub fn fence(&mut self, goes_on: bool) -> Result<()> {
        self.check_fence()?;
        self.access = if goes_on { AccessEpoch::Fence { used: false } } else { AccessEpoch::None };
        Ok(())
    }

    /// Checks that a fence may come now.
    ///
    /// # Errors
    /// An epoch of another kind is open.
    pub fn check_fence(&self) -> Result<()> {
        if matches!(self.access, AccessEpoch::None | AccessEpoch::Fence { .. }) && self.exposed_to.is_none() {
            return Ok(());
        }
        Err(wrong(format!("{}: close it before a fence", self.state())))
    }

    /// Checks that an operation on `rank` may begin now, and counts it as begun.
    ///
    /// # Errors
    /// No epoch for this target is open.
    #[inline]
    pub fn check_access(&mut self, rank: u32) -> Result<()> {
        match &mut self.access {
            AccessEpoch::Fence { used } => *used = true,
            AccessEpoch::LockedAll { .. } => {}
            AccessEpoch::Started(ranks) if ranks.contains(&rank) => {}
            AccessEpoch::Locked(held) if held.iter().any(|held| held.rank == rank) => {}
            _ => return Err(wrong(format!("rank {rank} cannot be accessed: {}", self.state()))),
        }
        Ok(())
    }

    /// Returns whether operations have begun behind a fence.
    #[inline]
    pub fn is_between_fences(&self) -> bool {
        matches!(self.access, AccessEpoch::Fence { used: true })
    }

    /// Checks that this process holds a lock on the passive target `rank`.
    ///
    /// # Errors
    /// This process holds no lock on it.
    #[inline]
    pub fn check_passive(&self, rank: u32) -> Result<()> {
        match &self.access {
            AccessEpoch::LockedAll { .. } => Ok(()),
            AccessEpoch::Locked(held) if held.iter().any(|held| held.rank == rank) => Ok(()),
            _ => Err(wrong(format!("rank {rank} is not locked: {}", self.state()))),
        }
    }

    /// The targets that this process has locked; `None`: all.
    ///
    /// # Errors
    /// It has locked no target.
    pub fn passive(&self) -> Result<Option<Vec<u32>>> {
        match &self.access {
            AccessEpoch::LockedAll { .. } => Ok(None),
            AccessEpoch::Locked(held) => Ok(Some(held.iter().map(|held| held.rank).collect())),
            _ => Err(wrong(format!("no target is locked: {}", self.state()))),
        }
    }

    /// Notes a call of `MPI_Win_start`.
    ///
    /// # Errors
    /// Another access epoch is open.
    pub fn start(&mut self, ranks: Vec<u32>) -> Result<()> {
        if !self.is_free() {
            return Err(wrong(format!("{}: close it before MPI_Win_start", self.state())));
        }
        self.access = AccessEpoch::Started(ranks);
        Ok(())
    }

    /// Notes a call of `MPI_Win_complete`; returns the targets.
    ///
    /// # Errors
    /// `MPI_Win_start` has not been called.
    pub fn complete(&mut self) -> Result<Vec<u32>> {
        match std::mem::take(&mut self.access) {
            AccessEpoch::Started(ranks) => Ok(ranks),
            other => {
                self.access = other;
                Err(wrong(format!("MPI_Win_complete without MPI_Win_start: {}", self.state())))
            }
        }
    }

    /// Notes a call of `MPI_Win_post`.
    ///
    /// # Errors
    /// The window is exposed already, or locks are held.
    pub fn post(&mut self, ranks: Vec<u32>) -> Result<()> {
        if self.exposed_to.is_some() || matches!(self.access, AccessEpoch::Fence { used: true }) {
            return Err(wrong(format!("{}: close it before MPI_Win_post", self.state())));
        }
        self.exposed_to = Some(ranks);
        Ok(())
    }

    /// The processes that `MPI_Win_wait` waits for.
    ///
    /// # Errors
    /// `MPI_Win_post` has not been called.
    pub fn exposed_to(&self) -> Result<Vec<u32>> {
        let missing = || wrong(format!("no exposure epoch is open: call MPI_Win_post first ({})", self.state()));
        self.exposed_to.clone().ok_or_else(missing)
    }

    /// Ends the exposure epoch: the processes that it was for have completed theirs.
    pub fn end_exposure(&mut self) {
        self.exposed_to = None;
    }

    /// Checks that `MPI_Win_lock` of `rank` may come now.
    ///
    /// # Errors
    /// This process has locked it already, or an epoch of another kind is open.
    pub fn check_lock(&self, rank: u32) -> Result<()> {
        match &self.access {
            AccessEpoch::Locked(held) if held.iter().any(|held| held.rank == rank) => {
                Err(wrong(format!("rank {rank} is locked by this process already")))
            }
            AccessEpoch::Locked(_) => Ok(()),
            _ if self.is_free() => Ok(()),
            _ => Err(wrong(format!("{}: close it before MPI_Win_lock", self.state()))),
        }
    }

    /// Notes a lock by `MPI_Win_lock`.
    pub fn lock(&mut self, held: Held) {
        match &mut self.access {
            AccessEpoch::Locked(all) => all.push(held),
            other => *other = AccessEpoch::Locked(vec![held]),
        }
    }

    /// The lock that `MPI_Win_unlock` of `rank` gives back.
    ///
    /// # Errors
    /// `MPI_Win_lock` has not locked it.
    pub fn held(&self, rank: u32) -> Result<Held> {
        let found = match &self.access {
            AccessEpoch::Locked(all) => all.iter().find(|held| held.rank == rank).copied(),
            _ => None,
        };
        found.ok_or_else(|| wrong(format!("rank {rank} is not locked by MPI_Win_lock: {}", self.state())))
    }

    /// Notes that `rank` is unlocked.
    pub fn unlock(&mut self, rank: u32) {
        if let AccessEpoch::Locked(all) = &mut self.access {
            all.retain(|held| held.rank != rank);
            if all.is_empty() {
                self.access = AccessEpoch::None;
            }
        }
    }

    /// Checks that `MPI_Win_lock_all` may come now.
    ///
    /// # Errors
    /// Another epoch is open.
    pub fn check_lock_all(&self) -> Result<()> {
        if self.is_free() { Ok(()) } else { Err(wrong(format!("{}: close it before MPI_Win_lock_all", self.state()))) }
    }

    /// Notes that `MPI_Win_lock_all` has locked all targets.
    pub fn lock_all(&mut self, unchecked: bool) {
        self.access = AccessEpoch::LockedAll { unchecked };
    }

    /// Checks that `MPI_Win_unlock_all` may come now, and returns whether locks must be given back.
    ///
    /// # Errors
    /// `MPI_Win_lock_all` has not been called.
    pub fn check_unlock_all(&self) -> Result<bool> {
        match self.access {
            AccessEpoch::LockedAll { unchecked } => Ok(!unchecked),
            _ => Err(wrong(format!("MPI_Win_unlock_all without MPI_Win_lock_all: {}", self.state()))),
        }
    }

    /// Notes that all targets are unlocked.
    pub fn unlock_all(&mut self) {
        self.access = AccessEpoch::None;
    }

    /// Checks that the window may be freed now.
    ///
    /// # Errors
    /// An epoch is open that only another call can close.
    pub fn check_free(&self) -> Result<()> {
        if matches!(self.access, AccessEpoch::None | AccessEpoch::Fence { .. }) && self.exposed_to.is_none() {
            return Ok(());
        }
        Err(wrong(format!("{}: close it before MPI_Win_free", self.state())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(rank: u32) -> Held {
        Held { rank, unchecked: false }
    }

    /// Nothing has been opened.   Expect: no access, and the sentence says why.
    #[test]
    fn there_is_no_access_outside_of_epochs() {
        let mut epochs = Epochs::default();
        let error = epochs.check_access(3).expect_err("an error");
        assert_eq!(error.class, MPI_ERR_RMA_SYNC);
        assert!(error.message.contains("rank 3") && error.message.contains("no access epoch"));
        assert!(epochs.check_passive(0).is_err() && epochs.passive().is_err());
        assert!(epochs.complete().is_err() && epochs.exposed_to().is_err() && epochs.check_unlock_all().is_err());
        assert!(epochs.held(0).is_err() && epochs.check_free().is_ok());
    }

    /// Fences, with and without operations between them.   Expect: other epochs may begin where nothing has
    /// been begun.
    #[test]
    fn a_fence_opens_access_to_all() {
        let mut epochs = Epochs::default();
        epochs.fence(true).unwrap();
        assert!(
            epochs.check_lock(0).is_ok() && epochs.check_lock_all().is_ok() && epochs.clone().start(vec![1]).is_ok()
        );
        epochs.check_access(7).unwrap();
        assert!(
            epochs.check_lock(0).is_err()
                && epochs.clone().start(vec![1]).is_err()
                && epochs.clone().post(vec![1]).is_err()
        );
        epochs.fence(false).unwrap();
        assert!(epochs.check_access(7).is_err());
    }

    /// Start and complete, post and wait.   Expect: only the group's members are accessible, and both may be
    /// open together.
    #[test]
    fn active_targets_are_those_of_the_group() {
        let mut epochs = Epochs::default();
        epochs.post(vec![0, 2]).unwrap();
        epochs.start(vec![1, 2]).unwrap();
        assert!(epochs.check_access(1).is_ok() && epochs.check_access(0).is_err());
        assert!(epochs.check_fence().is_err() && epochs.check_lock_all().is_err() && epochs.check_free().is_err());
        assert!(epochs.post(vec![1]).is_err() && epochs.start(vec![1]).is_err());
        assert_eq!(epochs.complete().unwrap(), [1, 2]);
        assert_eq!(epochs.exposed_to().unwrap(), [0, 2]);
        epochs.end_exposure();
        assert!(epochs.check_fence().is_ok());
    }

    /// Locks of several targets, then of all.   Expect: each once, and given back by the call that goes with
    /// it.
    #[test]
    fn passive_targets_are_those_that_are_locked() {
        let mut epochs = Epochs::default();
        epochs.check_lock(4).unwrap();
        epochs.lock(held(4));
        assert!(epochs.check_lock(4).is_err() && epochs.check_lock(5).is_ok() && epochs.check_lock_all().is_err());
        epochs.lock(held(5));
        assert!(epochs.check_access(5).is_ok() && epochs.check_access(6).is_err() && epochs.check_passive(4).is_ok());
        assert_eq!(epochs.passive().unwrap(), Some(vec![4, 5]));
        assert!(epochs.check_unlock_all().is_err() && epochs.check_free().is_err());
        epochs.unlock(4);
        assert!(epochs.held(4).is_err());
        epochs.unlock(5);
        epochs.lock_all(true);
        assert!(epochs.held(5).is_err() && epochs.check_access(9).is_ok());
        assert_eq!((epochs.passive().unwrap(), epochs.check_unlock_all().unwrap()), (None, false));
        epochs.unlock_all();
        assert_eq!(epochs, Epochs::default());
    }
}
