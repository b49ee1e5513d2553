//! The sending half's work on an acknowledgement: which packets have arrived, and which count as lost (RFC
//! 9002 §6.1).

use super::congestion::{Acknowledged, Cut};
use super::loss_detection::LossCause;
use super::outgoing::{Outgoing, State};
use super::paths::Path;
use super::queue::Content;
use super::settings::{LANE_PATIENCE, PACKET_SIZE_MIN, Settings};
use crate::time::{Duration, Instant};
use crate::wire::{ECHO_SIZE, Echo, Echoed, HEADER_SIZE, Map, Number, RUN_SLACK, SELECTIVE_PACKETS};

/// Bytes of the shortest map that may have been cut, because its packet had no room for more.
const CUT_MAP_BYTES_MIN: usize = PACKET_SIZE_MIN - HEADER_SIZE - ECHO_SIZE - RUN_SLACK;

/// The peer's report of the packets that have arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct AckInfo<'a> {
    pub(super) first_missing: Number,
    pub(super) selective: u64,
    /// The part of the map beyond the selective bits, as it stands in the packet.
    pub(super) map: Map<'a>,
    pub(super) echo: Option<Echo>,
    pub(super) marked: bool,
    /// The longest time that the acknowledgement may have waited at this end before the process looked.
    pub(super) host_delay: Duration,
}

/// The packet of which this very transmission is echoed.
#[derive(Clone, Copy)]
struct EchoedPacket {
    number: Number,
    /// The time for which its answer was held, if known.
    hold: Option<Duration>,
    /// The longest time for which it and its answer may have waited until a process looked.
    host_delay: Duration,
}

/// The results of an acknowledgement.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The peer claims packets that were never sent.
    pub(super) unsent: bool,
    pub(super) lost_by_gap: u32,
    pub(super) lost_by_probe: u32,
    pub(super) lost_by_denial: u32,
    pub(super) cuts: [u32; 3],
}

impl Progress {
    fn cut(&mut self, cut: Option<Cut>) {
        if let Some(cut) = cut {
            self.cuts[cut as usize] += 1;
        }
    }
}

/// The proof that the answer to a probe gives.
#[derive(Clone, Copy)]
struct Probed {
    path: usize,
    /// The transmission before which all transmissions have arrived or are lost.
    order: Number,
    /// The first packet of which the answer does not tell whether it has arrived, if there is one: all from
    /// there on may have arrived.
    untold: Option<Number>,
    /// The probe may have taken another carrier than packets before the path's last change.
    is_beside: bool,
}

impl Probed {
    /// Returns whether a packet that the peer has not reported is lost: its transmission `order` of `path`
    /// left before the probe.
    fn proves(&self, number: Number, path: u8, order: Number) -> bool {
        let is_told = self.untold.is_none_or(|untold| untold.is_after(number));
        usize::from(path) == self.path && self.order.is_after(order) && is_told
    }
}

impl Outgoing {
    /// Returns whether the acknowledgement has no news, as most of many packets with the same
    /// acknowledgement.
    #[inline]
    pub(super) fn is_known(&self, ack: &AckInfo<'_>) -> bool {
        let silent = ack.selective == 0 && ack.map.is_empty() && ack.echo.is_none() && !ack.marked;
        silent && !ack.first_missing.is_after(self.base())
    }

    /// Takes the peer's report of arrived packets; calls `acknowledged(region, bytes)` for bulk data.
    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        ack: &AckInfo<'_>,
        settings: &Settings,
        acknowledged: &mut dyn FnMut(u32, u64),
    ) -> Progress {
        let mut progress = Progress::default();
        let advance = ack.first_missing.since(self.base());
        let maps = ack.selective != 0 || !ack.map.is_empty();
        if advance < 0 {
            return progress;
        }
        if self.records.is_empty() && advance == 0 && !maps {
            if self.probe_answered(now, ack).is_some() {
                self.probe_timeout.progress();
            }
            return progress;
        }
        if advance as usize + reach(ack) > self.records.len() {
            progress.unsent = true;
            return progress;
        }
        let echoed = self.echoed(ack);
        let marked = self.marked_path(ack, echoed);
        let mut newly = self.acknowledge_front(now, advance as u32, echoed, acknowledged);
        if maps {
            newly += self.acknowledge_map(now, ack, echoed);
        }
        progress.lost_by_denial += self.believe_what_is_missing();
        let probed = self.probe_answered(now, ack);
        if probed.is_some_and(|probed| probed.path == 0) {
            self.doubt_long(now, settings);
        }
        if newly > 0 || probed.is_some() {
            self.probe_timeout.progress();
        }
        // Without a map and without resends the acknowledged packets are the oldest: nothing was overtaken.
        if self.has.is_some() || probed.is_some() || self.resent > 0 {
            self.detect_losses(now, probed, settings, &mut progress);
        }
        self.adapt_windows(now, marked, settings, &mut progress);
        if self.records.is_empty() {
            for path in self.paths.iter_mut() {
                path.congestion.idle(path.order);
            }
            self.all_acknowledged();
        }
        progress
    }

    /// Tells each path's window which packets have arrived there. `marked`: the path whose packet met
    /// congestion.
    fn adapt_windows(&mut self, now: Instant, marked: Option<usize>, settings: &Settings, progress: &mut Progress) {
        for index in 0..self.paths.iter().count() {
            let path = &mut self.paths[index];
            let news = Acknowledged {
                marked: marked == Some(index),
                seen: path.proved,
                next: path.order,
                round_trip: path.round_trip.minimum(),
            };
            let round_ends = path.congestion.round_ends(&news);
            progress.cut(path.congestion.acknowledged(&news, settings));
            if round_ends {
                self.paths.round(now, index);
            }
        }
    }

    /// The path of the newest packet that has arrived: the mark is most likely of this packet.
    fn marked_path(&self, ack: &AckInfo<'_>, echoed: Option<EchoedPacket>) -> Option<usize> {
        let record = echoed.and_then(|echoed| {
            usize::try_from(echoed.number.since(self.base())).ok().and_then(|index| self.records.get(index))
        });
        ack.marked.then(|| record.map_or(0, |record| usize::from(record.path)))
    }

    fn echoed(&self, ack: &AckInfo<'_>) -> Option<EchoedPacket> {
        let Echo { of: Echoed::Packet { number, transmission }, hold, host_delay } = ack.echo? else { return None };
        let record = self.records.get(usize::try_from(number.since(self.base())).ok()?)?;
        let host_delay = Duration(host_delay.0 + ack.host_delay.0);
        (record.state != State::Acknowledged && record.transmission == transmission).then_some(EchoedPacket {
            number,
            hold,
            host_delay,
        })
    }

    /// Drops the records in front of the first missing packet. Returns how many packets are newly
    /// acknowledged.
    fn acknowledge_front(
        &mut self,
        now: Instant,
        advance: u32,
        echoed: Option<EchoedPacket>,
        acknowledged: &mut dyn FnMut(u32, u64),
    ) -> u32 {
        let mut newly = 0;
        for _ in 0..advance {
            newly += self.acknowledge_one(now, 0, echoed);
            if let Some(record) = self.records.pop_front() {
                self.queue.forget(&record.content);
                // Not before: until then the packet may have to be sent again.
                match record.content {
                    Content::Data { region, length, .. } => acknowledged(region, u64::from(length)),
                    Content::Messages { .. } => self.message_packets -= 1,
                    // A question that has been sent again has failed before.
                    Content::Question { size } if record.transmission == 1 => self.question_passed(now, size),
                    Content::Question { .. } => {}
                }
            }
            if let Some(has) = &mut self.has {
                has.take(Number(self.base as u32));
            }
            self.base += 1;
        }
        if advance > 0 {
            self.in_vain = Duration(0);
        }
        if self.base().is_after(self.seen) {
            self.seen = self.base();
        }
        if self.seen == self.base() {
            self.has = None;
        }
        newly
    }

    fn acknowledge_map(&mut self, now: Instant, ack: &AckInfo<'_>, echoed: Option<EchoedPacket>) -> u32 {
        let mut newly = 0;
        let beyond = ack.first_missing.plus(SELECTIVE_PACKETS);
        let words = core::iter::once((ack.first_missing.plus(1), ack.selective)).chain(ack.map.pieces(beyond));
        for (start, word) in words {
            let known = self.has.as_ref().map_or(0, |has| has.bits_from(start));
            let mut fresh = word & !known;
            while fresh != 0 {
                let number = start.plus(fresh.trailing_zeros());
                fresh &= fresh - 1;
                // The first word of the map may begin before the window.
                let Ok(index) = usize::try_from(number.since(self.base())) else { continue };
                newly += self.acknowledge_one(now, index, echoed);
                if self.mtu.is_some() {
                    self.note_question(now, index);
                }
                self.has.get_or_insert_default().set(Number(self.base as u32), number);
                if number.plus(1).is_after(self.seen) {
                    self.seen = number.plus(1);
                }
            }
        }
        newly
    }

    fn acknowledge_one(&mut self, now: Instant, index: usize, echoed: Option<EchoedPacket>) -> u32 {
        let echo = echoed.filter(|echoed| echoed.number == Number(self.base as u32).plus(index as u32));
        if self.mtu.is_some() && (self.records[index].transmission == 1 || echo.is_some()) {
            self.note_carried(now, index);
        }
        let record = &mut self.records[index];
        let index = usize::from(record.path);
        let path = &mut self.paths[index];
        match record.state {
            State::Acknowledged => return 0,
            State::InFlight | State::Overtaken(_) => path.in_flight -= 1,
            // The packet was only late, and so many packets had overtaken it. A packet that no other has
            // overtaken counted as lost for another reason.
            State::Lost => {
                let overtaken = path.proved.since(record.order.plus(1));
                if overtaken > 0 {
                    self.reordering.proved(overtaken as u32);
                }
            }
        }
        record.state = State::Acknowledged;
        let took = now.since(record.sent_at);
        if record.transmission > 1 {
            self.resent -= 1;
            if path.round_trip.is_too_early(took) {
                // The answer is to an earlier transmission, which was not lost.
                self.reordering.proved(0);
            }
        }
        if let Some(EchoedPacket { hold: Some(hold), host_delay, .. }) = echo {
            let sample = Duration(took.0.saturating_sub(hold.0));
            path.round_trip.sample(now, sample);
            path.congestion.delayed(sample, host_delay, path.round_trip.minimum());
        }
        // After several transmissions of a packet only the echo tells which of them arrived.
        if (record.transmission == 1 || echo.is_some()) && record.order.plus(1).is_after(path.proved) {
            path.proved = record.order.plus(1);
        }
        let order = record.order;
        self.paths.acknowledged(now, index, order);
        1
    }

    /// Sends the oldest packet again if the peer has reported it both as missing and as arrived. It reported
    /// the packet as missing when it had all packets before. It reported the packet as arrived while it
    /// missed an earlier one. Whichever report is newer, one of the two was wrong. Only a wrong report of
    /// arrival can be put right: the packet is sent again. Returns the number of such packets.
    fn believe_what_is_missing(&mut self) -> u32 {
        let base = self.base();
        let Some(record) = self.records.front_mut().filter(|record| record.state == State::Acknowledged) else {
            return 0;
        };
        record.state = State::Lost;
        self.resent += u32::from(record.transmission > 1);
        if let Some(has) = &mut self.has {
            has.take(base);
        }
        self.lost.push(base, LossCause::Denial);
        1
    }

    fn probe_answered(&mut self, now: Instant, ack: &AckInfo<'_>) -> Option<Probed> {
        let Echo { of: Echoed::Probe(probe), hold, .. } = ack.echo? else { return None };
        let answered = |(index, path): (usize, &mut Path)| Some((index, path.probes.answered(probe)?));
        let (index, (order, newest)) = self.paths.iter_mut().enumerate().find_map(answered)?;
        self.paths.answered(index, probe);
        let path = &mut self.paths[index];
        // The last packet that asked on this path was the probe itself.
        if let (Some(hold), true) = (hold, newest && order == path.order) {
            path.round_trip.sample(now, Duration(now.since(path.asked_at).0.saturating_sub(hold.0)));
        }
        let beyond = ack.first_missing.plus(SELECTIVE_PACKETS);
        let untold = (ack.map.0.len() >= CUT_MAP_BYTES_MIN).then(|| beyond.plus(ack.map.told(beyond)));
        Some(Probed { path: index, order, untold, is_beside: path.has_left_on_another(probe) })
    }

    /// Looks for packets that are missing although later ones of their path have arrived.
    fn detect_losses(&mut self, now: Instant, probed: Option<Probed>, settings: &Settings, progress: &mut Progress) {
        let threshold = self.reordering.packets() as i32;
        self.loss_at = None;
        let base = self.base();
        // Behind the newest packet that has arrived, only a resend or a probe can prove a loss.
        let seen = self.seen.since(base).max(0) as u32;
        let end = if probed.is_some() || self.resent > 0 { self.end_of_overtaken(seen, probed) } else { seen };
        let mut at = 0;
        while at < end {
            let known = self.has.as_ref().map_or(0, |has| has.bits_from(base.plus(at)));
            let mut missing = !known & if end - at < 64 { (1 << (end - at)) - 1 } else { u64::MAX };
            while missing != 0 {
                let index = at + missing.trailing_zeros();
                missing &= missing - 1;
                self.detect_loss(now, index as usize, threshold, probed, settings, progress);
            }
            at += 64;
        }
    }

    /// Returns one past the last packet, from `seen` on, that a resend or a probe may prove lost. Consider a
    /// packet that has left once and has not been overtaken. Later packets on its path have not been
    /// overtaken either.
    fn end_of_overtaken(&self, seen: u32, probed: Option<Probed>) -> u32 {
        let base = self.base();
        // Paths that may have more such packets, and one past the last of these.
        let mut open = self.paths.in_flight_mask();
        let mut end = self.paths.end_of(open, base);
        let mut at = seen;
        while at < end {
            let Some(record) = self.records.get(at as usize) else { break };
            let path = &self.paths[usize::from(record.path)];
            let is_proved = path.proved.is_after(record.order)
                || probed.is_some_and(|probed| probed.proves(base.plus(at), record.path, record.order));
            if record.transmission == 1 && !is_proved && open & 1 << record.path != 0 {
                open &= !(1 << record.path);
                end = self.paths.end_of(open, base);
            }
            at += 1;
        }
        at
    }

    fn detect_loss(
        &mut self,
        now: Instant,
        index: usize,
        threshold: i32,
        probed: Option<Probed>,
        settings: &Settings,
        progress: &mut Progress,
    ) {
        let number = self.base().plus(index as u32);
        let record = &mut self.records[index];
        let name = usize::from(record.path);
        let path = &mut self.paths[name];
        let overtaken = path.proved.since(record.order.plus(1));
        let age = now.since(record.sent_at);
        let spacing = settings.spacing(record.transmission);
        let since = match record.state {
            State::InFlight => u32::try_from(age.0).unwrap_or(u32::MAX),
            State::Overtaken(since) => since,
            State::Lost | State::Acknowledged => return,
        };
        // The packet may have waited below this layer while a later one did not: it gets a moment to follow.
        let time_threshold = self.reordering.time_threshold(path.round_trip.loss_delay());
        let late = Duration(time_threshold.0.max(u64::from(since) + time_threshold.0 / 8).max(spacing.0));
        let probed = probed.filter(|probed| probed.proves(number, record.path, record.order));
        let is_probed = probed.is_some();
        let is_crossed = path.lane_from.is_after(record.order)
            && (path.proved.is_after(path.lane_from) || probed.is_some_and(|probed| probed.is_beside));
        // The packets that overtook it took another carrier, and may have been looked at before.
        let late = if is_crossed { Duration(late.0.max(u64::from(since) + LANE_PATIENCE.0)) } else { late };
        let cause = if is_crossed && late > age {
            record.state = State::Overtaken(since);
            self.loss_at = earlier(self.loss_at, record.sent_at + late);
            return;
        } else if age < spacing {
            // The packet was sent often and in vain: even with a proof it is given time. A later probe proves
            // as much.
            if overtaken > 0 {
                self.loss_at = earlier(self.loss_at, record.sent_at + late);
            }
            return;
        } else if overtaken >= threshold || overtaken > 0 && late <= age {
            progress.lost_by_gap += 1;
            LossCause::Gap
        } else if is_probed {
            progress.lost_by_probe += 1;
            LossCause::Probe
        } else {
            if overtaken > 0 {
                record.state = State::Overtaken(since);
                self.loss_at = earlier(self.loss_at, record.sent_at + late);
            }
            return;
        };
        record.state = State::Lost;
        path.in_flight -= 1;
        self.lost.push(number, cause);
        progress.cut(path.congestion.lost());
    }

    /// Looks for losses once the time threshold has passed for some packet.
    pub(super) fn check_late(&mut self, now: Instant, settings: &Settings) -> Progress {
        let mut progress = Progress::default();
        if self.loss_at.is_some_and(|at| at <= now) {
            self.detect_losses(now, None, settings, &mut progress);
        }
        progress
    }
}

/// Returns the earlier time; `known` may be none. The black box makes the compiler decide whether a time is
/// known before it compares. Otherwise it would compare memory that is not set: harmless, but memory checkers
/// complain.
fn earlier(known: Option<Instant>, at: Instant) -> Option<Instant> {
    let known = core::hint::black_box(known.unwrap_or(at));
    Some(known.min(at))
}

/// The number of packets beyond the first missing one that the map covers.
fn reach(ack: &AckInfo<'_>) -> usize {
    let selective = match ack.selective {
        0 => 0,
        bits => 65 - bits.leading_zeros(),
    };
    if ack.map.is_empty() {
        return selective as usize;
    }
    let map = match ack.map.end(ack.first_missing.plus(SELECTIVE_PACKETS)) {
        0 => 0,
        end => SELECTIVE_PACKETS + end,
    };
    selective.max(map) as usize
}
