//! The implementations of MPI's procedures, as the generated functions call them.
//!
//! The arguments that C passes come as values of `arguments.rs`, which the generated functions make. The
//! contract of the C prototype (MPI-5.0 §2, §20) is promised there, and the functions here are safe where
//! they need no other promise.
//!
//! `cargo xtask generate` looks for `pub(crate) [unsafe] fn` at the start of a line:
//!
//! - `comm_dup` implements MPI_Comm_dup and MPI_Comm_dup_c; a function `op_create_c` is preferred for
//!   MPI_Op_create_c.
//! - A function whose first parameter is `form: Form` implements several procedures: `bcast` is MPI_Bcast,
//!   MPI_Ibcast and MPI_Bcast_init, `put` is MPI_Put and MPI_Rput.
//! - A function whose first parameter is `transfer: Transfer` implements two procedures: `file_read` is
//!   MPI_File_read and MPI_File_iread.
//! - A function with parameters of the types `Part`, `Parts`, `TypedParts` and `Target` gets each buffer with
//!   its count and datatype as one value. Point-to-point communication takes them one by one, so that they
//!   stay in registers.

pub(crate) mod attributes;
pub(crate) mod buffers;
pub(crate) mod collectives;
pub(crate) mod communicators;
pub(crate) mod creation;
pub(crate) mod datatype_contents;
pub(crate) mod datatypes;
pub(crate) mod environment;
pub(crate) mod error_handlers;
pub(crate) mod files;
pub(crate) mod fortran_abi;
pub(crate) mod from_groups;
pub(crate) mod graphs;
pub(crate) mod groups;
pub(crate) mod handles;
pub(crate) mod info;
pub(crate) mod intercommunicators;
pub(crate) mod one_sided;
pub(crate) mod packing;
pub(crate) mod partitioned;
pub(crate) mod point_to_point;
pub(crate) mod processes;
pub(crate) mod recovery;
pub(crate) mod removed;
pub(crate) mod requests;
pub(crate) mod sessions;
pub(crate) mod status;
pub(crate) mod text;
pub(crate) mod tools;
pub(crate) mod topologies;
