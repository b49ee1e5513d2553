//! Spinning: how long a call that waits looks again and again before it sleeps, and on which processor.
//!
//! The kernel likes to put a process that is woken beside the one that woke it. Two ranks that spin on one processor, each
//! yielding to the other, never look idle nor long enough off the processor to be moved, so a waiter that sees another
//! spinning rank of the node on its processor, or that somebody takes every turn that it yields, goes to another one itself.

use weft_core::time::{Duration, Instant};
use weft_net::clock;

use super::Process;

/// How long a waiter spins at most before it sleeps, with peers on this node. A spin must outlast the wake-up of a peer that
/// sleeps, or two that sleep would never find out that spinning pays: 25 µs on a virtual machine whose processors idle.
pub(super) const SPIN_NODE: Duration = Duration::from_micros(100);
/// The same when there are peers on other nodes.
pub(super) const SPIN_NETWORK: Duration = Duration::from_micros(200);
/// The same while a neighbour copies a message to or from this process, which takes as long as the message is large.
const SPIN_SERVED: Duration = Duration::from_micros(20_000);
/// Passes of the progress loop after which a waiter sees whether it may spin on.
const PASSES_FREE: u32 = 3;
/// Passes between two looks at the clock while it spins.
const PASSES_PER_LOOK: u32 = 64;
/// Passes take much less, so a thread that sees so much time go by between two looks was not running.
const PREEMPTED: Duration = Duration::from_micros(100);
/// A yield that takes so long has let somebody else run.
const YIELDED: Duration = Duration::from_micros(2);
/// After so many of these in a row somebody spins there as well, be it a rank of another host or of another job.
const YIELDED_ALWAYS: u32 = 16;
/// Least and most time between two moves to another processor; it doubles with each move that did not last.
const PARTING_PAUSES: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(16));
/// Time between two looks at how ranks that take turns are spread over the processors.
const EVENING_PAUSE: Duration = Duration::from_micros(200);
/// A move has lasted when so many pauses have gone by.
const PARTING_LASTED: u64 = 8;

/// One call that waits: spins as long as that is worth it.
#[derive(Default)]
pub(super) struct Wait {
    passes: u32,
    /// Ranks that are awake outnumbered the processors when that was last looked at.
    crowded: bool,
    /// When the spin began, and when the clock was last looked at.
    looked: Option<(Instant, Instant)>,
    slept: bool,
}

impl Wait {
    /// What remains of a wait that has slept.
    pub(super) fn after_sleep() -> Self {
        Self { slept: true, ..Self::default() }
    }

    /// After a pass in vain: whether to make another one before sleeping.
    #[inline]
    pub(super) fn spins_on(&mut self, process: &mut Process) -> bool {
        self.passes += 1;
        if self.passes < PASSES_FREE {
            return true;
        }
        if self.passes == PASSES_FREE {
            if !self.slept {
                process.enter_wait();
            }
            // What came before the spin is not what it brings.
            process.has_advanced();
            self.crowded = !process.has_processors();
            let spins = process.spin.budget() > Duration::default() || (!self.crowded && process.is_served());
            if !spins {
                // A sleep like any other: it brings the next try nearer.
                process.spin.missed(false);
            }
            return spins;
        }
        // Where ranks take turns on a processor each pass in vain ends a turn: what is waited for may come from the next one.
        !(self.crowded || self.passes.is_multiple_of(PASSES_PER_LOOK)) || self.look(process)
    }

    fn look(&mut self, process: &mut Process) -> bool {
        let now = clock::now();
        let advanced = process.has_advanced();
        if advanced {
            // A pass that copies a large message is progress, however long it takes, and so are the packets of one that arrive: the
            // spin has brought them, and starts anew.
            process.spin.hit();
        }
        let (began, last) = self.looked.filter(|_| !advanced).unwrap_or((now, now));
        self.looked = Some((began, now));
        let preempted = now.since(last) > PREEMPTED;
        let spun = now.since(began);
        if !preempted && (spun < process.spin.budget() || (!self.crowded && spun < SPIN_SERVED && process.is_served()))
        {
            self.crowded = !process.has_processors();
            if let Some(engine) = &process.engine {
                engine.note_processor();
                if self.crowded && process.parting.is_time_to_even_out(now) {
                    engine.even_out();
                }
            }
            // Other jobs and other virtual hosts use the same processors: whoever could bring what we wait for may be one.
            std::thread::yield_now();
            let away = clock::now().since(now);
            if away > PREEMPTED {
                // Among ranks that take turns it may have been something that comes once in a while.
                if self.crowded && !process.spin.is_kept_away() {
                    self.looked = None;
                    return true;
                }
                process.spin.missed(true);
                return false;
            }
            let others = process.parting.note_yield(away > YIELDED);
            if !self.crowded
                && away > YIELDED
                && let Some(engine) = &process.engine
                && (others || engine.shares_processor())
                && process.parting.is_due(now)
            {
                engine.leave_processor();
            }
            return true;
        }
        process.spin.missed(preempted);
        false
    }

    /// What was waited for is here.
    #[inline]
    pub(super) fn conclude(&self, process: &mut Process) {
        if self.passes >= PASSES_FREE || self.slept {
            process.leave_wait();
        } else {
            process.end_wait();
        }
        if self.passes > PASSES_FREE && !self.slept {
            process.spin.hit();
        }
    }
}

/// When this process may next move to another processor.
pub(super) struct Parting {
    last: Option<Instant>,
    pause: Duration,
    /// When it was last seen whether the ranks that take turns are spread evenly.
    evened: Option<Instant>,
    /// Yields in a row that have let somebody else run.
    yielded: u32,
}

impl Parting {
    pub(super) const fn new() -> Self {
        Self { last: None, pause: PARTING_PAUSES.0, evened: None, yielded: 0 }
    }

    /// A yield has let somebody else run, or not. Whether each of them does.
    fn note_yield(&mut self, shared: bool) -> bool {
        self.yielded = if shared { self.yielded.saturating_add(1) } else { 0 };
        self.yielded >= YIELDED_ALWAYS
    }

    /// Whether to see now if ranks that take turns are spread evenly.
    fn is_time_to_even_out(&mut self, now: Instant) -> bool {
        let due = self.evened.is_none_or(|last| now.since(last) >= EVENING_PAUSE);
        if due {
            self.evened = Some(now);
        }
        due
    }

    /// Whether a move is allowed now; the next one is then later.
    fn is_due(&mut self, now: Instant) -> bool {
        let (least, most) = PARTING_PAUSES;
        if let Some(last) = self.last {
            let since = now.since(last).as_nanos();
            if since < self.pause.as_nanos() {
                return false;
            }
            let lasted = since >= self.pause.as_nanos() * PARTING_LASTED;
            self.pause = if lasted { least } else { Duration((self.pause.as_nanos() * 2).min(most.as_nanos())) };
        }
        self.last = Some(now);
        true
    }
}

impl Process {
    /// Whether there is a processor for every rank of the node that is awake. Where there are fewer than ranks it is no: those that sleep
    /// will want theirs as soon as they are woken, and would have to wait for the end of a spin.
    #[inline]
    fn has_processors(&self) -> bool {
        self.engine.as_ref().is_none_or(|engine| !engine.is_crowded() && engine.awake() <= self.processors)
    }

    /// Whether a pass in vain is worth more than a sleep, as far as is known.
    #[inline]
    pub(crate) fn may_spin(&self) -> bool {
        self.has_processors() && self.spin.budget() > Duration::default()
    }
}
