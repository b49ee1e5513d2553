//! The shared segment: a file that all ranks of the node map, unlinked as soon as the last rank has mapped
//! it.
//!
//! ```text
//! header       │ 4096 bytes, with the costs of the machine and the words of its calibration
//! rank states  │ 256 bytes each, padded to a page
//! slots        │ by rank
//! rings        │ by receiver, then by sender
//! ```
//!
//! The leader (local index 0) creates it in the first directory that can hold all of it. Every byte is
//! reserved before it is touched, so that a full file system is an error here and not a SIGBUS later. When
//! the rings of all ranks together would need too much memory, each ring is reserved on its first use. An
//! open file carries a shared lock. A file without a lock was left by a killed job; the next leader in that
//! directory removes it.
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
use super::calibration::{CALIBRATION_RING_BYTES, CalibrationWords};
use super::costs::SharedCosts;
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

const MAGIC: u64 = u64::from_le_bytes(*b"weftshm\x08");
/// Offset of the slot counts in the header.
const SLOTS_AT: usize = std::mem::offset_of!(Header, slots);
/// In the place of the slot counts: there are no slots, and each ring is reserved on its first use.
const ONLY_RINGS: u32 = u32::MAX;
/// Offsets of the costs and of the calibration's words in the segment, behind the header.
const COSTS_AT: usize = 1024;
const CALIBRATION_AT: usize = 2048;
/// Offset of the calibration's ring in the leader's ring to itself, behind the any-source table.
const CALIBRATION_RING_AT: usize = 2 * PAGE;
/// Pause between two looks for the leader's segment.
const ATTACH_PAUSE_US: u64 = 200;

/// First line of the segment. The leader writes it; all ranks write `attached`.
#[repr(C)]
struct Header {
    magic: AtomicU64,
    local_size: AtomicU64,
    ring_bytes: AtomicU64,
    attached: AtomicU32,
    /// Processors that the leader may use.
    processors: AtomicU32,
    /// Not 0 once a rank has said what all ranks would say (`Node::speaks_first`).
    said: AtomicU32,
    /// Slots of each rank for communicators, or [`ONLY_RINGS`]. The slots for persistent operations follow
    /// from this number.
    slots: AtomicU32,
    _pad: [u8; 80],
    /// Ranks that sleep in MPI, or are about to. The other ranks want processors.
    asleep: AtomicU32,
}

/// The state of a rank, as far as its peers must know it. Senders write the first line, so the rank shares
/// that line with no other rank.
#[repr(C, align(256))]
pub(crate) struct RankState {
    /// The mode in which the rank sleeps, or is about to, and so is woken (`super::SleepMode`); 0 while it is
    /// awake.
    pub(crate) sleeping: AtomicU32,
    /// Counter that grows when a sender uses its ring for the first time.
    pub(crate) announcements: AtomicU32,
    /// The rank's process number; 0 until the rank has attached.
    pub(crate) pid: AtomicI32,
    /// Counter that grows when a sender has written to a receive of this rank's tables.
    pub(crate) written: AtomicU32,
    _pad: [u8; 88],
    /// The key of the doorbell that the rank's progress thread always watches, once there is one.
    pub(crate) progress_bell: [AtomicU64; KEY_WORDS],
    /// The senders that have ever used their ring to this rank, a bit each.
    pub(crate) announced: [AtomicU64; LOCAL_SIZE_MAX / 64],
    /// Not 0 while the rank waits inside MPI, so that it will see to what arrives. A sender reads it when it
    /// has a large message to send. The value also says on which processor the rank spins, if it does
    /// (`super::SPINS`).
    pub(crate) inside_mpi: AtomicU32,
    /// Receives that the rank has ever posted on its tables.
    pub(crate) posted: AtomicU32,
    /// Not 0 once the rank has an any-source table.
    pub(crate) common: AtomicU32,
    /// The rank's answer whether it may copy from the memory of all others (`super::COPIES`); 0 until it has
    /// found out.
    pub(crate) copies: AtomicU32,
    /// The key of the rank's doorbell: its name and its secret (`super::doorbell::Key`).
    pub(crate) bell: [AtomicU64; KEY_WORDS],
    /// Time at which the rank's process began, where other processes can ask for it (`crate::life`).
    pub(crate) birth: AtomicU64,
    /// Not 0 while no rank needs this rank any more, so that its process may end.
    pub(crate) left: AtomicU32,
}

const _: () = {
    assert!(size_of::<Header>() <= COSTS_AT && COSTS_AT + size_of::<SharedCosts>() <= CALIBRATION_AT);
    assert!(
        CALIBRATION_AT + size_of::<CalibrationWords>() <= PAGE
            && CALIBRATION_AT.is_multiple_of(align_of::<CalibrationWords>())
    );
    assert!(CONTROL_BYTES <= CALIBRATION_RING_AT && CALIBRATION_RING_AT.is_multiple_of(PAGE));
    assert!(size_of::<RankState>() == 256);
    assert!(sizes::RING_BYTES_MIN.is_multiple_of(PAGE));
};

/// The mapped segment.
pub(crate) struct Segment {
    base: NonNull<u8>,
    geometry: Geometry,
    /// The segment's file. None for a single rank, whose segment is private memory.
    file: Option<File>,
    /// The name that is still to be removed.
    path: Option<PathBuf>,
}

// SAFETY: a Segment is mapped memory, used through atomics and through rings, which have one owner at each
// end.
unsafe impl Send for Segment {}
// SAFETY: as above; all methods that take &self use atomics or system calls.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates the segment as the leader, in the first directory that can hold it. The warnings name the
    /// directories that could not.
    pub(crate) fn create(job_key: &str, local_size: usize, settings: &Settings) -> Result<(Self, Vec<String>), Error> {
        let geometry = Geometry::choose(local_size, settings);
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

    /// Creates the segment as large as the directory has room for.
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
        // From here on Drop removes `path` again, whatever happens.
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
        let thousandths = settings.attach_timeout.as_nanos() / 1_000_000;
        let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
        let seconds = text.trim_end_matches('0').trim_end_matches('.');
        Err(Error::Peer(format!("the first rank of this node offered no shared segment within {seconds} s: {last}")))
    }

    /// Tries to attach to the segment in `directory`. Returns `Ok(None)` when it is not there, or not
    /// finished.
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
        let slots = u32::from_le_bytes(bytes[SLOTS_AT..][..4].try_into().expect("four bytes")).to_le();
        let only_rings = slots == ONLY_RINGS;
        let slots = Geometry::slots(local_size, if only_rings { 0 } else { slots as usize });
        let geometry = Geometry { local_size: field(1) as usize, ring_bytes: field(2) as usize, slots, only_rings };
        if field(0) != MAGIC {
            return wrong("was made by another version of Weft");
        }
        if geometry.local_size != local_size || !geometry.is_valid() || geometry.total() as u64 != metadata.len() {
            return wrong("is not the segment of this job");
        }
        // A sweeper locks a file only when the file is left over. The leader's own lock keeps sweepers away.
        sys::try_lock(file.as_fd(), Lock::Shared)?;
        let base = map(Some(&file), geometry.total())?;
        let mut segment = Self { base, geometry, file: Some(file), path: None };
        if segment.header().attached.fetch_add(1, Ordering::AcqRel) + 1 == local_size as u32 {
            segment.path = Some(path);
            segment.unlink();
        }
        Ok(Some(segment))
    }

    /// Writes the header, the magic last: a rank that sees the magic sees everything.
    fn publish(&self, processors: usize) {
        let header = self.header();
        header.processors.store(u32::try_from(processors).unwrap_or(u32::MAX), Ordering::Relaxed);
        header.local_size.store(self.geometry.local_size as u64, Ordering::Relaxed);
        header.ring_bytes.store(self.geometry.ring_bytes as u64, Ordering::Relaxed);
        let Geometry { slots, only_rings, .. } = self.geometry;
        header.slots.store(if only_rings { ONLY_RINGS } else { slots.communicators as u32 }, Ordering::Relaxed);
        header.attached.store(1, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the processors that the leader may use. The result is the same at all ranks.
    pub(crate) fn processors(&self) -> usize {
        self.header().processors.load(Ordering::Relaxed) as usize
    }

    /// Returns the number of ranks that have attached so far.
    pub(crate) fn attached(&self) -> usize {
        self.header().attached.load(Ordering::Acquire) as usize
    }

    fn header(&self) -> &Header {
        // SAFETY: the segment begins with a Header, mapped and aligned to a page; all its fields are atomics.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// Returns the state of rank `index`.
    pub(crate) fn rank_state(&self, index: usize) -> &RankState {
        assert!(index < self.geometry.local_size);
        // SAFETY: states follow the header's page, `index` is one of them, and all fields are atomics.
        unsafe { self.base.add(PAGE).cast::<RankState>().add(index).as_ref() }
    }

    /// Returns the costs that the ranks share.
    #[inline]
    pub(crate) fn costs(&self) -> &SharedCosts {
        // SAFETY: the costs lie in the header's page (checked above), aligned, and all their fields are
        // atomics.
        unsafe { self.base.add(COSTS_AT).cast::<SharedCosts>().as_ref() }
    }

    /// Returns the words by which two ranks agree on a calibration.
    pub(crate) fn calibration_words(&self) -> &CalibrationWords {
        // SAFETY: as above.
        unsafe { self.base.add(CALIBRATION_AT).cast::<CalibrationWords>().as_ref() }
    }

    /// Returns the ring for the calibration, if the leader's ring to itself, which nothing else uses, has
    /// room for it. The caller must keep the segment mapped as long as the ring is used, and use one end
    /// only.
    pub(crate) fn calibration_ring(&self) -> Option<Area> {
        let start = self.geometry.ring_start(0, 0) + CALIBRATION_RING_AT;
        let fits = CALIBRATION_RING_AT + CALIBRATION_RING_BYTES <= self.geometry.ring_bytes;
        // SAFETY: as in `ring`; the any-source table lies before it.
        fits.then(|| unsafe { Area::new(self.base.add(start), CALIBRATION_RING_BYTES) })
    }

    /// Puts memory behind the ring for the calibration.
    pub(crate) fn reserve_calibration_ring(&self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let start = self.geometry.ring_start(0, 0) + CALIBRATION_RING_AT;
        sys::reserve(file.as_fd(), start as u64, CALIBRATION_RING_BYTES as u64)
    }

    /// Returns whether this is the first call by any rank.
    pub(crate) fn speaks_first(&self) -> bool {
        self.header().said.swap(1, Ordering::Relaxed) == 0
    }

    /// Announces that rank `index` is about to sleep in the way `rest`.
    pub(crate) fn fall_asleep(&self, index: usize, rest: u32) {
        sleeping::fall_asleep(&self.rank_state(index).sleeping, &self.header().asleep, rest);
    }

    /// Makes rank `index` awake, and returns how it slept. Of all callers for the same sleep, only one gets a
    /// value other than 0.
    pub(crate) fn take_sleep(&self, index: usize) -> u32 {
        sleeping::take_sleep(&self.rank_state(index).sleeping, &self.header().asleep)
    }

    /// Returns the number of ranks that do not sleep. Traces of killed ranks make the number smaller, but
    /// never less than 1.
    pub(crate) fn awake(&self) -> usize {
        self.geometry.local_size.saturating_sub(self.header().asleep.load(Ordering::Relaxed) as usize).max(1)
    }

    /// Returns the ring from `from` to `to`. The caller must keep the segment mapped as long as the ring is
    /// used, and use one end only.
    pub(crate) fn ring(&self, to: usize, from: usize) -> Area {
        let start = self.geometry.ring_start(to, from);
        // SAFETY: the ring lies inside the mapping (see `total`), page-aligned, and was zero when the file
        // was new. It stays mapped because Inbox and Outbox hold the Segment beside their rings.
        unsafe { Area::new(self.base.add(start), self.geometry.ring_bytes) }
    }

    /// Returns a slot of rank `of`. The caller must keep the segment mapped as long as the slot is used.
    ///
    /// # Panics
    /// When rank `of` has no such slot.
    #[inline]
    pub(crate) fn slot(&self, of: usize, slot: usize) -> SlotArea {
        let (start, is_short) = (self.geometry.slot_start(of, slot), self.geometry.is_short(slot));
        // SAFETY: the slot lies inside the mapping (see `total`), aligned to a line; it was zero when the
        // file was new, and was reserved with the file. It stays mapped because Inbox and Outbox hold the
        // Segment.
        unsafe { SlotArea::new(self.base.add(start), is_short) }
    }

    /// Puts memory behind the ring from `from` to `to`, unless memory has been there from the beginning.
    pub(crate) fn reserve_ring(&self, to: usize, from: usize) -> io::Result<()> {
        match &self.file {
            Some(file) if to == from || self.geometry.is_lazy() => {
                let start = self.geometry.ring_start(to, from) as u64;
                sys::reserve(file.as_fd(), start, self.geometry.ring_bytes as u64)
            }
            _ => Ok(()),
        }
    }

    /// Puts memory behind the any-source table of rank `own`, in the place of the rank's ring to itself.
    pub(crate) fn reserve_common(&self, own: usize) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        sys::reserve(file.as_fd(), self.geometry.ring_start(own, own) as u64, CONTROL_BYTES as u64)
    }

    fn unlink(&mut self) {
        if let Some(path) = self.path.take() {
            // If another rank attached last at the same time, the file is gone already, which is what this
            // wants.
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length. Rings that point into the mapping are dropped with or
        // before the Segment they came from.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.geometry.total()) };
        self.unlink();
    }
}

/// The name of a file that may not become a segment. Dropping this removes the file.
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
