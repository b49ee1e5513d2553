//! Matching: which receive takes which message (MPI-5.0 §3.5, §3.8).
//!
//! Each context (a communicator's kind of traffic) has two queues: posted receives, which wait for a message,
//! and unexpected messages, which wait for a receive. No entry of one queue ever matches an entry of the
//! other, because a match is taken out at once. A receive takes the earliest matching message, and a message
//! takes the earliest matching receive, wildcards or not. This is the order of §3.5, as long as messages
//! arrive in the order in which their sender started them.
//!
//! The matcher does not limit the number of unexpected messages: the sender's credit does.

mod queue;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use queue::{Pattern, Queue, Table};

/// The values by which a message is matched (MPI-5.0 §3.2.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Envelope {
    /// The communicator's context.
    pub context: u32,
    /// Rank of the sender in the communicator (the remote group of an intercommunicator).
    pub source: u32,
    /// Tag.
    pub tag: i32,
}

/// The entries that were still queued in a context when it was dropped, oldest first.
#[derive(Debug)]
pub struct Leftovers<P, M> {
    /// Receives that no message ever matched.
    pub posted: Vec<P>,
    /// Messages that no receive ever matched.
    pub unexpected: Vec<(Envelope, M)>,
}

/// The match queues of a process. `P` stands for a posted receive, `M` for an unexpected message.
pub struct Matcher<P, M> {
    contexts: Vec<Queues<P, M>>,
    indices: Table<u32, u32>,
    /// Places in `contexts` that no context uses.
    free: Vec<u32>,
    /// The last context looked up and its index: the next lookup is mostly of the same one. No context at
    /// first.
    last: (u64, u32),
    /// Entries of all queues, counted so that no caller has to walk through the queues.
    posted: usize,
    unexpected: usize,
}

struct Queues<P, M> {
    posted: Queue<P, 1>,
    unexpected: Queue<M, 3>,
}

impl<P, M> Queues<P, M> {
    #[inline(never)]
    fn take_unexpected(&mut self, context: u32, wanted: &Pattern) -> Option<(Envelope, M)> {
        let id = self.unexpected.find(wanted)?;
        #[cfg(weft_mutant = "message_matched_out_of_order")]
        let id = self.unexpected.newest_where(|found, _| found.matches(wanted)).unwrap_or(id);
        let (found, message) = self.unexpected.remove(id)?;
        Some((envelope(context, &found), message))
    }

    #[inline(never)]
    fn keep(&mut self, arrived: Pattern, message: M) {
        self.unexpected.push(arrived, message);
    }
}

const NO_CONTEXT: (u64, u32) = (u64::MAX, 0);

impl<P, M> Default for Matcher<P, M> {
    fn default() -> Self {
        Matcher::new()
    }
}

impl<P, M> Matcher<P, M> {
    /// A matcher with nothing queued.
    pub fn new() -> Matcher<P, M> {
        Matcher {
            contexts: Vec::new(),
            indices: Table::default(),
            free: Vec::new(),
            last: NO_CONTEXT,
            posted: 0,
            unexpected: 0,
        }
    }

    /// Posts a receive: returns the earliest matching unexpected message, or else queues the receive.
    /// `source` None is `MPI_ANY_SOURCE`, `tag` None is `MPI_ANY_TAG`.
    #[inline(always)]
    pub fn post(&mut self, context: u32, source: Option<u32>, tag: Option<i32>, posted: P) -> Option<(Envelope, M)> {
        let wanted = Pattern::new(source, tag);
        let queues = self.queues(context);
        if queues.unexpected.len() > 0
            && let Some(found) = queues.take_unexpected(context, &wanted)
        {
            self.unexpected -= 1;
            return Some(found);
        }
        queues.posted.push(wanted, posted);
        self.posted += 1;
        None
    }

    /// Takes in a message: returns the earliest matching posted receive, or else queues the message that
    /// `make` returns, if any.
    #[inline(always)]
    pub fn arrive(&mut self, envelope: Envelope, make: impl FnOnce() -> Option<M>) -> Option<P> {
        let arrived = Pattern::new(Some(envelope.source), Some(envelope.tag));
        let queues = self.queues(envelope.context);
        if let Some(id) = queues.posted.find(&arrived) {
            #[cfg(weft_mutant = "receive_matched_out_of_order")]
            let id = queues.posted.newest_where(|wanted, _| wanted.matches(&arrived)).unwrap_or(id);
            let found = queues.posted.take(id);
            self.posted -= 1;
            return found;
        }
        if let Some(message) = make() {
            queues.keep(arrived, message);
            self.unexpected += 1;
        }
        None
    }

    /// The message that a receive posted now would take; it stays queued (`MPI_Iprobe`, MPI-5.0 §3.8.1).
    pub fn probe(&mut self, context: u32, source: Option<u32>, tag: Option<i32>) -> Option<(Envelope, &M)> {
        let queues = self.existing(context)?;
        let id = queues.unexpected.find(&Pattern::new(source, tag))?;
        queues.unexpected.get(id).map(|(found, message)| (envelope(context, found), message))
    }

    /// Takes out of the queue the message that a receive posted now would take (`MPI_Improbe`, MPI-5.0
    /// §3.8.2).
    pub fn extract(&mut self, context: u32, source: Option<u32>, tag: Option<i32>) -> Option<(Envelope, M)> {
        let queues = self.existing(context)?;
        let id = queues.unexpected.find(&Pattern::new(source, tag))?;
        self.take_out(context, id)
    }

    /// Returns whether a receive posted now would find a message.
    #[inline(always)]
    pub fn has_unexpected(&mut self, context: u32, source: Option<u32>, tag: Option<i32>) -> bool {
        let queues = self.queues(context);
        queues.unexpected.len() > 0 && queues.unexpected.has(&Pattern::new(source, tag))
    }

    /// Returns whether a message arriving now would find a receive.
    #[inline(always)]
    pub fn has_posted(&mut self, envelope: &Envelope) -> bool {
        let queues = self.queues(envelope.context);
        queues.posted.len() > 0 && queues.posted.has(&Pattern::new(Some(envelope.source), Some(envelope.tag)))
    }

    /// Returns whether the receives before `posted` that compete with it for messages all satisfy `pred`.
    /// `posted` is the newest receive, with `source` and `tag`. The look goes back to the first receive that
    /// takes every message for `posted`: when that receive was the newest, it passed the same test over the
    /// older ones. At most `limit` receives are looked at; if there are more, the answer is no.
    pub fn stands_behind(
        &mut self,
        context: u32,
        source: Option<u32>,
        tag: Option<i32>,
        posted: &P,
        limit: usize,
        mut pred: impl FnMut(&P) -> bool,
    ) -> bool
    where
        P: PartialEq,
    {
        let wanted = Pattern::new(source, tag);
        let Some(queues) = self.existing(context) else { return false };
        let (mut looks, mut stands, mut is_newest) = (0, true, true);
        queues.posted.newest_where(|pattern, other| {
            if core::mem::take(&mut is_newest) {
                stands = other == posted;
                return !stands;
            }
            looks += 1;
            if pattern.matches(&wanted) {
                stands = pred(other);
            }
            // A still older receive could match only messages that this older one could match, too.
            let settles = pattern.covers(&wanted);
            stands &= settles || looks < limit;
            settles || !stands
        });
        stands && !is_newest
    }

    /// Removes the earliest posted receive of which `pred` holds (`MPI_Cancel`, MPI-5.0 §3.8.4). Looks at all
    /// of them.
    pub fn cancel(&mut self, context: u32, pred: impl Fn(&P) -> bool) -> Option<P> {
        let posted = &mut self.existing(context)?.posted;
        let id = posted.oldest_where(|_, posted| pred(posted))?;
        let (_, posted) = posted.remove(id)?;
        self.posted -= 1;
        Some(posted)
    }

    /// Removes the earliest unexpected message of which `pred` holds: its sender has cancelled it. Looks at
    /// all of them.
    pub fn retract(&mut self, context: u32, mut pred: impl FnMut(&Envelope, &M) -> bool) -> Option<(Envelope, M)> {
        let unexpected = &mut self.existing(context)?.unexpected;
        let id = unexpected.oldest_where(|found, message| pred(&envelope(context, found), message))?;
        self.take_out(context, id)
    }

    fn take_out(&mut self, context: u32, id: u32) -> Option<(Envelope, M)> {
        let (found, message) = self.existing(context)?.unexpected.remove(id)?;
        self.unexpected -= 1;
        Some((envelope(context, &found), message))
    }

    /// The latest unexpected message of which `pred` holds, for example to append a later piece to it. Looks
    /// at all of them, newest first.
    pub fn unexpected_mut(&mut self, context: u32, mut pred: impl FnMut(&Envelope, &M) -> bool) -> Option<&mut M> {
        let unexpected = &mut self.existing(context)?.unexpected;
        let id = unexpected.newest_where(|found, message| pred(&envelope(context, found), message))?;
        unexpected.get_mut(id)
    }

    /// Forgets a context in which nothing is queued, because its communicator is gone. Operations that have
    /// begun on the communicator go on; a new entry makes the context anew.
    pub fn release_context(&mut self, context: u32) {
        if self.counts_in(context) == (0, 0) {
            self.drop_context(context);
        }
    }

    /// Forgets a context and hands over the entries that were queued in it.
    pub fn drop_context(&mut self, context: u32) -> Leftovers<P, M> {
        let Some(index) = self.indices.remove(&context) else {
            return Leftovers { posted: Vec::new(), unexpected: Vec::new() };
        };
        self.last = NO_CONTEXT;
        self.free.push(index);
        let fresh = Queues { posted: Queue::new(), unexpected: Queue::new() };
        let mut queues = core::mem::replace(&mut self.contexts[index as usize], fresh);
        self.posted -= queues.posted.len();
        self.unexpected -= queues.unexpected.len();
        let messages = queues.unexpected.drain().into_iter();
        Leftovers {
            posted: queues.posted.drain().into_iter().map(|(_, posted)| posted).collect(),
            unexpected: messages.map(|(found, message)| (envelope(context, &found), message)).collect(),
        }
    }

    /// The contexts that have queues.
    pub fn contexts(&self) -> impl Iterator<Item = u32> {
        self.indices.keys().copied()
    }

    /// Receives queued in all contexts.
    pub fn posted_count(&self) -> usize {
        self.posted
    }

    /// Messages queued in all contexts.
    pub fn unexpected_count(&self) -> usize {
        self.unexpected
    }

    /// The messages queued in each context, oldest first: for observers.
    pub fn unexpected(&self) -> impl Iterator<Item = (Envelope, &M)> {
        self.indices
            .iter()
            .filter_map(|(context, index)| Some((*context, self.contexts.get(*index as usize)?)))
            .flat_map(|(context, queues)| {
                queues.unexpected.iter().map(move |(found, message)| (envelope(context, found), message))
            })
    }

    /// (Receives, messages) queued in one context.
    pub fn counts_in(&self, context: u32) -> (usize, usize) {
        let index = self.indices.get(&context).and_then(|&index| self.contexts.get(index as usize));
        index.map_or((0, 0), |queues| (queues.posted.len(), queues.unexpected.len()))
    }

    fn existing(&mut self, context: u32) -> Option<&mut Queues<P, M>> {
        let index = *self.indices.get(&context)?;
        self.contexts.get_mut(index as usize)
    }

    #[inline(always)]
    fn queues(&mut self, context: u32) -> &mut Queues<P, M> {
        if self.last.0 != u64::from(context) {
            self.last = (u64::from(context), self.place_of(context));
        }
        &mut self.contexts[self.last.1 as usize]
    }

    #[inline(never)]
    fn place_of(&mut self, context: u32) -> u32 {
        if let Some(&index) = self.indices.get(&context) {
            return index;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.contexts.push(Queues { posted: Queue::new(), unexpected: Queue::new() });
            self.contexts.len() as u32 - 1
        });
        self.indices.insert(context, index);
        index
    }
}

fn envelope(context: u32, found: &Pattern) -> Envelope {
    Envelope { context, source: found.source(), tag: found.tag() }
}
