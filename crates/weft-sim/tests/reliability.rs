//! The promises of the reliable flow, in virtual time: shaped links, absent receivers, goodput and latency
//! under loss.

use weft_core::flow::Settings;
use weft_core::time::{Duration, Instant};
use weft_sim::nuisance::Nuisance;
use weft_sim::plan::{Demands, Host, Plan, Traffic};
use weft_sim::report::Report;
use weft_sim::topology::{Bucket, Buffer, Link, Topology};
use weft_sim::workload;
use weft_sim::world;

/// Two hosts and a switch with room, at 10 Gb/s unless changed.
fn plan(workload: Vec<Traffic>) -> Plan {
    Plan {
        ranks: 2,
        topology: Topology::switch(Buffer::PerPort(16 << 20)),
        rails: Vec::new(),
        host: Host { receive_bytes: 8 << 20, ..Host::default() },
        settings: Settings::default(),
        workload,
        nuisances: Vec::new(),
        demands: Demands::default(),
        time_limit: Duration::from_secs(60),
    }
}

fn run(plan: &Plan, seed: u64) -> Report {
    world::run(plan, seed).unwrap_or_else(|violation| panic!("{violation}\nseed {seed} of {plan:?}"))
}

/// A fast host behind Linux's `tbf rate 10gbit burst 256kb latency 20ms`: only its window slows it down.
fn behind_tbf(workload: Vec<Traffic>) -> Plan {
    let mut plan = plan(workload);
    let bucket = Bucket { rate: 10_000, burst_bytes: 256 << 10, limit_bytes: 25 << 20 };
    *plan.topology.link_mut() = Link { rate: 40_000, bucket: Some(bucket), ..Link::default() };
    plan.host.send_bytes = 64 << 20;
    plan.host.packet_cost = Duration(100);
    plan
}

#[test]
fn a_link_shaped_to_10_gigabit_is_full_without_a_single_resend() {
    let mut one_way = behind_tbf(workload::stream(vec![8 << 20; 8]));
    let report = run(&one_way, 1);
    // Payload on the line: 1408 of 1518 bytes.
    let line = 10_000.0 * 1408.0 / 1518.0;
    let share = report.bytes as f64 * 8000.0 / report.delivered_at.0 as f64 / line;
    assert!(share >= 0.95, "{:.1} % of the line", share * 100.0);
    assert_eq!((report.counters.resent(), report.counters.probes), (0, 0));
    // The queue stays short: a little more than the delay target allows.
    assert!(report.host_bytes_max <= 2 << 20, "{} bytes waited", report.host_bytes_max);
    let back = Traffic { bulk: vec![8 << 20; 8], ..Traffic::between(1, 0) };
    one_way.workload.push(back);
    let report = run(&one_way, 1);
    let share = report.bytes as f64 * 4000.0 / report.delivered_at.0 as f64 / line;
    assert!(share >= 0.90, "{:.1} % of the line both ways", share * 100.0);
    assert_eq!(report.counters.resent(), 0);
}

#[test]
fn messages_do_not_queue_behind_a_stream_on_a_shaped_link() {
    let mut plan = behind_tbf(workload::stream(vec![8 << 20; 8]));
    plan.workload[0].messages = 200;
    plan.workload[0].per_turn = 1;
    plan.workload[0].gap = Duration::from_micros(200);
    let report = run(&plan, 1);
    let late = report.messages.percentile(50);
    assert!(late <= Duration::from_micros(400), "{} us", late.as_micros());
}

#[test]
fn a_receiver_that_is_away_for_ten_milliseconds_costs_that_and_no_resend() {
    let mut plan = plan(workload::stream(vec![8 << 20; 4]));
    let without = run(&plan, 1);
    let away = Duration::from_millis(10);
    for start in [3, 18] {
        let from = Instant(start * 1_000_000);
        plan.nuisances.push(Nuisance::Pause { rank: 1, from, to: from + away });
    }
    let report = run(&plan, 1);
    assert_eq!(report.counters.resent(), 0);
    let most = without.delivered_at.0 * 105 / 100 + 2 * away.0;
    assert!(report.delivered_at.0 <= most, "{} ns, at most {most}", report.delivered_at.0);
}

/// The mean goodput over some seeds.
fn goodput(plan: &Plan) -> f64 {
    const SEEDS: u64 = 6;
    (0..SEEDS).map(|seed| run(plan, seed)).map(|report| report.bytes as f64 / report.delivered_at.0 as f64).sum::<f64>()
        / SEEDS as f64
}

#[test]
fn goodput_survives_loss() {
    let mut plan = plan(workload::stream(vec![8 << 20; 4]));
    let whole = goodput(&plan);
    for (per_million, least) in [(100, 0.95), (1_000, 0.90), (10_000, 0.70)] {
        plan.nuisances = vec![Nuisance::Loss { per_million, rank: None }];
        let share = goodput(&plan) / whole;
        println!("{per_million} losses in a million: {:.1} % of the goodput", share * 100.0);
        assert!(share >= least, "{:.1} % of the goodput at {per_million} losses in a million", share * 100.0);
    }
}

#[test]
fn a_ping_pong_survives_loss() {
    let mut plan = plan(workload::ping_pong(20_000, 8));
    // A quiet path of 3 us and a process that looks at once: the hardest comparison.
    plan.topology.link_mut().propagation = Duration(1_000);
    let mean = |plan: &Plan| {
        let report = run(plan, 7);
        report.delivered_at.0 as f64 / report.counters.messages_received as f64
    };
    let whole = mean(&plan);
    for (per_million, most) in [(1_000, 1.5), (10_000, 4.0)] {
        plan.nuisances = vec![Nuisance::Loss { per_million, rank: None }];
        let times = mean(&plan) / whole;
        println!("{per_million} losses in a million: {times:.2} times as long");
        assert!(times <= most, "{times:.2} times as long at {per_million} losses in a million");
    }
}
