//! One switch, a link to each process, and everything that can happen to a packet on the way.

use crate::plan::{Faults, Links};
use crate::random::Random;
use std::collections::VecDeque;
use weft_core::time::{Duration, Instant};

/// Packets that an eavesdropper remembers for replay.
const REPLAY_MEMORY: usize = 64;
/// Longest packet that somebody without the secret makes up.
const FORGED_SIZE_MAX: u64 = 200;

/// A packet on its way.
#[derive(Clone, Debug)]
pub struct Flight {
    /// Who sent it (or seems to have).
    pub from: u32,
    /// Who will get it.
    pub to: u32,
    /// The datagram.
    pub bytes: Vec<u8>,
}

/// What happened to packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fates {
    /// Packets handed to the network.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Lost on the way.
    pub lost: u64,
    /// Dropped because a queue of the switch was full.
    pub dropped_by_switch: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Delayed.
    pub delayed: u64,
    /// Damaged.
    pub corrupted: u64,
    /// Made up.
    pub forged: u64,
    /// Sent again by an eavesdropper.
    pub replayed: u64,
}

/// The network's state.
#[derive(Debug)]
pub struct Network {
    links: Links,
    faults: Faults,
    /// When the link from each process has sent what waits there.
    up_free: Vec<Instant>,
    /// The same for the links from the switch.
    down_free: Vec<Instant>,
    in_burst: bool,
    overheard: VecDeque<Flight>,
    /// Damage anywhere, not only under the usual reach of a tag.
    damage_anywhere: bool,
    /// What happened so far.
    pub fates: Fates,
}

impl Network {
    /// A quiet network for so many processes.
    pub fn new(links: Links, faults: Faults, processes: u32, damage_anywhere: bool) -> Self {
        let idle = vec![Instant(0); processes as usize];
        Self {
            links,
            faults,
            up_free: idle.clone(),
            down_free: idle,
            in_burst: false,
            overheard: VecDeque::new(),
            damage_anywhere,
            fates: Fates::default(),
        }
    }

    fn serialise(&self, bytes: usize) -> Duration {
        Duration((bytes as u64 * 8 * 1000).div_ceil(self.links.rate))
    }

    /// When the link from a process has sent what waits there.
    pub fn up_free(&self, process: u32) -> Instant {
        self.up_free[process as usize]
    }

    /// A packet leaves its process. Returns the packets that reach the switch, and when.
    pub fn send(&mut self, now: Instant, flight: Flight, random: &mut Random) -> Vec<(Instant, Flight)> {
        let serial = self.fates.sent;
        self.fates.sent += 1;
        self.fates.sent_bytes += flight.bytes.len() as u64;
        let begin = self.up_free[flight.from as usize].max(now);
        let end = begin + self.serialise(flight.bytes.len());
        self.up_free[flight.from as usize] = end;
        let at = end + Duration(self.links.latency.0 / 2);
        let mut arriving = self.strangers(at, &flight, random);
        if self.loses(now, serial, random) {
            self.fates.lost += 1;
        } else {
            arriving.push((at, self.maybe_damaged(flight, random)));
        }
        arriving
    }

    fn loses(&mut self, now: Instant, serial: u64, random: &mut Random) -> bool {
        if self.in_burst {
            self.in_burst = !random.chance(self.faults.burst_ends);
            return true;
        }
        self.in_burst = random.chance(self.faults.burst_begins);
        random.chance(self.faults.loss)
            || self.in_burst
            || self.faults.outages.iter().any(|(from, to)| (*from..*to).contains(&now))
            || self.faults.lose_exactly.contains(&serial)
    }

    fn maybe_damaged(&mut self, mut flight: Flight, random: &mut Random) -> Flight {
        if random.chance(self.faults.corrupt) {
            self.fates.corrupted += 1;
            let length = flight.bytes.len();
            let reach = if self.damage_anywhere { length } else { length.min(90) };
            match random.below(4) {
                0 => flight.bytes.truncate(random.below(length as u64) as usize),
                1 => flight.bytes.resize(length + random.between(1, 20) as usize, 0),
                _ => flight.bytes[random.below(reach as u64) as usize] ^= 1 << random.below(8),
            }
        }
        flight
    }

    /// Packets that no member of the job sends now.
    fn strangers(&mut self, at: Instant, flight: &Flight, random: &mut Random) -> Vec<(Instant, Flight)> {
        let mut strangers = Vec::new();
        if random.chance(self.faults.forge) {
            self.fates.forged += 1;
            let mut forged = flight.clone();
            if random.chance(500_000) {
                forged.bytes = (0..random.below(FORGED_SIZE_MAX)).map(|_| random.next() as u8).collect();
            } else {
                // A plausible header under a tag that is wrong.
                forged.bytes[..8].copy_from_slice(&random.next().to_le_bytes());
            }
            strangers.push((at, forged));
        }
        if self.faults.replay > 0 {
            if let (true, count @ 1..) = (random.chance(self.faults.replay), self.overheard.len()) {
                self.fates.replayed += 1;
                let mut replayed = self.overheard[random.below(count as u64) as usize].clone();
                if random.chance(200_000) {
                    replayed.to = flight.to;
                }
                strangers.push((at, replayed));
            }
            if random.chance(100_000) {
                self.overheard.push_back(flight.clone());
                if self.overheard.len() > REPLAY_MEMORY {
                    self.overheard.pop_front();
                }
            }
        }
        strangers
    }

    /// A packet reaches the switch. Returns when it reaches its process: never, once or twice.
    pub fn switch(&mut self, now: Instant, flight: &Flight, random: &mut Random) -> Vec<Instant> {
        let free = self.down_free[flight.to as usize].max(now);
        let waiting = free.since(now).0 * self.links.rate / 8000;
        if waiting + flight.bytes.len() as u64 > self.links.queue_bytes {
            self.fates.dropped_by_switch += 1;
            return Vec::new();
        }
        let end = free + self.serialise(flight.bytes.len());
        self.down_free[flight.to as usize] = end;
        let mut at = end + Duration(self.links.latency.0 - self.links.latency.0 / 2);
        if random.chance(self.faults.reorder) {
            self.fates.delayed += 1;
            at = at + Duration(random.below(self.faults.reorder_max.0));
        }
        let mut arrivals = vec![at];
        if random.chance(self.faults.duplicate) {
            self.fates.duplicated += 1;
            arrivals.push(at + Duration(random.below(self.faults.reorder_max.0.max(1000))));
        }
        arrivals
    }
}
