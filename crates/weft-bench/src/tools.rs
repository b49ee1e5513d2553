//! The system's tools: `ip`, `tc`, `nft`, `ethtool`. An ordinary user's PATH need not lead to where they are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where systems keep what administrators run.
const DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Runs `name`, which finds these tools as well, and so does what it starts.
pub fn command(name: &str) -> Command {
    // A command is looked for in the PATH that it is given.
    let mut command = Command::new(name);
    command.env("PATH", path());
    command
}

/// PATH, with the directories behind it that it lacks.
pub(crate) fn path() -> OsString {
    extended(std::env::var_os("PATH").unwrap_or_default())
}

/// Where `name` is, if it is here.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&path()).map(|directory| directory.join(name)).find(|file| file.is_file())
}

fn extended(path: OsString) -> OsString {
    let mut all: Vec<PathBuf> = std::env::split_paths(&path).filter(|one| !one.as_os_str().is_empty()).collect();
    for directory in DIRECTORIES.map(Path::new) {
        if !all.iter().any(|one| one == directory) {
            all.push(directory.into());
        }
    }
    // Each came out of a list or holds no colon.
    std::env::join_paths(all).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_path_lacks_stands_behind_it_once() {
        assert_eq!(extended("/home/me/bin:/bin".into()), "/home/me/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin");
        assert_eq!(extended("/sbin:/bin".into()), "/sbin:/bin:/usr/local/sbin:/usr/sbin");
        assert_eq!(extended(OsString::new()), "/usr/local/sbin:/usr/sbin:/sbin");
    }

    #[test]
    fn what_is_not_here_is_not_found() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-such-tool-of-this-name"), None);
    }
}
