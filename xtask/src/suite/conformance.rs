//! Runs the conformance programs of `tests/c`, by chapter of the standard: the same binary, compiled by
//! MPICH's wrapper of the standard ABI, runs on MPICH and on Weft. Parts that a library is known not to
//! support are left out by name, see `tests/c/left-out.txt`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::context::{Context, Expected};
use super::process::{Finished, Run};
use super::{Case, Outcome};

/// The chapters of MPI-5.0 with their programs.
pub(crate) const CHAPTERS: &[(u32, &[&str])] = &[
    (3, &["chapter3", "point_to_point", "probe"]),
    (4, &["partitioned"]),
    (5, &["datatypes"]),
    (6, &["collectives", "operations", "between"]),
    (7, &["groups", "communicators", "intercommunicators", "contexts", "create_group"]),
    (8, &["topologies", "neighbors"]),
    (9, &["environment", "errors"]),
    (10, &["chapter10"]),
    (11, &["sessions", "sessions_after", "sessions_later", "start", "threads", "ports", "spawn"]),
    (12, &["chapter12", "window_access", "window_epochs"]),
    (13, &["chapter13"]),
    (
        14,
        &[
            "files_open",
            "files_view",
            "files_access",
            "files_collective",
            "files_nonblocking",
            "files_representation",
            "files_consistency",
            "files_errors",
        ],
    ),
    (15, &["chapter15"]),
    (20, &["chapter20"]),
];
/// The numbers of ranks in `make test`.
const RANKS: &[u32] = &[2];
/// The runs of a program on another library, at most, and the time after which no further one begins.
const PEER_RUNS: u32 = 10;
const PEER_RUNS_LIMIT: Duration = Duration::from_secs(2 * LIMIT_SECONDS);
/// The numbers of ranks in `make test-large`.
const RANKS_ALL: &[u32] = &[1, 2, 3, 4, 5];
/// The number of ranks with which known faults show.
const RANKS_FOR_FAULTS: u32 = 5;
/// The time limit, seconds: MPICH's ranks spin where there are more ranks than processors.
const LIMIT_SECONDS: u64 = 60;
/// The time limit of a known fault, seconds: the fault may be that a program hangs.
const FAULT_LIMIT_SECONDS: u64 = 20;
pub(crate) const LEFT_OUT: &str = "tests/c/left-out.txt";

/// The reason why a part is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The standard demands the part.
    Fault,
    /// The standard demands the part, and it fails only now and then.
    Chance,
    /// The standard leaves the part open, and Weft promises it.
    Open,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Fault, Kind::Chance, Kind::Open];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Fault => "fault",
            Kind::Chance => "chance",
            Kind::Open => "open",
        }
    }
}

/// A line of [`LEFT_OUT`].
pub(crate) struct LeftOut {
    pub(crate) library: String,
    pub(crate) program: String,
    pub(crate) part: String,
    pub(crate) kind: Kind,
    pub(crate) reason: String,
}

/// Reads [`LEFT_OUT`].
pub(crate) fn left_out(root: &Path) -> anyhow::Result<Vec<LeftOut>> {
    let text = std::fs::read_to_string(root.join(LEFT_OUT)).context(LEFT_OUT)?;
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(parse).collect()
}

fn parse(line: &str) -> anyhow::Result<LeftOut> {
    let fields: Vec<&str> = line.splitn(5, ' ').collect();
    let wrong = || anyhow::anyhow!("{LEFT_OUT}: \"{line}\" is not LIBRARY PROGRAM PART fault|chance|open REASON");
    let &[library, program, part, kind, reason] = fields.as_slice() else { return Err(wrong()) };
    let kind = Kind::ALL.into_iter().find(|known| known.name() == kind).ok_or_else(wrong)?;
    let [library, program, part, reason] = [library, program, part, reason].map(str::to_owned);
    Ok(LeftOut { library, program, part, kind, reason })
}

/// The suite of `make test`.
pub(crate) fn cases(context: &Context) -> Vec<Case> {
    programs(context, RANKS)
}

/// Makes the cases of all programs with 1 to 5 ranks, and checks that each part that is left out still needs
/// to be.
pub(crate) fn all_cases(context: &Context) -> Vec<Case> {
    let mut cases = programs(context, RANKS_ALL);
    match left_out(&context.root) {
        Ok(lines) => cases.extend(lines.into_iter().filter(|line| line.kind != Kind::Chance).map(still_needed)),
        Err(error) => cases.push(Case::new(LEFT_OUT, move |_| Outcome::Failed(format!("{error:#}")))),
    }
    cases
}

fn programs(context: &Context, counts: &'static [u32]) -> Vec<Case> {
    let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in left_out(&context.root).unwrap_or_default() {
        parts.entry(line.program).or_default().push(line.part);
    }
    let mut cases = Vec::new();
    for (chapter, programs) in CHAPTERS {
        for program in *programs {
            let without = parts.get(*program).map_or(String::new(), |parts| parts.join(" "));
            for &ranks in counts {
                let without = without.clone();
                cases.push(Case::new(
                    format!("chapter {chapter}, {program}, {ranks} ranks on MPICH"),
                    move |context| {
                        unless_missing(context, || {
                            passes_once(|| {
                                let run = on_mpich(context, program, ranks)?.env("LEAVE_OUT", &without);
                                run.limit(LIMIT_SECONDS).finish()
                            })
                        })
                    },
                ));
                cases.push(Case::new(format!("chapter {chapter}, {program}, {ranks} ranks on Weft"), move |context| {
                    unless_missing(context, || {
                        let binary = || compiled(context, program);
                        let run = || Ok(context.mpiexec(ranks).arg(binary()?));
                        let run = run().map(|run| run.env("LD_LIBRARY_PATH", context.prefix.join("lib")));
                        Expected::code(0).judge(run.and_then(|run| run.limit(LIMIT_SECONDS).finish()))
                    })
                }));
            }
        }
    }
    cases
}

/// A case that checks that a left-out part still fails, or hangs, on its library: else its line is to be
/// removed.
fn still_needed(line: LeftOut) -> Case {
    let LeftOut { library, program, part, .. } = line;
    Case::new(format!("{library} still needs {program} without \"{part}\""), move |context| {
        unless_missing(context, || {
            let run = || {
                let others = left_out(&context.root)?.into_iter().filter(|line| line.program == program);
                let others: Vec<String> = others.map(|line| line.part).filter(|other| *other != part).collect();
                Ok(on_mpich(context, &program, RANKS_FOR_FAULTS)?.env("LEAVE_OUT", others.join(" ")))
            };
            match run().and_then(|run| run.limit(FAULT_LIMIT_SECONDS).finish()) {
                Ok(finished) if finished.code == Some(0) => {
                    Outcome::Failed(format!("it passes: remove its line from {LEFT_OUT}"))
                }
                Ok(_) => Outcome::Passed,
                Err(error) => Outcome::Failed(format!("{error:#}")),
            }
        })
    })
}

/// Runs a program on another library until it passes, [`PEER_RUNS`] times at most. The program is right if it
/// passes once: on a busy machine MPICH now and then loses a start, and in one of ten runs
/// `MPI_Comm_create_from_group` takes another message for its own. That is no fault of the program.
fn passes_once(run: impl Fn() -> anyhow::Result<Finished>) -> Outcome {
    let began = Instant::now();
    let mut outcome = Expected::code(0).judge(run());
    for _ in 1..PEER_RUNS {
        match outcome {
            Outcome::Failed(_) if began.elapsed() < PEER_RUNS_LIMIT => outcome = Expected::code(0).judge(run()),
            _ => break,
        }
    }
    outcome
}

/// Skips the case where MPICH was not installed.
fn unless_missing(context: &Context, run: impl FnOnce() -> Outcome) -> Outcome {
    match context.python("mpicc_abi").exists() {
        true => run(),
        false => Outcome::Skipped("MPICH is not here: `tools/setup.sh tests` fetches it".to_owned()),
    }
}

fn compiled(context: &Context, program: &str) -> anyhow::Result<std::path::PathBuf> {
    context.compile_with(&context.python("mpicc_abi"), &format!("tests/c/{program}.c"), "-mpich")
}

fn on_mpich(context: &Context, program: &str, ranks: u32) -> anyhow::Result<Run> {
    Ok(Run::new(context.python("mpiexec")).arg("-n").arg(ranks.to_string()).arg(compiled(context, program)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_a_part_of_its_program_and_every_part_is_in_the_list() {
        let root = crate::generate::project_root();
        let lines = left_out(&root).unwrap();
        for (_, programs) in CHAPTERS {
            for program in *programs {
                let source = std::fs::read_to_string(root.join(format!("tests/c/{program}.c"))).unwrap();
                let mut parts: Vec<&str> =
                    source.split("left_out(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
                parts.sort_unstable();
                parts.dedup();
                let mut listed: Vec<&str> =
                    lines.iter().filter(|line| line.program == *program).map(|line| line.part.as_str()).collect();
                listed.sort_unstable();
                assert_eq!(parts, listed, "{program}");
            }
        }
        let is_known = |name: &str| CHAPTERS.iter().any(|(_, programs)| programs.contains(&name));
        assert!(lines.iter().all(|line| is_known(&line.program) && line.library == "mpich"));
        assert!(lines.iter().all(|line| line.kind == Kind::Open || line.reason.contains('§')));
        assert!(parse("mpich chapter3 cancel sometimes because").is_err());
    }
}
