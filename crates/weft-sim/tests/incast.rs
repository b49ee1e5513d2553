//! 256 senders to one receiver that decides which sender may send how much: real flows and grants in front of
//! one port of a switch.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use weft_core::flow::{Counters, Deliver, Flow, Regions, Settings};
use weft_core::grants::Grants;
use weft_core::process::Parties;
use weft_core::time::{Duration, Instant};
use weft_core::wire::{self, Secret};
use weft_sim::port::{Offer, Port};
use weft_sim::topology::{Link, Node, frame_bytes};

const SENDERS: u32 = 256;
const BYTES: u64 = 256 << 10;
const RECEIVER: u32 = SENDERS;
/// The time from a host to the switch and back again.
const CABLE: Duration = Duration(1_000);
const EVENTS_MAX: u64 = 5_000_000;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    AtSwitch(Vec<u8>),
    AtReceiver(Vec<u8>),
    AtSender(u32, Vec<u8>),
    /// The timer of a sender's flow, or of the receiver's flow to that sender.
    Sender(u32),
    Receiver(u32),
    Grants,
}

/// The content of the packets that have arrived.
#[derive(Default)]
struct Inbox {
    messages: Vec<u64>,
    bytes: u64,
}

impl Deliver for Inbox {
    fn message(&mut self, body: &[u8]) {
        self.messages.push(u64::from_le_bytes(body.try_into().expect("eight bytes")));
    }
    fn data(&mut self, _remote_key: u32, _offset: u64, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
    }
}

struct Zeros;

impl Regions for Zeros {
    fn read(&mut self, _region: u32, _offset: u64, out: &mut [u8]) {
        out.fill(0);
    }
}

struct Incast {
    now: Instant,
    serial: u64,
    agenda: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    port: Port,
    buffer: u64,
    senders: Vec<Flow>,
    /// The time when each sender's own link is free, and the bytes of its message that it has submitted.
    up_free: Vec<Instant>,
    submitted: Vec<u64>,
    receiver: Vec<Flow>,
    arrived: Vec<u64>,
    done: Vec<Duration>,
    /// The receiver's grants; `None`: every sender sends when it likes.
    grants: Option<Grants>,
    dropped: u64,
}

impl Incast {
    fn new(buffer: u64, grants: Option<Grants>) -> Self {
        let settings = Arc::new(Settings::default());
        let flow =
            |own, peer| Flow::new(Arc::clone(&settings), &Secret::new([3; 16]), &Parties::of_only_job(own, peer));
        let zero = vec![0; SENDERS as usize];
        Self {
            now: Instant(1),
            serial: 0,
            agenda: BinaryHeap::new(),
            port: Port::new(Link { propagation: CABLE, ..Link::default() }, Node::Host(0), Vec::new()),
            buffer,
            senders: (0..SENDERS).map(|own| flow(own, RECEIVER)).collect(),
            up_free: vec![Instant(0); SENDERS as usize],
            submitted: zero.clone(),
            receiver: (0..SENDERS).map(|peer| flow(RECEIVER, peer)).collect(),
            arrived: zero,
            done: Vec::new(),
            grants,
            dropped: 0,
        }
    }

    fn at(&mut self, at: Instant, event: Event) {
        self.serial += 1;
        self.agenda.push(Reverse((at.max(self.now), self.serial, event)));
    }

    fn play(mut self) -> Self {
        for own in 0..SENDERS {
            let flow = &mut self.senders[own as usize];
            match self.grants {
                Some(_) => flow.submit_message(&BYTES.to_le_bytes(), &[]),
                None => flow.submit_data(own, own, 0..BYTES),
            }
            self.pump_sender(own);
        }
        let mut events = 0;
        while let Some(Reverse((at, _, event))) = self.agenda.pop() {
            events += 1;
            assert!(events < EVENTS_MAX && self.done.len() <= SENDERS as usize, "no end at {at:?}");
            self.now = at;
            match event {
                Event::AtSwitch(bytes) => match self.port.offer(at, bytes.len() as u64, self.buffer) {
                    Offer::Arrives { at, .. } => self.at(at, Event::AtReceiver(bytes)),
                    _ => self.dropped += 1,
                },
                Event::AtReceiver(bytes) => self.at_receiver(&bytes),
                Event::AtSender(own, bytes) => self.at_sender(own, &bytes),
                Event::Sender(own) => self.pump_sender(own),
                Event::Receiver(peer) => self.pump_receiver(peer),
                Event::Grants => self.give_grants(),
            }
        }
        assert_eq!(self.done.len(), SENDERS as usize);
        self
    }

    fn at_sender(&mut self, own: u32, bytes: &[u8]) {
        let (index, mut inbox) = (own as usize, Inbox::default());
        self.senders[index].handle_packet(self.now, bytes, &mut inbox);
        for limit in inbox.messages {
            self.senders[index].submit_data(own, own, self.submitted[index]..limit);
            self.submitted[index] = limit;
        }
        self.pump_sender(own);
    }

    fn pump_sender(&mut self, own: u32) {
        let index = own as usize;
        let mut out = [0; 1500];
        // A host's queue holds 128 KiB.
        while self.up_free[index].since(self.now) < Duration(105_000) {
            let flow = &mut self.senders[index];
            let Some(length) = flow.poll_transmit(self.now, &mut Zeros, &mut out) else { break };
            let occupied = Duration(frame_bytes(length as u64) * 8 / 10);
            let left = self.up_free[index].max(self.now) + occupied;
            self.up_free[index] = left;
            self.at(left + CABLE, Event::AtSwitch(out[..length].to_vec()));
        }
        while self.senders[index].poll_event().is_some() {}
        if let Some(at) = self.senders[index].next_timeout() {
            let free = self.up_free[index] - Duration(100_000);
            self.at(at.max(free).max(self.now + Duration(500)), Event::Sender(own));
        }
    }

    fn at_receiver(&mut self, bytes: &[u8]) {
        let peer = wire::peek_sender(bytes).expect("a packet of ours");
        let (index, mut inbox) = (peer as usize, Inbox::default());
        self.receiver[index].handle_packet(self.now, bytes, &mut inbox);
        if let Some(grants) = &mut self.grants {
            inbox.messages.iter().for_each(|total| grants.submit(peer, peer, *total));
            grants.arrived(self.now, peer, inbox.bytes, None);
        }
        self.arrived[index] += inbox.bytes;
        if inbox.bytes > 0 && self.arrived[index] == BYTES {
            self.done.push(Duration(self.now.0));
        }
        self.give_grants();
        self.pump_receiver(peer);
    }

    fn give_grants(&mut self) {
        while let Some(grant) = self.grants.as_mut().and_then(|grants| grants.poll(self.now)) {
            self.receiver[grant.name as usize].submit_message(&grant.limit.to_le_bytes(), &[]);
            self.pump_receiver(grant.name);
        }
        if let Some(at) = self.grants.as_ref().and_then(Grants::next_timeout) {
            self.at(at, Event::Grants);
        }
    }

    fn pump_receiver(&mut self, peer: u32) {
        let flow = &mut self.receiver[peer as usize];
        let mut out = [0; 1500];
        let mut packets = Vec::new();
        while let Some(length) = flow.poll_transmit(self.now, &mut Zeros, &mut out) {
            packets.push(out[..length].to_vec());
        }
        let timer = flow.next_timeout();
        for bytes in packets {
            self.at(self.now + CABLE + CABLE, Event::AtSender(peer, bytes));
        }
        if let Some(at) = timer {
            self.at(at.max(self.now + Duration(500)), Event::Receiver(peer));
        }
    }

    fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.senders.iter().for_each(|flow| sum.add(flow.counters()));
        sum
    }

    /// The share of the receiver's link that payload takes, and the ratio of the slowest in a hundred
    /// messages to a link that is always full.
    fn result(&self) -> (f64, f64) {
        let payload = 1408.0;
        let ideal = (u64::from(SENDERS) * BYTES) as f64 / payload * frame_bytes(1452) as f64 * 0.8;
        let [p99, last] = [99, 100].map(|percent| self.done[self.done.len() * percent / 100 - 1].0 as f64);
        (ideal / last, p99 / ideal)
    }
}

#[test]
fn grants_keep_the_link_full_and_lose_nothing() {
    // A switch with a megabyte for the port.
    let granted = Incast::new(1 << 20, Some(Grants::new())).play();
    let (share, p99) = granted.result();
    println!("with grants: {:.1} % of the link, P99 {p99:.2} times the ideal", share * 100.0);
    assert!(share >= 0.85, "{:.1} % of the link", share * 100.0);
    assert!(p99 <= 3.0, "P99 {p99:.2} times the ideal");
    assert_eq!((granted.dropped, granted.counters().resent()), (0, 0));
    assert!(granted.port.deepest_bytes <= 800 << 10, "{} bytes waited", granted.port.deepest_bytes);

    // The same senders without grants.   Expect: the switch drops packets; grants prevent that.
    let free = Incast::new(1 << 20, None).play();
    let (share, p99) = free.result();
    println!("without: {:.1} % of the link, P99 {p99:.2} times the ideal, {} drops", share * 100.0, free.dropped);
    assert!(free.dropped > 1_000, "{} drops", free.dropped);
    // Congestion is not taken for a smaller MTU, though most packets are lost several times.
    assert_eq!(free.counters().packets_smaller, 0);
    // Questions about the MTU do not cost the link much either.
    assert!(share >= 0.7, "{:.1} % of the link", share * 100.0);
}
