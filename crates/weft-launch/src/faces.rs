//! Programs that were linked with another MPI library, and the libraries that Weft has for them.
//!
//! The directory of faces, `lib/weft/faces` beside `bin`, has libraries with the names `libmpi.so.12` and
//! `libmpi.so.40`, and the ABIs of MPICH and Open MPI. The loader finds them for ranks because their
//! `LD_LIBRARY_PATH` ends in that directory, or begins with it if the user asks for that. No other
//! process sees them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The variable by which the loader searches for libraries.
pub const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// The most entries of a program header table that are trusted.
const SEGMENTS_MAX: u16 = 256;

/// Where a program's search path has the directory of faces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faces {
    /// Behind the directories that the user named: another MPI library that these lead to is used.
    /// Libraries of the system, and those that the program itself leads to, come later.
    Last,
    /// Before all others.
    First,
    /// Nowhere.
    None,
}

/// The directory of faces of the Weft to which this command belongs, if it was installed.
pub fn directory() -> Option<PathBuf> {
    let command = std::env::current_exe().ok()?;
    let directory = command.parent()?.parent()?.join("lib/weft/faces");
    directory.is_dir().then_some(directory)
}

/// The search path of a program whose search path was `own`, or `None` when it stays as it was. A
/// directory with a colon cannot be in a search path.
pub fn search_path(own: Option<&OsStr>, faces: Faces, directory: &Path) -> Option<OsString> {
    let directory = directory.as_os_str().as_bytes();
    if directory.contains(&b':') {
        return None;
    }
    let own = own.map_or(&b""[..], OsStrExt::as_bytes);
    let parts = match faces {
        Faces::None => return None,
        _ if own.is_empty() => vec![directory],
        Faces::Last if own.split(|&byte| byte == b':').any(|known| known == directory) => return None,
        Faces::Last => vec![own, directory],
        Faces::First => vec![directory, own],
    };
    Some(OsString::from_vec(parts.join(&b':')))
}

/// The MPI library that a program is linked with, if it does not have the standard's binary interface:
/// `libmpi.so.40` and the like.
pub fn other_library(file: &Path) -> Option<String> {
    needed(file)?.into_iter().find(|name| {
        let stem = name.split(".so").next().unwrap_or_default();
        ["libmpi", "libmpich", "libmpifort", "libmpi_mpifh", "libmpi_cxx", "libmpicxx"].contains(&stem)
    })
}

/// The most bytes of a dynamic section, and of its table of names, that are looked at.
const SECTION_MAX: u64 = 1 << 20;

/// The libraries that a program names (System V gABI, chapter 5: DT_NEEDED). `None`: it is no dynamically
/// linked program of this machine.
pub fn needed(file: &Path) -> Option<Vec<String>> {
    const LOAD: u64 = 1;
    const DYNAMIC: u64 = 2;
    const NEEDED: u64 = 1;
    const TABLE: u64 = 5;
    let opened = File::open(file).ok()?;
    let mut header = [0; 64];
    opened.read_exact_at(&mut header, 0).ok()?;
    if header[..4] != *b"\x7fELF" || header[4] != 2 || header[5] != if cfg!(target_endian = "little") { 1 } else { 2 } {
        return None;
    }
    let word = |bytes: &[u8], at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let (table, size) = (word(&header, 32)?, u64::from(half(54)));
    // Type, offset in the file, address, length.
    let mut segments = Vec::new();
    for index in 0..u64::from(half(56).min(SEGMENTS_MAX)) {
        let mut entry = [0; 56];
        opened.read_exact_at(&mut entry, table.checked_add(index * size)?).ok()?;
        let kind = u64::from(u32::from_ne_bytes(entry[..4].try_into().ok()?));
        segments.push((kind, word(&entry, 8)?, word(&entry, 16)?, word(&entry, 32)?));
    }
    let read = |at: u64, length: u64| {
        let mut bytes = vec![0; usize::try_from(length.min(SECTION_MAX)).ok()?];
        let count = opened.read_at(&mut bytes, at).ok()?;
        bytes.truncate(count);
        Some(bytes)
    };
    let &(_, offset, _, length) = segments.iter().find(|(kind, ..)| *kind == DYNAMIC)?;
    let dynamic = read(offset, length)?;
    let entries = || dynamic.chunks_exact(16).filter_map(|entry| Some((word(entry, 0)?, word(entry, 8)?)));
    let address = entries().find(|(tag, _)| *tag == TABLE)?.1;
    let holds = |&&(kind, _, begin, length): &&(u64, u64, u64, u64)| {
        kind == LOAD && begin <= address && address - begin < length
    };
    let &(_, offset, begin, length) = segments.iter().find(holds)?;
    let names = read(offset.checked_add(address - begin)?, length - (address - begin))?;
    let name = |at: u64| {
        let bytes = names.get(usize::try_from(at).ok()?..)?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        String::from_utf8(bytes[..end].to_vec()).ok()
    };
    Some(entries().filter(|(tag, _)| *tag == NEEDED).filter_map(|(_, at)| name(at)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test's own file, which is gone when dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, bytes: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("weft-faces-{name}-{}", std::process::id()));
            std::fs::write(&path, bytes).expect("a temporary file");
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn the_search_path_has_the_faces_where_they_were_asked_for() {
        let path = |own: Option<&str>, faces| {
            search_path(own.map(OsStr::new), faces, Path::new("/w/faces")).and_then(|path| path.into_string().ok())
        };
        for (own, faces, expected) in [
            (None, Faces::Last, Some("/w/faces")),
            (Some(""), Faces::First, Some("/w/faces")),
            (Some("/a:/b"), Faces::Last, Some("/a:/b:/w/faces")),
            (Some("/a:/b"), Faces::First, Some("/w/faces:/a:/b")),
            (Some("/a:/w/faces:/b"), Faces::Last, None),
            (Some("/a"), Faces::None, None),
            (None, Faces::None, None),
        ] {
            assert_eq!(path(own, faces).as_deref(), expected, "{own:?} {faces:?}");
        }
        assert_eq!(search_path(None, Faces::First, Path::new("/with:colon")), None);
    }

    #[test]
    fn the_libraries_of_a_program_are_found() {
        let libraries = needed(Path::new("/proc/self/exe")).unwrap_or_default();
        assert!(libraries.iter().any(|name| name.starts_with("libc.so")), "{libraries:?}");
        assert_eq!(other_library(Path::new("/proc/self/exe")), None);
        // The same program with another library name of the same length, so that nothing else moves.
        let mut program = std::fs::read("/proc/self/exe").expect("this program");
        let at = program.windows(10).position(|bytes| bytes == b"libc.so.6\0").expect("the name");
        program[at..at + 9].copy_from_slice(b"libmpi.so");
        assert_eq!(other_library(&Scratch::new("other", &program).0).as_deref(), Some("libmpi.so"));
        assert_eq!(needed(&Scratch::new("text", b"#!/bin/sh\n").0), None);
        assert_eq!(needed(&Scratch::new("cut", &program[..100]).0), None);
    }
}
