//! How the news that a communicator is revoked spreads (`MPIX_Comm_revoke`): every living process hears of
//! it, whoever dies meanwhile.
//!
//! Each process that hears of it tells its neighbours in the binomial graph: the ranks whose distance is a
//! power of two, around the circle (Bosilca et al., "A failure detector and propagation for exascale", SC
//! '16). In place of a neighbour that has failed it tells that one's neighbours. So any two living
//! processes stay connected, and the news is spread with about `2 log n` messages of each process.

use alloc::vec::Vec;

use crate::agreement::Ranks;

/// The processes that `rank` of `size` tells when these have failed, without itself.
pub fn neighbours(rank: u32, size: u32, failed: &Ranks) -> Ranks {
    let mut seen = Ranks::of([rank]);
    let mut told = Ranks::new();
    let mut looked_from: Vec<u32> = [rank].into();
    while let Some(from) = looked_from.pop() {
        for neighbour in around(from, size) {
            if !seen.insert(neighbour) {
                continue;
            }
            if failed.contains(neighbour) {
                looked_from.push(neighbour);
            } else {
                told.insert(neighbour);
            }
        }
    }
    told
}

/// The neighbours of a rank in the binomial graph of `size` ranks.
fn around(rank: u32, size: u32) -> impl Iterator<Item = u32> {
    let distances = (0..u32::BITS).map(|bit| 1_u32 << bit).take_while(move |distance| *distance < size);
    distances.flat_map(move |distance| {
        let up = (u64::from(rank) + u64::from(distance)) % u64::from(size);
        let down = (u64::from(rank) + u64::from(size) - u64::from(distance)) % u64::from(size);
        [up as u32, down as u32]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The processes that hear of a revocation by `first`, when these have failed.
    fn heard(first: u32, size: u32, failed: &Ranks) -> Ranks {
        let mut heard = Ranks::of([first]);
        let mut tellers: Vec<u32> = [first].into();
        while let Some(teller) = tellers.pop() {
            tellers.extend(neighbours(teller, size, failed).iter().filter(|rank| heard.insert(*rank)));
        }
        heard
    }

    #[test]
    fn all_that_live_hear_of_it_whoever_has_failed() {
        for size in 1..10 {
            for failures in 0..1_u64 << size {
                let failed = Ranks::from_words([failures].into_iter(), size).unwrap();
                let living = Ranks::of((0..size).filter(|rank| !failed.contains(*rank)));
                for first in living.iter() {
                    assert_eq!(heard(first, size, &failed), living, "{first} of {size} without {failed:?}");
                }
            }
        }
    }

    #[test]
    fn a_process_tells_few_others() {
        let none = Ranks::new();
        assert_eq!(neighbours(0, 1, &none), none);
        assert_eq!(neighbours(0, 2, &none), Ranks::of([1]));
        assert!((0..1024).all(|rank| neighbours(rank, 1024, &none).len() == 19));
        let without = neighbours(0, 1024, &Ranks::of([1]));
        assert!(without.contains(3) && !without.contains(1) && !without.contains(0));
    }
}
