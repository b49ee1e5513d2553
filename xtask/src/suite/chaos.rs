//! The control plane of Weft's launcher under fire: `mpiexec`, an agent or a rank is killed or stopped at
//! every stage of a job, from seeds. The job ends, and nothing of it is left: processes, files of shared
//! memory, temporary files. (Sockets without a file end with their processes.)

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weft_random::Random;

use super::Case;
use super::context::Context;
use super::needs::Need;
use super::process::{Finished, Run, Running};

/// The ranks of each job.
const RANKS: u32 = 4;
/// The seeds of each case of `launcher-chaos`, by the blow: whoever is stopped costs a time limit. And the
/// seeds of each case that `make test` runs.
const SEEDS_KILLED: std::ops::Range<u64> = 0..8;
const SEEDS_STOPPED: std::ops::Range<u64> = 0..1;
const SEEDS_SELECTED: std::ops::Range<u64> = 0..1;
/// The longest time between the stage and the blow, in microseconds.
const DELAY_US_MAX: u64 = 6_000;
/// The time in which a stage comes.
const STAGE_LIMIT: Duration = Duration::from_secs(30);
/// The time in which a job ends that has a limit of [`TIME_LIMIT`]: `mpiexec` gives agents up that do not
/// answer, ten seconds later.
const END_SECONDS: u64 = 60;
const TIME_LIMIT: &str = "4";
const HOST_TIMEOUT: &str = "2";
/// The time for which `mpiexec` itself is stopped.
const STOPPED: Duration = Duration::from_millis(300);
const POLL: Duration = Duration::from_micros(500);
const STAGES_C: &str = "tests/launcher/stages.c";

/// What the blow waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// `mpiexec` has been started.
    Begins,
    /// There is an agent.
    Agents,
    /// There is a rank.
    Ranks,
    /// Rank 0 is about to call `MPI_Init`.
    Joins,
    /// All ranks are in the middle of their work.
    Works,
    /// Rank 0 is about to call `MPI_Finalize`.
    Leaves,
    /// Rank 0 has left it.
    Over,
}

impl Stage {
    const ALL: [Stage; 7] =
        [Stage::Begins, Stage::Agents, Stage::Ranks, Stage::Joins, Stage::Works, Stage::Leaves, Stage::Over];

    fn name(self) -> &'static str {
        match self {
            Stage::Begins => "as it begins",
            Stage::Agents => "when there is an agent",
            Stage::Ranks => "when there is a rank",
            Stage::Joins => "before MPI_Init",
            Stage::Works => "in the middle",
            Stage::Leaves => "before MPI_Finalize",
            Stage::Over => "after MPI_Finalize",
        }
    }

    /// The line by which the program says that it is there.
    fn mark(self) -> Option<&'static str> {
        match self {
            Stage::Begins | Stage::Agents | Stage::Ranks => None,
            Stage::Joins => Some("stage started"),
            Stage::Works => Some("stage ready"),
            Stage::Leaves => Some("stage ending"),
            Stage::Over => Some("stage done"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Mpiexec,
    Agent,
    Rank,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    Kill,
    Stop,
}

/// One story: who is hit, how, when and where.
#[derive(Clone, Copy)]
struct Plot {
    victim: Victim,
    blow: Blow,
    stage: Stage,
    two_hosts: bool,
}

impl Plot {
    fn name(self) -> String {
        let victim = match self.victim {
            Victim::Mpiexec => "mpiexec",
            Victim::Agent => "an agent",
            Victim::Rank => "a rank",
        };
        let blow = if self.blow == Blow::Kill { "killed" } else { "stopped" };
        let place = if self.two_hosts { "two hosts" } else { "one host" };
        format!("{victim} is {blow} {}, {place}", self.stage.name())
    }
}

/// Every victim at every stage.
pub(crate) fn cases(_: &Context) -> Vec<Case> {
    let mut cases = Vec::new();
    for two_hosts in [false, true] {
        for victim in [Victim::Mpiexec, Victim::Agent, Victim::Rank] {
            for blow in [Blow::Kill, Blow::Stop] {
                let plots = Stage::ALL.map(|stage| Plot { victim, blow, stage, two_hosts });
                let seeds = if blow == Blow::Kill { SEEDS_KILLED } else { SEEDS_STOPPED };
                cases.extend(plots.map(|plot| case(plot, seeds.clone())));
            }
        }
    }
    cases
}

/// The cases of the suite `launcher`: every victim is killed on two hosts as the job begins and as it ends.
pub(super) fn selection() -> Vec<Case> {
    let victims = [Victim::Mpiexec, Victim::Agent, Victim::Rank];
    let plots = victims.into_iter().flat_map(|victim| {
        [Stage::Ranks, Stage::Leaves].map(|stage| Plot { victim, blow: Blow::Kill, stage, two_hosts: true })
    });
    plots.map(|plot| case(plot, SEEDS_SELECTED)).collect()
}

fn case(plot: Plot, seeds: std::ops::Range<u64>) -> Case {
    let case = Case::new(plot.name(), move |context| {
        seeds
            .clone()
            .try_for_each(|seed| story(context, plot, seed).map_err(|error| error.context(format!("seed {seed}"))))
    });
    case.needs(if plot.two_hosts { &[Need::Networks] } else { &[] })
}

/// Returns whether a file of this name in a directory for shared memory stays for later jobs: the costs of
/// the machine's protocols, if a job has found the time to measure them.
pub(super) fn is_kept(name: &str) -> bool {
    name.starts_with("weft.costs.")
}

/// A folder for the files of one story, gone with it: in memory, where shared memory usually is.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> anyhow::Result<Folder> {
        let path = PathBuf::from(format!("/dev/shm/weft-chaos-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path)?;
        Ok(Folder(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The names of the files in it, except that of the costs that Weft keeps for the user's next jobs
    /// ([`is_kept`]).
    pub(super) fn files(&self) -> anyhow::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.0)?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        Ok(names.filter(|name| !is_kept(name)).collect())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn story(context: &Context, plot: Plot, seed: u64) -> anyhow::Result<()> {
    let program = context.compile(STAGES_C)?;
    let folder = Folder::new()?;
    let mut random = Random::new(seed);
    let running = job(context, plot, &folder)?.arg(&program).start()?;
    let hit = strike(&running, plot, &mut random)?;
    let finished = running.finish(Duration::from_secs(END_SECONDS))?;
    let has_worked = finished.output.contains("stage ending");
    judge(plot, hit, has_worked, finished)?;
    // Whoever kills an agent kills the one that tidies up on its host. The next job there does it.
    if plot.victim == Victim::Agent {
        let next = job(context, plot, &folder)?.arg(&program).limit(END_SECONDS).finish()?;
        anyhow::ensure!(next.code == Some(0), "the next job failed:\n{}", next.report());
    }
    let left = folder.files()?;
    anyhow::ensure!(left.is_empty(), "files are left: {}", left.join(", "));
    Ok(())
}

/// The job of a story, without its program.
fn job(context: &Context, plot: Plot, folder: &Folder) -> anyhow::Result<Run> {
    let run = if plot.two_hosts { context.mpiexec_on_hosts(RANKS)? } else { context.mpiexec(RANKS) };
    let run = run.args(["--timeout", TIME_LIMIT, "--host-timeout", HOST_TIMEOUT]);
    Ok(run.env("WEFT_SHM_DIR", &folder.0).env("TMPDIR", &folder.0))
}

/// Waits for the stage, and a little longer; then hits the victim. Returns whether there was one.
fn strike(running: &Running, plot: Plot, random: &mut Random) -> anyhow::Result<bool> {
    if !await_stage(running, plot.stage)? {
        return Ok(false);
    }
    let due = Instant::now() + Duration::from_micros(random.below(DELAY_US_MAX));
    while Instant::now() < due {
        std::hint::spin_loop();
    }
    let Some(victim) = find(running.pid(), plot.victim, random) else { return Ok(false) };
    let signal = if plot.blow == Blow::Kill { Signal::KILL } else { Signal::STOP };
    let is_hit = kill_process(victim, signal).is_ok();
    if plot.victim == Victim::Mpiexec && plot.blow == Blow::Stop {
        std::thread::sleep(STOPPED);
        // It has been waited for by nobody, so the number is still its own.
        kill_process(victim, Signal::CONT)?;
    }
    Ok(is_hit)
}

/// Returns whether the stage has come; it has not where the job ended before.
fn await_stage(running: &Running, stage: Stage) -> anyhow::Result<bool> {
    let deadline = Instant::now() + STAGE_LIMIT;
    while Instant::now() < deadline {
        let agents = || children(running.pid());
        let has_come = match (stage, stage.mark()) {
            (Stage::Agents, _) => !agents().is_empty(),
            (Stage::Ranks, _) => agents().into_iter().any(|agent| !children(agent).is_empty()),
            (_, Some(mark)) => running.output().contains(mark),
            _ => true,
        };
        if has_come || running.has_ended() {
            return Ok(has_come);
        }
        std::thread::sleep(POLL);
    }
    anyhow::bail!("it did not come so far in {} s:\n{}", STAGE_LIMIT.as_secs(), running.output())
}

fn find(mpiexec: Pid, victim: Victim, random: &mut Random) -> Option<Pid> {
    let agents = children(mpiexec);
    let candidates = match victim {
        Victim::Mpiexec => vec![mpiexec],
        Victim::Agent => agents,
        Victim::Rank => agents.into_iter().flat_map(children).collect(),
    };
    (!candidates.is_empty()).then(|| random.pick(&candidates))
}

/// The processes whose parent this one is. A child that does not run its program yet is left out: the kernel
/// lets the parent wait for that (`CLONE_VFORK`), so a blow to such a child stops the parent.
fn children(parent: Pid) -> Vec<Pid> {
    let number = parent.as_raw_nonzero();
    let path = format!("/proc/{number}/task/{number}/children");
    let text = std::fs::read_to_string(Path::new(&path)).unwrap_or_default();
    let command = |pid: Pid| std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    let found = text.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
    found.filter(|child| command(*child) != command(parent)).collect()
}

/// Judges the end of a job. One whose work was done may have ended well before the blow counted.
fn judge(plot: Plot, hit: bool, has_worked: bool, finished: Finished) -> anyhow::Result<()> {
    let may_pass = !hit || has_worked || (plot.victim == Victim::Mpiexec && plot.blow == Blow::Stop);
    anyhow::ensure!(finished.code.is_some(), "it did not end:\n{}", finished.report());
    anyhow::ensure!(finished.code != Some(0) || may_pass, "it should fail:\n{}", finished.report());
    let must_pass = !hit || (plot.victim == Victim::Mpiexec && plot.blow == Blow::Stop);
    anyhow::ensure!(finished.code == Some(0) || !must_pass, "nothing was hit for good:\n{}", finished.report());
    let left = finished.leftovers.join("; ");
    anyhow::ensure!(left.is_empty(), "left behind: {left}\n{}", finished.report());
    // One sentence says what has happened, unless mpiexec was killed.
    let is_silent = finished.output.lines().all(|line| !line.starts_with("mpiexec: "));
    let may_be_silent = plot.victim == Victim::Mpiexec || finished.code == Some(0);
    anyhow::ensure!(!is_silent || may_be_silent, "nobody says why it ended:\n{}", finished.report());
    Ok(())
}
