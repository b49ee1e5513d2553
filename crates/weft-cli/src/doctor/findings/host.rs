//! The findings about one host alone.

use super::{Finding, HostSeen, Level};
use crate::doctor::facts::Facts;
use crate::doctor::protocol::OpenedLink;
use crate::info::amounts::{bytes, counted};
use std::collections::BTreeSet;

/// Free shared memory below which few ranks find room, bytes: the segment of 16 ranks.
const SHARED_MEMORY_LOW: u64 = 32 << 20;
/// A receive buffer below which packets of several peers are lost while a rank computes, bytes.
const RECEIVE_BUFFER_LOW: u64 = 4 << 20;
/// The number of open files below which a host's agent cannot hold a hundred ranks' pipes.
const OPEN_FILES_LOW: u64 = 1024;
/// The locked memory below which AF_XDP and RDMA cannot register their buffers, bytes.
const LOCKED_MEMORY_LOW: u64 = 64 << 20;
/// The error of a clock above which the logs of two hosts cannot be compared, seconds.
const CLOCK_AHEAD_HIGH: f64 = 1.0;
/// The time above which the search for the own name is slow, milliseconds.
const OWN_NAME_SLOW: u64 = 1000;
/// The time above which the start of an agent is slow, seconds.
const REACH_SLOW: f64 = 5.0;
/// The numbers of capabilities (capabilities(7)).
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_BPF: u32 = 39;

/// The findings about one host alone.
pub(in crate::doctor) fn of_host(seen: &HostSeen) -> Vec<Finding> {
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
    // A single link that works is enough for programs to run.
    let level = if links.iter().any(|link| link.endpoint_address.is_ok()) { Level::Warning } else { Level::Fault };
    for link in links {
        if let Err(why) = &link.endpoint_address {
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
    // The host answered somewhere between the question and the arrival of the reply.
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
