//! Measures MPI libraries side by side, on this machine or between virtual hosts, and draws the results.
//!
//! ```text
//! compare · bench · availability · tune     what is measured: commands of `weft`
//!             │
//!          measure ─ hosts             programs in C under each library in turn, in places of their own
//!             │
//!          run file (record)
//!             │
//!          report ─ show               figures, tables, charts, pages
//! ```
//!
//! Each command has `Arguments` for the command line and `main`, which returns the program's exit code. Their
//! output goes through [`out`].
#![forbid(unsafe_code)]
// All output goes through `out`, which ends the command when its reader has gone.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod availability;
pub mod bench;
pub mod compare;
pub mod foreign;
pub mod hosts;
mod lines;
mod measure;
mod operations;
pub mod out;
mod record;
pub mod report;
mod show;
pub mod tools;
pub mod tune;

pub use operations::operations;
pub use show::chart::{Curve, Words, curve_files, curves};
