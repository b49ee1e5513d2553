//! A spawned job's link to the first `mpiexec` of its family.

use super::{END_GRACE_MS, Place, Running};
use crate::Spawned;
use crate::control::{Channel, Order, State};
use crate::mpiexec::family::{FromSpawned, ToSpawned};
use crate::mpiexec::settings::Block;
use crate::mpiexec::spawned;
use crate::mpiexec::survey::{JobSeen, Purpose};
use crate::mpiexec::verdict::{self, Verdict};
use crate::spawn::Spawn;
use crate::sys::{Poll, Ready};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The longest time for the last message to leave.
const FAREWELL: Duration = Duration::from_secs(5);

/// The connection, and what was not told yet.
pub(crate) struct Parent {
    channel: Channel,
    number: u32,
    spawn: Spawn,
    start: Start,
    /// The reasons of ranks that were not started.
    failures: BTreeMap<u32, String>,
}

/// The start of the job's processes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Start {
    /// Not all processes run.
    Pending,
    /// It is given up for this reason, which will be told when nothing of the job is left.
    GivenUp(String),
    /// The outcome was told.
    Told,
}

impl Parent {
    pub(crate) fn new(channel: Channel, number: u32, spawn: Spawn) -> Self {
        Self { channel, number, spawn, start: Start::Pending, failures: BTreeMap::new() }
    }

    pub(crate) fn tell(&mut self, message: &FromSpawned) {
        // A message is far shorter than a frame, because a request is.
        let fits = self.channel.queue(|out| message.encode(out));
        assert!(fits, "a request is far shorter than a frame");
        self.channel.flush();
    }

    /// Tells what has become of each process, if nothing was told.
    fn tell_outcome(&mut self, blocks: &[Block], given_up: Option<&str>) {
        if self.start == Start::Told {
            return;
        }
        self.start = Start::Told;
        let counts: Vec<u32> = blocks.iter().map(|block| block.count.unwrap_or(0)).collect();
        let outcomes = spawned::outcomes(&self.spawn, &counts, given_up, &self.failures);
        self.tell(&FromSpawned::Outcome(Spawned { number: self.number, outcomes }));
    }

    /// Tells that the job cannot even be tried.
    pub(crate) fn refuse(&mut self, refusal: &spawned::Refusal) {
        let outcomes = spawned::refused(&self.spawn, refusal);
        self.tell(&FromSpawned::Outcome(Spawned { number: self.number, outcomes }));
    }

    /// Tells that the job is over, and waits until that has left.
    pub(crate) fn part(&mut self, status: i32) {
        self.tell(&FromSpawned::Ended { status });
        let deadline = Instant::now() + FAREWELL;
        while self.channel.has_unsent() && self.channel.state() == State::Open && Instant::now() < deadline {
            let mut poll = Poll::default();
            let entries = self.channel.wait_in(&mut poll);
            let Ok(ready) = poll.wait(Some(deadline.saturating_duration_since(Instant::now()))) else { return };
            self.channel.handle(&ready, entries);
        }
    }

    /// Adds the events that the connection waits for.
    pub(super) fn wait_in<'fd>(&'fd self, poll: &mut Poll<'fd>) -> (Option<usize>, Option<usize>) {
        self.channel.wait_in(poll)
    }
}

impl Running {
    /// Notes why ranks of a spawned job were not started.
    pub(super) fn blame(&mut self, ranks: impl IntoIterator<Item = u32>, why: &str) {
        if let Place::Spawned(parent) = &mut self.place {
            for rank in ranks {
                parent.failures.entry(rank).or_insert_with(|| why.to_owned());
            }
        }
    }

    /// Notes why no rank of a host was started.
    pub(super) fn blame_host(&mut self, index: usize, why: &str) {
        let ranks: Vec<u32> = self.job.shares[index].plan.ranks.iter().map(|&(rank, _)| rank).collect();
        self.blame(ranks, why);
    }

    /// Tells the family where the ranks of a spawned job are.
    pub(super) fn tell_standings(&mut self, mut seen: JobSeen) {
        let Place::Spawned(parent) = &mut self.place else { return };
        // The states of many ranks may be longer than a frame; their places are not.
        if !parent.channel.queue(|out| FromSpawned::Standings(seen.clone()).encode(out)) {
            seen.living.iter_mut().for_each(|(_, standing)| *standing = None);
            return parent.tell(&FromSpawned::Standings(seen));
        }
        parent.channel.flush();
    }

    /// Tells the family that all ranks of a spawned job run.
    pub(super) fn tell_started(&mut self) {
        if let Place::Spawned(parent) = &mut self.place
            && self.verdict.is_none()
        {
            parent.tell_outcome(&self.job.settings.blocks, None);
        }
    }

    /// In a spawned job, tells the family that the job fails, and ends it. Returns whether this is a spawned
    /// job.
    pub(super) fn fail_in_family(&mut self, verdict: &Verdict, spare: Option<u32>) -> bool {
        let Place::Spawned(parent) = &mut self.place else { return false };
        self.verdict = Some(verdict.status);
        if parent.start == Start::Told {
            parent.tell(&FromSpawned::Failed { status: verdict.status, clause: verdict.clause.clone() });
            self.end_ranks(libc::SIGTERM, END_GRACE_MS, spare);
        } else {
            parent.start = Start::GivenUp(verdict.clause.clone());
            // Nobody has seen these processes.
            self.end_ranks(libc::SIGKILL, 0, None);
        }
        true
    }

    /// Handles what the first `mpiexec` says.
    pub(super) fn handle_parent(&mut self, ready: &Ready, entries: (Option<usize>, Option<usize>)) {
        let Place::Spawned(parent) = &mut self.place else { return };
        parent.channel.handle(ready, entries);
        loop {
            let Place::Spawned(parent) = &mut self.place else { return };
            let message = match parent.channel.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) => ToSpawned::decode(frame),
                Err(()) => None,
            };
            match message {
                Some(message) => self.handle_message(message),
                None => {
                    parent.channel.close();
                    break;
                }
            }
        }
        let Place::Spawned(parent) = &self.place else { return };
        if parent.channel.state() == State::Closed && self.verdict.is_none() {
            // The family is gone, and nobody would hear a reason.
            self.verdict = Some(verdict::STATUS_LAUNCHER);
            self.end_ranks(libc::SIGKILL, 0, None);
        }
    }

    fn handle_message(&mut self, message: ToSpawned) {
        match message {
            ToSpawned::Start(_) => {}
            ToSpawned::Answer { rank, answer } => {
                if let Some(&agent) = self.job.share_of_rank.get(rank as usize) {
                    let fits = self.agents[agent].order(&Order::Answer { rank, answer });
                    assert!(fits, "a request is far shorter than a frame");
                }
            }
            ToSpawned::Signal(signal) => self.pass_on(signal),
            ToSpawned::Look => self.ask_where(Purpose::Look),
            ToSpawned::End { signal, grace_ms } => {
                if let Place::Spawned(parent) = &mut self.place
                    && parent.start == Start::Pending
                {
                    parent.start = Start::GivenUp("the job that spawns is being ended".into());
                }
                self.verdict.get_or_insert(verdict::STATUS_LAUNCHER);
                self.end_ranks(signal, grace_ms, None);
            }
        }
    }

    /// Says goodbye to the family. The job is over.
    pub(super) fn part_from_family(&mut self, status: i32) {
        let Place::Spawned(parent) = &mut self.place else { return };
        let given_up = match &parent.start {
            Start::Pending => Some("its processes have ended too early".to_owned()),
            Start::GivenUp(why) => Some(why.clone()),
            Start::Told => None,
        };
        parent.tell_outcome(&self.job.settings.blocks, given_up.as_deref());
        parent.part(status);
    }

    /// The name of a spawned job in front of a sentence; empty for the first job of a family.
    pub(super) fn title(&self) -> String {
        let Place::Spawned(parent) = &self.place else { return String::new() };
        let program = parent.spawn.programs.first().map_or("", |program| program.command.as_str());
        format!("spawned job {} ({program}): ", parent.number)
    }
}
