//! The registry of the processors that the jobs of this machine use: locks on files that every user may read.
//!
//! For processor 3 there are these files:
//!
//! - `taken-3`: the agent that has bound a rank to the processor keeps it locked.
//! - `rank-3-0`, `rank-3-1`, …: one of them is locked for each rank that runs there.
//!
//! The locks are advisory (flock(2)) and end with the agent, however it ends. The files are empty, and stay.
//! A process that reads or changes the registry locks `registry` meanwhile.

use crate::defaults::Defaults;
use crate::sys;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions, create_dir_all};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The directory of the files, in memory that a whole machine shares, whatever network namespace a process is
/// in.
pub const DIRECTORY: &str = "/dev/shm/weft-processors";
/// The variable for another directory, for containers that share one, and for tests.
const DIRECTORY_VARIABLE: &str = "WEFT_REGISTRY";
/// The longest wait for the registry before the agent goes on without it.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(1);
/// The most ranks that are counted at one processor: more of them change nothing.
const RANKS_MAX: usize = 8;

/// The directory in which the jobs of a machine note which processors they use.
#[derive(Debug)]
pub(crate) struct Registry {
    directory: PathBuf,
}

/// The locks of one agent, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    files: Vec<File>,
}

/// The registry while this process has it locked.
#[derive(Debug)]
pub(crate) struct Session {
    directory: Directory,
    _all: File,
}

/// The directory, opened and checked: no other directory can take its place any more.
#[derive(Debug)]
struct Directory {
    opened: File,
}

impl Registry {
    /// The registry of the machine, which the environment or a file of defaults of the machine names.
    pub(crate) fn of_machine() -> Self {
        let said = std::env::var_os(DIRECTORY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        // A job that starts here has named what is wrong with a file.
        let in_file = || Some(Defaults::of_host().ok()?.find(DIRECTORY_VARIABLE)?.value.clone().into());
        Self { directory: said.or_else(in_file).unwrap_or_else(|| DIRECTORY.into()) }
    }

    /// The registry in `directory`.
    #[cfg(test)]
    pub(crate) fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Locks the registry. Waits a little for other processes to be done.
    ///
    /// # Errors
    /// Half a sentence: there is no place for the files, or another process does not let go.
    pub(crate) fn session(&self) -> Result<Session, String> {
        let directory = self.directory.as_path();
        let began = Instant::now();
        loop {
            // The process that makes the directory or a file needs a moment to open it to all.
            let attempt = Directory::open(directory).and_then(|opened| Ok((opened.file("registry")?, opened)));
            let why = match attempt.and_then(|(file, opened)| Ok((sys::try_lock(&file)?, file, opened))) {
                Ok((true, all, directory)) => return Ok(Session { directory, _all: all }),
                Ok((false, ..)) => "another job does not let go of it".to_string(),
                Err(error) => sys::reason(&error),
            };
            if began.elapsed() >= WAIT_MAX {
                return Err(format!("the registry of processors in {} cannot be used: {why}", directory.display()));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Session {
    /// Returns whether a rank of another agent is bound to this processor.
    pub(crate) fn is_taken(&self, processor: usize) -> bool {
        self.is_locked(&taken(processor))
    }

    /// Takes a processor for ranks of this agent alone. Returns `false` when another agent has it.
    #[must_use]
    pub(crate) fn take(&self, processor: usize, hold: &mut Hold) -> bool {
        self.lock(&taken(processor), hold)
    }

    /// The number of ranks at home at this processor; at most [`RANKS_MAX`].
    pub(crate) fn ranks_at(&self, processor: usize) -> usize {
        let files = (0..RANKS_MAX).map(|number| rank(processor, number));
        files.filter(|name| self.is_locked(name)).count()
    }

    /// Notes that one more rank is at home at this processor.
    pub(crate) fn add_rank(&self, processor: usize, hold: &mut Hold) {
        let _enough = (0..RANKS_MAX).any(|number| self.lock(&rank(processor, number), hold));
    }

    fn is_locked(&self, name: &str) -> bool {
        // A file that exists and cannot be opened belongs to a user who does not want to be seen.
        self.directory.path(name).exists() && !matches!(self.try_lock(name), Ok(Some(_)))
    }

    fn lock(&self, name: &str, hold: &mut Hold) -> bool {
        match self.try_lock(name) {
            Ok(Some(file)) => {
                hold.files.push(file);
                true
            }
            _ => false,
        }
    }

    /// Locks the file `name`. `None` when another agent has it.
    fn try_lock(&self, name: &str) -> io::Result<Option<File>> {
        let file = self.directory.file(name)?;
        Ok(sys::try_lock(&file)?.then_some(file))
    }
}

fn taken(processor: usize) -> String {
    format!("taken-{processor}")
}

fn rank(processor: usize, number: usize) -> String {
    format!("rank-{processor}-{number}")
}

impl Directory {
    /// Opens the directory, and makes it when it is missing. Every user may make files in it, and no user may
    /// remove the files of others.
    fn open(directory: &Path) -> io::Result<Self> {
        if let Some(parent) = directory.parent() {
            create_dir_all(parent)?;
        }
        let is_made = match DirBuilder::new().mode(0o700).create(directory) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        // /dev/shm is open to all users, so a link that somebody has put there is not followed.
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(directory).map_err(|error| {
            match std::fs::symlink_metadata(directory) {
                Ok(found) if found.is_symlink() => io::Error::other("it is a symbolic link; remove it"),
                Ok(found) if !found.is_dir() => io::Error::other("it is no directory; remove it"),
                _ => error,
            }
        })?;
        if is_made {
            // The file mode mask of this user does not matter here.
            opened.set_permissions(Permissions::from_mode(0o1777))?;
        }
        match distrust(&opened.metadata()?, sys::user()) {
            None => Ok(Self { opened }),
            Some(why) => Err(io::Error::other(why)),
        }
    }

    /// The path of a file in it, by the descriptor: whatever the directory's name refers to by now.
    fn path(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.opened.as_raw_fd()).into()
    }

    /// Opens a file of the registry for locking, and makes it when it is missing. Nothing is ever written to
    /// it.
    fn file(&self, name: &str) -> io::Result<File> {
        let path = self.path(name);
        let mut read = OpenOptions::new();
        read.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        match read.open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            other => return other,
        }
        match OpenOptions::new().write(true).create_new(true).mode(0o400).open(&path) {
            // The file mode mask of this user does not matter here.
            Ok(file) => file.set_permissions(Permissions::from_mode(0o444))?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        read.open(&path)
    }
}

/// The owner that a user namespace shows for users that it does not know. The machine's root may be one of
/// these.
const OWNER_UNKNOWN: u32 = 65534;

/// The reason why a directory cannot be the registry for this user; half a sentence. Its owner can replace
/// every file in it, and root trusts no owner but root. Where all users may write, only the sticky bit keeps
/// them from replacing the files of others.
fn distrust(found: &Metadata, user: u32) -> Option<String> {
    let (owner, mode) = (found.uid(), found.mode());
    if user == 0 && ![0, OWNER_UNKNOWN].contains(&owner) {
        return Some(format!("it belongs to user {owner}, not to root; remove it"));
    }
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        return Some("others may write to it and it lacks the sticky bit (`chmod +t`)".into());
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The registry of one test, gone when dropped.
    pub(crate) struct TestRegistry(pub(crate) Registry);

    impl TestRegistry {
        pub(crate) fn new(name: &str) -> Self {
            let directory = std::env::temp_dir().join(format!("weft-registry-{name}-{}", std::process::id()));
            Self(Registry::at(directory))
        }
    }

    impl Drop for TestRegistry {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0.directory);
        }
    }

    #[test]
    fn a_processor_is_taken_once_until_it_is_let_go() {
        let registry = TestRegistry::new("once");
        let mut first = Hold::default();
        {
            let session = registry.0.session().expect("a registry");
            assert!(!session.is_taken(3) && session.take(3, &mut first) && session.is_taken(3));
        }
        {
            let session = registry.0.session().expect("a registry");
            let mut second = Hold::default();
            assert!(!session.take(3, &mut second), "it is the first one's");
            assert!(session.take(4, &mut second));
        }
        drop(first);
        let session = registry.0.session().expect("a registry");
        assert!(!session.is_taken(3) && !session.is_taken(4));
    }

    #[test]
    fn ranks_are_counted_while_they_are_there() {
        let registry = TestRegistry::new("count");
        let session = registry.0.session().expect("a registry");
        let (mut one, mut other) = (Hold::default(), Hold::default());
        assert_eq!(session.ranks_at(0), 0);
        session.add_rank(0, &mut one);
        session.add_rank(0, &mut other);
        session.add_rank(1, &mut other);
        assert_eq!((session.ranks_at(0), session.ranks_at(1), session.ranks_at(2)), (2, 1, 0));
        // The first agent leaves: the lock of the second is on the second file.
        drop(one);
        assert_eq!(session.ranks_at(0), 1);
        for _ in 0..2 * RANKS_MAX {
            session.add_rank(0, &mut other);
        }
        assert_eq!(session.ranks_at(0), RANKS_MAX, "more are not told apart");
    }

    #[test]
    fn whoever_does_not_let_go_stops_nobody() {
        let registry = TestRegistry::new("stuck");
        let _session = registry.0.session().expect("a registry");
        let why = registry.0.session().expect_err("it is held");
        assert!(why.contains("does not let go"), "{why}");
    }

    #[test]
    fn what_somebody_else_has_planted_is_not_used() {
        let elsewhere = TestRegistry::new("target");
        std::fs::create_dir_all(&elsewhere.0.directory).expect("a directory");
        let link = std::env::temp_dir().join(format!("weft-registry-link-{}", std::process::id()));
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&elsewhere.0.directory, &link).expect("a link");
        let why = Registry::at(link.clone()).session().expect_err("a link is not followed");
        std::fs::remove_file(&link).expect("the link");
        assert!(why.contains("is a symbolic link"), "{why}");
        assert_eq!(std::fs::read_dir(&elsewhere.0.directory).expect("it is there").count(), 0);

        std::fs::set_permissions(&elsewhere.0.directory, Permissions::from_mode(0o777)).expect("its owner may");
        let why = elsewhere.0.session().expect_err("anybody could replace what is in it");
        assert!(why.contains("sticky bit"), "{why}");

        std::fs::set_permissions(&elsewhere.0.directory, Permissions::from_mode(0o1777)).expect("its owner may");
        let found = std::fs::metadata(&elsewhere.0.directory).expect("it is there");
        let owner = found.uid();
        assert_eq!(distrust(&found, owner), None);
        assert_eq!(distrust(&found, 0).is_some(), ![0, OWNER_UNKNOWN].contains(&owner));
    }

    #[test]
    fn a_place_that_cannot_be_used_is_named() {
        let why = Registry::at("/proc/none".into()).session().expect_err("nothing can be made there");
        assert!(why.contains("/proc/none"), "{why}");
    }
}
