//! `WEFT_CHECK=1`: collectives that are called wrongly across ranks, each kind with its sentence; and right ones, of which nothing is said.

use super::context::{Context, Expected};
use super::{Case, Outcome};

const MISMATCH: &str = "tests/launcher/mismatch.c";
/// Seconds that a mismatch may take to be found: without the check the programs hang.
const LIMIT: u64 = 60;

/// What is wrong, and what must be said of it.
const KINDS: &[(&str, &str)] = &[
    ("operation", "on MPI_COMM_WORLD rank 1 calls MPI_Barrier, rank 0 calls MPI_Bcast"),
    ("form", "rank 1 calls MPI_Ibcast, rank 0 calls MPI_Bcast"),
    ("root", "rank 1 calls MPI_Bcast with root 1, rank 0 with root 0"),
    ("count", "in MPI_Bcast rank 0 sends 4 × MPI_INT (16 bytes) to rank 1, which expects 5 × MPI_INT (20 bytes)"),
    ("type", "rank 0 sends 4 × MPI_INT (16 bytes) to rank 1, which expects 2 × MPI_DOUBLE (16 bytes)"),
    ("op", "rank 1 calls MPI_Allreduce with MPI_MAX, rank 0 with MPI_SUM"),
    ("operands", "rank 1 calls MPI_Reduce with 3 × MPI_INT (12 bytes), rank 0 with 4 × MPI_INT (16 bytes)"),
    ("gather", "in MPI_Gather rank 1 sends 3 × MPI_INT (12 bytes) to rank 0, which expects 2 × MPI_INT (8 bytes)"),
    ("scatterv", "in MPI_Scatterv rank 0 sends 2 × MPI_INT (8 bytes) to rank 1, which expects 1 × MPI_INT (4 bytes)"),
    ("alltoallv", "in MPI_Alltoallv rank 1 sends 2 × MPI_INT (8 bytes) to rank 0, which expects 1 × MPI_INT (4 bytes)"),
    ("nonblocking", "rank 1 calls MPI_Iallreduce with 2 × MPI_INT (8 bytes), rank 0 with 1 × MPI_INT (4 bytes)"),
    ("persistent", "rank 1 calls MPI_Bcast_init with root 1, rank 0 with root 0"),
    ("dup", "rank 1 calls MPI_Comm_split, rank 0 calls MPI_Comm_dup"),
    ("make-cart", "rank 1 calls MPI_Barrier, rank 0 calls MPI_Cart_create"),
    ("make-graph", "rank 1 calls MPI_Barrier, rank 0 calls MPI_Graph_create"),
    ("make-dist-graph", "rank 1 calls MPI_Barrier, rank 0 calls MPI_Dist_graph_create"),
    ("make-adjacent", "rank 1 calls MPI_Barrier, rank 0 calls MPI_Dist_graph_create_adjacent"),
    ("make-intercomm", "rank 1 calls MPI_Barrier, rank 0 calls MPI_Intercomm_create"),
    ("make-split-type", "rank 1 calls MPI_Barrier, rank 0 calls MPI_Comm_split_type"),
    ("finalize", "rank 1 calls MPI_Finalize, rank 0 calls MPI_Barrier"),
    ("order", "the communicators are used in different orders"),
];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases: Vec<Case> = KINDS.iter().map(|(what, says)| wrong(what, says)).collect();
    cases.push(Case::new("over two hosts", |context| {
        let run = context.mpiexec_on_hosts(4).and_then(|run| Ok(run.arg(context.compile(MISMATCH)?).arg("root")));
        let run = run.map(|run| run.env("WEFT_CHECK", "1").limit(LIMIT));
        Expected::failure().says("rank 1 calls MPI_Bcast with root 1").judge(run.and_then(|run| run.finish()))
    }));
    cases.push(Case::new("errors that return: all hear of it, and go on", |context| {
        let run = context.compile(MISMATCH).map(|program| context.mpiexec(3).arg(program).arg("returned"));
        let run = run.map(|run| run.env("WEFT_CHECK", "1").limit(LIMIT));
        let expected = Expected::code(0).says("rank 0: class MPI_ERR_ROOT").says("rank 1: class MPI_ERR_ROOT");
        expected.says("rank 2: class MPI_ERR_ROOT").judge(run.and_then(|run| run.finish()))
    }));
    for ranks in [2, 3, 9] {
        cases.push(Case::new(format!("{ranks} ranks that call what they should"), move |context| {
            let run = context.compile(MISMATCH).map(|program| context.mpiexec(ranks).arg(program));
            let run = run.map(|run| run.env("WEFT_CHECK", "1").limit(LIMIT));
            Expected::code(0).says("all right").never_says("WEFT_CHECK").judge(run.and_then(|run| run.finish()))
        }));
    }
    for program in ["tests/c/collectives.c", "tests/c/communicators.c", "tests/c/requests.c"] {
        cases.push(Case::new(format!("{program} is found to be right"), move |context| {
            let run = context.compile(program).map(|program| context.mpiexec(4).arg(program));
            let run = run.map(|run| run.env("WEFT_CHECK", "1").limit(2 * LIMIT));
            Expected::code(0).never_says("WEFT_CHECK").judge(run.and_then(|run| run.finish()))
        }));
    }
    cases
}

fn wrong(what: &'static str, says: &'static str) -> Case {
    Case::new(format!("{what} differs"), move |context: &Context| -> Outcome {
        let run = context.compile(MISMATCH).map(|program| context.mpiexec(3).arg(program).arg(what));
        let run = run.map(|run| run.env("WEFT_CHECK", "1").limit(LIMIT));
        Expected::failure().says("WEFT_CHECK").says(says).judge(run.and_then(|run| run.finish()))
    })
}
