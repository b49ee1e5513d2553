//! Plans from random parts: each byte has one aggregator and one round.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

const POLICY: Policy = Policy {
    wish: Wish::Always,
    run_ns: 500,
    exchanged_per_us: 4000,
    exchange_ns: 20_000,
    aggregators_of_node: 2,
    aggregators_max: u32::MAX,
    window: 64,
    stripe: 16,
};

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = (0_u64..3000, 0_u64..500, 0_u32..3).prop_map(|(start, bytes, node)| Part {
        start,
        end: start + 2 * bytes,
        bytes,
        runs: bytes.min(7),
        is_ordered: true,
        node,
    });
    prop::collection::vec(part, 1..9)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Random parts on three nodes.   Expect: domains that are the span of all data without a gap, on
    /// different ranks, at most two of a node, begun at stripes; windows that are the domains without a gap.
    #[test]
    fn each_byte_has_one_aggregator_and_one_round(parts in parts(), of_node in 1_u32..4, most in 1_u32..7) {
        let policy = Policy { aggregators_of_node: of_node, aggregators_max: most, ..POLICY };
        let Some(plan) = plan(&parts, &policy) else {
            prop_assert!(parts.iter().all(|part| part.bytes == 0));
            return Ok(());
        };
        let with_data = || parts.iter().filter(|part| part.bytes > 0);
        let mut at = with_data().map(|part| part.start).min().unwrap();
        let end = with_data().map(|part| part.end).max().unwrap();
        prop_assert!(plan.domains.len() <= most as usize);
        for (index, domain) in plan.domains.iter().enumerate() {
            prop_assert_eq!(domain.range.start, at);
            prop_assert!(index == 0 || at % policy.stripe == 0);
            let node = parts[domain.rank as usize].node;
            let same = plan.domains.iter().filter(|other| parts[other.rank as usize].node == node);
            prop_assert!(same.count() <= of_node as usize);
            for round in 0..plan.rounds + 2 {
                let window = plan.window_of(domain, round);
                prop_assert!(window.start == at || window.is_empty());
                prop_assert!(window.end - window.start <= plan.window);
                at = at.max(window.end);
            }
            prop_assert_eq!(domain.range.end, at);
        }
        prop_assert_eq!(at, end);
        let ranks: Vec<u32> = plan.domains.iter().map(|domain| domain.rank).collect();
        prop_assert!(ranks.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

/// Four processes, each with every fourth piece of 256 KB.   Expect: two phases for pieces of 64 bytes, and
/// none for pieces of 64 KB, for one process, for parts one behind the other, and for data that goes back.
#[test]
fn the_costs_decide() {
    let policy = Policy { wish: Wish::Automatic, ..POLICY };
    let interleaved = |piece: u64| -> Vec<Part> {
        let bytes = 1 << 20;
        let part = |rank: u64| Part {
            start: rank * piece,
            end: 4 * bytes - (3 - rank) * piece,
            bytes,
            runs: bytes / piece,
            is_ordered: true,
            node: 0,
        };
        (0..4).map(part).collect()
    };
    assert!(plan(&interleaved(64), &policy).is_some());
    assert!(plan(&interleaved(64 << 10), &policy).is_none());
    assert!(plan(&interleaved(64)[..1], &policy).is_none());
    let apart: Vec<Part> = interleaved(64)
        .iter()
        .enumerate()
        .map(|(rank, part)| Part { start: (rank as u64) << 22, end: (rank as u64 + 1) << 22, ..*part })
        .collect();
    assert!(plan(&apart, &policy).is_none());
    let mut back = interleaved(64);
    back[2].is_ordered = false;
    assert!(plan(&back, &POLICY).is_none());
    assert!(plan(&interleaved(64), &Policy { wish: Wish::Never, ..policy }).is_none());
    assert!(plan(&interleaved(64 << 10), &POLICY).is_some());
}
