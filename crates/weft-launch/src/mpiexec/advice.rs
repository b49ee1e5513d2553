//! What a user can do about a host on which no agent answers, from what its command said, as one table.

/// A cause and what to do about it.
struct Row {
    /// Texts of ssh, of shells and of the system, in small letters; any of them tells this cause.
    texts: &'static [&'static str],
    /// The exit status that must come with it; `None`: any.
    status: Option<i32>,
    /// What to do. `{host}` stands for the host, `{program}` for the path of `mpiexec` on it.
    advice: &'static str,
}

/// The exit status of a shell for a program that is not there.
pub(crate) const STATUS_MISSING: i32 = 127;
/// The exit status of a shell for a program that cannot be executed.
const STATUS_UNUSABLE: i32 = 126;

/// What ssh says when a server hangs up before it asks who is there.
const TURNED_AWAY: &str = "kex_exchange_identification";

/// All causes that are told apart. The first that fits counts.
const ROWS: [Row; 11] = [
    Row {
        texts: &["host key verification failed", "host identification has changed"],
        status: None,
        advice: "its key is not known here: `ssh {host}` once shows the key and asks whether it is right",
    },
    Row {
        texts: &["permission denied (", "too many authentication failures", "no more authentication methods"],
        status: None,
        advice: "it must let you in without a password: `ssh-copy-id {host}`, until `ssh -o BatchMode=yes {host} true` \
                 works",
    },
    Row {
        texts: &["could not resolve hostname", "name or service not known", "failure in name resolution"],
        status: None,
        advice: "no host of this name is known here: write the name that is, or an address, into the list of hosts",
    },
    Row {
        texts: &["connection refused"],
        status: None,
        advice: "no ssh server listens there: start it, or say its port by --launcher-args '-p PORT'",
    },
    Row {
        texts: &["no route to host", "network is unreachable", "connection timed out", "operation timed out"],
        status: None,
        advice: "it is down, or a firewall is in the way: leave it out of the list of hosts, or open the way",
    },
    Row {
        texts: &[TURNED_AWAY, "connection closed by", "connection reset by"],
        status: None,
        advice: "its ssh server hangs up before it asks who is there, as it does when too many come at a time: raise \
                 MaxStartups in its sshd_config",
    },
    Row {
        texts: &["exec format error", "cannot execute binary file"],
        status: None,
        advice: "{program} is for another kind of processor than that host has: name a Weft for it by --agent-program",
    },
    Row {
        texts: &["error while loading shared libraries", "version `glibc_"],
        status: None,
        advice: "{program} was built for another system than that host has: name a Weft for it by --agent-program",
    },
    Row { texts: &["no space left on device", "disk quota exceeded"], status: None, advice: "make room on its disk" },
    Row {
        texts: &["no such file or directory", "not found"],
        status: Some(STATUS_MISSING),
        advice: "Weft is not there as {program}: install it at this path, or say its path there by --agent-program",
    },
    Row {
        texts: &["permission denied"],
        status: Some(STATUS_UNUSABLE),
        advice: "let users execute {program} there, or name another path by --agent-program",
    },
];

/// The advice for a host that has not answered in time.
const SILENT: &str = "try `ssh {host} true`; --agent-timeout SECONDS gives a slow host more time";

/// The advice for a host that has not answered in time to the host that was to start its agent.
const SILENT_BEHIND: &str = "try `ssh {host} true` on {starter}; --tree-width none starts all agents from here, \
                             --agent-timeout SECONDS gives a slow host more time";

/// What to do about a command that ended with this exit status and said this. `None`: nothing is known.
pub(crate) fn of_end(said: &str, status: Option<i32>, host: &str, program: &str) -> Option<String> {
    let said = said.to_lowercase();
    let fits =
        |row: &&Row| row.texts.iter().any(|text| said.contains(text)) && (row.status.is_none() || row.status == status);
    ROWS.iter().find(fits).map(|row| filled(row.advice, host, program))
}

/// What to do about a command that has not answered in time, and has said this.
pub(crate) fn of_silence(said: &str, host: &str, program: &str) -> String {
    of_end(said, None, host, program).unwrap_or_else(|| filled(SILENT, host, program))
}

/// The same about a command on the host `starter`.
pub(crate) fn of_silence_behind(said: &str, host: &str, program: &str, starter: &str) -> String {
    let silent = || filled(SILENT_BEHIND, host, program).replace("{starter}", starter);
    of_end(said, None, host, program).unwrap_or_else(silent)
}

/// Returns whether a command that said this may have more luck later, when fewer come at a time.
pub(crate) fn is_turned_away(said: &str) -> bool {
    said.contains(TURNED_AWAY)
}

fn filled(advice: &str, host: &str, program: &str) -> String {
    advice.replace("{host}", host).replace("{program}", program)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What OpenSSH 9.2, bash, dash and glibc say, with the beginning of the advice.
    #[test]
    fn each_cause_has_its_advice() {
        for (said, status, begins) in [
            ("Host key verification failed.", 255, "its key is not known here"),
            ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @", 255, "its key is not known here"),
            ("me@h1: Permission denied (publickey,password).", 255, "it must let you in"),
            ("Received disconnect from 10.0.0.1: Too many authentication failures", 255, "it must let you in"),
            ("ssh: Could not resolve hostname h1: Name or service not known", 255, "no host of this name"),
            ("ssh: connect to host h1 port 22: Connection refused", 255, "no ssh server listens there"),
            ("ssh: connect to host h1 port 22: No route to host", 255, "it is down"),
            ("ssh: connect to host h1 port 22: Connection timed out", 255, "it is down"),
            ("kex_exchange_identification: Connection closed by remote host", 255, "its ssh server hangs up"),
            ("Connection reset by 10.0.0.1 port 22", 255, "its ssh server hangs up"),
            (
                "bash: line 1: /w/mpiexec: cannot execute binary file: Exec format error",
                126,
                "/w/mpiexec is for another",
            ),
            ("sh: 1: /w/mpiexec: Exec format error", 126, "/w/mpiexec is for another"),
            ("/w/mpiexec: error while loading shared libraries: libc.so.6", 127, "/w/mpiexec was built"),
            ("/w/mpiexec: /lib/libc.so.6: version `GLIBC_2.38' not found", 1, "/w/mpiexec was built"),
            ("bash: line 1: /w/mpiexec: No such file or directory", 127, "Weft is not there as /w/mpiexec"),
            ("sh: 1: /w/mpiexec: not found", 127, "Weft is not there as /w/mpiexec"),
            ("bash: line 1: /w/mpiexec: Permission denied", 126, "let users execute /w/mpiexec"),
            ("write: No space left on device", 1, "make room"),
        ] {
            let advice = of_end(said, Some(status), "h1", "/w/mpiexec").unwrap_or_default();
            assert!(advice.starts_with(begins), "{said}: {advice}");
            assert!(!advice.contains('{'), "{advice}");
        }
        for (said, status) in [("", 255), ("setns: No such file or directory", 1), ("x: Permission denied", 1)] {
            assert_eq!(of_end(said, Some(status), "h1", "/w/mpiexec"), None, "{said}");
        }
        assert!(is_turned_away("kex_exchange_identification: read: Connection reset by peer"));
        assert!(!is_turned_away("Connection closed by 10.0.0.1 port 22"));
        assert!(of_silence("", "h1", "m").contains("`ssh h1 true`"));
        assert!(of_silence_behind("", "h2", "m", "h1").starts_with("try `ssh h2 true` on h1; --tree-width none"));
        assert!(of_silence_behind("Connection refused", "h2", "m", "h1").starts_with("no ssh server"));
        assert!(of_silence("ssh: connect to host h1 port 22: No route to host", "h1", "m").starts_with("it is down"));
    }
}
