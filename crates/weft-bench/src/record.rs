//! The run file: everything a comparison saw, one JSON object a line, written as it happens.
//!
//! A file that ends early is still a run file: whoever reads it takes the lines that are whole. Nothing is
//! computed here; medians, ratios and warnings are made from the samples when they are shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the format; a reader refuses others.
pub(crate) const FORMAT: u32 = 1;

/// One line of a run file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(crate) enum Record {
    /// The first line.
    Run(Run),
    /// A place where programs ran.
    Place(Place),
    /// A library, or a carrier without MPI.
    Library(Library),
    /// One program was run once. Written after its samples.
    Job(Job),
    /// A line that a program printed, told of whom it is.
    Sample(Sample),
    /// The machine's state, taken before and after each job.
    Condition(Condition),
    /// The last line of a run that was not killed.
    End(End),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) format: u32,
    /// Seconds since 1970, UTC.
    pub(crate) started: u64,
    /// The command line that made this file.
    pub(crate) command: Vec<String>,
    /// Version of the tool.
    pub(crate) version: String,
    pub(crate) rounds: u32,
    /// Facts about the machine, in the order to be shown: "processor", "processors", "kernel", "memory", …
    pub(crate) machine: Vec<(String, String)>,
}

/// Where ranks run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Referred to by jobs and samples: `1-host-2-ranks`, `2-hosts-2-ranks-10gbit`,
    /// `2-hosts-2-ranks-loss-1%`.
    pub(crate) id: String,
    /// 1: the machine as it is. More: virtual hosts.
    pub(crate) hosts: u32,
    pub(crate) ranks: u32,
    /// As given to `tc`: `10gbit`. None: not shaped.
    pub(crate) rate: Option<String>,
    /// Share of frames dropped on arrival at each host, in percent.
    pub(crate) loss_percent: Option<f64>,
    /// Processors that the ranks may use together.
    pub(crate) processors: u32,
    /// What else was changed there, a sentence: "segmentation offload is off, so that a lost frame is one
    /// packet".
    #[serde(default)]
    pub(crate) note: Option<String>,
    /// What a cache line cost there, for a place that was made when a run is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lines: Option<Lines>,
}

/// One state of the lines between processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lines {
    /// `near`, `far`, …: none where there was only this state.
    pub(crate) name: Option<String>,
    /// Nanoseconds that a line took one way, the median.
    pub(crate) ns: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// The library that the comparison is about.
    Subject,
    /// Another MPI library.
    Peer,
    /// No MPI: a floor under the figures.
    Carrier,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Library {
    /// Referred to by jobs and samples: `weft`, `mpich`, `openmpi`, `impi`, `carrier-udp`, or what the user
    /// called it.
    pub(crate) id: String,
    pub(crate) role: Role,
    /// For people: `Weft 0.1.0`, `MPICH 5.0.2 (ofi/tcp)`.
    pub(crate) title: String,
    /// What `MPI_Get_library_version` says, or the carrier's own words.
    pub(crate) version: String,
    /// Where it was found.
    pub(crate) prefix: Option<String>,
    /// Variables that were set for it.
    pub(crate) environment: BTreeMap<String, String>,
    /// It took part only within one host (`true`), or only between several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) within_host: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// It ended with 0 and every sample was valid.
    Succeeded,
    /// It ended, and not well, or printed what is no sample, or samples that did not validate.
    Failed,
    /// It was ended because it took too long.
    TimedOut,
    /// The library or the machine does not have what the measurement needs; `why` says what.
    Unsupported,
    /// The user ended the run.
    Interrupted,
}

/// One run of one program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Names one row of the table, usually the program: `pingpong`, `availability`, `nas_is`.
    pub(crate) measurement: String,
    pub(crate) place: String,
    pub(crate) library: String,
    /// From 0.
    pub(crate) round: u32,
    pub(crate) command: Vec<String>,
    pub(crate) outcome: Outcome,
    /// One sentence, unless it succeeded.
    pub(crate) why: Option<String>,
    pub(crate) seconds: f64,
}

/// A line of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) place: String,
    pub(crate) library: String,
    pub(crate) round: u32,
    /// The line itself: `measurement`, `size` (bytes), `ranks`, `unit`, `value` (or null), `valid`, `why`,
    /// and the measurement's own fields. On one node `line_ns_before` and `line_ns_after`: what a cache line
    /// took between the ranks (null: not known). `availability_sample` lines are the points of the sweeps
    /// behind `availability`.
    #[serde(flatten)]
    pub(crate) line: Map<String, Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Condition {
    /// Seconds since the run started.
    pub(crate) at: f64,
    /// Load average of the last minute.
    pub(crate) load: f64,
    /// Runnable processes that are not ours, just now.
    pub(crate) strangers: u32,
    /// Of each processor, where the machine tells.
    pub(crate) megahertz: Vec<f64>,
    /// Share of the time since the last condition that the hypervisor took, in percent.
    pub(crate) steal_percent: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct End {
    /// Seconds since the run started.
    pub(crate) at: f64,
    pub(crate) interrupted: bool,
}
