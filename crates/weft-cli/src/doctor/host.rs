//! A host as the controller sees it: the process that reaches it, requests and replies, each with a time
//! limit.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use weft_launch::reach;

use super::protocol::{GREETING, LINE_MAX, Reply, Request, VERSION};

/// The time that an agent may take to end once its input is closed.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The time between two checks whether the user wants to stop, during a wait.
const POLL: Duration = Duration::from_millis(20);
/// The most lines that wait to be read.
const LINES_MAX: usize = 64;
/// The most lines that a remote shell may print before the agent greets.
const NOISE_LINES_MAX: usize = 1000;
/// The bytes of the command's standard error that are kept.
const ERRORS_KEPT: usize = 2048;

/// The way in which a host is reached.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// The command template.
    pub(crate) template: String,
    /// The path of this command on the host.
    pub(crate) program: String,
    /// The time that the host may take to answer for the first time.
    pub(crate) answer: Duration,
}

/// The reason why a host cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// The host did not greet; the text is half a sentence.
    Silent(String),
    /// The host's command is of another version.
    Version(String),
    /// The user has stopped everything.
    Interrupted,
}

/// A connection to an agent.
pub(crate) struct Host {
    pub(crate) name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    errors: Arc<Mutex<Vec<u8>>>,
    interrupted: Arc<AtomicBool>,
    /// The command, for messages.
    command: String,
    /// The reason why the host does not answer any more.
    pub(crate) fault: Option<String>,
    /// The time from the start to the greeting.
    pub(crate) reached_after: Duration,
}

impl Host {
    /// Starts the agent and hears its greeting. `remote` is `None` for an agent that is started on this host
    /// directly.
    pub(crate) fn start(
        name: &str,
        remote: Option<&Reach>,
        answer: Duration,
        interrupted: &Arc<AtomicBool>,
    ) -> Result<Host, Unreachable> {
        let words = match remote {
            Some(reach) => command_there(name, reach, &library_variables(std::env::vars_os())),
            None => own_path().map(|path| vec![path, "doctor".into(), "--serve".into()]),
        };
        let words = words.map_err(Unreachable::Silent)?;
        let shown = reach::shown(&words);
        let began = Instant::now();
        // A process group of its own: the command and its children can be ended together.
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| Unreachable::Silent(format!("`{shown}` cannot be started: {error}")))?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let (sender, lines) = sync_channel(LINES_MAX);
        let kept = Arc::new(Mutex::new(Vec::new()));
        if let (Some(output), Some(errors)) = (output, errors) {
            std::thread::spawn(move || read_lines(output, &sender));
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || keep_errors(errors, &kept));
        }
        let mut host = Host {
            name: name.to_owned(),
            input: child.stdin.take(),
            child,
            lines,
            errors: kept,
            interrupted: Arc::clone(interrupted),
            command: shown,
            fault: None,
            reached_after: Duration::ZERO,
        };
        host.hear_greeting(answer)?;
        host.reached_after = began.elapsed();
        Ok(host)
    }

    fn hear_greeting(&mut self, answer: Duration) -> Result<(), Unreachable> {
        let deadline = Instant::now() + answer;
        for _ in 0..NOISE_LINES_MAX {
            let line = match self.line(deadline) {
                Ok(line) => line,
                Err(Wait::Interrupted) => return Err(Unreachable::Interrupted),
                Err(Wait::TimedOut) => {
                    return Err(self.explain(&format!("did not answer within {} s", answer.as_secs_f64())));
                }
                Err(Wait::Closed) => {
                    let ended = self.ended().map_or("closed its output".to_owned(), |status| ended_with(&status));
                    return Err(self.explain(&ended));
                }
            };
            let line = String::from_utf8_lossy(&line).into_owned();
            // The noise before the greeting may not end with a newline.
            if let Some(at) = line.rfind(GREETING) {
                let version = line[at + GREETING.len()..].trim();
                return if version == VERSION { Ok(()) } else { Err(Unreachable::Version(version.to_owned())) };
            }
        }
        Err(self.explain("answers, but is something else than weft"))
    }

    /// Explains a failure in half a sentence: the command, its fate, and its last output.
    fn explain(&self, fate: &str) -> Unreachable {
        // The last output may still be on its way.
        std::thread::sleep(POLL);
        let kept = self.errors.lock().map(|kept| kept.clone()).unwrap_or_default();
        let said = String::from_utf8_lossy(&kept);
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        let words = if last.is_empty() { String::new() } else { format!(", saying: {last}") };
        Unreachable::Silent(format!("`{}` {fate}{words}", self.command))
    }

    /// Sends a request; the answer is fetched by [`Self::reply`]. A failed host gets no more requests.
    pub(crate) fn request(&mut self, request: &Request) {
        if self.fault.is_some() {
            return;
        }
        let mut line = serde_json::to_vec(request).unwrap_or_default();
        line.push(b'\n');
        let written = self.input.as_mut().map(|input| input.write_all(&line).and_then(|()| input.flush()));
        if !matches!(written, Some(Ok(()))) {
            self.fault = Some("its agent has ended".into());
        }
    }

    /// Takes the answer to the oldest request, until `deadline`. If there is none, returns `None`, and
    /// `fault` has the reason.
    pub(crate) fn reply(&mut self, deadline: Instant) -> Option<Reply> {
        if self.fault.is_some() {
            return None;
        }
        match self.line(deadline) {
            Ok(line) => match serde_json::from_slice(&line) {
                Ok(reply) => return Some(reply),
                Err(error) => self.fault = Some(format!("its agent's answer makes no sense: {error}")),
            },
            Err(Wait::TimedOut) => self.fault = Some("its agent did not answer in time".into()),
            Err(Wait::Closed) => self.fault = Some("its agent has ended".into()),
            Err(Wait::Interrupted) => self.fault = Some("interrupted".into()),
        }
        None
    }

    fn line(&self, deadline: Instant) -> Result<Vec<u8>, Wait> {
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Wait::Interrupted);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left.min(POLL)) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(Wait::Closed),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(Wait::TimedOut),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Waits for the end of the process, which has closed its output and so is about to end.
    fn ended(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + END_TIMEOUT;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL),
                _ => return None,
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // An agent ends when its input closes; a command that is no agent is ended as well.
        drop(self.input.take());
        let healthy =
            self.fault.is_none() && !self.interrupted.load(Ordering::Relaxed) && !self.reached_after.is_zero();
        if !healthy || self.ended().is_none() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// The reason why there is no line.
enum Wait {
    TimedOut,
    Closed,
    Interrupted,
}

fn ended_with(status: &ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (None, signal) => format!("died by signal {}", signal.unwrap_or(0)),
    }
}

/// The path of this command; other hosts have it too unless the user gives another one.
pub(crate) fn own_path() -> Result<String, String> {
    let path = std::env::current_exe().map_err(|error| format!("where this program is stays unknown: {error}"))?;
    Ok(path.to_str().ok_or("the path of this program is not text; name it with --agent-program")?.to_owned())
}

/// The command that serves as an agent on another host, with these variables.
fn command_there(name: &str, reach: &Reach, variables: &[String]) -> Result<Vec<String>, String> {
    let serve = ["doctor", "--serve"];
    if variables.is_empty() {
        return reach::command(name, &reach.template, &reach.program, &serve);
    }
    let variables = variables.iter().map(String::as_str);
    let words: Vec<&str> = variables.chain([reach.program.as_str()]).chain(serve).collect();
    reach::command(name, &reach.template, "env", &words)
}

/// The variables of this environment for libfabric, which reads them when it is opened: ranks have them on
/// all hosts.
fn library_variables(environment: impl Iterator<Item = (OsString, OsString)>) -> Vec<String> {
    let text = environment.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    text.filter(|(name, _)| name.starts_with("FI_")).map(|(name, value)| format!("{name}={value}")).collect()
}

fn read_lines(output: impl Read, sender: &SyncSender<Vec<u8>>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let read = output.by_ref().take(LINE_MAX).read_until(b'\n', &mut line);
        if !matches!(read, Ok(count) if count > 0) || sender.send(line).is_err() {
            return;
        }
    }
}

fn keep_errors(mut errors: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut buffer) {
        let Ok(mut kept) = kept.lock() else { return };
        kept.extend_from_slice(&buffer[..count]);
        let surplus = kept.len().saturating_sub(ERRORS_KEPT);
        kept.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libfabrics_variables_are_the_same_on_all_hosts() {
        let environment = [("FI_UNIVERSE_SIZE", "16"), ("HOME", "/root"), ("FI_PROVIDER", "verbs;ofi_rxm")];
        let variables = library_variables(environment.map(|(name, value)| (name.into(), value.into())).into_iter());
        let reach = Reach { template: "ssh {host}".into(), program: "/opt/weft".into(), answer: Duration::ZERO };
        // The words are quoted, since a shell on the host takes them apart.
        let words = [
            "ssh",
            "h1",
            "env",
            "FI_UNIVERSE_SIZE=16",
            "'FI_PROVIDER=verbs;ofi_rxm'",
            "/opt/weft",
            "doctor",
            "--serve",
        ];
        assert_eq!(command_there("h1", &reach, &variables).unwrap(), words);
        assert_eq!(command_there("h1", &reach, &[]).unwrap(), ["ssh", "h1", "/opt/weft", "doctor", "--serve"]);
    }
}
