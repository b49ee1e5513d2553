//! The kept packets of a member: it keeps a packet until all members that acknowledge to it have the packet,
//! and sends it again where needed.
//!
//! The root keeps all packets that it sends; a co-root keeps all that it receives.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::wire::{Acknowledgement, Cutter};
use super::{
    CUT_AFTER, Destination, PIECE_BYTES, PROBE_BURST, PROBES_PER_ROUND, REPAIR_BY_MULTICAST, REVIEW_ALONE_PACKETS_MIN,
    REVIEW_AT_ONCE_MIN, REVIEW_PACKETS_MIN, REVIEW_TIMES_MIN, Timing,
};
use crate::time::{Duration, Instant};

/// Most requests for packets that a co-root lacks as well; a member that still lacks such a packet asks
/// again.
const WANTED_MAX: usize = 256;

/// A packet, as it was sent.
struct Kept {
    bytes: Vec<u8>,
    /// The members that have reported, since the packet was last sent again, that they lack it.
    askers: Vec<u32>,
    repaired: Option<Instant>,
    /// The number of times that the packet was sent again to all that had asked for it.
    repairs: u8,
    /// The packet has been sent to the group again. A member that still lacks it may be out of reach of
    /// multicast.
    multicast_again: bool,
}

/// A member that acknowledges to this one.
struct Child {
    member: u32,
    /// The first packet that the child, or a member whose acknowledgements the child gathers, may lack.
    acknowledged: u64,
    losses: ChildLosses,
    /// The losses at the last verdict of each [`Review`].
    reviewed: [ChildLosses; 2],
}

/// The packets that a child has asked for.
#[derive(Clone, Copy, Default)]
struct ChildLosses {
    packets: u64,
    /// The number of acknowledgements in which the child asked.
    times: u64,
}

/// The reviewer of the packets that the children had to ask for.
#[derive(Clone, Copy)]
pub(super) enum Review {
    /// All members of the group at a time.
    Together,
    /// The root by itself.
    Alone,
}

/// The kept packets, and the members that may still lack them.
pub(super) struct Keeper {
    /// Number of the oldest packet.
    first: u64,
    kept: VecDeque<Kept>,
    children: Vec<Child>,
    /// The least acknowledgement of all children.
    acknowledged: u64,
    /// Packets that some member asks for.
    asked: VecDeque<u64>,
    /// Packets that this member, a co-root, lacks as well, and the member that asks for each.
    wanted: Vec<(u64, u32)>,
    /// The time at which the children are asked next which packets have arrived.
    probe_at: Option<Instant>,
    /// The number of unanswered questions to the children.
    probes: u32,
    /// The time of the first unanswered question.
    silent_since: Option<Instant>,
    probing: Vec<u32>,
    /// A packet that leaves in pieces: its number, its receiver, and the beginning of the next piece.
    cutting: Option<(u64, u32, usize)>,
    /// The number of packets at the last verdict of each [`Review`].
    reviewed: [u64; 2],
}

/// The news of an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Learnt {
    /// More packets have arrived at all children.
    pub(super) progress: bool,
    /// Packets that the child lacks and that it has not been sent again lately.
    pub(super) lost: u32,
}

impl Keeper {
    pub(super) fn new(first: u64, children: impl Iterator<Item = u32>) -> Self {
        let children: Vec<_> = children
            .map(|member| Child {
                member,
                acknowledged: first,
                losses: ChildLosses::default(),
                reviewed: <[ChildLosses; 2]>::default(),
            })
            .collect();
        Self {
            first,
            kept: VecDeque::new(),
            children,
            acknowledged: first,
            asked: VecDeque::new(),
            wanted: Vec::new(),
            probe_at: None,
            probes: 0,
            silent_since: None,
            probing: Vec::new(),
            cutting: None,
            reviewed: [first; 2],
        }
    }

    /// Judges the losses of the children since the last verdict, after `packets` packets in all. Returns
    /// whether some child has asked for most of those packets, in several requests or for very many at once.
    ///
    /// A child that has asked for most of them in few requests is no verdict yet: a busy child asks seldom,
    /// and for many packets each time. Its losses count on until they say more.
    pub(super) fn review(&mut self, packets: u64, by: Review) -> bool {
        let (at, least) = match by {
            Review::Together => (0, REVIEW_PACKETS_MIN),
            Review::Alone => (1, REVIEW_ALONE_PACKETS_MIN),
        };
        let since = packets.saturating_sub(self.reviewed[at]);
        if since < least {
            return false;
        }
        let (mut is_beyond_use, mut is_open) = (false, false);
        for child in &self.children {
            let before = child.reviewed[at];
            let (packets, times) = (child.losses.packets - before.packets, child.losses.times - before.times);
            if packets * 2 > since {
                is_beyond_use |= times >= REVIEW_TIMES_MIN || packets >= REVIEW_AT_ONCE_MIN;
                is_open = true;
            }
        }
        if is_open && !is_beyond_use {
            return false;
        }
        self.reviewed[at] = packets;
        self.children.iter_mut().for_each(|child| child.reviewed[at] = child.losses);
        is_beyond_use
    }

    /// One past the number of the newest packet.
    pub(super) fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// The first packet that some member may lack.
    pub(super) fn acknowledged(&self) -> u64 {
        if self.children.is_empty() { self.end() } else { self.acknowledged }
    }

    /// The number of kept packets.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Keeps the packet with number [`Self::end`], unless no member acknowledges to this one.
    pub(super) fn keep(&mut self, bytes: impl FnOnce() -> Vec<u8>) {
        if self.children.is_empty() {
            self.first += 1;
            return;
        }
        let number = self.end();
        let is_wanted = |(wanted, _): &mut (u64, u32)| *wanted == number;
        let askers: Vec<u32> = self.wanted.extract_if(.., is_wanted).map(|(_, member)| member).collect();
        if !askers.is_empty() {
            self.asked.push_back(number);
        }
        self.kept.push_back(Kept { bytes: bytes(), askers, repaired: None, repairs: 0, multicast_again: false });
    }

    /// A packet that is kept.
    pub(super) fn packet(&self, number: u64) -> Option<&[u8]> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.kept.get(at).map(|kept| kept.bytes.as_slice())
    }

    /// A kept packet, to change it before it is sent.
    pub(super) fn packet_mut(&mut self, number: u64) -> Option<&mut Vec<u8>> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.kept.get_mut(at).map(|kept| &mut kept.bytes)
    }

    /// Takes the report of child `member`: the packets that have arrived at the child (`acknowledgement`),
    /// and at all members behind it (`all`). `sent`: packets that have left.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        member: u32,
        all: u64,
        acknowledgement: &Acknowledgement,
        sent: u64,
        timing: &Timing,
    ) -> Learnt {
        let mut learnt = self.ask(now, member, acknowledgement, sent, timing);
        let Some(child) = self.children.iter_mut().find(|child| child.member == member) else { return learnt };
        child.losses.packets += u64::from(learnt.lost);
        child.losses.times += u64::from(learnt.lost > 0);
        if all <= child.acknowledged || all > sent {
            return learnt;
        }
        let was_least = child.acknowledged == self.acknowledged;
        child.acknowledged = all;
        // A member that acknowledges lives, so the next question is no earlier than if it were the first. The
        // answers of other members do not put off the first question.
        let was_asked = self.probes > 0;
        (self.probes, self.silent_since) = (0, None);
        if was_least {
            let all = self.children.iter().map(|child| child.acknowledged);
            #[cfg(not(weft_mutant = "multicast_released_early"))]
            let least = all.min().unwrap_or(sent);
            #[cfg(weft_mutant = "multicast_released_early")]
            let least = all.max().unwrap_or(sent);
            learnt.progress = least > self.acknowledged;
            self.release(least);
        }
        let first = self.probe_at.filter(|_| !was_asked).unwrap_or(now + timing.probe_delay(0));
        self.probe_at = (self.acknowledged < sent).then_some(first);
        learnt
    }

    /// Notes the packets that a member, child or not, lacks: they are to be sent again.
    fn ask(
        &mut self,
        now: Instant,
        member: u32,
        acknowledgement: &Acknowledgement,
        sent: u64,
        timing: &Timing,
    ) -> Learnt {
        let mut learnt = Learnt::default();
        for number in acknowledgement.missing() {
            let Some(at) = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok()) else { continue };
            if number >= self.end() {
                // The packet goes to the member as soon as it is here.
                if self.wanted.len() < WANTED_MAX && !self.wanted.contains(&(number, member)) {
                    self.wanted.push((number, member));
                    learnt.lost += 1;
                }
                continue;
            }
            let Some(kept) = self.kept.get_mut(at).filter(|_| number < sent) else { break };
            // A packet that was asked for again may be on its way.
            let is_under_way = kept.repaired.is_some_and(|at| now.since(at) < timing.round_trip());
            if is_under_way || kept.askers.contains(&member) {
                continue;
            }
            kept.askers.push(member);
            learnt.lost += 1;
            if kept.askers.len() == 1 {
                self.asked.push_back(number);
            }
        }
        learnt
    }

    fn release(&mut self, least: u64) {
        while self.first < least && self.kept.pop_front().is_some() {
            self.first += 1;
        }
        self.acknowledged = least;
    }

    /// Notes that a packet has left at `now` that the children will acknowledge.
    pub(super) fn sent(&mut self, now: Instant, timing: &Timing) {
        if !self.children.is_empty() {
            self.probe_at = Some(now + timing.probe_delay(self.probes));
        }
    }

    /// Returns the next packet that is to be sent again, and its destination. A packet that did not get
    /// through again and again leaves in pieces: it may be too long for a path.
    pub(super) fn poll_repair(&mut self, now: Instant, cutter: &Cutter<'_>, out: &mut Vec<u8>) -> Option<Destination> {
        if let Some(to) = self.poll_piece(cutter, out) {
            return Some(to);
        }
        while let Some(number) = self.asked.front().copied() {
            let kept = number.checked_sub(self.first).and_then(|at| self.kept.get_mut(usize::try_from(at).ok()?));
            let Some(kept) = kept.filter(|kept| !kept.askers.is_empty()) else {
                self.asked.pop_front();
                continue;
            };
            if kept.repairs >= CUT_AFTER
                && let Some(member) = kept.askers.pop()
            {
                if kept.askers.is_empty() {
                    kept.repaired = Some(now);
                    self.asked.pop_front();
                }
                self.cutting = Some((number, member, 0));
                return self.poll_piece(cutter, out);
            }
            let to = if kept.askers.len() >= REPAIR_BY_MULTICAST && !kept.multicast_again {
                kept.multicast_again = true;
                kept.askers.clear();
                Destination::Group
            } else {
                kept.askers.pop().map_or(Destination::Group, Destination::Member)
            };
            if kept.askers.is_empty() {
                kept.repaired = Some(now);
                kept.repairs = kept.repairs.saturating_add(1);
                self.asked.pop_front();
            }
            out.clear();
            out.extend_from_slice(&kept.bytes);
            return Some(to);
        }
        None
    }

    fn poll_piece(&mut self, cutter: &Cutter<'_>, out: &mut Vec<u8>) -> Option<Destination> {
        let (number, member, at) = self.cutting.take()?;
        // All members may have it by now.
        let packet = self.packet(number)?;
        let next = cutter.cut(number, packet, at, PIECE_BYTES, out);
        self.cutting = (next < packet.len()).then_some((number, member, next));
        Some(Destination::Member(member))
    }

    /// Returns the destination of the next question for arrived packets: the group the first time, then the
    /// members that lag behind, and the group again now and then, for members whose co-root is gone. `sent`:
    /// packets that have left.
    pub(super) fn poll_probe(&mut self, now: Instant, sent: u64, timing: &Timing) -> Option<Destination> {
        if let Some(member) = self.probing.pop() {
            return Some(Destination::Member(member));
        }
        if self.probe_at.is_none_or(|at| now < at) || self.acknowledged() >= sent {
            return None;
        }
        self.silent_since = self.silent_since.or(Some(now));
        self.probes += 1;
        self.probe_at = Some(now + timing.probe_delay(self.probes));
        if self.probes % PROBES_PER_ROUND == 1 {
            return Some(Destination::Group);
        }
        let behind = self.children.iter().filter(|child| child.acknowledged < sent);
        self.probing = behind.map(|child| child.member).take(PROBE_BURST).collect();
        self.probing.pop().map(Destination::Member)
    }

    /// Puts off the first question, which [`Self::poll_probe`] has just given out.
    pub(super) fn put_off_probe(&mut self, until: Instant) {
        (self.probes, self.silent_since, self.probe_at) = (0, None, Some(until));
    }

    /// The time to look again although nothing arrives.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        if !self.asked.is_empty() || !self.probing.is_empty() || self.cutting.is_some() {
            return Some(Instant(0));
        }
        self.probe_at.filter(|_| !self.kept.is_empty())
    }

    /// Returns a child that has been silent for `timeout`, although it was asked.
    pub(super) fn silent(&self, now: Instant, timeout: Duration) -> Option<u32> {
        let since = self.silent_since?;
        if timeout.0 == 0 || now.since(since) < timeout {
            return None;
        }
        self.children.iter().find(|child| child.acknowledged == self.acknowledged).map(|child| child.member)
    }

    /// Forgets a child that has left: no packet waits for its acknowledgements any more.
    pub(super) fn forget(&mut self, member: u32) {
        self.children.retain(|child| child.member != member);
        let least = self.children.iter().map(|child| child.acknowledged).min().unwrap_or(self.end());
        self.release(least);
        (self.probes, self.silent_since) = (0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHILD: u32 = 1;

    /// Sends `count` packets, of which the child lacks `lacking` and asks for all of these at once.
    fn send(keeper: &mut Keeper, timing: &Timing, count: u64, lacking: u64) {
        let first = keeper.end();
        (0..count).for_each(|_| keeper.keep(|| alloc::vec![0; 8]));
        let end = keeper.end();
        let mut acknowledgement = Acknowledgement { expected: first, end, ..Acknowledgement::default() };
        (first + lacking..end).for_each(|number| acknowledgement.note(number));
        let all = if lacking == 0 { end } else { first };
        keeper.handle(Instant(0), CHILD, all, &acknowledgement, end, timing);
        // What it asked for arrives.
        keeper.handle(Instant(0), CHILD, end, &Acknowledgement { expected: end, end, ..<_>::default() }, end, timing);
    }

    /// A busy child asks once for a train of 150 packets, and the network carries nothing to it. Expect: the
    /// third request says so, though no request alone does.
    #[test]
    fn a_child_that_asks_seldom_for_all_packets_is_heard() {
        let timing = Timing::new();
        let mut keeper = Keeper::new(0, [CHILD].into_iter());
        let verdicts: Vec<bool> = (0..4)
            .map(|_| {
                send(&mut keeper, &timing, 150, 150);
                keeper.review(keeper.acknowledged(), Review::Alone)
            })
            .collect();
        assert_eq!(verdicts, [false, false, true, false]);
    }

    /// A child asks once for a train that another has overtaken, and for nothing afterwards. Expect: the
    /// packets that arrive outweigh the train, and nothing of it is left for a later review.
    #[test]
    fn one_train_is_outweighed_by_what_arrives() {
        let timing = Timing::new();
        let mut keeper = Keeper::new(0, [CHILD].into_iter());
        let mut review = |count, lacking| {
            send(&mut keeper, &timing, count, lacking);
            let verdict = keeper.review(keeper.acknowledged(), Review::Alone);
            (verdict, keeper.reviewed[1])
        };
        assert_eq!(review(150, 150), (false, 0));
        assert_eq!(review(200, 0), (false, 350));
        assert_eq!(review(128, 128), (false, 350));
    }
}
