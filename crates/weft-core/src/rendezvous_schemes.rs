//! The choice of what brings the data of announced messages: packets of the flow, or writes of another
//! carrier to the receiver's memory.
//!
//! The receiver of the messages measures both ([`crate::measured_choice`]). All messages of a peer that are
//! under way at the same time come alike: they are a *round*. A round that ends tells the time of a byte.
//!
//! The messages that this process sends to the peer meanwhile belong to the round, too. The peer chooses
//! their scheme. But the receiver's scheme may keep them waiting, and only the time of both directions shows
//! that.

use crate::distrust::Distrust;
use crate::measured_choice::ChoiceBySize;
use crate::time::{Duration, Instant};

/// What brings the data of an announced message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RendezvousScheme {
    /// Packets of the flow.
    Packets,
    /// Writes of a carrier to the receiver's memory.
    RemoteWrite,
}

/// The most messages of a round: where messages never pause, one round follows another.
const ROUND_MESSAGES_MAX: u32 = 64;
/// The time after which messages that have not arrived are no longer waited for: their receives were given
/// up.
const ABANDONED_AFTER: Duration = Duration::from_millis(200);

/// The messages that are under way at the same time.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// What brings the peer's messages; `None`: all messages so far are messages to the peer.
    scheme: Option<RendezvousScheme>,
    began: Instant,
    /// The last time that a message began or ended, or data of one arrived.
    touched: Instant,
    /// The messages of the peer that have begun.
    begun: u32,
    /// Bytes of the peer's longest message.
    longest: u64,
    /// Bytes of the messages that have ended, in both directions.
    bytes: u64,
}

impl Round {
    fn new(now: Instant) -> Self {
        Self { scheme: None, began: now, touched: now, begun: 0, longest: 0, bytes: 0 }
    }
}

/// The choice for the messages of one peer.
#[derive(Clone, Debug, Default)]
pub struct SchemeChoice {
    /// Packets are the first way.
    choices: ChoiceBySize<15, 10>,
    round: Option<Round>,
    /// The messages of the peer, and those to it, that have begun and not ended, also of earlier rounds.
    under_way: u32,
    to_peer: u32,
    /// Set once a round of writes has ended: the first one has to make a connection.
    has_written: bool,
    /// Nothing is written for a time after writes have failed.
    distrust: Distrust,
}

impl SchemeChoice {
    /// Begins a message of `bytes` bytes, and says what brings it. `may_write`: it may be written.
    pub fn begin(&mut self, now: Instant, bytes: u64, may_write: bool) -> RendezvousScheme {
        let may_write = may_write && self.distrust.is_over(now);
        self.forget_abandoned(now);
        if let Some(round) = self.round.filter(|round| round.begun >= ROUND_MESSAGES_MAX) {
            self.measure(now, &round);
            self.round = None;
        }
        let choice = self.choices.of_mut(bytes);
        let round = self.round.get_or_insert_with(|| Round::new(now));
        // Writes are the second way, which is tried first: what they need is made ready by that.
        let choose = || match may_write && choice.choose() {
            true => RendezvousScheme::RemoteWrite,
            false => RendezvousScheme::Packets,
        };
        let scheme = *round.scheme.get_or_insert_with(choose);
        self.under_way += 1;
        (round.touched, round.begun, round.longest) = (now, round.begun + 1, round.longest.max(bytes));
        if may_write { scheme } else { RendezvousScheme::Packets }
    }

    /// Forgets the messages under way if nothing has come of any of them for long.
    fn forget_abandoned(&mut self, now: Instant) {
        let is_over = |round: &Round| now.since(round.touched) >= ABANDONED_AFTER;
        if self.round.as_ref().is_some_and(is_over) {
            (self.round, self.under_way, self.to_peer) = (None, 0, 0);
        }
    }

    /// Notes that the peer has asked for a message of this process.
    pub fn begin_to_peer(&mut self, now: Instant) {
        self.forget_abandoned(now);
        self.round.get_or_insert_with(|| Round::new(now)).touched = now;
        self.to_peer += 1;
    }

    /// Notes that all of a message of `bytes` bytes has left for the peer.
    pub fn end_to_peer(&mut self, now: Instant, bytes: u64) {
        self.to_peer = self.to_peer.saturating_sub(1);
        self.end_one(now, bytes);
    }

    /// Notes that writes have failed: messages that were to be written come as packets, late.
    pub fn failed(&mut self, now: Instant) {
        self.distrust.failed(now);
        // How long these messages take says nothing of either scheme.
        self.round = None;
    }

    /// Notes that data of a message has arrived.
    pub fn note_progress(&mut self, now: Instant) {
        if let Some(round) = &mut self.round {
            round.touched = now;
        }
    }

    /// Ends a message of `bytes` bytes: all of its data has arrived.
    pub fn end(&mut self, now: Instant, bytes: u64) {
        self.under_way = self.under_way.saturating_sub(1);
        self.end_one(now, bytes);
    }

    fn end_one(&mut self, now: Instant, bytes: u64) {
        let Some(round) = &mut self.round else { return };
        (round.touched, round.bytes) = (now, round.bytes + bytes);
        if self.under_way == 0 && self.to_peer == 0 {
            let round = *round;
            self.round = None;
            self.measure(now, &round);
        }
    }

    /// Returns whether writes of the peer are under way, as far as is known.
    pub fn is_written_to(&self, now: Instant) -> bool {
        let is_written = |round: &Round| {
            round.scheme == Some(RendezvousScheme::RemoteWrite) && now.since(round.touched) < ABANDONED_AFTER
        };
        self.under_way > 0 && self.round.as_ref().is_some_and(is_written)
    }

    /// The picoseconds by which writes bring a message of `bytes` bytes sooner than packets do: 0 where they
    /// are later, `None` as long as one of them is unknown. It was measured for messages of the peer. Those
    /// to the peer take the same path.
    pub fn spared_by_writes(&self, bytes: u64) -> Option<u64> {
        let [packets, write] = self.choices.of(bytes).known();
        Some(packets?.saturating_sub(write?).saturating_mul(bytes))
    }

    fn measure(&mut self, now: Instant, round: &Round) {
        let Some(scheme) = round.scheme else { return };
        let is_write = scheme == RendezvousScheme::RemoteWrite;
        if round.bytes == 0 || is_write && !core::mem::replace(&mut self.has_written, true) {
            return;
        }
        if is_write {
            self.distrust.succeeded();
        }
        self.choices.of_mut(round.longest).measure(is_write, now.since(round.began), round.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use weft_random::Random;

    /// The nanoseconds of a message of this many bytes by packets, and by writes.
    type Times = [fn(u64) -> u64; 2];

    /// Messages one after the other, of these times; others on the machine make one in ten of them much
    /// later. Returns the time that they took, and the time that the best scheme would have taken, in
    /// nanoseconds.
    fn play(choice: &mut SchemeChoice, times: Times, bytes: u64, count: u32, random: &mut Random) -> (u64, u64) {
        let mut now = Instant(1_000_000_000);
        let (mut taken, mut best) = (0, 0);
        for _ in 0..count {
            let scheme = choice.begin(now, bytes, true);
            let noise = if random.chance(100_000) { random.below(1_000_000) } else { random.below(2_000) };
            let time = times[scheme as usize](bytes) + noise;
            now = now + Duration(time);
            choice.end(now, bytes);
            taken += time;
            best += times.iter().map(|of| of(bytes)).min().unwrap_or(0) + noise;
        }
        (taken, best)
    }

    const QUICK: fn(u64) -> u64 = |bytes| 10_000 + bytes / 4;
    const SLOW: fn(u64) -> u64 = |bytes| 20_000 + bytes / 2;
    const STUCK: fn(u64) -> u64 = |_| 200_000_000;

    /// Messages of 50,000 bytes, of which writes bring each 22.5 µs sooner than packets, or later.   Expect:
    /// nothing is known before both have been measured; then about that time, or none at all.
    #[test]
    fn what_writes_spare_is_known_once_both_schemes_have_been_measured() {
        let mut random = Random::new(7);
        let mut choice = SchemeChoice::default();
        play(&mut choice, [SLOW, QUICK], 50_000, 5, &mut random);
        assert_eq!(choice.spared_by_writes(50_000), None);
        play(&mut choice, [SLOW, QUICK], 50_000, 1_000, &mut random);
        let spared = choice.spared_by_writes(50_000).expect("both are known");
        assert!((15_000_000..25_000_000).contains(&spared), "{spared} ps");
        assert_eq!(choice.spared_by_writes(1 << 20), None, "another class");
        let mut choice = SchemeChoice::default();
        play(&mut choice, [QUICK, SLOW], 50_000, 1_000, &mut random);
        assert_eq!(choice.spared_by_writes(50_000), Some(0));
    }

    /// Packets are quicker, or writes are, or one of them is stuck each time.   Expect: within 5 % of the
    /// better one, once both have been measured.
    #[test]
    fn the_quicker_scheme_is_taken_whichever_it_is() {
        let mut random = Random::new(5);
        for times in [[QUICK, SLOW], [SLOW, QUICK], [QUICK, QUICK], [STUCK, QUICK], [QUICK, STUCK]] {
            for bytes in [40_000, 100_000, 1 << 20, 64 << 20] {
                let mut choice = SchemeChoice::default();
                play(&mut choice, times, bytes, 20, &mut random);
                let (taken, best) = play(&mut choice, times, bytes, 5_000, &mut random);
                assert!(taken <= best + best / 20, "{bytes} bytes: {taken} ns and not {best}");
            }
        }
    }

    /// What was quicker becomes slower.   Expect: the other scheme is taken soon, and the first one again
    /// when it has become quick again.
    #[test]
    fn a_network_that_changes_is_noticed() {
        let mut random = Random::new(6);
        let mut choice = SchemeChoice::default();
        for times in [[SLOW, QUICK], [QUICK, SLOW], [SLOW, QUICK]] {
            play(&mut choice, times, 1 << 20, 2_000, &mut random);
            let (taken, best) = play(&mut choice, times, 1 << 20, 1_000, &mut random);
            assert!(taken <= best + best / 20, "{taken} ns and not {best}");
        }
    }

    /// Messages that begin before others have ended, without a pause.   Expect: they come alike, and the
    /// choice is made again after some of them.
    #[test]
    fn messages_at_the_same_time_come_alike() {
        let mut choice = SchemeChoice::default();
        let mut now = Instant(0);
        let mut begun = Vec::new();
        for _ in 0..1_000 {
            while begun.len() % 16 != 0 || begun.is_empty() {
                begun.push(choice.begin(now, 1 << 20, true));
            }
            now = now + Duration::from_micros(10);
            choice.end(now, 1 << 20);
            begun.push(choice.begin(now, 1 << 20, true));
        }
        let changes: Vec<usize> = (1..begun.len()).filter(|at| begun[at - 1] != begun[*at]).collect();
        assert!(!changes.is_empty() && changes.windows(2).all(|two| two[1] - two[0] >= 64), "{changes:?}");
    }

    /// An exchange in both directions. A message that is written arrives sooner, and that to the peer waits
    /// for it.   Expect: packets bring it, since both directions together take less time.
    #[test]
    fn a_scheme_for_which_the_other_direction_waits_is_not_quick() {
        let mut choice = SchemeChoice::default();
        let mut now = Instant(1_000_000_000);
        let mut written = 0;
        for _ in 0..1_000 {
            choice.begin_to_peer(now);
            let (own, to_peer) = match choice.begin(now, 1 << 20, true) {
                RendezvousScheme::RemoteWrite => (310_000, 1_150_000),
                RendezvousScheme::Packets => (600_000, 650_000),
            };
            written += u32::from(own < 600_000);
            choice.end(now + Duration(own), 1 << 20);
            choice.end_to_peer(now + Duration(to_peer), 1 << 20);
            now = now + Duration(to_peer);
        }
        assert!(written < 50, "{written} of 1000");
    }

    /// Messages that begin and never end.   Expect: later ones are measured all the same.
    #[test]
    fn messages_that_are_given_up_are_forgotten() {
        let mut choice = SchemeChoice::default();
        let mut now = Instant(0);
        choice.begin(now, 1 << 20, true);
        for _ in 0..10 {
            now = now + ABANDONED_AFTER;
            choice.begin(now, 1 << 20, true);
            assert!(choice.is_written_to(now) || choice.has_written);
            now = now + Duration::from_micros(100);
            choice.end(now, 1 << 20);
            assert!(!choice.is_written_to(now));
        }
        assert!(choice.choices.of(1 << 20).known().iter().all(Option::is_some));
    }

    /// A message to the peer that never ends, and exchanges after pauses.   Expect: the message is forgotten,
    /// and no pause counts as time of a later message.
    #[test]
    fn a_message_to_the_peer_that_is_given_up_is_forgotten() {
        let mut choice = SchemeChoice::default();
        let mut now = Instant(0);
        choice.begin_to_peer(now);
        for _ in 0..10 {
            now = now + ABANDONED_AFTER;
            choice.begin_to_peer(now);
            choice.begin(now, 1 << 20, true);
            now = now + Duration::from_micros(100);
            choice.end(now, 1 << 20);
            choice.end_to_peer(now, 1 << 20);
        }
        let picoseconds = 100_000_000 / (2 << 20);
        assert_eq!(choice.choices.of(1 << 20).known(), [Some(picoseconds); 2]);
    }

    /// Writes fail again and again, as where a switch carries no packets as long as those of TCP.   Expect:
    /// they are tried ever more rarely.
    #[test]
    fn writes_that_fail_are_tried_ever_more_rarely() {
        let mut choice = SchemeChoice::default();
        let (mut now, mut failures) = (Instant(0), 0);
        while now < Instant(0) + Duration::from_secs(3600) {
            match choice.begin(now, 1 << 20, true) {
                RendezvousScheme::RemoteWrite => {
                    now = now + Duration::from_secs(1);
                    choice.failed(now);
                    failures += 1;
                }
                RendezvousScheme::Packets => now = now + Duration::from_millis(1),
            }
            choice.end(now, 1 << 20);
        }
        assert!((2..10).contains(&failures), "{failures} failures in an hour");
    }

    #[test]
    fn what_must_not_be_written_comes_as_packets() {
        let mut choice = SchemeChoice::default();
        assert_eq!(choice.begin(Instant(0), 100_000, false), RendezvousScheme::Packets);
        assert_eq!(choice.begin(Instant(0), 100_000, true), RendezvousScheme::Packets, "as the others of its round");
    }
}
