//! Hosts that exist already, and are reached by ssh or by the means of a batch system.

use std::fs;
use std::path::Path;

use weft_launch::{mpiexec, reach};
use weft_mpi::settings::AGENT;

/// The word that stands for the hosts of a batch system's allocation.
const ALLOCATION: &str = "allocation";
/// The word of a host that sees a file.
const SEEN: &str = "seen-here";
/// The most hosts of a place.
pub(crate) const REACHED_MAX: usize = 1024;
/// The columns of `/proc/net/dev` that count bytes, received and sent, behind the interface's name.
const BYTES_COLUMNS: [usize; 2] = [0, 8];

/// Hosts by their names, and the command that reaches one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) names: Vec<String>,
    /// The command, with `{host}` for the host's name.
    template: String,
}

impl Reached {
    /// The hosts of these words.
    ///
    /// # Errors
    /// One sentence: there is no allocation, a word is no host, or there are too few or too many.
    pub(crate) fn of(words: &[String]) -> Result<Self, String> {
        let said = std::env::var(AGENT.name).ok().filter(|text| !text.is_empty());
        let (names, allocated) = match words {
            [word] if word == ALLOCATION => {
                let allocated = mpiexec::allocated()?;
                let allocated =
                    allocated.ok_or("--on allocation: this process runs in no allocation of a batch system")?;
                (allocated.hosts, allocated.template)
            }
            _ => (reach::hosts(&words.join(","))?, None),
        };
        let template = said.or(allocated).unwrap_or_else(|| AGENT.default.to_owned());
        reach::command("host", &template, "true", &[]).map_err(|why| format!("{}: {why}", AGENT.name))?;
        if !(2..=REACHED_MAX).contains(&names.len()) {
            return Err(format!("--on names {} hosts; it takes from 2 to {REACHED_MAX}", names.len()));
        }
        Ok(Self { names, template })
    }

    /// Checks that all hosts see the directory of the programs that are built.
    ///
    /// # Errors
    /// One sentence: a host cannot be reached, or sees another directory.
    pub(crate) fn share(&self, cache: &Path) -> Result<(), String> {
        let probe = cache.join(format!("seen-by-all-{}", std::process::id()));
        let cannot = |error: std::io::Error| format!("cannot write {}: {error}", probe.display());
        fs::create_dir_all(cache).and_then(|()| fs::write(&probe, "")).map_err(cannot)?;
        let own = reach::full_name();
        let mut others = self.names.iter().filter(|name| !reach::is_local(name, &own));
        let result = others.try_for_each(|name| self.sees(name, &probe));
        let _ = fs::remove_file(&probe);
        result
    }

    fn sees(&self, name: &str, probe: &Path) -> Result<(), String> {
        let script = format!("test -e '{}' && echo {SEEN} || echo no", probe.display());
        let words = reach::command(name, &self.template, "sh", &["-c", &script])?;
        let said = mpiexec::output(&words).map_err(|why| format!("the host {name} cannot be reached: {why}"))?;
        // A remote shell may print something before.
        if said.trim_end().ends_with(SEEN) {
            return Ok(());
        }
        Err(format!(
            "the host {name} does not see {}, where programs are built: set XDG_CACHE_HOME to a directory that all \
             hosts share",
            probe.with_file_name("").display()
        ))
    }

    /// The bytes that this host's interfaces have received and sent so far; `None` where this host is none of
    /// the hosts, or does not count.
    pub(crate) fn traffic(&self) -> Option<u64> {
        let own = reach::full_name();
        let takes_part = self.names.iter().any(|name| reach::is_local(name, &own));
        traffic_in(&fs::read_to_string("/proc/net/dev").ok()?).filter(|_| takes_part)
    }
}

/// The bytes in the text of `/proc/net/dev` (proc(5)), but for the loopback interface.
fn traffic_in(text: &str) -> Option<u64> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let mut sum = None;
    for (_, counts) in lines.filter(|(name, _)| name.trim() != "lo") {
        let counts: Vec<&str> = counts.split_whitespace().collect();
        for column in BYTES_COLUMNS {
            let bytes: u64 = counts.get(column)?.parse().ok()?;
            sum = Some(sum.unwrap_or(0_u64).wrapping_add(bytes));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_and_counted() {
        let of = |text: &str| Reached::of(&text.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("a,me@b").expect("two hosts").names, ["a", "me@b"]);
        assert!(of("a").unwrap_err().contains("from 2"));
        assert!(of("a,-x").is_err());
    }

    #[test]
    fn traffic_is_that_of_all_interfaces_but_loopback() {
        let head = "Inter-|   Receive      |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes\n";
        let text = format!("{head}    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n  eth0: 7 1 0 0 0 0 0 0 11 1 0 0 0 0 0 0\n");
        assert_eq!(traffic_in(&text), Some(18));
        assert_eq!(traffic_in(head), None);
        assert_eq!(traffic_in("eth0: 1 2"), None);
    }
}
