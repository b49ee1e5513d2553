//! Sorting by comparisons that are called, so that the sort itself is there once.

use alloc::vec::Vec;
use core::cmp::Ordering;

/// As many elements are sorted in their places.
const FEW: usize = 16;

/// Sorts; equal elements stay in their order. Moves each element once at most if there are more than a few.
pub fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// Sorts by a key; elements with equal keys stay in their order.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |one, other| key(one).cmp(&key(other)));
}

/// Sorts by a comparison; elements that are equal by it stay in their order.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    if items.len() > FEW {
        let order = order(items.len(), &|one, other| compare(&items[one], &items[other]).is_lt());
        return arrange(items, order);
    }
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && compare(&items[at], &items[at - 1]).is_lt() {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// The positions of so many elements in the order that `is_less` says, by merging.
#[inline(never)]
fn order(len: usize, is_less: &dyn Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut from: Vec<usize> = (0..len).collect();
    let mut to = from.clone();
    let mut run = 1;
    while run < len {
        let mut start = 0;
        while start < len {
            let middle = len.min(start + run);
            let end = len.min(start + 2 * run);
            let (mut left, mut right) = (start, middle);
            // What is in order already is not compared further.
            if right < end && !is_less(from[right], from[right - 1]) {
                right = end;
                to[middle..end].copy_from_slice(&from[middle..end]);
            }
            let merged = if right == end { start..middle } else { start..end };
            for place in &mut to[merged] {
                let takes_right = left == middle || (right < end && is_less(from[right], from[left]));
                let next = if takes_right { &mut right } else { &mut left };
                *place = from[*next];
                *next += 1;
            }
            start = end;
        }
        core::mem::swap(&mut from, &mut to);
        run *= 2;
    }
    from
}

/// Puts the element at `order[0]` first, and so on.
fn arrange<T>(items: &mut [T], mut order: Vec<usize>) {
    for start in 0..order.len() {
        let mut at = start;
        loop {
            let from = core::mem::replace(&mut order[at], at);
            if from == start || from == at {
                break;
            }
            items.swap(at, from);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Expect: the order of the standard library's stable sort, also among equal keys.
        #[test]
        fn it_sorts_as_the_standard_library_does(items in proptest::collection::vec((0_u8..20, any::<u16>()), 0..300)) {
            let (mut sorted, mut expected) = (items.clone(), items.clone());
            sort_by_key(&mut sorted, |item| item.0);
            expected.sort_by_key(|item| item.0);
            prop_assert_eq!(&sorted, &expected);
            sort(&mut sorted);
            expected.sort();
            prop_assert_eq!(&sorted, &expected);
            sort_by(&mut sorted, |one, other| other.cmp(one));
            expected.reverse();
            prop_assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn what_is_sorted_is_compared_once_a_run() {
        let compared = core::cell::Cell::new(0);
        let mut items: Vec<u32> = (0..1024).collect();
        sort_by(&mut items, |one, other| {
            compared.set(compared.get() + 1);
            one.cmp(other)
        });
        assert!(items.is_sorted());
        assert_eq!(compared.get(), 1023);
    }
}
