//! Runs in a guest: carries out the orders that the host lays into the guest's directory of the share.
//!
//! - `N.run` is a script, which a shell runs. Its output goes to `N.out`, and in the end its exit code to
//!   `N.code`.
//! - `N.kill` ends the script.
//! - `N.sweep` holds the mark of a run. The processes that have the mark in their environment are killed and
//!   named in `N.left`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::super::process::marked;
use super::shell;

const POLL: Duration = Duration::from_millis(50);
/// The time for which processes may outlive their command: processes that end need a moment.
const LEFTOVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves until the machine is turned off.
pub(super) fn serve(directory: &Path) -> anyhow::Result<()> {
    let listener = shell::listen()?;
    std::thread::spawn(move || shell::serve(&listener));
    fs::write(directory.join("ready"), "")?;
    println!("guest: ready");
    let mut running: BTreeMap<PathBuf, Child> = BTreeMap::new();
    loop {
        for entry in fs::read_dir(directory)?.flatten() {
            let path = entry.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("run") => {
                    let script = path.with_extension("script");
                    fs::rename(&path, &script)?;
                    running.insert(script.clone(), start(&script)?);
                }
                Some("kill") => {
                    fs::remove_file(&path)?;
                    if let Some(child) = running.get(&path.with_extension("script")) {
                        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
                    }
                }
                Some("sweep") => {
                    let mark = fs::read_to_string(&path)?;
                    fs::remove_file(&path)?;
                    put(&path.with_extension("left"), &sweep(&mark).join("\n"))?;
                }
                _ => {}
            }
        }
        let mut ended = Vec::new();
        for (script, child) in &mut running {
            if let Some(status) = child.try_wait()? {
                let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1);
                put(&script.with_extension("code"), &code.to_string())?;
                ended.push(script.clone());
            }
        }
        ended.iter().for_each(|script| drop(running.remove(script)));
        std::thread::sleep(POLL);
    }
}

fn start(script: &Path) -> anyhow::Result<Child> {
    let said = File::create(script.with_extension("out"))?;
    let mut command = Command::new("sh");
    command.arg(script).stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said).process_group(0);
    Ok(command.spawn()?)
}

/// Writes a file that appears all at once.
fn put(path: &Path, text: &str) -> std::io::Result<()> {
    let unfinished = path.with_extension("unfinished");
    fs::write(&unfinished, text)?;
    fs::rename(&unfinished, path)
}

/// Gives the processes that are left of a run a moment to go, then kills and names them.
fn sweep(mark: &str) -> Vec<String> {
    let deadline = Instant::now() + LEFTOVER_TIMEOUT;
    loop {
        let left = marked(mark);
        if left.is_empty() {
            return Vec::new();
        }
        if Instant::now() > deadline {
            for (pid, _) in &left {
                let _ = kill_process(*pid, Signal::KILL);
            }
            return left.into_iter().map(|(_, command)| command).collect();
        }
        std::thread::sleep(POLL);
    }
}
