//! The part of the message layer for programs that survive failures of processes (User-Level Failure
//! Mitigation). The message layer keeps the list of failed processes, in the order in which it heard of them.
//! A receive from any source fails while the list has a process that the program has not acknowledged.
//!
//! `weft-mpi` decides which contexts are barred, and what is revoked (`recovery.rs` there).

use std::ops::Range;

use weft_core::message::Head;

use super::{Messages, Outgoing, PeerAccess, failure};
use crate::error::{Error, ErrorClass};
use crate::group::PeerId;
use crate::request::{Receive, Request, State};

/// The most revoked contexts that wait to be looked at. More come only from peers that send nonsense.
const REVOKED_MAX: usize = 4096;

/// The failures, and the contexts that they concern.
#[derive(Default)]
pub struct Recovery {
    /// The program wants to go on after failures: receives from any source are not failed by any failure.
    pub goes_on: bool,
    /// Set when there is something for `weft-mpi` to look at.
    pub has_news: bool,
    /// The peers that have failed, in the order in which this process has learned of it.
    pub failures: Vec<PeerId>,
    /// The number of those that [`Self::take_failures`] has given out.
    taken: usize,
    /// The first contexts of communicators that peers have said to be revoked.
    revoked: Vec<u32>,
    /// The contexts in which no receive from any source may wait without a warning.
    barred: Vec<(u32, Bar)>,
}

/// The reason why a context is barred to receives from any source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// This process has failed, and the program has not acknowledged it.
    Failed(PeerId),
    /// The communicator has been revoked.
    Revoked,
}

impl Bar {
    /// The error of a receive or probe that ends for this reason.
    fn error(self, peers: &impl PeerAccess) -> Error {
        match self {
            Self::Failed(peer) => failure(peer, peers),
            Self::Revoked => Error::revoked(),
        }
    }
}

impl Recovery {
    /// Returns whether any context is barred.
    #[inline(always)]
    pub fn bars_any(&self) -> bool {
        !self.barred.is_empty()
    }

    /// The reason why a context is barred.
    fn bar_of(&self, context: u32) -> Option<Bar> {
        self.barred.iter().find(|(barred, _)| *barred == context).map(|(_, bar)| *bar)
    }

    /// Returns whether the communicator of this context has been revoked.
    pub(super) fn is_revoked(&self, context: u32) -> bool {
        self.bar_of(context) == Some(Bar::Revoked)
    }

    /// Takes the contexts that peers have said to be revoked.
    pub fn take_revoked(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.revoked)
    }

    pub(super) fn note_failure(&mut self, peer: PeerId) {
        if !self.failures.contains(&peer) {
            self.failures.push(peer);
            self.has_news = true;
        }
    }

    /// The failures that this has not given out before.
    pub fn take_failures(&mut self) -> Vec<PeerId> {
        let new = self.failures.get(self.taken..).unwrap_or_default().to_vec();
        self.taken = self.failures.len();
        new
    }

    /// Forgets that a context is barred: its communicator is gone.
    pub fn forget_bar(&mut self, context: u32) {
        self.barred.retain(|(barred, _)| *barred != context);
    }

    /// Forgets a peer that has left and may be another process from now on.
    pub(crate) fn forget(&mut self, peer: PeerId) {
        if let Some(at) = self.failures.iter().position(|failed| *failed == peer) {
            self.failures.remove(at);
            // The failures behind it are as new as before.
            self.taken -= usize::from(at < self.taken);
        }
        self.barred.retain(|(_, bar)| *bar != Bar::Failed(peer));
    }
}

/// The warning that a receive from any source is still posted, but may be for a process that has failed.
fn warning(peer: PeerId, peers: &impl PeerAccess) -> Error {
    let failed = failure(peer, peers);
    let message =
        format!("{failed}; the receive from any source is still posted: MPIX_Comm_ack_failed lets it wait on");
    Error::new(ErrorClass::ProcFailedPending, message)
}

/// Returns whether a request is a receive that is still posted although a wait for it ends with a warning.
pub(crate) fn is_warned(request: &Request) -> bool {
    matches!(request.state, State::Posted(_)) && request.error.is_some()
}

impl Messages {
    /// Notes that a communicator has been revoked.
    pub(super) fn handle_revoked(&mut self, context: u32) {
        let recovery = &mut self.recovery;
        if recovery.revoked.len() < REVOKED_MAX && !recovery.revoked.contains(&context) {
            recovery.revoked.push(context);
            recovery.has_news = true;
            self.completions.notify();
        }
    }

    /// Tells `peer` that the communicator with this first context has been revoked.
    pub fn tell_revoked(&mut self, peer: PeerId, context: u32) {
        self.outbox.push((peer, Outgoing::Control(Head::revoked(context))));
    }

    /// Deals with a receive from any source that has just been posted, when contexts are barred. Returns
    /// whether it waits.
    #[cold]
    pub(super) fn is_waiting_barred(&mut self, handle: usize, context: u32, peers: &impl PeerAccess) -> bool {
        let Some(bar) = self.recovery.bar_of(context) else { return true };
        self.warn(handle, context, bar, peers)
    }

    /// Warns a posted receive from any source. A receive in whose call the program waits fails instead, and
    /// so does any if the communicator is revoked; returns whether the receive is still posted.
    fn warn(&mut self, handle: usize, context: u32, bar: Bar, peers: &impl PeerAccess) -> bool {
        let Some(request) = self.requests.get_mut(handle) else { return false };
        let State::Posted(Receive { blocking, .. }) = &request.state else { return true };
        match bar {
            Bar::Failed(peer) if !blocking => {
                request.error = Some(warning(peer, peers));
                self.completions.notify();
                true
            }
            _ => {
                self.matcher.cancel(context, |posted| *posted == handle);
                self.fail_over(handle, bar.error(peers));
                false
            }
        }
    }

    /// Bars a context: receives from any source there end with a warning or an error from now on.
    pub fn bar(&mut self, context: u32, bar: Bar, peers: &impl PeerAccess) {
        match self.recovery.barred.iter_mut().find(|(barred, _)| *barred == context) {
            Some((_, Bar::Revoked)) => return,
            Some((_, known)) if bar == Bar::Revoked => *known = bar,
            Some(_) => return,
            None => self.recovery.barred.push((context, bar)),
        }
        for handle in self.posted_to_anybody(context) {
            self.warn(handle, context, bar, peers);
        }
        // Probes look again.
        self.completions.notify();
    }

    /// Opens a context whose failures have been acknowledged: receives from any source wait on without a
    /// warning, unless the communicator is revoked.
    pub fn unbar(&mut self, context: u32) {
        self.recovery.barred.retain(|bar| *bar == (context, Bar::Revoked) || bar.0 != context);
        for handle in self.posted_to_anybody(context) {
            if let Some(request) = self.requests.get_mut(handle) {
                request.error = None;
            }
        }
    }

    /// The error of a probe for any source in a context that is barred.
    pub(super) fn probe_barred(&self, context: u32, peers: &impl PeerAccess) -> Option<Error> {
        self.recovery.bar_of(context).map(|bar| bar.error(peers))
    }

    /// The receives from any source that are posted in a context, except those that a live process is writing
    /// to.
    fn posted_to_anybody(&self, context: u32) -> Vec<usize> {
        let is_posted = |request: &Request| match &request.state {
            State::Posted(receive) => {
                receive.context == Some(context) && receive.source.is_none() && request.ticket.is_none()
            }
            _ => false,
        };
        self.requests.iter().filter(|(_, request)| is_posted(request)).map(|(handle, _)| handle).collect()
    }

    /// Fails a receive that waits with a warning for any source: its call cannot return and leave it posted.
    pub fn fail_warned(&mut self, handle: usize) {
        let Some(request) = self.requests.get_mut(handle).filter(|request| is_warned(request)) else { return };
        let State::Posted(Receive { context: Some(context), .. }) = request.state else { return };
        let error = request.error.take();
        self.matcher.cancel(context, |posted| *posted == handle);
        let message = error.map_or_else(String::new, |error| error.message.to_string());
        self.fail(handle, Error::new(ErrorClass::ProcAborted, message));
    }

    /// The point-to-point operations under way in `contexts`, apart from messages that both sides have begun
    /// to move.
    pub fn interruptible(&self, contexts: &Range<u32>) -> Vec<usize> {
        let is_there = |request: &Request| match &request.state {
            State::Posted(Receive { context: Some(context), .. }) | State::AwaitingMatch { context, .. } => {
                contexts.contains(context)
            }
            State::Queued(send) | State::Announced(send) => contexts.contains(&send.envelope.context),
            _ => false,
        };
        self.requests.iter().filter(|(_, request)| is_there(request)).map(|(handle, _)| handle).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_given_out_once_whatever_is_forgotten() {
        let [one, two, three] = [1, 2, 3].map(|index| PeerId::new(index, 0));
        let mut recovery = Recovery::default();
        recovery.note_failure(one);
        recovery.note_failure(two);
        assert_eq!(recovery.take_failures(), [one, two]);
        // A process that has failed is forgotten, and another one fails.
        recovery.forget(one);
        recovery.note_failure(three);
        assert_eq!((recovery.take_failures(), recovery.take_failures()), (vec![three], vec![]));
        // One that nobody has been told of is forgotten.
        recovery.note_failure(one);
        recovery.forget(one);
        assert_eq!((recovery.take_failures(), &recovery.failures[..]), (vec![], &[two, three][..]));
    }
}
