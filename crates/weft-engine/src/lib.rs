//! The engine: the layer between MPI's objects and the carriers.
//!
//! It matches messages with receives, chooses how each message travels, moves it, and completes requests. The
//! engine has no clock, no socket and no thread of its own. The traits of [`transport`] provide them, so a
//! simulator runs the same code in virtual time.
//!
//! | module | contents |
//! |---|---|
//! | [`group`] | names of processes, and ordered sets of them |
//! | [`peers`] | the table of peers: all that is known of each process that can be reached |
//! | [`carriers`] | which of several carriers to another node takes a message |
//! | [`transport`] | the traits that carriers, clocks and shared memory implement |
//! | [`engine`] | one pass of progress; the path to each peer; frames that leave and arrive |
//! | [`protocols`] | which protocol carries a message: a pure function, and its thresholds |
//! | [`messages`] | from frames to requests and back: eager messages, rendezvous, credit |
//! | [`regions`] | memory that a peer may read or write, and the checks of each access |
//! | [`windows`] | one-sided operations: exposed memory, operations begun here, operations asked for by others |
//! | [`request`] | requests: operations that have begun and may not be complete |
//! | [`arguments`], [`schedules`] | collective operations: their arguments, and the cursor that runs their schedules |
//! | [`waiting`] | when a call spins, yields or sleeps, and what the progress thread watches |
//! | [`callbacks`] | types of the functions that programs hand over, generated |
//! | [`memory`] | the program's memory: the only unsafe module |
//! | [`handle`], [`error`] | tables of objects that cannot be confused; MPI's error classes and messages |
#![deny(unsafe_code)]

pub mod arguments;
pub mod callbacks;
pub mod carriers;
pub mod engine;
pub mod error;
pub mod events;
pub mod group;
pub mod handle;
mod jobs;
#[allow(unsafe_code)]
pub mod memory;
pub mod messages;
pub mod peers;
pub mod protocols;
pub mod regions;
pub mod request;
pub mod schedules;
pub mod transport;
pub mod waiting;
pub mod windows;

/// The parts of the core that appear in the engine's interface.
pub use weft_core::{layout, reduce};
pub use weft_plan::collective as algorithms;
