//! Shapes of process grids (`MPI_Dims_create`, MPI-5.0 §8.5.2).

/// `nodes` as a product of `count` factors that are as close to each other as possible, in non-increasing order: the
/// largest factor is the smallest possible one, and so on with the rest.
///
/// # Panics
/// `nodes` is 0.
pub fn balanced(nodes: u32, count: usize) -> Vec<u32> {
    assert!(nodes > 0, "no grid without nodes");
    let mut factors = Vec::with_capacity(count);
    let mut rest = nodes;
    let mut limit = nodes;
    while factors.len() < count {
        let left = count - factors.len();
        let candidates = divisors(rest).into_iter().filter(|divisor| *divisor <= limit);
        // `nodes` itself leaves a product of ones, and what is left was found to be possible with this limit.
        limit = candidates.into_iter().find(|divisor| fits(rest / divisor, left - 1, *divisor)).unwrap_or(rest);
        factors.push(limit);
        rest /= limit;
    }
    factors
}

/// Whether `nodes` is a product of `count` factors of at most `limit`.
fn fits(nodes: u32, count: usize, limit: u32) -> bool {
    if nodes <= 1 {
        return true;
    }
    let room = u128::from(limit).checked_pow(u32::try_from(count).unwrap_or(u32::MAX));
    if room.is_some_and(|room| u128::from(nodes) > room) {
        return false;
    }
    // A number has at most 31 prime factors, so the recursion ends by the check above or by running out of them.
    let divisors = divisors(nodes);
    divisors
        .into_iter()
        .rev()
        .filter(|divisor| (2..=limit).contains(divisor))
        .any(|divisor| fits(nodes / divisor, count - 1, divisor))
}

/// All divisors, ascending.
fn divisors(number: u32) -> Vec<u32> {
    let small: Vec<u32> = (1..=number.isqrt()).filter(|divisor| number.is_multiple_of(*divisor)).collect();
    let large = small
        .iter()
        .rev()
        .map(|divisor| number / divisor)
        .filter(|divisor| divisor.checked_mul(*divisor) != Some(number));
    let large: Vec<u32> = large.collect();
    [small, large].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_balanced() {
        let table: [(u32, &[u32]); 12] = [
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
            (1 << 30, &[1 << 15, 1 << 15]),
            (2_147_483_647, &[2_147_483_647, 1]),
        ];
        for (nodes, expected) in table {
            assert_eq!(balanced(nodes, expected.len()), expected, "{nodes}");
        }
        assert_eq!(balanced(64, 6), [2; 6]);
        assert_eq!(balanced(5, 0), [0_u32; 0]);
    }

    #[test]
    fn all_small_grids_have_the_product_and_the_order() {
        for nodes in 1..600 {
            for count in 1..6 {
                let factors = balanced(nodes, count);
                assert_eq!((factors.len(), factors.iter().product::<u32>()), (count, nodes));
                assert!(factors.is_sorted_by(|one, next| one >= next), "{factors:?}");
            }
        }
    }
}
