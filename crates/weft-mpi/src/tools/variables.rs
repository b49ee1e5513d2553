//! The performance variables (MPI-5.0 §15.3.7): messages of the engine, and every counter and gauge of the
//! flows to peers.

use std::sync::LazyLock;

use weft_core::flow::{Counters, Gauges};
use weft_net::verbs;

use crate::engine::Engine;
use crate::process;

/// The kind of number of a performance variable (MPI-5.0 §15.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The present amount of something. Always measured, never written.
    Level,
    /// The number of times that something has happened while the handle was started.
    Counter,
}

/// A performance variable: 64 bits without sign, bound to no object.
pub struct Variable {
    /// The name: the category, then the quantity.
    pub name: String,
    /// The kind of number.
    pub class: Class,
    /// Index of its category.
    pub category: usize,
    /// The meaning of the number, with its unit.
    pub meaning: String,
    source: Source,
}

/// The source of the number.
enum Source {
    Engine(fn(&Engine) -> u64),
    /// The counter with this index in [`Counters::NAMES`], summed over the flows to all peers.
    Counter(usize),
    /// The gauge with this index in [`Gauges::NAMES`], of all peers together.
    Gauge(usize),
}

impl Variable {
    /// The number now; 0 outside of MPI_Init and MPI_Finalize.
    pub(super) fn measure(&self) -> u64 {
        process::with(|process| match (process.engine(), &self.source) {
            (Ok(engine), Source::Engine(read)) => read(engine),
            (Ok(engine), Source::Counter(index)) => engine.counters().values()[*index],
            (Ok(engine), Source::Gauge(index)) => together(*index, engine.flows().map(|flow| flow.gauges())),
            (Err(_), _) => 0,
        })
    }
}

/// Joins the gauges of all peers: packets add up, and of round trips the longest counts.
fn together(index: usize, gauges: impl Iterator<Item = Gauges>) -> u64 {
    let values = gauges.map(|gauges| gauges.values()[index]);
    if is_time(index) { values.max().unwrap_or(0) } else { values.sum() }
}

fn is_time(gauge: usize) -> bool {
    Gauges::NAMES[gauge].0.ends_with("_ns")
}

/// Categories: name and meaning (MPI-5.0 §15.3.9).
pub const CATEGORIES: [(&str, &str); 4] = [
    ("settings", "the WEFT_* variables of the environment"),
    ("messages", "messages of this process, over all links"),
    ("network", "packets between this process and those of other hosts, all of them together"),
    ("waiting", "how calls of this process wait, and what they leave to its progress thread"),
];
/// Index of the category of the control variables.
pub const SETTINGS: usize = 0;
pub(super) const MESSAGES: usize = 1;
pub(super) const NETWORK: usize = 2;
const WAITING: usize = 3;

/// The performance variables, by index.
pub static VARIABLES: LazyLock<Vec<Variable>> = LazyLock::new(|| {
    let counters = Counters::NAMES.iter().enumerate().map(|(index, (name, meaning))| {
        network(name, Class::Counter, meaning.trim().to_owned(), Source::Counter(index))
    });
    let gauges = Gauges::NAMES.iter().enumerate().map(|(index, (name, meaning))| {
        let all = if is_time(index) { "The longest of all peers" } else { "The sum over all peers" };
        network(name, Class::Level, format!("{meaning} {all}."), Source::Gauge(index))
    });
    let foreign = Variable {
        name: "network_foreign".into(),
        class: Class::Counter,
        category: NETWORK,
        meaning: "Packets that arrived damaged, or from nobody who could send them.".into(),
        source: Source::Engine(|engine| engine.foreign()),
    };
    let others = [
        (
            "remote_writes",
            Class::Counter,
            "Writes to memory of peers by the carrier itself: one work request each.",
            (|engine| engine.messages.remote_writes) as fn(&Engine) -> u64,
        ),
        (
            "messages_asked_anew",
            Class::Counter,
            "Messages that came as packets, since a TCP connection broke or stalled that was to bring them.",
            |engine| engine.messages.asked_anew,
        ),
        (
            "remote_reads",
            Class::Counter,
            "Reads of memory of peers by the carrier itself: one work request each.",
            |engine| engine.messages.remote_reads,
        ),
        (
            "packets_written",
            Class::Counter,
            "Packets that the carrier wrote to memory of their receivers, where they are found by looking at it.",
            |engine| engine.packets_written(),
        ),
        ("registrations", Class::Counter, "Registrations of memory with RDMA devices that were made.", |_| {
            verbs::registered().made
        }),
        (
            "registrations_reused",
            Class::Counter,
            "Operations of RDMA devices that found their memory registered by an earlier one.",
            |_| verbs::registered().reused,
        ),
        (
            "registered_bytes",
            Class::Level,
            "Memory that is registered with RDMA devices now, the program's and the library's, bytes.",
            |_| verbs::registered().bytes,
        ),
        (
            "path_failures",
            Class::Counter,
            "Times that a path to a peer was given up, where there are several.",
            path_failures,
        ),
        ("paths_down", Class::Level, "Paths to peers that have failed, where there are several.", paths_down),
    ];
    let others =
        others.map(|(name, class, meaning, read)| network(name, class, meaning.to_owned(), Source::Engine(read)));
    of_messages().into_iter().chain(of_waiting()).chain([foreign]).chain(others).chain(counters).chain(gauges).collect()
});

fn network(name: &str, class: Class, meaning: String, source: Source) -> Variable {
    Variable { name: format!("network_{name}"), class, category: NETWORK, meaning, source }
}

fn path_failures(engine: &Engine) -> u64 {
    engine.rail_traffic().iter().map(|rail| u64::from(rail.failures)).sum()
}

fn paths_down(engine: &Engine) -> u64 {
    engine.rail_traffic().iter().filter(|rail| rail.has_failed).count() as u64
}

/// A variable that is read from the engine.
fn of_engine(category: usize, name: &str, class: Class, meaning: &str, read: fn(&Engine) -> u64) -> Variable {
    let name = format!("{}_{name}", CATEGORIES[category].0);
    Variable { name, class, category, meaning: meaning.to_owned(), source: Source::Engine(read) }
}

fn of_waiting() -> [Variable; 2] {
    let counter = |name, meaning, read| of_engine(WAITING, name, Class::Counter, meaning, read);
    [
        counter("sleeps", "Sleeps of calls that waited.", |engine| engine.rests().sleeps),
        counter(
            "watches",
            "Times that processes of the host were told to wake the progress thread with each message, because the program computed.",
            |engine| engine.rests().watches,
        ),
    ]
}

fn of_messages() -> [Variable; 6] {
    use Class::{Counter, Level};
    let variable = |name, class, meaning, read| of_engine(MESSAGES, name, class, meaning, read);
    [
        variable("sent", Counter, "Messages sent, those to oneself included.", |engine| {
            engine.peers.iter().map(|(_, peer)| peer.traffic()[0]).sum()
        }),
        variable("bytes_sent", Counter, "Payload of the messages sent, bytes.", |engine| {
            engine.peers.iter().map(|(_, peer)| peer.traffic()[1]).sum()
        }),
        variable("unexpected", Level, "Messages that no receive has asked for.", |engine| {
            engine.messages.matcher.unexpected_count() as u64
        }),
        variable("posted", Level, "Receives that no message has come for.", |engine| {
            engine.messages.matcher.posted_count() as u64
        }),
        variable("malformed", Counter, "Protocol messages that made no sense and were dropped.", |engine| {
            engine.messages.malformed_frames
        }),
        variable(
            "credit_bytes",
            Level,
            "The credit for eager messages to the peer that has granted least, bytes.",
            |engine| engine.peers.iter().map(|(_, peer)| peer.traffic()[2]).min().unwrap_or(0),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_and_gauge_is_a_variable_of_its_class() {
        let class = |name: &str| {
            let name = format!("network_{name}");
            VARIABLES.iter().find(|variable| variable.name == name).map(|variable| variable.class)
        };
        assert!(Counters::NAMES.iter().all(|(name, _)| class(name) == Some(Class::Counter)));
        assert!(Gauges::NAMES.iter().all(|(name, _)| class(name) == Some(Class::Level)));
        assert!(VARIABLES.iter().all(|variable| variable.meaning.ends_with('.')));
    }

    #[test]
    fn gauges_of_several_peers_add_up_unless_they_are_times() {
        let peers = [1, 2].map(|n| Gauges { round_trip_ns: 10 * n, window_packets: n, ..Gauges::default() });
        let of = |name: &str| {
            let index = Gauges::NAMES.iter().position(|(known, _)| *known == name).expect("a gauge");
            together(index, peers.into_iter())
        };
        assert_eq!((of("round_trip_ns"), of("window_packets")), (20, 3));
    }
}
