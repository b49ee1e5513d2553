//! The table of options: their names in both families, what they take, what they do.

use super::options::Loudness;

/// The hidden option that makes this program the agent of a host.
pub(crate) const AGENT_OPTION: &str = "--weft-agent";

/// How many values follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    /// One after `=`, or none.
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
    RanksPerHost,
    MapBy,
    /// The same, with the word in the option's name.
    MapByFixed(&'static str),
    BindTo,
    BindToFixed(&'static str),
    ProcessorsPerRank,
    ReportBindings,
    PrintRankMap,
    ByHost,
    Oversubscribe,
    NoOversubscribe,
    Labels,
    Merge,
    Input,
    TimeLimit,
    Agent,
    AgentProgram,
    AgentTimeout,
    HostTimeout,
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

/// Options for the program that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Local {
    Count,
    Directory,
    Host,
    Set,
    BaseAll,
    BaseNone,
    BaseList,
}

/// What an option does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Help,
    Version,
    Global(Global),
    Local(Local),
    Ignored(Loudness),
}

/// One option.
pub(crate) struct Entry {
    /// Names without dashes; one dash or two may stand before any of them.
    names: &'static [&'static str],
    pub(crate) takes: Takes,
    pub(crate) action: Action,
}

const fn entry(names: &'static [&'static str], takes: Takes, action: Action) -> Entry {
    Entry { names, takes, action }
}

const fn global(names: &'static [&'static str], takes: Takes, option: Global) -> Entry {
    entry(names, takes, Action::Global(option))
}

const fn local(names: &'static [&'static str], takes: Takes, option: Local) -> Entry {
    entry(names, takes, Action::Local(option))
}

const fn quiet(names: &'static [&'static str], takes: Takes) -> Entry {
    entry(names, takes, Action::Ignored(Loudness::Verbose))
}

/// All options, MPICH's names (Hydra) beside Open MPI's.
static OPTIONS: &[Entry] = &[
    entry(&["h", "help", "?"], Takes::Nothing, Action::Help),
    entry(&["V", "version", "info"], Takes::Nothing, Action::Version),
    local(&["n", "np", "c"], Takes::One, Local::Count),
    local(&["wdir", "wd", "dir"], Takes::One, Local::Directory),
    local(&["host", "H"], Takes::One, Local::Host),
    local(&["env"], Takes::Pair, Local::Set),
    local(&["envall"], Takes::Nothing, Local::BaseAll),
    local(&["envnone"], Takes::Nothing, Local::BaseNone),
    local(&["envlist"], Takes::One, Local::BaseList),
    global(&["hosts"], Takes::One, Global::Hosts),
    global(&["f", "hostfile", "machinefile", "machine", "default-hostfile"], Takes::One, Global::HostFile),
    global(&["ppn", "N", "perhost", "npernode", "grr"], Takes::One, Global::RanksPerHost),
    global(&["map-by"], Takes::One, Global::MapBy),
    global(&["byslot"], Takes::Nothing, Global::MapByFixed("slot")),
    global(&["bycore"], Takes::Nothing, Global::MapByFixed("core")),
    global(&["bysocket"], Takes::Nothing, Global::MapByFixed("socket")),
    global(&["bind-to"], Takes::One, Global::BindTo),
    global(&["bind-to-none"], Takes::Nothing, Global::BindToFixed("none")),
    global(&["bind-to-core"], Takes::Nothing, Global::BindToFixed("core")),
    global(&["bind-to-socket"], Takes::Nothing, Global::BindToFixed("socket")),
    global(&["cpus-per-proc", "cpus-per-rank"], Takes::One, Global::ProcessorsPerRank),
    global(&["print-rank-map"], Takes::Nothing, Global::PrintRankMap),
    global(&["report-bindings"], Takes::Nothing, Global::ReportBindings),
    global(&["rr", "bynode"], Takes::Nothing, Global::ByHost),
    global(&["oversubscribe"], Takes::Nothing, Global::Oversubscribe),
    global(&["nooversubscribe", "no-oversubscribe"], Takes::Nothing, Global::NoOversubscribe),
    global(&["l", "prepend-rank", "tag-output"], Takes::Nothing, Global::Labels),
    global(&["merge-stderr-to-stdout"], Takes::Nothing, Global::Merge),
    global(&["stdin", "s"], Takes::One, Global::Input),
    global(&["timeout"], Takes::One, Global::TimeLimit),
    global(&["agent"], Takes::One, Global::Agent),
    global(&["agent-program"], Takes::One, Global::AgentProgram),
    global(&["agent-timeout"], Takes::One, Global::AgentTimeout),
    global(&["host-timeout"], Takes::One, Global::HostTimeout),
    global(&["stats"], Takes::Maybe, Global::Stats),
    global(&["usize"], Takes::One, Global::Universe),
    global(&["v", "verbose"], Takes::Nothing, Global::Verbose),
    global(&["q", "quiet"], Takes::Nothing, Global::Quiet),
    global(&["iface"], Takes::One, Global::Interface),
    global(&["genv"], Takes::Pair, Global::Set),
    global(&["x"], Takes::One, Global::Export),
    global(&["genvall"], Takes::Nothing, Global::BaseAll),
    global(&["genvnone"], Takes::Nothing, Global::BaseNone),
    global(&["genvlist"], Takes::One, Global::BaseList),
    entry(&["mca", "gmca", "omca", "prtemca", "pmixmca"], Takes::Two, Action::Ignored(Loudness::Everybody)),
    quiet(&["allow-run-as-root"], Takes::Nothing),
    quiet(&["binding", "rank-by", "order-nodes", "membind"], Takes::One),
    quiet(&["display-map", "use-hwthread-cpus", "use-hwthreads"], Takes::Nothing),
    quiet(&["nolocal"], Takes::Nothing),
];

/// Names are told apart by few letters; a suggestion further away than this would only confuse.
const DISTANCE_MAX: usize = 2;

/// The option with this name (dashes included), and the name without dashes.
pub(crate) fn find(option: &str) -> Option<(&'static Entry, &str)> {
    let name = option.strip_prefix("--").or_else(|| option.strip_prefix('-'))?;
    let entry = OPTIONS.iter().find(|entry| entry.names.contains(&name))?;
    Some((entry, name))
}

/// What to say about an option that is not known.
pub(crate) fn unknown(option: &str) -> String {
    let name = option.trim_start_matches('-');
    let names = OPTIONS.iter().flat_map(|entry| entry.names).filter(|known| known.len() > 1);
    let begins = |known: &str| name.len() > 2 && (known.starts_with(name) || name.starts_with(known));
    let rated =
        names.map(|known| (distance(name, known).min(if begins(known) { DISTANCE_MAX } else { usize::MAX }), known));
    // Of two that are as far, the one that was begun: people leave out the end.
    let nearest = rated
        .filter(|&(far, known)| far <= DISTANCE_MAX && far < known.len())
        .min_by_key(|&(far, known)| (far, !known.starts_with(name)));
    let dashes = &option[..option.len() - name.len()];
    match nearest {
        Some((_, known)) => format!("the option {option} is not known; did you mean {dashes}{known}?"),
        None if name.starts_with("launcher") || name.starts_with("bootstrap") || name == "rmk" => {
            format!("the option {option} is not known; how hosts are reached is said by --agent")
        }
        None => format!("the option {option} is not known; `mpiexec --help` lists those that are"),
    }
}

/// How many letters must be inserted, removed or replaced to make `one` of `other`.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for column in 0..other.len() {
            let replaced = diagonal + usize::from(letter != other[column]);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_for_two_options() {
        let mut names: Vec<&str> = OPTIONS.iter().flat_map(|entry| entry.names).copied().collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_nearest_name_is_suggested() {
        assert!(unknown("--tmeout").contains("did you mean --timeout?"));
        assert!(unknown("-hostfil").contains("did you mean -hostfile?"));
        assert!(unknown("-pp").contains("did you mean -ppn?"));
        assert!(unknown("--agnt").contains("did you mean --agent?"));
        assert!(unknown("-launcher").contains("--agent"));
        assert!(unknown("--frobnicate").contains("--help"));
        assert!(unknown("-z").contains("--help"));
        assert_eq!((distance("", "abc"), distance("abc", "abc"), distance("kitten", "sitting")), (3, 0, 3));
    }
}
