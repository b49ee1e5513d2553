//! The engine: what stands between MPI's objects and the carriers.
//!
//! It matches messages with receives, chooses how each message travels, moves it, and completes requests. It has no clock, no socket
//! and no thread of its own: what it needs of these is behind the traits of [`transport`], so that a simulator runs the very same code in
//! virtual time.
//!
//! | module | what it holds |
//! |---|---|
//! | [`peers`] | the processes that can be reached |
//! | [`transport`] | what carriers must offer |
//! | [`engine`] | one pass of progress; the path to each peer; what leaves and what arrives |
//! | [`messages`] | from frames to requests and back: eager messages, rendezvous, credit |
//! | [`request`] | operations that have begun |
//! | [`schedules`] | collective operations as graphs of steps, and the cursor that runs one |
//! | [`memory`] | the program's memory: the only unsafe module |
//! | [`handle`], [`error`] | tables of objects that cannot be confused; what went wrong |
#![deny(unsafe_code)]

pub mod engine;
pub mod error;
pub mod handle;
#[allow(unsafe_code)]
pub mod memory;
pub mod messages;
pub mod peers;
pub mod request;
pub mod schedules;
pub mod transport;

/// The core's parts that users of the engine speak of.
pub use weft_core::{collective as algorithms, layout, reduce};
