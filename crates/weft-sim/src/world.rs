//! Plays a plan: processes with real flows, a heap of events, and the checks.

use crate::ledger::{Receiving, Sending};
use crate::network::{Flight, Network};
use crate::plan::{Plan, Traffic};
use crate::random::Random;
use crate::report::Report;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use weft_core::flow::{Event, Flow, IDLE_BYTES_MAX};
use weft_core::time::{Duration, Instant};
use weft_core::wire;

/// Events after which a run is taken for endless.
const EVENTS_MAX: u64 = 20_000_000;
/// Packets a process handles before it looks at the rest of its work.
const BATCH: usize = 64;
/// Bytes that may wait for a process's own link before it stops sending (a socket's send buffer).
const UPLINK_BYTES: u64 = 128 * 1024;
/// Added to what a flow may hold: growth of buffers by doubling, records, events.
const FLOW_BYTES_SLACK: usize = 256 * 1024;
/// The job's secret.
const SECRET: [u8; 16] = *b"the job's secret";

/// What the run did wrong.
#[derive(Clone, Debug)]
pub struct Violation(pub String);

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Plays the plan to its end.
pub fn run(plan: &Plan, seed: u64) -> Result<Report, Violation> {
    let mut world = World::new(plan, seed);
    world.play()?;
    world.check_rest()?;
    world.check_demands()?;
    Ok(world.report)
}

/// Everything one process knows of another.
struct Peer {
    flow: Flow,
    sending: Sending,
    receiving: Receiving,
}

impl Peer {
    fn is_complete(&self) -> bool {
        self.sending.is_complete() && self.receiving.is_complete()
    }
}

struct Process {
    peers: BTreeMap<u32, Peer>,
    socket: VecDeque<Vec<u8>>,
    socket_bytes: u64,
    /// It does nothing before: it works off what it did.
    busy_until: Instant,
    wake_at: Option<Instant>,
}

#[derive(Debug)]
enum Happening {
    AtSwitch(Flight),
    AtProcess(u32, Vec<u8>),
    Wake(u32),
}

struct Entry {
    at: Instant,
    serial: u64,
    what: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.serial) == (other.at, other.serial)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

struct World<'a> {
    plan: &'a Plan,
    random: Random,
    now: Instant,
    serial: u64,
    heap: BinaryHeap<Reverse<Entry>>,
    network: Network,
    processes: Vec<Process>,
    packet: Vec<u8>,
    flow_bytes_allowed: usize,
    report: Report,
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, seed: u64) -> Self {
        let settings = &plan.settings;
        let damage_anywhere = settings.tag_bytes >= settings.packet_size;
        let processes = (0..plan.processes).map(|own| Process::new(plan, seed, own)).collect();
        Self {
            plan,
            random: Random::new(seed),
            now: Instant(0),
            serial: 0,
            heap: BinaryHeap::new(),
            network: Network::new(plan.links, plan.faults.clone(), plan.processes, damage_anywhere),
            processes,
            packet: vec![0; settings.packet_size],
            flow_bytes_allowed: 2 * settings.queue_bytes
                + 2 * settings.window_packets as usize * settings.packet_size
                + FLOW_BYTES_SLACK,
            report: Report::default(),
        }
    }

    fn schedule(&mut self, at: Instant, what: Happening) {
        self.serial += 1;
        self.heap.push(Reverse(Entry { at: at.max(self.now), serial: self.serial, what }));
    }

    fn play(&mut self) -> Result<(), Violation> {
        for own in 0..self.plan.processes {
            self.wake(own, Instant(0));
        }
        let mut events = 0;
        while let Some(Reverse(Entry { at, what, .. })) = self.heap.pop() {
            self.now = at;
            events += 1;
            if events > EVENTS_MAX || at.0 > self.plan.time_limit.0 {
                return Err(Violation(format!("no end after {events} events and {} us", at.0 / 1000)));
            }
            match what {
                Happening::AtSwitch(flight) => self.at_switch(flight),
                Happening::AtProcess(to, bytes) => self.at_process(to, bytes),
                Happening::Wake(own) => self.run_process(own)?,
            }
        }
        Ok(())
    }

    fn at_switch(&mut self, flight: Flight) {
        let times = self.network.switch(self.now, &flight, &mut self.random);
        let mut bytes = Some(flight.bytes);
        for (i, at) in times.iter().enumerate() {
            let copy = if i + 1 == times.len() { bytes.take() } else { bytes.clone() };
            self.schedule(*at, Happening::AtProcess(flight.to, copy.unwrap_or_default()));
        }
    }

    fn at_process(&mut self, to: u32, bytes: Vec<u8>) {
        let process = &mut self.processes[to as usize];
        if process.socket_bytes + bytes.len() as u64 > self.plan.links.socket_bytes {
            self.report.dropped_by_socket += 1;
            return;
        }
        process.socket_bytes += bytes.len() as u64;
        process.socket.push_back(bytes);
        self.wake(to, self.now);
    }

    /// Sees to it that a process runs at `at`, or before.
    fn wake(&mut self, own: u32, at: Instant) {
        let process = &mut self.processes[own as usize];
        let at = at.max(process.busy_until).max(self.now);
        if process.wake_at.is_none_or(|planned| at < planned) {
            process.wake_at = Some(at);
            self.schedule(at, Happening::Wake(own));
        }
    }

    fn run_process(&mut self, own: u32) -> Result<(), Violation> {
        let process = &mut self.processes[own as usize];
        if process.wake_at != Some(self.now) {
            // An earlier wake-up made this one obsolete.
            return Ok(());
        }
        process.wake_at = None;
        let asleep = |(who, from, to): &&(u32, Instant, Instant)| *who == own && (*from..*to).contains(&self.now);
        if let Some((_, _, until)) = self.plan.pauses.iter().find(asleep) {
            self.wake(own, *until);
            return Ok(());
        }
        let handled = self.handle_arrivals(own);
        self.take_events(own)?;
        let sent = self.send(own);
        let process = &mut self.processes[own as usize];
        process.busy_until = self.now + Duration((handled + sent) as u64 * self.plan.links.packet_cost.0);
        self.check_process(own)?;
        self.plan_wake(own);
        Ok(())
    }

    fn handle_arrivals(&mut self, own: u32) -> usize {
        let process = &mut self.processes[own as usize];
        let count = process.socket.len().min(BATCH);
        for bytes in process.socket.drain(..count) {
            process.socket_bytes -= bytes.len() as u64;
            let Some(peer) = wire::peek_sender(&bytes).and_then(|from| process.peers.get_mut(&from)) else { continue };
            let (messages, payload) = (peer.receiving.messages, peer.receiving.bytes);
            peer.flow.handle_packet(self.now, &bytes, &mut peer.receiving);
            if peer.receiving.messages > messages && peer.sending.submitted_at.0 > 0 {
                self.report.round_trips.push(self.now.since(peer.sending.submitted_at));
            }
            if peer.receiving.bytes > payload {
                self.report.delivered_at = Duration(self.now.0);
            }
        }
        count
    }

    /// Nothing may be acknowledged that has not arrived.
    fn take_events(&mut self, own: u32) -> Result<(), Violation> {
        let mut claims = Vec::new();
        for (&other, peer) in &mut self.processes[own as usize].peers {
            while let Some(event) = peer.flow.poll_event() {
                match event {
                    Event::Acknowledged { region, bytes } => {
                        let claim = peer.sending.acknowledged(region, bytes).map_err(Violation)?;
                        claims.push((other, claim));
                    }
                    Event::PeerFailed { reason } => {
                        return Err(Violation(format!("{own} takes {other} for failed: {reason:?}")));
                    }
                }
            }
        }
        for (other, (sink, bytes)) in claims {
            let placed = self.processes[other as usize].peers[&own].receiving.placed(sink);
            if placed < bytes {
                return Err(Violation(format!(
                    "{own} was told that {bytes} bytes of sink {sink} are at {other}, which has {placed}"
                )));
            }
        }
        Ok(())
    }

    fn send(&mut self, own: u32) -> usize {
        let mut sent = 0;
        let others: Vec<u32> = self.processes[own as usize].peers.keys().copied().collect();
        let limit = Duration(UPLINK_BYTES * 8000 / self.plan.links.rate);
        for other in others {
            loop {
                let process = &mut self.processes[own as usize];
                let Some(peer) = process.peers.get_mut(&other) else { break };
                peer.sending.submit(self.now, &mut peer.flow, peer.receiving.messages);
                if self.network.up_free(own).since(self.now) > limit {
                    break;
                }
                let packet = &mut self.packet;
                let Some(length) = peer.flow.poll_transmit(self.now, &mut peer.sending, packet) else { break };
                let bytes = packet[..length].to_vec();
                sent += 1;
                self.depart(Flight { from: own, to: other, bytes });
            }
        }
        sent
    }

    fn depart(&mut self, flight: Flight) {
        if self.plan.trace {
            trace(self.now, &flight);
        }
        for (at, flight) in self.network.send(self.now, flight, &mut self.random) {
            self.schedule(at, Happening::AtSwitch(flight));
        }
    }

    fn check_process(&mut self, own: u32) -> Result<(), Violation> {
        for (other, peer) in &self.processes[own as usize].peers {
            if let Some(violation) = &peer.receiving.violation {
                return Err(Violation(violation.clone()));
            }
            let held = peer.flow.memory_bytes();
            self.report.flow_bytes_max = self.report.flow_bytes_max.max(held);
            if held > self.flow_bytes_allowed {
                return Err(Violation(format!("the flow from {own} to {other} holds {held} bytes")));
            }
        }
        Ok(())
    }

    fn plan_wake(&mut self, own: u32) {
        let process = &self.processes[own as usize];
        let mut next = if process.socket.is_empty() { None } else { Some(self.now) };
        let limit = Duration(UPLINK_BYTES * 8000 / self.plan.links.rate);
        let uplink = self.network.up_free(own) - limit;
        for peer in process.peers.values() {
            let turn = peer.sending.next_turn(&peer.flow, peer.receiving.messages);
            // A full link delays whatever wants to leave.
            let timeout = peer.flow.next_timeout().map(|at| at.max(uplink + Duration(1)));
            next = [next, turn, timeout].into_iter().flatten().min();
        }
        if let Some(at) = next {
            // A process that has nothing more to do now sleeps at least a moment, or time would stand still.
            let at = if at <= self.now && process.socket.is_empty() { self.now + Duration(100) } else { at };
            self.wake(own, at);
        }
    }

    /// All is delivered, all is acknowledged, nobody waits for anything, nobody keeps much.
    fn check_rest(&mut self) -> Result<(), Violation> {
        self.report.elapsed = Duration(self.now.0);
        self.report.fates = self.network.fates;
        for (own, process) in self.processes.iter_mut().enumerate() {
            for (other, peer) in &mut process.peers {
                let pair = format!("{own} with {other}");
                if !peer.is_complete() {
                    return Err(Violation(format!("{pair} stopped before everything had arrived")));
                }
                if !peer.flow.is_idle() || peer.flow.next_timeout().is_some() {
                    return Err(Violation(format!("{pair} does not come to rest")));
                }
                let held = peer.flow.memory_bytes();
                if held > IDLE_BYTES_MAX {
                    return Err(Violation(format!("{pair} is idle and holds {held} bytes")));
                }
                self.report.bytes += peer.receiving.bytes;
                self.report.add(peer.flow.counters());
            }
        }
        Ok(())
    }

    fn check_demands(&self) -> Result<(), Violation> {
        let (demands, sum) = (&self.plan.demands, &self.report.counters);
        let peers = || self.processes.iter().flat_map(|process| process.peers.values());
        let flows = peers().count() as u64;
        let mut broken = Vec::new();
        let mut demand = |holds: bool, what: String| {
            if !holds {
                broken.push(what);
            }
        };
        let resent = sum.resent();
        if demands.no_resend {
            demand(resent == 0 && sum.probes == 0, format!("{resent} resends and {} probes", sum.probes));
        }
        if demands.no_resend_of_data {
            demand(resent == 0, format!("{resent} resends"));
        }
        if demands.no_duplicate {
            demand(sum.duplicates == 0, format!("{} packets arrived twice", sum.duplicates));
        }
        if let Some(packets) = demands.packets_per_ack {
            let ranges: u64 = peers().map(|peer| peer.sending.bulk_ranges()).sum();
            let allowed = sum.data_packets_received / packets + ranges + flows;
            demand(sum.acks_standalone <= allowed, format!("{} acks, {allowed} allowed", sum.acks_standalone));
        }
        if demands.no_standalone_ack {
            demand(sum.acks_standalone <= flows, format!("{} acks of their own", sum.acks_standalone));
        }
        if let Some(percent) = demands.wire_percent_max {
            let (wire, payload) = (self.report.fates.sent_bytes, self.report.bytes);
            demand(wire * 100 <= payload * percent, format!("{wire} bytes on the wire for {payload}"));
        }
        if broken.is_empty() { Ok(()) } else { Err(Violation(broken.join("; "))) }
    }
}

impl Process {
    fn new(plan: &Plan, seed: u64, own: u32) -> Self {
        let mut peers = BTreeMap::new();
        let traffic = |from: u32, to: u32| {
            let found = plan.traffic.iter().find(|traffic| (traffic.from, traffic.to) == (from, to));
            (found.cloned().unwrap_or_else(|| Traffic::between(from, to)), found.is_some())
        };
        for other in (0..plan.processes).filter(|other| *other != own) {
            let ((there, sends), (back, receives)) = (traffic(own, other), traffic(other, own));
            if sends || receives {
                let flow = Flow::new(&plan.settings, SECRET, own, other);
                let receiving = Receiving::new(seed, back, flow.frame_max());
                peers.insert(other, Peer { flow, sending: Sending::new(seed, there), receiving });
            }
        }
        Self { peers, socket: VecDeque::new(), socket_bytes: 0, busy_until: Instant(0), wake_at: None }
    }
}

fn trace(now: Instant, flight: &Flight) {
    let key = wire::Key::derive(&SECRET, flight.from, flight.to);
    let opened = wire::Packet::open(&key, wire::TAG_BYTES, &flight.bytes);
    let what = opened.map(|(packet, payload)| format!("{} bytes {packet:?}", payload.len()));
    println!("{:>12} ns  {} -> {}  {what:?}", now.0, flight.from, flight.to);
}
