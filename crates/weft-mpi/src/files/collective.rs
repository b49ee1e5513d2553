//! Collective accesses (MPI-5.0 §14.4.4): all processes of a file access it together, in two phases or each
//! by itself as `weft_plan::two_phase` plans it.
//!
//! One access is a chain of steps, which `weft_plan::two_phase::steps` knows. Each step ends with a function
//! that begins the next one, so the blocking, the split and the nonblocking forms are the same. All processes
//! learn of the failure of one: a process that fails goes on with its part, and says so in the last step.

use std::ops::Range;

use weft_plan::two_phase::Policy;
use weft_plan::two_phase::steps::{NUMBERS, Next, Round, Steps, Told, readable};

use super::access::{Access, Direction, ended};
use super::conversion::Converted;
use super::failure::{self, Failure, WORDS};
use super::window::{self, Held, Window};
use super::workers::By;
use crate::check::Call;
use crate::collective::CollectiveScope;
use crate::constants::MPI_ERR_INTERN;
use crate::error::{Error, Result};
use crate::memory::{SharedBuffer, UserData};
use crate::process::Process;
use crate::request::Status;

/// The words in which a process tells of its part.
const PART_WORDS: usize = WORDS + NUMBERS;

/// A collective access under way.
pub(super) struct Together {
    request: usize,
    scope: CollectiveScope,
    by: By,
    access: Access,
    converted: Converted,
    policy: Policy,
    /// What this process could not do.
    failure: Option<Failure>,
    /// The bytes of its data that are moved: those before the end of the file, if it reads.
    bytes: u64,
    steps: Steps,
}

impl Together {
    /// An access of the processes of `scope`. `failure`: what this process could not even begin.
    pub(super) fn new(
        (request, by): (usize, By),
        scope: CollectiveScope,
        (access, converted): (Access, Converted),
        policy: Policy,
        failure: Option<Failure>,
    ) -> Box<Self> {
        let steps = Steps::new(scope.rank, access.view.view.clone());
        Box::new(Self { request, scope, by, access, converted, policy, failure, bytes: 0, steps })
    }

    /// The data that this process moves.
    fn data(&self) -> UserData {
        self.access.data.part(0..self.bytes).unwrap_or_else(|_| UserData::empty())
    }

    fn note(&mut self, error: Error) {
        self.failure.get_or_insert(Failure::from(error));
    }

    /// Measures this process's part of the file.
    fn measure(&mut self) -> Result<Told> {
        if self.failure.is_some() {
            return Ok(Told::NOTHING);
        }
        let mut end = self.access.range().end;
        let start = self.access.position;
        if self.access.direction == Direction::Read && start < end {
            let size = self.access.file.size().map_err(|error| {
                let failure = Failure::from(error);
                let told = failure.error.clone();
                self.failure = Some(failure);
                told
            })?;
            end = readable(&self.access.view.view, start..end, size).end;
        }
        self.bytes = end - start;
        if self.bytes == 0 {
            return Ok(Told::NOTHING);
        }
        self.access.span(start..end)?;
        Told::of(&self.access.view.view, start..end)
            .map_err(|why| Error::new(crate::constants::MPI_ERR_IO, why.to_string()))
    }
}

impl Process {
    /// Begins a collective access, behind a comparison of the calls where there is one.
    pub(super) fn begin_checked(&mut self, comparison: Option<CollectiveScope>, this: Box<Together>) {
        let Some(comparison) = comparison.filter(|scope| scope.group.size() > 1) else {
            return self.begin_together(this);
        };
        self.compare_then(this.request, comparison, Call::default(), move |process, error| match error {
            None => process.begin_together(this),
            Some(error) => process.end_together(this, Err(error)),
        });
    }

    /// Begins a collective access: all processes tell their parts.
    pub(super) fn begin_together(&mut self, mut this: Box<Together>) {
        let told = this.measure().unwrap_or_else(|error| {
            this.note(error);
            Told::NOTHING
        });
        let outcome = this.failure.clone().map_or(Ok(()), Err);
        let words = [&failure::words(&outcome)[..], &told.numbers()].concat();
        let (request, scope) = (this.request, this.scope.clone());
        self.gather_then(request, &scope, &words, move |process, all| match all {
            Ok(all) => process.plan_together(this, &all),
            Err(error) => process.end_together(this, Err(error)),
        });
    }

    fn plan_together(&mut self, mut this: Box<Together>, all: &[i64]) {
        let nodes = self.nodes_of(&this.scope.group.members);
        // A process that could not begin has no part. All others would move their data for nothing.
        if let Some(error) = failure::first(all, PART_WORDS, this.access.file.path()) {
            return self.end_together(this, Err(error));
        }
        let told = all.chunks_exact(PART_WORDS).zip(nodes).map(|(words, node)| Told::heard(&words[WORDS..], node));
        match this.steps.hear_parts(told.collect(), &this.policy) {
            Next::Alone => self.access_alone(this),
            Next::Together => self.tell_views(this),
        }
    }

    /// Each process moves its own data.
    fn access_alone(&mut self, mut this: Box<Together>) {
        let access = Access { data: this.data(), ..this.access.clone() };
        self.run_aside(
            (this.by, this.request),
            move || access.run(),
            move |process, moved| {
                match moved {
                    Ok(bytes) => this.bytes = bytes,
                    Err(failure) => this.failure = Some(failure),
                }
                process.tell_outcome(this);
            },
        );
    }

    /// Aggregators learn the views of all processes that take part.
    fn tell_views(&mut self, mut this: Box<Together>) {
        let (description, to) = this.steps.description();
        let buffer = SharedBuffer::new(description.len());
        if !buffer.is_empty() {
            buffer.write(0, &description);
        }
        let sends = to.into_iter().map(|rank| (rank, buffer.describe_all())).collect();
        let arriving = this.steps.descriptions().into_iter();
        let arriving: Vec<_> = arriving.map(|(rank, bytes)| (rank, SharedBuffer::new(bytes as usize))).collect();
        let receives = arriving.iter().map(|(rank, buffer)| (*rank, buffer.describe_all())).collect();
        let (request, scope) = (this.request, this.scope.clone());
        self.exchange_then(request, &scope, sends, receives, move |process, error| {
            drop(buffer);
            if let Some(error) = error {
                return process.end_together(this, Err(error));
            }
            let mut heard = arriving.iter().map(|(rank, buffer)| {
                let is_right = buffer.with_bytes(|bytes| this.steps.hear_view(*rank, bytes));
                if is_right { Ok(()) } else { Err(*rank) }
            });
            let heard = heard.by_ref().collect::<std::result::Result<(), u32>>();
            match heard.and_then(|()| this.steps.begin_rounds()) {
                Ok(()) => process.next_round(this),
                Err(rank) => {
                    let message = format!("rank {rank} has told a view that is none");
                    process.end_together(this, Err(Error::new(MPI_ERR_INTERN, message)));
                }
            }
        });
    }

    fn next_round(&mut self, mut this: Box<Together>) {
        match (this.steps.next_round(), this.access.direction) {
            (None, _) => self.tell_outcome(this),
            (Some(round), Direction::Write) => self.exchange_to_write(this, round),
            (Some(round), Direction::Read) => self.read_to_exchange(this, round),
        }
    }

    /// All tell whether they have done their parts.
    fn tell_outcome(&mut self, this: Box<Together>) {
        let outcome = this.failure.clone().map_or(Ok(()), Err);
        let (request, scope) = (this.request, this.scope.clone());
        self.gather_then(request, &scope, &failure::words(&outcome), move |process, all| {
            let outcome = all.and_then(|all| failure::first(&all, WORDS, this.access.file.path()).map_or(Ok(()), Err));
            process.end_together(this, outcome);
        });
    }

    /// Ends the access with what all processes have come to. A process with an error of its own reports that.
    fn end_together(&mut self, this: Box<Together>, outcome: Result<()>) {
        let own = this.failure.as_ref().map(|failure| failure.error.clone());
        let outcome = own.map_or(outcome, Err);
        let direction = this.access.direction;
        let status = outcome.and_then(|()| match &this.converted {
            // The call that waits converts: the functions of the program may call MPI.
            converted if converted.is_by_program() => Ok(Status { bytes: this.bytes, ..Status::EMPTY }),
            converted => ended(converted, direction, this.bytes),
        });
        self.end_file_access(this.request, status);
    }
}

impl Together {
    /// A range of this process's data, given by the data of its view.
    fn piece(&self, range: &Range<u64>) -> Result<UserData> {
        let first = self.access.position;
        self.access.data.part(range.start - first..range.end - first)
    }

    /// The messages with this process's own data of a round, but for those to itself.
    fn own_pieces(&mut self, round: &Round) -> Vec<(u32, UserData)> {
        let mut pieces = Vec::with_capacity(round.mine.len());
        for (rank, range) in &round.mine {
            match self.piece(range) {
                Ok(data) => pieces.push((*rank, data)),
                Err(error) => self.note(error),
            }
        }
        pieces
    }

    /// The window of this process as an aggregator, with the data of a round in it or to come.
    fn window(&mut self, round: &Round) -> Option<Window> {
        let mut window = Window::new(round.window.clone()?, self.access.is_atomic);
        for (rank, view, data) in &round.theirs {
            if *rank == self.scope.rank {
                match self.piece(data) {
                    Ok(own) => window.add(view.clone(), data.clone(), Held::Own(own)),
                    Err(error) => self.note(error),
                }
            } else {
                let buffer = SharedBuffer::new((data.end - data.start) as usize);
                window.add(view.clone(), data.clone(), Held::Message(*rank, buffer));
            }
        }
        Some(window)
    }
}

impl Process {
    /// A round of a write: data goes to the aggregators, which write their windows.
    fn exchange_to_write(&mut self, mut this: Box<Together>, round: Round) {
        let window = this.window(&round);
        let sends = this.own_pieces(&round);
        let receives = window.as_ref().map_or_else(Vec::new, window::messages);
        let (request, scope) = (this.request, this.scope.clone());
        self.exchange_then(request, &scope, sends, receives, move |process, error| {
            if let Some(error) = error {
                return process.end_together(this, Err(error));
            }
            // After a failure the exchange goes on, so that no process waits for this one.
            let Some(window) = window.filter(|_| this.failure.is_none()) else { return process.next_round(this) };
            process.run_aside(
                (this.by, this.request),
                {
                    let file = this.access.file.clone();
                    move || Ok(window.write(&*file)?)
                },
                move |process, moved| {
                    this.failure = this.failure.take().or(moved.err());
                    process.next_round(this);
                },
            );
        });
    }

    /// A round of a read: aggregators read their windows, and data goes from there.
    fn read_to_exchange(&mut self, mut this: Box<Together>, round: Round) {
        let receives = this.own_pieces(&round);
        let Some(window) = this.window(&round) else { return self.give_out(this, receives, Vec::new(), Vec::new()) };
        let (sends, buffers) = (window::messages(&window), window::buffers(&window));
        self.run_aside(
            (this.by, this.request),
            {
                let file = this.access.file.clone();
                move || Ok(window.read(&*file)?)
            },
            move |process, moved| {
                this.failure = this.failure.take().or(moved.err());
                process.give_out(this, receives, sends, buffers);
            },
        );
    }

    /// Sends what has been read, and receives what others have read.
    fn give_out(
        &mut self,
        this: Box<Together>,
        receives: Vec<(u32, UserData)>,
        sends: Vec<(u32, UserData)>,
        buffers: Vec<SharedBuffer>,
    ) {
        let (request, scope) = (this.request, this.scope.clone());
        self.exchange_then(request, &scope, sends, receives, move |process, error| {
            // The messages were in these.
            drop(buffers);
            match error {
                Some(error) => process.end_together(this, Err(error)),
                None => process.next_round(this),
            }
        });
    }
}
