//! A lock for one value, in as few instructions as a lock can be.
//!
//! Every call of MPI takes the lock of its process. The standard library's lock also keeps whether a thread
//! panicked while it held it, which nobody asks here, and is too large to be part of a caller that is
//! compiled for size. The protocol of the word is the same. `make loom` checks it.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

use crate::atomic::AtomicU32;
use crate::shared::futex;

/// No thread holds the lock.
const FREE: u32 = 0;
/// A thread holds the lock.
const HELD: u32 = 1;
/// A thread holds the lock, and another one may sleep until it is free.
const AWAITED: u32 = 2;
/// The looks of a thread at a lock that is held, before it sleeps.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 100 };

/// A value that one thread at a time uses.
#[derive(Debug)]
pub struct Lock<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached by a guard, and `take` and `drop` make sure that there is one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The right to use the value of a lock. It belongs to its thread.
#[derive(Debug)]
pub struct LockGuard<'a, T> {
    lock: &'a Lock<T>,
    of_thread: PhantomData<*const ()>,
}

impl<T> Lock<T> {
    /// A lock that is free.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self { state: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// A lock that is free.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self { state: AtomicU32::default(), value: UnsafeCell::new(value) }
    }

    /// Takes the lock if it is free.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        let taken = self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok();
        taken.then(|| LockGuard { lock: self, of_thread: PhantomData })
    }

    /// Takes the lock, and sleeps until it is free.
    #[cold]
    pub fn lock(&self) -> LockGuard<'_, T> {
        let mut looks = 0;
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            // Where one sleeps already, another one that looks only takes a processor.
            if looks == LOOKS || self.state.load(Ordering::Relaxed) == AWAITED {
                break;
            }
            looks += 1;
            std::hint::spin_loop();
        }
        // Whoever has slept does not know whether others sleep as well, and says that they do.
        while self.state.swap(AWAITED, Ordering::Acquire) != FREE {
            futex::wait(&self.state, AWAITED, None);
        }
        LockGuard { lock: self, of_thread: PhantomData }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        futex::wake(&self.state);
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one of the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one of the lock, and it is borrowed for as long as the value.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for LockGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.lock.state.swap(FREE, Ordering::Release) == AWAITED {
            self.lock.wake();
        }
    }
}

/// The right to use the value of a lock, in code that is there many times: where a panic passes it, giving
/// the lock back takes no more room than a call.
#[derive(Debug)]
pub struct SmallGuard<'a, T>(ManuallyDrop<LockGuard<'a, T>>);

impl<'a, T> SmallGuard<'a, T> {
    /// Goes on with a guard.
    #[inline(always)]
    pub fn new(guard: LockGuard<'a, T>) -> Self {
        Self(ManuallyDrop::new(guard))
    }

    /// The guard, to go on with it.
    #[inline(always)]
    pub fn into_guard(self) -> LockGuard<'a, T> {
        let lock = self.0.lock;
        std::mem::forget(self);
        LockGuard { lock, of_thread: PhantomData }
    }

    /// The value.
    #[inline(always)]
    pub fn value(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> Drop for SmallGuard<'_, T> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        drop(LockGuard { lock: self.0.lock, of_thread: PhantomData });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_is_not_taken_and_a_panic_frees_it() {
        let lock = Lock::new(5);
        {
            let mut guard = lock.try_lock().expect("a new lock is free");
            *guard += 1;
            assert!(lock.try_lock().is_none());
        }
        let panics = std::panic::AssertUnwindSafe(|| {
            let _guard = lock.lock();
            panic!("while the lock is held");
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(*lock.lock(), 6);
    }

    #[test]
    fn a_small_guard_frees_the_lock_once_also_in_a_panic() {
        let lock = Lock::new(5);
        let mut small = SmallGuard::new(lock.lock());
        *small.value() += 1;
        let guard = small.into_guard();
        assert!(lock.try_lock().is_none(), "the guard that goes on holds the lock");
        drop(guard);
        let panics = std::panic::AssertUnwindSafe(|| {
            let _small = SmallGuard::new(lock.lock());
            panic!("while the lock is held");
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(lock.try_lock().map(|guard| *guard), Some(6));
    }

    #[test]
    fn threads_that_sleep_are_woken_and_no_change_is_lost() {
        const THREADS: u64 = 4;
        const TURNS: u64 = 20_000;
        let lock = Lock::new(0);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for turn in 0..TURNS {
                        let mut guard = lock.lock();
                        let before = *guard;
                        if turn % 1024 == 0 {
                            // The others find it held, and sleep.
                            std::thread::yield_now();
                        }
                        *guard = before + 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), THREADS * TURNS);
    }
}

#[cfg(all(test, loom))]
mod model_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Runs the schedules of `threads` threads that take the lock once or twice.
    fn check(threads: usize, turns: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            // The checker reports two threads in its cell at once.
            let lock = Arc::new(Lock::new(loom::cell::UnsafeCell::new(0)));
            let add = move |lock: &Lock<loom::cell::UnsafeCell<usize>>| {
                for _ in 0..turns {
                    let guard = lock.lock();
                    // SAFETY: the pointer is the cell's, which the checker guards.
                    guard.with_mut(|value| unsafe { *value += 1 });
                }
            };
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let lock = Arc::clone(&lock);
                    thread::spawn(move || add(&lock))
                })
                .collect();
            add(&lock);
            for other in others {
                other.join().unwrap();
            }
            // SAFETY: as above.
            assert_eq!(lock.lock().with(|value| unsafe { *value }), threads * turns);
        });
    }

    #[test]
    fn two_threads_take_turns() {
        check(2, 2);
    }

    #[test]
    fn of_three_threads_none_sleeps_for_ever() {
        check(3, 1);
    }
}
