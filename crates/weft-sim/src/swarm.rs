//! Random plans: any topology, any workload and any nuisances, each drawn independently from the seed.

use crate::nuisance::Nuisance;
use crate::plan::{Host, Plan, Traffic};
use crate::topology::{Bucket, Buffer, Cable, Link, Spreading, Topology, frame_bytes};
use crate::workload;
use weft_core::flow::{AckScheme, PACKET_SIZE_MIN, Settings};
use weft_core::time::{Duration, Instant};
use weft_random::Random;

/// Draws a plan.
pub(crate) fn swarm(random: &mut Random) -> Plan {
    let mut plan = Plan::quiet();
    plan.settings = settings(random);
    let packet = plan.settings.packet_size as u64;
    (plan.ranks, plan.topology) = topology(random, packet);
    plan.host = Host {
        receive_bytes: random.pick(&[200_000, 1 << 20, 16 << 20]),
        packet_cost: Duration(random.between(100, 5_000)),
        train_packets: random.pick(&[1, 1, 8, 64]),
        frames: random.chance(300_000),
        ..Host::default()
    };
    plan.workload = workload(random, plan.ranks, packet);
    let fetched = random.chance(300_000);
    plan.workload.iter_mut().for_each(|traffic| traffic.fetched = fetched);
    plan.nuisances = nuisances(random, &plan);
    // A window of one packet at 30 % loss and half a millisecond makes a run long.
    plan.time_limit = Duration::from_secs(600);
    plan
}

fn settings(random: &mut Random) -> Settings {
    Settings {
        packet_size: random.pick(&[256, 576, 1452, 1452, 8952, 65_507]),
        window_packets: random.pick(&[1, 2, 7, 16, 64, 128, 1024, 2048]),
        bulk_paths: u8::from(random.chance(500_000)),
        ack_scheme: random.pick(&[AckScheme::Deferred, AckScheme::Immediate, AckScheme::EveryPacket]),
        ack_packets: random.pick(&[1, 4, 16, 64]),
        sealed: random.chance(300_000),
        queue_bytes: random.pick(&[1_000, 100_000]),
        ..Settings::default()
    }
}

fn topology(random: &mut Random, packet: u64) -> (u32, Topology) {
    let rate = random.pick(&[100, 1_000, 10_000, 100_000]);
    let mut link = Link {
        rate,
        propagation: Duration(random.between(500, 250_000)),
        mark_bytes: random.pick(&[None, Some(30_000), Some(300_000)]),
        bucket: None,
    };
    if random.chance(200_000) {
        let burst_bytes = frame_bytes(packet) * random.between(1, 20);
        let limit_bytes = burst_bytes.max(random.pick(&[200_000, 1 << 20]));
        link.bucket = Some(Bucket { rate: rate / random.between(1, 10), burst_bytes, limit_bytes });
    }
    let bytes = random.pick(&[200_000, 1 << 20, 16 << 20]);
    let buffer = random.pick(&[Buffer::PerPort(bytes), Buffer::Shared(2 * bytes)]);
    match random.below(4) {
        0 => (2, Topology::BackToBack { link }),
        1 | 2 => (random.between(2, 8) as u32, Topology::Switch { link, buffer }),
        _ => {
            let (leaves, spines) = (random.between(2, 4) as u32, random.between(1, 4) as u32);
            let trunk = Link { rate: rate * random.between(1, 4), bucket: None, ..link };
            let spreading = random.pick(&[Spreading::PerFlow, Spreading::PerPacket]);
            let ranks = leaves * random.between(1, 4) as u32;
            (ranks, Topology::LeafSpine { link, trunk, leaves, spines, spreading, buffer })
        }
    }
}

fn workload(random: &mut Random, ranks: u32, packet: u64) -> Vec<Traffic> {
    let bytes = random.between(1, 100 * packet);
    match random.below(8) {
        0 => workload::ping_pong(random.between(1, 500) as u32, random.below(packet)),
        1 => workload::stream(vec![bytes; random.between(1, 6) as usize]),
        2 => workload::both_ways(random, 500, 10 * bytes),
        3 => workload::incast(ranks, bytes),
        4 => workload::all_to_all(ranks, bytes / 4 + 1),
        5 => workload::permutation(random, ranks, bytes),
        6 => workload::neighbours(random, ranks, 200, bytes),
        _ => {
            let mut traffic = workload::anything(random, ranks, packet);
            if traffic.is_empty() {
                traffic = workload::stream(vec![bytes]);
            }
            traffic
        }
    }
}

fn nuisances(random: &mut Random, plan: &Plan) -> Vec<Nuisance> {
    let mut nuisances = Vec::new();
    if random.chance(100_000) {
        return nuisances;
    }
    let mut some = |most: u64| if random.chance(400_000) { random.below(most) as u32 } else { 0 };
    let rank = None;
    let (loss, begins, twice) = (some(300_000), some(5_000), some(100_000));
    let (reorder, corrupt, forge, replay) = (some(300_000), some(50_000), some(100_000), some(100_000));
    let late_max = Duration(random.between(1_000, 1_000_000));
    let drawn = [
        (loss, Nuisance::Loss { per_million: loss, rank }),
        (begins, Nuisance::Bursts { begins, ends: 100_000, loss: 900_000 }),
        (twice, Nuisance::Duplication { per_million: twice, late_max }),
        (reorder, Nuisance::Reordering { per_million: reorder, delay_max: late_max }),
        (corrupt, Nuisance::Corruption { per_million: corrupt }),
        (forge, Nuisance::Forgery { per_million: forge }),
        (replay, Nuisance::Replay { per_million: replay }),
    ];
    nuisances.extend(drawn.into_iter().filter(|(chance, _)| *chance > 0).map(|(_, nuisance)| nuisance));
    let any_rank = |random: &mut Random| random.below(plan.ranks.into()) as u32;
    for _ in 0..random.below(3) {
        let (from, to) = span(random, 50_000_000);
        nuisances.push(Nuisance::Blackout { from, to });
    }
    for _ in 0..random.below(4) {
        let (rank, (from, to)) = (any_rank(random), span(random, 200_000_000));
        nuisances.push(Nuisance::Pause { rank, from, to });
    }
    if random.chance(150_000) {
        let period = Duration(random.pick(&[1_000_000, 10_000_000, 100_000_000]));
        nuisances.push(Nuisance::Overload { run: Duration(period.0 / random.between(2, 10)), period });
    }
    if random.chance(200_000) {
        nuisances.push(Nuisance::Slow { rank: any_rank(random), factor: random.between(2, 20) as u32 });
    }
    if random.chance(300_000) {
        let (from, to) = span(random, 50_000_000);
        nuisances.push(Nuisance::Cut { cable: cable(random, plan), from, to });
    }
    if random.chance(300_000) {
        nuisances.push(Nuisance::Flapping {
            cable: cable(random, plan),
            from: Instant(random.below(10_000_000)),
            down: Duration(random.between(1_000, 5_000_000)),
            up: Duration(random.between(100_000, 10_000_000)),
            times: random.between(1, 20) as u32,
        });
    }
    if random.chance(200_000) {
        for _ in 0..random.between(1, 3) {
            let rank = random.chance(500_000).then(|| any_rank(random));
            nuisances.push(mtu(random, plan.settings.packet_size, rank, 200_000_000));
        }
    }
    if random.chance(500_000) {
        let ahead_max = Duration(random.pick(&[0, 1_000_000, 86_400_000_000_000]));
        nuisances.push(Nuisance::Clocks { ahead_max, drift_max: random.pick(&[20, 500]) });
    }
    nuisances
}

/// A way that carries no packets of full size for at most `most` nanoseconds.
pub(crate) fn mtu(random: &mut Random, packet_size: usize, rank: Option<u32>, most: u64) -> Nuisance {
    let (from, to) = span(random, most);
    let bytes = random.between(PACKET_SIZE_MIN as u64, packet_size as u64) as usize;
    Nuisance::Mtu { bytes, rank, from, to }
}

/// A span that begins early and lasts at most `most` nanoseconds.
fn span(random: &mut Random, most: u64) -> (Instant, Instant) {
    let from = Instant(random.below(50_000_000));
    (from, from + Duration(random.below(most)))
}

fn cable(random: &mut Random, plan: &Plan) -> Cable {
    match plan.topology {
        Topology::LeafSpine { leaves, spines, .. } if random.chance(500_000) => {
            Cable::Trunk(random.below(leaves.into()) as u32, random.below(spines.into()) as u32)
        }
        _ => Cable::Rank(random.below(plan.ranks.into()) as u32),
    }
}
