//! Registered memory: packets, what peers may access, and accesses to theirs. What peers may access is
//! registered for one operation: a key of theirs that outlived it would let them write late. What only this
//! end's device gets to is kept (`local`). Small accesses go by way of memory that stays registered: a copy
//! of a few KiB costs less than the two system calls of a registration.
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

/// Regions that may be exposed at a time: a receive that finds no room among them is sent packets.
const EXPOSURES_MAX: usize = 4096;
/// Accesses to memory of peers that may be under way.
pub(super) const ACCESSES_MAX: usize = 64;
const PAGE: usize = 4096;
/// Bytes of an access that goes by way of our own memory, at most.
const SMALL: usize = PAGE;

/// Of all devices of this process: registrations that were made, uses of those that were kept, and bytes that
/// are registered now.
static MADE: AtomicU64 = AtomicU64::new(0);
static REUSED: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// How this process registers memory with its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Registrations that were made.
    pub made: u64,
    /// Operations that found their memory registered.
    pub reused: u64,
    /// Bytes that are registered now.
    pub bytes: u64,
}

/// How this process has registered memory so far.
pub fn registered() -> Registered {
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    Registered { made: of(&MADE), reused: of(&REUSED), bytes: of(&BYTES) }
}

/// Packets of one size in registered memory, to which the device writes while it has them. So nothing here
/// refers to more than a packet that it has given back.
pub(super) struct Packets {
    library: &'static Library,
    memory: NonNull<u8>,
    layout: Layout,
    count: usize,
    stride: usize,
    registered: *mut Mr,
}

impl Packets {
    /// The same, to which peers may write.
    pub(super) fn open_to_peers(
        library: &'static Library,
        pd: *mut Pd,
        count: usize,
        stride: usize,
    ) -> io::Result<Self> {
        Self::with_rights(library, pd, (count, stride), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
    }

    /// What a peer that writes to it names it by.
    pub(super) fn remote_key(&self) -> u32 {
        // SAFETY: it is registered as long as this is.
        unsafe { (*self.registered).rkey }
    }

    /// `count` packets of `stride` bytes.
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
        // SAFETY: there are so many packets.
        unsafe { self.memory.as_ptr().add(index * self.stride) }
    }

    /// The first `length` bytes of a packet, for the device.
    pub(super) fn piece(&self, index: usize, length: usize) -> Piece {
        let length = length.min(self.stride) as u32;
        // SAFETY: an open registration.
        Piece { address: self.at(index) as u64, length, lkey: unsafe { (*self.registered).lkey } }
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        deregister(self.library, self.registered);
        // SAFETY: it was made with this layout, and the device has nothing of it: whoever has this has closed
        // all queues.
        unsafe { std::alloc::dealloc(self.memory.as_ptr(), self.layout) };
    }
}

/// # Safety
/// The domain is open; what is written to the memory by way of the registration is in the promises of whoever
/// uses it.
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
        // SAFETY: an open registration, which whoever calls this forgets.
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
        // SAFETY: the domain is open as long as `Placing` is, and the device gets to what an operation names
        // only, whose memory stays until it is over.
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

/// What the device has of the program's memory.
enum Memory {
    /// It is registered, until the access is over at least.
    Registered(Local<*mut Mr>),
    /// A copy is in our own memory.
    Copied,
    /// So many bytes are to be copied there from our own memory.
    Awaited(*mut u8, usize),
}

/// What this process does to memory of peers, and lets them do to its own.
pub(super) struct Placing {
    library: &'static Library,
    pd: *mut Pd,
    /// What memory that is read into must allow: on iWARP the answer to a read is a write.
    reads_into: Right,
    locals: Locals<Domain>,
    exposures: Vec<*mut Mr>,
    free_exposures: Vec<u32>,
    /// Our own memory for small accesses, a part for each; made when the first one begins, and none if it may
    /// not be registered.
    small: Option<Option<Packets>>,
    under_way: Vec<Option<UnderWay>>,
    free: Vec<usize>,
    done: VecDeque<u64>,
}

impl Placing {
    /// Keeps registrations of so many bytes if there is a monitor.
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
        // SAFETY: it has just been made.
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

    /// No access that begins from now on succeeds.
    pub(super) fn conceal(&mut self, Registration(index): Registration) {
        let Some(exposed) = self.exposures.get_mut(index as usize) else { return };
        let exposed = std::mem::replace(exposed, ptr::null_mut());
        if !exposed.is_null() {
            deregister(self.library, exposed);
            self.free_exposures.push(index);
        }
    }

    /// Makes room for an access: its index, and its memory as the device is told of it. `None`: there is no
    /// room now.
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
        // SAFETY: it is open as long as it is used.
        let lkey = unsafe { (*registered).lkey };
        self.under_way[index] = Some(UnderWay { number, peer, memory: Memory::Registered(local) });
        Ok(Some((index, Piece { address: memory.0 as u64, length: memory.1 as u32, lkey })))
    }

    /// The same by way of our own memory; `None`: there is none.
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
                // SAFETY: whoever calls `begin` has promised that the memory is there; the index is free, so
                // the device has nothing of it, and that much fits.
                unsafe { ptr::copy_nonoverlapping(bytes, small.at(index), length) };
                Memory::Copied
            }
            AccessKind::Read => Memory::Awaited(bytes, length),
        };
        self.under_way[index] = Some(UnderWay { number, peer, memory });
        Some(small.piece(index, length))
    }

    /// Whose memory an access is to that is under way.
    pub(super) fn peer_of(&self, index: usize) -> Option<usize> {
        Some(self.under_way.get(index)?.as_ref()?.peer)
    }

    /// The access at this index is over: its peer, if there was one.
    /// The access at this index is over, if there is one.
    pub(super) fn end(&mut self, index: usize, succeeded: bool) {
        let Some(UnderWay { number, memory, .. }) = self.under_way.get_mut(index).and_then(Option::take) else {
            return;
        };
        match (memory, &self.small) {
            (Memory::Registered(local), _) => self.locals.end(local),
            (Memory::Awaited(bytes, length), Some(Some(small))) if succeeded => {
                // SAFETY: the memory stays until the access is told to be complete, and the device has
                // written so much to this packet, which it has no more.
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

    /// An access that is complete.
    #[inline]
    pub(super) fn poll(&mut self) -> Option<u64> {
        self.done.pop_front()
    }

    /// Closes what is registered of memory that is no longer there.
    #[inline]
    pub(super) fn close_changed(&mut self) {
        self.locals.close_changed();
    }

    /// Closes what is kept and not used, so that something else can be registered; whether that was
    /// something.
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
