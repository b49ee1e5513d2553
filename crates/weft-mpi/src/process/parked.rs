//! The threads of this process that are parked: each is woken by itself, when what it waits for is complete.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use weft_engine::messages::Messages;
use weft_engine::request::State;
use weft_engine::waiting::Waiters;

use super::Process;
use crate::awaited::Awaited;

/// Where one thread is parked. It has a lock of its own: who waited for that of the process would not be seen
/// to want it back (`crate::contention`).
#[derive(Debug, Default)]
pub(super) struct Place {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Place {
    /// Waits until somebody has woken this thread.
    pub(super) fn wait(&self) {
        let is_woken = self.is_woken.lock().unwrap_or_else(PoisonError::into_inner);
        let woken = self.changed.wait_while(is_woken, |is_woken| !*is_woken);
        *woken.unwrap_or_else(PoisonError::into_inner) = false;
    }

    fn wake(&self) {
        *self.is_woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }
}

/// Those that are parked and have not been woken, in the order in which they came.
#[derive(Debug)]
pub(super) struct Parked {
    threads: Vec<Thread>,
    /// Places of threads that are parked no more.
    free: Vec<Arc<Place>>,
}

#[derive(Debug)]
struct Thread {
    awaited: Awaited,
    /// Any news may be what it waits for.
    is_vague: bool,
    place: Arc<Place>,
}

impl Parked {
    /// Nobody is.
    pub(super) const fn new() -> Self {
        Self { threads: Vec::new(), free: Vec::new() }
    }

    /// The thread that was parked there runs again.
    pub(super) fn give_back(&mut self, place: Arc<Place>) {
        self.free.push(place);
    }

    /// The requests without which the calls of those that are parked do not return.
    pub(super) fn requests(&self) -> impl Iterator<Item = usize> + '_ {
        self.threads.iter().flat_map(|thread| thread.awaited.requests())
    }
}

impl Process {
    /// This thread is parked from now on; where it is to [wait](Place::wait).
    pub(super) fn park(&mut self, awaited: Awaited) -> Arc<Place> {
        self.waiters.park();
        let place = self.parked.free.pop().unwrap_or_default();
        let is_vague = self.is_vague(&awaited);
        self.parked.threads.push(Thread { awaited, is_vague, place: Arc::clone(&place) });
        place
    }

    /// Operations have completed: wakes those whose calls may return.
    pub(super) fn wake_concerned(&mut self) {
        let Self { parked, engine, waiters, .. } = self;
        let Some(engine) = engine else { return };
        wake(parked, waiters, |thread| thread.is_vague || may_return(&thread.awaited, &engine.messages));
    }

    /// Something may have happened that is no completion of an operation: wakes those that may wait for that.
    pub(super) fn wake_vague(&mut self) {
        wake(&mut self.parked, &mut self.waiters, |thread| thread.is_vague);
    }

    /// Wakes one thread, which has to make progress from now on.
    pub(super) fn wake_driver(&mut self) {
        let mut is_first = true;
        wake(&mut self.parked, &mut self.waiters, |_| std::mem::take(&mut is_first));
    }

    /// Whether the one who sleeps must hear of what has completed: its call may return, or it has to move
    /// collectives on.
    pub(super) fn concerns_sleeper(&self) -> bool {
        let Some(engine) = &self.engine else { return false };
        self.is_vague(&self.awaited)
            || may_return(&self.awaited, &engine.messages)
            || (!self.collectives.is_empty() && self.collectives_seen != engine.messages.completions())
            || self.has_due_reductions()
    }

    /// Whether a call that waits for `awaited` may return although no request of it has been marked complete.
    fn is_vague(&self, awaited: &Awaited) -> bool {
        let Some(engine) = &self.engine else { return true };
        // Requests that consist of others are complete when somebody looks.
        let consists_of_others = |handle: &usize| {
            let request = engine.messages.requests.get(*handle);
            request.is_some_and(|request| {
                matches!(
                    request.state,
                    State::Pair { .. } | State::Labelled { .. } | State::Flush(_) | State::Partitioned
                )
            })
        };
        self.checks_calls || awaited.handles().is_none_or(|handles| handles.iter().any(consists_of_others))
    }
}

/// Whether a call that waits for `awaited` may return.
fn may_return(awaited: &Awaited, messages: &Messages) -> bool {
    let is_complete = |handle: &usize| messages.requests.get(*handle).is_none_or(|request| request.is_complete());
    let Some(handles) = awaited.handles() else { return true };
    let has_come = match awaited {
        Awaited::Any(_) => handles.iter().any(is_complete),
        _ => handles.iter().all(is_complete),
    };
    has_come || messages.has_given_up()
}

/// Wakes those that are `chosen`.
fn wake(parked: &mut Parked, waiters: &mut Waiters, mut chosen: impl FnMut(&Thread) -> bool) {
    parked.threads.retain(|thread| {
        let wakes = chosen(thread);
        if wakes {
            waiters.unpark();
            thread.place.wake();
        }
        !wakes
    });
}
