//! Puts the engines of a simulated job together: the one place that knows the parts of an engine.

use super::machine::{Machine, members};
use super::moments::{Clock, Moments};
use super::network::{Network, Placing, address};
use super::node::{NodeMemory, SLOTS, SharedMemory, SimNode};
use super::platform::{Virtual, set_ticks_per_look};
use super::program::Comm;
use super::windows::Windows;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_core::flow::Settings;
use weft_core::path_validation::Ends;
use weft_core::process::ProcessName;
use weft_core::rails::RailCarrier;
use weft_core::time::Duration;
use weft_core::wire::Secret;
use weft_engine::carriers::{self, CarrierId, CarrierPath, Remote};
use weft_engine::engine::{Engine, NewGroup, Parts};
use weft_engine::group::{Group, PeerId};
use weft_engine::memory::InProcess;
use weft_engine::peers::{NewPeer, Route};
use weft_engine::protocols::EAGER_LIMIT;
use weft_engine::transport::AddressKind;

/// Memory for unexpected messages beyond credit: little, so that senders both use it and run out of it.
pub(super) const UNEXPECTED_BYTES: u64 = 64 << 10;

/// An engine in virtual time.
pub(super) type SimEngine = Engine<Virtual>;

/// The parts that the engines of a job share.
pub(super) struct Carriers {
    pub(super) clock: Clock,
    pub(super) moments: Moments,
    pub(super) memory: InProcess,
    pub(super) network: Network,
    /// The shared memory of each node.
    pub(super) nodes: Vec<SharedMemory>,
    /// The local rank of each process.
    pub(super) local_ranks: Vec<usize>,
    /// The number of processes that have entered each collective.
    pub(super) entered: Rc<RefCell<BTreeMap<u32, usize>>>,
    pub(super) windows: Windows,
}

impl Carriers {
    pub(super) fn new(machine: &Machine, seed: u64) -> Self {
        let (clock, ranks) = (Clock::default(), machine.ranks());
        let count = machine.nodes.iter().max().map_or(0, |last| last + 1);
        let on_node = |node: usize, before: usize| machine.nodes[..before].iter().filter(|of| **of == node).count();
        let nodes = (0..count).map(|node| {
            let members = (0..ranks).filter(|rank| machine.nodes[*rank] == node).collect();
            NodeMemory::new(members, machine.habits, clock.clone(), seed ^ 0x6e6f_6465 ^ node as u64)
        });
        set_ticks_per_look(machine.ticks_per_look);
        Self {
            moments: Moments::new(seed ^ 0x6d6f, machine.turns, machine.contended),
            memory: InProcess::new(),
            network: Network::new(&machine.wires, ranks, machine.media().len(), clock.clone(), seed ^ 0x77),
            nodes: nodes.collect(),
            local_ranks: (0..ranks).map(|rank| on_node(machine.nodes[rank], rank)).collect(),
            entered: Rc::default(),
            windows: Windows::default(),
            clock,
        }
    }

    /// The number of processes on a node.
    pub(super) fn places_on(&self, node: usize) -> usize {
        self.nodes[node].borrow().neighbours.len()
    }

    /// The process id by which other processes name a process when they copy its memory.
    pub(super) fn pid(rank: usize) -> i32 {
        rank as i32 + 100
    }

    fn route(&self, machine: &Machine, own: usize, peer: usize) -> Route {
        if machine.nodes[own] == machine.nodes[peer] {
            return Route::Shared(self.local_ranks[peer]);
        }
        let paths: Vec<(RailCarrier, CarrierPath)> = machine
            .media()
            .into_iter()
            .zip(0..)
            .map(|(medium, index)| {
                let (role, rail) = medium.role_and_rail();
                let carrier = RailCarrier { role, rail, ends: Ends { own: rail, peer: rail }, standby: false };
                (carrier, CarrierPath { carrier: CarrierId(index), to: address(peer, medium) })
            })
            .collect();
        let placement = machine.wires.ordered.and_then(|ordered| ordered.placing).map(Placing::placement);
        let placement = placement.filter(|_| !machine.sealed);
        let settings = Settings {
            packet_size: machine.wires.packet_size,
            window_packets: machine.window_packets,
            sealed: machine.sealed,
            peer_timeout: machine.peer_timeout,
            keepalive: Duration(machine.peer_timeout.0 / 8),
            ..Settings::default()
        };
        Route::Remote(Box::new(match &paths[..] {
            [paths @ .., (_, streams)] if machine.wires.ordered.is_some_and(|ordered| ordered.beside) => {
                let remote = Remote::new(paths, settings);
                let long_path = machine.wires.ordered.and_then(|ordered| ordered.long_path);
                let remote = match placement {
                    Some(placement) => remote.with_remote_memory(*streams, placement),
                    None => remote,
                };
                match long_path.filter(|_| placement.is_some()) {
                    Some((packet_size, long_path)) => remote.with_long_path(packet_size, long_path),
                    None => remote,
                }
            }
            [(carrier, carrier_path)] if machine.wires.ordered.is_some() => {
                Remote::connected(*carrier, *carrier_path, placement, settings)
            }
            _ => Remote::new(&paths, settings),
        }))
    }

    /// Creates the engine of a process.
    pub(super) fn engine(&self, machine: &Machine, own: usize, secret: Secret) -> SimEngine {
        let ranks = machine.ranks();
        let node = machine.nodes[own];
        let locals = machine.nodes.iter().filter(|of| **of == node).count();
        let copies = |peer: usize| machine.single_copy && machine.nodes[peer] == node;
        let media = if machine.is_alone() { Vec::new() } else { machine.media() };
        let carrier = |(index, medium)| Box::new(self.network.device(own, index, medium)) as carriers::BoxedCarrier;
        let host = |peer: usize| Some(format!("node{}", machine.nodes[peer]).into());
        let mut engine = Engine::new(Parts {
            platform: Virtual { clock: self.clock.clone(), moments: self.moments.clone() },
            name: ProcessName::of_only_job(own as u32),
            host: host(own),
            node: (locals > 1)
                .then(|| SimNode::new(self.nodes[node].clone(), self.local_ranks[own], self.moments.clone())),
            memory: self.memory.clone(),
            carriers: carriers::Carriers::new(media.into_iter().enumerate().map(carrier).collect()),
            secret,
            // The built-in value stands for a setting of `auto`: carriers that write to memory may then
            // have a limit of their own.
            eager_limit: (machine.eager_limit != EAGER_LIMIT).then_some(machine.eager_limit),
            costs: machine.costs[own],
            unexpected_bytes: UNEXPECTED_BYTES,
            peer_timeout: machine.peer_timeout,
        });
        for peer in (0..ranks).filter(|peer| *peer != own) {
            let process = if copies(peer) { Self::pid(peer) } else { 0 };
            let route = self.route(machine, own, peer);
            let name = ProcessName::of_only_job(peer as u32);
            engine.add_peer(NewPeer { name, own_index: own as u32, route, process, host: host(peer) });
        }
        engine
    }
}

/// Joins the multicast group of a communicator with this context, if the network has groups and the
/// communicator more than one node.
pub(super) fn join_group(engine: &mut SimEngine, machine: &Machine, own: usize, comm: &Comm, context: u32) {
    let Some(multicast) = machine.wires.multicast.filter(|_| comm.members.contains(&own)) else { return };
    let members = members(&machine.nodes, &comm.members);
    if members.iter().all(|member| *member == 0) {
        return;
    }
    let processes: Vec<PeerId> = comm.members.iter().map(|rank| peer_id(engine, *rank)).collect();
    let own = peer_id(engine, own);
    let new = NewGroup {
        context,
        generation: 0,
        processes: Group::new(processes, own),
        members,
        paths: AddressKind::ALL.map(|kind| kind == AddressKind::Udp),
        packet_size: machine.wires.packet_size,
        window: multicast.window,
        scheme: multicast.scheme,
        peer_timeout: machine.peer_timeout,
    };
    engine.multicasts().join_group(new).expect("every process that is simulated has a carrier with groups");
}

/// The slot of a communicator in the memory of its nodes. The first communicators of a program have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// No process of the communicator has one.
    None,
    /// The communicator has one, but this process has no neighbours.
    Elsewhere,
    /// The slot.
    Here(u32),
}

impl Slot {
    /// Opens the slot of the communicator number `which` of a program at the process `own`.
    pub(super) fn open(engine: &mut SimEngine, own: usize, comm: &Comm, context: u32, which: u32) -> Self {
        if !comm.members.contains(&own) || which >= SLOTS as u32 {
            return Self::None;
        }
        if engine.slots().communicators == 0 {
            return Self::Elsewhere;
        }
        let processes = comm.members.iter().map(|rank| peer_id(engine, *rank)).collect();
        let group = Group::new(processes, peer_id(engine, own));
        engine.node_collectives().open_slot(which, context, &group);
        Self::Here(which)
    }

    /// The number of the slot, if this process has it.
    pub(super) fn number(self) -> Option<u32> {
        match self {
            Self::Here(number) => Some(number),
            Self::None | Self::Elsewhere => None,
        }
    }
}

/// The name of a process in an engine.
pub(super) fn peer_id(engine: &SimEngine, rank: usize) -> PeerId {
    engine.peers.find(rank as u32).expect("all processes of a job know each other")
}
