//! The stages that packets pass, one for each nuisance that changes, loses or adds packets.

use super::{Cause, Flight, Outcome, Stage};
use weft_core::time::{Duration, Instant};
use weft_random::Random;

pub(super) struct Loss {
    pub(super) per_million: u32,
    pub(super) rank: Option<u32>,
    pub(super) random: Random,
}

impl Stage for Loss {
    fn pass(&mut self, _now: Instant, flight: Flight, outcome: &mut Outcome) {
        if self.rank.is_none_or(|rank| rank == flight.from) && self.random.chance(self.per_million) {
            outcome.lose(&flight);
        } else {
            outcome.go_on(flight);
        }
    }
}

pub(super) struct LoseExactly {
    pub(super) numbers: Vec<u64>,
    pub(super) serial: u64,
}

impl Stage for LoseExactly {
    fn pass(&mut self, _now: Instant, flight: Flight, outcome: &mut Outcome) {
        self.serial += 1;
        if self.numbers.contains(&(self.serial - 1)) {
            outcome.lose(&flight);
        } else {
            outcome.go_on(flight);
        }
    }
}

pub(super) struct Bursts {
    pub(super) begins: u32,
    pub(super) ends: u32,
    pub(super) loss: u32,
    /// Says whether the way of each rank is bad now.
    pub(super) bad: Vec<bool>,
    pub(super) random: Random,
}

impl Stage for Bursts {
    fn pass(&mut self, _now: Instant, flight: Flight, outcome: &mut Outcome) {
        let bad = &mut self.bad[flight.from as usize];
        if !*bad && self.random.chance(self.begins) {
            *bad = true;
        }
        if *bad {
            *bad = !self.random.chance(self.ends);
            if self.random.chance(self.loss) {
                return outcome.lose(&flight);
            }
        }
        outcome.go_on(flight);
    }
}

pub(super) struct Blackout {
    pub(super) from: Instant,
    pub(super) to: Instant,
}

impl Stage for Blackout {
    fn pass(&mut self, now: Instant, flight: Flight, outcome: &mut Outcome) {
        if (self.from..self.to).contains(&now) { outcome.lose(&flight) } else { outcome.go_on(flight) }
    }
}

pub(super) struct Mtu {
    pub(super) bytes: usize,
    pub(super) rank: Option<u32>,
    pub(super) from: Instant,
    pub(super) to: Instant,
}

impl Stage for Mtu {
    fn pass(&mut self, now: Instant, flight: Flight, outcome: &mut Outcome) {
        let is_met = (self.from..self.to).contains(&now) && self.rank.is_none_or(|rank| rank == flight.from);
        if is_met && flight.bytes.len() > self.bytes { outcome.lose(&flight) } else { outcome.go_on(flight) }
    }
}

pub(super) struct Duplication {
    pub(super) per_million: u32,
    pub(super) late_max: Duration,
    pub(super) random: Random,
}

impl Stage for Duplication {
    fn pass(&mut self, _now: Instant, flight: Flight, outcome: &mut Outcome) {
        if self.random.chance(self.per_million) {
            outcome.packets.duplicated += 1;
            outcome.onward.push((Duration(self.random.below(self.late_max.0)), flight.clone()));
        }
        outcome.go_on(flight);
    }
}

pub(super) struct Reordering {
    pub(super) per_million: u32,
    pub(super) delay_max: Duration,
    pub(super) random: Random,
}

impl Stage for Reordering {
    fn pass(&mut self, _now: Instant, flight: Flight, outcome: &mut Outcome) {
        let mut delay = Duration(0);
        if self.random.chance(self.per_million) {
            outcome.packets.delayed += 1;
            delay = Duration(self.random.below(self.delay_max.0));
        }
        outcome.onward.push((delay, flight));
    }
}

/// The most bytes by which a packet becomes longer.
const GROWTH_MAX: u64 = 20;

pub(super) struct Corruption {
    pub(super) per_million: u32,
    pub(super) random: Random,
}

impl Stage for Corruption {
    fn pass(&mut self, _now: Instant, mut flight: Flight, outcome: &mut Outcome) {
        let random = &mut self.random;
        if random.chance(self.per_million) {
            outcome.packets.corrupted += 1;
            let length = flight.bytes.len();
            match random.below(4) {
                0 => flight.bytes.truncate(random.below(length as u64) as usize),
                1 => flight.bytes.resize(length + random.between(1, GROWTH_MAX) as usize, 0),
                _ => flight.bytes[random.below(length as u64) as usize] ^= random.between(1, 255) as u8,
            }
            if flight.number.take().is_some() {
                outcome.cause = Some(Cause::Damage);
            }
        }
        outcome.go_on(flight);
    }
}

/// The longest packet that a stranger without the secret makes up, bytes.
const FORGED_SIZE_MAX: u64 = 200;

pub(super) struct Forgery {
    pub(super) per_million: u32,
    pub(super) random: Random,
}

impl Stage for Forgery {
    fn pass(&mut self, _now: Instant, flight: Flight, outcome: &mut Outcome) {
        let random = &mut self.random;
        if random.chance(self.per_million) {
            outcome.packets.forged += 1;
            let mut forged = Flight { number: None, ..flight.clone() };
            if random.chance(500_000) || forged.bytes.len() < 8 {
                forged.bytes = (0..random.below(FORGED_SIZE_MAX)).map(|_| random.next() as u8).collect();
            } else {
                // A plausible header under a tag that is wrong.
                forged.bytes[..8].copy_from_slice(&random.next().to_le_bytes());
            }
            outcome.go_on(forged);
        }
        outcome.go_on(flight);
    }
}

/// Packets that an eavesdropper remembers.
const OVERHEARD_MAX: usize = 64;

pub(super) struct Replay {
    pub(super) per_million: u32,
    pub(super) random: Random,
    pub(super) overheard: Vec<Flight>,
}

impl Stage for Replay {
    fn pass(&mut self, _now: Instant, flight: Flight, outcome: &mut Outcome) {
        let random = &mut self.random;
        if random.chance(self.per_million) && !self.overheard.is_empty() {
            outcome.packets.replayed += 1;
            let mut replayed = self.overheard[random.below(self.overheard.len() as u64) as usize].clone();
            if random.chance(200_000) {
                replayed.to = flight.to;
            }
            outcome.go_on(replayed);
        }
        if random.chance(100_000) {
            let heard = Flight { number: None, ..flight.clone() };
            if self.overheard.len() < OVERHEARD_MAX {
                self.overheard.push(heard);
            } else {
                self.overheard[random.below(OVERHEARD_MAX as u64) as usize] = heard;
            }
        }
        outcome.go_on(flight);
    }
}
