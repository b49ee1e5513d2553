//! Findings: pure functions from the facts and test packets of the hosts to the faults, warnings and notes that the user reads. So every
//! finding can be tested with made-up facts.

use std::collections::BTreeSet;

use serde::Serialize;

use super::facts::{Address, Facts};
use super::protocol::{Arrived, BURST, LinkPath, MULTICAST, MULTICAST_OF_LINK, OpenedLink, SHORT_BYTES, Unanswered};
use crate::info::amounts::{bytes, counted};

/// How bad it is, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing is wrong.
    Note,
    /// Programs run, but slower or with less than there could be.
    Warning,
    /// Programs will not run.
    Fault,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// A name that stays the same, for scripts and for the book.
    pub(crate) name: &'static str,
    /// A host, or `h0 → h1`.
    pub(crate) subject: String,
    /// What was found, one sentence.
    pub(crate) what: String,
    /// What to do, one sentence; empty where nothing has to be done.
    pub(crate) cure: String,
}

impl Finding {
    fn new(
        level: Level,
        name: &'static str,
        subject: &str,
        what: impl Into<String>,
        cure: impl Into<String>,
    ) -> Finding {
        Finding { level, name, subject: subject.to_owned(), what: what.into(), cure: cure.into() }
    }

    fn ok(name: &'static str, subject: &str, what: impl Into<String>) -> Finding {
        Finding::new(Level::Ok, name, subject, what, "")
    }
}

/// What the controller saw of one host.
#[derive(Clone, Debug)]
pub(crate) struct HostSeen {
    pub(crate) name: String,
    /// Seconds until the agent greeted.
    pub(crate) reached_seconds: f64,
    /// The quickest answer, milliseconds, and how far its clock is ahead of the controller's then, seconds.
    pub(crate) answer_milliseconds: f64,
    pub(crate) clock_ahead_seconds: f64,
    pub(crate) facts: Facts,
    pub(crate) links: Vec<OpenedLink>,
    /// Bytes of the longest packet that it multicasts, or why multicast could not be tried.
    pub(crate) multicast: Result<usize, String>,
    /// Packets that came, once each.
    pub(crate) arrived: BTreeSet<Arrived>,
}

/// What was seen of one direction between two hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct PairSeen {
    pub(crate) link: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) way: Option<Result<LinkPath, String>>,
    /// By size: what the sending machine refused, and why.
    pub(crate) refused: Vec<(usize, String)>,
    pub(crate) short_arrived: bool,
    pub(crate) full_arrived: bool,
    /// The largest that arrived when the full one did not, bytes.
    pub(crate) largest_arrived: Option<usize>,
    /// What becomes of short ones that do not arrive.
    pub(crate) unanswered: Option<Unanswered>,
    /// Whether the receiving host has firewall rules that stop packets, and an example.
    pub(crate) firewall: Option<String>,
}

impl PairSeen {
    /// Packets left this machine, did not arrive, and nobody has been asked why.
    pub(crate) fn is_unexplained(&self) -> bool {
        !self.short_arrived && matches!(self.way, Some(Ok(_))) && self.refused.is_empty() && self.unanswered.is_none()
    }
}

/// Free shared memory below which few ranks find room, bytes: the segment of 16 ranks.
const SHARED_MEMORY_LOW: u64 = 32 << 20;
/// A receive buffer below which packets of several peers are lost while a rank computes, bytes.
const RECEIVE_BUFFER_LOW: u64 = 4 << 20;
/// Open files below which a host's agent cannot hold a hundred ranks' pipes.
const OPEN_FILES_LOW: u64 = 1024;
/// Locked memory below which AF_XDP and RDMA cannot register their buffers, bytes.
const LOCKED_MEMORY_LOW: u64 = 64 << 20;
/// A clock that is wrong by more than this makes logs of two hosts unreadable, seconds.
const CLOCK_AHEAD_HIGH: f64 = 1.0;
/// The search for the own name may take this long, milliseconds.
const OWN_NAME_SLOW: u64 = 1000;
/// Starting an agent may take this long, seconds.
const REACH_SLOW: f64 = 5.0;
/// Numbers of capabilities (capabilities(7)).
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_BPF: u32 = 39;

/// A host that cannot be talked to.
pub(crate) fn unreachable(host: &str, why: &str) -> Finding {
    let cure = "try `ssh -o BatchMode=yes HOST true`: it must ask for nothing; weft must be there under the same path, or name it \
                with --agent-program";
    Finding::new(Level::Fault, "host-unreachable", host, format!("it cannot be reached: {why}"), cure)
}

/// A host whose command is of another version.
pub(crate) fn other_version(host: &str, theirs: &str, ours: &str) -> Finding {
    let what = format!("it has weft {theirs}, this host has {ours}");
    Finding::new(
        Level::Fault,
        "version-differs",
        host,
        what,
        "install the same version on all hosts, under the same path",
    )
}

/// A host that stopped to answer.
pub(crate) fn lost(host: &str, why: &str) -> Finding {
    let cure = "run `weft doctor` on that host itself, without hosts; if it hangs there too, look at its kernel log with `dmesg`";
    Finding::new(Level::Fault, "host-stopped-answering", host, format!("it was reached, then {why}"), cure)
}

/// Everything about one host alone.
pub(crate) fn of_host(seen: &HostSeen) -> Vec<Finding> {
    let host = seen.name.as_str();
    let facts = &seen.facts;
    let mut all = vec![reached(seen), library(host, facts)];
    if let Some(wrong) = &facts.wrong_setting {
        let cure = "set it to one of these, or unset it; `weft info` shows all settings";
        all.push(Finding::new(Level::Fault, "setting-wrong", host, wrong.clone(), cure));
    }
    all.extend(links(host, &seen.links));
    all.push(shared_memory(host, facts));
    all.push(single_copy(host, facts));
    all.push(processors(host, facts));
    all.push(receive_buffer(host, facts));
    all.extend(privileges(host, facts));
    all.push(locked_memory(host, facts));
    all.push(open_files(host, facts));
    all.push(clock(seen));
    all.push(own_name(host, facts));
    all.push(firewall(host, facts));
    all.extend(segmentation(host, facts));
    all
}

fn reached(seen: &HostSeen) -> Finding {
    let (seconds, answer) = (seen.reached_seconds, seen.answer_milliseconds);
    let what = format!("its agent is there after {seconds:.1} s and answers in {answer:.2} ms");
    if seconds <= REACH_SLOW {
        return Finding::ok("host-reached", &seen.name, what);
    }
    let cure = "every start of mpiexec waits that long; a shared connection helps: ControlMaster auto in ~/.ssh/config";
    Finding::new(Level::Note, "host-slow", &seen.name, what, cure)
}

fn library(host: &str, facts: &Facts) -> Finding {
    let Some(library) = &facts.library else { return Finding::ok("library", host, "not looked for") };
    let path = library.path.as_ref().map(|path| path.display().to_string());
    match (&library.fault, path) {
        (None, path) => {
            let path = path.unwrap_or_default();
            Finding::ok("library", host, format!("{path} is of the same version as the command"))
        }
        (Some(fault), path) => {
            let what = path.map_or_else(|| fault.clone(), |path| format!("{path}: {fault}"));
            let cure = "install Weft there with `make install`, and take other MPI libraries out of LD_LIBRARY_PATH";
            Finding::new(Level::Warning, "library-differs", host, what, cure)
        }
    }
}

fn links(host: &str, links: &[OpenedLink]) -> Vec<Finding> {
    let mut all = Vec::new();
    // One link that works is enough for programs to run.
    let level = if links.iter().any(|link| link.card.is_ok()) { Level::Warning } else { Level::Fault };
    for link in links {
        if let Err(why) = &link.card {
            let cure = "`weft info` there says what is wrong with each interface; `ip link set IF up` brings one up, and \
                        WEFT_INTERFACE chooses";
            all.push(Finding::new(level, "link-unusable", host, format!("{}: {why}", link.name), cure));
        }
        for warning in &link.warnings {
            let cure = format!("`sysctl -w net.core.rmem_max={}`", 8 << 20);
            all.push(Finding::new(Level::Warning, "link-limited", host, format!("{}: {warning}", link.name), cure));
        }
    }
    all
}

fn shared_memory(host: &str, facts: &Facts) -> Finding {
    let memory = &facts.machine.shared_memory;
    let path = memory.path.display();
    let cure = format!("`mount -o remount,size=50% {path}`; in a container `--shm-size=1g` or `--ipc=host`");
    match (memory.bytes, memory.bytes_free) {
        (Some(_), Some(_)) if !memory.writable => {
            Finding::new(Level::Warning, "shm-not-writable", host, format!("{path} cannot be written to"), cure)
        }
        (Some(all), Some(free)) if free < SHARED_MEMORY_LOW => {
            let what = format!("{path} has {} free of {}", bytes(free), bytes(all));
            Finding::new(Level::Warning, "shm-small", host, what, cure)
        }
        (Some(all), Some(free)) => {
            let what = format!("{path} has {} free of {}", bytes(free), bytes(all));
            if memory.no_exec {
                let cure =
                    "nothing: Weft puts only data there; programs that load code from there need a remount with exec";
                return Finding::new(Level::Note, "shm-no-exec", host, format!("{what}, mounted noexec"), cure);
            }
            Finding::ok("shm", host, what)
        }
        _ => {
            let cure = "`mount -t tmpfs tmpfs /dev/shm`, or let WEFT_SHM_DIR name a directory in memory";
            Finding::new(Level::Warning, "shm-missing", host, format!("{path} is not there"), cure)
        }
    }
}

fn single_copy(host: &str, facts: &Facts) -> Finding {
    let copying = &facts.machine.single_copy;
    if copying.allowed {
        return Finding::ok("single-copy", host, "processes may copy from each other's memory");
    }
    let what = format!("processes may not copy from each other's memory: {}", copying.why);
    let cure = match copying.ptrace_scope {
        Some(2..) => "`sysctl -w kernel.yama.ptrace_scope=1`",
        _ => "in a container `--cap-add=SYS_PTRACE`; until then large messages within the host are copied twice",
    };
    Finding::new(Level::Warning, "single-copy-refused", host, what, cure)
}

fn processors(host: &str, facts: &Facts) -> Finding {
    let (usable, all) = (facts.machine.processors_usable, facts.machine.processors);
    if usable < all {
        let what = format!("{usable} of {} may be used, by affinity or a control group", counted(all, "processor"));
        let cure =
            "start no more ranks than that here; `taskset -p $$` and the file cpu.max of the control group say why";
        return Finding::new(Level::Note, "processors-limited", host, what, cure);
    }
    let whole = if all == 1 { "the only processor".to_owned() } else { format!("all {all} processors") };
    Finding::ok("processors", host, format!("{whole} may be used"))
}

fn receive_buffer(host: &str, facts: &Facts) -> Finding {
    let may_force = has(facts, CAP_NET_ADMIN);
    let what = format!("sockets may have {} to receive", bytes(facts.receive_buffer_max));
    if facts.receive_buffer_max >= RECEIVE_BUFFER_LOW || may_force {
        let what = if may_force { format!("{what}, and CAP_NET_ADMIN allows more") } else { what };
        return Finding::ok("socket-buffers", host, what);
    }
    let cure = format!("`sysctl -w net.core.rmem_max={}`, and a line in /etc/sysctl.d to keep it", 8 << 20);
    Finding::new(Level::Note, "socket-buffers-small", host, what, cure)
}

fn has(facts: &Facts, capability: u32) -> bool {
    facts.capabilities & (1 << capability) != 0
}

fn privileges(host: &str, facts: &Facts) -> Vec<Finding> {
    let raw = if has(facts, CAP_NET_RAW) {
        Finding::ok("raw-packets", host, "CAP_NET_RAW is there: links on Ethernet itself may be used")
    } else if let Some(path) = &facts.netd {
        Finding::ok("raw-packets", host, format!("weft-netd at {path} gives sockets for links on Ethernet itself"))
    } else {
        let cure = "nothing for UDP; for small messages on Ethernet itself, which are faster, `systemctl enable --now \
                    weft-netd.socket` and membership in the group weft, or `setcap cap_net_raw+ep PROGRAM`";
        Finding::new(Level::Note, "no-raw-packets", host, "there is neither CAP_NET_RAW nor weft-netd", cure)
    };
    let xdp = if has(facts, CAP_NET_ADMIN) && (has(facts, CAP_BPF) || has(facts, 21)) {
        Finding::ok("xdp-rights", host, "CAP_NET_ADMIN and CAP_BPF are there: AF_XDP may be used")
    } else {
        let cure = "nothing for UDP; for AF_XDP `setcap cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM`";
        Finding::new(Level::Note, "no-xdp-rights", host, "CAP_NET_ADMIN or CAP_BPF is missing", cure)
    };
    let namespaces = match facts.user_namespaces {
        Some(1..) => Finding::ok("user-namespaces", host, "user namespaces can be made"),
        _ => {
            let cure = "nothing, unless virtual hosts or containers are made without root: `sysctl -w user.max_user_namespaces=15000`";
            Finding::new(Level::Note, "no-user-namespaces", host, "user namespaces cannot be made", cure)
        }
    };
    vec![raw, xdp, namespaces]
}

fn locked_memory(host: &str, facts: &Facts) -> Finding {
    match facts.locked_bytes.0 {
        Some(limit) if limit < LOCKED_MEMORY_LOW => {
            let cure = "nothing for UDP; for AF_XDP and RDMA `* - memlock unlimited` in /etc/security/limits.conf";
            Finding::new(Level::Note, "locked-memory-small", host, format!("{} may be locked", bytes(limit)), cure)
        }
        Some(limit) => Finding::ok("locked-memory", host, format!("{} may be locked", bytes(limit))),
        None => Finding::ok("locked-memory", host, "memory may be locked without limit"),
    }
}

fn open_files(host: &str, facts: &Facts) -> Finding {
    // mpiexec raises the soft limit by itself.
    match facts.open_files.1 {
        Some(limit) if limit < OPEN_FILES_LOW => {
            let cure = "`* - nofile 65536` in /etc/security/limits.conf, or LimitNOFILE= of the service";
            Finding::new(Level::Warning, "open-files-few", host, format!("at most {limit} files may be open"), cure)
        }
        Some(limit) => Finding::ok("open-files", host, format!("{limit} files may be open")),
        None => Finding::ok("open-files", host, "files may be open without limit"),
    }
}

fn clock(seen: &HostSeen) -> Finding {
    let ahead = seen.clock_ahead_seconds;
    let source = seen.facts.clock_source.as_str();
    // The answer came somewhere between question and reply.
    let known = ahead.abs() - seen.answer_milliseconds / 2000.0;
    if known > CLOCK_AHEAD_HIGH {
        let direction = if ahead > 0.0 { "ahead of" } else { "behind" };
        let what = format!("its clock is {:.1} s {direction} this host's", ahead.abs());
        let cure =
            "`timedatectl set-ntp true`, or chrony; MPI needs no common clock, but logs and MPI_Wtime comparisons do";
        return Finding::new(Level::Warning, "clock-differs", &seen.name, what, cure);
    }
    if matches!(source, "jiffies" | "acpi_pm" | "refined-jiffies" | "hpet") {
        let cure = "look for `clocksource` in `dmesg`: why the processor's counter (tsc) is not used";
        return Finding::new(Level::Warning, "clock-slow", &seen.name, format!("the kernel's clock is {source}"), cure);
    }
    Finding::ok("clock", &seen.name, format!("its clock agrees with this host's, and comes from {source}"))
}

fn own_name(host: &str, facts: &Facts) -> Finding {
    let cure = "a line with its name in /etc/hosts; Weft does not need it, other programs wait for it";
    match facts.own_name_milliseconds {
        Some(milliseconds) if milliseconds < OWN_NAME_SLOW => Finding::ok("own-name", host, "it finds its own name"),
        Some(milliseconds) => {
            let what = format!("it finds its own name only after {milliseconds} ms");
            Finding::new(Level::Note, "own-name-slow", host, what, cure)
        }
        None => Finding::new(
            Level::Note,
            "own-name-unknown",
            host,
            format!("it does not find its own name: {}", facts.own_name_fault),
            cure,
        ),
    }
}

fn firewall(host: &str, facts: &Facts) -> Finding {
    let firewall = &facts.firewall;
    match (firewall.tool.as_str(), firewall.stopping) {
        ("", _) => Finding::ok("firewall", host, "no tool here tells of rules (not installed, or not allowed)"),
        (tool, 0) => Finding::ok("firewall", host, format!("{tool} knows no rule that stops packets")),
        (tool, count) => {
            let (rules, stop) = (counted(count, "rule"), if count == 1 { "stops" } else { "stop" });
            let what = format!("{tool} has {rules} that {stop} packets, such as `{}`", firewall.example);
            let cure = "nothing if packets below arrive; else let UDP from the other hosts pass";
            Finding::new(Level::Note, "firewall-rules", host, what, cure)
        }
    }
}

fn segmentation(host: &str, facts: &Facts) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let offered = facts.addresses.iter().filter(|address| address.refused.is_none());
    let first_of_each = offered.filter(|address| seen.insert(address.interface.as_str()));
    let finding = |interface: &str, on: bool| match on {
        true => Finding::ok("segmentation", host, format!("{interface} cuts large sends itself")),
        false => {
            let cure = format!("`ethtool -K {interface} tx-udp-segmentation on`, if the interface can");
            let what = format!("{interface} does not cut large sends itself; the kernel does");
            Finding::new(Level::Note, "no-segmentation", host, what, cure)
        }
    };
    first_of_each.filter_map(|address| Some(finding(&address.interface, address.segmentation?))).collect()
}

/// A host that offers the others nothing but loopback, and why.
fn only_loopback(host: &HostSeen) -> Option<Finding> {
    let is_loopback = |address: &&Address| address.address.starts_with("127.") || address.address.starts_with("::1/");
    let addresses = &host.facts.addresses;
    let mut offered = addresses.iter().filter(|address| address.refused.is_none()).peekable();
    if offered.peek().is_none() || !offered.all(|address| is_loopback(&address)) {
        return None;
    }
    let others = addresses.iter().filter(|address| !is_loopback(address));
    let reasons: Vec<String> = others
        .map(|other| format!("{} {}: {}", other.interface, other.address, other.refused.as_deref().unwrap_or_default()))
        .collect();
    let seen = if reasons.is_empty() { "no other interface has an address".to_owned() } else { reasons.join("; ") };
    let what = format!("it has no address that others can reach ({seen})");
    let cure = "`ip link set IF up`, `ip address add ADDRESS/PREFIX dev IF`, or let WEFT_INTERFACE name the right one";
    Some(Finding::new(Level::Fault, "only-loopback", &host.name, what, cure))
}

/// What all hosts together show.
pub(crate) fn of_all(hosts: &[HostSeen]) -> Vec<Finding> {
    let mut all = Vec::new();
    let Some(first) = hosts.first().filter(|_| hosts.len() > 1) else { return all };
    let is_one_machine = hosts.iter().all(|host| host.facts.network == first.facts.network);
    if !is_one_machine {
        all.extend(hosts.iter().filter_map(only_loopback));
    }
    for host in &hosts[1..] {
        if host.facts.user != first.facts.user {
            let what = format!("it runs as user {}, {} as user {}", host.facts.user, first.name, first.facts.user);
            let cure = "reach all hosts as the same user, such as with `User` in ~/.ssh/config";
            all.push(Finding::new(Level::Warning, "user-differs", &host.name, what, cure));
        }
    }
    for (index, host) in hosts.iter().enumerate() {
        if let Some(same) = hosts[..index].iter().find(|other| other.facts.network == host.facts.network) {
            let what = format!("it is the same machine as {}", same.name);
            let cure = "nothing if that is meant; their ranks share its processors";
            all.push(Finding::new(Level::Note, "same-machine", &host.name, what, cure));
        }
    }
    all
}

/// All directions between hosts. A link that fails where another one works does not stop programs.
pub(crate) fn of_pairs(pairs: &[&PairSeen]) -> Vec<Finding> {
    let works = |pair: &PairSeen| pair.short_arrived && pair.full_arrived;
    let is_helped =
        |pair: &PairSeen| pairs.iter().any(|other| works(other) && other.from == pair.from && other.to == pair.to);
    let mut all = Vec::new();
    for pair in pairs {
        let mut own = of_pair(pair);
        if is_helped(pair) {
            let faults = own.iter_mut().filter(|finding| finding.level == Level::Fault);
            faults.for_each(|finding| finding.level = Level::Warning);
        }
        all.extend(own);
    }
    all
}

/// One direction between two hosts over one link.
fn of_pair(seen: &PairSeen) -> Vec<Finding> {
    let subject = format!("{} → {}", seen.from, seen.to);
    let way = match &seen.way {
        None => return Vec::new(),
        Some(Err(why)) => {
            let cure =
                "let WEFT_INTERFACE name the interface that joins them; `ip address` on both shows what they have";
            return vec![Finding::new(Level::Fault, "no-path", &subject, format!("{}: {why}", seen.link), cure)];
        }
        Some(Ok(way)) => way,
    };
    let mut all = Vec::new();
    let between = format!("{} to {}", way.own, way.peer);
    match (seen.short_arrived, seen.full_arrived) {
        (false, _) => all.push(short_lost(seen, way, &subject)),
        (true, false) => all.push(full_lost(seen, way, &subject)),
        (true, true) => {
            let what =
                format!("{}: packets of {SHORT_BYTES} and {} bytes arrive, {between}", seen.link, way.packet_bytes);
            all.push(Finding::ok("packets-arrive", &subject, what));
        }
    }
    if way.own_bytes != way.peer_bytes {
        let what = format!(
            "{}: packets may have {} bytes here and {} there, so {} are used",
            seen.link, way.own_bytes, way.peer_bytes, way.packet_bytes
        );
        let cure = "`ip link set IF mtu N` with the same N on both, when the switch carries it";
        all.push(Finding::new(Level::Warning, "mtu-differs", &subject, what, cure));
    }
    all
}

fn short_lost(seen: &PairSeen, way: &LinkPath, subject: &str) -> Finding {
    let link = &seen.link;
    let between = format!("from {} to {}", way.own, way.peer);
    if let Some((_, why)) = seen.refused.iter().find(|(size, _)| *size == SHORT_BYTES) {
        let what = format!("{link}: this machine refuses packets {between}: {why}");
        let cure =
            format!("`ip route get {}` says by which way; look at the firewall's output rules too", ip_of(&way.peer));
        return Finding::new(Level::Fault, "packets-refused-here", subject, what, cure);
    }
    let pass = "`nft add rule inet filter input ip saddr SUBNET udp dport 1024-65535 accept`";
    let (name, text, cure) = match (seen.unanswered, &seen.firewall) {
        (Some(Unanswered::Refused), _) => {
            let cure = format!(
                "look for a rule that rejects on {}, and for a second host with the address {}",
                seen.to, way.peer
            );
            ("packets-rejected", "the other side answers that nobody listens there".to_owned(), cure)
        }
        (Some(Unanswered::Prohibited), _) => {
            let cure = format!("let UDP pass, on {} or the router between: {pass}", seen.to);
            ("packets-prohibited", "a firewall answers that it is prohibited".to_owned(), cure)
        }
        (Some(Unanswered::NoRoute), _) => {
            let cure = format!("`ip route get {}` on {}", ip_of(&way.peer), seen.from);
            ("packets-no-route", "there is no route".to_owned(), cure)
        }
        (Some(Unanswered::HostDown), _) => {
            let cure = format!("`ip neighbour` on {}, and the cable or VLAN between", seen.from);
            ("packets-lost", "the other side does not answer on its link".to_owned(), cure)
        }
        (_, Some(rule)) => {
            let cure = format!("{} has a rule `{rule}`; let UDP pass: {pass}", seen.to);
            ("packets-dropped", "nothing answers, as where a firewall drops".to_owned(), cure)
        }
        (_, None) => {
            let cure = format!(
                "is the interface up that has {} on {}, and the same network? else a firewall between",
                way.peer, seen.to
            );
            ("packets-lost", "nothing answers".to_owned(), cure)
        }
    };
    Finding::new(Level::Fault, name, subject, format!("{link}: no packet arrives {between}: {text}"), cure)
}

fn full_lost(seen: &PairSeen, way: &LinkPath, subject: &str) -> Finding {
    let link = &seen.link;
    let size = way.packet_bytes;
    let largest = seen.largest_arrived.map_or(String::new(), |largest| format!("; {largest} bytes still arrive"));
    let what = format!("{link}: packets of {size} bytes do not arrive from {} to {}{largest}", way.own, way.peer);
    let what = match seen.refused.iter().find(|(refused, _)| *refused == size) {
        Some((_, why)) => format!("{what}; {why}"),
        None => what,
    };
    // IPv4's and UDP's headers, as the largest size that was tried is a payload.
    let mtu = seen.largest_arrived.map_or("N".to_owned(), |largest| (largest + 28).to_string());
    let cure = format!(
        "something between carries less than the interfaces say; jobs find that out and go on with smaller packets, but lose time: \
         raise its MTU, or `ip link set IF mtu {mtu}` on both"
    );
    Finding::new(Level::Warning, "full-size-lost", subject, what, cure)
}

fn ip_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(ip, _)| ip.trim_matches(['[', ']']))
}

impl Default for HostSeen {
    fn default() -> Self {
        Self {
            name: String::new(),
            reached_seconds: 0.0,
            answer_milliseconds: 0.0,
            clock_ahead_seconds: 0.0,
            facts: Facts::default(),
            links: Vec::new(),
            multicast: Err("nobody has tried it".to_owned()),
            arrived: BTreeSet::new(),
        }
    }
}

/// Of so many packets in a row one may be lost before that is a finding.
const BURST_LOSS_SHARE: usize = 20;
const TREES: &str = "until then broadcasts between hosts go by trees (WEFT_BCAST=tree)";

/// Who hears whom by multicast, and what it is that keeps packets away; `names` by index.
pub(crate) fn of_multicast(hosts: &[HostSeen], names: &[String]) -> Vec<Finding> {
    let mut all = Vec::new();
    if hosts.len() < 2 {
        return all;
    }
    for host in hosts {
        if let Err(why) = &host.multicast {
            let what = format!("multicast could not be tried: {why}");
            all.push(Finding::new(Level::Note, "multicast-untried", &host.name, what, TREES));
        }
    }
    let tried: Vec<&HostSeen> = hosts.iter().filter(|host| host.multicast.is_ok()).collect();
    let before = all.len();
    for from in &tried {
        all.extend(of_multicast_from(from, &tried, names));
    }
    if all.len() == before && tried.len() > 1 {
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        let what = "multicast from each reaches all others, short and full packets, and many in a row";
        all.push(Finding::ok("multicast", &names.join(", "), what));
    }
    let wireless = |host: &&&HostSeen| host.facts.addresses.iter().any(|one| one.refused.is_none() && one.is_wireless);
    for host in tried.iter().filter(wireless) {
        let what = "an interface is wireless: access points send multicast at their lowest rate, and do not repeat what is lost";
        let cure = "a cable; or WEFT_INTERFACE names another interface; or WEFT_BCAST=tree";
        all.push(Finding::new(Level::Note, "multicast-wireless", &host.name, what, cure));
    }
    all
}

/// What becomes of the packets that one host multicasts.
fn of_multicast_from(from: &HostSeen, hosts: &[&HostSeen], names: &[String]) -> Vec<Finding> {
    let full_size = from.multicast.clone().unwrap_or(SHORT_BYTES);
    let is_from = |one: &&Arrived| names.get(usize::from(one.from)).is_some_and(|name| *name == from.name);
    let came = |host: &HostSeen, link: &str, is_one: &dyn Fn(usize) -> bool| {
        host.arrived.iter().filter(|one| one.link == link && is_one(one.bytes)).filter(is_from).count()
    };
    let in_a_row =
        |host: &HostSeen| came(host, MULTICAST, &|bytes| (SHORT_BYTES + 1..=SHORT_BYTES + BURST).contains(&bytes));
    let (mut unknown, mut filtered, mut cut, mut limited) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for host in hosts.iter().filter(|host| host.name != from.name) {
        let name = host.name.as_str();
        match (came(host, MULTICAST, &|_| true), came(host, MULTICAST_OF_LINK, &|_| true)) {
            (0, 1..) => unknown.push(name),
            (0, 0) => filtered.push(name),
            _ if in_a_row(host) < BURST - BURST / BURST_LOSS_SHARE => limited.push((name, in_a_row(host))),
            _ if came(host, MULTICAST, &|bytes| bytes == full_size) == 0 => cut.push(name),
            _ => {}
        }
    }
    let mut all = Vec::new();
    let mut note = |name, what: String, cure: &str| {
        all.push(Finding::new(Level::Note, name, &from.name, what, format!("{cure}; {TREES}")));
    };
    if !unknown.is_empty() {
        let what = format!(
            "multicast to a group that has been joined does not reach {}, and multicast to all of the link does: a switch snoops IGMP and does not know \
             who has joined",
            unknown.join(", ")
        );
        note(
            "multicast-snooped",
            what,
            "turn on an IGMP querier in this VLAN, or snooping off; look for a firewall on the hosts as well",
        );
    }
    if !filtered.is_empty() {
        let what = format!("no multicast reaches {}", filtered.join(", "));
        note(
            "multicast-lost",
            what,
            "let the switch, the hypervisor or the firewall between pass multicast (UDP to 239.255.0.0/16; of RDMA devices to 239.192.0.0/14), or put the hosts into one segment",
        );
    }
    if !cut.is_empty() {
        let what = format!("multicast packets of {full_size} bytes do not reach {}, short ones do", cut.join(", "));
        note("multicast-full-size-lost", what, "one MTU on all hosts and switches");
    }
    for (name, count) in limited {
        let arrive = if count == 1 { "arrives" } else { "arrive" };
        let what = format!("of {BURST} multicast packets in a row {count} {arrive} at {name}");
        note(
            "multicast-limited",
            what,
            "raise the switch's limit for multicast (storm control, rate limit), or the receive buffers (net.core.rmem_max)",
        );
    }
    all
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
