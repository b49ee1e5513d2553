//! Variables of other launchers that say where ranks run and how hosts are reached, as one table.
//!
//! Scripts, job templates and Kubernetes' MPI Operator set them for the launcher that they expect. `mpiexec`
//! reads each variable as that launcher does. An option of the command line counts more than a variable.

use super::settings::RANKS_MAX;
use crate::hosts;

/// What a variable says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A file with the hosts.
    HostFile,
    /// The program that runs a command on a host, with arguments of its own.
    RemoteShell,
    /// The way to start programs on hosts, in Hydra's words: ssh, rsh, or the means of a batch system.
    Launcher,
    /// Arguments of that program.
    RemoteShellArguments,
    /// The number of ranks on each host.
    RanksPerHost,
    /// The slots of a host whose slots are not given.
    SlotsPerHost,
    /// The network interface of all hosts.
    Interface,
    /// Nothing here, because it holds anyway; the text says why.
    HoldsAnyway(&'static str),
}

impl Meaning {
    /// The meaning in words, for the help text.
    pub(crate) fn text(self) -> &'static str {
        match self {
            HostFile => "the hostfile, where no option names hosts",
            RemoteShell => "-launcher-exec",
            Launcher => "-launcher, where it says ssh or rsh",
            RemoteShellArguments => "--launcher-args",
            RanksPerHost => "-ppn, where it says a number",
            SlotsPerHost => "the slots of hosts without a number",
            Interface => "-iface",
            HoldsAnyway(why) => why,
        }
    }
}

/// A variable.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) meaning: Meaning,
}

const fn row(name: &'static str, meaning: Meaning) -> Row {
    Row { name, meaning }
}

use Meaning::{
    HoldsAnyway, HostFile, Interface, Launcher, RanksPerHost, RemoteShell, RemoteShellArguments, SlotsPerHost,
};

const NAMES_STAY_WHOLE: &str = "names of hosts stay whole";

/// All variables: those of MPICH's Hydra, of Intel's, of Open MPI 4 (ORTE), and of Open MPI 5 (PRRTE). Of two
/// with the same meaning the first that is set counts.
pub(crate) static VARIABLES: &[Row] = &[
    row("HYDRA_HOST_FILE", HostFile),
    row("I_MPI_HYDRA_HOST_FILE", HostFile),
    row("OMPI_MCA_orte_default_hostfile", HostFile),
    row("OMPI_MCA_prte_default_hostfile", HostFile),
    row("PRTE_MCA_prte_default_hostfile", HostFile),
    row("HYDRA_LAUNCHER_EXEC", RemoteShell),
    row("HYDRA_BOOTSTRAP_EXEC", RemoteShell),
    row("I_MPI_HYDRA_BOOTSTRAP_EXEC", RemoteShell),
    row("OMPI_MCA_plm_rsh_agent", RemoteShell),
    row("PRTE_MCA_plm_ssh_agent", RemoteShell),
    row("PRTE_MCA_plm_rsh_agent", RemoteShell),
    row("HYDRA_LAUNCHER", Launcher),
    row("HYDRA_BOOTSTRAP", Launcher),
    row("I_MPI_HYDRA_BOOTSTRAP", Launcher),
    row("HYDRA_LAUNCH_EXTRA_ARGS", RemoteShellArguments),
    row("HYDRA_LAUNCHER_EXTRA_ARGS", RemoteShellArguments),
    row("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", RemoteShellArguments),
    row("OMPI_MCA_plm_rsh_args", RemoteShellArguments),
    row("PRTE_MCA_plm_ssh_args", RemoteShellArguments),
    row("PRTE_MCA_plm_rsh_args", RemoteShellArguments),
    row("I_MPI_PERHOST", RanksPerHost),
    row("OMPI_MCA_orte_set_default_slots", SlotsPerHost),
    row("PRTE_MCA_prte_set_default_slots", SlotsPerHost),
    row("HYDRA_IFACE", Interface),
    row("I_MPI_HYDRA_IFACE", Interface),
    row("OMPI_MCA_orte_keep_fqdn_hostnames", HoldsAnyway(NAMES_STAY_WHOLE)),
    row("OMPI_MCA_prte_keep_fqdn_hostnames", HoldsAnyway(NAMES_STAY_WHOLE)),
    row("PRTE_MCA_prte_keep_fqdn_hostnames", HoldsAnyway(NAMES_STAY_WHOLE)),
];

/// A value and the variable that it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said<T> {
    pub(crate) by: &'static str,
    pub(crate) value: T,
}

/// What the variables say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Borrowed {
    pub(crate) host_file: Option<Said<String>>,
    pub(crate) remote_shell: Option<Said<String>>,
    pub(crate) remote_shell_arguments: Option<Said<String>>,
    pub(crate) ranks_per_host: Option<Said<u32>>,
    pub(crate) slots_per_host: Option<Said<u32>>,
    pub(crate) interface: Option<Said<String>>,
    /// Sentences about variables that change nothing.
    pub(crate) without_effect: Vec<String>,
}

/// Reads the variables. `variable` looks into the environment.
pub(crate) fn read(variable: &dyn Fn(&str) -> Option<String>) -> Borrowed {
    let mut found = Borrowed::default();
    for Row { name: by, meaning } in VARIABLES {
        let Some(value) = variable(by).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()) else {
            continue;
        };
        let because = match meaning {
            // Open MPI's word for no file.
            HostFile if value == "none" => Some("it names no file".to_owned()),
            HostFile => keep(&mut found.host_file, by, value.clone()),
            RemoteShell => keep(&mut found.remote_shell, by, first_choice(&value)),
            Launcher if matches!(value.as_str(), "ssh" | "rsh") => keep(&mut found.remote_shell, by, value.clone()),
            Launcher => Some("the means of a batch system are found without it".to_owned()),
            RemoteShellArguments => keep(&mut found.remote_shell_arguments, by, value.clone()),
            Interface => keep(&mut found.interface, by, value.clone()),
            RanksPerHost => match value.parse() {
                Ok(count) if (1..=RANKS_MAX).contains(&count) => keep(&mut found.ranks_per_host, by, count),
                _ => Some("ranks per host are a number here".to_owned()),
            },
            SlotsPerHost => match hosts::parse_slots(&value) {
                Ok(slots) => keep(&mut found.slots_per_host, by, slots),
                Err(_) => Some("slots are a number here".to_owned()),
            },
            HoldsAnyway(why) => Some((*why).to_owned()),
        };
        if let Some(because) = because {
            found.without_effect.push(format!("the variable {by}={value} has no effect here: {because}"));
        }
    }
    found
}

/// Keeps the first value. Returns why another one has no effect.
fn keep<T>(place: &mut Option<Said<T>>, by: &'static str, value: T) -> Option<String> {
    match place {
        Some(first) => Some(format!("{} says it already", first.by)),
        None => {
            *place = Some(Said { by, value });
            None
        }
    }
}

/// The first of the commands that Open MPI's list `ssh : rsh` offers.
fn first_choice(list: &str) -> String {
    list.split(" : ").next().unwrap_or(list).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Borrowed {
        read(&|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    fn said<T>(by: &'static str, value: T) -> Option<Said<T>> {
        Some(Said { by, value })
    }

    /// Expect: each variable alone has the effect of its meaning, and none is named twice.
    #[test]
    fn each_row_says_one_thing() {
        let mut names: Vec<&str> = VARIABLES.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), VARIABLES.len());
        for Row { name, meaning } in VARIABLES {
            let found = with(&[(name, "7")]);
            let seven = || said(name, "7".to_owned());
            let expected = match meaning {
                HostFile => Borrowed { host_file: seven(), ..Borrowed::default() },
                RemoteShell => Borrowed { remote_shell: seven(), ..Borrowed::default() },
                Launcher => {
                    assert_eq!(with(&[(name, "rsh")]).remote_shell, said(name, "rsh".to_owned()));
                    let why = "the means of a batch system are found without it";
                    let text = format!("the variable {name}=7 has no effect here: {why}");
                    Borrowed { without_effect: vec![text], ..Borrowed::default() }
                }
                RemoteShellArguments => Borrowed { remote_shell_arguments: seven(), ..Borrowed::default() },
                Interface => Borrowed { interface: seven(), ..Borrowed::default() },
                RanksPerHost => Borrowed { ranks_per_host: said(name, 7), ..Borrowed::default() },
                SlotsPerHost => Borrowed { slots_per_host: said(name, 7), ..Borrowed::default() },
                HoldsAnyway(why) => {
                    let text = format!("the variable {name}=7 has no effect here: {why}");
                    Borrowed { without_effect: vec![text], ..Borrowed::default() }
                }
            };
            assert_eq!(found, expected, "{name}");
            assert_eq!(with(&[(name, " ")]), Borrowed::default(), "{name} is empty");
        }
    }

    /// The environments that the MPI Operator v2beta1 gives to its launcher, one for each implementation.
    #[test]
    fn kubernetes_mpi_operator_is_understood() {
        let open_mpi = with(&[
            ("K_MPI_JOB_ROLE", "launcher"),
            ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
            ("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"),
            ("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
            ("OMPI_MCA_orte_set_default_slots", "2"),
        ]);
        assert_eq!(open_mpi.host_file, said("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile".to_owned()));
        assert_eq!(
            open_mpi.remote_shell_arguments,
            said("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10".to_owned())
        );
        assert_eq!(open_mpi.slots_per_host, said("OMPI_MCA_orte_set_default_slots", 2));
        let intel = with(&[
            ("I_MPI_HYDRA_HOST_FILE", "/etc/mpi/hostfile"),
            ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "-o ConnectionAttempts=10"),
            ("I_MPI_PERHOST", "2"),
        ]);
        assert_eq!((intel.ranks_per_host, intel.without_effect.len()), (said("I_MPI_PERHOST", 2), 0));
        let mpich =
            with(&[("HYDRA_HOST_FILE", "/etc/mpi/hostfile"), ("HYDRA_LAUNCH_EXTRA_ARGS", "-o ConnectionAttempts=10")]);
        assert_eq!(mpich.host_file, said("HYDRA_HOST_FILE", "/etc/mpi/hostfile".to_owned()));
        assert_eq!(
            mpich.remote_shell_arguments,
            said("HYDRA_LAUNCH_EXTRA_ARGS", "-o ConnectionAttempts=10".to_owned())
        );
    }

    #[test]
    fn the_first_of_two_counts_and_words_without_effect_are_named() {
        let found = with(&[
            ("HYDRA_HOST_FILE", "/a"),
            ("I_MPI_HYDRA_HOST_FILE", "/b"),
            ("I_MPI_PERHOST", "all"),
            ("OMPI_MCA_orte_set_default_slots", "cores"),
            ("OMPI_MCA_plm_rsh_agent", "/opt/bin/ssh -4 : rsh"),
        ]);
        assert_eq!(found.host_file, said("HYDRA_HOST_FILE", "/a".to_owned()));
        assert_eq!(found.remote_shell, said("OMPI_MCA_plm_rsh_agent", "/opt/bin/ssh -4".to_owned()));
        assert_eq!((&found.ranks_per_host, &found.slots_per_host), (&None, &None));
        let [file, ranks, slots] = &found.without_effect[..] else { panic!("{:?}", found.without_effect) };
        assert!(file.contains("I_MPI_HYDRA_HOST_FILE=/b") && file.ends_with("HYDRA_HOST_FILE says it already"));
        assert!(ranks.contains("I_MPI_PERHOST=all") && slots.contains("cores"));
        let none = with(&[("OMPI_MCA_orte_default_hostfile", "none")]);
        assert_eq!((none.host_file, none.without_effect.len()), (None, 1));
    }
}
