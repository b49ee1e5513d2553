//! The protocol between hosts in virtual time: the real flows, a clock that jumps from event to event, and a
//! network with faults of every kind, all from one seed.
//!
//! A [`plan::Plan`] is composed of a topology, a workload, nuisances and demands. [`world::run`] plays it to
//! the end and checks while it plays: every message exactly once and in order, every byte of bulk data
//! exactly once at its place, nothing acknowledged that has not arrived, nothing sent again without cause,
//! memory within bounds, and nothing left to do at the end. [`scenario`] has the plans by name, and draws
//! random ones.
#![forbid(unsafe_code)]
// What is said goes through `out`, which knows what to do when nobody reads any more.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod agenda;
pub mod capture;
pub mod check;
pub mod clock;
pub mod clusters;
pub mod fabric;
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
