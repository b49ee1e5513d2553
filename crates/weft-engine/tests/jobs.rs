//! Processes of several jobs that have met: their numbers are the same, their names and secrets are not.

#[allow(dead_code, reason = "other tests use what this one does not")]
mod queue;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weft_core::flow::Settings;
use weft_core::matching::Envelope;
use weft_core::process::{JobId, ProcessName};
use weft_core::wire::Secret;
use weft_engine::carriers::{Carriers, Remote};
use weft_engine::engine::Parts;
use weft_engine::group::PeerId;
use weft_engine::memory::UserData;
use weft_engine::peers::{NewPeer, Route};
use weft_engine::request::{Mode, Receive, Send, State};
use weft_net::single_copy::SingleCopy;

use queue::{Engine, Machine, PACKET_SIZE, Queue, Wire, pass, udp_carrier};

const CONTEXT: u32 = 3;
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Processes of each job. A process with number `n` of job `j` is at port `j * EACH + n`.
const EACH: u32 = 2;
const JOBS: u32 = 3;

fn name(job: u32, number: u32) -> ProcessName {
    ProcessName { job: JobId(100 + u64::from(job)), number }
}

fn port(name: ProcessName) -> u16 {
    (name.job.0 as u16 - 100) * EACH as u16 + name.number as u16
}

/// The secret of the processes of one job, or of two jobs.
fn secret(one: u32, other: u32) -> Secret {
    Secret::new([(1 + one.min(other) * JOBS + one.max(other)) as u8; 16])
}

fn route(to: ProcessName) -> Route {
    let settings = Settings { packet_size: PACKET_SIZE, ..Settings::default() };
    let address = SocketAddr::from(([127, 0, 0, 1], port(to)));
    Route::Remote(Box::new(Remote::new(&[udp_carrier(address)], settings)))
}

/// A process that knows its own job.
fn process(job: u32, number: u32, wire: &Wire) -> Engine {
    let own = usize::from(port(name(job, number)));
    let mut engine = Engine::new(Parts {
        platform: Machine,
        memory: SingleCopy,
        name: name(job, number),
        host: None,
        node: None,
        carriers: Carriers::new(vec![Box::new(Queue::new(own, wire))]),
        secret: secret(job, job),
        eager_limit: Some(1_000),
        costs: weft_engine::protocols::CostModel::BUILT_IN,
        unexpected_bytes: 0,
        peer_timeout: weft_core::time::Duration(0),
    });
    for other in (0..EACH).filter(|other| *other != number) {
        let name = name(job, other);
        engine.add_peer(NewPeer { name, own_index: number, route: route(name), process: 0, host: None });
    }
    engine
}

/// Lets two jobs meet: each process tells each process of the other job by which index it knows that process.
fn meet(all: &mut [Vec<Engine>], one: u32, other: u32, common: &Secret) {
    let mut firsts = [Vec::new(), Vec::new()];
    for (side, (own, met)) in [(one, other), (other, one)].into_iter().enumerate() {
        for engine in &mut all[own as usize] {
            let first = engine.meet_job(name(met, 0).job, EACH).expect("there is room");
            engine.agree_with_job(name(met, 0).job, common.clone());
            firsts[side].push(first);
        }
    }
    for (side, (own, met)) in [(one, other), (other, one)].into_iter().enumerate() {
        for (number, engine) in (0..).zip(&mut all[own as usize]) {
            for (peer, first) in (0..).zip(&firsts[1 - side]) {
                let name = name(met, peer);
                engine.add_peer(NewPeer {
                    name,
                    own_index: first + number,
                    route: route(name),
                    process: 0,
                    host: None,
                });
            }
        }
    }
}

fn data(bytes: &mut [u8]) -> UserData {
    // SAFETY: the memory outlives all requests of its test, which looks at it when they are complete.
    unsafe { UserData::from_bytes(bytes.as_mut_ptr(), bytes.len() as u64) }
}

fn receive(engine: &mut Engine, from: PeerId, into: &mut [u8]) -> usize {
    let receive = Receive {
        context: Some(CONTEXT),
        source: Some(0),
        peer: Some(from),
        tag: None,
        data: data(into),
        blocking: false,
    };
    let handle = engine.messages.add(State::Posted(receive), 0).expect("room for a request");
    engine.start_receive(handle);
    handle
}

fn send(engine: &mut Engine, to: PeerId, bytes: &mut [u8]) {
    let envelope = Envelope { context: CONTEXT, source: 0, tag: 0 };
    let send = Send { peer: Some(to), envelope, data: data(bytes), mode: Mode::Standard, blocking: false };
    if !engine.submit_now(&send) {
        let handle = engine.messages.add(State::Queued(send), 0).expect("room for a request");
        engine.start_send(handle);
    }
}

fn jobs() -> Vec<Vec<Engine>> {
    let wire: Wire = Arc::new(Mutex::new(vec![VecDeque::new(); (JOBS * EACH) as usize]));
    (0..JOBS).map(|job| (0..EACH).map(|number| process(job, number, &wire)).collect()).collect()
}

#[test]
fn processes_with_the_same_numbers_are_told_apart_by_their_jobs() {
    let mut all = jobs();
    meet(&mut all, 0, 1, &secret(0, 1));
    meet(&mut all, 1, 2, &secret(1, 2));
    let knows = |one: ProcessName, other: ProcessName| one.job.0.abs_diff(other.job.0) <= 1 && one != other;
    let names: Vec<ProcessName> = (0..JOBS).flat_map(|job| (0..EACH).map(move |number| name(job, number))).collect();
    // Each process sends to each process that it knows, within a packet and in many.   Expect: all know the
    // sender of each message.
    for length in [8, 5_000] {
        let content = |from: ProcessName, to: ProcessName| vec![(1 + port(from) * 16 + port(to)) as u8; length];
        let mut sent = Vec::new();
        let mut received = Vec::new();
        for &own in &names {
            let engine = &mut all[own.job.0 as usize - 100][own.number as usize];
            for &other in names.iter().filter(|other| knows(own, **other)) {
                let peer = engine.find_process(other).expect("it is a peer");
                assert_eq!(engine.name_of(peer), Some(other));
                let mut into = vec![0; length];
                received.push((own, other, receive(engine, peer, &mut into), into));
                let mut bytes = content(own, other);
                send(engine, peer, &mut bytes);
                sent.push(bytes);
            }
            assert!(
                names.iter().all(|other| *other == own || knows(own, *other) == engine.find_process(*other).is_some())
            );
        }
        let begin = Instant::now();
        for (own, other, handle, into) in &received {
            let at = (own.job.0 as usize - 100, own.number as usize);
            while !all[at.0][at.1].messages.requests.get(*handle).expect("not freed").is_complete() {
                all.iter_mut().flatten().for_each(pass);
                assert!(begin.elapsed() < TIME_LIMIT, "nothing comes from {other:?} to {own:?}");
            }
            assert_eq!(*into, content(*other, *own));
        }
    }
    assert!(all.iter().flatten().all(|engine| engine.dropped().all(|(_, packets)| packets == 0)));
}

#[test]
fn packets_of_who_has_not_the_secret_of_the_two_jobs_are_dropped() {
    let mut all = jobs();
    meet(&mut all, 0, 1, &secret(0, 1));
    // One process uses the secret of its own job in place of the common one.
    let engine = &mut all[1][0];
    let known: Vec<PeerId> = (0..EACH).map(|number| engine.find_process(name(0, number)).expect("a peer")).collect();
    assert!(known.iter().all(|peer| engine.remove_peer(*peer)));
    assert!(engine.part_from_job(name(0, 0).job));
    let first = engine.meet_job(name(0, 0).job, EACH).expect("it was forgotten");
    engine.agree_with_job(name(0, 0).job, secret(1, 1));
    assert_eq!(first, EACH);
    let peer = name(0, 0);
    let peer = engine.add_peer(NewPeer { name: peer, own_index: EACH, route: route(peer), process: 0, host: None });
    let mut bytes = [7; 8];
    send(engine, peer, &mut bytes);
    let begin = Instant::now();
    while all[0][0].dropped().all(|(_, packets)| packets == 0) {
        all.iter_mut().flatten().for_each(pass);
        assert!(begin.elapsed() < TIME_LIMIT, "nothing was dropped");
    }
}

#[test]
fn a_job_is_forgotten_with_its_last_process_and_can_be_met_again() {
    let mut all = jobs();
    let own = name(0, 0).job;
    for round in 0..1_000 {
        let engine = &mut all[0][0];
        let (met, common) = (JobId(1_000 + round), secret(0, 1));
        assert_eq!(engine.meet_job(met, 3).ok(), Some(EACH));
        engine.agree_with_job(met, common);
        assert!(engine.meet_job(met, 3).is_err(), "it is known");
        let peers = [0, 2].map(|number| {
            let name = ProcessName { job: met, number };
            engine.add_peer(NewPeer {
                name,
                own_index: 0,
                route: Route::None("it is a test".into()),
                process: 0,
                host: None,
            })
        });
        assert_eq!(engine.find_process(ProcessName { job: met, number: 1 }), None);
        assert!(!engine.part_from_job(met) && !engine.part_from_job(own), "there are still processes of it");
        for peer in peers {
            assert!(engine.remove_peer(peer));
            assert_eq!(engine.name_of(peer), None);
        }
        assert!(engine.part_from_job(met) && !engine.part_from_job(met));
        assert_eq!(engine.peers.iter().count(), EACH as usize);
    }
}
