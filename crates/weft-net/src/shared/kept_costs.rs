//! The costs of this machine, kept for the next job of this user: a file beside the shared segments, which
//! counts until the machine boots again.
//!
//! The file belongs to the user, and nothing else is believed. A process that cannot read or write it goes on
//! without: costs decide how quick a message is, never whether it arrives.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use weft_engine::protocols::CostModel;

use super::Settings;
use super::segment::{directories, open_existing};
use crate::sys;

/// Bytes of a file that are read: more than any file of costs has.
const BYTES_MAX: u64 = 64 << 10;

/// The number of jobs that measure costs, each of them some time after the one before.
///
/// A job that starts beside another program finds costs that are too high, and nothing makes costs seem too
/// low. So the lowest of several measurements counts.
const MEASUREMENTS_MAX: u32 = 3;
/// The time after which another job measures.
const MEASURED_AGAIN_AFTER: Duration = Duration::from_secs(600);
/// The beginning of the line with the number of measurements.
const MEASUREMENTS: &str = "# measurements: ";

/// Costs that earlier jobs have kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptCosts {
    /// The lowest costs of all measurements, unless copies have shown that others fit better.
    pub costs: CostModel,
    /// The file.
    pub path: PathBuf,
    /// The number of measurements; 0 where only copies of messages have shown the costs.
    pub measurements: u32,
    /// The time since the file was written.
    pub age: Duration,
}

impl KeptCosts {
    /// Returns whether a job that starts now measures again.
    pub fn is_due(&self) -> bool {
        self.measurements == 0 || self.measurements < MEASUREMENTS_MAX && self.age >= MEASURED_AGAIN_AFTER
    }
}

/// The path of the file in a directory. Its name is not that of a segment, which a sweep would remove.
fn path(directory: &Path) -> PathBuf {
    directory.join(format!("weft.costs.{}", sys::user()))
}

/// The line by which a file says for what it counts: this version of Weft, and this boot of the machine.
/// `None` where the machine does not say when it has booted.
fn counts_for() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("# weft {}, boot {}", env!("CARGO_PKG_VERSION"), boot.trim()))
}

/// Returns the costs that earlier jobs have kept.
pub fn kept_costs(settings: &Settings) -> Option<KeptCosts> {
    let counts_for = counts_for()?;
    directories(settings).iter().find_map(|directory| {
        let path = path(directory);
        let file = open_existing(&path).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.uid() != sys::user() {
            return None;
        }
        let mut text = String::new();
        file.take(BYTES_MAX).read_to_string(&mut text).ok()?;
        let costs = text.lines().any(|line| line == counts_for).then(|| text.parse().ok())??;
        let measurements = text.lines().find_map(|line| line.strip_prefix(MEASUREMENTS)?.parse().ok()).unwrap_or(1);
        // A file from the future is as good as new.
        let age = metadata.modified().ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
        Some(KeptCosts { costs, path, measurements, age })
    })
}

/// Says where costs were found that come from so many measurements.
pub fn origin(measurements: u32) -> &'static str {
    if measurements == 0 { "learnt from the messages of a job" } else { "measured as a job started" }
}

/// Keeps costs for the next job, which come from so many measurements. They take the place of older ones at
/// once.
///
/// # Errors
/// No directory takes them; the reason of the last one.
pub fn keep_costs(settings: &Settings, costs: &CostModel, measurements: u32) -> io::Result<PathBuf> {
    let mut result = Err(io::ErrorKind::NotFound.into());
    let Some(counts_for) = counts_for() else { return result };
    let text = format!(
        "# Costs of moving messages on this host, {}.\n{counts_for}\n\
         {MEASUREMENTS}{measurements}\n{costs}",
        origin(measurements)
    );
    for directory in directories(settings) {
        let path = path(&directory);
        match replace(&path, &text) {
            Ok(()) => return Ok(path),
            Err(cause) => result = Err(cause),
        }
    }
    result
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension(format!("{}.{}", sys::user(), std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC);
    let written = options.open(&new)?.write_all(text.as_bytes());
    let replaced = written.and_then(|()| fs::rename(&new, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_jobs_measure_with_ten_minutes_between_them() {
        let is_due = |measurements, minutes: u64| {
            let age = Duration::from_secs(60 * minutes);
            KeptCosts { costs: CostModel::BUILT_IN, path: PathBuf::new(), measurements, age }.is_due()
        };
        assert_eq!([0, 9, 10, 1000].map(|minutes| is_due(1, minutes)), [false, false, true, true]);
        assert_eq!([1, 2, 3, u32::MAX].map(|measurements| is_due(measurements, 10)), [true, true, false, false]);
        // Costs that nobody has measured yet.
        assert!(is_due(0, 0));
    }

    /// Costs that are kept, damaged, and another user's.   Expect: only whole ones of this boot are
    /// believed, and nothing else stays in the directory.
    #[test]
    fn costs_are_kept_until_they_no_longer_count() {
        let directory = std::env::temp_dir().join(format!("weft-kept-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        // Only this directory: an earlier job of this machine may have kept costs in another one.
        let settings = Settings { directory: Some(directory.clone()), ..Settings::default() };
        let kept = || kept_costs(&settings).filter(|kept| kept.path.starts_with(&directory)).map(|kept| kept.costs);
        assert_eq!(kept(), None);
        for kernel_copy_ps in [1, 2] {
            let costs = CostModel { kernel_copy_ps, ..CostModel::BUILT_IN };
            let path = keep_costs(&settings, &costs, 2).unwrap();
            assert_eq!(kept_costs(&settings).map(|kept| kept.measurements), Some(2));
            assert_eq!(kept(), Some(costs));
            assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "{path:?}");
        }
        let file = path(&directory);
        let text = fs::read_to_string(&file).unwrap();
        for damaged in [text.replace("boot ", "boot 1"), text.replace("kernel_copy_ps", "kernel"), String::new()] {
            fs::write(&file, damaged).unwrap();
            assert_eq!(kept(), None);
        }
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        assert_eq!(kept(), None, "a link is not followed");
        assert_eq!(keep_costs(&settings, &CostModel::BUILT_IN, 1).ok(), Some(file.clone()), "it is replaced");
        assert!(fs::symlink_metadata(&file).unwrap().is_file());
        fs::remove_dir_all(&directory).unwrap();
    }
}
