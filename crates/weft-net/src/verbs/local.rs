//! Registrations of memory that only this end's device accesses: it reads the source of a write, and writes
//! the target of a read.
//!
//! The registrations are kept for the next operation while the kernel tells of changes of the memory
//! (`monitor`). Otherwise, and while a change is under way, they are for a single operation.
//!
//! A kept registration covers whole pages of one buffer and no more. While an operation uses the buffer, no
//! other code may change it (MPI-5.0 §3.7.2). So no code gives the buffer's pages away between the kernel's
//! word of that and the act.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::monitor::{Changed, Monitor};
use super::registrations::{Capacity, Registrations, Use};

/// Most registrations that are kept. Devices have a hundred thousand and more for all processes.
const KEPT_MAX: usize = 1024;
/// Divisor of the bytes that may be kept. A registration of a larger part is not kept: it would drive all
/// others out.
const PART_MAX: u64 = 2;

/// The right to access memory that a device gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Right {
    Read,
    Write,
    /// Peers may write to the memory, too: on iWARP the answer to a read is a write.
    RemoteWrite,
}

/// The maker of registrations, which also closes them.
pub(super) trait Registrar {
    type Registration: Copy;

    /// Registers memory. The kernel keeps its pages, whatever happens to the mapping.
    fn register(&self, memory: &Range<u64>, right: Right) -> io::Result<Self::Registration>;

    fn deregister(&self, registration: Self::Registration);

    /// Notes that a kept registration is used again.
    fn note_reuse(&self);
}

/// The registration that an operation has of its memory. The operation gives it back once.
#[derive(Debug)]
pub(super) enum Local<T> {
    /// The memory is registered for this operation.
    Once(T),
    /// The registration is a kept one.
    Kept(Use),
}

/// The kept registrations, and the monitor that says when one must not be used any more.
struct Cache<T> {
    monitor: Arc<Monitor>,
    /// The number of the first change that has not been considered yet.
    next: u64,
    kept: Registrations<T>,
    bytes: u64,
}

/// The registrations of a protection domain.
pub(super) struct Locals<R: Registrar> {
    registrar: R,
    cache: Option<Cache<R::Registration>>,
    page: u64,
}

/// Returns how many bytes are kept: at most half of the bytes that may be locked, because connections need
/// some, too.
pub(super) fn capacity(wanted: u64, locked_max: Option<u64>) -> u64 {
    wanted.min(locked_max.map_or(u64::MAX, |most| most / 2))
}

impl<R: Registrar> Locals<R> {
    /// Begins without registrations. Without a monitor none is kept.
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

    /// Registers memory for an operation, or finds the memory registered.
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

    /// Ends the use of a registration, because the operation is over.
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

    /// Closes the registrations of memory that is no longer there. To be called now and then.
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

    /// Closes the kept registrations that no operation uses, so that other memory can be registered. Returns
    /// whether there were any.
    pub(super) fn give_back(&mut self) -> bool {
        let gave = self.cache.as_mut().is_some_and(|cache| cache.kept.close_idle());
        self.close();
        gave
    }

    /// Closes all registrations. No operation is under way any more.
    pub(super) fn close_all(&mut self) {
        if let Some(mut cache) = self.cache.take() {
            cache.kept.drain().into_iter().for_each(|registration| self.registrar.deregister(registration));
        }
    }

    /// Registers memory; kept registrations make room for it if they must.
    fn register(&mut self, memory: &Range<u64>, right: Right) -> io::Result<R::Registration> {
        match self.registrar.register(memory, right) {
            Err(_) if self.give_back() => self.registrar.register(memory, right),
            other => other,
        }
    }

    fn begin_kept(&mut self, memory: &Range<u64>, right: Right) -> Option<(Local<R::Registration>, R::Registration)> {
        let pages = memory.start / self.page * self.page..memory.end.div_ceil(self.page) * self.page;
        let cache = self.cache.as_mut()?;
        // Ask the monitor first, and read the list of changes afterwards: all changes that are settled now
        // stand there.
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
        // The registration is writable if it can be: the next operation may want that.
        let right = if is_writable { Right::Write } else { Right::Read };
        let registration = self.register(&pages, right).ok()?;
        let held = self.cache.as_mut()?.kept.insert(pages, is_writable, registration);
        Some((Local::Kept(held), registration))
    }

    /// Closes the registrations that the cache has given up.
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
