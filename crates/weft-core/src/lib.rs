//! Pure protocol of Weft: no I/O, no clock, no randomness of its own.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod collective;
pub mod flow;
pub mod grants;
pub mod layout;
pub mod matching;
pub mod message;
pub mod pcapng;
pub mod rails;
pub mod reach;
pub mod reduce;
pub mod time;
pub mod wire;
