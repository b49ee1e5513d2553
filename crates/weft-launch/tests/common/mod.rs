//! Runs `mpiexec` under a time limit, and looks at everything that it leaves.

#![allow(dead_code, reason = "every test file uses its part")]

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time limit of a test, however busy the machine is.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// The `mpiexec` under test.
pub(crate) const MPIEXEC: &str = env!("CARGO_BIN_EXE_mpiexec");
/// Two hosts whose agents run here; each believes that it is another node.
pub(crate) const TWO_HOSTS: &str = "--agent env|WEFT_NODE={host} --hosts h0,h1";

/// The path of the example program, which `cargo test` builds too.
pub(crate) fn peer() -> String {
    let beside = PathBuf::from(MPIEXEC).with_file_name("examples").join("peer");
    assert!(beside.exists(), "{} is missing: run `cargo build -p weft-launch --examples`", beside.display());
    beside.to_str().expect("a path in text").to_string()
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) took: Duration,
}

impl Outcome {
    /// Checks the status; on failure prints everything.
    #[track_caller]
    pub(crate) fn expect(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Checks that `mpiexec` printed the reason `text`; on failure prints everything.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Self {
        assert!(self.err.contains(text), "`{text}` is not in {self:?}");
        self
    }

    /// The lines of standard output in alphabetical order: ranks print in any order.
    pub(crate) fn lines(&self) -> Vec<&str> {
        let mut lines: Vec<&str> = self.out.lines().collect();
        lines.sort_unstable();
        lines
    }
}

/// A run that has not ended.
pub(crate) struct Run {
    pub(crate) child: Child,
    out: JoinHandle<Vec<u8>>,
    err: JoinHandle<Vec<u8>>,
    began: Instant,
}

/// Splits a line into words; `|` stands for a blank inside a word, `PEER` for the example program.
pub(crate) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(|word| word.replace('|', " ").replace("PEER", &peer())).collect()
}

/// A command for a program with no signal ignored. Under nohup(1), or in the background of a script, some
/// signals are ignored, and child programs inherit that. env(1) becomes the program, so the process number is
/// the program's.
pub(crate) fn with_default_signals(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", program]);
    command
}

/// A command for `mpiexec` with the words of `line`, without variables of the user who runs the tests.
pub(crate) fn command(line: &str) -> Command {
    let mut command = with_default_signals(MPIEXEC);
    command.args(words(line));
    for name in ["WEFT_AGENT", "MPIEXEC_TIMEOUT", "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMI_ID"] {
        command.env_remove(name);
    }
    command
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("a pipe can be read");
        bytes
    })
}

impl Run {
    /// Starts a command whose standard input is `input`.
    pub(crate) fn start(mut command: Command, input: &[u8]) -> Self {
        let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
        let piped = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        // On a busy machine the child may run before its start returns here.
        let began = Instant::now();
        let mut child = piped.spawn().expect("mpiexec starts");
        let out = collect(child.stdout.take().expect("piped"));
        let err = collect(child.stderr.take().expect("piped"));
        if let Some(mut stdin) = child.stdin.take() {
            let input = input.to_vec();
            // It may be that no rank reads it to its end.
            std::thread::spawn(move || drop(stdin.write_all(&input)));
        }
        Self { child, out, err, began }
    }

    /// Sends a signal to `mpiexec`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Waits for the end.
    pub(crate) fn wait(mut self) -> Outcome {
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if self.began.elapsed() > LIMIT {
                self.child.kill().expect("it is a child");
                self.child.wait().expect("it was killed");
                panic!("mpiexec took longer than {LIMIT:?}; {:?}", self.into_text());
            }
            std::thread::sleep(PAUSE);
        };
        let took = self.began.elapsed();
        let (out, err) = self.into_text();
        let status = status.code().unwrap_or_else(|| -status.signal().expect("it exited or was killed"));
        Outcome { status, out, err, took }
    }

    fn into_text(self) -> (String, String) {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (text(self.out.join().expect("no panic")), text(self.err.join().expect("no panic")))
    }
}

/// Runs `mpiexec` with the words of `line` to its end.
pub(crate) fn run(line: &str) -> Outcome {
    Run::start(command(line), b"").wait()
}

/// Runs `mpiexec` with the words of `line` and this standard input to its end.
pub(crate) fn run_with_input(line: &str, input: &[u8]) -> Outcome {
    Run::start(command(line), input).wait()
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(status.expect("kill is a program").success(), "signal {name} to {pid}");
}

/// Processes whose command line contains `mark` and that are not zombies.
pub(crate) fn processes(mark: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("Linux");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let marked = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(mark) && *pid != std::process::id()
    };
    pids.filter(marked).collect()
}

/// Waits until `count` processes have `mark` in their command line.
pub(crate) fn await_processes(mark: &str, count: usize) {
    let began = Instant::now();
    while processes(mark).len() != count {
        assert!(began.elapsed() < LIMIT, "{count} processes with {mark} expected, there are {:?}", processes(mark));
        std::thread::sleep(PAUSE);
    }
}

/// A number of seconds to sleep that no other process on this machine uses. It marks the processes of one
/// test.
pub(crate) fn mark(story: u32) -> String {
    format!("9{:07}{story:02}", std::process::id())
}

/// A directory in which ranks make files to say that they are ready; gone when dropped.
pub(crate) struct Ready(PathBuf);

impl Ready {
    /// Makes the directory for the ranks of one test.
    pub(crate) fn new(story: u32) -> Self {
        let path = std::env::temp_dir().join(format!("weft-ready-{}", mark(story)));
        std::fs::create_dir(&path).expect("a new directory");
        Self(path)
    }

    /// The directory, in which each rank that is ready has a file of its number.
    pub(crate) fn path(&self) -> std::path::Display<'_> {
        self.0.display()
    }

    /// The command by which a shell in a rank says that it is ready, with `|` for blanks.
    pub(crate) fn say(&self) -> String {
        format!("echo|>|{}/$PMI_RANK", self.0.display())
    }

    /// Waits until `count` ranks are ready.
    pub(crate) fn wait(&self, count: usize) {
        let began = Instant::now();
        while std::fs::read_dir(&self.0).expect("it is there").count() < count {
            assert!(began.elapsed() < LIMIT, "{count} ranks are not ready");
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
