//! The hosts that a batch system has given to this job, from the environment of `mpiexec`, and the batch
//! system's own way to start an agent on them: Slurm, PBS, LSF, Grid Engine or Flux, as one table.

mod flux;

use super::run;
use crate::agent;
use crate::hosts::{self, Host};
use crate::reach::{self, RemoteShell};
use crate::words;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// The most hosts of an allocation.
const HOSTS_MAX: usize = 1 << 16;

/// What surrounds `mpiexec`.
pub(crate) struct Surroundings<'a> {
    /// Looks into the environment. An empty variable counts as not set.
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    /// Reads a file.
    pub(crate) read: &'a dyn Fn(&str) -> Result<String, String>,
    /// Runs a program and returns what it prints.
    pub(crate) run: &'a dyn Fn(&[&str]) -> Result<String, String>,
    /// Finds a program in PATH, and returns its path.
    pub(crate) program: &'a dyn Fn(&str) -> Option<String>,
    /// The name of this host.
    pub(crate) own_name: &'a str,
    /// The command template of the remote shell.
    pub(crate) remote_shell: &'a str,
}

/// The hosts of an allocation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Allocation {
    /// The batch system.
    pub(crate) system: &'static str,
    /// The hosts with their slots.
    pub(crate) hosts: Vec<Host>,
    /// The command template of the batch system's own way to start a program on a host; `None`: it has none,
    /// or the program for it is not here.
    pub(crate) agent: Option<String>,
}

impl Allocation {
    /// The batch system's command template for these hosts, and the name by which it reaches each. `None`: it
    /// has no way of its own, or not to all of them.
    pub(crate) fn means(&self, hosts: &[&str]) -> Option<(String, Vec<String>)> {
        let name = |named: &&str| {
            let is_it = |host: &&Host| host.name == **named || host.reached_as.as_deref() == Some(*named);
            let host = self.hosts.iter().find(is_it)?;
            Some(host.reached_as.clone().unwrap_or_else(|| host.name.clone()))
        };
        Some((self.agent.clone()?, hosts.iter().map(name).collect::<Option<_>>()?))
    }
}

/// A batch system.
struct System {
    name: &'static str,
    /// The hosts, if this system has given some.
    hosts: fn(&Surroundings<'_>) -> Result<Option<Vec<Host>>, String>,
    /// The way to start a program on a host.
    agent: Option<Agent>,
}

/// A batch system's own way to start a program on a host of the allocation. The program's standard input and
/// output must be those of the command.
struct Agent {
    /// The program that must be in PATH.
    program: &'static str,
    /// A variable without which the program does not know the job; empty: it needs none.
    job: &'static str,
    /// The command template. `{program}` stands for the path of that program, `{remote shell}` for the
    /// template of the remote shell, and `{NAME}` for the value of a variable as one word for a shell.
    template: &'static str,
}

/// All batch systems; the first that has given hosts counts.
const SYSTEMS: [System; 5] = [
    System {
        name: "Slurm",
        hosts: slurm,
        agent: Some(Agent { program: "srun", job: "SLURM_JOB_ID", template: reach::SLURM_TEMPLATE }),
    },
    // A process that ssh starts belongs to the job once pbs_attach has run it: PBS counts and ends it.
    // pbs_tmrsh and pbsdsh connect neither the standard input nor the output of the program on the host.
    System {
        name: "PBS",
        hosts: pbs,
        agent: Some(Agent {
            program: "pbs_attach",
            job: "PBS_JOBID",
            template: "{remote shell} {program} -j {PBS_JOBID}",
        }),
    },
    System {
        name: "LSF",
        hosts: lsf,
        agent: Some(Agent { program: "blaunch", job: "", template: "{program} {host}" }),
    },
    System {
        name: "Grid Engine",
        hosts: grid_engine,
        agent: Some(Agent { program: "qrsh", job: "", template: "{program} -inherit {host}" }),
    },
    // A host is reached by the rank of its broker (`flux.rs`).
    System {
        name: "Flux",
        hosts: flux::hosts,
        agent: Some(Agent { program: "flux", job: "", template: "{program} exec --rank {host}" }),
    },
];

/// Finds the allocation of this process; `None` where there is none.
///
/// # Errors
/// One sentence about the variable, file or program that is wrong.
pub(crate) fn of_environment(remote_shell: &RemoteShell) -> Result<Option<Allocation>, String> {
    let path = std::env::var_os("PATH").map(OsString::into_vec);
    let program = |name: &str| {
        let found = agent::find_program(name.as_bytes(), path.as_deref(), Path::new("/")).ok()?;
        found.into_os_string().into_string().ok()
    };
    find(&Surroundings {
        variable: &|name| std::env::var(name).ok().filter(|value| !value.is_empty()),
        read: &|path| std::fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}")),
        run: &|words| run::output(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()),
        program: &program,
        own_name: &reach::own_name(),
        remote_shell: &remote_shell.template(),
    })
}

/// Finds the allocation of this job; `None` where there is none.
///
/// # Errors
/// One sentence about the variable, file or program that is wrong.
pub(crate) fn find(surroundings: &Surroundings<'_>) -> Result<Option<Allocation>, String> {
    for system in &SYSTEMS {
        let explain = |why: String| format!("the allocation of {}: {why}; --hosts names hosts instead", system.name);
        if let Some(hosts) = (system.hosts)(surroundings).map_err(explain)? {
            let agent = system.agent.as_ref().and_then(|agent| template(agent, surroundings));
            return Ok(Some(Allocation { system: system.name, hosts, agent }));
        }
    }
    Ok(None)
}

/// The command template, if its program and its variables are here.
fn template(agent: &Agent, surroundings: &Surroundings<'_>) -> Option<String> {
    let program = (surroundings.program)(agent.program)?;
    if !agent.job.is_empty() {
        (surroundings.variable)(agent.job)?;
    }
    let mut rest = agent.template;
    let mut out = String::new();
    while let Some((before, (name, after))) =
        rest.split_once('{').and_then(|(before, behind)| Some((before, behind.split_once('}')?)))
    {
        out.push_str(before);
        match name {
            "host" => out.push_str("{host}"),
            "program" => out.push_str(&words::quote(&program)),
            "remote shell" => out.push_str(surroundings.remote_shell),
            // The template is split into words here, and the shell of the other host splits them once more.
            _ => out.push_str(&words::quote(&words::quote(&(surroundings.variable)(name)?))),
        }
        rest = after;
    }
    Some(out + rest)
}

fn slurm(surroundings: &Surroundings<'_>) -> Result<Option<Vec<Host>>, String> {
    let variable = surroundings.variable;
    let Some(list) = variable("SLURM_JOB_NODELIST") else { return Ok(None) };
    let slots = variable("SLURM_TASKS_PER_NODE").or_else(|| variable("SLURM_JOB_CPUS_PER_NODE"));
    let mut hosts = of_slurm(&list, slots.as_deref())?;
    // Slurm's name of this host may differ from the system's.
    let own = variable("SLURMD_NODENAME");
    if let Some(host) = hosts.iter_mut().find(|host| Some(&host.name) == own.as_ref()) {
        host.reached_as = Some(std::mem::replace(&mut host.name, surroundings.own_name.to_owned()));
    }
    Ok(Some(hosts))
}

/// PBS lists a host once for each process that it shall hold (`mpiprocs`, or `ppn` of TORQUE).
fn pbs(surroundings: &Surroundings<'_>) -> Result<Option<Vec<Host>>, String> {
    let Some(path) = (surroundings.variable)("PBS_NODEFILE") else { return Ok(None) };
    (surroundings.read)(&path).and_then(|text| of_lines(&text, |_| Ok(1))).map(Some)
}

/// LSF says the same in three ways. The first is short; the last ends after a few thousand letters.
fn lsf(surroundings: &Surroundings<'_>) -> Result<Option<Vec<Host>>, String> {
    let variable = surroundings.variable;
    if let Some(text) = variable("LSB_MCPU_HOSTS") {
        let words: Vec<&str> = text.split_whitespace().collect();
        let lines: Vec<String> = words.chunks(2).map(|pair| pair.join(" ")).collect();
        return of_lines(&lines.join("\n"), second).map(Some);
    }
    if let Some(path) = variable("LSB_DJOB_HOSTFILE") {
        return (surroundings.read)(&path).and_then(|text| of_lines(&text, |_| Ok(1))).map(Some);
    }
    let Some(text) = variable("LSB_HOSTS") else { return Ok(None) };
    of_lines(&text.split_whitespace().collect::<Vec<_>>().join("\n"), |_| Ok(1)).map(Some)
}

fn grid_engine(surroundings: &Surroundings<'_>) -> Result<Option<Vec<Host>>, String> {
    let Some(path) = (surroundings.variable)("PE_HOSTFILE") else { return Ok(None) };
    (surroundings.read)(&path).and_then(|text| of_lines(&text, second)).map(Some)
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

    fn allocated(variables: &[(&str, &str)], file: &str, programs: &[&str]) -> Result<Option<Allocation>, String> {
        find(&Surroundings {
            variable: &|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()),
            read: &|path| if path == "/file" { Ok(file.to_owned()) } else { Err(format!("no {path}")) },
            run: &|words| {
                assert_eq!(words, ["flux", "resource", "R"]);
                Ok(file.to_owned())
            },
            program: &|name| programs.contains(&name).then(|| format!("/opt/my tools/{name}")),
            own_name: "here",
            remote_shell: "ssh -o BatchMode=yes {host}",
        })
    }

    fn found(variables: &[(&str, &str)], file: &str) -> Result<Vec<String>, String> {
        let hosts = allocated(variables, file, &[])?.map(|allocation| allocation.hosts).unwrap_or_default();
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
        assert_eq!(found(&[("LSB_DJOB_HOSTFILE", "/file")], "a\na\nb\n").expect("hosts"), ["a:2", "b:1"]);
        assert_eq!(found(&[("LSB_HOSTS", "a a b ")], "").expect("hosts"), ["a:2", "b:1"]);
        let engine = "a 4 all.q@a UNDEFINED\nb 2 all.q@b UNDEFINED\n";
        assert_eq!(found(&[("PE_HOSTFILE", "/file")], engine).expect("hosts"), ["a:4", "b:2"]);
        assert_eq!(found(&[("HOME", "/root")], "").expect("none"), Vec::<String>::new());
    }

    /// Expect: the batch system starts the agents where its program is in PATH, else the remote shell.
    #[test]
    fn each_batch_system_starts_agents_by_its_own_means() {
        let resources = r#"{"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0-3"}}],
                           "nodelist": ["n[0-1]"]}}"#;
        let twice_quoted = words::quote(&words::quote("12[3].head"));
        let attached = format!("ssh -o BatchMode=yes {{host}} '/opt/my tools/pbs_attach' -j {twice_quoted}");
        for (variables, file, program, expected) in [
            (&[("SLURM_JOB_NODELIST", "n1")][..], "", "srun", None),
            (&[("SLURM_JOB_NODELIST", "n1"), ("SLURM_JOB_ID", "5")], "", "srun", Some(reach::SLURM_TEMPLATE)),
            (&[("PBS_NODEFILE", "/file"), ("PBS_JOBID", "12[3].head")], "a\n", "pbs_attach", Some(&*attached)),
            (&[("PBS_NODEFILE", "/file")], "a\n", "pbs_attach", None),
            (&[("LSB_MCPU_HOSTS", "a 4")], "", "blaunch", Some("'/opt/my tools/blaunch' {host}")),
            (&[("PE_HOSTFILE", "/file")], "a 4 q U\n", "qrsh", Some("'/opt/my tools/qrsh' -inherit {host}")),
            (&[("FLUX_URI", "local:///run")], resources, "flux", Some("'/opt/my tools/flux' exec --rank {host}")),
        ] {
            let with = allocated(variables, file, &[program]).expect("an allocation").expect("hosts");
            assert_eq!(with.agent.as_deref(), expected, "{}", with.system);
            let without = allocated(variables, file, &[]).expect("an allocation").expect("hosts");
            assert_eq!((&without.agent, &without.hosts), (&None, &with.hosts));
            assert_eq!(without.means(&[&with.hosts[0].name]), None);
        }
    }

    #[test]
    fn hosts_outside_of_an_allocation_are_not_reached_by_its_means() {
        let lsf = allocated(&[("LSB_MCPU_HOSTS", "a 4 b 2")], "", &["blaunch"]).expect("an allocation").expect("hosts");
        let blaunch = "'/opt/my tools/blaunch' {host}".to_owned();
        assert_eq!(lsf.means(&["b", "a"]), Some((blaunch.clone(), vec!["b".into(), "a".into()])));
        assert_eq!(lsf.means(&[]), Some((blaunch, Vec::new())));
        assert_eq!((lsf.means(&["a", "login"]), lsf.means(&["me@a"])), (None, None));
        let own = [("SLURM_JOB_NODELIST", "n[1-3]"), ("SLURM_JOB_ID", "12"), ("SLURMD_NODENAME", "n2")];
        let slurm = allocated(&own, "", &["srun"]).expect("an allocation").expect("hosts");
        let names = slurm.means(&["n1", "here", "n2"]).map(|(_, names)| names);
        assert_eq!(names, Some(["n1", "n2", "n2"].map(String::from).to_vec()), "this host has two names");
        let resources = r#"{"R_lite": [{"rank": "0-1", "children": {"core": "0"}}], "nodelist": ["n[3-4]"]}"#;
        let flux = allocated(&[("FLUX_URI", "x")], resources, &["flux"]).expect("an allocation").expect("hosts");
        assert_eq!(flux.means(&["n4"]).map(|(_, names)| names), Some(vec!["1".to_owned()]));
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
            [("LSB_DJOB_HOSTFILE", "/gone")],
            [("FLUX_URI", "local:///run")],
        ] {
            let said = found(&variables, "").expect_err("nonsense");
            assert!(said.starts_with("the allocation of ") && said.contains("--hosts"), "{said}");
        }
    }
}
