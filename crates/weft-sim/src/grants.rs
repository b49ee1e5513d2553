//! The announced transfers of one process. `weft_core::grants` decides which of them may send how much; this
//! module translates the names of `weft_core::grants` into those of peers and regions.

use std::collections::HashMap;
use std::ops::Range;
use weft_core::grants::Grants;
use weft_core::time::{Duration, Instant};

/// A control message, which travels beside the workload's own messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The sender has this region of bulk data.
    Announce(u32),
    /// The receiver wants these bytes of a region.
    Grant(u32, Range<u64>),
}

#[derive(Debug)]
struct Announced {
    peer: usize,
    region: u32,
    granted: u64,
    left: u64,
}

/// The grants that one process has made and has still to make.
#[derive(Debug, Default)]
pub(crate) struct Granting {
    grants: Grants,
    /// The announced transfers by name.
    announced: HashMap<u32, Announced>,
    /// The names of transfers by peer and region.
    names: HashMap<(usize, u32), u32>,
    next_name: u32,
}

impl Granting {
    /// Notes that a peer has announced a region of `bytes` bytes.
    pub(crate) fn announced(&mut self, peer: usize, region: u32, bytes: u64) {
        let name = self.next_name;
        self.next_name += 1;
        self.grants.submit(name, peer as u32, bytes);
        self.announced.insert(name, Announced { peer, region, granted: 0, left: bytes });
        self.names.insert((peer, region), name);
    }

    /// Notes that `bytes` granted bytes of a region have arrived.
    pub(crate) fn arrived(&mut self, now: Instant, peer: usize, region: u32, bytes: u64, round_trip: Option<Duration>) {
        let Some(&name) = self.names.get(&(peer, region)) else { return };
        self.grants.arrived(now, name, bytes, round_trip);
        let Some(announced) = self.announced.get_mut(&name) else { return };
        announced.left = announced.left.saturating_sub(bytes);
        if announced.left == 0 {
            self.announced.remove(&name);
            self.names.remove(&(peer, region));
        }
    }

    /// The next grant, and the peer to which it goes.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<(usize, Control)> {
        let grant = self.grants.poll(now)?;
        let announced = self.announced.get_mut(&grant.name).expect("only what was announced is granted");
        let range = announced.granted..grant.limit;
        announced.granted = grant.limit;
        Some((announced.peer, Control::Grant(announced.region, range)))
    }

    /// The time of the next poll if nothing arrives before.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.grants.next_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::grants::PIECE;

    #[test]
    fn grants_name_the_peer_the_region_and_what_follows_what_was_granted() {
        let mut granting = Granting::default();
        let now = Instant(1);
        granting.announced(7, 3, 2 * PIECE);
        granting.announced(8, 0, 100 * PIECE);
        let grants: Vec<_> = std::iter::from_fn(|| granting.poll(now)).collect();
        let mut of_seven = grants.iter().filter(|(peer, _)| *peer == 7).map(|(_, grant)| grant.clone());
        assert_eq!(of_seven.next(), Some(Control::Grant(3, 0..PIECE)));
        assert_eq!(of_seven.next(), Some(Control::Grant(3, PIECE..2 * PIECE)));
        granting.arrived(now, 7, 3, 2 * PIECE, None);
        assert_eq!((granting.names.len(), granting.announced.len()), (1, 1));
    }
}
