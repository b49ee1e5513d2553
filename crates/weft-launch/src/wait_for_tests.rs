//! Tests of the whole wait-for graph: every kind of reason, with its sentence.

use super::*;

fn range(first: u32, last: u32) -> Range {
    (Process::own(first), Process::own(last))
}

fn runs() -> Doing {
    Doing::Runs("is outside MPI calls".into())
}

fn gone() -> Doing {
    Doing::Gone("has finalized".into())
}

fn all(ranks: &[u32]) -> Doing {
    let what = format!("for {ranks:?}");
    Doing::Waits(Needs::All(ranks.iter().map(|rank| range(*rank, *rank)).collect()), what)
}

fn any(first: u32, last: u32) -> Doing {
    Doing::Waits(Needs::Any(vec![range(first, last)]), "for any".into())
}

fn finalizes(ranks: &[u32]) -> Doing {
    Doing::Finalizes(Needs::All(ranks.iter().map(|rank| range(*rank, *rank)).collect()))
}

fn explained(job: impl IntoIterator<Item = Doing>) -> Vec<String> {
    explain(&(0..).map(Process::own).zip(job).collect(), &|_| String::new())
}

#[test]
fn who_waits_for_one_that_has_finalized_is_told_so() {
    assert_eq!(explained([gone(), all(&[0])]), ["rank 1 waits for rank 0, which has finalized"]);
    // Any of several ranks is enough only while one of them is there.
    assert_eq!(explained([gone(), gone(), any(0, 1)]), ["rank 2 waits for ranks 0-1, which have finalized"]);
    assert_eq!(explained([gone(), runs(), any(0, 1)]), ["rank 2 waits for rank 1, which is outside MPI calls"]);
}

#[test]
fn who_is_in_finalize_sends_nothing_but_goes_on_with_others_who_are() {
    let job = [finalizes(&[1]), all(&[0])];
    assert_eq!(explained(job), ["rank 1 waits for rank 0, which is in MPI_Finalize and sends nothing any more"]);
    // Both are in MPI_Finalize and wait for a third that computes: only the third is at fault.
    let job = [finalizes(&[1]), finalizes(&[2]), runs()];
    assert_eq!(explained(job), ["ranks 0-1 wait, some through each other, for rank 2, which is outside MPI calls"]);
}

#[test]
fn a_rank_that_computes_keeps_all_waiting_that_wait_for_it_or_for_those() {
    let job = [runs(), all(&[0]), all(&[1]), all(&[2])];
    assert_eq!(explained(job), ["ranks 1-3 wait, some through each other, for rank 0, which is outside MPI calls"]);
    let job = [runs(), runs(), all(&[0, 1])];
    assert_eq!(explained(job), ["rank 2 waits for ranks 0-1, which are outside MPI calls"]);
    // Two pairs that have nothing to do with each other.
    let job = [runs(), all(&[0]), runs(), all(&[2])];
    assert_eq!(explained(job).len(), 2);
}

#[test]
fn a_circle_is_named_in_its_order_and_who_waits_for_it_too() {
    let job = [all(&[1]), all(&[2]), all(&[0]), all(&[1])];
    assert_eq!(
        explained(job),
        ["deadlock: rank 0 (for [1]) → rank 1 (for [2]) → rank 2 (for [0]) → rank 0", "rank 3 waits for these"]
    );
    assert_eq!(explained([all(&[0]), runs()]), ["rank 0 waits for itself: for [0]"]);
}

#[test]
fn any_source_is_a_deadlock_only_when_all_sources_are_stuck() {
    assert_eq!(
        explained([any(0, 2), any(0, 2), any(0, 2)]),
        ["ranks 0-2 wait for each other, and nobody else can help them"]
    );
    let job = [any(0, 2), all(&[0]), runs()];
    assert_eq!(explained(job), ["ranks 0-1 wait, some through each other, for rank 2, which is outside MPI calls"]);
}

#[test]
fn a_circle_is_no_deadlock_where_one_of_it_has_another_way_out() {
    // Rank 0 waits for 1, and rank 1 for 0 or 2.
    let job = [all(&[1]), Doing::Waits(Needs::Any(vec![range(0, 0), range(2, 2)]), "x".into()), runs()];
    assert!(explained(job)[0].contains("for rank 2, which is outside MPI calls"));
}

#[test]
fn nothing_is_said_where_nothing_is_known_or_nobody_waits() {
    assert!(explained([runs(), runs()]).is_empty());
    assert!(explained([]).is_empty());
    let unknown = || Doing::Waits(Needs::Unknown, "for something".into());
    assert!(explained([unknown(), unknown()]).is_empty());
    // Ranks that do not exist, or ranges that make no sense.
    assert!(explained([all(&[7])]).is_empty());
    assert!(explained([Doing::Waits(Needs::All(vec![range(9, 2)]), String::new())]).is_empty());
    // A rank that waits for a rank with an unknown wait is told so.
    assert_eq!(explained([unknown(), all(&[0])]), ["rank 1 waits for rank 0, which waits (for something)"]);
}

#[test]
fn large_jobs_are_explained_quickly_and_briefly() {
    let count = 20_000;
    // A chain that ends at a rank which computes.
    let chain = (0..count).map(|rank: u32| if rank == 0 { runs() } else { all(&[rank - 1]) });
    let sentences = explained(chain);
    assert_eq!(sentences.len(), 1);
    assert!(sentences[0].starts_with("ranks 1-19999 wait"), "{sentences:?}");
    // A ring.
    let sentences = explained((0..count).map(|rank| all(&[(rank + 1) % count])));
    assert_eq!(sentences, ["ranks 0-19999 wait for each other, and nobody else can help them"]);
    // All ranks wait for any rank.
    assert_eq!(explained((0..count).map(|_| any(0, count - 1))).len(), 1);
    // Pairs that wait for each other: some are named, the others are counted.
    let sentences = explained((0..200).map(|rank| all(&[rank ^ 1])));
    assert_eq!((sentences.len(), sentences[SENTENCES_MAX].as_str()), (7, "and 94 more such groups of ranks"));
}

#[test]
fn ranks_of_several_jobs_wait_for_each_other() {
    let (here, there) = (|rank| Process { job: 0, rank }, |rank| Process { job: 2, rank });
    let waits = |process: Process| Doing::Waits(Needs::All(vec![(process, process)]), "x".into());
    let names = |job: u32| if job == 0 { String::new() } else { format!(" of spawned job {job}") };
    let circle = BTreeMap::from([(here(0), waits(there(1))), (there(1), waits(here(0))), (here(1), waits(here(0)))]);
    assert_eq!(
        explain(&circle, &names),
        ["deadlock: rank 0 (x) → rank 1 of spawned job 2 (x) → rank 0", "rank 1 waits for these"]
    );
    let slow = BTreeMap::from([(here(0), waits(there(1))), (there(0), waits(there(1))), (there(1), runs())]);
    assert_eq!(
        explain(&slow, &names),
        ["rank 0 and rank 0 of spawned job 2 wait for rank 1 of spawned job 2, which is outside MPI calls"]
    );
}

/// Runs every job of three ranks. Expect: a rank is released exactly if some order of events releases it,
/// which a naive search finds out.
#[test]
fn what_is_said_agrees_with_a_naive_search_for_all_small_jobs() {
    let mut kinds = vec![runs(), gone()];
    for mask in 1..8_u32 {
        let ranks: Vec<u32> = (0..3).filter(|rank| mask >> rank & 1 == 1).collect();
        let ranges: Vec<Range> = ranks.iter().map(|rank| range(*rank, *rank)).collect();
        kinds.push(Doing::Waits(Needs::All(ranges.clone()), "x".into()));
        kinds.push(Doing::Waits(Needs::Any(ranges), "x".into()));
    }
    let count = kinds.len();
    for case in 0..count * count * count {
        let job = [case % count, case / count % count, case / count / count].map(|kind| kinds[kind].clone());
        let mut free = [false; 3];
        for _ in 0..3 {
            for rank in 0..3 {
                let in_ranges = |ranges: &[Range], other: usize| ranges.contains(&range(other as u32, other as u32));
                free[rank] = match &job[rank] {
                    Doing::Runs(_) => true,
                    Doing::Waits(Needs::All(ranges), _) => (0..3).all(|other| !in_ranges(ranges, other) || free[other]),
                    Doing::Waits(Needs::Any(ranges), _) => (0..3).any(|other| in_ranges(ranges, other) && free[other]),
                    _ => false,
                };
            }
        }
        let map: BTreeMap<Process, Doing> = (0..).map(Process::own).zip(job.clone()).collect();
        let nothing = |_| String::new();
        let graph = Graph::new(&map, &nothing);
        let released = graph.released();
        for rank in 0..3 {
            let vertex = graph.vertices.iter().position(|vertex| match vertex {
                Vertex::Rank(other) | Vertex::Gone(other) => other.rank == rank,
                Vertex::Any => false,
            });
            assert_eq!(released[vertex.unwrap()], free[rank as usize], "{job:?}");
        }
        // Expect: every stuck rank is mentioned, and no other rank is in a deadlock.
        let stuck = (0..3).any(|rank| !free[rank] && !matches!(job[rank], Doing::Gone(_)));
        let text = explain(&map, &nothing).join("\n");
        let blames = text.contains("deadlock")
            || text.contains("each other, and")
            || text.contains("finalized")
            || text.contains("itself");
        assert_eq!(stuck, blames, "{job:?}: {text}");
    }
}
