//! The faults of a simulated network. A plan has any number of nuisances. Each draws from a generator of its
//! own, so that leaving one out changes nothing of the others.

mod stages;

use crate::fabric::Cut;
use crate::topology::Cable;
use stages::{Blackout, Bursts, Corruption, Duplication, Forgery, LoseExactly, Loss, Mtu, Reordering, Replay};
use std::fmt;
use weft_core::rails::Role;
use weft_core::time::{Duration, Instant};
use weft_random::{Random, mix};

/// The most cuts that flapping makes.
pub const FLAPS_MAX: u32 = 64;

/// A fault; chances are in cases per million packets.
#[derive(Clone, Debug, PartialEq)]
pub enum Nuisance {
    /// Packets are lost, each independently of the others.
    Loss {
        /// The share of packets that is lost.
        per_million: u32,
        /// The only rank whose packets are lost; `None` for all ranks.
        rank: Option<u32>,
    },
    /// The packets with these numbers are lost, counted over the whole run from 0.
    LoseExactly(Vec<u64>),
    /// Packets are lost in bursts (Gilbert 1960, Elliott 1963): the link of each rank is good or bad, and
    /// loses packets in bad times.
    Bursts {
        /// The chance that a packet begins a bad time.
        begins: u32,
        /// The chance that a packet in a bad time is its last.
        ends: u32,
        /// The share of packets lost in a bad time.
        loss: u32,
    },
    /// Every packet of all ranks is lost for a time.
    Blackout {
        /// The first instant.
        from: Instant,
        /// The end.
        to: Instant,
    },
    /// Packets arrive twice.
    Duplication {
        /// The share of packets that arrive twice.
        per_million: u32,
        /// The longest time by which the second copy is later.
        late_max: Duration,
    },
    /// Packets are delayed, so that others overtake them.
    Reordering {
        /// The share of packets that are delayed.
        per_million: u32,
        /// The longest delay.
        delay_max: Duration,
    },
    /// Packets are damaged: a byte anywhere is changed, or the packet is cut short, or made longer.
    Corruption {
        /// The share of packets that are damaged.
        per_million: u32,
    },
    /// Packets are accompanied by a packet that a stranger without the secret made up.
    Forgery {
        /// The share of packets that are accompanied.
        per_million: u32,
    },
    /// Packets are accompanied by an earlier packet, sent to any process.
    Replay {
        /// The share of packets that are accompanied.
        per_million: u32,
    },
    /// A rank does nothing for a time: it computes, or its host is busy.
    Pause {
        /// The rank that rests.
        rank: u32,
        /// The first instant.
        from: Instant,
        /// The end.
        to: Instant,
    },
    /// All hosts have more to run than processors. Each process, its progress thread included, runs for a
    /// short time in each period, at a random place in the period, and does not run otherwise.
    Overload {
        /// The time for which a process runs in each period.
        run: Duration,
        /// The length of a period.
        period: Duration,
    },
    /// A rank needs a multiple of the processor time.
    Slow {
        /// The rank that is slow.
        rank: u32,
        /// The factor of its processor time.
        factor: u32,
    },
    /// A cable is cut for a time.
    Cut {
        /// The cable that is cut.
        cable: Cable,
        /// The first instant.
        from: Instant,
        /// The end.
        to: Instant,
    },
    /// A cable is cut again and again.
    Flapping {
        /// The cable that is cut.
        cable: Cable,
        /// The time of the first cut.
        from: Instant,
        /// The duration of each cut.
        down: Duration,
        /// The time for which the cable works in between.
        up: Duration,
        /// The number of cuts; at most `FLAPS_MAX`.
        times: u32,
    },
    /// The way of packets drops packets longer than `bytes` for a time, and does not say so.
    Mtu {
        /// The longest packet that the way carries, bytes.
        bytes: usize,
        /// The only rank whose packets are concerned; `None` for all ranks.
        rank: Option<u32>,
        /// The first instant.
        from: Instant,
        /// The end.
        to: Instant,
    },
    /// Clocks of hosts began at different times and run fast or slow.
    Clocks {
        /// The longest time by which a clock is ahead.
        ahead_max: Duration,
        /// The most parts per million by which a clock is fast or slow.
        drift_max: u32,
    },
}

impl Nuisance {
    /// The name by which a plan can leave the nuisance out.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Loss { .. } => "loss",
            Self::LoseExactly(_) => "lose-exactly",
            Self::Bursts { .. } => "bursts",
            Self::Blackout { .. } => "blackout",
            Self::Duplication { .. } => "duplication",
            Self::Reordering { .. } => "reordering",
            Self::Corruption { .. } => "corruption",
            Self::Forgery { .. } => "forgery",
            Self::Replay { .. } => "replay",
            Self::Pause { .. } => "pause",
            Self::Overload { .. } => "overload",
            Self::Slow { .. } => "slow",
            Self::Cut { .. } => "cut",
            Self::Flapping { .. } => "flapping",
            Self::Mtu { .. } => "mtu",
            Self::Clocks { .. } => "clocks",
        }
    }

    /// The times at which the nuisance cuts a cable.
    pub fn cuts(&self) -> Vec<Cut> {
        match *self {
            Self::Cut { cable, from, to } => vec![(cable, from..to)],
            Self::Flapping { cable, from, down, up, times } => (0..u64::from(times.min(FLAPS_MAX)))
                .map(|k| from + Duration(k * (down.0 + up.0)))
                .map(|start| (cable, start..start + down))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The stage that the nuisance puts into the way of packets, if it has one.
    pub fn stage(&self, ranks: u32, seed: u64) -> Option<Box<dyn Stage>> {
        let random = Random::new(seed);
        let stage: Box<dyn Stage> = match *self {
            Self::Loss { per_million, rank } => Box::new(Loss { per_million, rank, random }),
            Self::LoseExactly(ref numbers) => Box::new(LoseExactly { numbers: numbers.clone(), serial: 0 }),
            Self::Bursts { begins, ends, loss } => {
                Box::new(Bursts { begins, ends, loss, bad: vec![false; ranks as usize], random })
            }
            Self::Blackout { from, to } => Box::new(Blackout { from, to }),
            Self::Mtu { bytes, rank, from, to } => Box::new(Mtu { bytes, rank, from, to }),
            Self::Duplication { per_million, late_max } => Box::new(Duplication { per_million, late_max, random }),
            Self::Reordering { per_million, delay_max } => Box::new(Reordering { per_million, delay_max, random }),
            Self::Corruption { per_million } => Box::new(Corruption { per_million, random }),
            Self::Forgery { per_million } => Box::new(Forgery { per_million, random }),
            Self::Replay { per_million } => Box::new(Replay { per_million, random, overheard: Vec::new() }),
            Self::Pause { .. }
            | Self::Overload { .. }
            | Self::Slow { .. }
            | Self::Cut { .. }
            | Self::Flapping { .. }
            | Self::Clocks { .. } => {
                return None;
            }
        };
        Some(stage)
    }
}

impl fmt::Display for Nuisance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |per_million: u32| format!("{} %", f64::from(per_million) / 10_000.0);
        let us = |at: u64| format!("{} us", at / 1000);
        match self {
            Self::Loss { per_million, rank: None } => write!(f, "loss {}", percent(*per_million)),
            Self::Loss { per_million, rank: Some(rank) } => write!(f, "loss {} of rank {rank}", percent(*per_million)),
            Self::LoseExactly(numbers) => write!(f, "loss of packets {numbers:?}"),
            Self::Bursts { begins, ends, loss } => {
                write!(f, "bursts begin {} end {} lose {}", percent(*begins), percent(*ends), percent(*loss))
            }
            Self::Blackout { from, to } => write!(f, "blackout {} to {}", us(from.0), us(to.0)),
            Self::Duplication { per_million, .. } => write!(f, "duplication {}", percent(*per_million)),
            Self::Reordering { per_million, delay_max } => {
                write!(f, "reordering {} by {}", percent(*per_million), us(delay_max.0))
            }
            Self::Corruption { per_million } => write!(f, "corruption {}", percent(*per_million)),
            Self::Forgery { per_million } => write!(f, "forgery {}", percent(*per_million)),
            Self::Replay { per_million } => write!(f, "replay {}", percent(*per_million)),
            Self::Pause { rank, from, to } => write!(f, "pause of rank {rank} {} to {}", us(from.0), us(to.0)),
            Self::Overload { run, period } => write!(f, "overload: {} of {}", us(run.0), us(period.0)),
            Self::Slow { rank, factor } => write!(f, "rank {rank} slow {factor} times"),
            Self::Cut { cable, from, to } => write!(f, "cut of {cable:?} {} to {}", us(from.0), us(to.0)),
            Self::Flapping { cable, from, down, up, times } => {
                write!(f, "flapping of {cable:?} from {}, {times} times {} of {}", us(from.0), us(down.0), us(up.0))
            }
            Self::Mtu { bytes, rank, from, to } => {
                let whose = rank.map_or(String::new(), |rank| format!(" of rank {rank}"));
                write!(f, "packets{whose} of more than {bytes} bytes lost {} to {}", us(from.0), us(to.0))
            }
            Self::Clocks { ahead_max, drift_max } => write!(f, "clocks {} apart, {drift_max} ppm", us(ahead_max.0)),
        }
    }
}

/// The reason why a packet did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The packet was lost on the way.
    Loss,
    /// The packet was damaged.
    Damage,
    /// A switch had no room.
    Queue,
    /// The receiver's socket had no room.
    Socket,
    /// A cable was cut.
    Cut,
}

/// A packet on its way.
#[derive(Clone, Debug)]
pub struct Flight {
    /// The rank that sent the packet, or seems to have sent it.
    pub from: u32,
    /// The rank that receives the packet.
    pub to: u32,
    /// The datagram.
    pub bytes: Vec<u8>,
    /// The number of the packet if a flow has sent it and it is unchanged; see `witness`.
    pub number: Option<u32>,
    /// Says whether a switch has marked the packet.
    pub marked: bool,
    /// The path of its flow that the packet takes.
    pub path: u8,
    /// The network through which the packet goes.
    pub rail: u8,
    /// The carrier of the packet in that network.
    pub carrier: Role,
}

/// The fate of a packet and its copies on the way.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The packets that go on, and the delay of each.
    pub onward: Vec<(Duration, Flight)>,
    /// The reason why a genuine packet does not go on.
    pub cause: Option<Cause>,
    /// The counts of all packets so far.
    pub packets: PacketCounts,
}

/// The counts of packets by what happened to them.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketCounts {
    /// Packets that left a process.
    pub sent: u64,
    /// The bytes of packets that left a process.
    pub sent_bytes: u64,
    /// Packets lost on the way.
    pub lost: u64,
    /// Packets delivered twice.
    pub duplicated: u64,
    /// Packets delayed.
    pub delayed: u64,
    /// Packets damaged.
    pub corrupted: u64,
    /// Packets made up by strangers.
    pub forged: u64,
    /// Packets sent again by an eavesdropper.
    pub replayed: u64,
    /// Packets dropped because a queue of a switch was full.
    pub dropped_by_switch: u64,
    /// Packets dropped because the socket was full.
    pub dropped_by_socket: u64,
    /// Packets lost because a cable was cut.
    pub dropped_by_cut: u64,
    /// Packets marked by a switch.
    pub marked: u64,
}

/// A place on the way between a host's link and the next node that changes, loses or adds packets. A packet
/// passes the stages in a row.
pub trait Stage: Send {
    /// Lets a packet pass. Packets that go on are added to `outcome.onward`; a packet that does not go on
    /// leaves its cause.
    fn pass(&mut self, now: Instant, flight: Flight, outcome: &mut Outcome);
}

/// The stages of a plan, one behind the other.
#[derive(Default)]
pub struct Stages(Vec<Box<dyn Stage>>);

impl Stages {
    /// Makes the stages of these nuisances. The seed of each comes from its name, so that leaving one out
    /// changes no other.
    pub fn new(nuisances: &[Nuisance], ranks: u32, seed: u64) -> Self {
        let name = |nuisance: &Nuisance| nuisance.name().bytes().fold(7, |hash, byte| mix(hash ^ u64::from(byte)));
        let salted = |(i, nuisance): (usize, &Nuisance)| {
            let namesakes = nuisances[..i].iter().filter(|other| other.name() == nuisance.name()).count() as u64;
            nuisance.stage(ranks, mix(seed ^ mix(name(nuisance) ^ namesakes)))
        };
        Self(nuisances.iter().enumerate().filter_map(salted).collect())
    }

    /// Lets a packet pass all stages; `outcome.onward` is empty before.
    pub fn pass(&mut self, now: Instant, flight: Flight, outcome: &mut Outcome) {
        outcome.cause = None;
        outcome.onward.push((Duration(0), flight));
        for stage in &mut self.0 {
            let count = outcome.onward.len();
            for _ in 0..count {
                let (delay, flight) = outcome.onward.remove(0);
                let before = outcome.onward.len();
                stage.pass(now, flight, outcome);
                for (later, _) in &mut outcome.onward[before..] {
                    later.0 += delay.0;
                }
            }
        }
    }
}

impl Outcome {
    fn lose(&mut self, flight: &Flight) {
        self.packets.lost += 1;
        if flight.number.is_some() {
            self.cause = Some(Cause::Loss);
        }
    }

    fn go_on(&mut self, flight: Flight) {
        self.onward.push((Duration(0), flight));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLIGHTS: u32 = 100_000;

    /// Sends packets through these nuisances. Returns the packets that came out, and the counts.
    fn through(nuisances: &[Nuisance]) -> (Vec<Vec<(Duration, Flight)>>, PacketCounts) {
        let (mut stages, mut outcome) = (Stages::new(nuisances, 2, 7), Outcome::default());
        let flight = |i: u32| Flight {
            from: i % 2,
            to: 1 - i % 2,
            bytes: vec![i as u8; 40],
            number: Some(i),
            marked: false,
            path: 0,
            rail: 0,
            carrier: Role::BulkData,
        };
        let passed = (0..FLIGHTS).map(|i| {
            stages.pass(Instant(u64::from(i)), flight(i), &mut outcome);
            let number = outcome.onward.iter().filter(|(_, flight)| flight.number.is_some()).count();
            assert_eq!(number == 0, outcome.cause.is_some(), "what is gone has a cause");
            std::mem::take(&mut outcome.onward)
        });
        (passed.collect(), outcome.packets)
    }

    #[test]
    fn losses_are_as_frequent_as_asked_for() {
        let (passed, counts) = through(&[Nuisance::Loss { per_million: 100_000, rank: None }]);
        assert_eq!(passed.iter().filter(|packets| packets.is_empty()).count() as u64, counts.lost);
        assert!((9_500..10_500).contains(&counts.lost));
        let (passed, _) = through(&[Nuisance::Loss { per_million: 500_000, rank: Some(1) }]);
        assert!(passed.iter().step_by(2).all(|packets| packets.len() == 1), "rank 0 loses nothing");
    }

    #[test]
    fn bursts_are_as_long_and_as_frequent_as_asked_for() {
        let (passed, counts) = through(&[Nuisance::Bursts { begins: 1_000, ends: 100_000, loss: 1_000_000 }]);
        // The way of each rank is bad for 10 of 1010 packets.
        assert!((600..1_500).contains(&counts.lost), "{}", counts.lost);
        let of_one: Vec<bool> = passed.iter().step_by(2).map(Vec::is_empty).collect();
        let begun = of_one.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let lost = of_one.iter().filter(|lost| **lost).count();
        assert!((5..20).contains(&(lost / begun)), "{lost} lost in {begun} bursts");
    }

    #[test]
    fn copies_and_delays_add_up() {
        let late_max = Duration(1000);
        let twice = Nuisance::Duplication { per_million: 500_000, late_max };
        let late = Nuisance::Reordering { per_million: 1_000_000, delay_max: late_max };
        let (passed, counts) = through(&[twice.clone(), late.clone()]);
        let copies: usize = passed.iter().map(Vec::len).sum();
        assert_eq!(copies as u64, u64::from(FLIGHTS) + counts.duplicated);
        assert_eq!(counts.delayed, copies as u64);
        let longest = passed.iter().flatten().map(|(delay, _)| delay.0).max();
        assert!((1500..2000).contains(&longest.expect("some")), "both delays");
    }

    #[test]
    fn one_left_out_changes_nothing_of_the_others() {
        let loss = Nuisance::Loss { per_million: 100_000, rank: None };
        let forgery = Nuisance::Forgery { per_million: 0 };
        let late = Nuisance::Reordering { per_million: 100_000, delay_max: Duration(50) };
        let gone = |nuisances: &[Nuisance]| through(nuisances).0.iter().map(Vec::is_empty).collect::<Vec<_>>();
        assert_eq!(gone(&[late, loss.clone()]), gone(&[forgery, loss]));
    }

    #[test]
    fn a_flapping_cable_is_cut_so_often() {
        let cable = Cable::Rank(3);
        let flapping = Nuisance::Flapping { cable, from: Instant(10), down: Duration(5), up: Duration(20), times: 2 };
        assert_eq!(flapping.cuts(), [(cable, Instant(10)..Instant(15)), (cable, Instant(35)..Instant(40))]);
    }
}
