//! Notices of the process manager: the death of a process becomes the error of each call that waits for it,
//! at once.
//!
//! Without notices, processes find out by themselves: neighbours of a node by looks at the system, others by
//! the silence of the peer (docs/design/progress.md).

use weft_launch::{Notice, Notices, ProcessManager, exit_now, say};
use weft_net::watch::spawn_without_signals;

use super::warn;
use crate::process;

/// The exit code of a process that ends because its process manager is gone, or another process has called
/// `MPI_Abort`.
const EXIT_WITH_JOB: i32 = 1;

/// Starts a thread that hears the notices, if the process manager gives any. The thread ends when this
/// process leaves its job.
pub(super) fn listen(manager: &mut dyn ProcessManager) {
    let rank = manager.rank();
    let Some(notices) = manager.notices() else { return };
    if let Err(error) = spawn_without_signals("weft-notices", move || hear(notices, rank)) {
        warn(rank, &format!("a peer that dies is noticed by its silence only: no thread for notices: {error}"));
    }
}

fn hear(notices: Notices, rank: u32) {
    for notice in notices {
        match notice {
            Notice::Failed { rank, reason } => process::with(|process| process.hear_of_death(rank, reason)),
            // The one that has called it has said why.
            Notice::Aborted => exit_now(EXIT_WITH_JOB),
            Notice::ManagerGone => {
                say(&format!("weft: rank {rank}: the launcher of this job is gone, and this process ends with it"));
                exit_now(EXIT_WITH_JOB);
            }
        }
    }
}
