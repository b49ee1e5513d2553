//! Handles the reports of agents.

use super::{EARLY_END_GRACE, Running, STATUS_WAIT};
use crate::control::Loss;
use crate::control::{Gathered, Order, Phase, Position, Report};
use crate::mpiexec::debugger;
use crate::mpiexec::reach::{Agent, Stage};
use crate::mpiexec::verdict::{self, Verdict};
use crate::sys::Ended;
use std::time::Instant;

impl Running {
    /// Handles everything that has arrived from an agent.
    pub(super) fn hear(&mut self, index: usize) {
        if self.agents[index].stage == Stage::Queued || (self.agents[index].stage == Stage::Done && !self.relays[index])
        {
            return;
        }
        if let Err(why) = self.agents[index].hear_greeting() {
            let text = format!("the host {} cannot be used: {why}", self.agents[index].host);
            self.signal_command(index, libc::SIGKILL);
            self.agents[index].stage = Stage::Done;
            self.blame_host(index, &text);
            return self.fail(Verdict::new(verdict::STATUS_LAUNCHER, text));
        }
        if self.launched && self.agents[index].stage == Stage::Greeted {
            self.agents[index].stage = Stage::Working;
        }
        while !matches!(self.agents[index].stage, Stage::Queued | Stage::Started) {
            let report = match self.agents[index].channel.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => Report::decode(frame),
                Err(()) => None,
            };
            // An agent without ranks of its own only passes on what others say.
            let is_working = self.agents[index].is_working();
            let report = report.filter(|report| is_working || matches!(report, Report::Relay { .. }));
            let Some(report) = report else {
                let text = format!("what comes from the host {} is not from an agent", self.agents[index].host);
                self.agents[index].stage = Stage::Done;
                self.agents[index].channel.close();
                self.fail(Verdict::new(verdict::STATUS_LAUNCHER, text));
                return self.close_behind(index);
            };
            self.handle_report(index, report);
        }
        if self.agents[index].is_silent() {
            self.handle_silence(index);
        }
    }

    /// Handles an agent that will say nothing more although it has not said its last word.
    pub(super) fn handle_silence(&mut self, index: usize) {
        if self.agents[index].stage == Stage::Done || self.verdict.is_some() {
            self.agents[index].stage = Stage::Done;
            return self.close_behind(index);
        }
        // The end of its process tells the reason, and comes a moment later.
        let closed_at = *self.agents[index].closed_at.get_or_insert_with(Instant::now);
        if self.agents[index].ended.is_none() && closed_at.elapsed() < STATUS_WAIT {
            return;
        }
        if self.queue_again(index) || self.start_here_instead(index) {
            return;
        }
        let behind = self.behind(index);
        let agent = &mut self.agents[index];
        let text = if agent.stage == Stage::Started {
            agent.explain(None)
        } else {
            let starter = agent.starter.as_ref().map_or_else(String::new, |starter| format!(" on {}", starter.host));
            let fate = match agent.ended {
                Some(Ended::Exit(status)) => format!("its command{starter} ended with status {status}"),
                Some(Ended::Signal(signal)) => format!("its command{starter} died by signal {signal}"),
                None if starter.is_empty() => "it closed its output".to_string(),
                None => format!("the way to it{starter} is closed"),
            };
            format!("the agent on {} is lost: {fate}{behind}", agent.host)
        };
        agent.stage = Stage::Done;
        self.lose_host(index, text);
        self.close_behind(index);
    }

    fn handle_report(&mut self, index: usize, report: Report) {
        match report {
            Report::Output { stream, bytes } => self.console.queue_output(Some(index), stream, bytes),
            Report::InputTaken(total) => self.agents[index].input_taken = total,
            Report::Gathered { exchange, gathered } => {
                self.agents[index].gathered = Some((exchange, gathered));
                self.spread_when_all_arrived();
            }
            Report::Request { rank, request } => self.handle_request(index, rank, request),
            Report::Abort { rank, code, message } => {
                let verdict = verdict::of_abort(rank, self.host_of(rank), code, &message);
                self.fail_sparing(verdict, Some(rank));
            }
            Report::NotStarted { rank, status, reason } => {
                let clause = format!("rank {rank} on {} was not started: {reason}", self.agents[index].host);
                // Ranks that have not been started yet will not be, so there is nothing to end there.
                self.mark_unstarted(index, rank, &reason);
                self.fail(Verdict::new(status, clause));
            }
            Report::Dying { rank, loss } => self.tell_of_loss(rank, loss),
            Report::Ended { position, ended } => self.handle_end(&position, ended),
            Report::Violation { rank, text } => {
                let clause = format!("rank {rank} on {} does not speak PMI-1.1: {text}", self.agents[index].host);
                self.fail(Verdict::new(verdict::STATUS_LAUNCHER, clause));
            }
            Report::Where(seen) => {
                if let Some(survey) = &mut self.survey {
                    survey.handle_answer(index, seen);
                }
            }
            Report::Stats { text } => self.stats.add(&text),
            Report::Note(text) => {
                let text = format!("on {}: {text}", self.agents[index].host);
                self.note(&text);
            }
            Report::Started(ranks) => self.note_started(&ranks),
            Report::Bindings(ranks) => {
                for (rank, words) in ranks {
                    let text = format!("rank {rank} on {}: {words}", self.agents[index].host);
                    self.console.say(&text);
                }
            }
            Report::Pong => {}
            Report::Heartbeat(word) => self.handle_heartbeat(index, word),
            Report::Relay { command, message } => self.hear_command(index, command, message),
            Report::Done => {
                self.agents[index].stage = Stage::Done;
                self.spread_when_all_arrived();
            }
        }
    }

    /// Tells debuggers of the ranks, as soon as all ranks run. The ranks wait for each other meanwhile, and
    /// their messages are read later.
    fn note_started(&mut self, ranks: &[(u32, i32)]) {
        for (rank, pid) in ranks {
            if let Some(process) = self.processes.get_mut(*rank as usize) {
                *process = Some(*pid);
            }
        }
        let Some(pids) = self.processes.iter().copied().collect::<Option<Vec<i32>>>() else { return };
        self.tell_started();
        let describe = |(rank, pid): (usize, i32)| {
            let share = &self.job.shares[self.job.share_of_rank[rank]];
            let program = share.plan.ranks.iter().find(|(number, _)| *number as usize == rank);
            let program = program.and_then(|(_, program)| share.plan.programs[*program as usize].words.first());
            (share.host.clone(), program.cloned().unwrap_or_default(), pid)
        };
        debugger::show_ranks(pids.into_iter().enumerate().map(describe));
    }

    /// Notes that the ranks of a host from `first` on were not started. The reason is that of all ranks of
    /// the same program.
    fn mark_unstarted(&mut self, index: usize, first: u32, reason: &str) {
        let ranks = self.job.shares[index].plan.ranks.clone();
        let program = ranks.iter().find(|(rank, _)| *rank == first).map(|(_, program)| *program);
        let unstarted = ranks.into_iter().filter(|(rank, _)| *rank >= first);
        let (same, others): (Vec<_>, Vec<_>) = unstarted.partition(|(_, other)| Some(*other) == program);
        self.blame(same.iter().map(|(rank, _)| *rank), reason);
        for (rank, _) in same.into_iter().chain(others) {
            self.ended[rank as usize] = Some(Phase::Silent);
        }
    }

    fn handle_end(&mut self, position: &Position, ended: Ended) {
        let Some(state) = self.ended.get_mut(position.rank as usize) else { return };
        *state = Some(position.phase);
        let loss = Loss::of(position, ended).filter(|_| self.job.settings.keep_others);
        if let Some(loss) = loss {
            self.tell_of_loss(position.rank, loss);
        }
        match verdict::of_rank(position, self.host_of(position.rank), ended) {
            Some(verdict) if self.job.settings.keep_others && self.living() > 0 => {
                self.go_on_without(&verdict);
            }
            Some(verdict) => self.fail(verdict),
            None if loss.is_some() && self.living() > 0 => {
                let (rank, host) = (position.rank, self.host_of(position.rank));
                let clause = format!("rank {rank} on {host} exited with status 0 without MPI_Finalize");
                self.go_on_without(&Verdict::new(verdict::STATUS_LAUNCHER, clause));
            }
            None if self.living() > 0 && self.check_at.is_none() => {
                self.check_at = Some(Instant::now() + EARLY_END_GRACE);
            }
            None => {}
        }
    }

    /// Tells the agents of the other hosts once that a rank is lost; its own agent knows.
    pub(super) fn tell_of_loss(&mut self, rank: u32, loss: Loss) {
        match self.told.get_mut(rank as usize) {
            Some(told) if !*told => *told = true,
            _ => return,
        }
        let own = self.job.share_of_rank.get(rank as usize).copied();
        for (index, agent) in self.agents.iter_mut().enumerate() {
            if Some(index) != own && agent.is_working() {
                let fits = agent.order(&Order::Lost { rank, loss });
                assert!(fits, "a short order");
            }
        }
    }

    /// Handles the loss of a host: its ranks are gone. The job ends, or the others go on.
    pub(super) fn lose_host(&mut self, index: usize, clause: String) {
        self.blame_host(index, &clause);
        self.leave_ring(index);
        self.agents[index].is_lost = true;
        let ranks: Vec<u32> = self.job.shares[index].plan.ranks.iter().map(|&(rank, _)| rank).collect();
        let lost: Vec<u32> = ranks.into_iter().filter(|&rank| self.ended[rank as usize].is_none()).collect();
        lost.iter().for_each(|&rank| self.ended[rank as usize] = Some(Phase::Silent));
        let verdict = Verdict::new(verdict::STATUS_LAUNCHER, clause);
        if !(self.job.settings.keep_others && self.exchanged && self.living() > 0) {
            return self.fail(verdict);
        }
        self.go_on_without(&verdict);
        lost.into_iter().for_each(|rank| self.tell_of_loss(rank, Loss::Host));
        self.spread_when_all_arrived();
    }

    /// Reports the reason why a rank or a host is lost, and lets the others go on.
    pub(super) fn go_on_without(&mut self, verdict: &Verdict) {
        self.console.say(&format!("{}; the others go on", verdict.clause));
        self.failed.get_or_insert(verdict.status);
        self.check_at = Some(Instant::now() + EARLY_END_GRACE);
    }

    /// Sends everything that all ranks have brought to all agents, when the last host has arrived at a
    /// barrier or exchange.
    fn spread_when_all_arrived(&mut self) {
        // Hosts whose ranks have all ended take part in no barrier any more.
        let keeps = self.job.settings.keep_others;
        let takes_part = |agent: &Agent| !keeps || agent.gathered.is_some() || agent.stage != Stage::Done;
        if self.agents.iter().any(|agent| takes_part(agent) && agent.gathered.is_none()) {
            return;
        }
        let mut kinds = Vec::new();
        let mut all = Gathered::default();
        for agent in self.agents.iter_mut().filter(|agent| agent.gathered.is_some()) {
            let (exchange, gathered) = agent.gathered.take().expect("all have arrived");
            kinds.push(exchange);
            all.puts.extend(gathered.puts);
            all.cards.extend(gathered.cards);
        }
        if kinds.is_empty() {
            return;
        }
        if kinds.iter().any(|&kind| kind != kinds[0]) {
            let clause = "some ranks are in a barrier of the process manager and others in an exchange";
            return self.fail(Verdict::new(verdict::STATUS_LAUNCHER, clause.into()));
        }
        self.exchanged |= kinds[0];
        let order = Order::Gathered(all);
        if !self.agents.iter_mut().filter(|agent| agent.stage != Stage::Done).all(|agent| agent.order(&order)) {
            let clause = "the ranks exchange more than a frame holds";
            self.fail(Verdict::new(verdict::STATUS_LAUNCHER, clause.into()));
        }
    }
}
