//! The needs of cases that not every machine fulfils: without them a case is skipped, with the reason.

use rustix::process::geteuid;

use super::context::Context;
use super::libfabric;
use super::process::{Run, search_path};

/// The headers of libfabric, in the places where Debian has them.
const HEADERS: [&str; 2] = ["/usr/include/rdma/fabric.h", "/usr/local/include/rdma/fabric.h"];

#[derive(Clone, Copy)]
pub(crate) enum Need {
    /// The two hosts have networks of their own.
    Networks,
    /// The two hosts with two interfaces each have networks of their own.
    NetworksOnRails,
    Libfabric,
    LibfabricHeaders,
    /// The tool that filters packets.
    Nft,
    /// The tool that reads captures.
    Tshark,
    /// The right to attach programs to interfaces of the hosts.
    AttachedPrograms,
    Root,
    /// GNU's Fortran compiler.
    Gfortran,
    /// LLVM's Fortran compiler, of version 19 or newer.
    Flang,
    /// Slurm and MUNGE, and the right to run their daemons.
    Slurm,
    /// The programs that make Debian packages.
    Debhelper,
    /// The program that checks Debian packages.
    Lintian,
    /// The right and the program to make an empty Debian.
    Debootstrap,
    /// The libraries that make and install conda packages.
    Rattler,
    /// Spack 1.0 or newer, set up with a compiler and its own packages.
    Spack,
    /// An ssh server that this user may start on virtual hosts.
    Sshd,
}

/// The interpreter of the environment that `tools/setup.sh packages` makes.
pub(crate) const PACKAGES_PYTHON: &str = "build/venv-packages/bin/python";

/// The ssh server, where Debian has it.
pub(crate) const SSHD: &str = "/usr/sbin/sshd";

impl Need {
    /// The reason why the need is not fulfilled on this machine.
    ///
    /// # Errors
    /// The answer is not known: hosts cannot be made for a reason that is no property of the machine.
    pub(super) fn missing(self, context: &Context) -> anyhow::Result<Option<String>> {
        let unless = |is_here: bool, why: &str| (!is_here).then(|| why.to_owned());
        Ok(match self {
            Need::Networks => context.hosts()?.why_no_networks(),
            Need::NetworksOnRails => context.hosts_on_rails()?.why_no_networks(),
            Need::Libfabric => unless(libfabric::is_here(context), "libfabric is not installed"),
            Need::LibfabricHeaders => {
                let is_here = HEADERS.iter().any(|path| std::path::Path::new(path).exists());
                unless(is_here, "libfabric's headers are not installed")
            }
            Need::Nft => unless(answers("nft"), "needs nft (Debian has it in the package nftables)"),
            Need::Tshark => unless(answers("tshark"), "no tshark here; as root, tools/setup.sh tests installs it"),
            Need::AttachedPrograms => {
                let is_root = !context.hosts()?.are_without_root();
                unless(is_root, "AF_XDP needs root: the kernel takes programs from nobody else")
            }
            Need::Slurm if !geteuid().is_root() => Some("only root can run Slurm's daemons".to_owned()),
            Need::Slurm => {
                let are_here = ["slurmctld", "slurmd"].iter().all(|program| says_version(program, "-V"));
                let why = "no Slurm here; as root, tools/setup.sh tests installs it";
                unless(are_here && says_version("munged", "--version"), why)
            }
            Need::Sshd if !std::path::Path::new(SSHD).exists() => {
                Some("no ssh server here; as root, tools/setup.sh tests installs it (openssh-server)".to_owned())
            }
            Need::Sshd => unless(geteuid().is_root(), "only root can start ssh servers on hosts of their own"),
            Need::Debhelper => {
                let are_here = ["dh", "chrpath", "gfortran-12"].iter().all(|program| is_there(program));
                unless(are_here, "no debhelper here; as root, tools/setup.sh packages installs it")
            }
            Need::Lintian => unless(
                says_version("lintian", "--version"),
                "no lintian here; as root, tools/setup.sh packages installs it",
            ),
            Need::Debootstrap if !geteuid().is_root() => Some("only root can make an empty system".to_owned()),
            Need::Debootstrap => {
                let why = "no debootstrap here; as root, tools/setup.sh packages installs it";
                unless(says_version("debootstrap", "--version"), why)
            }
            Need::Rattler => {
                let run = Run::new(context.root.join(PACKAGES_PYTHON)).args(["-c", "import rattler, rattler_build"]);
                let is_here = run.finish().is_ok_and(|finished| finished.code == Some(0));
                unless(is_here, "no rattler-build here; tools/setup.sh packages installs it")
            }
            Need::Spack => {
                let why = "no Spack here: it is in no index of packages; `spack` must be found in PATH";
                unless(says_version("spack", "--version"), why)
            }
            Need::Gfortran => {
                let why = "no gfortran here; as root, tools/setup.sh tests installs it";
                unless(says_version("gfortran", "--version"), why)
            }
            Need::Flang => {
                let why = "no flang here; as root, tools/setup.sh tests installs it (flang-19)";
                unless(flang().is_some(), why)
            }
            Need::Root => unless(geteuid().is_root(), "only root can become another user"),
        })
    }
}

/// The names of LLVM's Fortran compiler, the preferred ones first. Those before version 19 know too little.
const FLANGS: &[&str] = &["flang-22", "flang", "flang-20", "flang-19", "flang-new-19"];

/// The name by which LLVM's Fortran compiler is here.
pub(super) fn flang() -> Option<&'static str> {
    let path = std::env::var_os("PATH")?;
    let directories: Vec<_> = std::env::split_paths(&path).collect();
    FLANGS.iter().copied().find(|name| directories.iter().any(|directory| directory.join(name).is_file()))
}

/// Returns whether a program is where programs are looked for. Some do not say their version just so.
fn is_there(program: &str) -> bool {
    std::env::split_paths(&search_path()).any(|directory| directory.join(program).is_file())
}

/// Returns whether a program prints its version.
fn answers(program: &str) -> bool {
    says_version(program, "-v")
}

fn says_version(program: &str, option: &str) -> bool {
    Run::new(program).arg(option).finish().is_ok_and(|finished| finished.code == Some(0))
}
