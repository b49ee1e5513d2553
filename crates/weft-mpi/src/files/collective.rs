//! Collective accesses (MPI-5.0 §14.4.4): all processes of a file access it together, in two phases or each
//! by itself as `weft_core::two_phase` plans it.
//!
//! One access is a chain of steps. Each step ends with a function that begins the next one, so the blocking,
//! the split and the nonblocking forms are the same. All processes learn of the failure of one: a process
//! that fails goes on with its part, and says so in the last step.
//!
//! ```text
//! all tell their parts ─ plan ─┬─ each by itself ──────────────────────────────────────────┐
//!                              └─ aggregators learn the views ─ rounds: ┌ write: exchange, write the window │ ─ all tell the outcome
//!                                                                       └ read: read the window, exchange   ┘
//! ```

use std::ops::Range;
use std::sync::Arc;

use weft_core::file_view::View;
use weft_core::layout::{Element, Layout};
use weft_core::two_phase::{Domain, Part, Plan, Policy, plan};

use super::access::{Access, Direction, ended};
use super::conversion::Converted;
use super::failure::{self, Failure, WORDS};
use super::window::Window;
use super::workers::By;
use crate::check::Call;
use crate::collective::CollectiveScope;
use crate::constants::MPI_ERR_INTERN;
use crate::error::{Error, Result};
use crate::memory::{SharedBuffer, UserData};
use crate::process::Process;
use crate::request::Status;

/// The words in which a process tells of its part.
const PART_WORDS: usize = WORDS + 7;

/// The most bytes of the descriptions of all views together. Each aggregator keeps them for the time of an
/// access. Where they are longer, each process accesses the file by itself.
const DESCRIPTIONS_MAX: usize = 256 << 20;

/// The part of one process as all others know it.
#[derive(Clone, Copy)]
struct Told {
    part: Part,
    /// The range of its view's data.
    position: u64,
    /// The data of its view is one run.
    is_contiguous: bool,
    /// Bytes of the description of its view.
    description: u64,
}

impl Told {
    fn range(&self) -> Range<u64> {
        self.position..self.position + self.part.bytes
    }
}

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
    /// The parts of all processes.
    told: Vec<Told>,
    /// The views of the processes that have told theirs.
    views: Vec<Option<View>>,
    plan: Option<Arc<Plan>>,
    round: u64,
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
        Box::new(Self {
            request,
            scope,
            by,
            access,
            converted,
            policy,
            failure,
            bytes: 0,
            told: Vec::new(),
            views: Vec::new(),
            plan: None,
            round: 0,
        })
    }

    /// The data that this process moves.
    fn data(&self) -> UserData {
        self.access.data.part(0..self.bytes).unwrap_or_else(|_| UserData::empty())
    }

    fn note(&mut self, error: Error) {
        self.failure.get_or_insert(Failure::from(error));
    }

    /// Measures this process's part of the file, and the description of its view.
    fn measure(&mut self) -> Result<(Part, usize)> {
        let nothing = (Part::default(), 0);
        if self.failure.is_some() {
            return Ok(nothing);
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
            let view = &self.access.view.view;
            // A view that goes back has its end found by the reads themselves.
            if view.is_ordered() {
                end = end.min(view.data_before(size)).max(start);
            }
        }
        self.bytes = end - start;
        if self.bytes == 0 {
            return Ok(nothing);
        }
        let view = &self.access.view.view;
        let span = self.access.span(start..end)?;
        let mut runs = 0_u64;
        view.batches(start..end, &mut |batch| runs = runs.saturating_add(batch.count));
        // The part of a contiguous view says all of it.
        let description = if view.is_contiguous() { Some(0) } else { described_bytes(view) };
        let is_ordered = view.is_ordered() && description.is_some();
        let part = Part { start: span.start, end: span.end, bytes: self.bytes, runs, is_ordered, node: 0 };
        Ok((part, description.unwrap_or(0)))
    }
}

/// The bytes of [`describe`]; `None` when they are too many.
fn described_bytes(view: &View) -> Option<usize> {
    Some(size_of::<u64>() + view.filetype().described_bytes(DESCRIPTIONS_MAX)?)
}

/// The description of a view for aggregators: the displacement, and the filetype.
fn describe(view: &View) -> Vec<u8> {
    let mut out = view.displacement().to_le_bytes().to_vec();
    view.filetype().describe(&mut out);
    out
}

/// The view that a process has told.
fn view_of(told: &Told, description: &[u8]) -> Option<View> {
    let byte = Layout::element(Element::Byte);
    if told.is_contiguous {
        // Its data lies where the part begins, as far behind the view's begin as its position says.
        let displacement = i64::try_from(told.part.start.checked_sub(told.position)?).ok()?;
        return View::new(displacement, &byte, &byte).ok();
    }
    let (displacement, layout) = description.split_first_chunk()?;
    let layout = Layout::from_description(layout).ok()?;
    View::new(i64::try_from(u64::from_le_bytes(*displacement)).ok()?, &byte, &layout).ok()
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
        let (part, description) = this.measure().unwrap_or_else(|error| {
            this.note(error);
            (Part::default(), 0)
        });
        let outcome = this.failure.clone().map_or(Ok(()), Err);
        let is_contiguous = this.access.view.view.is_contiguous();
        let flags = i64::from(part.is_ordered) | i64::from(is_contiguous) << 1;
        let numbers = [
            part.start as i64,
            part.end as i64,
            part.bytes as i64,
            part.runs as i64,
            flags,
            this.access.position as i64,
            description as i64,
        ];
        let words = [&failure::words(&outcome)[..], &numbers].concat();
        let (request, scope) = (this.request, this.scope.clone());
        self.gather_then(request, &scope, &words, move |process, all| match all {
            Ok(all) => process.plan_together(this, &all),
            Err(error) => process.end_together(this, Err(error)),
        });
    }

    fn plan_together(&mut self, mut this: Box<Together>, all: &[i64]) {
        let nodes = self.nodes_of(&this.scope.group.members);
        this.told = all
            .chunks_exact(PART_WORDS)
            .zip(nodes)
            .map(|(words, node)| {
                let [start, end, bytes, runs, flags, position, description] = words[WORDS..] else {
                    return Told { part: Part::default(), position: 0, is_contiguous: true, description: 0 };
                };
                let part = Part {
                    start: start as u64,
                    end: end as u64,
                    bytes: bytes as u64,
                    runs: runs as u64,
                    is_ordered: flags & 1 != 0,
                    node,
                };
                let (position, description) = (position as u64, description as u64);
                Told { part, position, is_contiguous: flags & 2 != 0, description }
            })
            .collect();
        // A process that could not begin has no part. All others would move their data for nothing.
        if let Some(error) = failure::first(all, PART_WORDS, this.access.file.path()) {
            return self.end_together(this, Err(error));
        }
        let parts: Vec<Part> = this.told.iter().map(|told| told.part).collect();
        let descriptions = this.told.iter().fold(0, |sum: u64, told| sum.saturating_add(told.description));
        match plan(&parts, &this.policy).filter(|_| descriptions <= DESCRIPTIONS_MAX as u64) {
            None => self.access_alone(this),
            Some(plan) => {
                this.plan = Some(Arc::new(plan));
                self.tell_views(this);
            }
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
        let Some(plan) = this.plan.clone() else { return self.tell_outcome(this) };
        let own = this.scope.rank as usize;
        let mut sends = Vec::new();
        let buffer = SharedBuffer::new(this.told[own].description as usize);
        if !buffer.is_empty() {
            buffer.write(0, &describe(&this.access.view.view));
            let to = plan.domains.iter().filter(|domain| domain.rank as usize != own);
            sends.extend(to.map(|domain| (domain.rank, buffer.describe_all())));
        }
        let is_aggregator = plan.domains.iter().any(|domain| domain.rank as usize == own);
        let arriving: Vec<(u32, SharedBuffer)> = match is_aggregator {
            false => Vec::new(),
            true => (0_u32..)
                .zip(&this.told)
                .filter(|(rank, told)| *rank as usize != own && told.description > 0)
                .map(|(rank, told)| (rank, SharedBuffer::new(told.description as usize)))
                .collect(),
        };
        let receives = arriving.iter().map(|(rank, buffer)| (*rank, buffer.describe_all())).collect();
        let (request, scope) = (this.request, this.scope.clone());
        self.exchange_then(request, &scope, sends, receives, move |process, error| {
            drop(buffer);
            if let Some(error) = error {
                return process.end_together(this, Err(error));
            }
            this.views = vec![None; this.told.len()];
            if is_aggregator {
                let arrived = |rank: usize| arriving.iter().find(|(from, _)| *from as usize == rank);
                for rank in 0..this.told.len() {
                    let told = this.told[rank];
                    if told.part.bytes == 0 {
                        continue;
                    }
                    let view = match arrived(rank) {
                        _ if rank == own => Some(this.access.view.view.clone()),
                        Some((_, buffer)) => buffer.with_bytes(|bytes| view_of(&told, bytes)),
                        None => view_of(&told, &[]),
                    };
                    if view.is_none() {
                        let message = format!("rank {rank} has told a view that is none");
                        return process.end_together(this, Err(Error::new(MPI_ERR_INTERN, message)));
                    }
                    this.views[rank] = view;
                }
            }
            process.next_round(this);
        });
    }

    fn next_round(&mut self, this: Box<Together>) {
        match (&this.plan, this.access.direction) {
            (Some(plan), _) if this.round == plan.rounds => self.tell_outcome(this),
            (None, _) => self.tell_outcome(this),
            (Some(_), Direction::Write) => self.exchange_to_write(this),
            (Some(_), Direction::Read) => self.read_to_exchange(this),
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

/// The parts of one round.
struct Round {
    /// The domain of this process, if it aggregates, and its window.
    own: Option<(Domain, Range<u64>)>,
    /// For each aggregator that gets or gives data of this process: the range of its data.
    mine: Vec<(u32, Range<u64>)>,
    /// For each process with data in the own window: the range of its data, of its view.
    theirs: Vec<(u32, Range<u64>)>,
}

impl Together {
    fn round(&self, plan: &Plan) -> Round {
        let own_rank = self.scope.rank;
        let overlap = |view: &View, told: &Told, window: &Range<u64>| {
            let within = told.range();
            let (start, end) = (view.data_before(window.start), view.data_before(window.end));
            start.clamp(within.start, within.end)..end.clamp(within.start, within.end)
        };
        let own = plan.domains.iter().find(|domain| domain.rank == own_rank);
        let own = own.map(|domain| (domain.clone(), plan.window_of(domain, self.round)));
        let own_told = &self.told[own_rank as usize];
        let mut mine = Vec::new();
        if own_told.part.bytes > 0 {
            for domain in &plan.domains {
                let range = overlap(&self.access.view.view, own_told, &plan.window_of(domain, self.round));
                if !range.is_empty() {
                    mine.push((domain.rank, range));
                }
            }
        }
        let mut theirs = Vec::new();
        if let Some((_, window)) = &own {
            for ((rank, told), view) in (0_u32..).zip(&self.told).zip(&self.views) {
                if let Some(view) = view {
                    let range = overlap(view, told, window);
                    if !range.is_empty() {
                        theirs.push((rank, range));
                    }
                }
            }
        }
        Round { own, mine, theirs }
    }

    /// A range of this process's data, given by the data of its view.
    fn piece(&self, range: &Range<u64>) -> Result<UserData> {
        let first = self.access.position;
        self.access.data.part(range.start - first..range.end - first)
    }

    /// The messages with this process's own data of a round, but for those to itself.
    fn own_pieces(&mut self, round: &Round) -> Vec<(u32, UserData)> {
        let mut pieces = Vec::with_capacity(round.mine.len());
        let own = self.scope.rank;
        for (rank, range) in round.mine.iter().filter(|(rank, _)| *rank != own) {
            match self.piece(range) {
                Ok(data) => pieces.push((*rank, data)),
                Err(error) => self.note(error),
            }
        }
        pieces
    }

    /// The window of this process as an aggregator, with the data of a round in it or to come.
    fn window(&mut self, round: &Round) -> Option<Window> {
        let (_, range) = round.own.clone().filter(|_| !round.theirs.is_empty())?;
        let mut window = Window::new(self.access.file.clone(), range, self.access.is_atomic);
        for (rank, data) in &round.theirs {
            let Some(view) = self.views[*rank as usize].clone() else { continue };
            if *rank == self.scope.rank {
                match self.piece(data) {
                    Ok(own) => window.add_own(view, data.clone(), own),
                    Err(error) => self.note(error),
                }
            } else {
                window.add(*rank, view, data.clone());
            }
        }
        Some(window)
    }
}

impl Process {
    /// A round of a write: data goes to the aggregators, which write their windows.
    fn exchange_to_write(&mut self, mut this: Box<Together>) {
        let Some(plan) = this.plan.clone() else { return self.tell_outcome(this) };
        let round = this.round(&plan);
        this.round += 1;
        let window = this.window(&round);
        let sends = this.own_pieces(&round);
        let receives = window.as_ref().map_or_else(Vec::new, Window::messages);
        let (request, scope) = (this.request, this.scope.clone());
        self.exchange_then(request, &scope, sends, receives, move |process, error| {
            if let Some(error) = error {
                return process.end_together(this, Err(error));
            }
            // After a failure the exchange goes on, so that no process waits for this one.
            let Some(window) = window.filter(|_| this.failure.is_none()) else { return process.next_round(this) };
            process.run_aside(
                (this.by, this.request),
                move || window.write(),
                move |process, moved| {
                    this.failure = this.failure.take().or(moved.err());
                    process.next_round(this);
                },
            );
        });
    }

    /// A round of a read: aggregators read their windows, and data goes from there.
    fn read_to_exchange(&mut self, mut this: Box<Together>) {
        let Some(plan) = this.plan.clone() else { return self.tell_outcome(this) };
        let round = this.round(&plan);
        this.round += 1;
        let receives = this.own_pieces(&round);
        let Some(window) = this.window(&round) else { return self.give_out(this, receives, Vec::new(), Vec::new()) };
        let (sends, buffers) = (window.messages(), window.buffers());
        self.run_aside(
            (this.by, this.request),
            move || window.read(),
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
