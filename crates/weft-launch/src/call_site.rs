//! The MPI call that a rank is in, readable from outside even after the rank has died. The library notes its
//! calls here, and the agent reads them for `mpiexec`.
//!
//! The agent that starts the ranks of a host shares one small piece of memory with them: a head, an entry of
//! one cache line per rank, and a table of names. A rank stores the number of the call that it enters, one
//! relaxed store per call. The first rank writes the table that turns numbers into names.

use crate::sys;
use std::fs::File;
use std::sync::atomic::{AtomicU32, Ordering};

/// Words of the head, one cache line: `[table state, hash of the table, bytes of the table]`.
const HEAD_WORDS: usize = 16;
/// Words of a rank's entry, one cache line: `[call, hash of the rank's table]`.
const ENTRY_WORDS: usize = 16;
/// Room for the table of names, in words.
const TABLE_WORDS: usize = 8 * 1024;
/// The most bytes that the names may take, each with a newline.
pub(crate) const TABLE_BYTES_MAX: usize = TABLE_WORDS * 4;

const TABLE_EMPTY: u32 = 0;
const TABLE_BEING_WRITTEN: u32 = 1;
const TABLE_READY: u32 = 2;

const STATE: usize = 0;
const HASH: usize = 1;
const LENGTH: usize = 2;

/// The word in which calls are noted when no launcher looks on.
static NOWHERE: AtomicU32 = AtomicU32::new(CallSite::OUTSIDE);
static CURRENT: sys::WordRef = sys::WordRef::new(&NOWHERE);

/// The call that this process is in, for the launcher.
pub struct CallSite;

impl CallSite {
    /// The number that stands for: not inside any call.
    pub const OUTSIDE: u32 = u32::MAX;

    /// Notes that this process is now in the call with this number, an index into the names of
    /// [`Observer::name_calls`](crate::Observer::name_calls), or [`Self::OUTSIDE`]. One relaxed store;
    /// allowed at any time, from any thread, with or without a launcher. The last store wins.
    #[inline]
    pub fn set(call: u32) {
        CURRENT.word().store(call, Ordering::Relaxed);
    }

    /// Hides this process: later calls of [`Self::set`] are seen by this process only.
    pub fn hide() {
        CURRENT.refer_to(&NOWHERE);
    }

    /// The number that was set last.
    #[inline]
    pub fn get() -> u32 {
        CURRENT.word().load(Ordering::Relaxed)
    }
}

/// The memory that an agent shares with its ranks.
#[derive(Clone, Copy)]
pub(crate) struct Board {
    words: &'static [AtomicU32],
    entries: usize,
}

/// The place of a rank, as far as its entry tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// The rank has not said anything: before `MPI_Init`, or not a Weft program.
    Unknown,
    /// Between MPI calls.
    Outside,
    /// Inside the named call.
    Inside(String),
}

impl Board {
    /// The bytes that a board with `entries` entries takes.
    pub(crate) fn bytes(entries: usize) -> usize {
        Self::word_count(entries) * 4
    }

    fn word_count(entries: usize) -> usize {
        HEAD_WORDS + entries * ENTRY_WORDS + TABLE_WORDS
    }

    /// Maps the board with `entries` entries that is in `file`.
    pub(crate) fn map(file: &File, entries: usize) -> std::io::Result<Self> {
        Ok(Self { words: sys::map_words(file, Self::word_count(entries))?, entries })
    }

    /// Notes for every rank that it is in no call.
    pub(crate) fn clear(&self) {
        for entry in 0..self.entries {
            self.entry(entry)[0].store(CallSite::OUTSIDE, Ordering::Relaxed);
        }
    }

    fn entry(&self, entry: usize) -> &'static [AtomicU32] {
        assert!(entry < self.entries, "entry {entry} of {}", self.entries);
        let start = HEAD_WORDS + entry * ENTRY_WORDS;
        &self.words[start..start + ENTRY_WORDS]
    }

    fn table(&self) -> &'static [AtomicU32] {
        &self.words[HEAD_WORDS + self.entries * ENTRY_WORDS..]
    }

    /// Makes [`CallSite::set`] of this process write into `entry` from now on.
    pub(crate) fn use_entry(&self, entry: usize) {
        let word = &self.entry(entry)[0];
        word.store(CallSite::get(), Ordering::Relaxed);
        CURRENT.refer_to(word);
    }

    /// Writes the table of names unless another rank has done so, and notes in `entry` which table its
    /// numbers refer to. Names beyond [`TABLE_BYTES_MAX`] are left out: their calls are reported by number.
    pub(crate) fn name_calls(&self, entry: usize, names: &[&str]) {
        let mut text = String::new();
        for name in names {
            if text.len() + name.len() + 1 > TABLE_BYTES_MAX {
                break;
            }
            text.push_str(name);
            text.push('\n');
        }
        let hash = hash(text.as_bytes());
        let state = &self.words[STATE];
        let claim = state.compare_exchange(TABLE_EMPTY, TABLE_BEING_WRITTEN, Ordering::Acquire, Ordering::Relaxed);
        if claim.is_ok() {
            for (word, bytes) in self.table().iter().zip(text.as_bytes().chunks(4)) {
                let mut padded = [0; 4];
                padded[..bytes.len()].copy_from_slice(bytes);
                word.store(u32::from_ne_bytes(padded), Ordering::Relaxed);
            }
            self.words[HASH].store(hash, Ordering::Relaxed);
            self.words[LENGTH].store(u32::try_from(text.len()).unwrap_or(0), Ordering::Relaxed);
            state.store(TABLE_READY, Ordering::Release);
        }
        self.entry(entry)[1].store(hash, Ordering::Release);
    }

    /// The place where the rank that uses `entry` is, or was when it died.
    pub(crate) fn whereabouts(&self, entry: usize) -> Whereabouts {
        let words = self.entry(entry);
        let hash = words[1].load(Ordering::Acquire);
        if hash == 0 {
            return Whereabouts::Unknown;
        }
        match words[0].load(Ordering::Relaxed) {
            CallSite::OUTSIDE => Whereabouts::Outside,
            call => Whereabouts::Inside(self.name(call, hash).unwrap_or_else(|| format!("MPI call number {call}"))),
        }
    }

    fn name(&self, call: u32, counted_by: u32) -> Option<String> {
        if self.words[STATE].load(Ordering::Acquire) != TABLE_READY
            || self.words[HASH].load(Ordering::Relaxed) != counted_by
        {
            return None;
        }
        let length = (self.words[LENGTH].load(Ordering::Relaxed) as usize).min(TABLE_BYTES_MAX);
        let mut bytes: Vec<u8> = self
            .table()
            .iter()
            .take(length.div_ceil(4))
            .flat_map(|w| w.load(Ordering::Relaxed).to_ne_bytes())
            .collect();
        bytes.truncate(length);
        let name = bytes.split(|&byte| byte == b'\n').nth(call as usize)?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }
}

/// FNV-1a in 32 bits, never zero: zero means that a rank has named nothing yet.
fn hash(bytes: &[u8]) -> u32 {
    let hash = bytes.iter().fold(0x811c_9dc5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.max(1)
}
