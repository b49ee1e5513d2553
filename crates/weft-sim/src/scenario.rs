//! The plans by name; each has a topology, a workload, nuisances and demands. A scenario makes its free
//! choices from its seed.

mod plans;

use crate::nuisance::Nuisance;
use crate::plan::Plan;
use crate::report::Report;
use crate::swarm::swarm;
use crate::violation::Violation;
use crate::world;
use plans::{
    all_to_all, barriers, bidirectional, bursts, clocks, clusters, damaged, flapping, hostile, incast, incast_at_once,
    lossy, narrow, one_loss, overloaded, overrun, path_mtu, permutation, ping_pong, rail_fails, rails, rails_in_turn,
    reordering, shaped, small_messages, spraying, stalled, stream, swaps, tail_loss, thousands, trains, trunk,
};
use weft_random::Random;

/// Makes a plan from a seed.
pub type Scenario = fn(&mut Random) -> Plan;

/// All scenarios: the name, a description, and the function that makes the plan.
pub const SCENARIOS: &[(&str, &str, Scenario)] = &[
    ("ping_pong", "8 bytes there and back on a clean link: no acknowledgement of its own", ping_pong),
    ("stream", "bulk data one way on a clean link: no resend, few acknowledgements", stream),
    ("bidirectional", "bulk data both ways on a clean link", bidirectional),
    ("small_messages", "many small messages, coalesced", small_messages),
    ("lossy", "20 % of packets lost, each for itself", lossy),
    ("bursts", "packets lost in bursts, and blackouts of milliseconds", bursts),
    ("reordering", "packets that overtake each other", reordering),
    ("swaps", "neighbours that change places: no resend", swaps),
    ("hostile", "damaged, forged, repeated and replayed packets", hostile),
    ("damaged", "packets lost, doubled, late and damaged anywhere, many large messages outstanding both ways", damaged),
    ("stalled", "a rank that computes and does not look: no resend of data", stalled),
    ("overloaded", "hosts on which every process runs for 10 ms in each 100, and many messages both ways", overloaded),
    ("narrow", "a switch whose queue is much too short", narrow),
    ("overrun", "a slow receiver whose socket is much too small", overrun),
    ("shaped", "a link behind a token bucket", shaped),
    ("clocks", "hosts whose clocks differ and drift", clocks),
    ("one_loss", "a single packet lost in a stream", one_loss),
    ("tail_loss", "the last packet of a stream lost", tail_loss),
    ("mtu", "a path that carries less in the middle, more again, and loses packets besides", path_mtu),
    ("flapping", "a cable that is cut again and again", flapping),
    ("trunk", "leaf and spine, and a trunk that is cut: a detour is found", trunk),
    ("clusters", "bulk data over a link of 0.1 to 100 ms between two clusters: it is full", clusters),
    ("permutation", "leaf and spine, random pairs, one spine for each flow", permutation),
    ("spraying", "leaf and spine, random pairs, any spine for each packet", spraying),
    ("incast", "255 ranks want to send to one at the same time, and may when it grants it", incast),
    ("incast_at_once", "255 ranks send to one at the same time and do not ask", incast_at_once),
    ("trains", "bulk data in trains, two ways, one of them congested and marked", trains),
    ("rails", "bulk data over two networks of any rates: both are used to the full", rails),
    (
        "rails_in_turn",
        "large messages one after the other over two networks: no slower than over the faster alone",
        rails_in_turn,
    ),
    (
        "rail_fails",
        "two networks, one of which fails in mid-transfer and comes back: speed is lost, nothing else",
        rail_fails,
    ),
    ("all_to_all", "128 ranks, everybody to everybody", all_to_all),
    ("barriers", "1024 ranks meet again and again", barriers),
    ("thousands", "4096 ranks in 64 leaves, random pairs", thousands),
    ("swarm", "any topology, any workload, any nuisances, from the seed", swarm),
];

/// The scenario of this name.
pub fn find(name: &str) -> Option<Scenario> {
    SCENARIOS.iter().find(|(known, _, _)| *known == name).map(|(_, _, scenario)| *scenario)
}

/// The plan of a scenario for a seed, without the nuisances of these names.
pub fn plan(scenario: Scenario, seed: u64, without: &[String]) -> Plan {
    let mut plan = scenario(&mut Random::new(seed));
    plan.nuisances.retain(|nuisance| !without.iter().any(|name| name == nuisance.name()));
    plan
}

/// Plays a scenario with a seed.
pub fn play(scenario: Scenario, seed: u64) -> Result<Report, Violation> {
    world::run(&plan(scenario, seed, &[]), seed)
}

/// The names of the nuisances without which a failing plan still fails: one nuisance after the other is left
/// out.
pub fn idle_nuisances(plan: &Plan, seed: u64) -> Vec<String> {
    let mut plan = plan.clone();
    let mut idle = Vec::new();
    for name in names(&plan) {
        let mut fewer = plan.clone();
        fewer.nuisances.retain(|nuisance| nuisance.name() != name);
        if world::run(&fewer, seed).is_err() {
            plan = fewer;
            idle.push(name.to_string());
        }
    }
    idle
}

fn names(plan: &Plan) -> Vec<&'static str> {
    let mut names: Vec<_> = plan.nuisances.iter().map(Nuisance::name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The command that shows a failure again, without the nuisances of these names.
pub fn replay_line(name: &str, seed: u64, without: &[String]) -> String {
    let without = if without.is_empty() { String::new() } else { format!(" --without {}", without.join(",")) };
    format!("cargo run -p weft-sim -- {name} --seed {seed:#x}{without} --trace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_a_plan_that_can_be_built() {
        for (name, _, scenario) in SCENARIOS {
            for seed in 0..200 {
                let plan = scenario(&mut Random::new(seed));
                let flaw = plan.topology.flaw(plan.ranks, plan.settings.packet_size as u64);
                assert_eq!(flaw, None, "{name} seed {seed}");
                assert!(!plan.workload.is_empty(), "{name} seed {seed} has nothing to do");
            }
        }
    }
}
