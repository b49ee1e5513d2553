//! Engines, several in one process, over a network of queues.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

use weft_core::path_validation::Ends;
use weft_core::rails::{Carrier, CarrierKind};
use weft_core::time::Duration;
use weft_core::time::Instant;
use weft_engine::carriers::{Devices, Hop, Slot};
use weft_engine::engine::Parts;
use weft_engine::group::PeerId;
use weft_engine::peers::{NewPeer, Route};
use weft_engine::transport::{Address, Datagrams, Outcome, Platform};
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

/// One pass of progress.
pub(crate) fn pass(engine: &mut Engine) {
    engine.progress();
}

pub(crate) const PACKET_SIZE: usize = 600;

pub(crate) type Wire = Arc<Mutex<Vec<VecDeque<Vec<u8>>>>>;

/// A network of queues, one per process; an address is a port.
pub(crate) struct Queue {
    pub(crate) own: usize,
    pub(crate) wire: Wire,
}

impl Datagrams for Queue {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn send(&mut self, to: &Address, packet: &[u8]) -> std::io::Result<Outcome> {
        let Address::Udp(to) = to else { unreachable!("engines here have no other address") };
        self.wire.lock().unwrap()[usize::from(to.port())].push_back(packet.to_vec());
        Ok(Outcome::Sent)
    }

    fn receive(&mut self, on_packet: &mut dyn FnMut(&[u8]), limit: usize) -> usize {
        for count in 0..limit {
            let Some(packet) = self.wire.lock().unwrap()[self.own].pop_front() else { return count };
            on_packet(&packet);
        }
        limit
    }

    fn fd(&self) -> RawFd {
        -1
    }

    /// Whoever sleeps is woken by other means.
    fn arm(&mut self) -> bool {
        true
    }

    fn packet_size(&self) -> usize {
        PACKET_SIZE
    }
}

pub(crate) fn udp_carrier(address: SocketAddr) -> (Carrier, Hop) {
    let carrier = Carrier { kind: CarrierKind::Udp, rail: 0, ends: Ends::default() };
    (carrier, Hop { slot: Slot::Udp, to: address.into() })
}

/// An engine of a job in which every process has a node of its own.
pub(crate) fn engine(
    own: usize,
    routes: Vec<Route>,
    devices: Devices,
    eager_limit: u64,
    peer_timeout: Duration,
) -> Engine {
    let mut engine = Engine::new(Parts {
        platform: Machine,
        memory: SingleCopy,
        number: own as u32,
        host: Some("test".into()),
        node: None,
        devices,
        secret: weft_core::wire::Secret::new([7; 16]),
        eager_limit: Some(eager_limit),
        unexpected_bytes: 0,
        peer_timeout,
    });
    add_peers(&mut engine, own, routes, 0);
    engine.attend(true);
    engine
}

/// Adds the peers behind `routes`, by their numbers; this process is the one with the number `own`.
#[allow(dead_code, reason = "not all tests have routes of their own")]
pub(crate) fn add_peers(engine: &mut Engine, own: usize, routes: Vec<Route>, process: i32) {
    for (number, route) in routes.into_iter().enumerate() {
        if number != own {
            engine.add_peer(NewPeer { number: number as u32, route, process, host: Some("test".into()) });
        }
    }
}

/// How `engine` names the process with this number.
pub(crate) fn id(engine: &Engine, number: usize) -> PeerId {
    engine.peers.find(number as u32).expect("a process of the test")
}
