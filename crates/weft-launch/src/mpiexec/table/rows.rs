//! The rows of the table of `mpiexec`'s options, one for each option.

use super::{Action, Entry, Global, Local, Section, Takes};
use crate::faces::Faces;
use crate::mpiexec::settings::Loudness;

type Names = &'static [&'static str];

const fn entry(
    section: Section,
    names: Names,
    (takes, value): (Takes, &'static str),
    action: Action,
    text: &'static str,
) -> Entry {
    Entry { names, takes, value, action, section, text }
}

const fn global(
    section: Section,
    names: Names,
    takes: (Takes, &'static str),
    option: Global,
    text: &'static str,
) -> Entry {
    entry(section, names, takes, Action::Global(option), text)
}

const fn local(
    section: Section,
    names: Names,
    takes: (Takes, &'static str),
    option: Local,
    text: &'static str,
) -> Entry {
    entry(section, names, takes, Action::Local(option), text)
}

/// An option without effect, of which only users who ask for notes are told.
const fn quiet(section: Section, names: Names, takes: (Takes, &'static str), text: &'static str) -> Entry {
    entry(section, names, takes, Action::Ignored(Loudness::Verbose), text)
}

/// An option without effect, of which every user is told.
const fn loud(section: Section, names: Names, takes: (Takes, &'static str), text: &'static str) -> Entry {
    entry(section, names, takes, Action::Ignored(Loudness::Everybody), text)
}

const fn instead(section: Section, names: Names, takes: (Takes, &'static str), text: &'static str) -> Entry {
    entry(section, names, takes, Action::Instead, text)
}

const NOTHING: (Takes, &str) = (Takes::Nothing, "");

const fn one(value: &'static str) -> (Takes, &'static str) {
    (Takes::One, value)
}

use Section::{Ending, Environment, Output, Places, Processors, Reach};

/// All options: those of the standard (MPI-5.0 §11.5), of MPICH (Hydra), of Intel and of Open MPI.
pub(crate) static OPTIONS: &[Entry] = &[
    local(
        Places,
        &["-n", "-np", "-c"],
        one("COUNT"),
        Local::Count,
        "the number of ranks of the program that follows; without it, one for each slot of the \
         hosts that are named or allocated (a host without slots has one), else 1",
    ),
    local(
        Places,
        &["-soft"],
        one("TRIPLETS"),
        Local::Soft,
        "acceptable numbers of ranks, such as 2:8:2 or 1,4: mpiexec takes the largest that is not \
         above -n",
    ),
    global(Places, &["--hosts"], one("H0,H1:2"), Global::Hosts, "hosts, each with its number of slots if it matters"),
    global(
        Places,
        &["-f", "--hostfile", "--machinefile", "--default-hostfile", "-machine"],
        one("FILE"),
        Global::HostFile,
        "a file with a host on each line: `h0`, `h0:2` or `h0 slots=2`; max_slots=4 is the most ranks of a host, user=bob \
         its user, ifname=eth1 its interface",
    ),
    global(
        Places,
        &["--host-discovery-script"],
        one("PROGRAM"),
        Global::HostScript,
        "a program that prints such lines, as `discover_hosts.sh` of Kubernetes' MPI Operator does; it runs once",
    ),
    local(Places, &["--host", "-H"], one("H0,H1"), Local::Host, "hosts for the program that follows only"),
    global(
        Places,
        &["-ppn", "-N", "-perhost", "--npernode", "-grr"],
        one("COUNT"),
        Global::RanksPerHost,
        "ranks per host",
    ),
    global(Places, &["--pernode"], NOTHING, Global::OnePerHost, "one rank per host"),
    global(
        Places,
        &["--map-by"],
        one("slot|node"),
        Global::MapBy,
        "slot fills a host before the next (default), node deals ranks to hosts in turn, \
         ppr:N:node gives each host N",
    ),
    global(Places, &["--byslot"], NOTHING, Global::MapByFixed("slot"), "--map-by slot"),
    global(Places, &["-rr", "--bynode"], NOTHING, Global::ByHost, "--map-by node"),
    global(Places, &["--oversubscribe"], NOTHING, Global::Oversubscribe, "more ranks than slots are allowed (default)"),
    global(
        Places,
        &["--no-oversubscribe", "--nooversubscribe"],
        NOTHING,
        Global::NoOversubscribe,
        "more ranks than slots are refused",
    ),
    entry(
        Places,
        &["-configfile", "--app"],
        one("FILE"),
        Action::ConfigFile,
        "read programs and their options from a file, a program a line (`-n 2 ./a x`; a line that begins with # is a comment); the last option",
    ),
    local(
        Places,
        &["-arch"],
        one("NAME"),
        Local::Architecture,
        "refuse to start where processors are of another kind (x86_64, aarch64)",
    ),
    global(Places, &["-usize"], one("COUNT"), Global::Universe, "the value of MPI_UNIVERSE_SIZE (default: all ranks)"),
    global(
        Processors,
        &["--bind-to"],
        one("WHAT"),
        Global::BindTo,
        "none (default), hwthread, core, socket or numa: a rank runs on one of those only",
    ),
    global(Processors, &["--bind-to-none"], NOTHING, Global::BindToFixed("none"), "--bind-to none"),
    global(Processors, &["--bind-to-core"], NOTHING, Global::BindToFixed("core"), "--bind-to core"),
    global(Processors, &["--bind-to-socket"], NOTHING, Global::BindToFixed("socket"), "--bind-to socket"),
    global(
        Processors,
        &["--bycore"],
        NOTHING,
        Global::MapByFixed("core"),
        "--map-by core: deal the ranks of a host to cores in order; :PE=2 behind any --map-by gives each rank two cores",
    ),
    global(
        Processors,
        &["--bysocket"],
        NOTHING,
        Global::MapByFixed("socket"),
        "--map-by socket: deal them to sockets in turn, or with --map-by numa to memory nodes; they are bound to cores unless said otherwise",
    ),
    global(
        Processors,
        &["--cpus-per-rank", "--cpus-per-proc"],
        one("COUNT"),
        Global::ProcessorsPerRank,
        "cores for each rank",
    ),
    global(
        Processors,
        &["--report-bindings"],
        NOTHING,
        Global::ReportBindings,
        "say for each rank which processors it has, or why it is not bound",
    ),
    global(
        Processors,
        &["-print-rank-map", "--display-map", "--display-allocation"],
        NOTHING,
        Global::PrintRankMap,
        "say which ranks are on which host, as (host:rank,rank)",
    ),
    global(
        Processors,
        &["--display"],
        one("map|bind"),
        Global::Display,
        "the same as --print-rank-map or --report-bindings",
    ),
    global(
        Reach,
        &["--agent"],
        one("TEMPLATE"),
        Global::Agent,
        "command that runs something on a host (default `ssh -o BatchMode=yes {host}`, or the variable WEFT_AGENT), for example \
         'ip netns exec {host}'",
    ),
    global(
        Reach,
        &["--agent-program"],
        one("PATH"),
        Global::AgentProgram,
        "the path of mpiexec on the hosts (default: its path here)",
    ),
    global(Reach, &["--prefix"], one("DIRECTORY"), Global::Prefix, "--agent-program DIRECTORY/bin/mpiexec"),
    global(
        Reach,
        &["--agent-timeout"],
        one("SECONDS"),
        Global::AgentTimeout,
        "how long an agent may take to answer (default 20)",
    ),
    global(
        Reach,
        &["--tree-width", "-branch-count"],
        one("auto|none|N"),
        Global::TreeWidth,
        "how many agents mpiexec, and then each host, starts: hosts are joined in a tree. none: mpiexec starts all of them. \
         auto (default): a tree for more than 100 hosts that ssh or rsh reaches. The variable WEFT_TREE_WIDTH does the same",
    ),
    global(
        Reach,
        &["--host-timeout"],
        one("SECONDS"),
        Global::HostTimeout,
        "how long a host may be silent before the job ends (default 30; 0: for ever)",
    ),
    global(
        Reach,
        &["--heartbeat"],
        one("SECONDS"),
        Global::Heartbeat,
        "hosts send each other heartbeats over the network of the ranks. A host that is silent for this time, and a rank that is \
         stopped for longer, is lost (default 0: no heartbeats). The variable WEFT_HEARTBEAT does the same",
    ),
    global(
        Reach,
        &["-launcher", "-bootstrap"],
        one("ssh|rsh|slurm"),
        Global::Launcher,
        "how hosts are reached: by ssh, rsh or srun (default: srun in an allocation of Slurm, else ssh); --agent says any other way",
    ),
    global(
        Reach,
        &["-launcher-exec", "-bootstrap-exec"],
        one("PROGRAM"),
        Global::LauncherProgram,
        "the program that reaches a host in the place of ssh; --agent says a whole command",
    ),
    global(
        Reach,
        &["--launcher-args", "-bootstrap-exec-args"],
        one("WORDS"),
        Global::LauncherArguments,
        "arguments of ssh, or of the program in its place: '-F FILE', '-p 2222', '-J JUMPHOST'",
    ),
    global(
        Reach,
        &["-iface"],
        one("NAME"),
        Global::Interface,
        "the network interface of all hosts, as WEFT_INTERFACE says it",
    ),
    global(Environment, &["-genv"], (Takes::Pair, "NAME VALUE"), Global::Set, "set a variable for all programs"),
    local(
        Environment,
        &["-env"],
        (Takes::Pair, "NAME VALUE"),
        Local::Set,
        "set a variable for the program that follows",
    ),
    local(
        Environment,
        &["-initial-errhandler"],
        one("NAME"),
        Local::ErrorHandler,
        "the error handler that the program that follows begins with, as WEFT_INITIAL_ERRHANDLER says it",
    ),
    global(
        Environment,
        &["-x"],
        one("NAME[=VALUE]"),
        Global::Export,
        "set a variable for all programs; without a value, as it is in this environment",
    ),
    global(Environment, &["-genvlist"], one("A,B"), Global::BaseList, "pass only these variables"),
    global(Environment, &["-genvnone"], NOTHING, Global::BaseNone, "pass none"),
    global(Environment, &["-genvall"], NOTHING, Global::BaseAll, "pass all (default)"),
    local(Environment, &["-envlist"], one("A,B"), Local::BaseList, "-genvlist for the program that follows"),
    local(Environment, &["-envnone"], NOTHING, Local::BaseNone, "-genvnone for the program that follows"),
    local(Environment, &["-envall"], NOTHING, Local::BaseAll, "-genvall for the program that follows"),
    local(
        Environment,
        &["-wdir", "-wd", "-dir"],
        one("DIRECTORY"),
        Local::Directory,
        "where the program that follows starts",
    ),
    local(
        Environment,
        &["-path"],
        one("A:B"),
        Local::SearchPath,
        "directories where the program that follows is looked for, before those of PATH",
    ),
    global(
        Environment,
        &["--stdin", "-s"],
        one("RANK|all|none"),
        Global::Input,
        "the rank that reads standard input, or all, or none (default 0)",
    ),
    global(
        Environment,
        &["--faces"],
        NOTHING,
        Global::Faces(Faces::First),
        "programs of MPICH's and Open MPI's ABI run over Weft even where LD_LIBRARY_PATH leads to those libraries",
    ),
    global(
        Environment,
        &["--no-faces"],
        NOTHING,
        Global::Faces(Faces::None),
        "programs of MPICH's and Open MPI's ABI use the library that they find; without this, Weft's is found first, but for \
         directories in LD_LIBRARY_PATH",
    ),
    global(
        Output,
        &["-l", "--tag-output", "-prepend-rank"],
        NOTHING,
        Global::Labels,
        "every line begins with [rank], or [rank on host]",
    ),
    global(
        Output,
        &["--merge-stderr-to-stdout"],
        NOTHING,
        Global::Merge,
        "what ranks write to standard error comes out of standard output",
    ),
    global(Output, &["--output"], one("tag|merge"), Global::Output, "--tag-output or --merge-stderr-to-stdout"),
    global(
        Output,
        &["--stats"],
        (Takes::Maybe, "json"),
        Global::Stats,
        "at the end, on standard error: pairs of ranks, their link, messages, bytes and resends; messages to other jobs, by link; and packets that were dropped, by cause",
    ),
    global(Output, &["-v", "--verbose"], NOTHING, Global::Verbose, "say what is done and which options have no effect"),
    global(Output, &["-q", "--quiet"], NOTHING, Global::Quiet, "print only why a job failed"),
    entry(Output, &["-h", "--help", "-?"], NOTHING, Action::Help, "print this help"),
    entry(Output, &["-V", "--version", "-info"], NOTHING, Action::Version, "print the version"),
    global(
        Ending,
        &["--timeout"],
        one("SECONDS"),
        Global::TimeLimit,
        "end the job after this time, say where every rank was, and exit with 124; the variable \
         MPIEXEC_TIMEOUT does the same",
    ),
    global(
        Ending,
        &["--on-failure"],
        one("end|continue"),
        Global::OnFailure,
        "what the other ranks do when a rank fails: they end (the default), or continue, hear of it at once, and \
         get errors from MPI calls that need the lost rank; the exit status is that of the first rank that failed",
    ),
    global(
        Ending,
        &["-disable-auto-cleanup", "--enable-recovery"],
        NOTHING,
        Global::KeepOthers,
        "--on-failure continue",
    ),
    // Options that are accepted and change nothing.
    loud(
        Reach,
        &["--mca", "--gmca", "--omca", "--prtemca", "--pmixmca"],
        (Takes::Two, "KEY VALUE"),
        "parameters of Open MPI; `weft info` shows the settings of Weft",
    ),
    quiet(Reach, &["-rmk"], one("NAME"), "allocations are found by themselves"),
    quiet(Reach, &["--noprefix", "-enable-x", "-disable-x"], NOTHING, "agents need nothing of it"),
    quiet(Reach, &["-localhost"], one("NAME"), "hosts are told apart by what they share"),
    quiet(Reach, &["-nameserver"], one("HOST"), "mpiexec serves names itself"),
    quiet(Reach, &["-disable-hostname-propagation"], NOTHING, "names are not needed"),
    quiet(Reach, &["-demux", "-topolib", "-pmi-port"], one("WHAT"), "an inner matter of Hydra"),
    quiet(Reach, &["--allow-run-as-root"], NOTHING, "root may start jobs"),
    quiet(Reach, &["--personality", "-tune", "-am", "-tmpdir"], one("WHAT"), "an inner matter of other launchers"),
    quiet(Places, &["--rank-by", "-order-nodes"], one("WORD"), "ranks are numbered in the order of hosts"),
    quiet(Places, &["--nolocal", "-skip-launch-node"], NOTHING, "only the hosts that are named have ranks"),
    loud(Processors, &["-binding"], one("WORDS"), "--bind-to says what ranks are bound to"),
    quiet(Processors, &["-membind"], one("WORD"), "memory is taken where a rank runs"),
    quiet(Processors, &["--use-hwthread-cpus", "--use-hwthreads"], NOTHING, "--bind-to hwthread says it"),
    quiet(Output, &["-ordered-output"], NOTHING, "lines of different ranks never mix"),
    quiet(Output, &["-silent-abort"], NOTHING, "one line says why a job failed"),
    loud(Output, &["-print-all-exitcodes"], NOTHING, "one line says which rank failed first, and how"),
    quiet(
        Ending,
        &["-cleanup", "--disable-recovery", "-enable-auto-cleanup"],
        NOTHING,
        "a rank that fails ends the others",
    ),
    // Options without which the job would be a different one, so they are refused.
    instead(
        Output,
        &["--output-filename", "-outfile-pattern", "-errfile-pattern", "--output-directory"],
        one("NAME"),
        "let each rank open a file of its own: mpiexec … sh -c 'exec ./program >out.$PMI_RANK 2>&1'; or divide what -l labels",
    ),
    instead(Output, &["-prepend-pattern"], one("PATTERN"), "-l puts [rank], or [rank on host], before each line"),
    instead(Output, &["--timestamp-output"], NOTHING, "pipe the output through `ts`"),
    instead(
        Output,
        &["-gdb", "-gdba", "-tv", "--debug", "--debugger", "--xterm"],
        NOTHING,
        "attach gdb to the ranks of a running job: `source share/weft/weft-gdb.py`, `weft attach`",
    ),
    instead(Output, &["-trace", "-check-mpi", "-check_mpi"], NOTHING, "WEFT_CHECK=1 compares what ranks call"),
    instead(
        Places,
        &["--rankfile", "-rf", "-rankmap"],
        one("FILE"),
        "name the hosts in the order of ranks (--hosts h1,h0:2), or a program for each with its --host and `:` between",
    ),
    instead(Places, &["-file"], one("FILE"), "-configfile reads programs and their options from a file, -f hosts"),
    instead(Places, &["--do-not-launch"], NOTHING, "-print-rank-map with the program `true` says where ranks would be"),
    instead(Places, &["--preload-binary"], NOTHING, "copy the program to the same path of each host"),
    instead(
        Processors,
        &["--cpu-list", "--cpu-set"],
        one("LIST"),
        "taskset -c LIST mpiexec … leaves these processors to the ranks of this host; --bind-to core binds each",
    ),
    instead(
        Processors,
        &["--npersocket", "--persocket"],
        one("COUNT"),
        "--map-by socket deals the ranks of a host to its sockets in turn; -ppn says how many there are",
    ),
    instead(Ending, &["--max-restarts"], one("COUNT"), "ranks are not started again"),
];
