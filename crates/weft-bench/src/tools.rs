//! The system's tools: `ip`, `tc`, `nft`, `ethtool`. They are found even if an ordinary user's PATH does not
//! lead to them.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The directories where systems keep administrators' programs.
const DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// A command that runs `name` with a PATH that leads to these tools, also for the programs that it starts.
pub fn command(name: &str) -> Command {
    // The program is looked for in the PATH that the command is given.
    let mut command = Command::new(name);
    command.env("PATH", path());
    command
}

/// Runs `program` with `input`; returns its output, or the first line of its complaint.
///
/// The program runs in a process group of its own, so that Ctrl-C at the terminal cannot cut a clean-up
/// short.
pub(crate) fn tool(program: &str, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut child = command(program)
        .args(arguments)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program}: {error} (Debian has it in the package {})", package(program)))?;
    // A program that ends without reading its input gives the reason on its standard error.
    let _ = child.stdin.take().expect("piped above").write_all(input.as_bytes());
    let output = child.wait_with_output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}", arguments.join(" "), complaint.lines().next().unwrap_or("failed")))
}

/// The Debian package of a tool.
fn package(program: &str) -> &'static str {
    match program {
        "unshare" => "util-linux",
        "nft" => "nftables",
        "ethtool" => "ethtool",
        _ => "iproute2",
    }
}

/// The PATH, followed by those of these directories that it lacks.
pub(crate) fn path() -> OsString {
    extended(std::env::var_os("PATH").unwrap_or_default())
}

/// The path of `name`, if it is installed.
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
    // Each directory came out of a list or holds no colon.
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
