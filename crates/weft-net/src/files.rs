//! Files (MPI-5.0 §14): the only place that opens, reads, writes, locks and removes the program's files.
//!
//! A transfer that the kernel cuts short is resumed. Each error keeps what was done, with which file, at
//! which offset and for how many bytes; [`Error::class`] is the table from the kernel's numbers to MPI's
//! classes.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use weft_engine::error::ErrorClass;
use weft_plan::two_phase::window::Store;

use crate::sys;

/// What was tried with a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// To open it.
    Open,
    /// To create it.
    Create,
    /// To remove it.
    Remove,
    /// To read these bytes.
    Read,
    /// To write these bytes.
    Write,
    /// To learn its size.
    Measure,
    /// To set its size.
    Resize,
    /// To reserve room for it.
    Allocate,
    /// To bring it to its device.
    Sync,
    /// To lock these bytes.
    Lock,
    /// To close it.
    Close,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 11] = [
        Self::Open,
        Self::Create,
        Self::Remove,
        Self::Read,
        Self::Write,
        Self::Measure,
        Self::Resize,
        Self::Allocate,
        Self::Sync,
        Self::Lock,
        Self::Close,
    ];
}

/// The bytes of a file that an error is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The offset of the first byte.
    pub offset: u64,
    /// Their number.
    pub bytes: u64,
}

/// The error of an operation on a file.
#[derive(Debug)]
pub struct Error {
    /// What was tried.
    pub action: Action,
    /// The file.
    pub path: PathBuf,
    /// The bytes, if the action is about some.
    pub place: Option<Place>,
    /// The kernel's error.
    pub cause: io::Error,
}

/// The result of an operation on a file.
pub type Result<T> = std::result::Result<T, Error>;

/// The classes of the kernel's errors (MPI-5.0 §14.7); every other number is `MPI_ERR_IO`.
const CLASSES: &[(i32, ErrorClass)] = &[
    (libc::EACCES, ErrorClass::Access),
    (libc::EPERM, ErrorClass::Access),
    (libc::EROFS, ErrorClass::ReadOnly),
    (libc::ENOENT, ErrorClass::NoSuchFile),
    (libc::ENOTDIR, ErrorClass::BadFile),
    (libc::EISDIR, ErrorClass::BadFile),
    (libc::ENAMETOOLONG, ErrorClass::BadFile),
    (libc::ELOOP, ErrorClass::BadFile),
    (libc::EINVAL, ErrorClass::Io),
    (libc::EEXIST, ErrorClass::FileExists),
    (libc::ETXTBSY, ErrorClass::FileInUse),
    (libc::EBUSY, ErrorClass::FileInUse),
    (libc::ENOSPC, ErrorClass::NoSpace),
    (libc::EDQUOT, ErrorClass::Quota),
    (libc::ENOMEM, ErrorClass::NoMem),
    (libc::EOPNOTSUPP, ErrorClass::UnsupportedOperation),
    (libc::ENOSYS, ErrorClass::UnsupportedOperation),
    (libc::ENOLCK, ErrorClass::UnsupportedOperation),
    (libc::ESPIPE, ErrorClass::UnsupportedOperation),
];

impl Error {
    /// The MPI error class.
    pub fn class(&self) -> ErrorClass {
        let number = self.cause.raw_os_error();
        CLASSES.iter().find(|(errno, _)| Some(*errno) == number).map_or(ErrorClass::Io, |(_, class)| *class)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.action {
            Action::Open => "open",
            Action::Create => "create",
            Action::Remove => "remove",
            Action::Read => "read",
            Action::Write => "write",
            Action::Measure => "learn the size of",
            Action::Resize => "set the size of",
            Action::Allocate => "reserve room for",
            Action::Sync => "sync",
            Action::Lock => "lock",
            Action::Close => "close",
        };
        let path = self.path.display();
        match self.place {
            Some(Place { offset, bytes }) => write!(out, "cannot {verb} {bytes} bytes at offset {offset} of {path}: ")?,
            None => write!(out, "cannot {verb} {path}: ")?,
        }
        match self.cause.raw_os_error() {
            Some(libc::ESTALE) => write!(
                out,
                "{}: the server has removed or replaced the file, or exports it no more; close it and open it again",
                self.cause
            ),
            Some(_) => out.write_str(&crate::reason(&self.cause)),
            None => write!(out, "{}", self.cause),
        }
    }
}

impl std::error::Error for Error {}

/// The way in which a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// It is read.
    pub reads: bool,
    /// It is written.
    pub writes: bool,
    /// It is created where it is not there.
    pub creates: bool,
    /// It must not be there yet.
    pub exclusive: bool,
    /// The permissions of a new file, before the process's mask.
    pub permissions: u32,
}

/// The kind of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// It is one of this host, which has the bytes of a file when write(2) returns: close(2) has nothing to
    /// tell.
    Local,
    /// Other hosts serve it, so that each access costs a message.
    Remote,
    /// It is another one.
    Unknown,
}

impl Home {
    fn of(number: i64) -> Self {
        match number {
            number if LOCAL.contains(&number) => Self::Local,
            number if REMOTE.contains(&number) => Self::Remote,
            _ => Self::Unknown,
        }
    }

    /// The number by which processes tell one another.
    pub const fn number(self) -> i64 {
        self as i64
    }

    /// The kind with this number.
    pub fn of_number(number: i64) -> Self {
        [Self::Local, Self::Remote].into_iter().find(|home| home.number() == number).unwrap_or(Self::Unknown)
    }
}

/// An open file.
#[derive(Debug)]
pub struct File {
    file: fs::File,
    path: PathBuf,
    /// The size that it may have: a write beyond it would end the process with a signal.
    size_max: u64,
    /// It has no offsets: a pipe or a terminal.
    is_stream: bool,
    identity: [u64; 2],
}

impl File {
    /// Opens the file `path`.
    ///
    /// # Errors
    /// As the kernel says; `MPI_ERR_BAD_FILE` for a directory.
    pub fn open(path: &Path, access: Access) -> Result<Self> {
        let action = if access.creates { Action::Create } else { Action::Open };
        let fail = |cause| Error { action, path: path.to_owned(), place: None, cause };
        let mut options = fs::OpenOptions::new();
        options.read(access.reads).write(access.writes).mode(access.permissions);
        match access {
            Access { creates: true, exclusive: true, .. } => _ = options.create_new(true),
            // The standard library wants to write to what it creates; MPI allows a new file that is only
            // read.
            Access { creates: true, writes: false, .. } => _ = options.custom_flags(libc::O_CREAT),
            Access { creates, .. } => _ = options.create(creates),
        }
        let file = retry(|| options.open(path)).map_err(fail)?;
        let facts = file.metadata().map_err(fail)?;
        let kind = facts.file_type();
        if kind.is_dir() {
            return Err(fail(io::Error::from_raw_os_error(libc::EISDIR)));
        }
        let is_stream = kind.is_fifo() || kind.is_socket() || kind.is_char_device();
        let identity = [facts.dev(), facts.ino()];
        Ok(Self { file, path: path.to_owned(), size_max: sys::file_size_max(), is_stream, identity })
    }

    /// The numbers of its file system and in it. While the file is open, no other file of this host has both.
    pub fn identity(&self) -> [u64; 2] {
        self.identity
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of its file system.
    pub fn home(&self) -> Home {
        sys::file_system(self.file.as_fd()).map_or(Home::Unknown, Home::of)
    }

    /// Returns whether it has no offsets: a pipe, a socket or a character device.
    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    fn fail(&self, action: Action, cause: io::Error) -> Error {
        Error { action, path: self.path.clone(), place: None, cause }
    }

    fn fail_at(&self, action: Action, offset: u64, bytes: u64, cause: io::Error) -> Error {
        Error { place: Some(Place { offset, bytes }), ..self.fail(action, cause) }
    }

    /// Reads into all of `to` from `offset` on, or to the end of the file. Returns the bytes that were read.
    /// Of a stream it reads the next bytes.
    ///
    /// # Errors
    /// As the kernel says, with the bytes that were still to be read.
    pub fn read_at(&self, to: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < to.len() {
            let at = offset + done as u64;
            let rest = &mut to[done..];
            let left = rest.len() as u64;
            let read = if self.is_stream { (&self.file).read(rest) } else { self.file.read_at(rest, at) };
            match read {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(self.fail_at(Action::Read, at, left, cause)),
            }
        }
        Ok(done)
    }

    /// Writes all of `from` from `offset` on; to a stream as its next bytes.
    ///
    /// # Errors
    /// As the kernel says, with the bytes that were still to be written: those before are in the file.
    pub fn write_at(&self, from: &[u8], offset: u64) -> Result<()> {
        if offset.checked_add(from.len() as u64).is_none_or(|end| end > self.size_max) && !self.is_stream {
            let cause = io::Error::from_raw_os_error(libc::EFBIG);
            return Err(self.fail_at(Action::Write, offset, from.len() as u64, cause));
        }
        let mut done = 0;
        while done < from.len() {
            let at = offset + done as u64;
            let rest = &from[done..];
            let written = if self.is_stream { (&self.file).write(rest) } else { self.file.write_at(rest, at) };
            match written {
                // A device that takes nothing has no room.
                Ok(0) => {
                    let cause = io::Error::from_raw_os_error(libc::ENOSPC);
                    return Err(self.fail_at(Action::Write, at, rest.len() as u64, cause));
                }
                Ok(bytes) => done += bytes,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(self.fail_at(Action::Write, at, rest.len() as u64, cause)),
            }
        }
        Ok(())
    }

    /// The size in bytes; 0 of a stream.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn size(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|cause| self.fail(Action::Measure, cause))?.len())
    }

    /// Sets the size: the file loses its end, or gets a hole there.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn set_size(&self, size: u64) -> Result<()> {
        if size > self.size_max {
            return Err(self.fail(Action::Resize, io::Error::from_raw_os_error(libc::EFBIG)));
        }
        retry(|| self.file.set_len(size)).map_err(|cause| self.fail(Action::Resize, cause))
    }

    /// Reserves room for `size` bytes of the file, which is at least as long afterwards. Data that is there
    /// stays. Where the file system cannot reserve, zeros are written past the end of the file, and the holes
    /// before it stay holes.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn preallocate(&self, size: u64) -> Result<()> {
        let fail = |cause| self.fail(Action::Allocate, cause);
        if size == 0 {
            return Ok(());
        }
        if size > self.size_max {
            return Err(fail(io::Error::from_raw_os_error(libc::EFBIG)));
        }
        match sys::allocate(self.file.as_fd(), 0, size) {
            Err(cause) if matches!(cause.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {}
            other => return other.map_err(fail),
        }
        let zeros = vec![0; ZEROS_BYTES];
        let mut at = self.size()?;
        while at < size {
            let bytes = (size - at).min(ZEROS_BYTES as u64);
            self.write_at(&zeros[..bytes as usize], at)?;
            at += bytes;
        }
        Ok(())
    }

    /// Brings all that has been written to the device. Returns `Ok` where the file cannot be synced, as a
    /// pipe cannot.
    ///
    /// # Errors
    /// As the kernel says: data that was written may be lost.
    pub fn sync(&self) -> Result<()> {
        match retry(|| self.file.sync_all()) {
            // A file system that has become read-only after an error says EROFS: data is lost.
            Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            other => other.map_err(|cause| self.fail(Action::Sync, cause)),
        }
    }

    /// Closes the file.
    ///
    /// # Errors
    /// As the kernel says: a file system of another host may say only now that data could not be written.
    pub fn close(self) -> Result<()> {
        sys::close(self.file.into()).map_err(|cause| Error {
            action: Action::Close,
            path: self.path,
            place: None,
            cause,
        })
    }

    /// Locks `bytes` bytes from `offset` on against other opens of the file, in any process, until the value
    /// that is returned goes. Waits for locks that others have.
    ///
    /// # Errors
    /// As the kernel says; some file systems have no locks.
    pub fn lock(&self, exclusive: bool, offset: u64, bytes: u64) -> Result<Lock<'_>> {
        let lock = if exclusive { sys::RangeLock::Exclusive } else { sys::RangeLock::Shared };
        sys::lock_range(self.file.as_fd(), lock, offset, bytes)
            .map_err(|cause| self.fail_at(Action::Lock, offset, bytes, cause))?;
        Ok(Lock { file: self, offset, bytes })
    }
}

/// The numbers by which file systems of this host name themselves (statfs(2)): ext2 to ext4, XFS, Btrfs,
/// F2FS, ZFS, tmpfs and ramfs.
const LOCAL: [i64; 7] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x2fc1_2fc1, 0x0102_1994, 0x8584_58f6];

/// The numbers by which file systems that other hosts serve name themselves (statfs(2)): NFS, SMB1, CIFS,
/// SMB2, AFS, Ceph, FUSE, Lustre, GPFS, PanFS, BeeGFS, OrangeFS, 9p.
const REMOTE: [i64; 13] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x5346_414f,
    0x00c3_6400,
    0x6573_5546,
    0x0bd0_0bd0,
    0x4750_4653,
    0xaad7_aaea,
    0x1983_0326,
    0x2003_0528,
    0x0102_1997,
];

/// The bytes that are written at once where room cannot be reserved.
const ZEROS_BYTES: usize = 1 << 20;

/// A locked range of a file, until it goes.
#[derive(Debug)]
pub struct Lock<'a> {
    file: &'a File,
    offset: u64,
    bytes: u64,
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // To give back a lock that is there cannot fail.
        let _ = sys::lock_range(self.file.file.as_fd(), sys::RangeLock::Unlocked, self.offset, self.bytes);
    }
}

impl Store for File {
    type Error = Error;
    type Lock<'a> = Lock<'a>;

    fn write_at(&self, from: &[u8], offset: u64) -> Result<()> {
        File::write_at(self, from, offset)
    }

    fn read_at(&self, to: &mut [u8], offset: u64) -> Result<()> {
        File::read_at(self, to, offset).map(drop)
    }

    fn lock(&self, exclusive: bool, range: Range<u64>) -> Result<Lock<'_>> {
        File::lock(self, exclusive, range.start, range.end - range.start)
    }
}

/// Removes the file `path`.
///
/// # Errors
/// As the kernel says.
pub fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|cause| Error { action: Action::Remove, path: path.to_owned(), place: None, cause })
}

/// Runs `call` until no signal interrupts it.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const READ_WRITE: Access =
        Access { reads: true, writes: true, creates: true, exclusive: false, permissions: 0o666 };

    /// A directory of this test's own, which goes with the value.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("weft-files-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A file is written with a hole, read over its end, cut and reserved.   Expect: the bytes, zeros in the
    /// hole, the short length, and the sizes.
    #[test]
    fn bytes_go_where_they_belong() {
        let scratch = Scratch::new("bytes");
        let file = File::open(&scratch.path("file"), READ_WRITE).unwrap();
        file.write_at(b"weft", 10).unwrap();
        let mut read = [1; 20];
        assert_eq!(file.read_at(&mut read, 6).unwrap(), 8);
        assert_eq!(&read[..8], b"\0\0\0\0weft");
        assert_eq!(file.read_at(&mut read, 100).unwrap(), 0);
        file.set_size(12).unwrap();
        assert_eq!(file.size().unwrap(), 12);
        file.preallocate(5000).unwrap();
        assert_eq!((file.size().unwrap(), file.read_at(&mut read[..4], 10).unwrap()), (5000, 4));
        assert_eq!(&read[..4], b"we\0\0");
        file.preallocate(100).unwrap();
        assert_eq!(file.size().unwrap(), 5000);
        file.sync().unwrap();
    }

    /// Each kind of wrong path and access.   Expect: its class, and a sentence with the path.
    #[test]
    fn errors_have_a_class_and_a_place() {
        let scratch = Scratch::new("errors");
        let missing = scratch.path("missing");
        let open = |path: &Path, access| File::open(path, access).unwrap_err();
        let plain = Access { creates: false, ..READ_WRITE };
        let error = open(&missing, plain);
        assert_eq!((error.class(), error.action), (ErrorClass::NoSuchFile, Action::Open));
        assert!(error.to_string().starts_with(&format!("cannot open {}: ", missing.display())), "{error}");
        assert_eq!(open(&scratch.0, plain).class(), ErrorClass::BadFile);
        assert_eq!(open(&scratch.0, Access { writes: false, ..plain }).class(), ErrorClass::BadFile);
        assert_eq!(open(&scratch.path(&"x".repeat(300)), READ_WRITE).class(), ErrorClass::BadFile);
        let there = scratch.path("there");
        let file = File::open(&there, Access { writes: false, ..READ_WRITE }).unwrap();
        assert_eq!(open(&there, Access { exclusive: true, ..READ_WRITE }).class(), ErrorClass::FileExists);
        let error = file.write_at(b"no", 7).unwrap_err();
        assert_eq!((error.place, error.action), (Some(Place { offset: 7, bytes: 2 }), Action::Write));
        assert_eq!(remove(&missing).unwrap_err().class(), ErrorClass::NoSuchFile);
        remove(&there).unwrap();
        let full = File::open(Path::new("/dev/full"), plain).unwrap();
        assert!(full.is_stream());
        assert_eq!(full.write_at(b"no", 0).unwrap_err().class(), ErrorClass::NoSpace);
    }

    /// The table of classes.   Expect: each number once.
    #[test]
    fn each_number_has_one_class() {
        let numbers: BTreeSet<i32> = CLASSES.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers.len(), CLASSES.len());
    }

    /// A write past the limit for files.   Expect: an error and no signal.
    #[test]
    fn a_file_that_is_too_large_is_an_error() {
        let scratch = Scratch::new("large");
        let mut file = File::open(&scratch.path("file"), READ_WRITE).unwrap();
        file.size_max = 100;
        let error = file.write_at(&[0; 20], 90).unwrap_err();
        assert_eq!(error.cause.raw_os_error(), Some(libc::EFBIG));
        assert!(error.to_string().contains("ulimit -f"), "{error}");
        assert!(file.set_size(101).is_err() && file.preallocate(101).is_err());
        assert_eq!(file.size().unwrap(), 0);
    }

    /// Two opens of one file: one locks a range, another one writes there under a lock.   Expect: the second
    /// gets its lock when the first has given its own back, and locks elsewhere at once.
    #[test]
    fn a_lock_keeps_others_out() {
        let scratch = Scratch::new("lock");
        let path = scratch.path("file");
        let first = File::open(&path, READ_WRITE).unwrap();
        let second = File::open(&path, READ_WRITE).unwrap();
        let held = first.lock(true, 10, 10).unwrap();
        drop(second.lock(true, 20, 5).unwrap());
        let waits = std::thread::spawn(move || {
            let _held = second.lock(false, 15, 1).unwrap();
            let mut seen = [0; 1];
            second.read_at(&mut seen, 15).unwrap();
            seen[0]
        });
        first.write_at(&[7; 10], 10).unwrap();
        drop(held);
        assert_eq!(waits.join().unwrap(), 7);
    }
}
