//! A cluster of Slurm with a controller, MUNGE and daemons of its own on virtual hosts, made by
//! `tests/slurm/cluster.sh` for the time of a suite.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::suite::chaos::is_kept;
use crate::suite::context::{Context, EXIT_NO_HOSTS};
use crate::suite::process::{Run, search_path};

/// The number of nodes.
pub(super) const NODES: u32 = 4;
/// The time for processes and files of a job that has ended to go: Slurm tells its daemons one after the
/// other.
const GONE_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);
/// The state of a TCP socket that listens, as `/proc` says it.
const LISTENS: &str = "0A";

/// The registry of processors, whose empty files stay for all jobs of a host.
const REGISTRY: &str = "weft-processors";

/// A running cluster; it ends when this is dropped, or when this process ends.
pub(super) struct Cluster {
    /// The process `weft hosts run`: it ends when its input is closed.
    holder: Child,
    directory: PathBuf,
    weft: PathBuf,
    /// The nodes as virtual hosts, and the host where users log in.
    nodes: Vec<String>,
    head: String,
    /// What the daemons have on the hosts.
    before: OnceCell<BTreeSet<String>>,
    why_no_pmix: OnceCell<Option<String>>,
}

/// The cluster of a suite, made when the first case needs it.
pub(super) struct Lazy(OnceCell<Result<Cluster, Absent>>);

/// The reason why there is no cluster.
#[derive(Clone)]
pub(super) enum Absent {
    /// The machine cannot have one.
    Impossible(String),
    Broken(String),
}

impl Lazy {
    pub(super) fn new() -> Self {
        Self(OnceCell::new())
    }

    pub(super) fn get(&self, context: &Context) -> Result<&Cluster, Absent> {
        self.0.get_or_init(|| Cluster::start(context)).as_ref().map_err(Absent::clone)
    }
}

impl Cluster {
    fn start(context: &Context) -> Result<Self, Absent> {
        let broken = |error: anyhow::Error| Absent::Broken(format!("{error:#}"));
        let weft = context.bin("weft");
        let directory = std::env::temp_dir().join(format!("weft-slurm-{}", std::process::id()));
        let count = (NODES + 1).to_string();
        let script = context.root.join("tests/slurm/cluster.sh");
        let mut holder = Command::new(&weft)
            .args(["hosts", "run", "--count", &count, "--", "sh", "-c", "echo \"$WEFT_HOSTS\"; exec \"$0\" \"$1\""])
            .arg(script)
            .arg(&directory)
            .env("PATH", search_path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", weft.display()))
            .map_err(broken)?;
        let errors = holder.stderr.take();
        let lines = holder.stdout.take().map(|output| BufReader::new(output).lines());
        let mut said: Vec<String> = Vec::new();
        for line in lines.into_iter().flatten().map_while(Result::ok) {
            if line == "ready" {
                let hosts: Vec<String> =
                    said.first().map(|list| list.split(',').map(str::to_owned).collect()).unwrap_or_default();
                let Some((head, nodes)) = hosts.split_last() else { break };
                let (head, nodes) = (head.clone(), nodes.to_vec());
                let cluster = Self {
                    holder,
                    directory,
                    weft,
                    nodes,
                    head,
                    before: OnceCell::new(),
                    why_no_pmix: OnceCell::new(),
                };
                let _ = cluster.before.set(cluster.things().map_err(broken)?);
                return Ok(cluster);
            }
            said.push(line);
        }
        let mut text = String::new();
        let _ = errors.map(|mut errors| errors.read_to_string(&mut text));
        match holder.wait().ok().and_then(|status| status.code()) {
            Some(EXIT_NO_HOSTS) => Err(Absent::Impossible(text.trim().to_owned())),
            _ => Err(Absent::Broken(format!("the cluster does not start:\n{}\n{text}", said.join("\n")))),
        }
    }

    /// A run of a command on the host where users log in.
    pub(super) fn run<T: AsRef<std::ffi::OsStr>>(&self, command: impl IntoIterator<Item = T>) -> Run {
        self.on(&self.head, command)
    }

    /// A run of a command in the network of a node.
    pub(super) fn on_node<T: AsRef<std::ffi::OsStr>>(&self, node: usize, command: impl IntoIterator<Item = T>) -> Run {
        self.on(&self.nodes[node], command)
    }

    fn on<T: AsRef<std::ffi::OsStr>>(&self, host: &str, command: impl IntoIterator<Item = T>) -> Run {
        let run = Run::new(&self.weft).args(["hosts", "enter", host]).args(command);
        run.env("SLURM_CONF", self.directory.join("slurm.conf"))
    }

    /// The reason why Slurm cannot start jobs with PMIx.
    pub(super) fn why_no_pmix(&self) -> Option<String> {
        let try_it = || {
            let tried = self.run(["srun", "--mpi=pmix", "--ntasks=1", "true"]).finish();
            let works = tried.is_ok_and(|finished| finished.code == Some(0));
            let why =
                "Slurm's plugin for PMIx does not work here; as root, tools/setup.sh tests installs what it loads";
            (!works).then(|| why.to_owned())
        };
        self.why_no_pmix.get_or_init(try_it).clone()
    }

    /// A file of the cluster: it is gone with it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Waits until nothing is on the hosts but what the daemons have; returns what is left after a while.
    pub(super) fn leftovers(&self) -> anyhow::Result<Vec<String>> {
        let deadline = Instant::now() + GONE_LIMIT;
        let before = self.before.get().context("it is counted at the start")?;
        loop {
            let left: Vec<String> = self.things()?.difference(before).cloned().collect();
            if left.is_empty() || Instant::now() > deadline {
                return Ok(left);
            }
            std::thread::sleep(POLL);
        }
    }

    /// The processes, the TCP ports that listen, and the files in shared memory, on all hosts. Daemons start
    /// processes for a moment to look after jobs, which are no part of a job.
    fn things(&self) -> anyhow::Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        for (index, host) in self.nodes.iter().chain([&self.head]).enumerate() {
            let listed = self.on(host, ["cat", "/proc/net/tcp", "/proc/net/tcp6"]).finish()?;
            let sockets = listed.output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let listening = sockets.filter(|words| words.get(3) == Some(&LISTENS));
            found.extend(listening.filter_map(|words| Some(format!("{host}: socket {}", words.get(1)?))));
            let pids = Run::new("ip").args(["netns", "pids", host]).finish()?;
            for pid in pids.output.lines().filter_map(|line| line.trim().parse::<u32>().ok()) {
                let Some(name) = command_of(pid) else { continue };
                // The daemon of a node shows the node's shared memory.
                if name == "slurmd" && index < self.nodes.len() {
                    let files = names_in(&format!("/proc/{pid}/root/dev/shm")).filter(|name| !stays(name));
                    found.extend(files.map(|name| format!("{host}: /dev/shm/{name}")));
                }
                found.insert(format!("{host}: process {pid} {name}"));
            }
        }
        Ok(found)
    }
}

/// Returns whether a file of this name in shared memory stays for later jobs.
fn stays(name: &str) -> bool {
    name == REGISTRY || is_kept(name)
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// The name of a process that lives.
fn command_of(pid: u32) -> Option<String> {
    let process = Path::new("/proc").join(pid.to_string());
    // A process that has ended and waits for its parent has no command line.
    let command = std::fs::read(process.join("cmdline")).ok().filter(|command| !command.is_empty())?;
    let name = command.split(|byte| *byte == 0).next()?;
    let name = String::from_utf8_lossy(name);
    Some(name.rsplit('/').next()?.split(':').next()?.to_owned())
}

fn names_in(directory: &str) -> impl Iterator<Item = String> + use<> {
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
}
