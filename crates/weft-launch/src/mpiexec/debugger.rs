//! The interface by which `mpiexec` shows a job to debuggers. The executable implements it.

use std::sync::OnceLock;

/// The view of a job for debuggers.
pub trait Debugger: Sync {
    /// Shows that all ranks run: the host and program of each, and the number of its process there. Ranks
    /// wait in MPI_Init until this has returned, if they call it, because the same thread lets them go on.
    fn show_ranks(&self, ranks: Vec<(String, Vec<u8>, i32)>);

    /// Shows that the job is about to be ended, for this reason.
    fn show_abort(&self, reason: &str);
}

static DEBUGGER: OnceLock<&'static dyn Debugger> = OnceLock::new();

/// Sets the debugger. The first one of a process stays.
pub(super) fn use_debugger(debugger: &'static dyn Debugger) {
    DEBUGGER.get_or_init(|| debugger);
}

/// See [`Debugger::show_ranks`].
pub(super) fn show_ranks(ranks: impl Iterator<Item = (String, Vec<u8>, i32)>) {
    if let Some(debugger) = DEBUGGER.get() {
        debugger.show_ranks(ranks.collect());
    }
}

/// See [`Debugger::show_abort`].
pub(super) fn show_abort(reason: &str) {
    if let Some(debugger) = DEBUGGER.get() {
        debugger.show_abort(reason);
    }
}
