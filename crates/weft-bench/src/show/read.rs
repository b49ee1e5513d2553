//! Reads a run file, also one that is still being written or was cut off.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::record::{Condition, End, FORMAT, Job, Library, Place, Record, Run, Sample};

/// The size above which files are refused: their samples would not fit in memory. A run of hours has a few
/// megabytes.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The content of a run file, by kind, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct RunFile {
    /// The file's name, for people.
    pub(crate) source: String,
    pub(crate) run: Run,
    pub(crate) places: Vec<Place>,
    pub(crate) libraries: Vec<Library>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) conditions: Vec<Condition>,
    /// The end of the run; None if the writer was killed, or still runs.
    pub(crate) end: Option<End>,
    /// Says whether the last line was cut off; it is then left out.
    pub(crate) cut: bool,
}

/// Reads the run file at `path`; an error is one sentence that names the file and, where it helps, the line.
pub(crate) fn read(path: &Path) -> anyhow::Result<RunFile> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let length = file.metadata().with_context(|| format!("cannot read {name}"))?.len();
    if length > FILE_BYTES_MAX {
        bail!("{name} has {length} bytes; a run file of more than {FILE_BYTES_MAX} is not read");
    }
    parse(BufReader::new(file.take(FILE_BYTES_MAX)), &name.to_string())
}

/// Parses the lines of a run file from any source; `source` names it in errors.
pub(crate) fn parse(mut lines: impl BufRead, source: &str) -> anyhow::Result<RunFile> {
    let mut bytes = Vec::new();
    let mut number = 0;
    let mut next = |bytes: &mut Vec<u8>| -> anyhow::Result<bool> {
        bytes.clear();
        Ok(lines.read_until(b'\n', bytes).with_context(|| format!("cannot read {source}"))? > 0)
    };
    if !next(&mut bytes)? {
        bail!("{source} is empty; a run file starts with what `weft compare` was asked to do");
    }
    let mut file = RunFile {
        source: source.to_owned(),
        run: first(&bytes, source)?,
        places: Vec::new(),
        libraries: Vec::new(),
        jobs: Vec::new(),
        samples: Vec::new(),
        conditions: Vec::new(),
        end: None,
        cut: false,
    };
    number += 1;
    while next(&mut bytes)? {
        number += 1;
        let whole = bytes.ends_with(b"\n");
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice::<Record>(&bytes) {
            Ok(record) => file.add(record),
            Err(_) if !whole => file.cut = true,
            Err(error) => bail!("{source}, line {number} is no record of a run ({error}); is the file damaged?"),
        }
    }
    Ok(file)
}

/// Parses the first line, loosely at first: a file of another version must be told from a file that is no run
/// file at all.
fn first(bytes: &[u8], source: &str) -> anyhow::Result<Run> {
    let value: Option<Value> = serde_json::from_slice(bytes).ok();
    let Some(value) = value.filter(|value| value["record"] == "run") else {
        bail!("{source} is not a run file: its first line is not the record of a run");
    };
    if value["format"] != FORMAT {
        let (format, ours) = (&value["format"], FORMAT);
        bail!("{source} has format {format}, and this program reads format {ours}; use the weft that wrote it");
    }
    match serde_json::from_value(value) {
        Ok(Record::Run(run)) => Ok(run),
        Ok(_) => bail!("{source} is not a run file: its first line is not the record of a run"),
        Err(error) => bail!("{source}, line 1 is no record of a run ({error}); is the file damaged?"),
    }
}

impl RunFile {
    fn add(&mut self, record: Record) {
        match record {
            Record::Run(_) => {} // Runs are not continued; a second head says nothing new.
            Record::Place(place) => {
                if !self.places.iter().any(|known| known.id == place.id) {
                    self.places.push(place);
                }
            }
            Record::Library(library) => {
                if !self.libraries.iter().any(|known| known.id == library.id) {
                    self.libraries.push(library);
                }
            }
            Record::Job(job) => self.jobs.push(job),
            Record::Sample(sample) => self.samples.push(sample),
            Record::Condition(condition) => self.conditions.push(condition),
            Record::End(end) => self.end = Some(end),
        }
    }

    /// Returns whether the run ended before its planned end.
    pub(crate) fn interrupted(&self) -> bool {
        self.end.as_ref().is_none_or(|end| end.interrupted)
    }
}
