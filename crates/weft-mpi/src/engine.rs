//! The engine as this library runs it: on the machine's clock, and on the carriers of `weft_net`.

use weft_core::time::Instant;
use weft_engine::transport::Platform;
use weft_net::single_copy::SingleCopy;
use weft_net::{clock, shared};

use crate::contention;

/// The machine that this process runs on.
pub struct Machine;

impl Platform for Machine {
    type Node = shared::Node;
    type Memory = SingleCopy;

    #[inline]
    fn now(&self) -> Instant {
        clock::now()
    }

    #[inline]
    fn is_contended(&self) -> bool {
        contention::is_contended()
    }

    #[inline]
    fn ticks() -> u64 {
        clock::ticks()
    }
}

/// The engine ([`weft_engine::engine::Engine`]) on the platform of this library.
pub type Engine = weft_engine::engine::Engine<Machine>;
/// The parts from which an engine is built ([`weft_engine::engine::Parts`]).
pub type Parts = weft_engine::engine::Parts<Machine>;
/// The word in memory, or the descriptors, that a waiter of this process sleeps on.
pub type SleepOn = weft_engine::engine::SleepOn<Machine>;

pub use weft_core::flow::RUN_PACKETS;
pub use weft_core::long_path_choice::EAGER_WRITE_BYTES_MIN;
pub use weft_core::message::HEAD_MAX;
pub use weft_engine::carriers::{BoxedCarrier, CARRIERS_MAX, CarrierId, CarrierPath, Carriers, RailTraffic, Remote};
pub use weft_engine::engine::{Received, Traffic};
pub use weft_engine::messages::{CREDIT_BYTES, CREDIT_PER_MESSAGE};
pub use weft_engine::peers::{NewPeer, Route};
pub use weft_engine::protocols;
pub use weft_engine::transport::{Candidate, Placement};
