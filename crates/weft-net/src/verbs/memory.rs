//! Registered memory: packets, memory that peers may access, and accesses to memory of peers.
//!
//! - Memory that peers may access is registered for a single operation: a key that outlived the operation
//!   would let them write late.
//! - Registrations for this end's device alone are kept (`local`).
//! - Small accesses go by way of memory that stays registered: a copy of a few KiB costs less than the two
//!   system calls of a registration.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_engine::regions::AccessKind;

use super::api::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, Library, Mr, Pd, Piece};
use super::local::{Local, Locals, Registrar, Right};
use super::monitor::Monitor;
use crate::carrier::{Registration, RemoteMemory};

/// Most regions that may be exposed at a time. A receive that finds no room among them is sent packets.
const EXPOSURES_MAX: usize = 4096;
/// Most accesses to memory of peers that may be under way.
pub(super) const ACCESSES_MAX: usize = 64;
const PAGE: usize = 4096;
/// Most bytes of an access that goes by way of this process's own memory.
const SMALL: usize = PAGE;

/// Counters over all devices of this process: registrations that were made, uses of kept ones, and bytes that
/// are registered now.
static MADE: AtomicU64 = AtomicU64::new(0);
static REUSED: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Counters of the memory that this process has registered with its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Registrations that were made.
    pub made: u64,
    /// Operations that found their memory registered.
    pub reused: u64,
    /// Bytes that are registered now.
    pub bytes: u64,
}

/// Returns the counters of the memory that this process has registered so far.
pub fn registered() -> Registered {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    Registered { made: of(&MADE), reused: of(&REUSED), bytes: of(&BYTES) }
}

/// Packets of one size in registered memory, which the device writes to while it has them. So no reference
/// here covers more than a packet that the device has given back.
pub(super) struct Packets {
    library: &'static Library,
    memory: NonNull<u8>,
    layout: Layout,
    count: usize,
    stride: usize,
    registered: *mut Mr,
}

impl Packets {
    /// Makes packets that peers may write to.
    pub(super) fn open_to_peers(
        library: &'static Library,
        pd: *mut Pd,
        count: usize,
        stride: usize,
    ) -> io::Result<Self> {
        Self::with_rights(library, pd, (count, stride), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
    }

    /// Returns the key by which a peer names the memory in a write.
    pub(super) fn remote_key(&self) -> u32 {
        // SAFETY: the memory is registered as long as this value lives.
        unsafe { (*self.registered).rkey }
    }

    /// Makes `count` packets of `stride` bytes.
    pub(super) fn new(library: &'static Library, pd: *mut Pd, count: usize, stride: usize) -> io::Result<Self> {
        Self::with_rights(library, pd, (count, stride), IBV_ACCESS_LOCAL_WRITE)
    }

    fn with_rights(
        library: &'static Library,
        pd: *mut Pd,
        (count, stride): (usize, usize),
        rights: i32,
    ) -> io::Result<Self> {
        let layout = Layout::from_size_align((count * stride).max(PAGE), PAGE).map_err(io::Error::other)?;
        // SAFETY: the size is not 0.
        let memory = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut this = Self { library, memory, layout, count, stride, registered: ptr::null_mut() };
        // SAFETY: the domain is open, and the memory stays until the registration is closed, in `drop`.
        this.registered = unsafe { register(library, pd, (memory.as_ptr(), layout.size()), rights) }?;
        Ok(this)
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn at(&self, index: usize) -> *mut u8 {
        assert!(index < self.count, "a packet that is not there");
        // SAFETY: `index` is one of the packets.
        unsafe { self.memory.as_ptr().add(index * self.stride) }
    }

    /// Returns the first `length` bytes of a packet, for the device.
    pub(super) fn piece(&self, index: usize, length: usize) -> Piece {
        let length = length.min(self.stride) as u32;
        // SAFETY: an open registration.
        Piece { address: self.at(index) as u64, length, lkey: unsafe { (*self.registered).lkey } }
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        deregister(self.library, self.registered);
        // SAFETY: the memory was made with this layout. The device has no part of it: the owner of this value
        // has closed all queues.
        unsafe { std::alloc::dealloc(self.memory.as_ptr(), self.layout) };
    }
}

/// Registers memory with a protection domain.
///
/// # Safety
/// The domain is open. The users of the registration promise what is written to the memory by way of it.
unsafe fn register(
    library: &Library,
    pd: *mut Pd,
    (bytes, length): (*mut u8, usize),
    rights: i32,
) -> io::Result<*mut Mr> {
    // SAFETY: as promised. The kernel checks the memory.
    let made = unsafe { (library.reg_mr)(pd, bytes.cast(), length, rights) };
    if made.is_null() {
        return Err(io::Error::last_os_error());
    }
    MADE.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(length as u64, Ordering::Relaxed);
    Ok(made)
}

fn deregister(library: &Library, registered: *mut Mr) {
    if !registered.is_null() {
        // SAFETY: an open registration, which the caller forgets.
        unsafe {
            BYTES.fetch_sub((*registered).length as u64, Ordering::Relaxed);
            (library.dereg_mr)(registered);
        }
    }
}

/// A protection domain, in which local memory is registered.
struct Domain {
    library: &'static Library,
    pd: *mut Pd,
}

impl Registrar for Domain {
    type Registration = *mut Mr;

    fn register(&self, memory: &Range<u64>, right: Right) -> io::Result<*mut Mr> {
        let rights = match right {
            Right::Read => 0,
            Right::Write => IBV_ACCESS_LOCAL_WRITE,
            Right::RemoteWrite => IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
        };
        let memory = (memory.start as *mut u8, (memory.end - memory.start) as usize);
        // SAFETY: the domain is open as long as `Placing` is. The device accesses only memory that an
        // operation names, and that memory stays until the operation is over.
        unsafe { register(self.library, self.pd, memory, rights) }
    }

    fn deregister(&self, registration: *mut Mr) {
        deregister(self.library, registration);
    }

    fn note_reuse(&self) {
        REUSED.fetch_add(1, Ordering::Relaxed);
    }
}

/// An access under way.
struct UnderWay {
    number: u64,
    peer: usize,
    memory: Memory,
}

/// The program's memory of an access, as the device has it.
enum Memory {
    /// The memory is registered, at least until the access is over.
    Registered(Local<*mut Mr>),
    /// A copy of the memory is in this process's own memory.
    Copied,
    /// A copy of so many bytes is to be made at this address, from this process's own memory.
    Awaited(*mut u8, usize),
}

/// Memory that peers may access, and accesses of this process to memory of peers.
pub(super) struct Placing {
    library: &'static Library,
    pd: *mut Pd,
    /// The right that memory needs to be read into: on iWARP the answer to a read is a write.
    reads_into: Right,
    locals: Locals<Domain>,
    exposures: Vec<*mut Mr>,
    free_exposures: Vec<u32>,
    /// The process's own memory for small accesses, a part for each. It is made when the first one begins;
    /// none if it may not be registered.
    small: Option<Option<Packets>>,
    under_way: Vec<Option<UnderWay>>,
    free: Vec<usize>,
    done: VecDeque<u64>,
}

impl Placing {
    /// Begins without accesses. Registrations of so many bytes are kept if there is a monitor.
    pub(super) fn new(
        library: &'static Library,
        pd: *mut Pd,
        is_iwarp: bool,
        (monitor, kept_bytes): (Option<Arc<Monitor>>, u64),
    ) -> Self {
        Self {
            library,
            pd,
            reads_into: if is_iwarp { Right::RemoteWrite } else { Right::Write },
            locals: Locals::new(Domain { library, pd }, monitor, kept_bytes, page_size()),
            exposures: Vec::new(),
            free_exposures: Vec::new(),
            small: None,
            under_way: (0..ACCESSES_MAX).map(|_| None).collect(),
            free: (0..ACCESSES_MAX).collect(),
            done: VecDeque::new(),
        }
    }

    /// Lets peers write to memory and read it.
    ///
    /// # Safety
    /// The memory stays until it is concealed.
    pub(super) unsafe fn expose(&mut self, memory: (*mut u8, usize)) -> io::Result<(Registration, RemoteMemory)> {
        if self.free_exposures.is_empty() && self.exposures.len() == EXPOSURES_MAX {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
        // SAFETY: as promised; the domain is open.
        let register = || unsafe { register(self.library, self.pd, memory, rights) };
        let made = match register() {
            Err(_) if self.locals.give_back() => register(),
            other => other,
        }?;
        // SAFETY: the registration has just been made.
        let key = u64::from(unsafe { (*made).rkey });
        let index = match self.free_exposures.pop() {
            Some(index) => {
                self.exposures[index as usize] = made;
                index
            }
            None => {
                self.exposures.push(made);
                self.exposures.len() as u32 - 1
            }
        };
        Ok((Registration(index), RemoteMemory { key, address: memory.0 as u64 }))
    }

    /// Ends the exposure of memory: no access that begins from now on succeeds.
    pub(super) fn conceal(&mut self, Registration(index): Registration) {
        let Some(exposed) = self.exposures.get_mut(index as usize) else { return };
        let exposed = std::mem::replace(exposed, ptr::null_mut());
        if !exposed.is_null() {
            deregister(self.library, exposed);
            self.free_exposures.push(index);
        }
    }

    /// Makes room for an access, and returns its index, and its memory as the device is told of it. `None`:
    /// there is no room now.
    ///
    /// # Safety
    /// The memory stays until the access is complete, or its peer lost.
    pub(super) unsafe fn begin(
        &mut self,
        (peer, number): (usize, u64),
        access: AccessKind,
        memory: (*mut u8, usize),
    ) -> io::Result<Option<(usize, Piece)>> {
        let Some(index) = self.free.pop() else { return Ok(None) };
        if memory.1 <= SMALL
            && let Some(piece) = self.begin_small(index, (peer, number), access, memory)
        {
            return Ok(Some((index, piece)));
        }
        let right = if access == AccessKind::Write { Right::Read } else { self.reads_into };
        let range = memory.0 as u64..memory.0 as u64 + memory.1 as u64;
        let (local, registered) = match self.locals.begin(range, right) {
            Ok(begun) => begun,
            Err(error) => {
                self.free.push(index);
                return Err(error);
            }
        };
        // SAFETY: the registration is open as long as it is used.
        let lkey = unsafe { (*registered).lkey };
        self.under_way[index] = Some(UnderWay { number, peer, memory: Memory::Registered(local) });
        Ok(Some((index, Piece { address: memory.0 as u64, length: memory.1 as u32, lkey })))
    }

    /// Makes room for an access by way of this process's own memory; `None` when there is no such memory.
    fn begin_small(
        &mut self,
        index: usize,
        (peer, number): (usize, u64),
        access: AccessKind,
        (bytes, length): (*mut u8, usize),
    ) -> Option<Piece> {
        let (library, pd, peers_write) = (self.library, self.pd, self.reads_into == Right::RemoteWrite);
        let rights = IBV_ACCESS_LOCAL_WRITE | if peers_write { IBV_ACCESS_REMOTE_WRITE } else { 0 };
        let make = || Packets::with_rights(library, pd, (ACCESSES_MAX, SMALL), rights).ok();
        let small = self.small.get_or_insert_with(make).as_ref()?;
        let memory = match access {
            AccessKind::Write => {
                // SAFETY: the caller of `begin` has promised that the memory is there. The index is free, so
                // the device has no part of this packet, and `length` bytes fit.
                unsafe { ptr::copy_nonoverlapping(bytes, small.at(index), length) };
                Memory::Copied
            }
            AccessKind::Read => Memory::Awaited(bytes, length),
        };
        self.under_way[index] = Some(UnderWay { number, peer, memory });
        Some(small.piece(index, length))
    }

    /// Returns the peer whose memory an access under way is to.
    pub(super) fn peer_of(&self, index: usize) -> Option<usize> {
        Some(self.under_way.get(index)?.as_ref()?.peer)
    }

    /// Ends the access at this index, if there is one.
    pub(super) fn end(&mut self, index: usize, succeeded: bool) {
        let Some(UnderWay { number, memory, .. }) = self.under_way.get_mut(index).and_then(Option::take) else {
            return;
        };
        match (memory, &self.small) {
            (Memory::Registered(local), _) => self.locals.end(local),
            (Memory::Awaited(bytes, length), Some(Some(small))) if succeeded => {
                // SAFETY: the memory stays until the access is reported complete. The device has written so
                // many bytes to this packet, and has given it back.
                unsafe { ptr::copy_nonoverlapping(small.at(index), bytes, length) };
            }
            _ => {}
        }
        self.free.push(index);
        if succeeded {
            self.done.push_back(number);
        }
    }

    /// Ends all accesses to a peer, whose queues are closed.
    pub(super) fn end_all(&mut self, peer: usize) {
        for index in 0..self.under_way.len() {
            if self.under_way[index].as_ref().is_some_and(|access| access.peer == peer) {
                self.end(index, false);
            }
        }
    }

    /// Returns an access that is complete.
    #[inline]
    pub(super) fn poll(&mut self) -> Option<u64> {
        self.done.pop_front()
    }

    /// Closes the registrations of memory that is no longer there.
    #[inline]
    pub(super) fn close_changed(&mut self) {
        self.locals.close_changed();
    }

    /// Closes the kept registrations that no operation uses, so that other memory can be registered. Returns
    /// whether there were any.
    pub(super) fn give_back(&mut self) -> bool {
        self.locals.give_back()
    }

    /// Closes all registrations: to be called once all queues are closed.
    pub(super) fn close(&mut self) {
        for index in 0..self.under_way.len() {
            self.end(index, false);
        }
        self.locals.close_all();
        self.exposures.drain(..).for_each(|registered| deregister(self.library, registered));
        self.small = None;
    }
}

fn page_size() -> u64 {
    // SAFETY: no memory is involved.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE as u64)
}
