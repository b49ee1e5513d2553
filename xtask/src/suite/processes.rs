//! Jobs that meet at ports, and jobs that spawn others (MPI-5.0 §11.8 to §11.10).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use super::chaos::is_kept;
use super::context::{Context, Expected};
use super::process::Run;
use super::programs::BAD_DAY;
use super::{Case, Outcome};

const PORTS: &str = "tests/c/ports.c";
const SPAWN: &str = "tests/c/spawn.c";
const MISSING: &str = "tests/c/spawn_missing.c";
const ERRHANDLER: &str = "tests/c/initial_errhandler.c";
/// A process says this that shares no memory with another job on its host.
const SHARES_NO_MEMORY: &str = "this process shares no memory with another job on its host";
const LIMIT_SECONDS: u64 = 60;
const LIMIT_ALL_SECONDS: u64 = 900;
/// The clients of one server, one after the other, and the jobs that one job spawns: in `make test`, and in
/// the long target.
const CLIENTS: u32 = 60;
const CLIENTS_ALL: u32 = 1_000;
const SPAWNS: u32 = 40;
const SPAWNS_ALL: u32 = 1_000;

/// The place of a job.
#[derive(Clone, Copy)]
enum Job {
    /// A process that no launcher has started.
    Alone,
    OneHost(u32),
    TwoHosts(u32),
}

impl Job {
    fn name(self) -> String {
        match self {
            Job::Alone => "a process that no launcher started".to_owned(),
            Job::OneHost(ranks) => format!("{ranks} ranks on one host"),
            Job::TwoHosts(ranks) => format!("{ranks} ranks on two hosts"),
        }
    }

    /// The command that runs `program` as this job where it can reach the job `other`. The two virtual hosts
    /// have a network of their own, to which the machine itself does not belong.
    fn run_beside(self, other: Job, context: &Context, program: &Path) -> anyhow::Result<Run> {
        let Job::TwoHosts(_) = other else { return self.run(context, program) };
        let hosts = context.hosts()?;
        let host = hosts.names.first().context("a host")?;
        Ok(match self {
            Job::Alone => hosts.on(host, [program]),
            Job::OneHost(ranks) => {
                hosts.on(host, [context.bin("mpiexec")]).arg("-n").arg(ranks.to_string()).arg(program)
            }
            Job::TwoHosts(_) => self.run(context, program)?,
        })
    }

    /// The command that runs `program` as this job.
    fn run(self, context: &Context, program: &Path) -> anyhow::Result<Run> {
        Ok(match self {
            Job::Alone => Run::new(program),
            Job::OneHost(ranks) => context.mpiexec(ranks).arg(program),
            Job::TwoHosts(ranks) => context.mpiexec_on_hosts(ranks)?.arg(program),
        })
    }
}

/// Runs `server` and, beside it, `client`; both must succeed.
fn both(server: &Run, client: &Run, limit: u64) -> Outcome {
    let mut serving = match server.start() {
        Ok(serving) => serving,
        Err(error) => return Outcome::Failed(format!("{error:#}")),
    };
    let came = Expected::code(0).judge(client.clone().limit(limit).finish());
    if let Outcome::Passed = came {
        return Expected::code(0).judge(serving.finish(Duration::from_secs(limit)));
    }
    // The server waits for clients that do not come any more.
    let served = serving.kill().and_then(|()| serving.finish(Duration::from_secs(limit)));
    match (came, served) {
        (Outcome::Failed(text), Ok(served)) => Outcome::Failed(format!("{text}\nthe server:\n{}", served.report())),
        (came, _) => came,
    }
}

/// The file in which a server tells the name of its port.
fn port_file(context: &Context, what: &str) -> std::path::PathBuf {
    let file = context.work.join(format!("port-{what}-{}", std::process::id()));
    // The file of an earlier run that was ended by force leads nowhere.
    let _ = std::fs::remove_file(&file);
    file
}

/// A case in which two jobs meet at a port, twice.
fn meeting(what: &'static str, server: Job, client: Job, settings: &'static [(&'static str, &'static str)]) -> Case {
    let name = format!("{} and {} meet at a port{what}", server.name(), client.name());
    Case::new(name, move |context| {
        context.compile(PORTS).and_then(|program| {
            let file = port_file(context, "meeting");
            let job = |job: Job, other: Job, word: &str| {
                let run = job.run_beside(other, context, &program)?.arg(word).arg(&file).arg("2");
                Ok::<_, anyhow::Error>(settings.iter().fold(run, |run, (name, value)| run.env(name, value)))
            };
            Ok(both(&job(server, client, "serve")?, &job(client, server, "come")?, LIMIT_SECONDS))
        })
    })
}

/// A case of a server with many clients, one after the other.
fn clients(count: u32, limit: u64) -> Case {
    Case::new(format!("a server has {count} clients one after the other, and grows by nothing"), move |context| {
        context.compile(PORTS).map(|program| {
            let file = port_file(context, "clients");
            let server = context.mpiexec(2).arg(&program).arg("clients").arg(&file).arg(count.to_string());
            let server = server.env("WEFT_TEST_SECONDS", limit.to_string());
            let loops = format!("for i in $(seq {count}); do \"$@\" || exit 1; done");
            let client = Run::new("sh").arg("-c").arg(loops).arg("sh").arg(&program).arg("client").arg(&file);
            both(&server, &client, limit)
        })
    })
}

/// A case of parents and children on one host: they share memory, and use no network.
fn neighbours() -> Case {
    Case::new("parents and children of one host share memory", |context| {
        let attempt = || {
            let run = context.mpiexec(2).arg("--stats").arg(context.compile(SPAWN)?).limit(LIMIT_SECONDS);
            run.finish()
        };
        Expected::code(0).says("messages to other jobs: ").says(" shared\n").never_says(" udp").judge(attempt())
    })
}

/// A directory for shared memory of a case.
struct SharedMemory(PathBuf);

impl SharedMemory {
    fn new() -> anyhow::Result<Self> {
        let path = PathBuf::from(format!("/dev/shm/weft-processes-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    /// The segments; what is kept of measured costs is none.
    fn segments(&self) -> anyhow::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let names: Vec<String> = names.collect::<std::io::Result<_>>()?;
        Ok(names.into_iter().filter(|name| !is_kept(name)).collect())
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A case of two jobs of one process each on one host. No directory has room for the memory that they should
/// share. The two meet all the same, twice, and the process that should have made the memory says so once.
fn without_memory() -> Case {
    Case::new("two jobs of one host meet at a port, and no directory has room: messages take the network", |context| {
        let attempt = || {
            let (program, file) = (context.compile(PORTS)?, port_file(context, "full"));
            // No file may be longer than some kilobytes.
            let limited = r#"trap "" XFSZ; ulimit -f 8; exec "$@""#;
            let job = |word: &str| {
                let run = Run::new("sh").arg("-c").arg(limited).arg("sh").arg(&program).arg(word).arg(&file);
                run.arg("2").limit(LIMIT_SECONDS)
            };
            let serving = job("serve").start()?;
            let finished = [job("come").finish()?, serving.finish(Duration::from_secs(LIMIT_SECONDS))?];
            let said: usize = finished.iter().map(|one| one.report().matches(SHARES_NO_MEMORY).count()).sum();
            let outcomes = finished.map(|one| Expected::code(0).judge(Ok(one)));
            let failed = outcomes.into_iter().find(|outcome| !matches!(outcome, Outcome::Passed));
            let once = if said == 1 {
                Outcome::Passed
            } else {
                Outcome::Failed(format!("{SHARES_NO_MEMORY:?} is said {said} times"))
            };
            Ok::<_, anyhow::Error>(failed.unwrap_or(once))
        };
        attempt().unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")))
    })
}

/// A case of a client that is killed while it is connected: the server is told, goes on, and no file of
/// memory that they have shared is left.
fn killed(client: Job) -> Case {
    let name = format!("a client is killed, {}: the server goes on, and no shared memory is left", client.name());
    Case::new(name, move |context| {
        let attempt = || {
            let (program, memory) = (context.compile(PORTS)?, SharedMemory::new()?);
            let file = port_file(context, "killed");
            let with_file = |run: Run, word: &str| run.arg(word).arg(&file).env("WEFT_SHM_DIR", &memory.0);
            let server = with_file(context.mpiexec(2).arg(&program), "bereaved").start()?;
            let limit = Duration::from_secs(LIMIT_SECONDS);
            with_file(client.run(context, &program)?, "dies").limit(LIMIT_SECONDS).finish()?;
            let next = with_file(Run::new(&program), "client").limit(LIMIT_SECONDS).finish();
            let outcomes = [Expected::code(0).judge(next), Expected::code(0).judge(server.finish(limit))];
            let left = memory.segments()?;
            if !left.is_empty() {
                return Ok(Outcome::Failed(format!("shared memory is left: {left:?}")));
            }
            let failed = outcomes.into_iter().find(|outcome| !matches!(outcome, Outcome::Passed));
            Ok::<_, anyhow::Error>(failed.unwrap_or(Outcome::Passed))
        };
        attempt().unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")))
    })
}

/// A case of a job that begins with one error handler, and spawns another that begins with another.
fn begins_with(own: &'static str, spawned: &'static str) -> Case {
    Case::new(format!("a job begins with {own}, and spawns one that begins with {spawned}"), move |context| {
        let attempt = || {
            let run = context.mpiexec(2).arg("-initial-errhandler").arg(own);
            run.arg(context.compile(ERRHANDLER)?).args([own, spawned]).limit(LIMIT_SECONDS).finish()
        };
        Expected::code(0).judge(attempt())
    })
}

/// A case of a program that is not there, under a launcher that does not tell that it is not.
fn missing_under_hydra() -> Case {
    Case::new("a program that is not there is spawned under Hydra: one error at every rank", |context| {
        let attempt = || {
            let run = Run::new(context.python("mpiexec.hydra")).args(["-n", "2"]);
            run.arg(context.compile(MISSING)?).arg("3").limit(LIMIT_SECONDS).finish()
        };
        Expected::code(0).says("rank 0 has the error").says("rank 1 has the error").judge(attempt())
    })
}

/// A case of a job that spawns others.
fn spawning(job: Job, settings: &'static [(&'static str, &'static str)], what: &'static str) -> Case {
    Case::new(format!("{} spawn jobs{what}", job.name()), move |context| {
        let run = context.compile(SPAWN).and_then(|program| job.run(context, &program));
        let run = run.map(|run| settings.iter().fold(run, |run, (name, value)| run.env(name, value)));
        Expected::code(0).judge(run.and_then(|run| run.limit(LIMIT_SECONDS).finish()))
    })
}

/// A case of a job that spawns many others, one after the other.
fn many(count: u32, limit: u64) -> Case {
    Case::new(format!("{count} jobs are spawned one after the other"), move |context| {
        let run = context.compile(SPAWN).map(|program| context.mpiexec(1).arg(program));
        let run = run.map(|run| run.arg("many").arg(count.to_string()).env("WEFT_TEST_SECONDS", limit.to_string()));
        Expected::code(0).judge(run.and_then(|run| run.limit(limit).finish()))
    })
}

/// The suite of `make test`.
pub(crate) fn cases(_: &Context) -> Vec<Case> {
    vec![
        meeting("", Job::OneHost(3), Job::OneHost(2), &[]),
        meeting("", Job::Alone, Job::Alone, &[]),
        meeting("", Job::TwoHosts(4), Job::TwoHosts(2), &[]),
        meeting(", sealed", Job::OneHost(2), Job::OneHost(2), &[("WEFT_SEALED", "1")]),
        meeting(" on a bad day", Job::TwoHosts(2), Job::TwoHosts(4), &[("WEFT_FAULTS", BAD_DAY)]),
        clients(CLIENTS, LIMIT_SECONDS),
        killed(Job::OneHost(2)),
        killed(Job::Alone),
        neighbours(),
        missing_under_hydra(),
        begins_with("mpi_errors_return", "mpi_errors_abort"),
        begins_with("mpi_errors_abort", "mpi_errors_return"),
        without_memory(),
        spawning(Job::OneHost(3), &[], ""),
        spawning(Job::Alone, &[], ""),
        spawning(Job::TwoHosts(4), &[], ""),
        spawning(Job::TwoHosts(2), &[("WEFT_FAULTS", BAD_DAY)], " on a bad day"),
        many(SPAWNS, LIMIT_SECONDS),
    ]
}

/// The long target.
pub(crate) fn all_cases(_: &Context) -> Vec<Case> {
    let jobs = [Job::Alone, Job::OneHost(1), Job::OneHost(5), Job::TwoHosts(2), Job::TwoHosts(6)];
    let mut cases = Vec::new();
    for server in jobs {
        cases.extend(jobs.map(|client| meeting("", server, client, &[])));
        cases.push(meeting(" on a bad day", server, Job::TwoHosts(3), &[("WEFT_FAULTS", BAD_DAY)]));
        cases.push(spawning(server, &[], ""));
        cases.push(spawning(server, &[("WEFT_FAULTS", BAD_DAY)], " on a bad day"));
    }
    cases.extend([clients(CLIENTS_ALL, LIMIT_ALL_SECONDS), many(SPAWNS_ALL, LIMIT_ALL_SECONDS)]);
    cases
}
