//! The mapped areas of this process, as the kernel reports them.
//!
//! The process can watch an area wholly only if the area is private and anonymous. Another process can cut a
//! shared segment short, and any process that has a file open can cut the file short.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::os::fd::AsRawFd;

/// `PROCMAP_QUERY`, since Linux 6.11: returns a single area instead of the text of all.
const QUERY: libc::c_ulong = 0xc068_6611;
const COVERING_OR_NEXT: u64 = 0x10;
const WRITABLE: u64 = 0x2;
const SHARED: u64 = 0x8;
/// Most areas of a range: memory in more pieces is not looked at.
const AREAS_MAX: usize = 64;

/// A part of the address space with the same properties throughout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) range: Range<u64>,
    pub(super) is_writable: bool,
    /// True if no other process has the area, and there is no file behind it.
    pub(super) is_private: bool,
}

/// `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    area_flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    name_and_build_bytes: [u32; 2],
    name: u64,
    build: u64,
}

/// The file of the kernel that is asked for areas.
pub(super) struct Areas {
    file: File,
    can_query: bool,
}

impl Areas {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { file: File::open("/proc/self/maps")?, can_query: true })
    }

    /// Returns the areas that cover a range, in order. `None`: a part of the range is not mapped, or it has
    /// very many areas.
    pub(super) fn of(&mut self, range: &Range<u64>) -> io::Result<Option<Vec<Area>>> {
        if self.can_query {
            match self.query(range) {
                Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => self.can_query = false,
                other => return other,
            }
        }
        Ok(cover(self.all()?.into_iter().filter(|area| area.range.end > range.start), range))
    }

    /// Returns all areas of the process.
    pub(super) fn all(&mut self) -> io::Result<Vec<Area>> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        Ok(text.lines().filter_map(parse).collect())
    }

    fn query(&self, range: &Range<u64>) -> io::Result<Option<Vec<Area>>> {
        let mut areas: Vec<Area> = Vec::new();
        loop {
            let address = areas.last().map_or(range.start, |last| last.range.end);
            let mut query =
                Query { size: size_of::<Query>() as u64, flags: COVERING_OR_NEXT, address, ..Query::default() };
            // SAFETY: the structure is that of the kernel, which is told its size, and has room for no name.
            if unsafe { libc::ioctl(self.file.as_raw_fd(), QUERY, &raw mut query) } != 0 {
                let error = io::Error::last_os_error();
                // There is no area at or behind this address.
                return if error.raw_os_error() == Some(libc::ENOENT) { Ok(None) } else { Err(error) };
            }
            let Query { start, end, area_flags, inode, device, .. } = query;
            areas.push(Area {
                range: start..end,
                is_writable: area_flags & WRITABLE != 0,
                is_private: area_flags & SHARED == 0 && inode == 0 && device == [0, 0],
            });
            if end >= range.end || start > address || areas.len() > AREAS_MAX {
                return Ok(cover(areas.into_iter(), range));
            }
        }
    }
}

/// Returns the areas that cover a range, if they do. The first area of the list is the first that touches the
/// range.
fn cover(areas: impl Iterator<Item = Area>, range: &Range<u64>) -> Option<Vec<Area>> {
    let mut cover = Vec::new();
    let mut next = range.start;
    for area in areas {
        if area.range.start > next || cover.len() == AREAS_MAX {
            return None;
        }
        next = area.range.end;
        cover.push(area);
        if next >= range.end {
            return Some(cover);
        }
    }
    None
}

/// Parses a line of /proc/PID/maps: addresses, rights, offset, device, inode, name.
fn parse(line: &str) -> Option<Area> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (rights, _offset, device, inode) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(Area {
        range: number(start)?..number(end)?,
        is_writable: rights.as_bytes().get(1) == Some(&b'w'),
        is_private: rights.ends_with('p') && device == "00:00" && inode == "0",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "5581a0000000-5581a0021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000002000 r--p 00000000 fd:01 1234                       /usr/lib/a library.so
7f0000002000-7f0000004000 rw-p 00002000 fd:01 1234                       /usr/lib/a library.so
7f0000004000-7f0000008000 rw-p 00000000 00:00 0
7f0000008000-7f0000009000 r--p 00000000 00:00 0
7f0000010000-7f0000012000 rw-s 00000000 00:01 1047                       /dev/zero (deleted)
7f0000200000-7f0000400000 rw-p 00000000 00:0f 2051                       /anon_hugepage (deleted)";

    fn rows() -> Vec<Area> {
        LINES.lines().filter_map(parse).collect()
    }

    #[test]
    fn only_memory_of_the_process_alone_without_a_file_is_private() {
        let said: Vec<(bool, bool)> = rows().iter().map(|area| (area.is_private, area.is_writable)).collect();
        let expected =
            [(true, true), (false, false), (false, true), (true, true), (true, false), (false, true), (false, true)];
        assert_eq!(said, expected);
        assert!(parse("nonsense").is_none() && parse("").is_none());
    }

    #[test]
    fn a_range_is_covered_without_holes_or_not_at_all() {
        let of = |range: Range<u64>| {
            let from = rows().into_iter().filter(|area| area.range.end > range.start);
            cover(from, &range).map(|areas| areas.len())
        };
        assert_eq!(of(0x7f00_0000_5000..0x7f00_0000_6000), Some(1));
        assert_eq!(of(0x7f00_0000_3000..0x7f00_0000_9000), Some(3));
        assert_eq!(of(0x7f00_0000_8000..0x7f00_0000_a000), None, "its end is not mapped");
        assert_eq!(of(0x7f00_0001_8000..0x7f00_0001_9000), None);
        assert_eq!(of(0x7f00_0050_0000..0x7f00_0050_1000), None, "there is nothing behind it");
    }

    #[test]
    fn one_question_and_the_text_of_all_say_the_same() {
        let text = "the text of a program";
        let memory = vec![1_u8; 1 << 20];
        for at in [memory.as_ptr() as u64, text.as_ptr() as u64, (&raw const memory) as u64] {
            let range = at..at + 8;
            let mut areas = Areas::new().expect("/proc");
            let asked = areas.of(&range).expect("an answer");
            areas.can_query = false;
            let read = areas.of(&range).expect("an answer");
            assert!(asked.is_some());
            assert_eq!(asked.map(|found| found[0].is_private), read.map(|found| found[0].is_private));
        }
    }
}
