//! The algorithms that collectives would run: the library's choices for some sizes.

use serde::Serialize;
use weft_mpi::algorithms::choice::{Choices, Facts, Operation, Place, Source};

/// The number of processes of the communicator that is shown.
const RANKS: u32 = 8;

/// The algorithm of a collective for messages from one size to another.
#[derive(Debug, Serialize)]
pub(crate) struct Choice {
    pub(crate) operation: &'static str,
    /// The smallest of the sizes that were asked for.
    pub(crate) from_bytes: u64,
    /// The largest of those sizes.
    pub(crate) to_bytes: u64,
    pub(crate) algorithm: String,
    /// The source of the choice.
    pub(crate) source: &'static str,
}

/// The choices for 8 processes on one node and on 8, for sizes that are powers of two up to 16 MiB.
pub(crate) fn all(choices: &Choices, nodes: u32) -> Vec<Choice> {
    let mut all: Vec<Choice> = Vec::new();
    for operation in Operation::ALL {
        let sizes = if operation == Operation::Barrier { 0..1 } else { 0..25 };
        for bytes in sizes.map(|bit| 1_u64 << bit) {
            let bytes = if operation == Operation::Barrier { 0 } else { bytes };
            let place = Place { nodes, per_node: RANKS / nodes, ..Place::apart(RANKS) };
            let (algorithm, source) =
                choices.choose(operation, &Facts { ranks: RANKS, bytes, commutative: true, place });
            let source = match source {
                Source::Forced => "asked for",
                Source::Users => "WEFT_COLLECTIVES_TABLE",
                Source::BuiltIn => "built in",
            };
            let algorithm = algorithm.to_string();
            match all.last_mut() {
                Some(last)
                    if last.operation == operation.name() && last.algorithm == algorithm && last.source == source =>
                {
                    last.to_bytes = bytes;
                }
                _ => all.push(Choice {
                    operation: operation.name(),
                    from_bytes: bytes,
                    to_bytes: bytes,
                    algorithm,
                    source,
                }),
            }
        }
    }
    all
}

impl Choice {
    /// The sizes in words.
    pub(crate) fn sizes(&self) -> String {
        let size = |bytes: u64| match bytes {
            0..1024 => format!("{bytes} B"),
            1024..1_048_576 => format!("{} KiB", bytes >> 10),
            _ => format!("{} MiB", bytes >> 20),
        };
        if self.from_bytes == self.to_bytes {
            size(self.to_bytes)
        } else {
            format!("{} to {}", size(self.from_bytes), size(self.to_bytes))
        }
    }
}
