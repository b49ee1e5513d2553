//! Engines, several in one process, over a network of queues.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use weft_core::path_validation::Ends;
use weft_core::process::ProcessName;
use weft_core::rails::{RailCarrier, Role};
use weft_core::time::Duration;
use weft_core::time::Instant;
use weft_engine::carriers::{Attendance, CarrierId, CarrierPath, Carriers};
use weft_engine::engine::Parts;
use weft_engine::group::PeerId;
use weft_engine::peers::{NewPeer, Route};
use weft_engine::protocols::CostModel;
use weft_engine::transport::{
    Address, Arrival, Carrier, CarrierAttributes, Diagnostics, Look, Outcome, Platform, send_one_by_one,
};
use weft_net::single_copy::SingleCopy;
use weft_net::{clock, shared};

/// The machine that the test runs on.
pub(crate) struct Machine;

impl Platform for Machine {
    type Node = shared::Node;
    type Memory = SingleCopy;

    fn now(&self) -> Instant {
        clock::now()
    }

    fn is_contended(&self) -> bool {
        false
    }

    fn ticks() -> u64 {
        clock::ticks()
    }
}

pub(crate) type Engine = weft_engine::engine::Engine<Machine>;

/// Makes a pass of progress.
pub(crate) fn pass(engine: &mut Engine) {
    engine.progress();
}

pub(crate) const PACKET_SIZE: usize = 600;

/// The attributes of a carrier with packets of that size.
pub(crate) const ATTRIBUTES: CarrierAttributes = CarrierAttributes::packets("queue", PACKET_SIZE, Look::SystemCall);

pub(crate) type Wire = Arc<Mutex<Vec<VecDeque<Vec<u8>>>>>;

/// A network of queues, one per process; an address is a port.
pub(crate) struct Queue {
    own: usize,
    wire: Wire,
    attributes: CarrierAttributes,
}

impl Queue {
    /// Makes the end of a process, in place of UDP.
    pub(crate) fn new(own: usize, wire: &Wire) -> Self {
        Self { own, wire: wire.clone(), attributes: ATTRIBUTES }
    }

    /// Makes the end of a process, in place of raw frames.
    #[allow(dead_code, reason = "not every test has several carriers")]
    pub(crate) fn of_frames(own: usize, wire: &Wire) -> Self {
        Self { attributes: CarrierAttributes { look: Look::Memory, ..ATTRIBUTES }, ..Self::new(own, wire) }
    }
}

impl Carrier for Queue {
    fn attributes(&self) -> &CarrierAttributes {
        &self.attributes
    }

    fn send(&mut self, to: &Address, packet: &[u8]) -> std::io::Result<Outcome> {
        let Address::Udp(to) = to else { unreachable!("engines here have no other address") };
        self.wire.lock().unwrap()[usize::from(to.port())].push_back(packet.to_vec());
        Ok(Outcome::Sent)
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> std::io::Result<usize> {
        send_one_by_one(self, to, train, segment)
    }

    fn receive(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>), limit: usize) -> usize {
        for count in 0..limit {
            let Some(packet) = self.wire.lock().unwrap()[self.own].pop_front() else { return count };
            on_arrival(Arrival::packet(&packet));
        }
        limit
    }

    fn prepare_sleep(&mut self) -> bool {
        // Other means wake a process that sleeps.
        true
    }

    fn diagnostics(&self) -> Diagnostics {
        Diagnostics::default()
    }

    fn under_way(&self, _: &Address) -> usize {
        0
    }

    fn take_broken(&mut self) -> Option<Address> {
        None
    }
}

pub(crate) fn udp_carrier(address: SocketAddr) -> (RailCarrier, CarrierPath) {
    let carrier = RailCarrier { role: Role::BulkData, rail: 0, ends: Ends::default(), standby: false };
    (carrier, CarrierPath { carrier: CarrierId(0), to: address.into() })
}

/// The paths to an address by raw frames, which are the first carrier, and by UDP, which is the second.
#[allow(dead_code, reason = "not every test has several carriers")]
pub(crate) fn frames_and_udp(address: SocketAddr) -> [(RailCarrier, CarrierPath); 2] {
    let (carrier, path) = udp_carrier(address);
    [
        (RailCarrier { role: Role::SmallMessages, ..carrier }, path),
        (carrier, CarrierPath { carrier: CarrierId(1), ..path }),
    ]
}

/// An engine of a job in which every process has a node of its own.
pub(crate) fn engine(
    own: usize,
    routes: Vec<Route>,
    carriers: Carriers,
    eager_limit: u64,
    peer_timeout: Duration,
) -> Engine {
    let mut engine = Engine::new(Parts {
        platform: Machine,
        memory: SingleCopy,
        name: ProcessName::of_only_job(own as u32),
        host: Some("test".into()),
        node: None,
        carriers,
        secret: weft_core::wire::Secret::new([7; 16]),
        eager_limit: Some(eager_limit),
        costs: CostModel::BUILT_IN,
        unexpected_bytes: 0,
        peer_timeout,
    });
    add_peers(&mut engine, own, routes, 0);
    engine.attend(Attendance::Prompt);
    engine
}

/// Adds the peers behind `routes`, by their numbers; this process has the number `own`.
#[allow(dead_code, reason = "not all tests have routes of their own")]
pub(crate) fn add_peers(engine: &mut Engine, own: usize, routes: Vec<Route>, process: i32) {
    for (number, route) in routes.into_iter().enumerate() {
        if number != own {
            let name = ProcessName::of_only_job(number as u32);
            engine.add_peer(NewPeer { name, own_index: own as u32, route, process, host: Some("test".into()) });
        }
    }
}

/// The name by which `engine` knows the process with this number.
pub(crate) fn id(engine: &Engine, number: usize) -> PeerId {
    engine.peers.find(number as u32).expect("a process of the test")
}
