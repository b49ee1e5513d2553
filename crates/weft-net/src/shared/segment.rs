//! The shared segment: one file, mapped by all ranks of the node and unlinked as soon as the last has it.
//!
//! ```text
//! header (4096 bytes) │ the state of each rank (256 bytes, padded to a page) │ slots, by rank │ rings, by receiver, then by sender
//! ```
//!
//! The leader (local index 0) creates it in the first directory that can hold all of it. Every byte is
//! reserved before it is touched, so that a full file system is an error here and not a SIGBUS later. Where
//! so many ranks share a segment that all rings together would need too much, a ring is reserved when it is
//! first used. Open files carry a shared lock; a file without a lock was left by a killed job and is removed
//! by the next leader in that directory.
#![allow(unsafe_code)]

mod files;
mod geometry;

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use super::area::{Area, CONTROL_BYTES};
use super::doorbell::KEY_WORDS;
use super::slot_area::SlotArea;
use super::{LOCAL_SIZE_MAX, Settings, sizes, sleeping};
use crate::atomic::{AtomicI32, AtomicU32, AtomicU64};
use crate::sys::{self, Lock};
use crate::{Error, clock, reason};

pub(crate) use files::directories;
pub(super) use files::{create_locked, file_name, map, open_existing, sweep};
pub(crate) use geometry::Geometry;
use geometry::PAGE;

const MAGIC: u64 = u64::from_le_bytes(*b"weftshm\x06");
/// Where a header says how many there are.
const SLOTS_AT: usize = std::mem::offset_of!(Header, slots);
/// Pause between two looks for the leader's segment.
const ATTACH_PAUSE_US: u64 = 200;

/// First line of the segment. Written by the leader; `attached` by all.
#[repr(C)]
struct Header {
    magic: AtomicU64,
    local_size: AtomicU64,
    ring_bytes: AtomicU64,
    attached: AtomicU32,
    /// Processors that the leader may use.
    processors: AtomicU32,
    /// Not 0 once a rank has said what all of them would say (`Node::speaks_first`).
    said: AtomicU32,
    /// Slots of each rank for communicators; those for persistent operations follow from that.
    slots: AtomicU32,
    _pad: [u8; 80],
    /// Ranks that sleep in MPI, or are about to: the others want processors.
    asleep: AtomicU32,
}

/// What peers must know about a rank; the first line is written by senders, so it is the rank's own and not
/// shared with others.
#[repr(C, align(256))]
pub(crate) struct RankState {
    /// How the rank sleeps, or is about to, and so how it is woken (`super::SleepMode`); 0 while it is awake.
    pub(crate) sleeping: AtomicU32,
    /// Grows when a sender uses its ring for the first time.
    pub(crate) announcements: AtomicU32,
    /// The rank's process; 0 until it has attached.
    pub(crate) pid: AtomicI32,
    /// Grows when a sender has written to a receive of this rank's tables.
    pub(crate) written: AtomicU32,
    _pad: [u8; 112],
    /// Which senders have ever used their ring to this rank, one bit each.
    pub(crate) announced: [AtomicU64; LOCAL_SIZE_MAX / 64],
    /// Not 0 while the rank waits inside MPI: it will see to what arrives. Read by who has something large to
    /// send. It also says on which processor the rank spins, if it does (`super::SPINS`).
    pub(crate) inside_mpi: AtomicU32,
    /// Receives that the rank has ever posted on its tables.
    pub(crate) posted: AtomicU32,
    /// Not 0 once the rank has a any-source table.
    pub(crate) common: AtomicU32,
    /// Whether the rank may copy from the memory of all others (`super::COPIES`); 0 until it has found out.
    pub(crate) copies: AtomicU32,
    /// What its doorbell is called, and what rings it (`super::doorbell::Key`).
    pub(crate) bell: [AtomicU64; KEY_WORDS],
    /// When its process began, where others can ask that (`crate::life`).
    pub(crate) birth: AtomicU64,
    /// Not 0 while nobody needs the rank any more, so that its process may end.
    pub(crate) left: AtomicU32,
}

const _: () = {
    assert!(size_of::<Header>() <= PAGE);
    assert!(size_of::<RankState>() == 256);
    assert!(sizes::RING_BYTES_MIN.is_multiple_of(PAGE));
};

/// The mapped segment.
pub(crate) struct Segment {
    base: NonNull<u8>,
    geometry: Geometry,
    /// None for a single rank, whose segment is private memory.
    file: Option<File>,
    /// The name that is still to be removed.
    path: Option<PathBuf>,
}

// SAFETY: a Segment is mapped memory used through atomics and through rings, which have one owner at each
// end.
unsafe impl Send for Segment {}
// SAFETY: as above; all methods that take &self use atomics or system calls.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates the segment as the leader, in the first directory that can hold it. The warnings name those
    /// that could not.
    pub(crate) fn create(job_key: &str, local_size: usize, settings: &Settings) -> Result<(Self, Vec<String>), Error> {
        let geometry = Geometry::choose(local_size, settings.ring_bytes_max);
        if local_size == 1 {
            let base = map(None, geometry.total()).map_err(|cause| Error::system("map memory for one rank", cause))?;
            let segment = Self { base, geometry, file: None, path: None };
            segment.publish(settings.processors);
            return Ok((segment, Vec::new()));
        }
        let mut refused = Vec::new();
        for directory in directories(settings) {
            match Self::create_smaller(&directory, job_key, geometry, settings.processors) {
                Ok(segment) => {
                    let warnings = warnings(&refused, &directory, geometry, segment.geometry);
                    return Ok((segment, warnings));
                }
                Err(cause) => refused.push(format!("{}: {}", directory.display(), reason(&cause))),
            }
        }
        let needed = geometry.total().div_ceil(1 << 20);
        let list = refused.join("; ");
        Err(Error::Unavailable(format!(
            "no directory can hold the shared segment of {needed} MiB ({list}); set WEFT_SHM_DIR"
        )))
    }

    /// As large as there is room.
    fn create_smaller(directory: &Path, job_key: &str, mut geometry: Geometry, processors: usize) -> io::Result<Self> {
        loop {
            let result = Self::create_in(directory, job_key, geometry, processors);
            let full = |cause: &io::Error| {
                use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
                matches!(cause.kind(), StorageFull | QuotaExceeded | FileTooLarge)
            };
            match (result, geometry.smaller()) {
                (Err(cause), Some(smaller)) if full(&cause) => geometry = smaller,
                (result, _) => return result,
            }
        }
    }

    fn create_in(directory: &Path, job_key: &str, geometry: Geometry, processors: usize) -> io::Result<Self> {
        sweep(directory);
        let path = directory.join(file_name(job_key));
        let file = create_locked(&path)?;
        // From here on `path` is removed again whatever happens, by Drop.
        let mut unfinished = Unfinished(Some(path));
        sys::set_length(file.as_fd(), geometry.total() as u64)?;
        for (start, end) in geometry.eager_ranges() {
            sys::reserve(file.as_fd(), start as u64, (end - start) as u64)?;
        }
        let base = map(Some(&file), geometry.total())?;
        let segment = Self { base, geometry, file: Some(file), path: unfinished.0.take() };
        segment.publish(processors);
        Ok(segment)
    }

    /// Attaches to the leader's segment, waiting for it at most `settings.attach_timeout`.
    pub(crate) fn attach(job_key: &str, local_size: usize, settings: &Settings) -> Result<Self, Error> {
        let deadline = clock::now() + settings.attach_timeout;
        let directories = directories(settings);
        let mut last = String::from("it is not there");
        while clock::now() < deadline {
            for directory in &directories {
                match Self::attach_in(directory, job_key, local_size) {
                    Ok(Some(segment)) => return Ok(segment),
                    Ok(None) => {}
                    Err(cause) => last = format!("{}: {}", directory.display(), reason(&cause)),
                }
            }
            std::thread::sleep(std::time::Duration::from_micros(ATTACH_PAUSE_US));
        }
        let seconds = settings.attach_timeout.as_nanos() as f64 / 1e9;
        Err(Error::Peer(format!("the first rank of this node offered no shared segment within {seconds} s: {last}")))
    }

    /// Ok(None): not there, or not finished.
    fn attach_in(directory: &Path, job_key: &str, local_size: usize) -> io::Result<Option<Self>> {
        let path = directory.join(file_name(job_key));
        let file = match open_existing(&path) {
            Ok(file) => file,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(cause),
        };
        let wrong = |what: &str| Err(io::Error::other(format!("{} {what}", path.display())));
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.uid() != sys::user() {
            return wrong("is not a file of this user");
        }
        let mut bytes = [0; 40];
        if metadata.len() < PAGE as u64 || file.read_exact_at(&mut bytes, 0).is_err() {
            return Ok(None);
        }
        let field = |i: usize| u64::from_le_bytes(bytes[i * 8..][..8].try_into().expect("eight bytes")).to_le();
        if field(0) == 0 {
            return Ok(None);
        }
        let slots = u32::from_le_bytes(bytes[SLOTS_AT..][..4].try_into().expect("four bytes")).to_le() as usize;
        let slots = Geometry::slots(local_size, slots);
        let geometry = Geometry { local_size: field(1) as usize, ring_bytes: field(2) as usize, slots };
        if field(0) != MAGIC {
            return wrong("was made by another version of Weft");
        }
        if geometry.local_size != local_size || !geometry.is_valid() || geometry.total() as u64 != metadata.len() {
            return wrong("is not the segment of this job");
        }
        // A sweeper holds the lock only on remains; the leader's own lock keeps sweepers away.
        sys::try_lock(file.as_fd(), Lock::Shared)?;
        let base = map(Some(&file), geometry.total())?;
        let mut segment = Self { base, geometry, file: Some(file), path: None };
        if segment.header().attached.fetch_add(1, Ordering::AcqRel) + 1 == local_size as u32 {
            segment.path = Some(path);
            segment.unlink();
        }
        Ok(Some(segment))
    }

    /// Writes the header, the magic last: an attacher that sees it sees everything.
    fn publish(&self, processors: usize) {
        let header = self.header();
        header.processors.store(u32::try_from(processors).unwrap_or(u32::MAX), Ordering::Relaxed);
        header.local_size.store(self.geometry.local_size as u64, Ordering::Relaxed);
        header.ring_bytes.store(self.geometry.ring_bytes as u64, Ordering::Relaxed);
        header.slots.store(self.geometry.slots.communicators as u32, Ordering::Relaxed);
        header.attached.store(1, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Processors that the leader may use; the same at all ranks.
    pub(crate) fn processors(&self) -> usize {
        self.header().processors.load(Ordering::Relaxed) as usize
    }

    /// Ranks that have attached so far.
    pub(crate) fn attached(&self) -> usize {
        self.header().attached.load(Ordering::Acquire) as usize
    }

    fn header(&self) -> &Header {
        // SAFETY: the segment begins with a Header, mapped and aligned to a page; all its fields are atomics.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// The state of rank `index`.
    pub(crate) fn rank_state(&self, index: usize) -> &RankState {
        assert!(index < self.geometry.local_size);
        // SAFETY: states follow the header's page, `index` is one of them, and all fields are atomics.
        unsafe { self.base.add(PAGE).cast::<RankState>().add(index).as_ref() }
    }

    /// Whether this is the first call by any rank.
    pub(crate) fn speaks_first(&self) -> bool {
        self.header().said.swap(1, Ordering::Relaxed) == 0
    }

    /// Rank `index` is about to sleep by `rest`.
    pub(crate) fn fall_asleep(&self, index: usize, rest: u32) {
        sleeping::fall_asleep(&self.rank_state(index).sleeping, &self.header().asleep, rest);
    }

    /// Makes rank `index` awake; how it slept. Of all who call this for one sleep, one gets something else
    /// than 0.
    pub(crate) fn take_sleep(&self, index: usize) -> u32 {
        sleeping::take_sleep(&self.rank_state(index).sleeping, &self.header().asleep)
    }

    /// Ranks that do not sleep. What killed ranks leave behind makes it smaller, never less than 1.
    pub(crate) fn awake(&self) -> usize {
        self.geometry.local_size.saturating_sub(self.header().asleep.load(Ordering::Relaxed) as usize).max(1)
    }

    /// The ring from `from` to `to`. Whoever asks must keep the segment mapped as long as the ring is used,
    /// and take one end only.
    pub(crate) fn ring(&self, to: usize, from: usize) -> Area {
        let start = self.geometry.ring_start(to, from);
        // SAFETY: the ring lies inside the mapping (see `total`), page-aligned, and was zero when the file
        // was new. That it stays mapped is kept by Inbox and Outbox, which hold the Segment beside their
        // rings.
        unsafe { Area::new(self.base.add(start), self.geometry.ring_bytes) }
    }

    /// A slot of rank `of`. Whoever asks must keep the segment mapped as long as it is used.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub(crate) fn slot(&self, of: usize, slot: usize) -> SlotArea {
        let (start, is_short) = (self.geometry.slot_start(of, slot), self.geometry.is_short(slot));
        // SAFETY: the slot lies inside the mapping (see `total`), aligned to a line, was zero when the file
        // was new, and has been reserved with it. That it stays mapped is kept by Inbox and Outbox, which
        // hold the Segment.
        unsafe { SlotArea::new(self.base.add(start), is_short) }
    }

    /// Puts memory behind the ring from `from` to `to` unless it has been there from the beginning.
    pub(crate) fn reserve_ring(&self, to: usize, from: usize) -> io::Result<()> {
        match &self.file {
            Some(file) if to == from || self.geometry.is_lazy() => {
                let start = self.geometry.ring_start(to, from) as u64;
                sys::reserve(file.as_fd(), start, self.geometry.ring_bytes as u64)
            }
            _ => Ok(()),
        }
    }

    /// Puts memory behind the any-source table of rank `own`, which lies where its ring to itself would.
    pub(crate) fn reserve_common(&self, own: usize) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        sys::reserve(file.as_fd(), self.geometry.ring_start(own, own) as u64, CONTROL_BYTES as u64)
    }

    fn unlink(&mut self) {
        if let Some(path) = self.path.take() {
            // Somebody else may have been last at the same time; then it is gone, which is what we want.
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; rings that point into it are dropped with or before the
        // Segment they came from.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.geometry.total()) };
        self.unlink();
    }
}

/// Removes a file that did not become a segment.
struct Unfinished(Option<PathBuf>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

fn warnings(refused: &[String], used: &Path, wanted: Geometry, found: Geometry) -> Vec<String> {
    let mut warnings = Vec::new();
    if !refused.is_empty() {
        let list = refused.join("; ");
        warnings.push(format!("shared memory between local ranks is in {}, perhaps slow ({list})", used.display()));
    }
    if found != wanted {
        let (less, full) = (found.ring_bytes >> 10, wanted.ring_bytes >> 10);
        let used = used.display();
        warnings.push(format!(
            "{used} has little room (`df {used}`, `ulimit -f`): rings between local ranks have {less} KiB, not {full}"
        ));
    }
    warnings
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
