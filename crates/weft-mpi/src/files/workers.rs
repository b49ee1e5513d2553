//! Threads of the library that move data between memory and files, while the program computes and while the
//! process lock is free.
//!
//! A thread is started when there is work and no thread is idle, up to [`THREADS_MAX`]. The threads end with
//! the World Model. A call that waits for its own access makes it itself, so that nobody has to be woken.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use weft_net::watch;

use super::failure::Failure;
use crate::error::internal;
use crate::process::{self, FileJob, Process};

/// The most threads: as many transfers are under way at once.
const THREADS_MAX: usize = 4;

struct Pool {
    queue: VecDeque<FileJob>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that wait for work.
    idle: usize,
    is_over: bool,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { queue: VecDeque::new(), threads: Vec::new(), idle: 0, is_over: false });
static WORK: Condvar = Condvar::new();

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a thread does from its start to its end.
fn serve() {
    let mut pool = pool();
    loop {
        if let Some(job) = pool.queue.pop_front() {
            drop(pool);
            let finish = job();
            process::with_in_thread(|process| {
                process.file_jobs -= 1;
                finish(process);
            });
            pool = self::pool();
        } else if pool.is_over {
            return;
        } else {
            pool.idle += 1;
            pool = WORK.wait(pool).unwrap_or_else(PoisonError::into_inner);
            pool.idle -= 1;
        }
    }
}

/// Sees to it that a thread will take a job that comes next. Returns false where none can be had.
fn is_served() -> bool {
    let mut pool = pool();
    if pool.idle <= pool.queue.len() && pool.threads.len() < THREADS_MAX {
        pool.is_over = false;
        if let Ok(thread) = watch::spawn_without_signals("weft-files", serve) {
            pool.threads.push(thread);
        }
    }
    !pool.threads.is_empty()
}

/// Ends the threads, which have no work any more.
pub(crate) fn dismiss() {
    let threads = {
        let mut pool = pool();
        pool.is_over = true;
        std::mem::take(&mut pool.threads)
    };
    WORK.notify_all();
    for thread in threads {
        // The thread can only have panicked, which its job has reported.
        let _ = thread.join();
    }
}

/// Who does the work of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The call that waits for the request.
    Caller,
    /// A thread of the library.
    Thread,
}

impl Process {
    /// Has `work` done for `request` without the process lock, and then `then` with the lock and the result.
    /// Where no thread can be started, both are done now.
    pub(super) fn run_aside(
        &mut self,
        (by, request): (By, usize),
        work: impl FnOnce() -> Result<u64, Failure> + Send + 'static,
        then: impl FnOnce(&mut Self, Result<u64, Failure>) + Send + 'static,
    ) {
        let job: FileJob = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            let result = result.unwrap_or_else(|_| Err(Failure::from(internal("an access to a file panicked"))));
            Box::new(move |process: &mut Process| then(process, result))
        });
        match by {
            By::Caller => {
                self.jobs_of_callers.push((request, job));
                self.announce();
            }
            By::Thread if is_served() => {
                self.file_jobs += 1;
                pool().queue.push_back(job);
                WORK.notify_one();
            }
            By::Thread => {
                let finish = job();
                finish(self);
            }
        }
    }
}
