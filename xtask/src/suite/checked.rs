//! Tests of `WEFT_CHECK=1`: each kind of collective that ranks call differently, and of message that is
//! received as another type, gets its sentence; correct programs get none.

use super::context::{Context, Expected};
use super::{Case, Outcome};

const MISMATCH: &str = "tests/launcher/mismatch.c";
const MISMATCHED: &str = "tests/launcher/mismatched.c";
/// The seconds in which a mismatch must be found: without the check the programs hang.
const LIMIT: u64 = 60;

/// The kinds of mistakes in collectives, each with the sentence that must be printed.
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
    (
        "file-amode",
        "on MPI_COMM_WORLD rank 1 calls MPI_File_open with amode WRONLY|CREATE, rank 0 with amode RDWR|CREATE",
    ),
    ("file-name", "rank 1 calls MPI_File_open with status, rank 0 with passwd"),
    ("file-call", "rank 1 calls MPI_File_sync, rank 0 calls MPI_File_write_all"),
    ("file-split", "rank 1 calls MPI_File_read_all_begin, rank 0 calls MPI_File_read_all"),
    ("file-nonblocking", "rank 1 calls MPI_File_iread_at_all, rank 0 calls MPI_File_iwrite_at_all"),
    ("file-size", "rank 1 calls MPI_File_set_size with size 5, rank 0 with size 4"),
    ("file-datarep", "rank 1 calls MPI_File_set_view with datarep internal, rank 0 with datarep native"),
    (
        "file-seek",
        "rank 1 calls MPI_File_seek_shared with offset 1 from MPI_SEEK_SET, rank 0 with offset 0 from MPI_SEEK_SET",
    ),
    ("finalize", "rank 1 calls MPI_Finalize, rank 0 calls MPI_Barrier"),
    ("order", "the communicators are used in different orders"),
];

/// The kinds of mistakes in messages, and in data among neighbours and between groups, each with its
/// sentence.
const MESSAGES: &[(&str, &str)] = &[
    (
        "type",
        "on MPI_COMM_WORLD rank 0 sent 4 × MPI_INT (16 bytes) with tag 7 by MPI_Send, and rank 1 receives it by MPI_Recv as 4 × MPI_FLOAT (16 \
         bytes)",
    ),
    (
        "nonblocking",
        "rank 0 sent 2 × MPI_INT (8 bytes) with tag 7 by MPI_Isend, and rank 1 receives it by MPI_Irecv as 20 × MPI_FLOAT",
    ),
    (
        "short",
        "rank 0 sent 4 × MPI_INT (16 bytes) with tag 7 by MPI_Send, and rank 1 receives it by MPI_Recv as 2 × MPI_INT (8 bytes)",
    ),
    ("inside", "receives it by MPI_Recv as 2 × a derived datatype (16 bytes)"),
    ("persistent", "by MPI_Send_init, and rank 1 receives it by MPI_Recv_init as 4 × MPI_FLOAT"),
    ("taken-out", "receives it by MPI_Mrecv as 4 × MPI_FLOAT"),
    (
        "sendrecv",
        "rank 1 sent 1 × MPI_FLOAT (4 bytes) with tag 7 by MPI_Sendrecv, and rank 0 receives it by MPI_Sendrecv as 1 × MPI_INT",
    ),
    (
        "partitioned",
        "the partitions of the sender are 4 × MPI_INT (16 bytes), those of the receiver 4 × MPI_FLOAT (16 bytes)",
    ),
    (
        "neighbours",
        "in MPI_Neighbor_alltoall rank 0 sends 2 × MPI_INT (8 bytes) to rank 1, which expects 3 × MPI_INT (12 bytes)",
    ),
    (
        "between-count",
        "in MPI_Bcast rank 0 sends 2 × MPI_INT (8 bytes) to rank 1, which expects 3 × MPI_INT (12 bytes)",
    ),
    ("between-root", "(ranks in MPI_COMM_WORLD) rank 1 calls MPI_Bcast with root 2, rank 0 with root 0"),
    ("between-nobody", "rank 1 calls MPI_Bcast with root 0, which calls it with MPI_PROC_NULL, not MPI_ROOT"),
    ("between-call", "rank 2 calls MPI_Barrier, rank 0 calls MPI_Bcast"),
    (
        "between-gather",
        "in MPI_Gather rank 3 sends 1 × MPI_INT (4 bytes) to rank 0, which expects 2 × MPI_INT (8 bytes)",
    ),
    (
        "between-alltoall",
        "in MPI_Alltoall rank 0 sends 2 × MPI_FLOAT (8 bytes) to rank 1, which expects 2 × MPI_INT (8 bytes)",
    ),
    ("between-operands", "rank 3 calls MPI_Allreduce with 1 × MPI_INT (4 bytes), rank 0 with 2 × MPI_INT (8 bytes)"),
    ("between-op", "rank 3 calls MPI_Reduce with MPI_MAX, rank 0 with MPI_SUM"),
];

/// Programs without mistakes in what they send, receive and call together.
const RIGHT: &[&str] = &[
    "tests/c/between.c",
    "tests/c/chapter3.c",
    "tests/c/collectives.c",
    "tests/c/communicators.c",
    "tests/c/contexts.c",
    "tests/c/create_group.c",
    "tests/c/datatypes.c",
    "tests/c/files_access.c",
    "tests/c/files_collective.c",
    "tests/c/files_nonblocking.c",
    "tests/c/files_open.c",
    "tests/c/neighbors.c",
    "tests/c/partitioned.c",
    "tests/c/point_to_point.c",
    "tests/c/probe.c",
    "tests/c/requests.c",
    "tests/c/threads.c",
];

pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases: Vec<Case> = KINDS.iter().map(|(what, says)| wrong(MISMATCH, 3, what, says)).collect();
    cases.extend(MESSAGES.iter().map(|(what, says)| wrong(MISMATCHED, 4, what, says)));
    cases.push(Case::new("a message's mismatch returns: its receiver goes on", |context| {
        let run = context.compile(MISMATCHED).map(|program| context.mpiexec(3).arg(program).arg("returned"));
        let run = run.map(|run| run.env("WEFT_CHECK", "1").limit(LIMIT));
        Expected::code(0).says("MPI_ERR_TYPE: MPI_Recv: WEFT_CHECK").judge(run.and_then(|run| run.finish()))
    }));
    cases.push(Case::new("a message's mismatch over two hosts", |context| {
        let run =
            context.mpiexec_on_hosts(4).and_then(|run| Ok(run.arg(context.compile(MISMATCHED)?).arg("nonblocking")));
        let run = run.map(|run| run.env("WEFT_CHECK", "1").limit(LIMIT));
        Expected::failure().says("rank 0 sent 2 × MPI_INT").judge(run.and_then(|run| run.finish()))
    }));
    cases.push(Case::new("messages between two hosts that are received as they should", |context| {
        let run = context.mpiexec_on_hosts(4).and_then(|run| Ok(run.arg(context.compile(MISMATCHED)?)));
        let run = run.map(|run| run.env("WEFT_CHECK", "1").limit(LIMIT));
        Expected::code(0).says("all right").never_says("WEFT_CHECK").judge(run.and_then(|run| run.finish()))
    }));
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
            right(context, MISMATCH, ranks)
        }));
        cases.push(Case::new(format!("{ranks} ranks whose messages are received as they should"), move |context| {
            right(context, MISMATCHED, ranks)
        }));
    }
    for &program in RIGHT {
        cases.push(Case::new(format!("{program} is found to be right"), move |context| {
            let run = context.compile(program).map(|program| context.mpiexec(4).arg(program));
            let run = run.map(|run| run.env("WEFT_CHECK", "1").limit(2 * LIMIT));
            Expected::code(0).never_says("WEFT_CHECK").judge(run.and_then(|run| run.finish()))
        }));
    }
    cases
}

/// Runs a correct program: no complaint may be printed.
fn right(context: &Context, program: &'static str, ranks: u32) -> Outcome {
    let run = context.compile(program).map(|program| context.mpiexec(ranks).arg(program));
    let run = run.map(|run| run.env("WEFT_CHECK", "1").limit(LIMIT));
    Expected::code(0).says("all right").never_says("WEFT_CHECK").judge(run.and_then(|run| run.finish()))
}

fn wrong(program: &'static str, ranks: u32, what: &'static str, says: &'static str) -> Case {
    let part = if program == MISMATCH { "" } else { "of a message or between groups: " };
    Case::new(format!("{part}{what} differs"), move |context: &Context| -> Outcome {
        let run = context.compile(program).map(|program| context.mpiexec(ranks).arg(program).arg(what));
        let run = run.map(|run| run.env("WEFT_CHECK", "1").limit(LIMIT));
        Expected::failure().says("WEFT_CHECK").says(says).judge(run.and_then(|run| run.finish()))
    })
}
