//! The content of a report: the figures of a run file, by measurement and place, and their comparison.

use serde::{Deserialize, Serialize};

use super::statistics::Figure;
use crate::record::{Job, Library, Place, Role, Run};

/// The least ratio that counts as a lead or a lag, and the least difference in percentage points.
const LEVEL_RATIO: f64 = 1.05;
const LEVEL_POINTS: f64 = 2.0;
/// The prefix of carriers' names in a run file.
pub(crate) const CARRIER_PREFIX: &str = "carrier-";

/// The report of one run file.
pub(crate) struct Summary {
    pub(crate) source: String,
    pub(crate) run: Run,
    pub(crate) places: Vec<Place>,
    /// The libraries: the subject first, then peers, then carriers.
    pub(crate) libraries: Vec<Library>,
    pub(crate) tables: Vec<Table>,
    /// The points behind availability.
    pub(crate) sweeps: Vec<Sweep>,
    /// Sentences about the run as a whole.
    pub(crate) warnings: Vec<String>,
    /// The first command of each measurement, place and library.
    pub(crate) commands: Vec<Job>,
    pub(crate) interrupted: bool,
    /// The duration of the run in seconds, if it ended.
    pub(crate) seconds: Option<f64>,
}

/// A measurement at a place.
pub(crate) struct Table {
    pub(crate) measurement: String,
    pub(crate) place: Place,
    pub(crate) unit: String,
    /// The columns: libraries with MPI, by their index in `Summary::libraries`.
    pub(crate) columns: Vec<usize>,
    pub(crate) rows: Vec<Row>,
    /// The figures of carriers, by library and size; their sizes are not always those of the rows.
    pub(crate) carriers: Vec<(usize, u64, Figure)>,
    /// Sentences that cells refer to.
    pub(crate) footnotes: Vec<String>,
}

pub(crate) struct Row {
    /// The direction, class and such; empty when there is nothing to tell apart.
    pub(crate) variant: String,
    /// The size; None if no sample with a size was measured.
    pub(crate) size: Option<u64>,
    /// The cells, one for each column.
    pub(crate) cells: Vec<Cell>,
    pub(crate) best_peer: Option<Comparison>,
    pub(crate) carrier: Option<Comparison>,
}

pub(crate) struct Cell {
    pub(crate) figure: Option<Figure>,
    /// The reason why there is no figure.
    pub(crate) missing: Option<Missing>,
    /// Says whether the samples differ much.
    pub(crate) spread: bool,
    /// Indices of the table's footnotes.
    pub(crate) notes: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Failed,
    TimedOut,
    Unsupported,
    Interrupted,
    /// The job ran, but the received bytes were not those that were sent.
    Invalid,
    NotRun,
    /// The job ran well, and has no sample of this size.
    NoSample,
}

/// The comparison of the subject with another library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    /// The index of the other library in `Summary::libraries`.
    pub(crate) against: usize,
    /// The message size of the other figure.
    pub(crate) size: u64,
    /// The factor by which the subject is better (above 1: better), or, for percentages, the difference in
    /// points.
    pub(crate) advantage: Figure,
    /// The advantage of the medians over all rounds, which a table shows.
    pub(crate) of_medians: f64,
    pub(crate) is_points: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    Ahead,
    Level,
    Behind,
}

impl Comparison {
    /// The subject's standing. It is ahead or behind only when three things agree: a clear median, three
    /// quarters of the rounds, and the medians over all rounds.
    pub(crate) fn standing(&self) -> Standing {
        let (up, level, down) =
            if self.is_points { (LEVEL_POINTS, 0.0, -LEVEL_POINTS) } else { (LEVEL_RATIO, 1.0, 1.0 / LEVEL_RATIO) };
        match self.advantage {
            advantage if advantage.median > up && advantage.low > level && self.of_medians > level => Standing::Ahead,
            advantage if advantage.median < down && advantage.high < level && self.of_medians < level => {
                Standing::Behind
            }
            _ => Standing::Level,
        }
    }
}

/// A sweep of the work behind an availability.
pub(crate) struct Sweep {
    pub(crate) place: Place,
    pub(crate) library: usize,
    pub(crate) direction: String,
    pub(crate) size: u64,
    /// The work and the iteration's time in microseconds, beginning without work.
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) transfer_us: f64,
    pub(crate) overhead_us: f64,
    pub(crate) base_threshold: f64,
    pub(crate) stop_threshold: f64,
}

impl Summary {
    /// The subject of the comparison: the only library of that role.
    pub(crate) fn subject(&self) -> Option<usize> {
        self.libraries.iter().position(|library| library.role == Role::Subject)
    }

    pub(crate) fn library(&self, index: usize) -> &Library {
        &self.libraries[index]
    }
}
