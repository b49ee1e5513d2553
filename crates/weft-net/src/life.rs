//! Liveness of other processes of this machine, asked by their numbers.
//!
//! A number alone is not enough: a process that has ended keeps its number until its parent has asked how it
//! ended, and later another process may get the number. So proc(5) is asked as well, where it can be, for the
//! state of the process and the time when it began.

use std::fs;

use crate::sys;

/// Facts of a process from /proc/PID/stat: proc_pid_stat(5).
struct Stat {
    pid: i32,
    state: u8,
    threads: u64,
    /// Time at which the process began, in ticks since the machine did; never 0.
    birth: u64,
}

impl Stat {
    fn read(process: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    /// Parses `NUMBER (NAME) STATE …`; the name may hold anything, parentheses too.
    fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(' ')?;
        let (_, rest) = rest.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        // Fields 20 and 22; the state is the third.
        let threads = fields.nth(16)?.parse().ok()?;
        let birth = fields.nth(1)?.parse().ok()?;
        Some(Self { pid: pid.parse().ok()?, state, threads, birth })
    }

    /// Returns whether the process has ended, though it keeps its number. A process of which only the first
    /// thread has ended shows the same state, but has other threads.
    fn has_ended(&self) -> bool {
        b"ZXx".contains(&self.state) && self.threads <= 1
    }
}

/// Returns the time at which this process began, for others that ask [`has_ended`]; 0 if /proc does not show
/// processes by the numbers that they have here.
pub(crate) fn own_birth() -> u64 {
    let own = Stat::read("self").filter(|own| own.pid == std::process::id() as i32);
    own.map_or(0, |own| own.birth)
}

/// Returns whether the process with the number `pid` that began at `birth` has ended. `birth` is 0 where
/// either process has no /proc to ask ([`own_birth`]). Then an ended process whose parent has not waited for
/// it yet counts as alive, and so does another process with its number.
pub(crate) fn has_ended(pid: i32, birth: u64) -> bool {
    let known = if birth == 0 { None } else { Stat::read(&pid.to_string()) };
    match known {
        Some(stat) => stat.has_ended() || stat.birth != birth,
        None => !sys::has_process(pid),
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_the_kernel_says_is_read_whatever_the_name() {
        let line = "12 (a) S b (c) Z 1 12 12 0 -1 4 5 0 0 0 0 0 0 0 20 0 1 0 3456 0 0";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.pid, stat.state, stat.threads, stat.birth), (12, b'Z', 1, 3456));
        assert!(stat.has_ended());
        assert!(!Stat::parse(&line.replace("20 0 1 0", "20 0 2 0")).unwrap().has_ended(), "another thread runs");
        assert!(!Stat::parse(&line.replace(") Z", ") T")).unwrap().has_ended(), "it is stopped");
        for cut in ["", "12", "12 (a", "12 (a)", "12 (a) Z 1 12 12 0"] {
            assert!(Stat::parse(cut).is_none(), "{cut}");
        }
    }

    #[test]
    fn a_child_lives_until_it_ends_and_not_until_somebody_has_asked_how() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let birth = Stat::read(&pid.to_string()).unwrap().birth;
        assert!(!has_ended(pid, birth) && !has_ended(pid, 0));
        assert!(has_ended(pid, birth + 1), "the number is another's now");
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !has_ended(pid, birth) {
            assert!(std::time::Instant::now() < deadline, "a zombie counts as alive");
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_ended(pid, birth) && has_ended(pid, 0));
    }

    #[test]
    fn this_process_lives() {
        let (pid, birth) = (std::process::id() as i32, own_birth());
        assert!(birth != 0 && !has_ended(pid, birth));
    }
}
