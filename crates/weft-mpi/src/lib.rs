//! MPI's objects and their meaning, and the progress loop. The boundary (`weft_abi`) calls this crate for
//! every MPI call.
//!
//! | module | contents |
//! |---|---|
//! | [`process`] | the lock around everything, waiting, waking |
//! | [`start`], [`business_card`] | joining and leaving the job; what a process tells of itself |
//! | [`processes`], `ports`, `farewell` | processes of other jobs: they meet at ports, are spawned, and end |
//! | [`engine`] | the engine (`weft_engine`) on this machine's clock and carriers |
//! | [`job`], [`context`] | the job that this process belongs to; the numbers that keep communicators apart |
//! | [`point_to_point`], [`partitioned`], [`collective`] | operations |
//! | [`blocking`], [`buffered`], [`completion`] | calls without a request; buffered sends; the ends of requests |
//! | [`planner`] | plans of collectives, and those made lately |
//! | [`check`], [`signature`], [`labels`] | `WEFT_CHECK`: compares calls, and messages with receives |
//! | [`multicast`] | multicast between the nodes of a communicator: wishes and knowledge |
//! | [`datatypes`], [`external`] | making datatypes; the portable representation of data |
//! | [`topology`], [`placement`] | grids and graphs of processes; the places of processes in them |
//! | [`object`], [`predefined`], `foreign` | objects and their tables; handles of other interfaces |
//! | [`communicator`], [`intercommunicator`], [`hints`] | agreement on new communicators; hints |
//! | [`hardware`] | parts of a communicator by the hardware of its processes |
//! | [`one_sided`] | one-sided communication: making windows, synchronizing on them |
//! | [`window`] | windows and their epochs |
//! | [`mod@file`], [`files`] | open files; opening and accessing them |
//! | [`session`] | sessions and process sets |
//! | [`settings`], [`tools`] | settings; the tool interface to settings and counters |
//! | [`live`], [`awaited`] | the state of a rank for readers outside; the operation that a call waits for |
#![forbid(unsafe_code)]

pub mod awaited;
pub mod blocking;
pub mod buffered;
pub mod business_card;
pub mod check;
pub mod collective;
pub mod communicator;
pub mod completion;
pub mod constants;
mod contention;
pub use weft_plan::contexts as context;
pub mod datatypes;
mod description;
pub mod engine;
pub mod external;
mod farewell;
pub mod file;
pub mod files;
mod foreign;
pub mod hardware;
pub mod hints;
pub mod intercommunicator;
pub mod job;
pub mod labels;
pub mod live;
pub mod multicast;
mod names;
pub mod object;
pub mod one_sided;
pub mod partitioned;
mod partitions;
pub mod placement;
pub mod planner;
pub mod point_to_point;
mod ports;
pub mod predefined;
pub mod process;
pub mod processes;
mod progress_thread;
pub mod recovery;
pub mod session;
pub mod settings;
pub mod signature;
mod slots;
pub mod start;
pub mod tools;
pub mod topology;
pub mod window;

/// The parts of the engine and of the core that the boundary uses: it depends on this crate only.
pub use weft_engine::{algorithms, callbacks, error, handle, layout, memory, reduce, request};
pub use weft_launch::say;
