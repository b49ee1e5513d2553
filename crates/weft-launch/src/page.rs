//! A page of numbers that this process writes, and that other processes of its user may read at any time,
//! also when this process hangs.
//!
//! The library writes the page (`weft_mpi::live`); agents and `weft info --live` read it.
//!
//! The page is a file in memory without a name (memfd_create(2)). It is found as an open file of the process
//! in `/proc/PID/fd`, which only its user may read. It is gone with the process, however the process ends. A
//! sequence number keeps changes whole: it is odd while the page is being written, as in the kernel's
//! seqlocks. So a writer never waits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::sys::{self, Stat};

/// The text that `/proc/PID/fd` shows for the file.
const LINK: &str = "/memfd:weft-live";
/// The most times that a page which is being written is read again.
const TRIES_MAX: usize = 1000;
/// The most open files of a process that are looked at.
const FILES_MAX: usize = 4096;
/// Words in front of the contents: the sequence number, and the number of words that follow.
const HEAD: usize = 2;
/// The largest page that is read.
pub const WORDS_MAX: usize = 1 << 21;

/// A page that this process writes: the writer's end.
pub struct Page {
    words: &'static [AtomicU64],
    _file: File,
}

impl Page {
    /// Creates a page of so many words, all 0. Words that are never written take no memory.
    ///
    /// # Errors
    /// The process may not have more files or memory.
    pub fn create(words: usize) -> io::Result<Self> {
        let (file, words) = sys::memory_words(c"weft-live", HEAD + words.min(WORDS_MAX))?;
        words[1].store((words.len() - HEAD) as u64, Ordering::Relaxed);
        Ok(Self { words, _file: file })
    }

    /// Writes some of the words. Readers see all of the change or nothing.
    #[inline]
    pub fn publish(&self, write: impl FnOnce(&mut dyn FnMut(usize, u64))) {
        let sequence = &self.words[0];
        let before = sequence.load(Ordering::Relaxed);
        sequence.store(before + 1, Ordering::Relaxed);
        // No reader sees the new words before the odd number,
        fence(Ordering::Release);
        let contents = &self.words[HEAD..];
        write(&mut |at, value| {
            if let Some(word) = contents.get(at) {
                word.store(value, Ordering::Relaxed);
            }
        });
        // and no reader sees the even number before the new words.
        sequence.store(before + 2, Ordering::Release);
    }
}

/// The pages of a process; empty when the process belongs to another user, has ended, or has no page.
pub fn pages_of(pid: u32) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let is_page = |path: &PathBuf| fs::read_link(path).is_ok_and(|link| link.to_string_lossy().starts_with(LINK));
    files.take(FILES_MAX).filter_map(Result::ok).map(|entry| entry.path()).filter(is_page).collect()
}

/// The most generations of processes that are followed from a process to its descendants.
const GENERATIONS_MAX: usize = 64;

/// The pages of a process and its descendants, or of all processes of this user, each with the process that
/// has it open.
pub fn find(below: Option<u32>) -> Vec<(u32, PathBuf)> {
    let processes = below.map_or_else(processes, |root| descendants(root, &parents()));
    processes.into_iter().flat_map(|pid| pages_of(pid).into_iter().map(move |path| (pid, path))).collect()
}

/// The `mpiexec` that runs the job of each of these processes, where Weft's does. The jobs of a family, which
/// ranks have spawned, have an `mpiexec` each.
pub fn launchers(pids: &[u32]) -> BTreeMap<u32, u32> {
    let parents = parents();
    let is_mpiexec = |pid: u32| {
        let file = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        crate::MPIEXEC_NAMES.contains(&name.trim_end_matches(" (deleted)"))
    };
    pids.iter().filter_map(|&pid| Some((pid, launcher(pid, &parents, &is_mpiexec)?))).collect()
}

/// The `mpiexec` above a process. The nearest one is an agent, whose parent is the `mpiexec` of the job, if
/// that is on this host.
fn launcher(pid: u32, parents: &BTreeMap<u32, u32>, is_mpiexec: &dyn Fn(u32) -> bool) -> Option<u32> {
    let ancestors = std::iter::successors(parents.get(&pid), |pid| parents.get(pid)).copied();
    let agent = ancestors.take(GENERATIONS_MAX).find(|&pid| is_mpiexec(pid))?;
    Some(parents.get(&agent).copied().filter(|&parent| is_mpiexec(parent)).unwrap_or(agent))
}

/// The words by which a process was started, for people.
pub fn command_of(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned()
}

/// Returns whether a page whose process calls itself `own` is that of process `pid`. A forked child has its
/// parent's page. A process in another process namespace knows itself by another number.
pub fn is_of(own: u32, pid: u32) -> bool {
    let inside = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        line.split_whitespace().last()?.parse::<u32>().ok()
    };
    own == pid || inside() == Some(own)
}

fn processes() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Each process with its parent's number.
fn parents() -> BTreeMap<u32, u32> {
    processes().into_iter().filter_map(|pid| Some((pid, Stat::of(pid.cast_signed())?.parent()?))).collect()
}

/// A process and all its descendants.
fn descendants(root: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut all = BTreeSet::from([root]);
    for _ in 0..GENERATIONS_MAX {
        let children: Vec<u32> = parents
            .iter()
            .filter(|(pid, parent)| all.contains(parent) && !all.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if children.is_empty() {
            break;
        }
        all.extend(children);
    }
    all.into_iter().collect()
}

/// Reads the first `words_max` words of a page, whole.
///
/// # Errors
/// The page cannot be read, is no page, or was being written each time: its process was stopped in the middle
/// of writing.
pub fn read(path: &std::path::Path, words_max: usize) -> io::Result<Vec<u64>> {
    let file = File::open(path)?;
    let mut head = [0; 8 * HEAD];
    for attempt in 0..TRIES_MAX {
        file.read_exact_at(&mut head, 0)?;
        let [sequence, words] = [0, 8].map(|at| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes")));
        let words = usize::try_from(words).ok().filter(|words| *words <= WORDS_MAX);
        let words = words.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is no page of Weft"))?;
        let mut bytes = vec![0; 8 * words.min(words_max)];
        file.read_exact_at(&mut bytes, head.len() as u64)?;
        file.read_exact_at(&mut head, 0)?;
        if sequence % 2 == 0 && head[..8] == sequence.to_le_bytes() {
            return Ok(bytes
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
                .collect());
        }
        if attempt % 16 == 15 {
            std::thread::yield_now();
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "it was being written whenever it was read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_is_read_through_proc_and_gone_afterwards() {
        let page = Page::create(4).unwrap();
        page.publish(|put| {
            put(0, 7);
            put(3, 9);
            put(4, 1);
        });
        let found = pages_of(std::process::id());
        let contents: Vec<_> = found.iter().filter_map(|path| read(path, WORDS_MAX).ok()).collect();
        assert!(contents.contains(&vec![7, 0, 0, 9]), "{contents:?}");
        drop(page);
        assert!(
            !pages_of(std::process::id())
                .iter()
                .any(|path| read(path, WORDS_MAX).is_ok_and(|words| words == [7, 0, 0, 9]))
        );
    }

    #[test]
    fn the_jobs_of_a_family_have_an_mpiexec_each() {
        // mpiexec 2, its agent 3, a shell 4, rank 5; the spawned job's mpiexec 6, its agent 7, rank 8. An ssh
        // server 19 has started agent 20 for rank 21.
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 4), (6, 2), (7, 6), (8, 7), (20, 19), (21, 20)]);
        let is_mpiexec = |pid| [2, 3, 6, 7, 20].contains(&pid);
        assert_eq!([5, 8, 21, 19].map(|pid| launcher(pid, &parents, &is_mpiexec)), [Some(2), Some(6), Some(20), None]);
    }

    #[test]
    fn a_tree_of_processes_is_followed_downwards() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 2), (5, 4), (6, 1)]);
        assert_eq!(descendants(2, &parents), [2, 3, 4, 5]);
        assert_eq!(descendants(6, &parents), [6]);
    }

    #[test]
    fn a_reader_never_sees_half_of_a_change() {
        let page = Page::create(64).unwrap();
        page.publish(|put| put(63, 0));
        let file = pages_of(std::process::id())
            .into_iter()
            .find(|path| read(path, WORDS_MAX).is_ok_and(|words| words.len() == 64));
        let path = file.expect("the page");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for value in 0..100_000 {
                    page.publish(|put| (0..64).for_each(|at| put(at, value)));
                }
            });
            while !writer.is_finished() {
                if let Ok(words) = read(&path, WORDS_MAX) {
                    assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
                }
            }
        });
    }
}
