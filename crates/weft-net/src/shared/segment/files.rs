//! The files of memory that processes of a node share: names, directories and mappings. By a lock on the file
//! each process shows that it uses the file.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use super::super::Settings;
use crate::sys::{self, Lock};

/// Most names in a directory that a leader looks at for files left by killed jobs.
const SWEEP_NAMES_MAX: usize = 256;
/// Attempts of a leader to create its file, when sweepers take the file for a leftover.
const CREATE_ATTEMPTS: usize = 4;

pub(in crate::shared) fn file_name(job_key: &str) -> String {
    format!("{}{job_key}", file_prefix())
}

fn file_prefix() -> String {
    format!("weft-{}-", sys::user())
}

/// Returns the directories to try: the user's choice first, then the usual places, each once.
pub(crate) fn directories(settings: &Settings) -> Vec<PathBuf> {
    let usual =
        [Some(PathBuf::from("/dev/shm")), std::env::var_os("TMPDIR").map(PathBuf::from), Some(PathBuf::from("/tmp"))];
    let mut list: Vec<PathBuf> = Vec::new();
    for directory in settings.directory.iter().cloned().chain(usual.into_iter().flatten()) {
        if directory.is_absolute() && !list.contains(&directory) {
            list.push(directory);
        }
    }
    list
}

/// Creates a new file that carries this process's shared lock and that no sweeper has removed.
pub(in crate::shared) fn create_locked(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    for _ in 0..CREATE_ATTEMPTS {
        let file = options.open(path)?;
        if sys::try_lock(file.as_fd(), Lock::Shared).is_ok() && file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
        // A sweeper was faster, and removes the file itself.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Err(io::Error::other("the new file was removed again and again"))
}

pub(in crate::shared) fn open_existing(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

/// Removes segments of this user that no process has open. Any unexpected file is left alone.
pub(in crate::shared) fn sweep(directory: &Path) {
    let prefix = file_prefix();
    let Ok(names) = fs::read_dir(directory) else { return };
    for entry in names.take(SWEEP_NAMES_MAX).flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix));
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(file) = open_existing(&entry.path()) else { continue };
        if sys::try_lock(file.as_fd(), Lock::Exclusive).is_ok() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Maps `len` bytes of a file, shared by all processes that map it; or private zeros when there is no file.
pub(in crate::shared) fn map(file: Option<&File>, len: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (flags, fd) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))
}
