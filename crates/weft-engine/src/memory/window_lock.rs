//! The lock of one process's part of a window, in memory that the processes of the node share.
//!
//! An accumulate holds the lock while it reads and writes elements, one element as well as a long run. So
//! accumulates are atomic for each element (MPI-5.0 §12.7.1), whatever registers compute them, and no element
//! needs an atomic instruction of its own. A free lock costs one atomic instruction (docs/design/windows.md).
//!
//! The word names the process that holds the lock. A process that is killed with the lock never gives it
//! back. So a waiting process asks now and then whether the holder exists, and takes the lock over from a
//! holder that does not.

use std::sync::atomic::{AtomicU32, Ordering};

/// The word of a free lock: no process has this id.
const FREE: u32 = 0;

/// The process that takes locks, and the function by which it finds out about others.
#[derive(Debug)]
pub struct Holder {
    /// The process's own id, never 0.
    pub id: u32,
    /// Returns whether the process of this id exists.
    pub exists: fn(u32) -> bool,
}

/// The word of a lock: an atomic of the processor, or that of a model checker.
pub trait LockWord {
    /// The number of looks between two yields of the processor.
    const LOOKS_PER_YIELD: u32;
    /// The number of looks after which a waiting process asks whether the holder exists.
    const LOOKS_PER_QUESTION: u32;

    /// Reads the word.
    fn look(&self) -> u32;
    /// Replaces `expected` by `new`; returns whether the word was `expected`. If so, all that the last holder
    /// wrote can be read.
    fn replace(&self, expected: u32, new: u32) -> bool;
    /// Sets the word to 0, behind all that has been written before.
    fn clear(&self);
    /// Pauses between two looks.
    fn pause();
    /// Yields the processor.
    fn rest();
}

impl LockWord for AtomicU32 {
    const LOOKS_PER_YIELD: u32 = 100;
    const LOOKS_PER_QUESTION: u32 = 100 << 10;

    #[inline]
    fn look(&self) -> u32 {
        self.load(Ordering::Relaxed)
    }

    #[inline]
    fn replace(&self, expected: u32, new: u32) -> bool {
        self.compare_exchange(expected, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn clear(&self) {
        self.store(FREE, Ordering::Release);
    }

    fn pause() {
        std::hint::spin_loop();
    }

    fn rest() {
        std::thread::yield_now();
    }
}

/// A lock that this process has taken, until it is dropped.
#[derive(Debug)]
pub struct Held<'a, W: LockWord>(&'a W);

impl<'a, W: LockWord> Held<'a, W> {
    /// Takes the lock for `holder`; waits as long as an existing process, or another thread, holds it.
    #[inline]
    pub fn take(word: &'a W, holder: &Holder) -> Self {
        if !word.replace(FREE, holder.id) {
            wait(word, holder);
        }
        Self(word)
    }
}

impl<W: LockWord> Drop for Held<'_, W> {
    #[inline]
    fn drop(&mut self) {
        self.0.clear();
    }
}

#[cold]
#[inline(never)]
fn wait<W: LockWord>(word: &W, holder: &Holder) {
    let mut looks = 0_u32;
    loop {
        looks = looks.wrapping_add(1);
        let found = word.look();
        // If several processes find the holder gone, one takes the lock over: the others then find another
        // holder.
        let may_take = found == FREE || looks.is_multiple_of(W::LOOKS_PER_QUESTION) && !(holder.exists)(found);
        if may_take && word.replace(found, holder.id) {
            return;
        }
        if looks.is_multiple_of(W::LOOKS_PER_YIELD) { W::rest() } else { W::pause() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVING: Holder = Holder { id: 2, exists: |id| id != 1 };

    /// A process is killed with the lock, and two others want it.   Expect: both get it in turn; it is free
    /// afterwards.
    #[test]
    fn the_lock_of_a_process_that_is_gone_is_taken_over() {
        let word = AtomicU32::new(1);
        let counter = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for id in [2, 3] {
                let (word, counter) = (&word, &counter);
                scope.spawn(move || {
                    let _held = Held::take(word, &Holder { id, ..LIVING });
                    assert_eq!(word.look(), id);
                    let before = counter.load(Ordering::Relaxed);
                    std::thread::yield_now();
                    counter.store(before + 1, Ordering::Relaxed);
                });
            }
        });
        assert_eq!((word.look(), counter.into_inner()), (FREE, 2));
    }

    /// The holder exists, and takes its time.   Expect: no process takes the lock from it, however often they
    /// ask.
    #[test]
    fn who_lives_keeps_the_lock() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        let asking = Holder {
            id: 3,
            exists: |id| {
                assert_eq!(id, 2);
                ASKED.fetch_add(1, Ordering::Release);
                true
            },
        };
        let word = AtomicU32::new(FREE);
        std::thread::scope(|scope| {
            let held = Held::take(&word, &LIVING);
            scope.spawn(|| drop(Held::take(&word, &asking)));
            while ASKED.load(Ordering::Acquire) < 2 {
                std::thread::yield_now();
            }
            assert_eq!(word.look(), 2);
            drop(held);
        });
        assert_eq!(word.look(), FREE);
    }
}
