//! The C boundary of `libmpi_abi.so.1`.
//!
//! Generated functions (`generated/`, made by `cargo xtask generate` from `spec/`) check their arguments and
//! call the implementations in `calls/`. Nothing inside Weft calls an `MPI_` function.
#![allow(non_camel_case_types, non_snake_case)]

mod arguments;
mod boundary;
mod caller;
mod calls;
mod check;
mod constants;
mod error_classes;
mod error_codes;
mod error_handling;
mod functions;
mod generated;
mod others;
mod scope;
mod short;
mod types;
