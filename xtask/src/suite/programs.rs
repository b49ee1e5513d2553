//! The C programs of `tests/c` and `examples`.

use super::conformance::CHAPTERS;
use super::context::{Context, Expected};
use super::needs::Need;
use super::process::Run;
use super::{Case, Outcome};
use std::sync::LazyLock;

/// The programs of `tests/c` that belong to no chapter of the standard, or are no conformance programs of it.
const BESIDE_CHAPTERS: &[&str] = &[
    "requests",
    "sizes",
    "node_collectives",
    "persistent",
    "repeated",
    "hardware",
    "tools",
    "events",
    "window_oracles",
    "window_passive",
    "refused_accesses",
    "refused_creations",
    "windows",
    "waiting",
    "registration_cache",
    "outside",
];

/// The programs of `tests/c` that are run in all places: those of the chapters, and the others.
pub(super) static PROGRAMS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let of_chapters = CHAPTERS.iter().flat_map(|(_, programs)| *programs);
    of_chapters.chain(BESIDE_CHAPTERS).copied().collect()
});
const RANKS_ONE_HOST: &[u32] = &[1, 2, 3, 4, 8];
/// The numbers of ranks on two hosts, even and odd: with 3 one host has two ranks and the other one.
const RANKS_TWO_HOSTS: &[u32] = &[2, 3, 4, 8];
/// The time limit: a run takes about a second where each rank has a processor, and longer with 8 ranks on 2
/// processors.
const LIMIT_SECONDS: u64 = 60;
/// The time limit of many programs in a row on four hosts, seconds.
const FOUR_HOSTS_LIMIT_SECONDS: u64 = 300;

/// The faults of a network on a bad day, and on a terrible one.
pub(super) const BAD_DAY: &str = "drop=5%,duplicate=1%,reorder=1%,seed=7";
pub(super) const FAULTS: &[(&str, &str)] =
    &[("bad", BAD_DAY), ("terrible", "drop=20%,duplicate=5%,reorder=5%,seed=11")];

/// All faults at once, damage included: a damaged packet must not be believed, least of all an
/// acknowledgement.
pub(super) const DAMAGE: &str = "drop=5%,duplicate=2%,reorder=3%,corrupt=1%";
/// The runs of the program under these faults, each with a seed of its own.
const DAMAGE_SEEDS: u32 = 3;
/// The exchanges in each of these runs.
const DAMAGE_ROUNDS: &str = "12";

fn source(name: &str) -> String {
    format!("tests/c/{name}.c")
}

pub(crate) fn one_host(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for name in PROGRAMS.iter().copied() {
        for &ranks in RANKS_ONE_HOST {
            cases.push(program(name, ranks, Where::OneHost, None));
        }
    }
    for level in 0..4 {
        cases.push(Case::new(format!("start with thread level {level}, 2 ranks"), move |context| {
            attempt(|| Ok(context.mpiexec(2).arg(context.compile(&source("start"))?).arg(level.to_string())))
        }));
    }
    cases.push(Case::new("hardware of ranks that are bound to cores, 2 ranks", |context| {
        if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
            return Outcome::Skipped("one processor".into());
        }
        attempt(|| {
            let run = context.mpiexec(2).args(["--bind-to", "core"]);
            Ok(run.arg(context.compile(&source("hardware"))?).arg("bound"))
        })
    }));
    // A count that begins anew after Finalize once met an old count by chance, in one start of a hundred.
    cases.push(Case::new("sessions_after, 2 ranks, a hundred times", |context| {
        let mut runs =
            (0..100).map(|_| attempt(|| Ok(context.mpiexec(2).arg(context.compile(&source("sessions_after"))?))));
        runs.find(|outcome| !matches!(outcome, Outcome::Passed)).unwrap_or(Outcome::Passed)
    }));
    for ranks in [1, 2] {
        for name in ["misuse", "callbacks", "given_up"] {
            cases.push(program(name, ranks, Where::OneHost, None));
        }
    }
    for ranks in [1, 2, 4] {
        for (name, limit) in [("run_out", "60"), ("contexts", "80")] {
            cases.push(Case::new(
                format!("{name} with {limit} communicators at a time, {ranks} ranks"),
                move |context| {
                    attempt(|| {
                        let run = context.mpiexec(ranks).arg(context.compile(&source(name))?);
                        Ok(run.env("WEFT_COMMUNICATORS", limit))
                    })
                },
            ));
        }
    }
    cases.push(program("large", 2, Where::OneHost, None));
    cases.push(program("flood", 2, Where::OneHost, None));
    cases.push(Case::new("flood of half a megabyte with no memory for it, 2 ranks", |context| {
        attempt(|| {
            let run = context.mpiexec(2).arg(context.compile(&source("flood"))?);
            Ok(run.arg("7000").env("WEFT_UNEXPECTED_BYTES", "0"))
        })
    }));
    cases.push(Case::new("collectives without mpiexec", |context| {
        attempt(|| Ok(Run::new(context.compile(&source("collectives"))?)))
    }));
    cases
}

pub(crate) fn two_hosts(_: &Context) -> Vec<Case> {
    let pairs = PROGRAMS.iter().flat_map(|name| RANKS_TWO_HOSTS.iter().map(move |ranks| (name, *ranks)));
    let mut cases: Vec<Case> = pairs.map(|(name, ranks)| program(name, ranks, Where::TwoHosts, None)).collect();
    cases.push(Case::new("incast, 8 ranks to one of another host", |context| {
        attempt(|| {
            let hosts = context.hosts()?;
            let places = format!("{}:1,{}:8", hosts.names[0], hosts.names[1]);
            let run = context.mpiexec(9).args(["--hosts", &places, "--agent", &hosts.agent]);
            Ok(run.arg(context.compile(&source("incast"))?))
        })
    }));
    for (ranks, scheme) in [(2, "basic"), (4, "multicast"), (5, "window"), (6, "coroot-1+aggregate-3")] {
        cases.push(multicast(ranks, scheme, None));
    }
    cases.push(program("misuse", 2, Where::TwoHosts, None));
    cases.push(program("given_up", 2, Where::TwoHosts, None));
    cases.push(program("large", 2, Where::TwoHosts, None));
    cases.push(program("flood", 2, Where::TwoHosts, None));
    // By default small packets are raw frames where the privilege is there, and bulk data goes by UDP; here
    // each link carries both.
    for link in ["ethernet", "udp", "shared,udp"] {
        cases.push(over(link, format!("WEFT_LINK={link}, sizes, 2 ranks"), move |context| {
            attempt(|| Ok(context.mpiexec_on_hosts(2)?.arg(context.compile(&source("sizes"))?).env("WEFT_LINK", link)))
        }));
    }
    cases
}

pub(crate) fn faults(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for link in ["ethernet", "udp"] {
        for name in ["point_to_point", "sizes"] {
            cases.push(over(link, format!("WEFT_LINK={link}, {name}, 2 ranks on a bad day"), move |context| {
                attempt(|| {
                    let run = context.mpiexec_on_hosts(2)?.arg(context.compile(&source(name))?);
                    Ok(run.env("WEFT_LINK", link).env("WEFT_FAULTS", FAULTS[0].1))
                })
            }));
        }
    }
    for (link, sealed) in ["ethernet", "udp"].into_iter().flat_map(|link| [(link, "0"), (link, "1")]) {
        for seed in 1..=DAMAGE_SEEDS {
            let title = format!("WEFT_LINK={link} WEFT_SEALED={sealed}, outstanding, 2 ranks, damage with seed {seed}");
            cases.push(Case::new(title, move |context| {
                attempt(|| {
                    let run = context.mpiexec_on_hosts(2)?.arg(context.compile(&source("outstanding"))?);
                    let run = run.arg(DAMAGE_ROUNDS).env("WEFT_LINK", link).env("WEFT_SEALED", sealed);
                    Ok(run.env("WEFT_FAULTS", format!("{DAMAGE},seed={seed}")))
                })
            }));
        }
    }
    cases.push(multicast(4, "aggregate-10", Some(("damaged", DAMAGE))));
    for (day, setting) in FAULTS {
        cases.push(multicast(4, "aggregate-10", Some((day, setting))));
        for name in ["point_to_point", "sizes", "collectives", "threads"] {
            cases.push(program(name, 2, Where::TwoHosts, Some((day, setting))));
        }
        cases.push(program("collectives", 4, Where::TwoHosts, Some((day, setting))));
    }
    // Acknowledgements are lost so often that a buffered send has to wait long to learn of the room in its
    // buffer.
    let day = ("hopeless", "drop=40%,duplicate=5%,reorder=5%,seed=3");
    cases.push(program("point_to_point", 2, Where::TwoHosts, Some(day)));
    cases
}

/// A case of broadcasts that are multicast, if the library finds that the network between the hosts carries
/// multicast.
fn multicast(ranks: u32, scheme: &'static str, fault: Option<(&'static str, &'static str)>) -> Case {
    let day = fault.map_or(String::new(), |(day, _)| format!(" on a {day} day"));
    Case::new(format!("WEFT_BCAST={scheme}, multicast, {ranks} ranks{day}"), move |context| {
        let finished = || {
            let run = context.mpiexec_on_hosts(ranks)?.arg("--stats").arg(context.compile(&source("multicast"))?);
            let run = run.env("WEFT_BCAST", scheme);
            let run = fault.into_iter().fold(run, |run, (_, setting)| run.env("WEFT_FAULTS", setting));
            run.limit(LIMIT_SECONDS).finish()
        };
        // Correct broadcasts do not show how they came.
        Expected::code(0).says("packets multicast: ").judge(finished())
    })
}

/// A case over one link between the two hosts. Raw frames take an Ethernet between them.
fn over(link: &'static str, name: String, run: impl Fn(&Context) -> Outcome + 'static) -> Case {
    Case::new(name, run).needs(if link == "ethernet" { &[Need::Networks] } else { &[] })
}

#[derive(Clone, Copy)]
enum Where {
    OneHost,
    TwoHosts,
}

fn program(name: &'static str, ranks: u32, place: Where, fault: Option<(&'static str, &'static str)>) -> Case {
    let day = fault.map_or(String::new(), |(day, _)| format!(" on a {day} day"));
    Case::new(format!("{name}, {ranks} ranks{day}"), move |context| {
        attempt(|| {
            let run = match place {
                Where::OneHost => context.mpiexec(ranks),
                Where::TwoHosts => context.mpiexec_on_hosts(ranks)?,
            };
            let run = run.arg(context.compile(&source(name))?);
            Ok(match fault {
                Some((_, setting)) => run.env("WEFT_FAULTS", setting),
                None => run,
            })
        })
    })
}

/// Makes the run and expects it to succeed.
pub(super) fn attempt(make: impl FnOnce() -> anyhow::Result<Run>) -> Outcome {
    Expected::code(0).judge(make().and_then(|run| run.limit(LIMIT_SECONDS).finish()))
}

/// The run of these programs, one after the other, on four hosts.
pub(super) fn on_four_hosts(context: &Context, programs: &[&str]) -> anyhow::Result<Run> {
    let script = "weft=$0; for program; do \"$weft\" -n 4 --hosts \"$WEFT_HOSTS\" --agent \"$WEFT_AGENT\" \"$program\" || \
                  { echo \"$program failed\"; exit 1; }; done";
    let mut run = Run::new(context.bin("weft")).args(["hosts", "run", "--count", "4", "--", "sh", "-c", script]);
    run = run.arg(context.bin("mpiexec"));
    for program in programs {
        run = run.arg(context.compile(&source(program))?);
    }
    Ok(run.limit(FOUR_HOSTS_LIMIT_SECONDS))
}

pub(crate) fn examples(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for exchange in [Exchange::Messages, Exchange::Puts] {
        for ranks in [1, 2, 3, 4, 6] {
            cases.push(heat(ranks, exchange, Where::OneHost, None));
        }
        cases.push(heat(4, exchange, Where::TwoHosts, None));
        cases.push(heat(4, exchange, Where::TwoHosts, Some(FAULTS[0])));
    }
    cases.push(Case::new("heat makes a plate of its own where it gets none, 4 ranks", |context| {
        let run = || Ok(context.mpiexec(4).arg(context.compile("examples/heat.c")?).args(["--scale", "1"]));
        let finished = run().and_then(|run| run.args(["--steps", "50"]).directory(&context.work).finish());
        Expected::code(0).says("equal to the serial solution").judge(finished)
    }));
    cases.push(Case::new("heat without its input says so", |context| {
        let run = || Ok(context.mpiexec(2).arg(context.compile("examples/heat.c")?).args(["--input", "no.pgm"]));
        Expected::code(1).says("cannot read no.pgm: No such file").judge(run().and_then(|run| run.finish()))
    }));
    for name in ["hello", "ring"] {
        cases.push(Case::new(format!("{name}, 4 ranks on two hosts"), move |context| {
            let run = || Ok(context.mpiexec_on_hosts(4)?.arg(context.compile(&format!("examples/{name}.c"))?));
            Expected::code(0)
                .says(if name == "ring" { "(right) on Weft" } else { "hello from rank 3 of 4" })
                .judge(run().and_then(|run| run.finish()))
        }));
    }
    cases
}

/// The way in which ranks of heat get their neighbours' rims.
#[derive(Clone, Copy)]
enum Exchange {
    Messages,
    Puts,
}

fn heat(ranks: u32, exchange: Exchange, place: Where, fault: Option<(&'static str, &'static str)>) -> Case {
    let (exchange_name, option) = match exchange {
        Exchange::Messages => ("", None),
        Exchange::Puts => (" with puts", Some("--puts")),
    };
    let place_name = if matches!(place, Where::OneHost) { "one host" } else { "two hosts" };
    let day = fault.map_or(String::new(), |(day, _)| format!(" on a {day} day"));
    Case::new(format!("heat{exchange_name}, {ranks} ranks on {place_name}{day}"), move |context| {
        let run = || {
            let run = match place {
                Where::OneHost => context.mpiexec(ranks),
                Where::TwoHosts => context.mpiexec_on_hosts(ranks)?,
            };
            let run = run.arg(context.compile("examples/heat.c")?);
            let run = run.arg("--input").arg(context.root.join("examples/heat.pgm"));
            let run = run.arg("--output").arg(context.work.join("heat.png")).args(["--steps", "100"]).args(option);
            Ok(fault.map_or(run.clone(), |(_, setting)| run.env("WEFT_FAULTS", setting)))
        };
        Expected::code(0).says("equal to the serial solution to the last bit").judge(run().and_then(|run| run.finish()))
    })
}
