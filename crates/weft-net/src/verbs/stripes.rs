//! The cutting of an access to a peer's memory into stripes, one for each rail: a pure function.

use std::ops::Range;

use super::RAILS_MAX;

/// Smallest stripe. A smaller access stays whole, because each stripe is a registration, a work request and a
/// completion.
pub(super) const STRIPE_MIN: u64 = 32 << 10;
/// Alignment of stripes in the target's memory: no two devices write to one page.
const ALIGNMENT: u64 = 4096;
const _: () = assert!(STRIPE_MIN >= 2 * ALIGNMENT);

/// Returns the range that each rail carries of `length` bytes that begin at `address` of the target. For each
/// rail that may be used `weights` has its speed, 0 where the speed is not known. The first rail is the one
/// that is used alone. The ranges together are the whole, one behind the other; the range of an unused rail
/// is empty.
pub(super) fn stripes(address: u64, length: u64, weights: &[u32]) -> [Range<u64>; RAILS_MAX] {
    let are_known = weights.iter().all(|weight| *weight > 0);
    let mut shares = [0_u64; RAILS_MAX];
    let count = if length < 2 * STRIPE_MIN { 1 } else { weights.len().min(RAILS_MAX) };
    for (share, weight) in shares[..count].iter_mut().zip(weights) {
        *share = if are_known { u64::from(*weight) } else { 1 };
    }
    // A rail whose share is too small gets none: the slowest rail first, and of equally slow ones the last.
    let slowest = |shares: &[u64]| {
        let used = shares.iter().copied().zip(0_usize..).filter(|(share, _)| *share > 0);
        used.min_by_key(|(share, rail)| (*share, RAILS_MAX - rail))
    };
    while let Some((share, rail)) = slowest(&shares[..count])
        && share < shares.iter().sum()
        && u128::from(length) * u128::from(share)
            < u128::from(STRIPE_MIN) * shares.iter().map(|share| u128::from(*share)).sum::<u128>()
    {
        shares[rail] = 0;
    }
    let total: u64 = shares.iter().sum::<u64>().max(1);
    let last = (0..count).rev().find(|rail| shares[*rail] > 0).unwrap_or(0);
    let (mut begin, mut counted) = (0, 0);
    std::array::from_fn(|rail| {
        if rail >= count || shares[rail] == 0 {
            return begin..begin;
        }
        counted += shares[rail];
        let fair = (u128::from(length) * u128::from(counted) / u128::from(total)) as u64;
        let aligned = fair.saturating_sub(address.wrapping_add(fair) % ALIGNMENT);
        let end = if rail == last { length } else { aligned.max(begin) };
        std::mem::replace(&mut begin, end)..end
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(address: u64, length: u64, weights: &[u32]) -> [u64; RAILS_MAX] {
        stripes(address, length, weights).map(|range| range.end - range.start)
    }

    #[test]
    fn what_is_small_stays_whole_and_what_is_large_is_shared() {
        let two = [100_000, 100_000];
        assert_eq!(lengths(0, 1, &two), [1, 0]);
        assert_eq!(lengths(0, 2 * STRIPE_MIN - 1, &two), [2 * STRIPE_MIN - 1, 0]);
        assert_eq!(lengths(0, 2 * STRIPE_MIN, &two), [STRIPE_MIN; 2]);
        assert_eq!(lengths(0, 1 << 20, &two), [1 << 19; 2]);
        assert_eq!(lengths(0, 1 << 20, &[100_000]), [1 << 20, 0], "there is one rail");
    }

    #[test]
    fn faster_rails_are_given_more_and_much_slower_ones_nothing() {
        assert_eq!(lengths(0, 1 << 20, &[75_000, 25_000]), [3 << 18, 1 << 18]);
        assert_eq!(lengths(0, 1 << 20, &[100_000, 1_000]), [1 << 20, 0]);
        assert_eq!(lengths(0, 1 << 20, &[100_000, 0]), [1 << 19; 2], "nothing is known of one of them");
    }

    /// The stripes of all rails follow each other, are the whole, and are not cut within a page of the
    /// target.
    #[test]
    fn stripes_are_the_whole_once_whatever_its_place_and_length() {
        for address in [0, 1, 4095, 4096, 12_345, u64::MAX - 5, u64::MAX - (1 << 20)] {
            for length in
                [0, 1, 4096, STRIPE_MIN, 2 * STRIPE_MIN, 2 * STRIPE_MIN + 1, 100_003, 1 << 20, (1 << 30) - 1, u64::MAX]
            {
                for weights in [&[1_u32][..], &[1, 1], &[3, 7], &[u32::MAX, 1], &[0, 0], &[u32::MAX, u32::MAX]] {
                    let mut end = 0;
                    for range in stripes(address, length, weights) {
                        assert_eq!(range.start, end);
                        assert!(range.end >= range.start);
                        let is_cut = range.end < length && range.end > range.start;
                        assert!(
                            !is_cut || address.wrapping_add(range.end) % ALIGNMENT == 0,
                            "{address} {length} {weights:?} {range:?}"
                        );
                        let is_part = range.end - range.start < length && range.start < range.end;
                        assert!(
                            !is_part || range.end - range.start > STRIPE_MIN - 2 * ALIGNMENT,
                            "{range:?} of {length}"
                        );
                        end = range.end;
                    }
                    assert_eq!(end, length);
                }
            }
        }
    }
}
