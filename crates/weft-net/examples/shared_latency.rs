//! Measures how far the shared link is from the bare machine, in one run:
//!
//! - half round trips between two processes, first through a flag per direction in shared memory (the least
//!   that is possible), then with frames of a 24-byte head through a [`Node`];
//! - then frames a second and bytes a second in one direction.
//!
//! `cargo run --release -p weft-net --example shared_latency`

use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use weft_engine::transport::Frames as _;
use weft_net::shared::{Node, Settings};

/// Number of short pieces, of which the best counts: on a busy machine most pieces are disturbed, but not
/// all.
const ROUNDS: u64 = 200;
const REPEATS: usize = 200;
const STREAM_BYTES: usize = 1 << 20;
const HEAD: [u8; 24] = [7; 24];

fn main() {
    let role = std::env::args().nth(1).unwrap_or_default();
    if role == "peer" {
        // SAFETY: no memory is involved. The peer spins, so it must not outlive a leader that was killed.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let key = std::env::args().nth(2).expect("the job's key");
        return run(&mut Node::create(&key, 1, 2, &Settings::default()).expect("attach"), &key, false);
    }
    let key = format!("latency-{}", std::process::id());
    let program = std::env::current_exe().expect("our own name");
    let mut peer = Command::new(program).args(["peer", &key]).spawn().expect("a second process");
    run(&mut Node::create(&key, 0, 2, &Settings::default()).expect("create"), &key, true);
    assert!(peer.wait().expect("the peer ends").success());
}

fn run(node: &mut Node, key: &str, leader: bool) {
    while !node.is_complete() {
        std::thread::yield_now();
    }
    flags(key, leader);
    for len in [0, 8, 32, 36, 64, 256, 1024, 4096, 16384] {
        let best = (0..REPEATS).map(|_| ping_pong(node, leader, len)).fold(f64::MAX, f64::min);
        if leader {
            println!("frame of 24 + {len:5} bytes: {best:7.1} ns half round trip");
        }
    }
    for len in [8, 1024, 8192, 16384, 32000, 64000] {
        let frames = STREAM_BYTES / len.max(256);
        let seconds = (0..REPEATS).map(|_| stream(node, leader, len, frames)).fold(f64::MAX, f64::min);
        if leader {
            let (million, giga) = (frames as f64 / seconds / 1e6, (frames * len) as f64 / seconds / 1e9);
            println!(
                "stream of {len:5} bytes: {million:6.2} M frames/s, {giga:5.2} GB/s, {:6.1} ns each",
                1000.0 / million
            );
        }
    }
}

/// Measures the least that is possible: a word in each direction, written and awaited in memory that both
/// processes map.
fn flags(key: &str, leader: bool) {
    let words = map(&std::path::Path::new("/dev/shm").join(format!("weft-flags-{key}")), leader);
    let (own, peer) = if leader { (&words[0], &words[16]) } else { (&words[16], &words[0]) };
    let mut best = f64::MAX;
    let mut round = 0;
    for _ in 0..REPEATS {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            round += 1;
            if leader {
                own.store(round, Ordering::Release);
            }
            while peer.load(Ordering::Acquire) != round {
                std::hint::spin_loop();
            }
            if !leader {
                own.store(round, Ordering::Release);
            }
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64);
    }
    if leader {
        println!("bare words in shared memory: {best:7.1} ns half round trip");
    }
}

fn map(path: &std::path::Path, leader: bool) -> &'static [AtomicU64; 512] {
    let file =
        std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).expect("open");
    file.set_len(4096).expect("one page");
    let (protection, none) = (libc::PROT_READ | libc::PROT_WRITE, std::ptr::null_mut());
    // SAFETY: a new shared mapping of one page, never unmapped, used as atomics only.
    let words = unsafe {
        let page = libc::mmap(none, 4096, protection, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast::<[AtomicU64; 512]>()
    };
    // Both processes are here, so the name goes.
    words[32].fetch_add(1, Ordering::SeqCst);
    while words[32].load(Ordering::SeqCst) < 2 {
        std::thread::yield_now();
    }
    if leader {
        std::fs::remove_file(path).expect("remove the name");
    }
    words
}

fn receive(node: &mut Node) {
    while node.poll(1, |_, bytes| assert!(bytes[0] == HEAD[0])) == 0 {
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

fn stream(node: &mut Node, leader: bool, len: usize, frames: usize) -> f64 {
    let start = Instant::now();
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
            seen += node.poll(64, |_, bytes| out.copy_from_slice(&bytes[24..]));
        }
        assert!(node.try_send(0, &HEAD, &[]));
    }
    start.elapsed().as_secs_f64()
}
