//! Tests of one-sided operations from seeds, on one, two and four hosts, also where packets are lost,
//! repeated and reordered.

use super::context::{Context, Expected};
use super::multicast::{judge, on_hosts};
use super::programs::FAULTS;
use super::{Case, Outcome};

/// The programs of `tests/c` that take a seed and an amount of work.
const PROGRAMS: [&str; 2] = ["windows", "window_oracles"];
const SEEDS: [u32; 2] = [101, 102];
const ROUNDS: &str = "10";
/// The rounds with faults: where every fifth packet is lost, a message takes many round trips.
const ROUNDS_WITH_FAULTS: &str = "5";
/// The largest transfers of `windows`.
const BYTES_MAX: &str = "262144";
const LIMIT_SECONDS: u64 = 60;

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for (program, seed) in PROGRAMS.into_iter().flat_map(|program| SEEDS.map(|seed| (program, seed))) {
        for ranks in [2, 4, 5] {
            cases.push(Case::new(format!("{program} with seed {seed}, {ranks} ranks on one host"), move |context| {
                on_one_host(context, ranks, program, seed)
            }));
        }
        cases.push(Case::new(format!("{program} with seed {seed}, 4 ranks on two hosts"), move |context| {
            on_two_hosts(context, program, seed, ROUNDS, None)
        }));
        cases.push(Case::new(format!("{program} with seed {seed}, 4 ranks on four hosts"), move |context| {
            on_four_hosts(context, program, seed, ROUNDS, None)
        }));
        for (day, setting) in FAULTS {
            // The faults are drawn from the same seed.
            let faults = with_seed(setting, seed);
            let again = faults.clone();
            let name = |hosts: &str| format!("{program} with seed {seed}, 4 ranks on {hosts} hosts on a {day} day");
            cases.push(Case::new(name("two"), move |context| {
                on_two_hosts(context, program, seed, ROUNDS_WITH_FAULTS, Some(&faults))
            }));
            cases.push(Case::new(name("four"), move |context| {
                on_four_hosts(context, program, seed, ROUNDS_WITH_FAULTS, Some(&again))
            }));
        }
    }
    cases
}

/// The same faults, from another seed.
fn with_seed(setting: &str, seed: u32) -> String {
    let faults = setting.rsplit_once(",seed=").map_or(setting, |(faults, _)| faults);
    format!("{faults},seed={seed}")
}

fn on_one_host(context: &Context, ranks: u32, program: &str, seed: u32) -> Outcome {
    let run = || {
        let run = context.mpiexec(ranks).arg(context.compile(&format!("tests/c/{program}.c"))?);
        run.args([&seed.to_string(), ROUNDS, BYTES_MAX]).limit(LIMIT_SECONDS).finish()
    };
    Expected::code(0).judge(run())
}

fn on_two_hosts(context: &Context, program: &str, seed: u32, rounds: &str, faults: Option<&str>) -> Outcome {
    let run = || {
        let run = context.mpiexec_on_hosts(4)?.arg(context.compile(&format!("tests/c/{program}.c"))?);
        let run = run.args([&seed.to_string(), rounds, BYTES_MAX]);
        faults.into_iter().fold(run, |run, faults| run.env("WEFT_FAULTS", faults)).limit(LIMIT_SECONDS).finish()
    };
    Expected::code(0).judge(run())
}

fn on_four_hosts(context: &Context, program: &str, seed: u32, rounds: &str, faults: Option<&str>) -> Outcome {
    let settings: Vec<(&str, String)> = faults.map(|faults| ("WEFT_FAULTS", faults.to_owned())).into_iter().collect();
    let seed = seed.to_string();
    judge(&Expected::code(0), on_hosts(context, 4, program, &[&seed, rounds, BYTES_MAX], &settings))
}
