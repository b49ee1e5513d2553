//! The receiver's grants: which announced message may send how much next. They are its means against incast.
//! A *grant* becomes a clear-to-send frame (`message`).
//!
//! When many senders answer one receiver, they fill the switch in front of the receiver, and most of their
//! data is lost. So the receiver decides: over all senders together it grants only as much as keeps its link
//! busy.
//!
//! - The message with the fewest remaining bytes goes first (Homa, SIGCOMM 2018, §3.2), the older of two
//!   equal ones.
//! - One grant in [`OLDEST_EVERY`] goes to the oldest message, so that the longest is not starved.
//! - Several senders have grants at a time.
//! - A sender may leave its grants unused for a while, because it computes. Such a sender gets no more grants
//!   until some of the granted data arrives. Meanwhile its grants do not count, so it cannot keep the other
//!   senders waiting.
//!
//! A lone sender is limited by the congestion window of its flow alone (`flow`). Its messages get a larger
//! allowance, in larger pieces, in the order in which receives have taken them.
//!
//! The data that a far sender has been granted stays on its way for long, and fills no buffer at this end
//! meanwhile. So a far sender is granted more bytes, *ahead*: twice the bytes that have come from it in a
//! recent round trip. One half is what its path holds; the other half lets the rate grow (after Dynamic
//! Right-Sizing, Fisk and Feng 2001). Grants hold no memory at the receiver. A sender can inflate only the
//! grants for its own data, and being granted all of it would do no harm.

use crate::time::{Duration, Instant};
use weft_ordered::{Map, Set};

/// Bytes of one grant while several senders compete: two trains of packets. A smaller grant would wake a
/// sender that shares its processor too often.
pub const PIECE: u64 = 128 << 10;
/// Bytes granted and under way over all senders while several compete: one to two bandwidth-delay products of
/// fast links.
pub const UNDER_WAY_MAX: u64 = 512 << 10;
/// Bytes of one message among them.
pub const MESSAGE_UNDER_WAY_MAX: u64 = 256 << 10;
/// The time after which grants stop counting when none of their data has come.
pub const STALL: Duration = Duration::from_millis(1);
/// Bytes of one grant to the only sender.
pub const LONE_PIECE: u64 = 4 << 20;
/// Bytes granted and under way to the only sender.
pub const LONE_UNDER_WAY_MAX: u64 = 8 << 20;
/// The shortest round trip, over an empty path, of a far sender.
pub const FAR: Duration = crate::flow::FAR;
/// Bytes granted ahead to one far sender at most.
pub const AHEAD_MAX: u64 = 512 << 20;
/// The number of grants of which one goes to the oldest message, however long it is.
pub const OLDEST_EVERY: u32 = 8;

const _: () =
    assert!(PIECE <= UNDER_WAY_MAX && LONE_PIECE <= LONE_UNDER_WAY_MAX && UNDER_WAY_MAX <= LONE_UNDER_WAY_MAX);

/// Permission to send a message up to some byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The name given to `submit`.
    pub name: u32,
    /// The end of the permission: one past the last byte that the sender may send.
    pub limit: u64,
}

/// An announced message that a receive has taken.
#[derive(Clone, Copy, Debug)]
struct Announced {
    sender: u32,
    /// Place in the order of submission.
    age: u64,
    total: u64,
    granted: u64,
    arrived: u64,
    /// The time of the last grant or arrival.
    moved_at: Instant,
    /// The message has stalled: its bytes under way do not count.
    stalled: bool,
    /// Bytes under way that are not counted, because they are on a long path.
    ahead: u64,
}

/// The recent arrivals from a far sender.
#[derive(Clone, Copy, Debug)]
struct FarSender {
    /// Beginning of the span that is being measured.
    since: Instant,
    /// Bytes that have arrived since then.
    arrived: u64,
    /// Bytes that come in a round trip.
    product: u64,
}

impl FarSender {
    /// Notes bytes that have come from the sender over a path with this round trip.
    fn receive(&mut self, now: Instant, bytes: u64, round_trip: Duration) {
        self.arrived = self.arrived.saturating_add(bytes);
        let span = now.since(self.since).0;
        if span >= round_trip.0 {
            // Saturating: a value that is too large exceeds `AHEAD_MAX`, too.
            let product = self.arrived.saturating_mul(round_trip.0) / span.max(1);
            // After a pause the sender goes on nearly as before.
            self.product = product.max(self.product - self.product / 8);
            (self.since, self.arrived) = (now, 0);
        }
    }

    /// Bytes granted ahead to the sender.
    fn ahead(&self) -> u64 {
        (2 * self.product.min(AHEAD_MAX)).min(AHEAD_MAX)
    }
}

impl Announced {
    /// Bytes without a grant.
    const fn left(&self) -> u64 {
        self.total - self.granted
    }

    const fn under_way(&self) -> u64 {
        self.granted - self.arrived
    }

    /// The bytes that count against `UNDER_WAY_MAX` while several senders compete. Bytes beyond a message's
    /// own share, granted when its sender was the only one, do not keep the other senders waiting.
    fn counted(&self) -> u64 {
        if self.stalled { 0 } else { self.under_way().saturating_sub(self.ahead).min(MESSAGE_UNDER_WAY_MAX) }
    }

    fn grant(&mut self, now: Instant, bytes: u64) {
        self.granted += bytes;
        self.moved_at = now;
        self.stalled = false;
    }

    /// Notes that granted bytes have arrived.
    fn receive(&mut self, now: Instant, bytes: u64) {
        self.arrived += bytes.min(self.under_way());
        self.moved_at = now;
        self.stalled = false;
    }

    /// Returns whether bytes of the message are under way, as far as is known.
    const fn is_moving(&self) -> bool {
        !self.stalled && self.under_way() > 0
    }

    /// Returns whether the message may get another grant while several senders compete. A stalled message has
    /// grants that its sender does not use.
    const fn is_ready(&self) -> bool {
        !self.stalled && self.left() > 0 && self.under_way() + PIECE <= MESSAGE_UNDER_WAY_MAX + self.ahead
    }
}

/// The grants of one process, over all its peers. Calls cost O(log messages).
#[derive(Debug, Default)]
pub struct Grants {
    /// The only message, as long as no second one has come: it needs no books.
    only: Option<(u32, Announced)>,
    /// The messages in the books, by name.
    messages: Map<u32, Announced>,
    /// The number of messages of each sender that has any.
    senders: Map<u32, u32>,
    /// Senders that are far, as long as they are known: one entry for each at most.
    far: Map<u32, FarSender>,
    /// The messages that may get grants while senders compete: (bytes without a grant, age, name).
    by_need: Set<(u64, u64, u32)>,
    /// The messages that have bytes without a grant: (age, name).
    by_age: Set<(u64, u32)>,
    /// The messages that have bytes under way and do not stall: few, however many messages wait.
    moving: Set<u32>,
    /// Bytes granted and not arrived, as far as they count while senders compete.
    under_way: u64,
    /// All bytes that are granted and have not arrived.
    outstanding: u64,
    /// The time to look for stalled messages; set while a message waits for a grant.
    look_at: Option<Instant>,
    next_age: u64,
    /// Grants since the last one to the oldest message.
    turn: u32,
    /// Grants given.
    pub granted: u64,
    /// Times a message had to wait for the bytes under way.
    pub held_back: u64,
}

impl Grants {
    /// Begins without any announced message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an announced message of `total` bytes of `sender` that a receive has taken. `name` is not in use,
    /// and no byte of the message is under way yet.
    pub fn submit(&mut self, name: u32, sender: u32, total: u64) {
        if total == 0 {
            return;
        }
        let age = self.next_age;
        self.next_age += 1;
        let moved_at = Instant(0);
        let mut message = Announced { sender, age, total, granted: 0, arrived: 0, moved_at, stalled: false, ahead: 0 };
        message.ahead = self.ahead_of(sender, 1);
        if self.is_empty() {
            self.only = Some((name, message));
            // The only message waits for no other.
            self.look_at = None;
            return;
        }
        if let Some((first, only)) = self.only.take() {
            self.enter(first, only);
        }
        self.enter(name, message);
    }

    /// Enters a message that is new to the books.
    fn enter(&mut self, name: u32, message: Announced) {
        assert!(!self.messages.contains_key(&name), "a message is submitted for grants twice");
        *self.senders.entry(message.sender).or_default() += 1;
        self.insert(name, message);
    }

    /// Takes a message out of all books.
    fn remove(&mut self, name: u32) -> Option<Announced> {
        let message = self.messages.remove(&name)?;
        self.by_need.remove(&(message.left(), message.age, name));
        self.by_age.remove(&(message.age, name));
        self.moving.remove(&name);
        self.under_way -= message.counted();
        self.outstanding -= message.under_way();
        Some(message)
    }

    /// Enters a message in the books, as it stands now.
    fn insert(&mut self, name: u32, message: Announced) {
        if message.is_ready() {
            self.by_need.insert((message.left(), message.age, name));
        }
        if message.left() > 0 {
            self.by_age.insert((message.age, name));
        }
        if message.is_moving() {
            self.moving.insert(name);
        }
        self.under_way += message.counted();
        self.outstanding += message.under_way();
        self.messages.insert(name, message);
    }

    /// Counts one message less of `sender`.
    fn leave(&mut self, sender: u32) {
        if let Some(count) = self.senders.get_mut(&sender) {
            *count -= 1;
            if *count == 0 {
                self.senders.remove(&sender);
            }
        }
    }

    /// Bytes granted ahead to each of the sender's messages, when it has this many.
    fn ahead_of(&self, sender: u32, messages: u32) -> u64 {
        if self.far.is_empty() {
            return 0;
        }
        self.far.get(&sender).map_or(0, FarSender::ahead) / u64::from(messages.max(1))
    }

    /// Forgets that the sender of a message was far: it is not, or no more.
    fn forget_far(&mut self, name: u32) {
        let only = self.only.as_mut().filter(|(only, _)| *only == name).map(|(_, message)| message);
        if let Some(message) = only {
            message.ahead = 0;
            self.far.remove(&message.sender);
        } else if let Some(mut message) = self.remove(name) {
            message.ahead = 0;
            self.far.remove(&message.sender);
            self.insert(name, message);
        }
    }

    /// Notes bytes that have come from a far sender with this round trip.
    fn note_far(&mut self, now: Instant, sender: u32, bytes: u64, round_trip: Duration) {
        let first = FarSender { since: now, arrived: 0, product: 0 };
        self.far.entry(sender).or_insert(first).receive(now, bytes, round_trip);
    }

    /// Notes that `bytes` more of a message have arrived. An unknown name, or bytes beyond those granted,
    /// change nothing. `round_trip` is the shortest to the sender, if known.
    pub fn arrived(&mut self, now: Instant, name: u32, bytes: u64, round_trip: Option<Duration>) {
        let far = round_trip.filter(|round_trip| *round_trip >= FAR);
        if !self.far.is_empty() && round_trip.is_some() && far.is_none() {
            self.forget_far(name);
        }
        if let Some((only, message)) = &mut self.only {
            if *only != name {
                return;
            }
            message.receive(now, bytes);
            let (sender, is_over) = (message.sender, message.arrived == message.total);
            if let Some(round_trip) = far {
                self.note_far(now, sender, bytes, round_trip);
                let ahead = self.ahead_of(sender, 1);
                if let Some((_, message)) = &mut self.only {
                    message.ahead = ahead;
                }
            }
            if is_over {
                self.only = None;
            }
            return;
        }
        let Some(mut message) = self.remove(name) else { return };
        message.receive(now, bytes);
        if let Some(round_trip) = far {
            self.note_far(now, message.sender, bytes, round_trip);
            let messages = self.senders.get(&message.sender).copied().unwrap_or(1);
            message.ahead = self.ahead_of(message.sender, messages);
        }
        if message.arrived < message.total {
            self.insert(name, message);
        } else {
            self.leave(message.sender);
        }
    }

    /// Ends a message: all of it has come, its sender is gone, or it was taken back. An unknown name changes
    /// nothing.
    pub fn cancel(&mut self, name: u32) {
        let only = self.only.take_if(|(only, _)| *only == name).map(|(_, message)| message);
        let message = only.or_else(|| {
            let message = self.remove(name)?;
            self.leave(message.sender);
            Some(message)
        });
        // As a rule the rest of the message has come.
        if let Some(message) = message.filter(|_| !self.far.is_empty())
            && let Some(far) = self.far.get_mut(&message.sender)
        {
            far.arrived = far.arrived.saturating_add(message.under_way());
        }
    }

    /// Returns the next grant to give. The caller repeats it until `None` after every other call, and at
    /// `next_timeout`.
    pub fn poll(&mut self, now: Instant) -> Option<Grant> {
        if let Some((name, message)) = &mut self.only {
            let bytes = message.left().min(LONE_PIECE);
            if bytes == 0 || message.under_way() + bytes > LONE_UNDER_WAY_MAX + message.ahead {
                return None;
            }
            message.grant(now, bytes);
            self.granted += 1;
            return Some(Grant { name: *name, limit: message.granted });
        }
        if self.look_at.is_some_and(|at| at <= now) {
            self.set_aside_stalled(now);
            self.look_at = None;
        }
        let oldest = self.by_age.first()?.1;
        let lone = self.senders.len() == 1;
        let name = if lone || (self.turn + 1 >= OLDEST_EVERY && self.messages[&oldest].is_ready()) {
            oldest
        } else {
            self.by_need.first()?.2
        };
        let (piece, most, under_way) = if lone {
            let sender = self.messages[&oldest].sender;
            (LONE_PIECE, LONE_UNDER_WAY_MAX + self.ahead_of(sender, 1), self.outstanding)
        } else {
            (PIECE, UNDER_WAY_MAX, self.under_way)
        };
        let bytes = self.messages[&name].left().min(piece);
        // Some bytes are always under way, whatever the sizes.
        if under_way > 0 && under_way + bytes > most {
            self.held_back += u64::from(self.look_at.is_none());
            self.look_at.get_or_insert(now + STALL);
            return None;
        }
        let mut message = self.remove(name)?;
        message.grant(now, bytes);
        self.insert(name, message);
        self.granted += 1;
        self.look_at = None;
        self.turn = (self.turn + 1) % OLDEST_EVERY;
        Some(Grant { name, limit: message.granted })
    }

    /// The time to call `poll` though nothing arrives; `None` when no message waits for time to pass.
    pub const fn next_timeout(&self) -> Option<Instant> {
        self.look_at
    }

    fn set_aside_stalled(&mut self, now: Instant) {
        let Self { messages, moving, by_need, under_way, .. } = self;
        moving.retain(|name| {
            let Some(message) = messages.get_mut(name).filter(|message| message.moved_at + STALL <= now) else {
                return true;
            };
            *under_way -= message.counted();
            by_need.remove(&(message.left(), message.age, *name));
            message.stalled = true;
            false
        });
    }

    /// Bytes granted that have not arrived and are expected soon, as far as they count while senders compete.
    /// After a grant they are at most `UNDER_WAY_MAX`. The bytes of a stalled message count again, beyond
    /// that limit, once some of them arrive.
    pub fn under_way(&self) -> u64 {
        self.under_way + self.only.as_ref().map_or(0, |(_, only)| only.counted())
    }

    /// Messages that have not arrived completely.
    pub fn messages(&self) -> usize {
        self.messages.len() + usize::from(self.only.is_some())
    }

    /// Returns whether a message has bytes without a grant, so that news of arrivals matters.
    pub fn has_waiting(&self) -> bool {
        !self.by_age.is_empty() || self.only.as_ref().is_some_and(|(_, only)| only.left() > 0)
    }

    /// Returns whether no message is announced.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.only.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const NOW: Instant = Instant(5);

    fn all(grants: &mut Grants) -> Vec<Grant> {
        core::iter::from_fn(|| grants.poll(NOW)).collect()
    }

    #[test]
    fn a_lone_sender_is_granted_at_once_and_far_ahead() {
        let mut grants = Grants::new();
        grants.submit(7, 0, 3 << 20);
        assert_eq!(all(&mut grants), [Grant { name: 7, limit: 3 << 20 }]);
        grants.arrived(NOW, 7, 3 << 20, None);
        assert_eq!((grants.under_way(), grants.messages()), (0, 0));
        // A longer one gets the next piece while the one before is still arriving.
        grants.submit(8, 0, 1 << 30);
        assert_eq!(all(&mut grants), [4 << 20, 8 << 20].map(|limit| Grant { name: 8, limit }));
        grants.arrived(NOW, 8, 4 << 20, None);
        assert_eq!(all(&mut grants), [Grant { name: 8, limit: 12 << 20 }]);
    }

    #[test]
    fn the_messages_of_a_lone_sender_go_in_their_order() {
        let mut grants = Grants::new();
        for (name, total) in [(1, 6 << 20), (2, 1 << 20), (3, 2 << 20)] {
            grants.submit(name, 9, total);
        }
        let given: Vec<_> = all(&mut grants).iter().map(|grant| (grant.name, grant.limit)).collect();
        assert_eq!(given, [(1, 4 << 20), (1, 6 << 20), (2, 1 << 20)]);
        grants.arrived(NOW, 1, 2 << 20, None);
        assert_eq!(all(&mut grants), [Grant { name: 3, limit: 2 << 20 }]);
    }

    #[test]
    fn what_a_sender_got_while_it_was_alone_keeps_nobody_waiting() {
        let mut grants = Grants::new();
        grants.submit(1, 1, 100 << 20);
        all(&mut grants);
        // A short message of another sender comes while 8 MiB are under way.   Expect: it is granted at once.
        grants.submit(2, 2, 2 * PIECE);
        assert_eq!(all(&mut grants).last(), Some(&Grant { name: 2, limit: 2 * PIECE }));
        assert_eq!(grants.under_way(), 2 * MESSAGE_UNDER_WAY_MAX);
        grants.arrived(NOW, 1, 4 << 20, None);
        assert_eq!(grants.under_way(), 2 * MESSAGE_UNDER_WAY_MAX, "the first has its share still");
        grants.arrived(NOW, 2, 2 * PIECE, None);
        // Alone again: the next piece, and not more than that.
        assert_eq!(all(&mut grants), [Grant { name: 1, limit: 12 << 20 }]);
    }

    #[test]
    fn who_is_alone_again_waits_for_no_time_to_pass() {
        let mut grants = Grants::new();
        (1..6).for_each(|name| grants.submit(name, name, 1 << 20));
        all(&mut grants);
        assert!(grants.next_timeout().is_some(), "the third waits");
        (1..6).for_each(|name| grants.cancel(name));
        grants.submit(6, 6, 1 << 20);
        assert_eq!((all(&mut grants).len(), grants.next_timeout()), (1, None));
        assert!(!grants.has_waiting() && !grants.is_empty());
        grants.cancel(6);
        assert!(grants.is_empty());
    }

    #[test]
    fn some_of_many_share_what_may_be_under_way() {
        let mut grants = Grants::new();
        for name in 0..256 {
            grants.submit(name, name, 1 << 20);
        }
        let first = all(&mut grants);
        assert_eq!((first.len() as u64, grants.under_way()), (UNDER_WAY_MAX / PIECE, UNDER_WAY_MAX));
        let names: Vec<_> = first.iter().map(|grant| grant.name).collect();
        assert_eq!(names, [0, 0, 1, 1]);
        // The first goes on until it is complete.
        grants.arrived(NOW, 0, PIECE, None);
        assert_eq!(all(&mut grants), [Grant { name: 0, limit: 3 * PIECE }]);
    }

    #[test]
    fn the_shortest_goes_first_and_the_oldest_is_not_forgotten() {
        let mut grants = Grants::new();
        grants.submit(1, 1, 100 << 20);
        all(&mut grants);
        grants.arrived(NOW, 1, LONE_UNDER_WAY_MAX, None);
        for name in 2..100 {
            grants.submit(name, name, 8 * PIECE);
        }
        let mut given = vec![0; 100];
        for _ in 0..160 {
            let Some(Grant { name, .. }) = grants.poll(NOW) else { panic!("nothing is under way") };
            given[name as usize] += 1;
            grants.arrived(NOW, name, PIECE, None);
        }
        // One grant in eight went to the long message; the short ones were served one after the other.
        assert_eq!((given[1], given[2], given[18], given[99]), (20, 8, 8, 0));
    }

    #[test]
    fn senders_that_compute_do_not_keep_the_others_waiting() {
        let mut grants = Grants::new();
        for name in 0..8 {
            grants.submit(name, name, 1 << 20);
        }
        assert_eq!(all(&mut grants).last().map(|grant| grant.name), Some(1));
        let at = grants.next_timeout().expect("somebody waits");
        assert_eq!(grants.poll(Instant(at.0 - 1)), None);
        assert_eq!(grants.next_timeout(), Some(at), "looking does not put it off");
        assert_eq!(grants.poll(at).map(|grant| grant.name), Some(2));
        // One stalled sender goes on.   Expect: its bytes under way count again.
        let before = grants.under_way();
        grants.arrived(at, 0, 1, None);
        assert_eq!(grants.under_way(), before + MESSAGE_UNDER_WAY_MAX - 1);
    }

    #[test]
    fn who_does_not_use_its_grants_gets_no_more_until_it_does() {
        let mut grants = Grants::new();
        (1..4).for_each(|name| grants.submit(name, name, PIECE));
        (4..6).for_each(|name| grants.submit(name, name, 1 << 20));
        assert_eq!(all(&mut grants).iter().map(|grant| grant.name).collect::<Vec<_>>(), [1, 2, 3, 4]);
        // No byte of the four arrives.   Expect: their share goes to the fifth, which has no grant yet.
        let at = grants.next_timeout().expect("two wait");
        assert_eq!(grants.poll(at), Some(Grant { name: 5, limit: PIECE }));
        assert_eq!(grants.poll(at), Some(Grant { name: 5, limit: 2 * PIECE }));
        assert_eq!((grants.poll(at), grants.under_way()), (None, 2 * PIECE));
        grants.arrived(at, 4, 1, None);
        assert_eq!(grants.poll(at), Some(Grant { name: 4, limit: 2 * PIECE }));
        assert_eq!((grants.poll(at), grants.under_way()), (None, UNDER_WAY_MAX - 1));
    }

    #[test]
    fn what_is_cancelled_frees_its_share() {
        let mut grants = Grants::new();
        for name in 1..6 {
            grants.submit(name, name, 1 << 20);
        }
        all(&mut grants);
        assert_eq!(grants.under_way(), UNDER_WAY_MAX);
        (1..5).for_each(|name| grants.cancel(name));
        assert_eq!(grants.under_way(), 0);
        assert_eq!(all(&mut grants), [Grant { name: 5, limit: 1 << 20 }]);
        // Report more bytes than there are, and bytes of an unknown message.   Expect: no change.
        grants.arrived(NOW, 5, 1 << 40, None);
        grants.arrived(NOW, 1, 5, None);
        assert_eq!((grants.under_way(), grants.messages()), (0, 0));
    }

    #[test]
    fn a_far_sender_is_granted_ahead_what_its_path_holds_and_a_near_one_is_not() {
        let (far, near) = (Duration::from_millis(20), Duration::from_micros(20));
        // Bytes that come in a millisecond.
        let most = 1_000_000;
        let play = |round_trip: Duration| {
            let mut grants = Grants::new();
            grants.submit(1, 1, 1 << 40);
            // The granted bytes come a round trip later, as fast as the link carries them.
            let (mut granted, mut arrived) = (Vec::new(), 0);
            for ms in 0..2_000 {
                let now = Instant(1 + ms * 1_000_000);
                granted.extend(core::iter::from_fn(|| grants.poll(now)).map(|grant| (now + round_trip, grant.limit)));
                let limit = granted.iter().filter(|(at, _)| *at <= now).map(|(_, limit)| *limit).max().unwrap_or(0);
                let bytes = (limit - arrived).min(most);
                arrived += bytes;
                grants.arrived(now, 1, bytes, Some(round_trip));
            }
            let limit = granted.iter().map(|(_, limit)| *limit).max().unwrap_or(0);
            (arrived, limit - arrived)
        };
        let (arrived, ahead) = play(far);
        assert!(arrived > 2_000 * most / 100 * 97, "{arrived}");
        assert!((20 * most..=LONE_UNDER_WAY_MAX + 42 * most).contains(&ahead), "{ahead}");
        assert!(play(near).1 <= LONE_UNDER_WAY_MAX);
    }

    #[test]
    fn far_and_near_senders_compete_and_what_is_on_a_long_path_keeps_no_near_one_waiting() {
        let far = Some(Duration::from_millis(10));
        let mut grants = Grants::new();
        grants.submit(1, 1, 1 << 40);
        for ms in 0..100 {
            let now = Instant(1 + ms * 1_000_000);
            let _ = core::iter::from_fn(|| grants.poll(now)).count();
            grants.arrived(now, 1, 1_000_000, far);
        }
        let now = Instant(101_000_000);
        let _ = core::iter::from_fn(|| grants.poll(now)).count();
        grants.submit(2, 2, 4 * PIECE);
        let given: Vec<_> = core::iter::from_fn(|| grants.poll(now)).map(|grant| grant.name).collect();
        assert!(given.contains(&2), "{given:?}");
        // A near peer has taken the number of the far one.   Expect: it has no bytes ahead.
        grants.arrived(now, 1, 1, Some(Duration::from_micros(10)));
        assert!(grants.far.is_empty() && grants.messages[&1].ahead == 0);
    }

    #[test]
    fn a_sender_that_says_much_has_come_is_granted_no_more_than_the_most() {
        let far = Some(Duration::from_secs(1));
        let mut grants = Grants::new();
        grants.submit(1, 1, u64::MAX);
        for s in 0..100 {
            let now = Instant(1 + s * 1_000_000_000);
            let _ = core::iter::from_fn(|| grants.poll(now)).count();
            let under_way = grants.only.as_ref().map_or(0, |(_, message)| message.under_way());
            assert!(under_way <= LONE_UNDER_WAY_MAX + AHEAD_MAX, "{under_way}");
            grants.arrived(now, 1, u64::MAX, far);
        }
    }

    proptest! {
        #[test]
        fn everything_is_granted_once_and_never_too_much_at_a_time(
            messages in prop::collection::vec((1u64..3_000_000, 0u32..8), 1..40),
            arrivals in prop::collection::vec((any::<prop::sample::Index>(), 1u64..200_000), 0..400),
        ) {
            let mut grants = Grants::new();
            let (sizes, senders): (Vec<u64>, Vec<u32>) = messages.into_iter().unzip();
            let mut granted = vec![0; sizes.len()];
            let mut arrived = vec![0; sizes.len()];
            for (name, (size, sender)) in sizes.iter().zip(&senders).enumerate() {
                grants.submit(name as u32, *sender, *size);
            }
            let mut arrivals = arrivals.into_iter();
            for _ in 0..100_000 {
                for Grant { name, limit } in all(&mut grants) {
                    prop_assert!(limit > granted[name as usize] && limit <= sizes[name as usize]);
                    granted[name as usize] = limit;
                }
                let each = || granted.iter().zip(&arrived).map(|(g, a)| g - a);
                let under_way: u64 = each().sum();
                prop_assert_eq!(each().map(|one| one.min(MESSAGE_UNDER_WAY_MAX)).sum::<u64>(), grants.under_way());
                let open: Set<u32> =
                    (0..sizes.len()).filter(|&i| arrived[i] < sizes[i]).map(|i| senders[i]).collect();
                // The last sender is alone, and gets a larger allowance.
                let most = if open.len() > 1 { UNDER_WAY_MAX } else { LONE_UNDER_WAY_MAX };
                prop_assert!(under_way <= most);
                if grants.messages() == 0 {
                    break;
                }
                prop_assert!(under_way > 0, "messages wait and nothing is under way");
                let (index, bytes) = arrivals.next().map_or((0, u64::MAX), |(index, bytes)| (index.index(sizes.len()), bytes));
                let open = (0..sizes.len()).map(|i| (i + index) % sizes.len()).find(|&i| granted[i] > arrived[i]);
                let name = open.expect("something is under way");
                let bytes = bytes.min(granted[name] - arrived[name]);
                arrived[name] += bytes;
                grants.arrived(NOW, name as u32, bytes, None);
            }
            prop_assert_eq!(arrived, sizes);
        }
    }
}
