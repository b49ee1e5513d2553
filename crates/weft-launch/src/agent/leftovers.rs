//! Ends the processes that ranks started and left behind. The agent is a subreaper (prctl(2)), so orphans
//! become its children.

use crate::sys;
use std::time::{Duration, Instant};

/// Pause between two rounds of killing.
const PAUSE: Duration = Duration::from_millis(1);

/// Kills all children of this process, and their children as these become its own, until there is none or the
/// time is over.
pub(super) fn kill(limit: Duration) {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        match sys::reap() {
            Err(()) => return,
            Ok(Some(_)) => {}
            Ok(None) => {
                for child in children() {
                    sys::kill(child, libc::SIGKILL);
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// The processes whose parent is this one.
fn children() -> Vec<libc::pid_t> {
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<libc::pid_t>().ok());
    pids.filter(|pid| parent(*pid) == Some(own)).collect()
}

fn parent(pid: libc::pid_t) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in parentheses, which may contain anything.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}
