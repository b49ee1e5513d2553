//! The processes for which this process waits, and what becomes of an operation when its peer is gone.
//!
//! `engine/awaited.rs` asks which peers to question, and `weft-mpi` what a process that ends has left
//! unfinished.

use weft_core::matching::Envelope;

use super::{Messages, Peer, PeerAccess, failure};
use crate::error::{Error, Result};
use crate::group::PeerId;
use crate::request::{Fin, Hold, Receive, Request, State};

/// An operation that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The request of the operation.
    pub request: usize,
    /// Set for a send.
    pub is_send: bool,
    /// The destination or source; `None`: any source.
    pub peer: Option<PeerId>,
    /// The tag; `None`: any tag.
    pub tag: Option<i32>,
    /// Set when no message of the other side belongs to the operation yet, as far as is known here.
    pub is_unmatched: bool,
}

impl Peer {
    /// Returns whether a probe has looked for a message of this peer in vain since the last call.
    pub fn take_probed(&mut self) -> bool {
        std::mem::take(&mut self.probed)
    }
}

impl Messages {
    /// Notes that a probe in `context` for a message of `peer`, or of any source, has found nothing.
    /// `is_member` says whether a process belongs to the communicator.
    ///
    /// # Errors
    /// The message will not come, since its sender is gone. A probe for any source hears of a failure if no
    /// other caller has heard of it yet.
    pub fn probed_in_vain(
        &mut self,
        context: u32,
        peer: Option<PeerId>,
        is_member: impl Fn(PeerId) -> bool,
        peers: &mut impl PeerAccess,
    ) -> Result<()> {
        if let Some(error) = self.probe_barred(context, peers).filter(|_| peer.is_none()) {
            return Err(error);
        }
        let gone = match peer {
            Some(peer) => Some(peer).filter(|peer| peers.has_failed(*peer)),
            None if self.recovery.goes_on => None,
            None => self.unheard.take_if(|peer| is_member(*peer)),
        };
        if let Some(peer) = gone {
            return Err(failure(peer, peers));
        }
        self.probed = true;
        match peer {
            Some(peer) => peers.peer_mut(peer).probed = true,
            None => self.probed_anybody = true,
        }
        Ok(())
    }

    /// Returns whether this process waits for any peer, as far as can be told at once.
    pub fn awaits(&self) -> bool {
        self.probed || self.are_under_way()
    }

    /// Tells of each peer for which an operation waits, some of them more than once; `None` means any source.
    ///
    /// It calls `probed` if peers are to be asked ([`Peer::take_probed`]) whether a probe waits for them: a
    /// probe counts once.
    pub fn take_awaited(&mut self, probed: &mut dyn FnMut(), tell: &mut dyn FnMut(Option<PeerId>)) {
        for (_, request) in self.requests.iter() {
            match &request.state {
                State::Queued(send) | State::Announced(send) | State::Sending { send, .. } if send.peer.is_some() => {
                    tell(send.peer);
                }
                State::Posted(Receive { context: Some(_), source: None, .. }) => tell(None),
                State::Posted(Receive { context: Some(_), peer: Some(peer), .. })
                | State::AwaitingMatch { peer, .. }
                | State::Receiving { peer, .. } => tell(Some(*peer)),
                _ => {}
            }
        }
        if !std::mem::take(&mut self.probed) {
            return;
        }
        if std::mem::take(&mut self.probed_anybody) {
            tell(None);
        }
        probed();
    }

    /// The rank and the tag of each unexpected message in `context`.
    pub fn unexpected_in(&mut self, context: u32) -> Vec<(u32, i32)> {
        let mut found = Vec::new();
        let look = |envelope: &Envelope, _: &usize| {
            found.push((envelope.source, envelope.tag));
            false
        };
        self.matcher.unexpected_mut(context, look);
        found
    }

    /// Drops an empty message that no receive has asked for.
    pub fn drop_unexpected(&mut self, context: u32, source: u32, tag: i32) {
        if let Some((_, unexpected)) = self.matcher.extract(context, Some(source), Some(tag)) {
            self.unexpected.remove(unexpected);
        }
    }

    /// The processes without which blocking calls do not return, or `requests` do not complete. Operations in
    /// `context` do not count.
    pub fn waited_for(&self, context: u32, requests: &[usize]) -> Vec<PeerId> {
        let mut peers: Vec<PeerId> = self
            .requests
            .iter()
            .filter(|(handle, request)| waits(request, context, requests.contains(handle)))
            .filter_map(|(_, request)| partner(request))
            .collect();
        weft_ordered::sort(&mut peers);
        peers.dedup();
        peers
    }

    /// Notes that `peer` sends nothing any more except in `context`. Blocking receives, and the receives
    /// among `requests`, for which a call waits as well, fail with `error` if they need `peer`.
    ///
    /// Returns whether there are any.
    pub fn no_message_from(&mut self, peer: PeerId, context: u32, requests: &[usize], error: &Error) -> bool {
        let affected: Vec<(usize, u32)> = self
            .unmatched_with(peer, context, requests)
            .filter_map(|(handle, request)| match &request.state {
                State::Posted(receive) => Some((handle, receive.context?)),
                _ => None,
            })
            .collect();
        for (handle, context) in &affected {
            self.matcher.cancel(*context, |posted| posted == handle);
            self.fail(*handle, error.clone());
        }
        !affected.is_empty()
    }

    /// The blocking sends to `peer`, and the sends among `requests`, that no receive of `peer` has matched,
    /// as far as is known here.
    pub fn unmatched_sends(&self, peer: PeerId, context: u32, requests: &[usize]) -> Vec<usize> {
        let sends = self.unmatched_with(peer, context, requests);
        sends.filter(|(_, request)| !matches!(request.state, State::Posted(_))).map(|(handle, _)| handle).collect()
    }

    fn unmatched_with(
        &self,
        peer: PeerId,
        context: u32,
        requests: &[usize],
    ) -> impl Iterator<Item = (usize, &Request)> {
        self.requests.iter().filter(move |(handle, request)| {
            partner(request) == Some(peer) && waits(request, context, requests.contains(handle))
        })
    }

    /// Fails those of `sends` that still nothing has matched with `error`: nothing will match them. Returns
    /// whether there are any.
    pub fn fail_unmatched(&mut self, sends: &[usize], error: &Error) -> bool {
        let is_unmatched =
            |handle: &&usize| self.requests.get(**handle).is_some_and(|request| partner(request).is_some());
        let unmatched: Vec<usize> = sends.iter().filter(is_unmatched).copied().collect();
        unmatched.iter().for_each(|handle| self.fail(*handle, error.clone()));
        !unmatched.is_empty()
    }

    /// Returns whether a message of `peer` is on its way to a receive.
    pub fn is_receiving_from(&self, peer: PeerId) -> bool {
        self.requests
            .iter()
            .any(|(_, request)| matches!(&request.state, State::Receiving { peer: from, .. } if *from == peer))
    }

    /// Returns whether sends, receives or collective operations on `communicator` are under way.
    pub fn is_used(&self, communicator: usize) -> bool {
        let is_of = |request: &Request| request.communicator == communicator && !request.is_complete();
        self.requests.iter().any(|(_, request)| is_of(request) && !matches!(request.state, State::Generalized))
    }

    /// The sends and receives under way that the program cannot complete itself: it has freed them, or they
    /// are `lent` to it.
    pub fn unfinished(&self, lent: &[usize]) -> Vec<Unfinished> {
        let stage = |(handle, request): (usize, &Request)| {
            let found = |is_send, peer, tag, is_unmatched| {
                Some(Unfinished { request: handle, is_send, peer, tag, is_unmatched })
            };
            if request.hold != Hold::Freed && !lent.contains(&handle) {
                return None;
            }
            match &request.state {
                // An eager write, or a message that was relocated, is complete for the program.
                State::Sending { fin: Fin::Awaited, .. } | State::Announced(_) if self.is_remnant(handle) => None,
                State::Queued(send) | State::Sending { send, .. } => {
                    found(true, send.peer, Some(send.envelope.tag), false)
                }
                State::Announced(send) => found(true, send.peer, Some(send.envelope.tag), true),
                State::AwaitingMatch { peer, .. } => found(true, Some(*peer), None, true),
                State::Posted(Receive { context: Some(_), peer, tag, .. }) => found(false, *peer, *tag, true),
                State::Receiving { peer, .. } => found(false, Some(*peer), None, false),
                _ => None,
            }
        };
        self.requests.iter().filter_map(stage).collect()
    }

    /// Fails every operation that waits for `peer`: it is gone, for `reason`.
    pub fn peer_failed(&mut self, peer: PeerId, reason: &str, peers: &mut impl PeerAccess) {
        peers.peer_mut(peer).failed.get_or_insert_with(|| reason.to_owned());
        self.recovery.note_failure(peer);
        let goes_on = self.recovery.goes_on;
        let waits = |request: &Request| match &request.state {
            State::Queued(send) | State::Announced(send) | State::Sending { send, .. } => send.peer == Some(peer),
            State::AwaitingMatch { peer: to, .. } => *to == peer,
            // A receive from any source may be waiting for the dead process: it must not wait for ever.
            State::Posted(receive) => {
                // A receive that a live process is writing to has its message.
                let is_taken = receive.source.is_none() && request.ticket.is_some();
                // A program that survives failures says which of them matter to such a receive.
                let is_for_anybody = receive.source.is_none() && !goes_on;
                receive.context.is_some() && !is_taken && (receive.peer == Some(peer) || is_for_anybody)
            }
            State::Receiving { peer: from, .. } => *from == peer,
            _ => false,
        };
        let affected: Vec<usize> =
            self.requests.iter().filter(|(_, request)| waits(request)).map(|(handle, _)| handle).collect();
        self.unheard = Some(peer);
        for handle in affected {
            if let Some(State::Posted(Receive { context: Some(context), source, .. })) =
                self.requests.get(handle).map(|entry| &entry.state)
            {
                let context = *context;
                if source.is_none() {
                    self.unheard = None;
                }
                self.matcher.cancel(context, |posted| *posted == handle);
            }
            let error = failure(peer, peers);
            self.fail_over(handle, error);
        }
    }
}

/// The process that must act before a request completes, if it has not begun to.
fn partner(request: &Request) -> Option<PeerId> {
    match &request.state {
        State::Posted(receive) => receive.peer,
        State::Announced(send) => send.peer,
        State::AwaitingMatch { peer, .. } => Some(*peer),
        _ => None,
    }
}

/// Returns whether a call waits for `request` and does not return without it: a blocking call, or a call that
/// waits for this very request.
fn waits(request: &Request, context: u32, is_awaited: bool) -> bool {
    match &request.state {
        // A receive that the peer may be writing to has a ticket: whether the peer is writing is not known
        // here.
        State::Posted(receive) => {
            (receive.blocking || is_awaited)
                && receive.context.is_some_and(|its| its != context)
                && request.ticket.is_none()
        }
        State::Announced(send) => (send.blocking || is_awaited) && send.envelope.context != context,
        State::AwaitingMatch { context: its, .. } => is_awaited && *its != context,
        _ => false,
    }
}
