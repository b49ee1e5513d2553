//! Measures the cost of a flow on this machine's processor, without any network:
//! `cargo run --release -p weft-sim --example cost`.

use std::sync::Arc;
use std::time::Instant as Clock;
use weft_core::flow::{Deliver, Flow, IDLE_BYTES_MAX, Regions, Settings};
use weft_core::process::Parties;
use weft_core::time::{Duration, Instant};
use weft_core::wire::Secret;

const ROUNDS: u32 = 300_000;
const REPEATS: usize = 7;

#[derive(Default)]
struct Memory {
    messages: u64,
    bytes: u64,
}

impl Regions for Memory {
    fn read(&mut self, _region: u32, _offset: u64, out: &mut [u8]) {
        out.fill(1);
    }
}

impl Deliver for Memory {
    fn message(&mut self, body: &[u8]) {
        self.messages += 1;
        self.bytes += body.len() as u64;
    }
    fn data(&mut self, _remote_key: u32, _offset: u64, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
    }
}

fn pair(settings: &Settings) -> (Flow, Flow) {
    let settings = Arc::new(settings.clone());
    let secret = Secret::new([1; 16]);
    (
        Flow::new(settings.clone(), &secret, &Parties::of_only_job(0, 1)),
        Flow::new(settings, &secret, &Parties::of_only_job(1, 0)),
    )
}

/// The best of some repeats, in nanoseconds.
fn best(mut once: impl FnMut() -> f64) -> f64 {
    (0..REPEATS).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// A message there and a message back: each side submits a message, makes a packet, handles a packet, and
/// looks after each step for more to send.
fn ping_pong() -> f64 {
    let (mut a, mut b) = pair(&Settings::default());
    let (mut memory, mut packet) = (Memory::default(), [0; 1500]);
    let mut now = Instant(1);
    let begin = Clock::now();
    for _ in 0..ROUNDS {
        for there in [true, false] {
            let (sender, receiver) = if there { (&mut a, &mut b) } else { (&mut b, &mut a) };
            sender.submit_message(&[0; 16], &[0; 8]);
            let length = sender.poll_transmit(now, &mut memory, &mut packet).expect("a packet");
            assert!(sender.poll_transmit(now, &mut memory, &mut []).is_none());
            now = now + Duration::from_micros(10);
            receiver.handle_packet(now, &packet[..length], &mut memory);
        }
    }
    assert_eq!(memory.messages, u64::from(ROUNDS) * 2);
    begin.elapsed().as_nanos() as f64 / f64::from(ROUNDS) / 2.0
}

/// The parts of a ping-pong, timed apart over a window of packets with one message each; acknowledgements
/// come back at the end.
fn parts() -> [f64; 3] {
    let window = 64;
    let settings = Settings { window_packets: window, ..Settings::default() };
    let (mut a, mut b) = pair(&settings);
    let mut memory = Memory::default();
    let mut packets = vec![([0; 1500], 0); window as usize];
    let mut spent = [0; 3];
    let mut now = Instant(1);
    for _ in 0..ROUNDS / window {
        now = now + Duration::from_micros(100);
        let begin = Clock::now();
        for (packet, length) in &mut packets {
            a.submit_message(&[0; 16], &[0; 8]);
            *length = a.poll_transmit(now, &mut memory, packet).expect("a packet");
        }
        spent[0] += begin.elapsed().as_nanos();
        let begin = Clock::now();
        for (packet, length) in &packets {
            b.handle_packet(now, &packet[..*length], &mut memory);
        }
        spent[1] += begin.elapsed().as_nanos();
        let begin = Clock::now();
        let mut packet = [0; 1500];
        let length = b.poll_transmit(now, &mut memory, &mut packet).expect("an acknowledgement");
        a.handle_packet(now, &packet[..length], &mut memory);
        assert!(a.is_idle());
        spent[2] += begin.elapsed().as_nanos();
    }
    spent.map(|nanoseconds| nanoseconds as f64 / f64::from(ROUNDS / window * window))
}

/// Many 8-byte messages, coalesced: nanoseconds per message, both sides together.
fn coalesced() -> f64 {
    let (mut a, mut b) = pair(&Settings::default());
    let (mut memory, mut packet) = (Memory::default(), [0; 1500]);
    let mut now = Instant(1);
    let begin = Clock::now();
    for _ in 0..ROUNDS / 100 {
        for _ in 0..100 {
            a.submit_message(&[0; 16], &[0; 8]);
        }
        now = now + Duration::from_micros(100);
        for _ in 0..2 {
            while let Some(length) = a.poll_transmit(now, &mut memory, &mut packet) {
                b.handle_packet(now, &packet[..length], &mut memory);
            }
            now = now + Duration::from_micros(100);
            while let Some(length) = b.poll_transmit(now, &mut memory, &mut packet) {
                a.handle_packet(now, &packet[..length], &mut memory);
            }
        }
    }
    assert_eq!(memory.messages, u64::from(ROUNDS / 100 * 100));
    begin.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

/// Bulk data in packets of a size: nanoseconds per packet, both sides together, filling and counting
/// included.
fn bulk(packet_size: usize) -> f64 {
    let (mut a, mut b) = pair(&Settings { packet_size, ..Settings::default() });
    let (mut memory, mut packet) = (Memory::default(), vec![0; packet_size]);
    let mut now = Instant(1);
    let total = 20_000 * packet_size as u64;
    let begin = Clock::now();
    a.submit_data(1, 1, 0..total);
    let mut packets = 0;
    while memory.bytes < total {
        now = now + Duration::from_micros(1);
        while let Some(length) = a.poll_transmit(now, &mut memory, &mut packet) {
            packets += 1;
            b.handle_packet(now, &packet[..length], &mut memory);
        }
        while let Some(length) = b.poll_transmit(now, &mut memory, &mut packet) {
            a.handle_packet(now, &packet[..length], &mut memory);
        }
        while a.poll_event().is_some() {}
    }
    begin.elapsed().as_nanos() as f64 / f64::from(packets)
}

fn main() {
    println!("8 bytes and a head of 16, one way (submit, send, look again, handle): {:.0} ns", best(ping_pong));
    let mut split = [f64::INFINITY; 3];
    for _ in 0..REPEATS {
        for (least, part) in split.iter_mut().zip(parts()) {
            *least = least.min(part);
        }
    }
    println!(
        "  submit + poll_transmit {:.0} ns, handle_packet {:.0} ns, its share of an acknowledgement per 64 {:.0} ns",
        split[0], split[1], split[2]
    );
    println!("8 bytes, coalesced, both sides: {:.0} ns a message", best(coalesced));
    for size in [1452, 8952, 65_000] {
        println!("bulk in packets of {size}: {:.0} ns a packet, both sides", best(|| bulk(size)));
    }
    println!("one new flow: {} bytes; idle after work at most {IDLE_BYTES_MAX}", size_of::<Flow>());
}
