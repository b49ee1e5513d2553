//! Credits: how many packets two ends may have on their way to each other. Pure state machines, for each
//! direction at each end.
//!
//! A receiver has a *window*: it grants room for as many packets as it has receives for. Each message that it
//! sends tells the peer of packets that have been taken. When more than half of the window is to be told of,
//! a message that only grants room ([`super::wire::Kind::Credit`]) leaves. Each connection begins with a
//! window of a single packet, so that memory grows with the peers that a process talks to, and not with all
//! peers. The window of a peer that sends much grows, until all peers together have as much as the process
//! has for windows. Then the peer with the largest window is asked to give half of it back (`Reclaim`,
//! `Returned`).
//!
//! Windows are odd. So a message that only grants room stands for more than half of a window, and no second
//! one leaves before the peer has taken the first. So one receive in reserve ([`RESERVE`]) is enough for
//! them.

use super::wire::Kind;
use std::collections::VecDeque;

/// The window with which a connection begins.
pub(super) const WINDOW_FIRST: u16 = 1;
/// The largest window.
pub(super) const WINDOW_MAX: u16 = 61;
/// Receives besides the window: for a message that only grants room, or for the first message of a client.
pub(super) const RESERVE: u32 = 1;
/// Packets for each packet of the window after which the window grows: a peer that sends a few packets now
/// and then needs no more.
const GROW_AFTER: u32 = 4;

// Each step of a window is even.
const _: () = assert!(WINDOW_FIRST % 2 == 1 && WINDOW_MAX % 2 == 1 && WINDOW_FIRST <= WINDOW_MAX);

/// Returns how many taken packets are not told of before a message tells of them by itself.
const fn tell_at(window: u16) -> u16 {
    window.div_ceil(2)
}

/// The window that this end grants to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grants {
    window: u16,
    /// Packets that were taken, or that the window has grown by, and that the peer has not been told of.
    owed: u16,
    /// Packets since the window last changed.
    since: u32,
    /// Packets of the window that the peer has been asked to give back, while it has not answered; otherwise
    /// 0.
    asked: u16,
}

impl Grants {
    /// Grants a window of `window` packets, rounded down to an odd number.
    pub(super) fn new(window: u16) -> Self {
        let window = window.clamp(WINDOW_FIRST, WINDOW_MAX);
        Self { window: window - u16::from(window.is_multiple_of(2)), owed: 0, since: 0, asked: 0 }
    }

    /// Returns the packets that the peer may have on their way, with those that wait here to be told of.
    pub(super) fn window(&self) -> u16 {
        self.window
    }

    /// Returns the receives that the window and the reserve need.
    pub(super) fn receives(&self) -> u32 {
        u32::from(self.window) + RESERVE
    }

    /// Returns the packets that a message tells of if it leaves now.
    pub(super) fn owed(&self) -> u16 {
        self.owed
    }

    /// Notes that a message has told of them.
    pub(super) fn note_told(&mut self) {
        self.owed = 0;
    }

    /// Notes that a packet which needs room was taken. Returns `false` if the peer had no room.
    pub(super) fn note_taken(&mut self) -> bool {
        self.since = self.since.saturating_add(1);
        let had_room = self.owed < self.window;
        self.owed += u16::from(had_room);
        had_room
    }

    /// Returns whether a message must tell of taken packets, even if nothing else is to be sent.
    pub(super) fn is_due(&self) -> bool {
        self.owed >= tell_at(self.window)
    }

    /// Returns how much larger the window should be: an even number.
    pub(super) fn wants(&self) -> u16 {
        let sends_much = self.since >= GROW_AFTER * u32::from(self.window) && self.asked == 0;
        if sends_much { (self.window + 1).min(WINDOW_MAX - self.window) } else { 0 }
    }

    /// Makes the window larger by an even number, at most by what [`Self::wants`] returns.
    pub(super) fn grow(&mut self, by: u16) {
        let by = by.min(self.wants()) & !1;
        self.window += by;
        self.owed += by;
        if by > 0 {
            self.since = 0;
        }
    }

    /// Notes that the window cannot grow: it asks again after as many packets as now.
    pub(super) fn note_refused(&mut self) {
        self.since = 0;
    }

    /// Returns what the peer may be asked to give back for a peer that has a window of `other`; 0: nothing.
    pub(super) fn spare(&self, other: u16) -> u16 {
        if self.asked == 0 && self.window > 2 * other { (self.window / 2) & !1 } else { 0 }
    }

    /// Notes that the peer is asked to give `count` back, rounded down to an even number.
    pub(super) fn ask_back(&mut self, count: u16) {
        self.asked = count & !1;
    }

    /// Returns what the peer has been asked to give back, until it answers; otherwise 0.
    pub(super) fn asked(&self) -> u16 {
        self.asked
    }

    /// Notes that the peer gives `count` back. Returns `false` if the peer cannot have that much.
    pub(super) fn note_returned(&mut self, count: u16) -> bool {
        let can_be = count <= self.asked && self.owed + count <= self.window;
        let is_right = self.asked > 0 && can_be && count.is_multiple_of(2);
        if is_right {
            (self.window, self.asked, self.since) = (self.window - count, 0, 0);
        }
        is_right
    }
}

/// The packets that a peer grants to this end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Credits {
    left: u16,
    /// Packets that the next `Returned` message gives back.
    returning: u16,
}

impl Credits {
    pub(super) fn new(window: u16) -> Self {
        Self { left: window, returning: 0 }
    }

    /// Returns how many packets may be sent.
    pub(super) fn left(&self) -> u16 {
        self.left
    }

    /// Notes that a packet is sent.
    pub(super) fn take(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Adds the packets that the peer has granted.
    pub(super) fn add(&mut self, count: u16) {
        self.left = self.left.saturating_add(count);
    }

    /// Gives back as many of the `asked` packets as the answer itself does not need.
    pub(super) fn give_back(&mut self, asked: u16) {
        let count = asked.min(self.left.saturating_sub(1)) & !1;
        self.left -= count;
        self.returning += count;
    }

    /// Returns how many packets the answer gives back.
    pub(super) fn returning(&self) -> u16 {
        self.returning
    }

    /// Notes that the answer has left.
    pub(super) fn note_returned(&mut self) {
        self.returning = 0;
    }
}

/// The messages that an end has to send by itself, each kind at most once, in the order in which they leave.
/// A message that needs no room never waits behind a message that needs room. Otherwise two ends that have no
/// room, and have a message that needs some, would keep the room for each other behind that message for ever.
#[derive(Clone, Debug, Default)]
pub(super) struct Controls(VecDeque<Kind>);

impl Controls {
    pub(super) fn insert(&mut self, kind: Kind) {
        if self.0.contains(&kind) {
            return;
        }
        let index = match kind.needs_credit() {
            true => self.0.len(),
            false => self.0.iter().position(|other| other.needs_credit()).unwrap_or(self.0.len()),
        };
        self.0.insert(index, kind);
    }

    /// Returns the message that leaves next.
    pub(super) fn first(&self) -> Option<Kind> {
        self.0.front().copied()
    }

    /// Removes the message that has left.
    pub(super) fn remove_first(&mut self) {
        self.0.pop_front();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all messages, because the connection is gone.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An end: its grants, its credits, and the messages on their way to it. Each of these messages has a
    /// number and a grant.
    struct End {
        grants: Grants,
        credits: Credits,
        inbox: VecDeque<(Kind, u16, u16)>,
        says: Controls,
        received: u32,
    }

    struct World {
        ends: [End; 2],
        /// Packets that all windows together may still grow by.
        pool: u16,
    }

    impl World {
        fn new(pool: u16) -> Self {
            let end = || End {
                grants: Grants::new(WINDOW_FIRST),
                credits: Credits::new(WINDOW_FIRST),
                inbox: VecDeque::new(),
                says: Controls::default(),
                received: 0,
            };
            Self { ends: [end(), end()], pool }
        }

        fn transmit(&mut self, from: usize, kind: Kind, count: u16) -> bool {
            let end = &mut self.ends[from];
            if kind.needs_credit() {
                if end.credits.left() == 0 {
                    return false;
                }
                end.credits.take();
            }
            let grant = end.grants.owed();
            end.grants.note_told();
            self.ends[1 - from].inbox.push_back((kind, count, grant));
            let there = &self.ends[1 - from];
            assert!(there.inbox.len() <= there.grants.receives() as usize, "there is a receive for each message");
            true
        }

        fn talk(&mut self, from: usize) {
            while let Some(kind) = self.ends[from].says.first() {
                let End { grants, credits, .. } = &self.ends[from];
                let count = match kind {
                    Kind::Returned => credits.returning(),
                    Kind::Reclaim => grants.asked(),
                    _ => 0,
                };
                let is_moot = kind == Kind::Credit && grants.owed() == 0;
                if !is_moot && !self.transmit(from, kind, count) {
                    return;
                }
                if kind == Kind::Returned {
                    self.ends[from].credits.note_returned();
                }
                self.ends[from].says.remove_first();
            }
        }

        fn receive(&mut self, at: usize) {
            let Some((kind, count, grant)) = self.ends[at].inbox.pop_front() else { return };
            let pool = &mut self.pool;
            let end = &mut self.ends[at];
            end.credits.add(grant);
            if kind.needs_credit() {
                assert!(end.grants.note_taken());
            }
            match kind {
                Kind::Packet => end.received += 1,
                Kind::Reclaim => {
                    end.credits.give_back(count);
                    end.says.insert(Kind::Returned);
                }
                Kind::Returned => {
                    assert!(end.grants.note_returned(count));
                    *pool += count;
                }
                Kind::Close => end.says.insert(Kind::Closed),
                _ => {}
            }
            if end.grants.is_due() {
                let by = end.grants.wants().min(*pool) & !1;
                *pool -= by;
                end.grants.grow(by);
                end.says.insert(Kind::Credit);
            }
            self.talk(at);
        }

        fn settle(&mut self) {
            for _ in 0..1000 {
                (0..2).for_each(|end| self.talk(end));
                (0..2).for_each(|end| self.receive(end));
            }
            assert!(self.ends.iter().all(|end| end.inbox.is_empty() && end.says.is_empty()));
        }
    }

    #[test]
    fn whatever_two_ends_do_there_is_a_receive_for_each_message_and_nothing_is_lost_of_a_window() {
        for seed in 0..2000_u64 {
            let (mut random, mut sent) = (weft_random::Random::new(seed), [0_u32; 2]);
            let mut world = World::new((random.next() % 140) as u16 & !1);
            let bias = random.next() % 100;
            // Short exchanges end with the smallest windows.
            for _ in 0..[5, 600][seed as usize % 2] {
                let at = usize::from(random.next() % 100 < bias);
                match random.next() % 20 {
                    0..10 => {
                        if world.ends[at].says.is_empty() && world.transmit(at, Kind::Packet, 0) {
                            sent[at] += 1;
                        }
                    }
                    10..19 => world.receive(at),
                    _ => {
                        let spare = world.ends[at].grants.spare(0);
                        if spare > 0 {
                            world.ends[at].grants.ask_back(spare);
                            world.ends[at].says.insert(Kind::Reclaim);
                            world.talk(at);
                        }
                    }
                }
            }
            // Both ends may close the connection at once, as soon as each has room for the message.
            for at in 0..2 {
                let End { says, credits, .. } = &mut world.ends[at];
                if random.next().is_multiple_of(2) && says.is_empty() && credits.left() > 0 {
                    says.insert(Kind::Close);
                    world.talk(at);
                }
            }
            world.settle();
            for (at, sent) in sent.into_iter().enumerate() {
                let Grants { window, owed, asked, .. } = world.ends[at].grants;
                let there = world.ends[1 - at].credits;
                assert_eq!(there.left() + owed, window, "seed {seed}");
                assert_eq!((asked, there.returning()), (0, 0), "seed {seed}");
                assert_eq!(world.ends[1 - at].received, sent, "seed {seed}");
                assert!(!window.is_multiple_of(2) && there.left() > 0, "seed {seed}: it may send");
            }
        }
    }

    #[test]
    fn a_peer_that_sends_a_little_keeps_the_smallest_window_and_one_that_sends_much_has_the_largest() {
        let mut grants = Grants::new(WINDOW_FIRST);
        assert_eq!(grants.receives(), 2);
        let mut windows = Vec::new();
        for packet in 0..1000 {
            assert!(grants.note_taken());
            if packet < GROW_AFTER - 1 {
                assert_eq!(grants.wants(), 0);
            }
            if grants.is_due() {
                grants.grow(grants.wants());
                grants.note_told();
                if windows.last() != Some(&grants.window()) {
                    windows.push(grants.window());
                }
            }
        }
        assert_eq!(windows, [1, 3, 7, 15, 31, 61]);
        assert_eq!((grants.wants(), grants.spare(31), grants.spare(7)), (0, 0, 30));
    }

    #[test]
    fn what_grants_room_never_waits_behind_what_needs_some() {
        let mut says = Controls::default();
        for kind in [Kind::First, Kind::Closed, Kind::Stop, Kind::Credit, Kind::Stop, Kind::Credit] {
            says.insert(kind);
        }
        let mut order = Vec::new();
        while let Some(kind) = says.first() {
            order.push(kind);
            says.remove_first();
        }
        assert_eq!(order, [Kind::First, Kind::Credit, Kind::Closed, Kind::Stop]);
    }

    #[test]
    fn nobody_gives_back_what_was_not_asked_for_and_nobody_sends_without_room() {
        let mut grants = Grants::new(15);
        assert!(!grants.note_returned(2), "nothing was asked for");
        grants.ask_back(6);
        assert!(!grants.note_returned(8) && !grants.note_returned(3));
        assert!(grants.note_returned(4) && grants.window() == 11);
        let mut grants = Grants::new(1);
        assert!(grants.note_taken() && !grants.note_taken());
        let mut grants = Grants::new(7);
        (0..4).for_each(|_| assert!(grants.note_taken()));
        grants.ask_back(4);
        assert!(!grants.note_returned(4), "it had used them");
        assert_eq!(Grants::new(8).window(), 7);
    }
}
