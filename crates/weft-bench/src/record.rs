//! The run file: the events of a comparison, one JSON object a line, written as they happen.
//!
//! A file that ends early is still a run file: a reader takes the lines that are whole. Medians, ratios and
//! warnings are not in the file; they are made from the samples when they are shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the format; a reader refuses others.
pub(crate) const FORMAT: u32 = 1;

/// A line of a run file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(crate) enum Record {
    /// The first line.
    Run(Run),
    /// A place where programs ran.
    Place(Place),
    /// A library, or a carrier without MPI.
    Library(Library),
    /// A single run of a program. The line comes after the program's samples.
    Job(Job),
    /// A line that a program printed, with the library and the place of the program.
    Sample(Sample),
    /// The machine's state, taken before and after each job.
    Condition(Condition),
    /// The last line of a run that was not killed.
    End(End),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) format: u32,
    /// The start of the run, in seconds since 1970, UTC.
    pub(crate) started: u64,
    /// The command line that made this file.
    pub(crate) command: Vec<String>,
    /// The version of the tool.
    pub(crate) version: String,
    pub(crate) rounds: u32,
    /// Facts about the machine, in the order to be shown: "processor", "processors", "kernel", "memory", …
    pub(crate) machine: Vec<(String, String)>,
}

/// The place where ranks run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The name by which jobs and samples refer to the place: `1-host-2-ranks`, `2-hosts-2-ranks-10gbit`,
    /// `2-hosts-2-ranks-loss-1%`.
    pub(crate) id: String,
    /// The number of hosts; 1: the machine as it is; more: virtual hosts.
    pub(crate) hosts: u32,
    pub(crate) ranks: u32,
    /// The rate of the links as given to `tc`: `10gbit`. None: not shaped.
    pub(crate) rate: Option<String>,
    /// The share of frames dropped on arrival at each host, in percent.
    pub(crate) loss_percent: Option<f64>,
    /// The processors that the ranks may use together.
    pub(crate) processors: u32,
    /// A sentence about other changes to the place: "segmentation offload is off, so that a lost frame is one
    /// packet".
    #[serde(default)]
    pub(crate) note: Option<String>,
    /// The time of a cache line in the place, for a place that was made when a run is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lines: Option<Lines>,
}

/// A state of the lines between processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lines {
    /// The state's name, `near`, `far`, …; None where this state is the only one.
    pub(crate) name: Option<String>,
    /// The median time that a line took one way, nanoseconds.
    pub(crate) ns: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// The library that the comparison is about.
    Subject,
    /// Another MPI library.
    Peer,
    /// A program without MPI: a floor under the figures.
    Carrier,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Library {
    /// The name by which jobs and samples refer to the library: `weft`, `mpich`, `openmpi`, `impi`,
    /// `carrier-udp`, or the user's own name.
    pub(crate) id: String,
    pub(crate) role: Role,
    /// The title for people: `Weft 0.1.0`, `MPICH 5.0.2 (ofi/tcp)`.
    pub(crate) title: String,
    /// The text of `MPI_Get_library_version`, or of the carrier.
    pub(crate) version: String,
    /// The prefix where the library was found.
    pub(crate) prefix: Option<String>,
    /// The variables that were set for the library.
    pub(crate) environment: BTreeMap<String, String>,
    /// Says whether the library took part only within one host (`true`) or only between several (`false`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) within_host: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The job ended with 0 and every sample was valid.
    Succeeded,
    /// The job ended with another code, printed a line that is no sample, or printed samples that did not
    /// validate.
    Failed,
    /// The job was ended because it took too long.
    TimedOut,
    /// The library or the machine lacks something that the measurement needs; `why` names it.
    Unsupported,
    /// The user ended the run.
    Interrupted,
}

/// A run of a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The name of a row of the table, usually the program's: `pingpong`, `availability`, `nas_is`.
    pub(crate) measurement: String,
    pub(crate) place: String,
    pub(crate) library: String,
    /// The round, from 0.
    pub(crate) round: u32,
    pub(crate) command: Vec<String>,
    pub(crate) outcome: Outcome,
    /// The reason in one sentence, unless the job succeeded.
    pub(crate) why: Option<String>,
    pub(crate) seconds: f64,
}

/// A line that a program printed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) place: String,
    pub(crate) library: String,
    pub(crate) round: u32,
    /// The line itself: `measurement`, `size` (bytes), `ranks`, `unit`, `value` (or null), `valid`, `why`,
    /// and the measurement's own fields. On one node `line_ns_before` and `line_ns_after` are the times that
    /// a cache line took between the ranks (null: not known). `availability_sample` lines are the points of
    /// the sweeps behind `availability`.
    #[serde(flatten)]
    pub(crate) line: Map<String, Value>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Condition {
    /// The time in seconds since the run started.
    pub(crate) at: f64,
    /// The load average of the last minute.
    pub(crate) load: f64,
    /// The number of runnable processes that are not ours, at this moment.
    pub(crate) strangers: u32,
    /// The frequency of each processor, where the machine tells it.
    pub(crate) megahertz: Vec<f64>,
    /// The share of the time since the last condition that the hypervisor took, in percent.
    pub(crate) steal_percent: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct End {
    /// The time in seconds since the run started.
    pub(crate) at: f64,
    pub(crate) interrupted: bool,
}
