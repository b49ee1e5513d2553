//! Ends the processes that ranks started and left behind, and removes the files of ranks that were killed.
//! The agent is a subreaper (prctl(2)), so orphans become its children.

use crate::sys::{self, Stat};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The most names of a directory that are looked at.
const NAMES_MAX: usize = 256;

/// Pause between two rounds of killing.
const PAUSE: Duration = Duration::from_millis(1);

/// Kills all children of this process but those that are `spared`, and their children as these become its
/// own, until there is none or the time is over. Returns the children that have ended.
pub(super) fn kill(limit: Duration, spared: impl Fn(libc::pid_t) -> bool) -> Vec<(libc::pid_t, sys::Ended)> {
    let deadline = Instant::now() + limit;
    let mut ended = Vec::new();
    while Instant::now() < deadline {
        match sys::reap() {
            Err(()) => break,
            Ok(Some(child)) => ended.push(child),
            Ok(None) => {
                let mut others = children();
                others.retain(|child| !spared(*child));
                if others.is_empty() {
                    break;
                }
                for child in others {
                    sys::kill(child, libc::SIGKILL);
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
    ended
}

/// Removes this user's files of shared memory that no process uses, in these directories. A rank removes its
/// file once its neighbours have it, and cannot do so when it is killed before. The library names and locks
/// the files (weft-net `shared/segment/files.rs`); the next job of this user would remove them as well.
pub(super) fn remove_files(directories: &[PathBuf]) {
    let prefix = format!("weft-{}-", sys::user());
    for directory in directories {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        for entry in entries.take(NAMES_MAX).flatten() {
            let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix));
            if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            let mut options = OpenOptions::new();
            let file = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(entry.path());
            // Whoever uses it holds a lock.
            if file.is_ok_and(|file| sys::try_lock(&file).is_ok_and(|locked| locked)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// The processes whose parent is this one.
fn children() -> Vec<libc::pid_t> {
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<libc::pid_t>().ok());
    pids.filter(|pid| parent(*pid) == Some(own)).collect()
}

fn parent(pid: libc::pid_t) -> Option<u32> {
    Stat::of(pid)?.parent()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_nobody_uses_are_removed_and_no_others() {
        let directory = std::env::temp_dir().join(format!("weft-leftovers-{}", std::process::id()));
        fs::create_dir(&directory).expect("a new directory");
        let (used, left, other) =
            (format!("weft-{}-used", sys::user()), format!("weft-{}-left", sys::user()), "weft-other".to_owned());
        let files = [&used, &left, &other].map(|name| fs::File::create(directory.join(name)).expect("a file"));
        files[0].lock_shared().expect("a lock");
        remove_files(&[directory.clone(), "/no/such/directory".into()]);
        let there = [&used, &left, &other].map(|name| directory.join(name).exists());
        assert_eq!(there, [true, false, true]);
        fs::remove_dir_all(&directory).expect("it is there");
    }
}
