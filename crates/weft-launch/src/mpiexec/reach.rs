//! Starts agents on hosts and receives their greeting.

use super::{advice, table};
use crate::agent;
use crate::control::{Channel, FromCommand, GREETING, Gathered, Order, State, VERSION, Watch};
use crate::sys::{self, Ended, Fork, Mask, Poll, READ};
use crate::{processors, reach};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// The most bytes that a remote shell may print before the agent greets.
const NOISE_MAX: usize = 64 * 1024;
/// The bytes of an agent's standard error that are kept to explain a failure.
const ERRORS_KEPT: usize = 2048;
/// The most times that a command is started which is turned away.
const ATTEMPTS_MAX: u32 = 10;
/// The number of its last lines that are shown.
const ERROR_LINES_SHOWN: usize = 3;

/// The progress of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The agent waits for its turn to be started.
    Queued,
    /// The agent was started and has not greeted.
    Started,
    /// The agent waits for the plan.
    Greeted,
    /// The agent has the plan.
    Working,
    /// The agent has said its last word, or is gone.
    Done,
}

/// The host whose agent starts another agent, and relays all messages to it.
pub(crate) struct Starter {
    /// The index of its agent.
    pub(crate) agent: usize,
    pub(crate) host: String,
    /// The number of the command there; a new one for each start.
    pub(crate) command: u32,
}

/// An agent, and the connection to it.
pub(crate) struct Agent {
    pub(crate) host: String,
    pub(crate) remote: bool,
    /// The machine that the agent runs on; several hosts may be virtual hosts of one machine.
    pub(crate) machine: String,
    /// The host that starts the agent; `None`: `mpiexec` does.
    pub(crate) starter: Option<Starter>,
    /// The command that starts the agent.
    pub(crate) words: Vec<String>,
    /// The name by which the command reaches the host.
    reached_as: String,
    /// The path of `mpiexec` on the host.
    program: String,
    /// The time at which the agent was started, the last time.
    pub(crate) started_at: Instant,
    /// The number of times that it was started.
    attempts: u32,
    pub(crate) channel: Channel,
    pub(crate) stage: Stage,
    /// The process of the agent; `None` when it has ended.
    pub(crate) pid: Option<libc::pid_t>,
    pub(crate) ended: Option<Ended>,
    /// The time at which its channel was found closed too early.
    pub(crate) closed_at: Option<Instant>,
    /// The watch on its silence, once it works on another host.
    pub(crate) watch: Option<Watch>,
    /// It is gone with its ranks, or the others go on without them.
    pub(crate) is_lost: bool,
    /// The others go on without it, and it has been told so.
    pub(crate) is_excluded: bool,
    pub(crate) gathered: Option<(bool, Gathered)>,
    pub(crate) input_taken: u64,
    errors: Option<File>,
    kept: Vec<u8>,
    /// The bytes that came instead of a greeting so far.
    noise: usize,
}

impl Agent {
    fn new(host: &str, remote: bool, channel: Channel) -> Self {
        Self {
            host: host.to_string(),
            remote,
            machine: if remote { String::new() } else { processors::machine() },
            starter: None,
            words: Vec::new(),
            reached_as: host.to_string(),
            program: String::new(),
            started_at: Instant::now(),
            attempts: 0,
            channel,
            stage: Stage::Started,
            pid: None,
            ended: None,
            closed_at: None,
            watch: None,
            is_lost: false,
            is_excluded: false,
            gathered: None,
            input_taken: 0,
            errors: None,
            kept: Vec::new(),
            noise: 0,
        }
    }

    /// The command that starts the agent, for messages.
    pub(crate) fn command(&self) -> String {
        if self.remote { reach::shown(&self.words) } else { "(a copy of mpiexec)".into() }
    }

    /// The command that starts the agent, and the host that runs it if this is another one, for messages.
    pub(crate) fn way(&self) -> String {
        let starter = self.starter.as_ref().map_or_else(String::new, |starter| format!(" on {}", starter.host));
        format!("`{}`{starter}", self.command())
    }

    /// Starts the agent of this host, a copy of this process. Must come before the other agents, whose pipes
    /// the copy must not hold open.
    pub(crate) fn start_local(host: &str, mask: &Mask) -> io::Result<Self> {
        let (own, other) = UnixStream::pair()?;
        let files = |stream: UnixStream| -> io::Result<(File, File)> {
            Ok((File::from(OwnedFd::from(stream.try_clone()?)), File::from(OwnedFd::from(stream))))
        };
        let ((input, output), (agent_input, agent_output)) = (files(own)?, files(other)?);
        let channel = Channel::new(input, output)?;
        match sys::fork()? {
            Fork::Parent(pid) => Ok(Self { pid: Some(pid), ..Self::new(host, false, channel) }),
            Fork::Child => {
                // The child would keep its own other end open and never see that mpiexec is gone.
                drop(channel);
                let status = match agent::serve_local(agent_input, agent_output, *mask) {
                    Ok(()) => 0,
                    Err(error) => {
                        crate::say(&format!(
                            "mpiexec: the agent of this host cannot work: {}",
                            crate::sys::reason(&error)
                        ));
                        1
                    }
                };
                sys::exit_now(status)
            }
        }
    }

    /// The agent of another host, which will be started by the command template when its turn has come
    /// ([`Agent::start`]). `reached_as` is the host's name for the command.
    ///
    /// # Errors
    /// Half a sentence with the reason.
    pub(crate) fn queue(
        host: &str,
        reached_as: &str,
        template: &str,
        program: &str,
        starter: Option<Starter>,
    ) -> Result<Self, String> {
        let words = reach::command(reached_as, template, program, &[table::AGENT_OPTION])?;
        let (reached_as, program) = (reached_as.to_owned(), program.to_owned());
        let stage = Stage::Queued;
        Ok(Self { starter, words, reached_as, program, stage, ..Self::new(host, true, Channel::carried()) })
    }

    /// Starts the agent of another host from here.
    ///
    /// # Errors
    /// Half a sentence with the reason.
    pub(crate) fn start(&mut self, mask: &Mask) -> Result<(), String> {
        let command = agent::start_command(&self.words, mask)?;
        let failed = |error| format!("its pipes cannot be used: {}", sys::reason(&error));
        (self.pid, self.errors) = (Some(command.pid), Some(command.errors));
        self.channel = Channel::new(command.output, command.input).map_err(failed)?;
        self.note_start();
        Ok(())
    }

    /// Notes that the agent was started.
    pub(crate) fn note_start(&mut self) {
        (self.stage, self.started_at) = (Stage::Started, Instant::now());
        self.attempts += 1;
    }

    /// Queues the agent again if its command has ended because too many came to an ssh server at a time.
    pub(crate) fn queue_again(&mut self) -> bool {
        self.read_errors();
        let is_turned_away = advice::is_turned_away(&String::from_utf8_lossy(&self.kept));
        let again = self.stage == Stage::Started && is_turned_away && self.attempts < ATTEMPTS_MAX;
        if again {
            self.begin_anew();
        }
        again
    }

    /// Forgets that the agent was started.
    fn begin_anew(&mut self) {
        self.stage = Stage::Queued;
        (self.pid, self.ended, self.closed_at, self.errors, self.noise) = (None, None, None, None, 0);
        self.channel = Channel::carried();
        self.kept.clear();
    }

    /// Queues the agent again, to be started from here. Returns why the host that was to start it could not,
    /// in one clause.
    pub(crate) fn queue_here(&mut self) -> String {
        let (fate, quoted) = self.fate(None);
        let clause = format!("{} {fate}{quoted}", self.way());
        self.begin_anew();
        (self.starter, self.attempts) = (None, 0);
        clause
    }

    /// Handles a message from the command that another host runs to start this agent. Returns text to be
    /// shown.
    pub(crate) fn hear_command(&mut self, message: FromCommand) -> Option<String> {
        match message {
            FromCommand::Output(bytes) => self.channel.accept(&bytes),
            FromCommand::Errors(bytes) => {
                self.keep(&bytes);
                return self.read_errors();
            }
            FromCommand::Closed => self.channel.close(),
            FromCommand::NotStarted(why) => {
                // As a shell says it.
                self.ended = Some(Ended::Exit(advice::STATUS_MISSING));
                self.keep(why.as_bytes());
                self.channel.close();
            }
            FromCommand::Ended(how) => {
                self.ended = Some(how);
                self.channel.close();
            }
        }
        None
    }

    /// Returns whether the agent was sent a plan and has not said its last word.
    pub(crate) fn is_working(&self) -> bool {
        self.stage == Stage::Working
    }

    /// Sends an order, at once if that needs no waiting. Returns `false` when it is too long.
    #[must_use]
    pub(crate) fn order(&mut self, order: &Order) -> bool {
        let fits = self.channel.queue(|out| order.encode(out));
        self.channel.flush();
        fits
    }

    /// Adds the agent's standard error to the descriptors that are waited for.
    pub(crate) fn wait_for_errors<'fd>(&'fd self, poll: &mut Poll<'fd>) -> Option<usize> {
        self.errors.as_ref().map(|errors| poll.add(errors, READ))
    }

    /// Reads the standard error of the agent's command. While the agent works, or when it has been excluded,
    /// returns the text to be shown.
    pub(crate) fn read_errors(&mut self) -> Option<String> {
        let mut buffer = [0; 4096];
        while let Some(errors) = &mut self.errors {
            match errors.read(&mut buffer) {
                Ok(0) => self.errors = None,
                Ok(count) => self.keep(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.errors = None,
            }
        }
        if !(self.is_working() || self.is_excluded) || self.kept.is_empty() {
            return None;
        }
        let end = self.kept.iter().rposition(|&byte| byte == b'\n')? + 1;
        let text = String::from_utf8_lossy(&self.kept[..end]).trim_end().to_string();
        self.kept.drain(..end);
        Some(text)
    }

    /// Keeps the end of what the agent's command says to standard error.
    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        let surplus = self.kept.len().saturating_sub(ERRORS_KEPT);
        self.kept.drain(..surplus);
    }

    /// Receives the greeting, behind any text that a remote shell prints before.
    ///
    /// # Errors
    /// Half a sentence: the greeting will never come, or it is of another version.
    pub(crate) fn hear_greeting(&mut self) -> Result<(), String> {
        while self.stage == Stage::Started {
            match self.channel.next_line(NOISE_MAX) {
                Ok(None) => return Ok(()),
                Ok(Some(line)) => {
                    // The text of the shell may end without a newline.
                    if let Some(at) = line.rfind(GREETING) {
                        let greeting = line[at + GREETING.len()..].trim_end();
                        let (version, machine) = greeting.split_once(' ').unwrap_or((greeting, ""));
                        if version != VERSION.to_string() {
                            return Err(format!(
                                "its {} is of another Weft (it speaks version {version}, this one {VERSION}): install the same \
                                 one there, or say its path by --agent-program",
                                self.program
                            ));
                        }
                        self.machine = machine.to_string();
                        self.stage = Stage::Greeted;
                        self.kept.clear();
                        return Ok(());
                    }
                    self.noise += line.len() + 1;
                    if self.noise > NOISE_MAX {
                        return Err("something else than mpiexec answers there".into());
                    }
                }
                Err(()) => return Err("something else than mpiexec answers there".into()),
            }
        }
        Ok(())
    }

    /// Explains why an agent never greeted: its command, how the command ended, its last lines, and advice.
    pub(crate) fn explain(&mut self, timed_out: Option<f64>) -> String {
        let (fate, quoted) = self.fate(timed_out);
        let said = String::from_utf8_lossy(&self.kept);
        let status = if let Some(Ended::Exit(status)) = self.ended { Some(status) } else { None };
        let (host, program) = (&self.reached_as, &self.program);
        let advice = match (timed_out, &self.starter) {
            (Some(_), None) => Some(advice::of_silence(&said, host, program)),
            (Some(_), Some(starter)) => Some(advice::of_silence_behind(&said, host, program, &starter.host)),
            (None, _) => advice::of_end(&said, status, host, program),
        };
        let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
        format!("the host {} cannot be reached: {} {fate}{quoted}{advice}", self.host, self.way())
    }

    /// What has become of the agent's command, and its last lines, as two parts of a sentence.
    fn fate(&mut self, timed_out: Option<f64>) -> (String, String) {
        self.read_errors();
        let fate = match (timed_out, self.ended) {
            (Some(seconds), _) => format!("did not answer within {seconds} s"),
            (None, Some(Ended::Exit(status))) => format!("ended with status {status}"),
            (None, Some(Ended::Signal(signal))) => format!("died by signal {signal}"),
            (None, None) => "closed its output".to_string(),
        };
        let said = String::from_utf8_lossy(&self.kept);
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines[lines.len().saturating_sub(ERROR_LINES_SHOWN)..].join(" / ");
        let quoted = if last.is_empty() { String::new() } else { format!(", saying: {last}") };
        (fate, quoted)
    }

    /// Ends the agent's command at once: its messages are of no use any more.
    pub(crate) fn kill(&mut self) {
        if let Some(pid) = self.pid {
            sys::kill_group(pid, libc::SIGKILL);
        }
        self.stage = Stage::Done;
    }

    /// Returns whether nothing more can come from the agent.
    pub(crate) fn is_silent(&self) -> bool {
        self.channel.state() == State::Closed
    }
}
