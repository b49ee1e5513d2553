//! Patterns of communication, as lists of the traffic between pairs. Each is a pure function of its
//! parameters.

use crate::plan::Traffic;
use weft_core::time::{Duration, Instant};
use weft_random::Random;

/// Messages there and back in turn.
pub fn ping_pong(messages: u32, bytes: u64) -> Vec<Traffic> {
    let one =
        |from, to, lead| Traffic { messages, sizes: (bytes, bytes), lead: Some(lead), ..Traffic::between(from, to) };
    vec![one(0, 1, 1), one(1, 0, 0)]
}

/// Bulk data from 0 to 1.
pub fn stream(ranges: Vec<u64>) -> Vec<Traffic> {
    vec![Traffic { bulk: ranges, ..Traffic::between(0, 1) }]
}

/// Many messages from 0 to 1, as fast as they leave.
pub fn small_messages(messages: u32, sizes: (u64, u64)) -> Vec<Traffic> {
    vec![Traffic { messages, sizes, per_turn: 512, ..Traffic::between(0, 1) }]
}

/// Messages and bulk both ways between 0 and 1.
pub fn both_ways(random: &mut Random, messages: u32, bulk: u64) -> Vec<Traffic> {
    let mut one = |from, to| Traffic {
        messages,
        sizes: (0, random.pick(&[8, 100, 1400])),
        bulk: vec![bulk / 2, bulk / 3, bulk - bulk / 2 - bulk / 3],
        per_turn: random.between(1, 32) as u32,
        gap: Duration(random.below(20_000)),
        ..Traffic::between(from, to)
    };
    vec![one(0, 1), one(1, 0)]
}

/// Bulk data from all other ranks to 0 at the same time.
pub fn incast(ranks: u32, bytes: u64) -> Vec<Traffic> {
    (1..ranks).map(|from| Traffic { bulk: vec![bytes], ..Traffic::between(from, 0) }).collect()
}

/// Bulk data from every rank to every other, each beginning with its next neighbour.
pub fn all_to_all(ranks: u32, bytes: u64) -> Vec<Traffic> {
    let pair = |own: u32, step: u32| Traffic { bulk: vec![bytes], ..Traffic::between(own, (own + step) % ranks) };
    (1..ranks).flat_map(|step| (0..ranks).map(move |own| pair(own, step))).collect()
}

/// Bulk data from every rank to another rank, by a random permutation: each rank receives from one rank.
pub fn permutation(random: &mut Random, ranks: u32, bytes: u64) -> Vec<Traffic> {
    let mut order: Vec<u32> = (0..ranks).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    let next = |i: usize| order[(i + 1) % order.len()];
    (0..order.len()).map(|i| Traffic { bulk: vec![bytes], ..Traffic::between(order[i], next(i)) }).collect()
}

/// The messages of a barrier by dissemination, `rounds` times: a small message to the ranks 1, 2, 4 … further
/// (Hensgen, Finkel, Manber: Two algorithms for barrier synchronization, 1988).
///
/// The rounds follow each other `period` apart.
pub fn barriers(ranks: u32, rounds: u32, period: Duration) -> Vec<Traffic> {
    let steps = (0..32).map(|bit| 1 << bit).take_while(|step| *step < ranks);
    let pair = |own: u32, step: u32| Traffic {
        messages: rounds,
        sizes: (24, 24),
        per_turn: 1,
        gap: period,
        ..Traffic::between(own, (own + step) % ranks)
    };
    steps.flat_map(|step| (0..ranks).map(move |own| pair(own, step))).collect()
}

/// Messages and bulk data between neighbours on a ring, each pair in its own time.
pub fn neighbours(random: &mut Random, ranks: u32, messages: u32, bulk: u64) -> Vec<Traffic> {
    let mut traffic = Vec::new();
    for own in 0..ranks {
        let next = (own + 1) % ranks;
        let mut others = vec![next];
        // Two ranks are each other's only neighbour.
        if ranks > 2 {
            others.push((own + ranks - 1) % ranks);
        }
        for other in others {
            traffic.push(Traffic {
                messages,
                sizes: (0, random.pick(&[8, 100, 1400])),
                bulk: vec![bulk],
                per_turn: random.between(1, 32) as u32,
                gap: Duration(random.below(20_000)),
                begin: Instant(random.below(100_000)),
                ..Traffic::between(own, other)
            });
        }
    }
    traffic
}

/// Traffic of any kind between any pairs, in sizes that fit packets of `packet` bytes.
pub fn anything(random: &mut Random, ranks: u32, packet: u64) -> Vec<Traffic> {
    let mut traffic = Vec::new();
    for from in 0..ranks {
        for to in (0..ranks).filter(|to| *to != from) {
            if random.chance(600_000) {
                traffic.push(something(random, from, to, packet));
            }
        }
    }
    traffic
}

fn something(random: &mut Random, from: u32, to: u32, packet: u64) -> Traffic {
    let mut bulk = Vec::new();
    for _ in 0..random.below(5) {
        bulk.push(random.between(1, 60 * packet));
    }
    let low = random.below(50);
    Traffic {
        messages: random.below(400) as u32,
        sizes: (low, low + random.below(packet)),
        bulk,
        per_turn: random.between(1, 50) as u32,
        gap: Duration(random.below(100_000)),
        ..Traffic::between(from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn patterns_have_each_pair_once_and_nobody_alone() {
        for ranks in [2, 3, 7, 16] {
            let mut random = Random::new(ranks.into());
            let patterns = [
                incast(ranks, 1),
                all_to_all(ranks, 1),
                permutation(&mut random, ranks, 1),
                barriers(ranks, 1, Duration(0)),
                neighbours(&mut random, ranks, 1, 1),
            ];
            for traffic in patterns {
                let pairs: BTreeSet<_> = traffic.iter().map(|traffic| (traffic.from, traffic.to)).collect();
                assert_eq!(pairs.len(), traffic.len());
                assert!(pairs.iter().all(|(from, to)| from != to && *from.max(to) < ranks));
                let talking: BTreeSet<_> = pairs.iter().flat_map(|(from, to)| [from, to]).collect();
                assert_eq!(talking.len(), ranks as usize);
            }
            assert_eq!(all_to_all(ranks, 1).len(), (ranks * (ranks - 1)) as usize);
            let receivers: BTreeSet<_> = permutation(&mut random, ranks, 1).iter().map(|traffic| traffic.to).collect();
            assert_eq!(receivers.len(), ranks as usize);
        }
    }
}
