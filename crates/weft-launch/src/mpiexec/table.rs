//! The table of options: their names in all families, their values, and their effect or the option to use
//! instead.
//!
//! The parser, `--help`, the suggestions and the page of the book (`docs/book/mpiexec.md`) are made from it.

mod rows;
mod suggestions;

use super::settings::Loudness;
use crate::faces::Faces;
pub(crate) use rows::OPTIONS;
pub(crate) use suggestions::unknown;

/// The hidden option that makes this program the agent of a host.
pub(crate) const AGENT_OPTION: &str = "--weft-agent";
/// The hidden option, with `=` and a descriptor, that makes this program run a spawned job.
pub(crate) const SPAWNED_OPTION: &str = "--weft-spawned";
/// The hidden option, with `=`, a descriptor, `:` and a process, that makes this program serve a singleton
/// that spawns.
pub(crate) const SINGLETON_OPTION: &str = "--weft-singleton";

/// The number of values that follow an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    /// A value after `=`, or none.
    Maybe,
    One,
    Two,
    /// `NAME=value`, or `NAME value`.
    Pair,
}

/// Options for the whole job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Global {
    Hosts,
    HostFile,
    HostScript,
    RanksPerHost,
    OnePerHost,
    MapBy,
    /// The same as `MapBy`, with the word in the option's name.
    MapByFixed(&'static str),
    BindTo,
    BindToFixed(&'static str),
    ProcessorsPerRank,
    ReportBindings,
    PrintRankMap,
    Display,
    Output,
    ByHost,
    Oversubscribe,
    NoOversubscribe,
    Faces(Faces),
    Labels,
    Merge,
    KeepOthers,
    OnFailure,
    Input,
    TimeLimit,
    Agent,
    AgentProgram,
    AgentTimeout,
    TreeWidth,
    HostTimeout,
    Heartbeat,
    Launcher,
    LauncherProgram,
    LauncherArguments,
    Prefix,
    Stats,
    Universe,
    Verbose,
    Quiet,
    Interface,
    Set,
    Export,
    BaseAll,
    BaseNone,
    BaseList,
}

/// Options for the program that follows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Local {
    Count,
    Soft,
    Directory,
    SearchPath,
    Architecture,
    Host,
    Set,
    ErrorHandler,
    BaseAll,
    BaseNone,
    BaseList,
}

/// The effect of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Help,
    Version,
    /// The rest of the command line is in a file.
    ConfigFile,
    Global(Global),
    Local(Local),
    /// Accepted without effect: its effect holds anyway, or a program cannot see it.
    Ignored(Loudness),
    /// Refused: its text names the option to use instead.
    Instead,
}

/// The section in which `--help` and the book show an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Places,
    Processors,
    Reach,
    Environment,
    Output,
    Ending,
}

impl Section {
    pub(crate) const ALL: [Self; 6] =
        [Self::Places, Self::Processors, Self::Reach, Self::Environment, Self::Output, Self::Ending];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Places => "How many, and where",
            Self::Processors => "Which processors",
            Self::Reach => "How hosts are reached",
            Self::Environment => "What ranks see",
            Self::Output => "What you see",
            Self::Ending => "How a job ends",
        }
    }

    /// The rules that hold without any option.
    pub(crate) fn remark(self) -> &'static str {
        match self {
            Self::Places => {
                "Where hosts have no slots, mpiexec spreads the ranks over them evenly, in blocks. Where no option names \
                 hosts, it takes those of a hostfile that another launcher's variable names. Without such a variable \
                 it takes the hosts of an allocation (Slurm, PBS, LSF, Grid Engine or Flux), or else this host."
            }
            Self::Processors => {
                "No core is given to two ranks, not even of different jobs. If there are too few cores, mpiexec binds \
                 no rank."
            }
            Self::Reach => {
                "One agent runs on each host. The job's commands and output pass through the agent's standard input and \
                 output. In an allocation the batch system starts the agents, where its program for that is in PATH \
                 (srun, pbs_attach, blaunch, qrsh, flux) and no option names another way. -v says what was taken \
                 from where."
            }
            Self::Environment => {
                "Ranks on other hosts get all variables but those that describe this host or login (HOME, DISPLAY, \
                 SSH_*…). They always get the settings of Weft (WEFT_*)."
            }
            Self::Output => "Lines of different ranks never mix. A line of more than 16 MiB is passed in pieces.",
            Self::Ending => {
                "mpiexec exits with the status of the first rank that failed. If a signal killed that rank, mpiexec \
                 exits with 128 plus the number of the signal. mpiexec ends all other ranks, and also the jobs that \
                 ranks have spawned."
            }
        }
    }
}

/// An option.
pub(crate) struct Entry {
    /// The names as people write them; one dash or two may stand before any of them.
    pub(crate) names: &'static [&'static str],
    pub(crate) takes: Takes,
    /// The name of its value in the help text.
    pub(crate) value: &'static str,
    pub(crate) action: Action,
    pub(crate) section: Section,
    /// The text: its effect, why it has none, or the option to use instead.
    pub(crate) text: &'static str,
}

/// The option with this name (dashes included).
pub(crate) fn find(option: &str) -> Option<&'static Entry> {
    let bare = |name: &str| name.strip_prefix("--").or_else(|| name.strip_prefix('-')).map(str::to_owned);
    let name = bare(option)?;
    OPTIONS.iter().find(|entry| entry.names.iter().any(|known| bare(known).as_deref() == Some(&name)))
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
