//! The plans of all scenarios.

use crate::clusters::Clusters;
use crate::nuisance::Nuisance;
use crate::plan::{Demands, Plan, Traffic};
use crate::swarm;
use crate::topology::{Bucket, Buffer, Cable, Link, Spreading, Topology};
use crate::workload;
use weft_core::flow::Settings;
use weft_core::time::{Duration, Instant};
use weft_random::Random;

/// Sets the latency from process to process without queues and the time on wires: two links and a switch.
fn latency(plan: &mut Plan, latency: u64) {
    plan.topology.link_mut().propagation = Duration(latency / 2);
}

pub(super) fn ping_pong(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    latency(&mut plan, random.between(2_000, 40_000));
    plan.workload = workload::ping_pong(2_000, 8);
    plan.demands = Demands { no_standalone_ack: true, ..Demands::CLEAN };
    plan
}

pub(super) fn stream(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.settings.packet_size = random.pick(&[1452, 8952]);
    plan.settings.window_packets = random.pick(&[64, 128, 256, 1024]);
    plan.topology = Topology::switch(Buffer::PerPort(16 << 20));
    latency(&mut plan, random.between(2_000, 20_000));
    plan.host.receive_bytes = 16 << 20;
    plan.workload = workload::stream(vec![random.between(1 << 20, 8 << 20)]);
    plan.demands = Demands { wire_percent_max: Some(105), ..Demands::CLEAN };
    plan
}

pub(super) fn bidirectional(random: &mut Random) -> Plan {
    let mut plan = stream(random);
    let bulk = vec![1 << 20; 4];
    plan.workload =
        vec![Traffic { bulk: bulk.clone(), ..Traffic::between(0, 1) }, Traffic { bulk, ..Traffic::between(1, 0) }];
    plan
}

pub(super) fn small_messages(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.workload = workload::small_messages(50_000, (8, 8 + random.below(100)));
    plan.demands = Demands { wire_percent_max: Some(200), ..Demands::CLEAN };
    plan
}

pub(super) fn lossy(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.nuisances = vec![Nuisance::Loss { per_million: 200_000, rank: None }];
    plan.workload = workload::both_ways(random, 2_000, 600_000);
    plan
}

pub(super) fn bursts(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.nuisances = vec![Nuisance::Bursts {
        begins: random.between(500, 10_000) as u32,
        ends: random.between(20_000, 500_000) as u32,
        loss: random.pick(&[500_000, 1_000_000]),
    }];
    for _ in 0..random.below(4) {
        let from = Instant(random.below(20_000_000));
        plan.nuisances.push(Nuisance::Blackout { from, to: from + Duration(random.below(20_000_000)) });
    }
    plan.workload = workload::both_ways(random, 2_000, 2_000_000);
    plan
}

pub(super) fn reordering(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.nuisances = vec![Nuisance::Reordering {
        per_million: random.between(1_000, 500_000) as u32,
        delay_max: Duration(random.between(1_000, 200_000)),
    }];
    plan.workload = workload::both_ways(random, 2_000, 2_000_000);
    plan
}

/// A delay below the time of two packets, so that at most two packets overtake.
pub(super) fn swaps(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    latency(&mut plan, random.between(5_000, 20_000));
    let packet = plan.topology.link().occupancy(plan.settings.packet_size as u64);
    plan.nuisances = vec![Nuisance::Reordering {
        per_million: random.between(1_000, 500_000) as u32,
        delay_max: Duration(2 * packet.0),
    }];
    plan.workload = workload::stream(vec![3_000_000]);
    plan.demands = Demands { no_resend: true, ..Demands::default() };
    plan
}

pub(super) fn hostile(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.settings.sealed = random.chance(500_000);
    plan.nuisances = vec![
        Nuisance::Duplication { per_million: 50_000, late_max: Duration(50_000) },
        Nuisance::Reordering { per_million: 10_000, delay_max: Duration(50_000) },
        Nuisance::Corruption { per_million: 50_000 },
        Nuisance::Forgery { per_million: 200_000 },
        Nuisance::Replay { per_million: 200_000 },
    ];
    plan.ranks = 3;
    plan.workload = workload::both_ways(random, 2_000, 1_000_000);
    plan.workload.push(Traffic { messages: 500, sizes: (0, 300), ..Traffic::between(0, 2) });
    plan
}

/// Packets are damaged. A damaged acknowledgement must not be believed: the sender would forget packets that
/// have never arrived.
pub(super) fn damaged(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.settings.sealed = random.chance(500_000);
    plan.settings.bulk_paths = random.pick(&[0, 1]);
    plan.host.train_packets = random.pick(&[1, 44]);
    plan.nuisances = vec![
        Nuisance::Loss { per_million: 50_000, rank: None },
        Nuisance::Duplication { per_million: 20_000, late_max: Duration(200_000) },
        Nuisance::Reordering { per_million: 30_000, delay_max: Duration(200_000) },
        Nuisance::Corruption { per_million: random.between(10_000, 50_000) as u32 },
    ];
    let mut outstanding = |from, to| Traffic {
        bulk: (0..24).map(|_| random.between(20_000, 400_000)).collect(),
        bulk_open: 24,
        messages: 200,
        sizes: (1, 1400),
        ..Traffic::between(from, to)
    };
    plan.workload = vec![outstanding(0, 1), outstanding(1, 0)];
    plan
}

pub(super) fn stalled(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.workload = workload::both_ways(random, 1_000, 2_000_000);
    for _ in 0..random.between(1, 5) {
        let (rank, from) = (random.below(2) as u32, Instant(random.below(5_000_000)));
        plan.nuisances.push(Nuisance::Pause { rank, from, to: from + Duration(random.below(5_000_000_000)) });
    }
    // The socket has room for a window and the probes, so no packet is lost and none may be retransmitted.
    plan.demands = Demands { no_resend_of_data: true, ..Demands::default() };
    plan
}

/// Each process, its progress thread included, runs for a tenth of the time. No peer fails and no carrier is
/// given up. Few packets are retransmitted: none is lost, but packets that overtake on the other carrier may
/// mislead.
pub(super) fn overloaded(random: &mut Random) -> Plan {
    let mut plan = if random.chance(300_000) { two_networks(random) } else { Plan::quiet() };
    plan.ranks = 2;
    plan.host.frames = random.chance(800_000);
    plan.host.train_packets = random.pick(&[1, 44]);
    plan.host.receive_bytes = 16 << 20;
    let period = Duration(random.pick(&[1_000_000, 10_000_000, 100_000_000]));
    plan.nuisances = vec![Nuisance::Overload { run: Duration(period.0 / 10), period }];
    let messages = |random: &mut Random, from, to| Traffic {
        messages: 3_000,
        sizes: (512, 1024),
        bulk: vec![random.between(100_000, 2_000_000); 3],
        per_turn: random.between(1, 64) as u32,
        gap: Duration(random.below(200_000)),
        ..Traffic::between(from, to)
    };
    plan.workload = vec![messages(random, 0, 1), messages(random, 1, 0)];
    plan.demands = Demands { no_lane_given_up: true, spurious_permille_max: Some(5), ..Demands::default() };
    plan
}

pub(super) fn narrow(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.ranks = 5;
    plan.topology =
        Topology::switch(random.pick(&[Buffer::PerPort(20_000), Buffer::PerPort(100_000), Buffer::Shared(80_000)]));
    plan.host.receive_bytes = random.between(50_000, 200_000);
    plan.workload = workload::incast(5, 1_000_000);
    for traffic in &mut plan.workload {
        traffic.messages = 100;
    }
    plan
}

pub(super) fn overrun(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.host.receive_bytes = random.between(20_000, 60_000);
    plan.nuisances = vec![Nuisance::Slow { rank: 1, factor: random.between(8, 20) as u32 }];
    plan.workload = workload::both_ways(random, 500, 1_000_000);
    plan
}

pub(super) fn shaped(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    let rate = random.pick(&[1_000, 2_500, 5_000]);
    let burst_bytes = random.between(3_000, 100_000);
    plan.topology.link_mut().bucket = Some(Bucket { rate, burst_bytes, limit_bytes: 1 << 20 });
    plan.workload = workload::stream(vec![4_000_000]);
    plan.demands = Demands { share_percent_min: Some(85), ..Demands::CLEAN };
    plan
}

pub(super) fn clocks(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.nuisances = vec![Nuisance::Clocks { ahead_max: Duration::from_secs(3600), drift_max: 200 }];
    plan.workload = workload::both_ways(random, 2_000, 4_000_000);
    plan.demands = Demands { no_resend: true, ..Demands::default() };
    plan
}

pub(super) fn one_loss(random: &mut Random) -> Plan {
    let mut plan = stream(random);
    plan.demands = Demands::default();
    plan.workload = workload::stream(vec![1_000_000]);
    plan.nuisances = vec![Nuisance::LoseExactly(vec![random.between(5, 60)])];
    plan
}

pub(super) fn tail_loss(random: &mut Random) -> Plan {
    let mut plan = one_loss(random);
    plan.settings = Settings::default();
    plan.workload = workload::stream(vec![14_000]);
    plan.nuisances = vec![Nuisance::LoseExactly(vec![9])];
    plan
}

pub(super) fn path_mtu(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    latency(&mut plan, random.between(5_000, 200_000));
    plan.settings.packet_size = random.pick(&[1452, 8952]);
    plan.settings.sealed = random.chance(200_000);
    let bulk = random.pick(&[1 << 20, 20 << 20]);
    plan.workload = workload::both_ways(random, 500, bulk);
    for _ in 0..random.between(1, 4) {
        let rank = random.chance(500_000).then(|| random.below(2) as u32);
        plan.nuisances.push(swarm::mtu(random, plan.settings.packet_size, rank, 100_000_000));
    }
    if random.chance(500_000) {
        plan.nuisances.push(Nuisance::Loss { per_million: random.pick(&[1_000, 10_000, 50_000]), rank: None });
    }
    plan
}

pub(super) fn flapping(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.ranks = 4;
    plan.workload = workload::neighbours(random, 4, 500, 4_000_000);
    plan.nuisances = vec![Nuisance::Flapping {
        cable: Cable::Rank(random.below(4) as u32),
        from: Instant(random.below(1_000_000)),
        down: Duration(random.between(10_000, 2_000_000)),
        up: Duration(random.between(100_000, 2_000_000)),
        times: random.between(3, 20) as u32,
    }];
    // With a single way no packet overtakes another, so nothing misleads the flow.
    plan.demands.spurious_permille_max = Some(0);
    plan
}

/// Leaves of eight ranks, with spines that carry half of what the ranks could send.
pub(super) fn clos(ranks: u32, spreading: Spreading) -> Plan {
    let mut plan = Plan::quiet();
    plan.ranks = ranks;
    let link = Link { propagation: Duration(500), ..Link::default() };
    let (leaves, buffer) = (ranks / 8, Buffer::Shared(12 << 20));
    plan.topology = Topology::LeafSpine { link, trunk: link, leaves, spines: 4, spreading, buffer };
    plan
}

pub(super) fn trunk(random: &mut Random) -> Plan {
    let mut plan = clos(16, Spreading::PerFlow);
    plan.workload = (0..8).map(|own| Traffic { bulk: vec![3_000_000], ..Traffic::between(own, own + 8) }).collect();
    let from = Instant(random.below(1_000_000));
    let cable = Cable::Trunk(random.below(2) as u32, random.below(4) as u32);
    plan.nuisances = vec![Nuisance::Cut { cable, from, to: from + Duration::from_secs(50) }];
    plan.time_limit = Duration::from_secs(10);
    plan
}

/// Two clusters that one link joins, and one or several streams from one to the other, granted or not: the
/// link is full.
pub(super) fn clusters(random: &mut Random) -> Plan {
    let latency_us = random.pick(&[100, 300, 1_000, 3_000, 10_000, 30_000, 100_000]);
    let rate = random.pick(&[1_000, 10_000]);
    // Millions of packets take long to play.
    let sizes: &[usize] = if latency_us * rate > 100_000_000 { &[8952] } else { &[1452, 8952] };
    Clusters {
        latency: Duration::from_micros(latency_us),
        rate,
        packet_size: random.pick(sizes),
        streams: random.pick(&[1, 1, 4]),
        fetched: random.chance(500_000),
        lost_per_million: random.pick(&[0, 0, 100]),
    }
    .plan()
}

pub(super) fn permutation(random: &mut Random) -> Plan {
    let mut plan = clos(64, Spreading::PerFlow);
    plan.workload = workload::permutation(random, 64, 1_000_000);
    plan
}

pub(super) fn spraying(random: &mut Random) -> Plan {
    let mut plan = clos(64, Spreading::PerPacket);
    plan.workload = workload::permutation(random, 64, 1_000_000);
    plan
}

/// The number of ranks, and the bytes from each.
const INCAST: (u32, u64) = (256, 64_000);

pub(super) fn incast(random: &mut Random) -> Plan {
    let mut plan = incast_at_once(random);
    plan.workload.iter_mut().for_each(|traffic| traffic.fetched = true);
    plan.demands = Demands {
        no_resend_of_data: true,
        share_percent_min: Some(85),
        transfer_percent_max: Some(300),
        ..plan.demands
    };
    plan
}

pub(super) fn incast_at_once(_random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.ranks = INCAST.0;
    plan.topology = Topology::Switch {
        link: Link { propagation: Duration(500), mark_bytes: Some(100_000), ..Link::default() },
        buffer: Buffer::Shared(12 << 20),
    };
    plan.workload = workload::incast(INCAST.0, INCAST.1);
    plan
}

pub(super) fn trains(random: &mut Random) -> Plan {
    let mut plan = clos(16, Spreading::PerFlow);
    plan.settings.bulk_paths = 1;
    plan.host.train_packets = random.pick(&[8, 44]);
    if let Topology::LeafSpine { trunk, .. } = &mut plan.topology {
        trunk.mark_bytes = Some(60_000);
    }
    plan.workload = workload::neighbours(random, 16, 200, 2_000_000);
    plan.demands.spurious_permille_max = Some(0);
    plan
}

/// Two ranks with an interface in each of two networks of the same kind.
pub(super) fn two_networks(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.topology = Topology::switch(Buffer::PerPort(16 << 20));
    plan.host.train_packets = random.pick(&[8, 44]);
    plan.host.send_bytes = 1 << 20;
    plan.host.receive_bytes = 16 << 20;
    latency(&mut plan, random.between(2_000, 20_000));
    plan.rails = vec![plan.topology];
    plan.workload = workload::stream(vec![random.between(8 << 20, 16 << 20)]);
    plan.demands.spurious_permille_max = Some(0);
    plan
}

/// Limits the rate of a link, by its own speed or by a token bucket.
fn slow_down(random: &mut Random, link: &mut Link, rate: u64) {
    if random.chance(500_000) {
        let burst_bytes = random.between(100_000, 300_000);
        link.bucket = Some(Bucket { rate, burst_bytes, limit_bytes: 4 << 20 });
    } else {
        link.rate = rate;
    }
}

pub(super) fn rails(random: &mut Random) -> Plan {
    let mut plan = two_networks(random);
    let rate = random.pick(&[2_500, 5_000, 10_000]);
    slow_down(random, plan.rails[0].link_mut(), rate);
    // The share is of what both networks carry together, in percent of the first. A probe may ask for packets
    // that a long queue delays.
    let least = (10_000 + rate) * 80 / 10_000;
    plan.demands = Demands { no_resend: false, share_percent_min: Some(least), ..Demands::CLEAN };
    plan
}

pub(super) fn rails_in_turn(random: &mut Random) -> Plan {
    let mut plan = two_networks(random);
    let speed = random.pick(&[1_000, 10_000]);
    let rate = speed / random.pick(&[1, 2, 4]);
    plan.topology.link_mut().rate = speed;
    plan.rails[0].link_mut().rate = speed;
    slow_down(random, plan.rails[0].link_mut(), rate);
    plan.workload = workload::stream(vec![1 << 20; 24]);
    plan.workload[0].bulk_open = 1;
    // Each message waits for the acknowledgement of the one before: over one network alone that leaves some
    // nine tenths of its rate.
    plan.demands = Demands { share_percent_min: Some(80), spurious_permille_max: Some(0), ..Demands::default() };
    plan
}

pub(super) fn rail_fails(random: &mut Random) -> Plan {
    let mut plan = two_networks(random);
    plan.workload = workload::stream(vec![48 << 20]);
    plan.workload[0].messages = 500;
    plan.workload[0].gap = Duration(50_000);
    let (rank, from) = (random.below(2) as u32, Instant(random.between(1_000_000, 10_000_000)));
    let cable = random.pick(&[Cable::Rank(rank), Cable::Further(1, rank)]);
    plan.nuisances = vec![Nuisance::Cut { cable, from, to: from + Duration::from_millis(random.between(1, 20)) }];
    // The run is nearly as fast as over one network, though one is cut, perhaps for half of the time, and is
    // asked ever less often.
    plan.demands.share_percent_min = Some(80);
    plan
}

pub(super) fn all_to_all(_random: &mut Random) -> Plan {
    let mut plan = clos(128, Spreading::PerFlow);
    plan.workload = workload::all_to_all(128, 8_000);
    plan
}

pub(super) fn barriers(random: &mut Random) -> Plan {
    let mut plan = clos(1024, Spreading::PerFlow);
    plan.workload = workload::barriers(1024, 5, Duration(random.between(20_000, 100_000)));
    plan
}

pub(super) fn thousands(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.ranks = 4096;
    let link = Link { propagation: Duration(500), ..Link::default() };
    let (trunk, buffer) = (Link { rate: 40_000, ..link }, Buffer::Shared(16 << 20));
    let spreading = Spreading::PerFlow;
    plan.topology = Topology::LeafSpine { link, trunk, leaves: 64, spines: 16, spreading, buffer };
    plan.workload = workload::permutation(random, 4096, 20_000);
    plan
}
