//! The `WEFT_*` settings: one table of them, and how the library reads its own, once, in `MPI_Init`.
//!
//! A setting is a constant with its default as text. The default is read in the same way as the user's value.
//! `said.rs` finds the user's value in the environment or in a file of defaults. The settings are in
//! `table.rs`, the types of their values in `values.rs`, the names of links in `links.rs`; `unknown.rs` finds
//! misspelt names. `weft info` prints [`TABLE`], and a test compares it with `docs/book/settings.md`.

mod links;
mod said;
mod table;
mod unknown;
mod values;

use std::path::PathBuf;

use weft_core::flow::{AckScheme, Settings as FlowSettings};
use weft_core::long_path_choice::LongPathUse;
use weft_core::time::Duration;
use weft_engine::protocols::CostModel;
use weft_net::{fabric, faults, verbs};
use weft_plan::collective::choice::{Choices, Operation, Table};

use crate::constants::{MPI_ERRORS_ABORT, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN};
use crate::context::COMMUNICATORS_MAX;
use crate::multicast::BcastSetting;

pub use links::{LINKS, Links};
pub use said::{Origin, Said};
pub use table::*;
pub use unknown::{Unknown, unknown};

use links::links;
use values::{number, number_or_auto, switch, users_file};

/// Every setting of the library.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `WEFT_LINK`: names of links, or `auto`.
    pub links: Links,
    /// `WEFT_NODE`: ranks with different values treat each other as remote.
    pub node: Option<String>,
    /// `WEFT_CLUSTERS`: patterns of names of hosts that are near each other.
    pub clusters: Vec<String>,
    /// `WEFT_SHM_DIR`: directory for the node's shared segment.
    pub shm_dir: Option<PathBuf>,
    /// `WEFT_SINGLE_COPY`: copies large messages of a node directly between address spaces.
    pub single_copy: bool,
    /// `WEFT_COSTS`: the costs of moving messages; `None`: those of this machine.
    pub costs: Option<CostModel>,
    /// `WEFT_CHECK`: compares the calls of processes.
    pub check: bool,
    /// `WEFT_INITIAL_ERRHANDLER`: the error handler of the predefined communicators.
    pub initial_error_handler: usize,
    /// `WEFT_COLLECTIVES_TABLE`, `WEFT_BCAST` and so on: the rules by which algorithms of collectives are
    /// chosen.
    pub choices: Choices,
    /// `WEFT_BCAST`: the use of multicast for broadcasts.
    pub multicast: BcastSetting,
    /// `WEFT_INTERFACE`: interfaces or subnets to use.
    pub interface: Option<String>,
    /// `WEFT_FABRIC_PROVIDER`: the provider of libfabric.
    pub fabric_provider: Option<String>,
    /// `WEFT_FABRIC_PLACEMENT`: lets the provider write to memory of peers.
    pub fabric_placement: bool,
    /// `WEFT_LONG_PATH`: the use of TCP for messages of several packets.
    pub long_path: LongPathUse,
    /// `WEFT_VERBS_MODE`: the operations by which an RDMA device reaches peers.
    pub verbs_mode: verbs::Mode,
    /// `WEFT_VERBS_CONNECTIONS`: the connections that an RDMA device keeps.
    pub verbs_connections: u32,
    /// `WEFT_REGISTRATION_CACHE`: the bytes that stay registered with an RDMA device.
    pub registration_cache: u64,
    /// `WEFT_NETD`: the socket on which `weft-netd` listens.
    pub netd: Option<PathBuf>,
    /// `WEFT_EAGER_LIMIT`: the largest message that is sent eagerly, in bytes; `None`: the limit that suits
    /// the route.
    pub eager_limit: Option<u64>,
    /// `WEFT_COMMUNICATORS`: the communicators that this process may have at a time.
    pub communicators: u32,
    /// `WEFT_UNEXPECTED_BYTES`: the memory for small unexpected messages, beside each peer's credit, bytes.
    pub unexpected_bytes: u64,
    /// `WEFT_PROGRESS`: a thread makes progress while the program computes.
    pub progress_thread: bool,
    /// `WEFT_ACK`: `deferred`, `immediate` or `every-packet`.
    pub ack: AckScheme,
    /// `WEFT_ACK_DELAY`: the longest delay of an acknowledgement; `None`: the delay that suits how ranks
    /// share processors.
    pub ack_delay: Option<Duration>,
    /// `WEFT_PEER_TIMEOUT`: seconds without an answer after which a peer counts as failed; 0: never.
    pub peer_timeout: Duration,
    /// `WEFT_REORDER`: topologies may change ranks.
    pub reorder: bool,
    /// `WEFT_SEALED`: packets are encrypted.
    pub sealed: bool,
    /// `WEFT_VERBOSE_ERRORS`: errors that are returned are printed too.
    pub verbose_errors: bool,
    /// The program goes on when a process fails.
    pub goes_on: bool,
    /// `WEFT_CAPTURE`: the file to which packets are written, with [`CAPTURE_RANK`] in its name.
    pub capture: Option<String>,
    /// `WEFT_FAULTS`: faults to inject into the network.
    pub faults: faults::Plan,
}

/// The largest eager limit: it must leave credit for more than one message.
const EAGER_LIMIT_MAX: u64 = weft_engine::messages::CREDIT_BYTES / 4;
/// The most memory for unexpected messages: no process has more.
const UNEXPECTED_BYTES_MAX: u64 = 1 << 40;
/// The longest delay of acknowledgements. With it, a peer that has everything is still far from counting as
/// silent.
const ACK_DELAY_US_MAX: u64 = 100_000;
/// The most connections of an RDMA device: each has two receives.
const VERBS_CONNECTIONS_MAX: u64 = 2048;
const _: () = assert!(verbs::CONNECTIONS_MAX == 1024);
/// The most memory that stays registered: no process has more.
const REGISTRATION_CACHE_MAX: u64 = 1 << 40;
/// The default in the text of [`REGISTRATION_CACHE`].
const _: () = assert!(verbs::REGISTRATION_CACHE == 268_435_456);
/// The values in the text of [`EAGER_LIMIT`].
const _: () = assert!(EAGER_LIMIT_MAX == 262_144);
const _: () = assert!(weft_engine::protocols::EAGER_LIMIT == 65_536 && verbs::EAGER_MAX == 20_480);

/// The most memory that one peer can make this process use, by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerMemory {
    /// Messages that wait to be sent to the peer or to be acknowledged by it, bytes.
    pub queue_bytes: u64,
    /// Packets of the peer that are kept behind a missing one, bytes.
    pub ahead_bytes: u64,
    /// Unexpected messages of the peer: its credit, bytes.
    pub unexpected_bytes: u64,
}

/// The limits for a peer on another node with packets of `packet_size` bytes.
pub fn memory_of_peer(packet_size: usize) -> PeerMemory {
    let flow = FlowSettings::default();
    PeerMemory {
        queue_bytes: flow.queue_bytes as u64,
        ahead_bytes: u64::from(flow.window_packets) * packet_size as u64,
        unexpected_bytes: weft_engine::messages::CREDIT_BYTES,
    }
}

impl Settings {
    /// Reads the settings with `variable`, which is `std::env::var` except in tests.
    ///
    /// # Errors
    /// One sentence: the variable, its value, and the values that it may have.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        Self::read_by(&variable)
    }

    fn read_by(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        Ok(Self {
            links: links(&LINK.value(variable).unwrap_or_default())?,
            node: NODE.value(variable),
            clusters: clusters(variable)?,
            // The default is not passed on. The link's own choice tries other directories without a message.
            shm_dir: shared_directory(variable)?,
            progress_thread: progress(variable)?,
            single_copy: switch(&SINGLE_COPY, variable)?,
            reorder: switch(&REORDER, variable)?,
            check: switch(&CHECK, variable)?,
            initial_error_handler: error_handler(&INITIAL_ERRHANDLER.value(variable).unwrap_or_default())?,
            multicast: multicast(variable),
            communicators: communicators(variable)?,
            choices: choices(variable)?,
            costs: costs(variable)?,
            sealed: switch(&SEALED, variable)?,
            verbose_errors: switch(&VERBOSE_ERRORS, variable)?,
            goes_on: goes_on(variable)?,
            interface: INTERFACE.value(variable),
            fabric_provider: FABRIC_PROVIDER.value(variable),
            fabric_placement: switch(&FABRIC_PLACEMENT, variable)?,
            long_path: long_path(&LONG_PATH.value(variable).unwrap_or_default())?,
            verbs_mode: verbs_mode(&VERBS_MODE.value(variable).unwrap_or_default())?,
            verbs_connections: connections(variable)?,
            registration_cache: number(&REGISTRATION_CACHE, variable, REGISTRATION_CACHE_MAX)?,
            netd: NETD.value(variable).map(PathBuf::from),
            eager_limit: number_or_auto(&EAGER_LIMIT, variable, EAGER_LIMIT_MAX)?,
            unexpected_bytes: number(&UNEXPECTED_BYTES, variable, UNEXPECTED_BYTES_MAX)?,
            ack: scheme(&ACK.value(variable).unwrap_or_default())?,
            ack_delay: number_or_auto(&ACK_DELAY, variable, ACK_DELAY_US_MAX)?.map(Duration::from_micros),
            peer_timeout: Duration::from_secs(number(&PEER_TIMEOUT, variable, u64::from(u32::MAX))?),
            capture: match CAPTURE.value(variable) {
                Some(path) if !path.contains(CAPTURE_RANK) => {
                    return Err(CAPTURE.says(&path, "would have all ranks write to one file"));
                }
                path => path,
            },
            faults: match FAULTS.value(variable) {
                Some(value) => faults::Plan::parse(&value)
                    .map_err(|error| format!("WEFT_FAULTS={value} makes no sense: {error}"))?,
                None => faults::Plan::default(),
            },
        })
    }
}

/// Checks whether `setting` may have `value`, as far as that can be known without the other settings.
///
/// # Errors
/// A sentence with the reason why not.
pub fn check(setting: &Setting, value: &str) -> Result<(), String> {
    Settings::read(|name| (name == setting.name).then(|| value.to_owned())).map(drop)
}

/// The settings of the libfabric link.
pub fn fabric(settings: &Settings) -> fabric::Settings {
    fabric::Settings {
        provider: settings.fabric_provider.clone(),
        interfaces: settings.interface.clone(),
        without_placement: !settings.fabric_placement || settings.sealed,
    }
}

/// The settings of the RDMA link.
pub fn verbs(settings: &Settings) -> verbs::Settings {
    verbs::Settings {
        interfaces: settings.interface.clone(),
        mode: settings.verbs_mode,
        without_placement: settings.sealed,
        connections: settings.verbs_connections,
        registration_cache: settings.registration_cache,
        access_limit: settings.peer_timeout,
    }
}

fn choices(variable: &dyn Fn(&str) -> Option<String>) -> Result<Choices, String> {
    let mut forced = Vec::new();
    for (operation, setting) in &ALGORITHMS {
        // Multicast schemes are no algorithms: see `multicast`.
        let is_scheme = |name: &String| *operation == Operation::Bcast && BcastSetting::parse(name).is_some();
        if let Some(name) = setting.value(variable).filter(|name| !is_scheme(name)) {
            forced.push((*operation, operation.parse(&name).map_err(|_| setting.says(&name, "makes no sense"))?));
        }
    }
    let table = COLLECTIVES_TABLE.value(variable).map(|path| users_table(&path)).transpose()?;
    let one_order = switch(&REPRODUCIBLE, variable)?;
    Ok(Choices::new(forced, table.unwrap_or_default()).with_one_order(one_order))
}

fn users_table(path: &str) -> Result<Table, String> {
    users_file(&COLLECTIVES_TABLE, path, Table::parse)
}

fn costs(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<CostModel>, String> {
    match COSTS.value(variable).as_deref() {
        None | Some("auto") => Ok(None),
        Some("built-in") => Ok(Some(CostModel::BUILT_IN)),
        Some(path) => users_file(&COSTS, path, |text| text.parse()).map(Some),
    }
}

fn clusters(variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<String>, String> {
    let Some(value) = CLUSTERS.value(variable) else { return Ok(Vec::new()) };
    let patterns: Vec<String> = value.split(',').map(|pattern| pattern.trim().to_owned()).collect();
    match patterns.iter().any(String::is_empty) {
        true => Err(CLUSTERS.says(&value, "has a name without any characters")),
        false => Ok(patterns),
    }
}

/// The number of the first pattern that a host's name matches, or of none. `*` in a pattern stands for any
/// number of any characters.
pub(crate) fn cluster_of(patterns: &[String], host: &str) -> u32 {
    let matches = |pattern: &String| {
        let mut parts = pattern.split('*');
        let (first, last) = (parts.next().unwrap_or_default(), parts.next_back());
        let Some(rest) = host.strip_prefix(first) else { return false };
        let Some(last) = last else { return rest.is_empty() };
        let Some(mut rest) = rest.strip_suffix(last) else { return false };
        parts.all(|part| match rest.find(part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    };
    patterns.iter().position(matches).unwrap_or(patterns.len()) as u32
}

fn long_path(value: &str) -> Result<LongPathUse, String> {
    match value {
        "" | "auto" => Ok(LongPathUse::Measured),
        "always" => Ok(LongPathUse::Always),
        "never" => Ok(LongPathUse::Never),
        _ => Err(LONG_PATH.says(value, "is none of them")),
    }
}

fn verbs_mode(value: &str) -> Result<verbs::Mode, String> {
    let value = if value.is_empty() { VERBS_MODE.default } else { value };
    let known = verbs::Mode::ALL.into_iter().find(|(name, _)| *name == value);
    known.map(|(_, mode)| mode).ok_or_else(|| VERBS_MODE.says(value, "is none of them"))
}

/// The names of error handlers (MPI-5.0 §9.3).
fn error_handler(value: &str) -> Result<usize, String> {
    match value {
        "mpi_errors_are_fatal" => Ok(MPI_ERRORS_ARE_FATAL),
        "mpi_errors_abort" => Ok(MPI_ERRORS_ABORT),
        "mpi_errors_return" => Ok(MPI_ERRORS_RETURN),
        _ => Err(INITIAL_ERRHANDLER.says(value, "is none of them")),
    }
}

fn connections(variable: &dyn Fn(&str) -> Option<String>) -> Result<u32, String> {
    match number(&VERBS_CONNECTIONS, variable, VERBS_CONNECTIONS_MAX)? {
        0 => Err(VERBS_CONNECTIONS.says("0", "leaves no connection")),
        count => Ok(count as u32),
    }
}

fn scheme(value: &str) -> Result<AckScheme, String> {
    match value {
        "deferred" => Ok(AckScheme::Deferred),
        "immediate" => Ok(AckScheme::Immediate),
        "every-packet" => Ok(AckScheme::EveryPacket),
        _ => Err(ACK.says(value, "is no way to acknowledge")),
    }
}

fn goes_on(variable: &dyn Fn(&str) -> Option<String>) -> Result<bool, String> {
    match ON_FAILURE.value(variable).as_deref() {
        None | Some("end") => Ok(false),
        Some("continue") => Ok(true),
        Some(value) => Err(ON_FAILURE.says(value, "is neither of them")),
    }
}

fn progress(variable: &dyn Fn(&str) -> Option<String>) -> Result<bool, String> {
    match PROGRESS.value(variable).as_deref() {
        None | Some("thread") => Ok(true),
        Some("none") => Ok(false),
        Some(value) => Err(PROGRESS.says(value, "is no way to make progress")),
    }
}

/// Reads the directory. Ranks start in directories of their own, so a relative path would be a different one
/// for each.
fn shared_directory(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<PathBuf>, String> {
    match variable(SHM_DIR.name).filter(|value| !value.is_empty()) {
        Some(path) if !path.starts_with('/') => Err(SHM_DIR.says(&path, "is not absolute")),
        path => Ok(path.map(PathBuf::from)),
    }
}

/// Reads whether broadcasts use multicast. A user who names another algorithm wants none.
fn multicast(variable: &dyn Fn(&str) -> Option<String>) -> BcastSetting {
    BcastSetting::parse(&BCAST.value(variable).unwrap_or_default()).unwrap_or(BcastSetting::Off)
}

/// Reads the number of communicators that there may be at a time.
fn communicators(variable: &dyn Fn(&str) -> Option<String>) -> Result<u32, String> {
    match number(&COMMUNICATORS, variable, COMMUNICATORS_MAX.into())? {
        0 => Err(COMMUNICATORS.says("0", "is not such a whole number")),
        some => Ok(some as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn without_variables_everything_is_automatic() {
        let settings = read(&[]).unwrap();
        assert_eq!(settings.links, Links::AUTO);
        assert!(settings.faults.is_clean());
        assert_eq!(settings.ack_delay, None);
        assert_eq!(read(&[("WEFT_ACK_DELAY", "70")]).unwrap().ack_delay, Some(Duration::from_micros(70)));
        assert_eq!((settings.eager_limit, settings.ack, settings.single_copy), (None, AckScheme::Immediate, true));
        assert_eq!(read(&[("WEFT_EAGER_LIMIT", "0")]).unwrap().eager_limit, Some(0));
        assert!(!settings.sealed && read(&[("WEFT_SEALED", "1")]).unwrap().sealed);
        assert_eq!((settings.peer_timeout, settings.shm_dir), (Duration::from_secs(30), None));
    }

    #[test]
    fn a_wrong_value_is_answered_with_the_variable_and_what_it_may_say() {
        for (name, value, hint) in [
            ("WEFT_LINK", "shared,ethernot", "ethernot"),
            ("WEFT_ACK", "late", "every-packet"),
            ("WEFT_ACK_DELAY", "100001", "100000"),
            ("WEFT_CAPTURE", "/tmp/all.pcapng", "%rank"),
            ("WEFT_EAGER_LIMIT", "lots", "whole number"),
            ("WEFT_EAGER_LIMIT", "262145", "262144"),
            ("WEFT_SINGLE_COPY", "maybe", "may say 1 or 0"),
            ("WEFT_SHM_DIR", "relative/place", "an absolute path"),
        ] {
            let sentence = read(&[(name, value)]).unwrap_err();
            assert!(sentence.contains(name) && sentence.contains(hint), "{sentence}");
        }
    }

    #[test]
    fn links_are_a_list_of_names() {
        assert_eq!(read(&[("WEFT_LINK", "udp")]).unwrap().links, Links { udp: true, named: true, ..Links::NONE });
        assert_eq!(
            read(&[("WEFT_LINK", "shared, udp")]).unwrap().links,
            Links { shared: true, udp: true, named: true, ..Links::NONE }
        );
        assert_eq!(
            read(&[("WEFT_LINK", "ethernet")]).unwrap().links,
            Links { ethernet: true, named: true, ..Links::NONE }
        );
    }

    #[test]
    fn libfabric_takes_the_place_of_udp() {
        let links = |value| read(&[("WEFT_LINK", value)]).unwrap().links;
        assert_eq!(links("shared,fabric"), Links { shared: true, fabric: true, named: true, ..Links::NONE });
        for (one, other) in [("auto,fabric", "fabric,auto"), ("fabric,udp", "fabric")] {
            assert_eq!(links(one), links(other));
            assert!(links(one).fabric && !links(one).udp);
        }
    }

    #[test]
    fn hosts_are_in_the_cluster_whose_pattern_they_match_first() {
        let patterns = ["east*", "*-w", "n*7*x", "solo"].map(str::to_owned);
        let of = |host: &str| cluster_of(&patterns, host);
        assert_eq!(
            ["east", "east-w", "a-w", "n17yx", "n7x", "solo", "solo1", "nx", "-"].map(of),
            [0, 0, 1, 2, 2, 3, 4, 4, 4]
        );
        let read = |value: &str| clusters(&|_: &str| Some(value.to_owned()));
        assert_eq!(read("a*, b*"), Ok(vec!["a*".to_owned(), "b*".to_owned()]));
        assert!(read("a,,b").is_err_and(|why| why.contains("WEFT_CLUSTERS")));
    }

    #[test]
    fn algorithms_are_asked_for_by_name_and_wrong_ones_are_told_with_what_there_is() {
        use weft_plan::collective::choice::{Facts, Place, Source};
        let facts = Facts { ranks: 8, bytes: 8, commutative: true, place: Place::apart(8) };
        let choices = read(&[("WEFT_BCAST", "double-tree/64K")]).unwrap().choices;
        let (algorithm, source) = choices.choose(Operation::Bcast, &facts);
        assert_eq!((algorithm.to_string().as_str(), source), ("double-tree/65536", Source::Forced));
        for (operation, setting) in &ALGORITHMS {
            assert_eq!(setting.name, format!("WEFT_{}", operation.name().to_uppercase()));
            let said = read(&[(setting.name, "no-such")]).unwrap_err();
            assert_eq!(said, format!("{}=no-such makes no sense: it may say {}", setting.name, setting.allowed));
        }
        let said = read(&[("WEFT_COLLECTIVES_TABLE", "/nowhere/at/all")]).unwrap_err();
        assert!(said.starts_with("WEFT_COLLECTIVES_TABLE=/nowhere/at/all: "), "{said}");
        let said = read(&[("WEFT_COSTS", "/nowhere/at/all")]).unwrap_err();
        assert!(said.starts_with("WEFT_COSTS=/nowhere/at/all: "), "{said}");
    }
}
