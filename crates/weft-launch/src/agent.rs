//! The agent: the one process on each host that starts the host's ranks, serves them PMI-1.1, passes their
//! output on, and leaves none of them behind.
//!
//! The agent speaks with `mpiexec` over its standard input and output (remote) or a socket pair (local). When
//! `mpiexec` is gone, the agent kills what it has started. When the agent is gone, the kernel kills the
//! ranks.

mod binding;
mod command;
mod executable;
mod heart;
mod input;
mod leftovers;
mod lines;
mod numbers;
mod orders;
mod rank;
mod relay;
mod search;
pub(crate) mod server;
mod without_ranks;

pub(crate) use command::start as start_command;
pub(crate) use lines::Lines;
pub(crate) use rank::Conversation;

use crate::call_site::Board;
use crate::control::{Channel, FromMember, GREETING, Loss, OUTPUT_WINDOW, Phase, Plan, Report, State, VERSION, Watch};
use crate::faces;
use crate::processors::{self, Hold, Registry, Set, Topology};
use crate::sys::{self, GONE, Mask, Poll, READ, Signals, Stat, WRITE};
use binding::Bound;
use heart::Heart;
use input::InputQueue;
use rank::{Rank, Starter};
use relay::Relay;
use server::{Action, Server};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use without_ranks::{await_plan, pass, retire};

/// The longest wait for output of processes that a rank left behind when it ended.
const LINGER: Duration = Duration::from_millis(300);
/// The longest time for the last messages to leave, and for leftover processes to die.
const FAREWELL: Duration = Duration::from_secs(5);
/// Bytes read from a rank at once.
const CHUNK: usize = 64 * 1024;
/// The descriptors that an agent needs for each rank: five that lead to the rank, two that note its
/// processor.
const DESCRIPTORS_PER_RANK: u64 = 7;
/// The descriptors that an agent needs besides.
const DESCRIPTORS_SPARE: u64 = 64;

/// Serves as the agent of a remote host: `mpiexec` is at the other end of standard input and output.
pub(crate) fn serve_remote() -> i32 {
    sys::clear_death_signal();
    sys::new_group();
    let serve = || -> io::Result<()> {
        let (input, output) = (sys::duplicate_standard(0)?, sys::duplicate_standard(1)?);
        let null = File::options().read(true).write(true).open("/dev/null")?;
        sys::replace_standard(0, &null)?;
        sys::replace_standard(1, &null)?;
        let (signals, mask) = Signals::block(&SIGNALS)?;
        serve(Channel::new(input, output)?, signals, mask, null)
    };
    match serve() {
        Ok(()) => 0,
        Err(error) => {
            crate::say(&format!("mpiexec: the agent cannot work: {}", sys::reason(&error)));
            1
        }
    }
}

/// Serves as the agent of this host in a process that `mpiexec` forked.
///
/// # Errors
/// An error of the system.
pub(crate) fn serve_local(input: File, output: File, mask: Mask) -> io::Result<()> {
    sys::new_group();
    let (signals, _) = Signals::block(&SIGNALS)?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    sys::replace_standard(0, &null)?;
    sys::replace_standard(1, &null)?;
    serve(Channel::new(input, output)?, signals, mask, null)
}

/// The signals that the agent reads: the end of a child, and signals by which people end an agent.
const SIGNALS: [i32; 5] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];

/// Greets, waits for the plan, starts the ranks and stays until they have ended.
fn serve(mut channel: Channel, mut signals: Signals, mask: Mask, null: File) -> io::Result<()> {
    sys::become_subreaper();
    channel.queue_text(&format!("{GREETING}{VERSION} {}\n", processors::machine()));
    channel.flush();
    let mut relay = Relay::new(mask);
    let Some(plan) = await_plan(&mut channel, &mut signals, &mut relay)? else {
        return retire(&mut channel, &mut signals, &mut relay);
    };
    let allowed = Set::allowed();
    let wanted = plan.ranks.len() as u64 * DESCRIPTORS_PER_RANK + allowed.len() as u64 + DESCRIPTORS_SPARE;
    sys::raise_descriptor_limit(wanted + relay.descriptors());
    let shared = sys::memory_file(Board::bytes(plan.ranks.len()))?;
    let board = Board::map(&shared, plan.ranks.len())?;
    board.clear();
    let mut agent = Agent {
        server: Server::new(&plan, shared.as_raw_fd()),
        channel,
        signals,
        board,
        shared,
        ranks: Vec::with_capacity(plan.ranks.len()),
        input: InputQueue::default(),
        credit: OUTPUT_WINDOW as i64,
        ending: None,
        silent_since: Instant::now(),
        buffer: vec![0; CHUNK],
        gone: false,
        hold: Hold::default(),
        watch: (plan.patience_ms > 0).then(|| Watch::new(Duration::from_millis(plan.patience_ms), Instant::now())),
        suspended: false,
        looks_for_strangers: plan.size > 1,
        memory_directories: memory_directories(&plan),
        has_failed: false,
        goes_on: plan.goes_on,
        heart: None,
        relay,
    };
    let bound = agent.bind(&plan, &allowed);
    agent.start_heart(&plan)?;
    agent.launch(&plan, &bound, &mask, &null);
    drop(null);
    agent.run()
}

/// The end of the job, which `mpiexec` has ordered.
struct Ending {
    force_at: Instant,
    forced: bool,
}

struct Agent {
    channel: Channel,
    signals: Signals,
    board: Board,
    /// The file in memory that the ranks of this host have open too: the board, then the cards of the last
    /// exchange.
    shared: File,
    server: Server,
    ranks: Vec<Rank>,
    input: InputQueue,
    /// The output that may be sent, in bytes. Labels and the rest of a line may exceed it.
    credit: i64,
    ending: Option<Ending>,
    /// The time at which ranks or their leftovers were last heard.
    silent_since: Instant,
    buffer: Vec<u8>,
    /// `mpiexec` is gone: no message is worth sending any more.
    gone: bool,
    /// The processors of the ranks, noted for other jobs as long as this agent lives.
    hold: Hold,
    /// On another host: the watch on the silence of `mpiexec`.
    watch: Option<Watch>,
    /// `mpiexec` has stopped the ranks, and then itself. It says nothing until it goes on.
    suspended: bool,
    /// The agent has not yet looked at the program of a rank that never spoke PMI.
    looks_for_strangers: bool,
    /// The directories in which ranks may have files of shared memory.
    memory_directories: Vec<PathBuf>,
    /// A rank was killed, or has failed.
    has_failed: bool,
    /// The other ranks go on when a rank is lost.
    goes_on: bool,
    /// The part in heartbeats, where they are asked for.
    heart: Option<Heart>,
    /// The commands that reach further hosts.
    relay: Relay,
}

/// The owner of a poll entry.
enum Source {
    Conversation(usize),
    Output(usize, usize),
    Input(usize),
    /// The end of the pipe for notices.
    Notices(usize),
}

impl Agent {
    /// Decides on the processors of each rank.
    fn bind(&mut self, plan: &Plan, allowed: &Set) -> Vec<Bound> {
        let host = binding::Host {
            topology: &Topology::of(allowed),
            usable: processors::reduce_by_quota(allowed.len()),
            registry: &Registry::of_machine(),
        };
        let decided = binding::decide(&plan.binding, plan.ranks.len(), &host);
        if plan.binding.report {
            let said = plan.ranks.iter().zip(&decided.ranks).map(|(&(rank, _), bound)| (rank, bound.words.clone()));
            self.report(&Report::Bindings(said.collect()));
        } else if let Some(note) = decided.note {
            self.report(&Report::Note(note));
        }
        self.hold = decided.hold;
        decided.ranks
    }

    fn launch(&mut self, plan: &Plan, bound: &[Bound], mask: &Mask, null: &File) {
        let status_fd = self.shared.as_raw_fd();
        let mut starter: Option<Starter<'_>> = None;
        for (local_rank, &(number, program)) in plan.ranks.iter().enumerate() {
            let program = &plan.programs[program as usize];
            if starter.as_ref().is_none_or(|starter| !starter.is_for(program)) {
                match Starter::new(plan, program, mask, null, status_fd) {
                    Ok((prepared, note)) => {
                        if let Some(note) = note {
                            self.report(&Report::Note(note));
                        }
                        starter = Some(prepared);
                    }
                    Err(why) => return self.report_not_started(number, why),
                }
            }
            match starter.as_mut().expect("prepared above").start(number, local_rank, &bound[local_rank]) {
                Ok(rank) => self.ranks.push(rank),
                Err(why) => return self.report_not_started(number, why),
            }
        }
        let started = self.ranks.iter().filter_map(|rank| Some((rank.number, rank.pid?)));
        self.report(&Report::Started(started.collect()));
    }

    fn report_not_started(&mut self, rank: u32, why: search::Unusable) {
        self.report(&Report::NotStarted { rank, status: why.status, reason: why.reason });
    }

    fn report(&mut self, report: &Report) {
        if !self.channel.queue(|out| report.encode(out)) {
            let text = "what it has to say is too long".to_string();
            let short = Report::Violation { rank: self.ranks.first().map_or(0, |rank| rank.number), text };
            let fits = self.channel.queue(|out| short.encode(out));
            assert!(fits, "a short report fits into a frame");
        }
        self.channel.flush();
    }

    /// Turns until all ranks have ended and every message has been sent.
    fn run(&mut self) -> io::Result<()> {
        // Orders may have arrived together with the plan.
        self.handle_orders();
        while !self.is_finished() {
            self.turn()?;
        }
        if self.heart.take().is_some() {
            self.report(&Report::Heartbeat(FromMember::Leaves));
        }
        self.close_outputs();
        let (channel, relay) = (&mut self.channel, &mut self.relay);
        for (pid, how) in leftovers::kill(FAREWELL, |pid| relay.has(pid)) {
            pass(channel, relay.handle_end(pid, how));
        }
        if self.has_failed {
            leftovers::remove_files(&self.memory_directories);
        }
        self.report(&Report::Done);
        if self.gone { Ok(()) } else { retire(&mut self.channel, &mut self.signals, &mut self.relay) }
    }

    /// Returns whether all ranks have ended, and their outputs have ended too or have been silent for a
    /// while.
    fn is_finished(&self) -> bool {
        let ended = self.ranks.iter().all(|rank| rank.pid.is_none());
        let outputs_open = self.ranks.iter().any(|rank| rank.outputs.iter().any(Option::is_some));
        ended && (!outputs_open || self.gone || (self.credit > 0 && self.silent_since.elapsed() >= LINGER))
    }

    /// Waits for something to happen and handles it.
    fn turn(&mut self) -> io::Result<()> {
        let mut poll = Poll::default();
        let signal_entry = poll.add(&self.signals, READ);
        let channel_entries = self.channel.wait_in(&mut poll);
        let sources = self.wait_for_ranks(&mut poll);
        let streams = self.relay.wait_in(&mut poll, &self.channel);
        let beats = self.heart.as_ref().map_or_else(Vec::new, |heart| heart.wait_in(&mut poll));
        let limit = self.next_timeout();
        let ready = poll.wait(limit)?;
        self.channel.handle(&ready, channel_entries);
        self.handle_orders();
        self.beat(&ready, &beats);
        pass(&mut self.channel, self.relay.handle(&ready, &streams));
        for (entry, source) in sources {
            if ready.has(entry) {
                self.handle_source(&source);
            }
        }
        if let Some(taken) = self.input.trim(&self.ranks) {
            self.report(&Report::InputTaken(taken));
        }
        if ready.has(signal_entry) {
            self.handle_signals();
        }
        if self.ending.as_ref().is_some_and(|ending| !ending.forced && Instant::now() >= ending.force_at) {
            self.force();
        }
        let received = self.channel.received();
        let deserted = self.watch.as_mut().is_some_and(|watch| watch.is_over(received, Instant::now()));
        let is_deserted = deserted && !self.suspended;
        if (self.channel.state() == State::Closed || is_deserted) && !self.gone {
            if is_deserted {
                crate::say("mpiexec has not been heard here for too long: ending the ranks of this host");
            }
            self.abandon();
        }
        Ok(())
    }

    fn wait_for_ranks<'fd>(&'fd self, poll: &mut Poll<'fd>) -> Vec<(usize, Source)> {
        let mut sources = Vec::with_capacity(self.ranks.len() * 3);
        for (local_rank, rank) in self.ranks.iter().enumerate() {
            if let Some(conversation) = &rank.conversation {
                let events = if conversation.has_unsent() { READ | WRITE } else { READ };
                sources.push((poll.add(&conversation.file, events), Source::Conversation(local_rank)));
            }
            for (which, output) in rank.outputs.iter().enumerate() {
                if let Some(output) = output.as_ref().filter(|_| self.credit > 0) {
                    sources.push((poll.add(&output.file, READ), Source::Output(local_rank, which)));
                }
            }
            if let Some(input) = rank.input.as_ref().filter(|input| self.input.has_news(input.taken)) {
                sources.push((poll.add(&input.file, WRITE), Source::Input(local_rank)));
            }
            if let Some(notices) = &rank.notices {
                sources.push((poll.add(notices, GONE), Source::Notices(local_rank)));
            }
        }
        sources
    }

    fn next_timeout(&self) -> Option<Duration> {
        let now = Instant::now();
        let force = self
            .ending
            .as_ref()
            .filter(|ending| !ending.forced)
            .map(|ending| ending.force_at - now.min(ending.force_at));
        let linger = self.ranks.iter().all(|rank| rank.pid.is_none()).then(|| {
            let end = self.silent_since + LINGER;
            end - now.min(end)
        });
        let watch = self.watch.as_ref().filter(|_| !self.gone).map(Watch::pause);
        let heart = self.heart.as_ref().map(Heart::next_timeout);
        force.into_iter().chain(linger).chain(watch).chain(heart).min()
    }

    fn handle_source(&mut self, source: &Source) {
        match *source {
            Source::Conversation(local_rank) => {
                self.converse(local_rank);
            }
            Source::Output(local_rank, which) => {
                self.read_output(local_rank, which);
            }
            Source::Input(local_rank) => self.input.feed(&mut self.ranks[local_rank]),
            Source::Notices(local_rank) => self.handle_last_sign(local_rank),
        }
    }

    /// Reads what a rank says to the process manager, and answers. Returns `true` when there may be more.
    fn converse(&mut self, local_rank: usize) -> bool {
        let Some(conversation) = &mut self.ranks[local_rank].conversation else { return false };
        conversation.flush();
        match conversation.read(&mut self.buffer) {
            None => false,
            Some([]) => {
                self.ranks[local_rank].conversation = None;
                false
            }
            Some(bytes) => {
                self.server.handle_bytes(local_rank, bytes);
                self.act();
                true
            }
        }
    }

    /// Carries out the actions that the server asks for.
    fn act(&mut self) {
        while let Some(action) = self.server.poll_action() {
            let number = |local_rank: usize| self.ranks[local_rank].number;
            match action {
                Action::Reply { local_rank, bytes } => {
                    if let Some(conversation) = &mut self.ranks[local_rank].conversation {
                        conversation.reply(bytes);
                    }
                }
                Action::Gathered { exchange, gathered } => self.report(&Report::Gathered { exchange, gathered }),
                Action::Request { local_rank, request } => {
                    let rank = number(local_rank);
                    self.report(&Report::Request { rank, request });
                }
                Action::Abort { local_rank, code, message } => {
                    let rank = number(local_rank);
                    self.report(&Report::Abort { rank, code, message });
                }
                Action::Stats { text } => self.report(&Report::Stats { text }),
                Action::Violation { local_rank, text } => {
                    let rank = number(local_rank);
                    self.report(&Report::Violation { rank, text });
                }
            }
        }
    }

    /// Reads from a rank's output once. Returns `true` when there may be more.
    fn read_output(&mut self, local_rank: usize, which: usize) -> bool {
        let Some(output) = &mut self.ranks[local_rank].outputs[which] else { return false };
        let stream = output.stream;
        let mut bytes = Vec::new();
        let heard = output.read(&mut self.buffer, &mut bytes);
        if heard == Some(false)
            && let Some(output) = self.ranks[local_rank].outputs[which].take()
        {
            output.finish(&mut bytes);
        }
        if heard == Some(true) {
            self.silent_since = Instant::now();
        }
        if !bytes.is_empty() {
            self.credit -= i64::try_from(bytes.len()).expect("a buffer's length");
            self.report(&Report::Output { stream, bytes });
        }
        heard == Some(true)
    }

    fn close_outputs(&mut self) {
        for local_rank in 0..self.ranks.len() {
            for which in 0..2 {
                if let Some(output) = self.ranks[local_rank].outputs[which].take() {
                    let stream = output.stream;
                    let mut bytes = Vec::new();
                    output.finish(&mut bytes);
                    if !bytes.is_empty() {
                        self.report(&Report::Output { stream, bytes });
                    }
                }
            }
        }
    }

    fn handle_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            if signal != libc::SIGCHLD {
                self.abandon();
            }
        }
        let mut ended = Vec::new();
        while let Ok(Some((pid, how))) = sys::reap() {
            pass(&mut self.channel, self.relay.handle_end(pid, how));
            // Other children are processes that ranks left behind.
            if let Some(local_rank) = self.ranks.iter().position(|rank| rank.pid == Some(pid)) {
                self.ranks[local_rank].pid = None;
                ended.push((local_rank, how));
            }
        }
        // A rank that was killed comes before ranks that fail because they miss it.
        ended.sort_by_key(|(_, how)| matches!(how, sys::Ended::Exit(_)));
        for (local_rank, how) in ended {
            self.rank_ended(local_rank, how);
        }
    }

    /// Looks at a rank of a job of several that has ended well and never spoken PMI. If its program uses
    /// another MPI library, each rank was a job of its own.
    fn note_stranger(&mut self, local_rank: usize) {
        if !std::mem::take(&mut self.looks_for_strangers) {
            return;
        }
        let file = &self.ranks[local_rank].file;
        if let Some(library) = faces::other_library(file) {
            let name = file.display();
            let text = format!(
                "{name} is linked with {library}, another MPI library, which has not spoken to this mpiexec: each process was a job of one \
                 rank; `mpiexec --faces` puts Weft's library of that name in its place, if it has one; else use the other \
                 library's mpiexec, or compile the program with Weft's mpicc"
            );
            self.report(&Report::Note(text));
        }
    }

    /// Lets the ranks of this host go on without the rank `lost`, if they are to.
    fn lose(&mut self, lost: u32, loss: Loss) {
        if self.goes_on {
            self.ranks.iter_mut().for_each(|rank| rank.tell_of_loss(lost, loss));
            if let Some(local_rank) = self.ranks.iter().position(|rank| rank.number == lost) {
                self.server.handle_loss(local_rank);
                self.act();
            }
        }
    }

    /// Handles that a rank reads no notices any more. If it ends, the others are told now: the system may
    /// need long to close its sockets, and says only then that it has ended.
    fn handle_last_sign(&mut self, local_rank: usize) {
        self.ranks[local_rank].notices = None;
        let Some(ended) = self.ranks[local_rank].pid.and_then(|pid| Stat::of(pid)?.ending()) else { return };
        while self.converse(local_rank) {}
        let position = self.position(local_rank);
        if let Some(loss) = Loss::of(&position, ended) {
            self.ranks[local_rank].is_told = true;
            self.lose(position.rank, loss);
            self.report(&Report::Dying { rank: position.rank, loss });
        }
    }

    /// Handles the end of a rank: reads its last words, then reports.
    fn rank_ended(&mut self, local_rank: usize, ended: sys::Ended) {
        self.silent_since = Instant::now();
        self.has_failed |= ended != sys::Ended::Exit(0);
        while self.converse(local_rank) {}
        let position = self.position(local_rank);
        if let Some(loss) = Loss::of(&position, ended).filter(|_| !self.ranks[local_rank].is_told) {
            self.lose(position.rank, loss);
        }
        for which in 0..2 {
            while self.credit > 0 && self.read_output(local_rank, which) {}
        }
        self.ranks[local_rank].input = None;
        self.ranks[local_rank].notices = None;
        if position.phase == Phase::Silent && ended == sys::Ended::Exit(0) {
            self.note_stranger(local_rank);
        }
        self.report(&Report::Ended { position, ended });
    }
}

/// The directories in which the library may put files of shared memory, for the ranks of this plan.
fn memory_directories(plan: &Plan) -> Vec<PathBuf> {
    let wanted = plan.programs.iter().flat_map(|program| {
        ["WEFT_SHM_DIR", "TMPDIR"].into_iter().filter_map(|name| rank::variable(program, name)).map(PathBuf::from)
    });
    let mut directories: Vec<PathBuf> = wanted.chain(["/dev/shm", "/tmp"].map(PathBuf::from)).collect();
    directories.sort();
    directories.dedup();
    directories
}

/// Finds the file that `word` names for a process in `directory` with this `PATH`. The error is half a
/// sentence with the reason why there is none.
pub(crate) fn find_program(word: &[u8], path: Option<&[u8]>, directory: &Path) -> Result<PathBuf, String> {
    search::find(word, path, directory).map_err(|why| why.reason)
}
