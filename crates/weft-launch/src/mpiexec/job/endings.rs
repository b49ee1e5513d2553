//! The early ends of a job: a rank fails, the user interrupts the job, its time is up, or ranks wait for
//! others that will never come.

use super::{EARLY_END_GRACE, END_GRACE_MS, END_RESERVE, INTERRUPT_LIMIT, Place, Running, SURVEY_LIMIT};
use crate::control::{Order, Phase, Watch};
use crate::mpiexec::debugger;
use crate::mpiexec::family::ToSpawned;
use crate::mpiexec::reach::{Agent, Stage};
use crate::mpiexec::standings::{self, Found};
use crate::mpiexec::survey::{JobSeen, Purpose, Seen, Survey};
use crate::mpiexec::verdict::{self, Verdict};
use std::time::{Duration, Instant};

impl Running {
    /// Handles the user's wish to end. The first time the job ends after a report on its state; the second
    /// time it ends at once.
    pub(super) fn interrupt(&mut self, signal: i32) {
        self.interrupts += 1;
        if self.interrupts > 1 {
            self.verdict = self.verdict.or(Some(verdict::STATUS_SIGNAL + signal));
            self.end_ranks(libc::SIGKILL, 0, None);
        } else if self.verdict.is_none() && self.launched {
            self.ask_where(Purpose::Interrupt(signal));
        } else {
            self.end_interrupted(signal, None);
        }
    }

    /// Ends the job, and reports its state.
    fn end_interrupted(&mut self, signal: i32, survey: Option<&Survey>) {
        let name = verdict::describe(signal);
        let name = name.split(',').next().unwrap_or("a signal");
        if self.verdict.is_none() {
            let ranks = if self.launched { format!("; ending {}", self.living_words()) } else { String::new() };
            let standings = survey.map_or_else(String::new, |survey| format!("\n{}", self.standings(survey)));
            self.console.say(format!("interrupted by {name}{ranks}{standings}").trim_end());
        }
        self.verdict = self.verdict.or(Some(verdict::STATUS_SIGNAL + signal));
        self.end_ranks(signal, END_GRACE_MS, None);
    }

    /// Reports the state of a job that goes on.
    fn look(&mut self, survey: &Survey) {
        if let Place::Spawned(_) = &self.place {
            let seen = self.seen(survey);
            return self.tell_standings(seen);
        }
        let seconds = self.started_at.elapsed().as_secs_f64();
        let standings = self.standings(survey);
        self.console.say(format!("{}after {seconds:.1} s\n{standings}", self.title()).trim_end());
    }

    /// Describes the states of the ranks, a line for each place, and the reason why nothing goes on, if that
    /// can be seen.
    fn standings(&self, survey: &Survey) -> String {
        let mut jobs = vec![(self.number(), self.seen(survey))];
        let mut text = String::new();
        for (number, seen) in survey.jobs() {
            jobs.extend(seen.map(|seen| (number, seen.clone())));
        }
        let numbered = jobs.iter_mut().map(|(number, seen)| (*number, &mut seen.living));
        standings::renumber(&mut numbered.collect::<Vec<_>>());
        let living: Vec<Vec<&Seen>> = jobs.iter().map(|(_, seen)| seen.living.iter().collect()).collect();
        let found = jobs.iter().zip(&living);
        let found = found.map(|((job, seen), living)| Found { job: *job, living, ended: &seen.ended });
        let found: Vec<Found<'_>> = found.collect();
        for ((number, seen), found) in jobs.iter().zip(&found) {
            if *number != self.number() {
                text.push_str(&format!("{}:\n", self.name_of_job(*number)));
            }
            text.push_str(&found.lines(&|rank| seen.hosts.get(rank as usize).cloned().unwrap_or_default()));
            for host in &seen.missing {
                text.push_str(&format!("  the agent on {host} does not answer\n"));
            }
        }
        for (number, _) in survey.jobs().filter(|(_, seen)| seen.is_none()) {
            text.push_str(&format!("{} does not answer\n", self.name_of_job(number)));
        }
        text + &standings::explain(&found)
    }

    /// What was seen of this job.
    fn seen(&self, survey: &Survey) -> JobSeen {
        JobSeen {
            living: survey.seen().into_iter().cloned().collect(),
            ended: self.ended.clone(),
            hosts: (0..self.job.size).map(|rank| self.host_of(rank).to_owned()).collect(),
            missing: survey.missing().map(|agent| self.agents[agent].host.clone()).collect(),
        }
    }

    /// The number of this job in its family.
    fn number(&self) -> u32 {
        self.job.settings.spawned
    }

    pub(super) fn living(&self) -> usize {
        self.ended.iter().filter(|ended| ended.is_none()).count()
    }

    /// Ends a job that has failed, and reports the reason.
    pub(super) fn fail(&mut self, verdict: Verdict) {
        self.fail_sparing(verdict, None);
    }

    /// Ends a job that has failed. The rank `spare` ends by itself.
    pub(super) fn fail_sparing(&mut self, verdict: Verdict, spare: Option<u32>) {
        if self.verdict.is_some() {
            return;
        }
        let others = self.living() - usize::from(spare.is_some());
        let others = if self.launched { others } else { 0 };
        debugger::show_abort(&verdict.clause);
        if self.fail_in_family(&verdict, spare) {
            return;
        }
        let ending = verdict::ending_others(others, self.spawned_jobs());
        self.console.say(&format!("{}{ending}", verdict.clause));
        self.verdict = Some(verdict.status);
        self.end_ranks(libc::SIGTERM, END_GRACE_MS, spare);
    }

    pub(super) fn end_ranks(&mut self, signal: i32, grace_ms: u32, spare: Option<u32>) {
        for index in 0..self.agents.len() {
            let agent = &mut self.agents[index];
            match agent.stage {
                // The agent's command may be any program, and has started nothing yet.
                Stage::Started if agent.remote => self.signal_command(index, libc::SIGTERM),
                Stage::Queued => agent.stage = Stage::Done,
                Stage::Done => {}
                _ => {
                    let fits = agent.order(&Order::End { signal, grace_ms, spare });
                    assert!(fits, "a short order");
                }
            }
        }
        self.end_family(signal, grace_ms);
        let give_up_at = Instant::now() + Duration::from_millis(u64::from(grace_ms)) + END_RESERVE;
        self.give_up_at = Some(self.give_up_at.map_or(give_up_at, |at| at.min(give_up_at)));
    }

    /// Kills the agents that still have not said their last word. Their ranks go with them.
    pub(super) fn give_up(&mut self) {
        self.give_up_at = None;
        for agent in self.agents.iter_mut().filter(|agent| agent.stage != Stage::Done) {
            if agent.is_working() {
                let host = &agent.host;
                self.console.say(&format!("the agent on {host} does not answer any more; ranks may be left there"));
            }
            agent.kill();
        }
        if let Place::First(family) = &mut self.place {
            family.kill_all();
        }
    }

    /// The number of spawned jobs that have not failed.
    fn spawned_jobs(&self) -> usize {
        if let Place::First(family) = &self.place { family.running() } else { 0 }
    }

    /// What lives of the family, in words.
    fn living_words(&self) -> String {
        verdict::ranks_and_jobs(self.living(), self.spawned_jobs())
    }

    /// Asks all hosts for a sign of life, and gives up a host that has given none for too long. Returns the
    /// time of the next look.
    pub(super) fn look_for_silence(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let mut pause = None;
        for index in 0..self.agents.len() {
            let agent = &mut self.agents[index];
            let (received, working) = (agent.channel.received(), agent.is_working());
            let Some(watch) = agent.watch.as_mut().filter(|_| working) else { continue };
            pause = Some(watch.pause());
            if watch.is_over(received, now) {
                self.lose_silent(self.silent_starter(index, now));
            } else {
                let fits = agent.order(&Order::Ping);
                assert!(fits, "a short order");
            }
        }
        self.say_unheard(now);
        pause.map(|pause| now + pause)
    }

    /// The first host on the way to a silent host that is silent too, else that host. A host on the way was
    /// heard of last when it passed something on, which may be one question later.
    fn silent_starter(&self, silent: usize, now: Instant) -> usize {
        let Some(starter) = &self.agents[silent].starter else { return silent };
        let is_silent = |watch: &Watch| watch.silence(now) > watch.pause() * 2;
        if self.agents[starter.agent].watch.as_ref().is_some_and(is_silent) {
            self.silent_starter(starter.agent, now)
        } else {
            silent
        }
    }

    /// Ends the job for a host that was silent for too long, because its ranks are gone.
    fn lose_silent(&mut self, index: usize) {
        let limit = self.job.settings.silence_max().unwrap_or_default().as_secs_f64();
        let agent = &mut self.agents[index];
        let clause = format!("the host {} has not answered for {limit} s: it or the way to it has failed", agent.host);
        agent.kill();
        // Its stage says that it takes part in no barrier any more.
        agent.stage = Stage::Done;
        self.lose_host(index, clause);
        self.close_behind(index);
    }

    pub(super) fn ask_where(&mut self, purpose: Purpose) {
        // A survey that ends the job goes before one that only looks.
        let ends = |purpose| matches!(purpose, Purpose::TimeLimit | Purpose::Interrupt(_));
        let overruled = self.survey.as_ref().is_some_and(|survey| ends(survey.purpose) && !ends(purpose));
        if self.verdict.is_some() || overruled {
            return;
        }
        if self.survey.as_ref().is_some_and(|survey| survey.purpose == Purpose::Waiting) {
            // The question of the survey that is dropped is asked again.
            self.check_at = Some(Instant::now() + EARLY_END_GRACE);
        }
        for agent in self.agents.iter_mut().filter(|agent| agent.is_working()) {
            let fits = agent.order(&Order::Where);
            assert!(fits, "a short order");
        }
        if purpose != Purpose::Waiting {
            // An order to end comes behind this one.
            self.tell_jobs(&ToSpawned::Look);
        }
        let asked = self.agents.iter().map(Agent::is_working);
        let limit = if let Purpose::Interrupt(_) = purpose { INTERRUPT_LIMIT } else { SURVEY_LIMIT };
        let mut survey = Survey::new(purpose, Instant::now() + limit, asked);
        if purpose != Purpose::Waiting {
            survey.ask_jobs(self.asked_jobs());
        }
        self.survey = Some(survey);
    }

    /// Acts on a survey: every agent has reported where its ranks are, or its time is over.
    pub(super) fn conclude(&mut self, survey: &Survey) {
        match survey.purpose {
            Purpose::TimeLimit => self.end_at_time_limit(survey),
            Purpose::Waiting => self.end_if_waited_for(survey),
            Purpose::Interrupt(signal) => self.end_interrupted(signal, Some(survey)),
            Purpose::Look => self.look(survey),
        }
    }

    pub(super) fn end_at_time_limit(&mut self, survey: &Survey) {
        let limit = self.job.settings.time_limit.unwrap_or_default().as_secs_f64();
        let living = if self.launched { self.living_words() } else { verdict::ranks(0) };
        let mut text = format!("the time limit of {limit} s is over; ending {living}\n");
        text.push_str(&self.standings(survey));
        let unreached = |agent: &&Agent| matches!(agent.stage, Stage::Queued | Stage::Started);
        for agent in self.agents.iter().filter(unreached) {
            text.push_str(&format!("  the host {} has not been reached yet\n", agent.host));
        }
        if self.verdict.is_none() {
            self.console.say(text.trim_end());
            self.verdict = Some(verdict::STATUS_TIME_LIMIT);
            self.end_ranks(libc::SIGTERM, END_GRACE_MS, None);
        }
    }

    /// The ranks that have ended with status 0 after MPI_Init and without MPI_Finalize.
    fn unfinalized(&self) -> Vec<u32> {
        let joined = |phase: &Option<Phase>| matches!(phase, Some(Phase::Joined | Phase::Waiting));
        (0..).zip(&self.ended).filter(|(_, phase)| joined(phase)).map(|(rank, _)| rank).collect()
    }

    /// Judges a job whose ranks have all ended with status 0. It has failed all the same if some ranks left
    /// MPI without MPI_Finalize, however soon the others followed (MPI-5.0 §11.2.2).
    pub(super) fn judge_silent_ends(&mut self) {
        let ranks = self.unfinalized();
        // Those that the others have gone on without have been reported.
        if self.verdict.is_none() && self.failed.is_none() && !ranks.is_empty() {
            let clause = format!("{} exited with status 0 without MPI_Finalize", verdict::named(&ranks));
            self.fail(Verdict::new(verdict::STATUS_LAUNCHER, clause));
        }
    }

    /// Ends the job if a rank has ended without saying goodbye, or others wait for it: it would never come.
    pub(super) fn end_if_waited_for(&mut self, survey: &Survey) {
        let living = survey.seen();
        if living.is_empty() {
            return;
        }
        let waiting = living.iter().filter(|(position, _)| position.phase == Phase::Waiting);
        let waiting: Vec<u32> = waiting.map(|(position, _)| position.rank).collect();
        let ended = || (0..).zip(&self.ended).filter_map(|(rank, phase)| Some((rank, (*phase)?)));
        let keeps = self.job.settings.keep_others;
        let unfinalized = self.unfinalized().first().filter(|_| !keeps).map(|&rank| (rank, Phase::Joined));
        let missed = unfinalized.or_else(|| ended().next()).filter(|_| unfinalized.is_some() || !waiting.is_empty());
        // Barriers wait for no rank that is lost.
        let missed = missed.filter(|_| !(keeps && self.exchanged));
        let Some((rank, phase)) = missed else {
            self.check_at = Some(Instant::now() + EARLY_END_GRACE);
            return;
        };
        let how = match phase {
            Phase::Silent => "before MPI_Init",
            Phase::Joined | Phase::Waiting => "without MPI_Finalize",
            Phase::Finalized => "after MPI_Finalize",
        };
        let what = match waiting.len() {
            0 => String::new(),
            1 => format!(" while {} waits for it", verdict::named(&waiting)),
            _ => format!(" while {} wait for it", verdict::named(&waiting)),
        };
        let end = if keeps { "ended" } else { "exited with status 0" };
        let clause = format!("rank {rank} on {} {end} {how}{what}", self.host_of(rank));
        self.fail(Verdict::new(verdict::STATUS_LAUNCHER, clause));
    }
}
