//! Tests of collectives by algorithms that a setting asks for, in two levels, out of step and under loss; of
//! settings that differ between ranks; and of `weft tune`.

use super::context::{Context, Expected};
use super::process::Run;
use super::programs::{BAD_DAY, attempt};
use super::{Case, Outcome};

/// Seconds that a run may take.
const LIMIT_SECONDS: u64 = 60;

const UNEQUAL: &str = "tests/c/unequal.c";

/// Settings that ask for algorithms that the built-in table does not choose in these places.
const ASKED: [(&str, &[(&str, &str)]); 3] = [
    (
        "two levels",
        &[
            ("WEFT_BARRIER", "two-level"),
            ("WEFT_BCAST", "two-level"),
            ("WEFT_REDUCE", "two-level"),
            ("WEFT_ALLREDUCE", "two-level:2"),
            ("WEFT_ALLGATHER", "two-level"),
        ],
    ),
    (
        "trees with segments",
        &[
            ("WEFT_BARRIER", "k-ary:2"),
            ("WEFT_BCAST", "double-tree/4K"),
            ("WEFT_REDUCE", "double-tree/4K"),
            ("WEFT_ALLREDUCE", "k-ary:3/1K"),
            ("WEFT_GATHER", "k-nomial:3"),
            ("WEFT_SCATTER", "k-nomial:4"),
            ("WEFT_ALLGATHER", "doubling"),
            ("WEFT_ALLTOALL", "pairwise:1"),
            ("WEFT_SCAN", "chain/1K"),
        ],
    ),
    (
        "rings and powers",
        &[
            ("WEFT_BARRIER", "chain"),
            ("WEFT_BCAST", "scatter-ring"),
            ("WEFT_REDUCE", "chain/1K"),
            ("WEFT_ALLREDUCE", "multiplying:3"),
            ("WEFT_ALLGATHER", "neighbour-exchange"),
            ("WEFT_ALLTOALL", "bruck"),
            ("WEFT_REDUCE_SCATTER", "pairwise"),
        ],
    ),
];

/// Programs that run on hosts in two clusters, with their numbers of ranks; some hosts have two ranks.
const IN_CLUSTERS: [(&str, u32); 4] =
    [("tests/c/collectives.c", 8), ("tests/c/collectives.c", 7), ("tests/c/crowded.c", 8), (UNEQUAL, 7)];

/// Settings by which ranks of one host copy from each other's memory, for any size.
pub(super) const SINGLE_COPIES: [(&str, &str); 6] = [
    ("WEFT_BCAST", "single-copy"),
    ("WEFT_REDUCE", "single-copy"),
    ("WEFT_ALLREDUCE", "single-copy"),
    ("WEFT_ALLGATHER", "single-copy"),
    ("WEFT_ALLTOALL", "single-copy"),
    ("WEFT_REDUCE_SCATTER", "single-copy"),
];

/// Programs that run with these settings on one host, with their numbers of ranks.
const BY_SINGLE_COPIES: [(&str, u32); 8] = [
    ("tests/c/collectives.c", 2),
    ("tests/c/collectives.c", 5),
    ("tests/c/node_collectives.c", 3),
    ("tests/c/node_collectives.c", 8),
    ("tests/c/crowded.c", 4),
    (UNEQUAL, 2),
    (UNEQUAL, 5),
    (UNEQUAL, 8),
];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for (program, ranks) in BY_SINGLE_COPIES {
        cases.push(Case::new(format!("single copies, {program}, {ranks} ranks"), move |context| {
            attempt(|| {
                let run = context.mpiexec(ranks).arg(context.compile(program)?);
                Ok(SINGLE_COPIES.iter().fold(run, |run, (name, value)| run.env(name, value)))
            })
        }));
    }
    cases.push(Case::new("single copies that are switched off at one rank: all do without", |context| {
        attempt(|| {
            let program = context.compile("tests/c/node_collectives.c")?;
            let script = format!("[ $PMI_RANK = 1 ] && export WEFT_SINGLE_COPY=0; exec {}", program.display());
            let run = context.mpiexec(3).args(["sh", "-c", &script]);
            Ok(SINGLE_COPIES.iter().fold(run, |run, (name, value)| run.env(name, value)))
        })
    }));
    for (what, settings) in ASKED {
        for (ranks, day) in [(8, None), (5, None), (4, Some(BAD_DAY))] {
            let name =
                format!("{what}, {ranks} ranks on two hosts{}", if day.is_some() { " on a bad day" } else { "" });
            cases.push(Case::new(name, move |context| {
                attempt(|| {
                    let run = context.mpiexec_on_hosts(ranks)?.arg(context.compile("tests/c/collectives.c")?);
                    let run = settings.iter().fold(run, |run, (name, value)| run.env(name, value));
                    Ok(day.map_or(run.clone(), |day| run.env("WEFT_FAULTS", day)))
                })
            }));
        }
    }
    for ranks in [2, 5, 8] {
        cases.push(Case::new(
            format!("amounts that differ between ranks end everywhere, {ranks} ranks"),
            move |context| attempt(|| Ok(context.mpiexec(ranks).arg(context.compile(UNEQUAL)?))),
        ));
    }
    cases.push(Case::new("amounts that differ between ranks end everywhere, 6 ranks on two hosts", |context| {
        attempt(|| Ok(context.mpiexec_on_hosts(6)?.arg(context.compile(UNEQUAL)?)))
    }));
    for (what, settings) in ASKED {
        let name = format!("amounts that differ between ranks end everywhere, {what}, 5 ranks on two hosts");
        cases.push(Case::new(name, move |context| {
            attempt(|| {
                let run = context.mpiexec_on_hosts(5)?.arg(context.compile(UNEQUAL)?);
                Ok(settings.iter().fold(run, |run, (name, value)| run.env(name, value)))
            })
        }));
    }
    for (program, ranks) in IN_CLUSTERS {
        cases.push(Case::new(format!("two clusters of two hosts, {program}, {ranks} ranks"), move |context| {
            attempt(|| {
                let run = context.mpiexec(ranks).args(["-ppn", "2", "--hosts", "east1,east2,west1,west2"]);
                let run = run.args(["--agent", "env WEFT_NODE={host}"]).arg(context.compile(program)?);
                Ok(run.env("WEFT_CLUSTERS", "west*").env("WEFT_INTERFACE", "lo"))
            })
        }));
    }
    for ranks in [2, 4, 8] {
        cases.push(Case::new(format!("crowded, {ranks} ranks"), move |context| {
            attempt(|| Ok(context.mpiexec(ranks).arg(context.compile("tests/c/crowded.c")?)))
        }));
    }
    for (ranks, day) in [(4, None), (8, None), (4, Some(BAD_DAY))] {
        let name = format!("crowded, {ranks} ranks on two hosts{}", if day.is_some() { " on a bad day" } else { "" });
        cases.push(Case::new(name, move |context| {
            attempt(|| {
                let run = context.mpiexec_on_hosts(ranks)?.arg(context.compile("tests/c/crowded.c")?);
                Ok(day.map_or(run.clone(), |day| run.env("WEFT_FAULTS", day)))
            })
        }));
    }
    cases.push(Case::new("settings that differ between ranks are told in one sentence", |context| {
        let run = || {
            let program = context.compile("tests/c/collectives.c")?;
            let script = format!("[ $PMI_RANK = 1 ] && export WEFT_BCAST=linear; exec {}", program.display());
            context.mpiexec(3).args(["sh", "-c", &script]).limit(LIMIT_SECONDS).finish()
        };
        let expected =
            Expected::failure().says("rank 1 would choose algorithms of collectives in another way than rank 0");
        expected.judge(run())
    }));
    cases.push(Case::new("WEFT_REPRODUCIBLE: sums have the same bits wherever 8 ranks are", reproducible));
    cases.push(Case::new("weft tune writes a table that is read", tuned));
    cases.push(Case::new("weft tune --costs writes costs that are read", costs));
    cases
}

fn reproducible(context: &Context) -> Outcome {
    let said = |run: anyhow::Result<Run>| {
        let run = run?.arg(context.compile("tests/c/sums_alike.c")?).env("WEFT_REPRODUCIBLE", "1");
        run.limit(LIMIT_SECONDS).finish()
    };
    match (said(Ok(context.mpiexec(8))), said(context.mpiexec_on_hosts(8))) {
        (Ok(one), Ok(two)) if one.output == two.output && one.output.contains("allreduce of 3000") => {
            Expected::code(0).judge(Ok(two))
        }
        (Ok(one), Ok(two)) => Outcome::Failed(format!("on one host:\n{}\non two:\n{}", one.output, two.output)),
        (Err(error), _) | (_, Err(error)) => Outcome::Failed(error.to_string()),
    }
}

/// Measures the protocols, and sends messages by the costs.   Expect: the costs differ from the built-in
/// ones, the command knows where they come from, and messages arrive.
fn costs(context: &Context) -> Outcome {
    let file = context.work.join("measured.costs");
    let written = Run::new(context.bin("weft")).args(["tune", "--costs", "--seconds", "0.01", "--output"]).arg(&file);
    match Expected::code(0).says("WEFT_COSTS=").judge(written.limit(4 * LIMIT_SECONDS).finish()) {
        Outcome::Passed => {}
        other => return other,
    }
    let costs = |run: Run| run.args(["info", "--costs"]).limit(LIMIT_SECONDS).finish();
    let (built_in, measured) =
        (costs(Run::new(context.bin("weft"))), costs(Run::new(context.bin("weft")).env("WEFT_COSTS", &file)));
    match (built_in, measured) {
        (Ok(one), Ok(other)) if one.output != other.output && other.output.contains("kernel_copy_ps") => {}
        (Ok(_), Ok(other)) => return Outcome::Failed(format!("the costs are not used:\n{}", other.output)),
        (Err(error), _) | (_, Err(error)) => return Outcome::Failed(error.to_string()),
    }
    attempt(|| Ok(context.mpiexec(2).arg(context.compile("tests/c/sizes.c")?).env("WEFT_COSTS", &file)))
}

fn tuned(context: &Context) -> Outcome {
    let table = context.work.join("tuned.table");
    let written = Run::new(context.bin("weft")).args(["tune", "-n", "2", "--operation", "barrier,bcast,allreduce"]);
    let written = written.args(["--sizes", "8,65536", "--seconds", "0.02", "--output"]).arg(&table);
    match Expected::code(0).says("WEFT_COLLECTIVES_TABLE=").judge(written.limit(4 * LIMIT_SECONDS).finish()) {
        Outcome::Passed => {}
        other => return other,
    }
    let text = std::fs::read_to_string(&table).unwrap_or_default();
    for operation in ["barrier ", "bcast ", "allreduce "] {
        if !text.lines().any(|line| line.starts_with(operation) && line.contains("ranks>=2 ranks<=2")) {
            return Outcome::Failed(format!("there is no line for {operation}:\n{text}"));
        }
    }
    attempt(|| {
        let run = context.mpiexec(2).arg(context.compile("tests/c/collectives.c")?);
        Ok(run.env("WEFT_COLLECTIVES_TABLE", &table))
    })
}
