//! Shapes of process grids (`MPI_Dims_create`, MPI-5.0 §8.5.2).

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// Factors beyond so many are 1: a number of 31 bits has 30 prime factors at most.
const FACTORS_MAX: usize = 31;

/// `nodes` as a product of `count` factors that are as close to each other as possible, in non-increasing order: the
/// difference between the largest and the smallest is the least there can be, and among those that have it, the sum. Where that
/// leaves a choice, the smallest is as large as possible, which is what MPICH gives.
///
/// # Panics
/// `nodes` is 0 or has more than 31 bits.
pub fn balanced(nodes: u32, count: usize) -> Vec<u32> {
    assert!((1..1 << 31).contains(&nodes), "no grid of {nodes} nodes");
    if count == 0 {
        return Vec::new();
    }
    let searched = count.min(FACTORS_MAX);
    let divisors = divisors(nodes);
    let mut best: Option<(u32, u64, Vec<u32>)> = None;
    for (spread, least, most) in windows(nodes, searched as u32, &divisors) {
        if best.as_ref().is_some_and(|(best, ..)| *best < spread) {
            break;
        }
        let mut search = Search { divisors: &divisors, least, most, known: BTreeMap::new() };
        if let Some(sum) = search.smallest_sum(nodes, searched)
            && best.as_ref().is_none_or(|(_, best, _)| sum < *best)
        {
            best = Some((spread, sum, search.factors(nodes, searched)));
        }
    }
    // The widest window has `nodes` itself and ones.
    let mut factors = best.map_or_else(|| vec![nodes], |(.., factors)| factors);
    factors.sort_unstable_by(|one, other| other.cmp(one));
    factors.resize(count, 1);
    factors
}

/// The ranges, from one divisor to another, in which `count` factors of `nodes` could lie: the narrowest first, of equally wide ones
/// the highest.
fn windows(nodes: u32, count: u32, divisors: &[u32]) -> Vec<(u32, u32, u32)> {
    let nodes_wide = u128::from(nodes);
    // Some factor has the largest prime.
    let prime = largest_prime(nodes);
    let could_be_least = |divisor: &&u32| u128::from(**divisor).checked_pow(count).is_some_and(|low| low <= nodes_wide);
    let could_be_most = |divisor: &&u32| {
        u128::from(**divisor).checked_pow(count).is_none_or(|high| high >= nodes_wide) && **divisor >= prime
    };
    let mut windows = Vec::new();
    for least in divisors.iter().filter(could_be_least) {
        for most in divisors.iter().filter(could_be_most) {
            windows.push((most - least, *least, *most));
        }
    }
    windows.sort_unstable_by_key(|(spread, least, _)| (*spread, core::cmp::Reverse(*least)));
    windows
}

/// Looks for factors from `least` to `most`.
struct Search<'a> {
    divisors: &'a [u32],
    least: u32,
    most: u32,
    /// For a number and how many factors it is to have: their smallest sum, and one of them.
    known: BTreeMap<(u32, usize), Option<(u64, u32)>>,
}

impl Search<'_> {
    /// The smallest sum that `count` factors of `number` can have.
    fn smallest_sum(&mut self, number: u32, count: usize) -> Option<u64> {
        if number == 1 {
            // All that are left are ones.
            return (count == 0 || self.least == 1).then_some(count as u64);
        }
        let exponent = count as u32;
        let too_small = u128::from(self.most).checked_pow(exponent).is_some_and(|high| high < u128::from(number));
        let too_large = u128::from(self.least).checked_pow(exponent).is_none_or(|low| low > u128::from(number));
        if count == 0 || too_small || too_large {
            return None;
        }
        if let Some(known) = self.known.get(&(number, count)) {
            return known.map(|(sum, _)| sum);
        }
        // Exactly one factor is taken to have this prime, so that no set of factors is looked at in many orders.
        let prime = largest_prime(number);
        let (from, to) = (self.least.max(prime), self.most.min(number));
        let first = self.divisors.partition_point(|divisor| *divisor < from);
        let end = self.divisors.partition_point(|divisor| *divisor <= to);
        let mut best: Option<(u64, u32)> = None;
        for index in first..end {
            let factor = self.divisors[index];
            if factor.is_multiple_of(prime)
                && number.is_multiple_of(factor)
                && let Some(rest) = self.smallest_sum(number / factor, count - 1)
            {
                let sum = rest + u64::from(factor);
                if best.is_none_or(|(best, _)| sum < best) {
                    best = Some((sum, factor));
                }
            }
        }
        self.known.insert((number, count), best);
        best.map(|(sum, _)| sum)
    }

    /// The factors that have this sum.
    fn factors(&self, number: u32, count: usize) -> Vec<u32> {
        let mut factors = Vec::with_capacity(count);
        let mut rest = number;
        while let Some(Some((_, factor))) = self.known.get(&(rest, count - factors.len())) {
            factors.push(*factor);
            rest /= factor;
        }
        factors.resize(count, 1);
        factors
    }
}

fn largest_prime(number: u32) -> u32 {
    let (mut rest, mut largest, mut candidate) = (number, 1, 2);
    while candidate <= rest / candidate {
        if rest.is_multiple_of(candidate) {
            rest /= candidate;
            largest = candidate;
        } else {
            candidate += 1;
        }
    }
    largest.max(rest)
}

/// All divisors, ascending.
fn divisors(number: u32) -> Vec<u32> {
    let mut divisors: Vec<u32> = (1..=number.isqrt()).filter(|divisor| number.is_multiple_of(*divisor)).collect();
    let large: Vec<u32> = divisors.iter().rev().map(|divisor| number / divisor).collect();
    divisors.extend(large);
    divisors.dedup();
    divisors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_balanced() {
        let table: [(u32, &[u32]); 17] = [
            (1, &[1, 1]),
            (6, &[3, 2]),
            (6, &[3, 2, 1]),
            (7, &[7]),
            (7, &[7, 1, 1]),
            (12, &[4, 3]),
            (16, &[4, 2, 2]),
            (27, &[3, 3, 3]),
            (36, &[4, 3, 3]),
            (72, &[6, 4, 3]),
            (5040, &[21, 16, 15]),
            // The smallest largest factor would be 24, with 24 and 13.
            (7488, &[26, 18, 16]),
            (1 << 30, &[1 << 15, 1 << 15]),
            (1 << 30, &[1 << 10, 1 << 10, 1 << 10]),
            (2_147_483_647, &[2_147_483_647, 1]),
            (2 * 1_073_741_789, &[1_073_741_789, 2, 1, 1]),
            (46_337 * 46_327, &[46_337, 46_327]),
        ];
        for (nodes, expected) in table {
            assert_eq!(balanced(nodes, expected.len()), expected, "{nodes}");
        }
        assert_eq!(balanced(64, 6), [2; 6]);
        assert_eq!(balanced(5, 0), [0_u32; 0]);
        let many = balanced(1 << 30, 40);
        assert_eq!((many.len(), &many[..31]), (40, &[&[2; 30][..], &[1]].concat()[..]));
    }

    /// All factorizations in non-increasing order.
    fn for_each_factorization(
        nodes: u32,
        count: usize,
        most: u32,
        factors: &mut Vec<u32>,
        visit: &mut dyn FnMut(&[u32]),
    ) {
        if count == 0 {
            if nodes == 1 {
                visit(factors);
            }
            return;
        }
        for factor in (1..=most.min(nodes)).filter(|factor| nodes.is_multiple_of(*factor)) {
            factors.push(factor);
            for_each_factorization(nodes / factor, count - 1, factor, factors, visit);
            factors.pop();
        }
    }

    fn unevenness(factors: &[u32]) -> (u32, u64) {
        let spread = factors[0] - factors[factors.len() - 1];
        (spread, factors.iter().map(|factor| u64::from(*factor)).sum())
    }

    #[test]
    fn nothing_is_more_even() {
        let numbers = (1..400).chain([720, 1024, 1260, 1680, 2310, 2520, 4096, 5040, 7488, 7560, 9240, 10_080]);
        for nodes in numbers {
            for count in 1..6 {
                let found = balanced(nodes, count);
                assert!(found.is_sorted_by(|one, next| one >= next), "{found:?}");
                assert_eq!((found.len(), found.iter().product::<u32>()), (count, nodes));
                let mut best = (u32::MAX, u64::MAX);
                let visit = &mut |factors: &[u32]| best = best.min(unevenness(factors));
                for_each_factorization(nodes, count, nodes, &mut Vec::new(), visit);
                assert_eq!(unevenness(&found), best, "{nodes} into {count}: {found:?}");
            }
        }
    }

    /// Numbers of hundreds of divisors, and of large primes beside many small ones: each is found at once.
    #[test]
    fn large_numbers_are_no_work() {
        for nodes in [2_095_133_040, 1_396_755_360, 223_092_870, 720_720 * 2971, 2_147_483_646, 2_147_483_520] {
            for count in 1..=33 {
                let found = balanced(nodes, count);
                assert_eq!((found.len(), found.iter().product::<u32>()), (count, nodes));
            }
        }
    }
}
