//! The commands that an agent runs for `mpiexec` to reach further hosts. The agent passes on what goes
//! through their standard streams, and does not look at it.

use super::command::{self, Command};
use crate::control::{Channel, FromCommand, Report, ToCommand};
use crate::sys::{self, Ended, Mask, Poll, READ, Ready, WRITE};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};

/// Bytes read from a command at once.
const CHUNK: usize = 64 * 1024;
/// The most chunks that are read from the pipe of a command that has ended: more than a pipe holds. Another
/// process may hold the pipe and write on.
const LAST_CHUNKS_MAX: usize = 32;
/// While the agent has more bytes than this to send, it reads nothing from commands.
const UNSENT_MAX: usize = 1024 * 1024;
/// The descriptors for each command, and those besides.
const DESCRIPTORS_PER_COMMAND: u64 = 3;
const DESCRIPTORS_SPARE: u64 = 64;

/// The commands that have not ended. When this is dropped, they are killed.
pub(super) struct Relay {
    mask: Mask,
    commands: Vec<Relayed>,
}

struct Relayed {
    number: u32,
    pid: libc::pid_t,
    /// `None` when it is closed.
    input: Option<File>,
    output: Option<File>,
    errors: Option<File>,
    /// The bytes for its standard input, and how many of them were written.
    unsent: Vec<u8>,
    written: usize,
}

/// A stream of a command that is waited for.
#[derive(Clone, Copy)]
enum Stream {
    Input,
    Output,
    Errors,
}

/// The entries of a wait: for each the number of the command, and the stream.
pub(super) struct Entries(Vec<(usize, u32, Stream)>);

impl Relay {
    /// No commands. `mask` has the signals that will be blocked in commands.
    pub(super) fn new(mask: Mask) -> Self {
        Self { mask, commands: Vec::new() }
    }

    /// Returns whether all commands have ended.
    pub(super) fn is_idle(&self) -> bool {
        self.commands.is_empty()
    }

    /// Returns whether this process is a command.
    pub(super) fn has(&self, pid: libc::pid_t) -> bool {
        self.commands.iter().any(|command| command.pid == pid)
    }

    /// The descriptors that the commands need.
    pub(super) fn descriptors(&self) -> u64 {
        self.commands.len() as u64 * DESCRIPTORS_PER_COMMAND
    }

    /// Handles a message from `mpiexec`. Messages to a command that has ended are of no use.
    pub(super) fn handle_message(&mut self, number: u32, message: ToCommand) -> Option<Report> {
        if let ToCommand::Start(words) = message {
            return self.start(number, &words);
        }
        let command = self.commands.iter_mut().find(|command| command.number == number)?;
        match message {
            ToCommand::Input(bytes) => {
                command.unsent.extend_from_slice(&bytes);
                command.flush();
            }
            ToCommand::Signal(signal) => sys::kill_group(command.pid, signal),
            ToCommand::Start(_) => {}
        }
        None
    }

    fn start(&mut self, number: u32, words: &[String]) -> Option<Report> {
        sys::raise_descriptor_limit(self.descriptors() + DESCRIPTORS_PER_COMMAND + DESCRIPTORS_SPARE);
        let started = command::start(words, &self.mask).and_then(|command| {
            let Command { pid, input, output, errors } = command;
            let ready = sys::set_nonblocking(&input).and_then(|()| sys::set_nonblocking(&output));
            ready.map_err(|error| {
                sys::kill_group(pid, libc::SIGKILL);
                format!("its pipes cannot be used: {}", sys::reason(&error))
            })?;
            let (input, output, errors) = (Some(input), Some(output), Some(errors));
            Ok(Relayed { number, pid, input, output, errors, unsent: Vec::new(), written: 0 })
        });
        match started {
            Ok(command) => {
                self.commands.push(command);
                None
            }
            Err(why) => Some(report(number, FromCommand::NotStarted(why))),
        }
    }

    /// Adds the events that commands wait for; `channel` leads to `mpiexec`.
    pub(super) fn wait_in<'fd>(&'fd self, poll: &mut Poll<'fd>, channel: &Channel) -> Entries {
        let mut entries = Vec::with_capacity(self.commands.len() * 3);
        let may_read = channel.unsent() <= UNSENT_MAX;
        for command in &self.commands {
            let mut add = |file: &'fd Option<File>, events, stream| {
                if let Some(file) = file {
                    entries.push((poll.add(file, events), command.number, stream));
                }
            };
            if may_read {
                add(&command.output, READ, Stream::Output);
                add(&command.errors, READ, Stream::Errors);
            }
            if command.written < command.unsent.len() {
                add(&command.input, WRITE, Stream::Input);
            }
        }
        Entries(entries)
    }

    /// Reads and writes where that is ready.
    pub(super) fn handle(&mut self, ready: &Ready, entries: &Entries) -> Vec<Report> {
        let mut reports = Vec::new();
        for &(entry, number, stream) in &entries.0 {
            let command = self.commands.iter_mut().find(|command| command.number == number);
            let Some(command) = command.filter(|_| ready.has(entry)) else { continue };
            match stream {
                Stream::Input => command.flush(),
                Stream::Output => reports.extend(command.read_output()),
                Stream::Errors => reports.extend(command.read_errors()),
            }
        }
        reports
    }

    /// Handles the end of a child of this process, if it is a command.
    pub(super) fn handle_end(&mut self, pid: libc::pid_t, how: Ended) -> Vec<Report> {
        let Some(index) = self.commands.iter().position(|command| command.pid == pid) else { return Vec::new() };
        let mut command = self.commands.swap_remove(index);
        let mut reports = Vec::new();
        for _ in 0..LAST_CHUNKS_MAX {
            reports.extend(command.read_errors());
            reports.extend(command.read_output());
        }
        reports.push(report(command.number, FromCommand::Ended(how)));
        reports
    }

    /// Kills all commands. Hosts that are reached through them notice that their channels are closed.
    pub(super) fn kill(&self) {
        for command in &self.commands {
            sys::kill_group(command.pid, libc::SIGKILL);
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Relayed {
    /// Writes as much as possible without waiting. Bytes for a command that reads no more are lost.
    fn flush(&mut self) {
        while let Some(input) = self.input.as_mut().filter(|_| self.written < self.unsent.len()) {
            match input.write(&self.unsent[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.input = None,
            }
        }
        self.unsent.clear();
        self.written = 0;
    }

    fn read_output(&mut self) -> Option<Report> {
        let bytes = read(&mut self.output)?;
        let message = if bytes.is_empty() { FromCommand::Closed } else { FromCommand::Output(bytes) };
        Some(report(self.number, message))
    }

    fn read_errors(&mut self) -> Option<Report> {
        let bytes = read(&mut self.errors).filter(|bytes| !bytes.is_empty())?;
        Some(report(self.number, FromCommand::Errors(bytes)))
    }
}

/// Reads once without waiting. `None`: there is nothing now. No bytes: the stream has just ended.
fn read(file: &mut Option<File>) -> Option<Vec<u8>> {
    let open = file.as_mut()?;
    let mut bytes = vec![0; CHUNK];
    loop {
        match open.read(&mut bytes) {
            Ok(count) if count > 0 => {
                bytes.truncate(count);
                return Some(bytes);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Ok(_) | Err(_) => {
                *file = None;
                return Some(Vec::new());
            }
        }
    }
}

fn report(command: u32, message: FromCommand) -> Report {
    Report::Relay { command, message }
}
