//! The ordered map: sorted pieces of some dozen entries.

use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::ops::{Bound, Index, RangeBounds};

/// The most entries of a piece.
const PIECE: usize = 64;
/// A piece and the one before it that have no more together become one.
const FEW: usize = PIECE / 2;

/// A map in the order of its keys. Finding an entry takes O(log n) comparisons. Insertion and removal move
/// less than a piece of entries, and seldom the list of pieces.
#[derive(Clone)]
pub struct Map<K, V> {
    /// The entries in order. No piece is empty.
    pieces: Vec<Vec<(K, V)>>,
    len: usize,
}

/// The piece and the place in it; behind the last entry, the number of pieces and 0.
type Place = (usize, usize);

impl<K, V> Map<K, V> {
    /// Makes an empty map.
    pub const fn new() -> Self {
        Self { pieces: Vec::new(), len: 0 }
    }

    /// The number of entries.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// All entries in order.
    pub fn iter(&self) -> Range<'_, K, V> {
        Range { map: self, from: (0, 0), to: (self.pieces.len(), 0) }
    }

    /// The keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// The values in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// The values in the order of their keys, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.pieces.iter_mut().flatten().map(|(_, value)| value)
    }

    /// All entries in order, with values to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.pieces.iter_mut().flatten().map(|(key, value)| (&*key, value))
    }

    /// The values in the order of their keys, taken out.
    pub fn into_values(self) -> impl Iterator<Item = V> {
        self.into_iter().map(|(_, value)| value)
    }

    /// The keys in order, taken out.
    pub fn into_keys(self) -> impl Iterator<Item = K> {
        self.into_iter().map(|(key, _)| key)
    }

    /// The entry with the lowest key.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// The entry with the highest key.
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next_back()
    }

    /// Takes out the entry with the lowest key.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        (self.len > 0).then(|| self.remove_at((0, 0)))
    }

    /// Keeps the entries for which `keeps` says so.
    pub fn retain(&mut self, mut keeps: impl FnMut(&K, &mut V) -> bool) {
        self.pieces.iter_mut().for_each(|piece| piece.retain_mut(|(key, value)| keeps(key, value)));
        self.pieces.retain(|piece| !piece.is_empty());
        self.len = self.pieces.iter().map(Vec::len).sum();
    }

    #[inline(never)]
    fn remove_at(&mut self, (piece, at): Place) -> (K, V) {
        self.len -= 1;
        let entry = self.pieces[piece].remove(at);
        let before = if piece > 0 { self.pieces[piece - 1].len() } else { FEW };
        let left = self.pieces[piece].len();
        if left == 0 || before + left <= FEW {
            let mut rest = self.pieces.remove(piece);
            if left > 0 {
                self.pieces[piece - 1].append(&mut rest);
            }
        }
        entry
    }

    #[inline(never)]
    fn insert_at(&mut self, (mut piece, mut at): Place, entry: (K, V)) -> &mut V {
        if piece == self.pieces.len() {
            self.pieces.push(Vec::new());
        }
        if self.pieces[piece].len() == PIECE {
            // Keys that come in order fill each piece.
            let kept = if at == PIECE { PIECE } else { FEW };
            let rest = self.pieces[piece].split_off(kept);
            self.pieces.insert(piece + 1, rest);
            if at >= kept {
                (piece, at) = (piece + 1, at - kept);
            }
        }
        self.len += 1;
        let piece = &mut self.pieces[piece];
        piece.insert(at, entry);
        &mut piece[at].1
    }
}

impl<K: Ord, V> Map<K, V> {
    /// The place of a key, or the one where it would be inserted.
    #[inline(never)]
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<Place, Place>
    where
        K: Borrow<Q>,
    {
        let behind = self.pieces.partition_point(|piece| piece.first().is_some_and(|(first, _)| first.borrow() <= key));
        let piece = behind.saturating_sub(1);
        let Some(entries) = self.pieces.get(piece) else { return Err((0, 0)) };
        match entries.binary_search_by(|(other, _)| other.borrow().cmp(key)) {
            Ok(at) => Ok((piece, at)),
            Err(at) => Err((piece, at)),
        }
    }

    /// Returns whether there is an entry with this key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (piece, at) = self.find(key).ok()?;
        Some(&self.pieces[piece][at].1)
    }

    /// The value of a key, to change it.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (piece, at) = self.find(key).ok()?;
        Some(&mut self.pieces[piece][at].1)
    }

    /// Sets the value of a key, and returns the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok((piece, at)) => Some(core::mem::replace(&mut self.pieces[piece][at].1, value)),
            Err(place) => {
                self.insert_at(place, (key, value));
                None
            }
        }
    }

    /// Takes out the value of a key.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let place = self.find(key).ok()?;
        Some(self.remove_at(place).1)
    }

    /// The entry of a key, there or not.
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        let place = self.find(&key);
        Entry { map: self, key, place }
    }

    /// The entries with keys in a range, in order.
    pub fn range(&self, keys: impl RangeBounds<K>) -> Range<'_, K, V> {
        let from = match keys.start_bound() {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) => self.find(key).unwrap_or_else(|place| place),
            Bound::Excluded(key) => self.behind(key),
        };
        let to = match keys.end_bound() {
            Bound::Unbounded => (self.pieces.len(), 0),
            Bound::Included(key) => self.behind(key),
            Bound::Excluded(key) => self.find(key).unwrap_or_else(|place| place),
        };
        let (from, to) = (self.of_entry(from), self.of_entry(to));
        Range { map: self, from, to: to.max(from) }
    }

    /// The place behind a key.
    fn behind(&self, key: &K) -> Place {
        self.find(key).map_or_else(|place| place, |(piece, at)| (piece, at + 1))
    }

    /// The same place; that of the next entry if it is at the end of a piece.
    fn of_entry(&self, (piece, at): Place) -> Place {
        match self.pieces.get(piece) {
            Some(entries) if at == entries.len() => (piece + 1, 0),
            _ => (piece, at),
        }
    }
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Map<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for Map<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for Map<K, V> {}

impl<K: Ord + Borrow<Q>, V, Q: Ord + ?Sized> Index<&Q> for Map<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("a key of the map")
    }
}

impl<K: Ord, V> Extend<(K, V)> for Map<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for Map<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

impl<K, V> IntoIterator for Map<K, V> {
    type Item = (K, V);
    type IntoIter = core::iter::Flatten<alloc::vec::IntoIter<Vec<(K, V)>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.pieces.into_iter().flatten()
    }
}

impl<'a, K, V> IntoIterator for &'a Map<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Range<'a, K, V>;

    fn into_iter(self) -> Range<'a, K, V> {
        self.iter()
    }
}

/// Entries in order, from both ends.
#[derive(Debug)]
pub struct Range<'a, K, V> {
    map: &'a Map<K, V>,
    from: Place,
    to: Place,
}

impl<K, V> Clone for Range<'_, K, V> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<'a, K, V> Iterator for Range<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<(&'a K, &'a V)> {
        if self.from == self.to {
            return None;
        }
        let (piece, at) = self.from;
        let entries = &self.map.pieces[piece];
        self.from = if at + 1 < entries.len() { (piece, at + 1) } else { (piece + 1, 0) };
        let (key, value) = &entries[at];
        Some((key, value))
    }
}

impl<'a, K, V> DoubleEndedIterator for Range<'a, K, V> {
    fn next_back(&mut self) -> Option<(&'a K, &'a V)> {
        if self.from == self.to {
            return None;
        }
        let (piece, at) = self.to;
        self.to = if at > 0 { (piece, at - 1) } else { (piece - 1, self.map.pieces[piece - 1].len() - 1) };
        let (key, value) = &self.map.pieces[self.to.0][self.to.1];
        Some((key, value))
    }
}

/// The entry of a key, there or not.
#[derive(Debug)]
pub struct Entry<'a, K, V> {
    map: &'a mut Map<K, V>,
    key: K,
    place: Result<Place, Place>,
}

impl<'a, K, V> Entry<'a, K, V> {
    /// The value, or else this one.
    pub fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    /// The value, or else the one that `make` makes.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> &'a mut V {
        match self.place {
            Ok((piece, at)) => &mut self.map.pieces[piece][at].1,
            Err(place) => self.map.insert_at(place, (self.key, make())),
        }
    }

    /// The value, or else the default.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        /// Expect: after every step the same entries as in the standard library's map, and no piece that is
        /// empty or too long.
        #[test]
        fn it_holds_what_the_standard_librarys_map_holds(
            steps in proptest::collection::vec((0_u8..8, 0_u32..400), 0..2000),
        ) {
            let (mut map, mut expected) = (Map::new(), BTreeMap::new());
            for (number, (step, key)) in steps.into_iter().enumerate() {
                match step {
                    0..4 => prop_assert_eq!(map.insert(key, number), expected.insert(key, number)),
                    4..6 => prop_assert_eq!(map.remove(&key), expected.remove(&key)),
                    6 => *map.entry(key).or_default() += *expected.entry(key).and_modify(|value| *value += 1).or_insert(1),
                    _ => prop_assert_eq!(map.pop_first(), expected.pop_first()),
                }
                if step == 6 {
                    map.insert(key, expected[&key]);
                }
                prop_assert_eq!(map.get(&key), expected.get(&key));
                prop_assert!(map.range(..=key).eq(expected.range(..=key)));
                prop_assert!(map.range(key..).rev().eq(expected.range(key..).rev()));
            }
            prop_assert!(map.iter().eq(&expected) && map.len() == expected.len());
            prop_assert!(map.pieces.iter().all(|piece| (1..=PIECE).contains(&piece.len())));
            map.retain(|key, _| key % 3 == 0);
            expected.retain(|key, _| key % 3 == 0);
            prop_assert_eq!(map.last_key_value(), expected.last_key_value());
            prop_assert!(map.len() == expected.len() && map.into_iter().eq(expected));
        }
    }

    #[test]
    fn keys_in_order_fill_the_pieces_and_few_that_stay_take_few() {
        let mut map: Map<u32, ()> = (0..6400).map(|key| (key, ())).collect();
        assert_eq!(map.pieces.len(), 100);
        for key in (0..6400).filter(|key| key % 64 != 7) {
            map.remove(&key);
        }
        assert_eq!(map.len(), 100);
        assert!(map.pieces.len() <= 8, "{}", map.pieces.len());
    }

    #[test]
    fn ranges_have_both_ends_and_may_be_empty() {
        let map = Map::from([(1, 'a'), (3, 'b'), (5, 'c')]);
        assert_eq!(map.range(2..5).map(|(key, _)| *key).collect::<Vec<i32>>(), [3]);
        assert_eq!(map.range((Bound::Excluded(1), Bound::Unbounded)).count(), 2);
        assert_eq!(map.range(6..).next(), None);
        assert_eq!(map.range(..1).next_back(), None);
        assert_eq!((map[&5], map.first_key_value()), ('c', Some((&1, &'a'))));
    }
}
