//! The paths that packets take. A packet proves another one lost, by overtaking it, only on the same path. An
//! unanswered probe says something only about its own path.
//!
//! Path 0 is that of messages. Bulk data takes path 0 too, or paths of its own: each packet takes the path on
//! which it will have arrived first. Behind these may come the long path, for messages that are longer than a
//! packet of the others.

use super::congestion::Congestion;
use super::loss_detection::OutstandingProbes;
use super::round_trip::RoundTrip;
use super::settings::{PACE_BEHIND, PATH_DOUBTS, Settings};
use crate::time::{Duration, Instant};
use crate::wire::{Number, PATHS_MAX};
use alloc::boxed::Box;
use core::ops::{Index, IndexMut};

/// Paths that have room in every flow.
const INLINE: usize = 2;
/// Packets whose departure a choice of path anticipates, at most: a train.
const AHEAD: u32 = 44;
/// The time for which a rate is believed once traffic has told it. After that the path may be as good as any
/// other. Otherwise a path that was found slow in a bad moment would get too few packets to be found quick
/// again.
const RATE_VALID: Duration = Duration::from_secs(1);
/// Fewest packets in a round trip that tell a rate.
const TELLING: u32 = 8;
/// Divisor of a rate for its growth in a round trip in which it is not used up.
const GROWTH: u32 = 8;

#[derive(Debug)]
pub(super) struct Path {
    /// The next transmission's number.
    pub(super) order: Number,
    /// The latest transmission that is known to have arrived, plus one.
    pub(super) proved: Number,
    /// Packets of the path in state `InFlight` or `Overtaken`.
    pub(super) in_flight: u32,
    /// The newest packet that was sent on the path for the first time.
    pub(super) newest: Number,
    /// First transmissions since one asked for an acknowledgement.
    pub(super) since_request: u32,
    /// The last time that a packet left that wants an answer. An answer to earlier packets does not put the
    /// tail's probe off.
    pub(super) asked_at: Instant,
    /// The time at which pacing lets the next packet leave on a far path.
    paced_until: Instant,
    pub(super) probes: OutstandingProbes,
    /// Probes since a packet of this path was acknowledged, or a probe on it answered.
    pub(super) unanswered: u8,
    /// The next transmission when the path was doubted last, or has taken another carrier.
    doubted: Number,
    /// The next probe when the path has taken another carrier.
    changed: Number,
    /// The first transmission since the path has taken another carrier.
    pub(super) lane_from: Number,
    /// The next probe when the path took another carrier than that of the transmission before `lane_from`. It
    /// may have changed again since.
    lane_probe: Number,
    pub(super) round_trip: RoundTrip,
    pub(super) congestion: Congestion,
}

impl Path {
    const fn new(settings: &Settings) -> Self {
        Self {
            order: Number::FIRST,
            proved: Number::FIRST,
            in_flight: 0,
            newest: Number::FIRST,
            since_request: 0,
            asked_at: Instant(0),
            paced_until: Instant(0),
            probes: OutstandingProbes::new(),
            unanswered: 0,
            doubted: Number::FIRST,
            changed: Number::FIRST,
            lane_from: Number::FIRST,
            lane_probe: Number::FIRST,
            round_trip: RoundTrip::new(),
            congestion: Congestion::new(settings.window_packets),
        }
    }

    /// Returns whether this probe has left on the carrier that the path takes now.
    pub(super) const fn has_left_since_change(&self, probe: Number) -> bool {
        !self.changed.is_after(probe)
    }

    /// Returns whether this probe may have taken another carrier than the transmissions before
    /// [`Self::lane_from`].
    pub(super) const fn has_left_on_another(&self, probe: Number) -> bool {
        !self.lane_probe.is_after(probe)
    }

    fn park(self) -> ParkedPath {
        let Self { order, proved, doubted, changed, round_trip, congestion, .. } = self;
        ParkedPath { order, proved, doubted, changed, round_trip, congestion }
    }

    fn unpark(parked: ParkedPath, settings: &Settings) -> Self {
        let ParkedPath { order, proved, doubted, changed, round_trip, congestion } = parked;
        Self {
            order,
            proved,
            doubted,
            changed,
            lane_from: order,
            lane_probe: changed,
            round_trip,
            congestion,
            ..Self::new(settings)
        }
    }

    /// The time until which bulk data has to wait, where it is paced.
    pub(super) fn paced_until(&self) -> Instant {
        if self.round_trip.is_far() { self.paced_until } else { Instant(0) }
    }

    /// Notes that a paced packet leaves.
    #[cold]
    fn pace(&mut self, now: Instant) {
        let interval = self.congestion.pacing_interval(self.round_trip.minimum().unwrap_or_default());
        self.paced_until = self.paced_until.max(Instant(now.0.saturating_sub(PACE_BEHIND.0))) + interval;
    }

    /// Returns whether as many packets are in flight as the window allows.
    pub(super) const fn is_full(&self) -> bool {
        self.in_flight >= self.congestion.window()
    }
}

/// The rate at which a path delivers: packets in 2³⁰ ns; 0 before the first round trip has ended.
///
/// A round trip in which the path always had a queue shows the rate that the path can carry. A round trip
/// with little traffic shows only that little: then the rate grows until there is a queue.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    packets: u32,
    /// The last time that a round trip had enough packets to tell the rate.
    told: Instant,
    /// Packets acknowledged since `since`.
    acknowledged: u32,
    since: Instant,
    /// Packets were in flight before `since`.
    busy: bool,
}

impl Rate {
    /// Takes the end of a round trip with `in_flight` packets in flight. `shortest`: the round trip without a
    /// queue.
    fn round(&mut self, now: Instant, in_flight: u32, shortest: Duration) {
        let (known, span) = (self.packets, now.since(self.since).0.max(1));
        let shown = u32::try_from((u64::from(self.acknowledged) << 30) / span).unwrap_or(u32::MAX).max(1);
        let had_queue = self.busy && span > shortest.0 + shortest.0 / 4;
        let more = known.saturating_add(known / GROWTH);
        let is_telling = self.acknowledged >= TELLING;
        let packets = match known {
            _ if !is_telling => known,
            0 => shown,
            _ if had_queue => known / 2 + shown / 2,
            _ => known.max(more.min(shown.saturating_mul(2))),
        };
        let told = if is_telling { now } else { self.told };
        *self = Self { packets, told, acknowledged: 0, since: now, busy: in_flight > 0 };
    }

    /// Begins anew when the first packet for some time leaves.
    fn begin(&mut self, now: Instant) {
        (self.acknowledged, self.since, self.busy) = (0, now, false);
    }
}

/// The state of a path on which nothing is in flight.
#[derive(Debug)]
struct ParkedPath {
    order: Number,
    proved: Number,
    doubted: Number,
    changed: Number,
    round_trip: RoundTrip,
    congestion: Congestion,
}

/// The paths of a flow that is parked.
#[derive(Debug)]
pub(super) struct ParkedPaths {
    first: [ParkedPath; INLINE],
    stripes: Option<Box<Stripes>>,
    usable: u8,
}

/// The state that only striping flows have.
#[derive(Debug)]
struct Stripes {
    /// The paths behind the first two.
    paths: Box<[Path]>,
    /// The rate of each path.
    rates: [Rate; PATHS_MAX],
}

#[derive(Debug)]
pub(super) struct Paths {
    first: [Path; INLINE],
    /// The state of striping; there once bulk data has been striped.
    stripes: Option<Box<Stripes>>,
    /// Paths of bulk data that take new packets, one bit each.
    pub(super) usable: u8,
    /// Paths with an unanswered probe of which the driver should know.
    doubts: u8,
    /// Paths that have been proved since to lead to the peer.
    alive: u8,
}

impl Index<usize> for Paths {
    type Output = Path;

    fn index(&self, path: usize) -> &Path {
        match &self.stripes {
            Some(stripes) if path >= INLINE => &stripes.paths[path - INLINE],
            _ => &self.first[path],
        }
    }
}

impl IndexMut<usize> for Paths {
    fn index_mut(&mut self, path: usize) -> &mut Path {
        match &mut self.stripes {
            Some(stripes) if path >= INLINE => &mut stripes.paths[path - INLINE],
            _ => &mut self.first[path],
        }
    }
}

impl Paths {
    pub(super) const fn new(settings: &Settings) -> Self {
        let first = [Path::new(settings), Path::new(settings)];
        // The first path of bulk data is believed in until the driver says more.
        Self { first, stripes: None, usable: 1 << 1, doubts: 0, alive: 0 }
    }

    /// Keeps the state that must not be forgotten while nothing is in flight.
    pub(super) fn park(self) -> ParkedPaths {
        let Self { first, stripes, usable, .. } = self;
        ParkedPaths { first: first.map(Path::park), stripes, usable }
    }

    pub(super) fn unpark(parked: ParkedPaths, settings: &Settings) -> Self {
        let ParkedPaths { first, stripes, usable } = parked;
        Self { first: first.map(|path| Path::unpark(path, settings)), stripes, usable, ..Self::new(settings) }
    }

    /// The path, if any packet has ever been sent there.
    pub(super) fn get(&self, path: usize) -> Option<&Path> {
        self.iter().nth(path)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.first.iter().chain(self.stripes.iter().flat_map(|stripes| stripes.paths.iter()))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.first.iter_mut().chain(self.stripes.iter_mut().flat_map(|stripes| stripes.paths.iter_mut()))
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.iter().map(|path| path.in_flight).sum()
    }

    /// Paths with packets in flight, one bit each.
    pub(super) fn in_flight_mask(&self) -> u8 {
        self.iter().enumerate().fold(0, |mask, (index, path)| mask | u8::from(path.in_flight > 0) << index)
    }

    /// The end of the packets sent on these paths: one past the newest, counted from `base`.
    pub(super) fn end_of(&self, paths: u8, base: Number) -> u32 {
        let of = |(index, path): (usize, &Path)| {
            if paths & 1 << index == 0 { 0 } else { path.newest.plus(1).since(base).max(0) as u32 }
        };
        self.iter().enumerate().map(of).max().unwrap_or(0)
    }

    /// Makes room for further paths before packets leave there, if there are any.
    pub(super) fn prepare(&mut self, settings: &Settings) {
        let more = settings.other_paths().saturating_sub(INLINE - 1);
        if more > 0 && self.stripes.is_none() {
            let paths = (0..more).map(|_| Path::new(settings)).collect();
            self.stripes = Some(Box::new(Stripes { paths, rates: [Rate::default(); PATHS_MAX] }));
        }
    }

    /// The paths of bulk data that take new packets.
    pub(super) fn bulk(&self, settings: &Settings) -> impl Iterator<Item = usize> {
        let striped = if self.stripes.is_some() { settings.bulk_paths } else { settings.bulk_paths.min(1) };
        let usable = self.usable;
        let only = if settings.bulk_paths == 0 { Some(0) } else { None };
        only.into_iter().chain((1..=usize::from(striped)).filter(move |path| striped == 1 || usable & 1 << path != 0))
    }

    /// The path on which bulk data that leaves now will have arrived first; not `but`, if there is another
    /// path.
    ///
    /// A path whose window is full may still be that path: then waiting for it is better than taking a slow
    /// path.
    pub(super) fn choose(&self, now: Instant, settings: &Settings, but: Option<usize>) -> usize {
        let Some(stripes) = self.stripes.as_ref().filter(|_| settings.bulk_paths > 1) else {
            return self.bulk(settings).next().unwrap_or(0);
        };
        let best = stripes.rates.iter().map(|rate| rate.packets).max().unwrap_or(0).max(1);
        let cost = |path: &usize| {
            let Rate { packets, told, .. } = stripes.rates[*path];
            let rate = if packets == 0 || now.since(told) > RATE_VALID { best } else { packets };
            let ahead = AHEAD.min(self[*path].congestion.window());
            let queue = (u64::from(self[*path].in_flight + ahead) << 30) / u64::from(rate);
            queue + self[*path].round_trip.minimum().map_or(0, |shortest| shortest.0)
        };
        let other = self.bulk(settings).filter(|path| Some(*path) != but).min_by_key(cost);
        other.or(but).unwrap_or(0)
    }

    /// Notes that packets wait, messages for this path or bulk data: the full windows hold them back.
    pub(super) fn held_back(&mut self, messages: Option<usize>, data: bool, settings: &Settings) {
        let full = |paths: &mut Self, path: usize| {
            if paths[path].is_full() {
                paths[path].congestion.held_back();
            }
        };
        if let Some(path) = messages {
            full(self, path);
        }
        if data {
            let bulk = self.bulk(settings).fold(0_u32, |mask, path| mask | 1 << path);
            (0..PATHS_MAX).filter(|path| bulk & 1 << path != 0).for_each(|path| full(self, path));
        }
    }

    /// Notes that a numbered packet leaves; returns its number among the transmissions of its path. `first`:
    /// the packet's number, if it is sent for the first time.
    pub(super) fn depart(&mut self, now: Instant, index: usize, first: Option<Number>) -> Number {
        if self[index].in_flight == 0
            && let Some(stripes) = &mut self.stripes
        {
            stripes.rates[index].begin(now);
        }
        let path = &mut self[index];
        let order = path.order;
        path.in_flight += 1;
        path.order = order.plus(1);
        path.asked_at = now;
        if let Some(number) = first {
            path.newest = number;
            if path.round_trip.is_far() {
                path.pace(now);
            }
        }
        order
    }

    /// Notes that a packet that left first on another path has left on this one: [`Self::end_of`] counts it
    /// for this path.
    pub(super) fn take_over(&mut self, index: usize, number: Number) {
        let path = &mut self[index];
        if number.is_after(path.newest) {
            path.newest = number;
        }
    }

    /// Notes that the path takes another carrier from now on; `control` is the number of the next probe.
    pub(super) fn changes_carrier(&mut self, index: usize, control: Number) {
        self.alive &= !(1 << index);
        if self.get(index).is_some() {
            let path = &mut self[index];
            (path.doubted, path.changed, path.unanswered) = (path.order, control, 0);
            if path.lane_from != path.order {
                (path.lane_from, path.lane_probe) = (path.order, control);
            }
        }
    }

    /// Notes that an answer has come to this probe.
    pub(super) fn answered(&mut self, index: usize, probe: Number) {
        self[index].unanswered = 0;
        if self[index].has_left_since_change(probe) {
            self.alive |= 1 << index;
        }
    }

    /// Notes that the packet with this transmission number on the path is acknowledged. A packet that left
    /// before the last doubt may also have arrived before the doubt.
    pub(super) fn acknowledged(&mut self, now: Instant, index: usize, order: Number) {
        self[index].unanswered = 0;
        if !self[index].doubted.is_after(order) {
            self.alive |= 1 << index;
        }
        if let Some(stripes) = &mut self.stripes {
            stripes.rates[index].acknowledged += 1;
        }
        if self[index].in_flight == 0 {
            self.round(now, index);
        }
    }

    /// Notes that a round trip of this path has ended.
    pub(super) fn round(&mut self, now: Instant, index: usize) {
        let (in_flight, shortest) = (self[index].in_flight, self[index].round_trip.minimum().unwrap_or_default());
        if let Some(stripes) = &mut self.stripes {
            stripes.rates[index].round(now, in_flight, shortest);
        }
    }

    /// Notes that a probe with this number leaves.
    pub(super) fn probe_sent(&mut self, now: Instant, number: Number, index: usize) {
        let path = &mut self[index];
        path.asked_at = now;
        path.probes.sent(number, path.order);
        path.unanswered = path.unanswered.saturating_add(1);
        if path.unanswered >= PATH_DOUBTS {
            path.doubted = path.order;
            self.doubts |= 1 << index;
            self.alive &= !(1 << index);
        }
    }

    /// Takes the paths on which probes went unanswered since the last call.
    pub(super) fn take_doubts(&mut self) -> u8 {
        core::mem::take(&mut self.doubts)
    }

    /// Paths that proved alive since the last call: a probe was answered there, or a packet acknowledged that
    /// was sent after the path was doubted.
    pub(super) fn take_alive(&mut self) -> u8 {
        core::mem::take(&mut self.alive)
    }

    /// Bytes allocated.
    pub(super) fn memory_bytes(&self) -> usize {
        self.stripes.as_ref().map_or(0, |stripes| size_of::<Stripes>() + size_of_val(&*stripes.paths))
    }

    /// Most bytes allocated by flows with so many paths behind path 0.
    pub(super) const fn bytes_max(others: usize) -> usize {
        match others.saturating_sub(INLINE - 1) {
            0 => 0,
            more => size_of::<Stripes>() + more * size_of::<Path>(),
        }
    }
}
