//! The lanes to one peer: which of them lead there, and which carries what.
//!
//! A rail is a pair of interfaces, one at each end. On each there may be two lanes: raw frames, and UDP with its offloads. Messages
//! take the first lane that is proved (`reach`), raw frames before UDP; bulk data takes UDP, on all rails at the same time, each
//! being one way of the flow. What a lane does not prove, another carries.

use crate::reach::{Ends, Heard, Keys, Reach, SIZE, Said};
use crate::time::Instant;
use alloc::boxed::Box;

/// Rails to one peer.
pub const RAILS_MAX: usize = 4;

/// What carries packets on a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// Frames on the interface.
    Raw,
    /// UDP, which takes trains of packets.
    Udp,
}

/// One carrier on one rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Which carrier.
    pub carrier: Carrier,
    /// Which rail: 0 is the best; below [`RAILS_MAX`].
    pub rail: u8,
    /// The interfaces at both ends.
    pub ends: Ends,
}

/// A question or an answer, as it travels.
pub type Sentence = [u8; SIZE];

#[derive(Debug)]
struct Known {
    lane: Lane,
    reach: Reach,
}

/// What is known of the lanes to one peer. Lanes are named by their place in the list given to [`Rails::new`].
#[derive(Debug)]
pub struct Rails {
    known: Box<[Known]>,
    keys: Option<Box<Keys>>,
    /// Where packets go while nothing is proved.
    last_resort: u8,
    /// Questions and answers that the peer did not make.
    forged: u32,
}

impl Rails {
    /// Knows these lanes, at least one, the better ones first. UDP on the first rail that has it is believed in before it has
    /// answered; a lane without an alternative always is.
    pub fn new(lanes: &[Lane]) -> Self {
        assert!((1..=2 * RAILS_MAX).contains(&lanes.len()), "one to eight lanes lead to a peer");
        let last_resort = lanes.iter().position(|lane| lane.carrier == Carrier::Udp).unwrap_or(0);
        let known = |(index, lane): (usize, &Lane)| Known {
            lane: *lane,
            reach: if index == last_resort { Reach::assumed() } else { Reach::unknown() },
        };
        Self {
            known: lanes.iter().enumerate().map(known).collect(),
            keys: None,
            last_resort: last_resort as u8,
            forged: 0,
        }
    }

    /// Questions and answers that came and that the peer did not make.
    pub fn forged(&self) -> u32 {
        self.forged
    }

    /// Whether there is a choice. Without one nothing is asked and nothing doubted.
    pub fn is_choice(&self) -> bool {
        self.known.len() > 1
    }

    /// How many rails there are.
    pub fn rails(&self) -> usize {
        self.known.iter().map(|known| usize::from(known.lane.rail) + 1).max().unwrap_or(0)
    }

    /// How many lanes.
    pub fn lanes(&self) -> usize {
        self.known.len()
    }

    /// Ways of its own that bulk data has, for the flow to this peer: one for each rail, none if all packets go the same way.
    pub fn bulk_ways(&self) -> usize {
        if self.is_choice() { self.rails() } else { 0 }
    }

    /// The lane of a way of the flow: messages take the ways of all, bulk data of way k that of rail k − 1.
    pub fn lane(&self, way: usize) -> usize {
        let own = way.checked_sub(1).and_then(|rail| {
            let is_own = |known: &Known| usize::from(known.lane.rail) == rail;
            self.first(|known| is_own(known) && known.lane.carrier == Carrier::Udp)
                .or_else(|| self.first(|known| is_own(known)))
        });
        let other = || match way {
            0 => self.first(|known| known.lane.carrier == Carrier::Raw).or_else(|| self.first(|_| true)),
            _ => self.first(|known| known.lane.carrier == Carrier::Udp).or_else(|| self.first(|_| true)),
        };
        own.or_else(other).unwrap_or(usize::from(self.last_resort))
    }

    /// The first lane of a kind that is proved.
    fn first(&self, wanted: impl Fn(&Known) -> bool) -> Option<usize> {
        self.known.iter().position(|known| known.reach.is_proved() && wanted(known))
    }

    /// Whether a lane may be used.
    pub fn is_proved(&self, lane: usize) -> bool {
        self.known[lane].reach.is_proved()
    }

    /// Takes bytes that are `reach::is_reach` and came over this carrier: the lane over which to answer, and what.
    pub fn handle(&mut self, carrier: Carrier, bytes: &[u8], keys: impl FnOnce() -> Keys) -> Option<(usize, Sentence)> {
        let keys = self.keys.get_or_insert_with(|| Box::new(keys()));
        let Some(heard) = keys.open(bytes) else {
            self.forged = self.forged.wrapping_add(1);
            return None;
        };
        let is_it = |known: &Known| known.lane.carrier == carrier && known.lane.ends == heard.ends;
        let lane = self.known.iter().position(is_it)?;
        match heard.said {
            Said::Question { doubts } => {
                let answer = keys.answer(&heard);
                if doubts && self.is_choice() {
                    self.known.iter_mut().for_each(|known| known.reach.doubt_with_peer());
                }
                Some((lane, answer))
            }
            Said::Answer => {
                self.answered(lane, &heard);
                None
            }
        }
    }

    fn answered(&mut self, lane: usize, answer: &Heard) {
        let known = &mut self.known[lane];
        if known.reach.handle_answer(answer) && known.lane.carrier == Carrier::Udp {
            self.last_resort = lane as u8;
        }
    }

    /// The question that is due on a lane.
    pub fn poll_question(&mut self, lane: usize, now: Instant, keys: impl FnOnce() -> Keys) -> Option<Sentence> {
        if !self.is_choice() {
            return None;
        }
        let Known { lane, reach } = &mut self.known[lane];
        let question = reach.poll_question(now)?;
        Some(self.keys.get_or_insert_with(|| Box::new(keys())).question(&question, lane.ends))
    }

    /// Something was sent over the lane, and there is no sign that it arrived; or the machine has refused it.
    pub fn doubt(&mut self, lane: usize) {
        if self.is_choice() {
            self.known[lane].reach.doubt();
        }
    }

    /// When a question is due, as long as the outcome is open.
    pub fn next_timeout(&self) -> Option<Instant> {
        if !self.is_choice() {
            return None;
        }
        self.known.iter().filter_map(|known| known.reach.next_timeout()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn lane(carrier: Carrier, rail: u8) -> Lane {
        Lane { carrier, rail, ends: Ends { own: rail, peer: rail } }
    }

    /// Raw frames and UDP on so many rails.
    fn rails(count: u8) -> Rails {
        let pair = |rail| [lane(Carrier::Raw, rail), lane(Carrier::Udp, rail)];
        Rails::new(&(0..count).flat_map(pair).collect::<Vec<_>>())
    }

    fn keys(own: u32, peer: u32) -> Keys {
        Keys::new(&[1; 16], own, peer)
    }

    fn carrier(lane: usize) -> Carrier {
        [Carrier::Raw, Carrier::Udp][lane % 2]
    }

    /// Asks over a lane, and lets the peer answer.
    fn ask(rails: &mut Rails, lane: usize, now: Instant) {
        let question = rails.poll_question(lane, now, || keys(0, 1)).unwrap();
        let (_, answer) = self::rails(4).handle(carrier(lane), &question, || keys(1, 0)).unwrap();
        assert!(rails.handle(carrier(lane), &answer, || keys(0, 1)).is_none());
    }

    #[test]
    fn the_raw_lane_is_used_for_what_is_small_once_it_has_answered() {
        let mut rails = rails(1);
        assert_eq!((rails.lane(0), rails.lane(1)), (1, 1));
        assert!(rails.poll_question(1, Instant(0), || keys(0, 1)).is_none(), "UDP is believed in");
        ask(&mut rails, 0, Instant(0));
        assert_eq!((rails.lane(0), rails.lane(1)), (0, 1));
    }

    #[test]
    fn a_lane_that_does_not_answer_leaves_everything_to_the_other() {
        let mut rails = rails(1);
        ask(&mut rails, 0, Instant(0));
        rails.doubt(0);
        assert_eq!((rails.lane(0), rails.lane(1)), (1, 1));
        ask(&mut rails, 0, Instant(1));
        rails.doubt(1);
        assert_eq!((rails.lane(0), rails.lane(1)), (0, 0));
        // Neither answers: UDP passes routers, frames do not.
        rails.doubt(0);
        assert_eq!(rails.lane(1), 1);
        ask(&mut rails, 1, Instant(2));
        ask(&mut rails, 0, Instant(2));
        assert_eq!((rails.lane(0), rails.lane(1)), (0, 1));
    }

    #[test]
    fn with_one_lane_nothing_is_asked_or_doubted() {
        for only in [Carrier::Raw, Carrier::Udp] {
            let mut rails = Rails::new(&[lane(only, 0)]);
            rails.doubt(0);
            assert_eq!((rails.lane(0), rails.bulk_ways(), rails.next_timeout()), (0, 0, None));
            assert!(rails.is_proved(0) && rails.poll_question(0, Instant(0), || keys(0, 1)).is_none());
        }
    }

    #[test]
    fn each_rail_carries_bulk_data_and_the_best_carries_messages() {
        let mut rails = rails(3);
        assert_eq!((rails.rails(), rails.bulk_ways()), (3, 3));
        for lane in [0, 2, 3, 4, 5] {
            ask(&mut rails, lane, Instant(0));
        }
        assert_eq!([0, 1, 2, 3].map(|way| rails.lane(way)), [0, 1, 3, 5]);
        // The best rail is gone.   Expect: messages take the next, its bulk data any that carries trains.
        rails.doubt(0);
        rails.doubt(1);
        assert_eq!([0, 1, 2, 3].map(|way| rails.lane(way)), [2, 3, 3, 5]);
        // A rail with raw frames only.
        rails.doubt(3);
        assert_eq!([0, 1, 2, 3].map(|way| rails.lane(way)), [2, 5, 2, 5]);
    }

    #[test]
    fn a_peers_question_is_answered_over_its_lane_only_if_it_is_authentic_and_there_is_such_a_lane() {
        let mut near = rails(2);
        let question = rails(2).poll_question(2, Instant(0), || keys(1, 0)).unwrap();
        let (lane, answer) = near.handle(Carrier::Raw, &question, || keys(0, 1)).unwrap();
        assert_eq!((lane, answer.len()), (2, SIZE));
        assert!(near.handle(Carrier::Raw, &[0xff; SIZE], || keys(0, 1)).is_none());
        assert!(!near.is_proved(2), "the peer's question proves nothing here");
        assert!(rails(1).handle(Carrier::Raw, &question, || keys(0, 1)).is_none());
    }

    #[test]
    fn who_is_told_of_doubts_asks_too_and_that_spreads_no_further() {
        let (mut near, mut far) = (rails(1), rails(1));
        ask(&mut near, 0, Instant(0));
        near.doubt(0);
        let question = near.poll_question(0, Instant(1), || keys(0, 1)).unwrap();
        far.handle(Carrier::Raw, &question, || keys(1, 0)).unwrap();
        assert!(!far.is_proved(1));
        let question = far.poll_question(1, Instant(1), || keys(1, 0)).unwrap();
        near.handle(Carrier::Udp, &question, || keys(0, 1)).unwrap();
        assert!(near.is_proved(1));
    }
}
