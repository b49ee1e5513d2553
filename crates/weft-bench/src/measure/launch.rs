//! Starts the ranks of a job in a place, by the launcher of each library.
//!
//! Weft's `mpiexec` runs outside the virtual hosts and reaches them through its agent. Other launchers must
//! be reachable over IP from all hosts. So they run inside the first host, and reach the other hosts by a
//! script in the place of `ssh`. Hosts that exist already are reached as each launcher does it by itself.

use std::path::Path;

use super::kind::Kind;
use super::library::Mpi;
use super::place::{Net, PlannedPlace, processors};

/// A command, and the variables that it needs beside those of this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Invocation {
    pub(crate) words: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

/// The job that runs `program` with `arguments` under `mpi` in `place`. `libfabric`: a directory with a
/// libfabric, for a library that brings none.
pub(crate) fn invocation(
    mpi: &Mpi,
    place: &PlannedPlace,
    net: Option<&Net>,
    libfabric: Option<&Path>,
    program: &Path,
    arguments: &[String],
) -> Invocation {
    let mut words = Vec::new();
    if let (Some(net), true) = (net, mpi.kind != Kind::Weft) {
        words.extend(net.enter(0));
    }
    words.push(mpi.bin("mpiexec").display().to_string());
    words.extend(options(mpi.kind, place, net, &mpi.prefix));
    words.extend(["-n".to_owned(), place.ranks.to_string(), program.display().to_string()]);
    words.extend(arguments.iter().cloned());
    Invocation { words, environment: environment(mpi, net.is_some_and(Net::is_virtual), libfabric) }
}

/// The variables for `mpi`; the user's variables come last. `is_virtual`: between virtual hosts, whose
/// interface is `e0`.
pub(crate) fn environment(mpi: &Mpi, is_virtual: bool, libfabric: Option<&Path>) -> Vec<(String, String)> {
    let prefix = mpi.prefix.display().to_string();
    let mut library_path = format!("{prefix}/lib");
    let mut set: Vec<(&str, String)> = Vec::new();
    match mpi.kind {
        Kind::Weft => {}
        // Virtual hosts share memory, and UCX would find out: should the user choose UCX, this setting holds
        // it to the wire.
        Kind::Mpich if is_virtual => set.extend([
            ("MPIR_CVAR_CH4_NETMOD", "ofi".into()),
            ("FI_PROVIDER", "tcp".into()),
            ("FI_TCP_IFACE", "e0".into()),
            ("UCX_TLS", "tcp,self".into()),
            ("UCX_NET_DEVICES", "e0".into()),
        ]),
        Kind::Mpich => {}
        Kind::Intel => {
            set.push(("I_MPI_ROOT", prefix));
            if is_virtual {
                // All hosts share the processors: with pinning, the first ranks of all hosts would be on the
                // same processor.
                set.extend([("I_MPI_PIN", "off".into()), ("FI_PROVIDER", "tcp".into()), ("FI_TCP_IFACE", "e0".into())]);
                library_path += &libfabric.map(|path| format!(":{}", path.display())).unwrap_or_default();
            }
        }
        Kind::OpenMpi => {
            set.push(("OPAL_PREFIX", prefix));
            if is_virtual {
                set.extend([
                    ("OMPI_MCA_pml", "ob1".into()),
                    ("OMPI_MCA_btl", "self,sm,tcp".into()),
                    ("OMPI_MCA_btl_tcp_if_include", "e0".into()),
                ]);
            }
        }
    }
    set.push(("LD_LIBRARY_PATH", library_path));
    let mut all: Vec<(String, String)> = set.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    all.extend(mpi.environment.clone());
    all
}

fn options(kind: Kind, place: &PlannedPlace, net: Option<&Net>, prefix: &Path) -> Vec<String> {
    let per_host = place.ranks_per_host();
    let mut words: Vec<String> = Vec::new();
    match (kind, net) {
        (Kind::Weft, Some(net)) => {
            words.extend(["-ppn".into(), per_host.to_string(), "--hosts".into(), net.hosts().join(",")]);
            if net.is_virtual() {
                words.extend(["--agent".into(), format!("'{}' hosts enter {{host}}", super::place::this_command())]);
            }
        }
        (Kind::Mpich | Kind::Intel, Some(net)) => {
            if let Some(agent) = net.agent() {
                words.extend(["-iface", "e0", "-launcher", "ssh", "-launcher-exec"].map(str::to_owned));
                words.push(agent.display().to_string());
            }
            words.extend(["-hosts".into(), net.addresses().join(","), "-ppn".into(), per_host.to_string()]);
        }
        (Kind::OpenMpi, net) => {
            if rustix::process::geteuid().is_root() {
                words.push("--allow-run-as-root".into());
            }
            if let Some(net) = net {
                let hosts: Vec<String> =
                    net.addresses().iter().map(|address| format!("{address}:{per_host}")).collect();
                words.extend(["--prefix".into(), prefix.display().to_string()]);
                if let Some(agent) = net.agent() {
                    words.extend(["--prtemca".into(), "plm_ssh_agent".into(), agent.display().to_string()]);
                }
                words.extend(["--host".into(), hosts.join(",")]);
            }
            let is_virtual = net.is_some_and(Net::is_virtual);
            let is_oversubscribed = place.reached.is_none() && place.ranks > processors();
            if is_oversubscribed {
                words.extend(["--map-by".into(), ":OVERSUBSCRIBE".into()]);
            }
            if is_virtual || is_oversubscribed {
                // The hosts share the processors here as with Intel's library.
                words.extend(["--bind-to".into(), "none".into()]);
            }
        }
        (Kind::Weft | Kind::Mpich | Kind::Intel, None) => {}
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::reached::Reached;
    use super::*;
    use std::collections::BTreeMap;

    fn mpi(kind: Kind) -> Mpi {
        let environment = BTreeMap::from([("FI_PROVIDER".to_owned(), "verbs".to_owned())]);
        Mpi { id: kind.name().into(), kind, prefix: "/opt/mpi".into(), environment, has_abi: true, within_host: None }
    }

    #[test]
    fn one_node_needs_no_more_than_a_number() {
        let place = PlannedPlace { hosts: 1, ranks: 1, reached: None, rate: None, loss: None };
        let words = |kind| {
            let program = Path::new("/p");
            invocation(&mpi(kind), &place, None, None, program, &["--sizes".into(), "8".into()]).words.join(" ")
        };
        for kind in [Kind::Weft, Kind::Mpich, Kind::Intel] {
            assert_eq!(words(kind), "/opt/mpi/bin/mpiexec -n 1 /p --sizes 8");
        }
        assert!(words(Kind::OpenMpi).ends_with("-n 1 /p --sizes 8"));
    }

    /// Two hosts that exist already.   Expect: each launcher is told their names, and reaches them by itself.
    #[test]
    fn hosts_by_name_are_left_to_the_launchers() {
        let reached = Reached::of(&["a".to_owned(), "b".to_owned()]).expect("two hosts");
        let net = Net::Reached(reached.clone());
        let place = PlannedPlace { hosts: 2, ranks: 4, reached: Some(reached), rate: None, loss: None };
        let words = |kind| invocation(&mpi(kind), &place, Some(&net), None, Path::new("/p"), &[]).words.join(" ");
        assert_eq!(words(Kind::Weft), "/opt/mpi/bin/mpiexec -ppn 2 --hosts a,b -n 4 /p");
        for kind in [Kind::Mpich, Kind::Intel] {
            assert_eq!(words(kind), "/opt/mpi/bin/mpiexec -hosts a,b -ppn 2 -n 4 /p");
        }
        assert!(words(Kind::OpenMpi).ends_with("--prefix /opt/mpi --host a:2,b:2 -n 4 /p"));
        let set = environment(&mpi(Kind::OpenMpi), false, None);
        assert!(set.iter().all(|(name, _)| !name.contains("btl")), "{set:?}");
    }

    #[test]
    fn the_users_variables_come_last() {
        for kind in Kind::ALL {
            let all = environment(&mpi(kind), true, Some(Path::new("/fabric")));
            assert_eq!(all.last().unwrap(), &("FI_PROVIDER".to_owned(), "verbs".to_owned()));
            let path = &all.iter().find(|(name, _)| name == "LD_LIBRARY_PATH").unwrap().1;
            assert_eq!(path.ends_with(":/fabric"), kind == Kind::Intel);
        }
    }
}
