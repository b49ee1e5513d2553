//! The settings that the command line has given.

use std::ffi::OsString;
use std::time::Duration;

use super::environment::{Base, EnvironmentOptions};
use super::stats;
use super::tree::Width;
use crate::control::{BindTo, InputTo, MapBy};
use crate::defaults::{Defaults, VARIABLE};
use crate::faces::Faces;
use crate::heartbeat::Pace;
use crate::hosts::{Host, Order};
use crate::reach::{self, RemoteShell};

/// The most ranks of a job.
pub(crate) const RANKS_MAX: u32 = 1 << 16;
/// The longest time for an agent to answer when the user gives none.
const AGENT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(reach::ANSWER_SECONDS);

/// The longest silence of a host whose ranks run when the user gives none.
const HOST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// A program of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) count: Option<u32>,
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: EnvironmentOptions,
    pub(crate) directory: Option<OsString>,
    /// Directories that are searched for the program before those of PATH, with colons between.
    pub(crate) search_path: Option<OsString>,
    /// Hosts of this program alone.
    pub(crate) hosts: Vec<Host>,
}

impl Block {
    /// A program without any options.
    pub(super) fn new() -> Self {
        let environment = EnvironmentOptions { base: Base::All, set: Vec::new() };
        Self { count: None, words: Vec::new(), environment, directory: None, search_path: None, hosts: Vec::new() }
    }
}

/// The settings of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) blocks: Vec<Block>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) ranks_per_host: Option<u32>,
    pub(crate) order: Order,
    pub(crate) binding: Processors,
    pub(crate) oversubscribe: bool,
    /// Where programs find the libraries for programs of other MPIs.
    pub(crate) faces: Faces,
    pub(crate) labels: bool,
    pub(crate) merge: bool,
    pub(crate) input: InputTo,
    /// The other ranks go on when a rank fails.
    pub(crate) keep_others: bool,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) agent: Option<String>,
    /// The remote shell for hosts that are not this one, where `agent` is not given.
    pub(crate) remote_shell: RemoteShell,
    pub(crate) agent_program: Option<String>,
    pub(crate) agent_timeout: Duration,
    /// How many agents `mpiexec`, and each host, starts.
    pub(crate) tree_width: Width,
    /// The longest silence of a host once its ranks run; `None`: no limit.
    pub(crate) host_timeout: Option<Duration>,
    /// The longest silence of a host or stop of a rank, where heartbeats are asked for.
    pub(crate) heartbeat: Option<Duration>,
    /// Prints which ranks are on which host.
    pub(crate) print_rank_map: bool,
    pub(crate) stats: Option<stats::Format>,
    pub(crate) universe: Option<u32>,
    /// The number of the job in its family; 0: it was not spawned.
    pub(crate) spawned: u32,
    /// The directory in which programs start that name none; `None`: that of `mpiexec`.
    pub(crate) directory: Option<OsString>,
    /// Keys and values that the job's processes find from the start.
    pub(crate) values: Vec<(String, String)>,
    pub(crate) verbose: bool,
    pub(crate) quiet: bool,
    /// Options that change nothing here, with the users who are told: all, or only those who ask for notes.
    pub(crate) notes: Vec<(Loudness, String)>,
}

impl Settings {
    /// The settings of an empty command line.
    pub(super) fn new() -> Self {
        Self {
            blocks: Vec::new(),
            hosts: Vec::new(),
            ranks_per_host: None,
            order: Order::BySlot,
            binding: Processors::default(),
            oversubscribe: true,
            faces: Faces::Last,
            labels: false,
            merge: false,
            input: InputTo::Rank(0),
            keep_others: false,
            time_limit: None,
            agent: None,
            remote_shell: RemoteShell::default(),
            agent_program: None,
            agent_timeout: AGENT_TIMEOUT_DEFAULT,
            tree_width: Width::Auto,
            host_timeout: Some(HOST_TIMEOUT_DEFAULT),
            heartbeat: None,
            print_rank_map: false,
            stats: None,
            universe: None,
            spawned: 0,
            directory: None,
            values: Vec::new(),
            verbose: false,
            quiet: false,
            notes: Vec::new(),
        }
    }

    /// The longest silence of the way to a host on which orders and reports pass; `None`: no limit.
    pub(crate) fn silence_max(&self) -> Option<Duration> {
        let beats = self.heartbeat.map(|limit| Pace::new(limit).control());
        self.host_timeout.into_iter().chain(beats).min()
    }

    /// Hands to all ranks what the files of defaults say.
    pub(super) fn hand_on(&mut self, defaults: &Defaults) {
        let variable = (OsString::from(VARIABLE), OsString::from(defaults.to_variable()));
        self.blocks.iter_mut().for_each(|block| block.environment.set.push(variable.clone()));
    }
}

/// The users who are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loudness {
    Everybody,
    Verbose,
}

/// The unit that ranks are bound to when the user gives none (docs/design/launch.md).
const BIND_TO_DEFAULT: BindTo = BindTo::None;

/// The options about processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Processors {
    /// The unit that ranks shall be bound to, if an option names it.
    pub(super) to: Option<BindTo>,
    /// The unit that follows from other options.
    pub(super) implied: Option<BindTo>,
    pub(crate) by: MapBy,
    /// The number of cores or threads for each rank.
    pub(crate) each: u32,
    pub(crate) report: bool,
}

impl Default for Processors {
    fn default() -> Self {
        Self { to: None, implied: None, by: MapBy::Slot, each: 1, report: false }
    }
}

impl Processors {
    /// The unit that ranks shall be bound to.
    pub(crate) fn to(&self) -> BindTo {
        self.to.or(self.implied).unwrap_or(BIND_TO_DEFAULT)
    }
}

/// Reads a number of ranks, or another number with the same limits.
///
/// # Errors
/// One sentence about the number.
pub(super) fn number(name: &str, text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if (1..=RANKS_MAX).contains(&number) => Ok(number),
        _ => Err(format!("{name} needs a number between 1 and {RANKS_MAX}, not `{text}`")),
    }
}
