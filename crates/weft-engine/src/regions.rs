//! Memory that a peer may read or write: buffers of receives that wait for data, of sends whose data is under
//! way, and of windows.
//!
//! A region is opened for one peer with one right, and has a key with a generation. The peer names the key in
//! its packets. Every access is checked: the region exists, its generation is the same, it belongs to this
//! peer, the right is granted, and the access stays inside. An access that fails a check touches nothing. The
//! engine counts it by what was wrong with it.
//!
//! The message layer opens and closes regions (`messages/rendezvous.rs`); `engine/network.rs` reads from
//! them, and `engine/placement.rs` registers them with a carrier.

use std::collections::{HashMap, VecDeque};

use crate::carriers::Registered;
use crate::group::PeerId;
use crate::memory::UserData;

/// The bits of a key that are the index; the bits above are the generation.
const INDEX_BITS: u32 = 20;
/// The most regions that may be open at a time.
pub const REGIONS_MAX: usize = 1 << INDEX_BITS;
const GENERATION_MASK: u32 = (1 << (u32::BITS - INDEX_BITS)) - 1;

/// A region's name on the wire.
///
/// The table uses its free indices in turn, and counts a generation for each index, of which there are 4096.
/// No late packet can name a generation that has come round again: the flow has refused the packet's number
/// long before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionKey(u32);

impl RegionKey {
    /// Makes the key that a peer names in a packet.
    pub const fn from_wire(key: u32) -> Self {
        Self(key)
    }

    /// The key as a peer is told it.
    pub const fn wire(self) -> u32 {
        self.0
    }

    fn new(index: usize, generation: u32) -> Self {
        Self(index as u32 | generation << INDEX_BITS)
    }

    fn index(self) -> usize {
        (self.0 & (REGIONS_MAX as u32 - 1)) as usize
    }

    fn generation(self) -> u32 {
        self.0 >> INDEX_BITS
    }
}

/// The purpose of a region, which decides what a peer may do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A receive waits for the data of a message: the peer may write.
    Receive,
    /// The data of a message is under way: it may be read, to be sent to the peer.
    Send,
    /// A window of one-sided operations (MPI-5.0 §12): the peer may do both.
    Window,
}

impl Purpose {
    const fn allows(self, access: AccessKind) -> bool {
        matches!(
            (self, access),
            (Self::Receive, AccessKind::Write)
                | (Self::Send, AccessKind::Read)
                | (Self::Window, AccessKind::Read | AccessKind::Write)
        )
    }
}

/// The kind of an access to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// The bytes of the region are read.
    Read,
    /// The bytes of the region are written.
    Write,
}

/// An open region: memory that one peer may access, and how.
#[derive(Clone)]
pub struct Region {
    /// The peer that may access the region; a window that all members may access is one region for each.
    pub peer: PeerId,
    /// The purpose of the region.
    pub purpose: Purpose,
    /// The memory.
    pub data: UserData,
    /// The number of bytes that may be accessed, from the beginning of the memory on.
    pub length: u64,
    /// The handle of the request that the region belongs to.
    pub owner: usize,
}

/// The reason why an access was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The region has never existed.
    Unknown,
    /// The region has been closed: the packet is late, or repeated.
    Closed,
    /// The region is another peer's.
    NotYours,
    /// The region's purpose does not allow the access.
    NotAllowed,
    /// The access reaches past the end of the region.
    OutOfBounds,
}

impl Refusal {
    /// All reasons, with the names under which they are counted.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Unknown, "region-unknown"),
        (Self::Closed, "region-closed"),
        (Self::NotYours, "region-of-another-peer"),
        (Self::NotAllowed, "region-not-for-that"),
        (Self::OutOfBounds, "region-out-of-bounds"),
    ];
}

struct Entry {
    generation: u32,
    region: Option<Region>,
    /// The registration, if the peer's carrier writes to the region by itself.
    registered: Option<Registered>,
}

/// All regions of this process.
#[derive(Default)]
pub struct Regions {
    entries: Vec<Entry>,
    /// Free indices, the one that has been free for longest first.
    free: VecDeque<u32>,
    /// The regions to which carriers write by themselves.
    by_registration: HashMap<Registered, RegionKey>,
    /// Registrations of closed regions, of which the carrier is still to be told.
    closed: Vec<Registered>,
    refused: [u64; Refusal::ALL.len()],
}

impl Regions {
    /// Opens a region; returns `None` when [`REGIONS_MAX`] are open.
    pub fn open(&mut self, region: Region) -> Option<RegionKey> {
        // An index is used again as late as possible, so that a late packet finds another generation.
        if let Some(index) = self.free.pop_front() {
            let entry = &mut self.entries[index as usize];
            entry.region = Some(region);
            return Some(RegionKey::new(index as usize, entry.generation));
        }
        if self.entries.len() == REGIONS_MAX {
            return None;
        }
        self.entries.push(Entry { generation: 0, region: Some(region), registered: None });
        Some(RegionKey::new(self.entries.len() - 1, 0))
    }

    /// Closes a region: no access by its key succeeds from now on.
    pub fn close(&mut self, key: RegionKey) {
        let Some(entry) = self.entries.get_mut(key.index()) else { return };
        if entry.generation == key.generation() && entry.region.take().is_some() {
            entry.generation = (entry.generation + 1) & GENERATION_MASK;
            if let Some(registered) = entry.registered.take() {
                self.by_registration.remove(&registered);
                self.closed.push(registered);
            }
            self.free.push_back(key.index() as u32);
        }
    }

    /// Has an open region stand for other memory with the same contents.
    pub fn replace(&mut self, key: RegionKey, data: UserData) {
        if let Some(entry) = self.entries.get_mut(key.index()).filter(|entry| entry.generation == key.generation())
            && let Some(region) = &mut entry.region
        {
            region.data = data;
        }
    }

    /// The peers of the open regions, some of them more than once.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> + '_ {
        self.entries.iter().filter_map(|entry| Some(entry.region.as_ref()?.peer))
    }

    /// Notes that the carrier writes to the region of `key` by itself from now on.
    pub fn note_registered(&mut self, key: RegionKey, registered: Registered) {
        match self.entries.get_mut(key.index()).filter(|entry| entry.generation == key.generation()) {
            Some(entry) if entry.region.is_some() => {
                entry.registered = Some(registered);
                self.by_registration.insert(registered, key);
            }
            _ => self.closed.push(registered),
        }
    }

    /// The region to which a carrier writes by this registration.
    pub fn of_registered(&self, registered: Registered) -> Option<RegionKey> {
        self.by_registration.get(&registered).copied()
    }

    /// Returns whether the carrier writes to the region of `key` by itself.
    pub fn is_registered(&self, key: RegionKey) -> bool {
        let entry = self.entries.get(key.index());
        entry.is_some_and(|entry| entry.generation == key.generation() && entry.registered.is_some())
    }

    /// The regions to which the carrier of a peer writes by itself, each with its owner, in the order in
    /// which they were opened.
    pub fn registered_for(&self, peer: PeerId) -> Vec<(RegionKey, usize)> {
        let of_peer = |(index, entry): (usize, &Entry)| {
            let region = entry.region.as_ref().filter(|region| entry.registered.is_some() && region.peer == peer)?;
            Some((RegionKey::new(index, entry.generation), region.owner))
        };
        self.entries.iter().enumerate().filter_map(of_peer).collect()
    }

    /// Takes a registration that is to be ended: its region has been closed.
    #[inline]
    pub fn take_closed(&mut self) -> Option<Registered> {
        self.closed.pop()
    }

    /// The region of `key`, if it is open.
    pub fn get(&self, key: RegionKey) -> Option<&Region> {
        let entry = self.entries.get(key.index())?;
        #[cfg(weft_mutant = "region_used_after_its_generation")]
        return entry.region.as_ref();
        #[cfg(not(weft_mutant = "region_used_after_its_generation"))]
        entry.region.as_ref().filter(|_| entry.generation == key.generation())
    }

    /// Checks an access by `peer` to `length` bytes from `offset` on, and returns the region of `key`.
    ///
    /// # Errors
    /// The reason why the access is refused; it has been counted.
    pub fn access(
        &mut self,
        peer: PeerId,
        key: RegionKey,
        access: AccessKind,
        offset: u64,
        length: u64,
    ) -> Result<&Region, Refusal> {
        let refusal = match self.check(peer, key, access, offset, length) {
            Ok(()) => return self.get(key).ok_or(Refusal::Closed),
            Err(refusal) => refusal,
        };
        self.refused[refusal as usize] += 1;
        Err(refusal)
    }

    fn check(&self, peer: PeerId, key: RegionKey, access: AccessKind, offset: u64, length: u64) -> Result<(), Refusal> {
        if key.index() >= self.entries.len() {
            return Err(Refusal::Unknown);
        }
        let region = self.get(key).ok_or(Refusal::Closed)?;
        if region.peer != peer {
            return Err(Refusal::NotYours);
        }
        if !region.purpose.allows(access) {
            return Err(Refusal::NotAllowed);
        }
        match offset.checked_add(length) {
            Some(end) if end <= region.length => Ok(()),
            _ => Err(Refusal::OutOfBounds),
        }
    }

    /// Reads data of a send that is under way. The data of a closed region has reached its receiver, or its
    /// send has failed: then zeros are read, which nobody looks at.
    pub fn read_for_sending(&self, key: RegionKey, offset: u64, out: &mut [u8]) {
        match self.get(key) {
            Some(region) if region.purpose.allows(AccessKind::Read) => region.data.read(offset, out),
            _ => out.fill(0),
        }
    }

    /// The number of refused accesses, by reason.
    pub fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refusal::ALL.into_iter().map(|(refusal, name)| (name, self.refused[refusal as usize]))
    }

    /// The number of open regions.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Returns whether no region is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(index: usize, purpose: Purpose, length: u64) -> Region {
        Region { peer: PeerId::new(index, 0), purpose, data: UserData::empty(), length, owner: 1 }
    }

    /// Expect: only the peer itself has access, with the granted right, inside the bounds, as long as the
    /// region is open.
    #[test]
    fn every_access_is_checked_and_counted_by_what_is_wrong_with_it() {
        let mut regions = Regions::default();
        let key = regions.open(region(1, Purpose::Receive, 100)).unwrap();
        let (owner, other) = (PeerId::new(1, 0), PeerId::new(2, 0));
        assert!(regions.access(owner, key, AccessKind::Write, 0, 100).is_ok());
        assert!(regions.access(owner, key, AccessKind::Write, 100, 0).is_ok());
        let mut refused = |peer, key, access, offset, length| regions.access(peer, key, access, offset, length).err();
        assert_eq!(refused(owner, key, AccessKind::Write, 1, 100), Some(Refusal::OutOfBounds));
        assert_eq!(refused(owner, key, AccessKind::Write, u64::MAX, 2), Some(Refusal::OutOfBounds));
        assert_eq!(refused(owner, key, AccessKind::Read, 0, 1), Some(Refusal::NotAllowed));
        assert_eq!(refused(other, key, AccessKind::Write, 0, 1), Some(Refusal::NotYours));
        assert_eq!(refused(PeerId::new(1, 1), key, AccessKind::Write, 0, 1), Some(Refusal::NotYours));
        assert_eq!(refused(owner, RegionKey::from_wire(7), AccessKind::Write, 0, 1), Some(Refusal::Unknown));
        regions.close(key);
        assert_eq!(regions.access(owner, key, AccessKind::Write, 0, 1).err(), Some(Refusal::Closed));
        let counts: Vec<u64> = regions.refused().map(|(_, count)| count).collect();
        assert_eq!(counts, [1, 1, 2, 1, 2]);
    }

    /// A region is closed and its index used again, as often as there are generations.   Expect: no earlier
    /// key opens a later region.
    #[test]
    fn a_key_of_an_earlier_generation_opens_nothing() {
        let mut regions = Regions::default();
        let mut earlier = Vec::new();
        for _ in 0..100 {
            let key = regions.open(region(1, Purpose::Window, 8)).unwrap();
            assert!(earlier.iter().all(|key| regions.get(*key).is_none()));
            regions.close(key);
            regions.close(key);
            earlier.push(key);
        }
        assert_eq!((regions.len(), regions.is_empty()), (0, true));
        assert!(earlier.iter().all(|key| key.index() == 0));
    }

    /// Several indices are free.   Expect: the one that was freed first is used first, so a key comes back as
    /// late as possible.
    #[test]
    fn places_are_used_again_in_turns() {
        let mut regions = Regions::default();
        let keys: Vec<RegionKey> = (0..4).map(|_| regions.open(region(1, Purpose::Send, 8)).unwrap()).collect();
        keys.iter().for_each(|key| regions.close(*key));
        let again: Vec<usize> = (0..4).map(|_| regions.open(region(1, Purpose::Send, 8)).unwrap().index()).collect();
        assert_eq!(again, [0, 1, 2, 3]);
    }
}
