//! The hosts that a batch system has given to this job, from the environment of `mpiexec`: Slurm, PBS, LSF or
//! Grid Engine.

use crate::hosts::{self, Host};
use crate::reach;

/// The most hosts of an allocation.
const HOSTS_MAX: usize = 1 << 16;

/// Returns the hosts of the allocation with their slots; an empty list where there is no allocation.
/// `variable` looks into the environment, `read` into a file; `own_name` is this host's.
///
/// # Errors
/// One sentence about the variable or file that is wrong.
pub(crate) fn hosts(
    variable: &dyn Fn(&str) -> Option<String>,
    read: &dyn Fn(&str) -> Result<String, String>,
    own_name: &str,
) -> Result<Vec<Host>, String> {
    let explain = |system: &str, why: String| format!("the allocation of {system}: {why}; --hosts names hosts instead");
    if let Some(list) = variable("SLURM_JOB_NODELIST") {
        let slots = variable("SLURM_TASKS_PER_NODE").or_else(|| variable("SLURM_JOB_CPUS_PER_NODE"));
        let mut hosts = of_slurm(&list, slots.as_deref()).map_err(|why| explain("Slurm", why))?;
        // Slurm's name of this host may differ from the system's.
        let own = variable("SLURMD_NODENAME");
        if let Some(host) = hosts.iter_mut().find(|host| Some(&host.name) == own.as_ref()) {
            own_name.clone_into(&mut host.name);
        }
        return Ok(hosts);
    }
    if let Some(path) = variable("PBS_NODEFILE") {
        let listed = read(&path).and_then(|text| of_lines(&text, |_| Ok(1)));
        return listed.map_err(|why| explain("PBS", why));
    }
    if let Some(text) = variable("LSB_MCPU_HOSTS") {
        let words: Vec<&str> = text.split_whitespace().collect();
        let lines: Vec<String> = words.chunks(2).map(|pair| pair.join(" ")).collect();
        return of_lines(&lines.join("\n"), second).map_err(|why| explain("LSF", why));
    }
    if let Some(path) = variable("PE_HOSTFILE") {
        return read(&path).and_then(|text| of_lines(&text, second)).map_err(|why| explain("Grid Engine", why));
    }
    Ok(Vec::new())
}

/// Returns the command template that reaches `hosts` by the batch system's own means; `None` where they are
/// not hosts of an allocation that has such means.
pub(crate) fn template(variable: &dyn Fn(&str) -> Option<String>, hosts: &[&str]) -> Option<&'static str> {
    let (_, list) = variable("SLURM_JOB_ID").zip(variable("SLURM_JOB_NODELIST"))?;
    let listed = expand(&list).ok()?;
    hosts.iter().all(|host| listed.iter().any(|name| name == host)).then_some(reach::SLURM_TEMPLATE)
}

/// Reads a host in the first word of each line. `slots` finds its slots in the other words.
fn of_lines(text: &str, slots: impl Fn(&[&str]) -> Result<u32, String>) -> Result<Vec<Host>, String> {
    let mut list = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((name, rest)) = words.split_first() else { continue };
        let host = hosts::parse_list(name)?.remove(0);
        hosts::add(&mut list, Host { slots: Some(slots(rest)?), ..host });
    }
    if list.is_empty() { Err("it names no host".into()) } else { Ok(list) }
}

/// The number of slots in the word behind the name.
fn second(rest: &[&str]) -> Result<u32, String> {
    hosts::parse_slots(rest.first().copied().unwrap_or("1"))
}

/// Reads Slurm's list of hosts, `n[01-03,7],login`, with their slots, `2(x3),1`.
fn of_slurm(list: &str, slots: Option<&str>) -> Result<Vec<Host>, String> {
    let names = expand(list)?;
    let mut numbers = Vec::new();
    for item in slots.into_iter().flat_map(|text| text.split(',')) {
        let (number, times) = match item.split_once("(x") {
            Some((number, times)) => {
                (number, times.trim_end_matches(')').parse().map_err(|_| format!("`{item}` says no number"))?)
            }
            None => (item, 1),
        };
        numbers.extend(std::iter::repeat_n(hosts::parse_slots(number)?, usize::min(times, HOSTS_MAX)));
    }
    let mut all = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let host = hosts::parse_list(name)?.remove(0);
        hosts::add(&mut all, Host { slots: Some(numbers.get(at).copied().unwrap_or(1)), ..host });
    }
    Ok(all)
}

/// Expands the names of a list. Commas divide it, except inside brackets; brackets hold numbers and ranges of
/// numbers.
fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let (mut depth, mut begin) = (0_i32, 0);
    for (at, letter) in list.char_indices().chain([(list.len(), ',')]) {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 || at == list.len() => {
                expand_one(list[begin..at].trim(), &mut names)?;
                begin = at + 1;
            }
            _ => {}
        }
    }
    Ok(names)
}

fn expand_one(text: &str, names: &mut Vec<String>) -> Result<(), String> {
    let Some((front, rest)) = text.split_once('[') else {
        if !text.is_empty() {
            names.push(text.to_owned());
        }
        return if names.len() > HOSTS_MAX { Err(format!("more than {HOSTS_MAX} hosts")) } else { Ok(()) };
    };
    let wrong = || format!("`{text}` is no list of hosts");
    let (numbers, back) = rest.split_once(']').ok_or_else(wrong)?;
    for item in numbers.split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        for value in number(first)?..=number(last)? {
            expand_one(&format!("{front}{value:0width$}{back}", width = first.len()), names)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)], file: &str) -> Result<Vec<String>, String> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let read = |path: &str| if path == "/file" { Ok(file.to_owned()) } else { Err(format!("no {path}")) };
        let hosts = hosts(&variable, &read, "here")?;
        Ok(hosts.into_iter().map(|host| format!("{}:{}", host.name, host.slots.unwrap_or(0))).collect())
    }

    #[test]
    fn each_batch_system_says_its_hosts() {
        let slurm = [("SLURM_JOB_NODELIST", "n[08-10,7],login"), ("SLURM_TASKS_PER_NODE", "2(x3),1,5")];
        assert_eq!(found(&slurm, "").expect("hosts"), ["n08:2", "n09:2", "n10:2", "n7:1", "login:5"]);
        let own = [("SLURM_JOB_NODELIST", "r[1-2]n[1-2]"), ("SLURMD_NODENAME", "r1n2")];
        assert_eq!(found(&own, "").expect("hosts"), ["r1n1:1", "here:1", "r2n1:1", "r2n2:1"]);
        assert_eq!(found(&[("PBS_NODEFILE", "/file")], "a\na\nb\n").expect("hosts"), ["a:2", "b:1"]);
        assert_eq!(found(&[("LSB_MCPU_HOSTS", "a 4 b 2")], "").expect("hosts"), ["a:4", "b:2"]);
        let engine = "a 4 all.q@a UNDEFINED\nb 2 all.q@b UNDEFINED\n";
        assert_eq!(found(&[("PE_HOSTFILE", "/file")], engine).expect("hosts"), ["a:4", "b:2"]);
        assert_eq!(found(&[("HOME", "/root")], "").expect("none"), Vec::<String>::new());
    }

    #[test]
    fn hosts_of_an_allocation_of_slurm_are_reached_by_srun() {
        let template = |variables: &[(&str, &str)], hosts: &[&str]| {
            let variable =
                |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            super::template(&variable, hosts).map(|template| template.contains("srun") && template.contains("{host}"))
        };
        let inside = [("SLURM_JOB_ID", "12"), ("SLURM_JOB_NODELIST", "n[1-3]")];
        assert_eq!(template(&inside, &["n1", "n3"]), Some(true));
        assert_eq!(template(&inside, &["n1", "login"]), None, "srun reaches no host outside of the allocation");
        assert_eq!(template(&inside[1..], &["n1"]), None);
        assert_eq!(template(&[], &["n1"]), None);
    }

    #[test]
    fn what_is_no_allocation_is_said() {
        for variables in [
            [("SLURM_JOB_NODELIST", "n[1-")],
            [("SLURM_JOB_NODELIST", "n[a-b]")],
            [("SLURM_JOB_NODELIST", "n[0-99999999]")],
            [("PBS_NODEFILE", "/gone")],
            [("PE_HOSTFILE", "/file")],
            [("LSB_MCPU_HOSTS", "a x")],
        ] {
            let said = found(&variables, "").expect_err("nonsense");
            assert!(said.starts_with("the allocation of ") && said.contains("--hosts"), "{said}");
        }
    }
}
