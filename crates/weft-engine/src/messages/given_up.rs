//! Collective operations that have failed at one process.
//!
//! That process tells the other members, since they may wait for its messages, or for another waiting member
//! (docs/design/collectives.md).

use weft_core::message::Head;

use super::{Messages, Outgoing, PeerAccess};
use crate::arguments::CollectiveScope;
use crate::error::{Cause, Error, ErrorClass};
use crate::group::PeerId;

/// The most failures that this process keeps of operations that it has not come to yet; the oldest are
/// forgotten. An operation that was complete here before its failure was told never meets the failure.
const GIVEN_UP_MAX: usize = 1024;

/// The largest group of which every member is told. Then all members end, even where they disagree about who
/// sends to whom because their arguments differ. In larger groups each process tells those with which it has
/// still to do.
const TOLD_WHOLE_MAX: u32 = 1024;

/// A report by a peer that it has given an operation up.
pub(super) struct GivenUp {
    context: u32,
    tag: i32,
    peer: PeerId,
    cause: Cause,
}

impl Messages {
    /// Notes that `peer` has given the operation of `tag` in `context` up.
    pub(super) fn handle_given_up(&mut self, peer: PeerId, context: u32, tag: i32, cause: Cause) {
        // An error has the same meaning at the other processes.
        let class = match cause.class {
            class @ (ErrorClass::Truncate | ErrorClass::ProcAborted) => class,
            _ => ErrorClass::Other,
        };
        let cause = Cause { class, ..cause };
        // One report is enough, and several processes may send it.
        self.given_up.retain(|known| (known.context, known.tag) != (context, tag));
        if self.given_up.len() == GIVEN_UP_MAX {
            self.given_up.remove(0);
        }
        self.given_up.push(GivenUp { context, tag, peer, cause });
        self.completions.notify();
    }

    /// The reason why an operation cannot succeed any more, if a member has given it up.
    #[inline]
    pub(crate) fn given_up(&self, scope: &CollectiveScope, peers: &impl PeerAccess) -> Option<Error> {
        if self.given_up.is_empty() { None } else { self.find_given_up(scope, peers) }
    }

    /// Returns whether any operation has been given up.
    #[inline]
    pub fn has_given_up(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// Returns whether a member has given up the operation that this context and tag name.
    #[inline]
    pub fn is_given_up(&self, context: u32, tag: i32) -> bool {
        self.given_up.iter().any(|given_up| (given_up.context, given_up.tag) == (context, tag))
    }

    #[cold]
    fn find_given_up(&self, scope: &CollectiveScope, peers: &impl PeerAccess) -> Option<Error> {
        let is_of = |given_up: &&GivenUp| {
            (given_up.context, given_up.tag) == (scope.context, scope.tag)
                && scope.group.members.contains(&given_up.peer)
        };
        let GivenUp { peer, cause: Cause { class, finalized }, .. } = *self.given_up.iter().find(is_of)?;
        if let Some(number) = finalized {
            return Some(Error::finalized(number));
        }
        let why = match class {
            ErrorClass::Truncate => {
                "it was sent more than its buffer holds: all processes must describe the same amount of data"
            }
            ErrorClass::ProcAborted => "a process that it needed is gone",
            _ => "it could not do its part",
        };
        let who = if peers.is_known(peer) { peers.number(peer).to_string() } else { "(which has left)".to_owned() };
        let message = format!("process {who} of the job has given this collective operation up: {why}");
        Some(Error::consequence(class, message))
    }

    /// Forgets the operations of the contexts for which `is_over` holds: their communicators are gone.
    pub fn forget_given_up(&mut self, is_over: impl Fn(u32) -> bool) {
        self.given_up.retain(|given_up| !is_over(given_up.context));
    }

    /// Tells other processes that this process has given an operation up for a `cause`.
    ///
    /// If this process is the first to know and the group is not too large, all members are told. Otherwise
    /// only the `partners` are told: processes with which this one has still to exchange messages.
    pub(crate) fn give_up(
        &mut self,
        scope: &CollectiveScope,
        cause: Cause,
        is_first: bool,
        partners: Vec<u32>,
        peers: &impl PeerAccess,
    ) {
        // Each process is told once, however many messages there are between the two.
        let mut told: Vec<u32> =
            if is_first && scope.group.size() <= TOLD_WHOLE_MAX { (0..scope.group.size()).collect() } else { partners };
        weft_ordered::sort(&mut told);
        told.dedup();
        let head = Head::given_up(scope.context, scope.tag, ErrorClass::to_wire(Some(cause.class)), cause.finalized);
        for rank in told.into_iter().filter(|rank| *rank != scope.rank) {
            let peer = scope.group.members[rank as usize];
            if !peers.has_failed(peer) {
                self.outbox.push((peer, Outgoing::Control(head)));
            }
        }
    }
}
