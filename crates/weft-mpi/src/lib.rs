//! MPI's objects and their meaning; owner of the progress loop.
//!
//! | module | what it holds |
//! |---|---|
//! | [`process`] | the lock around everything, waiting, waking |
//! | [`start`] | joining and leaving the job |
//! | [`engine`] | the links and what moves over them |
//! | [`messages`] | frames to requests and back |
//! | [`point_to_point`], [`collective`] | operations |
//! | [`datatypes`], [`external`] | making datatypes; the portable representation of data |
//! | [`dimensions`] | shapes of process grids |
//! | [`object`], [`predefined`], [`handle`], [`request`] | objects and how they are found |
//! | [`settings`], [`tools`], [`live`] | what can be set, what is counted, the tool interface to both, and who looks from outside |
//! | [`memory`] | the program's memory: the only unsafe module |
#![deny(unsafe_code)]

pub mod blocking;
pub mod buffered;
pub mod collective;
pub mod communicator;
pub mod completion;
pub mod constants;
mod contention;
pub mod context;
pub mod datatypes;
pub mod dimensions;
pub mod engine;
pub mod error;
pub mod error_codes;
pub mod external;
pub mod handle;
mod helper;
pub mod live;
#[allow(unsafe_code)]
pub mod memory;
pub mod messages;
pub mod object;
pub mod point_to_point;
pub mod predefined;
pub mod process;
pub mod request;
pub mod settings;
pub mod start;
pub mod tools;

/// The core's parts that the boundary speaks of: it depends on this crate only.
pub use weft_core::{collective as algorithms, layout, reduce};
