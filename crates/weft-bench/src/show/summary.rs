//! What is shown of a run file: its figures, by measurement and place, and how they compare.

use super::statistics::Figure;
use crate::record::{Job, Library, Place, Role, Run};

/// A ratio further than this from 1 counts as a lead or a lag; and a difference of so many percentage points.
const LEVEL_RATIO: f64 = 1.05;
const LEVEL_POINTS: f64 = 2.0;
/// How the names of carriers start in a run file.
pub(crate) const CARRIER_PREFIX: &str = "carrier-";

/// Everything that is shown of one run file.
pub(crate) struct Summary {
    pub(crate) source: String,
    pub(crate) run: Run,
    pub(crate) places: Vec<Place>,
    /// The subject first, then peers, then carriers.
    pub(crate) libraries: Vec<Library>,
    pub(crate) tables: Vec<Table>,
    /// The points behind availability.
    pub(crate) sweeps: Vec<Sweep>,
    /// Sentences about the run as a whole.
    pub(crate) warnings: Vec<String>,
    /// The first command of each measurement, place and library.
    pub(crate) commands: Vec<Job>,
    pub(crate) interrupted: bool,
    /// How long the run took in seconds, when it ended.
    pub(crate) seconds: Option<f64>,
}

/// One measurement at one place.
pub(crate) struct Table {
    pub(crate) measurement: String,
    pub(crate) place: Place,
    pub(crate) unit: String,
    /// Libraries that speak MPI, by their index in `Summary::libraries`: the columns.
    pub(crate) columns: Vec<usize>,
    pub(crate) rows: Vec<Row>,
    /// What carriers reached, by library and size; their sizes are not always those of the rows.
    pub(crate) carriers: Vec<(usize, u64, Figure)>,
    /// Sentences that cells refer to.
    pub(crate) footnotes: Vec<String>,
}

pub(crate) struct Row {
    /// Direction, class and such: empty when there is nothing to tell apart.
    pub(crate) variant: String,
    /// None: nothing was measured of which the size would be known.
    pub(crate) size: Option<u64>,
    /// One for each column.
    pub(crate) cells: Vec<Cell>,
    pub(crate) best_peer: Option<Comparison>,
    pub(crate) carrier: Option<Comparison>,
}

pub(crate) struct Cell {
    pub(crate) figure: Option<Figure>,
    /// Why there is no figure.
    pub(crate) missing: Option<Missing>,
    /// The samples differ much.
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
    /// It ran, but what it received was not what was sent.
    Invalid,
    NotRun,
    /// It ran well, and has no sample of this size.
    NoSample,
}

/// The subject beside another library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    /// Index in `Summary::libraries`.
    pub(crate) against: usize,
    /// What size of message the other figure is for.
    pub(crate) size: u64,
    /// How many times better the subject is (above 1: better), or, for percentages, how many points.
    pub(crate) advantage: Figure,
    /// The same of the medians over all rounds, which are what a table shows.
    pub(crate) of_medians: f64,
    pub(crate) is_points: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Ahead,
    Level,
    Behind,
}

impl Comparison {
    /// Ahead or behind only when the median says so clearly, three quarters of the rounds agree, and so do
    /// the medians over all.
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

/// One sweep of the work behind an availability.
pub(crate) struct Sweep {
    pub(crate) place: Place,
    pub(crate) library: usize,
    pub(crate) direction: String,
    pub(crate) size: u64,
    /// Work and iteration in microseconds, from no work on.
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) transfer_us: f64,
    pub(crate) overhead_us: f64,
    pub(crate) base_threshold: f64,
    pub(crate) stop_threshold: f64,
}

impl Summary {
    /// What the comparison is about: the only library of that role.
    pub(crate) fn subject(&self) -> Option<usize> {
        self.libraries.iter().position(|library| library.role == Role::Subject)
    }

    pub(crate) fn library(&self, index: usize) -> &Library {
        &self.libraries[index]
    }
}
