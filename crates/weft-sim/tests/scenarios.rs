//! Every scenario over a fixed selection of seeds.

use weft_core::time::Duration;
use weft_sim::plan::{Faults, Plan};
use weft_sim::random::Random;
use weft_sim::report::Report;
use weft_sim::scenario::{find, play, replay_line};
use weft_sim::world;

fn check(name: &str, seeds: std::ops::Range<u64>) -> Vec<Report> {
    let scenario = find(name).expect("a scenario of that name");
    seeds
        .map(|seed| match play(scenario, seed, false) {
            Ok(report) => report,
            Err(violation) => panic!("{violation}\nreplay: {}", replay_line(name, seed)),
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
    check("lossy", 0..12);
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
    }
}

#[test]
fn stalled() {
    check("stalled", 0..16);
}

#[test]
fn narrow() {
    check("narrow", 0..8);
}

/// How much later all had arrived because of the packets a scenario loses, and the round trip of the empty link.
fn delay_by_loss(name: &str, seed: u64) -> (Duration, Duration) {
    let plan = find(name).expect("a scenario of that name")(&mut Random::new(seed));
    let without = Plan { faults: Faults::default(), ..plan.clone() };
    let [lossy, clean] = [&plan, &without].map(|plan| world::run(plan, seed).expect("both runs succeed"));
    assert_eq!((lossy.counters.resent(), clean.counters.resent()), (1, 0), "{}", replay_line(name, seed));
    let packet = Duration(plan.settings.packet_size as u64 * 8000 / plan.links.rate);
    let round_trip = Duration(2 * plan.links.latency.0 + 2 * packet.0 + 4 * plan.links.packet_cost.0);
    (Duration(lossy.delivered_at.0.saturating_sub(clean.delivered_at.0)), round_trip)
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
fn swarm() {
    check("swarm", 0..80);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let [first, second] = [0, 1].map(|_| check("swarm", 7..8).remove(0));
    assert_eq!(first.to_string(), second.to_string());
}
