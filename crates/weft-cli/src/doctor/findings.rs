//! Findings: pure functions from the facts and test packets of the hosts to the faults, warnings and notes
//! that the user reads. So every finding can be tested with made-up facts.

mod host;
mod multicast;
mod pair;

use super::facts::{Address, Facts};
use super::protocol::{Arrived, LinkPath, OpenedLink, Unanswered};
pub(super) use host::of_host;
pub(super) use multicast::of_multicast;
pub(super) use pair::of_pairs;
use serde::Serialize;
use std::collections::BTreeSet;

/// The severity of a finding, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// The host is as it should be.
    Ok,
    /// A fact worth knowing; nothing is wrong.
    Note,
    /// Programs run, but slower than they could, or with less than they could have.
    Warning,
    /// Programs will not run.
    Fault,
}

/// A finding about a host or a pair of hosts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// A name that stays the same, for scripts and for the book.
    pub(crate) name: &'static str,
    /// The host, or the pair as `h0 → h1`.
    pub(crate) subject: String,
    /// The observation in one sentence.
    pub(crate) what: String,
    /// The cure in one sentence; empty where nothing has to be done.
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

/// The controller's observations of one host.
#[derive(Clone, Debug)]
pub(crate) struct HostSeen {
    pub(crate) name: String,
    /// Seconds until the agent greeted.
    pub(crate) reached_seconds: f64,
    /// The time of the quickest answer, milliseconds, and the time by which the host's clock was ahead of the
    /// controller's then, seconds.
    pub(crate) answer_milliseconds: f64,
    pub(crate) clock_ahead_seconds: f64,
    pub(crate) facts: Facts,
    pub(crate) links: Vec<OpenedLink>,
    /// The bytes of the longest packet that the host multicasts, or the reason why multicast could not be
    /// tried.
    pub(crate) multicast: Result<usize, String>,
    /// The packets that arrived, each once.
    pub(crate) arrived: BTreeSet<Arrived>,
}

/// The observations of one direction between two hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct PairSeen {
    pub(crate) link: String,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) path: Option<Result<LinkPath, String>>,
    /// The sizes that the sending machine refused, each with the reason.
    pub(crate) refused: Vec<(usize, String)>,
    pub(crate) short_arrived: bool,
    pub(crate) full_arrived: bool,
    /// The size of the largest packet that arrived when the full one did not, bytes.
    pub(crate) largest_arrived: Option<usize>,
    /// The fate of short packets that do not arrive.
    pub(crate) unanswered: Option<Unanswered>,
    /// An example of the receiving host's firewall rules that stop packets, if it has such rules.
    pub(crate) firewall: Option<String>,
}

impl PairSeen {
    /// Returns whether packets left this machine and did not arrive, and the network has not been asked for
    /// the reason.
    pub(crate) fn is_unexplained(&self) -> bool {
        !self.short_arrived && matches!(self.path, Some(Ok(_))) && self.refused.is_empty() && self.unanswered.is_none()
    }
}

/// The finding about a host that cannot be reached.
pub(crate) fn unreachable(host: &str, why: &str) -> Finding {
    let cure = "try `ssh -o BatchMode=yes HOST true`: it must ask for nothing; weft must be there under the same path, or name it \
                with --agent-program";
    Finding::new(Level::Fault, "host-unreachable", host, format!("it cannot be reached: {why}"), cure)
}

/// The finding about a host whose command is of another version.
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

/// The finding about a host that stopped answering.
pub(crate) fn lost(host: &str, why: &str) -> Finding {
    let cure = "run `weft doctor` on that host itself, without hosts; if it hangs there too, look at its kernel log with `dmesg`";
    Finding::new(Level::Fault, "host-stopped-answering", host, format!("it was reached, then {why}"), cure)
}

/// The finding about a host that offers the others only loopback, with the reason.
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

/// The findings about all hosts together.
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

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
