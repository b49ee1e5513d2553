//! The process of a rank: its flows, its sockets, and the times when it looks at them.

use crate::clock::Clock;
use crate::grants::Granting;
use crate::nuisance::Nuisance;
use crate::plan::Plan;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use weft_core::flow::{Counters, Flow, SMALLER_BYTES, Settings, paths_bytes};
use weft_core::process::Parties;
use weft_core::rails::{Rails, Role};
use weft_core::time::{Duration, Instant};
use weft_core::wire::Secret;
use weft_random::mix;

/// The passes between two looks at UDP while raw frames come.
const UDP_EVERY: u32 = 16;
/// The times that a flow becomes idle until it is parked once.
const PARK_EVERY: u32 = 16;

/// The knowledge that one process has of another.
pub(crate) struct Peer {
    pub(crate) flow: Flow,
    /// The counters of the flow before it was parked last.
    pub(crate) past: Counters,
    pub(crate) rests: u32,
    /// The rails to the peer, where there are several networks.
    pub(crate) rails: Option<Rails>,
    /// The index of the other process.
    pub(crate) other: u32,
    /// The indices of the conversations to the peer and from it.
    pub(crate) there: usize,
    pub(crate) back: usize,
    /// Says whether the peer is in `Process::active`.
    pub(crate) active: bool,
    pub(crate) timer: Option<Instant>,
}

impl Peer {
    /// Lets an idle flow give back memory. Now and then parks the flow, as drivers do with many peers:
    /// parking must have no visible effect.
    pub(crate) fn rest(&mut self, own: u32, settings: &Arc<Settings>, secret: &Secret) {
        self.flow.shrink();
        self.rests += 1;
        if self.rests.is_multiple_of(PARK_EVERY) && self.flow.can_park() {
            let new = || Flow::new(settings.clone(), secret, &Parties::of_only_job(own, self.other));
            let (parked, counters) = std::mem::replace(&mut self.flow, new()).park();
            self.past.add(&counters);
            self.flow = Flow::unpark(parked, settings.clone(), secret, &Parties::of_only_job(own, self.other));
        }
    }

    /// The number of times that a rail, or the carrier of its bulk data, was given up.
    pub(crate) fn given_up(&self) -> u64 {
        let of = |rails: &Rails| {
            (0..rails.rails()).map(|rail| u64::from(rails.failures(rail).0)).sum::<u64>() + u64::from(rails.failovers())
        };
        self.rails.as_ref().map_or(0, of)
    }

    /// Bytes that the flow keeps because it stripes, or because a path has turned out to carry only smaller
    /// packets.
    pub(crate) fn kept_bytes(&self) -> usize {
        let smaller =
            if self.flow.counters().packets_smaller + self.past.packets_smaller > 0 { SMALLER_BYTES } else { 0 };
        smaller + self.rails.as_ref().map_or(0, |rails| paths_bytes(rails.bulk_paths()))
    }
}

/// Packets that wait for a process.
#[derive(Default)]
pub(crate) struct Socket {
    pub(crate) slots: VecDeque<u32>,
    pub(crate) bytes: u64,
}

/// The times at which a process runs on an overloaded host.
struct Overload {
    run: Duration,
    period: Duration,
    seed: u64,
}

impl Overload {
    /// The span in which the process runs in a period.
    fn turn(&self, period: u64) -> Range<Instant> {
        let spare = self.period.0.saturating_sub(self.run.0) + 1;
        let begin = Instant(period * self.period.0 + mix(self.seed ^ period) % spare);
        begin..begin + self.run
    }

    /// The next instant at which the process runs, if it does not run now.
    fn away_until(&self, now: Instant) -> Option<Instant> {
        let period = now.0 / self.period.0.max(1);
        let turn = self.turn(period);
        if turn.contains(&now) {
            return None;
        }
        Some(if now < turn.start { turn.start } else { self.turn(period + 1).start })
    }
}

/// A process. Peers are made when they first talk, and found by index.
pub(crate) struct Process {
    pub(crate) peers: Vec<Peer>,
    pub(crate) by_index: HashMap<u32, usize>,
    /// The sockets of raw frames and of UDP.
    pub(crate) sockets: [Socket; 2],
    /// The passes since the last look at UDP.
    passes: u32,
    /// The time until which the process works off what it did; it does nothing before.
    pub(crate) busy_until: Instant,
    pub(crate) wake_at: Option<Instant>,
    /// Peers that may have something to send, in the order of their turns.
    pub(crate) active: VecDeque<usize>,
    pub(crate) timers: BTreeSet<(Instant, usize)>,
    /// Conversations that have not begun; the last entry is the earliest.
    pub(crate) to_begin: Vec<(Instant, usize)>,
    pauses: Vec<Range<Instant>>,
    overload: Option<Overload>,
    pub(crate) clock: Clock,
    pub(crate) packet_cost: Duration,
    pub(crate) granting: Granting,
}

impl Process {
    pub(crate) fn new(own: u32, plan: &Plan, seed: u64) -> Self {
        let mut pauses = Vec::new();
        let (mut factor, mut overload) = (1, None);
        for nuisance in &plan.nuisances {
            match *nuisance {
                Nuisance::Pause { rank, from, to } if rank == own => pauses.push(from..to),
                Nuisance::Overload { run, period } => {
                    overload = Some(Overload { run, period, seed: mix(seed ^ mix(u64::from(own))) });
                }
                Nuisance::Slow { rank, factor: times } if rank == own => factor *= u64::from(times),
                _ => {}
            }
        }
        Self {
            peers: Vec::new(),
            by_index: HashMap::new(),
            sockets: Default::default(),
            passes: 0,
            busy_until: Instant(0),
            wake_at: None,
            active: VecDeque::new(),
            timers: BTreeSet::new(),
            to_begin: Vec::new(),
            pauses,
            overload,
            clock: Clock::of(own, &plan.nuisances, seed),
            packet_cost: Duration(plan.host.packet_cost.0 * factor),
            granting: Granting::default(),
        }
    }

    /// Notes that the process will send this conversation. To be called for all conversations before the run,
    /// the latest first.
    pub(crate) fn will_begin(&mut self, begin: Instant, conversation: usize) {
        self.to_begin.push((begin, conversation));
    }

    /// Takes a packet into the socket. Returns false if there is no room.
    pub(crate) fn receive(&mut self, carrier: Role, entry: u32, bytes: u64, room: u64) -> bool {
        let socket = &mut self.sockets[usize::from(carrier == Role::BulkData)];
        let fits = socket.bytes + bytes <= room;
        if fits {
            socket.bytes += bytes;
            socket.slots.push_back(entry);
        }
        fits
    }

    /// The time until which the process does nothing, if it does not run now.
    pub(crate) fn away_until(&self, now: Instant) -> Option<Instant> {
        let pause = self.pauses.iter().find(|pause| pause.contains(&now)).map(|pause| pause.end);
        pause.or_else(|| self.overload.as_ref()?.away_until(now))
    }

    /// The sockets at which the process looks now: while raw frames come, it does not look at UDP in each
    /// pass, as in the library.
    pub(crate) fn looks(&mut self) -> Range<usize> {
        self.passes += 1;
        let udp = self.sockets[0].slots.is_empty() || self.passes >= UDP_EVERY;
        if udp {
            self.passes = 0;
        }
        0..1 + usize::from(udp)
    }

    pub(crate) fn activate(&mut self, peer: usize) {
        if !self.peers[peer].active {
            self.peers[peer].active = true;
            self.active.push_back(peer);
        }
    }

    pub(crate) fn set_timer(&mut self, peer: usize, at: Option<Instant>) {
        let timer = &mut self.peers[peer].timer;
        if *timer == at {
            return;
        }
        if let Some(old) = timer.take() {
            self.timers.remove(&(old, peer));
        }
        *timer = at;
        self.timers.extend(at.map(|at| (at, peer)));
    }
}
