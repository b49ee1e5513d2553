//! Plays a plan: processes with real flows, an agenda of events, and the checks.

mod turns;

use crate::agenda::{Agenda, Happening, Slab};
use crate::capture::Capture;
use crate::check;
use crate::fabric::{Cut, Fabric, Hop};
use crate::ledger::Conversation;
use crate::nuisance::{Cause, Flight, Nuisance, Outcome, Stages};
use crate::plan::{Plan, RANKS_MAX, Traffic};
use crate::process::Process;
use crate::report::Report;
use crate::topology::{Cable, Node};
use crate::violation::Violation;
use std::collections::HashMap;
use std::sync::Arc;
use weft_core::flow::{FAR, Flow, Settings};
use weft_core::process::{Parties, ProcessName};
use weft_core::rails::RAILS_MAX;
use weft_core::time::{Duration, Instant};
use weft_core::wire::{self, Kind, Secret};

/// The number of events after which a run counts as endless.
const EVENTS_MAX: u64 = 200_000_000;
/// Bytes added to the limit of a flow's memory: growth of buffers by doubling, records, events.
const FLOW_BYTES_SLACK: usize = 256 * 1024;
/// The most bytes that leave at once: as many as one UDP datagram could hold, which is Linux's limit for
/// segmentation offload.
const TRAIN_BYTES_MAX: usize = 65_507;
/// The job's secret.
const SECRET: [u8; 16] = *b"the job's secret";

/// The cuts in the network with this index.
fn cuts_of(cuts: &[Cut], index: u8) -> Vec<Cut> {
    let here = |(cable, range): &Cut| match *cable {
        Cable::Further(network, rank) if network == index => Some((Cable::Rank(rank), range.clone())),
        Cable::Further(..) => None,
        cable => (index == 0).then(|| (cable, range.clone())),
    };
    cuts.iter().filter_map(here).collect()
}

/// The output of a run while it is played.
#[derive(Default)]
pub struct Watch {
    /// Says whether to print every packet.
    pub trace: bool,
    /// The capture to which every packet is written that a host sends or takes from its socket.
    pub capture: Option<Capture>,
}

/// Plays the plan to its end.
pub fn run(plan: &Plan, seed: u64) -> Result<Report, Violation> {
    run_watched(plan, seed, &mut Watch::default())
}

/// Plays the plan to its end and shows its events. A flow that panics is a violation as well.
pub fn run_watched(plan: &Plan, seed: u64, watch: &mut Watch) -> Result<Report, Violation> {
    let play = std::panic::AssertUnwindSafe(|| {
        let begin = processor_time();
        let mut world = World::new(plan, seed, watch)?;
        world.play()?;
        let mut report = world.into_report()?;
        report.processor = Duration(processor_time().0.saturating_sub(begin.0));
        check::demands(plan, &report)?;
        Ok(report)
    });
    std::panic::catch_unwind(play).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("of an unknown kind");
        Err(Violation(format!("a panic: {text}")))
    })
}

/// The processor time of this thread so far; where the system does not tell it, the time of the clock.
fn processor_time() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|text| text.split(' ').next()?.parse().ok());
    Duration(told.unwrap_or_else(|| START.elapsed().as_nanos() as u64))
}

pub(crate) struct World<'a> {
    pub(crate) plan: &'a Plan,
    watch: &'a mut Watch,
    pub(crate) now: Instant,
    pub(crate) agenda: Agenda,
    /// The networks: the plan's first network, then its further ones.
    pub(crate) fabrics: Vec<Fabric>,
    /// The settings of all flows.
    pub(crate) settings: Arc<Settings>,
    stages: Stages,
    outcome: Outcome,
    pub(crate) processes: Vec<Process>,
    pub(crate) secret: Secret,
    pub(crate) conversations: Vec<Conversation>,
    /// The conversations, by sender and receiver.
    pub(crate) pairs: HashMap<(u32, u32), usize>,
    /// Packets in the network and in sockets.
    pub(crate) packets: Slab<Flight>,
    /// Buffers that can be used again.
    pub(crate) spare: Vec<Vec<u8>>,
    pub(crate) packet: Vec<u8>,
    pub(crate) flow_bytes_allowed: usize,
    pub(crate) report: Report,
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, seed: u64, watch: &'a mut Watch) -> Result<Self, Violation> {
        let settings = &plan.settings;
        if !(2..=RANKS_MAX).contains(&plan.ranks) {
            return Err(Violation(format!("{} ranks; a run has 2 to {RANKS_MAX}", plan.ranks)));
        }
        let networks = || [&plan.topology].into_iter().chain(&plan.rails);
        if networks().count() > RAILS_MAX {
            return Err(Violation(format!("{} networks; ranks have at most {RAILS_MAX}", networks().count())));
        }
        if let Some(flaw) = networks().find_map(|network| network.flaw(plan.ranks, settings.packet_size as u64)) {
            return Err(Violation(flaw));
        }
        let cuts: Vec<_> = plan.nuisances.iter().flat_map(Nuisance::cuts).collect();
        let bulk_paths =
            if plan.rails.is_empty() && !plan.host.frames { settings.bulk_paths } else { 1 + plan.rails.len() as u8 };
        let process = |own| Process::new(own, plan, seed);
        let mut world = Self {
            plan,
            watch,
            now: Instant(0),
            agenda: Agenda::default(),
            fabrics: networks()
                .zip(0..)
                .map(|(network, index)| Fabric::new(network, plan.ranks, &cuts_of(&cuts, index), seed))
                .collect(),
            settings: Arc::new(Settings { bulk_paths, ..settings.clone() }),
            stages: Stages::new(&plan.nuisances, plan.ranks, seed),
            outcome: Outcome::default(),
            processes: (0..plan.ranks).map(process).collect(),
            secret: Secret::new(SECRET),
            conversations: Vec::new(),
            pairs: HashMap::new(),
            packets: Slab::default(),
            spare: Vec::new(),
            packet: vec![0; settings.packet_size.max(TRAIN_BYTES_MAX)],
            flow_bytes_allowed: 2 * settings.queue_bytes
                + 2 * settings.window_packets as usize * settings.packet_size
                + settings.pieces_max()
                + FLOW_BYTES_SLACK
                + if plan.topology.round_trip(settings.packet_size as u64) < FAR { 0 } else { settings.books_max() },
            report: Report::default(),
        };
        world.open_conversations(seed)?;
        world.report = Report::of(plan);
        Ok(world)
    }

    fn open_conversations(&mut self, seed: u64) -> Result<(), Violation> {
        let frame_max = Flow::new(self.settings.clone(), &self.secret, &Parties::of_only_job(0, 1)).frame_max();
        let mut workload: Vec<&Traffic> = self.plan.workload.iter().collect();
        // The latest first, as `will_begin` wants it; otherwise in the order of the plan.
        workload.reverse();
        workload.sort_by_key(|traffic| std::cmp::Reverse(traffic.begin));
        for traffic in workload {
            let (from, to) = (traffic.from, traffic.to);
            let index = self.conversations.len();
            if from == to || from.max(to) >= self.plan.ranks || self.pairs.insert((from, to), index).is_some() {
                return Err(Violation(format!("the plan has traffic from {from} to {to} twice, or no such ranks")));
            }
            self.converse(seed, traffic.clone(), frame_max);
            self.processes[from as usize].will_begin(traffic.begin, index);
        }
        for index in 0..self.conversations.len() {
            let Traffic { from, to, .. } = self.conversations[index].traffic;
            if !self.pairs.contains_key(&(to, from)) {
                self.pairs.insert((to, from), self.conversations.len());
                self.converse(seed, Traffic::between(to, from), frame_max);
            }
        }
        Ok(())
    }

    fn converse(&mut self, seed: u64, traffic: Traffic, frame_max: usize) {
        let key = wire::Key::derive(
            &self.secret,
            ProcessName::of_only_job(traffic.from),
            ProcessName::of_only_job(traffic.to),
        );
        self.conversations.push(Conversation::new(seed, traffic, frame_max, key));
    }

    fn play(&mut self) -> Result<(), Violation> {
        for own in 0..self.plan.ranks {
            self.wake(own, Instant(0));
        }
        while let Some((at, what)) = self.agenda.next() {
            self.now = at;
            match what {
                Happening::Arrival(entry, Node::Host(rank)) => self.at_host(entry, rank),
                Happening::Arrival(entry, node) => self.at_switch(entry, node),
                Happening::Wake(own) if self.is_due(own) => self.run_process(own)?,
                Happening::Wake(_) => continue,
            }
            self.report.events += 1;
            if self.report.events > EVENTS_MAX || at.0 > self.plan.time_limit.0 {
                return Err(self.no_end());
            }
            self.report.elapsed = Duration(at.0);
        }
        Ok(())
    }

    /// Describes what is still missing when the time is up.
    fn no_end(&self) -> Violation {
        let open: Vec<_> = self.conversations.iter().filter(|conversation| !conversation.is_complete()).collect();
        let first = open.first().map(|conversation| conversation.progress()).unwrap_or("all has arrived".into());
        let (events, us) = (self.report.events, self.now.0 / 1000);
        Violation(format!("no end after {events} events and {us} us; {} pairs are not done; {first}", open.len()))
    }

    /// Lets a packet leave its process.
    pub(crate) fn depart(&mut self, conversation: usize, mut flight: Flight) -> Result<(), Violation> {
        let witnessed = &mut self.conversations[conversation];
        // No run is long enough for a third epoch.
        let genuine = |epoch| witnessed.key.verify(epoch, &flight.bytes);
        let opened = wire::Packet::parse_head(&flight.bytes).filter(|_| (0..2).any(genuine));
        if let Some((packet, payload)) = &opened {
            flight.path = packet.path;
            if let Kind::Numbered { number, .. } = packet.kind {
                flight.number = Some(number.0);
                witnessed.witness.note_departure(number.0, &mut self.report.resends).map_err(Violation)?;
            }
            // A packet that leaves in pieces is known by the first piece to leave, which counts for nothing
            // once it has left.
            if let (Kind::Piece(_), Some((piece, _))) = (packet.kind, wire::Piece::parse(payload))
                && witnessed.witness.is_first_piece(piece.number.0, piece.transmission)
            {
                let number = piece.number.0;
                witnessed.witness.note_departure(number, &mut self.report.resends).map_err(Violation)?;
                witnessed.witness.gone(number, Cause::Loss);
            }
            if self.watch.trace {
                let (from, to, bytes) = (flight.from, flight.to, payload.len());
                crate::out::line(format_args!("{:>12} ns  {from} -> {to}  {bytes} bytes {packet:?}", self.now.0));
            }
        } else {
            return Err(Violation(format!("{} makes a packet that {} cannot open", flight.from, flight.to)));
        }
        self.launch(conversation, flight);
        Ok(())
    }

    /// Lets a datagram leave its host; the conversation is that of the datagram's flow.
    pub(crate) fn launch(&mut self, conversation: usize, mut flight: Flight) {
        self.capture(flight.from, true, &flight);
        self.outcome.packets.sent += 1;
        self.outcome.packets.sent_bytes += flight.bytes.len() as u64;
        let (rank, number) = (flight.from, flight.number);
        let fabric = &mut self.fabrics[usize::from(flight.rail)];
        let hop = fabric.forward(self.now, Node::Host(rank), (rank, flight.to), flight.path, flight.bytes.len() as u64);
        let Hop::Arrives { at, node, marked } = hop else {
            return self.drop_at(hop, flight);
        };
        flight.marked |= marked;
        self.stages.pass(at, flight, &mut self.outcome);
        let mut onward = std::mem::take(&mut self.outcome.onward);
        let copies = onward.iter().filter(|(_, flight)| flight.number.is_some()).count();
        if let Some(number) = number {
            let witness = &mut self.conversations[conversation].witness;
            (1..copies).for_each(|_| witness.copied(number));
            if let (0, Some(cause)) = (copies, self.outcome.cause) {
                witness.gone(number, cause);
            }
        }
        for (delay, flight) in onward.drain(..) {
            let entry = self.packets.put(flight);
            self.agenda.add(at + delay, Happening::Arrival(entry, node));
        }
        self.outcome.onward = onward;
    }

    fn at_switch(&mut self, entry: u32, node: Node) {
        let flight = self.packets.at(entry);
        let (pair, path, bytes) = ((flight.from, flight.to), flight.path, flight.bytes.len() as u64);
        let hop = self.fabrics[usize::from(flight.rail)].forward(self.now, node, pair, path, bytes);
        if let Hop::Arrives { at, node, marked } = hop {
            self.outcome.packets.marked += u64::from(marked && !flight.marked);
            flight.marked |= marked;
            return self.agenda.add(at, Happening::Arrival(entry, node));
        }
        let flight = self.packets.take(entry);
        self.drop_at(hop, flight);
    }

    fn at_host(&mut self, entry: u32, rank: u32) {
        let flight = self.packets.at(entry);
        let (carrier, bytes) = (flight.carrier, flight.bytes.len() as u64);
        if self.processes[rank as usize].receive(carrier, entry, bytes, self.plan.host.receive_bytes) {
            return self.wake(rank, self.now);
        }
        let flight = self.packets.take(entry);
        self.outcome.packets.dropped_by_socket += 1;
        self.gone(flight, Cause::Socket);
    }

    fn drop_at(&mut self, hop: Hop, flight: Flight) {
        let packets = &mut self.outcome.packets;
        let cause = if hop == Hop::Full { Cause::Queue } else { Cause::Cut };
        match cause {
            Cause::Queue => packets.dropped_by_switch += 1,
            _ => packets.dropped_by_cut += 1,
        }
        self.gone(flight, cause);
    }

    fn gone(&mut self, flight: Flight, cause: Cause) {
        // Strangers' packets may come between any two ranks; packets of a flow have a conversation.
        if let Some(number) = flight.number {
            self.conversations[self.pairs[&(flight.from, flight.to)]].witness.gone(number, cause);
        }
        self.spare.push(flight.bytes);
    }

    /// Writes a packet to the capture, if there is one.
    pub(crate) fn capture(&mut self, rank: u32, outgoing: bool, flight: &Flight) {
        if let Some(capture) = &mut self.watch.capture {
            capture.write(self.now, rank, outgoing, flight);
        }
    }

    /// Makes the report, if everything is delivered and acknowledged, no process waits for anything, and no
    /// flow keeps much memory.
    fn into_report(mut self) -> Result<Report, Violation> {
        for conversation in &mut self.conversations {
            if !conversation.is_complete() {
                return Err(Violation(format!("it stopped before everything had arrived {}", conversation.progress())));
            }
            self.report.take(conversation);
        }
        for (own, process) in self.processes.iter().enumerate() {
            for peer in &process.peers {
                check::rest(own as u32, peer)?;
                self.report.add(peer.flow.counters());
                self.report.add(&peer.past);
                self.report.flows += 1;
                self.report.given_up += peer.given_up();
            }
        }
        self.report.packets = self.outcome.packets;
        for fabric in &self.fabrics {
            let (switch, host) = fabric.deepest_bytes();
            self.report.queue_bytes_max = self.report.queue_bytes_max.max(switch);
            self.report.host_bytes_max = self.report.host_bytes_max.max(host);
        }
        self.report.packets_alive_max = self.packets.most();
        self.report.agenda_max = self.agenda.longest;
        Ok(self.report)
    }
}
