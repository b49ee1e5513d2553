//! The reason why a job failed: one sentence and an exit status.

use crate::call_site::Whereabouts;
use crate::control::{Phase, Position};
use crate::sys::Ended;
use crate::wire;

/// Exit status when the time limit is over, as timeout(1) has it.
pub(crate) const STATUS_TIME_LIMIT: i32 = 124;
/// Exit status when the launcher itself failed.
pub(crate) const STATUS_LAUNCHER: i32 = 1;
/// Exit status for a wrong command line.
pub(crate) const STATUS_USAGE: i32 = 2;
/// The number that is added to a signal's number to make an exit status, as shells do.
pub(crate) const STATUS_SIGNAL: i32 = 128;

/// The end of a job before its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The exit status of `mpiexec`.
    pub(crate) status: i32,
    /// The reason, without a full stop.
    pub(crate) clause: String,
}

impl Verdict {
    pub(crate) fn new(status: i32, clause: String) -> Self {
        Self { status, clause }
    }
}

/// The verdict about a rank's end; `None`: nothing bad.
pub(crate) fn of_rank(position: &Position, host: &str, ended: Ended) -> Option<Verdict> {
    let rank = position.rank;
    match ended {
        Ended::Exit(0) => None,
        Ended::Exit(status) => {
            let whereabouts = match (position.phase, &position.whereabouts) {
                (Phase::Finalized, _) => " after MPI_Finalize".to_string(),
                (_, Whereabouts::Inside(name)) => format!(" in {name}"),
                _ => String::new(),
            };
            Some(Verdict::new(status, format!("rank {rank} on {host} exited with status {status}{whereabouts}")))
        }
        Ended::Signal(signal) => {
            let whereabouts = whereabouts(position);
            let clause = format!("rank {rank} on {host} died by signal {signal} ({}){whereabouts}", describe(signal));
            Some(Verdict::new(STATUS_SIGNAL + signal, clause))
        }
    }
}

/// The place where a rank is or was, to be appended to a sentence; empty when nothing is known.
pub(crate) fn whereabouts(position: &Position) -> String {
    match (position.phase, &position.whereabouts) {
        (Phase::Finalized, _) => " after MPI_Finalize".to_string(),
        (_, Whereabouts::Inside(name)) => format!(" in {name}"),
        (Phase::Waiting, _) => " while starting up".to_string(),
        (_, Whereabouts::Outside) => " outside MPI calls".to_string(),
        (_, Whereabouts::Unknown) => String::new(),
    }
}

/// The verdict about an abort: the arguments of `MPI_Abort`.
pub(crate) fn of_abort(rank: u32, host: &str, code: i32, message: &str) -> Verdict {
    let colon = if message.is_empty() { "" } else { ": " };
    let clause = format!("rank {rank} on {host} called MPI_Abort with code {code}{colon}{message}");
    // Only eight bits of an exit status arrive; a failure must not look like success.
    Verdict::new(if code & 0xff == 0 { 1 } else { code & 0xff }, clause)
}

/// What else ends with a failure, to be appended to a sentence: other ranks of this job, and spawned jobs.
pub(crate) fn ending_others(others: usize, jobs: usize) -> String {
    let ranks = match others {
        0 => String::new(),
        1 => "the other rank".to_string(),
        _ => format!("the other {others} ranks"),
    };
    match (ranks.is_empty(), jobs) {
        (true, 0) => String::new(),
        (true, _) => format!("; ending {}", self::jobs(jobs)),
        (false, 0) => format!("; ending {ranks}"),
        (false, _) => format!("; ending {ranks} and {}", self::jobs(jobs)),
    }
}

/// A number of ranks and of spawned jobs in words.
pub(crate) fn ranks_and_jobs(count: usize, jobs: usize) -> String {
    if jobs == 0 { ranks(count) } else { format!("{} and {}", ranks(count), self::jobs(jobs)) }
}

fn jobs(count: usize) -> String {
    if count == 1 { "1 spawned job".to_string() } else { format!("{count} spawned jobs") }
}

/// A number of ranks in words.
pub(crate) fn ranks(count: usize) -> String {
    if count == 1 { "1 rank".to_string() } else { format!("{count} ranks") }
}

/// The ranks by their numbers: `rank 0`, `ranks 1-3,7`.
pub(crate) fn named(ranks: &[u32]) -> String {
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}", wire::format_ranks(ranks))
}

/// The name of a signal and its usual meaning.
pub(crate) fn describe(signal: i32) -> String {
    let known = [
        (libc::SIGHUP, "SIGHUP, hangup"),
        (libc::SIGINT, "SIGINT, interrupt"),
        (libc::SIGQUIT, "SIGQUIT, quit"),
        (libc::SIGILL, "SIGILL, illegal instruction"),
        (libc::SIGTRAP, "SIGTRAP, trap"),
        (libc::SIGABRT, "SIGABRT, abort"),
        (libc::SIGBUS, "SIGBUS, bus error"),
        (libc::SIGFPE, "SIGFPE, arithmetic error"),
        (libc::SIGKILL, "SIGKILL, killed from outside or out of memory"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV, invalid memory access"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE, broken pipe"),
        (libc::SIGALRM, "SIGALRM, alarm"),
        (libc::SIGTERM, "SIGTERM, terminated"),
        (libc::SIGXCPU, "SIGXCPU, processor time limit"),
        (libc::SIGXFSZ, "SIGXFSZ, file size limit"),
        (libc::SIGSYS, "SIGSYS, forbidden system call"),
    ];
    let name = known.iter().find(|(number, _)| *number == signal).map(|(_, name)| (*name).to_string());
    name.unwrap_or_else(|| "unnamed".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(phase: Phase, whereabouts: Whereabouts) -> Position {
        Position { rank: 3, phase, whereabouts }
    }

    #[test]
    fn the_end_of_others_is_said_in_words() {
        let words = [(0, 0), (1, 0), (2, 0), (0, 1), (2, 3)].map(|(ranks, jobs)| ending_others(ranks, jobs));
        let expected = [
            "",
            "; ending the other rank",
            "; ending the other 2 ranks",
            "; ending 1 spawned job",
            "; ending the other 2 ranks and 3 spawned jobs",
        ];
        assert_eq!(words, expected);
        assert_eq!([ranks_and_jobs(1, 0), ranks_and_jobs(0, 1)], ["1 rank", "0 ranks and 1 spawned job"]);
    }

    #[test]
    fn the_sentence_says_who_where_how_and_in_which_call() {
        let inside = at(Phase::Joined, Whereabouts::Inside("MPI_Recv".into()));
        let verdict = of_rank(&inside, "h1", Ended::Signal(11)).expect("bad");
        assert_eq!(verdict.status, 139);
        assert_eq!(verdict.clause, "rank 3 on h1 died by signal 11 (SIGSEGV, invalid memory access) in MPI_Recv");
        let verdict = of_rank(&inside, "h1", Ended::Exit(7)).expect("bad");
        assert_eq!((verdict.status, verdict.clause.as_str()), (7, "rank 3 on h1 exited with status 7 in MPI_Recv"));
        let silent = at(Phase::Silent, Whereabouts::Unknown);
        assert_eq!(of_rank(&silent, "h1", Ended::Exit(0)), None);
        assert_eq!(of_rank(&silent, "h1", Ended::Exit(1)).expect("bad").clause, "rank 3 on h1 exited with status 1");
        assert_eq!(of_abort(3, "h1", 256, "").status, 1);
        assert_eq!(of_abort(3, "h1", -1, "no").status, 255);
        assert_eq!(of_abort(3, "h1", 5, "no").clause, "rank 3 on h1 called MPI_Abort with code 5: no");
    }
}
