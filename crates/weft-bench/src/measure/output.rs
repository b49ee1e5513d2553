//! Writes the run file: a line for each record, handed to the system at once, so that a killed run keeps its
//! samples.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::record::Record;

/// Seconds since 1970, UTC.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}

/// A run file that is being written.
pub(crate) struct Output {
    file: File,
    path: PathBuf,
}

impl Output {
    /// Creates a file at `path`. An existing file is replaced only when it is empty: samples are not thrown
    /// away.
    pub(crate) fn create(path: &Path) -> Result<Output, String> {
        let holds = path.metadata().map_or(0, |data| if data.is_file() { data.len() } else { 0 });
        if holds > 0 {
            return Err(format!("{} is there already and holds a run; choose another --output", path.display()));
        }
        let file = OpenOptions::new().create(true).write(true).truncate(true).open(path);
        let file = file.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        Ok(Output { file, path: path.into() })
    }

    /// Appends one record. After an error, when the disk is full for instance, the records before still make
    /// a run file.
    pub(crate) fn write(&mut self, record: &Record) -> Result<(), String> {
        let mut line = serde_json::to_vec(record).map_err(|error| format!("a record is no JSON: {error}"))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| {
            format!("cannot write to {}: {error}; the run ends here, what is in the file stays", self.path.display())
        })
    }
}

/// The default name of a run file, `weft-compare-20260131-235959.jsonl`: the moment in UTC.
pub(crate) fn default_name(command: &str, seconds: u64) -> PathBuf {
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("weft-{command}-{year}{month:02}{day:02}-{hour:02}{minute:02}{second:02}.jsonl").into()
}

/// Year, month and day of the Gregorian calendar, `days` after 1 January 1970.
fn date(days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut left) = (1970, days);
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if left < length {
            break;
        }
        left -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    for (month, length) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
        if left < length {
            return (year, month, left + 1);
        }
        left -= length;
    }
    unreachable!("a year has as many days as its months")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::End;

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(19_782), (2024, 2, 29));
        assert_eq!(date(20_453), (2025, 12, 31));
        assert_eq!(default_name("compare", 951_826_061).to_str(), Some("weft-compare-20000229-120741.jsonl"));
    }

    #[test]
    fn a_run_is_not_overwritten_and_a_full_disk_is_said() {
        let path = std::env::temp_dir().join(format!("weft-output-test-{}.jsonl", std::process::id()));
        let mut output = Output::create(&path).unwrap();
        output.write(&Record::End(End { at: 1.0, interrupted: false })).unwrap();
        let refused = Output::create(&path).err().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(refused.contains("--output"), "{refused}");
        let mut full = Output::create(Path::new("/dev/full")).unwrap();
        let why = full.write(&Record::End(End { at: 1.0, interrupted: false })).unwrap_err();
        assert!(why.contains("/dev/full") && why.contains("space"), "{why}");
    }
}
