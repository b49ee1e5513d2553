//! Measures how far the UDP link is from the bare socket, in one run on this machine:
//!
//! - half round trips between two spinning processes with sendto and recv in a plain loop;
//! - the same packets through [`Udp`], and through an empty [`Faults`];
//! - packets a second.
//!
//! `cargo run --release -p weft-net --example udp_latency`; to choose the interface set `WEFT_INTERFACE`,
//! e.g. to `lo`.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::Instant;
use weft_net::carrier::{Carrier, Outcome, receive_packets};
use weft_net::faults::{Faults, Plan};
use weft_net::udp::{EndpointAddress, Settings, Udp, choose_peer_address};

/// Number of short pieces, of which the best counts: on a busy machine most pieces are disturbed, but not
/// all.
const ROUNDS: usize = 100;
const REPEATS: usize = 100;
const BURST: usize = 32;
const SIZE: usize = 64;

fn main() {
    let interfaces = std::env::var("WEFT_INTERFACE").ok();
    let mut link = Udp::bind(&Settings { interfaces, ..Settings::default() }).expect("bind");
    let is_peer = std::env::args().nth(1).as_deref() == Some("peer");
    if is_peer {
        // SAFETY: no memory is involved. The peer spins, so it must not outlive a leader that was killed.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        println!("{}", link.endpoint_address().encode());
        let to = choose(&link, &read_line(&mut std::io::stdin().lock()));
        return run(&mut link, to, false);
    }
    let program = std::env::current_exe().expect("our own name");
    let mut peer =
        Command::new(program).arg("peer").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
    let endpoint_address = read_line(&mut BufReader::new(peer.stdout.take().expect("piped")));
    writeln!(peer.stdin.as_mut().expect("piped"), "{}", link.endpoint_address().encode()).expect("tell our address");
    let to = choose(&link, &endpoint_address);
    println!("to {to}, packets of {SIZE} bytes, window {} packets", link.endpoint_address().window_packets);
    run(&mut link, to, true);
    assert!(peer.wait().expect("the peer ends").success());
}

fn read_line(input: &mut impl BufRead) -> String {
    let mut line = String::new();
    input.read_line(&mut line).expect("a line");
    line.trim().to_owned()
}

fn choose(link: &Udp, endpoint_address: &str) -> SocketAddr {
    choose_peer_address(
        link.candidates(),
        &EndpointAddress::decode(endpoint_address).expect("an endpoint address").candidates,
    )
    .expect("a path")
    .to
}

/// The bare loop and the link take turns, so that both meet the same neighbours; the best piece of each
/// counts.
fn run(link: &mut Udp, to: SocketAddr, leader: bool) {
    let (mut bare, mut ours) = (f64::MAX, f64::MAX);
    for _ in 0..REPEATS {
        bare = bare.min(bare_ping_pong(link, to, leader));
        ours = ours.min(ping_pong(link, to, leader));
    }
    if leader {
        println!("bare sendto and recv: {bare:7.0} ns half round trip");
        println!("through the link:     {ours:7.0} ns half round trip, {:+.0} ns", ours - bare);
    }
    let mut faults = Faults::new(link, Plan::default());
    burst(&mut faults, to, leader);
}

fn bare_ping_pong(link: &Udp, to: SocketAddr, leader: bool) -> f64 {
    let fd = link.attributes().descriptor.expect("something to sleep on");
    // SAFETY: the link keeps its descriptor open as long as it is borrowed; the copy is never closed.
    let socket =
        std::mem::ManuallyDrop::new(unsafe { <std::net::UdpSocket as std::os::fd::FromRawFd>::from_raw_fd(fd) });
    let mut packet = [1; SIZE];
    let mut receive = || {
        // SAFETY: the buffer is ours and SIZE bytes long.
        while unsafe { libc::recv(socket.as_raw_fd(), packet.as_mut_ptr().cast(), SIZE, libc::MSG_DONTWAIT) } < 0 {}
    };
    turns(leader, &mut || assert!(socket.send_to(&[1; SIZE], to).is_ok()), &mut receive)
}

fn ping_pong(link: &mut Udp, to: SocketAddr, leader: bool) -> f64 {
    let link = std::cell::RefCell::new(link);
    let mut send = || assert_eq!(link.borrow_mut().send(&to.into(), &[1; SIZE]).expect("send"), Outcome::Sent);
    let mut receive =
        || while receive_packets(&mut *link.borrow_mut(), &mut |packet| assert_eq!(packet.len(), SIZE), 32) == 0 {};
    turns(leader, &mut send, &mut receive)
}

fn turns(leader: bool, send: &mut dyn FnMut(), receive: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        if leader {
            send();
            receive();
        } else {
            receive();
            send();
        }
    }
    start.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64
}

/// Measures one direction: bursts that the receiver answers, so that nothing is lost.
fn burst(link: &mut Faults<&mut Udp>, to: SocketAddr, leader: bool) {
    let mut best = f64::MAX;
    for _ in 0..REPEATS * 10 {
        let start = Instant::now();
        let mut seen = 0;
        if leader {
            (0..BURST).for_each(|_| assert_eq!(link.send(&to.into(), &[1; SIZE]).expect("send"), Outcome::Sent));
            while receive_packets(link, &mut |_| (), 1) == 0 {}
        } else {
            while seen < BURST {
                seen += receive_packets(link, &mut |_| (), 64);
            }
            assert_eq!(link.send(&to.into(), &[1; SIZE]).expect("send"), Outcome::Sent);
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    if leader {
        let rate = BURST as f64 / best;
        println!("bursts of {BURST} answered: {:7.0} thousand packets/s", rate / 1e3);
    }
}
