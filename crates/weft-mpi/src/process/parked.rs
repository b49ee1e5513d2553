//! The parked threads of this process. Each of them is woken by itself, when its operation is complete.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use weft_engine::messages::Messages;
use weft_engine::request::State;
use weft_engine::waiting::Waiters;

use super::Process;
use crate::awaited::Awaited;

/// The place where one thread is parked. It has a lock of its own: a thread that waited for the process lock
/// would not be seen to want it back (`crate::contention`).
#[derive(Debug, Default)]
pub(super) struct Place {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Place {
    /// Waits until another thread wakes this one.
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

/// The threads that are parked and have not been woken, in the order in which they came.
#[derive(Debug)]
pub(super) struct Parked {
    threads: Vec<Thread>,
    /// Places that no thread uses at present.
    free: Vec<Arc<Place>>,
}

#[derive(Debug)]
struct Thread {
    awaited: Awaited,
    /// Any news may concern this thread.
    is_vague: bool,
    place: Arc<Place>,
}

impl Parked {
    /// The state in which no thread is parked.
    pub(super) const fn new() -> Self {
        Self { threads: Vec::new(), free: Vec::new() }
    }

    /// Takes back the place of a thread that runs again.
    pub(super) fn give_back(&mut self, place: Arc<Place>) {
        self.free.push(place);
    }

    /// The requests that the calls of parked threads wait for.
    pub(super) fn requests(&self) -> impl Iterator<Item = usize> + '_ {
        self.threads.iter().flat_map(|thread| thread.awaited.requests())
    }
}

impl Process {
    /// Parks this thread. Returns the place where it is to [wait](Place::wait).
    pub(super) fn park(&mut self, awaited: Awaited) -> Arc<Place> {
        self.waiters.park();
        let place = self.parked.free.pop().unwrap_or_default();
        let is_vague = self.is_vague(&awaited);
        self.parked.threads.push(Thread { awaited, is_vague, place: Arc::clone(&place) });
        place
    }

    /// Wakes the threads whose calls may return, after operations have completed.
    pub(super) fn wake_concerned(&mut self) {
        let Self { parked, engine, waiters, .. } = self;
        let Some(engine) = engine else { return };
        wake(parked, waiters, |thread| thread.is_vague || may_return(&thread.awaited, &engine.messages));
    }

    /// Wakes the threads that may wait for something else than the completion of an operation.
    pub(super) fn wake_vague(&mut self) {
        wake(&mut self.parked, &mut self.waiters, |thread| thread.is_vague);
    }

    /// Wakes one thread, which makes progress from now on.
    pub(super) fn wake_driver(&mut self) {
        let mut is_first = true;
        wake(&mut self.parked, &mut self.waiters, |_| std::mem::take(&mut is_first));
    }

    /// Returns whether the thread that sleeps in the kernel must learn what has completed: its call may
    /// return, or it has to move collectives on.
    pub(super) fn concerns_sleeper(&self) -> bool {
        let Some(engine) = &self.engine else { return false };
        self.is_vague(&self.awaited)
            || may_return(&self.awaited, &engine.messages)
            || (!self.collectives.is_empty() && self.collectives_seen != engine.messages.completions())
            || self.has_due_reductions()
    }

    /// Returns whether a call that waits for `awaited` may return although none of its requests has been
    /// marked complete.
    fn is_vague(&self, awaited: &Awaited) -> bool {
        let Some(engine) = &self.engine else { return true };
        // Requests that consist of others become complete when a thread looks.
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

/// Returns whether a call that waits for `awaited` may return.
fn may_return(awaited: &Awaited, messages: &Messages) -> bool {
    let is_complete = |handle: &usize| messages.requests.get(*handle).is_none_or(|request| request.is_complete());
    let Some(handles) = awaited.handles() else { return true };
    let has_come = match awaited {
        Awaited::Any(_) => handles.iter().any(is_complete),
        _ => handles.iter().all(is_complete),
    };
    has_come || messages.has_given_up()
}

/// Wakes the threads that are `chosen`.
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
