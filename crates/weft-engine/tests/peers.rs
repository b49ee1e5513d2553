//! The memory that a process keeps for peers on other nodes that it has talked to, and that are quiet now.

mod queue;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weft_core::flow::Settings;
use weft_core::matching::Envelope;
use weft_engine::carriers::{Carriers, Remote};
use weft_engine::memory::UserData;
use weft_engine::peers::Route;
use weft_engine::request::{Mode, Receive, Send, State};

use queue::{Engine, PACKET_SIZE, Queue, Wire, engine, frames_and_udp, id, pass};

/// The most bytes for each peer, all told, as the allocator counts them.
const PEER_BYTES_MAX: usize = 1024;
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The system's allocator, with a count of the bytes that it has given out.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: each call is handed on as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: it came from `alloc` above, that is from the system.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Processes on nodes of their own, with raw frames and UDP between them.
fn engines(count: usize) -> Vec<Engine> {
    let [raw, udp] = [(); 2].map(|()| -> Wire { Arc::new(Mutex::new(vec![VecDeque::new(); count])) });
    let settings = Settings { packet_size: PACKET_SIZE, ..Settings::default() };
    let path = |own: usize, peer: usize| {
        let paths = frames_and_udp(SocketAddr::from(([127, 0, 0, 1], peer as u16)));
        let remote = || Route::Remote(Box::new(Remote::new(&paths, settings.clone())));
        if peer == own { Route::Myself } else { remote() }
    };
    let build = |own: usize| {
        let carriers = Carriers::new(vec![Box::new(Queue::of_frames(own, &raw)), Box::new(Queue::new(own, &udp))]);
        let paths = (0..count).map(|peer| path(own, peer)).collect();
        engine(own, paths, carriers, 1 << 16, settings.peer_timeout)
    };
    (0..count).map(build).collect()
}

/// Every process sends a message to every other one, in turns, and all of them come to rest.
fn talk(engines: &mut [Engine]) {
    let count = engines.len();
    for distance in 1..count {
        for (own, engine) in engines.iter_mut().enumerate() {
            start(engine, own, (own + distance) % count, (own + count - distance) % count);
        }
        run_until_quiet(engines);
    }
}

fn start(engine: &mut Engine, own: usize, to: usize, from: usize) {
    // No bytes are copied.
    let data = UserData::empty();
    let (context, tag, source) = (8, 0, Some(from as u32));
    let peer = Some(id(engine, from));
    let receive = Receive { context: Some(context), source, peer, tag: Some(tag), data: data.clone(), blocking: false };
    let handle = engine.messages.add(State::Posted(receive), 0).unwrap();
    engine.start_receive(handle);
    let envelope = Envelope { context, source: own as u32, tag };
    let send = Send { peer: Some(id(engine, to)), envelope, data, mode: Mode::Standard, blocking: false };
    let handle = engine.messages.add(State::Queued(send), 0).unwrap();
    engine.start_send(handle);
}

fn run_until_quiet(engines: &mut [Engine]) {
    let limit = Instant::now() + TIME_LIMIT;
    let is_done =
        |engine: &Engine| engine.is_quiet() && engine.messages.requests.iter().all(|(_, one)| one.is_complete());
    while !engines.iter().all(is_done) {
        engines.iter_mut().for_each(pass);
        assert!(Instant::now() < limit, "they do not come to rest in {TIME_LIMIT:?}");
    }
    for engine in engines {
        let handles: Vec<usize> = engine.messages.requests.iter().map(|(handle, _)| handle).collect();
        handles.into_iter().for_each(|handle| engine.messages.forget(handle));
    }
}

/// The bytes held by this many processes that have all talked to each other.
fn held(count: usize) -> usize {
    let before = ALLOCATED.load(Ordering::Relaxed);
    let mut engines = engines(count);
    talk(&mut engines);
    let first = ALLOCATED.load(Ordering::Relaxed) - before;
    // Once more.   Expect: flows that had been parked go on, and nothing has leaked.
    talk(&mut engines);
    let again = ALLOCATED.load(Ordering::Relaxed) - before;
    assert!(again <= first + first / 8, "{first} bytes, and {again} after the same once more");
    again
}

#[test]
fn an_idle_peer_takes_little() {
    // Each process holds the same memory for itself, and for the few peers it talked to last, in both runs.
    let count = 64;
    let [half, all] = [count / 2, count].map(|more| held(count + more));
    let (few, many) = (count + count / 2, 2 * count);
    // held = processes * (own + (processes - 1) * peer)
    let peer = (all / many - half / few) / (many - few);
    println!("{peer} bytes for each idle peer");
    assert!(peer <= PEER_BYTES_MAX, "an idle peer takes {peer} bytes");
}
