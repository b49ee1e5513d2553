//! The machine of a drawn program: nodes, networks, nuisances, and the costs that processes believe.

use super::DrawOptions;
use crate::job::machine::Machine;
use crate::job::network::{Break, Multicast, Ordered, Placing, Wires};
use crate::job::node::Habits;
use crate::nuisance::Nuisance;
use weft_core::flow::{PACKET_SIZE_MAX, PACKET_SIZE_MIN};
use weft_core::long_path_choice::LongPathUse;
use weft_core::multicast::Scheme;
use weft_core::time::{Duration, Instant};
use weft_engine::protocols::{CostModel, EAGER_LIMIT};
use weft_engine::transport::Proof;
use weft_random::Random;

/// The largest job that is drawn.
const RANKS_MAX: u64 = 6;
/// Believed costs, as multiples of the built-in ones, in quarters.
const QUARTERS: [u64; 7] = [0, 1, 3, 4, 5, 16, 4000];

pub(super) fn machine(random: &mut Random, dies: bool, large: bool, draw_options: DrawOptions) -> Machine {
    let ranks = draw_options.ranks.unwrap_or_else(|| random.between(2, RANKS_MAX) as usize);
    let count = random.between(1, 3.min(ranks as u64));
    let mut nodes: Vec<usize> = (0..ranks).map(|_| random.below(count) as usize).collect();
    // Numbers without gaps.
    let mut known: Vec<usize> = nodes.clone();
    known.sort_unstable();
    known.dedup();
    nodes.iter_mut().for_each(|node| *node = known.iter().position(|of| of == node).unwrap_or(0));
    let habits = Habits {
        ring_bytes: if large { 1 << 20 } else { random.pick(&[64 << 10, 64 << 10, 256 << 10]) },
        refused: random.pick(&[0, 0, 20_000]),
        delay_max: random.pick(&[0, 0, 300, 5_000]),
        entries: random.pick(&[64, 64, 2]),
        crowded: random.chance(300_000),
        costs: [CostModel::BUILT_IN; 2],
        frames_per_costs: 0,
    };
    let raw = random.pick(&[0, 0, 1, 2]);
    Machine {
        costs: vec![CostModel::BUILT_IN; nodes.len()],
        nodes,
        habits,
        single_copy: random.chance(700_000),
        eager_limit: random.pick(&[0, 1000, 8 << 10, 64 << 10, 64 << 10]),
        wires: wires(random, dies),
        raw,
        has_udp: raw == 0 || random.chance(800_000),
        window_packets: random.pick(&[64, 1024]),
        sealed: random.chance(100_000),
        peer_timeout: if dies { Duration::from_millis(400) } else { Duration::from_secs(8) },
        turns: if large { random.pick(&[0, 50_000, 300_000]) } else { random.pick(&[0, 0, 20_000, 100_000]) },
        contended: random.pick(&[0, 0, 200_000]),
        // Where copies are slow, sender and receiver both copy a message for which both wait.
        ticks_per_look: random.pick(&[0, 0, if large { 1 << 20 } else { 100_000 }]),
    }
}

fn wires(random: &mut Random, dies: bool) -> Wires {
    let mut nuisances = Vec::new();
    let us = Duration::from_micros;
    if random.chance(400_000) {
        nuisances.push(Nuisance::Loss { per_million: random.pick(&[1_000, 10_000, 50_000]), rank: None });
    }
    if random.chance(250_000) {
        nuisances.push(Nuisance::Duplication { per_million: random.pick(&[5_000, 50_000]), late_max: us(300) });
    }
    if random.chance(250_000) {
        nuisances.push(Nuisance::Reordering { per_million: random.pick(&[5_000, 100_000]), delay_max: us(100) });
    }
    if random.chance(200_000) {
        nuisances.push(Nuisance::Corruption { per_million: random.pick(&[5_000, 30_000]) });
    }
    if random.chance(100_000) {
        nuisances.push(Nuisance::Replay { per_million: 20_000 });
    }
    if random.chance(100_000) {
        nuisances.push(Nuisance::Forgery { per_million: 20_000 });
    }
    if random.chance(100_000) && !dies {
        let from = Instant(random.below(500_000));
        nuisances.push(Nuisance::Blackout { from, to: from + us(random.between(10, 5_000)) });
    }
    Wires {
        packet_size: random.pick(&[600, 1452, 1452, 8952]),
        latency: random.pick(&[1_000, 10_000, 30_000]),
        gigabits: random.pick(&[1, 10, 25]),
        send_bytes: random.pick(&[16 << 10, 128 << 10, 1 << 20]),
        receive_bytes: random.pick(&[64 << 10, 1 << 20, 8 << 20]),
        refused: random.pick(&[0, 0, 10_000]),
        joins: random.chance(500_000),
        train_bytes: random.pick(&[0, 64 << 10]),
        nuisances,
        multicast: None,
        ordered: None,
    }
}

/// Joins the nodes by carriers that deliver every packet once and in order. With `breaks`, a connection
/// between two nodes breaks, if there is one.
pub(super) fn connect(machine: &mut Machine, random: &mut Random, breaks: bool) {
    let ranks = machine.ranks() as u64;
    let [from, to] = [(); 2].map(|()| random.below(ranks) as usize);
    let at = random.below(2_000_000);
    let is_apart = machine.nodes[from] != machine.nodes[to];
    (machine.raw, machine.has_udp) = (0, true);
    let wires = &mut machine.wires;
    // Strangers may be heard over any carrier; the carrier itself loses and damages nothing.
    wires.nuisances.retain(|nuisance| matches!(nuisance, Nuisance::Forgery { .. } | Nuisance::Replay { .. }));
    (wires.joins, wires.train_bytes) = (false, 0);
    wires.refused = random.pick(&[0, 10_000, 100_000]);
    wires.ordered = Some(Ordered {
        beside: false,
        room: random.pick(&[1, 4, 32, 256]),
        inject_max: random.pick(&[0, 64, 256, 16 << 10]),
        delay_max: random.pick(&[0, 5_000, 200_000]),
        tells_of_death: random.chance(500_000),
        breaks: (breaks && is_apart).then_some(Break { from, to, at }),
        stalls: None,
        placing: random.chance(600_000).then(|| Placing {
            bytes_min: random.pick(&[1, 1_000, 32 << 10]),
            eager_max: random.pick(&[100, 5_000, 64 << 10]),
            bytes_max: random.pick(&[500, 10_000, 1 << 20]),
            one_sided_min: random.pick(&[0, 1, 500, 10_000]),
            unexposed: random.pick(&[0, 100_000]),
            refused: random.pick(&[0, 0, 50_000]),
            overtaken: random.pick(&[0, 500_000]),
            proof: random.pick(&[Proof::Answer, Proof::Completion, Proof::Read]),
            tells: false,
            unasked: false,
        }),
        long_path: None,
    });
}

/// Puts carriers beside those of the nodes that write to memory of peers and carry long packets of flows. A
/// connection of theirs may break or stall, and all messages arrive all the same.
pub(super) fn add_streams(machine: &mut Machine, random: &mut Random) {
    let ranks = machine.ranks() as u64;
    let mut fails = |chance: u32| {
        let [from, to] = [(); 2].map(|()| random.below(ranks) as usize);
        let at = random.below(2_000_000);
        let is_apart = machine.nodes[from] != machine.nodes[to];
        (random.chance(chance) && is_apart).then_some(Break { from, to, at })
    };
    let (breaks, stalls) = (fails(600_000), fails(300_000));
    machine.wires.ordered = Some(Ordered {
        beside: true,
        room: random.pick(&[1, 4, 32]),
        inject_max: 0,
        delay_max: random.pick(&[0, 5_000, 200_000]),
        tells_of_death: random.chance(500_000),
        breaks,
        stalls,
        placing: Some(Placing {
            bytes_min: random.pick(&[1, 1_000, 32 << 10]),
            eager_max: u64::MAX,
            bytes_max: random.pick(&[10_000, 1 << 20]),
            one_sided_min: 0,
            unexposed: random.pick(&[0, 100_000]),
            refused: random.pick(&[0, 0, 50_000]),
            overtaken: 0,
            proof: Proof::Answer,
            tells: true,
            unasked: false,
        }),
        long_path: random.pick(&[
            None,
            Some((5_000, LongPathUse::Always)),
            Some((33 << 10, LongPathUse::Measured)),
            Some((PACKET_SIZE_MAX, LongPathUse::Always)),
        ]),
    });
    let placing = machine.wires.ordered.as_mut().and_then(|ordered| ordered.placing.as_mut());
    if let Some(placing) = placing {
        placing.unasked = placing.bytes_max == 1 << 20;
    }
}

/// Makes the paths of one process, or of all, carry smaller packets for a time. The search for the path MTU
/// may cost time, but no packet.
pub(super) fn shrink_paths(machine: &mut Machine, random: &mut Random) {
    // Questions about the path MTU follow each other as slowly as retransmissions of lost packets. On a
    // path that loses other packets, too, the search takes seconds.
    machine.peer_timeout = machine.peer_timeout.max(Duration::from_secs(4));
    let ranks = machine.ranks() as u64;
    for _ in 0..random.between(1, 3) {
        let rank = random.chance(500_000).then(|| random.below(ranks) as u32);
        let bytes = random.between(PACKET_SIZE_MIN as u64, machine.wires.packet_size as u64) as usize;
        let from = Instant(random.below(3_000_000));
        let to = from + Duration(random.pick(&[1_000_000, 100_000_000, 1_000_000_000_000]));
        machine.wires.nuisances.push(Nuisance::Mtu { bytes, rank, from, to });
    }
}

/// Makes processes believe that some parts of moving a message cost nothing, or far more than they do. All
/// processes believe the same costs, or each its own, or those of the node, which change. Their messages
/// arrive all the same.
pub(super) fn believe(machine: &mut Machine, random: &mut Random) {
    let changed = random.pick(&[200_000, 500_000, 1_000_000]);
    let model = |random: &mut Random| -> CostModel {
        let mut text = String::new();
        for ((name, _), value) in CostModel::MEANINGS.iter().zip(CostModel::BUILT_IN.values()) {
            if random.chance(changed) {
                text += &format!("{name} {}\n", value * random.pick(&QUARTERS) / 4);
            }
        }
        text.parse().expect("these are costs")
    };
    let same = model(random);
    machine.costs.fill(same);
    if random.chance(500_000) {
        machine.costs.fill_with(|| model(random));
    }
    if random.chance(300_000) {
        machine.habits.costs = [model(random), model(random)];
        machine.habits.frames_per_costs = random.pick(&[1, 7, 50, 1000]);
    }
}

/// Makes all processes believe that the kernel copies messages from some size on more quickly than a ring
/// does, and lets them choose the eager limit.
pub(super) fn believe_in_quick_kernel(machine: &mut Machine, random: &mut Random) {
    let quick = CostModel {
        kernel_copy_ps: random.pick(&[1_000, 500_000]),
        kernel_copy_per_byte_ps: random.pick(&[1, 30]),
        ring_in_turn_per_byte_ps: 150,
        ring_near_per_byte_ps: 100,
        ring_far_per_byte_ps: 100,
        // With the least costs a sender relocates its messages after a few looks.
        ring_answer_ps: random.pick(&[1_000, 500_000]),
        ..CostModel::BUILT_IN
    };
    machine.costs.fill(quick);
    machine.eager_limit = EAGER_LIMIT;
}

pub(super) fn multicast(random: &mut Random) -> Multicast {
    let scheme = Scheme {
        blocking: random.chance(200_000),
        co_roots: random.pick(&[0, 0, 1, 2]),
        aggregate: random.pick(&[1, 1, 3, 10]),
        // The simulator's carriers with groups do not write.
        written: false,
    };
    Multicast { scheme, window: random.pick(&[16, 64, 768]), filtered: random.chance(50_000) }
}
