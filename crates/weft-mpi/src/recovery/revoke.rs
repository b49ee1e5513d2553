//! Revocation of communicators, windows and files: everything that waits on them ends, and every other
//! process hears of it.
//!
//! A revoked communicator addresses nobody: its group for point-to-point operations is empty, so that calls
//! find out where they look for the peer, and cost nothing more before. Its collectives find out as they
//! begin. Windows and files are revoked by their own communicators.

use weft_engine::messages::Bar;
use weft_plan::agreement::Ranks;
use weft_plan::revocation::neighbours;

use crate::collective::CollectiveScope;
use crate::context::RECOVERY_CONTEXT;
use crate::error::{Error, Result};
use crate::object::{Communicator, Revocation};
use crate::process::{Process, with};

/// The most revoked contexts that are kept of communicators which this process does not know yet.
const EARLY_MAX: usize = 1024;

impl Process {
    /// Revokes a communicator here, and tells others.
    fn revoke(&mut self, communicator: usize) -> Result<()> {
        let own = self.own();
        let object = self.objects.communicator_mut(communicator)?;
        if object.revocation.is_some() {
            return Ok(());
        }
        let nobody = object.group.derive(Vec::new(), own);
        let addressed = std::mem::replace(&mut object.addressed, nobody);
        object.revocation = Some(Box::new(Revocation { addressed, told: Ranks::new() }));
        let context = object.context;
        self.recovery.has_revoked = true;
        self.objects.windows.for_each_mut(&mut |window| {
            if window.communicator == communicator {
                window.parts.clear();
            }
        });
        self.spread_revocation(communicator);
        self.interrupt(context);
        Ok(())
    }

    /// Tells the neighbours of this process that a communicator is revoked, if it is, and they have not been
    /// told.
    pub(super) fn spread_revocation(&mut self, communicator: usize) {
        let Some(object) = self.objects.find_communicator(communicator) else { return };
        let Some(revocation) = &object.revocation else { return };
        let (group, rank) = object.everybody();
        let failures = self.failures_of(object);
        let rank_of = |peer| group.members.iter().position(|member| member == peer).map(|rank| rank as u32);
        let failed = Ranks::of(failures.iter().filter_map(rank_of));
        let due = neighbours(rank, group.size(), &failed);
        let due: Vec<u32> = due.iter().filter(|rank| !revocation.told.contains(*rank)).collect();
        let (context, group) = (object.context, group.clone());
        let Self { objects, engine: Some(engine), .. } = self else { return };
        for rank in &due {
            engine.tell_revoked(group.members[*rank as usize], context);
        }
        engine.flush();
        if let Ok(Communicator { revocation: Some(revocation), .. }) = objects.communicator_mut(communicator) {
            revocation.told.unite(&Ranks::of(due));
        }
    }

    /// Ends everything that waits in the contexts of a communicator, except its agreements.
    fn interrupt(&mut self, context: u32) {
        let contexts = context..context + RECOVERY_CONTEXT;
        let error = Error::revoked();
        let is_there = |scope: &CollectiveScope| contexts.contains(&scope.context);
        let found = self.collectives.iter().filter(|(_, running)| is_there(running.cursor.scope()));
        let handles: Vec<usize> = found.map(|(handle, _)| handle).collect();
        for handle in handles {
            if let Some(running) = self.collectives.remove(handle) {
                self.finish_collective(running, Some(error.clone()));
            }
        }
        while let Some(at) = self.exchanges.under_way.iter().position(|exchange| is_there(&exchange.scope)) {
            let exchange = self.exchanges.under_way.swap_remove(at);
            if let Some(engine) = &mut self.engine {
                exchange.requests.iter().for_each(|request| engine.abandon(*request));
            }
            (exchange.then)(self, Some(error.clone()));
        }
        let Some(engine) = &mut self.engine else { return };
        engine.interrupt(&contexts, &error);
        engine.bar(context, Bar::Revoked);
        engine.one_sided().interrupt(&contexts, &error);
    }

    /// Takes another process's word that the communicator with this first context is revoked.
    pub(super) fn heed_revocation(&mut self, context: u32) {
        let found = self.objects.communicators.iter().find(|(_, object)| object.context == context);
        match found.map(|(handle, _)| handle) {
            Some(handle) => {
                // The communicator is there.
                let _ = self.revoke(handle);
            }
            None if self.contexts.is_over(context) => {}
            None if self.recovery.early.len() < EARLY_MAX => self.recovery.early.push(context),
            None => {}
        }
    }

    /// Revokes a communicator that has just got its context, if others have revoked it already; and warns
    /// receives from any source if a member has failed.
    pub(crate) fn begin_recovery_of(&mut self, communicator: usize) {
        self.bar_if_failed(communicator);
        let Some(context) = self.objects.find_communicator(communicator).map(|object| object.context) else { return };
        if let Some(at) = self.recovery.early.iter().position(|early| *early == context) {
            self.recovery.early.swap_remove(at);
            let _ = self.revoke(communicator);
        }
    }
}

/// Revokes a communicator (`MPIX_Comm_revoke`).
///
/// # Errors
/// `MPI_ERR_COMM`.
pub fn revoke(communicator: usize) -> Result<()> {
    with(|process| process.revoke(communicator))
}

/// Returns whether a communicator is revoked, as far as this process knows.
///
/// # Errors
/// `MPI_ERR_COMM`.
pub fn is_revoked(communicator: usize) -> Result<bool> {
    with(|process| {
        process.progress();
        Ok(process.objects.communicator(communicator)?.revocation.is_some())
    })
}

/// Revokes a window (`MPIX_Win_revoke`).
///
/// # Errors
/// `MPI_ERR_WIN`.
pub fn revoke_window(window: usize) -> Result<()> {
    with(|process| {
        let communicator = process.objects.window(window)?.communicator;
        process.revoke(communicator)
    })
}

/// Returns whether a window is revoked, as far as this process knows.
///
/// # Errors
/// `MPI_ERR_WIN`.
pub fn is_window_revoked(window: usize) -> Result<bool> {
    let communicator = with(|process| Ok::<_, Error>(process.objects.window(window)?.communicator))?;
    is_revoked(communicator)
}

/// Revokes a file (`MPIX_File_revoke`).
///
/// # Errors
/// `MPI_ERR_FILE`.
pub fn revoke_file(file: usize) -> Result<()> {
    with(|process| {
        let communicator = process.objects.file(file)?.communicator;
        process.revoke(communicator)
    })
}

/// Returns whether a file is revoked, as far as this process knows.
///
/// # Errors
/// `MPI_ERR_FILE`.
pub fn is_file_revoked(file: usize) -> Result<bool> {
    let communicator = with(|process| Ok::<_, Error>(process.objects.file(file)?.communicator))?;
    is_revoked(communicator)
}
