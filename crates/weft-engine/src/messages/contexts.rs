//! The end of contexts whose communicators are gone.
//!
//! `weft-mpi` calls it when a communicator is freed.

use std::ops::Range;

use super::{Body, Messages, PeerAccess};

impl Messages {
    /// Notes that the communicator of these contexts is gone. The contexts without queued entries are
    /// forgotten; operations that have begun in the other contexts go on.
    pub fn release_contexts(&mut self, contexts: Range<u32>) {
        contexts.for_each(|context| self.matcher.release_context(context));
    }

    /// Forgets empty queues, and the unexpected messages of each context for which `is_over` holds: no
    /// receive can match them any more.
    ///
    /// The senders get their credit back. A context stays as long as a receive is posted in it, or a message
    /// is still arriving in pieces.
    pub fn discard_contexts(&mut self, is_over: impl Fn(u32) -> bool, peers: &mut impl PeerAccess) {
        self.forget_given_up(&is_over);
        let contexts: Vec<u32> = self.matcher.contexts().collect();
        for context in contexts {
            self.matcher.release_context(context);
            if !is_over(context) {
                continue;
            }
            let unexpected = &self.unexpected;
            let is_arriving =
                |id: usize| unexpected.get(id).is_some_and(|message| matches!(message.body, Body::Arriving { .. }));
            let arrives = self.matcher.unexpected_mut(context, |_, id| is_arriving(*id)).is_some();
            if arrives || self.matcher.counts_in(context).0 > 0 {
                continue;
            }
            for (_, id) in self.matcher.drop_context(context).unexpected {
                let Some(message) = self.unexpected.remove(id) else { continue };
                // The data of an announced message is its sender's, and costs no credit.
                if let Body::Whole { bytes, .. } = message.body {
                    self.let_go(message.peer, bytes.len() as u64, message.is_lent, peers);
                    self.put_aside(bytes);
                }
            }
        }
    }
}
