//! The first task's service to all tasks of the step: a thread that answers their requests with the same
//! [`Server`] as an agent of `mpiexec`.
//!
//! Strangers cannot stay: whoever does not prove within [`PROOF_LIMIT`] that it knows the secret is cut off.
//! When all tasks have come, nobody else may.

use super::greeting;
use super::member::Member;
use super::sealed::{CONTENT_MAX, Challenge, FRAME_MAX, Kind, Sealed, Side};
use super::{Ending, step::Step};
use crate::agent::server::{Action, Server};
use crate::control::{Answer, BindTo, Binding, InputTo, Label, MapBy, Phase, Plan, Program, Request};
use crate::faces::Faces;
use crate::service_names::ServiceNames;
use crate::sys::{self, Poll, READ, Ready};
use crate::{JobSecret, LaunchError, Spawned, wire};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The longest time for a connection to prove that it is a task's.
const PROOF_LIMIT: Duration = Duration::from_secs(5);
/// The most connections that have not proved it at a time.
const STRANGERS_MAX: usize = 128;
/// The most connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// The longest time for the news of an abort to reach the other tasks.
const ABORT_LIMIT: Duration = Duration::from_secs(2);
/// No descriptor: tasks do not note their calls for each other.
const NO_DESCRIPTOR: i32 = -1;
/// Descriptors of this process beside the connections.
const DESCRIPTORS_SPARE: u64 = 512;

/// A connection that has not proved that it is a task's.
struct Stranger {
    stream: TcpStream,
    until: Instant,
    inbox: Vec<u8>,
    /// The rank that it claims, once it has been sent the credential.
    claim: Option<(u32, Sealed)>,
}

/// The state of one task of the step.
enum Task {
    Awaited,
    Joined(Box<Member>),
    /// Its connection has ended.
    Gone,
}

/// The service.
struct StepServer {
    step: Step,
    secret: JobSecret,
    credential: String,
    server: Server,
    /// The port, open until all tasks have come.
    listener: Option<TcpListener>,
    strangers: Vec<Stranger>,
    tasks: Vec<Task>,
    join_by: Instant,
    join_limit: Duration,
    names: ServiceNames,
    /// The reason why no exchange can be completed any more.
    lost: Option<String>,
    ending: Ending,
}

/// Listens for the tasks of `step` at the first of its ports that is free.
///
/// # Errors
/// All ports are taken, or refused.
pub(super) fn listen(step: &Step) -> Result<TcpListener, LaunchError> {
    let bind = |port: u16| match step.one_node {
        true => TcpListener::bind((Ipv4Addr::LOCALHOST, port)),
        false => TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))),
    };
    let mut why = String::new();
    for &port in &step.ports {
        match bind(port) {
            Ok(listener) => {
                // Where there are more tasks than a queue holds, they come again.
                let _ = rustix::net::listen(&listener, BACKLOG);
                return Ok(listener);
            }
            Err(error) => why = sys::reason(&error),
        }
    }
    let ports: Vec<String> = step.ports.iter().map(u16::to_string).collect();
    Err(LaunchError::Connection(format!(
        "the first task of step {} cannot listen at any of the ports {} for the others: {why}; {}",
        step.name,
        ports.join(", "),
        super::ADVICE
    )))
}

/// Serves the tasks of `step` in a thread, as long as any is there. Returns the first task's own connection.
///
/// # Errors
/// The system refuses a thread or a descriptor.
pub(super) fn start(
    step: &Step,
    listener: TcpListener,
    (secret, credential): (JobSecret, String),
    join_limit: Duration,
    ending: Ending,
) -> io::Result<UnixStream> {
    let (own, other) = UnixStream::pair()?;
    other.set_nonblocking(true)?;
    listener.set_nonblocking(true)?;
    sys::raise_descriptor_limit(u64::from(step.size) + STRANGERS_MAX as u64 + DESCRIPTORS_SPARE);
    let step = step.clone();
    let join_by = Instant::now() + join_limit;
    sys::spawn_without_signals("weft-step", move || {
        let plan = plan(&step, secret);
        let mut tasks: Vec<Task> = (0..step.size).map(|_| Task::Awaited).collect();
        tasks[step.rank as usize] = Task::Joined(Box::new(Member::new(File::from(OwnedFd::from(other)), None)));
        let mut service = StepServer {
            server: Server::new(&plan, NO_DESCRIPTOR),
            step,
            secret,
            credential,
            listener: Some(listener),
            strangers: Vec::new(),
            tasks,
            join_by,
            join_limit,
            names: ServiceNames::default(),
            lost: None,
            ending,
        };
        while !service.is_over() {
            if let Err(error) = service.turn() {
                return service.give_up(&error);
            }
        }
    })?;
    Ok(own)
}

/// The facts about the job that tasks ask for.
fn plan(step: &Step, secret: JobSecret) -> Plan {
    let program = Program {
        number: 0,
        words: Vec::new(),
        inherit: true,
        variables: Vec::new(),
        directory: Vec::new(),
        directory_required: false,
        search_path: Vec::new(),
        faces: Faces::None,
    };
    Plan {
        job: format!("slurm-{}", step.name),
        secret,
        size: step.size,
        universe: step.size,
        spawned: 0,
        values: Vec::new(),
        host: String::new(),
        mapping: String::new(),
        stats: false,
        goes_on: false,
        label: Label::None,
        input: InputTo::Nobody,
        merge: false,
        binding: Binding { to: BindTo::None, by: MapBy::Slot, each: 1, report: false, machine_ranks: 0 },
        patience_ms: 0,
        heartbeat: None,
        programs: vec![program],
        ranks: (0..step.size).map(|rank| (rank, 0)).collect(),
    }
}

impl StepServer {
    /// Returns whether no task is there and none is awaited.
    fn is_over(&self) -> bool {
        self.tasks.iter().all(|task| matches!(task, Task::Gone))
    }

    /// Waits for an event and handles it.
    fn turn(&mut self) -> io::Result<()> {
        let mut poll = Poll::default();
        let room = self.strangers.len() < STRANGERS_MAX;
        let door = self.listener.as_ref().filter(|_| room).map(|listener| poll.add(listener, READ));
        let strangers: Vec<usize> = self.strangers.iter().map(|stranger| poll.add(&stranger.stream, READ)).collect();
        let mut members = Vec::new();
        for (rank, task) in self.tasks.iter().enumerate() {
            if let Task::Joined(member) = task {
                members.push((rank, poll.add(&member.stream, member.events())));
            }
        }
        let limit = self.next_timeout();
        let ready = poll.wait(limit)?;
        for (rank, entry) in members {
            if ready.has(entry) {
                self.handle_member(rank);
            }
        }
        self.handle_strangers(&ready, &strangers);
        if door.is_some_and(|entry| ready.has(entry)) {
            self.accept();
        }
        self.act();
        self.handle_time();
        self.release();
        Ok(())
    }

    /// Ends the service, which the system does not let go on.
    fn give_up(mut self, error: &io::Error) {
        let own = std::mem::replace(&mut self.tasks[self.step.rank as usize], Task::Gone);
        if let Task::Joined(own) = own {
            let _ = self.ending.set(format!("the first task cannot serve the others: {}", sys::reason(error)));
            super::end_near(own.stream);
        }
    }

    fn next_timeout(&self) -> Option<Duration> {
        let join = self.listener.as_ref().map(|_| self.join_by);
        let first = self.strangers.iter().map(|stranger| stranger.until).chain(join).min();
        first.map(|at| at.saturating_duration_since(Instant::now()))
    }

    fn handle_time(&mut self) {
        let now = Instant::now();
        self.strangers.retain(|stranger| now < stranger.until);
        if self.listener.is_some() && now >= self.join_by {
            self.close(&format!("have not called MPI_Init within {} s", self.join_limit.as_secs()));
        }
    }

    /// Waits no longer for the tasks that have not come.
    fn close(&mut self, why: &str) {
        self.listener = None;
        let awaited = |task: &Task| matches!(task, Task::Awaited);
        let ranks: Vec<u32> = (0..).zip(&self.tasks).filter(|(_, task)| awaited(task)).map(|(rank, _)| rank).collect();
        for task in self.tasks.iter_mut().filter(|task| awaited(task)) {
            *task = Task::Gone;
        }
        self.lose(format!("the ranks {} {why}", wire::format_ranks(&ranks)));
    }

    fn accept(&mut self) {
        while self.strangers.len() < STRANGERS_MAX {
            let Some(accepted) = self.listener.as_ref().map(TcpListener::accept) else { return };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
                Err(error) => {
                    return self.close(&format!("cannot join: {}", sys::reason(&error)));
                }
            };
            super::prepare(&stream);
            if stream.set_nonblocking(true).is_ok() {
                let until = Instant::now() + PROOF_LIMIT;
                self.strangers.push(Stranger { stream, until, inbox: Vec::new(), claim: None });
            }
        }
    }

    fn handle_strangers(&mut self, ready: &Ready, entries: &[usize]) {
        let mut kept = Vec::new();
        for (mut stranger, entry) in std::mem::take(&mut self.strangers).into_iter().zip(entries) {
            match if ready.has(*entry) { self.hear(&mut stranger) } else { Some(false) } {
                None => {}
                Some(false) => kept.push(stranger),
                Some(true) => self.admit(stranger),
            }
        }
        self.strangers = kept;
        if !self.tasks.iter().any(|task| matches!(task, Task::Awaited)) {
            self.listener = None;
        }
    }

    /// Reads what a stranger says. `Some(true)`: it has proved that it is a task. `None`: it is none.
    fn hear(&self, stranger: &mut Stranger) -> Option<bool> {
        let mut bytes = [0; 256];
        match stranger.stream.read(&mut bytes) {
            Ok(0) => return None,
            Ok(count) => stranger.inbox.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(false),
            Err(_) => return None,
        }
        if stranger.claim.is_none() {
            let Some(end) = stranger.inbox.iter().position(|&byte| byte == b'\n') else {
                return (stranger.inbox.len() <= greeting::HELLO_MAX).then_some(false);
            };
            let line: Vec<u8> = stranger.inbox.drain(..=end).take(end).collect();
            let (rank, of_task) = greeting::read_hello(&line, &self.step.name, self.step.size)?;
            if !matches!(self.tasks[rank as usize], Task::Awaited) {
                return None;
            }
            let mut of_server: Challenge = [0; 16];
            sys::random(&mut of_server).ok()?;
            let offer = greeting::offer(&of_server, &self.credential);
            // A new connection has room for so short a line.
            stranger.stream.write_all(offer.as_bytes()).ok()?;
            stranger.claim = Some((rank, Sealed::new(&self.secret, Side::Server, &of_task, &of_server)));
        }
        let (_, sealed) = stranger.claim.as_mut()?;
        match sealed.open(&mut stranger.inbox) {
            Ok(None) => (stranger.inbox.len() <= FRAME_MAX).then_some(false),
            Ok(Some((Kind::Proof, _))) => Some(true),
            _ => None,
        }
    }

    /// Takes in a stranger that has proved to be a task, and proves itself.
    fn admit(&mut self, stranger: Stranger) {
        let Some((rank, sealed)) = stranger.claim else { return };
        let task = &mut self.tasks[rank as usize];
        if matches!(task, Task::Awaited) {
            let mut member = Member::new(File::from(OwnedFd::from(stranger.stream)), Some(sealed));
            member.inbox = stranger.inbox;
            member.queue(Kind::Proof, b"".as_slice().into());
            *task = Task::Joined(Box::new(member));
            // Requests may have come with the proof.
            self.handle_member(rank as usize);
        }
    }

    /// Reads and writes what is possible on the connection of a task.
    fn handle_member(&mut self, rank: usize) {
        let Task::Joined(member) = &mut self.tasks[rank] else { return };
        let mut is_open = member.flush().is_ok() && member.fill();
        match member.take() {
            Some(said) => said.iter().for_each(|said| self.server.handle_bytes(rank, said)),
            None => is_open = false,
        }
        if !is_open {
            // What came last may be an abort, or a goodbye.
            self.act();
            self.miss(rank);
        }
    }

    /// Notes that the connection of a task has ended.
    fn miss(&mut self, rank: usize) {
        self.tasks[rank] = Task::Gone;
        let how = if self.server.phase(rank) == Phase::Finalized { "left the job" } else { "ended, or its host" };
        self.lose(format!("rank {rank} of {} has {how}", self.step.size));
    }

    fn lose(&mut self, why: String) {
        self.lost.get_or_insert(why);
    }

    /// Tells tasks that wait for one that will not come.
    fn release(&mut self) {
        let Some(why) = &self.lost else { return };
        for rank in 0..self.tasks.len() {
            if self.server.phase(rank) != Phase::Waiting {
                continue;
            }
            if let Task::Joined(mut member) = std::mem::replace(&mut self.tasks[rank], Task::Gone) {
                if member.sealed.is_some() {
                    let text = &why.as_bytes()[..why.len().min(CONTENT_MAX)];
                    member.queue(Kind::Lost, text.into());
                    // The connection takes so little at once, or its task is gone too.
                    let _ = member.flush();
                } else {
                    let _ = self.ending.set(why.clone());
                    super::end_near(member.stream);
                }
            }
        }
    }

    /// Carries out the actions that the process manager asks for.
    fn act(&mut self) {
        while let Some(action) = self.server.poll_action() {
            match action {
                Action::Reply { local_rank, bytes } => {
                    if let Task::Joined(member) = &mut self.tasks[local_rank] {
                        member.queue(Kind::Talk, bytes);
                        // A connection that fails here ends with the next look at it.
                        let _ = member.flush();
                    }
                }
                Action::Gathered { gathered, .. } => self.server.handle_gathered(gathered, |_| None),
                Action::Request { local_rank, request } => {
                    let answer = match request {
                        Request::Name(request) => self.names.serve(request),
                        // No task of this library asks for more: see `ProcessManager::spawn` of `Slurm`.
                        Request::Spawn(spawn) => {
                            let reason = "srun starts no further processes".to_owned();
                            Answer::Spawned(Spawned { number: 0, outcomes: vec![Err(reason); spawn.processes()] })
                        }
                        Request::SpawnedEnd(_) => Answer::SpawnedEnd(None),
                    };
                    self.server.handle_answer(local_rank, &answer);
                }
                Action::Abort { local_rank, code, .. } => self.abort(local_rank, code),
                Action::Violation { local_rank, .. } => self.miss(local_rank),
                // Nobody asks tasks for statistics.
                Action::Stats { .. } => {}
            }
        }
    }

    /// Ends all tasks but `by`, which ends itself.
    fn abort(&mut self, by: usize, code: i32) {
        let until = Instant::now() + ABORT_LIMIT;
        self.listener = None;
        let others = (0..self.tasks.len()).filter(|&rank| rank != by);
        for rank in others {
            if let Task::Joined(member) = &mut self.tasks[rank] {
                member.queue(Kind::Abort, code.to_le_bytes().as_slice().into());
            }
        }
        let own = self.step.rank as usize;
        // Each of the others ends its connection when it has heard.
        while let Some(rest) = until.checked_duration_since(Instant::now()) {
            let mut poll = Poll::default();
            let mut waiting = Vec::new();
            for (rank, task) in self.tasks.iter().enumerate().filter(|&(rank, _)| rank != by && rank != own) {
                if let Task::Joined(member) = task {
                    waiting.push((rank, poll.add(&member.stream, member.events() | READ)));
                }
            }
            if waiting.is_empty() {
                break;
            }
            let Ok(ready) = poll.wait(Some(rest)) else { break };
            for (rank, entry) in waiting {
                if ready.has(entry) && !self.tells(rank) {
                    self.tasks[rank] = Task::Gone;
                }
            }
        }
        if by != own {
            sys::exit_now(super::super::status_aborted(code));
        }
        // The first task itself waits for the end of its connection.
        self.tasks.iter_mut().for_each(|task| *task = Task::Gone);
    }

    /// Sends what a task has not been sent, and drops what it says. Returns `false` when it is gone.
    fn tells(&mut self, rank: usize) -> bool {
        let Task::Joined(member) = &mut self.tasks[rank] else { return false };
        if member.flush().is_err() {
            return false;
        }
        match member.stream.read(&mut [0; 4096]) {
            Ok(count) => count > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}
