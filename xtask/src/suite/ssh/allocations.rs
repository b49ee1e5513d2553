//! Tests of `mpiexec` in allocations of PBS, LSF, Grid Engine and Flux, as their environments show them.
//! Programs with the names of theirs stand in for them: each notes how it was called, and runs the command in
//! a virtual host.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use super::super::context::{Context, Expected};
use super::super::process::{Finished, Run};
use super::super::{Case, Outcome};
use super::{BEHAVE, RING, script};

const READY: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(20);
/// The longest time for `weft doctor`, in seconds.
const LIMIT: u64 = 60;

/// A batch system.
struct System {
    name: &'static str,
    /// The variables of a job on two hosts. `$0` and `$1` stand for them, `$file` for a file.
    variables: &'static [(&'static str, &'static str)],
    /// The text of that file.
    file: &'static str,
    /// The stand-ins: their names and scripts. `enter` runs a command in a host.
    programs: &'static [(&'static str, &'static str)],
    /// The note of how the program was called for the second host.
    noted: &'static str,
}

const SYSTEMS: [System; 5] = [
    System {
        name: "PBS with pbs_attach",
        variables: &[("PBS_NODEFILE", "$file"), ("PBS_JOBID", "12[3].head"), ("PBS_ENVIRONMENT", "PBS_BATCH")],
        file: "$0\n$0\n$1\n$1\n",
        programs: &[
            // ssh hands its words to a shell on the host.
            ("ssh", "while [ \"${1#-}\" != \"$1\" ]; do shift 2; done; host=$1; shift; enter \"$host\" sh -c \"$*\""),
            ("pbs_attach", "shift 2; exec \"$@\""),
        ],
        noted: "pbs_attach: -j 12[3].head",
    },
    System {
        name: "PBS without pbs_attach, by ssh",
        variables: &[("PBS_NODEFILE", "$file"), ("PBS_JOBID", "12.head")],
        file: "$0\n$0\n$1\n$1\n",
        programs: &[(
            "ssh",
            "while [ \"${1#-}\" != \"$1\" ]; do shift 2; done; host=$1; shift; enter \"$host\" sh -c \"$*\"",
        )],
        noted: "ssh: -o BatchMode=yes $1",
    },
    System {
        name: "LSF",
        variables: &[("LSB_JOBID", "7"), ("LSB_MCPU_HOSTS", "$0 2 $1 2"), ("LSB_HOSTS", "$0 $0 $1 $1")],
        file: "",
        programs: &[("blaunch", "host=$1; shift; enter \"$host\" \"$@\"")],
        noted: "blaunch: $1 ",
    },
    System {
        name: "Grid Engine",
        variables: &[("JOB_ID", "7"), ("PE_HOSTFILE", "$file"), ("NSLOTS", "4")],
        file: "$0 2 all.q@$0 UNDEFINED\n$1 2 all.q@$1 UNDEFINED\n",
        programs: &[("qrsh", "[ \"$1\" = -inherit ] && host=$2 && shift 2 && enter \"$host\" \"$@\"")],
        noted: "qrsh: -inherit $1 ",
    },
    System {
        name: "Flux",
        variables: &[("FLUX_URI", "local:///run/flux/local")],
        file: r#"{"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0-1"}}],
               "starttime": 0.0, "expiration": 0.0, "nodelist": ["$0", "$1"]}}"#,
        programs: &[(
            "flux",
            "case $1 in resource) cat \"$file\" ;; exec) shift 2; eval host=\\$host$1; shift; enter \"$host\" \"$@\" ;; esac",
        )],
        noted: "flux: exec --rank 1 ",
    },
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for system in &SYSTEMS {
        cases.push(Case::new(format!("an allocation of {}", system.name), |context| ring(context, system)));
        cases.push(Case::new(format!("an allocation of {}, cancelled", system.name), |context| {
            cancelled(context, system)
        }));
        cases.push(Case::new(format!("weft doctor in an allocation of {}", system.name), |context| {
            examined(context, system)
        }));
    }
    cases.push(Case::new("hosts of an allocation that the user names", |context| named(context, &SYSTEMS[2])));
    cases
}

/// Expect: the batch system's program has started the agents of its own hosts, although the user named them.
fn named(context: &Context, system: &System) -> anyhow::Result<Outcome> {
    let (played, run) = play(context, system, "mpiexec")?;
    let run = run.args(["--hosts", &played.hosts.join(","), "-n", "2"]).arg(context.compile(RING)?);
    match Expected::code(0).says("2 ranks").says("(right)").judge(run.finish()) {
        Outcome::Passed => Ok(noted(&played, system).map_or(Outcome::Passed, Outcome::Failed)),
        outcome => Ok(outcome),
    }
}

/// The names of the two hosts, and the directory with the stand-ins.
struct Played {
    hosts: [String; 2],
    directory: PathBuf,
}

impl Played {
    fn filled(&self, text: &str) -> String {
        let file = self.directory.join("file").display().to_string();
        text.replace("$0", &self.hosts[0]).replace("$1", &self.hosts[1]).replace("$file", &file)
    }

    fn notes(&self) -> String {
        std::fs::read_to_string(self.directory.join("notes")).unwrap_or_default()
    }
}

/// Makes the stand-ins of a batch system, and runs `program` in its allocation.
fn play(context: &Context, system: &System, program: &str) -> anyhow::Result<(Played, Run)> {
    let names = &context.hosts()?.names;
    let directory = context.work.join("batch").join(system.name.replace(' ', "-"));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory)?;
    let played = Played { hosts: [names[0].clone(), names[1].clone()], directory };
    std::fs::write(played.directory.join("file"), played.filled(system.file))?;
    let enter = context.hosts()?.agent.replace("{host}", "\"$host\"");
    for (name, text) in system.programs {
        let head = format!(
            "echo \"{name}: $*\" >>'{notes}'\nenter() {{ host=$1; shift; exec {enter} \"$@\"; }}\nfile='{file}'\n\
             host0='{}'\nhost1='{}'\n",
            played.hosts[0],
            played.hosts[1],
            notes = played.directory.join("notes").display(),
            file = played.directory.join("file").display(),
        );
        script(played.directory.join(name), &format!("{head}{text}"))?;
    }
    let path = std::env::join_paths(
        std::iter::once(played.directory.clone()).chain(std::env::split_paths(&super::super::process::search_path())),
    )?;
    let run = Run::new(context.bin(program)).env("PATH", path);
    let run = system.variables.iter().fold(run, |run, (name, value)| run.env(name, played.filled(value)));
    Ok((played, run))
}

/// Expect: ranks on both hosts, and agents that the batch system's program has started.
fn ring(context: &Context, system: &System) -> anyhow::Result<Outcome> {
    let (played, run) = play(context, system, "mpiexec")?;
    let finished = run.arg("-v").arg(context.compile(RING)?).finish();
    let missing = noted(&played, system);
    match Expected::code(0).says("4 ranks").says("(right)").says("has allocated").judge(finished) {
        Outcome::Passed => Ok(missing.map_or(Outcome::Passed, Outcome::Failed)),
        outcome => Ok(outcome),
    }
}

/// The reason why the batch system's program was not called as it should be.
fn noted(played: &Played, system: &System) -> Option<String> {
    let (expected, notes) = (played.filled(system.noted), played.notes());
    (!notes.contains(&expected)).then(|| format!("no note has {expected:?}:\n{notes}"))
}

/// Expect: `weft doctor` examines the hosts of the allocation. It reaches those of Flux by ssh, because it
/// knows them by name only, and there is no ssh server here.
fn examined(context: &Context, system: &System) -> anyhow::Result<Outcome> {
    let (played, run) = play(context, system, "weft")?;
    let [one, other] = &played.hosts;
    let finished = run.args(["doctor", "--json"]).limit(LIMIT).finish()?;
    for host in [one, other] {
        anyhow::ensure!(finished.output.contains(host), "{host} is not there:\n{}", finished.report());
    }
    let expected = match system.name {
        "Flux" => Expected::code(1).says("host-unreachable"),
        _ => Expected::code(0).never_says("host-unreachable"),
    };
    Ok(expected.judge(Ok(finished)))
}

/// Expect: nothing is left of a job whose `mpiexec` the batch system ends.
fn cancelled(context: &Context, system: &System) -> anyhow::Result<Outcome> {
    let (_, run) = play(context, system, "mpiexec")?;
    let attempt = || -> anyhow::Result<Finished> {
        let running = run.arg(context.compile(BEHAVE)?).arg("hang").start()?;
        anyhow::ensure!(running.says("ready", READY), "it did not start:\n{}", running.output());
        kill_process(running.pid(), Signal::TERM)?;
        running.finish(END)
    };
    Ok(Expected::code(143).judge(attempt()))
}
