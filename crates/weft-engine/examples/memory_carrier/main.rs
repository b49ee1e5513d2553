//! A carrier through memory (`carrier.rs`), and two engines that exchange messages over it: the model for
//! other carriers (docs/carriers.md). `cargo run -p weft-engine --example memory_carrier`
#![forbid(unsafe_code)]

pub(crate) mod carrier;

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weft_core::flow::{Counters, Settings};
use weft_core::matching::Envelope;
use weft_core::path_validation::Ends;
use weft_core::process::ProcessName;
use weft_core::rails::RailCarrier;
use weft_core::time::{Duration, Instant};
use weft_engine::carriers::{CarrierId, CarrierPath, Carriers, Remote};
use weft_engine::engine::{Engine, Parts};
use weft_engine::layout::{Element, Layout};
use weft_engine::memory::{InProcess, SharedBuffer};
use weft_engine::peers::{NewPeer, Route};
use weft_engine::protocols::CostModel;
use weft_engine::request::{Mode, Receive, Request, Send, State};
use weft_engine::transport::{Address, Carrier, Delivery, EthernetAddress, Platform};

use carrier::{MemoryCarrier, Wire};

/// A machine that has this carrier only, and a time that passes when it is told to.
struct Machine(Arc<AtomicU64>);

impl Platform for Machine {
    type Node = Infallible;
    type Memory = InProcess;

    fn now(&self) -> Instant {
        Instant(self.0.load(Ordering::Relaxed))
    }

    fn is_contended(&self) -> bool {
        false
    }

    /// No ring is written, so no copy is timed.
    fn ticks() -> u64 {
        0
    }
}

/// The address of an end of the carrier.
pub(crate) fn address(end: usize) -> Address {
    EthernetAddress { mac: [2, 0, 0, 0, 0, end as u8], port: end as u16 }.into()
}

/// Makes the engine of the process `own` of two, with its carrier.
fn engine(own: usize, wire: &Arc<Mutex<Wire>>, time: &Arc<AtomicU64>, loss_percent: u64, seed: u64) -> Engine<Machine> {
    let carrier = MemoryCarrier::new(own, wire, loss_percent, seed);
    let attributes = *carrier.attributes();
    let peer = 1 - own;
    let settings = Settings { packet_size: attributes.packet_size, ..Settings::default() };
    let mut engine = Engine::new(Parts {
        platform: Machine(time.clone()),
        memory: InProcess::new(),
        name: ProcessName::of_only_job(own as u32),
        host: None,
        node: None,
        carriers: Carriers::new(vec![Box::new(carrier)]),
        secret: weft_core::wire::Secret::new([7; 16]),
        eager_limit: None,
        costs: CostModel::BUILT_IN,
        unexpected_bytes: 0,
        peer_timeout: settings.peer_timeout,
    });
    let rail = RailCarrier { role: attributes.role(), rail: 0, ends: Ends::default(), standby: false };
    let carrier_path = CarrierPath { carrier: CarrierId(0), to: address(peer) };
    let remote = match attributes.delivery {
        Delivery::Ordered => Remote::connected(rail, carrier_path, attributes.remote_memory, settings),
        Delivery::Unreliable => Remote::new(&[(rail, carrier_path)], settings),
    };
    let route = Route::Remote(Box::new(remote));
    let name = ProcessName::of_only_job(peer as u32);
    engine.add_peer(NewPeer { name, own_index: own as u32, route, process: 0, host: None });
    engine
}

/// The sizes of the messages that each process sends to the other, in bytes: some fit one packet, some take
/// several, some are announced.
const SIZES: [usize; 6] = [0, 1, 1_000, 20_000, 100_000, 1 << 20];
/// The time that passes between two looks at the carrier.
const PASS: Duration = Duration::from_micros(10);
/// The time after which an incomplete message will never complete.
const TIME_MAX: Duration = Duration::from_secs(600);

/// A message on its way.
struct Exchange {
    from: usize,
    sending: usize,
    receiving: usize,
    content: Vec<u8>,
    /// The data of the send, until it is complete.
    _source: SharedBuffer,
    target: SharedBuffer,
}

fn start(engines: &mut [Engine<Machine>; 2], from: usize, tag: usize) -> Exchange {
    let (bytes, byte, context) = (SIZES[tag], Layout::element(Element::UInt8), 8);
    let content: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 251 + tag * 31 + from) as u8).collect();
    let (source, target) = (SharedBuffer::new(bytes), SharedBuffer::new(bytes));
    source.write(0, &content);
    target.write(0, &vec![!0; bytes]);
    let receiver = &mut engines[1 - from];
    let receive = Receive {
        context: Some(context),
        source: Some(from as u32),
        peer: receiver.peers.find(from as u32),
        tag: Some(tag as i32),
        data: target.describe(0, bytes as u64, &byte),
        blocking: false,
    };
    let receiving = receiver.messages.add(State::Posted(receive), 0).expect("there is room for requests");
    receiver.start_receive(receiving);
    let sender = &mut engines[from];
    let send = Send {
        peer: sender.peers.find(1 - from as u32),
        envelope: Envelope { context, source: from as u32, tag: tag as i32 },
        data: source.describe(0, bytes as u64, &byte),
        mode: Mode::Standard,
        blocking: false,
    };
    let sending = sender.messages.add(State::Queued(send), 0).expect("there is room for requests");
    sender.start_send(sending);
    Exchange { from, sending, receiving, content, _source: source, target }
}

fn is_complete(engine: &Engine<Machine>, request: usize) -> bool {
    engine.messages.requests.get(request).is_none_or(Request::is_complete)
}

/// The counts of one end: packets, and writes to memory of the other end.
pub(crate) type Counted = (Counters, u64);

/// Exchanges the messages while this many of a hundred packets are lost; returns the counts of both ends.
///
/// # Panics
/// When a message does not arrive, or not as it was sent.
pub(crate) fn run(loss_percent: u64, seed: u64) -> [Counted; 2] {
    let (wire, time) = (Arc::default(), Arc::default());
    let mut engines = [0, 1].map(|own| engine(own, &wire, &time, loss_percent, seed));
    let all: Vec<(usize, usize)> = (0..SIZES.len()).flat_map(|tag| [(0, tag), (1, tag)]).collect();
    let exchanges: Vec<Exchange> = all.iter().map(|&(from, tag)| start(&mut engines, from, tag)).collect();
    let is_over = |one: &Exchange, engines: &[Engine<Machine>; 2]| {
        is_complete(&engines[one.from], one.sending) && is_complete(&engines[1 - one.from], one.receiving)
    };
    while !exchanges.iter().all(|one| is_over(one, &engines)) {
        let now = time.fetch_add(PASS.as_nanos(), Ordering::Relaxed);
        assert!(now < TIME_MAX.as_nanos(), "messages have not arrived after {} s", TIME_MAX.as_micros() / 1_000_000);
        for engine in &mut engines {
            engine.progress();
        }
    }
    for Exchange { from, receiving, content, target, .. } in &exchanges {
        let request = engines[1 - from].messages.requests.get(*receiving).expect("nobody has freed it");
        assert!(request.error.is_none(), "{:?}", request.error);
        assert_eq!(request.status.bytes, content.len() as u64);
        assert!(target.equals(0, content), "a message of {} bytes has changed on its way", content.len());
    }
    engines.map(|engine| (engine.counters(), engine.messages.remote_writes))
}

fn main() {
    for loss_percent in [0, 10] {
        let ends = run(loss_percent, 1);
        println!("{loss_percent} % of all packets are lost: {} messages arrived whole", 2 * SIZES.len());
        for (own, (counters, writes)) in ends.iter().enumerate() {
            let Counters { packets_sent, packets_received, data_packets_sent, probes, duplicates, .. } = counters;
            println!(
                "  process {own}: {packets_sent} packets sent, {data_packets_sent} of them with data for the first time, {} \
                 retransmitted; {probes} probes; {packets_received} packets received, {duplicates} twice; {writes} writes to memory",
                counters.resent()
            );
        }
    }
}
