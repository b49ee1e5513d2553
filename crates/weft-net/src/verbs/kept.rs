//! The decision whether a device keeps registrations for the next operation, in code and in words.

use std::sync::Arc;

use super::api::Library;
use super::local;
use super::monitor::Monitor;
use crate::sys;

/// Least bytes that are of use: each message that is written to the receiver's memory fits many times.
const BYTES_MIN: u64 = 64 << 10;

/// The result of the wish to keep registrations.
pub(super) enum Kept {
    /// Registrations of so many bytes are kept, and the monitor says when one must not be used any more.
    Yes(Arc<Monitor>, u64),
    /// No registrations are kept: the reason, and what to do about it. `is_asked`: the settings ask for that.
    No { why: String, is_asked: bool },
}

impl Kept {
    /// Decides for a device that may keep `wanted` bytes. `has_remote_memory`: the device has local
    /// registrations at all.
    pub(super) fn new(library: &Library, wanted: u64, has_remote_memory: bool) -> Self {
        let no = |why: &str| Self::No { why: why.to_owned(), is_asked: false };
        let locked_max = sys::locked_memory_max();
        let bytes = local::capacity(wanted, locked_max);
        if !has_remote_memory {
            return Self::No { why: "memory of peers is neither written nor read".to_owned(), is_asked: true };
        }
        if wanted < BYTES_MIN {
            return Self::No { why: format!("WEFT_REGISTRATION_CACHE is {wanted}"), is_asked: true };
        }
        if bytes < BYTES_MIN {
            let most = locked_max.unwrap_or_default() / 1024;
            return no(&format!("a process may lock {most} KiB here (`ulimit -l`), which connections need"));
        }
        if !library.copies_at_fork() {
            return no(
                "a child of fork could take registered pages away from its parent, since this kernel is older than 5.12, or libibverbs older than 35: newer ones, both",
            );
        }
        if weft_engine::memory::runs_one_thread() {
            return no("valgrind runs one thread at a time, and who unmaps memory would wait for another one");
        }
        match Monitor::of_process() {
            Ok(monitor) => Self::Yes(monitor, bytes),
            Err(why) => no(&why),
        }
    }

    /// Returns the monitor and the bytes that a protection domain is given.
    pub(super) fn monitor(&self) -> (Option<Arc<Monitor>>, u64) {
        match self {
            Self::Yes(monitor, bytes) => (Some(Arc::clone(monitor)), *bytes),
            Self::No { .. } => (None, 0),
        }
    }

    /// Returns a sentence about what the user could change, if none are kept though the settings wish for it.
    pub(super) fn warning(&self) -> Option<&str> {
        match self {
            Self::No { why, is_asked: false } => Some(why),
            _ => None,
        }
    }

    /// Describes the decision as a part of a sentence.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Yes(_, bytes) => {
                format!("registrations of up to {} MiB are kept for the next operation", bytes >> 20)
            }
            Self::No { why, .. } => format!("memory is registered for each operation: {why}"),
        }
    }
}
