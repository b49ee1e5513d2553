//! Targets whose memory is mapped in this process, for calls that need neither the lock of the process nor
//! its engine.
//!
//! An access of a few bytes is over in less time than the lock takes (docs/design/windows.md). The boundary's
//! put, get, accumulate and flush look here first.
//!
//! A window with mapped targets has an entry here, if an entry is free. The entry says of each target whether
//! an epoch lets it be accessed. A call that finds no entry, or an unusual case, takes the lock, and gets its
//! errors there.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use weft_core::layout::Element;
use weft_engine::handle::index_of;
use weft_engine::memory::{Exposed, MappedMemory};

use super::Part;
use crate::predefined;

/// The most windows that have entries at the same time.
const ENTRIES: usize = 64;
/// The most processes between the first and the last mapped process of a window. Others are accessed with the
/// lock.
const SPAN: usize = 256;
/// The calls of which one takes the lock, so that a program without other calls still makes progress.
const CALLS_PER_LOOK: u32 = 64;

/// An epoch allows accesses.
const ACCESS: u8 = 1;
/// An epoch allows flushes, too: the target is passive.
const PASSIVE: u8 = 2;

static TABLE: [OnceLock<Box<Direct>>; ENTRIES] = [const { OnceLock::new() }; ENTRIES];

/// The entry of one window.
#[derive(Debug)]
pub(crate) struct Direct {
    /// The window's handle; 0: the entry is free.
    window: AtomicUsize,
    /// The rank of the first of `targets`.
    first: AtomicU32,
    calls: AtomicU32,
    /// The accesses that are allowed to all targets.
    all: AtomicU8,
    targets: Box<[Target]>,
}

#[derive(Debug, Default)]
struct Target {
    /// The accesses that are allowed to this target, besides.
    open: AtomicU8,
    /// Bytes of one step of a displacement.
    unit: AtomicU64,
    memory: MappedMemory,
}

/// The memory that a call may access at a target.
pub struct Spot {
    /// The target's memory.
    pub memory: &'static MappedMemory,
    /// Bytes from its beginning.
    pub offset: u64,
    /// The length of the access, bytes.
    pub bytes: u64,
    /// The elements that the bytes consist of.
    pub element: Element,
}

fn entry(window: usize) -> &'static OnceLock<Box<Direct>> {
    &TABLE[index_of(window) % ENTRIES]
}

/// The target, if its epoch allows the `wanted` access and the call need not take the lock to make progress.
#[inline]
fn find(window: usize, rank: i32, wanted: u8) -> Option<&'static Target> {
    let direct = entry(window).get()?;
    if direct.window.load(Ordering::Acquire) != window {
        return None;
    }
    let target = direct.targets.get((rank as usize).wrapping_sub(direct.first.load(Ordering::Relaxed) as usize))?;
    let open = direct.all.load(Ordering::Relaxed) | target.open.load(Ordering::Relaxed);
    // Two threads may count a call once; the count need not be exact.
    let calls = direct.calls.load(Ordering::Relaxed).wrapping_add(1);
    direct.calls.store(calls, Ordering::Relaxed);
    (open & wanted == wanted && !calls.is_multiple_of(CALLS_PER_LOOK) && rank >= 0).then_some(target)
}

/// Finds the memory of `count` items of a predefined `datatype`, `disp` steps from the beginning of what
/// `rank` exposes. `None`: the call must take the lock.
#[inline(always)]
pub fn spot(window: usize, rank: i32, disp: isize, count: i64, datatype: usize) -> Option<Spot> {
    let element = predefined::element(datatype).filter(|element| element.size() == element.extent())?;
    let bytes = u64::try_from(count).ok().filter(|count| *count > 0)?.checked_mul(element.size() as u64)?;
    let target = find(window, rank, ACCESS)?;
    let offset = u64::try_from(disp).ok()?.checked_mul(target.unit.load(Ordering::Relaxed))?;
    Some(Spot { memory: &target.memory, offset, bytes, element })
}

/// Carries out `MPI_Win_flush` of a target whose operations are over when they return. Returns `false` when
/// the target is not known to be one of these.
#[inline]
pub fn flush(window: usize, rank: i32) -> bool {
    let is_flushed = find(window, rank, ACCESS | PASSIVE).is_some_and(|target| !target.memory.is_gone());
    if is_flushed {
        fence(Ordering::SeqCst);
    }
    is_flushed
}

impl Direct {
    /// Gives an entry to a window of these parts, if some of them are mapped and an entry is free.
    pub(crate) fn open(window: usize, parts: &[Part], mapped: &[Option<Exposed>]) -> Option<&'static Self> {
        let first = mapped.iter().position(|mapped| mapped.is_some_and(|mapped| mapped.is_shared()))?;
        let direct = entry(window).get_or_init(|| {
            Box::new(Self {
                window: AtomicUsize::new(0),
                first: AtomicU32::new(0),
                calls: AtomicU32::new(0),
                all: AtomicU8::new(0),
                targets: (0..SPAN).map(|_| Target::default()).collect(),
            })
        });
        // Windows are opened under the lock of the process.
        if direct.window.load(Ordering::Relaxed) != 0 {
            return None;
        }
        direct.first.store(first as u32, Ordering::Relaxed);
        for ((target, part), mapped) in direct.targets.iter().zip(&parts[first..]).zip(&mapped[first..]) {
            target.unit.store(part.disp_unit, Ordering::Relaxed);
            if let Some(mapped) = mapped {
                target.memory.set(mapped);
            }
        }
        direct.window.store(window, Ordering::Release);
        Some(direct)
    }

    /// Frees the entry of a window that is freed.
    pub(crate) fn close(&self) {
        self.all.store(0, Ordering::Relaxed);
        for target in &self.targets {
            target.open.store(0, Ordering::Relaxed);
            target.memory.clear();
        }
        self.window.store(0, Ordering::Release);
    }

    fn target(&self, rank: u32) -> Option<&Target> {
        self.targets.get((rank as usize).wrapping_sub(self.first.load(Ordering::Relaxed) as usize))
    }

    /// Begins an epoch in which all targets may be accessed, and flushed if it is `passive`.
    pub(crate) fn begin_all(&self, passive: bool) {
        self.all.store(if passive { ACCESS | PASSIVE } else { ACCESS }, Ordering::Release);
    }

    /// Ends the epoch of [`Self::begin_all`].
    pub(crate) fn end_all(&self) {
        self.all.store(0, Ordering::Release);
    }

    /// Begins an epoch in which `rank` may be accessed, and flushed if it is `passive`.
    pub(crate) fn begin(&self, rank: u32, passive: bool) {
        if let Some(target) = self.target(rank) {
            target.open.store(if passive { ACCESS | PASSIVE } else { ACCESS }, Ordering::Release);
        }
    }

    /// Ends the epoch of [`Self::begin`].
    pub(crate) fn end(&self, rank: u32) {
        if let Some(target) = self.target(rank) {
            target.open.store(0, Ordering::Release);
        }
    }
}
