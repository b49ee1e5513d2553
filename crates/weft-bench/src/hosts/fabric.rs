//! Makes and removes the virtual hosts, by `ip` and `tc`.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::loss::Loss;
use super::namespaces::{self, NAMES};
use crate::tools::{self, tool};

/// The time that processes left in a host may take to die after SIGKILL.
const KILL_TIMEOUT: Duration = Duration::from_secs(3);
const KILL_POLL: Duration = Duration::from_millis(5);
/// The time that the kernel may take to notice that cables are plugged in: about a second where there are
/// several.
const CARRIER_TIMEOUT: Duration = Duration::from_secs(5);
const CARRIER_POLL: Duration = Duration::from_millis(10);
/// Names begin with this and the creator's process id.
const PREFIX: &str = "weft-";
/// The bridge's own namespace ends with this instead of a number.
const SWITCH: &str = "switch";
/// Addresses are taken from the range set aside for benchmarks (RFC 2544, RFC 6890), a subnet for each
/// interface of a host.
const NETWORK: &str = "198.18";
/// A burst of four full segmentation trains, and the queue with which MPICH and Weft were measured.
const SHAPE: &str = "burst 256kb latency 20ms";

/// The plan of virtual hosts that the user asks for.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) count: usize,
    /// Interfaces of each host, `e0` and so on, each kind joined by a switch of its own.
    pub(crate) interfaces: usize,
    /// The rate of each interface, in the words of `tc`, `10gbit`; the last rate is also for the interfaces
    /// behind it. An empty list: as quick as the machine.
    pub(crate) rates: Vec<String>,
    /// The share of arriving frames that every host drops.
    pub(crate) loss: Option<Loss>,
}

/// The reason why there are no hosts.
pub(crate) enum Failure {
    /// Hosts cannot be made under this kernel or in this container.
    Unsupported(String),
    /// A step failed.
    Step(String),
    Interrupted,
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::Step(why)
    }
}

/// A set of hosts that exist; dropping it removes them and every process in them.
pub(crate) struct Fabric {
    hosts: Vec<String>,
    switch: String,
    interfaces: usize,
}

impl Fabric {
    /// Makes the hosts. `stop` is asked between steps: when it names a signal, all that was made is removed
    /// and an error returned.
    pub(crate) fn create(plan: &Plan, stop: &mut dyn FnMut() -> Option<i32>) -> Result<Fabric, Failure> {
        if plan.loss.is_some() {
            Loss::tools()?;
        }
        let pid = std::process::id();
        let hosts = (0..plan.count).map(|index| format!("{PREFIX}{pid}-{index}")).collect();
        // From here on `drop` removes every part of the fabric that exists.
        let fabric = Fabric { hosts, switch: format!("{PREFIX}{pid}-{SWITCH}"), interfaces: plan.interfaces };
        add_namespace(&fabric.switch).map_err(Failure::Unsupported)?;
        fabric.hosts.iter().try_for_each(|host| add_namespace(host))?;
        let mut script = String::new();
        for (index, host) in fabric.hosts.iter().enumerate() {
            for interface in 0..plan.interfaces {
                let port = format!("p{index}-{interface}");
                script +=
                    &format!("link add e{interface} netns {host} type veth peer name {port} netns {}\n", fabric.switch);
            }
        }
        // The script runs inside: this process may not be allowed to change the network that it is in.
        ip_batch(&fabric.switch, &script)?;
        let mut script = String::new();
        for interface in 0..plan.interfaces {
            // Without snooping the bridge passes multicast to every host, as a plain switch does.
            script += &format!("link add br{interface} type bridge mcast_snooping 0\nlink set br{interface} up\n");
            for index in 0..plan.count {
                script += &format!("link set p{index}-{interface} master br{interface} up\n");
            }
        }
        ip_batch(&fabric.switch, &script)?;
        for (index, host) in fabric.hosts.iter().enumerate() {
            if stop().is_some() {
                return Err(Failure::Interrupted);
            }
            let mut script = "link set lo up\n".to_owned();
            for interface in 0..plan.interfaces {
                let address = address_of(index, interface);
                script += &format!("address add {address}/24 dev e{interface}\nlink set e{interface} up\n");
            }
            script += "route add 224.0.0.0/4 dev e0\n";
            ip_batch(host, &script)?;
            for interface in 0..plan.interfaces {
                plan.shape(host, interface)?;
            }
        }
        fabric.wait_for_carrier(stop)?;
        Ok(fabric)
    }

    /// Waits until the kernel has noticed all carriers: a library that starts before leaves the interface
    /// out.
    fn wait_for_carrier(&self, stop: &mut dyn FnMut() -> Option<i32>) -> Result<(), Failure> {
        let deadline = Instant::now() + CARRIER_TIMEOUT;
        for host in &self.hosts {
            loop {
                let up = tool("ip", &["-n", host, "-o", "link", "show", "type", "veth"], "")?;
                if up.lines().filter(|line| line.contains("state UP")).count() == self.interfaces {
                    break;
                }
                if stop().is_some() {
                    return Err(Failure::Interrupted);
                }
                if Instant::now() > deadline {
                    return Err(Failure::Step(format!("the interfaces of {host} have no carrier:\n{up}")));
                }
                std::thread::sleep(CARRIER_POLL);
            }
        }
        Ok(())
    }

    /// The names of the hosts, in order.
    pub(crate) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The bytes that all hosts together have sent to the switch so far.
    pub(crate) fn sent_bytes(&self) -> Result<u64, String> {
        let sent = |(host, interface): (&String, usize)| {
            let counter = format!("/sys/class/net/e{interface}/statistics/tx_bytes");
            let text = tool("ip", &["netns", "exec", host, "cat", &counter], "")?;
            text.trim().parse::<u64>().map_err(|error| format!("{counter} of {host}: {error}"))
        };
        self.hosts.iter().flat_map(|host| (0..self.interfaces).map(move |interface| (host, interface))).map(sent).sum()
    }

    /// The variables by which the command finds its hosts, and the tools for them.
    pub(crate) fn environment(&self) -> [(&'static str, OsString); 3] {
        let weft = std::env::current_exe().unwrap_or_else(|_| "weft".into());
        let agent = format!("'{}' hosts enter {{host}}", weft.display());
        [("WEFT_HOSTS", self.hosts.join(",").into()), ("WEFT_AGENT", agent.into()), ("PATH", tools::path())]
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        let existing = existing(Path::new(NAMES));
        for name in self.hosts.iter().chain([&self.switch]).filter(|name| existing.contains(name)) {
            if let Err(why) = remove(name) {
                crate::out::say!("weft hosts: {name} could not be removed: {why}");
            }
        }
    }
}

impl Plan {
    /// Applies the rate and the loss of an interface.
    fn shape(&self, host: &str, interface: usize) -> Result<(), String> {
        if let Some(rate) = self.rates.get(interface).or(self.rates.last()) {
            let shape = format!("-n {host} qdisc add dev e{interface} root tbf rate {rate} {SHAPE}");
            tool("tc", &shape.split(' ').collect::<Vec<_>>(), "")?;
        }
        self.loss.map_or(Ok(()), |loss| loss.apply(host, interface))
    }
}

/// The IPv4 address of the host at `index`, from 0, on its first interface.
pub(crate) fn address(index: usize) -> String {
    address_of(index, 0)
}

fn address_of(index: usize, interface: usize) -> String {
    format!("{NETWORK}.{interface}.{}", index + 1)
}

/// Becomes `command` inside `host`, where the system's name is the host's; returns the reason if it cannot.
///
/// A user's own hosts are in the user namespace of their creator ([`namespaces`]): a process outside goes
/// there first.
pub(crate) fn enter(host: &str, command: &[String]) -> String {
    if !Path::new(NAMES).join(host).exists() {
        let Some(pid) = creator(host).filter(|pid| is_weft(*pid)) else {
            return format!("there is no virtual host {host}");
        };
        if let Err(error) = namespaces::join(pid) {
            return format!("{host} cannot be reached through process {pid}, which made it: {error}");
        }
    }
    if let Err(error) = namespaces::own_host_name(host) {
        return format!("{host} cannot have its name: {error}");
    }
    let error = tools::command("ip").args(["netns", "exec", host]).args(command).exec();
    format!("ip: {error} (Debian has it in the package iproute2)")
}

/// Removes the hosts whose creators live no longer; returns the names of the removed hosts.
pub(crate) fn sweep() -> Vec<String> {
    let mut removed: Vec<String> = existing(Path::new(NAMES))
        .into_iter()
        .filter(|name| is_left(name))
        .filter(|name| remove(name).is_ok())
        .collect();
    if !rustix::process::geteuid().is_root() {
        removed.extend(sweep_elsewhere());
    }
    removed.sort();
    removed.dedup();
    removed
}

/// Removes a user's own hosts whose creators are gone. A user's own host ends with the last process that
/// holds its namespace, so only the processes inside have to be ended.
fn sweep_elsewhere() -> Vec<String> {
    let link = |pid: &str, kind: &str| std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().into_string().ok()?.parse::<i32>().ok());
    // A creator's number means something only to processes of the same PID namespace.
    let own = link("self", "pid");
    let pids = pids.filter(|pid| own.is_some() && link(&pid.to_string(), "pid") == own);
    let mut removed = Vec::new();
    for pid in pids {
        let identity = |path: PathBuf| path.metadata().ok().map(|data| (data.dev(), data.ino()));
        let Some(network) = identity(format!("/proc/{pid}/ns/net").into()) else { continue };
        let names = PathBuf::from(format!("/proc/{pid}/root{NAMES}"));
        let is_in = |name: &String| is_left(name) && identity(names.join(name)) == Some(network);
        if let (Some(host), Some(process)) = (existing(&names).into_iter().find(is_in), Pid::from_raw(pid))
            && kill_process(process, Signal::KILL).is_ok()
        {
            removed.push(host);
        }
    }
    removed
}

/// Returns whether the creator of a host or switch of this name is gone.
fn is_left(name: &str) -> bool {
    creator(name).is_some_and(|pid| !is_weft(pid))
}

/// The process id in the name of a virtual host or switch; none for every other name.
fn creator(name: &str) -> Option<u32> {
    let (pid, part) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let is_ours = part == SWITCH || part.parse::<u16>().is_ok();
    pid.parse().ok().filter(|_| is_ours)
}

/// Returns whether the process lives (a zombie does not) and is this program (process ids are used again).
fn is_weft(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // "pid (name) state …", proc_pid_stat(5)
    stat.split_once(" (weft) ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The names of virtual hosts and switches in a directory.
fn existing(names: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(names) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| creator(name).is_some()).collect()
}

/// Ends every process inside the namespace, then removes it; its interfaces go with it.
fn remove(name: &str) -> Result<(), String> {
    let deadline = Instant::now() + KILL_TIMEOUT;
    loop {
        let inside = tool("ip", &["netns", "pids", name], "").unwrap_or_default();
        let inside: Vec<Pid> = inside.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect();
        if inside.is_empty() || Instant::now() > deadline {
            break;
        }
        for pid in inside {
            // A process that has ended meanwhile needs no signal.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(KILL_POLL);
    }
    tool("ip", &["netns", "delete", name], "").map(drop)
}

/// Makes a network namespace of this name. `ip netns add` would return to the network from which it came, and
/// only the owner of that network may do so.
fn add_namespace(name: &str) -> Result<(), String> {
    let file = Path::new(NAMES).join(name);
    std::fs::File::create(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    tool("unshare", &[&format!("--net={}", file.display()), "true"], "").map(drop)
}

fn ip_batch(namespace: &str, script: &str) -> Result<(), String> {
    tool("ip", &["-n", namespace, "-batch", "-"], script).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_have_a_creator() {
        assert_eq!(creator("weft-4711-0"), Some(4711));
        assert_eq!(creator("weft-4711-switch"), Some(4711));
        for other in ["weft", "weft-", "weft-4711", "weft-4711-x", "weft--0", "loom-4711-0", "weft-a-1", "my-weft-1-1"]
        {
            assert_eq!(creator(other), None, "{other}");
        }
    }

    #[test]
    fn a_process_with_another_name_is_not_ours() {
        assert!(!is_weft(1));
        assert!(!is_weft(u32::MAX));
    }
}
