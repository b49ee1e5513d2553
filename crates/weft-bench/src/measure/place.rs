//! Places: the number of hosts and ranks, and the speed and loss of the links between the hosts.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::hosts::fabric::{self, Fabric, Failure, Plan};
use crate::hosts::loss::Loss;
use crate::hosts::namespaces::{self, Ground};
use crate::record;

use super::reached::Reached;

/// The most virtual hosts: with more on one machine a figure measures only its scheduler.
pub(crate) const HOSTS_MAX: u32 = 8;
pub(crate) const RANKS_MAX: u32 = 512;

/// A place before it exists.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlannedPlace {
    /// The number of hosts; 1: the machine as it is.
    pub(crate) hosts: u32,
    pub(crate) ranks: u32,
    /// The hosts that exist already; `None`: several hosts are virtual ones.
    pub(crate) reached: Option<Reached>,
    pub(crate) rate: Option<String>,
    pub(crate) loss: Option<Loss>,
}

impl PlannedPlace {
    pub(crate) fn id(&self) -> String {
        let several = |count: u32, word: &str| format!("{count}-{word}{}", if count == 1 { "" } else { "s" });
        let mut id = format!("{}-{}", several(self.hosts, "host"), several(self.ranks, "rank"));
        if self.reached.is_some() {
            id += "-by-name";
        }
        if let Some(rate) = &self.rate {
            id += &format!("-{rate}");
        }
        if let Some(loss) = self.loss {
            id += &format!("-loss-{}%", loss.percent);
        }
        id
    }

    /// The number of ranks on each host but the last.
    pub(crate) fn ranks_per_host(&self) -> u32 {
        self.ranks.div_ceil(self.hosts)
    }

    /// Returns whether ranks can measure the time of a cache line between their processors: each rank has a
    /// processor of its own.
    pub(crate) fn has_lines(&self) -> bool {
        self.hosts == 1 && (2..=processors()).contains(&self.ranks)
    }

    /// The place as the run file records it. `ground`: the place where its hosts are made.
    pub(crate) fn record(&self, ground: Ground) -> record::Place {
        let loss = self.loss.map(|_| "segmentation offload is off, so that a lost frame is one packet".to_owned());
        let remark = ground.remark().filter(|_| self.has_virtual_hosts());
        let named = self.reached.as_ref().map(|reached| format!("the hosts {}", reached.names.join(", ")));
        let notes: Vec<String> = loss.into_iter().chain(remark).chain(named).collect();
        record::Place {
            id: self.id(),
            hosts: self.hosts,
            ranks: self.ranks,
            rate: self.rate.clone(),
            loss_percent: self.loss.map(|loss| loss.percent),
            processors: processors(),
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            lines: None,
        }
    }

    /// Returns whether hosts must be made for this place.
    pub(crate) fn has_virtual_hosts(&self) -> bool {
        self.hosts > 1 && self.reached.is_none()
    }

    /// Makes the hosts of this place; `None` where the place is the machine itself.
    pub(crate) fn open(&self, work: &Path, stop: &mut dyn FnMut() -> Option<i32>) -> Result<Option<Net>, Failure> {
        if let Some(reached) = &self.reached {
            return Ok(Some(Net::Reached(reached.clone())));
        }
        if self.hosts == 1 {
            return Ok(None);
        }
        let rates = self.rate.clone().into_iter().collect();
        let plan = Plan { count: self.hosts as usize, interfaces: 1, rates, loss: self.loss };
        let fabric = Fabric::create(&plan, stop)?;
        let agent = work.join("agent");
        write_agent(&agent, fabric.hosts()).map_err(|error| format!("cannot write {}: {error}", agent.display()))?;
        Ok(Some(Net::Virtual { fabric, agent }))
    }
}

/// Goes to where the virtual hosts of these places can be made, if there are any. Like
/// [`namespaces::prepare`] it must be called while the process has one thread.
///
/// # Errors
/// The reason why hosts cannot be made.
pub(crate) fn ground(places: &[PlannedPlace], is_quiet: bool) -> Result<Ground, String> {
    if !places.iter().any(PlannedPlace::has_virtual_hosts) {
        return Ok(Ground::Machine);
    }
    let ground = namespaces::prepare().map_err(|why| format!("{why}; run it as root, or with --hosts 1"))?;
    if let (Some(remark), false) = (ground.remark(), is_quiet) {
        crate::out::say!("{remark}");
    }
    Ok(ground)
}

pub(crate) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

/// The hosts of an open place.
pub(crate) enum Net {
    /// Virtual hosts, and the script by which other launchers reach them in the place of `ssh`.
    Virtual { fabric: Fabric, agent: PathBuf },
    /// Hosts that exist already.
    Reached(Reached),
}

impl Net {
    pub(crate) fn hosts(&self) -> &[String] {
        match self {
            Self::Virtual { fabric, .. } => fabric.hosts(),
            Self::Reached(reached) => &reached.names,
        }
    }

    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual { .. })
    }

    /// The script in the place of `ssh`; `None` where ssh itself reaches the hosts.
    pub(crate) fn agent(&self) -> Option<&Path> {
        match self {
            Self::Virtual { agent, .. } => Some(agent),
            Self::Reached(_) => None,
        }
    }

    /// The hosts, as other launchers reach them.
    pub(crate) fn addresses(&self) -> Vec<String> {
        match self {
            Self::Virtual { fabric, .. } => (0..fabric.hosts().len()).map(fabric::address).collect(),
            Self::Reached(reached) => reached.names.clone(),
        }
    }

    /// The bytes that have crossed the wire so far; `None` where nobody counts them.
    pub(crate) fn sent_bytes(&self) -> Result<Option<u64>, String> {
        match self {
            Self::Virtual { fabric, .. } => fabric.sent_bytes().map(Some),
            Self::Reached(reached) => Ok(reached.traffic()),
        }
    }

    /// The words that put a command into the virtual host at `index`; none for hosts that exist already.
    pub(crate) fn enter(&self, index: usize) -> Vec<String> {
        match self {
            Self::Virtual { fabric, .. } => {
                vec![this_command(), "hosts".into(), "enter".into(), fabric.hosts()[index].clone()]
            }
            Self::Reached(_) => Vec::new(),
        }
    }
}

/// The path of this command, by which others can start it.
pub(crate) fn this_command() -> String {
    std::env::current_exe().map_or_else(|_| "weft".to_owned(), |path| path.display().to_string())
}

/// Writes the script `agent [OPTION…] ADDRESS COMMAND…`, which is called as `ssh` would be.
fn write_agent(path: &Path, hosts: &[String]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    writeln!(file, "#!/bin/sh\nwhile [ \"${{1#-}}\" != \"$1\" ]; do shift; done\ncase $1 in")?;
    for (index, host) in hosts.iter().enumerate() {
        writeln!(file, "{}) host={host} ;;", fabric::address(index))?;
    }
    writeln!(file, "*) echo \"agent: no host has the address $1\" >&2; exit 1 ;;\nesac\nshift")?;
    writeln!(file, "exec '{}' hosts enter \"$host\" sh -c \"$*\"", this_command())?;
    file.set_permissions(std::fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_names() {
        let mut place = PlannedPlace { hosts: 1, ranks: 2, reached: None, rate: None, loss: None };
        assert_eq!(place.id(), "1-host-2-ranks");
        place = PlannedPlace { hosts: 2, rate: Some("10gbit".into()), ..place };
        assert_eq!(place.id(), "2-hosts-2-ranks-10gbit");
        place = PlannedPlace { rate: None, loss: "1%".parse().ok(), ranks: 3, ..place };
        assert_eq!((place.id().as_str(), place.ranks_per_host()), ("2-hosts-3-ranks-loss-1%", 2));
        let note = |ground| place.record(ground).note.unwrap_or_default();
        assert!(note(Ground::Machine).contains("segmentation offload") && !note(Ground::Machine).contains("user"));
        assert!(note(Ground::UserNamespace).contains("user namespace"));
    }

    /// Ranks that share a processor cannot wait for each other's writes, and ranks of other hosts count as on
    /// other machines.
    #[test]
    fn only_ranks_of_one_host_with_a_processor_each_have_lines() {
        let has = |hosts, ranks| PlannedPlace { hosts, ranks, reached: None, rate: None, loss: None }.has_lines();
        let all = processors();
        assert_eq!([has(1, 1), has(2, 2), has(1, all + 1)], [false; 3]);
        assert_eq!(has(1, 2), all >= 2);
    }
}
