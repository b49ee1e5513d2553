//! What the system says of a process in `/proc/PID/stat` (proc(5)).

use super::Ended;
use std::str::FromStr;

/// The places of the fields, behind the name.
const STATE: usize = 0;
const PARENT: usize = 1;
const FLAGS: usize = 6;
const EXIT_CODE: usize = 49;
/// The flag of a process that has begun to end (`PF_EXITING`).
const EXITING: u32 = 4;

/// The fields behind the name of a process.
pub(crate) struct Stat(String);

impl Stat {
    /// The fields of a process; `None`: there is no such process, or this user may not see it.
    pub(crate) fn of(pid: libc::pid_t) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name in parentheses may hold anything, parentheses too.
        Some(Self(text.rsplit_once(") ")?.1.to_owned()))
    }

    fn field<T: FromStr>(&self, index: usize) -> Option<T> {
        self.0.split_ascii_whitespace().nth(index)?.parse().ok()
    }

    /// Returns whether a signal has stopped the process. One that a debugger has stopped is not.
    pub(crate) fn is_stopped(&self) -> bool {
        self.field(STATE) == Some('T')
    }

    /// The number of the process's parent.
    pub(crate) fn parent(&self) -> Option<u32> {
        self.field(PARENT)
    }

    /// How the process ends, as `wait` will say it, if it has begun to end. The system hides the status of
    /// processes that this user may not look into, and says 0.
    pub(crate) fn ending(&self) -> Option<Ended> {
        let (flags, status): (u32, i32) = (self.field(FLAGS)?, self.field(EXIT_CODE)?);
        let ended = if libc::WIFSIGNALED(status) {
            Ended::Signal(libc::WTERMSIG(status))
        } else {
            Ended::Exit(libc::WEXITSTATUS(status))
        };
        (flags & EXITING != 0).then_some(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_is_read_from_its_state() {
        let ending = |flags: u32, status: i32| {
            let zeros = |count| "0 ".repeat(count);
            let text = format!("7 (a ) b) R {}{flags} {}{status}\n", zeros(5), zeros(42));
            Stat::parse(&text).and_then(|stat| stat.ending())
        };
        assert_eq!(ending(0x40_0540, 0), None);
        assert_eq!(ending(0x40_054c, 9), Some(Ended::Signal(9)));
        assert_eq!(ending(0x40_0544, 3 << 8), Some(Ended::Exit(3)));
        assert_eq!(ending(4, 0), Some(Ended::Exit(0)));
        for nonsense in ["", "7 (a) R 1 2", "7 (a) R"] {
            assert_eq!(Stat::parse(nonsense).and_then(|stat| stat.ending()), None);
        }
    }

    #[test]
    fn this_process_runs_and_has_a_parent() {
        let stat = Stat::of(std::process::id().cast_signed()).expect("this process");
        assert_eq!((stat.is_stopped(), stat.ending()), (false, None));
        assert_eq!(stat.parent(), Some(std::os::unix::process::parent_id()));
        assert!(Stat::of(libc::pid_t::MAX).is_none());
    }

    #[test]
    fn a_stopped_process_is_told_from_one_under_a_debugger() {
        let is_stopped = |state: &str| Stat::parse(&format!("7 (a) {state} 1 2")).is_some_and(|stat| stat.is_stopped());
        assert!(is_stopped("T") && !is_stopped("t") && !is_stopped("S"));
    }
}
