//! The steps of one process in a collective access. They know what it tells the others, what it hears, and
//! what comes next. They send nothing and touch no file: a driver does that, for a job (`weft-mpi`) or for a
//! simulation (`weft-sim`).
//!
//! ```text
//! all tell their parts ─ plan ─┬─ each by itself ──────────────────────────────────────────┐
//!                              └─ aggregators learn the views ─ rounds: ┌ write: exchange, write the window │ ─ all tell the outcome
//!                                                                       └ read: read the window, exchange   ┘
//! ```
//!
//! A process that fails goes on with its part of the exchange, so that no other waits for it, and says so at
//! the end.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::{Domain, Part, Plan, Policy, plan};
use weft_core::file_view::{OutOfView, View};
use weft_core::layout::{Element, Layout};

/// The numbers in which a process tells of its part.
pub const NUMBERS: usize = 7;

/// The most bytes of the descriptions of all views together. Each aggregator keeps them for the time of an
/// access. Where they are longer, each process accesses the file by itself.
pub const DESCRIPTIONS_MAX: usize = 256 << 20;

/// The part of one process as all others know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// The part.
    pub part: Part,
    /// The range of its view's data begins there.
    position: u64,
    /// The data of its view is one run.
    is_contiguous: bool,
    /// Bytes of the description of its view.
    description: u64,
}

impl Told {
    /// What a process tells that moves nothing.
    pub const NOTHING: Self = Self { part: Part::NOTHING, position: 0, is_contiguous: true, description: 0 };

    /// Measures the part of a process that moves the range `data` of the data of `view`.
    ///
    /// # Errors
    /// The view has no such data.
    pub fn of(view: &View, data: Range<u64>) -> Result<Self, OutOfView> {
        let span = view.check(data.clone())?;
        let bytes = data.end - data.start;
        let mut runs = 0_u64;
        view.batches(data.clone(), &mut |batch| runs = runs.saturating_add(batch.count));
        let is_contiguous = view.is_contiguous();
        // The part of a contiguous view says all of it.
        let description = if is_contiguous { Some(0) } else { described_bytes(view) };
        let is_ordered = view.is_ordered() && description.is_some();
        let part = Part { start: span.start, end: span.end, bytes, runs, is_ordered, node: 0 };
        let description = description.unwrap_or(0) as u64;
        Ok(Self { part, position: data.start, is_contiguous, description })
    }

    /// The numbers by which it is told.
    pub fn numbers(&self) -> [i64; NUMBERS] {
        let Part { start, end, bytes, runs, is_ordered, .. } = self.part;
        let flags = u64::from(is_ordered) | u64::from(self.is_contiguous) << 1;
        [start, end, bytes, runs, flags, self.position, self.description].map(|number| number as i64)
    }

    /// What a process on this node has told by these numbers.
    pub fn heard(numbers: &[i64], node: u32) -> Self {
        let Some(numbers) = numbers.first_chunk::<NUMBERS>() else { return Self::NOTHING };
        let [start, end, bytes, runs, flags, position, description] = numbers.map(|number| number as u64);
        let part = Part { start, end, bytes, runs, is_ordered: flags & 1 != 0, node };
        Self { part, position, is_contiguous: flags & 2 != 0, description }
    }

    /// The range of the view's data that it is about.
    pub fn range(&self) -> Range<u64> {
        self.position..self.position.saturating_add(self.part.bytes)
    }

    /// Its part of the data that lies in a window.
    fn within(&self, view: &View, window: &Range<u64>) -> Range<u64> {
        let own = self.range();
        let [start, mut end] = [window.start, window.end].map(|offset| view.data_before(offset));
        if cfg!(weft_mutant = "data_of_a_window_cut_short") && end % 16 == 7 {
            end -= 1;
        }
        start.clamp(own.start, own.end)..end.clamp(own.start, own.end)
    }
}

/// The part of `data` that a file of `size` bytes has, for a read. A view that goes back has its end found by
/// the reads themselves.
pub fn readable(view: &View, data: Range<u64>, size: u64) -> Range<u64> {
    let end = if view.is_ordered() { data.end.min(view.data_before(size)).max(data.start) } else { data.end };
    data.start..end
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
        let position = if cfg!(weft_mutant = "position_in_a_view_forgotten") { 0 } else { told.position };
        let displacement = i64::try_from(told.part.start.checked_sub(position)?).ok()?;
        return View::new(displacement, &byte, &byte).ok();
    }
    let (displacement, layout) = description.split_first_chunk()?;
    let layout = Layout::from_description(layout).ok()?;
    View::new(i64::try_from(u64::from_le_bytes(*displacement)).ok()?, &byte, &layout).ok()
}

/// What comes after the parts of all processes are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Each process moves its own data.
    Alone,
    /// Aggregators learn the views, and rounds follow.
    Together,
}

/// One round of a process.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// The window of this process, if it aggregates and there is data in it.
    pub window: Option<Range<u64>>,
    /// For each process with data in that window, itself too: its rank, its view, and the range of its data.
    pub theirs: Vec<(u32, View, Range<u64>)>,
    /// For each other aggregator that gets or gives data of this process: its rank, and the range of the
    /// data.
    pub mine: Vec<(u32, Range<u64>)>,
}

/// The steps of one process.
#[derive(Clone, Debug)]
pub struct Steps {
    rank: u32,
    view: View,
    told: Vec<Told>,
    /// The views of the processes that have told theirs.
    views: Vec<Option<View>>,
    plan: Option<Plan>,
    round: u64,
}

impl Steps {
    /// The steps of the process `rank` with this view.
    pub fn new(rank: u32, view: View) -> Self {
        Self { rank, view, told: Vec::new(), views: Vec::new(), plan: None, round: 0 }
    }

    /// Hears the parts of all processes, by rank, none of which has failed. All of them come to the same.
    pub fn hear_parts(&mut self, told: Vec<Told>, policy: &Policy) -> Next {
        let parts: Vec<Part> = told.iter().map(|told| told.part).collect();
        let descriptions = told.iter().fold(0, |sum: u64, told| sum.saturating_add(told.description));
        self.views = vec![None; told.len()];
        self.told = told;
        self.plan = plan(&parts, policy).filter(|_| descriptions <= DESCRIPTIONS_MAX as u64);
        if self.plan.is_some() { Next::Together } else { Next::Alone }
    }

    fn own(&self) -> &Told {
        self.told.get(self.rank as usize).unwrap_or(&Told::NOTHING)
    }

    fn domains(&self) -> &[Domain] {
        self.plan.as_ref().map_or(&[], |plan| &plan.domains)
    }

    fn aggregates(&self) -> bool {
        self.domains().iter().any(|domain| domain.rank == self.rank)
    }

    /// The description of this process's view, empty where the part says all of it; and the aggregators that
    /// it goes to.
    pub fn description(&self) -> (Vec<u8>, Vec<u32>) {
        if self.own().description == 0 {
            return (Vec::new(), Vec::new());
        }
        let to = self.domains().iter().map(|domain| domain.rank).filter(|rank| *rank != self.rank);
        (describe(&self.view), to.collect())
    }

    /// The processes whose descriptions come to this one, each with their bytes.
    pub fn descriptions(&self) -> Vec<(u32, u64)> {
        if !self.aggregates() {
            return Vec::new();
        }
        let told = (0..).zip(&self.told).filter(|(rank, told)| *rank != self.rank && told.description > 0);
        told.map(|(rank, told)| (rank, told.description)).collect()
    }

    /// Hears the description of the view of the process `rank`. Returns whether it is one.
    pub fn hear_view(&mut self, rank: u32, description: &[u8]) -> bool {
        let index = rank as usize;
        let view = self.told.get(index).and_then(|told| view_of(told, description));
        let is_right = view.is_some();
        if let Some(place) = self.views.get_mut(index) {
            *place = view;
        }
        is_right
    }

    /// Ends the step in which aggregators learn views: those whose parts say all of them have told no more.
    ///
    /// # Errors
    /// The rank of a process that has told a view that is none.
    pub fn begin_rounds(&mut self) -> Result<(), u32> {
        if !self.aggregates() {
            return Ok(());
        }
        for rank in 0..self.told.len() as u32 {
            let index = rank as usize;
            if self.told[index].part.bytes == 0 || self.views[index].is_some() {
                continue;
            }
            if rank == self.rank {
                self.views[index] = Some(self.view.clone());
            } else if !self.hear_view(rank, &[]) {
                return Err(rank);
            }
        }
        Ok(())
    }

    /// The next round; `None` when there is none left, and all tell the outcome.
    pub fn next_round(&mut self) -> Option<Round> {
        let plan = self.plan.as_ref().filter(|plan| self.round < plan.rounds)?;
        let own = self.own();
        let mut round = Round::default();
        for domain in &plan.domains {
            let window = plan.window_of(domain, self.round);
            if domain.rank == self.rank {
                let all = (0_u32..).zip(&self.told).zip(&self.views);
                let with_views = all.filter_map(|((rank, told), view)| Some((rank, told, view.as_ref()?)));
                let theirs = with_views.map(|(rank, told, view)| (rank, view.clone(), told.within(view, &window)));
                round.theirs = theirs.filter(|(_, _, range)| !range.is_empty()).collect();
                round.window = Some(window).filter(|_| !round.theirs.is_empty());
            } else if own.part.bytes > 0 {
                let range = own.within(&self.view, &window);
                if !range.is_empty() {
                    round.mine.push((domain.rank, range));
                }
            }
        }
        self.round += if cfg!(weft_mutant = "round_left_out") && self.round == 3 { 2 } else { 1 };
        Some(round)
    }
}
