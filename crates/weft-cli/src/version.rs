//! `weft --version`: the version, the commit, what is built in, and what of it needs which kernel.

use weft_mpi::constants;
use weft_mpi::settings::LINKS;

/// The commit that was built, as `packaging/commit.sh` says it; `make` and the packages pass it on.
pub(crate) const COMMIT: &str = match option_env!("WEFT_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// What a kernel must have: the first Linux that has it, and what it is for. Without the first row nothing
/// works; without another one, all but what it names.
const KERNEL: [(&str, &str); 5] = [
    ("3.17", "everything (memfd_create, getrandom); tested with 6.1 and newer"),
    ("4.18", "trains of datagrams that the kernel cuts (UDP_SEGMENT); otherwise packet by packet"),
    ("5.0", "trains of datagrams that the kernel joins (UDP_GRO); otherwise packet by packet"),
    ("5.7", "the link `verbs` keeps memory registered (userfaultfd)"),
    ("5.9", "the link `xdp`"),
];

/// The text of `weft --version`, without the program's name.
pub(crate) fn text() -> String {
    let links = LINKS.map(|(name, _)| name).join(", ");
    let (standard, abi) = standards();
    let mut out = format!(
        "{}\ncommit     {COMMIT}\nstandard   MPI {standard}, standard ABI {abi}\nlinks      {links}\n\
         launchers  mpiexec, PMI-1.1, PMIx, Slurm without a process manager\n\
         loaded     libfabric, rdma-core, PMIx: each when it is asked for\n",
        env!("CARGO_PKG_VERSION")
    );
    for (version, what) in KERNEL {
        out += &format!("Linux {version:5}{what}\n");
    }
    out.truncate(out.trim_end().len());
    out
}

/// The versions of `MPI_Get_version` and `MPI_Abi_get_version`.
pub(crate) fn standards() -> (String, String) {
    (
        format!("{}.{}", constants::MPI_VERSION, constants::MPI_SUBVERSION),
        format!("{}.{}", constants::MPI_ABI_VERSION, constants::MPI_ABI_SUBVERSION),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts take the second word of `weft version`.   Expect: it stands alone on the first line.
    #[test]
    fn the_first_line_is_the_version_and_every_link_is_named() {
        let text = text();
        assert_eq!(text.lines().next(), Some(env!("CARGO_PKG_VERSION")));
        assert!(LINKS.iter().all(|(name, _)| text.contains(name)) && text.contains(COMMIT));
        assert!(text.lines().all(|line| line.len() <= 110 && line == line.trim_end()), "{text}");
    }
}
