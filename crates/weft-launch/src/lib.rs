//! Starts the processes of a job on its hosts, and lets each of them find its peers.
//!
//! The library side is [`ProcessManager`]: the requests of every MPI process to the process manager that has
//! started it. Weft speaks PMI-1.1 and PMIx. Its own `mpiexec`, Hydra (MPICH, Intel MPI), gforker and Slurm
//! (`--mpi=pmi2`) offer PMI-1.1; Open MPI's `mpirun` and Slurm (`--mpi=pmix`) offer PMIx. A process without a
//! process manager is a singleton.
//!
//! [`CallSite`] tells the launcher in which MPI call the process is. The process publishes its state
//! ([`standing`]) on its [`page`]. From these states [`wait_for`] concludes which ranks keep which waiting.
//!
//! [`Load`] says whether there is a processor for every rank, so that a rank that waits may keep one busy.
//!
//! The program side is the binary `mpiexec`.

#![deny(unsafe_code)]

mod agent;
mod call_site;
mod control;
mod defaults;
mod error;
pub mod faces;
pub mod foreign;
mod heartbeat;
mod hosts;
mod loss;
mod manager;
pub mod mpiexec;
pub mod page;
mod processors;
pub mod reach;
mod say;
mod secret;
mod service_names;
mod spawn;
pub mod standing;
#[allow(unsafe_code)]
mod sys;
pub mod wait_for;
pub mod wire;
mod words;

pub use call_site::CallSite;
pub use defaults::{Defaults, Line as DefaultsLine, VARIABLE as DEFAULTS_VARIABLE};
pub use error::LaunchError;
pub use manager::{Names, Notice, Notices, Observer, ProcessManager, process_manager};
pub use processors::{
    Load, REGISTRY, RESOURCE_KINDS, Resource, ResourceKind, binding_of, named_processors, reduce_by_quota, resources,
    usable_processors,
};
pub(crate) use say::print;
pub use say::say;
pub use secret::JobSecret;
pub use spawn::{SpawnProgram, Spawned};

/// The file names of `mpiexec`. Where several MPI libraries share a directory, as in Debian, the first one is
/// Weft's alone.
pub(crate) const MPIEXEC_NAMES: [&str; 2] = ["mpiexec.weft", "mpiexec"];

/// Runs `handler` in every child that this process forks from now on. `handler` must neither wait nor
/// allocate.
pub fn on_fork(handler: fn()) {
    sys::on_fork(handler);
}

/// Ends this process at once, without C's exit handlers.
pub fn exit_now(status: i32) -> ! {
    sys::exit_now(status)
}
