//! What a process asks of its process manager when it spawns processes (`MPI_Comm_spawn`, MPI-5.0 §11.8).

use crate::LaunchError;

/// A program of a spawn (MPI-5.0 §11.8.2, §11.8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnProgram {
    /// The name of the program.
    pub command: String,
    /// The arguments that follow the name.
    pub arguments: Vec<String>,
    /// The number of processes that are wanted, at least one.
    pub processes: u32,
    /// The info keys and their values. A process manager leaves out keys that it does not know.
    pub info: Vec<(String, String)>,
}

/// What has become of a spawn that the process manager has carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawned {
    /// The number of the spawned job, for [`spawned_end`](super::ProcessManager::spawned_end).
    pub number: u32,
    /// For each process that was wanted, in the order of the programs: it runs, or half a sentence with the
    /// reason why it does not. Either all of them run, or none.
    pub outcomes: Vec<Result<(), String>>,
}

/// The error of a process manager that starts no further processes.
pub(super) fn cannot_spawn<T>(manager: &str) -> Result<T, LaunchError> {
    Err(LaunchError::CannotSpawn(format!("{manager} starts no further processes for a program that runs")))
}
