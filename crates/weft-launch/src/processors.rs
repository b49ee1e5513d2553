//! The processors of this machine: those that this process may use, their cores, sockets and memory nodes,
//! and the jobs that use them. Agents bind ranks by it, and the library asks for its load.

mod hardware;
mod quota;
mod registry;
mod set;
mod topology;

pub use hardware::{RESOURCE_KINDS, Resource, ResourceKind, resources};
pub use registry::DIRECTORY as REGISTRY;
#[cfg(test)]
pub(crate) use registry::tests as registry_tests;
pub(crate) use registry::{Hold, Registry, Session};
pub(crate) use set::Set;
#[cfg(test)]
pub(crate) use topology::tests as topology_tests;
pub(crate) use topology::{Topology, counted, machine};

/// The variable by which `mpiexec` tells a rank how busy its processors are: `RANKS/PROCESSORS`.
pub(crate) const LOAD_VARIABLE: &str = "WEFT_LOAD";

/// The number of processors that this process may use: its affinity mask (a cpuset is part of it), reduced by
/// the time quota of its control groups, at least 1. The machine's total does not count.
pub fn usable_processors() -> usize {
    reduce_by_quota(Set::allowed().len())
}

/// A name for the processors that this process may use, and their number without the time quota.
///
/// Processes that share the processors have the same name, in whatever containers or network namespaces of
/// one machine they are.
pub fn named_processors() -> (String, usize) {
    (machine(), Set::allowed().len())
}

/// The processors to which a process is bound, by whatever launcher, with their cores, sockets and memory
/// nodes; `None` where it may run on all of the machine, or the kernel does not tell.
pub fn binding_of(process: u32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    let set = bound_set(&status, &online)?;
    Some(Topology::of(&set).describe(&set))
}

/// The processors of a process, from what the kernel says of it, if they are not all that are `online`.
fn bound_set(status: &str, online: &str) -> Option<Set> {
    let allowed = Set::parse(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)?;
    let online = Set::parse(online)?;
    // The kernel allows processors that are not there.
    let set: Set = allowed.iter().filter(|number| online.contains(*number)).collect();
    (!set.is_empty() && set.len() < online.len()).then_some(set)
}

/// The number of processors that the time quota leaves of `allowed`, at least 1.
pub fn reduce_by_quota(allowed: usize) -> usize {
    reduce(allowed, quota::quota())
}

/// Reduces a number of processors by a quota. Only whole processors count: of two ranks that spin with a
/// quota of 1.5, both stand still for a quarter of the time.
fn reduce(allowed: usize, quota: Option<f64>) -> usize {
    let allowed = allowed.max(1);
    quota.map_or(allowed, |processors| allowed.min(processors.max(1.0) as usize))
}

/// The number of ranks on a number of processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// The ranks that run on the processors of this rank, of all jobs known when the job started, including
    /// this rank.
    pub ranks: usize,
    /// The processors that this rank may use; the time quota counts.
    pub processors: usize,
}

impl Load {
    /// The load that `mpiexec` passed in `WEFT_LOAD` when it started this process; `None` under another
    /// launcher.
    pub fn of_this_process() -> Option<Self> {
        std::env::var(LOAD_VARIABLE).ok().and_then(|text| Self::parse(&text))
    }

    /// Returns whether Weft's `mpiexec` started this process: only it sets `WEFT_LOAD`.
    pub fn is_from_mpiexec() -> bool {
        std::env::var_os(LOAD_VARIABLE).is_some()
    }

    /// Returns whether ranks have to take turns, so that waiting must not keep a processor busy.
    pub fn is_oversubscribed(self) -> bool {
        self.ranks > self.processors
    }

    fn parse(text: &str) -> Option<Self> {
        let (ranks, processors) = text.split_once('/')?;
        let load = Self { ranks: ranks.parse().ok()?, processors: processors.parse().ok()? };
        (load.ranks > 0 && load.processors > 0).then_some(load)
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.ranks, self.processors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_one_and_at_most_what_is_allowed() {
        let usable = usable_processors();
        assert!(usable >= 1 && usable <= Set::allowed().len());
        assert_eq!(reduce_by_quota(0), 1);
    }

    #[test]
    fn a_quota_counts_by_whole_processors() {
        let cases = [(None, 4), (Some(0.3), 1), (Some(1.0), 1), (Some(1.9), 1), (Some(2.0), 2), (Some(7.5), 4)];
        for (quota, processors) in cases {
            assert_eq!(reduce(4, quota), processors, "{quota:?}");
        }
        assert!(Load { ranks: 2, processors: reduce(2, Some(1.5)) }.is_oversubscribed(), "two ranks take turns");
    }

    #[test]
    fn a_process_is_bound_where_it_may_not_run_on_all_processors() {
        let set = |list: &str, online: &str| {
            bound_set(&format!("Name:\tweft\nCpus_allowed_list:\t{list}\nMems_allowed:\t1\n"), online)
        };
        for (list, online, bound) in
            [("1", "0-1", Some("1")), ("0-1", "0-1", None), ("0-255", "0-1", None), ("0,2,9", "0-3", Some("0,2"))]
        {
            assert_eq!(set(list, online).map(|set| set.to_string()).as_deref(), bound, "{list} of {online}");
        }
        assert_eq!(bound_set("Name:\tweft\n", "0-1"), None);
    }

    #[test]
    fn a_load_is_read_as_it_was_written_and_nonsense_is_not() {
        let load = Load { ranks: 4, processors: 2 };
        assert_eq!((Load::parse(&load.to_string()), load.is_oversubscribed()), (Some(load), true));
        assert!(!Load { ranks: 2, processors: 2 }.is_oversubscribed());
        for nonsense in ["", "4", "4/", "0/1", "1/0", "-1/2", "a/b", "1/2/3"] {
            assert_eq!(Load::parse(nonsense), None, "{nonsense}");
        }
    }
}
