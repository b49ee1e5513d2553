//! Registrations that are kept for the next operation: ranges with use counts.
//!
//! The range that was not used for longest goes first. This is a pure data structure, which knows neither
//! devices nor kernels: its owner knows what a registration is, and how to close it.
//!
//! *No kept range contains another one.* So of the ranges that begin at or before an address, the last one
//! also ends last. A single look into an ordered map shows whether a range is covered. A new range takes the
//! place of the ranges within it, and of a range around it that lacks the new range's right.

use std::ops::Range;
use weft_ordered::{Map, Set};

/// Limits of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    /// Bytes of all ranges together.
    pub(super) bytes: u64,
    /// Number of ranges.
    pub(super) entries: usize,
}

/// A use of a registration. The value cannot be copied, so a use ends only once.
#[derive(Debug)]
pub(super) struct Use(usize);

struct Entry<T> {
    range: Range<u64>,
    /// True if the memory may be written to.
    is_writable: bool,
    uses: u32,
    /// Time of the last use, as a number that grows.
    stamp: u64,
    /// True once `find` must not return the entry, which is closed after its last use.
    is_retired: bool,
    value: T,
}

/// Registrations of type `T`.
pub(super) struct Registrations<T> {
    capacity: Capacity,
    entries: Vec<Option<Entry<T>>>,
    free: Vec<usize>,
    /// The entries that are not retired, by their first address.
    by_start: Map<u64, usize>,
    /// The entries of `by_start` that have no use, by the time of their last use.
    idle: Set<(u64, usize)>,
    bytes: u64,
    clock: u64,
    /// The registrations that the owner has to close.
    closed: Vec<T>,
}

impl<T> Registrations<T> {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            entries: Vec::new(),
            free: Vec::new(),
            by_start: Map::new(),
            idle: Set::new(),
            bytes: 0,
            clock: 0,
            closed: Vec::new(),
        }
    }

    /// Returns the bytes of all entries that are not closed yet, retired or not.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Uses the registration that covers a range, if there is one.
    pub(super) fn find(&mut self, range: &Range<u64>, to_write: bool) -> Option<(Use, &T)> {
        let index = *self.by_start.range(..=range.start).next_back()?.1;
        let stamp = self.next_stamp();
        let entry = self.entries[index].as_mut()?;
        if entry.range.end < range.end || (to_write && !entry.is_writable) {
            return None;
        }
        if entry.uses == 0 {
            self.idle.remove(&(entry.stamp, index));
        }
        entry.stamp = stamp;
        entry.uses += 1;
        Some((Use(index), &entry.value))
    }

    /// Makes room for `bytes` bytes by closing entries that have no use. Returns `false` when that does not
    /// give enough room; nothing is closed then.
    pub(super) fn make_room(&mut self, bytes: u64) -> bool {
        let Capacity { bytes: most, entries } = self.capacity;
        let idle: u64 =
            self.idle.iter().filter_map(|(_, index)| Some(length(&self.entries[*index].as_ref()?.range))).sum();
        if self.bytes - idle + bytes > most || self.count() - self.idle.len() >= entries {
            return false;
        }
        while self.bytes + bytes > most || self.count() >= entries {
            self.close_oldest();
        }
        true
    }

    /// Keeps a registration, for which there is room, and uses it.
    pub(super) fn insert(&mut self, range: Range<u64>, is_writable: bool, value: T) -> Use {
        self.retire_nested(&range);
        self.bytes += length(&range);
        let entry = Entry { range, is_writable, uses: 1, stamp: self.next_stamp(), is_retired: false, value };
        let start = entry.range.start;
        let index = match self.free.pop() {
            Some(index) => {
                self.entries[index] = Some(entry);
                index
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() - 1
            }
        };
        self.by_start.insert(start, index);
        Use(index)
    }

    /// Ends a use.
    pub(super) fn end(&mut self, Use(index): Use) {
        let Some(entry) = self.entries[index].as_mut() else { return };
        entry.uses -= 1;
        match (entry.uses, entry.is_retired) {
            (0, true) => self.close(index),
            (0, false) => {
                self.idle.insert((entry.stamp, index));
            }
            _ => {}
        }
    }

    /// Retires the entries that touch a range, because the memory at these addresses is no longer there.
    pub(super) fn invalidate(&mut self, range: &Range<u64>) {
        // Entries are sorted by their ends as well. So go backwards from the last one that begins before the
        // range's end, until one ends before the range begins.
        let before_end = self.by_start.range(..range.end).rev().map(|(_, index)| *index);
        let touched = before_end
            .take_while(|index| self.entries[*index].as_ref().is_some_and(|entry| entry.range.end > range.start));
        touched.collect::<Vec<_>>().into_iter().for_each(|index| self.retire(index));
    }

    /// Retires all entries.
    pub(super) fn invalidate_all(&mut self) {
        self.invalidate(&(0..u64::MAX));
    }

    /// Closes all entries that have no use. Returns whether there were any.
    pub(super) fn close_idle(&mut self) -> bool {
        let had_some = !self.idle.is_empty();
        while !self.idle.is_empty() {
            self.close_oldest();
        }
        had_some
    }

    /// Returns a registration that the owner has to close now.
    pub(super) fn take_closed(&mut self) -> Option<T> {
        self.closed.pop()
    }

    /// Removes and returns all registrations, also those in use: no operation will use them again.
    pub(super) fn drain(&mut self) -> Vec<T> {
        self.by_start.clear();
        self.idle.clear();
        self.free.clear();
        self.bytes = 0;
        let kept = self.entries.drain(..).flatten().map(|entry| entry.value);
        self.closed.drain(..).chain(kept).collect()
    }

    /// Returns the number of entries that are not closed.
    fn count(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    fn next_stamp(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Retires the entries within a range, and all entries around it, of which there may be several. The
    /// remaining entries are sorted by their ends as well; `find` and `invalidate` rely on that.
    fn retire_nested(&mut self, range: &Range<u64>) {
        let within = self.by_start.range(range.start..range.end).map(|(_, index)| *index);
        let ends_behind = |index: &usize| self.entries[*index].as_ref().is_some_and(|one| one.range.end >= range.end);
        let before = self.by_start.range(..=range.start).rev().map(|(_, index)| *index);
        let around = before.take_while(ends_behind);
        let is_nested = |index: &usize| {
            self.entries[*index].as_ref().is_some_and(|Entry { range: other, .. }| {
                (range.start <= other.start && other.end <= range.end)
                    || (other.start <= range.start && range.end <= other.end)
            })
        };
        let nested: Set<usize> = within.chain(around).filter(is_nested).collect();
        nested.into_iter().for_each(|index| self.retire(index));
    }

    fn close_oldest(&mut self) {
        if let Some((_, index)) = self.idle.first().copied() {
            self.retire(index);
        }
    }

    fn retire(&mut self, index: usize) {
        let Some(entry) = self.entries[index].as_mut() else { return };
        entry.is_retired = true;
        self.by_start.remove(&entry.range.start);
        if entry.uses == 0 {
            self.idle.remove(&(entry.stamp, index));
            self.close(index);
        }
    }

    fn close(&mut self, index: usize) {
        let Some(entry) = self.entries[index].take() else { return };
        self.bytes -= length(&entry.range);
        self.free.push(index);
        self.closed.push(entry.value);
    }
}

fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Capacity = Capacity { bytes: 100, entries: 4 };

    fn closed(registrations: &mut Registrations<u32>) -> Vec<u32> {
        let mut closed: Vec<u32> = std::iter::from_fn(|| registrations.take_closed()).collect();
        closed.sort_unstable();
        closed
    }

    fn found(registrations: &mut Registrations<u32>, range: Range<u64>, to_write: bool) -> Option<u32> {
        let (found, value) = registrations.find(&range, to_write)?;
        let value = *value;
        registrations.end(found);
        Some(value)
    }

    /// Keeps a registration that has no use.
    fn keep(registrations: &mut Registrations<u32>, range: Range<u64>, is_writable: bool, value: u32) {
        assert!(registrations.make_room(range.end - range.start));
        let inserted = registrations.insert(range, is_writable, value);
        registrations.end(inserted);
    }

    #[test]
    fn what_is_within_a_registration_is_found_and_nothing_else_is() {
        let mut all = Registrations::new(FEW);
        keep(&mut all, 10..30, true, 1);
        for range in [10..30, 10..11, 29..30, 15..20] {
            assert_eq!(found(&mut all, range.clone(), true), Some(1), "{range:?}");
        }
        for range in [9..30, 10..31, 0..5, 30..31, 5..50] {
            assert_eq!(found(&mut all, range.clone(), false), None, "{range:?}");
        }
        keep(&mut all, 40..50, false, 2);
        assert_eq!((found(&mut all, 40..50, false), found(&mut all, 40..50, true)), (Some(2), None));
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first_and_what_is_in_use_stays() {
        let mut all = Registrations::new(FEW);
        keep(&mut all, 0..40, true, 1);
        keep(&mut all, 40..80, true, 2);
        assert_eq!(found(&mut all, 0..1, false), Some(1));
        keep(&mut all, 200..230, true, 3);
        assert_eq!((closed(&mut all), all.bytes()), (vec![2], 70));
        let held = all.find(&(0..40), false).expect("it is there").0;
        assert!(
            !all.make_room(61) && closed(&mut all).is_empty(),
            "what is in use counts, and nothing is closed in vain"
        );
        assert!(all.make_room(60));
        assert_eq!(closed(&mut all), [3]);
        all.end(held);
        assert_eq!(found(&mut all, 0..40, false), Some(1));
        for value in 10..20 {
            keep(&mut all, u64::from(value) * 1000..u64::from(value) * 1000 + 1, true, value);
        }
        assert_eq!((all.count(), all.bytes()), (FEW.entries, 4));
        assert!(all.close_idle() && !all.close_idle());
        assert_eq!((all.count(), all.bytes()), (0, 0));
    }

    #[test]
    fn what_is_invalidated_in_use_is_closed_after_its_last_use() {
        let mut all = Registrations::new(FEW);
        keep(&mut all, 0..50, true, 1);
        let first = all.find(&(0..50), true).expect("it is there").0;
        let second = all.find(&(10..20), true).expect("it is there").0;
        all.invalidate(&(49..200));
        assert_eq!((found(&mut all, 0..10, false), closed(&mut all)), (None, vec![]));
        // Its successor at the same index is another entry.
        keep(&mut all, 0..50, true, 2);
        all.end(first);
        assert_eq!((closed(&mut all), all.bytes()), (vec![], 100));
        all.end(second);
        assert_eq!((closed(&mut all), all.bytes(), found(&mut all, 0..50, true)), (vec![1], 50, Some(2)));
        all.invalidate(&(50..60));
        assert_eq!(found(&mut all, 0..50, true), Some(2), "it ends where the change begins");
        let held = all.find(&(0..1), true).expect("it is there").0;
        all.invalidate_all();
        assert_eq!(closed(&mut all), []);
        all.end(held);
        assert_eq!(closed(&mut all), [2]);
        assert_eq!(all.drain(), []);
    }

    #[test]
    fn a_registration_with_more_rights_takes_the_place_of_one_around_it() {
        let mut all = Registrations::new(FEW);
        keep(&mut all, 0..50, false, 1);
        keep(&mut all, 10..20, true, 2);
        assert_eq!(
            (closed(&mut all), found(&mut all, 12..13, true), found(&mut all, 0..5, false)),
            (vec![1], Some(2), None)
        );
        keep(&mut all, 5..25, true, 3);
        keep(&mut all, 5..25, true, 4);
        assert_eq!((closed(&mut all), found(&mut all, 10..20, true)), (vec![2, 3], Some(4)));
    }

    /// Two registrations that may be read lie around one that may be written. Afterwards memory of the first
    /// one goes, behind the end of the last.   Expect: the first one is not found again.
    #[test]
    fn all_that_are_around_a_registration_with_more_rights_go() {
        let mut all = Registrations::new(FEW);
        keep(&mut all, 0..20, false, 1);
        keep(&mut all, 5..25, false, 2);
        keep(&mut all, 6..10, true, 3);
        assert_eq!(closed(&mut all), vec![1, 2]);
        all.invalidate(&(15..18));
        assert_eq!((found(&mut all, 0..4, false), found(&mut all, 6..10, true)), (None, Some(3)));
    }

    /// The contents of the structure, as a list.
    struct Known {
        range: Range<u64>,
        is_writable: bool,
        value: u32,
        held: Vec<Use>,
        is_retired: bool,
    }

    /// Random operations against a list. Expect: no invalidated range is found; a found entry covers the
    /// range with its right; no entry in use is closed; each is closed once; the limits hold.
    #[test]
    fn random_operations_do_as_a_list_does() {
        let mut finds = 0;
        for seed in 1..=200_u64 {
            let mut random = weft_random::Random::new(seed);
            let mut below = |limit: u64| random.below(limit);
            let capacity = Capacity { bytes: 40 + below(100), entries: 2 + below(8) as usize };
            let mut all = Registrations::new(capacity);
            let mut known: Vec<Known> = Vec::new();
            for value in 0..500_u32 {
                let start = below(64);
                let range = start..start + 1 + below(20);
                match below(10) {
                    0 => {
                        all.invalidate(&range);
                        let touches =
                            |known: &&mut Known| known.range.start < range.end && range.start < known.range.end;
                        known.iter_mut().filter(touches).for_each(|known| known.is_retired = true);
                    }
                    1..4 => {
                        if let Some(user) = known.iter_mut().find(|known| !known.held.is_empty()) {
                            all.end(user.held.pop().expect("a use"));
                        }
                    }
                    _ => {
                        let to_write = below(2) == 0;
                        if let Some((held, found)) = all.find(&range, to_write) {
                            let one = known.iter_mut().find(|known| known.value == *found).expect("it is known");
                            assert!(!one.is_retired && (one.is_writable || !to_write), "seed {seed}, step {value}");
                            assert!(
                                one.range.start <= range.start && range.end <= one.range.end,
                                "seed {seed}, step {value}"
                            );
                            one.held.push(held);
                            finds += 1;
                        } else if all.make_room(range.end - range.start) {
                            let held = vec![all.insert(range.clone(), to_write, value)];
                            known.push(Known { range, is_writable: to_write, value, held, is_retired: false });
                        }
                    }
                }
                for closed in closed(&mut all) {
                    let index = known.iter().position(|known| known.value == closed).expect("closed once");
                    assert!(known[index].held.is_empty(), "seed {seed}, step {value}: {closed} is closed in use");
                    known.remove(index);
                }
                let bytes: u64 = known.iter().map(|known| known.range.end - known.range.start).sum();
                assert_eq!(all.bytes(), bytes, "seed {seed}, step {value}");
                assert!(bytes <= capacity.bytes && known.len() <= capacity.entries, "seed {seed}, step {value}");
            }
            for held in known.iter_mut().flat_map(|known| std::mem::take(&mut known.held)) {
                all.end(held);
            }
            all.invalidate_all();
            assert_eq!((closed(&mut all).len(), all.bytes()), (known.len(), 0), "seed {seed}");
        }
        assert!(finds > 5_000, "{finds}");
    }
}
