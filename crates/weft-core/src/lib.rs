//! Weft's protocols as pure state machines: no I/O, no clock and no randomness of its own. Time and bytes are
//! arguments, and the packets to send are results.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod assembly;
pub mod collective;
pub mod connection;
pub mod flow;
pub mod grants;
pub mod layout;
pub mod matching;
pub mod message;
pub mod multicast;
pub mod one_sided;
pub mod path_validation;
pub mod pcapng;
pub mod placement;
pub mod process;
pub mod rails;
pub mod reduce;
pub mod time;
pub mod topology;
pub mod wire;
