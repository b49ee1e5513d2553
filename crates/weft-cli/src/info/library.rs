//! The library that a program would load, and its version.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The name that programs ask for: the standard's (MPI-5.0 §20).
const SONAME: &str = "libmpi_abi.so.1";
/// The directories of libraries below a prefix: the one of `make install`, Debian's, and that of other
/// distributions.
const LIBRARY_DIRECTORIES: [&str; 3] = ["lib", "lib/x86_64-linux-gnu", "lib64"];
/// The text before the version in Weft's `MPI_Get_library_version`; the version and [`AFTER_VERSION`] follow.
const BEFORE_VERSION: &[u8] = b"Weft ";
const AFTER_VERSION: &[u8] = b" (MPI ";
/// The most letters of a version.
const VERSION_LETTERS_MAX: usize = 32;
/// The largest file that is searched, bytes.
const LIBRARY_BYTES_MAX: u64 = 256 << 20;

/// The library that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Library {
    /// The file; None if there is no library.
    pub(crate) path: Option<PathBuf>,
    /// The place that led to the file.
    pub(crate) found_by: String,
    /// Weft's version; None for another library.
    pub(crate) version: Option<String>,
    /// The library's fault in one sentence.
    pub(crate) fault: Option<String>,
}

impl Library {
    /// Finds the library that the loader would find for a program that the `mpicc` beside this command has
    /// linked: in `LD_LIBRARY_PATH`, then in the directory that the wrapper wrote into the program.
    pub(crate) fn find() -> Library {
        let command = std::env::current_exe().unwrap_or_default();
        Self::find_for(&command, std::env::var("LD_LIBRARY_PATH").ok().as_deref())
    }

    fn find_for(command: &Path, search: Option<&str>) -> Library {
        let listed = search.unwrap_or("").split(':').filter(|directory| !directory.is_empty());
        let listed = listed.map(|directory| (PathBuf::from(directory), "LD_LIBRARY_PATH".to_owned()));
        let prefix = command.parent().and_then(Path::parent);
        let installed = prefix.into_iter().flat_map(|prefix| LIBRARY_DIRECTORIES.map(|below| prefix.join(below)));
        let installed = installed.map(|directory| (directory, "the prefix of this command".to_owned()));
        for (directory, found_by) in listed.chain(installed) {
            let path = directory.join(SONAME);
            if path.is_file() {
                return Self::judge(path, found_by);
            }
        }
        let fault = format!(
            "{SONAME} is neither in LD_LIBRARY_PATH nor in the lib directory beside this command; install Weft's library \
             and this command from one package, or by `make install`"
        );
        Library { path: None, found_by: String::new(), version: None, fault: Some(fault) }
    }

    fn judge(path: PathBuf, found_by: String) -> Library {
        let own = env!("CARGO_PKG_VERSION");
        let (version, fault) = match version_in(&path) {
            Ok(Some(version)) if version == own => (Some(version), None),
            Ok(Some(version)) => {
                let fault = format!("it is of version {version}, this command of {own}; install both from one build");
                (Some(version), Some(fault))
            }
            Ok(None) => (None, Some(format!("it is not Weft's; {found_by} leads to another MPI library"))),
            Err(error) => (None, Some(format!("it cannot be read: {error}"))),
        };
        Library { path: Some(path), found_by, version, fault }
    }
}

/// The version that stands in the library.
fn version_in(path: &Path) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(LIBRARY_BYTES_MAX).read_to_end(&mut bytes)?;
    let starts = bytes.windows(BEFORE_VERSION.len()).enumerate().filter(|(_, window)| *window == BEFORE_VERSION);
    Ok(starts.map(|(at, _)| &bytes[at + BEFORE_VERSION.len()..]).find_map(version_at))
}

fn version_at(text: &[u8]) -> Option<String> {
    let text = &text[..text.len().min(VERSION_LETTERS_MAX + AFTER_VERSION.len())];
    let end = text.windows(AFTER_VERSION.len()).position(|window| window == AFTER_VERSION)?;
    let version = std::str::from_utf8(&text[..end]).ok()?;
    version.starts_with(|letter: char| letter.is_ascii_digit()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Prefix(PathBuf);

    impl Prefix {
        fn new(name: &str, content: &str) -> Prefix {
            let root = std::env::temp_dir().join(format!("weft-info-{}-{name}", std::process::id()));
            std::fs::create_dir_all(root.join("lib")).unwrap();
            std::fs::write(root.join("lib").join(SONAME), content).unwrap();
            Prefix(root)
        }

        fn find(&self, search: Option<&str>) -> Library {
            Library::find_for(&self.0.join("bin/weft"), search)
        }
    }

    impl Drop for Prefix {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn sentence(version: &str) -> String {
        format!("\0Weft needs\0junk Weft {version} (MPI 5.0, standard ABI 1.0)\0")
    }

    #[test]
    fn the_same_version_is_fine_and_another_is_named() {
        let own = env!("CARGO_PKG_VERSION");
        let found = Prefix::new("same", &sentence(own)).find(None);
        assert_eq!((found.version.as_deref(), found.fault), (Some(own), None));
        let found = Prefix::new("old", &sentence("0.0.1")).find(None);
        assert!(found.fault.unwrap().contains("0.0.1"));
    }

    #[test]
    fn the_search_path_comes_first_and_another_library_is_noticed() {
        let (own, other) = (Prefix::new("own", &sentence(env!("CARGO_PKG_VERSION"))), Prefix::new("other", "MPICH"));
        let found = own.find(Some(&format!("/nowhere::{}/lib", other.0.display())));
        assert_eq!(found.found_by, "LD_LIBRARY_PATH");
        assert!(found.fault.unwrap().contains("not Weft's"));
    }

    /// Debian's packages have the command in /usr/bin and the library in a directory for the machine.
    #[test]
    fn a_distributions_directory_is_searched_too() {
        let prefix = Prefix::new("debian", &sentence(env!("CARGO_PKG_VERSION")));
        let (lib, below) = (prefix.0.join("lib"), prefix.0.join("lib/x86_64-linux-gnu"));
        std::fs::create_dir_all(&below).unwrap();
        std::fs::rename(lib.join(SONAME), below.join(SONAME)).unwrap();
        assert_eq!(prefix.find(None).path, Some(below.join(SONAME)));
    }

    #[test]
    fn no_library_is_said() {
        let found = Library::find_for(Path::new("/nowhere/bin/weft"), None);
        assert!(found.path.is_none() && found.fault.unwrap().contains("make install"));
    }
}
