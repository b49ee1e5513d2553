//! Shapes of process grids (`MPI_Dims_create`, MPI-5.0 §8.5.2).

use alloc::vec;
use alloc::vec::Vec;

/// Most factors that are not 1: a number of 31 bits has 30 prime factors at most.
const FACTORS_MAX: usize = 31;

/// Writes `nodes` as a product of `count` factors that are as close to each other as possible, in
/// non-increasing order.
///
/// The difference between the largest and the smallest factor is the least possible, and then the sum is.
/// Where a choice is left, the smallest factor is as large as possible, as in MPICH.
///
/// # Panics When `nodes` is 0 or has more than 31 bits.
pub fn balanced(nodes: u32, count: usize) -> Vec<u32> {
    assert!((1..1 << 31).contains(&nodes), "no grid of {nodes} nodes");
    let searched = count.min(FACTORS_MAX);
    let mut factors = match searched {
        0 => return Vec::new(),
        1 => vec![nodes],
        _ => {
            let (divisors, largest_prime) = divisors(nodes);
            let mut search = Search { divisors: &divisors, chosen: [1; FACTORS_MAX], best: None };
            search.all(nodes, searched, largest_prime);
            let best = search.best.expect("the number itself and ones are such factors");
            best.factors[..searched].iter().rev().copied().collect()
        }
    };
    factors.resize(count, 1);
    factors
}

/// Looks for factors in non-decreasing order.
struct Search<'a> {
    divisors: &'a [u32],
    /// The chosen factors, the smallest first.
    chosen: [u32; FACTORS_MAX],
    best: Option<Best>,
}

/// The factors that are closest to each other so far.
struct Best {
    spread: u32,
    sum: u64,
    factors: [u32; FACTORS_MAX],
}

impl Search<'_> {
    /// Searches all factorizations that could be better than the best one known. The largest smallest factor
    /// comes first, since smaller ones are less even.
    fn all(&mut self, nodes: u32, count: usize, largest_prime: u32) {
        for index in (0..self.root(nodes, count)).rev() {
            let least = self.divisors[index];
            // The other factors have this product, so one of them is at least its root, and some factor has
            // the largest prime.
            let needed = |most: u32| most >= largest_prime && reaches(most, count - 1, nodes / least);
            if !needed(self.limit(least)) {
                return;
            }
            self.chosen[0] = least;
            self.choose(nodes / least, count, 1, index);
        }
    }

    /// The number of divisors that could be the smallest of `count` factors of `number`.
    fn root(&self, number: u32, count: usize) -> usize {
        self.divisors.partition_point(|divisor| *divisor == 1 || !reaches(*divisor - 1, count, number))
    }

    /// The largest factor allowed beside the smallest one: no further away than in the best known
    /// factorization.
    fn limit(&self, least: u32) -> u32 {
        self.best.as_ref().map_or(u32::MAX, |best| least.saturating_add(best.spread))
    }

    /// Chooses the factors of `rest`, from the factor with number `at` on. Each is at least as large as the
    /// one before. The first begins at divisor number `from`.
    fn choose(&mut self, rest: u32, count: usize, at: usize, from: usize) {
        let (least, before, left) = (self.chosen[0], self.chosen[at - 1], count - at);
        if left == 1 {
            if rest >= before {
                self.chosen[at] = rest;
                self.keep(rest - least, count);
            }
            return;
        }
        let mut limit = 0;
        for index in (from..self.root(rest, left)).rev() {
            if limit != self.limit(least) {
                limit = self.limit(least);
                if !reaches(limit, left, rest) {
                    return;
                }
            }
            let factor = self.divisors[index];
            if rest.is_multiple_of(factor) {
                self.chosen[at] = factor;
                self.choose(rest / factor, count, at + 1, index);
            }
        }
    }

    /// Keeps the chosen factors if they are better than the best known.
    fn keep(&mut self, spread: u32, count: usize) {
        let sum = self.chosen[..count].iter().map(|factor| u64::from(*factor)).sum();
        if self.best.as_ref().is_none_or(|best| (spread, sum) < (best.spread, best.sum)) {
            self.best = Some(Best { spread, sum, factors: self.chosen });
        }
    }
}

/// Returns whether `base` to the power of `exponent` is at least `number`.
fn reaches(base: u32, exponent: usize, number: u32) -> bool {
    if base < 2 {
        return base >= number;
    }
    let mut power = 1_u64;
    // At most 31 times: the power doubles each time.
    for _ in 0..exponent {
        power *= u64::from(base);
        if power >= u64::from(number) {
            return true;
        }
    }
    power >= u64::from(number)
}

/// All divisors, ascending, and the largest prime among them, or 1.
fn divisors(number: u32) -> (Vec<u32>, u32) {
    let (mut divisors, mut largest, mut rest) = (Vec::with_capacity(64), 1, number);
    divisors.push(1);
    let mut add = |prime: u32, times: u32| {
        let before = divisors.len();
        (0..before * times as usize).for_each(|at| divisors.push(divisors[at] * prime));
        largest = prime;
    };
    // What is no prime divides no more when its turn comes.
    for prime in core::iter::once(2).chain((3..=u32::from(u16::MAX)).step_by(2)) {
        if prime * prime > rest {
            break;
        }
        let mut times = 0;
        while rest.is_multiple_of(prime) {
            (rest, times) = (rest / prime, times + 1);
        }
        if times > 0 {
            add(prime, times);
        }
    }
    if rest > 1 {
        add(rest, 1);
    }
    weft_ordered::sort(&mut divisors);
    (divisors, largest)
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

    /// The result is the most even one by its definition, for numbers of all kinds and sizes. Slow numbers
    /// are left out of brute force: numbers with many divisors have very many factorizations.
    #[test]
    fn nothing_is_more_even_among_numbers_by_chance() {
        let mut random = weft_random::Random::new(1);
        for _ in 0..3000 {
            let nodes = random.between(1, 20_000) as u32;
            let count = random.between(2, 4) as usize;
            let found = balanced(nodes, count);
            assert_eq!((found.len(), found.iter().product::<u32>()), (count, nodes));
            let mut best = (u32::MAX, u64::MAX, 0);
            let visit = &mut |factors: &[u32]| {
                let (spread, sum) = unevenness(factors);
                best = best.min((spread, sum, u32::MAX - factors[factors.len() - 1]));
            };
            for_each_factorization(nodes, count, nodes, &mut Vec::new(), visit);
            let (spread, sum) = unevenness(&found);
            assert_eq!((spread, sum, u32::MAX - found[count - 1]), best, "{nodes} into {count}: {found:?}");
        }
    }

    #[test]
    fn divisors_are_those_that_divide() {
        let large = [46_337 * 46_337, 46_337 * 46_327, 2_147_483_647, 2_147_483_646, 2_095_133_040, 1 << 30];
        for number in (1..2000).chain(large) {
            let (found, largest) = divisors(number);
            assert!(found.is_sorted_by(|one, next| one < next) && found.iter().all(|divisor| number % divisor == 0));
            let (mut expected, mut primes) = (0, 1);
            for divisor in (1..=number.isqrt()).filter(|divisor| number.is_multiple_of(*divisor)) {
                expected += if divisor * divisor == number { 1 } else { 2 };
                for one in [divisor, number / divisor] {
                    if one > 1 && (2..=one.isqrt()).all(|other| !one.is_multiple_of(other)) {
                        primes = primes.max(one);
                    }
                }
            }
            assert_eq!((found.len(), largest), (expected, primes), "{number}");
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
