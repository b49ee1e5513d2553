//! The parts of the machine that this process is bound to, for `MPI_Comm_split_type` (MPI-5.0 §7.4.2) and
//! `MPI_Get_hw_resource_info` (§9.1.2).

use std::fs;
use std::path::Path;

use super::topology::{Processor, ROOT, Topology};
use super::{Set, topology};

/// A kind of hardware. The larger kinds come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceKind {
    /// The name, as hwloc's object types are called.
    pub name: &'static str,
    /// Other names that programs use for it.
    pub aliases: &'static [&'static str],
}

/// The kinds below a machine; as a rule each is inside the one before.
pub const RESOURCE_KINDS: [ResourceKind; 6] = [
    ResourceKind { name: "hwloc://Package", aliases: &["package", "socket"] },
    ResourceKind { name: "hwloc://NUMANode", aliases: &["numanode", "numa"] },
    ResourceKind { name: "hwloc://L3Cache", aliases: &["l3cache"] },
    ResourceKind { name: "hwloc://L2Cache", aliases: &["l2cache"] },
    ResourceKind { name: "hwloc://Core", aliases: &["core"] },
    ResourceKind { name: "hwloc://PU", aliases: &["pu", "hwthread"] },
];

/// The binding of a process to a kind of hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// The kernel does not report this kind.
    Unknown,
    /// The process may run in several parts of this kind.
    Several,
    /// The process is bound to the part with this number, which no other part of the machine has.
    One(u32),
}

/// The binding of this process to each kind.
pub fn resources() -> [Resource; RESOURCE_KINDS.len()] {
    of(Path::new(ROOT), &Set::allowed())
}

fn of(root: &Path, allowed: &Set) -> [Resource; RESOURCE_KINDS.len()] {
    let processors = Topology::read(root, allowed).processors;
    let known = |there: bool, number: fn(&Processor) -> usize| {
        if there { single(processors.iter().map(|processor| Some(number(processor)))) } else { Resource::Unknown }
    };
    let has = |name: &str| {
        processors.iter().all(|processor| root.join(format!("cpu/cpu{}/topology/{name}", processor.number)).exists())
    };
    let cache = |level: u32| single(processors.iter().map(|processor| cache(root, processor.number, level)));
    [
        known(has("physical_package_id"), |processor| processor.socket),
        known(!topology::nodes(root).is_empty(), |processor| processor.numa),
        cache(3),
        cache(2),
        known(has("thread_siblings_list"), |processor| processor.core.1),
        known(true, |processor| processor.number),
    ]
}

/// The part that all processors are in.
fn single(mut numbers: impl Iterator<Item = Option<usize>>) -> Resource {
    let Some(Some(first)) = numbers.next() else { return Resource::Unknown };
    let mut is_one = true;
    for number in numbers {
        let Some(number) = number else { return Resource::Unknown };
        is_one &= number == first;
    }
    match u32::try_from(first) {
        Ok(number) if is_one => Resource::One(number),
        _ => Resource::Several,
    }
}

/// The lowest processor that shares the data cache of this level with processor `number`.
fn cache(root: &Path, number: usize, level: u32) -> Option<usize> {
    let folder = root.join(format!("cpu/cpu{number}/cache"));
    for entry in fs::read_dir(folder).ok()? {
        let path = entry.ok()?.path();
        let text = |name: &str| fs::read_to_string(path.join(name)).ok();
        let is_it = text("level").is_some_and(|text| text.trim().parse() == Ok(level))
            && text("type").is_some_and(|text| text.trim() != "Instruction");
        if is_it {
            return Set::parse(&text("shared_cpu_list")?)?.iter().next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of two packages with two cores of two threads each, with a level-2 cache for each core and a
    /// level-3 cache for each package.
    fn machine() -> std::path::PathBuf {
        static MADE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let made = MADE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("weft-hardware-{}-{made}", std::process::id()));
        let write = |path: String, text: String| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text + "\n").expect("a file");
        };
        for number in 0..8 {
            let (core, package) = (number / 2 * 2, number / 4);
            let (thread, cores) = (format!("{core}-{}", core + 1), format!("{}-{}", package * 4, package * 4 + 3));
            write(format!("cpu/cpu{number}/topology/physical_package_id"), package.to_string());
            write(format!("cpu/cpu{number}/topology/thread_siblings_list"), thread.clone());
            for (index, level, kind, shared) in [
                (0, 1, "Data", &thread),
                (1, 2, "Instruction", &thread),
                (2, 2, "Unified", &thread),
                (3, 3, "Unified", &cores),
            ] {
                write(format!("cpu/cpu{number}/cache/index{index}/level"), level.to_string());
                write(format!("cpu/cpu{number}/cache/index{index}/type"), kind.to_owned());
                write(format!("cpu/cpu{number}/cache/index{index}/shared_cpu_list"), shared.clone());
            }
        }
        write("node/node0/cpulist".to_owned(), "0-7".to_owned());
        root
    }

    #[test]
    fn who_is_bound_to_part_of_a_machine_is_told_which() {
        use Resource::{One, Several};
        let root = machine();
        let of = |list: &str| of(&root, &Set::parse(list).expect("a list"));
        assert_eq!(of("0-7"), [Several, One(0), Several, Several, Several, Several]);
        assert_eq!(of("4-7"), [One(1), One(0), One(4), Several, Several, Several]);
        assert_eq!(of("6-7"), [One(1), One(0), One(4), One(6), One(6), Several]);
        assert_eq!(of("5"), [One(1), One(0), One(4), One(4), One(4), One(5)]);
        assert_eq!(of("3,4"), [Several, One(0), Several, Several, Several, Several]);
        fs::remove_dir_all(&root).expect("it was made");
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_unknown() {
        use Resource::{One, Unknown};
        let found = of(Path::new("/nowhere"), &Set::parse("3").expect("a list"));
        assert_eq!(found, [Unknown, Unknown, Unknown, Unknown, Unknown, One(3)]);
    }
}
