//! The same protocol in virtual time: real flows, a clock that jumps, and a network that does everything wrong, from one seed.
//!
//! A `Plan` says who talks to whom over what; `world::run` plays it to the end and checks while it plays:
//! every message exactly once and in order, every byte of bulk data exactly once at its place, nothing acknowledged that
//! has not arrived, memory within bounds, and rest at the end. `scenario` names the plans.
#![forbid(unsafe_code)]

pub mod ledger;
pub mod network;
pub mod plan;
pub mod random;
pub mod report;
pub mod scenario;
pub mod world;
