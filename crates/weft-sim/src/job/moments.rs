//! The parts that all carriers of one simulated job share: the clock, chance, and the moments at which
//! another process gets its turn.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_random::Random;

/// Virtual time, the same for all processes of a job, and the set of processes for which something has
/// happened. Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(Arc<Face>);

#[derive(Debug, Default)]
struct Face {
    now: AtomicU64,
    /// The processes for which something has happened, one bit each.
    touched: AtomicU64,
}

impl Clock {
    /// Nanoseconds since the job began.
    pub(super) fn now(&self) -> u64 {
        self.0.now.load(Ordering::Relaxed)
    }

    /// Sets the time.
    pub(super) fn set(&self, now: u64) {
        self.0.now.store(now, Ordering::Relaxed);
    }

    /// Notes that a process may have its next turn at another time than before.
    pub(super) fn touch(&self, rank: usize) {
        self.0.touched.fetch_or(1 << rank, Ordering::Relaxed);
    }

    /// Returns and clears the set of processes that were touched, one bit each.
    pub(super) fn take_touched(&self) -> u64 {
        self.0.touched.swap(0, Ordering::Relaxed)
    }
}

/// The function that lets another process have a turn.
type Turn = Box<dyn Fn(u64)>;

struct Inner {
    random: RefCell<Random>,
    /// The chance that a look at the carriers gives another process a turn, and that another thread wants
    /// the lock; cases per million.
    turns: u32,
    contended: u32,
    /// Says whether another process has a turn already.
    taken: Cell<bool>,
    turn: RefCell<Option<Turn>>,
}

/// The moments inside a pass of one process at which another process may make a pass: each look at what the
/// processes share. Clones are the same.
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

    /// Sets the function that gives another process its turn; the function receives a random number.
    pub(super) fn set_turn(&self, turn: Turn) {
        *self.0.turn.borrow_mut() = Some(turn);
    }

    /// Ends the job: no process gets a turn any more.
    pub(super) fn end(&self) {
        *self.0.turn.borrow_mut() = None;
    }

    /// Marks a moment at which another process may get its turn.
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
