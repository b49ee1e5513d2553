//! Plans without I/O: what the processes of a group do together, from facts that all of them know alike.
//!
//! The engine runs the schedules of collectives, and the simulator does in virtual time. A plan is made once
//! and kept, so this crate is compiled for size.
//!
//! | module | what it plans | called by |
//! |---|---|---|
//! | [`agreement`] | agreements that survive the failure of processes | `weft-mpi` `recovery.rs` |
//! | [`collective`] | schedules of collectives, and their choice | `weft-mpi`; engine `schedules.rs` |
//! | [`contexts`] | the numbers that keep the messages of communicators apart | `weft-mpi` |
//! | [`meeting`] | the rounds in which two groups without a communicator in common meet | `weft-mpi` `processes/` |
//! | [`revocation`] | whom a process tells that a communicator is revoked | `weft-mpi` `recovery.rs` |
//! | [`topology`] | grids, and the placement of processes on a topology | `weft-mpi` |
//! | [`two_phase`] | which processes move the data of a collective access to a file | `weft-mpi` `files/` |
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod agreement;
pub mod collective;
pub mod contexts;
pub mod meeting;
pub mod revocation;
pub mod topology;
pub mod two_phase;
