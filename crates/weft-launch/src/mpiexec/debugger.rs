//! What debuggers hear of a job: the executable says how.

use std::sync::OnceLock;

/// Shows a job to debuggers.
pub trait Debugger: Sync {
    /// All ranks run: on which host, which program, and the number of its process there. They wait in
    /// MPI_Init until this has returned, if they call it, because the same thread lets them go on.
    fn show_ranks(&self, ranks: Vec<(String, Vec<u8>, i32)>);

    /// The job is about to be ended, for this reason.
    fn show_abort(&self, reason: &str);
}

static DEBUGGER: OnceLock<&'static dyn Debugger> = OnceLock::new();

/// The first of a process stays.
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
