//! Asks all agents for the place and state of each of their ranks; `super::standings` describes the result.

use crate::control::Position;
use crate::standing::Standing;
use std::time::Instant;

/// A rank that lives: its place, and its state if it publishes one.
pub(crate) type Seen = (Position, Option<Standing>);

/// The reason why the agents are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The time limit is over.
    TimeLimit,
    /// A rank ended early. Does any rank wait for it?
    Waiting,
    /// The user ends the job by this signal. What was going on?
    Interrupt(i32),
    /// The user wants to see the states.
    Look,
}

/// A question that is on its way to the agents.
pub(crate) struct Survey {
    pub(crate) purpose: Purpose,
    /// The time at which the survey ends with the answers that are there.
    pub(crate) deadline: Instant,
    answers: Vec<Option<Vec<Seen>>>,
}

impl Survey {
    /// Makes a question to agents. An agent for which `asked` is false has nothing to report.
    pub(crate) fn new(purpose: Purpose, deadline: Instant, asked: impl Iterator<Item = bool>) -> Self {
        Self { purpose, deadline, answers: asked.map(|asked| (!asked).then(Vec::new)).collect() }
    }

    /// Notes the answer of an agent.
    pub(crate) fn handle_answer(&mut self, agent: usize, seen: Vec<Seen>) {
        self.answers[agent] = Some(seen);
    }

    /// Returns whether every agent has answered.
    pub(crate) fn is_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some)
    }

    /// The ranks that live, in order.
    pub(crate) fn seen(&self) -> Vec<&Seen> {
        let mut all: Vec<&Seen> = self.answers.iter().flatten().flatten().collect();
        all.sort_unstable_by_key(|(position, _)| position.rank);
        all
    }

    /// The agents that have not answered.
    pub(crate) fn missing(&self) -> impl Iterator<Item = usize> {
        self.answers.iter().enumerate().filter(|(_, answer)| answer.is_none()).map(|(agent, _)| agent)
    }
}
