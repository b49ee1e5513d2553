//! The process without a launcher that has started this `mpiexec` to spawn: it asks as a rank asks its agent,
//! and its death ends the jobs that it has spawned.

use super::{Asker, Place, Running};
use crate::agent::Conversation;
use crate::agent::server::{Action, Server};
use crate::control::{Answer, BindTo, Binding, InputTo, Label, MapBy, Phase, Plan, Program};
use crate::faces::Faces;
use crate::mpiexec::spawned;
use crate::mpiexec::verdict::{self, Verdict};
use crate::sys::{self, Poll, Process, READ, Ready, WRITE};
use crate::{JobSecret, wire};
use std::io;

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;
/// No descriptor: a singleton has its own way to say where it is.
const NO_DESCRIPTOR: i32 = -1;

/// The process, and the conversation with it.
pub(crate) struct Singleton {
    server: Server,
    conversation: Conversation,
    process: Process,
}

impl Singleton {
    /// Takes over the connection, which is open under this number, to the process with this number.
    ///
    /// # Errors
    /// An error of the system: there is no such connection, or no such process.
    pub(crate) fn adopt(descriptor: i32, pid: i32) -> io::Result<Self> {
        let file = sys::adopt(descriptor)?;
        sys::set_nonblocking(&file)?;
        let process = Process::open(pid)?;
        Ok(Self { server: Server::new(&plan()?, NO_DESCRIPTOR), conversation: Conversation::new(file), process })
    }

    /// Passes an answer on.
    pub(super) fn answer(&mut self, answer: &Answer) {
        self.server.handle_answer(0, answer);
        while let Some(action) = self.server.poll_action() {
            if let Action::Reply { bytes, .. } = action {
                self.conversation.reply(bytes);
            }
        }
    }

    /// Sends the process a signal that ends it.
    pub(super) fn end(&self, signal: i32) {
        self.process.signal(signal);
    }

    /// Adds the events that the conversation waits for.
    pub(super) fn wait_in<'fd>(&'fd self, poll: &mut Poll<'fd>) -> usize {
        let events = if self.conversation.has_unsent() { READ | WRITE } else { READ };
        poll.add(&self.conversation.file, events)
    }
}

/// A plan of one rank, from which the server knows what to answer.
fn plan() -> io::Result<Plan> {
    let mut random = [0; 8];
    sys::random(&mut random)?;
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
    Ok(Plan {
        job: format!("weft-singleton-{}", wire::to_hex(&random)),
        secret: JobSecret::filled(sys::random)?,
        size: 1,
        universe: 1,
        spawned: 0,
        goes_on: false,
        values: Vec::new(),
        host: String::new(),
        mapping: String::new(),
        stats: false,
        label: Label::None,
        input: InputTo::Nobody,
        merge: false,
        binding: Binding { to: BindTo::None, by: MapBy::Slot, each: 1, report: false, machine_ranks: 1 },
        patience_ms: 0,
        heartbeat: None,
        programs: vec![program],
        ranks: vec![(0, 0)],
    })
}

impl Running {
    /// Handles what the process without a launcher says, and its end.
    pub(super) fn handle_singleton(&mut self, ready: &Ready, entry: Option<usize>) {
        if !entry.is_some_and(|entry| ready.has(entry)) {
            return;
        }
        let mut buffer = vec![0; CHUNK];
        loop {
            let Place::First(family) = &mut self.place else { return };
            let Some(singleton) = &mut family.singleton else { return };
            singleton.conversation.flush();
            match singleton.conversation.read(&mut buffer) {
                None => return,
                Some([]) => return self.lose_singleton(),
                Some(bytes) => singleton.server.handle_bytes(0, bytes),
            }
            self.act_for_singleton();
        }
    }

    fn act_for_singleton(&mut self) {
        loop {
            let Place::First(family) = &mut self.place else { return };
            let Some(singleton) = &mut family.singleton else { return };
            let Some(action) = singleton.server.poll_action() else { return };
            match action {
                Action::Reply { bytes, .. } => singleton.conversation.reply(bytes),
                Action::Request { request, .. } => {
                    let settings = Some(Box::new(spawned::inherited(&self.job, None)));
                    self.serve(Asker::Singleton, request, settings);
                }
                Action::Abort { code, message, .. } => {
                    family.singleton = None;
                    let verdict = verdict::of_abort(0, &crate::reach::own_name(), code, &message);
                    self.fail(verdict);
                }
                // A job of one process needs nobody for these.
                Action::Gathered { .. } | Action::Stats { .. } => {}
                Action::Violation { text, .. } => {
                    family.singleton = None;
                    let clause = format!("the program that spawns does not speak PMI-1.1: {text}");
                    self.fail(Verdict::new(verdict::STATUS_LAUNCHER, clause));
                }
            }
        }
    }

    /// Handles the end of the process. Jobs that it has spawned end too, unless it has said goodbye.
    fn lose_singleton(&mut self) {
        let Place::First(family) = &mut self.place else { return };
        let Some(singleton) = family.singleton.take() else { return };
        if singleton.server.phase(0) != Phase::Finalized && family.running() > 0 {
            let clause = "the program that spawned has ended without MPI_Finalize";
            self.fail(Verdict::new(verdict::STATUS_LAUNCHER, clause.into()));
        }
    }
}
