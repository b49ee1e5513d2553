//! The ordered set: the keys of a map.

use core::borrow::Borrow;
use core::fmt;

use crate::Map;

/// A set in order.
#[derive(Clone, PartialEq, Eq)]
pub struct Set<T>(Map<T, ()>);

impl<T> Set<T> {
    /// Makes an empty set.
    pub const fn new() -> Self {
        Self(Map::new())
    }

    /// The number of elements.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no element.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The elements in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        self.0.keys()
    }

    /// The lowest element.
    pub fn first(&self) -> Option<&T> {
        self.iter().next()
    }

    /// Keeps the elements for which `keeps` says so.
    pub fn retain(&mut self, mut keeps: impl FnMut(&T) -> bool) {
        self.0.retain(|element, ()| keeps(element));
    }
}

impl<T: Ord> Set<T> {
    /// Adds an element; returns whether it is new.
    pub fn insert(&mut self, element: T) -> bool {
        self.0.insert(element, ()).is_none()
    }

    /// Removes an element; returns whether it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, element: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.remove(element).is_some()
    }

    /// Returns whether the element is there.
    pub fn contains<Q: Ord + ?Sized>(&self, element: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.contains_key(element)
    }
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for Set<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<T: Ord> Extend<T> for Set<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        for element in elements {
            self.insert(element);
        }
    }
}

impl<T: Ord> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut set = Self::new();
        set.extend(elements);
        set
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for Set<T> {
    fn from(elements: [T; N]) -> Self {
        elements.into_iter().collect()
    }
}

impl<T> IntoIterator for Set<T> {
    type Item = T;
    type IntoIter = core::iter::Map<<Map<T, ()> as IntoIterator>::IntoIter, fn((T, ())) -> T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().map(|(element, ())| element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_set_has_each_element_once_and_in_order() {
        let mut set: Set<i32> = [3, 1, 2, 3].into();
        assert!(!set.insert(2) && set.insert(4) && set.remove(&1) && !set.remove(&1));
        assert_eq!((set.len(), set.first(), set.contains(&4)), (3, Some(&2), true));
        set.retain(|element| *element != 3);
        assert_eq!(set.into_iter().collect::<Vec<_>>(), [2, 4]);
    }
}
