//! Registrations of memory that only this end's device gets to: what it reads from for a write, and what it
//! writes to for a read. They are kept for the next operation where changes of the memory are told of
//! (`monitor`); otherwise, and in the moments in which a change is under way, they are for one operation.
//!
//! What is kept covers whole pages of one buffer and no more: while an operation uses it nobody may change
//! the buffer (MPI-5.0 §3.7.2), so nobody gives its pages away between the kernel's word of it and the act.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::monitor::{Changed, Monitor};
use super::registrations::{Capacity, Registrations, Use};

/// Registrations that are kept, at most: devices have a hundred thousand and more for all processes.
const KEPT_MAX: usize = 1024;
/// One that would take more than this part of what may be kept is not kept: it would drive all others out.
const PART_MAX: u64 = 2;

/// What a device may do to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    Read,
    Write,
    /// Peers may write to it, too: on iWARP the answer to a read is a write.
    RemoteWrite,
}

/// Makes and closes registrations.
pub(super) trait Registrar {
    type Registration: Copy;

    /// Registers memory. The kernel keeps its pages, whatever happens to the mapping.
    fn register(&self, memory: &Range<u64>, right: Right) -> io::Result<Self::Registration>;

    fn deregister(&self, registration: Self::Registration);

    /// One that was kept is used again.
    fn note_reuse(&self);
}

/// What an operation has of its memory. It is given back once.
#[derive(Debug)]
pub(super) enum Local<T> {
    /// Registered for this operation.
    Once(T),
    /// One that is kept.
    Kept(Use),
}

/// What is kept, and who says when it must not be used any more.
struct Cache<T> {
    monitor: Arc<Monitor>,
    /// The number of the first change that is not considered yet.
    next: u64,
    kept: Registrations<T>,
    bytes: u64,
}

/// The registrations of one protection domain.
pub(super) struct Locals<R: Registrar> {
    registrar: R,
    cache: Option<Cache<R::Registration>>,
    page: u64,
}

/// How many bytes are kept: not more than half of what may be locked, since connections need some, too.
pub(super) fn capacity(wanted: u64, locked_max: Option<u64>) -> u64 {
    wanted.min(locked_max.map_or(u64::MAX, |most| most / 2))
}

impl<R: Registrar> Locals<R> {
    /// Nothing is kept without a monitor.
    pub(super) fn new(registrar: R, monitor: Option<Arc<Monitor>>, bytes: u64, page: u64) -> Self {
        let cache = monitor.filter(|_| bytes > 0).map(|monitor| {
            let kept = Registrations::new(Capacity { bytes, entries: KEPT_MAX });
            Cache { next: monitor.next(), monitor, kept, bytes }
        });
        Self { registrar, cache, page }
    }

    #[cfg(test)]
    pub(super) fn registrar(&self) -> &R {
        &self.registrar
    }

    /// Registers memory for an operation, or finds it registered.
    pub(super) fn begin(
        &mut self,
        memory: Range<u64>,
        right: Right,
    ) -> io::Result<(Local<R::Registration>, R::Registration)> {
        self.close_changed();
        if right != Right::RemoteWrite
            && let Some(found) = self.begin_kept(&memory, right)
        {
            return Ok(found);
        }
        let registration = self.register(&memory, right)?;
        Ok((Local::Once(registration), registration))
    }

    /// The operation is over.
    pub(super) fn end(&mut self, local: Local<R::Registration>) {
        match (local, &mut self.cache) {
            (Local::Once(registration), _) => self.registrar.deregister(registration),
            (Local::Kept(held), Some(cache)) => {
                cache.kept.end(held);
                self.close();
            }
            (Local::Kept(_), None) => {}
        }
    }

    /// Closes what is registered of memory that is no longer there. To be called now and then.
    #[inline]
    pub(super) fn close_changed(&mut self) {
        let Some(cache) = &mut self.cache else { return };
        if cache.next != cache.monitor.next() {
            let Cache { monitor, next, kept, .. } = cache;
            *next = monitor.since(*next, |changed| match changed {
                Changed::Range(range) => kept.invalidate(&range),
                Changed::Everything => kept.invalidate_all(),
            });
            self.close();
        }
    }

    /// Closes what nobody uses, so that something else can be registered; whether that was something.
    pub(super) fn give_back(&mut self) -> bool {
        let gave = self.cache.as_mut().is_some_and(|cache| cache.kept.close_idle());
        self.close();
        gave
    }

    /// Closes everything: no operation is under way any more.
    pub(super) fn close_all(&mut self) {
        if let Some(mut cache) = self.cache.take() {
            cache.kept.drain().into_iter().for_each(|registration| self.registrar.deregister(registration));
        }
    }

    /// Registers memory; what is kept makes room for it.
    fn register(&mut self, memory: &Range<u64>, right: Right) -> io::Result<R::Registration> {
        match self.registrar.register(memory, right) {
            Err(_) if self.give_back() => self.registrar.register(memory, right),
            other => other,
        }
    }

    fn begin_kept(&mut self, memory: &Range<u64>, right: Right) -> Option<(Local<R::Registration>, R::Registration)> {
        let pages = memory.start / self.page * self.page..memory.end.div_ceil(self.page) * self.page;
        let cache = self.cache.as_mut()?;
        // First that, and then what is written down: what is settled now is written there.
        if pages.end - pages.start > cache.bytes / PART_MAX || !cache.monitor.is_settled() {
            return None;
        }
        self.close_changed();
        let cache = self.cache.as_mut()?;
        let to_write = right == Right::Write;
        if let Some((held, registration)) = cache.kept.find(&pages, to_write) {
            self.registrar.note_reuse();
            return Some((Local::Kept(held), *registration));
        }
        let is_writable = cache.monitor.watch(&pages)?;
        let has_room = cache.kept.make_room(pages.end - pages.start);
        self.close();
        if !has_room || (to_write && !is_writable) {
            return None;
        }
        // It may be written to if it can be: the next operation may want that.
        let right = if is_writable { Right::Write } else { Right::Read };
        let registration = self.register(&pages, right).ok()?;
        let held = self.cache.as_mut()?.kept.insert(pages, is_writable, registration);
        Some((Local::Kept(held), registration))
    }

    /// Closes what was found to be closed.
    fn close(&mut self) {
        let Some(cache) = &mut self.cache else { return };
        while let Some(registration) = cache.kept.take_closed() {
            self.registrar.deregister(registration);
        }
    }
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
