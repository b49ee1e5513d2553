//! The measured programs: their sources are part of this command, and are built once for each compiler that
//! is used.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

macro_rules! sources {
    ($directory:literal: $($name:literal),*) => {
        [$(($name, include_str!(concat!("../../../../bench/", $directory, "/", $name)))),*]
    };
}

/// The files of bench/programs and bench/carriers; a test compares the list with the directories.
const PROGRAMS: &[(&str, &str)] = &sources!("programs":
    "allgather.c", "allreduce.c", "alltoall.c", "availability.c", "bandwidth.c", "barrier.c", "bcast.c", "bcast_skew.c",
    "bcast_throughput.c", "bibandwidth.c", "broadcast.h", "collective_times.c", "common.c", "common.h", "connect.c", "exchange.c", "exchange_threads.c", "fetch_latency.c",
    "file_availability.c", "file_blocks.h", "file_open.c", "file_read.c", "file_read_all.c", "file_tiles.h", "file_write.c", "file_write_all.c", "files.h", "get_bandwidth.c",
    "get_computing.c", "get_latency.c", "halo.c", "library.c", "lines.h", "memory.c", "nas.h", "nas_cg.c", "nas_is.c", "onesided.h", "pingpong.c", "plain.h", "put_bandwidth.c",
    "put_latency.c", "put_rate.c", "rate.c", "rate_threads.c", "reduce.c", "reduce_local.c", "reducescatter.c", "sendrecv.c", "spawn.c", "startup.c", "sums.h", "waitcpu.c");
const CARRIERS: &[(&str, &str)] =
    &sources!("carriers": "carrier.c", "carrier.h", "link.c", "local.c", "packet.c", "udp.c", "xdp.c");

/// The program whose samples tell which library runs, and that it runs at all.
pub(crate) const LIBRARY: &str = "library";

/// The program of `weft tune`.
pub(crate) const TUNE: &str = "collective_times";

/// Programs built by one compiler.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// The library's wrapper, and the variables it needs.
    compiler: PathBuf,
    environment: Vec<(String, String)>,
    directory: PathBuf,
    sources: PathBuf,
}

impl Programs {
    /// Prepares to build with `compiler`, below `cache`.
    pub(crate) fn new(cache: &Path, compiler: &Path, environment: Vec<(String, String)>) -> Result<Programs, String> {
        let sources = unpack(cache)?;
        let mut hasher = DefaultHasher::new();
        let changed = compiler.metadata().and_then(|data| data.modified()).ok();
        (compiler, changed, &sources).hash(&mut hasher);
        let directory = cache.join("built").join(format!("{:016x}", hasher.finish()));
        make_directory(&directory)?;
        Ok(Programs { compiler: compiler.into(), environment, directory, sources })
    }

    /// Returns the built program; builds it now unless that has been done.
    pub(crate) fn build(&self, name: &str) -> Result<PathBuf, String> {
        let here = self.sources.join("programs");
        let files = [here.join(format!("{name}.c")), here.join("common.c")];
        compile(&self.compiler, &self.environment, "c99", &files, &self.directory.join(name))
    }
}

/// The carriers' program, built by the system's compiler.
pub(crate) fn carrier(cache: &Path) -> Result<PathBuf, String> {
    let sources = unpack(cache)?;
    let c_files = CARRIERS.iter().filter(|(name, _)| name.ends_with(".c"));
    let files: Vec<PathBuf> = c_files.map(|(name, _)| sources.join("carriers").join(name)).collect();
    let compiler = std::env::var_os("CC").map_or_else(|| PathBuf::from("cc"), PathBuf::from);
    compile(&compiler, &[], "gnu11", &files, &sources.join("carrier"))
}

/// Writes the sources below `cache`, in a directory that is named by their contents, and returns it.
fn unpack(cache: &Path) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    (PROGRAMS, CARRIERS).hash(&mut hasher);
    let directory = cache.join("sources").join(format!("{:016x}", hasher.finish()));
    for (folder, files) in [("programs", PROGRAMS), ("carriers", CARRIERS)] {
        make_directory(&directory.join(folder))?;
        for (name, text) in files {
            let path = directory.join(folder).join(name);
            if path.metadata().map(|data| data.len()).ok() != Some(text.len() as u64) {
                put(&path, |new| std::fs::write(new, text).map_err(|error| error.to_string()))?;
            }
        }
    }
    Ok(directory)
}

fn compile(
    compiler: &Path,
    environment: &[(String, String)],
    standard: &str,
    files: &[PathBuf],
    program: &Path,
) -> Result<PathBuf, String> {
    if !program.is_file() {
        put(program, |new| {
            let mut command = Command::new(compiler);
            command
                .envs(environment.iter().cloned())
                .arg(format!("-std={standard}"))
                .args(["-O2", "-pthread", "-o"])
                .arg(new);
            let output = command.args(files).arg("-lm").output().map_err(|error| error.to_string())?;
            let complaint = String::from_utf8_lossy(&output.stderr);
            let complaint = complaint.lines().find(|line| line.contains("rror")).or(complaint.lines().next());
            match output.status.success() {
                true => Ok(()),
                false => Err(complaint.unwrap_or("it failed without a word").to_owned()),
            }
        })
        .map_err(|why| format!("{} cannot build it: {why}", compiler.display()))?;
    }
    Ok(program.into())
}

/// Makes a file that appears whole at its path: other processes may build the same file at the same time.
fn put(path: &Path, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let done = make(&new).and_then(|()| std::fs::rename(&new, path).map_err(|error| error.to_string()));
    if done.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    done.map_err(|why| format!("{}: {why}", path.display()))
}

fn make_directory(path: &Path) -> Result<(), String> {
    std::fs::create_dir_all(path).map_err(|error| format!("cannot make {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::MEASUREMENTS;
    use super::*;

    #[test]
    fn every_source_is_in_the_list() {
        let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench");
        for (folder, files) in [("programs", PROGRAMS), ("carriers", CARRIERS)] {
            let entries = std::fs::read_dir(bench.join(folder)).unwrap().flatten();
            let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            names.retain(|name| name.ends_with(".c") || name.ends_with(".h"));
            names.sort();
            assert_eq!(names, files.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "bench/{folder}");
        }
    }

    #[test]
    fn every_program_is_a_measurement_and_the_reverse() {
        let programs = PROGRAMS.iter().filter_map(|(name, _)| name.strip_suffix(".c"));
        for program in programs.filter(|name| !["common", LIBRARY, TUNE].contains(name)) {
            assert!(MEASUREMENTS.iter().any(|known| known.program == program), "{program} is no measurement");
        }
        for measurement in MEASUREMENTS {
            let file = format!("{}.c", measurement.program);
            assert!(PROGRAMS.iter().any(|(name, _)| *name == file), "{} has no program", measurement.name);
        }
    }
}
