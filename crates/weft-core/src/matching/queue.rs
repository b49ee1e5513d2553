//! The ordered queue of posted receives, or of unexpected messages, of one context.
//!
//! The usual queue is short, or its oldest entry is the one wanted; then a scan of the list in order is the
//! fastest search. A search that goes deeper than [`SCAN_MAX`] entries makes the queue build an index, a
//! chain per (source, tag) pattern. The queue keeps the index until it is empty. With the index every search
//! and removal takes constant time.

use alloc::vec::Vec;
use core::hash::{BuildHasherDefault, Hash, Hasher};

use hashbrown::HashMap;

/// Entries a search may look at before the queue is indexed.
pub(super) const SCAN_MAX: usize = 24;

/// Entries an indexed queue looks at before it asks the index: the oldest is often the one.
const GLANCE_MAX: usize = 2;

/// An empty queue keeps memory for at most this many entries.
const RETAINED_ENTRIES_MAX: usize = 4096;

const NONE: u32 = u32::MAX;

/// Source and tag with wildcards. Two patterns match when they agree wherever neither has a wildcard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pattern {
    /// Source above, tag below; 0 where the mask is 0.
    value: u64,
    mask: u64,
}

const SOURCE_MASK: u64 = 0xffff_ffff_0000_0000;
const TAG_MASK: u64 = 0x0000_0000_ffff_ffff;

/// The four kinds of pattern, in which index chains are kept apart.
const KIND_MASKS: [u64; 4] = [SOURCE_MASK | TAG_MASK, SOURCE_MASK, TAG_MASK, 0];

impl Pattern {
    #[inline]
    pub(super) fn new(source: Option<u32>, tag: Option<i32>) -> Pattern {
        let mask = source.map_or(0, |_| SOURCE_MASK) | tag.map_or(0, |_| TAG_MASK);
        let value = u64::from(source.unwrap_or(0)) << 32 | u64::from(tag.unwrap_or(0) as u32);
        Pattern { value, mask }
    }

    #[inline]
    pub(super) fn matches(&self, other: &Pattern) -> bool {
        (self.value ^ other.value) & self.mask & other.mask == 0
    }

    /// Returns whether every message that matches `other` matches this pattern.
    pub(super) fn covers(&self, other: &Pattern) -> bool {
        self.mask & !other.mask == 0 && self.matches(other)
    }

    fn kind(&self) -> usize {
        usize::from(self.mask & TAG_MASK == 0) | usize::from(self.mask & SOURCE_MASK == 0) << 1
    }

    fn key(&self, kind: usize) -> Key {
        Key { value: self.value & KIND_MASKS[kind], kind: kind as u8 }
    }

    pub(super) fn source(&self) -> u32 {
        (self.value >> 32) as u32
    }

    pub(super) fn tag(&self) -> i32 {
        self.value as u32 as i32
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    value: u64,
    kind: u8,
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.value ^ u64::from(self.kind) << 30);
    }
}

/// A multiplicative hash. It does not resist chosen keys: the keys are ranks and tags of the job's own
/// processes, which have easier ways to be slow.
#[derive(Clone, Copy, Default)]
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(value ^ self.0) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

pub(super) type Table<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// The ends of a doubly linked list, or an entry's neighbours in one.
#[derive(Clone, Copy)]
struct Ends {
    first: u32,
    last: u32,
}

const NOWHERE: Ends = Ends { first: NONE, last: NONE };

struct Entry<T> {
    pattern: Pattern,
    /// Neighbours in the order of arrival: `first` is the older one. Free entries are linked through `last`.
    near: Ends,
    sequence: u64,
    value: Option<T>,
}

/// The entries in order of arrival. `CHAINS` is the number of index chains in which an entry stands:
///
/// - 1 for posted receives. The entries may have wildcards and the searches have none: an entry stands in the
///   chain of its own kind.
/// - 3 for unexpected messages. The searches may have wildcards and the entries have none: an entry stands in
///   a chain for each kind of search. The search for anything needs no chain: the list itself serves it.
pub(super) struct Queue<T, const CHAINS: usize> {
    entries: Vec<Entry<T>>,
    order: Ends,
    free: u32,
    length: usize,
    sequence: u64,
    index: Option<Index<CHAINS>>,
}

struct Index<const CHAINS: usize> {
    chains: Table<Key, Ends>,
    /// Per entry and chain the neighbours in it.
    near: Vec<[Ends; CHAINS]>,
    /// The number of entries in chains of each kind.
    population: [usize; 4],
}

impl<T, const CHAINS: usize> Queue<T, CHAINS> {
    pub(super) const fn new() -> Queue<T, CHAINS> {
        const { assert!(CHAINS == 1 || CHAINS == 3) };
        Queue { entries: Vec::new(), order: NOWHERE, free: NONE, length: 0, sequence: 0, index: None }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    #[cfg(test)]
    pub(super) fn is_indexed(&self) -> bool {
        self.index.is_some()
    }

    /// Adds an entry behind all others.
    #[inline(always)]
    pub(super) fn push(&mut self, pattern: Pattern, value: T) {
        if self.free == NONE {
            self.grow();
        }
        let (id, last) = (self.free, self.order.last);
        let entry = &mut self.entries[id as usize];
        self.free = entry.near.last;
        // Piece by piece: an entry that is made elsewhere and copied waits for its pieces to be stored.
        entry.pattern = pattern;
        entry.near = Ends { first: last, last: NONE };
        entry.sequence = self.sequence;
        entry.value = Some(value);
        self.sequence += 1;
        match self.entries.get_mut(last as usize) {
            Some(before) => before.near.last = id,
            None => self.order.first = id,
        }
        self.order.last = id;
        self.length += 1;
        if self.index.is_some() {
            self.note(id, &pattern);
        }
    }

    /// Enters in the index an entry that has come to an indexed queue.
    #[inline(never)]
    fn note(&mut self, id: u32, pattern: &Pattern) {
        if let Some(index) = &mut self.index {
            index.insert(id, pattern);
        }
    }

    /// Makes a free entry.
    #[cold]
    fn grow(&mut self) {
        let id = self.entries.len() as u32;
        assert!(id < NONE, "a match queue holds at most {NONE} entries");
        self.entries.push(Entry { pattern: Pattern { value: 0, mask: 0 }, near: NOWHERE, sequence: 0, value: None });
        self.free = id;
    }

    /// The oldest entry that matches.
    #[inline(always)]
    pub(super) fn find(&mut self, wanted: &Pattern) -> Option<u32> {
        let limit = if self.index.is_some() { GLANCE_MAX } else { SCAN_MAX };
        let mut id = self.order.first;
        for _ in 0..limit {
            let entry = self.entries.get(id as usize)?;
            if entry.pattern.matches(wanted) {
                return Some(id);
            }
            id = entry.near.last;
        }
        if id == NONE { None } else { self.find_by_index(wanted) }
    }

    /// Returns whether an entry matches.
    #[inline(never)]
    pub(super) fn has(&mut self, wanted: &Pattern) -> bool {
        self.find(wanted).is_some()
    }

    #[inline(never)]
    fn find_by_index(&mut self, wanted: &Pattern) -> Option<u32> {
        let index = match self.index.take() {
            Some(index) => index,
            None => self.build_index(),
        };
        let found = index.find(wanted, &self.entries, self.order.first);
        self.index = Some(index);
        found
    }

    fn build_index(&self) -> Index<CHAINS> {
        let mut index = Index { chains: Table::default(), near: Vec::new(), population: [0; 4] };
        let mut id = self.order.first;
        while let Some(entry) = self.entries.get(id as usize) {
            index.insert(id, &entry.pattern);
            id = entry.near.last;
        }
        index
    }

    pub(super) fn get(&self, id: u32) -> Option<(&Pattern, &T)> {
        let entry = self.entries.get(id as usize)?;
        Some((&entry.pattern, entry.value.as_ref()?))
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.entries.get_mut(id as usize)?.value.as_mut()
    }

    /// Takes an entry out.
    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> Option<(Pattern, T)> {
        let pattern = self.entries.get(id as usize)?.pattern;
        Some((pattern, self.take(id)?))
    }

    /// Takes an entry out; returns its value without its pattern.
    #[inline(always)]
    pub(super) fn take(&mut self, id: u32) -> Option<T> {
        let entry = self.entries.get_mut(id as usize)?;
        let value = entry.value.take()?;
        let near = entry.near;
        entry.near.last = self.free;
        self.free = id;
        match self.entries.get_mut(near.first as usize) {
            Some(before) => before.near.last = near.last,
            None => self.order.first = near.last,
        }
        match self.entries.get_mut(near.last as usize) {
            Some(after) => after.near.first = near.first,
            None => self.order.last = near.first,
        }
        self.length -= 1;
        if self.index.is_some() {
            self.forget(id);
        }
        Some(value)
    }

    /// Takes out of the index an entry that is gone from the queue.
    #[inline(never)]
    fn forget(&mut self, id: u32) {
        let pattern = self.entries[id as usize].pattern;
        if let Some(index) = &mut self.index {
            index.remove(id, &pattern);
        }
        if self.length == 0 {
            self.reset();
        }
    }

    /// Begins anew as a list once an indexed queue is empty; gives back the memory that a burst has taken.
    #[cold]
    fn reset(&mut self) {
        self.index = None;
        if self.entries.len() > RETAINED_ENTRIES_MAX {
            self.entries = Vec::new();
            self.free = NONE;
        }
    }

    /// The oldest entry of which `pred` holds.
    pub(super) fn oldest_where(&self, mut pred: impl FnMut(&Pattern, &T) -> bool) -> Option<u32> {
        let mut id = self.order.first;
        while let Some((pattern, value)) = self.get(id) {
            if pred(pattern, value) {
                return Some(id);
            }
            id = self.entries[id as usize].near.last;
        }
        None
    }

    /// The newest entry of which `pred` holds.
    pub(super) fn newest_where(&self, mut pred: impl FnMut(&Pattern, &T) -> bool) -> Option<u32> {
        let mut id = self.order.last;
        while let Some((pattern, value)) = self.get(id) {
            if pred(pattern, value) {
                return Some(id);
            }
            id = self.entries[id as usize].near.first;
        }
        None
    }

    /// The entries as they stand, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Pattern, &T)> {
        let mut id = self.order.first;
        core::iter::from_fn(move || {
            let entry = self.get(id)?;
            id = self.entries[id as usize].near.last;
            Some(entry)
        })
    }

    /// Takes out all entries, oldest first.
    pub(super) fn drain(&mut self) -> Vec<(Pattern, T)> {
        let mut all = Vec::with_capacity(self.length);
        while let Some(entry) = self.remove(self.order.first) {
            all.push(entry);
        }
        all
    }
}

impl<const CHAINS: usize> Index<CHAINS> {
    /// (position among the entry's chains, kind of the chain) for every chain an entry stands in.
    fn chains_of(pattern: &Pattern) -> impl Iterator<Item = (usize, usize)> {
        let own = pattern.kind();
        (0..CHAINS).map(move |position| (position, if CHAINS == 1 { own } else { position }))
    }

    fn insert(&mut self, id: u32, pattern: &Pattern) {
        if self.near.len() <= id as usize {
            self.near.resize(id as usize + 1, [NOWHERE; CHAINS]);
        }
        for (position, kind) in Self::chains_of(pattern) {
            let ends = self.chains.entry(pattern.key(kind)).or_insert(NOWHERE);
            let before = core::mem::replace(&mut ends.last, id);
            if before == NONE {
                ends.first = id;
            } else {
                self.near[before as usize][position].last = id;
            }
            self.near[id as usize][position] = Ends { first: before, last: NONE };
            self.population[kind] += 1;
        }
    }

    fn remove(&mut self, id: u32, pattern: &Pattern) {
        for (position, kind) in Self::chains_of(pattern) {
            let near = self.near[id as usize][position];
            if let Some(before) = self.near.get_mut(near.first as usize) {
                before[position].last = near.last;
            }
            if let Some(after) = self.near.get_mut(near.last as usize) {
                after[position].first = near.first;
            }
            self.population[kind] -= 1;
            if near.first != NONE && near.last != NONE {
                continue;
            }
            let key = pattern.key(kind);
            if near.first == NONE && near.last == NONE {
                self.chains.remove(&key);
            } else if let Some(ends) = self.chains.get_mut(&key) {
                if near.first == NONE {
                    ends.first = near.last;
                } else {
                    ends.last = near.first;
                }
            }
        }
    }

    fn find<T>(&self, wanted: &Pattern, entries: &[Entry<T>], oldest: u32) -> Option<u32> {
        if CHAINS > 1 {
            let kind = wanted.kind();
            return match KIND_MASKS[kind] {
                0 => Some(oldest).filter(|&id| id != NONE),
                _ => self.first_of(wanted, kind),
            };
        }
        let kinds = (0..KIND_MASKS.len()).filter(|&kind| self.population[kind] > 0);
        kinds.filter_map(|kind| self.first_of(wanted, kind)).min_by_key(|&id| entries[id as usize].sequence)
    }

    fn first_of(&self, wanted: &Pattern, kind: usize) -> Option<u32> {
        self.chains.get(&wanted.key(kind)).map(|ends| ends.first)
    }
}
