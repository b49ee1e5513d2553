//! The environment variables that ranks see.
//!
//! Ranks of this host inherit everything. Ranks of other hosts get everything too: `LD_LIBRARY_PATH`,
//! `PYTHONPATH` or `OMP_NUM_THREADS` are meant for the whole job, and a forgotten variable is a puzzle. Only
//! variables that describe this host or this login, and would be wrong elsewhere, are left out; there the
//! agent's own values are kept.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Variables that are not sent to other hosts.
const HOST_BOUND: [&str; 31] = [
    "_",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HOME",
    "HOST",
    "HOSTNAME",
    "HOSTTYPE",
    "LOGNAME",
    "MACHTYPE",
    "MAIL",
    "OLDPWD",
    "PWD",
    "SHELL",
    "SHLVL",
    "SLURMD_NODENAME",
    "SLURM_CPUS_ON_NODE",
    "SLURM_GTIDS",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_TASK_PID",
    "SLURM_TOPOLOGY_ADDR",
    "TMPDIR",
    "TTY",
    "USER",
    "WAYLAND_DISPLAY",
    "WEFT_NODE",
    "WINDOWID",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];
/// Prefixes of names that are not sent to other hosts, because they belong to a login or to another launcher.
const HOST_BOUND_PREFIXES: [&str; 7] =
    ["SSH_", "XDG_SESSION_", "PMI_", "PMIX_", "HYDI_", "OMPI_COMM_WORLD_", "MPI_LOCAL"];
/// The prefix of Weft's settings, which reach every rank whatever else is asked for.
const SETTINGS_PREFIX: &str = "WEFT_";

/// Names and values.
pub(crate) type Variables = Vec<(OsString, OsString)>;

/// The part of the environment of `mpiexec` that ranks see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Base {
    /// All variables.
    All,
    /// No variables.
    None,
    /// Variables with these names.
    List(Vec<String>),
}

/// The environment that the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EnvironmentOptions {
    pub(crate) base: Base,
    /// Variables that are set; the last value counts.
    pub(crate) set: Variables,
}

/// Names and values in the form in which they are sent.
pub(crate) type Bytes = Vec<(Vec<u8>, Vec<u8>)>;

/// The environment for a host's agent: whether ranks inherit the agent's environment, and the variables to
/// add.
pub(crate) fn for_host(environment: &EnvironmentOptions, own: &[(OsString, OsString)], remote: bool) -> (bool, Bytes) {
    let setting = |name: &OsStr| begins(name, SETTINGS_PREFIX);
    let passed = own.iter().filter(|(name, _)| match &environment.base {
        // The local agent is a copy of this process: there is nothing to send.
        Base::All => remote && !is_host_bound(name),
        Base::None => setting(name) && !is_host_bound(name),
        Base::List(names) => {
            (setting(name) && !is_host_bound(name)) || names.iter().any(|other| name == other.as_str())
        }
    });
    let variables =
        passed.chain(&environment.set).map(|(name, value)| (name.clone().into_vec(), value.clone().into_vec()));
    (environment.base == Base::All, variables.collect())
}

fn begins(name: &OsStr, prefix: &str) -> bool {
    name.as_bytes().starts_with(prefix.as_bytes())
}

fn is_host_bound(name: &OsStr) -> bool {
    HOST_BOUND.iter().any(|bound| name == *bound) || HOST_BOUND_PREFIXES.iter().any(|prefix| begins(name, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(names: &[(&str, &str)]) -> Variables {
        names.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn names(environment: &EnvironmentOptions, remote: bool) -> (bool, Vec<String>) {
        let own = variables(&[("PATH", "/bin"), ("HOME", "/root"), ("WEFT_LINK", "udp"), ("SSH_TTY", "x"), ("A", "1")]);
        let (inherit, variables) = for_host(environment, &own, remote);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (inherit, variables.into_iter().map(|(name, _)| text(name)).collect())
    }

    #[test]
    fn another_host_gets_everything_but_what_describes_this_one() {
        let mut environment = EnvironmentOptions { base: Base::All, set: variables(&[("HOME", "/elsewhere")]) };
        assert_eq!(names(&environment, false), (true, vec!["HOME".to_string()]));
        environment.set.clear();
        assert_eq!(names(&environment, true), (true, ["PATH", "WEFT_LINK", "A"].map(String::from).to_vec()));
    }

    #[test]
    fn a_list_or_nothing_still_passes_settings() {
        let environment = EnvironmentOptions { base: Base::None, set: variables(&[("B", "2")]) };
        assert_eq!(names(&environment, false), (false, ["WEFT_LINK", "B"].map(String::from).to_vec()));
        let environment = EnvironmentOptions { base: Base::List(vec!["HOME".into(), "A".into()]), set: vec![] };
        assert_eq!(names(&environment, true), (false, ["HOME", "WEFT_LINK", "A"].map(String::from).to_vec()));
    }
}
