//! Collective operations that fail at one process.
//!
//! All processes come to an end, and later messages are not disturbed. MPI-5.0 §6.4 requires that processes
//! describe equal amounts of data; a program that breaks this rule must be told.

mod queue;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use weft_core::flow::Settings;
use weft_core::layout::{Element, Layout};
use weft_core::matching::Envelope;
use weft_core::process::ProcessName;
use weft_core::reduce::Op;
use weft_engine::arguments::{Arguments, Bound, CollectiveScope, Datatype, Operation, SharedDatatype};
use weft_engine::carriers::{Carriers, Remote};
use weft_engine::engine::Parts;
use weft_engine::error::{Error, ErrorClass};
use weft_engine::group::Group;
use weft_engine::memory::SharedBuffer;
use weft_engine::peers::Route;
use weft_engine::protocols::CostModel;
use weft_engine::request::{Mode, Receive, Request, Send, State};
use weft_engine::schedules::{Cursor, Progress};
use weft_net::shared;
use weft_net::single_copy::SingleCopy;
use weft_plan::collective::select::{
    AllgatherAlgorithm, AllreduceAlgorithm, BcastAlgorithm, GatherAlgorithm, ReduceAlgorithm, ScanAlgorithm, Tree,
};
use weft_plan::collective::{self as core, ElementShape, Items, Schedule};

use queue::{Engine, Machine, PACKET_SIZE, Queue, Wire, add_peers, engine, id, pass, udp_carrier};

const CONTEXT: u32 = 8;
const EAGER_LIMIT: u64 = 8_000;
/// The number of passes in which every operation must have ended; it takes some hundreds.
const PASSES_MAX: usize = 200_000;

/// Makes the engines of `count` processes, each on a node of its own.
fn apart(count: usize) -> Vec<Engine> {
    let wire: Wire = Arc::new(Mutex::new(vec![VecDeque::new(); count]));
    let settings = Settings { packet_size: PACKET_SIZE, ..Settings::default() };
    let route = |own: usize, peer: usize| {
        let address = SocketAddr::from(([127, 0, 0, 1], peer as u16));
        let remote = || Route::Remote(Box::new(Remote::new(&[udp_carrier(address)], settings.clone())));
        if peer == own { Route::Myself } else { remote() }
    };
    let one = |own: usize| {
        let carriers = Carriers::new(vec![Box::new(Queue::new(own, &wire))]);
        let routes = (0..count).map(|peer| route(own, peer)).collect();
        engine(own, routes, carriers, EAGER_LIMIT, settings.peer_timeout)
    };
    (0..count).map(one).collect()
}

/// The size of a ring that messages fill before they use up the credit of their sender.
const RING_BYTES: usize = 256 << 10;

/// Makes the engines of `count` processes on one node, where messages go through rings.
fn together(count: usize) -> Vec<Engine> {
    static JOBS: AtomicUsize = AtomicUsize::new(0);
    let key = format!("given-up-{}-{}", std::process::id(), JOBS.fetch_add(1, Ordering::Relaxed));
    let one = |own: usize| {
        let settings = shared::Settings { ring_bytes_max: RING_BYTES, ..shared::Settings::default() };
        let mut engine = Engine::new(Parts {
            platform: Machine,
            memory: SingleCopy,
            name: ProcessName::of_only_job(own as u32),
            host: None,
            node: Some(shared::Node::create(&key, own, count, &settings).unwrap()),
            carriers: Carriers::NONE,
            secret: weft_core::wire::Secret::new([7; 16]),
            eager_limit: None,
            costs: CostModel::BUILT_IN,
            unexpected_bytes: 0,
            peer_timeout: weft_core::time::Duration::default(),
        });
        let route = |peer: usize| if peer == own { Route::Myself } else { Route::Shared(peer) };
        add_peers(&mut engine, own, (0..count).map(route).collect(), 0);
        engine
    };
    (0..count).map(one).collect()
}

/// 64-bit integers.
struct Integers(Layout, AtomicUsize);

impl Datatype for Integers {
    fn layout(&self) -> &Layout {
        &self.0
    }

    fn element(&self) -> Option<Element> {
        Some(Element::Int64)
    }

    fn handle(&self) -> &AtomicUsize {
        &self.1
    }
}

/// A function that plans the part of a rank, given the number of ranks and of items.
type Plan = Box<dyn Fn(u32, u32, u64) -> Schedule>;

fn items(count: u64) -> Items {
    Items { count, shape: ElementShape { extent: 8, true_lb: 0, true_extent: 8, size: 8, contiguous: true } }
}

/// The operations, each by an algorithm. With one item less no process has other partners.
fn plans() -> Vec<(String, Plan)> {
    let mut plans: Vec<(String, Plan)> = Vec::new();
    let trees = [
        (Tree::BINOMIAL, u64::MAX),
        (Tree::Linear, u64::MAX),
        (Tree::Chain, 4_000),
        (Tree::KNomial { radix: 3 }, 4_000),
        (Tree::KAry { arity: 2 }, 4_000),
        (Tree::DoubleBinary, 4_000),
    ];
    for (tree, segment_bytes) in trees {
        let name = |operation| format!("{operation} by {tree:?}");
        let all =
            |rank, size, count| core::Allreduce { rank, size, items: items(count), commutative: true, in_place: false };
        plans.push((
            name("bcast"),
            Box::new(move |rank, size, count| {
                let arguments = core::Bcast { rank, size, root: 0, items: items(count) };
                core::bcast_with(&arguments, BcastAlgorithm::Tree { tree, segment_bytes })
            }),
        ));
        plans.push((
            name("reduce"),
            Box::new(move |rank, size, count| {
                let items = items(count);
                let arguments = core::Reduce { rank, size, root: 0, items, commutative: true, in_place: false };
                core::reduce_with(&arguments, ReduceAlgorithm::Tree { tree, segment_bytes })
            }),
        ));
        plans.push((
            name("allreduce"),
            Box::new(move |rank, size, count| {
                core::allreduce_with(&all(rank, size, count), AllreduceAlgorithm::Tree { tree, segment_bytes })
            }),
        ));
    }
    let all =
        |rank, size, count| core::Allreduce { rank, size, items: items(count), commutative: true, in_place: false };
    for algorithm in [AllreduceAlgorithm::Doubling, AllreduceAlgorithm::Halving, AllreduceAlgorithm::Ring] {
        let plan = move |rank, size, count| core::allreduce_with(&all(rank, size, count), algorithm);
        plans.push((format!("allreduce by {algorithm:?}"), Box::new(plan)));
    }
    for algorithm in [ScanAlgorithm::Doubling, ScanAlgorithm::Chain { segment_bytes: 4_000 }] {
        let plan = move |rank, size, count| core::scan_with(&all(rank, size, count), algorithm);
        plans.push((format!("scan by {algorithm:?}"), Box::new(plan)));
    }
    for algorithm in [BcastAlgorithm::ScatterRing, BcastAlgorithm::ScatterDissemination] {
        let plan = move |rank, size, count| {
            core::bcast_with(&core::Bcast { rank, size, root: 0, items: items(count) }, algorithm)
        };
        plans.push((format!("bcast by {algorithm:?}"), Box::new(plan)));
    }
    for algorithm in [AllgatherAlgorithm::Ring, AllgatherAlgorithm::Dissemination, AllgatherAlgorithm::Linear] {
        let plan = move |rank, size, count| {
            let (send, receive) = (items(count / 8), items(count / 8));
            core::allgather_with(&core::Allgather { rank, size, send, receive, in_place: false }, algorithm)
        };
        plans.push((format!("allgather by {algorithm:?}"), Box::new(plan)));
    }
    for algorithm in [GatherAlgorithm::Linear, GatherAlgorithm::BINOMIAL] {
        let both = |rank, size, count: u64| {
            let (send, receive) = (items(count / 8), items(count / 8));
            core::Gather { rank, size, root: 0, send, receive, in_place: false }
        };
        let gather = move |rank, size, count| core::gather_with(&both(rank, size, count), algorithm);
        let scatter = move |rank, size, count| core::scatter_with(&both(rank, size, count), algorithm);
        plans.push((format!("gather by {algorithm:?}"), Box::new(gather)));
        plans.push((format!("scatter by {algorithm:?}"), Box::new(scatter)));
    }
    plans
}

/// The part of a rank in an operation.
struct Part {
    cursor: Option<Cursor>,
    receive: SharedBuffer,
    outcome: Option<Result<(), Error>>,
    _send: SharedBuffer,
}

impl Part {
    fn start(engines: &[Engine], rank: usize, schedule: Schedule, bytes: usize, tag: i32) -> Self {
        let (send, receive) = (SharedBuffer::new(bytes), SharedBuffer::new(bytes));
        let content: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        send.write(0, &content);
        if rank == 0 {
            receive.write(0, &content);
        }
        let of: SharedDatatype = Arc::new(Integers(Layout::element(Element::Int64), AtomicUsize::new(0)));
        let arguments = Arguments {
            send: send.address(0),
            receive: receive.address(0),
            send_type: Some(of.clone()),
            receive_type: Some(of),
            send_types: Vec::new(),
            receive_types: Vec::new(),
            operation: Some(Operation::Predefined(Op::Sum)),
        };
        let own = &engines[rank];
        let group = Group::new((0..engines.len()).map(|peer| id(own, peer)).collect(), id(own, rank));
        let rank = rank as u32;
        let scope =
            CollectiveScope { communicator: 0, context: CONTEXT + 1, tag, group, rank, sources: None, turn: None };
        let cursor = Cursor::new(scope, Arc::new(Bound::shared(schedule, arguments))).unwrap();
        Self { cursor: Some(cursor), receive, outcome: None, _send: send }
    }

    fn advance(&mut self, engine: &mut Engine) {
        let Some(cursor) = &mut self.cursor else { return };
        self.outcome = match cursor.advance(engine) {
            Progress::Waits => return,
            Progress::Complete => Some(Ok(())),
            Progress::Failed(error) => Some(Err(error)),
        };
        self.cursor.take().into_iter().for_each(|cursor| cursor.abandon(engine));
    }
}

fn work(engines: &mut [Engine], what: &str, mut is_done: impl FnMut(&mut [Engine]) -> bool) {
    for _ in 0..PASSES_MAX {
        if is_done(engines) {
            return;
        }
        engines.iter_mut().for_each(pass);
    }
    panic!("{what}: somebody waits for ever");
}

/// Checks that each message that follows finds its receive.
fn check_that_all_can_talk(engines: &mut [Engine], tag: i32, what: &str) {
    let size = engines.len();
    let memory = SharedBuffer::new(100);
    let mut handles = Vec::new();
    for (from, to) in (0..size).flat_map(|from| (0..size).map(move |to| (from, to))).filter(|(from, to)| from != to) {
        let peer = Some(id(&engines[to], from));
        let (source, data) = (Some(from as u32), memory.describe_all());
        let receive =
            Receive { context: Some(CONTEXT), source, peer, tag: Some(tag), data: data.clone(), blocking: false };
        let received = engines[to].messages.add(State::Posted(receive), 0).unwrap();
        engines[to].start_receive(received);
        let envelope = Envelope { context: CONTEXT, source: from as u32, tag };
        let peer = Some(id(&engines[from], to));
        let sent = engines[from]
            .messages
            .add(State::Queued(Send { peer, envelope, data, mode: Mode::Standard, blocking: false }), 0);
        engines[from].start_send(sent.unwrap());
        handles.push((to, received));
    }
    let is_complete = |engine: &Engine, handle| engine.messages.requests.get(handle).is_none_or(Request::is_complete);
    work(engines, what, |engines| handles.iter().all(|(to, handle)| is_complete(&engines[*to], *handle)));
}

fn try_all(engines: &mut [Engine], counts: &[u64]) {
    let size = engines.len() as u32;
    let mut tag = 0;
    for (name, plan) in plans() {
        for (count, odd) in counts.iter().flat_map(|count| (1..size).map(move |odd| (*count, odd))) {
            tag += 1;
            let what = format!("{name}, {count} items, rank {odd} of {size} has fewer");
            // Blocks of allgather, gather and scatter are an eighth of that.
            let fewer = count - 8;
            let bytes = count as usize * 8;
            let part = |rank: u32| {
                let count = if rank == odd { fewer } else { count };
                Part::start(engines, rank as usize, plan(rank, size, count), bytes, tag)
            };
            let mut parts: Vec<Part> = (0..size).map(part).collect();
            work(engines, &what, |engines| {
                parts.iter_mut().zip(engines).for_each(|(part, engine)| part.advance(engine));
                parts.iter().all(|part| part.outcome.is_some())
            });
            for (rank, part) in parts.iter().enumerate() {
                match part.outcome.as_ref() {
                    Some(Err(error)) => assert_eq!(error.class, ErrorClass::Truncate, "{what}: rank {rank}: {error}"),
                    // A process that is not told of the failure has all data.
                    Some(Ok(())) if name.starts_with("bcast") && rank != odd as usize => {
                        let expected: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
                        assert!(part.receive.equals(0, &expected), "{what}: rank {rank} has other bytes");
                    }
                    _ => {}
                }
            }
            if name.starts_with("bcast") {
                assert!(matches!(parts[odd as usize].outcome, Some(Err(_))), "{what}: it was not told");
            }
            check_that_all_can_talk(engines, tag, &what);
        }
    }
}

#[test]
fn everybody_ends_when_one_has_room_for_less_over_a_network() {
    try_all(&mut apart(5), &[24, 1_600, 6_000]);
}

#[test]
fn everybody_ends_when_one_has_room_for_less_on_a_node() {
    try_all(&mut together(5), &[24, 1_600, 6_000, 20_000]);
}

#[test]
fn a_message_of_which_a_piece_has_left_is_abandoned_and_the_next_ones_arrive() {
    let mut all = together(2);
    let memory = SharedBuffer::new(44_000);
    let send = |engine: &mut Engine| {
        let peer = Some(id(engine, 1));
        let envelope = Envelope { context: CONTEXT, source: 0, tag: 0 };
        let data = memory.describe_all();
        let send = Send { peer, envelope, data, mode: Mode::Standard, blocking: true };
        let handle = engine.messages.add(State::Queued(send), 0).unwrap();
        engine.start_send(handle);
        handle
    };
    // No engine takes anything out of the ring, so the last of these messages comes to rest in the middle.
    let is_half_sent = |engine: &Engine, handle| {
        let state = engine.messages.requests.get(handle).map(|request| &request.state);
        matches!(state, Some(State::Sending { region: None, .. }))
    };
    let sender = &mut all[0];
    let sent: Vec<usize> = (0..100).map(|_| send(sender)).collect();
    let half_sent = sent.into_iter().find(|handle| is_half_sent(sender, *handle)).expect("a ring has an end");
    sender.abandon_receive(half_sent);
    check_that_all_can_talk(&mut all, 1, "behind an abandoned message");
    assert!(all.iter().all(|engine| engine.messages.malformed_frames == 0));
    assert!(all[0].messages.requests.get(half_sent).is_none(), "nobody asks for it any more");
}
