//! Runs the command: passes signals on to it, waits for its end, and hands over its exit code.

use std::ffi::OsString;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;

/// The time that the command may take to end after SIGTERM or SIGHUP.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The signals that arrived, in order.
pub(crate) struct Caught {
    signals: SignalsInfo<WithOrigin>,
    terminated: Option<i32>,
}

impl Caught {
    /// Catches the signals that would end this process: from now on they are only noted.
    pub(crate) fn new() -> std::io::Result<Caught> {
        let signals = SignalsInfo::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD])?;
        Ok(Caught { signals, terminated: None })
    }

    /// The signal that asked this process to end, if one has arrived.
    pub(crate) fn terminated(&mut self) -> Option<i32> {
        let ending = self.signals.pending().map(|origin| origin.signal).find(|signal| *signal != SIGCHLD);
        self.terminated = self.terminated.or(ending);
        self.terminated
    }
}

/// The exit code shells give to a process that died by `signal`.
pub(crate) fn exit_by_signal(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}

/// Runs `command` with `environment` added to ours until it ends.
pub(crate) fn run(command: &[String], environment: &[(&'static str, OsString)], caught: &mut Caught) -> ExitCode {
    let mut child = match Command::new(&command[0]).args(&command[1..]).envs(environment.iter().cloned()).spawn() {
        Ok(child) => child,
        Err(error) => {
            crate::out::say!("weft hosts: cannot run {}: {error}", command[0]);
            return ExitCode::from(super::EXIT_NOT_STARTED);
        }
    };
    let pid = Pid::from_child(&child);
    // A signal that came before there was a command, or just now.
    if let Some(signal) = caught.terminated() {
        pass_on(pid, signal, true);
    }
    loop {
        // SIGCHLD ends this wait as well, so the child's end is seen at once.
        match ended(&mut child) {
            Some(code) => return code,
            None => caught.signals.wait().for_each(|origin| pass_on(pid, origin.signal, origin.process.is_some())),
        }
    }
}

fn ended(child: &mut Child) -> Option<ExitCode> {
    use std::os::unix::process::ExitStatusExt;
    let status = child.try_wait().expect("the child is ours and was not waited for elsewhere")?;
    Some(match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, signal) => exit_by_signal(signal.unwrap_or(0)),
    })
}

/// Passes a signal on to the command. `from_process`: it was sent by `kill`. A signal of the terminal has
/// reached the command already, which is in our process group.
fn pass_on(pid: Pid, signal: i32, from_process: bool) {
    if signal == SIGCHLD || !from_process {
        return;
    }
    let Some(named) = Signal::from_named_raw(signal) else { return };
    let _ = kill_process(pid, named);
    if matches!(signal, SIGTERM | SIGHUP) {
        std::thread::spawn(move || {
            std::thread::sleep(END_TIMEOUT);
            let _ = kill_process(pid, Signal::KILL);
        });
    }
}
