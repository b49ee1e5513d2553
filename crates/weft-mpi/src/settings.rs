//! The `WEFT_*` settings: one table of them, and how the library reads its own, once, in `MPI_Init`.
//!
//! A setting is a constant with its default as text; the default goes the same way as what the user writes. `weft info`
//! prints [`TABLE`], and `docs/book/settings.md` is compared with it by a test.

use std::path::PathBuf;

use weft_core::collective::choice::{Choices, Operation, Table};
use weft_core::flow::{AckScheme, Settings as FlowSettings};
use weft_core::time::Duration;
use weft_engine::protocols::CostModel;
use weft_net::{fabric, faults, verbs};

use crate::context::COMMUNICATORS_MAX;
use crate::multicast::Wanted;

/// Who reads a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The library, in every rank.
    Library,
    /// `mpiexec`.
    Mpiexec,
}

/// One variable of the environment.
#[derive(Debug)]
pub struct Setting {
    /// Its name, `WEFT_…`.
    pub name: &'static str,
    /// What counts when it is not set or empty; empty: nothing is asked for.
    pub default: &'static str,
    /// What it may say.
    pub allowed: &'static str,
    /// What it does, in the words of the book.
    pub meaning: &'static str,
    /// Who reads it.
    pub reader: Reader,
}

impl Setting {
    /// What the user says, else the default; none where both are empty.
    fn value(&self, variable: &impl Fn(&str) -> Option<String>) -> Option<String> {
        let said = variable(self.name).filter(|value| !value.is_empty());
        said.or_else(|| Some(self.default.to_owned()).filter(|value| !value.is_empty()))
    }

    fn says(&self, value: &str, what: &str) -> String {
        format!("{}={value} {what}: it may say {}", self.name, self.allowed)
    }
}

/// Links that may be used.
pub const LINK: Setting = Setting {
    name: "WEFT_LINK",
    default: "auto",
    allowed: "auto, or a list of shared, udp, ethernet, xdp, fabric and verbs",
    meaning: "links that may be used: `shared` (ranks of one host), `udp`, and `ethernet` (raw frames for what is small; needs \
              the privilege CAP_NET_RAW or `weft-netd`); `auto`: each of these where it is possible; `xdp` (raw frames received by \
              AF_XDP) only where it is named, as in `auto,xdp`; `fabric` (libfabric, in the place of UDP) only where it is named, as in \
              `shared,fabric`; `verbs` (an RDMA device by rdma-core: InfiniBand, RoCE or iWARP, in the place of UDP) only where it is named, as in \
              `shared,verbs`",
    reader: Reader::Library,
};
/// Interfaces or subnets that may be used.
pub const INTERFACE: Setting = Setting {
    name: "WEFT_INTERFACE",
    default: "",
    allowed: "names and subnets, such as eth0,10.1.0.0/16 or !eth1",
    meaning: "network interfaces or subnets that may be used, the better ones first, or with `!` may not; without it all that fit, \
              the faster ones first: messages take the first that leads to the peer, large ones all",
    reader: Reader::Library,
};
/// libfabric's provider.
pub const FABRIC_PROVIDER: Setting = Setting {
    name: "WEFT_FABRIC_PROVIDER",
    default: "",
    allowed: "the name of a provider, such as udp or tcp",
    meaning: "libfabric's provider, where `WEFT_LINK` names `fabric`; without it the first that libfabric offers and that leads to a \
              network, one with datagrams before one with reliable messages; `weft info` shows which, and the variables `FI_*` of libfabric count, too",
    reader: Reader::Library,
};
/// Whether libfabric's provider writes large messages to the receiver's memory.
pub const FABRIC_PLACEMENT: Setting = Setting {
    name: "WEFT_FABRIC_PLACEMENT",
    default: "1",
    allowed: "1 or 0",
    meaning: "whether libfabric's provider writes large messages to the receiver's memory by itself, where it can (`FI_RMA`) and gains by it; \
              at both ends of a pair, or at neither",
    reader: Reader::Library,
};
/// By which operations an RDMA device reaches peers.
pub const VERBS_MODE: Setting = Setting {
    name: "WEFT_VERBS_MODE",
    default: "auto",
    allowed: "auto, rdma, sendrecv or one-sided",
    meaning: "by which operations an RDMA device (`verbs` in `WEFT_LINK`) reaches peers: `rdma` writes small messages to rings at their receivers and \
              large ones to where they belong, and reads and writes windows; `sendrecv` sends everything; `one-sided` sends messages, and reads and \
              writes windows; `auto` is `rdma`, with rings for those peers only that are talked to much; the same in all processes of a job",
    reader: Reader::Library,
};
/// How many connections an RDMA device has.
pub const VERBS_CONNECTIONS: Setting = Setting {
    name: "WEFT_VERBS_CONNECTIONS",
    default: "1024",
    allowed: "a number from 1 to 2048",
    meaning: "how many connections of an RDMA device a process keeps open (`verbs` in `WEFT_LINK`): each is made when it is first used, and one more \
              closes the one that was not used for longest",
    reader: Reader::Library,
};
/// How much memory stays registered with an RDMA device.
pub const REGISTRATION_CACHE: Setting = Setting {
    name: "WEFT_REGISTRATION_CACHE",
    default: "268435456",
    allowed: "bytes from 0 to 1099511627776",
    meaning: "bytes of the program's memory that stay registered with an RDMA device (`verbs` in `WEFT_LINK`) for the next operation with the same buffer, at most \
              half of what may be locked; 0: memory is registered for each operation",
    reader: Reader::Library,
};
/// Where `weft-netd` listens.
pub const NETD: Setting = Setting {
    name: "WEFT_NETD",
    default: weft_net::ethernet::netd::SOCKET,
    allowed: "the path of a unix socket",
    meaning: "where `weft-netd` listens, which gives raw frames to ranks without the privilege",
    reader: Reader::Library,
};
/// Lets ranks of one host treat each other as remote.
pub const NODE: Setting = Setting {
    name: "WEFT_NODE",
    default: "",
    allowed: "any text",
    meaning: "ranks with different values treat each other as remote, also on one host",
    reader: Reader::Library,
};
/// Which hosts are near each other.
pub const CLUSTERS: Setting = Setting {
    name: "WEFT_CLUSTERS",
    default: "",
    allowed: "names of hosts with `*` for any characters, such as east*,west*",
    meaning: "hosts whose names match the same one of these are a cluster, and all others are one more: barrier, broadcast, reduce, allreduce and allgather \
              cross the link between clusters as seldom as possible; the same in all processes of a job",
    reader: Reader::Library,
};
/// Largest message that is sent without asking.
pub const EAGER_LIMIT: Setting = Setting {
    name: "WEFT_EAGER_LIMIT",
    default: "auto",
    allowed: "auto, or bytes from 0 to 262144",
    meaning: "bytes up to which a message is sent without asking the receiver first; `auto`: 65536, and 20480 where an RDMA device (`verbs`) writes longer ones to \
              where they belong",
    reader: Reader::Library,
};
/// Memory for messages that nobody has asked for.
pub const UNEXPECTED_BYTES: Setting = Setting {
    name: "WEFT_UNEXPECTED_BYTES",
    default: "268435456",
    allowed: "bytes from 0 to 1099511627776",
    meaning: "memory that a rank may use for small messages that have come before their receives, beside 1 MiB for each peer; when it is full, their senders wait, and `weft info --live` says so",
    reader: Reader::Library,
};
/// Whether large messages of a node are copied directly.
pub const SINGLE_COPY: Setting = Setting {
    name: "WEFT_SINGLE_COPY",
    default: "1",
    allowed: "1 or 0",
    meaning: "large messages within a host are copied once, directly between processes; `0`: through shared memory",
    reader: Reader::Library,
};
/// Whether what processes call is compared.
pub const CHECK: Setting = Setting {
    name: "WEFT_CHECK",
    default: "0",
    allowed: "1 or 0",
    meaning: "`1`: what the processes of a communicator call is compared before each collective call (operation, root, counts, datatypes, \
              reduction, order of communicators), and what messages are sent as with what they are received as; the first difference is an \
              error with one sentence; it costs time",
    reader: Reader::Library,
};
/// Communicators that a process may have.
pub const COMMUNICATORS: Setting = Setting {
    name: "WEFT_COMMUNICATORS",
    default: "268435454",
    allowed: "a number from 1 to 268435454",
    meaning: "communicators that a rank may have at a time, beside MPI_COMM_WORLD and MPI_COMM_SELF; one more is an error in all its processes",
    reader: Reader::Library,
};
/// Directory for the node's shared segment.
pub const SHM_DIR: Setting = Setting {
    name: "WEFT_SHM_DIR",
    default: "/dev/shm",
    allowed: "an absolute path",
    meaning: "where the shared memory of a host lies; another directory is taken, and said, when it is too small",
    reader: Reader::Library,
};
/// What moving messages costs.
pub const COSTS: Setting = Setting {
    name: "WEFT_COSTS",
    default: "",
    allowed: "the path of a file with costs",
    meaning: "what the parts of moving a message cost here, in the place of what is built in: protocols are chosen by it; `weft info --costs` \
              prints it, with how it is written; the same for all ranks of a host",
    reader: Reader::Library,
};
/// A table of the user's for collectives.
pub const COLLECTIVES_TABLE: Setting = Setting {
    name: "WEFT_COLLECTIVES_TABLE",
    default: "",
    allowed: "the path of a file with such a table",
    meaning: "rules by which algorithms of collectives are chosen, before those that are built in; `weft info --collectives` prints these, \
              with how they are written; the same for all ranks",
    reader: Reader::Library,
};

/// How broadcasts travel.
pub const BCAST: Setting = Setting {
    name: "WEFT_BCAST",
    default: "auto",
    allowed: "auto, tree, multicast, basic, window, written, coroot-K, aggregate-M, coroot-K+aggregate-M; binomial, k-nomial:K, k-ary:K, chain, linear or \
              double-tree, each with /S; scatter-dissemination, scatter-ring, shared, single-copy or two-level",
    meaning: "how broadcasts travel: `auto` (by table, and between three hosts or more by network multicast, if the third broadcast on a \
              communicator finds that it works), `tree` (by table, never multicast), `multicast` or a scheme of it (wherever it works, tried in the first broadcast; \
              a scheme says who acknowledges: K members gather for the others, one acknowledgement for M broadcasts, `written` into the root's memory by an RDMA \
              device, and where there is none as `auto`), or an algorithm for all cases; \
              the hint `weft_bcast` says the same of one communicator; the same for all ranks",
    reader: Reader::Library,
};
/// Whether reductions are the same wherever ranks are.
pub const REPRODUCIBLE: Setting = Setting {
    name: "WEFT_REPRODUCIBLE",
    default: "0",
    allowed: "1 or 0",
    meaning: "`1`: reductions combine their operands in an order that depends on the number of ranks and of bytes only, so that sums of \
              floating-point numbers have the same bits however ranks are spread over hosts; without it they have so from run to run with \
              ranks spread alike; the same for all ranks",
    reader: Reader::Library,
};

/// The algorithm of a collective for all cases.
const fn algorithm(name: &'static str, operation: Operation) -> Setting {
    Setting {
        name,
        default: "",
        allowed: operation.algorithms(),
        meaning: "the algorithm of this collective (K is a number, S the bytes of a segment, such as 64K), wherever it is possible; without it \
                  tables choose; the same for all ranks",
        reader: Reader::Library,
    }
}

/// The operations whose algorithm can be asked for.
pub const ALGORITHMS: [(Operation, Setting); 10] = [
    (Operation::Barrier, algorithm("WEFT_BARRIER", Operation::Barrier)),
    (Operation::Bcast, BCAST),
    (Operation::Gather, algorithm("WEFT_GATHER", Operation::Gather)),
    (Operation::Scatter, algorithm("WEFT_SCATTER", Operation::Scatter)),
    (Operation::Allgather, algorithm("WEFT_ALLGATHER", Operation::Allgather)),
    (Operation::Alltoall, algorithm("WEFT_ALLTOALL", Operation::Alltoall)),
    (Operation::Reduce, algorithm("WEFT_REDUCE", Operation::Reduce)),
    (Operation::Allreduce, algorithm("WEFT_ALLREDUCE", Operation::Allreduce)),
    (Operation::ReduceScatter, algorithm("WEFT_REDUCE_SCATTER", Operation::ReduceScatter)),
    (Operation::Scan, algorithm("WEFT_SCAN", Operation::Scan)),
];

/// Who makes progress while the program computes.
pub const PROGRESS: Setting = Setting {
    name: "WEFT_PROGRESS",
    default: "thread",
    allowed: "thread or none",
    meaning: "what moves messages between hosts, and nonblocking collectives, while the program is outside MPI: `thread` (one per \
              rank, asleep unless there is something to do) or `none`; either answers now and then for a program that computes",
    reader: Reader::Library,
};
/// When packets are acknowledged.
pub const ACK: Setting = Setting {
    name: "WEFT_ACK",
    default: "immediate",
    allowed: "deferred, immediate or every-packet",
    meaning: "when packets are acknowledged: `deferred` (on what goes back, or after 16 packets or `WEFT_ACK_DELAY`), `immediate` \
              (the same, and at once at the end of large data), `every-packet`",
    reader: Reader::Library,
};
/// How long an acknowledgement may wait.
pub const ACK_DELAY: Setting = Setting {
    name: "WEFT_ACK_DELAY",
    default: "auto",
    allowed: "auto, or microseconds from 0 to 100000",
    meaning: "microseconds that an acknowledgement waits at most for something to travel with; in the middle of large data four times \
              as long; `auto`: 50, and 500 where ranks take turns on processors; the same for all ranks",
    reader: Reader::Library,
};
/// How long a peer may be silent.
pub const PEER_TIMEOUT: Setting = Setting {
    name: "WEFT_PEER_TIMEOUT",
    default: "30",
    allowed: "seconds from 0 to 4294967295",
    meaning: "seconds without any answer after which a peer counts as failed; 0: never",
    reader: Reader::Library,
};
/// Whether topologies may change ranks.
pub const REORDER: Setting = Setting {
    name: "WEFT_REORDER",
    default: "1",
    allowed: "1 or 0",
    meaning: "`1`: where a program allows it (`reorder` of `MPI_Cart_create` and the like), ranks of a new communicator are given so that \
              neighbours share a host as far as possible; `0`: they stay as they are; the same for all ranks",
    reader: Reader::Library,
};
/// Whether packets are encrypted.
pub const SEALED: Setting = Setting {
    name: "WEFT_SEALED",
    default: "0",
    allowed: "1 or 0",
    meaning: "`1`: what travels between hosts is encrypted and authenticated whole (AES-128-GCM); the same for all ranks",
    reader: Reader::Library,
};
/// Whether errors that are returned are printed too.
pub const VERBOSE_ERRORS: Setting = Setting {
    name: "WEFT_VERBOSE_ERRORS",
    default: "0",
    allowed: "1 or 0",
    meaning: "`1`: errors that are returned to the program are also printed, with their sentence",
    reader: Reader::Library,
};
/// What stands for the rank in [`CAPTURE`].
pub const CAPTURE_RANK: &str = "%rank";
/// Where packets are written to.
pub const CAPTURE: Setting = Setting {
    name: "WEFT_CAPTURE",
    default: "",
    allowed: "a path with %rank in it, such as /tmp/packets-%rank.pcapng",
    meaning: "a file for each rank, to which it writes the packets between it and other hosts, for \
              [Wireshark](capture.md)",
    reader: Reader::Library,
};
/// Faults to inject.
pub const FAULTS: Setting = Setting {
    name: "WEFT_FAULTS",
    default: "",
    allowed: "such as drop=5%,duplicate=1%,reorder=1%,corrupt=1%,seed=7",
    meaning: "faults for tests: packets that the network loses, repeats, reorders and damages, from a seed; the program sees none of it: \
              each packet is covered whole by its tag, sealed or not, and what is damaged is dropped and sent again; \
              connections of an RDMA device are spared, what it multicasts is not",
    reader: Reader::Library,
};
/// The command that reaches a host.
pub const AGENT: Setting = Setting {
    name: "WEFT_AGENT",
    default: weft_launch::reach::TEMPLATE,
    allowed: "a command with {host} in it",
    meaning: "the command that runs another command on a host (as `--agent`)",
    reader: Reader::Mpiexec,
};

/// Where the jobs of a machine note which processors they have.
pub const REGISTRY: Setting = Setting {
    name: "WEFT_REGISTRY",
    default: weft_launch::REGISTRY,
    allowed: "an absolute path",
    meaning: "on each host, the directory where jobs note which processors they have",
    reader: Reader::Mpiexec,
};

/// All of them, in the order in which they are shown.
pub const TABLE: [&Setting; 40] = [
    &LINK,
    &INTERFACE,
    &FABRIC_PROVIDER,
    &FABRIC_PLACEMENT,
    &VERBS_MODE,
    &VERBS_CONNECTIONS,
    &REGISTRATION_CACHE,
    &NETD,
    &NODE,
    &CLUSTERS,
    &EAGER_LIMIT,
    &UNEXPECTED_BYTES,
    &SINGLE_COPY,
    &COSTS,
    &SHM_DIR,
    &PROGRESS,
    &ACK,
    &ACK_DELAY,
    &PEER_TIMEOUT,
    &REORDER,
    &SEALED,
    &VERBOSE_ERRORS,
    &CHECK,
    &COMMUNICATORS,
    &COLLECTIVES_TABLE,
    &REPRODUCIBLE,
    &ALGORITHMS[0].1,
    &ALGORITHMS[1].1,
    &ALGORITHMS[2].1,
    &ALGORITHMS[3].1,
    &ALGORITHMS[4].1,
    &ALGORITHMS[5].1,
    &ALGORITHMS[6].1,
    &ALGORITHMS[7].1,
    &ALGORITHMS[8].1,
    &ALGORITHMS[9].1,
    &CAPTURE,
    &FAULTS,
    &AGENT,
    &REGISTRY,
];

/// Names in this family that are no settings: what `weft hosts run` tells its command and `mpiexec` its ranks, the compilers
/// behind the wrappers, and what the project's own tools use.
const OTHER_NAMES: [&str; 9] = [
    "WEFT_HOSTS",
    "WEFT_LOAD",
    "WEFT_CC",
    "WEFT_CXX",
    "WEFT_BUILD",
    "WEFT_SUITE_RUN",
    "WEFT_MEASUREMENT_JOB",
    "WEFT_TEST_HYDRA",
    "WEFT_SCALE",
];
/// What every name of the family begins with.
const PREFIX: &str = "WEFT_";
/// Letters in which a name may differ from the one that was meant.
const MISSPELT_LETTERS_MAX: usize = 4;

/// A variable of the family that nobody reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The variable.
    pub name: String,
    /// The setting whose name is nearest, when one is near enough to have been meant.
    pub meant: Option<&'static str>,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is set, but is no setting of Weft", self.name)?;
        self.meant.map_or(Ok(()), |meant| write!(f, "; {meant} is"))
    }
}

/// Whether `setting` may say `value`, as far as it can be known of the one without the others.
///
/// # Errors
/// A sentence that says why not.
pub fn check(setting: &Setting, value: &str) -> Result<(), String> {
    Settings::read(|name| (name == setting.name).then(|| value.to_owned())).map(drop)
}

/// Those of `names` that look like settings and are none.
pub fn unknown(names: impl Iterator<Item = String>) -> Vec<Unknown> {
    let is_known = |name: &String| TABLE.iter().any(|one| one.name == name) || OTHER_NAMES.contains(&name.as_str());
    let mut unknown: Vec<Unknown> = names
        .filter(|name| name.starts_with(PREFIX) && !is_known(name))
        .map(|name| Unknown { meant: nearest(&name), name })
        .collect();
    unknown.sort_by(|a, b| a.name.cmp(&b.name));
    unknown
}

fn nearest(name: &str) -> Option<&'static str> {
    let best = TABLE.iter().map(|setting| (distance(name, setting.name), setting.name)).min()?;
    (best.0 <= MISSPELT_LETTERS_MAX).then_some(best.1)
}

/// Letters to insert, remove or change to make one name of the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// Links that a run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links {
    /// Shared memory, between ranks of one node.
    pub shared: bool,
    /// UDP.
    pub udp: bool,
    /// Raw frames.
    pub ethernet: bool,
    /// Raw frames, received by AF_XDP where that is possible.
    pub xdp: bool,
    /// libfabric, in the place of UDP.
    pub fabric: bool,
    /// An RDMA device by rdma-core, in the place of UDP.
    pub verbs: bool,
    /// Whether the user has named them, instead of leaving it to what is possible.
    pub named: bool,
}

impl Links {
    const NONE: Self =
        Self { shared: false, udp: false, ethernet: false, xdp: false, fabric: false, verbs: false, named: false };
    const AUTO: Self = Self { shared: true, udp: true, ethernet: true, ..Self::NONE };
}

/// Most bytes of a file that a setting names: a table for collectives, or costs.
const FILE_BYTES_MAX: u64 = 1 << 20;

fn choices(variable: &impl Fn(&str) -> Option<String>) -> Result<Choices, String> {
    let mut forced = Vec::new();
    for (operation, setting) in &ALGORITHMS {
        // Ways that are no algorithm: see `multicast`.
        let is_way = |name: &String| *operation == Operation::Bcast && Wanted::parse(name).is_some();
        if let Some(name) = setting.value(variable).filter(|name| !is_way(name)) {
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

fn costs(variable: &impl Fn(&str) -> Option<String>) -> Result<CostModel, String> {
    let file = COSTS.value(variable).map(|path| users_file(&COSTS, &path, |text| text.parse()));
    Ok(file.transpose()?.unwrap_or_default())
}

/// What `parse` makes of the file at `path`, which is the value of `setting`.
fn users_file<T>(setting: &Setting, path: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
    let says = |what: String| format!("{}={path}: {what}", setting.name);
    let file = std::fs::File::open(path).map_err(|error| says(error.to_string()))?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(file, FILE_BYTES_MAX), &mut text)
        .map_err(|error| says(error.to_string()))?;
    parse(&text).map_err(says)
}

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
    /// `WEFT_SINGLE_COPY`: whether large messages of a node are copied directly between address spaces.
    pub single_copy: bool,
    /// `WEFT_COSTS`: what moving messages costs.
    pub costs: CostModel,
    /// `WEFT_CHECK`: whether what processes call is compared.
    pub check: bool,
    /// `WEFT_COLLECTIVES_TABLE`, `WEFT_BCAST` and so on: how algorithms of collectives are chosen.
    pub choices: Choices,
    /// `WEFT_BCAST`: whether broadcasts use multicast.
    pub multicast: Wanted,
    /// `WEFT_INTERFACE`: interfaces or subnets to use.
    pub interface: Option<String>,
    /// `WEFT_FABRIC_PROVIDER`: the provider of libfabric.
    pub fabric_provider: Option<String>,
    /// `WEFT_FABRIC_PLACEMENT`: whether the provider writes to memory of peers.
    pub fabric_placement: bool,
    /// `WEFT_VERBS_MODE`: by which operations an RDMA device reaches peers.
    pub verbs_mode: verbs::Mode,
    /// `WEFT_VERBS_CONNECTIONS`: how many connections it keeps.
    pub verbs_connections: u32,
    /// `WEFT_REGISTRATION_CACHE`: bytes that stay registered with it.
    pub registration_cache: u64,
    /// `WEFT_NETD`: where `weft-netd` listens.
    pub netd: Option<PathBuf>,
    /// `WEFT_EAGER_LIMIT`: largest message that is sent without asking, in bytes; `None`: what suits the route.
    pub eager_limit: Option<u64>,
    /// `WEFT_COMMUNICATORS`: how many this process may have at a time.
    pub communicators: u32,
    /// `WEFT_UNEXPECTED_BYTES`: memory for small messages that have come before their receives, beside each peer's credit, bytes.
    pub unexpected_bytes: u64,
    /// `WEFT_PROGRESS`: whether a thread makes progress while the program computes.
    pub progress_thread: bool,
    /// `WEFT_ACK`: `deferred`, `immediate` or `every-packet`.
    pub ack: AckScheme,
    /// `WEFT_ACK_DELAY`: how long an acknowledgement waits at most; `None`: what suits how ranks share processors.
    pub ack_delay: Option<Duration>,
    /// `WEFT_PEER_TIMEOUT`: seconds without an answer after which a peer counts as failed; 0: never.
    pub peer_timeout: Duration,
    /// `WEFT_REORDER`: whether topologies may change ranks.
    pub reorder: bool,
    /// `WEFT_SEALED`: whether packets are encrypted.
    pub sealed: bool,
    /// `WEFT_VERBOSE_ERRORS`: whether errors that are returned are printed too.
    pub verbose_errors: bool,
    /// `WEFT_CAPTURE`: where packets are written to, with [`CAPTURE_RANK`] in it.
    pub capture: Option<String>,
    /// `WEFT_FAULTS`: faults to inject into the network.
    pub faults: faults::Plan,
}

/// The eager limit must leave credit for more than one message.
const EAGER_LIMIT_MAX: u64 = weft_engine::messages::CREDIT_BYTES / 4;
/// No process has more memory for messages that nobody has asked for.
const UNEXPECTED_BYTES_MAX: u64 = 1 << 40;
/// The longest delay of acknowledgements: with it a peer that has all is still far from counting as silent.
const ACK_DELAY_US_MAX: u64 = 100_000;
/// The most connections of an RDMA device: two receives are for each.
const VERBS_CONNECTIONS_MAX: u64 = 2048;
const _: () = assert!(verbs::CONNECTIONS_MAX == 1024);
/// No process has more memory to register.
const REGISTRATION_CACHE_MAX: u64 = 1 << 40;
/// What [`REGISTRATION_CACHE`] says of itself.
const _: () = assert!(verbs::REGISTRATION_CACHE == 268_435_456);
/// What [`EAGER_LIMIT`] says of itself.
const _: () = assert!(EAGER_LIMIT_MAX == 262_144);
const _: () = assert!(weft_engine::protocols::EAGER_LIMIT == 65_536 && verbs::EAGER_MAX == 20_480);

/// Every link of this version: its name in `WEFT_LINK` and what it is.
pub const LINKS: [(&str, &str); 6] = [
    ("shared", "rings in shared memory, between ranks of one host"),
    ("udp", "UDP over IPv4 or IPv6, between hosts"),
    ("ethernet", "frames on the interface itself (AF_PACKET), between hosts of one segment"),
    ("xdp", "the same frames, received before the host's network sees them (AF_XDP)"),
    ("fabric", "endpoints of libfabric, over whatever its provider leads to, between hosts"),
    ("verbs", "an RDMA device (InfiniBand, RoCE or iWARP) by rdma-core, between hosts"),
];

/// The most memory that one peer can make this process use, by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerMemory {
    /// Messages that wait to be sent to it or to be acknowledged by it, bytes.
    pub queue_bytes: u64,
    /// Packets of it that are kept behind one that is missing, bytes.
    pub ahead_bytes: u64,
    /// Messages of it that no receive has asked for: its credit, bytes.
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
    /// Reads them with `variable`, which is `std::env::var` but in tests.
    ///
    /// # Errors
    /// One sentence: which variable, what it says, what it may say.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        Ok(Self {
            links: links(&LINK.value(&variable).unwrap_or_default())?,
            node: NODE.value(&variable),
            clusters: clusters(&variable)?,
            // The default is not passed on: the link's own choice goes on to other directories without a word.
            shm_dir: shared_directory(&variable)?,
            progress_thread: progress(&variable)?,
            single_copy: switch(&SINGLE_COPY, &variable)?,
            reorder: switch(&REORDER, &variable)?,
            check: switch(&CHECK, &variable)?,
            multicast: multicast(&variable),
            communicators: communicators(&variable)?,
            choices: choices(&variable)?,
            costs: costs(&variable)?,
            sealed: switch(&SEALED, &variable)?,
            verbose_errors: switch(&VERBOSE_ERRORS, &variable)?,
            interface: INTERFACE.value(&variable),
            fabric_provider: FABRIC_PROVIDER.value(&variable),
            fabric_placement: switch(&FABRIC_PLACEMENT, &variable)?,
            verbs_mode: verbs_mode(&VERBS_MODE.value(&variable).unwrap_or_default())?,
            verbs_connections: connections(&variable)?,
            registration_cache: number(&REGISTRATION_CACHE, &variable, REGISTRATION_CACHE_MAX)?,
            netd: NETD.value(&variable).map(PathBuf::from),
            eager_limit: number_or_auto(&EAGER_LIMIT, &variable, EAGER_LIMIT_MAX)?,
            unexpected_bytes: number(&UNEXPECTED_BYTES, &variable, UNEXPECTED_BYTES_MAX)?,
            ack: scheme(&ACK.value(&variable).unwrap_or_default())?,
            ack_delay: number_or_auto(&ACK_DELAY, &variable, ACK_DELAY_US_MAX)?.map(Duration::from_micros),
            peer_timeout: Duration::from_secs(number(&PEER_TIMEOUT, &variable, u64::from(u32::MAX))?),
            capture: match CAPTURE.value(&variable) {
                Some(path) if !path.contains(CAPTURE_RANK) => {
                    return Err(CAPTURE.says(&path, "would have all ranks write to one file"));
                }
                path => path,
            },
            faults: match FAULTS.value(&variable) {
                Some(value) => faults::Plan::parse(&value)
                    .map_err(|error| format!("WEFT_FAULTS={value} makes no sense: {error}"))?,
                None => faults::Plan::default(),
            },
        })
    }
}

/// What libfabric is asked for.
pub fn fabric(settings: &Settings) -> fabric::Settings {
    fabric::Settings {
        provider: settings.fabric_provider.clone(),
        interfaces: settings.interface.clone(),
        without_placement: !settings.fabric_placement || settings.sealed,
    }
}

/// How an RDMA device is used.
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

fn clusters(variable: &impl Fn(&str) -> Option<String>) -> Result<Vec<String>, String> {
    let Some(value) = CLUSTERS.value(variable) else { return Ok(Vec::new()) };
    let patterns: Vec<String> = value.split(',').map(|pattern| pattern.trim().to_owned()).collect();
    match patterns.iter().any(String::is_empty) {
        true => Err(CLUSTERS.says(&value, "has a name without any characters")),
        false => Ok(patterns),
    }
}

/// The number of the first pattern that a host's name matches, or of none; `*` in it is any number of any characters.
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

fn verbs_mode(value: &str) -> Result<verbs::Mode, String> {
    let value = if value.is_empty() { VERBS_MODE.default } else { value };
    let known = verbs::Mode::ALL.into_iter().find(|(name, _)| *name == value);
    known.map(|(_, mode)| mode).ok_or_else(|| VERBS_MODE.says(value, "is none of them"))
}

fn connections(variable: &impl Fn(&str) -> Option<String>) -> Result<u32, String> {
    match number(&VERBS_CONNECTIONS, variable, VERBS_CONNECTIONS_MAX)? {
        0 => Err(VERBS_CONNECTIONS.says("0", "leaves no connection")),
        count => Ok(count as u32),
    }
}

fn links(value: &str) -> Result<Links, String> {
    let mut links = Links { named: true, ..Links::NONE };
    for name in value.split(',').map(str::trim) {
        match name {
            "auto" => links = Links { xdp: links.xdp, fabric: links.fabric, verbs: links.verbs, ..Links::AUTO },
            "shared" => links.shared = true,
            "udp" => links.udp = true,
            "ethernet" => links.ethernet = true,
            // Where AF_XDP is not to be had, the frames are still the same.
            "xdp" => links = Links { ethernet: true, xdp: true, ..links },
            "fabric" => links.fabric = true,
            "verbs" => links.verbs = true,
            _ => return Err(LINK.says(value, &format!("names the link '{name}', which Weft does not have"))),
        }
    }
    if links.fabric && links.verbs {
        return Err(LINK.says(value, "names fabric and verbs, which are both in the place of UDP: one of them"));
    }
    links.udp &= !(links.fabric || links.verbs);
    Ok(links)
}

fn scheme(value: &str) -> Result<AckScheme, String> {
    match value {
        "deferred" => Ok(AckScheme::Deferred),
        "immediate" => Ok(AckScheme::Immediate),
        "every-packet" => Ok(AckScheme::EveryPacket),
        _ => Err(ACK.says(value, "is no way to acknowledge")),
    }
}

fn progress(variable: &impl Fn(&str) -> Option<String>) -> Result<bool, String> {
    match PROGRESS.value(variable).as_deref() {
        None | Some("thread") => Ok(true),
        Some("none") => Ok(false),
        Some(value) => Err(PROGRESS.says(value, "is no way to make progress")),
    }
}

/// Ranks start in directories of their own, so a relative path would be another one for each.
fn shared_directory(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<PathBuf>, String> {
    match variable(SHM_DIR.name).filter(|value| !value.is_empty()) {
        Some(path) if !path.starts_with('/') => Err(SHM_DIR.says(&path, "is not absolute")),
        path => Ok(path.map(PathBuf::from)),
    }
}

fn switch(setting: &Setting, variable: &impl Fn(&str) -> Option<String>) -> Result<bool, String> {
    let value = setting.value(variable).unwrap_or_default();
    match value.as_str() {
        "1" | "on" | "yes" | "true" => Ok(true),
        "0" | "off" | "no" | "false" => Ok(false),
        _ => Err(setting.says(&value, "is neither on nor off")),
    }
}

/// Whether broadcasts use multicast. Who names another algorithm wants none.
fn multicast(variable: &impl Fn(&str) -> Option<String>) -> Wanted {
    Wanted::parse(&BCAST.value(variable).unwrap_or_default()).unwrap_or(Wanted::Off)
}

/// How many communicators there may be at a time.
fn communicators(variable: &impl Fn(&str) -> Option<String>) -> Result<u32, String> {
    match number(&COMMUNICATORS, variable, COMMUNICATORS_MAX.into())? {
        0 => Err(COMMUNICATORS.says("0", "is not such a whole number")),
        some => Ok(some as u32),
    }
}

fn number(setting: &Setting, variable: &impl Fn(&str) -> Option<String>, max: u64) -> Result<u64, String> {
    let value = setting.value(variable).unwrap_or_default();
    match value.parse::<u64>() {
        Ok(number) if number <= max => Ok(number),
        _ => Err(setting.says(&value, "is not such a whole number")),
    }
}

/// The same of a setting that may say `auto`: `None` then.
fn number_or_auto(
    setting: &Setting,
    variable: &impl Fn(&str) -> Option<String>,
    max: u64,
) -> Result<Option<u64>, String> {
    match setting.value(variable).as_deref() {
        None | Some("auto") => Ok(None),
        Some(_) => number(setting, variable, max).map(Some),
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
            Links { ethernet: false, named: true, ..Links::AUTO }
        );
        assert_eq!(
            read(&[("WEFT_LINK", "ethernet")]).unwrap().links,
            Links { ethernet: true, named: true, ..Links::NONE }
        );
    }

    #[test]
    fn an_rdma_device_takes_the_place_of_udp_and_libfabric_is_not_beside_it() {
        let links = |value: &str| links(value).unwrap();
        assert_eq!(links("shared,verbs"), Links { shared: true, verbs: true, named: true, ..Links::NONE });
        assert!(!links("auto,verbs").udp && links("auto,verbs").ethernet);
        assert!(super::links("shared,verbs,fabric").is_err());
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
    fn the_book_has_this_table() {
        let book = include_str!("../../../docs/book/settings.md");
        for reader in [Reader::Library, Reader::Mpiexec] {
            let mut table =
                String::from("| variable | default | what it may say | what it does |\n|---|---|---|---|\n");
            for setting in TABLE.iter().filter(|setting| setting.reader == reader) {
                let Setting { name, default, allowed, meaning, .. } = setting;
                let default = if default.is_empty() { String::new() } else { format!("`{default}` ") };
                table += &format!("| `{name}` | {default}| {allowed} | {meaning} |\n");
            }
            assert!(book.contains(&table), "docs/book/settings.md should have this table:\n{table}");
        }
    }

    #[test]
    fn algorithms_are_asked_for_by_name_and_wrong_ones_are_told_with_what_there_is() {
        use weft_core::collective::choice::{Facts, Place, Source};
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

    #[test]
    fn every_link_has_a_name_that_is_understood() {
        for (name, _) in LINKS {
            assert!(links(name).is_ok(), "{name}");
            assert!(LINK.allowed.contains(name) && LINK.meaning.contains(name), "{name}");
        }
    }

    #[test]
    fn misspelt_settings_are_named_with_the_one_that_was_meant() {
        let names = ["PATH", "WEFT_LINK", "WEFT_LINKS", "WEFT_EAGERLIMIT", "WEFT_COLOUR_OF_THE_SKY", "WEFT_HOSTS"];
        let found = unknown(names.iter().map(|name| (*name).to_owned()));
        let pairs: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.meant)).collect();
        assert_eq!(
            pairs,
            [
                ("WEFT_COLOUR_OF_THE_SKY", None),
                ("WEFT_EAGERLIMIT", Some("WEFT_EAGER_LIMIT")),
                ("WEFT_LINKS", Some("WEFT_LINK")),
            ]
        );
        assert_eq!(found[2].to_string(), "WEFT_LINKS is set, but is no setting of Weft; WEFT_LINK is");
    }

    #[test]
    fn distances_count_single_letters() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("abc", "axc"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
