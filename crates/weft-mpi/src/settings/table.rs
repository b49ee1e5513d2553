//! The table of the settings: the name of each, its values, its effect, and its reader. `weft info`, the tool
//! interface and the book show the table; the library reads the values by it.

use weft_core::collective::choice::Operation;

/// The program that reads a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The library, in every rank.
    Library,
    /// `mpiexec`.
    Mpiexec,
}

/// A variable of the environment.
#[derive(Debug)]
pub struct Setting {
    /// The name, `WEFT_…`.
    pub name: &'static str,
    /// The value that counts when the variable is not set or empty. Empty: nothing is asked for.
    pub default: &'static str,
    /// The values that it may have.
    pub allowed: &'static str,
    /// The effect, in the words of the book.
    pub meaning: &'static str,
    /// The program that reads it.
    pub reader: Reader,
}

impl Setting {
    /// The user's value, else the default; `None` where both are empty.
    pub(super) fn value(&self, variable: &impl Fn(&str) -> Option<String>) -> Option<String> {
        let said = variable(self.name).filter(|value| !value.is_empty());
        said.or_else(|| Some(self.default.to_owned()).filter(|value| !value.is_empty()))
    }

    pub(super) fn says(&self, value: &str, what: &str) -> String {
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
/// Lets libfabric's provider write large messages to the receiver's memory.
pub const FABRIC_PLACEMENT: Setting = Setting {
    name: "WEFT_FABRIC_PLACEMENT",
    default: "1",
    allowed: "1 or 0",
    meaning: "whether libfabric's provider writes large messages to the receiver's memory by itself, where it can (`FI_RMA`) and gains by it; \
              at both ends of a pair, or at neither",
    reader: Reader::Library,
};
/// The operations by which an RDMA device reaches peers.
pub const VERBS_MODE: Setting = Setting {
    name: "WEFT_VERBS_MODE",
    default: "auto",
    allowed: "auto, rdma, sendrecv or one-sided",
    meaning: "by which operations an RDMA device (`verbs` in `WEFT_LINK`) reaches peers: `rdma` writes small messages to rings at their receivers and \
              large ones to where they belong, and reads and writes windows; `sendrecv` sends everything; `one-sided` sends messages, and reads and \
              writes windows; `auto` is `rdma`, with rings for those peers only that are talked to much; the same in all processes of a job",
    reader: Reader::Library,
};
/// The number of connections of an RDMA device.
pub const VERBS_CONNECTIONS: Setting = Setting {
    name: "WEFT_VERBS_CONNECTIONS",
    default: "1024",
    allowed: "a number from 1 to 2048",
    meaning: "how many connections of an RDMA device a process keeps open (`verbs` in `WEFT_LINK`): each is made when it is first used, and one more \
              closes the one that was not used for longest",
    reader: Reader::Library,
};
/// The amount of memory that stays registered with an RDMA device.
pub const REGISTRATION_CACHE: Setting = Setting {
    name: "WEFT_REGISTRATION_CACHE",
    default: "268435456",
    allowed: "bytes from 0 to 1099511627776",
    meaning: "bytes of the program's memory that stay registered with an RDMA device (`verbs` in `WEFT_LINK`) for the next operation with the same buffer, at most \
              half of what may be locked; 0: memory is registered for each operation",
    reader: Reader::Library,
};
/// The socket on which `weft-netd` listens.
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
/// The hosts that are near each other.
pub const CLUSTERS: Setting = Setting {
    name: "WEFT_CLUSTERS",
    default: "",
    allowed: "names of hosts with `*` for any characters, such as east*,west*",
    meaning: "hosts whose names match the same one of these are a cluster, and all others are one more: barrier, broadcast, reduce, allreduce and allgather \
              cross the link between clusters as seldom as possible; the same in all processes of a job",
    reader: Reader::Library,
};
/// The largest message that is sent eagerly.
pub const EAGER_LIMIT: Setting = Setting {
    name: "WEFT_EAGER_LIMIT",
    default: "auto",
    allowed: "auto, or bytes from 0 to 262144",
    meaning: "bytes up to which a message is sent without asking the receiver first; `auto`: 65536, and 20480 where an RDMA device (`verbs`) writes longer ones to \
              where they belong",
    reader: Reader::Library,
};
/// The memory for unexpected messages.
pub const UNEXPECTED_BYTES: Setting = Setting {
    name: "WEFT_UNEXPECTED_BYTES",
    default: "268435456",
    allowed: "bytes from 0 to 1099511627776",
    meaning: "memory that a rank may use for small messages that have come before their receives, beside 1 MiB for each peer; when it is full, their senders wait, and `weft info --live` says so",
    reader: Reader::Library,
};
/// Lets large messages of a node be copied directly, by single copy.
pub const SINGLE_COPY: Setting = Setting {
    name: "WEFT_SINGLE_COPY",
    default: "1",
    allowed: "1 or 0",
    meaning: "large messages within a host are copied once, directly between processes; `0`: through shared memory",
    reader: Reader::Library,
};
/// Compares the calls of processes.
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
/// The costs of moving messages.
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

/// The algorithm or multicast scheme of broadcasts.
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
/// Makes the results of reductions the same wherever ranks are.
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

/// The thread that makes progress while the program computes, or none.
pub const PROGRESS: Setting = Setting {
    name: "WEFT_PROGRESS",
    default: "thread",
    allowed: "thread or none",
    meaning: "what moves messages between hosts, and nonblocking collectives, while the program is outside MPI: `thread` (one per \
              rank, asleep unless there is something to do) or `none`; either answers now and then for a program that computes",
    reader: Reader::Library,
};
/// The scheme by which packets are acknowledged: deferred, at once, or each by itself.
pub const ACK: Setting = Setting {
    name: "WEFT_ACK",
    default: "immediate",
    allowed: "deferred, immediate or every-packet",
    meaning: "when packets are acknowledged: `deferred` (on what goes back, or after 16 packets or `WEFT_ACK_DELAY`), `immediate` \
              (the same, and at once at the end of large data), `every-packet`",
    reader: Reader::Library,
};
/// The longest time for which an acknowledgement may wait.
pub const ACK_DELAY: Setting = Setting {
    name: "WEFT_ACK_DELAY",
    default: "auto",
    allowed: "auto, or microseconds from 0 to 100000",
    meaning: "microseconds that an acknowledgement waits at most for something to travel with; in the middle of large data four times \
              as long; `auto`: 50, and 500 where ranks take turns on processors; the same for all ranks",
    reader: Reader::Library,
};
/// The longest silence of a peer.
pub const PEER_TIMEOUT: Setting = Setting {
    name: "WEFT_PEER_TIMEOUT",
    default: "30",
    allowed: "seconds from 0 to 4294967295",
    meaning: "seconds without any answer after which a peer counts as failed; 0: never",
    reader: Reader::Library,
};
/// Lets topologies change ranks.
pub const REORDER: Setting = Setting {
    name: "WEFT_REORDER",
    default: "1",
    allowed: "1 or 0",
    meaning: "`1`: where a program allows it (`reorder` of `MPI_Cart_create` and the like), ranks of a new communicator are given so that \
              neighbours share a host as far as possible; `0`: they stay as they are; the same for all ranks",
    reader: Reader::Library,
};
/// Encrypts packets.
pub const SEALED: Setting = Setting {
    name: "WEFT_SEALED",
    default: "0",
    allowed: "1 or 0",
    meaning: "`1`: what travels between hosts is encrypted and authenticated whole (AES-128-GCM); the same for all ranks",
    reader: Reader::Library,
};
/// Prints errors also when they are returned.
pub const VERBOSE_ERRORS: Setting = Setting {
    name: "WEFT_VERBOSE_ERRORS",
    default: "0",
    allowed: "1 or 0",
    meaning: "`1`: errors that are returned to the program are also printed, with their sentence",
    reader: Reader::Library,
};
/// The text that stands for the rank in [`CAPTURE`].
pub const CAPTURE_RANK: &str = "%rank";
/// The file to which packets are written.
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

/// The directory where the jobs of a machine note which processors they have.
pub const REGISTRY: Setting = Setting {
    name: "WEFT_REGISTRY",
    default: weft_launch::REGISTRY,
    allowed: "an absolute path",
    meaning: "on each host, the directory where jobs note which processors they have",
    reader: Reader::Mpiexec,
};

/// All settings, in the order in which they are shown.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_has_this_table() {
        let book = include_str!("../../../../docs/book/settings.md");
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
}
