//! Plans the collectives of the program.
//!
//! The settings and the table of choices (`weft_plan::collective::choice`) choose the algorithm from facts
//! that all its ranks know alike. The planner keeps the schedules that it has planned lately. The boundary
//! calls it for blocking, nonblocking and persistent collectives.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use weft_plan::collective::choice::{Choices, Layout, Operation};
use weft_plan::collective::{
    Allgather, Allgatherv, Allreduce, Barrier, Bcast, Chosen, Gather, Reduce, ReduceScatter, ReduceScatterBlock,
    Schedule,
};

use weft_engine::arguments::{Arguments, Bound};
use weft_engine::handle::HANDLES_PREDEFINED;

/// The number of schedules that the planner keeps, and of steps that each may have. Programs call few
/// different collectives, again and again.
const KEPT_MAX: usize = 16;
const KEPT_STEPS_MAX: usize = 1024;

/// The number of calls whose plans are kept together with their buffers.
const CALLS_MAX: usize = 4;

/// The arguments from which the plan and the buffers of a collective follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The operation that is called.
    pub operation: Operation,
    /// The communicator's handle.
    pub communicator: usize,
    /// Address, number of items and handle of their type.
    pub send: (usize, i64, usize),
    /// Address, number of items and handle of their type, of the receive buffer.
    pub receive: (usize, i64, usize),
    /// The handle of the reduction, and the root; 0 where there is none.
    pub by: (usize, i32),
}

impl Call {
    /// Returns whether the same arguments mean the same as long as the communicator lives: types and
    /// reductions are predefined, so the program cannot free them.
    #[inline]
    fn is_lasting(&self) -> bool {
        [self.send.2, self.receive.2, self.by.0].iter().all(|handle| *handle < HANDLES_PREDEFINED)
    }
}

/// The latest calls, each with the buffers and the schedule that it was bound to.
#[derive(Default)]
struct Calls {
    known: [Option<(Call, Arc<Bound>)>; CALLS_MAX],
    /// The index of the call that the next new call replaces.
    oldest: usize,
}

/// The planner of collectives, which keeps what it has planned lately.
pub struct Planner {
    choices: Choices,
    calls: RefCell<Calls>,
    kept: RefCell<Kept>,
    /// The places where a collective that is planned now may use memory that processes share.
    in_memory: Cell<InMemory>,
}

/// The places where a collective may use the memory that the processes of a node share. Operations have turns
/// in that memory, in the order in which they are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InMemory {
    /// Nowhere: other processes may start them in another order.
    Nowhere,
    /// Only where all processes are on one node. Several operations between nodes that are under way at the
    /// same time would wait for each other's messages.
    OnOneNode,
    /// Also within each node of several.
    Everywhere,
    /// The same as `Everywhere`, but in a slot of the operation's own, so it has no order among other
    /// operations.
    Apart,
}

struct Kept {
    schedules: Vec<(Key, Layout, Arc<Schedule>)>,
    /// The index of the schedule that the next new schedule replaces.
    oldest: usize,
    /// The newest barrier, bound to no buffers.
    barrier: Option<(Barrier, Layout, Arc<Bound>)>,
}

/// The facts that a schedule depends on, except the places of the processes.
#[derive(Clone, Copy, PartialEq)]
enum Key {
    Bcast(Bcast),
    Gather(Gather),
    Scatter(Gather),
    Allgather(Allgather),
    Alltoall(Allgather),
    Reduce(Reduce),
    Allreduce(Allreduce),
    ReduceScatterBlock(ReduceScatterBlock),
    Scan(Allreduce),
    Exscan(Allreduce),
}

impl Planner {
    /// A planner that chooses algorithms by `choices`.
    pub const fn new(choices: Choices) -> Self {
        let kept = RefCell::new(Kept { schedules: Vec::new(), oldest: 0, barrier: None });
        let calls = RefCell::new(Calls { known: [const { None }; CALLS_MAX], oldest: 0 });
        Self { choices, calls, kept, in_memory: Cell::new(InMemory::Everywhere) }
    }

    /// Returns the schedule and buffers of the same blocking call, if the program made this call lately.
    #[inline]
    pub fn repeated(&self, call: &Call) -> Option<Arc<Bound>> {
        let calls = self.calls.borrow();
        let (_, bound) = calls.known.iter().flatten().find(|(known, _)| known == call)?;
        // Only one thread at a time may use the bound call.
        (Arc::strong_count(bound) == 1).then(|| bound.clone())
    }

    /// Keeps the schedule and buffers of a blocking call, if the call alone determines them. An operation
    /// that uses the memory of its one node is of this kind.
    pub(crate) fn keep_call(&self, call: &Call, bound: &Arc<Bound>) {
        if bound.schedule().phases > 0 && call.is_lasting() {
            let mut calls = self.calls.borrow_mut();
            let oldest = calls.oldest;
            calls.known[oldest] = Some((*call, bound.clone()));
            calls.oldest = (oldest + 1) % CALLS_MAX;
        }
    }

    /// Forgets the kept calls: the hints of a communicator have changed.
    pub fn forget_calls(&self) {
        *self.calls.borrow_mut() = Calls::default();
    }

    #[inline]
    fn with_memory<R>(&self, in_memory: InMemory, plan: impl FnOnce() -> R) -> R {
        let before = self.in_memory.replace(in_memory);
        let planned = plan();
        self.in_memory.set(before);
        planned
    }

    /// Runs `plan`, whose operation may use memory that processes share at most in these places.
    #[inline]
    pub fn at_most<R>(&self, in_memory: InMemory, plan: impl FnOnce() -> R) -> R {
        self.with_memory(self.in_memory.get().min(in_memory), plan)
    }

    /// Runs `plan`, whose operation uses a slot of its own if its processes agree on one.
    pub fn apart<R>(&self, plan: impl FnOnce() -> R) -> R {
        self.with_memory(InMemory::Apart, plan)
    }

    /// Returns whether the operation that is planned now uses a slot of its own.
    pub(crate) fn is_apart(&self) -> bool {
        self.in_memory.get() == InMemory::Apart
    }

    /// Runs `plan`, whose operation uses messages only.
    pub fn by_messages<R>(&self, plan: impl FnOnce() -> R) -> R {
        self.at_most(InMemory::Nowhere, plan)
    }

    /// Returns whether the operation that is planned now may use shared memory, on one node or within each of
    /// several.
    pub(crate) fn is_in_memory(&self, is_one_node: bool) -> bool {
        self.in_memory.get() >= if is_one_node { InMemory::OnOneNode } else { InMemory::Everywhere }
    }

    /// A planner that knows no settings.
    pub const fn without_settings() -> Self {
        Self::new(Choices::without_settings())
    }
}

/// The planner, for the processes of one communicator.
pub struct Plans<'a> {
    pub(crate) planner: &'a Planner,
    pub(crate) layout: Layout,
}

impl Planner {
    /// The rules by which algorithms are chosen.
    pub const fn choices(&self) -> &Choices {
        &self.choices
    }
}

impl Plans<'_> {
    fn chosen(&self) -> Chosen<'_> {
        Chosen { choices: &self.planner.choices, layout: &self.layout }
    }

    /// Returns the schedule of a call that is known, or makes one.
    #[inline(never)]
    fn kept(&self, key: Key, plan: &dyn Fn(Chosen<'_>) -> Schedule) -> Arc<Schedule> {
        let mut kept = self.planner.kept.borrow_mut();
        let known = kept.schedules.iter().find(|(known, layout, _)| *known == key && *layout == self.layout);
        if let Some((_, _, schedule)) = known {
            return schedule.clone();
        }
        let schedule = Arc::new(plan(self.chosen()));
        if schedule.len() <= KEPT_STEPS_MAX {
            let entry = (key, self.layout.clone(), schedule.clone());
            if kept.schedules.len() < KEPT_MAX {
                kept.schedules.push(entry);
            } else {
                let oldest = kept.oldest;
                kept.schedules[oldest] = entry;
                kept.oldest = (oldest + 1) % KEPT_MAX;
            }
        }
        schedule
    }

    /// The part of this rank in `MPI_Bcast`.
    pub fn bcast(&self, of: &Bcast) -> Arc<Schedule> {
        self.kept(Key::Bcast(*of), &|chosen| chosen.bcast(of))
    }

    /// The part of this rank in `MPI_Gather`.
    pub fn gather(&self, of: &Gather) -> Arc<Schedule> {
        self.kept(Key::Gather(*of), &|chosen| chosen.gather(of))
    }

    /// The part of this rank in `MPI_Scatter`.
    pub fn scatter(&self, of: &Gather) -> Arc<Schedule> {
        self.kept(Key::Scatter(*of), &|chosen| chosen.scatter(of))
    }

    /// The part of this rank in `MPI_Allgather`.
    pub fn allgather(&self, of: &Allgather) -> Arc<Schedule> {
        self.kept(Key::Allgather(*of), &|chosen| chosen.allgather(of))
    }

    /// The part of this rank in `MPI_Allgatherv`.
    pub fn allgatherv(&self, of: &Allgatherv<'_>) -> Arc<Schedule> {
        Arc::new(self.chosen().allgatherv(of))
    }

    /// The part of this rank in `MPI_Alltoall`.
    pub fn alltoall(&self, of: &Allgather) -> Arc<Schedule> {
        self.kept(Key::Alltoall(*of), &|chosen| chosen.alltoall(of))
    }

    /// The part of this rank in `MPI_Reduce`.
    pub fn reduce(&self, of: &Reduce) -> Arc<Schedule> {
        self.kept(Key::Reduce(*of), &|chosen| chosen.reduce(of))
    }

    /// The part of this rank in `MPI_Allreduce`.
    pub fn allreduce(&self, of: &Allreduce) -> Arc<Schedule> {
        self.kept(Key::Allreduce(*of), &|chosen| chosen.allreduce(of))
    }

    /// The part of this rank in `MPI_Reduce_scatter_block`.
    pub fn reduce_scatter_block(&self, of: &ReduceScatterBlock) -> Arc<Schedule> {
        self.kept(Key::ReduceScatterBlock(*of), &|chosen| chosen.reduce_scatter_block(of))
    }

    /// The part of this rank in `MPI_Reduce_scatter`.
    pub fn reduce_scatter(&self, of: &ReduceScatter<'_>) -> Arc<Schedule> {
        Arc::new(self.chosen().reduce_scatter(of))
    }

    /// The part of this rank in `MPI_Scan`.
    pub fn scan(&self, of: &Allreduce) -> Arc<Schedule> {
        self.kept(Key::Scan(*of), &|chosen| chosen.scan(of))
    }

    /// The part of this rank in `MPI_Exscan`.
    pub fn exscan(&self, of: &Allreduce) -> Arc<Schedule> {
        self.kept(Key::Exscan(*of), &|chosen| chosen.exscan(of))
    }

    /// The barrier of these processes, bound to no buffers.
    pub fn barrier(&self, barrier: Barrier) -> Arc<Bound> {
        let newest = &mut self.planner.kept.borrow_mut().barrier;
        if let Some((known, layout, bound)) = newest
            && *known == barrier
            && *layout == self.layout
        {
            return bound.clone();
        }
        let bound = Arc::new(Bound::shared(self.chosen().barrier(&barrier), Arguments::none()));
        *newest = Some((barrier, self.layout.clone(), bound.clone()));
        bound
    }
}
