//! The protocol between hosts in virtual time: the real flows, a clock that jumps from event to event, and a
//! network with faults of every kind, all from one seed.
//!
//! A [`plan::Plan`] is composed of a topology, a workload, nuisances and demands. [`scenario`] has the plans
//! by name, and draws random ones. [`world::run`] plays a plan to its end. It checks while it plays that:
//!
//! - every message arrives exactly once and in order;
//! - every byte of bulk data arrives exactly once at its place;
//! - nothing is acknowledged before it arrives;
//! - nothing is retransmitted without cause;
//! - memory is within bounds;
//! - no work is left at the end.
#![forbid(unsafe_code)]
// All output goes through `out`, which ends the process when its reader has gone.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod agenda;
pub mod agreement;
pub mod capture;
pub mod check;
pub mod clock;
pub mod clusters;
pub mod fabric;
pub mod files;
pub mod grants;
pub mod job;
pub mod ledger;
pub mod nuisance;
pub mod out;
pub mod plan;
pub mod port;
mod process;
pub mod report;
pub mod scenario;
mod swarm;
pub mod topology;
pub mod violation;
pub mod witness;
pub mod workload;
pub mod world;
