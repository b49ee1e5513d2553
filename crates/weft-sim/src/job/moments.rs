//! What all carriers of one simulated job share: the clock, chance, and the moments at which another process
//! gets its turn.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_random::Random;

/// Virtual time, the same for all processes of a job, and for which of them something has happened. Clones
/// are the same clock.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(Arc<Face>);

#[derive(Debug, Default)]
struct Face {
    now: AtomicU64,
    /// One bit for each process.
    touched: AtomicU64,
}

impl Clock {
    /// Nanoseconds since the job began.
    pub(super) fn now(&self) -> u64 {
        self.0.now.load(Ordering::Relaxed)
    }

    /// It goes on.
    pub(super) fn set(&self, now: u64) {
        self.0.now.store(now, Ordering::Relaxed);
    }

    /// Something has happened after which a process may have its turn at another time.
    pub(super) fn touch(&self, rank: usize) {
        self.0.touched.fetch_or(1 << rank, Ordering::Relaxed);
    }

    /// For whom that is so since the last call, one bit each.
    pub(super) fn take_touched(&self) -> u64 {
        self.0.touched.swap(0, Ordering::Relaxed)
    }
}

/// Lets another process have a turn.
type Turn = Box<dyn Fn(u64)>;

struct Inner {
    random: RefCell<Random>,
    /// Looks at the carriers at which somebody else has a turn, and at which a thread wants the lock; cases
    /// per million.
    turns: u32,
    contended: u32,
    /// Somebody has a turn already.
    taken: Cell<bool>,
    turn: RefCell<Option<Turn>>,
}

/// The moments inside a pass of one process at which another may make one: whenever it looks at what they
/// share. Clones are the same.
#[derive(Clone)]
pub(super) struct Moments(Rc<Inner>);

impl Moments {
    pub(super) fn new(seed: u64, turns: u32, contended: u32) -> Self {
        Self(Rc::new(Inner {
            random: RefCell::new(Random::new(seed)),
            turns,
            contended,
            taken: Cell::new(false),
            turn: RefCell::new(None),
        }))
    }

    /// What is done when somebody else has a turn; it is given a random number.
    pub(super) fn set_turn(&self, turn: Turn) {
        *self.0.turn.borrow_mut() = Some(turn);
    }

    /// The job is over.
    pub(super) fn end(&self) {
        *self.0.turn.borrow_mut() = None;
    }

    /// This may be such a moment.
    pub(super) fn pass(&self) {
        if self.0.turns == 0 || self.0.taken.get() {
            return;
        }
        let choice = {
            let mut random = self.0.random.borrow_mut();
            if !random.chance(self.0.turns) {
                return;
            }
            random.next()
        };
        self.0.taken.set(true);
        if let Some(turn) = &*self.0.turn.borrow() {
            turn(choice);
        }
        self.0.taken.set(false);
    }

    pub(super) fn is_contended(&self) -> bool {
        self.0.contended > 0 && self.0.random.borrow_mut().chance(self.0.contended)
    }
}
