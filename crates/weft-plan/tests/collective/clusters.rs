//! Clusters that one link joins: the messages that cross it, and the times where crossing it takes long.

use weft_plan::collective::choice::{Choices, Layout, Operation};
use weft_plan::collective::cost::{Case, Network};

const MILLISECOND: u64 = 1_000_000;

/// Two clusters of `hosts` with `per_host` ranks each, in the order of ranks or in turn.
fn layouts(hosts: u32, per_host: u32, takes_turns: bool) -> (u32, Layout, impl Fn(u32) -> u32 + Copy) {
    let ranks = 2 * hosts * per_host;
    let host = move |rank: u32| if takes_turns { rank % (2 * hosts) } else { rank / per_host };
    let cluster = move |rank: u32| if takes_turns { host(rank) % 2 } else { host(rank) / hosts };
    let clusters: Vec<u32> = (0..ranks).map(cluster).collect();
    (ranks, Layout::of((0..ranks).map(host).collect()).with_clusters(&clusters), cluster)
}

#[test]
fn each_collective_crosses_the_link_once_in_each_direction_that_it_needs() {
    let choices = Choices::without_settings();
    for (hosts, per_host, takes_turns) in [(4, 1, false), (16, 1, false), (4, 4, false), (3, 2, true), (16, 1, true)] {
        let (ranks, layout, cluster) = layouts(hosts, per_host, takes_turns);
        for bytes in [8, 16 << 10] {
            let bytes = u64::next_multiple_of(bytes, u64::from(ranks));
            let of = |operation| Case { operation, ranks, bytes }.crossings(&choices, &layout, cluster);
            let label = format!("{hosts} hosts, {per_host} ranks on each, in turn: {takes_turns}, {bytes} bytes");
            assert_eq!(of(Operation::Barrier), [1, 1], "barrier, {label}");
            assert_eq!(of(Operation::Bcast), [1, 0], "bcast, {label}");
            assert_eq!(of(Operation::Reduce), [0, 1], "reduce, {label}");
            assert_eq!(of(Operation::Allreduce), [1, 1], "allreduce, {label}");
            if !takes_turns {
                assert_eq!(of(Operation::Allgather), [1, 1], "allgather, {label}");
            }
        }
    }
}

/// The link takes some milliseconds.   Expect: each operation takes as long as one crossing, and little more.
#[test]
fn where_crossing_takes_long_a_collective_takes_as_long_as_crossing_once() {
    let choices = Choices::without_settings();
    let (hosts, link_ns) = (16, 10 * MILLISECOND);
    let network = Network::clusters(hosts, link_ns);
    let (ranks, layout, cluster) = layouts(hosts, 1, false);
    let unaware = Layout::apart(ranks);
    for operation in
        [Operation::Barrier, Operation::Bcast, Operation::Reduce, Operation::Allreduce, Operation::Allgather]
    {
        let case = Case { operation, ranks, bytes: 1024 };
        let time = |layout: &Layout| case.time(&network, &choices, layout, usize::MAX).expect("a time");
        assert!(
            (link_ns..link_ns + MILLISECOND).contains(&time(&layout)),
            "{}: {} ns",
            operation.name(),
            time(&layout)
        );
        let sum = |layout: &Layout| case.crossings(&choices, layout, cluster).iter().sum::<u64>();
        // A broadcast down a binomial tree crosses once anyway, where ranks of a cluster follow each other.
        assert!(sum(&unaware) >= sum(&layout), "{}: {} messages cross", operation.name(), sum(&unaware));
    }
}

#[test]
fn one_order_of_operands_and_one_cluster_leave_everything_as_it_is() {
    let (ranks, layout, cluster) = layouts(4, 1, false);
    let same = Layout::apart(ranks);
    let case = Case { operation: Operation::Allreduce, ranks, bytes: 8 };
    let one_order = Choices::without_settings().with_one_order(true);
    assert_eq!(case.crossings(&one_order, &layout, cluster), case.crossings(&one_order, &same, cluster));
    assert_eq!(same.clone().with_clusters(&vec![7; ranks as usize]).clusters(), None);
    assert_eq!(same.clone().with_clusters(&(0..ranks).collect::<Vec<_>>()).clusters(), None);
    // Ranks of a node are in its first rank's cluster.
    let nodes = Layout::of(vec![0, 0, 1, 1]).with_clusters(&[5, 9, 9, 5]);
    assert_eq!(nodes.clusters(), Some((&[0, 0, 1, 1][..], 2)));
}
