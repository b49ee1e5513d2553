//! The simulated carriers keep the promises of carriers that `weft-carrier-test` checks.

use std::path::PathBuf;

use super::*;
use weft_carrier_test::{Kit, Pair, check};
use weft_engine::memory::SharedBuffer;
use weft_engine::transport::Proof;
use weft_net::capture::{Capture, Recorder};

const WIRES: Wires = Wires {
    packet_size: 1_400,
    latency: 5_000,
    gigabits: 10,
    send_bytes: 64 << 10,
    receive_bytes: 256 << 10,
    refused: 0,
    joins: true,
    train_bytes: 64 << 10,
    nuisances: Vec::new(),
    multicast: None,
    ordered: None,
};
const PLACING: Placing = Placing {
    bytes_min: 4 << 10,
    eager_max: 8 << 10,
    bytes_max: 1 << 20,
    one_sided_min: 1,
    proof: Proof::Completion,
    unexposed: 0,
    refused: 0,
    overtaken: 0,
    tells: false,
    unasked: false,
};
const ORDERED: Ordered = Ordered {
    beside: false,
    room: 20,
    inject_max: 100,
    delay_max: 3_000,
    tells_of_death: true,
    breaks: None,
    stalls: None,
    placing: Some(PLACING),
    long_path: None,
};

/// The promises that two processes with these wires between them keep, each with a wrapper around its
/// carrier.
fn kept_around<C: Carrier + 'static>(wires: &Wires, medium: Medium, wrap: impl Fn(Device) -> C) -> Vec<&'static str> {
    let clock = Clock::default();
    let pair = || {
        let network = Network::new(wires, 2, 1, clock.clone(), 7);
        let [near, far] = [0, 1].map(|rank| (wrap(network.device(rank, 0, medium)), address(rank, medium)));
        Pair::new(near, far)
    };
    check(Kit::new(pair, |_, _| panic!("there is nothing to sleep on")).with_time(|| clock.set(clock.now() + 200)))
}

fn kept(wires: &Wires, medium: Medium) -> Vec<&'static str> {
    kept_around(wires, medium, |device| device)
}

#[test]
fn carriers_that_lose_packets_keep_their_promises() {
    for medium in [Medium::Udp, Medium::Frames(0)] {
        assert_eq!(kept(&WIRES, medium).len(), 7, "{medium:?}");
    }
}

#[test]
fn carriers_with_groups_keep_what_they_promise_of_them() {
    let multicast = Multicast { scheme: Scheme::WINDOW, window: 64, filtered: false };
    let kept = kept(&Wires { multicast: Some(multicast), ..WIRES }, Medium::Udp);
    assert!(kept.len() == 8 && kept.contains(&"what is sent to a group reaches its members"), "{kept:?}");
}

fn keeps_order_and_memory(kept: &[&str]) {
    let has = |what: &str| kept.iter().any(|promise| promise.starts_with(what));
    assert!(kept.len() == 9 && has("each packet arrives once and in order") && has("memory is reached"), "{kept:?}");
}

#[test]
fn carriers_that_lose_none_keep_the_order_and_reach_memory() {
    keeps_order_and_memory(&kept(&Wires { ordered: Some(ORDERED), ..WIRES }, Medium::Udp));
}

/// A file that is removed together with the test that writes it.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// `WEFT_CAPTURE` around carriers with remote memory.   Expect: memory is reached as without it.
#[test]
fn a_capture_around_them_changes_nothing() {
    let file = File(std::env::temp_dir().join(format!("weft-sim-promises-{}.pcapng", std::process::id())));
    let recorder = Recorder::create(&file.0, Box::new(|why| panic!("{why}"))).unwrap();
    let wires = Wires { ordered: Some(ORDERED), ..WIRES };
    keeps_order_and_memory(&kept_around(&wires, Medium::Udp, |device| Capture::new(device, &recorder, Vec::new())));
}

/// A connection loses a write, and the other end ends the connection before this end has heard of the loss.
/// Expect: this end hears of the loss all the same; it may wait for no completion of its write.
#[test]
fn an_end_hears_of_its_loss_although_the_other_ended_the_connection_first() {
    let breaks = Some(Break { from: 0, to: 1, at: 0 });
    let wires = Wires { ordered: Some(Ordered { beside: true, breaks, ..ORDERED }), ..WIRES };
    let clock = Clock::default();
    let network = Network::new(&wires, 2, 1, clock.clone(), 7);
    let [mut near, mut far] = [0, 1].map(|rank| network.device(rank, 0, Medium::Streams));
    let data = SharedBuffer::new(100).describe_all();
    assert!(near.write_unasked(&address(1, Medium::Streams), &data, 1, 2) == Unasked::Begun);
    clock.set(clock.now() + 1_000_000);
    near.receive(&mut |_| {}, 1);
    clock.set(clock.now() + ORDERED.delay_max);
    assert!(far.take_broken().is_some());
    far.disconnect(&address(0, Medium::Streams));
    assert!(near.poll_completion().is_none() && near.take_broken().is_some());
}
