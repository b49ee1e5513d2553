//! Which announced message may send how much: the receiver's cure for incast.
//!
//! Many senders that answer one receiver fill the switch in front of it, and most of what they send is lost. Here the receiver
//! decides: over all senders together only so much is granted and under way as keeps its link busy. Who needs least to
//! finish goes first (Homa, SIGCOMM 2018, §3.2), the older of two equals, and one grant in some goes to the oldest, so
//! that the longest is not starved. Several senders have grants at a time, and one that does not use them for a while (it
//! computes) no longer counts: it cannot keep the others waiting.
//!
//! A lone sender is not held back: its window (`flow`) is enough, so it gets a larger allowance in larger pieces.

use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet};

/// Bytes of one grant while several messages compete: one train of packets.
pub const PIECE: u64 = 64 << 10;
/// Bytes granted and under way over all senders while several compete: one to two bandwidth-delay products of fast links.
pub const UNDER_WAY_MAX: u64 = 512 << 10;
/// Of those, bytes of one message.
pub const MESSAGE_UNDER_WAY_MAX: u64 = 128 << 10;
/// Grants of which nothing has come for so long no longer count.
pub const STALL: Duration = Duration::from_millis(1);
/// Bytes of one grant to the only message.
pub const LONE_PIECE: u64 = 4 << 20;
/// Bytes granted and under way to the only message.
pub const LONE_UNDER_WAY_MAX: u64 = 8 << 20;
/// One grant of so many goes to the oldest message, however long it is.
pub const OLDEST_EVERY: u32 = 8;

const _: () =
    assert!(PIECE <= UNDER_WAY_MAX && LONE_PIECE <= LONE_UNDER_WAY_MAX && UNDER_WAY_MAX <= LONE_UNDER_WAY_MAX);

/// Permission to send a message up to some byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The name given to `submit`.
    pub name: u32,
    /// One past the last byte that may be sent.
    pub limit: u64,
}

/// An announced message that a receive has taken.
#[derive(Debug)]
struct Announced {
    /// Place in the order of submission.
    age: u64,
    total: u64,
    granted: u64,
    arrived: u64,
    /// When it was granted or arrived last.
    moved_at: Instant,
    /// What is under way of it does not count.
    stalled: bool,
}

impl Announced {
    /// Bytes without a grant.
    const fn left(&self) -> u64 {
        self.total - self.granted
    }

    const fn under_way(&self) -> u64 {
        self.granted - self.arrived
    }

    const fn counted(&self) -> u64 {
        if self.stalled { 0 } else { self.under_way() }
    }

    /// It may get another grant while others compete.
    const fn is_ready(&self) -> bool {
        self.left() > 0 && self.under_way() + PIECE <= MESSAGE_UNDER_WAY_MAX
    }
}

/// The grants of one process, over all its peers. Calls cost O(log messages).
#[derive(Debug, Default)]
pub struct Grants {
    messages: BTreeMap<u32, Announced>,
    /// Those that may get grants: (bytes without a grant, age, name).
    by_need: BTreeSet<(u64, u64, u32)>,
    by_age: BTreeSet<(u64, u32)>,
    /// Granted and not arrived, what is stalled left out.
    under_way: u64,
    /// When to look for what is stalled; something waits for it.
    look_at: Option<Instant>,
    next_age: u64,
    /// Grants since one went to the oldest.
    turn: u32,
    /// Grants given.
    pub granted: u64,
    /// Times something had to wait for what was under way.
    pub held_back: u64,
}

impl Grants {
    /// Nothing announced.
    pub fn new() -> Self {
        Self::default()
    }

    /// A receive has taken an announced message of `total` bytes; `name` is not in use. Nothing is under way of it yet.
    pub fn submit(&mut self, name: u32, total: u64) {
        if total == 0 {
            return;
        }
        let age = self.next_age;
        self.next_age += 1;
        let message = Announced { age, total, granted: 0, arrived: 0, moved_at: Instant(0), stalled: false };
        self.enlist(name, &message, true);
        let before = self.messages.insert(name, message);
        assert!(before.is_none(), "a message is submitted for grants twice");
    }

    fn enlist(&mut self, name: u32, message: &Announced, ready: bool) {
        let (need, age) = ((message.left(), message.age, name), (message.age, name));
        if ready {
            self.by_need.insert(need);
            self.by_age.insert(age);
        } else {
            self.by_need.remove(&need);
            self.by_age.remove(&age);
        }
    }

    /// So many more bytes of a message have arrived; a name that is not known, or more than was granted, changes nothing.
    pub fn arrived(&mut self, now: Instant, name: u32, bytes: u64) {
        let Some(mut message) = self.messages.remove(&name) else { return };
        let bytes = bytes.min(message.under_way());
        self.under_way -= message.counted();
        message.arrived += bytes;
        message.moved_at = now;
        message.stalled = false;
        self.under_way += message.counted();
        if message.arrived < message.total {
            if message.is_ready() {
                self.enlist(name, &message, true);
            }
            self.messages.insert(name, message);
        }
    }

    /// The message will not come: its sender is gone, or it was taken back.
    pub fn cancel(&mut self, name: u32) {
        let Some(message) = self.messages.remove(&name) else { return };
        self.under_way -= message.counted();
        self.enlist(name, &message, false);
    }

    /// The next grant that should be given; to be called until `None` after every other call, and at `next_timeout`.
    pub fn poll(&mut self, now: Instant) -> Option<Grant> {
        if self.look_at.is_some_and(|at| at <= now) {
            self.set_aside_stalled(now);
            self.look_at = None;
        }
        let lone = self.messages.len() == 1;
        let name = match (self.by_need.first(), self.by_age.first()) {
            _ if lone => *self.messages.first_key_value()?.0,
            (_, Some(&(_, oldest))) if self.turn + 1 >= OLDEST_EVERY => oldest,
            (Some(&(_, _, neediest)), _) => neediest,
            _ => return None,
        };
        let mut message = self.messages.remove(&name)?;
        let (piece, most) = if lone { (LONE_PIECE, LONE_UNDER_WAY_MAX) } else { (PIECE, UNDER_WAY_MAX) };
        let bytes = message.left().min(piece);
        // Something is always under way, whatever the sizes.
        let fits = self.under_way == 0 || self.under_way + bytes <= most;
        if bytes == 0 || !fits {
            self.messages.insert(name, message);
            if bytes > 0 {
                self.held_back += u64::from(self.look_at.is_none());
                self.look_at.get_or_insert(now + STALL);
            }
            return None;
        }
        self.enlist(name, &message, false);
        self.under_way -= message.counted();
        message.granted += bytes;
        message.moved_at = now;
        message.stalled = false;
        self.under_way += message.counted();
        let grant = Grant { name, limit: message.granted };
        if message.is_ready() {
            self.enlist(name, &message, true);
        }
        self.messages.insert(name, message);
        self.granted += 1;
        self.look_at = None;
        self.turn = (self.turn + 1) % OLDEST_EVERY;
        Some(grant)
    }

    /// When `poll` should be called though nothing arrives. `None`: nothing waits for time to pass.
    pub const fn next_timeout(&self) -> Option<Instant> {
        self.look_at
    }

    fn set_aside_stalled(&mut self, now: Instant) {
        for message in self.messages.values_mut() {
            if !message.stalled && message.under_way() > 0 && message.moved_at + STALL <= now {
                message.stalled = true;
                self.under_way -= message.under_way();
            }
        }
    }

    /// Bytes granted that have not arrived and are expected soon.
    pub const fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Messages that have not arrived completely.
    pub fn messages(&self) -> usize {
        self.messages.len()
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
    fn a_lone_message_is_granted_at_once_and_far_ahead() {
        let mut grants = Grants::new();
        grants.submit(7, 3 << 20);
        assert_eq!(all(&mut grants), [Grant { name: 7, limit: 3 << 20 }]);
        grants.arrived(NOW, 7, 3 << 20);
        assert_eq!((grants.under_way(), grants.messages()), (0, 0));
        // A longer one gets the next piece while the one before is still arriving.
        grants.submit(8, 1 << 30);
        assert_eq!(all(&mut grants), [4 << 20, 8 << 20].map(|limit| Grant { name: 8, limit }));
        grants.arrived(NOW, 8, 4 << 20);
        assert_eq!(all(&mut grants), [Grant { name: 8, limit: 12 << 20 }]);
    }

    #[test]
    fn some_of_many_share_what_may_be_under_way() {
        let mut grants = Grants::new();
        for name in 0..256 {
            grants.submit(name, 1 << 20);
        }
        let first = all(&mut grants);
        assert_eq!((first.len(), grants.under_way()), (8, UNDER_WAY_MAX));
        let names: Vec<_> = first.iter().map(|grant| grant.name).collect();
        assert_eq!(names, [0, 0, 1, 1, 2, 2, 3, 3]);
        // The first goes on until it is complete.
        grants.arrived(NOW, 0, PIECE);
        assert_eq!(all(&mut grants), [Grant { name: 0, limit: 3 * PIECE }]);
    }

    #[test]
    fn the_shortest_goes_first_and_the_oldest_is_not_forgotten() {
        let mut grants = Grants::new();
        grants.submit(1, 100 << 20);
        all(&mut grants);
        grants.arrived(NOW, 1, LONE_UNDER_WAY_MAX);
        for name in 2..100 {
            grants.submit(name, 8 * PIECE);
        }
        let mut given = vec![0; 100];
        for _ in 0..160 {
            let Some(Grant { name, .. }) = grants.poll(NOW) else { panic!("nothing is under way") };
            given[name as usize] += 1;
            grants.arrived(NOW, name, PIECE);
        }
        // One in eight went to the long one, and the others were served one after the other.
        assert_eq!((given[1], given[2], given[18], given[99]), (20, 8, 8, 0));
    }

    #[test]
    fn senders_that_compute_do_not_keep_the_others_waiting() {
        let mut grants = Grants::new();
        for name in 0..8 {
            grants.submit(name, 1 << 20);
        }
        assert_eq!(all(&mut grants).len(), 8);
        let at = grants.next_timeout().expect("somebody waits");
        assert_eq!(grants.poll(Instant(at.0 - 1)), None);
        assert_eq!(grants.next_timeout(), Some(at), "looking does not put it off");
        assert_eq!(grants.poll(at).map(|grant| grant.name), Some(4));
        // One of them goes on.   Expect: what is under way of it counts again.
        let before = grants.under_way();
        grants.arrived(at, 0, 1);
        assert_eq!(grants.under_way(), before + MESSAGE_UNDER_WAY_MAX - 1);
    }

    #[test]
    fn what_is_cancelled_frees_its_share() {
        let mut grants = Grants::new();
        for name in 1..6 {
            grants.submit(name, 1 << 20);
        }
        all(&mut grants);
        assert_eq!(grants.under_way(), UNDER_WAY_MAX);
        (1..5).for_each(|name| grants.cancel(name));
        assert_eq!(grants.under_way(), 0);
        assert_eq!(all(&mut grants), [Grant { name: 5, limit: 1 << 20 }]);
        // Receive more than there is, and of what is not known.   Expect: nothing.
        grants.arrived(NOW, 5, 1 << 40);
        grants.arrived(NOW, 1, 5);
        assert_eq!((grants.under_way(), grants.messages()), (0, 0));
    }

    proptest! {
        #[test]
        fn everything_is_granted_once_and_never_too_much_at_a_time(
            sizes in prop::collection::vec(1u64..3_000_000, 1..40),
            arrivals in prop::collection::vec((any::<prop::sample::Index>(), 1u64..200_000), 0..400),
        ) {
            let mut grants = Grants::new();
            let mut granted = vec![0; sizes.len()];
            let mut arrived = vec![0; sizes.len()];
            for (name, size) in sizes.iter().enumerate() {
                grants.submit(name as u32, *size);
            }
            let most = if sizes.len() == 1 { LONE_UNDER_WAY_MAX } else { UNDER_WAY_MAX };
            let mut arrivals = arrivals.into_iter();
            for _ in 0..100_000 {
                for Grant { name, limit } in all(&mut grants) {
                    prop_assert!(limit > granted[name as usize] && limit <= sizes[name as usize]);
                    granted[name as usize] = limit;
                }
                let under_way: u64 = granted.iter().zip(&arrived).map(|(g, a)| g - a).sum();
                prop_assert_eq!(under_way, grants.under_way());
                // The last may be alone, and gets a larger allowance.
                prop_assert!(under_way <= most.max(LONE_UNDER_WAY_MAX * u64::from(grants.messages() <= 1)));
                if grants.messages() == 0 {
                    break;
                }
                prop_assert!(under_way > 0, "messages wait and nothing is under way");
                let (index, bytes) = arrivals.next().map_or((0, u64::MAX), |(index, bytes)| (index.index(sizes.len()), bytes));
                let open = (0..sizes.len()).map(|i| (i + index) % sizes.len()).find(|&i| granted[i] > arrived[i]);
                let name = open.expect("something is under way");
                let bytes = bytes.min(granted[name] - arrived[name]);
                arrived[name] += bytes;
                grants.arrived(NOW, name as u32, bytes);
            }
            prop_assert_eq!(arrived, sizes);
        }
    }
}
