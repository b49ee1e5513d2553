//! Divides a communicator by the hardware that its processes are bound to (MPI-5.0 §7.4.2), and finds the
//! hardware that this process is bound to (§9.1.2).
//!
//! The boundary's MPI_Comm_split_type and MPI_Get_hw_resource_info use it.

use weft_launch::{RESOURCE_KINDS, Resource, resources};

use crate::description::Info;

/// The info key that names a type of hardware.
pub const RESOURCE_KEY: &str = "mpi_hw_resource_type";
/// The info key that names a process set.
pub const SET_KEY: &str = "mpi_pset_name";
/// The type of hardware that every library knows: the node, whose processes share memory.
pub const NODE: &str = "mpi_shared_memory";
/// The name of the node where every name is a URI.
const NODE_URI: &str = "hwloc://Machine";
const NODE_ALIASES: [&str; 3] = [NODE_URI, "machine", "node"];

/// The bits of the number of a part within one machine.
const PART_BITS: u32 = 24;
/// The part of a process that may run in several parts of this kind, or whose binding is unknown.
const UNBOUND: i64 = -1;

/// The binding of a process: its node, and for each kind of hardware the number of its part.
pub type Bindings = [i64; 1 + RESOURCE_KINDS.len()];

/// The bindings of this process. `node` is a number that all processes of its node have, and no others.
pub fn bindings(node: i64) -> Bindings {
    let mut bindings = [node; 1 + RESOURCE_KINDS.len()];
    for (binding, resource) in bindings[1..].iter_mut().zip(resources()) {
        *binding = match resource {
            Resource::One(number) if number < 1 << PART_BITS => node << PART_BITS | i64::from(number),
            _ => UNBOUND,
        };
    }
    bindings
}

/// The part of a process with these bindings, when processes are divided by the type of hardware of this
/// name. `None` when it is in no part, or no hardware has the name.
pub fn guided(bindings: &Bindings, name: &str) -> Option<i64> {
    let is = |known: &str, aliases: &[&str]| {
        name == known
            || aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
            || known.eq_ignore_ascii_case(name)
    };
    let level = if is(NODE, &NODE_ALIASES) {
        0
    } else {
        1 + RESOURCE_KINDS.iter().position(|kind| is(kind.name, kind.aliases))?
    };
    Some(bindings[level]).filter(|part| *part != UNBOUND)
}

/// The largest kind of hardware that divides processes with these bindings into parts, of which no part has
/// all of them; and its name.
pub fn next_level(all: &[Bindings]) -> Option<(usize, &'static str)> {
    let divides = |level: &usize| {
        let first = all.iter().map(|bindings| bindings[*level]).find(|part| *part != UNBOUND);
        first.is_some_and(|first| all.iter().any(|bindings| bindings[*level] != first))
    };
    let level = (0..=RESOURCE_KINDS.len()).find(divides)?;
    Some((level, if level == 0 { NODE } else { RESOURCE_KINDS[level - 1].name }))
}

/// The part of a process at a level; `None` when it is in no part.
pub fn part(bindings: &Bindings, level: usize) -> Option<i64> {
    Some(bindings[level]).filter(|part| *part != UNBOUND)
}

/// The types of hardware, and for each whether this process is bound to one part of it. The names are URIs
/// (MPI-5.0 §9.1.2).
pub fn info() -> Info {
    let mut info = vec![(NODE_URI.to_owned(), "true".to_owned())];
    for (kind, resource) in RESOURCE_KINDS.iter().zip(resources()) {
        let value = match resource {
            Resource::Unknown => continue,
            Resource::Several => "false",
            Resource::One(_) => "true",
        };
        info.push((kind.name.to_owned(), value.to_owned()));
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Bindings = [0, UNBOUND, UNBOUND, UNBOUND, UNBOUND, UNBOUND, UNBOUND];

    fn bound(node: i64, package: i64, core: i64) -> Bindings {
        [node, package, package, package, core, core, core]
    }

    #[test]
    fn levels_go_down_until_nothing_divides_any_more() {
        let two_nodes = [bound(0, 1, 2), bound(5, 6, 7)];
        assert_eq!(next_level(&two_nodes), Some((0, NODE)));
        let one_node = [bound(0, 1, 2), bound(0, 1, 3), bound(0, 4, 5)];
        assert_eq!(next_level(&one_node), Some((1, "hwloc://Package")));
        assert_eq!(next_level(&one_node[..2]), Some((4, "hwloc://L2Cache")));
        assert_eq!(next_level(&one_node[..1]), None);
        // A process that is bound to nothing is in no part.
        assert_eq!(next_level(&[FREE, FREE]), None);
        assert_eq!(next_level(&[FREE, bound(0, 1, 2)]), Some((1, "hwloc://Package")));
        assert_eq!((part(&FREE, 1), part(&FREE, 0)), (None, Some(0)));
    }

    #[test]
    fn hardware_has_names() {
        let process = bound(0, 1, 2);
        for (name, part) in [
            (NODE, Some(0)),
            ("hwloc://Machine", Some(0)),
            ("hwloc://Package", Some(1)),
            ("socket", Some(1)),
            ("hwloc://l3cache", Some(1)),
            ("Core", Some(2)),
            ("hwloc://PU", Some(2)),
            ("gpu", None),
        ] {
            assert_eq!(guided(&process, name), part, "{name}");
        }
        assert_eq!((guided(&FREE, "core"), guided(&FREE, NODE)), (None, Some(0)));
    }

    #[test]
    fn this_process_is_told_of_its_node_at_least() {
        assert_eq!(info()[0], (NODE_URI.to_owned(), "true".to_owned()));
        assert!(info().iter().all(|(_, value)| ["true", "false"].contains(&value.as_str())));
    }

    #[test]
    fn types_of_hardware_are_named_by_uris_that_can_be_asked_for() {
        for (name, _) in info() {
            assert!(name.starts_with("hwloc://"), "{name}");
            assert!(guided(&bound(0, 1, 2), &name).is_some(), "{name}");
        }
    }
}
