//! The processors of each core, socket and memory node, as the kernel reports them in /sys/devices/system.

use super::Set;
use std::fs;
use std::path::Path;
use weft_ordered::Map;

/// The directory in which the kernel reports processors and memory.
pub(super) const ROOT: &str = "/sys/devices/system";
/// The most memory nodes that are looked at.
const NODES_MAX: usize = 4096;

/// A processor (hardware thread) that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Processor {
    pub(crate) number: usize,
    /// The package and core number: a core's number alone is not unique.
    pub(crate) core: (usize, usize),
    pub(crate) socket: usize,
    pub(crate) numa: usize,
}

/// The processors that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Topology {
    pub(crate) processors: Vec<Processor>,
}

/// A name for this machine and the processors of it that this process may use. Agents with equal names share
/// the processors. Network namespaces and containers of one machine have the same name if they may use the
/// same processors.
pub(crate) fn machine() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{}/{}", boot.trim(), Set::allowed())
}

impl Topology {
    /// The topology of the processors in `allowed`.
    pub(crate) fn of(allowed: &Set) -> Self {
        Self::read(Path::new(ROOT), allowed)
    }

    /// Reads the topology below `root`. Where the kernel reports nothing, every processor counts as a core,
    /// and all as one socket and one memory node.
    pub(super) fn read(root: &Path, allowed: &Set) -> Self {
        let nodes = nodes(root);
        let describe = |number: usize| {
            let folder = root.join(format!("cpu/cpu{number}/topology"));
            let value = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<usize>().ok();
            let socket = value("physical_package_id").unwrap_or(0);
            // The lowest sibling names a core without doubt; the core's own number is for people.
            let siblings = fs::read_to_string(folder.join("thread_siblings_list")).ok();
            let first = siblings.and_then(|text| Set::parse(&text)?.iter().next()).unwrap_or(number);
            let numa = nodes.iter().find(|(_, set)| set.contains(number)).map_or(0, |(node, _)| *node);
            Processor { number, core: (socket, first), socket, numa }
        };
        Self { processors: allowed.iter().map(describe).collect() }
    }

    /// Processors by core, in the order of sockets and cores.
    pub(crate) fn cores(&self) -> Vec<Set> {
        self.groups(|processor| processor.core)
    }

    /// Processors by socket.
    pub(crate) fn sockets(&self) -> Vec<Set> {
        self.groups(|processor| processor.socket)
    }

    /// Processors by memory node.
    pub(crate) fn numa_nodes(&self) -> Vec<Set> {
        self.groups(|processor| processor.numa)
    }

    /// Each processor by itself, those of a core next to each other.
    pub(crate) fn threads(&self) -> Vec<Set> {
        self.groups(|processor| (processor.core, processor.number))
    }

    /// All processors.
    pub(crate) fn all(&self) -> Set {
        self.processors.iter().map(|processor| processor.number).collect()
    }

    /// Describes a set of processors: `processors 0,4: 1 core, socket 0, memory node 0`.
    pub(crate) fn describe(&self, set: &Set) -> String {
        let mine = || self.processors.iter().filter(|processor| set.contains(processor.number));
        let sockets: Set = mine().map(|processor| processor.socket).collect();
        let nodes: Set = mine().map(|processor| processor.numa).collect();
        let cores = self.cores().iter().filter(|core| core.iter().any(|number| set.contains(number))).count();
        let cores = counted(cores, "core");
        format!("{}: {cores}, {}, {}", set.named("processor"), sockets.named("socket"), nodes.named("memory node"))
    }

    fn groups<K: Ord>(&self, key: impl Fn(&Processor) -> K) -> Vec<Set> {
        let mut groups: Map<K, Vec<usize>> = Map::new();
        for processor in &self.processors {
            groups.entry(key(processor)).or_default().push(processor.number);
        }
        groups.into_values().map(|numbers| numbers.into_iter().collect()).collect()
    }
}

/// So many of something: `1 core`, `2 cores`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Memory nodes with their processors.
pub(super) fn nodes(root: &Path) -> Vec<(usize, Set)> {
    let Ok(entries) = fs::read_dir(root.join("node")) else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("node")?.parse().ok());
    let list = |node: usize| fs::read_to_string(root.join(format!("node/node{node}/cpulist"))).ok();
    numbers.take(NODES_MAX).filter_map(|node| Some((node, Set::parse(&list(node)?)?))).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two sockets of `cores` cores with two threads each; each socket is a memory node. The numbers are as
    /// in Linux: the second threads come after all first ones.
    pub(crate) fn two_sockets(cores: usize) -> Topology {
        let total = cores * 2;
        let describe = |number: usize| {
            let (core, socket) = (number % total, number % total / cores);
            Processor { number, core: (socket, core), socket, numa: socket }
        };
        Topology { processors: (0..total * 2).map(describe).collect() }
    }

    fn texts(sets: &[Set]) -> Vec<String> {
        sets.iter().map(Set::to_string).collect()
    }

    #[test]
    fn what_the_kernel_tells_is_understood() {
        let root = std::env::temp_dir().join(format!("weft-topology-{}", std::process::id()));
        for number in 0..4 {
            let folder = root.join(format!("cpu/cpu{number}/topology"));
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("physical_package_id"), format!("{}\n", number % 2)).expect("a file");
            fs::write(folder.join("thread_siblings_list"), format!("{}\n", number)).expect("a file");
        }
        for (node, list) in [(0, "0,2\n"), (1, "1,3\n")] {
            let folder = root.join(format!("node/node{node}"));
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("cpulist"), list).expect("a file");
        }
        let topology = Topology::read(&root, &Set::parse("0-3").expect("a list"));
        let fewer = Topology::read(&root, &Set::parse("1-2").expect("a list"));
        fs::remove_dir_all(&root).expect("it was made");
        assert_eq!(texts(&topology.sockets()), ["0,2", "1,3"]);
        assert_eq!(topology.sockets(), topology.numa_nodes());
        assert_eq!(texts(&topology.cores()), ["0", "2", "1", "3"]);
        assert_eq!(texts(&fewer.sockets()), ["2", "1"]);
    }

    #[test]
    fn a_kernel_that_tells_nothing_has_cores_only() {
        let topology = Topology::read(Path::new("/nowhere"), &Set::parse("0-2").expect("a list"));
        assert_eq!((topology.cores().len(), topology.sockets().len(), topology.numa_nodes().len()), (3, 1, 1));
    }

    #[test]
    fn threads_of_a_core_belong_together() {
        let topology = two_sockets(2);
        assert_eq!(texts(&topology.cores()), ["0,4", "1,5", "2,6", "3,7"]);
        assert_eq!(texts(&topology.sockets()), ["0-1,4-5", "2-3,6-7"]);
        assert_eq!(texts(&topology.threads()), ["0", "4", "1", "5", "2", "6", "3", "7"]);
        assert_eq!(topology.all().len(), 8);
    }
}
