//! What the sending half does with an acknowledgement: which packets have arrived, and which count as lost (RFC 9002 §6.1).

use super::congestion::{Acknowledged, Cut};
use super::evidence::Evidence;
use super::outgoing::{Outgoing, State};
use super::queue::Content;
use super::settings::{LANE_PATIENCE, Settings};
use super::ways::Way;
use crate::time::{Duration, Instant};
use crate::wire::{Echo, Echoed, Number, SELECTIVE_PACKETS, map_words};

/// What the peer says has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard<'a> {
    pub(super) first_missing: Number,
    pub(super) selective: u64,
    /// The rest of the map, as it stands in the packet.
    pub(super) map: &'a [u8],
    pub(super) echo: Option<Echo>,
    pub(super) marked: bool,
    /// The acknowledgement may have waited here so long before we looked.
    pub(super) away: Duration,
}

/// The packet whose very transmission is echoed.
#[derive(Clone, Copy)]
struct EchoedPacket {
    number: Number,
    /// How long its answer was held, if that is known.
    hold: Option<Duration>,
    /// How long it, and its answer, may have waited for somebody to look.
    paused: Duration,
}

/// What an acknowledgement brought.
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

/// What the answer to a probe proves.
#[derive(Clone, Copy)]
struct Probed {
    way: usize,
    /// The transmission before which all have arrived or are lost.
    order: Number,
    /// The probe took the lane that the way takes now.
    on_this_lane: bool,
}

impl Outgoing {
    /// Whether it says nothing that was not known already, as most of many packets do that carry the same.
    #[inline]
    pub(super) fn is_known(&self, heard: &Heard<'_>) -> bool {
        let silent = heard.selective == 0 && heard.map.is_empty() && heard.echo.is_none() && !heard.marked;
        silent && !heard.first_missing.is_after(self.base())
    }

    /// Takes what the peer says has arrived; `acknowledged(region, bytes)` is told of bulk data.
    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        heard: &Heard<'_>,
        settings: &Settings,
        acknowledged: &mut dyn FnMut(u32, u64),
    ) -> Progress {
        let mut progress = Progress::default();
        let advance = heard.first_missing.since(self.base());
        let maps = heard.selective != 0 || !heard.map.is_empty();
        if advance < 0 {
            return progress;
        }
        if self.records.is_empty() && advance == 0 && !maps {
            if self.probe_answered(now, heard.echo).is_some() {
                self.patience.progress();
            }
            return progress;
        }
        if advance as usize + reach(heard) > self.records.len() {
            progress.unsent = true;
            return progress;
        }
        let echoed = self.echoed(heard);
        let marked = self.marked_way(heard, echoed);
        let mut newly = self.settle_front(now, advance as u32, echoed, acknowledged);
        if maps {
            newly += self.settle_map(now, heard, echoed);
        }
        progress.lost_by_denial += self.believe_what_is_missing();
        let probed = self.probe_answered(now, heard.echo);
        if newly > 0 || probed.is_some() {
            self.patience.progress();
        }
        // Without a map and without resends the acknowledged packets are the oldest: nothing was overtaken.
        if self.has.is_some() || probed.is_some() || self.resent > 0 {
            self.detect_losses(now, probed, settings, &mut progress);
        }
        self.adapt_windows(now, marked, settings, &mut progress);
        if self.records.is_empty() {
            for way in self.ways.iter_mut() {
                way.congestion.idle(way.order);
            }
            self.settled();
        }
        progress
    }

    /// Tells each way's window what has arrived there. `marked`: the way whose packet met congestion.
    fn adapt_windows(&mut self, now: Instant, marked: Option<usize>, settings: &Settings, progress: &mut Progress) {
        for index in 0..self.ways.iter().count() {
            let way = &mut self.ways[index];
            let news = Acknowledged {
                marked: marked == Some(index),
                seen: way.proved,
                next: way.order,
                round_trip: way.round_trip.minimum(),
            };
            let round_ends = way.congestion.round_ends(&news);
            progress.cut(way.congestion.acknowledged(&news, settings));
            if round_ends {
                self.ways.round(now, index);
            }
        }
    }

    /// The way of the newest packet that has arrived, which is likely the one that was marked.
    fn marked_way(&self, heard: &Heard<'_>, echoed: Option<EchoedPacket>) -> Option<usize> {
        let record = echoed.and_then(|echoed| {
            usize::try_from(echoed.number.since(self.base())).ok().and_then(|index| self.records.get(index))
        });
        heard.marked.then(|| record.map_or(0, |record| usize::from(record.way)))
    }

    fn echoed(&self, heard: &Heard<'_>) -> Option<EchoedPacket> {
        let Echo { of: Echoed::Packet { number, transmission }, hold, away } = heard.echo? else { return None };
        let record = self.records.get(usize::try_from(number.since(self.base())).ok()?)?;
        let paused = Duration(away.0 + heard.away.0);
        (record.state != State::Acknowledged && record.transmission == transmission).then_some(EchoedPacket {
            number,
            hold,
            paused,
        })
    }

    /// Drops the records in front of the first missing packet. Returns how many packets are newly acknowledged.
    fn settle_front(
        &mut self,
        now: Instant,
        advance: u32,
        echoed: Option<EchoedPacket>,
        acknowledged: &mut dyn FnMut(u32, u64),
    ) -> u32 {
        let mut newly = 0;
        for _ in 0..advance {
            newly += self.settle_one(now, 0, echoed);
            if let Some(record) = self.records.pop_front() {
                self.queue.forget(&record.content);
                // Not before: until then it may have to be sent again.
                if let Content::Data { region, length, .. } = record.content {
                    acknowledged(region, u64::from(length));
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

    fn settle_map(&mut self, now: Instant, heard: &Heard<'_>, echoed: Option<EchoedPacket>) -> u32 {
        let mut newly = 0;
        let beyond = heard.first_missing.plus(SELECTIVE_PACKETS);
        let aligned = Number(beyond.0 & !63);
        let words = core::iter::once((heard.first_missing.plus(1), heard.selective));
        let words = words.chain(map_words(heard.map).enumerate().map(|(i, word)| (aligned.plus(64 * i as u32), word)));
        for (start, word) in words {
            let known = self.has.as_ref().map_or(0, |has| has.bits_from(start));
            let mut fresh = word & !known;
            while fresh != 0 {
                let number = start.plus(fresh.trailing_zeros());
                fresh &= fresh - 1;
                // The first word of the map may begin before the window.
                let Ok(index) = usize::try_from(number.since(self.base())) else { continue };
                newly += self.settle_one(now, index, echoed);
                self.has.get_or_insert_default().set(number);
                if number.plus(1).is_after(self.seen) {
                    self.seen = number.plus(1);
                }
            }
        }
        newly
    }

    fn settle_one(&mut self, now: Instant, index: usize, echoed: Option<EchoedPacket>) -> u32 {
        let echo = echoed.filter(|echoed| echoed.number == Number(self.base as u32).plus(index as u32));
        let record = &mut self.records[index];
        let index = usize::from(record.way);
        let way = &mut self.ways[index];
        match record.state {
            State::Acknowledged => return 0,
            State::InFlight | State::Overtaken(_) => way.in_flight -= 1,
            // It was only late, by so many packets. One that nothing has overtaken counted as lost for another reason.
            State::Lost => {
                let overtaken = way.proved.since(record.order.plus(1));
                if overtaken > 0 {
                    self.reordering.proved(overtaken as u32);
                }
            }
        }
        record.state = State::Acknowledged;
        let took = now.since(record.sent_at);
        if record.transmission > 1 {
            self.resent -= 1;
            if way.round_trip.is_too_early(took) {
                // This answers an earlier transmission: it was not lost.
                self.reordering.proved(0);
            }
        }
        if let Some(EchoedPacket { hold: Some(hold), paused, .. }) = echo {
            let sample = Duration(took.0.saturating_sub(hold.0));
            way.round_trip.sample(now, sample);
            way.congestion.delayed(sample, paused);
        }
        // Of a packet sent more than once only the echo tells which transmission arrived.
        if (record.transmission == 1 || echo.is_some()) && record.order.plus(1).is_after(way.proved) {
            way.proved = record.order.plus(1);
        }
        let order = record.order;
        self.ways.settled(now, index, order);
        1
    }

    /// The oldest packet is one that the peer misses: who told so had all before it. If it is noted that the peer has it, it was told
    /// so while it missed an earlier one. Whatever the order in which it told the two, one of them was wrong, and only this one can be
    /// put right: it is sent again. Returns how many packets that concerns.
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
        self.lost.push(base, Evidence::Denial);
        1
    }

    fn probe_answered(&mut self, now: Instant, echo: Option<Echo>) -> Option<Probed> {
        let Echo { of: Echoed::Probe(probe), hold, .. } = echo? else { return None };
        let answered = |(index, way): (usize, &mut Way)| Some((index, way.probes.answered(probe)?));
        let (index, (order, newest)) = self.ways.iter_mut().enumerate().find_map(answered)?;
        self.ways.answered(index, probe);
        let way = &mut self.ways[index];
        // The last that asked on this way was the probe itself.
        if let (Some(hold), true) = (hold, newest && order == way.order) {
            way.round_trip.sample(now, Duration(now.since(way.asked_at).0.saturating_sub(hold.0)));
        }
        Some(Probed { way: index, order, on_this_lane: way.has_left_since_change(probe) })
    }

    /// Looks for packets that are missing although later ones of their way have arrived.
    fn detect_losses(&mut self, now: Instant, probed: Option<Probed>, settings: &Settings, progress: &mut Progress) {
        let threshold = self.reordering.packets() as i32;
        self.loss_at = None;
        let base = self.base();
        // Behind the newest that has arrived, only a resend or a probe can prove anything.
        let everything = probed.is_some() || self.resent > 0;
        let end = if everything { self.records.len() as u32 } else { self.seen.since(base).max(0) as u32 };
        let mut at = 0;
        while at < end {
            let known = self.has.as_ref().map_or(0, |has| has.bits_from(base.plus(at)));
            let mut missing = !known & if end - at < 64 { (1 << (end - at)) - 1 } else { u64::MAX };
            while missing != 0 {
                let index = at + missing.trailing_zeros();
                missing &= missing - 1;
                self.judge(now, index as usize, threshold, probed, settings, progress);
            }
            at += 64;
        }
    }

    fn judge(
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
        let name = usize::from(record.way);
        let way = &mut self.ways[name];
        let overtaken = way.proved.since(record.order.plus(1));
        let age = now.since(record.sent_at);
        let spacing = settings.spacing(record.transmission);
        let since = match record.state {
            State::InFlight => u32::try_from(age.0).unwrap_or(u32::MAX),
            State::Overtaken(since) => since,
            State::Lost | State::Acknowledged => return,
        };
        // It may have waited below us while a later one did not: it gets a moment to follow.
        let patience = self.reordering.patience(way.round_trip.loss_delay());
        let late = Duration(patience.0.max(u64::from(since) + patience.0 / 8).max(spacing.0));
        let probed = probed.filter(|probed| probed.way == name && probed.order.is_after(record.order));
        let is_probed = probed.is_some();
        let is_crossed = way.lane_from.is_after(record.order)
            && (way.proved.is_after(way.lane_from) || probed.is_some_and(|probed| probed.on_this_lane));
        // What overtook it took another lane, and may have been looked at before.
        let late = if is_crossed { Duration(late.0.max(u64::from(since) + LANE_PATIENCE.0)) } else { late };
        let evidence = if is_crossed && late > age {
            record.state = State::Overtaken(since);
            self.loss_at = earlier(self.loss_at, record.sent_at + late);
            return;
        } else if age < spacing {
            // It was sent often and in vain: whatever is proved, it is given time. A later probe proves as much.
            if overtaken > 0 {
                self.loss_at = earlier(self.loss_at, record.sent_at + late);
            }
            return;
        } else if overtaken >= threshold || overtaken > 0 && late <= age {
            progress.lost_by_gap += 1;
            Evidence::Gap
        } else if is_probed {
            progress.lost_by_probe += 1;
            Evidence::Probe
        } else {
            if overtaken > 0 {
                record.state = State::Overtaken(since);
                self.loss_at = earlier(self.loss_at, record.sent_at + late);
            }
            return;
        };
        record.state = State::Lost;
        way.in_flight -= 1;
        self.lost.push(number, evidence);
        progress.cut(way.congestion.lost());
    }

    /// The time threshold has passed for some packet.
    pub(super) fn check_late(&mut self, now: Instant, settings: &Settings) -> Progress {
        let mut progress = Progress::default();
        if self.loss_at.is_some_and(|at| at <= now) {
            self.detect_losses(now, None, settings, &mut progress);
        }
        progress
    }
}

fn earlier(known: Option<Instant>, at: Instant) -> Option<Instant> {
    Some(known.map_or(at, |known| known.min(at)))
}

/// How far the map speaks beyond the first missing packet.
fn reach(heard: &Heard<'_>) -> usize {
    let first = heard.first_missing;
    let aligned = Number(first.plus(SELECTIVE_PACKETS).0 & !63);
    let mut reach = match heard.selective {
        0 => 0,
        bits => 65 - bits.leading_zeros() as usize,
    };
    for (i, word) in map_words(heard.map).enumerate().filter(|(_, word)| *word != 0) {
        let last = aligned.plus(64 * i as u32 + 63 - word.leading_zeros());
        reach = reach.max(last.since(first).max(0) as usize + 1);
    }
    reach
}
