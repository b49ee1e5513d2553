//! futex(2) for the model checker: the kernel compares and falls asleep in one step.

use loom::sync::atomic::Ordering;
use loom::sync::{Condvar, Mutex};

use crate::atomic::AtomicU32;

loom::lazy_static! {
    static ref KERNEL: Mutex<()> = Mutex::new(());
    static ref WOKEN: Condvar = Condvar::new();
}

/// Sleeps while `word` is `value`. Time limits never pass: a wake-up that is lost stays lost, and the checker
/// sees that no thread can go on.
pub(crate) fn wait(word: &AtomicU32, value: u32, _: Option<u64>) {
    let kernel = KERNEL.lock().unwrap();
    if word.load(Ordering::SeqCst) == value {
        drop(WOKEN.wait(kernel).unwrap());
    }
}

pub(crate) fn wake(_: &AtomicU32) {
    let _kernel = KERNEL.lock().unwrap();
    WOKEN.notify_all();
}
