//! MPI's objects and their meaning; owner of the progress loop.
//!
//! | module | what it holds |
//! |---|---|
//! | [`process`] | the lock around everything, waiting, waking |
//! | [`start`] | joining and leaving the job |
//! | [`engine`] | the engine (`weft_engine`) on this machine's clock and carriers |
//! | [`point_to_point`], [`partitioned`], [`collective`] | operations |
//! | [`check`], [`signature`], [`labels`] | `WEFT_CHECK`: whether all processes call the same, and receive what is sent |
//! | [`multicast`] | what is wanted and known of multicast between the nodes of a communicator |
//! | [`datatypes`], [`external`] | making datatypes; the portable representation of data |
//! | [`topology`], [`placement`] | grids and graphs of processes; who gets which vertex of them |
//! | [`object`], [`predefined`], `foreign` | objects and how they are found; handles of other binary interfaces |
//! | [`communicator`], [`intercommunicator`], [`hints`] | how processes agree on new communicators; what programs assert of them |
//! | [`hardware`] | parts of a communicator by what hardware its processes are bound to |
//! | [`one_sided`], [`window`] | one-sided communication: making windows and synchronizing on them; the windows and their epochs |
//! | [`session`] | sessions and process sets |
//! | [`settings`], [`tools`], [`live`] | what can be set, what is counted, the tool interface to both, and who looks from outside |
//! | [`awaited`] | what a call waits for, for those who look |
#![forbid(unsafe_code)]

pub mod awaited;
pub mod blocking;
pub mod buffered;
pub mod check;
pub mod collective;
pub mod communicator;
pub mod completion;
pub mod constants;
mod contention;
pub mod context;
pub mod datatypes;
mod description;
pub mod engine;
pub mod external;
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
pub mod predefined;
pub mod process;
mod progress_thread;
pub mod session;
pub mod settings;
pub mod signature;
mod slots;
pub mod start;
pub mod tools;
pub mod topology;
pub mod window;

/// The parts of the engine and of the core that the boundary speaks of: it depends on this crate only.
pub use weft_engine::{algorithms, callbacks, error, handle, layout, memory, reduce, request};
pub use weft_launch::say;
