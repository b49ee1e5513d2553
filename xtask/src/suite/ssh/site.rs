//! Virtual hosts with an ssh server each. Server and client are Debian's; their files are in a directory of
//! the suite, and nothing of the machine's own configuration changes.
//!
//! `mpiexec` runs on the host 0, which has no server. The hosts 1, 2 and so on have the names `h1`, `h2`,
//! which only the client's configuration knows. More servers, with behaviour of their own, listen on other
//! ports of the last host.

use std::cell::RefCell;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::super::context::{Context, Expected, Hosts};
use super::super::process::{Finished, Run, Running};
use super::super::{Outcome, needs};

/// The time for a server to listen.
const LISTENING: Duration = Duration::from_secs(20);
/// The time for processes on the hosts to go, once `mpiexec` has ended.
const GONE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);
/// The port of every host's own server.
const PORT: u16 = 2222;

pub(crate) struct Site {
    hosts: Hosts,
    pub(crate) directory: PathBuf,
    servers: RefCell<Vec<Running>>,
    /// The entries of the client's configuration.
    entries: RefCell<String>,
    weft: PathBuf,
}

/// A server beside those that every host has.
pub(crate) struct Server<'a> {
    /// The name that the client knows it by.
    pub(crate) name: &'a str,
    /// Lines of the server's configuration that come before the usual ones, and so count more.
    pub(crate) configuration: &'a str,
    /// Commands of a shell before the server begins, in a mount namespace of its own.
    pub(crate) before: &'a str,
}

impl Site {
    /// Makes `count` hosts with servers, and the host 0.
    pub(crate) fn open(context: &Context, name: &str, count: usize) -> anyhow::Result<Site> {
        let directory = context.work.join(format!("ssh-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory)?;
        let site = Site {
            hosts: Hosts::many(context, count + 1)?,
            directory,
            servers: RefCell::default(),
            entries: RefCell::default(),
            weft: context.bin("weft"),
        };
        for key in ["host_key", "user_key"] {
            let made = Run::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(site.file(key));
            let made = made.finish()?;
            anyhow::ensure!(made.code == Some(0), "no key:\n{}", made.report());
        }
        std::fs::copy(site.file("user_key.pub"), site.file("authorized_keys"))?;
        let key = std::fs::read_to_string(site.file("host_key.pub"))?;
        std::fs::write(site.file("known_hosts"), format!("[198.18.*]:* {key}"))?;
        // The server's unprivileged part is shut in there. Debian makes it when the service starts.
        std::fs::create_dir_all("/run/sshd")?;
        for host in 1..=count {
            site.begin(host, PORT, &Server { name: &format!("h{host}"), configuration: "", before: "" })?;
        }
        site.await_servers()?;
        Ok(site)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The address of a host.
    pub(crate) fn address(host: usize) -> String {
        format!("198.18.0.{}", host + 1)
    }

    /// The names of the hosts from 1 to `count`, as a list.
    pub(crate) fn names(count: usize) -> String {
        (1..=count).map(|host| format!("h{host}")).collect::<Vec<_>>().join(",")
    }

    /// Starts another server on the last host, unless one of this name runs.
    pub(crate) fn add(&self, server: &Server<'_>) -> anyhow::Result<()> {
        if self.entries.borrow().contains(&format!("Host {}\n", server.name)) {
            return Ok(());
        }
        let port = PORT + u16::try_from(self.servers.borrow().len())?;
        self.begin(self.hosts.names.len() - 1, port, server)?;
        self.await_servers()
    }

    /// Adds a name to the client's configuration.
    pub(crate) fn know(&self, name: &str, lines: &str) -> anyhow::Result<()> {
        let mut entries = self.entries.borrow_mut();
        if !entries.contains(&format!("Host {name}\n")) {
            entries.push_str(&format!("Host {name}\n{lines}\n"));
        }
        let file = |name: &str| self.file(name).display().to_string();
        let usual = format!(
            "Host *\nIdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\nGlobalKnownHostsFile none\n\
             StrictHostKeyChecking yes\nPort {PORT}\n",
            file("user_key"),
            file("known_hosts"),
        );
        Ok(std::fs::write(self.file("config"), format!("{entries}{usual}"))?)
    }

    fn begin(&self, host: usize, port: u16, server: &Server<'_>) -> anyhow::Result<()> {
        let file = |name: &str| self.file(name).display().to_string();
        let address = Self::address(host);
        let configuration = format!(
            "{}\nPort {port}\nListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPrintMotd no\nPrintLastLog no\n\
             MaxStartups 100\nSetEnv HOME={}\n",
            server.configuration,
            file("host_key"),
            file("authorized_keys"),
            // A shell reads the user's own start-up files from there.
            self.directory.display(),
        );
        let path = self.file(&format!("sshd_config-{}", server.name));
        std::fs::write(&path, configuration)?;
        let script = format!("{}\nexec {} -D -e -f '{}'", server.before, needs::SSHD, path.display());
        let run = self.on(host).args(["unshare", "-m", "sh", "-ec", &script]);
        self.servers.borrow_mut().push(run.start()?);
        self.know(server.name, &format!("HostName {address}\nPort {port}"))
    }

    fn await_servers(&self) -> anyhow::Result<()> {
        for server in self.servers.borrow().iter() {
            anyhow::ensure!(server.says("Server listening", LISTENING), "no ssh server:\n{}", server.output());
        }
        Ok(())
    }

    /// A command on a host; its words follow.
    pub(crate) fn on(&self, host: usize) -> Run {
        Run::new(&self.weft).args(["hosts", "enter", &self.hosts.names[host]])
    }

    /// `mpiexec` on the host 0 with the client's configuration.
    pub(crate) fn mpiexec(&self, context: &Context, hosts: &str, ranks: usize) -> Run {
        let configuration = format!("-F '{}'", self.file("config").display());
        self.on(0).arg(context.bin("mpiexec")).args([
            "--launcher-args",
            &configuration,
            "-n",
            &ranks.to_string(),
            "--hosts",
            hosts,
        ])
    }

    /// Judges a run, and whether it has left processes on the hosts.
    pub(crate) fn judge(&self, expected: &Expected, finished: anyhow::Result<Finished>) -> Outcome {
        let left = self.left();
        expected.judge(finished.map(|mut finished| {
            finished.leftovers.extend(left);
            finished
        }))
    }

    /// The processes on the hosts, beside the servers, that do not go.
    fn left(&self) -> Vec<String> {
        let deadline = Instant::now() + GONE;
        loop {
            let left = self.processes();
            if left.is_empty() || Instant::now() > deadline {
                return left.into_iter().map(|(pid, command)| format!("{pid} {command}")).collect();
            }
            std::thread::sleep(POLL);
        }
    }

    /// The processes on the hosts, beside the servers.
    pub(crate) fn processes(&self) -> Vec<(i32, String)> {
        Self::processes_in(&self.hosts.names)
    }

    /// The processes on a host, beside the server.
    pub(crate) fn processes_on(&self, host: usize) -> Vec<(i32, String)> {
        Self::processes_in(&self.hosts.names[host..=host])
    }

    fn processes_in(hosts: &[String]) -> Vec<(i32, String)> {
        let number = |path: &Path| std::fs::metadata(path).ok().map(|data| data.ino());
        let networks: Vec<u64> = hosts.iter().filter_map(|name| number(&Path::new("/run/netns").join(name))).collect();
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let there = pids.filter(|pid| {
            let network = number(&PathBuf::from(format!("/proc/{pid}/ns/net")));
            network.is_some_and(|network| networks.contains(&network))
        });
        let named = there.filter_map(|pid| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            // A zombie has no command any more.
            (!command.is_empty() && !command.contains("[listener]")).then_some((pid, command))
        });
        named.collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for server in self.servers.borrow_mut().drain(..) {
            // A server goes on until it is told to end.
            let _ = server.finish(Duration::ZERO);
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A site that is made for the first case that asks for it.
pub(crate) struct Lazy {
    pub(crate) name: &'static str,
    pub(crate) count: usize,
    pub(crate) site: std::cell::OnceCell<Site>,
}

impl Lazy {
    pub(crate) fn new(name: &'static str, count: usize) -> std::rc::Rc<Lazy> {
        std::rc::Rc::new(Lazy { name, count, site: std::cell::OnceCell::new() })
    }

    pub(crate) fn get(&self, context: &Context) -> anyhow::Result<&Site> {
        if self.site.get().is_none() {
            let _ = self.site.set(Site::open(context, self.name, self.count)?);
        }
        self.site.get().context("just made")
    }
}
