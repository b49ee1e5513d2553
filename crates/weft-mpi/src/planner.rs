//! Which schedule a collective of the program runs: the algorithm is chosen by the settings and the table (`weft_core::collective::choice`), from
//! what all its ranks know alike; and schedules that were planned lately are kept.

use std::cell::RefCell;
use std::sync::Arc;

use weft_core::collective::choice::{Algorithm, Choices, Facts, Operation, Place};
use weft_core::collective::{
    self, Allgather, Allgatherv, Allreduce, Barrier, Bcast, Gather, Reduce, ReduceScatter, ReduceScatterBlock, Schedule,
};

use weft_engine::arguments::{Arguments, Bound};

/// Schedules that are kept, and the steps that one may have for that: programs call few different collectives again and again.
const KEPT_MAX: usize = 16;
const KEPT_STEPS_MAX: usize = 64;

/// What plans collectives.
pub struct Planner {
    choices: Choices,
    kept: RefCell<Kept>,
}

struct Kept {
    schedules: Vec<(Key, Place, Arc<Schedule>)>,
    /// Which of them goes next.
    oldest: usize,
    /// The newest barrier, with the buffers that it has not.
    barrier: Option<(Barrier, Place, Arc<Bound>)>,
}

/// All that a schedule depends on, but for the place of the processes.
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
    /// One that chooses so.
    pub const fn new(choices: Choices) -> Self {
        Self { choices, kept: RefCell::new(Kept { schedules: Vec::new(), oldest: 0, barrier: None }) }
    }

    /// One that knows no settings.
    pub const fn without_settings() -> Self {
        Self::new(Choices::without_settings())
    }
}

/// The planner, for the processes of one communicator.
pub struct Plans<'a> {
    pub(crate) planner: &'a Planner,
    pub(crate) place: Place,
}

/// The chosen algorithm, of the kind that the operation has.
macro_rules! chosen {
    ($plans:expr, $operation:ident, $kind:ident, $ranks:expr, $bytes:expr, $commutative:expr) => {
        match $plans.choose(Operation::$operation, $ranks, $bytes, $commutative) {
            Algorithm::$kind(algorithm) => algorithm,
            other => unreachable!("{other} is for another operation"),
        }
    };
}

impl Plans<'_> {
    fn choose(&self, operation: Operation, ranks: u32, bytes: u64, commutative: bool) -> Algorithm {
        self.planner.choices.choose(operation, &Facts { ranks, bytes, commutative, place: self.place }).0
    }

    fn kept(&self, key: Key, plan: impl FnOnce() -> Schedule) -> Arc<Schedule> {
        let mut kept = self.planner.kept.borrow_mut();
        let known = kept.schedules.iter().find(|(known, place, _)| *known == key && *place == self.place);
        if let Some((_, _, schedule)) = known {
            return schedule.clone();
        }
        let schedule = Arc::new(plan());
        if schedule.len() <= KEPT_STEPS_MAX {
            let entry = (key, self.place, schedule.clone());
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

    /// This rank's part in `MPI_Bcast`.
    pub fn bcast(&self, of: &Bcast) -> Arc<Schedule> {
        self.kept(Key::Bcast(*of), || {
            collective::bcast_with(of, chosen!(self, Bcast, Bcast, of.size, of.items.bytes(), true))
        })
    }

    /// This rank's part in `MPI_Gather`.
    pub fn gather(&self, of: &Gather) -> Arc<Schedule> {
        self.kept(Key::Gather(*of), || {
            collective::gather_with(of, chosen!(self, Gather, Gather, of.size, of.gathered_bytes(), true))
        })
    }

    /// This rank's part in `MPI_Scatter`.
    pub fn scatter(&self, of: &Gather) -> Arc<Schedule> {
        self.kept(Key::Scatter(*of), || {
            collective::scatter_with(of, chosen!(self, Scatter, Gather, of.size, of.scattered_bytes(), true))
        })
    }

    /// This rank's part in `MPI_Allgather`.
    pub fn allgather(&self, of: &Allgather) -> Arc<Schedule> {
        self.kept(Key::Allgather(*of), || {
            let bytes = u64::from(of.size) * of.receive.bytes();
            collective::allgather_with(of, chosen!(self, Allgather, Allgather, of.size, bytes, true))
        })
    }

    /// This rank's part in `MPI_Allgatherv`.
    pub fn allgatherv(&self, of: &Allgatherv<'_>) -> Arc<Schedule> {
        let bytes = of.receive.counts.iter().sum::<u64>() * of.receive.item_size;
        let algorithm = chosen!(self, Allgather, Allgather, of.size, bytes, true);
        Arc::new(collective::allgatherv_with(of, algorithm))
    }

    /// This rank's part in `MPI_Alltoall`.
    pub fn alltoall(&self, of: &Allgather) -> Arc<Schedule> {
        self.kept(Key::Alltoall(*of), || {
            collective::alltoall_with(of, chosen!(self, Alltoall, Alltoall, of.size, of.receive.bytes(), true))
        })
    }

    /// This rank's part in `MPI_Reduce`.
    pub fn reduce(&self, of: &Reduce) -> Arc<Schedule> {
        self.kept(Key::Reduce(*of), || {
            collective::reduce_with(of, chosen!(self, Reduce, Reduce, of.size, of.items.bytes(), of.commutative))
        })
    }

    /// This rank's part in `MPI_Allreduce`.
    pub fn allreduce(&self, of: &Allreduce) -> Arc<Schedule> {
        self.kept(Key::Allreduce(*of), || {
            let algorithm = chosen!(self, Allreduce, Allreduce, of.size, of.items.bytes(), of.commutative);
            collective::allreduce_with(of, algorithm)
        })
    }

    /// This rank's part in `MPI_Reduce_scatter_block`.
    pub fn reduce_scatter_block(&self, of: &ReduceScatterBlock) -> Arc<Schedule> {
        self.kept(Key::ReduceScatterBlock(*of), || {
            let bytes = u64::from(of.size) * of.items.bytes();
            let algorithm = chosen!(self, ReduceScatter, ReduceScatter, of.size, bytes, of.commutative);
            collective::reduce_scatter_block_with(of, algorithm)
        })
    }

    /// This rank's part in `MPI_Reduce_scatter`.
    pub fn reduce_scatter(&self, of: &ReduceScatter<'_>) -> Arc<Schedule> {
        let bytes = of.counts.iter().sum::<u64>() * of.shape.size;
        let algorithm = chosen!(self, ReduceScatter, ReduceScatter, of.size, bytes, of.commutative);
        Arc::new(collective::reduce_scatter_with(of, algorithm))
    }

    /// This rank's part in `MPI_Scan`.
    pub fn scan(&self, of: &Allreduce) -> Arc<Schedule> {
        self.kept(Key::Scan(*of), || {
            collective::scan_with(of, chosen!(self, Scan, Scan, of.size, of.items.bytes(), of.commutative))
        })
    }

    /// This rank's part in `MPI_Exscan`.
    pub fn exscan(&self, of: &Allreduce) -> Arc<Schedule> {
        self.kept(Key::Exscan(*of), || {
            collective::exscan_with(of, chosen!(self, Scan, Scan, of.size, of.items.bytes(), of.commutative))
        })
    }

    /// The barrier of these processes, and the buffers that it has not.
    pub fn barrier(&self, barrier: Barrier) -> Arc<Bound> {
        let newest = &mut self.planner.kept.borrow_mut().barrier;
        if let Some((known, place, bound)) = newest
            && (*known, *place) == (barrier, self.place)
        {
            return bound.clone();
        }
        let algorithm = chosen!(self, Barrier, Barrier, barrier.size, 0, true);
        let bound = Arc::new(Bound::shared(collective::barrier_with(&barrier, algorithm), Arguments::none()));
        *newest = Some((barrier, self.place, bound.clone()));
        bound
    }
}
