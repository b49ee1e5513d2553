//! Reaches the hosts of a job: a few agents at a time are on their way, and a host that does not answer is
//! named.

use super::Running;
use crate::mpiexec::plan::{Job, Share};
use crate::mpiexec::reach::{Agent, Stage, Starter};
use crate::mpiexec::tree;
use crate::mpiexec::verdict::{self, Verdict};
use crate::reach;
use crate::sys::{self, Mask};
use std::time::{Duration, Instant};

/// The most commands of agents that are under way to their hosts at a time. More would not be faster, as each
/// takes a processor of this host for a while, and a jump host that all of them pass would turn some away.
const CONNECTING_MAX: usize = 32;
/// The descriptors of this process for each agent, and those besides.
const DESCRIPTORS_PER_AGENT: u64 = 3;
const DESCRIPTORS_SPARE: u64 = 64;
/// The most hosts that one message names.
const HOSTS_NAMED_MAX: usize = 8;

/// Makes one agent for each host. The local one is started, the others are queued. The text names a host
/// without an agent.
pub(super) fn start_agents(job: &Job, mask: &Mask) -> Result<(Vec<Agent>, Option<String>), String> {
    let mut agents: Vec<Option<Agent>> = job.shares.iter().map(|_| None).collect();
    let mut unreachable = None;
    let program = match &job.settings.agent_program {
        Some(program) => program.clone(),
        None if job.shares.iter().all(|share| !share.remote) => String::new(),
        None => {
            let path =
                std::env::current_exe().map_err(|error| format!("where this program is stays unknown: {error}"))?;
            path.to_str().ok_or("the path of this program is not text; name it with --agent-program")?.to_string()
        }
    };
    sys::raise_descriptor_limit(job.shares.len() as u64 * DESCRIPTORS_PER_AGENT + DESCRIPTORS_SPARE);
    let (local, remote): (Vec<_>, Vec<_>) = (0..job.shares.len()).partition(|&index| !job.shares[index].remote);
    let by_shell = reach::is_by_remote_shell(&job.template);
    let starters = tree::starters(remote.len(), job.settings.tree_width, by_shell);
    let starters = starters.iter().map(|starter| starter.map(|starter| remote[starter]));
    for (index, starter) in local.iter().map(|&index| (index, None)).chain(remote.iter().copied().zip(starters)) {
        let Share { host, remote, reached_as, .. } = &job.shares[index];
        let agent = if *remote {
            let starter = starter.map(|agent| Starter { agent, host: job.shares[agent].host.clone(), command: 0 });
            Agent::queue(host, reached_as.as_deref().unwrap_or(host), &job.template, &program, starter)
        } else {
            Agent::start_local(host, mask)
                .map_err(|error| format!("no process can be started: {}", sys::reason(&error)))
        };
        match agent {
            Ok(agent) => agents[index] = Some(agent),
            Err(why) => {
                unreachable = Some(format!("the host {host} cannot be reached: {why}"));
                break;
            }
        }
    }
    Ok((agents.into_iter().flatten().collect(), unreachable))
}

/// How many commands of agents may be on their way at a time.
pub(super) struct Connecting {
    most: usize,
    /// The time at which this became fewer.
    reduced_at: Instant,
}

impl Connecting {
    pub(super) fn new(now: Instant) -> Self {
        Self { most: CONNECTING_MAX, reduced_at: now }
    }

    /// A command that was started at this time has been turned away: half as many may be on their way. Of
    /// commands that were on their way together, the first counts.
    fn reduce(&mut self, started_at: Instant, now: Instant) {
        if started_at >= self.reduced_at {
            (self.most, self.reduced_at) = ((self.most / 2).max(1), now);
        }
    }
}

impl Running {
    /// Queues an agent again whose command an ssh server has turned away because too many came at a time.
    pub(super) fn queue_again(&mut self, index: usize) -> bool {
        let from = self.start_counter(index);
        let agent = &mut self.agents[index];
        let again = agent.queue_again();
        if again {
            self.connecting[from].reduce(agent.started_at, Instant::now());
        }
        again
    }

    /// The index into `connecting` of the side that starts this agent.
    fn start_counter(&self, index: usize) -> usize {
        self.agents[index].starter.as_ref().map_or(0, |starter| starter.agent + 1)
    }

    /// Starts agents whose turn has come.
    pub(super) fn start_queued(&mut self) {
        let is_queued = |agent: &Agent| agent.stage == Stage::Queued;
        if self.verdict.is_some() || !self.agents.iter().any(is_queued) {
            return;
        }
        let mut turns: Vec<usize> = self.connecting.iter().map(|connecting| connecting.most).collect();
        for index in 0..self.agents.len() {
            let agent = &self.agents[index];
            if agent.remote && agent.stage == Stage::Started {
                let from = self.start_counter(index);
                turns[from] = turns[from].saturating_sub(1);
            }
        }
        for index in 0..self.agents.len() {
            let (agent, from) = (&self.agents[index], self.start_counter(index));
            let is_starter_there =
                agent.starter.as_ref().is_none_or(|starter| self.agents[starter.agent].stage == Stage::Greeted);
            if !is_queued(agent) || turns[from] == 0 || !is_starter_there {
                continue;
            }
            turns[from] -= 1;
            if agent.starter.is_some() {
                self.start_behind(index);
            } else if let Err(why) = self.agents[index].start(&self.mask) {
                let text = format!("the host {} cannot be reached: {why}", self.agents[index].host);
                self.blame_host(index, &text);
                return self.fail(Verdict::new(verdict::STATUS_LAUNCHER, text));
            }
        }
    }

    /// The time at which the first agent has had its time to greet.
    pub(super) fn greeting_limit(&self) -> Option<Instant> {
        let started = self.agents.iter().filter(|agent| agent.stage == Stage::Started).map(|agent| agent.started_at);
        started.min().map(|at| at + self.job.settings.agent_timeout)
    }

    /// Ends the job for hosts that have not answered in time.
    pub(super) fn lose_unreached(&mut self) {
        let (limit, now) = (self.job.settings.agent_timeout, Instant::now());
        let silent = |agent: &Agent, limit: Duration| agent.stage == Stage::Started && now >= agent.started_at + limit;
        let Some(late) = self.agents.iter().position(|agent| silent(agent, limit)) else { return };
        // Hosts whose turn came a little later will not answer either.
        let nearly = limit - limit / 4;
        let others = self.agents.iter().enumerate().filter(|(index, agent)| *index != late && silent(agent, nearly));
        let others: Vec<String> = others.map(|(_, agent)| agent.host.clone()).collect();
        let mut text = self.agents[late].explain(Some(limit.as_secs_f64()));
        self.blame_host(late, &text);
        if !others.is_empty() {
            let names = others[..others.len().min(HOSTS_NAMED_MAX)].join(", ");
            let more = others.len().saturating_sub(HOSTS_NAMED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            text.push_str(&format!("; nor did {names}{more} answer"));
        }
        self.fail(Verdict::new(verdict::STATUS_LAUNCHER, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_are_on_their_way_once_some_are_turned_away() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut connecting = Connecting::new(start);
        let mut most = Vec::new();
        // A wave of two that began together, then one after the other.
        for (started_at, now) in [(0, 10), (0, 11), (12, 20), (25, 30), (31, 40), (41, 50), (51, 60), (61, 70)] {
            connecting.reduce(at(started_at), at(now));
            most.push(connecting.most);
        }
        assert_eq!(most, [16, 16, 8, 4, 2, 1, 1, 1]);
    }
}
