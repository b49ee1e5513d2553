//! Asks all agents where each of their ranks is and how it stands; `super::standings` sums that up.

use crate::control::Position;
use crate::standing::Standing;
use std::time::Instant;

/// A rank that lives: where it is, and how it stands if it says so.
pub(crate) type Seen = (Position, Option<Standing>);

/// Why the agents are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The time limit is over.
    TimeLimit,
    /// A rank ended early: is anybody waiting for it?
    Waiting,
    /// The user wants the end, by this signal: what was going on?
    Interrupt(i32),
    /// The user wants to know.
    Look,
}

/// A question that is on its way.
pub(crate) struct Survey {
    pub(crate) purpose: Purpose,
    /// When it is answered with what is known.
    pub(crate) deadline: Instant,
    answers: Vec<Option<Vec<Seen>>>,
}

impl Survey {
    /// A question to agents; those for whom `asked` is false have nothing to say.
    pub(crate) fn new(purpose: Purpose, deadline: Instant, asked: impl Iterator<Item = bool>) -> Self {
        Self { purpose, deadline, answers: asked.map(|asked| (!asked).then(Vec::new)).collect() }
    }

    /// An agent has answered.
    pub(crate) fn handle_answer(&mut self, agent: usize, seen: Vec<Seen>) {
        self.answers[agent] = Some(seen);
    }

    /// Whether every agent has answered.
    pub(crate) fn is_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// The ranks that live, in order.
    pub(crate) fn seen(&self) -> Vec<&Seen> {
        let mut all: Vec<&Seen> = self.answers.iter().flatten().flatten().collect();
        all.sort_unstable_by_key(|(position, _)| position.rank);
        all
    }

    /// Agents that have not answered.
    pub(crate) fn missing(&self) -> impl Iterator<Item = usize> {
        self.answers.iter().enumerate().filter(|(_, answer)| answer.is_none()).map(|(agent, _)| agent)
    }
}
