//! The table of the settings: the name of each, its values, its effect, and its reader. `weft info`, the tool
//! interface and the book show the table; the library reads the values by it.

use weft_plan::collective::choice::Operation;

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
    pub(super) fn value(&self, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
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
    allowed: "auto, or a list of shared, udp, ethernet, xdp, fabric, verbs and tcp",
    meaning: "the links that may be used. `auto`: `shared` (ranks of one host), `udp`, `tcp` (kernel TCP, \
              beside UDP for large messages where it is quicker), and `ethernet` (raw frames for small \
              messages; needs the privilege CAP_NET_RAW or `weft-netd`), each where it is possible. Where \
              no UDP passes, `shared,tcp` puts TCP in its place. The others are used only where they are \
              named: `xdp` (raw frames received by AF_XDP), as in `auto,xdp`; `fabric` (libfabric, in the \
              place of UDP), as in `shared,fabric`; `verbs` (an RDMA device by rdma-core: InfiniBand, RoCE \
              or iWARP, in the place of UDP), as in `shared,verbs`",
    reader: Reader::Library,
};
/// Interfaces or subnets that may be used.
pub const INTERFACE: Setting = Setting {
    name: "WEFT_INTERFACE",
    default: "",
    allowed: "names and subnets, such as eth0,10.1.0.0/16 or !eth1",
    meaning: "the network interfaces or subnets that may be used, the best first, or with `!` those that \
              may not. Without it Weft takes all that fit, the fastest first. Small messages take the \
              first interface that leads to the peer, large messages take all",
    reader: Reader::Library,
};
/// libfabric's provider.
pub const FABRIC_PROVIDER: Setting = Setting {
    name: "WEFT_FABRIC_PROVIDER",
    default: "",
    allowed: "the name of a provider, such as udp or tcp",
    meaning: "libfabric's provider, where `WEFT_LINK` names `fabric`. Without it Weft takes the first \
              provider of libfabric's list that leads to a network, and prefers datagrams to reliable \
              messages. `weft info` shows the choice. libfabric's own variables `FI_*` apply, too",
    reader: Reader::Library,
};
/// Lets libfabric's provider write large messages to the receiver's memory.
pub const FABRIC_PLACEMENT: Setting = Setting {
    name: "WEFT_FABRIC_PLACEMENT",
    default: "1",
    allowed: "1 or 0",
    meaning: "`1`: libfabric's provider writes large messages into the receiver's memory (`FI_RMA`), where \
              it can and gains by it. Both ends of a pair do so, or neither",
    reader: Reader::Library,
};
/// The use of TCP for messages of several packets.
pub const LONG_PATH: Setting = Setting {
    name: "WEFT_LONG_PATH",
    default: "auto",
    allowed: "auto, always or never",
    meaning: "where `WEFT_LINK` has TCP beside UDP: whether messages between hosts that would fill more than \
              four packets take TCP. `auto`: one of 32 KiB and more does that nothing else accompanies; for \
              others each process measures both ways, and takes the quicker one for messages of that size",
    reader: Reader::Library,
};
/// The operations by which an RDMA device reaches peers.
pub const VERBS_MODE: Setting = Setting {
    name: "WEFT_VERBS_MODE",
    default: "auto",
    allowed: "auto, rdma, sendrecv or one-sided",
    meaning: "the operations by which an RDMA device (`verbs` in `WEFT_LINK`) reaches peers. `rdma` writes \
              small messages to rings at their receivers and large messages to their buffers, and reads \
              and writes windows; `sendrecv` sends everything; `one-sided` sends messages, and reads and \
              writes windows; `auto` is `rdma` with rings only for peers that exchange many messages. The \
              same in all processes of a job",
    reader: Reader::Library,
};
/// The number of connections of an RDMA device.
pub const VERBS_CONNECTIONS: Setting = Setting {
    name: "WEFT_VERBS_CONNECTIONS",
    default: "1024",
    allowed: "a number from 1 to 2048",
    meaning: "the number of connections of an RDMA device that a process keeps open (`verbs` in \
              `WEFT_LINK`). A connection is made when it is first used; one more closes the connection \
              that was unused for longest",
    reader: Reader::Library,
};
/// The amount of memory that stays registered with an RDMA device.
pub const REGISTRATION_CACHE: Setting = Setting {
    name: "WEFT_REGISTRATION_CACHE",
    default: "268435456",
    allowed: "bytes from 0 to 1099511627776",
    meaning: "bytes of the program's memory that stay registered with an RDMA device (`verbs` in \
              `WEFT_LINK`), for the next operation with the same buffer. At most half of the memory that \
              may be locked is kept. 0: memory is registered for each operation",
    reader: Reader::Library,
};
/// The socket on which `weft-netd` listens.
pub const NETD: Setting = Setting {
    name: "WEFT_NETD",
    default: weft_net::ethernet::netd::SOCKET,
    allowed: "the path of a unix socket",
    meaning: "the socket of `weft-netd`, which gives raw frames to ranks without the privilege",
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
    meaning: "clusters of hosts, each a pattern for host names; hosts that match no pattern are one more \
              cluster. Barrier, broadcast, reduce, allreduce and allgather cross the link between clusters \
              as seldom as possible. The same in all processes of a job",
    reader: Reader::Library,
};
/// The largest message that is sent eagerly.
pub const EAGER_LIMIT: Setting = Setting {
    name: "WEFT_EAGER_LIMIT",
    default: "auto",
    allowed: "auto, or bytes from 0 to 262144",
    meaning: "bytes up to which a message is sent without asking the receiver first. `auto`: 65536; \
              49152 where kernel TCP, and 20480 where an RDMA device (`verbs`) writes longer messages into the \
              receiver's buffer. With `auto`, TCP beside UDP writes a blocking send of up to 131072 bytes at \
              once, if nothing else is on its way",
    reader: Reader::Library,
};
/// The memory for unexpected messages.
pub const UNEXPECTED_BYTES: Setting = Setting {
    name: "WEFT_UNEXPECTED_BYTES",
    default: "268435456",
    allowed: "bytes from 0 to 1099511627776",
    meaning: "memory of a rank for small messages that come before their receives, beside 1 MiB for each \
              peer. When it is full, the senders wait, and `weft info --live` shows it",
    reader: Reader::Library,
};
/// Lets large messages of a node be copied directly, by single copy.
pub const SINGLE_COPY: Setting = Setting {
    name: "WEFT_SINGLE_COPY",
    default: "1",
    allowed: "1 or 0",
    meaning: "`1`: large messages within a host are copied once, directly between processes; `0`: they are \
              copied through shared memory",
    reader: Reader::Library,
};
/// Compares the calls of processes.
pub const CHECK: Setting = Setting {
    name: "WEFT_CHECK",
    default: "0",
    allowed: "1 or 0",
    meaning: "`1`: before each collective call, the processes of a communicator compare their calls \
              (operation, root, counts, datatypes, reduction, order of communicators; of files the mode, size, \
              representation and the file itself). Each message's datatype is compared with its receive's. \
              The first difference is an error with one sentence. The comparison costs time",
    reader: Reader::Library,
};
/// The error handler that a program begins with.
pub const INITIAL_ERRHANDLER: Setting = Setting {
    name: "WEFT_INITIAL_ERRHANDLER",
    default: "mpi_errors_are_fatal",
    allowed: "mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return",
    meaning: "the error handler of MPI_COMM_WORLD, of MPI_COMM_SELF and of the communicator with the parents, \
              until the program sets another. `mpiexec -initial-errhandler` and the info key \
              `mpi_initial_errhandler` of MPI_Comm_spawn set it",
    reader: Reader::Library,
};
/// Communicators that a process may have.
pub const COMMUNICATORS: Setting = Setting {
    name: "WEFT_COMMUNICATORS",
    default: "268435454",
    allowed: "a number from 1 to 268435454",
    meaning: "the number of communicators that a rank may have at a time, beside MPI_COMM_WORLD and \
              MPI_COMM_SELF. One more is an error in all processes of the new communicator",
    reader: Reader::Library,
};
/// Directory for the node's shared segment.
pub const SHM_DIR: Setting = Setting {
    name: "WEFT_SHM_DIR",
    default: "/dev/shm",
    allowed: "an absolute path",
    meaning: "the directory of a host's shared memory. When it is too small, Weft takes another directory \
              and says so",
    reader: Reader::Library,
};
/// The costs of moving messages.
pub const COSTS: Setting = Setting {
    name: "WEFT_COSTS",
    default: "auto",
    allowed: "auto, built-in or the path of a file with costs",
    meaning: "the costs of the parts of moving a message, by which Weft chooses protocols. With auto the first \
              job of a user after the host has booted measures them as it starts, in a millisecond, and keeps \
              them for later jobs; two later ones measure again, and the lowest costs count. `weft info --costs` prints the costs in the form of such a file. The same \
              for all ranks of a host",
    reader: Reader::Library,
};
/// A table of the user's for collectives.
pub const COLLECTIVES_TABLE: Setting = Setting {
    name: "WEFT_COLLECTIVES_TABLE",
    default: "",
    allowed: "the path of a file with such a table",
    meaning: "rules for choosing the algorithms of collectives, which come before the built-in rules. \
              `weft info --collectives` prints the built-in rules in the form of such a file. The same for \
              all ranks",
    reader: Reader::Library,
};

/// The algorithm or multicast scheme of broadcasts.
pub const BCAST: Setting = Setting {
    name: "WEFT_BCAST",
    default: "auto",
    allowed: "auto, tree, multicast, basic, window, written, coroot-K, aggregate-M, coroot-K+aggregate-M; binomial, k-nomial:K, k-ary:K, chain, linear or \
              double-tree, each with /S; scatter-dissemination, scatter-ring, shared, single-copy or two-level",
    meaning: "the way of broadcasts. `auto`: by table; between three hosts or more by network multicast, \
              if the third broadcast on a communicator finds that multicast works. `tree`: by table, never \
              multicast. `multicast` or one of its schemes: wherever multicast works, tried in the first \
              broadcast. An algorithm: in all cases. A scheme says who acknowledges: with `coroot-K`, K \
              members gather for the others; with `aggregate-M`, one acknowledgement covers M broadcasts; \
              with `written`, members write theirs into the root's memory by an RDMA device, or do as with \
              `auto` where there is none. The hint `weft_bcast` sets the same for one communicator. The \
              same for all ranks",
    reader: Reader::Library,
};
/// Makes the results of reductions the same wherever ranks are.
pub const REPRODUCIBLE: Setting = Setting {
    name: "WEFT_REPRODUCIBLE",
    default: "0",
    allowed: "1 or 0",
    meaning: "`1`: reductions combine their operands in an order that depends only on the number of ranks \
              and of bytes. Sums of floating-point numbers then have the same bits however ranks are \
              spread over hosts. `0`: the bits are the same from run to run with ranks spread alike. The \
              same for all ranks",
    reader: Reader::Library,
};

/// The algorithm of a collective for all cases.
const fn algorithm(name: &'static str, operation: Operation) -> Setting {
    Setting {
        name,
        default: "",
        allowed: operation.algorithms(),
        meaning: "the algorithm of this collective wherever it is possible (K is a number, S the bytes of a \
                  segment, such as 64K). Without it tables choose. The same for all ranks",
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
    meaning: "the thread that moves messages between hosts, nonblocking collectives, and messages of a host \
              that stand still, while the program is outside MPI. `thread`: one per rank, asleep unless there \
              is something to do; `none`: messages move only inside calls of MPI. With both, a rank that \
              computes shows its peers now and then that it is alive",
    reader: Reader::Library,
};
/// The scheme by which packets are acknowledged: deferred, at once, or each by itself.
pub const ACK: Setting = Setting {
    name: "WEFT_ACK",
    default: "immediate",
    allowed: "deferred, immediate or every-packet",
    meaning: "the time at which packets are acknowledged. `deferred`: in the next packet back, or after 16 \
              packets or `WEFT_ACK_DELAY`; `immediate`: the same, and at once at the end of large data; \
              `every-packet`: each packet at once",
    reader: Reader::Library,
};
/// The longest time for which an acknowledgement may wait.
pub const ACK_DELAY: Setting = Setting {
    name: "WEFT_ACK_DELAY",
    default: "auto",
    allowed: "auto, or microseconds from 0 to 100000",
    meaning: "the longest time, in microseconds, that an acknowledgement waits for a packet to travel in; \
              four times as long in the middle of large data. `auto`: 50, or 500 where ranks take turns on \
              processors. The same for all ranks",
    reader: Reader::Library,
};
/// The longest silence of a peer.
pub const PEER_TIMEOUT: Setting = Setting {
    name: "WEFT_PEER_TIMEOUT",
    default: "30",
    allowed: "seconds from 0 to 4294967295",
    meaning: "seconds without any answer after which a peer counts as failed. 0: never",
    reader: Reader::Library,
};
/// Lets topologies change ranks.
pub const REORDER: Setting = Setting {
    name: "WEFT_REORDER",
    default: "1",
    allowed: "1 or 0",
    meaning: "`1`: where a program allows it (`reorder` of `MPI_Cart_create` and the like), a new \
              communicator numbers its ranks so that neighbours share a host as far as possible; `0`: \
              ranks keep their order. The same for all ranks",
    reader: Reader::Library,
};
/// Encrypts packets.
pub const SEALED: Setting = Setting {
    name: "WEFT_SEALED",
    default: "0",
    allowed: "1 or 0",
    meaning: "`1`: packets between hosts are encrypted and authenticated whole (AES-128-GCM). The same for \
              all ranks",
    reader: Reader::Library,
};
/// Prints errors also when they are returned.
pub const VERBOSE_ERRORS: Setting = Setting {
    name: "WEFT_VERBOSE_ERRORS",
    default: "0",
    allowed: "1 or 0",
    meaning: "`1`: Weft also prints the sentence of each error that it returns to the program",
    reader: Reader::Library,
};
/// What the program does when a process fails.
pub const ON_FAILURE: Setting = Setting {
    name: "WEFT_ON_FAILURE",
    default: "end",
    allowed: "end or continue",
    meaning: "what the program does when a process fails. `continue`: it goes on without that process \
              (`mpi-ext.h`). Calls that need a failed process then return `MPIX_ERR_PROC_FAILED`, and \
              receives from any source warn of failures. `mpiexec --on-failure continue` sets it",
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
    meaning: "faults for tests: Weft drops, repeats, reorders and damages packets, from a seed. The \
              program does not notice: a tag covers each packet whole, sealed or not, and a damaged packet \
              is dropped and sent again. Connections of an RDMA device are spared; its multicast is not",
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

/// How many agents each host starts.
pub const TREE_WIDTH: Setting = Setting {
    name: "WEFT_TREE_WIDTH",
    default: "auto",
    allowed: "auto, none, or a number of hosts",
    meaning: "how many agents `mpiexec`, and then each host, starts by ssh (as `--tree-width`)",
    reader: Reader::Mpiexec,
};

/// Heartbeats between hosts.
pub const HEARTBEAT: Setting = Setting {
    name: "WEFT_HEARTBEAT",
    default: "0",
    allowed: "seconds from 0.5 on, or 0",
    meaning: "the hosts of a job send each other heartbeats; this is the longest silence of a host, and the longest \
              stop of a rank (as `--heartbeat`). 0: no heartbeats",
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
pub const TABLE: [&Setting; 45] = [
    &LINK,
    &INTERFACE,
    &FABRIC_PROVIDER,
    &FABRIC_PLACEMENT,
    &LONG_PATH,
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
    &ON_FAILURE,
    &CHECK,
    &INITIAL_ERRHANDLER,
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
    &TREE_WIDTH,
    &HEARTBEAT,
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
