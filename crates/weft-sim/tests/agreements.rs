//! Agreements of processes that die at any moment, a fixed selection of seeds, and their time.

use weft_sim::agreement::{Network, Played, play, time_to_shrink, time_without_failures};

#[test]
fn agreements_agree_whoever_dies_when() {
    let mut sum = Played::default();
    for seed in 0..1500 {
        match play(seed) {
            Ok(played) => sum.add(&played),
            Err(what) => panic!("{what}\nreplay: cargo run -p weft-sim -- agreements --seed {seed:#x}"),
        }
    }
    assert!(sum.deaths > 1500 && sum.rounds > 1500, "{sum:?}");
}

/// Expect: an agreement of 1024 processes takes no more than three times an allreduce of 8 bytes by recursive
/// doubling: ten exchanges, in each of which a process sends one message and takes one in.
#[test]
fn an_agreement_without_failures_takes_no_more_than_three_small_allreduces() {
    let network = Network { latency_ns: 2_000, delay_ns_max: 0, overhead_ns: 300, notice_ns_max: 0 };
    let allreduce = 10 * (network.latency_ns + 2 * network.overhead_ns);
    let agreement = time_without_failures(1024, network).unwrap();
    assert!(agreement <= 3 * allreduce, "{agreement} ns beside {allreduce} ns");
}

/// Expect: without its coordinator a group becomes smaller in a time that grows with the logarithm of its
/// size, apart from the messages of the new coordinator to its new children.
#[test]
fn a_shrinking_of_many_processes_takes_little_longer_than_one_of_few() {
    let network = Network { latency_ns: 2_000, delay_ns_max: 0, overhead_ns: 300, notice_ns_max: 5_000 };
    let times = [4, 16, 64, 256, 1024, 4096].map(|ranks| time_to_shrink(ranks, network).unwrap());
    println!("nanoseconds until all that live have a smaller group, 4 to 4096 processes: {times:?}");
    assert!(times[5] <= 8 * times[0], "{times:?}");
}
