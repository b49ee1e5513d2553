//! The context that all cases share: directories, compiled programs, two hosts.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use anyhow::Context as _;

use super::Outcome;
use super::guests::{self, Device, Guests};
use super::process::{Finished, Run};

/// The exit code by which `weft` says that it can make no virtual hosts.
pub(crate) const EXIT_NO_HOSTS: i32 = 77;

/// The directories of the project, of the installed library and of the built programs; made once.
pub(crate) struct Context {
    pub(crate) root: PathBuf,
    pub(crate) prefix: PathBuf,
    /// The directory of compiled test programs and other files of this run.
    pub(crate) work: PathBuf,
    hosts: OnceCell<Hosts>,
    hosts_on_rails: OnceCell<Hosts>,
    /// The virtual machines that are up; there is room for one set of them.
    guests: RefCell<Option<Rc<Guests>>>,
}

impl Context {
    /// Creates a context. `root`: the project's directory, unless it is where this program was built.
    /// `prefix`: the installation, seen from there. `work`: the folder for compiled programs and other files
    /// of this run (`build/suite`).
    pub(crate) fn new(root: Option<PathBuf>, prefix: &Path, work: Option<&Path>) -> anyhow::Result<Context> {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the project")?;
        let root = root.unwrap_or_else(|| built.to_path_buf());
        let prefix = root.join(prefix);
        anyhow::ensure!(
            prefix.join("bin/mpiexec").exists(),
            "there is no {}/bin/mpiexec; run `make install`",
            prefix.display()
        );
        let work = work.map_or_else(|| root.join("build/suite"), Path::to_path_buf);
        std::fs::create_dir_all(&work)?;
        Ok(Context {
            root,
            prefix,
            work,
            hosts: OnceCell::new(),
            hosts_on_rails: OnceCell::new(),
            guests: RefCell::new(None),
        })
    }

    pub(crate) fn bin(&self, name: &str) -> PathBuf {
        self.prefix.join("bin").join(name)
    }

    /// A program of the Python environment that `tools/setup.sh` made.
    pub(crate) fn python(&self, name: &str) -> PathBuf {
        self.root.join("build/venv/bin").join(name)
    }

    /// Compiles a C file of the project with the installed `mpicc`, unless that has been done since the file
    /// changed.
    pub(crate) fn compile(&self, source: &str) -> anyhow::Result<PathBuf> {
        self.compile_with(&self.bin("mpicc"), source, "")
    }

    pub(crate) fn compile_with(&self, compiler: &Path, source: &str, suffix: &str) -> anyhow::Result<PathBuf> {
        let source = self.root.join(source);
        let name = source.file_stem().context("a source has a name")?.to_string_lossy().into_owned();
        let program = self.work.join(name + suffix);
        let changed = |path: &Path| path.metadata().and_then(|data| data.modified()).ok();
        // Included headers lie beside the source.
        let beside = std::fs::read_dir(source.parent().context("a source has a directory")?)?
            .flatten()
            .map(|entry| entry.path());
        let headers = beside.filter(|path| path.extension().is_some_and(|extension| extension == "h"));
        let others = [source.clone(), compiler.to_path_buf(), self.prefix.join("include/mpi.h")];
        let newest = headers.chain(others).filter_map(|path| changed(&path)).max();
        if changed(&program) > newest {
            return Ok(program);
        }
        // Compiling a test takes longer than running it, so tests are not optimized; examples compute.
        let optimize = if source.starts_with(self.root.join("tests")) { "-O0" } else { "-O2" };
        let flags = ["-std=c11", optimize, "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"];
        let finished = Run::new(compiler).args(flags).arg(&program).arg(&source).finish()?;
        anyhow::ensure!(finished.code == Some(0), "cannot compile {}:\n{}", source.display(), finished.report());
        Ok(program)
    }

    /// The command `mpiexec -n RANKS` on this host.
    pub(crate) fn mpiexec(&self, ranks: u32) -> Run {
        Run::new(self.bin("mpiexec")).arg("-n").arg(ranks.to_string())
    }

    /// The command `mpiexec -n RANKS` over the two hosts, half of the ranks on each.
    pub(crate) fn mpiexec_on_hosts(&self, ranks: u32) -> anyhow::Result<Run> {
        Ok(self.mpiexec_on(self.hosts()?, ranks))
    }

    /// The command `mpiexec -n RANKS` over these hosts, half of the ranks on each.
    pub(crate) fn mpiexec_on(&self, hosts: &Hosts, ranks: u32) -> Run {
        let per_host = ranks.div_ceil(2).to_string();
        self.mpiexec(ranks).args(["-ppn", &per_host, "--hosts", &hosts.names.join(","), "--agent", &hosts.agent])
    }

    pub(crate) fn hosts(&self) -> anyhow::Result<&Hosts> {
        if self.hosts.get().is_none() {
            let _ = self.hosts.set(Hosts::open(&self.bin("weft"), 2, 1, &[])?);
        }
        self.hosts.get().context("just made")
    }

    /// Two other hosts, with two interfaces each, so slow that the processors fill both.
    pub(crate) fn hosts_on_rails(&self) -> anyhow::Result<&Hosts> {
        if self.hosts_on_rails.get().is_none() {
            let _ = self.hosts_on_rails.set(Hosts::open(&self.bin("weft"), 2, 2, &["--rate", "200mbit"])?);
        }
        self.hosts_on_rails.get().context("just made")
    }

    /// Virtual machines of this number and kind with this device: those that are up, if they fit, or else new
    /// ones.
    pub(crate) fn guests(&self, device: Device, count: u32, machine: guests::Machine) -> anyhow::Result<Rc<Guests>> {
        let mut guests = self.guests.borrow_mut();
        let fits =
            |up: &&Rc<Guests>| (up.device(), up.count(), up.machine()) == (device, count, machine) && up.are_up();
        if let Some(guests) = guests.as_ref().filter(fits) {
            return Ok(guests.clone());
        }
        // The old machines are turned off first: each takes a gigabyte.
        *guests = None;
        let booted = Rc::new(Guests::boot(&self.root, count, device, machine)?);
        *guests = Some(booted.clone());
        Ok(booted)
    }

    /// Turns the virtual machines off: the next case that takes some gets new ones.
    pub(crate) fn turn_guests_off(&self) {
        *self.guests.borrow_mut() = None;
    }
}

/// Virtual hosts, two unless more are asked for, until dropped.
pub(crate) struct Hosts {
    pub(crate) names: Vec<String>,
    pub(crate) agent: String,
    /// The number of interfaces of each host: `e0` and so on.
    pub(crate) interfaces: usize,
    weft: PathBuf,
    kind: Kind,
}

/// The kind of the hosts.
enum Kind {
    Namespaces {
        /// The process `weft hosts run … cat`: it ends when its input is closed, also when this process is
        /// killed.
        holder: Child,
        /// Says whether the hosts are in a user namespace: then there is no privilege on the machine itself.
        without_root: bool,
    },
    /// Two sets of ranks of this host that treat each other as remote, and the reason why there is nothing
    /// better.
    Loopback { why: String },
}

impl Hosts {
    /// The reason why the hosts have no networks of their own; `None` if they have.
    pub(crate) fn why_no_networks(&self) -> Option<String> {
        match &self.kind {
            Kind::Namespaces { .. } => None,
            Kind::Loopback { why } => Some(why_no_hosts(why)),
        }
    }

    /// Returns whether the hosts are an ordinary user's own, in a user namespace.
    pub(crate) fn are_without_root(&self) -> bool {
        matches!(self.kind, Kind::Namespaces { without_root: true, .. })
    }

    /// The run of a command in one of the hosts, or at the switch.
    pub(crate) fn on<T: AsRef<OsStr>>(&self, host: &str, command: impl IntoIterator<Item = T>) -> Run {
        Run::new(&self.weft).args(["hosts", "enter", host]).args(command)
    }

    /// Runs a command in one of the hosts, or at the switch; returns its output.
    ///
    /// # Errors
    /// The command fails.
    pub(crate) fn do_on(&self, host: &str, command: &[&str]) -> anyhow::Result<String> {
        let finished = self.on(host, command).finish()?;
        anyhow::ensure!(finished.code == Some(0), "{} failed on {host}:\n{}", command.join(" "), finished.report());
        Ok(finished.output)
    }

    /// The namespace with the switch between the hosts.
    pub(crate) fn switch(&self) -> anyhow::Result<String> {
        let name = self.names.first().and_then(|name| name.strip_suffix("-0"));
        Ok(format!("{}-switch", name.context("the first host's name ends in -0")?))
    }

    /// Makes so many hosts, with an interface each.
    pub(crate) fn many(context: &Context, count: usize) -> anyhow::Result<Hosts> {
        Self::open(&context.bin("weft"), count, 1, &[])
    }

    fn open(weft: &Path, count: usize, interfaces: usize, options: &[&str]) -> anyhow::Result<Hosts> {
        let script = "printf '%s\\n' \"$WEFT_HOSTS\" \"$WEFT_AGENT\"; readlink /proc/self/ns/user; exec cat";
        let mut holder = Command::new(weft)
            .args(["hosts", "run", "--count", &count.to_string(), "--interfaces", &interfaces.to_string()])
            .args(options)
            .args(["--", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", weft.display()))?;
        let mut lines = BufReader::new(holder.stdout.take().context("piped above")?).lines();
        let mut remarks = BufReader::new(holder.stderr.take().context("piped above")?).lines();
        let weft = weft.to_path_buf();
        if let (Some(Ok(names)), Some(Ok(agent)), Some(Ok(users))) = (lines.next(), lines.next(), lines.next()) {
            let without_root = std::fs::read_link("/proc/self/ns/user")? != Path::new(&users);
            // The remarks say that the hosts are in a user namespace, and, in the end, which of them could
            // not be removed.
            std::thread::spawn(move || remarks.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
            let names = names.split(',').map(str::to_owned).collect();
            return Ok(Hosts { names, agent, interfaces, weft, kind: Kind::Namespaces { holder, without_root } });
        }
        let why = remarks.find_map(Result::ok).unwrap_or_default();
        anyhow::ensure!(holder.wait()?.code() == Some(EXIT_NO_HOSTS), "weft hosts failed: {why}");
        eprintln!("  (two sets of ranks on this host, joined by loopback: {why})");
        let names = vec!["h0".into(), "h1".into()];
        Ok(Hosts { names, agent: "env WEFT_NODE={host}".into(), interfaces, weft, kind: Kind::Loopback { why } })
    }
}

/// The outcome of a case that is skipped because `weft` can make no hosts ([`EXIT_NO_HOSTS`]); the reason
/// comes from its output.
pub(crate) fn no_hosts(said: &str) -> Outcome {
    Outcome::Skipped(why_no_hosts(said))
}

fn why_no_hosts(said: &str) -> String {
    let line = said.lines().next().unwrap_or_default();
    // "weft hosts: why; what to do"
    let why = line.split_once(": ").map_or(line, |(_, why)| why);
    why.rsplit_once("; ").map_or(why, |(why, _)| why).to_owned()
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if let Kind::Namespaces { holder, .. } = &mut self.kind {
            drop(holder.stdin.take());
            let _ = holder.wait();
        }
    }
}

/// The expectations of a run.
#[derive(Default, Clone)]
pub(crate) struct Expected {
    /// The exit code; None: any but 0.
    pub(crate) code: Option<i32>,
    pub(crate) says: Vec<Cow<'static, str>>,
    pub(crate) never_says: Vec<&'static str>,
}

impl Expected {
    pub(crate) fn code(code: i32) -> Expected {
        Expected { code: Some(code), ..Expected::default() }
    }

    /// Expects that the run ends by itself, with any code but 0.
    pub(crate) fn failure() -> Expected {
        Expected::default()
    }

    pub(crate) fn says(mut self, text: impl Into<Cow<'static, str>>) -> Expected {
        self.says.push(text.into());
        self
    }

    pub(crate) fn never_says(mut self, text: &'static str) -> Expected {
        self.never_says.push(text);
        self
    }

    pub(crate) fn judge(&self, finished: anyhow::Result<Finished>) -> Outcome {
        let finished = match finished {
            Ok(finished) => finished,
            Err(error) => return Outcome::Failed(format!("{error:#}")),
        };
        let mut wrong = Vec::new();
        match (finished.code, self.code) {
            (None, _) => wrong.push("it should end".to_owned()),
            (Some(0), None) => wrong.push("it should fail".to_owned()),
            (Some(found), Some(expected)) if found != expected => wrong.push(format!("expected exit code {expected}")),
            _ => {}
        }
        for text in self.says.iter().filter(|text| !finished.output.contains(&***text)) {
            wrong.push(format!("it should say {text:?}"));
        }
        for text in self.never_says.iter().filter(|text| finished.output.contains(**text)) {
            wrong.push(format!("it should not say {text:?}"));
        }
        if !finished.leftovers.is_empty() {
            wrong.push(format!("left behind: {}", finished.leftovers.join("; ")));
        }
        match wrong.is_empty() {
            true => Outcome::Passed,
            false => Outcome::Failed(format!("{}\n{}", finished.report(), wrong.join("; "))),
        }
    }
}
