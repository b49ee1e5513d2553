//! Asks all agents for the place and state of each of their ranks; `super::standings` describes the result.

use crate::control::{Phase, Position};
use crate::standing::Standing;
use std::collections::BTreeMap;
use std::time::Instant;

/// A rank that lives: its place, and its state if it publishes one.
pub(crate) type Seen = (Position, Option<Standing>);

/// What was seen of a spawned job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct JobSeen {
    /// The ranks that live, in order.
    pub(crate) living: Vec<Seen>,
    /// The phase of each rank when it ended; `None`: it has not ended.
    pub(crate) ended: Vec<Option<Phase>>,
    /// The host of each rank.
    pub(crate) hosts: Vec<String>,
    /// Hosts whose agents do not answer.
    pub(crate) missing: Vec<String>,
}

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
    /// The spawned jobs that are asked too, by number.
    jobs: BTreeMap<u32, Option<JobSeen>>,
}

impl Survey {
    /// Makes a question to agents. An agent for which `asked` is false has nothing to report.
    pub(crate) fn new(purpose: Purpose, deadline: Instant, asked: impl Iterator<Item = bool>) -> Self {
        let answers = asked.map(|asked| (!asked).then(Vec::new)).collect();
        Self { purpose, deadline, answers, jobs: BTreeMap::new() }
    }

    /// Asks these spawned jobs too.
    pub(crate) fn ask_jobs(&mut self, numbers: impl Iterator<Item = u32>) {
        self.jobs.extend(numbers.map(|number| (number, None)));
    }

    /// Notes the answer of a spawned job, or that it will give none.
    pub(crate) fn handle_job(&mut self, number: u32, seen: Option<JobSeen>) {
        match (self.jobs.get_mut(&number), seen) {
            (Some(answer), Some(seen)) => *answer = Some(seen),
            (_, Some(_)) => {}
            (_, None) => drop(self.jobs.remove(&number)),
        }
    }

    /// The spawned jobs, by number, with what was seen of them.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = (u32, Option<&JobSeen>)> {
        self.jobs.iter().map(|(number, seen)| (*number, seen.as_ref()))
    }

    /// Notes the answer of an agent.
    pub(crate) fn handle_answer(&mut self, agent: usize, seen: Vec<Seen>) {
        self.answers[agent] = Some(seen);
    }

    /// Returns whether every agent and spawned job has answered.
    pub(crate) fn is_complete(&self) -> bool {
        self.answers.iter().all(Option::is_some) && self.jobs.values().all(Option::is_some)
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
