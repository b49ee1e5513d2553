//! Every scenario over a fixed selection of seeds.

use weft_sim::report::Report;
use weft_sim::scenario::{find, play, replay_line};

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

#[test]
fn one_loss() {
    for report in check("one_loss", 0..16) {
        assert_eq!(report.counters.resent(), 1);
    }
}

#[test]
fn tail_loss() {
    for report in check("tail_loss", 0..8) {
        assert_eq!(report.counters.resent(), 1);
    }
}

#[test]
fn swarm() {
    check("swarm", 0..150);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let [first, second] = [0, 1].map(|_| check("swarm", 7..8).remove(0));
    assert_eq!(first.to_string(), second.to_string());
}
