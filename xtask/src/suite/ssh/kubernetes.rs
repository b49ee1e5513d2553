//! Tests of `mpirun` as Kubernetes' MPI Operator (v2beta1) calls it. Virtual hosts with ssh servers play the
//! pods. The launcher's pod has the operator's environment, its files below /etc/mpi, and names that only its
//! own /etc/hosts knows, as those of the cluster's name service.

use std::rc::Rc;

use super::super::Case;
use super::super::context::Expected;
use super::super::process::Run;
use super::site::{Lazy, Site};
use super::{RING, on, script};

/// The workers' names of a job `pi`.
const DOMAIN: &str = "pi.default.svc";
/// The longest name of the launcher's pod.
const LAUNCHER: &str = "pi-launcher.pi.default.svc.cluster.local";

/// An implementation of MPI that the operator prepares a job for.
struct Implementation {
    name: &'static str,
    /// The environment of the launcher, as pkg/controller/mpi_job_controller.go of the operator makes it.
    environment: &'static [(&'static str, &'static str)],
    /// The line of a host in the hostfile.
    line: fn(&str) -> String,
}

const IMPLEMENTATIONS: [Implementation; 3] = [
    Implementation {
        name: "OpenMPI",
        environment: &[
            ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
            ("OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"),
            ("OMPI_MCA_plm_rsh_args", "-o ConnectionAttempts=10"),
            ("OMPI_MCA_orte_set_default_slots", "2"),
        ],
        line: |host| format!("{host} slots=2\n"),
    },
    Implementation {
        name: "Intel",
        environment: &[
            ("I_MPI_HYDRA_HOST_FILE", "/etc/mpi/hostfile"),
            ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "-o ConnectionAttempts=10"),
            ("I_MPI_PERHOST", "2"),
        ],
        line: |host| format!("{host}:2\n"),
    },
    Implementation {
        name: "MPICH",
        environment: &[
            ("HYDRA_HOST_FILE", "/etc/mpi/hostfile"),
            ("HYDRA_LAUNCH_EXTRA_ARGS", "-o ConnectionAttempts=10"),
        ],
        line: |host| format!("{host}:2\n"),
    },
];

/// The words between `mpirun` and the program in the operator's example with Horovod.
const HOROVOD: [&str; 17] = [
    "-np",
    "4",
    "--allow-run-as-root",
    "-bind-to",
    "none",
    "-map-by",
    "slot",
    "-x",
    "LD_LIBRARY_PATH",
    "-x",
    "PATH",
    "-mca",
    "pml",
    "ob1",
    "-mca",
    "btl",
    "^openib",
];

/// The words of an elastic job.
const DISCOVERY: [&str; 5] = ["--host-discovery-script", "/etc/mpi/discover_hosts.sh", "-n", "4", "-v"];

pub(super) fn cases() -> Vec<Case> {
    let site = Lazy::new("pods", 2);
    let mut cases = Vec::new();
    for implementation in &IMPLEMENTATIONS {
        let name = |what: &str| format!("Kubernetes' MPI Operator for {}, {what}", implementation.name);
        cases.push(job(&site, name("its example"), implementation, false, &["-v", "-n", "2"], |expected| {
            expected.says("2 ranks").says("on pi-worker-0.pi.default.svc: ranks 0-1")
        }));
        cases.push(job(&site, name("as many ranks as slots"), implementation, false, &["-v"], |expected| {
            let expected = expected.says("4 ranks").says("on pi-worker-1.pi.default.svc: ranks 2-3");
            expected.says("/etc/mpi/hostfile").says("-o ConnectionAttempts=10")
        }));
        cases.push(job(&site, name("the launcher as a worker"), implementation, true, &["-v"], |expected| {
            let expected = expected.says("6 ranks").says("on pi-launcher.pi.default.svc: ranks 0-1");
            expected.says("(a copy of mpiexec)")
        }));
    }
    cases.push(job(&site, "Horovod's command line".into(), &IMPLEMENTATIONS[0], false, &HOROVOD, |expected| {
        expected.says("4 ranks").never_says("not known")
    }));
    cases.push(job(
        &site,
        "discover_hosts.sh of an elastic job".into(),
        &IMPLEMENTATIONS[0],
        false,
        &DISCOVERY,
        |expected| expected.says("4 ranks").says("on pi-worker-0.pi.default.svc: ranks 0-1"),
    ));
    cases
}

/// A job: `mpirun` in the launcher's pod with these words, and the ring.
fn job(
    site: &Rc<Lazy>,
    name: String,
    implementation: &'static Implementation,
    launcher_works: bool,
    words: &'static [&'static str],
    expect: fn(Expected) -> Expected,
) -> Case {
    on(site, name, move |context, site| {
        let run = pod(site, implementation, launcher_works)?.arg(context.bin("mpirun")).args(words);
        Ok((expect(Expected::code(0).says("(right)")), run.arg(context.compile(RING)?).finish()?))
    })
}

/// The launcher's pod: a command follows.
fn pod(site: &Site, implementation: &Implementation, launcher_works: bool) -> anyhow::Result<Run> {
    let file = |name: &str| site.file(name);
    let workers = ["pi-worker-0", "pi-worker-1"];
    let names = launcher_works.then_some("pi-launcher").into_iter().chain(workers);
    let lines: String = names.map(|name| (implementation.line)(&format!("{name}.{DOMAIN}"))).collect();
    std::fs::create_dir_all(file("mpi"))?;
    std::fs::write(file("mpi/hostfile"), lines)?;
    let echo: Vec<String> = workers.iter().map(|name| format!("echo {name}.{DOMAIN}")).collect();
    script(file("mpi/discover_hosts.sh"), &echo.join("\n"))?;
    let mut hosts = format!("127.0.0.1 localhost\n{} {LAUNCHER} pi-launcher\n", Site::address(0));
    for (number, name) in (1..).zip(workers) {
        hosts.push_str(&format!("{} {name}.{DOMAIN} {name}.{DOMAIN}.cluster.local\n", Site::address(number)));
    }
    std::fs::write(file("hosts"), hosts)?;
    // The image's own configuration of ssh knows the port and does not ask about keys of pods.
    let ssh = format!(
        "Host *\nPort 2222\nIdentityFile {}\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n",
        file("user_key").display()
    );
    std::fs::write(file("ssh_config"), ssh)?;
    // The pod's own /etc, for this command alone.
    let enter = format!(
        "cd '{}'; hostname pi-launcher; mount -t tmpfs tmpfs /mnt; cp -a /etc/. /mnt; cp -r mpi hosts /mnt; \
         cp ssh_config /mnt/ssh; mount --bind /mnt /etc; cd /; exec \"$@\"",
        site.directory.display()
    );
    let run = site.on(0).args(["unshare", "-m", "-u", "sh", "-ec", &enter, "sh"]);
    let environment = implementation.environment.iter().chain(&[("K_MPI_JOB_ROLE", "launcher")]);
    Ok(environment.fold(run, |run, (name, value)| run.env(name, value)))
}
