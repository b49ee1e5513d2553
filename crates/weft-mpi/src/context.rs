//! Contexts: the numbers that keep the messages of communicators apart (MPI-5.0 §7.1.2).
//!
//! All processes of a new communicator must agree on a number that none of them uses. Each offers the lowest one it has
//! never used, and the highest offer wins. With threads, two agreements of a process could run at the same time and
//! end with the same number; so only one thread of a process may offer at a time, the one with the lowest parent
//! context among those that wait, and an agreement in which anybody could not offer is repeated.

use std::collections::BTreeMap;

/// Contexts that each communicator takes: point-to-point, collectives, groups, and one in reserve.
pub const CONTEXTS_EACH: u32 = 4;

/// The contexts of this process.
pub struct Contexts {
    next: u32,
    owner: Option<u32>,
    /// How many threads wait to offer, by the context of the parent.
    waiting: BTreeMap<u32, u32>,
}

impl Contexts {
    /// Those of `MPI_COMM_WORLD` and `MPI_COMM_SELF` are taken.
    pub const fn new() -> Self {
        Self { next: 2 * CONTEXTS_EACH, owner: None, waiting: BTreeMap::new() }
    }

    /// A thread wants to create a communicator from one with context `parent`.
    pub fn enter(&mut self, parent: u32) {
        *self.waiting.entry(parent).or_insert(0) += 1;
    }

    /// What this process offers for `parent`; `None` when another agreement goes first.
    pub fn offer(&mut self, parent: u32) -> Option<u32> {
        let first = self.waiting.first_key_value().map(|(parent, _)| *parent);
        if self.owner.is_some() || first != Some(parent) {
            return None;
        }
        self.owner = Some(parent);
        Some(self.next)
    }

    /// The agreement for `parent` failed since somebody could not offer; it will be repeated.
    pub fn retry(&mut self, offered: bool) {
        if offered {
            self.owner = None;
        }
    }

    /// All agreed on `context`.
    pub fn commit(&mut self, parent: u32, context: u32) {
        self.owner = None;
        self.next = self.next.max(context.saturating_add(CONTEXTS_EACH));
        self.leave(parent);
    }

    /// The thread gives up.
    pub fn leave(&mut self, parent: u32) {
        if let Some(count) = self.waiting.get_mut(&parent) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&parent);
            }
        }
    }
}

impl Default for Contexts {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_agreement_at_a_time_may_take_a_number() {
        let mut contexts = Contexts::new();
        contexts.enter(4);
        contexts.enter(0);
        // The higher parent goes second, whoever comes first.
        assert_eq!(contexts.offer(4), None);
        assert_eq!(contexts.offer(0), Some(8));
        assert_eq!(contexts.offer(4), None);
        contexts.commit(0, 20);
        assert_eq!(contexts.offer(4), Some(24));
        contexts.retry(true);
        assert_eq!(contexts.offer(4), Some(24));
    }
}
