//! Sessions and process sets (MPI-5.0 §11.3). The boundary's session calls use them; `start/sessions.rs`
//! opens and closes sessions.

use weft_engine::group::PeerId;

use crate::buffered::Buffer;
use crate::constants::*;
use crate::description::Info;
use crate::error::{Error, Result};
use crate::job::Job;

/// A session (MPI-5.0 §11.3.1).
pub struct Session {
    /// Handle of its error handler.
    pub error_handler: usize,
    /// The level of thread support.
    pub thread_level: i32,
    /// The kinds of memory that it knows (MPI-5.0 §11.4.3), as they are reported.
    pub memory_kinds: String,
    /// The buffer for buffered sends.
    pub buffer: Buffer,
}

/// The info key of the level of thread support, and its values (MPI-5.0 §11.3.1).
const THREAD_LEVEL: &str = "thread_level";
const THREAD_LEVELS: [(i32, &str); 4] = [
    (MPI_THREAD_SINGLE, "MPI_THREAD_SINGLE"),
    (MPI_THREAD_FUNNELED, "MPI_THREAD_FUNNELED"),
    (MPI_THREAD_SERIALIZED, "MPI_THREAD_SERIALIZED"),
    (MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE"),
];

/// The info key of the kinds of memory (MPI-5.0 §11.4.3).
pub const MEMORY_KINDS: &str = "mpi_memory_alloc_kinds";
/// The kinds of memory that every library knows.
pub const MEMORY_KINDS_BASE: &str = "mpi,system";
/// The restrictors of the kind `mpi`: the calls to whose memory it may be restricted.
const MPI_RESTRICTORS: [&str; 3] = ["alloc_mem", "win_allocate", "win_allocate_shared"];

impl Session {
    /// Makes a session that was asked for with `info`.
    ///
    /// # Errors
    /// `MPI_ERR_INFO_VALUE`: an unknown level of thread support.
    pub fn new(info: &Info, error_handler: usize) -> Result<Self> {
        let value = |key: &str| info.iter().find(|(present, _)| present == key).map(|(_, value)| value.as_str());
        let thread_level = match value(THREAD_LEVEL) {
            // Every level is provided.
            None => MPI_THREAD_MULTIPLE,
            Some(wanted) => {
                let found = THREAD_LEVELS.iter().find(|(_, name)| *name == wanted);
                found.map(|(level, _)| *level).ok_or_else(|| {
                    let message = format!("the info key {THREAD_LEVEL} has the value '{wanted}', which is no level");
                    Error::new(MPI_ERR_INFO_VALUE, message)
                })?
            }
        };
        let memory_kinds = memory_kinds(value(MEMORY_KINDS).unwrap_or_default());
        Ok(Self { error_handler, thread_level, memory_kinds, buffer: Buffer::new() })
    }

    /// The hints that `MPI_Session_get_info` reports.
    pub fn info(&self) -> Info {
        let level = THREAD_LEVELS.iter().find(|(level, _)| *level == self.thread_level);
        let level = level.map_or("MPI_THREAD_MULTIPLE", |(_, name)| name);
        [(THREAD_LEVEL, level), (MEMORY_KINDS, &self.memory_kinds)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .to_vec()
    }
}

/// The kinds of memory that are provided when `wanted` were asked for, separated by commas (MPI-5.0 §11.4.3).
pub fn memory_kinds(wanted: &str) -> String {
    let is_known = |kind: &str| match kind.split_once(':') {
        Some(("mpi", restrictors)) => restrictors.split(':').all(|restrictor| MPI_RESTRICTORS.contains(&restrictor)),
        _ => false,
    };
    let mut kinds = MEMORY_KINDS_BASE.to_owned();
    for kind in wanted.split(',').map(str::trim).filter(|kind| is_known(kind)) {
        kinds.push(',');
        kinds.push_str(kind);
    }
    kinds
}

/// The process sets of all processes of the job, and of this process.
const WORLD: &str = "mpi://WORLD";
const SELF: &str = "mpi://SELF";
/// The processes of a node; nodes are counted in the order of their first rank.
const NODE: &str = "weft://node/";
/// The processes of one of several programs of a command line, by the number that the launcher gave it.
const APP: &str = "weft://app/";

impl Job {
    /// The number of the node of each process, by rank.
    fn node_numbers(&self) -> Vec<usize> {
        let mut known = Vec::new();
        let number = |member: &PeerId| {
            let node = self.nodes.get(member);
            known.iter().position(|present| *present == node).unwrap_or_else(|| {
                known.push(node);
                known.len() - 1
            })
        };
        self.members.iter().map(number).collect()
    }

    /// The process sets that this process is in (MPI-5.0 §11.3.2): those of the standard first.
    pub fn process_sets(&self) -> Vec<String> {
        let own = self.rank as usize;
        let node = self.node_numbers()[own];
        let app = self.appnums[own].map(|number| format!("{APP}{number}"));
        [WORLD.to_owned(), SELF.to_owned(), format!("{NODE}{node}")].into_iter().chain(app).collect()
    }

    /// The processes of the set `name`, by rank.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: there is no such set.
    pub fn members_of_set(&self, name: &str) -> Result<Vec<PeerId>> {
        let own = self.rank as usize;
        let of = |chosen: &dyn Fn(usize) -> bool| -> Vec<PeerId> {
            self.members.iter().enumerate().filter(|(rank, _)| chosen(*rank)).map(|(_, member)| *member).collect()
        };
        let members = if name.eq_ignore_ascii_case(WORLD) {
            self.members.clone()
        } else if name.eq_ignore_ascii_case(SELF) {
            vec![self.members[own]]
        } else if let Some(node) = name.strip_prefix(NODE).and_then(|number| number.parse::<usize>().ok()) {
            let numbers = self.node_numbers();
            of(&|rank| numbers[rank] == node)
        } else if let Some(app) = name.strip_prefix(APP).and_then(|number| number.parse::<i32>().ok()) {
            of(&|rank| self.appnums[rank] == Some(app))
        } else {
            Vec::new()
        };
        if members.is_empty() {
            let known = self.process_sets().join(", ");
            return Err(Error::new(
                MPI_ERR_ARG,
                format!("there is no process set '{name}'; this process is in {known}"),
            ));
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_known_are_provided() {
        assert_eq!(memory_kinds(""), "mpi,system");
        assert_eq!(memory_kinds("system,mpi,cuda:device"), "mpi,system");
        assert_eq!(memory_kinds("mpi:alloc_mem, rocm,mpi:made_up"), "mpi,system,mpi:alloc_mem");
    }

    #[test]
    fn a_session_has_the_level_that_was_asked_for() {
        let info = |value: &str| vec![("thread_level".to_owned(), value.to_owned())];
        let session = Session::new(&info("MPI_THREAD_FUNNELED"), MPI_ERRORS_RETURN).expect("a level");
        assert_eq!(session.thread_level, MPI_THREAD_FUNNELED);
        assert!(session.info().contains(&("thread_level".to_owned(), "MPI_THREAD_FUNNELED".to_owned())));
        let Err(error) = Session::new(&info("some"), MPI_ERRORS_RETURN) else { panic!("no level") };
        assert_eq!(error.class, MPI_ERR_INFO_VALUE);
    }
}
