//! Asks all agents in which MPI call each of their ranks is, and sums that up in a few lines.

use super::verdict;
use crate::control::{Phase, Position};
use crate::wire;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

/// Why the agents are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The time limit is over.
    TimeLimit,
    /// A rank ended early: is anybody waiting for it?
    Waiting,
}

/// A question that is on its way.
pub(crate) struct Survey {
    pub(crate) purpose: Purpose,
    /// When it is answered with what is known.
    pub(crate) deadline: Instant,
    answers: Vec<Option<Vec<Position>>>,
}

impl Survey {
    /// A question to agents; those for whom `asked` is false have nothing to say.
    pub(crate) fn new(purpose: Purpose, deadline: Instant, asked: impl Iterator<Item = bool>) -> Self {
        Self { purpose, deadline, answers: asked.map(|asked| (!asked).then(Vec::new)).collect() }
    }

    /// An agent has answered.
    pub(crate) fn handle_answer(&mut self, agent: usize, positions: Vec<Position>) {
        self.answers[agent] = Some(positions);
    }

    /// Whether every agent has answered.
    pub(crate) fn is_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// The ranks that live, in order.
    pub(crate) fn positions(&self) -> Vec<&Position> {
        let mut all: Vec<&Position> = self.answers.iter().flatten().flatten().collect();
        all.sort_unstable_by_key(|position| position.rank);
        all
    }

    /// Agents that have not answered.
    pub(crate) fn missing(&self) -> impl Iterator<Item = usize> {
        self.answers.iter().enumerate().filter(|(_, answer)| answer.is_none()).map(|(agent, _)| agent)
    }
}

/// The ranks that live, grouped by where they are: one line a place.
pub(crate) fn describe(positions: &[&Position], host_of: &dyn Fn(u32) -> String) -> String {
    let mut groups: BTreeMap<(String, String), Vec<u32>> = BTreeMap::new();
    for position in positions {
        let place = match verdict::place(position) {
            place if !place.is_empty() => place.trim_start().to_string(),
            _ if position.phase == Phase::Silent => "not in an MPI program, or before MPI_Init".to_string(),
            _ => "in an MPI library that does not tell its calls".to_string(),
        };
        groups.entry((place, host_of(position.rank))).or_default().push(position.rank);
    }
    let mut text = String::new();
    for ((place, host), ranks) in groups {
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        let _ = writeln!(text, "  {noun} {} on {host}: {place}", wire::format_ranks(&ranks));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_site::Whereabouts;

    #[test]
    fn ranks_in_the_same_call_share_a_line() {
        let at = |rank, whereabouts| Position { rank, phase: Phase::Joined, whereabouts };
        let inside = |name: &str| Whereabouts::Inside(name.into());
        let all = [
            at(0, inside("MPI_Recv")),
            at(1, inside("MPI_Recv")),
            at(2, Whereabouts::Outside),
            at(3, inside("MPI_Recv")),
            Position { rank: 4, phase: Phase::Silent, whereabouts: Whereabouts::Unknown },
        ];
        let text = describe(&all.iter().collect::<Vec<_>>(), &|_| "h0".into());
        let expected = "  ranks 0-1,3 on h0: in MPI_Recv\n  rank 4 on h0: not in an MPI program, or before MPI_Init\n  rank 2 on h0: outside MPI calls\n";
        assert_eq!(text, expected);
    }
}
