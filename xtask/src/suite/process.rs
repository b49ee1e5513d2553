//! Runs one command under a time limit, with all its output in a file, and leaves nothing of it afterwards.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The time that a command may take to end after SIGTERM.
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// The time for which processes may outlive their command: processes that are being killed need a moment.
const LEFTOVER_TIMEOUT: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(4);
/// The variable that marks every process of one run in its environment, by which leftovers are found.
pub(crate) const MARK: &str = "WEFT_SUITE_RUN";
/// The lines that are shown of a failed run.
const SHOWN_LINES: usize = 40;

/// The exit code that shells give to a program that SIGINT ended.
pub(crate) const EXIT_INTERRUPTED: i32 = 130;

static RUNS: AtomicU32 = AtomicU32::new(0);

/// The flag that SIGINT and SIGTERM set: commands run in process groups of their own, so Ctrl-C does not
/// reach them.
static INTERRUPTED: std::sync::OnceLock<Arc<AtomicBool>> = std::sync::OnceLock::new();

/// Catches SIGINT and SIGTERM: from now on they first end the command that runs.
pub(crate) fn catch_interrupts() -> std::io::Result<()> {
    let flag = INTERRUPTED.get_or_init(Default::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, flag.clone())?;
    }
    Ok(())
}

pub(crate) fn is_interrupted() -> bool {
    INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Looks again and again, until `look` finds something or the time is over.
pub(crate) fn until<T>(limit: Duration, look: impl Fn() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        match look() {
            None if Instant::now() < deadline => std::thread::sleep(POLL),
            found => return found,
        }
    }
}

/// The PATH, followed by the directories of administrators: `ip` and `nft` are there, and an ordinary user's
/// PATH does not lead there.
pub(crate) fn search_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&path).filter(|directory| !directory.as_os_str().is_empty());
    let all: Vec<PathBuf> = own.chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from)).collect();
    // Each directory came out of a list or holds no colon.
    std::env::join_paths(all).unwrap_or(path)
}

/// The processes that have this mark in their environment and live now, as `pid command`.
pub(crate) fn marked(mark: &str) -> Vec<(Pid, String)> {
    let entry = format!("{MARK}={mark}");
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let is_ours = environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes());
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        // A zombie has an empty command line and waits only for its parent.
        let pid = Pid::from_raw(pid).filter(|_| is_ours && !command.is_empty())?;
        Some((pid, format!("{} {command}", pid.as_raw_nonzero())))
    })
    .collect()
}

/// A command to run.
#[derive(Clone)]
pub(crate) struct Run {
    program: OsString,
    arguments: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    input: Option<String>,
    directory: Option<PathBuf>,
    has_own_folder: bool,
    limit: Duration,
}

/// The result of a run.
pub(crate) struct Finished {
    /// The exit code; 128 + signal for a process that died by a signal; none when the time limit ended it.
    pub(crate) code: Option<i32>,
    /// The standard output and error, in the order in which they came.
    pub(crate) output: String,
    pub(crate) elapsed: Duration,
    /// The processes that were still there, as `pid command`; they have been killed.
    pub(crate) leftovers: Vec<String>,
}

impl Run {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Run {
        Run {
            program: program.as_ref().into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            input: None,
            directory: None,
            has_own_folder: false,
            limit: Duration::from_secs(60),
        }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Run {
        self.arguments.push(argument.as_ref().into());
        self
    }

    pub(crate) fn args<T: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = T>) -> Run {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().into()));
        self
    }

    /// Puts the words `before` in front of the command, which they then run.
    pub(crate) fn behind(mut self, before: &[&str]) -> Run {
        if let [program, rest @ ..] = before {
            let own = std::mem::replace(&mut self.program, program.into());
            let words = rest.iter().map(OsString::from).chain([own]);
            self.arguments = words.chain(std::mem::take(&mut self.arguments)).collect();
        }
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Run {
        self.environment.insert(name.into(), value.as_ref().into());
        self
    }

    pub(crate) fn input(mut self, text: &str) -> Run {
        self.input = Some(text.into());
        self
    }

    pub(crate) fn directory(mut self, path: &Path) -> Run {
        self.directory = Some(path.into());
        self
    }

    /// Gives the command a temporary folder (`TMPDIR`) of its own, which goes with the run. Files that a
    /// killed program leaves then meet no later program that has the same process number and names its files
    /// by it.
    pub(crate) fn own_folder(mut self) -> Run {
        self.has_own_folder = true;
        self
    }

    pub(crate) fn limit(mut self, seconds: u64) -> Run {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Runs the command to its end, or to the limit.
    pub(crate) fn finish(&self) -> anyhow::Result<Finished> {
        self.start()?.finish(self.limit)
    }

    /// Starts the command in a process group of its own.
    pub(crate) fn start(&self) -> anyhow::Result<Running> {
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{number}", std::process::id());
        let directory = std::env::temp_dir();
        let log = directory.join(format!("weft-suite-{mark}.log"));
        let file = File::create(&log)?;
        // Under nohup(1), or in the background of a script, signals are ignored here, and the started command
        // would inherit that.
        let mut command = Command::new("env");
        command
            .arg("--default-signal")
            .arg(&self.program)
            .args(&self.arguments)
            .env("PATH", search_path())
            .envs(&self.environment);
        command.env(MARK, &mark).process_group(0);
        command.stdout(file.try_clone()?).stderr(file);
        command.stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() });
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let folder = self.has_own_folder.then(|| directory.join(format!("weft-suite-{mark}")));
        if let Some(folder) = &folder {
            DirBuilder::new().mode(0o700).create(folder)?;
            command.env("TMPDIR", folder);
        }
        let mut child = command
            .spawn()
            .map_err(|error| anyhow::anyhow!("cannot run env, to run {}: {error}", self.program.to_string_lossy()))?;
        if let (Some(text), Some(mut input)) = (self.input.clone(), child.stdin.take()) {
            use std::io::Write;
            // A program that does not read its input closes the pipe, or does so when it is ended: that is no
            // failure by itself.
            std::thread::spawn(move || input.write_all(text.as_bytes()));
        }
        Ok(Running { child, mark, log, folder, began: Instant::now() })
    }
}

/// A command that runs.
pub(crate) struct Running {
    child: Child,
    mark: String,
    log: PathBuf,
    /// The temporary folder that the command has for itself.
    folder: Option<PathBuf>,
    began: Instant,
}

impl Running {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The output so far.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Waits until the output holds `text`. Returns false when `text` has not come within `limit`, or before
    /// the command ended.
    pub(crate) fn says(&self, text: &str, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let has_ended = self.has_ended();
            if self.output().contains(text) {
                return true;
            }
            if has_ended || Instant::now() > deadline || is_interrupted() {
                return false;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Returns whether the command has ended; it can still be waited for.
    pub(crate) fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid()), look).is_ok_and(|ended| ended.is_some())
    }

    /// The processes of this run that live now, as `pid command`. A process that begins has no environment
    /// for a moment and is not found: `has_ended` says whether the command goes on.
    pub(crate) fn processes(&self) -> Vec<(Pid, String)> {
        marked(&self.mark)
    }

    /// Sends SIGKILL to this process alone, and waits for its end; its children go on.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    pub(crate) fn finish(mut self, limit: Duration) -> anyhow::Result<Finished> {
        let deadline = self.began + limit;
        let mut code = None;
        while Instant::now() < deadline && !is_interrupted() {
            if let Some(status) = self.child.try_wait()? {
                code = status.code().or(status.signal().map(|signal| 128 + signal));
                break;
            }
            std::thread::sleep(POLL);
        }
        let elapsed = self.began.elapsed();
        if code.is_none() {
            self.end()?;
        }
        let leftovers = self.sweep();
        let output = self.output();
        let _ = std::fs::remove_file(&self.log);
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
        if is_interrupted() {
            eprintln!("\nsuite: interrupted");
            std::process::exit(EXIT_INTERRUPTED);
        }
        Ok(Finished { code, output, elapsed, leftovers })
    }

    /// Ends the command: SIGTERM, a moment to clean up, SIGKILL, each to the whole process group.
    fn end(&mut self) -> anyhow::Result<()> {
        let _ = kill_process_group(self.pid(), Signal::TERM);
        let deadline = Instant::now() + END_TIMEOUT;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                let _ = kill_process_group(self.pid(), Signal::KILL);
                self.child.wait()?;
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Gives the processes that are left a moment to go, then kills and names them.
    fn sweep(&self) -> Vec<String> {
        let deadline = Instant::now() + LEFTOVER_TIMEOUT;
        loop {
            let left = self.processes();
            if left.is_empty() {
                return Vec::new();
            }
            if Instant::now() > deadline {
                for (pid, _) in &left {
                    let _ = rustix::process::kill_process(*pid, Signal::KILL);
                }
                return left.into_iter().map(|(_, command)| command).collect();
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Finished {
    /// The last lines of the output, and the end of the run, for a report.
    pub(crate) fn report(&self) -> String {
        let lines: Vec<&str> = self.output.lines().collect();
        let from = lines.len().saturating_sub(SHOWN_LINES);
        let end = match self.code {
            Some(code) => format!("exit code {code} after {:.1} s", self.elapsed.as_secs_f64()),
            None => format!("did not end in {:.0} s", self.elapsed.as_secs_f64()),
        };
        format!("{}\n{end}", lines[from..].join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Open MPI's launcher names its session by its process number, and does not start where a killed one
    /// with the same number has left files.
    #[test]
    fn what_a_killed_program_leaves_in_its_own_folder_goes_with_the_run() {
        let script = "mkdir $TMPDIR/session; echo $TMPDIR; kill -9 $$";
        let run = Run::new("sh").args(["-c", script]).own_folder();
        let folders = [(); 2].map(|()| {
            let finished = run.finish().unwrap();
            assert_eq!(finished.code, Some(128 + Signal::KILL.as_raw()));
            PathBuf::from(finished.output.trim())
        });
        assert_ne!(folders[0], folders[1]);
        for folder in folders {
            assert!(folder.starts_with(std::env::temp_dir()) && !folder.exists(), "{}", folder.display());
        }
    }
}
