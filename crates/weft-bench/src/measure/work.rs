//! A directory of temporary files that is this process's alone.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The number of names that are tried: other processes may have made files of the first ones, in a directory
/// that is open to all.
const NAMES_MAX: u32 = 1000;

/// A directory that is removed with everything in it.
pub(crate) struct Work(PathBuf);

impl Work {
    /// Makes a directory that no other user can enter or have made.
    pub(crate) fn new() -> Result<Work, String> {
        Self::below(&std::env::temp_dir())
    }

    fn below(directory: &Path) -> Result<Work, String> {
        let own = std::process::id();
        for number in 0..NAMES_MAX {
            let path = directory.join(format!("weft-run-{own}-{number}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Work(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("cannot make {}: {error}", path.display())),
            }
        }
        let all = directory.join(format!("weft-run-{own}-…"));
        Err(format!("{} are all there already; remove them, or let TMPDIR name another directory", all.display()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn what_stands_at_the_name_already_is_not_used() {
        let outside = Work::new().unwrap();
        let inside = Work::below(outside.path()).unwrap();
        assert_eq!(inside.path().metadata().unwrap().mode() & 0o777, 0o700);
        let next = outside.path().join(format!("weft-run-{}-1", std::process::id()));
        let target = outside.path().join("target");
        std::fs::create_dir(&target).unwrap();
        symlink(&target, &next).unwrap();
        let other = Work::below(outside.path()).unwrap();
        assert!(other.path() != next && other.path() != inside.path());
        drop(other);
        assert!(next.is_symlink() && target.is_dir());
    }
}
