//! The engine: what stands between MPI's objects and the carriers.
//!
//! It matches messages with receives, chooses how each message travels, moves it, and completes requests. It
//! has no clock, no socket and no thread of its own: what it needs of these is behind the traits of
//! [`transport`], so that a simulator runs the very same code in virtual time.
//!
//! | module | what it holds |
//! |---|---|
//! | [`group`] | names of processes, and ordered sets of them |
//! | [`peers`] | the table of peers: all that is known of each process that can be reached |
//! | [`carriers`] | which of several carriers to another node takes what |
//! | [`transport`] | what carriers must offer |
//! | [`engine`] | one pass of progress; the path to each peer; what leaves and what arrives |
//! | [`protocols`] | which protocol carries a message: a pure function, and its thresholds |
//! | [`messages`] | from frames to requests and back: eager messages, rendezvous, credit |
//! | [`regions`] | memory that a peer may read or write, and the checks of each access |
//! | [`windows`] | one-sided operations: what is exposed, what has been begun, what others ask for |
//! | [`request`] | operations that have begun |
//! | [`arguments`], [`schedules`] | collective operations: what they are given, and the cursor that runs their schedules |
//! | [`waiting`] | when a call spins, yields or sleeps, and what the progress thread watches |
//! | [`callbacks`] | types of the functions that programs hand over, generated |
//! | [`memory`] | the program's memory: the only unsafe module |
//! | [`handle`], [`error`] | tables of objects that cannot be confused; what went wrong |
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

/// The core's parts that users of the engine speak of.
pub use weft_core::{collective as algorithms, layout, reduce};
