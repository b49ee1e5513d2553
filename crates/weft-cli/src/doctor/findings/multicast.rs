//! The findings about packets to multicast groups.

use super::{Finding, HostSeen, Level};
use crate::doctor::protocol::{Arrived, BURST, MULTICAST, MULTICAST_OF_LINK, SHORT_BYTES};

/// The number of packets in a row of which one may be lost without a finding.
const BURST_LOSS_SHARE: usize = 20;
const TREES: &str = "until then broadcasts between hosts go by trees (WEFT_BCAST=tree)";

/// The findings about multicast: the hosts that hear each other, and the cause that keeps packets away;
/// `names` by index.
pub(in crate::doctor) fn of_multicast(hosts: &[HostSeen], names: &[String]) -> Vec<Finding> {
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

/// The findings about the packets that one host multicasts.
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
