//! The events of a run that have still to happen, in order of time. Events at the same time keep the order in
//! which they were added, so that runs repeat.

use crate::topology::Node;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weft_core::time::Instant;

/// An event that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// The packet in this entry arrives at a node.
    Arrival(u32, Node),
    /// A rank's process may have something to do.
    Wake(u32),
}

/// Entries are ordered by their first two fields; the serial number is unique.
#[derive(Debug)]
struct Entry {
    at: Instant,
    serial: u64,
    what: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.serial == other.serial
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

/// The queue of future events.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<Entry>>,
    serial: u64,
    /// Most entries at a time.
    pub(crate) longest: usize,
}

impl Agenda {
    /// Adds an event.
    pub(crate) fn add(&mut self, at: Instant, what: Happening) {
        self.serial += 1;
        self.heap.push(Reverse(Entry { at, serial: self.serial, what }));
        self.longest = self.longest.max(self.heap.len());
    }

    /// Takes out the next event.
    pub(crate) fn next(&mut self) -> Option<(Instant, Happening)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }
}

/// Packets under way, by entry, and buffers that are no longer needed.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores a value and returns its entry.
    pub(crate) fn put(&mut self, value: T) -> u32 {
        if let Some(entry) = self.free.pop() {
            self.entries[entry as usize] = Some(value);
            return entry;
        }
        self.entries.push(Some(value));
        self.entries.len() as u32 - 1
    }

    /// Returns the value in an entry. Panics if the entry is empty.
    pub(crate) fn at(&mut self, entry: u32) -> &mut T {
        self.entries[entry as usize].as_mut().expect("a entry that is in use")
    }

    /// Takes the value out of an entry. Panics if the entry is empty.
    pub(crate) fn take(&mut self, entry: u32) -> T {
        self.free.push(entry);
        self.entries[entry as usize].take().expect("a entry that is in use")
    }

    /// The largest number of values that were stored at one time.
    pub(crate) fn most(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_happen_in_order_of_time_and_then_of_entry() {
        let mut agenda = Agenda::default();
        for (at, rank) in [(5, 0), (3, 1), (5, 2), (1, 3), (3, 4)] {
            agenda.add(Instant(at), Happening::Wake(rank));
        }
        let order: Vec<_> = std::iter::from_fn(|| agenda.next()).map(|(_, what)| what).collect();
        assert_eq!(order, [3, 1, 4, 0, 2].map(Happening::Wake));
    }

    #[test]
    fn slots_are_used_again() {
        let mut slab = Slab::default();
        let (a, b) = (slab.put('a'), slab.put('b'));
        assert_eq!((slab.take(a), slab.put('c')), ('a', a));
        assert_eq!((*slab.at(b), slab.take(a), slab.most()), ('b', 'c', 2));
    }
}
