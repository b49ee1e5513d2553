//! Every scenario over a fixed selection of seeds.

use weft_core::time::Duration;
use weft_random::Random;
use weft_sim::plan::Plan;
use weft_sim::report::Report;
use weft_sim::scenario::{SCENARIOS, find, play, replay_line};
use weft_sim::world;

fn check(name: &str, seeds: std::ops::Range<u64>) -> Vec<Report> {
    let scenario = find(name).expect("a scenario of that name");
    seeds
        .map(|seed| match play(scenario, seed) {
            Ok(report) => report,
            Err(violation) => panic!("{violation}\nreplay: {}", replay_line(name, seed, &[])),
        })
        .collect()
}

#[test]
fn ping_pong() {
    for report in check("ping_pong", 0..4) {
        assert_eq!(report.counters.messages_received, 4_000);
    }
}

#[test]
fn stream() {
    check("stream", 0..8);
}

#[test]
fn bidirectional() {
    check("bidirectional", 0..6);
}

#[test]
fn small_messages() {
    check("small_messages", 0..3);
}

#[test]
fn lossy() {
    for report in check("lossy", 0..12) {
        assert!(report.resends.lost > 0 && report.resends.spurious() == 0);
    }
}

#[test]
fn bursts() {
    check("bursts", 0..16);
}

#[test]
fn reordering() {
    check("reordering", 0..12);
}

#[test]
fn swaps() {
    for report in check("swaps", 0..12) {
        assert!(report.counters.reordered > 0);
    }
}

#[test]
fn hostile() {
    for report in check("hostile", 0..8) {
        assert!(report.counters.forged > 0 && report.counters.duplicates > 0);
        assert!(report.resends.damaged > 0);
    }
}

/// Damaged packets must not pass. A tag that covered only the start of a packet once let a damaged selective
/// map through: the sender forgot packets that had never arrived, and one run in five hung.
#[test]
fn damaged() {
    for report in check("damaged", 0..24) {
        assert!(report.counters.forged > 0);
    }
}

/// Processes and their progress threads run for 10 ms in each 100.
///
/// Expect: no peer is given up, and few packets are retransmitted needlessly.
#[test]
fn overloaded() {
    check("overloaded", 0..16);
}

#[test]
fn stalled() {
    check("stalled", 0..16);
}

#[test]
fn narrow() {
    for report in check("narrow", 0..8) {
        assert!(report.resends.queue + report.resends.socket > 0);
    }
}

#[test]
fn overrun() {
    for report in check("overrun", 0..8) {
        assert!(report.resends.socket > 0);
    }
}

#[test]
fn shaped() {
    check("shaped", 0..6);
}

#[test]
fn clocks() {
    check("clocks", 0..4);
}

#[test]
fn flapping() {
    for report in check("flapping", 0..6) {
        assert!(report.resends.cut > 0);
    }
}

/// Seeds among which every latency is drawn.
#[test]
fn clusters() {
    check("clusters", 0..12);
}

/// Half the trunks of the way are never cut, and with some luck one of eight flows meets the cut one.
#[test]
fn trunk() {
    let reports = check("trunk", 0..6);
    assert!(reports.iter().any(|report| report.resends.cut > 0));
}

#[test]
fn permutation() {
    check("permutation", 0..2);
}

#[test]
fn spraying() {
    for report in check("spraying", 0..1) {
        assert!(report.counters.reordered > 0);
    }
}

#[test]
fn incast() {
    for report in check("incast", 0..1) {
        assert_eq!(report.transfers.count(), 255);
        // The limit is the bytes granted at a time, and the announcements of all: far less than a window of
        // each sender.
        let most = weft_core::grants::UNDER_WAY_MAX + (256 << 10);
        assert!(report.queue_bytes_max < most, "{}", report.queue_bytes_max);
    }
}

#[test]
fn incast_at_once() {
    for report in check("incast_at_once", 0..1) {
        assert!(report.resends.queue > 0 && report.transfers.count() == 255);
    }
}

#[test]
fn trains() {
    // The seed decides whether flows meet on a trunk.
    assert!(check("trains", 0..2).into_iter().any(|report| report.packets.marked > 0));
}

#[test]
fn all_to_all() {
    for report in check("all_to_all", 0..1) {
        assert_eq!(report.transfers.count(), 128 * 127);
    }
}

#[test]
fn barriers() {
    for report in check("barriers", 0..1) {
        assert_eq!(report.counters.messages_received, 1024 * 10 * 5);
    }
}

#[test]
fn thousands() {
    for report in check("thousands", 0..1) {
        // There are flows only between ranks that talk, on both sides.
        assert_eq!((report.transfers.count(), report.flows), (4096, 8192));
    }
}

/// The delay of the last arrival by the packets that a scenario loses, and the round trip of the empty link.
fn delay_by_loss(name: &str, seed: u64) -> (Duration, Duration) {
    let plan = find(name).expect("a scenario of that name")(&mut Random::new(seed));
    let without = Plan { nuisances: Vec::new(), ..plan.clone() };
    let [lossy, clean] = [&plan, &without].map(|plan| world::run(plan, seed).expect("both runs succeed"));
    assert_eq!((lossy.counters.resent(), clean.counters.resent()), (1, 0), "{}", replay_line(name, seed, &[]));
    let round_trip = plan.topology.round_trip(plan.settings.packet_size as u64).0 + 4 * plan.host.packet_cost.0;
    (Duration(lossy.delivered_at.0.saturating_sub(clean.delivered_at.0)), Duration(round_trip))
}

#[test]
fn one_loss_costs_less_than_two_round_trips() {
    check("one_loss", 0..4);
    for seed in 0..32 {
        let (delay, round_trip) = delay_by_loss("one_loss", seed);
        assert!(delay.0 < 2 * round_trip.0, "{} ns, round trip {} ns: seed {seed}", delay.0, round_trip.0);
    }
}

#[test]
fn a_lost_tail_costs_less_than_three_round_trips_and_the_probes_floor() {
    check("tail_loss", 0..4);
    for seed in 0..32 {
        let (delay, round_trip) = delay_by_loss("tail_loss", seed);
        let most = 3 * round_trip.0 + 200_000;
        assert!(delay.0 < most, "{} ns, at most {most} ns: seed {seed}", delay.0);
    }
}

#[test]
fn bulk_data_uses_all_rails_and_outlives_one_that_fails() {
    check("rails", 0..8);
    check("rails_in_turn", 0..8);
    check("rail_fails", 0..8);
    // Acknowledgements of thousands of packets with holes, after many that were lost.
    check("rail_fails", 5024..5032);
}

#[test]
fn a_path_carries_smaller_packets_in_the_middle() {
    check("mtu", 0..8);
}

#[test]
fn swarm() {
    check("swarm", 0..300);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let [first, second] = [0, 1].map(|_| check("swarm", 7..8).remove(0));
    assert_eq!(first.to_string(), second.to_string());
}

/// Every scenario must be played by a test in this file: a scenario that no test plays would be a mere
/// promise.
#[test]
fn every_scenario_is_played_here() {
    let source = include_str!("scenarios.rs");
    for (name, about, _) in SCENARIOS {
        let played = [format!("check(\"{name}\""), format!("delay_by_loss(\"{name}\"")];
        assert!(played.iter().any(|call| source.contains(call)), "nothing plays {name}: {about}");
    }
}
