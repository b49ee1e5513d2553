//! The agent's side of the orders of `mpiexec`, and the end of ranks.

use super::without_ranks::pass;
use super::{Agent, Ending};
use crate::call_site::Board;
use crate::control::{Order, Position, Report};
use crate::standing::{self, Standing};
use crate::{page, sys};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

impl Agent {
    pub(super) fn handle_orders(&mut self) {
        loop {
            let order = match self.channel.next_frame() {
                Ok(None) => return,
                Ok(Some(frame)) => Order::decode(frame),
                Err(()) => None,
            };
            match order {
                Some(order) => self.handle_order(order),
                // A peer that sends nonsense is not our mpiexec.
                None => return self.abandon(),
            }
        }
    }

    pub(super) fn handle_order(&mut self, order: Order) {
        match order {
            Order::Launch(_) => self.abandon(),
            Order::Relay { command, message } => pass(&mut self.channel, self.relay.handle_message(command, message)),
            Order::Input(bytes) => self.input.push(&bytes),
            Order::InputEnd => self.input.end(),
            Order::Credit(bytes) => self.credit += i64::from(bytes),
            Order::Gathered(gathered) => {
                let (file, at) = (&self.shared, Board::bytes(self.ranks.len()) as u64);
                // Without memory for them the cards travel in the replies.
                self.server.handle_gathered(gathered, |cards| file.write_all_at(cards, at).ok().map(|()| at));
                self.act();
            }
            Order::Answer { rank, answer } => {
                if let Some(local_rank) = self.ranks.iter().position(|other| other.number == rank) {
                    self.server.handle_answer(local_rank, &answer);
                    self.act();
                }
            }
            Order::Signal(signal) => {
                self.suspended = signal == libc::SIGSTOP;
                self.signal_all(signal, None);
            }
            Order::Lost { rank, loss } => self.lose(rank, loss),
            Order::Heartbeat(word) => self.handle_word(word),
            Order::Ping => self.report(&Report::Pong),
            Order::End { signal, grace_ms, spare } => {
                self.signal_all(signal, spare);
                self.signal_all(libc::SIGCONT, None);
                let force_at = Instant::now() + Duration::from_millis(u64::from(grace_ms));
                let sooner = self.ending.as_ref().map_or(force_at, |ending| ending.force_at.min(force_at));
                self.ending = Some(Ending { force_at: sooner, forced: false });
            }
            Order::Where => {
                let living = |local_rank: &usize| self.ranks[*local_rank].pid.is_some();
                let mut standings = standings();
                let seen = (0..self.ranks.len()).filter(living).map(|local_rank| {
                    let position = self.position(local_rank);
                    let standing = standings.remove(&position.rank);
                    (position, standing)
                });
                let seen = seen.collect();
                self.report(&Report::Where(seen));
            }
        }
    }

    pub(super) fn position(&self, local_rank: usize) -> Position {
        Position {
            rank: self.ranks[local_rank].number,
            phase: self.server.phase(local_rank),
            whereabouts: self.board.whereabouts(local_rank),
        }
    }

    pub(super) fn signal_all(&self, signal: i32, spare: Option<u32>) {
        for rank in self.ranks.iter().filter(|rank| Some(rank.number) != spare) {
            if let Some(pid) = rank.pid {
                sys::kill_group(pid, signal);
            }
        }
    }

    pub(super) fn force(&mut self) {
        self.signal_all(libc::SIGKILL, None);
        if let Some(ending) = &mut self.ending {
            ending.forced = true;
        }
    }

    /// Ends everything: `mpiexec` is gone, or this agent is told to go, and no process that it started may
    /// stay.
    pub(super) fn abandon(&mut self) {
        self.gone = true;
        self.relay.kill();
        self.ending = Some(Ending { force_at: Instant::now(), forced: false });
        self.force();
    }
}

/// The states of the ranks of this agent, by number. These are ranks that have joined the job as processes of
/// Weft, themselves or as a child of the process that was started. Jobs that ranks have started on their own
/// have their own agent.
fn standings() -> BTreeMap<u32, Standing> {
    let now = sys::monotonic_ns();
    let read = |path: std::path::PathBuf| page::read(&path, standing::WORDS).ok();
    let found = page::find(Some(std::process::id())).into_iter().filter_map(|(pid, path)| Some((pid, read(path)?)));
    let parsed = found.filter_map(|(pid, words)| Some((pid, Standing::parse(&words, now).ok()?)));
    parsed.filter(|(pid, standing)| page::is_of(standing.pid, *pid)).map(|(_, found)| (found.rank, found)).collect()
}
