//! The plans by name. Everything a scenario chooses freely comes from its seed.

use crate::plan::{Demands, Faults, Links, Plan, Traffic};
use crate::random::Random;
use crate::report::Report;
use crate::world::{self, Violation};
use weft_core::flow::{AckScheme, Settings};
use weft_core::time::{Duration, Instant};

/// Makes a plan from a seed.
pub type Scenario = fn(&mut Random) -> Plan;

/// Every scenario by name, with what it is about.
pub const SCENARIOS: &[(&str, &str, Scenario)] = &[
    ("ping_pong", "8 bytes there and back on a clean link: no acknowledgement of its own", ping_pong),
    ("stream", "bulk data one way on a clean link: no resend, few acknowledgements", stream),
    ("bidirectional", "bulk data both ways on a clean link", bidirectional),
    ("small_messages", "many small messages, coalesced", small_messages),
    ("lossy", "20 % of packets lost, each for itself", lossy),
    ("bursts", "packets lost in bursts, and outages of milliseconds", bursts),
    ("reordering", "packets that overtake each other", reordering),
    ("swaps", "neighbours that change places: no resend", swaps),
    ("hostile", "damaged, forged, repeated and replayed packets", hostile),
    ("stalled", "a receiver that computes and does not look", stalled),
    ("narrow", "a switch whose queue is much too short", narrow),
    ("one_loss", "a single packet lost in a stream", one_loss),
    ("tail_loss", "the last packet of a stream lost", tail_loss),
    ("swarm", "all of it, in proportions from the seed", swarm),
];

/// The named scenario.
pub fn find(name: &str) -> Option<Scenario> {
    SCENARIOS.iter().find(|(known, _, _)| *known == name).map(|(_, _, scenario)| *scenario)
}

/// Plays a scenario with a seed.
pub fn play(scenario: Scenario, seed: u64, trace: bool) -> Result<Report, Violation> {
    let mut plan = scenario(&mut Random::new(seed));
    plan.trace = trace;
    world::run(&plan, seed)
}

/// Two processes, a clean link, nothing to do.
fn quiet() -> Plan {
    Plan {
        processes: 2,
        settings: Settings::default(),
        links: Links::default(),
        faults: Faults::default(),
        traffic: Vec::new(),
        pauses: Vec::new(),
        demands: Demands::default(),
        time_limit: Duration::from_secs(60),
        trace: false,
    }
}

const CLEAN: Demands = Demands {
    no_resend: true,
    no_resend_of_data: true,
    no_duplicate: true,
    packets_per_ack: Some(16),
    no_standalone_ack: false,
    wire_percent_max: None,
};

fn ping_pong(random: &mut Random) -> Plan {
    let mut plan = quiet();
    plan.links.latency = Duration(random.between(2_000, 40_000));
    let (messages, sizes) = (2_000, (8, 8));
    plan.traffic = vec![
        Traffic { messages, sizes, lead: Some(1), ..Traffic::between(0, 1) },
        Traffic { messages, sizes, lead: Some(0), ..Traffic::between(1, 0) },
    ];
    plan.demands = Demands { no_standalone_ack: true, ..CLEAN };
    plan
}

fn stream(random: &mut Random) -> Plan {
    let mut plan = quiet();
    plan.settings.packet_size = random.pick(&[1452, 8952]);
    plan.settings.window_packets = random.pick(&[64, 128, 256, 1024]);
    plan.links.latency = Duration(random.between(2_000, 20_000));
    plan.links.queue_bytes = 16 << 20;
    plan.links.socket_bytes = 16 << 20;
    plan.traffic = vec![Traffic { bulk: vec![random.between(1 << 20, 8 << 20)], ..Traffic::between(0, 1) }];
    plan.demands = Demands { wire_percent_max: Some(105), ..CLEAN };
    plan
}

fn bidirectional(random: &mut Random) -> Plan {
    let mut plan = stream(random);
    plan.traffic.push(Traffic { bulk: vec![1 << 20; 4], ..Traffic::between(1, 0) });
    plan.traffic[0].bulk = vec![1 << 20; 4];
    plan
}

fn small_messages(random: &mut Random) -> Plan {
    let mut plan = quiet();
    let sizes = (8, 8 + random.below(100));
    plan.traffic = vec![Traffic { messages: 50_000, sizes, per_turn: 512, ..Traffic::between(0, 1) }];
    plan.demands = CLEAN;
    plan.demands.wire_percent_max = Some(200);
    plan
}

/// Messages and bulk both ways between two processes.
fn both_ways(random: &mut Random, messages: u32, bulk: u64) -> Vec<Traffic> {
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

fn lossy(random: &mut Random) -> Plan {
    let mut plan = quiet();
    plan.faults.loss = 200_000;
    plan.traffic = both_ways(random, 2_000, 600_000);
    plan.demands.no_duplicate = true;
    plan
}

fn bursts(random: &mut Random) -> Plan {
    let mut plan = quiet();
    plan.faults.burst_begins = random.between(500, 10_000) as u32;
    plan.faults.burst_ends = random.between(20_000, 500_000) as u32;
    for _ in 0..random.below(4) {
        let from = Instant(random.below(20_000_000));
        plan.faults.outages.push((from, from + Duration(random.below(20_000_000))));
    }
    plan.traffic = both_ways(random, 2_000, 2_000_000);
    plan.demands.no_duplicate = true;
    plan
}

fn reordering(random: &mut Random) -> Plan {
    let mut plan = quiet();
    plan.faults.reorder = random.between(1_000, 500_000) as u32;
    plan.faults.reorder_max = Duration(random.between(1_000, 200_000));
    plan.traffic = both_ways(random, 2_000, 2_000_000);
    plan
}

/// A delay below two packets' time lets at most two overtake.
fn swaps(random: &mut Random) -> Plan {
    let mut plan = quiet();
    plan.links.latency = Duration(random.between(5_000, 20_000));
    plan.faults.reorder = random.between(1_000, 500_000) as u32;
    plan.faults.reorder_max = Duration(2 * plan.settings.packet_size as u64 * 8000 / plan.links.rate);
    plan.traffic = vec![Traffic { bulk: vec![3_000_000], ..Traffic::between(0, 1) }];
    plan.demands = Demands { no_resend: true, no_duplicate: true, ..Demands::default() };
    plan
}

fn hostile(random: &mut Random) -> Plan {
    let mut plan = quiet();
    plan.settings.tag_bytes = random.pick(&[64, usize::MAX]);
    plan.faults = Faults {
        duplicate: 50_000,
        corrupt: 50_000,
        forge: 200_000,
        replay: 200_000,
        reorder: 10_000,
        reorder_max: Duration(50_000),
        ..Faults::default()
    };
    plan.processes = 3;
    plan.traffic = both_ways(random, 2_000, 1_000_000);
    plan.traffic.push(Traffic { messages: 500, sizes: (0, 300), ..Traffic::between(0, 2) });
    plan
}

fn stalled(random: &mut Random) -> Plan {
    let mut plan = quiet();
    plan.traffic = both_ways(random, 1_000, 2_000_000);
    for _ in 0..random.between(1, 5) {
        let from = Instant(random.below(5_000_000));
        plan.pauses.push((random.below(2) as u32, from, from + Duration(random.below(5_000_000_000))));
    }
    // The socket holds a window and the probes, so nothing is lost and nothing may be sent again.
    plan.demands = Demands { no_resend_of_data: true, no_duplicate: true, ..Demands::default() };
    plan
}

fn narrow(random: &mut Random) -> Plan {
    let mut plan = quiet();
    plan.processes = 5;
    plan.links.queue_bytes = random.between(20_000, 100_000);
    plan.links.socket_bytes = random.between(50_000, 200_000);
    for from in 1..5 {
        plan.traffic.push(Traffic { bulk: vec![1_000_000], messages: 100, ..Traffic::between(from, 0) });
    }
    plan.demands.no_duplicate = true;
    plan
}

fn one_loss(random: &mut Random) -> Plan {
    let mut plan = stream(random);
    plan.demands = Demands { no_duplicate: true, ..Demands::default() };
    plan.traffic[0].bulk = vec![1_000_000];
    plan.faults.lose_exactly = vec![random.between(5, 60)];
    plan
}

fn tail_loss(random: &mut Random) -> Plan {
    let mut plan = one_loss(random);
    plan.settings = Settings::default();
    plan.traffic[0].bulk = vec![14_000];
    plan.faults.lose_exactly = vec![9];
    plan
}

fn swarm(random: &mut Random) -> Plan {
    let mut plan = quiet();
    plan.processes = random.between(2, 5) as u32;
    plan.settings = Settings {
        packet_size: random.pick(&[256, 576, 1452, 1452, 8952, 65_507]),
        window_packets: random.pick(&[1, 2, 7, 16, 64, 128, 1024]),
        ack_scheme: random.pick(&[AckScheme::Deferred, AckScheme::Immediate, AckScheme::EveryPacket]),
        ack_packets: random.pick(&[1, 4, 16, 64]),
        tag_bytes: random.pick(&[64, usize::MAX]),
        queue_bytes: random.pick(&[1_000, 100_000]),
        ..Settings::default()
    };
    plan.links = Links {
        latency: Duration(random.between(1_000, 500_000)),
        rate: random.pick(&[100, 1_000, 10_000, 100_000]),
        queue_bytes: random.pick(&[200_000, 1 << 20, 16 << 20]),
        socket_bytes: random.pick(&[200_000, 1 << 20, 16 << 20]),
        packet_cost: Duration(random.between(100, 5_000)),
    };
    plan.faults = swarm_faults(random);
    let scale = plan.settings.packet_size as u64;
    for from in 0..plan.processes {
        for to in (0..plan.processes).filter(|to| *to != from) {
            if random.chance(600_000) {
                plan.traffic.push(swarm_traffic(random, from, to, scale));
            }
        }
    }
    for _ in 0..random.below(4) {
        let (who, from) = (random.below(plan.processes.into()) as u32, Instant(random.below(50_000_000)));
        plan.pauses.push((who, from, from + Duration(random.below(200_000_000))));
    }
    plan.demands.no_duplicate = plan.faults.are_only_losses();
    // A window of one packet at 30 % loss and half a millisecond takes its time.
    plan.time_limit = Duration::from_secs(600);
    plan
}

fn swarm_faults(random: &mut Random) -> Faults {
    let mut some = |most: u64| if random.chance(500_000) { random.below(most) as u32 } else { 0 };
    let mut faults = Faults {
        loss: some(300_000),
        burst_begins: some(5_000),
        burst_ends: 100_000,
        duplicate: some(100_000),
        reorder: some(300_000),
        corrupt: some(50_000),
        forge: some(100_000),
        replay: some(100_000),
        ..Faults::default()
    };
    faults.reorder_max = Duration(random.between(1_000, 1_000_000));
    for _ in 0..random.below(3) {
        let from = Instant(random.below(50_000_000));
        faults.outages.push((from, from + Duration(random.below(50_000_000))));
    }
    faults
}

fn swarm_traffic(random: &mut Random, from: u32, to: u32, scale: u64) -> Traffic {
    let mut bulk = Vec::new();
    for _ in 0..random.below(5) {
        bulk.push(random.between(1, 60 * scale));
    }
    let low = random.below(50);
    Traffic {
        messages: random.below(400) as u32,
        sizes: (low, low + random.below(scale)),
        bulk,
        per_turn: random.between(1, 50) as u32,
        gap: Duration(random.below(100_000)),
        ..Traffic::between(from, to)
    }
}

/// What to type to see a failure again.
pub fn replay_line(name: &str, seed: u64) -> String {
    format!("cargo run -p weft-sim -- {name} --seed {seed:#x} --trace")
}
