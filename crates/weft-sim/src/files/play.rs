//! Plays a collective access: processes that go on in any order, messages, and the file.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;

use weft_plan::two_phase::steps::{NUMBERS, Next, Round, Steps, Told, readable};
use weft_plan::two_phase::window::{self, Store};
use weft_random::Random;

use super::oracle::{byte, check_file, check_memory};
use super::{Part, Program};
use crate::violation::Violation;

/// The most turns of an access: far more than any needs.
const TURNS_MAX: u64 = 1_000_000;

/// What has been played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// Accesses in two phases, and those in which each process moves its own data.
    pub together: u64,
    /// Accesses in which each process moves its own data.
    pub alone: u64,
    /// Rounds of all processes.
    pub rounds: u64,
    /// Messages.
    pub messages: u64,
    /// Transfers between memory and the file.
    pub transfers: u64,
    /// Accesses with an error.
    pub failed: u64,
}

impl Played {
    /// Adds what another access has done.
    pub fn add(&mut self, other: &Self) {
        self.together += other.together;
        self.alone += other.alone;
        self.rounds += other.rounds;
        self.messages += other.messages;
        self.transfers += other.transfers;
        self.failed += other.failed;
    }
}

impl fmt::Display for Played {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { together, alone, rounds, messages, transfers, failed } = self;
        write!(
            out,
            "{together} in two phases, {alone} alone; {rounds} rounds, {messages} messages, {transfers} transfers; {failed} with an error"
        )
    }
}

/// A system call of a process has failed.
#[derive(Debug)]
struct Failed;

/// The file as one process has it open.
struct Disk<'a> {
    bytes: &'a RefCell<Vec<u8>>,
    transfers: &'a Cell<u64>,
    /// The number of transfers that still work.
    working: Cell<u64>,
}

impl Disk<'_> {
    /// The number of bytes of a transfer that are moved: all, or a part of them and the call fails.
    fn moves(&self, length: usize) -> (usize, Result<(), Failed>) {
        self.transfers.set(self.transfers.get() + 1);
        match self.working.get().checked_sub(1) {
            Some(left) => {
                self.working.set(left);
                (length, Ok(()))
            }
            None => (length / 2, Err(Failed)),
        }
    }
}

impl Store for Disk<'_> {
    type Error = Failed;
    type Lock<'a>
        = ()
    where
        Self: 'a;

    fn write_at(&self, from: &[u8], offset: u64) -> Result<(), Failed> {
        let (moved, outcome) = self.moves(from.len());
        let mut bytes = self.bytes.borrow_mut();
        let end = offset as usize + moved;
        if moved > 0 && bytes.len() < end {
            bytes.resize(end, 0);
        }
        if moved > 0 {
            bytes[offset as usize..end].copy_from_slice(&from[..moved]);
        }
        outcome
    }

    fn read_at(&self, to: &mut [u8], offset: u64) -> Result<(), Failed> {
        let (moved, outcome) = self.moves(to.len());
        let bytes = self.bytes.borrow();
        let there = &bytes[(offset as usize).min(bytes.len())..];
        let moved = moved.min(there.len());
        to[..moved].copy_from_slice(&there[..moved]);
        outcome
    }

    fn lock(&self, _: bool, _: Range<u64>) -> Result<(), Failed> {
        self.moves(0).1
    }
}

/// The bytes of one process in a window.
struct Held {
    rank: u32,
    bytes: RefCell<Vec<u8>>,
}

impl window::Held for Held {
    fn read_with(&self, used: &mut dyn FnMut(&mut window::Read<'_>)) {
        let bytes = self.bytes.borrow();
        used(&mut |at, to| to.copy_from_slice(&bytes[at as usize..][..to.len()]));
    }

    fn write_with(&self, used: &mut dyn FnMut(&mut window::Write<'_>)) {
        let mut bytes = self.bytes.borrow_mut();
        used(&mut |at, from| bytes[at as usize..][..from.len()].copy_from_slice(from));
    }
}

type Window = window::Window<Held>;

/// Where a process is.
enum State {
    /// It has not begun.
    Begins,
    /// It waits for the parts of all.
    Told,
    /// It moves its own data: the runs that are left, each with its place in the data.
    Alone(VecDeque<(u64, u64, u64)>),
    /// It waits for the views of these processes.
    Views(Vec<u32>),
    /// It waits for the data of a round, to write the window.
    ToWrite(Round, Option<Window>),
    /// It reads the window of a round.
    ToRead(Round),
    /// It waits for the data of a round that others have read.
    ToGet(Round),
    /// It waits for the outcome of all.
    Outcome,
    /// It has returned.
    Over { is_error: bool },
}

struct Process<'a> {
    rank: u32,
    part: &'a Part,
    state: State,
    steps: Steps,
    disk: Disk<'a>,
    has_failed: bool,
    /// The bytes of its data that are moved.
    bytes: u64,
    /// Its data.
    memory: Vec<u8>,
}

/// What all processes share.
struct Job<'a> {
    program: &'a Program,
    /// What each process has told of its part, and whether it has failed by then; the outcomes.
    told: Vec<Option<(bool, [i64; NUMBERS])>>,
    outcomes: Vec<Option<bool>>,
    /// Messages on their way, and those that have arrived, by sender and receiver.
    under_way: BTreeMap<(u32, u32), VecDeque<Vec<u8>>>,
    arrived: BTreeMap<(u32, u32), VecDeque<Vec<u8>>>,
    played: Played,
}

/// Plays an access in an order that `random` draws.
///
/// # Errors
/// What it did wrong.
pub(super) fn play(program: &Program, random: &mut Random) -> Result<Played, Violation> {
    let file = RefCell::new(program.before.clone());
    let transfers = Cell::new(0);
    let mut job = Job {
        program,
        told: vec![None; program.parts.len()],
        outcomes: vec![None; program.parts.len()],
        under_way: BTreeMap::new(),
        arrived: BTreeMap::new(),
        played: Played::default(),
    };
    let process = |(rank, part)| process(program, rank, part, &file, &transfers);
    let mut processes: Vec<Process<'_>> = program.parts.iter().enumerate().map(process).collect();
    for _ in 0..TURNS_MAX {
        let ready: Vec<usize> = (0..processes.len()).filter(|index| processes[*index].can_go_on(&job)).collect();
        let choices = ready.len() + job.under_way.len();
        if choices == 0 {
            break;
        }
        let choice = random.below(choices as u64) as usize;
        match ready.get(choice) {
            Some(index) => processes[*index].go_on(&mut job),
            None => job.deliver(choice - ready.len()),
        }
    }
    job.played.transfers = transfers.get();
    judge(&job, &processes, &file.borrow())
}

fn process<'a>(
    program: &Program,
    rank: usize,
    part: &'a Part,
    file: &'a RefCell<Vec<u8>>,
    transfers: &'a Cell<u64>,
) -> Process<'a> {
    let working = program.fails.filter(|(who, _)| *who == rank).map_or(u64::MAX, |(_, before)| before);
    let length = part.data.end - part.data.start;
    let memory = (0..length).map(|at| if program.writes { byte(rank, at) } else { 0 }).collect();
    Process {
        rank: rank as u32,
        part,
        state: State::Begins,
        steps: Steps::new(rank as u32, part.view.clone()),
        disk: Disk { bytes: file, transfers, working: Cell::new(working) },
        has_failed: program.cannot_begin() == Some(rank),
        bytes: 0,
        memory,
    }
}

/// Checks what is left when nobody can go on.
fn judge(job: &Job<'_>, processes: &[Process<'_>], file: &[u8]) -> Result<Played, Violation> {
    let wrong = |what: String| Err(Violation(what));
    let mut errors = Vec::new();
    for process in processes {
        match process.state {
            State::Over { is_error } => errors.push(is_error),
            _ => return wrong(format!("rank {} waits for ever", process.rank)),
        }
    }
    if job.arrived.values().any(|messages| !messages.is_empty()) {
        return wrong("a message is left that nobody has taken".to_owned());
    }
    let has_failed = processes.iter().any(|process| process.has_failed);
    if let Some(rank) = errors.iter().position(|is_error| *is_error != has_failed) {
        let said = if errors[rank] { "an error" } else { "success" };
        return wrong(format!("rank {rank} returns {said}; a process has failed: {has_failed}"));
    }
    let moves_nothing = !job.program.writes || job.program.cannot_begin().is_some();
    if moves_nothing && file != job.program.before {
        return wrong("the file has changed, though nobody could write".to_owned());
    }
    check_file(&no_writes_if(job.program, moves_nothing), file, !has_failed)?;
    if !job.program.writes && !has_failed {
        for process in processes {
            check_memory(job.program, process.rank as usize, &process.memory, process.bytes)?;
        }
    }
    Ok(Played { failed: u64::from(has_failed), ..job.played })
}

/// The program without the data of its processes, if nothing may be written.
fn no_writes_if(program: &Program, nothing: bool) -> Program {
    let mut program = program.clone();
    if nothing {
        program.parts.iter_mut().for_each(|part| part.data.end = part.data.start);
    }
    program
}

impl Job<'_> {
    fn send(&mut self, from: u32, to: u32, bytes: Vec<u8>) {
        self.played.messages += 1;
        self.under_way.entry((from, to)).or_default().push_back(bytes);
    }

    /// Lets the first message of a pair arrive.
    fn deliver(&mut self, pair: usize) {
        let Some(pair) = self.under_way.keys().nth(pair).copied() else { return };
        let queue = self.under_way.entry(pair).or_default();
        let message = queue.pop_front();
        if queue.is_empty() {
            self.under_way.remove(&pair);
        }
        self.arrived.entry(pair).or_default().extend(message);
    }

    fn has(&self, from: u32, to: u32) -> bool {
        self.arrived.get(&(from, to)).is_some_and(|messages| !messages.is_empty())
    }

    fn take(&mut self, from: u32, to: u32) -> Vec<u8> {
        self.arrived.get_mut(&(from, to)).and_then(VecDeque::pop_front).unwrap_or_default()
    }
}

impl Process<'_> {
    fn can_go_on(&self, job: &Job<'_>) -> bool {
        let has = |from: &u32| job.has(*from, self.rank);
        match &self.state {
            State::Begins | State::Alone(_) | State::ToRead(_) => true,
            State::Told => job.told.iter().all(Option::is_some),
            State::Views(from) => from.iter().all(has),
            State::ToWrite(round, _) => round.theirs.iter().all(|(from, ..)| *from == self.rank || has(from)),
            State::ToGet(round) => round.mine.iter().all(|(from, _)| has(from)),
            State::Outcome => job.outcomes.iter().all(Option::is_some),
            State::Over { .. } => false,
        }
    }

    fn go_on(&mut self, job: &mut Job<'_>) {
        self.state = match std::mem::replace(&mut self.state, State::Begins) {
            State::Begins => self.begin(job),
            State::Told => self.hear_parts(job),
            State::Alone(runs) => self.access_run(runs, job),
            State::Views(from) => {
                let heard = from.iter().all(|rank| self.steps.hear_view(*rank, &job.take(*rank, self.rank)));
                assert!(heard && self.steps.begin_rounds().is_ok(), "a view that was told is one");
                self.next_round(job)
            }
            State::ToWrite(round, window) => self.write(&round, window, job),
            State::ToRead(round) => self.read(round, job),
            State::ToGet(round) => {
                for (from, data) in &round.mine {
                    let bytes = job.take(*from, self.rank);
                    let place = self.place(data);
                    self.memory[place].copy_from_slice(&bytes);
                }
                self.next_round(job)
            }
            State::Outcome => State::Over { is_error: job.outcomes.iter().flatten().any(|failed| *failed) },
            over @ State::Over { .. } => over,
        };
    }

    /// The place in its memory of a range of its data.
    fn place(&self, data: &Range<u64>) -> Range<usize> {
        let first = self.part.data.start;
        (data.start - first) as usize..(data.end - first) as usize
    }

    fn begin(&mut self, job: &mut Job<'_>) -> State {
        let mut told = Told::NOTHING;
        if !self.has_failed {
            let mut data = self.part.data.clone();
            if !job.program.writes {
                data = readable(&self.part.view, data, self.disk.bytes.borrow().len() as u64);
            }
            self.bytes = data.end - data.start;
            if self.bytes > 0 {
                told = Told::of(&self.part.view, data).expect("the data is in the file's range");
            }
        }
        job.told[self.rank as usize] = Some((self.has_failed, told.numbers()));
        State::Told
    }

    fn hear_parts(&mut self, job: &mut Job<'_>) -> State {
        if job.told.iter().flatten().any(|(failed, _)| *failed) {
            return State::Over { is_error: true };
        }
        let all = job.told.iter().flatten().zip(&job.program.parts);
        let told = all.map(|((_, numbers), part)| Told::heard(numbers, part.node)).collect();
        let next = self.steps.hear_parts(told, &job.program.policy);
        let is_first = u64::from(self.rank == 0);
        match next {
            Next::Alone => {
                job.played.alone += is_first;
                let data = self.part.data.start..self.part.data.start + self.bytes;
                let (mut runs, mut at) = (VecDeque::new(), 0);
                self.part.view.runs(data, &mut |offset, bytes| {
                    runs.push_back((offset, at, bytes));
                    at += bytes;
                });
                State::Alone(runs)
            }
            Next::Together => {
                job.played.together += is_first;
                let (description, to) = self.steps.description();
                to.iter().for_each(|to| job.send(self.rank, *to, description.clone()));
                State::Views(self.steps.descriptions().into_iter().map(|(from, _)| from).collect())
            }
        }
    }

    /// Moves one run of its own data.
    fn access_run(&mut self, mut runs: VecDeque<(u64, u64, u64)>, job: &mut Job<'_>) -> State {
        let Some((offset, at, bytes)) = runs.pop_front() else { return self.tell_outcome(job) };
        let memory = &mut self.memory[at as usize..(at + bytes) as usize];
        let moved = match job.program.writes {
            true => self.disk.write_at(memory, offset),
            false => self.disk.read_at(memory, offset),
        };
        if moved.is_err() {
            self.has_failed = true;
            return self.tell_outcome(job);
        }
        State::Alone(runs)
    }

    fn tell_outcome(&mut self, job: &mut Job<'_>) -> State {
        job.outcomes[self.rank as usize] = Some(self.has_failed);
        State::Outcome
    }

    fn next_round(&mut self, job: &mut Job<'_>) -> State {
        let Some(round) = self.steps.next_round() else { return self.tell_outcome(job) };
        job.played.rounds += 1;
        if !job.program.writes {
            return State::ToRead(round);
        }
        for (to, data) in &round.mine {
            let place = self.place(data);
            job.send(self.rank, *to, self.memory[place].to_vec());
        }
        let window = self.window(&round, job);
        State::ToWrite(round, window)
    }

    /// The window of a round, with room for the data of all, and this process's own data.
    fn window(&self, round: &Round, job: &Job<'_>) -> Option<Window> {
        let mut window = Window::new(round.window.clone()?, job.program.is_atomic);
        for (rank, view, data) in &round.theirs {
            let mut bytes = vec![0; (data.end - data.start) as usize];
            if *rank == self.rank && job.program.writes {
                bytes.copy_from_slice(&self.memory[self.place(data)]);
            }
            window.add(view.clone(), data.clone(), Held { rank: *rank, bytes: RefCell::new(bytes) });
        }
        Some(window)
    }

    fn write(&mut self, round: &Round, window: Option<Window>, job: &mut Job<'_>) -> State {
        let others = round.theirs.iter().filter(|(rank, ..)| *rank != self.rank);
        let arrived: BTreeMap<u32, Vec<u8>> = others.map(|(rank, ..)| (*rank, job.take(*rank, self.rank))).collect();
        // After a failure the exchange goes on, so that no process waits for this one.
        if let Some(window) = window.filter(|_| !self.has_failed) {
            for held in window.held() {
                if let Some(bytes) = arrived.get(&held.rank) {
                    held.bytes.borrow_mut().copy_from_slice(bytes);
                }
            }
            self.has_failed |= window.write(&self.disk).is_err();
        }
        self.next_round(job)
    }

    fn read(&mut self, round: Round, job: &mut Job<'_>) -> State {
        if let Some(window) = self.window(&round, job) {
            self.has_failed |= window.read(&self.disk).is_err();
            for (held, (_, _, data)) in window.held().zip(&round.theirs) {
                let bytes = held.bytes.borrow().clone();
                if held.rank == self.rank {
                    let place = self.place(data);
                    self.memory[place].copy_from_slice(&bytes);
                } else {
                    job.send(self.rank, held.rank, bytes);
                }
            }
        }
        State::ToGet(round)
    }
}
