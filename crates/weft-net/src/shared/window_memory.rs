//! Memory of windows that the processes of a node share (`MPI_Win_allocate`, `MPI_Win_allocate_shared`,
//! MPI-5.0 §12.2): a file that all of them map.
//!
//! A single process creates the file in the first directory that can hold all of it. The other processes map
//! the file by its name, and then the name is removed. Every byte is reserved before it is touched, as for
//! the node's segment.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::ptr::NonNull;

use std::sync::OnceLock;

use weft_engine::memory::Holder;

use super::Settings;
use super::segment::{create_locked, directories, file_name, map, open_existing, sweep};
use crate::sys;
use crate::{Error, reason};

/// Returns this process as a holder of windows' locks.
pub fn holder() -> &'static Holder {
    static HOLDER: OnceLock<Holder> = OnceLock::new();
    // Process numbers are positive numbers of 31 bits.
    HOLDER.get_or_init(|| Holder { id: std::process::id(), exists: |id| sys::has_process(id as i32) })
}

/// Mapped memory, zero at first. Dropping it unmaps the memory.
pub struct WindowMemory {
    base: NonNull<u8>,
    bytes: usize,
    /// The file, held open for its lock: without the lock a leader would take the file for a leftover of a
    /// killed job.
    _file: Option<File>,
    /// The name that is still to be removed.
    path: Option<PathBuf>,
}

// SAFETY: it is an address and a length. The code that accesses the memory answers for the access.
unsafe impl Send for WindowMemory {}

impl WindowMemory {
    /// Maps `bytes` bytes that no other process has.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn private(bytes: usize) -> Result<Self, Error> {
        let base = map(None, bytes.max(1)).map_err(|cause| Error::system("map memory for a window", cause))?;
        Ok(Self { base, bytes: bytes.max(1), _file: None, path: None })
    }

    /// Creates `bytes` bytes under a name that no other window of the node has.
    ///
    /// # Errors
    /// No directory can hold the bytes.
    pub fn create(name: &str, bytes: usize, settings: &Settings) -> Result<Self, Error> {
        let mut refused = Vec::new();
        for directory in directories(settings) {
            sweep(&directory);
            let path = directory.join(file_name(name));
            match Self::create_at(path, bytes.max(1)) {
                Ok(memory) => return Ok(memory),
                Err(cause) => refused.push(format!("{}: {}", directory.display(), reason(&cause))),
            }
        }
        let (needed, list) = (bytes.div_ceil(1 << 10), refused.join("; "));
        Err(Error::Unavailable(format!(
            "no directory can hold the {needed} KiB of a window that processes of this node share ({list}); set WEFT_SHM_DIR"
        )))
    }

    fn create_at(path: PathBuf, bytes: usize) -> io::Result<Self> {
        let file = create_locked(&path)?;
        let made =
            sys::set_length(file.as_fd(), bytes as u64).and_then(|()| sys::reserve(file.as_fd(), 0, bytes as u64));
        match made.and_then(|()| map(Some(&file), bytes)) {
            Ok(base) => Ok(Self { base, bytes, _file: Some(file), path: Some(path) }),
            Err(cause) => {
                let _ = fs::remove_file(path);
                Err(cause)
            }
        }
    }

    /// Maps the memory that another process of the node has created under this name.
    ///
    /// # Errors
    /// The file is not there, or is not what was created.
    pub fn attach(name: &str, bytes: usize, settings: &Settings) -> Result<Self, Error> {
        let mut last = String::from("it is not there");
        for directory in directories(settings) {
            let path = directory.join(file_name(name));
            let file = match open_existing(&path) {
                Ok(file) => file,
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
                Err(cause) => {
                    last = format!("{}: {}", path.display(), reason(&cause));
                    continue;
                }
            };
            let metadata = file.metadata();
            let is_it = metadata
                .is_ok_and(|found| found.is_file() && found.uid() == sys::user() && found.len() == bytes.max(1) as u64);
            if !is_it {
                last = format!("{} is not the memory of this window", path.display());
                continue;
            }
            match sys::try_lock(file.as_fd(), sys::Lock::Shared).and_then(|()| map(Some(&file), bytes.max(1))) {
                Ok(base) => return Ok(Self { base, bytes: bytes.max(1), _file: Some(file), path: None }),
                Err(cause) => last = format!("{}: {}", path.display(), reason(&cause)),
            }
        }
        Err(Error::Peer(format!("the memory of a window that another process of this node has created: {last}")))
    }

    /// Removes the file's name, once all processes have mapped the file.
    pub fn unlink(&mut self) {
        if let Some(path) = self.path.take() {
            let _ = fs::remove_file(path);
        }
    }

    /// Returns the address of the memory, which is page-aligned.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns the length of the memory in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns whether the memory has no bytes, which never happens.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for WindowMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length. The caller of `base` has promised to use the address no
        // longer than this value lives.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
        self.unlink();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicU32, Ordering};

    use weft_engine::memory::Held;

    use super::*;

    /// Memory is created, mapped again by its name, and the name removed.   Expect: both mappings show the
    /// same bytes; the name leads nowhere afterwards.
    #[test]
    fn what_one_writes_the_other_reads() {
        let settings = Settings::default();
        let name = format!("test-window-{}", std::process::id());
        let mut first = WindowMemory::create(&name, 10_000, &settings).unwrap();
        let second = WindowMemory::attach(&name, 10_000, &settings).unwrap();
        assert!(WindowMemory::attach(&name, 10_001, &settings).is_err());
        // SAFETY: both are mapped with 10000 bytes.
        unsafe {
            assert_eq!(*second.base().add(9_999), 0);
            first.base().add(9_999).write(7);
            assert_eq!(*second.base().add(9_999), 7);
        }
        first.unlink();
        assert!(WindowMemory::attach(&name, 10_000, &settings).is_err());
        assert_eq!((first.len(), first.is_empty()), (10_000, false));
        let private = WindowMemory::private(0).unwrap();
        assert!(!private.base().is_null());
    }

    /// A window asks for more bytes than any directory has.   Expect: a message with the reason of each
    /// directory, and nothing left behind.
    #[test]
    fn what_no_directory_holds_is_refused() {
        let settings = Settings::default();
        let error = WindowMemory::create("test-window-large", 1 << 50, &settings).err().map(|error| error.to_string());
        assert!(error.is_some_and(|sentence| sentence.contains("WEFT_SHM_DIR")));
        assert!(
            directories(&settings).iter().all(|directory| !directory.join(file_name("test-window-large")).exists())
        );
    }

    /// A process takes a lock in the memory, and is killed with it.   Expect: while the process lives no
    /// other gets the lock; then another takes it over.
    #[test]
    fn a_lock_outlives_nobody_who_held_it() {
        const NAME: &str = "WEFT_TEST_WINDOW";
        const BYTES: usize = 4096;
        let settings = Settings::default();
        let word = |memory: &WindowMemory| {
            // SAFETY: the mapping is aligned to pages, and the test ends before it does.
            unsafe { AtomicU32::from_ptr(memory.base().cast::<u32>()) as *const AtomicU32 }
        };
        if let Ok(name) = std::env::var(NAME) {
            // This is the process that is killed.
            let memory = WindowMemory::attach(&name, BYTES, &settings).unwrap();
            // SAFETY: as above.
            std::mem::forget(Held::take(unsafe { &*word(&memory) }, holder()));
            println!("held");
            std::thread::sleep(std::time::Duration::from_secs(60));
            return;
        }
        let name = format!("test-lock-{}", std::process::id());
        let memory = WindowMemory::create(&name, BYTES, &settings).unwrap();
        // SAFETY: as above.
        let lock = unsafe { &*word(&memory) };
        let test = "shared::window_memory::tests::a_lock_outlives_nobody_who_held_it";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(NAME, &name)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("held")));
        assert_eq!(lock.load(Ordering::Relaxed), child.id());
        assert!((holder().exists)(child.id()), "it lives");
        child.kill().unwrap();
        child.wait().unwrap();
        drop(Held::take(lock, holder()));
        assert_eq!(lock.load(Ordering::Relaxed), 0);
    }
}
