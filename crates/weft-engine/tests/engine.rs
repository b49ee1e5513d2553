//! Several engines in one thread, over a network that loses, repeats and reorders packets, play random
//! programs of sends and receives. The tests check what MPI promises (MPI-5.0 §3.5): every message arrives
//! once, and messages that could match the same receive arrive in the order of their sends.

mod queue;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use weft_core::flow::Settings;
use weft_core::grants::UNDER_WAY_MAX;
use weft_core::matching::Envelope;
use weft_core::process::ProcessName;
use weft_core::rails::RailCarrier;
use weft_engine::carriers::{CarrierPath, Carriers, Remote};
use weft_engine::engine::Parts;
use weft_engine::error::ErrorClass;
use weft_engine::memory::UserData;
use weft_engine::messages::CREDIT_BYTES;
use weft_engine::peers::{NewPeer, Route};
use weft_engine::protocols::CostModel;
use weft_engine::request::{Mode, Receive, Request, Send, State};
use weft_engine::transport::{Address, Arrival, Carrier, CarrierAttributes, Diagnostics, Outcome, send_one_by_one};
use weft_net::faults::{Faults, Plan};
use weft_net::shared;
use weft_net::single_copy::SingleCopy;

use queue::{Engine, Machine, PACKET_SIZE, Queue, Wire, add_peers, engine, id, pass, udp_carrier};

const CONTEXT: u32 = 8;
const TIME_LIMIT: Duration = Duration::from_secs(60);

fn engines(count: usize, faults: &str, eager_limit: u64) -> Vec<Engine> {
    impatient_engines(count, faults, eager_limit, Settings::default().peer_timeout)
}

/// Makes engines that give a peer up after this much silence.
fn impatient_engines(
    count: usize,
    faults: &str,
    eager_limit: u64,
    peer_timeout: weft_core::time::Duration,
) -> Vec<Engine> {
    let wire: Wire = Arc::new(Mutex::new(vec![VecDeque::new(); count]));
    (0..count)
        .map(|own| {
            let keepalive = weft_core::time::Duration(peer_timeout.0 / 8);
            let settings = Settings { packet_size: PACKET_SIZE, peer_timeout, keepalive, ..Settings::default() };
            let path = |peer: usize| {
                let address = SocketAddr::from(([127, 0, 0, 1], peer as u16));
                if peer == own {
                    Route::Myself
                } else {
                    Route::Remote(Box::new(Remote::new(&[udp_carrier(address)], settings.clone())))
                }
            };
            let mut plan = Plan::parse(faults).unwrap();
            plan.seed += own as u64;
            let queue = Faults::new(Queue::new(own, &wire), plan);
            let carriers = Carriers::new(vec![Box::new(queue)]);
            engine(own, (0..count).map(path).collect(), carriers, eager_limit, peer_timeout)
        })
        .collect()
}

#[derive(Clone, Copy, Debug)]
struct Message {
    from: usize,
    to: usize,
    tag: i32,
    bytes: usize,
    mode: Mode,
    /// Set if the receive is posted before any send of the sender starts.
    early: bool,
    any_source: bool,
    any_tag: bool,
}

fn message(count: usize) -> impl Strategy<Value = Message> {
    let mode = prop_oneof![3 => Just(Mode::Standard), 1 => Just(Mode::Synchronous)];
    let bytes = prop_oneof![0_usize..100, 400_usize..5_000, 20_000_usize..80_000];
    (0..count, 0..count, 0..3_i32, bytes, mode, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(from, to, tag, bytes, mode, early, any_source, any_tag)| Message {
            from,
            to,
            tag,
            bytes,
            mode,
            early,
            any_source,
            any_tag,
        },
    )
}

/// The bytes of message `number`: its number, then a pattern.
fn content(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| if at < 4 { (number >> (8 * at)) as u8 } else { (number * 31 + at * 7) as u8 }).collect()
}

struct Posted {
    process: usize,
    handle: usize,
    memory: RefCell<Vec<u8>>,
}

/// The room of every receive: enough for the largest message, so that wildcards may take any.
const ROOM: usize = 80_000;

fn post(engines: &mut [Engine], message: &Message) -> Posted {
    let mut memory = vec![0; ROOM];
    // SAFETY: the vector's memory stays where it is and lives as long as the test.
    let data = unsafe { UserData::from_bytes(memory.as_mut_ptr(), ROOM as u64) };
    let receive = Receive {
        context: Some(CONTEXT),
        source: (!message.any_source).then_some(message.from as u32),
        peer: (!message.any_source).then(|| id(&engines[message.to], message.from)),
        tag: (!message.any_tag).then_some(message.tag),
        data,
        blocking: false,
    };
    let engine = &mut engines[message.to];
    let handle = engine.messages.add(State::Posted(receive), 0).unwrap();
    engine.start_receive(handle);
    Posted { process: message.to, handle, memory: RefCell::new(memory) }
}

fn complete(engine: &Engine, handle: usize) -> bool {
    engine.messages.requests.get(handle).is_none_or(Request::is_complete)
}

fn run(count: usize, messages: &[Message], faults: &str, eager_limit: u64) {
    let mut engines = engines(count, faults, eager_limit);
    let mut posted: Vec<Posted> = messages.iter().filter(|m| m.early).map(|m| post(&mut engines, m)).collect();
    let contents: Vec<Vec<u8>> = messages.iter().enumerate().map(|(number, m)| content(number, m.bytes)).collect();
    let mut sends = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        let start = contents[number].as_ptr().cast_mut();
        // SAFETY: the content outlives the test's engines, and sends only read it.
        let data = unsafe { UserData::from_bytes(start, message.bytes as u64) };
        let envelope = Envelope { context: CONTEXT, source: message.from as u32, tag: message.tag };
        let send = Send {
            peer: Some(id(&engines[message.from], message.to)),
            envelope,
            data,
            mode: message.mode,
            blocking: false,
        };
        let engine = &mut engines[message.from];
        let handle = engine.messages.add(State::Queued(send), 0).unwrap();
        engine.start_send(handle);
        sends.push((message.from, handle));
    }
    engines.iter_mut().for_each(pass);
    posted.extend(messages.iter().filter(|m| !m.early).map(|m| post(&mut engines, m)));
    // A receive with wildcards may take the message of one with an exact envelope. So as many receives must
    // complete as in a maximum matching. In programs whose receives are all exact, all must complete.
    let exact = messages.iter().all(|m| !m.any_source && !m.any_tag);
    let limit = Instant::now() + TIME_LIMIT;
    loop {
        engines.iter_mut().for_each(pass);
        let done = posted.iter().filter(|p| complete(&engines[p.process], p.handle)).count();
        let quiet = engines.iter().all(Engine::is_quiet);
        if quiet && (done == posted.len() || (!exact && engines.iter().all(nothing_can_match))) {
            break;
        }
        assert!(Instant::now() < limit, "{done} of {} receives are complete after {TIME_LIMIT:?}", posted.len());
    }
    check_contents(&engines, &contents, &posted);
    if exact {
        assert!(sends.iter().all(|(process, handle)| complete(&engines[*process], *handle)));
    }
}

/// Returns whether no message that is left at this process matches a receive that is left there.
fn nothing_can_match(engine: &Engine) -> bool {
    // The matcher itself never holds a receive and a message that match. So nothing more will happen in a
    // quiet engine, unless data is still on its way to a receive that has matched.
    engine.messages.requests.iter().all(|(_, request)| !matches!(request.state, State::Receiving { .. }))
}

/// Checks that the arrived bytes are those of messages that were sent, and that none arrived twice.
fn check_contents(engines: &[Engine], contents: &[Vec<u8>], posted: &[Posted]) {
    let mut taken = vec![false; contents.len()];
    for receive in posted {
        let request = engines[receive.process].messages.requests.get(receive.handle).expect("the request is kept");
        if !request.is_complete() {
            continue;
        }
        assert!(request.error.is_none(), "{:?}", request.error);
        let memory = receive.memory.borrow();
        let bytes = &memory[..request.status.bytes as usize];
        let number = (0..contents.len()).find(|number| !taken[*number] && contents[*number] == bytes);
        taken[number.expect("what arrived was never sent, or arrived twice")] = true;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_message_arrives_once_on_a_clean_network(messages in prop::collection::vec(message(3), 1..40)) {
        run(3, &messages, "seed=1", 8_000);
    }

    #[test]
    fn every_message_arrives_once_on_a_bad_network(
        messages in prop::collection::vec(message(2), 1..20), seed in 0_u64..1_000_000,
    ) {
        run(2, &messages, &format!("drop=10%,duplicate=5%,reorder=5%,seed={seed}"), 8_000);
    }

    #[test]
    fn messages_that_match_one_receive_come_in_the_order_of_sending(
        sizes in prop::collection::vec(prop_oneof![4_usize..60, 500_usize..3_000, 9_000_usize..20_000], 2..30),
        early in any::<bool>(), wild in any::<bool>(), seed in 0_u64..1_000_000,
    ) {
        let messages: Vec<Message> = sizes.iter().map(|bytes| Message {
            from: 0, to: 1, tag: 5, bytes: *bytes, mode: Mode::Standard, early, any_source: wild, any_tag: wild,
        }).collect();
        let mut all = engines(2, &format!("drop=5%,reorder=10%,seed={seed}"), 4_000);
        let contents: Vec<Vec<u8>> = sizes.iter().enumerate().map(|(n, bytes)| content(n, *bytes)).collect();
        let mut posted = Vec::new();
        if early {
            posted.extend(messages.iter().map(|m| post(&mut all, m)));
        }
        for (number, bytes) in sizes.iter().enumerate() {
            // SAFETY: the content outlives the engines, and sends only read it.
            let data = unsafe { UserData::from_bytes(contents[number].as_ptr().cast_mut(), *bytes as u64) };
            let envelope = Envelope { context: CONTEXT, source: 0, tag: 5 };
            let peer = Some(id(&all[0], 1));
            let send = Send { peer, envelope, data, mode: Mode::Standard, blocking: false };
            let handle = all[0].messages.add(State::Queued(send), 0).unwrap();
            all[0].start_send(handle);
        }
        if !early {
            posted.extend(messages.iter().map(|m| post(&mut all, m)));
        }
        let limit = Instant::now() + TIME_LIMIT;
        while !posted.iter().all(|p| complete(&all[1], p.handle)) {
            all.iter_mut().for_each(pass);
            prop_assert!(Instant::now() < limit, "receives do not complete");
        }
        for (receive, sent) in posted.iter().zip(&contents) {
            let bytes = all[1].messages.requests.get(receive.handle).unwrap().status.bytes as usize;
            prop_assert_eq!(&receive.memory.borrow()[..bytes], &sent[..]);
        }
    }
}

#[test]
fn a_message_too_long_for_its_receive_is_cut_and_says_so() {
    for bytes in [100_usize, 3_000, 50_000] {
        let mut all = engines(2, "seed=3", 8_000);
        let content = content(1, bytes);
        let mut memory = vec![0_u8; 50];
        // SAFETY: both vectors outlive the engines.
        let (out, into) = unsafe {
            (
                UserData::from_bytes(content.as_ptr().cast_mut(), bytes as u64),
                UserData::from_bytes(memory.as_mut_ptr(), 50),
            )
        };
        let envelope = Envelope { context: CONTEXT, source: 0, tag: 1 };
        let peer = Some(id(&all[0], 1));
        let send = Send { peer, envelope, data: out, mode: Mode::Standard, blocking: false };
        let sent = all[0].messages.add(State::Queued(send), 0).unwrap();
        all[0].start_send(sent);
        let receive = Receive {
            context: Some(CONTEXT),
            source: Some(0),
            peer: Some(id(&all[1], 0)),
            tag: Some(1),
            data: into,
            blocking: false,
        };
        let received = all[1].messages.add(State::Posted(receive), 0).unwrap();
        all[1].start_receive(received);
        let limit = Instant::now() + TIME_LIMIT;
        while !(complete(&all[0], sent) && complete(&all[1], received)) {
            all.iter_mut().for_each(pass);
            assert!(Instant::now() < limit);
        }
        let request = all[1].messages.requests.get(received).unwrap();
        assert_eq!(request.error.as_ref().map(|error| error.class), Some(weft_engine::error::ErrorClass::Truncate));
        assert_eq!(memory, content[..50]);
    }
}

#[test]
fn a_peer_that_never_answers_fails_what_waits_for_it() {
    let wire: Wire = Arc::new(Mutex::new(vec![VecDeque::new(); 2]));
    let settings = Settings {
        packet_size: PACKET_SIZE,
        peer_timeout: weft_core::time::Duration::from_millis(50),
        ..Settings::default()
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut engine = Engine::new(Parts {
        platform: Machine,
        memory: SingleCopy,
        name: ProcessName::of_only_job(0),
        host: None,
        node: None,
        carriers: Carriers::new(vec![Box::new(Queue::new(0, &wire))]),
        secret: weft_core::wire::Secret::new([7; 16]),
        eager_limit: Some(1_000),
        costs: CostModel::BUILT_IN,
        unexpected_bytes: 0,
        peer_timeout: weft_core::time::Duration::default(),
    });
    let remote = Route::Remote(Box::new(Remote::new(&[udp_carrier(address)], settings)));
    add_peers(&mut engine, 0, vec![Route::Myself, remote], 0);
    let peer = id(&engine, 1);
    let receive = Receive {
        context: Some(CONTEXT),
        source: Some(1),
        peer: Some(peer),
        tag: None,
        data: UserData::empty(),
        blocking: false,
    };
    let waiting = engine.messages.add(State::Posted(receive), 0).unwrap();
    engine.start_receive(waiting);
    let envelope = Envelope { context: CONTEXT, source: 0, tag: 1 };
    let send = Send { peer: Some(peer), envelope, data: UserData::empty(), mode: Mode::Synchronous, blocking: false };
    let sent = engine.messages.add(State::Queued(send), 0).unwrap();
    engine.start_send(sent);
    let limit = Instant::now() + TIME_LIMIT;
    while !(complete(&engine, waiting) && complete(&engine, sent)) {
        engine.progress();
        assert!(Instant::now() < limit, "the silent peer is never given up");
    }
    for handle in [waiting, sent] {
        let error = engine.messages.requests.get(handle).unwrap().error.as_ref().expect("an error");
        assert_eq!(error.class, ErrorClass::ProcAborted);
        assert!(error.message.contains("process 1"), "{}", error.message);
    }
}

/// Says that a test is skipped, if this machine does not let processes copy from each other.
fn lacks_single_copy() -> bool {
    let is_available = weft_net::single_copy::available(std::process::id() as i32);
    if !is_available {
        eprintln!("skipped: this machine does not let processes copy from each other");
    }
    !is_available
}

/// Makes engines of one node, in this thread; with single copies unless the machine forbids them.
fn node_engines(count: usize, single_copy: bool) -> Vec<Engine> {
    node_engines_with(count, single_copy, CostModel::BUILT_IN)
}

/// Does the same for engines that believe these costs.
fn node_engines_with(count: usize, single_copy: bool, costs: CostModel) -> Vec<Engine> {
    static JOBS: AtomicUsize = AtomicUsize::new(0);
    let key = format!("engines-{}-{}", std::process::id(), JOBS.fetch_add(1, Ordering::Relaxed));
    let pid = if single_copy { std::process::id() as i32 } else { 0 };
    (0..count)
        .map(|own| {
            let path = |peer: usize| if peer == own { Route::Myself } else { Route::Shared(peer) };
            let node = shared::Node::create(&key, own, count, &shared::Settings::default()).unwrap();
            let mut engine = Engine::new(Parts {
                platform: Machine,
                memory: SingleCopy,
                name: ProcessName::of_only_job(own as u32),
                host: None,
                node: Some(node),
                carriers: Carriers::NONE,
                secret: weft_core::wire::Secret::new([7; 16]),
                eager_limit: None,
                costs,
                unexpected_bytes: 0,
                peer_timeout: weft_core::time::Duration::default(),
            });
            add_peers(&mut engine, own, (0..count).map(path).collect(), pid);
            engine
        })
        .collect()
}

/// A step of the program of two processes: the first sends and the second receives.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send { tag: i32, bytes: usize, mode: Mode },
    Receive { any_source: bool, tag: Option<i32>, room: usize },
    Progress { process: usize },
    Attention { process: usize, waits: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop_oneof![0_usize..100, 12_000_usize..20_000, 30_000_usize..50_000, 90_000_usize..120_000];
    let mode = prop_oneof![3 => Just(Mode::Standard), 1 => Just(Mode::Synchronous)];
    prop_oneof![
        4 => (0..2_i32, bytes(), mode).prop_map(|(tag, bytes, mode)| Step::Send { tag, bytes, mode }),
        4 => (prop::bool::weighted(0.3), prop::option::weighted(0.8, 0..2_i32), bytes())
            .prop_map(|(any_source, tag, room)| Step::Receive { any_source, tag, room }),
        3 => (0..2_usize).prop_map(|process| Step::Progress { process }),
        1 => (0..2_usize, any::<bool>()).prop_map(|(process, waits)| Step::Attention { process, waits }),
    ]
}

/// Computes the message of each receive as MPI promises it between two processes (MPI-5.0 §3.5). Each
/// message, in the order of sending, goes to the earliest matching receive that no message before it has
/// taken.
fn match_naively(steps: &[Step]) -> Vec<Option<usize>> {
    let receives: Vec<Option<i32>> =
        steps.iter().filter_map(|s| if let Step::Receive { tag, .. } = s { Some(*tag) } else { None }).collect();
    let mut taken = vec![None; receives.len()];
    let sends = steps.iter().filter_map(|s| if let Step::Send { tag, .. } = s { Some(*tag) } else { None });
    for (number, tag) in sends.enumerate() {
        let matches = |at: &usize| taken[*at].is_none() && receives[*at].is_none_or(|wanted| wanted == tag);
        if let Some(at) = (0..receives.len()).find(matches) {
            taken[at] = Some(number);
        }
    }
    taken
}

fn run_on_a_node(steps: &[Step], single_copy: bool) {
    let mut all = node_engines(2, single_copy);
    let mut contents: Vec<Vec<u8>> = Vec::new();
    let mut sends = Vec::new();
    let mut posted: Vec<(usize, Vec<u8>)> = Vec::new();
    for step in steps {
        match *step {
            Step::Send { tag, bytes, mode } => {
                contents.push(content(contents.len(), bytes));
                let start = contents.last().unwrap().as_ptr().cast_mut();
                // SAFETY: the content's memory stays where it is until the end, and sends only read it.
                let data = unsafe { UserData::from_bytes(start, bytes as u64) };
                let envelope = Envelope { context: CONTEXT, source: 0, tag };
                let peer = Some(id(&all[0], 1));
                let send = Send { peer, envelope, data, mode, blocking: bytes % 2 == 0 };
                let handle = all[0].messages.add(State::Queued(send), 0).unwrap();
                all[0].start_send(handle);
                sends.push(handle);
            }
            Step::Receive { any_source, tag, room } => {
                let mut memory = vec![0; room];
                // SAFETY: the vector's memory stays where it is until the end.
                let data = unsafe { UserData::from_bytes(memory.as_mut_ptr(), room as u64) };
                let source = (!any_source).then_some(0);
                let blocking = room % 2 == 0;
                let peer = source.map(|_| id(&all[1], 0));
                let receive = Receive { context: Some(CONTEXT), source, peer, tag, data, blocking };
                let handle = all[1].messages.add(State::Posted(receive), 0).unwrap();
                all[1].start_receive(handle);
                posted.push((handle, memory));
            }
            Step::Progress { process } => pass(&mut all[process]),
            Step::Attention { process, waits } => all[process].set_inside_mpi(waits),
        }
    }
    let expected = match_naively(steps);
    let complete = |all: &[Engine]| {
        (0..posted.len()).all(|at| expected[at].is_none() || complete(&all[1], posted[at].0))
            && expected.iter().flatten().all(|number| complete(&all[0], sends[*number]))
    };
    let limit = Instant::now() + TIME_LIMIT;
    while !complete(&all) {
        all.iter_mut().for_each(pass);
        assert!(Instant::now() < limit, "what must match is not complete");
    }
    all.iter_mut().for_each(pass);
    for (at, (handle, memory)) in posted.iter().enumerate() {
        let request = all[1].messages.requests.get(*handle).unwrap();
        let Some(number) = expected[at] else {
            assert!(!request.is_complete(), "receive {at} has a message that is not its own");
            continue;
        };
        let fits = memory.len().min(contents[number].len());
        assert_eq!(request.status.bytes as usize, fits, "receive {at}");
        assert_eq!(request.error.is_some(), fits < contents[number].len(), "truncation of receive {at}");
        assert!(std::hint::black_box(&memory[..fits]) == &contents[number][..fits], "receive {at} has other bytes");
    }
    assert_eq!((all[0].messages.malformed_frames, all[1].messages.malformed_frames), (0, 0));
}

/// A step of a program in which processes 1 and 2 send to process 0.
#[derive(Clone, Copy, Debug)]
enum Crowd {
    Send { from: u32, tag: i32, bytes: usize },
    Receive { source: Option<u32>, tag: Option<i32> },
    Progress { process: usize },
    Attention { process: usize, waits: bool },
}

fn crowd() -> impl Strategy<Value = Crowd> {
    let bytes = prop_oneof![8_usize..100, 16_000_usize..40_000, 90_000_usize..120_000];
    prop_oneof![
        4 => (1..3_u32, 0..2_i32, bytes).prop_map(|(from, tag, bytes)| Crowd::Send { from, tag, bytes }),
        4 => (prop::option::weighted(0.5, 1..3_u32), prop::option::weighted(0.7, 0..2_i32))
            .prop_map(|(source, tag)| Crowd::Receive { source, tag }),
        3 => (0..3_usize).prop_map(|process| Crowd::Progress { process }),
        1 => (0..3_usize, any::<bool>()).prop_map(|(process, waits)| Crowd::Attention { process, waits }),
    ]
}

/// Runs a program of several senders. MPI leaves open which of them a receive from any source hears. So the
/// outcome of the program is checked against MPI's promises (MPI-5.0 §3.5).
fn run_a_crowd(steps: &[Crowd]) {
    let mut all = node_engines(3, true);
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    let mut contents: Vec<Vec<u8>> = Vec::new();
    for step in steps {
        match *step {
            Crowd::Send { from, tag, bytes } => {
                let mut bytes = content(contents.len(), bytes);
                bytes[..8].copy_from_slice(&(contents.len() as u64).to_le_bytes());
                // SAFETY: the content's memory stays where it is until the end, and sends only read it.
                let data = unsafe { UserData::from_bytes(bytes.as_mut_ptr(), bytes.len() as u64) };
                contents.push(bytes);
                let envelope = Envelope { context: CONTEXT, source: from, tag };
                let peer = Some(id(&all[from as usize], 0));
                let send = Send { peer, envelope, data, mode: Mode::Standard, blocking: false };
                let engine = &mut all[from as usize];
                let handle = engine.messages.add(State::Queued(send), 0).unwrap();
                engine.start_send(handle);
                sends.push((from, tag, handle));
            }
            Crowd::Receive { source, tag } => {
                let mut memory = vec![0; 120_000];
                // SAFETY: the vector's memory stays where it is until the end.
                let data = unsafe { UserData::from_bytes(memory.as_mut_ptr(), 120_000) };
                let peer = source.map(|source| id(&all[0], source as usize));
                let receive = Receive { context: Some(CONTEXT), source, peer, tag, data, blocking: false };
                let handle = all[0].messages.add(State::Posted(receive), 0).unwrap();
                all[0].start_receive(handle);
                receives.push((source, tag, handle, memory));
            }
            Crowd::Progress { process } => pass(&mut all[process]),
            Crowd::Attention { process, waits } => all[process].set_inside_mpi(waits),
        }
    }
    let matches = |receive: usize, send: usize| {
        let ((source, tag, ..), (from, sent, _)) = (&receives[receive], &sends[send]);
        source.is_none_or(|source| source == *from) && tag.is_none_or(|tag| tag == *sent)
    };
    // The message of each receive that has one.
    let found = |all: &[Engine]| -> Vec<Option<usize>> {
        let of = |(_, _, handle, memory): &(_, _, usize, Vec<u8>)| {
            let request = all[0].messages.requests.get(*handle).unwrap();
            request.is_complete().then(|| {
                let memory = std::hint::black_box(memory);
                let number = u64::from_le_bytes(memory[..8].try_into().unwrap()) as usize;
                let (from, tag, _) = sends[number];
                assert_eq!((request.status.source, request.status.tag), (from as i32, tag));
                assert_eq!(request.status.bytes as usize, contents[number].len());
                assert!(memory[..contents[number].len()] == contents[number][..], "other bytes");
                number
            })
        };
        receives.iter().map(of).collect()
    };
    let limit = Instant::now() + TIME_LIMIT;
    let taken = loop {
        all.iter_mut().for_each(pass);
        let taken = found(&all);
        let is_free = |send: usize| !taken.contains(&Some(send));
        let open = |at: usize| taken[at].is_none() && (0..sends.len()).any(|send| is_free(send) && matches(at, send));
        let moved = taken.iter().flatten().all(|number| complete(&all[sends[*number].0 as usize], sends[*number].2));
        if moved && !(0..receives.len()).any(open) {
            break taken;
        }
        assert!(Instant::now() < limit, "what must match is not complete: {taken:?}");
    };
    let receive_of = |send: usize| taken.iter().position(|taken| *taken == Some(send));
    for (at, send) in taken.iter().enumerate().filter_map(|(at, send)| Some((at, (*send)?))) {
        assert!(matches(at, send), "receive {at} has message {send}");
        assert_eq!(receive_of(send), Some(at), "message {send} came twice");
        let earlier = (0..send).filter(|other| sends[*other].0 == sends[send].0 && matches(at, *other));
        for other in earlier {
            assert!(receive_of(other).is_some_and(|other| other < at), "message {send} has overtaken message {other}");
        }
        let passed = (0..at).find(|other| taken[*other].is_none() && matches(*other, send));
        assert_eq!(passed, None, "message {send} went to receive {at}");
    }
    assert!(all.iter().all(|engine| engine.messages.malformed_frames == 0));
}

/// A sender writes an announced message to the first of several receives from any source. Before the
/// announcement, a message of another sender is handled, which would have had that receive.   Expect: each
/// message comes once.
#[test]
fn what_is_written_to_a_receive_that_another_message_matches_does_not_come_again() {
    let receive = || Crowd::Receive { source: None, tag: None };
    let send = |from, bytes| Crowd::Send { from, tag: 0, bytes };
    let attention = |waits| Crowd::Attention { process: 0, waits };
    let (first, then) = (
        [receive(), send(2, 8), receive(), receive(), receive()],
        [send(2, 8), Crowd::Progress { process: 1 }, send(1, 8)],
    );
    let announced = [attention(true), send(1, 16384), attention(false)];
    run_a_crowd(&[&first[..], &announced[..], &then[..]].concat());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn on_a_node_messages_of_two_senders_keep_their_order(steps in prop::collection::vec(crowd(), 1..80)) {
        run_a_crowd(&steps);
    }

    #[test]
    fn on_a_node_messages_go_where_a_naive_matcher_sends_them(steps in prop::collection::vec(step(), 1..60)) {
        run_on_a_node(&steps, true);
    }

    #[test]
    fn so_they_do_without_single_copies(steps in prop::collection::vec(step(), 1..40)) {
        run_on_a_node(&steps, false);
    }
}

#[test]
fn a_receiver_that_computes_is_served_by_its_sender_and_the_other_way_round() {
    if lacks_single_copy() {
        return;
    }
    let mut all = node_engines(2, true);
    let (bytes, mut memory) = (content(1, 300_000), vec![0; 300_000]);
    // SAFETY: both vectors live until the end of the test.
    let (from, to) = unsafe {
        let from = UserData::from_bytes(bytes.as_ptr().cast_mut(), 300_000);
        (from, UserData::from_bytes(memory.as_mut_ptr(), 300_000))
    };
    let ends = (id(&all[0], 1), id(&all[1], 0));
    let send = || {
        State::Queued(Send {
            peer: Some(ends.0),
            envelope: Envelope { context: CONTEXT, source: 0, tag: 3 },
            data: from.clone(),
            blocking: false,
            mode: Mode::Standard,
        })
    };
    let receive = || {
        State::Posted(Receive {
            context: Some(CONTEXT),
            source: Some(0),
            peer: Some(ends.1),
            tag: None,
            data: to.clone(),
            blocking: false,
        })
    };
    // The receive is posted and its process computes: the send completes without it.
    let receiving = all[1].messages.add(receive(), 0).unwrap();
    all[1].start_receive(receiving);
    let sending = all[0].messages.add(send(), 0).unwrap();
    all[0].start_send(sending);
    assert!(complete(&all[0], sending) && !complete(&all[1], receiving));
    assert!(std::hint::black_box(&memory) == &bytes);
    all[1].progress();
    assert!(complete(&all[1], receiving));
    // The receiver waits inside MPI: the sender goes on at once, and the receiver completes without it.
    let receiving = all[1].messages.add(receive(), 0).unwrap();
    all[1].start_receive(receiving);
    all[1].set_inside_mpi(true);
    let sending = all[0].messages.add(send(), 0).unwrap();
    all[0].start_send(sending);
    all[1].progress();
    assert!(complete(&all[1], receiving) && !complete(&all[0], sending));
    all[0].progress();
    assert!(complete(&all[0], sending));
}

/// A message of `bytes` bytes from process `from` to process `to`, and the receive for it. Both vectors live
/// as long as the operations.
struct Half {
    content: Vec<u8>,
    memory: Vec<u8>,
    ends: [usize; 2],
}

impl Half {
    fn new(from: usize, to: usize, bytes: usize) -> Self {
        Self { content: content(from, bytes), memory: vec![0; bytes], ends: [from, to] }
    }

    fn send(&self, all: &mut [Engine]) -> usize {
        let [from, to] = self.ends;
        // SAFETY: the vector outlives the operation.
        let data = unsafe { UserData::from_bytes(self.content.as_ptr().cast_mut(), self.content.len() as u64) };
        let envelope = Envelope { context: CONTEXT, source: from as u32, tag: 3 };
        let peer = Some(id(&all[from], to));
        let send = Send { peer, envelope, data, blocking: false, mode: Mode::Standard };
        let handle = all[from].messages.add(State::Queued(send), 0).unwrap();
        all[from].start_send(handle);
        handle
    }

    fn receive(&mut self, all: &mut [Engine]) -> usize {
        let [from, to] = self.ends;
        // SAFETY: as above.
        let data = unsafe { UserData::from_bytes(self.memory.as_mut_ptr(), self.memory.len() as u64) };
        let (source, peer) = (Some(from as u32), Some(id(&all[to], from)));
        let receive = Receive { context: Some(CONTEXT), source, peer, tag: Some(3), data, blocking: false };
        let handle = all[to].messages.add(State::Posted(receive), 0).unwrap();
        all[to].start_receive(handle);
        handle
    }

    fn has_arrived(&self) -> bool {
        std::hint::black_box(&self.memory) == &self.content
    }
}

/// Two processes exchange large messages. The first one has begun and waits inside MPI; the message of the
/// second one is announced after its receive has found the message of the first.   Expect: each process
/// fetches one of the messages, and neither waits until the other has fetched its own. A call that starts an
/// operation copies nothing.
#[test]
fn of_two_processes_that_exchange_messages_each_fetches_one() {
    if lacks_single_copy() {
        return;
    }
    let mut all = node_engines(2, true);
    let (mut there, mut back) = (Half::new(0, 1, 300_000), Half::new(1, 0, 300_000));
    all[0].set_inside_mpi(true);
    let first = [back.receive(&mut all), there.send(&mut all)];
    all[1].progress();
    let second = [there.receive(&mut all), back.send(&mut all)];
    assert!(all[1].owes_copies() && !there.has_arrived());
    all[0].progress();
    assert!(back.has_arrived() && complete(&all[0], first[0]) && !there.has_arrived());
    all[1].progress();
    assert!(there.has_arrived() && !all[1].owes_copies());
    all[0].progress();
    all[1].progress();
    assert!(first.iter().all(|handle| complete(&all[0], *handle)));
    assert!(second.iter().all(|handle| complete(&all[1], *handle)));
}

/// A receive has found its announced message. The receive is abandoned; or the program is known to compute
/// between start and wait; or it computes, and no thread makes passes.   Expect: the message is fetched at
/// once, and its send completes.
#[test]
fn a_message_that_is_to_be_fetched_is_fetched_at_once_where_no_pass_may_follow() {
    if lacks_single_copy() {
        return;
    }
    for case in ["abandoned", "computes", "settled"] {
        let mut all = node_engines(2, true);
        let mut half = Half::new(0, 1, 300_000);
        if case == "computes" {
            let mut before = Half::new(0, 1, 300_000);
            let handles = [before.receive(&mut all), before.send(&mut all)];
            std::thread::sleep(std::time::Duration::from_millis(2));
            all[1].note_wait();
            work(&mut all, |all| complete(&all[1], handles[0]) && complete(&all[0], handles[1]));
        }
        let sent = half.send(&mut all);
        all[1].progress();
        let received = half.receive(&mut all);
        assert_eq!(all[1].owes_copies(), case != "computes");
        match case {
            "abandoned" => all[1].abandon_receive(received),
            "settled" => all[1].settle_copies(),
            _ => {}
        }
        assert!(half.has_arrived(), "{case}");
        all[0].progress();
        assert!(complete(&all[0], sent), "{case}");
    }
}

/// The sender of an announced message dies before the message is fetched.   Expect: the receive fails, and
/// nothing is left to be fetched.
#[test]
fn a_message_whose_sender_dies_is_fetched_no_more() {
    if lacks_single_copy() {
        return;
    }
    let mut all = node_engines(2, true);
    let mut half = Half::new(0, 1, 300_000);
    half.send(&mut all);
    all[1].progress();
    let received = half.receive(&mut all);
    assert!(all[1].owes_copies());
    let sender = id(&all[1], 0);
    all[1].remove_peer(sender);
    assert!(!all[1].owes_copies() && !half.has_arrived());
    let error = all[1].messages.requests.get(received).unwrap().error.as_ref().expect("an error");
    assert_eq!(error.class, ErrorClass::ProcAborted);
}

/// Costs of a machine whose kernel copies more quickly than a ring does. A sender relocates a message after a
/// few looks.
const QUICK_KERNEL: CostModel = CostModel {
    kernel_copy_ps: 1_000,
    kernel_copy_per_byte_ps: 1,
    ring_in_turn_per_byte_ps: 150,
    ring_near_per_byte_ps: 100,
    ring_far_per_byte_ps: 100,
    ring_answer_ps: 1_000,
    ..CostModel::BUILT_IN
};
/// A length within the eager limit, of a message that the kernel copies.
const MIDDLE: usize = 40_000;

/// Two engines of a node with a quick kernel, of which the second has sent the first one a message: each sees
/// the other's table.
fn engines_with_quick_kernel() -> Option<Vec<Engine>> {
    if !weft_net::single_copy::available(std::process::id() as i32) {
        eprintln!("skipped: this machine does not let processes copy from each other");
        return None;
    }
    let mut all = node_engines_with(2, true, QUICK_KERNEL);
    for [from, to] in [[0, 1], [1, 0]] {
        let mut first = Half::new(from, to, 8);
        let handles = [first.receive(&mut all), first.send(&mut all)];
        work(&mut all, |all| complete(&all[to], handles[0]) && complete(&all[from], handles[1]));
    }
    Some(all)
}

/// A message within the eager limit has no receive yet, and the kernel would copy it more quickly. Its
/// receiver comes at once, or late; or it has begun with the message when the sender gives up waiting, and
/// fetches afterwards.   Expect: the send completes without its receiver, and its buffer is the program's:
/// the receiver gets the message as it was. It is relocated only if the receiver is late.
#[test]
fn a_message_that_is_announced_early_completes_without_its_receiver() {
    for case in ["at once", "late", "matched"] {
        let Some(mut all) = engines_with_quick_kernel() else { return };
        let mut half = Half::new(0, 1, MIDDLE);
        let sent = half.send(&mut all);
        assert!(!complete(&all[0], sent), "{case}: the message is announced");
        let received = match case {
            "late" => None,
            _ => {
                all[1].progress();
                Some(half.receive(&mut all))
            }
        };
        if case == "at once" {
            all[1].progress();
            assert!(half.has_arrived());
            all[0].progress();
            assert!(complete(&all[0], sent));
        }
        for _ in 0..1000 {
            all[0].progress();
        }
        assert!(complete(&all[0], sent), "{case}");
        all[0].messages.forget(sent);
        let is_late = case != "at once";
        assert_eq!(all[0].messages.relocated, u64::from(is_late), "{case}");
        assert_eq!(all[0].keeps_messages(), is_late, "{case}");
        let content = half.content.clone();
        half.content.fill(0xee);
        let received = received.unwrap_or_else(|| {
            all[1].progress();
            half.receive(&mut all)
        });
        work(&mut all, |all| complete(&all[1], received));
        assert!(std::hint::black_box(&half.memory) == &content, "{case}: the receiver gets what was sent");
        work(&mut all, |all| !all[0].keeps_messages());
    }
}

/// A message is announced early, and its operation is given up: the program's memory goes away.   Expect:
/// nothing is relocated, and nothing is left of the message.
#[test]
fn a_message_that_is_announced_early_and_given_up_is_not_relocated() {
    let Some(mut all) = engines_with_quick_kernel() else { return };
    let half = Half::new(0, 1, MIDDLE);
    let sent = half.send(&mut all);
    assert!(all[0].keeps_messages());
    all[0].abandon_receive(sent);
    drop(half);
    for _ in 0..1000 {
        all[0].progress();
    }
    assert!(!all[0].keeps_messages() && all[0].messages.relocated == 0 && !all[0].messages.are_under_way());
}

/// A window of messages takes more than the sender's credit, and each is too short for the sender to look for
/// its receive. Only the receiver makes progress.   Expect: each message leaves at once. The sender looks for
/// the credit that has come back, and announces none.
#[test]
fn a_window_is_sent_eagerly_while_its_receiver_takes_it_in() {
    let mut all = node_engines(2, true);
    let mut pairs = Vec::new();
    for _ in 0..3 * CREDIT_BYTES / SHORT as u64 {
        pairs.push(start_pair(&mut all, 1, SHORT));
        let pair = pairs.last().unwrap();
        assert!(complete(&all[1], pair.sent), "message {} is announced", pairs.len());
        all[0].progress();
    }
    assert!(pairs.iter().all(|pair| pair.is_complete(&all) && pair.memory == pair.content));
}

/// The sender waits for several short messages that it has announced for lack of credit.   Expect: the
/// receiver, on whose table no receive has ever stood, fetches those of the first window, and then makes a
/// table. From the second window on it asks for them, and both sides copy.
#[test]
fn several_short_messages_are_copied_by_both_sides_while_their_sender_waits() {
    if lacks_single_copy() {
        return;
    }
    let mut all = node_engines(2, true);
    for is_first in [true, false] {
        let mut pairs = Vec::new();
        all[1].set_inside_mpi(false);
        for _ in 0..CREDIT_BYTES / SHORT as u64 + 8 {
            pairs.push(start_pair(&mut all, 1, SHORT));
        }
        all[1].set_inside_mpi(true);
        for _ in 0..10 {
            all[0].progress();
        }
        let are_here = pairs.iter().all(|pair| complete(&all[0], pair.received));
        assert_eq!(are_here, is_first, "the receiver alone brings them");
        work(&mut all, |all| pairs.iter().all(|pair| pair.is_complete(all)));
        assert!(pairs.iter().all(|pair| pair.memory == pair.content));
    }
}

/// Windows of long messages, whose sender has not come to its wait when the receiver sees them.   Expect: the
/// receiver does not fetch the second window, but asks for the ring at once. A pass of the sender that only
/// puts long pieces into the ring is progress, so its wait spins on. The receives of the third window are
/// posted first. As many of its messages as the ring takes leave at once.
#[test]
fn a_window_is_asked_for_before_its_sender_waits() {
    if lacks_single_copy() {
        return;
    }
    const BYTES: usize = 100_000;
    let mut all = node_engines(2, true);
    for (window, is_posted_first) in [(1, true), (2, false), (3, true)] {
        let pairs: Vec<Pair> = (0..8).map(|_| start_pair_in_order(&mut all, 1, BYTES, is_posted_first)).collect();
        for _ in 0..10 {
            all[0].progress();
        }
        let here = pairs.iter().filter(|pair| complete(&all[0], pair.received)).count();
        match window {
            1 => {}
            2 => assert_eq!(here, 0, "the kernel has copied a message"),
            _ => assert!((1..pairs.len()).contains(&here), "the receiver alone brings {here} messages"),
        }
        if window > 1 {
            all[1].take_advance();
            all[1].progress();
            assert!(all[1].take_advance(), "pieces have left, and are no progress");
        }
        work(&mut all, |all| pairs.iter().all(|pair| pair.is_complete(all)));
        assert!(pairs.iter().all(|pair| pair.memory == pair.content));
    }
}

const SECOND: weft_core::time::Duration = weft_core::time::Duration::from_secs(1);
/// The bytes of a message that is longer than a window: it is never under way as a whole.
const LONG: usize = 2_000_000;
/// The bytes of a message that its receiver does not show to the sender.
const SHORT: usize = 12_000;

/// A message of `from` to process 0 and the receive that takes it: handles of both, and their memory.
struct Pair {
    from: usize,
    sent: usize,
    received: usize,
    content: Vec<u8>,
    memory: Vec<u8>,
}

fn start_pair(engines: &mut [Engine], from: usize, bytes: usize) -> Pair {
    start_pair_in_order(engines, from, bytes, true)
}

fn start_pair_in_order(engines: &mut [Engine], from: usize, bytes: usize, is_posted_first: bool) -> Pair {
    let (content, mut memory) = (content(from, bytes), vec![0; bytes]);
    // SAFETY: the vectors' memory stays where it is, and lives as long as the pair, which outlives the
    // operations.
    let (out, into) = unsafe {
        let out = UserData::from_bytes(content.as_ptr().cast_mut(), bytes as u64);
        (out, UserData::from_bytes(memory.as_mut_ptr(), bytes as u64))
    };
    let (source, peer) = (Some(from as u32), Some(id(&engines[0], from)));
    let receive = Receive { context: Some(CONTEXT), source, peer, tag: Some(1), data: into, blocking: false };
    let received = engines[0].messages.add(State::Posted(receive), 0).unwrap();
    if is_posted_first {
        engines[0].start_receive(received);
    }
    let envelope = Envelope { context: CONTEXT, source: from as u32, tag: 1 };
    let peer = Some(id(&engines[from], 0));
    let send = Send { peer, envelope, data: out, mode: Mode::Standard, blocking: false };
    let sent = engines[from].messages.add(State::Queued(send), 0).unwrap();
    engines[from].start_send(sent);
    if !is_posted_first {
        engines[0].start_receive(received);
    }
    Pair { from, sent, received, content, memory }
}

impl Pair {
    fn is_complete(&self, engines: &[Engine]) -> bool {
        complete(&engines[self.from], self.sent) && complete(&engines[0], self.received)
    }
}

/// Lets `engines` work until `done`, within the limit.
fn work(engines: &mut [Engine], mut done: impl FnMut(&mut [Engine]) -> bool) {
    let limit = Instant::now() + TIME_LIMIT;
    while !done(engines) {
        engines.iter_mut().for_each(pass);
        assert!(Instant::now() < limit, "what must happen does not");
    }
}

#[test]
fn many_senders_share_what_may_be_under_way_to_one_receiver() {
    let mut all = engines(9, "seed=5,drop=1%", 8_000);
    let pairs: Vec<Pair> = (1..9).map(|from| start_pair(&mut all, from, 300_000 + 1_000 * from)).collect();
    // The bytes under way right after a grant. At other times there may be more: data that was set aside as
    // stalled (a pass of this test may take longer than `STALL`) counts again when some of it arrives.
    let (mut granted, mut deepest) = (0, 0);
    work(&mut all, |all| {
        let grants = &all[0].messages.grants;
        if std::mem::replace(&mut granted, grants.granted) != grants.granted {
            deepest = deepest.max(grants.under_way());
        }
        pairs.iter().all(|pair| pair.is_complete(all))
    });
    assert!((1..=UNDER_WAY_MAX).contains(&deepest), "{deepest} bytes were under way");
    // Each message had several grants, and all of them are used up.
    assert!(all[0].messages.grants.granted >= 8 * 3);
    assert!(all[0].messages.grants.is_empty());
    for pair in &pairs {
        assert!(std::hint::black_box(&pair.memory) == &pair.content, "the message of {} has other bytes", pair.from);
    }
    assert!(all.iter().all(|engine| engine.messages.malformed_frames == 0));
}

#[test]
fn a_sender_that_is_lost_gives_its_share_back_and_one_that_is_abandoned_completes() {
    let mut all = impatient_engines(4, "seed=6", 8_000, SECOND);
    let pairs: Vec<Pair> = (1..4).map(|from| start_pair(&mut all, from, LONG)).collect();
    let arriving = |all: &[Engine], pair: &Pair| {
        let request = all[0].messages.requests.get(pair.received).unwrap();
        matches!(request.state, State::Receiving { received, .. } if received > 0)
    };
    // Two have begun; then the first sender falls silent, and the second message is not waited for any more.
    work(&mut all, |all| pairs[..2].iter().all(|pair| arriving(all, pair)));
    let lost = all.remove(1);
    all[0].abandon_receive(pairs[1].received);
    let limit = Instant::now() + TIME_LIMIT;
    // Processes 0, 2 and 3 are left.
    while !(complete(&all[1], pairs[1].sent)
        && complete(&all[2], pairs[2].sent)
        && complete(&all[0], pairs[0].received))
    {
        all.iter_mut().for_each(pass);
        assert!(Instant::now() < limit, "the others wait for one that is lost");
    }
    assert!(std::hint::black_box(&pairs[2].memory) == &pairs[2].content);
    let error = all[0].messages.requests.get(pairs[0].received).unwrap().error.as_ref().expect("an error");
    assert_eq!(error.class, ErrorClass::ProcAborted);
    assert!(all[0].messages.grants.is_empty());
    drop(lost);
}

/// An operation that makes a process wait for others without a packet of its own on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Receive,
    ReceiveFromAnybody,
    Probe,
    ProbeForAnybody,
}

impl Waits {
    /// Begins, and returns a function that finds the error with which the operation has failed.
    fn start(self, engine: &mut Engine) -> impl FnMut(&mut Engine) -> Option<weft_engine::error::Error> + use<> {
        let source = matches!(self, Self::Receive | Self::Probe).then_some(1);
        let peer = source.map(|source| id(engine, source as usize));
        let receive =
            Receive { context: Some(CONTEXT), source, peer, tag: None, data: UserData::empty(), blocking: false };
        let handle = matches!(self, Self::Receive | Self::ReceiveFromAnybody).then(|| {
            let handle = engine.messages.add(State::Posted(receive), 0).unwrap();
            engine.start_receive(handle);
            handle
        });
        move |engine| match handle {
            Some(handle) => engine.messages.requests.get_mut(handle)?.error.take(),
            None => engine.probed_in_vain(0, peer, |_| true).err(),
        }
    }
}

#[test]
fn who_only_waits_notices_that_its_peer_is_gone_and_that_it_only_computes() {
    let paths = [Waits::Receive, Waits::ReceiveFromAnybody, Waits::Probe, Waits::ProbeForAnybody];
    let mut worlds = paths.map(|waits| {
        let mut all = impatient_engines(2, "seed=7", 8_000, SECOND);
        let error = waits.start(&mut all[0]);
        (waits, all, error)
    });
    // The peers compute, and look around four times in the time after which they would count as gone.
    let begin = Instant::now();
    let mut looked = begin;
    while begin.elapsed() < Duration::from_secs(2) {
        let looks = looked.elapsed() >= Duration::from_millis(250);
        if looks {
            looked = Instant::now();
        }
        for (waits, all, error) in &mut worlds {
            all[0].progress();
            assert!(error(&mut all[0]).is_none(), "{waits:?}: a peer that computes counts as gone");
            if looks {
                (0..2).for_each(|_| pass(&mut all[1]));
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    // The peers are gone.
    for (waits, all, error) in &mut worlds {
        let found = loop {
            all[0].progress();
            if let Some(found) = error(&mut all[0]) {
                break found;
            }
            assert!(begin.elapsed() < TIME_LIMIT, "{waits:?}: a peer that is gone is waited for");
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(found.class, ErrorClass::ProcAborted);
        for part in ["process 1", "on host test", "127.0.0.1:1", "WEFT_PEER_TIMEOUT"] {
            assert!(found.message.contains(part), "{} does not say {part}", found.message);
        }
    }
}

/// The class of the error that the operation of `handle` has ended with.
fn class_of(engine: &mut Engine, handle: usize) -> Option<ErrorClass> {
    engine.messages.requests.get_mut(handle)?.error.take().map(|error| error.class)
}

#[test]
fn the_name_of_a_peer_that_has_been_removed_leads_nowhere_even_when_another_has_its_place() {
    let mut engine = engines(3, "seed=12", 8_000).remove(0);
    let (gone, other) = (id(&engine, 1), id(&engine, 2));
    let receive = |engine: &mut Engine, peer| {
        let data = UserData::empty();
        let receive =
            Receive { context: Some(CONTEXT), source: Some(1), peer: Some(peer), tag: None, data, blocking: false };
        let handle = engine.messages.add(State::Posted(receive), 0).unwrap();
        engine.start_receive(handle);
        handle
    };
    let envelope = Envelope { context: CONTEXT, source: 0, tag: 0 };
    let send = |engine: &mut Engine, peer, mode| {
        let send = Send { peer: Some(peer), envelope, data: UserData::empty(), mode, blocking: false };
        if engine.submit_now(&send) {
            return None;
        }
        let handle = engine.messages.add(State::Queued(send), 0).unwrap();
        engine.start_send(handle);
        Some(handle)
    };
    // Operations that wait for the peer fail as it is removed.
    let waiting = [receive(&mut engine, gone), send(&mut engine, gone, Mode::Synchronous).unwrap()];
    assert!(engine.remove_peer(gone));
    assert_eq!(waiting.map(|handle| class_of(&mut engine, handle)), [Some(ErrorClass::ProcAborted); 2]);
    assert!(!engine.remove_peer(gone), "it is gone already");
    // The peer's place is free, then another's.   Expect: every use of the old name fails, and reaches no
    // peer.
    for place_is_free in [true, false] {
        if !place_is_free {
            let carrier = udp_carrier(SocketAddr::from(([127, 0, 0, 1], 1)));
            let route = Route::Remote(Box::new(Remote::new(&[carrier], Settings::default())));
            let new = engine.add_peer(NewPeer {
                name: ProcessName::of_only_job(5),
                own_index: 0,
                route,
                process: 0,
                host: None,
            });
            assert_eq!((new.index(), engine.peers.find(5)), (gone.index(), Some(new)));
            assert_ne!(new, gone);
        }
        assert!(engine.peers.get(gone).is_none());
        assert_eq!(engine.peers.find(1), None);
        let handles = [
            receive(&mut engine, gone),
            send(&mut engine, gone, Mode::Standard).expect("not sent"),
            send(&mut engine, gone, Mode::Synchronous).expect("not sent"),
        ];
        assert_eq!(handles.map(|handle| class_of(&mut engine, handle)), [Some(ErrorClass::ProcAborted); 3]);
        let probed = engine.probed_in_vain(0, Some(gone), |_| true);
        assert_eq!(probed.map_err(|error| error.class), Err(ErrorClass::ProcAborted));
        assert_eq!(engine.peers.iter().map(|(_, peer)| peer.traffic()[0]).sum::<u64>(), 0);
    }
    // The other peers are as they were.
    assert_eq!(engine.peers.find(2), Some(other));
    assert_eq!(engine.peers.iter().count(), 3);
    assert!(send(&mut engine, other, Mode::Standard).is_none(), "it leaves at once");
}

#[test]
fn who_waits_for_anybody_of_many_asks_them_in_turns() {
    let mut all = impatient_engines(201, "seed=8", 8_000, SECOND);
    let mut error = Waits::ReceiveFromAnybody.start(&mut all[0]);
    let begin = Instant::now();
    let asked = |engine: &Engine| engine.flows().filter(|flow| flow.counters().probes > 0).count();
    // Expect: not all peers are asked at once, and all are asked after some rounds.
    let mut first = 0;
    while asked(&all[0]) < 200 {
        all.iter_mut().for_each(pass);
        assert!(error(&mut all[0]).is_none());
        if first == 0 {
            first = asked(&all[0]);
        }
        assert!(begin.elapsed() < TIME_LIMIT, "only {} have been asked", asked(&all[0]));
    }
    assert!((1..=64).contains(&first), "{first} were asked at once");
}

#[test]
fn a_synchronous_send_that_nobody_wants_is_cancelled() {
    // The message has left: short, in one packet; long, in several; over a ring.
    let (near, far) = (node_engines(2, false), engines(2, "seed=9", 8_000));
    for (mut all, bytes) in [(near, 100), (far, 100), (engines(2, "seed=10,drop=5%", 8_000), 5_000)] {
        let content = content(1, bytes);
        // SAFETY: the content outlives the engines, and sends only read it.
        let data = unsafe { UserData::from_bytes(content.as_ptr().cast_mut(), bytes as u64) };
        let envelope = Envelope { context: CONTEXT, source: 0, tag: 1 };
        let send = Send { peer: Some(id(&all[0], 1)), envelope, data, mode: Mode::Synchronous, blocking: false };
        let sent = all[0].messages.add(State::Queued(send), 0).unwrap();
        all[0].start_send(sent);
        work(&mut all, |all| all[1].messages.matcher.unexpected_count() == 1);
        assert!(!complete(&all[0], sent), "it was not matched");
        all[0].cancel(sent);
        work(&mut all, |all| complete(&all[0], sent));
        assert!(all[0].messages.requests.get(sent).unwrap().status.cancelled);
        assert_eq!((all[1].messages.matcher.unexpected_count(), all[1].messages.unexpected.len()), (0, 0));
    }
}

#[test]
fn a_message_that_was_announced_by_one_who_is_gone_fails_its_receive() {
    // The receive is posted before or after the failure is known; with or without room for all of the
    // message.
    for (early, room) in [(true, 20_000), (true, 50), (false, 20_000), (false, 50)] {
        let mut all = impatient_engines(2, "seed=11", 8_000, SECOND);
        let content = content(1, 20_000);
        let mut memory = vec![0_u8; room];
        // SAFETY: both vectors outlive the engines.
        let (out, into) = unsafe {
            (
                UserData::from_bytes(content.as_ptr().cast_mut(), 20_000),
                UserData::from_bytes(memory.as_mut_ptr(), room as u64),
            )
        };
        let envelope = Envelope { context: CONTEXT, source: 0, tag: 1 };
        let send = Send { peer: Some(id(&all[0], 1)), envelope, data: out, mode: Mode::Standard, blocking: false };
        let sent = all[0].messages.add(State::Queued(send), 0).unwrap();
        all[0].start_send(sent);
        work(&mut all, |all| all[1].messages.matcher.unexpected_count() == 1);
        let lost = all.remove(0);
        let post = |all: &mut Vec<Engine>, tag, data| {
            let receive = Receive {
                context: Some(CONTEXT),
                source: Some(0),
                peer: Some(id(&all[0], 0)),
                tag: Some(tag),
                data,
                blocking: false,
            };
            let handle = all[0].messages.add(State::Posted(receive), 0).unwrap();
            all[0].start_receive(handle);
            handle
        };
        let before = early.then(|| post(&mut all, 1, into.clone()));
        let other = post(&mut all, 2, UserData::empty());
        work(&mut all, |all| complete(&all[0], other));
        let received = before.unwrap_or_else(|| post(&mut all, 1, into));
        work(&mut all, |all| complete(&all[0], received));
        let error = all[0].messages.requests.get(received).unwrap().error.as_ref().expect("an error");
        assert_eq!(error.class, weft_engine::error::ErrorClass::ProcAborted, "early {early}, room for {room}: {error}");
        drop(lost);
    }
}

/// Makes an engine with a neighbour on its node, number 1, and a peer behind `paths`, number 2. `test` names
/// the segment.
fn with_neighbour_and_remote(test: &str, carriers: Carriers, paths: &[(RailCarrier, CarrierPath)]) -> Engine {
    let key = format!("{test}-{}", std::process::id());
    let mut engine = Engine::new(Parts {
        platform: Machine,
        memory: SingleCopy,
        name: ProcessName::of_only_job(0),
        host: Some("test".into()),
        node: Some(shared::Node::create(&key, 0, 2, &shared::Settings::default()).unwrap()),
        carriers,
        secret: weft_core::wire::Secret::new([7; 16]),
        eager_limit: Some(1_000),
        costs: CostModel::BUILT_IN,
        unexpected_bytes: 0,
        peer_timeout: SECOND,
    });
    let settings = Settings { packet_size: PACKET_SIZE, peer_timeout: SECOND, ..Settings::default() };
    let far = Route::Remote(Box::new(Remote::new(paths, settings)));
    queue::add_peers(&mut engine, 0, vec![Route::Myself, Route::Shared(1), far], 0);
    engine
}

/// The same over one carrier, of datagrams, whose other end nobody reads.
fn with_neighbour_and_udp(test: &str) -> Engine {
    let wire: Wire = Arc::new(Mutex::new(vec![VecDeque::new(); 3]));
    let address = SocketAddr::from(([127, 0, 0, 1], 2));
    let carriers = Carriers::new(vec![Box::new(Queue::new(0, &wire))]);
    with_neighbour_and_remote(test, carriers, &[udp_carrier(address)])
}

#[test]
fn who_sleeps_before_it_has_looked_at_the_network_wakes_to_ask_those_it_waits_for() {
    let mut engine = with_neighbour_and_udp("asleep");
    let receive = Receive {
        context: Some(CONTEXT),
        source: Some(2),
        peer: Some(id(&engine, 2)),
        tag: None,
        data: UserData::empty(),
        blocking: false,
    };
    let handle = engine.messages.add(State::Posted(receive), 0).unwrap();
    engine.start_receive(handle);
    engine.progress();
    let sleep = engine.prepare_sleep().expect("there is nothing to do");
    assert!(
        sleep.timeout.is_some_and(|timeout| timeout <= SECOND.as_nanos()),
        "it would sleep until somebody wakes it"
    );
}

/// A process with a neighbour and a remote peer receives from each of them, from itself and from anybody, and
/// sends to both.   Expect: the network is needed but for messages of the node, and no more when all is over.
#[test]
fn messages_of_the_node_need_no_network() {
    let mut engine = with_neighbour_and_udp("on-node");
    let receive = |engine: &mut Engine, source: Option<u32>| {
        let peer = source.map(|source| id(engine, source as usize));
        let data = UserData::empty();
        let receive = Receive { context: Some(CONTEXT), source, peer, tag: None, data, blocking: false };
        let handle = engine.messages.add(State::Posted(receive), 0).unwrap();
        engine.start_receive(handle);
        handle
    };
    let bytes = vec![1; 100_000];
    let send = |engine: &mut Engine, to: usize| {
        let envelope = Envelope { context: CONTEXT, source: 0, tag: 0 };
        // SAFETY: the bytes live longer than the engine.
        let data = unsafe { UserData::from_bytes(bytes.as_ptr().cast_mut(), bytes.len() as u64) };
        let send = Send { peer: Some(id(engine, to)), envelope, data, mode: Mode::Standard, blocking: false };
        let handle = engine.messages.add(State::Queued(send), 0).unwrap();
        engine.start_send(handle);
        handle
    };
    let on_node = [receive(&mut engine, Some(0)), receive(&mut engine, Some(1)), send(&mut engine, 1)];
    assert!(engine.messages.are_several_under_way() && !engine.messages.need_network());
    let others: [&dyn Fn(&mut Engine) -> usize; 4] =
        [&|engine| receive(engine, Some(2)), &|engine| receive(engine, None), &|engine| send(engine, 2), &|engine| {
            engine.messages.add_collective(0).unwrap()
        }];
    for start in others {
        let other = start(&mut engine);
        assert!(engine.messages.need_network());
        engine.messages.complete(other);
        assert!(engine.messages.are_under_way() && !engine.messages.need_network());
    }
    on_node.iter().for_each(|handle| engine.messages.complete(*handle));
    assert!(!engine.messages.are_under_way());
}

/// A process with a neighbour, raw frames and UDP, on a processor that it shares: each pass in vain is
/// followed by a yield.   Expect: a packet that comes by UDP is seen after 64 µs of such yields, and after
/// the first one that took longer. Without yields such looks are rare, since each is a system call.
#[test]
fn who_shares_a_processor_looks_at_its_sockets_by_time_and_not_by_passes() {
    let [frames, udp]: [Wire; 2] = [(); 2].map(|()| Arc::new(Mutex::new(vec![VecDeque::new(); 3])));
    let carriers = Carriers::new(vec![Box::new(Queue::of_frames(0, &frames)), Box::new(Queue::new(0, &udp))]);
    let paths = queue::frames_and_udp(SocketAddr::from(([127, 0, 0, 1], 2)));
    let mut engine = with_neighbour_and_remote("shares", carriers, &paths);
    let mut passes = |away: u64| {
        udp.lock().unwrap()[0].push_back(vec![0; 60]);
        let unseen = |engine: &mut Engine| {
            engine.note_away(weft_core::time::Duration(away));
            pass(engine);
            !udp.lock().unwrap()[0].is_empty()
        };
        let mut seen_after = 1;
        while unseen(&mut engine) {
            seen_after += 1;
            assert!(seen_after <= 100_000, "never seen");
        }
        // Then nothing comes for a while, so that looks are rare again.
        for _ in 0..40 {
            engine.note_away(weft_core::time::Duration(100_000));
            pass(&mut engine);
        }
        seen_after
    };
    passes(0);
    assert!(passes(0) > 16, "a look is a system call");
    let seen_after = passes(1_500);
    assert!(seen_after * 1_500 <= 66_000, "{seen_after} turns");
    assert_eq!(passes(400_000), 1);
}

/// A link whose send buffer is full.
struct Full;

impl Carrier for Full {
    fn attributes(&self) -> &CarrierAttributes {
        &queue::ATTRIBUTES
    }

    fn send(&mut self, _: &Address, _: &[u8]) -> std::io::Result<Outcome> {
        Ok(Outcome::WouldBlock)
    }

    fn send_train(&mut self, to: &Address, train: &[u8], segment: usize) -> std::io::Result<usize> {
        send_one_by_one(self, to, train, segment)
    }

    fn receive(&mut self, _: &mut dyn FnMut(Arrival<'_>), _: usize) -> usize {
        0
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

#[test]
fn who_finds_the_link_full_sleeps_until_it_may_have_room() {
    let settings = Settings { packet_size: PACKET_SIZE, ..Settings::default() };
    let far = Route::Remote(Box::new(Remote::new(&[udp_carrier(SocketAddr::from(([127, 0, 0, 1], 1)))], settings)));
    let carriers = Carriers::new(vec![Box::new(Full)]);
    let mut engine = engine(0, vec![Route::Myself, far], carriers, 1_000, weft_core::time::Duration::default());
    let envelope = Envelope { context: CONTEXT, source: 0, tag: 1 };
    let peer = Some(id(&engine, 1));
    let send = Send { peer, envelope, data: UserData::empty(), mode: Mode::Synchronous, blocking: false };
    let handle = engine.messages.add(State::Queued(send), 0).unwrap();
    engine.start_send(handle);
    // This is longer than the time until the first probe is due.
    std::thread::sleep(Duration::from_millis(5));
    engine.progress();
    let due = engine.due().expect("a packet waits for room");
    assert!(due > 0, "it would look again and again");
}
