//! The requests of an MPI process to the process manager that started it, whichever that is. The library
//! (`weft_mpi::start`) uses it to join and leave a job.
//!
//! [`process_manager`] finds the process manager. Each kind has its own file:
//!
//! - [`weft`]: Weft's `mpiexec`;
//! - [`pmi1`]: all others that speak PMI-1.1;
//! - [`pmix`]: those that speak PMIx;
//! - [`slurm`]: tasks of `srun` that have no process manager;
//! - [`singleton`]: a process that is alone.
//!
//! A new kind needs a file that implements [`ProcessManager`], and a line in the list of candidates of
//! [`detect`].

mod detect;
mod link;
mod notices;
mod pmi1;
mod pmix;
mod singleton;
mod slurm;
#[cfg(test)]
mod tests;
mod weft;

pub(crate) use slurm::{foreign_seeds as step_seeds, take_foreign_apart as take_step_apart};

use crate::{JobSecret, LaunchError, SpawnProgram, Spawned, sys};
pub use notices::{Notice, Notices};
use std::fmt::Debug;

/// Connects to the process manager of this process's job, which the environment names. From now on this
/// process belongs to the job.
///
/// # Errors
/// A launcher of several tasks offers nothing by which they find each other; its variables make no sense; it
/// does not answer.
pub fn process_manager() -> Result<Box<dyn ProcessManager>, LaunchError> {
    detect::look(&|name| std::env::var(name).ok())?.connect()
}

/// The connection of one process to the process manager of its job.
///
/// Requests block until the process manager answers. If it is gone, every request ends with
/// [`LaunchError::Gone`], so nothing blocks for ever. A key is put once; a `get` sees values that were put
/// before the last [`fence`](Self::fence) or [`exchange`](Self::exchange). Abilities that not every process
/// manager has are an `Option`.
pub trait ProcessManager: Debug + Send {
    /// The rank of this process in `MPI_COMM_WORLD`.
    fn rank(&self) -> u32;

    /// The number of processes of the job.
    fn size(&self) -> u32;

    /// The number of this program, of several on one command line (`MPI_APPNUM`, MPI-5.0 §11.10.3), if known.
    fn appnum(&self) -> Option<i32>;

    /// The number of processes that could run (`MPI_UNIVERSE_SIZE`, MPI-5.0 §11.10.1), if known.
    fn universe_size(&self) -> Option<i32>;

    /// The name of the job, the same in all its processes. Nobody can guess a name that Weft made; other
    /// process managers may use short names that repeat.
    fn job_name(&self) -> &str;

    /// Sixteen random bytes that only the processes of the job know. `None`: the process manager makes no
    /// secrets. Then rank 0 makes one and sends it by [`exchange`](Self::exchange).
    fn secret(&self) -> Option<JobSecret>;

    /// The ranks that were started on this process's host, including this one, in order; `None` if unknown. A
    /// hint only: whether these ranks can share memory is another question.
    fn local_ranks(&mut self) -> Option<Vec<u32>>;

    /// Stores a value under a key of the job. The others see it after the next fence.
    ///
    /// # Errors
    /// The key or the value is too long, the key exists, or the process manager is gone.
    fn put(&mut self, key: &str, value: &str) -> Result<(), LaunchError>;

    /// The value under a key; `None` when no process has put it before the last fence.
    ///
    /// # Errors
    /// The process manager is gone.
    fn get(&mut self, key: &str) -> Result<Option<String>, LaunchError>;

    /// Waits until every process of the job is here. Collective.
    ///
    /// # Errors
    /// The process manager is gone or refuses.
    fn fence(&mut self) -> Result<(), LaunchError>;

    /// Gives the card of each rank to all ranks, and returns the cards in order of ranks. Collective.
    ///
    /// # Errors
    /// The process manager is gone or refuses; a card is longer than [`CARD_MAX`](crate::wire::CARD_MAX)
    /// after escaping.
    fn exchange(&mut self, card: &str) -> Result<Vec<String>, LaunchError>;

    /// Ends the whole job (MPI-5.0 §11.4, `MPI_Abort`): tells the process manager, then exits with `code`,
    /// C's exit handlers included. The message becomes part of the cause that `mpiexec` reports, or goes to
    /// standard error.
    fn abort(&mut self, code: i32, message: &str) -> !;

    /// Says goodbye: from now on this process may exit without being missed. Later requests fail unless the
    /// process manager lets the process [come back](Self::come_back).
    ///
    /// # Errors
    /// The process manager is gone.
    fn finalize(&mut self) -> Result<(), LaunchError>;

    /// Returns whether [`come_back`](Self::come_back) can succeed.
    fn can_come_back(&self) -> bool;

    /// Takes the goodbye back: this process belongs to the job again, and is missed if it exits.
    ///
    /// # Errors
    /// The process manager is gone, or does not let processes come back.
    fn come_back(&mut self) -> Result<(), LaunchError>;

    /// Starts a new job of these programs, of which there is at least one (MPI-5.0 §11.8.2, §11.8.3). Its
    /// processes get `port` from [`parent_port`](Self::parent_port). Blocks until all processes have begun to
    /// run their programs, or until it is known why one of them cannot.
    ///
    /// # Errors
    /// The process manager starts no further processes ([`LaunchError::CannotSpawn`]), refuses, or is gone.
    fn spawn(&mut self, programs: &[SpawnProgram], port: &str) -> Result<Spawned, LaunchError>;

    /// How the job with this number of [`spawn`](Self::spawn) has ended, in half a sentence; `None` when it
    /// runs as far as is known.
    ///
    /// # Errors
    /// The process manager is gone.
    fn spawned_end(&mut self, number: u32) -> Result<Option<String>, LaunchError>;

    /// Returns whether [`spawned_end`](Self::spawned_end) learns of every end. Other process managers start
    /// programs that are missing, and say nothing more.
    fn tells_ends(&self) -> bool {
        false
    }

    /// The port that the job has named which has spawned this job; `None` when no job has.
    ///
    /// # Errors
    /// The process manager is gone.
    fn parent_port(&mut self) -> Result<Option<String>, LaunchError>;

    /// The service that makes ports known by name (MPI-5.0 §11.9.4), where there is one.
    fn names(&mut self) -> Option<&mut dyn Names>;

    /// The notices of processes of the job that fail, where the process manager gives any. Weft's `mpiexec`
    /// gives some with `--on-failure continue`; else it ends the job. They can be taken once.
    fn notices(&mut self) -> Option<Notices>;

    /// The observer of the job from outside, where there is one.
    fn observer(&mut self) -> Option<&mut dyn Observer>;
}

/// Ports that are known by the name of their service to all jobs of a process manager (MPI-5.0 §11.9.4).
pub trait Names {
    /// Makes `port` known as `service`.
    ///
    /// # Errors
    /// The name is taken, or the process manager is gone.
    fn publish(&mut self, service: &str, port: &str) -> Result<(), LaunchError>;

    /// The port known as `service`; `None` when there is none.
    ///
    /// # Errors
    /// The process manager is gone.
    fn look_up(&mut self, service: &str) -> Result<Option<String>, LaunchError>;

    /// Withdraws the name `service`.
    ///
    /// # Errors
    /// The name is not published, or the process manager is gone.
    fn unpublish(&mut self, service: &str) -> Result<(), LaunchError>;
}

/// The view that Weft's `mpiexec` has of its ranks beside their requests.
pub trait Observer {
    /// Tells the meaning of the numbers of [`CallSite::set`](crate::CallSite::set): `names[number]`. Before
    /// this call a process counts as one that has not reached `MPI_Init`.
    fn name_calls(&self, names: &[&str]);

    /// Returns whether the user asked for statistics at the end of the job.
    fn wants_stats(&self) -> bool;

    /// Hands over this process's statistics: lines `from to link messages bytes resends`, ranks and counts as
    /// decimal numbers, the name of the link without blanks. Lines of the same pair and link are added up.
    ///
    /// # Errors
    /// The text is longer than [`STATS_MAX`](crate::wire::STATS_MAX), or the process manager is gone.
    fn report_stats(&mut self, lines: &str) -> Result<(), LaunchError>;
}

/// The error of a process manager that starts no further processes.
fn cannot_spawn<T>(manager: &str) -> Result<T, LaunchError> {
    Err(LaunchError::CannotSpawn(format!("{manager} starts no further processes for a program that runs")))
}

/// Ends this process for an abort with `code`.
fn exit_aborted(code: i32) -> ! {
    sys::exit_as_c(status_aborted(code))
}

/// The exit status of an abort with `code`, which no shell shall take for success.
fn status_aborted(code: i32) -> i32 {
    if code != 0 && code & 0xff == 0 { 1 } else { code }
}
