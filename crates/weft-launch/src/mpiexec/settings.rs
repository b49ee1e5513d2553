//! What the command line says, once it has been read.

use std::ffi::OsString;
use std::time::Duration;

use super::environment::{Base, EnvironmentOptions};
use super::stats;
use crate::control::{BindTo, InputTo, MapBy};
use crate::hosts::{Host, Order};
use crate::reach;

/// Most ranks of a job.
pub(crate) const RANKS_MAX: u32 = 1 << 16;
/// How long an agent may take to answer when the user does not say.
const AGENT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(reach::ANSWER_SECONDS);

/// How long a host may be silent once its ranks run when the user does not say.
const HOST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// One program of the command line.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) count: Option<u32>,
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: EnvironmentOptions,
    pub(crate) directory: Option<OsString>,
    /// Directories where it is looked for before those of PATH, with colons between.
    pub(crate) search_path: Option<OsString>,
    /// Hosts of this program alone.
    pub(crate) hosts: Vec<Host>,
}

impl Block {
    /// A program of which nothing has been said.
    pub(super) fn new() -> Self {
        let environment = EnvironmentOptions { base: Base::All, set: Vec::new() };
        Self { count: None, words: Vec::new(), environment, directory: None, search_path: None, hosts: Vec::new() }
    }
}

/// Everything the command line says.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) blocks: Vec<Block>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) ranks_per_host: Option<u32>,
    pub(crate) order: Order,
    pub(crate) binding: Processors,
    pub(crate) oversubscribe: bool,
    pub(crate) labels: bool,
    pub(crate) merge: bool,
    pub(crate) input: InputTo,
    /// Whether the others go on when a rank fails.
    pub(crate) keep_others: bool,
    pub(crate) time_limit: Option<Duration>,
    pub(crate) agent: Option<String>,
    /// The command template for hosts that are not this one, where `agent` is not given.
    pub(crate) launcher: Option<String>,
    pub(crate) agent_program: Option<String>,
    pub(crate) agent_timeout: Duration,
    /// How long a host may be silent once its ranks run; `None`: for ever.
    pub(crate) host_timeout: Option<Duration>,
    /// Whether it is said which ranks are on which host.
    pub(crate) print_rank_map: bool,
    pub(crate) stats: Option<stats::Format>,
    pub(crate) universe: Option<u32>,
    pub(crate) verbose: bool,
    pub(crate) quiet: bool,
    /// Options that change nothing here: said always, or only to who wants to know.
    pub(crate) notes: Vec<(Loudness, String)>,
}

impl Settings {
    /// What holds where nothing is said.
    pub(super) fn new() -> Self {
        Self {
            blocks: Vec::new(),
            hosts: Vec::new(),
            ranks_per_host: None,
            order: Order::BySlot,
            binding: Processors::default(),
            oversubscribe: true,
            labels: false,
            merge: false,
            input: InputTo::Rank(0),
            keep_others: false,
            time_limit: None,
            agent: None,
            launcher: None,
            agent_program: None,
            agent_timeout: AGENT_TIMEOUT_DEFAULT,
            host_timeout: Some(HOST_TIMEOUT_DEFAULT),
            print_rank_map: false,
            stats: None,
            universe: None,
            verbose: false,
            quiet: false,
            notes: Vec::new(),
        }
    }
}

/// Who is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loudness {
    Everybody,
    Verbose,
}

/// What ranks are bound to when the user does not say (docs/decisions/0060).
const BIND_TO_DEFAULT: BindTo = BindTo::None;

/// What was said about processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Processors {
    /// What ranks shall be bound to, if it was said.
    pub(super) to: Option<BindTo>,
    /// What follows from other options.
    pub(super) implied: Option<BindTo>,
    pub(crate) by: MapBy,
    /// Cores or threads for each rank.
    pub(crate) each: u32,
    pub(crate) report: bool,
}

impl Default for Processors {
    fn default() -> Self {
        Self { to: None, implied: None, by: MapBy::Slot, each: 1, report: false }
    }
}

impl Processors {
    /// What ranks shall be bound to.
    pub(crate) fn to(&self) -> BindTo {
        self.to.or(self.implied).unwrap_or(BIND_TO_DEFAULT)
    }
}

/// A number of ranks, or of something of which there are no more than ranks.
///
/// # Errors
/// One sentence.
pub(super) fn number(name: &str, text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if (1..=RANKS_MAX).contains(&number) => Ok(number),
        _ => Err(format!("{name} needs a number between 1 and {RANKS_MAX}, not `{text}`")),
    }
}
