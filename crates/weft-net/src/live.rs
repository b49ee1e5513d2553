//! A page of numbers that this process writes and other processes of its user may read at any time, also when this one hangs.
//!
//! It is a file in memory without a name (memfd_create(2)): it is found as an open file of the process in `/proc/PID/fd`, which
//! only its user may read, and it is gone with the process, however that ends. What changes is kept whole by a sequence
//! number, which is odd while the page is being written (as in the kernel's seqlocks): a writer never waits.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::sys;

/// What `/proc/PID/fd` shows of the file.
const LINK: &str = "/memfd:weft-live";
/// How often a page that is being written is read again.
const TRIES_MAX: usize = 1000;
/// Open files of a process that are looked at.
const FILES_MAX: usize = 4096;
/// Words in front of the contents: the sequence number, and how many words follow.
const HEAD: usize = 2;
/// The largest page that is read.
pub const WORDS_MAX: usize = 1 << 21;

/// The writer's end.
pub struct Page {
    words: &'static [AtomicU64],
    _file: File,
}

impl Page {
    /// A page of so many words, all 0. Words that are never written take no memory.
    ///
    /// # Errors
    /// The process may have no more files or memory.
    pub fn create(words: usize) -> io::Result<Self> {
        let (file, words) = sys::memory_file(c"weft-live", HEAD + words.min(WORDS_MAX))?;
        words[1].store((words.len() - HEAD) as u64, Ordering::Relaxed);
        Ok(Self { words, _file: file })
    }

    /// Writes some of the words; readers see all of it or nothing.
    #[inline]
    pub fn publish(&self, write: impl FnOnce(&mut dyn FnMut(usize, u64))) {
        let sequence = &self.words[0];
        let before = sequence.load(Ordering::Relaxed);
        sequence.store(before + 1, Ordering::Relaxed);
        // What follows is not seen before the odd number is …
        fence(Ordering::Release);
        let contents = &self.words[HEAD..];
        write(&mut |at, value| {
            if let Some(word) = contents.get(at) {
                word.store(value, Ordering::Relaxed);
            }
        });
        // … and the even one not before it.
        sequence.store(before + 2, Ordering::Release);
    }
}

/// The pages of a process; none when it is not ours, has ended, or has no page.
pub fn pages_of(pid: u32) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let is_page = |path: &PathBuf| fs::read_link(path).is_ok_and(|link| link.to_string_lossy().starts_with(LINK));
    files.take(FILES_MAX).filter_map(Result::ok).map(|entry| entry.path()).filter(is_page).collect()
}

/// The contents of a page, whole.
///
/// # Errors
/// It cannot be read, is none, or was being written each time: a process that was stopped in the middle of it.
pub fn read(path: &std::path::Path) -> io::Result<Vec<u64>> {
    let file = File::open(path)?;
    let mut head = [0; 8 * HEAD];
    for attempt in 0..TRIES_MAX {
        file.read_exact_at(&mut head, 0)?;
        let [sequence, words] = [0, 8].map(|at| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes")));
        let words = usize::try_from(words).ok().filter(|words| *words <= WORDS_MAX);
        let words = words.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is no page of Weft"))?;
        let mut bytes = vec![0; 8 * words];
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
        let contents: Vec<_> = found.iter().filter_map(|path| read(path).ok()).collect();
        assert!(contents.contains(&vec![7, 0, 0, 9]), "{contents:?}");
        drop(page);
        assert!(!pages_of(std::process::id()).iter().any(|path| read(path).is_ok_and(|words| words == [7, 0, 0, 9])));
    }

    #[test]
    fn a_reader_never_sees_half_of_a_change() {
        let page = Page::create(64).unwrap();
        page.publish(|put| put(63, 0));
        let file =
            pages_of(std::process::id()).into_iter().find(|path| read(path).is_ok_and(|words| words.len() == 64));
        let path = file.expect("the page");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for value in 0..100_000 {
                    page.publish(|put| (0..64).for_each(|at| put(at, value)));
                }
            });
            while !writer.is_finished() {
                if let Ok(words) = read(&path) {
                    assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
                }
            }
        });
    }
}
