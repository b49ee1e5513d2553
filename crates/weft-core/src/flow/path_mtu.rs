//! Path MTU discovery while a flow runs: the largest packets that may leave (after RFC 8899, datagram
//! packetization layer path MTU discovery).
//!
//! A flow begins with the packets that both ends can carry. When a packet is lost again and again, its path
//! is asked whether it carries that size (a *question*: a numbered packet of that length that says nothing).
//! If it does not, the flow goes on at once with packets of the least size, and finds by further questions
//! the largest that get through. Now and then it asks whether there is room for more.
//!
//! Congestion loses questions, too. So each lost question of the present size is followed by a small one, the
//! *control*. A path has a smaller MTU if it loses all large questions, carries the controls, and no large
//! packet that left after the first question arrives. Otherwise the flow concludes nothing. A lost control
//! takes back some of the questions before it, so a path that is narrow and loses packets, too, is found.
//!
//! Only lost and acknowledged packets of the flow itself say anything about sizes. Reports of the network or
//! of this machine, such as ICMP "fragmentation needed", are not heeded: forging them changes nothing.
//!
//! A packet that was sent before and is longer than packets are now keeps its number and travels in pieces
//! (`wire::Piece`). So the peer recognizes a packet that it has had already.

use super::queue::Departure;
use super::settings::{
    CONTROL_SIZE, CONTROL_WEIGHT, DOUBT_REST, DOUBT_TRIES, PACKET_SIZE_MIN, SIZE_GRAIN, SIZE_REST, SIZE_REST_MAX,
    SIZE_TRIES,
};
use crate::time::{Duration, Instant};
use crate::wire;

/// The reason for which a size is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Packets of the present size seem to get lost.
    Doubt,
    /// The path may carry a little more than at present.
    More,
    /// The path carries more: perhaps as much as at first.
    Full,
    /// The path may carry a size between the present one and one that has failed.
    Between,
}

/// A size, and the paths that are still to be asked for it.
#[derive(Clone, Copy, Debug)]
struct Question {
    why: Why,
    size: u16,
    /// The least size that is known to fail, or one more than the largest.
    fails: u16,
    /// The paths that are asked, one bit each; the path that is asked at present; and the paths that come
    /// after it.
    paths: u8,
    path: u8,
    then: u8,
    /// Questions of this size and path that were lost.
    lost: u8,
    /// A question is under way.
    asked: bool,
    /// The question is the control, not `size`.
    control: bool,
    /// The time at which the first question left.
    since: Instant,
}

impl Question {
    /// Bytes of the packet that asks.
    const fn asks(&self) -> u16 {
        if self.control { CONTROL_SIZE } else { self.size }
    }
}

#[derive(Clone, Copy, Debug)]
enum Search {
    /// No question is asked before this time.
    Rest {
        until: Instant,
    },
    Asks(Question),
}

/// A packet that leaves in pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutting {
    pub(super) departure: Departure,
    /// Bytes of its payload that have left.
    pub(super) at: u16,
    /// Bytes of the longest piece, head included.
    pub(super) size: u16,
}

/// The change of the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    /// The path carries less than packets had.
    Fell,
    /// The path carries more than packets had.
    Rose,
}

/// The state of path MTU discovery. There only while packets are smaller than at first, a size is asked for,
/// or a packet leaves in pieces.
#[derive(Debug)]
pub(super) struct PathMtu {
    /// Bytes of the longest packet that leaves as a whole.
    size: u16,
    /// Bytes of the longest packet at first.
    full: u16,
    search: Search,
    /// The length of the next rest.
    rest: Duration,
    /// The size is not doubted before this time, because a control was lost.
    content_until: Instant,
    pub(super) cutting: Option<Cutting>,
}

impl PathMtu {
    /// Begins with the knowledge that packets had `size` bytes last, and `full` at first.
    pub(super) const fn new(size: u16, full: u16) -> Self {
        Self {
            size,
            full,
            search: Search::Rest { until: Instant(0) },
            rest: SIZE_REST,
            content_until: Instant(0),
            cutting: None,
        }
    }

    pub(super) const fn size(&self) -> u16 {
        self.size
    }

    /// Returns whether packets leave whole and as long as at first.
    pub(super) const fn is_at_full_size(&self) -> bool {
        self.size == self.full && self.cutting.is_none()
    }

    /// Returns whether all is as it was before the first question.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.is_at_full_size() && matches!(self.search, Search::Rest { .. }) && self.content_until <= now
    }

    /// Notes that a packet was lost so often on this path that its size may be the reason.
    pub(super) fn doubt(&mut self, now: Instant, path: u8) {
        let may_ask = matches!(self.search, Search::Rest { .. }) && self.content_until <= now;
        if may_ask && usize::from(self.size) > PACKET_SIZE_MIN {
            self.ask(Why::Doubt, self.size, self.size + 1, 1 << path);
        }
    }

    /// Returns the size and the path of the question that should leave now. `paths`: the paths in use, one
    /// bit each.
    pub(super) fn question(&mut self, now: Instant, paths: u8) -> Option<(u16, u8)> {
        if let Search::Rest { until } = self.search
            && until <= now
            && self.size < self.full
        {
            let size = self.size.saturating_add(SIZE_GRAIN).min(self.full);
            self.ask(Why::More, size, self.full + 1, paths);
        }
        match self.search {
            Search::Asks(question) if !question.asked => Some((question.asks(), question.path)),
            _ => None,
        }
    }

    /// Returns whether a piece or a question waits to leave.
    pub(super) const fn waits(&self) -> bool {
        self.cutting.is_some() || matches!(self.search, Search::Asks(Question { asked: false, .. }))
    }

    /// Notes that the question leaves.
    pub(super) fn asked(&mut self, now: Instant) {
        if let Search::Asks(question) = &mut self.search {
            question.asked = true;
            if question.lost == 0 {
                question.since = now;
            }
        }
    }

    /// Notes that the peer has acknowledged a packet of `size` bytes that left whole on `path` at `sent_at`.
    /// Returns true if this answers a question: the path was asked for such packets, and this packet left
    /// after the question.
    pub(super) fn carried(&mut self, now: Instant, path: u8, size: usize, sent_at: Instant) -> bool {
        let Search::Asks(question) = &self.search else { return false };
        let was_asked = question.why == Why::Doubt && (question.asked || question.lost > 0) && question.path == path;
        // The seal and the alignment may be missing from `size`.
        let is_as_long = size + wire::SEAL_SIZE + usize::from(SIZE_GRAIN) >= usize::from(question.size);
        let is_proof = was_asked && is_as_long && sent_at >= question.since;
        if is_proof {
            self.be_content(now);
        }
        is_proof
    }

    /// Returns whether `size` is the present size, and is in doubt.
    pub(super) const fn is_in_doubt(&self, size: u16) -> bool {
        matches!(self.search, Search::Asks(Question { why: Why::Doubt, control: false, size: asked, .. }) if asked == size)
    }

    /// Notes that a question of this size has arrived.
    pub(super) fn passed(&mut self, now: Instant, size: u16) -> Change {
        let Search::Asks(question) = self.search else { return Change::Nothing };
        if question.asks() != size {
            return Change::Nothing;
        }
        if question.control {
            if question.lost < DOUBT_TRIES {
                self.search = Search::Asks(Question { asked: false, control: false, ..question });
                return Change::Nothing;
            }
            // The size that every interface offered to peers must carry. If this does not get through either,
            // nothing helps.
            self.size = PACKET_SIZE_MIN as u16;
            self.narrow(now, question.size, question.paths);
            return Change::Fell;
        }
        if question.then != 0 {
            let (path, then) = first_of(question.then);
            self.search = Search::Asks(Question { path, then, lost: 0, asked: false, ..question });
            return Change::Nothing;
        }
        self.size = size;
        match question.why {
            Why::More if size < self.full => self.ask(Why::Full, self.full, self.full + 1, question.paths),
            Why::Doubt | Why::More | Why::Full => self.be_content(now),
            Why::Between => self.narrow(now, question.fails, question.paths),
        }
        if question.why == Why::More { Change::Rose } else { Change::Nothing }
    }

    /// Notes that a question of this size is lost.
    pub(super) fn failed(&mut self, now: Instant, size: u16) -> Change {
        let Search::Asks(question) = &mut self.search else { return Change::Nothing };
        if question.asks() != size {
            return Change::Nothing;
        }
        if question.control && question.lost > CONTROL_WEIGHT {
            question.lost -= CONTROL_WEIGHT;
            (question.asked, question.control) = (false, false);
            return Change::Nothing;
        }
        if question.control {
            // The network is congested, or the peer is gone.
            self.content_until = now + DOUBT_REST;
            self.be_content(now);
            return Change::Nothing;
        }
        question.lost += 1;
        let Question { why, paths, lost, .. } = *question;
        match why {
            Why::Doubt => (question.asked, question.control) = (false, true),
            _ if lost < SIZE_TRIES => question.asked = false,
            Why::More => {
                self.search = Search::Rest { until: now + self.rest };
                self.rest = Duration((2 * self.rest.0).min(SIZE_REST_MAX.0));
            }
            Why::Full | Why::Between => self.narrow(now, size, paths),
        }
        Change::Nothing
    }

    fn ask(&mut self, why: Why, size: u16, fails: u16, paths: u8) {
        let (path, then) = first_of(paths);
        self.search = Search::Asks(Question {
            why,
            size,
            fails,
            paths,
            path,
            then,
            lost: 0,
            asked: false,
            control: false,
            since: Instant(0),
        });
    }

    /// Asks for a size between the present one and one that fails, unless the two are close.
    fn narrow(&mut self, now: Instant, fails: u16, paths: u8) {
        let between = fails - self.size;
        if between <= SIZE_GRAIN {
            return self.be_content(now);
        }
        self.ask(Why::Between, self.size + between / 2, fails, paths);
    }

    fn be_content(&mut self, now: Instant) {
        self.rest = SIZE_REST;
        self.search = Search::Rest { until: now + self.rest };
    }
}

/// The first of some paths, and the mask of the others.
const fn first_of(paths: u8) -> (u8, u8) {
    let first = if paths == 0 { 0 } else { paths.trailing_zeros() as u8 };
    (first, paths & !(1 << first))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks until it is content, on a path that carries packets of `carried` bytes; returns the questions.
    fn settle(mtu: &mut PathMtu, now: Instant, carried: u16) -> Vec<u16> {
        let mut questions = Vec::new();
        while let Some((size, _)) = mtu.question(now, 1) {
            mtu.asked(now);
            assert!(mtu.question(now, 1).is_none(), "one question is under way");
            questions.push(size);
            assert!(questions.len() < 100, "it does not end");
            if size <= carried {
                mtu.passed(now, size)
            } else {
                mtu.failed(now, size)
            };
        }
        questions
    }

    use alloc::vec::Vec;

    #[test]
    fn whatever_a_path_carries_is_found_and_found_again() {
        for full in [PACKET_SIZE_MIN as u16, 300, 1472, 8972, 65_507] {
            for carried in (PACKET_SIZE_MIN as u16..=full).step_by(97) {
                let mut mtu = PathMtu::new(full, full);
                mtu.doubt(Instant(0), 0);
                settle(&mut mtu, Instant(0), carried);
                assert!(mtu.size() <= carried, "{full} {carried}: {}", mtu.size());
                assert!(carried - mtu.size() <= SIZE_GRAIN, "{full} {carried}: {}", mtu.size());
                let later = Instant(0) + SIZE_REST;
                settle(&mut mtu, later, full);
                assert!(mtu.is_over(later + DOUBT_REST) && mtu.size() == full);
            }
        }
    }

    #[test]
    fn a_path_that_does_not_carry_the_least_is_asked_no_more() {
        let mut mtu = PathMtu::new(1472, 1472);
        mtu.doubt(Instant(0), 3);
        settle(&mut mtu, Instant(0), CONTROL_SIZE);
        assert_eq!(usize::from(mtu.size()), PACKET_SIZE_MIN);
        let later = Instant(0) + DOUBT_REST;
        mtu.doubt(later, 3);
        assert!(mtu.question(later, 1).is_none());
    }

    /// A path that loses the control, too, and one on which a large packet arrives.   Expect: sizes stay.
    #[test]
    fn congestion_makes_no_packet_smaller() {
        let mut mtu = PathMtu::new(1472, 1472);
        mtu.doubt(Instant(0), 0);
        assert_eq!(settle(&mut mtu, Instant(0), 0), [1472, CONTROL_SIZE]);
        mtu.doubt(Instant(5), 0);
        assert!(
            mtu.question(Instant(5), 1).is_none() && !mtu.is_over(Instant(5)) && mtu.is_at_full_size(),
            "it asks rarely"
        );
        let at = Instant(0) + DOUBT_REST;
        assert!(mtu.is_over(at));
        mtu.doubt(at, 0);
        assert!(!mtu.carried(at, 0, 1472, at), "nothing was asked yet");
        assert_eq!(mtu.question(at, 1), Some((1472, 0)));
        mtu.asked(at);
        mtu.failed(at, 1472);
        assert!(!mtu.carried(at, 1, 1472, at) && !mtu.carried(at, 0, 700, at) && !mtu.carried(at, 0, 1472, Instant(4)));
        assert!(mtu.carried(at, 0, 1472, at) && mtu.is_over(at + DOUBT_REST));
    }

    /// A narrow path that loses one control, the fourth.   Expect: its size is found all the same, after two
    /// questions more.
    #[test]
    fn one_lost_control_does_not_end_a_doubt() {
        let mut mtu = PathMtu::new(1472, 1472);
        mtu.doubt(Instant(0), 0);
        for control in 0..DOUBT_TRIES + CONTROL_WEIGHT {
            assert_eq!(mtu.size(), 1472, "{control}");
            for size in [1472, CONTROL_SIZE] {
                assert_eq!(mtu.question(Instant(0), 1), Some((size, 0)));
                mtu.asked(Instant(0));
                if size == CONTROL_SIZE && control != 3 {
                    mtu.passed(Instant(0), size)
                } else {
                    mtu.failed(Instant(0), size)
                };
            }
        }
        assert_eq!(usize::from(mtu.size()), PACKET_SIZE_MIN);
    }

    #[test]
    fn a_doubt_that_was_wrong_changes_nothing() {
        let mut mtu = PathMtu::new(1472, 1472);
        mtu.doubt(Instant(0), 0);
        assert_eq!(settle(&mut mtu, Instant(0), 1472), [1472]);
        assert!(mtu.is_over(Instant(0) + DOUBT_REST));
    }

    #[test]
    fn a_larger_size_is_asked_for_rarely_and_on_all_paths() {
        let mut mtu = PathMtu::new(1000, 1472);
        let mut at = Instant(0);
        let mut rests = Vec::new();
        for _ in 0..12 {
            assert_eq!(settle(&mut mtu, at, 1000).len(), usize::from(SIZE_TRIES));
            let Search::Rest { until } = mtu.search else { panic!("it rests") };
            rests.push(until.since(at));
            at = until;
        }
        assert!(rests.is_sorted() && rests[0] == SIZE_REST && rests[11] == SIZE_REST_MAX);
        // One path carries more and the other does not.   Expect: nothing changes.
        let (size, path) = mtu.question(at, 0b101).unwrap();
        assert_eq!((size, path), (1000 + SIZE_GRAIN, 0));
        mtu.asked(at);
        mtu.passed(at, size);
        for _ in 0..SIZE_TRIES {
            assert_eq!(mtu.question(at, 0b101), Some((size, 2)));
            mtu.asked(at);
            mtu.failed(at, size);
        }
        assert_eq!(mtu.size(), 1000);
    }
}
