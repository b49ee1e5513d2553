//! Agents that other hosts start. Everything that passes between `mpiexec` and such an agent passes through
//! the channel of the agent that started it.

use super::Running;
use crate::control::{FromCommand, Order, ToCommand};
use crate::mpiexec::reach::{Agent, Stage};
use crate::sys;

/// The most bytes that are put into one message for another agent.
const PIECE_MAX: usize = 1024 * 1024;

impl Running {
    /// Tells the host that shall start this agent to start it.
    pub(super) fn start_behind(&mut self, index: usize) {
        let command = self.next_command;
        self.next_command = self.next_command.wrapping_add(1);
        let agent = &mut self.agents[index];
        agent.note_start();
        let Some(starter) = &mut agent.starter else { return };
        starter.command = command;
        let message = ToCommand::Start(agent.words.clone());
        self.tell_command(index, message);
    }

    /// Sends a message to the command that another host runs to start this agent.
    fn tell_command(&mut self, index: usize, message: ToCommand) {
        let Some(starter) = &self.agents[index].starter else { return };
        let (agent, command) = (starter.agent, starter.command);
        let fits = self.agents[agent].order(&Order::Relay { command, message });
        assert!(fits, "a piece is shorter than a frame");
    }

    /// Sends a signal to the command that starts this agent, wherever it runs.
    pub(super) fn signal_command(&mut self, index: usize, signal: i32) {
        match self.agents[index].pid {
            Some(pid) => sys::kill_group(pid, signal),
            None => self.tell_command(index, ToCommand::Signal(signal)),
        }
    }

    /// Puts what was queued for agents that other hosts have started into the channels of their starters. A
    /// starter comes before those that it starts, so the last come first.
    pub(super) fn carry(&mut self) {
        let carried = if self.has_tree { self.agents.len() } else { 0 };
        for index in (0..carried).rev() {
            while self.agents[index].starter.is_some() && self.agents[index].channel.has_unsent() {
                let piece = self.agents[index].channel.take_unsent(PIECE_MAX);
                self.tell_command(index, ToCommand::Input(piece));
            }
        }
    }

    /// Notes which agents relay to others that are not done.
    pub(super) fn note_relays(&mut self) {
        self.relays.fill(false);
        for index in (0..self.agents.len()).rev().filter(|_| self.has_tree) {
            let agent = &self.agents[index];
            let is_open = !matches!(agent.stage, Stage::Queued | Stage::Done) || self.relays[index];
            if let Some(starter) = agent.starter.as_ref().filter(|_| is_open) {
                self.relays[starter.agent] = true;
            }
        }
    }

    /// Handles what the command with this number says, which the agent `from` runs.
    pub(super) fn hear_command(&mut self, from: usize, command: u32, message: FromCommand) {
        let is_it = |agent: &Agent| {
            agent.starter.as_ref().is_some_and(|starter| starter.agent == from && starter.command == command)
        };
        // A command that was given up may still say something.
        let Some(index) = self.agents.iter().position(is_it) else { return };
        if let Some(text) = self.agents[index].hear_command(message) {
            let host = self.agents[index].host.clone();
            self.note(&format!("the agent on {host} says: {text}"));
        }
        self.hear(index);
    }

    /// The agents behind a lost one, as the end of a sentence about it.
    pub(super) fn behind(&self, lost: usize) -> String {
        let is_behind = |agent: &&Agent| agent.starter.as_ref().is_some_and(|starter| starter.agent == lost);
        let hosts: Vec<&str> = self.agents.iter().filter(is_behind).map(|agent| agent.host.as_str()).collect();
        match hosts[..] {
            [] => String::new(),
            [host] => format!(", and with it the way to {host}"),
            [first, .., last] => format!(", and with it the way to {} hosts, {first} to {last}", hosts.len()),
        }
    }

    /// Closes the channels that pass through an agent that is lost.
    pub(super) fn close_behind(&mut self, lost: usize) {
        for index in lost + 1..self.agents.len() {
            let agent = &mut self.agents[index];
            if agent.starter.as_ref().is_some_and(|starter| starter.agent == lost) {
                agent.channel.close();
                if agent.stage != Stage::Done {
                    self.handle_silence(index);
                }
                self.close_behind(index);
            }
        }
    }

    /// Queues an agent again that another host could not start, to be started from here. The same cause would
    /// keep other hosts from it, so every agent that still waits for its turn is started from here too.
    /// Returns `false` when nothing else can be tried.
    pub(super) fn start_here_instead(&mut self, index: usize) -> bool {
        let Some(starter) = self.agents[index].starter.as_ref().filter(|_| self.agents[index].stage == Stage::Started)
        else {
            return false;
        };
        let (host, behind) = (self.agents[index].host.clone(), starter.host.clone());
        let clause = self.agents[index].queue_here();
        let queued = self.agents.iter_mut().filter(|agent| agent.stage == Stage::Queued);
        queued.for_each(|agent| agent.starter = None);
        if !std::mem::replace(&mut self.is_fallback_told, true) {
            self.note(&format!(
                "the host {behind} cannot start the agent on {host}: {clause}; mpiexec starts this agent itself, and \
                 all others that are left (a host needs a key and an ssh configuration of its own to reach others; \
                 with --tree-width none no host has to)"
            ));
        }
        true
    }
}
