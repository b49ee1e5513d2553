//! Tests of the simulator: a demand that is not met is reported by name, and each nuisance has its effect.

use weft_core::time::{Duration, Instant};
use weft_random::Random;
use weft_sim::nuisance::Nuisance;
use weft_sim::plan::{Demands, Plan, Traffic};
use weft_sim::report::Report;
use weft_sim::scenario::{find, idle_nuisances, plan};
use weft_sim::topology::{Buffer, Link, Topology};
use weft_sim::workload;
use weft_sim::world;

/// A clean stream of a megabyte, which tests spoil.
fn stream() -> Plan {
    let mut plan = find("stream").expect("a scenario")(&mut Random::new(1));
    plan.settings = Default::default();
    plan.workload = workload::stream(vec![1_000_000]);
    plan.demands = Demands::default();
    plan
}

fn play(plan: &Plan) -> Report {
    world::run(plan, 1).unwrap_or_else(|violation| panic!("{violation}"))
}

fn violation(plan: &Plan) -> String {
    world::run(plan, 1).expect_err("this cannot hold").0
}

const LOSS: Nuisance = Nuisance::Loss { per_million: 50_000, rank: None };
const LATE: Nuisance = Nuisance::Reordering { per_million: 300_000, delay_max: Duration(300_000) };

#[test]
fn each_demand_can_be_broken() {
    let none = Demands::default();
    let cases = [
        (vec![LOSS], Demands { no_resend: true, ..none }, "resends"),
        (vec![LOSS], Demands { no_resend_of_data: true, ..none }, "resends"),
        (vec![LATE], Demands { spurious_permille_max: Some(0), ..none }, "again for nothing"),
        (vec![], Demands { packets_per_ack: Some(1000), ..none }, "acks, "),
        (vec![], Demands { no_standalone_ack: true, ..none }, "acks of their own"),
        (vec![], Demands { wire_percent_max: Some(100), ..none }, "bytes on the wire"),
        (vec![], Demands { share_percent_min: Some(99), ..none }, "of the busiest link"),
        (vec![], Demands { transfer_percent_max: Some(100), ..none }, "ideally"),
    ];
    for (nuisances, demands, what) in cases {
        let plan = Plan { nuisances, ..stream() };
        play(&plan);
        let said = violation(&Plan { demands, ..plan });
        assert!(said.contains(what), "{said} does not say {what}");
    }
}

#[test]
fn a_run_without_end_is_ended_and_says_what_is_missing() {
    let mut plan = stream();
    plan.nuisances = vec![Nuisance::Blackout { from: Instant(100_000), to: Instant(u64::MAX) }];
    plan.time_limit = Duration::from_secs(1);
    let said = violation(&plan);
    assert!(said.contains("no end") && said.contains("of 1000000 bytes"), "{said}");
}

#[test]
fn a_peer_that_never_answers_is_given_up_and_that_is_noticed() {
    let mut plan = stream();
    plan.nuisances = vec![Nuisance::Blackout { from: Instant(0), to: Instant(u64::MAX) }];
    plan.time_limit = Duration::from_secs(100);
    let said = violation(&plan);
    assert!(said.contains("takes 1 for failed"), "{said}");
}

#[test]
fn a_plan_that_cannot_be_is_refused() {
    let mut twice = stream();
    twice.workload.push(Traffic::between(0, 1));
    assert!(violation(&twice).contains("twice"));
    let mut nobody = stream();
    nobody.workload.push(Traffic::between(0, 2));
    assert!(violation(&nobody).contains("no such ranks"));
    let mut cable = stream();
    (cable.ranks, cable.topology) = (3, Topology::BackToBack { link: Link::default() });
    assert!(violation(&cable).contains("a cable joins two ranks"));
    let mut crowd = stream();
    crowd.ranks = 1 << 20;
    assert!(violation(&crowd).contains("ranks; a run has"));
}

/// Forged and replayed packets, and ranks that only receive: no flow is made for them.
#[test]
fn flows_are_made_when_two_ranks_talk() {
    let mut plan = stream();
    plan.ranks = 1000;
    assert_eq!(play(&plan).flows, 2);
    plan.nuisances = vec![Nuisance::Forgery { per_million: 1_000_000 }, Nuisance::Replay { per_million: 300_000 }];
    let report = play(&plan);
    assert_eq!(report.flows, 2);
    assert!(report.counters.forged > 0);
}

#[test]
fn what_does_not_matter_to_a_failure_is_found() {
    let clocks = Nuisance::Clocks { ahead_max: Duration(1000), drift_max: 100 };
    let pause = Nuisance::Pause { rank: 1, from: Instant(0), to: Instant(50_000) };
    let mut plan = Plan { nuisances: vec![clocks, LOSS, pause], ..stream() };
    plan.demands.no_resend_of_data = true;
    assert_eq!(idle_nuisances(&plan, 1), ["clocks", "pause"]);
}

#[test]
fn a_nuisance_can_be_left_out_by_name() {
    let hostile = find("hostile").expect("a scenario");
    let names =
        |without: &[String]| -> Vec<_> { plan(hostile, 1, without).nuisances.iter().map(Nuisance::name).collect() };
    assert_eq!(names(&[]), ["duplication", "reordering", "corruption", "forgery", "replay"]);
    assert_eq!(names(&["replay".into(), "forgery".into()]), ["duplication", "reordering", "corruption"]);
}

#[test]
fn a_rank_that_pauses_gets_nothing_meanwhile() {
    let pause = |rank| Nuisance::Pause { rank, from: Instant(100_000), to: Instant(90_000_000) };
    for rank in [0, 1] {
        let report = play(&Plan { nuisances: vec![pause(rank)], ..stream() });
        assert!(report.delivered_at >= Duration(90_000_000) && report.counters.resent() == 0);
    }
}

/// A sender of 255 announces, then computes for 50 ms and does not send the bytes that it is granted.
///
/// Expect: the other senders do not wait for it.
#[test]
fn a_sender_that_stalls_does_not_hold_up_an_incast() {
    let incast = find("incast").expect("a scenario")(&mut Random::new(1));
    let clean = play(&incast);
    let pause = Nuisance::Pause { rank: 7, from: Instant(1_000), to: Instant(50_000_000) };
    let report = play(&Plan { nuisances: vec![pause], demands: Demands::default(), ..incast });
    assert!(report.delivered_at >= Duration(50_000_000));
    let [before, after] = [&clean, &report].map(|report| report.transfers.percentile(99).0);
    assert!(after < before * 3 / 2, "{after} ns with a stalled sender, {before} without");
}

#[test]
fn a_slow_rank_and_a_narrow_bucket_set_the_pace() {
    let fast = play(&stream()).delivered_at.0;
    let slow = play(&Plan { nuisances: vec![Nuisance::Slow { rank: 1, factor: 20 }], ..stream() });
    assert!(slow.delivered_at.0 > 3 * fast);
    let mut shaped = stream();
    shaped.topology.link_mut().bucket =
        Some(weft_sim::topology::Bucket { rate: 500, burst_bytes: 20_000, limit_bytes: 1 << 20 });
    let report = play(&shaped);
    assert!((85.0..100.5).contains(&report.share_percent()), "{}", report.share_percent());
}

#[test]
fn queues_are_as_deep_as_their_switch_allows_and_marks_come_before_drops() {
    for (buffer, most) in [(Buffer::PerPort(300_000), 300_000), (Buffer::Shared(400_000), 200_000)] {
        let mut plan = find("narrow").expect("a scenario")(&mut Random::new(1));
        plan.topology = Topology::switch(buffer);
        plan.topology.link_mut().mark_bytes = Some(100_000);
        let report = play(&plan);
        assert!(report.packets.dropped_by_switch > 0 && report.packets.marked > 0);
        // The last packet that fits may leave less than a packet free.
        assert!((most - 1600..=most + 1600).contains(&report.queue_bytes_max), "{}", report.queue_bytes_max);
    }
}

#[test]
fn the_report_says_the_same_to_people_and_to_programs() {
    let report = play(&Plan { nuisances: vec![LOSS], ..stream() });
    let (json, text) = (report.json(), report.to_string());
    assert_eq!(json["payload_bytes"], 1_000_000);
    assert_eq!(json["resends"]["lost"], report.counters.resent());
    assert!(text.contains(&format!("{} lost on the way", json["network"]["lost"])), "{text}");
}
