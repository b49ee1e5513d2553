//! The facts that an agent collects about its host, such as interfaces, limits and versions. `findings`
//! decides what they mean.

use std::collections::BTreeMap;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weft_launch::{DEFAULTS_VARIABLE, Defaults};
use weft_mpi::settings::{Said, Settings};
use weft_net::ethernet::netd;
use weft_net::{node, udp};

use crate::info::library::Library;
use crate::info::machine::{Machine, field, read};
use weft_bench::tools;

/// The time that a tool of the system may take to answer.
const TOOL_TIMEOUT: Duration = Duration::from_secs(3);
/// The time that the search for the host's own name may take.
const NAME_TIMEOUT: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(2);
/// The most interfaces that are asked for their offloads.
const INTERFACES_MAX: usize = 16;

/// Facts of one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) machine: Machine,
    pub(crate) library: Option<Library>,
    /// The reason why programs stop in `MPI_Init` on this host.
    pub(crate) wrong_setting: Option<String>,
    pub(crate) user: u32,
    /// Effective capabilities, a bit each (capabilities(7)).
    pub(crate) capabilities: u64,
    /// The path where `weft-netd` may be asked for packet sockets instead; None if there is no such path.
    pub(crate) netd: Option<String>,
    /// The value of `user.max_user_namespaces`; None if the kernel has no such setting.
    pub(crate) user_namespaces: Option<u64>,
    /// The bytes that may be locked, and the files that may be open: soft and hard limit; None: no limit.
    pub(crate) locked_bytes: (Option<u64>, Option<u64>),
    pub(crate) open_files: (Option<u64>, Option<u64>),
    /// The values of `net.core.rmem_max` and `wmem_max`, bytes.
    pub(crate) receive_buffer_max: u64,
    pub(crate) send_buffer_max: u64,
    /// The kernel's source of time.
    pub(crate) clock_source: String,
    pub(crate) firewall: Firewall,
    /// A number that is equal on two hosts that are one machine with one network.
    pub(crate) network: u32,
    /// The addresses, each with the link's decision whether it is offered.
    pub(crate) addresses: Vec<Address>,
    /// The time of the search for the host's own name, milliseconds; None if the name was not found.
    pub(crate) own_name_milliseconds: Option<u64>,
    /// The reason why the name was not found.
    pub(crate) own_name_fault: String,
}

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Address {
    pub(crate) interface: String,
    pub(crate) address: String,
    pub(crate) mtu: u32,
    /// The reason why the address is not offered to peers.
    pub(crate) refused: Option<String>,
    /// Says whether the interface cuts large sends itself (`tx-udp-segmentation`); None if that is not known.
    pub(crate) segmentation: Option<bool>,
    /// Says whether the interface is wireless.
    pub(crate) is_wireless: bool,
}

/// The firewall rules that might stop packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Firewall {
    /// The number of rules and chains that drop or reject, of nftables and iptables as far as they can be
    /// asked.
    pub(crate) stopping: usize,
    /// An example of these rules.
    pub(crate) example: String,
    /// The tool that listed the rules.
    pub(crate) tool: String,
}

impl Facts {
    /// Collects the facts of this host, with the settings that `variables` contain.
    pub(crate) fn here(variables: &BTreeMap<String, String>) -> Facts {
        let read_settings = settings(variables);
        let wrong_setting = read_settings.as_ref().err().cloned();
        let settings = read_settings.unwrap_or_else(|_| Settings::read(|_| None).expect("the defaults make sense"));
        let status = read("/proc/self/status");
        let limits = read("/proc/self/limits");
        let number = |path: &str| read(path).parse().unwrap_or(0);
        let own_name = own_name();
        Facts {
            machine: Machine::here(settings.shm_dir.as_deref()),
            library: Some(Library::find()),
            wrong_setting,
            user: rustix::process::geteuid().as_raw(),
            capabilities: field(&status, "CapEff").and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0),
            netd: settings
                .netd
                .as_ref()
                .filter(|path| netd::listens(path).is_ok())
                .map(|path| path.display().to_string()),
            user_namespaces: read("/proc/sys/user/max_user_namespaces").parse().ok(),
            locked_bytes: limit(&limits, "Max locked memory"),
            open_files: limit(&limits, "Max open files"),
            receive_buffer_max: number("/proc/sys/net/core/rmem_max"),
            send_buffer_max: number("/proc/sys/net/core/wmem_max"),
            clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            firewall: firewall(),
            network: node::network(),
            addresses: addresses(&settings),
            own_name_milliseconds: own_name.as_ref().ok().copied(),
            own_name_fault: own_name.err().unwrap_or_default(),
        }
    }
}

/// The settings that the controller sent, then those of this host's environment, then the defaults that the
/// controller has read, as a job would have them.
pub(crate) fn settings(variables: &BTreeMap<String, String>) -> Result<Settings, String> {
    let defaults =
        variables.get(DEFAULTS_VARIABLE).map_or_else(Defaults::of_process, |text| Defaults::from_variable(text))?;
    Said::of(defaults).settings(|name| variables.get(name).cloned())
}

/// The soft and hard limit in one line of /proc/self/limits; None: unlimited (or not given).
fn limit(limits: &str, name: &str) -> (Option<u64>, Option<u64>) {
    let words = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let mut words = words.split_whitespace().map(|word| word.parse().ok());
    (words.next().flatten(), words.next().flatten())
}

fn addresses(settings: &Settings) -> Vec<Address> {
    let wanted = udp::Settings { interfaces: settings.interface.clone(), packet_size_max: None };
    let mut segmentation: BTreeMap<String, Option<bool>> = BTreeMap::new();
    let all = udp::consider(&wanted).unwrap_or_default();
    let mut of = |interface: &str| {
        if segmentation.len() >= INTERFACES_MAX && !segmentation.contains_key(interface) {
            return None;
        }
        *segmentation.entry(interface.to_owned()).or_insert_with(|| offload(interface))
    };
    let address = |one: udp::Considered| Address {
        segmentation: if one.verdict.is_ok() { of(&one.interface) } else { None },
        address: format!("{}/{}", one.ip, one.prefix),
        mtu: one.mtu,
        is_wireless: Path::new("/sys/class/net").join(&one.interface).join("phy80211").exists(),
        refused: one.verdict.err(),
        interface: one.interface,
    };
    all.into_iter().map(address).collect()
}

fn offload(interface: &str) -> Option<bool> {
    let features = tool("ethtool", &["-k", interface]).ok()?;
    Some(field(&features, "tx-udp-segmentation")?.starts_with("on"))
}

fn firewall() -> Firewall {
    let attempts: [(&str, &[&str]); 3] =
        [("nft", &["--stateless", "list", "ruleset"]), ("iptables", &["-S"]), ("ip6tables", &["-S"])];
    let mut told = Firewall::default();
    for (name, arguments) in attempts {
        let Ok(rules) = tool(name, arguments) else { continue };
        let stopping: Vec<&str> = rules.lines().map(str::trim).filter(|line| stops(line)).collect();
        if told.tool.is_empty() || (told.stopping == 0 && !stopping.is_empty()) {
            let example = stopping.first().map_or(String::new(), |line| (*line).to_owned());
            told = Firewall { stopping: stopping.len(), example, tool: name.to_owned() };
        }
    }
    told
}

/// Returns whether a line of rules, as nft or iptables print them, may stop packets that come in.
fn stops(line: &str) -> bool {
    let is_policy = line.contains("hook input") && line.contains("policy drop");
    let is_rule = line.split_whitespace().any(|word| matches!(word, "drop" | "reject" | "DROP" | "REJECT"));
    is_policy || (is_rule && !line.contains("FORWARD") && !line.contains("hook") && !line.starts_with('#'))
}

/// The output of a tool of the system, or the reason why there is none.
fn tool(name: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = tools::command(name);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut output = child.stdout.take().ok_or("no output")?;
    // A thread reads the output: a tool that prints much would otherwise wait for us while we wait for it.
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = std::io::Read::read_to_end(&mut output, &mut text);
        // Once the time is over the receiver is gone.
        let _ = sender.send(read.map(|_| text));
    });
    let text = receiver.recv_timeout(TOOL_TIMEOUT);
    let deadline = Instant::now() + TOOL_TIMEOUT;
    while text.is_ok() && Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            let text = text.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
            return if status.success() {
                Ok(String::from_utf8_lossy(&text).into_owned())
            } else {
                Err(format!("it ended with {status}"))
            };
        }
        std::thread::sleep(POLL);
    }
    let _ = child.kill();
    let _ = child.wait();
    Err("it does not answer".into())
}

/// Asks the system's name service for this host's own name.
fn own_name() -> Result<u64, String> {
    let name = weft_launch::reach::own_name();
    let (sender, receiver) = mpsc::channel();
    let began = Instant::now();
    std::thread::spawn(move || {
        let found = (name.as_str(), 0_u16).to_socket_addrs().map(|addresses| addresses.count());
        // Once the time is over the receiver is gone.
        let _ = sender.send(found);
    });
    match receiver.recv_timeout(NAME_TIMEOUT) {
        Ok(Ok(_)) => Ok(began.elapsed().as_millis() as u64),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("the name service did not answer within {} s", NAME_TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_the_kernel_writes_them() {
        let text =
            "Limit   Soft Limit  Hard Limit  Units\nMax locked memory         8388608              unlimited   bytes\n";
        assert_eq!(limit(text, "Max locked memory"), (Some(8_388_608), None));
        assert_eq!(limit(text, "Max open files"), (None, None));
    }

    #[test]
    fn rules_that_stop_packets_are_told_from_others() {
        for line in [
            "type filter hook input priority filter; policy drop;",
            "udp dport 1-65535 drop",
            "-P INPUT DROP",
            "-A INPUT -p udp -j REJECT --reject-with icmp-admin-prohibited",
        ] {
            assert!(stops(line), "{line}");
        }
        for line in
            ["type filter hook input priority filter; policy accept;", "-P FORWARD DROP", "udp dport 22 accept", ""]
        {
            assert!(!stops(line), "{line}");
        }
    }

    #[test]
    fn a_tool_that_is_not_there_or_hangs_is_an_error() {
        assert!(tool("/no/such/tool", &[]).is_err());
        assert!(tool("false", &[]).is_err());
        assert_eq!(tool("echo", &["rules"]).unwrap(), "rules\n");
    }
}
