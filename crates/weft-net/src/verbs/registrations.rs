//! Which memory is registered, and kept so for the next operation: ranges with use counts, of which those go
//! first that were not used for longest. A pure data structure, which knows neither devices nor kernels: what
//! a registration is, and how one is closed, is its owner's.
//!
//! *No range that is kept contains another one.* So of those that begin at or before an address the last one
//! also ends last: whether a range is covered is one look into an ordered map. A new range takes the place of
//! those within it, and of one around it that has not the right that it has.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    /// Bytes of all ranges together.
    pub(super) bytes: u64,
    /// Ranges.
    pub(super) entries: usize,
}

/// One use of a registration. It cannot be copied: it is given back once.
#[derive(Debug)]
pub(super) struct Use(usize);

struct Entry<T> {
    range: Range<u64>,
    /// It may be written to.
    is_writable: bool,
    uses: u32,
    /// When it was last used, as a number that grows.
    stamp: u64,
    /// It is found no more, and closed after its last use.
    is_retired: bool,
    value: T,
}

/// Registrations of type `T`.
pub(super) struct Registrations<T> {
    capacity: Capacity,
    entries: Vec<Option<Entry<T>>>,
    free: Vec<usize>,
    /// Those that are not retired, by the first address.
    by_start: BTreeMap<u64, usize>,
    /// Those of them that nobody uses, by when they were last used.
    idle: BTreeSet<(u64, usize)>,
    bytes: u64,
    clock: u64,
    /// What is to be closed.
    closed: Vec<T>,
}

impl<T> Registrations<T> {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            entries: Vec::new(),
            free: Vec::new(),
            by_start: BTreeMap::new(),
            idle: BTreeSet::new(),
            bytes: 0,
            clock: 0,
            closed: Vec::new(),
        }
    }

    /// Bytes of all that is not closed yet, whether it is found or not.
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

    /// Makes room for so many bytes by closing what nobody uses; `false`: there is not enough of that, and
    /// nothing is closed.
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

    /// A use is over.
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

    /// What was at these addresses is no longer there: whatever touches them is found no more.
    pub(super) fn invalidate(&mut self, range: &Range<u64>) {
        // Sorted by their ends as well: from the last one that begins before the range's end backwards, until
        // one ends before it begins.
        let before_end = self.by_start.range(..range.end).rev().map(|(_, index)| *index);
        let touched = before_end
            .take_while(|index| self.entries[*index].as_ref().is_some_and(|entry| entry.range.end > range.start));
        touched.collect::<Vec<_>>().into_iter().for_each(|index| self.retire(index));
    }

    /// The same of all addresses.
    pub(super) fn invalidate_all(&mut self) {
        self.invalidate(&(0..u64::MAX));
    }

    /// Closes all that nobody uses; whether that was something.
    pub(super) fn close_idle(&mut self) -> bool {
        let had_some = !self.idle.is_empty();
        while !self.idle.is_empty() {
            self.close_oldest();
        }
        had_some
    }

    /// What its owner is to close now.
    pub(super) fn take_closed(&mut self) -> Option<T> {
        self.closed.pop()
    }

    /// All there is, also what is in use: nothing of it will be used again.
    pub(super) fn drain(&mut self) -> Vec<T> {
        self.by_start.clear();
        self.idle.clear();
        self.free.clear();
        self.bytes = 0;
        let kept = self.entries.drain(..).flatten().map(|entry| entry.value);
        self.closed.drain(..).chain(kept).collect()
    }

    /// Those that are not closed.
    fn count(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    fn next_stamp(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// What is within a range, and all that it is within: several registrations may be around it. Those that
    /// are left are sorted by their ends as well, which is what `find` and `invalidate` rely on.
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
        let nested: BTreeSet<usize> = within.chain(around).filter(is_nested).collect();
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

    /// A registration that nobody uses.
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
        // Its successor at the same index is another one.
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

    /// Two registrations that may be read are around one that may be written. Afterwards memory of the first
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

    /// What is in the structure, as a list.
    struct Known {
        range: Range<u64>,
        is_writable: bool,
        value: u32,
        held: Vec<Use>,
        is_retired: bool,
    }

    /// Random operations against a list: nothing that was invalidated is found, what is found covers the
    /// range with its right, nothing in use is closed, each is closed once, and the limits hold.
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
