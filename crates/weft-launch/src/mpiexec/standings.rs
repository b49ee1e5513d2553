//! Describes the states of a job's ranks in a few lines, however many ranks there are: ranks in the same
//! place share a line.
//!
//! Below these lines it explains which ranks keep which waiting. `mpiexec` prints them when a job ends early
//! or the user asks.

use super::survey::Seen;
use super::verdict;
use crate::call_site::Whereabouts;
use crate::control::Phase;
use crate::standing::processes;
use crate::standing::{Arrived, Names, Needs, Operation, Process, Range, Standing, WAIT_NS_MIN, Wait, ranks, seconds};
use crate::wait_for::{self, Doing};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The most lines about ranks.
const LINES_MAX: usize = 24;
/// The most operations, and messages, in a line.
const PARTS_MAX: usize = 3;
/// The most sentences about messages that are there under another tag.
const NEAR_MISSES_MAX: usize = 3;
/// The call after which a rank sends nothing any more.
const FINALIZE: &str = "MPI_Finalize";

/// The number of all jobs that this family does not run.
const ANOTHER_JOB: u32 = u32::MAX;
/// The most processes of other jobs that one rank waits for.
const OTHERS_MAX: u32 = 1024;

/// The facts that were found about the ranks of a job.
pub(crate) struct Found<'a> {
    /// The number of the job in its family.
    pub(crate) job: u32,
    /// The ranks that live, in order.
    pub(crate) living: &'a [&'a Seen],
    /// The phase of each rank when it ended; `None`: it has not ended.
    pub(crate) ended: &'a [Option<Phase>],
}

impl Found<'_> {
    /// The lines, each with its newline.
    pub(crate) fn lines(&self, host_of: &dyn Fn(u32) -> String) -> String {
        let names = names_in(self.job);
        let mut groups: BTreeMap<String, Vec<&Seen>> = BTreeMap::new();
        for seen in self.living {
            groups.entry(key(seen, &names)).or_default().push(seen);
        }
        let mut groups: Vec<Vec<&Seen>> = groups.into_values().collect();
        groups.sort_unstable_by_key(|group| group[0].0.rank);
        let mut text = String::new();
        for group in groups.iter().take(LINES_MAX) {
            let members: Vec<u32> = group.iter().map(|(position, _)| position.rank).collect();
            let hosts: BTreeSet<String> = members.iter().map(|rank| host_of(*rank)).collect();
            let hosts = match hosts.first() {
                Some(host) if hosts.len() == 1 => host.clone(),
                _ => format!("{} hosts", hosts.len()),
            };
            let _ = writeln!(text, "  {} on {hosts}: {}", ranks(&members), line(group, &names));
        }
        if groups.len() > LINES_MAX {
            let more: usize = groups[LINES_MAX..].iter().map(Vec::len).sum();
            let _ = writeln!(text, "  and {more} more ranks, which stand in {} other ways", groups.len() - LINES_MAX);
        }
        for sentence in self.living.iter().filter_map(|seen| near_miss(seen, &names)).take(NEAR_MISSES_MAX) {
            let _ = writeln!(text, "  note: {sentence}");
        }
        text
    }

    fn process(&self, rank: u32) -> Process {
        Process { job: self.job, rank }
    }

    /// The activity of each rank, for the wait-for graph.
    fn doings(&self, names: Names<'_>) -> BTreeMap<Process, Doing> {
        let starting = |phase: Phase| phase != Phase::Waiting;
        let late = self.living.iter().filter(|(position, _)| starting(position.phase));
        let late = late.map(|(position, _)| self.process(position.rank));
        let late: Vec<Range> = late.map(|process| (process, process)).collect();
        let mut doings: BTreeMap<Process, Doing> =
            self.living.iter().map(|seen| (self.process(seen.0.rank), doing(seen, &late, names))).collect();
        for (rank, phase) in (0..).zip(self.ended) {
            let how = match phase {
                None => continue,
                Some(Phase::Finalized) => "has finalized",
                Some(_) => "has ended",
            };
            doings.entry(self.process(rank)).or_insert_with(|| Doing::Gone(how.to_owned()));
        }
        doings
    }
}

/// The words for jobs in sentences about the job `of`.
fn names_in(of: u32) -> impl Fn(u32) -> String {
    move |job| match job {
        _ if job == of => String::new(),
        0 => " of the first job".to_owned(),
        ANOTHER_JOB => " of another job".to_owned(),
        _ => format!(" of spawned job {job}"),
    }
}

/// Numbers the jobs that ranks name as their family does: `jobs` are the numbers in the family, each with the
/// ranks that were seen.
pub(crate) fn renumber(jobs: &mut [(u32, &mut Vec<Seen>)]) {
    let mut known = BTreeMap::new();
    for (number, seen) in jobs.iter() {
        known.extend(seen.iter().filter_map(|(_, standing)| Some((standing.as_ref()?.job, *number))));
    }
    let number_of = |job: u32| known.get(&job).copied().unwrap_or(ANOTHER_JOB);
    for (number, seen) in jobs {
        let standings = seen.iter_mut().filter_map(|(_, standing)| standing.as_mut());
        standings.for_each(|standing| standing.renumber(*number, &number_of));
    }
}

/// Explains which ranks of these jobs keep which waiting, in lines.
pub(crate) fn explain(jobs: &[Found<'_>]) -> String {
    let names = names_in(jobs.first().map_or(0, |found| found.job));
    let mut doings: BTreeMap<Process, Doing> = jobs.iter().flat_map(|found| found.doings(&names)).collect();
    let of_others = |doing: &Doing| match doing {
        Doing::Waits(Needs::All(ranges) | Needs::Any(ranges), _) => ranges.clone(),
        _ => Vec::new(),
    };
    let others: Vec<Range> =
        doings.values().flat_map(of_others).filter(|(first, _)| first.job == ANOTHER_JOB).collect();
    for (first, last) in others {
        for rank in first.rank..=last.rank.min(first.rank.saturating_add(OTHERS_MAX)) {
            let unseen = Doing::Runs("is not seen from here".to_owned());
            doings.entry(Process { job: ANOTHER_JOB, rank }).or_insert(unseen);
        }
    }
    wait_for::explain(&doings, &names).into_iter().map(|sentence| format!("  why: {sentence}\n")).collect()
}

/// The place of a rank, in words.
fn whereabouts((position, _): &Seen) -> String {
    match verdict::whereabouts(position) {
        known if !known.is_empty() => known.trim_start().to_string(),
        _ if position.phase == Phase::Silent => "not in an MPI program, or before MPI_Init".to_string(),
        _ => "in an MPI library that does not tell its calls".to_string(),
    }
}

/// The standing of a rank in its current call; `None` when the standing is of a call that the rank has left
/// since.
fn current((position, standing): &Seen) -> Option<&Standing> {
    let standing = standing.as_ref()?;
    match &position.whereabouts {
        Whereabouts::Inside(call) => (*call == standing.call && position.phase != Phase::Finalized).then_some(standing),
        _ => None,
    }
}

/// The operations to report of a rank: those that its call waits for, or all where the call does not say.
fn told(standing: &Standing) -> Vec<&Wait> {
    let awaited: Vec<&Wait> = standing.waits.iter().filter(|wait| wait.is_awaited).collect();
    if awaited.is_empty() { standing.waits.iter().collect() } else { awaited }
}

/// The text that ranks must have in common to share a line: everything except peers, times and lengths of
/// queues.
fn key(seen: &Seen, names: Names<'_>) -> String {
    let mut key = whereabouts(seen);
    if let Some(standing) = current(seen) {
        for wait in told(standing).iter().take(PARTS_MAX) {
            let peer = wait.peer.map_or_else(|| "anybody".to_owned(), |peer| names(peer.job));
            let _ = write!(key, "\n{}", wait.describe(&peer));
        }
        let _ = write!(key, "\n{}", standing.is_asleep);
    }
    key
}

/// The text about ranks that share a line.
fn line(group: &[&Seen], names: Names<'_>) -> String {
    let mut text = whereabouts(group[0]);
    let standings: Vec<&Standing> = group.iter().filter_map(|seen| current(seen)).collect();
    let Some(first) = standings.first() else {
        let idle = group.iter().filter_map(|(position, standing)| {
            (position.whereabouts == Whereabouts::Outside).then(|| standing.as_ref().map(|found| found.published_ns))?
        });
        if let Some(least) = idle.min().filter(|least| *least >= WAIT_NS_MIN && group[0].0.phase != Phase::Finalized) {
            let _ = write!(text, ", last seen in a call {} ago", seconds(least));
        }
        return text;
    };
    let (least, most) =
        (standings.iter().map(|one| one.still_ns).min(), standings.iter().map(|one| one.still_ns).max());
    let (least, most) = (seconds(least.unwrap_or(0)), seconds(most.unwrap_or(0)));
    let _ = if least == most { write!(text, " for {most}") } else { write!(text, " for {least} to {most}") };
    let waits = told(first);
    for (at, wait) in waits.iter().take(PARTS_MAX).enumerate() {
        let peers: BTreeSet<Option<Process>> =
            standings.iter().filter_map(|one| told(one).get(at).map(|wait| wait.peer)).collect();
        let peer = match peers.iter().copied().collect::<Option<Vec<Process>>>() {
            Some(peers) if !peers.is_empty() => processes(&peers, names),
            _ => wait.peer(names),
        };
        let _ = write!(text, "{} {}", if at == 0 { ":" } else { ";" }, wait.describe(&peer));
    }
    if waits.len() > PARTS_MAX {
        text.push_str("; and more");
    }
    text + &queues(&standings, names)
}

/// The text about the queues of ranks that share a line.
fn queues(standings: &[&Standing], names: Names<'_>) -> String {
    let posted: u64 = standings.iter().map(|one| one.posted).sum();
    let unexpected: u64 = standings.iter().map(|one| one.unexpected).sum();
    let mut text = String::new();
    if posted > 0 || unexpected > 0 {
        let _ = write!(text, "; {posted} posted, {unexpected} unexpected");
    }
    let arrived = standings.iter().flat_map(|one| &one.arrived).take(PARTS_MAX).map(|message| {
        let tag = message.tag.map_or_else(String::new, |tag| format!(", tag {tag}"));
        let from = message.peer.map_or_else(|| "somebody".to_owned(), |peer| processes(&[peer], names));
        let on = if message.communicator.is_empty() { String::new() } else { format!(" on {}", message.communicator) };
        format!("from {from}{tag}, {} bytes{on}", message.bytes)
    });
    let arrived: Vec<String> = arrived.collect();
    if !arrived.is_empty() {
        let _ = write!(text, " ({})", arrived.join("; "));
    }
    text
}

/// Finds a message that a rank may wait for, but that is there under another tag or on another communicator.
fn near_miss(seen: &Seen, names: Names<'_>) -> Option<String> {
    let standing = current(seen).filter(|standing| standing.is_waiting())?;
    let wait = told(standing)
        .into_iter()
        .find(|wait| wait.tag.is_some() && wait.peer.is_some() && wait.what == Operation::Receive.words())?;
    // Where the communicator has no name, it is unknown whether the program could receive the message.
    let is_near =
        |message: &&Arrived| message.tag.is_some() && !message.communicator.is_empty() && message.peer == wait.peer;
    let near = standing.arrived.iter().find(is_near)?;
    let other = if near.communicator == wait.communicator {
        format!("with tag {}", near.tag?)
    } else {
        format!("on {} (tag {})", near.communicator, near.tag?)
    };
    let what = wait.describe(&wait.peer(names));
    Some(format!("rank {} waits ({what}), but a message from it {other} is there", seen.0.rank))
}

/// The activity of a rank. `late` are the ranks that have not come to the barrier of the process manager.
fn doing(seen: &Seen, late: &[Range], names: Names<'_>) -> Doing {
    let (position, _) = seen;
    let waits_for = |needs: Needs, what: &str| Doing::Waits(needs, what.to_owned());
    match (&position.whereabouts, position.phase) {
        (_, Phase::Finalized) => Doing::Gone("has finalized".to_owned()),
        (Whereabouts::Inside(call), Phase::Waiting) if call.eq_ignore_ascii_case(FINALIZE) => {
            Doing::Finalizes(Needs::All(late.to_vec()))
        }
        (_, Phase::Waiting) => waits_for(Needs::All(late.to_vec()), "starting up"),
        (_, Phase::Silent) => Doing::Runs("has not come to MPI_Init".to_owned()),
        (Whereabouts::Outside, _) => Doing::Runs("is outside MPI calls".to_owned()),
        (Whereabouts::Unknown, _) => Doing::Runs("does not tell its calls".to_owned()),
        (Whereabouts::Inside(call), _) => match current(seen) {
            Some(standing) if call.eq_ignore_ascii_case(FINALIZE) => Doing::Finalizes(standing.needs.clone()),
            Some(standing) if standing.is_waiting() => {
                let what = told(standing).first().map(|wait| wait.describe(&wait.peer(names)));
                waits_for(standing.needs.clone(), &what.unwrap_or_else(|| format!("in {call}")))
            }
            _ => Doing::Runs(format!("is in {call}, and not asleep there")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Position;

    fn at(rank: u32, whereabouts: Whereabouts) -> Seen {
        (Position { rank, phase: Phase::Joined, whereabouts }, None)
    }

    fn inside(name: &str) -> Whereabouts {
        Whereabouts::Inside(name.into())
    }

    fn receives(rank: u32, from: u32, tag: i32) -> Seen {
        let wait = Wait {
            what: "receive from",
            peer: Some(Process::own(from)),
            tag: Some(tag),
            bytes: 8,
            communicator: "MPI_COMM_WORLD".into(),
            is_awaited: true,
        };
        let standing = Standing {
            rank,
            is_asleep: true,
            threads: 1,
            still_ns: 3_000_000_000,
            call: "MPI_Recv".into(),
            posted: 1,
            needs: Needs::All(vec![(Process::own(from), Process::own(from))]),
            waits: vec![wait],
            ..Standing::default()
        };
        (at(rank, inside("MPI_Recv")).0, Some(standing))
    }

    fn describe(living: &[Seen], ended: &[Option<Phase>]) -> String {
        let living: Vec<&Seen> = living.iter().collect();
        let found = Found { job: 0, living: &living, ended };
        found.lines(&|rank| if rank < 4 { "h0".into() } else { "h1".into() }) + &explain(&[found])
    }

    #[test]
    fn ranks_in_the_same_call_share_a_line() {
        let all = [
            at(0, inside("MPI_Recv")),
            at(1, inside("MPI_Recv")),
            at(2, Whereabouts::Outside),
            at(3, inside("MPI_Recv")),
            (Position { rank: 4, phase: Phase::Silent, whereabouts: Whereabouts::Unknown }, None),
        ];
        let expected = "  ranks 0-1,3 on h0: in MPI_Recv\n  rank 2 on h0: outside MPI calls\n  rank 4 on h1: not in an MPI program, or before MPI_Init\n";
        assert_eq!(describe(&all, &[]), expected);
    }

    #[test]
    fn what_ranks_wait_for_is_told_with_peers_tag_size_communicator_time_and_queues() {
        let all = [receives(0, 1, 7), receives(1, 0, 7)];
        let expected = "  ranks 0-1 on h0: in MPI_Recv for 3.0 s: receive from ranks 0-1, tag 7, 8 bytes on MPI_COMM_WORLD; 2 posted, 0 unexpected\n  \
            why: deadlock: rank 0 (receive from rank 1, tag 7, 8 bytes on MPI_COMM_WORLD) → rank 1 (receive from rank 0, tag 7, 8 bytes on MPI_COMM_WORLD) → rank 0\n";
        assert_eq!(describe(&all, &[]), expected);
    }

    #[test]
    fn a_message_that_is_there_under_another_name_is_told_and_one_without_a_name_is_not() {
        let arrived = |communicator: &str, tag| Arrived {
            peer: Some(Process::own(1)),
            tag,
            bytes: 4,
            communicator: communicator.into(),
        };
        let with = |message: Arrived| {
            let mut seen = receives(0, 1, 7);
            seen.1.as_mut().expect("a standing").arrived = vec![message];
            describe(&[seen, at(1, Whereabouts::Outside)], &[])
        };
        assert!(with(arrived("MPI_COMM_WORLD", Some(8))).contains("but a message from it with tag 8 is there"));
        assert!(with(arrived("halo", Some(7))).contains("but a message from it on halo (tag 7) is there"));
        for message in [arrived("", Some(100)), arrived("halo", None)] {
            let text = with(message);
            assert!(!text.contains("is there") && !text.contains("on ,") && !text.contains("  ("), "{text}");
        }
    }

    #[test]
    fn who_has_finalized_or_ended_is_named_by_those_that_wait_for_it() {
        let text = describe(&[receives(1, 0, 7)], &[Some(Phase::Finalized), None]);
        assert!(text.ends_with("  why: rank 1 waits for rank 0, which has finalized\n"), "{text}");
        let text = describe(&[receives(1, 0, 7)], &[Some(Phase::Joined), None]);
        assert!(text.ends_with("  why: rank 1 waits for rank 0, which has ended\n"), "{text}");
    }

    #[test]
    fn who_has_just_come_to_a_call_waits_for_nobody_yet() {
        let mut young = receives(1, 0, 7);
        young.1.as_mut().unwrap().still_ns = 1000;
        assert!(!describe(&[receives(0, 1, 7), young], &[]).contains("deadlock"));
        // A rank that has left the call of its last report is outside of that call.
        let mut left = receives(1, 0, 7);
        left.0.whereabouts = Whereabouts::Outside;
        let text = describe(&[receives(0, 1, 7), left], &[]);
        assert!(text.contains("why: rank 0 waits for rank 1, which is outside MPI calls"), "{text}");
    }

    #[test]
    fn ranks_in_mpi_init_wait_for_those_that_have_not_come() {
        let starting = |rank| (Position { rank, phase: Phase::Waiting, whereabouts: inside("MPI_Init") }, None);
        let silent = (Position { rank: 2, phase: Phase::Silent, whereabouts: Whereabouts::Unknown }, None);
        let text = describe(&[starting(0), starting(1), silent], &[]);
        assert!(text.contains("why: ranks 0-1 wait for rank 2, which has not come to MPI_Init"), "{text}");
    }

    #[test]
    fn a_large_job_in_many_states_takes_a_few_lines() {
        let all: Vec<Seen> = (0..500).map(|rank| receives(rank, rank, rank as i32)).collect();
        let text = describe(&all, &[]);
        assert!(text.lines().count() < 40, "{text}");
        assert!(text.contains("and 476 more ranks, which stand in 476 other ways"), "{text}");
    }

    #[test]
    fn ranks_of_other_jobs_are_named_with_their_job() {
        // Rank 0 of the first job waits for rank 1 of a job that it has spawned, which waits for a third.
        let from = |job: u32, own: u32, rank: u32| {
            let (mut position, mut standing) = receives(rank, 1, 7);
            position.rank = rank;
            let peer = Process { job, rank: 1 };
            let found = standing.as_mut().expect("a standing");
            (found.job, found.waits[0].peer, found.needs) = (own, Some(peer), Needs::All(vec![(peer, peer)]));
            (position, standing)
        };
        let (mut first, mut spawned) = (vec![from(500, 400, 0)], vec![from(600, 500, 1)]);
        renumber(&mut [(0, &mut first), (3, &mut spawned)]);
        let (first, spawned): (Vec<&Seen>, Vec<&Seen>) = (first.iter().collect(), spawned.iter().collect());
        let found = |job, living| Found { job, living, ended: &[] };
        let host = |_| "h0".to_owned();
        assert!(found(0, &first).lines(&host).contains("receive from rank 1 of spawned job 3, tag 7"));
        assert!(found(3, &spawned).lines(&host).contains("receive from rank 1 of another job, tag 7"));
        let why = explain(&[found(0, &first), found(3, &spawned)]);
        let expected = "  why: rank 0 and rank 1 of spawned job 3 wait, some through each other, for rank 1 of another job, which is \
            not seen from here\n";
        assert_eq!(why, expected);
    }
}
